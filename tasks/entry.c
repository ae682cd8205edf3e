/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The functions that StarPU calls for all tasks. In a file of their own, so that tests can put functions before those
 * of task.c (the linker's --wrap). */
#include "tasks/task.h"

#include <string.h>

#include "support/decimal.h"

#ifdef SL_CUDA
#include <starpu_cublas_v2.h>
#endif

enum sl_status sl_fill(const void *stream, int value, size_t bytes, void *data)
{
    if (stream == NULL) {
        memset(data, value, bytes);
        return SL_OK;
    }
#ifdef SL_CUDA
    SL_FAIL_IF(cudaMemsetAsync(data, value, bytes, *(const cudaStream_t *)stream) != cudaSuccess, SL_ECUDA,
               "%zu bytes on a GPU: %s", bytes, cudaGetErrorString(cudaGetLastError()));
#endif
    return SL_OK;
}

/* Call the body for each segment of the rows. */
enum sl_status sl_task_body(void *buffers[], void *args, const void *stream)
{
    const struct sl_task_args *head = args;
    const struct sl_operation *operation = head->operation;
    const struct sl_runs *runs = head->runs;
    const uint32_t n_runs = sl_operands_n_runs(operation->role, runs);
    for (uint32_t k = 0; k < n_runs; k++) {
        sl_operands_bind(operation->role, runs, k, buffers, operation->bytes, args);
        SL_CHECK(operation->body(args, stream));
    }
    return SL_OK;
}

void sl_task_cpu(void *buffers[], void *args)
{
    SL_IN_C_LOCALE;
    struct sl_task_args *head = args;
    double start_s;
    if (sl_task_enter(head, &start_s)) {
        return;
    }
    const struct sl_operation *operation = head->operation;
    enum sl_status st = SL_OK;
    if (operation->cpu != NULL) {
        st = operation->cpu(buffers, args);
    } else {
        st = sl_task_body(buffers, args, NULL);
    }
    if (st != SL_OK) {
        sl_task_fail(head, st);
    }
    sl_task_leave(head, start_s);
}

#ifdef SL_CUDA
void sl_task_cuda(void *buffers[], void *args)
{
    SL_IN_C_LOCALE;
    struct sl_task_args *head = args;
    enum sl_status st;
    cudaGetLastError(); /* StarPU's own errors, which StarPU has handled, are not this task's */
    if (sl_task_enter_cuda(head)) {
        return;
    }
    const struct sl_operation *operation = head->operation;
    const struct sl_queue queue = {starpu_cuda_get_local_stream(), starpu_cublas_get_local_handle(), head->run->tf32};
    if (operation->cuda != NULL) {
        st = operation->cuda(buffers, args, &queue);
    } else {
        st = sl_task_body(buffers, args, &queue);
    }
    if (st != SL_OK) {
        sl_task_fail(head, st);
    }
}
#endif
