/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which blocks of the pool (runtime/machine/pool.h) the rows of a run come to take: as the passes shape them and are done with them
 * (runtime/model, runtime/minibatch, runtime/full), chunk by chunk.
 */
#ifndef SL_RUNTIME_TRAIN_ROW_NEED_H
#define SL_RUNTIME_TRAIN_ROW_NEED_H

#include "runtime/machine/pool.h"
#include "runtime/model/layer.h"
#include "runtime/train/reach.h"

/* Numbers of blocks, by class. */
struct sl_blocks {
    double n[SL_POOL_CLASSES];
};

/* What rows are of; borrowed. */
struct sl_row_basis {
    const struct sl_settings *settings;
    const struct sl_model *model;
    const struct sl_reach *reach;
    double n_vertices;
    double n_workers;
    double n_per_epoch; /* steps */
    double boundary;    /* share of the vertices that have a neighbour in another part */
    bool sparse;        /* features, which no step gathers then */
};

/* Of training by minibatches, at the most at a time. kept: rows that all slots keep. passing: the input rows of the steps whose
 * gathering is submitted, and what is summed of them before any weight is read; and, of one step, the way forward as far as a layer,
 * with that layer's way back. */
void sl_row_need_step(const struct sl_row_basis *basis, struct sl_blocks *kept, struct sl_blocks *passing);

/* Of training on the full graph: the way forward of all chunks and layers, of which --recompute leaves some outputs and, where there are
 * several slots, packed rows (runtime/pipe/boundary.h); gradients of what is in hand; and what one chunk had while layers were timed, for
 * which those do not serve. */
void sl_row_need_pipe(const struct sl_row_basis *basis, struct sl_blocks *out);

/* Bytes of those rows that are history, which an evaluation finds in use. */
double sl_row_need_history(const struct sl_row_basis *basis);

/* Of an evaluation: what a layer takes in and gives, and rows in between, of which those of the chunks at work are there; but sums that
 * begin with the first layer's output, those of all layers. */
void sl_row_need_evaluation(const struct sl_row_basis *basis, struct sl_blocks *out);

/* Chunks of an evaluation. */
double sl_row_need_chunks(const struct sl_row_basis *basis);

/* Whether the run's pool lends blocks to sizes near theirs alone (sl_pool_borrow_near_only). */
bool sl_row_need_near(const struct sl_row_basis *basis);

/* Their bytes. */
double sl_blocks_bytes(const struct sl_blocks *blocks);

/* The bytes of those of `wanted` for which none of `there`, given free before, may serve; near: sl_row_need_near. */
double sl_blocks_unserved(const struct sl_blocks *wanted, const struct sl_blocks *there, bool near);

#endif
