/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * In front of each C source of the simulated library: codelets run their CUDA implementations on CPU workers.
 */
#ifndef SL_TESTS_STARPU_ON_CPU_H
#define SL_TESTS_STARPU_ON_CPU_H

#include <starpu.h>
#include <starpu_cublas_v2.h>

#include "tests/simgpu/cublas_v2.h"

#define SL_ON_GPUS .codelet.cpu_funcs = {sl_task_cuda}
#define SL_ON_GPUS_TWICE .codelet.cpu_funcs = {sl_task_cuda, sl_task_cuda}
#define starpu_cuda_get_local_stream() NULL
#define starpu_cublas_get_local_handle() SL_CUBLAS_ON_CPU
#define starpu_cusparse_get_local_handle() NULL
#define starpu_cuda_worker_get_count() 1u
/* For tests: kernels are slow here. */
#define SL_EMULATED 1
/* To StarPU these are CPU workers, and it drives no GPU. */
#undef STARPU_MAXCUDADEVS
#define STARPU_MAXCUDADEVS 0

#endif
