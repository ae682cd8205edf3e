/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows are packed, sent and aggregated over the blocks of a slot; gradients return the same way. A matrix gets its
 * shape just before its writer is submitted, and is kept for a later step just after its last reader is. */

#include "codelets/sampling/exchange.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/sums.h"

static struct sl_steps *steps_of(const struct sl_layer_pass *lp)
{
    return lp->pass->owner;
}

static struct sl_slot_pe *slot_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return sl_step_slot(steps_of(lp), lp->pass->step, p);
}

static struct sl_block *block_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return &slot_of(lp, p)->block[lp->level];
}

/* The position of each owner's first id in PE p's request of this hop; the number of ids requested from owner q. */
static const uint32_t *first_source(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_steps *s = steps_of(lp);
    return s->pe[p].counts + sl_counts_request(s->plan->n_layers, s->plan->n_parts, lp->level);
}
static uint32_t n_asked(const struct sl_layer_pass *lp, uint32_t p, uint32_t q)
{
    return sl_list_count(first_source(lp, p), q);
}

/* Number of sampled edges in PE p's block. */
static uint64_t n_edges_of(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_steps *s = steps_of(lp);
    return s->pe[p].counts[sl_counts_edges(s->plan->n_layers, lp->level)];
}

/* Index of a pair of this hop: a PE with owner q of its group, or a PE's team with the group's team q. */
static size_t pair_of(const struct sl_layer_pass *lp, uint32_t q)
{
    return (size_t)lp->level * lp->pass->plan->n_parts + q;
}

/* The first PE of the team of PE `peer` of p's group. This PE holds the team's handles. */
static uint32_t team_of(const struct sl_layer_pass *lp, uint32_t p, uint32_t peer)
{
    return sl_plan_peer(lp->pass->plan, p, peer - peer % steps_of(lp)->team);
}

/* The packed rows that PE p's team gets from owner q's team; back: the packed gradients to return. */
static starpu_data_handle_t *pair_handle(const struct sl_layer_pass *lp, bool back, uint32_t p, uint32_t q)
{
    const struct sl_step_pe *team = &steps_of(lp)->pe[team_of(lp, p, sl_plan_part(lp->pass->plan, p))];
    return &(back ? team->sent : team->packed)[pair_of(lp, q / steps_of(lp)->team)];
}

/* PE p's part of these matrices: its rows from, or to, owner q. */
static struct sl_slice slice_of(const struct sl_layer_pass *lp, bool back, uint32_t p, uint32_t q)
{
    const struct sl_step_pe *pe = &steps_of(lp)->pe[p];
    uint32_t n = q == sl_plan_part(lp->pass->plan, p) ? 0 : n_asked(lp, p, q);
    return (struct sl_slice){.handle = n == 0 ? NULL : *pair_handle(lp, back, p, q),
                             .row0 = (back ? pe->sent_row : pe->packed_row)[pair_of(lp, q)],
                             .n_rows = n};
}

/* Number of rows that PE p's team requests from owner q's team. */
static uint32_t n_asked_by_team(const struct sl_layer_pass *lp, uint32_t p, uint32_t q)
{
    const struct sl_plan *plan = lp->pass->plan;
    const uint32_t team = steps_of(lp)->team;
    const uint32_t first_p = sl_plan_part(plan, p) / team * team;
    const uint32_t first_q = q / team * team;
    uint32_t n = 0;
    for (uint32_t i = first_p; i < first_p + team && i < plan->n_parts; i++) {
        for (uint32_t j = first_q; j < first_q + team && j < plan->n_parts; j++) {
            if (i != j) {
                n += n_asked(lp, sl_plan_peer(plan, p, i), j);
            }
        }
    }
    return n;
}

/* The vertex factors of PE p's block, filled into *out. NULL: the layer's sum reads no vertex factors. */
static const struct sl_vertex_factors *weights_of(const struct sl_layer_pass *lp, uint32_t p,
                                                  struct sl_vertex_factors *out)
{
    *out = (struct sl_vertex_factors){.factors = lp->pass->shards->factors,
                                      .frontier = slot_of(lp, p)->frontier,
                                      .request = block_of(lp, p)->request,
                                      .n_parts = steps_of(lp)->plan->n_parts,
                                      .scale = lp->layer->scale};
    return lp->layer->kind->sum->factor != NULL ? out : NULL;
}

static struct sl_ids_of ids(const struct sl_pass *pass, uint32_t p)
{
    return (struct sl_ids_of){sl_step_slot(pass->owner, pass->step, p)->frontier, 0};
}

static struct sl_partials *lists(const struct sl_layer_pass *lp, uint32_t replica, int parameter)
{
    return sl_step_partials(steps_of(lp), lp->i, replica, parameter);
}

