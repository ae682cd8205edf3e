/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Starling trains graph neural networks as a StarPU task graph. This header is the whole public API.
 *
 *   struct sl_settings *settings;
 *   struct sl_session *session;
 *   sl_settings_new(&settings);
 *   sl_settings_set(settings, "dataset", "arxiv");
 *   sl_session_open(settings, NULL, &session);
 *   sl_session_train(session, &(struct sl_report){.size = sizeof(struct sl_report), .stream = stdout});
 *   sl_session_close(session);
 *   sl_settings_delete(settings);
 *
 * Errors. Functions that can fail return an enum sl_status: SL_OK is 0, errors are negative, no value is positive.
 * After an error sl_message() returns one line for people: the expectation, the finding, and a remedy. Output arguments
 * are set on success only. Functions named _close or _delete accept NULL.
 *
 * Structs. A struct with a member `size` may grow at its end in later versions. Whoever makes the struct sets `size`:
 * the program with sizeof, the library in the news of a callback. The library reads and writes members up to the
 * program's `size` only. Members beyond it count as 0. A program reads news up to their `size` only. A `size` of 0 is
 * refused: SL_EINVAL. Structs without `size` never change.
 *
 * Locale. The functions work in the C locale, whatever the locale of the program or thread: numbers have a decimal
 * point. Callbacks run in the program's locale.
 *
 * Streams. The library prints only to streams from the program. It never calls exit.
 *
 * GPUs. A fault inside a CUDA kernel (an illegal address, a memory error of the GPU) does not become a status: CUDA
 * then refuses every further call, and StarPU calls abort(). If StarPU has not measured the machine's buses yet,
 * sl_session_open starts the measurement. This resets the GPUs: the program loses its own data on the GPUs.
 *
 * Threads. A process has at most one open session, because it has one StarPU. One thread drives the session. Sessions
 * may follow each other.
 */
#ifndef STARLING_H
#define STARLING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "data/arrays.h"
#include "support/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library: "0.1.0". */
SL_API const char *sl_version(void);

/* ---- settings: the options of coop_sage or pipe_gnn, by name without the dashes (see `coop_sage --help`) ---- */

struct sl_settings;

/* Make settings with the defaults of coop_sage, which trains on minibatches. SL_ENOMEM. */
SL_API enum sl_status sl_settings_new(struct sl_settings **out);

/* Make settings with the defaults of pipe_gnn, which trains on the full graph. SL_ENOMEM. */
SL_API enum sl_status sl_settings_new_pipe(struct sl_settings **out);

/* Free settings. Close the session first: it borrows them. */
SL_API void sl_settings_delete(struct sl_settings *settings);

/* Set one option as the command line would: sl_settings_set(s, "batch-size", "512"). For a flag, pass NULL as the
 * value.
 * SL_EINVAL: no option has this name (the message suggests the nearest), or the value is invalid. SL_ENOMEM. */
SL_API enum sl_status sl_settings_set(struct sl_settings *settings, const char *name, const char *value);

/* Copy an option's value into `text`, in the form for sl_settings_set, cut at bytes - 1 characters. An option without
 * a value gives "". sl_session_open fills in the options left open by the user: read such options after it.
 * SL_EINVAL: no option has this name (the message suggests the nearest). SL_ENOMEM. */
SL_API enum sl_status sl_settings_get(const struct sl_settings *settings, const char *name, char *text, size_t bytes);

/* An option. The library sets the members up to `size`, so the struct may grow. Texts are static; NULL: none. */
struct sl_option_news {
    size_t size;         /* sizeof(struct sl_option_news), set by the caller */
    const char *name;    /* "batch-size" */
    const char *group;   /* heading in --help-all: "minibatch" */
    const char *kind;    /* "flag", "whole" (32 bits), "long" (64 bits), "real", "text", "choice" or "list" */
    const char *choices; /* choice: "none,layer,batch" */
    const char *initial; /* the default, in the form for sl_settings_set */
    const char *shown;   /* the default in words, for example "10 per layer", if it follows from other things */
    const char *word;    /* a word that is also a value: "all" */
    const char *help;    /* sentences without a final full stop */
    double min, max;     /* numbers and entries of lists; max 0: the largest of the type */
    bool common;         /* --help shows it */
    bool of_model;       /* changes a model's scores: a saved model keeps it */
    bool of_data;        /* selects the dataset: a session with a dataset of the program keeps the default */
};

