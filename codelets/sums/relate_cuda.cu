/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Means by relation, mixed by components or not, and the transposed sums, on a device. A list (codelets/sums/lists.cuh)
 * is of one slab of a sum. Its terms are slabs of its entries' rows, in the order of the entries: of each row the slab
 * of the entry's relation, or with components all slabs. A term's weight is 1 / n(d, r), times the component and the
 * edge's weight. For the gradient of the components the edges are cut into stretches of the same length, whatever the
 * rows, with a warp for each. */
#include <type_traits>

#include "codelets/sampling/runs.h"
#include "codelets/sums/relate.h"

#include "codelets/sums/lists.cuh"
#include "support/minmax.h"

/* Edges (sl_block_edges or sl_part_edges) with relations. */
template <typename Edges> struct typed : Edges {
    const uint16_t *relations;
    const float *weights; /* NULL: 1 */
};

/* ---- lists ---- */

/* Terms that an entry gives to a slab of the other side: all slabs of its row of `width` if components mix them. */
static inline __device__ uint32_t terms_each(const struct sl_slabs &slabs, uint32_t width)
{
    return slabs.c == NULL ? 1 : width / slabs.n;
}

/* The weight of edge e. */
static inline __device__ sl_real weight_at(const float *weights, uint64_t e)
{
    return weights == nullptr ? 1 : (sl_real)__ldg(weights + e);
}

/* The weight of an entry of `relation`, one of n such. base: its slab or the item's, whichever side has several. */
static inline __device__ sl_real weight_of(const struct sl_slabs &slabs, uint64_t n, uint32_t relation, uint32_t base)
{
    const sl_real weight = 1 / (sl_real)n;
    return slabs.c == NULL ? weight : weight * __ldg(slabs.c + (size_t)relation * slabs.n_bases + base);
}

/* Slabs of sums. Item i: slab i % n_slabs of row i / n_slabs; its id is the slab. Rows: typed edges. */
template <typename Rows, typename T> struct slab_sums : sl_plain_list<typename Rows::source, T> {
    static const bool weighs_terms = true;
    Rows rows;
    struct sl_slabs slabs;
    T *m;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        const uint32_t n_slabs = slabs.m_width / n_columns;
        const uint32_t slab = i % n_slabs;
        const uint32_t n_terms = terms_each(slabs, slabs.x_width);
        uint64_t begin = rows.bound(i / n_slabs);
        uint64_t end = rows.bound(i / n_slabs + 1);
        sl_real weight = 0;
        if (slabs.c == NULL && slabs.m_step > 0) { /* the slab has one run */
            begin = sl_relation_from(rows.relations, begin, end, slab);
            end = sl_relation_from(rows.relations, begin, end, slab + 1);
            weight = 1 / (sl_real)(end - begin);
        }
        return {begin * n_terms, end * n_terms, m + (size_t)i * n_columns, weight, slab, 0, nullptr};
    }
    __device__ const typename Rows::source *row(const struct sl_item &it, uint64_t term, uint32_t,
                                                sl_real *weight) const
    {
        const uint32_t n_terms = terms_each(slabs, slabs.x_width);
        const uint64_t e = term / n_terms;
        const uint32_t base = (uint32_t)(term % n_terms);
        const uint32_t relation = __ldg(rows.relations + e);
        const uint32_t slab = slabs.c == NULL ? relation : base;
        if (it.weight == 0) { /* the list has several runs */
            const uint64_t n = sl_relation_count(rows.relations, it.begin / n_terms, it.end / n_terms, relation);
            *weight = weight_of(slabs, n, relation, it.id + base);
        }
        *weight *= weight_at(rows.weights, e);
        return rows.row(e, slabs.x_width) + (size_t)slab * slabs.x_step;
    }
};

/* Slabs of the rows' gradients. Item i: slab i % n_slabs of position t0 + i / n_slabs. */
template <typename T> struct slab_gradients : sl_plain_list<sl_real, T> {
    static const bool weighs_terms = true;
    struct sl_transposed block;
    struct sl_device_rows gm;
    struct sl_slabs slabs;
    T *out;
    uint64_t t0;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        const uint32_t n_slabs = slabs.x_width / n_columns;
        const uint64_t n_terms = terms_each(slabs, slabs.m_width);
        const uint32_t *bounds = block.back_offsets + t0 + i / n_slabs;
        return {__ldg(bounds) * n_terms,
                __ldg(bounds + 1) * n_terms,
                out + (size_t)i * n_columns,
                0,
                i % n_slabs,
                0,
                nullptr};
    }
    __device__ const sl_real *row(const struct sl_item &it, uint64_t term, uint32_t, sl_real *weight) const
    {
        const uint32_t n_terms = terms_each(slabs, slabs.m_width);
        const uint64_t e = term / n_terms;
        const uint32_t base = (uint32_t)(term % n_terms);
        const uint32_t relation = __ldg(block.back_relations + e);
        if (slabs.c == NULL && slabs.x_step > 0 && relation != it.id) {
            return nullptr;
        }
        const uint32_t d = __ldg(block.back_rows + e);
        const uint64_t n = sl_relation_count(block.relations, __ldg(block.edge_offsets + d),
                                             __ldg(block.edge_offsets + d + 1), relation);
        const uint32_t slab = slabs.c == NULL ? relation : base;
        *weight = weight_of(slabs, n, relation, it.id + base) * weight_at(block.back_weights, e);
        return sl_chunk_row<sl_real>(gm, d, slabs.m_width) + (size_t)slab * slabs.m_step;
    }
};

