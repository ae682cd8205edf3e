/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dynamic attention over blocks and its adjoint, on a device. An item is one head of a destination or of a source. Sums
 * of rows are lists (codelets/sums/lists.cuh): a lane looks up a term and computes its score and its weight, then the
 * lanes add the columns together. The sums lse and c have a warp for each item, a lane for each term.
 *
 * In templates, U is the stored type of rows of U. */
#include "codelets/sums/dynamic.h"

#include "codelets/sums/lists.cuh"
#include "support/ln.h"

/* ---- one row, or four numbers of it ---- */

static inline __device__ sl_real score_of(sl_real x)
{
    return sl_attend_score(x);
}

static inline __device__ float4 score_of(const float4 &x)
{
    return make_float4(score_of(x.x), score_of(x.y), score_of(x.z), score_of(x.w));
}

static inline __device__ sl_real slope_of(sl_real x)
{
    return sl_attend_slope(x);
}

static inline __device__ float4 slope_of(const float4 &x)
{
    return make_float4(slope_of(x.x), slope_of(x.y), slope_of(x.z), slope_of(x.w));
}

static inline __device__ sl_real scaled(sl_real a, sl_real x)
{
    return a * x;
}

static inline __device__ float4 scaled(const float4 &a, const float4 &x)
{
    return make_float4(a.x * x.x, a.y * x.y, a.z * x.z, a.w * x.w);
}

static inline __device__ sl_real total(sl_real x)
{
    return x;
}

static inline __device__ sl_real total(const float4 &x)
{
    return (x.x + x.y) + (x.z + x.w);
}

/* Vector number i of a row. */
template <typename V, typename S> static inline __device__ V vector_of(const S *row, uint32_t i)
{
    return sl_wide(__ldg((const typename sl_stored<S, V>::type *)row + i));
}

/* e, from n vectors of a head. */
template <typename V, typename U>
static inline __device__ sl_real score_by(uint32_t n, const sl_real *a, const sl_real *r, const U *u)
{
    sl_real sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += total(scaled(vector_of<V>(a, i), score_of(sl_plus(vector_of<V>(r, i), vector_of<V>(u, i)))));
    }
    return sum;
}

template <typename V, typename U> static inline __device__ sl_real dot_by(uint32_t n, const sl_real *x, const U *u)
{
    sl_real sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += total(scaled(vector_of<V>(x, i), vector_of<V>(u, i)));
    }
    return sum;
}

/* Heads in memory. */
struct head_rows {
    struct sl_heads heads;
    uint32_t width; /* columns of a head */
    const sl_real *a;
    size_t n_quads; /* a quarter of the width. 0: four columns cannot be read at a time */

    template <typename U> __device__ sl_real score(uint32_t k, const sl_real *r, const U *u) const
    {
        if (n_quads > 0) {
            return score_by<float4>((uint32_t)n_quads, a + k * width, r, u);
        }
        return score_by<sl_real>(width, a + k * width, r, u);
    }
    template <typename U> __device__ sl_real dot(const sl_real *x, const U *u) const
    {
        if (n_quads > 0) {
            return dot_by<float4>((uint32_t)n_quads, x, u);
        }
        return dot_by<sl_real>(width, x, u);
    }
};

/* addresses: of all rows, or'ed. */
static struct head_rows head_rows_of(struct sl_heads heads, const sl_real *a, uintptr_t addresses)
{
    const uint32_t width = heads.n_columns / heads.n_heads;
    const bool quads = width % 4 == 0 && (addresses | (uintptr_t)a) % sizeof(float4) == 0;
    return {heads, width, a, quads * width / 4};
}

/* ---- by destination ---- */

/* Item i is head i % K of destination i / K. */
template <typename Edges> struct attention {
    typedef typename Edges::source U;
    Edges edges;
    struct head_rows row;
    const U *self;
    const sl_real *r;

    __device__ uint32_t destination(uint32_t i) const
    {
        return i / row.heads.n_heads;
    }
    __device__ uint32_t head(uint32_t i) const
    {
        return i % row.heads.n_heads;
    }
    /* Where the item's columns begin in a matrix [n_rows x H]. */
    __device__ size_t place(uint32_t i) const
    {
        return (size_t)i * row.width;
    }
    __device__ uint64_t bound(uint32_t i) const
    {
        return edges.bound(i);
    }
    /* The item's columns of the source of edge e; NULL: of the destination itself. */
    __device__ const U *source(uint32_t i, uint64_t e) const
    {
        const U *from = edges.row(e, row.heads.n_columns);
        const U *own = self + (size_t)destination(i) * row.heads.n_columns;
        return from == own ? nullptr : from + head(i) * row.width;
    }
    __device__ sl_real score(uint32_t i, const U *columns) const
    {
        return row.score(head(i), r + place(i), columns);
    }
};

