/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Opening and closing of all that a run owns. */
#include "partition/load.h"
#include "partition/statistics.h"
#include "runtime/train/session.h"

#include <math.h>
#include <string.h>

#include "codelets/gemm.h"
#include "codelets/near.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/limits.h"
#include "runtime/machine/pool.h"
#include "runtime/machine/watchdog.h"
#include "runtime/minibatch/minibatch.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/pipe/boundary.h"
#include "runtime/pipe/schedule.h"
#include "runtime/sync/replicas.h"
#include "runtime/train/outputs.h"
#include "runtime/train/ranks.h"
#include "runtime/train/state.h"
#include "support/clock.h"
#include "support/memory.h"

#define WATCHDOG_S 300 /* where several processes wait for each other */
#define DATASET_SEED 1 /* a generated dataset is one dataset: --seed chooses how to train on it */

static const struct sl_schedule_kind *const schedules[] = {
    [SL_SCHEDULE_MINIBATCH] = &sl_minibatch, [SL_SCHEDULE_PIPE] = &sl_pipeline};

/* ---- open ---- */

/* Full-graph training: a PE for each chunk of the graph, whose rows are one block. */
static enum sl_status decide_pipe(struct sl_settings *s, const struct sl_machine *machine)
{
    s->gpus = machine->n_gpus;
    s->graph_chunks = s->graph_chunks > 0 ? s->graph_chunks : 4 * s->stages * s->ways;
    s->pes = s->group_size = s->graph_chunks;
    s->chunks = 1;
    if (s->placement == SL_PLACEMENT_AUTO) {
        s->placement = machine->gpus_first && s->gpus > 1 ? SL_PLACEMENT_HOME : SL_PLACEMENT_FREE;
    }
    return sl_settings_check(s);
}

/* What the command line may leave open: GPUs, PEs, groups, chunks, placement. */
static enum sl_status decide(struct sl_settings *s, const struct sl_machine *machine)
{
    uint32_t n_gpus = machine->n_gpus; /* of all ranks */
    enum sl_status st;
    SL_TRY(st, sl_ranks_add_up(1, &n_gpus), done);
    s->gpus = machine->n_gpus;
    if (s->pes == 0) {
        s->pes = n_gpus > 0 ? n_gpus : machine->topology.n_numa > 2 ? machine->topology.n_numa : 2;
        s->pes = s->pes > sl_n_ranks() ? s->pes : sl_n_ranks();
        s->pes = s->group_size > 0 ? (s->pes + s->group_size - 1) / s->group_size * s->group_size : s->pes;
    }
    if (s->placement == SL_PLACEMENT_AUTO) {
        /* A scheduler that has not measured a task yet has it run anywhere, and its data follow it from GPU to GPU. */
        s->placement = machine->gpus_first && s->gpus > 1 && s->pes >= n_gpus ? SL_PLACEMENT_HOME : SL_PLACEMENT_FREE;
    }
    if (s->chunks == 0) {
        /* Blocks of rows for every worker, twice; a GPU alone takes all rows at once. */
        uint32_t wanted = machine->gpus_first ? n_gpus : 2 * machine->n_workers;
        s->chunks = (wanted + s->pes - 1) / s->pes;
        s->chunks = s->chunks > SL_MAX_CHUNKS ? SL_MAX_CHUNKS : s->chunks;
    }
    st = sl_settings_check(s);
done:
    return st;
}

static struct sl_dataset_options dataset_options(const struct sl_settings *s)
{
    return (struct sl_dataset_options){.dataset = s->dataset,
                                       .data_path = s->data_path,
                                       .split = s->split,
                                       .features = s->features,
                                       .cache = s->cache,
                                       .need = s->epochs > 0 ? SL_RAW_FOR_TRAINING : SL_RAW_FOR_INFERENCE,
                                       .directed = s->directed,
                                       .normalize = (enum sl_normalize)s->normalize_features,
                                       .seed = DATASET_SEED,
                                       .low_memory = sl_n_ranks() > 1};
}

