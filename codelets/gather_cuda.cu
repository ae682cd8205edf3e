/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Feature rows by a warp a row: eight columns a lane where there is dropout, for they share one draw, else four where rows are
 * so aligned. */
#include "codelets/kernel.cuh"

#include "codelets/dropout.h"
#include "codelets/gather.h"

static __global__ void copy_rows(uint32_t n_rows, uint32_t n_columns, const sl_real *table, uint32_t first,
                                 const sl_vertex *ids, sl_real *x)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *from = table + (size_t)(ids[i] - first) * n_columns;
        sl_real *to = x + i * n_columns;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            to[c] = from[c];
        }
    }
}

/* The same where n_columns is a multiple of four and all rows are 16-byte aligned. */
static __global__ void copy_quads(uint32_t n_rows, uint32_t n_quads, const float4 *table, uint32_t first,
                                  const sl_vertex *ids, float4 *x)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const float4 *from = table + (size_t)(ids[i] - first) * n_quads;
        float4 *to = x + i * n_quads;
        for (uint32_t c = sl_lane(); c < n_quads; c += SL_WARP) {
            to[c] = from[c];
        }
    }
}

static __global__ void mask_rows(uint32_t n_rows, uint32_t n_columns, const sl_real *table, uint32_t first,
                                 const sl_vertex *ids, uint32_t threshold, struct sl_draw draw,
                                 const sl_vertex *dataset_ids, sl_real *x)
{
    const sl_real scale = (sl_real)sl_dropout_scale(threshold);
    const uint32_t n_groups = (n_columns + 7) / 8;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *from = table + (size_t)(ids[i] - first) * n_columns;
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
                              const sl_vertex *dataset_ids, sl_real *x_out)
{
    const char *name = "sl_gather";
    unsigned n_blocks = sl_warp_blocks(n_rows);
    if (threshold > 0) {
        return sl_start(name, stream, n_blocks, mask_rows, n_rows, n_columns, table, first, ids, threshold, *draw,
                        dataset_ids, x_out);
    }
    if (n_columns % 4 == 0 && ((uintptr_t)table | (uintptr_t)x_out) % sizeof(float4) == 0) {
        return sl_start(name, stream, n_blocks, copy_quads, n_rows, n_columns / 4, (const float4 *)table, first, ids,
                        (float4 *)x_out);
    }
    return sl_start(name, stream, n_blocks, copy_rows, n_rows, n_columns, table, first, ids, x_out);
}
