/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Each worker counts its own tasks; the host adds up between epochs, when no task runs. */
#include "tests/bench/probe.h"

#include <starpu.h>
#include <starpu_profiling.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/machine/pool.h"
#include "runtime/minibatch/minibatch.h"
#include "runtime/plan/plan.h"
#include "runtime/report/metrics.h"
#include "runtime/train/session.h"
#include "support/clock.h"

/* Tasks of one codelet on one worker. */
struct tally {
    const struct starpu_codelet *codelet;
    uint64_t n_tasks;
    double seconds;
    double cpu_seconds;
};

struct worker {
    _Alignas(64) struct tally tally[PROBE_MAX_CODELETS];
    double epoch_s;     /* of all codelets, in the epoch in hand */
    double start_cpu_s; /* of the task in hand */
};

static struct probe probe;
static struct worker workers[STARPU_NMAXWORKERS];
static struct bench_shape warm_up; /* of the first epoch: vertices and draws */
static double epoch_cpu_s;

uint32_t probe_epochs(uint32_t n_repeats)
{
    return 2 * n_repeats + 2;
}

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of the process, or of this thread. */
static double cpu_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return seconds_of(t);
}

void probe_start(uint32_t n_repeats)
{
    memset(&probe, 0, sizeof probe);
    memset(workers, 0, sizeof workers);
    memset(&warm_up, 0, sizeof warm_up);
    probe.n_repeats = n_repeats;
    epoch_cpu_s = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
}

/* The epoch in hand is one of those that are timed. */
static bool timed(void)
{
    return probe.n_epochs >= 1 && probe.n_epochs <= probe.n_repeats;
}

/* ---- tasks ---- */

static void count_task(struct worker *worker, const struct starpu_codelet *codelet, double seconds, double cpu_seconds)
{
    uint32_t i = 0;
    while (i + 1 < PROBE_MAX_CODELETS && worker->tally[i].codelet != NULL && worker->tally[i].codelet != codelet) {
        i++;
    }
    worker->tally[i].codelet = codelet;
    worker->tally[i].n_tasks++;
    worker->tally[i].seconds += seconds;
    worker->tally[i].cpu_seconds += cpu_seconds;
    worker->epoch_s += seconds;
}

/* The linker's names. */
int __real_sl_task_enter(const struct sl_task_args *args, double *start_s_out);
int __wrap_sl_task_enter(const struct sl_task_args *args, double *start_s_out);

int __wrap_sl_task_enter(const struct sl_task_args *args, double *start_s_out)
{
    int id = starpu_worker_get_id();
    if (id >= 0) {
        workers[id].start_cpu_s = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    }
    return __real_sl_task_enter(args, start_s_out);
}

void __real_sl_task_leave(const struct sl_task_args *args, double start_s);
void __wrap_sl_task_leave(const struct sl_task_args *args, double start_s);

void __wrap_sl_task_leave(const struct sl_task_args *args, double start_s)
{
    double seconds = sl_clock_s() - start_s;
    int id = starpu_worker_get_id();
    if (id >= 0 && timed() && args->stage != SL_STAGE_EVALUATE) {
        double cpu_seconds = cpu_s(CLOCK_THREAD_CPUTIME_ID) - workers[id].start_cpu_s;
        count_task(&workers[id], starpu_task_get_current()->cl, seconds, cpu_seconds);
    }
    __real_sl_task_leave(args, start_s);
}

/* ---- steps ---- */

static void count_references(const struct sl_steps *s, struct bench_shape *shape)
{
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
            const uint32_t *first = s->pe[p].counts + sl_counts_request(s->plan->n_layers, n_parts, hop);
            shape->references[hop] += first[n_parts];
            shape->remote[hop] += first[n_parts] - sl_list_count(first, sl_plan_part(s->plan, p));
        }
    }
}

/* Draws of one PE in one hop: for each destination that has more in-neighbours than the fanout. Waits for the
 * frontier. */
