/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU's handles for the headers of codelets. CUDA sources read those headers for their kernels' sake alone and include no
 * StarPU (SL_KERNELS_ONLY): to them a handle is but a name.
 */
#ifndef SL_CODELETS_HANDLE_H
#define SL_CODELETS_HANDLE_H

#ifdef SL_KERNELS_ONLY
typedef struct sl_no_handle *starpu_data_handle_t;
#else
#include <starpu.h>
#endif

#ifdef SL_CUDA
#include <cuda_runtime_api.h> /* cudaStream_t */
#endif

#endif
