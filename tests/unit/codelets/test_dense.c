/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/dense.h: products and adjoints against three loops, sparse against dense, submissions against kernels. */
#include "codelets/dense.h"

#include "codelets/dropout.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define SEED 4242

/* Rows, input width, output width: single rows and columns, odd widths, more rows than a tile of column sums, wide
 * outputs. */
static const uint32_t shapes[][3] = {{0, 3, 4},  {1, 1, 1},   {1, 9, 5},   {5, 1, 3},    {4, 8, 1}, {17, 13, 7},
                                     {64, 3, 2}, {65, 16, 8}, {200, 5, 3}, {3, 33, 300}, {7, 0, 4}, {130, 40, 65}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* ---- three loops ---- */

/* C [m x n] += A B, element (i, k) of A at a[i * ra + k * ca]. */
static void multiply(uint32_t m, uint32_t n, uint32_t k, const sl_real *a, size_t ra, size_t ca, const sl_real *b,
                     size_t rb, size_t cb, double *c)
{
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < n; j++) {
            for (uint32_t p = 0; p < k; p++) {
                c[(size_t)i * n + j] += (double)a[i * ra + p * ca] * (double)b[p * rb + j * cb];
            }
        }
    }
}

static double *in_double(size_t n, const sl_real *x)
{
    double *y = need(n, sizeof *y);
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)x[i];
    }
    return y;
}

static void check_forward(uint32_t rows, uint32_t in, uint32_t out, int beta, int with_bias)
{
    sl_real *x = noisy((size_t)rows * in, 1);
    sl_real *w = noisy((size_t)in * out, 2);
    sl_real *bias = noisy(out, 3);
    sl_real *z = noisy((size_t)rows * out, 4);
    double *wanted = in_double((size_t)rows * out, z);
    for (size_t i = 0; beta == 0 && i < (size_t)rows * out; i++) {
        wanted[i] = with_bias ? (double)bias[i % out] : 0;
        z[i] = (sl_real)NAN; /* what is overwritten is not read */
    }
    multiply(rows, out, in, x, in, 1, w, out, 1, wanted);
    expect_ok(sl_dense_forward_cpu(rows, in, out, x, w, with_bias ? bias : NULL, beta, z));
    expect_rows("Z", (size_t)rows * out, z, wanted, rounding(in + 1, 1));
    free(x);
    free(w);
    free(bias);
    free(z);
    free(wanted);
}

static void test_forward(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 0, 0);
        check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 0, 1);
        check_forward(shapes[s][0], shapes[s][1], shapes[s][2], 1, 0);
    }
}

static void check_backward_input(uint32_t rows, uint32_t in, uint32_t out, int beta)
{
    sl_real *gz = noisy((size_t)rows * out, 1);
    sl_real *w = noisy((size_t)in * out, 2);
    sl_real *gx = noisy((size_t)rows * in, 3);
    double *wanted = in_double((size_t)rows * in, gx);
    for (size_t i = 0; beta == 0 && i < (size_t)rows * in; i++) {
        wanted[i] = 0;
        gx[i] = (sl_real)NAN;
    }
    multiply(rows, in, out, gz, out, 1, w, 1, out, wanted);
    expect_ok(sl_dense_backward_input_cpu(rows, in, out, gz, w, beta, gx));
    expect_rows("GX", (size_t)rows * in, gx, wanted, rounding(out + 1, 1));
    free(gz);
    free(w);
    free(gx);
    free(wanted);
}

static void check_backward_weight(uint32_t rows, uint32_t in, uint32_t out, int with_bias)
{
    sl_real *x = noisy((size_t)rows * in, 1);
    sl_real *gz = noisy((size_t)rows * out, 2);
    sl_real *gw = poisoned((size_t)in * out);
    sl_real *gb = poisoned(out);
    sl_real *one = need(rows, sizeof *one);
    double *wanted = need((size_t)in * out, sizeof *wanted);
    double *wanted_bias = need(out, sizeof *wanted_bias);
    for (uint32_t i = 0; i < rows; i++) {
        one[i] = 1;
    }
    multiply(in, out, rows, x, 1, in, gz, out, 1, wanted);
    multiply(1, out, rows, one, rows, 1, gz, out, 1, wanted_bias);
    expect_ok(sl_dense_backward_weight_cpu(rows, in, out, x, gz, gw, with_bias ? gb : NULL));
    expect_rows("GW", (size_t)in * out, gw, wanted, rounding(rows, 1));
    if (with_bias) {
        expect_rows("GB", out, gb, wanted_bias, rounding(rows, 1));
    } else {
        assert_true(gb[0] == (sl_real)-12345.5);
    }
    free(x);
    free(gz);
    free(gw);
    free(gb);
    free(one);
    free(wanted);
    free(wanted_bias);
}

static void test_backward(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_backward_input(shapes[s][0], shapes[s][1], shapes[s][2], 0);
        check_backward_input(shapes[s][0], shapes[s][1], shapes[s][2], 1);
        check_backward_weight(shapes[s][0], shapes[s][1], shapes[s][2], 0);
        check_backward_weight(shapes[s][0], shapes[s][1], shapes[s][2], 1);
    }
}

