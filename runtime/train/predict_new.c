/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of new vertices: the caller's arrays in the terms of the session (runtime/full/inductive.h). */
#include <stdlib.h>
#include <string.h>

#include "runtime/full/evaluate.h"
#include "runtime/full/inductive.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/collect.h"
#include "runtime/plan/model_file.h"
#include "runtime/train/adapt.h"
#include "runtime/train/session.h"
#include "support/compare.h"
#include "support/memory.h"
#include "support/text.h"

/* The arrays as datasets. */
struct given {
    struct sl_dataset *edges;    /* of the touched vertices, then of the new ones */
    struct sl_dataset *features; /* of the new vertices */
    struct sl_adapted adapted;
    sl_vertex *touched;
    uint32_t n_touched;
};

static void free_given(struct given *given)
{
    sl_adapted_free(&given->adapted);
    sl_dataset_delete(given->edges);
    sl_dataset_delete(given->features);
    sl_free(given->touched);
}

/* ---- the arrays ---- */

/* The edges have the direction and relations that the dataset's have, and each has a new end. */
static enum sl_status check_edges(const struct sl_arrays *a, const struct sl_dataset *dataset)
{
    const uint32_t n = dataset->graph.n_vertices;
    const bool typed = dataset->graph.n_relations > 0;
    const uint64_t n_all = (uint64_t)n + a->n_vertices;
    SL_FAIL_IF(n_all >= SL_NONE, SL_EINVAL, "new vertices: found %u beside %u, expected fewer than 2^32 in all",
               a->n_vertices, n);
    SL_FAIL_IF(a->offsets != NULL || (a->n_edges > 0 && (a->sources == NULL || a->destinations == NULL)), SL_EINVAL,
               "new vertices: found %s, expected edges as sources and destinations",
               a->offsets != NULL ? "offsets" : "NULL");
    SL_FAIL_IF(a->directed != dataset->directed, SL_EINVAL,
               "new vertices: found edges with%s their reverse ones added, expected them with%s, as the graph has",
               a->directed ? "out" : "", dataset->directed ? "out" : "");
    SL_FAIL_IF(a->n_edges > 0 && typed != (a->edge_relations != NULL), SL_EINVAL,
               "new vertices: found edges with%s relations, expected them with%s, as the graph has", typed ? "out" : "",
               typed ? "" : "out");
    for (uint64_t e = 0; e < a->n_edges; e++) {
        const uint32_t from = a->sources[e], to = a->destinations[e];
        SL_FAIL_IF(from >= n_all || to >= n_all, SL_EINVAL,
                   "new vertices: edge %llu is %u -> %u; expected ids below %llu: %u of the graph, then the new ones",
                   (unsigned long long)e, from, to, (unsigned long long)n_all, n);
        SL_FAIL_IF(
            from < n && to < n, SL_EINVAL,
            "new vertices: edge %llu is %u -> %u, both of the graph; expected an end of %u or more, a new vertex",
            (unsigned long long)e, from, to, n);
    }
    return SL_OK;
}

/* List the vertices of the loaded graph that have new edges. */
static enum sl_status list_touched(const struct sl_arrays *a, uint32_t n, struct given *out)
{
    uint32_t *list;
    uint64_t n_list = 0;
    SL_CHECK(sl_alloc(a->n_edges + 1, sizeof *list, "new edges", &list));
    out->touched = list;
    for (uint64_t e = 0; e < a->n_edges; e++) {
        if (a->sources[e] < n || a->destinations[e] < n) {
            list[n_list++] = a->sources[e] < n ? a->sources[e] : a->destinations[e];
        }
    }
    qsort(list, n_list, sizeof *list, sl_order_u32);
    for (uint64_t i = 0; i < n_list; i++) {
        if (i == 0 || list[i] != out->touched[out->n_touched - 1]) {
            out->touched[out->n_touched++] = list[i];
        }
    }
    return SL_OK;
}

