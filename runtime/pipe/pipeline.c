/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Epochs as steps of a schedule, the guard, and history in checkpoints. */
#include "runtime/plan/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/machine/machine.h"
#include "runtime/objective/objective.h"
#include "runtime/pipe/epoch.h"
#include "runtime/pipe/exact_loss.h"
#include "runtime/pipe/stages.h"
#include "runtime/report/metrics.h"
#include "support/lines.h"
#include "support/memory.h"
#include "tasks/ranks.h"

#define N_WATCHED 4 /* numbers of the guard in checkpoints */

/* The guard's losses, and the weights to return to if it fires. */
struct watch {
    /* --guard is on, and there are several slots. */
    bool on;
    /* The guard has fired. Since then all chunks are in one slot. */
    bool fired;
    /* The epoch that Adam counts from. */
    uint64_t began;
    struct sl_guard guard;
    /* Weights with the least exact loss so far, or the initial weights. */
    sl_real *best;
    /* Weights at the start of the epoch in hand. */
    sl_real *now;
    /* Exact loss of `best`. NaN: these are the initial weights. */
    double best_exact;
    /* Exact loss of the epoch in hand. NaN: the epoch is not checked. */
    double exact;
    /* Handle of `exact`. */
    starpu_data_handle_t handle;
};

/* The schedule's own state. */
struct pipeline {
    struct sl_pipe pipe;
    struct watch watch;
    /* Counts of one epoch. */
    struct sl_pipe_traffic traffic;
    /* For a checkpoint, at rank 0: each layer's history by renumbered id, or NULL. */
    void *saved[SL_MAX_MODEL_LAYERS];
    double saved_watch[N_WATCHED];
};

/* ---- the guard ---- */

static enum sl_status read_weights(struct sl_model *model, sl_real *out)
{
    SL_CHECK(sl_model_acquire(model, STARPU_R));
    sl_model_read(model, out);
    sl_model_release(model);
    return SL_OK;
}

static enum sl_status write_weights(struct sl_model *model, const sl_real *from)
{
    SL_CHECK(sl_model_acquire(model, STARPU_RW));
    sl_model_write(model, from);
    sl_model_release(model);
    return SL_OK;
}

static enum sl_status clear(starpu_data_handle_t handle, size_t n)
{
    SL_FAIL_IF(starpu_data_acquire(handle, STARPU_W) != 0, SL_ESTARPU, "StarPU refused to hand out Adam's moments");
    memset(starpu_data_get_local_ptr(handle), 0, n * sizeof(sl_real));
    starpu_data_release(handle);
    return SL_OK;
}

static enum sl_status clear_moments(struct sl_model *model)
{
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *parameter = &model->layer[i].parameter[k];
            size_t n = (size_t)parameter->n_rows * parameter->n_columns;
            if (sl_parameter_trained(parameter)) {
                SL_CHECK(clear(parameter->moment1_handle, n));
                SL_CHECK(clear(parameter->moment2_handle, n));
            }
        }
    }
    return SL_OK;
}

/* Put all chunks into one slot and drop the history. */
static void make_exact(struct sl_pipe *p)
{
    struct sl_pipe_order *o = &p->order;
    o->n_ways = o->n_chunks;
    o->n_slots = 1;
    p->watched = false;
    for (size_t k = 0; k < (size_t)p->work.model->n_layers * o->n_chunks; k++) {
        sl_rows_drop(&p->history[k]);
    }
}

/* Return to the best weights, reset Adam, and continue in exact mode. */
static enum sl_status fall_back(struct pipeline *l, uint64_t epoch)
{
    struct watch *w = &l->watch;
    w->fired = true;
    w->began = epoch + 1;
    make_exact(&l->pipe);
    SL_CHECK(write_weights(l->pipe.work.model, w->best));
    return clear_moments(l->pipe.work.model);
}

static enum sl_status acquire_loss(starpu_data_handle_t handle)
{
    SL_FAIL_IF(starpu_data_acquire(handle, STARPU_R) != 0, SL_ESTARPU, "StarPU refused to hand out a loss");
    return SL_OK;
}