/* The sum of exp(e - top) over some terms. */
struct scored {
    sl_real top, sum;
};

static inline __device__ struct scored both(const struct scored &x, const struct scored &y)
{
    const sl_real top = x.top > y.top ? x.top : y.top;
    return {top, x.sum * sl_exp_nonpositive(x.top - top) + y.sum * sl_exp_nonpositive(y.top - top)};
}

/* lse of each item. All lanes begin with the own score, lane 0 alone with its term. */
template <typename Edges>
static __global__ void score_lists(const struct attention<Edges> to, uint32_t n_items, sl_real *lse)
{
    for (uint64_t w = sl_warp(); w < n_items; w += sl_n_warps()) {
        const uint32_t i = (uint32_t)w;
        const uint64_t end = to.bound(to.destination(i) + 1);
        struct scored all = {to.score(i, to.self + to.place(i)), sl_lane() == 0 ? (sl_real)1 : 0};
        for (uint64_t e = to.bound(to.destination(i)) + sl_lane(); e < end; e += SL_WARP) {
            const typename Edges::source *columns = to.source(i, e);
            if (columns != nullptr) {
                all = both(all, {to.score(i, columns), 1});
            }
        }
        for (uint32_t distance = SL_WARP / 2; distance > 0; distance /= 2) {
            const sl_real top = __shfl_xor_sync(SL_ALL_LANES, all.top, distance);
            const sl_real sum = __shfl_xor_sync(SL_ALL_LANES, all.sum, distance);
            all = both(all, {top, sum});
        }
        if (sl_lane() == 0) {
            lse[i] = (sl_real)((double)all.top + sl_ln((double)all.sum));
        }
    }
}

/* z. */
template <typename Edges> struct attended_rows : sl_plain_list<typename Edges::source, sl_real> {
    static const bool weighs_terms = true;
    static const bool adds_self = true;
    struct attention<Edges> to;
    const sl_real *lse;
    sl_real *z;

    __device__ struct sl_item item_of(uint32_t i, uint32_t) const
    {
        const typename Edges::source *own = to.self + to.place(i);
        const uint32_t d = to.destination(i);
        const sl_real share = sl_attend_share(to.score(i, own), __ldg(lse + i));
        return {to.bound(d), to.bound(d + 1), z + to.place(i), 0, i, share, own};
    }
    __device__ const typename Edges::source *row(const struct sl_item &it, uint64_t e, uint32_t, sl_real *weight) const
    {
        const typename Edges::source *columns = to.source(it.id, e);
        if (columns != nullptr) {
            *weight = sl_attend_share(to.score(it.id, columns), __ldg(lse + it.id));
        }
        return columns;
    }
};

/* ge of a term, from its columns. */
template <typename U> struct side_terms {
    struct attention<sl_block_edges<U>> to;
    const sl_real *gz, *lse;

    __device__ sl_real share(uint32_t i, const U *columns) const
    {
        return sl_attend_share(to.score(i, columns), __ldg(lse + i));
    }
    __device__ sl_real da(uint32_t i, const U *columns) const
    {
        return to.row.dot(gz + to.place(i), columns);
    }
};

/* The sides: r, lse and c of each item. */
template <typename U>
static __global__ void see_sides(const struct side_terms<U> terms, uint32_t n_items, sl_real *sides)
{
    const struct attention<sl_block_edges<U>> &to = terms.to;
    const struct sl_heads heads = to.row.heads;
    for (uint64_t w = sl_warp(); w < n_items; w += sl_n_warps()) {
        const uint32_t i = (uint32_t)w;
        const U *own = to.self + to.place(i);
        const uint64_t end = to.bound(to.destination(i) + 1);
        sl_real sum = sl_lane() == 0 ? terms.share(i, own) * terms.da(i, own) : 0;
        for (uint64_t e = to.bound(to.destination(i)) + sl_lane(); e < end; e += SL_WARP) {
            const U *columns = to.source(i, e);
            if (columns != nullptr) {
                sum += terms.share(i, columns) * terms.da(i, columns);
            }
        }
        sum = sl_warp_sum(sum);
        sl_real *side = sides + (size_t)to.destination(i) * sl_attend_side(heads, true);
        for (uint32_t c = sl_lane(); c < to.row.width; c += SL_WARP) {
            side[to.head(i) * to.row.width + c] = __ldg(to.r + to.place(i) + c);
        }
        if (sl_lane() == 0) {
            side[heads.n_columns + to.head(i)] = __ldg(terms.lse + i);
            side[heads.n_columns + heads.n_heads + to.head(i)] = sum;
        }
    }
}

