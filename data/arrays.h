/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset made of arrays in memory, instead of files.
 */
#ifndef SL_DATA_ARRAYS_H
#define SL_DATA_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list of n pairs of vertices, from[i] -> to[i]. relations: the relation of each pair if the graph is typed, else
 * NULL. */
struct sl_array_links {
    uint32_t n;
    const uint32_t *from, *to;
    const uint16_t *relations;
};

/* A graph with features, labels and a split. The library reads the members up to `size`, so the struct may grow. A
 * member that is 0 or NULL is absent.
 * Edges come in one of two forms: a list (sources and destinations), or
 * in-neighbours by row (offsets and sources). In the second form the in-neighbours of vertex v are
 * sources[offsets[v]] .. sources[offsets[v + 1] - 1]. Set destinations or offsets, and leave the other NULL. */
struct sl_arrays {
    size_t size;      /* sizeof(struct sl_arrays), set by the caller */
    const char *name; /* at most 63 bytes; NULL: "arrays" */
    uint32_t n_vertices;
    uint64_t n_edges;
    const uint32_t *sources;      /* n_edges */
    const uint32_t *destinations; /* n_edges, or NULL */
    const uint64_t *offsets;      /* n_vertices + 1, or NULL */
    bool directed;                /* false: add the reverse of every edge */
    uint32_t n_features;
    /* n_vertices x n_features numbers of feature_dtype, row-major, finite. NULL: features are CSR. */
    const void *features;
    /* "float32" (NULL), "float16", "bfloat16" or "int8"; or "float64", "bool", "uint8", or another integer of 16 to 64
     * bits ("int16"), which are converted to float32 */
    const char *feature_dtype;
    float feature_scale; /* int8: a feature is scale * entry. 0: 1 */
    /* CSR features: row v has the entries feature_offsets[v] .. feature_offsets[v + 1] - 1. Columns ascend in a row.
     * Values are finite. */
    const uint64_t *feature_offsets; /* n_vertices + 1 */
    const uint32_t *feature_columns;
    const float *feature_values;
    uint32_t n_classes; /* below 2^31; 0: 1 + the largest label, which is below 65,536 */
    /* n_vertices entries: a class of 0 .. n_classes - 1, or -1 or -100 if unknown. NULL: `targets` are set, or nothing
     * is known, as for a trained model that only answers. */
    const int32_t *labels;
    /* The split. Each vertex of the lists has a label or a known target, and appears once in a single list. Lists may
     * be empty; training needs training vertices. */
    uint32_t n_train, n_valid, n_test;
    const uint32_t *train, *valid, *test;
    /* Instead of labels: n_vertices x n_targets numbers, row-major, finite, or nan if unknown. Numbers 0 and 1 alone
     * are label sets. */
    uint32_t n_targets;
    const float *targets;
    /* n_edges weights in the order of the edges, finite, 0 or more; NULL: none. Weights of duplicate edges add up. A
     * reverse edge that is not listed itself has the weight of its edge. In a typed graph each added reverse has it. */
    const float *edge_weights;
    /* A typed graph: n_edges relations in the order of the edges, below n_relations; at most 65,535 relations, with
     * their reverses. Unless directed, the reverse of an edge of relation r has relation n_relations + r. NULL: the
     * graph is not typed. Vertices of a type best have consecutive ids. */
    const uint16_t *edge_relations;
    uint32_t n_relations;
    /* Names for --relation-fanout: a line "SOURCE,NAME,DESTINATION" for each relation. SOURCE and DESTINATION are types
     * of vertices, and may be empty. NULL: relations have numbers alone. */
    const char *relation_names;
    /* --objective link: links to train on, links to find, and pairs without a link for the scores. Labels, targets
     * and split may then be absent, and train must be. A link to find is in one list alone. Without training links, all
     * edges are training links, but not their reverses. Without edges, the training links are the edges. Without
     * negatives, one is drawn for each link to find. Links have relations exactly if edges have. No edge is a link to
     * find; nor is its reverse if the graph is undirected, or has the reverses of all other edges. */
    struct sl_array_links train_links, valid_links, test_links, valid_negatives, test_negatives;
    /* The heads and tails that each relation may have; negatives are drawn from them. Four numbers for each relation:
     * first head, first tail, number of heads, number of tails. NULL: all vertices. */
    const uint32_t *relation_ends;
    /* Names of the classes: a line for each class, in the order of the classes. For label sets, a line for each column.
     * With labels, n_classes may then be 0: the number of lines. NULL: no names. */
    const char *class_names;
    /* Instead of a split: "random:60,20,20", percentages of training, validation and test, draws one by split_seed:
     * of the vertices with a label or, without labels and targets, of the edges as links. NULL: none is drawn. */
    const char *split;
    uint64_t split_seed;
    bool drop_leaks; /* drop edges and training links that are to be found, instead of refusing them */
    /* The types of vertices: a line "NAME" for each, without commas, and arrays of n_types. Vertices of a type have
     * consecutive ids, in the order of the types. type_columns: the feature columns of each type; 0: one column for
     * each vertex. All types share the columns if they have equally many. Otherwise they have columns of their own, in
     * order. A trained model then finds the columns of a type by its name. 0: no types. */
    uint32_t n_types;
    const char *type_names;
    const uint32_t *type_vertices, *type_columns;
    /* Names of the feature columns: a line for each. A trained model refuses the same names in another order. NULL: no
     * names. */
    const char *feature_names;
    /* n_edges x n_edge_features numbers in the order of the edges, row-major, finite, for --edge-features; NULL: none.
     * Rows of duplicate edges add up. A reverse edge that is added has the row of its edge. */
    uint32_t n_edge_features;
    const float *edge_features;
    /* Negatives of each link: valid_negatives then has a block of valid_each negatives for each link of valid_links, in
     * their order, or two, first of other heads, then of other tails. Each link is ranked among its own negatives.
     * 0: all links share the negatives. */
    uint32_t valid_each, test_each;
};

struct sl_dataset;

/* Check the arrays and make a dataset of them. The dataset borrows the feature arrays until sl_dataset_delete, and
 * never writes to them. Features that it has to convert are copied. It makes a CSR table of dense features if under
 * 10 % of them are non-zero, and a dense table of CSR features if more are. All remaining arrays are copied: without
 * duplicate edges, with the split sorted. A dataset serves any number of sessions. SL_EINVAL: an array is wrong
 * (message: the array and the entry). SL_ENOMEM. On failure *out is NULL. */
SL_API enum sl_status sl_dataset_new(const struct sl_arrays *arrays, struct sl_dataset **out);
SL_API void sl_dataset_delete(struct sl_dataset *dataset);

#ifdef __cplusplus
}
#endif

#endif
