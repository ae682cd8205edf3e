/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Marks the needed vertices hop by hop, numbers them, and copies their lists. */
#include "runtime/full/needed.h"

#include <math.h>
#include <string.h>

#include "codelets/ends/score.h"
#include "codelets/sampling/sample.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/objective.h"
#include "runtime/plan/fanouts.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"
#include "tasks/rows.h"

#define GRAIN 4096 /* vertices that one thread takes at a time */

/* ---- hops ---- */

/* The number of hops from each vertex of the graph to a scored vertex. UINT16_MAX: the vertex is not needed. */
struct hops {
    const struct sl_needed *needed;
    const struct sl_graph *graph;
    uint16_t *of;
    uint16_t last;     /* the hop in hand */
    uint64_t n_edges;  /* into vertices of at most this hop */
    uint64_t n_copied; /* edges of the lists that make_shards copies */
};

static uint32_t degree_of(const struct sl_needed *needed, uint32_t v)
{
    const uint64_t *offsets = needed->all->partition->graph.offsets;
    return (uint32_t)(offsets[v + 1] - offsets[v]);
}

/* The number of in-edges of a vertex that the sum over hop h reads. */
static uint32_t count_list(const struct sl_needed *needed, uint32_t v, uint32_t h)
{
    const uint32_t degree = degree_of(needed, v);
    return needed->sample == NULL ? degree : sl_min_u32(degree, needed->sample->fanout[needed->n_layers - 1 - h]);
}

/* List the places of n of a vertex's in-edges: they depend on the seed, the vertex and n. */
static void pick(const struct sl_needed *needed, uint32_t v, uint32_t n, uint32_t *out)
{
    const struct sl_draw draw = {.seed = needed->sample->seed, .purpose = SL_FOR_EVALUATION};
    sl_pick_neighbor(&draw, needed->all->partition->dataset_ids[v], degree_of(needed, v), n, 1, out);
}

/* A source of a vertex of the last hop is one hop further, unless it is nearer. Threads may write the same value. */
static void mark_source(const struct hops *hops, uint64_t e)
{
    uint16_t *of = &hops->of[hops->graph->sources[e]];
    if (__atomic_load_n(of, __ATOMIC_RELAXED) > hops->last) {
        __atomic_store_n(of, (uint16_t)(hops->last + 1), __ATOMIC_RELAXED);
    }
}

/* Without samples, the sources of nearer vertices are marked already. */
static void mark_sources(void *context, uint64_t begin, uint64_t end)
{
    const struct hops *hops = context;
    const bool samples = hops->needed->sample != NULL;
    uint32_t places[SL_MAX_SCORE_FANOUT];
    for (uint64_t v = begin; v < end; v++) {
        const uint16_t of = __atomic_load_n(&hops->of[v], __ATOMIC_RELAXED);
        if (of > hops->last || (of < hops->last && !samples)) {
            continue;
        }
        const uint32_t n = count_list(hops->needed, (uint32_t)v, hops->last);
        const bool some = n < degree_of(hops->needed, (uint32_t)v);
        if (some) {
            pick(hops->needed, (uint32_t)v, n, places);
        }
        for (uint32_t i = 0; i < n; i++) {
            mark_source(hops, hops->graph->offsets[v] + (some ? places[i] : i));
        }
    }
}

static void count_edges(struct hops *hops)
{
    hops->n_edges = 0;
    for (uint32_t v = 0; v < hops->graph->n_vertices; v++) {
        hops->n_edges += hops->of[v] <= hops->last ? count_list(hops->needed, v, hops->last) : 0;
    }
}

/* Mark the vertices within n_hops hops of the scored ones. False: without samples the layers would sum over more than
 * SL_NEEDED_MOST of the edges of an evaluation of all vertices; then some vertices may not be marked. */
static bool mark(struct hops *hops)
{
    const struct sl_needed *needed = hops->needed;
    const uint32_t n_layers = needed->n_layers;
    double n_summed = 0;
    for (uint32_t h = 0; h < n_layers; h++) {
        hops->last = (uint16_t)h;
        count_edges(hops);
        n_summed += (double)hops->n_edges;
        hops->n_copied += h + 1 >= needed->n_hops ? hops->n_edges : 0;
        const double rest = (n_layers - 1.0 - h) * (double)hops->n_edges; /* earlier layers sum over at least so many */
        if (needed->sample == NULL && n_summed + rest > SL_NEEDED_MOST * n_layers * (double)hops->graph->n_edges) {
            return false;
        }
        if (h < needed->n_hops) {
            sl_parallel_for(hops->graph->n_vertices, GRAIN, mark_sources, hops);
        }
    }
    return true;
}

