/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/score.h: counts per set and class, ties, what is not a number, margins, the submission. */
#include "codelets/score.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

static uint64_t count(const uint64_t *counts, uint32_t n_classes, uint32_t set, uint32_t class, uint32_t kind)
{
    return counts[((size_t)set * n_classes + class) * 3 + kind];
}

/* Rows written by hand. */
static void test_counts(void **state)
{
    (void)state;
    const sl_real none = (sl_real)NAN;
    const sl_real z[] = {
        3,    1,    2,  /* answer 0, right, train */
        1,    5,    5,  /* tie: answer 1; class 2, train */
        -3,   -2,   -1, /* answer 2, right, test */
        0,    none, 9,  /* not a number: class 2 without an answer, test */
        none, 0,    1,  /* the same, class 1, valid */
        7,    7,    7,  /* tie: answer 0, right, in no set */
        9,    0,    0,  /* unknown class: not counted */
    };
    const uint8_t sets[] = {SL_SET_TRAIN, SL_SET_TRAIN, SL_SET_TEST, SL_SET_TEST,
                            SL_SET_VALID, SL_SET_NONE,  SL_SET_NONE};
    const int32_t labels[] = {0, 2, 2, 2, 1, 0, -1};
    uint64_t counts[SL_N_SETS * 3 * 3];
    uint64_t sum = 0;
    memset(counts, 0xff, sizeof counts);
    sl_score_cpu(7, 3, z, sets, labels, counts, NULL);
    const uint32_t ones[][3] = {
        {SL_SET_TRAIN, 0, 0}, {SL_SET_TRAIN, 0, 1}, {SL_SET_TRAIN, 0, 2}, {SL_SET_TRAIN, 2, 1},
        {SL_SET_TRAIN, 1, 2}, {SL_SET_TEST, 2, 0},  {SL_SET_TEST, 2, 2},  {SL_SET_VALID, 1, 1},
        {SL_SET_NONE, 0, 0},  {SL_SET_NONE, 0, 1},  {SL_SET_NONE, 0, 2},
    };
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        assert_int_equal(count(counts, 3, ones[i][0], ones[i][1], ones[i][2]), 1);
    }
    assert_int_equal(count(counts, 3, SL_SET_TEST, 2, 1), 2);
    for (size_t i = 0; i < SL_N_SETS * 9; i++) {
        sum += counts[i];
    }
    assert_int_equal(sum, sizeof ones / sizeof ones[0] + 2); /* and nothing else */
}

static void test_no_rows(void **state)
{
    (void)state;
    uint64_t counts[SL_N_SETS * 2 * 3];
    memset(counts, 0xff, sizeof counts);
    sl_score_cpu(0, 2, NULL, NULL, NULL, counts, NULL);
    for (size_t i = 0; i < SL_N_SETS * 6; i++) {
        assert_int_equal(counts[i], 0);
    }
}

static void test_margins(void **state)
{
    (void)state;
    const sl_real z[] = {1, 3, 2, -5};
    const uint8_t sets[] = {1, 2};
    const int32_t labels[] = {1, -1};
    uint64_t counts[SL_N_SETS * 2 * 3];
    float margins[2] = {0};
    sl_score_cpu(2, 2, z, sets, labels, counts, margins);
    assert_true(margins[0] == 2 && margins[1] == -7);
}

