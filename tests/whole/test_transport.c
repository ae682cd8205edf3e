/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/exchange/transport.h: whole runs whose rows and gradients travel by NCCL are the runs whose rows and
 * gradients do not. Between made-up GPUs over the stand-in for NCCL, whose sums have an order of their own; on a
 * machine with GPUs, on as many as it has. */
#include "tests/support/run_fixture.h"

#include "data/load.h"
#include "tasks/nccl_lane.h"

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
    int precision;
};

/* Three layers: one widens (rows are exchanged), one keeps its width, one narrows; sparse rows are projected first. */
static void settings_of(const struct crossing *c, struct sl_settings *out)
{
    settings_with("layers=3 hidden=24 dropout=0.3 fanout=3,3,4", out);
    out->norm = c->norm;
    out->residual = c->residual;
    out->sync = c->sync;
    out->precision = c->precision;
    out->pes = c->pes;
    out->group_size = c->group_size;
    out->batch_size = 120 / c->pes;
    out->chunks = 2;
    out->seed = 3;
}

static void run_with(const struct crossing *c, int transport, struct outcome *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    settings_of(c, &settings);
    settings.transport = transport;
#ifdef SL_EMULATED
    emulated_gpus = c->gpus;
#else
    machine_down();
    machine_up_with(NULL, 0, c->gpus);
#endif
    run_steps(c->sparse ? &sparse_set : &dense_set, &settings, N_STEPS, out);
}

