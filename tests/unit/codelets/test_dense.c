/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/dense.h: products and adjoints against three loops, sparse products against plain sums. */
#include "codelets/rows/dense.h"

#include "codelets/rows/dropout.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define SEED 4242

/* Rows, input width, output width: single rows and columns, odd widths, more rows than a tile of column sums, wide
 * outputs, column sums of several slabs a warp. */
static const uint32_t shapes[][3] = {{1, 1, 1},   {1, 9, 5},   {5, 1, 3},    {4, 8, 1},     {17, 13, 7},  {64, 3, 2},
                                     {65, 16, 8}, {200, 5, 3}, {3, 33, 300}, {130, 40, 65}, {3000, 8, 36}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* ---- three loops ---- */

/* C [m x n] += A B, element (i, k) of A at a[i * ra + k * ca]. */
static void multiply(uint32_t m, uint32_t n, uint32_t k, const sl_real *a, size_t ra, size_t ca, const sl_real *b,
                     size_t rb, size_t cb, double *c)
{
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < n; j++) {
            long double sum = (long double)c[(size_t)i * n + j];
            for (uint32_t p = 0; p < k; p++) {
                sum += (long double)a[i * ra + p * ca] * (long double)b[p * rb + j * cb];
            }
            c[(size_t)i * n + j] = (double)sum;
        }
    }
}

/* ---- dense products of rows ROW0 .. of a longer matrix ---- */

#define ROW0 6

/* n numbers, for products added to them. */
static double *in_double(size_t n, const sl_real *x)
{
    double *y = need(n, sizeof *y);
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)x[i];
    }
    return y;
}

static void check_forward(uint32_t rows, uint32_t in, uint32_t out, int beta, bool with_bias)
{
    const size_t n = (size_t)rows * out;
    FREED sl_real *x = noisy((size_t)(ROW0 + rows) * in, 1);
    FREED sl_real *w = noisy((size_t)in * out, 2);
    FREED sl_real *bias = noisy(out, 3);
    FREED sl_real *z = noisy(n, 4);
    FREED double *wanted = in_double(n, z);
    for (size_t i = 0; beta == 0 && i < n; i++) {
        wanted[i] = with_bias ? (double)bias[i % out] : 0;
    }
    starpu_data_handle_t h[] = {rows_of(x, ROW0 + rows, in), rows_of(w, in, out), rows_of(bias, 1, out),
                                rows_of(z, rows, out)};
    expect_ok(sl_dense_forward_submit(&head, h[0], ROW0, h[1], with_bias ? h[2] : NULL, beta, h[3]));
    UNREGISTER(h);
    multiply(rows, out, in, x + (size_t)ROW0 * in, in, 1, w, out, 1, wanted);
    expect_rows("Z", n, z, wanted, rounding(in + 1, 1));
}

/* Onto rows ROW0 .. of a longer GX, or into all rows of it. */
static void check_backward_input(uint32_t rows, uint32_t in, uint32_t out, int beta)
{
    const uint32_t row0 = beta ? ROW0 : 0;
    const size_t n = (size_t)(row0 + rows) * in;
    FREED sl_real *gz = noisy((size_t)rows * out, 1);
    FREED sl_real *w = noisy((size_t)in * out, 2);
    FREED sl_real *gx = noisy(n, 3);
    FREED double *wanted = in_double(n, gx);
    memset(wanted, 0, beta ? 0 : n * sizeof *wanted);
    starpu_data_handle_t h[] = {rows_of(gz, rows, out), rows_of(w, in, out), rows_of(gx, row0 + rows, in)};
    expect_ok(sl_dense_backward_input_submit(&head, h[0], h[1], beta, h[2], row0));
    UNREGISTER(h);
    multiply(rows, in, out, gz, out, 1, w, 1, out, wanted + (size_t)row0 * in);
    expect_rows("GX", n, gx, wanted, rounding(out + 1, 1));
}

