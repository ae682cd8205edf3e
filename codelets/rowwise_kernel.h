/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The kernel of codelets/rowwise.h for one instruction set. The file that includes it defines
 *
 *   TARGET                 the attribute of a function that may use the instructions
 *   LANES, vector          numbers of a vector, and its type
 *   some, choose(n)        the first n lanes, 1 <= n < LANES
 *   load, load_some        of a vector; the other lanes are 0
 *   store, store_some      likewise; the other lanes are not written
 *   repeat(x), fused(a, b, c)   x in all lanes; a * b + c, rounded once
 *   ROWS, VECTORS          of a tile: the registers have room for ROWS x VECTORS sums, VECTORS vectors of B, one of A
 *
 * A tile of C stays in registers. Its rows of A are read number by number, so A needs no copy. Its rows of C, and the
 * rows of A of the next tile, are fetched ahead.
 */
#ifndef SL_CODELETS_ROWWISE_KERNEL_H
#define SL_CODELETS_ROWWISE_KERNEL_H

#include <stdbool.h>

#include "codelets/rowwise.h"

#define TOGETHER 3 /* rows whose addresses are one pointer plus a multiple of the width */

/* Part of a tile: n_rows rows, n_vectors vectors. The last vector is whole, or has the lanes `last`. */
struct tile {
    uint32_t row, column;
    uint32_t n_rows, n_vectors;
    bool is_whole;
    some last;
};

/* The shape of the tile is a constant at compile time. */
TARGET SL_INLINE void multiply_tile(const struct sl_rowwise_stretch *s, const struct tile t)
{
    const sl_real *b = s->b + t.column;
    const sl_real *const end = b + s->k * s->width_b;
    const size_t width = s->width_a;
    const sl_real *a[(ROWS + TOGETHER - 1) / TOGETHER];
    vector sum[ROWS][VECTORS];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < t.n_rows; i++) {
        a[i / TOGETHER] = s->a + (t.row + i / TOGETHER * TOGETHER) * width;
#pragma GCC unroll 4
        for (uint32_t v = 0; v < t.n_vectors; v++) {
            sum[i][v] = repeat(0);
            __builtin_prefetch(s->c + (t.row + i) * s->width_c + t.column + v * LANES, 1);
        }
    }
    for (; b < end; b += s->width_b) {
        vector y[VECTORS];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < t.n_vectors; v++) {
            const bool is_whole = t.is_whole || v + 1 < t.n_vectors;
            y[v] = is_whole ? load(b + v * LANES) : load_some(b + v * LANES, t.last);
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < t.n_rows; i++) {
            const vector x = repeat(a[i / TOGETHER][i % TOGETHER * width]);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < t.n_vectors; v++) {
                sum[i][v] = fused(x, y[v], sum[i][v]);
            }
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < t.n_rows; i += TOGETHER) {
            a[i / TOGETHER]++;
        }
    }
#pragma GCC unroll 16
    for (uint32_t i = 0; i < t.n_rows; i++) {
        sl_real *c = s->c + (t.row + i) * s->width_c + t.column;
#pragma GCC unroll 4
        for (uint32_t v = 0; v < t.n_vectors; v++, c += LANES) {
            const bool is_whole = t.is_whole || v + 1 < t.n_vectors;
            if (s->beta) {
                sum[i][v] += is_whole ? load(c) : load_some(c, t.last);
            }
            if (is_whole) {
                store(c, sum[i][v]);
            } else {
                store_some(c, t.last, sum[i][v]);
            }
        }
    }
}

/* n_vectors vectors of a row, or fewer lanes. */
TARGET SL_INLINE void multiply_end(const struct sl_rowwise_stretch *s, const uint32_t n_rows, const uint32_t n_vectors,
                                   uint32_t row, uint32_t column)
{
    struct tile tile = {row, column, n_rows, n_vectors, true, choose(1)};
    if ((s->n - column) % LANES == 0) {
        multiply_tile(s, tile);
    } else {
        tile.is_whole = false;
        tile.last = choose((s->n - column) % LANES);
        multiply_tile(s, tile);
    }
}

/* n_rows rows of C; n_rows is a constant. */
TARGET SL_INLINE void multiply_rows(const struct sl_rowwise_stretch *s, const uint32_t n_rows, uint32_t row)
{
    uint32_t j = 0;
    for (uint32_t i = row + n_rows; i < row + 2 * n_rows && i < s->m; i++) {
        for (uint32_t l = 0; l < s->k; l += 64 / sizeof(sl_real)) {
            __builtin_prefetch(s->a + i * s->width_a + l);
        }
    }
    for (; s->n - j > VECTORS * LANES; j += VECTORS * LANES) {
        const struct tile tile = {row, j, n_rows, VECTORS, true, choose(1)};
        multiply_tile(s, tile);
    }
    if (s->n - j > 2 * LANES) {
        multiply_end(s, n_rows, VECTORS, row, j);
    } else if (s->n - j > LANES) {
        multiply_end(s, n_rows, 2, row, j);
    } else {
        multiply_end(s, n_rows, 1, row, j);
    }
}

TARGET static void multiply_stretch(const struct sl_rowwise_stretch *s)
{
    uint32_t i = 0;
    for (; i + ROWS <= s->m; i += ROWS) {
        multiply_rows(s, ROWS, i);
    }
    for (; i + 4 <= s->m; i += 4) {
        multiply_rows(s, 4, i);
    }
    for (; i + 2 <= s->m; i += 2) {
        multiply_rows(s, 2, i);
    }
    if (i < s->m) {
        multiply_rows(s, 1, i);
    }
}

#endif