/* Options that say what to load have nothing to say where the caller has the dataset; `cache` none is as it is then. */
static enum sl_status check_given(const struct sl_settings *settings, const struct sl_dataset *given)
{
    static const char *const names[] = {"dataset",  "data-path",          "split", "features",
                                        "directed", "normalize-features", "cache"};
    struct sl_settings defaults;
    char now[256];
    char initial[256];
    enum sl_status st;
    SL_TRY(st, sl_settings_init(&defaults), done);
    for (size_t i = 0; st == SL_OK && given != NULL && i < sizeof names / sizeof *names; i++) {
        SL_TRY(st, sl_settings_get(settings, names[i], now, sizeof now), free_defaults);
        SL_TRY(st, sl_settings_get(&defaults, names[i], initial, sizeof initial), free_defaults);
        if (now[0] != '\0' && strcmp(now, initial) != 0 &&
            (strcmp(names[i], "cache") != 0 || strcmp(now, "none") != 0)) {
            st = sl_fail(SL_EINVAL, "--%s: found '%.200s', expected none of it: the dataset is the program's own, '%s'",
                         names[i], now, given->name);
        }
    }
free_defaults:
    sl_settings_free(&defaults);
done:
    return st;
}

/* A graph may have fewer classes than the model in --load, or no labels. */
static enum sl_status widen_classes(const struct sl_settings *s, struct sl_dataset *dataset)
{
    uint32_t n;
    enum sl_status st = sl_outputs_count_classes(s, &n);
    if (st != SL_OK) {
        return st;
    }
    dataset->n_classes = n > dataset->n_classes ? n : dataset->n_classes;
    return dataset->n_classes > 0
               ? SL_OK
               : sl_fail(SL_EFILE, "%s: found no label, expected labels, or with --epochs 0 a trained model in --load",
                         dataset->name);
}

/* Before the reader fills memory that the system would take back by force. */
static enum sl_status load_dataset(struct sl_session *t)
{
    struct sl_dataset_options options = dataset_options(t->settings);
    sl_memory_limit(sl_limits_memory());
    enum sl_status st = sl_dataset_load(&options, &t->loaded);
    sl_memory_limit(UINT64_MAX);
    return st == SL_OK ? widen_classes(t->settings, &t->loaded) : st;
}

static uint32_t count_empty_classes(const struct sl_dataset *dataset)
{
    struct sl_statistics statistics;
    return sl_statistics_count_labels(dataset, &statistics) == SL_OK ? dataset->n_classes - statistics.n_classes : 0;
}

/* What the settings name, or what the caller has. */
static enum sl_status find_dataset(struct sl_session *t, const struct sl_dataset *given)
{
    enum sl_status st = SL_OK;
    SL_TRY(st, given == NULL ? load_dataset(t) : SL_OK, done);
    t->dataset = given == NULL ? &t->loaded : given;
    t->given = given != NULL;
    t->synthetic = t->dataset->synthetic;
    t->range = t->dataset->range;
    t->n_empty_classes = count_empty_classes(t->dataset);
    snprintf(t->name, sizeof t->name, "%s", t->dataset->name);
    snprintf(t->split, sizeof t->split, "%s", t->dataset->split);
    if (t->dataset->train.n == 0 && t->settings->epochs > 0) {
        st = sl_fail(SL_EFILE, "%s: the split '%s' has no training vertices", t->name, t->split);
    }
done:
    return st;
}

/* held: of each part, or NULL where all are. */
static enum sl_status make_partition(struct sl_session *t, const bool *held)
{
    static const char *const names[] = {"metis", "random", "none"};
    const struct sl_settings *s = t->settings;
    struct sl_dataset_options options = dataset_options(s);
    enum sl_partition_method method = (enum sl_partition_method)s->partition;
    bool whole = s->schedule == SL_SCHEDULE_PIPE;
    uint32_t n = whole ? sl_partition_pieces(method, t->dataset->graph.n_vertices, s->group_size) : s->group_size;
    char stem[64];
    char *file = NULL;
    enum sl_status st;
    /* Without training the parts need not share its seeds, and scores do not depend on a split: to the bit, as parts decide on the order
     * of sums. */
    struct sl_dataset unsplit = *t->dataset;
    unsplit.train.n = unsplit.valid.n = unsplit.test.n = 0;
    const struct sl_dataset *dataset = s->epochs > 0 ? t->dataset : &unsplit;
    snprintf(stem, sizeof stem, "%s-%u%s", names[method], n, s->epochs > 0 ? "" : "-unsplit");
    SL_TRY(st, t->dataset == &t->loaded ? sl_dataset_cache_file(&options, stem, &file) : SL_OK, done);
    st = (whole ? sl_partition_make_of_pieces : sl_partition_make_held)(dataset, method, s->group_size, s->seed, file,
                                                                        held, &t->partition);
done:
    sl_free(file);
    return st;
}

