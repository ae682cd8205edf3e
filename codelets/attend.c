/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention over blocks, and its adjoint. A destination's list is walked three times: for the largest score, for
 * the sum of exponentials, and for the rows. Rows are prefetched well before the first walk reaches them. With
 * relations, a destination has a list for each. */
#include "codelets/attend.h"

#include <string.h>

#include "codelets/rounded.h"
#include "support/ln.h"
#include "support/minmax.h"

/* ---- kernels, CPU: products and sums of rows ---- */

#define BATCH 4 /* rows added at a time: the output row is read and written once for all of them */
#define LANES 8
#define VECTOR __attribute__((vector_size(LANES * sizeof(sl_real))))

/* Entries c .. c + LANES - 1 of a row. */
SL_INLINE void take_lanes(enum sl_dtype dtype, const void *row, uint32_t c, sl_real VECTOR *lane)
{
    if (dtype == SL_DTYPE_REAL) {
        memcpy(lane, (const sl_real *)row + c, sizeof *lane);
        return;
    }
    for (uint32_t l = 0; l < LANES; l++) {
        (*lane)[l] = sl_entry(dtype, row, c + l);
    }
}

/* The sum of x[c] * y[y0 + c]: lane by lane, then the lanes in pairs, then the remaining columns. */
SL_INLINE sl_real dot(enum sl_dtype dtype, uint32_t n, const sl_real *x, const void *y, uint32_t y0)
{
    sl_real VECTOR lane = {0};
    sl_real VECTOR a;
    sl_real VECTOR b;
    uint32_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        take_lanes(SL_DTYPE_REAL, x, c, &a);
        take_lanes(dtype, y, y0 + c, &b);
        lane += a * b;
    }
    sl_real sum = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    for (; c < n; c++) {
        sum += x[c] * sl_entry(dtype, y, y0 + c);
    }
    return sum;
}

/* Rows to add, and their weights by head. */
struct batch {
    uint32_t n;
    const void *row[BATCH];
    sl_real weight[BATCH][SL_MAX_HEADS];
};

/* out += weight times columns c0 .. c0 + n_columns - 1 of a row. */
SL_INLINE void add_scaled(enum sl_dtype dtype, uint32_t n_columns, sl_real *restrict out, const void *restrict row,
                          uint32_t c0, sl_real weight)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * sl_entry(dtype, row, c0 + j);
    }
}

/* out += head k of a full batch, in order. */
SL_INLINE void add_four(enum sl_dtype dtype, const struct batch *batch, uint32_t k, uint32_t width,
                        sl_real *restrict out)
{
    const void *restrict ra = batch->row[0];
    const void *restrict rb = batch->row[1];
    const void *restrict rc = batch->row[2];
    const void *restrict rd = batch->row[3];
    const uint32_t c0 = k * width;
    sl_real a = batch->weight[0][k];
    sl_real b = batch->weight[1][k];
    sl_real c = batch->weight[2][k];
    sl_real d = batch->weight[3][k];
    for (uint32_t j = 0; j < width; j++) {
        out[j] = (((out[j] + a * sl_entry(dtype, ra, c0 + j)) + b * sl_entry(dtype, rb, c0 + j)) +
                  c * sl_entry(dtype, rc, c0 + j)) +
                 d * sl_entry(dtype, rd, c0 + j);
    }
}

