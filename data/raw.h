/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset as its files have it: an edge list and tables, before a graph is built. Files and folders have the raw
 * layout of the Open Graph Benchmark. The generator makes the same struct.
 *
 *   raw/edge.csv.gz            source,destination
 *   raw/node-feat.csv.gz       the features of one vertex per line
 *   raw/node-label.csv.gz      the class of one vertex per line; or several numbers, nan if unknown
 *   raw/edge-weight.csv.gz     the weight of one edge per line, in the order of the edges: finite, 0 or more
 *   raw/edge-feat.csv.gz       the features of one edge per line, in the order of the edges: finite; read if wanted
 *   raw/num-node-list.csv.gz   N
 *   raw/num-edge-list.csv.gz   number of edges
 *   split/NAME/train.csv.gz, valid.csv.gz, test.csv.gz     one id per line
 *
 * The weights, the edges' features and the two counts may be missing. N is then the number of labels or feature rows,
 * or without both the largest id + 1. Each `.csv.gz` file may be a `.csv` file or, but for the counts, an `.npy` file.
 * An array of edges has shape (2, E) or (E, 2). A list of the split may be a mask. raw/node-id.csv has the names of the
 * vertices, a line each; starling convert writes it.
 */
#ifndef SL_DATA_RAW_H
#define SL_DATA_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

struct sl_raw {
    uint32_t n_vertices;
    uint64_t n_edges;
    sl_vertex *from; /* E sources, in the order of the file */
    sl_vertex *to;
    float *weights;         /* E. NULL: none */
    uint16_t *relations;    /* E, of a typed dataset, below n_relations; else NULL */
    uint32_t n_relations;   /* of a typed dataset, without reverses; else 0 */
    struct sl_dataset data; /* all but the graph. SL_RAW_FOR_LINKS: train, valid and test are empty */
    uint32_t n_dropped;     /* vertices of the split that had no label (SL_RAW_FOR_INFERENCE) */
    bool numbered;          /* the reader has numbered the ids: no file has their order */
};

/* What a command needs of a dataset. */
enum sl_raw_need {
    /* all of it */
    SL_RAW_FOR_TRAINING,
    /* Labels and split may be missing. Vertices of the split without a label are left out of the split. */
    SL_RAW_FOR_INFERENCE,
    /* Labels, split and features may be missing. */
    SL_RAW_FOR_LOOKS,
    /* The split lists links, which replace the edges (data/links.h). Labels are not read. */
    SL_RAW_FOR_LINKS,
    /* The same, but the lists of links to find may be missing. Without a list of training links the edges stay. */
    SL_RAW_FOR_PAIRS
};

/* Whether lists of a split are links. */
static inline bool sl_raw_needs_links(enum sl_raw_need need)
{
    return need == SL_RAW_FOR_LINKS || need == SL_RAW_FOR_PAIRS;
}

/* The command that makes a dataset of files that training does not read. */
#define SL_RAW_CONVERT "starling convert %.300s --out NAME"

/* The files of a dataset. */
enum sl_raw_file {
    SL_RAW_NODE_COUNT,
    SL_RAW_EDGE_COUNT,
    SL_RAW_EDGES,
    SL_RAW_FEATURES,
    SL_RAW_LABELS,
    SL_RAW_TRAIN,
    SL_RAW_VALID,
    SL_RAW_TEST,
    SL_RAW_VALID_NEGATIVE,
    SL_RAW_TEST_NEGATIVE,
    SL_RAW_VALID_HEADS,
    SL_RAW_VALID_TAILS,
    SL_RAW_TEST_HEADS,
    SL_RAW_TEST_TAILS, /* from TRAIN to here: in the order of sl_links_name */
    SL_RAW_WEIGHTS,    /* of the edges */
    SL_RAW_EDGE_FEATURES,
    SL_RAW_NODE_IDS,
    SL_RAW_N_FILES
};
_Static_assert(SL_RAW_TEST_TAILS - SL_RAW_TRAIN == SL_N_LINK_FILES - 1, "in the order of sl_links_name");

/* What counts and headers say of a dataset before its lists and tables are read. 0: they do not say. */
struct sl_raw_sizes {
    uint64_t n_vertices, n_edges; /* edges without reverses */
    uint32_t n_relations;         /* without reverses */
    uint64_t feature_bytes;       /* of a dense table */
};

/* The least memory, in bytes, that the caller needs with such a dataset. */
typedef uint64_t sl_raw_least(const struct sl_raw_sizes *sizes, const void *context);

