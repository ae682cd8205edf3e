/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes, and walks over rows. tests/test_memory_peak.c compares with measured runs. */
#include "runtime/train/memory_need.h"

#include <math.h>
#include <string.h>

#include "codelets/links.h"
#include "codelets/sources.h"
#include "partition/partition.h"
#include "runtime/full/full.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/model/rows.h"
#include "runtime/model/walk.h"
#include "runtime/objective/collect.h"
#include "runtime/pipe/epoch.h"
#include "runtime/sync/replicas.h"
#include "runtime/train/schedules.h"
#include "support/minmax.h"
#include "support/real.h"
#include "tasks/ranks.h"

#define TASK_BYTES 5000       /* StarPU's records of a task, its handles and its arguments */
#define KNOWN_TRIPLE_BYTES 64 /* 16 by either end, 16 to sort, and as many that the allocator keeps */
#define CLASS_SHARE 1.125     /* sizes are rounded up by at most an eighth */
#define UNEVEN 1.05           /* a PE's rows relative to the average of its group: the balance of parts */
#define CHUNKS_AT_WORK 2      /* of a worker: the current one and the next */
/* Margins over the rows of a walk: tasks of several layers are in progress at a time. */
#define STEP_SPARE 0.13
#define KEPT_SPARE 0.3 /* a handle that needs more memory takes a new block */
#define PIPE_SPARE 0.06
#define EVALUATION_SPARE 0.15
/* Rows gathered for the third step in flight, and for later ones, lie in blocks meant for larger rows. */
#define MIXED_SHARE 0.6
/* Fraction of a step's input rows still alive while the next step in the same slot gathers. Counted for one PE per
 * worker, because a worker gathers for one PE at a time. */
#define LATE 0.5

/* `number` if the condition is true, else 0. */
static double if_so(bool condition, double number)
{
    return condition ? number : 0;
}

/* Bytes of an edge in a graph. */
static double edge_bytes(bool has_weights)
{
    return sizeof(sl_vertex) + if_so(has_weights, sizeof(float));
}

/* The inputs of all terms. */
struct basis {
    const struct sl_settings *settings;
    const struct sl_memory_run *run;
    const struct sl_model *model; /* borrowed from the caller of find_basis: too large to copy */
    bool sparse, pipe;
    enum sl_dtype row_dtype; /* of --precision */
    enum sl_dtype dtype;     /* of the features in part order */
    bool in_place;           /* the first layer can read these features in place (sl_feature_source_in_place) */
    double element;          /* bytes of a number of row_dtype */
    double n, n_edges;       /* vertices and edges of the graph */
    double edge;             /* edge_bytes of the parts */
    double block_edge;       /* edge_bytes of sampled blocks and of tables for full-graph training */
    double n_per_epoch;      /* steps */
};

/* If a layer adds features to its output (--residual), sparse features become dense. */
static struct basis find_basis(const struct sl_settings *s, const struct sl_dataset *dataset,
                               const struct sl_memory_run *run, struct sl_model *model)
{
    const bool pipe = sl_schedule_of(s)->whole_graph;
    const bool has_weights = sl_graph_weights(&dataset->graph) != NULL;
    const bool read_by_sums = sl_settings_weighs_sums(s) || sl_model_reads_relations(s);
    const enum sl_dtype row_dtype = sl_settings_row_dtype(s);
    struct basis b = {.settings = s,
                      .model = model,
                      .run = run,
                      .sparse = dataset->features.dense.data == NULL,
                      .pipe = pipe,
                      .row_dtype = row_dtype,
                      .dtype = sl_feature_source_dtype(&dataset->features, row_dtype, !pipe),
                      .element = (double)sl_dtype_size(row_dtype),
                      .n = dataset->graph.n_vertices,
                      .n_edges = (double)dataset->graph.n_edges,
                      .edge = edge_bytes(has_weights && (read_by_sums || s->edge_weights != SL_EDGE_WEIGHTS_NONE)),
                      .block_edge = edge_bytes(read_by_sums || sl_settings_by_importance(s)),
                      .n_per_epoch = ceil(sl_dataset_n_train(dataset) / ((double)s->batch_size * s->pes))};
    b.in_place =
        b.dtype == row_dtype || (!run->converts && sl_model_reads_narrow(s, dataset->features.n_columns, b.dtype));
    uint32_t n_outputs = sl_settings_trains_links(s) ? s->hidden : sl_targets_outputs(&dataset->targets);
    struct sl_model_data data = {.n_features = dataset->features.n_columns,
                                 .n_outputs = n_outputs,
                                 .n_relations = dataset->graph.n_relations,
                                 .sparse = b.sparse,
                                 .n_link_relations = dataset->links.n_relations};
    sl_model_shape(s, &data, model);
    if (b.sparse && b.model->layer[0].residual) {
        b.sparse = data.sparse = false;
        sl_model_shape(s, &data, model);
    }
    return b;
}

