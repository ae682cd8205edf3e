/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Matrices computed from parameters, and the adjoints: one warp per row, or per head of a row. */
#include "codelets/rows/derive.h"

#ifndef SL_KERNELS_ONLY
#include <assert.h>

#include "tasks/rows.h"
#endif

/* ---- kernels ---- */

SL_KERNEL add_identity(uint32_t n, sl_real a, sl_real b, const sl_real *restrict w, sl_real *restrict out)
{
    for (uint64_t i = sl_warp(); i < n; i += sl_n_warps()) {
        for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
            const sl_real entry = b * w[i * n + c];
            out[i * n + c] = c == i ? entry + a : entry;
        }
    }
}

SL_LAUNCHER(sl_derive_identity, uint32_t n, double a, double b, const sl_real *w, sl_real *out)
{
    return SL_LAUNCH("sl_derive_identity", sl_warp_blocks(n), add_identity, n, (sl_real)a, (sl_real)b, w, out);
}

SL_DEVICE sl_real dot(uint32_t n, const sl_real *a, const sl_real *b)
{
#ifdef SL_KERNELS_ONLY
    sl_real sum = 0;
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        sum += a[c] * b[c];
    }
    return sl_warp_sum(sum);
#else
    return sl_row_dot(n, a, b);
#endif
}

/* Head i % n_heads of row i / n_heads: copies its columns, and computes their scores. */
SL_KERNEL append_scores(struct sl_derive_attention a, sl_real *out)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_slabs * a.n_heads; i += sl_n_warps()) {
        const uint32_t k = (uint32_t)(i % a.n_heads);
        const uint64_t j = i / a.n_heads;
        const uint64_t in_slab = j % a.n_slabs * a.n_columns + k * width;
        const sl_real *restrict row = a.w + j * a.n_columns + k * width;
        sl_real *restrict to = out + j * (a.n_columns + 2 * a.n_heads);
        for (uint32_t c = sl_lane(); c < width; c += SL_WARP) {
            to[k * width + c] = row[c];
        }
        const sl_real from_src = dot(width, row, a.src + in_slab);
        const sl_real from_dst = dot(width, row, a.dst + in_slab);
        if (sl_lane() == 0) {
            to[a.n_columns + k] = from_src;
            to[a.n_columns + a.n_heads + k] = from_dst;
        }
    }
}

SL_LAUNCHER(sl_derive_attention, const struct sl_derive_attention *a, sl_real *out)
{
    return SL_LAUNCH("sl_derive_attention", sl_warp_blocks((uint64_t)a->n_rows * a->n_slabs * a->n_heads),
                     append_scores, *a, out);
}

/* Columns of one head in a row of GW. */
SL_DEVICE void backward_head(uint32_t n, const sl_real *restrict g, sl_real g_src, const sl_real *restrict src,
                             sl_real g_dst, const sl_real *restrict dst, sl_real *restrict gw)
{
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        gw[c] = g[c] + g_src * src[c] + g_dst * dst[c];
    }
}

SL_KERNEL backward_w(struct sl_derive_attention a, const sl_real *gout, sl_real *gw)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_slabs; i += sl_n_warps()) {
        const sl_real *g = gout + i * (a.n_columns + 2 * a.n_heads);
        const sl_real *src = a.src + i % a.n_slabs * a.n_columns;
        const sl_real *dst = a.dst + i % a.n_slabs * a.n_columns;
        const sl_real *score = g + a.n_columns;
        for (uint32_t k = 0; k < a.n_heads; k++) {
            const uint32_t c0 = k * width;
            backward_head(width, g + c0, score[k], src + c0, score[a.n_heads + k], dst + c0, gw + i * a.n_columns + c0);
        }
    }
}

/* The sums of slab r that make gsrc. Those of gdst have their weights K entries further. */
static inline struct sl_column_sums sums_of(const struct sl_derive_attention *a, const sl_real *gout, uint32_t r)
{
    const size_t n_out = (size_t)a->n_columns + 2 * a->n_heads;
    struct sl_column_sums sums;
    sums.n_rows = a->n_rows;
    sums.n_columns = a->n_columns;
    sums.g = a->w + (size_t)r * a->n_columns;
    sums.stride = (size_t)a->n_slabs * a->n_columns;
    sums.weight = gout + r * n_out + a->n_columns;
    sums.weight_stride = a->n_slabs * n_out;
    sums.width = a->n_columns / a->n_heads;
    return sums;
}

