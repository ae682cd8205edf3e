/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The life of a run. */
#include "runtime/train/trainer.h"

#include <math.h>
#include <string.h>

#include "config.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/pool.h"
#include "runtime/machine/signals.h"
#include "runtime/model/kinds.h"
#include "runtime/plan/plan.h"
#include "runtime/train/memory_need.h"
#include "runtime/train/trainer_state.h"
#include "support/clock.h"
#include "support/memory.h"

#define DATASET_SEED 1 /* a generated dataset is one dataset: --seed chooses how to train on it */

/* ---- open ---- */

/* What the command line may leave open: GPUs, PEs, groups, chunks, placement. */
static enum sl_status decide(struct sl_settings *s, const struct sl_machine *machine)
{
    s->gpus = machine->n_gpus;
    if (s->pes == 0) {
        s->pes = s->gpus > 0 ? s->gpus : machine->topology.n_numa > 2 ? machine->topology.n_numa : 2;
        s->pes = s->group_size > 0 ? (s->pes + s->group_size - 1) / s->group_size * s->group_size : s->pes;
    }
    if (s->placement == SL_PLACEMENT_AUTO) {
        /* A scheduler that has not measured a task yet has it run anywhere, and its data follow it from GPU to GPU. */
        s->placement = machine->gpus_first && s->gpus > 1 && s->pes >= s->gpus ? SL_PLACEMENT_HOME : SL_PLACEMENT_FREE;
    }
    if (s->chunks == 0) {
        /* Blocks of rows for every worker, twice; a GPU alone takes all rows at once. */
        uint32_t wanted = machine->gpus_first ? s->gpus : 2 * machine->n_workers;
        s->chunks = (wanted + s->pes - 1) / s->pes;
        s->chunks = s->chunks > SL_MAX_CHUNKS ? SL_MAX_CHUNKS : s->chunks;
    }
    return sl_settings_check(s);
}

static struct sl_dataset_options dataset_options(const struct sl_settings *s)
{
    return (struct sl_dataset_options){.dataset = s->dataset,
                                       .data_path = s->data_path,
                                       .split = s->split,
                                       .features = s->features,
                                       .cache = s->cache,
                                       .directed = s->directed,
                                       .normalize = (enum sl_normalize)s->normalize_features,
                                       .seed = DATASET_SEED};
}

static enum sl_status load_dataset(struct sl_trainer *t)
{
    struct sl_dataset_options options = dataset_options(t->settings);
    enum sl_status st;
    SL_TRY(st, sl_dataset_load(&options, &t->dataset), done);
    if (t->dataset.train.n == 0) {
        st = sl_fail(SL_EFILE, "%s: the split '%s' has no training vertices", t->dataset.name, t->dataset.split);
    }
done:
    return st;
}

static enum sl_status make_partition(struct sl_trainer *t)
{
    static const char *const names[] = {"metis", "random", "none"};
    const struct sl_settings *s = t->settings;
    struct sl_dataset_options options = dataset_options(s);
    char stem[64];
    char *file = NULL;
    enum sl_status st;
    snprintf(stem, sizeof stem, "%s-%u", names[s->partition], s->group_size);
    SL_TRY(st, sl_dataset_cache_file(&options, stem, &file), done);
    st = sl_partition_make(&t->dataset, (enum sl_partition_method)s->partition, s->group_size, s->seed, file,
                           &t->partition);
done:
    sl_free(file);
    return st;
}

static enum sl_status open_losses(struct sl_trainer *t)
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
static enum sl_status open_replicas(struct sl_trainer *t)
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

/* On a machine of several NUMA nodes. */
static enum sl_status place_parts(struct sl_trainer *t)
{
    const struct sl_settings *s = t->settings;
    uint32_t n_numa = t->machine.topology.n_numa;
    bool by_part =
        s->placement == SL_PLACEMENT_HOME && s->gpus == 0 && s->pes == s->group_size; /* else a part has PEs on several
                                                                                         nodes */
    return n_numa < 2 ? SL_OK : sl_shards_place(&t->shards, n_numa, by_part, &t->n_unplaced);
}

