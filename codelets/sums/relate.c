/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Means by relation, mixed by components or not, and the transposed sums. Terms are added in order. The rows of edges
 * to come are prefetched. */
#include "codelets/sums/relate.h"

#include <assert.h>
#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sums/walk.h"
#include "support/memory.h"
#include "support/minmax.h"

#define COLUMNS 512 /* columns of a run that are summed at a time, before components mix them */

/* ---- kernels, CPU ---- */

/* `n` columns from `first` on, or bases. */
struct columns {
    uint32_t first, n;
};

/* Lists of destinations, with the rows of their sources. */
struct lists {
    struct sl_edges edges;
    const struct sl_source_rows *x;
    const struct sl_slabs *slabs;
    uint64_t n; /* entries that may be prefetched */
};

static struct lists lists_of(const struct sl_edges *edges, const struct sl_source_rows *x, const struct sl_slabs *slabs)
{
    return (struct lists){*edges, x, slabs, sl_edges_first(edges, edges->row0 + edges->n_rows)};
}

/* The end of the run that begins with entry e; `end`: of the destination's entries. */
SL_INLINE uint64_t run_end(const uint16_t *relations, uint64_t e, uint64_t end)
{
    uint64_t stop = e + 1;
    while (stop < end && relations[stop] == relations[e]) {
        stop++;
    }
    return stop;
}

SL_INLINE sl_real weight_at(const float *weights, uint64_t e)
{
    return weights == NULL ? 1 : (sl_real)weights[e];
}

/* The row of entry e, from column `first` on. */
SL_INLINE const char *row_at(enum sl_dtype dtype, const struct lists *lists, uint64_t e, size_t first)
{
    return sl_source_row(dtype, lists->x, lists->edges.sources[e], lists->slabs->x_width) +
           sl_dtype_bytes(dtype, first);
}

/* out += the weighted sum of these columns of the rows of entries e .. stop - 1, a run. weight: of all of them. Rows to
 * come are prefetched; without components the relation says which of their slabs. */
SL_INLINE void add_run(enum sl_dtype dtype, const struct lists *lists, uint64_t e, uint64_t stop,
                       struct columns columns, sl_real weight, sl_real *out)
{
    const struct sl_slabs *slabs = lists->slabs;
    for (; e < stop; e++) {
        const uint64_t ahead = e + SL_ROWS_AHEAD;
        if (ahead < lists->n) {
            const size_t first =
                slabs->c == NULL ? (size_t)lists->edges.relations[ahead] * slabs->x_step : columns.first;
            sl_row_fetch(row_at(dtype, lists, ahead, first), sl_dtype_bytes(dtype, columns.n));
        }
        sl_add_row(dtype, columns.n, out, row_at(dtype, lists, e, columns.first), 0,
                   weight * weight_at(lists->edges.edge_weights, e));
    }
}

/* out += the sums of entries begin .. end - 1, one destination's. */
SL_INLINE void add_edges(enum sl_dtype dtype, const struct lists *lists, uint64_t begin, uint64_t end, sl_real *out)
{
    const struct sl_slabs *slabs = lists->slabs;
    for (uint64_t e = begin; e < end;) {
        const uint32_t relation = lists->edges.relations[e];
        const uint64_t stop = run_end(lists->edges.relations, e, end);
        add_run(dtype, lists, e, stop, (struct columns){relation * slabs->x_step, slabs->n}, 1 / (sl_real)(stop - e),
                out + (size_t)relation * slabs->m_step);
        e = stop;
    }
}

/* The next columns of a row that are summed and mixed at a time. False: all columns have been in hand. Begin with
 * n = 0. */
SL_INLINE bool next_columns(const struct sl_slabs *slabs, struct columns *columns)
{
    columns->first += columns->n;
    const uint32_t all = slabs->x_step > 0 ? slabs->x_width : slabs->n;
    const uint32_t rest = all - columns->first;
    const uint32_t to_slab = slabs->n - columns->first % slabs->n;
    columns->n = sl_min_u32(rest, sl_min_u32(to_slab, COLUMNS));
    return columns->n > 0;
}

/* The bases that columns in hand belong to: one if rows have slabs, otherwise all. */
SL_INLINE struct columns bases_of(const struct sl_slabs *slabs, struct columns columns)
{
    if (slabs->x_step > 0) {
        return (struct columns){columns.first / slabs->n, 1};
    }
    return (struct columns){0, slabs->n_bases};
}

