/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Walks over declared rows. */
#include "runtime/model/walk.h"

#include <math.h>

#include "runtime/model/rows.h"
#include "support/minmax.h"

/* ---- blocks ---- */

static double block_bytes(unsigned class)
{
    return (double)(8 + class % 8) * exp2((int)(class / 8) - 3);
}

double sl_blocks_bytes(const struct sl_blocks *blocks)
{
    double bytes = 0;
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        bytes += blocks->n[c] * block_bytes(c);
    }
    return bytes;
}

#define HANDLE_BYTES 4096 /* StarPU's record of a handle */

double sl_blocks_with_handles(const struct sl_blocks *blocks)
{
    double bytes = sl_blocks_bytes(blocks);
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        bytes += blocks->n[c] * HANDLE_BYTES;
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

/* Add the blocks of a share of the rows. */
static void add_split(const struct sl_walk *w, const struct sl_split *split, double row_bytes, double share, bool kept,
                      struct sl_blocks *to)
{
    double room = split->n_chunks > 1 ? exp2(split->shift) : split->n_rows;
    double n = (split->n_chunks + split->n_rows / room) / 2; /* the last chunk may lie in a block for a full chunk */
    size_t block;
    if (split->n_rows == 0 || row_bytes == 0 || (room * row_bytes <= w->kept) != kept) {
        return;
    }
    if (kept) {
        n = split->n_chunks;
        room += n == 1 ? room / 8 + 1 : 0; /* a single chunk has an eighth to spare */
    }
    unsigned class = sl_pool_class((size_t)(room * row_bytes), &block);
    if (w->near) {
        n *= room * row_bytes / (double)block; /* its untouched pages take no memory */
    }
    to->n[class] += share * w->n_pes * n;
}

/* Add a share of the rows of `level`, cut into chunks like level `by`. */
static void add_rows(const struct sl_walk *w, uint32_t level, uint32_t by, double row_bytes, double share, bool kept,
                     struct sl_blocks *to)
{
    struct sl_split split = sl_split_first(&w->split[by], w->split[level].n_rows);
    struct sl_split fewer = sl_split_first(&w->fewer[by], w->fewer[level].n_rows);
    add_split(w, &split, row_bytes, share, kept, to);
    add_split(w, &fewer, row_bytes, share, kept, to);
}

/* ---- the life of rows ---- */

/* Where a slot is: before, in, or after its backward pass through a layer. */
struct place {
    uint32_t layer;
    enum { FORWARD, PARKED, BACKWARD, PASSED } at;
};

static const struct sl_layer_order *order_of(const struct sl_walk *w, uint32_t i)
{
    return w->training ? &w->model->layer[i].training : &w->model->layer[i].evaluation;
}

static bool travels(const struct sl_walk *w, uint32_t i, int role)
{
    return sl_layer_aggregates(&w->model->layer[i]) && role == (int)order_of(w, i)->travelling;
}

/* Whether layer i's sums wait for all rows of a role: for the travelling rows and, if sums have start values, for
 * the rows that the sums are added to. */
static bool waits(const struct sl_walk *w, uint32_t i, int role)
{
    const struct sl_layer_order *order = order_of(w, i);
    enum sl_role sum = order->row[SL_ROWS_T].width > 0 ? SL_ROWS_T : SL_ROWS_Z;
    return travels(w, i, role) ||
           (sl_layer_aggregates(&w->model->layer[i]) && order->project_first && role == (int)sum);
}

/* Whether the backward pass computes the rows again, unless the segment of layer i is in hand. */
static bool computed_again(const struct sl_walk *w, uint32_t i, int role, const struct place *place)
{
    bool ends = i + 1 == w->model->n_layers || (i + 1) % w->segment == 0;
    bool here = place->at == BACKWARD && place->layer / w->segment == i / w->segment;
    bool output = role == SL_ROWS_H && (ends || (i == 0 && w->model->layer[1].kind->reads_first));
    return !here && !output;
}

/* Whether rows of the forward pass are alive after their layer, until its backward pass. */
static bool stays(const struct sl_walk *w, uint32_t i, int role, const struct place *place)
{
    bool history = w->n_slots > 1 && !w->packs; /* other slots read travelling rows in place, in later epochs, too */
    bool sent =
        travels(w, i, role) || (role == SL_ROWS_H && i + 1 < w->model->n_layers && travels(w, i + 1, SL_ROWS_INPUT));
    if (history && sent) {
        return true;
    }
    bool behind = place->at == PASSED ||
                  (place->at == BACKWARD && (i > place->layer || (i == place->layer && role == SL_ROWS_H)));
    if (behind || order_of(w, i)->row[role].end == SL_UNTIL_FORWARD) {
        return false;
    }
    return w->segment == 0 || !computed_again(w, i, role, place);
}

/* The fraction of the chunks that are in progress at a time. */
static double in_hand(const struct sl_walk *w, uint32_t i, int role)
{
    return fmin(1, w->in_hand / (w->n_pes / w->n_slots * w->split[order_of(w, i)->row[role].level].n_chunks));
}

/* Rows of layer i while layer `at` runs forward. In an evaluation rows pass from sum to sum chunk by chunk. Whole are
 * the rows that sums wait for, of this layer and the next, and inputs that are read again after the sum. */
static double forward_share(const struct sl_walk *w, uint32_t i, int role, uint32_t at)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const struct sl_layer *next = i + 1 < w->model->n_layers ? layer + 1 : NULL;
    bool whole = w->training || (layer->last && role == SL_ROWS_Z);
    bool here = at == i;
    if (waits(w, i, role)) {
        return at == i || at + 1 == i;
    }
    if (layer->kind->reads_first && role == SL_ROWS_SUM && at < i) {
        return 1; /* start values from the first layer's output: free workers compute them early, for all layers */
    }
    if (role == SL_ROWS_H && next != NULL) {
        here = at == i || at == i + 1 || (i == 0 && next->kind->reads_first);
        whole = whole || waits(w, i + 1, SL_ROWS_INPUT) || next->activates_input || next->residual || at > i + 1;
    }
    if (here) {
        return whole ? 1 : in_hand(w, i, role);
    }
    return 0;
}

