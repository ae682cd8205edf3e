/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention over blocks, and its adjoint. A destination's list is walked three times: for the largest score, for
 * the sum of exponentials, and for the rows. Rows are prefetched well before the first walk reaches them. With
 * relations, a destination has a list for each. */
#include "codelets/sums/attend.h"

#include <assert.h>
#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sums/lanes.h"
#include "codelets/sums/walk.h"
#include "support/ln.h"
#include "support/minmax.h"

/* ---- kernels, CPU: products and sums of rows ---- */

#define BATCH 4 /* rows added at a time: the output row is read and written once for all of them */

/* Rows to add, and their weights by head. */
struct batch {
    uint32_t n;
    const void *row[BATCH];
    sl_real weight[BATCH][SL_MAX_HEADS];
};

/* out += the batch, and empty it. */
SL_INLINE void add_batch(enum sl_dtype dtype, struct batch *batch, struct sl_heads heads, sl_real *out)
{
    uint32_t width = heads.n_columns / heads.n_heads;
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        if (batch->n == BATCH) {
            sl_add_rows(
                dtype, BATCH, width, out + k * width, batch->row, k * width,
                (sl_real[]){batch->weight[0][k], batch->weight[1][k], batch->weight[2][k], batch->weight[3][k]});
        } else {
            for (uint32_t i = 0; i < batch->n; i++) {
                sl_add_row(dtype, width, out + k * width, batch->row[i], k * width, batch->weight[i][k]);
            }
        }
    }
    batch->n = 0;
}

/* Append a row to the batch; a full batch is added to out. */
SL_INLINE void add_to_batch(enum sl_dtype dtype, struct batch *batch, struct sl_heads heads, const void *row,
                            const sl_real *weight, sl_real *out)
{
    memcpy(batch->weight[batch->n], weight, heads.n_heads * sizeof *weight);
    batch->row[batch->n++] = row;
    if (batch->n == BATCH) {
        add_batch(dtype, batch, heads, out);
    }
}

/* n numbers of a row from column c0 on. bf16 numbers are widened into `room`. */
SL_INLINE const sl_real *numbers_of(enum sl_dtype dtype, const void *row, uint32_t c0, uint32_t n, sl_real *room)
{
    if (dtype == SL_DTYPE_REAL) {
        return (const sl_real *)row + c0;
    }
    for (uint32_t k = 0; k < n; k++) {
        room[k] = sl_entry(dtype, row, c0 + k);
    }
    return room;
}

/* el and er of a row of U. */
SL_INLINE const sl_real *el_of(enum sl_dtype dtype, struct sl_heads heads, const void *row, sl_real room[SL_MAX_HEADS])
{
    return numbers_of(dtype, row, heads.n_columns, heads.n_heads, room);
}

SL_INLINE const sl_real *er_of(enum sl_dtype dtype, struct sl_heads heads, const void *row, sl_real room[SL_MAX_HEADS])
{
    return numbers_of(dtype, row, heads.n_columns + heads.n_heads, heads.n_heads, room);
}

SL_INLINE void weigh(uint32_t n_heads, const sl_real *restrict el, const sl_real *restrict er,
                     const sl_real *restrict lse, sl_real *restrict weight)
{
    for (uint32_t k = 0; k < n_heads; k++) {
        weight[k] = sl_attend_weight(er[k] + el[k], lse[k]);
    }
}

/* Address of the weight of edge e. NULL: all weights are 1. */
SL_INLINE const float *edge_weight(const float *weights, uint64_t e)
{
    return weights == NULL ? NULL : weights + e;
}

/* The weights of all heads times an edge's weight w. */
SL_INLINE void weigh_edge(uint32_t n_heads, const float *w, sl_real *weight)
{
    for (uint32_t k = 0; w != NULL && k < n_heads; k++) {
        weight[k] *= (sl_real)*w;
    }
}

/* ---- kernels, CPU: by destination ---- */

#define KEPT 64 /* edges of a list whose rows are looked up once */

/* Slab r of a row of U. */
SL_INLINE const void *slab_of(enum sl_dtype dtype, struct sl_heads heads, const void *row, uint32_t r)
{
    return (const char *)row + sl_dtype_bytes(dtype, (size_t)r * sl_heads_slab(heads));
}

/* Edges, with the rows of sources. */
struct attended {
    struct sl_heads heads;
    struct sl_edges edges;
    const struct sl_source_rows *x;
    const void *self; /* the destinations' own rows, [n_rows x R(H + 2K)], in the memory that x has for them */
    enum sl_dtype dtype;
};

/* Once a task. x: room for the rows. Inlined into the kernels it costs 4 % of an epoch. */
static struct attended sl_attended(struct sl_heads heads, const struct sl_edges *edges, struct sl_source_rows *x)
{
    const enum sl_dtype dtype = sl_edges_rows(edges, x);
    return (struct attended){heads, *edges, x, sl_edges_own_row(edges, sl_heads_row(heads)), dtype};
}