static enum sl_status count_draws(const struct sl_steps *s, uint64_t step, uint32_t p, uint32_t hop)
{
    const struct sl_sample_rule rule = s->hop[hop].rule;
    const uint64_t *offsets = s->shards->partition->graph.offsets;
    starpu_data_handle_t handle = sl_step_slot(s, step, p)->frontier;
    uint32_t n_rows = s->pe[p].counts[sl_counts_rows(hop)];
    if (rule.method != SL_SAMPLE_NEIGHBOR) {
        return SL_OK;
    }
    if (starpu_data_acquire(handle, STARPU_R) != 0) {
        return sl_fail(SL_ESTARPU, "the bench cannot read a frontier");
    }
    const sl_vertex *frontier = (const sl_vertex *)starpu_vector_get_local_ptr(handle);
    for (uint32_t d = 0; d < n_rows; d++) {
        bool drawn = offsets[frontier[d] + 1] - offsets[frontier[d]] > rule.fanout;
        warm_up.draws[hop] += drawn ? (rule.fanout + 3) / 4 : 0;
    }
    warm_up.vertices[hop] += n_rows;
    starpu_data_release(handle);
    return SL_OK;
}

static enum sl_status count_all_draws(const struct sl_steps *s, uint64_t step)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && p < s->plan->n_pes; p++) {
        for (uint32_t hop = 0; st == SL_OK && hop < s->plan->n_layers; hop++) {
            st = count_draws(s, step, p, hop);
        }
    }
    return st;
}

enum sl_status __real_sl_step_sizes(struct sl_steps *s, uint64_t step, struct sl_step_sizes *sizes_out);
enum sl_status __wrap_sl_step_sizes(struct sl_steps *s, uint64_t step, struct sl_step_sizes *sizes_out);

enum sl_status __wrap_sl_step_sizes(struct sl_steps *s, uint64_t step, struct sl_step_sizes *sizes_out)
{
    enum sl_status st = __real_sl_step_sizes(s, step, sizes_out);
    if (st == SL_OK && probe.n_epochs == 0) {
        return count_all_draws(s, step);
    }
    if (st != SL_OK || !timed()) {
        return st;
    }
    for (uint32_t level = 0; level <= s->plan->n_layers; level++) {
        probe.shape.vertices[level] += sizes_out->vertices[level];
    }
    for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
        probe.shape.edges[hop] += sizes_out->edges[hop];
    }
    if (s->shards->is_sparse) {
        probe.shape.n_nonzeros += sizes_out->bytes.features / (sizeof(float) + sizeof(uint32_t));
    }
    count_references(s, &probe.shape);
    return SL_OK;
}

/* ---- epochs ---- */

/* Forget what the workers have done in this epoch, and how long that was. */
static double take_task_seconds(void)
{
    double sum = 0;
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        sum += workers[w].epoch_s;
        workers[w].epoch_s = 0;
    }
    return sum;
}

static void end_timed(const struct sl_metrics_epoch *epoch)
{
    uint32_t i = probe.n_epochs - 1;
    double available = epoch->seconds * starpu_worker_get_count();
    probe.seconds[i] = epoch->seconds;
    probe.overlap[i] = epoch->overlap;
    probe.outside[i] = 1 - take_task_seconds() / available;
    probe.cores[i] = (cpu_s(CLOCK_PROCESS_CPUTIME_ID) - epoch_cpu_s) / epoch->seconds;
}

/* Asking StarPU for a worker's profile also starts the next one. */
static void end_profiled(uint32_t i)
{
    double total = 0;
    double executing = 0;
    double sleeping = 0;
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        struct starpu_profiling_worker_info info;
        starpu_profiling_worker_get_info((int)w, &info);
        total += seconds_of(info.total_time);
        executing += seconds_of(info.executing_time);
        sleeping += seconds_of(info.sleeping_time);
    }
    probe.idle[i] = sleeping / total;
    probe.scheduling[i] = (total - executing - sleeping) / total;
}

static void start_profiling(void)
{
    starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        starpu_profiling_worker_get_info((int)w, NULL);
    }
}

