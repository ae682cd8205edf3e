/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Weighted sums over sampled in-neighbours, and the transposed sums. Rows are scattered in memory, so a row is
 * prefetched well before it is added. A ring holds the terms to come. Terms are added in order, four at a time: the
 * output row is read and written once for four terms. */
#include "codelets/aggregate.h"

#ifdef SL_CUDA
#include <starpu_cusparse.h>
#endif
#include <string.h>

#include "codelets/rounded.h"
#include "codelets/sample.h"
#include "support/memory.h"

/* ---- kernels, CPU ---- */

#define RING 64  /* terms looked up ahead; a power of two */
#define AHEAD 24 /* terms prefetched ahead */

/* One term of a sum. With symmetric weights, `weight` is the factor of the source until weigh_terms completes it. */
struct term {
    const void *row;
    sl_real weight;
    sl_vertex id; /* of the source; only with symmetric weights */
};

SL_INLINE void add_scaled(enum sl_dtype dtype, uint32_t n_columns, sl_real *restrict out, const void *restrict row,
                          sl_real weight)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * sl_entry(dtype, row, j);
    }
}

/* out += four terms, in order. */
SL_INLINE void add_four(enum sl_dtype dtype, struct term a, struct term b, struct term c, struct term d,
                        uint32_t n_columns, sl_real *restrict out)
{
    const void *restrict ra = a.row;
    const void *restrict rb = b.row;
    const void *restrict rc = c.row;
    const void *restrict rd = d.row;
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] = (((out[j] + a.weight * sl_entry(dtype, ra, j)) + b.weight * sl_entry(dtype, rb, j)) +
                  c.weight * sl_entry(dtype, rc, j)) +
                 d.weight * sl_entry(dtype, rd, j);
    }
}

/* out += terms first .. end - 1 of the ring, in order; at most RING terms. */
SL_INLINE void add_terms(enum sl_dtype dtype, const struct term *ring, uint64_t first, uint64_t end, uint32_t n_columns,
                         sl_real *out)
{
    uint64_t i = first;
    for (; i + 4 <= end; i += 4) {
        add_four(dtype, ring[i % RING], ring[(i + 1) % RING], ring[(i + 2) % RING], ring[(i + 3) % RING], n_columns,
                 out);
    }
    for (; i < end; i++) {
        add_scaled(dtype, n_columns, out, ring[i % RING].row, ring[i % RING].weight);
    }
}

/* Complete the weights of terms first .. end - 1 of the ring. id: the vertex of the sum; factor: its share. */
SL_INLINE void weigh_terms(struct term *ring, uint64_t first, uint64_t end, sl_real factor, sl_vertex id)
{
    for (uint64_t i = first; i < end; i++) {
        struct term *term = &ring[i % RING];
        term->weight = term->id == id ? 0 : factor * term->weight;
    }
}

/* Multiply terms first .. end - 1 of the ring by the weights of their edges, if edges have weights. */
SL_INLINE void weigh_edges(struct term *ring, uint64_t first, uint64_t end, const float *edge_weights)
{
    for (uint64_t i = first; edge_weights != NULL && i < end; i++) {
        ring[i % RING].weight *= (sl_real)edge_weights[i];
    }
}

/* A walk over a list of edges, from the first to the last. The rows of the next edges are prefetched while one is
 * added. */
struct edge_walk {
    const struct sl_sources *x;
    const uint32_t *positions; /* [n] */
    uint64_t n, known;
    struct term ring[RING];
};

/* One sum: entries first .. end - 1 of a list, and the factor that the vertex of the sum gives to their weights. */
struct sum {
    uint32_t d; /* the destination */
    uint64_t first, end;
    sl_real factor;
    sl_vertex id; /* of the vertex; only with symmetric weights */
};

/* Look up and prefetch the rows of the edges before `end`. */
SL_INLINE void know_sources(enum sl_dtype dtype, struct edge_walk *walk, const struct sl_weights *weights,
                            const uint32_t *widths, uint64_t end, uint32_t n_columns)
{
    for (; walk->known < end; walk->known++) {
        uint32_t position = walk->positions[walk->known];
        struct term *term = &walk->ring[walk->known % RING];
        term->row = sl_source_row(dtype, walk->x, widths, position, n_columns);
        sl_row_fetch(term->row, sl_dtype_bytes(dtype, n_columns));
        if (weights != NULL) {
            term->id = sl_weights_source(weights, position);
            term->weight = sl_weights_factor(weights, term->id);
        }
    }
}

/* out += the rows of a sum's edges, in order, each times its weight. */
SL_INLINE void add_sources(enum sl_dtype dtype, struct edge_walk *walk, const struct sl_weights *weights,
                           const float *edge_weights, const uint32_t *widths, struct sum sum, uint32_t n_columns,
                           sl_real *out)
{
    for (uint64_t done = sum.first; done < sum.end; done += RING - AHEAD) {
        uint64_t stop = sum.end - done < RING - AHEAD ? sum.end : done + RING - AHEAD;
        uint64_t ahead = walk->n - stop < AHEAD ? walk->n : stop + AHEAD;
        know_sources(dtype, walk, weights, widths, ahead, n_columns);
        if (weights != NULL) {
            weigh_terms(walk->ring, done, stop, sum.factor, sum.id);
        } else {
            for (uint64_t e = done; e < stop; e++) {
                walk->ring[e % RING].weight = sum.factor;
            }
        }
        weigh_edges(walk->ring, done, stop, edge_weights);
        add_terms(dtype, walk->ring, done, stop, n_columns, out);
    }
}

/* The own row of destination d of the frontier. */
SL_INLINE const void *own_row(enum sl_dtype dtype, const struct sl_sources *x, const uint32_t *widths, uint32_t d,
                              sl_vertex id, uint32_t n_columns)
{
    if (x->own != NULL) {
        return sl_view_row_of(dtype, x->own, d, n_columns);
    }
    return sl_source_row(dtype, x, widths, id, n_columns);
}