/* out += the batch, and empty it. */
SL_INLINE void add_batch(enum sl_dtype dtype, struct batch *batch, struct sl_heads heads, sl_real *out)
{
    uint32_t width = heads.n_columns / heads.n_heads;
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        if (batch->n == BATCH) {
            add_four(dtype, batch, k, width, out + k * width);
        } else {
            for (uint32_t i = 0; i < batch->n; i++) {
                add_scaled(dtype, width, out + k * width, batch->row[i], k * width, batch->weight[i][k]);
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

#define KEPT 64  /* edges of a list whose rows are looked up once */
#define AHEAD 24 /* edges prefetched ahead */

/* Slab r of a row of U. */
SL_INLINE const void *slab_of(enum sl_dtype dtype, struct sl_heads heads, const void *row, uint32_t r)
{
    return (const char *)row + sl_dtype_bytes(dtype, (size_t)r * sl_heads_slab(heads));
}

/* A walk over all lists, one after the other. */
struct walk {
    const struct sl_attend_rows *rows;
    uint64_t n, known; /* edges in all, and edges prefetched so far */
};

/* The edges of one destination, or its edges of one relation. */
struct list {
    uint64_t first, end;
    const void *self; /* the destination's slab */
    const void *kept[KEPT];
};

/* The list of relation r, of a destination whose row is `own`: it begins with edge `begin`. Without relations: all
 * edges. */
SL_INLINE void take_list(enum sl_dtype dtype, const struct sl_attend_rows *rows, const void *own, uint32_t r,
                         uint64_t begin, uint64_t end, struct list *list)
{
    list->self = slab_of(dtype, rows->heads, own, r);
    list->first = begin;
    list->end = rows->heads.n_relations > 0 ? begin : end;
    while (list->end < end && rows->relations[list->end] == r) {
        list->end++;
    }
}

/* Whether there is nothing to attend to. */
SL_INLINE bool is_empty(struct sl_heads heads, const struct list *list)
{
    return heads.n_relations > 0 && list->first == list->end;
}

/* The slab of an edge's source. */
SL_INLINE const void *source_row(enum sl_dtype dtype, const struct sl_attend_rows *rows, uint64_t e)
{
    uint32_t position = rows->sources[e];
    uint32_t r = rows->heads.n_relations > 0 ? rows->relations[e] : 0;
    uint32_t q = 0;
    while (position >= rows->x->first[q + 1]) {
        q++;
    }
    return slab_of(dtype, rows->heads,
                   sl_view_row_of(dtype, &rows->x->view[q], position - rows->x->first[q], sl_heads_row(rows->heads)),
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
        uint64_t ahead = walk->n - e < AHEAD ? walk->n : e + AHEAD;
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
            add_row(dtype, heads, row, er, lse, edge_weight(walk->rows->weights, e), &batch, z);
        }
    }
    add_batch(dtype, &batch, heads, z);
}

/* z and lse of the destination whose row is `own`, with edges e .. end - 1. */
SL_INLINE void attend(enum sl_dtype dtype, struct walk *walk, const void *own, uint64_t e, uint64_t end, int beta,
                      sl_real *z, sl_real *lse)
{
    const struct sl_heads heads = walk->rows->heads;
    struct list list;
    if (!beta) {
        memset(z, 0, heads.n_columns * sizeof *z);
    }
    for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
        take_list(dtype, walk->rows, own, r, e, end, &list);
        attend_list(dtype, walk, &list, z, lse + (size_t)r * heads.n_heads);
        e = list.end;
    }
}

/* Row i of consecutive rows of U. */
SL_INLINE const void *row_of(enum sl_dtype dtype, const void *u, uint32_t i, uint32_t n_columns)
{
    return (const char *)u + sl_dtype_bytes(dtype, (size_t)i * n_columns);
}

SL_INLINE void attend_block(enum sl_dtype dtype, const struct sl_attend_rows *rows, int beta, sl_real *z_out,
                            sl_real *lse_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = {.rows = rows, .n = rows->offsets[rows->n_rows], .known = rows->offsets[0]};
    for (uint32_t d = 0; d < rows->n_rows; d++) {
        attend(dtype, &walk, row_of(dtype, rows->self, d, sl_heads_row(heads)), rows->offsets[d], rows->offsets[d + 1],
               beta, z_out + (size_t)d * heads.n_columns, lse_out + (size_t)d * sl_heads_scores(heads));
    }
}

SL_CLONES void sl_attend_forward_cpu(enum sl_dtype dtype, const struct sl_attend_rows *rows, int beta, sl_real *z_out,
                                     sl_real *lse_out)
{
    SL_BY_DTYPE(dtype, attend_block, rows, beta, z_out, lse_out);
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
            add_to_tile(dtype, heads, row, edge_weight(walk->rows->weights, e), tile);
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

/* Offsets have 64 bits; the sources begin at the first row's offset. */
SL_INLINE void attend_part(enum sl_dtype dtype, const struct sl_attend_rows *rows, const uint64_t *offsets, int beta,
                           sl_real *z_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = {.rows = rows, .n = offsets[rows->n_rows] - offsets[0]};
    struct list list;
    if (beta == 0) {
        memset(z_out, 0, (size_t)rows->n_rows * heads.n_columns * sizeof *z_out);
    }
    for (uint32_t d = 0; d < rows->n_rows; d++) {
        const void *own = row_of(dtype, rows->self, d, sl_heads_row(heads));
        uint64_t e = offsets[d] - offsets[0];
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
            take_list(dtype, rows, own, r, e, offsets[d + 1] - offsets[0], &list);
            if (!is_empty(heads, &list)) {
                evaluate_list(dtype, &walk, &list, z_out + (size_t)d * heads.n_columns);
            }
            e = list.end;
        }
    }
}

SL_CLONES static void attend_full(enum sl_dtype dtype, const struct sl_attend_rows *rows, const uint64_t *offsets,
                                  int beta, sl_real *z_out)
{
    SL_BY_DTYPE(dtype, attend_part, rows, offsets, beta, z_out);
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
        sl_real da = (w == NULL ? 1 : (sl_real)*w) * dot(dtype, width, gz + k * width, row, k * width);
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
            add_side(dtype, heads, row, er, lse, edge_weight(walk->rows->weights, e), gz, &sum);
        }
    }
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        out[k] = er[k];
        out[heads.n_heads + k] = lse[k];
        out[2 * heads.n_heads + k] = sum.c[k];
        out[3 * heads.n_heads + k] = sum.both[k] - sum.c[k] * sum.slope[k];
    }
}

SL_INLINE void see_sides(enum sl_dtype dtype, const struct sl_attend_rows *rows, const sl_real *gz, const sl_real *lse,
                         sl_real *sides_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = {.rows = rows, .n = rows->offsets[rows->n_rows], .known = rows->offsets[0]};
    struct list list;
    sl_real top[SL_MAX_HEADS];
    uint64_t e = rows->offsets[0];
    for (uint32_t i = 0; i < rows->n_rows * sl_heads_slabs(heads); i++) {
        const uint32_t d = i / sl_heads_slabs(heads);
        take_list(dtype, rows, row_of(dtype, rows->self, d, sl_heads_row(heads)), i % sl_heads_slabs(heads), e,
                  rows->offsets[d + 1], &list);
        e = list.end;
        if (!is_empty(heads, &list)) {
            meet(dtype, &walk, &list, top);
        }
        see_side(dtype, &walk, &list, gz + (size_t)d * heads.n_columns, lse + (size_t)i * heads.n_heads,
                 sides_out + (size_t)i * 4 * heads.n_heads);
    }
}

SL_CLONES void sl_attend_sides_cpu(enum sl_dtype dtype, const struct sl_attend_rows *rows, const sl_real *gz,
                                   const sl_real *lse, sl_real *sides_out)
{
    SL_BY_DTYPE(dtype, see_sides, rows, gz, lse, sides_out);
}

/* ---- kernels, CPU: by source ---- */

/* Slab r of the sides of a destination. */
SL_INLINE const sl_real *side_row(const struct sl_attend_back *block, uint32_t d, uint32_t r)
{
    return sl_view_row(&block->sides, d, 4 * sl_heads_scores(block->heads)) + (size_t)r * 4 * block->heads.n_heads;
}

