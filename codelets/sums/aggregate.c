/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Weighted sums over sampled in-neighbours, and the transposed sums. */
#include "codelets/sums/aggregate.h"

#ifdef SL_CUDA
#include <starpu_cusparse.h>
#endif
#include <assert.h>
#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sampling/sample.h"
#include "codelets/sums/walk.h"
#include "support/memory.h"
#include "support/minmax.h"

/* ---- kernels, CPU ---- */

/* Lists by destination, whose rows are sources, or by source, whose rows are gradients of destinations. Entries,
 * weights and relations are those of `edges`. */
struct lists {
    struct sl_edges edges;
    const uint32_t *degrees; /* by source: offsets of the destinations' edges. NULL: by destination */
    const struct sl_source_rows *x;
    const struct sl_chunks *gm; /* by source */
    uint32_t n_columns;
};

/* A walk over lists first .. first + n - 1. */
SL_INLINE struct sl_walk walk_of(const struct lists *lists, uint32_t first, uint32_t n)
{
    return (struct sl_walk){.n = sl_edges_first(&lists->edges, first + n),
                            .known = sl_edges_first(&lists->edges, first)};
}

/* The term of entry e. Its weight lacks the share of the list. */
SL_INLINE void look_up(enum sl_dtype dtype, const struct lists *lists, uint64_t e, struct sl_term *term)
{
    const uint32_t i = lists->edges.sources[e];
    const struct sl_weights *weights = lists->edges.weights;
    if (lists->degrees == NULL) {
        term->row = sl_source_row(dtype, lists->x, i, lists->n_columns);
        if (weights != NULL) {
            term->id = sl_weights_source(weights, i);
            term->weight = sl_weights_factor(weights, term->id);
        }
    } else {
        const uint32_t degree = lists->degrees[i + 1] - lists->degrees[i];
        term->row = sl_chunks_row(lists->gm, i, lists->n_columns);
        if (weights == NULL) {
            term->weight = 1 / (sl_real)degree;
        } else {
            term->id = sl_weights_destination(weights, i);
            term->weight = sl_weights_share(weights, term->id, degree);
        }
    }
    sl_row_fetch(term->row, sl_dtype_bytes(dtype, lists->n_columns));
}

/* The whole weight of a term, without the weight of its edge. */
SL_INLINE sl_real weight_of(const struct lists *lists, const struct sl_term *term, sl_real share, sl_vertex id)
{
    if (lists->edges.weights == NULL) {
        return lists->degrees == NULL ? share : term->weight;
    }
    return term->id == id ? 0 : share * term->weight;
}

/* out += the rows of list i, in order. share: the factor of all its weights; id: its vertex, with symmetric weights. */
SL_INLINE void add_list(enum sl_dtype dtype, struct sl_walk *walk, const struct lists *lists, uint32_t i, sl_real share,
                        sl_vertex id, sl_real *out)
{
    const uint64_t end = sl_edges_first(&lists->edges, i + 1);
    uint64_t stop;
    for (uint64_t e = sl_edges_first(&lists->edges, i); e < end; e = stop) {
        stop = sl_walk_stop(e, end);
        for (const uint64_t ahead = sl_walk_ahead(walk, stop); walk->known < ahead; walk->known++) {
            look_up(dtype, lists, walk->known, sl_walk_term(walk, walk->known));
        }
        for (uint64_t k = e; k < stop; k++) {
            struct sl_term *term = sl_walk_term(walk, k);
            term->weight = weight_of(lists, term, share, id);
            if (lists->edges.edge_weights != NULL) {
                term->weight *= (sl_real)lists->edges.edge_weights[k];
            }
        }
        sl_walk_add(dtype, walk, e, stop, lists->n_columns, out);
    }
}

/* The own row of destination d of the frontier. */
SL_INLINE const void *own_row(enum sl_dtype dtype, const struct sl_source_rows *x, uint32_t d, sl_vertex id,
                              uint32_t n_columns)
{
    if (x->own.chunk != NULL) {
        return sl_view_row_of(dtype, &x->own, d, n_columns);
    }
    return sl_source_row(dtype, x, id, n_columns);
}

/* Lists row0 .. row0 + n_rows - 1 into rows of sums that are m_width apart. */
struct sums {
    uint32_t row0, n_rows, m_width;
    int beta;
    sl_real *m;
};

