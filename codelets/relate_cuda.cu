/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Means by relation, mixed by components or not, and the transposed sums, on a device. A thread sums one column of one
 * row along its list, so the order of additions is that of the CPU. Neighbouring threads have neighbouring columns, so
 * they read whole rows. A warp sums the products of one component over a stretch of rows; then a thread adds the sums
 * of all stretches in order. */
#include "codelets/relate.h"

#include "codelets/bf16.cuh"
#include "codelets/sources.cuh"

/* The rows of a block's sources. */
template <typename S> struct block_rows {
    typedef S source;
    const uint32_t *offsets; /* from row row0 on */
    const uint32_t *positions;
    const float *relations;
    struct sl_device_sources x;

    __device__ uint64_t bound(uint32_t i) const
    {
        return __ldg(offsets + i);
    }
    __device__ const S *row(uint64_t e, uint32_t n_columns) const
    {
        return sl_source_row<S>(x, __ldg(positions + e), n_columns);
    }
};

/* The rows of all parts. */
template <typename S> struct part_rows {
    typedef S source;
    const uint64_t *offsets; /* of the part */
    uint32_t row0;
    const sl_vertex *sources;
    const float *relations;
    struct sl_device_parts parts;

    __device__ uint64_t bound(uint32_t i) const
    {
        return __ldg(offsets + row0 + i) - __ldg(offsets);
    }
    __device__ const S *row(uint64_t e, uint32_t n_columns) const
    {
        const sl_vertex id = __ldg(sources + e);
        return parts.template row<S>(parts.part_of(id), id, n_columns);
    }
};

/* sum + entries begin .. end - 1, all of one relation: column c of each slab. */
template <typename List>
static inline __device__ sl_real add_run(const List &list, const struct sl_slabs &slabs, uint64_t begin, uint64_t end,
                                         uint32_t c, sl_real sum)
{
    const sl_real weight = 1 / (sl_real)(end - begin);
    const size_t column = (size_t)__ldg(list.relations + begin) * slabs.x_step + c;
    for (uint64_t e = begin; e < end; e++) {
        sum += weight * sl_wide(list.row(e, slabs.x_width)[column]);
    }
    return sum;
}

/* The sum of column `column` of the rows of entries begin .. end - 1. */
template <typename List>
static inline __device__ sl_real plain_sum(const List &list, uint32_t width, uint64_t begin, uint64_t end,
                                           size_t column)
{
    sl_real sum = 0;
    for (uint64_t e = begin; e < end; e++) {
        sum += sl_wide(list.row(e, width)[column]);
    }
    return sum;
}

/* sum + the entries begin .. end - 1 of one destination, mixed: column c of its sum. */
template <typename List>
static inline __device__ sl_real add_mixed(const List &list, const struct sl_slabs &slabs, uint64_t begin, uint64_t end,
                                           uint32_t c, sl_real sum)
{
    const uint32_t first = slabs.m_step > 0 ? c / slabs.m_step : 0;
    const uint32_t last = slabs.m_step > 0 ? first : slabs.n_bases - 1;
    const uint32_t j = slabs.m_step > 0 ? c % slabs.m_step : c;
    for (uint64_t e = begin; e < end;) {
        const float relation = __ldg(list.relations + e);
        const uint64_t stop = sl_relation_from(list.relations, e, end, relation + 1);
        const sl_real weight = 1 / (sl_real)(stop - e);
        for (uint32_t b = first; b <= last; b++) {
            sum += weight * slabs.c[(size_t)relation * slabs.n_bases + b] *
                   plain_sum(list, slabs.x_width, e, stop, (size_t)b * slabs.x_step + j);
        }
        e = stop;
    }
    return sum;
}

