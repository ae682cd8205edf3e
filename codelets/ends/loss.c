/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Softmax cross entropy: each row is shifted by its largest logit, so that no exponential overflows. Losses entry by
 * entry: exp(-|z|) never overflows. One warp per row. On a GPU, one block then adds the losses of the rows. */
#include "codelets/ends/loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "codelets/ends/tree.h"
#include "support/exp.h"
#include "support/memory.h"

/* A row's loss. A GPU keeps all of them; a CPU adds their shares in *losses. */
SL_DEVICE void keep_loss(double *losses, uint64_t row, double scale, double loss)
{
#ifdef SL_KERNELS_ONLY
    (void)scale;
    if (sl_lane() == 0) {
        losses[row] = loss;
    }
#else
    (void)row;
    *losses += sl_loss_share(scale * loss);
#endif
}

/* ---- losses of classes ---- */

/* The row's largest logit; all lanes get it. */
SL_DEVICE sl_real largest(uint32_t n, const sl_real *z)
{
    sl_real top = -INFINITY;
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        top = z[c] > top ? z[c] : top;
    }
    return sl_warp_max(top);
}

/* e = exp(z - top). Returns the sum of e. */
SL_DEVICE double exponentials(uint32_t n, const sl_real *restrict z, sl_real top, sl_real *restrict e)
{
    double sum = 0;
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        e[c] = sl_exp_nonpositive(z[c] - top);
    }
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        sum += (double)e[c];
    }
    return sl_warp_sum(sum);
}

/* Write gz of one row. All lanes get the row's unscaled loss. A lane reads and writes only its own columns of gz. */
SL_DEVICE double plain_row(uint32_t n_classes, const sl_real *restrict z, uint32_t label, double scale,
                           sl_real *restrict gz)
{
    const sl_real top = largest(n_classes, z);
    const double sum = exponentials(n_classes, z, top, gz);
    const bool is_mine = label % SL_WARP == sl_lane();
    const double own = is_mine ? (double)gz[label] : 0;
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        gz[c] *= (sl_real)(scale / sum);
    }
    if (is_mine) {
        gz[label] = (sl_real)(scale * (own / sum - 1));
    }
    return log(sum) + (double)top - (double)z[label];
}

SL_DEVICE double weight_of(const struct sl_loss_rows *rows, uint32_t c)
{
    return rows->weights != NULL ? (double)rows->weights[c] : 1;
}

/* The same with class weights and smoothing. A GPU adds the terms in another order. */
#ifdef SL_KERNELS_ONLY
static __device__ double weighed_row(uint32_t n_classes, const sl_real *restrict z, uint32_t label,
                                     const struct sl_loss_rows *rows, double scale, sl_real *restrict gz)
{
    sl_real top = largest(n_classes, z);
    double own = (1 - rows->smoothing) * weight_of(rows, label);
    double each = rows->smoothing / n_classes;
    double sum = 0;
    double all = 0;
    double rest = 0; /* sum over c of weight times (top - z) */
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        double weight = each * weight_of(rows, c);
        gz[c] = sl_exp_nonpositive(z[c] - top);
        sum += (double)gz[c];
        all += weight;
        rest += weight * ((double)top - (double)z[c]);
    }
    sum = sl_warp_sum(sum);
    all = sl_warp_sum(all);
    rest = sl_warp_sum(rest);
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        double target = each * weight_of(rows, c) + (c == label ? own : 0);
        gz[c] = (sl_real)(scale * ((all + own) * ((double)gz[c] / sum) - target));
    }
    return (all + own) * log(sum) + rest + own * ((double)top - (double)z[label]);
}
#else
SL_INLINE double weighed_row(uint32_t n_classes, const sl_real *restrict z, uint32_t label,
                             const struct sl_loss_rows *rows, double scale, sl_real *restrict gz)
{
    sl_real top = largest(n_classes, z);
    double sum = exponentials(n_classes, z, top, gz);
    double own = (1 - rows->smoothing) * weight_of(rows, label);
    double each = rows->smoothing / n_classes;
    double log_sum = log(sum) + (double)top;
    double loss = own * (log_sum - (double)z[label]);
    double all = own;
    for (uint32_t c = 0; c < n_classes; c++) {
        double weight = each * weight_of(rows, c);
        all += weight;
        loss += weight * (log_sum - (double)z[c]);
    }
    for (uint32_t c = 0; c < n_classes; c++) {
        double target = each * weight_of(rows, c) + (c == label ? own : 0);
        gz[c] = (sl_real)(scale * (all * ((double)gz[c] / sum) - target));
    }
    return loss;
}
#endif

#define AHEAD 16 /* labels fetched ahead of the row in work */

