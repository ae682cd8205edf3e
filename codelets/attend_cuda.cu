/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention over blocks and its adjoint, on a device.
 *
 * All kernels have one shape. An item is one head of a destination or of a source. It has a list of terms, rows with
 * weights. A group of lanes serves an item:
 *   score_lists  computes lse from the el of the terms; each lane takes its own terms
 *   sum_lists    adds the weighted rows; each lane takes its own columns
 *   dot_lists    multiplies the row of each term with a row of the item; all lanes together
 * The lanes of a group look up as many terms as there are lanes, one each with its weight, and then exchange the
 * results. A list longer than LONG would delay a whole kernel. So the groups of a block take a slice of it each, and
 * the results of the slices are combined in order. The result depends on the lists, H and K alone, never on the grid.
 * With relations, a launch serves one of them: its run of each list, and its slab of each row.
 * In templates, U is the stored type of rows of U. */
#include "codelets/bf16.cuh"
#include "codelets/sources.cuh"

#include "codelets/attend.h"
#include "support/ln.h"

#define LONG 256   /* most terms of a group alone */
#define UNROLL 4   /* rows in flight per lane */
#define TARGETS 32 /* owners per launch of the backward kernels */
#define SCORE_LANES 8

/* ---- edges ---- */

struct edges {
    uint64_t first, end;
};

/* The edges of a block's destinations. */
template <typename U> struct block_edges {
    typedef U entry;
    const uint32_t *offsets;
    const uint32_t *sources;
    struct sl_device_sources x;

    __device__ struct edges edges_of(uint32_t d) const
    {
        return {__ldg(offsets + d), __ldg(offsets + d + 1)};
    }
    __device__ const U *row(uint64_t e, uint32_t n_columns) const
    {
        return sl_source_row<U>(x, __ldg(sources + e), n_columns);
    }
};

/* The edges of the destinations of a whole part. */
template <typename U> struct part_edges {
    typedef U entry;
    const uint64_t *offsets; /* of the part; `sources` begins at the first */
    const sl_vertex *sources;
    uint32_t row0;
    struct sl_device_parts parts;

    __device__ struct edges edges_of(uint32_t d) const
    {
        const uint64_t origin = __ldg(offsets);
        return {__ldg(offsets + row0 + d) - origin, __ldg(offsets + row0 + d + 1) - origin};
    }
    __device__ const U *row(uint64_t e, uint32_t n_columns) const
    {
        const sl_vertex id = __ldg(sources + e);
        return parts.row<U>(parts.part_of(id), id, n_columns);
    }
};

/* ---- lists: columns, factor and target are the types in memory behind the names, `out` has type target ---- */

/* One head of one row. Its n terms begin with number `first` of the list. own: its row of U. out: the destination of
 * the result. n = 0 and out = NULL: nothing to do. */
struct item {
    uint64_t first, n;
    const void *own;
    void *out;
    uint32_t row, head;
};

/* A term: the head's columns of a row (NULL: nothing to add), its weight, and the factors of the gradient of x. */
struct term {
    const void *columns;
    sl_real weight, slope, c;
};

