/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The type of numbers in rows and weights, and the type of vertex ids.
 *
 * The library computes in float. Tests link a second build of the same files with SL_REAL_DOUBLE, which matches
 * reference values to 1e-9. There is no choice at run time.
 */
#ifndef SL_SUPPORT_REAL_H
#define SL_SUPPORT_REAL_H

#include <stdint.h>

#ifdef SL_REAL_DOUBLE
typedef double sl_real;
#else
typedef float sl_real;
#endif

/* A vertex, 0 .. N - 1: the dataset's own id or the renumbered id. Each header says which. */
typedef uint32_t sl_vertex;

/* Compile a cache loop for several x86-64 levels; the program picks one when it starts. So one binary serves all nodes
 * of a cluster. Off if the compiler lacks target_clones, and under sanitizers, because target_clones disturbs
 * their start. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__) && !defined(__CUDACC__)
#define SL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SL_CLONES
#endif

/* A function that an SL_CLONES loop calls. It must be inlined into every compiled version. */
#define SL_INLINE static inline __attribute__((always_inline))

/* A function that C files call and CUDA files (C++) define. */
#ifdef __cplusplus
#define SL_EXTERN_C extern "C"
#else
#define SL_EXTERN_C
#endif

/* A function that CPU and CUDA kernels call. */
#ifdef __CUDACC__
#define SL_HOST_DEVICE __host__ __device__
#else
#define SL_HOST_DEVICE
#endif

/* "No vertex" or "no row". So N is at most 2^32 - 2. */
#define SL_NONE UINT32_MAX

#endif
