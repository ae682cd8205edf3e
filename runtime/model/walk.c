/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Walks over declared rows. */
#include "runtime/model/walk.h"

#include <math.h>

#include "runtime/model/layer_rows.h"

/* ---- blocks ---- */

double sl_blocks_bytes(const struct sl_blocks *blocks)
{
    double bytes = 0;
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        bytes += blocks->n[c] * ((double)(8 + c % 8) * exp2((int)(c / 8) - 3) + SL_HANDLE_BYTES);
    }
    return bytes;
}

/* Let the pool serve all blocks that are alive. The pool grows by the blocks that no free block serves. */
static void serve(const struct sl_blocks *alive, bool near, struct sl_blocks *pool)
{
    struct sl_blocks left = *pool;
    for (unsigned c = SL_POOL_CLASSES; c-- > 0;) {
        double n = alive->n[c];
        for (unsigned k = c; n > 0 && k <= sl_pool_largest(c, near) && k < SL_POOL_CLASSES; k++) {
            double served = fmin(n, left.n[k]);
            left.n[k] -= served;
            n -= served;
        }
        pool->n[c] += n;
    }
}

/* Add n copies of all rows of a split. Small chunks keep their handles. kept: add only if the chunks are small;
 * otherwise only if they are not. */
static void add_split(const struct sl_walk *w, const struct sl_split *split, double row_bytes, double n, bool kept,
                      struct sl_blocks *to)
{
    double room = split->n_chunks > 1 ? exp2(split->shift) : split->n_rows;
    double n_blocks = split->n_chunks;
    size_t block;
    if (split->n_rows == 0 || row_bytes == 0 || (room * row_bytes <= w->kept) != kept) {
        return;
    }
    if (!kept) {
        n_blocks = (n_blocks + split->n_rows / room) / 2; /* other steps may have a chunk less */
    }
    to->n[sl_pool_class((size_t)(room * row_bytes), &block)] += n * w->n_pes * n_blocks;
}

static void add_rows(const struct sl_walk *w, uint32_t level, double row_bytes, double n, bool kept,
                     struct sl_blocks *to)
{
    add_split(w, &w->split[level], row_bytes, n, kept, to);
    add_split(w, &w->fewer[level], row_bytes, n, kept, to);
}

/* ---- the life of rows ---- */

static uint32_t n_layers_of(const struct sl_walk *w)
{
    return w->training ? w->model->n_layers : w->model->n_vertex_layers;
}

static const struct sl_layer_order *order_of(const struct sl_walk *w, uint32_t i)
{
    return w->training ? &w->model->layer[i].training : &w->model->layer[i].evaluation;
}

/* The fraction of a layer's rows that is alive in layer j's backward pass. The gradient of an output is made while the
 * layer above runs. With segments the forward pass leaves the last output of each segment. It also leaves the first
 * output of the model if all layers read it. A segment computes its other rows again when it runs backward. */
static double trained_alive(const struct sl_walk *w, uint32_t i, int role, uint32_t j)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const enum sl_row_end end = layer->training.row[role].end;
    const bool output = role == SL_ROWS_H && i + 1 < n_layers_of(w);
    if (role >= SL_ROWS_GH) {
        bool long_lived = role == SL_ROWS_GINITIAL || (role == SL_ROWS_GZ && layer->last);
        bool lives = role == SL_ROWS_GH ? j == i + 1 : j == i || (long_lived && j > i);
        bool half = role != SL_ROWS_GH && end == SL_UNTIL_CHUNK; /* of the chunks, on average */
        return half ? lives / 2.0 : lives;
    }
    bool early = role == SL_ROWS_SUM && layer->kind->reads_first; /* free workers compute these sums */
    bool stays = w->segment == 0 || j / w->segment == i / w->segment || early ||
                 (output && ((i + 1) % w->segment == 0 || (i == 0 && layer[1].kind->reads_first)));
    return end != SL_UNTIL_FORWARD && j >= i + output && stays;
}