SL_KERNEL lose_class_rows(uint32_t n_rows, uint32_t n_classes, const sl_real *z_all, struct sl_loss_rows rows,
                          double scale, sl_real *gz_all, double *losses)
{
    const bool is_plain = rows.weights == NULL && rows.smoothing == 0;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const sl_real *z = z_all + i * n_classes;
        sl_real *gz = gz_all + i * n_classes;
        sl_fetch(rows.labels + (rows.ids[i + AHEAD < n_rows ? i + AHEAD : i] - rows.first));
        const int32_t label = rows.labels[rows.ids[i] - rows.first];
        double loss = 0;
        sl_assert(label < (int32_t)n_classes);
        if (label < 0) {
            for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
                gz[c] = 0;
            }
        } else if (is_plain) {
            loss = plain_row(n_classes, z, (uint32_t)label, scale, gz);
        } else {
            loss = weighed_row(n_classes, z, (uint32_t)label, &rows, scale, gz);
        }
        keep_loss(losses, i, scale, loss);
    }
}

/* ---- losses of entries ---- */

/* l and dl/dz of one entry. */
struct entry {
    double loss, slope;
};

SL_DEVICE struct entry sigmoid_entry(double z, double y, double weight)
{
    const double t = exp(-fabs(z));
    const double log_part = log1p(t);
    const double large = 1 / (1 + t); /* the larger of sigmoid(z) and sigmoid(-z) */
    const double small = t * large;
    const double yes = weight * y;
    const double no = 1 - y;
    struct entry entry;
    entry.loss = yes * (fmax(-z, 0.0) + log_part) + no * (fmax(z, 0.0) + log_part);
    entry.slope = z >= 0 ? no * large - yes * small : no * small - yes * large;
    return entry;
}

SL_DEVICE struct entry entry_of(enum sl_row_loss kind, double z, double y, double weight)
{
    const double off = z - y;
    struct entry entry = {off * off, 2 * off};
    if (kind == SL_ROW_SIGMOID) {
        return sigmoid_entry(z, y, weight);
    }
    if (kind == SL_ROW_ABSOLUTE) {
        entry.loss = fabs(off);
        entry.slope = off != off ? off : (off > 0) - (off < 0);
    }
    return entry;
}

SL_KERNEL lose_entry_rows(uint32_t n_rows, uint32_t n_columns, const sl_real *z, struct sl_loss_rows rows, double scale,
                          sl_real *gz, double *losses)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const float *y = rows.numbers + (uint64_t)(rows.ids[i] - rows.first) * n_columns;
        double loss = 0;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            struct entry entry = {0, 0};
            if (y[c] == y[c]) {
                entry = entry_of(rows.kind, (double)z[i * n_columns + c], (double)y[c], weight_of(&rows, c));
            }
            loss += entry.loss;
            gz[i * n_columns + c] = (sl_real)(scale * entry.slope);
        }
        keep_loss(losses, i, scale, sl_warp_sum(loss));
    }
}

/* ---- sums of rows ---- */

#ifdef SL_KERNELS_ONLY

/* Launched with one block. Each thread adds some rows, then the threads add pairwise; exactly (loss.h). */
static __global__ void sum_losses(uint32_t n_rows, const double *losses, double scale, double *sum_out)
{
    __shared__ double sums[SL_THREADS];
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < n_rows; i += SL_THREADS) {
        sum += sl_loss_share(scale * losses[i]);
    }
    sums[threadIdx.x] = sum;
    for (uint32_t half = SL_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        *sum_out = sums[0];
    }
}

enum sl_status sl_loss_add_up_cuda(cudaStream_t stream, uint32_t n_rows, const double *losses, double scale,
                                   double *loss_out)
{
    return sl_start("sl_loss", stream, 1, sum_losses, n_rows, losses, scale, loss_out);
}

SL_LAUNCHER(sl_loss, uint32_t n_rows, uint32_t n_columns, const sl_real *z, const struct sl_loss_rows *rows,
            double scale, sl_real *gz_out, double *loss_out)
{
    sl_scratch losses(stream);
    SL_CHECK(losses.take((size_t)n_rows * sizeof(double), "the rows' losses"));
    SL_CHECK(SL_LAUNCH("sl_loss", sl_warp_blocks(n_rows),
                       rows->kind == SL_ROW_SOFTMAX ? lose_class_rows : lose_entry_rows, n_rows, n_columns, z, *rows,
                       scale, gz_out, losses.as<double>()));
    return sl_loss_add_up_cuda(stream, n_rows, losses.as<double>(), scale, loss_out);
}

#else

void sl_loss_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *z, const struct sl_loss_rows *rows, double scale,
                 sl_real *gz_out, double *loss_out)
{
    *loss_out = 0;
    if (rows->kind == SL_ROW_SOFTMAX) {
        lose_class_rows(n_rows, n_columns, z, *rows, scale, gz_out, loss_out);
    } else {
        lose_entry_rows(n_rows, n_columns, z, *rows, scale, gz_out, loss_out);
    }
}

double sl_loss_of_entry(enum sl_row_loss kind, sl_real z, float y)
{
    return entry_of(kind, (double)z, (double)y, 1).loss;
}

double sl_loss_of_row(uint32_t n_classes, const sl_real *z, uint32_t label)
{
    sl_real top = largest(n_classes, z);
    double sum = 0;
    for (uint32_t c = 0; c < n_classes; c++) {
        sum += exp((double)z[c] - (double)top);
    }
    return log(sum) + (double)top - (double)z[label];
}