/* StarPU moves data away from a GPU to make room, but waits without end for room that cannot be made. */
static enum sl_status check_gpu_memory(struct sl_trainer *t)
{
    uint64_t found = t->run.gpu_bytes;
    if (found == 0) {
        return SL_OK;
    }
    t->gpu_need = sl_memory_need_gpu(t->settings, &t->shards, t->run.n_gpus);
    t->run.evaluate_on_cpus = t->gpu_need.evaluation > found;
    return found >= SL_GPU_PIECES_BYTES
               ? SL_OK
               : sl_fail(SL_ENOMEM,
                         "a GPU: expected room for %llu MiB of data at the least, found %llu MiB; try a larger "
                         "$STARPU_LIMIT_CUDA_MEM if that is set, other GPUs ($CUDA_VISIBLE_DEVICES), or --gpus 0",
                         (unsigned long long)SL_GPU_PIECES_BYTES >> 20, (unsigned long long)found >> 20);
}

static enum sl_status open_run(struct sl_trainer *t, const struct sl_tensors *checkpoint)
{
    struct sl_settings *s = t->settings;
    bool dense = s->residual && s->layers > 1 && s->hidden == t->dataset.features.n_columns;
    enum sl_status st;
    t->plan = sl_plan_make(s, t->dataset.train.n);
    SL_TRY(st, sl_run_init(&t->run), done);
    t->run_ready = true;
    t->run.homes = s->placement == SL_PLACEMENT_HOME ? &t->plan.homes : NULL;
    t->run.evaluate_anywhere = s->group_size < s->pes; /* fewer parts than homes */
    t->run.gpus_first = t->machine.gpus_first;
    t->run.traced = s->trace != NULL;
    t->run.fastest_means = s->means == SL_MEANS_FASTEST;
    SL_TRY(st, sl_door_open(s, &t->plan, SL_MAX_MODEL_LAYERS * SL_N_PARAMETERS, &t->door), done);
    t->memory_bytes = sl_memory_need(s, &t->dataset);
    if (t->memory_bytes > t->machine.topology.memory_bytes) {
        st = sl_fail(
            SL_ENOMEM,
            "the run may need %.1f GB and this process may use %.1f GB: use a smaller --batch-size, --fanout or "
            "--hidden",
            (double)t->memory_bytes / 1e9, (double)t->machine.topology.memory_bytes / 1e9);
        goto done;
    }
    SL_TRY(st, make_partition(t), done);
    SL_TRY(st, sl_shards_open(&t->dataset, &t->partition, dense, &t->shards), done);
    SL_TRY(st, sl_model_kind(s->model)->layer->weigh == SL_WEIGH_SYMMETRIC ? sl_shards_weigh(&t->shards) : SL_OK, done);
    sl_dataset_shed(&t->dataset); /* graph and features go on in part order */
    SL_TRY(st, place_parts(t), done);
    t->n_unpinned = s->gpus > 0 ? sl_shards_pin(&t->shards) : 0;
    SL_TRY(st, check_gpu_memory(t), done);
    SL_TRY(st, sl_model_init(s, t->shards.n_features, t->shards.n_classes, t->shards.is_sparse, &t->model), done);
    SL_TRY(st, s->load != NULL ? sl_trainer_load_model(t) : SL_OK, done);
    SL_TRY(st, open_replicas(t), done);
    SL_TRY(st, checkpoint->n > 0 ? sl_trainer_load_state(t, checkpoint) : SL_OK, done);
    struct sl_steps_of of = {s, &t->plan, &t->run, &t->shards, t->replica, &t->door};
    SL_TRY(st, sl_steps_open(&of, t->state.step, &t->steps), done);
    uint64_t others = sl_memory_need_gpu_others(s, &t->shards, &t->run, sl_steps_slot_bytes(&t->steps));
    SL_TRY(st, sl_feature_cache_open(s, &t->plan, &t->run, &t->shards, others, &t->steps.cache), done);
    s->feature_cache = t->steps.cache.n_rows;
    for (uint32_t i = 0; i < s->depth; i++) {
        t->n_unpinned += t->steps.slot[i].n_refused;
    }
    SL_TRY(st, sl_trace_open(s, t->state.step, t->plan.n_steps, t->plan.n_per_epoch, &t->trace), done);
    SL_TRY(st, open_losses(t), done);
    st = checkpoint->n > 0 ? sl_trainer_load_losses(t, checkpoint) : SL_OK;
done:
    return st;
}