/* The first edge of destination i of `rows`. */
SL_INLINE uint64_t bound_of(const struct attended *rows, uint32_t i)
{
    return sl_edges_first(&rows->edges, rows->edges.row0 + i);
}

/* A walk over all lists, one after the other. */
struct walk {
    const struct attended *rows;
    uint64_t n, known; /* edges in all, and edges prefetched so far */
};

SL_INLINE struct walk walk_of(const struct attended *rows)
{
    return (struct walk){rows, bound_of(rows, rows->edges.n_rows), bound_of(rows, 0)};
}

/* The edges of one destination, or its edges of one relation. */
struct list {
    uint64_t first, end;
    const void *self; /* the destination's slab */
    const void *kept[KEPT];
};

/* The list of relation r, of a destination whose row is `own`: it begins with edge `begin`. Without relations: all
 * edges. */
SL_INLINE void take_list(enum sl_dtype dtype, const struct attended *rows, const void *own, uint32_t r, uint64_t begin,
                         uint64_t end, struct list *list)
{
    list->self = slab_of(dtype, rows->heads, own, r);
    list->first = begin;
    list->end = rows->heads.n_relations > 0 ? begin : end;
    while (list->end < end && rows->edges.relations[list->end] == r) {
        list->end++;
    }
}

/* Whether there is nothing to attend to. */
SL_INLINE bool is_empty(struct sl_heads heads, const struct list *list)
{
    return heads.n_relations > 0 && list->first == list->end;
}

/* The slab of an edge's source. */
SL_INLINE const void *source_row(enum sl_dtype dtype, const struct attended *rows, uint64_t e)
{
    uint32_t r = rows->heads.n_relations > 0 ? rows->edges.relations[e] : 0;
    return slab_of(dtype, rows->heads, sl_source_row(dtype, rows->x, rows->edges.sources[e], sl_heads_row(rows->heads)),
                   r);
}

/* The slab of an edge after `meet`. NULL: the destination's own, which has a term already. */
SL_INLINE const void *edge_row(enum sl_dtype dtype, const struct walk *walk, const struct list *list, uint64_t e)
{
    const void *row = e - list->first < KEPT ? list->kept[e - list->first] : source_row(dtype, walk->rows, e);
    return row == list->self && walk->rows->heads.n_relations == 0 ? NULL : row;
}

/* First walk over a list that is not empty. top: the largest el of each head. */
SL_INLINE void meet(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *restrict top)
{
    const struct sl_heads heads = walk->rows->heads;
    const void *first = heads.n_relations > 0 ? source_row(dtype, walk->rows, list->first) : list->self;
    sl_real room[SL_MAX_HEADS];
    memcpy(top, el_of(dtype, heads, first, room), heads.n_heads * sizeof *top);
    for (uint64_t e = list->first; e < list->end; e++) {
        const uint64_t ahead = sl_min_u64(walk->n, e + SL_ROWS_AHEAD);
        for (; walk->known < ahead; walk->known++) {
            sl_row_fetch(source_row(dtype, walk->rows, walk->known), sl_dtype_bytes(dtype, sl_heads_slab(heads)));
        }
        const void *row = source_row(dtype, walk->rows, e);
        const sl_real *restrict el = el_of(dtype, heads, row, room);
        if (e - list->first < KEPT) {
            list->kept[e - list->first] = row;
        }
        for (uint32_t k = 0; k < heads.n_heads; k++) {
            top[k] = el[k] > top[k] ? el[k] : top[k];
        }
    }
}

SL_INLINE void add_exponentials(uint32_t n_heads, const sl_real *restrict el, const sl_real *restrict er,
                                const sl_real *restrict top, sl_real *restrict sum)
{
    for (uint32_t k = 0; k < n_heads; k++) {
        sum[k] += sl_exp_nonpositive(sl_attend_score(er[k] + el[k]) - top[k]);
    }
}

/* lse of a list that is not empty, with the first walk over it. */
SL_INLINE void sum_scores(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *restrict lse)
{
    const struct sl_heads heads = walk->rows->heads;
    sl_real room[2][SL_MAX_HEADS];
    const sl_real *er = er_of(dtype, heads, list->self, room[1]);
    sl_real top[SL_MAX_HEADS];
    sl_real sum[SL_MAX_HEADS] = {0};
    meet(dtype, walk, list, top);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        top[k] = sl_attend_score(er[k] + top[k]);
    }
    if (heads.n_relations == 0) {
        add_exponentials(heads.n_heads, el_of(dtype, heads, list->self, room[0]), er, top, sum);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const void *row = edge_row(dtype, walk, list, e);
        if (row != NULL) {
            add_exponentials(heads.n_heads, el_of(dtype, heads, row, room[0]), er, top, sum);
        }
    }
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        lse[k] = (sl_real)((double)top[k] + sl_ln((double)sum[k]));
    }
}

