/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. Rows are counted by layers: those that are alive while a layer runs backward, or runs in an
 * evaluation. tests/whole/test_memory_peak.c compares with measured runs. */
#include "runtime/train/memory_need.h"

#include <math.h>

#include "codelets/rows/row_cache.h"
#include "codelets/sampling/link_seeds.h"
#include "runtime/full/evaluate.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/objective/collect.h"
#include "runtime/pipe/epoch.h"
#include "runtime/store/feature_source.h"
#include "tasks/rows.h"

/* The program and its libraries. CUDA's libraries are the largest, with or without a GPU. */
#if defined(SL_CUDA) && STARPU_MAXCUDADEVS > 0
#define PROCESS_BYTES 230e6
#else
#define PROCESS_BYTES 22e6
#endif
#define WORKER_BYTES 1.6e6 /* a worker's stack and tasks, and the libraries' packing buffers */
#define RECORD_BYTES 5000  /* StarPU's records of a handle, or of a task with its arguments */
#define CLASS_SHARE 1.125  /* sizes are rounded up by at most an eighth */
#define PART_SHARE 1.25    /* size of the largest part relative to the average */
/* Memory of rows relative to the bytes in them. Blocks have sizes of classes, free blocks serve smaller sizes, steps
 * differ, and tasks of several layers are in progress at a time. Each step in flight after the second adds
 * SPARE_STEP. */
#define SPARE 1.2
#define SPARE_STEP 0.25

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
    bool factors;        /* vertices have weights */
    enum sl_dtype dtype; /* of the features in part order */
    bool in_place;       /* the first layer can read these features in place (sl_feature_source_in_place) */
    double element;      /* bytes of a number of --precision */
    double row;          /* bytes of a feature row of such numbers; 0 if features are sparse */
    double edge;         /* bytes of an edge of the parts */
    double block_edge;   /* bytes of an edge of sampled blocks and of tables for full-graph training */
    double n_own;        /* own PEs */
    double n_pes;        /* PEs of average size: for rows of a step */
    double n_parts;      /* parts of average size: for rows of an evaluation */
    double n, n_edges;   /* vertices and edges of own parts */
};

/* The model is the caller's: too large to copy. If a layer adds features to its output (--residual), sparse features
 * become dense. */
static struct basis find_basis(const struct sl_settings *s, const struct sl_dataset *dataset,
                               const struct sl_memory_run *run, struct sl_model *model)
{
    const struct sl_features *f = &dataset->features;
    const bool pipe = sl_schedule_of(s)->whole_graph;
    const bool weighs = s->edge_weights != SL_EDGE_WEIGHTS_NONE && dataset->graph.weights != NULL;
    const double relation = if_so(sl_model_reads_relations(s), sizeof *dataset->graph.relations);
    const enum sl_dtype row_dtype = sl_settings_row_dtype(s);
    const struct sl_model_data data = {.n_features = f->n_columns,
                                       .n_outputs = sl_settings_trains_links(s) ? s->hidden
                                                                                : sl_targets_outputs(&dataset->targets),
                                       .n_relations = dataset->graph.n_relations,
                                       .sparse = f->dense.data == NULL && !sl_model_adds_features(s, f->n_columns),
                                       .n_link_relations = dataset->links.n_relations};
    sl_model_shape(s, &data, model);
    struct basis b = {.settings = s,
                      .dataset = dataset,
                      .run = run,
                      .model = model,
                      .pipe = pipe,
                      .sparse = data.sparse,
                      .factors = pipe || sl_model_reads_factors(s),
                      .dtype = sl_feature_source_dtype(f, row_dtype, !pipe),
                      .element = (double)sl_dtype_size(row_dtype),
                      .edge = sizeof(sl_vertex) + if_so(weighs, sizeof(float)) + relation,
                      .block_edge = sizeof(sl_vertex) + relation +
                                    if_so(sl_settings_weighs_sums(s) || sl_settings_by_importance(s), sizeof(float)),
                      .n_own = s->pes,
                      .n_pes = s->pes,
                      .n_parts = s->group_size,
                      .n = dataset->graph.n_vertices,
                      .n_edges = (double)dataset->graph.n_edges};
    b.in_place = b.dtype == row_dtype || (!run->converts && sl_model_reads_narrow(s, f->n_columns, b.dtype));
    b.row = if_so(!b.sparse, f->n_columns * b.element);
    return b;
}

