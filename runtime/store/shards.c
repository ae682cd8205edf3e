/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Copies the dataset in part order and registers the copies part by part. */
#include "runtime/store/shards.h"

#include <math.h>
#include <string.h>

#include "codelets/ends/score.h"
#include "codelets/sampling/link_seeds.h"
#include "runtime/machine/topology.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/home.h"
#include "tasks/rows.h"

#define STRETCH 16384 /* rows between two calls of sl_dataset_drop_pages */

/* ---- copies in the order of new ids ---- */

static bool holds(const bool *held, uint32_t q)
{
    return held == NULL || held[q];
}

/* Part q's offsets start at entry first[q] + q, and with the value zero. Each part has an end of its own: hence + q. */
static enum sl_status copy_sparse(const struct sl_dataset *dataset, const struct sl_partition *partition,
                                  const bool *held, struct sl_shards *out)
{
    const struct sl_features *from = &dataset->features;
    uint64_t n_values = from->offsets[from->n_rows];
    SL_CHECK(sl_alloc_zero((size_t)from->n_rows + out->n_parts, 8, "feature offsets", &out->sparse_offsets));
    SL_CHECK(sl_alloc(n_values + 1, 4, "feature columns", &out->sparse_columns));
    SL_CHECK(sl_alloc(n_values + 1, 4, "feature values", &out->sparse_values));
    SL_CHECK(sl_alloc((size_t)out->n_parts + 1, 8, "feature parts", &out->sparse_first));
    uint64_t n = 0;
    for (uint32_t q = 0; q < out->n_parts; q++) {
        uint64_t *offsets = out->sparse_offsets + partition->first[q] + q;
        out->sparse_first[q] = n;
        for (uint32_t v = partition->first[q]; v < partition->first[q + 1]; v++) {
            uint64_t begin = from->offsets[partition->dataset_ids[v]];
            uint64_t count = from->offsets[partition->dataset_ids[v] + 1] - begin;
            n += count;
            if (holds(held, q)) {
                memcpy(out->sparse_columns + n - count, from->columns + begin, count * sizeof *from->columns);
                memcpy(out->sparse_values + n - count, from->values + begin, count * sizeof *from->values);
                *++offsets = n - out->sparse_first[q];
            }
            if (v % STRETCH == 0) {
                sl_dataset_drop_pages(dataset);
            }
        }
    }
    out->sparse_first[out->n_parts] = n;
    return SL_OK;
}

/* Write the set of each held id. */
static void mark_set(const struct sl_ids *ids, const struct sl_partition *partition, const bool *held, uint8_t set,
                     uint8_t *set_of)
{
    for (uint32_t i = 0; i < ids->n; i++) {
        sl_vertex id = partition->new_ids[ids->ids[i]];
        if (held == NULL || held[sl_partition_owner(partition->first, partition->n_parts, id)]) {
            set_of[id] = set;
        }
    }
}

static void copy_targets(const struct sl_dataset *dataset, const struct sl_partition *partition, uint32_t q,
                         struct sl_shards *out)
{
    const struct sl_targets *from = &dataset->targets;
    size_t row_bytes = (size_t)from->width * SL_TARGET_BYTES;
    for (uint32_t v = partition->first[q]; v < partition->first[q + 1]; v++) {
        memcpy((char *)out->targets.data + v * row_bytes,
               (const char *)from->data + partition->dataset_ids[v] * row_bytes, row_bytes);
        out->iota[v] = v;
    }
}

static enum sl_status copy_ends(const struct sl_link_split *split, struct sl_shards *out)
{
    enum sl_status st =
        sl_alloc((size_t)split->n_relations * SL_ENDS, sizeof *out->ends, "ends of relations", &out->ends);
    for (uint32_t r = 0; st == SL_OK && r < split->n_relations; r++) {
        const struct sl_link_ends *ends = &split->ends[r];
        memcpy(out->ends + (size_t)r * SL_ENDS, ends->first, sizeof ends->first);
        memcpy(out->ends + (size_t)r * SL_ENDS + 2, ends->n, sizeof ends->n);
    }
    out->n_link_relations = split->n_relations;
    return st;
}