/* The sum of destination sum.d over the edges sum.first .. sum.end - 1: the mean, or by weights. widths: row width
 * of each owner, of which n_columns are added. NULL: all rows have n_columns. */
SL_INLINE void sum_of_sources(enum sl_dtype dtype, struct edge_walk *walk, const struct sl_weights *weights,
                              const float *edge_weights, const uint32_t *widths, struct sum sum, uint32_t n_columns,
                              sl_real *out)
{
    if (weights != NULL) {
        sum.id = sl_weights_destination(weights, sum.d);
        add_scaled(dtype, n_columns, out, own_row(dtype, walk->x, widths, sum.d, sum.id, n_columns),
                   sl_weights_self(weights, sum.id));
    }
    if (sum.first < sum.end) {
        uint64_t n = sum.end - sum.first;
        sum.factor = weights == NULL ? 1 / (sl_real)n : sl_weights_share(weights, sum.id, n);
        add_sources(dtype, walk, weights, edge_weights, widths, sum, n_columns, out);
    }
}

/* Call an SL_INLINE kernel(weights, edge_weights, ..). Weights that are NULL are constants of the kernel, so that
 * the mean compiles without them. */
#define BY_WEIGHTS(vertex, edge, kernel, ...)                                                                          \
    do {                                                                                                               \
        if ((vertex) == NULL && (edge) == NULL) {                                                                      \
            kernel(NULL, NULL, __VA_ARGS__);                                                                           \
        } else if ((edge) == NULL) {                                                                                   \
            kernel(vertex, NULL, __VA_ARGS__);                                                                         \
        } else if ((vertex) == NULL) {                                                                                 \
            kernel(NULL, edge, __VA_ARGS__);                                                                           \
        } else {                                                                                                       \
            kernel(vertex, edge, __VA_ARGS__);                                                                         \
        }                                                                                                              \
    } while (0)

/* The sums of a block. */
SL_INLINE void sum_edges(const struct sl_weights *weights, const float *edge_weights, enum sl_dtype dtype,
                         const struct sl_edges *edges, uint32_t n_columns, const struct sl_sources *x, int beta,
                         sl_real *m_out)
{
    const uint32_t *offsets = edges->offsets + edges->row0;
    struct edge_walk walk = {.x = x, .positions = edges->sources, .n = offsets[edges->n_rows], .known = offsets[0]};
    for (uint32_t i = 0; i < edges->n_rows; i++) {
        sl_real *out = m_out + (size_t)i * n_columns;
        if (!beta) {
            memset(out, 0, n_columns * sizeof *out);
        }
        struct sum sum = {.d = edges->row0 + i, .first = offsets[i], .end = offsets[i + 1]};
        sum_of_sources(dtype, &walk, weights, edge_weights, NULL, sum, n_columns, out);
    }
}

SL_INLINE void choose_sum(enum sl_dtype dtype, const struct sl_edges *edges, uint32_t n_columns,
                          const struct sl_sources *x, int beta, sl_real *m_out)
{
    BY_WEIGHTS(edges->weights, edges->edge_weights, sum_edges, dtype, edges, n_columns, x, beta, m_out);
}

SL_CLONES void sl_aggregate_forward_cpu(enum sl_dtype dtype, const struct sl_edges *edges, uint32_t n_columns,
                                        const struct sl_sources *x, int beta, sl_real *m_out)
{
    SL_BY_DTYPE_READ(dtype, choose_sum, edges, n_columns, x, beta, m_out);
}

/* The same walk over a block by source: the terms are gradients of destinations. */
struct back_walk {
    const struct sl_transposed *block;
    const struct sl_view *gm;
    uint64_t n, known;
    struct term ring[RING];
};

/* Look up and prefetch the gradients of the entries before `end`. */
SL_INLINE void know_destinations(struct back_walk *walk, const struct sl_weights *weights, uint64_t end,
                                 uint32_t n_columns)
{
    const uint32_t *edge_offsets = walk->block->edge_offsets;
    for (; walk->known < end; walk->known++) {
        uint32_t d = walk->block->back_rows[walk->known];
        uint32_t degree = edge_offsets[d + 1] - edge_offsets[d];
        struct term *term = &walk->ring[walk->known % RING];
        term->row = sl_view_row(walk->gm, d, n_columns);
        sl_row_fetch(term->row, n_columns * sizeof(sl_real));
        if (weights == NULL) {
            term->weight = 1 / (sl_real)degree;
        } else {
            term->id = sl_weights_destination(weights, d);
            term->weight = sl_weights_share(weights, term->id, degree);
        }
    }
}

/* out += the terms of position t. */
SL_INLINE void add_back(struct back_walk *walk, const struct sl_weights *weights, const float *back_weights, uint32_t t,
                        uint32_t n_columns, sl_real *out)
{
    struct sum sum = {.first = walk->block->back_offsets[t], .end = walk->block->back_offsets[t + 1]};
    if (weights != NULL) {
        sum.id = sl_weights_source(weights, t);
        sum.factor = sl_weights_factor(weights, sum.id);
    }
    for (uint64_t done = sum.first; done < sum.end; done += RING - AHEAD) {
        uint64_t stop = sum.end - done < RING - AHEAD ? sum.end : done + RING - AHEAD;
        uint64_t ahead = walk->n - stop < AHEAD ? walk->n : stop + AHEAD;
        know_destinations(walk, weights, ahead, n_columns);
        if (weights != NULL) {
            weigh_terms(walk->ring, done, stop, sum.factor, sum.id);
        }
        weigh_edges(walk->ring, done, stop, back_weights);
        add_terms(SL_DTYPE_REAL, walk->ring, done, stop, n_columns, out);
    }
}