/* <X W, Y> = <X, Y W^T> = <W, X^T Y>: the three products are each other's adjoints. */
static void test_adjoint(void **state)
{
    (void)state;
    enum { ROWS = 31, IN = 19, OUT = 11 };
    sl_real *x = noisy(ROWS * IN, 1);
    sl_real *w = noisy(IN * OUT, 2);
    sl_real *y = noisy(ROWS * OUT, 3);
    sl_real *z = poisoned(ROWS * OUT);
    sl_real *gx = poisoned(ROWS * IN);
    sl_real *gw = poisoned(IN * OUT);
    expect_ok(sl_dense_forward_cpu(ROWS, IN, OUT, x, w, NULL, 0, z));
    expect_ok(sl_dense_backward_input_cpu(ROWS, IN, OUT, y, w, 0, gx));
    expect_ok(sl_dense_backward_weight_cpu(ROWS, IN, OUT, x, y, gw, NULL));
    double wanted = inner(ROWS * OUT, z, y);
    double tolerance = rounding(ROWS * IN * OUT, 2);
    expect_near("<X, GX>", inner(ROWS * IN, x, gx), wanted, tolerance);
    expect_near("<W, GW>", inner(IN * OUT, w, gw), wanted, tolerance);
    free(x);
    free(w);
    free(y);
    free(z);
    free(gx);
    free(gw);
}

/* ---- sparse rows ---- */

#define PART 29
#define FIRST 500

/* A part's CSR rows, of 0 to some entries, and the same rows written out. */
struct sparse_case {
    uint32_t n_rows, n_in;
    uint64_t offsets[PART + 1];
    uint32_t *columns;
    float *values;
    sl_vertex *ids;
    sl_vertex *dataset_ids;
    struct sl_sparse_rows x;
};

