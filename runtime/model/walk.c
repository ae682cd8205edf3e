/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Walks over declared rows. */
#include "runtime/model/walk.h"

#include <math.h>

#include "runtime/model/rows.h"
#include "support/minmax.h"

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
    add_split(w, &split, row_bytes, share, kept, to);
    if (w->fewer[by].n_chunks > 0) {
        split = sl_split_first(&w->fewer[by], w->split[level].n_rows);
        add_split(w, &split, row_bytes, share, kept, to);
    }
}

/* ---- the life of rows ---- */

/* The times of a slot in a pass of L layers: i in layer i's forward pass, L between the passes, 2 L - i in layer i's
 * backward pass, 2 L + 1 afterwards. */
struct life {
    uint32_t first, last; /* alive from .. to */
    uint32_t again, end;  /* and once more, if the backward pass computes the rows again */
    double share;         /* of the slot's rows that are alive at a time */
};

#define NEVER UINT32_MAX

static uint32_t n_layers_of(const struct sl_walk *w)
{
    return w->training ? w->model->n_layers : w->model->n_vertex_layers;
}

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
    bool begun = sl_layer_aggregates(&w->model->layer[i]) && order->project_first && role == (int)sum;
    return travels(w, i, role) || begun;
}

/* Whether the first layer's sums need no weight. Such sums are computed as soon as the features are gathered, and
 * are counted with the features. */
static bool sums_ahead(const struct sl_walk *w, uint32_t i, int role)
{
    const struct sl_layer *layer = &w->model->layer[i];
    return i == 0 && role == SL_ROWS_SUM && w->ahead > 0 && sl_layer_aggregates(layer) &&
           !layer->training.project_first && !layer->activates_input && !layer->learns_epsilon;
}

/* The part of a slot's chunks that is in progress at a time. */
static double in_hand(const struct sl_walk *w, const struct sl_layer_row *row)
{
    return fmin(1, w->in_hand / (w->n_pes / w->n_slots * w->split[row->level].n_chunks));
}

/* The gradient of the output exists while the layer above runs. If it dies chunk by chunk, it is dead when the
 * gradient of the input is made. Gradients that other slots read stay. */
static void gradient_life(const struct sl_walk *w, uint32_t i, int role, struct life *life)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const struct sl_layer_row *row = &layer->training.row[role];
    const uint32_t n = n_layers_of(w);
    const bool by_chunk = row->end == SL_UNTIL_CHUNK;
    bool returns = sl_layer_aggregates(layer) && role == (w->rounds ? SL_ROWS_GBACK : (int)layer->training.returning);
    life->first = life->last = 2 * n - i;
    if (role == SL_ROWS_GH) {
        life->first--;
        life->last -= by_chunk;
    } else if (role == SL_ROWS_GINITIAL) {
        life->first = n + 1;
    } else if (role == SL_ROWS_GZ && layer->last) {
        life->first = n;
    } else if (by_chunk) {
        life->share = in_hand(w, row);
    } else if (role == SL_ROWS_GBACK && !w->rounds) {
        life->share = 0;
    }
    if (returns && w->in_place) {
        life->last = NEVER;
    }
}

/* In an evaluation rows pass from sum to sum chunk by chunk. Whole are the rows that sums wait for, and inputs that are
 * read again after the sum. */
static void evaluated_life(const struct sl_walk *w, uint32_t i, int role, struct life *life)
{
    const struct sl_layer *layer = &w->model->layer[i];
    const struct sl_layer *next = i + 1 < n_layers_of(w) ? layer + 1 : NULL;
    bool whole = waits(w, i, role) || (layer->last && role == SL_ROWS_Z) || life->first < i;
    if (role == SL_ROWS_H && next != NULL) {
        bool read_again = i == 0 && next->kind->reads_first;
        whole = whole || waits(w, i + 1, SL_ROWS_INPUT) || next->activates_input || next->residual || read_again;
        life->last = read_again ? n_layers_of(w) : life->last;
    }
    life->share = whole ? 1 : in_hand(w, &layer->evaluation.row[role]);
}

/* Rows of the forward pass that the backward pass reads. With segments only outputs that end a segment stay, and the
 * first output if all layers read it. */
