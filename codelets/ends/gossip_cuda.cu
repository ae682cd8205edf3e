/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The scaled sum: one thread per entry adds the sources in order, in double. The addresses of the sources are kernel
 * parameters. More than AT_ONCE sources take several launches, and a sum of doubles passes from one to the next. */
#include "codelets/kernel.cuh"

#include "codelets/ends/gossip.h"

#define AT_ONCE 256 /* sources per launch */

struct sources {
    const sl_real *source[AT_ONCE];
};

/* Add n more sources to the sum so far (more), or to 0. out: scale times the sum; NULL: keep the sum in *so_far. */
static __global__ void mix_sources(struct sources sources, uint32_t n, size_t n_entries, bool more, double *so_far,
                                   double scale, sl_real *out)
{
    for (size_t i = sl_thread(); i < n_entries; i += sl_n_threads()) {
        double sum = more ? so_far[i] : 0;
#pragma unroll 8
        for (uint32_t k = 0; k < n; k++) {
            sum += (double)sources.source[k][i];
        }
        if (out != nullptr) {
            out[i] = (sl_real)(scale * sum);
        } else {
            so_far[i] = sum;
        }
    }
}

enum sl_status sl_gossip_mix_cuda(cudaStream_t stream, uint32_t n, size_t n_entries, const sl_real *const *sources,
                                  double scale, sl_real *out)
{
    const char *name = "sl_gossip_mix";
    sl_scratch sum(stream);
    if (n > AT_ONCE) {
        SL_CHECK(sum.take(n_entries * sizeof(double), name));
    }
    for (uint32_t first = 0; first < n; first += AT_ONCE) {
        struct sources table = {};
        const uint32_t now = sl_least<uint32_t>(n - first, AT_ONCE);
        memcpy(table.source, sources + first, now * sizeof *sources);
        SL_CHECK(sl_start(name, stream, sl_blocks(n_entries), mix_sources, table, now, n_entries, first > 0,
                          sum.as<double>(), scale, first + now == n ? out : nullptr));
    }
    return SL_OK;
}
