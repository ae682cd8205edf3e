/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/blend.h with a learned factor: products to the bit, the gradient against a sum in long double. */
#include "codelets/rows/blend.h"

#include "tests/support/starpu_fixture.h"

#define E ((sl_real)0.3)

static const uint32_t shapes[][2] = {{1, 1}, {7, 3}, {64, 12}, {65, 700}, {300, 33}, {3000, 36}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Noise, rounded to bf16 whatever its dtype. */
static void *numbers(enum sl_dtype dtype, size_t n, uint64_t seed)
{
    sl_real *wide = noisy(n, seed);
    sl_bf16 *x = need(n, sizeof *x);
    sl_bf16_round(n, wide, x);
    sl_bf16_widen(n, x, wide);
    free(dtype == SL_DTYPE_BF16 ? (void *)wide : x);
    return dtype == SL_DTYPE_BF16 ? (void *)x : wide;
}

static sl_real value_at(enum sl_dtype dtype, const void *x, size_t i)
{
    return dtype == SL_DTYPE_BF16 ? sl_bf16_real(((const sl_bf16 *)x)[i]) : ((const sl_real *)x)[i];
}

static starpu_data_handle_t rows_in(enum sl_dtype dtype, void *x, uint32_t n_rows, uint32_t n_columns)
{
    return sl_matrix_over(x, n_rows, n_columns, dtype);
}

enum { ROW0 = 2 }; /* of X, which has a row more at the end */

/* OUT (+)= E X, and GX += E G, G being OUT as it was. */
static void check_products(uint32_t rows, uint32_t columns, int beta, enum sl_dtype x_dtype, enum sl_dtype out_dtype)
{
    const size_t n = (size_t)rows * columns, first = (size_t)ROW0 * columns, n_x = first + n + columns;
    sl_real e = E;
    void *x = numbers(x_dtype, n_x, 1), *out = numbers(out_dtype, n, 2), *before = numbers(out_dtype, n, 2);
    sl_real *gx = noisy(n_x, 3), *gx_before = noisy(n_x, 3), *g = numbers(SL_DTYPE_REAL, n, 2);
    starpu_data_handle_t h[] = {rows_of(&e, 1, 1), rows_in(x_dtype, x, ROW0 + rows + 1, columns),
                                rows_in(out_dtype, out, rows, columns), rows_of(gx, ROW0 + rows + 1, columns),
                                rows_of(g, rows, columns)};
    expect_ok(sl_blend_learned_submit(&head, SL_STAGE_AGGREGATE, rows, h[0], (struct sl_blend_rows){h[1], ROW0}, beta,
                                      (struct sl_blend_rows){h[2], 0}));
    expect_ok(sl_blend_learned_submit(&head, SL_STAGE_BACKWARD, rows, h[0], (struct sl_blend_rows){h[4], 0}, 1,
                                      (struct sl_blend_rows){h[3], ROW0}));
    UNREGISTER(h);
    expect_no_failure();
    for (size_t i = 0; i < n; i++) {
        sl_real sum = E * value_at(x_dtype, x, first + i);
        sum = beta ? value_at(out_dtype, before, i) + sum : sum;
        sum = out_dtype == SL_DTYPE_BF16 ? sl_bf16_real(sl_bf16_of(sum)) : sum;
        expect_near_at("OUT", i, (double)value_at(out_dtype, out, i), (double)sum, 0);
    }
    for (size_t i = 0; i < n_x; i++) {
        const bool inside = i >= first && i < first + n;
        const sl_real wanted = inside ? gx_before[i] + E * g[i - first] : gx_before[i];
        expect_near_at("GX", i, (double)gx[i], (double)wanted, 0);
    }
    void *all[] = {x, out, before, gx, gx_before, g};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

TEST(products)
{
    fixture_start(2);
    fixture_watch();
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (int beta = 0; beta < 2; beta++) {
            check_products(shapes[s][0], shapes[s][1], beta, SL_DTYPE_REAL, SL_DTYPE_REAL);
            check_products(shapes[s][0], shapes[s][1], beta, SL_DTYPE_BF16, SL_DTYPE_REAL);
            check_products(shapes[s][0], shapes[s][1], beta, SL_DTYPE_BF16, SL_DTYPE_BF16);
        }
    }
    fixture_stop();
}

/* GE of each of two row segments. */
static void check_gradient(uint32_t rows, uint32_t columns, enum sl_dtype x_dtype)
{
    const size_t n = (size_t)rows * columns, first = (size_t)ROW0 * columns;
    const uint32_t ends[] = {0, rows / 2, rows};
    const struct sl_runs runs = {2, ends};
    struct sl_task_args in_runs = head;
    FREED void *x = numbers(x_dtype, first + n, 4);
    FREED sl_real *g = noisy(n, 3);
    sl_real ge[2];
    starpu_data_handle_t h[] = {rows_of(g, rows, columns), rows_in(x_dtype, x, ROW0 + rows, columns),
                                rows_of(ge, 2, 1)};
    in_runs.runs = &runs;
    expect_ok(sl_blend_gradient_submit(&in_runs, h[0], (struct sl_blend_rows){h[1], ROW0}, h[2]));
    UNREGISTER(h);
    expect_no_failure();
    for (int k = 0; k < 2; k++) {
        long double sum = 0;
        double size = 0;
        for (size_t i = (size_t)ends[k] * columns; i < (size_t)ends[k + 1] * columns; i++) {
            const long double term = (long double)g[i] * (long double)value_at(x_dtype, x, first + i);
            sum += term;
            size += (double)fabsl(term);
        }
        expect_near_at("GE", (size_t)k, (double)ge[k], (double)sum, rounding(columns, size));
    }
}

TEST(gradient)
{
    fixture_start(1);
    fixture_watch();
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_gradient(shapes[s][0], shapes[s][1], SL_DTYPE_REAL);
        check_gradient(shapes[s][0], shapes[s][1], SL_DTYPE_BF16);
    }
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
