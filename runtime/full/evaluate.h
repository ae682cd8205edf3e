/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Exact inference: every vertex, layer by layer, over all in-neighbours, never a sample (Hamilton et al. 2017's full pass; what
 * OGB scores). The same codelets as training, over whole parts in chunks.
 */
#ifndef SL_RUNTIME_FULL_EVALUATE_H
#define SL_RUNTIME_FULL_EVALUATE_H

#include "codelets/rows.h"
#include "runtime/model/model.h"
#include "runtime/report/metrics.h"
#include "runtime/store/shards.h"

/* The vertices that are evaluated here, by renumbered id: first .. first + n - 1; all of them with one rank. */
struct sl_evaluated {
    sl_vertex first;
    uint32_t n;
};
struct sl_evaluated sl_evaluated_here(const struct sl_shards *shards);

/* Where their rows are wanted; NULL: not wanted. */
struct sl_inference {
    sl_real *scores; /* n x C: logits */
    sl_real *hidden; /* n x width of the last hidden layer; a model of one layer has none */
};

/* Run the model on all vertices and score it. With several ranks all call it, each has the same parameters and runs its own parts, and all
 * get the scores. Reads the parameters as of the tasks submitted before. Waits for its own tasks.
 * seconds of work count as SL_STAGE_EVALUATE. scores: fractions; macro F1 is the mean over the classes that occur among the
 * set's labels or answers (Opitz, Burst 2019, variant of scikit-learn); AUC where there are two classes, ties counted half.
 * valid_loss is the mean cross entropy of the
 * validation vertices. A set without vertices scores NaN. The failure of a task, SL_ESTARPU, SL_ENOMEM, SL_EINVAL. */
enum sl_status sl_evaluate(struct sl_run *run, const struct sl_shards *shards, const struct sl_model *model,
                           const struct sl_inference *wanted, struct sl_metrics_scores *scores_out);

#endif
