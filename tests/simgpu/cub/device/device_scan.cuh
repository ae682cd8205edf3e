/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for CUB's header of this name: what CUDA sources of ours use of it.
 */
#ifndef SL_TESTS_DEVICE_SCAN_CUH
#define SL_TESTS_DEVICE_SCAN_CUH

#include "tests/simgpu/cuda_runtime.h"

namespace cub
{

struct DeviceScan {
    template <typename T>
    static cudaError_t ExclusiveSum(void *room, size_t &bytes, const T *in, T *out, size_t n, cudaStream_t stream)
    {
        if (room == nullptr) {
            bytes = 1;
            return cudaSuccess;
        }
        sl_device_give(stream, SL_COUNTED_CUB, [=] {
            const T *from = sl_device_at(stream, in);
            T *to = sl_device_at(stream, out);
            T sum = 0;
            for (size_t i = 0; i < n; i++) {
                T x = from[i];
                to[i] = sum;
                sum += x;
            }
            return true;
        });
        return cudaSuccess;
    }
};

} // namespace cub

#endif
