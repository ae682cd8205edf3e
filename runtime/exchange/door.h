/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The door: all that travels from one PE to another in a step goes through it, and the step does not know what is behind.
 *
 *   ids   each PE asks the owners of its group for rows, by their ids
 *   rows  owners send what they were asked for, and get its gradients back
 *   sums  the partial gradients of a parameter become one
 *
 * What is behind is a kind (--transport): a file with a table of operations. One thread calls, in the order of a step's stages.
 */
#ifndef SL_RUNTIME_EXCHANGE_DOOR_H
#define SL_RUNTIME_EXCHANGE_DOOR_H

#include "codelets/home.h"
#include "codelets/task.h"
#include "runtime/plan/plan.h"
#include "runtime/store/partials.h"

struct sl_door_kind;

struct sl_door {
    const struct sl_door_kind *kind;
    const struct sl_plan *plan;
    uint32_t
        n_sums; /* lists that the partial gradients of one parameter of one replica are in, each of PEs that live together */
    uint32_t n_parameters; /* of one replica */
    void *own;             /* the kind's */
};

/* Something of PE `from` that PE `to` reads. */
struct sl_parcel {
    uint32_t from, to;
    starpu_data_handle_t *what; /* what `from` has written; afterwards what `to` reads instead, which may be the same */
    starpu_data_handle_t
        *room; /* of a matrix: where it may arrive. The slot's, kept from step to step (sl_matrix_reshape,
                                   sl_matrix_keep); may be NULL yet */
};

/* The partial gradients of parameter number `parameter` of a replica, in the door's n_sums lists, and where their sum goes. */
struct sl_door_sum {
    uint32_t parameter;
    const struct sl_partials *lists;
    starpu_data_handle_t sum;
};

struct sl_door_kind {
    const char *name;
    enum sl_status (*check)(const struct sl_settings *settings); /* NULL: nothing to refuse */
    enum sl_status (*open)(struct sl_door *door);                /* NULL, as close: nothing to open */
    void (*close)(struct sl_door *door);
    enum sl_status (*ids)(struct sl_door *door, const struct sl_task_args *head, uint32_t n, struct sl_parcel *parcels);
    enum sl_status (*rows)(struct sl_door *door, const struct sl_task_args *head, enum sl_stage stage, uint32_t n,
                           struct sl_parcel *parcels);
    enum sl_status (*sum)(struct sl_door *door, const struct sl_task_args *head, const struct sl_door_sum *sum);
};

/* StarPU copies what a task reads to where the task runs: nothing to do but the sum (starpu.c). NCCL between GPUs (nccl.c). */
extern const struct sl_door_kind sl_door_starpu, sl_door_nccl;

/* Nothing has to move for PE `to` to read it: the ids or rows of a kind that leaves them to StarPU. */
enum sl_status sl_door_ids_stay(struct sl_door *door, const struct sl_task_args *head, uint32_t n,
                                struct sl_parcel *parcels);

/* Refuse settings whose --transport cannot be, before anything is started. SL_EINVAL, SL_ENOTSUP. */
enum sl_status sl_door_check(const struct sl_settings *settings);

/* Open the door of --transport; StarPU is up. The plan is borrowed. n_parameters: of a replica. As sl_transport_open; on failure
 * *out is empty. */
enum sl_status sl_door_open(const struct sl_settings *settings, const struct sl_plan *plan, uint32_t n_parameters,
                            struct sl_door *out);

/* Wait for its tasks, release. An empty struct is allowed. */
void sl_door_close(struct sl_door *door);

/* The list that PE p's partial gradients belong to. */
static inline uint32_t sl_door_list_of(const struct sl_door *door, uint32_t p)
{
    return door->n_sums == 1 ? 0 : sl_home_of(&door->plan->homes, p);
}

/* ---- the operations; SL_EINVAL, SL_ESTARPU, SL_ENOMEM ---- */

/* Each parcel is what a PE asks of an owner. */
static inline enum sl_status sl_door_ids(struct sl_door *door, const struct sl_task_args *head, uint32_t n,
                                         struct sl_parcel *parcels)
{
    return door->kind->ids(door, head, n, parcels);
}

/* All parcels of one group, hop and direction. stage: whose time it is. */
static inline enum sl_status sl_door_rows(struct sl_door *door, const struct sl_task_args *head, enum sl_stage stage,
                                          uint32_t n, struct sl_parcel *parcels)
{
    return door->kind->rows(door, head, stage, n, parcels);
}

static inline enum sl_status sl_door_add(struct sl_door *door, const struct sl_task_args *head,
                                         const struct sl_door_sum *sum)
{
    return door->kind->sum(door, head, sum);
}

#endif
