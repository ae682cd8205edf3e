/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One epoch of GNNPipe (Chen, Chen, Qian 2023) as StarPU tasks: the full graph in K chunks, layers one after the other over the chunks of a
 * slot (order.h), slots one after the other. There is no barrier between them: a chunk's tasks of a layer run as soon as their rows are
 * there, so that layers, which stages of the pipeline have, work on several slots at a time.
 *
 * An aggregation reads what travels of chunk s at a chunk q
 *   fresh       where slot(s) <= slot(q): rows of this epoch
 *   historical  where slot(s) > slot(q): rows of epoch floor(e/R) R - 1, none where that is -1, without a gradient
 * and the adjoint multiplies what comes from a later slot by the gradient factor, what comes from the same one by 1 (technique 2). With
 * one slot (K = W) all is fresh, and training exact. Stages and the schedule change no figure: the order and R do. What is multiplied, or
 * summed over a chunk's rows, is so piece by piece (partition/partition.h), and pieces are added in the order of their ids within a slot:
 * in one slot any number of chunks that are runs of the same pieces gives the same bits.
 *
 * Rows in bf16 (--precision) are those that sums and products read, and so are history and, rounded once by the chunk that has them, the
 * gradients that sums of the way back read (SL_ROWS_GBACK): all of them, a chunk's own, too, so that neither which chunks there are in a
 * slot nor how their rows are kept changes a bit.
 *
 * Memory: historical rows are not copied: those of a snapshot's epoch stay where they are. What backward has read is given back. With
 * --recompute a slot keeps what each stage takes in and, for other slots, its boundary rows of what travels (boundary.h), and has the
 * rest computed again, segment by segment (recompute.h), on the way back. Once there is a history there are two arrays of boundary
 * rows of all layers, that and what travels, whose place gradients take on the way back; or, in an epoch that makes a new history,
 * that and the sums of boundary vertices (pipe.h), for which the old one goes chunk by chunk on the way forward.
 */
#ifndef SL_RUNTIME_PIPE_EPOCH_H
#define SL_RUNTIME_PIPE_EPOCH_H

#include "codelets/optimize.h"
#include "runtime/pipe/pipe.h"

/* Prepare; the plan is of parts (sl_plan_of_parts) as many as chunks. SL_EINVAL, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_pipe_open(const struct sl_work *work, struct sl_pipe *out);

/* Whether handles of rows are kept from epoch to epoch: where memory is not what rules, as that saves a sixth of the time on Cora, and would
 * take twice the memory on graphs ten times as large. */
bool sl_pipe_keeps(const struct sl_settings *settings, uint32_t n_layers, double n_vertices);

/* How many tasks may be left when a further slot is submitted: those of two, and of a chunk for each worker. One process. */
double sl_pipe_tasks(uint32_t n_layers, uint32_t n_ways, uint32_t n_workers);

/* Wait for the tasks, release. An empty struct is allowed. */
void sl_pipe_close(struct sl_pipe *pipe);

/* Submit an epoch, whose order is drawn: forward, loss (one double, the mean over the training vertices), backward, Adam. One thread, in order.
 * exact: the loss with fresh rows only (exact.h), or NULL.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_epoch(struct sl_pipe *pipe, uint64_t epoch, const struct sl_adam *adam,
                             starpu_data_handle_t loss, starpu_data_handle_t exact);

/* Forward and back of the largest chunk by itself, layer by layer, waiting for each: the seconds of each layer. Nothing is learned, no
 * row is kept, and there is never more than one chunk's. No task is running. SL_EINVAL, SL_ESTARPU, SL_ENOMEM, and the tasks' own. */
enum sl_status sl_pipe_time(struct sl_pipe *pipe, double *seconds_out);

#endif
