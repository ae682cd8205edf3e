/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention over blocks, and its adjoint, on a CPU. A destination's list is walked three times: for the
 * largest score, for the sum of exponentials, and for the rows. Rows are prefetched well before the first walk reaches
 * them. With relations, a destination has a list for each. */
#include "codelets/sums/attend.h"

#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sums/lanes.h"
#include "codelets/sums/walk.h"
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

/* The weights of an edge. */
struct edge {
    const float *w; /* outside the softmax. NULL: 1 */
    sl_real share;  /* inside, and its logarithm */
    sl_real bonus;
};

static const struct edge plain_edge = {NULL, 1, 0};

SL_INLINE struct edge edge_at(const float *weights, const float *shares, uint64_t e)
{
    struct edge edge = plain_edge;
    edge.w = weights == NULL ? NULL : weights + e;
    if (shares != NULL) {
        edge.share = (sl_real)shares[e];
        edge.bonus = sl_attend_bonus(shares, e);
    }
    return edge;
}

SL_INLINE void weigh(uint32_t n_heads, const sl_real *restrict el, const sl_real *restrict er, sl_real bonus,
                     const sl_real *restrict lse, sl_real *restrict weight)
{
    for (uint32_t k = 0; k < n_heads; k++) {
        weight[k] = sl_attend_weight(er[k] + el[k], bonus, lse[k]);
    }
}

/* A term: the slab of a source, and what its edge brings. features NULL: none. v: of the relation. gs: of the
 * destination and the relation; NULL: the message has no features. */
struct term {
    const void *row;
    struct edge edge;
    const struct sl_edge_scores *scores;
    const sl_real *features, *v, *gs;
};

/* The term of edge e, by relation r. */
SL_INLINE struct term term_of(struct sl_heads heads, const void *row, struct edge edge,
                              const struct sl_edge_scores *scores, uint32_t r, uint64_t e)
{
    struct term term = {row, edge, scores, NULL, NULL, NULL};
    if (scores != NULL) {
        term.features = scores->table + (size_t)scores->rows[e] * scores->n_columns;
        term.v = scores->v + (size_t)r * heads.n_heads * scores->n_columns;
    }
    return term;
}

/* The same of a destination itself. */
SL_INLINE struct term own_term(const void *row)
{
    return (struct term){row, plain_edge, NULL, NULL, NULL, NULL};
}

/* el of a term's row, and the score of its edge. */
SL_INLINE const sl_real *scores_of(enum sl_dtype dtype, struct sl_heads heads, const struct term *term,
                                   sl_real room[SL_MAX_HEADS])
{
    const sl_real *el = el_of(dtype, heads, term->row, room);
    if (term->features == NULL) {
        return el;
    }
    const uint32_t n = term->scores->n_columns;
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        room[k] = el[k] + sl_row_dot(n, term->v + (size_t)k * n, term->features);
    }
    return room;
}

/* The weights of all heads times the weight of the term's edge. */
SL_INLINE void weigh_edge(uint32_t n_heads, const struct term *term, sl_real *weight)
{
    for (uint32_t k = 0; term->edge.w != NULL && k < n_heads; k++) {
        weight[k] *= (sl_real)*term->edge.w;
    }
}

/* da of a head: the product of gz and the message, times the weight of its edge. */
SL_INLINE sl_real da_of(enum sl_dtype dtype, uint32_t width, uint32_t k, const sl_real *gz, const struct term *term)
{
    const sl_real w = term->edge.w == NULL ? 1 : (sl_real)*term->edge.w;
    sl_real da = sl_dot(dtype, width, gz + k * width, term->row, k * width);
    if (term->gs != NULL) {
        const uint32_t n = term->scores->n_columns;
        da += sl_row_dot(n, term->gs + (size_t)k * n, term->features);
    }
    return w * da;
}

/* ---- kernels, CPU: by destination ---- */

#define KEPT 64 /* edges of a list whose rows are looked up once */

/* Row i of consecutive rows of U. */
SL_INLINE const void *row_of(enum sl_dtype dtype, const void *u, uint32_t i, uint32_t n_columns)
{
    return (const char *)u + sl_dtype_bytes(dtype, (size_t)i * n_columns);
}

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
    uint32_t destination, relation;
    const void *self; /* the destination's slab */
    const void *kept[KEPT];
};

