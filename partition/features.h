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

/* True where a table with that many non-zeros is to be held as CSR: under 10 % of n_rows x n_columns. */
bool sl_features_sparse(uint64_t n_nonzeros, uint32_t n_rows, uint32_t n_columns);

/* Values other than zero. Of a CSR table: the stored ones. */
uint64_t sl_features_nonzeros(const struct sl_features *features);

/* Convert to the form sl_features_sparse asks for, where it is not in it already. SL_ENOMEM: left as it was. */
enum sl_status sl_features_settle(struct sl_features *features);

/* Divide each row by its sum; rows that sum to zero stay as they are. */
void sl_features_normalize_rows(struct sl_features *features);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_features_free(struct sl_features *features);

#endif
