/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. tests/whole/test_memory_peak.c compares them with measured runs. */
#include "runtime/train/memory_need.h"

#include <math.h>

#include "partition/metis.h"
#include "runtime/full/evaluate.h"
#include "runtime/full/needed.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/store/feature_source.h"
#include "support/minmax.h"

#define PROCESS_BYTES 28e6 /* the program and its libraries */
#define CUDA_BYTES 208e6   /* CUDA's libraries, with or without a GPU */
#define WORKER_BYTES 1.6e6 /* a worker's stack and tasks, and the libraries' packing buffers */
#define MESSAGE_BYTES 76e6 /* MPI's buffers, and rows waiting to be sent */
#define SPARE 1.2          /* the largest part relative to the average; blocks of a GPU relative to their data */

/* The run, and what a process or a GPU has of it. */
struct basis {
    const struct sl_settings *settings;
    const struct sl_dataset *dataset;
    struct sl_model model;
    bool pipe, sparse;
    bool in_place;       /* the first layer can read the features of the parts in place (sl_feature_source_in_place) */
    enum sl_dtype dtype; /* of these features */
    double element;      /* bytes of a number of --precision */
    double n, n_edges;   /* vertices and edges of own parts */
    double n_own;        /* own PEs */
    double share;        /* own fraction of the rows of a step or of an evaluation */
    double in_hand;      /* rows of the chunks that an evaluation has in work */
    double received;     /* rows that an evaluation receives of other ranks, at most */
    /* A step of one group: vertices by level (0: the seeds), edges by hop. */
    double vertices[SL_MAX_LAYERS + 1], edges[SL_MAX_LAYERS];
    /* Vertices that an evaluation computes, by hops before its last level, and edges of the lists that it copies. */
    double evaluated[SL_MAX_LAYERS + 1], copied;
};

/* `number` if the condition is true, else 0. */
static double if_so(bool condition, double number)
{
    return condition ? number : 0;
}

/* ---- the size of a step ---- */

/* How many of n are drawn at least once in n_draws, if their frequencies have an exponential distribution. */
static double distinct(double n, double n_draws)
{
    return n * n_draws / fmax(1, n + n_draws);
}

/* Edges that a vertex draws, on average. */
static double mean_drawn(const struct sl_graph *graph, double fanout)
{
    const bool counts = !isinf(fanout) && graph->offsets != NULL;
    double n = isinf(fanout) ? (double)graph->n_edges : 0;
    for (uint32_t v = 0; v < graph->n_vertices && counts; v++) {
        n += fmin((double)(graph->offsets[v + 1] - graph->offsets[v]), fanout);
    }
    return n / fmax(1, graph->n_vertices);
}

/* Seeds that are links have an edge to each end, in hop 0. A --vertex-budget may come to many more seeds than the first
 * step has: each level may have as many vertices as the budget. */
static void count_step(struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const uint32_t links = sl_settings_trains_links(s);
    const double n_seeds = fmin((double)s->batch_size * s->group_size, sl_dataset_n_train(b->dataset));
    const double n_lists = s->relation_fanout != NULL ? b->dataset->graph.n_relations : 1; /* each with a fanout */
    double n_draws = 0;
    b->vertices[0] = n_seeds * (links ? sl_settings_link_ends(s) : 1);
    b->edges[0] = b->vertices[0];
    b->vertices[links] = links ? distinct(b->n, b->edges[0]) : n_seeds;
    for (uint32_t hop = links; hop < sl_settings_hops(s); hop++) {
        const uint32_t i = sl_settings_hops(s) - 1 - hop;
        const double fanout = s->sampler == SL_SAMPLER_FULL ? INFINITY : n_lists * s->fanout[i];
        b->edges[hop] = b->vertices[hop] * mean_drawn(&b->dataset->graph, fanout);
        if (sl_settings_by_layers(s)) { /* edges from the sources that are drawn */
            b->edges[hop] *= fmin(1, s->layer_size[i] / fmax(1, distinct(b->n, b->edges[hop])));
        }
        n_draws += b->edges[hop];
        b->vertices[hop + 1] = b->vertices[links] + distinct(b->n - b->vertices[links], n_draws);
        b->vertices[hop + 1] = fmax(b->vertices[hop + 1], fmin(b->n, s->vertex_budget));
    }
}

/* Whether an evaluation may leave vertices out (runtime/full/needed.h). */
static bool leaves_out(const struct sl_settings *s)
{
    return s->predict == NULL && s->embed == NULL && !sl_settings_trains_links(s) && s->gpus == 0;
}

