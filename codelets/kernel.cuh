/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What CUDA sources (codelets/..._cuda.cu) share: launches, indices of threads and warps, errors.
 *
 * A CUDA source has kernels and launchers. A launcher is a C function, declared in the stem's header with SL_EXTERN_C; it takes
 * the stream first, device pointers, and sizes by value where the host knows them; it starts kernels on the stream, waits for
 * nothing unless its header says so, and returns SL_ECUDA where CUDA refused (message: which kernel, what CUDA said). Kernels
 * loop over their items with the grid's stride, so that any grid is right, and add up in an order that does not depend on it:
 * the same input gives the same bits. No atomics on floating-point numbers.
 *
 * Launches go through cudaLaunchKernel and not <<< >>>, whose error would have to be fetched afterwards and which is not C++.
 */
#ifndef SL_CODELETS_KERNEL_CUH
#define SL_CODELETS_KERNEL_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#define SL_THREADS 256 /* of a block, everywhere */
#define SL_WARP 32
#define SL_ALL_LANES 0xffffffffu
#define SL_MAX_BLOCKS 65535

/* In front of a loop whose every turn has its own registers. */
#ifdef __CUDACC__
#define SL_UNROLL _Pragma("unroll")
#else
#define SL_UNROLL
#endif

/* Blocks for one thread an item; at least one, so that a kernel may also be told its size by device memory. */
static inline unsigned sl_blocks(uint64_t n_items)
{
    uint64_t n = (n_items + SL_THREADS - 1) / SL_THREADS;
    if (n == 0) {
        return 1;
    }
    return n > SL_MAX_BLOCKS ? SL_MAX_BLOCKS : (unsigned)n;
}

/* Blocks for a kernel that is told its size by device memory: as many as fill a device, and no more than n_items, the most it
 * may be told, have a use for. */
static inline unsigned sl_few_blocks(uint64_t n_items)
{
    unsigned n = sl_blocks(n_items);
    return n < 2048 ? n : 2048;
}

/* Blocks for one warp an item. */
static inline unsigned sl_warp_blocks(uint64_t n_items)
{
    return sl_blocks(n_items * SL_WARP);
}

/* This thread's number in the grid, and how many there are. */
static inline __device__ uint64_t sl_thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static inline __device__ uint64_t sl_n_threads()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

/* This thread's warp in the grid, how many there are, and its place in it. */
static inline __device__ uint64_t sl_warp()
{
    return sl_thread() / SL_WARP;
}

static inline __device__ uint64_t sl_n_warps()
{
    return sl_n_threads() / SL_WARP;
}

static inline __device__ uint32_t sl_lane()
{
    return threadIdx.x % SL_WARP;
}

/* Whether rows of so many columns, or so many entries, can be had as quads: width and addresses allow it. NULL always does. */
static inline bool sl_in_quads(uint64_t n_columns, const void *a, const void *b, const void *c)
{
    return n_columns % 4 == 0 && ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % sizeof(float4) == 0;
}

/* The sum over the lanes of a full warp, in a fixed order; every lane gets it. */
template <typename T> static inline __device__ T sl_warp_sum(T x)
{
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

template <typename T> static inline __device__ T sl_warp_max(T x)
{
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        T y = __shfl_xor_sync(0xffffffffu, x, distance);
        x = y > x ? y : x;
    }
    return x;
}

/* CUDA's answer as a status; `what`: the kernel or call. */
static inline enum sl_status sl_cuda_status(cudaError_t error, const char *name)
{
    if (error != cudaSuccess) {
        return sl_fail(SL_ECUDA, "%s: CUDA failed: %s (%s)", name, cudaGetErrorString(error), cudaGetErrorName(error));
    }
    return SL_OK;
}

/* The device's address of a table in main memory, which must be pinned. */
static inline enum sl_status sl_mapped(const sl_real *table, const char *name, const sl_real **out)
{
    void *mapped = nullptr;
    cudaError_t error = cudaHostGetDevicePointer(&mapped, (void *)(uintptr_t)table, 0);
    *out = (const sl_real *)mapped;
    if (error != cudaSuccess) {
        return sl_fail(SL_ECUDA, "%s: a table in main memory that the device cannot read: %s", name,
                       cudaGetErrorString(error));
    }
    return SL_OK;
}

/* Start kernel<<<n_blocks, SL_THREADS, 0, stream>>>(arguments). */
template <typename... Parameters>
static inline enum sl_status sl_launch(const char *name, cudaStream_t stream, unsigned n_blocks,
                                       void (*kernel)(Parameters...), Parameters... arguments)
{
    void *list[] = {(void *)&arguments...};
    return sl_cuda_status(cudaLaunchKernel(kernel, dim3(n_blocks), dim3(SL_THREADS), list, 0, stream), name);
}

/* sl_launch with the arguments converted to the kernel's parameters. */
template <typename T> struct sl_same {
    typedef T type;
};
template <typename... Parameters>
static inline enum sl_status sl_start(const char *name, cudaStream_t stream, unsigned n_blocks,
                                      void (*kernel)(Parameters...), typename sl_same<Parameters>::type... arguments)
{
    return sl_launch<Parameters...>(name, stream, n_blocks, kernel, arguments...);
}

/* Working memory of one launcher: freed, in the stream's order, when it goes out of scope. Allocation and release wait for
 * nothing. StarPU leaves some of the device's memory to it (runtime/machine/gpus.h) and cannot make room for more. */
class sl_scratch
{
  public:
    explicit sl_scratch(cudaStream_t stream) : stream_(stream), data_(nullptr)
    {
    }
    ~sl_scratch()
    {
        if (data_ != nullptr) {
            cudaFreeAsync(data_, stream_);
        }
    }
    sl_scratch(const sl_scratch &) = delete;
    sl_scratch &operator=(const sl_scratch &) = delete;

    /* Once. At least one byte is taken, so that the pointer is never NULL. */
    enum sl_status take(size_t bytes, const char *name)
    {
        cudaError_t error = cudaMallocAsync(&data_, bytes > 0 ? bytes : 1, stream_);
        if (error == cudaErrorMemoryAllocation) {
            return sl_fail(SL_ECUDA,
                           "%s: the GPU has no room for %zu bytes of working memory; try a smaller --batch-size or "
                           "--fanout, or a smaller $STARPU_LIMIT_CUDA_MEM (MiB)",
                           name, bytes);
        }
        return sl_cuda_status(error, name);
    }
    template <typename T> T *as() const
    {
        return static_cast<T *>(data_);
    }

  private:
    cudaStream_t stream_;
    void *data_;
};

#endif
