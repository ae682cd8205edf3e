/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A model's file: a safetensors file whose metadata say all that changes an output. Keys:
 *
 *   starling_model     the version of the format, "1"; files of older versions and of other programs lack it
 *   option.NAME        the option NAME, in the form for sl_option_set
 *   objective          the objective that --objective auto chose, or the given one
 *   n_features, n_outputs
 *   features.seed      of --features random:N; of onehot the checksum of the names of the vertices
 *   program            "coop_sage" or "pipe_gnn"
 *   n_relations        of the graph, with the reverse ones; 0: not typed
 *   normalize.mean, normalize.scale    of --normalize-features column: n_features numbers, separated by spaces
 *
 * Names are a line each:
 *
 *   classes            of the classes, in order
 *   relations          SOURCE,NAME,DESTINATION of the relations without reverses, in order
 *   feature_names      of the feature columns of nodes.csv, or of arrays
 *   types              NAME,VERTICES,COLUMNS of the types of vertices, in order (data/dataset.h)
 */
#ifndef SL_RUNTIME_PLAN_MODEL_FILE_H
#define SL_RUNTIME_PLAN_MODEL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/features.h"
#include "support/safetensors.h"

struct sl_settings;

#define SL_MODEL_VERSION 1
#define SL_KEY_VERSION "starling_model"
#define SL_KEY_OPTION "option." /* and a name */
#define SL_KEY_PROGRAM "program"
#define SL_KEY_OBJECTIVE "objective"
#define SL_KEY_FEATURES "n_features"
#define SL_KEY_OUTPUTS "n_outputs"
#define SL_KEY_RELATION_COUNT "n_relations"
#define SL_KEY_SEED "features.seed"
#define SL_KEY_MEAN "normalize.mean"
#define SL_KEY_SCALE "normalize.scale"
#define SL_KEY_CLASSES "classes"
#define SL_KEY_RELATIONS "relations"
#define SL_KEY_TYPES "types"
#define SL_KEY_FEATURE_NAMES "feature_names"

struct sl_model_file {
    struct sl_tensors tensors; /* without data after sl_model_file_drop */
    bool stays;                /* a session leaves the arrays there, for the next one */
    uint32_t version;          /* 0: none */
    uint32_t n_features;       /* 0: unknown */
    uint32_t n_outputs;        /* 0: unknown */
    uint32_t n_relations;      /* of the graph, with reverses; 0: not typed, or unknown */
    uint64_t feature_seed;     /* of --features random:N and onehot */
    struct sl_scaling scaling; /* empty: none */
};

/* Read a file, and check its metadata. The file may be hostile. SL_EFILE: not a safetensors file, or of a later
 * version, or its metadata contradict each other. SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_model_file_read(const char *path, struct sl_model_file *out);

/* The same for a file in memory. On success *out owns the tensors; on failure the caller keeps them. */
enum sl_status sl_model_file_parse(struct sl_tensors *tensors, struct sl_model_file *out);

/* Give notice of what an older file, or one of another program, does not say. */
void sl_model_file_warn(const struct sl_model_file *file);

/* The value of a key; NULL: none. Valid as long as the file. */
const char *sl_model_file_text(const struct sl_model_file *file, const char *key);

/* The value of an option; NULL: none. */
const char *sl_model_file_option(const struct sl_model_file *file, const char *name);

/* Release the arrays. Names, shapes and metadata stay. */
void sl_model_file_drop(struct sl_model_file *file);

/* Whether the arrays are there. */
bool sl_model_file_has_data(const struct sl_model_file *file);

/* Release all. An empty struct is allowed. */
void sl_model_file_free(struct sl_model_file *file);

/* Read the file of `load`, unless it was read already, and take its options. Call it before sl_settings_check. Without
 * `load`: nothing. An option that the user has given, or the program has set, must equal the file's. Other options take
 * the file's value. Files that do not say all of it give a warning. SL_EINVAL: an option contradicts the file (the
 * message names both values). SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_settings_adopt(struct sl_settings *settings);

/* The same, from a file that was read before. The settings take the file over, also on failure. */
enum sl_status sl_settings_adopt_file(struct sl_settings *settings, struct sl_model_file *file);

#endif