/* Wait for both losses of a checked epoch, and let the guard decide. */
static enum sl_status judge(struct pipeline *l, uint64_t epoch, starpu_data_handle_t loss)
{
    struct watch *w = &l->watch;
    SL_CHECK(acquire_loss(loss));
    double stale = *(const double *)starpu_data_get_local_ptr(loss);
    starpu_data_release(loss);
    SL_CHECK(acquire_loss(w->handle));
    starpu_data_release(w->handle);
    SL_CHECK(sl_failure_status(&l->pipe.work.run->failure));
    bool best = sl_guard_good(&w->guard, w->exact) && w->exact <= w->guard.least;
    if (sl_guard_check(&w->guard, epoch, l->pipe.history_every, stale, w->exact)) {
        return fall_back(l, epoch);
    } else if (best) {
        sl_real *kept = w->best;
        w->best = w->now;
        w->now = kept;
        w->best_exact = w->exact;
    }
    return SL_OK;
}

/* ---- steps ---- */

static enum sl_status advance(void *own, uint64_t step, const struct sl_adam *adam, starpu_data_handle_t loss)
{
    struct pipeline *l = own;
    struct sl_pipe *p = &l->pipe;
    struct watch *w = &l->watch;
    const struct sl_settings *s = p->work.settings;
    bool checks = w->on && !w->fired && sl_guard_due(step, p->history_every);
    struct sl_adam afresh = *adam;
    afresh.t = step + 1 - w->began;
    w->exact = NAN;
    if (checks) {
        SL_CHECK(sl_pipe_stages_share(p, false));
        SL_CHECK(read_weights(p->work.model, w->now));
    }
    sl_pipe_order_draw(&p->order, s->chunk_order == SL_CHUNK_ORDER_SHUFFLE, s->seed, step);
    SL_CHECK(sl_pipe_epoch(p, step, &afresh, loss, checks ? w->handle : NULL));
    if (checks) {
        SL_CHECK(judge(l, step, loss));
    }
    return sl_failure_status(&p->work.run->failure);
}

static uint32_t in_flight(const void *own)
{
    (void)own;
    return 1;
}

/* Each layer works on every vertex and every edge. */
static enum sl_status tally(void *own, struct sl_metrics_epoch *out)
{
    const struct pipeline *pipeline = own;
    const struct sl_pipe *p = &pipeline->pipe;
    const struct watch *w = &pipeline->watch;
    out->checked = !isnan(w->exact);
    out->exact_loss = w->exact;
    out->bytes = (struct sl_metrics_bytes){.rows = pipeline->traffic.rows,
                                           .row_gradients = pipeline->traffic.row_gradients,
                                           .weights = pipeline->traffic.weights,
                                           .stages = pipeline->traffic.stages};
    out->staged = true;
    out->guard_fired = w->fired && w->began == out->epoch;
    for (uint32_t l = 0; l <= p->work.settings->layers; l++) {
        out->vertices[l] = p->work.shards->n_vertices;
    }
    for (uint32_t l = 0; l < p->work.settings->layers; l++) {
        out->edges[l] = p->work.shards->partition->graph.n_edges;
    }
    return SL_OK;
}

static void turn(void *own)
{
    (void)own; /* an epoch's counts do not change */
}

/* ---- checkpoints ---- */

static struct sl_rows *history_of(struct sl_pipe *p, uint32_t i, uint32_t q)
{
    return &p->history[(size_t)i * p->graph.n_chunks + q];
}

/* The rows of a chunk's history on this rank. Remote chunks have the received rows. */
static struct sl_split split_of(const struct sl_pipe *p, uint32_t q)
{
    if (!sl_plan_here(&p->plan, q)) {
        return sl_split_rows(sl_halo_rows(p->graph.in.halo, q), 1, 0);
    }
    if (sl_pipe_packs(p)) {
        return sl_split_rows(sl_pipe_boundary_rows(&p->boundary, q), 1, 0);
    }
    return p->pass.pe[q].split[0];
}

/* The vertex of row r. */
static sl_vertex vertex_of(const struct sl_pipe *p, uint32_t q, uint32_t r)
{
    if (!sl_plan_here(&p->plan, q)) {
        return sl_halo_id(p->graph.in.halo, q, r);
    }
    if (sl_pipe_packs(p)) {
        return p->boundary.vertices[p->boundary.first[q] + r];
    }
    return p->work.shards->part[q].first + r;
}