/* z += a row, weighted. w: the weight of the row's edge, here and below. NULL: 1. */
SL_INLINE void add_row(enum sl_dtype dtype, struct sl_heads heads, const void *row, const sl_real *er,
                       const sl_real *lse, const float *w, struct batch *batch, sl_real *z)
{
    sl_real room[SL_MAX_HEADS];
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el_of(dtype, heads, row, room), er, lse, weight);
    weigh_edge(heads.n_heads, w, weight);
    add_to_batch(dtype, batch, heads, row, weight, z);
}

/* lse of a list, and z += its rows. */
SL_INLINE void attend_list(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *z, sl_real *lse)
{
    const struct sl_heads heads = walk->rows->heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *er = er_of(dtype, heads, list->self, room);
    struct batch batch;
    batch.n = 0;
    if (is_empty(heads, list)) {
        memset(lse, 0, heads.n_heads * sizeof *lse);
        return;
    }
    sum_scores(dtype, walk, list, lse);
    if (heads.n_relations == 0) {
        add_row(dtype, heads, list->self, er, lse, NULL, &batch, z);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const void *row = edge_row(dtype, walk, list, e);
        if (row != NULL) {
            add_row(dtype, heads, row, er, lse, edge_weight(walk->rows->edges.edge_weights, e), &batch, z);
        }
    }
    add_batch(dtype, &batch, heads, z);
}

/* Row i of consecutive rows of U. */
SL_INLINE const void *row_of(enum sl_dtype dtype, const void *u, uint32_t i, uint32_t n_columns)
{
    return (const char *)u + sl_dtype_bytes(dtype, (size_t)i * n_columns);
}

SL_INLINE void attend_block(enum sl_dtype dtype, const struct attended *rows, int beta, sl_real *z_out,
                            sl_real *lse_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = walk_of(rows);
    struct list list;
    if (beta == 0) {
        memset(z_out, 0, (size_t)rows->edges.n_rows * heads.n_columns * sizeof *z_out);
    }
    for (uint32_t d = 0; d < rows->edges.n_rows; d++) {
        const void *own = row_of(dtype, rows->self, d, sl_heads_row(heads));
        uint64_t e = bound_of(rows, d);
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++, lse_out += heads.n_heads) {
            take_list(dtype, rows, own, r, e, bound_of(rows, d + 1), &list);
            attend_list(dtype, &walk, &list, z_out + (size_t)d * heads.n_columns, lse_out);
            e = list.end;
        }
    }
}

SL_CLONES void sl_attend_forward_cpu(struct sl_heads heads, const struct sl_edges *edges, int beta, sl_real *z_out,
                                     sl_real *lse_out)
{
    struct sl_source_rows x;
    const struct attended rows = sl_attended(heads, edges, &x);
    SL_BY_DTYPE(rows.dtype, attend_block, &rows, beta, z_out, lse_out);
}

/* ---- kernels, CPU: evaluation. Sums are double: the order of a list hardly ever changes a bit ---- */

#define TILE 64 /* columns of a head summed at a time */

/* Columns of one head: the sum of the exponentials, and the rows weighted by them and by the edges. */
struct tile {
    uint32_t head, first, n_columns;
    sl_real er, top;
    double sum;
    double row[TILE];
};

SL_INLINE void add_to_tile(enum sl_dtype dtype, struct sl_heads heads, const void *row, const float *w,
                           struct tile *tile)
{
    sl_real room[SL_MAX_HEADS];
    const sl_real el = el_of(dtype, heads, row, room)[tile->head];
    const double weight = (double)sl_exp_nonpositive(sl_attend_score(tile->er + el) - tile->top);
    const double factor = w == NULL ? weight : weight * (double)*w;
    tile->sum += weight;
    for (uint32_t c = 0; c < tile->n_columns; c++) {
        tile->row[c] += factor * (double)sl_entry(dtype, row, tile->first + c);
    }
}

/* z += a tile of the list. */
SL_INLINE void attend_tile(enum sl_dtype dtype, const struct walk *walk, const struct list *list, struct tile *tile,
                           sl_real *z)
{
    const struct sl_heads heads = walk->rows->heads;
    tile->sum = 0;
    memset(tile->row, 0, sizeof tile->row);
    if (heads.n_relations == 0) {
        add_to_tile(dtype, heads, list->self, NULL, tile);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const void *row = edge_row(dtype, walk, list, e);
        if (row != NULL) {
            add_to_tile(dtype, heads, row, edge_weight(walk->rows->edges.edge_weights, e), tile);
        }
    }
    for (uint32_t c = 0; c < tile->n_columns; c++) {
        z[tile->first + c] += (sl_real)(tile->row[c] / tile->sum);
    }
}

