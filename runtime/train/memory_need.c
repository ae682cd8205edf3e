/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. tests/test_memory_peak.c compares with measured runs. */
#include "runtime/train/memory_need.h"

#include <math.h>

#include "partition/partition.h"
#include "runtime/full/full.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/kinds.h"
#include "runtime/model/rows.h"
#include "runtime/pipe/epoch.h"
#include "runtime/sync/replicas.h"
#include "runtime/train/row_need.h"
#include "support/minmax.h"
#include "support/real.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

#define HANDLE_BYTES 4096 /* StarPU's record of a handle */
/* Margin over a minibatch's rows: the set of live rows differs from moment to moment. */
#define SPARE_SHARE 0.15
/* The same with --recompute: most kept rows are boundary rows. */
#define AGAIN_SHARE 0.08
/* Rows gathered for the third step in flight, and for later ones, lie in blocks meant for larger rows. */
#define STEP_SHARE 0.6
/* Sizes are rounded up by at most an eighth. */
#define CLASS_SHARE 1.125

/* The shapes of the model's layers. If a layer adds features to its output (--residual), sparse features become
 * dense. */
static struct sl_model outline_model(const struct sl_settings *s, const struct sl_dataset *dataset, bool *sparse_out)
{
    struct sl_model model;
    *sparse_out = dataset->features.dense.data == NULL;
    sl_model_shape(s, dataset->features.n_columns, sl_targets_outputs(&dataset->targets), *sparse_out, &model);
    if (*sparse_out && model.layer[0].residual) {
        *sparse_out = false;
        sl_model_shape(s, dataset->features.n_columns, sl_targets_outputs(&dataset->targets), false, &model);
    }
    return model;
}

/* Targets beyond the first column: the dataset's or the shards', and those of training vertices. */
static double further_targets(const struct sl_dataset *dataset)
{
    double columns = fmax(0, (double)dataset->targets.width - 1);
    return 2 * columns * SL_TARGET_BYTES * (double)dataset->graph.n_vertices;
}

/* Bytes of all parameters. Each is a block of at least `smallest` bytes. */
static double parameter_bytes(const struct sl_model *model, double smallest)
{
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            double one = (double)p->n_rows * p->n_columns * sizeof(sl_real);
            if (one > 0) {
                bytes += fmax(one, smallest);
            }
        }
    }
    return bytes;
}

static double model_bytes(const struct sl_settings *s, const struct sl_model *model)
{
    double n_replicas = sl_plan_replicas(s);
    double copies = 4 + 2; /* weights and Adam's state (4), best weights, copy for a file */
    double written = sl_if_so(s->checkpoint != NULL, 3); /* copies of a replica while a checkpoint is written */
    if (n_replicas > 1) {
        copies += n_replicas * (5 + written); /* state, and a copy for gossip */
    }
    return copies * parameter_bytes(model, 0);
}

/* Partial sums of every PE's chunks, or of the pieces of the full graph: gradients, losses, and batch norm's moments
 * and sums (doubles). For batch norm also statistics and sums (doubles) per group and layer. */
static double partial_bytes(const struct sl_settings *s, const struct sl_model *model, double n_vertices)
{
    double groups = (double)s->pes / s->group_size;
    double sums = 3 * SL_POOL_SMALLEST_BYTES + 6.0 * s->hidden * sizeof(double);
    enum sl_partition_method method = (enum sl_partition_method)s->partition;
    double pieces =
        s->schedule == SL_SCHEDULE_PIPE ? sl_partition_pieces(method, (uint32_t)n_vertices, s->group_size) : 0;
    double n = fmax((double)s->pes * s->chunks, pieces);
    double chunks = n * (parameter_bytes(model, SL_POOL_SMALLEST_BYTES) + sums);
    double kept = 2 * SL_POOL_SMALLEST_BYTES + 2.0 * s->hidden * (sizeof(sl_real) + sizeof(double));
    kept *= s->norm == SL_NORM_BATCH ? groups * model->n_layers : 0;
    return CLASS_SHARE * (chunks + kept);
}