static struct sparse_case *make_sparse(uint32_t n_rows, uint32_t n_in, double dropout)
{
    struct sparse_case *c = need(1, sizeof *c);
    c->n_rows = n_rows;
    c->n_in = n_in;
    c->columns = need((size_t)PART * n_in, sizeof *c->columns);
    c->values = need((size_t)PART * n_in, sizeof *c->values);
    c->ids = need(n_rows, sizeof *c->ids);
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
    for (uint32_t i = 0; i < n_rows; i++) {
        c->ids[i] = FIRST + (i * 5 + 1) % PART;
    }
    for (uint32_t v = 0; v < FIRST + PART; v++) {
        c->dataset_ids[v] = (v * 31 + 7) % (FIRST + PART);
    }
    c->x = (struct sl_sparse_rows){
        .offsets = c->offsets,
        .columns = c->columns,
        .values = c->values,
        .ids = c->ids,
        .dataset_ids = dropout > 0 ? c->dataset_ids : NULL,
        .first = FIRST,
        .max_row = n_in,
        .dropout = dropout,
        .draw = {.seed = SEED, .step = 7, .purpose = SL_FOR_DROPOUT, .hop = 1},
    };
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

/* The rows wanted as a dense matrix, dropout applied. */
static sl_real *written_out(const struct sparse_case *c)
{
    uint32_t threshold = sl_dropout_threshold(c->x.dropout);
    sl_real *x = need((size_t)c->n_rows * c->n_in, sizeof *x);
    for (uint32_t i = 0; i < c->n_rows; i++) {
        uint32_t v = c->ids[i] - FIRST;
        for (uint64_t e = c->offsets[v]; e < c->offsets[v + 1]; e++) {
            uint16_t bits[8];
            uint32_t k = c->columns[e];
            sl_dropout_bits(&c->x.draw, c->dataset_ids[c->ids[i]], k / 8, bits);
            double factor = bits[k % 8] >= threshold ? sl_dropout_scale(threshold) : 0;
            x[(size_t)i * c->n_in + k] = (sl_real)((double)c->values[e] * factor);
        }
    }
    return x;
}

static void check_sparse(uint32_t rows, uint32_t in, uint32_t out, double dropout, int beta)
{
    struct sparse_case *c = make_sparse(rows, in, dropout);
    sl_real *x = written_out(c);
    sl_real *w = noisy((size_t)in * out, 2);
    sl_real *bias = noisy(out, 3);
    sl_real *z = noisy((size_t)rows * out, 4);
    sl_real *gz = noisy((size_t)rows * out, 5);
    sl_real *gw = noisy((size_t)in * out, 6);
    sl_real *gb = noisy(out, 7);
    double *z_wanted = in_double((size_t)rows * out, z);
    double *gw_wanted = in_double((size_t)in * out, gw);
    double *gb_wanted = in_double(out, gb);
    for (size_t i = 0; beta == 0 && i < (size_t)rows * out; i++) {
        z_wanted[i] = (double)bias[i % out];
        z[i] = (sl_real)NAN;
    }
    for (size_t i = 0; beta == 0 && i < (size_t)in * out; i++) {
        gw_wanted[i] = 0;
        gw[i] = (sl_real)NAN;
    }
    for (uint32_t k = 0; k < out; k++) {
        gb_wanted[k] *= beta;
        for (uint32_t i = 0; i < rows; i++) {
            gb_wanted[k] += (double)gz[(size_t)i * out + k];
        }
    }
    multiply(rows, out, in, x, in, 1, w, out, 1, z_wanted);
    multiply(in, out, rows, x, 1, in, gz, out, 1, gw_wanted);
    double scale = sl_dropout_scale(sl_dropout_threshold(dropout));
    sl_dense_sparse_forward_cpu(&c->x, rows, out, w, beta ? NULL : bias, beta, z);
    expect_rows("sparse Z", (size_t)rows * out, z, z_wanted, rounding(in + 1, scale));
    sl_dense_sparse_backward_weight_cpu(&c->x, rows, in, out, gz, beta, gw, gb);
    expect_rows("sparse GW", (size_t)in * out, gw, gw_wanted, rounding(rows + 1, scale));
    expect_rows("sparse GB", out, gb, gb_wanted, rounding(rows + 1, 1));
    sl_dense_sparse_forward_cpu(&c->x, rows, out, w, NULL, 0, z); /* no bias: starts from zero */
    multiply(rows, out, in, x, in, 1, w, out, 1, memset(z_wanted, 0, (size_t)rows * out * sizeof *z_wanted));
    expect_rows("sparse Z without a bias", (size_t)rows * out, z, z_wanted, rounding(in + 1, scale));
    free(x);
    free(w);
    free(bias);
    free(z);
    free(gz);
    free(gw);
    free(gb);
    free(z_wanted);
    free(gw_wanted);
    free(gb_wanted);
    free_sparse(c);
}

static void test_sparse(void **state)
{
    (void)state;
    const uint32_t sparse_shapes[][3] = {{0, 5, 3}, {1, 1, 1}, {9, 17, 5}, {40, 70, 33}, {29, 8, 64}, {60, 90, 130}};
    for (size_t s = 0; s < 6; s++) {
        for (int beta = 0; beta < 2; beta++) {
            check_sparse(sparse_shapes[s][0], sparse_shapes[s][1], sparse_shapes[s][2], 0, beta);
            check_sparse(sparse_shapes[s][0], sparse_shapes[s][1], sparse_shapes[s][2], 0.35, beta);
        }
    }
}

/* An entry of Z or GW adds its terms in order, one rounding each: the bits of plain loops. */
static void test_sparse_order(void **state)
{
    (void)state;
    enum { ROWS = 130, IN = 90, OUT = 130 };
    struct sparse_case *c = make_sparse(ROWS, IN, 0);
    sl_real *w = noisy(IN * OUT, 2);
    sl_real *gz = noisy(ROWS * OUT, 5);
    sl_real *got[] = {poisoned(ROWS * OUT), poisoned(IN * OUT)};
    sl_real *wanted[] = {need(ROWS * OUT, sizeof(sl_real)), need(IN * OUT, sizeof(sl_real))};
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t v = c->ids[i] - FIRST;
        for (uint64_t e = c->offsets[v]; e < c->offsets[v + 1]; e++) {
            for (uint32_t k = 0; k < OUT; k++) {
                wanted[0][i * OUT + k] += (sl_real)c->values[e] * w[c->columns[e] * OUT + k];
                wanted[1][c->columns[e] * OUT + k] += (sl_real)c->values[e] * gz[i * OUT + k];
            }
        }
    }
    sl_dense_sparse_forward_cpu(&c->x, ROWS, OUT, w, NULL, 0, got[0]);
    sl_dense_sparse_backward_weight_cpu(&c->x, ROWS, IN, OUT, gz, 0, got[1], NULL);
    expect_same("sparse Z", ROWS * OUT, sizeof(sl_real), got[0], wanted[0]);
    expect_same("sparse GW", IN * OUT, sizeof(sl_real), got[1], wanted[1]);
    for (int i = 0; i < 2; i++) {
        free(got[i]);
        free(wanted[i]);
    }
    free(w);
    free(gz);
    free_sparse(c);
}

/* Rows without a note are zero, and the notes are the columns of the rows' entries. */
static void test_touched_kernels(void **state)
{
    (void)state;
    enum { IN = 90, OUT = 5 };
    for (uint32_t rows = 0; rows < 3; rows++) { /* rows 1 and 6 of the part, after row 1 alone and none */
        struct sparse_case *c = make_sparse(rows, IN, 0);
        int8_t touched[IN];
        sl_real *gw = noisy(IN * OUT, 6);
        for (uint32_t r = 0; r < IN; r++) {
            touched[r] = r % 9 == 4;
        }
        sl_dense_clear_touched_cpu(IN, OUT, touched, gw);
        sl_real *before = noisy(IN * OUT, 6);
        for (uint32_t r = 0; r < IN; r++) {
            assert_int_equal(touched[r], 0);
            for (uint32_t k = 0; k < OUT; k++) {
                assert_true(gw[r * OUT + k] == (r % 9 == 4 ? 0 : before[r * OUT + k]));
            }
        }
        c->ids[0] = rows == 1 ? FIRST + 2 : c->ids[0]; /* scattered columns */
        sl_dense_touch_cpu(&c->x, rows, touched);
        for (uint32_t r = 0; r < IN; r++) {
            bool found = false;
            for (uint32_t i = 0; i < rows; i++) {
                const uint32_t v = c->ids[i] - FIRST;
                for (uint64_t e = c->offsets[v]; e < c->offsets[v + 1]; e++) {
                    found |= c->columns[e] == r;
                }
            }
            assert_int_equal(touched[r] != 0, found);
        }
        free(gw);
        free(before);
        free_sparse(c);
    }
}