SL_LAUNCHER(sl_derive_attention_backward, const struct sl_derive_attention *a, const sl_real *gout, sl_real *gw_out,
            sl_real *gsrc_out, sl_real *gdst_out)
{
    SL_CHECK(SL_LAUNCH("sl_derive_attention_backward", sl_warp_blocks((uint64_t)a->n_rows * a->n_slabs), backward_w, *a,
                       gout, gw_out));
    for (uint32_t r = 0; r < a->n_slabs; r++) {
        const size_t c0 = (size_t)r * a->n_columns;
        struct sl_column_sums sums = sums_of(a, gout, r);
        SL_CHECK(SL_LAUNCH_ALSO(sl_column_sums, &sums, 0, gsrc_out + c0));
        sums.weight += a->n_heads;
        SL_CHECK(SL_LAUNCH_ALSO(sl_column_sums, &sums, 0, gdst_out + c0));
    }
    return SL_OK;
}

/* Entry i of V. */
SL_KERNEL score_rows(struct sl_derive_attention a, sl_real *v)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_heads; i += sl_n_warps()) {
        const size_t c0 = (size_t)(i / a.n_rows) * width;
        const sl_real sum = dot(width, a.w + i % a.n_rows * a.n_columns + c0, a.src + c0);
        if (sl_lane() == 0) {
            v[i] = sum;
        }
    }
}

SL_LAUNCHER(sl_derive_scores, const struct sl_derive_attention *a, sl_real *v_out)
{
    return SL_LAUNCH("sl_derive_scores", sl_warp_blocks((uint64_t)a->n_rows * a->n_heads), score_rows, *a, v_out);
}

SL_KERNEL backward_scores(struct sl_derive_attention a, const sl_real *gv, sl_real *gw)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t f = sl_warp(); f < a.n_rows; f += sl_n_warps()) {
        for (uint32_t c = sl_lane(); c < a.n_columns; c += SL_WARP) {
            gw[f * a.n_columns + c] = gv[(size_t)(c / width) * a.n_rows + f] * a.src[c];
        }
    }
}

SL_LAUNCHER(sl_derive_scores_backward, const struct sl_derive_attention *a, const sl_real *gv, sl_real *gw_out,
            sl_real *gsrc_out)
{
    struct sl_column_sums sums;
    SL_CHECK(SL_LAUNCH("sl_derive_scores_backward", sl_warp_blocks(a->n_rows), backward_scores, *a, gv, gw_out));
    sums.n_rows = a->n_rows;
    sums.n_columns = sums.width = a->n_columns / a->n_heads;
    sums.stride = a->n_columns;
    sums.weight_stride = 1;
    for (uint32_t k = 0; k < a->n_heads; k++) {
        sums.g = a->w + (size_t)k * sums.width;
        sums.weight = gv + (size_t)k * a->n_rows;
        SL_CHECK(SL_LAUNCH_ALSO(sl_column_sums, &sums, 0, gsrc_out + (size_t)k * sums.width));
    }
    return SL_OK;
}

/* Row j of OUT: head k of row f of the matrix of relation r. */
SL_KERNEL spread(struct sl_derive_attention a, sl_real *out)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t j = sl_warp(); j < (uint64_t)a.n_slabs * a.n_heads * a.n_rows; j += sl_n_warps()) {
        const uint64_t r = j / a.n_rows / a.n_heads;
        const uint32_t k = (uint32_t)(j / a.n_rows % a.n_heads);
        const sl_real *restrict row = a.w + (j % a.n_rows * a.n_slabs + r) * a.n_columns;
        for (uint32_t c = sl_lane(); c < a.n_columns; c += SL_WARP) {
            out[j * a.n_columns + c] = c / width == k ? row[c] : 0;
        }
    }
}

SL_LAUNCHER(sl_derive_spread, const struct sl_derive_attention *a, sl_real *out)
{
    return SL_LAUNCH("sl_derive_spread", sl_warp_blocks((uint64_t)a->n_slabs * a->n_heads * a->n_rows), spread, *a,
                     out);
}

