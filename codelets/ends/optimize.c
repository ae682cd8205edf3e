/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Adam, by entry or by row. By entry both devices are bound by streams of memory: partials, weights and moments are
 * read, the latter two written. On a CPU a block of the gradient stays in the cache; the kernel of GPUs is in
 * optimize_cuda.cu. By row a CPU fetches the next touched rows ahead, because they are far apart. */
#include "codelets/ends/optimize.h"

/* ---- kernels ---- */

/* Update a row, unless its gradient is zero. */
SL_DEVICE void update_row(const struct sl_adam_step *step, uint32_t n, const sl_real *restrict gradient,
                          sl_real *restrict w, sl_real *restrict m, sl_real *restrict v)
{
    int found = 0; /* a bool would keep the loop from being vectorised */
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        found |= gradient[c] != 0;
    }
    if (sl_warp_max(found) != 0) {
        for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
            sl_adam_entry(step, gradient[c], &w[c], &m[c], &v[c]);
        }
    }
}

#ifdef SL_KERNELS_ONLY

static __global__ void update_rows(struct sl_adam_step step, uint32_t n_rows, uint32_t n_columns,
                                   const sl_real *restrict gradient, const int8_t *restrict touched,
                                   sl_real *restrict w, sl_real *restrict m, sl_real *restrict v)
{
    for (uint64_t r = sl_warp(); r < n_rows; r += sl_n_warps()) {
        const size_t first = r * n_columns;
        if (touched == NULL || touched[r] != 0) {
            update_row(&step, n_columns, gradient + first, w + first, m + first, v + first);
        }
    }
}

#else

#include <assert.h>

#include "codelets/ends/reduce.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define AHEAD 8    /* touched rows that are fetched ahead */
#define BLOCK 1024 /* entries */

SL_CLONES static void update(const struct sl_adam_step *step, size_t n, const sl_real *restrict gradient,
                             sl_real *restrict w, sl_real *restrict m, sl_real *restrict v)
{
    for (size_t i = 0; i < n; i++) {
        sl_adam_entry(step, gradient[i], &w[i], &m[i], &v[i]);
    }
}

void sl_optimize_cpu(const struct sl_adam *adam, uint32_t n, const struct sl_optimize_array *arrays)
{
    const struct sl_adam_step step = sl_adam_step(adam);
    sl_real block[BLOCK];
    for (const struct sl_optimize_array *a = arrays; a < arrays + n; a++) {
        for (size_t first = 0; first < a->n_entries; first += BLOCK) {
            const size_t end = sl_min_u64(a->n_entries, first + BLOCK);
            sl_real *gradient = a->sum == NULL ? block : a->sum + first;
            sl_reduce_range(a->n, first, end, a->partials, a->leaf, gradient);
            update(&step, end - first, gradient, a->w + first, a->m + first, a->v + first);
        }
    }
}

SL_INLINE uint32_t next_row(const int8_t *touched, uint32_t r, uint32_t n_rows)
{
    return touched == NULL ? r : sl_next_touched(touched, r, n_rows);
}

SL_CLONES static void update_rows(struct sl_adam_step step, uint32_t n_rows, uint32_t n_columns,
                                  const sl_real *gradient, const int8_t *touched, sl_real *w, sl_real *m, sl_real *v)
{
    const size_t bytes = n_columns * sizeof *w;
    uint32_t ahead = next_row(touched, 0, n_rows), n_ahead = 0;
    for (uint32_t r = ahead; r < n_rows; r = next_row(touched, r + 1, n_rows)) {
        for (; n_ahead < AHEAD && ahead < n_rows; n_ahead++) {
            const size_t first = (size_t)ahead * n_columns;
            sl_row_fetch(gradient + first, bytes);
            sl_row_fetch(w + first, bytes);
            sl_row_fetch(m + first, bytes);
            sl_row_fetch(v + first, bytes);
            ahead = next_row(touched, ahead + 1, n_rows);
        }
        n_ahead--;
        const size_t first = (size_t)r * n_columns;
        update_row(&step, n_columns, gradient + first, w + first, m + first, v + first);
    }
}

#endif

SL_LAUNCHER(sl_optimize_rows, const struct sl_adam *adam, uint32_t n_rows, uint32_t n_columns, const sl_real *gradient,
            const int8_t *touched, sl_real *w, sl_real *m, sl_real *v)
{
    return SL_LAUNCH("sl_optimize: rows", sl_warp_blocks(n_rows), update_rows, sl_adam_step(adam), n_rows, n_columns,
                     gradient, touched, w, m, v);
}

#ifndef SL_KERNELS_ONLY
/* ---- operations ---- */

struct optimize {
    struct sl_task_args head;
    struct sl_matrices sum;      /* each is optional */
    struct sl_matrices w, m, v;  /* the numbers of w: matrices with partials; of m: columns */
    struct sl_matrices partials; /* array by array; the numbers: leaves */
    struct sl_matrix touched;    /* optional, and only by rows */
    uint32_t n;                  /* partials in all matrices */
    bool by_rows;
    struct sl_adam adam;
};