/* Rows of GR or, with OF_A, ga. sides: as see_sides wrote them. */
template <typename U, bool OF_A> struct side_gradients : sl_plain_list<U, sl_real> {
    static const bool weighs_terms = true;
    static const bool adds_self = true;
    struct side_terms<U> terms;
    const sl_real *sides;
    sl_real *out;

    __device__ sl_real ge(uint32_t i, const U *columns) const
    {
        const struct sl_heads heads = terms.to.row.heads;
        const sl_real *side = sides + (size_t)terms.to.destination(i) * sl_attend_side(heads, true);
        const sl_real c = __ldg(side + heads.n_columns + heads.n_heads + terms.to.head(i));
        return terms.share(i, columns) * (terms.da(i, columns) - c);
    }
    __device__ struct sl_item item_of(uint32_t i, uint32_t) const
    {
        const U *own = terms.to.self + terms.to.place(i);
        const uint32_t d = terms.to.destination(i);
        return {terms.to.bound(d), terms.to.bound(d + 1), out + terms.to.place(i), 0, i, ge(i, own), own};
    }
    __device__ const U *row(const struct sl_item &it, uint64_t e, uint32_t, sl_real *weight) const
    {
        const U *columns = terms.to.source(it.id, e);
        if (columns != nullptr) {
            *weight = ge(it.id, columns);
        }
        return columns;
    }
    template <typename V> __device__ V of(const struct sl_item &it, uint32_t column, V x) const
    {
        x = sl_plus(x, vector_of<V>(terms.to.r + terms.to.place(it.id), column));
        if (OF_A) {
            return score_of(x);
        }
        return scaled(vector_of<V>(terms.to.row.a + terms.to.head(it.id) * terms.to.row.width, column), slope_of(x));
    }
};

/* ---- by source ---- */

/* The transposed block, and the rows that get gradients. Item i is head i % K of target i / K. */
template <typename U> struct targets {
    struct head_rows row;
    const uint32_t *offsets, *rows; /* offsets: from the first target on. NULL: the one term of a target is its row */
    struct sl_device_rows gz, sides;
    struct sl_asked asked; /* the rows of targets. inverse NULL: in order */
    uint32_t row0, n_rows; /* rows row0 .. row0 + n_rows - 1 have room */
    const U *u;            /* their rows */

    /* The row of item i, counted from row0; n_rows or more: none. */
    __device__ uint32_t place(uint32_t i) const
    {
        const uint32_t t = i / row.heads.n_heads;
        if (asked.inverse == nullptr) {
            return t;
        }
        return __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + t) - row0;
    }
    __device__ uint32_t head(uint32_t i) const
    {
        return i % row.heads.n_heads;
    }
    __device__ struct sl_item item_of(uint32_t i, sl_real *gu) const
    {
        const uint32_t t = i / row.heads.n_heads;
        const uint32_t at = place(i);
        if (at >= n_rows) {
            return {0, 0, nullptr, 0, 0, 0, nullptr};
        }
        const size_t first = (size_t)at * row.heads.n_columns + head(i) * row.width;
        if (offsets == nullptr) {
            return {row0 + at, row0 + at + 1, gu + first, 0, i, 0, u + first};
        }
        return {__ldg(offsets + t), __ldg(offsets + t + 1), gu + first, 0, i, 0, u + first};
    }
    /* The destination of term e. SL_NONE: it is the target itself, which has its term already. */
    __device__ uint32_t destination(uint32_t i, uint64_t e) const
    {
        if (offsets == nullptr) {
            return (uint32_t)e;
        }
        const uint32_t d = __ldg(rows + e);
        return asked.inverse != nullptr && d == row0 + place(i) ? SL_NONE : d;
    }
};

