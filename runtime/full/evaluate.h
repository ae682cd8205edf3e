/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Exact inference, layer by layer, over all in-neighbours, without sampling. OGB defines its scores in the same way. It
 * runs training's codelets over whole parts in chunks, or over the vertices that the scores need.
 */
#ifndef SL_RUNTIME_FULL_EVALUATE_H
#define SL_RUNTIME_FULL_EVALUATE_H

#include "runtime/model/model.h"
#include "runtime/objective/objective.h"
#include "runtime/store/shards.h"
#include "tasks/rows.h"

/* The vertices that this rank evaluates, by renumbered id: first .. first + n - 1. With one rank: all vertices. */
struct sl_evaluated {
    sl_vertex first;
    uint32_t n;
};
struct sl_evaluated sl_evaluated_here(const struct sl_shards *shards);

struct sl_chosen;       /* runtime/objective/collect.h */
struct sl_score_sample; /* runtime/full/needed.h */

/* The caller's room for rows. NULL: not wanted. */
struct sl_inference {
    /* Rows of the vertices that this rank evaluates, by ascending id. scores [n x n_outputs]: outputs of the last
     * layer. hidden [n x hidden units]: the rows that the last layer reads. Of a model of links these are the outputs,
     * as the decoder is its last layer. A model with one layer has none. */
    sl_real *scores, *hidden;
    /* Of chosen vertices, the same ones; sl_chosen_number has made the room. */
    struct sl_chosen *chosen_scores, *chosen_hidden;
    /* Sums read samples of in-neighbours. Then no rows of all vertices are wanted, one rank evaluates, and no GPU does
     * (struct sl_run.evaluate_on_cpus). NULL: all in-neighbours. */
    const struct sl_score_sample *sample;
};

/* Run the model on all vertices and score it. A single rank without GPUs runs fewer vertices if only scores are wanted,
 * or only rows of chosen vertices: those that are needed (runtime/full/needed.h). The bits are the same. Collective:
 * with several ranks each has the same parameters and runs its own parts, and each gets the scores. Reads the
 * parameters as earlier submitted tasks leave them. Waits for its own tasks. Seconds of work count in the time
 * category SL_STAGE_EVALUATE.
 *
 * The objective of the shards defines the scores (runtime/objective). An empty set scores NaN. scores_out NULL: not
 * wanted. Returns the failure of a task, SL_ESTARPU, SL_ENOMEM or SL_EINVAL; SL_EIO with several ranks. */
enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_scores *scores_out);

/* Cut one of n_parts parts into chunks. Each operation has a task per chunk. A chunk has 2^SL_EVALUATE_SHIFT rows, so
 * that all CPU workers get tasks. If only GPUs evaluate, it has 2^SL_EVALUATE_GPU_SHIFT rows: a kernel over 2048 rows
 * takes less time than StarPU needs for the task, and the scheduler (dmdas) searches all waiting tasks. Chunks are
 * larger if a part would have too many of them. */
#define SL_EVALUATE_SHIFT 11
#define SL_EVALUATE_GPU_SHIFT 15
struct sl_split sl_evaluate_split(const struct sl_run *run, uint32_t n_parts, uint32_t n_rows);

/* Number of column slices in which a layer receives remote rows. Slices bound the memory for remote rows. A slice has
 * about SL_FULL_COLUMNS columns, as narrower slices would spend more time on finding rows than on adding them; it is
 * wider if the layer would need more than SL_HALO_SLICES slices. Attention needs all columns at once: 1. */
#define SL_FULL_COLUMNS 64
uint32_t sl_full_slices(const struct sl_layer *layer);

#endif
