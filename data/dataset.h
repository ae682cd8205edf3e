/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset: graph, features, targets and split, from files, from the binary cache or from the generator.
 *   before: files (data/load.h)     after: partition/partition.h
 *
 * All ids here are the dataset's own.
 */
#ifndef SL_DATA_DATASET_H
#define SL_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "data/features.h"
#include "data/graph.h"
#include "data/links.h"
#include "data/targets.h"

/* One list of a split: distinct ids, ascending. */
struct sl_ids {
    uint32_t n;
    sl_vertex *ids;
};

/* Make a list of n entries of a file, below n_vertices or SL_NONE, which is dropped. They are ids or, if `mask` says so
 * or if three vertices or more have a 0 or 1 each, a mask: no list of ids, because an id comes once. The entries are
 * taken over, also on failure. SL_EFILE: an id comes twice. SL_ENOMEM. */
enum sl_status sl_ids_take(const char *path, uint32_t n_vertices, bool mask, uint64_t n, sl_vertex *entries,
                           struct sl_ids *out);

/* Whether a sorted list has vertex v. */
bool sl_ids_hold(const struct sl_ids *ids, sl_vertex v);

/* List the vertices v below n with set_of[v] == set. The caller frees out->ids (sl_free). SL_ENOMEM. */
enum sl_status sl_ids_list(const unsigned char *set_of, uint32_t n, unsigned char set, struct sl_ids *out);

#define SL_N_LISTS 3 /* of a split: train, valid, test */
extern const char *const sl_list_names[SL_N_LISTS];

/* The parts of a dataset whose contents are compared (data/identity.h). */
enum sl_data_part { SL_DATA_GRAPH, SL_DATA_FEATURES, SL_DATA_LABELS, SL_DATA_SPLIT, SL_N_DATA_PARTS };

struct sl_dataset {
    char name[64];                         /* "ogbn-arxiv", "arxiv-synthetic" */
    bool synthetic;                        /* the generator made it */
    struct sl_graph graph;                 /* N vertices */
    struct sl_features features;           /* N rows */
    struct sl_edge_features edge_features; /* by graph.rows */
    struct sl_feature_range range;
    struct sl_targets targets; /* N rows. Every vertex of the three lists below has a known target */
    char split[64];            /* the split's name */
    union {                    /* pairwise disjoint; empty if the split lists links */
        struct {
            struct sl_ids train, valid, test;
        };
        struct sl_ids lists[SL_N_LISTS];
    };
    struct sl_link_split links; /* whose training links are the graph */
    /* The relations of a typed folder without reverses: a line "SOURCE,NAME,DESTINATION" for each. NULL: no names */
    char *relations;
    /* Names: a line for each class, in the order of the classes, or for each column of label sets. NULL: no names */
    char *class_names;
    /* The ids that the files give the vertices: a line for each vertex. NULL: the ids are 0 .. N-1 */
    char *vertex_names;
    /* The types of a typed folder: a line "NAME,VERTICES,COLUMNS" for each, in the order of their vertices; the number
     * of their feature columns, 0: one column for each vertex (data/readers/typed.c). NULL: no types */
    char *types;
    /* The names of the feature columns of nodes.csv, a line each; NULL: none. Those of feature_words have none */
    char *feature_names;
    /* The heads and tails of the relations above, or of a typed graph without names. NULL: all vertices */
    struct sl_link_ends *ends;
    /* How the tables were made: what a model's file must say (runtime/plan/model_file.h). */
    bool directed;                /* no reverse edges were added */
    enum sl_normalize normalized; /* of the features */
    struct sl_scaling scaling;    /* COLUMN: the statistics used */
    char *feature_words;          /* --features: a file or a word of data/made_features.h. NULL: the usual file */
    uint64_t feature_seed;        /* of random features; of onehot the checksum of the vertices' names */
    uint64_t serial;              /* differs between the datasets of a process; 0: none */
    void *mapping;                /* private: the memory map of the arrays, or NULL */
    uint64_t mapping_bytes;
    bool lent;                      /* private: the arrays are another dataset's */
    bool own_lists, own_graph;      /* private: the split, the graph are not; nor are they in the map */
    bool counts_edges;              /* private: the features are in-degrees (--features degree) */
    bool hashed;                    /* private: the reader of the cache file has set `hash` */
    uint64_t hash[SL_N_DATA_PARTS]; /* private */
    bool low_memory;                /* private: keep little of the map in memory (data/load.h) */
};

/* Copy all but the tables: names, and how the tables were made. sl_dataset_free releases *out. SL_ENOMEM: *out is
 * empty. */
enum sl_status sl_dataset_copy_facts(const struct sl_dataset *dataset, struct sl_dataset *out);

struct sl_arrays; /* data/arrays.h */

/* Copy the members that the caller's struct has; the other members are absent. SL_EINVAL: no size of this struct. */
enum sl_status sl_arrays_copy(const struct sl_arrays *from, struct sl_arrays *out);

/* A number that no other dataset of this process has. Thread safe. */
uint64_t sl_dataset_serial(void);

/* Whether the split lists links; the number of links or vertices that an epoch trains on. */
static inline bool sl_dataset_has_links(const struct sl_dataset *dataset)
{
    return dataset->links.list[SL_LINKS_TRAIN].n > 0;
}
static inline uint32_t sl_dataset_n_train(const struct sl_dataset *dataset)
{
    return sl_dataset_has_links(dataset) ? dataset->links.list[SL_LINKS_TRAIN].n : dataset->train.n;
}

/* Release the pages of the cache file read so far. The system reads a page again if needed. Without low_memory: no
 * effect. */
void sl_dataset_drop_pages(const struct sl_dataset *dataset);

/* A second dataset with the arrays of `from`, which outlives it. Its split may be replaced
 * (data/random_split.h). */
void sl_dataset_lend(const struct sl_dataset *from, struct sl_dataset *out);

/* Replace the split by the lists and links of `drawn`, and the graph by its graph if it has one. drawn has nothing
 * else, and becomes empty. */
void sl_dataset_set_split(struct sl_dataset *dataset, const char *name, struct sl_dataset *drawn);

/* Release all arrays and empty the struct. An empty struct is allowed. */
void sl_dataset_free(struct sl_dataset *dataset);

#endif
