/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The plain kernel, the choice of a kernel, and products in stretches. */
#include "codelets/rows/rowwise.h"

#include <stdbool.h>
#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"

/* ---- the plain kernel ---- */

#define COLUMNS 64 /* columns of C that are summed at a time */

/* sum = columns j .. j + n - 1 of row i. */
SL_INLINE void sum_columns(const struct sl_rowwise_stretch *s, uint32_t i, uint32_t j, uint32_t n, sl_real sum[COLUMNS])
{
    const sl_real *a = s->a + i * s->width_a;
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t l = 0; l < s->k; l++) {
        const sl_real *b = s->b + l * s->width_b + j;
        for (uint32_t c = 0; c < n; c++) {
            sum[c] += a[l] * b[c];
        }
    }
}

SL_CLONES static void multiply_plainly(const struct sl_rowwise_stretch *s)
{
    for (uint32_t i = 0; i < s->m; i++) {
        for (uint32_t j = 0; j < s->n; j += COLUMNS) {
            const uint32_t n = sl_min_u32(s->n - j, COLUMNS);
            sl_real sum[COLUMNS];
            sl_real *c = s->c + i * s->width_c + j;
            sum_columns(s, i, j, n, sum);
            for (uint32_t k = 0; k < n; k++) {
                c[k] = s->beta ? c[k] + sum[k] : sum[k];
            }
        }
    }
}

/* ---- the kernels of this processor ---- */

#ifdef SL_ROWWISE_X86
static const struct sl_rowwise_kernel avx512 = {"AVX-512", sl_rowwise_avx512};
static const struct sl_rowwise_kernel avx2 = {"AVX2", sl_rowwise_avx2};
#endif
static const struct sl_rowwise_kernel plain = {"plain loops", multiply_plainly};

const struct sl_rowwise_kernel *sl_rowwise_kernel(uint32_t i)
{
    const struct sl_rowwise_kernel *kernel[3];
    uint32_t n = 0;
#ifdef SL_ROWWISE_X86
    if (__builtin_cpu_supports("avx512f")) {
        kernel[n++] = &avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        kernel[n++] = &avx2;
    }
#endif
    kernel[n++] = &plain;
    return i < n ? kernel[i] : NULL;
}

/* ---- products ---- */

#define SPAN 512 /* columns of B that are copied at a time */
#define SIDE 16  /* of a square that is transposed at a time */

/* The square at `from`, transposed. n_rows, n_columns: of the copy, whose rows are `stride` apart. */
SL_INLINE void transpose_square(const sl_real *from, size_t width, uint32_t n_rows, uint32_t n_columns, size_t stride,
                                sl_real *to)
{
    for (uint32_t l = 0; l < n_rows; l++) {
        for (uint32_t j = 0; j < n_columns; j++) {
            to[l * stride + j] = from[j * width + l];
        }
    }
}

/* to [k x n] = the transpose of `from`. */
SL_CLONES static void transpose(const sl_real *from, size_t width, uint32_t k, uint32_t n, size_t stride, sl_real *to)
{
    for (uint32_t l = 0; l < k; l += SIDE) {
        for (uint32_t j = 0; j < n; j += SIDE) {
            const sl_real *corner = from + j * width + l;
            sl_real *square = to + l * stride + j;
            if (k - l >= SIDE && n - j >= SIDE) {
                transpose_square(corner, width, SIDE, SIDE, stride, square);
            } else {
                transpose_square(corner, width, sl_min_u32(k - l, SIDE), sl_min_u32(n - j, SIDE), stride, square);
            }
        }
    }
}

/* B of a stretch, in place or, if there is room for it, as a copy with rows of `stride`. */
static void take_b(const struct sl_rowwise_product *p, uint32_t l, uint32_t j, size_t stride, sl_real *room,
                   struct sl_rowwise_stretch *s)
{
    const size_t width = p->width_b;
    if (room == NULL) {
        s->b = p->b + l * width + j;
        s->width_b = width;
        return;
    }
    if (p->b_is_transposed) {
        transpose(p->b + j * width + l, width, s->k, s->n, stride, room);
    } else {
        for (uint32_t row = 0; row < s->k; row++) {
            memcpy(room + row * stride, p->b + (l + row) * width + j, s->n * sizeof *room);
        }
    }
    s->b = room;
    s->width_b = stride;
}

enum sl_status sl_rowwise_multiply(const struct sl_rowwise_kernel *kernel, const struct sl_rowwise_product *p)
{
    sl_real *room = NULL;
    /* Whole squares. A copy no larger than B needs is small, and malloc keeps small blocks at hand. */
    const size_t stride = ((size_t)sl_min_u32(p->n, SPAN) + SIDE - 1) / SIDE * SIDE;
    if (p->b_is_transposed || p->n > SPAN) {
        const size_t n = sl_min_u32(p->k, SL_ROWWISE_DEPTH) * stride;
        SL_CHECK(sl_alloc(n, sizeof *room, "the copy of a factor", &room));
    }
    for (uint32_t j = 0; j < p->n; j += SPAN) {
        for (uint32_t l = 0; l < p->k; l += SL_ROWWISE_DEPTH) {
            struct sl_rowwise_stretch stretch = {.m = p->m,
                                                 .n = sl_min_u32(p->n - j, SPAN),
                                                 .k = sl_min_u32(p->k - l, SL_ROWWISE_DEPTH),
                                                 .a = p->a + l,
                                                 .c = p->c + j,
                                                 .width_a = p->width_a,
                                                 .width_c = p->n,
                                                 .beta = p->beta || l > 0};
            take_b(p, l, j, stride, room, &stretch);
            kernel->multiply(&stretch);
        }
    }
    sl_free(room);
    return SL_OK;
}
