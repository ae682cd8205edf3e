/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention over blocks and its adjoint, on a device.
 *
 * An item is one head of a destination or of a source, mostly by one relation. It has a list of terms, rows with
 * weights. A group of lanes serves an item.
 *
 * The kernel score_lists computes lse from the el of the terms. Each lane takes its own terms. If a list is longer than
 * LONG, each group of the block takes a slice.
 *
 * The kernel sum_lists adds weighted rows, or products of rows with a row of the item, or both. A lane takes four
 * columns. First each lane looks up one term and its weight. Then the lanes exchange them, and UNROLL rows are in
 * flight. A product of rows is a sum over columns, and so is a sum of products. So each lane adds the share of its
 * columns, and the shares are added once, at the end of the list.
 *
 * A list longer than SLICE would delay a whole kernel. The kernel sum_lists only queues its slices. Then sum_slices
 * adds each slice, in any group, and add_slices adds the sums of a list's slices in order. If the queue is full, a
 * group adds all slices of its list itself, in the same order. The result depends on the lists, H and K alone, never on
 * the grid.
 *
 * In templates, U is the stored type of rows of U. */
#include <type_traits>

#include "codelets/bf16.cuh"
#include "codelets/sampling/runs.h"
#include "codelets/sums/sources.cuh"

#include "codelets/sums/attend.h"
#include "support/ln.h"

#define LONG 256                 /* most terms that a group of score_lists takes alone */
#define SLICE 128                /* most terms that a group adds at a time */
#define SLICE_NUMBERS (1u << 20) /* room for the sums of queued slices, per launch */
#define SLICE_BLOCKS 256         /* blocks of the kernels for slices: enough to fill a device */
#define UNROLL 4                 /* rows in flight per lane */
#define TARGETS 32               /* owners per launch of the backward kernels */
#define SCORE_LANES 8

/* ---- lists ---- */

/* Properties of a list. columns, factor and target: the types in memory behind these names. ROWS: rows are added. DOTS:
 * products are added. SHORT: no list has more than SLICE terms. */
template <typename Columns, typename Factor, typename Target, bool ROWS, bool DOTS, bool SHORT = false> struct kind {
    typedef Columns columns;
    typedef Factor factor;
    typedef Target target;
    static const bool sums_rows = ROWS;
    static const bool dots = DOTS;
    static const bool is_short = SHORT;
};

/* One head of one row. Its n terms begin with number `first` of the list. own: its row of U. out: the destination of
 * the result. n = 0 and out = NULL: nothing to do. */
struct item {
    uint64_t first, n;
    const void *own;
    void *out;
    uint32_t row, relation, head;
};

/* A term of a sum. */
struct term {
    const void *columns; /* of the head, in a row; NULL: nothing to add */
    sl_real weight;
    sl_real steep; /* the weight times the slope */
    sl_real c;     /* the factor of steep in sums.b */
    sl_real edge;  /* the weight of the edge */
    sl_real also;  /* what the edge's features add to da */
};

/* A term with the weight of edge e. weights NULL: 1. */
static inline __device__ struct term with_edge(struct term term, const float *weights, uint64_t e)
{
    term.edge = weights == nullptr ? 1 : (sl_real)__ldg(weights + e);
    return term;
}

/* The features of edge e. */
static inline __device__ const sl_real *features_of(const struct sl_edge_scores &scores, uint64_t e)
{
    return scores.table + (size_t)__ldg(scores.rows + e) * scores.n_columns;
}

/* Row k of a matrix times the features of edge e; 0 if the matrix is NULL. */
static inline __device__ sl_real times_features(const struct sl_edge_scores &scores, const sl_real *matrix, uint32_t k,
                                                uint64_t e)
{
    sl_real sum = 0;
    if (matrix != nullptr) {
        const sl_real *row = features_of(scores, e);
        for (uint32_t c = 0; c < scores.n_columns; c++) {
            sum += __ldg(matrix + (size_t)k * scores.n_columns + c) * __ldg(row + c);
        }
    }
    return sum;
}

/* Sums over an item's terms, da being the product of the term's columns with the item's factor, times the weight of the
 * edge: of weight da, of steep c, and of steep da. */
struct sums {
    sl_real a, b, c;
};

static inline __device__ struct sums plus(struct sums x, struct sums y)
{
    return {x.a + y.a, x.b + y.b, x.c + y.c};
}

