/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/plan/partners.h: the schedule, without StarPU. */
#include "runtime/plan/partners.h"

#include <stdbool.h>
#include <string.h>

#include "tests/support/test.h"

static const uint32_t counts[] = {1, 2, 3, 5, 6, 7, 8, 64, 256, 300};
#define N_COUNTS (sizeof counts / sizeof counts[0])
enum { MOST = 300 };

static const uint32_t straight[] = {0, 1, 2, 3, 4, 5, 6, 7};

static bool allowed(enum sl_sync topology, uint32_t n)
{
    return topology == SL_SYNC_DISSEMINATION || n == 1 || n % 2 == 0;
}

/* Permutation number `index` mod n, drawn from the first. */
static void permute(uint32_t n, uint64_t index, uint64_t seed, uint32_t *permutation_out)
{
    sl_gossip_permute(n, index, seed, &(struct sl_permutation){0, permutation_out});
}

static enum sl_status schedule(enum sl_sync topology, uint32_t n, uint64_t step, uint64_t seed,
                               struct sl_partners *partners_out)
{
    uint32_t nodes[MOST];
    return sl_gossip_schedule(topology, n, step, seed, &(struct sl_permutation){0, nodes}, partners_out);
}

TEST(test_refusals)
{
    struct sl_partners partners[MOST];
    for (size_t c = 0; c < N_COUNTS; c++) {
        assert_int_equal(sl_gossip_check(SL_SYNC_DISSEMINATION, counts[c]), SL_OK);
        assert_int_equal(sl_gossip_check(SL_SYNC_CUBE, counts[c]),
                         allowed(SL_SYNC_CUBE, counts[c]) ? SL_OK : SL_EINVAL);
    }
    assert_int_equal(schedule(SL_SYNC_CUBE, 5, 0, 1, partners), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "found 5 nodes, expected an even number"));
    assert_int_equal(sl_gossip_check(SL_SYNC_DISSEMINATION, 0), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "0 nodes"));
}

TEST(test_period)
{
    const uint32_t wanted[] = {1, 1, 2, 3, 3, 3, 3, 6, 8, 9};
    for (size_t c = 0; c < N_COUNTS; c++) {
        assert_int_equal(sl_gossip_period(counts[c]), wanted[c]);
    }
}

/* The pattern on 0, 1, 2, .., written out. */
TEST(test_pattern)
{
    struct sl_partners p[8];
    const uint32_t cube6[3][6] = {{1, 0, 3, 2, 5, 4}, {2, 3, 0, 1, 4, 5}, {4, 5, 2, 3, 0, 1}}; /* itself: idle */
    for (uint32_t j = 0; j < 3; j++) {
        sl_gossip_partners(SL_SYNC_CUBE, 6, straight, j, p);
        for (uint32_t b = 0; b < 6; b++) {
            assert_int_equal(p[b].to, cube6[j][b]);
            assert_int_equal(p[b].from, cube6[j][b]);
        }
        sl_gossip_partners(SL_SYNC_DISSEMINATION, 7, straight, j, p);
        for (uint32_t b = 0; b < 7; b++) {
            assert_int_equal(p[b].to, (b + (1u << j)) % 7);
            assert_int_equal(p[b].from, (b + 7 - (1u << j)) % 7);
        }
    }
    const uint32_t turned[] = {2, 0, 1}; /* node 2 stands first */
    sl_gossip_partners(SL_SYNC_DISSEMINATION, 3, turned, 0, p);
    assert_int_equal(p[2].to, 0);
    assert_int_equal(p[2].from, 1);
    assert_int_equal(p[1].to, 2);
    sl_gossip_partners(SL_SYNC_DISSEMINATION, 1, straight, 0, p);
    assert_true(p[0].to == 0 && p[0].from == 0);
}

static void expect_permutation(uint32_t n, const uint32_t *permutation)
{
    bool seen[MOST] = {false};
    for (uint32_t i = 0; i < n; i++) {
        assert_true(permutation[i] < n && !seen[permutation[i]]);
        seen[permutation[i]] = true;
    }
}

