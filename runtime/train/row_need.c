/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counts of pool blocks. */
#include "runtime/train/row_need.h"

#include <math.h>
#include <string.h>

#include "codelets/aggregate.h"
#include "runtime/full/full.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/rows.h"
#include "runtime/pipe/epoch.h"
#include "tasks/rows.h"

#define UNEVEN 1.05 /* a PE's rows relative to the average of its group: the balance of parts (partition/partition.h) */

/* ---- blocks ---- */

static void add_blocks(struct sl_blocks *to, double bytes, double n)
{
    size_t block;
    to->n[sl_pool_class((size_t)bytes, &block)] += n;
}

static void add_all(struct sl_blocks *to, const struct sl_blocks *from, double times)
{
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        to->n[c] += times * from->n[c];
    }
}

static void take_most(struct sl_blocks *to, const struct sl_blocks *from)
{
    for (unsigned c = 0; c < SL_POOL_CLASSES; c++) {
        to->n[c] = fmax(to->n[c], from->n[c]);
    }
}

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

/* The blocks in `wanted` without a matching block in `there`. */
static struct sl_blocks unserved(const struct sl_blocks *wanted, const struct sl_blocks *there, bool near)
{
    struct sl_blocks left = *there;
    struct sl_blocks missing = {{0}};
    for (unsigned c = SL_POOL_CLASSES; c-- > 0;) {
        double n = wanted->n[c];
        for (unsigned k = c; n > 0 && k <= sl_pool_largest(c, near) && k < SL_POOL_CLASSES; k++) {
            double served = fmin(n, left.n[k]);
            left.n[k] -= served;
            n -= served;
        }
        missing.n[c] = n;
    }
    return missing;
}

double sl_blocks_unserved(const struct sl_blocks *wanted, const struct sl_blocks *there, bool near)
{
    struct sl_blocks missing = unserved(wanted, there, near);
    return sl_blocks_bytes(&missing);
}

/* Add the blocks of another moment. Blocks counted before are free at this moment and serve as far as possible. */
static void add_moment(struct sl_blocks *to, const struct sl_blocks *moment, bool near)
{
    struct sl_blocks missing = unserved(moment, to, near);
    add_all(to, &missing, 1);
}

/* ---- a step ---- */

/* Fraction of a step's input rows still alive while the next step in the same slot gathers. Counted for one PE per
 * worker, because a worker gathers for one PE at a time. */
#define LATE 0.5

/* A count of rows with permanent handles (kept), or of the other rows. */
struct tally {
    const struct sl_row_basis *basis;
    bool kept;
    struct sl_blocks blocks;
};

/* Add the blocks of all PEs for one split. A single chunk with a permanent handle has an eighth to spare. */
static void add_split(struct tally *t, const struct sl_split *split, double row_bytes)
{
    double room = split->n_chunks > 1 ? exp2(split->shift) : split->n_rows;
    bool kept = room * row_bytes <= SL_KEPT_BYTES;
    double missing = split->n_chunks > 1 ? split->n_chunks - split->n_rows / room
                                         : 0;              /* fraction by which the last chunk is short */
    double n = split->n_chunks - (kept ? 0 : missing / 2); /* the pool also uses these blocks for full chunks */
    if (split->n_chunks == 1 && kept) {
        room += room / 8 + 1;
    }
    if (kept == t->kept && row_bytes > 0) {
        add_blocks(&t->blocks, room * row_bytes, t->basis->settings->pes * n);
    }
}

static uint32_t whole_rows(double n)
{
    return (uint32_t)fmin(n, UINT32_MAX);
}

/* Add the rows of `level` of all PEs, cut into chunks like level `by`. If slightly fewer rows give smaller chunks,
 * steps of both kinds will occur, and both are counted. */