static struct sl_partials *partials(const struct sl_layer_pass *lp, uint32_t p, int parameter)
{
    const struct sl_steps *s = steps_of(lp);
    return lists(lp, sl_plan_replica(s->plan, p), parameter) + sl_transport_list_of(s->transport, p);
}

/* ---- forward ---- */

/* Shape the matrix that the teams of PE p and owner q exchange, if any. */
static enum sl_status shape_pair(const struct sl_layer_pass *lp, bool back, uint32_t p, uint32_t q, uint32_t n_columns)
{
    struct sl_steps *s = steps_of(lp);
    struct sl_slot_pe *slot = slot_of(lp, p);
    uint32_t owner = sl_plan_peer(s->plan, p, q);
    uint32_t n_rows = n_asked_by_team(lp, p, q);
    starpu_data_handle_t *kept = &(back ? slot->sent : slot->packed)[pair_of(lp, q / s->team)];
    if (n_rows > 0) {
        SL_CHECK(sl_transport_reuse(s->transport, back ? p : owner, back ? owner : p, *kept));
        SL_CHECK(sl_matrix_reshape(n_rows, n_columns, sl_step_travelling_dtype(s, lp->i, p, back), kept));
        *pair_handle(lp, back, p, q) = *kept;
    }
    return SL_OK;
}

/* Shape all matrices that PEs of this rank will write. */
static enum sl_status shape_pairs(const struct sl_layer_pass *lp, bool back, uint32_t n_columns)
{
    const struct sl_steps *s = steps_of(lp);
    const struct sl_plan *plan = s->plan;
    for (uint32_t p = 0; p < plan->n_pes; p++) {
        bool stands = team_of(lp, p, sl_plan_part(plan, p)) == p;
        if (stands) {
            for (uint32_t q = 0; q < plan->n_parts; q += s->team) {
                if (sl_plan_here(plan, back ? p : sl_plan_peer(plan, p, q))) {
                    SL_CHECK(shape_pair(lp, back, p, q, n_columns));
                }
            }
        }
    }
    return SL_OK;
}

/* PE p's rows of the input level. `inverse` indexes these rows: the part's table if features are read in place. */
static const struct sl_rows *own_rows(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_steps *s = steps_of(lp);
    return lp->i == 0 && sl_step_in_place(s, p) ? &s->tables[p] : sl_layer_pass_travels(lp, p);
}

/* PE `owner` packs the rows that PEs of its group requested. */
static enum sl_status pack(const struct sl_layer_pass *lp, uint32_t owner)
{
    struct sl_steps *s = steps_of(lp);
    uint32_t n_parts = s->plan->n_parts;
    uint32_t requester[SL_MAX_GROUP];
    struct sl_slice packed[SL_MAX_GROUP];
    uint32_t n = 0;
    struct sl_task_args head = sl_layer_pass_head(lp, owner);
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        packed[n] = slice_of(lp, false, sl_plan_peer(s->plan, owner, peer), sl_plan_part(s->plan, owner));
        requester[n] = peer;
        n += packed[n].n_rows > 0;
    }
    if (n == 0) {
        return SL_OK;
    }
    return sl_pack_submit(&head, own_rows(lp, owner), n_parts, block_of(lp, owner)->inverse, n, requester, packed);
}

/* Add a parcel for the matrix that the teams of PE p and owner q exchange, if there is one. */
static void add_parcel(const struct sl_layer_pass *lp, bool back, uint32_t p, uint32_t q, uint32_t *n)
{
    struct sl_steps *s = steps_of(lp);
    struct sl_slot_pe *slot = slot_of(lp, p);
    uint32_t owner = sl_plan_peer(s->plan, p, q);
    uint32_t n_rows = n_asked_by_team(lp, p, q);
    if (n_rows > 0) {
        s->parcels[(*n)++] =
            (struct sl_parcel){.from = back ? p : owner,
                               .to = back ? owner : p,
                               .handle = pair_handle(lp, back, p, q),
                               .room = &(back ? slot->returned : slot->arrived)[pair_of(lp, q / s->team)],
                               .n_rows = n_rows,
                               .n_columns = sl_layer_pass_order(lp)->travels,
                               .dtype = sl_step_travelling_dtype(s, lp->i, p, back)};
    }
}

/* Every rank that trains PE p's replica reads its partials of batch norm. */
static enum sl_status share(const struct sl_layer_pass *lp, uint32_t p, bool back, uint32_t number,
                            starpu_data_handle_t partial)
{
    struct sl_steps *s = steps_of(lp);
    struct sl_task_args head = {.step = lp->pass->step};
    struct sl_shared shared = {.topic = back ? SL_TOPIC_SUMS : SL_TOPIC_MOMENTS,
                               .number = number,
                               .to = sl_plan_trainers(s->plan, sl_plan_replica(s->plan, p)),
                               .from = p,
                               .handle = partial};
    return sl_transport_share(s->transport, &head, &shared);
}