/* The fraction of the layers in the largest crew. */
static double crew_share(const struct sl_settings *s, const struct sl_plan *plan)
{
    double of_crew[SL_MAX_LAYERS] = {0};
    double most = 0;
    for (uint32_t stage = 0, first = 0; stage < s->stages; stage++) {
        uint32_t end = stage < s->n_stages_cut ? s->stages_cut[stage] : s->layers;
        uint32_t crew = sl_plan_crew_of_stage(plan, stage, s->stages);
        of_crew[crew] += s->n_stages_cut > 0 ? (double)(end - first) / s->layers : 1.0 / s->stages;
        most = fmax(most, of_crew[crew]);
        first = end;
    }
    return most;
}

/* Take a rank's share. Before parts are made, a part is a quarter larger than the average. */
static void take_rank(const struct sl_plan *plan, const struct sl_partition *partition, struct basis *b)
{
    double vertices = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_parts;
    double edges = vertices;
    double steps = vertices;
    if (partition != NULL) {
        const uint64_t *offsets = partition->graph.offsets;
        vertices = edges = 0;
        for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
            const uint32_t *first = &partition->first[sl_plan_part(plan, p)];
            vertices += (first[1] - first[0]) / b->n;
            edges += (double)(offsets[first[1]] - offsets[first[0]]) / fmax(1, b->n_edges);
        }
        steps = PART_SHARE * fmax(vertices, edges);
    }
    steps = fmin(1, steps * (b->pipe ? crew_share(b->settings, plan) : 1.0 / plan->n_groups));
    b->n_own = plan->end_pe - plan->first_pe;
    b->n_pes *= steps;
    b->n_parts *= steps;
    b->n *= fmin(1, vertices);
    b->n_edges *= fmin(1, edges);
}

/* ---- rows ---- */

/* How a pass runs. */
struct pass {
    bool training;
    double n_pes;                   /* PEs with rows */
    double rows[SL_MAX_LAYERS + 1]; /* of a PE, by level .. */
    uint32_t max_chunks, min_shift; /* .. and how they are split (sl_split_rows) */
    double gathered;                /* bytes of gathered feature rows, of all PEs */
    double ahead;                   /* steps whose feature rows are there */
    double kept;                    /* largest bytes of a chunk that keeps its handle (SL_KEPT_BYTES) */
    double depth;                   /* steps in flight: each has its own chunks that keep their handles */
    double n_slots;                 /* groups of PEs that pass one after the other; two run backward */
    uint32_t segment;               /* layers that the backward pass computes again; 0: all rows stay */
    double n_packed;                /* copies of the travelling rows, for other slots */
    bool rounds;                    /* returning gradients are rounded first (SL_ROWS_GBACK) */
    double in_hand;                 /* evaluation: rows in progress at a time, of all PEs */
};

/* Bytes of all PEs' rows of a level. */
static double level_bytes(const struct pass *pass, uint32_t level, double row, double alive)
{
    const double n_rows = pass->rows[level];
    const struct sl_split split =
        sl_split_rows((uint32_t)fmin(ceil(n_rows), UINT32_MAX), pass->max_chunks, pass->min_shift);
    const double room = split.n_chunks > 1 ? exp2(split.shift) : n_rows;
    const double n_chunks = (split.n_chunks + n_rows / fmax(1, room)) / 2; /* the last may be smaller */
    const double n = room * row <= pass->kept ? pass->depth : alive;
    return if_so(row > 0, n * pass->n_pes * n_chunks * (room * row + RECORD_BYTES));
}

