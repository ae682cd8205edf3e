/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Means by relation, mixed by components or not, and the transposed sums. Terms are added in order. The rows of edges
 * to come are prefetched. */
#include "codelets/relate.h"

#include <string.h>

#include "codelets/rounded.h"
#include "support/memory.h"
#include "support/minmax.h"

#define AHEAD 12    /* terms prefetched ahead */
#define COLUMNS 512 /* columns of a run that are summed at a time, before components mix them */

/* ---- kernels, CPU ---- */

SL_INLINE void add_scaled(enum sl_dtype dtype, uint32_t n, sl_real *restrict out, const void *restrict row,
                          sl_real weight)
{
    for (uint32_t j = 0; j < n; j++) {
        out[j] += weight * sl_entry(dtype, row, j);
    }
}

/* `n` columns from `first` on, or bases. */
struct columns {
    uint32_t first, n;
};

/* The edges of a block or of a part. */
struct edge_list {
    const struct sl_sources *x;
    const uint32_t *widths;
    const uint32_t *positions;
    const uint16_t *relations;
    const float *weights; /* NULL: 1 */
    uint64_t n;           /* entries */
};

/* Destinations first .. first + n_rows - 1. Offsets have 32 bits in a block, 64 in a part. */
struct destinations {
    uint32_t first, n_rows;
    const uint32_t *block; /* NULL: the offsets are those of a part */
    const uint64_t *part;
    struct edge_list list;
};

/* The first entry of destination first + i. */
SL_INLINE uint64_t bound_of(const struct destinations *to, uint32_t i)
{
    return to->block != NULL ? to->block[to->first + i] : to->part[to->first + i] - to->part[0];
}