/* Number the training links and bring their ends into new ids. */
static enum sl_status copy_links(const struct sl_dataset *dataset, const struct sl_partition *partition,
                                 struct sl_shards *out)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    SL_CHECK(sl_links_copy(links, &out->links));
    out->directed_links = dataset->links.directed;
    for (uint32_t i = 0; i < links->n; i++) {
        out->links.from[i] = partition->new_ids[links->from[i]];
        out->links.to[i] = partition->new_ids[links->to[i]];
        out->train[i] = i;
    }
    if (dataset->links.n_relations > 0) {
        SL_CHECK(copy_ends(&dataset->links, out));
    }
    return SL_OK;
}

static enum sl_status copy_tables(const struct sl_dataset *dataset, const struct sl_partition *partition,
                                  enum sl_feature_form form, const bool *held, struct sl_shards *out)
{
    uint32_t n = dataset->graph.n_vertices;
    out->is_sparse = dataset->features.dense.data == NULL && form != SL_FEATURES_DENSE;
    if (out->is_sparse) {
        SL_CHECK(copy_sparse(dataset, partition, held, out));
    } else {
        SL_CHECK(
            sl_feature_source_open(dataset, partition, out->row_dtype, form != SL_FEATURES_WIDE, held, &out->features));
    }
    SL_CHECK(
        sl_alloc((size_t)n * out->targets.width + 1, SL_TARGET_BYTES, "targets in part order", &out->targets.data));
    SL_CHECK(sl_alloc_zero((size_t)n + 1, 1, "split in part order", &out->set_of));
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *out->iota, "ids", &out->iota));
    SL_CHECK(sl_alloc((size_t)out->n_train + 1, sizeof *out->train, "training vertices", &out->train));
    if (sl_dataset_has_links(dataset)) {
        SL_CHECK(copy_links(dataset, partition, out));
    } else if (dataset->train.n > 0) { /* ids may be NULL if n is 0 */
        memcpy(out->train, dataset->train.ids, dataset->train.n * sizeof *out->train);
    } else if (dataset->links.n_relations > 0) { /* pairs are scored without a list of links */
        SL_CHECK(copy_ends(&dataset->links, out));
    }
    for (uint32_t q = 0; q < out->n_parts; q++) {
        if (holds(held, q)) {
            copy_targets(dataset, partition, q, out);
        }
    }
    mark_set(&dataset->train, partition, held, SL_SET_TRAIN, out->set_of);
    mark_set(&dataset->valid, partition, held, SL_SET_VALID, out->set_of);
    mark_set(&dataset->test, partition, held, SL_SET_TEST, out->set_of);
    sl_dataset_drop_pages(dataset);
    return SL_OK;
}

/* ---- registration ---- */

static enum sl_status check_size(const char *name, uint32_t part, uint64_t n)
{
    SL_FAIL_IF(n >= UINT32_MAX, SL_EINVAL,
               "part %u has %llu %s; StarPU counts below 2^32 of them: use more --pes (and a larger --group-size)",
               part, (unsigned long long)n, name);
    return SL_OK;
}

/* Most entries of any of n CSR rows. */
static uint32_t fullest_row(const uint64_t *offsets, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = sl_max_u64(most, offsets[i + 1] - offsets[i]);
    }
    return (uint32_t)most;
}

/* held: this rank has part q. */
static enum sl_status register_features(struct sl_shards *out, uint32_t q, bool held)
{
    struct sl_shard *part = &out->part[q];
    uint32_t n = part->end - part->first;
    if (!out->is_sparse) {
        part->features = sl_feature_table_register(&out->features, q);
        return SL_OK;
    }
    uint64_t begin = out->sparse_first[q];
    uint64_t n_values = out->sparse_first[q + 1] - begin;
    SL_CHECK(check_size("feature values", q, n_values));
    part->sparse.offsets = sl_vector_readable(out->sparse_offsets + part->first + q, (uint64_t)n + 1, 8);
    part->sparse.columns = sl_vector_readable(out->sparse_columns + begin, n_values, 4);
    part->sparse.values = sl_vector_readable(out->sparse_values + begin, n_values, 4);
    part->sparse.dataset_ids = out->dataset_ids;
    part->sparse.first = part->first;
    part->sparse.max_row = held ? fullest_row(out->sparse_offsets + part->first + q, n) : 0;
    return SL_OK;
}