/* The terms that destinations attend to, by one relation. Without relations, term 0 is the destination itself. */
template <typename Edges> struct attention {
    typedef typename Edges::entry U;
    Edges edges;
    struct sl_heads heads;
    const U *self;
    const sl_real *lse;
    const float *relations; /* NULL: edges have no relations */
    uint32_t relation;

    __device__ struct item item_of(uint32_t i, sl_real *out, uint32_t out_columns) const
    {
        const uint32_t d = i / heads.n_heads;
        const U *own = self + (size_t)d * sl_heads_row(heads) + relation * sl_heads_slab(heads);
        struct edges all = edges.edges_of(d);
        if (relations != nullptr) {
            all.first = sl_relation_from(relations, all.first, all.end, (float)relation);
            all.end = sl_relation_from(relations, all.first, all.end, (float)(relation + 1));
        }
        return {all.first,        all.end - all.first + (relations == nullptr), own, out + (size_t)d * out_columns, d,
                i % heads.n_heads};
    }
    /* The entry of lse of an item. */
    __device__ size_t score(const struct item &it) const
    {
        return (size_t)it.row * sl_heads_scores(heads) + relation * heads.n_heads + it.head;
    }
    __device__ const U *row(const struct item &it, uint64_t j) const
    {
        if (relations != nullptr) {
            return edges.row(it.first + j, sl_heads_row(heads)) + relation * sl_heads_slab(heads);
        }
        if (j == 0) {
            return (const U *)it.own;
        }
        const U *row = edges.row(it.first + j - 1, sl_heads_row(heads));
        return row == it.own ? nullptr : row;
    }
    __device__ sl_real er(const struct item &it) const
    {
        return sl_wide(__ldg((const U *)it.own + heads.n_columns + heads.n_heads + it.head));
    }
    __device__ sl_real el(const struct item &it, const U *row) const
    {
        return sl_wide(__ldg(row + heads.n_columns + it.head));
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        const U *from = row(it, j);
        if (from == nullptr) {
            return {nullptr, 0, 0, 0};
        }
        const sl_real x = er(it) + el(it, from);
        return {from + it.head * (heads.n_columns / heads.n_heads), sl_attend_weight(x, __ldg(lse + score(it))),
                sl_attend_slope(x), 0};
    }
};

/* z += a u. */
template <typename Edges> struct forward_sums {
    typedef typename Edges::entry columns;
    typedef sl_real target;
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
};

/* The sums over an item's terms that dot_lists computes. */
struct sums {
    sl_real a, b, c;
};

static inline __device__ struct sums plus(struct sums x, struct sums y)
{
    return {x.a + y.a, x.b + y.b, x.c + y.c};
}

/* c and ger of destinations: sums of a da, of slope a, and of slope a da. */
template <typename U> struct side_dots {
    typedef U columns;
    typedef sl_real factor;
    struct attention<struct block_edges<U>> to;
    const sl_real *gz;
    sl_real *sides;

    __device__ struct item item_of(uint32_t i) const
    {
        return to.item_of(i, sides + 4 * to.relation * to.heads.n_heads, 4 * sl_heads_scores(to.heads));
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        return to.term_of(it, j);
    }
    __device__ const sl_real *factor_of(const struct item &it) const
    {
        return gz + (size_t)it.row * to.heads.n_columns + it.head * (to.heads.n_columns / to.heads.n_heads);
    }
    static __device__ struct sums add(struct sums sum, const struct term &t, sl_real da)
    {
        const sl_real steep = t.weight * t.slope;
        return {sum.a + t.weight * da, sum.b + steep, sum.c + steep * da};
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        const uint32_t n_heads = to.heads.n_heads;
        sl_real *out = (sl_real *)it.out;
        out[it.head] = to.er(it);
        out[n_heads + it.head] = to.lse[to.score(it)];
        out[2 * n_heads + it.head] = sum.a;
        out[3 * n_heads + it.head] = sum.c - sum.a * sum.b;
    }
};