static void trained_life(const struct sl_walk *w, uint32_t i, int role, struct life *life)
{
    const uint32_t n = n_layers_of(w);
    const bool output = role == SL_ROWS_H && i + 1 < n;
    const uint32_t dies = 2 * n - i - output;
    bool read_later = order_of(w, i)->row[role].end != SL_UNTIL_FORWARD;
    bool stays =
        w->segment == 0 || (output && ((i + 1) % w->segment == 0 || (i == 0 && w->model->layer[1].kind->reads_first)));
    if (read_later && stays) {
        life->last = dies;
    } else if (read_later) {
        life->again = 2 * n - sl_min_u32(n - 1, i / w->segment * w->segment + w->segment - 1);
        life->end = dies;
    }
    if (w->in_place && (travels(w, i, role) || (output && travels(w, i + 1, SL_ROWS_INPUT)))) {
        life->last = NEVER;
    }
}

static struct life life_of(const struct sl_walk *w, uint32_t i, int role)
{
    const struct sl_layer *layer = &w->model->layer[i];
    struct life life = {.first = i - (i > 0 && waits(w, i, role)), .last = i, .again = NEVER, .share = 1};
    if (role >= SL_ROWS_GH) {
        gradient_life(w, i, role, &life);
        return life;
    }
    if (role == SL_ROWS_SUM && layer->kind->reads_first) {
        life.first = 0; /* start values from the first layer's output: free workers compute them early */
    }
    life.last += role == SL_ROWS_H && i + 1 < n_layers_of(w);
    if (w->training) {
        trained_life(w, i, role, &life);
    } else {
        evaluated_life(w, i, role, &life);
    }
    return life;
}

/* ---- moments ---- */

#define ALWAYS UINT32_MAX /* all rows, at whatever time */

static void add_role(const struct sl_walk *w, uint32_t i, int role, double share, bool kept, struct sl_blocks *to)
{
    const struct sl_layer_row *row = &order_of(w, i)->row[role];
    double bytes = row->width * (double)sl_dtype_size(row->dtype);
    add_rows(w, row->level, row->level, bytes, share, kept, to);
}

/* Add the rows of n slots at a time. */
static void add_slots(const struct sl_walk *w, uint32_t time, double n, bool kept, struct sl_blocks *to)
{
    for (uint32_t i = 0; n > 0 && i < n_layers_of(w); i++) {
        for (int role = 0; role < (w->training ? SL_N_ROLES : SL_ROWS_GH); role++) {
            const struct life life = life_of(w, i, role);
            bool alive = (life.first <= time && time <= life.last) || (life.again <= time && time <= life.end);
            double share = time == ALWAYS && life.share > 0 ? 1 : life.share * alive;
            if (!sums_ahead(w, i, role)) {
                add_role(w, i, role, share * n / w->n_slots, kept, to);
            }
        }
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

static void add_packed(const struct sl_walk *w, struct sl_blocks *to)
{
    for (uint32_t i = 0; w->n_packed > 0 && i < n_layers_of(w); i++) {
        const struct sl_layer *layer = &w->model->layer[i];
        double bytes = layer->training.travels * (double)sl_dtype_size(w->row_dtype);
        add_rows(w, layer->from, layer->from, sl_layer_aggregates(layer) ? bytes : 0, w->n_packed, false, to);
    }
}

/* The last slot runs forward while all others are between the passes. Then n_back slots run backward. A slot follows
 * the slot before it by a layer, or by a segment. */
void sl_walk(const struct sl_walk *w, struct sl_blocks *pool)
{
    const uint32_t n = n_layers_of(w);
    const uint32_t n_back = (uint32_t)fmin(w->n_back, w->n_slots);
    const uint32_t lag = sl_max_u32(1, w->segment);
    const uint32_t end = w->training ? 2 * n + (n_back - 1) * lag : n - 1;
    for (uint32_t t = 0; t <= end; t++) {
        struct sl_blocks alive = {{0}};
        add_slots(w, n, w->n_slots - n_back, false, &alive);
        for (uint32_t k = 0; k < n_back; k++) {
            uint32_t at = t - sl_min_u32(t, k * lag);
            at = k > 0 ? sl_max_u32(at, n) : at;
            add_slots(w, sl_min_u32(at, 2 * n + 1), 1, false, &alive);
        }
        add_packed(w, &alive);
        if (t == 0 && !w->training) {
            add_ahead(w, false, 1, &alive);
        }
        serve(&alive, w->near, pool);
    }
    add_ahead(w, false, w->ahead, pool);
}

void sl_walk_kept(const struct sl_walk *w, struct sl_blocks *out)
{
    add_ahead(w, true, w->ring, out);
    add_slots(w, ALWAYS, w->n_slots * w->ring, true, out);
}
