/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Several ranks: data that one rank writes and another reads are StarPU-MPI messages (tasks/ranks.h). All ranks
 * make the same calls in the same order; each rank picks the messages that it sends or receives. Another kind
 * carries rows between PEs of one rank.
 *
 * A sum goes up a tree whose leaves are PEs (codelets/ends/tree.h). The rank of a subtree's first leaf adds up the
 * subtree: its own partial sums, and the sums that it receives of subtrees to the right. The first rank has the result,
 * which goes down the same way. The additions are those of a single process, so the bits are equal too. Losses of
 * decoupled ranks (sl_plan_decoupled) are added by rank 0 at the end of the epoch, in the same tree. */
#include <assert.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/reduce.h"
#include "codelets/ends/tree.h"
#include "runtime/exchange/transport.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* Data of this kind. */
struct mpi {
    /* Sums of subtrees, [1 + SL_TREE_DEPTH] of each sum: [parameter][replica], then losses. NULL until needed. */
    starpu_data_handle_t **received;
    starpu_data_handle_t *list; /* the terms of a sum, and their leaves */
    uint32_t *leaf;
    uint32_t room;
    double *kept;               /* decoupled ranks: [step of the epoch][PE], with zeros for other ranks' PEs */
    struct sl_transport within; /* carries rows between PEs of this rank */
    struct sl_parcel *parcel;   /* the parcels of one exchange that stay in this rank */
    uint32_t parcel_room;
};

/* ---- open, close ---- */

/* Gradients of all parameters, and losses. */
static uint32_t n_sums(const struct sl_transport *transport)
{
    return transport->n_parameters * transport->plan->n_replicas + SL_TRANSPORT_LOSSES;
}

static enum sl_status open_transport(struct sl_transport *transport)
{
    struct mpi *m;
    SL_CHECK(sl_alloc_zero(1, sizeof *m, "the transport to other ranks", &m));
    transport->own = m;
    SL_CHECK(sl_alloc_zero(n_sums(transport), sizeof *m->received, "sums of other ranks", &m->received));
    m->within = (struct sl_transport){
        .kind = transport->within, .plan = transport->plan, .n_sums = 1, .depth = transport->depth};
    if (transport->within->open != NULL) {
        return transport->within->open(&m->within);
    }
    return SL_OK;
}

static void close_transport(struct sl_transport *transport)
{
    struct mpi *m = transport->own;
    sl_transport_close(&m->within);
    for (uint32_t k = 0; m->received != NULL && k < n_sums(transport); k++) {
        for (uint32_t i = 0; m->received[k] != NULL && i <= SL_TREE_DEPTH; i++) {
            sl_handle_close(m->received[k][i]);
        }
        sl_free(m->received[k]);
    }
    sl_free(m->parcel);
    sl_free(m->kept);
    sl_free(m->received);
    sl_free(m->list);
    sl_free(m->leaf);
    sl_free(m);
}

/* ---- messages ---- */

/* Kinds of messages; the topics of sl_topic come first. */
enum { ROWS = SL_N_TOPICS, RETURNED_ROWS, SUM, LOSS };

/* A tag for each receiving handle. Rows and lists have one handle for each ring slot and hop. */
static int64_t tag_of(int topic, uint64_t slot, uint32_t hop, uint32_t a, uint32_t b)
{
    return (int64_t)topic << 56 | (int64_t)slot << 48 | (int64_t)hop << 40 | (int64_t)a << 20 | (int64_t)b;
}

static uint64_t slot_of(const struct sl_transport *transport, const struct sl_task_args *head)
{
    return head->step % transport->depth;
}

/* Send or receive a handle; nothing to do if this rank is neither `from` nor `to`. */
static enum sl_status carry(const struct sl_transport *transport, uint32_t from, uint32_t to,
                            starpu_data_handle_t handle, int64_t tag)
{
    if (from == to) {
        return SL_OK;
    }
    if (from == transport->plan->rank) {
        return sl_ranks_send(handle, to, tag);
    }
    if (to == transport->plan->rank) {
        return sl_ranks_receive(handle, from, tag);
    }
    return SL_OK;
}

/* ---- rows ---- */

