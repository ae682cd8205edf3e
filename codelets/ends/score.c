/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Correct predictions for each set and class: on a GPU one warp per row. Counts are integers, so its atomics give the
 * same result in any order. */
#include "codelets/ends/score.h"

/* ---- kernels ---- */

/* The lane's best class becomes the warp's: the first of those with the largest logit. */
SL_DEVICE uint32_t first_of_lanes(sl_real top, uint32_t best)
{
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        const sl_real other_top = sl_from_lane(top, distance);
        const uint32_t other = sl_from_lane(best, distance);
        if (other != SL_NONE && (best == SL_NONE || other_top > top || (other_top == top && other < best))) {
            top = other_top;
            best = other;
        }
    }
    return best;
}

/* The first class with the row's largest logit; SL_NONE if a logit is NaN. All lanes get it. */
SL_DEVICE uint32_t answer_of(uint32_t n_classes, const sl_real *z)
{
    sl_real top = 0;
    uint32_t best = SL_NONE; /* this lane has seen no class yet */
    int bad = 0;
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        bad |= z[c] != z[c];
        if (best == SL_NONE || z[c] > top) {
            top = z[c];
            best = c;
        }
    }
    best = first_of_lanes(top, best);
    return sl_warp_max(bad) ? SL_NONE : best;
}

SL_KERNEL score_rows(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const uint8_t *sets, const int32_t *labels,
                     uint64_t *counts, float *margins)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *row = z + i * n_classes;
        const uint32_t label = (uint32_t)labels[i];
        if (margins != NULL && sl_lane() == 0) {
            margins[i] = (float)(row[1] - row[0]);
        }
        if (label >= n_classes || sets[i] >= SL_N_SETS) {
            continue; /* all lanes: class unknown (label -1), or no set */
        }
        uint64_t(*of_set)[SL_N_COUNTS] = (uint64_t(*)[SL_N_COUNTS])counts + (size_t)sets[i] * n_classes;
        const uint32_t answer = answer_of(n_classes, row);
        if (sl_lane() == 0) {
            sl_add_shared(&of_set[label][SL_COUNT_OF_CLASS], 1);
            if (answer != SL_NONE) {
                sl_add_shared(&of_set[answer][SL_COUNT_ANSWERS], 1);
            }
            sl_add_shared(&of_set[label][SL_COUNT_RIGHT], answer == label);
        }
    }
}

SL_LAUNCHER(sl_score, uint32_t n_rows, uint32_t n_classes, const sl_real *z, const uint8_t *sets, const int32_t *labels,
            uint64_t *counts_out, float *margins_out)
{
    SL_CHECK(SL_CLEAR("sl_score", counts_out, (size_t)SL_N_SETS * n_classes * SL_N_COUNTS * sizeof *counts_out));
    return SL_LAUNCH("sl_score", sl_warp_blocks(n_rows), score_rows, n_rows, n_classes, z, sets, labels, counts_out,
                     margins_out);
}

#ifndef SL_KERNELS_ONLY
#include <assert.h>

/* ---- operations ---- */

struct score {
    struct sl_task_args head;
    struct sl_matrix z, sets, labels, counts;
    struct sl_matrix margins; /* optional */
};

static enum sl_status score(const void *view, const void *stream)
{
    const struct score *v = view;
    return SL_RUN(stream, sl_score, v->z.n_rows, v->z.n_columns, v->z.data, v->sets.data, v->labels.data,
                  v->counts.data, v->margins.data);
}

static struct sl_operation score_op = {
    SL_OPERATION(score_op, "sl_score", SL_STAGE_EVALUATE),
    SL_BODY(score, struct score),
    .role = {{"z", STARPU_R, offsetof(struct score, z), "D x C"},
             {"sets", STARPU_R, offsetof(struct score, sets), "D", SL_INTS_8},
             {"labels", STARPU_R, offsetof(struct score, labels), "D", SL_INTS_32},
             {"counts", STARPU_W, offsetof(struct score, counts), "?", SL_INTS_64},
             {"margins", STARPU_W | SL_OPTIONAL, offsetof(struct score, margins), "D", SL_FLOATS}},
};

/* ---- submissions ---- */

enum sl_status sl_score_submit(const struct sl_task_args *head, starpu_data_handle_t z, starpu_data_handle_t sets,
                               starpu_data_handle_t labels, uint32_t row0, starpu_data_handle_t counts,
                               starpu_data_handle_t margins)
{
    struct score v = {
        .head = *head, .z = sl_matrix_of(z), .counts = sl_matrix_of(counts), .margins = sl_matrix_of(margins)};
    v.sets = sl_matrix_rows(sets, row0, v.z.n_rows);
    v.labels = sl_matrix_rows(labels, row0, v.z.n_rows);
    assert(v.counts.n_rows == (uint64_t)SL_N_SETS * v.z.n_columns * SL_N_COUNTS);
    assert(margins == NULL || v.z.n_columns == 2);
    return sl_view_submit(&score_op, &v, SL_PRIORITY_COMPUTE);
}

#endif
