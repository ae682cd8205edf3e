/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/philox.h: the words of many counters are those of each. */
/* The source, not the header: this processor takes but one of its ways to draw, and all are tested. */
#include "support/philox.c"

#include <string.h>

#include "tests/support/test.h"

static struct sl_draw draw_of(uint32_t trial)
{
    return (struct sl_draw){.seed = UINT64_C(0x9e3779b97f4a7c15) * trial,
                            .step = UINT64_C(0xabcdef012345) * trial % (UINT64_C(1) << 48),
                            .purpose = 1 + trial % 255,
                            .hop = trial * 7 % 256};
}

static void make_vertices(uint32_t trial, uint32_t *vertices)
{
    for (uint32_t l = 0; l < LANES; l++) {
        vertices[l] = l % 3 == 0 ? UINT32_MAX - trial * l : trial * 1000003 + l;
    }
}

static void check_words(const char *way, const struct sl_draw *draw, const uint32_t *vertices, uint32_t number,
                        uint32_t words[4][LANES])
{
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t wanted[4];
        sl_random4(draw, vertices[l], number, wanted);
        for (int w = 0; w < 4; w++) {
            if (words[w][l] != wanted[w]) {
                fail_msg("%s: word %d of lane %u: found %u, expected %u", way, w, l, words[w][l], wanted[w]);
            }
        }
    }
}

/* Seeds and steps beyond 32 bits, draws of any number. */
TEST(test_words)
{
    for (uint32_t trial = 0; trial < 1000; trial++) {
        const struct sl_draw draw = draw_of(trial);
        const struct sl_philox_common at = sl_philox_common(&draw);
        const uint32_t number = trial % 2 == 0 ? trial / 2 : UINT32_MAX - trial;
        uint32_t vertices[LANES], words[4][LANES];
        make_vertices(trial, vertices);
        words_plain(&at, vertices, number, words);
        check_words("plain", &draw, vertices, number, words);
#if SL_HAVE_X86
        if (__builtin_cpu_supports("avx2")) {
            memset(words, 0, sizeof words);
            words_avx2(&at, vertices, number, words);
            check_words("AVX2", &draw, vertices, number, words);
        }
        if (__builtin_cpu_supports("avx512f")) {
            memset(words, 0, sizeof words);
            words_avx512(&at, vertices, number, words);
            check_words("AVX-512", &draw, vertices, number, words);
        }
#endif
        memset(words, 0, sizeof words);
        sl_random4_lanes(&draw, vertices, number, words);
        check_words("the one taken", &draw, vertices, number, words);
    }
}

TEST_MAIN(NULL, NULL)