/* The terms that destinations attend to. Without relations, term 0 is the destination itself. */
template <typename Edges> struct attention {
    typedef typename Edges::source U;
    Edges edges;
    const U *self;
    const sl_real *lse;
    const uint16_t *relations; /* NULL: edges have no relations */
    const float *weights;      /* of edges with relations; NULL: 1 */
    const float *shares;       /* the same, inside the softmax */
    struct sl_heads heads;
    uint32_t width;               /* columns of a head */
    struct sl_edge_scores scores; /* v NULL: none */

    /* The whole list of a destination; item i is one of its heads. out: without columns of the head. */
    __device__ struct item item_of(uint32_t i, sl_real *out, uint32_t out_columns) const
    {
        const uint32_t d = i / heads.n_heads;
        const uint64_t first = edges.bound(d);
        return {first,
                edges.bound(d + 1) - first + (relations == nullptr),
                self + (size_t)d * sl_heads_row(heads),
                out + (size_t)d * out_columns,
                d,
                0,
                i % heads.n_heads};
    }
    /* Its terms by one relation; item i is a relation and a head. */
    __device__ struct item run_of(uint32_t i, sl_real *out, uint32_t out_columns) const
    {
        const uint32_t slab = i / heads.n_heads;
        const uint32_t n_slabs = sl_heads_slabs(heads);
        struct item it = item_of(slab / n_slabs * heads.n_heads + i % heads.n_heads, out, out_columns);
        if (relations != nullptr) {
            it.relation = slab % n_slabs;
            const uint64_t end = it.first + it.n;
            it.first = sl_relation_from(relations, it.first, end, it.relation);
            it.n = sl_relation_from(relations, it.first, end, it.relation + 1) - it.first;
        }
        return it;
    }
    __device__ uint32_t relation_of(const struct item &it, uint64_t j) const
    {
        return relations == nullptr ? 0 : __ldg(relations + it.first + j);
    }
    /* The slab of term j, whose relation is r; NULL: nothing to add. */
    __device__ const U *row(const struct item &it, uint64_t j, uint32_t r) const
    {
        if (relations != nullptr) {
            return edges.row(it.first + j, sl_heads_row(heads)) + r * sl_heads_slab(heads);
        }
        if (j == 0) {
            return (const U *)it.own;
        }
        const U *row = edges.row(it.first + j - 1, sl_heads_row(heads));
        return row == it.own ? nullptr : row;
    }
    __device__ sl_real er(const struct item &it, uint32_t r) const
    {
        return sl_wide(__ldg((const U *)it.own + r * sl_heads_slab(heads) + heads.n_columns + heads.n_heads + it.head));
    }
    __device__ sl_real el(const struct item &it, const U *slab) const
    {
        return sl_wide(__ldg(slab + heads.n_columns + it.head));
    }
    /* Whether term j has features, and the edge of such a term. */
    __device__ bool has_features(uint64_t j) const
    {
        return scores.v != nullptr && (relations != nullptr || j > 0);
    }
    __device__ uint64_t edge_at(const struct item &it, uint64_t j) const
    {
        return it.first + j - (relations == nullptr);
    }
    /* el of term j, whose slab is that of relation r, and the score of its edge. */
    __device__ sl_real el_at(const struct item &it, const U *slab, uint64_t j, uint32_t r) const
    {
        const sl_real x = el(it, slab);
        return has_features(j) ? x + times_features(scores, scores.v, r * heads.n_heads + it.head, edge_at(it, j)) : x;
    }
    /* What the features of term j add to da. */
    __device__ sl_real also_at(const struct item &it, uint64_t j, uint32_t r) const
    {
        const uint32_t row = it.row * sl_heads_scores(heads) + r * heads.n_heads + it.head;
        return has_features(j) ? times_features(scores, scores.gs, row, edge_at(it, j)) : 0;
    }
    __device__ sl_real lse_of(const struct item &it, uint32_t r) const
    {
        return __ldg(lse + (size_t)it.row * sl_heads_scores(heads) + r * heads.n_heads + it.head);
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        const uint32_t r = relation_of(it, j);
        const U *from = row(it, j, r);
        if (from == nullptr) {
            return {};
        }
        const sl_real x = er(it, r) + el_at(it, from, j, r);
        const sl_real weight = sl_attend_weight(x, sl_attend_bonus(shares, it.first + j), lse_of(it, r));
        return with_edge({from + it.head * width, weight, weight * sl_attend_slope(x), 1, 1, also_at(it, j, r)},
                         weights, it.first + j);
    }
};

/* z += a u, by all relations. */
template <typename Edges> struct forward_sums : kind<typename Edges::source, sl_real, sl_real, true, false> {
    struct attention<Edges> to;
    sl_real *z;

    __device__ struct item item_of(uint32_t i) const
    {
        return to.item_of(i, z, to.heads.n_columns);
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        return to.term_of(it, j);
    }
    __device__ const sl_real *factor_of(const struct item &) const
    {
        return nullptr;
    }
    __device__ void finish(const struct item &, const struct sums &) const
    {
    }
};

/* Sums of features of edges at destinations, by relation, in rows of RKF. */
template <typename Edges> struct feature_list : kind<sl_real, sl_real, sl_real, true, false> {
    struct attention<Edges> to;
    sl_real *out;

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t slab = to.heads.n_heads * to.scores.n_columns;
        struct item it = to.run_of(i, out, sl_heads_slabs(to.heads) * slab);
        it.out = (sl_real *)it.out + it.relation * slab;
        return it;
    }
    __device__ const sl_real *factor_of(const struct item &) const
    {
        return nullptr;
    }
    __device__ void finish(const struct item &, const struct sums &) const
    {
    }
};

/* S: weighted as the rows of the messages. */
template <typename Edges> struct message_sums : feature_list<Edges> {
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        struct term term = this->to.term_of(it, j);
        if (term.columns != nullptr) {
            const bool featured = this->to.has_features(j);
            term.columns = featured ? features_of(this->to.scores, this->to.edge_at(it, j)) : nullptr;
        }
        return term;
    }
};

/* c and ger of destinations, by relation: with da = gz . u, the sums of a da and of a da slope - a c slope. */
template <typename U> struct side_dots : kind<U, sl_real, sl_real, false, true> {
    struct attention<sl_block_edges<U>> to;
    const sl_real *gz;
    sl_real *sides;

    __device__ struct item item_of(uint32_t i) const
    {
        return to.run_of(i, sides, 4 * sl_heads_scores(to.heads));
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        return to.term_of(it, j);
    }
    __device__ const sl_real *factor_of(const struct item &it) const
    {
        return gz + (size_t)it.row * to.heads.n_columns + it.head * to.width;
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        const uint32_t n_heads = to.heads.n_heads;
        sl_real *out = (sl_real *)it.out + 4 * it.relation * n_heads;
        out[it.head] = to.er(it, it.relation);
        out[n_heads + it.head] = to.lse_of(it, it.relation);
        out[2 * n_heads + it.head] = sum.a;
        out[3 * n_heads + it.head] = sum.c - sum.a * sum.b;
    }
};