/* The means of one destination's runs with components. gc NULL: add the mixed means to `out`. Otherwise add to gc their
 * products with g, a row of GM. */
SL_INLINE void mix(enum sl_dtype dtype, const struct lists *lists, uint64_t begin, uint64_t end, sl_real *out,
                   const sl_real *g, double *gc)
{
    const struct sl_slabs *slabs = lists->slabs;
    sl_real sum[COLUMNS];
    for (uint64_t e = begin; e < end;) {
        const uint64_t stop = run_end(lists->edges.relations, e, end);
        const sl_real weight = 1 / (sl_real)(stop - e);
        const size_t components = (size_t)lists->edges.relations[e] * slabs->n_bases;
        struct columns columns = {0, 0};
        while (next_columns(slabs, &columns)) {
            const struct columns bases = bases_of(slabs, columns);
            memset(sum, 0, columns.n * sizeof *sum);
            add_run(dtype, lists, e, stop, columns, 1, sum);
            for (uint32_t b = bases.first; b < bases.first + bases.n; b++) {
                const size_t first = (size_t)b * slabs->m_step + columns.first % slabs->n;
                if (gc == NULL) {
                    sl_add_row(SL_DTYPE_REAL, columns.n, out + first, sum, 0, weight * slabs->c[components + b]);
                } else {
                    gc[components + b] += (double)(weight * sl_row_dot(columns.n, sum, g + first));
                }
            }
        }
        e = stop;
    }
}

/* The entries of destination i are bound_of(lists, i) .. bound_of(lists, i + 1) - 1. */
SL_INLINE uint64_t bound_of(const struct lists *lists, uint32_t i)
{
    return sl_edges_first(&lists->edges, lists->edges.row0 + i);
}

SL_INLINE void sum_edges(enum sl_dtype dtype, const struct lists *lists, int beta, sl_real *m_out)
{
    const uint32_t width = lists->slabs->m_width;
    if (!beta) {
        memset(m_out, 0, (size_t)lists->edges.n_rows * width * sizeof *m_out);
    }
    for (uint32_t i = 0; i < lists->edges.n_rows; i++) {
        if (lists->slabs->c == NULL) {
            add_edges(dtype, lists, bound_of(lists, i), bound_of(lists, i + 1), m_out + (size_t)i * width);
        } else {
            mix(dtype, lists, bound_of(lists, i), bound_of(lists, i + 1), m_out + (size_t)i * width, NULL, NULL);
        }
    }
}

SL_CLONES static void relate(enum sl_dtype dtype, const struct lists *lists, int beta, sl_real *m_out)
{
    SL_BY_DTYPE_READ(dtype, sum_edges, lists, beta, m_out);
}

#define ROUNDED_ROWS 64 /* rows summed in float before they are rounded */

/* Sums of bf16 rows may be bf16, too. */
static enum sl_status relate_to(enum sl_dtype dtype, struct lists lists, int beta, enum sl_dtype m_dtype, void *m_out)
{
    const uint32_t row0 = lists.edges.row0;
    struct sl_rounded slab = sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, m_dtype, lists.edges.n_rows,
                                              lists.slabs->m_width, m_out);
    enum sl_status st;
    slab.beta = beta;
    while (sl_rounded_next(&slab, &st)) {
        lists.edges.row0 = row0 + slab.first;
        lists.edges.n_rows = slab.n;
        relate(dtype, &lists, beta, slab.room);
    }
    return st;
}

enum sl_status sl_relate_forward_cpu(const struct sl_edges *edges, const struct sl_slabs *slabs, int beta,
                                     enum sl_dtype m_dtype, void *m_out)
{
    struct sl_source_rows rows;
    const enum sl_dtype dtype = sl_edges_rows(edges, &rows);
    return relate_to(dtype, lists_of(edges, &rows, slabs), beta, m_dtype, m_out);
}

