/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Finds the neighbourhood of new vertices hop by hop, and copies its lists and features to a dataset. */
#include "runtime/full/inductive.h"

#include <string.h>

#include "support/compare.h"
#include "support/convert.h"
#include "support/memory.h"
#include "support/minmax.h"

#define PART_ROWS 16384 /* vertices of a part, at least: small graphs have few tasks */

/* Vertices are known by their ids in the loaded graph; the new ones follow behind the last id. Each vertex that is
 * found gets a number. */
struct search {
    const struct sl_shards *all;
    const struct sl_added *added;
    uint32_t *ids;    /* by number */
    uint32_t n;       /* numbers */
    uint32_t n_inner; /* vertices of all hops but the last: those that have lists */
    /* A hash table with open addresses: 1 + a number, or 0. Half of it is free, at least. */
    uint32_t *slots;
    uint64_t n_slots; /* a power of two */
};

/* A part of an in-neighbour list: edges begin .. end - 1 of a graph. */
struct list {
    const struct sl_graph *graph;
    uint64_t begin, end;
};

static uint32_t count_new(const struct sl_added *added)
{
    return added->dataset->graph.n_vertices - added->n_touched;
}

/* The id of a vertex of added->dataset. */
static uint32_t id_of(const struct search *s, uint32_t v)
{
    if (v < s->added->n_touched) {
        return s->all->partition->new_ids[s->added->touched[v]];
    }
    return s->all->n_vertices + (v - s->added->n_touched);
}

/* The in-edges of a vertex in the loaded graph. */
static struct list loaded_list(const struct search *s, uint32_t id)
{
    const struct sl_graph *graph = &s->all->partition->graph;
    if (id >= s->all->n_vertices) {
        return (struct list){graph, 0, 0};
    }
    return (struct list){graph, graph->offsets[id], graph->offsets[id + 1]};
}

/* The in-edges that come with the new vertices. */
static struct list added_list(const struct search *s, uint32_t id)
{
    const struct sl_added *added = s->added;
    const struct sl_graph *graph = &added->dataset->graph;
    uint32_t v;
    if (id >= s->all->n_vertices) {
        v = added->n_touched + (id - s->all->n_vertices);
    } else {
        const sl_vertex dataset_id = s->all->partition->dataset_ids[id];
        v = sl_range_of(added->touched, added->n_touched, dataset_id);
        if (v == added->n_touched || added->touched[v] != dataset_id) {
            return (struct list){graph, 0, 0};
        }
    }
    return (struct list){graph, graph->offsets[v], graph->offsets[v + 1]};
}

/* ---- the neighbourhood ---- */

