/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Requests are merged with the bitmap of the CPU version; the ids of its words follow each other. Rows are packed by
 * one warp per row. */
#include "codelets/bf16.cuh"
#include "codelets/sampling/exchange.h"
#include "codelets/sampling/marks.cuh"
#include "codelets/sampling/sample.h"

/* ---- merge ---- */

/* Mark the requested local ids without a row. */
static __global__ void mark_new(struct sl_requests request, uint32_t first, const uint32_t *row_of, uint64_t *words)
{
    for (uint32_t p = 0; p < request.n_parts; p++) {
        const uint32_t *ids = sl_list_of(request.list[p], request.n_parts, request.owner);
        const uint32_t n = sl_list_count(request.list[p], request.owner);
        for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
            uint32_t local = ids[i] - first;
            if (row_of[local] == SL_NONE) {
                sl_mark(words, local);
            }
        }
    }
}

/* The marked local ids become the next rows of the frontier, in ascending order, and their marks are cleared. */
struct new_rows {
    uint32_t first, n_words;
    const uint32_t *n_rows;
    uint64_t *words;
    sl_vertex *frontier;
    uint32_t *row_of, *n_rows_out;

    __device__ uint32_t number(uint64_t w) const
    {
        return (uint32_t)__popcll(words[w]);
    }
    __device__ void take(uint64_t w, uint32_t before, uint32_t number) const
    {
        uint32_t row = *n_rows + before;
        if (w + 1 == n_words) {
            *n_rows_out = row + number;
        }
        for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
            uint32_t local = 64 * (uint32_t)w + sl_first_mark(bits);
            row_of[local] = row;
            frontier[row++] = first + local;
        }
        words[w] = 0;
    }
};

static __global__ void answer(struct sl_requests request, uint32_t first, const uint32_t *row_of, uint32_t *inverse_out)
{
    uint32_t *rows = sl_list_entries(inverse_out, request.n_parts);
    uint32_t begin = 0;
    for (uint32_t p = 0; p < request.n_parts; p++) {
        const uint32_t *ids = sl_list_of(request.list[p], request.n_parts, request.owner);
        const uint32_t n = sl_list_count(request.list[p], request.owner);
        for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
            rows[begin + i] = request.of_part ? ids[i] - first : row_of[ids[i] - first];
        }
        if (sl_thread() == 0) {
            inverse_out[p] = begin;
            inverse_out[p + 1] = begin + n;
        }
        begin += n;
    }
}

enum sl_status sl_merge_cuda(cudaStream_t stream, const struct sl_requests *requests, const uint32_t *n_rows,
                             const struct sl_frontier *frontier, uint32_t *inverse_out, uint32_t *n_rows_out)
{
    const char *name = "sl_merge";
    const uint32_t first = frontier->first;
    const uint32_t n_words = sl_n_words(frontier->n_part);
    const unsigned n_blocks = sl_few_blocks(frontier->n_part);
    const struct new_rows rows = {first, n_words, n_rows, frontier->words, frontier->ids, frontier->row_of, n_rows_out};
    if (n_words == 0) {
        SL_CHECK(sl_cuda_status(cudaMemcpyAsync(n_rows_out, n_rows, sizeof *n_rows, cudaMemcpyDeviceToDevice, stream),
                                name));
    }
    SL_CHECK(sl_start(name, stream, n_blocks, mark_new, *requests, first, frontier->row_of, frontier->words));
    SL_CHECK(sl_scan_each(name, stream, n_words, rows));
    return sl_start(name, stream, n_blocks, answer, *requests, first, frontier->row_of, inverse_out);
}

/* ---- pack ---- */

/* Requesters and chunks per launch; kernel parameters have no room for more. */
#define MAX_PACKS 64
#define MAX_CHUNKS 256

/* Rows of several requesters, one after the other. Requester r has rows begin[r] .. begin[r + 1] - 1. The rows come
 * from chunks first_chunk .. first_chunk + n_chunks - 1. */
struct packs {
    uint32_t n, n_parts;
    uint32_t first_chunk, n_chunks;
    uint32_t shift, row, first, taken, width; /* as in struct sl_packing, in units of the copy */
    uint32_t begin[MAX_PACKS + 1];
    uint32_t requester[MAX_PACKS];
    void *packed[MAX_PACKS];
    const void *chunk[MAX_CHUNKS];
};

