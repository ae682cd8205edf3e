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

static __global__ void mask_rows(struct sl_feature_rows rows, uint32_t n_rows, row_source<sl_real> source, sl_real *x)
{
    const sl_real scale = (sl_real)sl_dropout_scale(rows.threshold);
    const uint32_t n_columns = source.n_columns;
    const uint32_t n_groups = (n_columns + 7) / 8;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *from = source.row(rows.ids[i] - rows.first);
        sl_real *to = x + i * n_columns;
        for (uint32_t g = sl_lane(); g < n_groups; g += SL_WARP) {
            uint16_t bits[8];
            sl_dropout_bits(&rows.draw, rows.dataset_ids[rows.ids[i]], g, bits);
            for (uint32_t k = 0; k < 8 && 8 * g + k < n_columns; k++) {
                to[8 * g + k] = from[8 * g + k] * ((sl_real)(bits[k] >= rows.threshold) * scale);
            }
        }
    }
}

enum sl_status sl_gather_cuda(cudaStream_t stream, const struct sl_feature_rows *rows, uint32_t n_rows, sl_real *x_out)
{
    const char *name = "sl_gather";
    const uint32_t n_columns = rows->n_columns;
    unsigned n_blocks = sl_warp_blocks(n_rows);
    row_source<sl_real> source = {rows->table, nullptr, nullptr, n_columns};
    if (rows->hot != nullptr) {
        enum sl_status st = sl_mapped(rows->table, name, &source.table);
        if (st != SL_OK) {
            return st;
        }
        source.hot = rows->hot->rows;
        source.slot_of = rows->hot->slot_of;
    }
    if (rows->threshold > 0) {
        struct sl_feature_rows wanted = *rows;
        wanted.table = nullptr; /* the host's addresses: the kernel has `source` */
        wanted.hot = nullptr;
        return sl_start(name, stream, n_blocks, mask_rows, wanted, n_rows, source, x_out);
    }
    uintptr_t addresses = (uintptr_t)source.table | (uintptr_t)source.hot | (uintptr_t)x_out;
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        row_source<float4> quads = {(const float4 *)source.table, (const float4 *)source.hot, source.slot_of,
                                    n_columns / 4};
        return sl_start(name, stream, n_blocks, copy_rows<float4>, n_rows, quads, rows->first, rows->ids,
                        (float4 *)x_out);
    }
    return sl_start(name, stream, n_blocks, copy_rows<sl_real>, n_rows, source, rows->first, rows->ids, x_out);
}
