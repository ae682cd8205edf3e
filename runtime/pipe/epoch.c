/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A whole epoch as task submissions. Read sl_pipe_epoch first. */
#include "runtime/pipe/epoch.h"

#include "runtime/machine/pool.h"
#include "runtime/model/activation.h"
#include "runtime/pipe/exact_loss.h"
#include "runtime/pipe/pipe.h"
#include "runtime/pipe/recompute.h"
#include "runtime/pipe/stages.h"
#include "runtime/sync/replicas.h"
#include "support/clock.h"
#include "support/memory.h"

/* ---- forward ---- */

static enum sl_status submit_loss(struct sl_pipe *p, uint32_t slot)
{
    struct sl_layer_pass lp = sl_pipe_layer(p, p->work.model->n_layers - 1, slot);
    return sl_pipe_loss(p, &lp);
}

static void drop_layer_rows(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_layer_pass lp = sl_pipe_layer(p, i, slot);
    sl_pipe_drop_layer(p, &lp);
}

static enum sl_status forward(struct sl_pipe *p, uint32_t slot)
{
    for (uint32_t i = p->first_layer; i < p->end_layer; i++) {
        struct sl_layer_pass lp = sl_pipe_layer(p, i, slot);
        SL_CHECK(sl_pipe_stages_receive(&lp, false));
        SL_CHECK(sl_layer_run(&lp));
        SL_CHECK(sl_pipe_stages_send(&lp, false));
        if (i > 0) {
            drop_layer_rows(p, i - 1, slot);
        }
    }
    if (sl_pipe_has_last(p)) {
        SL_CHECK(submit_loss(p, slot));
    }
    drop_layer_rows(p, p->end_layer - 1, slot);
    return SL_OK;
}

static enum sl_status add_losses(struct sl_pipe *p, const struct sl_task_args *head, starpu_data_handle_t loss)
{
    const struct sl_transport_losses losses = {
        .ranks = sl_pipe_loss_ranks(p), .partials = &p->losses, .watched = p->watched, .total = loss};
    return sl_transport_loss(p->work.transport, head, &losses);
}

/* ---- releasing rows ---- */

/* After a layer's backward pass, release its rows of one chunk. Kept are: the gradient of its input, returning
 * gradients that earlier slots read, and travelling rows that become history. */
static void release(const struct sl_layer_pass *lp, uint32_t q, bool snapshot)
{
    for (int role = 0; role < SL_N_ROLES; role++) {
        enum sl_role which =
            role == SL_ROWS_H ? SL_ROWS_INPUT : (enum sl_role)role; /* H was released as the input of the layer above */
        const struct sl_rows *rows = sl_layer_pass_rows(lp, q, which);
        bool features = which == SL_ROWS_INPUT && lp->i == 0;
        bool awaited = sl_pipe_aggregates(lp) && rows == sl_pipe_returned(lp, q);
        bool kept = sl_pipe_aggregates(lp) && snapshot && rows == sl_pipe_sent(lp, q);
        if (!features && !awaited && !kept) {
            sl_layer_pass_done(lp, q, which);
        }
    }
    if (sl_pipe_aggregates(lp) && sl_pipe_packs(lp->pass->owner) && !snapshot) {
        sl_rows_drop(sl_pipe_sent(lp, q));
    }
}

/* Release the rows of a slot's remote chunks. No earlier slot reads them. */
static void release_received(const struct sl_layer_pass *lp, uint32_t slot, bool snapshot)
{
    const struct sl_pipe *p = lp->pass->owner;
    if (sl_pipe_aggregates(lp) && !snapshot) {
        for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
            if (p->order.slot_of[q] == slot && !sl_plan_here(&p->plan, q)) {
                sl_layer_pass_done(lp, q, sl_pipe_travelling(lp));
            }
        }
    }
}

/* The first slot, the last to run backward, has read the returning gradients. */
static void release_returned(const struct sl_layer_pass *lp)
{
    if (sl_pipe_aggregates(lp)) {
        for (uint32_t q = 0; q < lp->pass->plan->n_pes; q++) {
            if (lp->pass->keeps) {
                sl_rows_keep(sl_pipe_returned(lp, q));
            } else {
                sl_rows_drop(sl_pipe_returned(lp, q));
            }
        }
    }
}

