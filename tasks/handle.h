/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's data handles for codelet headers. A CUDA file defines SL_KERNELS_ONLY and includes these headers
 * without StarPU. The handle type is then opaque.
 */
#ifndef SL_TASKS_HANDLE_H
#define SL_TASKS_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/real.h"
#include "support/status.h"

#ifdef SL_KERNELS_ONLY
typedef struct sl_no_handle *starpu_data_handle_t;
#else
#include <starpu.h>
#endif

/* CUDA's type. Launchers are declared in all builds, and defined with CUDA. */
typedef struct CUstream_st *cudaStream_t;

/* Declare NAME_cpu, which returns `result`, and NAME_cuda, which starts the same on a stream's device and returns SL_OK
 * or SL_ECUDA. In NAME_cuda, arrays are in device memory; structs, and arrays of addresses, are in host memory. */
#define SL_DECLARE_LAUNCHER(result, name, ...)                                                                         \
    result name##_cpu(__VA_ARGS__);                                                                                    \
    SL_EXTERN_C enum sl_status name##_cuda(cudaStream_t stream, __VA_ARGS__)

/* Where a GPU runs a task. */
struct sl_queue {
    cudaStream_t stream;
    struct cublasContext *cublas; /* a cublasHandle_t of the stream's device. No other stream uses it */
    /* Factors of products are rounded to 10 bits after the point, sums are float. Devices below compute capability 8
     * multiply in float. */
    bool tf32;
};

/* The user data of a handle. */
struct sl_hold {
    enum sl_dtype dtype; /* of an entry: sl_handle_set_dtype (tasks/rows.h) */
    /* NULL, or some tasks that use the handle are held back from StarPU (tasks/bundle.h): submit them. A failure
     * becomes the run's failure. */
    void (*let_go)(const struct sl_hold *hold);
    /* While tasks are held back: sl_matrix_keep keeps the handle, whatever its size. */
    bool kept;
};

/* Rows row0 .. row0 + n_rows - 1 of a matrix that several PEs share. PEs with the same home have adjacent rows in
 * one matrix, so that tasks have few buffers. The writer of row 0 must be the first writer of the matrix. handle
 * NULL: no rows. */
struct sl_slice {
    starpu_data_handle_t handle;
    uint32_t row0, n_rows;
};

#endif
