/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which rows of which chunk, and by what factor. A chunk's rows are one matrix; of another rank's it has those that are needed here, in the
 * place where the chunk's own would be. */
#include "runtime/pipe/source.h"

#include "codelets/pull.h"
#include "runtime/pipe/pipe.h"
#include "runtime/pipe/recompute.h"
#include "runtime/pipe/traffic.h"

static const struct sl_pipe *pipe_of(const struct sl_at *at)
{
    return at->pass->owner;
}

static struct sl_ids_of ids(const struct sl_pass *pass, uint32_t q)
{
    return (struct sl_ids_of){pass->shards->ids, pass->shards->part[q].first};
}

/* A layer's stage works for it, in the way of its chunk. */
static uint32_t worker(const struct sl_at *at, uint32_t q)
{
    const struct sl_pipe *pipe = pipe_of(at);
    return pipe->stage[at->i] * pipe->work.settings->ways + sl_pipe_way(pipe, q);
}

/* ---- between ranks ---- */

/* Rows of a role, of the chunks of the slot in hand: own ones to those who need them, the others' from them. */
static enum sl_status cross(const struct sl_at *at, const struct sl_pipe_side *side, enum sl_role role)
{
    const struct sl_pipe *pipe = pipe_of(at);
    const uint32_t *slot_of = pipe->order.slot_of;
    struct sl_halo_layer layer = {.number = at->i,
                                  .n_columns = at->layer->travels,
                                  .element = sizeof(sl_real),
                                  .back = side == &pipe->graph.out,
                                  .whole = true};
    uint32_t own = 0;
    enum sl_status st = SL_OK;
    sl_at_pe(at, 0, &own);
    for (uint32_t q = 0; side->halo != NULL && q < pipe->graph.n_chunks; q++) {
        struct sl_task_args head = sl_at_head(at, q);
        struct sl_rows *rows = sl_at_rows(at, q, role);
        if (slot_of[q] != slot_of[own]) {
            continue;
        }
        SL_TRY(st,
               sl_plan_here(at->pass->plan, q) ? sl_halo_send(side->halo, &head, &layer, q, rows)
                                               : sl_halo_receive(side->halo, &layer, q, rows),
               done);
    }
done:
    return st;
}

/* Rows of this rank are read where they are. */
static enum sl_status send(const struct sl_at *at)
{
    return cross(at, &pipe_of(at)->graph.in, sl_pipe_travelling(at));
}

static enum sl_status send_back(const struct sl_at *at)
{
    return cross(at, &pipe_of(at)->graph.out, sl_pipe_returning(at));
}

/* Own rows are given back by the epoch, which knows who reads them; those of other ranks are for this layer alone. */
static void arrived(const struct sl_at *at)
{
    for (uint32_t q = 0; q < at->pass->plan->n_pes; q++) {
        if (!sl_plan_here(at->pass->plan, q)) {
            sl_at_done(at, q, sl_pipe_travelling(at));
        }
    }
}

/* The same, but for those of other ranks, which the epoch gives back, too. */
static void returned(const struct sl_at *at)
{
    (void)at;
}

/* ---- sums ---- */

/* What a chunk's sums read of all chunks. */
struct operands {
    starpu_data_handle_t rows[SL_MAX_PES];
    double factor[SL_MAX_PES];
};

static void add_operand(const struct sl_rows *rows, double factor, uint32_t s, struct operands *out)
{
    if (rows->split.n_chunks > 0) { /* a chunk without vertices has no rows */
        out->rows[s] = rows->chunk[0];
        out->factor[s] = factor;
    }
}

/* Of the chunks that have in-neighbours of chunk q: fresh rows, or those of history. */
static void find_rows(const struct sl_at *at, uint32_t q, struct operands *out)
{
    const struct sl_pipe *pipe = pipe_of(at);
    uint32_t n = pipe->graph.n_chunks;
    *out = (struct operands){{NULL}, {0}};
    for (uint32_t s = 0; s < n; s++) {
        bool fresh = pipe->order.slot_of[s] <= pipe->order.slot_of[q];
        if (s == q || pipe->graph.meets[(size_t)q * n + s]) {
            add_operand(fresh ? sl_at_travels(at, s) : &pipe->history[(size_t)at->i * n + s], 1, s, out);
        }
    }
}