/* A transposed block: the terms of a source are destinations, by one relation. T: stored type of the gradients. */
template <typename U, typename T> struct transposed {
    struct sl_attend_device_back block;
    uint32_t relation;

    /* The first column of a row's slab. */
    __device__ size_t slab(uint32_t row) const
    {
        return (size_t)row * sl_heads_row(block.heads) + relation * sl_heads_slab(block.heads);
    }
    __device__ const sl_real *side_of(const struct item &it, uint32_t d) const
    {
        const uint32_t n_heads = block.heads.n_heads;
        return sl_chunk_row<sl_real>(block.sides, d, 4 * sl_heads_scores(block.heads)) + 4 * relation * n_heads +
               it.head;
    }
    __device__ bool has_edge(uint64_t e) const
    {
        return block.relations == nullptr || __ldg(block.relations + e) == (float)relation;
    }
    __device__ struct term term_of(const struct item &it, uint32_t d) const
    {
        const struct sl_heads heads = block.heads;
        const sl_real *side = side_of(it, d);
        const sl_real x = __ldg(side) + sl_wide(__ldg((const U *)it.own + heads.n_columns + it.head));
        return {sl_chunk_row<sl_real>(block.gz, d, heads.n_columns) + it.head * (heads.n_columns / heads.n_heads),
                sl_attend_weight(x, __ldg(side + heads.n_heads)), sl_attend_slope(x), __ldg(side + 2 * heads.n_heads)};
    }
    __device__ const U *factor_of(const struct item &it) const
    {
        return (const U *)it.own + it.head * (block.heads.n_columns / block.heads.n_heads);
    }
    static __device__ struct sums add(struct sums sum, const struct term &t, sl_real da)
    {
        return {sum.a + t.weight * (da - t.c) * t.slope, 0, 0};
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

/* Gradients that go back to other owners. Items first[k] .. first[k + 1] - 1 are positions t0[k] and on, and rows of
 * u[k] and gu[k]. */
template <typename U> struct sent_gradients {
    typedef sl_real columns;
    typedef U factor;
    typedef U target;
    struct transposed<U, U> from;
    uint32_t n_targets;
    uint32_t t0[TARGETS];
    uint32_t first[TARGETS + 1];
    const U *u[TARGETS];
    U *gu[TARGETS];

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t n_heads = from.block.heads.n_heads;
        const uint32_t t = i / n_heads;
        uint32_t k = 0;
        while (t >= first[k + 1]) {
            k++;
        }
        const uint32_t row = t - first[k];
        const uint32_t *bounds = from.block.offsets + t0[k] + row;
        const size_t base = from.slab(row);
        const uint32_t begin = __ldg(bounds);
        return {begin, __ldg(bounds + 1) - begin, u[k] + base, gu[k] + base, row, i % n_heads};
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        if (!from.has_edge(it.first + j)) {
            return {nullptr, 0, 0, 0};
        }
        return from.term_of(it, __ldg(from.block.rows + it.first + j));
    }
    __device__ const U *factor_of(const struct item &it) const
    {
        return from.factor_of(it);
    }
    static __device__ struct sums add(struct sums sum, const struct term &t, sl_real da)
    {
        return decltype(from)::add(sum, t, da);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        sl_store(sum.a, from.gel(it));
        sl_store(0.0f, from.ger(it));
    }
};

/* Own terms of the destinations, one each; none with relations. */
template <typename U> struct self_gradients {
    typedef sl_real columns;
    typedef U factor;
    typedef sl_real target;
    struct transposed<U, sl_real> from;
    uint32_t row0;
    const U *u;
    sl_real *gu;

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t n_heads = from.block.heads.n_heads;
        const uint32_t row = i / n_heads;
        const size_t base = from.slab(row);
        return {0, from.block.relations == nullptr, u + base, gu + base, row, i % n_heads};
    }
    __device__ struct term term_of(const struct item &it, uint64_t) const
    {
        return from.term_of(it, row0 + it.row);
    }
    __device__ const U *factor_of(const struct item &it) const
    {
        return from.factor_of(it);
    }
    static __device__ struct sums add(struct sums sum, const struct term &t, sl_real da)
    {
        return decltype(from)::add(sum, t, da);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        *from.gel(it) = sum.a;
        *from.ger(it) = __ldg(from.side_of(it, row0 + it.row) + 3 * from.block.heads.n_heads);
    }
};

/* A PE's own sources. Sources outside rows row0 .. row0 + n_rows - 1 are skipped. item.row is the row of the
 * frontier. */
template <typename U> struct own_gradients {
    typedef sl_real columns;
    typedef U factor;
    typedef sl_real target;
    struct transposed<U, sl_real> from;
    struct sl_attend_device_own own;
    uint32_t row0, n_rows;
    const U *u;
    sl_real *gu;

    __device__ struct item item_of(uint32_t i) const
    {
        const uint32_t n_heads = from.block.heads.n_heads;
        const uint32_t t = i / n_heads;
        const uint32_t row = __ldg(sl_list_of(own.inverse, own.n_parts, own.requester) + t);
        if (row - row0 >= n_rows) { /* a row below row0 wraps, and is too large */
            return {0, 0, nullptr, nullptr, 0, 0};
        }
        const uint32_t *bounds = from.block.offsets + own.t0 + t;
        const size_t base = from.slab(row - row0);
        const uint32_t begin = __ldg(bounds);
        return {begin, __ldg(bounds + 1) - begin, u + base, gu + base, row, i % n_heads};
    }
    __device__ struct term term_of(const struct item &it, uint64_t j) const
    {
        const uint32_t d = __ldg(from.block.rows + it.first + j);
        const bool self = from.block.relations == nullptr && d == it.row;
        if (self || !from.has_edge(it.first + j)) {
            return {nullptr, 0, 0, 0};
        }
        return from.term_of(it, d);
    }
    __device__ const U *factor_of(const struct item &it) const
    {
        return from.factor_of(it);
    }
    static __device__ struct sums add(struct sums sum, const struct term &t, sl_real da)
    {
        return decltype(from)::add(sum, t, da);
    }
    __device__ void finish(const struct item &it, const struct sums &sum) const
    {
        *from.gel(it) += sum.a;
    }
};

