/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One epoch of GNNPipe (Chen, Chen, Qian 2023) as StarPU tasks. The full graph is cut into K graph chunks. A pipeline
 * slot takes W chunks, one from each way (chunk_graph.h), through all layers; then comes the next slot. There is no
 * barrier between slots: a chunk's tasks of a layer run as soon as their rows exist. So the layers of different
 * stages work on several slots at a time.
 *
 * When chunk q aggregates, it reads the travelling rows of chunk s. They are
 *   fresh       if slot(s) <= slot(q): rows of this epoch;
 *   historical  if slot(s) > slot(q): rows of epoch floor(e/R) R - 1, or none if this is -1. Historical rows have no
 *               gradient.
 * The adjoint multiplies gradients from a later slot by the gradient factor, and gradients from the same slot by 1
 * (technique 2). With a single slot (K = W) all rows are fresh, and training is exact.
 *
 * The order of chunks and R change results. Stages and the schedule do not. Products and sums over a chunk's rows run
 * piece by piece (partition/partition.h), and pieces are added in the order of their ids within a slot. So with one
 * slot, any cut of the same pieces into chunks gives the same bits.
 *
 * With --precision bf16, all rows that sums and products read are bf16: also history, and the gradients that sums of
 * the backward pass read (SL_ROWS_GBACK). The chunk that computes a gradient rounds it once. Gradients that stay in
 * the chunk are rounded, too. So neither the chunks of a slot nor the way rows are kept change a bit.
 *
 * Memory. Historical rows are not copied: the rows of the snapshot's epoch stay in place. Rows are freed once
 * backward has read them. With --recompute a slot keeps only the input of each stage and, for other chunks, its
 * boundary rows of the travelling rows (boundary.h). The backward pass computes the remaining rows again, segment by
 * segment (recompute.h). After the first history, each layer has two arrays of
 * boundary rows: the history, and the travelling rows. In the backward pass, gradients replace the travelling rows. In
 * an epoch that makes a new history, the two arrays are the travelling rows and the sums of boundary vertices (pipe.h).
 * The forward pass frees the old history chunk by chunk.
 */
#ifndef SL_RUNTIME_PIPE_EPOCH_H
#define SL_RUNTIME_PIPE_EPOCH_H

#include "codelets/ends/optimize.h"
#include "runtime/pipe/pipe.h"

/* Prepare full-graph training. The plan's parts are the chunks. Collective with several ranks. SL_EINVAL, SL_ENOMEM,
 * SL_EIO. On failure *out is empty. */
enum sl_status sl_pipe_open(const struct sl_work *work, struct sl_pipe *out);

/* Wait for the tasks, free everything. An empty struct is allowed. */
void sl_pipe_close(struct sl_pipe *pipe);

/* Submit an epoch: forward, loss, backward, Adam. The caller has drawn the order of chunks (sl_pipe_order_draw).
 * loss: one double, the mean over the training vertices. exact: one double, the loss with fresh rows only
 * (exact_loss.h), or NULL. A single thread submits, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_epoch(struct sl_pipe *pipe, uint64_t epoch, const struct sl_adam *adam,
                             starpu_data_handle_t loss, starpu_data_handle_t exact);

/* Measure the seconds of each layer. The largest chunk of this rank goes forward and backward by itself; the call
 * waits after each layer. The parameters stay as they are. Rows exist for this chunk only, and are freed at the end. No
 * task may be running. SL_EINVAL, SL_ESTARPU, SL_ENOMEM, the failure of a task. */
enum sl_status sl_pipe_time(struct sl_pipe *pipe, double *seconds_out);

#endif
