/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's data handles for codelet headers. A CUDA file defines SL_KERNELS_ONLY and includes these headers
 * without StarPU. The handle type is then opaque.
 */
#ifndef SL_TASKS_HANDLE_H
#define SL_TASKS_HANDLE_H

#include <stdint.h>

#include "support/dtype.h"

#ifdef SL_KERNELS_ONLY
typedef struct sl_no_handle *starpu_data_handle_t;
#else
#include <starpu.h>
#endif

/* Launchers are declared in all builds, and defined with CUDA. */
#ifdef SL_CUDA
#include <cuda_runtime_api.h>
#else
typedef struct CUstream_st *cudaStream_t;
#endif

/* The user data of a handle. */
struct sl_hold {
    enum sl_dtype dtype; /* of an entry: sl_handle_set_dtype (tasks/rows.h) */
    /* NULL, or some tasks that use the handle are held back from StarPU (tasks/bundle.h): submit them. A failure
     * becomes the run's failure. */
    void (*let_go)(const struct sl_hold *hold);
};

/* Rows row0 .. row0 + n_rows - 1 of a matrix that several PEs share. PEs with the same home have adjacent rows in
 * one matrix, so that tasks have few buffers. The writer of row 0 must be the first writer of the matrix. handle
 * NULL: no rows. */
struct sl_slice {
    starpu_data_handle_t handle;
    uint32_t row0, n_rows;
};

#endif
