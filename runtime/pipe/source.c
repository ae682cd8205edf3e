/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Finds the rows that a chunk's sums read in each chunk, and their factors. A chunk's rows are one matrix. For a
 * remote chunk this matrix has only the rows that this rank needs. */

#include "codelets/rows/blend.h"
#include "codelets/sampling/exchange.h"
#include "runtime/model/sums.h"
#include "runtime/pipe/pipe.h"
#include "runtime/pipe/recompute.h"
#include "runtime/pipe/stages.h"

static const struct sl_pipe *pipe_of(const struct sl_layer_pass *lp)
{
    return lp->pass->owner;
}

static struct sl_ids_of ids(const struct sl_pass *pass, uint32_t q)
{
    return (struct sl_ids_of){pass->shards->ids, pass->shards->part[q].first};
}

/* Tasks run at the PE of the layer's stage and the chunk's way. */
static uint32_t worker(const struct sl_layer_pass *lp, uint32_t q)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    return pipe->stage[lp->i] * pipe->work.settings->ways + sl_pipe_way(pipe, q);
}

/* ---- rows that chunks read of each other ---- */

static size_t place_of(const struct sl_layer_pass *lp, uint32_t q)
{
    return (size_t)lp->i * pipe_of(lp)->graph.n_chunks + q;
}

struct sl_rows *sl_pipe_sent(const struct sl_layer_pass *lp, uint32_t q)
{
    if (sl_pipe_packs(pipe_of(lp))) {
        return &pipe_of(lp)->sent[place_of(lp, q)];
    }
    return sl_layer_pass_rows(lp, q, sl_pipe_travelling(lp));
}

struct sl_rows *sl_pipe_returned(const struct sl_layer_pass *lp, uint32_t q)
{
    if (sl_pipe_packs(pipe_of(lp))) {
        return &pipe_of(lp)->returned[place_of(lp, q)];
    }
    return sl_layer_pass_rows(lp, q, sl_pipe_returning(lp));
}

/* Pack the boundary rows of chunk q. If the layer runs again, they have been packed before. */
static enum sl_status pack(const struct sl_layer_pass *lp, uint32_t q, const struct sl_rows *rows, struct sl_rows *out)
{
    const struct sl_pipe_boundary *boundary = &pipe_of(lp)->boundary;
    uint32_t n = sl_pipe_boundary_rows(boundary, q);
    struct sl_split split = sl_split_rows(n, 1, 0);
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    const uint32_t requester = 0;
    if (out->split.n_chunks > 0 || n == 0) {
        return SL_OK;
    }
    SL_CHECK(sl_rows_register(&split, rows->n_columns, sl_handle_dtype(rows->chunk[0]), out));
    struct sl_slice packed = {out->chunk[0], 0, n};
    return sl_pack_submit(&head, rows, 1, boundary->chunk[q].rows, 1, &requester, &packed);
}

static enum sl_status pack_all(const struct sl_layer_pass *lp, bool back)
{
    for (uint32_t k = 0, q = 0; sl_layer_pass_pe(lp, k, &q); k++) {
        if (back) {
            SL_CHECK(pack(lp, q, sl_layer_pass_rows(lp, q, sl_pipe_returning(lp)), sl_pipe_returned(lp, q)));
        } else {
            SL_CHECK(pack(lp, q, sl_layer_pass_travels(lp, q), sl_pipe_sent(lp, q)));
        }
    }
    return SL_OK;
}

/* ---- between ranks ---- */

/* Exchange rows of a role between ranks, for all chunks of the slot in hand: send own rows, receive rows of remote
 * chunks. Received rows also serve later slots and epochs. */
static enum sl_status cross(const struct sl_layer_pass *lp, const struct sl_pipe_side *side, enum sl_role role)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    const uint32_t *slot_of = pipe->order.slot_of;
    struct sl_halo_layer layer = {.number = lp->i,
                                  .width = sl_layer_pass_order(lp)->travels,
                                  .n_slices = 1,
                                  .dtype = lp->pass->shards->row_dtype,
                                  .back = side == &pipe->graph.out,
                                  .aside = pipe->aside,
                                  .whole = true};
    uint32_t own = 0;
    sl_layer_pass_pe(lp, 0, &own);
    if (side->halo != NULL && !pipe->alone) {
        for (uint32_t q = 0; q < pipe->graph.n_chunks; q++) {
            struct sl_task_args head = sl_layer_pass_head(lp, q);
            struct sl_rows *rows = sl_layer_pass_rows(lp, q, role);
            if (slot_of[q] != slot_of[own]) {
                continue;
            }
            if (sl_plan_here(lp->pass->plan, q)) {
                SL_CHECK(sl_halo_send(side->halo, &head, &layer, q, rows));
            } else {
                SL_CHECK(sl_halo_receive(side->halo, &layer, q, 0, rows));
            }
        }
    }
    return SL_OK;
}