/* The travelling rows of this epoch become the history of later epochs. */
static void take_snapshot(struct sl_pipe *p)
{
    uint32_t n = p->graph.n_chunks;
    for (uint32_t i = p->first_layer; i < p->end_layer; i++) {
        struct sl_layer_pass lp = sl_pass_layer(&p->pass, i);
        if (sl_pipe_aggregates(&lp)) {
            for (uint32_t q = 0; q < n; q++) {
                struct sl_rows *history = &p->history[(size_t)i * n + q];
                struct sl_rows *now = sl_pipe_sent(&lp, q);
                struct sl_rows old = *history;
                *history = *now;
                *now = (struct sl_rows){0};
                sl_rows_drop(&old);
            }
        }
    }
}

/* ---- backward ---- */

static enum sl_status backward(struct sl_pipe *p, uint32_t slot, const struct sl_adam *adam)
{
    const struct sl_update update = {p->work.transport, &p->replicas};
    bool snapshot = sl_pipe_is_snapshot(p);
    for (uint32_t i = p->end_layer; i-- > p->first_layer;) {
        struct sl_layer_pass lp = sl_pipe_layer(p, i, slot);
        SL_CHECK(sl_pipe_stages_receive(&lp, true));
        SL_CHECK(sl_pipe_recompute(p, i, slot));
        SL_CHECK(sl_layer_run_back(&lp));
        SL_CHECK(sl_pipe_stages_send(&lp, true));
        SL_CHECK(sl_pipe_recomputed(p, i, slot));
        for (uint32_t way = 0; way < lp.n_pes; way++) {
            release(&lp, lp.pes[way], snapshot);
        }
        release_received(&lp, slot, snapshot);
        if (i == p->first_layer) {
            sl_pipe_stages_done(&lp);
        }
        if (slot == 0) {
            release_returned(&lp);
            SL_CHECK(sl_update_layer(&update, &lp, adam));
        }
    }
    return SL_OK;
}

static enum sl_status derive(struct sl_pipe *p)
{
    for (uint32_t i = p->first_layer; i < p->end_layer; i++) {
        struct sl_layer_pass lp = sl_pass_layer(&p->pass, i);
        SL_CHECK(sl_layer_derive(&lp));
    }
    return SL_OK;
}

static void begin(struct sl_pipe *p, uint64_t epoch)
{
    p->pass.step = epoch;
    p->losses.n = 0;
    for (uint32_t k = 0; k < p->work.model->n_layers * SL_MAX_PARAMETERS; k++) {
        p->gradients[k].n = 0;
    }
}

#define LAYER_TASKS 16 /* tasks per layer and chunk, roughly, in one direction */

/* Wait until few tasks are left: those of two slots, and of one chunk per worker. The records of a whole epoch's tasks
 * and handles would take as much memory as some rows do. Not with several ranks, where a rank's tasks may wait for
 * tasks of another rank. */
static enum sl_status wait_for_slots(const struct sl_pipe *p)
{
    uint32_t n = LAYER_TASKS * p->work.model->n_layers * (2 * p->order.n_ways + p->work.run->n_workers);
    if (p->work.plan->n_ranks > 1 || starpu_task_wait_for_n_submitted(n) == 0) {
        return SL_OK;
    }
    return sl_fail(SL_ESTARPU, "StarPU refused to wait for tasks");
}

enum sl_status sl_pipe_epoch(struct sl_pipe *p, uint64_t epoch, const struct sl_adam *adam, starpu_data_handle_t loss,
                             starpu_data_handle_t exact)
{
    struct sl_task_args head = {.run = p->work.run, .step = epoch};
    begin(p, epoch);
    SL_CHECK(derive(p));
    if (exact != NULL) {
        SL_CHECK(sl_pipe_exact_loss(p, epoch, p->pass.dropout, exact));
    }
    for (uint32_t slot = 0; slot < p->order.n_slots; slot++) {
        SL_CHECK(forward(p, slot));
        SL_CHECK(wait_for_slots(p));
    }
    SL_CHECK(add_losses(p, &head, loss));
    for (uint32_t slot = p->order.n_slots; slot-- > 0;) {
        SL_CHECK(backward(p, slot, adam));
        SL_CHECK(wait_for_slots(p));
    }
    if (sl_pipe_is_snapshot(p)) {
        take_snapshot(p);
    }
    return SL_OK;
}

/* ---- measuring layers ---- */

/* Wait for all tasks. Returns the seconds since *start, and sets *start to now. */
static double wait(double *start)
{
    starpu_task_wait_for_all();
    double begin = *start;
    *start = sl_clock_s();
    return *start - begin;
}

static void drop_rows(struct sl_pipe *p)
{
    for (size_t k = 0; k < 3 * (size_t)p->work.model->n_layers * p->graph.n_chunks; k++) {
        sl_rows_drop(&p->sent[k]); /* also returned, summed */
    }
    for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
        sl_pass_end_rows(&p->pass.pe[q], p->work.model->n_layers, sl_rows_drop);
    }
}

