/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/blend.h: entries to the bit; which rows are written, which are left, and which need not have been
 * there. */
#include "codelets/rows/blend.h"

#include "tests/support/starpu_fixture.h"

static const double factors[] = {0, 1, -0.3, 1e6};
#define N_FACTORS (sizeof factors / sizeof factors[0])

/* Noise in a dtype, beginning `shift` entries behind an aligned address. */
static char *numbers(enum sl_dtype dtype, size_t n, size_t shift, uint64_t seed)
{
    char *block = need(n + shift, sizeof(sl_real));
    sl_real *wide = noisy(n, seed);
    char *x = block + sl_dtype_bytes(dtype, shift);
    if (dtype == SL_DTYPE_BF16) {
        sl_bf16_round(n, wide, (sl_bf16 *)(void *)x);
    } else {
        memcpy(x, wide, n * sizeof *wide);
    }
    free(wide);
    return x;
}

static sl_real value_at(enum sl_dtype dtype, const void *x, size_t i)
{
    return dtype == SL_DTYPE_BF16 ? sl_bf16_real(((const sl_bf16 *)x)[i]) : ((const sl_real *)x)[i];
}

/* What is blended: rows x_row0 .. of X onto rows out_row0 .. of OUT. */
struct blend {
    enum sl_dtype x_dtype, out_dtype;
    uint32_t n_columns, x_rows, out_rows, n_rows, x_row0, out_row0;
    size_t shift;
};

static void check(const struct blend *b, double a, int beta)
{
    const size_t n_x = (size_t)b->x_rows * b->n_columns, n_out = (size_t)b->out_rows * b->n_columns;
    const size_t first = (size_t)b->out_row0 * b->n_columns, end = first + (size_t)b->n_rows * b->n_columns;
    char *x = numbers(b->x_dtype, n_x, b->shift, 1);
    char *out = numbers(b->out_dtype, n_out, b->shift, 2);
    FREED char *before = numbers(b->out_dtype, n_out, 0, 2);
    starpu_data_handle_t h[] = {sl_matrix_over(x, b->x_rows, b->n_columns, b->x_dtype),
                                sl_matrix_over(out, b->out_rows, b->n_columns, b->out_dtype)};
    expect_ok(sl_blend_submit(&head, SL_STAGE_AGGREGATE, b->n_rows, a, (struct sl_blend_rows){h[0], b->x_row0}, beta,
                              (struct sl_blend_rows){h[1], b->out_row0}));
    UNREGISTER(h);
    for (size_t i = 0; i < n_out; i++) {
        sl_real wanted = value_at(b->out_dtype, before, i);
        if (i >= first && i < end) {
            const sl_real term = (sl_real)a * value_at(b->x_dtype, x, i - first + (size_t)b->x_row0 * b->n_columns);
            wanted = beta == 0 ? term : wanted + term;
            wanted = b->out_dtype == SL_DTYPE_BF16 ? sl_bf16_real(sl_bf16_of(wanted)) : wanted;
        }
        expect_near_at("OUT", i, (double)value_at(b->out_dtype, out, i), (double)wanted, 0);
    }
    free(x - sl_dtype_bytes(b->x_dtype, b->shift));
    free(out - sl_dtype_bytes(b->out_dtype, b->shift));
}

/* Both dtypes of X and OUT that may meet. */
static void check_dtypes(struct blend b, double a, int beta)
{
    for (int i = 0; i < 3; i++) {
        b.x_dtype = i == 1 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
        b.out_dtype = i > 0 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
        check(&b, a, beta);
    }
}

TEST(entries)
{
    const uint32_t sizes[] = {1, 7, 8, 64, 1024, 5001};
    fixture_start(1);
    fixture_watch();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t f = 0; f < 2 * N_FACTORS; f++) {
            const struct blend all = {.n_columns = sizes[s], .x_rows = 1, .out_rows = 1, .n_rows = 1, .shift = f % 2};
            check_dtypes(all, factors[f / 2], 0);
            check_dtypes(all, factors[f / 2], 1);
        }
    }
    expect_no_failure();
    fixture_stop();
}

enum { X_ROWS = 12, OUT_ROWS = 9, F = 7 };

/* OUT has no memory yet: StarPU refuses whoever would read it. */
static void check_unwritten(void)
{
    FREED sl_real *x = noisy(OUT_ROWS * F, 1);
    FREED sl_real *got = poisoned(OUT_ROWS * F);
    FREED sl_real *wanted = noisy(OUT_ROWS * F, 1);
    starpu_data_handle_t handles[] = {rows_of(x, OUT_ROWS, F), rows_of(got, OUT_ROWS, F)};
    starpu_data_handle_t fresh;
    expect_ok(sl_matrix_register(OUT_ROWS, F, SL_DTYPE_REAL, &fresh));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){handles[0], 0}, 0,
                              (struct sl_blend_rows){fresh, 0}));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_DENSE, handles[1]));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){fresh, 0}, 1,
                              (struct sl_blend_rows){handles[1], 0}));
    sl_handle_drop(&fresh);
    expect_ok(sl_matrix_register(OUT_ROWS, F, SL_DTYPE_REAL, &fresh));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_DENSE, fresh));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){fresh, 0}, 1,
                              (struct sl_blend_rows){handles[1], 0}));
    sl_handle_drop(&fresh);
    UNREGISTER(handles);
    expect_same("OUT", OUT_ROWS * F, sizeof *got, got, wanted);
}

/* The time goes to the stage that the caller names; evaluation's stays evaluation's. */
static void check_stage(void)
{
    FREED sl_real *x = noisy(X_ROWS * F, 1);
    FREED sl_real *out = noisy(X_ROWS * F, 2);
    double seconds[SL_N_STAGES];
    struct sl_task_args evaluation = head;
    evaluation.stage = SL_STAGE_EVALUATE;
    starpu_task_wait_for_all();
    sl_run_log_reset(&run);
    starpu_data_handle_t handles[] = {rows_of(x, X_ROWS, F), rows_of(out, X_ROWS, F)};
    struct sl_blend_rows from = {handles[0], 0};
    struct sl_blend_rows to = {handles[1], 0};
    expect_ok(sl_blend_submit(&head, SL_STAGE_BACKWARD, X_ROWS, 1, from, 1, to));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_SYNC, handles[1]));
    expect_ok(sl_blend_submit(&evaluation, SL_STAGE_DENSE, X_ROWS, 1, from, 1, to));
    UNREGISTER(handles);
    starpu_task_wait_for_all();
    sl_run_stage_seconds(&run, seconds);
    assert_true(seconds[SL_STAGE_BACKWARD] > 0 && seconds[SL_STAGE_SYNC] > 0 && seconds[SL_STAGE_EVALUATE] > 0);
    assert_true(seconds[SL_STAGE_DENSE] == 0);
}

TEST(rows)
{
    static const uint32_t rows[][3] = {{OUT_ROWS, 0, 0}, {OUT_ROWS, 3, 0}, {4, 8, 5}, {1, 11, 8}, {0, 12, 9}};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const struct blend some = {.n_columns = F,
                                       .x_rows = X_ROWS,
                                       .out_rows = OUT_ROWS,
                                       .n_rows = rows[i][0],
                                       .x_row0 = rows[i][1],
                                       .out_row0 = rows[i][2]};
            check_dtypes(some, 0.6, 0);
            check_dtypes(some, 0.6, 1);
        }
        check_unwritten();
        check_stage();
        expect_no_failure();
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