/* The fraction of a layer's rows that is alive while layer j runs backward. The gradient of an output is made while the
 * layer above runs. With segments the forward pass leaves the last output of each segment, and the first output of the
 * model if all layers read it. A segment computes its other rows again when it runs backward. */
static double trained_alive(const struct basis *b, const struct pass *pass, uint32_t i, int role, uint32_t j)
{
    const struct sl_layer *layer = &b->model->layer[i];
    const bool output = role == SL_ROWS_H && !layer->last;
    if (role >= SL_ROWS_GH) {
        bool long_lived = role == SL_ROWS_GINITIAL || (role == SL_ROWS_GZ && layer->last);
        return role == SL_ROWS_GH ? j == i + 1 : j == i || (long_lived && j > i);
    }
    bool early = role == SL_ROWS_SUM && layer->kind->reads_first; /* free workers compute these sums */
    bool stays = pass->segment == 0 || j / pass->segment == i / pass->segment || early ||
                 (output && ((i + 1) % pass->segment == 0 || (i == 0 && layer[1].kind->reads_first)));
    return layer->training.row[role].end != SL_UNTIL_FORWARD && j >= i + output && stays;
}

/* The same in an evaluation. Most rows pass from sum to sum chunk by chunk. Whole are: rows that travel, rows that a
 * sum is added to, the model's outputs, and inputs that the layer reads again after the sum. */
static double evaluated_alive(const struct basis *b, const struct pass *pass, uint32_t i, int role, uint32_t j)
{
    const struct sl_layer *layer = &b->model->layer[i];
    const struct sl_layer_order *order = &layer->evaluation;
    const bool output = role == SL_ROWS_H && !layer->last;
    const bool early = role == SL_ROWS_SUM && layer->kind->reads_first;
    bool whole = early || (role == SL_ROWS_Z && layer->last);
    if (output) {
        whole = layer[1].evaluation.travelling != SL_ROWS_PROJECTED || layer[1].residual;
    } else if (sl_layer_aggregates(layer)) {
        bool begun = order->project_first && (role == SL_ROWS_Z || role == SL_ROWS_T);
        whole = whole || begun || role == (int)order->travelling;
    }
    bool lives = role < SL_ROWS_GH && (j == i || (output && j == i + 1) || (early && j < i));
    return lives * (whole ? 1 : fmin(1, pass->in_hand / b->dataset->graph.n_vertices));
}

/* Bytes of the rows while layer j runs. In training, all slots but two wait between the passes. */
static double bytes_at(const struct basis *b, const struct pass *pass, uint32_t j)
{
    const uint32_t n_layers = pass->training ? b->model->n_layers : b->model->n_vertex_layers;
    const double n_back = fmin(2, pass->n_slots) / pass->n_slots;
    double bytes = pass->gathered;
    for (uint32_t i = 0; i < n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        const struct sl_layer_order *order = pass->training ? &layer->training : &layer->evaluation;
        for (int role = 0; role < SL_N_ROLES; role++) {
            const struct sl_layer_row *row = &order->row[role];
            bool there = role != SL_ROWS_GBACK || pass->rounds;
            double n = pass->training ? n_back * trained_alive(b, pass, i, role, j) +
                                            (1 - n_back) * trained_alive(b, pass, i, role, n_layers)
                                      : evaluated_alive(b, pass, i, role, j);
            if (i == 0 && role == SL_ROWS_SUM && pass->ahead > 0) {
                n = pass->ahead; /* sums that need no weight are computed as soon as the features are gathered */
            }
            bytes += level_bytes(pass, row->level, there * row->width * (double)sl_dtype_size(row->dtype), n);
        }
        double packed = layer->training.travels * (double)sl_dtype_size(layer->row_dtype);
        bytes += level_bytes(pass, layer->from, if_so(sl_layer_aggregates(layer), packed), pass->n_packed);
    }
    return bytes * (SPARE + SPARE_STEP * fmax(0, pass->depth - 2));
}

