/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The dropout mask for many columns at once: Philox 4x32-10 on lanes side by side, so that the compiler vectorises over them. */
#include "codelets/dropout.h"

#include "support/real.h"

#define LANES (SL_DROPOUT_BLOCK / 8) /* of 8 columns each */
#define ROUNDS 10

/* The words of the groups first, first + 1, .. of a vertex's row, group by group: sl_random4 for all lanes. */
static inline void philox_lanes(const struct sl_draw *where, uint32_t vertex, uint32_t first,
                                uint32_t words_out[4 * LANES])
{
    uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
    uint32_t key0 = (uint32_t)where->seed;
    uint32_t key1 = (uint32_t)(where->seed >> 32);
    for (uint32_t l = 0; l < LANES; l++) {
        x0[l] = vertex;
        x1[l] = first + l;
        x2[l] = (uint32_t)where->step;
        x3[l] = (uint32_t)(where->step >> 32) | where->hop << 16 | where->purpose << 24;
    }
#pragma GCC unroll 10
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t l = 0; l < LANES; l++) {
            uint64_t p = (uint64_t)PHILOX_M4x32_0 * x0[l];
            uint64_t q = (uint64_t)PHILOX_M4x32_1 * x2[l];
            x0[l] = (uint32_t)(q >> 32) ^ x1[l] ^ key0;
            x1[l] = (uint32_t)q;
            x2[l] = (uint32_t)(p >> 32) ^ x3[l] ^ key1;
            x3[l] = (uint32_t)p;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        words_out[4 * l] = x0[l];
        words_out[4 * l + 1] = x1[l];
        words_out[4 * l + 2] = x2[l];
        words_out[4 * l + 3] = x3[l];
    }
}

static inline void compare_words(uint32_t n, const uint32_t *restrict words, uint32_t threshold, uint8_t *restrict keep)
{
    for (uint32_t i = 0; i < n; i++) {
        keep[2 * i] = (words[i] & 0xffff) >= threshold;
        keep[2 * i + 1] = (words[i] >> 16) >= threshold;
    }
}

enum sl_status sl_dropout_check(const char *name, double rate, uint32_t *threshold_out)
{
    if (!(rate >= 0 && rate < 1) || sl_dropout_threshold(rate) > 65535) {
        return sl_fail(SL_EINVAL, "%s: dropout %.9g; expected at least 0 and at most 0.9999", name, rate);
    }
    *threshold_out = sl_dropout_threshold(rate);
    return SL_OK;
}

SL_CLONES void sl_dropout_keep(const struct sl_draw *where, uint32_t vertex, uint32_t threshold, uint32_t first,
                               uint32_t n, uint8_t keep_out[SL_DROPOUT_BLOCK])
{
    uint32_t words[4 * LANES];
    uint32_t n_groups = (n + 7) / 8;
    if (n_groups > LANES / 2) {
        philox_lanes(where, vertex, first / 8, words);
    } else {
        for (uint32_t g = 0; g < n_groups; g++) {
            sl_random4(where, vertex, first / 8 + g, words + 4 * g);
        }
    }
    compare_words(4 * n_groups, words, threshold, keep_out);
}