void sl_part_register(const struct sl_graph *graph, uint32_t first, uint32_t end, struct sl_part_handles *out)
{
    const uint64_t *offsets = graph->offsets + first;
    const uint64_t n_edges = offsets[end - first] - offsets[0];
    out->offsets = sl_vector_readable(offsets, (uint64_t)(end - first) + 1, 8);
    out->sources = sl_vector_readable(graph->sources + offsets[0], n_edges, 4);
    if (graph->weights != NULL) {
        out->weights = sl_vector_readable(graph->weights + offsets[0], n_edges, 4);
    }
    if (graph->relations != NULL) {
        out->relations = sl_vector_readable(graph->relations + offsets[0], n_edges, 2);
    }
}

void sl_part_close(struct sl_part_handles *part)
{
    sl_handle_close(part->offsets);
    sl_handle_close(part->sources);
    sl_handle_close(part->weights);
    sl_handle_close(part->relations);
    sl_handle_close(part->rows);
}

static enum sl_status register_part(struct sl_shards *out, uint32_t q, bool held)
{
    struct sl_shard *part = &out->part[q];
    const struct sl_partition *partition = out->partition;
    const uint64_t *offsets = partition->graph.offsets;
    part->first = partition->first[q];
    part->end = partition->first[q + 1];
    uint32_t n = part->end - part->first;
    uint64_t n_edges = offsets[part->end] - offsets[part->first];
    SL_CHECK(check_size("in-edges", q, n_edges));
    part->graph = (struct sl_part_handles){.n_parts = out->n_parts, .part = q};
    sl_part_register(&partition->graph, part->first, part->end, &part->graph);
    part->graph.dataset_ids = out->dataset_ids;
    part->graph.first = out->first;
    SL_CHECK(check_size("targets", q, (uint64_t)n * out->targets.width));
    part->targets =
        sl_vector_readable(sl_shards_targets(out, part->first), (uint64_t)n * out->targets.width, SL_TARGET_BYTES);
    part->sets = sl_vector_readable(out->set_of + part->first, n, 1);
    return register_features(out, q, held);
}

/* ---- features of edges ---- */

/* Number the rows that n edges have in the order of their first edge, and list the rows. place: of a row of the
 * dataset's table, SL_NONE before and after. *n_out: their number. */
static void number_rows(uint64_t n, const uint32_t *rows, uint32_t *place, uint32_t *numbers, uint32_t *list,
                        uint32_t *n_out)
{
    *n_out = 0;
    for (uint64_t e = 0; e < n; e++) {
        if (place[rows[e]] == SL_NONE) {
            list[*n_out] = rows[e];
            place[rows[e]] = (*n_out)++;
        }
        numbers[e] = place[rows[e]];
    }
    for (uint32_t i = 0; i < *n_out; i++) {
        place[list[i]] = SL_NONE;
    }
}

/* Copy the rows that part q's in-edges have, and register them. list: room for a row of each edge. */
static enum sl_status open_edges(const struct sl_edge_features *table, uint32_t q, uint32_t *place, uint32_t *list,
                                 struct sl_shards *out)
{
    struct sl_shard *part = &out->part[q];
    const struct sl_graph *graph = &out->partition->graph;
    const uint64_t first = graph->offsets[part->first];
    const uint64_t n_edges = graph->offsets[part->end] - first;
    const uint32_t width = table->n_columns;
    uint32_t n;
    SL_CHECK(sl_alloc(n_edges + 1, sizeof *part->edge_rows, "rows of edges", &part->edge_rows));
    number_rows(n_edges, graph->rows + first, place, part->edge_rows, list, &n);
    SL_CHECK(
        sl_alloc_zero(((size_t)n + 1) * width, sizeof *part->edge_values, "features of edges", &part->edge_values));
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < width; c++) {
            part->edge_values[(size_t)i * width + c] = (sl_real)table->values[(size_t)list[i] * width + c];
        }
    }
    part->edge_ends[1] = n;
    part->graph.rows = sl_vector_readable(part->edge_rows, n_edges, 4);
    part->edge_first = sl_vector_readable(part->edge_ends, 2, 4);
    part->edge_table = sl_matrix_over(part->edge_values, n > 0 ? n : 1, width, SL_DTYPE_REAL);
    starpu_data_set_sequential_consistency_flag(part->edge_table, 0);
    part->edges = (struct sl_rows){
        .split = {.n_rows = n, .n_chunks = 1, .shift = 31}, .n_columns = width, .chunk = &part->edge_table};
    return SL_OK;
}

