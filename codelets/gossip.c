/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The scaled sum, one block of entries at a time: the sums stay in the cache while the sources stream past. */
#include "codelets/gossip.h"

#include <assert.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define BLOCK 512 /* entries */

/* ---- kernels, CPU ---- */

static inline void add_block(size_t n, const sl_real *restrict from, double *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += (double)from[i];
    }
}

void sl_gossip_mix_cpu(uint32_t n, size_t n_entries, const sl_real *const *sources, double scale, sl_real *out)
{
    for (size_t begin = 0; begin < n_entries; begin += BLOCK) {
        double sum[BLOCK] = {0};
        size_t size = sl_min_u64(n_entries - begin, BLOCK);
        for (uint32_t i = 0; i < n; i++) {
            add_block(size, sources[i] + begin, sum);
        }
        for (size_t i = 0; i < size; i++) {
            out[begin + i] = (sl_real)(scale * sum[i]);
        }
    }
}

/* ---- arguments ---- */

struct mix_args {
    struct sl_task_args head;
    double scale;
    uint32_t n;
};

/* ---- implementations ---- */

enum { OUT, SOURCES };

static enum sl_status mix_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct mix_args *args = cl_arg;
    size_t n_entries = (size_t)sl_buffer_rows(buffers[OUT]) * sl_buffer_columns(buffers[OUT]);
    void **sources;
    SL_CHECK(sl_buffers_data(buffers + SOURCES, args->n, &sources));
    sl_gossip_mix_cpu(args->n, n_entries, (const sl_real *const *)sources, args->scale, sl_buffer_data(buffers[OUT]));
    sl_free(sources);
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status mix_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct mix_args *args = cl_arg;
    size_t n_entries = (size_t)sl_buffer_rows(buffers[OUT]) * sl_buffer_columns(buffers[OUT]);
    void **sources;
    enum sl_status st = sl_buffers_data(buffers + SOURCES, args->n, &sources);
    if (st == SL_OK) {
        st = sl_gossip_mix_cuda(stream, args->n, n_entries, (const sl_real *const *)sources, args->scale,
                                sl_buffer_data(buffers[OUT]));
        sl_free(sources);
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation mix_op = {
    SL_OPERATION(mix_op, "sl_gossip_mix", SL_STAGE_SYNC),
    .cpu = mix_cpu_task,
    SL_CUDA_FUNC(mix_cuda_task),
    .role = {{"out", STARPU_W}, {"sources", STARPU_R | SL_REPEATED}},
};

/* ---- submissions ---- */

enum sl_status sl_gossip_mix_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sources,
                                    double scale, starpu_data_handle_t out)
{
    struct mix_args args = {.head = *head, .scale = scale, .n = n};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(out);
    uint32_t n_columns = sl_handle_columns(out);
    assert(n != 0);
    for (uint32_t i = 0; i < n; i++) {
        assert(sl_handle_rows(sources[i]) == n_rows);
        assert(sl_handle_columns(sources[i]) == n_columns);
    }
    args.head.work = ((uint64_t)n + 1) * n_rows * n_columns * sizeof(sl_real);
    sl_task_begin(&task, &mix_op);
    sl_task_add(&task, OUT, out, STARPU_W);
    sl_task_add_each(&task, SOURCES, n, sources, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