SL_INLINE void evaluate_list(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *z)
{
    const struct sl_heads heads = walk->rows->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *er = er_of(dtype, heads, list->self, room);
    sl_real top[SL_MAX_HEADS];
    struct tile tile;
    meet(dtype, walk, list, top);
    for (tile.head = 0; tile.head < heads.n_heads; tile.head++) {
        tile.er = er[tile.head];
        tile.top = sl_attend_score(tile.er + top[tile.head]);
        for (uint32_t c = 0; c < width; c += TILE) {
            tile.first = tile.head * width + c;
            tile.n_columns = sl_min_u32(width - c, TILE);
            attend_tile(dtype, walk, list, &tile, z);
        }
    }
}

SL_INLINE void attend_part(enum sl_dtype dtype, const struct attended *rows, int beta, sl_real *z_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = walk_of(rows);
    struct list list;
    if (beta == 0) {
        memset(z_out, 0, (size_t)rows->edges.n_rows * heads.n_columns * sizeof *z_out);
    }
    for (uint32_t d = 0; d < rows->edges.n_rows; d++) {
        const void *own = row_of(dtype, rows->self, d, sl_heads_row(heads));
        uint64_t e = bound_of(rows, d);
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
            take_list(dtype, rows, own, r, e, bound_of(rows, d + 1), &list);
            if (!is_empty(heads, &list)) {
                evaluate_list(dtype, &walk, &list, z_out + (size_t)d * heads.n_columns);
            }
            e = list.end;
        }
    }
}

SL_CLONES void sl_attend_full_cpu(struct sl_heads heads, const struct sl_edges *edges, int beta, sl_real *z_out)
{
    struct sl_source_rows x;
    const struct attended rows = sl_attended(heads, edges, &x);
    SL_BY_DTYPE(rows.dtype, attend_part, &rows, beta, z_out);
}

/* Sums over a list: of a da, of slope a, and of slope a da. */
struct side {
    sl_real c[SL_MAX_HEADS];
    sl_real slope[SL_MAX_HEADS];
    sl_real both[SL_MAX_HEADS];
};

SL_INLINE void add_side(enum sl_dtype dtype, struct sl_heads heads, const void *row, const sl_real *er,
                        const sl_real *lse, const float *w, const sl_real *gz, struct side *sum)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = el_of(dtype, heads, row, room);
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el, er, lse, weight);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        sl_real da = (w == NULL ? 1 : (sl_real)*w) * sl_dot(dtype, width, gz + k * width, row, k * width);
        sl_real steep = weight[k] * sl_attend_slope(er[k] + el[k]);
        sum->c[k] += weight[k] * da;
        sum->slope[k] += steep;
        sum->both[k] += steep * da;
    }
}

/* The sides of one list: er, lse, c, and ger = sum a (da - c) slope. */
SL_INLINE void see_side(enum sl_dtype dtype, const struct walk *walk, const struct list *list, const sl_real *gz,
                        const sl_real *lse, sl_real *out)
{
    const struct sl_heads heads = walk->rows->heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *er = er_of(dtype, heads, list->self, room);
    struct side sum = {0};
    if (heads.n_relations == 0) {
        add_side(dtype, heads, list->self, er, lse, NULL, gz, &sum);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const void *row = edge_row(dtype, walk, list, e);
        if (row != NULL) {
            add_side(dtype, heads, row, er, lse, edge_weight(walk->rows->edges.edge_weights, e), gz, &sum);
        }
    }
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        out[k] = er[k];
        out[heads.n_heads + k] = lse[k];
        out[2 * heads.n_heads + k] = sum.c[k];
        out[3 * heads.n_heads + k] = sum.both[k] - sum.c[k] * sum.slope[k];
    }
}

SL_INLINE void see_sides(enum sl_dtype dtype, const struct attended *rows, const sl_real *gz, const sl_real *lse,
                         sl_real *sides_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = walk_of(rows);
    struct list list;
    sl_real top[SL_MAX_HEADS];
    uint64_t e = walk.known;
    for (uint32_t i = 0; i < rows->edges.n_rows * sl_heads_slabs(heads); i++) {
        const uint32_t d = i / sl_heads_slabs(heads);
        take_list(dtype, rows, row_of(dtype, rows->self, d, sl_heads_row(heads)), i % sl_heads_slabs(heads), e,
                  bound_of(rows, d + 1), &list);
        e = list.end;
        if (!is_empty(heads, &list)) {
            meet(dtype, &walk, &list, top);
        }
        see_side(dtype, &walk, &list, gz + (size_t)d * heads.n_columns, lse + (size_t)i * heads.n_heads,
                 sides_out + (size_t)i * 4 * heads.n_heads);
    }
}

