/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Column sums: slabs of rows first, each in float as on the CPU, then the slabs in double. */
#include "codelets/kernel.cuh"

#include "codelets/rows/bias.h"

#define SLAB 64 /* rows */

template <bool weighted> static __global__ void sum_slabs(struct sl_column_sums s, uint32_t n_slabs, sl_real *partial)
{
    for (uint64_t i = sl_thread(); i < (uint64_t)n_slabs * s.n_columns; i += sl_n_threads()) {
        uint32_t row = (uint32_t)(i / s.n_columns) * SLAB;
        uint32_t column = (uint32_t)(i % s.n_columns);
        uint32_t n = sl_least<uint32_t>(s.n_rows - row, SLAB);
        const sl_real *from = s.g + row * s.stride + column;
        const sl_real *weight = weighted ? s.weight + row * s.weight_stride + column / s.width : NULL;
        sl_real sum = 0;
#pragma unroll 8
        for (uint32_t r = 0; r < n; r++) {
            sum += weighted ? weight[r * s.weight_stride] * from[r * s.stride] : from[r * s.stride];
        }
        partial[i] = sum;
    }
}

/* The sums of columns, which sl_add_partials adds up. */
struct sums_of_columns {
    int beta;
    sl_real *sums;

    __device__ void take(uint64_t c, double sum) const
    {
        sums[c] = (sl_real)(beta == 0 ? sum : sum + (double)sums[c]);
    }
};

enum sl_status sl_column_sums_cuda(cudaStream_t stream, const struct sl_column_sums *s, int beta, sl_real *sums_out)
{
    const char *name = "the sums of columns";
    uint32_t n_slabs = s->n_rows / SLAB + (s->n_rows % SLAB > 0);
    uint64_t n = (uint64_t)n_slabs * s->n_columns;
    sl_scratch scratch(stream);
    SL_CHECK(scratch.take(n * sizeof *sums_out, "the partial sums of columns"));
    if (n > 0) {
        SL_CHECK(sl_start(name, stream, sl_blocks(n), s->weight == NULL ? sum_slabs<false> : sum_slabs<true>, *s,
                          n_slabs, scratch.as<sl_real>()));
    }
    return sl_start(name, stream, sl_partial_blocks(s->n_columns), sl_add_partials<sl_real, sums_of_columns>, n_slabs,
                    s->n_columns, scratch.as<sl_real>(), sums_of_columns{beta, sums_out});
}