static enum sl_status carry_rows(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                                 struct sl_parcel *parcel)
{
    uint32_t from = sl_plan_rank(transport->plan, parcel->from);
    uint32_t to = sl_plan_rank(transport->plan, parcel->to);
    int64_t tag = tag_of(stage == SL_STAGE_BACKWARD ? RETURNED_ROWS : ROWS, slot_of(transport, head), head->hop,
                         parcel->from, parcel->to);
    if (from != to && to == transport->plan->rank) {
        SL_CHECK(sl_matrix_reshape(parcel->n_rows, parcel->n_columns, parcel->dtype, parcel->room));
        *parcel->handle = *parcel->room;
    }
    return carry(transport, from, to, *parcel->handle, tag);
}

static bool stays(const struct sl_plan *plan, const struct sl_parcel *parcel)
{
    return sl_plan_rank(plan, parcel->from) == plan->rank && sl_plan_rank(plan, parcel->to) == plan->rank;
}

static enum sl_status rows(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                           uint32_t n, struct sl_parcel *parcels)
{
    struct mpi *m = transport->own;
    uint32_t n_here = 0;
    if (n > m->parcel_room) {
        SL_CHECK(sl_realloc(&m->parcel, n, sizeof *m->parcel, "rows of this rank"));
        m->parcel_room = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (stays(transport->plan, &parcels[i])) {
            m->parcel[n_here++] = parcels[i];
        } else {
            SL_CHECK(carry_rows(transport, head, stage, &parcels[i]));
        }
    }
    return sl_transport_rows(&m->within, head, stage, n_here, m->parcel);
}

/* The last message of the handle may still be in flight. */
static enum sl_status reuse(const struct sl_transport *transport, uint32_t from, uint32_t to,
                            starpu_data_handle_t handle)
{
    if (handle != NULL && sl_plan_rank(transport->plan, from) != sl_plan_rank(transport->plan, to)) {
        SL_CHECK(sl_handle_acquire(handle, STARPU_ACQUIRE_NO_NODE, STARPU_W));
        starpu_data_release_on_node(handle, STARPU_ACQUIRE_NO_NODE);
    }
    return SL_OK;
}

/* ---- shared buffers ---- */

static enum sl_status share(struct sl_transport *transport, const struct sl_task_args *head,
                            const struct sl_shared *shared)
{
    uint32_t from = sl_plan_rank(transport->plan, shared->from);
    uint64_t slot = shared->of_slot ? slot_of(transport, head) : 0;
    for (uint32_t r = shared->to.begin; r < shared->to.end; r++) {
        SL_CHECK(carry(transport, from, r, shared->handle,
                       tag_of((int)shared->topic, slot, head->hop, shared->from, shared->number)));
    }
    return SL_OK;
}

/* ---- sums ---- */

/* A sum over ranks. The ranks `to` get the result, too. Losses are double; all other sums are sl_real. */
struct tree_sum {
    struct sl_rank_range ranks, to;
    const struct sl_transport_losses *losses; /* NULL: gradients */
    const struct sl_partials *partials;
    starpu_data_handle_t sum;
    /* A subtree's sum on its way to the left, and [SL_TREE_DEPTH] sums received. All are kept for the run: steps write
     * them one after the other, so that messages of equal tags keep the order of the steps. */
    starpu_data_handle_t part;
    starpu_data_handle_t *received;
    int64_t tag; /* tag of subtree 0; the result has tag + 1 */
};

/* The leaves of a rank are first_leaf(rank) .. first_leaf(rank + 1) - 1. */
static uint32_t first_leaf(const struct sl_transport *transport, uint32_t rank)
{
    return (sl_plan_first_pe(transport->plan, rank) - transport->first_pe) * transport->n_leaves;
}

static uint32_t rank_of(const struct sl_transport *transport, uint32_t leaf)
{
    return sl_plan_rank(transport->plan, transport->first_pe + leaf / transport->n_leaves);
}

/* The leaves of the largest subtree that begins with a leaf other than 0. */
static uint32_t subtree(uint32_t leaf)
{
    return leaf & -leaf;
}

static int64_t tag_of_subtree(const struct tree_sum *s, uint32_t leaf)
{
    assert(leaf <= UINT16_MAX);
    return s->tag + ((int64_t)leaf << 40);
}