/* Requested rows between the PEs of a group in a hop. Crossing edges with the same source request one row.
 * With METIS at most half of the edges cross, except in graphs without community structure. */
static double asked_rows(const struct sl_settings *s, const struct sl_reach *b, const struct sl_layer *layer)
{
    double of_others = 1 - 1.0 / s->group_size;
    double crossing = b->edges[layer->level] * (s->partition == SL_PARTITION_METIS ? fmin(of_others, 0.5) : of_others);
    double there = b->vertices[layer->from] * of_others; /* on other PEs, per PE */
    return there > 0 ? s->group_size * there * -expm1(-crossing / (s->group_size * there)) : 0;
}

/* Buffers for exchanging rows and row gradients. Each ring slot keeps one matrix per hop and pair of PEs, with a
 * quarter to spare. A matrix above SL_KEPT_BYTES is released with its layer instead. With more PEs than workers, some
 * PEs reach the next layer early, so two layers overlap. Teams (sl_steps_team) keep all matrices, also from a team to
 * itself. */
static double exchange_bytes(const struct sl_settings *s, const struct sl_model *model, const struct sl_memory_run *run)
{
    const struct sl_reach *b = &run->reach;
    double peers = s->group_size - 1;
    double kinds = s->transport == SL_TRANSPORT_NCCL ? 4 : 2; /* of handles per matrix (struct sl_slot_pe) */
    double teams = ceil((double)s->group_size / run->team);
    double handles = run->team > 1 ? teams * teams : s->group_size * peers;
    double kept = 0;
    double passing = 0;
    double before = 0; /* bytes of the previous layer, if its matrices are released, too */
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        bool back = i > 0 || layer->training.project_first; /* the first layer needs no gradients of features */
        double rows = sl_layer_aggregates(layer) ? asked_rows(s, b, layer) : 0;
        double bytes = rows * layer->training.travels * (double)sl_dtype_size(sl_settings_row_dtype(s));
        bool goes = run->team == 1 && bytes > handles * SL_KEPT_BYTES;
        double least = handles * SL_POOL_SMALLEST_BYTES;
        if (goes) {
            passing = fmax(passing, bytes + (s->pes > run->n_workers ? before : 0));
        }
        before = sl_if_so(goes, bytes);
        if (sl_layer_aggregates(layer) && !goes) {
            kept += (back ? 2 : 1) * fmax(1.25 * bytes, least);
        }
        if (sl_layer_aggregates(layer)) {
            kept += kinds * handles * HANDLE_BYTES;
        }
    }
    return (kept * s->depth + passing) * s->pes / s->group_size;
}

static double sample_bytes(const struct sl_settings *s, const struct sl_reach *b, double n)
{
    double groups = (double)s->pes / s->group_size;
    double ids = b->vertices[0] * 16;
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        ids += b->vertices[hop + 1] * 16 + b->edges[hop] * 8;
    }
    return groups * s->depth * (ids + 4 * n) + s->depth * (double)s->pes * n * 0.2; /* 4 n: positions in the frontier */
}

/* Bytes of blocks and their handles. */
static double rows_bytes(const struct sl_blocks *blocks)
{
    double n = 0;
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        n += blocks->n[c];
    }
    return sl_blocks_bytes(blocks) + n * HANDLE_BYTES;
}

#define FACTOR_BYTES 8 /* a rounded or widened factor, and a product before rounding */

/* Buffers of one worker's bf16 products, for the largest chunk of training or evaluation. */
static double factor_bytes(const struct sl_row_basis *basis)
{
    const struct sl_settings *s = basis->settings;
    double most = exp2(SL_EVALUATE_SHIFT);
    uint32_t widest = 0;
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        const struct sl_layer *layer = &basis->model->layer[i];
        double rows = ceil(basis->reach->vertices[layer->from] / s->group_size);
        struct sl_split split = sl_split_rows((uint32_t)fmin(rows, UINT32_MAX), s->chunks, SL_MIN_CHUNK_SHIFT);
        most = fmax(most, split.n_chunks > 1 ? exp2(split.shift) : split.n_rows);
        bool rounded = i > 0 || !basis->sparse; /* sparse rows are not rounded */
        if (rounded) {
            widest = fmax(layer->n_in, widest);
        }
        widest = fmax(layer->n_out, widest);
    }
    return sl_if_so(s->precision == SL_PRECISION_BF16, most * widest * FACTOR_BYTES);
}