/* The gradient of U by way of Z or, with OF_SCORE, by way of the scores. */
template <typename U, bool OF_SCORE> struct source_gradients : sl_plain_list<sl_real, sl_real> {
    static const bool weighs_terms = true;
    struct targets<U> to;
    sl_real *gu;

    __device__ struct sl_item item_of(uint32_t i, uint32_t) const
    {
        return to.item_of(i, gu);
    }
    __device__ const sl_real *row(const struct sl_item &it, uint64_t e, uint32_t, sl_real *weight) const
    {
        const struct sl_heads heads = to.row.heads;
        const uint32_t d = to.destination(it.id, e);
        if (d == SL_NONE) {
            return nullptr;
        }
        const uint32_t k = to.head(it.id);
        const sl_real *side = sl_chunk_row<sl_real>(to.sides, d, sl_attend_side(heads, true));
        const sl_real *r = side + k * to.row.width;
        const sl_real *gz = sl_chunk_row<sl_real>(to.gz, d, heads.n_columns) + k * to.row.width;
        const U *u = (const U *)it.self;
        *weight = sl_attend_share(to.row.score(k, r, u), __ldg(side + heads.n_columns + k));
        if (!OF_SCORE) {
            return gz;
        }
        *weight *= to.row.dot(gz, u) - __ldg(side + heads.n_columns + heads.n_heads + k);
        return r;
    }
    template <typename V> __device__ V of(const struct sl_item &it, uint32_t column, V x) const
    {
        if (!OF_SCORE) {
            return x;
        }
        const V a = vector_of<V>(to.row.a + to.head(it.id) * to.row.width, column);
        return scaled(a, slope_of(sl_plus(x, vector_of<V>((const U *)it.self, column))));
    }
};

template <typename S> static __global__ void store_rows(size_t n, const sl_real *from, S *to)
{
    for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
        sl_store(from[i], to + i);
    }
}

/* ---- launchers ---- */

/* addresses: of the sources' rows. */
template <typename Edges>
static struct attention<Edges> attention_of(const struct sl_dynamic *to, const Edges &edges, uintptr_t *addresses) {
    const struct sl_heads heads = to->heads;
    const typename Edges::source *self = (const typename Edges::source *)sl_edges_own_row(to->edges, heads.n_columns);
    *addresses |= (uintptr_t)to->r | sl_quad_address(sl_dtype_of<typename Edges::source>(), self);
    return {edges, head_rows_of(heads, to->a, *addresses), self, to->r};
}

enum sl_status
sl_dynamic_forward_cuda(cudaStream_t stream, const struct sl_dynamic *to, sl_real *z_out, sl_real *lse_out)
{
    const uint32_t n_items = to->edges->n_rows * to->heads.n_heads;
    sl_scratch memory(stream);
    if (lse_out == nullptr) {
        SL_CHECK(memory.take(n_items * sizeof *lse_out, "sl_dynamic_forward: lse"));
        lse_out = memory.as<sl_real>();
    }
    return sl_by_edges("sl_dynamic_forward", stream, to->edges, [&](const auto &edges, uintptr_t addresses) {
        typedef std::decay_t<decltype(edges)> Edges;
        const struct attention<Edges> rows = attention_of(to, edges, &addresses);
        const struct attended_rows<Edges> list = {
            {}, rows, lse_out, z_out
        };
        SL_CHECK(sl_start("sl_dynamic_forward: lse", stream, sl_warp_blocks(n_items), score_lists<Edges>, rows, n_items,
                          lse_out));
        return sl_start_lists("sl_dynamic_forward", stream, list, n_items, rows.row.width, 0,
                              addresses | (uintptr_t)z_out);
    });
}

template <bool OF_A, typename U>
static enum sl_status start_side(cudaStream_t stream, const struct side_terms<U> &terms, uint32_t n_items,
                                 const sl_real *sides, sl_real *out, uintptr_t addresses)
{
    const struct side_gradients<U, OF_A> list = {
        {}, terms, sides, out
    };
    return sl_start_lists("sl_dynamic_sides", stream, list, n_items, terms.to.row.width, 0,
                          addresses | (uintptr_t)terms.to.row.a | (uintptr_t)out);
}

enum sl_status sl_dynamic_sides_cuda(cudaStream_t stream, const struct sl_dynamic *to, const sl_real *gz,
                                     const sl_real *lse, sl_real *sides_out, sl_real *gr_out, sl_real *ga_out)
{
    const struct sl_edges *block = to->edges;
    const uint32_t n_items = block->n_rows * to->heads.n_heads;
    struct sl_device_sources x;
    sl_sources_on_device(block->x, &x);
    return sl_by_dtype(x.dtype, [&](auto u) {
        typedef decltype(u) U;
        const sl_block_edges<U> edges = {block->offsets + block->row0, block->sources, block->row0, x};
        uintptr_t addresses = sl_address_bits(&x) | (uintptr_t)gz;
        const struct side_terms<U> terms = {
            attention_of(to, edges, &addresses), gz, lse
        };
        SL_CHECK(
            sl_start("sl_dynamic_sides: c", stream, sl_warp_blocks(n_items), see_sides<U>, terms, n_items, sides_out));
        SL_CHECK(start_side<false>(stream, terms, n_items, sides_out, gr_out, addresses));
        return start_side<true>(stream, terms, n_items, sides_out, ga_out, addresses);
    });
}

