/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset in the terms of the model that reads it: features normalized with the model's statistics, and as many
 * classes as the model has.
 */
#ifndef SL_RUNTIME_TRAIN_ADAPT_H
#define SL_RUNTIME_TRAIN_ADAPT_H

#include "partition/dataset.h"
#include "runtime/plan/settings.h"

struct sl_adapted {
    struct sl_dataset dataset; /* a view of the dataset: its tables, and the tables below */
    struct sl_features features;
    struct sl_scaling scaling;
};

/* Adapt a dataset, which must outlive *out. The model is of settings->model_file; NULL: the dataset trains a new model,
 * and only features of arrays are normalized, if the settings say so. On failure *out is empty. SL_EINVAL: the dataset
 * does not fit the model (message: the features, found and expected). SL_ENOMEM. */
enum sl_status sl_adapt(const struct sl_settings *settings, const struct sl_dataset *dataset, struct sl_adapted *out);

/* Release the tables; the dataset's own stay. An empty struct is allowed. */
void sl_adapted_free(struct sl_adapted *adapted);

#endif
