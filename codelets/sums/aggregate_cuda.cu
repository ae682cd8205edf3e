/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Weighted sums over sampled in-neighbours, and the transposed sums, on a device. All sums use one kernel
 * (codelets/sums/lists.cuh). A list that is not long has the bits of the CPU. */
#include <cusparse.h>
#include <type_traits>

#include "codelets/sampling/sample.h"
#include "codelets/sums/aggregate.h"
#include "codelets/sums/lists.cuh"

#define TARGETS 64 /* owners per launch of the backward kernel */

/* ---- lists ---- */

/* Means of destinations into rows of m_width. Edges: sl_block_edges or sl_part_edges. */
template <typename Edges, typename T> struct means : sl_plain_list<typename Edges::source, T> {
    Edges edges;
    T *m;
    uint32_t m_width;

    __device__ struct sl_item item_of(uint32_t i, uint32_t) const
    {
        const uint64_t begin = edges.bound(i);
        const uint64_t end = edges.bound(i + 1);
        return {begin, end, m + (size_t)i * m_width, 1 / (sl_real)(end - begin), 0, 0, nullptr};
    }
    __device__ const typename Edges::source *row(const struct sl_item &, uint64_t e, uint32_t n_columns,
                                                 sl_real *) const
    {
        return edges.row(e, n_columns);
    }
};

/* The weight of an edge, from the item's factor, the other vertex' factor and its id. */
static inline __device__ sl_real weight_of(const struct sl_item &it, sl_real other, sl_vertex id)
{
    return id == it.id ? 0 : it.weight * other;
}

/* The same with symmetric weights. */
template <typename Edges, typename T> struct symmetric_sums : means<Edges, T> {
    static const bool weighs_terms = true;
    static const bool adds_self = true;
    struct sl_weights weights;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        struct sl_item it = means<Edges, T>::item_of(i, n_columns);
        it.id = sl_weights_destination(&weights, this->edges.row0 + i);
        it.weight = sl_weights_share(&weights, it.id, it.end - it.begin);
        it.self_weight = sl_weights_self(&weights, it.id);
        it.self = this->edges.own_row(i, it.id, n_columns);
        return it;
    }
    __device__ const typename Edges::source *row(const struct sl_item &it, uint64_t e, uint32_t n_columns,
                                                 sl_real *weight) const
    {
        const uint32_t position = __ldg(this->edges.sources + e);
        const sl_vertex id = sl_weights_source(&weights, position);
        *weight = weight_of(it, sl_weights_factor(&weights, id), id);
        return this->edges.row_of(position, n_columns);
    }
};

/* Any list, here or below, with a weight for each edge. */
template <typename List> struct edge_weighted : List {
    static const bool weighs_terms = true;
    const float *edge_weights;

    __device__ const typename List::source *row(const struct sl_item &it, uint64_t e, uint32_t n_columns,
                                                sl_real *weight) const
    {
        const typename List::source *found = List::row(it, e, n_columns, weight);
        *weight *= __ldg(edge_weights + e);
        return found;
    }
};

/* A block by source. The terms are gradients of destinations, each divided by the degree. */
struct transposed_means {
    typedef sl_real source;
    const uint32_t *back_offsets;
    const uint32_t *back_rows;
    const uint32_t *edge_offsets;
    struct sl_device_rows gm;

    __device__ void begin(uint32_t, struct sl_item *) const
    {
    }
    __device__ uint32_t degree(uint32_t d) const
    {
        return __ldg(edge_offsets + d + 1) - __ldg(edge_offsets + d);
    }
    __device__ const sl_real *row(const struct sl_item &, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        uint32_t d = __ldg(back_rows + e);
        *weight = 1 / (sl_real)degree(d);
        return sl_chunk_row<sl_real>(gm, d, n_columns);
    }
};

/* The same with symmetric weights. */
struct transposed_sums : transposed_means {
    struct sl_weights weights;

    __device__ void begin(uint32_t t, struct sl_item *it) const
    {
        it->id = sl_weights_source(&weights, t);
        it->weight = sl_weights_factor(&weights, it->id);
    }
    __device__ const sl_real *row(const struct sl_item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        const uint32_t d = __ldg(back_rows + e);
        const sl_vertex id = sl_weights_destination(&weights, d);
        *weight = weight_of(it, sl_weights_share(&weights, id, degree(d)), id);
        return sl_chunk_row<sl_real>(gm, d, n_columns);
    }
};

