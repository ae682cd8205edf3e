/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/pipe/exact_loss.h and chunk_graph.h: when checks are due, at which losses the guard fires, and what an
 * order of chunks has to be.
 */
#include "tests/support/kernel.h"

#include <math.h>
#include <string.h>

#include "runtime/pipe/exact_loss.h"

/* ---- the guard ---- */

static struct sl_guard of_four(void)
{
    return sl_guard_of(log(4));
}

TEST(test_first)
{
    assert_true(of_four().guess == log(4));
    assert_true(of_four().least == of_four().guess);
}

/* After the epochs R - 1, 2 R - 1, .., but no more often than every tenth. */
TEST(test_due)
{
    for (uint64_t epoch = 0; epoch < 100; epoch++) {
        assert_int_equal(sl_guard_due(epoch, 23), epoch == 22 || epoch == 45 || epoch == 68 || epoch == 91);
        assert_int_equal(sl_guard_due(epoch, 1), epoch % 10 == 9);
        assert_int_equal(sl_guard_due(epoch, 10), epoch % 10 == 9);
    }
}

TEST(test_fires)
{
    struct sl_guard g = of_four();
    double h = g.guess;
    assert_true(sl_guard_check(&g, 22, 23, NAN, 0.5 * h));
    g = of_four();
    assert_true(sl_guard_check(&g, 22, 23, 0.5 * h, INFINITY));
    g = of_four();
    assert_true(sl_guard_check(&g, 22, 23, 0.75 * h, 0.96 * h)); /* behind, and no better than chance */
    g = of_four();
    assert_false(sl_guard_check(&g, 22, 23, 0.1 * h, 0.5 * h));  /* behind, but better than ever */
    assert_true(sl_guard_check(&g, 45, 23, 0.1 * h, 0.5 * h));   /* no longer better */
    assert_false(sl_guard_check(&g, 45, 23, 0.31 * h, 0.5 * h)); /* not far behind */
    g = of_four();
    assert_false(sl_guard_check(&g, 68, 23, 0.96 * h, 0.96 * h)); /* guessing, but early: 3 R is 69 */
    assert_true(sl_guard_check(&g, 69, 23, 0.96 * h, 0.96 * h));
    g = of_four();
    assert_false(sl_guard_check(&g, 49, 10, 0.96 * h, 0.96 * h)); /* 50 at the least */
    assert_true(sl_guard_check(&g, 50, 10, 0.96 * h, 0.96 * h));
    assert_true(sl_guard_good(&g, 0.89 * h) && !sl_guard_good(&g, 0.91 * h));
    g = sl_guard_of(0); /* equal targets: no loss to compare with */
    assert_false(sl_guard_check(&g, 99, 23, 0.1, 0.2));
    assert_true(sl_guard_check(&g, 109, 23, NAN, 0.2));
}

/* ---- orders ---- */

#define CHUNKS 24

/* Each way takes each of its chunks once, and every chunk knows its slot. */
static void expect_order(const struct sl_pipe_order *o)
{
    uint32_t seen[CHUNKS] = {0};
    for (uint32_t t = 0; t < o->n_slots; t++) {
        for (uint32_t way = 0; way < o->n_ways; way++) {
            uint32_t chunk = o->chunk[t * o->n_ways + way];
            assert_int_equal(chunk / o->n_slots, way);
            assert_int_equal(o->slot_of[chunk], t);
            seen[chunk]++;
        }
    }
    for (uint32_t c = 0; c < o->n_chunks; c++) {
        assert_int_equal(seen[c], 1);
    }
}

TEST(test_orders)
{
    static const uint32_t ways[] = {1, 2, 3, 8, 24};
    uint32_t chunk[CHUNKS];
    uint32_t slot_of[CHUNKS];
    for (int w = 0; w < 5; w++) {
        struct sl_pipe_order o = {CHUNKS, ways[w], CHUNKS / ways[w], chunk, slot_of};
        uint32_t before[CHUNKS];
        sl_pipe_order_draw(&o, false, 1, 0);
        expect_order(&o);
        assert_int_equal(chunk[0], 0);
        assert_int_equal(slot_of[CHUNKS - 1], o.n_slots - 1);
        sl_pipe_order_draw(&o, true, 1, 5);
        expect_order(&o);
        memcpy(before, chunk, sizeof chunk);
        sl_pipe_order_draw(&o, true, 1, 6);
        assert_int_equal(memcmp(before, chunk, sizeof chunk) != 0, o.n_slots > 1); /* another epoch, another order */
        sl_pipe_order_draw(&o, true, 1, 5);
        assert_memory_equal(before, chunk, sizeof chunk);
    }
}

/* Over many epochs each chunk stands at each place about as often. */
TEST(test_orders_are_even)
{
    enum { EPOCHS = 8000, N = 5 };
    uint32_t chunk[N];
    uint32_t slot_of[N];
    uint32_t counts[N][N] = {{0}};
    struct sl_pipe_order o = {N, 1, N, chunk, slot_of};
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        sl_pipe_order_draw(&o, true, 7, epoch);
        for (uint32_t c = 0; c < N; c++) {
            counts[c][slot_of[c]]++;
        }
    }
    for (uint32_t c = 0; c < N; c++) {
        for (uint32_t t = 0; t < N; t++) {
            assert_in_range(counts[c][t], EPOCHS / N - 180, EPOCHS / N + 180); /* five standard deviations */
        }
    }
}

TEST_MAIN(NULL, NULL)