SL_INLINE void sum_lists(const struct lists *lists, enum sl_dtype dtype, const struct sums *sums)
{
    const struct sl_weights *weights = lists->edges.weights;
    struct sl_walk walk = walk_of(lists, sums->row0, sums->n_rows);
    for (uint32_t i = 0; i < sums->n_rows; i++) {
        const uint32_t d = sums->row0 + i;
        const uint64_t n = sl_edges_first(&lists->edges, d + 1) - sl_edges_first(&lists->edges, d);
        sl_real *out = sums->m + (size_t)i * sums->m_width;
        if (!sums->beta) {
            memset(out, 0, lists->n_columns * sizeof *out);
        }
        if (weights == NULL) {
            add_list(dtype, &walk, lists, d, 1 / (sl_real)n, 0, out);
            continue;
        }
        const sl_vertex id = sl_weights_destination(weights, d);
        sl_add_row(dtype, lists->n_columns, out, own_row(dtype, lists->x, d, id, lists->n_columns), 0,
                   sl_weights_self(weights, id));
        add_list(dtype, &walk, lists, d, n == 0 ? 0 : sl_weights_share(weights, id, n), id, out);
    }
}

/* Call an SL_INLINE kernel(lists, ..). `degrees`, and weights that are NULL, are constants of the kernel: the mean
 * compiles without weights. */
#define BY_WEIGHTS(all, offsets, kernel, ...)                                                                          \
    do {                                                                                                               \
        struct lists some = *(all);                                                                                    \
        some.degrees = (offsets);                                                                                      \
        if (some.edges.weights != NULL) {                                                                              \
            kernel(&some, __VA_ARGS__);                                                                                \
        } else if (some.edges.edge_weights != NULL) {                                                                  \
            some.edges.weights = NULL;                                                                                 \
            kernel(&some, __VA_ARGS__);                                                                                \
        } else {                                                                                                       \
            some.edges.weights = NULL;                                                                                 \
            some.edges.edge_weights = NULL;                                                                            \
            kernel(&some, __VA_ARGS__);                                                                                \
        }                                                                                                              \
    } while (0)

SL_INLINE void choose_sum(enum sl_dtype dtype, const struct lists *lists, const struct sums *sums)
{
    BY_WEIGHTS(lists, NULL, sum_lists, dtype, sums);
}

SL_CLONES static void sum_rows(enum sl_dtype dtype, const struct lists *lists, const struct sums *sums)
{
    SL_BY_DTYPE_READ(dtype, choose_sum, lists, sums);
}

#define ROUNDED_ROWS 256 /* rows summed in float before they are rounded */

/* bf16 sums are of bf16 rows. */
static enum sl_status sum_to(enum sl_dtype dtype, const struct lists *lists, struct sums sums, enum sl_dtype m_dtype,
                             void *m_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, m_dtype, sums.n_rows, lists->n_columns, m_out);
    const uint32_t row0 = sums.row0;
    enum sl_status st;
    slab.beta = sums.beta;
    slab.out_width = sums.m_width;
    while (sl_rounded_next(&slab, &st)) {
        sums = (struct sums){row0 + slab.first, slab.n, slab.width, sums.beta, slab.room};
        sum_rows(dtype, lists, &sums);
    }
    return st;
}

enum sl_status sl_aggregate_forward_cpu(const struct sl_edges *edges, uint32_t n_columns, int beta, uint32_t m_width,
                                        enum sl_dtype m_dtype, void *m_out)
{
    struct sl_source_rows rows;
    const enum sl_dtype dtype = sl_edges_rows(edges, &rows);
    const struct lists lists = {.edges = *edges, .x = &rows, .n_columns = n_columns};
    return sum_to(dtype, &lists, (struct sums){edges->row0, edges->n_rows, m_width, beta, NULL}, m_dtype, m_out);
}

/* Lists of a block by source. */
static struct lists lists_back(const struct sl_transposed *block, const struct sl_chunks *gm, uint32_t n_columns)
{
    return (struct lists){.edges = {.offsets = block->back_offsets,
                                    .sources = block->back_rows,
                                    .weights = block->weights,
                                    .edge_weights = block->back_weights},
                          .degrees = block->edge_offsets,
                          .gm = gm,
                          .n_columns = n_columns};
}

/* out += the terms of position t. */
SL_INLINE void add_back(struct sl_walk *walk, const struct lists *lists, uint32_t t, sl_real *out)
{
    const sl_vertex id = lists->edges.weights == NULL ? 0 : sl_weights_source(lists->edges.weights, t);
    const sl_real share = lists->edges.weights == NULL ? 1 : sl_weights_factor(lists->edges.weights, id);
    add_list(SL_DTYPE_REAL, walk, lists, t, share, id, out);
}