/* Position t of a block by source. out: the row of its sum. */
template <typename Transposed>
static inline __device__ struct sl_item item_at(const Transposed &block, uint32_t t, void *out)
{
    struct sl_item it = {__ldg(block.back_offsets + t), __ldg(block.back_offsets + t + 1), out, 0, 0, 0, nullptr};
    block.begin(t, &it);
    return it;
}

/* Gradients that go back to other owners. Items first[k] .. first[k + 1] - 1 are positions t0[k] and on, and rows of
 * packed[k]. */
template <typename Transposed, typename T> struct sent_gradients : sl_plain_list<sl_real, T>, Transposed {
    typedef sl_real source;
    static const bool weighs_terms = true;
    uint32_t t0[TARGETS];
    uint32_t first[TARGETS + 1];
    T *packed[TARGETS];

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        uint32_t k = 0;
        while (i >= first[k + 1]) {
            k++;
        }
        const uint32_t row = i - first[k];
        return item_at<Transposed>(*this, t0[k] + row, packed[k] + (size_t)row * n_columns);
    }
};

/* A PE's own sources, from position t0 on. Sources outside the rows of g are skipped. */
template <typename Transposed> struct own_gradients : sl_plain_list<sl_real, sl_real>, Transposed {
    typedef sl_real source;
    static const bool weighs_terms = true;
    struct sl_asked asked;
    struct sl_gradient g;
    uint32_t t0;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + i) -
                       g.row0; /* a row below row0 wraps, and is too large */
        if (row >= g.n_rows) {
            return {0, 0, nullptr, 0, 0, 0, nullptr};
        }
        return item_at<Transposed>(*this, t0 + i, g.rows + (size_t)row * n_columns);
    }
};

/* Self terms of the destinations: items without a list. */
struct self_gradients : sl_plain_list<sl_real, sl_real> {
    static const bool adds_self = true;
    struct sl_weights weights;
    struct sl_device_rows gm;
    struct sl_gradient g;

    __device__ struct sl_item item_of(uint32_t i, uint32_t n_columns) const
    {
        const sl_vertex id = sl_weights_destination(&weights, g.row0 + i);
        return {0,
                0,
                g.rows + (size_t)i * n_columns,
                0,
                id,
                sl_weights_self(&weights, id),
                sl_chunk_row<sl_real>(gm, g.row0 + i, n_columns)};
    }
    __device__ const sl_real *row(const struct sl_item &, uint64_t, uint32_t, sl_real *) const
    {
        return nullptr;
    }
};

/* ---- rows that are copied, or added once ---- */

/* The rows that a PE sent. Entry i says which row of g item i goes to; rows outside g are skipped. */
template <typename S> struct sent_rows {
    typedef S source;
    static const bool sums = false;
    struct sl_asked asked;
    const S *sent;
    struct sl_gradient g;

    __device__ const S *from(uint32_t i, uint32_t n_columns) const
    {
        return sent + (size_t)i * n_columns;
    }
    __device__ sl_real *to(uint32_t i, uint32_t n_columns) const
    {
        uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + i) - g.row0;
        return row < g.n_rows ? g.rows + (size_t)row * n_columns : nullptr;
    }
};

/* The sources of a block, in order of position. */
struct source_rows {
    typedef sl_real source;
    static const bool sums = false;
    sl_real *copy;
    struct sl_device_sources x;

    __device__ const sl_real *from(uint32_t i, uint32_t n_columns) const
    {
        return sl_source_row<sl_real>(x, i, n_columns);
    }
    __device__ sl_real *to(uint32_t i, uint32_t n_columns) const
    {
        return copy + (size_t)i * n_columns;
    }
};

/* ---- launchers ---- */

/* Launch a list as it is, or with the weights of its edges. */
template <typename Launch, typename List>
static enum sl_status start(const float *edge_weights, const Launch &launch, const List &list)
{
    if (edge_weights == nullptr) {
        return launch(list);
    }
    return launch(edge_weighted<List>{list, edge_weights});
}

