/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Matrices of relations from shared matrices: one thread per entry, one warp per component's gradient. */
#include "codelets/kernel.cuh"

#include "codelets/bases.h"

/* Entry j of row i of matrix k, of n_to matrices: the sum over n_from matrices. A weight is c[k * k_step + l * l_step]. */
static __global__ void combine(const struct sl_bases bases, uint32_t n_to, uint32_t n_from, const sl_real *from,
                               uint32_t k_step, uint32_t l_step, sl_real *to)
{
    const uint64_t size = (uint64_t)bases.n_in * bases.n_out;
    for (uint64_t e = sl_thread(); e < n_to * size; e += sl_n_threads()) {
        const uint32_t k = (uint32_t)(e / size);
        const uint32_t i = (uint32_t)(e % size / bases.n_out);
        const uint32_t j = (uint32_t)(e % bases.n_out);
        sl_real sum = 0;
        for (uint32_t l = 0; l < n_from; l++) {
            sum += bases.c[(size_t)k * k_step + (size_t)l * l_step] * from[sl_bases_row(&bases, n_from, l, i) + j];
        }
        to[sl_bases_row(&bases, n_to, k, i) + j] = sum;
    }
}

static __global__ void components(const struct sl_bases bases, const sl_real *gw, sl_real *gc)
{
    const uint64_t size = (uint64_t)bases.n_in * bases.n_out;
    for (uint64_t k = sl_warp(); k < (uint64_t)bases.n_relations * bases.n_bases; k += sl_n_warps()) {
        const uint32_t r = (uint32_t)(k / bases.n_bases);
        const uint32_t b = (uint32_t)(k % bases.n_bases);
        double sum = 0;
        for (uint64_t e = sl_lane(); e < size; e += SL_WARP) {
            const uint32_t i = (uint32_t)(e / bases.n_out);
            const uint32_t j = (uint32_t)(e % bases.n_out);
            sum += (double)gw[sl_bases_row(&bases, bases.n_relations, r, i) + j] *
                   (double)bases.v[sl_bases_row(&bases, bases.n_bases, b, i) + j];
        }
        sum = sl_warp_sum(sum);
        if (sl_lane() == 0) {
            gc[k] = (sl_real)sum;
        }
    }
}

enum sl_status sl_bases_cuda(cudaStream_t stream, const struct sl_bases *bases, sl_real *w_out)
{
    const uint64_t n = (uint64_t)bases->n_relations * bases->n_in * bases->n_out;
    return sl_start("sl_bases", stream, sl_blocks(n), combine, *bases, bases->n_relations, bases->n_bases, bases->v,
                    bases->n_bases, 1, w_out);
}

enum sl_status sl_bases_backward_cuda(cudaStream_t stream, const struct sl_bases *bases, const sl_real *gw,
                                      sl_real *gv_out, sl_real *gc_out)
{
    const uint64_t n = (uint64_t)bases->n_bases * bases->n_in * bases->n_out;
    enum sl_status st = sl_start("sl_bases_backward", stream, sl_blocks(n), combine, *bases, bases->n_bases,
                                 bases->n_relations, gw, 1, bases->n_bases, gv_out);
    if (st == SL_OK) {
        st = sl_start("sl_bases_backward: components", stream,
                      sl_warp_blocks((uint64_t)bases->n_relations * bases->n_bases), components, *bases, gw, gc_out);
    }
    return st;
}