#ifdef SL_CUDA
/* ---- launchers: the CPU's results, to the bit where cuBLAS does not compute and no list of terms is cut ---- */

static struct sl_dense_cuda by;

static void check_dense_launchers(uint32_t rows, uint32_t in, uint32_t out)
{
    size_t n_x = (size_t)rows * in, n_w = (size_t)in * out, n_z = (size_t)rows * out;
    sl_real *x = noisy(n_x, 1), *w = noisy(n_w, 2), *z = noisy(n_z, 4), *bias = noisy(out, 3);
    sl_real *gx = noisy(n_x, 5), *gw = poisoned(n_w), *gb = poisoned(out),
            *got = need(n_x + n_w + n_z + out, sizeof *got);
    sl_real *x_device = on_device(x, n_x * sizeof *x), *w_device = on_device(w, n_w * sizeof *w);
    sl_real *bias_device = on_device(bias, out * sizeof *bias), *gz_device = on_device(z, n_z * sizeof *z);
    for (int mode = 0; mode < 3; mode++) { /* overwrite, overwrite with a bias, add */
        int beta = mode == 2;
        sl_real *wanted = noisy(n_z, 6);
        sl_real *z_device = beta ? on_device(wanted, n_z * sizeof *z) : device_room(n_z * sizeof *z);
        expect_ok(sl_dense_forward_cpu(rows, in, out, x, w, mode == 1 ? bias : NULL, beta, wanted));
        expect_launched(sl_dense_forward_cuda(by, rows, in, out, x_device, w_device, mode == 1 ? bias_device : NULL,
                                              beta, SL_DTYPE_REAL, z_device));
        from_device(got, z_device, n_z * sizeof *z);
        expect_agreement("Z", n_z, got, wanted, rounding(in + 1, 1));
        free(wanted);
    }
    for (int beta = 0; beta < 2; beta++) {
        sl_real *wanted = noisy(n_x, 5);
        sl_real *gx_device = beta ? on_device(wanted, n_x * sizeof *x) : device_room(n_x * sizeof *x);
        expect_ok(sl_dense_backward_input_cpu(rows, in, out, z, w, beta, wanted));
        expect_launched(sl_dense_backward_input_cuda(by, rows, in, out, gz_device, w_device, beta, gx_device));
        from_device(got, gx_device, n_x * sizeof *x);
        expect_agreement("GX", n_x, got, wanted, rounding(out + 1, 1));
        free(wanted);
    }
    sl_real *gw_device = device_room(n_w * sizeof *gw), *gb_device = device_room(out * sizeof *gb);
    expect_ok(sl_dense_backward_weight_cpu(rows, in, out, x, z, gw, gb));
    expect_launched(sl_dense_backward_weight_cuda(by, rows, in, out, x_device, gz_device, gw_device, gb_device));
    from_device(got, gw_device, n_w * sizeof *gw);
    expect_agreement("GW", n_w, got, gw, rounding(rows, 1));
    from_device(got, gb_device, out * sizeof *gb);
    expect_agreement("GB", out, got, gb, 2 * EPSILON * (1 + sqrt(rows)));
    cudaFree(x_device);
    cudaFree(w_device);
    cudaFree(bias_device);
    cudaFree(gz_device);
    free(x);
    free(w);
    free(z);
    free(bias);
    free(gx);
    free(gw);
    free(gb);
    free(got);
}

static void test_launchers(void **state)
{
    (void)state;
    need_device();
    const struct sl_dense_cuda nobody = {NULL, NULL, false};
    assert_int_equal(cublasCreate(&by.cublas), CUBLAS_STATUS_SUCCESS);
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_dense_launchers(shapes[s][0], shapes[s][1], shapes[s][2]);
    }
    check_dense_launchers(3000, 8, 36); /* column sums of several slabs a warp */
    assert_int_equal(sl_dense_forward_cuda(nobody, 1, 2, 3, NULL, NULL, NULL, 0, SL_DTYPE_REAL, NULL), SL_ECUDA);
    expect_message(sl_message(), "sl_dense_forward: cuBLAS failed", "[1 x 2] [2 x 3]");
    assert_int_equal(cublasDestroy(by.cublas), CUBLAS_STATUS_SUCCESS);
}