/* The vertices of edges, numbered as in struct sl_added. */
static void number_ends(const struct given *given, uint32_t n, uint64_t n_edges, const uint32_t *ids, uint32_t *out)
{
    for (uint64_t e = 0; e < n_edges; e++) {
        out[e] = ids[e] < n ? sl_range_of(given->touched, given->n_touched, ids[e]) : given->n_touched + (ids[e] - n);
    }
}

/* names: of the loaded graph's relations; NULL: they have numbers alone. */
static enum sl_status make_edges(const struct sl_arrays *a, uint32_t n, const char *names, struct given *out)
{
    SL_FREED uint32_t *sources = NULL;
    SL_FREED uint32_t *destinations = NULL;
    SL_FREED float *zeros = NULL; /* a dataset has features */
    struct sl_arrays edges = {.size = sizeof edges,
                              .name = a->name,
                              .n_vertices = out->n_touched + a->n_vertices,
                              .n_edges = a->n_edges,
                              .directed = a->directed,
                              .n_features = 1,
                              .edge_weights = a->edge_weights,
                              .edge_relations = a->edge_relations,
                              .n_relations = a->n_relations,
                              .relation_names = a->relation_names,
                              .n_edge_features = a->n_edge_features,
                              .edge_features = a->edge_features};
    if (a->edge_relations != NULL && a->relation_names == NULL) {
        edges.relation_names = names;
    }
    SL_CHECK(sl_alloc(a->n_edges + 1, sizeof *sources, "new edges", &sources));
    SL_CHECK(sl_alloc(a->n_edges + 1, sizeof *destinations, "new edges", &destinations));
    SL_CHECK(sl_alloc_zero(edges.n_vertices, sizeof *zeros, "new vertices", &zeros));
    number_ends(out, n, a->n_edges, a->sources, sources);
    number_ends(out, n, a->n_edges, a->destinations, destinations);
    edges.sources = sources;
    edges.destinations = destinations;
    edges.features = zeros;
    SL_CHECK(sl_dataset_new(&edges, &out->edges));
    sl_features_free(&out->edges->features);
    return SL_OK;
}

static enum sl_status make_features(const struct sl_arrays *a, struct given *out)
{
    const struct sl_arrays features = {.size = sizeof features,
                                       .name = a->name,
                                       .n_vertices = a->n_vertices,
                                       .n_features = a->n_features,
                                       .features = a->features,
                                       .feature_dtype = a->feature_dtype,
                                       .feature_scale = a->feature_scale,
                                       .feature_offsets = a->feature_offsets,
                                       .feature_columns = a->feature_columns,
                                       .feature_values = a->feature_values,
                                       .feature_names = a->feature_names};
    return sl_dataset_new(&features, &out->features);
}

/* New edges have all that edges of the loaded graph have and the model reads. */
static enum sl_status check_facts(const struct sl_session *t, const struct sl_dataset *added)
{
    const struct sl_graph *all = &t->partition.graph;
    const struct sl_graph *graph = &added->graph;
    const uint32_t n_rows = added->edge_features.n_columns;
    SL_FAIL_IF(added->features.n_columns != t->shards.n_features, SL_EINVAL,
               "new vertices: found %u features, expected %u, as the graph has", added->features.n_columns,
               t->shards.n_features);
    if (graph->n_edges == 0) {
        return SL_OK;
    }
    SL_FAIL_IF(all->weights != NULL && graph->weights == NULL, SL_EINVAL,
               "new vertices: found edges without weights, expected edge_weights, as the graph has them");
    SL_FAIL_IF(all->relations != NULL && graph->n_relations != all->n_relations, SL_EINVAL,
               "new vertices: found edges of %u relations, expected %u (with the reverse ones), as the graph has",
               graph->n_relations, all->n_relations);
    SL_FAIL_IF(t->shards.n_edge_features > 0 && n_rows != t->shards.n_edge_features, SL_EINVAL,
               "new vertices: found edges with %u features, expected %u, as the graph has", n_rows,
               t->shards.n_edge_features);
    return SL_OK;
}