static double most_bytes(const struct basis *b, const struct pass *pass)
{
    double most = 0;
    for (uint32_t j = 0; j <= b->model->n_layers; j++) {
        most = fmax(most, bytes_at(b, pass, j));
    }
    return most;
}

/* Whether a step reads features in place (sl_step_in_place). */
static bool steps_in_place(const struct basis *b)
{
    uint32_t cache = b->settings->feature_cache;
    bool cached = cache != 0 && cache != SL_FEATURE_CACHE_AUTO;
    return b->model->layer[0].training.in_place && b->in_place && !cached;
}

static struct pass pass_of_steps(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_layer *first = &b->model->layer[0];
    double n_per_epoch = ceil(sl_dataset_n_train(b->dataset) / ((double)s->batch_size * s->pes));
    struct pass pass = {.training = true,
                        .n_pes = b->n_pes,
                        .max_chunks = s->chunks,
                        .min_shift = SL_MIN_CHUNK_SHIFT,
                        .ahead = fmin(s->depth + 0.5, n_per_epoch), /* the next step gathers beside the rows of one */
                        .kept = SL_KEPT_BYTES,
                        .depth = s->depth,
                        .n_slots = 1};
    for (uint32_t level = 0; level <= first->from; level++) {
        pass.rows[level] = b->run->reach.vertices[level] / s->group_size;
    }
    pass.gathered = level_bytes(&pass, steps_in_place(b) ? first->level : first->from, b->row, pass.ahead);
    return pass;
}

/* A slot starts its backward pass while the slots before it, and a chunk of each worker, have unfinished tasks
 * (sl_pipe_tasks). */
static struct pass pass_of_pipe(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const uint32_t n_layers = b->model->n_layers;
    double n_slots = (double)s->pes / s->ways;
    double n_segments = s->stages * ceil(ceil((double)n_layers / s->stages) / ceil(sqrt(n_layers)));
    bool packs = s->recompute && n_slots > 1;
    struct pass pass = {.training = true,
                        .n_pes = b->n_pes,
                        .max_chunks = 1,
                        .kept = if_so(sl_pipe_keeps(s, n_layers, b->dataset->graph.n_vertices), SL_KEPT_BYTES),
                        .depth = 1,
                        .n_slots = n_slots,
                        .segment = (uint32_t)if_so(s->recompute, ceil(n_layers / n_segments)),
                        .n_packed = if_so(packs, b->run->boundary * (s->epochs >= s->history_every ? 2 : 1)),
                        .rounds = sl_settings_row_dtype(s) == SL_DTYPE_BF16};
    for (uint32_t level = 0; level <= SL_MAX_LAYERS; level++) {
        pass.rows[level] = (double)b->dataset->graph.n_vertices / s->pes;
    }
    return pass;
}

/* in_hand: chunks in progress at a time. Features that no layer reads in place become rows of all parts at once. */
static struct pass pass_of_evaluation(const struct basis *b, uint32_t shift, double in_hand)
{
    const uint32_t n_parts = b->settings->group_size;
    struct pass pass = {.n_pes = b->n_parts,
                        .max_chunks = SL_MAX_FULL_CHUNKS / n_parts,
                        .min_shift = shift,
                        .in_hand = in_hand * exp2(shift),
                        .n_slots = 1};
    for (uint32_t level = 0; level <= SL_MAX_LAYERS; level++) {
        pass.rows[level] = (double)b->dataset->graph.n_vertices / n_parts;
    }
    pass.gathered = level_bytes(&pass, 0, if_so(!b->in_place, b->row), 1);
    return pass;
}

/* ---- terms ---- */

/* The features. element: bytes of a dense entry. */
static double feature_bytes(const struct basis *b, bool sparse, double n, size_t element)
{
    const struct sl_features *f = &b->dataset->features;
    return sparse ? 8 * n * (1 + (double)f->offsets[f->n_rows] / f->n_rows) : n * f->n_columns * (double)element;
}

