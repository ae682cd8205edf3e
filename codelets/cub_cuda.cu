/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * CUB is called twice: for the size of its scratch memory, then to do the work. */
#define NVTX_DISABLE /* otherwise our objects define some NVTX symbols */
#include <cub/device/device_radix_sort.cuh>

#include "codelets/cub.cuh"

template <typename Value, typename Key>
enum sl_status sl_sort_pairs(cudaStream_t stream, uint32_t n, int n_bits, const Key *keys, const Value *values,
                             Key *keys_out, Value *values_out)
{
    if (n == 0) {
        return SL_OK;
    }
    const char *name = "cub::DeviceRadixSort::SortPairs";
    sl_scratch room(stream);
    size_t bytes = 0;
    SL_CHECK(sl_cuda_status(
        cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, keys_out, values, values_out, n, 0, n_bits, stream),
        name));
    SL_CHECK(room.take(bytes, name));
    return sl_cuda_status(cub::DeviceRadixSort::SortPairs(room.as<void>(), bytes, keys, keys_out, values, values_out, n,
                                                          0, n_bits, stream),
                          name);
}

template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint32_t *, const uint32_t *, uint32_t *,
                                      uint32_t *);
template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint64_t *, const uint32_t *, uint64_t *,
                                      uint32_t *);
template enum sl_status sl_sort_pairs(cudaStream_t, uint32_t, int, const uint32_t *, const uint16_t *, uint32_t *,
                                      uint16_t *);