static void add_rows_cut(struct tally *t, uint32_t level, uint32_t by, double width, size_t element)
{
    const struct sl_settings *s = t->basis->settings;
    double n_rows = t->basis->reach->vertices[level] / s->group_size;
    double n_cut = t->basis->reach->vertices[by] / s->group_size;
    double uneven = s->group_size > 1 ? UNEVEN : 1;
    struct sl_split most = sl_split_rows(whole_rows(ceil(uneven * n_cut)), s->chunks, SL_MIN_CHUNK_SHIFT);
    struct sl_split least = sl_split_rows(whole_rows(n_cut / UNEVEN), s->chunks, SL_MIN_CHUNK_SHIFT);
    most = sl_split_first(&most, whole_rows(ceil(uneven * n_rows)));
    least = sl_split_first(&least, whole_rows(n_rows / UNEVEN));
    add_split(t, &most, width * (double)element);
    if (least.shift != most.shift && level > 0) {
        add_split(t, &least, width * (double)element);
    }
}

/* Add the rows of `level` of all PEs. */
static void add_rows(struct tally *t, uint32_t level, double width, size_t element)
{
    add_rows_cut(t, level, level, width, element);
}

/* Bytes of a number in rows of --precision. */
static size_t row_element(const struct sl_row_basis *basis)
{
    return sl_dtype_size(sl_settings_row_dtype(basis->settings));
}

/* Whether the first layer's sums need no weight. Such sums are computed as soon as the input rows are gathered. */
static bool sums_ahead(const struct sl_layer *first)
{
    return sl_layer_aggregates(first) && !first->training.project_first && !first->activates_input &&
           !first->learns_epsilon;
}

/* When a step has the rows of a role. */
enum moment {
    AHEAD,    /* before a layer's weights are read */
    KEPT,     /* from the layer's forward pass to its backward pass */
    FORWARD,  /* in the layer's forward pass */
    BACKWARD, /* in the layer's backward pass */
    INITIAL,  /* in the backward pass of all layers that read the first layer again */
    ELSEWHERE /* in runtime/pipe */
};

static enum moment moment_of(const struct sl_layer *layer, int role)
{
    switch (role) {
    case SL_ROWS_GBACK: return ELSEWHERE;
    case SL_ROWS_GINITIAL: return INITIAL;
    case SL_ROWS_SUM: return layer->first && sums_ahead(layer) ? AHEAD : KEPT;
    default: break;
    }
    if (role >= SL_ROWS_GH) {
        return BACKWARD;
    }
    return layer->training.row[role].end == SL_UNTIL_FORWARD ? FORWARD : KEPT;
}

/* Add the layer's rows of a moment. Without permanent handles, rows that die chunk by chunk take no memory of their
 * own. */
static void add_moment_rows(struct tally *t, const struct sl_layer *layer, enum moment moment)
{
    for (int role = 0; role < SL_N_ROLES; role++) {
        const struct sl_layer_row *row = &layer->training.row[role];
        if (moment_of(layer, role) == moment && (t->kept || row->end != SL_UNTIL_CHUNK)) {
            add_rows(t, row->level, row->width, sl_dtype_size(row->dtype));
        }
    }
}

/* Add the rows made before a layer's weights are read. */
static void add_ahead(struct tally *t)
{
    const struct sl_layer *first = &t->basis->model->layer[0];
    if (!t->basis->sparse) {
        uint32_t cache = t->basis->settings->feature_cache;
        bool in_place = first->training.in_place && (cache == 0 || cache == SL_FEATURE_CACHE_AUTO);
        add_rows_cut(t, in_place ? first->level : first->from, first->from, first->n_in, row_element(t->basis));
    }
    add_moment_rows(t, first, AHEAD);
}

/* Rows with permanent handles keep their memory, in every ring slot. */
static void count_kept(const struct sl_row_basis *basis, struct sl_blocks *to)
{
    struct tally t = {.basis = basis, .kept = true};
    add_ahead(&t);
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        for (enum moment moment = KEPT; moment <= INITIAL; moment++) {
            add_moment_rows(&t, &basis->model->layer[i], moment);
        }
    }
    add_all(to, &t.blocks, basis->settings->depth);
}

