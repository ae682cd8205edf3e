/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Correct predictions for each set and class. */
#include "codelets/score.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tasks/rows.h"

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

/* ---- arguments ---- */

struct score_args {
    struct sl_task_args head;
    uint32_t row0;
    int has_margins;
};

/* ---- implementations ---- */

enum { Z, SETS, LABELS, COUNTS, MARGINS };

static enum sl_status score_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct score_args *args = cl_arg;
    const uint8_t *sets = sl_buffer_data(buffers[SETS]);
    const int32_t *labels = sl_buffer_data(buffers[LABELS]);
    float *margins = args->has_margins ? sl_buffer_data(buffers[MARGINS]) : NULL;
    return SL_RUN(stream, sl_score, sl_buffer_rows(buffers[Z]), sl_buffer_columns(buffers[Z]),
                  sl_buffer_data(buffers[Z]), sets + args->row0, labels + args->row0, sl_buffer_data(buffers[COUNTS]),
                  margins);
}

/* ---- operations ---- */

static struct sl_operation score_op = {
    SL_OPERATION(score_op, "sl_score", SL_STAGE_EVALUATE),
    SL_BOTH(score_task),
    .role = {{"z", STARPU_R},
             {"sets", STARPU_R},
             {"labels", STARPU_R},
             {"counts", STARPU_W},
             {"margins", STARPU_W | SL_OPTIONAL}},
};

/* ---- submissions ---- */

static void check_shapes(uint32_t n_rows, uint32_t n_classes, uint32_t row0, starpu_data_handle_t sets,
                         starpu_data_handle_t labels, starpu_data_handle_t counts)
{
    assert((uint64_t)row0 + n_rows <= sl_handle_columns(sets));
    assert((uint64_t)row0 + n_rows <= sl_handle_columns(labels));
    assert(sl_handle_columns(counts) == (uint64_t)SL_N_SETS * n_classes * SL_N_COUNTS);
    assert(sl_handle_element(counts) == sizeof(uint64_t));
}

enum sl_status sl_score_submit(const struct sl_task_args *head, starpu_data_handle_t z, starpu_data_handle_t sets,
                               starpu_data_handle_t labels, uint32_t row0, starpu_data_handle_t counts,
                               starpu_data_handle_t margins)
{
    struct score_args args = {.head = *head, .row0 = row0, .has_margins = margins != NULL};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_classes = sl_handle_columns(z);
    check_shapes(n_rows, n_classes, row0, sets, labels, counts);
    assert(margins == NULL || (n_classes == 2 && sl_handle_columns(margins) >= n_rows));
    args.head.work = (uint64_t)n_rows * (n_classes * sizeof(sl_real) + sizeof(int32_t) + 1);
    sl_task_begin(&task, &score_op);
    sl_task_add(&task, Z, z, STARPU_R);
    sl_task_add(&task, SETS, sets, STARPU_R);
    sl_task_add(&task, LABELS, labels, STARPU_R);
    sl_task_add(&task, COUNTS, counts, STARPU_W);
    sl_task_add_optional(&task, MARGINS, margins, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