/* The largest difference of a product of noise, forward, from one in float. */
static double farthest(uint32_t rows, uint32_t in, uint32_t out)
{
    size_t n_z = (size_t)rows * out;
    sl_real *x = noisy((size_t)rows * in, 1);
    sl_real *w = noisy((size_t)in * out, 2);
    sl_real *wanted = poisoned(n_z);
    sl_real *got = need(n_z, sizeof *got);
    sl_real *x_device = on_device(x, (size_t)rows * in * sizeof *x);
    sl_real *w_device = on_device(w, (size_t)in * out * sizeof *w);
    sl_real *z_device = device_room(n_z * sizeof *got);
    double most = 0;
    expect_ok(sl_dense_forward_cpu(rows, in, out, x, w, NULL, 0, wanted));
    expect_launched(sl_dense_forward_cuda(by, rows, in, out, x_device, w_device, NULL, 0, SL_DTYPE_REAL, z_device));
    from_device(got, z_device, n_z * sizeof *got);
    for (size_t i = 0; i < n_z; i++) {
        most = fmax(most, fabs((double)got[i] - (double)wanted[i]));
    }
    cudaFree(x_device);
    cudaFree(w_device);
    free(x);
    free(w);
    free(wanted);
    free(got);
    return most;
}

/* Factors lose 2^-11 of themselves, each its own, and products up to 1 twice that; the mode is a call's, not the
 * handle's. */
static void test_tf32(void **state)
{
    (void)state;
    need_device();
#ifndef SL_EMULATED
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess || major < 8) {
        skip(); /* it multiplies in float then */
    }
#endif
    assert_int_equal(cublasCreate(&by.cublas), CUBLAS_STATUS_SUCCESS);
    by.tf32 = true;
    double most = farthest(130, 40, 65);
    assert_true(most > 100 * rounding(40, 1) && most < 40 * 0x1p-10);
    by.tf32 = false;
    assert_true(farthest(130, 40, 65) < rounding(40, 1));
    assert_int_equal(cublasDestroy(by.cublas), CUBLAS_STATUS_SUCCESS);
}

/* The CPU's struct with the device's addresses; `lists` are these, to be released. */
static struct sl_sparse_rows sparse_on_device(const struct sparse_case *c, void *lists[5])
{
    struct sl_sparse_rows x = c->x;
    size_t n_values = c->offsets[PART];
    x.offsets = lists[0] = on_device(c->offsets, sizeof c->offsets);
    x.columns = lists[1] = on_device(c->columns, n_values * sizeof *c->columns);
    x.values = lists[2] = on_device(c->values, n_values * sizeof *c->values);
    x.ids = lists[3] = on_device(c->ids, c->n_rows * sizeof *c->ids);
    x.dataset_ids = lists[4] = on_device(c->dataset_ids, (FIRST + PART) * sizeof *c->dataset_ids);
    return x;
}

static void release_lists(void *lists[5])
{
    for (int i = 0; i < 5; i++) {
        cudaFree(lists[i]);
    }
}

/* The CPU's numbers, rounded where Z is of bf16. */
static void check_sparse_forward_launcher(uint32_t rows, uint32_t in, uint32_t out, double dropout, int beta,
                                          int with_bias, enum sl_dtype z_of)
{
    struct sparse_case *c = make_sparse(rows, in, dropout);
    size_t n_w = (size_t)in * out, n_z = (size_t)rows * out;
    void *lists[5];
    struct sl_sparse_rows x = sparse_on_device(c, lists);
    sl_real *w = noisy(n_w, 2), *bias = noisy(out, 3), *z = noisy(n_z, 4);
    sl_bf16 *rounded = need(n_z, sizeof *rounded);
    sl_real *w_device = on_device(w, n_w * sizeof *w), *bias_device = on_device(bias, out * sizeof *bias);
    void *z_device = on_device(z, sl_dtype_bytes(z_of, n_z));
    sl_dense_sparse_forward_cpu(&c->x, rows, out, w, with_bias ? bias : NULL, beta, z);
    expect_launched(sl_dense_sparse_forward_cuda(NULL, &x, rows, out, w_device, with_bias ? bias_device : NULL, beta,
                                                 z_of, z_device));
    sl_bf16_round(n_z, z, rounded);
    expect_on_device("sparse Z", z_device, n_z, sl_dtype_bytes(z_of, 1),
                     z_of == SL_DTYPE_BF16 ? (const void *)rounded : z);
    cudaFree(w_device);
    cudaFree(bias_device);
    release_lists(lists);
    free(w);
    free(bias);
    free(z);
    free(rounded);
    free_sparse(c);
}

/* max_row: what the part's fullest row is said to have, `in` or more, which decides on the tiles. */
static void check_sparse_backward_launcher(uint32_t rows, uint32_t in, uint32_t out, double dropout, int beta,
                                           int with_bias, uint32_t max_row)
{
    struct sparse_case *c = make_sparse(rows, in, dropout);
    size_t n_w = (size_t)in * out, n_z = (size_t)rows * out;
    void *lists[5];
    struct sl_sparse_rows x = sparse_on_device(c, lists);
    sl_real *gz = noisy(n_z, 5), *gw = noisy(n_w, 6), *gb = noisy(out, 7), *got = need(n_w + out, sizeof *got);
    sl_real *gz_device = on_device(gz, n_z * sizeof *gz), *gw_device = on_device(gw, n_w * sizeof *gw);
    sl_real *gb_device = on_device(gb, out * sizeof *gb);
    x.max_row = max_row;
    sl_dense_sparse_backward_weight_cpu(&c->x, rows, in, out, gz, beta, gw, with_bias ? gb : NULL);
    expect_launched(sl_dense_sparse_backward_weight_cuda(NULL, &x, rows, in, out, gz_device, beta, gw_device,
                                                         with_bias ? gb_device : NULL));
    from_device(got, gw_device, n_w * sizeof *gw);
    if (rows <= 32) { /* one warp has the whole list */
        expect_same("sparse GW", n_w, sizeof *gw, got, gw);
    }
    expect_agreement("sparse GW", n_w, got, gw, rounding(rows, sl_dropout_scale(sl_dropout_threshold(dropout))));
    from_device(got, gb_device, out * sizeof *gb);
    expect_agreement("sparse GB", out, got, gb, 2 * EPSILON * (1 + sqrt(rows)));
    cudaFree(gz_device);
    release_lists(lists);
    free(gz);
    free(gw);
    free(gb);
    free(got);
    free_sparse(c);
}