/* The other rows of one step. Each layer has two moments, forward and backward. A moment adds blocks not served by
 * earlier moments. */
static void count_passing(const struct sl_row_basis *basis, struct sl_blocks *to)
{
    const struct sl_model *model = basis->model;
    struct tally forward = {.basis = basis};
    struct sl_blocks most = {{0}};
    for (uint32_t i = 0; i < model->n_layers; i++) {
        add_moment_rows(&forward, &model->layer[i], KEPT);
        struct tally now = forward;
        add_moment_rows(&now, &model->layer[i], FORWARD);
        add_moment(&most, &now.blocks, false);
        now = forward;
        add_moment_rows(&now, &model->layer[i], BACKWARD);
        add_rows(&now, model->layer[i].from, sl_if_so(i > 0, model->layer[i].n_in), sizeof(sl_real));
        add_moment_rows(&now, &model->layer[0], INITIAL);
        add_moment(&most, &now.blocks, false);
    }
    add_all(to, &most, 1);
}

void sl_row_need_step(const struct sl_row_basis *basis, struct sl_blocks *kept, struct sl_blocks *passing)
{
    struct tally ahead = {.basis = basis};
    memset(kept, 0, sizeof *kept);
    memset(passing, 0, sizeof *passing);
    count_kept(basis, kept);
    count_passing(basis, passing);
    add_ahead(&ahead);
    double late = LATE * fmin(1, basis->n_workers / basis->settings->pes);
    add_all(passing, &ahead.blocks, fmin(basis->settings->depth + late, basis->n_per_epoch));
}

/* ---- the full graph ---- */

/* Whether the rows of a chunk have permanent handles, with an eighth to spare. */
static bool keeps(const struct sl_row_basis *basis, double width, size_t element)
{
    const struct sl_settings *s = basis->settings;
    return sl_pipe_keeps(s, basis->model->n_layers, basis->n_vertices) &&
           ceil(basis->n_vertices / s->pes) * width * (double)element <= SL_KEPT_BYTES;
}

/* True with packed rows or bf16 rows (runtime/pipe/epoch.c). */
bool sl_row_need_near(const struct sl_row_basis *basis)
{
    const struct sl_settings *s = basis->settings;
    bool packs = s->recompute && s->pes > s->ways;
    return s->schedule == SL_SCHEDULE_PIPE && (packs || row_element(basis) == sizeof(sl_bf16));
}

/* Add blocks of a pool in near-only mode (sl_pool_borrow_near_only): only `touched` bytes of a block take memory. */
static void add_near(struct sl_blocks *to, double bytes, double touched, double n)
{
    size_t block;
    unsigned class = sl_pool_class((size_t)bytes, &block);
    to->n[class] += n * fmin(1, touched / (double)block);
}

/* Add a fraction of the rows of all chunks. Each chunk is one PE's and one block. */
static void add_parts(const struct sl_row_basis *basis, double width, size_t element, double share,
                      struct sl_blocks *to)
{
    double pes = basis->settings->pes;
    double bytes = ceil(basis->n_vertices / pes) * width * (double)element;
    bool near = basis->settings->recompute || row_element(basis) == sizeof(sl_bf16);
    /* Blocks pass from chunk to chunk and grow to the largest; --recompute has spare blocks. */
    double touched = basis->settings->recompute ? bytes : UNEVEN * bytes;
    if (width == 0) {
        return;
    }
    if (keeps(basis, width, element)) {
        add_blocks(to, 1.125 * bytes, pes);
    } else if (near) {
        add_near(to, bytes, touched, ceil(share * pes));
    } else {
        add_blocks(to, bytes, ceil(share * pes));
    }
}