/* list: the edges on the device, and where the sums go. */
template <typename Edges, typename T>
static enum sl_status sum_edges(const char *name, cudaStream_t stream, const struct sl_edges *edges,
                                const struct means<Edges, T> &list, uint32_t n_columns, int beta, uintptr_t addresses)
{
    auto sum = [&](const auto &of_edges) {
        return sl_start_some(name, stream, of_edges, edges->n_rows, n_columns, list.m_width, beta, addresses);
    };
    if (edges->weights == nullptr) {
        return start(edges->edge_weights, sum, list);
    }
    return start(edges->edge_weights, sum, symmetric_sums<Edges, T>{list, *edges->weights});
}

enum sl_status sl_aggregate_forward_cuda(cudaStream_t stream, const struct sl_edges *edges, uint32_t n_columns,
                                         int beta, uint32_t m_width, enum sl_dtype m_dtype, void *m_out)
{
    const char *name = "sl_aggregate_forward";
    const uintptr_t of_sums = sl_quad_address(m_dtype, m_out) | m_width * sizeof(sl_real);
    return sl_by_edges(name, stream, edges, [&](const auto &rows, uintptr_t addresses) {
        typedef std::decay_t<decltype(rows)> Edges;
        return sl_by_result<typename Edges::source>(m_dtype, [&](auto t) {
            const struct means<Edges, decltype(t)> list = {
                {}, rows, (decltype(t) *)m_out, m_width
            };
            return sum_edges(name, stream, edges, list, n_columns, beta, addresses | of_sums);
        });
    });
}

/* Gradients of stored type T, to at most TARGETS owners. */
template <typename T, typename Transposed>
static enum sl_status send_back(cudaStream_t stream, const Transposed &block, uint32_t n_columns, uint32_t n_targets,
                                const uint32_t *t0, const uint32_t *n, void *const *packed_out)
{
    struct sent_gradients<Transposed, T> list = {
        {}, block, {}, {},
        {
        }
    };
    uintptr_t addresses = sl_address_bits(SL_DTYPE_REAL, &block.gm);
    for (uint32_t k = 0; k < n_targets; k++) {
        list.t0[k] = t0[k];
        list.first[k + 1] = list.first[k] + n[k];
        list.packed[k] = (T *)packed_out[k];
        addresses |= sl_quad_address(sl_dtype_of<T>(), packed_out[k]);
    }
    return sl_start_lists("sl_aggregate_backward", stream, list, list.first[n_targets], n_columns, 0, addresses);
}

template <typename T>
static enum sl_status send_all_back(cudaStream_t stream, const struct sl_transposed *block,
                                    const struct transposed_means &means, uint32_t n_columns, uint32_t n_owners,
                                    const uint32_t *t0, const uint32_t *n, void *const *packed_out)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; k < n_owners && st == SL_OK; k += TARGETS) {
        uint32_t n_targets = n_owners - k < TARGETS ? n_owners - k : TARGETS;
        auto send = [&](const auto &list) {
            return send_back<T>(stream, list, n_columns, n_targets, t0 + k, n + k, packed_out + k);
        };
        if (block->weights == nullptr) {
            st = start(block->back_weights, send, means);
        } else {
            st = start(block->back_weights, send, transposed_sums{means, *block->weights});
        }
    }
    return st;
}

static struct transposed_means means_of(const struct sl_transposed *block, const struct sl_chunks *gm)
{
    struct transposed_means means = {block->back_offsets, block->back_rows, block->edge_offsets, {}};
    sl_chunks_on_device(gm, &means.gm);
    return means;
}

enum sl_status sl_aggregate_backward_cuda(cudaStream_t stream, const struct sl_transposed *block,
                                          const struct sl_chunks *gm, uint32_t n_columns, uint32_t n_owners,
                                          const uint32_t *t0, const uint32_t *n, enum sl_dtype dtype,
                                          void *const *packed_out)
{
    const struct transposed_means means = means_of(block, gm);
    return sl_by_dtype(dtype, [&](auto t) {
        return send_all_back<decltype(t)>(stream, block, means, n_columns, n_owners, t0, n, packed_out);
    });
}

static enum sl_status clear(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, sl_real *out)
{
    return sl_cuda_status(cudaMemsetAsync(out, 0, (size_t)n_rows * n_columns * sizeof *out, stream), "sl_accumulate");
}