/* Gradients of layer i: at its backward pass and, if other slots read them, after it. The gradient of the output
 * exists while the layer above runs; later it dies chunk by chunk. */
static double backward_share(const struct sl_walk *w, uint32_t i, int role, const struct place *place)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const bool aggregates = sl_layer_aggregates(layer);
    bool read_later = w->n_slots > 1 && !w->packs && aggregates &&
                      role == (w->rounds ? SL_ROWS_GBACK : (int)layer->training.returning);
    if ((role == SL_ROWS_GBACK && !w->rounds) || place->at < BACKWARD) {
        return place->at == PARKED && layer->last && role == SL_ROWS_GZ;
    }
    if (place->at == PASSED || i > place->layer) {
        return read_later;
    }
    if (role == SL_ROWS_GINITIAL || (role == SL_ROWS_GH && i + 1 == place->layer)) {
        return true;
    }
    if (i == place->layer && layer->training.row[role].end == SL_UNTIL_CHUNK) {
        return role == SL_ROWS_GH ? 0 : in_hand(w, i, role); /* GH is dead when the input's gradient is made */
    }
    return i == place->layer;
}

/* Whether the first layer's sums need no weight. Such sums are computed as soon as the features are gathered. */
static bool sums_ahead(const struct sl_walk *w, uint32_t i, int role)
{
    const struct sl_layer *layer = &w->model->layer[i];
    return i == 0 && role == SL_ROWS_SUM && w->ahead > 0 && sl_layer_aggregates(layer) &&
           !layer->training.project_first && !layer->activates_input && !layer->learns_epsilon;
}

/* The fraction of a slot's rows that are alive. */
static double alive_share(const struct sl_walk *w, uint32_t i, int role, const struct place *place)
{
    if (sums_ahead(w, i, role)) {
        return 0; /* counted with the features */
    }
    if (role >= SL_ROWS_GH) {
        return w->training ? backward_share(w, i, role, place) : 0;
    }
    double share = place->at == FORWARD ? forward_share(w, i, role, place->layer) : 0;
    bool after = place->at != FORWARD || i < place->layer;
    if (w->training && after && stays(w, i, role, place)) {
        share = 1;
    }
    return share;
}

/* ---- moments ---- */