static void check_backward_weight(uint32_t rows, uint32_t in, uint32_t out, bool with_bias)
{
    FREED sl_real *x = noisy((size_t)(ROW0 + rows) * in, 1);
    FREED sl_real *gz = noisy((size_t)rows * out, 2);
    FREED sl_real *gw = poisoned((size_t)in * out);
    FREED sl_real *gb = poisoned(out);
    const sl_real one = 1;
    FREED double *wanted = need((size_t)in * out, sizeof *wanted);
    FREED double *wanted_bias = need(out, sizeof *wanted_bias);
    starpu_data_handle_t h[] = {rows_of(x, ROW0 + rows, in), rows_of(gz, rows, out), rows_of(gw, in, out),
                                rows_of(gb, 1, out)};
    expect_ok(sl_dense_backward_weight_submit(&head, h[0], ROW0, h[1], h[2], with_bias ? h[3] : NULL));
    UNREGISTER(h);
    multiply(in, out, rows, x + (size_t)ROW0 * in, 1, in, gz, out, 1, wanted);
    multiply(1, out, rows, &one, 0, 0, gz, out, 1, wanted_bias);
    /* Kernels of some processors add the rows one after the other, and the sum of noise is far from 0. */
    expect_rows("GW", (size_t)in * out, gw, wanted, 4 * rounding(rows, 1));
    if (with_bias) {
        expect_rows("GB", out, gb, wanted_bias, rounding(rows, 1));
    } else {
        assert_true(gb[0] == (sl_real)-12345.5);
    }
}

TEST(test_products)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        for (size_t s = 0; s < N_SHAPES; s++) {
            check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 0, false);
            check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 0, true);
            check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 1, false);
            for (int flag = 0; flag < 2; flag++) {
                check_backward_input(shapes[s][0], shapes[s][1], shapes[s][2], flag);
                check_backward_weight(shapes[s][0], shapes[s][1], shapes[s][2], flag);
            }
        }
        expect_no_failure();
        fixture_stop();
    }
}

#ifdef SL_CUDA
/* The largest difference of a product of noise from one in double. */
static double farthest(uint32_t rows, uint32_t in, uint32_t out)
{
    sl_real *x = noisy((size_t)rows * in, 1);
    sl_real *w = noisy((size_t)in * out, 2);
    sl_real *z = poisoned((size_t)rows * out);
    double *wanted = need((size_t)rows * out, sizeof *wanted);
    double most = 0;
    starpu_data_handle_t h[] = {rows_of(x, rows, in), rows_of(w, in, out), rows_of(z, rows, out)};
    expect_ok(sl_dense_forward_submit(&head, h[0], 0, h[1], NULL, 0, h[2]));
    UNREGISTER(h);
    multiply(rows, out, in, x, in, 1, w, out, 1, wanted);
    for (size_t i = 0; i < (size_t)rows * out; i++) {
        most = fmax(most, fabs((double)z[i] - wanted[i]));
    }
    free(x);
    free(w);
    free(z);
    free(wanted);
    return most;
}

/* Factors lose 2^-11 of themselves, each its own, and products up to 1 twice that; the mode is a call's, not the
 * handle's. */
TEST(test_tf32)
{
#ifndef SL_EMULATED
    if (!wants_gpu()) {
        skip();
    }
    needs_bf16(); /* other GPUs multiply in float */
#endif
    fixture_start(1);
    run.tf32 = true;
    double most = farthest(130, 40, 65);
    assert_true(most > 100 * rounding(40, 1) && most < 40 * 0x1p-10);
    run.tf32 = false;
    assert_true(farthest(130, 40, 65) < rounding(40, 1));
    fixture_stop();
}

TEST(test_cublas_fails)
{
    const struct sl_queue nobody = {NULL, NULL, false};
    need_device();
    assert_int_equal(sl_dense_forward_cuda(nobody, SL_DTYPE_REAL, 1, 2, 3, NULL, NULL, NULL, 0, SL_DTYPE_REAL, NULL),
                     SL_ECUDA);
    expect_message(sl_message(), "sl_dense_forward: cuBLAS failed", "[1 x 2] [2 x 3]");
}
#endif

/* ---- sparse rows ---- */

#define PART 29
#define FIRST 500

/* A part's CSR rows, of 0 to some entries; rows ROW0 .. of a frontier. */
struct sparse_case {
    uint32_t n_rows, n_in;
    uint64_t offsets[PART + 1];
    uint32_t *columns;
    float *values;
    sl_vertex *ids;
    sl_vertex *dataset_ids;
    double dropout;
    uint32_t max_row;
};

