/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The scaled sum: one thread per entry adds the sources in order, in double. */
#include "codelets/kernel.cuh"

#include "codelets/gossip.h"

struct sources {
    const sl_real *source[SL_GOSSIP_MOST];
};

static __global__ void mix_sources(struct sources sources, uint32_t n, size_t n_entries, double scale, sl_real *out)
{
    for (size_t i = sl_thread(); i < n_entries; i += sl_n_threads()) {
        double sum = 0;
#pragma unroll 8
        for (uint32_t k = 0; k < n; k++) {
            sum += (double)sources.source[k][i];
        }
        out[i] = (sl_real)(scale * sum);
    }
}

enum sl_status sl_gossip_mix_cuda(cudaStream_t stream, uint32_t n, size_t n_entries, const sl_real *const *sources,
                                  double scale, sl_real *out)
{
    struct sources table = {};
    if (n > SL_GOSSIP_MOST) {
        return sl_fail(SL_EINVAL, "sl_gossip_mix: %u sources; a GPU takes at most %d", n, SL_GOSSIP_MOST);
    }
    for (uint32_t k = 0; k < n; k++) {
        table.source[k] = sources[k];
    }
    return sl_start("sl_gossip_mix", stream, sl_blocks(n_entries), mix_sources, table, n, n_entries, scale, out);
}
