/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All in-edges of all parts as the source of a pass (runtime/model/pass.h): every vertex, layer by layer, never a sample. A part is
 * a PE, cut into chunks.
 */
#ifndef SL_RUNTIME_FULL_FULL_H
#define SL_RUNTIME_FULL_FULL_H

#include "runtime/model/pass.h"

/* How one of n_parts parts is cut into chunks, each a task in every operation: of 2^SL_EVALUATE_SHIFT rows, so that all CPU workers have some; of
 * 2^SL_EVALUATE_GPU_SHIFT where GPUs alone evaluate, which have a kernel done in less time than StarPU needs for a task of 2048
 * rows, and whose scheduler (dmdas) looks through all chunks for each task that waits. Of more where there would be too many. */
#define SL_EVALUATE_SHIFT 11
#define SL_EVALUATE_GPU_SHIFT 15
struct sl_split sl_evaluate_split(const struct sl_run *run, uint32_t n_parts, uint32_t n_rows);

/* In how many slices of its columns a layer takes the rows of other ranks, so that a few are there at a time: of at most SL_FULL_COLUMNS, since
 * to find rows takes longer than to add narrower ones, or as many slices as there may be. Attention needs all columns. */
#define SL_FULL_COLUMNS 64
uint32_t sl_full_slices(const struct sl_layer *layer);

/* A pass without a way back. */
struct sl_full {
    struct sl_plan
        plan; /* a PE for each part: first_pe .. end_pe - 1 are evaluated here, by other ranks the others (shards->halo) */
    struct sl_rows *received; /* of each part of the others: columns in hand of the rows of the layer in hand */
    struct sl_pass pass;
    struct sl_pass_group group;
};

/* Prepare a pass of the model; the features are read where they are. All is borrowed. SL_EINVAL, SL_ENOMEM; what there is then is
 * for close. */
enum sl_status sl_full_open(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                            struct sl_full *out);

/* Submit layer i: all its chunks; then rows that nobody reads any more are dropped, once their readers are done. Waits for those of other
 * ranks' rows, so that the next layer's come when these are gone.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_full_layer(struct sl_full *full, uint32_t i);

/* What layer i, the last one submitted, gave for part q: rows of H, or the logits. */
const struct sl_rows *sl_full_rows(const struct sl_full *full, uint32_t i, uint32_t q);

/* Release without waiting. An empty struct is allowed. */
void sl_full_close(struct sl_full *full);

#endif
