/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sets of ids on the device as bitmaps, 64 ids per word: find distinct ids, and list them in ascending order.
 */
#ifndef SL_CODELETS_MARKS_CUH
#define SL_CODELETS_MARKS_CUH

#include "codelets/cub.cuh"

static inline __host__ __device__ uint32_t sl_n_words(uint32_t n_ids)
{
    return (uint32_t)(((uint64_t)n_ids + 63) / 64);
}

/* Mark an id. Threads may mark concurrently. An id that is already marked costs a read, not an atomic. */
static inline __device__ void sl_mark(uint64_t *words, uint32_t id)
{
    const unsigned long long bit = 1ull << id % 64;
    unsigned long long *word = (unsigned long long *)words + id / 64;
    if ((*word & bit) == 0) { /* if another thread marks the id at the same moment, it is marked twice */
        atomicOr(word, bit);
    }
}

/* The smallest mark of a word with at least one mark. The next mark is that of bits & (bits - 1). */
static inline __device__ uint32_t sl_first_mark(uint64_t bits)
{
    return (uint32_t)__popcll(~bits & (bits - 1));
}

/* Number of marked ids smaller than id. id may equal the number of ids. ranks: from sl_rank_words. */
static inline __device__ uint32_t sl_rank_of(uint32_t n_words, const uint64_t *words, const uint32_t *ranks,
                                             uint32_t id)
{
    if (id / 64 < n_words) {
        return ranks[id / 64] + (uint32_t)__popcll(words[id / 64] & ((UINT64_C(1) << id % 64) - 1));
    }
    return n_words == 0 ? 0 : ranks[n_words - 1] + (uint32_t)__popcll(words[n_words - 1]);
}

static __global__ void sl_count_marks(uint32_t n_words, const uint64_t *words, uint32_t *n_out)
{
    for (uint64_t w = sl_thread(); w < n_words; w += sl_n_threads()) {
        n_out[w] = (uint32_t)__popcll(words[w]);
    }
}

/* For each word, the number of marks before it. SL_ECUDA. */
static inline enum sl_status sl_rank_words(const char *name, cudaStream_t stream, uint32_t n_words,
                                           const uint64_t *words, uint32_t *ranks_out)
{
    SL_CHECK(sl_start(name, stream, sl_blocks(n_words), sl_count_marks, n_words, words, ranks_out));
    return sl_exclusive_sum(stream, n_words, ranks_out);
}

/* List the marked ids by owner, n_parts of them; first: [n_parts + 1] ids. positions_out: NULL, or a copy of the list's
 * positions, and n is stored in *n_out. */
[[maybe_unused]] static __global__ void sl_list_marked(uint32_t n_words, const uint64_t *words, const uint32_t *ranks,
                                                       uint32_t n_parts, const uint32_t *first, uint32_t *list_out,
                                                       uint32_t *positions_out, uint32_t n, uint32_t *n_out)
{
    uint32_t *ids = list_out + n_parts + 1;
    for (uint64_t w = sl_thread(); w < n_words; w += sl_n_threads()) {
        uint32_t i = ranks[w];
        for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
            ids[i++] = 64 * (uint32_t)w + sl_first_mark(bits);
        }
    }
    for (uint64_t q = sl_thread(); q <= n_parts; q += sl_n_threads()) {
        list_out[q] = sl_rank_of(n_words, words, ranks, first[q]);
        if (positions_out != nullptr) {
            positions_out[q] = list_out[q];
            *n_out = n;
        }
    }
}

/* A thread's pinned memory for numbers of the device. A copy to other memory would wait for the stream by itself. */
struct sl_pinned_sizes {
    void *data = nullptr;

    ~sl_pinned_sizes()
    {
        if (data != nullptr) {
            cudaFreeHost(data);
        }
    }
};

/* Read a number of the device, or two, and wait for the stream. SL_ECUDA. */
static inline enum sl_status sl_read_sizes(const char *name, cudaStream_t stream, const uint32_t *n_rows,
                                           uint32_t *n_rows_out, const uint32_t *n_edges = nullptr,
                                           uint32_t *n_edges_out = nullptr)
{
    static thread_local struct sl_pinned_sizes room;
    const size_t bytes = sizeof *n_rows;
    if (room.data == nullptr) {
        SL_CHECK(sl_cuda_status(cudaMallocHost(&room.data, 2 * bytes), name));
    }
    uint32_t *sizes = static_cast<uint32_t *>(room.data);
    SL_CHECK(sl_cuda_status(cudaMemcpyAsync(&sizes[0], n_rows, bytes, cudaMemcpyDeviceToHost, stream), name));
    if (n_edges != nullptr) {
        SL_CHECK(sl_cuda_status(cudaMemcpyAsync(&sizes[1], n_edges, bytes, cudaMemcpyDeviceToHost, stream), name));
    }
    SL_CHECK(sl_cuda_status(cudaStreamSynchronize(stream), name));
    *n_rows_out = sizes[0];
    if (n_edges != nullptr) {
        *n_edges_out = sizes[1];
    }
    return SL_OK;
}

#endif