#ifdef SL_CUDA
/* Few different logits, so that many tie; some of them no number, some labels unknown. */
static void check_launcher(uint32_t n_rows, uint32_t n_classes)
{
    size_t n_counts = (size_t)SL_N_SETS * n_classes * SL_N_COUNTS;
    sl_real *z = noisy((size_t)n_rows * n_classes, 8);
    uint8_t *sets = need(n_rows, 1);
    int32_t *labels = need(n_rows, sizeof *labels);
    uint64_t *got = need(n_counts, sizeof *got);
    uint64_t *wanted = need(n_counts, sizeof *wanted);
    float *margins = need(n_rows, sizeof *margins);
    float *margins_wanted = need(n_rows, sizeof *margins);
    for (size_t i = 0; i < (size_t)n_rows * n_classes; i++) {
        z[i] = i % 211 == 17 ? (sl_real)NAN : (sl_real)floor((double)z[i] * 4) - 5;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        sets[i] = (uint8_t)(i * 7 % 5); /* 4 is no set */
        labels[i] = (int32_t)(i * 5 % (n_classes + 1)) - 1;
    }
    sl_real *z_device = on_device(z, (size_t)n_rows * n_classes * sizeof *z);
    uint8_t *sets_device = on_device(sets, n_rows);
    int32_t *labels_device = on_device(labels, n_rows * sizeof *labels);
    uint64_t *counts_device = device_room(n_counts * sizeof *got);
    float *margins_device = n_classes == 2 ? device_room(n_rows * sizeof *margins) : NULL;
    sl_score_cpu(n_rows, n_classes, z, sets, labels, wanted, n_classes == 2 ? margins_wanted : NULL);
    expect_launched(
        sl_score_cuda(NULL, n_rows, n_classes, z_device, sets_device, labels_device, counts_device, margins_device));
    from_device(got, counts_device, n_counts * sizeof *got);
    expect_same("counts", n_counts, sizeof *got, got, wanted);
    if (n_classes == 2) {
        from_device(margins, margins_device, n_rows * sizeof *margins);
        for (uint32_t i = 0; i < n_rows; i++) { /* of which not a number is one, whatever its bits */
            assert_true(margins[i] == margins_wanted[i] || (isnan(margins[i]) && isnan(margins_wanted[i])));
        }
    }
    cudaFree(z_device);
    cudaFree(sets_device);
    cudaFree(labels_device);
    free(z);
    free(sets);
    free(labels);
    free(got);
    free(wanted);
    free(margins);
    free(margins_wanted);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    check_launcher(0, 3);
    check_launcher(1, 1);
    check_launcher(200, 2);
    check_launcher(90, 31);
    check_launcher(90, 33);
    check_launcher(300, 172);
}
#endif

/* ---- the submission ---- */

enum { PART = 60, ROW0 = 17, D = 30, C = 2, N_COUNTS = SL_N_SETS * C * SL_N_COUNTS };

struct data {
    sl_real *z;
    uint8_t sets[PART];
    int32_t labels[PART];
    uint64_t counts[N_COUNTS];
    float margins[D];
};

static struct data *make_data(void)
{
    struct data *d = need(1, sizeof *d);
    d->z = noisy(D * C, 1);
    for (uint32_t v = 0; v < PART; v++) {
        d->sets[v] = (uint8_t)(v * 5 % 4);
        d->labels[v] = (int32_t)(v * 3 % 5 % 2);
    }
    memset(d->counts, 0xee, sizeof d->counts);
    return d;
}

static void free_data(struct data *d)
{
    free(d->z);
    free(d);
}

static void with_starpu(struct data *d, int with_margins)
{
    starpu_data_handle_t h[] = {rows_of(d->z, D, C), vector_of(d->sets, PART, 1), vector_of(d->labels, PART, 4),
                                vector_of(d->counts, N_COUNTS, 8), vector_of(d->margins, D, 4)};
    expect_ok(sl_score_submit(&head, h[0], h[1], h[2], ROW0, h[3], with_margins ? h[4] : NULL));
    UNREGISTER(h);
}

static void test_submission(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (int with_margins = 0; with_margins < 2; with_margins++) {
            struct data *got = make_data();
            struct data *wanted = make_data();
            with_starpu(got, with_margins);
            sl_score_cpu(D, C, wanted->z, wanted->sets + ROW0, wanted->labels + ROW0, wanted->counts,
                         with_margins ? wanted->margins : NULL);
            expect_same("counts", N_COUNTS, sizeof *got->counts, got->counts, wanted->counts);
            expect_same("margins", D, sizeof *got->margins, got->margins, wanted->margins);
            free_data(got);
            free_data(wanted);
        }
        expect_no_failure();
        fixture_stop();
    }
}

static void test_failure(void **state)
{
    (void)state;
    struct data *d = make_data();
    struct data *before = make_data();
    fixture_start(1);
    fixture_fail();
    with_starpu(d, 1);
    fixture_stop();
    expect_unwritten("counts", N_COUNTS, sizeof *d->counts, d->counts, before->counts);
    free_data(d);
    free_data(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),     cmocka_unit_test(test_no_rows), cmocka_unit_test(test_margins),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submission), cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
