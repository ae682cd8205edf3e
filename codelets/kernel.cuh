/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Shared by CUDA sources: launches, indices of threads and warps, errors. CUDA sources are
 * codelets/FAMILY/NAME_cuda.cu, and the sources of both devices (codelets/grid.h).
 *
 * A CUDA source has kernels and launchers. A launcher is a C function. The header of the same name declares it with
 * SL_EXTERN_C or SL_DECLARE_LAUNCHER. Its first parameter is the stream. It takes device pointers, and sizes by value
 * if the host knows them. It starts kernels on the stream and does not wait, unless its header says so. If CUDA reports
 * an error, it returns SL_ECUDA, with a message that names the kernel and CUDA's error.
 *
 * Kernels loop over their items with the grid's stride, so any grid size is correct. The order of additions does not
 * depend on the grid: the same input gives the same bits. Floating-point atomics are not allowed.
 *
 * Launches use cudaLaunchKernel. The <<< >>> syntax is not C++ and returns no error.
 */
#ifndef SL_CODELETS_KERNEL_CUH
#define SL_CODELETS_KERNEL_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#define SL_THREADS 256 /* of a block, everywhere */
#define SL_WARP 32
#define SL_WARPS (SL_THREADS / SL_WARP) /* of a block */
#define SL_ALL_LANES 0xffffffffu
#define SL_MAX_BLOCKS 65535

/* Before a loop whose iterations must each have their own registers. */
#ifdef __CUDACC__
#define SL_UNROLL _Pragma("unroll")
#else
#define SL_UNROLL
#endif

/* The smaller of two numbers. If their types differ, name the type. */
template <typename T> static inline SL_HOST_DEVICE T sl_least(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> static inline SL_HOST_DEVICE T sl_most(T a, T b)
{
    return a < b ? b : a;
}

/* Warps with one lane for each of n items. */
static inline SL_HOST_DEVICE uint32_t sl_tiles(uint32_t n)
{
    return n / SL_WARP + (n % SL_WARP > 0);
}

/* Blocks for one thread per item, at least one: a kernel may read its real size from device memory. */
static inline unsigned sl_blocks(uint64_t n_items)
{
    uint64_t n = (n_items + SL_THREADS - 1) / SL_THREADS;
    if (n == 0) {
        return 1;
    }
    return n > SL_MAX_BLOCKS ? SL_MAX_BLOCKS : (unsigned)n;
}

/* Blocks for a kernel that reads its size from device memory: enough to fill a device, but not more than n_items
 * need. n_items: upper bound of the size. */
static inline unsigned sl_few_blocks(uint64_t n_items)
{
    return sl_least(sl_blocks(n_items), 2048u);
}

/* Blocks for one warp per item. */
static inline unsigned sl_warp_blocks(uint64_t n_items)
{
    return sl_blocks(n_items * SL_WARP);
}

/* Index of this thread in the grid, and number of threads in the grid. */
static inline __device__ uint64_t sl_thread()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static inline __device__ uint64_t sl_n_threads()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

/* Index of this thread's warp in the grid, number of warps, and this thread's lane. */
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

/* Whether rows of n_columns elements can be read four at a time: width and addresses allow it. NULL is always
 * aligned. */
static inline bool sl_in_quads(uint64_t n_columns, const void *a, const void *b, const void *c)
{
    return n_columns % 4 == 0 && ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % sizeof(float4) == 0;
}

/* The value of the lane at this distance (xor), in a full warp. */
template <typename T> static inline __device__ T sl_from_lane(T x, int distance)
{
    return __shfl_xor_sync(SL_ALL_LANES, x, distance);
}

/* Sum over the lanes of a full warp, in a fixed order. All lanes get it. */
template <typename T> static inline __device__ T sl_warp_sum(T x)
{
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        x += sl_from_lane(x, distance);
    }
    return x;
}

template <typename T> static inline __device__ T sl_warp_max(T x)
{
    for (int distance = SL_WARP / 2; distance > 0; distance /= 2) {
        T y = sl_from_lane(x, distance);
        x = y > x ? y : x;
    }
    return x;
}

/* Sum over this lane and those before it. All lanes of the warp call. */
static inline __device__ uint32_t sl_warp_sum_to(uint32_t x)
{
    for (uint32_t distance = 1; distance < SL_WARP; distance *= 2) {
        const uint32_t y = __shfl_sync(SL_ALL_LANES, x, (int)((sl_lane() - distance) % SL_WARP));
        x += sl_lane() >= distance ? y : 0;
    }
    return x;
}

/* Add n rows of partial sums by column, in double. put.take(c, sum) gets the sum of column c. A block has SL_WARP
 * columns: each warp adds consecutive rows, then the first warp adds the warps' sums. */
template <typename T, typename Put>
static __global__ void sl_add_partials(uint32_t n, uint32_t n_columns, const T *partial, const Put put)
{
    __shared__ double sums[SL_WARPS][SL_WARP];
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t share = (n + SL_WARPS - 1) / SL_WARPS;
    const uint32_t end = sl_least(n, (warp + 1) * share);
    for (uint64_t c0 = (uint64_t)blockIdx.x * SL_WARP; c0 < n_columns; c0 += (uint64_t)gridDim.x * SL_WARP) {
        const uint64_t c = c0 + sl_lane();
        double sum = 0;
#pragma unroll 4
        for (uint32_t i = warp * share; i < end; i++) {
            sum += c < n_columns ? (double)partial[(size_t)i * n_columns + c] : 0;
        }
        sums[warp][sl_lane()] = sum;
        __syncthreads();
        if (warp == 0 && c < n_columns) {
            for (uint32_t w = 1; w < SL_WARPS; w++) {
                sum += sums[w][sl_lane()];
            }
            put.take(c, sum);
        }
        __syncthreads();
    }
}

