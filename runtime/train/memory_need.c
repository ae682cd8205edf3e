/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. tests/whole/test_memory_peak.c compares with measured runs. */
#include "runtime/train/memory_need.h"

#include <math.h>

#include "codelets/rows/row_cache.h"
#include "runtime/full/evaluate.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/collect.h"
#include "runtime/store/feature_source.h"

#define PROCESS_BYTES 22e6 /* the program and its libraries */
#define CUDA_BYTES 208e6   /* CUDA's libraries, with or without a GPU */
#define WORKER_BYTES 1.6e6 /* a worker's stack and tasks, and the libraries' packing buffers */
#define MESSAGE_BYTES 76e6 /* MPI's buffers, and rows waiting to be sent */
#define PART_SHARE 1.25    /* size of the largest part relative to the average */
/* Memory of rows relative to the bytes in them. Blocks have sizes of classes, free blocks serve smaller sizes, steps
 * differ, and tasks of several layers are in progress at a time. */
#define SPARE 1.17

/* `number` if the condition is true, else 0. */
static double if_so(bool condition, double number)
{
    return condition ? number : 0;
}

/* The run, and what a process or a GPU has of it. */
struct basis {
    const struct sl_settings *settings;
    const struct sl_dataset *dataset;
    const struct sl_memory_run *run;
    const struct sl_model *model;
    bool pipe, sparse;
    enum sl_dtype dtype; /* of the features in part order */
    bool in_place;       /* the first layer can read these features in place (sl_feature_source_in_place) */
    double element;      /* bytes of a number of --precision */
    double row;          /* bytes of a feature row of such numbers; 0 if features are sparse */
    double edge;         /* bytes of an edge of the parts */
    double n, n_edges;   /* vertices and edges of own parts */
    double n_own;        /* own PEs */
    double depth;        /* steps that have gathered their features */
    double share;        /* own fraction of the rows of a step or of an evaluation */
};

/* The model is the caller's: too large to copy. If a layer adds features to its output (--residual), sparse features
 * become dense. */
static struct basis find_basis(const struct sl_settings *s, const struct sl_dataset *dataset,
                               const struct sl_memory_run *run, struct sl_model *model)
{
    const struct sl_features *f = &dataset->features;
    const bool pipe = sl_schedule_of(s)->whole_graph;
    const bool weighs = s->edge_weights != SL_EDGE_WEIGHTS_NONE && dataset->graph.weights != NULL;
    const enum sl_dtype row_dtype = sl_settings_row_dtype(s);
    const struct sl_model_data data = {
        .n_features = f->n_columns,
        .n_outputs = sl_settings_trains_links(s) ? s->hidden : sl_targets_outputs(&dataset->targets),
        .n_relations = dataset->graph.n_relations,
        .n_edge_features = s->edge_features != SL_EDGE_FEATURES_NONE ? dataset->edge_features.n_columns : 0,
        .sparse = f->dense.data == NULL && !sl_model_adds_features(s, f->n_columns),
        .n_link_relations = dataset->links.n_relations};
    sl_model_shape(s, &data, model);
    struct basis b = {
        .settings = s,
        .dataset = dataset,
        .run = run,
        .model = model,
        .pipe = pipe,
        .sparse = data.sparse,
        .dtype = sl_feature_source_dtype(f, row_dtype, !pipe),
        .element = (double)sl_dtype_size(row_dtype),
        .edge = sizeof(sl_vertex) + if_so(weighs, sizeof(float)) +
                if_so(sl_model_reads_relations(s), sizeof *dataset->graph.relations) +
                if_so(data.n_edge_features > 0, 2 * sizeof(uint32_t) + data.n_edge_features * sizeof(sl_real)),
        .n = dataset->graph.n_vertices,
        .n_edges = (double)dataset->graph.n_edges,
        .n_own = s->pes,
        .depth = s->depth,
        .share = 1};
    b.row = if_so(!b.sparse, f->n_columns * b.element);
    b.in_place = b.dtype == row_dtype || (!run->converts && sl_model_reads_narrow(s, f->n_columns, b.dtype));
    return b;
}

/* The fraction of the layers in the largest crew. */
static double crew_share(const struct sl_settings *s, const struct sl_plan *plan)
{
    double longest = ceil((double)s->layers / s->stages);
    for (uint32_t k = 0; k <= s->n_stages_cut && s->n_stages_cut > 0; k++) {
        uint32_t end = k < s->n_stages_cut ? s->stages_cut[k] : s->layers;
        longest = fmax(longest, end - (k > 0 ? s->stages_cut[k - 1] : 0));
    }
    return fmin(1, longest / s->layers * ceil((double)s->stages / plan->n_crews));
}