/* Workers with such buffers in main memory. GPU workers use GPU memory reserved for launchers
 * (runtime/machine/gpus.h). */
static uint32_t n_rounding(const struct sl_settings *s, uint32_t n_workers)
{
    return s->gpus <= n_workers ? n_workers - s->gpus : n_workers;
}

static double steps_per_epoch(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    return ceil(dataset->train.n / ((double)s->batch_size * s->pes));
}

/* Bytes of the features. element: bytes of a dense entry. */
static double feature_bytes(const struct sl_features *f, double n, bool sparse, size_t element)
{
    return sparse ? 8 * ((double)f->offsets[f->n_rows] + n) : n * f->n_columns * (double)element;
}

/* ---- the full graph ---- */

#define TASK_BYTES 5000 /* StarPU's records of a task, its handles and its arguments */

/* Tables of full-graph training, in place of a minibatch's blocks: out-neighbours, tables of chunks, waiting
 * tasks. */
static double pipe_tables(const struct sl_settings *s, const struct sl_dataset *dataset,
                          const struct sl_memory_run *run)
{
    double n_chunks = s->pes;
    double tasks = sl_pipe_tasks(s->layers, s->ways, run->n_workers);
    double inner = s->recompute && s->pes > s->ways ? 1 - run->boundary
                                                    : 0; /* vertices with no neighbour in other chunks: own lists */
    return (12 + 4 * inner) * (double)dataset->graph.n_edges +
           (16 + (inner > 0 ? 8 : 0)) * (double)dataset->graph.n_vertices + n_chunks * n_chunks + TASK_BYTES * tasks;
}

/* ---- the whole run ---- */

/* Tasks per chunk and layer: two products, or a product and a sum's start value; the sum; the activation. */
#define EVALUATION_TASKS 4
#define BUFFER_BYTES 200 /* of a task's records, per buffer: a sum reads chunks of all parts */

static double record_bytes(const struct sl_row_basis *basis)
{
    double n = sl_row_need_chunks(basis);
    double bytes = 0;
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        bool sums = sl_layer_aggregates(&basis->model->layer[i]);
        bytes += n * (EVALUATION_TASKS * TASK_BYTES + (sums ? n * BUFFER_BYTES : 0));
    }
    return bytes;
}

/* Full-graph epochs are all alike and need no margin. */
static double spare_share(const struct sl_settings *s)
{
    if (s->schedule != SL_SCHEDULE_PIPE) {
        return SPARE_SHARE;
    }
    return sl_if_so(s->recompute, AGAIN_SHARE);
}

/* Rows of training and of an evaluation. An evaluation reuses free blocks of training. */
static void term_rows(const struct sl_row_basis *basis, struct sl_memory_terms *terms)
{
    struct sl_blocks kept = {{0}};
    struct sl_blocks passing;
    struct sl_blocks evaluation;
    if (basis->settings->schedule == SL_SCHEDULE_PIPE) {
        sl_row_need_pipe(basis, &passing);
    } else {
        sl_row_need_step(basis, &kept, &passing);
    }
    sl_row_need_evaluation(basis, &evaluation);
    bool pipe = basis->settings->schedule == SL_SCHEDULE_PIPE;
    double spare = spare_share(basis->settings) * rows_bytes(&passing);
    double in_flight =
        fmin(basis->settings->depth, basis->n_per_epoch + 1); /* one step of the next epoch is sampled ahead */
    double mixed = pipe ? 0 : STEP_SHARE * fmax(0, in_flight - 2) * rows_bytes(&passing);
    terms->rows = (uint64_t)(rows_bytes(&kept) + rows_bytes(&passing) + spare + mixed);
    terms->evaluation = (uint64_t)((1 + SPARE_SHARE) * rows_bytes(&evaluation));
    terms->beside = (uint64_t)fmax(0, sl_blocks_unserved(&evaluation, &passing, sl_row_need_near(basis)) - spare);
    terms->history = (uint64_t)sl_row_need_history(basis);
    terms->records = (uint64_t)record_bytes(basis);
}