/* gu += the gradient that a source gets from destination d by relation r. u, gu: slabs of the source. */
SL_INLINE void add_back_term(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t d, uint32_t r,
                             const float *w, const void *u, struct batch *batch, sl_real *gu)
{
    const struct sl_heads heads = block->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const sl_real *gz = sl_view_row(&block->gz, d, heads.n_columns);
    const sl_real *er = side_row(block, d, r);
    const sl_real *lse = er + heads.n_heads;
    const sl_real *c = lse + heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = el_of(dtype, heads, u, room);
    sl_real *gel = gu + heads.n_columns;
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el, er, lse, weight);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        sl_real da = (w == NULL ? 1 : (sl_real)*w) * dot(dtype, width, gz + k * width, u, k * width);
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
        if (n - e > AHEAD) {
            uint32_t next = block->rows[e + AHEAD];
            sl_row_fetch(sl_view_row(&block->gz, next, block->heads.n_columns),
                         block->heads.n_columns * sizeof(sl_real));
            sl_row_fetch(side_row(block, next, relation_of(block, e + AHEAD)),
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

SL_CLONES void sl_attend_backward_cpu(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                                      const void *u, sl_real *gu_out)
{
    SL_BY_DTYPE(dtype, add_backs, block, n, t0, u, gu_out);
}

SL_INLINE void add_selves(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t row0, uint32_t n_rows,
                          const void *u, sl_real *gu)
{
    const struct sl_heads heads = block->heads;
    const uint32_t n_columns = sl_heads_row(heads);
    struct batch batch;
    batch.n = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        if (heads.n_relations == 0) {
            add_back_term(dtype, block, row0 + i, 0, NULL, row_of(dtype, u, i, n_columns), &batch,
                          gu + (size_t)i * n_columns);
            add_batch(SL_DTYPE_REAL, &batch, heads, gu + (size_t)i * n_columns);
        }
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
            const sl_real *ger = side_row(block, row0 + i, r) + 3 * heads.n_heads;
            sl_real *slab = gu + (size_t)i * n_columns + (size_t)r * sl_heads_slab(heads);
            add_scaled(SL_DTYPE_REAL, heads.n_heads, slab + heads.n_columns + heads.n_heads, ger, 0, 1);
        }
    }
}

SL_CLONES void sl_attend_self_cpu(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t row0,
                                  uint32_t n_rows, const void *u, sl_real *gu)
{
    SL_BY_DTYPE(dtype, add_selves, block, row0, n_rows, u, gu);
}

SL_INLINE void add_own_cpu(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                           const uint32_t *inverse, uint32_t row0, uint32_t n_rows, const void *u, sl_real *gu)
{
    const uint32_t *bounds = block->offsets + t0;
    const uint32_t n_columns = sl_heads_row(block->heads);
    const bool with_self = block->heads.n_relations > 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = inverse[i] - row0; /* a row below row0 wraps, and is too large */
        if (row < n_rows) {
            add_back(dtype, block, bounds + i, bounds[n], with_self ? SL_NONE : inverse[i],
                     row_of(dtype, u, row, n_columns), gu + (size_t)row * n_columns);
        }
    }
}

SL_CLONES void sl_attend_own_cpu(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                                 const uint32_t *inverse, uint32_t row0, uint32_t n_rows, const void *u, sl_real *gu)
{
    SL_BY_DTYPE(dtype, add_own_cpu, block, n, t0, inverse, row0, n_rows, u, gu);
}

/* ---- arguments ---- */

/* H, K and R; if edges have relations, the index of their buffer; the index of the weights, 0: none. */
struct shape_args {
    struct sl_heads heads;
    uint32_t relations, weights;
};

struct forward_args {
    struct sl_task_args head;
    struct shape_args shape;
    uint32_t row0;
    int beta; /* of forward */
    struct sl_source_args sources;
};

struct backward_args {
    struct sl_task_args head;
    struct shape_args shape;
    uint32_t n_chunks, shift;
    uint32_t n_owners;
    struct returned {
        uint32_t t0;
        struct sl_slice_args u, gu;
    } returned[SL_MAX_GROUP]; /* submitted up to returned[n_owners - 1] */
};

struct accumulate_args {
    struct sl_task_args head;
    struct shape_args shape;
    struct sl_share_args shares;
};

struct full_args {
    struct sl_task_args head;
    struct shape_args shape;
    uint32_t row0;
    uint32_t part;
    int beta;
    struct sl_part_args parts;
};

/* Rows of an accumulation's chunk that are destinations: the first ones. */
static uint32_t destinations(const struct sl_share_args *args, uint32_t n_rows)
{
    uint32_t n = args->n_destinations > args->row0 ? args->n_destinations - args->row0 : 0;
    return sl_min_u32(n, n_rows);
}

/* ---- implementations ---- */

enum {
    EDGE_OFFSETS,
    EDGE_SOURCES,
    INVERSE,
    FORWARD_Z,
    FORWARD_LSE,
    FORWARD_ROWS,
    FORWARD_PACKED,
    FORWARD_RELATIONS,
    FORWARD_WEIGHTS
};
enum { SIDES_GZ = INVERSE + 1, SIDES_LSE, SIDES, SIDES_ROWS, SIDES_PACKED, SIDES_RELATIONS, SIDES_WEIGHTS };
enum { BACK_OFFSETS, BACK_ROWS, BACK_GZ, BACK_SIDES, BACK_GU, BACK_U, BACK_RELATIONS, BACK_WEIGHTS };
enum { SUM_INVERSE = BACK_ROWS + 1, SUM_GU, SUM_U, SUM_GZ, SUM_SIDES, SUM_SENT, SUM_RELATIONS, SUM_WEIGHTS };
enum { FULL_OFFSETS, FULL_SOURCES, FULL_FIRST, FULL_Z, FULL_ROWS, FULL_RELATIONS, FULL_WEIGHTS };

static const uint16_t *relations_of(const struct shape_args *args, void *buffers[])
{
    return args->heads.n_relations > 0 ? sl_buffer_data(buffers[args->relations]) : NULL;
}

static const float *weights_of(const struct shape_args *args, void *buffers[])
{
    return args->weights > 0 ? sl_buffer_data(buffers[args->weights]) : NULL;
}