/* ---- numbers ---- */

/* Count the rows of each part by hop, then within hops. */
static enum sl_status count_rows(const struct hops *hops, struct sl_needed *out)
{
    const uint32_t *part_first = out->all->partition->first;
    const uint32_t n_parts = out->all->n_parts;
    const uint32_t n_counts = out->n_hops + 1;
    uint32_t *first;
    SL_CHECK(sl_alloc_zero((size_t)n_parts * n_counts, sizeof *out->n_rows, "needed vertices", &out->n_rows));
    SL_CHECK(sl_alloc_zero((size_t)n_parts + 1, sizeof *first, "needed vertices", &first));
    out->partition.first = first;
    for (uint32_t q = 0; q < n_parts; q++) {
        uint32_t *n = out->n_rows + (size_t)q * n_counts;
        for (uint32_t v = part_first[q]; v < part_first[q + 1]; v++) {
            if (hops->of[v] <= out->n_hops) {
                n[hops->of[v]]++;
            }
        }
        for (uint32_t h = 1; h < n_counts; h++) {
            n[h] += n[h - 1];
        }
        first[q + 1] = first[q] + n[n_counts - 1];
    }
    return SL_OK;
}

/* Number of vertices of part q within fewer than n_hops hops. */
static uint32_t rows_below(const struct sl_needed *needed, uint32_t q, uint32_t n_hops)
{
    return n_hops > 0 ? sl_needed_rows(needed, q, n_hops - 1) : 0;
}

/* number_out: of each numbered vertex. */
static enum sl_status number_rows(const struct hops *hops, struct sl_needed *out, uint32_t *number_out)
{
    const uint32_t *part_first = out->all->partition->first;
    const uint32_t *first = out->partition.first;
    SL_FREED uint32_t *next = NULL;
    SL_CHECK(sl_alloc(out->n_hops + 1, sizeof *next, "needed vertices", &next));
    SL_CHECK(sl_alloc((size_t)first[out->all->n_parts] + 1, sizeof *out->shards.iota, "needed ids", &out->shards.iota));
    for (uint32_t q = 0; q < out->all->n_parts; q++) {
        for (uint32_t h = 0; h <= out->n_hops; h++) {
            next[h] = first[q] + rows_below(out, q, h);
        }
        for (uint32_t v = part_first[q]; v < part_first[q + 1]; v++) {
            if (hops->of[v] <= out->n_hops) {
                number_out[v] = next[hops->of[v]]++;
                out->shards.iota[number_out[v]] = v;
            }
        }
    }
    return SL_OK;
}

/* ---- lists ---- */

struct copy {
    const struct sl_needed *needed;
    const struct sl_graph *from;
    const struct sl_shard *part;
    const sl_vertex *ids;    /* of the part's numbered vertices */
    const uint32_t *numbers; /* of all vertices. NULL: sources keep their ids */
    const uint64_t *offsets; /* of the part's numbered vertices, in `to` */
    const struct sl_graph *to;
};

/* Copy n in-edges of a vertex, from edge e on, to edge `to` on. */
static void copy_run(const struct copy *copy, uint64_t e, uint64_t n, uint64_t to)
{
    sl_graph_copy_edges(copy->from, e, n, copy->to, to);
    for (uint64_t i = 0; i < n; i++) {
        const sl_vertex id = copy->from->sources[e + i];
        copy->to->sources[to + i] = copy->numbers != NULL ? copy->numbers[id] : id;
    }
    if (copy->part->edge_rows != NULL) {
        const uint64_t first = copy->from->offsets[copy->part->first];
        memcpy(copy->to->rows + to, copy->part->edge_rows + e - first, n * sizeof *copy->to->rows);
    }
}

static void copy_lists(void *context, uint64_t begin, uint64_t end)
{
    const struct copy *copy = context;
    for (uint64_t r = begin; r < end; r++) {
        const uint64_t e = copy->from->offsets[copy->ids[r]];
        const uint64_t to = copy->offsets[r];
        const uint32_t n = (uint32_t)(copy->offsets[r + 1] - to);
        if (n == degree_of(copy->needed, copy->ids[r])) {
            copy_run(copy, e, n, to);
            continue;
        }
        uint32_t *places = copy->to->sources + to; /* which replace them one by one */
        pick(copy->needed, copy->ids[r], n, places);
        for (uint32_t i = 0; i < n; i++) {
            copy_run(copy, e + places[i], 1, to + i);
        }
    }
}

