/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature rows by a warp a row: eight columns a lane where there is dropout, for they share one draw, else four where rows are
 * so aligned. */
#include "codelets/kernel.cuh"

#include "codelets/dropout.h"
#include "codelets/gather.h"

/* Where rows come from: the table, but for those in the cache, if there is one (slot_of not NULL). T: a number, or four. */
template <typename T> struct row_source {
    const T *table;
    const T *hot;
    const uint32_t *slot_of;
    uint32_t n_columns; /* of T */

    __device__ const T *row(uint32_t vertex) const
    {
        uint32_t slot = slot_of == nullptr ? SL_NONE : slot_of[vertex];
        return slot == SL_NONE ? table + (size_t)vertex * n_columns : hot + (size_t)slot * n_columns;
    }
};

template <typename T>
static __global__ void copy_rows(uint32_t n_rows, row_source<T> source, uint32_t first, const sl_vertex *ids, T *x)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const T *from = source.row(ids[i] - first);
        T *to = x + i * source.n_columns;
        for (uint32_t c = sl_lane(); c < source.n_columns; c += SL_WARP) {
            to[c] = from[c];
        }
    }
}

static __global__ void mask_rows(uint32_t n_rows, row_source<sl_real> source, uint32_t first, const sl_vertex *ids,
                                 uint32_t threshold, struct sl_draw draw, const sl_vertex *dataset_ids, sl_real *x)
{
    const sl_real scale = (sl_real)sl_dropout_scale(threshold);
    const uint32_t n_columns = source.n_columns;
    const uint32_t n_groups = (n_columns + 7) / 8;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *from = source.row(ids[i] - first);
        sl_real *to = x + i * n_columns;
        for (uint32_t g = sl_lane(); g < n_groups; g += SL_WARP) {
            uint16_t bits[8];
            sl_dropout_bits(&draw, dataset_ids[ids[i]], g, bits);
            for (uint32_t k = 0; k < 8 && 8 * g + k < n_columns; k++) {
                to[8 * g + k] = from[8 * g + k] * ((sl_real)(bits[k] >= threshold) * scale);
            }
        }
    }
}

enum sl_status sl_gather_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *table,
                              uint32_t first, const sl_vertex *ids, uint32_t threshold, const struct sl_draw *draw,
                              const sl_vertex *dataset_ids, const struct sl_hotrows *hot, sl_real *x_out)
{
    const char *name = "sl_gather";
    unsigned n_blocks = sl_warp_blocks(n_rows);
    row_source<sl_real> source = {table, nullptr, nullptr, n_columns};
    if (hot != nullptr) {
        enum sl_status st = sl_mapped(table, name, &source.table);
        if (st != SL_OK) {
            return st;
        }
        source.hot = hot->rows;
        source.slot_of = hot->slot_of;
    }
    if (threshold > 0) {
        return sl_start(name, stream, n_blocks, mask_rows, n_rows, source, first, ids, threshold, *draw, dataset_ids,
                        x_out);
    }
    uintptr_t addresses = (uintptr_t)source.table | (uintptr_t)source.hot | (uintptr_t)x_out;
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        row_source<float4> quads = {(const float4 *)source.table, (const float4 *)source.hot, source.slot_of,
                                    n_columns / 4};
        return sl_start(name, stream, n_blocks, copy_rows<float4>, n_rows, quads, first, ids, (float4 *)x_out);
    }
    return sl_start(name, stream, n_blocks, copy_rows<sl_real>, n_rows, source, first, ids, x_out);
}