/* Wherever no sum is NCCL's, or it has one summand, to the bit. */
static void expect_alike(const struct crossing *c, const struct outcome *got, const struct outcome *wanted)
{
    bool bits = c->gpus == 1 || c->sync != SL_SYNC_ALLREDUCE;
    double tolerance = bits ? 0 : c->precision == SL_PRECISION_BF16 ? 1e-2 : c->norm == SL_NORM_BATCH ? 1e-4 : 1e-5;
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
    OWNED(outcome_free) struct outcome wanted;
    OWNED(outcome_free) struct outcome got;
    if (c->precision == SL_PRECISION_BF16) {
        needs_bf16();
    }
    run_with(c, SL_TRANSPORT_STARPU, &wanted);
    run_with(c, SL_TRANSPORT_NCCL, &got);
    expect_alike(c, &got, &wanted);
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

TEST(test_one_gpu)
{
    static const struct crossing cases[] = {
        {3, 3, 1, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false, SL_PRECISION_FLOAT},
        {4, 2, 1, SL_NORM_BATCH, SL_SYNC_ALLREDUCE, false, true, SL_PRECISION_FLOAT},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

/* PEs as many as GPUs, more, fewer; groups on one GPU and across; every norm. */
TEST(test_several_gpus)
{
    static const struct crossing cases[] = {
        {4, 4, 3, SL_NORM_LAYER, SL_SYNC_ALLREDUCE, true, false, SL_PRECISION_FLOAT},
        {4, 2, 4, SL_NORM_BATCH, SL_SYNC_ALLREDUCE, false, false, SL_PRECISION_FLOAT},
        {2, 2, 4, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, true, SL_PRECISION_FLOAT},
        {2, 1, 2, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false, SL_PRECISION_FLOAT},
        {4, 4, 3, SL_NORM_LAYER, SL_SYNC_ALLREDUCE, true, false, SL_PRECISION_BF16},
        /* rows travel, sums do not: the same bits */
        {4, 2, 4, SL_NORM_NONE, SL_SYNC_DISSEMINATION, false, false, SL_PRECISION_BF16},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

TEST(test_gossip)
{
    static const struct crossing cases[] = {
        {4, 2, 4, SL_NORM_NONE, SL_SYNC_DISSEMINATION, false, false, SL_PRECISION_FLOAT},
    };
    check_all(sizeof cases / sizeof *cases, cases);
}

#ifdef SL_EMULATED
/* What goes through the transport to NCCL's tasks. */
static struct sl_nccl_lane_move moves[16];
static uint32_t n_moves;

enum sl_status __real_sl_nccl_lane_move_submit(const struct sl_task_args *task, struct sl_nccl_lane *transport,
                                               enum sl_stage stage, uint32_t n, const struct sl_nccl_lane_move *list);
enum sl_status __wrap_sl_nccl_lane_move_submit(const struct sl_task_args *task, struct sl_nccl_lane *transport,
                                               enum sl_stage stage, uint32_t n, const struct sl_nccl_lane_move *list);

enum sl_status __wrap_sl_nccl_lane_move_submit(const struct sl_task_args *task, struct sl_nccl_lane *transport,
                                               enum sl_stage stage, uint32_t n, const struct sl_nccl_lane_move *list)
{
    n_moves = n < 16 ? n : 16;
    memcpy(moves, list, n_moves * sizeof *list);
    return __real_sl_nccl_lane_move_submit(task, transport, stage, n, list);
}

static sl_real cells[16]; /* one of each pair of PEs */
static const uint32_t three_gpus[] = {0, 0, 1, 2};

/* Every pair of four PEs on three GPUs: PEs 0 and 1 share one. */
static void check_route(struct world *w, enum sl_stage stage)
{
    starpu_data_handle_t handle[16];
    starpu_data_handle_t room[16] = {NULL};
    starpu_data_handle_t handles[16];
    struct sl_parcel parcels[16];
    struct sl_task_args here = sl_step_head(w->steps, 0, 0, 0);
    for (uint32_t k = 0; k < 16; k++) {
        cells[k] = (sl_real)(k + 1);
        handle[k] = handles[k] = rows_of(&cells[k], 1, 1);
        parcels[k] = (struct sl_parcel){.from = k / 4, .to = k % 4, .handle = &handles[k], .room = &room[k]};
    }
    expect_ok(sl_transport_rows(&w->transport, &here, stage, 16, parcels));
    uint32_t n = 0;
    for (uint32_t k = 0; k < 16; k++) {
        if (three_gpus[k / 4] == three_gpus[k % 4]) {
            assert_true(handles[k] == handle[k] && room[k] == NULL);
            continue;
        }
        assert_true(handles[k] == room[k] && room[k] != NULL);
        assert_true(moves[n].source == handle[k] && moves[n].target == handles[k]);
        assert_int_equal(moves[n].from, three_gpus[k / 4]);
        assert_int_equal(moves[n++].to, three_gpus[k % 4]);
        assert_int_equal(starpu_data_acquire(handles[k], STARPU_R), 0);
        assert_true(*(const sl_real *)starpu_data_get_local_ptr(handles[k]) == (sl_real)(k + 1));
        starpu_data_release(handles[k]);
        sl_handle_drop(&room[k]);
    }
    assert_int_equal(n, 10);
    assert_int_equal(n_moves, 10);
    unregister(16, handle);
}

/* From the GPU of one PE to that of the other, both ways of a step, and read where it arrived. */
TEST(test_routes)
{
    static const struct crossing c = {4, 4, 3, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false, SL_PRECISION_FLOAT};
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    settings_of(&c, &settings);
    settings.transport = SL_TRANSPORT_NCCL;
    emulated_gpus = c.gpus;
    world_open(&dense_set, &settings, 1, &w);
    check_route(&w, SL_STAGE_EXCHANGE);
    check_route(&w, SL_STAGE_BACKWARD);
    assert_int_equal(w.transport.n_sums, 3);
    for (uint32_t p = 0; p < c.pes; p++) {
        assert_int_equal(sl_transport_list_of(&w.transport, p), three_gpus[p]);
    }
}

/* A GPU that stays away ends the run with a status; nothing hangs, nothing is left. */
TEST(test_stuck)
{
    static const struct crossing c = {2, 2, 2, SL_NORM_NONE, SL_SYNC_ALLREDUCE, false, false, SL_PRECISION_FLOAT};
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
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
    expect_ok(sl_step_submit(w.steps, 0, &adam, handle, &sizes));
    starpu_data_unregister(handle);
    starpu_task_wait_for_all();
    sl_nccl_fault = (struct sl_nccl_fault){0};
    assert_int_equal(sl_failure_status(&w.run.failure), SL_ENCCL);
    assert_non_null(strstr(sl_message(), "GPU 1 reports"));
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

TEST_MAIN(make_sets, free_sets)