SL_KERNEL backward_spread(struct sl_derive_attention a, const sl_real *gout, sl_real *gw)
{
    const uint32_t width = a.n_columns / a.n_heads;
    for (uint64_t i = sl_warp(); i < (uint64_t)a.n_rows * a.n_slabs; i += sl_n_warps()) {
        const uint64_t slab = i % a.n_slabs * a.n_heads * a.n_rows + i / a.n_slabs;
        for (uint32_t c = sl_lane(); c < a.n_columns; c += SL_WARP) {
            gw[i * a.n_columns + c] += gout[(slab + (uint64_t)(c / width) * a.n_rows) * a.n_columns + c];
        }
    }
}

SL_LAUNCHER(sl_derive_spread_backward, const struct sl_derive_attention *a, const sl_real *gout, sl_real *gw)
{
    return SL_LAUNCH("sl_derive_spread_backward", sl_warp_blocks((uint64_t)a->n_rows * a->n_slabs), backward_spread, *a,
                     gout, gw);
}

/* to += factor * from, along n numbers. */
SL_DEVICE void add_scaled(uint32_t n, sl_real factor, const sl_real *restrict from, sl_real *restrict to)
{
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        to[c] += factor * from[c];
    }
}

SL_KERNEL encode(struct sl_derive_encoded a, sl_real *out)
{
    for (uint64_t j = sl_warp(); j < (uint64_t)a.n_slabs * a.n_rows; j += sl_n_warps()) {
        for (uint32_t c = sl_lane(); c < a.n_out; c += SL_WARP) {
            out[j * a.n_out + c] = 0;
        }
        for (uint32_t i = 0; i < a.n_in; i++) {
            add_scaled(a.n_out, a.e[j * a.n_in + i], a.w + j / a.n_rows * a.slab + i * a.row, out + j * a.n_out);
        }
    }
}

SL_LAUNCHER(sl_derive_encoded, const struct sl_derive_encoded *a, sl_real *out)
{
    return SL_LAUNCH("sl_derive_encoded", sl_warp_blocks((uint64_t)a->n_slabs * a->n_rows), encode, *a, out);
}

/* Row i of matrix r of W: the column of GE that belongs to it, and its gradient. */
SL_KERNEL backward_encoded(struct sl_derive_encoded a, const sl_real *gout, sl_real *ge, sl_real *gw)
{
    for (uint64_t j = sl_warp(); j < (uint64_t)a.n_slabs * a.n_in; j += sl_n_warps()) {
        const uint64_t r = j / a.n_in;
        const uint64_t i = j % a.n_in;
        const size_t at = r * a.slab + i * a.row;
        for (uint64_t f = r * a.n_rows; f < (r + 1) * a.n_rows; f++) {
            const sl_real *g = gout + f * a.n_out;
            const sl_real sum = dot(a.n_out, g, a.w + at);
            add_scaled(a.n_out, a.e[f * a.n_in + i], g, gw + at);
            if (sl_lane() == 0) {
                ge[f * a.n_in + i] = sum;
            }
        }
    }
}

SL_LAUNCHER(sl_derive_encoded_backward, const struct sl_derive_encoded *a, const sl_real *gout, sl_real *ge_out,
            sl_real *gw)
{
    return SL_LAUNCH("sl_derive_encoded_backward", sl_warp_blocks((uint64_t)a->n_slabs * a->n_in), backward_encoded, *a,
                     gout, ge_out, gw);
}

#ifndef SL_KERNELS_ONLY
/* ---- operations ---- */

struct identity {
    struct sl_task_args head;
    struct sl_matrix w, out;
    double a, b;
};

static enum sl_status identity(const void *view, const void *stream)
{
    const struct identity *v = view;
    return SL_RUN(stream, sl_derive_identity, v->w.n_rows, v->a, v->b, v->w.data, v->out.data);
}

static struct sl_operation identity_op = {
    SL_HISTORY_OPERATION(identity_op, "sl_derive_identity", SL_STAGE_DENSE),
    SL_BODY(identity, struct identity),
    .role = {{"w", STARPU_R, offsetof(struct identity, w), "H x H"},
             {"out", STARPU_W, offsetof(struct identity, out), "H x H"}},
};

