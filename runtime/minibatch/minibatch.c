/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Steps as a schedule, and the sums over an epoch's steps. */
#include "runtime/minibatch/minibatch.h"

#include <string.h>

#include "runtime/machine/machine.h"
#include "runtime/minibatch/steps.h"
#include "runtime/report/metrics.h"
#include "support/lines.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/bundle.h"
#include "tasks/ranks.h"

/* ---- sums ---- */

/* A number of the epoch in hand, or one number per layer, with its name in checkpoints. */
struct sum {
    const char *name;
    uint32_t n; /* 0: a scalar */
    uint64_t *data;
};
#define N_SUMS 7

static void list_sums(struct sl_step_sizes *sums, uint32_t n_layers, struct sum out[N_SUMS])
{
    struct sl_metrics_bytes *bytes = &sums->bytes;
    out[0] = (struct sum){"epoch.vertices", n_layers + 1, sums->vertices};
    out[1] = (struct sum){"epoch.edges", n_layers, sums->edges};
    out[2] = (struct sum){"epoch.id_bytes", 0, &bytes->ids};
    out[3] = (struct sum){"epoch.row_bytes", 0, &bytes->rows};
    out[4] = (struct sum){"epoch.row_gradient_bytes", 0, &bytes->row_gradients};
    out[5] = (struct sum){"epoch.weight_bytes", 0, &bytes->weights};
    out[6] = (struct sum){"epoch.feature_bytes", 0, &bytes->features};
}

#define BUDGET_KEY "budget"
#define N_BUDGET (sizeof(struct sl_budget) / sizeof(double))

static enum sl_status save(void *own, struct sl_tensor *tensors, uint32_t *n)
{
    struct sl_minibatch *m = own;
    struct sum sums[N_SUMS];
    list_sums(&m->sums, m->steps.plan->n_layers, sums);
    for (int i = 0; i < N_SUMS; i++) {
        tensors[(*n)++] = sl_tensor_make(sums[i].name, SL_DTYPE_U64, sums[i].n, 0, sums[i].data);
    }
    if (m->steps.plan->adapts) {
        tensors[(*n)++] = sl_tensor_make(BUDGET_KEY, SL_DTYPE_F64, N_BUDGET, 0, &m->budget);
    }
    return SL_OK;
}

static void turn(void *own)
{
    ((struct sl_minibatch *)own)->sums = (struct sl_step_sizes){0};
}

#define MAX_NUMBERS (N_SUMS * (SL_MAX_LAYERS + 1))

/* Sum over the ranks into rank 0; ranks above 0 restart at zero. Numbers travel as doubles, which are exact up to
 * 2^53. */
static enum sl_status gather_sums(struct sl_minibatch *m)
{
    struct sum sums[N_SUMS];
    double numbers[MAX_NUMBERS];
    uint32_t n = 0;
    list_sums(&m->sums, m->steps.plan->n_layers, sums);
    for (int i = 0; i < N_SUMS; i++) {
        for (uint32_t k = 0; k == 0 || k < sums[i].n; k++) {
            numbers[n++] = (double)sums[i].data[k];
        }
    }
    SL_CHECK(sl_ranks_sum(n, numbers));
    if (sl_rank() > 0) {
        turn(m);
        return SL_OK;
    }
    n = 0;
    for (int i = 0; i < N_SUMS; i++) {
        for (uint32_t k = 0; k == 0 || k < sums[i].n; k++) {
            sums[i].data[k] = (uint64_t)numbers[n++];
        }
    }
    return SL_OK;
}

/* Sum the feature caches' tallies over all ranks. */
static enum sl_status gather_wanted(struct sl_minibatch *m)
{
    struct sl_row_cache_tally mine;
    SL_CHECK(sl_feature_cache_tally(&m->steps.cache, &mine));
    double numbers[] = {(double)mine.rows, (double)mine.hits};
    SL_CHECK(sl_ranks_sum(2, numbers));
    m->wanted.rows = (uint64_t)numbers[0];
    m->wanted.hits = (uint64_t)numbers[1];
    return SL_OK;
}

static enum sl_status gather(void *own)
{
    SL_CHECK(gather_sums(own));
    return gather_wanted(own);
}

/* Rank 0 continues with the checkpoint's sums, summed over all ranks. */
static enum sl_status load(void *own, const struct sl_tensors *checkpoint)
{
    struct sl_minibatch *m = own;
    struct sum sums[N_SUMS];
    if (m->steps.plan->adapts) {
        struct sl_tensor wanted = sl_tensor_make(BUDGET_KEY, SL_DTYPE_F64, N_BUDGET, 0, NULL);
        SL_CHECK(sl_tensors_get(checkpoint, &wanted, &m->budget));
    }
    if (sl_rank() > 0) {
        return SL_OK;
    }
    list_sums(&m->sums, m->steps.plan->n_layers, sums);
    for (int i = 0; i < N_SUMS; i++) {
        struct sl_tensor wanted = sl_tensor_make(sums[i].name, SL_DTYPE_U64, sums[i].n, 0, NULL);
        SL_CHECK(sl_tensors_get(checkpoint, &wanted, sums[i].data));
    }
    return SL_OK;
}