/* ---- groups and slices ---- */

/* The sum over the lanes of a group, in a fixed order, for every lane. */
template <uint32_t LANES> static inline __device__ sl_real group_sum(sl_real x)
{
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(SL_ALL_LANES, x, distance);
    }
    return x;
}

template <uint32_t LANES> static inline __device__ struct sums group_sum(struct sums x)
{
    return {group_sum<LANES>(x.a), group_sum<LANES>(x.b), group_sum<LANES>(x.c)};
}

/* n terms of an item, from number `begin` on. */
struct slice {
    uint64_t begin;
    uint32_t n;
};

/* The slice of a group alone: the whole list, or nothing if the block takes the list. */
static inline __device__ struct slice slice_alone(const struct item &it)
{
    return {0, it.n > LONG ? 0 : (uint32_t)it.n};
}

/* One group's slice of a long list. */
template <uint32_t LANES> static inline __device__ struct slice slice_of(const struct item &it)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    const uint32_t group = threadIdx.x / LANES;
    const uint64_t begin = it.n * group / n_groups;
    return {begin, (uint32_t)(it.n * (group + 1) / n_groups - begin)};
}

/* Calls alone(item) for this thread's item. Then all threads of the block call together(item) for each long item of the
 * block's groups. Block b has tile b / n_blocks of the items of block b % n_blocks. b < 2^32: a launch writes fewer
 * than 2^38 numbers. */
template <uint32_t LANES, typename List, typename Alone, typename Together>
static inline __device__ void for_items(const List &list, uint32_t n_items, uint32_t n_tiles, bool *is_long,
                                        Alone alone, Together together)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    const uint32_t group = threadIdx.x / LANES;
    const uint32_t n_blocks = (uint32_t)(((uint64_t)n_items + n_groups - 1) / n_groups);
    for (uint32_t b = blockIdx.x; b < n_blocks * n_tiles; b += gridDim.x) {
        const uint32_t item0 = b % n_blocks * n_groups;
        struct item it = {0, 0, nullptr, nullptr, 0, 0};
        if (group < n_items - item0) {
            it = list.item_of(item0 + group);
        }
        alone(it, b / n_blocks);
        if (!__syncthreads_or(it.n > LONG)) {
            continue;
        }
        if (threadIdx.x % LANES == 0) {
            is_long[group] = it.n > LONG;
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_groups; i++) {
            if (is_long[i]) {
                together(list.item_of(item0 + i), b / n_blocks);
            }
        }
        __syncthreads();
    }
}

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

/* One lane's terms of a slice. Each lane begins with the el of the item's first term and an empty sum, so no infinities
 * occur. */
