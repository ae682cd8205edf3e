/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The transport: all that travels from one PE to another in a step goes through it, and the step does not know what is behind.
 *
 *   rows    owners send what they were asked for, and get its gradients back
 *   sums    the partial gradients of a parameter become one
 *   shared  what several PEs read: requests for rows, by their ids; sizes; what batch norm adds up; replicas that mix
 *
 * What is behind is a kind (--transport, and MPI where there are several ranks): a file with a table of operations. One thread calls, in
 * the order of a step's stages; with several ranks a thread of each, all in the same order.
 */
#ifndef SL_RUNTIME_EXCHANGE_TRANSPORT_H
#define SL_RUNTIME_EXCHANGE_TRANSPORT_H

#include "codelets/home.h"
#include "codelets/task.h"
#include "runtime/plan/plan.h"
#include "runtime/store/partials.h"

struct sl_transport_kind;

struct sl_transport {
    const struct sl_transport_kind *kind;
    const struct sl_transport_kind *within; /* with several ranks: that of rows between PEs of one */
    const struct sl_plan *plan;
    uint32_t
        n_sums; /* lists that the partial gradients of one parameter of one replica are in, each of PEs that live together */
    uint32_t n_parameters; /* of one replica */
    uint32_t depth;        /* slots of the ring */
    void *own;             /* the kind's */
};

/* Something of PE `from` that PE `to` reads. */
struct sl_parcel {
    uint32_t from, to;
    starpu_data_handle_t
        *handle; /* what `from` has written; afterwards what `to` reads instead, which may be the same */
    starpu_data_handle_t
        *room; /* of a matrix: where it may arrive. The slot's, kept from step to step (sl_matrix_reshape,
                                   sl_matrix_keep); may be NULL yet */
    uint32_t n_rows, n_columns; /* of the matrix */
    size_t element;             /* bytes of its numbers */
};

/* What is shared. */
enum sl_topic {
    SL_TOPIC_REQUEST,
    SL_TOPIC_COUNTS,
    SL_TOPIC_MOMENTS,
    SL_TOPIC_SUMS,
    SL_TOPIC_GRADIENT,
    SL_TOPIC_WEIGHT,
    SL_TOPIC_AVERAGE,
    SL_TOPIC_STATE,
    SL_N_TOPICS
};

/* Something that PE `from` has written and all PEs of a range of ranks read. The topic, the PE, the number, the task's hop and, where it
 * is of a slot, the slot name one handle for the run. */
struct sl_shared {
    enum sl_topic topic;
    bool of_slot;
    uint32_t from;
    uint32_t number; /* below 2^20 */
    struct sl_rank_range to;
    starpu_data_handle_t handle;
};

/* Ranks add their partials one after the other. By turns, where one process would not have all of a rank's in a row: in turn t each rank
 * adds those of its list before number end[t] that it has not yet added. */
struct sl_transport_turns {
    uint32_t n;
    const uint32_t *end;
};

/* The partial gradients of parameter number `parameter` of a replica, in the transport's n_sums lists, and where their sum goes. */
struct sl_transport_sum {
    uint32_t parameter, replica;
    struct sl_rank_range ranks;             /* who add, and learn the sum; this is one of them */
    const struct sl_transport_turns *turns; /* NULL: each has one */
    const struct sl_partials *lists;
    starpu_data_handle_t sum;
};

#define SL_TRANSPORT_LOSSES 2

/* Losses, and where their sum goes at all ranks. */
struct sl_transport_losses {
    uint32_t number;                        /* below SL_TRANSPORT_LOSSES, of those of one step */
    struct sl_rank_range ranks;             /* who add */
    const struct sl_transport_turns *turns; /* NULL: each has one */
    const struct sl_partials *partials;
    bool watched; /* a sum that is no finite number does not end the run (codelets/loss.h) */
    starpu_data_handle_t total;
};