/* The forward has OUT; the backward has its gradient GOUT, and the other gradients. */
struct attention {
    struct sl_task_args head;
    struct sl_matrix w, src, dst, out;
    struct sl_matrix gw, gsrc, gdst;
    uint32_t n_heads, n_slabs;
};

static struct sl_derive_attention attention_of(const struct attention *v)
{
    return (struct sl_derive_attention){.n_rows = v->w.n_rows,
                                        .n_columns = v->w.n_columns / v->n_slabs,
                                        .n_heads = v->n_heads,
                                        .n_slabs = v->n_slabs,
                                        .w = v->w.data,
                                        .src = v->src.data,
                                        .dst = v->dst.data};
}

static enum sl_status attention(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_attention, &a, v->out.data);
}

static enum sl_status attention_backward(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_attention_backward, &a, v->out.data, v->gw.data, v->gsrc.data, v->gdst.data);
}

static struct sl_operation attention_op = {
    SL_HISTORY_OPERATION(attention_op, "sl_derive_attention", SL_STAGE_DENSE),
    SL_BODY(attention, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x H"},
             {"src", STARPU_R, offsetof(struct attention, src), "1 x H"},
             {"dst", STARPU_R, offsetof(struct attention, dst), "1 x H"},
             {"out", STARPU_W, offsetof(struct attention, out), "F x ?"}},
};

static struct sl_operation attention_backward_op = {
    SL_HISTORY_OPERATION(attention_backward_op, "sl_derive_attention_backward", SL_STAGE_SYNC),
    SL_BODY(attention_backward, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x H"},
             {"src", STARPU_R, offsetof(struct attention, src), "1 x H"},
             {"dst", STARPU_R, offsetof(struct attention, dst), "1 x H"},
             {"gout", STARPU_R, offsetof(struct attention, out), "F x ?"},
             {"gw", STARPU_W, offsetof(struct attention, gw), "F x H"},
             {"gsrc", STARPU_W, offsetof(struct attention, gsrc), "1 x H"},
             {"gdst", STARPU_W, offsetof(struct attention, gdst), "1 x H"}},
};

static enum sl_status scores(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_scores, &a, v->out.data);
}

static enum sl_status scores_backward(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_scores_backward, &a, v->out.data, v->gw.data, v->gsrc.data);
}

static struct sl_operation scores_op = {
    SL_HISTORY_OPERATION(scores_op, "sl_derive_scores", SL_STAGE_DENSE),
    SL_BODY(scores, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x H"},
             {"src", STARPU_R, offsetof(struct attention, src), "1 x H"},
             {"v", STARPU_W, offsetof(struct attention, out), "1 x ?"}},
};

static struct sl_operation scores_backward_op = {
    SL_HISTORY_OPERATION(scores_backward_op, "sl_derive_scores_backward", SL_STAGE_SYNC),
    SL_BODY(scores_backward, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x H"},
             {"src", STARPU_R, offsetof(struct attention, src), "1 x H"},
             {"gv", STARPU_R, offsetof(struct attention, out), "1 x ?"},
             {"gw", STARPU_W, offsetof(struct attention, gw), "F x H"},
             {"gsrc", STARPU_W, offsetof(struct attention, gsrc), "1 x H"}},
};

static enum sl_status spread_out(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_spread, &a, v->out.data);
}

static enum sl_status spread_backward(const void *view, const void *stream)
{
    const struct attention *v = view;
    const struct sl_derive_attention a = attention_of(v);
    return SL_RUN(stream, sl_derive_spread_backward, &a, v->out.data, v->gw.data);
}

static struct sl_operation spread_op = {
    SL_HISTORY_OPERATION(spread_op, "sl_derive_spread", SL_STAGE_DENSE),
    SL_BODY(spread_out, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x ?"},
             {"out", STARPU_W, offsetof(struct attention, out), "? x ?"}},
};

static struct sl_operation spread_backward_op = {
    SL_HISTORY_OPERATION(spread_backward_op, "sl_derive_spread_backward", SL_STAGE_SYNC),
    SL_BODY(spread_backward, struct attention),
    .role = {{"w", STARPU_R, offsetof(struct attention, w), "F x N"},
             {"gout", STARPU_R, offsetof(struct attention, out), "? x ?"},
             {"gw", STARPU_RW, offsetof(struct attention, gw), "F x N"}},
};