/* Columns of layer i's history. */
static uint32_t width_of(const struct sl_pipe *p, uint32_t i)
{
    return p->work.model->layer[i].training.travels;
}

/* Bytes of a row of layer i's history, which has the dtype of the travelling rows. */
static size_t row_bytes(const struct sl_pipe *p, uint32_t i)
{
    return sl_dtype_bytes(p->work.shards->row_dtype, width_of(p, i));
}

static struct sl_tensor history_tensor(const struct sl_pipe *p, uint32_t i, const void *data)
{
    bool rounded = p->work.shards->row_dtype == SL_DTYPE_BF16;
    char name[32];
    snprintf(name, sizeof name, "history.%u", i);
    return sl_tensor_make(name, rounded ? SL_DTYPE_BF16 : SL_DTYPE_REAL, p->work.shards->n_vertices, width_of(p, i),
                          data);
}

/* First id of this rank's chunks. */
static sl_vertex first_own(const struct sl_pipe *p)
{
    return p->work.shards->part[p->plan.first_pe].first;
}

/* Copy the history of this rank's chunks, by id from its first id on. */
static enum sl_status copy_out(struct sl_pipe *p, uint32_t i, char *out)
{
    const size_t bytes = row_bytes(p, i);
    for (uint32_t q = p->plan.first_pe; q < p->plan.end_pe; q++) {
        const struct sl_rows *rows = history_of(p, i, q);
        if (rows->split.n_chunks == 0) {
            continue;
        }
        SL_CHECK(sl_chunk_acquire(&p->work.run->failure, rows->chunk[0], STARPU_R));
        const char *values = starpu_data_get_local_ptr(rows->chunk[0]);
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            memcpy(out + (vertex_of(p, q, r) - first_own(p)) * bytes, values + r * bytes, bytes);
        }
        starpu_data_release(rows->chunk[0]);
    }
    return SL_OK;
}

static enum sl_status copy_in(struct sl_pipe *p, uint32_t i, const char *from)
{
    const size_t bytes = row_bytes(p, i);
    for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
        struct sl_rows *rows = history_of(p, i, q);
        const struct sl_split split = split_of(p, q);
        SL_CHECK(sl_rows_reshape(&split, width_of(p, i), p->work.shards->row_dtype, rows));
        if (rows->split.n_chunks == 0) {
            continue;
        }
        SL_CHECK(sl_chunk_acquire(&p->work.run->failure, rows->chunk[0], STARPU_W));
        char *values = starpu_data_get_local_ptr(rows->chunk[0]);
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            memcpy(values + r * bytes, from + vertex_of(p, q, r) * bytes, bytes);
        }
        starpu_data_release(rows->chunk[0]);
    }
    return SL_OK;
}

static bool has_layer(const struct sl_pipe *p, uint32_t i)
{
    return i >= p->first_layer && i < p->end_layer;
}

/* Number of ranks that have a history of layer i. */
static enum sl_status count_history(struct sl_pipe *p, uint32_t i, double *n_out)
{
    *n_out = 0;
    if (has_layer(p, i)) {
        for (uint32_t q = p->plan.first_pe; q < p->plan.end_pe; q++) {
            if (history_of(p, i, q)->split.n_chunks > 0) {
                *n_out = 1;
            }
        }
    }
    SL_CHECK(sl_ranks_sum(1, n_out));
    return sl_ranks_broadcast(n_out, sizeof *n_out);
}

/* Gather layer i's history at rank 0. */
static enum sl_status gather_history(struct pipeline *l, uint32_t i)
{
    struct sl_pipe *p = &l->pipe;
    uint32_t n_own = p->work.shards->part[p->plan.end_pe - 1].end - first_own(p);
    size_t n = has_layer(p, i) ? n_own * row_bytes(p, i) : 0;
    size_t n_all = p->plan.rank == 0 ? p->work.shards->n_vertices * row_bytes(p, i) : 0;
    SL_FREED char *mine = NULL;
    if (n_all > 0) {
        SL_CHECK(sl_alloc_zero(n_all, 1, "history", &l->saved[i]));
    }
    if (p->whole->n_ranks == 1) {
        return copy_out(p, i, l->saved[i]);
    }
    SL_CHECK(sl_alloc_zero(n + 1, 1, "history", &mine));
    if (n > 0) {
        SL_CHECK(copy_out(p, i, mine));
    }
    return sl_ranks_gather(mine, n, l->saved[i]);
}