/* ---- walks ---- */

static uint32_t whole(double n)
{
    return (uint32_t)fmin(ceil(n), UINT32_MAX);
}

/* The same split at every level. */
static void split_levels(struct sl_split split, struct sl_walk *walk)
{
    for (uint32_t level = 0; level <= SL_MAX_LAYERS; level++) {
        walk->split[level] = split;
    }
}

/* Whether a step reads features in place (sl_step_in_place). */
static bool steps_in_place(const struct basis *b)
{
    uint32_t cache = b->settings->feature_cache;
    bool cached = cache != 0 && cache != SL_FEATURE_CACHE_AUTO;
    return b->model->layer[0].training.in_place && b->in_place && !cached;
}

static double feature_row_bytes(const struct basis *b)
{
    return if_so(!b->sparse, b->model->layer[0].n_in * b->element);
}

static struct sl_walk walk_step(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_layer *first = &b->model->layer[0];
    double late = LATE * fmin(1, (double)b->run->n_workers / s->pes);
    struct sl_walk walk = {.model = b->model,
                           .row_dtype = b->row_dtype,
                           .training = true,
                           .n_pes = s->pes,
                           .in_hand = b->run->n_workers,
                           .kept = SL_KEPT_BYTES,
                           .ring = s->depth,
                           .feature_bytes = feature_row_bytes(b),
                           .gathered = steps_in_place(b) ? first->level : first->from,
                           .ahead = fmin(s->depth + late, b->n_per_epoch),
                           .n_slots = 1,
                           .n_back = 1};
    for (uint32_t level = 0; level <= first->from; level++) {
        double rows = b->run->reach.vertices[level] / s->group_size;
        double most = (s->group_size > 1 ? UNEVEN : 1) * rows;
        uint32_t n_chunks = level == 0 && sl_settings_trains_links(s) ? 1 : s->chunks;
        struct sl_split fewer = sl_split_rows(whole(rows / UNEVEN), n_chunks, SL_MIN_CHUNK_SHIFT);
        walk.split[level] = sl_split_rows(whole(most), n_chunks, SL_MIN_CHUNK_SHIFT);
        if (fewer.shift != walk.split[level].shift && level > 0) {
            walk.fewer[level] = fewer;
        }
    }
    return walk;
}

/* A slot starts its backward pass while the slots before it, and a chunk of each worker, have unfinished tasks
 * (sl_pipe_tasks). */
static struct sl_walk walk_pipe(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const uint32_t n_layers = b->model->n_layers;
    double n_slots = (double)s->pes / s->ways;
    double n_segments = s->stages * ceil(ceil((double)n_layers / s->stages) / ceil(sqrt(n_layers)));
    bool packs = s->recompute && n_slots > 1;
    bool bf16 = b->row_dtype == SL_DTYPE_BF16;
    struct sl_walk walk = {.model = b->model,
                           .row_dtype = b->row_dtype,
                           .training = true,
                           .n_pes = s->pes,
                           .in_hand = b->run->n_workers,
                           .kept = if_so(sl_pipe_keeps(s, n_layers, b->n), SL_KEPT_BYTES),
                           .ring = 1,
                           .n_slots = n_slots,
                           .n_back = 2,
                           .segment = s->recompute ? (uint32_t)ceil(n_layers / n_segments) : 0,
                           .in_place = n_slots > 1 && !packs,
                           .n_packed = if_so(packs, b->run->boundary * (s->epochs >= s->history_every ? 2 : 1)),
                           .rounds = bf16,
                           .near = packs || bf16};
    split_levels(sl_split_rows(whole(b->n / s->pes), 1, 0), &walk);
    return walk;
}

/* An evaluation by CPUs or GPUs. in_hand: chunks in progress. Features that no layer reads in place become rows of all
 * parts at once. */
static struct sl_walk walk_evaluation(const struct basis *b, uint32_t shift, double in_hand)
{
    const uint32_t n_parts = b->settings->group_size;
    struct sl_walk walk = {
        .model = b->model, .row_dtype = b->row_dtype, .n_pes = n_parts, .in_hand = in_hand, .n_slots = 1, .n_back = 1};
    walk.feature_bytes = if_so(!b->in_place, feature_row_bytes(b));
    split_levels(sl_split_rows(whole(b->n / n_parts), SL_MAX_FULL_CHUNKS / n_parts, shift), &walk);
    return walk;
}

