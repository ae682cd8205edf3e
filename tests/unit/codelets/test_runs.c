/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows in runs (struct sl_runs): one task over all of them leaves the bits that a task for each run would, in rows
 * and in what is summed over rows, an empty run among them; sums of sums; refusals. */
#include "codelets/ends/loss.h"
#include "codelets/ends/reduce.h"
#include "codelets/rows/activate.h"
#include "codelets/rows/bias.h"
#include "codelets/rows/dense.h"
#include "tests/support/starpu_fixture.h"

enum { D = 700, F = 68, H = 60, N_RUNS = 5 };

/* Of lengths whose products are less and more than a million operations (gemm.c); they begin somewhere. */
static const uint32_t first[N_RUNS + 1] = {40, 41, 190, 190, 623, 40 + D};
static const struct sl_runs runs = {N_RUNS, first};

static struct sl_task_args with_runs(void)
{
    struct sl_task_args all = head;
    all.runs = &runs;
    return all;
}

static uint32_t row_of(uint32_t k)
{
    return first[k] - first[0];
}

/* Handles over run k alone of memory of D rows. */
static starpu_data_handle_t run_of(sl_real *memory, uint32_t k, uint32_t n_columns)
{
    return rows_of(memory + (size_t)row_of(k) * n_columns, row_of(k + 1) - row_of(k), n_columns);
}

static starpu_data_handle_t part_of(sl_real *memory, uint32_t k, uint32_t n_rows, uint32_t n_columns)
{
    return rows_of(memory + (size_t)k * n_rows * n_columns, n_rows, n_columns);
}

/* ---- products ---- */

struct products {
    sl_real *x, *w, *b, *gz; /* factors */
    sl_real *z, *gx, *gw, *gb;
};

static struct products make_products(void)
{
    return (struct products){.x = noisy(D * F, 1),
                             .w = noisy(F * H, 2),
                             .b = noisy(H, 3),
                             .gz = noisy(D * H, 4),
                             .z = poisoned(D * H),
                             .gx = noisy(D * F, 5),
                             .gw = poisoned(N_RUNS * F * H),
                             .gb = poisoned(N_RUNS * H)};
}

static void free_products(struct products *p)
{
    sl_real *all[] = {p->x, p->w, p->b, p->gz, p->z, p->gx, p->gw, p->gb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void submit_products(const struct sl_task_args *of, starpu_data_handle_t h[8], int beta)
{
    expect_ok(sl_dense_forward_submit(of, h[0], 0, h[1], h[2], 0, h[4]));
    expect_ok(sl_dense_backward_input_submit(of, h[3], h[1], beta, h[5], 0));
    expect_ok(sl_dense_backward_weight_submit(of, h[0], 0, h[3], h[6], h[7]));
}

static void check_products(int beta)
{
    struct products a = make_products();
    OWNED(free_products) struct products b = make_products();
    struct sl_task_args all = with_runs();
    starpu_data_handle_t whole[] = {rows_of(a.x, D, F),           rows_of(a.w, F, H),      rows_of(a.b, 1, H),
                                    rows_of(a.gz, D, H),          rows_of(a.z, D, H),      rows_of(a.gx, D, F),
                                    rows_of(a.gw, N_RUNS * F, H), rows_of(a.gb, N_RUNS, H)};
    submit_products(&all, whole, beta);
    UNREGISTER(whole);
    for (uint32_t k = 0; k < N_RUNS; k++) {
        starpu_data_handle_t h[] = {run_of(b.x, k, F),      rows_of(b.w, F, H),    rows_of(b.b, 1, H),
                                    run_of(b.gz, k, H),     run_of(b.z, k, H),     run_of(b.gx, k, F),
                                    part_of(b.gw, k, F, H), part_of(b.gb, k, 1, H)};
        submit_products(&head, h, beta);
        UNREGISTER(h);
    }
    expect_same("Z", D * H, sizeof *a.z, a.z, b.z);
    expect_same("GX", D * F, sizeof *a.gx, a.gx, b.gx);
    expect_same("GW", N_RUNS * F * H, sizeof *a.gw, a.gw, b.gw);
    expect_same("GB", N_RUNS * H, sizeof *a.gb, a.gb, b.gb);
    free_products(&a);
}

/* Sparse rows, of which row i is entry START + i of the frontier, vertex 3 i modulo D. */
static void check_sparse(void)
{
    enum { START = 6, EACH = 4 };
    uint64_t offsets[D + 1];
    uint32_t columns[D * EACH];
    sl_vertex frontier[START + D];
    float values[D * EACH];
    FREED sl_real *numbers = noisy(D * EACH, 1);
    FREED sl_real *gz = noisy(D * H, 2);
    sl_real *gw[2] = {poisoned(N_RUNS * F * H), poisoned(N_RUNS * F * H)};
    sl_real *gb[2] = {poisoned(N_RUNS * H), poisoned(N_RUNS * H)};
    struct sl_task_args all = with_runs();
    for (uint32_t v = 0; v <= D; v++) {
        offsets[v] = (uint64_t)v * EACH;
    }
    for (uint32_t e = 0; e < D * EACH; e++) {
        columns[e] = (e % EACH) * (F / EACH) + e / EACH % 7;
        values[e] = (float)numbers[e];
    }
    for (uint32_t i = 0; i < START + D; i++) {
        frontier[i] = (3 * i) % D;
    }
    starpu_data_handle_t h[] = {vector_of(offsets, D + 1, sizeof *offsets),
                                vector_of(columns, D * EACH, sizeof *columns),
                                vector_of(values, D * EACH, sizeof *values),
                                vector_of(frontier, START + D, sizeof *frontier),
                                rows_of(gz, D, H),
                                rows_of(gw[0], N_RUNS * F, H),
                                rows_of(gb[0], N_RUNS, H)};
    struct sl_sparse x = {.offsets = h[0], .columns = h[1], .values = h[2], .frontier = h[3], .max_row = EACH};
    expect_ok(sl_dense_sparse_backward_weight_submit(&all, &x, START, h[4], 0, &(struct sl_sparse_gradient){.gw = h[5]},
                                                     h[6]));
    starpu_data_unregister(h[4]);
    for (uint32_t k = 0; k < N_RUNS; k++) {
        starpu_data_handle_t one[] = {run_of(gz, k, H), part_of(gw[1], k, F, H), part_of(gb[1], k, 1, H)};
        expect_ok(sl_dense_sparse_backward_weight_submit(&head, &x, START + row_of(k), one[0], 0,
                                                         &(struct sl_sparse_gradient){.gw = one[1]}, one[2]));
        UNREGISTER(one);
    }
    h[4] = h[6];
    for (int i = 0; i < 6; i++) {
        starpu_data_unregister(h[i]);
    }
    expect_same("sparse GW", N_RUNS * F * H, sizeof(sl_real), gw[0], gw[1]);
    expect_same("sparse GB", N_RUNS * H, sizeof(sl_real), gb[0], gb[1]);
    for (int i = 0; i < 2; i++) {
        free(gw[i]);
        free(gb[i]);
    }
}

TEST(test_products)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_products(0);
        check_products(1);
        check_sparse();
        expect_no_failure();
        fixture_stop();
    }
}

