/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Nonzeros of the sparse feature rows that a PE reads. */
#include "codelets/nonzeros.h"

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

/* ---- task wrappers ---- */

/* Number of rows of the last frontier, and address of the result, in the counts. */
static uint32_t *rows_in(const struct nonzeros_args *args, void *counts)
{
    return (uint32_t *)sl_buffer_data(counts) + sl_counts_rows(args->head.hop);
}

static uint32_t *place_in(const struct nonzeros_args *args, void *counts)
{
    return (uint32_t *)sl_buffer_data(counts) + sl_counts_nonzeros(args->head.hop, args->n_parts);
}

static void nonzeros_cpu_task(void *buffers[], void *cl_arg)
{
    const struct nonzeros_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    uint64_t n = sl_nonzeros_cpu(*rows_in(args, buffers[2]), sl_buffer_data(buffers[0]), args->first,
                                 sl_buffer_data(buffers[1]));
    memcpy(place_in(args, buffers[2]), &n, sizeof n);
    sl_task_leave(&args->head, start_s);
}

#ifdef SL_CUDA
static void nonzeros_cuda_task(void *buffers[], void *cl_arg)
{
    struct nonzeros_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    enum sl_status st = sl_nonzeros_cuda(starpu_cuda_get_local_stream(), sl_buffer_columns(buffers[0]),
                                         rows_in(args, buffers[2]), sl_buffer_data(buffers[0]), args->first,
                                         sl_buffer_data(buffers[1]), (uint64_t *)(void *)place_in(args, buffers[2]));
    sl_task_leave_cuda(&args->head, st);
}
#endif

/* ---- codelets ---- */

static struct starpu_perfmodel nonzeros_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_nonzeros", .size_base = sl_task_size_base};

static struct starpu_codelet nonzeros_cl = {
    .name = "sl_nonzeros",
    .cpu_funcs = {nonzeros_cpu_task},
    SL_CUDA_FUNC(nonzeros_cuda_task),
    .nbuffers = 3,
    .modes = {STARPU_R, STARPU_R, STARPU_RW}, /* frontier, offsets, counts */
    .model = &nonzeros_model,
};

/* ---- submissions ---- */

enum sl_status sl_nonzeros_submit(const struct sl_task_args *head, uint32_t n_parts, starpu_data_handle_t frontier,
                                  uint32_t first, starpu_data_handle_t offsets, starpu_data_handle_t counts)
{
    struct nonzeros_args args = {.head = *head, .n_parts = n_parts, .first = first};
    struct sl_task task;
    uint32_t n_counts = sl_counts_size(head->hop, n_parts);
    if (sl_handle_columns(counts) != n_counts || sl_handle_element(offsets) != sizeof(uint64_t)) {
        return sl_fail(SL_EINVAL, "sl_nonzeros: %u counts, offsets of %zu bytes; expected %u (%u hops, %u parts) and 8",
                       sl_handle_columns(counts), sl_handle_element(offsets), n_counts, head->hop, n_parts);
    }
    args.head.stage = SL_STAGE_SAMPLE;
    args.head.work = (sizeof(sl_vertex) + 2 * sizeof(uint64_t)) * (uint64_t)sl_handle_columns(frontier);
    sl_task_begin(&task, &nonzeros_cl);
    sl_task_add(&task, frontier, STARPU_R);
    sl_task_add(&task, offsets, STARPU_R);
    sl_task_add(&task, counts, STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