template <typename Edges>
static inline __device__ struct scored score_terms(const struct attention<Edges> &to, const struct item &it,
                                                   const struct slice &some, sl_real er)
{
    struct scored all = {to.el(it, to.row(it, 0)), 0};
    for (uint32_t j = threadIdx.x % SCORE_LANES; j < some.n; j += SCORE_LANES) {
        const typename Edges::entry *row = to.row(it, some.begin + j);
        if (row != nullptr) {
            all = both(all, {to.el(it, row), 1}, er);
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

/* lse of destinations; item.out is the row of lse. */
template <typename Edges> struct forward_scores {
    struct attention<Edges> to;
    sl_real *lse;

    __device__ struct item item_of(uint32_t i) const
    {
        return to.item_of(i, lse + to.relation * to.heads.n_heads, sl_heads_scores(to.heads));
    }
};

template <typename Edges> static __global__ void score_lists(const struct forward_scores<Edges> list, uint32_t n_items)
{
    __shared__ bool is_long[SL_THREADS / SCORE_LANES];
    __shared__ struct scored part[SL_THREADS / SCORE_LANES];
    const uint32_t group = threadIdx.x / SCORE_LANES;
    const bool writes = threadIdx.x % SCORE_LANES == 0;
    auto alone = [&](const struct item &it, uint32_t) {
        const sl_real er = it.n > 0 ? list.to.er(it) : 0;
        struct scored all = {0, 0};
        if (it.n > 0 && it.n <= LONG) {
            all = score_terms(list.to, it, slice_alone(it), er);
        }
        all = group_score(all, er);
        if (writes && it.out != nullptr && it.n <= LONG) {
            ((sl_real *)it.out)[it.head] = it.n > 0 ? lse_of(all, er) : 0;
        }
    };
    auto together = [&](const struct item &it, uint32_t) {
        const sl_real er = list.to.er(it);
        struct scored all = group_score(score_terms(list.to, it, slice_of<SCORE_LANES>(it), er), er);
        if (writes) {
            part[group] = all;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t k = 1; k < SL_THREADS / SCORE_LANES; k++) {
                all = both(all, part[k], er);
            }
            ((sl_real *)it.out)[it.head] = lse_of(all, er);
        }
        __syncthreads();
    };
    for_items<SCORE_LANES>(list, n_items, 1, is_long, alone, together);
}

/* ---- sums of rows ---- */

/* sum + the terms of a slice, in order. All lanes of a warp call it together, also lanes with an empty slice. */
template <uint32_t LANES, typename List>
static inline __device__ sl_real add_terms(const List &list, const struct item &it, const struct slice &some,
                                           uint32_t column, bool active, sl_real sum)
{
    static_assert(LANES % UNROLL == 0, "the lanes' terms are added UNROLL at a time");
    const uint32_t lane = sl_lane() % LANES;
    const uint32_t lane0 = sl_lane() - lane;
    const uint32_t most = sl_group_max<LANES>(some.n);
    typedef typename List::columns number;
    for (uint32_t done = 0; done < most; done += LANES) {
        struct term mine = {nullptr, 0, 0, 0};
        if (done + lane < some.n) {
            mine = list.term_of(it, some.begin + done + lane);
        }
        for (uint32_t k = 0; k < LANES && done + k < most; k += UNROLL) {
            const number *columns[UNROLL];
            number x[UNROLL];
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                columns[u] = (const number *)__shfl_sync(SL_ALL_LANES, (unsigned long long)mine.columns, lane0 + k + u);
                x[u] = active && columns[u] != nullptr ? __ldg(columns[u] + column) : number(0);
            }
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                const sl_real weight = __shfl_sync(SL_ALL_LANES, mine.weight, lane0 + k + u);
                if (columns[u] != nullptr) {
                    sum += weight * sl_wide(x[u]);
                }
            }
        }
    }
    return sum;
}

/* width: columns of a head. */
template <uint32_t LANES, typename List>
static __global__ void sum_lists(const List list, uint32_t n_items, uint32_t width, int beta)
{
    typedef typename List::target target;
    const uint32_t n_groups = SL_THREADS / LANES;
    __shared__ bool is_long[n_groups];
    __shared__ sl_real part[SL_THREADS];
    const uint32_t lane = threadIdx.x % LANES;
    auto alone = [&](const struct item &it, uint32_t tile) {
        const uint32_t column = tile * LANES + lane;
        const bool writes = column < width && it.out != nullptr && it.n <= LONG;
        target *out = (target *)it.out + it.head * width + column;
        const sl_real sum = add_terms<LANES>(list, it, slice_alone(it), column, column < width,
                                             writes && beta ? sl_wide(*out) : (sl_real)0);
        if (writes) {
            sl_store(sum, out);
        }
    };
    auto together = [&](const struct item &it, uint32_t tile) {
        const uint32_t column = tile * LANES + lane;
        part[threadIdx.x] = add_terms<LANES>(list, it, slice_of<LANES>(it), column, column < width, 0);
        __syncthreads();
        if (threadIdx.x < LANES && column < width) {
            target *out = (target *)it.out + it.head * width + column;
            sl_real sum = beta ? sl_wide(*out) : (sl_real)0;
            for (uint32_t k = 0; k < n_groups; k++) {
                sum += part[k * LANES + lane];
            }
            sl_store(sum, out);
        }
        __syncthreads();
    };
    for_items<LANES>(list, n_items, (width + LANES - 1) / LANES, is_long, alone, together);
}

