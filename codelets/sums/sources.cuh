/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of in-neighbours on a device, for sums over blocks and over whole parts (codelets/sums/sources.h). In templates,
 * S is the stored type of the rows.
 */
#ifndef SL_CODELETS_SOURCES_CUH
#define SL_CODELETS_SOURCES_CUH

#include <string.h>

#include "codelets/bf16.cuh"
#include "codelets/sampling/sample.h"
#include "codelets/sums/sources.h"

template <typename S>
static inline __device__ const S *sl_chunk_row(const struct sl_device_rows &rows, uint32_t r, uint32_t n_columns)
{
    return (const S *)rows.chunk[r >> rows.shift] + (size_t)(r & ((1u << rows.shift) - 1)) * n_columns;
}

/* The source at a position. All lanes read the same bounds at the same time. */
template <typename S>
static inline __device__ const S *sl_source_row(const struct sl_device_sources &x, uint32_t position,
                                                uint32_t n_columns)
{
    uint32_t q = 0;
    for (uint32_t k = 1; k < x.n_owners; k++) {
        q += position >= x.first[k];
    }
    uint32_t i = position - x.first[q];
    if (q != x.own) {
        return (const S *)x.packed[q] + (size_t)i * n_columns;
    }
    return sl_chunk_row<S>(x.rows, __ldg(sl_list_of(x.inverse, x.n_owners, q) + i), n_columns);
}

/* The rows of all parts. The chunks of part q are chunk[base[q]] and on. */
struct sl_device_parts {
    uint32_t n_parts;
    const uint32_t *first;
    const sl_real *const *chunk;
    uint16_t base[SL_MAX_PARTS];
    uint8_t shift[SL_MAX_PARTS];
    uint32_t width[SL_MAX_PARTS]; /* of a row */

    template <typename S> __device__ const S *row(sl_vertex id) const
    {
        uint32_t q = 0;
        for (uint32_t k = 1; k < n_parts; k++) {
            q += id >= __ldg(first + k);
        }
        const uint32_t r = id - __ldg(first + q);
        return (const S *)chunk[base[q] + (r >> shift[q])] + (size_t)(r & ((1u << shift[q]) - 1)) * width[q];
    }
};

/* ---- edges by destination. The entries of destination i are bound(i) .. bound(i + 1) - 1. source: the type of the
 * rows; an entry names the source by its position or by its id. ---- */

/* Destinations of a block, from row row0 on. */
template <typename S> struct sl_block_edges {
    typedef S source;
    const uint32_t *offsets; /* from row row0 on */
    const uint32_t *sources; /* positions */
    uint32_t row0;
    struct sl_device_sources x;

    __device__ uint64_t bound(uint32_t i) const
    {
        return __ldg(offsets + i);
    }
    __device__ const S *row_of(uint32_t position, uint32_t n_columns) const
    {
        return sl_source_row<S>(x, position, n_columns);
    }
    __device__ const S *row(uint64_t e, uint32_t n_columns) const
    {
        return row_of(__ldg(sources + e), n_columns);
    }
    /* The own row of destination i. */
    __device__ const S *own_row(uint32_t i, sl_vertex, uint32_t n_columns) const
    {
        return sl_chunk_row<S>(x.rows, row0 + i, n_columns);
    }
};

/* The same of a whole part. Rows have the width of their part. */
template <typename S> struct sl_part_edges {
    typedef S source;
    const uint64_t *offsets; /* of the part; `sources` begins at the first */
    const sl_vertex *sources;
    uint32_t row0;
    struct sl_device_parts parts;

    __device__ uint64_t bound(uint32_t i) const
    {
        return __ldg(offsets + row0 + i) - __ldg(offsets);
    }
    __device__ const S *row_of(sl_vertex id, uint32_t) const
    {
        return parts.template row<S>(id);
    }
    __device__ const S *row(uint64_t e, uint32_t n_columns) const
    {
        return row_of(__ldg(sources + e), n_columns);
    }
    __device__ const S *own_row(uint32_t, sl_vertex id, uint32_t n_columns) const
    {
        return row_of(id, n_columns);
    }
};

/* The largest n of the groups of LANES in a warp. All groups run that many steps. */
template <uint32_t LANES> static inline __device__ uint32_t sl_group_max(uint32_t n)
{
    for (uint32_t distance = LANES; distance < SL_WARP; distance *= 2) {
        uint32_t other = __shfl_xor_sync(SL_ALL_LANES, n, distance);
        n = other > n ? other : n;
    }
    return n;
}

/* ---- more addresses than parameters hold ---- */

#define SL_POINTERS 256 /* per launch */