static void add_role(const struct sl_walk *w, uint32_t i, int role, double share, bool kept, struct sl_blocks *to)
{
    const struct sl_layer_row *row = &order_of(w, i)->row[role];
    double bytes = row->width * (double)sl_row_bytes(row->dtype, w->stored);
    add_rows(w, row->level, row->level, bytes, share, kept, to);
}

/* Add the rows of n slots at a place. */
static void add_slots(const struct sl_walk *w, const struct place *place, double n, struct sl_blocks *to)
{
    for (uint32_t i = 0; n > 0 && i < w->model->n_layers; i++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            double share = alive_share(w, i, role, place) * n / w->n_slots;
            if (share > 0) {
                add_role(w, i, role, share, false, to);
            }
        }
    }
}

static void add_packed(const struct sl_walk *w, struct sl_blocks *to)
{
    for (uint32_t i = 0; w->packs && i < w->model->n_layers; i++) {
        const struct sl_layer *layer = &w->model->layer[i];
        double bytes = layer->training.travels * (double)w->stored;
        add_rows(w, layer->from, layer->from, sl_layer_aggregates(layer) ? bytes : 0, w->n_packed, false, to);
    }
}

/* Add n copies of the features that a pass gathers, and of the sums computed from them without a weight. */
static void add_ahead(const struct sl_walk *w, bool kept, double n, struct sl_blocks *to)
{
    add_rows(w, w->gathered, w->model->layer[0].from, w->feature_bytes, n, kept, to);
    if (sums_ahead(w, 0, SL_ROWS_SUM)) {
        add_role(w, 0, SL_ROWS_SUM, n, kept, to);
    }
}

/* The backward passes of n_back slots. A slot follows the slot before it by a layer, or by a segment. */
static void walk_back(const struct sl_walk *w, struct sl_blocks *pool)
{
    const uint32_t n_layers = w->model->n_layers;
    const uint32_t lag = w->segment > 0 ? w->segment : 1;
    const uint32_t n_back = (uint32_t)fmin(w->n_back, w->n_slots);
    for (uint32_t t = 0; t < n_layers + (n_back - 1) * lag; t++) {
        const struct place parked = {0, PARKED};
        struct sl_blocks alive = {{0}};
        add_slots(w, &parked, w->n_slots - n_back, &alive);
        for (uint32_t k = 0; k < n_back; k++) {
            uint32_t done = t - sl_min_u32(t, k * lag);
            struct place place = {n_layers - 1 - sl_min_u32(done, n_layers - 1), BACKWARD};
            if (t < k * lag || done >= n_layers) {
                place.at = done >= n_layers ? PASSED : PARKED;
            }
            add_slots(w, &place, 1, &alive);
        }
        add_packed(w, &alive);
        serve(&alive, w->near, pool);
    }
}

void sl_walk(const struct sl_walk *w, struct sl_blocks *pool)
{
    const struct place parked = {0, PARKED};
    for (uint32_t i = 0; i < w->model->n_layers; i++) {
        const struct place place = {i, FORWARD};
        struct sl_blocks alive = {{0}};
        add_slots(w, &parked, w->training ? w->n_slots - 1 : 0, &alive);
        add_slots(w, &place, 1, &alive);
        add_packed(w, &alive);
        if (i == 0 && !w->training && travels(w, 0, SL_ROWS_INPUT)) {
            add_ahead(w, false, 1, &alive);
        }
        serve(&alive, w->near, pool);
    }
    if (w->training) {
        walk_back(w, pool);
    }
    add_ahead(w, false, w->ahead, pool);
}

void sl_walk_kept(const struct sl_walk *w, struct sl_blocks *out)
{
    add_ahead(w, true, w->ring, out);
    for (uint32_t i = 0; i < w->model->n_layers; i++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            bool there = (role != SL_ROWS_GBACK || w->rounds) && !sums_ahead(w, i, role);
            add_role(w, i, role, there ? w->ring : 0, true, out);
        }
    }
}

void sl_walk_whole(const struct sl_walk *w, struct sl_blocks *pool)
{
    struct sl_blocks alive = {{0}};
    for (uint32_t i = 0; i < w->model->n_layers; i++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            bool there = role != SL_ROWS_GBACK || w->rounds;
            add_role(w, i, role, there ? 1 / w->n_pes : 0, false, &alive);
        }
    }
    serve(&alive, w->near, pool);
}