static struct destinations of_block(const struct sl_related *edges, const struct sl_sources *x)
{
    const uint64_t n = edges->offsets[edges->row0 + edges->n_rows];
    return (struct destinations){.first = edges->row0,
                                 .n_rows = edges->n_rows,
                                 .block = edges->offsets,
                                 .list = {x, NULL, edges->sources, edges->relations, edges->weights, n}};
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

/* out += the sums of entries begin .. end - 1, one destination's. */
SL_INLINE void add_edges(enum sl_dtype dtype, const struct edge_list *list, const struct sl_slabs *slabs,
                         uint64_t begin, uint64_t end, sl_real *out)
{
    uint64_t e = begin;
    while (e < end) {
        const uint32_t relation = list->relations[e];
        const uint64_t stop = run_end(list->relations, e, end);
        const sl_real weight = 1 / (sl_real)(stop - e);
        const size_t slab = sl_dtype_bytes(dtype, (size_t)relation * slabs->x_step);
        sl_real *to = out + (size_t)relation * slabs->m_step;
        for (; e < stop; e++) {
            if (e + AHEAD < list->n) {
                const size_t next = sl_dtype_bytes(dtype, (size_t)list->relations[e + AHEAD] * slabs->x_step);
                sl_row_fetch(sl_source_row(dtype, list->x, list->widths, list->positions[e + AHEAD], slabs->x_width) +
                                 next,
                             sl_dtype_bytes(dtype, slabs->n));
            }
            add_scaled(dtype, slabs->n, to,
                       sl_source_row(dtype, list->x, list->widths, list->positions[e], slabs->x_width) + slab,
                       weight * weight_at(list->weights, e));
        }
    }
}

/* out = the weighted sum of columns `first` .. first + n - 1 of the rows of entries e .. stop - 1. */
SL_INLINE void sum_run(enum sl_dtype dtype, const struct edge_list *list, const struct sl_slabs *slabs, uint64_t e,
                       uint64_t stop, struct columns columns, sl_real *out)
{
    const size_t skip = sl_dtype_bytes(dtype, columns.first);
    memset(out, 0, columns.n * sizeof *out);
    for (; e < stop; e++) {
        if (e + AHEAD < list->n) {
            sl_row_fetch(sl_source_row(dtype, list->x, list->widths, list->positions[e + AHEAD], slabs->x_width) + skip,
                         sl_dtype_bytes(dtype, columns.n));
        }
        add_scaled(dtype, columns.n, out,
                   sl_source_row(dtype, list->x, list->widths, list->positions[e], slabs->x_width) + skip,
                   weight_at(list->weights, e));
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

/* add_edges with components. */
SL_INLINE void add_mixed(enum sl_dtype dtype, const struct edge_list *list, const struct sl_slabs *slabs,
                         uint64_t begin, uint64_t end, sl_real *out)
{
    sl_real sum[COLUMNS];
    for (uint64_t e = begin; e < end;) {
        const uint64_t stop = run_end(list->relations, e, end);
        const sl_real weight = 1 / (sl_real)(stop - e);
        const sl_real *c = slabs->c + (size_t)list->relations[e] * slabs->n_bases;
        struct columns columns = {0, 0};
        while (next_columns(slabs, &columns)) {
            const struct columns bases = bases_of(slabs, columns);
            sum_run(dtype, list, slabs, e, stop, columns, sum);
            for (uint32_t b = bases.first; b < bases.first + bases.n; b++) {
                add_scaled(SL_DTYPE_REAL, columns.n, out + (size_t)b * slabs->m_step + columns.first % slabs->n, sum,
                           weight * c[b]);
            }
        }
        e = stop;
    }
}

SL_INLINE void add_sums(enum sl_dtype dtype, const struct edge_list *list, const struct sl_slabs *slabs, uint64_t begin,
                        uint64_t end, sl_real *out)
{
    if (slabs->c == NULL) {
        add_edges(dtype, list, slabs, begin, end, out);
    } else {
        add_mixed(dtype, list, slabs, begin, end, out);
    }
}

SL_INLINE void sum_edges(enum sl_dtype dtype, const struct destinations *to, const struct sl_slabs *slabs, int beta,
                         sl_real *m_out)
{
    if (!beta) {
        memset(m_out, 0, (size_t)to->n_rows * slabs->m_width * sizeof *m_out);
    }
    for (uint32_t i = 0; i < to->n_rows; i++) {
        add_sums(dtype, &to->list, slabs, bound_of(to, i), bound_of(to, i + 1), m_out + (size_t)i * slabs->m_width);
    }
}

SL_CLONES static void relate(enum sl_dtype dtype, const struct destinations *to, const struct sl_slabs *slabs, int beta,
                             sl_real *m_out)
{
    SL_BY_DTYPE_READ(dtype, sum_edges, to, slabs, beta, m_out);
}

void sl_relate_forward_cpu(enum sl_dtype dtype, const struct sl_related *edges, const struct sl_slabs *slabs,
                           const struct sl_sources *x, int beta, sl_real *m_out)
{
    const struct destinations to = of_block(edges, x);
    relate(dtype, &to, slabs, beta, m_out);
}

/* out += the terms of position t. Entries before `last` are fetched ahead. */
SL_INLINE void add_back(const struct sl_related_back *block, uint32_t t, uint32_t last, const struct sl_slabs *slabs,
                        const struct sl_view *gm, sl_real *out)
{
    for (uint32_t e = block->back_offsets[t]; e < block->back_offsets[t + 1]; e++) {
        const uint32_t d = block->back_rows[e];
        if (e + AHEAD < last) {
            const sl_real *next = sl_view_row(gm, block->back_rows[e + AHEAD], slabs->m_width);
            const uint32_t slab = slabs->c == NULL ? block->back_relations[e + AHEAD] * slabs->m_step : 0;
            sl_row_fetch(next + slab, slabs->n * sizeof *next);
        }
        const uint32_t relation = block->back_relations[e];
        const uint64_t n =
            sl_relation_count(block->relations, block->edge_offsets[d], block->edge_offsets[d + 1], relation);
        const sl_real weight = 1 / (sl_real)n * weight_at(block->back_weights, e);
        const sl_real *row = sl_view_row(gm, d, slabs->m_width);
        if (slabs->c == NULL) {
            add_scaled(SL_DTYPE_REAL, slabs->n, out + (size_t)relation * slabs->x_step,
                       row + (size_t)relation * slabs->m_step, weight);
            continue;
        }
        const sl_real *c = slabs->c + (size_t)relation * slabs->n_bases;
        for (uint32_t b = 0; b < slabs->n_bases; b++) {
            add_scaled(SL_DTYPE_REAL, slabs->n, out + (size_t)b * slabs->x_step, row + (size_t)b * slabs->m_step,
                       weight * c[b]);
        }
    }
}

SL_CLONES void sl_relate_backward_cpu(const struct sl_related_back *block, uint32_t t0, uint32_t n,
                                      const struct sl_slabs *slabs, const struct sl_view *gm, sl_real *out)
{
    if (n == 0) {
        return;
    }
    const uint32_t last = block->back_offsets[t0 + n];
    memset(out, 0, (size_t)n * slabs->x_width * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(block, t0 + i, last, slabs, gm, out + (size_t)i * slabs->x_width);
    }
}

SL_CLONES void sl_relate_own_cpu(const struct sl_related_back *block, uint32_t t0, uint32_t n, const uint32_t *inverse,
                                 const struct sl_slabs *slabs, const struct sl_view *gm, const struct sl_gradient *g)
{
    if (n == 0) {
        return;
    }
    const uint32_t last = block->back_offsets[t0 + n];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            add_back(block, t0 + i, last, slabs, gm, g->rows + (size_t)row * g->n_columns);
        }
    }
}

/* gc += the products of one destination's runs with its row g of GM. */
SL_INLINE void add_components(enum sl_dtype dtype, const struct edge_list *list, const struct sl_slabs *slabs,
                              uint64_t begin, uint64_t end, const sl_real *g, double *gc)
{
    sl_real sum[COLUMNS];
    for (uint64_t e = begin; e < end;) {
        const uint64_t stop = run_end(list->relations, e, end);
        const sl_real weight = 1 / (sl_real)(stop - e);
        double *to = gc + (size_t)list->relations[e] * slabs->n_bases;
        struct columns columns = {0, 0};
        while (next_columns(slabs, &columns)) {
            const struct columns bases = bases_of(slabs, columns);
            sum_run(dtype, list, slabs, e, stop, columns, sum);
            for (uint32_t b = bases.first; b < bases.first + bases.n; b++) {
                const sl_real *from = g + (size_t)b * slabs->m_step + columns.first % slabs->n;
                to[b] += (double)(weight * sl_row_dot(columns.n, sum, from));
            }
        }
        e = stop;
    }
}

SL_INLINE void sum_components(enum sl_dtype dtype, const struct destinations *to, const struct sl_slabs *slabs,
                              const sl_real *gm, double *gc)
{
    for (uint32_t i = 0; i < to->n_rows; i++) {
        add_components(dtype, &to->list, slabs, bound_of(to, i), bound_of(to, i + 1), gm + (size_t)i * slabs->m_width,
                       gc);
    }
}

SL_CLONES void sl_relate_components_cpu(enum sl_dtype dtype, const struct sl_related *edges,
                                        const struct sl_slabs *slabs, const struct sl_sources *x, const sl_real *gm,
                                        double *gc)
{
    const struct destinations to = of_block(edges, x);
    SL_BY_DTYPE_READ(dtype, sum_components, &to, slabs, gm, gc);
}

/* ---- arguments. components, weights: the index of their buffer; 0 if there are none. ---- */

struct forward_args {
    struct sl_task_args head;
    uint32_t row0;
    int beta;
    uint32_t x_width, components, weights;
    struct sl_source_args sources;
};

struct backward_args {
    struct sl_task_args head;
    uint32_t components, weights;
    uint32_t n_chunks, shift;
    uint32_t n_owners;
    struct returned {
        uint32_t t0;
        struct sl_slice_args rows;
    } returned[SL_MAX_GROUP]; /* submitted up to returned[n_owners - 1] */
};

struct accumulate_args {
    struct sl_task_args head;
    uint32_t m_width, components, weights;
    struct sl_share_args shares;
};

struct full_args {
    struct sl_task_args head;
    uint32_t row0;
    int beta;
    uint32_t x_width, components, weights;
    struct sl_part_args parts;
};

/* ---- implementations ---- */

enum {
    FORWARD_OFFSETS,
    FORWARD_SOURCES,
    FORWARD_RELATIONS,
    FORWARD_INVERSE,
    FORWARD_M,
    FORWARD_ROWS,
    FORWARD_COMPONENTS = FORWARD_ROWS + 2,
    FORWARD_WEIGHTS
};
enum {
    BACK_EDGE_OFFSETS,
    BACK_RELATIONS,
    BACK_OFFSETS,
    BACK_ROWS,
    BACK_BACK_RELATIONS,
    BACK_GM,
    BACK_PACKED,
    BACK_COMPONENTS,
    BACK_WEIGHTS
};
enum { SUM_G = BACK_BACK_RELATIONS + 1, SUM_INVERSE, SUM_GM, SUM_SENT, SUM_COMPONENTS, SUM_WEIGHTS };
enum { MIXED_GM = FORWARD_INVERSE + 1, MIXED_GC, MIXED_ROWS, MIXED_WEIGHTS = MIXED_ROWS + 2 };
enum { FULL_OFFSETS, FULL_SOURCES, FULL_RELATIONS, FULL_FIRST, FULL_M, FULL_ROWS, FULL_COMPONENTS, FULL_WEIGHTS };

static const float *weights_in(void *buffers[], uint32_t weights)
{
    return weights > 0 ? sl_buffer_data(buffers[weights]) : NULL;
}

static struct sl_slabs slabs_in(void *buffers[], uint32_t components, uint32_t x_width, uint32_t m_width)
{
    struct sl_slabs slabs = sl_slabs_of(x_width, m_width);
    if (components > 0) {
        slabs.n_bases = sl_buffer_columns(buffers[components]);
        slabs.c = sl_buffer_data(buffers[components]);
    }
    return slabs;
}

/* m: the buffer of sums, or of their gradients. */
static struct sl_related edges_of(const struct forward_args *args, void *buffers[], void *m)
{
    return (struct sl_related){.row0 = args->row0,
                               .n_rows = sl_buffer_rows(m),
                               .offsets = sl_buffer_data(buffers[FORWARD_OFFSETS]),
                               .sources = sl_buffer_data(buffers[FORWARD_SOURCES]),
                               .relations = sl_buffer_data(buffers[FORWARD_RELATIONS]),
                               .weights = weights_in(buffers, args->weights)};
}

/* The block by source of a backward or accumulate task: its first buffers, and its weights. */
static struct sl_related_back back_of(void *buffers[], uint32_t weights)
{
    return (struct sl_related_back){.edge_offsets = sl_buffer_data(buffers[BACK_EDGE_OFFSETS]),
                                    .relations = sl_buffer_data(buffers[BACK_RELATIONS]),
                                    .back_offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                    .back_rows = sl_buffer_data(buffers[BACK_ROWS]),
                                    .back_relations = sl_buffer_data(buffers[BACK_BACK_RELATIONS]),
                                    .back_weights = weights_in(buffers, weights)};
}

#define ROUNDED_ROWS 64 /* rows summed in float before they are rounded */

/* Sums into the rows of buffer m. Sums of bf16 rows may be bf16, too. */
static enum sl_status relate_to(void *m, enum sl_dtype dtype, const struct destinations *to,
                                const struct sl_slabs *slabs, int beta)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, to->n_rows, slabs->m_width, sl_buffer_data(m));
    struct destinations some = *to;
    enum sl_status st;
    if (sl_buffer_dtype(m) == SL_DTYPE_REAL) {
        relate(dtype, to, slabs, beta, sl_buffer_data(m));
        return SL_OK;
    }
    slab.beta = beta;
    while (sl_rounded_next(&slab, &st)) {
        some.first = to->first + slab.first;
        some.n_rows = slab.n;
        relate(SL_DTYPE_BF16, &some, slabs, beta, slab.room);
    }
    return st;
}