/* The forward has OUT; the backward has its gradient GOUT, and the other gradients. */
struct encoded {
    struct sl_task_args head;
    struct sl_matrix e, w, out;
    struct sl_matrix ge, gw;
    uint32_t n_slabs;
};

static struct sl_derive_encoded encoded_of(const struct encoded *v)
{
    const bool side_by_side = v->w.n_columns > v->out.n_columns;
    return (struct sl_derive_encoded){.n_slabs = v->n_slabs,
                                      .n_rows = v->e.n_rows / v->n_slabs,
                                      .n_in = v->e.n_columns,
                                      .n_out = v->out.n_columns,
                                      .slab = (size_t)v->out.n_columns * (side_by_side ? 1 : v->e.n_columns),
                                      .row = v->w.n_columns,
                                      .e = v->e.data,
                                      .w = v->w.data};
}

static enum sl_status encoded(const void *view, const void *stream)
{
    const struct encoded *v = view;
    const struct sl_derive_encoded a = encoded_of(v);
    return SL_RUN(stream, sl_derive_encoded, &a, v->out.data);
}

static enum sl_status encoded_backward(const void *view, const void *stream)
{
    const struct encoded *v = view;
    const struct sl_derive_encoded a = encoded_of(v);
    return SL_RUN(stream, sl_derive_encoded_backward, &a, v->out.data, v->ge.data, v->gw.data);
}

static struct sl_operation encoded_op = {
    SL_HISTORY_OPERATION(encoded_op, "sl_derive_encoded", SL_STAGE_DENSE),
    SL_BODY(encoded, struct encoded),
    .role = {{"e", STARPU_R, offsetof(struct encoded, e), "E x N"},
             {"w", STARPU_R, offsetof(struct encoded, w), "? x ?"},
             {"out", STARPU_W, offsetof(struct encoded, out), "E x H"}},
};

static struct sl_operation encoded_backward_op = {
    SL_HISTORY_OPERATION(encoded_backward_op, "sl_derive_encoded_backward", SL_STAGE_SYNC),
    SL_BODY(encoded_backward, struct encoded),
    .role = {{"e", STARPU_R, offsetof(struct encoded, e), "E x N"},
             {"w", STARPU_R, offsetof(struct encoded, w), "I x J"},
             {"gout", STARPU_R, offsetof(struct encoded, out), "E x H"},
             {"ge", STARPU_W, offsetof(struct encoded, ge), "E x N"},
             {"gw", STARPU_RW, offsetof(struct encoded, gw), "I x J"}},
};

/* ---- submissions ---- */

enum sl_status sl_derive_identity_submit(const struct sl_task_args *head, double a, double b, starpu_data_handle_t w,
                                         starpu_data_handle_t out)
{
    struct identity v = {.head = *head, .w = sl_matrix_of(w), .out = sl_matrix_of(out), .a = a, .b = b};
    v.head.work = sl_matrix_entries(&v.w);
    return sl_view_submit(&identity_op, &v, SL_PRIORITY_COMPUTE);
}

/* out: OUT or V, or its gradient. */
static struct attention view_of(const struct sl_task_args *head, const struct sl_derive_attention_layer *layer,
                                starpu_data_handle_t out)
{
    struct attention v = {.head = *head,
                          .w = sl_matrix_of(layer->w),
                          .src = sl_matrix_of(layer->src),
                          .dst = sl_matrix_of(layer->dst),
                          .out = sl_matrix_of(out),
                          .n_heads = layer->n_heads,
                          .n_slabs = layer->n_slabs};
    assert(v.n_slabs * v.n_heads != 0 && v.w.n_columns % (v.n_slabs * v.n_heads) == 0);
    v.head.work = 4 * sl_matrix_entries(&v.w); /* flops */
    return v;
}