/* ---- operations ---- */

struct loss {
    struct sl_task_args head;
    struct sl_matrix z, frontier, targets, gz, loss, weights;
    double scale, smoothing;
    uint32_t first;
    enum sl_row_loss kind;
};

static enum sl_status lose(const void *view, const void *stream)
{
    const struct loss *v = view;
    const struct sl_loss_rows rows = {.kind = v->kind,
                                      .labels = v->targets.data, /* or numbers */
                                      .first = v->first,
                                      .ids = v->frontier.data,
                                      .weights = v->weights.data,
                                      .smoothing = v->smoothing};
    return SL_RUN(stream, sl_loss, v->z.n_rows, v->z.n_columns, v->z.data, &rows, v->scale, v->gz.data, v->loss.data);
}

/* Targets: labels, or floats. */
static struct sl_operation loss_op = {
    SL_OPERATION(loss_op, "sl_loss", SL_STAGE_LOSS),
    SL_BODY(lose, struct loss),
    .role = {{"z", STARPU_R, offsetof(struct loss, z), "R x C"},
             {"frontier", STARPU_R, offsetof(struct loss, frontier), "R", SL_INTS_32},
             {"targets", STARPU_R, offsetof(struct loss, targets), "?", SL_INTS_32},
             {"gz", STARPU_W, offsetof(struct loss, gz), "R x C"},
             {"loss", STARPU_W, offsetof(struct loss, loss), "K x 1", SL_DOUBLES},
             {"weights", STARPU_R | SL_OPTIONAL, offsetof(struct loss, weights), "C", SL_FLOATS}},
};

struct loss_sum {
    struct sl_task_args head;
    struct sl_matrix total;
    struct sl_matrices losses;
    bool watched;
    double *parts; /* NULL: not wanted */
};

static enum sl_status sum_losses(const void *view, const void *stream)
{
    const struct loss_sum *v = view;
    double *total = v->total.data;
    (void)stream;
    SL_FREED double *terms = NULL;
    SL_FREED uint32_t *leaf = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->losses.n; i++) {
        n += v->losses.n_rows[i];
    }
    SL_CHECK(sl_alloc(n, sizeof *terms, "the losses of a sum", &terms));
    SL_CHECK(sl_alloc(n, sizeof *leaf, "the leaves of a sum", &leaf));
    n = 0;
    for (uint32_t i = 0; i < v->losses.n; i++) {
        for (uint32_t k = 0; k < v->losses.n_rows[i]; k++) {
            const double loss = ((const double *)v->losses.data[i])[k];
            const uint32_t place = sl_tree_place(n, leaf, v->losses.numbers[i] + k);
            memmove(terms + place + 1, terms + place, (n - place) * sizeof *terms);
            terms[place] = loss;
            n++;
            if (v->parts != NULL) {
                v->parts[leaf[place]] += loss;
            }
        }
    }
    *total = sl_tree_sum(n, leaf, terms);
    SL_FAIL_IF(!v->watched && !isfinite(*total), SL_ENUMERIC, "the loss is %g; try a smaller learning rate", *total);
    return SL_OK;
}

/* On CPUs only. */
static struct sl_operation loss_sum_op = {
    SL_OPERATION(loss_sum_op, "sl_loss_sum", SL_STAGE_LOSS),
    .body = sum_losses,
    .bytes = sizeof(struct loss_sum),
    .role = {{"total", STARPU_W, offsetof(struct loss_sum, total), "1 x 1", SL_DOUBLES},
             {"losses", STARPU_R | SL_REPEATED, offsetof(struct loss_sum, losses), "? x 1", SL_DOUBLES}},
};

/* ---- submissions ---- */

enum sl_status sl_loss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                              const struct sl_loss_handles *rows, uint32_t row0, double scale, starpu_data_handle_t gz,
                              starpu_data_handle_t loss)
{
    struct loss v = {.head = *head,
                     .z = sl_matrix_of(z),
                     .targets = sl_matrix_of(rows->targets),
                     .gz = sl_matrix_of(gz),
                     .loss = sl_matrix_of(loss),
                     .weights = sl_matrix_of(rows->weights),
                     .scale = scale,
                     .smoothing = rows->smoothing,
                     .first = rows->first,
                     .kind = rows->kind};
    v.frontier = sl_matrix_rows(rows->frontier, row0, v.z.n_rows);
    v.head.work = 2 * sl_matrix_entries(&v.z) * sizeof(sl_real);
    return sl_view_submit(&loss_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_loss_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                  const uint32_t *leaf, bool watched, double *parts, starpu_data_handle_t total)
{
    struct loss_sum v = {.head = *head,
                         .total = sl_matrix_of(total),
                         .losses = {.n = n, .handles = losses, .numbers = leaf},
                         .watched = watched,
                         .parts = parts};
    return sl_view_submit(&loss_sum_op, &v, SL_PRIORITY_COMPUTE);
}

#endif