/* ---- terms ---- */

/* Bytes of all parameters or, if `partial`, of one partial gradient of each. A partial gradient is a block of the pool.
 * The gradient of a derived parameter replaces those that are computed from it. */
static double parameter_bytes(const struct sl_model *model, bool partial)
{
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            double one = (double)p->n_rows * p->n_columns * sizeof(sl_real);
            bool added = k < SL_MAX_OWN_PARAMETERS && model->layer[i].kind->parameter[k].by_derived;
            if (one > 0 && !(partial && added)) {
                bytes += fmax(one, if_so(partial, SL_POOL_SMALLEST_BYTES));
            }
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
 * and sums (doubles). For batch norm also statistics and sums (doubles) per group and layer. */
static double partial_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double groups = (double)s->pes / s->group_size;
    double sums = b->pipe ? SL_POOL_SMALLEST_BYTES : 3 * SL_POOL_SMALLEST_BYTES + 6.0 * s->hidden * sizeof(double);
    enum sl_partition_method method = (enum sl_partition_method)s->partition;
    double pieces = if_so(b->pipe, sl_partition_pieces(method, (uint32_t)b->n, s->group_size));
    double n = fmax((double)s->pes * s->chunks, pieces);
    double chunks = n * (parameter_bytes(b->model, true) + sums);
    double kept = 2 * SL_POOL_SMALLEST_BYTES + 2.0 * s->hidden * (sizeof(sl_real) + sizeof(double));
    return CLASS_SHARE * (chunks + if_so(s->norm == SL_NORM_BATCH, kept * groups * b->model->n_layers));
}

/* Buffers for exchanging rows and row gradients. Each ring slot keeps one matrix per hop and pair of PEs, with a
 * quarter to spare. A matrix above SL_KEPT_BYTES is released with its layer instead. With more PEs than workers, some
 * PEs reach the next layer early, so two layers overlap. Teams (sl_steps_team) keep all matrices, also from a team to
 * itself. */
static double exchange_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    const struct sl_reach *reach = &b->run->reach;
    double of_others = 1 - 1.0 / s->group_size;
    double kinds = s->transport == SL_TRANSPORT_NCCL ? 4 : 2; /* of handles per matrix (struct sl_slot_pe) */
    double teams = ceil((double)s->group_size / b->run->team);
    double handles = b->run->team > 1 ? teams * teams : s->group_size * (s->group_size - 1.0);
    double kept = 0;
    double held = 0; /* until the backward pass, which reads the rows again */
    double passing = 0;
    double before = 0; /* bytes of the previous layer, if its matrices are released, too */
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        bool back = i > 0 || layer->training.project_first; /* the first layer needs no gradients of features */
        if (!sl_layer_aggregates(layer)) {
            continue;
        }
        /* Crossing edges with the same source request one row. */
        double there = fmax(1, reach->vertices[layer->from] * of_others); /* source rows on other PEs, per PE */
        double crossing = reach->edges[layer->level] * of_others;
        double asked = s->group_size * there * -expm1(-crossing / (s->group_size * there));
        enum sl_dtype dtype = i == 0 && steps_in_place(b) ? b->dtype : b->row_dtype;
        double bytes = asked * layer->training.travels * (double)sl_dtype_size(dtype);
        bool goes = b->run->team == 1 && bytes > handles * SL_KEPT_BYTES;
        double most = fmax(1.25 * bytes, handles * SL_POOL_SMALLEST_BYTES);
        passing = fmax(passing, if_so(goes, bytes) + if_so(goes && s->pes > b->run->n_workers, before));
        kept += if_so(!goes, (back ? 2 : 1) * most) + kinds * handles * SL_HANDLE_BYTES;
        held += if_so(goes && layer->kind->sum->rereads, bytes);
        before = if_so(goes, bytes);
    }
    return (kept * s->depth + fmax(held, passing)) * s->pes / s->group_size;
}

/* Of --labor-iterations and weighted LABOR, in all ring slots: up to all vertices are candidates of a PE, with an
 * id, a bound and a cost each; and a bound, a cost and room for a bound of each vertex in each group. */
static double importance_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double candidates = 12 * fmin(b->n, b->n_edges / s->group_size);
    double own = 12 * b->n / s->group_size;
    return if_so(sl_settings_by_importance(s), (double)s->depth * s->pes * (candidates + own + 0.2 * b->n));
}