static enum sl_status open_losses(struct sl_session *t)
{
    uint32_t n = t->plan.n_per_epoch;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n, sizeof *t->losses, "losses of an epoch", &t->losses), done);
    SL_TRY(st, sl_alloc_zero(n, sizeof *t->loss_handle, "losses of an epoch", &t->loss_handle), done);
    for (uint32_t i = 0; i < n; i++) {
        starpu_matrix_data_register(&t->loss_handle[i], STARPU_MAIN_RAM, (uintptr_t)&t->losses[i], 1, 1, 1,
                                    sizeof *t->losses);
    }
done:
    return st;
}

/* One replica is the model itself; several begin as copies of it. */
static enum sl_status open_replicas(struct sl_session *t)
{
    uint32_t n = t->plan.n_replicas;
    enum sl_status st = SL_OK;
    if (n == 1) {
        t->replica = &t->model;
    } else {
        SL_TRY(st,
               sl_replicas_init(t->settings, n, t->shards.n_features, t->shards.n_classes, t->shards.is_sparse,
                                &t->replica),
               done);
        t->n_replicas = n;
        SL_TRY(st, sl_replicas_spread(t->replica, n, &t->model), done);
    }
    t->n_replicas = n;
done:
    return st;
}

/* The checkpoint to go on from; SL_OK with an empty *out where the run starts afresh. */
static enum sl_status find_checkpoint(const struct sl_settings *s, struct sl_tensors *out)
{
    *out = (struct sl_tensors){0};
    if (s->resume == SL_RESUME_NO) {
        return SL_OK;
    }
    enum sl_status st = sl_checkpoint_load(s->checkpoint, out);
    return st == SL_ENOTFOUND && s->resume == SL_RESUME_AUTO ? SL_OK : st;
}

/* One session in a process, and none of the program's own tasks. */
static enum sl_status check_alone(void)
{
    return starpu_is_initialized()
               ? sl_fail(SL_EINVAL, "StarPU is up already: expected the program's other session, or "
                                    "its own StarPU, to be closed first")
               : SL_OK;
}

/* Folders that can be written, and the checkpoint's to ourselves. */
static enum sl_status open_files(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    enum sl_status st;
    SL_TRY(st, sl_outputs_check(s), done);
    st = s->checkpoint != NULL ? sl_checkpoint_take(s->checkpoint, &t->lock) : SL_OK;
done:
    return st;
}

/* On a machine of several NUMA nodes. */
static enum sl_status place_parts(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    uint32_t n_numa = t->machine.topology.n_numa;
    bool by_part =
        s->placement == SL_PLACEMENT_HOME && s->gpus == 0 && s->pes == s->group_size; /* else a part has PEs on several
                                                                                         nodes */
    return n_numa < 2 ? SL_OK : sl_shards_place(&t->shards, n_numa, by_part, &t->n_unplaced);
}

/* StarPU moves data away from a GPU to make room, but waits without end for room that cannot be made. */
static enum sl_status check_gpu_memory(struct sl_session *t)
{
    uint64_t found = t->run.gpu_bytes;
    if (found == 0) {
        return SL_OK;
    }
    t->gpu_need = sl_memory_need_gpu(t->settings, &t->shards, t->run.n_gpus * t->plan.n_ranks);
    t->run.evaluate_on_cpus = t->gpu_need.evaluation > found;
    return found >= SL_GPU_PIECES_BYTES
               ? SL_OK
               : sl_fail(SL_ENOMEM,
                         "a GPU: expected room for %llu MiB of data at the least, found %llu MiB; try a larger "
                         "$STARPU_LIMIT_CUDA_MEM if that is set, other GPUs ($CUDA_VISIBLE_DEVICES), or --gpus 0",
                         (unsigned long long)SL_GPU_PIECES_BYTES >> 20, (unsigned long long)found >> 20);
}

