/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tests/bench/floor.h against figures worked out by hand. */
#include "tests/bench/floor.h"

#include <math.h>
#include <string.h>

#include "tests/support/test.h"

/* Two layers, 6 to 8 and 8 to 3: the first averages its input, the second hidden rows. Two steps of two PEs, in two
 * chunks. */
static const struct bench_shape small = {.n_layers = 2,
                                         .width = {6, 8, 3},
                                         .n_vertices = 1000,
                                         .n_parts = 2,
                                         .n_edges = 5000,
                                         .n_steps = 2,
                                         .n_pes = 2,
                                         .n_chunks = 2,
                                         .vertices = {10, 40, 100},
                                         .edges = {30, 90},
                                         .references = {25, 70},
                                         .remote = {5, 14},
                                         .draws = {7, 31}};

static struct bench_floor counted;

static double units_of(const char *codelet, bool of_floor)
{
    double sum = 0;
    for (uint32_t i = 0; i < counted.n; i++) {
        const struct bench_work *work = &counted.work[i];
        sum += strcmp(work->codelet, codelet) != 0 ? 0 : of_floor ? work->floor_units : work->units;
    }
    return sum;
}

/* Units of one kind that a codelet does. */
static double units_of_limit(const char *codelet, enum bench_limit limit)
{
    double sum = 0;
    for (uint32_t i = 0; i < counted.n; i++) {
        const struct bench_work *work = &counted.work[i];
        sum += strcmp(work->codelet, codelet) == 0 && work->limit == limit ? work->units : 0;
    }
    return sum;
}

/* Equal but for rounding. */
static void expect_equal(const char *label, double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected))) {
        fail_msg("%s: found %.17g, expected %.17g", label, found, expected);
    }
}

/* Units that a codelet moves, and those that are in the floor. */
static void expect(const char *codelet, double units, double floor_units)
{
    expect_equal(codelet, units_of(codelet, false), units);
    expect_equal(codelet, units_of(codelet, true), floor_units);
}

/* The number-th work of a codelet has this shape. */
static void expect_shape(const char *codelet, int number, uint32_t m, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < counted.n; i++) {
        const struct bench_work *work = &counted.work[i];
        if (strcmp(work->codelet, codelet) == 0 && number-- == 0) {
            assert_int_equal(work->m, m);
            assert_int_equal(work->n, n);
            assert_int_equal(work->k, k);
            return;
        }
    }
    fail_msg("%s has no such work", codelet);
}

TEST(products)
{
    bench_floor_count(&small, &counted);
    /* layer 0: self and mean rows, 2 * 40 * 6 * 8 each; layer 1: 2 * 10 * 8 * 3 each, though it narrows */
    expect("sl_dense_forward", 2 * 3840 + 2 * 480, 8640);
    expect("sl_dense_backward_weight", 2 * 3840 + 2 * 480, 8640);
    expect("sl_dense_backward_input", 2 * 480, 960); /* not at the first layer */
    expect_shape("sl_dense_forward", 0, 40 / 8, 8, 6);
    expect_shape("sl_dense_forward", 2, 10 / 8, 3, 8);
    expect_shape("sl_dense_forward", 3, 10 / 8, 3, 8);
    expect_shape("sl_dense_backward_weight", 0, 6, 8, 40 / 8);
    expect_shape("sl_dense_backward_input", 1, 10 / 8, 8, 3);
}

TEST(rows)
{
    bench_floor_count(&small, &counted);
    expect("sl_gather", 8 * 6 * 40, 1920); /* means of layer 0 read the table */
    expect("sl_aggregate_forward", 4 * 6 * (90 + 40) + 4 * 8 * (30 + 10), 4400);
    /* layer 1 alone goes back: 1280 bytes, a fifth of them from the other PE */
    expect("sl_aggregate_backward", 4 * 8 * (6 + 5), 256);
    expect("sl_accumulate", 4 * 8 * (24 + 5 + 40), 1024);
    expect("sl_pack", 8 * 6 * 14 + 8 * 8 * 5, 0);
    expect_shape("sl_gather", 0, 40 / 8, 6, 500);
    expect_shape("sl_aggregate_forward", 0, 90 / 8, 6, 500);
    expect_shape("sl_aggregate_forward", 1, 30 / 8, 8, 40 / 4);
    expect_shape("sl_accumulate", 0, 24 / 8, 8, 10 / 4);
    expect_shape("sl_pack", 0, 14 / 8, 6, 500);
    expect_shape("sl_pack", 1, 1, 8, 40 / 4);
    struct bench_shape groups = small; /* of two PEs each */
    groups.n_pes = 4;
    bench_floor_count(&groups, &counted);
    expect_shape("sl_gather", 0, 40 / 16, 6, 500);
    expect_shape("sl_aggregate_forward", 0, 90 / 16, 6, 500);
}

