/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/exchange/crossing.h: whole runs whose rows and gradients travel by NCCL are the runs whose rows and gradients do not. Between
 * made-up GPUs over the stand-in for NCCL, whose sums have an order of their own; on a machine with GPUs, on as many as it has. */
#include "tests/run_fixture.h"

#ifdef SL_EMULATED
#include <nccl.h>
#endif
#define N_STEPS 2

static const struct graph_shape dense_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 401, .n_columns = 20, .n_classes = 5, .seed = 21};
static const struct graph_shape sparse_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 401, .n_columns = 80, .n_classes = 5, .sparse = true, .seed = 22};
static struct sl_dataset dense_set, sparse_set;

struct crossing {
    uint32_t pes, group_size, gpus;
    int norm, sync;
    bool residual, sparse;
};

/* Three layers: one widens (rows are exchanged), one keeps its width, one narrows (projections are). */
static void settings_of(const struct crossing *c, struct sl_settings *out)
{
    static const uint32_t fanout[] = {3, 3, 4};
    expect_ok(sl_settings_init(out));
    out->layers = 3;
    out->hidden = 24;
    out->dropout = 0.3;
    out->norm = c->norm;
    out->residual = c->residual;
    out->sync = c->sync;
    out->n_fanout = 3;
    memcpy(out->fanout, fanout, sizeof fanout);
    out->pes = c->pes;
    out->group_size = c->group_size;
    out->batch_size = 120 / c->pes;
    out->chunks = 2;
    out->seed = 3;
}

static void run_with(const struct crossing *c, int transport, struct outcome *out)
{
    struct sl_settings settings;
    settings_of(c, &settings);
    settings.transport = transport;
#ifdef SL_EMULATED
    emulated_gpus = c->gpus;
#else
    machine_down();
    machine_up_with(NULL, 0, c->gpus);
#endif
    run_steps(c->sparse ? &sparse_set : &dense_set, &settings, N_STEPS, out);
    sl_settings_free(&settings);
}

/* Wherever no sum is NCCL's, or it has one summand, to the bit. */
static void expect_alike(const struct crossing *c, const struct outcome *got, const struct outcome *wanted)
{
    bool bits = c->gpus == 1 || c->sync != SL_SYNC_ALLREDUCE;
    double tolerance = bits ? 0 : c->norm == SL_NORM_BATCH ? 1e-4 : 1e-5;
    for (uint32_t i = 0; i < N_STEPS; i++) {
        if (!(fabs(got->loss[i] - wanted->loss[i]) <= tolerance * fabs(wanted->loss[i]))) {
            fail_msg("P = %u, G = %u, %u GPUs, norm %d: loss of step %u is %.9g by NCCL, %.9g without", c->pes,
                     c->group_size, c->gpus, c->norm, i, got->loss[i], wanted->loss[i]);
        }
    }
    if (bits) {
        expect_same("parameters", wanted->n_entries, sizeof(sl_real), got->parameters, wanted->parameters);
    }
}

static void check(const struct crossing *c)
{
    struct outcome wanted;
    struct outcome got;
    run_with(c, SL_TRANSPORT_STARPU, &wanted);
    run_with(c, SL_TRANSPORT_NCCL, &got);
    expect_alike(c, &got, &wanted);
    outcome_free(&wanted);
    outcome_free(&got);
}

static bool are_there(uint32_t n_gpus)
{
#ifdef SL_EMULATED
    return n_gpus <= 4;
#else
    return wants_gpu() && n_gpus <= sl_gpus_count();
#endif
}

/* As far as there are GPUs for them. */
static void check_all(size_t n, const struct crossing *cases)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (are_there(cases[i].gpus)) {
            check(&cases[i]);
            any = true;
        }
    }
    if (!any) {
        skip();
    }
}

