/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature tables: their form in memory, dense or CSR.
 */
#ifndef SL_PARTITION_FEATURES_H
#define SL_PARTITION_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/dataset.h"

/* The end of messages about features that are not there. */
#define SL_NO_FEATURES "without features of their own give vertices one-hot ids (numpy.eye) or their degrees"

/* True where a table with that many non-zeros is to be held as CSR: under 10 % of n_rows x n_columns. */
bool sl_features_sparse(uint64_t n_nonzeros, uint32_t n_rows, uint32_t n_columns);

/* Values other than zero. Of a CSR table: the stored ones. */
uint64_t sl_features_nonzeros(const struct sl_features *features);

/* Convert to the form sl_features_sparse asks for, where it is not in it already. SL_ENOMEM: left as it was. */
enum sl_status sl_features_settle(struct sl_features *features);

/* Divide each row by its sum, if the sum is above 1: what PyTorch Geometric's NormalizeFeatures does with features that are not
 * negative. A row of both signs may sum to nearly zero, and would explode if it were divided. */
void sl_features_normalize_rows(struct sl_features *features);

/* Find the largest magnitudes. SL_ENOMEM. */
enum sl_status sl_features_measure(const struct sl_features *features, struct sl_feature_range *out);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_features_free(struct sl_features *features);

#endif
