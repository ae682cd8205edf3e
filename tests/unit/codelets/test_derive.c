/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/derive.h: derived matrices against the formulas in double, their adjoints against inner products,
 * central differences and the formulas. */
#include "codelets/rows/derive.h"

#include "tests/support/starpu_fixture.h"

/* ---- identity ---- */

static void check_identity(uint32_t n, double a, double b)
{
    FREED sl_real *w = noisy((size_t)n * n, 1);
    FREED sl_real *out = poisoned((size_t)n * n);
    starpu_data_handle_t h[] = {rows_of(w, n, n), rows_of(out, n, n)};
    expect_ok(sl_derive_identity_submit(&head, a, b, h[0], h[1]));
    UNREGISTER(h);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double wanted = b * (double)w[i] + (i / n == i % n ? a : 0);
        expect_near_at("OUT", i, (double)out[i], wanted, 4 * EPSILON * (fabs(a) + fabs(b)));
    }
}

TEST(identity)
{
    const uint32_t sizes[] = {1, 2, 33, 64};
    fixture_start(1);
    fixture_watch();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        check_identity(sizes[s], 0.8, 0.2);
        check_identity(sizes[s], 0, 1);
    }
    expect_no_failure();
    fixture_stop();
}

/* ---- attention ---- */

/* F, H, K, R: one row, one head, heads of one column, wide heads, more rows than are added up at a time, a head
 * more than a tile of columns; one relation and several. */
static const uint32_t shapes[][4] = {{1, 1, 1, 1},    {1, 8, 4, 1},   {5, 12, 3, 1},   {17, 8, 8, 1},
                                     {65, 40, 1, 1},  {70, 66, 2, 1}, {300, 36, 4, 1}, {9, 600, 2, 1},
                                     {1300, 6, 3, 1}, {65, 12, 3, 5}, {1, 4, 4, 2},    {300, 34, 1, 7}};
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
    const uint32_t n = c->a.n_rows, n_vector = c->n_vector;
    const uint32_t n_out = n_vector + 2 * c->a.n_heads * c->a.n_slabs;
    starpu_data_handle_t h[] = {rows_of(c->w, n, n_vector),    rows_of(c->src, 1, n_vector),
                                rows_of(c->dst, 1, n_vector),  rows_of(c->out, n, n_out),
                                rows_of(c->gout, n, n_out),    rows_of(c->gw, n, n_vector),
                                rows_of(c->gsrc, 1, n_vector), rows_of(c->gdst, 1, n_vector)};
    const struct sl_derive_attention_layer layer = {c->a.n_heads, c->a.n_slabs, h[0], h[1], h[2]};
    expect_ok(sl_derive_attention_submit(&head, &layer, h[3]));
    expect_ok(sl_derive_attention_backward_submit(&head, &layer, h[4], h[5], h[6], h[7]));
    UNREGISTER(h);
    expect_no_failure();
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
    FREED double *gsrc = need(c->n_vector, sizeof *gsrc);
    FREED double *gdst = need(c->n_vector, sizeof *gdst);
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
}

/* V of the same W and src, with the heads of all relations, and its gradients from noise. */
static void check_scores(const struct case_ *c)
{
    const uint32_t n = c->a.n_rows, h = c->n_vector, heads = c->a.n_heads * c->a.n_slabs, width = h / heads;
    FREED sl_real *v = poisoned((size_t)heads * n);
    FREED sl_real *gv = noisy((size_t)heads * n, 7);
    FREED double *gsrc = need(h, sizeof *gsrc);
    starpu_data_handle_t handle[] = {rows_of(c->w, n, h),       rows_of(c->src, 1, h), rows_of(v, 1, heads * n),
                                     rows_of(gv, 1, heads * n), rows_of(c->gw, n, h),  rows_of(c->gsrc, 1, h)};
    const struct sl_derive_attention_layer layer = {heads, 1, handle[0], handle[1], NULL};
    expect_ok(sl_derive_scores_submit(&head, &layer, handle[2]));
    expect_ok(sl_derive_scores_backward_submit(&head, &layer, handle[3], handle[4], handle[5]));
    UNREGISTER(handle);
    expect_no_failure();
    for (uint32_t i = 0; i < heads * n; i++) {
        const uint32_t c0 = i / n * width;
        const double wanted = inner(width, c->w + (size_t)(i % n) * h + c0, c->src + c0);
        expect_near_at("V", i, (double)v[i], wanted, rounding(width, 1));
    }
    for (size_t at = 0; at < (size_t)n * h; at++) {
        const double g = (double)gv[at % h / width * n + at / h];
        expect_near_at("GW of V", at, (double)c->gw[at], g * (double)c->src[at % h], 2 * EPSILON);
        gsrc[at % h] += g * (double)c->w[at];
    }
    expect_rows("GSRC of V", h, c->gsrc, gsrc, rounding(n, 1));
}