/* The options of these settings, in the order of --help-all: index 0 and on. SL_ENOTFOUND: there is no option of this
 * index, the end of the list. SL_EINVAL: news->size is 0. */
SL_API enum sl_status sl_settings_list(const struct sl_settings *settings, uint32_t index, struct sl_option_news *news);

/* Read a program's command line and its environment (STARLING_BATCH_SIZE, ..), then check the options for
 * consistency. *run becomes false if the program should exit now, because --help or a similar option has printed its
 * answer to `stream`. argv is reordered. SL_EINVAL: an option or argument is wrong (the message names it and the
 * valid values). SL_ENOMEM.
 * SL_EIO: writing to `stream` failed. */
SL_API enum sl_status sl_settings_parse(struct sl_settings *settings, int argc, char **argv, FILE *stream, bool *run);

/* Give notice (sl_on_notice) of each environment variable STARLING_NAME that is not read, with the nearest name.
 * options_are_read: variables of options count as read. sl_settings_parse reads them and calls this function itself. */
SL_API void sl_settings_check_environment(bool options_are_read);

/* ---- a dataset from files ---- */

/* Load the dataset that the settings name: from files, the cache or a generator. Options read: dataset, data-path,
 * split, drop-leaks, features, directed, normalize-features, cache, and objective, epochs, load and, for a drawn split,
 * seed. With epochs 0, labels and split
 * may be missing: n_outputs is 0 then, unless load names a model. A session can use the dataset
 * if its own settings leave these options of data at their defaults. sl_dataset_delete frees the dataset. To train
 * once, leave the loading to sl_session_open: it frees the dataset before training.
 * SL_ENOTFOUND: no such dataset. SL_EFILE: a file's contents are wrong. SL_EINVAL, SL_EIO, SL_ENOMEM. On failure *out
 * is NULL. */
SL_API enum sl_status sl_dataset_open(struct sl_settings *settings, struct sl_dataset **out);

struct sl_dataset_sizes {
    size_t size;
    char name[64], split[64]; /* "ogbn-arxiv", "time" */
    uint32_t n_vertices;
    uint64_t n_edges; /* directed edges, with reverse edges, without duplicates */
    uint32_t n_features;
    uint32_t n_outputs; /* classes, labels or numbers */
    bool has_classes;   /* the targets are classes; false: label sets or numbers */
    bool has_edge_weights;
    bool synthetic; /* a generator made it */
    uint32_t n_train, n_valid, n_test;
    /* A line each, valid until sl_dataset_delete: the names of classes or label columns, in order, and the ids of the
     * vertices in their files. NULL: they have numbers alone. */
    const char *class_names, *vertex_names;
    uint32_t n_relations; /* of the edges, with the relations of reverse edges; 0: the graph is not typed */
    bool directed;        /* no reverse edges were added */
};

/* The sizes and names of a dataset, from files or from arrays. SL_EINVAL: out->size is 0. */
SL_API enum sl_status sl_dataset_describe(const struct sl_dataset *dataset, struct sl_dataset_sizes *out);

/* ---- rows of a dataset, and neighbourhoods for the training loop of another framework ----
 *
 * These functions need no session and no StarPU. Arrays of a dataset may be read from several threads. */

/* Copy the features of n vertices, as float32: out [n x n_features], row-major. Sparse and narrow features are
 * widened. SL_EINVAL: the graph has no such vertex. */
SL_API enum sl_status sl_dataset_features(const struct sl_dataset *dataset, uint32_t n, const uint32_t *vertices,
                                          float *out);