static void add_sizes(struct sl_minibatch *m, struct sl_step_sizes *sizes)
{
    struct sum sums[N_SUMS], terms[N_SUMS];
    list_sums(&m->sums, m->steps.plan->n_layers, sums);
    list_sums(sizes, m->steps.plan->n_layers, terms);
    for (int i = 0; i < N_SUMS; i++) {
        for (uint32_t k = 0; k == 0 || k < sums[i].n; k++) {
            sums[i].data[k] += terms[i].data[k];
        }
    }
}

static enum sl_status tally(void *own, struct sl_metrics_epoch *out)
{
    struct sl_minibatch *m = own;
    const struct sl_step_sizes *sums = &m->sums;
    memcpy(out->vertices, sums->vertices, sizeof out->vertices);
    memcpy(out->edges, sums->edges, sizeof out->edges);
    out->bytes = sums->bytes;
    out->cached = m->steps.cache.n_pes > 0;
    out->cache = (struct sl_metrics_cache){.rows = m->wanted.rows, .hits = m->wanted.hits};
    return SL_OK;
}

/* ---- steps ---- */

static enum sl_status advance(void *own, uint64_t step, const struct sl_adam *adam, starpu_data_handle_t loss)
{
    struct sl_minibatch *m = own;
    struct sl_step_sizes sizes;
    SL_CHECK(sl_step_submit(&m->steps, step, adam, loss, &sizes));
    add_sizes(m, &sizes);
    if (sizes.n_seeds == m->steps.plan->batch) { /* the rest of an epoch says little */
        sl_budget_add(&m->budget, (double)sizes.n_inputs / m->steps.plan->n_groups);
    }
    return SL_OK;
}

static uint64_t next_batch(void *own)
{
    struct sl_minibatch *m = own;
    const struct sl_plan *plan = m->steps.plan;
    return sl_budget_batch(&m->budget, m->steps.settings->vertex_budget, plan->batch, plan->n_train);
}

static enum sl_status resize(void *own)
{
    struct sl_minibatch *m = own;
    m->budget = (struct sl_budget){0};
    return sl_steps_resize(&m->steps);
}

/* Submitting a step waits for the previous step in the same slot, `depth` steps earlier. So the loss of this earlier
 * step exists, or its shares are about to be summed. */
static uint32_t in_flight(const void *own)
{
    return ((const struct sl_minibatch *)own)->steps.settings->depth;
}

/* ---- open, close ---- */

/* Bytes of one GPU that everything except features takes, including its PEs' share of the slots. */
static uint64_t other_bytes(const struct sl_work *work, const struct sl_steps *steps)
{
    uint64_t n_gpus = work->run->n_gpus;
    uint64_t n_own = work->plan->end_pe - work->plan->first_pe;
    uint64_t n_pes = n_gpus == 0 ? 0 : (n_own + n_gpus - 1) / n_gpus;
    return work->gpu_bytes + sl_steps_slot_bytes(steps) / n_own * n_pes;
}

/* With one GPU, a bundle has all tasks that the GPU can run. The buffers of the steps in flight are then there at the
 * same time: twice what single tasks need, since no gradient takes the place of another. Without bundles all tasks go
 * to one worker of the GPU. Two workers could each hold memory of the GPU and wait for the other's. */
static enum sl_status open_bundle(const struct sl_work *work, const struct sl_steps *steps)
{
    struct sl_run *run = work->run;
    const bool one = run->gpus_first && run->n_gpus == 1 && work->plan->n_ranks == 1 && run->homes == NULL;
    const uint64_t rows = 2 * work->settings->depth * work->gpu_bytes;
    const uint64_t bytes = rows + sl_steps_slot_bytes(steps) + sl_feature_source_bytes(&work->shards->features);
    if (one && !run->traced && !run->fastest_means && steps->cache.n_rows == 0 && bytes <= run->gpu_bytes) {
        return sl_bundles_open(run, work->plan->n_pes, work->plan->n_pes);
    }
    if (one && starpu_cuda_worker_get_count() > run->n_gpus) {
        run->homes = &work->plan->homes;
    }
    return SL_OK;
}

static enum sl_status open_minibatch(const struct sl_work *work, uint64_t first_step, struct sl_schedule *out)
{
    struct sl_minibatch *m;
    SL_CHECK(sl_alloc_zero(1, sizeof *m, "the minibatches", &m));
    *out = (struct sl_schedule){.kind = &sl_minibatch, .own = m};
    SL_CHECK(sl_steps_open(work, &sl_sampled, first_step, &m->steps));
    SL_CHECK(sl_feature_cache_open(work->settings, work->plan, work->run, work->shards, other_bytes(work, &m->steps),
                                   &m->steps.cache));
    SL_CHECK(open_bundle(work, &m->steps));
    work->settings->feature_cache = m->steps.cache.n_rows;
    for (uint32_t i = 0; i < work->settings->depth; i++) {
        out->n_refused += m->steps.slot[i].n_refused;
    }
    return SL_OK;
}