enum sl_status sl_accumulate_begin_cuda(cudaStream_t stream, struct sl_gradient *g)
{
    return clear(stream, g->n_rows, g->n_columns, g->rows);
}

enum sl_status sl_accumulate_self_cuda(cudaStream_t stream, const struct sl_weights *weights, uint32_t n_gm,
                                       const struct sl_chunks *gm, const struct sl_gradient *g)
{
    struct self_gradients list = {{}, *weights, {}, *g};
    uint32_t n = n_gm <= g->row0 ? 0 : n_gm - g->row0 < g->n_rows ? n_gm - g->row0 : g->n_rows;
    sl_chunks_on_device(gm, &list.gm);
    return sl_start_lists("sl_accumulate", stream, list, n, g->n_columns, 0,
                          sl_address_bits(SL_DTYPE_REAL, &list.gm) | (uintptr_t)g->rows);
}

template <typename S>
static enum sl_status add_sent(cudaStream_t stream, uint32_t n, const struct sl_asked *asked, const void *sent,
                               int beta, const struct sl_gradient *g, uintptr_t addresses)
{
    struct sent_rows<S> rows = {
        *asked, (const S *)sent, *g
    };
    return sl_start_lists("sl_accumulate", stream, rows, n, g->n_columns, beta, addresses);
}

enum sl_status sl_accumulate_sent_cuda(cudaStream_t stream, uint32_t n, const struct sl_asked *asked,
                                       enum sl_dtype dtype, const void *sent, int beta, const struct sl_gradient *g)
{
    const uintptr_t addresses = sl_quad_address(dtype, sent) | (uintptr_t)g->rows;
    return sl_by_dtype(dtype,
                       [&](auto s) { return add_sent<decltype(s)>(stream, n, asked, sent, beta, g, addresses); });
}

enum sl_status sl_accumulate_own_cuda(cudaStream_t stream, const struct sl_transposed *block, uint32_t t0, uint32_t n,
                                      const struct sl_asked *asked, const struct sl_chunks *gm, int beta,
                                      const struct sl_gradient *g)
{
    const char *name = "sl_accumulate";
    const struct transposed_means means = means_of(block, gm);
    const uintptr_t addresses = sl_address_bits(SL_DTYPE_REAL, &means.gm) | (uintptr_t)g->rows;
    auto add = [&](const auto &by_source) {
        struct own_gradients<std::decay_t<decltype(by_source)>> list = {
            {}, by_source, *asked, *g, t0
        };
        return sl_start_lists(name, stream, list, n, g->n_columns, beta, addresses);
    };
    if (block->weights == nullptr) {
        return start(block->back_weights, add, means);
    }
    return start(block->back_weights, add, transposed_sums{means, *block->weights});
}

/* ---- cuSPARSE ---- */

static enum sl_status cusparse_status(cusparseStatus_t error, const char *call)
{
    if (error == CUSPARSE_STATUS_SUCCESS) {
        return SL_OK;
    }
    return sl_fail(SL_ECUDA, "%s: cuSPARSE failed: %s", call, cusparseGetErrorString(error));
}

/* The block in cuSPARSE's form: offsets from 0, and a weight for each edge. */
static __global__ void weigh_edges(uint32_t n_rows, const uint32_t *offsets, uint32_t *offsets_out, sl_real *weights)
{
    const uint32_t origin = __ldg(offsets);
    for (uint64_t d = sl_warp(); d <= n_rows; d += sl_n_warps()) {
        const uint32_t begin = __ldg(offsets + d);
        const uint32_t end = d < n_rows ? __ldg(offsets + d + 1) : begin;
        if (sl_lane() == 0) {
            offsets_out[d] = begin - origin;
        }
        for (uint32_t e = begin + sl_lane(); e < end; e += SL_WARP) {
            weights[e - origin] = 1 / (sl_real)(end - begin);
        }
    }
}

/* M = beta M + A X. Its descriptors are released with it. */
struct product {
    cusparseSpMatDescr_t a = nullptr;
    cusparseDnMatDescr_t x = nullptr;
    cusparseDnMatDescr_t m = nullptr;

    ~product()
    {
        if (m != nullptr) {
            cusparseDestroyDnMat(m);
        }
        if (x != nullptr) {
            cusparseDestroyDnMat(x);
        }
        if (a != nullptr) {
            cusparseDestroySpMat(a);
        }
    }
};

