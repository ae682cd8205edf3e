/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the tests of whole models share: StarPU started as a run starts it, and runs of some steps whose losses,
 * sizes and final parameters can be compared. To be included first.
 */
#ifndef SL_TESTS_RUN_FIXTURE_H
#define SL_TESTS_RUN_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include "runtime/full/evaluate.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/machine.h"
#include "runtime/minibatch/minibatch.h"
#include "runtime/model/kinds.h"
#include "runtime/model/sums.h"
#include "runtime/plan/plan.h"
#include "runtime/train/memory_need.h"
#include "runtime/train/session.h"
#include "tasks/bundle.h"
#include "tasks/nccl.h"
#include "tasks/near.h"
#include "tests/support/graph_fixture.h"
#include "tests/support/starpu_fixture.h"

/* ---- StarPU ---- */

static struct sl_machine machine;

/* Start StarPU as a run with these options would (sched NULL: the default). */
static MAYBE_UNUSED void machine_up_with(const char *sched, uint32_t n_cpus, uint32_t n_gpus)
{
    struct sl_settings settings = {.cpus = n_cpus, .gpus = n_gpus, .sched = (char *)(uintptr_t)sched};
    fixture_environment();
    expect_ok(sl_machine_start(&settings, &machine));
    assert_int_equal(machine.n_gpus, n_gpus);
}

/* With n CPU workers, as far as StarPU was built for so many; or with one GPU, where tests are to run on one. */
static MAYBE_UNUSED void machine_up(const char *sched, uint32_t n_workers)
{
    n_workers = n_workers < STARPU_MAXCPUS ? n_workers : STARPU_MAXCPUS;
    bool on_gpu = wants_gpu();
    machine_up_with(sched, on_gpu ? 0 : n_workers, on_gpu);
    if (on_gpu) { /* one worker of CPUs, and one or two of the GPU */
        assert_int_equal(machine.n_workers, 1 + starpu_worker_get_count_by_type(STARPU_CUDA_WORKER));
        assert_in_range(machine.n_workers, 2, 3);
    } else {
        assert_int_equal(machine.n_workers, n_workers);
    }
}

static MAYBE_UNUSED void machine_down(void)
{
    sl_machine_stop(&machine);
}

/* The same around all tests of a program, with two workers; nothing of ours may be left behind. */
static MAYBE_UNUSED int group_up(void **state)
{
    (void)state;
    machine_up(NULL, 2);
    return 0;
}

static MAYBE_UNUSED int group_down(void **state)
{
    (void)state;
    machine_down();
    assert_int_equal(sl_memory_live(), 0);
    return 0;
}

/* Set options: "name=value" or "flag", one a word. */
static MAYBE_UNUSED void settings_add(const char *options, struct sl_settings *settings)
{
    char words[256];
    char *rest;
    snprintf(words, sizeof words, "%s", options);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value != NULL) {
            *value++ = '\0';
        }
        expect_ok(sl_option_set(sl_settings_table_of(settings), word, value, settings));
    }
}

/* The defaults with these options. */
static MAYBE_UNUSED void settings_with(const char *options, struct sl_settings *out)
{
    expect_ok(sl_settings_init(out));
    settings_add(options, out);
}

/* ---- models ---- */

/* Attention without relations. */
static MAYBE_UNUSED bool attends(int model)
{
    return model == SL_MODEL_GAT || model == SL_MODEL_GATV2;
}

/* The names that --model takes, in the order of enum sl_model_name, and how many they are. */
static MAYBE_UNUSED const char *model_name(int model)
{
    static char name[32];
    sl_option_choice_name(sl_option_find(sl_settings_table(SL_SCHEDULE_MINIBATCH), "model"), model, name, sizeof name);
    return name;
}

static MAYBE_UNUSED int n_models(void)
{
    int n = 0;
    while (model_name(n)[0] != '\0') {
        n++;
    }
    return n;
}

/* Whether the model needs a typed graph. */
static MAYBE_UNUSED bool is_typed(int model)
{
    return sl_model_kind(model)->layer->sum->by_relation;
}

/* A seed of parameter k of layer i: 8 numbers a layer, which are different but for keys above 7. */
static MAYBE_UNUSED uint64_t seed_of(const struct sl_model *m, uint32_t i, int k)
{
    const uint64_t of_norm = 3 + (uint64_t)(k - SL_NORM_WEIGHT);
    return 8 * (uint64_t)i + (k < SL_NORM_WEIGHT ? m->layer[i].kind->parameter[k].key : of_norm);
}

