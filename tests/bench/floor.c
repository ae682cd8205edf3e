/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counting: one function for each stage. */
#include "tests/bench/floor.h"

#include <assert.h>

enum { REAL = 4, ID = 4, LINE = 64 }; /* bytes of a number, of an id or position, of a cache line */

/* One layer and its hop. */
struct at {
    const struct bench_shape *shape;
    struct bench_floor *out;
    uint32_t layer, hop;
    uint32_t n_in, n_out, width; /* F, H, w */
    bool project_first;
    bool first; /* nothing below wants a gradient */
    bool sparse;
    double above, below; /* V of the level it takes in, and of the one it gives out */
    double edges, references, remote, draws;
};

static struct at at_layer(const struct bench_shape *s, uint32_t layer, struct bench_floor *out)
{
    uint32_t hop = s->n_layers - 1 - layer;
    struct at a = {.shape = s, .out = out, .layer = layer, .hop = hop, .first = layer == 0};
    a.n_in = s->width[layer];
    a.n_out = s->width[layer + 1];
    a.sparse = a.first && s->is_sparse;
    a.project_first = a.first && (a.n_in > a.n_out || a.sparse);
    a.width = a.project_first ? a.n_out : a.n_in;
    a.above = (double)s->vertices[hop + 1];
    a.below = (double)s->vertices[hop];
    a.edges = (double)s->edges[hop];
    a.references = (double)s->references[hop];
    a.remote = (double)s->remote[hop];
    a.draws = (double)s->draws[hop];
    return a;
}

