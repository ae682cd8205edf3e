/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The shards: the partitioned graph as StarPU handles. Each part has its in-edges, features, targets and split. Tasks
 * only read the handles, so sequential consistency is off.
 */
#ifndef SL_RUNTIME_STORE_SHARDS_H
#define SL_RUNTIME_STORE_SHARDS_H

#include "codelets/rows/dense.h"
#include "codelets/sampling/sample.h"
#include "partition/partition.h"
#include "runtime/store/feature_source.h"

#define SL_SHARD_TABLES 11 /* tables that sl_shards_pin may lock */

/* One part: ids first .. end - 1. Row i of its tables belongs to id first + i. */
struct sl_shard {
    uint32_t first, end;
    uint32_t n_train;
    struct sl_part_handles graph;
    /* Features of the part's in-edges, whose owner is the part: sl_real, one chunk; graph.rows says where an edge's row
     * is. edge_first: uint32 [2], 0 and the number of rows. Empty: edges have no features. */
    struct sl_rows edges;
    starpu_data_handle_t edge_table, edge_first;
    sl_real *edge_values;
    uint32_t *edge_rows, edge_ends[2];
    /* [n x F] of the rows' dtype. NULL if features are sparse. */
    starpu_data_handle_t features;
    /* Users fill in .frontier, .dropout and .seed. All NULL if features are dense. */
    struct sl_sparse sparse;
    /* Vector of n x width entries of SL_TARGET_BYTES, row-major (data/targets.h). */
    starpu_data_handle_t targets;
    /* uint8, by row: SL_SET_TRAIN, .. */
    starpu_data_handle_t sets;
};

struct sl_halo;      /* runtime/full/halo_lists.h */
struct sl_objective; /* runtime/objective/objective.h */

struct sl_shards {
    uint32_t n_parts;
    uint32_t n_vertices;
    uint32_t n_features, n_outputs;
    uint32_t n_edge_features; /* 0: edges have no features, or they are not used */
    uint32_t n_train, n_valid, n_test;
    bool is_sparse;
    /* The dtype of rows that layers read: gathered features and what is computed from them (--precision). */
    enum sl_dtype row_dtype;
    struct sl_shard *part;
    /* uint32 [N]: dataset id of each new id. */
    starpu_data_handle_t dataset_ids;
    /* uint32 [N]: new id of each dataset id. */
    starpu_data_handle_t new_ids;
    /* uint32 [N], `iota`: 0, 1, 2, ..; serves as a frontier of all vertices of the rank. */
    starpu_data_handle_t ids;
    /* uint32 [G + 1]: first id of each part. */
    starpu_data_handle_t first;
    /* uint32 [n_train]: dataset ids of the training vertices, or numbers of the training links. */
    starpu_data_handle_t train_ids;
    /* uint32 [n_train]: new ids of the ends of the training links. NULL: vertices are trained. Then train_ids are the
     * numbers of the links. */
    starpu_data_handle_t link_from, link_to;
    /* Triples: uint32 [n_train], the relation of each link; uint32 [relations x SL_ENDS]
     * (codelets/sampling/link_seeds.h). Else NULL. */
    starpu_data_handle_t link_relation, link_ends;
    /* uint32 [n_relations], one for each layer: fanouts by relation (runtime/plan/fanouts.h). NULL: over all relations.
     * sl_shards_take_fanouts. */
    starpu_data_handle_t *fanouts;
    /* sl_real [N x 2]: codelets/sums/aggregate.h. NULL before sl_shards_weigh. */
    starpu_data_handle_t factors;
    /* Sums multiply by the weights of edges (--edge-weights factor). Set it after sl_shards_open, if the partition's
     * graph has weights. */
    bool weighs_edges;
    /* Of the graph; 0 before sl_shards_weigh. */
    uint64_t n_self_loops;
    /* Borrowed. */
    struct sl_partition *partition;
    /* Borrowed. This rank evaluates its own parts only. NULL: all parts. */
    struct sl_halo *halo;
    /* Borrowed: the objective of the targets. NULL: classes, without weights. */
    const struct sl_objective *objective;
    /* By new id. */
    struct sl_targets targets;
    /* Memory behind the handles. Dense features; empty if features are sparse. */
    struct sl_feature_source features;
    /* Part after part: n + 1 offsets, the first of them zero. */
    uint64_t *sparse_offsets;
    /* G + 1: the position of a part's first column and value. */
    uint64_t *sparse_first;
    uint32_t *sparse_columns;
    float *sparse_values;
    uint8_t *set_of;
    sl_vertex *iota;
    sl_vertex *train;
    struct sl_links links;
    bool directed_links; /* as in struct sl_link_split */
    uint32_t *ends;      /* [n_link_relations x SL_ENDS], or NULL */
    uint32_t n_link_relations;
    uint32_t *fanout_of; /* [n_layers x n_relations] */
    uint32_t n_layers;   /* of `fanouts` */
    sl_real *factor_of;
    /* Tables that sl_shards_pin has locked. */
    bool pinned[SL_SHARD_TABLES];
};