/* An order with this rank's largest chunk first, alone in its slot. */
static void order_one(struct sl_pipe *p)
{
    const struct sl_shard *part = p->work.shards->part;
    struct sl_pipe_order *o = &p->order;
    uint32_t largest = p->plan.first_pe;
    o->n_ways = 1;
    o->n_slots = o->n_chunks;
    for (uint32_t q = largest + 1; q < p->plan.end_pe; q++) {
        if (part[q].end - part[q].first > part[largest].end - part[largest].first) {
            largest = q;
        }
    }
    for (uint32_t t = 0; t < o->n_chunks; t++) {
        o->chunk[t] = (largest + t) % o->n_chunks;
    }
    sl_pipe_order_invert(o);
}

enum sl_status sl_pipe_time(struct sl_pipe *p, double *seconds_out)
{
    const struct sl_pipe_order kept = p->order;
    uint32_t n = p->work.model->n_layers;
    double clock = sl_clock_s();
    enum sl_status st;
    p->alone = true;
    order_one(p);
    begin(p, 0);
    SL_TRY(st, derive(p), done);
    wait(&clock);
    for (uint32_t i = 0; i < n; i++) {
        struct sl_layer_pass lp = sl_pipe_layer(p, i, 0);
        SL_TRY(st, sl_layer_run(&lp), done);
        seconds_out[i] = wait(&clock);
    }
    SL_TRY(st, submit_loss(p, 0), done);
    wait(&clock);
    for (uint32_t i = n; i-- > 0;) {
        struct sl_layer_pass lp = sl_pipe_layer(p, i, 0);
        SL_TRY(st, sl_layer_run_back(&lp), done);
        seconds_out[i] += wait(&clock);
    }
    st = sl_failure_status(&p->work.run->failure);
done:
    starpu_task_wait_for_all();
    drop_rows(p);
    p->order = kept;
    p->alone = false;
    return st;
}

/* ---- open, close ---- */

/* A chunk's rows are one matrix at every level. The features are read in place. */
static enum sl_status open_chunk(struct sl_pipe *p, uint32_t q)
{
    const struct sl_shards *shards = p->work.shards;
    const struct sl_shard *part = &shards->part[q];
    struct sl_pass_pe *pe = &p->pass.pe[q];
    for (uint32_t level = 0; level <= p->work.model->layer[0].from; level++) {
        pe->split[level] = sl_split_rows(part->end - part->first, 1, 0);
    }
    if (shards->is_sparse) {
        return SL_OK;
    }
    return sl_feature_rows_register(&shards->features, q, &pe->split[0], &pe->features);
}

static enum sl_status open_partials(struct sl_pipe *p)
{
    uint32_t n = p->work.model->n_layers * SL_MAX_PARAMETERS;
    SL_CHECK(sl_alloc_zero(n, sizeof *p->gradients, "partial gradients", &p->gradients));
    for (uint32_t k = 0; k < n; k++) {
        SL_CHECK(sl_partials_open(p->graph.n_chunks, &p->gradients[k]));
    }
    return sl_partials_open(p->graph.n_chunks, &p->losses);
}

/* A chunk's pieces: sums over a chunk's rows are taken piece by piece. */
static enum sl_status open_runs(struct sl_pipe *p)
{
    const struct sl_partition *partition = p->work.shards->partition;
    uint32_t each = partition->n_pieces / partition->n_parts;
    SL_CHECK(sl_alloc(partition->n_parts, sizeof *p->runs, "pieces of the chunks", &p->runs));
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        p->runs[q] = (struct sl_runs){each, partition->piece + (size_t)q * each};
    }
    p->pass.runs = p->runs;
    p->work.transport->first_pe = sl_plan_crew(p->whole) * partition->n_parts;
    p->work.transport->n_leaves = each;
    return SL_OK;
}

static enum sl_status open_order(struct sl_pipe *p)
{
    const struct sl_settings *s = p->work.settings;
    struct sl_pipe_order *o = &p->order;
    *o = (struct sl_pipe_order){
        .n_chunks = p->graph.n_chunks, .n_ways = s->ways, .n_slots = p->graph.n_chunks / s->ways};
    SL_CHECK(sl_alloc(o->n_chunks, sizeof *o->chunk, "the order of chunks", &o->chunk));
    return sl_alloc(o->n_chunks, sizeof *o->slot_of, "the order of chunks", &o->slot_of);
}

/* With --recompute, packed copies of the boundary rows are kept for other chunks. Not with rows from other ranks,
 * which are never packed. */