/* Gradients summed in float, rounded to bf16. */
static enum sl_status backward_rounded(const struct sl_related_back *block, const struct returned *to,
                                       const struct sl_slabs *slabs, const struct sl_view *gm, sl_bf16 *out)
{
    struct sl_rounded slab =
        sl_rounded_begin("sums before they are rounded", ROUNDED_ROWS, to->rows.n_rows, slabs->x_width, out);
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        sl_relate_backward_cpu(block, to->t0 + slab.first, slab.n, slabs, gm, slab.room);
    }
    return st;
}

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    void *m = buffers[FORWARD_M];
    const struct sl_slabs slabs = slabs_in(buffers, args->components, args->x_width, sl_buffer_columns(m));
    const struct sl_related edges = edges_of(args, buffers, m);
    struct sl_source_views sources;
    sl_sources_view(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + FORWARD_ROWS, &sources);
    const struct destinations to = of_block(&edges, &sources.x);
    return relate_to(m, args->sources.dtype, &to, &slabs, args->beta);
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct backward_args *args = cl_arg;
    const sl_real *chunks[SL_MAX_CHUNKS];
    sl_chunks_data(buffers + BACK_GM, args->n_chunks, chunks);
    const struct sl_view gm = {chunks, args->shift, NULL};
    const struct sl_related_back block = back_of(buffers, args->weights);
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < args->n_owners && st == SL_OK; q++) {
        const struct returned *to = &args->returned[q];
        void *matrix = buffers[to->rows.buffer];
        const struct sl_slabs slabs =
            slabs_in(buffers, args->components, sl_buffer_columns(matrix), sl_buffer_columns(buffers[BACK_GM]));
        if (sl_buffer_dtype(matrix) != SL_DTYPE_REAL) {
            st = backward_rounded(&block, to, &slabs, &gm, sl_slice_data(buffers, &to->rows));
        } else {
            sl_relate_backward_cpu(&block, to->t0, to->rows.n_rows, &slabs, &gm, sl_slice_data(buffers, &to->rows));
        }
    }
    return st;
}

