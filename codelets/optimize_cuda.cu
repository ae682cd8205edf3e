/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Adam: one thread per entry. The kernel is bound by its seven streams of memory. */
#include "codelets/kernel.cuh"

#include "codelets/optimize.h"

static __global__ void update(struct sl_adam_step step, size_t n_entries, const sl_real *__restrict__ gradient,
                              sl_real *__restrict__ w, sl_real *__restrict__ m, sl_real *__restrict__ v)
{
    for (size_t i = sl_thread(); i < n_entries; i += sl_n_threads()) {
        sl_adam_entry(&step, gradient[i], &w[i], &m[i], &v[i]);
    }
}

/* One warp per row. */
static __global__ void update_rows(struct sl_adam_step step, uint32_t n_rows, uint32_t n_columns,
                                   const sl_real *__restrict__ gradient, const int8_t *__restrict__ touched,
                                   sl_real *__restrict__ w, sl_real *__restrict__ m, sl_real *__restrict__ v)
{
    for (uint64_t r = sl_warp(); r < n_rows; r += sl_n_warps()) {
        if (touched != NULL && touched[r] == 0) {
            continue;
        }
        const size_t first = (size_t)r * n_columns;
        int found = 0;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            found |= gradient[first + c] != 0;
        }
        if (sl_warp_max(found) == 0) {
            continue;
        }
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            sl_adam_entry(&step, gradient[first + c], &w[first + c], &m[first + c], &v[first + c]);
        }
    }
}

enum sl_status sl_optimize_rows_cuda(cudaStream_t stream, const struct sl_adam *adam, uint32_t n_rows,
                                     uint32_t n_columns, const sl_real *gradient, const int8_t *touched, sl_real *w,
                                     sl_real *m, sl_real *v)
{
    return sl_start("sl_optimize: rows", stream, sl_warp_blocks(n_rows), update_rows, sl_adam_step(adam), n_rows,
                    n_columns, gradient, touched, w, m, v);
}

enum sl_status sl_optimize_cuda(cudaStream_t stream, const struct sl_adam *adam, size_t n_entries,
                                const sl_real *gradient, sl_real *w, sl_real *m, sl_real *v)
{
    return sl_start("sl_optimize", stream, sl_blocks(n_entries), update, sl_adam_step(adam), n_entries, gradient, w, m,
                    v);
}
