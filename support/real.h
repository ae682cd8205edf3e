/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The number type of all rows and weights, and the width of ids.
 *
 * The product computes in float. The tests link a second build of the same sources with SL_REAL_DOUBLE, so that reference
 * figures can be met to 1e-9; no run-time choice is made of it.
 */
#ifndef SL_SUPPORT_REAL_H
#define SL_SUPPORT_REAL_H

#include <stdint.h>

#ifdef SL_REAL_DOUBLE
typedef double sl_real;
#else
typedef float sl_real;
#endif

/* A vertex, 0 .. N-1: either the dataset's own id or the renumbered one; each header says which. */
typedef uint32_t sl_vertex;

/* Compile a hot loop for several x86-64 levels and pick one when the program starts: one binary serves all nodes of a cluster.
 * Off where the compiler cannot, and under sanitizers, whose start-up it disturbs. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__) && !defined(__CUDACC__)
#define SL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SL_CLONES
#endif

/* A part of such a loop in a function of its own: it must become part of each of the compiled versions. */
#define SL_INLINE static inline __attribute__((always_inline))

/* A function that C calls and CUDA sources, which are C++, define. */
#ifdef __cplusplus
#define SL_EXTERN_C extern "C"
#else
#define SL_EXTERN_C
#endif

/* A function of one item, which kernels of both kinds call. */
#ifdef __CUDACC__
#define SL_HOST_DEVICE __host__ __device__
#else
#define SL_HOST_DEVICE
#endif

/* "No vertex", "no row". N is therefore at most 2^32 - 2. */
#define SL_NONE UINT32_MAX

#endif