/* Clear the rows, then add all shares in PE order. */
static enum sl_status accumulate_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    const sl_real *chunks[SL_MAX_CHUNKS];
    const struct sl_related_back block = back_of(buffers, args->weights);
    const struct sl_gradient g = sl_gradient_of(shares->row0, buffers[SUM_G]);
    const struct sl_slabs slabs = slabs_in(buffers, args->components, g.n_columns, args->m_width);
    const struct sl_view gm = {chunks, shares->shift, NULL};
    sl_chunks_data(buffers + SUM_GM, shares->n_chunks, chunks);
    memset(g.rows, 0, (size_t)g.n_rows * g.n_columns * sizeof *g.rows);
    for (uint32_t p = 0; p < shares->n_peers; p++) {
        const uint32_t *rows = sl_list_of(sl_buffer_data(buffers[SUM_INVERSE]), shares->n_peers, p);
        if (p == shares->own) {
            sl_relate_own_cpu(&block, shares->t0, shares->n_own, rows, &slabs, &gm, &g);
        } else {
            sl_accumulate_slice_cpu(&shares->sent[p], buffers, rows, &g);
        }
    }
    return SL_OK;
}

static enum sl_status components_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    void *gm = buffers[MIXED_GM];
    sl_real *out = sl_buffer_data(buffers[MIXED_GC]);
    const struct sl_slabs slabs = slabs_in(buffers, MIXED_GC, args->x_width, sl_buffer_columns(gm));
    const struct sl_related edges = edges_of(args, buffers, gm);
    const size_t n = (size_t)sl_buffer_rows(buffers[MIXED_GC]) * slabs.n_bases;
    struct sl_source_views sources;
    double *gc;
    SL_CHECK(sl_alloc_zero(n, sizeof *gc, "sums of products", &gc));
    sl_sources_view(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + MIXED_ROWS, &sources);
    sl_relate_components_cpu(args->sources.dtype, &edges, &slabs, &sources.x, sl_buffer_data(gm), gc);
    for (size_t i = 0; i < n; i++) {
        out[i] = (sl_real)gc[i];
    }
    sl_free(gc);
    return SL_OK;
}

