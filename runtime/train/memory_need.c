/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. */
#include "runtime/train/memory_need.h"

#include <math.h>

#include "codelets/aggregate.h"
#include "codelets/rows.h"
#include "runtime/full/full.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/step.h"
#include "runtime/model/kinds.h"
#include "runtime/sync/replicas.h"
#include "support/real.h"

#define HANDLE_BYTES 4096 /* StarPU's record of one */
#define CLASS_SHARE 1.125 /* sizes are rounded up by an eighth at the most */

/* Vertices and edges of one group's step, by level and hop, at the most. */
struct bound {
    double vertices[SL_MAX_LAYERS + 1];
    double edges[SL_MAX_LAYERS];
};

static struct bound bound_step(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b;
    double n = dataset->graph.n_vertices;
    double n_edges = (double)dataset->graph.n_edges;
    b.vertices[0] = fmin((double)s->batch_size * s->group_size, dataset->train.n);
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        double fanout = s->fanout[s->layers - 1 - hop];
        b.edges[hop] = s->sampler == SL_SAMPLER_FULL ? n_edges : fmin(n_edges, b.vertices[hop] * fanout);
        b.vertices[hop + 1] = fmin(n, b.vertices[hop] + b.edges[hop]);
    }
    return b;
}

/* Its layers; features that a layer adds to its output (--residual) are dense then. */
static struct sl_model outline_model(const struct sl_settings *s, const struct sl_dataset *dataset, bool *sparse_out)
{
    struct sl_model model;
    *sparse_out = dataset->features.dense == NULL;
    sl_model_shape(s, dataset->features.n_columns, dataset->n_classes, *sparse_out, &model);
    if (*sparse_out && model.layer[0].residual) {
        *sparse_out = false;
        sl_model_shape(s, dataset->features.n_columns, dataset->n_classes, false, &model);
    }
    return model;
}

static bool aggregates(const struct sl_layer *layer)
{
    return layer->from != layer->level;
}

/* All parameters, each in a block of memory of at least so many bytes. */
static double parameter_bytes(const struct sl_model *model, double smallest)
{
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_N_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            double one = (double)p->n_rows * p->n_columns * sizeof(sl_real);
            bytes += one > 0 ? fmax(one, smallest) : 0;
        }
    }
    return bytes;
}

static double model_bytes(const struct sl_settings *s, const struct sl_model *model)
{
    double n_replicas = sl_plan_replicas(s);
    double copies = 4 + 2;                               /* state, best and file copies */
    copies += n_replicas > 1 ? n_replicas * (5 + 3) : 0; /* replicas: state and spare; a checkpoint's copies */
    return copies * parameter_bytes(model, 0);
}

/* Of gradients, losses, and batch norm's moments and sums (doubles), of every PE's chunks; and what it keeps of each group by layer:
 * statistics, and sums (doubles). */
static double partial_bytes(const struct sl_settings *s, const struct sl_model *model)
{
    double groups = (double)s->pes / s->group_size;
    double sums = 3 * SL_POOL_SMALLEST_BYTES + 6.0 * s->hidden * sizeof(double);
    double chunks = (double)s->pes * s->chunks * (parameter_bytes(model, SL_POOL_SMALLEST_BYTES) + sums);
    double kept = 2 * SL_POOL_SMALLEST_BYTES + 2.0 * s->hidden * (sizeof(sl_real) + sizeof(double));
    kept *= s->norm == SL_NORM_BATCH ? groups * model->n_layers : 0;
    return CLASS_SHARE * (chunks + kept);
}

/* What PEs keep to exchange rows and their gradients by: of a hop at most SL_KEPT_BYTES from each to each other, and no more than
 * a quarter over what they can ask for; of teams (sl_steps_team) all that they can, in one matrix from each to each, itself too. */