/* Copy rows in units T. */
template <typename T> static __global__ void pack_rows(struct packs packs, const uint32_t *inverse)
{
    const uint32_t mask = (1u << packs.shift) - 1;
    uint32_t r = 0; /* the rows of a warp ascend */
    for (uint64_t row = sl_warp(); row < packs.begin[packs.n]; row += sl_n_warps()) {
        while (row >= packs.begin[r + 1]) {
            r++;
        }
        const uint32_t i = (uint32_t)row - packs.begin[r];
        const uint32_t own = sl_packed_rows(inverse, packs.n_parts, packs.requester[r])[i];
        const uint32_t c = (own >> packs.shift) - packs.first_chunk; /* an earlier chunk wraps around */
        if (c >= packs.n_chunks) {
            continue;
        }
        const T *from = (const T *)packs.chunk[c] + (size_t)(own & mask) * packs.row + packs.first;
        T *to = (T *)packs.packed[r] + (size_t)i * packs.width;
        for (uint32_t k = sl_lane(); k < packs.width; k += SL_WARP) {
            to[k] = k < packs.taken ? from[k] : T();
        }
    }
}

/* addresses: of all chunks, or'ed. */
static enum sl_status pack_some(cudaStream_t stream, struct packs packs, const struct sl_packing &bytes,
                                uintptr_t addresses)
{
    for (uint32_t r = 0; r < packs.n; r++) {
        addresses |= (uintptr_t)packs.packed[r];
    }
    return sl_by_copy_unit(bytes.row | bytes.first | bytes.taken | bytes.packed | addresses, [&](auto unit) {
        typedef decltype(unit) T;
        packs.row = bytes.row / sizeof(T);
        packs.first = bytes.first / sizeof(T);
        packs.taken = bytes.taken / sizeof(T);
        packs.width = bytes.packed / sizeof(T);
        return sl_start("sl_pack", stream, sl_warp_blocks(packs.begin[packs.n]), pack_rows<T>, packs, bytes.inverse);
    });
}

enum sl_status sl_pack_cuda(cudaStream_t stream, const struct sl_packing *from, const uint32_t *requester,
                            const uint32_t *n_rows, void *const *packed_out)
{
    struct packs packs = {};
    uintptr_t addresses = 0;
    packs.n_parts = from->n_parts;
    packs.shift = from->shift;
    for (uint32_t c = 0; c < from->n_chunks; c++) {
        addresses |= (uintptr_t)from->chunk[c];
    }
    for (uint32_t r0 = 0; r0 < from->n_requesters; r0 += MAX_PACKS) {
        packs.n = sl_least<uint32_t>(from->n_requesters - r0, MAX_PACKS);
        for (uint32_t r = 0; r < packs.n; r++) {
            packs.begin[r + 1] = packs.begin[r] + n_rows[r0 + r];
            packs.requester[r] = requester[r0 + r];
            packs.packed[r] = packed_out[r0 + r];
        }
        for (uint32_t c = 0; c < from->n_chunks; c += MAX_CHUNKS) {
            packs.first_chunk = c;
            packs.n_chunks = sl_least<uint32_t>(from->n_chunks - c, MAX_CHUNKS);
            memcpy(packs.chunk, from->chunk + c, packs.n_chunks * sizeof *packs.chunk);
            SL_CHECK(pack_some(stream, packs, *from, addresses));
        }
    }
    return SL_OK;
}

/* ---- unpack ---- */

/* One warp per row of n_columns units T. */
template <typename T>
static __global__ void unpack_rows(uint32_t n, uint32_t n_columns, const uint32_t *rows, const T *packed, T *out)
{
    for (uint64_t i = sl_warp(); i < n; i += sl_n_warps()) {
        const T *from = packed + i * n_columns;
        T *to = out + (size_t)rows[i] * n_columns;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            to[c] = from[c];
        }
    }
}

enum sl_status sl_unpack_cuda(cudaStream_t stream, size_t row_bytes, uint32_t n, const uint32_t *rows,
                              const void *packed, void *out)
{
    return sl_by_copy_unit(row_bytes | (uintptr_t)packed | (uintptr_t)out, [&](auto unit) {
        typedef decltype(unit) T;
        return sl_start("sl_unpack", stream, sl_warp_blocks(n), unpack_rows<T>, n, (uint32_t)(row_bytes / sizeof(T)),
                        rows, (const T *)packed, (T *)out);
    });
}