SL_INLINE void sum_back(const struct lists *lists, uint32_t t0, uint32_t n, sl_real *out)
{
    struct sl_walk walk = walk_of(lists, t0, n);
    memset(out, 0, (size_t)n * lists->n_columns * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(&walk, lists, t0 + i, out + (size_t)i * lists->n_columns);
    }
}

SL_CLONES static void sum_of_owner(const struct lists *lists, uint32_t t0, uint32_t n, sl_real *out)
{
    BY_WEIGHTS(lists, lists->degrees, sum_back, t0, n, out);
}

enum sl_status sl_aggregate_backward_cpu(const struct sl_transposed *block, const struct sl_chunks *gm,
                                         uint32_t n_columns, uint32_t n_owners, const uint32_t *t0, const uint32_t *n,
                                         enum sl_dtype dtype, void *const *packed_out)
{
    const struct lists lists = lists_back(block, gm, n_columns);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; k < n_owners && st == SL_OK; k++) {
        struct sl_rounded slab =
            sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, dtype, n[k], n_columns, packed_out[k]);
        while (sl_rounded_next(&slab, &st)) {
            sum_of_owner(&lists, t0[k] + slab.first, slab.n, slab.room);
        }
    }
    return st;
}

SL_CLONES void sl_accumulate_self_cpu(const struct sl_weights *weights, uint32_t n_gm, const struct sl_chunks *gm,
                                      const struct sl_gradient *g)
{
    for (uint32_t i = 0; i < g->n_rows && g->row0 + i < n_gm; i++) {
        sl_real weight = sl_weights_self(weights, sl_weights_destination(weights, g->row0 + i));
        sl_add_row(SL_DTYPE_REAL, g->n_columns, sl_gradient_row(g, i), sl_chunks_row(gm, g->row0 + i, g->n_columns), 0,
                   weight);
    }
}

SL_INLINE void add_sent(enum sl_dtype dtype, uint32_t n, const uint32_t *inverse, const void *sent,
                        const struct sl_gradient *g)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            const char *from = (const char *)sent + sl_dtype_bytes(dtype, (size_t)i * g->n_columns);
            sl_add_row(dtype, g->n_columns, sl_gradient_row(g, row), from, 0, 1);
        }
    }
}

static const uint32_t *rows_asked(const struct sl_asked *asked)
{
    return sl_list_of(asked->inverse, asked->n_parts, asked->requester);
}

SL_CLONES void sl_accumulate_sent_cpu(uint32_t n, const struct sl_asked *asked, enum sl_dtype dtype, const void *sent,
                                      int beta, const struct sl_gradient *g)
{
    (void)beta;
    SL_BY_DTYPE(dtype, add_sent, n, rows_asked(asked), sent, g);
}

/* Adds only to rows of g. After skipped positions the walk restarts. */
SL_INLINE void sum_own(const struct lists *lists, uint32_t t0, uint32_t n, const uint32_t *inverse,
                       const struct sl_gradient *g)
{
    struct sl_walk walk = walk_of(lists, t0, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = inverse[i] - g->row0;
        if (row < g->n_rows) {
            walk.known = sl_max_u64(walk.known, sl_edges_first(&lists->edges, t0 + i));
            add_back(&walk, lists, t0 + i, sl_gradient_row(g, row));
        }
    }
}

SL_CLONES void sl_accumulate_own_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n,
                                     const struct sl_asked *asked, const struct sl_chunks *gm, int beta,
                                     const struct sl_gradient *g)
{
    const struct lists lists = lists_back(block, gm, g->n_columns);
    (void)beta;
    BY_WEIGHTS(&lists, lists.degrees, sum_own, t0, n, rows_asked(asked), g);
}

/* ---- operations ---- */

/* Symmetric weights of a block, or of a part. factors without a handle: the mean. */
struct weights {
    struct sl_matrix factors, frontier, request;
    sl_real scale;
    uint32_t n_parts; /* PEs with entries in the request */
    sl_vertex first;  /* evaluation: the part's first id */
};

/* By destination. */
struct forward {
    struct sl_task_args head;
    struct sl_edge_operands edges;
    struct sl_matrix m;
    struct weights weights;
    int beta;
    uint32_t first_column, n_columns; /* of m */
};