/* The slot of an id, or the free one where it belongs. */
static uint32_t *slot_of(const struct search *s, uint32_t id)
{
    uint64_t i = (id * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (s->n_slots - 1);
    while (s->slots[i] != 0 && s->ids[s->slots[i] - 1] != id) {
        i = (i + 1) & (s->n_slots - 1);
    }
    return &s->slots[i];
}

static uint32_t number_of(const struct search *s, uint32_t id)
{
    return *slot_of(s, id) - 1;
}

static enum sl_status grow(struct search *s)
{
    sl_free(SL_TAKE(s->slots));
    s->n_slots = s->n_slots > 0 ? 2 * s->n_slots : 1024;
    SL_CHECK(sl_realloc(&s->ids, s->n_slots / 2, sizeof *s->ids, "new vertices"));
    SL_CHECK(sl_alloc_zero(s->n_slots, sizeof *s->slots, "new vertices", &s->slots));
    for (uint32_t i = 0; i < s->n; i++) {
        *slot_of(s, s->ids[i]) = i + 1;
    }
    return SL_OK;
}

static enum sl_status find(struct search *s, uint32_t id)
{
    if (2 * (uint64_t)s->n >= s->n_slots) {
        SL_CHECK(grow(s));
    }
    uint32_t *slot = slot_of(s, id);
    if (*slot == 0) {
        s->ids[s->n++] = id;
        *slot = s->n;
    }
    return SL_OK;
}

static enum sl_status find_sources(struct search *s, uint32_t id)
{
    const struct list loaded = loaded_list(s, id);
    const struct list added = added_list(s, id);
    for (uint64_t e = loaded.begin; e < loaded.end; e++) {
        SL_CHECK(find(s, loaded.graph->sources[e]));
    }
    for (uint64_t e = added.begin; e < added.end; e++) {
        SL_CHECK(find(s, id_of(s, added.graph->sources[e])));
    }
    return SL_OK;
}

/* Find the new vertices, then all sources of the vertices of each hop. */
static enum sl_status find_all(struct search *s, uint32_t n_hops)
{
    uint32_t begin = 0;
    for (uint32_t i = 0; i < count_new(s->added); i++) {
        SL_CHECK(find(s, s->all->n_vertices + i));
    }
    for (uint32_t h = 0; h < n_hops; h++) {
        s->n_inner = s->n;
        for (; begin < s->n_inner; begin++) {
            SL_CHECK(find_sources(s, s->ids[begin]));
        }
    }
    return SL_OK;
}

/* ---- lists ---- */

static uint32_t relation_of(const struct list *list)
{
    return list->graph->relations != NULL ? list->graph->relations[list->begin] : 0;
}

/* A row for each edge, so that the row's number is the edge's. */
static void copy_edge_row(const struct search *s, const struct list *list, uint32_t id, uint64_t edge, float *out)
{
    const uint32_t width = s->all->n_edge_features;
    if (list->graph != &s->all->partition->graph) {
        const float *row = s->added->dataset->edge_features.values + (size_t)list->graph->rows[list->begin] * width;
        memcpy(out + edge * width, row, width * sizeof *out);
        return;
    }
    const uint32_t q = sl_partition_owner(s->all->partition->first, s->all->n_parts, id);
    const struct sl_shard *part = &s->all->part[q];
    const uint64_t e = list->begin - list->graph->offsets[part->first];
    const sl_real *row = part->edge_values + (size_t)part->edge_rows[e] * width;
    for (uint32_t c = 0; c < width; c++) {
        out[edge * width + c] = (float)row[c];
    }
}

/* Copy the in-edges of a vertex, by relation: those of the loaded graph first, as their sources come first in the whole
 * graph. */
static void copy_list(const struct search *s, uint32_t id, struct sl_dataset *out)
{
    struct list loaded = loaded_list(s, id);
    struct list added = added_list(s, id);
    struct sl_graph *graph = &out->graph;
    while (loaded.begin < loaded.end || added.begin < added.end) {
        const bool first =
            added.begin == added.end || (loaded.begin < loaded.end && relation_of(&loaded) <= relation_of(&added));
        struct list *from = first ? &loaded : &added;
        const sl_vertex source = from->graph->sources[from->begin];
        sl_graph_copy_edges(from->graph, from->begin, 1, graph, graph->n_edges);
        graph->sources[graph->n_edges] = number_of(s, first ? source : id_of(s, source));
        if (graph->rows != NULL) {
            graph->rows[graph->n_edges] = (uint32_t)graph->n_edges;
            copy_edge_row(s, from, id, graph->n_edges, out->edge_features.values);
        }
        graph->n_edges++;
        from->begin++;
    }
}

static uint64_t list_length(struct list list)
{
    return list.end - list.begin;
}

static enum sl_status copy_graph(const struct search *s, struct sl_dataset *out)
{
    struct sl_graph *graph = &out->graph;
    const struct sl_graph *like = &s->all->partition->graph;
    uint64_t n_edges = 0;
    for (uint32_t i = 0; i < s->n_inner; i++) {
        n_edges += list_length(loaded_list(s, s->ids[i])) + list_length(added_list(s, s->ids[i]));
    }
    SL_FAIL_IF(like->rows != NULL && n_edges >= UINT32_MAX, SL_EINVAL,
               "new vertices: found %llu edges around them, expected fewer than 2^32; ask for fewer at a time",
               (unsigned long long)n_edges);
    graph->n_vertices = s->n;
    graph->n_relations = like->n_relations;
    SL_CHECK(sl_alloc_zero((size_t)s->n + 1, sizeof *graph->offsets, "offsets of new vertices", &graph->offsets));
    SL_CHECK(sl_graph_alloc_edges(n_edges + 1, like, graph));
    if (like->rows != NULL) {
        out->edge_features = (struct sl_edge_features){.n_rows = n_edges, .n_columns = s->all->n_edge_features};
        SL_CHECK(sl_alloc((n_edges + 1) * s->all->n_edge_features, sizeof *out->edge_features.values,
                          "features of edges", &out->edge_features.values));
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (i < s->n_inner) {
            copy_list(s, s->ids[i], out);
        }
        graph->offsets[i + 1] = graph->n_edges;
    }
    return SL_OK;
}

/* ---- features ---- */

/* The features of the part of a vertex as a CSR table, and the vertex's row there. */
static struct sl_features sparse_part(const struct sl_shards *all, uint32_t id, uint32_t *row_out)
{
    const uint32_t q = sl_partition_owner(all->partition->first, all->n_parts, id);
    *row_out = id - all->part[q].first;
    return (struct sl_features){.n_rows = all->part[q].end - all->part[q].first,
                                .n_columns = all->n_features,
                                .hold = SL_HOLD_BORROWED,
                                .offsets = all->sparse_offsets + all->part[q].first + q,
                                .columns = all->sparse_columns + all->sparse_first[q],
                                .values = all->sparse_values + all->sparse_first[q]};
}

static enum sl_status copy_sparse(const struct search *s, struct sl_features *out)
{
    const struct sl_features *added = &s->added->dataset->features;
    uint64_t n_values = sl_features_nonzeros(added);
    SL_FREED float *room = NULL;
    uint32_t row;
    for (uint32_t i = count_new(s->added); i < s->n; i++) {
        const struct sl_features part = sparse_part(s->all, s->ids[i], &row);
        n_values += part.offsets[row + 1] - part.offsets[row];
    }
    SL_CHECK(sl_alloc(s->all->n_features, sizeof *room, "a row of features", &room));
    SL_CHECK(sl_features_start_csr(s->n, s->all->n_features, n_values, out));
    out->n_rows = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (i < count_new(s->added)) {
            sl_features_append(added, i, 0, room, out);
        } else {
            const struct sl_features part = sparse_part(s->all, s->ids[i], &row);
            sl_features_append(&part, row, 0, room, out);
        }
    }
    return SL_OK;
}