/* Copy the lists of vertices within h hops, as the sum over hop h reads them. All other numbered vertices have empty
 * lists. */
static enum sl_status copy_graph(const struct sl_needed *needed, uint32_t h, const uint32_t *numbers,
                                 struct sl_graph *out)
{
    const struct sl_graph *graph = &needed->all->partition->graph;
    const uint32_t *first = needed->partition.first;
    const sl_vertex *ids = needed->shards.iota;
    out->n_vertices = first[needed->all->n_parts];
    out->n_relations = graph->n_relations;
    SL_CHECK(sl_alloc_zero((size_t)out->n_vertices + 1, sizeof *out->offsets, "needed offsets", &out->offsets));
    for (uint32_t q = 0; q < needed->all->n_parts; q++) {
        const uint32_t end = first[q] + sl_needed_rows(needed, q, h);
        for (uint32_t r = first[q]; r < first[q + 1]; r++) {
            out->offsets[r + 1] = out->offsets[r] + (r < end ? count_list(needed, ids[r], h) : 0);
        }
    }
    out->n_edges = out->offsets[out->n_vertices];
    SL_CHECK(sl_graph_alloc_edges(out->n_edges + 1, graph, out)); /* an empty list is registered as one edge */
    for (uint32_t q = 0; q < needed->all->n_parts; q++) {
        struct copy copy = {needed, graph, &needed->all->part[q], ids + first[q], numbers, out->offsets + first[q],
                            out};
        sl_parallel_for(sl_needed_rows(needed, q, h), GRAIN, copy_lists, &copy);
    }
    return SL_OK;
}

/* ---- the shards ---- */

static enum sl_status copy_factors(struct sl_needed *out)
{
    struct sl_shards *shards = &out->shards;
    const uint32_t n = out->partition.graph.n_vertices;
    if (out->all->factor_of == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc((size_t)n + 1, 2 * sizeof *shards->factor_of, "needed vertex weights", &shards->factor_of));
    for (uint32_t r = 0; r < n; r++) {
        memcpy(shards->factor_of + 2 * (size_t)r, out->all->factor_of + 2 * (size_t)shards->iota[r],
               2 * sizeof *shards->factor_of);
    }
    shards->factors = sl_matrix_over(shards->factor_of, n == 0 ? 1 : n, 2, SL_DTYPE_REAL);
    starpu_data_set_sequential_consistency_flag(shards->factors, 0);
    return SL_OK;
}

/* Targets and sets of the scored vertices, which come first in each part. */
static enum sl_status copy_targets(struct sl_needed *out)
{
    struct sl_shards *shards = &out->shards;
    const size_t n = out->partition.graph.n_vertices;
    const size_t row_bytes = (size_t)shards->targets.width * SL_TARGET_BYTES;
    SL_CHECK(sl_alloc_zero(n + 1, row_bytes, "needed targets", &shards->targets.data));
    SL_CHECK(sl_alloc_zero(n + 1, 1, "needed split", &shards->set_of));
    for (uint32_t q = 0; q < shards->n_parts; q++) {
        const uint32_t first = out->partition.first[q];
        for (uint32_t r = first; r < first + sl_needed_rows(out, q, 0); r++) {
            memcpy((char *)shards->targets.data + r * row_bytes, sl_shards_targets(out->all, shards->iota[r]),
                   row_bytes);
            shards->set_of[r] = out->all->set_of[shards->iota[r]];
        }
    }
    return SL_OK;
}

/* numbered: sources are numbers, not ids. */
static enum sl_status register_lists(const struct sl_needed *needed, bool numbered, struct sl_needed_lists *lists)
{
    const struct sl_graph *graph = &lists->graph;
    const uint32_t *first = needed->partition.first;
    SL_CHECK(sl_alloc_zero(needed->all->n_parts, sizeof *lists->part, "needed lists", &lists->part));
    for (uint32_t q = 0; q < needed->all->n_parts; q++) {
        struct sl_part_handles *part = &lists->part[q];
        *part = needed->all->part[q].graph;
        sl_part_register(graph, first[q], first[q + 1], part);
        part->first = numbered ? needed->shards.first : part->first;
        if (graph->rows != NULL) {
            const uint64_t edge = graph->offsets[first[q]];
            part->rows = sl_vector_readable(graph->rows + edge, graph->offsets[first[q + 1]] - edge, 4);
        }
    }
    return SL_OK;
}

