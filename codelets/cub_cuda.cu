/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Each CUB function is called twice: for the size of its scratch memory, then to do the work. */
#define NVTX_DISABLE /* otherwise our objects define some NVTX symbols */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "codelets/cub.cuh"

/* call(room, bytes): a CUB function, first with room NULL, then with scratch memory. */
template <typename Call> static enum sl_status in_scratch(cudaStream_t stream, const char *name, Call call)
{
    sl_scratch room(stream);
    size_t bytes = 0;
    SL_CHECK(sl_cuda_status(call(nullptr, bytes), name));
    SL_CHECK(room.take(bytes, name));
    return sl_cuda_status(call(room.as<void>(), bytes), name);
}

enum sl_status sl_exclusive_sum(cudaStream_t stream, uint32_t n, uint32_t *x)
{
    if (n == 0) {
        return SL_OK;
    }
    return in_scratch(stream, "cub::DeviceScan::ExclusiveSum", [=](void *room, size_t &bytes) {
        return cub::DeviceScan::ExclusiveSum(room, bytes, x, x, n, stream);
    });
}

template <typename Value, typename Key>
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const Key *keys, const Value *values,
                             Key *keys_out, Value *values_out)
{
    if (n == 0) {
        return SL_OK;
    }
    return in_scratch(stream, "cub::DeviceRadixSort::SortPairs", [=](void *room, size_t &bytes) {
        return cub::DeviceRadixSort::SortPairs(room, bytes, keys, keys_out, values, values_out, n, 0, n_bits, stream);
    });
}

template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint32_t *, const uint32_t *, uint32_t *,
                                      uint32_t *);
template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint64_t *, const uint32_t *, uint64_t *,
                                      uint32_t *);
template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint32_t *, const uint16_t *, uint32_t *,
                                      uint16_t *);