static struct sparse_case *make_sparse(uint32_t n_rows, uint32_t n_in, double dropout)
{
    struct sparse_case *c = need(1, sizeof *c);
    c->n_rows = n_rows;
    c->n_in = n_in;
    c->columns = need((size_t)PART * n_in, sizeof *c->columns);
    c->values = need((size_t)PART * n_in, sizeof *c->values);
    c->ids = need(ROW0 + n_rows, sizeof *c->ids);
    c->dataset_ids = need(FIRST + PART, sizeof *c->dataset_ids);
    for (uint32_t v = 0; v < PART; v++) {
        c->offsets[v + 1] = c->offsets[v];
        for (uint32_t k = 0; k < n_in; k++) {
            /* Row 1 is full, rows 6, 11, 16 and 26 alike from a quarter on, every seventh empty. */
            const bool alike = v > 1 && v % 5 == 1;
            if (v % 7 != 0 && (v == 1 || (alike ? k >= n_in / 4 : noise(v, k) > 0.5))) {
                c->columns[c->offsets[v + 1]] = k;
                c->values[c->offsets[v + 1]++] = (float)noise(77 + v, k);
            }
        }
    }
    for (uint32_t i = 0; i < ROW0 + n_rows; i++) {
        c->ids[i] = FIRST + (i * 5 + 1) % PART;
    }
    for (uint32_t v = 0; v < FIRST + PART; v++) {
        c->dataset_ids[v] = (v * 31 + 7) % (FIRST + PART);
    }
    c->dropout = dropout;
    c->max_row = n_in;
    return c;
}

static void free_sparse(struct sparse_case *c)
{
    free(c->columns);
    free(c->values);
    free(c->ids);
    free(c->dataset_ids);
    free(c);
}

/* The id of a row, and a value after dropout. */
static uint32_t vertex_of(const struct sparse_case *c, uint32_t row)
{
    return c->ids[ROW0 + row] - FIRST;
}

static sl_real value_of(const struct sparse_case *c, uint32_t row, uint64_t e)
{
    const struct sl_draw draw = {.seed = SEED, .step = head.step, .purpose = SL_FOR_DROPOUT, .hop = head.hop};
    const uint32_t threshold = sl_dropout_threshold(c->dropout);
    uint16_t bits[8];
    if (threshold == 0) {
        return (sl_real)c->values[e];
    }
    sl_dropout_bits(&draw, c->dataset_ids[c->ids[ROW0 + row]], c->columns[e] / 8, bits);
    const bool kept = bits[c->columns[e] % 8] >= threshold;
    return kept ? (sl_real)c->values[e] * (sl_real)sl_dropout_scale(threshold) : 0;
}

/* Z += X W and GW += X^T GZ: an entry adds its terms in order, one rounding each. */
static void plain_products(const struct sparse_case *c, uint32_t row0, uint32_t n_rows, uint32_t out, const sl_real *w,
                           const sl_real *gz, sl_real *z, sl_real *gw)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t v = vertex_of(c, row0 + i);
        for (uint64_t e = c->offsets[v]; e < c->offsets[v + 1]; e++) {
            const sl_real value = value_of(c, row0 + i, e);
            const size_t column = (size_t)c->columns[e] * out;
            for (uint32_t k = 0; k < out; k++) {
                if (z != NULL) {
                    z[(size_t)i * out + k] += value * w[column + k];
                }
                gw[column + k] += value * gz[(size_t)i * out + k];
            }
        }
    }
}

/* The handles of a sparse case, in the order of `handles`. */
static struct sl_sparse sparse_handles(const struct sparse_case *c, starpu_data_handle_t handles[5])
{
    handles[0] = vector_of(c->offsets, PART + 1, sizeof *c->offsets);
    handles[1] = vector_of(c->columns, (uint32_t)c->offsets[PART], sizeof *c->columns);
    handles[2] = vector_of(c->values, (uint32_t)c->offsets[PART], sizeof *c->values);
    handles[3] = vector_of(c->ids, ROW0 + c->n_rows, sizeof *c->ids);
    handles[4] = vector_of(c->dataset_ids, FIRST + PART, sizeof *c->dataset_ids);
    return (struct sl_sparse){.offsets = handles[0],
                              .columns = handles[1],
                              .values = handles[2],
                              .frontier = handles[3],
                              .dataset_ids = handles[4],
                              .first = FIRST,
                              .max_row = c->max_row,
                              .dropout = c->dropout,
                              .seed = SEED};
}

/* Over a GPU a list of more than 32 rows is cut, and GB is added up in another order. */
static double cut_list(uint32_t rows, double size)
{
#ifdef SL_CUDA
    return rows <= 32 ? 0 : 2 * rounding(rows, size); /* of either sum */
#else
    (void)rows, (void)size;
    return 0;
#endif
}

/* Z, in bf16 rounded once, and GW and GB, onto what is there or not. max_row: what the part's fullest row is said to
 * have, `in` or more, which decides on the tiles. */