/* gv of destinations, by relation: the features of the edges, weighted with gx = a (da - c) slope. */
template <typename U> struct feature_sums : feature_list<sl_block_edges<U>> {
    const sl_real *gz, *sides;

    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        const struct attention<sl_block_edges<U>> &to = this->to;
        const uint32_t r = it.relation;
        const U *from = to.row(it, j, r);
        if (from == nullptr || !to.has_features(j)) {
            return {};
        }
        const uint64_t e = to.edge_at(it, j);
        const sl_real x = to.er(it, r) + to.el_at(it, from, j, r);
        const sl_real w = to.weights == nullptr ? 1 : (sl_real)__ldg(to.weights + e);
        const sl_real *g = gz + (size_t)it.row * to.heads.n_columns + it.head * to.width;
        sl_real da = to.also_at(it, j, r);
        for (uint32_t c = 0; c < to.width; c++) {
            da += __ldg(g + c) * sl_wide(__ldg(from + it.head * to.width + c));
        }
        const size_t slab = (size_t)it.row * sl_heads_slabs(to.heads) + r;
        const sl_real c = __ldg(sides + (4 * slab + 2) * to.heads.n_heads + it.head);
        const sl_real a = sl_attend_weight(x, sl_attend_bonus(to.shares, e), to.lse_of(it, r));
        return {features_of(to.scores, e), a * (w * da - c) * sl_attend_slope(x), 0, 0, 1, 0};
    }
};

/* struct sl_attend_back as a kernel parameter. */
struct transposed_block {
    struct sl_heads heads;
    const uint32_t *offsets, *rows;
    struct sl_device_rows gz, sides, gs; /* gs without chunks: messages have no features */
    const uint16_t *relations;
    const float *weights, *shares;
    struct sl_edge_scores scores;
};

/* A transposed block: the terms of a source are destinations, by one relation. The gradient of u is a sum of rows; that
 * of el is the sum of a (da - c) slope, with da = u . gz. T: stored type of the gradients. */
template <typename U, typename T, bool SHORT = false> struct transposed : kind<sl_real, U, T, true, true, SHORT> {
    struct transposed_block block;

    /* Item i is a head of a relation of a row. */
    __device__ uint32_t row_of(uint32_t i) const
    {
        return i / sl_heads_scores(block.heads);
    }
    /* The item, whose slab is in this row of u and of gu. id: item.row. */
    __device__ struct item item_at(uint32_t i, uint32_t row, uint32_t id, const U *u, T *gu) const
    {
        const uint32_t relation = i / block.heads.n_heads % sl_heads_slabs(block.heads);
        const size_t slab = (size_t)row * sl_heads_row(block.heads) + relation * sl_heads_slab(block.heads);
        return {0, 0, u + slab, gu + slab, id, relation, i % block.heads.n_heads};
    }
    /* Set the list to that of a position. */
    __device__ void take_list(uint32_t position, struct item *it) const
    {
        it->first = __ldg(block.offsets + position);
        it->n = __ldg(block.offsets + position + 1) - it->first;
    }
    __device__ const sl_real *side_of(const struct item &it, uint32_t d) const
    {
        const uint32_t n_heads = block.heads.n_heads;
        return sl_chunk_row<sl_real>(block.sides, d, 4 * sl_heads_scores(block.heads)) + 4 * it.relation * n_heads +
               it.head;
    }
    __device__ bool has_edge(const struct item &it, uint64_t e) const
    {
        return block.relations == nullptr || __ldg(block.relations + e) == it.relation;
    }
    __device__ uint32_t width() const
    {
        return block.heads.n_columns / block.heads.n_heads;
    }
    /* bonus, score: of the edge. */
    __device__ struct term term_at(const struct item &it, uint32_t d, sl_real bonus, sl_real score) const
    {
        const struct sl_heads heads = block.heads;
        const sl_real *side = side_of(it, d);
        const sl_real x = __ldg(side) + (sl_wide(__ldg((const U *)it.own + heads.n_columns + it.head)) + score);
        const sl_real weight = sl_attend_weight(x, bonus, __ldg(side + heads.n_heads));
        return {sl_chunk_row<sl_real>(block.gz, d, heads.n_columns) + it.head * width(),
                weight,
                weight * sl_attend_slope(x),
                __ldg(side + 2 * heads.n_heads),
                1,
                0};
    }
    /* The term of edge e, from destination d. */
    __device__ struct term edge_term(const struct item &it, uint32_t d, uint64_t e) const
    {
        const uint32_t k = it.relation * block.heads.n_heads + it.head;
        const sl_real score = times_features(block.scores, block.scores.v, k, e);
        struct term term = term_at(it, d, sl_attend_bonus(block.shares, e), score);
        if (block.gs.n_chunks > 0) {
            const uint32_t width = sl_heads_scores(block.heads) * block.scores.n_columns;
            term.also = times_features(block.scores, sl_chunk_row<sl_real>(block.gs, d, width), k, e);
        }
        return with_edge(term, block.weights, e);
    }
    __device__ const U *factor_of(const struct item &it) const
    {
        return (const U *)it.own + it.head * width();
    }
    /* Addresses of the gradients of el and er. */
    __device__ T *gel(const struct item &it) const
    {
        return (T *)it.out + block.heads.n_columns + it.head;
    }
    __device__ T *ger(const struct item &it) const
    {
        return gel(it) + block.heads.n_heads;
    }
};

/* Gradients that go back to other owners. Rows first[k] .. first[k + 1] - 1 are positions t0[k] and on, and rows of
 * u[k] and gu[k]. */
template <typename U> struct sent_gradients : transposed<U, U> {
    uint32_t n_targets;
    uint32_t t0[TARGETS];
    uint32_t first[TARGETS + 1];
    const U *u[TARGETS];
    U *gu[TARGETS];

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t t = this->row_of(i);
        uint32_t k = 0;
        while (t >= first[k + 1]) {
            k++;
        }
        struct item it = this->item_at(i, t - first[k], 0, u[k], gu[k]);
        this->take_list(t0[k] + t - first[k], &it);
        return it;
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        if (!this->has_edge(it, it.first + j)) {
            return {};
        }
        return this->edge_term(it, __ldg(this->block.rows + it.first + j), it.first + j);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        sl_store(sum.c - sum.b, this->gel(it));
        sl_store(0.0f, this->ger(it));
    }
};