/* ---- bias, layer norm, loss ---- */

TEST(test_bias)
{
    FREED sl_real *gz = noisy(D * H, 1);
    sl_real *gb[2] = {poisoned(N_RUNS * H), poisoned(N_RUNS * H)};
    fixture_start(1);
    struct sl_task_args all = with_runs();
    starpu_data_handle_t h[] = {rows_of(gz, D, H), rows_of(gb[0], N_RUNS, H)};
    expect_ok(sl_bias_backward_submit(&all, h[0], h[1]));
    UNREGISTER(h);
    for (uint32_t k = 0; k < N_RUNS; k++) {
        starpu_data_handle_t one[] = {run_of(gz, k, H), part_of(gb[1], k, 1, H)};
        expect_ok(sl_bias_backward_submit(&head, one[0], one[1]));
        UNREGISTER(one);
    }
    expect_no_failure();
    fixture_stop();
    expect_same("GB", N_RUNS * H, sizeof(sl_real), gb[0], gb[1]);
    free(gb[0]);
    free(gb[1]);
}

/* One direction of one norm: out[0] GZ, out[1] GW, out[2] GB. */
static void check_activate(enum sl_activate_norm norm)
{
    FREED sl_real *z = noisy(D * F, 1);
    FREED sl_real *gh = noisy(D * F, 2);
    FREED sl_real *weight = noisy(F, 3);
    FREED sl_real *bias = noisy(F, 4);
    sl_real *out[2][3];
    FREED uint8_t *gate = malloc(D * F);
    struct sl_task_args all = with_runs();
    bool sums = norm == SL_ACTIVATE_LAYER;
    for (uint32_t i = 0; i < D * F; i++) {
        gate[i] = i % 3 != 1;
    }
    for (int i = 0; i < 2; i++) {
        out[i][0] = poisoned(D * F);
        out[i][1] = poisoned(N_RUNS * F);
        out[i][2] = poisoned(N_RUNS * F);
    }
    starpu_data_handle_t shared[] = {rows_of(weight, 1, F), rows_of(bias, 1, F)};
    struct sl_activate_layer layer = {.norm = norm, .dropout = 0.5, .weight = shared[0], .bias = shared[1]};
    starpu_data_handle_t h[] = {
        rows_of(z, D, F),         sl_matrix_over(gate, D, F, SL_DTYPE_U8), rows_of(gh, D, F),
        rows_of(out[0][0], D, F), rows_of(out[0][1], N_RUNS, F),           rows_of(out[0][2], N_RUNS, F)};
    struct sl_activate_sums_handles of_all = {.gw = h[4], .gb = h[5]};
    expect_ok(sl_activate_backward_submit(&all, &layer, sums ? h[0] : NULL, h[1], h[2], &of_all, h[3]));
    UNREGISTER(h);
    for (uint32_t k = 0; k < N_RUNS; k++) {
        starpu_data_handle_t one[] = {
            run_of(z, k, F),
            sl_matrix_over(gate + (size_t)row_of(k) * F, row_of(k + 1) - row_of(k), F, SL_DTYPE_U8),
            run_of(gh, k, F),
            run_of(out[1][0], k, F),
            part_of(out[1][1], k, 1, F),
            part_of(out[1][2], k, 1, F)};
        struct sl_activate_sums_handles of_one = {.gw = one[4], .gb = one[5]};
        expect_ok(sl_activate_backward_submit(&head, &layer, sums ? one[0] : NULL, one[1], one[2], &of_one, one[3]));
        UNREGISTER(one);
    }
    UNREGISTER(shared);
    expect_same("GZ", D * F, sizeof(sl_real), out[0][0], out[1][0]);
    expect_same("GW", N_RUNS * F, sizeof(sl_real), out[0][1], out[1][1]);
    expect_same("GB", N_RUNS * F, sizeof(sl_real), out[0][2], out[1][2]);
    for (int i = 0; i < 3; i++) {
        free(out[0][i]);
        free(out[1][i]);
    }
}

