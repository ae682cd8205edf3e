/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Where the stand-ins' kernels and library calls take place. Without SL_EMULATED_GPU at once, on the process's own
 * memory. With it on simulated GPUs (device.cc) that StarPU's own CUDA driver runs: $SL_EMULATED_GPUS of them, 1 if
 * unset, each with $SL_EMULATED_GPU_MIB of memory, 2048 if unset and less than 4096. They are as unhelpful as CUDA
 * allows:
 *
 *   - a GPU's memory is closed to the program: a touch of the addresses that it has ends it with SIGSEGV. Kernels and
 *     library calls
 *     of that GPU find the same memory elsewhere, where the addresses among their arguments are moved; another GPU's
 *       stays closed
 *     to them;
 *   - what a stream is given waits: it is done, one piece a question, when somebody asks for the stream or an event,
 *     and not
 *     before; copies between a GPU and pinned memory, too;
 *   - a kernel that is given an address of main memory that is not pinned, and a copy beyond what was allocated or
 *     against its
 *     stated direction, are refused; a write just beyond an allocation ends the program when that is freed;
 *   - memory comes filled with rubbish, and its freed part is not handed out again soon.
 */
#ifndef SL_TESTS_DEVICE_H
#define SL_TESTS_DEVICE_H

#include <stddef.h>

#include <functional>

#include "tests/simgpu/counts.h"

struct CUstream_st;

/* A piece of a stream's work, called until it says that it is done. */
typedef std::function<bool()> sl_device_work;

#ifdef SL_EMULATED_GPU

/* A handle of cuBLAS or cuSPARSE. */
struct sl_device_library {
    CUstream_st *stream;
    int mode; /* of cuBLAS' arithmetic */
};

/* Give the stream (NULL: the default one) work, counted as a kernel or a library's call. */
void sl_device_give(CUstream_st *stream, enum sl_counted kind, sl_device_work work);

/* Whether a kernel of that stream may start here and now with such an argument; moves the addresses in it. */
bool sl_device_takes(CUstream_st *stream, void *argument, size_t bytes);

/* Where a library that works on that stream finds what the program knows by this address: that GPU's memory, or
 * pinned; with any other the program ends. */
void *sl_device_find(CUstream_st *stream, const void *address);

#else

template <typename Work> static inline void sl_device_give(CUstream_st *, enum sl_counted, Work work)
{
    work();
}

static inline bool sl_device_takes(CUstream_st *, void *, size_t)
{
    return true;
}

static inline void *sl_device_find(CUstream_st *, const void *address)
{
    return const_cast<void *>(address);
}

#endif

template <typename T> static inline T *sl_device_at(CUstream_st *stream, T *address)
{
    return static_cast<T *>(sl_device_find(stream, address));
}

#endif
