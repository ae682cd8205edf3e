/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sets of ids on the device as bitmaps, 64 ids per word: find distinct ids, and list them in ascending order.
 */
#ifndef SL_CODELETS_MARKS_CUH
#define SL_CODELETS_MARKS_CUH

#include "codelets/scan.cuh"

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

/* Number of marked ids smaller than id. id may equal the number of ids. ranks: from sl_list_marked. */
static inline __device__ uint32_t sl_rank_of(uint32_t n_words, const uint64_t *words, const uint32_t *ranks,
                                             uint32_t id)
{
    if (id / 64 < n_words) {
        return ranks[id / 64] + (uint32_t)__popcll(words[id / 64] & ((UINT64_C(1) << id % 64) - 1));
    }
    return n_words == 0 ? 0 : ranks[n_words - 1] + (uint32_t)__popcll(words[n_words - 1]);
}

/* For each word: the number of marks before it, and its ids, in ascending order. */
struct sl_marked {
    const uint64_t *words;
    uint32_t *ranks_out;
    uint32_t *ids_out;

    __device__ uint32_t number(uint64_t w) const
    {
        return (uint32_t)__popcll(words[w]);
    }
    __device__ void take(uint64_t w, uint32_t before, uint32_t) const
    {
        ranks_out[w] = before;
        for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
            ids_out[before++] = 64 * (uint32_t)w + sl_first_mark(bits);
        }
    }
};

/* Rank the words, and list the marked ids by owner, n_parts of them, all but the owners' positions, which lie before
 * the ids: the position of owner q is the rank of its first id. SL_ECUDA. */
static inline enum sl_status sl_list_marked(const char *name, cudaStream_t stream, uint32_t n_words,
                                            const uint64_t *words, uint32_t n_parts, uint32_t *ranks_out,
                                            uint32_t *list_out)
{
    return sl_scan_each(name, stream, n_words, sl_marked{words, ranks_out, list_out + n_parts + 1});
}

/* A thread's pinned memory for a number of the device. A copy to other memory would wait for the stream by itself. */
struct sl_pinned_size {
    uint32_t *data = nullptr;

    ~sl_pinned_size()
    {
        if (data != nullptr) {
            cudaFreeHost(data);
        }
    }
};

/* Read a number of the device, and wait for the stream. SL_ECUDA. */
static inline enum sl_status sl_read_size(const char *name, cudaStream_t stream, const uint32_t *n, uint32_t *n_out)
{
    static thread_local struct sl_pinned_size room;
    if (room.data == nullptr) {
        SL_CHECK(sl_cuda_status(cudaMallocHost((void **)&room.data, sizeof *n), name));
    }
    SL_CHECK(sl_cuda_status(cudaMemcpyAsync(room.data, n, sizeof *n, cudaMemcpyDeviceToHost, stream), name));
    SL_CHECK(sl_cuda_status(cudaStreamSynchronize(stream), name));
    *n_out = *room.data;
    return SL_OK;
}

#endif
