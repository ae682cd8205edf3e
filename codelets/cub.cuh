/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums and sorts on the device. CUB is slow to compile, so one file includes it, and CUDA sources call it through these
 * functions. They take their scratch memory like a struct sl_scratch, wait for nothing, and give the same bits on every
 * device. SL_ECUDA.
 */
#ifndef SL_CODELETS_CUB_CUH
#define SL_CODELETS_CUB_CUH

#include "codelets/kernel.cuh"

/* x[i] becomes x[0] + .. + x[i - 1], modulo 2^32. */
enum sl_status sl_exclusive_sum(cudaStream_t stream, uint32_t n, uint32_t *x);

/* Sort n pairs by the lowest n_bits bits of their keys, ascending. The sort is stable. Input and output do not
 * overlap. */
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const uint32_t *keys, const uint32_t *values,
                             uint32_t *keys_out, uint32_t *values_out);
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const uint64_t *keys, const uint32_t *values,
                             uint64_t *keys_out, uint32_t *values_out);
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const uint32_t *keys, const uint16_t *values,
                             uint32_t *keys_out, uint16_t *values_out);

#endif