/* CSR algorithm 3 is the one that gives the same bits each time. */
static enum sl_status multiply(cudaStream_t stream, cusparseHandle_t handle, const struct product *p, int beta)
{
    const char *name = "sl_aggregate_forward by cuSPARSE";
    const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
    const cusparseSpMMAlg_t algorithm = CUSPARSE_SPMM_CSR_ALG3;
    const float one = 1;
    const float old = beta ? 1 : 0;
    size_t bytes = 0;
    sl_scratch buffer(stream);
    SL_CHECK(cusparse_status(cusparseSetStream(handle, stream), name));
    SL_CHECK(cusparse_status(
        cusparseSpMM_bufferSize(handle, as_is, as_is, &one, p->a, p->x, &old, p->m, CUDA_R_32F, algorithm, &bytes),
        name));
    SL_CHECK(buffer.take(bytes, name));
    return cusparse_status(
        cusparseSpMM(handle, as_is, as_is, &one, p->a, p->x, &old, p->m, CUDA_R_32F, algorithm, buffer.as<void>()),
        name);
}

/* The first and the last edge of the block. Waits for the stream. */
static enum sl_status read_bounds(cudaStream_t stream, uint32_t n_rows, const uint32_t *offsets, uint32_t bounds[2])
{
    const char *name = "sl_aggregate_forward by cuSPARSE: the number of edges";
    SL_CHECK(sl_cuda_status(cudaMemcpyAsync(&bounds[0], offsets, 4, cudaMemcpyDeviceToHost, stream), name));
    SL_CHECK(sl_cuda_status(cudaMemcpyAsync(&bounds[1], offsets + n_rows, 4, cudaMemcpyDeviceToHost, stream), name));
    return sl_cuda_status(cudaStreamSynchronize(stream), name);
}

enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, cusparseHandle_t handle, const struct sl_edges *edges,
                                             uint32_t n_columns, int beta, sl_real *m_out)
{
    struct sl_device_sources x;
    sl_sources_on_device(edges->x, &x);
    const uint32_t n_rows = edges->n_rows;
    const uint32_t *offsets = edges->offsets + edges->row0;
    const uint32_t *edge_sources = edges->sources;
    const char *name = "sl_aggregate_forward by cuSPARSE";
    const uint32_t n_sources = x.n_sources;
    struct product p;
    uint32_t bounds[2];
    sl_scratch rows(stream);
    sl_scratch weights(stream);
    sl_scratch own_offsets(stream);
    SL_CHECK(read_bounds(stream, n_rows, offsets, bounds));
    if (bounds[0] == bounds[1]) {
        if (beta) {
            return SL_OK;
        }
        return clear(stream, n_rows, n_columns, m_out);
    }
    SL_CHECK(rows.take((size_t)n_sources * n_columns * sizeof(sl_real), name));
    SL_CHECK(weights.take((size_t)(bounds[1] - bounds[0]) * sizeof(sl_real), name));
    SL_CHECK(own_offsets.take(((size_t)n_rows + 1) * sizeof(uint32_t), name));
    SL_CHECK(sl_start_lists(name, stream, source_rows{rows.as<sl_real>(), x}, n_sources, n_columns, 0,
                            sl_address_bits(&x) | (uintptr_t)rows.as<sl_real>()));
    SL_CHECK(sl_start(name, stream, sl_warp_blocks((uint64_t)n_rows + 1), weigh_edges, n_rows, offsets,
                      own_offsets.as<uint32_t>(), weights.as<sl_real>()));
    SL_CHECK(
        cusparse_status(cusparseCreateCsr(&p.a, n_rows, n_sources, bounds[1] - bounds[0], own_offsets.as<void>(),
                                          const_cast<uint32_t *>(edge_sources + bounds[0]), weights.as<void>(),
                                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
                        name));
    SL_CHECK(cusparse_status(
        cusparseCreateDnMat(&p.x, n_sources, n_columns, n_columns, rows.as<void>(), CUDA_R_32F, CUSPARSE_ORDER_ROW),
        name));
    SL_CHECK(cusparse_status(
        cusparseCreateDnMat(&p.m, n_rows, n_columns, n_columns, m_out, CUDA_R_32F, CUSPARSE_ORDER_ROW), name));
    return multiply(stream, handle, &p, beta);
}