/* Entries of S, or of GS, of a list. */
SL_INLINE size_t features_at(const struct attended *rows, const struct list *list)
{
    return ((size_t)list->destination * sl_heads_slabs(rows->heads) + list->relation) * rows->heads.n_heads *
           rows->edges.scores->n_columns;
}

/* S of a list, cleared. NULL: messages have no features. */
SL_INLINE sl_real *clear_features(const struct attended *rows, const struct list *list)
{
    const struct sl_edge_scores *scores = rows->edges.scores;
    if (scores == NULL || scores->s == NULL) {
        return NULL;
    }
    return memset(scores->s + features_at(rows, list), 0,
                  (size_t)rows->heads.n_heads * scores->n_columns * sizeof *scores->s);
}

/* The list of relation r, of destination d: it begins with edge `begin`. Without relations: all edges. */
SL_INLINE void take_list(enum sl_dtype dtype, const struct attended *rows, uint32_t d, uint32_t r, uint64_t begin,
                         uint64_t end, struct list *list)
{
    const void *own = row_of(dtype, rows->self, d, sl_heads_row(rows->heads));
    list->destination = d;
    list->relation = r;
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

/* The term of an edge after `meet`. row NULL: the destination's own, which has a term already. */
SL_INLINE struct term edge_term(enum sl_dtype dtype, const struct walk *walk, const struct list *list, uint64_t e)
{
    const struct sl_edges *edges = &walk->rows->edges;
    const void *row = e - list->first < KEPT ? list->kept[e - list->first] : source_row(dtype, walk->rows, e);
    struct term term = term_of(walk->rows->heads, row == list->self && walk->rows->heads.n_relations == 0 ? NULL : row,
                               edge_at(edges->edge_weights, edges->shares, e), edges->scores, list->relation, e);
    if (edges->scores != NULL && edges->scores->gs != NULL) {
        term.gs = edges->scores->gs + features_at(walk->rows, list);
    }
    return term;
}

/* First walk over a list that is not empty. top: the largest el of each head, with the score of its edge. */
SL_INLINE void meet(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *restrict top)
{
    const struct sl_heads heads = walk->rows->heads;
    const struct sl_edge_scores *scores = walk->rows->edges.scores;
    struct term term = own_term(list->self);
    sl_real room[SL_MAX_HEADS];
    if (heads.n_relations > 0) {
        const void *first = source_row(dtype, walk->rows, list->first);
        term = term_of(heads, first, plain_edge, scores, list->relation, list->first);
    }
    memcpy(top, scores_of(dtype, heads, &term, room), heads.n_heads * sizeof *top);
    for (uint64_t e = list->first; e < list->end; e++) {
        const uint64_t ahead = sl_min_u64(walk->n, e + SL_ROWS_AHEAD);
        for (; walk->known < ahead; walk->known++) {
            sl_row_fetch(source_row(dtype, walk->rows, walk->known), sl_dtype_bytes(dtype, sl_heads_slab(heads)));
        }
        const void *row = source_row(dtype, walk->rows, e);
        term = term_of(heads, row, plain_edge, scores, list->relation, e);
        const sl_real *restrict el = scores_of(dtype, heads, &term, room);
        if (e - list->first < KEPT) {
            list->kept[e - list->first] = row;
        }
        for (uint32_t k = 0; k < heads.n_heads; k++) {
            top[k] = el[k] > top[k] ? el[k] : top[k];
        }
    }
}

SL_INLINE void add_exponentials(uint32_t n_heads, const sl_real *restrict el, const sl_real *restrict er, sl_real share,
                                const sl_real *restrict top, sl_real *restrict sum)
{
    for (uint32_t k = 0; k < n_heads; k++) {
        sum[k] += share * sl_exp_nonpositive(sl_attend_score(er[k] + el[k]) - top[k]);
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
        add_exponentials(heads.n_heads, el_of(dtype, heads, list->self, room[0]), er, 1, top, sum);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const struct term term = edge_term(dtype, walk, list, e);
        if (term.row != NULL) {
            add_exponentials(heads.n_heads, scores_of(dtype, heads, &term, room[0]), er, term.edge.share, top, sum);
        }
    }
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        lse[k] = (sl_real)((double)top[k] + sl_ln((double)sum[k]));
    }
}