/* out += the terms of position t. Entries before `last` are fetched ahead. */
SL_INLINE void add_back(const struct sl_transposed *block, uint32_t t, uint32_t last, const struct sl_slabs *slabs,
                        const struct sl_chunks *gm, sl_real *out)
{
    for (uint32_t e = block->back_offsets[t]; e < block->back_offsets[t + 1]; e++) {
        const uint32_t d = block->back_rows[e];
        if (e + SL_ROWS_AHEAD < last) {
            const sl_real *next = sl_chunks_row(gm, block->back_rows[e + SL_ROWS_AHEAD], slabs->m_width);
            const uint32_t slab = slabs->c == NULL ? block->back_relations[e + SL_ROWS_AHEAD] * slabs->m_step : 0;
            sl_row_fetch(next + slab, slabs->n * sizeof *next);
        }
        const uint32_t relation = block->back_relations[e];
        const uint64_t n =
            sl_relation_count(block->relations, block->edge_offsets[d], block->edge_offsets[d + 1], relation);
        const sl_real weight = 1 / (sl_real)n * weight_at(block->back_weights, e);
        const sl_real *row = sl_chunks_row(gm, d, slabs->m_width);
        if (slabs->c == NULL) {
            sl_add_row(SL_DTYPE_REAL, slabs->n, out + (size_t)relation * slabs->x_step,
                       row + (size_t)relation * slabs->m_step, 0, weight);
            continue;
        }
        const sl_real *c = slabs->c + (size_t)relation * slabs->n_bases;
        for (uint32_t b = 0; b < slabs->n_bases; b++) {
            sl_add_row(SL_DTYPE_REAL, slabs->n, out + (size_t)b * slabs->x_step, row + (size_t)b * slabs->m_step, 0,
                       weight * c[b]);
        }
    }
}

SL_CLONES static void relate_back(const struct sl_transposed *block, const struct sl_chunks *gm,
                                  const struct sl_slabs *slabs, uint32_t t0, uint32_t n, sl_real *out)
{
    const uint32_t last = block->back_offsets[t0 + n];
    memset(out, 0, (size_t)n * slabs->x_width * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(block, t0 + i, last, slabs, gm, out + (size_t)i * slabs->x_width);
    }
}

enum sl_status sl_relate_backward_cpu(const struct sl_transposed *block, const struct sl_chunks *gm,
                                      const struct sl_slabs *slabs, uint32_t t0, uint32_t n, enum sl_dtype dtype,
                                      void *out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, dtype, n, slabs->x_width, out);
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        relate_back(block, gm, slabs, t0 + slab.first, slab.n, slab.room);
    }
    return st;
}

SL_CLONES void sl_relate_own_cpu(const struct sl_transposed *block, const struct sl_chunks *gm,
                                 const struct sl_slabs *slabs, uint32_t t0, uint32_t n, const struct sl_asked *asked,
                                 const struct sl_gradient *g)
{
    const uint32_t *inverse = sl_list_of(asked->inverse, asked->n_parts, asked->requester);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t last = block->back_offsets[t0 + n];
        uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            add_back(block, t0 + i, last, slabs, gm, sl_gradient_row(g, row));
        }
    }
}

SL_INLINE void sum_components(enum sl_dtype dtype, const struct lists *lists, const sl_real *gm, double *gc)
{
    for (uint32_t i = 0; i < lists->edges.n_rows; i++) {
        mix(dtype, lists, bound_of(lists, i), bound_of(lists, i + 1), NULL, gm + (size_t)i * lists->slabs->m_width, gc);
    }
}

SL_CLONES enum sl_status sl_relate_components_cpu(const struct sl_edges *edges, const struct sl_slabs *slabs,
                                                  const sl_real *gm, uint32_t n_relations, sl_real *gc_out)
{
    const size_t n = (size_t)n_relations * slabs->n_bases;
    struct sl_source_rows rows;
    double *gc;
    SL_CHECK(sl_alloc_zero(n, sizeof *gc, "sums of products", &gc));
    const enum sl_dtype dtype = sl_edges_rows(edges, &rows);
    const struct lists lists = lists_of(edges, &rows, slabs);
    SL_BY_DTYPE_READ(dtype, sum_components, &lists, gm, gc);
    for (size_t i = 0; i < n; i++) {
        gc_out[i] = (sl_real)gc[i];
    }
    sl_free(gc);
    return SL_OK;
}

/* ---- operations ---- */

/* By destination: forward and, with m for the sums' gradient and c for that of the components, components. */
struct sums {
    struct sl_task_args head;
    struct sl_edge_operands edges;
    struct sl_matrix m, c;
    uint32_t x_width;
    int beta;
};

struct full {
    struct sums sums;
    struct sl_parts parts;
};

/* By source. */
struct back {
    struct sl_task_args head;
    struct sl_back_operands block;
    struct sl_matrix c;
    uint32_t x_width;
    enum sl_dtype dtype; /* of packed */
};