/* Chunks of this rank read rows in place, or packed if only packed rows are kept. */
static enum sl_status send(const struct sl_layer_pass *lp)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    if (sl_pipe_packs(pipe)) {
        return pack_all(lp, false);
    }
    if (pipe->recomputing && pipe->order.n_slots > 1) {
        return SL_OK; /* the rows were exchanged the first time, and kept for later slots */
    }
    return cross(lp, &pipe->graph.in, sl_pipe_travelling(lp));
}

/* Round the returning gradients. Gradients within a chunk are rounded too, so that the number of chunks changes no
 * bit. */
static enum sl_status round_back(const struct sl_layer_pass *lp, uint32_t q)
{
    const struct sl_rows *gradient = sl_layer_pass_returns(lp, q);
    const struct sl_rows *rounded = sl_layer_pass_rows(lp, q, SL_ROWS_GBACK);
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    SL_CHECK(sl_layer_pass_shape(lp, q, SL_ROWS_GBACK));
    if (gradient->split.n_chunks > 0) {
        return sl_blend_submit(&head, SL_STAGE_BACKWARD, gradient->split.n_rows, 1,
                               (struct sl_blend_rows){gradient->chunk[0], 0}, 0,
                               (struct sl_blend_rows){rounded->chunk[0], 0});
    }
    return SL_OK;
}

static enum sl_status send_back(const struct sl_layer_pass *lp)
{
    if (sl_pipe_rounds(lp)) {
        for (uint32_t k = 0, q = 0; sl_layer_pass_pe(lp, k, &q); k++) {
            SL_CHECK(round_back(lp, q));
        }
    }
    if (sl_pipe_packs(pipe_of(lp))) {
        return pack_all(lp, true);
    }
    return cross(lp, &pipe_of(lp)->graph.out, sl_pipe_returning(lp));
}

/* The epoch releases rows, since it knows their readers. Exception: with one slot, only this layer reads remote
 * rows. */
static void arrived(const struct sl_layer_pass *lp)
{
    if (pipe_of(lp)->order.n_slots == 1) {
        for (uint32_t q = 0; q < lp->pass->plan->n_pes; q++) {
            if (!sl_plan_here(lp->pass->plan, q)) {
                sl_layer_pass_done(lp, q, sl_pipe_travelling(lp));
            }
        }
    }
}

/* The epoch releases all returning gradients. */
static void returned(const struct sl_layer_pass *lp)
{
    (void)lp;
}

/* ---- sums ---- */

/* By chunk: the rows that a chunk's sums read, and their factor. */
struct operands {
    starpu_data_handle_t rows[SL_MAX_PARTS];
    double factor[SL_MAX_PARTS];
};

static void add_operand(const struct sl_rows *rows, double factor, uint32_t s, struct operands *out)
{
    if (rows->split.n_chunks > 0) { /* a chunk without vertices has no rows */
        out->rows[s] = rows->chunk[0];
        out->factor[s] = factor;
    }
}

/* The rows of the chunks with in-neighbours of chunk q: fresh or historical. */
static void find_rows(const struct sl_layer_pass *lp, uint32_t q, struct operands *out)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    uint32_t n = pipe->graph.n_chunks;
    *out = (struct operands){{NULL}, {0}};
    for (uint32_t s = 0; s < n; s++) {
        bool fresh = pipe->order.slot_of[s] <= pipe->order.slot_of[q];
        if (s == q || pipe->graph.meets[(size_t)q * n + s]) {
            const struct sl_rows *rows = fresh ? sl_pipe_sent(lp, s) : &pipe->history[place_of(lp, s)];
            add_operand(s == q ? sl_layer_pass_travels(lp, q) : rows, 1, s, out);
        }
    }
}

/* The gradients of the chunks with out-neighbours of chunk q: of this slot, and of later slots by the gradient
 * factor. */
static void find_gradients(const struct sl_layer_pass *lp, uint32_t q, struct operands *out)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    uint32_t n = pipe->graph.n_chunks;
    *out = (struct operands){{NULL}, {0}};
    for (uint32_t s = 0; s < n; s++) {
        uint32_t here = pipe->order.slot_of[q];
        uint32_t there = pipe->order.slot_of[s];
        if (there >= here && (s == q || pipe->graph.meets[(size_t)s * n + q])) {
            add_operand(s == q ? sl_layer_pass_rows(lp, q, sl_pipe_returning(lp)) : sl_pipe_returned(lp, s),
                        there == here ? 1 : pipe->gradient_factor, s, out);
        }
    }
}

/* A chunk's in-neighbours or out-neighbours, by the numbers of their side, or of boundary.h if rows are packed. */
struct neighbours {
    const struct sl_pipe_lists *lists;
    starpu_data_handle_t parts, first, factors;
    uint32_t first_id; /* first number of the chunk itself */
    bool back;         /* out-neighbours */
};

static struct neighbours neighbours_of(const struct sl_layer_pass *lp, uint32_t q, bool back)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    const struct sl_pipe_side *side = back ? &pipe->graph.out : &pipe->graph.in;
    const struct sl_pipe_chunk *chunk = &pipe->graph.chunk[q];
    if (sl_pipe_packs(pipe)) {
        const struct sl_pipe_boundary *b = &pipe->boundary;
        return (struct neighbours){back ? &b->chunk[q].out : &b->chunk[q].in, b->parts, b->chunk[q].first, b->factors,
                                   lp->pass->shards->part[q].first,           back};
    }
    return (struct neighbours){
        back ? &chunk->out : &chunk->in, side->parts, side->first, side->factors, side->first_of[q], back};
}