static enum sl_status full_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct full_args *args = cl_arg;
    void *m = buffers[FULL_M];
    struct sl_part_views parts;
    sl_parts_view(&args->parts, buffers + FULL_ROWS, &parts);
    const struct sl_slabs slabs = slabs_in(buffers, args->components, args->x_width, sl_buffer_columns(m));
    const struct sl_sources x = {args->parts.n_parts, sl_buffer_data(buffers[FULL_FIRST]), parts.view, NULL};
    struct destinations to = {.first = args->row0,
                              .n_rows = sl_buffer_rows(m),
                              .part = sl_buffer_data(buffers[FULL_OFFSETS]),
                              .list = {.x = &x,
                                       .widths = args->parts.width,
                                       .positions = sl_buffer_data(buffers[FULL_SOURCES]),
                                       .relations = sl_buffer_data(buffers[FULL_RELATIONS]),
                                       .weights = weights_in(buffers, args->weights)}};
    to.list.n = bound_of(&to, to.n_rows);
    return relate_to(m, args->parts.dtype, &to, &slabs, args->beta);
}

#ifdef SL_CUDA
static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    void *m = buffers[FORWARD_M];
    const struct sl_slabs slabs = slabs_in(buffers, args->components, args->x_width, sl_buffer_columns(m));
    const struct sl_related edges = edges_of(args, buffers, m);
    const struct sl_device_sources x =
        sl_device_sources_of(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + FORWARD_ROWS);
    return sl_relate_forward_cuda(stream, &edges, &slabs, &x, args->beta, sl_buffer_dtype(m), sl_buffer_data(m));
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct backward_args *args = cl_arg;
    const struct sl_device_rows gm = sl_device_rows_of(buffers + BACK_GM, args->n_chunks, args->shift);
    const struct sl_related_back block = back_of(buffers, args->weights);
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < args->n_owners && st == SL_OK; q++) {
        const struct returned *to = &args->returned[q];
        void *matrix = buffers[to->rows.buffer];
        const struct sl_slabs slabs =
            slabs_in(buffers, args->components, sl_buffer_columns(matrix), sl_buffer_columns(buffers[BACK_GM]));
        st = sl_relate_backward_cuda(stream, &block, &gm, &slabs, to->t0, to->rows.n_rows, sl_buffer_dtype(matrix),
                                     sl_slice_data(buffers, &to->rows));
    }
    return st;
}