/* Biases and norms are not what a model begins with. */
static MAYBE_UNUSED void scramble_model(struct sl_model *m)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *p = &m->layer[i].parameter[k];
            for (size_t e = 0; e < (size_t)p->n_rows * p->n_columns; e++) {
                p->value[e] += (sl_real)(0.2 * noise(seed_of(m, i, k), e));
            }
        }
    }
}

/* ---- runs ---- */

/* The steps of an open schedule of minibatches. */
static MAYBE_UNUSED struct sl_steps *steps_of(const struct sl_schedule *schedule)
{
    return &((struct sl_minibatch *)schedule->own)->steps;
}

/* METIS with four constraints takes longer than a test's steps: partitions are kept, by dataset, method, parts and
 * seed. */
#define MAX_PARTITIONS 64
static struct {
    const struct sl_dataset *dataset;
    int method;
    uint64_t seed;
    struct sl_partition partition;
} partitions[MAX_PARTITIONS];
static int n_partitions;

static struct sl_partition *partition_of(const struct sl_dataset *dataset, const struct sl_settings *settings)
{
    for (int i = 0; i < n_partitions; i++) {
        if (partitions[i].dataset == dataset && partitions[i].method == settings->partition &&
            partitions[i].partition.n_parts == settings->group_size && partitions[i].seed == settings->seed) {
            return &partitions[i].partition;
        }
    }
    assert_true(n_partitions < MAX_PARTITIONS);
    partitions[n_partitions].dataset = dataset;
    partitions[n_partitions].method = settings->partition;
    partitions[n_partitions].seed = settings->seed;
    expect_ok(sl_partition_make(dataset,
                                &(struct sl_partition_rule){.method = (enum sl_partition_method)settings->partition,
                                                            .n_parts = settings->group_size,
                                                            .seed = settings->seed},
                                &partitions[n_partitions].partition));
    return &partitions[n_partitions++].partition;
}

/* Before a dataset is freed. */
static MAYBE_UNUSED void forget_partitions(void)
{
    while (n_partitions > 0) {
        sl_partition_free(&partitions[--n_partitions].partition);
    }
}

/* GPUs that a world is told it has; n 0: those that StarPU drives. */
static MAYBE_UNUSED struct {
    uint32_t n;
    uint64_t bytes; /* of each, for data */
} made_up_gpus;

/* What a session expects on a GPU, besides features and slots. */
static MAYBE_UNUSED uint64_t gpu_bytes_of(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                          uint32_t n_gpus)
{
    struct sl_gpu_need need = sl_memory_need_gpu(settings, dataset, n_gpus);
    return need.evaluation > need.training ? need.evaluation : need.training;
}

/* A model on a dataset, with all that its steps need. StarPU is up. */
struct world {
    struct sl_settings *settings;
    struct sl_partition *partition; /* kept */
    struct sl_shards shards;
    struct sl_model model;
    struct sl_model *replica; /* the model itself, or what gossip trains: n_replicas of them */
    uint32_t n_replicas;
    struct sl_plan plan;
    struct sl_run run;
    struct sl_transport transport;
    struct sl_schedule schedule; /* of minibatches */
    struct sl_steps *steps;
};

#ifdef SL_EMULATED
static MAYBE_UNUSED uint32_t emulated_gpus; /* that NCCL is to connect in the next world */
#endif

/* The transport of a world: of GPUs by NCCL as many as there are, or made-up ones. */
static MAYBE_UNUSED void transport_open(struct world *w)
{
    uint32_t n_parameters = w->model.n_layers * SL_MAX_PARAMETERS;
#ifdef SL_EMULATED
    if (w->settings->transport == SL_TRANSPORT_NCCL) {
        static const int nodes[SL_NCCL_MAX_GPUS] = {STARPU_MAIN_RAM};
        static const int devices[] = {0, 1, 2, 3, 4, 5, 6, 7};
        w->plan.homes = (struct sl_homes){.n_pes = w->plan.n_pes, .n = emulated_gpus, .gpus = true};
        w->transport = (struct sl_transport){
            .kind = &sl_transport_nccl, .plan = &w->plan, .n_sums = 1, .n_parameters = n_parameters};
        expect_ok(sl_transport_nccl_connect(&w->transport, emulated_gpus, devices, nodes));
        return;
    }
#endif
    expect_ok(sl_transport_open(w->settings, &w->plan, n_parameters, &w->transport));
}