static void evaluate_all(struct basis *b)
{
    b->copied = 0;
    for (uint32_t h = 0; h <= SL_MAX_LAYERS; h++) {
        b->evaluated[h] = b->n;
    }
}

/* Around scored vertices as around seeds. */
static void count_evaluated(struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_graph *graph = &b->dataset->graph;
    const struct sl_layer *layer = b->model.layer;
    const uint32_t n_hops = layer[0].from - layer[b->model.n_vertex_layers - 1].level;
    const bool samples = s->n_score_fanout > 0;
    double n_drawn = 0;
    b->evaluated[0] = fmin(b->n, b->dataset->valid.n + b->dataset->test.n);
    for (uint32_t h = 0; h < n_hops; h++) {
        const double fanout = samples ? s->score_fanout[n_hops - 1 - h] : INFINITY;
        const double n_edges = b->evaluated[h] * mean_drawn(graph, fanout);
        n_drawn += n_edges;
        b->copied = samples ? n_drawn : n_edges;
        b->evaluated[h + 1] = b->evaluated[h] + distinct(b->n - b->evaluated[h], n_drawn);
    }
    if (!samples && n_drawn > SL_NEEDED_MOST * n_hops * b->n_edges) {
        evaluate_all(b);
    }
}

/* If a layer adds features to its output (--residual), sparse features become dense. */
static void find_basis(const struct sl_settings *s, const struct sl_dataset *dataset, bool converts, struct basis *out)
{
    const struct sl_features *f = &dataset->features;
    const enum sl_dtype row_dtype = sl_settings_row_dtype(s);
    const struct sl_model_data data = {
        .n_features = f->n_columns,
        .n_outputs = sl_settings_trains_links(s) ? s->hidden : sl_targets_outputs(&dataset->targets),
        .n_relations = dataset->graph.n_relations,
        .n_edge_features = s->edge_features != SL_EDGE_FEATURES_NONE ? dataset->edge_features.n_columns : 0,
        .sparse = f->dense.data == NULL && !sl_model_adds_features(s, f->n_columns),
        .n_link_relations = dataset->links.n_relations};
    *out = (struct basis){.settings = s,
                          .dataset = dataset,
                          .pipe = sl_schedule_of(s)->whole_graph,
                          .sparse = data.sparse,
                          .element = (double)sl_dtype_size(row_dtype),
                          .n = dataset->graph.n_vertices,
                          .n_edges = (double)dataset->graph.n_edges,
                          .n_own = s->pes,
                          .share = 1};
    sl_model_shape(s, &data, &out->model);
    out->dtype = sl_feature_source_dtype(f, row_dtype, !out->pipe);
    out->in_place = out->dtype == row_dtype || (!converts && sl_model_reads_narrow(s, f->n_columns, out->dtype));
    if (!out->pipe) {
        count_step(out);
    }
    evaluate_all(out);
    if (!converts && leaves_out(s)) {
        count_evaluated(out);
    }
}

/* Take the share of n_own of n_pes PEs, and of n_parts parts. */
static void take_share(double n_own, double n_pes, double n_parts, struct basis *b)
{
    b->n_own = n_own;
    b->share = fmin(1, SPARE * n_own / n_pes);
    b->n *= fmin(1, SPARE * n_own / n_parts);
    b->n_edges *= fmin(1, SPARE * n_own / n_parts);
}

/* ---- rows ---- */

static double edge_bytes(const struct basis *b)
{
    const struct sl_graph *graph = &b->dataset->graph;
    return sizeof(sl_vertex) + if_so(graph->weights != NULL, sizeof *graph->weights) +
           if_so(graph->relations != NULL, sizeof *graph->relations) +
           if_so(graph->rows != NULL, 2 * sizeof *graph->rows + b->dataset->edge_features.n_columns * sizeof(sl_real));
}

/* What the walk over the layers counts, in bytes. */
struct rows {
    double kept, outputs; /* until the backward pass; outputs among them */
    double gradients;     /* of the layer that has most */
    double travelling;    /* of all vertices */
    double input, ahead, evaluation;
};

/* Bytes of own rows of all vertices. */
static double all_rows(const struct basis *b, double row)
{
    return b->share * b->dataset->graph.n_vertices * row;
}

/* Bytes of own rows that an evaluation computes of a level. An unused role has no level. */
static double evaluated_rows(const struct basis *b, uint32_t level, double row)
{
    const uint32_t last = b->model.layer[b->model.n_vertex_layers - 1].level;
    return row > 0 ? b->share * b->evaluated[level - last] * row : 0;
}

