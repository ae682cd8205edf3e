/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * CUB's functions are called twice: to learn how much memory they need, and to do their work in it. */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "codelets/cub.cuh"

enum sl_status sl_exclusive_sum(cudaStream_t stream, uint32_t n, uint32_t *x)
{
    const char *name = "cub::DeviceScan::ExclusiveSum";
    sl_scratch room(stream);
    size_t bytes = 0;
    enum sl_status st;
    if (n == 0) {
        return SL_OK;
    }
    st = sl_cuda_status(cub::DeviceScan::ExclusiveSum(nullptr, bytes, x, x, n, stream), name);
    if (st == SL_OK) {
        st = room.take(bytes, name);
    }
    if (st == SL_OK) {
        st = sl_cuda_status(cub::DeviceScan::ExclusiveSum(room.as<void>(), bytes, x, x, n, stream), name);
    }
    return st;
}

template <typename Key>
static enum sl_status sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const Key *keys, const uint32_t *values,
                                 Key *keys_out, uint32_t *values_out)
{
    const char *name = "cub::DeviceRadixSort::SortPairs";
    sl_scratch room(stream);
    size_t bytes = 0;
    enum sl_status st;
    if (n == 0) {
        return SL_OK;
    }
    st = sl_cuda_status(
        cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, keys_out, values, values_out, n, 0, n_bits, stream),
        name);
    if (st == SL_OK) {
        st = room.take(bytes, name);
    }
    if (st == SL_OK) {
        st = sl_cuda_status(cub::DeviceRadixSort::SortPairs(room.as<void>(), bytes, keys, keys_out, values, values_out,
                                                            n, 0, n_bits, stream),
                            name);
    }
    return st;
}

enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const uint32_t *keys, const uint32_t *values,
                             uint32_t *keys_out, uint32_t *values_out)
{
    return sort_pairs(stream, n, n_bits, keys, values, keys_out, values_out);
}

enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const uint64_t *keys, const uint32_t *values,
                             uint64_t *keys_out, uint32_t *values_out)
{
    return sort_pairs(stream, n, n_bits, keys, values, keys_out, values_out);
}