static MAYBE_UNUSED void world_open(const struct sl_dataset *dataset, struct sl_settings *settings, uint64_t n_steps,
                                    struct world *out)
{
    bool dense = settings->residual && settings->hidden == dataset->features.n_columns;
    *out = (struct world){.settings = settings};
    expect_ok(sl_settings_check(settings));
    out->partition = partition_of(dataset, settings);
    expect_ok(sl_shards_open(dataset, out->partition, dense, sl_settings_row_dtype(settings), NULL, &out->shards));
    out->shards.weighs_edges = sl_settings_weighs_sums(settings);
    const struct sl_fanouts fanouts = sl_settings_fanouts(settings);
    uint32_t *fanout_of;
    expect_ok(sl_fanouts_read(&fanouts, dataset, &fanout_of));
    expect_ok(sl_shards_take_fanouts(fanout_of, settings->layers, &out->shards));
    out->shards.n_outputs = sl_settings_trains_links(settings) ? settings->hidden : out->shards.n_outputs;
    if (sl_model_reads_factors(settings)) {
        expect_ok(sl_shards_weigh(dataset, sl_model_kind(settings->model)->layer->sum->factor, &out->shards));
    }
    sl_shards_pin(&out->shards);
    const struct sl_model_data data = sl_model_data_of(&out->shards);
    expect_ok(sl_model_init(settings, &data, &out->model));
    out->replica = &out->model;
    out->plan = sl_plan_make(settings, sl_dataset_n_train(dataset));
    out->plan.n_steps = n_steps;
    out->n_replicas = out->plan.n_replicas;
    if (out->n_replicas > 1) {
        expect_ok(sl_replicas_init(settings, out->n_replicas, &data, &out->replica));
    }
    expect_ok(sl_run_init(&out->run));
    out->run.gpus_first = machine.gpus_first;
    out->run.row_dtype = sl_settings_row_dtype(settings);
    out->run.tf32 = settings->precision == SL_PRECISION_TF32;
    struct sl_feature_source *features = &out->shards.features;
    if (features->dtype != features->row_dtype && !out->run.has_cuda &&
        sl_model_reads_narrow(settings, features->n_columns, features->dtype)) {
        features->reads_narrow = true;
    }
    transport_open(out);
    out->run.near = strcmp(machine.sched, SL_NEAR) == 0 && !out->plan.homes.gpus ? &out->plan.homes : NULL;
    out->run.n_gpus = made_up_gpus.n > 0 ? made_up_gpus.n : out->run.n_gpus;
    out->run.gpu_bytes = made_up_gpus.n > 0 ? made_up_gpus.bytes : out->run.gpu_bytes;
    struct sl_work work = {settings, &out->plan, &out->run, &out->shards, out->replica, &out->transport, 0};
    if (out->run.n_gpus > 0) {
        work.gpu_bytes = gpu_bytes_of(settings, dataset, out->run.n_gpus);
    }
    expect_ok(sl_minibatch.open(&work, 0, &out->schedule));
    out->steps = steps_of(&out->schedule);
}

static MAYBE_UNUSED void world_close(struct world *w)
{
    starpu_task_wait_for_all();
    w->schedule.kind->close(w->schedule.own);
    sl_transport_close(&w->transport);
    if (w->n_replicas > 1) {
        sl_replicas_free(w->replica, w->n_replicas);
    }
    sl_model_free(&w->model);
    sl_shards_close(&w->shards);
    sl_run_free(&w->run);
}

static MAYBE_UNUSED void world_healthy(const struct world *w)
{
    enum sl_status st = sl_failure_status(&w->run.failure);
    if (st != SL_OK) {
        fail_msg("a task failed: %s", sl_message());
    }
}

/* A step is an epoch of the schedule. */
static MAYBE_UNUSED struct sl_adam adam_of(const struct sl_settings *settings, uint64_t step)
{
    return sl_session_adam(settings, step, step);
}

