/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/reduce.h: sums in order, to the bit, of none, one and many partials. */
#include "codelets/reduce.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* Sizes of very different magnitude, so that another order gives other bits. */
static sl_real *partial(size_t n, uint64_t seed)
{
    sl_real *x = noisy(n, seed);
    for (size_t i = 0; i < n; i++) {
        x[i] *= (sl_real)pow(10, (double)((seed * 7 + i) % 9) - 4);
    }
    return x;
}

static void sum_in_order(uint32_t n, size_t n_entries, sl_real *const *partials, sl_real *out)
{
    for (size_t e = 0; e < n_entries; e++) {
        out[e] = n > 0 ? partials[0][e] : 0;
        for (uint32_t i = 1; i < n; i++) {
            out[e] += partials[i][e];
        }
    }
}

#define MOST 30

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

static void test_kernel(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, 2, 5, MOST};
    const size_t sizes[] = {1, 7, 1023, 1024, 1025, 5000};
    for (int c = 0; c < 4; c++) {
        for (int s = 0; s < 6; s++) {
            sl_real *partials[MOST];
            sl_real *got = poisoned(sizes[s]);
            sl_real *wanted = poisoned(sizes[s]);
            make_partials(counts[c], sizes[s], partials);
            sum_in_order(counts[c], sizes[s], partials, wanted);
            sl_reduce_cpu(counts[c], sizes[s], (const sl_real *const *)partials, got);
            expect_same("sum", sizes[s], sizeof *got, got, wanted);
            free_partials(counts[c], partials);
            free(got);
            free(wanted);
        }
    }
}

#ifdef SL_CUDA
/* The bits of the CPU; `shift`: entries by which the addresses miss 16 bytes. */
static void check_launcher(uint32_t n, size_t n_entries, size_t shift)
{
    size_t bytes = (n_entries + shift) * sizeof(sl_real);
    sl_real **partials = need(n, sizeof *partials);
    const sl_real **on_gpu = need(n, sizeof *on_gpu);
    sl_real *got = poisoned(n_entries + shift);
    sl_real *wanted = poisoned(n_entries);
    for (uint32_t i = 0; i < n; i++) {
        partials[i] = partial(n_entries + shift, i + 1);
        partials[i][n_entries + shift > 0 ? n_entries + shift - 1 : 0] = (sl_real)-0.0; /* zeros keep their sign */
        on_gpu[i] = (const sl_real *)on_device(partials[i], bytes) + shift;
        memmove(partials[i], partials[i] + shift, n_entries * sizeof(sl_real));
    }
    sl_real *out = on_device(got, bytes);
    sum_in_order(n, n_entries, partials, wanted);
    expect_launched(sl_reduce_cuda(NULL, n, n_entries, on_gpu, out + shift));
    from_device(got, out, bytes);
    expect_same("sum", n_entries, sizeof *got, got + shift, wanted);
    assert_true(shift == 0 || got[0] == (sl_real)-12345.5);
    for (uint32_t i = 0; i < n; i++) {
        free(partials[i]);
        cudaFree((void *)(uintptr_t)(on_gpu[i] - shift));
    }
    free(partials);
    free(on_gpu);
    free(got);
    free(wanted);
}

static void test_launcher(void **state)
{
    (void)state;
    const uint32_t counts[] = {0, 1, 2, 9, 256, 257, 600}; /* more than one launch takes */
    const size_t sizes[] = {0, 1, 7, 8, 1024, 5001};
    need_device();
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (counts[c] < 10 || sizes[s] < 10) {
                check_launcher(counts[c], sizes[s], 0);
                check_launcher(counts[c], sizes[s], 1);
            }
        }
    }
}
#endif

enum { ROWS = 41, COLUMNS = 33 };

static sl_real *through_starpu(uint32_t n, sl_real *partials[MOST])
{
    sl_real *out = poisoned(ROWS * COLUMNS);
    starpu_data_handle_t handles[MOST];
    starpu_data_handle_t sum = rows_of(out, ROWS, COLUMNS);
    for (uint32_t i = 0; i < n; i++) {
        handles[i] = rows_of(partials[i], ROWS, COLUMNS);
    }
    expect_ok(sl_reduce_submit(&head, n, handles, sum));
    unregister(n, handles);
    unregister(1, &sum);
    return out;
}

static void test_submission(void **state)
{
    (void)state;
    const uint32_t counts[] = {0, 1, 7, 8, MOST};
    sl_real *partials[MOST];
    sl_real *wanted = poisoned(ROWS * COLUMNS);
    make_partials(MOST, ROWS * COLUMNS, partials);
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (int c = 0; c < 5; c++) {
            sl_real *got = through_starpu(counts[c], partials);
            sum_in_order(counts[c], ROWS * COLUMNS, partials, wanted);
            expect_same("sum", ROWS * COLUMNS, sizeof *got, got, wanted);
            free(got);
        }
        expect_no_failure();
        fixture_stop();
    }
    free_partials(MOST, partials);
    free(wanted);
}

/* ---- touched rows ---- */

#define STEPS 4

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

static starpu_data_handle_t notes_of(int8_t *touched, uint32_t n)
{
    starpu_data_handle_t handle;
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)touched, n, n, 1, sizeof *touched);
    return handle;
}

static void submit_touched(uint32_t n, bool fresh, sl_real *const *partials, int8_t *const *touched, sl_real *out,
                           int8_t *out_touched)
{
    starpu_data_handle_t handles[MOST];
    starpu_data_handle_t notes[MOST];
    starpu_data_handle_t sum = rows_of(out, 701, COLUMNS);
    starpu_data_handle_t noted = notes_of(out_touched, 701);
    for (uint32_t i = 0; i < n; i++) {
        handles[i] = rows_of(partials[i], 701, COLUMNS);
        notes[i] = notes_of(touched[i], 701);
    }
    const struct sl_touched_sum request = {n, handles, notes, sum, noted, fresh};
    expect_ok(sl_reduce_touched_submit(&head, &request));
    unregister(n, handles);
    unregister(n, notes);
    unregister(1, &sum);
    unregister(1, &noted);
}

/* Step after step, the sum has the bits of the whole sum, and its notes are those of the partials. Step 2 has none. */
static void test_touched(void **state)
{
    (void)state;
    sl_real *partials[3];
    int8_t *touched[3];
    sl_real *got = poisoned(701 * COLUMNS);
    sl_real *wanted = poisoned(701 * COLUMNS);
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
        sum_in_order(n, 701 * COLUMNS, partials, wanted);
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
    free(got);
    free(wanted);
}

static void test_failure(void **state)
{
    (void)state;
    sl_real *partials[MOST];
    make_partials(2, ROWS * COLUMNS, partials);
    fixture_start(1);
    sl_memory_ration(0);
    free(through_starpu(2, partials));
    sl_memory_ration(-1);
    assert_int_equal(sl_failure_status(&run.failure), SL_ENOMEM);
    sl_real *out = through_starpu(2, partials);
    expect_still(out[0], (sl_real)-12345.5);
    fixture_stop();
    free(out);
    free_partials(2, partials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submission), cmocka_unit_test(test_touched), cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
