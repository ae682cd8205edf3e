/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ordered sum, a block of entries at a time, so that the block stays in the cache while the partial sums stream
 * past. */
#include "codelets/reduce.h"

#include <assert.h>
#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define BLOCK 1024 /* entries */
#define ROWS 8     /* rows whose notes are read together: the bytes of a word */
#define AHEAD 256  /* rows that are fetched ahead, if they are touched */

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

/* Whether any partial touches one of rows r .. r + ROWS - 1, or out has. */
SL_INLINE bool any_touched(uint32_t n_partials, const struct sl_touched_rows *partials,
                           const struct sl_touched_rows *out, uint32_t r)
{
    uint64_t any;
    memcpy(&any, out->touched + r, ROWS);
    for (uint32_t i = 0; i < n_partials; i++) {
        uint64_t notes;
        memcpy(&notes, partials[i].touched + r, ROWS);
        any |= notes;
    }
    return any != 0;
}

/* Row r of the sum, with the bits of sl_reduce_cpu: rows that are not touched are zero. */
static void sum_row(uint32_t n, const struct sl_touched_rows *partials, uint32_t r, const struct sl_touched_rows *out)
{
    const size_t first = (size_t)r * out->n_columns;
    sl_real *to = out->row + first;
    const bool was = out->touched[r];
    out->touched[r] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (partials[i].touched[r] != 0) {
            out->touched[r] = 1;
        }
    }
    if (n > 0 && out->touched[r] != 0) {
        memcpy(to, partials[0].row + first, out->n_columns * sizeof *to);
        for (uint32_t i = 1; i < n; i++) {
            add_block(out->n_columns, partials[i].row + first, to);
        }
    } else if (was) {
        memset(to, 0, out->n_columns * sizeof *to);
    }
}

/* Fetch the touched rows of rows r .. r + ROWS - 1. */
static void fetch_rows(uint32_t n, const struct sl_touched_rows *partials, const struct sl_touched_rows *out,
                       uint32_t r)
{
    const size_t bytes = out->n_columns * sizeof *out->row;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = sl_next_touched(partials[i].touched + r, 0, ROWS); k < ROWS;
             k = sl_next_touched(partials[i].touched + r, k + 1, ROWS)) {
            sl_row_fetch(partials[i].row + (size_t)(r + k) * out->n_columns, bytes);
            sl_row_fetch(out->row + (size_t)(r + k) * out->n_columns, bytes);
        }
    }
}

void sl_reduce_touched_cpu(uint32_t n, const struct sl_touched_rows *partials, const struct sl_touched_rows *out)
{
    uint32_t r = 0;
    for (; r + ROWS <= out->n_rows; r += ROWS) {
        if (r + AHEAD + ROWS <= out->n_rows) {
            fetch_rows(n, partials, out, r + AHEAD);
        }
        if (any_touched(n, partials, out, r)) {
            for (uint32_t k = 0; k < ROWS; k++) {
                sum_row(n, partials, r + k, out);
            }
        }
    }
    for (; r < out->n_rows; r++) {
        sum_row(n, partials, r, out);
    }
}

/* ---- arguments ---- */

struct reduce_args {
    struct sl_task_args head;
    uint32_t n;
};

struct touched_args {
    struct sl_task_args head;
    uint32_t n;
    bool fresh;
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
    SL_CHECK(sl_alloc(n, sizeof *partials, "the partials of a sum", &partials));
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
    SL_CHECK(find_partials(buffers, args->n, &n, &partials));
    if (n == 0) {
        memset(out, 0, n_entries * sizeof *out);
    } else {
        sl_reduce_cpu(n, n_entries, partials, out);
    }
    sl_free(partials);
    return SL_OK;
}

/* Buffers: out, its touched rows, then each partial and its touched rows. */
enum { OUT_TOUCHED = 1, TOUCHED_PARTIALS };

static struct sl_touched_rows touched_rows(void *matrix, void *touched)
{
    return (struct sl_touched_rows){sl_buffer_rows(matrix), sl_buffer_columns(matrix), sl_buffer_data(matrix),
                                    sl_buffer_data(touched)};
}

