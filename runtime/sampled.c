/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows packed, aggregated and sent back, over the blocks of a slot. Rows get their shape just before their writer and are kept for a
 * later step just after their last reader. */
#include "runtime/sampled.h"

#include "codelets/aggregate.h"
#include "codelets/exchange.h"
#include "runtime/layer.h"
#include "runtime/model/kinds.h"

static struct sl_steps *steps_of(const struct sl_at *at)
{
    return at->pass->owner;
}

static struct sl_slot_pe *slot_of(const struct sl_at *at, uint32_t p)
{
    return sl_step_slot(steps_of(at), at->pass->step, p);
}

static struct sl_block *block_of(const struct sl_at *at, uint32_t p)
{
    return &slot_of(at, p)->block[at->level];
}

/* The positions where each owner's ids begin in PE p's request of this hop, and how many it asks of owner q. */
static const uint32_t *first_source(const struct sl_at *at, uint32_t p)
{
    const struct sl_steps *s = steps_of(at);
    return s->pe[p].counts + sl_counts_request(s->n_hops, s->shards->n_parts, at->level);
}
static uint32_t n_asked(const struct sl_at *at, uint32_t p, uint32_t q)
{
    return sl_list_count(first_source(at, p), q);
}

/* Sampled edges of PE p's block. */
static uint64_t n_edges_of(const struct sl_at *at, uint32_t p)
{
    const struct sl_steps *s = steps_of(at);
    return s->pe[p].counts[sl_counts_edges(s->n_hops, at->level)];
}

/* The slot's handles for the rows that PE p gets from owner q, and for the gradients it returns. */
static starpu_data_handle_t *kept_packed(const struct sl_at *at, uint32_t p, uint32_t q)
{
    return &slot_of(at, p)->packed[at->level * at->pass->shards->n_parts + q];
}
static starpu_data_handle_t *kept_sent(const struct sl_at *at, uint32_t p, uint32_t q)
{
    return &slot_of(at, p)->sent[at->level * at->pass->shards->n_parts + q];
}

/* The weights of PE p's block, into *out; NULL: means. */
static const struct sl_edge_weights *weights_of(const struct sl_at *at, uint32_t p, struct sl_edge_weights *out)
{
    *out = (struct sl_edge_weights){.factors = at->pass->shards->factors,
                                    .frontier = slot_of(at, p)->frontier,
                                    .request = block_of(at, p)->request,
                                    .scale = 1};
    return at->layer->kind->symmetric ? out : NULL;
}

static struct sl_ids_of ids(const struct sl_pass *pass, uint32_t p)
{
    return (struct sl_ids_of){sl_step_slot(pass->owner, pass->step, p)->frontier, 0};
}

static struct sl_partials *partials(const struct sl_at *at, uint32_t p, int parameter)
{
    struct sl_steps *s = steps_of(at);
    return sl_step_partials(s, at->i, sl_step_replica(s, p), sl_crossing_sum_of(s, p), parameter);
}

/* ---- forward ---- */

/* PE `owner` packs the rows that the other PEs of its group asked it for. */
static enum sl_status pack(const struct sl_at *at, uint32_t owner)
{
    struct sl_steps *s = steps_of(at);
    uint32_t n_parts = s->shards->n_parts;
    uint32_t q = owner % n_parts;
    const struct sl_rows *rows = sl_at_travels(at, owner);
    uint32_t requester[SL_MAX_PES];
    starpu_data_handle_t packed[SL_MAX_PES];
    starpu_data_handle_t *kept;
    uint32_t n = 0;
    struct sl_task_args head = sl_at_head(at, owner);
    enum sl_status st = SL_OK;
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        uint32_t p = sl_step_peer(s, owner, peer);
        if (p == owner || n_asked(at, p, q) == 0) {
            continue;
        }
        kept = kept_packed(at, p, q);
        SL_TRY(st, sl_matrix_reshape(n_asked(at, p, q), rows->n_columns, sizeof(sl_real), kept), done);
        requester[n] = peer;
        packed[n++] = s->pe[p].packed[q] = *kept;
    }
    if (n > 0) {
        st = sl_pack_submit(&head, rows, n_parts, block_of(at, owner)->inverse, n, requester, packed);
    }
done:
    return st;
}

/* Rows go to the PEs of the group that asked for them. */
static enum sl_status send(const struct sl_at *at)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && p < at->pass->n_pes; p++) {
        st = pack(at, p);
    }
    return st == SL_OK ? sl_crossing_rows(steps_of(at), at->pass->step, at->level, false) : st;
}

static void arrived(const struct sl_at *at)
{
    struct sl_steps *s = steps_of(at);
    for (uint32_t p = 0; p < at->pass->n_pes; p++) {
        for (uint32_t q = 0; q < s->shards->n_parts; q++) {
            s->pe[p].packed[q] = NULL;
            sl_matrix_keep(kept_packed(at, p, q));
        }
    }
    sl_crossing_keep(s, at->pass->step, at->level, false);
}

