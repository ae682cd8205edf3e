/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/ends/reduce.h: sums in a tree, to the bit, of none, one and many partials. */
#include "codelets/ends/reduce.h"

#include "tests/support/starpu_fixture.h"

/* Sizes of very different magnitude, so that another order gives other bits. */
static sl_real *partial(size_t n, uint64_t seed)
{
    sl_real *x = noisy(n, seed);
    for (size_t i = 0; i < n; i++) {
        x[i] *= (sl_real)pow(10, (double)((seed * 7 + i) % 9) - 4);
    }
    return x;
}

#define MOST 600

/* The leaves of n terms. */
enum leaves { ONE, OWN, BACKWARDS, GAPS, N_LEAVES };

static void make_leaves(enum leaves how, uint32_t n, uint32_t leaf[MOST])
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t of[] = {[ONE] = 5, [OWN] = i, [BACKWARDS] = 2 * MOST - i, [GAPS] = i * 7919 % 1000};
        leaf[i] = of[how];
    }
}

/* Entry e of the sum of leaves first .. first + 2^bits - 1. */
static sl_real sum_of(uint32_t n, const uint32_t *leaf, uint32_t first, uint32_t bits, sl_real *const *partials,
                      size_t e)
{
    if (bits > 0) {
        const sl_real left = sum_of(n, leaf, first, bits - 1, partials, e);
        return left + sum_of(n, leaf, first + (1u << (bits - 1)), bits - 1, partials, e);
    }
    sl_real sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (leaf[i] == first) {
            sum += partials[i][e];
        }
    }
    return sum;
}

static void sum_tree(uint32_t n, const uint32_t *leaf, size_t n_entries, sl_real *const *partials, sl_real *out)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (leaf[i] >> bits != 0) {
            bits++;
        }
    }
    for (size_t e = 0; e<n_entries; e += n_entries> 100 ? 37 : 1) {
        out[e] = sum_of(n, leaf, 0, bits, partials, e);
    }
}

static void make_partials(uint32_t n, size_t n_entries, sl_real *partials[MOST])
{
    for (uint32_t i = 0; i < n; i++) {
        partials[i] = partial(n_entries, i + 1);
    }
}

static void free_partials(uint32_t n, sl_real *partials[MOST])
{
    for (uint32_t i = 0; i < n; i++) {
        free(partials[i]);
    }
}

/* shift: entries by which the addresses miss 16 bytes. */
static void check(uint32_t n, enum leaves how, uint32_t n_rows, uint32_t n_columns, uint32_t shift)
{
    uint32_t leaf[MOST];
    const size_t n_entries = (size_t)n_rows * n_columns;
    static sl_real *partials[MOST], *shifted[MOST];
    static starpu_data_handle_t h[MOST];
    FREED sl_real *got = poisoned(n_entries + shift);
    FREED sl_real *wanted = poisoned(n_entries);
    starpu_data_handle_t sum = rows_of(got + shift, n_rows, n_columns);
    make_partials(n, n_entries + shift, partials);
    make_leaves(how, n, leaf);
    for (uint32_t i = 0; i < n; i++) {
        shifted[i] = partials[i] + shift;
        shifted[i][n_entries - 1] = (sl_real)-0.0; /* no sum is -0 */
        h[i] = rows_of(shifted[i], n_rows, n_columns);
    }
    expect_ok(sl_reduce_submit(&head, n, h, leaf, sum));
    unregister(n, h);
    unregister(1, &sum);
    sum_tree(n, leaf, n_entries, shifted, wanted);
    for (size_t e = 0; e<n_entries; e += n_entries> 100 ? 37 : 1) {
        expect_same("sum", 1, sizeof *got, got + shift + e, wanted + e);
    }
    assert_true(shift == 0 || got[0] == (sl_real)-12345.5);
    free_partials(n, partials);
}

TEST(sums)
{
    const uint32_t counts[] = {0, 1, 2, 7, 8, 9, 256, 257, MOST}; /* more than one launch takes */
    const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {2, 4}, {1, 1023}, {32, 32}, {1, 1025}, {41, 33}, {5001, 1}};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (size_t s = 0; s < (counts[c] < 10 ? 8 : 3); s++) {
                for (int how = 0; how < N_LEAVES; how++) {
                    check(counts[c], (enum leaves)how, sizes[s][0], sizes[s][1], (uint32_t)how % 2);
                    check(counts[c], (enum leaves)how, sizes[s][0], sizes[s][1], 0);
                }
            }
        }
        expect_no_failure();
        fixture_stop();
    }
}