static uint32_t at_least_one(double x)
{
    return x < 1 ? 1 : x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

/* Of an epoch's total, what one PE has in one step; what one task of it has. */
static uint32_t per_pe(const struct bench_shape *s, double total)
{
    return at_least_one(total / ((double)s->n_steps * s->n_pes));
}
static uint32_t per_task(const struct bench_shape *s, double total)
{
    return at_least_one(total / ((double)s->n_steps * s->n_pes * s->n_chunks));
}

static void add(struct bench_floor *out, struct bench_work work)
{
    assert(out->n < BENCH_MAX_WORK);
    out->work[out->n++] = work;
}

/* ---- one kind of limit each ---- */

/* All of it is in the floor. */
static void add_product(const struct at *a, const char *codelet, enum bench_limit limit, double rows)
{
    struct bench_work work = {.codelet = codelet, .layer = (int)a->layer, .limit = limit};
    uint32_t m = per_task(a->shape, rows);
    work.units = 2 * rows * a->n_in * a->n_out;
    work.floor_units = work.units;
    work.m = limit == BENCH_PRODUCT_WEIGHT ? a->n_in : m;
    work.n = limit == BENCH_PRODUCT_INPUT ? a->n_in : a->n_out;
    work.k = limit == BENCH_PRODUCT ? a->n_in : limit == BENCH_PRODUCT_INPUT ? a->n_out : m;
    add(a->out, work);
}

/* The same with CSR rows: a row of H numbers is read for each entry, and one written for each row. */
static void add_sparse_product(const struct at *a, const char *codelet, double rows)
{
    double entries = (double)a->shape->n_nonzeros * rows / (a->above > 0 ? a->above : 1);
    struct bench_work work = {.codelet = codelet, .layer = (int)a->layer, .limit = BENCH_ROWS};
    work.units = REAL * (entries + rows) * a->n_out + 8 * entries;
    work.floor_units = work.units;
    work.m = per_task(a->shape, entries);
    work.n = a->n_out;
    work.k = a->n_in;
    add(a->out, work);
}

/* Rows that go through the exchange, `picked` of them read at random from a PE's `table`. */
static void add_rows(const struct at *a, const char *codelet, double picked, double table, double numbers,
                     double floor_numbers)
{
    struct bench_work work = {.codelet = codelet, .layer = (int)a->layer, .limit = BENCH_ROWS};
    work.units = REAL * numbers;
    work.floor_units = REAL * floor_numbers;
    work.m = per_task(a->shape, picked);
    work.n = a->width;
    work.k = per_pe(a->shape, table);
    add(a->out, work);
}

/* `bytes` in all, in tasks that read and write half of their share each. */
static void add_copy(struct bench_floor *out, const char *codelet, int layer, double bytes, double floor_bytes,
                     double n_tasks)
{
    struct bench_work work = {.codelet = codelet, .layer = layer, .limit = BENCH_COPY, .m = 1, .n = 1};
    work.units = bytes;
    work.floor_units = floor_bytes;
    work.k = at_least_one(bytes / 2 / n_tasks);
    add(out, work);
}

/* ---- the stages ---- */

/* `units` of one kind, one task of which has m items, among k. */
static void add_items(const struct at *a, enum bench_limit limit, double units, uint32_t m, uint32_t k)
{
    struct bench_work work = {.codelet = "sl_sample", .layer = (int)a->hop, .limit = limit, .m = m, .n = 1, .k = k};
    work.units = units;
    add(a->out, work);
}

/* What sampling needs besides lines. */
static void count_block(const struct at *a)
{
    const struct bench_shape *s = a->shape;
    const uint32_t m = per_pe(s, a->edges);
    add_items(a, BENCH_DRAWS, a->draws, 1, 1);
    add_items(a, BENCH_MARKS, a->edges, m, at_least_one(s->n_vertices));
    add_items(a, BENCH_ORDER, a->edges, m, per_pe(s, a->references));
    double bytes = ID * (a->below + a->edges + 2 * a->references);
    add_copy(a->out, "sl_sample", (int)a->hop, bytes, 0, (double)s->n_steps * s->n_pes);
}

static void count_sampling(const struct at *a)
{
    const struct bench_shape *s = a->shape;
    double graph_bytes = 8.0 * s->n_vertices + 4.0 * (double)s->n_edges;
    struct bench_work lines = {.codelet = "sl_sample", .layer = (int)a->hop, .limit = BENCH_LINES, .m = 1, .n = 1};
    lines.units = 2 * a->below + a->edges;
    lines.floor_units = lines.units;
    lines.k = at_least_one(graph_bytes / s->n_parts / LINE);
    add(a->out, lines);
    count_block(a);
    double n_tasks = (double)s->n_steps * s->n_pes;
    add_copy(a->out, "sl_merge", (int)a->hop, 16 * a->references, 16 * a->references, n_tasks);
}

/* The rows of all inputs, or of the first layer's destinations where its means read the others in the table. */
static void count_gather(const struct bench_shape *s, struct bench_floor *out)
{
    double rows = (double)s->vertices[at_layer(s, 0, out).project_first ? s->n_layers : s->n_layers - 1];
    struct bench_work work = {.codelet = "sl_gather", .layer = -1, .limit = BENCH_ROWS};
    work.units = 2 * REAL * rows * s->width[0];
    work.floor_units = work.units;
    work.m = per_task(s, rows);
    work.n = s->width[0];
    work.k = at_least_one((double)s->n_vertices / s->n_parts);
    add(out, work);
}

static void count_forward(const struct at *a)
{
    double neighbours = a->project_first ? a->above : a->below;
    if (a->sparse) {
        add_sparse_product(a, "sl_dense_sparse_forward", a->below);
        add_sparse_product(a, "sl_dense_sparse_forward", neighbours);
    } else {
        add_product(a, "sl_dense_forward", BENCH_PRODUCT, a->below);
        add_product(a, "sl_dense_forward", BENCH_PRODUCT, neighbours);
    }
    const struct bench_shape *s = a->shape;
    bool in_place = a->first && !a->project_first; /* a part's rows for each of its PEs, in each step */
    double table = in_place ? (double)s->n_vertices * s->n_steps * s->n_pes / s->n_parts : a->above;
    double averaged = a->width * (a->edges + a->below);
    add_rows(a, "sl_pack", a->remote, table, 2 * a->width * a->remote, 0);
    add_rows(a, "sl_aggregate_forward", a->edges, table, averaged, averaged);
}

/* The adjoint of the average is shared by those who send gradients back and the owner who adds them up, who also
 * has to write all of the rows of the level above. */
static void count_aggregate_backward(const struct at *a)
{
    double averaged = a->width * (a->edges + a->below);
    double sent = a->references > 0 ? a->remote / a->references : 0;
    add_rows(a, "sl_aggregate_backward", sent * a->edges, a->below, a->width * (sent * a->edges + a->remote),
             sent * averaged);
    add_rows(a, "sl_accumulate", (1 - sent) * a->edges, a->below,
             a->width * ((1 - sent) * a->edges + a->remote + a->above), (1 - sent) * averaged);
}

static void count_backward(const struct at *a)
{
    double neighbours = a->project_first ? a->above : a->below;
    if (a->sparse) {
        add_sparse_product(a, "sl_dense_sparse_backward_weight", a->below);
        add_sparse_product(a, "sl_dense_sparse_backward_weight", neighbours);
    } else {
        add_product(a, "sl_dense_backward_weight", BENCH_PRODUCT_WEIGHT, a->below);
        add_product(a, "sl_dense_backward_weight", BENCH_PRODUCT_WEIGHT, neighbours);
    }
    if (!a->first) {
        add_product(a, "sl_dense_backward_input", BENCH_PRODUCT_INPUT, a->below);
        add_product(a, "sl_dense_backward_input", BENCH_PRODUCT_INPUT, neighbours);
    }
    if (!a->first || a->project_first) {
        count_aggregate_backward(a);
    }
}

/* Forward reads z and writes h and a byte of gate; backward reads the byte and gh and writes gz. */
static void count_activation(const struct at *a)
{
    double bytes = (2 * REAL + 1) * a->below * a->n_out;
    double n_tasks = (double)a->shape->n_steps * a->shape->n_pes * a->shape->n_chunks;
    add_copy(a->out, "sl_activate_forward", (int)a->layer, bytes, 0, n_tasks);
    add_copy(a->out, "sl_activate_backward", (int)a->layer, bytes, 0, n_tasks);
}

/* Logits in, their gradients out; partial gradients, weights and moments in, sums, weights and moments out. */
static void count_rest(const struct bench_shape *s, struct bench_floor *out)
{
    uint32_t n_partials = s->n_pes * s->n_chunks;
    double n_blocks = (double)s->n_steps * n_partials;
    double entries = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        entries += 2.0 * s->width[i] * s->width[i + 1] + s->width[i + 1];
    }
    entries *= (double)s->n_steps;
    double n_updates = 3.0 * (double)s->n_steps * s->n_layers;
    add_copy(out, "sl_loss", -1, 2.0 * REAL * (double)s->vertices[0] * s->width[s->n_layers], 0, n_blocks);
    add_copy(out, "sl_optimize", -1, REAL * entries * (n_partials + 7.0), 0, n_updates);
}

void bench_floor_count(const struct bench_shape *shape, struct bench_floor *out)
{
    out->n = 0;
    if (!shape->is_sparse) {
        count_gather(shape, out);
    }
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        struct at a = at_layer(shape, i, out);
        count_sampling(&a);
        count_forward(&a);
        count_backward(&a);
        if (i + 1 < shape->n_layers) {
            count_activation(&a);
        }
    }
    count_rest(shape, out);
}

double bench_floor_seconds(const struct bench_floor *floor, const double *rates)
{
    double seconds = 0;
    for (uint32_t i = 0; i < floor->n; i++) {
        seconds += floor->work[i].floor_units > 0 ? floor->work[i].floor_units / rates[i] : 0;
    }
    return seconds;
}
