/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Several ranks: data that one rank writes and another reads are StarPU-MPI messages (tasks/ranks.h). All ranks
 * make the same calls in the same order; each rank picks the messages that it sends or receives. Another kind
 * carries rows between PEs of one rank.
 *
 * A sum goes from rank to rank, in the order of the PEs. Each rank adds its partial sums to the sum received, and
 * the last rank sends the result to all. With turns, the sum goes round several times, from the last rank to the
 * first again. The additions are those of a single process, in the same order, so the bits are equal too. Losses of
 * decoupled ranks (sl_plan_decoupled) are added by rank 0 at the end of the epoch, in the same order. */
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/ends/reduce.h"
#include "runtime/exchange/transport.h"
#include "support/memory.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* Data of this kind. */
struct mpi {
    starpu_data_handle_t *so_far; /* [parameter][replica]: sum of the ranks before this one */
    starpu_data_handle_t loss_so_far[SL_TRANSPORT_LOSSES];
    starpu_data_handle_t *list; /* the received sum, then this rank's partial sums */
    uint32_t room;
    double *kept;               /* decoupled ranks: [step of the epoch][n_losses], with zeros for other ranks' PEs */
    uint32_t n_losses;          /* most partial losses of a step */
    struct sl_transport within; /* carries rows between PEs of this rank */
    struct sl_parcel *parcel;   /* the parcels of one exchange that stay in this rank */
    uint32_t parcel_room;
};

/* ---- open, close ---- */