SL_CLONES void sl_attend_sides_cpu(struct sl_heads heads, const struct sl_edges *edges, const sl_real *gz,
                                   const sl_real *lse, sl_real *sides_out)
{
    struct sl_source_rows x;
    const struct attended rows = sl_attended(heads, edges, &x);
    SL_BY_DTYPE(rows.dtype, see_sides, &rows, gz, lse, sides_out);
}

/* ---- kernels, CPU: by source ---- */

/* Slab r of the sides of a destination. */
SL_INLINE const sl_real *side_row(const struct sl_attend_back *block, uint32_t d, uint32_t r)
{
    return sl_chunks_row(block->sides, d, 4 * sl_heads_scores(block->heads)) + (size_t)r * 4 * block->heads.n_heads;
}

/* gu += the gradient that a source gets from destination d by relation r. u, gu: slabs of the source. */
SL_INLINE void add_back_term(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t d, uint32_t r,
                             const float *w, const void *u, struct batch *batch, sl_real *gu)
{
    const struct sl_heads heads = block->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const sl_real *gz = sl_chunks_row(block->gz, d, heads.n_columns);
    const sl_real *er = side_row(block, d, r);
    const sl_real *lse = er + heads.n_heads;
    const sl_real *c = lse + heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = el_of(dtype, heads, u, room);
    sl_real *gel = gu + heads.n_columns;
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el, er, lse, weight);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        sl_real da = (w == NULL ? 1 : (sl_real)*w) * sl_dot(dtype, width, gz + k * width, u, k * width);
        gel[k] += weight[k] * (da - c[k]) * sl_attend_slope(er[k] + el[k]);
    }
    weigh_edge(heads.n_heads, w, weight);
    add_to_batch(SL_DTYPE_REAL, batch, heads, gz, weight, gu);
}

/* The relation of a term. */
SL_INLINE uint32_t relation_of(const struct sl_attend_back *block, uint32_t e)
{
    return block->heads.n_relations > 0 ? block->relations[e] : 0;
}

/* gu += terms bounds[0] .. bounds[1] - 1, except the term of destination `self`. n: terms that may be
 * prefetched. */
SL_INLINE void add_back(enum sl_dtype dtype, const struct sl_attend_back *block, const uint32_t bounds[2], uint32_t n,
                        uint32_t self, const void *u, sl_real *gu)
{
    const size_t step = sl_heads_slab(block->heads);
    struct batch batch;
    uint32_t r = 0; /* of the batch */
    batch.n = 0;
    for (uint32_t e = bounds[0]; e < bounds[1]; e++) {
        if (n - e > SL_ROWS_AHEAD) {
            uint32_t next = block->rows[e + SL_ROWS_AHEAD];
            sl_row_fetch(sl_chunks_row(block->gz, next, block->heads.n_columns),
                         block->heads.n_columns * sizeof(sl_real));
            sl_row_fetch(side_row(block, next, relation_of(block, e + SL_ROWS_AHEAD)),
                         4 * block->heads.n_heads * sizeof(sl_real));
        }
        if (relation_of(block, e) != r) {
            add_batch(SL_DTYPE_REAL, &batch, block->heads, gu + r * step);
            r = relation_of(block, e);
        }
        if (block->rows[e] != self) {
            add_back_term(dtype, block, block->rows[e], r, edge_weight(block->weights, e),
                          slab_of(dtype, block->heads, u, r), &batch, gu + r * step);
        }
    }
    add_batch(SL_DTYPE_REAL, &batch, block->heads, gu + r * step);
}

SL_INLINE void add_backs(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                         const void *u, sl_real *gu_out)
{
    const uint32_t *bounds = block->offsets + t0;
    const uint32_t n_columns = sl_heads_row(block->heads);
    memset(gu_out, 0, (size_t)n * n_columns * sizeof *gu_out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(dtype, block, bounds + i, bounds[n], SL_NONE, row_of(dtype, u, i, n_columns),
                 gu_out + (size_t)i * n_columns);
    }
}

SL_CLONES static void attend_back(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                                  const void *u, sl_real *gu_out)
{
    SL_BY_DTYPE(dtype, add_backs, block, n, t0, u, gu_out);
}

#define ROUNDED_ROWS 256 /* rows whose gradients are in float before they are rounded */