struct full {
    struct forward sums;
    struct sl_parts parts;
};

/* By source. */
struct back {
    struct sl_task_args head;
    struct sl_back_operands block;
    struct weights weights;
    enum sl_dtype dtype; /* of packed */
};

/* ---- operations: edges ---- */

struct sl_back_operands sl_back_of(const struct sl_block *block, const struct sl_rows *gm)
{
    return (struct sl_back_operands){.edge_offsets = sl_matrix_of(block->edge_offsets),
                                     .relations = sl_matrix_of(block->edge_relations),
                                     .offsets = sl_matrix_of(block->back_offsets),
                                     .rows = sl_matrix_of(block->back_rows),
                                     .back_relations = sl_matrix_of(block->back_relations),
                                     .weights = sl_matrix_of(block->back_weights),
                                     .gm = sl_chunks_of(gm)};
}

struct sl_transposed sl_transposed_in(const struct sl_back_operands *operands)
{
    return (struct sl_transposed){.back_offsets = operands->offsets.data,
                                  .back_rows = operands->rows.data,
                                  .edge_offsets = operands->edge_offsets.data,
                                  .back_weights = operands->weights.data,
                                  .back_relations = operands->back_relations.data,
                                  .relations = operands->relations.data};
}

/* ---- operations: sums ---- */

/* In *room. NULL: the mean. */
static const struct sl_weights *weights_in(const struct weights *w, struct sl_weights *room)
{
    const sl_vertex *request = w->request.data;
    *room = (struct sl_weights){
        .factors = w->factors.data, .destinations = w->frontier.data, .first = w->first, .scale = w->scale};
    if (request != NULL) {
        room->sources = request + w->n_parts + 1;
    }
    return w->factors.data != NULL ? room : NULL;
}

static struct sl_transposed transposed_of(const struct back *v, struct sl_weights *room)
{
    struct sl_transposed block = sl_transposed_in(&v->block);
    block.weights = weights_in(&v->weights, room);
    return block;
}

/* parts: NULL: of a block. */
static enum sl_status sum(const struct forward *v, const struct sl_parts *parts, const void *stream)
{
    struct sl_weights weights;
    struct sl_edges edges = sl_edges_in(&v->edges, v->m.n_rows, parts);
    char *m = (char *)v->m.data + sl_dtype_bytes(v->m.dtype, v->first_column);
    edges.weights = weights_in(&v->weights, &weights);
#ifdef SL_CUDA
    if (stream != NULL && starpu_task_get_implementation(starpu_task_get_current()) == 1) {
        return sl_aggregate_forward_cusparse(*(const cudaStream_t *)stream, starpu_cusparse_get_local_handle(), &edges,
                                             v->n_columns, v->beta, v->m.data);
    }
#endif
    return SL_CALL(stream, sl_aggregate_forward, &edges, v->n_columns, v->beta, v->m.n_columns, v->m.dtype, m);
}

static enum sl_status forward(const void *view, const void *stream)
{
    return sum(view, NULL, stream);
}

static enum sl_status full(const void *view, const void *stream)
{
    const struct full *v = view;
    return sum(&v->sums, &v->parts, stream);
}

static enum sl_status backward(const void *view, const void *stream)
{
    const struct back *v = view;
    struct sl_weights weights;
    const struct sl_transposed block = transposed_of(v, &weights);
    return SL_CALL(stream, sl_aggregate_backward, &block, &v->block.gm, v->block.gm.n_columns, v->block.packed.n,
                   v->block.packed.numbers, v->block.packed.n_rows, v->dtype, v->block.packed.data);
}

/* ---- operations: shares ---- */

enum sl_status sl_accumulate_begin_cpu(struct sl_gradient *g)
{
    return sl_alloc_zero(((size_t)g->n_rows + 63) / 64, sizeof *g->begun, "marks of rows", &g->begun);
}

/* Clear the rows that have no sum yet. */
static void end_gradient(struct sl_gradient *g)
{
    for (uint32_t i = 0; i < g->n_rows; i++) {
        sl_gradient_row(g, i);
    }
    sl_free(g->begun);
}

