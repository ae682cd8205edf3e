/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A stand-in for cuSPARSE: M = alpha A X + beta M with A in CSR, rows one after the other, floats and 32-bit
 * indices, and nothing else. Its working memory is asked for and looked at, so that a caller who forgets it is
 * seen.
 */
#ifndef SL_TESTS_CUSPARSE_H
#define SL_TESTS_CUSPARSE_H

#include <stdint.h>

#include "tests/simgpu/cuda_runtime_api.h"
#include "tests/simgpu/library_types.h"
#ifdef __cplusplus
#include "tests/simgpu/device.h"
#endif

extern unsigned sl_emulated_products; /* how many products there have been */

typedef struct cusparseContext *cusparseHandle_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0, CUSPARSE_STATUS_INVALID_VALUE = 3 } cusparseStatus_t;
typedef enum { CUSPARSE_OPERATION_NON_TRANSPOSE = 0 } cusparseOperation_t;
typedef enum { CUSPARSE_INDEX_32I = 2 } cusparseIndexType_t;
typedef enum { CUSPARSE_INDEX_BASE_ZERO = 0 } cusparseIndexBase_t;
typedef enum { CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUSPARSE_SPMM_CSR_ALG3 = 12 } cusparseSpMMAlg_t;

typedef struct sl_emulated_matrix {
    int64_t n_rows, n_columns, n_entries;
    const int32_t *offsets, *columns;
    float *values; /* of the entries; a dense matrix row by row */
} * cusparseSpMatDescr_t;
typedef struct sl_emulated_matrix *cusparseDnMatDescr_t;

static inline cusparseStatus_t sl_emulate_matrix(struct sl_emulated_matrix **out, struct sl_emulated_matrix matrix)
{
    *out = (struct sl_emulated_matrix *)malloc(sizeof matrix);
    **out = matrix;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *out, int64_t n_rows, int64_t n_columns,
                                                 int64_t n_entries, void *offsets, void *columns, void *values,
                                                 cusparseIndexType_t offset_type, cusparseIndexType_t column_type,
                                                 cusparseIndexBase_t base, cudaDataType type)
{
    if (offset_type != CUSPARSE_INDEX_32I || column_type != CUSPARSE_INDEX_32I || base != CUSPARSE_INDEX_BASE_ZERO ||
        type != CUDA_R_32F) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    struct sl_emulated_matrix matrix = {
        n_rows, n_columns, n_entries, (const int32_t *)offsets, (const int32_t *)columns, (float *)values};
    return sl_emulate_matrix(out, matrix);
}

static inline cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *out, int64_t n_rows, int64_t n_columns,
                                                   int64_t stride, void *values, cudaDataType type,
                                                   cusparseOrder_t order)
{
    if (stride != n_columns || type != CUDA_R_32F || order != CUSPARSE_ORDER_ROW) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    struct sl_emulated_matrix matrix = {n_rows, n_columns, n_rows * n_columns, NULL, NULL, (float *)values};
    return sl_emulate_matrix(out, matrix);
}

static inline cusparseStatus_t cusparseDestroySpMat(cusparseSpMatDescr_t matrix)
{
    free(matrix);
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cusparseStatus_t cusparseDestroyDnMat(cusparseDnMatDescr_t matrix)
{
    free(matrix);
    return CUSPARSE_STATUS_SUCCESS;
}

#ifdef SL_EMULATED_GPU

static inline cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream)
{
    if (handle == nullptr) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    reinterpret_cast<sl_device_library *>(handle)->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cudaStream_t sl_emulated_stream(cusparseHandle_t handle)
{
    return reinterpret_cast<sl_device_library *>(handle)->stream;
}

#else

static inline cusparseStatus_t cusparseCreate(cusparseHandle_t *out)
{
    *out = NULL;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cusparseStatus_t cusparseDestroy(cusparseHandle_t handle)
{
    (void)handle;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    (void)stream;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cudaStream_t sl_emulated_stream(cusparseHandle_t handle)
{
    (void)handle;
    return NULL;
}

#endif

static inline const char *cusparseGetErrorString(cusparseStatus_t error)
{
    return error == CUSPARSE_STATUS_SUCCESS ? "no error" : "an error of the stand-in";
}

#ifdef __cplusplus

#define SL_EMULATED_BUFFER 64

static inline struct sl_emulated_matrix sl_emulated_there(cudaStream_t s, struct sl_emulated_matrix matrix)
{
    return {matrix.n_rows,
            matrix.n_columns,
            matrix.n_entries,
            sl_device_at(s, matrix.offsets),
            sl_device_at(s, matrix.columns),
            sl_device_at(s, matrix.values)};
}

static inline void sl_emulate_product(const struct sl_emulated_matrix &a, const struct sl_emulated_matrix &x,
                                      float alpha, float beta, const struct sl_emulated_matrix &m)
{
    if (a.offsets[0] != 0 || a.offsets[a.n_rows] != a.n_entries) {
        abort();
    }
    for (int64_t r = 0; r < m.n_rows; r++) {
        for (int64_t c = 0; c < m.n_columns; c++) {
            float *out = &m.values[r * m.n_columns + c];
            float sum = 0;
            for (int32_t e = a.offsets[r]; e < a.offsets[r + 1]; e++) {
                sum += a.values[e] * x.values[a.columns[e] * x.n_columns + c];
            }
            *out = alpha * sum + (beta == 0 ? 0 : beta * *out);
        }
    }
}

static inline cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t of_a,
                                                       cusparseOperation_t of_x, const void *alpha,
                                                       cusparseSpMatDescr_t a, cusparseDnMatDescr_t x, const void *beta,
                                                       cusparseDnMatDescr_t m, cudaDataType type,
                                                       cusparseSpMMAlg_t algorithm, size_t *bytes_out)
{
    (void)handle;
    (void)of_a;
    (void)of_x;
    (void)alpha;
    (void)beta;
    (void)type;
    (void)algorithm;
    if (a->n_columns != x->n_rows || a->n_rows != m->n_rows || x->n_columns != m->n_columns) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    *bytes_out = SL_EMULATED_BUFFER;
    return CUSPARSE_STATUS_SUCCESS;
}

static inline cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t of_a, cusparseOperation_t of_x,
                                            const void *alpha, cusparseSpMatDescr_t a, cusparseDnMatDescr_t x,
                                            const void *beta, cusparseDnMatDescr_t m, cudaDataType type,
                                            cusparseSpMMAlg_t algorithm, void *buffer)
{
    size_t bytes;
    cusparseStatus_t st = cusparseSpMM_bufferSize(handle, of_a, of_x, alpha, a, x, beta, m, type, algorithm, &bytes);
    if (st != CUSPARSE_STATUS_SUCCESS || buffer == NULL) {
        return CUSPARSE_STATUS_INVALID_VALUE;
    }
    __atomic_add_fetch(&sl_emulated_products, 1, __ATOMIC_RELAXED);
    const struct sl_emulated_matrix entries = *a, from = *x, to = *m; /* the caller may release its own at once */
    const float by = *(const float *)alpha, old = *(const float *)beta;
    cudaStream_t s = sl_emulated_stream(handle);
    sl_device_give(s, SL_COUNTED_CUSPARSE, [=] {
        memset(sl_device_at(s, buffer), 0, bytes);
        sl_emulate_product(sl_emulated_there(s, entries), sl_emulated_there(s, from), by, old,
                           sl_emulated_there(s, to));
        return true;
    });
    return CUSPARSE_STATUS_SUCCESS;
}

#endif /* __cplusplus */

#endif