static struct sl_slabs slabs_of(uint32_t x_width, uint32_t m_width, const struct sl_matrix *c)
{
    struct sl_slabs slabs = sl_slabs_of(x_width, m_width);
    slabs.n_bases = c->n_columns;
    slabs.c = c->data;
    return slabs;
}

/* parts: NULL: of a block. */
static enum sl_status sum(const struct sums *v, const struct sl_parts *parts, const void *stream)
{
    const struct sl_slabs slabs = slabs_of(v->x_width, v->m.n_columns, &v->c);
    const struct sl_edges edges = sl_edges_in(&v->edges, v->m.n_rows, parts);
    return SL_CALL(stream, sl_relate_forward, &edges, &slabs, v->beta, v->m.dtype, v->m.data);
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

static enum sl_status components(const void *view, const void *stream)
{
    const struct sums *v = view;
    const struct sl_slabs slabs = slabs_of(v->x_width, v->m.n_columns, &v->c);
    const struct sl_edges edges = sl_edges_in(&v->edges, v->m.n_rows, NULL);
    return SL_CALL(stream, sl_relate_components, &edges, &slabs, v->m.data, v->c.n_rows, v->c.data);
}

static enum sl_status backward(const void *view, const void *stream)
{
    const struct back *v = view;
    const struct sl_slabs slabs = slabs_of(v->x_width, v->block.gm.n_columns, &v->c);
    const struct sl_transposed block = sl_transposed_in(&v->block);
    for (uint32_t q = 0; q < v->block.packed.n; q++) {
        SL_CHECK(SL_CALL(stream, sl_relate_backward, &block, &v->block.gm, &slabs, v->block.packed.numbers[q],
                         v->block.packed.n_rows[q], v->dtype, v->block.packed.data[q]));
    }
    return SL_OK;
}

static enum sl_status add_own(const void *view, const void *stream, const struct sl_asked *asked, int beta,
                              const struct sl_gradient *g)
{
    const struct back *v = view;
    const struct sl_slabs slabs = slabs_of(v->x_width, v->block.gm.n_columns, &v->c);
    const struct sl_transposed block = sl_transposed_in(&v->block);
    (void)beta;
    return SL_RUN(stream, sl_relate_own, &block, &v->block.gm, &slabs, v->block.shares.t0, v->block.shares.n_own, asked,
                  g);
}

static enum sl_status accumulate(const void *view, const void *stream)
{
    const struct back *v = view;
    const struct sl_share_adders adders = {.own = add_own};
    return sl_accumulate(view, stream, &v->block.shares, &adders);
}

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_relate_forward", SL_STAGE_AGGREGATE),
    SL_BODY(forward, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             {"means", STARPU_W | SL_OR_RW, offsetof(struct sums, m), "D x M", SL_ROWS_OR_REALS},
             SL_SOURCE_ROLES(struct sums, edges.x),
             {"components", STARPU_R | SL_OPTIONAL, offsetof(struct sums, c), "R x B"}},
};

static struct sl_operation components_op = {
    SL_OPERATION(components_op, "sl_relate_components", SL_STAGE_BACKWARD),
    SL_BODY(components, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             {"the sums' gradient", STARPU_R, offsetof(struct sums, m), "D x M"},
             {"gradient of components", STARPU_W, offsetof(struct sums, c), "? x B"},
             SL_SOURCE_ROLES(struct sums, edges.x)},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_relate_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x M"),
             {"components", STARPU_R | SL_OPTIONAL, offsetof(struct back, c), "? x B"},
             SL_PACKED_ROLE(struct back, block)},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_relate_accumulate", SL_STAGE_BACKWARD),
    SL_BODY(accumulate, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x M"),
             {"components", STARPU_R | SL_OPTIONAL, offsetof(struct back, c), "? x B"},
             SL_SHARE_ROLES(struct back, block.shares)},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_relate_full", SL_STAGE_AGGREGATE),
    SL_BODY(full, struct full),
    .role = {SL_EDGE_ROLES(struct full, sums.edges, SL_INTS_64),
             {"means", STARPU_W | SL_OR_RW, offsetof(struct full, sums.m), "D x M", SL_ROWS_OR_REALS},
             SL_PART_ROLES(struct full, parts),
             {"components", STARPU_R | SL_OPTIONAL, offsetof(struct full, sums.c), "R x B"}},
};