enum sl_status sl_accumulate(const void *view, const void *stream, const struct sl_shares *shares,
                             const struct sl_share_adders *add)
{
    struct sl_gradient g = {
        .row0 = shares->row0, .n_rows = shares->g.n_rows, .n_columns = shares->g.n_columns, .rows = shares->g.data};
    struct sl_asked asked = {shares->inverse.data, shares->sent.n, 0};
    int beta = !add->overwrites;
    SL_CHECK(SL_CALL(stream, sl_accumulate_begin, &g));
    enum sl_status st = add->self == NULL ? SL_OK : add->self(view, stream, &g);
    for (uint32_t p = 0; p < shares->sent.n && st == SL_OK; p++) {
        asked.requester = p;
        if (p == shares->own) {
            st = add->own(view, stream, &asked, beta, &g);
            beta = 1;
        } else if (shares->sent.data[p] != NULL) {
            st = SL_RUN(stream, sl_accumulate_sent, shares->sent.n_rows[p], &asked, shares->sent_dtype,
                        shares->sent.data[p], beta, &g);
            beta = 1;
        }
    }
    if (g.begun != NULL) {
        end_gradient(&g);
    }
    return st;
}

static enum sl_status add_self(const void *view, const void *stream, const struct sl_gradient *g)
{
    const struct back *v = view;
    struct sl_weights weights;
    weights_in(&v->weights, &weights);
    return SL_RUN(stream, sl_accumulate_self, &weights, v->block.gm.n_rows, &v->block.gm, g);
}

static enum sl_status add_own(const void *view, const void *stream, const struct sl_asked *asked, int beta,
                              const struct sl_gradient *g)
{
    const struct back *v = view;
    struct sl_weights weights;
    const struct sl_transposed block = transposed_of(v, &weights);
    return SL_RUN(stream, sl_accumulate_own, &block, v->block.shares.t0, v->block.shares.n_own, asked, &v->block.gm,
                  beta, g);
}

static enum sl_status accumulate(const void *view, const void *stream)
{
    static const struct sl_share_adders mean = {.own = add_own, .overwrites = true};
    static const struct sl_share_adders symmetric = {.self = add_self, .own = add_own};
    const struct back *v = view;
    return sl_accumulate(view, stream, &v->block.shares, v->weights.factors.data != NULL ? &symmetric : &mean);
}

/* ---- operations: tables ---- */

#ifdef SL_CUDA
/* A copy takes at most 1 / COPY_SHARE of the GPU memory for data. Launchers have a fifteenth
 * (runtime/machine/gpus.c). */
#define COPY_SHARE 64

/* Conditions of cuSPARSE: the user allowed it; a mean of sl_real rows; edges and sources in 31 bits; and GPU memory for
 * a copy of the source rows, which StarPU does not manage. */
static int forward_can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    const struct forward *v = task->cl_arg;
    const struct sl_run *run = v->head.run;
    (void)worker;
    if (implementation == 0 || !run->fastest_means || v->weights.factors.handle != NULL ||
        v->edges.weights.handle != NULL || v->edges.x.dtype != SL_DTYPE_REAL) {
        return implementation == 0;
    }
    const uint64_t copy_bytes = (uint64_t)v->edges.x.n_sources * v->m.n_columns * sizeof(sl_real);
    return v->edges.sources.n_rows <= INT32_MAX && v->edges.x.n_sources <= INT32_MAX &&
           (run->gpu_bytes == 0 || copy_bytes <= run->gpu_bytes / COPY_SHARE);
}
#endif

/* Roles of symmetric weights. */
#define WEIGHT_ROLES(view, weights)                                                                                    \
    {"factors", STARPU_R | SL_OPTIONAL, offsetof(view, weights.factors), "N x 2"},                                     \
        {"frontier", STARPU_R | SL_OPTIONAL, offsetof(view, weights.frontier), "?", SL_INTS_32},                       \
    {                                                                                                                  \
        "request", STARPU_R | SL_OPTIONAL, offsetof(view, weights.request), "?", SL_INTS_32                            \
    }

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_aggregate_forward", SL_STAGE_AGGREGATE),
    .body = forward,
    .bytes = sizeof(struct forward),
    SL_ON_GPUS_TWICE, /* the second: cuSPARSE */
#ifdef SL_CUDA
    .codelet.can_execute = forward_can_execute,