/* ---- products ---- */

/* One lane's share of the sums over a slice; each lane adds the terms that it looked up. */
template <uint32_t LANES, typename List>
static inline __device__ struct sums dot_terms(const List &list, const struct item &it, const struct slice &some,
                                               uint32_t width)
{
    const uint32_t lane = sl_lane() % LANES;
    const uint32_t lane0 = sl_lane() - lane;
    const uint32_t most = sl_group_max<LANES>(some.n);
    const typename List::factor *factor = some.n > 0 ? list.factor_of(it) : nullptr;
    struct sums all = {0, 0, 0};
    for (uint32_t done = 0; done < most; done += LANES) {
        struct term mine = {nullptr, 0, 0, 0};
        sl_real my_da = 0;
        if (done + lane < some.n) {
            mine = list.term_of(it, some.begin + done + lane);
        }
        for (uint32_t k = 0; k < LANES && done + k < most; k += UNROLL) {
            sl_real dot[UNROLL];
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                const typename List::columns *columns = (const typename List::columns *)__shfl_sync(
                    SL_ALL_LANES, (unsigned long long)mine.columns, lane0 + k + u);
                dot[u] = 0;
                if (columns != nullptr) {
                    for (uint32_t c = lane; c < width; c += LANES) {
                        dot[u] += sl_wide(__ldg(factor + c)) * sl_wide(__ldg(columns + c));
                    }
                }
            }
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                const sl_real da = group_sum<LANES>(dot[u]);
                my_da = lane == k + u ? da : my_da;
            }
        }
        if (mine.columns != nullptr) {
            all = List::add(all, mine, my_da);
        }
    }
    return all;
}

template <uint32_t LANES, typename List>
static __global__ void dot_lists(const List list, uint32_t n_items, uint32_t width)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    __shared__ bool is_long[n_groups];
    __shared__ struct sums part[n_groups];
    const bool writes = threadIdx.x % LANES == 0;
    auto alone = [&](const struct item &it, uint32_t) {
        const struct sums all = group_sum<LANES>(dot_terms<LANES>(list, it, slice_alone(it), width));
        if (writes && it.out != nullptr && it.n <= LONG) {
            list.finish(it, all);
        }
    };
    auto together = [&](const struct item &it, uint32_t) {
        struct sums all = group_sum<LANES>(dot_terms<LANES>(list, it, slice_of<LANES>(it), width));
        if (writes) {
            part[threadIdx.x / LANES] = all;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t k = 1; k < n_groups; k++) {
                all = plus(all, part[k]);
            }
            list.finish(it, all);
        }
        __syncthreads();
    };
    for_items<LANES>(list, n_items, 1, is_long, alone, together);
}

/* ---- launches ---- */

static unsigned blocks_for(uint32_t n_items, uint32_t lanes, uint32_t n_tiles)
{
    uint64_t n_blocks = ((uint64_t)n_items * lanes + SL_THREADS - 1) / SL_THREADS;
    return sl_blocks(n_blocks * n_tiles * SL_THREADS);
}

template <typename Edges>
static enum sl_status start_scores(cudaStream_t stream, const struct forward_scores<Edges> &list, uint32_t n_items)
{
    return sl_start("sl_attend_forward: lse", stream, blocks_for(n_items, SCORE_LANES, 1), score_lists<Edges>, list,
                    n_items);
}

template <uint32_t LANES, typename List>
static enum sl_status start_sums_by(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                    uint32_t width, int beta)
{
    return sl_start(name, stream, blocks_for(n_items, LANES, (width + LANES - 1) / LANES), sum_lists<LANES, List>, list,
                    n_items, width, beta);
}

