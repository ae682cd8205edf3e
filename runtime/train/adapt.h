/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset in the terms of the model that reads it: features normalized with the model's statistics; relations,
 * columns of types and classes in the model's order, found by their names.
 */
#ifndef SL_RUNTIME_TRAIN_ADAPT_H
#define SL_RUNTIME_TRAIN_ADAPT_H

#include "data/dataset.h"
#include "runtime/plan/settings.h"

struct sl_adapted {
    struct sl_dataset dataset; /* a view of the dataset: its tables, and the tables below */
    struct sl_features features;
    bool moved; /* columns of types are not where the dataset has them */
    struct sl_scaling scaling;
    struct sl_graph graph; /* its offsets are the dataset's */
    struct sl_link_split links;
    struct sl_targets targets;
    struct sl_ids lists[3]; /* train, valid, test without vertices whose class the model does not know */
    /* [n_relations of the dataset, without reverses]: the model's relation of each; NULL: the same */
    uint32_t *relation_of;
    uint32_t n_relations;
};

/* Adapt a dataset, which must outlive *out. The model is of settings->model_file; NULL: the dataset trains a new model,
 * and only features of arrays are normalized, if the settings say so. On failure *out is empty. SL_EINVAL: the dataset
 * does not fit the model (message: the features, found and expected). SL_ENOMEM. */
enum sl_status sl_adapt(const struct sl_settings *settings, const struct sl_dataset *dataset, struct sl_adapted *out);

/* Release the tables; the dataset's own stay. An empty struct is allowed. */
void sl_adapted_free(struct sl_adapted *adapted);

#endif