/* ---- touched rows ---- */

#define STEPS 4
#define COLUMNS 33

/* Step t touches few rows of partial i, none in some blocks of rows; all other rows are zero. */
static bool touches(uint32_t t, uint32_t i, uint32_t r)
{
    return noise(100 * t + 10 * i + 1, r) > 0.8;
}

static void fill_touched(uint32_t t, uint32_t n, uint32_t n_rows, sl_real *const *partials, int8_t *const *touched)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t r = 0; r < n_rows; r++) {
            touched[i][r] = touches(t, i, r);
            for (uint32_t c = 0; c < COLUMNS; c++) {
                partials[i][(size_t)r * COLUMNS + c] = touched[i][r] ? (sl_real)noise(r + t, c + i) : 0;
            }
        }
    }
}

static const uint32_t leaf_of[] = {0, 2, 2};

static void submit_touched(uint32_t n, bool fresh, sl_real *const *partials, int8_t *const *touched, sl_real *out,
                           int8_t *out_touched)
{
    starpu_data_handle_t handles[MOST];
    starpu_data_handle_t notes[MOST];
    starpu_data_handle_t sum = rows_of(out, 701, COLUMNS);
    starpu_data_handle_t noted = sl_matrix_over(out_touched, 1, 701, SL_DTYPE_I8);
    for (uint32_t i = 0; i < n; i++) {
        handles[i] = rows_of(partials[i], 701, COLUMNS);
        notes[i] = sl_matrix_over(touched[i], 1, 701, SL_DTYPE_I8);
    }
    const struct sl_touched_sum request = {n, handles, notes, leaf_of, sum, noted, fresh};
    expect_ok(sl_reduce_touched_submit(&head, &request));
    unregister(n, handles);
    unregister(n, notes);
    unregister(1, &sum);
    unregister(1, &noted);
}

/* Step after step, the sum has the bits of the whole sum, and its notes are those of the partials. Step 2 has none. */
TEST(touched_rows)
{
    sl_real *partials[3];
    int8_t *touched[3];
    FREED sl_real *got = poisoned(701 * COLUMNS);
    FREED sl_real *wanted = poisoned(701 * COLUMNS);
    int8_t noted[701];
    memset(noted, 55, sizeof noted);
    for (uint32_t i = 0; i < 3; i++) {
        partials[i] = poisoned(701 * COLUMNS);
        touched[i] = need(701, sizeof *touched[i]);
    }
    fixture_start(2);
    for (uint32_t t = 0; t < STEPS; t++) {
        const uint32_t n = t == 2 ? 0 : 3;
        fill_touched(t, 3, 701, partials, touched);
        submit_touched(n, t == 0, partials, touched, got, noted);
        for (size_t e = 0; e < 701 * COLUMNS; e++) {
            wanted[e] = n == 0 ? 0 : sum_of(n, leaf_of, 0, 2, partials, e);
        }
        expect_same("sum of touched rows", 701 * COLUMNS, sizeof *got, got, wanted);
        for (uint32_t r = 0; r < 701; r++) {
            const bool any = touches(t, 0, r) || touches(t, 1, r) || touches(t, 2, r);
            assert_true(noted[r] != 0 || n == 0 || !any);
#ifndef SL_CUDA /* a GPU notes all rows */
            assert_true(noted[r] == 0 || (n > 0 && any));
#endif
        }
    }
    expect_no_failure();
    fixture_stop();
    for (uint32_t i = 0; i < 3; i++) {
        free(partials[i]);
        free(touched[i]);
    }
}

TEST(a_task_without_memory)
{
    fixture_start(1);
    sl_memory_ration(1); /* for the submission; the task has none */
    sl_real x = 1, sum = 0;
    starpu_data_handle_t h[] = {rows_of(&x, 1, 1), rows_of(&sum, 1, 1)};
    expect_ok(sl_reduce_submit(&head, 1, &h[0], leaf_of, h[1]));
    UNREGISTER(h);
    sl_memory_ration(-1);
    assert_int_equal(sl_failure_status(&run.failure), SL_ENOMEM);
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