/* Append the relations and weights of edges. NULL: they have none. role: of the relations; the weights' follows. */
static void add_values(struct sl_task *task, unsigned role, starpu_data_handle_t relations,
                       starpu_data_handle_t weights, struct shape_args *args)
{
    args->relations = sl_task_add_optional(task, role, relations, STARPU_R);
    args->weights = sl_task_add_optional(task, role + 1, relations != NULL ? weights : NULL, STARPU_R);
}

static struct sl_attend_rows rows_of(const struct forward_args *args, void *buffers[],
                                     const struct sl_source_views *sources)
{
    const struct sl_heads heads = args->shape.heads;
    return (struct sl_attend_rows){
        .heads = heads,
        .relations = relations_of(&args->shape, buffers),
        .weights = weights_of(&args->shape, buffers),
        .n_rows = sl_buffer_rows(buffers[FORWARD_Z]),
        .offsets = (const uint32_t *)sl_buffer_data(buffers[EDGE_OFFSETS]) + args->row0,
        .sources = sl_buffer_data(buffers[EDGE_SOURCES]),
        .x = &sources->x,
        .self = sl_view_row_of(args->sources.dtype, &sources->rows, args->row0, sl_heads_row(heads))};
}

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    struct sl_source_views sources;
    sl_sources_view(&args->sources, buffers, buffers[INVERSE], buffers + FORWARD_ROWS, &sources);
    struct sl_attend_rows rows = rows_of(args, buffers, &sources);
    sl_attend_forward_cpu(args->sources.dtype, &rows, args->beta, sl_buffer_data(buffers[FORWARD_Z]),
                          sl_buffer_data(buffers[FORWARD_LSE]));
    return SL_OK;
}

static enum sl_status sides_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct forward_args *args = cl_arg;
    struct sl_source_views sources;
    sl_sources_view(&args->sources, buffers, buffers[INVERSE], buffers + SIDES_ROWS, &sources);
    struct sl_attend_rows rows = rows_of(args, buffers, &sources);
    sl_attend_sides_cpu(args->sources.dtype, &rows, sl_buffer_data(buffers[SIDES_GZ]),
                        sl_buffer_data(buffers[SIDES_LSE]), sl_buffer_data(buffers[SIDES]));
    return SL_OK;
}

#define ROUNDED_ROWS 256 /* rows whose gradients are in float before they are rounded */

/* The bf16 gradients of one owner's bf16 rows. */
static enum sl_status backward_rounded(const struct sl_attend_back *block, uint32_t n_rows, uint32_t t0,
                                       const sl_bf16 *u, sl_bf16 *gu_out)
{
    const uint32_t n_columns = sl_heads_row(block->heads);
    struct sl_rounded slab =
        sl_rounded_begin("gradients before they are rounded", ROUNDED_ROWS, n_rows, n_columns, gu_out);
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        sl_attend_backward_cpu(SL_DTYPE_BF16, block, slab.n, t0 + slab.first, u + (size_t)slab.first * n_columns,
                               slab.room);
    }
    return st;
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct backward_args *args = cl_arg;
    enum sl_status st = SL_OK;
    const sl_real *gz[SL_MAX_CHUNKS];
    const sl_real *sides[SL_MAX_CHUNKS];
    void **gz_buffers = buffers + BACK_GZ;
    void **sides_buffers = gz_buffers + args->n_chunks;
    sl_chunks_data(gz_buffers, args->n_chunks, gz);
    sl_chunks_data(sides_buffers, args->n_chunks, sides);
    struct sl_attend_back block = {.heads = args->shape.heads,
                                   .offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                   .rows = sl_buffer_data(buffers[BACK_ROWS]),
                                   .gz = {gz, args->shift, NULL},
                                   .sides = {sides, args->shift, NULL},
                                   .relations = relations_of(&args->shape, buffers),
                                   .weights = weights_of(&args->shape, buffers)};
    for (uint32_t q = 0; q < args->n_owners && st == SL_OK; q++) {
        const struct returned *to = &args->returned[q];
        void *gu = sl_slice_data(buffers, &to->gu);
        const void *u = sl_slice_data(buffers, &to->u);
        if (sl_buffer_dtype(buffers[to->gu.buffer]) == SL_DTYPE_REAL) {
            sl_attend_backward_cpu(SL_DTYPE_REAL, &block, to->gu.n_rows, to->t0, u, gu);
        } else {
            st = backward_rounded(&block, to->gu.n_rows, to->t0, u, gu);
        }
    }
    return st;
}

/* Add all shares in PE order. */
static void add_shares(const struct sl_share_args *args, const struct sl_attend_back *block, void *buffers[],
                       const struct sl_gradient *g)
{
    const uint32_t *inverse = sl_buffer_data(buffers[SUM_INVERSE]);
    const void *u = sl_buffer_data(buffers[SUM_U]);
    const enum sl_dtype dtype = sl_buffer_dtype(buffers[SUM_U]);
    uint32_t n_selves = destinations(args, g->n_rows);
    memset(g->rows, 0, (size_t)g->n_rows * g->n_columns * sizeof *g->rows);
    sl_attend_self_cpu(dtype, block, args->row0, n_selves, u, g->rows);
    for (uint32_t p = 0; p < args->n_peers; p++) {
        const uint32_t *rows = sl_list_of(inverse, args->n_peers, p);
        if (p == args->own) {
            sl_attend_own_cpu(dtype, block, args->n_own, args->t0, rows, args->row0, g->n_rows, u, g->rows);
        } else {
            sl_accumulate_slice_cpu(&args->sent[p], buffers, rows, g);
        }
    }
}

static enum sl_status accumulate_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    const sl_real *gz[SL_MAX_CHUNKS];
    const sl_real *sides[SL_MAX_CHUNKS];
    void **sides_buffers = buffers + SUM_GZ + shares->n_chunks;
    struct sl_gradient gradient = sl_gradient_of(shares->row0, buffers[SUM_GU]);
    sl_chunks_data(buffers + SUM_GZ, shares->n_chunks, gz);
    sl_chunks_data(sides_buffers, shares->n_chunks, sides);
    struct sl_attend_back block = {.heads = args->shape.heads,
                                   .offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                   .rows = sl_buffer_data(buffers[BACK_ROWS]),
                                   .gz = {gz, shares->shift, NULL},
                                   .sides = {sides, shares->shift, NULL},
                                   .relations = relations_of(&args->shape, buffers),
                                   .weights = weights_of(&args->shape, buffers)};
    add_shares(shares, &block, buffers, &gradient);
    return SL_OK;
}

