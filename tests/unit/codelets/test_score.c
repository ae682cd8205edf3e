/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/ends/score.h: counts per set and class, ties, what is not a number, margins. */
#include "codelets/ends/score.h"

#include "tests/support/starpu_fixture.h"

static uint64_t count(const uint64_t *counts, uint32_t n_classes, uint32_t set, uint32_t class, uint32_t kind)
{
    return counts[((size_t)set * n_classes + class) * 3 + kind];
}

/* Score rows ROW0 .. of the part. */
static void score(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const uint8_t *sets, const int32_t *labels,
                  uint64_t *counts, float *margins)
{
    enum { ROW0 = 17 };
    const uint32_t n_counts = SL_N_SETS * n_classes * SL_N_COUNTS;
    FREED uint8_t *part_sets = need(ROW0 + n_rows, 1);
    FREED int32_t *part_labels = need(ROW0 + n_rows, sizeof *part_labels);
    memcpy(part_sets + ROW0, sets, n_rows);
    memcpy(part_labels + ROW0, labels, n_rows * sizeof *labels);
    float unwanted = 0;
    starpu_data_handle_t h[] = {rows_of((sl_real *)(uintptr_t)z, n_rows, n_classes),
                                vector_of(part_sets, ROW0 + n_rows, 1), vector_of(part_labels, ROW0 + n_rows, 4),
                                vector_of(counts, n_counts, 8),
                                vector_of(margins != NULL ? margins : &unwanted, margins != NULL ? n_rows : 1, 4)};
    expect_ok(sl_score_submit(&head, h[0], h[1], h[2], ROW0, h[3], margins != NULL ? h[4] : NULL));
    UNREGISTER(h);
    expect_no_failure();
}

/* Rows written by hand. */
TEST(counts)
{
    fixture_start(1);
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
    score(7, 3, z, sets, labels, counts, NULL);
    fixture_stop();
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

/* The first of the largest logits is the answer; a row in which any is not a number has none. */
static void count_row(uint32_t n_classes, const sl_real *z, uint8_t set, int32_t label, uint64_t *counts)
{
    uint32_t answer = 0;
    bool is_number = true;
    uint64_t *of = counts + (size_t)set * n_classes * SL_N_COUNTS;
    for (uint32_t c = 0; c < n_classes; c++) {
        is_number = is_number && !isnan(z[c]);
        answer = z[c] > z[answer] ? c : answer;
    }
    if (set >= SL_N_SETS || label < 0) {
        return;
    }
    of[label * SL_N_COUNTS + 1]++;
    if (is_number) {
        of[answer * SL_N_COUNTS + 2]++;
        of[label * SL_N_COUNTS] += answer == (uint32_t)label;
    }
}

/* Few different logits, so that many tie; some of them no number, some labels unknown, some rows in no set. */
static void check(uint32_t n_rows, uint32_t n_classes)
{
    const size_t n_counts = (size_t)SL_N_SETS * n_classes * SL_N_COUNTS;
    FREED sl_real *z = noisy((size_t)n_rows * n_classes, 8);
    FREED uint8_t *sets = need(n_rows, 1);
    FREED int32_t *labels = need(n_rows, sizeof *labels);
    FREED uint64_t *got = need(n_counts, sizeof *got);
    FREED uint64_t *wanted = need(n_counts, sizeof *wanted);
    FREED float *margins = n_classes == 2 ? need(n_rows, sizeof *margins) : NULL;
    for (uint32_t i = 0; i < n_rows; i++) {
        sets[i] = (uint8_t)(i * 7 % 5); /* 4 is no set */
        labels[i] = (int32_t)(i * 5 % (n_classes + 1)) - 1;
        for (uint32_t c = 0; c < n_classes; c++) {
            sl_real *entry = &z[(size_t)i * n_classes + c];
            *entry = (i * n_classes + c) % 211 == 17 ? (sl_real)NAN : (sl_real)floor((double)*entry * 4) - 5;
        }
        count_row(n_classes, z + (size_t)i * n_classes, sets[i], labels[i], wanted);
    }
    score(n_rows, n_classes, z, sets, labels, got, margins);
    expect_same("counts", n_counts, sizeof *got, got, wanted);
    for (uint32_t i = 0; n_classes == 2 && i < n_rows; i++) {
        const float margin = (float)(z[2 * i + 1] - z[2 * i]);
        assert_true(margins[i] == margin || (isnan(margins[i]) && isnan(margin)));
    }
}

TEST(counts_of_many_rows)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        check(1, 1);
        check(200, 2);
        check(90, 31);
        check(90, 33);
        check(300, 172);
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