static enum sl_status reduce_touched_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct touched_args *args = cl_arg;
    const struct sl_touched_rows out = touched_rows(buffers[OUT], buffers[OUT_TOUCHED]);
    struct sl_touched_rows *partials;
    SL_CHECK(sl_alloc(args->n, sizeof *partials, "the partials of a sum", &partials));
    for (uint32_t i = 0; i < args->n; i++) {
        void *const *pair = buffers + TOUCHED_PARTIALS + 2 * i;
        partials[i] = touched_rows(pair[0], pair[1]);
    }
    if (args->fresh) {
        memset(out.row, 0, (size_t)out.n_rows * out.n_columns * sizeof *out.row);
        memset(out.touched, 0, out.n_rows);
    }
    sl_reduce_touched_cpu(args->n, partials, &out);
    sl_free(partials);
    return SL_OK;
}

#ifdef SL_CUDA
/* All rows are summed, and noted. */
static enum sl_status reduce_touched_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct touched_args *args = cl_arg;
    const uint32_t n_rows = sl_buffer_rows(buffers[OUT]);
    const size_t n_entries = (size_t)n_rows * sl_buffer_columns(buffers[OUT]);
    const sl_real **partials;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_alloc(args->n, sizeof *partials, "the partials of a sum", &partials));
    for (uint32_t i = 0; i < args->n; i++) {
        partials[i] = sl_buffer_data(buffers[TOUCHED_PARTIALS + 2 * i]);
    }
    st = sl_reduce_cuda(stream, args->n, n_entries, partials, sl_buffer_data(buffers[OUT]));
    sl_free(partials);
    if (st == SL_OK) {
        st = sl_note_all_cuda(stream, n_rows, sl_buffer_data(buffers[OUT_TOUCHED]));
    }
    return st;
}

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

static struct sl_operation reduce_touched_op = {
    SL_OPERATION(reduce_touched_op, "sl_reduce_touched", SL_STAGE_SYNC),
    .cpu = reduce_touched_cpu_task,
    SL_CUDA_FUNC(reduce_touched_cuda_task),
    .role = {{"out", STARPU_W | SL_OR_RW}, {"touched rows", STARPU_W | SL_OR_RW}, {"partials", STARPU_R | SL_REPEATED}},
};

/* ---- submissions ---- */

static bool fit(starpu_data_handle_t matrix, starpu_data_handle_t touched, starpu_data_handle_t out)
{
    return sl_handle_rows(matrix) == sl_handle_rows(out) && sl_handle_columns(matrix) == sl_handle_columns(out) &&
           sl_handle_columns(touched) == sl_handle_rows(out);
}

enum sl_status sl_reduce_touched_submit(const struct sl_task_args *head, const struct sl_touched_sum *sum)
{
    struct touched_args args = {.head = *head, .n = sum->n, .fresh = sum->fresh};
    const enum starpu_data_access_mode mode = sum->fresh ? STARPU_W : STARPU_RW;
    bool fits = fit(sum->out, sum->out_touched, sum->out);
    struct sl_task task;
    for (uint32_t i = 0; i < sum->n; i++) {
        fits = fits && fit(sum->partials[i], sum->touched[i], sum->out);
    }
    assert(fits);
    args.head.work = (uint64_t)sl_handle_rows(sum->out) * (sum->n + 1);
    sl_task_begin(&task, &reduce_touched_op);
    sl_task_add(&task, OUT, sum->out, mode);
    sl_task_add(&task, OUT_TOUCHED, sum->out_touched, mode);
    for (uint32_t i = 0; i < sum->n; i++) {
        sl_task_add(&task, TOUCHED_PARTIALS, sum->partials[i], STARPU_R);
        sl_task_add(&task, TOUCHED_PARTIALS, sum->touched[i], STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SEND);
}

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
        assert(n_all != 0);
        assert(n_all % n_rows == 0);
        assert(sl_handle_columns(partials[i]) == n_columns);
        work += (uint64_t)n_all * n_columns;
    }
    args.head.work = work * sizeof(sl_real);
    sl_task_begin(&task, &reduce_op);
    sl_task_add(&task, OUT, out, STARPU_W);
    sl_task_add_each(&task, PARTIALS, n, partials, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SEND);
}