/* The table of the edges that a step on links leaves out. */
static double excluded_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    if (!sl_settings_trains_links(s) || s->link_exclude == SL_LINK_EXCLUDE_NONE) {
        return 0;
    }
    double n_links = b->run->reach.vertices[0] / sl_settings_link_ends(s) * s->pes / s->group_size;
    return (double)sl_excluded_entries((uint64_t)(2 * n_links)) * sizeof(uint64_t);
}

/* Blocks of all ring slots: ids, edges and transposed edges, and positions in the frontier (4 per vertex). */
static double sample_bytes(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double ids = b->run->reach.vertices[0] * 16;
    for (uint32_t hop = 0; hop < sl_settings_hops(s); hop++) {
        ids += b->run->reach.vertices[hop + 1] * 16 + b->run->reach.edges[hop] * 2 * b->block_edge;
    }
    return s->depth * ((double)s->pes / s->group_size * (ids + 4 * b->n) + s->pes * b->n * 0.2 + excluded_bytes(b)) +
           importance_bytes(b);
}

/* Tables of full-graph training, in place of a minibatch's blocks: out-neighbours, tables of chunks, waiting tasks.
 * With packed rows, vertices without a neighbour in other chunks have lists of their own. */
static double pipe_tables(const struct basis *b)
{
    const struct sl_settings *s = b->settings;
    double tasks = sl_pipe_tasks(s->layers, s->ways, b->run->n_workers);
    double inner = if_so(s->recompute && s->pes > s->ways, 1 - b->run->boundary);
    return (8 + b->block_edge * (1 + inner)) * b->n_edges + (16 + if_so(inner > 0, 8)) * b->n +
           (double)s->pes * s->pes + TASK_BYTES * tasks;
}

#define FACTOR_BYTES 4 /* a rounded or widened factor; a product before rounding */

/* Buffers of bf16 products, for the largest chunk of training or evaluation. GPU workers use GPU memory reserved for
 * launchers (runtime/machine/gpus.h). In an evaluation by CPUs, the floats of a chunk of narrow features that a product
 * reads in place. */
static double factor_bytes(const struct basis *b, const struct sl_walk *training)
{
    const struct sl_settings *s = b->settings;
    const uint32_t n_workers = b->run->n_workers;
    double n_rounding = s->gpus <= n_workers ? n_workers - s->gpus : n_workers;
    double most = 0;
    if (b->in_place && b->dtype != b->row_dtype) {
        double rows = fmin(exp2(SL_EVALUATE_SHIFT), ceil(b->n / s->group_size));
        return n_workers * rows * feature_row_bytes(b);
    }
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        const struct sl_split *split = &training->split[layer->training.project_first ? layer->from : layer->level];
        double rows = fmax(exp2(SL_EVALUATE_SHIFT), split->n_chunks > 1 ? exp2(split->shift) : split->n_rows);
        most = fmax(most, rows * (if_so(i > 0 || !b->sparse, layer->n_in) + layer->n_out));
    }
    return if_so(s->precision == SL_PRECISION_BF16, n_rounding * most * FACTOR_BYTES);
}

/* Bytes of a number of all rows that travel in training, of all layers. */
static double travelling_bytes(const struct basis *b)
{
    double columns = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        columns += if_so(sl_layer_aggregates(&b->model->layer[i]), b->model->layer[i].training.travels);
    }
    return columns * b->element;
}

#define EVALUATION_TASKS 4 /* of a chunk and layer: two products, or a product and a start value; sum; activation */
#define BUFFER_BYTES 200   /* of a task's records, per buffer: a sum reads chunks of all parts */

/* Rows of training and of an evaluation. An evaluation uses the free blocks of training. */
static void term_rows(const struct basis *b, const struct sl_walk *training, struct sl_memory_terms *terms)
{
    const struct sl_settings *s = b->settings;
    struct sl_walk evaluation = walk_evaluation(b, SL_EVALUATE_SHIFT, CHUNKS_AT_WORK * (double)b->run->n_workers);
    double n_chunks = evaluation.n_pes * evaluation.split[0].n_chunks;
    struct sl_blocks kept = {{0}};
    struct sl_blocks pool = {{0}};
    struct sl_blocks alone = {{0}};
    double in_flight = fmin(s->depth, b->n_per_epoch + 1); /* one step of the next epoch is sampled ahead */
    sl_walk_kept(training, &kept);
    sl_walk(training, &pool);
    double passing = sl_blocks_bytes(&pool);
    double spare = (b->pipe ? PIPE_SPARE : STEP_SPARE + MIXED_SHARE * fmax(0, in_flight - 2)) * passing;
    terms->rows = (uint64_t)((b->pipe ? 1 : 1 + KEPT_SPARE) * sl_blocks_bytes(&kept) + passing + spare);
    evaluation.near = training->near;
    sl_walk(&evaluation, &alone);
    terms->evaluation = (uint64_t)((1 + EVALUATION_SPARE) * sl_blocks_bytes(&alone));
    sl_walk(&evaluation, &pool);
    terms->beside = (uint64_t)fmax(0, sl_blocks_bytes(&pool) - passing);
    bool history = b->pipe && s->pes > s->ways && s->epochs >= s->history_every;
    terms->history = (uint64_t)if_so(history, (s->recompute ? b->run->boundary : 1) * b->n * travelling_bytes(b));
    terms->records =
        (uint64_t)(n_chunks * b->model->n_layers * (EVALUATION_TASKS * TASK_BYTES + n_chunks * BUFFER_BYTES));
}