static void end_epoch(const struct sl_metrics_epoch *epoch)
{
    uint32_t e = probe.n_epochs;
    uint32_t n = probe.n_repeats;
    if (e == 0) {
        probe.first_blocks = sl_pool_blocks();
    } else if (e <= n) {
        end_timed(epoch);
    } else if (e <= 2 * n) {
        end_profiled(e - n - 1);
    }
    if (e == n) {
        start_profiling();
    } else if (e == 2 * n) {
        starpu_profiling_status_set(STARPU_PROFILING_DISABLE);
        probe.later_blocks = sl_pool_blocks() - probe.first_blocks;
        probe.pool_bytes = sl_pool_bytes();
        probe.peak_rss_bytes = sl_metrics_peak_rss_bytes();
    }
}

enum sl_status __real_sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch);
enum sl_status __wrap_sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch);

enum sl_status __wrap_sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch)
{
    enum sl_status st = __real_sl_metrics_epoch(metrics, epoch);
    end_epoch(epoch);
    probe.n_epochs++;
    epoch_cpu_s = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
    return st;
}

/* ---- the result ---- */

static int longer(const void *a, const void *b)
{
    double x = ((const struct probe_codelet *)a)->seconds;
    double y = ((const struct probe_codelet *)b)->seconds;
    return (x < y) - (x > y);
}

static void add_tally(const struct tally *tally)
{
    uint32_t i = 0;
    while (i < probe.n_codelets && strcmp(probe.codelet[i].name, tally->codelet->name) != 0) {
        i++;
    }
    if (i == PROBE_MAX_CODELETS) {
        return;
    }
    probe.n_codelets += i == probe.n_codelets;
    probe.codelet[i].name = tally->codelet->name;
    probe.codelet[i].n_tasks += tally->n_tasks;
    probe.codelet[i].seconds += tally->seconds;
    probe.codelet[i].cpu_seconds += tally->cpu_seconds;
}

static void merge_tallies(void)
{
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        for (uint32_t i = 0; i < PROBE_MAX_CODELETS && workers[w].tally[i].codelet != NULL; i++) {
            add_tally(&workers[w].tally[i]);
        }
    }
    for (uint32_t i = 0; i < probe.n_codelets; i++) {
        probe.codelet[i].n_tasks /= probe.n_repeats;
        probe.codelet[i].seconds /= probe.n_repeats;
        probe.codelet[i].cpu_seconds /= probe.n_repeats;
    }
    qsort(probe.codelet, probe.n_codelets, sizeof *probe.codelet, longer);
}

static void finish_shape(const struct sl_session *t, struct bench_shape *shape)
{
    for (uint32_t i = 0; i <= SL_MAX_LAYERS; i++) {
        shape->vertices[i] /= probe.n_repeats;
    }
    for (uint32_t i = 0; i < SL_MAX_LAYERS; i++) {
        shape->edges[i] /= probe.n_repeats;
        shape->references[i] /= probe.n_repeats;
        shape->remote[i] /= probe.n_repeats;
        double draws = warm_up.vertices[i] > 0 ? (double)warm_up.draws[i] / (double)warm_up.vertices[i] : 0;
        shape->draws[i] = (uint64_t)(draws * (double)shape->vertices[i]);
    }
    shape->n_nonzeros /= probe.n_repeats;
    shape->is_sparse = t->shards.is_sparse;
    shape->n_layers = t->plan.n_layers;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        shape->width[i] = t->model.layer[i].n_in;
        shape->width[i + 1] = t->model.layer[i].n_out;
    }
    shape->n_vertices = t->shards.n_vertices;
    shape->n_parts = t->shards.n_parts;
    shape->n_edges = t->partition.graph.n_edges;
    shape->n_steps = t->plan.n_per_epoch;
    shape->n_pes = t->plan.n_pes;
    shape->n_chunks = t->settings->chunks;
}

const struct probe *probe_result(struct sl_session *session)
{
    merge_tallies();
    finish_shape(session, &probe.shape);
    return &probe;
}
