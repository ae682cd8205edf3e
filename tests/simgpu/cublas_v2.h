/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The stand-in for cuBLAS: two products, by way of CBLAS, which refuse what cuBLAS refuses: in float or in TF32,
 * and of bf16.
 */
#ifndef SL_TESTS_CUBLAS_V2_H
#define SL_TESTS_CUBLAS_V2_H

#include <cblas.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/cuda_runtime_api.h"
#include "tests/simgpu/library_types.h"
#ifdef SL_EMULATED_GPU
#include "tests/simgpu/device.h"
#endif

typedef struct cublasContext *cublasHandle_t;
typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;

#ifdef SL_EMULATED_GPU

static inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    reinterpret_cast<sl_device_library *>(handle)->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    reinterpret_cast<sl_device_library *>(handle)->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

#else

#define SL_CUBLAS_ON_CPU ((cublasHandle_t)64) /* the only handle there is; nobody looks behind it */

static inline cublasStatus_t cublasCreate(cublasHandle_t *out)
{
    *out = SL_CUBLAS_ON_CPU;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    return handle == SL_CUBLAS_ON_CPU ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

static inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    (void)stream;
    return handle == SL_CUBLAS_ON_CPU ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

static __thread int sl_cublas_mode;

static inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    sl_cublas_mode = mode;
    return handle == SL_CUBLAS_ON_CPU ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

#endif

static inline const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "no error" : "an error of the stand-in";
}

/* A factor as TF32 has it, to be freed by the caller: 10 bits after the point, the nearest, with ties away from
 * zero. NULL in float, where it is as it is. */
static inline float *sl_emulate_tf32(int mode, int n_rows, int n_columns, int ld, const float *x)
{
    float *rounded = mode == CUBLAS_TF32_TENSOR_OP_MATH ? (float *)calloc((size_t)n_columns, (size_t)ld * 4) : NULL;
    for (int c = 0; rounded != NULL && c < n_columns; c++) {
        for (int r = 0; r < n_rows; r++) {
            uint32_t bits;
            memcpy(&bits, x + (size_t)c * (size_t)ld + r, sizeof bits);
            bits = (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & ~UINT32_C(0x1fff);
            memcpy(rounded + (size_t)c * (size_t)ld + r, &bits, sizeof bits);
        }
    }
    return rounded;
}

static inline void sl_emulate_sgemm(int mode, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                                    float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c,
                                    int ldc)
{
    bool a_is_kept = op_a == CUBLAS_OP_N;
    bool b_is_kept = op_b == CUBLAS_OP_N;
    float *rounded_a = sl_emulate_tf32(mode, a_is_kept ? m : k, a_is_kept ? k : m, lda, a);
    float *rounded_b = sl_emulate_tf32(mode, b_is_kept ? k : n, b_is_kept ? n : k, ldb, b);
    cblas_sgemm(CblasColMajor, a_is_kept ? CblasNoTrans : CblasTrans, b_is_kept ? CblasNoTrans : CblasTrans, m, n, k,
                alpha, rounded_a != NULL ? rounded_a : a, lda, rounded_b != NULL ? rounded_b : b, ldb, beta, c, ldc);
    free(rounded_a);
    free(rounded_b);
}

/* A factor of bf16 as float, to be freed by the caller. */
static inline float *sl_emulate_widened(int n_rows, int n_columns, int ld, const void *x)
{
    float *wide = (float *)calloc((size_t)n_columns, (size_t)ld * sizeof *wide);
    for (int c = 0; c < n_columns; c++) {
        for (int r = 0; r < n_rows; r++) {
            const size_t at = (size_t)c * (size_t)ld + (size_t)r;
            const uint32_t bits = (uint32_t)((const uint16_t *)x)[at] << 16;
            memcpy(wide + at, &bits, sizeof bits);
        }
    }
    return wide;
}

static inline void sl_emulate_bf16(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, float alpha,
                                   const void *a, int lda, const void *b, int ldb, float beta, float *c, int ldc)
{
    bool a_is_kept = op_a == CUBLAS_OP_N;
    bool b_is_kept = op_b == CUBLAS_OP_N;
    float *wide_a = sl_emulate_widened(a_is_kept ? m : k, a_is_kept ? k : m, lda, a);
    float *wide_b = sl_emulate_widened(b_is_kept ? k : n, b_is_kept ? n : k, ldb, b);
    sl_emulate_sgemm(CUBLAS_DEFAULT_MATH, op_a, op_b, m, n, k, alpha, wide_a, lda, wide_b, ldb, beta, c, ldc);
    free(wide_a);
    free(wide_b);
}

static inline bool sl_emulate_sizes(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, int lda,
                                    int ldb, int ldc)
{
    int rows_a = op_a == CUBLAS_OP_N ? m : k;
    int rows_b = op_b == CUBLAS_OP_N ? k : n;
    return m >= 0 && n >= 0 && k >= 0 && lda >= 1 && lda >= rows_a && ldb >= 1 && ldb >= rows_b && ldc >= 1 && ldc >= m;
}

/* Column major: C [m x n] = alpha op(A) op(B) + beta C. */
static inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const float *alpha, const float *a, int lda, const float *b,
                                         int ldb, const float *beta, float *c, int ldc)
{
    if (!sl_emulate_sizes(op_a, op_b, m, n, k, lda, ldb, ldc)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
#ifdef SL_EMULATED_GPU
    const float by = *alpha;
    const float old = *beta;
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    cudaStream_t s = reinterpret_cast<sl_device_library *>(handle)->stream;
    const int mode = reinterpret_cast<sl_device_library *>(handle)->mode;
    sl_device_give(s, SL_COUNTED_CUBLAS, [=] {
        sl_emulate_sgemm(mode, op_a, op_b, m, n, k, by, sl_device_at(s, a), lda, sl_device_at(s, b), ldb, old,
                         sl_device_at(s, c), ldc);
        return true;
    });
#else
    if (handle != SL_CUBLAS_ON_CPU) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    sl_emulate_sgemm(sl_cublas_mode, op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
#endif
    return CUBLAS_STATUS_SUCCESS;
}

/* The same of factors of bf16, into float, and no other. */
static inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                          const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                                          cudaDataType c_type, int ldc, cublasComputeType_t computes,
                                          cublasGemmAlgo_t algorithm)
{
    if (!sl_emulate_sizes(op_a, op_b, m, n, k, lda, ldb, ldc)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || c_type != CUDA_R_32F || computes != CUBLAS_COMPUTE_32F ||
        algorithm != CUBLAS_GEMM_DEFAULT || ((uintptr_t)a | (uintptr_t)b) % 2 != 0 || (uintptr_t)c % 4 != 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const float by = *(const float *)alpha;
    const float old = *(const float *)beta;
#ifdef SL_EMULATED_GPU
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    cudaStream_t s = reinterpret_cast<sl_device_library *>(handle)->stream;
    sl_device_give(s, SL_COUNTED_CUBLAS, [=] {
        sl_emulate_bf16(op_a, op_b, m, n, k, by, sl_device_at(s, a), lda, sl_device_at(s, b), ldb, old,
                        (float *)sl_device_at(s, c), ldc);
        return true;
    });
#else
    if (handle != SL_CUBLAS_ON_CPU) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    sl_emulate_bf16(op_a, op_b, m, n, k, by, a, lda, b, ldb, old, (float *)c, ldc);
#endif
    return CUBLAS_STATUS_SUCCESS;
}

#endif
