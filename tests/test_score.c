/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/score.h: counts per set and class, ties, what is not a number, margins, the submission. */
#include "codelets/score.h"

#include "tests/starpu_fixture.h"

static uint64_t count(const uint64_t *counts, uint32_t n_classes, uint32_t set, uint32_t class, uint32_t what)
{
    return counts[((size_t)set * n_classes + class) * 3 + what];
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

/* ---- the submission ---- */

enum { PART = 60, ROW0 = 17, D = 30, C = 2, N_COUNTS = SL_N_SETS * C * 3 };

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

static void test_refusals_and_failure(void **state)
{
    (void)state;
    struct data *d = make_data();
    struct data *before = make_data();
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(d->z, D, C),
                                vector_of(d->sets, PART, 1),
                                vector_of(d->labels, PART - 20, 4),
                                vector_of(d->counts, N_COUNTS, 8),
                                vector_of(d->margins, D, 4),
                                rows_of(d->z, D / 2, 2 * C),
                                vector_of(d->labels, PART, 4),
                                vector_of(d->counts, 2 * N_COUNTS, 8)};
    starpu_data_handle_t z = h[0], sets = h[1], few = h[2], counts = h[3], margins = h[4], wide = h[5], labels = h[6];
    assert_int_equal(sl_score_submit(&head, z, sets, few, ROW0, counts, NULL), SL_EINVAL);
    expect_message(sl_message(), "[30 x 2] from row 17", "40 labels");
    assert_int_equal(sl_score_submit(&head, z, sets, labels, PART - D + 1, counts, NULL), SL_EINVAL);
    assert_int_equal(sl_score_submit(&head, wide, sets, labels, 0, counts, NULL), SL_EINVAL);
    expect_message(sl_message(), "24 counts", "[15 x 4]");
    assert_int_equal(sl_score_submit(&head, wide, sets, labels, 0, h[7], margins), SL_EINVAL);
    expect_message(sl_message(), "30 margins", "[15 x 4]");
    UNREGISTER(h);
    fixture_fail();
    with_starpu(d, 1);
    fixture_stop();
    expect_same("counts", N_COUNTS, sizeof *d->counts, d->counts, before->counts);
    free_data(d);
    free_data(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_margins),
        cmocka_unit_test(test_submission),
        cmocka_unit_test(test_refusals_and_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