/* Copy the targets of n vertices. Classes: int32 [n], -1 is unknown. Label sets and numbers: float [n x n_outputs],
 * nan is unknown. SL_EINVAL: the graph has no such vertex. */
SL_API enum sl_status sl_dataset_targets(const struct sl_dataset *dataset, uint32_t n, const uint32_t *vertices,
                                         void *out);

enum sl_split_list { SL_SPLIT_TRAIN, SL_SPLIT_VALID, SL_SPLIT_TEST };

/* A list of the split: *n_out ascending ids, borrowed from the dataset. SL_EINVAL: there is no such list. */
SL_API enum sl_status sl_dataset_split(const struct sl_dataset *dataset, enum sl_split_list list, const uint32_t **out,
                                       uint32_t *n_out);

struct sl_neighbor_sampler;

/* Vertices and edges around n seeds. Arrays belong to the sampler, and hold until its next call. */
struct sl_neighborhood {
    size_t size;
    uint32_t n_vertices;
    uint32_t n_hops;
    uint64_t n_edges;
    const uint32_t *vertices;               /* n_vertices distinct ids: the seeds, then the vertices of each hop */
    const uint32_t *sources, *destinations; /* n_edges: positions in `vertices`. Destinations ascend */
    const float *weights;                   /* n_edges: edge weights; NULL: none */
    const uint32_t *hop_vertices;           /* n_hops + 1: seeds, then vertices that each hop adds */
    const uint64_t *hop_edges;              /* n_hops: edges of each hop */
    const uint16_t *relations;              /* n_edges, of a typed graph; else NULL */
};

/* Make a sampler. Options read: layers (hops), fanout (input side first: the last entry is for the seeds), sampler,
 * replace, kappa, layer-dependency, edge-weights, seed. The sampler borrows the dataset. One thread uses a sampler at a
 * time; several samplers may share a dataset. SL_EINVAL. SL_ENOTSUP: sampler ladies or pladies, labor-iterations,
 * relation-fanout, or edge-weights both. SL_ENOMEM. On failure *out is NULL. */
SL_API enum sl_status sl_sampler_open(struct sl_settings *settings, const struct sl_dataset *dataset,
                                      struct sl_neighbor_sampler **out);
SL_API void sl_sampler_close(struct sl_neighbor_sampler *sampler);

/* Draw a neighbourhood. Hop 0 draws in-edges of the seeds, and each later hop those of the vertices that the hop before
 * it added: a vertex is drawn once, as in PyTorch Geometric. A draw depends on (seed, step, hop, vertex) alone, so
 * equal calls have equal results. Give each minibatch a step of its own, below 2^48. seeds: n distinct vertices; n may
 * be 0. SL_EINVAL: a seed is wrong, or there are 2^32 edges or more. SL_ENOMEM. */
SL_API enum sl_status sl_sampler_draw(struct sl_neighbor_sampler *sampler, uint64_t step, uint32_t n,
                                      const uint32_t *seeds, struct sl_neighborhood *out);

/* ---- session: from the settings to the last output file ---- */

struct sl_session;

/* Do all work before the first step: load and partition the dataset, start StarPU, make the model, and load the
 * checkpoint or the initial weights.
 *
 * settings: borrowed until the session is closed. Open options (pes, chunks, ..) are filled in.
 *
 * dataset: NULL to load the dataset named by the settings, from files, the cache or a generator. Otherwise a dataset
 * made of arrays (data/arrays.h). It is borrowed during this call only: afterwards the program may free the
 * dataset and its arrays. With arrays, the options that select a dataset must keep their defaults. They are dataset,
 * data-path, split, drop-leaks, features and directed. Other values are refused, also from the environment, but for a
 * split random:60,20,20: it is drawn of the arrays, in place of theirs. If the arrays list links, or the split is drawn
 * and they have no labels, objective auto becomes link. METIS's partition is cached by the contents of the graph, in
 * the folder of option cache. Without that option, graphs of 16384 vertices or more are cached in ~/.cache/starling.
 * Metrics, models and checkpoints then carry the name of the arrays. --resume requires a checkpoint of the same data.
 * The contents are compared: graph, features, labels or targets, and split. The name of the arrays may change.
 *
 * On failure *out is NULL and StarPU is as it was before the call. Any status can occur, among them:
 * SL_EINVAL: options contradict each other or the checkpoint; or StarPU is already up, for another session or the
 * program itself.
 * SL_ENOTFOUND: no such dataset, or no checkpoint to resume from. SL_EFILE: a file's contents are wrong.
 * SL_ENOMEM: memory ran out, or the estimated need exceeds the memory of this process or of a GPU. SL_ESTARPU. */
