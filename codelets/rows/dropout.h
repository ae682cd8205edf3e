/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The dropout mask says which entries of a row are kept. It is a pure function of (seed, step, hop, vertex, column),
 * the same on host and device.
 *
 * One Philox call serves 8 columns, 16 bits each. So a rate is rounded to a multiple of 2^-16. The scale of the kept
 * entries belongs to the rounded rate: the expectation is exact.
 */
#ifndef SL_CODELETS_DROPOUT_H
#define SL_CODELETS_DROPOUT_H

#include "support/random.h"
#include "support/status.h"

/* Most entries and most rows of one sl_dropout_keep call. Each row takes a multiple of 64 entries. */
#define SL_DROPOUT_BLOCK 256
#define SL_DROPOUT_ROWS (SL_DROPOUT_BLOCK / 64)

/* An entry is dropped if its 16 bits are below the threshold. rate in [0, 1). */
static inline SL_HOST_DEVICE uint32_t sl_dropout_threshold(double rate)
{
    return (uint32_t)(rate * 65536.0 + 0.5);
}

/* The factor of kept entries. The threshold must be below 65536. */
static inline SL_HOST_DEVICE double sl_dropout_scale(uint32_t threshold)
{
    return 65536.0 / (65536.0 - (double)threshold);
}

/* The bits of columns 8 * group .. 8 * group + 7 of a vertex's row. vertex: the dataset's id. */
static inline SL_HOST_DEVICE void sl_dropout_bits(const struct sl_draw *draw, uint32_t vertex, uint32_t group,
                                                  uint16_t out[8])
{
    uint32_t r[4];
    sl_random4(draw, vertex, group, r);
    for (int i = 0; i < 4; i++) {
        out[2 * i] = (uint16_t)r[i];
        out[2 * i + 1] = (uint16_t)(r[i] >> 16);
    }
}

/* Which of the 8 columns are kept: bit i is column 8 * group + i. */
static inline SL_HOST_DEVICE uint32_t sl_dropout_mask(const struct sl_draw *draw, uint32_t vertex, uint32_t group,
                                                      uint32_t threshold)
{
    uint32_t r[4];
    uint32_t mask = 0;
    sl_random4(draw, vertex, group, r);
    for (int i = 0; i < 4; i++) {
        mask |= (uint32_t)((r[i] & 0xffff) >= threshold) << 2 * i;
        mask |= (uint32_t)((r[i] >> 16) >= threshold) << (2 * i + 1);
    }
    return mask;
}

/* Host: the stride in bytes between rows in the output of sl_dropout_keep, for n columns. */
static inline uint32_t sl_dropout_stride(uint32_t n)
{
    return (n + 63) / 64 * 64;
}

/* Host: rows of n columns per sl_dropout_keep call, at least 1. 1 if a row needs several calls. */
static inline uint32_t sl_dropout_rows(uint32_t n)
{
    return n > SL_DROPOUT_BLOCK / 2 ? 1 : SL_DROPOUT_BLOCK / sl_dropout_stride(n);
}

/* Host: masks of columns first .. first + n - 1 of n_rows vertices. keep_out[r * sl_dropout_stride(n) + c] is 1 if
 * entry c of row r is kept, else 0, as by sl_dropout_bits. first is a multiple of 8. n is at most SL_DROPOUT_BLOCK,
 * n_rows at most sl_dropout_rows(n). The padding entries become undefined. */
void sl_dropout_keep(const struct sl_draw *draw, uint32_t n_rows, const uint32_t *vertices, uint32_t threshold,
                     uint32_t first, uint32_t n, uint8_t keep_out[SL_DROPOUT_BLOCK]);

#endif