static double exchange_bytes(const struct sl_settings *s, const struct bound *b, const struct sl_model *model,
                             uint32_t team)
{
    double peers = s->group_size - 1;
    double kinds = s->transport == SL_TRANSPORT_NCCL ? 4 : 2; /* of handles: struct sl_slot_pe */
    double teams = ceil((double)s->group_size / team);
    double handles = team > 1 ? teams * teams : s->group_size * peers;
    double kept = team > 1 ? INFINITY : handles * SL_KEPT_BYTES;
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        double rows = aggregates(layer) ? fmin(b->edges[layer->level], peers * b->vertices[layer->from]) : 0;
        double most = fmin(1.25 * rows * layer->travels * (double)sl_settings_row_element(s), kept);
        most = fmax(most, handles * SL_POOL_SMALLEST_BYTES);
        bytes += aggregates(layer) ? 2 * most + kinds * handles * HANDLE_BYTES : 0;
    }
    return bytes * s->depth * s->pes / s->group_size;
}

/* Rows that n_rows of `pes` PEs have memory for: the last chunk of a PE as much as its others, a single one an eighth to spare. */
static double room_rows(double n_rows, uint32_t pes, uint32_t max_chunks, uint32_t min_shift)
{
    struct sl_split split = sl_split_rows((uint32_t)fmin(ceil(n_rows / pes), UINT32_MAX), max_chunks, min_shift);
    double chunks = (double)split.n_chunks * (UINT32_C(1) << split.shift);
    return pes * (split.n_chunks > 1 ? chunks : 1.125 * split.n_rows + 1);
}

/* An array of a group's rows: that of the step in hand or, where chunks are small enough to be kept, those of all slots, in the
 * pool's blocks; and the chunks' handles. */
static double array_bytes(const struct sl_settings *s, double n_rows, double row_bytes)
{
    double chunks = fmin((double)s->group_size * s->chunks, s->group_size + n_rows / (1 << SL_MIN_CHUNK_SHIFT));
    double rows = room_rows(n_rows, s->group_size, s->chunks, SL_MIN_CHUNK_SHIFT);
    double room = fmax(CLASS_SHARE * rows * row_bytes, chunks * SL_POOL_SMALLEST_BYTES);
    double kept = fmin(room, chunks * SL_KEPT_BYTES);
    return fmax(room, s->depth * kept) + s->depth * chunks * HANDLE_BYTES;
}

/* What a layer has in training: enum sl_role. */
static double layer_bytes(const struct sl_settings *s, const struct bound *b, const struct sl_layer *layer)
{
    const size_t real = sizeof(sl_real);
    const size_t row = sl_settings_row_element(s);
    double from = b->vertices[layer->from];
    double level = b->vertices[layer->level];
    double bytes = (layer->hidden ? 3 : 2) * array_bytes(s, level, layer->n_out * real); /* z; gradients of z and h */
    bytes += layer->hidden ? array_bytes(s, level, layer->n_out * row) : 0;              /* h */
    bytes += layer->hidden ? array_bytes(s, level, layer->n_out) : 0;                    /* gate */
    if (layer->activates_input) {
        bytes += 2 * array_bytes(s, from, layer->n_in * real) + array_bytes(s, from, layer->n_in);
    }
    if (aggregates(layer)) { /* y or the sum, and its gradient */
        bytes += layer->project_first
                     ? array_bytes(s, from, layer->travels * real) + array_bytes(s, from, layer->travels * row)
                     : array_bytes(s, level, layer->n_in * real) + array_bytes(s, level, layer->n_in * row);
    }
    if (layer->kind->weigh == SL_WEIGH_ATTENTION) { /* scales and sides */
        bytes += array_bytes(s, level, layer->n_heads * real) + array_bytes(s, level, 4 * layer->n_heads * real);
    }
    if (layer->kind->reads_first && layer->number == 0) { /* what all of these return to the first layer's output */
        bytes += array_bytes(s, from, layer->n_in * real);
    }
    return bytes;
}