static enum sl_status accumulate_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    const struct sl_related_back block = back_of(buffers, args->weights);
    const struct sl_device_rows gm = sl_device_rows_of(buffers + SUM_GM, shares->n_chunks, shares->shift);
    const struct sl_gradient g = sl_gradient_of(shares->row0, buffers[SUM_G]);
    const struct sl_slabs slabs = slabs_in(buffers, args->components, g.n_columns, args->m_width);
    enum sl_status st = sl_accumulate_clear_cuda(stream, g.n_rows, g.n_columns, g.rows);
    for (uint32_t p = 0; p < shares->n_peers && st == SL_OK; p++) {
        const struct sl_asked asked = {sl_buffer_data(buffers[SUM_INVERSE]), shares->n_peers, p};
        if (p == shares->own) {
            st = sl_relate_own_cuda(stream, &block, &gm, &slabs, shares->t0, shares->n_own, &asked, &g);
        } else if (shares->sent[p].n_rows > 0) {
            st = sl_accumulate_slice_cuda(stream, &shares->sent[p], buffers, &asked, 1, &g);
        }
    }
    return st;
}

static enum sl_status components_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    void *gm = buffers[MIXED_GM];
    const struct sl_slabs slabs = slabs_in(buffers, MIXED_GC, args->x_width, sl_buffer_columns(gm));
    const struct sl_related edges = edges_of(args, buffers, gm);
    const struct sl_device_sources x =
        sl_device_sources_of(&args->sources, buffers, buffers[FORWARD_INVERSE], buffers + MIXED_ROWS);
    return sl_relate_components_cuda(stream, &edges, &slabs, &x, sl_buffer_data(gm), sl_buffer_rows(buffers[MIXED_GC]),
                                     sl_buffer_data(buffers[MIXED_GC]));
}

