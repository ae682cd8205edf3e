/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. */
#include "runtime/memory_need.h"

#include <math.h>

#include "codelets/rows.h"
#include "runtime/full.h"
#include "runtime/pool.h"
#include "runtime/replicas.h"
#include "runtime/step.h"
#include "support/real.h"

#define HANDLE_BYTES 4096 /* StarPU's record of one */

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

static double width(const struct sl_settings *s, const struct sl_dataset *dataset, uint32_t level)
{
    if (level == s->layers) {
        return dataset->features.dense != NULL ? dataset->features.n_columns : 0;
    }
    return level == 0 ? dataset->n_classes : s->hidden;
}

/* Entries of all parameters. */
static double model_entries(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    double entries = 0;
    for (uint32_t i = 0; i < s->layers; i++) {
        double in = i == 0 ? dataset->features.n_columns : s->hidden;
        double out = i + 1 < s->layers ? s->hidden : dataset->n_classes;
        entries += 2 * in * out + 3 * out;
    }
    return entries;
}

static double model_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    double n_replicas = sl_replicas_count(s);
    double copies = 4 + 2 + (double)s->pes * s->chunks;  /* state, best and file copies, partials */
    copies += n_replicas > 1 ? n_replicas * (5 + 3) : 0; /* replicas: state and spare; a checkpoint's copies */
    return model_entries(s, dataset) * sizeof(sl_real) * copies;
}

/* What PEs keep to exchange rows and their gradients by: of a hop at most SL_KEPT_BYTES from each to each other, and no more than
 * a quarter over what they can ask for. */
static double exchange_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b = bound_step(s, dataset);
    double peers = s->group_size - 1;
    double kinds = s->transport == SL_TRANSPORT_NCCL ? 4 : 2; /* of handles: struct sl_slot_pe */
    double bytes = 0;
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        double in = hop + 1 == s->layers ? dataset->features.n_columns : s->hidden;
        double row = fmin(in, width(s, dataset, hop)) * sizeof(sl_real); /* the narrower side of a layer travels */
        double rows = fmin(b.edges[hop], peers * b.vertices[hop + 1]);
        double handles = s->group_size * peers;
        bytes += 2 * fmin(1.25 * rows * row, handles * SL_KEPT_BYTES) + kinds * handles * HANDLE_BYTES;
    }
    return bytes * s->depth * s->pes / s->group_size;
}

/* `arrays` arrays of a group's rows at a level: those of the step in hand or, where chunks are small enough to be kept, those of all
 * slots, with an eighth to spare; and the chunks' handles. */
static double level_bytes(const struct sl_settings *s, double n_rows, double row_bytes, double arrays)
{
    double chunks = fmin((double)s->group_size * s->chunks, s->group_size + n_rows / (1 << SL_MIN_CHUNK_SHIFT));
    double kept = fmin(1.125 * n_rows * row_bytes, chunks * SL_KEPT_BYTES);
    return arrays * (fmax(n_rows * row_bytes, s->depth * kept) + s->depth * chunks * HANDLE_BYTES);
}

/* Rows of the step in hand, and those kept. */
static double row_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b = bound_step(s, dataset);
    double groups = (double)s->pes / s->group_size;
    double rows = 0;
    for (uint32_t level = 0; level <= s->layers; level++) { /* z, h, the mean and their gradients, a byte of gate */
        double arrays = level == s->layers ? 1 : 6.25;
        rows += level_bytes(s, b.vertices[level], width(s, dataset, level) * sizeof(sl_real), arrays);
    }
    return groups * rows;
}

static double training_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b = bound_step(s, dataset);
    double groups = (double)s->pes / s->group_size;
    double ids = b.vertices[0] * 16;
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        ids += b.vertices[hop + 1] * 16 + b.edges[hop] * 8;
    }
    return row_bytes(s, dataset) + groups * s->depth * ids +
           s->depth * (double)s->pes * dataset->graph.n_vertices * 0.2;
}