/* Submit the sums of chunk q along its in-edges or out-edges. */
static enum sl_status pull(const struct sl_layer_pass *lp, uint32_t q, const struct neighbours *from,
                           const struct operands *operands, starpu_data_handle_t out, int beta)
{
    const struct sl_pipe *pipe = pipe_of(lp);
    const struct sl_sum_kind *kind = lp->layer->kind->sum;
    struct sl_pull args = {.head = sl_layer_pass_head(lp, q),
                           .offsets = sl_matrix_of(from->lists->offsets),
                           .vertices = sl_matrix_of(from->lists->vertices),
                           .part_of = sl_matrix_of(from->parts),
                           .first = sl_matrix_of(from->first),
                           .edge_weights = sl_matrix_of(from->lists->weights),
                           .weights = from->back ? kind->pull_back : kind->pull,
                           .scale = (sl_real)lp->layer->scale,
                           .first_id = from->first_id,
                           .n_parts = pipe->graph.n_chunks};
    if (args.weights != SL_PULL_MEAN) {
        args.factors = sl_matrix_of(from->factors);
    }
    if (from->back) {
        args.head.stage = SL_STAGE_BACKWARD;
    }
    return sl_pull_submit(&args, from->lists->n_edges, operands->rows, operands->factor, beta, out);
}

/* Sum for all vertices of the chunk. Keep the sums of boundary vertices for the backward pass if sl_pipe_keeps_sums. */
static enum sl_status sum_all(const struct sl_layer_pass *lp, uint32_t q, int beta, starpu_data_handle_t out)
{
    const struct neighbours from = neighbours_of(lp, q, false);
    const struct sl_rows sums = {lp->pass->pe[q].split[lp->level], sl_handle_columns(out), 1, &out};
    struct operands rows;
    find_rows(lp, q, &rows);
    SL_CHECK(pull(lp, q, &from, &rows, out, beta));
    if (sl_pipe_keeps_sums(pipe_of(lp))) {
        return pack(lp, q, &sums, &pipe_of(lp)->summed[place_of(lp, q)]);
    }
    return SL_OK;
}

/* The layer runs again: sum for the inner vertices, and unpack the kept sums of the boundary vertices. */
static enum sl_status sum_inner(const struct sl_layer_pass *lp, uint32_t q, int beta, starpu_data_handle_t out)
{
    const struct sl_pipe_boundary *b = &pipe_of(lp)->boundary;
    struct sl_rows *there = &pipe_of(lp)->summed[place_of(lp, q)];
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    struct neighbours from = neighbours_of(lp, q, false);
    struct operands rows = {{NULL}, {0}};
    from.lists = &b->chunk[q].inner;
    add_operand(sl_layer_pass_travels(lp, q), 1, q, &rows);
    SL_CHECK(pull(lp, q, &from, &rows, out, beta));
    SL_CHECK(sl_unpack_submit(&head, there->chunk[0], b->chunk[q].rows, out));
    sl_rows_drop(there);
    return SL_OK;
}

static enum sl_status sum(const struct sl_layer_pass *lp, uint32_t q, uint32_t c, int beta, starpu_data_handle_t out)
{
    bool there = sl_pipe_keeps_sums(pipe_of(lp)) && pipe_of(lp)->summed[place_of(lp, q)].split.n_chunks > 0;
    (void)c;
    if (there) {
        return sum_inner(lp, q, beta, out);
    }
    return sum_all(lp, q, beta, out);
}

static enum sl_status sum_back(const struct sl_layer_pass *lp, uint32_t q, struct sl_rows *out)
{
    const struct neighbours to = neighbours_of(lp, q, true);
    struct operands gradients;
    find_gradients(lp, q, &gradients);
    SL_CHECK(
        sl_rows_reshape(&lp->pass->pe[q].split[lp->from], sl_layer_pass_returns(lp, q)->n_columns, SL_DTYPE_REAL, out));
    if (out->split.n_chunks > 0) {
        return pull(lp, q, &to, &gradients, out->chunk[0], 0);
    }
    return SL_OK;
}

static struct sl_partials *lists(const struct sl_layer_pass *lp, uint32_t replica, int parameter)
{
    (void)replica;
    return &pipe_of(lp)->gradients[lp->i * SL_MAX_PARAMETERS + (uint32_t)parameter];
}

static struct sl_partials *partials(const struct sl_layer_pass *lp, uint32_t q, int parameter)
{
    (void)q;
    return lists(lp, 0, parameter);
}

const struct sl_block_source sl_pipe_source = {.ids = ids,
                                               .worker = worker,
                                               .send = send,
                                               .arrived = arrived,
                                               .sum = sum,
                                               .send_back = send_back,
                                               .sum_back = sum_back,
                                               .returned = returned,
                                               .lists = lists,
                                               .partials = partials};