/* A walk over positions t0 .. t0 + n - 1. */
SL_INLINE struct back_walk walk_back(const struct sl_transposed *block, uint32_t t0, uint32_t n,
                                     const struct sl_view *gm)
{
    return (struct back_walk){
        .block = block, .gm = gm, .n = block->back_offsets[t0 + n], .known = block->back_offsets[t0]};
}

SL_INLINE void sum_back(const struct sl_weights *weights, const float *back_weights, const struct sl_transposed *block,
                        uint32_t t0, uint32_t n, uint32_t n_columns, const struct sl_view *gm, sl_real *out)
{
    struct back_walk walk = walk_back(block, t0, n, gm);
    memset(out, 0, (size_t)n * n_columns * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(&walk, weights, back_weights, t0 + i, n_columns, out + (size_t)i * n_columns);
    }
}

SL_CLONES void sl_aggregate_backward_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n, uint32_t n_columns,
                                         const struct sl_view *gm, sl_real *out)
{
    BY_WEIGHTS(block->weights, block->back_weights, sum_back, block, t0, n, n_columns, gm, out);
}

/* Row `row` of g, to add to. Clears the row before its first term: it is then in the cache for the addition. */
SL_INLINE sl_real *begin_row(const struct sl_gradient *g, uint32_t row)
{
    sl_real *out = g->rows + (size_t)row * g->n_columns;
    const uint64_t bit = (uint64_t)1 << row % 64;
    if (g->begun != NULL && (g->begun[row / 64] & bit) == 0) {
        memset(out, 0, g->n_columns * sizeof *out);
        g->begun[row / 64] |= bit;
    }
    return out;
}

void sl_accumulate_end_cpu(const struct sl_gradient *g)
{
    if (g->begun == NULL) {
        return;
    }
    for (uint32_t i = 0; i < g->n_rows; i++) {
        begin_row(g, i);
    }
}

SL_CLONES void sl_accumulate_self_cpu(const struct sl_weights *weights, uint32_t n_gm, const struct sl_view *gm,
                                      const struct sl_gradient *g)
{
    for (uint32_t i = 0; i < g->n_rows && g->row0 + i < n_gm; i++) {
        sl_real weight = sl_weights_self(weights, sl_weights_destination(weights, g->row0 + i));
        add_scaled(SL_DTYPE_REAL, g->n_columns, begin_row(g, i), sl_view_row(gm, g->row0 + i, g->n_columns), weight);
    }
}

SL_INLINE void add_sent(enum sl_dtype dtype, uint32_t n, const uint32_t *inverse, const void *sent,
                        const struct sl_gradient *g)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            const char *from = (const char *)sent + sl_dtype_bytes(dtype, (size_t)i * g->n_columns);
            add_scaled(dtype, g->n_columns, begin_row(g, row), from, 1);
        }
    }
}

SL_CLONES void sl_accumulate_sent_cpu(enum sl_dtype dtype, uint32_t n, const uint32_t *inverse, const void *sent,
                                      const struct sl_gradient *g)
{
    SL_BY_DTYPE(dtype, add_sent, n, inverse, sent, g);
}

/* Adds only to rows of g. After skipped positions the walk restarts. */
SL_INLINE void sum_own(const struct sl_weights *weights, const float *back_weights, const struct sl_transposed *block,
                       uint32_t t0, uint32_t n, const uint32_t *inverse, const struct sl_view *gm,
                       const struct sl_gradient *g)
{
    struct back_walk walk = walk_back(block, t0, n, gm);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t begin = block->back_offsets[t0 + i];
        uint32_t row = inverse[i] - g->row0;
        if (row < g->n_rows) {
            walk.known = walk.known < begin ? begin : walk.known;
            add_back(&walk, weights, back_weights, t0 + i, g->n_columns, begin_row(g, row));
        }
    }
}

SL_CLONES void sl_accumulate_own_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n,
                                     const uint32_t *inverse, const struct sl_view *gm, const struct sl_gradient *g)
{
    BY_WEIGHTS(block->weights, block->back_weights, sum_own, block, t0, n, inverse, gm, g);
}

/* Destinations of evaluation. Offsets have 64 bits; `sources` begins at the part's first offset. */
struct full_edges {
    uint32_t row0, n_rows;
    const uint64_t *offsets; /* of the part */
    const sl_vertex *sources;
    const uint32_t *widths; /* width of each part's rows */
    uint32_t m_width;       /* width of the sums' rows */
    /* As `sources`. NULL: 1. */
    const float *edge_weights;
};

SL_INLINE void sum_full(const struct sl_weights *weights, const float *edge_weights, enum sl_dtype dtype,
                        const struct full_edges *edges, uint32_t n_columns, const struct sl_sources *x, int beta,
                        sl_real *m_out)
{
    const uint64_t *offsets = edges->offsets + edges->row0;
    struct edge_walk walk = {.x = x,
                             .positions = edges->sources + (offsets[0] - edges->offsets[0]),
                             .n = offsets[edges->n_rows] - offsets[0]};
    if (edge_weights != NULL) {
        edge_weights += offsets[0] - edges->offsets[0];
    }
    for (uint32_t i = 0; i < edges->n_rows; i++) {
        sl_real *out = m_out + (size_t)i * edges->m_width;
        if (!beta) {
            memset(out, 0, n_columns * sizeof *out);
        }
        struct sum sum = {.d = edges->row0 + i, .first = offsets[i] - offsets[0], .end = offsets[i + 1] - offsets[0]};
        sum_of_sources(dtype, &walk, weights, edge_weights, edges->widths, sum, n_columns, out);
    }
}