/* One PE's frontier of level `level` in the slot of step `step`, as dataset ids; free(). */
static MAYBE_UNUSED sl_vertex *frontier_of(struct world *w, uint64_t step, uint32_t p, uint32_t level, uint32_t *n_out)
{
    struct sl_slot_pe *pe = sl_step_slot(w->steps, step, p);
    starpu_data_acquire(pe->counts, STARPU_R);
    starpu_data_acquire(pe->frontier, STARPU_R);
    const uint32_t *counts = starpu_data_get_local_ptr(pe->counts);
    const sl_vertex *frontier = starpu_data_get_local_ptr(pe->frontier);
    uint32_t n = counts[sl_counts_rows(level)];
    sl_vertex *ids = need(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = w->partition->dataset_ids[frontier[i]];
    }
    starpu_data_release(pe->frontier);
    starpu_data_release(pe->counts);
    *n_out = n;
    return ids;
}

#define MAX_STEPS 8

/* What a run of some steps came to. */
struct outcome {
    double loss[MAX_STEPS];
    struct sl_step_sizes sizes[MAX_STEPS];
    size_t n_entries;
    sl_real *parameters; /* after the last step; of several replicas their average; free() */
};

static MAYBE_UNUSED void outcome_free(struct outcome *outcome)
{
    free(outcome->parameters);
    *outcome = (struct outcome){0};
}

/* Submit the world's steps 0 .. n - 1, without waiting between them, and wait for them. */
static MAYBE_UNUSED void world_run(struct world *w, uint32_t n_steps, struct outcome *out)
{
    starpu_data_handle_t handle[MAX_STEPS];
    *out = (struct outcome){0};
    for (uint32_t i = 0; i < n_steps; i++) {
        out->loss[i] = NAN; /* unless the graph writes it */
        starpu_matrix_data_register(&handle[i], STARPU_MAIN_RAM, (uintptr_t)&out->loss[i], 1, 1, 1, sizeof(double));
    }
    for (uint32_t i = 0; i < n_steps; i++) {
        struct sl_adam adam = adam_of(w->settings, i);
        expect_ok(sl_step_submit(w->steps, i, &adam, handle[i], &out->sizes[i]));
    }
    unregister(n_steps, handle);
    starpu_task_wait_for_all();
    world_healthy(w);
    for (uint32_t i = 0; i < n_steps; i++) {
        if (!isfinite(out->loss[i])) {
            fail_msg("the loss of step %u is %g", i, out->loss[i]);
        }
    }
    if (w->n_replicas > 1) {
        expect_ok(sl_replicas_average(&w->run, w->replica, w->n_replicas, &w->model));
    }
    out->n_entries = sl_model_entries(&w->model);
    out->parameters = need(out->n_entries, sizeof *out->parameters);
    expect_ok(sl_model_acquire(&w->model, STARPU_R));
    sl_model_read(&w->model, out->parameters);
    sl_model_release(&w->model);
}

/* Submit one step and wait for it; gives its loss. */
static MAYBE_UNUSED double world_step(struct world *w, uint64_t step)
{
    struct sl_adam adam = adam_of(w->settings, step);
    struct sl_step_sizes sizes;
    starpu_data_handle_t handle;
    double loss = NAN; /* unless the graph writes it */
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
    expect_ok(sl_step_submit(w->steps, step, &adam, handle, &sizes));
    starpu_data_unregister(handle);
    starpu_task_wait_for_all();
    world_healthy(w);
    return loss;
}

/* All of it: open, run n steps, close. */
static MAYBE_UNUSED void run_steps(const struct sl_dataset *dataset, struct sl_settings *settings, uint32_t n_steps,
                                   struct outcome *out)
{
    struct world w;
    world_open(dataset, settings, n_steps, &w);
    world_run(&w, n_steps, out);
    world_close(&w);
}

/* With bundles of tasks, which the settings lead to, and without them: the same losses and parameters, to the bit. */
static MAYBE_UNUSED void expect_same_bundled(const struct sl_dataset *dataset, struct sl_settings *settings,
                                             uint32_t n_steps)
{
    struct outcome bundled, single;
    struct world w;
    world_open(dataset, settings, n_steps, &w);
    assert_non_null(w.run.holder);
    world_run(&w, n_steps, &bundled);
    world_close(&w);
    world_open(dataset, settings, n_steps, &w);
    sl_bundles_close(&w.run);
    world_run(&w, n_steps, &single);
    world_close(&w);
    expect_same("losses", n_steps, sizeof *single.loss, bundled.loss, single.loss);
    assert_int_equal(bundled.n_entries, single.n_entries);
    expect_same("parameters", single.n_entries, sizeof *single.parameters, bundled.parameters, single.parameters);
    outcome_free(&bundled);
    outcome_free(&single);
}

#endif