/* The run's struct for its tasks, its plan, and the transport between its PEs. */
static enum sl_status open_run(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    enum sl_status st;
    t->plan = sl_plan_make(s, t->dataset->train.n);
    SL_TRY(st, sl_run_init(&t->run), done);
    t->run_ready = true;
    sl_waits_open(t->plan.n_ranks > 1 ? t->run.n_workers : 0, sl_clock_s());
    t->run.failure.hook = t->plan.n_ranks > 1 ? sl_ranks_failure_hook() : NULL;
    /* Others would be sent what is not there: by ranks, or by StarPU between main memory's nodes ($STARPU_USE_NUMA). */
    bool alone = t->plan.n_ranks == 1 && starpu_memory_nodes_get_count() == 1;
    sl_pool_report(alone ? &t->run.failure : NULL);
    t->run.homes = s->placement == SL_PLACEMENT_HOME ? &t->plan.homes : NULL;
    t->run.near = strcmp(t->machine.sched, SL_NEAR) == 0 ? &t->plan.homes : NULL;
    /* Parts are no PEs then: fewer than homes, or chunks. */
    t->run.evaluate_anywhere = s->group_size < s->pes || s->schedule == SL_SCHEDULE_PIPE;
    t->run.gpus_first = t->machine.gpus_first;
    t->run.traced = s->trace != NULL;
    t->run.sample_first = sl_n_ranks() > 1;
    t->run.fastest_means = s->means == SL_MEANS_FASTEST;
    t->run.bf16 = s->precision == SL_PRECISION_BF16;
    t->run.tf32 = s->precision == SL_PRECISION_TF32;
    st = sl_transport_open(s, &t->plan, SL_MAX_MODEL_LAYERS * SL_N_PARAMETERS, &t->transport);
done:
    return st;
}

/* Under `ulimit -v`: where address space runs out, OpenBLAS would wait without end, and StarPU where it is not told (sl_pool_report). */
static enum sl_status check_space(const struct sl_session *t, uint64_t untouched)
{
    uint64_t blas = t->machine.n_workers * SL_GEMM_SPACE_BYTES;
    return sl_limits_have_room(t->memory_bytes + untouched + blas)
               ? SL_OK
               : sl_fail(
                     SL_ENOMEM,
                     "the run may need %.2f GB, and %.2f GB of address space for OpenBLAS's buffers, expected as much "
                     "below the limits of `ulimit -v` and `-d`, found less: raise them, or use fewer --cpus",
                     (double)(t->memory_bytes + untouched) / 1e9, (double)blas / 1e9);
}

static enum sl_status check_need(const struct sl_session *t)
{
    uint64_t found = t->machine.topology.memory_bytes;
    const char *variable;
    uint64_t limit = sl_environment_memory(&variable);
    if (limit < t->memory_bytes) {
        return sl_fail(
            SL_ENOMEM,
            "$%s: found %llu MiB, expected at least the %llu MiB that the run may need; raise it, or unset it",
            variable, (unsigned long long)limit >> 20, ((unsigned long long)t->memory_bytes >> 20) + 1);
    }
    return t->memory_bytes <= found
               ? SL_OK
               : sl_fail(SL_ENOMEM, "the run may need %.2f GB and this process may use %.2f GB: use a smaller %s",
                         (double)t->memory_bytes / 1e9, (double)found / 1e9,
                         t->settings->schedule == SL_SCHEDULE_PIPE ? "--hidden, --recompute, or several processes"
                                                                   : "--batch-size, --fanout or --hidden");
}

/* Before parts are made. */
static enum sl_status check_memory(struct sl_session *t)
{
    struct sl_rank_need need = {0};
    struct sl_memory_run run = {.team = sl_steps_team(&t->plan, &t->run), .n_workers = t->machine.n_workers};
    enum sl_status st;
    if (t->plan.n_ranks > 1) {
        need = sl_memory_need_rank(t->settings, t->dataset, &t->plan, NULL, t->machine.n_workers);
    } else {
        bool draws = t->settings->schedule == SL_SCHEDULE_MINIBATCH; /* epochs over the full graph draw no steps */
        SL_TRY(st, draws ? sl_reach_expect(t->settings, t->dataset, &run.reach) : SL_OK, done);
        need.memory = sl_memory_need(t->settings, t->dataset, &run);
    }
    t->memory_bytes = need.memory;
    SL_TRY(st, check_need(t), done);
    st = check_space(t, need.untouched);
done:
    return st;
}

/* Chunks as they have come to be, of which others read the rows on boundaries alone. */
static enum sl_status check_chunks(struct sl_session *t)
{
    struct sl_memory_run run = {.n_workers = t->machine.n_workers};
    uint32_t n = 0;
    enum sl_status st;
    SL_TRY(st, sl_pipe_boundary_count(&t->partition, &n), done);
    run.boundary = n / fmax(1, t->dataset->graph.n_vertices);
    t->memory_bytes = sl_memory_need(t->settings, t->dataset, &run);
    SL_TRY(st, check_need(t), done);
    st = check_space(t, 0);
done:
    return st;
}