/* Own terms of the destinations, one each; none with relations. */
template <typename U> struct self_gradients : transposed<U, sl_real, true> {
    const U *u;
    sl_real *gu;
    uint32_t row0;

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t row = this->row_of(i);
        struct item it = this->item_at(i, row, row0 + row, u, gu);
        it.n = this->block.relations == nullptr;
        return it;
    }
    __device__ struct term term_of(const struct item &it, uint64_t) const
    {
        return this->term_at(it, it.row, 0, 0);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        *this->gel(it) = sum.c - sum.b;
        *this->ger(it) = __ldg(this->side_of(it, it.row) + 3 * this->block.heads.n_heads);
    }
};

/* A PE's own sources, from position t0 on. Sources outside the rows of g are skipped. item.row is the row of the
 * frontier. */
template <typename U> struct own_gradients : transposed<U, sl_real> {
    struct sl_asked asked;
    const U *u;
    struct sl_gradient g;
    uint32_t t0;

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t t = this->row_of(i);
        const uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + t);
        if (row - g.row0 >= g.n_rows) { /* a row below row0 wraps, and is too large */
            return {0, 0, nullptr, nullptr, 0, 0, 0};
        }
        struct item it = this->item_at(i, row - g.row0, row, u, g.rows);
        this->take_list(t0 + t, &it);
        return it;
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        const uint32_t d = __ldg(this->block.rows + it.first + j);
        const bool self = this->block.relations == nullptr && d == it.row;
        if (self || !this->has_edge(it, it.first + j)) {
            return {};
        }
        return this->edge_term(it, d, it.first + j);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        const sl_real g = sum.c - sum.b;
        if (g != 0) {
            *this->gel(it) += g;
        }
    }
};

/* ---- scores ---- */

/* The sum of exp(e - e of top) over some terms. top is the largest el. */
struct scored {
    sl_real top, sum;
};

static inline __device__ struct scored both(struct scored x, struct scored y, sl_real er)
{
    const sl_real top = x.top > y.top ? x.top : y.top;
    const sl_real e = sl_attend_score(er + top);
    return {top, x.sum * sl_exp_nonpositive(sl_attend_score(er + x.top) - e) +
                     y.sum * sl_exp_nonpositive(sl_attend_score(er + y.top) - e)};
}

/* One lane's share of the n terms from number `begin` on. Each lane begins with the score of the item's first term and
 * an empty sum, so no infinities occur. */
template <typename Edges>
static inline __device__ struct scored score_terms(const struct attention<Edges> &to, const struct item &it,
                                                   uint64_t begin, uint32_t n, sl_real er)
{
    struct scored all = {to.el_at(it, to.row(it, 0, it.relation), 0, it.relation), 0};
    for (uint32_t j = threadIdx.x % SCORE_LANES; j < n; j += SCORE_LANES) {
        const typename Edges::source *row = to.row(it, begin + j, it.relation);
        if (row != nullptr) {
            const sl_real share = to.shares == nullptr ? 1 : (sl_real)__ldg(to.shares + it.first + begin + j);
            all = both(all, {to.el_at(it, row, begin + j, it.relation), share}, er);
        }
    }
    return all;
}

static inline __device__ struct scored group_score(struct scored x, sl_real er)
{
    for (uint32_t distance = SCORE_LANES / 2; distance > 0; distance /= 2) {
        const sl_real top = __shfl_xor_sync(SL_ALL_LANES, x.top, distance);
        const sl_real sum = __shfl_xor_sync(SL_ALL_LANES, x.sum, distance);
        x = both(x, {top, sum}, er);
    }
    return x;
}

static inline __device__ sl_real lse_of(const struct scored &x, sl_real er)
{
    return (sl_real)((double)sl_attend_score(er + x.top) + sl_ln((double)x.sum));
}

/* lse of destinations, by relation. */
template <typename Edges> struct forward_scores {
    struct attention<Edges> to;
    sl_real *lse;

    __device__ struct item item_of(uint32_t i) const
    {
        return to.run_of(i, lse, sl_heads_scores(to.heads));
    }
    __device__ void finish(const struct item &it, sl_real score) const
    {
        ((sl_real *)it.out)[it.relation * to.heads.n_heads + it.head] = score;
    }
};

/* A long list: each group of the block takes a slice. part: room for the score of each. All threads call it
 * together. */
template <typename Edges>
static inline __device__ void score_together(const struct forward_scores<Edges> &list, const struct item &it,
                                             struct scored *part)
{
    const uint32_t n_groups = SL_THREADS / SCORE_LANES;
    const uint32_t group = threadIdx.x / SCORE_LANES;
    const uint64_t begin = it.n * group / n_groups;
    const uint32_t n = (uint32_t)(it.n * (group + 1) / n_groups - begin);
    const sl_real er = list.to.er(it, it.relation);
    struct scored all = group_score(score_terms(list.to, it, begin, n, er), er);
    if (threadIdx.x % SCORE_LANES == 0) {
        part[group] = all;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t k = 1; k < n_groups; k++) {
            all = both(all, part[k], er);
        }
        list.finish(it, lse_of(all, er));
    }
    __syncthreads();
}

/* A group has its item alone if the list is short. Then all threads of the block go through each long list of the
 * block's groups together. */
template <typename Edges> static __global__ void score_lists(const struct forward_scores<Edges> list, uint32_t n_items)
{
    const uint32_t n_groups = SL_THREADS / SCORE_LANES;
    __shared__ bool is_long[n_groups];
    __shared__ struct scored part[n_groups];
    const uint32_t group = threadIdx.x / SCORE_LANES;
    const bool writes = threadIdx.x % SCORE_LANES == 0;
    for (uint64_t item0 = (uint64_t)blockIdx.x * n_groups; item0 < n_items; item0 += (uint64_t)gridDim.x * n_groups) {
        struct item it = {0, 0, nullptr, nullptr, 0, 0, 0};
        if (group < n_items - item0) {
            it = list.item_of((uint32_t)item0 + group);
        }
        const sl_real er = it.n > 0 ? list.to.er(it, it.relation) : 0;
        struct scored all = {0, 0};
        if (it.n > 0 && it.n <= LONG) {
            all = score_terms(list.to, it, 0, (uint32_t)it.n, er);
        }
        all = group_score(all, er);
        if (writes && it.out != nullptr && it.n <= LONG) {
            list.finish(it, it.n > 0 ? lse_of(all, er) : 0);
        }
        if (!__syncthreads_or(it.n > LONG)) {
            continue;
        }
        if (writes) {
            is_long[group] = it.n > LONG;
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_groups; i++) {
            if (is_long[i]) {
                score_together(list, list.item_of((uint32_t)item0 + i), part);
            }
        }
        __syncthreads();
    }
}