static enum sl_status open_boundary(struct sl_pipe *p)
{
    bool packs = p->work.settings->recompute && p->order.n_slots > 1 && p->graph.in.halo == NULL;
    bool rounds = p->work.shards->row_dtype != SL_DTYPE_REAL;
    /* Otherwise small matrices (packed rows, or bf16 rows) would be put into freed blocks of large ones (whole
     * chunks, or float). */
    sl_pool_borrow_near_only(packs || rounds);
    if (packs) {
        return sl_pipe_boundary_open(p->work.shards, &p->graph, &p->boundary);
    }
    return SL_OK;
}

#define KEPT_BYTES ((uint64_t)64 << 20)

/* Whether rows keep their handles from epoch to epoch. This pays only on small graphs: it saves a sixth of the time
 * on Cora, but would take twice the memory on a graph ten times as large. */
static bool keeps_handles(const struct sl_settings *settings, uint32_t n_layers, double n_vertices)
{
    double columns = (double)n_layers * settings->hidden;
    return !settings->recompute && n_vertices * columns * sizeof(sl_real) < KEPT_BYTES;
}

static void open_pass(struct sl_pipe *p)
{
    const struct sl_work *w = &p->work;
    p->pass = (struct sl_pass){.plan = w->plan,
                               .run = w->run,
                               .shards = w->shards,
                               .model = w->model,
                               .training = true,
                               .keeps = keeps_handles(w->settings, w->model->n_layers, w->shards->n_vertices),
                               .dropout = w->settings->dropout,
                               .seed = w->settings->seed,
                               .source = &sl_pipe_source,
                               .owner = p};
    p->replicas = (struct sl_replicas){.settings = w->settings, .plan = w->plan, .run = w->run, .replica = w->model};
}

enum sl_status sl_pipe_open(const struct sl_work *work, struct sl_pipe *out)
{
    size_t n_layers = work->model->n_layers;
    size_t n_rows;
    enum sl_status st;
    *out = (struct sl_pipe){
        .work = *work, .plan = sl_plan_of_crew(work->plan), .whole = work->plan, .end_layer = work->model->n_layers};
    out->work.plan = &out->plan;
    out->history_every = work->settings->history_every;
    out->gradient_factor = work->settings->gradient_factor;
    SL_TRY(st, sl_pipe_graph_open(&out->plan, work->shards, &out->graph), undo);
    open_pass(out);
    SL_TRY(st, open_runs(out), undo);
    SL_TRY(st, open_order(out), undo);
    SL_TRY(st, open_partials(out), undo);
    sl_pipe_recompute_open(out);
    SL_TRY(st, open_boundary(out), undo);
    n_rows = n_layers * out->graph.n_chunks;
    SL_TRY(st, sl_alloc_zero(4 * n_rows, sizeof *out->sent, "rows of the chunks", &out->sent), undo);
    out->returned = out->sent + n_rows;
    out->summed = out->returned + n_rows;
    out->history = out->summed + n_rows;
    SL_TRY(st, sl_alloc_zero(out->graph.n_chunks, sizeof *out->pass.pe, "rows of the chunks", &out->pass.pe), undo);
    for (uint32_t q = out->plan.first_pe; q < out->plan.end_pe; q++) {
        SL_TRY(st, open_chunk(out, q), undo);
    }
    return SL_OK;
undo:
    sl_pipe_close(out);
    return st;
}

static void close_rows(struct sl_pipe *p)
{
    const uint32_t n = p->graph.n_chunks;
    if (p->pass.pe == NULL) {
        return; /* the rows come before */
    }
    for (uint32_t q = 0; q < n; q++) {
        sl_rows_drop(&p->pass.pe[q].features);
    }
    drop_rows(p);
    for (size_t k = 0; k < (size_t)p->work.model->n_layers * n; k++) {
        sl_rows_drop(&p->history[k]);
    }
}

void sl_pipe_close(struct sl_pipe *p)
{
    close_rows(p);
    sl_pool_borrow_near_only(false);
    if (p->gradients != NULL) {
        for (uint32_t k = 0; k < p->work.model->n_layers * SL_MAX_PARAMETERS; k++) {
            sl_partials_close(&p->gradients[k]);
        }
    }
    sl_partials_close(&p->losses);
    sl_pipe_recompute_close(p);
    sl_pipe_boundary_close(&p->boundary);
    sl_pipe_graph_close(&p->graph);
    sl_free(p->runs);
    sl_free(p->gradients);
    sl_free(p->sent);
    sl_free(p->order.chunk);
    sl_free(p->order.slot_of);
    sl_free(p->pass.pe);
    *p = (struct sl_pipe){0};
}