/* W spread over heads and relations, and its gradient: <OUT, GOUT> is <W, GW>, if the entries of GOUT that are not read
 * are 0; elsewhere they are not. */
static void check_spread(uint32_t n, uint32_t h, uint32_t heads, uint32_t n_slabs)
{
    const uint32_t rows = n_slabs * heads * n;
    const size_t n_w = (size_t)n * n_slabs * h;
    FREED sl_real *w = noisy(n_w, 1), *gout = noisy((size_t)rows * h, 2), *out = poisoned((size_t)rows * h);
    FREED sl_real *gw = noisy(n_w, 3), *before = noisy(n_w, 3);
    starpu_data_handle_t handle[] = {rows_of(w, n, n_slabs * h), rows_of(out, rows, h), rows_of(gout, rows, h),
                                     rows_of(gw, n, n_slabs * h)};
    const struct sl_derive_attention_layer layer = {heads, n_slabs, handle[0], NULL, NULL};
    expect_ok(sl_derive_spread_submit(&head, &layer, handle[1]));
    expect_ok(sl_derive_spread_backward_submit(&head, &layer, handle[2], handle[3]));
    UNREGISTER(handle);
    expect_no_failure();
    for (size_t at = 0; at < (size_t)rows * h; at++) {
        const size_t j = at / h, c = at % h, own = (j % n * n_slabs + j / n / heads) * h + c;
        const bool mine = j / n % heads == c * heads / h;
        assert_true(out[at] == (mine ? w[own] : 0));
        if (mine) {
            expect_near_at("GW", own, (double)gw[own], (double)before[own] + (double)gout[at], 4 * EPSILON);
        }
    }
}

TEST(attention)
{
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        fixture_start(worker_counts[n]);
        if (n == 0) {
            fixture_watch();
        }
        for (size_t s = 0; s < N_SHAPES; s++) {
            struct case_ *c = make_case(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
            run_case(c);
            check_forward(c);
            check_backward(c);
            check_scores(c);
            free_case(c);
        }
        check_spread(1, 1, 1, 1);
        check_spread(5, 24, 3, 4);
        check_spread(40, 140, 2, 1);
        fixture_stop();
    }
}

/* Linear in W with src and dst held, and linear in (src, dst) with W held: <OUT, Y> is <W, GW> and, in the columns
 * of scores alone, <src, GSRC> + <dst, GDST>. */
TEST(attention_adjoint)
{
    fixture_start(1);
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
    fixture_stop();
}