/* Send all packed matrices, group by group. */
static enum sl_status travel(const struct sl_layer_pass *lp, bool back)
{
    struct sl_steps *s = steps_of(lp);
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t first = 0; first < s->plan->n_pes; first += n_parts) {
        struct sl_task_args head = sl_layer_pass_head(lp, first);
        uint32_t n = 0;
        for (uint32_t p = first; p < first + n_parts; p += s->team) {
            for (uint32_t q = 0; q < n_parts; q += s->team) {
                add_parcel(lp, back, p, q, &n);
            }
        }
        SL_CHECK(sl_transport_rows(s->transport, &head, back ? SL_STAGE_BACKWARD : SL_STAGE_EXCHANGE, n, s->parcels));
    }
    return SL_OK;
}

static enum sl_status send(const struct sl_layer_pass *lp)
{
    SL_CHECK(shape_pairs(lp, false, sl_layer_pass_order(lp)->travels));
    for (uint32_t p = lp->pass->plan->first_pe; p < lp->pass->plan->end_pe; p++) {
        SL_CHECK(pack(lp, p));
    }
    return travel(lp, false);
}

/* The last readers of this hop's exchanged matrices are submitted, forward or backward. Keep the handles for the
 * slot's next step. */
static void keep(const struct sl_layer_pass *lp, bool back)
{
    struct sl_steps *s = steps_of(lp);
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        struct sl_slot_pe *slot = slot_of(lp, p);
        bool stands = team_of(lp, p, sl_plan_part(s->plan, p)) == p;
        if (stands) {
            for (uint32_t q = 0; q < s->plan->n_parts; q += s->team) {
                size_t pair = pair_of(lp, q / s->team);
                *pair_handle(lp, back, p, q) = NULL;
                sl_matrix_keep(&(back ? slot->sent : slot->packed)[pair]);
                sl_matrix_keep(&(back ? slot->returned : slot->arrived)[pair]);
            }
        }
    }
}

static void arrived(const struct sl_layer_pass *lp)
{
    if (!lp->layer->kind->sum->rereads) {
        keep(lp, false);
        sl_project_done(lp);
    }
}

/* The source rows of PE p's block. packed: room for G slices. */
static struct sl_source_handles sources_of(const struct sl_layer_pass *lp, uint32_t p,
                                           const struct sl_vertex_factors *weights, struct sl_slice *packed)
{
    const struct sl_steps *s = steps_of(lp);
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t q = 0; q < n_parts; q++) {
        packed[q] = slice_of(lp, false, p, q);
    }
    return (struct sl_source_handles){.n_owners = n_parts,
                                      .own = sl_plan_part(s->plan, p),
                                      .first = first_source(lp, p),
                                      .rows = own_rows(lp, p),
                                      .inverse = block_of(lp, p)->inverse,
                                      .packed = packed,
                                      .weights = weights};
}

/* Estimated number of sampled edges into chunk c: its share of the block's edges. */
static uint64_t chunk_edges(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    const struct sl_split *split = &lp->pass->pe[p].split[lp->level];
    return n_edges_of(lp, p) * sl_split_size(split, c) / split->n_rows;
}

static enum sl_status sum(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, int beta, starpu_data_handle_t out)
{
    struct sl_vertex_factors weights;
    struct sl_slice packed[SL_MAX_GROUP];
    struct sl_sum_chunk chunk = {p, c, block_of(lp, p), chunk_edges(lp, p, c),
                                 sources_of(lp, p, weights_of(lp, p, &weights), packed)};
    return lp->layer->kind->sum->forward(lp, &chunk, beta, out);
}

/* The table of edge features takes the place of an owner's packed rows; the PE itself, which comes second, has none. */
static enum sl_status sum_edges(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, starpu_data_handle_t out)
{
    const struct sl_shard *part = &lp->pass->shards->part[sl_plan_part(lp->pass->plan, p)];
    const uint32_t n = part->edges.split.n_rows;
    const uint32_t first[] = {0, n, n};
    const struct sl_slice packed[] = {{n > 0 ? part->edge_table : NULL, 0, n}, {NULL, 0, 0}};
    const struct sl_rows none = {.n_columns = part->edges.n_columns};
    struct sl_block block = *block_of(lp, p);
    const struct sl_sum_chunk chunk = {
        p, c, &block, chunk_edges(lp, p, c), {2, 1, first, &none, block.inverse, packed, NULL}};
    block.edge_sources = block.edge_rows;
    return lp->layer->kind->sum->forward(lp, &chunk, 0, out);
}

/* ---- backward ---- */

