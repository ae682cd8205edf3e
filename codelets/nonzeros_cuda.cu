/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Nonzeros of rows: one thread per row, one atomic per warp. Integer atomics give the same sum in any order. */
#include "codelets/kernel.cuh"

#include "codelets/nonzeros.h"

/* *n_out is zero before the launch. */
static __global__ void count_nonzeros(const uint32_t *n_rows, const sl_vertex *ids, uint32_t first,
                                      const uint64_t *offsets, unsigned long long *n_out)
{
    unsigned long long n = 0;
    for (uint64_t i = sl_thread(); i < *n_rows; i += sl_n_threads()) {
        const uint64_t *row = offsets + (ids[i] - first);
        n += row[1] - row[0];
    }
    n = sl_warp_sum(n);
    if (sl_lane() == 0 && n > 0) {
        atomicAdd(n_out, n);
    }
}

enum sl_status sl_nonzeros_cuda(cudaStream_t stream, uint32_t max_rows, const uint32_t *n_rows, const sl_vertex *ids,
                                uint32_t first, const uint64_t *offsets, uint64_t *n_out)
{
    const char *name = "sl_nonzeros";
    enum sl_status st = sl_cuda_status(cudaMemsetAsync(n_out, 0, sizeof *n_out, stream), name);
    if (st == SL_OK) {
        st = sl_start(name, stream, sl_few_blocks(max_rows), count_nonzeros, n_rows, ids, first, offsets,
                      (unsigned long long *)n_out);
    }
    return st;
}
