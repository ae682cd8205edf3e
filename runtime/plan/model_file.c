/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Models' files: the metadata, checked. */
#include "runtime/plan/model_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/graph.h"
#include "support/memory.h"
#include "support/number.h"

const char *sl_model_file_text(const struct sl_model_file *file, const char *key)
{
    return sl_tensors_metadata(&file->tensors, key);
}

const char *sl_model_file_option(const struct sl_model_file *file, const char *name)
{
    char key[64];
    int n = snprintf(key, sizeof key, SL_KEY_OPTION "%s", name);
    return n > 0 && (size_t)n < sizeof key ? sl_tensors_metadata(&file->tensors, key) : NULL;
}

/* A whole number up to `most`. Without the key *out stays. */
static enum sl_status take_whole(const struct sl_tensors *tensors, const char *key, uint64_t most, uint64_t *out)
{
    const char *text = sl_tensors_metadata(tensors, key);
    uint64_t value = 0;
    if (text == NULL) {
        return SL_OK;
    }
    const char *end = text + strlen(text);
    SL_FAIL_IF(sl_number_u64(text, end, &value) != end || value > most, SL_EFILE,
               "%.300s: %s is '%.40s', expected a whole number up to %llu", tensors->path, key, text,
               (unsigned long long)most);
    *out = value;
    return SL_OK;
}

static enum sl_status take_u32(const struct sl_tensors *tensors, const char *key, uint32_t most, uint32_t *out)
{
    uint64_t value = *out;
    enum sl_status st = take_whole(tensors, key, most, &value);
    *out = (uint32_t)value;
    return st;
}

/* n numbers, separated by a space each. Without the key *out stays NULL. */
static enum sl_status take_numbers(const struct sl_tensors *tensors, const char *key, uint32_t n, double **out)
{
    const char *p = sl_tensors_metadata(tensors, key);
    if (p == NULL) {
        return SL_OK;
    }
    const char *end = p + strlen(p);
    /* A number has a digit and a space at least. */
    SL_FAIL_IF((uint64_t)(end - p) + 1 < 2 * (uint64_t)n, SL_EFILE, "%.300s: %s: expected %u numbers, found fewer",
               tensors->path, key, n);
    SL_CHECK(sl_alloc(n, sizeof **out, "statistics of features", out));
    for (uint32_t i = 0; i < n; i++) {
        const char *stop = sl_number_real(p, end, &(*out)[i]);
        bool last = i + 1 == n;
        SL_FAIL_IF(stop == NULL || !isfinite((*out)[i]) || (last ? stop != end : *stop != ' '), SL_EFILE,
                   "%.300s: %s: expected %u finite numbers, separated by spaces, found '%.20s'", tensors->path, key, n,
                   p);
        p = stop + 1;
    }
    return SL_OK;
}

static enum sl_status take_scaling(const struct sl_tensors *tensors, struct sl_model_file *out)
{
    SL_OWNED(sl_scaling_free) struct sl_scaling scaling = {0};
    SL_CHECK(take_numbers(tensors, SL_KEY_MEAN, out->n_features, &scaling.mean));
    SL_CHECK(take_numbers(tensors, SL_KEY_SCALE, out->n_features, &scaling.scale));
    SL_FAIL_IF((scaling.mean == NULL) != (scaling.scale == NULL), SL_EFILE,
               "%.300s: expected both or none of " SL_KEY_MEAN " and " SL_KEY_SCALE, tensors->path);
    scaling.n = scaling.mean != NULL ? out->n_features : 0;
    out->scaling = scaling;
    scaling = (struct sl_scaling){0};
    return SL_OK;
}

enum sl_status sl_model_file_parse(struct sl_tensors *tensors, struct sl_model_file *out)
{
    struct sl_model_file file = {.version = 0};
    *out = file;
    SL_CHECK(take_u32(tensors, SL_KEY_VERSION, UINT32_MAX, &file.version));
    SL_FAIL_IF(file.version > SL_MODEL_VERSION, SL_EFILE,
               "%.300s: found a model of format %u, expected at most %d: a later Starling wrote it", tensors->path,
               file.version, SL_MODEL_VERSION);
    SL_CHECK(take_u32(tensors, SL_KEY_FEATURES, UINT32_MAX - 1, &file.n_features));
    SL_CHECK(take_u32(tensors, SL_KEY_OUTPUTS, UINT32_MAX - 1, &file.n_outputs));
    SL_CHECK(take_u32(tensors, SL_KEY_RELATION_COUNT, SL_MAX_RELATIONS, &file.n_relations));
    SL_CHECK(take_whole(tensors, SL_KEY_SEED, UINT64_MAX, &file.feature_seed));
    SL_CHECK(take_scaling(tensors, &file));
    file.tensors = *tensors;
    *tensors = (struct sl_tensors){0};
    *out = file;
    return SL_OK;
}

enum sl_status sl_model_file_read(const char *path, struct sl_model_file *out)
{
    SL_OWNED(sl_tensors_free) struct sl_tensors tensors = {0};
    *out = (struct sl_model_file){0};
    SL_CHECK(sl_safetensors_read(path, &tensors));
    return sl_model_file_parse(&tensors, out);
}

void sl_model_file_warn(const struct sl_model_file *file)
{
    const char *options = sl_model_file_option(file, "model") == NULL ? "its options, " : "";
    if (file->version == 0) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: an older file, or one of another program: it does not say %show features were normalized or "
                  "made, whether edges are directed, nor the names of classes, relations and types; give the options "
                  "of its training",
                  file->tensors.path, options);
    }
}

void sl_model_file_drop(struct sl_model_file *file)
{
    sl_tensors_drop(&file->tensors);
}

bool sl_model_file_has_data(const struct sl_model_file *file)
{
    return file->tensors.bytes != NULL;
}

void sl_model_file_free(struct sl_model_file *file)
{
    sl_tensors_free(&file->tensors);
    sl_scaling_free(&file->scaling);
    *file = (struct sl_model_file){0};
}
