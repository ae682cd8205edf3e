/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Neighbourhoods for the training loop of another framework: the kernels of a step, called one after the other. */
#include <string.h>

#include "codelets/sampling/exchange.h"
#include "data/dataset.h"
#include "data/features.h"
#include "runtime/minibatch/steps.h"
#include "runtime/starling.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"

/* Arrays with an entry for each edge of a hop. */
struct room {
    uint64_t n;
    uint32_t *request, *inverse; /* of one PE: two positions, then a source each */
};

struct sl_neighbor_sampler {
    const struct sl_dataset *dataset; /* borrowed */
    uint64_t seed;
    uint32_t n_hops;
    struct sl_sample_rule *rule; /* [n_hops] */
    struct sl_sample_part part;
    uint32_t first[2];
    sl_vertex *dataset_ids; /* [N]: the graph is not renumbered */
    void *marks_bytes;
    struct sl_sample_marks marks;
    struct sl_frontier frontier;
    uint32_t n_rows;        /* vertices of the last neighbourhood */
    uint32_t *edge_offsets; /* [N + 1], of a hop */
    struct room room;
    uint64_t n_room; /* entries of the next three arrays */
    uint32_t *sources, *destinations;
    float *weights;
    uint16_t *relations;
    uint32_t *hop_vertices; /* [n_hops + 1] */
    uint64_t *hop_edges;    /* [n_hops] */
};

/* ---- open and close ---- */

static enum sl_status check_settings(const struct sl_settings *settings, const struct sl_dataset *dataset)
{
    SL_FAIL_IF(settings->edge_features != SL_EDGE_FEATURES_NONE, SL_ENOTSUP,
               "--edge-features cannot be used with a sampler, which gives the edges without their features");
    SL_FAIL_IF(sl_settings_by_importance(settings) || settings->relation_fanout != NULL, SL_ENOTSUP,
               "--sampler ladies and pladies, --labor-iterations, --relation-fanout and --edge-weights both cannot be "
               "used with a sampler, which draws each edge by --fanout alone");
    if (settings->edge_weights != SL_EDGE_WEIGHTS_NONE && dataset->graph.weights == NULL) {
        return sl_fail(SL_EINVAL, "--edge-weights: the graph '%s' has no weights of edges; leave the option out",
                       dataset->name);
    }
    return SL_OK;
}

static enum sl_status open_frontier(uint32_t n, struct sl_frontier *out)
{
    out->n_part = n;
    SL_CHECK(sl_alloc(n, sizeof *out->ids, "a frontier", &out->ids));
    SL_CHECK(sl_alloc(n, sizeof *out->row_of, "a frontier's index", &out->row_of));
    SL_CHECK(sl_alloc_zero(((size_t)n + 63) / 64, sizeof *out->words, "a frontier's marks", &out->words));
    memset(out->row_of, 0xff, n * sizeof *out->row_of); /* SL_NONE */
    return SL_OK;
}

enum sl_status sl_sampler_open(struct sl_settings *settings, const struct sl_dataset *dataset,
                               struct sl_neighbor_sampler **out)
{
    SL_IN_C_LOCALE;
    const uint32_t n = dataset->graph.n_vertices;
    struct sl_neighbor_sampler *s = NULL;
    uint32_t max_fanout = 0;
    enum sl_status st;
    *out = NULL;
    SL_TRY(st, sl_settings_check(settings), undo);
    SL_TRY(st, check_settings(settings, dataset), undo);
    SL_TRY(st, sl_alloc_zero(1, sizeof *s, "a sampler", &s), undo);
    s->dataset = dataset;
    s->seed = settings->seed;
    s->n_hops = settings->layers;
    SL_TRY(st, sl_alloc(s->n_hops, sizeof *s->rule, "rules of hops", &s->rule), undo);
    SL_TRY(st, sl_alloc_zero((size_t)s->n_hops + 1, sizeof *s->hop_vertices, "sizes of hops", &s->hop_vertices), undo);
    SL_TRY(st, sl_alloc_zero(s->n_hops, sizeof *s->hop_edges, "sizes of hops", &s->hop_edges), undo);
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        s->rule[hop] = sl_sample_rule_by(settings, settings->fanout[s->n_hops - 1 - hop]);
        max_fanout = s->rule[hop].fanout == SL_FANOUT_ALL ? max_fanout : sl_max_u32(max_fanout, s->rule[hop].fanout);
    }
    SL_TRY(st, sl_alloc(n, sizeof *s->dataset_ids, "vertex ids", &s->dataset_ids), undo);
    for (uint32_t v = 0; v < n; v++) {
        s->dataset_ids[v] = v;
    }
    s->first[1] = n;
    s->part = (struct sl_sample_part){.offsets = dataset->graph.offsets,
                                      .sources = dataset->graph.sources,
                                      .dataset_ids = s->dataset_ids,
                                      .first = s->first,
                                      .n_parts = 1,
                                      .weights = dataset->graph.weights,
                                      .relations = dataset->graph.relations};
    SL_TRY(st, sl_alloc_zero(sl_marks_bytes(n, max_fanout), 1, "marks", &s->marks_bytes), undo);
    s->marks = sl_marks_in(s->marks_bytes, n, max_fanout);
    SL_TRY(st, open_frontier(n, &s->frontier), undo);
    SL_TRY(st, sl_alloc((size_t)n + 1, sizeof *s->edge_offsets, "offsets of a hop", &s->edge_offsets), undo);
    *out = s;
    return SL_OK;