/* Alive fractions of the rows of all chunks. */
struct row_shares {
    double outputs; /* of each layer's output */
    double sent;    /* of travelling rows */
    double packed;  /* of boundary rows, sent to other chunks and received */
    double back;    /* of other rows for the backward pass */
};

static double share_of(const struct sl_layer *layer, int role, const struct row_shares *shares)
{
    bool output = role == SL_ROWS_H || (role == SL_ROWS_Z && layer->last);
    bool dies = layer->training.row[role].end == SL_UNTIL_FORWARD;
    if (sl_layer_aggregates(layer) && role == (int)layer->training.travelling) {
        return role == SL_ROWS_PROJECTED && !dies ? fmax(shares->sent, shares->back) : shares->sent;
    }
    if (output) {
        return shares->outputs;
    }
    return dies ? 0 : shares->back;
}

/* Add a layer's rows of the forward pass, and its packed rows. */
static void add_layer(const struct sl_row_basis *basis, const struct sl_layer *layer, const struct row_shares *shares,
                      struct sl_blocks *to)
{
    const size_t stored = row_element(basis);
    for (int role = 0; role < SL_ROWS_GH; role++) {
        const struct sl_layer_row *row = &layer->training.row[role];
        add_parts(basis, row->width, sl_dtype_size(row->dtype), share_of(layer, role, shares), to);
    }
    add_parts(basis, sl_if_so(sl_layer_aggregates(layer), layer->training.travels), stored, shares->packed, to);
}

/* The number of segments with --recompute: evenly long stages, long ones cut again. */
static double n_segments(const struct sl_settings *s, const struct sl_model *model)
{
    return s->stages * ceil(ceil((double)model->n_layers / s->stages) / ceil(sqrt(model->n_layers)));
}

/* The fraction of recomputed rows alive at a time. With several slots: the rows of two slots, but at most one segment
 * of each slot. In exact mode: one segment and the next. */
static double share_again(const struct sl_settings *s, const struct sl_model *model, double slots)
{
    double segments = s->stages + ceil(sqrt(model->n_layers));
    return slots > 1 ? fmin(1 / n_segments(s, model), 2 / slots) : 1 / fmax(1, segments / 2);
}

/* The most arrays of boundary rows at a time. One is for travelling rows, later for their gradients. A second is
 * for the history, or for the sums of the replacing epoch (sl_pipe_keeps_sums). */
static double n_packed(const struct sl_settings *s)
{
    return s->epochs >= s->history_every ? 2 : 1;
}

/* The fraction of the chunks whose gradients of a layer need own blocks. Usually one slot: gradients of other slots
 * lie in blocks of released rows. Blocks of bf16 rows are too small for gradients. Then it is all slots with
 * submitted tasks (sl_pipe_tasks), in each recomputed segment. */
static double share_in_hand(const struct sl_row_basis *basis)
{
    const struct sl_settings *s = basis->settings;
    double segments = s->recompute ? n_segments(s, basis->model) : 1;
    return row_element(basis) == sizeof(sl_bf16) ? fmin(1, segments * (2.0 * s->ways + basis->n_workers) / s->pes)
                                                 : (double)s->ways / s->pes;
}

/* Whether training has the gradients of a role. They are rounded if rows are bf16. */
static bool has_gradient(const struct sl_row_basis *basis, int role)
{
    return role != SL_ROWS_GINITIAL && (role != SL_ROWS_GBACK || row_element(basis) == sizeof(sl_bf16));
}

/* Add gradients: of all chunks if their handles are permanent, otherwise of the chunks in progress. */
static void add_gradient(const struct sl_row_basis *basis, double width, size_t element, struct sl_blocks *all,
                         struct sl_blocks *in_hand)
{
    bool kept = keeps(basis, width, element);
    add_parts(basis, width, element, kept ? 1 : share_in_hand(basis), kept ? all : in_hand);
}

/* Add permanent gradients of all layers and the most other gradients of one layer. With bf16 also travelling
 * gradients. */