#endif
    .role = {SL_EDGE_ROLES(struct forward, edges, SL_INTS_32),
             {"mean", STARPU_W | SL_OR_RW, offsetof(struct forward, m), "D x F", SL_ROWS_OR_REALS},
             SL_SOURCE_ROLES(struct forward, edges.x),
             WEIGHT_ROLES(struct forward, weights)},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_aggregate_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x F"), WEIGHT_ROLES(struct back, weights),
             SL_PACKED_ROLE(struct back, block)},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_accumulate", SL_STAGE_BACKWARD),
    SL_BODY(accumulate, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x F"), WEIGHT_ROLES(struct back, weights),
             SL_SHARE_ROLES(struct back, block.shares)},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_aggregate_full", SL_STAGE_AGGREGATE),
    SL_BODY(full, struct full),
    .role = {SL_EDGE_ROLES(struct full, sums.edges, SL_INTS_64),
             {"mean", STARPU_W | SL_OR_RW, offsetof(struct full, sums.m), "D x M", SL_ROWS_OR_REALS},
             SL_PART_ROLES(struct full, parts),
             WEIGHT_ROLES(struct full, sums.weights)},
};

/* ---- submissions ---- */

static struct weights weights_of(const struct sl_vertex_factors *weights)
{
    if (weights == NULL) {
        return (struct weights){0};
    }
    return (struct weights){.factors = sl_matrix_of(weights->factors),
                            .frontier = sl_matrix_of(weights->frontier),
                            .request = sl_matrix_of(weights->request),
                            .scale = (sl_real)weights->scale,
                            .n_parts = weights->n_parts};
}

enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                           uint64_t n_edges, const struct sl_source_handles *sources, int beta,
                                           starpu_data_handle_t m)
{
    struct forward v = {.head = *head,
                        .edges = sl_edges_of_block(block, row0, sources),
                        .m = sl_matrix_of(m),
                        .weights = weights_of(sources->weights),
                        .beta = beta};
    v.edges.relations = sl_matrix_of(NULL);
    v.n_columns = v.m.n_columns;
    v.m.is_kept = beta != 0;
    v.head.work = sl_sum_bytes(n_edges, v.m.n_rows, v.m.n_columns);
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

static struct back back_view(const struct sl_task_args *head, const struct sl_block *block, const struct sl_rows *gm,
                             const struct sl_vertex_factors *weights)
{
    struct back v = {.head = *head, .block = sl_back_of(block, gm), .weights = weights_of(weights)};
    v.block.relations = v.block.back_relations = sl_matrix_of(NULL);
    return v;
}

enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                            const struct sl_rows *gm, const struct sl_vertex_factors *weights,
                                            uint64_t n_edges, uint32_t n_owners, const uint32_t *t0,
                                            const struct sl_slice *packed)
{
    struct back v = back_view(head, block, gm, weights);
    v.block.packed = (struct sl_matrices){.n = n_owners, .slices = packed, .numbers = t0};
    v.dtype = sl_handle_dtype(packed[0].handle);
    v.head.work = sl_sum_bytes(n_edges, sl_slices_rows(&v.block.packed), gm->n_columns);
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_SEND);
}

enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g)
{
    struct back v = back_view(head, shares->block, shares->gm, shares->weights);
    struct sl_shares *to = &v.block.shares;
    *to = sl_shares_of(&shares->from, shares->block->inverse, row0, g);
    v.head.work = sl_sum_bytes(to->n_own + sl_slices_rows(&to->sent), to->g.n_rows, to->g.n_columns);
    return sl_view_submit(&accumulate_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                        uint32_t row0, int beta, starpu_data_handle_t m)
{
    const struct sl_full_columns *columns = &sources->columns;
    starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS];
    struct full v = {.sums = {.head = *head,
                              .edges = sl_edges_of_part(sources, row0),
                              .m = sl_matrix_of(m),
                              .weights = weights_of(sources->weights),
                              .beta = beta,
                              .first_column = columns->first,
                              .n_columns = columns->n},
                     .parts = sl_parts_of(sources->first, sources->n_parts, sources->rows, columns->start, chunks)};
    assert((uint64_t)columns->first + columns->n <= v.sums.m.n_columns);
    for (uint32_t q = 0; q < sources->n_parts; q++) {
        assert((uint64_t)columns->start[q] + columns->n <= sources->rows[q].n_columns);
    }
    v.sums.edges.relations = sl_matrix_of(NULL);
    v.sums.weights.first = sources->first_id;
    v.sums.m.is_kept = beta != 0 || columns->first > 0;
    v.sums.head.work = sl_sum_bytes(sources->n_edges, v.sums.m.n_rows, columns->n);
    return sl_view_submit(&full_op, &v, SL_PRIORITY_NORMAL);
}