static double evaluation_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    double n = dataset->graph.n_vertices;
    double most = 0;
    for (uint32_t level = s->layers; level > 0;
         level--) { /* input, output, its projection or what chunks in work hold */
        double input = level == s->layers ? 0 : width(s, dataset, level); /* features are read where they are */
        double here = input + 2.25 * width(s, dataset, level - 1);
        most = fmax(most, n * here * sizeof(sl_real));
    }
    return most;
}

uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset)
{
    const struct sl_features *f = &dataset->features;
    double n = dataset->graph.n_vertices;
    double graph = 8 * (n + 1) + 4 * (double)dataset->graph.n_edges + 30 * n;
    double table = f->dense != NULL ? 4 * n * f->n_columns : 8 * ((double)f->offsets[f->n_rows] + n);
    double training = training_bytes(settings, dataset);
    double evaluation = evaluation_bytes(settings, dataset);
    /* What the pool keeps of the one while the other is at work. */
    double work = fmax(training, evaluation) + fmin(fmin(training, evaluation), SL_POOL_KEPT_BYTES);
    /* The dataset as it was loaded goes before the work begins. */
    double most = fmax(graph + table, work);
    double cached =
        settings->feature_cache == SL_FEATURE_CACHE_AUTO ? 0 : settings->feature_cache; /* then it is GPUs' */
    double cache = f->dense != NULL ? fmin(cached, n) * settings->pes * (4 * f->n_columns + 16) : 0;
    double kept = model_bytes(settings, dataset) + exchange_bytes(settings, dataset);
    return (uint64_t)(graph + table + cache + kept + most) + (32u << 20);
}

/* ---- on a GPU ---- */

#define CLASS_SHARE 1.125 /* sizes are rounded up by an eighth at the most */
#define PART_SHARE 1.25   /* the largest part, of the average one */
#define CHUNKS_AT_WORK 4  /* of an evaluation: one computes, its successor is in StarPU's pipeline, others go or come */
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

/* The widest layer's rows, of which every GPU needs all, and what comes of them; mean, z and gates of the chunks at work. */
static double gpu_evaluation_bytes(const struct sl_settings *s, const struct sl_dataset *outline)
{
    double n = outline->graph.n_vertices;
    double n_at_work = fmin(n, (double)CHUNKS_AT_WORK * (1 << SL_EVALUATE_GPU_SHIFT));
    double most = 0;
    for (uint32_t level = s->layers; level > 0; level--) {
        double in = width(s, outline, level);
        double out = width(s, outline, level - 1);
        double mean = in <= out ? in : 0; /* wider rows are projected first */
        most = fmax(most, ((in > 0 ? fmin(in, out) : out) + out) * n + (mean + 1.25 * out) * n_at_work);
    }
    return most * sizeof(sl_real);
}

struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus)
{
    struct sl_dataset outline = outline_of(shards);
    uint32_t n_pes = (settings->pes + n_gpus - 1) / n_gpus; /* of one GPU */
    double share = (double)n_pes / settings->pes;
    double parts = part_bytes(shards, n_pes < shards->n_parts ? n_pes : shards->n_parts);
    double partials = (double)n_pes * settings->chunks;
    double model = model_entries(settings, &outline) * sizeof(sl_real) * (GPU_MODEL_COPIES + partials);
    double copies = n_gpus > 1 ? 2 : 1; /* of what is exchanged: where it is packed and where it has arrived */
    double rows = share * (row_bytes(settings, &outline) + copies * exchange_bytes(settings, &outline));
    double training = CLASS_SHARE * (parts + model + PART_SHARE * rows);
    double evaluation = CLASS_SHARE * (parts + gpu_evaluation_bytes(settings, &outline));
    return (struct sl_gpu_need){.training = (uint64_t)training + SL_GPU_PIECES_BYTES,
                                .evaluation = (uint64_t)evaluation + SL_GPU_PIECES_BYTES};
}