/* Of those that have out-neighbours of chunk q: gradients of this slot, and by the gradient factor of later ones. */
static void find_gradients(const struct sl_at *at, uint32_t q, struct operands *out)
{
    const struct sl_pipe *pipe = pipe_of(at);
    uint32_t n = pipe->graph.n_chunks;
    *out = (struct operands){{NULL}, {0}};
    for (uint32_t s = 0; s < n; s++) {
        uint32_t here = pipe->order.slot_of[q];
        uint32_t there = pipe->order.slot_of[s];
        if (there >= here && (s == q || pipe->graph.meets[(size_t)s * n + q])) {
            add_operand(sl_at_returns(at, s), there == here ? 1 : pipe->gradient_factor, s, out);
        }
    }
}

/* The sums of chunk q along its in-edges, or its out-edges. */
static enum sl_status pull(const struct sl_at *at, uint32_t q, bool back, const struct operands *of,
                           starpu_data_handle_t out, int beta)
{
    const struct sl_pipe *pipe = pipe_of(at);
    const struct sl_pipe_side *side = back ? &pipe->graph.out : &pipe->graph.in;
    const struct sl_pipe_lists *lists = back ? &pipe->graph.chunk[q].out : &pipe->graph.chunk[q].in;
    enum sl_pull_weights mean = back ? SL_PULL_MEAN_BACK : SL_PULL_MEAN;
    bool symmetric = at->layer->kind->weigh == SL_WEIGH_SYMMETRIC;
    struct sl_task_args head = sl_at_head(at, q);
    struct sl_pull what = {.offsets = lists->offsets,
                           .vertices = lists->vertices,
                           .part_of = side->parts,
                           .first = side->first,
                           .weights = symmetric ? SL_PULL_SYMMETRIC : mean,
                           .scale = at->layer->scale,
                           .first_id = side->first_of[q],
                           .n_edges = lists->n_edges,
                           .n_parts = pipe->graph.n_chunks,
                           .rows = of->rows,
                           .factor = of->factor};
    what.factors = what.weights == SL_PULL_MEAN ? NULL : side->factors;
    head.stage = back ? SL_STAGE_BACKWARD : head.stage;
    return sl_pull_submit(&head, &what, beta, out);
}

static enum sl_status sum(const struct sl_at *at, uint32_t q, uint32_t c, int beta, starpu_data_handle_t out)
{
    struct operands rows;
    (void)c;
    find_rows(at, q, &rows);
    return pull(at, q, false, &rows, out, beta);
}

static enum sl_status sum_back(const struct sl_at *at, uint32_t q, struct sl_rows *out)
{
    struct operands gradients;
    enum sl_status st = SL_OK;
    find_gradients(at, q, &gradients);
    SL_TRY(st, sl_rows_reshape(&at->pass->pe[q].split[at->from], sl_at_returns(at, q)->n_columns, sizeof(sl_real), out),
           done);
    if (out->split.n_chunks > 0) {
        st = pull(at, q, true, &gradients, out->chunk[0], 0);
    }
done:
    return st;
}

static struct sl_partials *lists(const struct sl_at *at, uint32_t replica, int parameter)
{
    (void)replica;
    return &pipe_of(at)->gradients[at->i * SL_N_PARAMETERS + (uint32_t)parameter];
}

static struct sl_partials *partials(const struct sl_at *at, uint32_t q, int parameter)
{
    (void)q;
    return lists(at, 0, parameter);
}

const struct sl_source sl_pipe_source = {.ids = ids,
                                         .worker = worker,
                                         .send = send,
                                         .arrived = arrived,
                                         .sum = sum,
                                         .send_back = send_back,
                                         .sum_back = sum_back,
                                         .returned = returned,
                                         .lists = lists,
                                         .partials = partials};