SL_API enum sl_status sl_session_open(struct sl_settings *settings, const struct sl_dataset *dataset,
                                      struct sl_session **out);

/* Stop StarPU and release everything. If the run was traced (--trace DIR), call sl_trace_finish(DIR) next. */
SL_API void sl_session_close(struct sl_session *session);

/* Print a few lines for people: dataset, partition, workers, memory, warnings. SL_EIO. */
SL_API enum sl_status sl_session_describe(const struct sl_session *session, FILE *stream);

struct sl_session_sizes {
    size_t size;
    uint32_t n_vertices, n_features;
    /* columns of the outputs: classes, labels or numbers */
    uint32_t n_outputs;
    /* directed edges of the training graph */
    uint64_t n_edges;
    /* P: processing elements (PEs). A PE is a share of the work of a group, with one part of the graph. */
    uint32_t n_pes;
    /* G: parts of the graph; also the number of PEs that expand one minibatch together */
    uint32_t n_parts;
    /* steps of an epoch */
    uint32_t n_per_epoch;
    /* columns of the embeddings; 0 if the model has one layer and no links, and therefore no embeddings */
    uint32_t n_hidden;
    /* arrays of the model, named as --save-names says (struct sl_weight) */
    uint32_t n_weights;
    /* Estimated peak memory of the run in bytes. With several processes: of the largest process. The run may use up
     * to a tenth more. */
    uint64_t memory_bytes;
};

/* SL_EINVAL: out->size is 0. */
SL_API enum sl_status sl_session_sizes(const struct sl_session *session, struct sl_session_sizes *out);

/* ---- scores ---- */

#define SL_MAX_SCORES 16

/* One score, over the validation vertices and over the test vertices; NaN for an empty set. Classes: acc, f1 (macro),
 * and auc if there are two. Label sets: ap, auc, f1_micro, f1 (macro). Numbers: mse, mae, r2.
 * Links: auc, ap, mrr, hits1, hits3, hits10, hits20, hits50, hits100. */
struct sl_score {
    char name[16];
    double valid, test;
    bool larger_is_better;
    bool is_fraction; /* 0 .. 1 */
};

struct sl_scores {
    double valid_loss; /* mean loss of the validation vertices, without class weights and smoothing */
    uint32_t n;
    uint32_t best_by; /* the score that selects the best epoch (option best-by) */
    struct sl_score score[SL_MAX_SCORES];
};

/* ---- training ---- */

struct sl_step_news {
    size_t size;
    uint32_t epoch; /* from 1 */
    uint64_t step;  /* from 0, over the whole run */
    double loss;    /* mean over the step's seeds (the training vertices of one step) */
};

struct sl_epoch_news {
    size_t size;
    /* from 1; 0: an evaluation without training */
    uint32_t epoch;
    /* mean over the epoch's seeds; NaN if nothing was trained */
    double loss;
    /* training time */
    double seconds;
    /* whether this epoch was evaluated; if not, the values of the scores are NaN */
    bool evaluated;
    struct sl_scores scores;
};