/* z += the row of a term, weighted; s, unless it is NULL, += its features likewise. */
SL_INLINE void add_row(enum sl_dtype dtype, struct sl_heads heads, const struct term *term, const sl_real *er,
                       const sl_real *lse, struct batch *batch, sl_real *z, sl_real *s)
{
    sl_real room[SL_MAX_HEADS];
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, scores_of(dtype, heads, term, room), er, term->edge.bonus, lse, weight);
    weigh_edge(heads.n_heads, term, weight);
    add_to_batch(dtype, batch, heads, term->row, weight, z);
    for (uint32_t k = 0; s != NULL && k < heads.n_heads; k++) {
        const uint32_t n = term->scores->n_columns;
        sl_add_row(SL_DTYPE_REAL, n, s + (size_t)k * n, term->features, 0, weight[k]);
    }
}

/* lse of a list, its features in S, and z += its rows. */
SL_INLINE void attend_list(enum sl_dtype dtype, struct walk *walk, struct list *list, sl_real *z, sl_real *lse)
{
    const struct sl_heads heads = walk->rows->heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *er = er_of(dtype, heads, list->self, room);
    struct batch batch;
    sl_real *s = clear_features(walk->rows, list);
    batch.n = 0;
    if (is_empty(heads, list)) {
        memset(lse, 0, heads.n_heads * sizeof *lse);
        return;
    }
    sum_scores(dtype, walk, list, lse);
    if (heads.n_relations == 0) {
        const struct term own = own_term(list->self);
        add_row(dtype, heads, &own, er, lse, &batch, z, NULL);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const struct term term = edge_term(dtype, walk, list, e);
        if (term.row != NULL) {
            add_row(dtype, heads, &term, er, lse, &batch, z, s);
        }
    }
    add_batch(dtype, &batch, heads, z);
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
        uint64_t e = bound_of(rows, d);
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++, lse_out += heads.n_heads) {
            take_list(dtype, rows, d, r, e, bound_of(rows, d + 1), &list);
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

/* Columns of one head: the sum of the exponentials, and the rows, or the features, weighted by them and by the
 * edges. */
struct tile {
    uint32_t head, first, n_columns;
    bool of_features;
    sl_real er, top;
    double sum;
    double row[TILE];
};

SL_INLINE void add_to_tile(enum sl_dtype dtype, struct sl_heads heads, const struct term *term, struct tile *tile)
{
    sl_real room[SL_MAX_HEADS];
    sl_real el = el_of(dtype, heads, term->row, room)[tile->head];
    if (term->features != NULL) {
        const uint32_t n = term->scores->n_columns;
        el += sl_row_dot(n, term->v + (size_t)tile->head * n, term->features);
    }
    const double weight = (double)sl_exp_nonpositive(sl_attend_score(tile->er + el) - tile->top);
    const double factor = term->edge.w == NULL ? weight : weight * (double)*term->edge.w;
    tile->sum += weight;
    for (uint32_t c = 0; !tile->of_features && c < tile->n_columns; c++) {
        tile->row[c] += factor * (double)sl_entry(dtype, term->row, tile->first + c);
    }
    for (uint32_t c = 0; tile->of_features && term->features != NULL && c < tile->n_columns; c++) {
        tile->row[c] += factor * (double)term->features[tile->first + c];
    }
}

/* out += a tile of the list. */
SL_INLINE void attend_tile(enum sl_dtype dtype, const struct walk *walk, const struct list *list, struct tile *tile,
                           sl_real *out)
{
    const struct sl_heads heads = walk->rows->heads;
    tile->sum = 0;
    memset(tile->row, 0, sizeof tile->row);
    if (heads.n_relations == 0) {
        const struct term own = own_term(list->self);
        add_to_tile(dtype, heads, &own, tile);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const struct term term = edge_term(dtype, walk, list, e);
        if (term.row != NULL) {
            add_to_tile(dtype, heads, &term, tile);
        }
    }
    for (uint32_t c = 0; c < tile->n_columns; c++) {
        out[tile->first + c] += (sl_real)(tile->row[c] / tile->sum);
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
    sl_real *s = clear_features(walk->rows, list);
    const uint32_t n_features = s != NULL ? walk->rows->edges.scores->n_columns : 0;
    if (is_empty(heads, list)) {
        return;
    }
    meet(dtype, walk, list, top);
    for (tile.head = 0; tile.head < heads.n_heads; tile.head++) {
        tile.er = er[tile.head];
        tile.top = sl_attend_score(tile.er + top[tile.head]);
        for (uint32_t c = 0; c < width + n_features; c += tile.n_columns) { /* of the row, then of the features */
            sl_real *out = z;
            tile.of_features = c >= width;
            tile.first = tile.head * width + c;
            tile.n_columns = sl_min_u32(width - c, TILE);
            if (tile.of_features) {
                out = s + (size_t)tile.head * n_features;
                tile.first = c - width;
                tile.n_columns = sl_min_u32(width + n_features - c, TILE);
            }
            attend_tile(dtype, walk, list, &tile, out);
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
        uint64_t e = bound_of(rows, d);
        for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
            take_list(dtype, rows, d, r, e, bound_of(rows, d + 1), &list);
            evaluate_list(dtype, &walk, &list, z_out + (size_t)d * heads.n_columns);
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

SL_INLINE void add_side(enum sl_dtype dtype, struct sl_heads heads, const struct term *term, const sl_real *er,
                        const sl_real *lse, const sl_real *gz, struct side *sum)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = scores_of(dtype, heads, term, room);
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el, er, term->edge.bonus, lse, weight);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        sl_real da = da_of(dtype, width, k, gz, term);
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
        const struct term own = own_term(list->self);
        add_side(dtype, heads, &own, er, lse, gz, &sum);
    }
    for (uint64_t e = list->first; e < list->end; e++) {
        const struct term term = edge_term(dtype, walk, list, e);
        if (term.row != NULL) {
            add_side(dtype, heads, &term, er, lse, gz, &sum);
        }
    }
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        out[k] = er[k];
        out[heads.n_heads + k] = lse[k];
        out[2 * heads.n_heads + k] = sum.c[k];
        out[3 * heads.n_heads + k] = sum.both[k] - sum.c[k] * sum.slope[k];
    }
}

/* gv += gx f^T of a term with features. side: er, lse and c of its destination. */
SL_INLINE void add_features(enum sl_dtype dtype, struct sl_heads heads, const struct term *term, const sl_real *side,
                            const sl_real *gz, sl_real *gv)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    const uint32_t n = term->scores->n_columns;
    const sl_real *lse = side + heads.n_heads;
    const sl_real *c = lse + heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = scores_of(dtype, heads, term, room);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        const sl_real x = side[k] + el[k];
        const sl_real a = sl_attend_weight(x, term->edge.bonus, lse[k]);
        const sl_real gx = a * (da_of(dtype, width, k, gz, term) - c[k]) * sl_attend_slope(x);
        sl_add_row(SL_DTYPE_REAL, n, gv + (size_t)k * n, term->features, 0, gx);
    }
}

