/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Correct predictions for each set and class. */
#include "codelets/score.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- kernels, CPU ---- */

/* The first class with the largest logit; SL_NONE if a logit is NaN. */
static uint32_t answer_of(uint32_t n_classes, const sl_real *z)
{
    uint32_t best = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        if (isnan(z[c])) {
            return SL_NONE;
        }
        best = z[c] > z[best] ? c : best;
    }
    return best;
}

void sl_score_cpu(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const uint8_t *sets, const int32_t *labels,
                  uint64_t *counts_out, float *margins_out)
{
    memset(counts_out, 0, (size_t)SL_N_SETS * n_classes * SL_N_COUNTS * sizeof *counts_out);
    for (uint32_t i = 0; i < n_rows; i++) {
        const sl_real *row = z + (size_t)i * n_classes;
        if (margins_out != NULL) {
            margins_out[i] = (float)(row[1] - row[0]);
        }
        if ((uint32_t)labels[i] >= n_classes || sets[i] >= SL_N_SETS) {
            continue; /* class unknown (label -1) */
        }
        uint64_t(*counts)[SL_N_COUNTS] = (uint64_t(*)[SL_N_COUNTS])counts_out + (size_t)sets[i] * n_classes;
        uint32_t label = (uint32_t)labels[i];
        uint32_t answer = answer_of(n_classes, row);
        counts[label][SL_COUNT_OF_CLASS]++;
        if (answer != SL_NONE) {
            counts[answer][SL_COUNT_ANSWERS]++;
            counts[label][SL_COUNT_RIGHT] += answer == label;
        }
    }
}

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