/* Where sl_session_train reports to, in addition to the file of --metrics. Every member but `size` may be NULL.
 *
 * The training thread calls the callbacks between two submissions. `epoch` may take its time. A slow `step` delays
 * training. A callback returns 0 to continue; any other number stops training, as sl_session_stop does. A callback may
 * call sl_session_stop and no other function of the session. */
struct sl_report {
    size_t size;
    /* Progress lines for people. With --quiet: nothing. With --json: the metrics' lines instead. */
    FILE *stream;
    /* passed to the callbacks */
    void *context;
    /* Called for every step in order, a few steps after the step was submitted. */
    int (*step)(void *context, const struct sl_step_news *news);
    /* Called after all steps of an epoch and its evaluation. */
    int (*epoch)(void *context, const struct sl_epoch_news *news);
    /* Called with each line of the metrics, a JSON object without a line end: the file of --metrics has the same lines.
     * Process 0 only. The line is valid during the call. An epoch's line comes before the call of `epoch`. */
    int (*line)(void *context, const char *json);
};

/* Train the remaining epochs, evaluate, and write the requested files: checkpoints during training; model,
 * predictions and embeddings at the end. A session trains once. To continue, open a new session with --checkpoint and
 * --resume.
 *
 * Afterwards the session's model is the model of the best validation score. Without an evaluation: the last model.
 * With several replicas (--sync): the average of the replicas.
 *
 * sl_session_stop, a callback, or a signal (sl_signals_install) ends training after the current step. The requested
 * files are still written. SL_EINTERRUPT: training ended in this way before its last step; the message names the
 * signal, if any. SL_OK: all epochs are done.
 *
 * report: NULL for none. SL_ENUMERIC: the loss is not finite. SL_EINVAL: the session was trained already, or
 * report->size is 0. Otherwise
 * the status of the first task, file or StarPU call that failed. No task is in flight when the function returns. */
SL_API enum sl_status sl_session_train(struct sl_session *session, const struct sl_report *report);

/* Ask sl_session_train to end after the current step. Call it from a callback, another thread or a signal handler,
 * while the session is open. Before sl_session_train: training ends before its first step. After sl_session_train: no
 * effect. */
SL_API void sl_session_stop(struct sl_session *session);

/* Whether the run has reached the steps to trace (--trace). NULL: false. */
SL_API bool sl_session_traced(const struct sl_session *session);

/* ---- the model: not during sl_session_train ----
 *
 * Before sl_session_train these functions see the initial weights: random, from --load, or the checkpoint's last
 * weights (not its best). After it they see the trained model. Only sl_session_set_weights changes the result of
 * training. After a task has failed, the contents of the model are undefined.
 *
 * A model outlives its session as arrays: copy the weights with sl_session_weight. Later open a session with the same
 * options of the model and with `epochs` 0, and give it the arrays with sl_session_set_weights. */

/* Run exact inference on all vertices: every in-neighbour, no sampling. Outputs may be NULL: without any, only the
 * vertices that the scores need are computed. Rows are in the order of the dataset's vertex ids, row-major. logits
 * [n_vertices x n_outputs] are the outputs of the last layer. They are scores of classes or labels before softmax or
 * sigmoid, or numbers. embeddings [n_vertices x n_hidden] are the last hidden layer. With the objective link they are
 * the outputs.
 * SL_ENOTSUP: a run of several processes. SL_ENOMEM. Otherwise the status of a failed task, of this call or of
 * training. */
SL_API enum sl_status sl_session_evaluate(struct sl_session *session, struct sl_scores *scores, float *logits,
                                          float *embeddings);

/* Scores of pairs, by the objective link: scores[i] of pairs->from[i] -> pairs->to[i], ids of the dataset. relations:
 * if links have relations, else NULL. SL_EINVAL: another objective, or a vertex or relation is out of range. Otherwise
 * as sl_session_evaluate. */
SL_API enum sl_status sl_session_score_links(struct sl_session *session, const struct sl_array_links *pairs,
                                             float *scores);

/* Name and shape of one array of the model. */
struct sl_weight {
    char name[128];
    uint32_t n_dims;   /* 1 .. 3 */
    uint64_t shape[3]; /* the first n_dims entries are used */
};