/* ---- rows and products of a slice ---- */

/* The first of a lane's four columns in a tile of 4 LANES columns. QUADS: they follow each other, and rows are read and
 * written four numbers at a time. Otherwise they are LANES apart. */
template <bool QUADS, uint32_t LANES> static inline __device__ uint32_t column_of(uint32_t tile)
{
    const uint32_t lane = sl_lane() % LANES;
    return tile * 4 * LANES + (QUADS ? 4 * lane : lane);
}

/* Four columns of a row; 0 where a column is not below `width`. */
template <bool QUADS, uint32_t LANES, typename S>
static inline __device__ float4 load_four(const S *row, uint32_t column, uint32_t width)
{
    if constexpr (QUADS) {
        typedef typename sl_stored<S, float4>::type quad;
        return column < width ? sl_wide(__ldg((const quad *)(row + column))) : float4();
    } else {
        float4 x = float4();
        x.x = column < width ? sl_wide(__ldg(row + column)) : 0;
        x.y = column + LANES < width ? sl_wide(__ldg(row + column + LANES)) : 0;
        x.z = column + 2 * LANES < width ? sl_wide(__ldg(row + column + 2 * LANES)) : 0;
        x.w = column + 3 * LANES < width ? sl_wide(__ldg(row + column + 3 * LANES)) : 0;
        return x;
    }
}

/* *to = x or, with beta, *to += x. An addition of 0 is left out: most sums by one of many relations are empty. */
template <typename V, typename S> static inline __device__ void put(V x, int beta, bool is_zero, S *to)
{
    if (!beta) {
        sl_store(x, to);
    } else if (!is_zero) {
        sl_store(sl_plus(sl_wide(*to), x), to);
    }
}

template <bool QUADS, uint32_t LANES, typename S>
static inline __device__ void put_four(const float4 &x, int beta, uint32_t column, uint32_t width, S *row)
{
    if constexpr (QUADS) {
        typedef typename sl_stored<S, float4>::type quad;
        if (column < width) {
            put(x, beta, x.x == 0 && x.y == 0 && x.z == 0 && x.w == 0, (quad *)(row + column));
        }
    } else {
        const sl_real four[4] = {x.x, x.y, x.z, x.w};
        SL_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            if (column + i * LANES < width) {
                put(four[i], beta, four[i] == 0, row + column + i * LANES);
            }
        }
    }
}

static inline __device__ sl_real product(const float4 &x, const float4 &y)
{
    return (x.x * y.x + x.y * y.y) + (x.z * y.z + x.w * y.w);
}

/* The sum over the lanes of a group, in a fixed order, for every lane. */
template <uint32_t LANES> static inline __device__ sl_real group_sum(sl_real x)
{
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(SL_ALL_LANES, x, distance);
    }
    return x;
}

/* Sums over a slice: a lane's four columns, and what the tile adds to the products, the same for all lanes. */
struct piece {
    float4 row;
    struct sums dots;
};

static inline __device__ struct piece plus(const struct piece &x, const struct piece &y)
{
    return {sl_plus(x.row, y.row), plus(x.dots, y.dots)};
}

static inline __device__ uint32_t slices_of(uint64_t n)
{
    return (uint32_t)((n + SLICE - 1) / SLICE);
}

/* A tile of slice number k of an item. All lanes of a warp call it together, also lanes whose slice is empty. */
template <bool QUADS, uint32_t LANES, typename List>
static inline __device__ struct piece add_terms(const List &list, const struct item &it, uint32_t k, uint32_t tile,
                                                uint32_t width)
{
    static_assert(LANES % UNROLL == 0, "the lanes' terms are added UNROLL at a time");
    typedef typename List::columns number;
    const uint32_t lane = sl_lane() % LANES;
    const uint32_t lane0 = sl_lane() - lane;
    const uint32_t column = column_of<QUADS, LANES>(tile);
    const uint64_t begin = (uint64_t)k * SLICE;
    const uint32_t n = it.n <= begin ? 0 : it.n - begin < SLICE ? (uint32_t)(it.n - begin) : SLICE;
    const uint32_t most = sl_group_max<LANES>(n);
    float4 factor = float4();
    struct piece sum = {float4(), {0, 0, 0}};
    if (List::dots && n > 0) {
        factor = load_four<QUADS, LANES>(list.factor_of(it), column, width);
    }
    for (uint32_t done = 0; done < most; done += LANES) {
        struct term mine = {};
        if (done + lane < n) {
            mine = list.term_of(it, begin + done + lane);
        }
        if (__ballot_sync(SL_ALL_LANES, mine.columns != nullptr) == 0) {
            continue;
        }
        if (tile == 0) {
            sum.dots.b += mine.steep * mine.c;
        }
        mine.weight *= mine.edge;
        mine.steep *= mine.edge;
        if (tile == 0) {
            sum.dots.a += mine.weight * mine.also;
            sum.dots.c += mine.steep * mine.also;
        }
        for (uint32_t i = 0; i < LANES && done + i < most; i += UNROLL) {
            const number *rows[UNROLL];
            float4 x[UNROLL];
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                rows[u] = (const number *)__shfl_sync(SL_ALL_LANES, (unsigned long long)mine.columns, lane0 + i + u);
                x[u] = rows[u] != nullptr ? load_four<QUADS, LANES>(rows[u], column, width) : float4();
            }
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                const sl_real weight = __shfl_sync(SL_ALL_LANES, mine.weight, lane0 + i + u);
                if constexpr (List::sums_rows) {
                    sum.row = sl_plus(sum.row, sl_times(weight, x[u]));
                }
                if constexpr (List::dots) {
                    const sl_real da = product(factor, x[u]);
                    sum.dots.a += weight * da;
                    sum.dots.c += __shfl_sync(SL_ALL_LANES, mine.steep, lane0 + i + u) * da;
                }
            }
        }
    }
    if constexpr (List::dots) {
        sum.dots = {group_sum<LANES>(sum.dots.a), group_sum<LANES>(sum.dots.b), group_sum<LANES>(sum.dots.c)};
    }
    return sum;
}