struct sl_transport_kind {
    const char *name;
    enum sl_status (*check)(const struct sl_settings *settings); /* NULL: nothing to refuse */
    enum sl_status (*open)(struct sl_transport *transport);      /* NULL, as close: nothing to open */
    void (*close)(struct sl_transport *transport);
    enum sl_status (*rows)(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                           uint32_t n, struct sl_parcel *parcels);
    enum sl_status (*sum)(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *sum);
    enum sl_status (*loss)(struct sl_transport *transport, const struct sl_task_args *head,
                           const struct sl_transport_losses *losses);
    enum sl_status (*settle)(struct sl_transport *transport, uint32_t begin, uint32_t end,
                             double *losses); /* NULL: nothing to do */
    /* NULL: all PEs are of this process, and what one has written the others read */
    enum sl_status (*share)(struct sl_transport *transport, const struct sl_task_args *head,
                            const struct sl_shared *shared);
    enum sl_status (*reuse)(const struct sl_transport *transport, uint32_t from, uint32_t to,
                            starpu_data_handle_t handle);
};

/* StarPU copies what a task reads to where the task runs: nothing to do but the sums (starpu.c). NCCL between GPUs (nccl.c). MPI between
 * ranks (mpi.c), and within one either of these for rows. */
extern const struct sl_transport_kind sl_transport_starpu, sl_transport_nccl, sl_transport_mpi;

/* The loss of a kind whose PEs are all of this process: one task. */
enum sl_status sl_transport_loss_here(struct sl_transport *transport, const struct sl_task_args *head,
                                      const struct sl_transport_losses *losses);

/* Refuse settings whose --transport cannot be, before anything is started. SL_EINVAL, SL_ENOTSUP. */
enum sl_status sl_transport_check(const struct sl_settings *settings);

/* Open the transport of --transport; StarPU is up. The plan is borrowed. n_parameters: of a replica. As sl_nccl_lane_open; on failure
 * *out is empty. */
enum sl_status sl_transport_open(const struct sl_settings *settings, const struct sl_plan *plan, uint32_t n_parameters,
                                 struct sl_transport *out);

/* Wait for its tasks, release. An empty struct is allowed. */
void sl_transport_close(struct sl_transport *transport);

/* The list that PE p's partial gradients belong to. */
static inline uint32_t sl_transport_list_of(const struct sl_transport *transport, uint32_t p)
{
    return transport->n_sums == 1 ? 0 : sl_home_of(&transport->plan->homes, p);
}

/* ---- the operations; SL_EINVAL, SL_ESTARPU, SL_ENOMEM ---- */

static inline enum sl_status sl_transport_share(struct sl_transport *transport, const struct sl_task_args *head,
                                                const struct sl_shared *shared)
{
    if (transport->kind->share == NULL) {
        return SL_OK;
    }
    return transport->kind->share(transport, head, shared);
}

/* A handle that has carried a parcel, or NULL, is about to be given another shape, for the next: wait until it has left. */
static inline enum sl_status sl_transport_reuse(const struct sl_transport *transport, uint32_t from, uint32_t to,
                                                starpu_data_handle_t handle)
{
    if (transport->kind->reuse == NULL) {
        return SL_OK;
    }
    return transport->kind->reuse(transport, from, to, handle);
}

/* All parcels of one group, hop and direction. stage: whose time it is. */
static inline enum sl_status sl_transport_rows(struct sl_transport *transport, const struct sl_task_args *head,
                                               enum sl_stage stage, uint32_t n, struct sl_parcel *parcels)
{
    return transport->kind->rows(transport, head, stage, n, parcels);
}

static inline enum sl_status sl_transport_add(struct sl_transport *transport, const struct sl_task_args *head,
                                              const struct sl_transport_sum *sum)
{
    return transport->kind->sum(transport, head, sum);
}

/* The losses of all PEs and chunks become one, which all ranks get; of ranks that are apart (sl_plan_decoupled) each gets its own PEs' until
 * sl_transport_settle. */
static inline enum sl_status sl_transport_loss(struct sl_transport *transport, const struct sl_task_args *head,
                                               const struct sl_transport_losses *losses)
{
    return transport->kind->loss(transport, head, losses);
}

/* losses[begin .. end - 1] of an epoch's steps become those of all PEs, at all ranks, to the bit as one process adds them up. All ranks
 * call, after sl_ranks_drain; every step once. SL_EIO, SL_EINVAL, SL_ENOMEM. */
static inline enum sl_status sl_transport_settle(struct sl_transport *transport, uint32_t begin, uint32_t end,
                                                 double *losses)
{
    if (transport->kind->settle == NULL) {
        return SL_OK;
    }
    return transport->kind->settle(transport, begin, end, losses);
}

#endif