enum sl_status sl_trainer_open(struct sl_settings *settings, struct sl_trainer **out)
{
    struct sl_trainer *t = NULL;
    struct sl_tensors checkpoint = {0};
    enum sl_status st;
    *out = NULL;
    SL_TRY(st, sl_alloc_zero(1, sizeof *t, "a trainer", &t), done);
    t->settings = settings;
    SL_TRY(st, sl_trainer_check_files(settings), done);
    SL_TRY(st, sl_door_check(settings), done);
    SL_TRY(st, find_checkpoint(settings, &checkpoint), done);
    SL_TRY(st, checkpoint.n > 0 ? sl_trainer_match_settings(settings, &checkpoint) : SL_OK, done);
    SL_TRY(st, load_dataset(t), done);
    SL_TRY(st, sl_machine_start(settings, &t->machine), done);
    starpu_pause(); /* idle workers spin: the cores are for METIS and the copying of tables */
    SL_TRY(st, decide(settings, &t->machine), resume);
    SL_TRY(st, open_run(t, &checkpoint), resume);
    *out = t;
resume:
    starpu_resume();
done:
    sl_tensors_free(&checkpoint);
    if (st != SL_OK) {
        sl_trainer_close(t);
    }
    return st;
}

void sl_trainer_close(struct sl_trainer *t)
{
    if (t == NULL) {
        return;
    }
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
    sl_feature_cache_close(&t->steps.cache);
    sl_steps_close(&t->steps);
    if (t->n_replicas > 1) {
        sl_replicas_free(t->replica, t->n_replicas);
    }
    sl_model_free(&t->model);
    sl_shards_close(&t->shards);
    sl_door_close(&t->door);
    sl_machine_stop(&t->machine);
    if (t->run_ready) {
        sl_run_free(&t->run);
    }
    sl_partition_free(&t->partition);
    sl_dataset_free(&t->dataset);
    sl_free(t->best);
    sl_free(t);
}

uint32_t sl_trainer_steps_per_epoch(const struct sl_trainer *t)
{
    return t->plan.n_per_epoch;
}

bool sl_trainer_traced(const struct sl_trainer *t)
{
    return t != NULL && t->trace.opened;
}

uint64_t sl_trainer_memory_bytes(const struct sl_trainer *t)
{
    return t->memory_bytes;
}

static void describe_gpus(const struct sl_machine *machine, FILE *stream)
{
    for (uint32_t gpu = 0; gpu < machine->n_gpus; gpu++) {
        char text[96];
        sl_gpus_describe(gpu, text, sizeof text);
        fprintf(stream, "gpu       %s%s\n", text,
                machine->gpus_first ? "; CPUs do what it cannot" : "; CPUs share all work");
    }
}

/* What does not fit a GPU. */
static void describe_room(const struct sl_trainer *t, FILE *stream)
{
    const struct sl_feature_cache *cache = &t->steps.cache;
    if (cache->chosen) {
        fprintf(stream,
                "features  %.1f GB of them do not fit a GPU of %.1f GB, where other data may take %.1f GB: they stay "
                "in main "
                "memory, with a cache of %u rows a PE (%s)\n",
                (double)sl_feature_room_wanted(&cache->room) / 1e9, (double)cache->room.device_bytes / 1e9,
                (double)cache->room.other_bytes / 1e9, cache->n_rows,
                cache->policy == SL_HOTROWS_DEGREE ? "degree" : "lru");
    }
    if (t->run.evaluate_on_cpus) {
        fprintf(stream,
                "evaluation by CPUs: a GPU of %.1f GB does not hold the rows of all vertices (--cpus N: by so many)\n",
                (double)t->run.gpu_bytes / 1e9);
    }
}