/* Bytes of the dataset as loaded or, if `parts`, in part order. It has edges, ids, split, targets, weights of vertices
 * and features. Targets beyond the first column lie there, and once more for training vertices. */
static double data_bytes(const struct basis *b, bool parts, double n, double n_edges)
{
    const struct sl_features *f = &b->dataset->features;
    const struct sl_graph *graph = &b->dataset->graph;
    double edge = parts ? b->edge
                        : sizeof(sl_vertex) + if_so(graph->weights != NULL, sizeof(float)) +
                              if_so(graph->relations != NULL, sizeof *graph->relations);
    double further = 2 * fmax(0, (double)b->dataset->targets.width - 1) * SL_TARGET_BYTES;
    double factors = if_so(parts && b->factors, 2 * sizeof(sl_real));
    double features = parts ? feature_bytes(b, b->sparse, n, sl_dtype_size(b->dtype))
                            : feature_bytes(b, f->dense.data == NULL, n, sl_dtype_size(sl_features_dtype(f)));
    return edge * n_edges + (38 + further + factors) * n + features;
}

/* Bytes of all parameters or, if `partial`, of one partial gradient of each: a block of the pool. The gradient of a
 * derived parameter replaces those that are computed from it. */
static double parameter_bytes(const struct sl_model *model, bool partial)
{
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            bool added = k < SL_MAX_OWN_PARAMETERS && model->layer[i].kind->parameter[k].by_derived;
            double one = (double)p->n_rows * p->n_columns * sizeof(sl_real);
            double least = if_so(partial && one > 0, SL_POOL_SMALLEST_BYTES);
            bytes += if_so(!partial || !added, fmax(one, least));
        }
    }
    return bytes;
}

/* Weights and Adam's state (4), best weights, and a copy for a file. Several replicas each have state and a copy for
 * gossip (5), and copies while a checkpoint is written (3). */
static double model_bytes(const struct basis *b)
{
    double n_replicas = sl_plan_replicas(b->settings);
    double each = 5 + if_so(b->settings->checkpoint != NULL, 3);
    return (6 + if_so(n_replicas > 1, n_replicas * each)) * parameter_bytes(b->model, false);
}

/* Partial sums of every PE's chunks, or of the pieces of the full graph: gradients, losses, and batch norm's moments
 * and sums (doubles). */
static double partial_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double n = b->n_own * s->chunks;
    double sums = 3 * SL_POOL_SMALLEST_BYTES + 6.0 * s->hidden * sizeof(double);
    if (b->pipe) {
        const uint32_t n_vertices = b->dataset->graph.n_vertices;
        double pieces = sl_partition_pieces((enum sl_partition_method)s->partition, n_vertices, s->group_size);
        n = fmax(n, pieces * b->n_own / s->pes);
        sums = SL_POOL_SMALLEST_BYTES;
    }
    return n * (parameter_bytes(b->model, true) + sums);
}

/* Feature caches. auto: a cache is in GPU memory only. */
static double cache_bytes(const struct basis *b)
{
    const uint32_t cache = b->settings->feature_cache;
    double row = (double)sl_dtype_bytes(b->dtype, b->dataset->features.n_columns) + sizeof(struct sl_row_cache_slot);
    double n_rows = fmin(cache, b->dataset->graph.n_vertices);
    return if_so(cache != SL_FEATURE_CACHE_AUTO && !b->sparse, b->n_own * n_rows * row);
}

/* Buffers for exchanging rows and row gradients. Each ring slot keeps one matrix per hop and pair of PEs, with a
 * quarter to spare. A matrix above SL_KEPT_BYTES is released with its layer instead, or with the backward pass if that
 * reads the rows again. With more PEs than workers, some PEs reach the next layer early, so two layers overlap. Teams
 * (sl_steps_team) keep all matrices, also from a team to itself. */
