/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Nonzeros of the sparse feature rows that a PE reads. */
#include "codelets/nonzeros.h"

#include <assert.h>
#include <string.h>

#include "codelets/sample.h"
#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

uint64_t sl_nonzeros_cpu(uint32_t n_rows, const sl_vertex *ids, uint32_t first, const uint64_t *offsets)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint64_t *row = offsets + (ids[i] - first);
        n += row[1] - row[0];
    }
    return n;
}

/* ---- arguments ---- */

struct nonzeros_args {
    struct sl_task_args head;
    uint32_t n_parts;
    uint32_t first;
};

/* ---- implementations ---- */

enum { FRONTIER, OFFSETS, COUNTS };

/* Number of rows of the last frontier, and address of the result, in the counts. */
static uint32_t *rows_in(const struct nonzeros_args *args, void *counts)
{
    return (uint32_t *)sl_buffer_data(counts) + sl_counts_rows(args->head.hop);
}

static uint32_t *place_in(const struct nonzeros_args *args, void *counts)
{
    return (uint32_t *)sl_buffer_data(counts) + sl_counts_nonzeros(args->head.hop, args->n_parts);
}

static enum sl_status nonzeros_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct nonzeros_args *args = cl_arg;
    uint64_t n = sl_nonzeros_cpu(*rows_in(args, buffers[COUNTS]), sl_buffer_data(buffers[FRONTIER]), args->first,
                                 sl_buffer_data(buffers[OFFSETS]));
    memcpy(place_in(args, buffers[COUNTS]), &n, sizeof n);
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status nonzeros_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct nonzeros_args *args = cl_arg;
    return sl_nonzeros_cuda(stream, sl_buffer_columns(buffers[FRONTIER]), rows_in(args, buffers[COUNTS]),
                            sl_buffer_data(buffers[FRONTIER]), args->first, sl_buffer_data(buffers[OFFSETS]),
                            (uint64_t *)(void *)place_in(args, buffers[COUNTS]));
}
#endif

/* ---- operations ---- */

static struct sl_operation nonzeros_op = {
    SL_OPERATION(nonzeros_op, "sl_nonzeros", SL_STAGE_SAMPLE),
    .cpu = nonzeros_cpu_task,
    SL_CUDA_FUNC(nonzeros_cuda_task),
    .role = {{"frontier", STARPU_R}, {"offsets", STARPU_R}, {"counts", STARPU_RW}},
};

/* ---- submissions ---- */

enum sl_status sl_nonzeros_submit(const struct sl_task_args *head, uint32_t n_parts, starpu_data_handle_t frontier,
                                  uint32_t first, starpu_data_handle_t offsets, starpu_data_handle_t counts)
{
    struct nonzeros_args args = {.head = *head, .n_parts = n_parts, .first = first};
    struct sl_task task;
    uint32_t n_counts = sl_counts_size(head->hop, n_parts);
    assert(sl_handle_columns(counts) == n_counts);
    assert(sl_handle_element(offsets) == sizeof(uint64_t));
    args.head.work = (sizeof(sl_vertex) + 2 * sizeof(uint64_t)) * (uint64_t)sl_handle_columns(frontier);
    sl_task_begin(&task, &nonzeros_op);
    sl_task_add(&task, FRONTIER, frontier, STARPU_R);
    sl_task_add(&task, OFFSETS, offsets, STARPU_R);
    sl_task_add(&task, COUNTS, counts, STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