TEST(sampling)
{
    bench_floor_count(&small, &counted);
    expect_equal("lines", units_of_limit("sl_sample", BENCH_LINES), (2 * 10 + 30) + (2 * 40 + 90));
    expect_equal("draws", units_of_limit("sl_sample", BENCH_DRAWS), 7 + 31);
    expect_equal("marks", units_of_limit("sl_sample", BENCH_MARKS), 30 + 90);
    expect_equal("order", units_of_limit("sl_sample", BENCH_ORDER), 30 + 90);
    expect_equal("writing", units_of_limit("sl_sample", BENCH_COPY), 4 * (10 + 30 + 2 * 25) + 4 * (40 + 90 + 2 * 70));
    expect_equal("sl_sample in the floor", units_of("sl_sample", true), 220);
    expect("sl_merge", 16 * 25 + 16 * 70, 1520);
    expect_shape("sl_sample", 0, 1, 1, (8 * 1000 + 4 * 5000) / 2 / 64);
    expect_shape("sl_sample", 2, 90 / 4, 1, 1000);
    expect_shape("sl_sample", 3, 90 / 4, 1, 70 / 4);
    expect_shape("sl_sample", 4, 1, 1, 4 * (40 + 90 + 2 * 70) / 2 / 4);
    expect_shape("sl_merge", 0, 1, 1, 16 * 70 / 2 / 4);
}

/* Counted for their rates, but not in the floor. 155 parameters, two steps, four partials. */
TEST(others)
{
    bench_floor_count(&small, &counted);
    expect("sl_activate_forward", 9 * 40 * 8, 0);
    expect("sl_activate_backward", 9 * 40 * 8, 0);
    expect("sl_loss", 8 * 10 * 3, 0);
    expect("sl_optimize", 4 * 2 * 155 * 11, 0);
}

/* 18240 flops, 7600 bytes of rows, 220 lines, 1520 bytes of copy, at rates that tell them apart. */
TEST(seconds)
{
    double rates[BENCH_MAX_WORK];
    bench_floor_count(&small, &counted);
    for (uint32_t i = 0; i < counted.n; i++) {
        enum bench_limit limit = counted.work[i].limit;
        rates[i] = limit == BENCH_ROWS ? 4 : limit == BENCH_LINES ? 5 : limit == BENCH_COPY ? 8 : 2;
    }
    expect_equal("seconds", bench_floor_seconds(&counted, rates), 9120 + 1900 + 44 + 190);
}

/* Input rows as CSR, 200 entries in 100 of them: nothing is gathered, and the first layer projects first though it
 * widens. */
TEST(sparse)
{
    struct bench_shape shape = small;
    shape.is_sparse = true;
    shape.n_nonzeros = 200;
    bench_floor_count(&shape, &counted);
    double products = (4 * (80 + 40) * 8 + 8 * 80) + (4 * (200 + 100) * 8 + 8 * 200);
    expect("sl_gather", 0, 0);
    expect("sl_dense_sparse_forward", products, products);
    expect("sl_dense_sparse_backward_weight", products, products);
    expect("sl_dense_forward", 2 * 480, 960);
    double averaged = 4 * 8 * (90 + 40) + 4 * 8 * (30 + 10);
    expect("sl_aggregate_forward", averaged, averaged);
    double back = units_of("sl_accumulate", true) + units_of("sl_aggregate_backward", true);
    expect_equal("backward", back, averaged);
}

/* An epoch without a vertex has no work, and still shapes that can be measured; the largest model fits. */
TEST(extremes)
{
    struct bench_shape shape = {.n_layers = SL_MAX_LAYERS, .n_vertices = 1, .n_parts = 1, .n_steps = 1, .n_pes = 1};
    shape.n_chunks = 1;
    for (int i = 0; i <= SL_MAX_LAYERS; i++) {
        shape.width[i] = 1;
    }
    bench_floor_count(&shape, &counted);
    double rates[BENCH_MAX_WORK] = {0};
    assert_true(bench_floor_seconds(&counted, rates) == 0);
    for (uint32_t i = 0; i < counted.n; i++) {
        const struct bench_work *work = &counted.work[i];
        assert_true(work->m >= 1 && work->n >= 1 && work->k >= 1);
    }
}

TEST_MAIN(NULL, NULL)
