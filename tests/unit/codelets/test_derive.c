/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/derive.h: derived matrices against the formulas in double, their adjoints against inner products,
 * central differences and the formulas; submissions against kernels. */
#include "codelets/derive.h"

#include "codelets/blend.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* ---- identity ---- */

static void check_identity(uint32_t n, double a, double b)
{
    sl_real *w = noisy((size_t)n * n, 1);
    sl_real *out = poisoned((size_t)n * n);
    sl_derive_identity_cpu(n, a, b, w, out);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double wanted = b * (double)w[i] + (i / n == i % n ? a : 0);
        expect_near_at("OUT", i, (double)out[i], wanted, 4 * EPSILON * (fabs(a) + fabs(b)));
    }
    free(w);
    free(out);
}

static void test_identity(void **state)
{
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 33, 64};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        check_identity(sizes[s], 0.8, 0.2);
        check_identity(sizes[s], 0, 1);
    }
}

/* <OUT(W) - OUT(0), Y> = <W, GW(Y)>, GW by the blend that the submission is. */
static void test_identity_adjoint(void **state)
{
    (void)state;
    enum { H = 23 };
    sl_real *w = noisy(H * H, 1);
    sl_real *y = noisy(H * H, 2);
    sl_real *zero = need(H * H, sizeof *zero);
    sl_real *out = poisoned(H * H);
    sl_real *constant = poisoned(H * H);
    sl_real *gw = poisoned(H * H);
    sl_derive_identity_cpu(H, 0.6, 0.4, w, out);
    sl_derive_identity_cpu(H, 0.6, 0.4, zero, constant);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, H * H, 0.4, y, 0, gw);
    expect_near("<W, GW>", inner(H * H, w, gw), inner(H * H, out, y) - inner(H * H, constant, y), rounding(H * H, 2));
    free(w);
    free(y);
    free(zero);
    free(out);
    free(constant);
    free(gw);
}

/* ---- attention ---- */

/* F, H, K, R: no row, one, one head, heads of one column, wide heads, more rows than are added up at a time, a head
 * more than a tile of columns; one relation and several. */