/* A rank's parts as they have come to be. Rank 0 tells of the rank that needs most. */
static enum sl_status check_parts(struct sl_session *t)
{
    enum sl_status st;
    t->memory_bytes =
        sl_memory_need_rank(t->settings, t->dataset, &t->plan, &t->partition, t->machine.n_workers).memory;
    sl_dataset_drop_pages(t->dataset);
    SL_TRY(st, check_need(t), done);
    st = sl_ranks_max(t->memory_bytes, &t->memory_bytes);
done:
    return st;
}

/* Parts of the graph, their tables where workers are near. */
static enum sl_status open_shards(struct sl_session *t)
{
    const struct sl_settings *s = t->settings;
    bool dense = s->residual && s->layers > 1 && s->hidden == t->dataset->features.n_columns;
    bool of[SL_MAX_PES];
    const bool *held = t->plan.n_ranks > 1 ? of : NULL;
    enum sl_status st;
    for (uint32_t q = 0; q < t->plan.n_parts; q++) {
        of[q] = sl_plan_holds(&t->plan, q);
    }
    SL_TRY(st, sl_ranks_rank0_first(), done);
    SL_TRY(st, make_partition(t, held), done);
    SL_TRY(st, sl_ranks_rank0_done(), done);
    SL_TRY(st, held != NULL ? check_parts(t) : s->recompute && s->pes > s->ways ? check_chunks(t) : SL_OK, done);
    SL_TRY(st, sl_shards_open_held(t->dataset, &t->partition, dense, sl_settings_row_element(s), held, &t->shards),
           done);
    bool weighed = s->schedule == SL_SCHEDULE_PIPE || sl_model_kind(s->model)->layer->weigh == SL_WEIGH_SYMMETRIC;
    SL_TRY(st, weighed ? sl_shards_weigh(t->dataset, &t->shards) : SL_OK, done);
    t->data_hash = sl_ranks_hash_data(t->dataset, &t->partition);
    SL_TRY(st, held != NULL ? sl_ranks_match_data(t) : SL_OK, done);
    SL_TRY(st, held != NULL ? sl_halo_open(&t->plan, &t->shards, &t->partition.graph, &t->halo) : SL_OK, done);
    t->shards.halo = held != NULL ? &t->halo : NULL;
    t->dataset = NULL; /* it goes on in part order */
    sl_dataset_free(&t->loaded);
    sl_pool_purge();
    SL_TRY(st, place_parts(t), done);
    t->n_unpinned = s->gpus > 0 ? sl_shards_pin(&t->shards) : 0;
    st = check_gpu_memory(t);
done:
    return st;
}

/* The model, its replicas, and the weights and state they begin with. */
static enum sl_status open_model(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    const struct sl_settings *s = t->settings;
    enum sl_status st;
    SL_TRY(st, sl_model_init(s, t->shards.n_features, t->shards.n_classes, t->shards.is_sparse, &t->model), done);
    SL_TRY(st, s->load != NULL ? sl_outputs_load_model(t) : SL_OK, done);
    SL_TRY(st, open_replicas(t), done);
    st = checkpoint->n > 0 ? sl_state_load(t, checkpoint) : SL_OK;
done:
    return st;
}

/* Idle workers spin, and the cores are for METIS and the copying of tables: the workers sleep (one that looks after messages, too, a
 * little at a time, codelets/ranks.c). */
static enum sl_status open_data(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    bool pipe = t->settings->schedule == SL_SCHEDULE_PIPE;
    enum sl_status st;
    starpu_pause();
    SL_TRY(st, (pipe ? decide_pipe : decide)(t->settings, &t->machine), done);
    SL_TRY(st, sl_ranks_take_decisions(t->settings), done);
    SL_TRY(st, open_run(t), done);
    SL_TRY(st, check_memory(t), done);
    SL_TRY(st, open_shards(t), done);
    SL_TRY(st, open_model(t, checkpoint), done);
    st = sl_ranks_match_step(t);
done:
    starpu_resume();
    return st;
}

static enum sl_status open_schedule(struct sl_session *t, const struct sl_tensors *checkpoint)
{
    struct sl_settings *s = t->settings;
    struct sl_work work = {s, &t->plan, &t->run, &t->shards, t->replica, &t->transport, 0};
    enum sl_status st;
    work.gpu_bytes = sl_memory_need_gpu_work(s, &t->shards, &t->run);
    SL_TRY(st, schedules[s->schedule]->open(&work, t->state.step, &t->schedule), done);
    t->n_unpinned += t->schedule.n_refused;
    SL_TRY(st, sl_trace_open(s, t->state.step, t->plan.n_steps, t->plan.n_per_epoch, &t->trace), done);
    SL_TRY(st, open_losses(t), done);
    st = checkpoint->n > 0 ? sl_state_load_epoch(t, checkpoint) : SL_OK;
done:
    return st;
}