static void test_sparse_launchers(void **state)
{
    (void)state;
    /* No row, no column; in quads and not; several warps a row; lists that several warps share. */
    const uint32_t sparse_shapes[][3] = {{0, 5, 3},    {3, 0, 4},  {1, 1, 1},    {9, 17, 5},
                                         {29, 70, 33}, {29, 8, 8}, {20, 5, 260}, {300, 31, 4}};
    need_device();
    for (size_t s = 0; s < sizeof sparse_shapes / sizeof sparse_shapes[0]; s++) {
        const uint32_t *shape = sparse_shapes[s];
        for (int beta = 0; beta < 2; beta++) {
            check_sparse_forward_launcher(shape[0], shape[1], shape[2], 0, beta, beta == 0, SL_DTYPE_REAL);
            check_sparse_forward_launcher(shape[0], shape[1], shape[2], 0.35, beta, 0, SL_DTYPE_REAL);
            check_sparse_forward_launcher(shape[0], shape[1], shape[2], 0.35, 0, beta, SL_DTYPE_BF16);
            check_sparse_backward_launcher(shape[0], shape[1], shape[2], 0, beta, 1, shape[1]);
            check_sparse_backward_launcher(shape[0], shape[1], shape[2], 0.35, beta, 0, shape[1]);
        }
    }
    /* Lists of several stretches, in quads and not. */
    check_sparse_backward_launcher(13000, 3, 7, 0.35, 1, 1, 3);
    check_sparse_backward_launcher(13000, 5, 8, 0.35, 0, 1, 5);
    /* Tiles of seven rows, of one, and of 4369. */
    check_sparse_backward_launcher(29, 17, 5, 0, 0, 1, (1u << 22) / 7);
    check_sparse_backward_launcher(15, 8, 8, 0.35, 1, 0, (1u << 22) / 7);
    check_sparse_backward_launcher(3, 17, 4, 0, 0, 0, (1u << 22) + 1);
    check_sparse_backward_launcher(16930, 3, 7, 0.35, 1, 1, 960);
}

#ifdef SL_EMULATED
/* A device too small for its working memory: said in one line, with what to try. */
static void test_no_working_memory(void **state)
{
    (void)state;
    struct sparse_case *c = make_sparse(1, 5, 0);
    sl_real gz[4] = {0};
    sl_real gw[20] = {0};
    c->x.max_row = UINT32_MAX;
    assert_int_equal(sl_dense_sparse_backward_weight_cuda(NULL, &c->x, 1, 5, 4, gz, 0, gw, NULL), SL_ECUDA);
    expect_message(sl_message(), "no room for", "STARPU_LIMIT_CUDA_MEM");
    assert_null(strchr(sl_message(), '\n'));
    free_sparse(c);
}
#endif
#endif

/* ---- submissions ---- */

enum { D = 21, S = 30, F = 13, H = 9, ROW0 = 6 }; /* D rows from row ROW0 of S */

/* One product through StarPU and one by the kernel, compared to the bit. */
static void check_forward_submission(int beta, int with_bias)
{
    sl_real *x = noisy(S * F, 1);
    sl_real *w = noisy(F * H, 2);
    sl_real *bias = noisy(H, 3);
    sl_real *z = noisy(D * H, 4);
    sl_real *wanted = noisy(D * H, 4);
    starpu_data_handle_t handles[] = {rows_of(x, S, F), rows_of(w, F, H), rows_of(bias, 1, H), rows_of(z, D, H)};
    expect_ok(sl_dense_forward_cpu(D, F, H, x + ROW0 * F, w, with_bias ? bias : NULL, beta, wanted));
    expect_ok(
        sl_dense_forward_submit(&head, handles[0], ROW0, handles[1], with_bias ? handles[2] : NULL, beta, handles[3]));
    UNREGISTER(handles);
    expect_agreement("Z", D * H, z, wanted, rounding(F + 1, 1));
    free(x);
    free(w);
    free(bias);
    free(z);
    free(wanted);
}

