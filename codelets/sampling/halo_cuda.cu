/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Packing of a part's rows for another rank: one warp per row. */
#include "codelets/bf16.cuh"

#include "codelets/sampling/halo.h"

#define CHUNKS 256 /* chunks per launch, limited by the size of kernel parameters */

/* Chunks first .. first + n - 1 of the rows. */
struct chunks {
    uint32_t first, n;
    uint32_t shift; /* row i is row (i & mask) of chunk i >> shift */
    const void *base[CHUNKS];
};

/* In units of T: width of a row, first copied column, number of copied columns, and width of a packed row. */
struct columns {
    uint32_t row, first, n, packed;
};

/* Pack the listed rows that lie in these chunks. */
template <typename T>
static __global__ void pack_listed(struct chunks chunks, struct columns columns, uint32_t n, const uint32_t *list,
                                   T *packed)
{
    const uint32_t mask = (1u << chunks.shift) - 1;
    for (uint64_t i = sl_warp(); i < n; i += sl_n_warps()) {
        uint32_t c = (list[i] >> chunks.shift) - chunks.first; /* a chunk before `first` wraps around and is >= n */
        if (c >= chunks.n) {
            continue;
        }
        const T *from = (const T *)chunks.base[c] + (size_t)(list[i] & mask) * columns.row + columns.first;
        for (uint32_t k = sl_lane(); k < columns.packed; k += SL_WARP) {
            packed[i * columns.packed + k] = k < columns.n ? from[k] : T();
        }
    }
}

static enum sl_status pack_some(cudaStream_t stream, const struct chunks &chunks, const struct columns &bytes,
                                uintptr_t addresses, uint32_t n, const uint32_t *list, void *packed)
{
    return sl_by_copy_unit(bytes.row | bytes.first | bytes.n | bytes.packed | addresses, [&](auto entry) {
        typedef decltype(entry) T;
        const uint32_t unit = sizeof(T);
        const struct columns columns = {bytes.row / unit, bytes.first / unit, bytes.n / unit, bytes.packed / unit};
        return sl_start("sl_halo_pack", stream, sl_warp_blocks(n), pack_listed<T>, chunks, columns, n, list,
                        (T *)packed);
    });
}

enum sl_status sl_halo_pack_cuda(cudaStream_t stream, const struct sl_halo_rows *rows, uint32_t column, uint32_t n,
                                 uint32_t width, const uint32_t *list, void *packed_out)
{
    uintptr_t addresses = (uintptr_t)packed_out;
    for (uint32_t c = 0; c < rows->n_chunks; c++) {
        addresses |= (uintptr_t)rows->chunk[c];
    }
    const uint32_t each = (uint32_t)sl_dtype_bytes(rows->dtype, 1);
    const struct columns bytes = {rows->n_columns * each, column * each,
                                  sl_least(rows->n_columns - column, width) * each, width * each};
    for (uint32_t c = 0; c < rows->n_chunks; c += CHUNKS) {
        struct chunks some = {c, sl_least<uint32_t>(rows->n_chunks - c, CHUNKS), rows->shift, {}};
        for (uint32_t i = 0; i < some.n; i++) {
            some.base[i] = rows->chunk[c + i];
        }
        SL_CHECK(pack_some(stream, some, bytes, addresses, n, list, packed_out));
    }
    return SL_OK;
}