SL_INLINE void choose_full(enum sl_dtype dtype, const struct full_edges *edges, const struct sl_weights *weights,
                           uint32_t n_columns, const struct sl_sources *x, int beta, sl_real *m_out)
{
    BY_WEIGHTS(weights, edges->edge_weights, sum_full, dtype, edges, n_columns, x, beta, m_out);
}

SL_CLONES static void aggregate_full(enum sl_dtype dtype, const struct full_edges *edges,
                                     const struct sl_weights *weights, uint32_t n_columns, const struct sl_sources *x,
                                     int beta, sl_real *m_out)
{
    SL_BY_DTYPE_READ(dtype, choose_full, edges, weights, n_columns, x, beta, m_out);
}

/* ---- arguments ---- */

/* Buffer numbers of the weights. */
struct weight_args {
    double scale;
    /* Buffer of the factors; 0: the mean. In training, frontier and request follow. */
    uint32_t factors;
    /* PEs with entries in the request. 0: evaluation, where positions are ids. */
    uint32_t n_parts;
    sl_vertex first; /* evaluation: the part's first id */
    /* Buffer of the edge weights; 0: none. */
    uint32_t of_edges;
};

struct forward_args {
    struct sl_task_args head;
    struct weight_args weights;
    uint32_t row0;
    int beta;
    struct sl_source_args sources;
};

struct backward_args {
    struct sl_task_args head;
    struct weight_args weights;
    uint32_t n_chunks, shift;
    uint32_t n_owners;
    struct returned {
        uint32_t t0;
        struct sl_slice_args rows;
    } returned[SL_MAX_GROUP]; /* submitted up to returned[n_owners - 1] */
};

struct accumulate_args {
    struct sl_task_args head;
    struct weight_args weights;
    struct sl_share_args shares;
};

struct full_args {
    struct sl_task_args head;
    struct weight_args weights;
    uint32_t row0;
    int beta;
    uint32_t first_column, n_columns; /* of the sums */
    struct sl_part_args parts;
};

/* ---- implementations ---- */

enum { FORWARD_OFFSETS, FORWARD_SOURCES, FORWARD_INVERSE, FORWARD_M, FORWARD_ROWS, FORWARD_PACKED, FORWARD_FACTORS };
enum { BACK_EDGE_OFFSETS, BACK_OFFSETS, BACK_ROWS, BACK_GM, BACK_PACKED, BACK_FACTORS };
enum { SUM_G = BACK_ROWS + 1, SUM_INVERSE, SUM_GM, SUM_SENT, SUM_FACTORS };
enum { FULL_OFFSETS, FULL_SOURCES, FULL_FIRST, FULL_M, FULL_ROWS, FULL_FACTORS, FULL_WEIGHTS };
enum { FRONTIER = 1, REQUEST, EDGE_WEIGHTS }; /* after the factors of a block */

/* The weights from the buffers, in *room. NULL: the mean. */
static const struct sl_weights *weights_of(const struct weight_args *args, void *buffers[], struct sl_weights *room)
{
    if (args->factors == 0) {
        return NULL;
    }
    *room = (struct sl_weights){
        .factors = sl_buffer_data(buffers[args->factors]), .first = args->first, .scale = (sl_real)args->scale};
    if (args->n_parts > 0) {
        room->destinations = sl_buffer_data(buffers[args->factors + 1]);
        room->sources = (const sl_vertex *)sl_buffer_data(buffers[args->factors + 2]) + args->n_parts + 1;
    }
    return room;
}

/* The edge weights from the buffers. NULL: none. */
static const float *edge_weights_of(const struct weight_args *args, void *buffers[])
{
    return args->of_edges == 0 ? NULL : sl_buffer_data(buffers[args->of_edges]);
}

/* The edges of a forward task. */
static struct sl_edges edges_of(const struct forward_args *args, void *buffers[], struct sl_weights *room)
{
    return (struct sl_edges){.row0 = args->row0,
                             .n_rows = sl_buffer_rows(buffers[FORWARD_M]),
                             .offsets = sl_buffer_data(buffers[FORWARD_OFFSETS]),
                             .sources = sl_buffer_data(buffers[FORWARD_SOURCES]),
                             .weights = weights_of(&args->weights, buffers, room),
                             .edge_weights = edge_weights_of(&args->weights, buffers)};
}

/* The block by source of a backward or accumulate task: its first buffers. */
static struct sl_transposed transposed_of(const struct weight_args *args, void *buffers[], struct sl_weights *room)
{
    return (struct sl_transposed){.edge_offsets = sl_buffer_data(buffers[BACK_EDGE_OFFSETS]),
                                  .back_offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                  .back_rows = sl_buffer_data(buffers[BACK_ROWS]),
                                  .weights = weights_of(args, buffers, room),
                                  .back_weights = edge_weights_of(args, buffers)};
}

struct sl_gradient sl_gradient_of(uint32_t row0, void *buffer)
{
    return (struct sl_gradient){.row0 = row0,
                                .n_rows = sl_buffer_rows(buffer),
                                .n_columns = sl_buffer_columns(buffer),
                                .rows = sl_buffer_data(buffer)};
}

#define ROUNDED_ROWS 256 /* rows summed in float before they are rounded */

/* Sums of bf16 rows into bf16 rows. */
static enum sl_status forward_rounded(const struct sl_edges *edges, uint32_t n_columns, const struct sl_sources *x,
                                      int beta, sl_bf16 *m_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, edges->n_rows, n_columns, m_out);
    struct sl_edges some = *edges;
    enum sl_status st;
    slab.beta = beta;
    while (sl_rounded_next(&slab, &st)) {
        some.row0 = edges->row0 + slab.first;
        some.n_rows = slab.n;
        sl_aggregate_forward_cpu(SL_DTYPE_BF16, &some, n_columns, x, beta, slab.room);
    }
    return st;
}