/* As few lanes as a head needs: items with narrow heads share a warp. */
template <typename List>
static enum sl_status start_sums(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                 uint32_t width, int beta)
{
    if (width <= 8) {
        return start_sums_by<8>(name, stream, list, n_items, width, beta);
    }
    if (width <= 16) {
        return start_sums_by<16>(name, stream, list, n_items, width, beta);
    }
    return start_sums_by<32>(name, stream, list, n_items, width, beta);
}

template <uint32_t LANES, typename List>
static enum sl_status start_dots_by(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                    uint32_t width)
{
    return sl_start(name, stream, blocks_for(n_items, LANES, 1), dot_lists<LANES, List>, list, n_items, width);
}

template <typename List>
static enum sl_status start_dots(const char *name, cudaStream_t stream, const List &list, uint32_t n_items,
                                 uint32_t width)
{
    if (width <= 8) {
        return start_dots_by<8>(name, stream, list, n_items, width);
    }
    if (width <= 16) {
        return start_dots_by<16>(name, stream, list, n_items, width);
    }
    return start_dots_by<32>(name, stream, list, n_items, width);
}

/* Slabs of gradients: the first H columns, then the columns of el and er. */
template <typename List>
static enum sl_status start_back(const char *name, cudaStream_t stream, List list, uint32_t n_rows, int beta)
{
    const struct sl_heads heads = list.from.block.heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < sl_heads_slabs(heads); r++) {
        list.from.relation = r;
        SL_TRY(st, start_sums(name, stream, list, n_rows * heads.n_heads, width, beta), failed);
        SL_TRY(st, start_dots(name, stream, list, n_rows * heads.n_heads, width), failed);
    }
failed:
    return st;
}

template <typename Edges>
static enum sl_status start_forward(cudaStream_t stream, struct attention<Edges> to, uint32_t n_rows, int beta,
                                    sl_real *z, sl_real *lse)
{
    const uint32_t n_items = n_rows * to.heads.n_heads;
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < sl_heads_slabs(to.heads); r++) {
        to.relation = r;
        SL_TRY(st, start_scores(stream, forward_scores<Edges>{to, lse}, n_items), failed);
        SL_TRY(st,
               start_sums("sl_attend_forward", stream, forward_sums<Edges>{to, z}, n_items,
                          to.heads.n_columns / to.heads.n_heads, beta || r > 0),
               failed);
    }
failed:
    return st;
}

/* ---- launchers ---- */

template <typename U>
static struct attention<struct block_edges<U>> attention_of(const struct sl_attend_device_rows *rows,
                                                            const sl_real *lse) {
    return {{rows->offsets, rows->sources, *rows->x}, rows->heads, (const U *)rows->self, lse, rows->relations, 0};
}

enum sl_status
sl_attend_forward_cuda(cudaStream_t stream, const struct sl_attend_device_rows *rows, int beta, sl_real *z_out,
                       sl_real *lse_out)
{
    return sl_by_dtype(rows->x->dtype, [&](auto u) {
        return start_forward(stream, attention_of<decltype(u)>(rows, lse_out), rows->n_rows, beta, z_out, lse_out);
    });
}

template <typename U>
static enum sl_status start_sides(cudaStream_t stream, const struct sl_attend_device_rows *rows, const sl_real *gz,
                                  const sl_real *lse, sl_real *sides)
{
    const struct sl_heads heads = rows->heads;
    struct side_dots<U> list = {
        attention_of<U>(rows, lse), gz, sides
    };
    enum sl_status st = SL_OK;
    for (; list.to.relation < sl_heads_slabs(heads) && st == SL_OK; list.to.relation++) {
        st = start_dots("sl_attend_sides", stream, list, rows->n_rows * heads.n_heads, heads.n_columns / heads.n_heads);
    }
    return st;
}

enum sl_status sl_attend_sides_cuda(cudaStream_t stream, const struct sl_attend_device_rows *rows, const sl_real *gz,
                                    const sl_real *lse, sl_real *sides_out)
{
    return sl_by_dtype(rows->x->dtype,
                       [&](auto u) { return start_sides<decltype(u)>(stream, rows, gz, lse, sides_out); });
}