/* Bytes of own rows of a level: of a step, or of all vertices. */
static double level_rows(const struct basis *b, uint32_t level, double row)
{
    const double n_groups = (double)b->settings->pes / b->settings->group_size;
    return b->pipe ? all_rows(b, row) : b->share * n_groups * b->vertices[level] * row;
}

/* Training keeps rows until the backward pass, rows that PEs exchange, and the gradients of a layer. If chunks are
 * small, each step in flight has its own. METIS cuts about half of the edges that a random partition cuts. */
static void train_layer(const struct basis *b, uint32_t i, struct rows *sum)
{
    const struct sl_settings *s = b->settings;
    const struct sl_layer *layer = &b->model.layer[i];
    const double n_pes = s->group_size;
    const bool few = s->partition == SL_PARTITION_METIS || s->partition == SL_PARTITION_STREAM;
    const double cut = (1 - 1 / n_pes) / (few ? 2 : 1);
    const double small = if_so(!b->pipe, b->share * s->pes * s->chunks * SL_KEPT_BYTES);
    double back = 0;
    for (int role = 0; role < SL_N_ROLES; role++) {
        const struct sl_layer_row *row = &layer->training.row[role];
        double bytes = level_rows(b, row->level, row->width * (double)sl_dtype_size(row->dtype));
        if (role == SL_ROWS_GBACK && !b->pipe) {
            continue;
        }
        if (bytes <= small) {
            sum->kept += s->depth * bytes;
        } else if (role >= SL_ROWS_GH) {
            back += bytes;
        } else if (row->end != SL_UNTIL_FORWARD) {
            sum->kept += bytes;
        }
        sum->outputs += if_so(role == SL_ROWS_H, bytes);
    }
    if (sl_layer_aggregates(layer)) {
        double n = distinct(n_pes * b->vertices[layer->from], b->edges[layer->level]) * cut;
        double travelling = layer->training.travels * b->element;
        sum->kept += b->share * s->pes / n_pes * n * travelling * (layer->returns ? 2 : 1);
        sum->travelling += all_rows(b, travelling);
    }
    sum->gradients = fmax(sum->gradients, back);
}

/* An evaluation has the rows of one layer and its input. Most rows pass from sum to sum chunk by chunk. All chunks
 * exist of inputs, outputs, rows that travel and rows that a sum is added to. Free workers compute some sums ahead. */
static void evaluate_layer(const struct basis *b, uint32_t i, struct rows *sum)
{
    const struct sl_layer *layer = &b->model.layer[i];
    const struct sl_layer_order *order = &layer->evaluation;
    double bytes = sum->input + b->received * b->element * order->travels / fmax(1, sl_full_slices(layer));
    for (int role = 0; role < SL_ROWS_GH; role++) {
        double row = order->row[role].width * (double)sl_dtype_size(order->row[role].dtype);
        bool added = order->project_first && (role == SL_ROWS_Z || role == SL_ROWS_T);
        bool whole = role == SL_ROWS_H || role == (int)order->travelling || added || layer->last;
        const double all = evaluated_rows(b, order->row[role].level, row);
        bytes += whole ? all : fmin(all, b->in_hand * row);
        sum->ahead += if_so(role == SL_ROWS_SUM && layer->kind->reads_first, all);
        sum->input = role == SL_ROWS_H ? all : sum->input;
    }
    sum->evaluation = fmax(sum->evaluation, bytes + b->copied * edge_bytes(b));
}

/* Features that no layer reads in place become rows of all parts at once in an evaluation. In training each step in
 * flight has its own features (sl_step_in_place).
 * On the whole graph two of the groups of PEs that pass one after the other run backward. With --recompute the outputs
 * of segments stay, and copies of the rows that travel; the rows of a segment are computed again. Copies stay for later
 * epochs, too, and a rank receives as many rows. */
