/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The partitioned graph in StarPU's hands: for each part its in-edges, features, labels and split, as handles that tasks only
 * read (their sequential consistency is off).
 */
#ifndef SL_RUNTIME_STORE_SHARDS_H
#define SL_RUNTIME_STORE_SHARDS_H

#include "codelets/dense.h"
#include "codelets/sample.h"
#include "partition/partition.h"

#define SL_SHARD_TABLES 10 /* that tasks read, at the most */

/* Part q: ids first .. end - 1. Row i of its tables is id first + i. */
struct sl_shard {
    uint32_t first, end;
    uint32_t n_train;
    struct sl_part_handles graph;
    starpu_data_handle_t features; /* [n x F] of the rows' precision; NULL where sparse */
    struct sl_sparse sparse;       /* .frontier, .dropout and .seed are filled in per use; all NULL where dense */
    starpu_data_handle_t labels;   /* int32, by row */
    starpu_data_handle_t sets;     /* uint8, by row: SL_SET_TRAIN .. */
};

struct sl_halo; /* runtime/full/halo.h */

struct sl_shards {
    uint32_t n_parts;
    uint32_t n_vertices;
    uint32_t n_features, n_classes;
    uint32_t n_train, n_valid, n_test;
    bool is_sparse;
    size_t row_element; /* bytes of a number of dense features, and of the rows that come of them (--precision) */
    struct sl_shard *part;
    starpu_data_handle_t dataset_ids; /* uint32, N */
    starpu_data_handle_t new_ids;     /* uint32, N */
    starpu_data_handle_t ids;         /* uint32, N: 0, 1, 2, .. : a frontier of everything that is held */
    starpu_data_handle_t first;       /* uint32, G + 1 */
    starpu_data_handle_t train_ids;   /* uint32: dataset ids */
    starpu_data_handle_t factors;     /* sl_real [N x 2]: codelets/aggregate.h; NULL unless asked for */
    struct sl_partition *partition;   /* borrowed */
    struct sl_halo *halo;             /* borrowed: this rank evaluates its own parts only; NULL: it evaluates all */
    /* memory behind the handles */
    void *table;              /* dense features by new id, or NULL */
    uint64_t *sparse_offsets; /* part after part, each from zero, n + 1 of them */
    uint64_t *sparse_first;   /* G + 1: where a part's columns and values begin */
    uint32_t *sparse_columns;
    float *sparse_values;
    int32_t *label_of;
    uint8_t *set_of;
    sl_vertex *iota;
    sl_vertex *train;
    sl_real *factor_of;
    bool pinned[SL_SHARD_TABLES]; /* which of them are */
};

/* Lay the dataset out part by part and register it, rows in sl_real. Features are held sparse where the dataset holds them
 * so and `dense` is false. The partition must outlive the shards; what they need of the dataset is copied. SL_EINVAL: a part
 * has 2^32 feature entries or more (message: use more PEs). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition, bool dense,
                              struct sl_shards *out);

/* The same, with rows of numbers of row_element bytes, sizeof(sl_real) or sizeof(sl_bf16), and with the tables of those
 * parts q alone for which held[q], if held is not NULL; the memory of the others' is never touched, nor may tasks read it.
 * The partition is of the same parts (sl_partition_make_held). */
enum sl_status sl_shards_open_held(const struct sl_dataset *dataset, struct sl_partition *partition, bool dense,
                                   size_t row_element, const bool *held, struct sl_shards *out);

/* For layers with the graph convolution's weights: each vertex's factor 1/sqrt(d + 1), d its in-neighbours other than itself, and the
 * length of its list. Of all vertices, as neighbours are any rank's. SL_ENOMEM. */
enum sl_status sl_shards_weigh(const struct sl_dataset *dataset, struct sl_shards *shards);

/* Where there are several NUMA nodes: put each part's edges, features and labels on the node of its PE's worker (`by_part`: PEs
 * are pinned, and PE q has part q), or spread all pages over all nodes. No task is reading. Returns the ranges the system would
 * not place: they stay where they are. SL_ENOMEM. */
enum sl_status sl_shards_place(const struct sl_shards *shards, uint32_t n_numa, bool by_part, uint32_t *n_refused_out);

/* Where GPUs are used: lock the features and the other large tables in memory, so that GPUs fetch them by themselves and StarPU's workers do not wait
 * meanwhile. No task is reading. Returns how many the system would not lock: they travel as before. */
uint32_t sl_shards_pin(struct sl_shards *shards);

/* Whether the dense features are. */
bool sl_shards_features_pinned(const struct sl_shards *shards);

/* The dense features of a part, where they are. */
static inline void *sl_shards_features(const struct sl_shards *shards, uint32_t part)
{
    return (char *)shards->table + (size_t)shards->part[part].first * shards->n_features * shards->row_element;
}

/* Wait for the readers, unregister, release. An empty struct is allowed. */
void sl_shards_close(struct sl_shards *shards);

#endif