template <typename U>
static enum sl_status send_back(cudaStream_t stream, const struct sl_attend_device_back *block, uint32_t n_owners,
                                const uint32_t *n, const uint32_t *t0, const sl_real *const *u, sl_real *const *gu)
{
    enum sl_status st = SL_OK;
    for (uint32_t done = 0; done < n_owners && st == SL_OK; done += TARGETS) {
        struct sent_gradients<U> list = {
            {*block, 0}, n_owners - done < TARGETS ? n_owners - done : TARGETS, {}, {}, {},
            {
            }
        };
        for (uint32_t k = 0; k < list.n_targets; k++) {
            list.t0[k] = t0[done + k];
            list.first[k + 1] = list.first[k] + n[done + k];
            list.u[k] = (const U *)u[done + k];
            list.gu[k] = (U *)gu[done + k];
        }
        st = start_back("sl_attend_backward", stream, list, list.first[list.n_targets], 0);
    }
    return st;
}

enum sl_status sl_attend_backward_cuda(cudaStream_t stream, const struct sl_attend_device_back *block,
                                       uint32_t n_owners, const uint32_t *n, const uint32_t *t0, enum sl_dtype dtype,
                                       const sl_real *const *u, sl_real *const *gu_out)
{
    return sl_by_dtype(
        dtype, [&](auto entry) { return send_back<decltype(entry)>(stream, block, n_owners, n, t0, u, gu_out); });
}

enum sl_status sl_attend_self_cuda(cudaStream_t stream, const struct sl_attend_device_back *block, uint32_t row0,
                                   uint32_t n_rows, enum sl_dtype dtype, const void *u, sl_real *gu)
{
    const char *name = "sl_attend_accumulate: own terms";
    return sl_by_dtype(dtype, [&](auto entry) {
        typedef decltype(entry) U;
        return start_back(name, stream, self_gradients<U>{{*block, 0}, row0, (const U *)u, gu}, n_rows, 0);
    });
}

template <typename U>
static enum sl_status add_own(cudaStream_t stream, const struct sl_attend_device_back *block,
                              const struct sl_attend_device_own *own, uint32_t row0, uint32_t n_rows, const void *u,
                              sl_real *gu)
{
    return start_back("sl_attend_accumulate: own sources", stream,
                      own_gradients<U>{{*block, 0}, *own, row0, n_rows, (const U *)u, gu}, own->n, 1);
}

enum sl_status sl_attend_own_cuda(cudaStream_t stream, const struct sl_attend_device_back *block,
                                  const struct sl_attend_device_own *own, uint32_t row0, uint32_t n_rows,
                                  enum sl_dtype dtype, const void *u, sl_real *gu)
{
    return sl_by_dtype(dtype,
                       [&](auto entry) { return add_own<decltype(entry)>(stream, block, own, row0, n_rows, u, gu); });
}

template <typename U>
static enum sl_status attend_parts(cudaStream_t stream, const struct sl_attend_device_full *rows, int beta,
                                   sl_real *z_out)
{
    struct attention<struct part_edges<U>> to = {
    };
    sl_scratch chunks(stream);
    sl_scratch lse(stream);
    enum sl_status st;
    SL_TRY(st,
           sl_send_parts("sl_attend_full", stream, rows->n_parts, rows->first, rows->parts, &chunks, &to.edges.parts),
           done);
    SL_TRY(st, lse.take((size_t)rows->n_rows * sl_heads_scores(rows->heads) * sizeof(sl_real), "sl_attend_full: lse"),
           done);
    to.edges.offsets = rows->offsets;
    to.edges.sources = rows->sources;
    to.edges.row0 = rows->row0;
    to.heads = rows->heads;
    to.self = (const U *)rows->self;
    to.lse = lse.as<sl_real>();
    to.relations = rows->relations;
    st = start_forward(stream, to, rows->n_rows, beta, z_out, lse.as<sl_real>());
done:
    return st;
}

enum sl_status sl_attend_full_cuda(cudaStream_t stream, const struct sl_attend_device_full *rows, int beta,
                                   sl_real *z_out)
{
    return sl_by_dtype(rows->dtype, [&](auto u) { return attend_parts<decltype(u)>(stream, rows, beta, z_out); });
}