/* ---- links ---- */

/* Bytes of a pair, or of a triple. */
static double link_bytes(const struct sl_link_split *links)
{
    return 2 * sizeof(sl_vertex) + if_so(links->n_relations > 0, sizeof(uint32_t));
}

/* Of all lists of a dataset. */
static double listed_bytes(const struct sl_link_split *links)
{
    double n = 0;
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        n += links->list[list].n;
    }
    return n * link_bytes(links);
}

/* The pairs of an evaluation. As many negatives as links are drawn if none is listed. */
static double n_scored(const struct sl_link_split *links)
{
    double n = 0;
    for (int list = SL_LINKS_VALID; list <= SL_LINKS_TEST; list++) {
        uint32_t n_negatives = links->list[list - SL_LINKS_VALID + SL_LINKS_VALID_NEGATIVE].n;
        n += links->list[list].n + (n_negatives > 0 ? n_negatives : links->list[list].n);
    }
    return n;
}

/* Of the training links: a copy in new ids, their numbers, two orders and the keys of an order. */
static double trained_bytes(const struct sl_link_split *links)
{
    const double each = link_bytes(links) + 3 * sizeof(uint32_t) + sizeof(struct sl_permute_key);
    return links->list[SL_LINKS_TRAIN].n * each;
}

/* Of the links whose scores are wanted, with negatives: the objective's copy. */
static double scored_bytes(const struct sl_link_split *links)
{
    return n_scored(links) * link_bytes(links);
}

/* Of an evaluation of links: a number of each vertex, the outputs of the distinct ends, and the scores.
 * Triples need the outputs of all vertices, in two orders, and all known triples. */
static double end_bytes(const struct basis *b, const struct sl_link_split *links)
{
    const bool triples = links->n_relations > 0;
    double n_rows = triples ? 2 * b->n : fmin(b->n, 2 * n_scored(links));
    double n_known = links->list[SL_LINKS_TRAIN].n + n_scored(links) / 2;
    double bytes = b->n * sizeof(uint32_t) + n_rows * b->settings->hidden * sizeof(sl_real) +
                   n_scored(links) * sizeof(struct sl_pair) + if_so(triples, n_known * KNOWN_TRIPLE_BYTES);
    return if_so(sl_settings_trains_links(b->settings), bytes);
}

#define HOT_ROW_BYTES 16 /* of a PE's feature cache per row, besides the row */

/* The feature caches of all PEs. auto: a cache is in GPU memory only. */
static double feature_caches(const struct basis *b)
{
    uint32_t cache = b->settings->feature_cache;
    double row = (double)sl_dtype_bytes(b->dtype, b->model->layer[0].n_in) + HOT_ROW_BYTES;
    return if_so(cache != SL_FEATURE_CACHE_AUTO && !b->sparse, fmin(cache, b->n) * b->settings->pes * row);
}

/* The features. element: bytes of a dense entry. */
static double feature_bytes(const struct basis *b, const struct sl_features *f, bool sparse, size_t element)
{
    return sparse ? 8 * ((double)f->offsets[f->n_rows] + b->n) : b->n * f->n_columns * (double)element;
}

