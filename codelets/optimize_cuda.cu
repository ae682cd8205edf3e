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

enum sl_status sl_optimize_cuda(cudaStream_t stream, const struct sl_adam *adam, size_t n_entries,
                                const sl_real *gradient, sl_real *w, sl_real *m, sl_real *v)
{
    return sl_start("sl_optimize", stream, sl_blocks(n_entries), update, sl_adam_step(adam), n_entries, gradient, w, m,
                    v);
}
