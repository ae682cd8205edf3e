/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's handles for the headers of codelets. CUDA sources read those headers for their kernels' sake alone and include no
 * StarPU (SL_KERNELS_ONLY): to them a handle is but a name.
 */
#ifndef SL_CODELETS_HANDLE_H
#define SL_CODELETS_HANDLE_H

#include <stdint.h>

#ifdef SL_KERNELS_ONLY
typedef struct sl_no_handle *starpu_data_handle_t;
#else
#include <starpu.h>
#endif

#ifdef SL_CUDA
#include <cuda_runtime_api.h> /* cudaStream_t */
#endif

/* A handle's user data as long as tasks that name it are held back from StarPU (codelets/bundle.h). */
struct sl_hold {
    void (*let_go)(const struct sl_hold *hold); /* hand them over; what fails becomes the run's failure */
};

/* Rows row0 .. row0 + n_rows - 1 of a matrix in which others have rows, too; those of PEs that live together are side by side, so that
 * tasks have few buffers. Whoever writes row 0 is the first of the matrix' writers. handle NULL: no rows. */
struct sl_slice {
    starpu_data_handle_t handle;
    uint32_t row0, n_rows;
};

/* The same among a task's arguments: a buffer's number, which is never 0. 0: no rows. */
struct sl_slice_args {
    uint32_t buffer, row0, n_rows;
};

#endif