/* Describe array `i` of the model (below n_weights), under its name of --save-names. The program may set the option
 * save-names between two calls. Copy all its entries, row-major,
 * into `values`; NULL: do not copy.
 * SL_EINVAL: the model has no array `i`. SL_ENOTSUP: a run of several processes. SL_ENOMEM, SL_ESTARPU. */
SL_API enum sl_status sl_session_weight(struct sl_session *session, uint32_t i, struct sl_weight *out, float *values);

/* Replace all arrays of the model, as --load does. weights: n names and shapes, in any order, with the names of DGL's
 * or of PyTorch Geometric's layers. values: n arrays, row-major. The arrays are copied. Before sl_session_train: the
 * initial weights of training. With a checkpoint this is refused.
 * SL_EFILE: an array is missing, surplus or of another shape; the model is then unchanged. SL_EINVAL: a name has no
 * end, n_dims is not 1 .. 3, or the session has a checkpoint. SL_ENOTSUP: a run of several processes. SL_ENOMEM,
 * SL_ESTARPU. */
SL_API enum sl_status sl_session_set_weights(struct sl_session *session, uint32_t n, const struct sl_weight *weights,
                                             const float *const *values);

/* ---- a trained model: load it, ask it, delete it ----
 *
 *   struct sl_trained *model;
 *   sl_model_load("model.safetensors", &model);
 *   sl_model_predict(model, dataset, n_vertices, NULL, logits);
 *   sl_model_delete(model);
 *
 * The file of --save says all that changes an output: options, objective, normalization and its statistics, names. So
 * the calls need a dataset and nothing else. It is of arrays (sl_dataset_new) or of files (sl_model_open_dataset).
 * Labels and a split may be missing. Features are normalized as in training, with the statistics of training.
 * Relations are matched by name.
 *
 * The first call with a dataset opens a session for it, which stays open: later calls with the same model and dataset
 * open nothing again. A call with another one, sl_session_open, and sl_model_delete close it. So does
 * sl_model_rest, which gives its memory and StarPU back. Until then the dataset's arrays must not change, unless a new
 * dataset is made of them; the dataset itself may be deleted. While the program's own session is open, the calls fail:
 * SL_EINVAL.
 *
 * All calls: SL_ENOTSUP: a run of several processes. SL_EINVAL: the dataset does not fit the model; the message names
 * the features, relations or classes, as found and expected. SL_ENOMEM, SL_ESTARPU, the status of a failed task. Arrays
 * are written on success only. */

struct sl_trained;

/* Read a model's file, or a checkpoint. Older files, and those of other programs, do not say all: a notice says what
 * (sl_on_notice). SL_EFILE: not such a file, or damaged. SL_EIO, SL_ENOMEM. On failure *out is NULL. */
SL_API enum sl_status sl_model_load(const char *path, struct sl_trained **out);

/* Make a model of a session's: before training its initial weights, later the trained ones. The session stays. SL_EIO,
 * and as sl_session_weight. On failure *out is NULL. */
SL_API enum sl_status sl_session_model(struct sl_session *session, struct sl_trained **out);

/* Write the model's file, as --save does. SL_EIO, SL_ENOMEM. */
SL_API enum sl_status sl_model_save(const struct sl_trained *model, const char *path);

/* Free the model, and close the session that its calls left open. */
SL_API void sl_model_delete(struct sl_trained *model);

/* Close the session that a call of any model left open. */
SL_API void sl_model_rest(void);

/* Texts are the model's: valid until sl_model_delete. NULL or 0: the file does not say. */
struct sl_model_facts {
    size_t size;
    const char *model;     /* "sage" */
    const char *objective; /* "class", "labels", "regression" or "link" */
    const char *dataset;   /* the name of the training data */
    uint32_t version;      /* of the file's format; 0: an older file, or one of another program */
    uint32_t n_features;   /* columns of the features */
    uint32_t n_outputs;    /* classes, labels or numbers; of links: columns of the embeddings */
    uint32_t n_embeddings; /* columns of the embeddings; 0: one layer, no embeddings */
    /* A line each, in order: classes (or label columns), and relations as SOURCE,NAME,DESTINATION. */
    const char *class_names, *relation_names;
};