static double row_bytes(const struct sl_settings *s, const struct bound *b, const struct sl_model *model, bool sparse)
{
    double groups = (double)s->pes / s->group_size;
    const struct sl_layer *first = &model->layer[0];
    double rows = sparse ? 0 : array_bytes(s, b->vertices[first->from], first->n_in * sl_settings_row_element(s));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        rows += layer_bytes(s, b, &model->layer[i]);
    }
    return groups * rows;
}

static double sample_bytes(const struct sl_settings *s, const struct bound *b, double n)
{
    double groups = (double)s->pes / s->group_size;
    double ids = b->vertices[0] * 16;
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        ids += b->vertices[hop + 1] * 16 + b->edges[hop] * 8;
    }
    return groups * s->depth * (ids + 4 * n) + s->depth * (double)s->pes * n * 0.2; /* 4: a place in the frontier */
}

/* The layer that needs most: what it takes in and gives, and all that is in between. Features are read where they are. */
static double evaluation_bytes(const struct sl_settings *s, const struct sl_model *model, double n)
{
    const double half = (double)sl_settings_row_element(s) / sizeof(sl_real); /* of a number, in bf16 */
    double most = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        double here = (i > 0 ? half * layer->n_in : 0) + (layer->hidden ? 1.25 + half : 1) * layer->n_out;
        here += aggregates(layer) ? half * layer->travels : 0; /* y, or the sum, as wide as what travels */
        here += layer->activates_input ? 1.25 * layer->n_in : 0;
        here += layer->kind->weigh == SL_WEIGH_ATTENTION ? layer->n_heads : 0;
        here += layer->kind->reads_first && i > 1 ? model->layer[0].n_out : 0;
        most = fmax(most, here);
    }
    double rows = room_rows(n, s->group_size, SL_MAX_FULL_CHUNKS / s->group_size, SL_EVALUATE_SHIFT);
    return most * CLASS_SHARE * rows * sizeof(sl_real);
}

/* Features in memory, as they are loaded or in part order; element: bytes of a dense one. */
static double feature_bytes(const struct sl_features *f, double n, bool sparse, size_t element)
{
    return sparse ? 8 * ((double)f->offsets[f->n_rows] + n) : n * f->n_columns * (double)element;
}

/* ---- the full graph ---- */

/* Numbers of a vertex in a layer, all of the way forward but what travels, which is another layer's output where it has no rows of its own. */
static double pipe_row(const struct sl_layer *layer)
{
    double gates = (layer->activates_input ? 0.25 * layer->n_in : 0) + (layer->hidden ? 0.25 * layer->n_out : 0);
    double outputs = layer->n_out * (layer->hidden ? 2 : 1);
    return outputs + gates + (aggregates(layer) && !layer->project_first ? layer->n_in : 0);
}

/* With recomputation two slots' rows of all layers at the most, and the outputs that segments take in (runtime/pipe/recompute.h); several slots
 * keep besides what travels, and that of an earlier epoch. And gradients of the layers in hand. */
static double pipe_bytes(const struct sl_settings *s, const struct sl_model *model, double n)
{
    double slots = (s->graph_chunks > 0 ? s->graph_chunks : 4 * s->stages * s->ways) / s->ways;
    double row = 0;
    double travelling = 0;
    double widest = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        bool own = layer->project_first || layer->activates_input;
        row += pipe_row(layer) + (own && !aggregates(layer) ? layer->n_in : 0);
        travelling += aggregates(layer) ? (own || s->recompute ? 2.0 : 1.0) * layer->travels : 0;
        widest = fmax(widest, layer->n_out);
    }
    if (s->recompute) {
        double segments = s->stages + ceil(sqrt(model->n_layers));
        double again = slots > 1 ? fmin(1, 2 / slots) : 1 / fmax(1, segments / 2);
        row = again * row + segments * widest;
    }
    return CLASS_SHARE * (row + (slots > 1 ? travelling : 2 * widest) + 6 * widest) * n * sizeof(sl_real);
}