/* PE p packs, for each other owner, the gradients of this owner's rows. */
static enum sl_status pack_gradients(const struct sl_layer_pass *lp, uint32_t p)
{
    struct sl_steps *s = steps_of(lp);
    const uint32_t *first = first_source(lp, p);
    uint32_t n_parts = s->plan->n_parts;
    struct sl_vertex_factors weights;
    uint32_t t0[SL_MAX_GROUP];
    struct sl_slice packed[SL_MAX_GROUP];
    struct sl_slice sent[SL_MAX_GROUP];
    uint32_t n = 0;
    uint64_t n_rows = 0;
    for (uint32_t q = 0; q < n_parts; q++) {
        packed[n] = slice_of(lp, false, p, q);
        sent[n] = slice_of(lp, true, p, q);
        t0[n] = first[q];
        n_rows += sent[n].n_rows;
        n += sent[n].n_rows > 0;
    }
    if (n == 0) {
        return SL_OK;
    }
    struct sl_sum_back back = {.p = p,
                               .block = block_of(lp, p),
                               .n_edges = n_edges_of(lp, p) * n_rows / first[n_parts],
                               .weights = weights_of(lp, p, &weights),
                               .n_owners = n,
                               .t0 = t0,
                               .packed = packed,
                               .sent = sent};
    return lp->layer->kind->sum->backward(lp, &back);
}

typedef enum sl_status chunk_back(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk);

/* Submit a task over each chunk of PE p's destinations, and their sources. */
static enum sl_status chunks_back(const struct sl_layer_pass *lp, uint32_t p, chunk_back *submit)
{
    struct sl_slice packed[SL_MAX_GROUP];
    struct sl_sum_chunk chunk = {.p = p, .block = block_of(lp, p), .sources = sources_of(lp, p, NULL, packed)};
    for (; chunk.c < lp->pass->pe[p].split[lp->level].n_chunks; chunk.c++) {
        chunk.n_edges = chunk_edges(lp, p, chunk.c);
        SL_CHECK(submit(lp, &chunk));
    }
    return SL_OK;
}

/* Compute the numbers of each destination of PE p that its sources' gradients need. */
static enum sl_status sides(const struct sl_layer_pass *lp, uint32_t p)
{
    SL_CHECK(sl_layer_pass_shape(lp, p, SL_ROWS_SIDES));
    return chunks_back(lp, p, lp->layer->kind->sum->sides);
}

static enum sl_status sum_gradient(const struct sl_layer_pass *lp)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(chunks_back(lp, p, lp->layer->kind->sum->gradient));
    }
    return SL_OK;
}

static enum sl_status send_back(const struct sl_layer_pass *lp)
{
    if (lp->layer->kind->sum->sides != NULL) {
        for (uint32_t p = lp->pass->plan->first_pe; p < lp->pass->plan->end_pe; p++) {
            SL_CHECK(sides(lp, p));
        }
    }
    SL_CHECK(shape_pairs(lp, true, sl_layer_pass_order(lp)->travels));
    for (uint32_t p = lp->pass->plan->first_pe; p < lp->pass->plan->end_pe; p++) {
        SL_CHECK(pack_gradients(lp, p));
    }
    return travel(lp, true);
}

static enum sl_status sum_back(const struct sl_layer_pass *lp, uint32_t p, struct sl_rows *out)
{
    struct sl_steps *s = steps_of(lp);
    uint32_t n_parts = s->plan->n_parts;
    uint32_t own = sl_plan_part(s->plan, p);
    struct sl_slice sent[SL_MAX_GROUP];
    struct sl_vertex_factors weights;
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        sent[peer] = slice_of(lp, true, sl_plan_peer(s->plan, p, peer), own);
    }
    struct sl_sum_shares shares = {.p = p,
                                   .block = block_of(lp, p),
                                   .from = {first_source(lp, p)[own], n_asked(lp, p, own), n_parts, own, sent},
                                   .weights = weights_of(lp, p, &weights)};
    uint32_t width = sl_layer_pass_order(lp)->travels;
    SL_CHECK(sl_rows_reshape(&lp->pass->pe[p].split[lp->from], width, SL_DTYPE_REAL, out));
    for (uint32_t c = 0; c < out->split.n_chunks; c++) {
        uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->from, c);
        SL_CHECK(lp->layer->kind->sum->accumulate(lp, &shares, c, row, out->chunk[c]));
    }
    return SL_OK;
}

static void returned(const struct sl_layer_pass *lp)
{
    if (lp->from == lp->level) {
        return;
    }
    if (lp->layer->kind->sum->rereads) {
        keep(lp, false);
    }
    keep(lp, true);
}

const struct sl_block_source sl_sampled = {.ids = ids,
                                           .send = send,
                                           .arrived = arrived,
                                           .sum = sum,
                                           .sum_edges = sum_edges,
                                           .send_back = send_back,
                                           .sum_gradient = sum_gradient,
                                           .sum_back = sum_back,
                                           .share = share,
                                           .returned = returned,
                                           .lists = lists,
                                           .partials = partials};