#ifdef SL_REAL_DOUBLE
/* <OUT, GOUT> with x[i] moved. */
static double moved(struct case_ *c, sl_real *x, size_t i, double by)
{
    sl_real before = x[i];
    x[i] += by;
    run_case(c);
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
TEST(central_differences)
{
    fixture_start(1);
    struct case_ *c = make_case(6, 8, 2, 3);
    run_case(c);
    sl_real *const gw = c->gw, *const gsrc = c->gsrc, *const gdst = c->gdst;
    c->gw = poisoned(c->n_w);
    c->gsrc = poisoned(c->n_vector);
    c->gdst = poisoned(c->n_vector);
    check_differences(c, "GW", c->n_w, c->w, gw);
    check_differences(c, "GSRC", c->n_vector, c->src, gsrc);
    check_differences(c, "GDST", c->n_vector, c->dst, gdst);
    free(gw);
    free(gsrc);
    free(gdst);
    free_case(c);
    fixture_stop();
}
#endif

/* ---- encoded features ---- */

/* OUT, GE and GW of noise, and <OUT, GOUT> three ways: OUT is linear in E and in W. */
static void check_encoded(uint32_t n_slabs, uint32_t f, uint32_t n, uint32_t h, bool side_by_side)
{
    const uint32_t rows = n_slabs * f;
    const size_t n_w = (size_t)n_slabs * n * h;
    FREED sl_real *e = noisy((size_t)rows * n, 1), *w = noisy(n_w, 2), *gout = noisy((size_t)rows * h, 3);
    FREED sl_real *out = poisoned((size_t)rows * h), *ge = poisoned((size_t)rows * n), *gw = noisy(n_w, 4);
    FREED sl_real *before = noisy(n_w, 4);
    FREED double *wanted = need((size_t)rows * h, sizeof *wanted), *wanted_e = need((size_t)rows * n, sizeof *wanted_e);
    FREED double *wanted_w = need(n_w, sizeof *wanted_w);
    const uint32_t w_rows = side_by_side ? n : n_slabs * n, w_columns = side_by_side ? n_slabs * h : h;
    starpu_data_handle_t handle[] = {rows_of(e, rows, n),   rows_of(w, w_rows, w_columns),
                                     rows_of(out, rows, h), rows_of(gout, rows, h),
                                     rows_of(ge, rows, n),  rows_of(gw, w_rows, w_columns)};
    const struct sl_derive_encoded_layer layer = {n_slabs, handle[0], handle[1]};
    expect_ok(sl_derive_encoded_submit(&head, &layer, handle[2]));
    expect_ok(sl_derive_encoded_backward_submit(&head, &layer, handle[3], handle[4], handle[5]));
    UNREGISTER(handle);
    expect_no_failure();
    for (size_t i = 0; i < n_w; i++) {
        wanted_w[i] = (double)before[i];
    }
    for (uint32_t j = 0; j < rows; j++) {
        for (uint32_t i = 0; i < n; i++) {
            const size_t row = side_by_side ? ((size_t)i * n_slabs + j / f) * h : ((size_t)(j / f) * n + i) * h;
            for (uint32_t c = 0; c < h; c++) {
                wanted[j * h + c] += (double)e[j * n + i] * (double)w[row + c];
                wanted_e[j * n + i] += (double)gout[j * h + c] * (double)w[row + c];
                wanted_w[row + c] += (double)gout[j * h + c] * (double)e[j * n + i];
            }
        }
    }
    expect_rows("OUT", rows * h, out, wanted, rounding(n, 1));
    expect_rows("GE", rows * n, ge, wanted_e, rounding(h, 1));
    expect_rows("GW", (uint32_t)n_w, gw, wanted_w, rounding(f + 1, 1));
    const double both = inner((size_t)rows * h, out, gout), tolerance = rounding((uint32_t)n_w + rows * n, 3);
    expect_near("<E, GE>", inner((size_t)rows * n, e, ge), both, tolerance);
    expect_near("<W, GW>", inner(n_w, w, gw) - inner(n_w, w, before), both, tolerance);
}

TEST(encoded)
{
    static const uint32_t sizes[][4] = {{1, 1, 1, 1}, {1, 3, 5, 8}, {4, 3, 5, 8}, {1, 100, 33, 65}, {7, 2, 70, 40}};
    for (size_t k = 0; k < N_WORKER_COUNTS; k++) {
        fixture_start(worker_counts[k]);
        if (k == 0) {
            fixture_watch();
        }
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            check_encoded(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], false);
            check_encoded(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], true);
        }
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