enum sl_feature_form {
    SL_FEATURES_AS_THEY_ARE, /* sparse features stay sparse, narrow features stay narrow */
    SL_FEATURES_DENSE,       /* sparse features become dense */
    SL_FEATURES_WIDE         /* narrow features are stored in the rows' dtype, so that all readers read them in place */
};

/* Copy the dataset in part order and register it. row_dtype: of the rows that layers read,
 * SL_DTYPE_REAL or SL_DTYPE_BF16. held: NULL, or only the parts q with held[q] get tables. The memory of a part without
 * tables is never touched, and tasks must not read it. The partition has the edges of the same parts
 * (held of its rule). The partition must outlive the shards; the dataset need not. On failure *out is empty.
 * SL_EINVAL: a part has 2^32 or more edges or sparse feature values (the message says to use more PEs). SL_ENOMEM. */
enum sl_status sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition,
                              enum sl_feature_form form, enum sl_dtype row_dtype, const bool *held,
                              struct sl_shards *out);

/* Compute `factors` (codelets/sums/aggregate.h). For every vertex of the graph: factor(d), d being the number of
 * in-neighbours without the vertex itself, and the length of its neighbour list. With weighs_edges, d is the sum of the
 * weights. factor NULL: 1. Also counts the self loops. SL_ENOMEM. */
enum sl_status sl_shards_weigh(const struct sl_dataset *dataset, double (*factor)(double d), struct sl_shards *shards);

/* Take over the table of fanouts by relation, n_layers x n_relations of the graph; NULL: no effect. On failure the
 * table stays the caller's. SL_ENOMEM. */
enum sl_status sl_shards_take_fanouts(uint32_t *table, uint32_t n_layers, struct sl_shards *shards);

/* For machines with several NUMA nodes. by_part: move each part's edges, features and targets to the node of its PE's
 * worker; PEs are pinned and PE q has part q. Otherwise spread all pages over all nodes. No task may be reading.
 * *n_refused_out: number of memory ranges that the system refused to move; refused ranges stay in place. SL_ENOMEM. */
enum sl_status sl_shards_place(const struct sl_shards *shards, uint32_t n_numa, bool by_part, uint32_t *n_refused_out);

/* For GPUs: lock the features and all large tables in memory, so that GPUs fetch them while workers go on. No
 * task may be reading. Returns the number of tables that the system refused to lock; their copies are slower. */
uint32_t sl_shards_pin(struct sl_shards *shards);

/* The targets of vertex `id`: width entries. */
static inline const void *sl_shards_targets(const struct sl_shards *shards, sl_vertex id)
{
    return (const char *)shards->targets.data + (size_t)id * shards->targets.width * SL_TARGET_BYTES;
}

/* Register the in-neighbour lists of vertices first .. end - 1 of a graph, but for `rows`. Close all lists: wait for
 * the readers, unregister. */
void sl_part_register(const struct sl_graph *graph, uint32_t first, uint32_t end, struct sl_part_handles *out);
void sl_part_close(struct sl_part_handles *part);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_shards_close(struct sl_shards *shards);

#endif