/* gv of one list, after its sides. */
SL_INLINE void see_features(enum sl_dtype dtype, const struct walk *walk, const struct list *list, const sl_real *gz,
                            const sl_real *side, sl_real *gv)
{
    const struct sl_heads heads = walk->rows->heads;
    memset(gv, 0, (size_t)heads.n_heads * walk->rows->edges.scores->n_columns * sizeof *gv);
    for (uint64_t e = list->first; e < list->end; e++) {
        const struct term term = edge_term(dtype, walk, list, e);
        if (term.row != NULL) {
            add_features(dtype, heads, &term, side, gz, gv);
        }
    }
}

SL_INLINE void see_sides(enum sl_dtype dtype, const struct attended *rows, const sl_real *gz, const sl_real *lse,
                         sl_real *sides_out, sl_real *gv_out)
{
    const struct sl_heads heads = rows->heads;
    struct walk walk = walk_of(rows);
    struct list list;
    sl_real top[SL_MAX_HEADS];
    uint64_t e = walk.known;
    for (uint32_t i = 0; i < rows->edges.n_rows * sl_heads_slabs(heads); i++) {
        const uint32_t d = i / sl_heads_slabs(heads);
        take_list(dtype, rows, d, i % sl_heads_slabs(heads), e, bound_of(rows, d + 1), &list);
        e = list.end;
        if (!is_empty(heads, &list)) {
            meet(dtype, &walk, &list, top);
        }
        sl_real *side = sides_out + (size_t)i * 4 * heads.n_heads;
        see_side(dtype, &walk, &list, gz + (size_t)d * heads.n_columns, lse + (size_t)i * heads.n_heads, side);
        if (rows->edges.scores != NULL) {
            see_features(dtype, &walk, &list, gz + (size_t)d * heads.n_columns, side,
                         gv_out + (size_t)i * heads.n_heads * rows->edges.scores->n_columns);
        }
    }
}