/* Take a rank's share. Before parts are made, a part is a quarter larger than the average. */
static void take_rank(const struct sl_plan *plan, const struct sl_partition *partition, struct basis *b)
{
    double vertices = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_parts;
    double edges = vertices;
    if (partition != NULL) {
        const uint64_t *offsets = partition->graph.offsets;
        vertices = edges = 0;
        for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
            const uint32_t *first = &partition->first[sl_plan_part(plan, p)];
            vertices += (first[1] - first[0]) / b->n;
            edges += (double)(offsets[first[1]] - offsets[first[0]]) / fmax(1, b->n_edges);
        }
    }
    b->share = fmin(1, fmax(vertices, edges) * (b->pipe ? crew_share(b->settings, plan) : 1.0 / plan->n_groups));
    b->n_own = plan->end_pe - plan->first_pe;
    b->n *= fmin(1, vertices);
    b->n_edges *= fmin(1, edges);
}

/* ---- rows ---- */

/* Bytes of own rows: of a step or, if `all`, of all vertices. */
static double row_bytes(const struct basis *b, bool all, uint32_t level, double row)
{
    double n_groups = (double)b->settings->pes / b->settings->group_size;
    return b->share * row * (all ? b->dataset->graph.n_vertices : n_groups * b->run->reach.vertices[level]);
}

/* Whether a step reads features in place (sl_step_in_place). */
static bool steps_in_place(const struct basis *b)
{
    uint32_t cache = b->settings->feature_cache;
    bool cached = cache != 0 && cache != SL_FEATURE_CACHE_AUTO;
    return b->model->layer[0].training.in_place && b->in_place && !cached;
}

/* Bytes per vertex of all rows that travel in training. */
static double travelling_bytes(const struct basis *b)
{
    double columns = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        columns += if_so(sl_layer_aggregates(&b->model->layer[i]), b->model->layer[i].training.travels);
    }
    return columns * b->element;
}

/* All rows that stay until the backward pass, and the largest gradients of a layer. Each step in flight has its own
 * features, sums of them, and small chunks, which keep their handles. Of the groups of PEs that pass one after the
 * other, two run backward. With --recompute the outputs of segments stay, and copies of the rows that travel; the rows
 * of a segment are computed again. */
static double training_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const uint32_t n_layers = b->model->n_layers;
    const double n_slots = b->pipe ? (double)s->pes / s->ways : 1;
    const double n_back = fmin(2, n_slots) / n_slots;
    const double small = b->share * s->pes * s->chunks * SL_KEPT_BYTES;
    double outputs = 0;
    double stay = 0;
    double gradients = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        double of_layer = 0;
        for (int role = 0; role < SL_N_ROLES; role++) {
            const struct sl_layer_row *row = &b->model->layer[i].training.row[role];
            double bytes = row_bytes(b, b->pipe, row->level, row->width * (double)sl_dtype_size(row->dtype));
            bool each = !b->pipe && (bytes <= small || (i == 0 && role == SL_ROWS_SUM));
            bool rounded = b->pipe && s->precision == SL_PRECISION_BF16;
            if (each && role != SL_ROWS_GBACK) {
                stay += b->depth * bytes;
            } else if (role < SL_ROWS_GH) {
                stay += if_so(row->end != SL_UNTIL_FORWARD, bytes);
            } else if (role != SL_ROWS_GBACK || rounded) {
                of_layer += bytes;
            }
            outputs += if_so(role == SL_ROWS_H, bytes);
        }
        gradients = fmax(gradients, of_layer);
    }
    if (s->recompute) {
        double n_segments = s->stages * ceil(ceil((double)n_layers / s->stages) / ceil(sqrt(n_layers)));
        double packed = row_bytes(b, true, 0, travelling_bytes(b)) * (s->epochs >= s->history_every ? 2 : 1);
        stay = outputs * n_segments / n_layers + n_back * stay / n_segments + if_so(n_slots > 1, packed);
    }
    if (!b->pipe) {
        const struct sl_layer *first = &b->model->layer[0];
        stay += b->depth * row_bytes(b, false, steps_in_place(b) ? first->level : first->from, b->row);
    }
    return SPARE * fmax(1, s->depth / 2.0) * (stay + n_back * gradients);
}