/* Add the pieces of an item's n slices in order, tile by tile, and write the results. piece_of(k, tile) is one. */
template <bool QUADS, uint32_t LANES, typename List, typename Pieces>
static inline __device__ void add_pieces(const List &list, const struct item &it, uint32_t n, uint32_t width, int beta,
                                         Pieces piece_of)
{
    struct sums dots = {0, 0, 0};
    for (uint32_t tile = 0; tile * 4 * LANES < width; tile++) {
        struct piece sum = piece_of(0, tile);
        for (uint32_t k = 1; k < n; k++) {
            sum = plus(sum, piece_of(k, tile));
        }
        dots = plus(dots, sum.dots);
        if (List::sums_rows && it.out != nullptr) {
            put_four<QUADS, LANES>(sum.row, beta, column_of<QUADS, LANES>(tile), width,
                                   (typename List::target *)it.out + it.head * width);
        }
    }
    if (List::dots && it.out != nullptr && sl_lane() % LANES == 0) {
        list.finish(it, dots);
    }
}

/* ---- long lists ---- */

#define NO_ITEM 0xffffffffu

/* Slice number k of an item. */
struct queued {
    uint32_t item; /* NO_ITEM: none */
    uint32_t k;
};

/* The slices of long lists, in any order of the lists; those of a list follow each other. */
struct queue {
    uint32_t *n; /* number of slices, including those without room */
    struct queued *slices;
    sl_real *sums; /* of each slice: of each tile four numbers, three of them sums, and then the columns */
    uint32_t n_sums, room;
    uint32_t width, n_tiles;

    /* The place of a list in the queue, if it is long and there is room; otherwise false. All lanes of a warp call it
     * together. */
    template <uint32_t LANES> __device__ bool take(uint32_t i, uint64_t n_terms) const
    {
        const uint32_t lane = sl_lane() % LANES;
        const uint32_t n_slices = n_terms > SLICE ? slices_of(n_terms) : 0;
        uint32_t at = 0;
        if (n_slices > 0 && lane == 0) {
            at = atomicAdd(n, n_slices);
        }
        at = __shfl_sync(SL_ALL_LANES, at, sl_lane() - lane);
        const bool fits = n_slices > 0 && (uint64_t)at + n_slices <= room;
        for (uint32_t k = lane; k < n_slices && (uint64_t)at + k < room; k += LANES) {
            slices[at + k] = {fits ? i : NO_ITEM, k};
        }
        return fits;
    }
    __device__ uint32_t length() const
    {
        return *n < room ? *n : room;
    }
    template <bool QUADS, uint32_t LANES>
    __device__ void put_piece(uint32_t at, uint32_t tile, const struct piece &piece) const
    {
        sl_real *to = sums + (size_t)at * n_sums;
        put_four<QUADS, LANES>(piece.row, 0, column_of<QUADS, LANES>(tile), width, to + 4 * n_tiles);
        if (sl_lane() % LANES == 0) {
            sl_store(make_float4(piece.dots.a, piece.dots.b, piece.dots.c, 0), (float4 *)(to + 4 * tile));
        }
    }
    template <bool QUADS, uint32_t LANES> __device__ struct piece piece_at(uint32_t at, uint32_t tile) const
    {
        const sl_real *from = sums + (size_t)at * n_sums;
        const float4 dots = __ldg((const float4 *)(from + 4 * tile));
        return {load_four<QUADS, LANES>(from + 4 * n_tiles, column_of<QUADS, LANES>(tile), width),
                {dots.x, dots.y, dots.z}};
    }
};

/* A group takes an item. width: columns of a head. */
template <bool QUADS, uint32_t LANES, typename List>
static __global__ void __launch_bounds__(SL_THREADS, 3)
    sum_lists(const List list, const struct queue queue, uint32_t n_items, uint32_t width, int beta)
{
    const uint32_t n_groups = SL_WARP / LANES;
    for (uint64_t i0 = sl_warp() * n_groups; i0 < n_items; i0 += sl_n_warps() * n_groups) {
        const uint64_t i = i0 + sl_lane() / LANES;
        struct item it = {0, 0, nullptr, nullptr, 0, 0, 0};
        if (i < n_items) {
            it = list.item_of((uint32_t)i);
        }
        if constexpr (!List::is_short) {
            if (queue.take<LANES>((uint32_t)i, it.n)) {
                it.n = 0;
                it.out = nullptr;
            }
        }
        add_pieces<QUADS, LANES>(
            list, it, sl_group_max<LANES>(slices_of(it.n)), width, beta,
            [&](uint32_t k, uint32_t tile) { return add_terms<QUADS, LANES>(list, it, k, tile, width); });
    }
}

/* A group takes a slice. */
template <bool QUADS, uint32_t LANES, typename List>
static __global__ void __launch_bounds__(SL_THREADS, 3) sum_slices(const List list, const struct queue queue)
{
    const uint32_t n_groups = SL_WARP / LANES;
    const uint32_t n = queue.length();
    for (uint64_t at0 = sl_warp() * n_groups; at0 < n; at0 += sl_n_warps() * n_groups) {
        const uint32_t at = (uint32_t)at0 + sl_lane() / LANES;
        const struct queued mine = at < n ? queue.slices[at] : queued{NO_ITEM, 0};
        struct item it = {0, 0, nullptr, nullptr, 0, 0, 0};
        if (mine.item != NO_ITEM) {
            it = list.item_of(mine.item);
        }
        for (uint32_t tile = 0; tile < queue.n_tiles; tile++) {
            const struct piece piece = add_terms<QUADS, LANES>(list, it, mine.k, tile, queue.width);
            if (mine.item != NO_ITEM) {
                queue.put_piece<QUADS, LANES>(at, tile, piece);
            }
        }
    }
}