static void add_gradients(const struct sl_row_basis *basis, struct sl_blocks *to)
{
    struct sl_blocks passing = {{0}};
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        const struct sl_layer *layer = &basis->model->layer[i];
        struct sl_blocks here = {{0}};
        for (int role = SL_ROWS_GH; role < SL_N_ROLES; role++) {
            const struct sl_layer_row *row = &layer->training.row[role];
            if (has_gradient(basis, role)) {
                add_gradient(basis, row->width, sl_dtype_size(row->dtype), to, &here);
            }
        }
        take_most(&passing, &here);
    }
    add_all(to, &passing, 1);
}

/* Add the blocks of timing (sl_pipe_time): one chunk runs forward and backward alone. Its rows are released, but
 * their blocks stay in the pool. Blocks of gradients fit no bf16 rows, because these are half as large. */
static void add_timed(const struct sl_row_basis *basis, struct sl_blocks *to)
{
    const struct sl_settings *s = basis->settings;
    double one = 1.0 / s->pes;
    struct row_shares shares = {.outputs = one, .sent = one, .back = one};
    struct sl_blocks timed = {{0}};
    if (s->stages == 1 || s->n_stages_cut > 0 || sl_pipe_keeps(s, basis->model->n_layers, basis->n_vertices)) {
        return;
    }
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        const struct sl_layer *layer = &basis->model->layer[i];
        add_layer(basis, layer, &shares, &timed);
        for (int role = SL_ROWS_GH; role < SL_N_ROLES; role++) {
            const struct sl_layer_row *row = &layer->training.row[role];
            if (has_gradient(basis, role)) {
                add_parts(basis, row->width, sl_dtype_size(row->dtype), one, &timed);
            }
        }
    }
    add_moment(to, &timed, sl_row_need_near(basis));
}

double sl_row_need_history(const struct sl_row_basis *basis)
{
    const struct sl_settings *s = basis->settings;
    double columns = 0;
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        if (sl_layer_aggregates(&basis->model->layer[i])) {
            columns += basis->model->layer[i].training.travels;
        }
    }
    bool there = s->schedule == SL_SCHEDULE_PIPE && s->pes > s->ways && s->epochs >= s->history_every;
    return there ? (s->recompute ? basis->boundary : 1) * basis->n_vertices * columns * (double)row_element(basis) : 0;
}

void sl_row_need_pipe(const struct sl_row_basis *basis, struct sl_blocks *out)
{
    const struct sl_settings *s = basis->settings;
    double slots = (double)s->pes / s->ways;
    double again = s->recompute ? share_again(s, basis->model, slots) : 1;
    struct row_shares shares = {.outputs = 1, .sent = slots > 1 ? 1 : 0, .back = again};
    if (s->recompute && slots > 1) {
        double ends = (n_segments(s, basis->model) + 1) / basis->model->n_layers;
        shares.outputs = fmin(1, ends + again);
        shares.sent = again;
        shares.packed = n_packed(s) * basis->boundary;
    }
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < basis->model->n_layers; i++) {
        add_layer(basis, &basis->model->layer[i], &shares, out);
    }
    add_gradients(basis, out);
    add_timed(basis, out);
}

/* ---- an evaluation ---- */

#define AT_WORK 2 /* chunks of a worker: the current one and the next */

/* The chunks of one part. */
static struct sl_split evaluation_split(const struct sl_row_basis *basis)
{
    uint32_t n_parts = basis->settings->group_size;
    return sl_split_rows((uint32_t)ceil(basis->n_vertices / n_parts), SL_MAX_FULL_CHUNKS / n_parts, SL_EVALUATE_SHIFT);
}

double sl_row_need_chunks(const struct sl_row_basis *basis)
{
    return (double)basis->settings->group_size * evaluation_split(basis).n_chunks;
}