struct sl_pointers {
    const sl_real *pointer[SL_POINTERS];
};

static __global__ void sl_store_pointers(const struct sl_pointers from, uint32_t n, const sl_real **to)
{
    for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
        to[i] = from.pointer[i];
    }
}

/* Send n addresses to device memory as kernel parameters: the host memory of an asynchronous copy would have to outlive
 * the call. room: gets the addresses; take nothing from it before. */
static inline enum sl_status sl_send_pointers(const char *name, cudaStream_t stream, const sl_real *const *pointers,
                                              uint32_t n, sl_scratch *room)
{
    enum sl_status st = room->take(n * sizeof *pointers, name);
    for (uint32_t done = 0; done < n && st == SL_OK; done += SL_POINTERS) {
        struct sl_pointers some = {};
        const uint32_t n_some = n - done < SL_POINTERS ? n - done : SL_POINTERS;
        memcpy(some.pointer, pointers + done, n_some * sizeof *pointers);
        st = sl_start(name, stream, 1, sl_store_pointers, some, n_some, room->as<const sl_real *>() + done);
    }
    return st;
}

/* The rows of all parts. room: gets the addresses of their chunks. */
static inline enum sl_status sl_send_parts(const char *name, cudaStream_t stream, const struct sl_part_list &parts,
                                           sl_scratch *room, struct sl_device_parts *out)
{
    SL_CHECK(sl_send_pointers(name, stream, parts.chunk, parts.n_chunks, room));
    *out = {};
    out->n_parts = parts.n_parts;
    out->first = parts.first;
    out->chunk = room->as<const sl_real *>();
    memcpy(out->base, parts.base, parts.n_parts * sizeof *out->base);
    memcpy(out->shift, parts.shift, parts.n_parts * sizeof *out->shift);
    memcpy(out->width, parts.width, parts.n_parts * sizeof *out->width);
    return SL_OK;
}

/* ---- addresses ---- */

/* All row addresses, or'ed. Four numbers can be read at a time if the lowest four bits are zero. */
static inline uintptr_t sl_address_bits(enum sl_dtype dtype, const struct sl_device_rows *rows)
{
    uintptr_t bits = 0;
    for (uint32_t c = 0; c < rows->n_chunks; c++) {
        bits |= sl_quad_address(dtype, rows->chunk[c]);
    }
    return bits;
}

static inline uintptr_t sl_address_bits(const struct sl_device_sources *x)
{
    uintptr_t bits = sl_address_bits(x->dtype, &x->rows);
    for (uint32_t q = 0; q < x->n_owners; q++) {
        bits |= sl_quad_address(x->dtype, x->packed[q]);
    }
    return bits;
}

/* The rows of all parts. Their widths count, too. */
static inline uintptr_t sl_address_bits(const struct sl_part_list &parts)
{
    uintptr_t bits = 0;
    for (uint32_t q = 0; q < parts.n_parts; q++) {
        bits |= parts.width[q] * sizeof(sl_real);
    }
    for (uint32_t c = 0; c < parts.n_chunks; c++) {
        bits |= sl_quad_address(parts.dtype, parts.chunk[c]);
    }
    return bits;
}

/* ---- launches ---- */

/* Start sums over edges: start(rows, addresses), rows being sl_block_edges or sl_part_edges, with the addresses of all
 * rows, or'ed. */
template <typename Start>
static inline enum sl_status sl_by_edges(const char *name, cudaStream_t stream, const struct sl_edges *edges,
                                         Start start)
{
    if (edges->parts == nullptr) {
        struct sl_device_sources x;
        sl_sources_on_device(edges->x, &x);
        return sl_by_dtype(x.dtype, [&](auto s) {
            const sl_block_edges<decltype(s)> rows = {edges->offsets + edges->row0, edges->sources, edges->row0, x};
            return start(rows, sl_address_bits(&x));
        });
    }
    struct sl_part_list list;
    struct sl_device_parts all;
    sl_scratch chunks(stream);
    sl_parts_on_device(edges->parts, &list);
    SL_CHECK(sl_send_parts(name, stream, list, &chunks, &all));
    return sl_by_dtype(list.dtype, [&](auto s) {
        const sl_part_edges<decltype(s)> rows = {edges->part_offsets, edges->sources, edges->row0, all};
        return start(rows, sl_address_bits(list));
    });
}

/* Start sums of rows of S into rows of the same dtype, or of sl_real: start(T()). */
template <typename S, typename Start> static inline enum sl_status sl_by_result(enum sl_dtype result, Start start)
{
    return result == sl_dtype_of<S>() ? start(S()) : start(sl_real());
}

#endif