static double exchange_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_reach *reach = &b->run->reach;
    double of_others = 1 - 1.0 / s->group_size;
    double teams = ceil((double)s->group_size / b->run->team);
    double handles = b->run->team > 1 ? teams * teams : s->group_size * (s->group_size - 1.0);
    double kept = 0;
    double passing = 0;
    for (uint32_t i = 0; i < b->model->n_layers && !b->pipe; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        bool back = i > 0 || layer->training.project_first; /* the first layer needs no gradients of features */
        /* Crossing edges with the same source request one row. */
        double there = fmax(1, s->group_size * reach->vertices[layer->from] * of_others);
        double asked =
            if_so(sl_layer_aggregates(layer), there * -expm1(-reach->edges[layer->level] * of_others / there));
        double element = i == 0 && steps_in_place(b) ? (double)sl_dtype_size(b->dtype) : b->element;
        double bytes = asked * layer->training.travels * element;
        if (b->run->team > 1 || bytes <= handles * SL_KEPT_BYTES) {
            bytes = (back ? 2 : 1) * fmax(1.25 * bytes, handles * SL_POOL_SMALLEST_BYTES) + 2 * handles * RECORD_BYTES;
            kept += s->depth * bytes;
        } else {
            bool held = layer->kind->sum->rereads;
            passing = held ? passing + bytes : fmax(passing, (s->pes > b->run->n_workers ? 2 : 1) * bytes);
        }
    }
    return (kept + passing) * b->n_pes / s->group_size;
}

/* Blocks of all ring slots: ids, edges and transposed edges, and positions in the frontier (4 per vertex). With
 * --labor-iterations and weighted LABOR all vertices may be candidates of a PE, with an id, a bound and a cost each.
 * Each group then also has a bound, a cost and room for a bound of each vertex. */
static double sample_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_reach *reach = &b->run->reach;
    const double n = b->dataset->graph.n_vertices;
    double candidates = fmin(n * s->group_size, (double)b->dataset->graph.n_edges) + n;
    double ids = reach->vertices[0] * 16;
    for (uint32_t hop = 0; hop < sl_settings_hops(s); hop++) {
        ids += reach->vertices[hop + 1] * 16 + reach->edges[hop] * 2 * b->block_edge;
    }
    ids += 4 * n + if_so(sl_settings_by_importance(s), 12 * candidates);
    return s->depth * b->n_pes * (ids / s->group_size + 0.2 * n);
}

/* Tables of full-graph training, in place of a minibatch's blocks: out-neighbours, tables of chunks, waiting tasks.
 * With packed rows, vertices without a neighbour in other chunks have lists of their own. */
static double pipe_tables(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double tasks = sl_pipe_tasks(s->layers, s->ways, b->run->n_workers);
    double inner = if_so(s->recompute && s->pes > s->ways, 1 - b->run->boundary);
    return (8 + b->block_edge * (1 + inner)) * b->n_edges + (16 + if_so(inner > 0, 8)) * b->n + RECORD_BYTES * tasks;
}

/* Workers' buffers for a chunk of a product's factors, or of a factor and the product: rounded or widened with bf16,
 * otherwise the floats of narrow features. */
static double factor_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    bool narrow = b->in_place && b->dtype != sl_settings_row_dtype(s);
    double n_columns = s->hidden + fmax(s->hidden, if_so(!b->sparse, b->dataset->features.n_columns));
    return if_so(narrow || s->precision == SL_PRECISION_BF16,
                 b->run->n_workers * exp2(SL_EVALUATE_SHIFT) * n_columns * sizeof(float));
}

#define LINK_COPIES 5    /* training links: a copy in new ids with numbers, two orders, keys of an order */
#define TRIPLE_COPIES 11 /* the same, and all known triples by either end */

/* Bytes for links. Scored links have a copy and scores, and negatives if none are listed. Each vertex has a number, and
 * outputs; those of triples are in two orders. listed: bytes of the dataset's lists. */