/* Append a term to the list of n terms. */
static enum sl_status add_term(struct mpi *m, uint32_t *n, uint32_t leaf, starpu_data_handle_t handle)
{
    if (*n == m->room) {
        const uint32_t room = 2 * m->room + 16;
        SL_CHECK(sl_realloc(&m->list, room, sizeof *m->list, "terms of a sum"));
        SL_CHECK(sl_realloc(&m->leaf, room, sizeof *m->leaf, "terms of a sum"));
        m->room = room;
    }
    m->list[*n] = handle;
    m->leaf[(*n)++] = leaf;
    return SL_OK;
}

/* A handle for a sum, kept for the run. */
static enum sl_status keep_sum(const struct tree_sum *s, starpu_data_handle_t *handle)
{
    if (*handle != NULL) {
        return SL_OK;
    }
    return sl_matrix_register(sl_handle_rows(s->sum), sl_handle_columns(s->sum), sl_handle_dtype(s->sum), handle);
}

/* Add up the subtree of leaves first .. end - 1, which begins with a leaf of this rank: its own terms, and the subtrees
 * received from ranks to the right. */
static enum sl_status add_subtree(struct sl_transport *transport, const struct sl_task_args *head,
                                  const struct tree_sum *s, uint32_t first, uint32_t end, starpu_data_handle_t out)
{
    struct mpi *m = transport->own;
    uint32_t n = 0;
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->partials->n; i++) {
        if (s->partials->leaf[i] >= first && s->partials->leaf[i] < end) {
            SL_CHECK(add_term(m, &n, s->partials->leaf[i], s->partials->handle[i]));
        }
    }
    for (uint32_t leaf = first_leaf(transport, transport->plan->rank + 1); leaf < end; leaf += subtree(leaf)) {
        starpu_data_handle_t *received = &s->received[k++];
        SL_CHECK(keep_sum(s, received));
        SL_CHECK(sl_ranks_receive(*received, rank_of(transport, leaf), tag_of_subtree(s, leaf)));
        SL_CHECK(add_term(m, &n, leaf, *received));
    }
    if (s->losses != NULL) {
        return sl_loss_sum_submit(head, n, m->list, m->leaf, s->losses->watched, NULL, out);
    }
    return sl_reduce_submit(head, n, m->list, m->leaf, out);
}

/* Send the result to the ranks that sent the last of their subtrees here. end: of this rank's last subtree. */
static enum sl_status send_down(struct sl_transport *transport, const struct tree_sum *s, uint32_t end)
{
    for (uint32_t leaf = first_leaf(transport, transport->plan->rank + 1); leaf < end; leaf += subtree(leaf)) {
        const uint32_t rank = rank_of(transport, leaf);
        if (first_leaf(transport, rank + 1) <= leaf + subtree(leaf)) {
            SL_CHECK(sl_ranks_send(s->sum, rank, s->tag + 1));
        }
    }
    return SL_OK;
}

/* A rank's leaves are one subtree or several. It adds them up and sends each to the left. */
static enum sl_status add_up(struct sl_transport *transport, const struct sl_task_args *head, const struct tree_sum *s)
{
    const uint32_t rank = transport->plan->rank;
    const uint32_t begin = first_leaf(transport, s->ranks.begin);
    const uint32_t all = first_leaf(transport, s->ranks.end);
    const uint32_t next = first_leaf(transport, rank + 1);
    uint32_t first = first_leaf(transport, rank);
    uint32_t end = all;
    uint32_t left = rank;
    for (; rank != s->ranks.begin && first < next; first = end) {
        end = sl_min_u32(first + subtree(first), all);
        left = rank_of(transport, sl_max_u32(first - subtree(first), begin));
        SL_CHECK(add_subtree(transport, head, s, first, end, s->part));
        SL_CHECK(sl_ranks_send(s->part, left, tag_of_subtree(s, first)));
    }
    if (rank == s->ranks.begin) {
        SL_CHECK(add_subtree(transport, head, s, first, end, s->sum));
    } else {
        SL_CHECK(sl_ranks_receive(s->sum, left, s->tag + 1));
    }
    return send_down(transport, s, end);
}