static enum sl_status open_transport(struct sl_transport *transport)
{
    struct mpi *m;
    SL_CHECK(sl_alloc_zero(1, sizeof *m, "the transport to other ranks", &m));
    transport->own = m;
    SL_CHECK(sl_alloc_zero((size_t)transport->n_parameters * transport->plan->n_replicas, sizeof *m->so_far,
                           "sums of other ranks", &m->so_far));
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
    if (m->so_far != NULL) {
        for (uint32_t k = 0; k < transport->n_parameters * transport->plan->n_replicas; k++) {
            sl_handle_close(m->so_far[k]);
        }
    }
    for (uint32_t i = 0; i < SL_TRANSPORT_LOSSES; i++) {
        sl_handle_close(m->loss_so_far[i]);
    }
    sl_free(m->parcel);
    sl_free(m->kept);
    sl_free(m->so_far);
    sl_free(m->list);
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

/* This rank's operands in one turn: the sum received from the rank before, in *so_far, then n partial sums of its
 * own. */
static enum sl_status make_list(struct sl_transport *transport, const starpu_data_handle_t *partials, uint32_t n,
                                const starpu_data_handle_t *so_far)
{
    struct mpi *m = transport->own;
    if (n + 1 > m->room) {
        SL_CHECK(sl_realloc(&m->list, n + 1, sizeof *m->list, "partials"));
        m->room = n + 1;
    }
    m->list[0] = *so_far;
    memcpy(m->list + 1, partials, n * sizeof *m->list);
    return SL_OK;
}

/* A sum along a range of ranks, in one or more turns. The ranks `to` get the result. Losses are double; all other sums
 * are sl_real. */
struct chain {
    struct sl_rank_range ranks, to;
    const struct sl_transport_turns *turns;
    const struct sl_transport_losses *losses; /* NULL: gradients */
    starpu_data_handle_t *so_far;             /* handle kept for the run; NULL before first use */
    int64_t tag;                              /* tag of the partial result; the result has tag + 1 */
};

/* A single rank needs no turns. */
static uint32_t n_turns(const struct chain *chain)
{
    bool alone = chain->ranks.end - chain->ranks.begin == 1;
    return chain->turns == NULL || alone ? 1 : chain->turns->n;
}

/* Number of partial sums, of a list of n, that belong to earlier turns. */
static uint32_t n_before(const struct chain *chain, uint32_t turn, uint32_t n)
{
    if (turn == n_turns(chain)) {
        return n;
    }
    if (chain->turns == NULL || turn == 0 || n == 0) {
        return 0;
    }
    return chain->turns->end[turn - 1] < n ? chain->turns->end[turn - 1] : n;
}

/* Add this rank's partial sums of a turn to the received sum. Send the result to the next rank, or to the first
 * rank's next turn. */
static enum sl_status add_turn(struct sl_transport *transport, const struct sl_task_args *head,
                               const struct chain *chain, uint32_t turn, const struct sl_partials *partials,
                               starpu_data_handle_t sum)
{
    uint32_t rank = transport->plan->rank;
    uint32_t last = chain->ranks.end - 1;
    uint32_t begin = n_before(chain, turn, partials->n);
    uint32_t n = n_before(chain, turn + 1, partials->n) - begin;
    bool first = rank == chain->ranks.begin && turn == 0;
    bool final = rank == last && turn + 1 == n_turns(chain);
    if (!first && *chain->so_far == NULL) {
        enum sl_dtype dtype = chain->losses != NULL ? SL_DTYPE_F64 : SL_DTYPE_REAL;
        SL_CHECK(sl_matrix_register(sl_handle_rows(sum), sl_handle_columns(sum), dtype, chain->so_far));
    }
    if (!first) {
        uint32_t before = rank == chain->ranks.begin ? last : rank - 1;
        SL_CHECK(sl_ranks_receive(*chain->so_far, before, chain->tag));
    }
    SL_CHECK(make_list(transport, partials->handle + begin, n, chain->so_far));
    const starpu_data_handle_t *list = ((struct mpi *)transport->own)->list;
    if (chain->losses != NULL) {
        SL_CHECK(sl_loss_sum_submit(head, n + !first, list + first, chain->losses->watched, NULL, sum));
    } else {
        SL_CHECK(sl_reduce_submit(head, n + !first, list + first, sum));
    }
    if (!final) {
        uint32_t next = rank == last ? chain->ranks.begin : rank + 1;
        return sl_ranks_send(sum, next, chain->tag);
    }
    return SL_OK;
}

static enum sl_status add_up(struct sl_transport *transport, const struct sl_task_args *head, const struct chain *chain,
                             const struct sl_partials *partials, starpu_data_handle_t sum)
{
    uint32_t rank = transport->plan->rank;
    uint32_t last = chain->ranks.end - 1;
    if (rank >= chain->ranks.begin && rank <= last) {
        for (uint32_t turn = 0; turn < n_turns(chain); turn++) {
            SL_CHECK(add_turn(transport, head, chain, turn, partials, sum));
        }
    }
    for (uint32_t r = chain->to.begin; r < chain->to.end; r++) {
        SL_CHECK(carry(transport, last, r, sum, chain->tag + 1));
    }
    return SL_OK;
}

static enum sl_status sum(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *request)
{
    struct mpi *m = transport->own;
    struct chain chain = {.ranks = request->ranks,
                          .to = request->ranks,
                          .turns = request->turns,
                          .so_far = &m->so_far[request->parameter * transport->plan->n_replicas + request->replica],
                          .tag = tag_of(SUM, 0, 0, request->parameter, 2 * request->replica)};
    return add_up(transport, head, &chain, request->lists, request->sum);
}

/* The sum of this rank's losses. The losses are kept for settle. */
static enum sl_status keep_losses(struct sl_transport *transport, const struct sl_task_args *head,
                                  const struct sl_partials *losses, starpu_data_handle_t total)
{
    const struct sl_plan *plan = transport->plan;
    struct mpi *m = transport->own;
    if (m->kept == NULL) {
        m->n_losses = losses->room;
        SL_CHECK(sl_alloc((size_t)plan->n_per_epoch * m->n_losses, sizeof *m->kept, "losses of an epoch", &m->kept));
    }
    double *step = m->kept + (size_t)(head->step % plan->n_per_epoch) * m->n_losses;
    memset(step, 0, m->n_losses * sizeof *step);
    return sl_loss_sum_submit(head, losses->n, losses->handle, false, step + m->n_losses / plan->n_pes * plan->first_pe,
                              total);
}

static enum sl_status loss(struct sl_transport *transport, const struct sl_task_args *head,
                           const struct sl_transport_losses *losses)
{
    if (sl_plan_decoupled(transport->plan)) {
        return keep_losses(transport, head, losses->partials, losses->total);
    }
    struct chain chain = {.ranks = losses->ranks,
                          .to = {0, transport->plan->n_ranks},
                          .turns = losses->turns,
                          .losses = losses,
                          .so_far = &((struct mpi *)transport->own)->loss_so_far[losses->number],
                          .tag = tag_of(LOSS, 0, 0, 0, 2 * losses->number)};
    return add_up(transport, head, &chain, losses->partials, losses->total);
}

/* Rank 0 adds the losses of each step in the order of the PEs. */
static enum sl_status settle(struct sl_transport *transport, uint32_t begin, uint32_t end, double *losses)
{
    const struct mpi *m = transport->own;
    if (!sl_plan_decoupled(transport->plan) || begin == end) {
        return SL_OK;
    }
    double *part = m->kept + (size_t)begin * m->n_losses;
    SL_CHECK(sl_ranks_sum((end - begin) * m->n_losses, part));
    memset(losses + begin, 0, (end - begin) * sizeof *losses);
    for (uint32_t k = 0; k < (end - begin) * m->n_losses; k++) {
        losses[begin + k / m->n_losses] += part[k];
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