/* numbers: of all vertices. */
static enum sl_status make_lists(struct sl_needed *out, const uint32_t *numbers)
{
    SL_CHECK(sl_alloc_zero(out->n_lists, sizeof *out->lists, "needed lists", &out->lists));
    for (uint32_t i = 0; i < out->n_lists; i++) {
        const bool first_layer = sl_needed_reads_table(out) && i == out->n_lists - 1;
        uint32_t h = i;
        if (out->sample == NULL) { /* the lists of the farthest hop have those of all nearer ones */
            h = (first_layer ? out->n_layers : out->n_hops) - 1;
        }
        SL_CHECK(copy_graph(out, h, first_layer ? NULL : numbers, &out->lists[i].graph));
        SL_CHECK(register_lists(out, !first_layer, &out->lists[i]));
    }
    return SL_OK;
}

static void register_part(struct sl_needed *out, uint32_t q)
{
    struct sl_shards *shards = &out->shards;
    struct sl_shard *part = &shards->part[q];
    const uint32_t n_scored = sl_needed_rows(out, q, 0);
    *part = out->all->part[q];
    part->first = out->partition.first[q];
    part->end = out->partition.first[q + 1];
    part->graph = (struct sl_part_handles){0};
    part->targets = sl_vector_readable(sl_shards_targets(shards, part->first),
                                       (uint64_t)n_scored * shards->targets.width, SL_TARGET_BYTES);
    part->sets = sl_vector_readable(shards->set_of + part->first, n_scored, 1);
    if (out->ids != NULL) {
        out->ids[q] = sl_vector_readable(shards->iota + part->first, part->end - part->first, 4);
    }
}

static enum sl_status make_shards(const uint32_t *numbers, struct sl_needed *out)
{
    struct sl_shards *shards = &out->shards;
    const size_t n_parts = shards->n_parts;
    out->partition.graph.n_vertices = out->partition.first[n_parts];
    shards->ids = sl_vector_readable(shards->iota, out->partition.graph.n_vertices, 4);
    shards->first = sl_vector_readable(out->partition.first, n_parts + 1, 4);
    SL_CHECK(make_lists(out, numbers));
    SL_CHECK(copy_factors(out));
    SL_CHECK(copy_targets(out));
    SL_CHECK(sl_alloc_zero(n_parts, sizeof *shards->part, "needed parts", &shards->part));
    if (sl_needed_reads_table(out)) {
        SL_CHECK(sl_alloc_zero(n_parts, sizeof *out->ids, "needed parts", &out->ids));
    }
    for (uint32_t q = 0; q < n_parts; q++) {
        register_part(out, q);
    }
    return SL_OK;
}

/* ---- open ---- */

/* Number of rows of a level that an evaluation computes. */
static double count_level(const struct sl_needed *needed, uint32_t hops, bool all)
{
    double n = 0;
    for (uint32_t q = 0; q < needed->all->n_parts; q++) {
        n += all ? needed->all->part[q].end - needed->all->part[q].first : sl_needed_rows(needed, q, hops);
    }
    return n;
}

/* Bytes of the largest layer's rows: input, projected rows and output. all: of all vertices. Then the first layer reads
 * features where they lie, if it can. */
static double most_rows(const struct sl_needed *needed, const struct sl_model *model, bool all)
{
    const uint32_t last = model->layer[model->n_vertex_layers - 1].level;
    double most = 0;
    for (uint32_t i = 0; i < model->n_vertex_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        const bool in_place =
            i == 0 && (needed->all->is_sparse || (all && sl_feature_source_in_place(&needed->all->features)));
        const double from =
            (in_place ? 0 : layer->n_in) + (layer->evaluation.project_first ? (double)layer->evaluation.travels : 0);
        most = fmax(most, from * count_level(needed, layer->from - last, all) +
                              layer->n_out * count_level(needed, layer->level - last, all));
    }
    return most * (double)sl_dtype_size(needed->all->row_dtype);
}

/* Whether rows and copies take less memory than the rows of all vertices. */
static bool pays(const struct sl_needed *needed, const struct sl_model *model, uint64_t n_copied)
{
    const struct sl_graph *graph = &needed->all->partition->graph;
    const size_t edge = sizeof *graph->sources + (graph->weights != NULL ? sizeof *graph->weights : 0) +
                        (graph->relations != NULL ? sizeof *graph->relations : 0) +
                        (graph->rows != NULL ? sizeof *graph->rows : 0);
    return (double)n_copied * (double)edge + most_rows(needed, model, false) < most_rows(needed, model, true);
}

