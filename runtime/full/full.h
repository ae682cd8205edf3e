/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The block source (runtime/model/pass.h) of evaluation: all in-edges of all parts, without sampling. A part is a PE,
 * cut into chunks.
 */
#ifndef SL_RUNTIME_FULL_FULL_H
#define SL_RUNTIME_FULL_FULL_H

#include "runtime/model/pass.h"

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

/* A forward pass. */
struct sl_full {
    /* A PE per part. This rank evaluates PEs first_pe .. end_pe - 1, remote ranks the rest (shards->halo). */
    struct sl_plan plan;
    /* By part, for remote parts: the received rows of the layer in hand, in the columns in hand. */
    struct sl_rows *received;
    struct sl_pass pass;
    struct sl_pass_group group;
};

/* Prepare a pass of the model, which reads the features in place. Run, shards and model are borrowed. SL_EINVAL,
 * SL_ENOMEM. On failure, too, call sl_full_close. */
enum sl_status sl_full_open(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                            struct sl_full *out);

/* Submit all chunks of layer i, and free rows after their last readers. Waits until all tasks that read rows
 * of remote ranks have ended, because messages of the next layer need the memory. Call for each layer in order.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_full_layer(struct sl_full *full, uint32_t i);

/* The output of layer i, the last submitted layer, for part q: H, or the logits. */
const struct sl_rows *sl_full_rows(const struct sl_full *full, uint32_t i, uint32_t q);

/* Free without waiting. An empty struct is allowed. */
void sl_full_close(struct sl_full *full);

#endif