TEST(test_activate)
{
    fixture_start(1);
    check_activate(SL_ACTIVATE_LAYER);
    check_activate(SL_ACTIVATE_PLAIN);
    expect_no_failure();
    fixture_stop();
}

TEST(test_loss)
{
    enum { C = 6 };
    sl_vertex ids[D];
    int32_t labels[D];
    FREED sl_real *z = noisy(D * C, 1);
    sl_real *gz[2] = {poisoned(D * C), poisoned(D * C)};
    double losses[2][N_RUNS];
    double total = -1;
    double wanted = 0;
    for (uint32_t v = 0; v < D; v++) {
        ids[v] = D - 1 - v;
        labels[v] = (int32_t)(v % (C + 1)) - 1;
    }
    fixture_start(1);
    struct sl_task_args all = with_runs();
    starpu_data_handle_t shared[] = {vector_of(ids, D, sizeof *ids), vector_of(labels, D, sizeof *labels)};
    struct sl_loss_handles of = {.targets = shared[1], .frontier = shared[0]};
    starpu_data_handle_t h[] = {rows_of(z, D, C), rows_of(gz[0], D, C),
                                sl_matrix_over(losses[0], N_RUNS, 1, SL_DTYPE_F64),
                                sl_matrix_over(&total, 1, 1, SL_DTYPE_F64)};
    expect_ok(sl_loss_submit(&all, h[0], &of, 0, 0.25, h[1], h[2]));
    static const uint32_t leaf = 4;
    expect_ok(sl_loss_sum_submit(&head, 1, &h[2], &leaf, false, NULL, h[3]));
    UNREGISTER(h);
    for (uint32_t k = 0; k < N_RUNS; k++) {
        starpu_data_handle_t one[] = {run_of(z, k, C), run_of(gz[1], k, C),
                                      sl_matrix_over(&losses[1][k], 1, 1, SL_DTYPE_F64)};
        expect_ok(sl_loss_submit(&head, one[0], &of, row_of(k), 0.25, one[1], one[2]));
        UNREGISTER(one);
        wanted += losses[1][k];
    }
    UNREGISTER(shared);
    expect_no_failure();
    fixture_stop();
    expect_same("losses", N_RUNS, sizeof(double), losses[0], losses[1]);
    expect_same("GZ", D * C, sizeof(sl_real), gz[0], gz[1]);
    assert_true(total == wanted && total > 0);
    free(gz[0]);
    free(gz[1]);
}

/* ---- sums of sums ---- */

/* However many partials lie in a handle, they are added in one tree. */
TEST(test_reduce)
{
    enum { N = 6, ROWS = 3, COLUMNS = 11, EACH = ROWS * COLUMNS };
    const uint32_t cuts[][4] = {{0, 1, 2, 6}, {0, 3, 5, 6}, {0, 4, 5, 6}};
    FREED sl_real *partials = noisy(N * EACH, 1);
    sl_real wanted[EACH];
    for (uint32_t i = 0; i < EACH; i++) {
        const sl_real *p = partials + i;
        wanted[i] = ((p[0] + p[EACH]) + (p[2 * EACH] + p[3 * EACH])) + (p[4 * EACH] + p[5 * EACH]);
    }
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        FREED sl_real *sum = poisoned(EACH);
        fixture_start(1);
        starpu_data_handle_t h[4] = {rows_of(sum, ROWS, COLUMNS)};
        for (uint32_t i = 0; i < 3; i++) {
            h[1 + i] = rows_of(partials + cuts[c][i] * EACH, (cuts[c][i + 1] - cuts[c][i]) * ROWS, COLUMNS);
        }
        expect_ok(sl_reduce_submit(&head, 3, h + 1, cuts[c], h[0]));
        UNREGISTER(h);
        expect_no_failure();
        fixture_stop();
        expect_same("the sum", EACH, sizeof *sum, sum, wanted);
    }
}

/* ---- refusals ---- */

TEST_MAIN(NULL, NULL)