/* ---- submissions ---- */

/* One width is a multiple of the other; with components B times the other. */
static void check(uint32_t x_width, uint32_t m_width, const struct sl_matrix *c)
{
    const struct sl_slabs slabs = sl_slabs_of(x_width, m_width);
    const uint32_t width = sl_max_u32(x_width, m_width);
    assert(slabs.n > 0 && width % slabs.n == 0);
    assert(c->handle == NULL || width == (uint64_t)slabs.n * c->n_columns);
}

static struct sums sums_of(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                           const struct sl_source_handles *sources, starpu_data_handle_t c, starpu_data_handle_t m)
{
    const struct sums v = {.head = *head,
                           .edges = sl_edges_of_block(block, row0, sources),
                           .m = sl_matrix_of(m),
                           .c = sl_matrix_of(c),
                           .x_width = sources->rows->n_columns};
    assert(block->edge_relations != NULL);
    check(v.x_width, v.m.n_columns, &v.c);
    return v;
}

enum sl_status sl_relate_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources,
                                        starpu_data_handle_t c, int beta, starpu_data_handle_t m)
{
    struct sums v = sums_of(head, block, row0, sources, c, m);
    v.beta = beta;
    v.m.is_kept = beta != 0;
    v.head.work = sl_sum_bytes(n_edges, v.m.n_rows, sl_min_u32(v.x_width, v.m.n_columns));
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_relate_components_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                           uint64_t n_edges, const struct sl_source_handles *sources,
                                           starpu_data_handle_t gm, starpu_data_handle_t gc)
{
    struct sums v = sums_of(head, block, row0, sources, gc, gm);
    v.head.work = sl_sum_bytes(n_edges, v.m.n_rows, v.m.n_columns);
    return sl_view_submit(&components_op, &v, SL_PRIORITY_COMPUTE);
}

static struct back back_view(const struct sl_task_args *head, const struct sl_block *block, const struct sl_rows *gm,
                             starpu_data_handle_t c, uint32_t x_width)
{
    const struct back v = {.head = *head, .block = sl_back_of(block, gm), .c = sl_matrix_of(c), .x_width = x_width};
    assert(block->edge_relations != NULL && block->back_relations != NULL);
    check(x_width, gm->n_columns, &v.c);
    return v;
}

enum sl_status sl_relate_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_rows *gm, starpu_data_handle_t c, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed)
{
    struct back v = back_view(head, block, gm, c, sl_handle_columns(packed[0].handle));
    v.block.packed = (struct sl_matrices){.n = n_owners, .slices = packed, .numbers = t0};
    v.dtype = sl_handle_dtype(packed[0].handle);
    v.head.work = sl_sum_bytes(n_edges, sl_slices_rows(&v.block.packed), gm->n_columns);
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_SEND);
}

enum sl_status sl_relate_accumulate_submit(const struct sl_task_args *head, const struct sl_relate_shares *shares,
                                           uint32_t row0, starpu_data_handle_t g)
{
    struct back v = back_view(head, shares->block, shares->gm, shares->c, sl_handle_columns(g));
    struct sl_shares *to = &v.block.shares;
    *to = sl_shares_of(&shares->from, shares->block->inverse, row0, g);
    v.head.work = sl_sum_bytes(to->n_own + sl_slices_rows(&to->sent), to->g.n_rows, v.x_width);
    return sl_view_submit(&accumulate_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_relate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t row0, starpu_data_handle_t c, int beta, starpu_data_handle_t m)
{
    starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS];
    struct full v = {.sums = {.head = *head,
                              .edges = sl_edges_of_part(sources, row0),
                              .m = sl_matrix_of(m),
                              .c = sl_matrix_of(c),
                              .x_width = sources->columns.n,
                              .beta = beta},
                     .parts = sl_parts_of(sources->first, sources->n_parts, sources->rows, NULL, chunks)};
    struct sums *sums = &v.sums;
    assert(sources->edge_relations != NULL);
    check(sums->x_width, sums->m.n_columns, &sums->c);
    sums->m.is_kept = beta != 0;
    sums->head.work = sl_sum_bytes(sources->n_edges, sums->m.n_rows, sl_min_u32(sums->x_width, sums->m.n_columns));
    return sl_view_submit(&full_op, &v, SL_PRIORITY_NORMAL);
}
