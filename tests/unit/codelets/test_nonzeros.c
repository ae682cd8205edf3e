/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/nonzeros.h: sums of row lengths, beyond 2^32 too, of frontiers and parts that may be empty; the
 * submission. */
#include "codelets/sampling/nonzeros.h"

#include "codelets/sampling/sample.h"
#include "tests/support/starpu_fixture.h"

#define FIRST 700 /* the part's first id */

/* A part's row lengths and a frontier. No row has entries: only the offsets are read. */
struct case_ {
    uint32_t n_part;
    uint64_t *offsets;
    uint32_t n_rows;
    sl_vertex *ids;
};

/* Up to longest - 1 entries a row, some with none, and from anywhere on; the frontier: n_rows of the part's rows,
 * out of order. */
static struct case_ make_case(uint32_t n_part, uint32_t n_rows, uint64_t longest, uint64_t seed)
{
    struct case_ c = {.n_part = n_part, .n_rows = n_rows};
    c.offsets = need((size_t)n_part + 1, sizeof *c.offsets);
    c.ids = need(n_part, sizeof *c.ids);
    c.offsets[0] = 13;
    for (uint32_t v = 0; v < n_part; v++) {
        double u = noise(seed, v);
        c.offsets[v + 1] = c.offsets[v] + (u < 0 ? 0 : (uint64_t)(u * (double)longest));
        c.ids[v] = FIRST + n_part - 1 - v;
    }
    for (uint32_t v = 0; v + 1 < n_part; v += 2) {
        sl_vertex id = c.ids[v];
        c.ids[v] = c.ids[n_part / 2 + v / 2];
        c.ids[n_part / 2 + v / 2] = id;
    }
    return c;
}

static void free_case(struct case_ *c)
{
    free(c->offsets);
    free(c->ids);
}

/* Row by row, halves apart, so that a carry that is lost shows. */
static uint64_t by_the_book(const struct case_ *c)
{
    uint64_t low = 0;
    uint64_t high = 0;
    for (uint32_t i = 0; i < c->n_rows; i++) {
        uint64_t length = c->offsets[c->ids[i] - FIRST + 1] - c->offsets[c->ids[i] - FIRST];
        low += length & UINT32_MAX;
        high += length >> 32;
    }
    return low + (high << 32);
}

/* Parts, frontiers and lengths: none, one, around a warp, beyond a block, the whole part; the sums of the last rows
 * are long. */
static const struct {
    uint32_t n_part, n_rows;
    uint64_t longest;
} shapes[] = {
    {0, 0, 0},       {1, 0, 9},   {1, 1, 9},        {90, 31, 50},       {90, 32, 50},
    {90, 33, 13000}, {90, 90, 1}, {3000, 1700, 40}, {40, 25, 1u << 31}, {300, 300, UINT64_C(1) << 44},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static uint64_t nonzeros_of(uint32_t n_rows, const sl_vertex *ids, const uint64_t *offsets)
{
    uint64_t n = 77;
    sl_nonzeros_cpu(n_rows, &n_rows, ids, FIRST, offsets, &n);
    return n;
}

/* Written by hand: two rows of 2^32 - 1 entries and one of two are 2^33. */
TEST(carry)
{
    const uint64_t offsets[] = {5, UINT64_C(0x100000004), UINT64_C(0x100000004), UINT64_C(0x200000003),
                                UINT64_C(0x200000005)};
    const sl_vertex ids[] = {FIRST + 2, FIRST + 3, FIRST + 1, FIRST};
    assert_int_equal(nonzeros_of(4, ids, offsets), UINT64_C(1) << 33);
    assert_int_equal(nonzeros_of(3, ids, offsets), (UINT64_C(1) << 32) + 1);
    assert_int_equal(nonzeros_of(0, ids, offsets), 0);
}

/* ---- the submission ---- */

enum { MAX_COUNTS = 64 };

/* What a sample of n_hops hops in a group of n_parts has counted: each number another one, but for the frontier's
 * rows. */
static uint32_t fill_counts(const struct case_ *c, uint32_t n_hops, uint32_t n_parts, uint32_t *counts)
{
    uint32_t n = sl_counts_size(n_hops, n_parts);
    assert_true(n <= MAX_COUNTS);
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = 0xee000000u + i;
    }
    counts[sl_counts_rows(n_hops)] = c->n_rows;
    return n;
}

/* Twice, as in a slot's next step: the second sum is not added to the first. */
static void check_submission(const struct case_ *c, uint32_t n_hops, uint32_t n_parts)
{
    _Alignas(uint64_t) uint32_t got[MAX_COUNTS];
    uint32_t wanted[MAX_COUNTS];
    uint64_t n = by_the_book(c);
    uint32_t n_counts = fill_counts(c, n_hops, n_parts, got);
    struct sl_task_args here = head;
    here.hop = n_hops;
    memcpy(wanted, got, n_counts * sizeof *got);
    memcpy(wanted + sl_counts_nonzeros(n_hops, n_parts), &n, sizeof n);
    /* As a slot and the shards have them: vectors of at least one element. */
    starpu_data_handle_t h[] = {vector_of(c->ids, c->n_part == 0 ? 1 : c->n_part, sizeof *c->ids),
                                vector_of(c->offsets, c->n_part + 1, sizeof *c->offsets),
                                vector_of(got, n_counts, sizeof *got)};
    for (int i = 0; i < 2; i++) {
        expect_ok(sl_nonzeros_submit(&here, n_parts, h[0], FIRST, h[1], h[2]));
    }
    UNREGISTER(h);
    expect_same("counts", n_counts, sizeof *got, got, wanted);
}

TEST(sums)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        for (size_t i = 0; i < N_SHAPES; i++) {
            OWNED(free_case) struct case_ c = make_case(shapes[i].n_part, shapes[i].n_rows, shapes[i].longest, i);
            assert_true(i + 2 < N_SHAPES || by_the_book(&c) > UINT32_MAX);
            check_submission(&c, 1, 1); /* the place is next to what else is counted */
            check_submission(&c, 1, 2); /* with a gap */
            check_submission(&c, 3, 4);
        }
        expect_no_failure();
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