enum sl_status sl_trainer_describe(const struct sl_trainer *t, FILE *stream)
{
    const struct sl_settings *s = t->settings;
    uint64_t n_edges = t->partition.graph.n_edges;
    uint64_t batch = (uint64_t)s->pes * s->batch_size;
    fprintf(stream, "dataset   %s%s: %u vertices, %llu edges, %u %s features, %u classes, split %s %u/%u/%u\n",
            t->dataset.name, t->dataset.synthetic ? " (SYNTHETIC: generated, not the real data)" : "",
            t->shards.n_vertices, (unsigned long long)n_edges, t->shards.n_features,
            t->shards.is_sparse ? "sparse" : "dense", t->shards.n_classes, t->dataset.split, t->shards.n_train,
            t->shards.n_valid, t->shards.n_test);
    fprintf(stream, "minibatch %u PEs in groups of %u, %u seeds each, %u steps an epoch, cross-edge ratio %.3f\n",
            s->pes, s->group_size, s->batch_size, t->plan.n_per_epoch,
            n_edges > 0 ? (double)t->partition.n_cut / (double)n_edges : 0);
    if (t->n_replicas > 1) {
        fprintf(stream, "gossip    %u replicas of the model; scores and files are of the average of all of them\n",
                t->n_replicas);
    }
    fprintf(stream, "machine   %u workers, scheduler %s, %u chunks a PE, needs at most %.2f GB of %.1f GB\n",
            t->machine.n_workers, t->machine.sched, s->chunks, (double)t->memory_bytes / 1e9,
            (double)t->machine.topology.memory_bytes / 1e9);
    describe_gpus(&t->machine, stream);
    describe_room(t, stream);
    if (t->n_unplaced > 0) {
        fprintf(stream,
                "warning   the system refused to place the tables on its %u NUMA nodes: some workers will wait for "
                "memory\n",
                t->machine.topology.n_numa);
    }
    if (t->n_unpinned > 0) {
        fprintf(
            stream,
            "warning   the system refused to lock %u tables and buffers in memory (ulimit -l?): GPUs are slow to fetch "
            "them\n",
            t->n_unpinned);
    }
    if (t->machine.n_workers - t->machine.n_gpus > t->machine.topology.n_workers) {
        fprintf(stream,
                "warning   %u workers share the %u processors of this process: they wait for each other; leave out "
                "--cpus\n",
                t->machine.n_workers, t->machine.topology.n_workers);
    }
    if (s->epochs > 0 && t->run.gpu_bytes > 0 && t->gpu_need.training > t->run.gpu_bytes) {
        fprintf(stream,
                "warning   a step may need %.2f GB of a GPU, where data may take %.2f GB: StarPU will move them to and "
                "fro; consider a smaller --batch-size or --fanout\n",
                (double)t->gpu_need.training / 1e9, (double)t->run.gpu_bytes / 1e9);
    }
    if (t->state.step > 0) {
        fprintf(stream, "resuming  after step %llu\n", (unsigned long long)t->state.step);
    }
    if (s->epochs > 0 && batch > t->shards.n_train / 4) {
        fprintf(
            stream,
            "warning   a step's %llu seeds are more than a quarter of the %u training vertices: few steps an epoch; "
            "consider a smaller --batch-size or --pes\n",
            (unsigned long long)batch, t->shards.n_train);
    }
    return ferror(stream) ? sl_fail(SL_EIO, "the run's description cannot be written") : SL_OK;
}

/* ---- reports ---- */

static enum sl_status report_config(struct sl_trainer *t, const struct sl_report *report)
{
    char names[STARPU_NMAXWORKERS][96];
    const char *devices[STARPU_NMAXWORKERS];
    for (unsigned w = 0; w < t->machine.n_workers; w++) {
        sl_machine_worker_name(w, names[w], sizeof names[w]);
        devices[w] = names[w];
    }
    struct sl_metrics_config config = {.version = PACKAGE_VERSION,
                                       .dataset = t->dataset.name,
                                       .synthetic = t->dataset.synthetic,
                                       .vertices = t->shards.n_vertices,
                                       .edges = t->partition.graph.n_edges,
                                       .features = t->shards.n_features,
                                       .classes = t->shards.n_classes,
                                       .pes = t->settings->pes,
                                       .group_size = t->settings->group_size,
                                       .devices = devices,
                                       .n_devices = t->machine.n_workers,
                                       .options = t->settings,
                                       .edge_cut = t->partition.n_cut};
    return report->metrics == NULL ? SL_OK : sl_metrics_config(report->metrics, &config);
}