/* beta 0 from the whole of GX's rows, beta 1 into rows ROW0 .. of a larger one. */
static void check_backward_input_submission(int beta)
{
    uint32_t gx_rows = beta == 0 ? D : S;
    uint32_t row0 = beta == 0 ? 0 : ROW0;
    sl_real *gz = noisy(D * H, 1);
    sl_real *w = noisy(F * H, 2);
    sl_real *gx = noisy((size_t)gx_rows * F, 3);
    sl_real *wanted = noisy((size_t)gx_rows * F, 3);
    starpu_data_handle_t handles[] = {rows_of(gz, D, H), rows_of(w, F, H), rows_of(gx, gx_rows, F)};
    expect_ok(sl_dense_backward_input_cpu(D, F, H, gz, w, beta, wanted + (size_t)row0 * F));
    expect_ok(sl_dense_backward_input_submit(&head, handles[0], handles[1], beta, handles[2], row0));
    UNREGISTER(handles);
    expect_agreement("GX", (size_t)gx_rows * F, gx, wanted, rounding(H + 1, 1));
    free(gz);
    free(w);
    free(gx);
    free(wanted);
}

static void check_backward_weight_submission(int with_bias)
{
    sl_real *x = noisy(S * F, 1);
    sl_real *gz = noisy(D * H, 2);
    sl_real *gw = poisoned(F * H);
    sl_real *gb = poisoned(H);
    sl_real *gw_wanted = poisoned(F * H);
    sl_real *gb_wanted = poisoned(H);
    starpu_data_handle_t handles[] = {rows_of(x, S, F), rows_of(gz, D, H), rows_of(gw, F, H), rows_of(gb, 1, H)};
    expect_ok(sl_dense_backward_weight_cpu(D, F, H, x + ROW0 * F, gz, gw_wanted, with_bias ? gb_wanted : NULL));
    expect_ok(sl_dense_backward_weight_submit(&head, handles[0], ROW0, handles[1], handles[2],
                                              with_bias ? handles[3] : NULL));
    UNREGISTER(handles);
    expect_agreement("GW", F * H, gw, gw_wanted, rounding(D, 1));
    expect_same("GB", H, sizeof *gb, gb, gb_wanted);
    free(x);
    free(gz);
    free(gw);
    free(gb);
    free(gw_wanted);
    free(gb_wanted);
}

/* The handles of a sparse case, in the order of `handles`. */
static struct sl_sparse sparse_handles(const struct sparse_case *c, double dropout, starpu_data_handle_t handles[5])
{
    handles[0] = vector_of(c->offsets, PART + 1, sizeof *c->offsets);
    handles[1] = vector_of(c->columns, (uint32_t)c->offsets[PART], sizeof *c->columns);
    handles[2] = vector_of(c->values, (uint32_t)c->offsets[PART], sizeof *c->values);
    handles[3] = vector_of(c->ids, c->n_rows, sizeof *c->ids);
    handles[4] = vector_of(c->dataset_ids, FIRST + PART, sizeof *c->dataset_ids);
    return (struct sl_sparse){.offsets = handles[0],
                              .columns = handles[1],
                              .values = handles[2],
                              .frontier = handles[3],
                              .dataset_ids = handles[4],
                              .first = FIRST,
                              .max_row = c->x.max_row,
                              .dropout = dropout,
                              .seed = SEED};
}

static void check_sparse_submissions(double dropout, int beta, int with_bias)
{
    struct sparse_case *c = make_sparse(S, F, dropout);
    sl_real *w = noisy(F * H, 2);
    sl_real *b = noisy(H, 3);
    sl_real *gz = noisy(D * H, 4);
    sl_real *z[2] = {noisy(D * H, 5), noisy(D * H, 5)};
    sl_real *gw[2] = {noisy(F * H, 6), noisy(F * H, 6)};
    sl_real *gb[2] = {noisy(H, 7), noisy(H, 7)};
    int bias_forward = with_bias && beta == 0;
    starpu_data_handle_t shared[5];
    starpu_data_handle_t handles[] = {rows_of(w, F, H),    rows_of(b, 1, H),     rows_of(gz, D, H),
                                      rows_of(z[0], D, H), rows_of(gw[0], F, H), rows_of(gb[0], 1, H)};
    struct sl_sparse x = sparse_handles(c, dropout, shared);
    expect_ok(sl_dense_sparse_forward_submit(&head, &x, ROW0, handles[0], bias_forward ? handles[1] : NULL, beta,
                                             handles[3]));
    expect_ok(sl_dense_sparse_backward_weight_submit(&head, &x, ROW0, handles[2], beta, handles[4],
                                                     with_bias ? handles[5] : NULL));
    UNREGISTER(handles);
    UNREGISTER(shared);
    c->x.ids += ROW0;
    sl_dense_sparse_forward_cpu(&c->x, D, H, w, bias_forward ? b : NULL, beta, z[1]);
    sl_dense_sparse_backward_weight_cpu(&c->x, D, F, H, gz, beta, gw[1], with_bias ? gb[1] : NULL);
    expect_same("sparse Z", D * H, sizeof(sl_real), z[0], z[1]);
    expect_same("sparse GW", F * H, sizeof(sl_real), gw[0], gw[1]);
    expect_same("sparse GB", H, sizeof(sl_real), gb[0], gb[1]);
    free(w);
    free(b);
    free(gz);
    for (int i = 0; i < 2; i++) {
        free(z[i]);
        free(gw[i]);
        free(gb[i]);
    }
    free_sparse(c);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        fixture_start(worker_counts[n]);
        check_forward_submission(0, 0);
        check_forward_submission(0, 1);
        check_forward_submission(1, 0);
        for (int flag = 0; flag < 2; flag++) {
            check_backward_input_submission(flag);
            check_backward_weight_submission(flag);
            for (int with_bias = 0; with_bias < 2; with_bias++) {
                check_sparse_submissions(0, flag, with_bias);
                check_sparse_submissions(0.3, flag, with_bias);
            }
        }
        expect_no_failure();
        fixture_stop();
    }
}