/* Item i: column i % m_width of row i / m_width. */
template <typename List, typename T>
static __global__ void relate_rows(const List list, const struct sl_slabs slabs, uint64_t n_items, int beta, T *m)
{
    for (uint64_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        const uint32_t d = (uint32_t)(i / slabs.m_width);
        const uint32_t c = (uint32_t)(i % slabs.m_width);
        const uint64_t end = list.bound(d + 1);
        uint64_t e = list.bound(d);
        sl_real sum = beta ? sl_wide(m[i]) : 0;
        if (slabs.c != NULL) {
            sum = add_mixed(list, slabs, e, end, c, sum);
        } else if (slabs.m_step > 0) { /* a slab has one run */
            const float relation = (float)(c / slabs.m_step);
            const uint64_t begin = sl_relation_from(list.relations, e, end, relation);
            const uint64_t stop = sl_relation_from(list.relations, begin, end, relation + 1);
            sum = begin < stop ? add_run(list, slabs, begin, stop, c % slabs.m_step, sum) : sum;
        } else {
            while (e < end) {
                const uint64_t stop = sl_relation_from(list.relations, e, end, __ldg(list.relations + e) + 1);
                sum = add_run(list, slabs, e, stop, c, sum);
                e = stop;
            }
        }
        sl_store(sum, m + i);
    }
}

/* sum + the terms of position t, mixed: column c of the row of gradients. */
static inline __device__ sl_real add_mixed_back(const struct sl_related_back &block, const struct sl_device_rows &gm,
                                                const struct sl_slabs &slabs, uint32_t t, uint32_t c, sl_real sum)
{
    const uint32_t first = slabs.x_step > 0 ? c / slabs.x_step : 0;
    const uint32_t last = slabs.x_step > 0 ? first : slabs.n_bases - 1;
    const uint32_t j = slabs.x_step > 0 ? c % slabs.x_step : c;
    for (uint32_t e = __ldg(block.back_offsets + t); e < __ldg(block.back_offsets + t + 1); e++) {
        const float relation = __ldg(block.back_relations + e);
        const uint32_t d = __ldg(block.back_rows + e);
        const uint64_t n = sl_relation_count(block.relations, __ldg(block.edge_offsets + d),
                                             __ldg(block.edge_offsets + d + 1), relation);
        const sl_real weight = 1 / (sl_real)n;
        const sl_real *row = sl_chunk_row<sl_real>(gm, d, slabs.m_width);
        for (uint32_t b = first; b <= last; b++) {
            sum += weight * slabs.c[(size_t)relation * slabs.n_bases + b] * row[(size_t)b * slabs.m_step + j];
        }
    }
    return sum;
}

/* sum + the terms of position t: column c of the row of gradients. */
static inline __device__ sl_real add_back(const struct sl_related_back &block, const struct sl_device_rows &gm,
                                          const struct sl_slabs &slabs, uint32_t t, uint32_t c, sl_real sum)
{
    if (slabs.c != NULL) {
        return add_mixed_back(block, gm, slabs, t, c, sum);
    }
    for (uint32_t e = __ldg(block.back_offsets + t); e < __ldg(block.back_offsets + t + 1); e++) {
        const float relation = __ldg(block.back_relations + e);
        if (slabs.x_step > 0 && (uint32_t)relation != c / slabs.x_step) {
            continue;
        }
        const uint32_t d = __ldg(block.back_rows + e);
        const uint64_t n = sl_relation_count(block.relations, __ldg(block.edge_offsets + d),
                                             __ldg(block.edge_offsets + d + 1), relation);
        const uint32_t column = (uint32_t)relation * slabs.m_step + (slabs.x_step > 0 ? c % slabs.x_step : c);
        sum += 1 / (sl_real)n * sl_chunk_row<sl_real>(gm, d, slabs.m_width)[column];
    }
    return sum;
}

template <typename T>
static __global__ void relate_back(const struct sl_related_back block, const struct sl_device_rows gm,
                                   const struct sl_slabs slabs, uint32_t t0, uint64_t n_items, T *out)
{
    for (uint64_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        const uint32_t t = t0 + (uint32_t)(i / slabs.x_width);
        sl_store(add_back(block, gm, slabs, t, (uint32_t)(i % slabs.x_width), (sl_real)0), out + i);
    }
}

