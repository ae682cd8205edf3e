/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The transport carries all data between PEs in a step. The code of the step is the same for every kind of transport.
 *
 *   rows    an owner sends the rows that other PEs requested, and receives their gradients
 *   sums    the partial gradients of a parameter are added up
 *   shared  buffers that several PEs read: requests (ids of rows), sizes, sums of batch norm, replicas that mix
 *
 * The kind of a transport (--transport, and MPI with several ranks) is a file with a table of operations. One thread
 * calls, in the order of a step's operations. With several ranks, one thread of each rank makes the same calls in the
 * same order.
 */
#ifndef SL_RUNTIME_EXCHANGE_TRANSPORT_H
#define SL_RUNTIME_EXCHANGE_TRANSPORT_H

#include "runtime/plan/plan.h"
#include "runtime/store/partials.h"
#include "tasks/home.h"
#include "tasks/task.h"

struct sl_transport_kind;

struct sl_transport {
    const struct sl_transport_kind *kind;
    const struct sl_transport_kind *within; /* several ranks: the kind for rows between PEs of one rank */
    const struct sl_plan *plan;
    /* Number of lists of partial gradients, for one parameter of one replica. Each list has the partial
     * gradients of PEs of one home. */
    uint32_t n_sums;
    uint32_t n_parameters; /* parameters of one replica */
    uint32_t depth;        /* ring slots */
    /* The PE of leaf 0 of all sums (codelets/ends/tree.h), and the leaves of a PE. */
    uint32_t first_pe, n_leaves;
    void *own; /* data of the kind */
};

/* A buffer of PE `from` that PE `to` reads. */
struct sl_parcel {
    uint32_t from, to;
    /* In: the handle that `from` has written. Out: the handle that `to` must read, possibly the same. */
    starpu_data_handle_t *handle;
    /* Handle in which a matrix may arrive. It belongs to the ring slot and is kept from step to step
     * (sl_matrix_reshape, sl_matrix_keep). May be NULL at first. */
    starpu_data_handle_t *room;
    uint32_t n_rows, n_columns; /* shape of the matrix */
    enum sl_dtype dtype;
};

/* Kinds of shared buffers. */
enum sl_topic {
    SL_TOPIC_REQUEST,
    SL_TOPIC_CANDIDATES,
    SL_TOPIC_BOUNDS,
    SL_TOPIC_COUNTS,
    SL_TOPIC_MOMENTS,
    SL_TOPIC_SUMS,
    SL_TOPIC_GRADIENT,
    SL_TOPIC_WEIGHT,
    SL_TOPIC_AVERAGE,
    SL_TOPIC_STATE,
    SL_N_TOPICS
};

/* A buffer that PE `from` writes and all PEs of a range of ranks read. Topic, PE, number and the task's hop, and
 * with of_slot also the ring slot, identify one handle for the whole run. */
struct sl_shared {
    enum sl_topic topic;
    bool of_slot;
    uint32_t from;
    uint32_t number; /* below 2^20 */
    struct sl_rank_range to;
    starpu_data_handle_t handle;
};

/* The partial gradients of parameter `parameter` of a replica, in the transport's n_sums lists, and the handle for
 * their sum. */
struct sl_transport_sum {
    uint32_t parameter, replica;
    /* Ranks that add and get the sum; this rank is one of them. */
    struct sl_rank_range ranks;
    const struct sl_partials *lists;
    starpu_data_handle_t sum;
    bool notes; /* the lists note their touched rows, and lists->sum_touched gets the sum's (sums_here) */
    bool fresh; /* lists->sum_touched has not been written */
};

#define SL_TRANSPORT_LOSSES 2

/* Partial losses, and the handle for their sum. All ranks get the sum. */
struct sl_transport_losses {
    /* Index among the losses of one step, below SL_TRANSPORT_LOSSES. */
    uint32_t number;
    struct sl_rank_range ranks; /* ranks that add */
    const struct sl_partials *partials;
    /* A sum that is not finite does not end the run (codelets/ends/loss.h). */
    bool watched;
    starpu_data_handle_t total;
};