/* The rows of one layer, beside its input. Most pass from sum to sum chunk by chunk, in_hand rows at a time. Whole are
 * inputs, outputs, rows that travel, rows that a sum is added to, and sums that free workers compute ahead. Features
 * that no layer reads in place become rows of all parts at once. */
static double evaluation_bytes(const struct basis *b, double in_hand)
{
    const double part = fmin(1, in_hand / b->dataset->graph.n_vertices);
    double most = 0;
    double input = 0;
    double early = 0;
    for (uint32_t i = 0; i < b->model->n_vertex_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        const struct sl_layer_order *order = &layer->evaluation;
        double bytes = input;
        for (int role = 0; role < SL_ROWS_GH; role++) {
            const struct sl_layer_row *row = &order->row[role];
            double all = row_bytes(b, true, 0, row->width * (double)sl_dtype_size(row->dtype));
            bool added = order->project_first && (role == SL_ROWS_Z || role == SL_ROWS_T);
            bool whole = role == SL_ROWS_H || role == (int)order->travelling || added || layer->last;
            early += if_so(role == SL_ROWS_SUM && layer->kind->reads_first, all);
            bytes += all * (whole ? 1 : part);
            input = role == SL_ROWS_H ? all : input;
        }
        most = fmax(most, bytes);
    }
    return SPARE * (most + early);
}

/* Rows that PEs receive from other PEs, and gradients that return. The first layer needs no gradients of features.
 * Crossing edges with the same source request one row. */
static double exchange_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_reach *reach = &b->run->reach;
    const double of_others = 1 - 1.0 / s->group_size;
    const double small = s->group_size * (s->group_size - 1.0) * SL_KEPT_BYTES;
    double bytes = 0;
    for (uint32_t i = 0; i < b->model->n_layers && !b->pipe; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        bool back = i > 0 || layer->training.project_first;
        double there = fmax(1, s->group_size * reach->vertices[layer->from] * of_others);
        double asked =
            if_so(sl_layer_aggregates(layer), there * -expm1(-reach->edges[layer->level] * of_others / there));
        double element = i == 0 && steps_in_place(b) ? (double)sl_dtype_size(b->dtype) : b->element;
        double one = asked * layer->training.travels * element;
        bytes += (back ? 2 : 1) * one * (one <= small ? s->depth : 1);
    }
    return bytes * b->share * s->pes / s->group_size;
}

/* ---- tables ---- */

/* Features in part order. */
static double feature_bytes(const struct basis *b, double n)
{
    const struct sl_features *f = &b->dataset->features;
    return b->sparse ? 8 * n * (1 + (double)f->offsets[f->n_rows] / f->n_rows)
                     : n * (double)sl_dtype_bytes(b->dtype, f->n_columns);
}

/* The dataset: edges, features, ids, split, targets and weights of vertices (46). Targets beyond the first column lie
 * there, and once more for training vertices. */
static double data_bytes(const struct basis *b, double n, double n_edges)
{
    double further = 2 * fmax(0, (double)b->dataset->targets.width - 1) * SL_TARGET_BYTES;
    return b->edge * n_edges + (46 + further) * n + feature_bytes(b, n);
}

/* All parameters or, if `partial`, a gradient of each: a block of the pool. The gradient of a derived parameter
 * replaces those that are computed from it. */
static double parameter_bytes(const struct basis *b, bool partial)
{
    double bytes = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            double one = (double)layer->parameter[k].n_rows * layer->parameter[k].n_columns * sizeof(sl_real);
            bool added = k < SL_MAX_OWN_PARAMETERS && layer->kind->parameter[k].by_derived;
            double least = if_so(partial && one > 0, SL_POOL_SMALLEST_BYTES);
            bytes += if_so(!partial || !added, fmax(one, least));
        }
    }
    return bytes;
}

/* Weights, Adam's state and copies (6). Several replicas each have state and copies for gossip and checkpoints (8). */
static double model_bytes(const struct basis *b)
{
    double n_replicas = sl_plan_replicas(b->settings);
    return (6 + if_so(n_replicas > 1, 8 * n_replicas)) * parameter_bytes(b, false);
}

/* Gradients of every PE's chunks, or of the pieces of the full graph. */
static double partial_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double n = b->n_own * s->chunks;
    if (b->pipe) {
        const uint32_t n_vertices = b->dataset->graph.n_vertices;
        double pieces = sl_partition_pieces((enum sl_partition_method)s->partition, n_vertices, s->group_size);
        n = fmax(n, pieces * b->n_own / s->pes);
    }
    return n * parameter_bytes(b, true);
}

