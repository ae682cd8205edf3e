/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Evaluation: count correct predictions for each set and class, for accuracy and macro F1. Keep margins for the AUC
 * of two classes.
 *   before: codelets/rows/dense.h of the last layer, over all vertices      after: runtime/objective/classify.c adds up
 *
 * The prediction is the first class with the largest logit. A row with a NaN logit has no prediction and counts as
 * wrong. A row whose class is unknown (a negative label) counts nowhere; its margin is kept.
 */
#ifndef SL_CODELETS_SCORE_H
#define SL_CODELETS_SCORE_H

#include "codelets/grid.h"
#include "tasks/task.h"

enum { SL_SET_NONE = 0, SL_SET_TRAIN = 1, SL_SET_VALID = 2, SL_SET_TEST = 3, SL_N_SETS = 4 };

/* Counts of a class c: correct predictions, vertices labelled c, predictions of c. */
enum { SL_COUNT_RIGHT, SL_COUNT_OF_CLASS, SL_COUNT_ANSWERS, SL_N_COUNTS };

/* Count n_rows rows. z [n_rows x C]; sets, labels: of these rows; counts_out [SL_N_SETS x C x SL_N_COUNTS],
 * overwritten. margins_out [n_rows] or NULL: z[1] - z[0]. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_score, uint32_t n_rows, uint32_t n_classes, const sl_real *z,
                    const uint8_t *sets, const int32_t *labels, uint64_t *counts_out, float *margins_out);

/* Submit the counts of a chunk z [D x C], rows row0 .. of the part. sets: uint8 vector of the part. labels: int32
 * vector of the part. counts: uint64 vector as above. margins: float vector of D, or NULL. It needs C = 2. Local; one
 * thread submits. The errors of sl_view_submit. */
enum sl_status sl_score_submit(const struct sl_task_args *head, starpu_data_handle_t z, starpu_data_handle_t sets,
                               starpu_data_handle_t labels, uint32_t row0, starpu_data_handle_t counts,
                               starpu_data_handle_t margins);

#endif