static void check_sparse(uint32_t rows, uint32_t in, uint32_t out, double dropout, int beta, bool with_bias,
                         enum sl_dtype z_dtype, uint32_t max_row)
{
    struct sparse_case *c = make_sparse(rows, in, dropout);
    const size_t n_w = (size_t)in * out, n_z = (size_t)rows * out;
    sl_real *w = noisy(n_w, 2), *bias = noisy(out, 3), *gz = noisy(n_z, 5);
    sl_real *z = noisy(n_z, 4), *gw = noisy(n_w, 6), *gb = noisy(out, 7);
    sl_real *z_wanted = noisy(n_z, 4), *gw_wanted = noisy(n_w, 6);
    FREED double *gb_wanted = in_double(out, gb);
    starpu_data_handle_t shared[5];
    c->max_row = max_row;
    for (size_t i = 0; beta == 0 && i < n_z; i++) {
        z_wanted[i] = with_bias ? bias[i % out] : 0;
    }
    memset(gw_wanted, 0, beta ? 0 : n_w * sizeof *gw);
    memset(gb_wanted, 0, beta ? 0 : out * sizeof *gb_wanted);
    multiply(1, out, rows, &(sl_real){1}, 0, 0, gz, out, 1, gb_wanted);
    const struct sl_sparse x = sparse_handles(c, shared);
    starpu_data_handle_t h[] = {rows_of(w, in, out),    rows_of(bias, 1, out),
                                rows_of(gz, rows, out), sl_matrix_over(z, rows, out, z_dtype),
                                rows_of(gw, in, out),   rows_of(gb, 1, out)};
    expect_ok(sl_dense_sparse_forward_submit(&head, &x, ROW0, h[0], with_bias && !beta ? h[1] : NULL, beta, h[3]));
    expect_ok(sl_dense_sparse_backward_weight_submit(
        &head, &x, ROW0, h[2], beta, &(struct sl_sparse_gradient){.gw = h[4]}, with_bias ? h[5] : NULL));
    UNREGISTER(h);
    UNREGISTER(shared);
    plain_products(c, 0, rows, out, w, gz, z_wanted, gw_wanted);
    for (size_t i = 0; i < n_z; i++) {
        if (z_dtype == SL_DTYPE_BF16) {
            assert_int_equal(((sl_bf16 *)z)[i], sl_bf16_of(z_wanted[i]));
        } else {
            expect_near_at("sparse Z", i, (double)z[i], (double)z_wanted[i], 0);
        }
    }
    const double scale = sl_dropout_scale(sl_dropout_threshold(dropout));
    for (size_t i = 0; i < n_w; i++) {
        expect_near_at("sparse GW", i, (double)gw[i], (double)gw_wanted[i], cut_list(rows, scale));
    }
    if (with_bias) {
        expect_rows("sparse GB", out, gb, gb_wanted, rounding(rows + 1, 1));
    } else {
        assert_true(gb[0] == (sl_real)noise(7, 0));
    }
    sl_real *all[] = {w, bias, gz, z, gw, gb, z_wanted, gw_wanted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    free_sparse(c);
}

TEST(test_sparse)
{
    /* In quads and not; several warps a row; lists that several warps share. */
    const uint32_t sparse_shapes[][3] = {{1, 1, 1},    {9, 17, 5},    {40, 70, 33}, {29, 8, 64},
                                         {20, 5, 260}, {60, 90, 130}, {300, 31, 4}};
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        fixture_start(worker_counts[n]);
        if (n == 0) {
            fixture_watch();
        }
        for (size_t s = 0; s < sizeof sparse_shapes / sizeof sparse_shapes[0]; s++) {
            const uint32_t rows = sparse_shapes[s][0], in = sparse_shapes[s][1], out = sparse_shapes[s][2];
            for (int beta = 0; beta < 2; beta++) {
                check_sparse(rows, in, out, 0, beta, true, SL_DTYPE_REAL, in);
                check_sparse(rows, in, out, 0.35, beta, false, SL_DTYPE_REAL, in);
            }
            check_sparse(rows, in, out, 0.35, 0, true, SL_DTYPE_BF16, in);
        }
        /* Lists of several stretches, in quads and not. */
        check_sparse(13000, 3, 7, 0.35, 1, true, SL_DTYPE_REAL, 3);
        check_sparse(13000, 5, 8, 0.35, 0, true, SL_DTYPE_REAL, 5);
        /* Tiles of seven rows, of one, and of 4369. */
        check_sparse(29, 17, 5, 0, 0, true, SL_DTYPE_REAL, (1u << 22) / 7);
        check_sparse(15, 8, 8, 0.35, 1, false, SL_DTYPE_REAL, (1u << 22) / 7);
        check_sparse(3, 17, 4, 0, 0, false, SL_DTYPE_REAL, (1u << 22) + 1);
        check_sparse(16930, 3, 7, 0.35, 1, true, SL_DTYPE_REAL, 960);
        expect_no_failure();
        fixture_stop();
    }
}