/* A group takes a list. */
template <bool QUADS, uint32_t LANES, typename List>
static __global__ void add_slices(const List list, const struct queue queue, int beta)
{
    const uint32_t n = queue.length();
    for (uint64_t at = sl_thread() / LANES; at < n; at += sl_n_threads() / LANES) {
        const struct queued first = queue.slices[at];
        if (first.item != NO_ITEM && first.k == 0) {
            const struct item it = list.item_of(first.item);
            add_pieces<QUADS, LANES>(list, it, slices_of(it.n), queue.width, beta, [&](uint32_t k, uint32_t tile) {
                return queue.piece_at<QUADS, LANES>((uint32_t)at + k, tile);
            });
        }
    }
}

/* ---- launches ---- */

/* Room for the slices of one launch, in `memory`; the queue is empty. */
static enum sl_status make_queue(const char *name, cudaStream_t stream, uint32_t width, uint32_t lanes,
                                 sl_scratch *memory, struct queue *out)
{
    const uint32_t n_tiles = (width + 4 * lanes - 1) / (4 * lanes);
    const uint32_t n_sums = 4 * n_tiles + (width + 3) / 4 * 4; /* each begins at an address for four numbers */
    const uint32_t room = SLICE_NUMBERS / n_sums;
    const size_t bytes = (size_t)room * (n_sums * sizeof(sl_real) + sizeof(struct queued)) + sizeof *out->n;
    SL_CHECK(memory->take(bytes, name));
    sl_real *sums = memory->as<sl_real>();
    struct queued *slices = (struct queued *)(sums + (size_t)room * n_sums);
    *out = {(uint32_t *)(slices + room), slices, sums, n_sums, room, width, n_tiles};
    return sl_cuda_status(cudaMemsetAsync(out->n, 0, sizeof *out->n, stream), name);
}

template <bool QUADS, uint32_t LANES, typename List>
static enum sl_status start_sums_by(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                    uint32_t width, int beta)
{
    const unsigned n_blocks = sl_blocks((uint64_t)n_items * LANES);
    struct queue queue = {};
    sl_scratch memory(stream);
    if constexpr (!List::is_short) {
        SL_CHECK(make_queue(name, stream, width, LANES, &memory, &queue));
    }
    SL_CHECK(sl_start(name, stream, n_blocks, sum_lists<QUADS, LANES, List>, list, queue, n_items, width, beta));
    if constexpr (!List::is_short) {
        SL_CHECK(sl_start(name, stream, SLICE_BLOCKS, sum_slices<QUADS, LANES, List>, list, queue));
        SL_CHECK(sl_start(name, stream, SLICE_BLOCKS, add_slices<QUADS, LANES, List>, list, queue, beta));
    }
    return SL_OK;
}

/* As few lanes as a head needs: items with narrow heads share a warp. */
template <bool QUADS, typename List>
static enum sl_status start_sums_in(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                    uint32_t width, int beta)
{
    if (width <= 32) {
        return start_sums_by<QUADS, 8>(name, stream, list, n_items, width, beta);
    }
    if (width <= 64) {
        return start_sums_by<QUADS, 16>(name, stream, list, n_items, width, beta);
    }
    return start_sums_by<QUADS, 32>(name, stream, list, n_items, width, beta);
}

/* addresses: of all rows read or written, or'ed. */
template <typename List>
static enum sl_status start_sums(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                 struct sl_heads heads, int beta, uintptr_t addresses)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    if (width % 4 == 0 && sl_heads_slab(heads) % 4 == 0 && addresses % sizeof(float4) == 0) {
        return start_sums_in<true>(name, stream, list, n_items, width, beta);
    }
    return start_sums_in<false>(name, stream, list, n_items, width, beta);
}

/* Slabs of gradients. addresses: of u and gu. */
template <typename List>
static enum sl_status start_back(const char *name, cudaStream_t stream, const List &list, uint32_t n_rows, int beta,
                                 uintptr_t addresses)
{
    const struct sl_heads heads = list.block.heads;
    return start_sums(name, stream, list, n_rows * sl_heads_scores(heads), heads, beta,
                      addresses | sl_address_bits(SL_DTYPE_REAL, &list.block.gz));
}

/* Sums of features, for n_rows destinations. */
template <typename List>
static enum sl_status start_features(const char *name, cudaStream_t stream, const List &list, uint32_t n_rows)
{
    const struct sl_heads heads = list.to.heads;
    return start_sums(name, stream, list, n_rows * sl_heads_scores(heads),
                      {heads.n_heads * list.to.scores.n_columns, heads.n_heads, 0}, 0,
                      (uintptr_t)list.to.scores.table | (uintptr_t)list.out);
}

/* addresses: of the rows of U. */
template <typename Edges>
static enum sl_status start_forward(cudaStream_t stream, const struct attention<Edges> &to, uint32_t n_rows, int beta,
                                    uintptr_t addresses, sl_real *z, sl_real *lse)
{
    const uint32_t n_scores = n_rows * sl_heads_scores(to.heads);
    SL_CHECK(sl_start("sl_attend_forward: lse", stream, sl_blocks((uint64_t)n_scores * SCORE_LANES), score_lists<Edges>,
                      forward_scores<Edges>{to, lse}, n_scores));
    if (to.scores.s != nullptr) {
        SL_CHECK(
            start_features("sl_attend_forward: features", stream, message_sums<Edges>{{{}, to, to.scores.s}}, n_rows));
    }
    return start_sums("sl_attend_forward", stream, forward_sums<Edges>{{}, to, z}, n_rows * to.heads.n_heads, to.heads,
                      beta, addresses | (uintptr_t)z);
}

