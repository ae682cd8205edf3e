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
    enum sl_status st = sl_start(name, stream, sl_blocks(n_words), sl_count_marks, n_words, words, ranks_out);
    if (st == SL_OK) {
        st = sl_exclusive_sum(stream, n_words, ranks_out);
    }
    return st;
}

#endif