/* Bytes of a PE's feature cache per row, besides the row. */
#define HOT_ROW_BYTES 16

/* The feature caches of all PEs. */
static double feature_caches(const struct sl_settings *s, double n, uint32_t n_columns)
{
    double rows =
        s->feature_cache == SL_FEATURE_CACHE_AUTO ? 0 : s->feature_cache; /* auto: a cache is in GPU memory only */
    return fmin(rows, n) * s->pes * ((double)sl_dtype_size(sl_settings_row_dtype(s)) * n_columns + HOT_ROW_BYTES);
}

struct sl_memory_terms sl_memory_terms(const struct sl_settings *s, const struct sl_dataset *dataset,
                                       const struct sl_memory_run *run)
{
    const struct sl_features *f = &dataset->features;
    bool pipe = s->schedule == SL_SCHEDULE_PIPE;
    bool sparse;
    struct sl_model model = outline_model(s, dataset, &sparse);
    double n = dataset->graph.n_vertices;
    struct sl_row_basis basis = {.settings = s,
                                 .model = &model,
                                 .reach = &run->reach,
                                 .n_vertices = n,
                                 .n_workers = run->n_workers,
                                 .n_per_epoch = steps_per_epoch(s, dataset),
                                 .boundary = run->boundary,
                                 .sparse = sparse};
    double graph = 8 * (n + 1) + 4 * (double)dataset->graph.n_edges + 30 * n + further_targets(dataset);
    double weights = sl_if_so(sl_model_reads_factors(s), 2 * n * sizeof(sl_real));
    size_t row = sl_dtype_size(sl_settings_row_dtype(s));
    struct sl_memory_terms terms = {
        .loaded = (uint64_t)(graph + feature_bytes(f, n, f->dense.data == NULL, sl_dtype_size(f->dense.dtype))),
        .data = (uint64_t)(graph + feature_bytes(f, n, sparse, row) + weights +
                           (sparse ? 0 : feature_caches(s, n, f->n_columns))),
        .model = (uint64_t)model_bytes(s, &model),
        .partials = (uint64_t)partial_bytes(s, &model, n),
        .exchange = pipe ? 0 : (uint64_t)exchange_bytes(s, &model, run),
        .samples = (uint64_t)(pipe ? pipe_tables(s, dataset, run) : sample_bytes(s, &run->reach, n))};
    terms.factors = (uint64_t)(n_rounding(s, run->n_workers) * factor_bytes(&basis));
    term_rows(&basis, &terms);
    return terms;
}

/* The program and its libraries. CUDA's libraries are the largest, with or without a GPU. */
#if defined(SL_CUDA) && STARPU_MAXCUDADEVS > 0
#define PROCESS_BYTES ((uint64_t)220 << 20)
#else
#define PROCESS_BYTES ((uint64_t)20 << 20)
#endif
#define WORKER_BYTES ((uint64_t)3 << 19) /* a worker's stack and tasks, and the libraries' packing buffers */

uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                        const struct sl_memory_run *run)
{
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, run);
    uint64_t training = t.rows + t.samples;
    bool trimmed = t.rows - sl_min_u64(t.rows, t.history) > SL_POOL_KEPT_BYTES; /* free bytes before an evaluation */
    uint64_t work = trimmed ? sl_max_u64(training, t.history + t.evaluation + t.records + t.samples)
                            : training + t.beside + t.records;
    return t.data + t.model + t.partials + t.exchange + t.factors + sl_max_u64(t.loaded, work) + PROCESS_BYTES +
           run->n_workers * WORKER_BYTES;
}