static enum sl_status read_given(const struct sl_session *t, const struct sl_dataset *dataset,
                                 const struct sl_arrays *a, struct given *out)
{
    const struct sl_settings *s = t->settings;
    const uint32_t n = t->shards.n_vertices;
    struct sl_dataset joined;
    SL_FAIL_IF(
        strcmp(sl_text_or(t->facts.feature_words, ""), "degree") == 0, SL_EINVAL,
        "new vertices: found a graph of --features degree, which new edges change; expected features of its own");
    SL_FAIL_IF(
        t->moved, SL_EINVAL,
        "new vertices: found types of vertices in another order than the model was trained with, or fewer types; "
        "expected the same types in the same order");
    SL_FAIL_IF(
        s->normalize_features == SL_NORMALIZE_COLUMN && s->model_file->scaling.n == 0, SL_EINVAL,
        "new vertices: found a model without the means and deviations of its columns, expected those of training");
    SL_CHECK(check_edges(a, dataset));
    SL_CHECK(make_features(a, out));
    SL_CHECK(list_touched(a, n, out));
    SL_CHECK(make_edges(a, n, dataset->relations, out));
    joined = *out->edges;
    joined.features = out->features->features;
    joined.feature_names = out->features->feature_names;
    SL_CHECK(sl_adapt(s, &joined, &out->adapted));
    return check_facts(t, &out->adapted.dataset);
}

/* ---- the rows ---- */

/* Choose the new vertices, which have the first numbers. */
static enum sl_status choose(const struct sl_inductive *inductive, uint32_t n, uint32_t n_columns,
                             struct sl_chosen *out)
{
    const uint32_t n_all = inductive->shards.n_vertices;
    SL_CHECK(sl_chosen_open(n_all, n_columns, out));
    for (uint32_t v = 0; v < n; v++) {
        sl_chosen_add(out, v);
    }
    return sl_chosen_number(out, n_all, 0, n_all);
}

static void copy_chosen(const struct sl_chosen *chosen, float *out)
{
    for (size_t i = 0; out != NULL && i < (size_t)chosen->n * chosen->n_columns; i++) {
        out[i] = (float)chosen->rows[i];
    }
}

enum sl_status sl_session_rows_of_new(struct sl_session *t, const struct sl_dataset *dataset,
                                      const struct sl_arrays *arrays, float *logits, float *embeddings)
{
    SL_OWNED(sl_session_rest_again) struct sl_session *slept = sl_session_wake(t);
    SL_OWNED(free_given) struct given given = {0};
    SL_OWNED(sl_inductive_close) struct sl_inductive inductive = {0};
    SL_OWNED(sl_chosen_close) struct sl_chosen scores = {0};
    SL_OWNED(sl_chosen_close) struct sl_chosen hidden = {0};
    const struct sl_layer *layer = t->model.layer;
    const uint32_t n_hops = layer[0].from - layer[t->model.n_vertex_layers - 1].level;
    struct sl_inference wanted = {0};
    struct sl_arrays a;
    SL_CHECK(sl_arrays_copy(arrays, &a));
    SL_CHECK(read_given(t, dataset, &a, &given));
    if (logits == NULL && embeddings == NULL) {
        return SL_OK;
    }
    const struct sl_added added = {&given.adapted.dataset, given.n_touched, given.touched};
    SL_CHECK(sl_inductive_open(&t->shards, &added, n_hops, sl_model_kind(t->settings->model)->layer->sum->factor,
                               &inductive));
    if (logits != NULL) {
        SL_CHECK(choose(&inductive, a.n_vertices, t->shards.n_outputs, &scores));
        wanted.chosen_scores = &scores;
    }
    if (embeddings != NULL) {
        SL_CHECK(choose(&inductive, a.n_vertices, t->settings->hidden, &hidden));
        wanted.chosen_hidden = &hidden;
    }
    SL_CHECK(sl_session_infer(t, &inductive.shards, &wanted, NULL));
    copy_chosen(&scores, logits);
    copy_chosen(&hidden, embeddings);
    return SL_OK;
}