undo:
    sl_sampler_close(s);
    return st;
}

void sl_sampler_close(struct sl_neighbor_sampler *s)
{
    if (s == NULL) {
        return;
    }
    sl_free(s->rule);
    sl_free(s->hop_vertices);
    sl_free(s->hop_edges);
    sl_free(s->dataset_ids);
    sl_free(s->marks_bytes);
    sl_free(s->frontier.ids);
    sl_free(s->frontier.row_of);
    sl_free(s->frontier.words);
    sl_free(s->edge_offsets);
    sl_free(s->room.request);
    sl_free(s->room.inverse);
    sl_free(s->sources);
    sl_free(s->destinations);
    sl_free(s->weights);
    sl_free(s->relations);
    sl_free(s);
}

/* ---- draw ---- */

/* The frontier becomes the seeds. */
static enum sl_status start(struct sl_neighbor_sampler *s, uint32_t n, const uint32_t *seeds)
{
    for (uint32_t r = 0; r < s->n_rows; r++) {
        s->frontier.row_of[s->frontier.ids[r]] = SL_NONE;
    }
    s->n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        SL_FAIL_IF(seeds[i] >= s->first[1], SL_EINVAL, "seeds[%u] is %u; expected a vertex of 0 .. %u", i, seeds[i],
                   s->first[1] - 1);
        SL_FAIL_IF(s->frontier.row_of[seeds[i]] != SL_NONE, SL_EINVAL,
                   "seeds[%u] is %u, as seeds[%u]; expected each vertex once", i, seeds[i],
                   s->frontier.row_of[seeds[i]]);
        s->frontier.row_of[seeds[i]] = s->n_rows;
        s->frontier.ids[s->n_rows++] = seeds[i];
    }
    return SL_OK;
}

/* Most edges of rows begin .. end - 1. */
static uint64_t most_edges(const struct sl_neighbor_sampler *s, uint32_t hop, uint32_t begin, uint32_t end)
{
    uint64_t n = 0;
    for (uint32_t r = begin; r < end; r++) {
        const uint64_t *bounds = s->part.offsets + s->frontier.ids[r];
        n += sl_sample_count(&s->rule[hop], (uint32_t)(bounds[1] - bounds[0]));
    }
    return n;
}

/* Make room for a hop of n edges after n_edges edges. A quarter is added, so that arrays seldom grow. */
static enum sl_status make_room(struct sl_neighbor_sampler *s, uint64_t n_edges, uint64_t n)
{
    enum sl_status st = SL_OK;
    if (n_edges + n >= UINT32_MAX) {
        st = sl_fail(SL_EINVAL,
                     "found up to %llu edges of one neighbourhood, expected fewer than 2^32; take fewer seeds",
                     (unsigned long long)(n_edges + n));
        return st;
    }
    if (n > s->room.n || s->room.request == NULL) {
        const uint64_t more = n + n / 4 + 2; /* two positions */
        SL_CHECK(sl_realloc(&s->room.request, more, sizeof *s->room.request, "requests"));
        SL_CHECK(sl_realloc(&s->room.inverse, more, sizeof *s->room.inverse, "rows of requests"));
        s->room.n = more - 2;
    }
    if (n_edges + n > s->n_room || s->sources == NULL) {
        const uint64_t more = n_edges + n + n / 4 + 1;
        SL_CHECK(sl_realloc(&s->sources, more, sizeof *s->sources, "sources"));
        SL_CHECK(sl_realloc(&s->destinations, more, sizeof *s->destinations, "destinations"));
        if (s->part.weights != NULL) {
            SL_CHECK(sl_realloc(&s->weights, more, sizeof *s->weights, "weights of edges"));
        }
        if (s->part.relations != NULL) {
            SL_CHECK(sl_realloc(&s->relations, more, sizeof *s->relations, "relations of edges"));
        }
        s->n_room = more;
    }
    return st;
}

