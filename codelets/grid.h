/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Kernels with one body for both devices. Their file is in both_sources (codelets/local.am) and is compiled twice: as C
 * for CPUs, and as CUDA with SL_KERNELS_ONLY.
 *
 * A kernel loops over its items with the grid's stride (codelets/kernel.cuh). On a CPU the grid is one thread, and a
 * warp has one lane: the thread takes all items in order, and a sum over lanes is the lane's own.
 *
 *   SL_KERNEL scale(size_t n, sl_real a, const sl_real *restrict x, sl_real *restrict z)
 *   {
 *       for (size_t i = sl_thread(); i < n; i += sl_n_threads()) {
 *           z[i] = a * x[i];
 *       }
 *   }
 *
 *   SL_LAUNCHER(sl_scale, size_t n, sl_real a, const sl_real *x, sl_real *z)
 *   {
 *       return SL_LAUNCH("sl_scale", sl_blocks(n), scale, n, a, x, z);
 *   }
 *
 * SL_LAUNCHER defines sl_scale_cpu or, with `stream` as its first parameter, sl_scale_cuda.
 */
#ifndef SL_CODELETS_GRID_H
#define SL_CODELETS_GRID_H

#include <string.h>

#include "support/real.h"
#include "support/status.h"
#include "tasks/handle.h"

/* A function that kernels call; a kernel; a launcher; the start of a kernel with the arguments that follow; a call of
 * another launcher; and zero bytes. All but the first two return a status. */
#ifdef SL_KERNELS_ONLY

#include "codelets/kernel.cuh"

#define restrict __restrict__
#define SL_DEVICE static inline __device__
#define SL_KERNEL static __global__ void
#define SL_LAUNCHER(name, ...) enum sl_status name##_cuda(cudaStream_t stream, __VA_ARGS__)
#define SL_LAUNCH(text, n_blocks, kernel, ...) sl_start(text, stream, n_blocks, kernel, __VA_ARGS__)
#define SL_LAUNCH_ALSO(name, ...) name##_cuda(stream, __VA_ARGS__)
#define sl_fetch(address) ((void)0)
#define sl_load(address) __ldg(address) /* of a number that the kernel does not change */
#define sl_assert(condition) ((void)0)
#define sl_ones(word) ((uint32_t)__popcll(word))
#define SL_CLEAR(text, data, bytes) sl_cuda_status(cudaMemsetAsync(data, 0, bytes, stream), text)

#else

#define SL_DEVICE SL_INLINE
#define SL_KERNEL SL_CLONES static void
#define SL_LAUNCHER(name, ...) enum sl_status name##_cpu(__VA_ARGS__)
#define SL_LAUNCH(text, n_blocks, kernel, ...) ((void)(n_blocks), kernel(__VA_ARGS__), SL_OK)
#define SL_LAUNCH_ALSO(name, ...) name##_cpu(__VA_ARGS__)
#define SL_CLEAR(text, data, bytes) (memset(data, 0, bytes), SL_OK)

#define SL_WARP 1
#define sl_blocks(n_items) (n_items)
#define sl_few_blocks(n_items) (n_items)
#define sl_warp_blocks(n_items) (n_items)
#define sl_thread() ((uint64_t)0)
#define sl_n_threads() ((uint64_t)1)
#define sl_warp() ((uint64_t)0)
#define sl_n_warps() ((uint64_t)1)
#define sl_lane() ((uint32_t)0)
#define sl_fetch(address) __builtin_prefetch(address)
#define sl_load(address) (*(address))
#define sl_assert(condition) assert(condition)
#define sl_warp_sum(x) (x)
#define sl_warp_max(x) (x)
#define sl_from_lane(x, distance) (x)
#define sl_add_shared(to, n) (*(to) += (n))
#define sl_next_shared(to) ((*(to))++)
#define sl_ones(word) ((uint32_t)__builtin_popcountll(word))

#endif

#endif
