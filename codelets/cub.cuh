/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sorts on the device. CUB is slow to compile, so one file includes it, and CUDA sources call it through this function.
 * It takes its scratch memory like a struct sl_scratch, waits for nothing, and gives the same bits on every device.
 * SL_ECUDA.
 */
#ifndef SL_CODELETS_CUB_CUH
#define SL_CODELETS_CUB_CUH

#include "codelets/kernel.cuh"

/* Sort n pairs by the lowest n_bits bits of their keys, ascending. The sort is stable. Input and output do not
 * overlap. Keys of 32 bits with values of 32 or 16, and keys of 64 bits with values of 32. */
template <typename Value, typename Key>
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const Key *keys, const Value *values,
                             Key *keys_out, Value *values_out);

#endif