static enum sl_status full_rounded(const struct full_edges *edges, const struct sl_weights *weights, uint32_t n_columns,
                                   const struct sl_sources *x, int beta, sl_bf16 *m_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, edges->n_rows, n_columns, m_out);
    struct full_edges some = *edges;
    enum sl_status st;
    slab.beta = beta;
    slab.out_width = edges->m_width;
    some.m_width = n_columns;
    while (sl_rounded_next(&slab, &st)) {
        some.row0 = edges->row0 + slab.first;
        some.n_rows = slab.n;
        aggregate_full(SL_DTYPE_BF16, &some, weights, n_columns, x, beta, slab.room);
    }
    return st;
}

/* Gradients summed in float, rounded to bf16. */
static enum sl_status backward_rounded(const struct sl_transposed *block, const struct returned *to, uint32_t n_columns,
                                       const struct sl_view *gm, sl_bf16 *out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, to->rows.n_rows, n_columns, out);
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        sl_aggregate_backward_cpu(block, to->t0 + slab.first, slab.n, n_columns, gm, slab.room);
    }
    return st;
}

static enum sl_status forward_by_precision(const struct forward_args *args, const struct sl_edges *edges,
                                           const struct sl_sources *x, void *m)
{
    const uint32_t n_columns = sl_buffer_columns(m);
    if (sl_buffer_dtype(m) != SL_DTYPE_REAL) {
        return forward_rounded(edges, n_columns, x, args->beta, sl_buffer_data(m));
    }
    sl_aggregate_forward_cpu(args->sources.dtype, edges, n_columns, x, args->beta, sl_buffer_data(m));
    return SL_OK;
}

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    struct sl_source_views sources;
    sl_sources_view(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + FORWARD_ROWS, &sources);
    struct sl_weights weights;
    struct sl_edges edges = edges_of(args, buffers, &weights);
    return forward_by_precision(args, &edges, &sources.x, buffers[FORWARD_M]);
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct backward_args *args = cl_arg;
    const sl_real *bases[SL_MAX_CHUNKS];
    sl_chunks_data(buffers + BACK_GM, args->n_chunks, bases);
    struct sl_view gm = {bases, args->shift, NULL};
    struct sl_weights weights;
    struct sl_transposed block = transposed_of(&args->weights, buffers, &weights);
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < args->n_owners && st == SL_OK; q++) {
        const struct returned *to = &args->returned[q];
        void *matrix = buffers[to->rows.buffer];
        if (sl_buffer_dtype(matrix) != SL_DTYPE_REAL) {
            st = backward_rounded(&block, to, sl_buffer_columns(matrix), &gm, sl_slice_data(buffers, &to->rows));
        } else {
            sl_aggregate_backward_cpu(&block, to->t0, to->rows.n_rows, sl_buffer_columns(matrix), &gm,
                                      sl_slice_data(buffers, &to->rows));
        }
    }
    return st;
}

void sl_accumulate_slice_cpu(const struct sl_slice_args *sent, void *buffers[], const uint32_t *inverse,
                             const struct sl_gradient *g)
{
    if (sent->n_rows > 0) {
        sl_accumulate_sent_cpu(sl_buffer_dtype(buffers[sent->buffer]), sent->n_rows, inverse,
                               sl_slice_data(buffers, sent), g);
    }
}

/* Add all shares in PE order. */
static enum sl_status accumulate_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    const sl_real *bases[SL_MAX_CHUNKS];
    struct sl_weights weights;
    struct sl_transposed block = transposed_of(&args->weights, buffers, &weights);
    struct sl_gradient g = sl_gradient_of(shares->row0, buffers[SUM_G]);
    const uint32_t *inverse = sl_buffer_data(buffers[SUM_INVERSE]);
    struct sl_view gm = {bases, shares->shift, NULL};
    SL_CHECK(sl_alloc_zero(((size_t)g.n_rows + 63) / 64, sizeof *g.begun, "marks of rows", &g.begun));
    sl_chunks_data(buffers + SUM_GM, shares->n_chunks, bases);
    if (block.weights != NULL) {
        sl_accumulate_self_cpu(block.weights, shares->n_destinations, &gm, &g);
    }
    for (uint32_t p = 0; p < shares->n_peers; p++) {
        const uint32_t *rows = sl_list_of(inverse, shares->n_peers, p);
        if (p == shares->own) {
            sl_accumulate_own_cpu(&block, shares->t0, shares->n_own, rows, &gm, &g);
        } else {
            sl_accumulate_slice_cpu(&shares->sent[p], buffers, rows, &g);
        }
    }
    sl_accumulate_end_cpu(&g);
    sl_free(g.begun);
    return SL_OK;
}

static enum sl_status full_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct full_args *args = cl_arg;
    struct sl_part_views parts;
    sl_parts_view(&args->parts, buffers + FULL_ROWS, &parts);
    struct full_edges edges = {args->row0,
                               sl_buffer_rows(buffers[FULL_M]),
                               sl_buffer_data(buffers[FULL_OFFSETS]),
                               sl_buffer_data(buffers[FULL_SOURCES]),
                               args->parts.width,
                               sl_buffer_columns(buffers[FULL_M]),
                               edge_weights_of(&args->weights, buffers)};
    struct sl_sources x = {args->parts.n_parts, sl_buffer_data(buffers[FULL_FIRST]), parts.view, NULL};
    struct sl_weights room;
    const struct sl_weights *weights = weights_of(&args->weights, buffers, &room);
    enum sl_status st = SL_OK;
    if (sl_buffer_dtype(buffers[FULL_M]) != SL_DTYPE_REAL) {
        st = full_rounded(&edges, weights, args->n_columns, &x, args->beta,
                          (sl_bf16 *)sl_buffer_data(buffers[FULL_M]) + args->first_column);
    } else {
        aggregate_full(args->parts.dtype, &edges, weights, args->n_columns, &x, args->beta,
                       (sl_real *)sl_buffer_data(buffers[FULL_M]) + args->first_column);
    }
    return st;
}