struct sl_raw_files {
    sl_raw_least *least;   /* or NULL */
    const void *context;   /* of `least` */
    enum sl_raw_need need; /* SL_RAW_FOR_PAIRS has become LINKS, or INFERENCE if there are no training links */
    bool may_lack_links;   /* the lists of links to find may be missing */
    enum sl_target_choice targets;
    char split[64];              /* "": none */
    char *paths[SL_RAW_N_FILES]; /* NULL: not there, and not needed */
    char **more;                 /* further tables, for the binary copy: they must not have changed */
    uint32_t n_more;
    bool edge_features; /* read features of the edges, if there are some */
    bool no_features;   /* a feature file, if any, only tells the number of vertices */
    char unused[2000];  /* tables and columns that are not read: a line ".../raw/edge-feat.csv.gz" for each */
};

/* The dataset to load, as the command line names it. Strings stay the caller's. */
struct sl_dataset_options {
    /* A name to look up on the data path, a folder or a file; of a reader, the path. NULL: "arxiv". */
    const char *dataset;
    /* Folders separated by ':'. NULL: $STARLING_DATA, then ./data, then ~/.local/share/starling. */
    const char *data_path;
    /* NULL: the dataset's only split. "random:60,20,20" draws one (data/random_split.h); files need no split then
     * */
    const char *split;
    uint64_t split_seed; /* of a drawn split */
    bool drop_leaks;     /* SL_RAW_FOR_LINKS: drop leaks instead of refusing them (data/leaks.h) */
    /* A drawn split has links. For SL_RAW_FOR_LINKS it always has. */
    bool draw_links;
    /* The split to take if `split` is NULL and the dataset has several splits. NULL: several splits are an error. */
    const char *usual_split;
    /* A file relative to the dataset's folder, or a word of data/made_features.h. NULL: raw/node-feat.csv.gz (or
     * .npy). */
    const char *features;
    uint64_t feature_seed; /* of random features */
    /* A folder, or "none". NULL: beside the data if the data's folder is writable, else the user's cache folder. */
    const char *cache;
    enum sl_raw_need need; /* the tables that may be missing */
    bool directed;         /* false: add the reverse of every edge */
    bool edge_features;    /* read features of the edges, if there are some. Not of links */
    enum sl_normalize normalize;
    const struct sl_scaling *scaling; /* COLUMN: statistics of another dataset. NULL or empty: of this dataset */
    enum sl_target_choice targets;
    uint64_t seed;          /* for the generator */
    const char *outputs[4]; /* files that the caller will write, or NULL: none may be a file of the dataset */
    /* What does not fit into the memory is refused before it is read. NULL: only what reading takes. */
    sl_raw_least *least;
    const void *context; /* of `least` */
    /* Keep little of the cache file in memory at a time; for a process with use for only a part of the dataset. A
     * dataset from its files or the generator is wholly in memory. */
    bool low_memory;
};

/* Whether a request for a split asks for none. */
static inline bool sl_raw_reads_no_split(const char *split)
{
    return split != NULL && split[0] == '\0';
}

/* Names of entries of folders, sorted. */
struct sl_raw_names {
    char name[64][64];
    int n;
};

/* Add the entries of a folder whose paths fit, as far as there is room. */
void sl_raw_list_folder(const char *folder, bool (*fits)(const char *path), struct sl_raw_names *names);

/* The file FOLDER/STEM + ending; sl_free. *out: NULL if there is none. SL_EFILE: the folder has the table twice, with
 * two endings. SL_ENOMEM. */
enum sl_status sl_raw_find_file(const char *folder, const char *stem, int n_endings, const char *const *endings,
                                char **out);

/* Whether a file FOLDER/STEM + ending is there. */
bool sl_raw_has_file(const char *folder, const char *stem, int n_endings, const char *const *endings);

/* The table STEM in a folder: .csv.gz, .csv or .npy; sl_free. *out: NULL if there is none. SL_EFILE: there is
 * none, and it is `needed`; or as sl_raw_find_file. SL_ENOMEM. */
enum sl_status sl_raw_find_table(const char *folder, const char *stem, bool needed, char **out);

/* Read a table, text or array (data/csv.h, data/npy.h).
 *
 * Edges. *n_vertices SL_NONE: it becomes the largest id + 1. count: a table with the number of edges, or NULL.
 * SL_EFILE: the number is another. *from_out and *to_out, NULL before the call, are the caller's (sl_free), also on
 * failure.
 * Ids. path NULL: none. */
enum sl_status sl_raw_read_edges(const char *path, const char *count, uint32_t *n_vertices, uint64_t *n_edges,
                                 sl_vertex **from_out, sl_vertex **to_out);
enum sl_status sl_raw_read_features(const char *path, uint32_t n_rows, struct sl_features *out);
enum sl_status sl_raw_read_targets(const char *path, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out, char **names);
enum sl_status sl_raw_read_weights(const char *path, uint64_t n_edges, float **out);

/* Read the features of the n edges from edge `first` on, of n_edges: the first table makes room in *out; the next have
 * as many columns. SL_EFILE, SL_ENOMEM. */
enum sl_status sl_raw_read_edge_features(const char *path, uint64_t first, uint64_t n, uint64_t n_edges,
                                         struct sl_edge_features *out);