static enum sl_status open_all_edges(const struct sl_dataset *dataset, const bool *held, struct sl_shards *out)
{
    const struct sl_edge_features *table = &dataset->edge_features;
    const uint64_t *offsets = out->partition->graph.offsets;
    SL_FREED uint32_t *place = NULL;
    SL_FREED uint32_t *list = NULL;
    uint64_t longest = 0;
    for (uint32_t q = 0; q < out->n_parts; q++) {
        longest = sl_max_u64(longest, offsets[out->part[q].end] - offsets[out->part[q].first]);
    }
    SL_CHECK(sl_alloc(table->n_rows + 1, sizeof *place, "rows of edges", &place));
    SL_CHECK(sl_alloc(longest + 1, sizeof *list, "rows of edges", &list));
    memset(place, 0xff, table->n_rows * sizeof *place); /* SL_NONE */
    for (uint32_t q = 0; q < out->n_parts; q++) {
        if (holds(held, q)) {
            SL_CHECK(open_edges(table, q, place, list, out));
        }
    }
    out->n_edge_features = table->n_columns;
    sl_dataset_drop_pages(dataset);
    return SL_OK;
}

static void close_edges(const struct sl_shard *part)
{
    sl_handle_close(part->edge_first);
    sl_handle_close(part->edge_table);
    sl_free(part->edge_rows);
    sl_free(part->edge_values);
}

enum sl_status sl_shards_open(const struct sl_dataset *dataset, struct sl_partition *partition,
                              enum sl_feature_form form, enum sl_dtype row_dtype, const bool *held,
                              struct sl_shards *out)
{
    enum sl_status st;
    uint32_t n = dataset->graph.n_vertices;
    *out = (struct sl_shards){
        .n_parts = partition->n_parts, .n_vertices = n, .row_dtype = row_dtype, .partition = partition};
    out->n_features = dataset->features.n_columns;
    out->n_outputs = sl_targets_outputs(&dataset->targets);
    out->targets = dataset->targets;
    out->targets.data = NULL;
    out->n_train = sl_dataset_n_train(dataset);
    out->n_valid = dataset->valid.n + dataset->links.list[SL_LINKS_VALID].n;
    out->n_test = dataset->test.n + dataset->links.list[SL_LINKS_TEST].n;
    SL_TRY(st, copy_tables(dataset, partition, form, held, out), undo);
    SL_TRY(st, sl_alloc_zero(out->n_parts, sizeof *out->part, "parts", &out->part), undo);
    out->dataset_ids = sl_vector_readable(partition->dataset_ids, n, 4);
    out->new_ids = sl_vector_readable(partition->new_ids, n, 4);
    out->ids = sl_vector_readable(out->iota, n, 4);
    out->first = sl_vector_readable(partition->first, (uint64_t)out->n_parts + 1, 4);
    out->train_ids = sl_vector_readable(out->train, out->n_train, 4);
    for (uint32_t q = 0; q < out->n_parts; q++) {
        SL_TRY(st, register_part(out, q, holds(held, q)), undo);
    }
    if (partition->graph.rows != NULL) {
        SL_TRY(st, open_all_edges(dataset, held, out), undo);
    }
    if (out->links.n > 0) {
        out->link_from = sl_vector_readable(out->links.from, out->n_train, 4);
        out->link_to = sl_vector_readable(out->links.to, out->n_train, 4);
    }
    if (out->links.n > 0 && out->ends != NULL) {
        out->link_relation = sl_vector_readable(out->links.relation, out->n_train, 4);
        out->link_ends = sl_vector_readable(out->ends, (uint64_t)out->n_link_relations * SL_ENDS, 4);
    }
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        out->part[sl_partition_owner(partition->first, out->n_parts, partition->new_ids[out->train[i]])].n_train++;
    }
    return SL_OK;
undo:
    sl_shards_close(out);
    return st;
}

enum sl_status sl_shards_take_fanouts(uint32_t *table, uint32_t n_layers, struct sl_shards *shards)
{
    const uint32_t n = shards->partition->graph.n_relations;
    if (table == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc_zero(n_layers, sizeof(starpu_data_handle_t), "fanouts", &shards->fanouts));
    shards->fanout_of = table;
    shards->n_layers = n_layers;
    for (uint32_t l = 0; l < n_layers; l++) {
        shards->fanouts[l] = sl_vector_readable(table + (size_t)l * n, n, 4);
    }
    return SL_OK;
}

