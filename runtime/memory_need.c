/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of array sizes. */
#include "runtime/memory_need.h"

#include <math.h>

#include "codelets/rows.h"
#include "runtime/pool.h"
#include "runtime/replicas.h"
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

static double model_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    double entries = 0;
    for (uint32_t i = 0; i < s->layers; i++) {
        double in = i == 0 ? dataset->features.n_columns : s->hidden;
        double out = i + 1 < s->layers ? s->hidden : dataset->n_classes;
        entries += 2 * in * out + 3 * out;
    }
    double n_replicas = sl_replicas_count(s);
    double copies = 4 + 2 + (double)s->pes * s->chunks;  /* state, best and file copies, partials */
    copies += n_replicas > 1 ? n_replicas * (5 + 3) : 0; /* replicas: state and spare; a checkpoint's copies */
    return entries * sizeof(sl_real) * copies;
}

/* What PEs keep to exchange rows and their gradients by: of a hop at most SL_KEPT_BYTES from each to each other, and no more than
 * a quarter over what they can ask for. */
static double exchange_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b = bound_step(s, dataset);
    double peers = s->group_size - 1;
    double bytes = 0;
    for (uint32_t hop = 0; hop < s->layers; hop++) {
        double in = hop + 1 == s->layers ? dataset->features.n_columns : s->hidden;
        double row = fmin(in, width(s, dataset, hop)) * sizeof(sl_real); /* the narrower side of a layer travels */
        double rows = fmin(b.edges[hop], peers * b.vertices[hop + 1]);
        double handles = s->group_size * peers;
        bytes += 2 * fmin(1.25 * rows * row, handles * SL_KEPT_BYTES) + 2 * handles * HANDLE_BYTES;
    }
    return bytes * s->depth * s->pes / s->group_size;
}

static double training_bytes(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct bound b = bound_step(s, dataset);
    double groups = (double)s->pes / s->group_size;
    double rows = 0;
    double ids = 0;
    for (uint32_t level = 0; level <= s->layers; level++) { /* z, h and their gradients, the mean, a byte of gate */
        double arrays = level == s->layers ? 1 : 5.25;
        rows += b.vertices[level] * width(s, dataset, level) * arrays * sizeof(sl_real);
        ids += b.vertices[level] * 16 + (level < s->layers ? b.edges[level] * 8 : 0);
    }
    return groups * (rows + s->depth * ids) + s->depth * (double)s->pes * dataset->graph.n_vertices * 0.2;
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
    double cache = f->dense != NULL ? fmin(settings->feature_cache, n) * settings->pes * (4 * f->n_columns + 16) : 0;
    double kept = model_bytes(settings, dataset) + exchange_bytes(settings, dataset);
    return (uint64_t)(graph + table + cache + kept + most) + (32u << 20);
}