static double link_bytes(const struct basis *b, double *listed)
{
    const struct sl_link_split *links = &b->dataset->links;
    const double n = b->dataset->graph.n_vertices;
    const bool triples = links->n_relations > 0;
    double n_links = 0;
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        n_links += links->list[list].n;
    }
    *listed = n_links * (2 * sizeof(sl_vertex) + if_so(triples, sizeof(uint32_t)));
    return if_so(sl_settings_trains_links(b->settings),
                 (triples ? TRIPLE_COPIES : LINK_COPIES) * *listed + n * sizeof(uint32_t) +
                     (triples ? 2 : 1) * fmin(n, 2 * n_links) * b->settings->hidden * sizeof(sl_real));
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

static struct sl_memory_terms find_terms(const struct basis *b, const struct pass *evaluation)
{
    const struct sl_settings *s = b->settings;
    const struct sl_graph *graph = &b->dataset->graph;
    const struct pass training = b->pipe ? pass_of_pipe(b) : pass_of_steps(b);
    double history = if_so(b->pipe && s->pes > s->ways && s->epochs >= s->history_every,
                           (s->recompute ? b->run->boundary : 1) * b->n * travelling_bytes(b));
    double listed;
    struct sl_memory_terms terms = {.data = (uint64_t)data_bytes(b, true, b->n, b->n_edges),
                                    .links = (uint64_t)link_bytes(b, &listed),
                                    .model = (uint64_t)model_bytes(b),
                                    .partials = (uint64_t)partial_bytes(b),
                                    .buffers = (uint64_t)(cache_bytes(b) + factor_bytes(b)),
                                    .exchange = (uint64_t)exchange_bytes(b),
                                    .samples = (uint64_t)(b->pipe ? pipe_tables(b) : sample_bytes(b)),
                                    .rows = (uint64_t)most_bytes(b, &training),
                                    .history = (uint64_t)history,
                                    .evaluation = (uint64_t)most_bytes(b, evaluation)};
    terms.loaded = (uint64_t)(data_bytes(b, false, graph->n_vertices, (double)graph->n_edges) + listed);
    return terms;
}

/* ---- one process ---- */

#define READING_BYTES 64e6 /* of a cache file in memory at a time */
#define MESSAGE_BYTES 76e6 /* MPI's buffers, and rows waiting to be sent */
#define VERTEX_BYTES 24    /* ids in both orders, training vertices, lists of the halo */

/* Rows of other ranks. An evaluation has the rows that one layer reads at a time (runtime/full/halo_lists.h). In
 * training on the full graph all receives have memory before the first row arrives: for all layers of a crew, forward
 * and backward. Several pipeline slots add the history. --recompute in one slot receives rows twice. Rows between crews
 * and first-layer rows are added. */
static double halo_bytes(const struct basis *b, const struct sl_plan *plan, bool training)
{
    const struct sl_settings *s = b->settings;
    double widest = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        if (sl_layer_aggregates(layer)) {
            widest = fmax(widest, ceil((double)layer->evaluation.travels / sl_full_slices(layer)));
        }
    }
    double row = widest * b->element;
    if (training) {
        double share = (double)(plan->end_pe - plan->first_pe) / plan->n_parts;
        double times = s->recompute || s->pes > s->ways ? 3 : 2;
        row = if_so(sl_plan_shares_ways(plan), times * travelling_bytes(b) * crew_share(s, plan)) +
              if_so(plan->n_crews > 1, 4 * s->hidden * sizeof(sl_real) * share);
    }
    return CLASS_SHARE * b->dataset->graph.n_vertices * row;
}

