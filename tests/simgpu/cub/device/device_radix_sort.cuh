/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for CUB's header of this name: what CUDA sources of ours use of it.
 */
#ifndef SL_TESTS_DEVICE_RADIX_SORT_CUH
#define SL_TESTS_DEVICE_RADIX_SORT_CUH

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/simgpu/cuda_runtime.h"

namespace cub
{

struct DeviceRadixSort {
    template <typename Key, typename Value>
    static cudaError_t SortPairs(void *room, size_t &bytes, const Key *keys, Key *keys_out, const Value *values,
                                 Value *values_out, size_t n, int begin_bit, int end_bit, cudaStream_t stream)
    {
        const int n_bits = end_bit - begin_bit;
        if (begin_bit < 0 || n_bits <= 0 || end_bit > (int)(8 * sizeof(Key))) {
            return cudaErrorInvalidValue;
        }
        if (room == nullptr) {
            bytes = 1;
            return cudaSuccess;
        }
        const Key mask = n_bits == 8 * sizeof(Key) ? ~(Key)0 : ((Key)1 << n_bits) - 1;
        sl_device_give(stream, SL_COUNTED_CUB, [=] {
            std::vector<size_t> order(n);
            std::iota(order.begin(), order.end(), (size_t)0);
            const Key *from = sl_device_at(stream, keys);
            std::stable_sort(order.begin(), order.end(), [=](size_t a, size_t b) {
                return (from[a] >> begin_bit & mask) < (from[b] >> begin_bit & mask);
            });
            for (size_t i = 0; i < n; i++) {
                sl_device_at(stream, keys_out)[i] = from[order[i]];
                sl_device_at(stream, values_out)[i] = sl_device_at(stream, values)[order[i]];
            }
            return true;
        });
        return cudaSuccess;
    }
};

} // namespace cub

#endif
