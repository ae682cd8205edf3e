/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counts of pool blocks (runtime/machine/pool.h) for the rows of a run. The counts follow the passes
 * (runtime/model, runtime/minibatch, runtime/full) chunk by chunk.
 */
#ifndef SL_RUNTIME_TRAIN_ROW_NEED_H
#define SL_RUNTIME_TRAIN_ROW_NEED_H

#include "runtime/machine/pool.h"
#include "runtime/model/layer.h"
#include "runtime/train/reach.h"

/* Number of blocks of each size class. */
struct sl_blocks {
    double n[SL_POOL_CLASSES];
};

/* Inputs of the counts; borrowed. */
struct sl_row_basis {
    const struct sl_settings *settings;
    const struct sl_model *model;
    const struct sl_reach *reach;
    double n_vertices;
    double n_workers;
    double n_per_epoch; /* steps of an epoch */
    double boundary;    /* fraction of the vertices with a neighbour in another part */
    bool sparse;        /* sparse features: steps gather no feature rows */
};

/* Training with minibatches: the most blocks at a time.
 * kept: rows with permanent handles, in all ring slots.
 * passing: two kinds of rows. First, the input rows of all steps with a submitted gather, and sums of input rows
 * without a weight. Second, for one step, forward rows up to a layer and the backward rows of this layer. */
void sl_row_need_step(const struct sl_row_basis *basis, struct sl_blocks *kept, struct sl_blocks *passing);

/* Full-graph training: the most blocks at a time. Counted are
 * - forward rows of all chunks and layers. With --recompute: only some layer outputs, plus packed boundary rows
 *   (runtime/pipe/boundary.h) if there are several pipeline slots.
 * - gradients of the chunks in progress.
 * - rows of the chunk for timing the layers, unless a counted block has room for them. */
void sl_row_need_pipe(const struct sl_row_basis *basis, struct sl_blocks *out);

/* Bytes of the history rows of full-graph training. These rows stay in memory during an evaluation. */
double sl_row_need_history(const struct sl_row_basis *basis);

/* An evaluation: the most blocks at a time. Counted are the input and output rows of a layer for all chunks, and the
 * rows in between for the chunks in progress. Start values from the first layer's output are counted for all layers. */
void sl_row_need_evaluation(const struct sl_row_basis *basis, struct sl_blocks *out);

/* The number of chunks of an evaluation. */
double sl_row_need_chunks(const struct sl_row_basis *basis);

/* Whether the run calls sl_pool_borrow_near_only(true). */
bool sl_row_need_near(const struct sl_row_basis *basis);

/* The total size of the blocks in bytes. */
double sl_blocks_bytes(const struct sl_blocks *blocks);

/* The total bytes of blocks in `wanted` without a matching free block in `there`. near: sl_row_need_near. */
double sl_blocks_unserved(const struct sl_blocks *wanted, const struct sl_blocks *there, bool near);

/* `number` if the condition is true, else 0. */
static inline double sl_if_so(bool condition, double number)
{
    return condition ? number : 0;
}

#endif