/* Report the losses of the epoch's steps before `end`; the graph has written them, or is about to. */
static enum sl_status report_steps(struct sl_trainer *t, const struct sl_report *report, uint32_t end)
{
    uint32_t epoch = (uint32_t)((t->state.step - 1) / t->plan.n_per_epoch) + 1;
    enum sl_status st = SL_OK;
    for (; t->n_reported < end; t->n_reported++) {
        uint32_t i = t->n_reported;
        if (starpu_data_acquire(t->loss_handle[i], STARPU_R) != 0) {
            return sl_fail(SL_ESTARPU, "StarPU refused to hand out a loss");
        }
        double loss = t->losses[i];
        starpu_data_release(t->loss_handle[i]);
        SL_TRY(st, sl_failure_status(&t->run.failure), done);
        if (report->metrics != NULL && t->settings->metrics_steps) {
            uint64_t step = (uint64_t)(epoch - 1) * t->plan.n_per_epoch + i;
            SL_TRY(st, sl_metrics_step(report->metrics, epoch, step, loss), done);
        }
        if (report->progress != NULL) {
            sl_progress_step(report->progress, epoch, i + 1, loss);
        }
    }
done:
    return st;
}

/* The loss over all seeds of the epoch's steps. */
static double mean_loss(const struct sl_trainer *t, uint32_t n_steps)
{
    double sum = 0;
    double n_seeds = 0;
    for (uint32_t i = 0; i < n_steps; i++) {
        double seeds = sl_plan_seeds(&t->plan, i).n;
        sum += t->losses[i] * seeds;
        n_seeds += seeds;
    }
    return n_seeds > 0 ? sum / n_seeds : NAN;
}

static enum sl_status fill_epoch(struct sl_trainer *t, struct sl_metrics_epoch *out)
{
    double stage[SL_N_STAGES];
    const struct sl_step_sizes *sums = &t->state.sums;
    enum sl_status st = sl_run_overlap(&t->run, &out->overlap);
    sl_run_stage_seconds(&t->run, stage);
    out->layers = t->plan.n_layers;
    memcpy(out->vertices, sums->vertices, sizeof out->vertices);
    memcpy(out->edges, sums->edges, sizeof out->edges);
    out->bytes = (struct sl_metrics_bytes){.ids = sums->id_bytes,
                                           .rows = sums->row_bytes,
                                           .row_gradients = sums->row_gradient_bytes,
                                           .weights = sums->weight_bytes,
                                           .features = sums->feature_bytes};
    out->stages = (struct sl_metrics_stages){.sample = stage[SL_STAGE_SAMPLE],
                                             .exchange = stage[SL_STAGE_EXCHANGE],
                                             .gather = stage[SL_STAGE_GATHER],
                                             .aggregate = stage[SL_STAGE_AGGREGATE],
                                             .dense = stage[SL_STAGE_DENSE],
                                             .loss = stage[SL_STAGE_LOSS],
                                             .backward = stage[SL_STAGE_BACKWARD],
                                             .sync = stage[SL_STAGE_SYNC],
                                             .optimise = stage[SL_STAGE_OPTIMISE]};
    struct sl_hot_tally tally;
    st = st == SL_OK ? sl_feature_cache_tally(&t->steps.cache, &tally) : st;
    if (st == SL_OK) {
        out->cached = t->steps.cache.n_pes > 0;
        out->cache = (struct sl_metrics_cache){.rows = tally.rows, .hits = tally.hits};
    }
    return st;
}

/* ---- evaluation ---- */

static enum sl_status keep_best(struct sl_trainer *t)
{
    enum sl_status st = SL_OK;
    if (t->best == NULL) {
        SL_TRY(st, sl_alloc(sl_model_entries(&t->model), sizeof *t->best, "the best weights", &t->best), done);
    }
    SL_TRY(st, sl_model_acquire(&t->model, STARPU_R), done);
    sl_model_read(&t->model, t->best);
    sl_model_release(&t->model);
done:
    return st;
}

/* Score all vertices; the earliest of equal validation accuracies is the best. An empty validation set keeps the last. */
static enum sl_status evaluate(struct sl_trainer *t, uint32_t epoch, struct sl_metrics_epoch *out)
{
    struct sl_inference wanted = {0};
    double start_s = sl_clock_s();
    enum sl_status st;
    sl_pool_trim();
    SL_TRY(st, sl_trainer_average(t), done);
    SL_TRY(st, sl_evaluate(&t->run, &t->shards, &t->model, &wanted, &out->scores), done);
    sl_pool_trim();
    out->eval_seconds = sl_clock_s() - start_s;
    out->evaluated = true;
    out->two_classes = t->shards.n_classes == 2;
    bool first = t->best == NULL;
    bool blind = isnan(out->scores.valid_acc);
    if (first || blind || out->scores.valid_acc > t->state.best_valid_acc) {
        t->state.best_valid_acc = out->scores.valid_acc;
        t->state.test_acc_at_best = out->scores.test_acc;
        t->state.best_epoch = epoch;
        t->state.n_worse = 0;
        SL_TRY(st, keep_best(t), done);
    } else {
        t->state.n_worse++;
    }
done:
    return st;
}

