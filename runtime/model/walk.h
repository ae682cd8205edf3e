/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The memory of a pass, before the pass runs. A walk goes through the layers and counts the declared rows
 * (runtime/model/layer_rows.h) that are alive, as blocks of the pool (runtime/machine/pool.h).
 */
#ifndef SL_RUNTIME_MODEL_WALK_H
#define SL_RUNTIME_MODEL_WALK_H

#include "runtime/machine/pool.h"
#include "runtime/model/layer.h"
#include "tasks/rows.h"

#define SL_HANDLE_BYTES 4096 /* StarPU's record of a handle */

/* Number of blocks of each size class, on average. */
struct sl_blocks {
    double n[SL_POOL_CLASSES];
};

/* How a pass runs. */
struct sl_walk {
    const struct sl_model *model;
    bool training;                            /* or an evaluation, in the layers' evaluation order */
    double n_pes;                             /* PEs with rows */
    struct sl_split split[SL_MAX_LAYERS + 1]; /* of a PE's rows, by level */
    struct sl_split fewer[SL_MAX_LAYERS + 1]; /* of slightly fewer rows, if its chunks are smaller: steps have both */
    double in_hand;                           /* evaluation: chunks in progress at a time, of all PEs */
    double kept;                              /* chunks of at most so many bytes keep their handles */
    double feature_bytes;                     /* of a gathered feature row */
    uint32_t gathered;                        /* the level of these rows */
    double ahead;                             /* training: steps that have such rows at a time */
    double n_slots;                           /* groups of PEs that pass one after the other; two run backward */
    uint32_t segment;                         /* layers that the backward pass computes again; 0: all rows stay */
    double n_packed;                          /* copies of the travelling rows, for other slots */
    bool rounds;                              /* returning gradients are rounded first (SL_ROWS_GBACK) */
};

/* Walk. Blocks in *pool are free at the start; the walk adds the blocks that it needs beside them. */
void sl_walk(const struct sl_walk *walk, struct sl_blocks *pool);

/* Bytes of all chunks that keep their handles, with StarPU's records. */
double sl_walk_kept(const struct sl_walk *walk);

/* Bytes of the blocks, with StarPU's records of their handles. */
double sl_blocks_bytes(const struct sl_blocks *blocks);

#endif