/* Feature caches. auto: a cache is in GPU memory only. */
static double cache_bytes(const struct basis *b)
{
    const uint32_t cache = b->settings->feature_cache;
    double row = (double)sl_dtype_bytes(b->dtype, b->dataset->features.n_columns) + sizeof(struct sl_row_cache_slot);
    double n_rows = fmin(cache, b->dataset->graph.n_vertices);
    return if_so(cache != SL_FEATURE_CACHE_AUTO && !b->sparse, b->n_own * n_rows * row);
}

/* Blocks of all ring slots: ids, edges and transposed edges, and positions in the frontier. With --labor-iterations,
 * weighted LABOR and layers of sources all vertices may be candidates of a PE. With fanouts by relation an edge may
 * have a bound. Full-graph training has tables of out-neighbours and of chunks instead. */
static double sample_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_reach *reach = &b->run->reach;
    const double n = b->dataset->graph.n_vertices;
    const double edge = b->edge + if_so(sl_settings_by_importance(s), sizeof(float));
    double candidates = fmin(n * s->group_size, (double)b->dataset->graph.n_edges) + n;
    double ids = reach->vertices[0] * 16 + 4 * n +
                 if_so(sl_settings_by_importance(s), (sl_settings_by_layers(s) ? 20 : 12) * candidates) +
                 if_so(sl_settings_by_importance(s) && s->relation_fanout != NULL,
                       sizeof(float) * (double)b->dataset->graph.n_edges);
    for (uint32_t hop = 0; hop < sl_settings_hops(s); hop++) {
        ids += reach->vertices[hop + 1] * 16 + reach->edges[hop] * 2 * edge;
    }
    return b->pipe ? (8 + 2 * edge) * b->n_edges + 24 * b->n : b->share * s->depth * ids * s->pes / s->group_size;
}

/* Links of the dataset: lists as loaded. Then, if links are trained, lists in new ids with orders, keys and scores;
 * triples also have all known triples by either end. Each vertex has a number, and outputs. */
static double listed_bytes(const struct sl_link_split *links)
{
    double n = 0;
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        n += links->list[list].n;
    }
    return n * (2 * sizeof(sl_vertex) + if_so(links->n_relations > 0, sizeof(uint32_t)));
}

static double link_bytes(const struct basis *b)
{
    const struct sl_link_split *links = &b->dataset->links;
    const double listed = listed_bytes(links);
    const double n_ends = fmin(b->dataset->graph.n_vertices, listed / sizeof(sl_vertex));
    return if_so(sl_settings_trains_links(b->settings),
                 (links->n_relations > 0 ? 12 : 6) * listed + n_ends * b->settings->hidden * sizeof(sl_real));
}

/* ---- one process ---- */

/* Rows of other ranks that one layer of an evaluation reads at a time (runtime/full/halo_lists.h). */
static double halo_bytes(const struct basis *b)
{
    double widest = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        double columns = ceil((double)layer->evaluation.travels / sl_full_slices(layer));
        widest = fmax(widest, if_so(sl_layer_aggregates(layer), columns));
    }
    return b->dataset->graph.n_vertices * widest * b->element;
}

/* In training on the full graph all receives have memory before the first row arrives: forward, backward, and for the
 * history. Rows between crews and first-layer rows are added. */
static double received_bytes(const struct basis *b, const struct sl_plan *plan)
{
    double share = (double)(plan->end_pe - plan->first_pe) / plan->n_parts;
    double row = if_so(sl_plan_shares_ways(plan), 3 * travelling_bytes(b) * crew_share(b->settings, plan)) +
                 if_so(plan->n_crews > 1, 4 * b->settings->hidden * sizeof(sl_real) * share);
    return b->dataset->graph.n_vertices * row;
}

/* The dataset as loaded, which is freed before training begins. */
static double loaded_bytes(const struct basis *b)
{
    const struct sl_graph *graph = &b->dataset->graph;
    struct basis file = *b;
    file.sparse = b->dataset->features.dense.data == NULL;
    file.dtype = sl_features_dtype(&b->dataset->features);
    file.edge = sizeof(sl_vertex) + if_so(graph->weights != NULL, sizeof *graph->weights) +
                if_so(graph->relations != NULL, sizeof *graph->relations) +
                if_so(graph->rows != NULL, sizeof *graph->rows);
    const struct sl_edge_features *table = &b->dataset->edge_features;
    return data_bytes(&file, b->n, b->n_edges) + (double)table->n_rows * table->n_columns * sizeof(float) +
           listed_bytes(&b->dataset->links);
}