/* ---- weights ---- */

static uint64_t self_loops(const struct sl_graph *graph, uint32_t v)
{
    uint64_t n = 0;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        n += graph->sources[e] == v;
    }
    return n;
}

/* Number of in-neighbours of v, not counting v; or the sum of their weights. */
static double other_neighbours(const struct sl_graph *graph, const float *weights, uint32_t v)
{
    double n = 0;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        if (graph->sources[e] != v) {
            n += weights != NULL ? (double)weights[e] : 1;
        }
    }
    return n;
}

enum sl_status sl_shards_weigh(const struct sl_dataset *dataset, double (*factor)(double d), struct sl_shards *s)
{
    const struct sl_graph *graph = &dataset->graph;
    const float *weights = s->weighs_edges ? graph->weights : NULL;
    SL_CHECK(sl_alloc((size_t)s->n_vertices + 1, 2 * sizeof *s->factor_of, "vertex weights", &s->factor_of));
    for (uint32_t v = 0; v < s->n_vertices; v++) {
        sl_real *numbers = s->factor_of + 2 * (size_t)s->partition->new_ids[v];
        numbers[0] = factor != NULL ? (sl_real)factor(other_neighbours(graph, weights, v)) : 1;
        numbers[1] = (sl_real)(graph->offsets[v + 1] - graph->offsets[v]);
        s->n_self_loops += self_loops(graph, v);
        if (v % STRETCH == 0) {
            sl_dataset_drop_pages(dataset);
        }
    }
    s->factors = sl_matrix_over(s->factor_of, s->n_vertices == 0 ? 1 : s->n_vertices, 2, SL_DTYPE_REAL);
    starpu_data_set_sequential_consistency_flag(s->factors, 0);
    return SL_OK;
}

/* ---- NUMA ---- */

#define PLACES 8 /* memory ranges of a part */

/* The memory ranges of part q, including empty ranges. */
static void list_places(const struct sl_shards *s, uint32_t q, uint32_t node, struct sl_memory_range places[PLACES])
{
    const struct sl_graph *graph = &s->partition->graph;
    size_t first = s->part[q].first;
    size_t n = s->part[q].end - first;
    uint64_t edge = graph->offsets[first];
    size_t n_edges = graph->offsets[first + n] - edge;
    bool dense = !sl_feature_source_empty(&s->features);
    size_t feature_bytes = dense ? n * sl_feature_row_bytes(&s->features) : 0;
    uint64_t value = s->is_sparse ? s->sparse_first[q] : 0;
    size_t n_values = s->is_sparse ? s->sparse_first[q + 1] - value : 0;
    places[0] = (struct sl_memory_range){graph->offsets + first, n * sizeof *graph->offsets, node};
    places[1] = (struct sl_memory_range){graph->sources + edge, n_edges * sizeof *graph->sources, node};
    places[2] = (struct sl_memory_range){(void *)sl_shards_targets(s, (sl_vertex)first),
                                         n * s->targets.width * SL_TARGET_BYTES, node};
    places[3] = (struct sl_memory_range){dense ? sl_feature_table(&s->features, q) : NULL, feature_bytes, node};
    places[4] = (struct sl_memory_range){s->sparse_columns + value, n_values * sizeof *s->sparse_columns, node};
    places[5] = (struct sl_memory_range){s->sparse_values + value, n_values * sizeof *s->sparse_values, node};
    places[6] = (struct sl_memory_range){NULL, 0, node};
    if (graph->weights != NULL) {
        places[6] = (struct sl_memory_range){graph->weights + edge, n_edges * sizeof(float), node};
    }
    places[7] = (struct sl_memory_range){NULL, 0, node};
    if (graph->relations != NULL) {
        places[7] = (struct sl_memory_range){graph->relations + edge, n_edges * sizeof *graph->relations, node};
    }
}

enum sl_status sl_shards_place(const struct sl_shards *shards, uint32_t n_numa, bool by_part, uint32_t *n_refused_out)
{
    struct sl_memory_range *places;
    uint32_t n = shards->n_parts * PLACES;
    SL_CHECK(sl_alloc(n, sizeof *places, "places of the parts", &places));
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        uint32_t node = by_part ? sl_spread(q, shards->n_parts, n_numa) : SL_NUMA_ALL;
        list_places(shards, q, node, places + (size_t)q * PLACES);
    }
    *n_refused_out = n - sl_topology_place(places, n);
    sl_free(places);
    return SL_OK;
}