/* Add rows of all chunks, or of the chunks in progress. */
static void add_chunks(const struct sl_row_basis *basis, bool all, double row_bytes, struct sl_blocks *to)
{
    struct sl_split split = evaluation_split(basis);
    double n = sl_row_need_chunks(basis);
    double rows = split.n_chunks > 1 ? exp2(split.shift) : split.n_rows;
    if (row_bytes > 0) {
        add_blocks(to, rows * row_bytes, all ? n : fmin(n, AT_WORK * basis->n_workers));
    }
}

/* Bytes of a row of layer i's input. 0: features, which are read in place and not counted. */
static double input_bytes(const struct sl_row_basis *basis, uint32_t i)
{
    const struct sl_layer_row *row = i > 0 ? &basis->model->layer[i - 1].evaluation.row[SL_ROWS_H] : NULL;
    return row != NULL ? row->width * (double)sl_dtype_size(row->dtype) : 0;
}

/* The rows that layer i's sums are written to. */
static enum sl_role summed(const struct sl_layer *layer)
{
    if (!layer->evaluation.project_first) {
        return SL_ROWS_SUM;
    }
    return layer->evaluation.row[SL_ROWS_T].width > 0 ? SL_ROWS_T : SL_ROWS_Z;
}

/* Whether all chunks of a role are alive while layer i sums: the rows that travel and, if they have start values, the
 * sums. */
static bool waits(const struct sl_layer *layer, int role)
{
    return sl_layer_aggregates(layer) && (role == (int)layer->evaluation.travelling ||
                                          (layer->evaluation.project_first && role == (int)summed(layer)));
}

/* Add rows of layer i's forward pass: of all chunks (`all`) while it sums, or of the chunks in progress after it. */
static void add_evaluated(const struct sl_row_basis *basis, uint32_t i, bool all, struct sl_blocks *to)
{
    const struct sl_layer *layer = &basis->model->layer[i];
    for (int role = 0; role < SL_ROWS_GH; role++) {
        const struct sl_layer_row *row = &layer->evaluation.row[role];
        if (waits(layer, role) == all) {
            add_chunks(basis, all, row->width * (double)sl_dtype_size(row->dtype), to);
        }
    }
    if (waits(layer, SL_ROWS_INPUT) == all) {
        add_chunks(basis, all, input_bytes(basis, i), to);
    }
}

/* Add start values from the first layer's output. Without other dependencies, a free worker computes start values
 * early, for all later layers. */
static void add_begun(const struct sl_row_basis *basis, uint32_t i, struct sl_blocks *to)
{
    for (uint32_t k = i + 1; k < basis->model->n_layers; k++) {
        const struct sl_layer *layer = &basis->model->layer[k];
        add_chunks(basis, true, sl_if_so(layer->kind->reads_first, layer->n_in * (double)row_element(basis)), to);
    }
}

/* Layers between two summing layers only keep rows of the chunks in progress. */
void sl_row_need_evaluation(const struct sl_row_basis *basis, struct sl_blocks *out)
{
    const struct sl_model *model = basis->model;
    bool reads_first = model->n_layers > 1 && model->layer[1].kind->reads_first;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0, next; i < model->n_layers; i = next) {
        struct sl_blocks here = {{0}};
        add_evaluated(basis, i, true, &here);
        add_evaluated(basis, i, false, &here);
        for (next = i + 1; next < model->n_layers && !sl_layer_aggregates(&model->layer[next]); next++) {
            add_evaluated(basis, next, false, &here);
        }
        if (next < model->n_layers) {
            add_evaluated(basis, next, true, &here);
        } else {
            add_chunks(basis, true, model->layer[model->n_layers - 1].n_out * (double)sizeof(sl_real), &here);
        }
        add_chunks(basis, true, sl_if_so(reads_first && i > 0, model->layer[0].n_out * (double)row_element(basis)),
                   &here);
        add_begun(basis, i, &here);
        take_most(out, &here);
    }
}
