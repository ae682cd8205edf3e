/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Matrices computed from parameters: one thread per entry, or one warp per row and head if there are sums along a
 * row. */
#include "codelets/kernel.cuh"

#include "codelets/derive.h"

static __global__ void add_identity(uint32_t n, sl_real a, sl_real b, const sl_real *w, sl_real *out)
{
    for (uint64_t i = sl_thread(); i < (uint64_t)n * n; i += sl_n_threads()) {
        sl_real entry = b * w[i];
        out[i] = i / n == i % n ? entry + a : entry;
    }
}

enum sl_status sl_derive_identity_cuda(cudaStream_t stream, uint32_t n, double a, double b, const sl_real *w,
                                       sl_real *out)
{
    return sl_start("sl_derive_identity", stream, sl_blocks((uint64_t)n * n), add_identity, n, (sl_real)a, (sl_real)b,
                    w, out);
}

/* One warp for the columns of a head in a row: copies the columns and sums their scores. */
static __global__ void append_scores(struct sl_derive_attention a, sl_real *out)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_slabs * a.n_heads; i += sl_n_warps()) {
        const uint32_t k = (uint32_t)(i % a.n_heads);
        const uint64_t j = i / a.n_heads;
        const sl_real *row = a.w + j * a.n_columns;
        const sl_real *src = a.src + j % a.n_slabs * a.n_columns;
        const sl_real *dst = a.dst + j % a.n_slabs * a.n_columns;
        sl_real *to = out + j * (a.n_columns + 2 * a.n_heads);
        sl_real from_src = 0;
        sl_real from_dst = 0;
        for (uint32_t c = k * width + sl_lane(); c < (k + 1) * width; c += SL_WARP) {
            sl_real x = row[c];
            to[c] = x;
            from_src += x * src[c];
            from_dst += x * dst[c];
        }
        from_src = sl_warp_sum(from_src);
        from_dst = sl_warp_sum(from_dst);
        if (sl_lane() == 0) {
            to[a.n_columns + k] = from_src;
            to[a.n_columns + a.n_heads + k] = from_dst;
        }
    }
}

enum sl_status sl_derive_attention_cuda(cudaStream_t stream, const struct sl_derive_attention *a, sl_real *out)
{
    return sl_start("sl_derive_attention", stream, sl_warp_blocks((uint64_t)a->n_rows * a->n_slabs * a->n_heads),
                    append_scores, *a, out);
}

/* One warp per row and slab of GW. */
static __global__ void backward_w(struct sl_derive_attention a, const sl_real *gout, sl_real *gw)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_slabs; i += sl_n_warps()) {
        const sl_real *g = gout + i * (a.n_columns + 2 * a.n_heads);
        const sl_real *src = a.src + i % a.n_slabs * a.n_columns;
        const sl_real *dst = a.dst + i % a.n_slabs * a.n_columns;
        const sl_real *score = g + a.n_columns;
        for (uint32_t c = sl_lane(); c < a.n_columns; c += SL_WARP) {
            uint32_t k = c / width;
            gw[i * a.n_columns + c] = g[c] + score[k] * src[c] + score[a.n_heads + k] * dst[c];
        }
    }
}

enum sl_status sl_derive_attention_backward_cuda(cudaStream_t stream, const struct sl_derive_attention *a,
                                                 const sl_real *gout, sl_real *gw_out, sl_real *gsrc_out,
                                                 sl_real *gdst_out)
{
    enum sl_status st;
    SL_TRY(st,
           sl_start("sl_derive_attention_backward", stream, sl_warp_blocks((uint64_t)a->n_rows * a->n_slabs),
                    backward_w, *a, gout, gw_out),
           failed);
    for (uint32_t r = 0; r < a->n_slabs; r++) {
        const size_t c0 = (size_t)r * a->n_columns;
        struct sl_column_sums sums = sl_derive_attention_sums(a, gout, r);
        SL_TRY(st, sl_column_sums_cuda(stream, &sums, 0, gsrc_out + c0), failed);
        sums.weight += a->n_heads;
        SL_TRY(st, sl_column_sums_cuda(stream, &sums, 0, gdst_out + c0), failed);
    }
failed:
    return st;
}