enum sl_status sl_derive_attention_submit(const struct sl_task_args *head,
                                          const struct sl_derive_attention_layer *layer, starpu_data_handle_t out)
{
    struct attention v = view_of(head, layer, out);
    assert(v.out.n_columns == v.w.n_columns + 2 * v.n_slabs * v.n_heads);
    return sl_view_submit(&attention_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_attention_backward_submit(const struct sl_task_args *head,
                                                   const struct sl_derive_attention_layer *layer,
                                                   starpu_data_handle_t gout, starpu_data_handle_t gw,
                                                   starpu_data_handle_t gsrc, starpu_data_handle_t gdst)
{
    struct attention v = view_of(head, layer, gout);
    assert(v.out.n_columns == v.w.n_columns + 2 * v.n_slabs * v.n_heads);
    v.gw = sl_matrix_of(gw);
    v.gsrc = sl_matrix_of(gsrc);
    v.gdst = sl_matrix_of(gdst);
    return sl_view_submit(&attention_backward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_scores_submit(const struct sl_task_args *head, const struct sl_derive_attention_layer *layer,
                                       starpu_data_handle_t v)
{
    struct attention view = view_of(head, layer, v);
    assert(view.out.n_columns == view.w.n_rows * view.n_heads);
    return sl_view_submit(&scores_op, &view, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_scores_backward_submit(const struct sl_task_args *head,
                                                const struct sl_derive_attention_layer *layer, starpu_data_handle_t gv,
                                                starpu_data_handle_t gw, starpu_data_handle_t gsrc)
{
    struct attention v = view_of(head, layer, gv);
    assert(v.out.n_columns == v.w.n_rows * v.n_heads);
    v.gw = sl_matrix_of(gw);
    v.gsrc = sl_matrix_of(gsrc);
    return sl_view_submit(&scores_backward_op, &v, SL_PRIORITY_COMPUTE);
}

static bool is_spread(const struct attention *v)
{
    return v->out.n_rows == v->n_slabs * v->n_heads * v->w.n_rows && v->out.n_columns * v->n_slabs == v->w.n_columns;
}

enum sl_status sl_derive_spread_submit(const struct sl_task_args *head, const struct sl_derive_attention_layer *layer,
                                       starpu_data_handle_t out)
{
    struct attention v = view_of(head, layer, out);
    assert(is_spread(&v));
    return sl_view_submit(&spread_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_spread_backward_submit(const struct sl_task_args *head,
                                                const struct sl_derive_attention_layer *layer,
                                                starpu_data_handle_t gout, starpu_data_handle_t gw)
{
    struct attention v = view_of(head, layer, gout);
    assert(is_spread(&v));
    v.gw = sl_matrix_of(gw);
    return sl_view_submit(&spread_backward_op, &v, SL_PRIORITY_COMPUTE);
}

/* out: OUT, or its gradient. */
static struct encoded encoded_view(const struct sl_task_args *head, const struct sl_derive_encoded_layer *layer,
                                   starpu_data_handle_t out)
{
    struct encoded v = {.head = *head,
                        .e = sl_matrix_of(layer->e),
                        .w = sl_matrix_of(layer->w),
                        .out = sl_matrix_of(out),
                        .n_slabs = layer->n_slabs};
    assert(v.n_slabs != 0 && v.e.n_rows % v.n_slabs == 0);
    assert(sl_matrix_entries(&v.w) == (uint64_t)v.n_slabs * v.e.n_columns * v.out.n_columns);
    v.head.work = 2 * sl_matrix_entries(&v.e) * v.out.n_columns; /* flops */
    return v;
}

enum sl_status sl_derive_encoded_submit(const struct sl_task_args *head, const struct sl_derive_encoded_layer *layer,
                                        starpu_data_handle_t out)
{
    struct encoded v = encoded_view(head, layer, out);
    return sl_view_submit(&encoded_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_derive_encoded_backward_submit(const struct sl_task_args *head,
                                                 const struct sl_derive_encoded_layer *layer, starpu_data_handle_t gout,
                                                 starpu_data_handle_t ge, starpu_data_handle_t gw)
{
    struct encoded v = encoded_view(head, layer, gout);
    v.ge = sl_matrix_of(ge);
    v.gw = sl_matrix_of(gw);
    v.head.work *= 2;
    return sl_view_submit(&encoded_backward_op, &v, SL_PRIORITY_COMPUTE);
}

#endif