/* Instead of a minibatch's blocks and rows: out-neighbours, tables of chunks, all rows of all layers. */
static void term_pipe(const struct sl_settings *s, const struct sl_dataset *dataset, const struct sl_model *model,
                      struct sl_memory_terms *terms)
{
    double n = dataset->graph.n_vertices;
    double n_chunks = s->pes;
    terms->exchange = 0;
    terms->samples = (uint64_t)(12 * (double)dataset->graph.n_edges + 16 * n + n_chunks * n_chunks);
    terms->rows = (uint64_t)pipe_bytes(s, model, n);
}

struct sl_memory_terms sl_memory_terms(const struct sl_settings *s, const struct sl_dataset *dataset, uint32_t team)
{
    const struct sl_features *f = &dataset->features;
    struct bound b = bound_step(s, dataset);
    bool sparse;
    struct sl_model model = outline_model(s, dataset, &sparse);
    double n = dataset->graph.n_vertices;
    double graph = 8 * (n + 1) + 4 * (double)dataset->graph.n_edges + 30 * n;
    double weights = sl_model_kind(s->model)->layer->weigh == SL_WEIGH_SYMMETRIC ? 2 * n * sizeof(sl_real) : 0;
    size_t row = sl_settings_row_element(s);
    double cached = s->feature_cache == SL_FEATURE_CACHE_AUTO ? 0 : s->feature_cache; /* then it is GPUs' */
    double cache = sparse ? 0 : fmin(cached, n) * s->pes * ((double)row * f->n_columns + 16);
    struct sl_memory_terms terms = {.loaded =
                                        (uint64_t)(graph + feature_bytes(f, n, f->dense == NULL, sizeof(sl_real))),
                                    .data = (uint64_t)(graph + feature_bytes(f, n, sparse, row) + weights + cache),
                                    .model = (uint64_t)model_bytes(s, &model),
                                    .partials = (uint64_t)partial_bytes(s, &model),
                                    .exchange = (uint64_t)exchange_bytes(s, &b, &model, team),
                                    .samples = (uint64_t)sample_bytes(s, &b, n),
                                    .rows = (uint64_t)row_bytes(s, &b, &model, sparse),
                                    .evaluation = (uint64_t)evaluation_bytes(s, &model, n)};
    if (s->schedule == SL_SCHEDULE_PIPE) {
        term_pipe(s, dataset, &model, &terms);
    }
    return terms;
}

#define PROCESS_BYTES ((uint64_t)32 << 20) /* programs and libraries */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset, uint32_t team)
{
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, team);
    uint64_t training = t.rows + t.samples;
    /* What the pool keeps of the one while the other is at work. */
    uint64_t work = most(training, t.evaluation) + least(least(training, t.evaluation), SL_POOL_KEPT_BYTES);
    return t.data + t.model + t.partials + t.exchange + most(t.loaded, work) + PROCESS_BYTES;
}

/* ---- of a rank ---- */

#define PART_SHARE 1.25                    /* the largest part, of the average one */
#define READING_BYTES ((uint64_t)64 << 20) /* of a cache file, in memory at a time */
#define MESSAGE_BYTES ((uint64_t)64 << 20) /* MPI's own, and rows that wait to be sent */
#define VERTEX_BYTES 24                    /* ids in both orders, the training vertices, lists of the halo */

/* What a rank has of the whole, each of 1. steps: of the rows and edges of its PEs' steps. */
struct shares {
    double pes, steps;
    double vertices, edges, values; /* of the parts that it holds; values: of sparse features */
    double scored;                  /* vertices that it evaluates */
};

/* Entries of part q's sparse features. */
static double part_values(const struct sl_dataset *dataset, const struct sl_partition *partition, uint32_t q)
{
    const uint64_t *offsets = dataset->features.offsets;
    double n = 0;
    for (uint32_t v = partition->first[q]; offsets != NULL && v < partition->first[q + 1]; v++) {
        n += (double)(offsets[partition->dataset_ids[v] + 1] - offsets[partition->dataset_ids[v]]);
    }
    return n;
}