/* From here on steps and evaluations, and the rows of others that rank 0 awaits for a file; not what rank 0 does alone (sl_watchdog_suspend). */
static enum sl_status watch(const struct sl_session *t)
{
    uint32_t asked = t->settings->watchdog;
    uint32_t seconds = asked != SL_WATCHDOG_AUTO ? asked : t->plan.n_ranks > 1 ? WATCHDOG_S : 0;
    void (*lost)(void) = sl_ranks_failure_hook();
    enum sl_status st = SL_OK;
    if (seconds > 0 && lost != NULL) {
        bool in_step = t->settings->schedule != SL_SCHEDULE_PIPE && !sl_plan_decoupled(&t->plan);
        st = sl_watchdog_start(seconds, in_step, &t->run, lost);
        sl_watchdog_suspend(true);
    }
    return st;
}

static enum sl_status check_watchdog(const struct sl_settings *s)
{
    return s->watchdog == 0 || s->watchdog == SL_WATCHDOG_AUTO || sl_ranks_failure_hook() != NULL
               ? SL_OK
               : sl_fail(
                     SL_EINVAL,
                     "--watchdog: expected a program that says what to do then (sl_process_on_failure), found none");
}

enum sl_status sl_session_open(struct sl_settings *settings, const struct sl_dataset *dataset, struct sl_session **out)
{
    struct sl_session *t = NULL;
    struct sl_tensors checkpoint = {0};
    enum sl_status st;
    *out = NULL;
    SL_TRY(st, sl_alloc_zero(1, sizeof *t, "a session", &t), done);
    t->settings = settings;
    SL_TRY(st, check_alone(), done);
    SL_TRY(st, sl_settings_check(settings), done);
    SL_TRY(st, check_given(settings, dataset), done);
    SL_TRY(st, check_watchdog(settings), done);
    SL_TRY(st, sl_process_join(settings), done);
    SL_TRY(st, sl_ranks_match_settings(settings), done);
    SL_TRY(st, sl_rank() == 0 ? open_files(t) : SL_OK, done);
    SL_TRY(st, sl_transport_check(settings), done);
    SL_TRY(st, find_checkpoint(settings, &checkpoint), done);
    SL_TRY(st, checkpoint.n > 0 ? sl_state_match(settings, dataset != NULL ? dataset->name : NULL, &checkpoint) : SL_OK,
           done);
    SL_TRY(st, sl_ranks_rank0_first(), done);
    SL_TRY(st, find_dataset(t, dataset), done);
    SL_TRY(st, sl_ranks_rank0_done(), done);
    SL_TRY(st, sl_trace_prepare(settings), done);
    SL_TRY(st, sl_machine_start(settings, &t->machine), done);
    SL_TRY(st, open_data(t, &checkpoint), done);
    SL_TRY(st, open_schedule(t, &checkpoint), done);
    SL_TRY(st, watch(t), done);
    *out = t;
done:
    sl_tensors_free(&checkpoint);
    if (st != SL_OK && sl_n_ranks() == 1) { /* others wait for this one, and it would for them */
        sl_session_close(t);
    }
    return st;
}

void sl_session_close(struct sl_session *t)
{
    if (t == NULL) {
        return;
    }
    sl_watchdog_end();
    if (t->machine.started) {
        starpu_task_wait_for_all();
        sl_trace_stop(&t->trace);
    }
    for (uint32_t i = 0; t->loss_handle != NULL && i < t->plan.n_per_epoch; i++) {
        if (t->loss_handle[i] != NULL) {
            starpu_data_unregister(t->loss_handle[i]);
        }
    }
    sl_free(t->loss_handle);
    sl_free(t->losses);
    if (t->schedule.own != NULL) {
        t->schedule.kind->close(t->schedule.own);
    }
    if (t->n_replicas > 1) {
        sl_replicas_free(t->replica, t->n_replicas);
    }
    sl_model_free(&t->model);
    sl_halo_close(&t->halo);
    sl_shards_close(&t->shards);
    sl_transport_close(&t->transport);
    sl_machine_stop(&t->machine);
    if (t->run_ready) {
        sl_waits_open(0, sl_clock_s());
        sl_run_free(&t->run);
    }
    sl_partition_free(&t->partition);
    sl_dataset_free(&t->loaded);
    sl_free(t->best);
    sl_checkpoint_give(&t->lock);
    sl_free(t);
}