/* ---- one rank ---- */

#define PART_SHARE 1.25                    /* size of the largest part relative to the average */
#define READING_BYTES ((uint64_t)64 << 20) /* of a cache file in memory at a time */
#define MESSAGE_BYTES ((uint64_t)76 << 20) /* MPI's buffers, and rows waiting to be sent */
#define VERTEX_BYTES 24                    /* ids in both orders, training vertices, lists of the halo */

/* A rank's fractions of the whole run. */
struct rank_shares {
    double pes;                     /* PEs */
    double steps;                   /* rows and edges of the steps of its PEs */
    double vertices, edges, values; /* of own parts; values: entries of sparse features */
    double scored;                  /* evaluated vertices */
};

/* Entries of the sparse features of part q. */
static double part_values(const struct sl_dataset *dataset, const struct sl_partition *partition, uint32_t q)
{
    const uint64_t *offsets = dataset->features.offsets;
    double n = 0;
    if (offsets == NULL) {
        return 0;
    }
    for (uint32_t v = partition->first[q]; v < partition->first[q + 1]; v++) {
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

/* Fractions before parts are made. */
static struct rank_shares guess_shares(const struct sl_plan *plan)
{
    double part = PART_SHARE / plan->n_parts;
    double pes = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_pes;
    struct rank_shares s = {.pes = pes, .steps = pes};
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        if (sl_plan_holds(plan, q)) {
            s.vertices += part;
        }
        if (sl_plan_scorer(plan, q) == plan->rank) {
            s.scored += part;
        }
    }
    s.edges = s.values = s.vertices;
    return s;
}

static struct rank_shares find_shares(const struct sl_dataset *dataset, const struct sl_plan *plan,
                                      const struct sl_partition *partition)
{
    double n = fmax(1, dataset->graph.n_vertices);
    double n_edges = fmax(1, (double)dataset->graph.n_edges);
    double n_values =
        dataset->features.offsets != NULL ? fmax(1, (double)dataset->features.offsets[dataset->features.n_rows]) : 1;
    struct rank_shares s = {.pes = PART_SHARE * (plan->end_pe - plan->first_pe) / plan->n_pes};
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        if (sl_plan_scorer(plan, q) == plan->rank) {
            s.scored += part_vertices(partition, q) / n;
        }
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

/* The fraction of the layers in one stage. */
static double stage_share(const struct sl_settings *s, uint32_t stage)
{
    uint32_t first = stage > 0 && s->n_stages_cut > 0 ? s->stages_cut[stage - 1] : 0;
    uint32_t end = stage < s->n_stages_cut ? s->stages_cut[stage] : s->layers;
    return s->n_stages_cut > 0 ? (double)(end - first) / s->layers : 1.0 / s->stages;
}

/* The fraction of the layers in the largest crew. */
static double crew_share(const struct sl_settings *s, const struct sl_plan *plan)
{
    double most = 0;
    double so_far = 0;
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        bool first = stage == 0 ||
                     sl_plan_crew_of_stage(plan, stage, s->stages) != sl_plan_crew_of_stage(plan, stage - 1, s->stages);
        so_far = (first ? 0 : so_far) + stage_share(s, stage);
        most = fmax(most, so_far);
    }
    return most;
}

static double portion(double share, double whole)
{
    return fmin(1, share) * whole;
}

/* Rows of other ranks read by a layer of an evaluation at a time. */
static double halo_bytes(const struct sl_model *model, size_t element, double n)
{
    double widest = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        widest = sl_layer_aggregates(layer)
                     ? fmax(widest, ceil((double)layer->evaluation.travels / sl_full_slices(layer)))
                     : widest;
    }
    return CLASS_SHARE * n * widest * (double)element;
}

/* The halo in full-graph training. All receives are submitted, and have memory, before the first row arrives: for all
 * layers of a crew, forward and backward. Several pipeline slots add the history; --recompute in one slot receives
 * rows twice. To this come rows between crews, and first-layer rows. */
