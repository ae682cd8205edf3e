/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in's C++ half: kernels. A block's threads are coroutines of the calling thread (ucontext); each runs
 * until it waits for the others, at __syncthreads or a warp's shuffle. Blocks run one after the other, in an order
 * that is not ascending, and are often fewer than asked for, so that a kernel that relies on either fails here too.
 */
#ifndef SL_TESTS_CUDA_RUNTIME_H
#define SL_TESTS_CUDA_RUNTIME_H

#include "tests/simgpu/cuda_runtime_api.h"

#ifdef __cplusplus

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/simgpu/device.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __ldg(pointer) (*(pointer))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    explicit dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz)
    {
    }
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) ushort4 {
    unsigned short x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w)
{
    return {x, y, z, w};
}

extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim; /* the last two are dim3 to CUDA */

/* Of tests/simgpu/emulate.cc. */
void sl_emulate_grid(dim3 grid, dim3 block, void (*thread)(void *), void *argument);
void __syncthreads();
int __syncthreads_or(int predicate);
void __syncwarp(unsigned mask = 0xffffffffu);
uint64_t sl_emulate_shuffle(uint64_t bits, int from); /* of a full warp: what lane `from` has given */
unsigned __ballot_sync(unsigned mask, int flag);      /* of a full warp */

template <typename T> static inline T __shfl_sync(unsigned mask, T x, int from)
{
    uint64_t bits = 0;
    T result;
    (void)mask;
    static_assert(sizeof x <= sizeof bits, "a shuffled value is at most 8 bytes");
    memcpy(&bits, &x, sizeof x);
    bits = sl_emulate_shuffle(bits, from & 31);
    memcpy(&result, &bits, sizeof result);
    return result;
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T x, int distance)
{
    return __shfl_sync(mask, x, (int)(threadIdx.x % 32) ^ distance);
}

template <typename T> static inline T atomicAdd(T *at, T x)
{
    T old = *at;
    *at = old + x;
    return old;
}
template <typename T> static inline T atomicOr(T *at, T x)
{
    T old = *at;
    *at = old | x;
    return old;
}
template <typename T> static inline T atomicExch(T *at, T x)
{
    T old = *at;
    *at = x;
    return old;
}

template <typename T> static inline T atomicCAS(T *at, T expected, T x)
{
    T old = *at;
    *at = old == expected ? x : old;
    return old;
}
template <typename T> static inline T atomicMax(T *at, T x)
{
    T old = *at;
    *at = x > old ? x : old;
    return old;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}

/* A kernel and its arguments, as they were when it was launched. */
template <typename... Parameters> struct sl_emulated {
    void (*kernel)(Parameters...);
    std::tuple<typename std::decay<Parameters>::type...> arguments;

    static void thread(void *self)
    {
        std::apply(static_cast<sl_emulated *>(self)->kernel, static_cast<sl_emulated *>(self)->arguments);
    }
    template <size_t... i>
    static sl_emulated from(void (*kernel)(Parameters...), void **arguments, std::index_sequence<i...>)
    {
        return {kernel, {*static_cast<typename std::decay<Parameters>::type *>(arguments[i])...}};
    }
};

template <typename... Parameters>
static inline cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void **arguments,
                                           size_t shared_bytes, cudaStream_t stream)
{
    typedef sl_emulated<Parameters...> Call;
    if (grid.x == 0 || block.x == 0 || block.x > 1024 || shared_bytes > 0) {
        return cudaErrorInvalidValue;
    }
    Call call = Call::from(kernel, arguments, std::index_sequence_for<Parameters...>());
    if (!std::apply([&](auto &...x) { return (sl_device_takes(stream, &x, sizeof x) && ...); }, call.arguments)) {
        return cudaErrorInvalidValue;
    }
    sl_device_give(stream, SL_COUNTED_KERNELS, [=]() mutable {
        sl_emulate_grid(grid, block, Call::thread, &call);
        return true;
    });
    return cudaSuccess;
}

#endif /* __cplusplus */

#endif