#ifdef SL_CUDA
static struct sl_device_sources sources_of(const struct forward_args *args, void *buffers[])
{
    return sl_device_sources_of(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + FORWARD_ROWS);
}

static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    struct sl_device_sources x = sources_of(args, buffers);
    struct sl_weights weights;
    struct sl_edges edges = edges_of(args, buffers, &weights);
    return sl_aggregate_forward_cuda(stream, &edges, sl_buffer_columns(buffers[FORWARD_M]), &x, args->beta,
                                     sl_buffer_dtype(buffers[FORWARD_M]), sl_buffer_data(buffers[FORWARD_M]));
}

static enum sl_status forward_cusparse_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    struct sl_device_sources x = sources_of(args, buffers);
    struct sl_weights none;
    struct sl_edges edges = edges_of(args, buffers, &none);
    return sl_aggregate_forward_cusparse(stream, starpu_cusparse_get_local_handle(), &edges,
                                         sl_buffer_columns(buffers[FORWARD_M]), &x, args->beta,
                                         sl_buffer_data(buffers[FORWARD_M]));
}

/* A copy takes at most 1 / COPY_SHARE of the GPU memory for data. Launchers have a fifteenth
 * (runtime/machine/gpus.c). */
#define COPY_SHARE 64

/* Conditions of cuSPARSE: the user allowed it; a mean of sl_real rows; edges and sources in 31 bits; and GPU memory for
 * a copy of the source rows, which StarPU does not manage. */
static int forward_can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    const struct forward_args *args = task->cl_arg;
    const struct sl_run *run = args->head.run;
    (void)worker;
    if (implementation == 0 || !run->fastest_means || args->weights.factors != 0 || args->weights.of_edges != 0 ||
        args->sources.dtype != SL_DTYPE_REAL) {
        return implementation == 0;
    }
    uint64_t n_sources = args->sources.first[args->sources.n_owners];
    uint64_t copy_bytes = n_sources * sl_handle_columns(STARPU_TASK_GET_HANDLE(task, FORWARD_M)) * sizeof(sl_real);
    return sl_handle_columns(STARPU_TASK_GET_HANDLE(task, FORWARD_SOURCES)) <= INT32_MAX && n_sources <= INT32_MAX &&
           (run->gpu_bytes == 0 || copy_bytes <= run->gpu_bytes / COPY_SHARE);
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct backward_args *args = cl_arg;
    struct sl_device_rows gm = sl_device_rows_of(buffers + BACK_GM, args->n_chunks, args->shift);
    sl_real *packed[SL_MAX_GROUP];
    uint32_t t0[SL_MAX_GROUP];
    uint32_t n[SL_MAX_GROUP];
    enum sl_dtype dtype = SL_DTYPE_REAL;
    for (uint32_t q = 0; q < args->n_owners; q++) {
        dtype = sl_buffer_dtype(buffers[args->returned[q].rows.buffer]);
        packed[q] = sl_slice_data(buffers, &args->returned[q].rows);
        t0[q] = args->returned[q].t0;
        n[q] = args->returned[q].rows.n_rows;
    }
    struct sl_weights weights;
    struct sl_transposed block = transposed_of(&args->weights, buffers, &weights);
    return sl_aggregate_backward_cuda(stream, &block, &gm, sl_buffer_columns(buffers[BACK_GM]), args->n_owners, t0, n,
                                      dtype, packed);
}

enum sl_status sl_accumulate_slice_cuda(cudaStream_t stream, const struct sl_slice_args *sent, void *buffers[],
                                        const struct sl_asked *asked, int beta, const struct sl_gradient *g)
{
    return sl_accumulate_sent_cuda(stream, sent->n_rows, asked, sl_buffer_dtype(buffers[sent->buffer]),
                                   sl_slice_data(buffers, sent), beta, g);
}

/* Clear the rows. With weights, write the self terms of the destinations. Then add all shares in PE order. The first
 * share overwrites the cleared rows, unless self terms are there. */
static enum sl_status accumulate_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    struct sl_weights room;
    struct sl_transposed block = transposed_of(&args->weights, buffers, &room);
    struct sl_device_rows gm = sl_device_rows_of(buffers + SUM_GM, shares->n_chunks, shares->shift);
    struct sl_gradient g = sl_gradient_of(shares->row0, buffers[SUM_G]);
    int beta = block.weights != NULL;
    enum sl_status st = sl_accumulate_clear_cuda(stream, g.n_rows, g.n_columns, g.rows);
    if (st == SL_OK && block.weights != NULL) {
        st = sl_accumulate_self_cuda(stream, block.weights, shares->n_destinations, &gm, &g);
    }
    for (uint32_t p = 0; p < shares->n_peers && st == SL_OK; p++) {
        struct sl_asked asked = {sl_buffer_data(buffers[SUM_INVERSE]), shares->n_peers, p};
        if (p == shares->own) {
            st = sl_accumulate_own_cuda(stream, &block, shares->t0, shares->n_own, &asked, &gm, beta, &g);
            beta = 1;
        } else if (shares->sent[p].n_rows > 0) {
            st = sl_accumulate_slice_cuda(stream, &shares->sent[p], buffers, &asked, beta, &g);
            beta = 1;
        }
    }
    return st;
}