static enum sl_status full_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct full_args *args = cl_arg;
    struct sl_part_views parts;
    sl_parts_view(&args->parts, buffers + FULL_ROWS, &parts);
    const uint64_t *offsets = sl_buffer_data(buffers[FULL_OFFSETS]);
    const sl_vertex *sources = sl_buffer_data(buffers[FULL_SOURCES]);
    struct sl_sources x = {
        .n_owners = args->parts.n_parts, .first = sl_buffer_data(buffers[FULL_FIRST]), .view = parts.view};
    const struct sl_heads heads = args->shape.heads;
    const uint16_t *relations = relations_of(&args->shape, buffers);
    const float *weights = weights_of(&args->shape, buffers);
    const uint64_t first = offsets[args->row0] - offsets[0];
    struct sl_attend_rows rows = {
        .heads = heads,
        .relations = relations == NULL ? NULL : relations + first,
        .weights = weights == NULL ? NULL : weights + first,
        .n_rows = sl_buffer_rows(buffers[FULL_Z]),
        .sources = sources + first,
        .x = &x,
        .self = sl_view_row_of(args->parts.dtype, &parts.view[args->part], args->row0, sl_heads_row(heads))};
    attend_full(args->parts.dtype, &rows, offsets + args->row0, args->beta, sl_buffer_data(buffers[FULL_Z]));
    return SL_OK;
}

#ifdef SL_CUDA
static struct sl_attend_device_rows device_destinations(const struct forward_args *args, void *buffers[],
                                                        const struct sl_device_sources *x)
{
    struct sl_view own = {x->rows.chunk, args->sources.shift, NULL};
    const struct sl_heads heads = args->shape.heads;
    return (struct sl_attend_device_rows){
        .heads = heads,
        .relations = relations_of(&args->shape, buffers),
        .weights = weights_of(&args->shape, buffers),
        .n_rows = sl_buffer_rows(buffers[FORWARD_Z]),
        .offsets = (const uint32_t *)sl_buffer_data(buffers[EDGE_OFFSETS]) + args->row0,
        .sources = sl_buffer_data(buffers[EDGE_SOURCES]),
        .x = x,
        .self = sl_view_row_of(args->sources.dtype, &own, args->row0, sl_heads_row(heads))};
}

static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    struct sl_device_sources x =
        sl_device_sources_of(&args->sources, buffers, buffers[INVERSE], buffers + FORWARD_ROWS);
    struct sl_attend_device_rows rows = device_destinations(args, buffers, &x);
    return sl_attend_forward_cuda(stream, &rows, args->beta, sl_buffer_data(buffers[FORWARD_Z]),
                                  sl_buffer_data(buffers[FORWARD_LSE]));
}

static enum sl_status sides_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct forward_args *args = cl_arg;
    struct sl_device_sources x = sl_device_sources_of(&args->sources, buffers, buffers[INVERSE], buffers + SIDES_ROWS);
    struct sl_attend_device_rows rows = device_destinations(args, buffers, &x);
    return sl_attend_sides_cuda(stream, &rows, sl_buffer_data(buffers[SIDES_GZ]), sl_buffer_data(buffers[SIDES_LSE]),
                                sl_buffer_data(buffers[SIDES]));
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct backward_args *args = cl_arg;
    void **gz = buffers + BACK_GZ;
    void **sides = gz + args->n_chunks;
    struct sl_attend_device_back block = {.heads = args->shape.heads,
                                          .relations = relations_of(&args->shape, buffers),
                                          .weights = weights_of(&args->shape, buffers),
                                          .offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                          .rows = sl_buffer_data(buffers[BACK_ROWS]),
                                          .gz = sl_device_rows_of(gz, args->n_chunks, args->shift),
                                          .sides = sl_device_rows_of(sides, args->n_chunks, args->shift)};
    const sl_real *u[SL_MAX_GROUP];
    sl_real *gu[SL_MAX_GROUP];
    uint32_t t0[SL_MAX_GROUP];
    uint32_t n[SL_MAX_GROUP];
    enum sl_dtype dtype = SL_DTYPE_REAL;
    for (uint32_t q = 0; q < args->n_owners; q++) {
        dtype = sl_buffer_dtype(buffers[args->returned[q].gu.buffer]);
        gu[q] = sl_slice_data(buffers, &args->returned[q].gu);
        u[q] = sl_slice_data(buffers, &args->returned[q].u);
        t0[q] = args->returned[q].t0;
        n[q] = args->returned[q].gu.n_rows;
    }
    return sl_attend_backward_cuda(stream, &block, args->n_owners, n, t0, dtype, u, gu);
}