/* ---- training ---- */

/* Of an epoch, counted from 0. */
static double learning_rate(const struct sl_settings *s, uint64_t epoch)
{
    double share = (double)epoch / s->epochs;
    switch ((enum sl_lr_schedule)s->lr_schedule) {
    case SL_LR_COSINE: return s->lr * 0.5 * (1 + cos(M_PI * share));
    case SL_LR_STEP: return s->lr * pow(0.1, floor(3 * share));
    case SL_LR_NONE: break;
    }
    return s->lr;
}

struct sl_adam sl_trainer_adam(const struct sl_settings *settings, uint64_t step, uint32_t n_per_epoch)
{
    return (struct sl_adam){.lr = learning_rate(settings, step / n_per_epoch),
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .decay = settings->weight_decay,
                            .t = step + 1};
}

static void add_sizes(struct sl_step_sizes *sums, const struct sl_step_sizes *sizes)
{
    for (int l = 0; l <= SL_MAX_LAYERS; l++) {
        sums->vertices[l] += sizes->vertices[l];
    }
    for (int l = 0; l < SL_MAX_LAYERS; l++) {
        sums->edges[l] += sizes->edges[l];
    }
    sums->id_bytes += sizes->id_bytes;
    sums->row_bytes += sizes->row_bytes;
    sums->row_gradient_bytes += sizes->row_gradient_bytes;
    sums->weight_bytes += sizes->weight_bytes;
    sums->feature_bytes += sizes->feature_bytes;
}

/* Submit the next step. */
static enum sl_status advance(struct sl_trainer *t, const struct sl_report *report)
{
    const struct sl_settings *s = t->settings;
    uint64_t step = t->state.step;
    uint32_t i = (uint32_t)(step % t->plan.n_per_epoch);
    struct sl_adam adam = sl_trainer_adam(s, step, t->plan.n_per_epoch);
    struct sl_step_sizes sizes;
    enum sl_status st;
    sl_trace_before_step(&t->trace, step);
    SL_TRY(st, sl_step_submit(&t->steps, step, &adam, t->loss_handle[i], &sizes), done);
    sl_trace_after_step(&t->trace, step);
    add_sizes(&t->state.sums, &sizes);
    t->state.step = step + 1;
    /* The slot that this step's sample waited for was free: the losses of depth steps ago are there. */
    st = i >= s->depth ? report_steps(t, report, i + 1 - s->depth) : SL_OK;
done:
    return st;
}

/* Wait for the updates, and for samples ahead: their time belongs to this epoch. */
static enum sl_status drain(struct sl_trainer *t)
{
    starpu_task_wait_for_all();
    return sl_failure_status(&t->run.failure);
}

static bool due(const struct sl_settings *s, uint32_t epoch)
{
    return epoch == s->epochs || (s->eval_every > 0 && epoch % s->eval_every == 0);
}

static enum sl_status finish_epoch(struct sl_trainer *t, const struct sl_report *report, double start_s)
{
    uint32_t n = t->plan.n_per_epoch;
    struct sl_metrics_epoch epoch = {.epoch = (uint32_t)(t->state.step / n)};
    enum sl_status st;
    SL_TRY(st, drain(t), done);
    epoch.seconds = t->state.epoch_seconds + sl_clock_s() - start_s;
    SL_TRY(st, report_steps(t, report, n), done);
    epoch.train_loss = mean_loss(t, n);
    SL_TRY(st, fill_epoch(t, &epoch), done);
    SL_TRY(st, due(t->settings, epoch.epoch) ? evaluate(t, epoch.epoch, &epoch) : SL_OK, done);
    sl_pool_reserve();
    SL_TRY(st, report->metrics != NULL ? sl_metrics_epoch(report->metrics, &epoch) : SL_OK, done);
    if (report->progress != NULL) {
        sl_progress_epoch(report->progress, &epoch);
    }
    t->state.seconds += epoch.seconds;
    t->state.epoch_seconds = 0;
    t->state.sums = (struct sl_step_sizes){0};
    t->n_reported = 0;
    starpu_task_wait_for_all(); /* a GPU's task is counted after its data is given free */
    sl_run_log_reset(&t->run);
    st = t->settings->checkpoint != NULL ? sl_trainer_save_state(t) : SL_OK;
done:
    return st;
}