static double part_vertices(const struct sl_partition *partition, uint32_t q)
{
    return (double)(partition->first[q + 1] - partition->first[q]);
}

static double part_edges(const struct sl_partition *partition, uint32_t q)
{
    const uint64_t *offsets = partition->graph.offsets;
    return (double)(offsets[partition->first[q + 1]] - offsets[partition->first[q]]);
}

/* Before parts are made. */
static struct shares guess_shares(const struct sl_plan *plan)
{
    double part = PART_SHARE / plan->n_parts;
    double pes = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_pes;
    struct shares s = {.pes = pes, .steps = pes};
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        s.vertices += sl_plan_holds(plan, q) ? part : 0;
        s.scored += sl_plan_scorer(plan, q) == plan->rank ? part : 0;
    }
    s.edges = s.values = s.vertices;
    return s;
}

static struct shares find_shares(const struct sl_dataset *dataset, const struct sl_plan *plan,
                                 const struct sl_partition *partition)
{
    double n = fmax(1, dataset->graph.n_vertices);
    double n_edges = fmax(1, (double)dataset->graph.n_edges);
    double n_values =
        dataset->features.offsets != NULL ? fmax(1, (double)dataset->features.offsets[dataset->features.n_rows]) : 1;
    struct shares s = {.pes = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_pes};
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        s.scored += sl_plan_scorer(plan, q) == plan->rank ? part_vertices(partition, q) / n : 0;
        if (sl_plan_holds(plan, q)) {
            s.vertices += part_vertices(partition, q) / n;
            s.edges += part_edges(partition, q) / n_edges;
            s.values += part_values(dataset, partition, q) / n_values;
        }
    }
    for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
        uint32_t q = sl_plan_part(plan, p);
        s.steps +=
            PART_SHARE / plan->n_groups * fmax(part_vertices(partition, q) / n, part_edges(partition, q) / n_edges);
    }
    return s;
}

static double portion(double share, double whole)
{
    return fmin(1, share) * whole;
}

/* The rows of other ranks that one layer reads. */
static double halo_bytes(const struct sl_model *model, size_t element, double n)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        widest = aggregates(layer) && layer->travels > widest ? layer->travels : widest;
    }
    return CLASS_SHARE * n * widest * (double)element;
}

struct sl_rank_need sl_memory_need_rank(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                        const struct sl_plan *plan, const struct sl_partition *partition)
{
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, 1);
    struct shares s = partition == NULL ? guess_shares(plan) : find_shares(dataset, plan, partition);
    double n = dataset->graph.n_vertices;
    bool sparse;
    struct sl_model model = outline_model(settings, dataset, &sparse);
    double edges = sizeof(sl_vertex) * (double)dataset->graph.n_edges;
    double values = sparse ? 8 * (double)dataset->features.offsets[dataset->features.n_rows] : 0;
    double weights = sl_model_kind(settings->model)->layer->weigh == SL_WEIGH_SYMMETRIC ? 4 * n * sizeof(sl_real) : 0;
    double tables =
        portion(s.edges, edges) + portion(s.values, values) + portion(s.vertices, (double)t.data - edges - values);
    double data = tables + VERTEX_BYTES * n + weights;
    double training = portion(s.steps, (double)(t.rows + t.samples));
    double evaluation =
        portion(s.scored, (double)t.evaluation) + halo_bytes(&model, sl_settings_row_element(settings), n);
    uint64_t loaded = dataset->sparing && dataset->mapping != NULL ? least(t.loaded, READING_BYTES) : t.loaded;
    uint64_t work = most((uint64_t)training, (uint64_t)evaluation);
    uint64_t kept = (uint64_t)(portion(s.pes, (double)t.partials) + portion(s.steps, (double)t.exchange)) + t.model;
    return (struct sl_rank_need){.memory = (uint64_t)data + kept + most(loaded, work) + MESSAGE_BYTES + PROCESS_BYTES,
                                 .untouched = t.data - (uint64_t)fmin(tables, (double)t.data)};
}