/* The fraction of a layer's rows that is alive in layer j of an evaluation. Most rows pass from sum to sum chunk by
 * chunk. Four kinds are whole. A sum waits for all travelling rows. A sum is added to its begun rows. The model's
 * outputs stay. Inputs stay if the layer reads them again after the sum. */
static double evaluated_alive(const struct sl_walk *w, uint32_t i, int role, uint32_t j)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const struct sl_layer_order *order = &layer->evaluation;
    const bool output = role == SL_ROWS_H && i + 1 < n_layers_of(w);
    const bool early = role == SL_ROWS_SUM && layer->kind->reads_first; /* free workers compute these sums */
    bool whole = early || (role == SL_ROWS_Z && layer->last);
    if (output) {
        whole = layer[1].evaluation.travelling != SL_ROWS_PROJECTED || layer[1].residual;
    } else if (sl_layer_aggregates(layer)) {
        bool begun = order->project_first && (role == SL_ROWS_Z || role == SL_ROWS_T);
        whole = whole || begun || role == (int)order->travelling;
    }
    bool lives = j == i || (output && j == i + 1) || (early && j < i);
    double in_hand = w->in_hand / (w->n_pes * w->split[order->row[role].level].n_chunks);
    return lives * (whole ? 1 : fmin(1, in_hand));
}

/* Copies of a layer's rows in layer j of a pass. In training, all slots but two wait between the passes. */
static double alive(const struct sl_walk *w, uint32_t i, int role, uint32_t j)
{
    const double n_back = fmin(2, w->n_slots);
    if (role == SL_ROWS_GBACK && !w->rounds) {
        return 0;
    }
    if (!w->training) {
        return role < SL_ROWS_GH ? evaluated_alive(w, i, role, j) : 0;
    }
    return (n_back * trained_alive(w, i, role, j) + (w->n_slots - n_back) * trained_alive(w, i, role, n_layers_of(w))) /
           w->n_slots;
}

/* ---- moments ---- */

#define EVER UINT32_MAX

/* Add all rows of a moment, or those of all moments. */
static void add_layers(const struct sl_walk *w, uint32_t j, bool kept, struct sl_blocks *to)
{
    for (uint32_t i = 0; i < n_layers_of(w); i++) {
        const struct sl_layer *layer = &w->model->layer[i];
        for (int role = 0; role < SL_N_ROLES; role++) {
            const struct sl_layer_row *row = &order_of(w, i)->row[role];
            double n = alive(w, i, role, j);
            if (j == EVER) {
                n = role != SL_ROWS_GBACK || w->rounds;
            } else if (i == 0 && role == SL_ROWS_SUM && w->ahead > 0) {
                n = w->ahead; /* sums that need no weight are computed as soon as the features are gathered */
            }
            add_rows(w, row->level, row->width * (double)sl_dtype_size(row->dtype), n, kept, to);
        }
        double packed = layer->training.travels * (double)sl_dtype_size(layer->row_dtype);
        add_rows(w, layer->from, sl_layer_aggregates(layer) ? packed : 0, w->n_packed, kept, to);
    }
}

void sl_walk(const struct sl_walk *w, struct sl_blocks *pool)
{
    for (uint32_t j = n_layers_of(w) + w->training; j-- > 0;) {
        struct sl_blocks needed = {{0}};
        add_layers(w, j, false, &needed);
        if (w->training || j == 0) { /* an evaluation gathers all rows before its first sum or product */
            add_rows(w, w->gathered, w->feature_bytes, w->training ? w->ahead : 1, false, &needed);
        }
        serve(&needed, w->rounds || w->n_packed > 0, pool); /* as after sl_pool_borrow_near_only */
    }
}

double sl_walk_kept(const struct sl_walk *w)
{
    struct sl_blocks kept = {{0}};
    add_rows(w, w->gathered, w->feature_bytes, 1, true, &kept);
    add_layers(w, EVER, true, &kept);
    return sl_blocks_bytes(&kept);
}