static const uint32_t shapes[][4] = {{0, 6, 2, 1},   {1, 1, 1, 1},   {1, 8, 4, 1},    {5, 12, 3, 1},  {17, 8, 8, 1},
                                     {65, 40, 1, 1}, {70, 66, 2, 1}, {300, 36, 4, 1}, {9, 600, 2, 1}, {1300, 6, 3, 1},
                                     {65, 12, 3, 5}, {1, 4, 4, 2},   {0, 6, 2, 3},    {300, 34, 1, 7}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Parameters, the derived matrix, and all gradients. */
struct case_ {
    struct sl_derive_attention a;
    size_t n_w, n_out;
    uint32_t n_vector; /* entries of src */
    sl_real *w, *src, *dst, *out, *gout, *gw, *gsrc, *gdst;
};

static struct case_ *make_case(uint32_t n_rows, uint32_t n_columns, uint32_t n_heads, uint32_t n_slabs)
{
    struct case_ *c = need(1, sizeof *c);
    c->n_w = (size_t)n_rows * n_slabs * n_columns;
    c->n_out = (size_t)n_rows * n_slabs * (n_columns + 2 * n_heads);
    c->n_vector = n_slabs * n_columns;
    c->w = noisy(c->n_w, 1);
    c->src = noisy(c->n_vector, 2);
    c->dst = noisy(c->n_vector, 3);
    c->gout = noisy(c->n_out, 4);
    c->out = poisoned(c->n_out);
    c->gw = poisoned(c->n_w);
    c->gsrc = poisoned(c->n_vector);
    c->gdst = poisoned(c->n_vector);
    c->a = (struct sl_derive_attention){n_rows, n_columns, n_heads, n_slabs, c->w, c->src, c->dst};
    return c;
}

static void free_case(struct case_ *c)
{
    sl_real *all[] = {c->w, c->src, c->dst, c->out, c->gout, c->gw, c->gsrc, c->gdst};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
    free(c);
}

static void run_case(struct case_ *c)
{
    sl_derive_attention_cpu(&c->a, c->out);
    sl_derive_attention_backward_cpu(&c->a, c->gout, c->gw, c->gsrc, c->gdst);
}

static void check_forward(const struct case_ *c)
{
    uint32_t h = c->a.n_columns, heads = c->a.n_heads, width = h / heads;
    for (uint32_t i = 0; i < c->a.n_rows * c->a.n_slabs; i++) {
        const uint32_t slab = i % c->a.n_slabs * h;
        const sl_real *out = c->out + (size_t)i * (h + 2 * heads);
        const sl_real *w = c->w + (size_t)i * h;
        expect_same("W", h, sizeof *out, out, w);
        for (uint32_t k = 0; k < heads; k++) {
            double src = inner(width, w + k * width, c->src + slab + k * width);
            double dst = inner(width, w + k * width, c->dst + slab + k * width);
            expect_near_at("W A_src", k, (double)out[h + k], src, rounding(width, 1));
            expect_near_at("W A_dst", k, (double)out[h + heads + k], dst, rounding(width, 1));
        }
    }
}

static void check_backward(const struct case_ *c)
{
    uint32_t h = c->a.n_columns, heads = c->a.n_heads, width = h / heads;
    double *gsrc = need(c->n_vector, sizeof *gsrc);
    double *gdst = need(c->n_vector, sizeof *gdst);
    for (uint32_t row = 0; row < c->a.n_rows * c->a.n_slabs; row++) {
        const sl_real *g = c->gout + (size_t)row * (h + 2 * heads);
        for (uint32_t i = 0; i < h; i++) {
            size_t at = (size_t)row * h + i;
            size_t v = (size_t)(row % c->a.n_slabs) * h + i;
            double g_src = (double)g[h + i / width];
            double g_dst = (double)g[h + heads + i / width];
            double gw = (double)g[i] + g_src * (double)c->src[v] + g_dst * (double)c->dst[v];
            expect_near_at("GW", at, (double)c->gw[at], gw, 8 * EPSILON);
            gsrc[v] += g_src * (double)c->w[at];
            gdst[v] += g_dst * (double)c->w[at];
        }
    }
    expect_rows("GSRC", c->n_vector, c->gsrc, gsrc, rounding(c->a.n_rows, 1));
    expect_rows("GDST", c->n_vector, c->gdst, gdst, rounding(c->a.n_rows, 1));
    free(gsrc);
    free(gdst);
}

static void test_attention(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct case_ *c = make_case(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
        run_case(c);
        check_forward(c);
        check_backward(c);
        free_case(c);
    }
}

/* Linear in W with src and dst held, and linear in (src, dst) with W held: <OUT, Y> is <W, GW> and, in the columns
 * of scores alone, <src, GSRC> + <dst, GDST>. */
static void test_attention_adjoint(void **state)
{
    (void)state;
    enum { F = 71, H = 24, K = 3, R = 2 };
    struct case_ *c = make_case(F, H, K, R);
    double scores = 0;
    run_case(c);
    for (uint32_t i = 0; i < F * R; i++) {
        scores += inner(2 * K, c->out + i * (H + 2 * K) + H, c->gout + i * (H + 2 * K) + H);
    }
    double tolerance = rounding(F * R * H, 3);
    expect_near("<W, GW>", inner(c->n_w, c->w, c->gw), inner(c->n_out, c->out, c->gout), tolerance);
    expect_near("<src, GSRC> + <dst, GDST>", inner(c->n_vector, c->src, c->gsrc) + inner(c->n_vector, c->dst, c->gdst),
                scores, tolerance);
    free_case(c);
}

#ifdef SL_REAL_DOUBLE
/* <OUT, GOUT> with x[i] moved. */
static double moved(struct case_ *c, sl_real *x, size_t i, double by)
{
    sl_real before = x[i];
    x[i] += by;
    sl_derive_attention_cpu(&c->a, c->out);
    x[i] = before;
    return inner(c->n_out, c->out, c->gout);
}

static void check_differences(struct case_ *c, const char *label, size_t n, sl_real *x, const sl_real *gx)
{
    const double step = 1e-4;
    for (size_t i = 0; i < n; i++) {
        double wanted = (moved(c, x, i, step) - moved(c, x, i, -step)) / (2 * step);
        expect_near_at(label, i, gx[i], wanted, 1e-9);
    }
}

/* In float there are no digits for it. */
static void test_central_differences(void **state)
{
    (void)state;
    struct case_ *c = make_case(6, 8, 2, 3);
    run_case(c);
    check_differences(c, "GW", c->n_w, c->w, c->gw);
    check_differences(c, "GSRC", c->n_vector, c->src, c->gsrc);
    check_differences(c, "GDST", c->n_vector, c->dst, c->gdst);
    free_case(c);
}
#endif

/* What an implementation wrote against what the CPU's kernels write: sums may take another order where there is
 * CUDA. */
static void expect_same_answer(const struct case_ *got, const struct case_ *wanted)
{
    uint32_t n = wanted->a.n_columns;
    expect_agreement("OUT", wanted->n_out, got->out, wanted->out, rounding(n / wanted->a.n_heads, 1));
    expect_same("GW", wanted->n_w, sizeof *got->gw, got->gw, wanted->gw);
    expect_agreement("GSRC", wanted->n_vector, got->gsrc, wanted->gsrc, 2 * EPSILON * (1 + sqrt(wanted->a.n_rows)));
    expect_agreement("GDST", wanted->n_vector, got->gdst, wanted->gdst, 2 * EPSILON * (1 + sqrt(wanted->a.n_rows)));
}

#ifdef SL_CUDA
static void check_identity_launcher(uint32_t n)
{
    size_t bytes = (size_t)n * n * sizeof(sl_real);
    sl_real *w = noisy((size_t)n * n, 1);
    sl_real *wanted = poisoned((size_t)n * n);
    sl_real *w_device = on_device(w, bytes);
    sl_real *out = device_room(bytes);
    sl_derive_identity_cpu(n, 0.7, 0.3, w, wanted);
    expect_launched(sl_derive_identity_cuda(NULL, n, 0.7, 0.3, w_device, out));
    expect_on_device("OUT", out, (size_t)n * n, sizeof *wanted, wanted);
    cudaFree(w_device);
    free(w);
    free(wanted);
}

static void check_attention_launchers(const uint32_t shape[4])
{
    struct case_ *wanted = make_case(shape[0], shape[1], shape[2], shape[3]);
    struct case_ *got = make_case(shape[0], shape[1], shape[2], shape[3]);
    size_t w_bytes = wanted->n_w * sizeof(sl_real), out_bytes = wanted->n_out * sizeof(sl_real);
    size_t row_bytes = wanted->n_vector * sizeof(sl_real);
    struct sl_derive_attention a = got->a;
    sl_real *gout = on_device(got->gout, out_bytes), *out = device_room(out_bytes), *gw = device_room(w_bytes);
    sl_real *gsrc = device_room(row_bytes), *gdst = device_room(row_bytes);
    run_case(wanted);
    a.w = on_device(got->w, w_bytes);
    a.src = on_device(got->src, row_bytes);
    a.dst = on_device(got->dst, row_bytes);
    expect_launched(sl_derive_attention_cuda(NULL, &a, out));
    expect_launched(sl_derive_attention_backward_cuda(NULL, &a, gout, gw, gsrc, gdst));
    from_device(got->out, out, out_bytes);
    from_device(got->gw, gw, w_bytes);
    from_device(got->gsrc, gsrc, row_bytes);
    from_device(got->gdst, gdst, row_bytes);
    expect_same_answer(got, wanted);
    cudaFree((void *)(uintptr_t)a.w);
    cudaFree((void *)(uintptr_t)a.src);
    cudaFree((void *)(uintptr_t)a.dst);
    cudaFree(gout);
    free_case(got);
    free_case(wanted);
}

static void test_launchers(void **state)
{
    (void)state;
    need_device();
    check_identity_launcher(0);
    check_identity_launcher(1);
    check_identity_launcher(37);
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_attention_launchers(shapes[s]);
    }
}
#endif