SL_CLONES void sl_attend_sides_cpu(struct sl_heads heads, const struct sl_edges *edges, const sl_real *gz,
                                   const sl_real *lse, sl_real *sides_out, sl_real *gv_out)
{
    struct sl_source_rows x;
    const struct attended rows = sl_attended(heads, edges, &x);
    SL_BY_DTYPE(rows.dtype, see_sides, &rows, gz, lse, sides_out, gv_out);
}

/* ---- kernels, CPU: by source ---- */

/* Slab r of the sides of a destination. */
SL_INLINE const sl_real *side_row(const struct sl_attend_back *block, uint32_t d, uint32_t r)
{
    return sl_chunks_row(block->sides, d, 4 * sl_heads_scores(block->heads)) + (size_t)r * 4 * block->heads.n_heads;
}

/* GS of destination d and relation r. NULL: messages have no features. */
SL_INLINE const sl_real *gs_row(const struct sl_attend_back *block, uint32_t d, uint32_t r)
{
    const uint32_t n = block->heads.n_heads * block->scores.n_columns;
    if (block->gs == NULL) {
        return NULL;
    }
    return sl_chunks_row(block->gs, d, sl_heads_slabs(block->heads) * n) + (size_t)r * n;
}

/* The features in scores. NULL: none. */
SL_INLINE const struct sl_edge_scores *back_scores(const struct sl_attend_back *block)
{
    return block->scores.v == NULL ? NULL : &block->scores;
}

/* gu += the gradient that a source, whose row is the term's, gets from destination d by relation r. gu: its slab. */
SL_INLINE void add_back_term(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t d, uint32_t r,
                             const struct term *term, struct batch *batch, sl_real *gu)
{
    const struct sl_heads heads = block->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const sl_real *gz = sl_chunks_row(block->gz, d, heads.n_columns);
    const sl_real *er = side_row(block, d, r);
    const sl_real *lse = er + heads.n_heads;
    const sl_real *c = lse + heads.n_heads;
    sl_real room[SL_MAX_HEADS];
    const sl_real *el = scores_of(dtype, heads, term, room);
    sl_real *gel = gu + heads.n_columns;
    sl_real weight[SL_MAX_HEADS];
    weigh(heads.n_heads, el, er, term->edge.bonus, lse, weight);
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        sl_real da = da_of(dtype, width, k, gz, term);
        gel[k] += weight[k] * (da - c[k]) * sl_attend_slope(er[k] + el[k]);
    }
    weigh_edge(heads.n_heads, term, weight);
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
            struct term term = term_of(block->heads, slab_of(dtype, block->heads, u, r),
                                       edge_at(block->weights, block->shares, e), back_scores(block), r, e);
            term.gs = gs_row(block, block->rows[e], r);
            add_back_term(dtype, block, block->rows[e], r, &term, &batch, gu + r * step);
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
            const struct term own = own_term(row_of(dtype, u, i, g->n_columns));
            add_back_term(dtype, block, g->row0 + i, 0, &own, &batch, gu);
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