static __global__ void relate_own(const struct sl_related_back block, const struct sl_device_rows gm,
                                  const struct sl_slabs slabs, uint32_t t0, uint64_t n_items,
                                  const struct sl_asked asked, const struct sl_gradient g)
{
    for (uint64_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        const uint32_t k = (uint32_t)(i / slabs.x_width);
        const uint32_t c = (uint32_t)(i % slabs.x_width);
        const uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + k) - g.row0;
        if (row < g.n_rows) { /* a row below row0 wraps, and is too large */
            sl_real *out = g.rows + (size_t)row * g.n_columns + c;
            *out = add_back(block, gm, slabs, t0 + k, c, *out);
        }
    }
}

/* Rows in n_stretches stretches. Item i: component i % n_components over stretch i / n_components, one warp. */
struct stretches {
    uint32_t n_rows, n_each;
    uint32_t n_components, n_stretches;
};

template <typename List>
static __global__ void sum_components(const List list, const struct sl_slabs slabs, const struct stretches stretches,
                                      const sl_real *gm, double *partial)
{
    const uint64_t n_items = (uint64_t)stretches.n_stretches * stretches.n_components;
    for (uint64_t i = sl_warp(); i < n_items; i += sl_n_warps()) {
        const uint32_t k = (uint32_t)(i % stretches.n_components);
        const float relation = (float)(k / slabs.n_bases);
        const uint32_t b = k % slabs.n_bases;
        const uint32_t row = (uint32_t)(i / stretches.n_components) * stretches.n_each;
        const uint32_t rest = stretches.n_rows - row;
        const uint32_t row_end = row + (rest < stretches.n_each ? rest : stretches.n_each);
        double sum = 0;
        for (uint32_t d = row; d < row_end; d++) {
            const uint64_t begin = sl_relation_from(list.relations, list.bound(d), list.bound(d + 1), relation);
            const uint64_t stop = sl_relation_from(list.relations, begin, list.bound(d + 1), relation + 1);
            const sl_real *g = gm + (size_t)d * slabs.m_width + (size_t)b * slabs.m_step;
            for (uint32_t j = sl_lane(); begin < stop && j < slabs.n; j += SL_WARP) {
                const sl_real term = plain_sum(list, slabs.x_width, begin, stop, (size_t)b * slabs.x_step + j);
                sum += (double)(term * g[j] / (sl_real)(stop - begin));
            }
        }
        sum = sl_warp_sum(sum);
        if (sl_lane() == 0) {
            partial[i] = sum;
        }
    }
}

static __global__ void add_stretches(const struct stretches stretches, const double *partial, sl_real *gc)
{
    for (uint64_t k = sl_thread(); k < stretches.n_components; k += sl_n_threads()) {
        double sum = 0;
        for (uint32_t s = 0; s < stretches.n_stretches; s++) {
            sum += partial[(size_t)s * stretches.n_components + k];
        }
        gc[k] = (sl_real)sum;
    }
}

/* ---- launchers ---- */

enum sl_status sl_relate_forward_cuda(cudaStream_t stream, const struct sl_related *edges, const struct sl_slabs *slabs,
                                      const struct sl_device_sources *x, int beta, enum sl_dtype m_dtype, void *m_out)
{
    const uint64_t n_items = (uint64_t)edges->n_rows * slabs->m_width;
    return sl_by_dtypes(x->dtype, m_dtype, [&](auto s, auto t) {
        typedef block_rows<decltype(s)> List;
        const List list = {edges->offsets + edges->row0, edges->sources, edges->relations, *x};
        return sl_start("sl_relate_forward", stream, sl_blocks(n_items), relate_rows<List, decltype(t)>, list, *slabs,
                        n_items, beta, (decltype(t) *)m_out);
    });
}

