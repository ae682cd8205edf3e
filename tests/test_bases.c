/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/bases.h: matrices and gradients against the formulas in double, the adjoint by inner products, and
 * submissions and launchers against the kernels. */
#include "codelets/bases.h"

#include "tests/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/cuda_fixture.h"
#endif

/* Shapes, and the arrays of a case. */
struct world {
    struct sl_bases bases;
    size_t n_v, n_c, n_w;
    sl_real *v, *c, *w, *gw, *gv, *gc;
};

static struct world make_world(uint32_t n_in, uint32_t n_out, uint32_t n_relations, uint32_t n_bases, bool side_by_side)
{
    struct world a = {.n_v = (size_t)n_bases * n_in * n_out,
                      .n_c = (size_t)n_relations * n_bases,
                      .n_w = (size_t)n_relations * n_in * n_out};
    a.v = noisy(a.n_v, 1);
    a.c = noisy(a.n_c, 2);
    a.gw = noisy(a.n_w, 3);
    a.w = poisoned(a.n_w);
    a.gv = poisoned(a.n_v);
    a.gc = poisoned(a.n_c);
    a.bases = (struct sl_bases){n_in, n_out, n_relations, n_bases, side_by_side, a.v, a.c};
    return a;
}

static void free_world(struct world *a)
{
    sl_real *const all[] = {a->v, a->c, a->w, a->gw, a->gv, a->gc};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

/* Entry (i, j) of matrix k of n: written apart from sl_bases_row. */
static size_t entry(const struct sl_bases *b, uint32_t n, uint32_t k, uint32_t i, uint32_t j)
{
    if (b->side_by_side) {
        return (size_t)i * n * b->n_out + (size_t)k * b->n_out + j;
    }
    return (size_t)k * b->n_in * b->n_out + (size_t)i * b->n_out + j;
}

static void check_kernels(uint32_t n_in, uint32_t n_out, uint32_t n_relations, uint32_t n_bases, bool side_by_side)
{
    struct world a = make_world(n_in, n_out, n_relations, n_bases, side_by_side);
    const struct sl_bases *b = &a.bases;
    double *gv = need(a.n_v, sizeof *gv);
    sl_bases_cpu(b, a.w);
    sl_bases_backward_cpu(b, a.gw, a.gv, a.gc);
    for (uint32_t r = 0; r < n_relations; r++) {
        for (uint32_t k = 0; k < n_bases; k++) {
            double gc = 0;
            for (uint32_t e = 0; e < n_in * n_out; e++) {
                const size_t w = entry(b, n_relations, r, e / n_out, e % n_out);
                const size_t v = entry(b, n_bases, k, e / n_out, e % n_out);
                gc += (double)a.gw[w] * (double)a.v[v];
                gv[v] += (double)a.c[r * n_bases + k] * (double)a.gw[w];
            }
            expect_near_at("GC", r * n_bases + k, (double)a.gc[r * n_bases + k], gc, rounding(n_in * n_out, 1));
        }
        for (uint32_t e = 0; e < n_in * n_out; e++) {
            double wanted = 0;
            for (uint32_t k = 0; k < n_bases; k++) {
                wanted += (double)a.c[r * n_bases + k] * (double)a.v[entry(b, n_bases, k, e / n_out, e % n_out)];
            }
            const size_t w = entry(b, n_relations, r, e / n_out, e % n_out);
            expect_near_at("W", w, (double)a.w[w], wanted, rounding(n_bases, 1));
        }
    }
    for (size_t i = 0; i < a.n_v; i++) {
        expect_near_at("GV", i, (double)a.gv[i], gv[i], rounding(n_relations, 1));
    }
    /* W is linear in V and in C: <W, GW> = <V, GV> = <C, GC>. */
    const double wanted = inner(a.n_w, a.w, a.gw);
    expect_near("<V, GV>", inner(a.n_v, a.v, a.gv), wanted, rounding(n_in * n_out * n_relations, 4));
    expect_near("<C, GC>", inner(a.n_c, a.c, a.gc), wanted, rounding(n_in * n_out * n_relations, 4));
    free(gv);
    free_world(&a);
}

static void test_kernels(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        check_kernels(5, 3, 4, 2, side);
        check_kernels(1, 1, 1, 1, side);
        check_kernels(33, 17, 7, 3, side);
    }
}