static enum sl_status full_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct full_args *args = cl_arg;
    struct sl_part_views views;
    struct sl_device_part parts[SL_MAX_GROUP];
    sl_parts_view(&args->parts, buffers + FULL_ROWS, &views);
    sl_device_parts_of(&args->parts, &views, parts);
    struct sl_weights weights;
    struct sl_full_edges edges = {.row0 = args->row0,
                                  .n_rows = sl_buffer_rows(buffers[FULL_M]),
                                  .offsets = sl_buffer_data(buffers[FULL_OFFSETS]),
                                  .sources = sl_buffer_data(buffers[FULL_SOURCES]),
                                  .n_parts = args->parts.n_parts,
                                  .first = sl_buffer_data(buffers[FULL_FIRST]),
                                  .weights = weights_of(&args->weights, buffers, &weights),
                                  .edge_weights = edge_weights_of(&args->weights, buffers)};
    void *m = buffers[FULL_M];
    const size_t skipped = sl_dtype_bytes(sl_buffer_dtype(m), args->first_column);
    return sl_aggregate_full_cuda(stream, &edges, args->n_columns, args->parts.dtype, parts, args->beta,
                                  sl_buffer_columns(m), sl_buffer_dtype(m), (char *)sl_buffer_data(m) + skipped);
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_aggregate_forward", SL_STAGE_AGGREGATE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNCS(forward_cuda_task, forward_cusparse_task),
#ifdef SL_CUDA
    .codelet.can_execute = forward_can_execute,