/* The same for a PE's own sources, into the rows of g. Sources outside are skipped. */
struct own_slabs : slab_gradients<sl_real> {
    struct sl_asked asked;
    struct sl_gradient g;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        const uint32_t n_slabs = slabs.x_width / n_columns;
        const uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + i / n_slabs) -
                             g.row0; /* a row below row0 wraps, and is too large */
        if (row >= g.n_rows) {
            return {0, 0, nullptr, 0, 0, 0, nullptr};
        }
        struct sl_item it = slab_gradients<sl_real>::item_of(i, n_columns);
        it.out = g.rows + (size_t)row * g.n_columns + (size_t)it.id * n_columns;
        return it;
    }
};

/* ---- the gradient of the components ---- */

/* The edges of n_rows rows in n_stretches stretches. partial: the components' sums of each stretch. */
struct stretches {
    uint32_t n_rows, n_stretches;
    uint32_t n_components, n_bases;
    double *partial;
};

/* The row of entry e: the last that begins at e or before. */
template <typename Rows> static inline __device__ uint32_t row_of(const Rows &rows, uint32_t n_rows, uint64_t e)
{
    uint32_t begin = 0;
    uint32_t end = n_rows;
    while (end - begin > 1) {
        const uint32_t middle = begin + (end - begin) / 2;
        if (rows.bound(middle) <= e) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* An edge's part of the components: weight times the product of two slabs. last: the stretch's next edge has another
 * relation, or there is none. */
template <typename S> struct factors {
    const S *x;
    const sl_real *g;
    sl_real weight;
    uint32_t relation;
    bool last;
};

template <typename Rows, typename S>
static inline __device__ void find_factors(const Rows &rows, const struct sl_slabs &slabs, uint32_t n_rows,
                                           const sl_real *gm, uint64_t e, uint32_t base, struct factors<S> *out)
{
    const uint32_t d = row_of(rows, n_rows, e);
    const uint32_t relation = __ldg(rows.relations + e);
    const uint64_t n = sl_relation_count(rows.relations, rows.bound(d), rows.bound(d + 1), relation);
    const size_t width = slabs.m_width;
    out->x = rows.row(e, slabs.x_width) + (size_t)base * slabs.x_step;
    out->g = gm + d * width + (size_t)base * slabs.m_step;
    out->weight = 1 / (sl_real)n * weight_at(rows.weights, e);
    out->relation = relation;
}

/* Item i: base i % n_bases over stretch i / n_bases, one warp. Each lane looks up one edge. Then the edges are
 * multiplied one after the other, with the columns on the lanes. */
template <typename Rows>
static __global__ void sum_components(const Rows rows, const struct sl_slabs slabs, const struct stretches to,
                                      const sl_real *gm)
{
    typedef typename Rows::source S;
    const uint64_t first = rows.bound(0);
    const uint64_t n_edges = rows.bound(to.n_rows) - first;
    for (uint64_t i = sl_warp(); i < (uint64_t)to.n_stretches * to.n_bases; i += sl_n_warps()) {
        const uint64_t s = i / to.n_bases;
        const uint32_t base = (uint32_t)(i % to.n_bases);
        const uint64_t end = first + n_edges * (s + 1) / to.n_stretches;
        double *sums = to.partial + s * to.n_components + base;
        double sum = 0;
        for (uint64_t e = first + n_edges * s / to.n_stretches; e < end; e += SL_WARP) {
            const uint64_t own = e + sl_lane();
            struct factors<S> mine = factors<S>();
            if (own < end) {
                find_factors(rows, slabs, to.n_rows, gm, own, base, &mine);
                mine.last = own + 1 == end || __ldg(rows.relations + own + 1) != mine.relation;
            }
            for (uint32_t k = 0; k < SL_WARP && e + k < end; k++) {
                const S *x = (const S *)__shfl_sync(SL_ALL_LANES, (unsigned long long)mine.x, k);
                const sl_real *g = (const sl_real *)__shfl_sync(SL_ALL_LANES, (unsigned long long)mine.g, k);
                sl_real product = 0;
                for (uint32_t j = sl_lane(); j < slabs.n; j += SL_WARP) {
                    product += sl_wide(x[j]) * g[j];
                }
                sum += (double)(__shfl_sync(SL_ALL_LANES, mine.weight, k) * product);
                if (__shfl_sync(SL_ALL_LANES, (uint32_t)mine.last, k)) {
                    const uint32_t relation = __shfl_sync(SL_ALL_LANES, mine.relation, k);
                    sum = sl_warp_sum(sum);
                    if (sl_lane() == 0) {
                        sums[(size_t)relation * to.n_bases] += sum;
                    }
                    sum = 0;
                }
            }
        }
    }
}

/* One warp for each component. */
static __global__ void add_stretches(const struct stretches from, sl_real *gc)
{
    for (uint64_t k = sl_warp(); k < from.n_components; k += sl_n_warps()) {
        double sum = 0;
        for (uint32_t s = sl_lane(); s < from.n_stretches; s += SL_WARP) {
            sum += from.partial[(size_t)s * from.n_components + k];
        }
        sum = sl_warp_sum(sum);
        if (sl_lane() == 0) {
            gc[k] = (sl_real)sum;
        }
    }
}

/* ---- launchers ---- */

enum sl_status sl_relate_forward_cuda(cudaStream_t stream, const struct sl_edges *edges, const struct sl_slabs *slabs,
                                      int beta, enum sl_dtype m_dtype, void *m_out)
{
    const char *name = "sl_relate_forward";
    const uint32_t n_items = edges->n_rows * (slabs->m_width / slabs->n);
    return sl_by_edges(name, stream, edges, [&](const auto &of_edges, uintptr_t addresses) {
        typedef std::decay_t<decltype(of_edges)> Edges;
        const typed<Edges> rows = {of_edges, edges->relations, edges->edge_weights};
        return sl_by_result<typename Edges::source>(m_dtype, [&](auto t) {
            const slab_sums<typed<Edges>, decltype(t)> list = {{}, rows, *slabs, (decltype(t) *)m_out};
            return sl_start_lists(name, stream, list, n_items, slabs->n, beta,
                                  addresses | sl_quad_address(m_dtype, m_out));
        });
    });
}

enum sl_status sl_relate_backward_cuda(cudaStream_t stream, const struct sl_transposed *block,
                                       const struct sl_chunks *gm, const struct sl_slabs *slabs, uint32_t t0,
                                       uint32_t n, enum sl_dtype dtype, void *out)
{
    struct sl_device_rows rows;
    sl_chunks_on_device(gm, &rows);
    const uintptr_t addresses = sl_address_bits(SL_DTYPE_REAL, &rows) | sl_quad_address(dtype, out);
    const uint32_t n_items = n * (slabs->x_width / slabs->n);
    return sl_by_dtype(dtype, [&](auto t) {
        const slab_gradients<decltype(t)> list = {{}, *block, rows, *slabs, (decltype(t) *)out, t0};
        return sl_start_lists("sl_relate_backward", stream, list, n_items, slabs->n, 0, addresses);
    });
}

enum sl_status sl_relate_own_cuda(cudaStream_t stream, const struct sl_transposed *block, const struct sl_chunks *gm,
                                  const struct sl_slabs *slabs, uint32_t t0, uint32_t n, const struct sl_asked *asked,
                                  const struct sl_gradient *g)
{
    struct sl_device_rows rows;
    sl_chunks_on_device(gm, &rows);
    const uintptr_t addresses = sl_address_bits(SL_DTYPE_REAL, &rows) | (uintptr_t)g->rows;
    const struct own_slabs list = {{{}, *block, rows, *slabs, g->rows, t0}, *asked, *g};
    return sl_start_lists("sl_relate_accumulate: own sources", stream, list, n * (slabs->x_width / slabs->n), slabs->n,
                          1, addresses);
}

#define STRETCHES 8192u        /* at most */
#define PARTIAL_SUMS 0x200000u /* about so many at most: 16 MiB */

enum sl_status sl_relate_components_cuda(cudaStream_t stream, const struct sl_edges *edges,
                                         const struct sl_slabs *slabs, const sl_real *gm, uint32_t n_relations,
                                         sl_real *gc_out)
{
    struct sl_device_sources x;
    sl_sources_on_device(edges->x, &x);
    const char *name = "sl_relate_components";
    const uint32_t n_components = n_relations * slabs->n_bases;
    const uint32_t n_most = sl_min_u32(STRETCHES, PARTIAL_SUMS / n_components + 1);
    const uint32_t n_stretches = sl_min_u32(n_most, edges->n_rows);
    const size_t bytes = (size_t)n_stretches * n_components * sizeof(double);
    sl_scratch partial(stream);
    SL_CHECK(partial.take(bytes, "the partial sums of products"));
    SL_CHECK(sl_cuda_status(cudaMemsetAsync(partial.as<double>(), 0, bytes, stream), name));
    const struct stretches stretches = {edges->n_rows, n_stretches, n_components, slabs->n_bases, partial.as<double>()};
    SL_CHECK(sl_by_dtype(x.dtype, [&](auto s) {
        typedef typed<sl_block_edges<decltype(s)>> Rows;
        const Rows rows = {
            {edges->offsets + edges->row0, edges->sources, edges->row0, x}, edges->relations, edges->edge_weights};
        return sl_start(name, stream, sl_warp_blocks((uint64_t)n_stretches * slabs->n_bases), sum_components<Rows>,
                        rows, *slabs, stretches, gm);
    }));
    return sl_start(name, stream, sl_warp_blocks(n_components), add_stretches, stretches, gc_out);
}