static void check_submissions(bool side)
{
    struct world a = make_world(9, 4, 5, 3, side);
    struct world b = make_world(9, 4, 5, 3, side);
    sl_bases_cpu(&a.bases, a.w);
    sl_bases_backward_cpu(&a.bases, a.gw, a.gv, a.gc);
    fixture_start(1);
    starpu_data_handle_t h[] = {
        side ? rows_of(b.v, 9, 12) : rows_of(b.v, 27, 4),   rows_of(b.c, 5, 3),
        side ? rows_of(b.w, 9, 20) : rows_of(b.w, 45, 4),   side ? rows_of(b.gw, 9, 20) : rows_of(b.gw, 45, 4),
        side ? rows_of(b.gv, 9, 12) : rows_of(b.gv, 27, 4), rows_of(b.gc, 5, 3)};
    const struct sl_bases_layer layer = {side, h[0], h[1]};
    expect_ok(sl_bases_submit(&head, &layer, h[2]));
    expect_ok(sl_bases_backward_submit(&head, &layer, h[3], h[4], h[5]));
    assert_int_equal(sl_bases_submit(&head, &layer, h[4]), SL_EINVAL);
    assert_int_equal(sl_bases_backward_submit(&head, &layer, h[3], h[5], h[5]), SL_EINVAL);
    assert_int_equal(sl_bases_backward_submit(&head, &layer, h[3], h[4], h[4]), SL_EINVAL);
    UNREGISTER(h);
    expect_no_failure();
    fixture_stop();
    expect_same("W", a.n_w, sizeof(sl_real), b.w, a.w);
    expect_same("GV", a.n_v, sizeof(sl_real), b.gv, a.gv);
    for (size_t i = 0; i < a.n_c; i++) { /* on a device the order is another */
        expect_near_at("GC", i, (double)b.gc[i], (double)a.gc[i], rounding(36, 1));
    }
    free_world(&a);
    free_world(&b);
}

static void test_submissions(void **state)
{
    (void)state;
    check_submissions(false);
    check_submissions(true);
}

#ifdef SL_CUDA
static void check_launchers(bool side)
{
    struct world a = make_world(33, 17, 5, 3, side);
    struct sl_bases there = a.bases;
    sl_real *gw = on_device(a.gw, a.n_w * sizeof *gw);
    sl_real *out[] = {device_room(a.n_w * sizeof *gw), device_room(a.n_v * sizeof *gw),
                      device_room(a.n_c * sizeof *gw)};
    sl_real *host = need(a.n_w + a.n_v, sizeof *host);
    sl_bases_cpu(&a.bases, a.w);
    sl_bases_backward_cpu(&a.bases, a.gw, a.gv, a.gc);
    there.v = on_device(a.v, a.n_v * sizeof *gw);
    there.c = on_device(a.c, a.n_c * sizeof *gw);
    expect_launched(sl_bases_cuda(NULL, &there, out[0]));
    expect_launched(sl_bases_backward_cuda(NULL, &there, gw, out[1], out[2]));
    const size_t n[] = {a.n_w, a.n_v, a.n_c};
    const sl_real *wanted[] = {a.w, a.gv, a.gc};
    for (int i = 0; i < 3; i++) {
        from_device(host, out[i], n[i] * sizeof *host);
        for (size_t e = 0; e < n[i]; e++) {
            expect_near_at("W, GV, GC", e, (double)host[e], (double)wanted[i][e], rounding(33 * 17, 1));
        }
    }
    assert_int_equal(cudaFree(gw), cudaSuccess);
    assert_int_equal(cudaFree((void *)there.v), cudaSuccess);
    assert_int_equal(cudaFree((void *)there.c), cudaSuccess);
    free(host);
    free_world(&a);
}

static void test_launchers(void **state)
{
    (void)state;
    need_device();
    check_launchers(false);
    check_launchers(true);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_submissions),
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