/* An interrupt in the middle of an epoch: finish what was submitted and keep it. */
static enum sl_status pause_epoch(struct sl_trainer *t, const struct sl_report *report, double start_s)
{
    enum sl_status st;
    SL_TRY(st, drain(t), done);
    SL_TRY(st, report_steps(t, report, (uint32_t)(t->state.step % t->plan.n_per_epoch)), done);
    t->state.epoch_seconds += sl_clock_s() - start_s;
    st = t->settings->checkpoint != NULL ? sl_trainer_save_state(t) : SL_OK;
done:
    return st;
}

static bool patient(const struct sl_trainer *t)
{
    return t->settings->patience == 0 || t->state.n_worse < t->settings->patience;
}

static enum sl_status train_epochs(struct sl_trainer *t, const struct sl_report *report)
{
    double start_s = sl_clock_s();
    enum sl_status st = SL_OK;
    while (t->state.step < t->plan.n_steps && patient(t) && !sl_signals_seen()) {
        SL_TRY(st, advance(t, report), done);
        if (t->state.step % t->plan.n_per_epoch == 0) {
            SL_TRY(st, finish_epoch(t, report, start_s), done);
            start_s = sl_clock_s();
        }
    }
    if (t->state.step % t->plan.n_per_epoch != 0) {
        st = pause_epoch(t, report, start_s);
    }
done:
    return st;
}

/* --epochs 0, or a checkpoint at the end of its epochs: score what was loaded. */
static enum sl_status only_evaluate(struct sl_trainer *t, const struct sl_report *report)
{
    struct sl_metrics_epoch epoch = {.train_loss = NAN, .layers = t->plan.n_layers};
    enum sl_status st;
    SL_TRY(st, evaluate(t, 0, &epoch), done);
    SL_TRY(st, report->metrics != NULL ? sl_metrics_epoch(report->metrics, &epoch) : SL_OK, done);
    if (report->progress != NULL) {
        sl_progress_epoch(report->progress, &epoch);
    }
done:
    return st;
}

static enum sl_status summarise(struct sl_trainer *t, const struct sl_report *report)
{
    struct sl_metrics_summary summary = {.evaluated = t->best != NULL,
                                         .best_valid_acc = t->state.best_valid_acc,
                                         .test_acc_at_best = t->state.test_acc_at_best,
                                         .best_epoch = (uint32_t)t->state.best_epoch,
                                         .seconds = t->state.seconds + t->state.epoch_seconds,
                                         .peak_rss_bytes = sl_metrics_peak_rss_bytes()};
    if (report->progress != NULL) {
        sl_progress_summary(report->progress, &summary);
    }
    return report->metrics != NULL ? sl_metrics_summary(report->metrics, &summary) : SL_OK;
}

/* Of a run that goes on, the metrics go on where its checkpoint was; one that starts afresh all the same was at the start. */
static enum sl_status rewind_metrics(struct sl_trainer *t, const struct sl_report *report)
{
    bool goes_on = report->metrics != NULL && t->settings->resume != SL_RESUME_NO;
    uint64_t step = t->state.step;
    return goes_on ? sl_metrics_rewind(report->metrics, step / t->plan.n_per_epoch, step) : SL_OK;
}

enum sl_status sl_trainer_train(struct sl_trainer *t, const struct sl_report *report)
{
    enum sl_status st;
    SL_TRY(st, rewind_metrics(t, report), done);
    SL_TRY(st, report_config(t, report), done);
    SL_TRY(st, train_epochs(t, report), done);
    if (t->best == NULL && !sl_signals_seen()) {
        SL_TRY(st, only_evaluate(t, report), done);
    }
    SL_TRY(st, sl_trainer_write_files(t), done);
    st = summarise(t, report);
done:
    if (st != SL_OK) { /* the task that failed first says why */
        starpu_task_wait_for_all();
        if (sl_failure_seen(&t->run.failure)) {
            st = sl_failure_status(&t->run.failure);
        }
    }
    return st;
}