/* SL_EINVAL: out->size is 0. */
SL_API enum sl_status sl_model_describe(const struct sl_trained *model, struct sl_model_facts *out);

/* A dataset of files for the answers of a model: as sl_dataset_open, with the model's direction of edges, made features
 * and their seed, normalization and objective. settings: of sl_settings_new, without a model of their own (option
 * load). SL_EINVAL also: an option contradicts the model. */
SL_API enum sl_status sl_model_open_dataset(const struct sl_trained *model, struct sl_settings *settings,
                                            struct sl_dataset **out);

/* Set an option of the answers before the first call: cpus, gpus, pes, precision, cache and others that change no
 * model. SL_EINVAL: the option contradicts the file, is of a dataset or an output, or has no such value. SL_ENOMEM. */
SL_API enum sl_status sl_model_set(struct sl_trained *model, const char *name, const char *value);

/* The value of an option, as sl_settings_get. */
SL_API enum sl_status sl_model_get(const struct sl_trained *model, const char *name, char *text, size_t bytes);

/* Scores of n vertices: n x n_outputs, row-major, row i of vertices[i]. They are the outputs of the last layer: before
 * softmax or sigmoid, or numbers. Without GPUs only the vertices within `layers` hops are computed. vertices NULL: n is
 * the dataset's number of vertices, in the order of its ids. SL_EINVAL also: the model is of links; a vertex is out of
 * range. */
SL_API enum sl_status sl_model_predict(struct sl_trained *model, const struct sl_dataset *dataset, uint32_t n,
                                       const uint32_t *vertices, float *logits);

/* The same for embeddings, n x n_embeddings: the last hidden layer; of a model of links, its outputs, as --embed.
 * SL_EINVAL also: the model has one layer. */
SL_API enum sl_status sl_model_embed(struct sl_trained *model, const struct sl_dataset *dataset, uint32_t n,
                                     const uint32_t *vertices, float *embeddings);

/* Score new vertices beside a dataset, without loading it again. The results are those of the two calls above for a
 * graph of all vertices. The dataset does not change.
 *
 * added: n_vertices new vertices with their features, in the columns of the dataset, and a list of edges. Let the
 * dataset have n vertices: new vertex i then has the id n + i. Each edge has at least one new end. directed,
 * edge_weights, edge_relations and edge_features are as in the dataset. relation_names NULL: relations have the
 * dataset's numbers. Types of vertices have the order and columns of training. Labels, a split, links and types are not
 * read.
 * logits: [added->n_vertices x n_outputs]. embeddings: [added->n_vertices x n_embeddings]. NULL: not wanted.
 * The time grows with the number of vertices within `layers` hops. SL_EINVAL also: an array is wrong, or the features
 * are --features degree. */
SL_API enum sl_status sl_model_predict_new(struct sl_trained *model, const struct sl_dataset *dataset,
                                           const struct sl_arrays *added, float *logits, float *embeddings);

/* Scores over the dataset's validation and test vertices or links. Without labels or a split they are NaN. */
SL_API enum sl_status sl_model_evaluate(struct sl_trained *model, const struct sl_dataset *dataset,
                                        struct sl_scores *scores);

/* Scores of pairs, by a model of links: scores[i] of from[i] -> to[i]. relations: those of the dataset, if it is typed,
 * else NULL. SL_EINVAL also: the model is not of links; a vertex or a relation is out of range. */
SL_API enum sl_status sl_model_score_links(struct sl_trained *model, const struct sl_dataset *dataset,
                                           const struct sl_array_links *pairs, float *scores);