/* Whether the first layer sums the rows of the feature table. */
static bool sums_table(const struct sl_shards *shards, const struct sl_layer *first)
{
    return sl_layer_aggregates(first) && first->evaluation.travelling == SL_ROWS_INPUT && !shards->is_sparse &&
           sl_feature_source_in_place(&shards->features);
}

/* The shards without what make_shards fills in. */
static void begin_shards(struct sl_needed *out)
{
    struct sl_shards *shards = &out->shards;
    *shards = *out->all;
    out->partition.new_ids = shards->partition->new_ids;
    out->partition.dataset_ids = shards->partition->dataset_ids;
    shards->partition = &out->partition;
    shards->part = NULL;
    shards->iota = NULL;
    shards->set_of = NULL;
    shards->targets.data = NULL;
    shards->factor_of = NULL;
    shards->factors = shards->ids = shards->first = NULL;
}

/* The vertices of hop 0. */
static void mark_scored(const struct sl_shards *all, const struct sl_chosen *chosen, uint16_t *hops)
{
    memset(hops, 0xff, all->n_vertices * sizeof *hops);
    if (chosen == NULL) {
        sl_objective_mark_scored(sl_objective_of(all), all, hops);
    }
    for (uint32_t v = 0; chosen != NULL && v < all->n_vertices; v++) {
        hops[v] = chosen->row_of[v] != SL_NONE ? 0 : hops[v];
    }
}

/* Leaves n_rows NULL if all vertices are to be evaluated. */
static enum sl_status find(const struct sl_model *model, const struct sl_chosen *chosen, struct sl_needed *out)
{
    const struct sl_shards *all = out->all;
    struct hops hops = {.needed = out, .graph = &all->partition->graph};
    SL_FREED uint16_t *of = NULL;
    SL_FREED uint32_t *numbers = NULL;
    SL_CHECK(sl_alloc(all->n_vertices, sizeof *of, "hops of vertices", &of));
    hops.of = of;
    mark_scored(all, chosen, of);
    if (!mark(&hops)) {
        return SL_OK;
    }
    SL_CHECK(count_rows(&hops, out));
    if (out->sample == NULL && !pays(out, model, hops.n_copied)) {
        sl_free(SL_TAKE(out->n_rows));
        return SL_OK;
    }
    SL_CHECK(sl_alloc(all->n_vertices, sizeof *numbers, "numbers of vertices", &numbers));
    SL_CHECK(number_rows(&hops, out, numbers));
    return make_shards(numbers, out);
}

enum sl_status sl_needed_open(const struct sl_shards *shards, const struct sl_model *model,
                              const struct sl_chosen *chosen, const struct sl_score_sample *sample,
                              struct sl_needed *out)
{
    const struct sl_layer *first = &model->layer[0];
    const uint32_t n_layers = first->from - model->layer[model->n_vertex_layers - 1].level;
    const bool in_place = sums_table(shards, first);
    *out = (struct sl_needed){.all = shards, .sample = sample, .n_layers = n_layers, .n_hops = n_layers - in_place};
    out->n_lists = sample != NULL ? n_layers : (uint32_t)in_place + (out->n_hops > 0);
    begin_shards(out);
    enum sl_status st = find(model, chosen, out);
    if (st != SL_OK || out->n_rows == NULL) {
        sl_needed_close(out);
    }
    return st;
}

void sl_needed_close(struct sl_needed *needed)
{
    struct sl_shards *shards = &needed->shards;
    for (uint32_t q = 0; shards->part != NULL && q < shards->n_parts; q++) {
        sl_handle_close(shards->part[q].targets);
        sl_handle_close(shards->part[q].sets);
    }
    for (uint32_t q = 0; needed->ids != NULL && q < shards->n_parts; q++) {
        sl_handle_close(needed->ids[q]);
    }
    for (uint32_t i = 0; needed->lists != NULL && i < needed->n_lists; i++) {
        struct sl_needed_lists *lists = &needed->lists[i];
        for (uint32_t q = 0; lists->part != NULL && q < shards->n_parts; q++) {
            sl_part_close(&lists->part[q]);
        }
        sl_graph_free(&lists->graph);
        sl_free(lists->part);
    }
    sl_handle_close(shards->ids);
    sl_handle_close(shards->first);
    sl_handle_close(shards->factors);
    sl_free(shards->part);
    sl_free(shards->iota);
    sl_free(shards->set_of);
    sl_free(shards->targets.data);
    sl_free(shards->factor_of);
    sl_free(needed->partition.first);
    sl_free(needed->lists);
    sl_free(needed->ids);
    sl_free(needed->n_rows);
    *needed = (struct sl_needed){0};
}