static void drop_saved(struct pipeline *l)
{
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        sl_free(l->saved[i]);
        l->saved[i] = NULL;
    }
}

static void save_watch(struct pipeline *l, struct sl_tensor *tensors, uint32_t *n)
{
    const struct watch *w = &l->watch;
    const double numbers[N_WATCHED] = {w->guard.least, w->best_exact, w->fired, (double)w->began};
    if (w->on) {
        memcpy(l->saved_watch, numbers, sizeof numbers);
        tensors[(*n)++] = sl_tensor_make("guard.numbers", SL_DTYPE_F64, N_WATCHED, 0, l->saved_watch);
        tensors[(*n)++] = sl_tensor_make("guard.best", SL_DTYPE_REAL, sl_model_entries(l->pipe.work.model), 0, w->best);
    }
}

static enum sl_status load_watch(struct pipeline *l, const struct sl_tensors *checkpoint)
{
    struct watch *w = &l->watch;
    double numbers[N_WATCHED];
    struct sl_tensor wanted = sl_tensor_make("guard.numbers", SL_DTYPE_F64, N_WATCHED, 0, NULL);
    struct sl_tensor best = sl_tensor_make("guard.best", SL_DTYPE_REAL, sl_model_entries(l->pipe.work.model), 0, NULL);
    if (!w->on) {
        return SL_OK;
    }
    SL_CHECK(sl_tensors_get(checkpoint, &wanted, numbers));
    SL_CHECK(sl_tensors_get(checkpoint, &best, w->best));
    w->guard.least = numbers[0];
    w->best_exact = numbers[1];
    w->fired = numbers[2] != 0;
    w->began = (uint64_t)numbers[3];
    if (w->fired) {
        make_exact(&l->pipe);
    }
    return SL_OK;
}

static enum sl_status share(void *own, bool checkpoint)
{
    struct pipeline *l = own;
    struct sl_pipe *p = &l->pipe;
    SL_CHECK(sl_pipe_stages_share(p, checkpoint));
    drop_saved(l);
    if (checkpoint) {
        for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
            double n;
            SL_CHECK(count_history(p, i, &n));
            if (n > 0) {
                SL_CHECK(gather_history(l, i));
            }
        }
    }
    return SL_OK;
}

static enum sl_status save(void *own, struct sl_tensor *tensors, uint32_t *n)
{
    struct pipeline *l = own;
    const struct sl_pipe *p = &l->pipe;
    save_watch(l, tensors, n);
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        if (l->saved[i] != NULL) {
            tensors[(*n)++] = history_tensor(p, i, l->saved[i]);
        }
    }
    return SL_OK;
}

static enum sl_status load(void *own, const struct sl_tensors *checkpoint)
{
    struct sl_pipe *p = &((struct pipeline *)own)->pipe;
    SL_FREED char *values = NULL;
    SL_CHECK(load_watch(own, checkpoint));
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        struct sl_tensor wanted = history_tensor(p, i, NULL);
        if (!has_layer(p, i) || sl_tensors_find(checkpoint, wanted.name) == NULL) {
            continue;
        }
        SL_CHECK(sl_alloc(p->work.shards->n_vertices, row_bytes(p, i), "history", &values));
        SL_CHECK(sl_tensors_get(checkpoint, &wanted, values));
        SL_CHECK(copy_in(p, i, values));
        sl_free(values);
        values = NULL;
    }
    return SL_OK;
}

/* ---- open, close ---- */

static enum sl_status open_watch(struct pipeline *l)
{
    const struct sl_work *work = &l->pipe.work;
    size_t n = sl_model_entries(work->model);
    struct watch *w = &l->watch;
    w->best_exact = w->exact = NAN;
    w->on = work->settings->guard == SL_GUARD_ON && l->pipe.order.n_slots > 1;
    if (!w->on) {
        return SL_OK;
    }
    l->pipe.watched = true;
    w->guard = sl_guard_of(sl_objective_of(work->shards)->guess);
    SL_CHECK(sl_alloc(n, sizeof *w->best, "the best weights", &w->best));
    SL_CHECK(sl_alloc(n, sizeof *w->now, "weights", &w->now));
    w->handle = sl_matrix_over(&w->exact, 1, 1, SL_DTYPE_F64);
    return read_weights(work->model, w->best);
}