enum sl_status sl_raw_read_ids(const char *path, enum sl_raw_file table, uint32_t n_vertices, struct sl_ids *out);

/* Words that tables of the edges begin with, beside the edges themselves. */
#define SL_RAW_EDGE_TABLES "edge-feat", "edge-attr", "edge-weight", "edge-type", "edge-label"

/* Note the entries of a folder (printf rules) that begin with one of the words (the last is NULL; '-' also means '_')
 * and are no table of *files, nor a folder of one. */
void sl_raw_note_others(struct sl_raw_files *files, const char *const *words, const char *folder, ...)
    __attribute__((format(printf, 3, 4)));

/* Note a table or column that is not read. */
void sl_raw_note_unused(struct sl_raw_files *files, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Find the files of the dataset in a folder. The features may be another file, or a word of data/made_features.h: then
 * no features are read. No split is read if the request asks for none, also FOR_TRAINING. SL_EFILE: a file is missing
 * (message: the file; for features also a hint at --features). SL_EINVAL: the split is missing, or there are several
 * to choose from (message: the names). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_raw_find(const struct sl_dataset_options *request, struct sl_raw_files *out);

/* Find the lists of a split in split/NAME: of links, or in split/NAME/TYPE of vertices; type "TYPE/", or "" if the
 * dataset is not typed. NULL: no vertices. Errors as for sl_raw_find. */
enum sl_status sl_raw_find_split(const struct sl_dataset_options *request, const char *type,
                                 struct sl_raw_files *files);

/* The list split/NAME/train of the split that the request is for; sl_free. NULL: there is none. Errors as for
 * sl_raw_find. */
enum sl_status sl_raw_find_train(const struct sl_dataset_options *request, char **out);

/* Take a table from a safetensors file, if the file has it under one of the table's names.
 * Else, or if the table has a path already, *files stays. SL_ENOMEM. */
enum sl_status sl_raw_take_array(const char *path, enum sl_raw_file table, struct sl_raw_files *files);

/* Note the arrays of such a file that are not read. SL_ENOMEM. */
enum sl_status sl_raw_note_arrays(const char *path, struct sl_raw_files *files);

/* True if such a file has edges. True also if there is no memory to know. */
bool sl_raw_has_edges(const char *path);

/* True if the folder has a folder `raw`. */
bool sl_raw_is_folder(const char *folder);

void sl_raw_files_free(struct sl_raw_files *files);

/* Read the files. On success ids are in range, and every existing table has N rows. Without a label file all
 * targets are unknown classes. The lists of the split are sorted and pairwise disjoint, and their vertices have known
 * targets. SL_EFILE,
 * SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_raw_read(const struct sl_raw_files *files, struct sl_raw *out);

/* Add the bytes of a feature table whose header tells them. */
enum sl_status sl_raw_count_features(const char *path, struct sl_raw_sizes *sizes);

/* Add the edges of a table, if its header or the table `count` tells them. Errors as for reading them. */
enum sl_status sl_raw_count_edges(const char *path, const char *count, struct sl_raw_sizes *sizes);

/* Refuse a dataset with which the process would need more memory than it may use. `where` starts the message.
 * SL_ENOMEM. */
enum sl_status sl_raw_check_sizes(const struct sl_raw_files *files, const char *where,
                                  const struct sl_raw_sizes *sizes);

/* The end of reading. Unless the need is training, vertices without a target leave the split. Then check that its lists
 * are ascending, disjoint, and have known targets. `where` starts the messages. SL_EFILE. */
enum sl_status sl_raw_settle(const struct sl_raw_files *files, const char *where, struct sl_raw *raw);

/* Refuse to write FOLDER/STEM + ending if the folder has the table with another ending: a reader would find it twice.
 * SL_EFILE, SL_ENOMEM. */
enum sl_status sl_raw_check_place(const char *folder, const char *stem, const char *ending);

/* Write the layout above to `folder`, as .npy and the number of vertices as text. Make the folder if it is missing.
 * Reading it back gives equal bits; float16, bfloat16 and int8 become float32, and names are left out. Absent tables
 * are left out: features, labels, and the split if its name is empty. SL_EIO, SL_ENOMEM. */
enum sl_status sl_raw_write(const struct sl_raw *raw, const char *folder);

/* Build the graph of the edges. reverse: with a reverse edge for each. Errors of sl_graph_build_list. */
enum sl_status sl_raw_graph(const struct sl_raw *raw, bool reverse, struct sl_graph *out);

/* The weights of the training links, in their order (sl_free): of the edge among those of `raw`, which have weights, or
 * 1. If edges have no relations, the edge in the other direction serves, too. A link that is listed again has the
 * weight 0 there: the graph adds the weights up. Errors of sl_graph_build_list. */
enum sl_status sl_raw_weigh_links(const struct sl_raw *raw, const struct sl_link_split *split, float **out);

void sl_raw_free(struct sl_raw *raw);

#endif