/* Add all shares in PE order to cleared rows. */
static enum sl_status accumulate_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct accumulate_args *args = cl_arg;
    const struct sl_share_args *shares = &args->shares;
    void **gz = buffers + SUM_GZ;
    void **sides = gz + shares->n_chunks;
    const void *u = sl_buffer_data(buffers[SUM_U]);
    const enum sl_dtype dtype = sl_buffer_dtype(buffers[SUM_U]);
    struct sl_gradient g = sl_gradient_of(shares->row0, buffers[SUM_GU]);
    struct sl_attend_device_back block = {.heads = args->shape.heads,
                                          .relations = relations_of(&args->shape, buffers),
                                          .weights = weights_of(&args->shape, buffers),
                                          .offsets = sl_buffer_data(buffers[BACK_OFFSETS]),
                                          .rows = sl_buffer_data(buffers[BACK_ROWS]),
                                          .gz = sl_device_rows_of(gz, shares->n_chunks, shares->shift),
                                          .sides = sl_device_rows_of(sides, shares->n_chunks, shares->shift)};
    struct sl_attend_device_own own = {shares->n_own, shares->t0, shares->n_peers, shares->own,
                                       sl_buffer_data(buffers[SUM_INVERSE])};
    enum sl_status st = sl_accumulate_clear_cuda(stream, g.n_rows, g.n_columns, g.rows);
    if (st == SL_OK) {
        st = sl_attend_self_cuda(stream, &block, g.row0, destinations(shares, g.n_rows), dtype, u, g.rows);
    }
    for (uint32_t p = 0; p < shares->n_peers && st == SL_OK; p++) {
        if (p == shares->own) {
            st = sl_attend_own_cuda(stream, &block, &own, g.row0, g.n_rows, dtype, u, g.rows);
        } else if (shares->sent[p].n_rows > 0) {
            struct sl_asked asked = {own.inverse, shares->n_peers, p};
            st = sl_accumulate_slice_cuda(stream, &shares->sent[p], buffers, &asked, 1, &g);
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
    const struct sl_heads heads = args->shape.heads;
    struct sl_attend_device_full rows = {
        .heads = heads,
        .relations = relations_of(&args->shape, buffers),
        .weights = weights_of(&args->shape, buffers),
        .n_rows = sl_buffer_rows(buffers[FULL_Z]),
        .row0 = args->row0,
        .offsets = sl_buffer_data(buffers[FULL_OFFSETS]),
        .sources = sl_buffer_data(buffers[FULL_SOURCES]),
        .n_parts = args->parts.n_parts,
        .first = sl_buffer_data(buffers[FULL_FIRST]),
        .parts = parts,
        .dtype = args->parts.dtype,
        .self = sl_view_row_of(args->parts.dtype, &views.view[args->part], args->row0, sl_heads_row(heads))};
    return sl_attend_full_cuda(stream, &rows, args->beta, sl_buffer_data(buffers[FULL_Z]));
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_attend_forward", SL_STAGE_AGGREGATE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"edge sources", STARPU_R},
             {"own inverse", STARPU_R},
             {"z", STARPU_W | SL_OR_RW},
             {"lse", STARPU_W},
             {"own rows", STARPU_R | SL_REPEATED},
             {"packed rows", STARPU_R | SL_REPEATED},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation sides_op = {
    SL_OPERATION(sides_op, "sl_attend_sides", SL_STAGE_BACKWARD),
    .cpu = sides_cpu_task,
    SL_CUDA_FUNC(sides_cuda_task),
    .role = {{"edge offsets", STARPU_R},
             {"edge sources", STARPU_R},
             {"own inverse", STARPU_R},
             {"gz", STARPU_R},
             {"lse", STARPU_R},
             {"sides", STARPU_W},
             {"own rows", STARPU_R | SL_REPEATED},
             {"packed rows", STARPU_R | SL_REPEATED},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_attend_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"gz", STARPU_R | SL_REPEATED},
             {"sides", STARPU_R | SL_REPEATED},
             {"gu", STARPU_W | SL_OR_RW | SL_REPEATED},
             {"u", STARPU_R | SL_REPEATED},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation accumulate_op = {
    SL_OPERATION(accumulate_op, "sl_attend_accumulate", SL_STAGE_BACKWARD),
    .cpu = accumulate_cpu_task,
    SL_CUDA_FUNC(accumulate_cuda_task),
    .role = {{"back offsets", STARPU_R},
             {"back rows", STARPU_R},
             {"own inverse", STARPU_R},
             {"gu", STARPU_W},
             {"u", STARPU_R},
             {"gz", STARPU_R | SL_REPEATED},
             {"sides", STARPU_R | SL_REPEATED},
             {"packed gradients", STARPU_R | SL_REPEATED},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation full_op = {
    SL_OPERATION(full_op, "sl_attend_full", SL_STAGE_AGGREGATE),
    .cpu = full_cpu_task,
    SL_CUDA_FUNC(full_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"first", STARPU_R},
             {"z", STARPU_W | SL_OR_RW},
             {"rows", STARPU_R | SL_REPEATED},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

/* Find out H, K and R. n_columns: of rows of U; width: H; n_scores: RK, of lse. */
static enum sl_status find_heads(const char *name, uint32_t n_columns, uint32_t width, uint32_t n_scores,
                                 bool by_relation, struct sl_heads *out)
{
    uint32_t n_slabs = 1;
    if (by_relation && width > 0 && n_columns > 2 * n_scores + width) {
        n_slabs = (n_columns - 2 * n_scores) / width;
    }
    const uint32_t n_heads = n_scores / n_slabs;
    *out = (struct sl_heads){width, n_heads, by_relation ? n_slabs : 0};
    if (n_heads >= 1 && n_heads <= SL_MAX_HEADS && width >= n_heads && width % n_heads == 0 &&
        n_scores == sl_heads_scores(*out) && n_columns == sl_heads_row(*out)) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "%s: rows of width %u for width %u and %u heads (at most %d, which divide it)", name,
                   n_columns, width, n_scores, SL_MAX_HEADS);
}

/* Whether rows row0 .. row0 + n_rows - 1 are in one chunk. */
static enum sl_status check_chunk(const char *name, const struct sl_split *split, uint32_t row0, uint32_t n_rows)
{
    uint64_t end = (uint64_t)row0 + n_rows;
    if (end <= split->n_rows && (n_rows == 0 || row0 >> split->shift == (end - 1) >> split->shift)) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "%s: rows %u to %llu of %u, in chunks of %u", name, row0, (unsigned long long)end,
                   split->n_rows, 1u << split->shift);
}

/* The checks and arguments that forward and sides share. The matrices of the destinations are
 * [n_rows x H] and [n_rows x RK]. */
static enum sl_status fill_forward(const char *name, const struct sl_block *block, struct forward_args *args,
                                   const struct sl_source_handles *sources, starpu_data_handle_t z,
                                   starpu_data_handle_t lse)
{
    uint32_t n_rows = sl_handle_rows(z);
    SL_CHECK(sl_source_args_fill(name, sources, &args->sources));
    SL_CHECK(find_heads(name, sources->rows->n_columns, sl_handle_columns(z), sl_handle_columns(lse),
                        block->edge_relations != NULL, &args->shape.heads));
    SL_CHECK(check_chunk(name, &sources->rows->split, args->row0, n_rows));
    SL_FAIL_IF(sl_handle_rows(lse) != n_rows, SL_EINVAL, "%s: %u destinations, lse of %u", name, n_rows,
               sl_handle_rows(lse));
    return SL_OK;
}

/* Append the sources' buffers and the edges' values, and submit. role: the role of the own rows; those of packed rows
 * and of values follow. */
static enum sl_status submit_forward(struct sl_task *task, unsigned role, struct forward_args *args,
                                     const struct sl_source_handles *sources, const struct sl_block *block)
{
    sl_source_args_add(task, role, sources, &args->sources);
    add_values(task, role + 2, block->edge_relations, block->edge_weights, &args->shape);
    size_t bytes = offsetof(struct forward_args, sources.packed) + sources->n_owners * sizeof *args->sources.packed;
    return sl_task_submit(task, args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources, int beta,
                                        starpu_data_handle_t z, starpu_data_handle_t lse)
{
    struct forward_args args = {.head = *head, .row0 = row0, .beta = beta};
    struct sl_task task;
    SL_CHECK(fill_forward("sl_attend_forward", block, &args, sources, z, lse));
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(z), sources->rows->n_columns);
    sl_task_begin(&task, &forward_op);
    sl_task_add(&task, EDGE_OFFSETS, block->edge_offsets, STARPU_R);
    sl_task_add(&task, EDGE_SOURCES, block->edge_sources, STARPU_R);
    sl_task_add(&task, INVERSE, sources->inverse, STARPU_R);
    sl_task_add(&task, FORWARD_Z, z, beta ? STARPU_RW : STARPU_W);
    sl_task_add(&task, FORWARD_LSE, lse, STARPU_W);
    return submit_forward(&task, FORWARD_ROWS, &args, sources, block);
}

enum sl_status sl_attend_sides_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                      uint64_t n_edges, const struct sl_source_handles *sources,
                                      starpu_data_handle_t gz, starpu_data_handle_t lse, starpu_data_handle_t sides)
{
    struct forward_args args = {.head = *head, .row0 = row0};
    struct sl_task task;
    SL_CHECK(fill_forward("sl_attend_sides", block, &args, sources, gz, lse));
    if (sl_handle_rows(sides) != sl_handle_rows(gz) || sl_handle_columns(sides) != 4 * sl_handle_columns(lse)) {
        return sl_fail(SL_EINVAL, "sl_attend_sides: %u destinations of %u heads, sides [%u x %u]", sl_handle_rows(gz),
                       sl_handle_columns(lse), sl_handle_rows(sides), sl_handle_columns(sides));
    }
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(gz), sources->rows->n_columns);
    sl_task_begin(&task, &sides_op);
    sl_task_add(&task, EDGE_OFFSETS, block->edge_offsets, STARPU_R);
    sl_task_add(&task, EDGE_SOURCES, block->edge_sources, STARPU_R);
    sl_task_add(&task, INVERSE, sources->inverse, STARPU_R);
    sl_task_add(&task, SIDES_GZ, gz, STARPU_R);
    sl_task_add(&task, SIDES_LSE, lse, STARPU_R);
    sl_task_add(&task, SIDES, sides, STARPU_W);
    return submit_forward(&task, SIDES_ROWS, &args, sources, block);
}

/* Whether gz and sides have the same rows and fit rows of U of this width; and H, K and R. */
static enum sl_status check_gradients(const char *name, const struct sl_block *block,
                                      const struct sl_attend_gradients *gradients, uint32_t n_columns,
                                      struct sl_heads *heads_out)
{
    const struct sl_split *gz = &gradients->gz->split;
    const struct sl_split *sides = &gradients->sides->split;
    if (gz->n_rows != sides->n_rows || gz->n_chunks != sides->n_chunks || gz->shift != sides->shift ||
        gz->n_chunks > SL_MAX_CHUNKS || gradients->sides->n_columns % 4 != 0) {
        return sl_fail(
            SL_EINVAL, "%s: gradients of %u rows in %u chunks (at most %d), sides of %u rows in %u chunks of width %u",
            name, gz->n_rows, gz->n_chunks, SL_MAX_CHUNKS, sides->n_rows, sides->n_chunks, gradients->sides->n_columns);
    }
    return find_heads(name, n_columns, gradients->gz->n_columns, gradients->sides->n_columns / 4,
                      block->back_relations != NULL, heads_out);
}

/* Whether all u and gu have one shape that fits the gradients. n_rows_out: rows of all owners together. */
static enum sl_status check_owners(const struct sl_block *block, const struct sl_attend_gradients *gradients,
                                   uint32_t n_owners, const struct sl_slice *u, const struct sl_slice *gu,
                                   struct sl_heads *heads_out, uint32_t *n_rows_out)
{
    const char *name = "sl_attend_backward";
    uint32_t n_rows = 0;
    SL_FAIL_IF(n_owners > SL_MAX_GROUP, SL_EINVAL, "%s: %u owners (at most %d)", name, n_owners, SL_MAX_GROUP);
    for (uint32_t q = 0; q < n_owners; q++) {
        SL_CHECK(check_gradients(name, block, gradients, sl_handle_columns(gu[q].handle), heads_out));
        uint32_t n_columns = sl_handle_columns(u[q].handle);
        SL_FAIL_IF(n_columns != sl_handle_columns(gu[q].handle) || u[q].n_rows != gu[q].n_rows, SL_EINVAL,
                   "%s: gradients [%u x %u] of rows [%u x %u]", name, gu[q].n_rows, sl_handle_columns(gu[q].handle),
                   u[q].n_rows, n_columns);
        SL_FAIL_IF(sl_handle_dtype(u[q].handle) != sl_handle_dtype(gu[q].handle), SL_EINVAL,
                   "%s: gradients of numbers of %zu bytes, rows of %zu; expected one precision", name,
                   sl_handle_element(gu[q].handle), sl_handle_element(u[q].handle));
        n_rows += gu[q].n_rows;
    }
    *n_rows_out = n_rows;
    return SL_OK;
}

enum sl_status sl_attend_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_attend_gradients *gradients, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *u,
                                         const struct sl_slice *gu)
{
    struct backward_args args = {.head = *head, .n_owners = n_owners};
    struct sl_task task;
    uint32_t n_rows = 0;
    SL_CHECK(check_owners(block, gradients, n_owners, u, gu, &args.shape.heads, &n_rows));
    args.n_chunks = gradients->gz->split.n_chunks;
    args.shift = gradients->gz->split.shift;
    args.head.work = sl_sum_bytes(n_edges, n_rows, gradients->gz->n_columns + gradients->sides->n_columns);
    sl_task_begin(&task, &backward_op);
    sl_task_add(&task, BACK_OFFSETS, block->back_offsets, STARPU_R);
    sl_task_add(&task, BACK_ROWS, block->back_rows, STARPU_R);
    sl_task_add_each(&task, BACK_GZ, gradients->gz->split.n_chunks, gradients->gz->chunk, STARPU_R);
    sl_task_add_each(&task, BACK_SIDES, gradients->sides->split.n_chunks, gradients->sides->chunk, STARPU_R);
    for (uint32_t q = 0; q < n_owners; q++) {
        args.returned[q].t0 = t0[q];
        args.returned[q].gu = sl_task_add_slice(&task, BACK_GU, &gu[q], STARPU_W);
    }
    for (uint32_t q = 0; q < n_owners; q++) {
        args.returned[q].u = sl_task_add_slice(&task, BACK_U, &u[q], STARPU_R);
    }
    add_values(&task, BACK_RELATIONS, block->back_relations, block->back_weights, &args.shape);
    size_t bytes = offsetof(struct backward_args, returned) + n_owners * sizeof *args.returned;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_SEND);
}