/* ---- submissions ---- */

enum { F = 20, H = 12, K = 3 };

static void check_identity_submissions(void)
{
    sl_real *w = noisy(H * H, 1);
    sl_real *gout = noisy(H * H, 2);
    sl_real *out = poisoned(H * H);
    sl_real *gw = poisoned(H * H);
    sl_real *out_wanted = poisoned(H * H);
    sl_real *gw_wanted = poisoned(H * H);
    starpu_data_handle_t h[] = {rows_of(w, H, H), rows_of(gout, H, H), rows_of(out, H, H), rows_of(gw, H, H)};
    expect_ok(sl_derive_identity_submit(&head, 0.9, 0.1, h[0], h[2]));
    expect_ok(sl_derive_identity_backward_submit(&head, 0.1, h[1], h[3]));
    UNREGISTER(h);
    sl_derive_identity_cpu(H, 0.9, 0.1, w, out_wanted);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, H * H, 0.1, gout, 0, gw_wanted);
    expect_same("OUT", H * H, sizeof *out, out, out_wanted);
    expect_same("GW", H * H, sizeof *gw, gw, gw_wanted);
    free(w);
    free(gout);
    free(out);
    free(gw);
    free(out_wanted);
    free(gw_wanted);
}

/* All handles of a case. */
struct handles {
    starpu_data_handle_t w, src, dst, out, gout, gw, gsrc, gdst;
};