/* ---- several processes: mpirun -np 4 coop_sage .. ----
 *
 * If mpirun or srun starts several processes of a program, their sessions form one run. Each process owns a share of
 * the PEs; all get the same losses and the same model.
 *
 * sl_session_open, sl_session_train and sl_session_close are collective: every process calls them, with the same
 * settings. Callbacks run in every process. Only process 0 writes files and lines for people. sl_session_evaluate and
 * sl_session_weight are not supported.
 *
 * With gossip (--sync) the processes are only synchronised when an epoch ends. So steps are reported then, and a
 * request to stop takes effect then.
 *
 * If one process fails, the rest wait. The failed process must call sl_process_abort, before it closes its session,
 * to end the run. A build without MPI refuses a start with several processes in sl_session_open. */

/* The number of processes according to the launcher's environment; 1 without a launcher. */
SL_API uint32_t sl_process_count(void);

/* The number of this process, from 0. */
SL_API uint32_t sl_process_number(void);

/* Join the other processes, after a check of the settings for a run of several. sl_session_open does the same: call
 * this only to join earlier. SL_ENOTSUP: the build has no MPI. SL_EINVAL: a setting is refused, or MPI reports
 * another number of processes than the launcher's environment. */
SL_API enum sl_status sl_process_join(const struct sl_settings *settings);

/* Register a hook for failures from which sl_session_train cannot return:
 * - a failed task in a run of several processes. The hook runs before another process can see the task's output.
 * - with --watchdog, a run without progress; also in a single process.
 * The hook runs on a thread whose sl_message() gives the reason. It must call sl_process_abort or end the process.
 * NULL, the default: sl_session_train returns the task's failure, and sl_session_open refuses --watchdog. Call this
 * before sl_session_open. */
SL_API void sl_process_on_failure(void (*hook)(void));

/* End all processes of the run with this exit code, from any thread. In a run of one process, or before the process
 * has joined the others, it does nothing and returns. */
SL_API void sl_process_abort(int code);

/* ---- streams, traces and signals, for programs like coop_sage ---- */

/* Open missing standard streams; reading and writing them then fails. Otherwise the program's first files would get
 * their descriptors, and lines for people would end up in a file of the run. Call this first. */
SL_API void sl_streams_open(void);

/* Convert the raw trace in `folder` (--trace) with StarPU's converter. Takes seconds. `starling report FOLDER` then
 * draws the run and explains its idle time. Call this after a traced session is closed. Collective: process 0 works.
 * The converter runs in a child process: a crash of the converter does not end the caller. Each output file is replaced
 * as a whole. After a failure older files remain. SL_EIO: there is no raw trace, or a file cannot be written.
 * SL_EFILE: the raw trace was cut short. SL_ESTARPU: the converter failed. SL_ENOTSUP: StarPU was built without FxT. */
SL_API enum sl_status sl_trace_finish(const char *folder);

/* Remove the raw trace of a run that failed, instead of converting it, and the folder if nothing else is in it. Nothing
 * happens if no session of this process began a trace. */
SL_API void sl_trace_discard(const char *folder);

/* Let the first SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or SIGXCPU end sl_session_train after the current step, with
 * SL_EINTERRUPT, and a second signal end the program. A repeated SIGHUP or SIGXCPU does not end the program, because
 * the system itself repeats these two. Ignored signals stay ignored (nohup). Of an ignored SIGINT, only the terminal's
 * stays ignored: scripts start background programs so, and send SIGINT by kill. Not thread safe. sl_session_stop works
 * without this call. SL_EINVAL: installed already. SL_EIO: the system refuses. */
SL_API enum sl_status sl_signals_install(void);

/* The number of the signal that asked to stop since sl_signals_install; 0: none. Thread safe. */
SL_API int sl_signals_seen(void);

/* Restore the handlers from before sl_signals_install, and forget the signal seen: later trainings are not stopped by
 * it. Without an installation, do nothing. */
SL_API void sl_signals_restore(void);

#ifdef __cplusplus
}
#endif

#endif