/* Draw the edges of rows begin .. end - 1. *n_edges: of all hops so far. */
static enum sl_status draw_hop(struct sl_neighbor_sampler *s, uint64_t step, uint32_t hop, uint32_t begin,
                               uint64_t *n_edges)
{
    const struct sl_draw draw = {.seed = s->seed, .step = step, .purpose = SL_FOR_SAMPLING, .hop = hop};
    const uint32_t end = s->n_rows;
    SL_CHECK(make_room(s, *n_edges, most_edges(s, hop, begin, end)));
    uint32_t *sources = s->sources + *n_edges;
    uint32_t *destinations = s->destinations + *n_edges;
    const struct sl_sample_block block = {.edge_offsets = s->edge_offsets,
                                          .edge_sources = sources,
                                          .request = s->room.request,
                                          .edge_weights = s->weights == NULL ? NULL : s->weights + *n_edges,
                                          .edge_relations = s->relations == NULL ? NULL : s->relations + *n_edges};
    const struct sl_requests requests = {.n_parts = 1, .list = {s->room.request}};
    const uint32_t n_rows = end - begin;
    uint32_t n;
    const struct sl_sample_sizes sizes = {.n_rows = &n_rows, .n_edges = &n};
    sl_sample_cpu(&s->part, &s->rule[hop], &draw, s->frontier.ids + begin, &s->marks, &sizes, &block);
    sl_merge_cpu(&requests, &end, &s->frontier, s->room.inverse, &s->n_rows);
    const uint32_t *rows = sl_list_entries(s->room.inverse, 1);
    for (uint32_t e = 0; e < n; e++) {
        sources[e] = rows[sources[e]];
    }
    for (uint32_t r = begin; r < end; r++) {
        for (uint32_t e = s->edge_offsets[r - begin]; e < s->edge_offsets[r - begin + 1]; e++) {
            destinations[e] = r;
        }
    }
    s->hop_edges[hop] = n;
    s->hop_vertices[hop + 1] = s->n_rows - end;
    *n_edges += n;
    return SL_OK;
}

enum sl_status sl_sampler_draw(struct sl_neighbor_sampler *s, uint64_t step, uint32_t n, const uint32_t *seeds,
                               struct sl_neighborhood *out)
{
    SL_IN_C_LOCALE;
    const size_t size = out->size;
    uint64_t n_edges = 0;
    uint32_t begin = 0;
    SL_FAIL_IF(size == 0, SL_EINVAL, "sl_sampler_draw: found a size of 0, expected sizeof(struct sl_neighborhood)");
    SL_FAIL_IF(step >> 48 != 0, SL_EINVAL, "sl_sampler_draw: found step %llu, expected one below 2^48",
               (unsigned long long)step);
    SL_CHECK(start(s, n, seeds));
    s->hop_vertices[0] = n;
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        const uint32_t end = s->n_rows;
        SL_CHECK(draw_hop(s, step, hop, begin, &n_edges));
        begin = end;
    }
    const struct sl_neighborhood all = {.size = size,
                                        .n_vertices = s->n_rows,
                                        .n_hops = s->n_hops,
                                        .n_edges = n_edges,
                                        .vertices = s->frontier.ids,
                                        .sources = s->sources,
                                        .destinations = s->destinations,
                                        .weights = s->weights,
                                        .hop_vertices = s->hop_vertices,
                                        .hop_edges = s->hop_edges,
                                        .relations = s->relations};
    memcpy(out, &all, sl_min_u64(size, sizeof all));
    return SL_OK;
}

/* ---- rows of a dataset ---- */

static enum sl_status check_vertices(const struct sl_dataset *dataset, uint32_t n, const uint32_t *vertices)
{
    for (uint32_t i = 0; i < n; i++) {
        SL_FAIL_IF(vertices[i] >= dataset->graph.n_vertices, SL_EINVAL,
                   "vertices[%u] is %u; expected a vertex of 0 .. %u", i, vertices[i], dataset->graph.n_vertices - 1);
    }
    return SL_OK;
}

enum sl_status sl_dataset_features(const struct sl_dataset *dataset, uint32_t n, const uint32_t *vertices, float *out)
{
    SL_IN_C_LOCALE;
    const struct sl_features *features = &dataset->features;
    SL_CHECK(check_vertices(dataset, n, vertices));
    for (uint32_t i = 0; i < n; i++) {
        sl_features_row(features, vertices[i], out + (size_t)i * features->n_columns);
    }
    return SL_OK;
}

enum sl_status sl_dataset_targets(const struct sl_dataset *dataset, uint32_t n, const uint32_t *vertices, void *out)
{
    SL_IN_C_LOCALE;
    const struct sl_targets *targets = &dataset->targets;
    const size_t bytes = (size_t)targets->width * SL_TARGET_BYTES;
    SL_CHECK(check_vertices(dataset, n, vertices));
    for (uint32_t i = 0; i < n; i++) {
        memcpy((char *)out + i * bytes, (const char *)targets->data + vertices[i] * bytes, bytes);
    }
    return SL_OK;
}

enum sl_status sl_dataset_split(const struct sl_dataset *dataset, enum sl_split_list list, const uint32_t **out,
                                uint32_t *n_out)
{
    SL_IN_C_LOCALE;
    SL_FAIL_IF((unsigned)list >= SL_N_LISTS, SL_EINVAL,
               "sl_dataset_split: found list %d, expected 0 (train), 1 (valid) or 2 (test)", list);
    *out = dataset->lists[list].ids;
    *n_out = dataset->lists[list].n;
    return SL_OK;
}