/* ---- on a GPU ---- */

#define CHUNKS_AT_WORK 4 /* of an evaluation: one computes, its successor is in StarPU's pipeline, others go or come */
#define GPU_MODEL_COPIES 6 /* weights, two moments, the sum of the gradients, room for a copy from elsewhere */

/* The dataset as far as the estimates above look at it. */
static struct sl_dataset outline_of(const struct sl_shards *shards)
{
    static float some;
    return (struct sl_dataset){.graph = {.n_vertices = shards->n_vertices, .n_edges = shards->partition->graph.n_edges},
                               .train = {.n = shards->n_train},
                               .features = {.n_columns = shards->n_features, .dense = shards->is_sparse ? NULL : &some},
                               .n_classes = shards->n_classes};
}

/* Topology, labels and split of n_parts of G parts, and the ids of all vertices in both orders. */
static double part_bytes(const struct sl_shards *shards, uint32_t n_parts)
{
    double n = shards->n_vertices;
    double sparse = shards->is_sparse ? 8 * ((double)shards->sparse_first[shards->n_parts] + n) : 0;
    double parts = 13 * n + 4 * (double)shards->partition->graph.n_edges + sparse;
    return fmin(1, PART_SHARE * n_parts / shards->n_parts) * parts + 12 * n;
}

/* The widest layer's rows, of which every GPU needs all, and what comes of them; what else the chunks at work have. */
static double gpu_evaluation_bytes(const struct sl_model *model, double n)
{
    double n_at_work = fmin(n, (double)CHUNKS_AT_WORK * (1 << SL_EVALUATE_GPU_SHIFT));
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        bool own = layer->activates_input || layer->kind->reads_first || !aggregates(layer); /* rows beside */
        double all = (aggregates(layer) ? layer->travels : 0) + layer->n_out;
        double work = (layer->project_first ? 0 : layer->n_in) + (own ? 1.25 * layer->n_in : 0) + 1.25 * layer->n_out;
        bytes = fmax(bytes, all * n + (work + layer->n_heads) * n_at_work);
    }
    return bytes * sizeof(sl_real);
}

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus)
{
    struct sl_dataset outline = outline_of(shards);
    uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* of one GPU */
    double share = (double)n_pes / settings->pes;
    double parts = part_bytes(shards, n_pes < shards->n_parts ? n_pes : shards->n_parts);
    struct bound b = bound_step(settings, &outline);
    bool sparse;
    struct sl_model model = outline_model(settings, &outline, &sparse);
    double partials = share * partial_bytes(settings, &model);
    double weights = GPU_MODEL_COPIES * parameter_bytes(&model, 0) + partials;
    double copies = n_gpus > 1 ? 2 : 1; /* of what is exchanged: where it is packed and where it has arrived */
    double rows = share * (row_bytes(settings, &b, &model, sparse) + copies * exchange_bytes(settings, &b, &model, 1));
    double training = CLASS_SHARE * (parts + weights + PART_SHARE * rows);
    double evaluation = CLASS_SHARE * (parts + gpu_evaluation_bytes(&model, shards->n_vertices));
    return (struct sl_gpu_need){.training = (uint64_t)training + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)evaluation + SL_GPU_PIECES_BYTES};
}

uint64_t sl_memory_need_gpu_work(const struct sl_settings *settings, const struct sl_shards *shards,
                                 const struct sl_run *run)
{
    if (run->n_gpus == 0) {
        return 0;
    }
    struct sl_gpu_need need = sl_memory_need_gpu(settings, shards, run->n_gpus);
    /* An evaluation that fits the GPU at all must not have to move the caches away. */
    return !run->evaluate_on_cpus && need.evaluation > need.training ? need.evaluation : need.training;
}