static double pipe_halo_bytes(const struct sl_settings *s, const struct sl_model *model, const struct sl_plan *plan,
                              double n)
{
    double share = (double)(plan->end_pe - plan->first_pe) / plan->n_parts;
    const size_t row = sl_dtype_size(sl_settings_row_dtype(s));
    bool several_slots = s->pes > s->ways;
    double all = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        if (sl_layer_aggregates(&model->layer[i])) {
            all += model->layer[i].training.travels;
        }
    }
    double ways = sl_plan_shares_ways(plan) ? (s->recompute || several_slots ? 3 : 2) * all * crew_share(s, plan) : 0;
    double crossing = (double)(sl_dtype_size(model->layer[0].training.row[SL_ROWS_H].dtype) + sizeof(sl_real));
    double stages = sl_if_so(plan->n_crews > 1, 2 * s->hidden * crossing * share);
    return CLASS_SHARE * n * (ways * (double)row + stages);
}

struct sl_rank_need sl_memory_need_rank(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                        const struct sl_plan *plan, const struct sl_partition *partition,
                                        uint32_t n_workers)
{
    struct sl_memory_run run = {
        .reach = sl_reach_bound(settings, dataset), .team = 1, .n_workers = n_workers, .boundary = 1};
    struct sl_memory_terms t = sl_memory_terms(settings, dataset, &run);
    struct rank_shares s = partition == NULL ? guess_shares(plan) : find_shares(dataset, plan, partition);
    bool pipe = settings->schedule == SL_SCHEDULE_PIPE;
    s.steps *= pipe ? crew_share(settings, plan) * plan->n_crews : 1;
    double n = dataset->graph.n_vertices;
    bool sparse;
    struct sl_model model = outline_model(settings, dataset, &sparse);
    double edges = sizeof(sl_vertex) * (double)dataset->graph.n_edges;
    double values = sparse ? 8 * (double)dataset->features.offsets[dataset->features.n_rows] : 0;
    double caches = sparse ? 0 : feature_caches(settings, n, dataset->features.n_columns);
    double all = (double)t.data - caches;
    double weights = (pipe ? 6 : sl_if_so(sl_model_reads_factors(settings), 4)) * n * sizeof(sl_real);
    double tables = portion(s.edges, edges) + portion(s.values, values) + portion(s.vertices, all - edges - values);
    double data = tables + portion(s.pes, caches) + VERTEX_BYTES * n + weights;
    double halo = halo_bytes(&model, sl_dtype_size(sl_settings_row_dtype(settings)), n);
    double training =
        portion(s.steps, (double)(t.rows + t.samples)) + (pipe ? pipe_halo_bytes(settings, &model, plan, n) : 0);
    double evaluation = portion(s.scored, (double)t.evaluation) + halo;
    uint64_t loaded = dataset->low_memory && dataset->mapping != NULL ? sl_min_u64(t.loaded, READING_BYTES) : t.loaded;
    uint64_t work = sl_max_u64((uint64_t)training, (uint64_t)evaluation);
    uint64_t kept =
        (uint64_t)(portion(s.pes, (double)t.partials) + portion(s.steps, (double)t.exchange)) + t.model + t.factors;
    return (struct sl_rank_need){.memory = (uint64_t)data + kept + sl_max_u64(loaded, work) + MESSAGE_BYTES +
                                           PROCESS_BYTES + n_workers * WORKER_BYTES,
                                 .untouched = (uint64_t)(all - fmin(tables, all))};
}

/* ---- one GPU ---- */

#define CHUNKS_AT_WORK 4   /* of an evaluation: one computes, one is in StarPU's pipeline, two are transferred */
#define GPU_MODEL_COPIES 6 /* weights, two moments, gradient sum, room for copies */