static enum sl_status full_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct full_args *args = cl_arg;
    void *m = buffers[FULL_M];
    struct sl_part_views views;
    struct sl_device_part parts[SL_MAX_GROUP];
    sl_parts_view(&args->parts, buffers + FULL_ROWS, &views);
    sl_device_parts_of(&args->parts, &views, parts);
    const struct sl_slabs slabs = slabs_in(buffers, args->components, args->x_width, sl_buffer_columns(m));
    const struct sl_full_edges edges = {.row0 = args->row0,
                                        .n_rows = sl_buffer_rows(m),
                                        .offsets = sl_buffer_data(buffers[FULL_OFFSETS]),
                                        .sources = sl_buffer_data(buffers[FULL_SOURCES]),
                                        .n_parts = args->parts.n_parts,
                                        .first = sl_buffer_data(buffers[FULL_FIRST]),
                                        .relations = sl_buffer_data(buffers[FULL_RELATIONS]),
                                        .edge_weights = weights_in(buffers, args->weights)};
    return sl_relate_full_cuda(stream, &edges, &slabs, args->parts.dtype, parts, args->beta, sl_buffer_dtype(m),
                               sl_buffer_data(m));
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_relate_forward", SL_STAGE_AGGREGATE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"edge sources", STARPU_R},
             {"relations", STARPU_R},
             {"own inverse", STARPU_R},
             {"means", STARPU_W | SL_OR_RW},
             {"own rows", STARPU_R | SL_REPEATED},
             {"packed rows", STARPU_R | SL_REPEATED},
             {"components", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_relate_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"relations", STARPU_R},
             {"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"back relations", STARPU_R},
             {"the means' gradient", STARPU_R | SL_REPEATED},
             {"packed", STARPU_W | SL_OR_RW | SL_REPEATED},
             {"components", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_relate_accumulate", SL_STAGE_BACKWARD),
    .cpu = accumulate_cpu_task,
    SL_CUDA_FUNC(accumulate_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"relations", STARPU_R},
             {"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"back relations", STARPU_R},
             {"gradient", STARPU_W},
             {"own inverse", STARPU_R},
             {"the means' gradient", STARPU_R | SL_REPEATED},
             {"packed gradients", STARPU_R | SL_REPEATED},
             {"components", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation components_op = {
    SL_OPERATION(components_op, "sl_relate_components", SL_STAGE_BACKWARD),
    .cpu = components_cpu_task,
    SL_CUDA_FUNC(components_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"edge sources", STARPU_R},
             {"relations", STARPU_R},
             {"own inverse", STARPU_R},
             {"the sums' gradient", STARPU_R},
             {"gradient of components", STARPU_W},
             {"own rows", STARPU_R | SL_REPEATED},
             {"packed rows", STARPU_R | SL_REPEATED},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_relate_full", SL_STAGE_AGGREGATE),
    .cpu = full_cpu_task,
    SL_CUDA_FUNC(full_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"relations", STARPU_R},
             {"first", STARPU_R},
             {"means", STARPU_W | SL_OR_RW},
             {"rows", STARPU_R | SL_REPEATED},
             {"components", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

/* One width is a multiple of the other; with components B times the other. */
static enum sl_status check(const char *name, uint32_t x_width, uint32_t m_width, starpu_data_handle_t c)
{
    const struct sl_slabs slabs = sl_slabs_of(x_width, m_width);
    const uint32_t width = sl_max_u32(x_width, m_width);
    SL_FAIL_IF(c != NULL && width != (uint64_t)slabs.n * sl_handle_columns(c), SL_EINVAL,
               "%s: widths %u and %u, expected %u of the former in the latter, one for each base", name, slabs.n, width,
               sl_handle_columns(c));
    if (slabs.n > 0 && width % slabs.n == 0) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "%s: sums of width %u of rows of width %u, expected a multiple or a divisor", name,
                   m_width, x_width);
}

enum sl_status sl_relate_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources,
                                        starpu_data_handle_t c, int beta, starpu_data_handle_t m)
{
    const char *name = "sl_relate_forward";
    struct forward_args args = {.head = *head, .row0 = row0, .beta = beta, .x_width = sources->rows->n_columns};
    struct sl_task task;
    size_t bytes = offsetof(struct forward_args, sources.packed) + sources->n_owners * sizeof *args.sources.packed;
    SL_CHECK(check(name, args.x_width, sl_handle_columns(m), c));
    SL_CHECK(sl_source_args_fill(name, sources, &args.sources));
    SL_CHECK(sl_sums_dtype(name, head, m, &args.sources.dtype));
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(m), sl_min_u32(args.x_width, sl_handle_columns(m)));
    sl_task_begin(&task, &forward_op);
    sl_task_add(&task, FORWARD_OFFSETS, block->edge_offsets, STARPU_R);
    sl_task_add(&task, FORWARD_SOURCES, block->edge_sources, STARPU_R);
    sl_task_add(&task, FORWARD_RELATIONS, block->edge_relations, STARPU_R);
    sl_task_add(&task, FORWARD_INVERSE, sources->inverse, STARPU_R);
    sl_task_add(&task, FORWARD_M, m, beta ? STARPU_RW : STARPU_W);
    sl_source_args_add(&task, FORWARD_ROWS, sources, &args.sources);
    args.components = sl_task_add_optional(&task, FORWARD_COMPONENTS, c, STARPU_R);
    args.weights = sl_task_add_optional(&task, FORWARD_WEIGHTS, block->edge_weights, STARPU_R);
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

static void add_block(struct sl_task *task, const struct sl_block *block)
{
    sl_task_add(task, BACK_EDGE_OFFSETS, block->edge_offsets, STARPU_R);
    sl_task_add(task, BACK_RELATIONS, block->edge_relations, STARPU_R);
    sl_task_add(task, BACK_OFFSETS, block->back_offsets, STARPU_R);
    sl_task_add(task, BACK_ROWS, block->back_rows, STARPU_R);
    sl_task_add(task, BACK_BACK_RELATIONS, block->back_relations, STARPU_R);
}

enum sl_status sl_relate_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_rows *gm, starpu_data_handle_t c, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed)
{
    const char *name = "sl_relate_backward";
    struct backward_args args = {
        .head = *head, .n_chunks = gm->split.n_chunks, .shift = gm->split.shift, .n_owners = n_owners};
    struct sl_task task;
    uint32_t n_rows = 0;
    SL_FAIL_IF(args.n_chunks > SL_MAX_CHUNKS || n_owners > SL_MAX_GROUP, SL_EINVAL,
               "%s: %u chunks, %u owners (at most %d)", name, args.n_chunks, n_owners, SL_MAX_GROUP);
    for (uint32_t q = 0; q < n_owners; q++) {
        SL_CHECK(check(name, sl_handle_columns(packed[q].handle), gm->n_columns, c));
        n_rows += packed[q].n_rows;
    }
    args.head.work = sl_sum_bytes(n_edges, n_rows, gm->n_columns);
    sl_task_begin(&task, &backward_op);
    add_block(&task, block);
    sl_task_add_each(&task, BACK_GM, gm->split.n_chunks, gm->chunk, STARPU_R);
    for (uint32_t q = 0; q < n_owners; q++) {
        args.returned[q] = (struct returned){t0[q], sl_task_add_slice(&task, BACK_PACKED, &packed[q], STARPU_W)};
    }
    args.components = sl_task_add_optional(&task, BACK_COMPONENTS, c, STARPU_R);
    args.weights = sl_task_add_optional(&task, BACK_WEIGHTS, block->back_weights, STARPU_R);
    size_t bytes = offsetof(struct backward_args, returned) + n_owners * sizeof *args.returned;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_SEND);
}

enum sl_status sl_relate_accumulate_submit(const struct sl_task_args *head, const struct sl_relate_shares *shares,
                                           uint32_t row0, starpu_data_handle_t g)
{
    const char *name = "sl_relate_accumulate";
    const struct sl_split *split = &shares->gm->split;
    struct accumulate_args args = {.head = *head, .m_width = shares->gm->n_columns};
    struct sl_task task;
    SL_FAIL_IF(shares->from.n_peers > SL_MAX_GROUP || split->n_chunks > SL_MAX_CHUNKS, SL_EINVAL,
               "%s: %u peers, %u chunks", name, shares->from.n_peers, split->n_chunks);
    SL_CHECK(check(name, sl_handle_columns(g), args.m_width, shares->c));
    sl_share_args_fill(row0, split, &shares->from, &args.shares);
    sl_task_begin(&task, &accumulate_op);
    add_block(&task, shares->block);
    sl_task_add(&task, SUM_G, g, STARPU_W);
    sl_task_add(&task, SUM_INVERSE, shares->block->inverse, STARPU_R);
    sl_task_add_each(&task, SUM_GM, split->n_chunks, shares->gm->chunk, STARPU_R);
    uint64_t n_terms = sl_share_args_add(&task, SUM_SENT, &shares->from, &args.shares);
    args.components = sl_task_add_optional(&task, SUM_COMPONENTS, shares->c, STARPU_R);
    args.weights = sl_task_add_optional(&task, SUM_WEIGHTS, shares->block->back_weights, STARPU_R);
    args.head.work = sl_sum_bytes(n_terms, sl_handle_rows(g), sl_handle_columns(g));
    size_t bytes = offsetof(struct accumulate_args, shares.sent) + shares->from.n_peers * sizeof *args.shares.sent;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_relate_components_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                           uint64_t n_edges, const struct sl_source_handles *sources,
                                           starpu_data_handle_t gm, starpu_data_handle_t gc)
{
    const char *name = "sl_relate_components";
    struct forward_args args = {.head = *head, .row0 = row0, .x_width = sources->rows->n_columns};
    struct sl_task task;
    size_t bytes = offsetof(struct forward_args, sources.packed) + sources->n_owners * sizeof *args.sources.packed;
    SL_CHECK(check(name, args.x_width, sl_handle_columns(gm), gc));
    SL_CHECK(sl_source_args_fill(name, sources, &args.sources));
    args.sources.dtype = sl_dtype_read(head, args.sources.dtype);
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(gm), sl_handle_columns(gm));
    sl_task_begin(&task, &components_op);
    sl_task_add(&task, FORWARD_OFFSETS, block->edge_offsets, STARPU_R);
    sl_task_add(&task, FORWARD_SOURCES, block->edge_sources, STARPU_R);
    sl_task_add(&task, FORWARD_RELATIONS, block->edge_relations, STARPU_R);
    sl_task_add(&task, FORWARD_INVERSE, sources->inverse, STARPU_R);
    sl_task_add(&task, MIXED_GM, gm, STARPU_R);
    sl_task_add(&task, MIXED_GC, gc, STARPU_W);
    sl_source_args_add(&task, MIXED_ROWS, sources, &args.sources);
    args.weights = sl_task_add_optional(&task, MIXED_WEIGHTS, block->edge_weights, STARPU_R);
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_relate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t row0, starpu_data_handle_t c, int beta, starpu_data_handle_t m)
{
    const char *name = "sl_relate_full";
    struct full_args args = {.head = *head, .row0 = row0, .beta = beta, .x_width = sources->columns.n};
    struct sl_task task;
    SL_CHECK(check(name, args.x_width, sl_handle_columns(m), c));
    SL_CHECK(sl_part_args_fill(name, sources->n_parts, sources->rows, NULL, &args.parts));
    SL_CHECK(sl_sums_dtype(name, head, m, &args.parts.dtype));
    sl_task_begin(&task, &full_op);
    sl_task_add(&task, FULL_OFFSETS, sources->offsets, STARPU_R);
    sl_task_add(&task, FULL_SOURCES, sources->sources, STARPU_R);
    sl_task_add(&task, FULL_RELATIONS, sources->edge_relations, STARPU_R);
    sl_task_add(&task, FULL_FIRST, sources->first, STARPU_R);
    sl_task_add(&task, FULL_M, m, beta ? STARPU_RW : STARPU_W);
    sl_part_args_add(&task, FULL_ROWS, sources->n_parts, sources->rows);
    args.components = sl_task_add_optional(&task, FULL_COMPONENTS, c, STARPU_R);
    args.weights = sl_task_add_optional(&task, FULL_WEIGHTS, sources->edge_weights, STARPU_R);
    args.head.work = sl_sum_bytes(sources->n_edges, sl_handle_rows(m), sl_min_u32(args.x_width, sl_handle_columns(m)));
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}