enum sl_status sl_attend_accumulate_submit(const struct sl_task_args *head, const struct sl_attend_shares *shares,
                                           uint32_t row0, starpu_data_handle_t u, starpu_data_handle_t gu)
{
    const struct sl_block *block = shares->block;
    const struct sl_rows *gz = shares->gradients.gz;
    struct accumulate_args args = {.head = *head};
    struct sl_task task;
    uint32_t n_columns = sl_handle_columns(gu);
    enum sl_status st =
        check_gradients("sl_attend_accumulate", block, &shares->gradients, n_columns, &args.shape.heads);
    if (st != SL_OK) {
        return st;
    }
    if (sl_handle_rows(u) != sl_handle_rows(gu) || sl_handle_columns(u) != n_columns ||
        shares->from.n_peers > SL_MAX_GROUP) {
        return sl_fail(SL_EINVAL, "sl_attend_accumulate: gradients [%u x %u] of rows [%u x %u], %u peers",
                       sl_handle_rows(gu), n_columns, sl_handle_rows(u), sl_handle_columns(u), shares->from.n_peers);
    }
    sl_share_args_fill(row0, &gz->split, &shares->from, &args.shares);
    sl_task_begin(&task, &accumulate_op);
    sl_task_add(&task, BACK_OFFSETS, block->back_offsets, STARPU_R);
    sl_task_add(&task, BACK_ROWS, block->back_rows, STARPU_R);
    sl_task_add(&task, SUM_INVERSE, block->inverse, STARPU_R);
    sl_task_add(&task, SUM_GU, gu, STARPU_W);
    sl_task_add(&task, SUM_U, u, STARPU_R);
    sl_task_add_each(&task, SUM_GZ, gz->split.n_chunks, gz->chunk, STARPU_R);
    sl_task_add_each(&task, SUM_SIDES, shares->gradients.sides->split.n_chunks, shares->gradients.sides->chunk,
                     STARPU_R);
    uint64_t n_terms = sl_share_args_add(&task, SUM_SENT, &shares->from, &args.shares);
    add_values(&task, SUM_RELATIONS, block->back_relations, block->back_weights, &args.shape);
    args.head.work = sl_sum_bytes(n_terms, sl_handle_rows(gu), n_columns);
    size_t bytes = offsetof(struct accumulate_args, shares.sent) + shares->from.n_peers * sizeof *args.shares.sent;
    return sl_task_submit(&task, &args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_attend_full_submit(const struct sl_task_args *head, const struct sl_attend_part *part, uint32_t row0,
                                     uint64_t n_edges, uint32_t n_scores, const struct sl_rows *rows, int beta,
                                     starpu_data_handle_t z)
{
    const char *name = "sl_attend_full";
    struct full_args args = {.head = *head, .row0 = row0, .part = part->part, .beta = beta};
    struct sl_task task;
    SL_FAIL_IF(part->part >= part->n_parts, SL_EINVAL, "%s: part %u of %u", name, part->part, part->n_parts);
    SL_CHECK(sl_part_args_fill(name, part->n_parts, rows, NULL, &args.parts));
    SL_CHECK(find_heads(name, rows[part->part].n_columns, sl_handle_columns(z), n_scores, part->relations != NULL,
                        &args.shape.heads));
    SL_CHECK(check_chunk(name, &rows[part->part].split, row0, sl_handle_rows(z)));
    sl_task_begin(&task, &full_op);
    sl_task_add(&task, FULL_OFFSETS, part->offsets, STARPU_R);
    sl_task_add(&task, FULL_SOURCES, part->sources, STARPU_R);
    sl_task_add(&task, FULL_FIRST, part->first, STARPU_R);
    sl_task_add(&task, FULL_Z, z, beta ? STARPU_RW : STARPU_W);
    sl_part_args_add(&task, FULL_ROWS, part->n_parts, rows);
    add_values(&task, FULL_RELATIONS, part->relations, part->weights, &args.shape);
    args.head.work = sl_sum_bytes(n_edges, sl_handle_rows(z), rows[part->part].n_columns);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}