struct sl_memory_terms sl_memory_terms(const struct sl_settings *s, const struct sl_dataset *dataset,
                                       const struct sl_memory_run *run)
{
    const struct sl_features *f = &dataset->features;
    struct sl_model model;
    const struct basis b = find_basis(s, dataset, run, &model);
    const struct sl_walk training = b.pipe ? walk_pipe(&b) : walk_step(&b);
    /* Targets beyond the first column: the dataset's or the shards', and those of training vertices. */
    double further = 2 * fmax(0, (double)dataset->targets.width - 1) * SL_TARGET_BYTES;
    double vertices = (38 + further) * b.n;
    double loaded_edge = edge_bytes(sl_graph_weights(&dataset->graph) != NULL);
    double factors = if_so(b.pipe || sl_model_reads_factors(s), 2 * b.n * sizeof(sl_real));
    double loaded = loaded_edge * b.n_edges + vertices + listed_bytes(&dataset->links) +
                    feature_bytes(&b, f, f->dense.data == NULL, sl_dtype_size(sl_features_dtype(f)));
    double data = b.edge * b.n_edges + vertices + feature_bytes(&b, f, b.sparse, sl_dtype_size(b.dtype));
    struct sl_memory_terms terms = {.loaded = (uint64_t)loaded,
                                    .data = (uint64_t)(data + feature_caches(&b) + factors),
                                    .model = (uint64_t)model_bytes(&b),
                                    .partials = (uint64_t)partial_bytes(&b),
                                    .exchange = b.pipe ? 0 : (uint64_t)exchange_bytes(&b),
                                    .samples = (uint64_t)(b.pipe ? pipe_tables(&b) : sample_bytes(&b)),
                                    .factors = (uint64_t)factor_bytes(&b, &training),
                                    .links = (uint64_t)(trained_bytes(&dataset->links) + scored_bytes(&dataset->links)),
                                    .ends = (uint64_t)end_bytes(&b, &dataset->links)};
    term_rows(&b, &training, &terms);
    return terms;
}

/* The program and its libraries. CUDA's libraries are the largest, with or without a GPU. */
#if defined(SL_CUDA) && STARPU_MAXCUDADEVS > 0
#define PROCESS_BYTES ((uint64_t)220 << 20)
#else
#define PROCESS_BYTES ((uint64_t)21 << 20)
#endif
#define WORKER_BYTES ((uint64_t)3 << 19) /* a worker's stack and tasks, and the libraries' packing buffers */
#define BF16_BYTES ((uint64_t)4 << 20)   /* the library of bf16 products, and its compiled kernels */

static uint64_t process_bytes(const struct sl_settings *settings, uint32_t n_workers)
{
    uint64_t products = settings->precision == SL_PRECISION_BF16 ? BF16_BYTES : 0;
    return PROCESS_BYTES + products + n_workers * WORKER_BYTES;
}

uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                        const struct sl_memory_run *run)
{
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, run);
    uint64_t training = t.rows + t.samples;
    bool trimmed = t.rows - sl_min_u64(t.rows, t.history) > SL_POOL_KEPT_BYTES; /* free bytes before an evaluation */
    uint64_t work = trimmed ? sl_max_u64(training, t.history + t.evaluation + t.records + t.ends + t.samples)
                            : training + t.beside + t.records + t.ends;
    return t.data + t.links + t.model + t.partials + t.exchange + t.factors + sl_max_u64(t.loaded, work) +
           process_bytes(settings, run->n_workers);
}

/* ---- one rank ---- */

#define PART_SHARE 1.25                    /* size of the largest part relative to the average */
#define READING_BYTES ((uint64_t)64 << 20) /* of a cache file in memory at a time */
#define MESSAGE_BYTES ((uint64_t)76 << 20) /* MPI's buffers, and rows waiting to be sent */
#define VERTEX_BYTES 24                    /* ids in both orders, training vertices, lists of the halo */

/* A rank's fractions of the whole run. */
struct rank_shares {
    double pes;             /* PEs */
    double steps;           /* rows and edges of the steps of its PEs */
    double vertices, edges; /* of own parts */
    double scored;          /* evaluated vertices */
};

/* Before parts are made, a part is a quarter larger than the average. */
static struct rank_shares find_shares(const struct basis *b, const struct sl_plan *plan,
                                      const struct sl_partition *partition)
{
    struct rank_shares s = {.pes = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_pes};
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        double vertices = PART_SHARE / plan->n_parts;
        double edges = vertices;
        double margin = 1;
        if (partition != NULL) {
            const uint64_t *offsets = partition->graph.offsets;
            uint32_t first = partition->first[q];
            uint32_t end = partition->first[q + 1];
            vertices = (end - first) / fmax(1, b->n);
            edges = (double)(offsets[end] - offsets[first]) / fmax(1, b->n_edges);
            margin = PART_SHARE;
        }
        bool holds = sl_plan_holds(plan, q);
        s.scored += if_so(sl_plan_scorer(plan, q) == plan->rank, vertices);
        s.vertices += if_so(holds, vertices);
        s.edges += if_so(holds, edges);
        for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
            s.steps += if_so(sl_plan_part(plan, p) == q, margin / plan->n_groups * fmax(vertices, edges));
        }
    }
    return s;
}

