/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The identity of a dataset: a hash of its contents. Checkpoints keep the identity of their data, and ranks compare
 * theirs.
 */
#ifndef SL_DATA_IDENTITY_H
#define SL_DATA_IDENTITY_H

#include "data/dataset.h"

/* A text for each part: its sizes, and a hash of its values in memory. So edges count after --directed, and features
 * after --normalize-features. Equal contents have equal texts, whatever their paths, names, file formats and dtypes
 * are: a dtype changes no bit of a result. */
struct sl_identity {
    char text[SL_N_DATA_PARTS][80]; /* "169343 vertices, 2315598 edges, hash 0123456789abcdef" */
    char feature_dtype[40];         /* "float32", "int8 times 0.25": the form in which ranks send features */
};

extern const char *const sl_data_part_names[SL_N_DATA_PARTS]; /* "graph", .. */

/* Identify a dataset. Several threads read all arrays, at about memory bandwidth. For a dataset from a cache file
 * nothing is read: the reader of the file has hashed it. */
void sl_dataset_identify(const struct sl_dataset *dataset, struct sl_identity *out);

#endif