enum sl_status sl_attend_backward_cpu(const struct sl_attend_back *block, uint32_t n_owners, const uint32_t *n,
                                      const uint32_t *t0, enum sl_dtype dtype, void *const *u, void *const *gu_out)
{
    const uint32_t n_columns = sl_heads_row(block->heads);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; k < n_owners && st == SL_OK; k++) {
        struct sl_rounded slab =
            sl_rounded_begin("gradients before they are rounded", ROUNDED_ROWS, dtype, n[k], n_columns, gu_out[k]);
        while (sl_rounded_next(&slab, &st)) {
            attend_back(dtype, block, slab.n, t0[k] + slab.first, row_of(dtype, u[k], slab.first, n_columns),
                        slab.room);
        }
    }
    return st;
}

SL_INLINE void add_selves(enum sl_dtype dtype, const struct sl_attend_back *block, const void *u,
                          const struct sl_gradient *g, uint32_t n_rows)
{
    const struct sl_heads heads = block->heads;
    struct batch batch;
    batch.n = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        sl_real *gu = sl_gradient_row(g, i);
        if (heads.n_relations == 0) {
            add_back_term(dtype, block, g->row0 + i, 0, NULL, row_of(dtype, u, i, g->n_columns), &batch, gu);
            add_batch(SL_DTYPE_REAL, &batch, heads, gu);
        }
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
            const sl_real *ger = side_row(block, g->row0 + i, r) + 3 * heads.n_heads;
            sl_real *slab = gu + (size_t)r * sl_heads_slab(heads);
            sl_add_row(SL_DTYPE_REAL, heads.n_heads, slab + heads.n_columns + heads.n_heads, ger, 0, 1);
        }
    }
}

SL_CLONES void sl_attend_self_cpu(const struct sl_attend_back *block, uint32_t n_rows, enum sl_dtype dtype,
                                  const void *u, const struct sl_gradient *g)
{
    SL_BY_DTYPE(dtype, add_selves, block, u, g, n_rows);
}

SL_INLINE void add_owns(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                        const uint32_t *inverse, const void *u, const struct sl_gradient *g)
{
    const uint32_t *bounds = block->offsets + t0;
    const bool with_self = block->heads.n_relations > 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            add_back(dtype, block, bounds + i, bounds[n], with_self ? SL_NONE : inverse[i],
                     row_of(dtype, u, row, g->n_columns), sl_gradient_row(g, row));
        }
    }
}

SL_CLONES void sl_attend_own_cpu(const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                                 const struct sl_asked *asked, enum sl_dtype dtype, const void *u,
                                 const struct sl_gradient *g)
{
    const uint32_t *inverse = sl_list_of(asked->inverse, asked->n_parts, asked->requester);
    SL_BY_DTYPE(dtype, add_owns, block, t0, n, inverse, u, g);
}

/* ---- operations ---- */

/* By destination: forward writes z and lse, sides reads gz in z, and lse. */
struct sums {
    struct sl_task_args head;
    struct sl_edge_operands edges;
    struct sl_matrix z, lse, sides;
    struct sl_heads heads;
    int beta;
};

struct full {
    struct sums sums; /* without lse */
    struct sl_parts parts;
};

/* By source. */
struct back {
    struct sl_task_args head;
    struct sl_back_operands block; /* gm: GZ */
    struct sl_chunks sides;
    struct sl_heads heads;
    struct sl_matrices u; /* of the rows in `packed` */
    struct sl_matrix own_u;
    enum sl_dtype dtype; /* of rows of U */
};

static struct sl_attend_back back_of(const struct back *v)
{
    return (struct sl_attend_back){.heads = v->heads,
                                   .offsets = v->block.offsets.data,
                                   .rows = v->block.rows.data,
                                   .gz = &v->block.gm,
                                   .sides = &v->sides,
                                   .relations = v->block.back_relations.data,
                                   .weights = v->block.weights.data};
}

static enum sl_status forward(const void *view, const void *stream)
{
    const struct sums *v = view;
    const struct sl_edges edges = sl_edges_in(&v->edges, v->z.n_rows, NULL);
    return SL_RUN(stream, sl_attend_forward, v->heads, &edges, v->beta, v->z.data, v->lse.data);
}

static enum sl_status sides(const void *view, const void *stream)
{
    const struct sums *v = view;
    const struct sl_edges edges = sl_edges_in(&v->edges, v->z.n_rows, NULL);
    return SL_RUN(stream, sl_attend_sides, v->heads, &edges, v->z.data, v->lse.data, v->sides.data);
}

static enum sl_status backward(const void *view, const void *stream)
{
    const struct back *v = view;
    const struct sl_attend_back block = back_of(v);
    return SL_CALL(stream, sl_attend_backward, &block, v->block.packed.n, v->block.packed.n_rows,
                   v->block.packed.numbers, v->dtype, v->u.data, v->block.packed.data);
}