static void close_minibatch(void *own)
{
    struct sl_minibatch *m = own;
    sl_feature_cache_close(&m->steps.cache);
    sl_steps_close(&m->steps);
    sl_free(m);
}

/* Print the shape of a step, and a note if the features do not fit the GPUs. */
static void describe(const void *own, FILE *stream)
{
    const struct sl_steps *steps = &((const struct sl_minibatch *)own)->steps;
    const struct sl_feature_cache *cache = &steps->cache;
    const struct sl_partition *partition = steps->shards->partition;
    const struct sl_plan *plan = steps->plan;
    uint32_t batch = (uint32_t)(plan->batch / plan->n_pes);
    uint64_t n_edges = partition->graph.n_edges;
    sl_print_line(stream, "minibatch", "%u %s in groups of %u, %u %s each, %u %s an epoch, cross-edge ratio %.3f",
                  plan->n_pes, sl_noun(plan->n_pes, "PE", "PEs"), plan->n_parts, batch, sl_noun(batch, "seed", "seeds"),
                  plan->n_per_epoch, sl_noun(plan->n_per_epoch, "step", "steps"),
                  n_edges > 0 ? (double)partition->n_cut / (double)n_edges : 0);
    if (plan->adapts) {
        sl_print_line(stream, "budget", "%u input vertices a minibatch; %llu seeds a step to begin with",
                      steps->settings->vertex_budget, (unsigned long long)plan->batch);
    }
    if (cache->chosen) {
        char policy[32];
        sl_option_choice_name(sl_option_find(sl_settings_table_of(steps->settings), "feature-cache-policy"),
                              (int)cache->policy, policy, sizeof policy);
        sl_print_line(stream, "features",
                      "%.1f GB of them do not fit a GPU of %.1f GB, where other data may take %.1f GB: they stay "
                      "in main memory, with a cache of %u %s a PE (%s)",
                      (double)sl_feature_room_wanted(&cache->room) / 1e9, (double)cache->room.device_bytes / 1e9,
                      (double)cache->room.other_bytes / 1e9, cache->n_rows, sl_noun(cache->n_rows, "row", "rows"),
                      policy);
    }
}

static enum sl_status decide(struct sl_settings *s, const struct sl_machine *machine)
{
    uint32_t n_gpus = machine->n_gpus; /* of all ranks */
    SL_CHECK(sl_ranks_add_up(1, &n_gpus));
    s->gpus = machine->n_gpus;
    if (s->pes == 0) {
        uint32_t on_cpus = machine->topology.n_numa > 2 ? machine->topology.n_numa : 2;
        s->pes = n_gpus > 0 ? n_gpus : on_cpus;
        s->pes = sl_max_u32(s->pes, sl_n_ranks());
        s->pes = s->group_size > 0 ? (s->pes + s->group_size - 1) / s->group_size * s->group_size : s->pes;
    }
    if (s->placement == SL_PLACEMENT_AUTO) {
        /* A scheduler without measurements runs a task on any GPU, and the task's data move between GPUs. */
        s->placement = machine->gpus_first && s->gpus > 1 && s->pes >= n_gpus ? SL_PLACEMENT_HOME : SL_PLACEMENT_FREE;
    }
    if (s->chunks == 0) {
        /* Two chunks per worker. A GPU without CPU workers takes all rows in one chunk. */
        uint32_t wanted = machine->gpus_first ? n_gpus : 2 * machine->n_workers;
        s->chunks = (wanted + s->pes - 1) / s->pes;
        s->chunks = sl_min_u32(s->chunks, SL_MAX_CHUNKS);
    }
    return sl_settings_check(s);
}

static enum sl_status check_ranks(const struct sl_settings *s, uint32_t n)
{
    SL_FAIL_IF(s->pes > 0 && s->pes < n, SL_EINVAL,
               "--pes: found %u, expected at least one for each of %u processes of one run", s->pes, n);
    SL_FAIL_IF(s->n_score_fanout > 0, SL_EINVAL,
               "--score-fanout: found %u processes of one run, expected one: each needs rows of the others' vertices",
               n);
    return SL_OK;
}

#define ADVICE "use a smaller --batch-size, --fanout or --hidden, --precision bf16, or --score-fanout"

const struct sl_schedule_kind sl_minibatch = {.name = "minibatch",
                                              .advice = ADVICE,
                                              .decide = decide,
                                              .check_ranks = check_ranks,
                                              .open = open_minibatch,
                                              .close = close_minibatch,
                                              .advance = advance,
                                              .in_flight = in_flight,
                                              .gather = gather,
                                              .tally = tally,
                                              .turn = turn,
                                              .next_batch = next_batch,
                                              .resize = resize,
                                              .save = save,
                                              .load = load,
                                              .describe = describe};