/* The fraction of the layers in the largest crew. */
static double crew_share(const struct sl_settings *s, const struct sl_plan *plan)
{
    double most = 0;
    double so_far = 0;
    for (uint32_t stage = 0, first = 0; stage < s->stages; stage++) {
        uint32_t end = stage < s->n_stages_cut ? s->stages_cut[stage] : s->layers;
        uint32_t crew = sl_plan_crew_of_stage(plan, stage, s->stages);
        bool begins = stage == 0 || crew != sl_plan_crew_of_stage(plan, stage - 1, s->stages);
        double share = s->n_stages_cut > 0 ? (double)(end - first) / s->layers : 1.0 / s->stages;
        so_far = if_so(!begins, so_far) + share;
        most = fmax(most, so_far);
        first = end;
    }
    return most;
}

static double portion(double share, double whole)
{
    return fmin(1, share) * whole;
}

/* Rows of other ranks read by a layer of an evaluation at a time. */
static double halo_bytes(const struct basis *b)
{
    double widest = 0;
    for (uint32_t i = 0; i < b->model->n_layers; i++) {
        const struct sl_layer *layer = &b->model->layer[i];
        if (sl_layer_aggregates(layer)) {
            widest = fmax(widest, ceil((double)layer->evaluation.travels / sl_full_slices(layer)));
        }
    }
    return CLASS_SHARE * b->n * widest * b->element;
}

/* The halo in full-graph training. All receives are submitted, and have memory, before the first row arrives: for all
 * layers of a crew, forward and backward. Several pipeline slots add the history; --recompute in one slot receives
 * rows twice. To this come rows between crews, and first-layer rows. */
static double pipe_halo_bytes(const struct basis *b, const struct sl_plan *plan)
{
    const struct sl_settings *s = b->settings;
    double share = (double)(plan->end_pe - plan->first_pe) / plan->n_parts;
    double times = s->recompute || s->pes > s->ways ? 3 : 2;
    double ways = if_so(sl_plan_shares_ways(plan), times * travelling_bytes(b) * crew_share(s, plan));
    double crossing = (double)(sl_dtype_size(b->model->layer[0].training.row[SL_ROWS_H].dtype) + sizeof(sl_real));
    double stages = if_so(plan->n_crews > 1, 2 * s->hidden * crossing * share);
    return CLASS_SHARE * b->n * (ways + stages);
}

struct sl_rank_need sl_memory_need_rank(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                        const struct sl_plan *plan, const struct sl_partition *partition,
                                        uint32_t n_workers)
{
    struct sl_memory_run run = {
        .reach = sl_reach_bound(settings, dataset), .team = 1, .n_workers = n_workers, .boundary = 1};
    run.converts = plan->n_ranks > 1;
    struct sl_model model;
    const struct basis b = find_basis(settings, dataset, &run, &model);
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, &run);
    struct rank_shares s = find_shares(&b, plan, partition);
    double steps = s.steps * (b.pipe ? crew_share(settings, plan) * plan->n_crews : 1);
    double edges = b.edge * b.n_edges;
    double caches = feature_caches(&b);
    double all = (double)t.data - caches;
    double weights = (b.pipe ? 6 : if_so(sl_model_reads_factors(settings), 4)) * b.n * sizeof(sl_real);
    double tables = portion(s.edges, edges) + portion(s.vertices, all - edges);
    double data = tables + portion(s.pes, caches) + VERTEX_BYTES * b.n + weights;
    double training = portion(steps, (double)(t.rows + t.samples)) + (b.pipe ? pipe_halo_bytes(&b, plan) : 0);
    double evaluation = portion(s.scored, (double)t.evaluation) + halo_bytes(&b) + (double)t.ends;
    double kept = portion(s.pes, (double)t.partials) + portion(steps, (double)t.exchange);
    bool piecewise = dataset->low_memory && dataset->mapping != NULL;
    double loaded = piecewise ? fmin((double)t.loaded, READING_BYTES) : (double)t.loaded;
    double own = data + kept + fmax(loaded, fmax(training, evaluation));
    return (struct sl_rank_need){.memory = (uint64_t)own + t.links + t.model + t.factors + MESSAGE_BYTES +
                                           process_bytes(settings, n_workers),
                                 .untouched = (uint64_t)(all - fmin(tables, all))};
}

/* ---- one GPU ---- */

#define GPU_CHUNKS 4       /* of an evaluation: one computes, one is in StarPU's pipeline, two are transferred */
#define GPU_MODEL_COPIES 6 /* weights, two moments, gradient sum, room for copies */

