/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a dataset contains, as four numbers. Two datasets with equal contents have equal numbers, whatever their paths,
 * names and file formats are.
 */
#ifndef SL_PARTITION_IDENTITY_H
#define SL_PARTITION_IDENTITY_H

#include "partition/dataset.h"

/* The parts of a dataset that an identity tells apart. */
enum sl_identity_part {
    SL_IDENTITY_GRAPH,
    SL_IDENTITY_FEATURES,
    SL_IDENTITY_LABELS,
    SL_IDENTITY_SPLIT,
    SL_N_IDENTITIES
};

struct sl_identity {
    uint64_t part[SL_N_IDENTITIES]; /* checksums of 64 bits; 0 in all parts: unknown */
};

/* Names of the parts: "graph", "features", "labels", "split"; and for messages: "another graph", "other features", .. */
extern const char *const sl_identity_names[SL_N_IDENTITIES];
extern const char *const sl_identity_others[SL_N_IDENTITIES];

/* The checksum of an array, continuing from `start`. Several threads compute it; the result does not depend on their
 * number. low_memory: the array is part of a map, and its pages are given back after reading. */
uint64_t sl_checksum_array(uint64_t start, const void *data, uint64_t bytes, bool low_memory);

/* Read the whole dataset once, with several threads. */
struct sl_identity sl_identity_of(const struct sl_dataset *dataset);

/* The first part that differs, or SL_N_IDENTITIES. */
enum sl_identity_part sl_identity_compare(const struct sl_identity *a, const struct sl_identity *b);

#endif
