/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The memory of a pass, before the pass runs. A walk goes through the layers forward and, in training, backward. At
 * each layer it counts the declared rows (runtime/model/rows.h) that are alive, as blocks of the pool
 * (runtime/machine/pool.h).
 */
#ifndef SL_RUNTIME_MODEL_WALK_H
#define SL_RUNTIME_MODEL_WALK_H

#include "runtime/machine/pool.h"
#include "runtime/model/layer.h"
#include "tasks/rows.h"

#define SL_HANDLE_BYTES 4096 /* StarPU's record of a handle */

/* Number of blocks of each size class. A block with untouched pages counts as a fraction. */
struct sl_blocks {
    double n[SL_POOL_CLASSES];
};

/* How a pass runs. The walks of steps, of graph chunks and of evaluations differ only here. */
struct sl_walk {
    const struct sl_model *model;
    /* The dtype of travelling rows. */
    enum sl_dtype row_dtype;
    /* A backward pass follows. Otherwise: the layers' evaluation order. */
    bool training;
    /* PEs, and the chunks of a PE's rows by level. */
    double n_pes;
    struct sl_split split[SL_MAX_LAYERS + 1];
    /* The split of slightly fewer rows, if its chunks are smaller: a run then has chunks of both sizes. Else empty. */
    struct sl_split fewer[SL_MAX_LAYERS + 1];
    /* Chunks in progress at a time, in evaluations. */
    double in_hand;
    /* Rows with permanent handles: matrices of at most `kept` bytes, in every ring slot. kept 0: no rows. */
    double kept;
    uint32_t ring;
    /* Bytes of a feature row, and the level of the gathered rows. 0: the first layer reads features in place. An
     * evaluation gathers all rows before its first sum or product. */
    double feature_bytes;
    uint32_t gathered;
    /* Training with minibatches: copies of the rows before the first weight. These rows are the gathered features, and
     * sums of features. */
    double ahead;
    /* The PEs pass in n_slots groups of equal size, a group after the other; n_back: groups with a backward pass in
     * progress. */
    double n_slots, n_back;
    /* Layers of a segment that the backward pass computes again. 0: all rows stay. */
    uint32_t segment;
    /* Slots read rows of other slots: in place, or as n_packed copies of the travelling rows. */
    bool in_place;
    double n_packed;
    /* Gradients that other chunks read are rounded first (SL_ROWS_GBACK). */
    bool rounds;
    /* As after sl_pool_borrow_near_only. */
    bool near;
};

/* Walk. Blocks in *pool are free at the start; the walk adds the blocks that it needs beside them. */
void sl_walk(const struct sl_walk *walk, struct sl_blocks *pool);

/* The blocks of all rows with permanent handles. */
void sl_walk_kept(const struct sl_walk *walk, struct sl_blocks *out);

/* Bytes of the blocks, with StarPU's records of their handles. */
double sl_blocks_bytes(const struct sl_blocks *blocks);

#endif