static struct sl_gpu_need count_rows(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_layer *first = &b->model.layer[0];
    const bool cached = s->feature_cache != 0 && s->feature_cache != SL_FEATURE_CACHE_AUTO;
    const bool in_place = first->training.in_place && b->in_place && !cached;
    const double feature = if_so(!b->sparse, b->dataset->features.n_columns * b->element);
    /* Few vertices have copies of their features; those that are only summed are read where they lie. */
    const bool sums = b->in_place && sl_layer_aggregates(first) && first->evaluation.travelling == SL_ROWS_INPUT;
    const double gathered = evaluated_rows(b, first->from - (b->copied > 0 && sums), feature);
    struct rows sum = {.input = if_so(!b->in_place || b->copied > 0, gathered)};
    sum.ahead = sum.input;
    for (uint32_t i = 0; i < b->model.n_layers; i++) {
        train_layer(b, i, &sum);
        if (i < b->model.n_vertex_layers) {
            evaluate_layer(b, i, &sum);
        }
    }
    if (b->pipe) {
        const double back = fmin(1, 2.0 * s->ways / s->pes);
        const double n_segments = fmax(s->stages, sqrt(b->model.n_layers));
        const double copies = if_so(s->pes > s->ways && s->epochs >= s->history_every, sum.travelling);
        sum.kept = s->recompute
                       ? sum.outputs * n_segments / b->model.n_layers + back * sum.kept / n_segments + sum.travelling
                       : sum.kept;
        sum.kept += if_so(s->recompute, copies) + if_so(b->received > 0, 3 * sum.travelling / b->share);
        sum.gradients *= back;
        sum.evaluation += copies;
    } else {
        sum.kept += s->depth * level_rows(b, in_place ? first->level : first->from, feature);
    }
    return (struct sl_gpu_need){(uint64_t)(sum.kept + sum.gradients), (uint64_t)(sum.ahead + sum.evaluation)};
}

/* ---- tables ---- */

/* Features of n vertices, in part order. */
static double feature_bytes(const struct basis *b, double n)
{
    const struct sl_features *f = &b->dataset->features;
    return n * (b->sparse ? 8 + 8 * (double)f->offsets[f->n_rows] / f->n_rows
                          : (double)sl_dtype_bytes(b->dtype, f->n_columns));
}

/* Edges; of vertices the ids, offsets, split, targets and factors. */
static double graph_bytes(const struct basis *b, double n, double n_edges)
{
    const double targets = 2.0 * b->dataset->targets.width * SL_TARGET_BYTES;
    return n_edges * edge_bytes(b) + n * (2 * sizeof(uint64_t) + 4 * sizeof(sl_vertex) + 2 * sizeof(sl_real) + targets);
}

/* Weights, their gradient, Adam's state and the best weights (5), and a gradient of each PE. Each of several replicas
 * has state and copies for gossip and checkpoints (8). */
static double model_bytes(const struct basis *b)
{
    const double n_replicas = sl_plan_replicas(b->settings);
    double n = 0;
    for (uint32_t i = 0; i < b->model.n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            n += (double)b->model.layer[i].parameter[k].n_rows * b->model.layer[i].parameter[k].n_columns;
        }
    }
    return (5 + b->n_own + if_so(n_replicas > 1, 8 * n_replicas)) * n * sizeof(sl_real);
}

/* Blocks of all ring slots: ids, edges and transposed edges, and positions in the frontier. If edges are drawn by
 * importance, all vertices may be candidates of a PE. Full-graph training has tables of out-neighbours and of chunks
 * instead. Links to train on have orders, keys and scores; triples also all known triples by either end. */
static double sample_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_link_split *links = &b->dataset->links;
    const double n = b->dataset->graph.n_vertices;
    const double candidates = fmin(n * s->group_size, (double)b->dataset->graph.n_edges) + n;
    double bytes = n * sizeof(sl_vertex) + if_so(sl_settings_by_importance(s), candidates * 4 * sizeof(float));
    for (uint32_t hop = 0; hop < sl_settings_hops(s); hop++) {
        bytes += b->vertices[hop + 1] * 4 * sizeof(sl_vertex) + b->edges[hop] * 2 * edge_bytes(b);
    }
    bytes = b->pipe ? 2 * graph_bytes(b, b->n, b->n_edges) : bytes * b->share * s->depth * s->pes / s->group_size;
    for (int list = 0; list < SL_N_LINK_LISTS && sl_settings_trains_links(s); list++) {
        bytes += links->list[list].n * (links->n_relations > 0 ? 48.0 : 24.0) * sizeof(sl_vertex);
    }
    return bytes;
}

/* ---- one process, one GPU ---- */

/* A rank that reads its share from a cache has little of the loaded dataset in memory at a time. The union of a
 * directed graph and its reverse, which `stream` cuts, takes 6 numbers of an edge. */