struct sl_memory_need sl_memory_need(const struct sl_settings *s, const struct sl_dataset *dataset,
                                     const struct sl_memory_run *run)
{
    const struct sl_plan *plan = run->plan;
    struct sl_model model;
    struct basis b = find_basis(s, dataset, run, &model);
    double all = data_bytes(&b, b.n, b.n_edges);
    double loaded = loaded_bytes(&b);
    double process = PROCESS_BYTES + if_so(sl_gpus_built(), CUDA_BYTES) + run->n_workers * WORKER_BYTES;
    if (plan != NULL) {
        take_rank(plan, run->partition, &b);
        process += MESSAGE_BYTES + dataset->graph.n_vertices * 48.0; /* ids in both orders, lists of the halo */
        const bool in_part = dataset->low_memory && dataset->mapping != NULL && !dataset->own_graph;
        loaded = in_part ? fmin(loaded, 64e6) : loaded; /* so much of a cache file is in memory at a time */
    }
    double data = data_bytes(&b, b.n, b.n_edges);
    double training = training_bytes(&b) + exchange_bytes(&b);
    /* A worker has a chunk in work and the next one. No free block of training serves features that become rows. */
    double evaluation = evaluation_bytes(&b, 2.0 * run->n_workers * (1 << SL_EVALUATE_SHIFT)) +
                        2 * row_bytes(&b, true, 0, if_so(!b.in_place, b.row));
    if (b.pipe && s->pes > s->ways && s->epochs >= s->history_every) {
        evaluation += b.n * travelling_bytes(&b); /* rows stay for later epochs */
    }
    if (plan != NULL) {
        training += if_so(b.pipe, received_bytes(&b, plan));
        evaluation += halo_bytes(&b);
    }
    double kept = process + data + cache_bytes(&b) + model_bytes(&b) + link_bytes(&b);
    double partials = partial_bytes(&b);
    double work = sample_bytes(&b) + partials + fmax(training, evaluation);
    return (struct sl_memory_need){.memory = (uint64_t)(kept + fmax(loaded, work)),
                                   .untouched = (uint64_t)(all - data),
                                   .data = (uint64_t)data,
                                   .training = (uint64_t)(training + partials),
                                   .evaluation = (uint64_t)evaluation};
}

/* ---- one GPU ---- */

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                      const struct sl_reach *reach, uint32_t n_gpus)
{
    const struct sl_memory_run run = {.reach = *reach, .n_workers = settings->pes, .converts = true};
    const uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* per GPU */
    const double copies = n_gpus > 1 ? 2 : 1; /* of exchanged rows: packed at the sender, and received */
    const double parts = fmin(1, PART_SHARE * n_pes / settings->group_size);
    struct sl_settings cached = *settings;
    /* With auto, this estimate decides on the cache. Assume a cache: then a step gathers all its input rows. */
    cached.feature_cache = settings->feature_cache != 0;
    struct sl_model model;
    struct basis b = find_basis(&cached, dataset, &run, &model);
    /* An evaluation has rows of all parts: one chunk computes, one is in StarPU's pipeline, two are transferred. */
    double rows = evaluation_bytes(&b, 4.0 * (1 << SL_EVALUATE_GPU_SHIFT));
    bool travel = sl_layer_aggregates(&model.layer[0]) && model.layer[0].evaluation.travelling == SL_ROWS_INPUT;
    rows += row_bytes(&b, true, 0, if_so(travel || !b.in_place, b.row));
    b.n_own = n_pes;
    b.depth += 0.5; /* the next step gathers beside them */
    b.share = fmin(1, PART_SHARE * n_pes / settings->pes);
    /* Dense features of the parts are not on the GPU, but an evaluation converts narrow features from there. */
    double dense = if_so(!b.sparse, feature_bytes(&b, parts * b.n));
    double data = data_bytes(&b, parts * b.n, parts * b.n_edges) + link_bytes(&b) - dense;
    double training = data + model_bytes(&b) + partial_bytes(&b) + training_bytes(&b) + copies * exchange_bytes(&b);
    double evaluation = data + if_so(!b.in_place, dense) + rows;
    return (struct sl_gpu_need){.training = (uint64_t)(SPARE * training) + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)(SPARE * evaluation) + SL_GPU_PIECES_BYTES};
}