static struct handles register_all(const struct case_ *c)
{
    uint32_t n = c->n_vector;
    uint32_t n_out = n + 2 * c->a.n_heads * c->a.n_slabs;
    return (struct handles){
        .w = rows_of(c->w, c->a.n_rows, n),
        .src = rows_of(c->src, 1, n),
        .dst = rows_of(c->dst, 1, n),
        .out = rows_of(c->out, c->a.n_rows, n_out),
        .gout = rows_of(c->gout, c->a.n_rows, n_out),
        .gw = rows_of(c->gw, c->a.n_rows, n),
        .gsrc = rows_of(c->gsrc, 1, n),
        .gdst = rows_of(c->gdst, 1, n),
    };
}

static void unregister_all(const struct handles *h)
{
    unregister(sizeof *h / sizeof h->w, &h->w);
}

static void check_attention_submissions(uint32_t n_slabs)
{
    struct case_ *got = make_case(F, H, K, n_slabs);
    struct case_ *wanted = make_case(F, H, K, n_slabs);
    struct handles h = register_all(got);
    struct sl_derive_attention_layer layer = {K, n_slabs, h.w, h.src, h.dst};
    expect_ok(sl_derive_attention_submit(&head, &layer, h.out));
    expect_ok(sl_derive_attention_backward_submit(&head, &layer, h.gout, h.gw, h.gsrc, h.gdst));
    unregister_all(&h);
    run_case(wanted);
    expect_same_answer(got, wanted);
    free_case(got);
    free_case(wanted);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_identity_submissions();
        check_attention_submissions(1);
        check_attention_submissions(4);
        expect_no_failure();
        fixture_stop();
    }
}

static void test_failure_drains(void **state)
{
    (void)state;
    struct case_ *c = make_case(F, F, 4, 1);
    fixture_start(1);
    struct handles h = register_all(c);
    struct sl_derive_attention_layer layer = {4, 1, h.w, h.src, h.dst};
    fixture_fail();
    expect_ok(sl_derive_attention_submit(&head, &layer, h.out));
    expect_ok(sl_derive_attention_backward_submit(&head, &layer, h.gout, h.gw, h.gsrc, h.gdst));
    expect_ok(sl_derive_identity_submit(&head, 1, 1, h.w, h.gw));
    expect_ok(sl_derive_identity_backward_submit(&head, 1, h.w, h.gw));
    unregister_all(&h);
    fixture_stop();
    expect_still(c->out[0], (sl_real)-12345.5);
    expect_still(c->gw[0], (sl_real)-12345.5);
    expect_still(c->gsrc[0], (sl_real)-12345.5);
    expect_still(c->gdst[0], (sl_real)-12345.5);
    free_case(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_identity_adjoint),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_adjoint),
#ifdef SL_REAL_DOUBLE
        cmocka_unit_test(test_central_differences),
#endif
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
#endif
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
