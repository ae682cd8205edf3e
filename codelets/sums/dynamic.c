/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dynamic attention over blocks, and its adjoint, on a CPU. The terms of a destination, rows and scores, are
 * listed once; the sums are walks over this list. */
#include "codelets/sums/dynamic.h"

#include <string.h>

#include "codelets/rows/rounded.h"
#include "codelets/sums/lanes.h"
#include "codelets/sums/walk.h"
#include "support/ln.h"
#include "support/memory.h"
#include "support/minmax.h"

/* ---- kernels, CPU: one term ---- */

/* e of a head, from n columns of a, of r, and of u from u0 on. */
SL_INLINE sl_real score(enum sl_dtype dtype, uint32_t n, const sl_real *a, const sl_real *r, const void *u, uint32_t u0)
{
    sl_real SL_VECTOR lane = {0};
    sl_real SL_VECTOR weight;
    sl_real SL_VECTOR x;
    sl_real SL_VECTOR y;
    uint32_t c = 0;
    for (; c + SL_LANES <= n; c += SL_LANES) {
        sl_take_lanes(SL_DTYPE_REAL, a, c, &weight);
        sl_take_lanes(SL_DTYPE_REAL, r, c, &x);
        sl_take_lanes(dtype, u, u0 + c, &y);
        x += y;
        for (uint32_t l = 0; l < SL_LANES; l++) {
            y[l] = sl_attend_score(x[l]);
        }
        lane += weight * y;
    }
    sl_real sum = sl_add_lanes(&lane);
    for (; c < n; c++) {
        sum += a[c] * sl_attend_score(r[c] + sl_entry(dtype, u, u0 + c));
    }
    return sum;
}

/* ---- kernels, CPU: by destination ---- */

/* The terms of one destination: n rows of U, the own row first, and a number of each term and head. */
struct terms {
    uint32_t n;
    const void **row;
    sl_real *share; /* e, then exp(e - top) or a */
    sl_real *back;  /* da, then ge; NULL in forward */
};

/* A walk over the destinations. */
struct walk {
    const struct sl_dynamic *to;
    struct sl_source_rows x;
    const void *self;  /* the destinations' own rows, [n_rows x H], in the memory that x has for them */
    uint64_t n, known; /* edges in all, and edges prefetched so far */
    struct terms terms;
};

static enum sl_status begin_walk(const struct sl_dynamic *to, bool is_back, struct walk *walk, enum sl_dtype *dtype)
{
    const struct sl_edges *edges = to->edges;
    struct terms *terms = &walk->terms;
    uint64_t longest = 0;
    for (uint32_t i = 0; i < edges->n_rows; i++) {
        const uint32_t d = edges->row0 + i;
        longest = sl_max_u64(longest, sl_edges_first(edges, d + 1) - sl_edges_first(edges, d));
    }
    const size_t n_numbers = (longest + 1) * to->heads.n_heads;
    walk->to = to;
    *dtype = sl_edges_rows(edges, &walk->x);
    walk->self = sl_edges_own_row(edges, to->heads.n_columns);
    walk->known = sl_edges_first(edges, edges->row0);
    walk->n = sl_edges_first(edges, edges->row0 + edges->n_rows);
    *terms = (struct terms){0};
    SL_CHECK(sl_alloc(longest + 1, sizeof *terms->row, "rows of neighbours", &terms->row));
    SL_CHECK(sl_alloc(n_numbers, sizeof *terms->share, "scores of edges", &terms->share));
    return is_back ? sl_alloc(n_numbers, sizeof *terms->back, "gradients of edges", &terms->back) : SL_OK;
}

static void end_walk(struct walk *walk)
{
    sl_free(walk->terms.row);
    sl_free(walk->terms.share);
    sl_free(walk->terms.back);
}

/* The row of an edge's source. */
SL_INLINE const void *source_row(enum sl_dtype dtype, const struct walk *walk, uint64_t e)
{
    return sl_source_row(dtype, &walk->x, walk->to->edges->sources[e], walk->to->heads.n_columns);
}

