/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Matrices computed from parameters, and the adjoints. */
#include "codelets/derive.h"

#include <assert.h>
#include <string.h>

#include "codelets/blend.h"
#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

SL_CLONES void sl_derive_identity_cpu(uint32_t n, double a, double b, const sl_real *w, sl_real *out)
{
    const sl_real scale = (sl_real)b;
    for (uint32_t i = 0; i < n; i++) {
        const sl_real *restrict from = w + (size_t)i * n;
        sl_real *restrict to = out + (size_t)i * n;
        for (uint32_t c = 0; c < n; c++) {
            to[c] = scale * from[c];
        }
        to[i] += (sl_real)a;
    }
}

SL_CLONES void sl_derive_attention_cpu(const struct sl_derive_attention *a, sl_real *out)
{
    const uint32_t width = a->n_columns / a->n_heads;
    for (size_t i = 0; i < (size_t)a->n_rows * a->n_slabs; i++) {
        const sl_real *row = a->w + i * a->n_columns;
        const sl_real *src = a->src + i % a->n_slabs * a->n_columns;
        const sl_real *dst = a->dst + i % a->n_slabs * a->n_columns;
        sl_real *to = out + i * (a->n_columns + 2 * a->n_heads);
        sl_real *score = to + a->n_columns;
        memcpy(to, row, a->n_columns * sizeof *to);
        for (uint32_t k = 0; k < a->n_heads; k++) {
            score[k] = sl_row_dot(width, row + k * width, src + k * width);
            score[a->n_heads + k] = sl_row_dot(width, row + k * width, dst + k * width);
        }
    }
}

/* Columns of one head in a row of GW. */
SL_INLINE void backward_head(uint32_t n, const sl_real *restrict g, sl_real g_src, const sl_real *restrict src,
                             sl_real g_dst, const sl_real *restrict dst, sl_real *restrict gw)
{
    for (uint32_t c = 0; c < n; c++) {
        gw[c] = g[c] + g_src * src[c] + g_dst * dst[c];
    }
}

SL_CLONES static void backward_w(const struct sl_derive_attention *a, const sl_real *gout, sl_real *gw)
{
    const uint32_t width = a->n_columns / a->n_heads;
    for (size_t i = 0; i < (size_t)a->n_rows * a->n_slabs; i++) {
        const sl_real *g = gout + i * (a->n_columns + 2 * a->n_heads);
        const sl_real *src = a->src + i % a->n_slabs * a->n_columns;
        const sl_real *dst = a->dst + i % a->n_slabs * a->n_columns;
        const sl_real *score = g + a->n_columns;
        sl_real *to = gw + i * a->n_columns;
        for (uint32_t k = 0; k < a->n_heads; k++) {
            uint32_t c0 = k * width;
            backward_head(width, g + c0, score[k], src + c0, score[a->n_heads + k], dst + c0, to + c0);
        }
    }
}

void sl_derive_attention_backward_cpu(const struct sl_derive_attention *a, const sl_real *gout, sl_real *gw_out,
                                      sl_real *gsrc_out, sl_real *gdst_out)
{
    backward_w(a, gout, gw_out);
    for (uint32_t r = 0; r < a->n_slabs; r++) {
        const size_t c0 = (size_t)r * a->n_columns;
        struct sl_column_sums sums = sl_derive_attention_sums(a, gout, r);
        sl_column_sums_cpu(&sums, 0, gsrc_out + c0);
        sums.weight += a->n_heads;
        sl_column_sums_cpu(&sums, 0, gdst_out + c0);
    }
}

/* ---- arguments ---- */

struct identity_args {
    struct sl_task_args head;
    double a;
    double b;
};

struct attention_args {
    struct sl_task_args head;
    uint32_t n_heads, n_slabs;
};

/* ---- implementations ---- */

enum { IDENTITY_W, IDENTITY_OUT };
enum { ATTENTION_W, ATTENTION_SRC, ATTENTION_DST, ATTENTION_OUT };
enum { ATTENTION_GOUT = 3, ATTENTION_GW, ATTENTION_GSRC, ATTENTION_GDST };

static enum sl_status identity_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct identity_args *args = cl_arg;
    return SL_RUN(stream, sl_derive_identity, sl_buffer_rows(buffers[IDENTITY_W]), args->a, args->b,
                  sl_buffer_data(buffers[IDENTITY_W]), sl_buffer_data(buffers[IDENTITY_OUT]));
}

/* The parameters in the first three buffers. */
static struct sl_derive_attention attention_of(void *buffers[], const struct attention_args *args)
{
    return (struct sl_derive_attention){
        .n_rows = sl_buffer_rows(buffers[ATTENTION_W]),
        .n_columns = sl_buffer_columns(buffers[ATTENTION_W]) / args->n_slabs,
        .n_heads = args->n_heads,
        .n_slabs = args->n_slabs,
        .w = sl_buffer_data(buffers[ATTENTION_W]),
        .src = sl_buffer_data(buffers[ATTENTION_SRC]),
        .dst = sl_buffer_data(buffers[ATTENTION_DST]),
    };
}

static enum sl_status attention_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct attention_args *args = cl_arg;
    struct sl_derive_attention a = attention_of(buffers, args);
    return SL_RUN(stream, sl_derive_attention, &a, sl_buffer_data(buffers[ATTENTION_OUT]));
}

static enum sl_status attention_backward_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct attention_args *args = cl_arg;
    struct sl_derive_attention a = attention_of(buffers, args);
    return SL_RUN(stream, sl_derive_attention_backward, &a, sl_buffer_data(buffers[ATTENTION_GOUT]),
                  sl_buffer_data(buffers[ATTENTION_GW]), sl_buffer_data(buffers[ATTENTION_GSRC]),
                  sl_buffer_data(buffers[ATTENTION_GDST]));
}