static enum sl_status add_self(const void *view, const void *stream, const struct sl_gradient *g)
{
    const struct back *v = view;
    const struct sl_attend_back block = back_of(v);
    const uint32_t n = sl_max_u32(v->block.gm.n_rows, g->row0) - g->row0; /* the destinations are the first rows */
    return SL_RUN(stream, sl_attend_self, &block, sl_min_u32(n, g->n_rows), v->dtype, v->own_u.data, g);
}

static enum sl_status add_own(const void *view, const void *stream, const struct sl_asked *asked, int beta,
                              const struct sl_gradient *g)
{
    const struct back *v = view;
    const struct sl_attend_back block = back_of(v);
    (void)beta;
    return SL_RUN(stream, sl_attend_own, &block, v->block.shares.t0, v->block.shares.n_own, asked, v->dtype,
                  v->own_u.data, g);
}

static enum sl_status accumulate(const void *view, const void *stream)
{
    static const struct sl_share_adders add = {.self = add_self, .own = add_own};
    return sl_accumulate(view, stream, &((const struct back *)view)->block.shares, &add);
}

static enum sl_status full(const void *view, const void *stream)
{
    const struct full *v = view;
    const struct sums *sums = &v->sums;
    const struct sl_edges edges = sl_edges_in(&sums->edges, sums->z.n_rows, &v->parts);
    return SL_RUN(stream, sl_attend_full, sums->heads, &edges, sums->beta, sums->z.data);
}

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_attend_forward", SL_STAGE_AGGREGATE),
    SL_BODY(forward, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             {"z", STARPU_W | SL_OR_RW, offsetof(struct sums, z), "D x H"},
             {"lse", STARPU_W, offsetof(struct sums, lse), "D x L"},
             SL_SOURCE_ROLES(struct sums, edges.x)},
};

static struct sl_operation sides_op = {
    SL_OPERATION(sides_op, "sl_attend_sides", SL_STAGE_BACKWARD),
    SL_BODY(sides, struct sums),
    .role = {SL_EDGE_ROLES(struct sums, edges, SL_INTS_32),
             {"gz", STARPU_R, offsetof(struct sums, z), "D x H"},
             {"lse", STARPU_R, offsetof(struct sums, lse), "D x L"},
             {"sides", STARPU_W, offsetof(struct sums, sides), "D x S"},
             SL_SOURCE_ROLES(struct sums, edges.x)},
};

#define SIDES_ROLE                                                                                                     \
    {                                                                                                                  \
        "sides", STARPU_R | SL_REPEATED, offsetof(struct back, sides.each), "? x S"                                    \
    }

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_attend_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x H"),
             SIDES_ROLE,
             SL_PACKED_ROLE(struct back, block),
             {"u", STARPU_R | SL_REPEATED, offsetof(struct back, u), "? x F", SL_ROWS}},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_attend_accumulate", SL_STAGE_BACKWARD),
    SL_BODY(accumulate, struct back),
    .role = {SL_BACK_ROLES(struct back, block, "? x H"),
             SIDES_ROLE,
             {"u", STARPU_R, offsetof(struct back, own_u), "D x F", SL_ROWS},
             SL_SHARE_ROLES(struct back, block.shares)},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_attend_full", SL_STAGE_AGGREGATE),
    SL_BODY(full, struct full),
    .role = {SL_EDGE_ROLES(struct full, sums.edges, SL_INTS_64),
             {"z", STARPU_W | SL_OR_RW, offsetof(struct full, sums.z), "D x H"},
             SL_PART_ROLES(struct full, parts)},
};

/* ---- submissions ---- */

/* H, K and R. n_columns: of rows of U; width: H; n_scores: RK, of lse. relations NULL: edges have none. */
static struct sl_heads heads_of(uint32_t n_columns, uint32_t width, uint32_t n_scores, starpu_data_handle_t relations)
{
    const bool has_slabs = relations != NULL && width > 0 && n_columns > 2 * n_scores + width;
    const uint32_t n_slabs = has_slabs ? (n_columns - 2 * n_scores) / width : 1;
    const struct sl_heads heads = {width, n_scores / n_slabs, relations != NULL ? n_slabs : 0};
    assert(heads.n_heads >= 1 && heads.n_heads <= SL_MAX_HEADS && width % heads.n_heads == 0);
    assert(n_scores == sl_heads_scores(heads) && n_columns == sl_heads_row(heads));
    return heads;
}

/* The rows of a chunk of destinations lie within one chunk of U. */
static void check_chunk(const struct sl_split *split, uint32_t row0, uint32_t n_rows)
{
    assert((uint64_t)row0 + n_rows <= split->n_rows);
    assert(n_rows == 0 || row0 >> split->shift == (row0 + n_rows - 1) >> split->shift);
}

/* Weights of edges count only if edges have relations. */
static struct sl_edge_operands edges_for(struct sl_edge_operands edges)
{
    if (edges.relations.handle == NULL) {
        edges.weights = sl_matrix_of(NULL);
    }
    return edges;
}