/* ---- launchers ---- */

template <typename Edges>
static struct attention<Edges> attention_of(struct sl_heads heads, const struct sl_edges *edges, const Edges &rows,
                                            const sl_real *lse) {
    return {rows,
            (const typename Edges::source *)sl_edges_own_row(edges, sl_heads_row(heads)),
            lse,
            edges->relations,
            edges->edge_weights,
            edges->shares,
            heads,
            heads.n_columns / heads.n_heads,
            edges->scores == nullptr ? sl_edge_scores() : *edges->scores};
}

enum sl_status
sl_attend_forward_cuda(cudaStream_t stream, struct sl_heads heads, const struct sl_edges *edges, int beta,
                       sl_real *z_out, sl_real *lse_out)
{
    return sl_by_edges("sl_attend_forward", stream, edges, [&](const auto &rows, uintptr_t addresses) {
        const auto to = attention_of(heads, edges, rows, lse_out);
        const enum sl_dtype dtype = sl_dtype_of<typename std::decay_t<decltype(rows)>::source>();
        return start_forward(stream, to, edges->n_rows, beta, addresses | sl_quad_address(dtype, to.self), z_out,
                             lse_out);
    });
}

enum sl_status sl_attend_full_cuda(cudaStream_t stream, struct sl_heads heads, const struct sl_edges *edges, int beta,
                                   sl_real *z_out)
{
    sl_scratch lse(stream);
    SL_CHECK(lse.take((size_t)edges->n_rows * sl_heads_scores(heads) * sizeof(sl_real), "sl_attend_full: lse"));
    return sl_attend_forward_cuda(stream, heads, edges, beta, z_out, lse.as<sl_real>());
}

enum sl_status sl_attend_sides_cuda(cudaStream_t stream, struct sl_heads heads, const struct sl_edges *edges,
                                    const sl_real *gz, const sl_real *lse, sl_real *sides_out, sl_real *gv_out)
{
    struct sl_device_sources x;
    sl_sources_on_device(edges->x, &x);
    return sl_by_dtype(x.dtype, [&](auto u) {
        const sl_block_edges<decltype(u)> rows = {edges->offsets + edges->row0, edges->sources, edges->row0, x};
        const struct side_dots<decltype(u)> list = {
            {}, attention_of(heads, edges, rows, lse), gz, sides_out
        };
        SL_CHECK(start_sums("sl_attend_sides", stream, list, edges->n_rows * sl_heads_scores(heads), heads, 0,
                            sl_address_bits(&x) | sl_quad_address(x.dtype, list.to.self) | (uintptr_t)gz));
        if (edges->scores == nullptr) {
            return SL_OK;
        }
        const struct feature_sums<decltype(u)> features = {
            {{}, list.to, gv_out}, gz, sides_out
        };
        return start_features("sl_attend_sides: features", stream, features, edges->n_rows);
    });
}

static struct transposed_block on_device(const struct sl_attend_back *block)
{
    struct transposed_block to = {block->heads,     block->offsets, block->rows,   {},           {}, {},
                                  block->relations, block->weights, block->shares, block->scores};
    sl_chunks_on_device(block->gz, &to.gz);
    sl_chunks_on_device(block->sides, &to.sides);
    if (block->gs != nullptr) {
        sl_chunks_on_device(block->gs, &to.gs);
    }
    return to;
}

template <typename U>
static enum sl_status send_back(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n_owners,
                                const uint32_t *n, const uint32_t *t0, void *const *u, void *const *gu)
{
    for (uint32_t done = 0; done < n_owners; done += TARGETS) {
        struct sent_gradients<U> list = {
        };
        uintptr_t addresses = 0;
        list.block = on_device(block);
        list.n_targets = n_owners - done < TARGETS ? n_owners - done : TARGETS;
        for (uint32_t k = 0; k < list.n_targets; k++) {
            list.t0[k] = t0[done + k];
            list.first[k + 1] = list.first[k] + n[done + k];
            list.u[k] = (const U *)u[done + k];
            list.gu[k] = (U *)gu[done + k];
            addresses |= sl_quad_address(sl_dtype_of<U>(), u[done + k]);
            addresses |= sl_quad_address(sl_dtype_of<U>(), gu[done + k]);
        }
        SL_CHECK(start_back("sl_attend_backward", stream, list, list.first[list.n_targets], 0, addresses));
    }
    return SL_OK;
}

enum sl_status sl_attend_backward_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n_owners,
                                       const uint32_t *n, const uint32_t *t0, enum sl_dtype dtype, void *const *u,
                                       void *const *gu_out)
{
    return sl_by_dtype(
        dtype, [&](auto entry) { return send_back<decltype(entry)>(stream, block, n_owners, n, t0, u, gu_out); });
}

enum sl_status sl_attend_self_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n_rows,
                                   enum sl_dtype dtype, const void *u, const struct sl_gradient *g)
{
    const int beta = block->relations != nullptr; /* without own terms, the cleared columns stay as they are */
    return sl_by_dtype(dtype, [&](auto entry) {
        typedef decltype(entry) U;
        const struct self_gradients<U> list = {
            {{}, on_device(block)}, (const U *)u, g->rows, g->row0
        };
        return start_back("sl_attend_accumulate: own terms", stream, list, n_rows, beta,
                          sl_quad_address(dtype, u) | (uintptr_t)g->rows);
    });
}

enum sl_status sl_attend_own_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                                  const struct sl_asked *asked, enum sl_dtype dtype, const void *u,
                                  const struct sl_gradient *g)
{
    return sl_by_dtype(dtype, [&](auto entry) {
        typedef decltype(entry) U;
        const struct own_gradients<U> list = {
            {{}, on_device(block)}, *asked, (const U *)u, *g, t0
        };
        return start_back("sl_attend_accumulate: own sources", stream, list, n, 1,
                          sl_quad_address(dtype, u) | (uintptr_t)g->rows);
    });
}