#endif
    .role = {{"edge offsets", STARPU_R},
             {"edge sources", STARPU_R},
             {"own inverse", STARPU_R},
             {"mean", STARPU_W | SL_OR_RW},
             {"own rows", STARPU_R | SL_REPEATED},
             {"packed rows", STARPU_R | SL_REPEATED},
             {"factors", STARPU_R | SL_OPTIONAL},
             {"frontier", STARPU_R | SL_OPTIONAL},
             {"request", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_aggregate_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"the mean's gradient", STARPU_R | SL_REPEATED},
             {"packed", STARPU_W | SL_OR_RW | SL_REPEATED},
             {"factors", STARPU_R | SL_OPTIONAL},
             {"frontier", STARPU_R | SL_OPTIONAL},
             {"request", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_accumulate", SL_STAGE_BACKWARD),
    .cpu = accumulate_cpu_task,
    SL_CUDA_FUNC(accumulate_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"gradient", STARPU_W},
             {"own inverse", STARPU_R},
             {"the mean's gradient", STARPU_R | SL_REPEATED},
             {"packed gradients", STARPU_R | SL_REPEATED},
             {"factors", STARPU_R | SL_OPTIONAL},
             {"frontier", STARPU_R | SL_OPTIONAL},
             {"request", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_aggregate_full", SL_STAGE_AGGREGATE),
    .cpu = full_cpu_task,
    SL_CUDA_FUNC(full_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"first", STARPU_R},
             {"mean", STARPU_W | SL_OR_RW},
             {"rows", STARPU_R | SL_REPEATED},
             {"factors", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

/* Append the weights of a sampled block to a task's buffers. role: the role of the factors. The request has entries for
 * n_parts PEs. */
static struct weight_args add_weights(struct sl_task *task, unsigned role, const struct sl_vertex_factors *weights,
                                      uint32_t n_parts, starpu_data_handle_t edge_weights)
{
    struct weight_args args = {0};
    if (weights != NULL) {
        args = (struct weight_args){.scale = weights->scale, .factors = task->n_buffers, .n_parts = n_parts};
        sl_task_add(task, role, weights->factors, STARPU_R);
        sl_task_add(task, role + FRONTIER, weights->frontier, STARPU_R);
        sl_task_add(task, role + REQUEST, weights->request, STARPU_R);
    }
    args.of_edges = sl_task_add_optional(task, role + EDGE_WEIGHTS, edge_weights, STARPU_R);
    return args;
}

/* The same in evaluation. */
static struct weight_args add_factors(struct sl_task *task, const struct sl_full_sources *sources)
{
    struct weight_args args = {0};
    if (sources->weights != NULL) {
        args = (struct weight_args){
            .scale = sources->weights->scale, .factors = task->n_buffers, .first = sources->first_id};
        sl_task_add(task, FULL_FACTORS, sources->weights->factors, STARPU_R);
    }
    args.of_edges = sl_task_add_optional(task, FULL_WEIGHTS, sources->edge_weights, STARPU_R);
    return args;
}

enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                           starpu_data_handle_t edge_sources, uint32_t row0, uint64_t n_edges,
                                           const struct sl_source_handles *sources, int beta, starpu_data_handle_t m)
{
    const char *name = "sl_aggregate_forward";
    struct forward_args args = {.head = *head, .row0 = row0, .beta = beta};
    struct sl_task task;
    uint32_t n_columns = sl_handle_columns(m);
    size_t bytes = offsetof(struct forward_args, sources.packed) + sources->n_owners * sizeof *args.sources.packed;
    SL_FAIL_IF(n_columns != sources->rows->n_columns, SL_EINVAL, "%s: a mean of width %u of rows of width %u", name,
               n_columns, sources->rows->n_columns);
    SL_CHECK(sl_source_args_fill(name, sources, &args.sources));
    SL_CHECK(sl_sums_dtype(name, head, m, &args.sources.dtype));
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(m), n_columns);
    sl_task_begin(&task, &forward_op);
    sl_task_add(&task, FORWARD_OFFSETS, edge_offsets, STARPU_R);
    sl_task_add(&task, FORWARD_SOURCES, edge_sources, STARPU_R);
    sl_task_add(&task, FORWARD_INVERSE, sources->inverse, STARPU_R);
    sl_task_add(&task, FORWARD_M, m, beta ? STARPU_RW : STARPU_W);
    sl_source_args_add(&task, FORWARD_ROWS, sources, &args.sources);
    args.weights = add_weights(&task, FORWARD_FACTORS, sources->weights, sources->n_owners, sources->edge_weights);
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, const struct sl_returned *returned,
                                            uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed)
{
    const struct sl_rows *gm = returned->gm;
    struct backward_args args = {.head = *head, .n_chunks = gm->split.n_chunks, .shift = gm->split.shift};
    struct sl_task task;
    uint32_t n_rows = 0;
    args.n_owners = n_owners;
    for (uint32_t q = 0; q < n_owners; q++) {
        uint32_t n_columns = sl_handle_columns(packed[q].handle);
        if (n_columns != gm->n_columns || args.n_chunks > SL_MAX_CHUNKS || n_owners > SL_MAX_GROUP) {
            return sl_fail(
                SL_EINVAL,
                "sl_aggregate_backward: width %u from gradients of width %u, %u chunks, %u owners (at most %d)",
                n_columns, gm->n_columns, args.n_chunks, n_owners, SL_MAX_GROUP);
        }
        n_rows += packed[q].n_rows;
    }
    args.head.work = sl_sum_bytes(returned->n_edges, n_rows, gm->n_columns);
    sl_task_begin(&task, &backward_op);
    sl_task_add(&task, BACK_EDGE_OFFSETS, returned->edge_offsets, STARPU_R);
    sl_task_add(&task, BACK_OFFSETS, returned->back_offsets, STARPU_R);
    sl_task_add(&task, BACK_ROWS, returned->back_rows, STARPU_R);
    sl_task_add_each(&task, BACK_GM, gm->split.n_chunks, gm->chunk, STARPU_R);
    for (uint32_t q = 0; q < n_owners; q++) {
        args.returned[q] = (struct returned){t0[q], sl_task_add_slice(&task, BACK_PACKED, &packed[q], STARPU_W)};
    }
    args.weights = add_weights(&task, BACK_FACTORS, returned->weights, returned->n_parts, returned->back_weights);
    size_t bytes = offsetof(struct backward_args, returned) + n_owners * sizeof *args.returned;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_SEND);
}

enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g)
{
    struct accumulate_args args = {.head = *head};
    struct sl_task task;
    if (sl_handle_columns(g) != shares->gm->n_columns || shares->from.n_peers > SL_MAX_GROUP ||
        shares->gm->split.n_chunks > SL_MAX_CHUNKS) {
        return sl_fail(SL_EINVAL, "sl_accumulate: width %u from gradients of width %u, %u peers, %u chunks",
                       sl_handle_columns(g), shares->gm->n_columns, shares->from.n_peers, shares->gm->split.n_chunks);
    }
    sl_share_args_fill(row0, &shares->gm->split, &shares->from, &args.shares);
    sl_task_begin(&task, &accumulate_op);
    sl_task_add(&task, BACK_EDGE_OFFSETS, shares->edge_offsets, STARPU_R);
    sl_task_add(&task, BACK_OFFSETS, shares->back_offsets, STARPU_R);
    sl_task_add(&task, BACK_ROWS, shares->back_rows, STARPU_R);
    sl_task_add(&task, SUM_G, g, STARPU_W);
    sl_task_add(&task, SUM_INVERSE, shares->inverse, STARPU_R);
    sl_task_add_each(&task, SUM_GM, shares->gm->split.n_chunks, shares->gm->chunk, STARPU_R);
    uint64_t n_terms = sl_share_args_add(&task, SUM_SENT, &shares->from, &args.shares);
    args.weights = add_weights(&task, SUM_FACTORS, shares->weights, shares->from.n_peers, shares->back_weights);
    args.head.work = sl_sum_bytes(n_terms, sl_handle_rows(g), sl_handle_columns(g));
    size_t bytes = offsetof(struct accumulate_args, shares.sent) + shares->from.n_peers * sizeof *args.shares.sent;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

/* Whether the rows of all parts, and the sums, have the columns to sum. */
static enum sl_status check_full(const struct sl_full_sources *sources, starpu_data_handle_t m)
{
    const struct sl_full_columns *columns = &sources->columns;
    for (uint32_t q = 0; q < sources->n_parts; q++) {
        uint32_t start = columns->start[q];
        if ((uint64_t)start + columns->n > sources->rows[q].n_columns ||
            (uint64_t)columns->first + columns->n > sl_handle_columns(m)) {
            return sl_fail(
                SL_EINVAL,
                "sl_aggregate_full: columns %u + %u of width %u, from column %u of part %u's rows of width %u",
                columns->first, columns->n, sl_handle_columns(m), start, q, sources->rows[q].n_columns);
        }
    }
    return SL_OK;
}

enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                        uint32_t row0, int beta, starpu_data_handle_t m)
{
    const struct sl_full_columns *columns = &sources->columns;
    const char *name = "sl_aggregate_full";
    struct full_args args = {
        .head = *head, .row0 = row0, .beta = beta, .first_column = columns->first, .n_columns = columns->n};
    struct sl_task task;
    SL_CHECK(sl_part_args_fill(name, sources->n_parts, sources->rows, columns->start, &args.parts));
    SL_CHECK(check_full(sources, m));
    SL_CHECK(sl_sums_dtype(name, head, m, &args.parts.dtype));
    sl_task_begin(&task, &full_op);
    sl_task_add(&task, FULL_OFFSETS, sources->offsets, STARPU_R);
    sl_task_add(&task, FULL_SOURCES, sources->sources, STARPU_R);
    sl_task_add(&task, FULL_FIRST, sources->first, STARPU_R);
    sl_task_add(&task, FULL_M, m, beta || columns->first > 0 ? STARPU_RW : STARPU_W);
    sl_part_args_add(&task, FULL_ROWS, sources->n_parts, sources->rows);
    args.weights = add_factors(&task, sources);
    args.head.work = sl_sum_bytes(sources->n_edges, sl_handle_rows(m), columns->n);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}