/* Ranks that do not add get the result from the first one that does. */
static enum sl_status sum_tree(struct sl_transport *transport, const struct sl_task_args *head, uint32_t number,
                               struct tree_sum *s)
{
    struct mpi *m = transport->own;
    const uint32_t rank = transport->plan->rank;
    if (m->received[number] == NULL) {
        SL_CHECK(sl_alloc_zero(1 + SL_TREE_DEPTH, sizeof **m->received, "sums of other ranks", &m->received[number]));
    }
    s->part = s->sum; /* a gradient is kept for the run */
    s->received = m->received[number] + 1;
    if (s->losses != NULL) { /* a loss is of one step */
        SL_CHECK(keep_sum(s, m->received[number]));
        s->part = m->received[number][0];
    }
    if (rank >= s->ranks.begin && rank < s->ranks.end) {
        SL_CHECK(add_up(transport, head, s));
    }
    for (uint32_t r = s->to.begin; r < s->to.end; r++) {
        if (r < s->ranks.begin || r >= s->ranks.end) {
            SL_CHECK(carry(transport, s->ranks.begin, r, s->sum, s->tag + 1));
        }
    }
    return SL_OK;
}

static enum sl_status sum(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *request)
{
    struct tree_sum s = {.ranks = request->ranks,
                         .to = request->ranks,
                         .partials = request->lists,
                         .sum = request->sum,
                         .tag = tag_of(SUM, 0, 0, request->parameter, 2 * request->replica)};
    return sum_tree(transport, head, request->parameter * transport->plan->n_replicas + request->replica, &s);
}

/* The sum of this rank's losses. The losses are kept for settle. */
static enum sl_status keep_losses(struct sl_transport *transport, const struct sl_task_args *head,
                                  const struct sl_partials *losses, starpu_data_handle_t total)
{
    const struct sl_plan *plan = transport->plan;
    struct mpi *m = transport->own;
    if (m->kept == NULL) {
        SL_CHECK(sl_alloc((size_t)plan->n_per_epoch * plan->n_pes, sizeof *m->kept, "losses of an epoch", &m->kept));
    }
    double *step = m->kept + (size_t)(head->step % plan->n_per_epoch) * plan->n_pes;
    memset(step, 0, plan->n_pes * sizeof *step);
    return sl_loss_sum_submit(head, losses->n, losses->handle, losses->leaf, false, step, total);
}

static enum sl_status loss(struct sl_transport *transport, const struct sl_task_args *head,
                           const struct sl_transport_losses *losses)
{
    if (sl_plan_decoupled(transport->plan)) {
        return keep_losses(transport, head, losses->partials, losses->total);
    }
    struct tree_sum s = {.ranks = losses->ranks,
                         .to = {0, transport->plan->n_ranks},
                         .losses = losses,
                         .partials = losses->partials,
                         .sum = losses->total,
                         .tag = tag_of(LOSS, 0, 0, 0, 2 * losses->number)};
    return sum_tree(transport, head, n_sums(transport) - SL_TRANSPORT_LOSSES + losses->number, &s);
}

/* Rank 0 adds the losses of each step. */
static enum sl_status settle(struct sl_transport *transport, uint32_t begin, uint32_t end, double *losses)
{
    const struct mpi *m = transport->own;
    if (!sl_plan_decoupled(transport->plan) || begin == end) {
        return SL_OK;
    }
    const uint32_t n = transport->plan->n_pes;
    double *part = m->kept + (size_t)begin * n;
    SL_FREED uint32_t *leaf = NULL;
    SL_CHECK(sl_alloc(n, sizeof *leaf, "the leaves of a sum", &leaf));
    for (uint32_t p = 0; p < n; p++) {
        leaf[p] = p;
    }
    SL_CHECK(sl_ranks_sum((end - begin) * n, part));
    for (uint32_t step = begin; step < end; step++) {
        losses[step] = sl_tree_sum(n, leaf, part + (size_t)(step - begin) * n);
    }
    return sl_ranks_broadcast(losses + begin, (end - begin) * sizeof *losses);
}

const struct sl_transport_kind sl_transport_mpi = {.name = "mpi",
                                                   .open = open_transport,
                                                   .close = close_transport,
                                                   .rows = rows,
                                                   .reuse = reuse,
                                                   .share = share,
                                                   .sum = sum,
                                                   .loss = loss,
                                                   .settle = settle};