/* ---- locked in memory ---- */

struct table {
    void *memory; /* from sl_alloc, or NULL */
    size_t bytes;
};

static void list_tables(const struct sl_shards *s, struct table tables[SL_SHARD_TABLES])
{
    const struct sl_partition *p = s->partition;
    size_t n = s->n_vertices;
    size_t n_values = s->is_sparse ? s->sparse_first[s->n_parts] : 0;
    const struct table list[SL_SHARD_TABLES] = {
        {s->sparse_offsets, (n + s->n_parts) * sizeof *s->sparse_offsets},
        {s->sparse_columns, n_values * sizeof *s->sparse_columns},
        {s->sparse_values, n_values * sizeof *s->sparse_values},
        {s->targets.data, n * s->targets.width * SL_TARGET_BYTES},
        {s->iota, n * sizeof *s->iota},
        {p->graph.offsets, (n + 1) * sizeof *p->graph.offsets},
        {p->graph.sources, p->graph.n_edges * sizeof *p->graph.sources},
        {p->dataset_ids, n * sizeof *p->dataset_ids},
        {p->new_ids, n * sizeof *p->new_ids},
        {p->graph.weights, p->graph.n_edges * sizeof(float)},
        {p->graph.relations, p->graph.n_edges * sizeof *p->graph.relations},
    };
    memcpy(tables, list, sizeof list);
}

uint32_t sl_shards_pin(struct sl_shards *shards)
{
    struct table tables[SL_SHARD_TABLES];
    /* The features are locked even if they are small, as GPUs may read them in place (--feature-cache). */
    uint32_t n_refused = !sl_feature_source_pin(&shards->features);
    list_tables(shards, tables);
    for (int i = 0; i < SL_SHARD_TABLES; i++) {
        bool wanted = tables[i].memory != NULL && tables[i].bytes >= SL_OWN_PAGES_BYTES;
        shards->pinned[i] = wanted && starpu_memory_pin(tables[i].memory, tables[i].bytes) == 0;
        n_refused += wanted && !shards->pinned[i];
    }
    return n_refused;
}

static void unpin(const struct sl_shards *shards)
{
    struct table tables[SL_SHARD_TABLES];
    for (int i = 0; i < SL_SHARD_TABLES; i++) {
        if (shards->pinned[i]) {
            list_tables(shards, tables);
            starpu_memory_unpin(tables[i].memory, tables[i].bytes);
        }
    }
}

void sl_shards_close(struct sl_shards *shards)
{
    if (shards->part != NULL) {
        for (uint32_t q = 0; q < shards->n_parts; q++) {
            struct sl_shard *part = &shards->part[q];
            sl_part_close(&part->graph);
            close_edges(part);
            sl_handle_close(part->features);
            sl_handle_close(part->sparse.offsets);
            sl_handle_close(part->sparse.columns);
            sl_handle_close(part->sparse.values);
            sl_handle_close(part->targets);
            sl_handle_close(part->sets);
        }
    }
    sl_handle_close(shards->dataset_ids);
    sl_handle_close(shards->new_ids);
    sl_handle_close(shards->ids);
    sl_handle_close(shards->first);
    sl_handle_close(shards->train_ids);
    sl_handle_close(shards->link_from);
    sl_handle_close(shards->link_to);
    sl_handle_close(shards->link_relation);
    sl_handle_close(shards->link_ends);
    sl_handle_close(shards->factors);
    for (uint32_t l = 0; l < shards->n_layers; l++) {
        sl_handle_close(shards->fanouts[l]);
    }
    sl_free(shards->fanouts);
    sl_free(shards->fanout_of);
    unpin(shards);
    sl_free(shards->part);
    sl_feature_source_close(&shards->features);
    sl_free(shards->sparse_offsets);
    sl_free(shards->sparse_first);
    sl_free(shards->sparse_columns);
    sl_free(shards->sparse_values);
    sl_targets_free(&shards->targets);
    sl_free(shards->set_of);
    sl_free(shards->iota);
    sl_free(shards->train);
    sl_links_free(&shards->links);
    sl_free(shards->ends);
    sl_free(shards->factor_of);
    *shards = (struct sl_shards){0};
}
