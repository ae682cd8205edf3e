/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Made features, a vertex at a time. */
#include "data/made_features.h"

#include <stdlib.h>
#include <string.h>

#include "support/file.h"
#include "support/ln.h"
#include "support/memory.h"
#include "support/number.h"
#include "support/parallel.h"
#include "support/random.h"

#define MAX_COLUMNS 65536
#define MAX_ONEHOT (1 << 24)
#define TEXT_KEY ((uint64_t)1 << 63)
#define GRAIN 1024 /* vertices that one thread makes features of at a time */

/* ---- words ---- */

enum sl_status sl_made_features_parse(const char *text, struct sl_made_features *out)
{
    static const struct {
        const char *word;
        enum sl_made_kind kind;
    } words[] = {{"none", SL_MADE_NONE}, {"degree", SL_MADE_DEGREE}, {"onehot", SL_MADE_ONEHOT}};
    struct sl_made_features made = {.kind = SL_MADE_NOT};
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) == 0) {
            made.kind = words[i].kind;
        }
    }
    if (text != NULL && strncmp(text, "random", 6) == 0 && (text[6] == ':' || text[6] == '\0')) {
        uint64_t n = 0;
        const char *end = text + strlen(text);
        if (text[6] == '\0' || sl_number_u64(text + 7, end, &n) != end || n == 0 || n > MAX_COLUMNS) {
            return sl_fail(SL_EINVAL,
                           "--features: found '%.100s', expected random:N with 1 to %d columns; try random:64", text,
                           MAX_COLUMNS);
        }
        made = (struct sl_made_features){.kind = SL_MADE_RANDOM, .n_columns = (uint32_t)n};
    }
    *out = made;
    return SL_OK;
}

/* ---- tables ---- */

struct making {
    const struct sl_graph *graph;
    uint64_t seed;
    uint64_t *keys; /* of the vertices, by their names; NULL: their numbers */
    struct sl_features *out;
};

static void make_degrees(void *context, uint64_t begin, uint64_t end)
{
    const struct making *making = context;
    const uint64_t *offsets = making->graph->offsets;
    float *to = making->out->dense.data;
    for (uint64_t v = begin; v < end; v++) {
        to[v] = (float)sl_ln(1 + (double)(offsets[v + 1] - offsets[v]));
    }
}

static void make_random_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct making *making = context;
    struct sl_draw draw = {.seed = making->seed, .purpose = SL_FOR_FEATURES};
    uint32_t n = making->out->n_columns;
    for (uint64_t v = begin; v < end; v++) {
        const uint64_t key = making->keys != NULL ? making->keys[v] : v;
        float *row = sl_column_row(&making->out->dense, v);
        draw.seed = making->seed ^ (key & TEXT_KEY ? key : 0);
        for (uint32_t c = 0; c < n; c++) {
            row[c] = (float)sl_normal_quantile(sl_random_open(&draw, (uint32_t)key, c));
        }
    }
}

/* A name that is a number, as 0 .. N-1 are without names, has the number as its key. */
static uint64_t key_of(const char *name, size_t n)
{
    uint64_t number = 0;
    const bool short_number = n > 0 && n <= 10 && (name[0] != '0' || n == 1);
    if (short_number && sl_number_u64(name, name + n, &number) == name + n && number <= UINT32_MAX) {
        return number;
    }
    return sl_checksum(0, name, n) | TEXT_KEY;
}

static enum sl_status find_keys(const char *names, uint32_t n, uint64_t **out)
{
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof **out, "names of vertices", out));
    for (uint32_t v = 0; v < n; v++) {
        const size_t length = strcspn(names, "\n");
        (*out)[v] = key_of(names, length);
        names += length;
        names += *names != '\0';
    }
    return SL_OK;
}

static enum sl_status make_dense(struct making *making, uint32_t n_columns,
                                 void (*body)(void *context, uint64_t begin, uint64_t end))
{
    uint32_t n = making->graph->n_vertices;
    float *data;
    SL_CHECK(sl_alloc((size_t)n * n_columns, sizeof *data, "features", &data));
    *making->out = (struct sl_features){.n_rows = n, .n_columns = n_columns};
    making->out->dense = sl_column_take(SL_DTYPE_F32, n, n_columns, data);
    sl_parallel_for(n, GRAIN, body, making);
    return SL_OK;
}

static enum sl_status make_identity(const struct sl_graph *graph, struct sl_features *out)
{
    const uint32_t n = graph->n_vertices;
    SL_FAIL_IF(n > MAX_ONEHOT, SL_EINVAL,
               "--features: found onehot for %u vertices, expected at most %d; try random:64", n, MAX_ONEHOT);
    SL_CHECK(sl_features_start_csr(n, n, n, out));
    for (uint32_t v = 0; v < n; v++) {
        out->offsets[v] = v;
        out->columns[v] = v;
        out->values[v] = 1;
    }
    out->offsets[n] = n;
    return SL_OK;
}

/* The same numbers for the same vertex in another graph. */
static enum sl_status make_random(struct making *making, uint32_t n_columns, const char *names)
{
    SL_FREED uint64_t *keys = NULL;
    if (names != NULL) {
        SL_CHECK(find_keys(names, making->graph->n_vertices, &keys));
    }
    making->keys = keys;
    return make_dense(making, n_columns, make_random_rows);
}

enum sl_status sl_made_features_make(const struct sl_made_features *made, const struct sl_graph *graph,
                                     const char *names, uint64_t seed, struct sl_features *out)
{
    struct making making = {.graph = graph, .seed = seed, .out = out};
    switch (made->kind) {
    case SL_MADE_DEGREE: return make_dense(&making, 1, make_degrees);
    case SL_MADE_RANDOM: return make_random(&making, made->n_columns, names);
    case SL_MADE_ONEHOT: return make_identity(graph, out);
    case SL_MADE_NONE:
    case SL_MADE_NOT: break;
    }
    return SL_OK;
}