/* Blocks for sl_add_partials. */
static inline unsigned sl_partial_blocks(uint32_t n_columns)
{
    return sl_blocks((uint64_t)n_columns * SL_WARPS);
}

/* Add to a number that other threads add to, too. Integers only: their sum has the same bits in any order. */
static inline __device__ void sl_add_shared(uint64_t *to, uint64_t n)
{
    atomicAdd((unsigned long long *)to, (unsigned long long)n);
}

/* Add 1 to such a number, and return the number before. */
static inline __device__ uint64_t sl_next_shared(uint64_t *to)
{
    return atomicAdd((unsigned long long *)to, 1ull);
}

/* Translate CUDA's error to a status. name: the kernel or call. */
static inline enum sl_status sl_cuda_status(cudaError_t error, const char *name)
{
    if (error != cudaSuccess) {
        return sl_fail(SL_ECUDA, "%s: CUDA failed: %s (%s)", name, cudaGetErrorString(error), cudaGetErrorName(error));
    }
    return SL_OK;
}

/* Device address of a table in main memory, which must be pinned. */
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

/* Start kernel<<<n_blocks, SL_THREADS, 0, stream>>>(arguments), which are converted to the kernel's parameter types. */
template <typename T> struct sl_same {
    typedef T type;
};
template <typename... Parameters>
static inline enum sl_status sl_start(const char *name, cudaStream_t stream, unsigned n_blocks,
                                      void (*kernel)(Parameters...), typename sl_same<Parameters>::type... arguments)
{
    static_assert((((sizeof(Parameters) + 7) / 8 * 8) + ... + 0) <= 4096, "CUDA before 12.1 takes 4 KiB");
    void *list[] = {(void *)&arguments...};
    return sl_cuda_status(cudaLaunchKernel(kernel, dim3(n_blocks), dim3(SL_THREADS), list, 0, stream), name);
}

/* Memory for the launchers of one stream, which one thread calls. A stream runs in order. So the next launcher may
 * write where an earlier one still has to read, and no step calls CUDA for memory. The arena grows to the most that
 * launchers had at a time, up to a bound, while none has any. What does not fit comes from the device's pool. */
struct sl_arena {
    cudaStream_t stream;
    char *data; /* NULL: none yet */
    size_t bytes, used;
    size_t live, most;    /* bytes that launchers have, here and outside, and the most so far */
    size_t refused;       /* `most` when the device had no room */
    struct sl_scan *scan; /* codelets/scan.cuh; NULL: none yet */
    uint32_t n_scans;     /* launches with it */
};

/* The calling thread's arena for the stream (codelets/arena_cuda.cu). */
struct sl_arena *sl_arena_of(cudaStream_t stream);

/* Working memory of one launcher, until it goes out of scope. To take it and to give it back does not wait. StarPU
 * leaves some device memory for it (runtime/machine/gpus.h), but cannot evict data to make room for more. */
class sl_scratch
{
  public:
    explicit sl_scratch(cudaStream_t stream) : stream_(stream), arena_(nullptr), data_(nullptr), bytes_(0)
    {
    }
    ~sl_scratch()
    {
        if (data_ == nullptr) {
            return;
        }
        arena_->live -= bytes_;
        if (!is_inside()) {
            cudaFreeAsync(data_, stream_);
        } else if (data_ + bytes_ == arena_->data + arena_->used) {
            arena_->used -= bytes_;
        }
        if (arena_->live == 0) {
            arena_->used = 0;
        }
    }
    sl_scratch(const sl_scratch &) = delete;
    sl_scratch &operator=(const sl_scratch &) = delete;

    /* Call once. At least one byte is taken, so that the pointer is never NULL. */
    enum sl_status take(size_t bytes, const char *name)
    {
        arena_ = sl_arena_of(stream_);
        bytes_ = (sl_most(bytes, (size_t)1) + ALIGNED - 1) / ALIGNED * ALIGNED;
        arena_->live += bytes_;
        arena_->most = sl_most(arena_->most, arena_->live);
        cudaError_t error = place();
        if (error != cudaSuccess) {
            arena_->live -= bytes_;
        }
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
        return reinterpret_cast<T *>(data_);
    }

  private:
    static constexpr size_t ALIGNED = 256;            /* as cudaMalloc aligns */
    static constexpr size_t MOST = (size_t)128 << 20; /* that an arena keeps from other data */

    bool is_inside() const
    {
        return data_ >= arena_->data && data_ < arena_->data + arena_->bytes;
    }

    /* In the arena, or in memory of its own if the arena is too small and cannot grow now. */
    cudaError_t place()
    {
        if (arena_->live == bytes_ && arena_->bytes < sl_least(arena_->most, MOST) && arena_->refused < arena_->most) {
            grow();
        }
        if (bytes_ > arena_->bytes - arena_->used) {
            return cudaMallocAsync((void **)&data_, bytes_, stream_);
        }
        data_ = arena_->data + arena_->used;
        arena_->used += bytes_;
        return cudaSuccess;
    }

    /* To the most that launchers had at a time, and a quarter more: sizes differ from step to step. */
    void grow()
    {
        const size_t bytes = sl_least(arena_->most + arena_->most / 4, MOST);
        char *data;
        if (cudaMallocAsync((void **)&data, bytes, stream_) != cudaSuccess) {
            cudaGetLastError(); /* what fails next says so */
            arena_->refused = arena_->most;
            return;
        }
        if (arena_->data != nullptr) {
            cudaFreeAsync(arena_->data, stream_);
        }
        arena_->data = data;
        arena_->bytes = bytes;
    }

    cudaStream_t stream_;
    struct sl_arena *arena_;
    char *data_;
    size_t bytes_;
};

#endif