struct sl_memory_need sl_memory_need(const struct sl_settings *s, const struct sl_dataset *dataset,
                                     const struct sl_memory_run *run)
{
    const struct sl_plan *plan = run->plan;
    struct sl_model model;
    struct basis b = find_basis(s, dataset, run, &model);
    double mapped = data_bytes(&b, true, b.n, b.n_edges);
    if (plan != NULL) {
        take_rank(plan, run->partition, &b);
    }
    /* A worker has a chunk in work and the next one. */
    struct pass of_evaluation = pass_of_evaluation(&b, SL_EVALUATE_SHIFT, 2.0 * run->n_workers);
    const struct sl_memory_terms t = find_terms(&b, &of_evaluation);
    double training = (double)t.rows;
    double evaluation = (double)(t.history + t.evaluation);
    double loaded = (double)t.loaded;
    double process = PROCESS_BYTES + run->n_workers * WORKER_BYTES;
    if (plan != NULL) {
        training += b.pipe ? halo_bytes(&b, plan, true) : 0;
        evaluation += halo_bytes(&b, plan, false);
        loaded = dataset->low_memory && dataset->mapping != NULL && !dataset->own_graph ? fmin(loaded, READING_BYTES)
                                                                                        : loaded;
        process += MESSAGE_BYTES + dataset->graph.n_vertices * (VERTEX_BYTES + if_so(b.factors, 6 * sizeof(sl_real)));
    } else if (s->eval_every > 0 && s->eval_every < s->epochs && t.rows < SL_POOL_KEPT_BYTES) {
        evaluation += of_evaluation.gathered; /* no free block of training serves these rows, and all stay */
    }
    double work = (double)t.samples + fmax(training, evaluation);
    double kept = (double)(t.data + t.links + t.model + t.partials + t.buffers + t.exchange);
    return (struct sl_memory_need){
        .memory = (uint64_t)(process + kept + fmax(loaded, work)), .untouched = (uint64_t)mapped - t.data, .terms = t};
}

/* ---- one GPU ---- */

#define GPU_CHUNKS 4 /* of an evaluation: one computes, one is in StarPU's pipeline, two are transferred */

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                      const struct sl_reach *reach, uint32_t n_gpus)
{
    const struct sl_memory_run run = {.reach = *reach, .team = 1, .n_workers = settings->pes, .converts = true};
    const uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* per GPU */
    const double parts = fmin(1, PART_SHARE * n_pes / settings->group_size);
    const double copies = n_gpus > 1 ? 2 : 1; /* of exchanged rows: packed at the sender, and received */
    struct sl_settings cached = *settings;
    /* With auto, this estimate decides on the cache. Assume a cache: then a step gathers all its input rows. */
    cached.feature_cache = settings->feature_cache != 0;
    struct sl_model model;
    struct basis b = find_basis(&cached, dataset, &run, &model);
    b.n_own = n_pes;
    b.n_pes = fmin(settings->pes, PART_SHARE * n_pes);
    b.n *= parts;
    b.n_edges *= parts;
    struct pass evaluation = pass_of_evaluation(&b, SL_EVALUATE_GPU_SHIFT, GPU_CHUNKS);
    if (sl_layer_aggregates(&model.layer[0]) && model.layer[0].evaluation.travelling == SL_ROWS_INPUT) {
        evaluation.gathered = level_bytes(&evaluation, 0, b.row, 1); /* features of all parts */
    }
    const struct sl_memory_terms t = find_terms(&b, &evaluation);
    /* Dense features of the parts are not on the GPU, but an evaluation converts narrow features from there. */
    double dense = if_so(!b.sparse, feature_bytes(&b, false, b.n, sl_dtype_size(b.dtype)));
    double data = (double)(t.data + t.links) - dense;
    double training = data + (double)(t.model + t.partials + t.rows) + copies * (double)t.exchange;
    return (struct sl_gpu_need){
        .training = (uint64_t)(CLASS_SHARE * training) + SL_GPU_PIECES_BYTES,
        .evaluation =
            (uint64_t)(CLASS_SHARE * (data + if_so(!b.in_place, dense) + (double)t.evaluation)) + SL_GPU_PIECES_BYTES};
}
