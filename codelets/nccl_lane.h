/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Between stages 6 and 7, and in 10 and 11: how rows, row gradients and gradients get from one GPU to another.
 *
 *   --transport starpu  there are no tasks for it: StarPU copies a buffer to the device of the task that reads it
 *   --transport nccl    the two tasks below. PEs live on GPUs (codelets/home.h); what one sends is wanted in its GPU's
 *                       memory (StarPU brings it there if it is elsewhere), and so is what it gets in its own
 *
 * move  before: pack (codelets/exchange.h) or the packing of row gradients (codelets/aggregate.h)   after: aggregate, accumulate
 * sum   before: codelets/reduce.h has added up the partials of each GPU's PEs                       after: codelets/optimize.h
 *
 * Both run on a CPU worker, which calls NCCL for all GPUs at once (codelets/nccl.h) and waits: StarPU starts such a task when all
 * its buffers lie where they are wanted, and what depends on it when they have arrived, so that no GPU waits for
 * data that another has still to compute. All of them read and write one more handle, the lane: they run one after the other, in the order of submission.
 *
 * The sum over GPUs goes to the first of them, where the optimiser finds it; StarPU copies the new weights to the others, which
 * completes the all-reduce, and there is one copy of the weights to keep right. Ids, whose number only the device knows, and what
 * batch norm sums stay with StarPU.
 */
#ifndef SL_CODELETS_NCCL_LANE_H
#define SL_CODELETS_NCCL_LANE_H

#include "codelets/nccl.h"
#include "codelets/task.h"

struct sl_nccl_lane_codelet;

struct sl_nccl_lane {
    uint32_t n_gpus;
    struct sl_nccl *nccl;
    int node[SL_NCCL_MAX_GPUS]; /* StarPU's memory node of each GPU */
    starpu_data_handle_t lane;
    struct sl_nccl_lane_codelet
        *codelets; /* one for each list of nodes that a task had so far: StarPU asks the codelet */
};

/* Connect n GPUs: CUDA's numbers of them, and StarPU's memory nodes. timeout_s: of each operation. StarPU is up.
 * As sl_nccl_open, and SL_EINVAL, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_nccl_lane_open(uint32_t n_gpus, const int *devices, const int *nodes, double timeout_s,
                                 struct sl_nccl_lane *out);

/* Wait for its tasks, release. An empty struct is allowed. */
void sl_nccl_lane_close(struct sl_nccl_lane *lane);

/* A matrix of `source`, wanted on GPU `from`, to be copied into `target` on GPU `to`, of the same shape and numbers. */
struct sl_nccl_lane_move {
    uint32_t from, to;
    starpu_data_handle_t source, target;
};

/* Submit: all n >= 1 moves as one task. stage: whose time it is. One thread submits, in the order in which they are to run.
 * SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_nccl_lane_move_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane, enum sl_stage stage,
                                        uint32_t n, const struct sl_nccl_lane_move *moves);

/* Submit: `out`, on the first GPU, becomes the sum over GPUs of share[gpu], each on its own; all of one shape. */
enum sl_status sl_nccl_lane_sum_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane,
                                       const starpu_data_handle_t *share, starpu_data_handle_t out);

#endif
