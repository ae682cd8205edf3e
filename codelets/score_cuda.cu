/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Correct predictions: one warp per row. Counts are integers, so atomics give the same result in any order. */
#include "codelets/kernel.cuh"

#include "codelets/score.h"

/* The first class with the row's largest logit; SL_NONE if a logit is NaN. All lanes get it. */
static __device__ uint32_t answer_of(uint32_t n_classes, const sl_real *z)
{
    sl_real top = 0;
    uint32_t best = SL_NONE; /* this lane has seen no class yet */
    int bad = 0;
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        bad |= z[c] != z[c];
        if (best == SL_NONE || z[c] > top) {
            top = z[c];
            best = c;
        }
    }
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        sl_real other_top = __shfl_xor_sync(0xffffffffu, top, distance);
        uint32_t other = __shfl_xor_sync(0xffffffffu, best, distance);
        if (other != SL_NONE && (best == SL_NONE || other_top > top || (other_top == top && other < best))) {
            top = other_top;
            best = other;
        }
    }
    return sl_warp_max(bad) ? SL_NONE : best;
}

static __device__ void count(uint64_t *counter)
{
    atomicAdd((unsigned long long *)counter, 1ULL);
}

static __global__ void score_rows(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const uint8_t *sets,
                                  const int32_t *labels, uint64_t *counts)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        uint32_t label = (uint32_t)labels[i];
        if (label >= n_classes || sets[i] >= SL_N_SETS) {
            continue; /* class unknown (label -1) */
        }
        uint64_t(*of_set)[SL_N_COUNTS] = (uint64_t(*)[SL_N_COUNTS])counts + (size_t)sets[i] * n_classes;
        uint32_t answer = answer_of(n_classes, z + i * n_classes);
        if (sl_lane() == 0) {
            count(&of_set[label][SL_COUNT_OF_CLASS]);
            if (answer != SL_NONE) {
                count(&of_set[answer][SL_COUNT_ANSWERS]);
            }
            if (answer == label) {
                count(&of_set[label][SL_COUNT_RIGHT]);
            }
        }
    }
}

static __global__ void keep_margins(uint32_t n_rows, const sl_real *z, float *margins)
{
    for (uint64_t i = sl_thread(); i < n_rows; i += sl_n_threads()) {
        margins[i] = (float)(z[2 * i + 1] - z[2 * i]);
    }
}

enum sl_status sl_score_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_classes, const sl_real *z,
                             const uint8_t *sets, const int32_t *labels, uint64_t *counts_out, float *margins_out)
{
    const char *name = "sl_score";
    size_t bytes = (size_t)SL_N_SETS * n_classes * SL_N_COUNTS * sizeof *counts_out;
    enum sl_status st = sl_cuda_status(cudaMemsetAsync(counts_out, 0, bytes, stream), name);
    if (st == SL_OK) {
        st = sl_start(name, stream, sl_warp_blocks(n_rows), score_rows, n_rows, n_classes, z, sets, labels, counts_out);
    }
    if (st == SL_OK && margins_out != NULL) {
        st = sl_start(name, stream, sl_blocks(n_rows), keep_margins, n_rows, z, margins_out);
    }
    return st;
}