/* List the rows of destination i, without the edges from itself, and their scores. */
SL_INLINE void take_terms(enum sl_dtype dtype, struct walk *walk, uint32_t i)
{
    const struct sl_heads heads = walk->to->heads;
    const struct sl_edges *edges = walk->to->edges;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const uint64_t end = sl_edges_first(edges, edges->row0 + i + 1);
    const sl_real *r = walk->to->r + (size_t)i * heads.n_columns;
    struct terms *terms = &walk->terms;
    terms->row[0] = (const char *)walk->self + sl_dtype_bytes(dtype, (size_t)i * heads.n_columns);
    terms->n = 1;
    for (uint64_t e = sl_edges_first(edges, edges->row0 + i); e < end; e++) {
        const uint64_t ahead = sl_min_u64(walk->n, e + SL_ROWS_AHEAD);
        for (; walk->known < ahead; walk->known++) {
            sl_row_fetch(source_row(dtype, walk, walk->known), sl_dtype_bytes(dtype, heads.n_columns));
        }
        terms->row[terms->n] = source_row(dtype, walk, e);
        terms->n += terms->row[terms->n] != terms->row[0];
    }
    for (uint32_t j = 0; j < terms->n; j++) {
        for (uint32_t k = 0; k < heads.n_heads; k++) {
            terms->share[j * heads.n_heads + k] =
                score(dtype, width, walk->to->a + k * width, r + k * width, terms->row[j], k * width);
        }
    }
}

/* The shares of head k become exp(e - the largest e). Returns lse; *sum: of these exponentials. */
SL_INLINE sl_real share_out(const struct terms *terms, uint32_t n_heads, uint32_t k, double *sum)
{
    sl_real top = terms->share[k];
    *sum = 0;
    for (uint32_t j = 1; j < terms->n; j++) {
        const sl_real e = terms->share[j * n_heads + k];
        top = e > top ? e : top;
    }
    for (uint32_t j = 0; j < terms->n; j++) {
        sl_real *share = &terms->share[j * n_heads + k];
        *share = sl_exp_nonpositive(*share - top);
        *sum += (double)*share;
    }
    return (sl_real)((double)top + sl_ln(*sum));
}

/* Columns that are summed at a time, in registers. */
#define TILE 16

/* z of n columns from `first` on, of head k, from the shares and their sum. n: TILE, or fewer at the end of a head. */
SL_INLINE void sum_tile(enum sl_dtype dtype, uint32_t n, uint32_t n_heads, const struct terms *terms, uint32_t k,
                        uint32_t first, double all, sl_real *z)
{
    double sum[TILE] = {0};
    for (uint32_t j = 0; j < terms->n; j++) {
        const double share = (double)terms->share[j * n_heads + k];
        for (uint32_t c = 0; c < n; c++) {
            sum[c] += share * (double)sl_entry(dtype, terms->row[j], first + c);
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        z[first + c] = (sl_real)(sum[c] / all);
    }
}

/* z of head k. */
SL_INLINE void sum_head(enum sl_dtype dtype, struct sl_heads heads, const struct terms *terms, uint32_t k, double all,
                        sl_real *z)
{
    const uint32_t end = (k + 1) * (heads.n_columns / heads.n_heads);
    uint32_t first = k * (heads.n_columns / heads.n_heads);
    for (; first + TILE <= end; first += TILE) {
        sum_tile(dtype, TILE, heads.n_heads, terms, k, first, all, z);
    }
    sum_tile(dtype, end - first, heads.n_heads, terms, k, first, all, z);
}

SL_INLINE void attend(enum sl_dtype dtype, struct walk *walk, sl_real *z_out, sl_real *lse_out)
{
    const struct sl_heads heads = walk->to->heads;
    for (uint32_t i = 0; i < walk->to->edges->n_rows; i++) {
        take_terms(dtype, walk, i);
        for (uint32_t k = 0; k < heads.n_heads; k++) {
            double all;
            const sl_real lse = share_out(&walk->terms, heads.n_heads, k, &all);
            sum_head(dtype, heads, &walk->terms, k, all, z_out + (size_t)i * heads.n_columns);
            if (lse_out != NULL) {
                lse_out[(size_t)i * heads.n_heads + k] = lse;
            }
        }
    }
}

SL_CLONES static void attend_all(enum sl_dtype dtype, struct walk *walk, sl_real *z_out, sl_real *lse_out)
{
    SL_BY_DTYPE(dtype, attend, walk, z_out, lse_out);
}

enum sl_status sl_dynamic_forward_cpu(const struct sl_dynamic *to, sl_real *z_out, sl_real *lse_out)
{
    struct walk walk;
    enum sl_dtype dtype;
    enum sl_status st = begin_walk(to, false, &walk, &dtype);
    if (st == SL_OK) {
        attend_all(dtype, &walk, z_out, lse_out);
    }
    end_walk(&walk);
    return st;
}

/* ge of head k, in place of da. Returns c. */
SL_INLINE sl_real share_back(enum sl_dtype dtype, struct sl_heads heads, const struct terms *terms, uint32_t k,
                             sl_real lse, const sl_real *gz)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    sl_real sum = 0;
    for (uint32_t j = 0; j < terms->n; j++) {
        const uint32_t at = j * heads.n_heads + k;
        terms->share[at] = sl_attend_share(terms->share[at], lse);
        terms->back[at] = sl_dot(dtype, width, gz + k * width, terms->row[j], k * width);
        sum += terms->share[at] * terms->back[at];
    }
    for (uint32_t j = 0; j < terms->n; j++) {
        const uint32_t at = j * heads.n_heads + k;
        terms->back[at] = terms->share[at] * (terms->back[at] - sum);
    }
    return sum;
}

