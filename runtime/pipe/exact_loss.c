/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A forward pass by itself with all chunks in one slot. Rows are dropped as soon as the next layer has read them. */
#include "runtime/pipe/exact_loss.h"

#include <math.h>

#include "runtime/model/activation.h"
#include "runtime/objective/objective.h"
#include "runtime/pipe/stages.h"
#include "support/memory.h"
#include "support/minmax.h"

/* A view of the pipeline with rows, order and losses of its own. Graph, model and features are borrowed. */
static enum sl_status open_view(const struct sl_pipe *pipe, uint64_t epoch, double dropout, struct sl_pipe *out)
{
    uint32_t n = pipe->graph.n_chunks;
    struct sl_pass_pe *pes;
    *out = *pipe;
    out->pass.owner = out;
    out->pass.step = epoch;
    out->pass.dropout = dropout;
    out->pass.pe = NULL;
    out->losses = (struct sl_partials){0};
    out->aside = true;
    out->order = (struct sl_pipe_order){.n_chunks = n, .n_ways = n, .n_slots = 1};
    SL_CHECK(sl_alloc_zero(n, sizeof *out->order.slot_of, "slots", &out->order.slot_of));
    SL_CHECK(sl_partials_open(n, &out->losses));
    SL_CHECK(sl_alloc_zero(n, sizeof *pes, "rows of the chunks", &pes));
    out->pass.pe = pes;
    for (uint32_t q = 0; q < n; q++) {
        for (uint32_t level = 0; level <= SL_MAX_LAYERS; level++) {
            pes[q].split[level] = pipe->pass.pe[q].split[level];
        }
        pes[q].features = pipe->pass.pe[q].features; /* borrowed */
    }
    return SL_OK;
}

static void drop_layer(struct sl_pass_pe *pe, uint32_t i, bool output_too)
{
    for (int role = 0; role < SL_N_ROLES; role++) {
        if (output_too || (role != SL_ROWS_H && role != SL_ROWS_Z)) {
            sl_rows_drop(&pe->layer[i][role]);
        }
    }
}

static void close_view(struct sl_pipe *view)
{
    if (view->pass.pe != NULL) {
        for (uint32_t q = 0; q < view->graph.n_chunks; q++) {
            sl_pass_end_rows(&view->pass.pe[q], view->work.model->n_layers, sl_rows_drop);
        }
    }
    sl_partials_close(&view->losses);
    sl_free(view->pass.pe);
    sl_free(view->order.slot_of);
}

/* A layer's output is dropped once the next layer has run. The first layer's output stays if later layers read it
 * again. */
static enum sl_status forward(struct sl_pipe *view)
{
    for (uint32_t i = view->first_layer; i < view->end_layer; i++) {
        struct sl_layer_pass lp = sl_pass_layer(&view->pass, i);
        SL_CHECK(sl_pipe_stages_receive(&lp, false));
        SL_CHECK(sl_layer_run(&lp));
        SL_CHECK(sl_pipe_stages_send(&lp, false));
        for (uint32_t q = 0; q < view->graph.n_chunks; q++) {
            drop_layer(&view->pass.pe[q], i, false);
            if (i > 1 || (i == 1 && !lp.layer->kind->reads_first)) {
                drop_layer(&view->pass.pe[q], i - 1, true);
            }
        }
    }
    return SL_OK;
}

/* Submit the loss of one chunk's training vertices and the gradient of its logits. */
static enum sl_status submit_chunk_loss(struct sl_pipe *p, const struct sl_layer_pass *lp, uint32_t q)
{
    const struct sl_shards *shards = p->work.shards;
    const struct sl_objective *objective = sl_objective_of(shards);
    const struct sl_rows *z = sl_layer_pass_rows(lp, q, SL_ROWS_Z);
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    struct sl_objective_rows rows = {.frontier = shards->ids,
                                     .row0 = shards->part[q].first,
                                     .targets = p->graph.chunk[q].targets,
                                     .first = shards->part[q].first};
    starpu_data_handle_t share;
    SL_CHECK(sl_layer_pass_shape(lp, q, SL_ROWS_GZ));
    if (z->split.n_chunks > 0) {
        SL_CHECK(sl_partials_next(&p->losses, q * p->runs[q].n, p->runs[q].n, 1, SL_DTYPE_F64, &share));
        rows.z = z->chunk[0];
        return objective->kind->lose(objective, &head, &rows, sl_objective_scale_all(objective, shards),
                                     sl_layer_pass_rows(lp, q, SL_ROWS_GZ)->chunk[0], share);
    }
    return SL_OK;
}

enum sl_status sl_pipe_loss(struct sl_pipe *p, const struct sl_layer_pass *lp)
{
    for (uint32_t k = 0, q = 0; sl_layer_pass_pe(lp, k, &q); k++) {
        SL_CHECK(submit_chunk_loss(p, lp, q));
    }
    return SL_OK;
}

static enum sl_status submit_loss(struct sl_pipe *view, starpu_data_handle_t loss)
{
    struct sl_layer_pass lp = sl_pass_layer(&view->pass, view->work.model->n_layers - 1);
    struct sl_task_args head = sl_layer_pass_head(&lp, 0);
    const struct sl_transport_losses losses = {.number = 1,
                                               .ranks = sl_pipe_loss_ranks(view),
                                               .partials = &view->losses,
                                               .watched = view->watched,
                                               .total = loss};
    if (sl_pipe_has_last(view)) {
        SL_CHECK(sl_pipe_loss(view, &lp));
    }
    return sl_transport_loss(view->work.transport, &head, &losses);
}

enum sl_status sl_pipe_exact_loss(const struct sl_pipe *pipe, uint64_t epoch, double dropout, starpu_data_handle_t loss)
{
    SL_OWNED(close_view) struct sl_pipe view;
    SL_CHECK(open_view(pipe, epoch, dropout, &view));
    SL_CHECK(forward(&view));
    return submit_loss(&view, loss);
}

/* ---- the guard ---- */

#define LAG 0.2        /* fraction of H by which the exact loss may exceed the stale loss */
#define PROGRESS 0.9   /* fraction of B below which an exact loss is good in any case */
#define GUESSING 0.95  /* fraction of H above which answers are as good as a constant */
#define LEAST_EVERY 10 /* epochs between checks, at least */
#define LATE 50        /* first epoch in which guessing counts, at least */

struct sl_guard sl_guard_of(double guess)
{
    return (struct sl_guard){guess, guess};
}

bool sl_guard_due(uint64_t epoch, uint32_t history_every)
{
    return (epoch + 1) % sl_max_u32(history_every, LEAST_EVERY) == 0;
}

bool sl_guard_good(const struct sl_guard *g, double exact)
{
    return exact < PROGRESS * g->guess;
}

bool sl_guard_check(struct sl_guard *g, uint64_t epoch, uint32_t history_every, double stale, double exact)
{
    uint64_t late = sl_max_u64(3 * (uint64_t)history_every, LATE);
    bool behind = exact - stale > LAG * g->guess && exact > PROGRESS * g->least;
    bool guessing = epoch >= late && exact > GUESSING * g->guess;
    bool fires = !isfinite(stale) || !isfinite(exact) || (g->guess > 0 && (behind || guessing));
    g->least = fmin(exact, g->least);
    return fires;
}