enum sl_status sl_relate_backward_cuda(cudaStream_t stream, const struct sl_related_back *block,
                                       const struct sl_device_rows *gm, const struct sl_slabs *slabs, uint32_t t0,
                                       uint32_t n, enum sl_dtype dtype, void *out)
{
    const uint64_t n_items = (uint64_t)n * slabs->x_width;
    return sl_by_dtype(dtype, [&](auto t) {
        return sl_start("sl_relate_backward", stream, sl_blocks(n_items), relate_back<decltype(t)>, *block, *gm, *slabs,
                        t0, n_items, (decltype(t) *)out);
    });
}

enum sl_status sl_relate_own_cuda(cudaStream_t stream, const struct sl_related_back *block,
                                  const struct sl_device_rows *gm, const struct sl_slabs *slabs, uint32_t t0,
                                  uint32_t n, const struct sl_asked *asked, const struct sl_gradient *g)
{
    const uint64_t n_items = (uint64_t)n * slabs->x_width;
    return sl_start("sl_relate_accumulate: own sources", stream, sl_blocks(n_items), relate_own, *block, *gm, *slabs,
                    t0, n_items, *asked, *g);
}

#define STRETCH 32   /* rows of a stretch, at least */
#define WARPS 65536u /* about so many, if there are rows enough */

enum sl_status sl_relate_components_cuda(cudaStream_t stream, const struct sl_related *edges,
                                         const struct sl_slabs *slabs, const struct sl_device_sources *x,
                                         const sl_real *gm, uint32_t n_relations, sl_real *gc_out)
{
    const char *name = "sl_relate_components";
    struct stretches stretches = {edges->n_rows, STRETCH, n_relations * slabs->n_bases, 0};
    const uint32_t n_most = WARPS / stretches.n_components + 1;
    const uint32_t n_each = (edges->n_rows + n_most - 1) / n_most;
    sl_scratch scratch(stream);
    stretches.n_each = n_each > STRETCH ? n_each : STRETCH;
    stretches.n_stretches = (edges->n_rows + stretches.n_each - 1) / stretches.n_each;
    const uint64_t n_items = (uint64_t)stretches.n_stretches * stretches.n_components;
    enum sl_status st = scratch.take(n_items * sizeof(double), "the partial sums of products");
    if (st == SL_OK && n_items > 0) {
        st = sl_by_dtype(x->dtype, [&](auto s) {
            typedef block_rows<decltype(s)> List;
            const List list = {edges->offsets + edges->row0, edges->sources, edges->relations, *x};
            return sl_start(name, stream, sl_warp_blocks(n_items), sum_components<List>, list, *slabs, stretches, gm,
                            scratch.as<double>());
        });
    }
    if (st == SL_OK) {
        st = sl_start(name, stream, sl_blocks(stretches.n_components), add_stretches, stretches, scratch.as<double>(),
                      gc_out);
    }
    return st;
}

enum sl_status sl_relate_full_cuda(cudaStream_t stream, const struct sl_full_edges *edges, const struct sl_slabs *slabs,
                                   enum sl_dtype dtype, const struct sl_device_part *parts, int beta,
                                   enum sl_dtype m_dtype, void *m_out)
{
    const char *name = "sl_relate_full";
    const uint64_t n_items = (uint64_t)edges->n_rows * slabs->m_width;
    struct sl_device_parts all = {};
    sl_scratch chunks(stream);
    enum sl_status st = sl_send_parts(name, stream, edges->n_parts, edges->first, parts, &chunks, &all);
    if (st != SL_OK) {
        return st;
    }
    return sl_by_dtypes(dtype, m_dtype, [&](auto s, auto t) {
        typedef part_rows<decltype(s)> List;
        const List list = {edges->offsets, edges->row0, edges->sources, edges->edge_weights, all};
        return sl_start(name, stream, sl_blocks(n_items), relate_rows<List, decltype(t)>, list, *slabs, n_items, beta,
                        (decltype(t) *)m_out);
    });
}