/* gr and ga of n columns from `first` on, of head k. n: as in sum_tile. */
SL_INLINE void sum_tile_back(enum sl_dtype dtype, uint32_t n, const struct walk *walk, uint32_t k, uint32_t first,
                             const sl_real *r, sl_real *gr, sl_real *ga)
{
    const struct terms *terms = &walk->terms;
    const uint32_t n_heads = walk->to->heads.n_heads;
    sl_real sum[TILE] = {0};
    sl_real weighted[TILE] = {0};
    for (uint32_t j = 0; j < terms->n; j++) {
        const sl_real ge = terms->back[j * n_heads + k];
        for (uint32_t c = 0; c < n; c++) {
            const sl_real x = r[first + c] + sl_entry(dtype, terms->row[j], first + c);
            sum[c] += ge * sl_attend_slope(x);
            weighted[c] += ge * sl_attend_score(x);
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        gr[first + c] = sum[c] * walk->to->a[first + c];
        ga[first + c] = weighted[c];
    }
}

/* gr and ga of head k. */
SL_INLINE void sum_head_back(enum sl_dtype dtype, struct sl_heads heads, const struct walk *walk, uint32_t k,
                             const sl_real *r, sl_real *gr, sl_real *ga)
{
    const uint32_t end = (k + 1) * (heads.n_columns / heads.n_heads);
    uint32_t first = k * (heads.n_columns / heads.n_heads);
    for (; first + TILE <= end; first += TILE) {
        sum_tile_back(dtype, TILE, walk, k, first, r, gr, ga);
    }
    sum_tile_back(dtype, end - first, walk, k, first, r, gr, ga);
}

SL_INLINE void see_sides(enum sl_dtype dtype, struct walk *walk, const sl_real *gz, const sl_real *lse, sl_real *side,
                         sl_real *gr, sl_real *ga)
{
    const struct sl_heads heads = walk->to->heads;
    const sl_real *r = walk->to->r;
    for (uint32_t i = 0; i < walk->to->edges->n_rows; i++) {
        take_terms(dtype, walk, i);
        memcpy(side, r, heads.n_columns * sizeof *side);
        memcpy(side + heads.n_columns, lse, heads.n_heads * sizeof *side);
        for (uint32_t k = 0; k < heads.n_heads; k++) {
            side[heads.n_columns + heads.n_heads + k] = share_back(dtype, heads, &walk->terms, k, lse[k], gz);
            sum_head_back(dtype, heads, walk, k, r, gr, ga);
        }
        side += sl_attend_side(heads, true);
        lse += heads.n_heads;
        r += heads.n_columns;
        gz += heads.n_columns;
        gr += heads.n_columns;
        ga += heads.n_columns;
    }
}

SL_CLONES static void see_all_sides(enum sl_dtype dtype, struct walk *walk, const sl_real *gz, const sl_real *lse,
                                    sl_real *sides_out, sl_real *gr_out, sl_real *ga_out)
{
    SL_BY_DTYPE(dtype, see_sides, walk, gz, lse, sides_out, gr_out, ga_out);
}

enum sl_status sl_dynamic_sides_cpu(const struct sl_dynamic *to, const sl_real *gz, const sl_real *lse,
                                    sl_real *sides_out, sl_real *gr_out, sl_real *ga_out)
{
    struct walk walk;
    enum sl_dtype dtype;
    enum sl_status st = begin_walk(to, true, &walk, &dtype);
    if (st == SL_OK) {
        see_all_sides(dtype, &walk, gz, lse, sides_out, gr_out, ga_out);
    }
    end_walk(&walk);
    return st;
}

/* ---- kernels, CPU: by source ---- */

SL_INLINE const sl_real *side_row(const struct sl_attend_back *block, uint32_t d)
{
    return sl_chunks_row(block->sides, d, sl_attend_side(block->heads, true));
}

/* gu += the gradient that a source, with row u, gets from destination d. */
SL_INLINE void add_back_term(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t d, const void *u,
                             sl_real *restrict gu)
{
    const struct sl_heads heads = block->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const sl_real *restrict gz = sl_chunks_row(block->gz, d, heads.n_columns);
    const sl_real *restrict r = side_row(block, d);
    const sl_real *restrict a = block->a;
    const sl_real *lse = r + heads.n_columns;
    for (uint32_t k = 0; k < heads.n_heads; k++) {
        const uint32_t first = k * width;
        const sl_real share = sl_attend_share(score(dtype, width, a + first, r + first, u, first), lse[k]);
        const sl_real ge = share * (sl_dot(dtype, width, gz + first, u, first) - lse[heads.n_heads + k]);
        for (uint32_t c = first; c < first + width; c++) {
            gu[c] += share * gz[c] + ge * a[c] * sl_attend_slope(r[c] + sl_entry(dtype, u, c));
        }
    }
}

/* gu += terms bounds[0] .. bounds[1] - 1, except the term of destination `self`. n: terms that may be prefetched. */
SL_INLINE void add_back(enum sl_dtype dtype, const struct sl_attend_back *block, const uint32_t bounds[2], uint32_t n,
                        uint32_t self, const void *u, sl_real *gu)
{
    for (uint32_t e = bounds[0]; e < bounds[1]; e++) {
        if (n - e > SL_ROWS_AHEAD) {
            const uint32_t next = block->rows[e + SL_ROWS_AHEAD];
            sl_row_fetch(sl_chunks_row(block->gz, next, block->heads.n_columns),
                         block->heads.n_columns * sizeof(sl_real));
            sl_row_fetch(side_row(block, next), sl_attend_side(block->heads, true) * sizeof(sl_real));
        }
        if (block->rows[e] != self) {
            add_back_term(dtype, block, block->rows[e], u, gu);
        }
    }
}

/* Row i of consecutive rows of U. */
SL_INLINE const void *row_of(enum sl_dtype dtype, const struct sl_attend_back *block, const void *u, uint32_t i)
{
    return (const char *)u + sl_dtype_bytes(dtype, (size_t)i * block->heads.n_columns);
}

SL_INLINE void add_backs(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                         const void *u, sl_real *gu_out)
{
    const uint32_t *bounds = block->offsets + t0;
    const size_t n_columns = block->heads.n_columns;
    memset(gu_out, 0, n * n_columns * sizeof *gu_out);
    for (uint32_t i = 0; i < n; i++) {
        add_back(dtype, block, bounds + i, bounds[n], SL_NONE, row_of(dtype, block, u, i), gu_out + i * n_columns);
    }
}

SL_CLONES static void add_all_backs(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                                    const void *u, sl_real *gu_out)
{
    SL_BY_DTYPE(dtype, add_backs, block, n, t0, u, gu_out);
}

#define ROUNDED_ROWS 256 /* rows whose gradients are in float before they are rounded */

enum sl_status sl_dynamic_backward_cpu(const struct sl_attend_back *block, uint32_t n, uint32_t t0, enum sl_dtype dtype,
                                       const void *u, void *gu_out)
{
    enum sl_status st = SL_OK;
    struct sl_rounded slab =
        sl_rounded_begin("gradients before they are rounded", ROUNDED_ROWS, dtype, n, block->heads.n_columns, gu_out);
    while (sl_rounded_next(&slab, &st)) {
        add_all_backs(dtype, block, slab.n, t0 + slab.first, row_of(dtype, block, u, slab.first), slab.room);
    }
    return st;
}

SL_INLINE void add_selves(enum sl_dtype dtype, const struct sl_attend_back *block, const void *u,
                          const struct sl_gradient *g, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        add_back_term(dtype, block, g->row0 + i, row_of(dtype, block, u, i), sl_gradient_row(g, i));
    }
}

SL_CLONES enum sl_status sl_dynamic_self_cpu(const struct sl_attend_back *block, uint32_t n_rows, enum sl_dtype dtype,
                                             const void *u, const struct sl_gradient *g)
{
    SL_BY_DTYPE(dtype, add_selves, block, u, g, n_rows);
    return SL_OK;
}

SL_INLINE void add_owns(enum sl_dtype dtype, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                        const uint32_t *inverse, const void *u, const struct sl_gradient *g)
{
    const uint32_t *bounds = block->offsets + t0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = inverse[i] - g->row0; /* a row below row0 wraps, and is too large */
        if (row < g->n_rows) {
            add_back(dtype, block, bounds + i, bounds[n], inverse[i], row_of(dtype, block, u, row),
                     sl_gradient_row(g, row));
        }
    }
}

SL_CLONES enum sl_status sl_dynamic_own_cpu(const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                                            const struct sl_asked *asked, enum sl_dtype dtype, const void *u,
                                            const struct sl_gradient *g)
{
    const uint32_t *inverse = sl_list_of(asked->inverse, asked->n_parts, asked->requester);
    SL_BY_DTYPE(dtype, add_owns, block, t0, n, inverse, u, g);
    return SL_OK;
}
