/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ordered sum, a block of entries at a time, so that the block stays in the cache while the partial sums stream
 * past. */
#include "codelets/reduce.h"

#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define BLOCK 1024 /* entries */

/* ---- kernels, CPU ---- */

static inline void add_block(size_t n, const sl_real *restrict from, sl_real *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

SL_CLONES void sl_reduce_cpu(uint32_t n, size_t n_entries, const sl_real *const *partials, sl_real *out)
{
    for (size_t begin = 0; begin < n_entries; begin += BLOCK) {
        size_t size = sl_min_u64(n_entries - begin, BLOCK);
        memcpy(out + begin, partials[0] + begin, size * sizeof *out);
        for (uint32_t i = 1; i < n; i++) {
            add_block(size, partials[i] + begin, out + begin);
        }
    }
}

/* ---- arguments ---- */

struct reduce_args {
    struct sl_task_args head;
    uint32_t n;
};

/* ---- implementations ---- */

enum { OUT, PARTIALS };

/* The addresses of all partial sums, in order. The caller frees *out (sl_free). */
static enum sl_status find_partials(void *buffers[], uint32_t n_handles, uint32_t *n_out, const sl_real ***out)
{
    const uint32_t n_rows = sl_buffer_rows(buffers[OUT]);
    const size_t n_entries = (size_t)n_rows * sl_buffer_columns(buffers[OUT]);
    const sl_real **partials;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_handles; i++) {
        n += sl_buffer_rows(buffers[PARTIALS + i]) / n_rows;
    }
    enum sl_status st = sl_alloc(n, sizeof *partials, "the partials of a sum", &partials);
    if (st != SL_OK) {
        return st;
    }
    *out = partials;
    *n_out = n;
    for (uint32_t i = 0; i < n_handles; i++) {
        const sl_real *first = sl_buffer_data(buffers[PARTIALS + i]);
        for (uint32_t k = 0; k < sl_buffer_rows(buffers[PARTIALS + i]) / n_rows; k++) {
            *partials++ = first + k * n_entries;
        }
    }
    return SL_OK;
}

static enum sl_status reduce_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct reduce_args *args = cl_arg;
    sl_real *out = sl_buffer_data(buffers[OUT]);
    size_t n_entries = (size_t)sl_buffer_rows(buffers[OUT]) * sl_buffer_columns(buffers[OUT]);
    const sl_real **partials;
    uint32_t n;
    enum sl_status st = find_partials(buffers, args->n, &n, &partials);
    if (st != SL_OK) {
        return st;
    }
    if (n == 0) {
        memset(out, 0, n_entries * sizeof *out);
    } else {
        sl_reduce_cpu(n, n_entries, partials, out);
    }
    sl_free(partials);
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status reduce_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct reduce_args *args = cl_arg;
    size_t n_entries = (size_t)sl_buffer_rows(buffers[OUT]) * sl_buffer_columns(buffers[OUT]);
    const sl_real **partials;
    uint32_t n;
    enum sl_status st = find_partials(buffers, args->n, &n, &partials);
    if (st == SL_OK) {
        st = sl_reduce_cuda(stream, n, n_entries, partials, sl_buffer_data(buffers[OUT]));
        sl_free(partials);
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation reduce_op = {
    SL_OPERATION(reduce_op, "sl_reduce", SL_STAGE_SYNC),
    .cpu = reduce_cpu_task,
    SL_CUDA_FUNC(reduce_cuda_task),
    .role = {{"out", STARPU_W}, {"partials", STARPU_R | SL_REPEATED}},
};

/* ---- submissions ---- */

enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                starpu_data_handle_t out)
{
    struct reduce_args args = {.head = *head, .n = n};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(out);
    uint32_t n_columns = sl_handle_columns(out);
    uint64_t work = (uint64_t)n_rows * n_columns;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_all = sl_handle_rows(partials[i]);
        if (n_all == 0 || n_all % n_rows != 0 || sl_handle_columns(partials[i]) != n_columns) {
            return sl_fail(SL_EINVAL, "sl_reduce: partial %u is [%u x %u], the sum [%u x %u]", i, n_all,
                           sl_handle_columns(partials[i]), n_rows, n_columns);
        }
        work += (uint64_t)n_all * n_columns;
    }
    args.head.work = work * sizeof(sl_real);
    sl_task_begin(&task, &reduce_op);
    sl_task_add(&task, OUT, out, STARPU_W);
    sl_task_add_each(&task, PARTIALS, n, partials, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SEND);
}