TEST(test_permutations)
{
    uint32_t a[MOST];
    uint32_t b[MOST];
    for (size_t c = 0; c < N_COUNTS; c++) {
        uint32_t n = counts[c];
        uint32_t n_moved = 0;
        for (uint64_t index = 0; index < n; index++) {
            permute(n, index, 2403, a);
            expect_permutation(n, a);
            permute(n, index + 5 * (uint64_t)n, 2403, b); /* used cyclically */
            assert_memory_equal(a, b, n * sizeof *a);
            permute(n, index + 1, 2403, b);
            n_moved += memcmp(a, b, n * sizeof *a) != 0;
        }
        assert_true(n < 5 || n_moved == n);
        permute(n, 0, 2403, a);
        permute(n, 0, 2404, b);
        assert_true(n < 5 || memcmp(a, b, n * sizeof *a) != 0);
    }
}

/* One after the other, skipping some, and after the last the first again: as drawn from the first. */
TEST(test_permutations_in_turn)
{
    uint32_t a[8];
    uint32_t b[8];
    struct sl_permutation permutation = {0, a};
    for (uint64_t index = 0; index < 40; index += 1 + index % 3) {
        sl_gossip_permute(8, index, 5, &permutation);
        permute(8, index, 5, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* A run that was begun with one version goes on with another. */
TEST(test_permutations_stay)
{
    const uint32_t wanted[2][8] = {{5, 3, 6, 1, 2, 0, 7, 4}, {2, 5, 3, 0, 1, 7, 4, 6}};
    uint32_t got[8];
    for (uint64_t index = 0; index < 2; index++) {
        permute(8, index, 1, got);
        assert_memory_equal(got, wanted[index], sizeof got);
    }
}

/* In every step each node sends to one and receives from one, and both agree on it; only a cube leaves nodes idle. */
TEST(test_matchings)
{
    struct sl_partners p[MOST];
    for (size_t c = 0; c < N_COUNTS; c++) {
        for (int t = SL_SYNC_DISSEMINATION; t <= SL_SYNC_CUBE; t++) {
            uint32_t n = counts[c];
            uint64_t n_steps = n > 8 ? 20 : 3 * (uint64_t)n * sl_gossip_period(n);
            for (uint64_t step = 0; allowed(t, n) && step < n_steps; step++) {
                uint32_t targets[MOST];
                assert_int_equal(schedule(t, n, step, 9, p), SL_OK);
                for (uint32_t b = 0; b < n; b++) {
                    targets[b] = p[b].to;
                }
                expect_permutation(n, targets);
                for (uint32_t b = 0; b < n; b++) {
                    assert_int_equal(p[p[b].to].from, b);
                    assert_true(t == SL_SYNC_CUBE ? p[b].to == p[b].from : n == 1 || p[b].to != b);
                }
            }
        }
    }
}

/* One permutation for the R steps of a period, then the next: once a step, none left out, the first one used. */
TEST(test_rotation)
{
    for (size_t c = 0; counts[c] <= 8; c++) {
        for (int t = SL_SYNC_DISSEMINATION; t <= SL_SYNC_CUBE; t++) {
            uint32_t n = counts[c];
            uint64_t step = 0;
            for (uint64_t index = 0; allowed(t, n) && index < 2 * (uint64_t)n; index++) {
                uint32_t permutation[8];
                permute(n, index % n, 3, permutation);
                for (uint32_t j = 0; j < sl_gossip_period(n); j++, step++) {
                    struct sl_partners got[8];
                    struct sl_partners wanted[8];
                    assert_int_equal(schedule(t, n, step, 3, got), SL_OK);
                    sl_gossip_partners(t, n, permutation, j, wanted);
                    assert_memory_equal(got, wanted, n * sizeof *got);
                }
            }
        }
    }
}

/* After a period everything has come to everyone; on a cube where n is a power of two. */
TEST(test_reach)
{
    for (size_t c = 0; counts[c] <= 8; c++) {
        for (int t = SL_SYNC_DISSEMINATION; t <= SL_SYNC_CUBE; t++) {
            uint32_t n = counts[c];
            uint32_t known[8] = {1, 2, 4, 8, 16, 32, 64, 128}; /* by node: whose share it holds */
            if (t == SL_SYNC_CUBE && (n & (n - 1)) != 0) {
                continue;
            }
            for (uint64_t step = 0; step < sl_gossip_period(n); step++) {
                struct sl_partners p[8];
                uint32_t before[8];
                memcpy(before, known, sizeof before);
                assert_int_equal(schedule(t, n, step, 4, p), SL_OK);
                for (uint32_t b = 0; b < n; b++) {
                    known[b] |= before[p[b].from];
                }
            }
            for (uint32_t b = 0; b < n; b++) {
                assert_int_equal(known[b], (1u << n) - 1);
            }
        }
    }
}

TEST_MAIN(NULL, NULL)