/* A dataset with the members for the estimates above. */
static struct sl_dataset outline_of(const struct sl_shards *shards)
{
    static float some;
    return (struct sl_dataset){
        .graph = {.n_vertices = shards->n_vertices, .n_edges = shards->partition->graph.n_edges},
        .train = {.n = shards->n_train},
        .features = {.n_columns = shards->n_features, .dense.data = shards->is_sparse ? NULL : &some},
        .targets = shards->targets};
}

/* Edges, targets and split of n_parts of G parts, and the ids of all vertices in both orders. */
static double part_bytes(const struct sl_shards *shards, uint32_t n_parts)
{
    double n = shards->n_vertices;
    double sparse = shards->is_sparse ? 8 * ((double)shards->sparse_first[shards->n_parts] + n) : 0;
    double targets = SL_TARGET_BYTES * (double)shards->targets.width * n;
    double parts = 9 * n + targets + 4 * (double)shards->partition->graph.n_edges + sparse;
    return fmin(1, PART_SHARE * n_parts / shards->n_parts) * parts + 12 * n;
}

/* Rows of an evaluation at the widest layer: all input rows, on every GPU; all output rows; working rows of the
 * chunks in progress. row_element: bytes of a number in the input rows. The other rows are counted as sl_real, an
 * upper bound. */
static double gpu_evaluation_bytes(const struct sl_model *model, size_t row_element, double n)
{
    double n_at_work = fmin(n, (double)CHUNKS_AT_WORK * (1 << SL_EVALUATE_GPU_SHIFT));
    double bytes = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        bool own = layer->activates_input || layer->kind->reads_first ||
                   !sl_layer_aggregates(layer); /* has further rows of its input width */
        double read = sl_if_so(sl_layer_aggregates(layer), layer->evaluation.travels);
        double work =
            (layer->evaluation.project_first ? 0 : layer->n_in) + (own ? 1.25 * layer->n_in : 0) + 1.25 * layer->n_out;
        double made = layer->n_out * n + (work + layer->n_heads) * n_at_work;
        bytes = fmax(bytes, read * n * (double)row_element + made * sizeof(sl_real));
    }
    return bytes;
}

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus)
{
    struct sl_dataset outline = outline_of(shards);
    struct sl_settings cached = *settings;
    uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* per GPU */
    double share = (double)n_pes / settings->pes;
    double parts = part_bytes(shards, sl_min_u32(n_pes, shards->n_parts));
    struct sl_reach b = sl_reach_bound(settings, &outline);
    bool sparse;
    struct sl_model model = outline_model(settings, &outline, &sparse);
    double partials = share * partial_bytes(settings, &model, shards->n_vertices);
    double weights = GPU_MODEL_COPIES * parameter_bytes(&model, 0) + partials;
    double copies = n_gpus > 1 ? 2 : 1; /* of exchanged rows: packed at the sender, and received */
    if (settings->feature_cache == SL_FEATURE_CACHE_AUTO) {
        /* This estimate decides on the cache. Assume a cache: then a step gathers all its input rows. */
        cached.feature_cache = 1;
    }
    struct sl_row_basis basis = {.settings = &cached,
                                 .model = &model,
                                 .reach = &b,
                                 .n_vertices = shards->n_vertices,
                                 .n_workers = settings->pes,
                                 .n_per_epoch = steps_per_epoch(settings, &outline),
                                 .sparse = shards->is_sparse};
    struct sl_blocks kept;
    struct sl_blocks passing;
    sl_row_need_step(&basis, &kept, &passing);
    struct sl_memory_run run = {.reach = b, .team = 1, .n_workers = settings->pes};
    double rows = share * (rows_bytes(&kept) + rows_bytes(&passing) + copies * exchange_bytes(settings, &model, &run));
    double training = CLASS_SHARE * (parts + weights + PART_SHARE * rows);
    double evaluation =
        CLASS_SHARE *
        (parts + gpu_evaluation_bytes(&model, sl_dtype_size(sl_settings_row_dtype(settings)), shards->n_vertices));
    return (struct sl_gpu_need){.training = (uint64_t)training + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)evaluation + SL_GPU_PIECES_BYTES};
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