uint64_t sl_memory_need(const struct sl_settings *s, const struct sl_dataset *dataset, const struct sl_plan *plan,
                        uint32_t n_workers, enum sl_partition_method cut)
{
    const bool ranks = plan != NULL && plan->n_ranks > 1;
    double process = PROCESS_BYTES + if_so(sl_gpus_built(), CUDA_BYTES) + n_workers * WORKER_BYTES;
    struct basis b;
    find_basis(s, dataset, ranks || s->gpus > 0, &b);
    double loaded = graph_bytes(&b, b.n, b.n_edges) + feature_bytes(&b, b.n);
    const double of_edge = if_so(cut == SL_PARTITION_METIS, SL_METIS_EDGE_BYTES) +
                           if_so(cut == SL_PARTITION_STREAM && dataset->directed, 6 * sizeof(sl_vertex));
    const double cutting = of_edge * b.n_edges;
    b.in_hand = 2.0 * n_workers * (1 << SL_EVALUATE_SHIFT); /* in work, and the next chunk */
    if (ranks) {
        process += MESSAGE_BYTES + b.n * 12 * sizeof(sl_vertex); /* ids of all, lists of the halo */
        loaded = if_so(!dataset->low_memory || dataset->mapping == NULL || dataset->own_graph, loaded);
        b.received = b.n;
        take_share(plan->end_pe - plan->first_pe, plan->n_pes, plan->n_parts, &b);
    }
    struct sl_gpu_need rows = count_rows(&b);
    if (b.copied > 0 && s->n_score_fanout == 0) { /* an evaluation takes the way that has fewer rows */
        evaluate_all(&b);
        rows.evaluation = sl_min_u64(rows.evaluation, count_rows(&b).evaluation);
    }
    const double training = rows.training * fmax(1, s->depth / 2.0); /* more steps overlap */
    /* Of the blocks of one phase that the pool keeps, about half serve the other phase. */
    const double kept = fmin(fmin(training, rows.evaluation), if_so(!ranks, SL_POOL_KEPT_BYTES)) / 2;
    const double cache = if_so(s->feature_cache != SL_FEATURE_CACHE_AUTO, b.n_own * fmin(s->feature_cache, b.n));
    const double data = graph_bytes(&b, b.n, b.n_edges) + feature_bytes(&b, b.n + cache);
    const double work = data + sample_bytes(&b) + fmax(training, rows.evaluation) + kept;
    return (uint64_t)(process + model_bytes(&b) + fmax(loaded + fmax(data, cutting), work));
}

/* In an evaluation, all rows that travel to a layer's sums exist at once. The first layer's depend on the features.
 * Other rows may pass chunk by chunk. The run may have no GPU, and one group if --pes is open. */
uint64_t sl_memory_least(const struct sl_settings *settings, const struct sl_raw_sizes *sizes)
{
    struct sl_settings s = *settings;
    const struct sl_dataset dataset = {.graph = {.n_vertices = (uint32_t)sizes->n_vertices,
                                                 .n_edges = sizes->n_edges,
                                                 .n_relations = sizes->n_relations},
                                       .features = {.n_rows = (uint32_t)sizes->n_vertices, .n_columns = 1}};
    struct basis b;
    double rows = 0;
    s.gpus = 0;
    s.group_size = sl_max_u32(s.group_size, 1);
    s.pes = sl_max_u32(s.pes, s.group_size);
    find_basis(&s, &dataset, false, &b);
    for (uint32_t i = 1; i < b.model.n_vertex_layers; i++) {
        const struct sl_layer *layer = &b.model.layer[i];
        rows = fmax(rows, evaluated_rows(&b, layer->from, layer->evaluation.travels * b.element));
    }
    const double data = graph_bytes(&b, b.n, b.n_edges);
    return (uint64_t)(model_bytes(&b) + data + fmax(data, rows));
}

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                      uint32_t n_gpus)
{
    const uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* per GPU */
    struct sl_settings cached = *settings;
    struct basis b;
    /* With auto, this estimate decides on the cache. Assume a cache: then a step gathers all its input rows. */
    cached.feature_cache = settings->feature_cache != 0;
    cached.depth++; /* the next step gathers beside them */
    find_basis(&cached, dataset, true, &b);
    /* An evaluation has rows of all parts. Of a worker, one chunk computes, one is in StarPU's pipeline, two are
     * transferred. A GPU that is alone may have two workers. */
    const struct sl_layer *first = &b.model.layer[0];
    bool travel = sl_layer_aggregates(first) && first->evaluation.travelling == SL_ROWS_INPUT;
    double features = feature_bytes(&b, b.n);
    b.in_hand = (n_gpus == 1 ? 8.0 : 4.0) * (1 << SL_EVALUATE_GPU_SHIFT);
    double evaluation = count_rows(&b).evaluation + if_so(travel || !b.in_place, features);
    take_share(n_pes, settings->pes, settings->group_size, &b);
    /* Dense features of the parts are not on the GPU. */
    double data = graph_bytes(&b, b.n, b.n_edges) + if_so(b.sparse, feature_bytes(&b, b.n));
    double training = model_bytes(&b) + count_rows(&b).training;
    return (struct sl_gpu_need){.training = (uint64_t)(SPARE * (data + training)) + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)(SPARE * (data + evaluation)) + SL_GPU_PIECES_BYTES};
}