struct sl_transport_kind {
    const char *name;
    /* `sum` is one task. It can read only the touched rows of partials, and Adam's task can do its work. */
    bool sums_here;
    enum sl_status (*check)(const struct sl_settings *settings); /* NULL: accepts all settings */
    enum sl_status (*open)(struct sl_transport *transport);      /* NULL, also `close`: nothing to open */
    void (*close)(struct sl_transport *transport);
    enum sl_status (*rows)(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                           uint32_t n, struct sl_parcel *parcels);
    enum sl_status (*sum)(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *sum);
    enum sl_status (*loss)(struct sl_transport *transport, const struct sl_task_args *head,
                           const struct sl_transport_losses *losses);
    enum sl_status (*settle)(struct sl_transport *transport, uint32_t begin, uint32_t end,
                             double *losses); /* NULL: nothing to do */
    /* NULL: all PEs belong to this process and can read each other's handles. */
    enum sl_status (*share)(struct sl_transport *transport, const struct sl_task_args *head,
                            const struct sl_shared *shared);
    enum sl_status (*reuse)(const struct sl_transport *transport, uint32_t from, uint32_t to,
                            starpu_data_handle_t handle);
};

/* starpu: StarPU copies data to the device of the task that reads them, so only sums are left to do (transport.c).
 * nccl: between GPUs (nccl_transport.c). mpi: between ranks; starpu or nccl carries rows inside a rank (mpi.c). */
extern const struct sl_transport_kind sl_transport_starpu, sl_transport_nccl, sl_transport_mpi;

/* `loss` of a kind whose PEs all belong to this process: one task. */
enum sl_status sl_transport_loss_here(struct sl_transport *transport, const struct sl_task_args *head,
                                      const struct sl_transport_losses *losses);

/* Reject settings whose --transport is not possible, before anything starts. SL_EINVAL, SL_ENOTSUP. */
enum sl_status sl_transport_check(const struct sl_settings *settings);

/* Open the transport of --transport. StarPU is running. The plan is borrowed. n_parameters: parameters of one
 * replica. Errors of sl_nccl_lane_open. On failure *out is empty. */
enum sl_status sl_transport_open(const struct sl_settings *settings, const struct sl_plan *plan, uint32_t n_parameters,
                                 struct sl_transport *out);

/* Wait for the transport's tasks, then release it. An empty struct is allowed. */
void sl_transport_close(struct sl_transport *transport);

/* The list for the partial gradients of PE p. */
static inline uint32_t sl_transport_list_of(const struct sl_transport *transport, uint32_t p)
{
    return transport->n_sums == 1 ? 0 : sl_home_of(&transport->plan->homes, p);
}

/* ---- the operations: all ranks that take part call in the same order; SL_EINVAL, SL_ESTARPU, SL_ENOMEM ---- */

static inline enum sl_status sl_transport_share(struct sl_transport *transport, const struct sl_task_args *head,
                                                const struct sl_shared *shared)
{
    if (transport->kind->share == NULL) {
        return SL_OK;
    }
    return transport->kind->share(transport, head, shared);
}

/* Wait until the last parcel in this handle has been sent. Call it before the handle gets another shape for the next
 * parcel. NULL is allowed. */
static inline enum sl_status sl_transport_reuse(const struct sl_transport *transport, uint32_t from, uint32_t to,
                                                starpu_data_handle_t handle)
{
    if (transport->kind->reuse == NULL) {
        return SL_OK;
    }
    return transport->kind->reuse(transport, from, to, handle);
}

/* Carry all parcels of one group, hop and direction. stage: time category. */
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

/* Add up the losses of all PEs and chunks; all ranks get the sum. Between decoupled ranks (sl_plan_decoupled) each
 * rank gets the sum of its own PEs until sl_transport_settle. */
static inline enum sl_status sl_transport_loss(struct sl_transport *transport, const struct sl_task_args *head,
                                               const struct sl_transport_losses *losses)
{
    return transport->kind->loss(transport, head, losses);
}

/* Replace losses[begin .. end - 1], the losses of steps of an epoch, by the losses of all PEs, on all ranks. The
 * losses have the bits of one process. Collective, after sl_ranks_drain. Call once for each step. SL_EIO, SL_EINVAL,
 * SL_ENOMEM. */
static inline enum sl_status sl_transport_settle(struct sl_transport *transport, uint32_t begin, uint32_t end,
                                                 double *losses)
{
    if (transport->kind->settle == NULL) {
        return SL_OK;
    }
    return transport->kind->settle(transport, begin, end, losses);
}

/* Connect n_gpus GPUs and attach them to the transport. devices: CUDA device numbers; nodes: StarPU memory nodes.
 * The transport's open calls this with the GPUs that StarPU drives. The plan must have as many homes. Errors of
 * sl_nccl_lane_open. */
enum sl_status sl_transport_nccl_connect(struct sl_transport *transport, uint32_t n_gpus, const int *devices,
                                         const int *nodes);

#endif