/* Step after step, each of two chunks of other rows, GW has the bits of the gradient that is written whole, whatever
 * the last step left there; and each row that is not zero is noted. */
static void check_touched(double dropout, bool with_bias)
{
    enum { ROWS = 10, IN = 90, OUT = 70 };
    struct sparse_case *c = make_sparse(40, IN, dropout);
    sl_real *gz = noisy(ROWS * OUT, 5);
    sl_real *gw[] = {poisoned(IN * OUT), poisoned(IN * OUT)};
    sl_real *gb[] = {poisoned(OUT), poisoned(OUT)};
    int8_t touched[IN];
    memset(touched, 77, sizeof touched);
    fixture_start(2);
    for (uint32_t step = 0; step < 3; step++) {
        starpu_data_handle_t shared[5];
        const struct sl_sparse x = sparse_handles(c, dropout, shared);
        starpu_data_handle_t h[] = {rows_of(gz, ROWS, OUT), rows_of(gw[0], IN, OUT), rows_of(gb[0], 1, OUT), NULL};
        starpu_matrix_data_register(&h[3], STARPU_MAIN_RAM, (uintptr_t)touched, IN, IN, 1, sizeof *touched);
        for (int beta = 0; beta < 2; beta++) {
            const struct sl_touched_gradient gradient = {h[1], h[3], step == 0 && beta == 0};
            const uint32_t row0 = 9 * step + 2 * (uint32_t)beta;
            struct sl_sparse_rows rows = c->x;
            expect_ok(sl_dense_sparse_backward_touched_submit(&head, &x, row0, h[0], beta, &gradient,
                                                              with_bias ? h[2] : NULL));
            rows.ids += row0;
            rows.draw.step = head.step;
            rows.draw.hop = head.hop;
            sl_dense_sparse_backward_weight_cpu(&rows, ROWS, IN, OUT, gz, beta, gw[1], with_bias ? gb[1] : NULL);
        }
        UNREGISTER(h);
        UNREGISTER(shared);
        expect_same("touched GW", IN * OUT, sizeof(sl_real), gw[0], gw[1]);
        expect_same("touched GB", OUT, sizeof(sl_real), gb[0], gb[1]);
        for (size_t i = 0; i < IN * OUT; i++) {
            assert_true(gw[0][i] == 0 || touched[i / OUT] == 1);
        }
    }
    expect_no_failure();
    fixture_stop();
    free(gz);
    for (int i = 0; i < 2; i++) {
        free(gw[i]);
        free(gb[i]);
    }
    free_sparse(c);
}

static void test_touched(void **state)
{
    (void)state;
    check_touched(0, true);
    check_touched(0, false);
    check_touched(0.35, true);
}

static void test_failure_drains(void **state)
{
    (void)state;
    struct sparse_case *c = make_sparse(D, F, 0);
    sl_real *x = noisy(D * F, 1);
    sl_real *w = noisy(F * H, 2);
    sl_real *z = poisoned(D * H);
    starpu_data_handle_t shared[5];
    fixture_start(1);
    struct sl_sparse sparse = sparse_handles(c, 0, shared);
    starpu_data_handle_t handles[] = {rows_of(x, D, F), rows_of(w, F, H), rows_of(z, D, H)};
    fixture_fail();
    expect_ok(sl_dense_forward_submit(&head, handles[0], 0, handles[1], NULL, 0, handles[2]));
    expect_ok(sl_dense_backward_input_submit(&head, handles[2], handles[1], 0, handles[0], 0));
    expect_ok(sl_dense_backward_weight_submit(&head, handles[0], 0, handles[2], handles[1], NULL));
    expect_ok(sl_dense_sparse_forward_submit(&head, &sparse, 0, handles[1], NULL, 0, handles[2]));
    expect_ok(sl_dense_sparse_backward_weight_submit(&head, &sparse, 0, handles[2], 0, handles[1], NULL));
    UNREGISTER(handles);
    UNREGISTER(shared);
    fixture_stop();
    sl_real *x_before = noisy(D * F, 1);
    sl_real *w_before = noisy(F * H, 2);
    sl_real *z_before = poisoned(D * H);
    expect_unwritten("X", D * F, sizeof *x, x, x_before);
    expect_unwritten("W", F * H, sizeof *w, w, w_before);
    expect_unwritten("Z", D * H, sizeof *z, z, z_before);
    free(x);
    free(w);
    free(z);
    free(x_before);
    free(w_before);
    free(z_before);
    free_sparse(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_sparse_order),
        cmocka_unit_test(test_touched_kernels),
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_sparse_launchers),
        cmocka_unit_test(test_tf32),
#endif
#ifdef SL_EMULATED
        cmocka_unit_test(test_no_working_memory),
#endif
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_touched),
        cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
