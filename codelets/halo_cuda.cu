/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of a part for another rank: a warp a row. */
#include "codelets/kernel.cuh"

#include "codelets/halo.h"

#define CHUNKS 256 /* of a launch: what a kernel's parameters have room for */

/* Chunks first .. first + n - 1. */
struct chunks {
    uint32_t first, n;
    uint32_t shift; /* row i is row (i & mask) of chunk i >> shift */
    const sl_real *of[CHUNKS];
};

/* Those rows of the list that are in these chunks; of n_columns of T. */
template <typename T>
static __global__ void pack_listed(struct chunks chunks, uint32_t n, uint32_t n_columns, const uint32_t *list,
                                   T *packed)
{
    const uint32_t mask = (1u << chunks.shift) - 1;
    for (uint64_t i = sl_warp(); i < n; i += sl_n_warps()) {
        uint32_t c = (list[i] >> chunks.shift) - chunks.first; /* of a chunk before them: more than there are */
        const T *from = c < chunks.n ? (const T *)chunks.of[c] + (size_t)(list[i] & mask) * n_columns : nullptr;
        for (uint32_t k = sl_lane(); from != nullptr && k < n_columns; k += SL_WARP) {
            packed[i * n_columns + k] = from[k];
        }
    }
}

enum sl_status sl_halo_pack_cuda(cudaStream_t stream, const struct sl_halo_rows *rows, uint32_t n, uint32_t n_columns,
                                 const uint32_t *list, sl_real *packed_out)
{
    const char *name = "sl_halo_pack";
    uintptr_t addresses = (uintptr_t)packed_out;
    enum sl_status st = SL_OK;
    for (uint32_t c = 0; c < rows->n_chunks; c++) {
        addresses |= (uintptr_t)rows->chunk[c];
    }
    bool quads = n_columns % 4 == 0 && addresses % sizeof(float4) == 0;
    for (uint32_t c = 0; c < rows->n_chunks && st == SL_OK; c += CHUNKS) {
        struct chunks some = {c, rows->n_chunks - c < CHUNKS ? rows->n_chunks - c : CHUNKS, rows->shift, {}};
        for (uint32_t i = 0; i < some.n; i++) {
            some.of[i] = rows->chunk[c + i];
        }
        st = quads ? sl_start(name, stream, sl_warp_blocks(n), pack_listed<float4>, some, n, n_columns / 4, list,
                              (float4 *)packed_out)
                   : sl_start(name, stream, sl_warp_blocks(n), pack_listed<sl_real>, some, n, n_columns, list,
                              packed_out);
    }
    return st;
}