/* A dataset with the members for the estimates above. */
static struct sl_dataset outline_of(const struct sl_shards *shards)
{
    static float some;
    return (struct sl_dataset){
        .graph = {.n_vertices = shards->n_vertices,
                  .n_edges = shards->partition->graph.n_edges,
                  .n_relations = shards->partition->graph.n_relations},
        .train = {.n = shards->n_train},
        .links = {.list = {[SL_LINKS_TRAIN] = {.n = shards->links.n}}, .n_relations = shards->n_link_relations},
        .features = {.n_columns = shards->n_features,
                     .dense = {.dtype = shards->features.dtype, .data = shards->is_sparse ? NULL : &some}},
        .targets = shards->targets};
}

static double part_share(const struct sl_shards *shards, uint32_t n_parts)
{
    return fmin(1, PART_SHARE * n_parts / shards->n_parts);
}

/* Edges, targets and split of n_parts of G parts, and the ids of all vertices in both orders. */
static double part_bytes(const struct sl_shards *shards, uint32_t n_parts)
{
    double n = shards->n_vertices;
    double sparse = shards->is_sparse ? 8 * ((double)shards->sparse_first[shards->n_parts] + n) : 0;
    double targets = SL_TARGET_BYTES * (double)shards->targets.width * n;
    bool has_weights = sl_graph_weights(&shards->partition->graph) != NULL;
    double parts = 9 * n + targets + edge_bytes(has_weights) * (double)shards->partition->graph.n_edges + sparse;
    return part_share(shards, n_parts) * parts + 12 * n;
}

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus)
{
    struct sl_dataset outline = outline_of(shards);
    struct sl_settings cached = *settings;
    if (settings->feature_cache == SL_FEATURE_CACHE_AUTO) {
        /* This estimate decides on the cache. Assume a cache: then a step gathers all its input rows. */
        cached.feature_cache = 1;
    }
    struct sl_memory_run run = {
        .reach = sl_reach_bound(settings, &outline), .team = 1, .n_workers = settings->pes, .converts = true};
    struct sl_model model;
    const struct basis b = find_basis(&cached, &outline, &run, &model);
    uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* per GPU */
    double share = (double)n_pes / settings->pes;
    uint32_t n_parts = sl_min_u32(n_pes, shards->n_parts);
    double parts = part_bytes(shards, n_parts);
    /* An evaluation converts narrow features from the tables of the parts. */
    double tables =
        if_so(!b.in_place, part_share(shards, n_parts) * (double)sl_feature_source_bytes(&shards->features));
    double weights = GPU_MODEL_COPIES * parameter_bytes(b.model, false) + share * partial_bytes(&b);
    double copies = n_gpus > 1 ? 2 : 1; /* of exchanged rows: packed at the sender, and received */
    const struct sl_layer *first = &b.model->layer[0];
    struct sl_walk step = walk_step(&b);
    struct sl_walk evaluation = walk_evaluation(&b, SL_EVALUATE_GPU_SHIFT, GPU_CHUNKS);
    struct sl_blocks rows = {{0}};
    struct sl_blocks evaluated = {{0}};
    struct sl_blocks kept = {{0}};
    sl_walk_kept(&step, &kept);
    sl_walk(&step, &rows);
    if (sl_layer_aggregates(first) && first->evaluation.travelling == SL_ROWS_INPUT) {
        evaluation.feature_bytes = step.feature_bytes; /* features of all parts */
    }
    sl_walk(&evaluation, &evaluated);
    double stepping = share * (sl_blocks_bytes(&kept) + sl_blocks_bytes(&rows) + copies * exchange_bytes(&b));
    double training = CLASS_SHARE * (parts + trained_bytes(&outline.links) + weights + PART_SHARE * stepping);
    return (struct sl_gpu_need){.training = (uint64_t)training + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)(CLASS_SHARE * (parts + trained_bytes(&outline.links) + tables +
                                                                        sl_blocks_bytes(&evaluated))) +
                                              SL_GPU_PIECES_BYTES};
}

uint64_t sl_memory_need_gpu_work(const struct sl_settings *settings, const struct sl_shards *shards,
                                 const struct sl_run *run)
{
    if (run->n_gpus == 0) {
        return 0;
    }
    struct sl_gpu_need need = sl_memory_need_gpu(settings, shards, run->n_gpus * sl_n_ranks());
    /* An evaluation on the GPU must not evict the caches. */
    return !run->evaluate_on_cpus && need.evaluation > need.training ? need.evaluation : need.training;
}
