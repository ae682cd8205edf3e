/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How rows, row gradients and weight gradients move between GPUs.
 *
 *   --transport starpu  no tasks: StarPU copies a buffer to the device of the task that reads it
 *   --transport nccl    the two tasks below. Each PE lives on a GPU (tasks/home.h). StarPU first brings the data
 *                       that a PE sends to its GPU's memory. Data arrive in the receiving PE's GPU memory
 *
 *   move  before: pack (codelets/sampling/exchange.h) or packing of row gradients (codelets/sums/aggregate.h)
 *         after:  aggregate, accumulate
 *   sum   before: codelets/ends/reduce.h has added the partial sums of each GPU's PEs
 *         after:  codelets/ends/optimize.h
 *
 * Both tasks run on a CPU worker, which calls NCCL for all GPUs at once (tasks/nccl.h) and waits. StarPU starts
 * the task when all its buffers are in the right memory, so no GPU waits for data that another GPU has yet to
 * compute. Dependent tasks start when the data have arrived. All these tasks access one more handle, the lane, in
 * mode RW. They therefore run one at a time, in the order of submission.
 *
 * The first GPU has the sum over GPUs, and the optimiser reads it there. StarPU then copies the new weights to the
 * other GPUs, which completes the all-reduce. Only one copy of the weights is updated. Ids and the sums of batch
 * norm stay with StarPU; the number of ids is known on the device only.
 */
#ifndef SL_TASKS_NCCL_LANE_H
#define SL_TASKS_NCCL_LANE_H

#include "tasks/nccl.h"
#include "tasks/task.h"

struct sl_nccl_lane_codelet;

struct sl_nccl_lane {
    uint32_t n_gpus;
    struct sl_nccl *nccl;
    int node[SL_NCCL_MAX_GPUS]; /* StarPU's memory node of each GPU */
    starpu_data_handle_t lane;
    /* One codelet for each list of memory nodes that a task has used: StarPU reads the nodes from the codelet. */
    struct sl_nccl_lane_codelet *codelets;
};

/* Connect n GPUs. devices: their CUDA device numbers; nodes: their StarPU memory nodes. timeout_s: limit of each
 * operation, in seconds. StarPU is running. Errors of sl_nccl_open. On failure *out is empty. */
enum sl_status sl_nccl_lane_open(uint32_t n_gpus, const int *devices, const int *nodes, double timeout_s,
                                 struct sl_nccl_lane *out);

/* Wait for the lane's tasks, then release it. An empty struct is allowed. */
void sl_nccl_lane_close(struct sl_nccl_lane *lane);

/* A copy of the matrix `source`, on GPU `from`, to `target`, on GPU `to`. Both have the same shape and dtype. */
struct sl_nccl_lane_move {
    uint32_t from, to;
    starpu_data_handle_t source, target;
};

/* Submit n >= 1 moves as one task, counted under time category `stage`. One thread submits, in the order in which
 * the tasks are to run. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_nccl_lane_move_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane, enum sl_stage stage,
                                        uint32_t n, const struct sl_nccl_lane_move *moves);

/* Submit out = sum over GPUs of share[gpu]. `out` is on the first GPU, share[gpu] on its own GPU; all have one
 * shape. Errors as above. */
enum sl_status sl_nccl_lane_sum_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane,
                                       const starpu_data_handle_t *share, starpu_data_handle_t out);

#endif
