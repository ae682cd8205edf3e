/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A stand-in for CUDA's header of this name, so that CUDA sources compile as plain C++ and their kernels run on the
 * CPU, thread by thread: `make check` tests the very lines that a GPU runs, on machines without GPU and toolkit.
 * This half is what C sees.
 *
 * Device memory is the process's own, filled with rubbish when it is handed out, at most SL_EMULATED_BYTES at a
 * time. Streams are done as soon as they are given something. With SL_EMULATED_GPU these are declarations, and
 * device.cc has the functions. What is not here, our sources do not use.
 */
#ifndef SL_TESTS_CUDA_RUNTIME_API_H
#define SL_TESTS_CUDA_RUNTIME_API_H

#include <stdlib.h>
#include <string.h>

typedef struct CUstream_st *cudaStream_t;
typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNotReady = 600
} cudaError_t;
struct cudaDeviceProp;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

#ifdef SL_EMULATED_GPU

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaFree(void *data);
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaGetDevice(int *out);
cudaError_t cudaMemGetInfo(size_t *free_out, size_t *bytes_out);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
#ifdef __cplusplus
}
#endif

#else

#define SL_EMULATED_BYTES ((size_t)1 << 30)

static inline cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = bytes <= SL_EMULATED_BYTES ? malloc(bytes > 0 ? bytes : 1) : NULL;
    if (*out == NULL) {
        return cudaErrorMemoryAllocation;
    }
    memset(*out, 0xa5, bytes);
    return cudaSuccess;
}

static inline cudaError_t cudaFree(void *data)
{
    free(data);
    return cudaSuccess;
}

static inline cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

static inline cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaMalloc(out, bytes);
}

static inline cudaError_t cudaFreeHost(void *data)
{
    return cudaFree(data);
}

static inline cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMalloc(out, bytes);
}

static inline cudaError_t cudaFreeAsync(void *data, cudaStream_t stream)
{
    (void)stream;
    return cudaFree(data);
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    (void)kind;
    (void)stream;
    if (bytes > 0) {
        memmove(to, from, bytes);
    }
    return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

static inline cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    if (bytes > 0) {
        memset(data, value, bytes);
    }
    return cudaSuccess;
}

static inline cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
    return cudaMemsetAsync(data, value, bytes, NULL);
}

static inline cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    (void)flags;
    *out = host;
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

#define cudaStreamNonBlocking 1
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = NULL;
    return cudaSuccess;
}

static inline cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

static inline cudaError_t cudaGetDevice(int *out)
{
    *out = 0;
    return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int device)
{
    return device >= 0 ? cudaSuccess : cudaErrorInvalidValue;
}

static inline cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    *out = NULL;
    return cudaSuccess;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceCount(int *out)
{
    *out = 1;
    return cudaSuccess;
}

static inline cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

static inline const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error of the stand-in";
}

static inline const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaErrorOfTheStandIn";
}

#endif /* SL_EMULATED_GPU */

#endif
