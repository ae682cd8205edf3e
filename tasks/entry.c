/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The functions that StarPU calls for all tasks. In a file of their own, so that tests can put functions before those
 * of task.c (the linker's --wrap). */
#include "tasks/task.h"

#include "support/decimal.h"

void sl_task_cpu(void *buffers[], void *args)
{
    SL_IN_C_LOCALE;
    const struct sl_task_args *head = args;
    double start_s;
    if (sl_task_enter(head, &start_s)) {
        return;
    }
    const struct sl_operation *operation = head->operation;
    enum sl_status st = operation->both != NULL ? operation->both(buffers, args, NULL) : operation->cpu(buffers, args);
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
    unsigned number = 0;
    if (sl_task_enter_cuda(head)) {
        return;
    }
    const struct sl_operation *operation = head->operation;
    const cudaStream_t stream = starpu_cuda_get_local_stream();
    if (operation->cuda[1] != NULL) {
        number = starpu_task_get_implementation(starpu_task_get_current());
    }
    enum sl_status st = operation->both != NULL ? operation->both(buffers, args, &stream)
                                                : operation->cuda[number](buffers, args, stream);
    if (st != SL_OK) {
        sl_task_fail(head, st);
    }
}
#endif