static void test_one_gpu(void **state)
{
    (void)state;
    static const struct crossing cases[] = {
        {3, 3, 1, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false},
        {4, 2, 1, SL_NORM_BATCH, SL_SYNC_ALLREDUCE, false, true},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

/* PEs as many as GPUs, more, fewer; groups on one GPU and across; every norm. */
static void test_several_gpus(void **state)
{
    (void)state;
    static const struct crossing cases[] = {
        {4, 4, 3, SL_NORM_LAYER, SL_SYNC_ALLREDUCE, true, false},
        {4, 2, 4, SL_NORM_BATCH, SL_SYNC_ALLREDUCE, false, false},
        {2, 2, 4, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, true},
        {2, 1, 2, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

static void test_gossip(void **state)
{
    (void)state;
    static const struct crossing cases[] = {
        {4, 2, 4, SL_NORM_NONE, SL_SYNC_DISSEMINATION, false, false},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

#ifdef SL_EMULATED
/* The PE in whose slot this is what arrived (or, back, returned) from or to PE *other. */
static uint32_t pe_of(const struct world *w, bool back, starpu_data_handle_t handle, uint32_t *other)
{
    uint32_t n_parts = w->steps.shards->n_parts;
    for (uint32_t p = 0; p < w->steps.n_pes; p++) {
        const struct sl_slot_pe *pe = sl_step_slot(&w->steps, 0, p);
        for (uint32_t k = 0; k < w->steps.n_hops * n_parts; k++) {
            if ((back ? pe->returned : pe->arrived)[k] == handle) {
                *other = sl_step_peer(&w->steps, p, k % n_parts);
                return p;
            }
        }
    }
    fail_msg("a move goes to a buffer of no slot");
    return 0;
}

static sl_real cells[16]; /* one of each pair of PEs */
static const uint32_t three_gpus[] = {0, 0, 1, 2};

/* Every pair of four PEs on three GPUs: PEs 0 and 1 share one. */
static void check_route(struct world *w, bool back)
{
    const uint32_t *gpu = three_gpus;
    starpu_data_handle_t handle[16];
    const struct sl_transport_move *moves = w->steps.crossing.moves;
    uint32_t n = 0;
    for (uint32_t k = 0; k < 16; k++) {
        struct sl_step_pe *pe = &w->steps.pe[k / 4];
        handle[k] = rows_of(&cells[k], 1, 1);
        *(back ? &pe->sent[k % 4] : &pe->packed[k % 4]) = k / 4 == k % 4 ? NULL : handle[k];
    }
    expect_ok(sl_crossing_rows(&w->steps, 0, 1, back));
    for (uint32_t k = 0; k < 16; k++) {
        const struct sl_step_pe *pe = &w->steps.pe[k / 4];
        starpu_data_handle_t now = (back ? pe->sent : pe->packed)[k % 4];
        if (k / 4 == k % 4 || gpu[k / 4] == gpu[k % 4]) {
            assert_true(now == (k / 4 == k % 4 ? NULL : handle[k]));
            continue;
        }
        uint32_t other = 0;
        uint32_t p = pe_of(w, back, now, &other);
        assert_true(p == k / 4 && other == k % 4);
        assert_true(moves[n].source == handle[k] && moves[n].target == now);
        assert_int_equal(moves[n].from, gpu[back ? p : other]);
        assert_int_equal(moves[n].to, gpu[back ? other : p]);
        n++;
    }
    assert_int_equal(n, 10);
    unregister(16, handle);
    sl_step_drop(&w->steps);
}

/* Rows go from the owner's GPU to the requester's, their gradients the other way, and are read where they arrived. */
static void test_routes(void **state)
{
    (void)state;
    static const struct crossing c = {4, 4, 3, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false};
    struct sl_settings settings;
    struct world w;
    settings_of(&c, &settings);
    settings.transport = SL_TRANSPORT_NCCL;
    emulated_gpus = c.gpus;
    world_open(&dense_set, &settings, 1, &w);
    sl_step_take(&w.steps, 0);
    check_route(&w, false);
    check_route(&w, true);
    for (uint32_t p = 0; p < c.pes; p++) {
        assert_int_equal(sl_crossing_sum_of(&w.steps, p), three_gpus[p]);
    }
    world_close(&w);
    sl_settings_free(&settings);
}

/* A GPU that stays away ends the run with a status; nothing hangs, nothing is left. */
static void test_stuck(void **state)
{
    (void)state;
    static const struct crossing c = {2, 2, 2, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false};
    struct sl_settings settings;
    struct world w;
    struct sl_step_sizes sizes;
    double loss = NAN;
    starpu_data_handle_t handle;
    settings_of(&c, &settings);
    settings.transport = SL_TRANSPORT_NCCL;
    emulated_gpus = c.gpus;
    world_open(&dense_set, &settings, 1, &w);
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
    struct sl_adam adam = adam_of(&settings, 0);
    sl_nccl_fault = (struct sl_nccl_fault){SL_NCCL_REPORTS, 1};
    expect_ok(sl_step_submit(&w.steps, 0, &adam, handle, &sizes));
    starpu_data_unregister(handle);
    starpu_task_wait_for_all();
    sl_nccl_fault = (struct sl_nccl_fault){0};
    assert_int_equal(sl_failure_status(&w.run.failure), SL_ENCCL);
    assert_non_null(strstr(sl_message(), "GPU 1 reports"));
    world_close(&w);
    sl_settings_free(&settings);
}
#endif

static int make_sets(void **state)
{
    int failed = group_up(state);
    make_dataset(&dense_shape, &dense_set);
    make_dataset(&sparse_shape, &sparse_set);
    return failed;
}

static int free_sets(void **state)
{
    forget_partitions();
    sl_dataset_free(&dense_set);
    sl_dataset_free(&sparse_set);
    return group_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_gpu), cmocka_unit_test(test_several_gpus), cmocka_unit_test(test_gossip),
#ifdef SL_EMULATED
        cmocka_unit_test(test_routes),  cmocka_unit_test(test_stuck),
#endif
    };
    return cmocka_run_group_tests(tests, make_sets, free_sets);
}