#ifdef SL_EMULATED
/* A device too small for its working memory: said in one line, with what to try. */
TEST(test_no_working_memory)
{
    fixture_start(1);
    struct sparse_case *c = make_sparse(1, 5, 0);
    sl_real gz[4] = {0};
    sl_real gw[20] = {0};
    starpu_data_handle_t shared[5];
    c->max_row = UINT32_MAX;
    const struct sl_sparse x = sparse_handles(c, shared);
    starpu_data_handle_t h[] = {rows_of(gz, 1, 4), rows_of(gw, 5, 4)};
    expect_ok(
        sl_dense_sparse_backward_weight_submit(&head, &x, 0, h[0], 0, &(struct sl_sparse_gradient){.gw = h[1]}, NULL));
    UNREGISTER(h);
    UNREGISTER(shared);
    assert_int_equal(sl_failure_status(&run.failure), SL_ECUDA);
    expect_message(sl_message(), "no room for", "STARPU_LIMIT_CUDA_MEM");
    assert_null(strchr(sl_message(), '\n'));
    free_sparse(c);
    fixture_stop();
}
#endif

/* The columns of the entries of rows row0 .. */
static void note_columns(const struct sparse_case *c, uint32_t row0, uint32_t n_rows, bool *noted)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t v = vertex_of(c, row0 + i);
        for (uint64_t e = c->offsets[v]; e < c->offsets[v + 1]; e++) {
            noted[c->columns[e]] = true;
        }
    }
}

/* Step after step, each of two chunks of other rows, GW has the bits of the plain sums, whatever the last step left
 * there; and the columns of the rows' entries are noted, on a CPU no others. */
static void check_touched(double dropout, bool with_bias)
{
    enum { ROWS = 10, IN = 90, OUT = 70 };
    fixture_start(2);
    struct sparse_case *c = make_sparse(40, IN, dropout);
    FREED sl_real *gz = noisy(ROWS * OUT, 5);
    sl_real *gw = poisoned(IN * OUT), *gb = poisoned(OUT);
    int8_t touched[IN];
    memset(touched, 77, sizeof touched);
    for (uint32_t step = 0; step < 3; step++) {
        FREED sl_real *wanted = need(IN * OUT, sizeof *wanted);
        FREED double *gb_wanted = need(OUT, sizeof *gb_wanted);
        bool noted[IN] = {false};
        starpu_data_handle_t shared[5];
        const struct sl_sparse x = sparse_handles(c, shared);
        starpu_data_handle_t h[] = {rows_of(gz, ROWS, OUT), rows_of(gw, IN, OUT), rows_of(gb, 1, OUT),
                                    sl_matrix_over(touched, 1, IN, SL_DTYPE_I8)};
        for (int beta = 0; beta < 2; beta++) {
            const struct sl_sparse_gradient gradient = {h[1], h[3], step == 0 && beta == 0};
            const uint32_t row0 = 9 * step + 2 * (uint32_t)beta;
            expect_ok(sl_dense_sparse_backward_weight_submit(&head, &x, ROW0 + row0, h[0], beta, &gradient,
                                                             with_bias ? h[2] : NULL));
            plain_products(c, row0, ROWS, OUT, NULL, gz, NULL, wanted);
            note_columns(c, row0, ROWS, noted);
            multiply(1, OUT, ROWS, &(sl_real){1}, 0, 0, gz, OUT, 1, gb_wanted);
        }
        UNREGISTER(h);
        UNREGISTER(shared);
        expect_same("touched GW", IN * OUT, sizeof *gw, gw, wanted);
        if (with_bias) {
            expect_rows("touched GB", OUT, gb, gb_wanted, rounding(2 * ROWS, 1));
        }
        for (size_t r = 0; r < IN; r++) {
#ifdef SL_CUDA
            assert_true(!noted[r] || touched[r] == 1);
#else
            assert_int_equal(touched[r], noted[r]);
#endif
        }
    }
    expect_no_failure();
    free(gw);
    free(gb);
    free_sparse(c);
    fixture_stop();
}

TEST(test_touched)
{
    check_touched(0, true);
    check_touched(0, false);
    check_touched(0.35, true);
}

TEST_MAIN(NULL, NULL)