static enum sl_status sum(const struct sl_at *at, uint32_t p, uint32_t c, int beta, starpu_data_handle_t out)
{
    struct sl_steps *s = steps_of(at);
    const struct sl_block *block = block_of(at, p);
    const struct sl_split *split = &at->pass->pe[p].split[at->level];
    uint32_t n_parts = s->shards->n_parts;
    struct sl_edge_weights weights;
    struct sl_task_args head = sl_at_head(at, p);
    struct sl_source_handles sources = {.n_owners = n_parts,
                                        .own = p % n_parts,
                                        .first = first_source(at, p),
                                        .rows = sl_at_travels(at, p),
                                        .inverse = block->inverse,
                                        .packed = s->pe[p].packed,
                                        .weights = weights_of(at, p, &weights)};
    uint64_t n_edges = n_edges_of(at, p) * sl_split_size(split, c) / split->n_rows;
    return sl_aggregate_forward_submit(&head, block->edge_offsets, block->edge_sources,
                                       sl_at_chunk_row(at, p, at->level, c), n_edges, &sources, beta, out);
}

/* ---- backward ---- */

/* PE p packs, for each other owner, the gradients of the rows it got from there. */
static enum sl_status pack_gradients(const struct sl_at *at, uint32_t p)
{
    struct sl_steps *s = steps_of(at);
    struct sl_step_pe *pe = &s->pe[p];
    const struct sl_block *block = block_of(at, p);
    const uint32_t *first = first_source(at, p);
    uint32_t n_parts = s->shards->n_parts;
    struct sl_edge_weights weights;
    struct sl_returned what = {.edge_offsets = block->edge_offsets,
                               .back_offsets = block->back_offsets,
                               .back_rows = block->back_rows,
                               .gm = sl_at_returns(at, p),
                               .n_parts = n_parts,
                               .weights = weights_of(at, p, &weights)};
    uint32_t t0[SL_MAX_PES];
    starpu_data_handle_t sent[SL_MAX_PES];
    starpu_data_handle_t *kept;
    uint32_t n = 0;
    uint64_t n_rows = 0;
    struct sl_task_args head = sl_at_head(at, p);
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < n_parts; q++) {
        if (q == p % n_parts || n_asked(at, p, q) == 0) {
            continue;
        }
        kept = kept_sent(at, p, q);
        SL_TRY(st, sl_matrix_reshape(n_asked(at, p, q), what.gm->n_columns, sizeof(sl_real), kept), done);
        n_rows += n_asked(at, p, q);
        t0[n] = first[q];
        sent[n++] = pe->sent[q] = *kept;
    }
    if (n > 0) {
        what.n_edges = n_edges_of(at, p) * n_rows / first[n_parts];
        st = sl_aggregate_backward_submit(&head, &what, n, t0, sent);
    }
done:
    return st;
}

/* The gradients of rows go back to their owners. */
static enum sl_status send_back(const struct sl_at *at)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && p < at->pass->n_pes; p++) {
        st = pack_gradients(at, p);
    }
    return st == SL_OK ? sl_crossing_rows(steps_of(at), at->pass->step, at->level, true) : st;
}

static enum sl_status sum_back(const struct sl_at *at, uint32_t p, struct sl_rows *out)
{
    struct sl_steps *s = steps_of(at);
    uint32_t n_parts = s->shards->n_parts;
    uint32_t own = p % n_parts;
    const struct sl_block *block = block_of(at, p);
    starpu_data_handle_t sent[SL_MAX_PES];
    struct sl_edge_weights weights;
    struct sl_task_args head = sl_at_head(at, p);
    enum sl_status st;
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        sent[peer] = s->pe[sl_step_peer(s, p, peer)].sent[own];
    }
    struct sl_accumulate shares = {.edge_offsets = block->edge_offsets,
                                   .back_offsets = block->back_offsets,
                                   .back_rows = block->back_rows,
                                   .t0 = first_source(at, p)[own],
                                   .n_own = n_asked(at, p, own),
                                   .gm = sl_at_returns(at, p),
                                   .n_peers = n_parts,
                                   .own = own,
                                   .inverse = block->inverse,
                                   .sent = sent,
                                   .weights = weights_of(at, p, &weights)};
    SL_TRY(st, sl_rows_reshape(&at->pass->pe[p].split[at->from], shares.gm->n_columns, sizeof(sl_real), out), done);
    for (uint32_t c = 0; c < out->split.n_chunks; c++) {
        SL_TRY(st, sl_accumulate_submit(&head, &shares, sl_at_chunk_row(at, p, at->from, c), out->chunk[c]), done);
    }
done:
    return st;
}

static void returned(const struct sl_at *at)
{
    struct sl_steps *s = steps_of(at);
    for (uint32_t p = 0; p < at->pass->n_pes; p++) {
        for (uint32_t q = 0; q < s->shards->n_parts; q++) {
            s->pe[p].sent[q] = NULL;
            sl_matrix_keep(kept_sent(at, p, q));
        }
    }
    sl_crossing_keep(s, at->pass->step, at->level, true);
}

const struct sl_source sl_sampled = {.ids = ids,
                                     .send = send,
                                     .arrived = arrived,
                                     .sum = sum,
                                     .send_back = send_back,
                                     .sum_back = sum_back,
                                     .returned = returned,
                                     .partials = partials};