static enum sl_status optimize(const void *view, const void *stream)
{
    const struct optimize *o = view;
    struct sl_optimize_array arrays[SL_OPTIMIZE_MOST];
    SL_FREED const sl_real **partials = NULL;
    SL_FREED uint32_t *leaf = NULL;
    uint32_t n = 0;
    uint32_t first = 0;
    if (o->by_rows) {
        return SL_RUN(stream, sl_optimize_rows, &o->adam, o->w.n_rows[0], o->m.numbers[0], o->partials.data[0],
                      o->touched.data, o->w.data[0], o->m.data[0], o->v.data[0]);
    }
    SL_CHECK(sl_alloc(o->n, sizeof *partials, "the partials of a sum", &partials));
    SL_CHECK(sl_alloc(o->n, sizeof *leaf, "the leaves of a sum", &leaf));
    for (uint32_t i = 0; i < o->w.n; i++) {
        const uint32_t n_rows = o->w.n_rows[i], n_columns = o->m.numbers[i], end = first + o->w.numbers[i];
        arrays[i] = (struct sl_optimize_array){
            .n_entries = (size_t)n_rows * n_columns,
            .n = sl_reduce_list(&o->partials, first, end, n_rows, n_columns, partials + n, leaf + n),
            .partials = partials + n,
            .leaf = leaf + n,
            .sum = o->sum.data[i],
            .w = o->w.data[i],
            .m = o->m.data[i],
            .v = o->v.data[i]};
        n += arrays[i].n;
        first = end;
    }
    return SL_RUN(stream, sl_optimize, &o->adam, o->w.n, arrays);
}

static struct sl_operation optimize_op = {
    SL_OPERATION(optimize_op, "sl_optimize", SL_STAGE_OPTIMISE),
    SL_BODY(optimize, struct optimize),
    .role = {{"sum", STARPU_W | SL_REPEATED | SL_OPTIONAL, offsetof(struct optimize, sum), "? x ?"},
             {"w", STARPU_RW | SL_REPEATED, offsetof(struct optimize, w), "? x ?"},
             {"m", STARPU_RW | SL_REPEATED, offsetof(struct optimize, m), "? x ?"},
             {"v", STARPU_RW | SL_REPEATED, offsetof(struct optimize, v), "? x ?"},
             {"partials", STARPU_R | SL_REPEATED, offsetof(struct optimize, partials), "? x ?"},
             {"touched rows", STARPU_R | SL_OPTIONAL, offsetof(struct optimize, touched), "1 x D", SL_INTS_8}},
};

/* ---- submissions ---- */

enum sl_status sl_optimize_submit(const struct sl_task_args *head, const struct sl_adam *adam, uint32_t n,
                                  const struct sl_optimize_handles *arrays)
{
    starpu_data_handle_t sum[SL_OPTIMIZE_MOST], w[SL_OPTIMIZE_MOST], m[SL_OPTIMIZE_MOST], v[SL_OPTIMIZE_MOST];
    uint32_t n_matrices[SL_OPTIMIZE_MOST], n_columns[SL_OPTIMIZE_MOST], room = 0;
    SL_FREED starpu_data_handle_t *partials = NULL;
    SL_FREED uint32_t *leaf = NULL;
    struct optimize o = {.head = *head, .adam = *adam, .by_rows = n == 1 && arrays->by_rows};
    assert(adam->t != 0 && n <= SL_OPTIMIZE_MOST);
    for (uint32_t i = 0; i < n; i++) {
        room += arrays[i].n;
    }
    SL_CHECK(sl_alloc(room, sizeof *partials, "the partials of an update", &partials));
    SL_CHECK(sl_alloc(room, sizeof *leaf, "the leaves of an update", &leaf));
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_optimize_handles *a = &arrays[i];
        sum[i] = a->sum;
        w[i] = a->w;
        m[i] = a->m;
        v[i] = a->v;
        n_matrices[i] = a->n;
        n_columns[i] = sl_handle_columns(a->w);
        for (uint32_t k = 0; k < a->n; k++, o.partials.n++) {
            assert(sl_handle_rows(a->partials[k]) % sl_handle_rows(a->w) == 0);
            o.n += sl_handle_rows(a->partials[k]) / sl_handle_rows(a->w);
            partials[o.partials.n] = a->partials[k];
            leaf[o.partials.n] = a->leaf[k];
        }
    }
    o.sum = (struct sl_matrices){.n = n, .handles = sum};
    o.w = (struct sl_matrices){.n = n, .handles = w, .numbers = n_matrices};
    o.m = (struct sl_matrices){.n = n, .handles = m, .numbers = n_columns};
    o.v = (struct sl_matrices){.n = n, .handles = v};
    o.touched = sl_matrix_of(o.by_rows ? arrays->touched : NULL);
    o.partials.handles = partials;
    o.partials.numbers = leaf;
    return sl_view_submit(&optimize_op, &o, SL_PRIORITY_SEND);
}

#endif