/* Stored rows of any dtype have exact values as floats. */
static void copy_row(const struct sl_feature_source *from, uint32_t id, float *out)
{
    if (from->dtype == SL_DTYPE_REAL) {
        const sl_real *row = sl_feature_row(from, id);
        for (uint32_t c = 0; c < from->n_columns; c++) {
            out[c] = (float)row[c];
        }
    } else {
        sl_convert_to_floats(from->dtype, from->scale, from->n_columns, sl_feature_row(from, id), out);
    }
}

static enum sl_status copy_dense(const struct search *s, struct sl_features *out)
{
    const uint32_t width = s->all->n_features;
    float *values;
    SL_CHECK(sl_alloc((size_t)s->n * width, sizeof *values, "features around new vertices", &values));
    *out = (struct sl_features){
        .n_rows = s->n, .n_columns = width, .dense = sl_column_take(SL_DTYPE_F32, s->n, width, values)};
    for (uint32_t i = 0; i < s->n; i++) {
        if (i < count_new(s->added)) {
            sl_features_row(&s->added->dataset->features, i, values + (size_t)i * width);
        } else {
            copy_row(&s->all->features, s->ids[i], values + (size_t)i * width);
        }
    }
    return SL_OK;
}

/* ---- factors ---- */

/* In-neighbours of a vertex without itself, or the sum of their weights. id: of the vertex among the list's sources. */
static double sum_list(struct list list, bool weighs, uint32_t id)
{
    double sum = 0;
    for (uint64_t e = list.begin; e < list.end; e++) {
        if (list.graph->sources[e] != id) {
            sum += weighs ? (double)list.graph->weights[e] : 1;
        }
    }
    return sum;
}

/* Vertices with lists have the factors of these lists. Those of the last hop have the loaded ones, unless they have new
 * in-edges. */
static enum sl_status weigh(const struct search *s, double (*factor)(double d), struct sl_inductive *out)
{
    const struct sl_shards *all = s->all;
    if (all->factor_of == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_shards_weigh(&out->dataset, factor, &out->shards));
    for (uint32_t i = s->n_inner; i < s->n; i++) {
        const struct list added = added_list(s, s->ids[i]);
        sl_real *numbers = out->shards.factor_of + 2 * (size_t)i;
        if (list_length(added) == 0) {
            memcpy(numbers, all->factor_of + 2 * (size_t)s->ids[i], 2 * sizeof *numbers);
        } else if (factor != NULL) {
            numbers[0] = (sl_real)factor(sum_list(loaded_list(s, s->ids[i]), all->weighs_edges, s->ids[i]) +
                                         sum_list(added, all->weighs_edges, SL_NONE));
        }
    }
    return SL_OK;
}

/* ---- open ---- */

static enum sl_status make(const struct search *s, double (*factor)(double d), struct sl_inductive *out)
{
    const struct sl_shards *all = s->all;
    struct sl_dataset *dataset = &out->dataset;
    const uint32_t n_parts = (uint32_t)sl_max_u64(1, sl_min_u64(all->n_parts, s->n / PART_ROWS));
    const struct sl_partition_rule rule = {.method = SL_PARTITION_NONE, .n_parts = n_parts};
    SL_CHECK(copy_graph(s, dataset));
    SL_CHECK(all->is_sparse ? copy_sparse(s, &dataset->features) : copy_dense(s, &dataset->features));
    SL_CHECK(sl_targets_make_unknown(s->n, &dataset->targets));
    SL_CHECK(sl_partition_make(dataset, &rule, &out->partition));
    SL_CHECK(sl_shards_open(dataset, &out->partition, SL_FEATURES_AS_THEY_ARE, all->row_dtype, NULL, &out->shards));
    out->shards.n_outputs = all->n_outputs;
    out->shards.objective = all->objective;
    out->shards.weighs_edges = all->weighs_edges;
    return weigh(s, factor, out);
}

static void close_search(struct search *s)
{
    sl_free(s->slots);
    sl_free(s->ids);
}

enum sl_status sl_inductive_open(const struct sl_shards *all, const struct sl_added *added, uint32_t n_hops,
                                 double (*factor)(double d), struct sl_inductive *out)
{
    SL_OWNED(close_search) struct search s = {.all = all, .added = added};
    *out = (struct sl_inductive){0};
    SL_CHECK(find_all(&s, n_hops));
    enum sl_status st = make(&s, factor, out);
    if (st != SL_OK) {
        sl_inductive_close(out);
    }
    return st;
}

void sl_inductive_close(struct sl_inductive *inductive)
{
    sl_shards_close(&inductive->shards);
    sl_partition_free(&inductive->partition);
    sl_dataset_free(&inductive->dataset);
}