/* ---- operations ---- */

static struct sl_operation identity_op = {
    SL_HISTORY_OPERATION(identity_op, "sl_derive_identity", SL_STAGE_DENSE),
    SL_BOTH(identity_task),
    .role = {{"w", STARPU_R}, {"out", STARPU_W}},
};

static struct sl_operation attention_op = {
    SL_HISTORY_OPERATION(attention_op, "sl_derive_attention", SL_STAGE_DENSE),
    SL_BOTH(attention_task),
    .role = {{"w", STARPU_R}, {"src", STARPU_R}, {"dst", STARPU_R}, {"out", STARPU_W}},
};

static struct sl_operation attention_backward_op = {
    SL_HISTORY_OPERATION(attention_backward_op, "sl_derive_attention_backward", SL_STAGE_SYNC),
    SL_BOTH(attention_backward_task),
    .role = {{"w", STARPU_R},
             {"src", STARPU_R},
             {"dst", STARPU_R},
             {"gout", STARPU_R},
             {"gw", STARPU_W},
             {"gsrc", STARPU_W},
             {"gdst", STARPU_W}},
};

/* ---- submissions ---- */

static void check_square(starpu_data_handle_t w, starpu_data_handle_t out)
{
    uint32_t n = sl_handle_rows(w);
    assert(sl_handle_columns(w) == n);
    assert(sl_handle_rows(out) == n);
    assert(sl_handle_columns(out) == n);
}

enum sl_status sl_derive_identity_submit(const struct sl_task_args *head, double a, double b, starpu_data_handle_t w,
                                         starpu_data_handle_t out)
{
    struct identity_args args = {.head = *head, .a = a, .b = b};
    struct sl_task task;
    check_square(w, out);
    args.head.work = (uint64_t)sl_handle_rows(w) * sl_handle_columns(w);
    sl_task_begin(&task, &identity_op);
    sl_task_add(&task, IDENTITY_W, w, STARPU_R);
    sl_task_add(&task, IDENTITY_OUT, out, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_identity_backward_submit(const struct sl_task_args *head, double b, starpu_data_handle_t gout,
                                                  starpu_data_handle_t gw)
{
    check_square(gout, gw);
    return sl_blend_submit(head, SL_STAGE_SYNC, sl_handle_rows(gw), b, (struct sl_blend_rows){gout, 0}, 0,
                           (struct sl_blend_rows){gw, 0});
}

/* Whether `handle` is [n_rows x n_columns]. */
static void check_matrix(starpu_data_handle_t handle, uint32_t n_rows, uint32_t n_columns)
{
    assert(sl_handle_rows(handle) == n_rows);
    assert(sl_handle_columns(handle) == n_columns);
}

/* out: OUT, or its gradient. */
static void check_attention(const struct sl_derive_attention_layer *layer, starpu_data_handle_t out)
{
    const uint32_t n_columns = sl_handle_columns(layer->w);
    const uint32_t n_heads = layer->n_slabs * layer->n_heads;
    assert(n_heads != 0);
    assert(n_columns % n_heads == 0);
    check_matrix(layer->src, 1, n_columns);
    check_matrix(layer->dst, 1, n_columns);
    check_matrix(out, sl_handle_rows(layer->w), n_columns + 2 * n_heads);
}

/* Begin a task: add the buffers that both tasks share, and estimate the flops. */
static void begin_attention(struct sl_task *task, struct sl_operation *operation,
                            const struct sl_derive_attention_layer *layer, struct attention_args *args)
{
    args->n_heads = layer->n_heads;
    args->n_slabs = layer->n_slabs;
    args->head.work = 4 * (uint64_t)sl_handle_rows(layer->w) * sl_handle_columns(layer->w);
    sl_task_begin(task, operation);
    sl_task_add(task, ATTENTION_W, layer->w, STARPU_R);
    sl_task_add(task, ATTENTION_SRC, layer->src, STARPU_R);
    sl_task_add(task, ATTENTION_DST, layer->dst, STARPU_R);
}

enum sl_status sl_derive_attention_submit(const struct sl_task_args *head,
                                          const struct sl_derive_attention_layer *layer, starpu_data_handle_t out)
{
    struct attention_args args = {.head = *head};
    struct sl_task task;
    check_attention(layer, out);
    begin_attention(&task, &attention_op, layer, &args);
    sl_task_add(&task, ATTENTION_OUT, out, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_attention_backward_submit(const struct sl_task_args *head,
                                                   const struct sl_derive_attention_layer *layer,
                                                   starpu_data_handle_t gout, starpu_data_handle_t gw,
                                                   starpu_data_handle_t gsrc, starpu_data_handle_t gdst)
{
    struct attention_args args = {.head = *head};
    uint32_t n_columns = sl_handle_columns(layer->w);
    struct sl_task task;
    check_attention(layer, gout);
    check_matrix(gw, sl_handle_rows(layer->w), n_columns);
    check_matrix(gsrc, 1, n_columns);
    check_matrix(gdst, 1, n_columns);
    begin_attention(&task, &attention_backward_op, layer, &args);
    sl_task_add(&task, ATTENTION_GOUT, gout, STARPU_R);
    sl_task_add(&task, ATTENTION_GW, gw, STARPU_W);
    sl_task_add(&task, ATTENTION_GSRC, gsrc, STARPU_W);
    sl_task_add(&task, ATTENTION_GDST, gdst, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