static void close_watch(struct watch *w)
{
    sl_handle_close(w->handle);
    sl_free(w->best);
    sl_free(w->now);
}

static enum sl_status open_pipeline(const struct sl_work *work, uint64_t first_step, struct sl_schedule *out)
{
    struct pipeline *l;
    (void)first_step; /* history comes from the checkpoint */
    SL_CHECK(sl_alloc_zero(1, sizeof *l, "the pipeline", &l));
    *out = (struct sl_schedule){.kind = &sl_pipeline, .own = l};
    SL_CHECK(sl_pipe_open(work, &l->pipe));
    SL_CHECK(sl_pipe_deal_layers(&l->pipe));
    SL_CHECK(sl_pipe_count(&l->pipe, &l->traffic));
    return open_watch(l);
}

static void close_pipeline(void *own)
{
    struct pipeline *l = own;
    drop_saved(l);
    close_watch(&l->watch);
    sl_pipe_close(&l->pipe);
    sl_free(l);
}

/* Print the number of layers of each stage. */
static void describe_stages(const struct sl_pipe *p, FILE *stream)
{
    uint32_t n = 0;
    size_t used = 0;
    char text[12 * SL_MAX_LAYERS];
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        n++;
        if (i + 1 == p->work.model->n_layers || p->stage[i + 1] != p->stage[i]) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", used > 0 ? ", " : "", n);
            n = 0;
        }
    }
    sl_print_line(stream, "stages", "of %s layers", text);
}

static void describe(const void *own, FILE *stream)
{
    const struct sl_pipe *p = &((const struct pipeline *)own)->pipe;
    const struct sl_settings *s = p->work.settings;
    const struct sl_partition *partition = p->work.shards->partition;
    uint64_t n_edges = partition->graph.n_edges;
    sl_print_line(stream, "pipeline", "%u %s, %u %s, %u %s in %u %s, %s order, cross-edge ratio %.3f", s->stages,
                  sl_noun(s->stages, "stage", "stages"), s->ways, sl_noun(s->ways, "way", "ways"), p->order.n_chunks,
                  sl_noun(p->order.n_chunks, "chunk", "chunks"), p->order.n_slots,
                  sl_noun(p->order.n_slots, "slot", "slots"),
                  s->chunk_order == SL_CHUNK_ORDER_SHUFFLE ? "shuffled" : "fixed",
                  n_edges > 0 ? (double)partition->n_cut / (double)n_edges : 0);
    if (s->stages > 1) {
        describe_stages(p, stream);
    }
    if (p->order.n_slots == 1) {
        sl_print_line(stream, "exact", "one slot: all rows are of the epoch itself");
    }
}

/* One PE per graph chunk. The rows of a PE are one block. */
static enum sl_status decide(struct sl_settings *s, const struct sl_machine *machine)
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

/* Ranks of a common stage need at least one way each. */
static enum sl_status check_ranks(const struct sl_settings *s, uint32_t n)
{
    uint32_t most =
        s->stages > 0 ? sl_plan_largest_crew(n, s->stages) : 0; /* 0: not yet decided, and checked once it is */
    SL_FAIL_IF(s->ways < most, SL_EINVAL,
               "--ways: found %u, expected at least %u for %u processes of one run with --stages "
               "%u; each has a way of a stage",
               s->ways, most, n, s->stages);
    return SL_OK;
}

const struct sl_schedule_kind sl_pipeline = {.name = "pipeline",
                                             .whole_graph = true,
                                             .reads_factors = true,
                                             .agrees_late = true,
                                             .advice = "use a smaller --hidden, --recompute, or several processes",
                                             .decide = decide,
                                             .check_ranks = check_ranks,
                                             .open = open_pipeline,
                                             .close = close_pipeline,
                                             .advance = advance,
                                             .in_flight = in_flight,
                                             .tally = tally,
                                             .turn = turn,
                                             .share = share,
                                             .save = save,
                                             .load = load,
                                             .describe = describe};