template <typename U>
static struct targets<U> targets_of(const struct sl_attend_back *block, const void *u, uintptr_t *addresses) {
    struct targets<U> to = {
    };
    sl_chunks_on_device(block->gz, &to.gz);
    sl_chunks_on_device(block->sides, &to.sides);
    *addresses = sl_quad_address(sl_dtype_of<U>(), u) | sl_address_bits(SL_DTYPE_REAL, &to.gz) |
                 sl_address_bits(SL_DTYPE_REAL, &to.sides) | sl_attend_side(block->heads, true) * sizeof(sl_real);
    to.row = head_rows_of(block->heads, block->a, *addresses);
    to.rows = block->rows;
    to.u = (const U *)u;
    *addresses |= (uintptr_t)block->a;
    return to;
}

/* n targets. gu: if beta is 1, the gradients are added. */
template <typename U>
static enum sl_status start_back(const char *name, cudaStream_t stream, const struct targets<U> &to, uint32_t n,
                                 int beta, sl_real *gu, uintptr_t addresses)
{
    const struct source_gradients<U, false> by_z = {
        {}, to, gu
    };
    const struct source_gradients<U, true> by_score = {
        {}, to, gu
    };
    const uint32_t n_items = n * to.row.heads.n_heads;
    addresses |= (uintptr_t)gu;
    SL_CHECK(sl_start_lists(name, stream, by_z, n_items, to.row.width, beta, addresses));
    return sl_start_lists(name, stream, by_score, n_items, to.row.width, 1, addresses);
}

enum sl_status sl_dynamic_backward_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n,
                                        uint32_t t0, enum sl_dtype dtype, const void *u, void *gu_out)
{
    const size_t n_numbers = (size_t)n * block->heads.n_columns;
    return sl_by_dtype(dtype, [&](auto entry) {
        typedef decltype(entry) U;
        uintptr_t addresses;
        struct targets<U> to = targets_of<U>(block, u, &addresses);
        to.offsets = block->offsets + t0;
        to.n_rows = n;
        if (dtype == SL_DTYPE_REAL) {
            return start_back("sl_dynamic_backward", stream, to, n, 0, (sl_real *)gu_out, addresses);
        }
        sl_scratch sums(stream);
        SL_CHECK(sums.take(n_numbers * sizeof(sl_real), "sl_dynamic_backward: gradients before they are rounded"));
        SL_CHECK(start_back("sl_dynamic_backward", stream, to, n, 0, sums.as<sl_real>(), addresses));
        return sl_start("sl_dynamic_backward: rounded", stream, sl_blocks(n_numbers), store_rows<U>, n_numbers,
                        (const sl_real *)sums.as<sl_real>(), (U *)gu_out);
    });
}

/* Rows of g get gradients. offsets NULL: the first n of them, from themselves. */
static enum sl_status add_to_rows(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n,
                                  const uint32_t *offsets, struct sl_asked asked, enum sl_dtype dtype, const void *u,
                                  const struct sl_gradient *g)
{
    return sl_by_dtype(dtype, [&](auto entry) {
        typedef decltype(entry) U;
        uintptr_t addresses;
        struct targets<U> to = targets_of<U>(block, u, &addresses);
        to.offsets = offsets;
        to.asked = asked;
        to.row0 = g->row0;
        to.n_rows = g->n_rows;
        return start_back("sl_dynamic_accumulate", stream, to, n, 1, g->rows, addresses);
    });
}

enum sl_status sl_dynamic_self_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t n_rows,
                                    enum sl_dtype dtype, const void *u, const struct sl_gradient *g)
{
    return add_to_rows(stream, block, n_rows, nullptr, sl_asked(), dtype, u, g);
}

enum sl_status sl_dynamic_own_cuda(cudaStream_t stream, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                                   const struct sl_asked *asked, enum sl_dtype dtype, const void *u,
                                   const struct sl_gradient *g)
{
    return add_to_rows(stream, block, n, block->offsets + t0, *asked, dtype, u, g);
}