static struct sums sums_of(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                           uint64_t n_edges, const struct sl_source_handles *sources, starpu_data_handle_t z,
                           starpu_data_handle_t lse)
{
    struct sums v = {.head = *head,
                     .edges = edges_for(sl_edges_of_block(block, row0, sources)),
                     .z = sl_matrix_of(z),
                     .lse = sl_matrix_of(lse)};
    v.heads = heads_of(sources->rows->n_columns, v.z.n_columns, v.lse.n_columns, block->edge_relations);
    v.head.work = sl_sum_bytes(n_edges, v.z.n_rows, sources->rows->n_columns);
    check_chunk(&sources->rows->split, row0, v.z.n_rows);
    return v;
}

enum sl_status sl_attend_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources, int beta,
                                        starpu_data_handle_t z, starpu_data_handle_t lse)
{
    struct sums v = sums_of(head, block, row0, n_edges, sources, z, lse);
    v.beta = beta;
    v.z.is_kept = beta != 0;
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_sides_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                      uint64_t n_edges, const struct sl_source_handles *sources,
                                      starpu_data_handle_t gz, starpu_data_handle_t lse, starpu_data_handle_t sides)
{
    struct sums v = sums_of(head, block, row0, n_edges, sources, gz, lse);
    v.sides = sl_matrix_of(sides);
    assert(v.sides.n_columns == 4 * v.lse.n_columns);
    return sl_view_submit(&sides_op, &v, SL_PRIORITY_COMPUTE);
}

static struct back back_view(const struct sl_task_args *head, const struct sl_block *block,
                             const struct sl_attend_gradients *gradients, starpu_data_handle_t u)
{
    const struct sl_split *gz = &gradients->gz->split;
    const struct sl_split *sides = &gradients->sides->split;
    assert(gz->n_rows == sides->n_rows && gz->n_chunks == sides->n_chunks && gz->shift == sides->shift);
    assert(gradients->sides->n_columns % 4 == 0);
    struct back v = {.head = *head,
                     .block = sl_back_of(block, gradients->gz),
                     .sides = sl_chunks_of(gradients->sides),
                     .heads = heads_of(sl_handle_columns(u), gradients->gz->n_columns, gradients->sides->n_columns / 4,
                                       block->back_relations),
                     .dtype = sl_handle_dtype(u)};
    v.block.edge_offsets = v.block.relations = sl_matrix_of(NULL);
    if (block->back_relations == NULL) {
        v.block.weights = sl_matrix_of(NULL);
    }
    return v;
}

enum sl_status sl_attend_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_attend_gradients *gradients, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *u,
                                         const struct sl_slice *gu)
{
    struct back v = back_view(head, block, gradients, u[0].handle);
    v.block.packed = (struct sl_matrices){.n = n_owners, .slices = gu, .numbers = t0};
    v.u = (struct sl_matrices){.n = n_owners, .slices = u};
    v.head.work = sl_sum_bytes(n_edges, sl_slices_rows(&v.block.packed), v.block.gm.n_columns + v.sides.n_columns);
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_SEND);
}

enum sl_status sl_attend_accumulate_submit(const struct sl_task_args *head, const struct sl_attend_shares *shares,
                                           uint32_t row0, starpu_data_handle_t u, starpu_data_handle_t gu)
{
    struct back v = back_view(head, shares->block, &shares->gradients, u);
    struct sl_shares *to = &v.block.shares;
    *to = sl_shares_of(&shares->from, shares->block->inverse, row0, gu);
    v.own_u = sl_matrix_of(u);
    v.head.work = sl_sum_bytes(to->n_own + sl_slices_rows(&to->sent), v.own_u.n_rows, v.own_u.n_columns);
    return sl_view_submit(&accumulate_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t part, uint32_t row0, uint32_t n_scores, int beta, starpu_data_handle_t z)
{
    starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS];
    struct full v = {.sums = {.head = *head,
                              .edges = edges_for(sl_edges_of_part(sources, row0)),
                              .z = sl_matrix_of(z),
                              .beta = beta},
                     .parts = sl_parts_of(sources->first, sources->n_parts, sources->rows, NULL, chunks)};
    const struct sl_rows *rows = &sources->rows[part];
    struct sums *sums = &v.sums;
    assert(part < sources->n_parts);
    v.parts.own = part;
    sums->heads = heads_of(rows->n_columns, sums->z.n_columns, n_scores, sources->edge_relations);
    check_chunk(&rows->split, row0, sums->z.n_rows);
    sums->z.is_kept = beta != 0;
    sums->head.work = sl_sum_bytes(sources->n_edges, sums->z.n_rows, rows->n_columns);
    return sl_view_submit(&full_op, &v, SL_PRIORITY_NORMAL);
}
