/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Softmax cross entropy: each row is shifted by its largest logit, so that no exponential overflows. Losses entry by
 * entry: exp(-|z|) never overflows. */
#include "codelets/loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "support/exp.h"

/* ---- kernels, CPU ---- */

SL_INLINE sl_real largest(uint32_t n, const sl_real *z)
{
    sl_real top = z[0];
    for (uint32_t c = 1; c < n; c++) {
        top = z[c] > top ? z[c] : top;
    }
    return top;
}

/* e = exp(z - top). Returns the sum of e. */
SL_INLINE double exponentials(uint32_t n, const sl_real *restrict z, sl_real top, sl_real *restrict e)
{
    double sum = 0;
    for (uint32_t c = 0; c < n; c++) {
        e[c] = sl_exp_nonpositive(z[c] - top);
    }
    for (uint32_t c = 0; c < n; c++) {
        sum += (double)e[c];
    }
    return sum;
}

/* Write gz of one row. Returns the row's unscaled loss. */
SL_INLINE double loss_row(uint32_t n_classes, const sl_real *restrict z, uint32_t label, double scale,
                          sl_real *restrict gz)
{
    sl_real top = largest(n_classes, z);
    double sum = exponentials(n_classes, z, top, gz);
    double own = (double)gz[label];
    for (uint32_t c = 0; c < n_classes; c++) {
        gz[c] *= (sl_real)(scale / sum);
    }
    gz[label] = (sl_real)(scale * (own / sum - 1));
    return log(sum) + (double)top - (double)z[label];
}

SL_INLINE double weight_of(const struct sl_labels *labels, uint32_t c)
{
    return labels->weights != NULL ? (double)labels->weights[c] : 1;
}

/* The same with class weights and smoothing. */
SL_INLINE double weighed_row(uint32_t n_classes, const sl_real *restrict z, uint32_t label,
                             const struct sl_labels *labels, double scale, sl_real *restrict gz)
{
    sl_real top = largest(n_classes, z);
    double sum = exponentials(n_classes, z, top, gz);
    double own = (1 - labels->smoothing) * weight_of(labels, label);
    double each = labels->smoothing / n_classes;
    double log_sum = log(sum) + (double)top;
    double loss = own * (log_sum - (double)z[label]);
    double all = own;
    for (uint32_t c = 0; c < n_classes; c++) {
        double weight = each * weight_of(labels, c);
        all += weight;
        loss += weight * (log_sum - (double)z[c]);
    }
    for (uint32_t c = 0; c < n_classes; c++) {
        double target = each * weight_of(labels, c) + (c == label ? own : 0);
        gz[c] = (sl_real)(scale * (all * ((double)gz[c] / sum) - target));
    }
    return loss;
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

#define AHEAD 16 /* labels prefetched ahead of the row in work */

SL_CLONES void sl_loss_cpu(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const struct sl_labels *labels,
                           double scale, sl_real *gz_out, double *loss_out)
{
    const int32_t *label_of = labels->part_labels;
    const sl_vertex *ids = labels->ids;
    const uint32_t first = labels->first;
    const bool plain = labels->weights == NULL && labels->smoothing == 0;
    double loss = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        size_t row = (size_t)i * n_classes;
        __builtin_prefetch(label_of + (ids[i + AHEAD < n_rows ? i + AHEAD : i] - first));
        int32_t label = label_of[ids[i] - first];
        assert(label < (int32_t)n_classes);
        if (label < 0) {
            memset(gz_out + row, 0, n_classes * sizeof *gz_out);
            continue;
        }
        if (plain) {
            loss += sl_loss_share(scale * loss_row(n_classes, z + row, (uint32_t)label, scale, gz_out + row));
        } else {
            loss +=
                sl_loss_share(scale * weighed_row(n_classes, z + row, (uint32_t)label, labels, scale, gz_out + row));
        }
    }
    *loss_out = loss;
}

/* ---- losses of entries ---- */

/* l and dl/dz of one entry. */
struct entry {
    double loss, slope;
};

static inline struct entry sigmoid_entry(double z, double y, double weight)
{
    double t = exp(-fabs(z));
    double log_part = log1p(t);
    double large = 1 / (1 + t); /* the larger of sigmoid(z) and sigmoid(-z) */
    double small = t * large;
    double p = z >= 0 ? large : small;
    double q = z >= 0 ? small : large;
    double yes = weight * y;
    double no = 1 - y;
    return (struct entry){yes * (fmax(-z, 0) + log_part) + no * (fmax(z, 0) + log_part), no * p - yes * q};
}

static inline struct entry entry_of(enum sl_entry_loss kind, double z, double y, double weight)
{
    double off = z - y;
    switch (kind) {
    case SL_ENTRY_SIGMOID: return sigmoid_entry(z, y, weight);
    case SL_ENTRY_SQUARED: return (struct entry){off * off, 2 * off};
    case SL_ENTRY_ABSOLUTE: break;
    }
    return (struct entry){fabs(off), isnan(off) ? off : (off > 0) - (off < 0)};
}

double sl_entryloss_of_entry(enum sl_entry_loss kind, sl_real z, float y)
{
    return entry_of(kind, (double)z, (double)y, 1).loss;
}

static double lose_row(enum sl_entry_loss kind, uint32_t n, const sl_real *z, const float *y, const float *weights,
                       double scale, sl_real *gz)
{
    double loss = 0;
    for (uint32_t c = 0; c < n; c++) {
        struct entry entry = {0, 0};
        if (!isnan(y[c])) {
            entry = entry_of(kind, (double)z[c], (double)y[c], weights != NULL ? (double)weights[c] : 1);
        }
        loss += entry.loss;
        gz[c] = (sl_real)(scale * entry.slope);
    }
    return loss;
}

void sl_entryloss_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *z, const struct sl_entries *entries,
                      double scale, sl_real *gz_out, double *loss_out)
{
    double loss = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        const float *y = entries->part_targets + (size_t)(entries->ids[i] - entries->first) * n_columns;
        size_t row = (size_t)i * n_columns;
        loss += sl_loss_share(scale *
                              lose_row(entries->kind, n_columns, z + row, y, entries->weights, scale, gz_out + row));
    }
    *loss_out = loss;
}

/* ---- operations ---- */

/* A loss of a chunk of rows. Its weights are optional. */
struct loss {
    struct sl_task_args head;
    struct sl_matrix z, frontier, targets, gz, loss, weights;
    double scale, smoothing;
    uint32_t first;
    enum sl_entry_loss kind;
};

static enum sl_status lose_classes(const void *view, const void *stream)
{
    const struct loss *v = view;
    const struct sl_labels labels = {.part_labels = v->targets.data,
                                     .first = v->first,
                                     .ids = v->frontier.data,
                                     .weights = v->weights.data,
                                     .smoothing = v->smoothing};
    return SL_RUN(stream, sl_loss, v->z.n_rows, v->z.n_columns, v->z.data, &labels, v->scale, v->gz.data, v->loss.data);
}

static struct sl_operation loss_op = {
    SL_OPERATION(loss_op, "sl_loss", SL_STAGE_LOSS),
    SL_BODY(lose_classes, struct loss),
    .role = {{"z", STARPU_R, offsetof(struct loss, z), "R x C"},
             {"frontier", STARPU_R, offsetof(struct loss, frontier), "R", SL_INTS_32},
             {"labels", STARPU_R, offsetof(struct loss, targets), "?", SL_INTS_32},
             {"gz", STARPU_W, offsetof(struct loss, gz), "R x C"},
             {"loss", STARPU_W, offsetof(struct loss, loss), "K x 1", SL_DOUBLES},
             {"weights", STARPU_R | SL_OPTIONAL, offsetof(struct loss, weights), "C", SL_FLOATS}},
};

static enum sl_status lose_entries(const void *view, const void *stream)
{
    const struct loss *v = view;
    const struct sl_entries entries = {.kind = v->kind,
                                       .part_targets = v->targets.data,
                                       .first = v->first,
                                       .ids = v->frontier.data,
                                       .weights = v->weights.data};
    return SL_RUN(stream, sl_entryloss, v->z.n_rows, v->z.n_columns, v->z.data, &entries, v->scale, v->gz.data,
                  v->loss.data);
}

static struct sl_operation entryloss_op = {
    SL_OPERATION(entryloss_op, "sl_entryloss", SL_STAGE_LOSS),
    SL_BODY(lose_entries, struct loss),
    .role = {{"z", STARPU_R, offsetof(struct loss, z), "R x L"},
             {"frontier", STARPU_R, offsetof(struct loss, frontier), "R", SL_INTS_32},
             {"targets", STARPU_R, offsetof(struct loss, targets), "?", SL_FLOATS},
             {"gz", STARPU_W, offsetof(struct loss, gz), "R x L"},
             {"loss", STARPU_W, offsetof(struct loss, loss), "K x 1", SL_DOUBLES},
             {"weights", STARPU_R | SL_OPTIONAL, offsetof(struct loss, weights), "L", SL_FLOATS}},
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
    *total = 0;
    for (uint32_t i = 0; i < v->losses.n; i++) {
        const double *runs = v->losses.data[i];
        double part = 0;
        for (uint32_t k = 0; k < v->losses.n_rows[i]; k++) {
            part += runs[k];
            *total += runs[k];
        }
        if (v->parts != NULL) {
            v->parts[i] = part;
        }
    }
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
                              const struct sl_labels_handles *labels, uint32_t row0, double scale,
                              starpu_data_handle_t gz, starpu_data_handle_t loss)
{
    struct loss v = {.head = *head,
                     .z = sl_matrix_of(z),
                     .targets = sl_matrix_of(labels->part_labels),
                     .gz = sl_matrix_of(gz),
                     .loss = sl_matrix_of(loss),
                     .weights = sl_matrix_of(labels->weights),
                     .scale = scale,
                     .smoothing = labels->smoothing,
                     .first = labels->first};
    v.frontier = sl_matrix_rows(labels->frontier, row0, v.z.n_rows);
    v.head.work = 2 * sl_matrix_entries(&v.z) * sizeof(sl_real);
    return sl_view_submit(&loss_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_entryloss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                   const struct sl_entries_handles *entries, uint32_t row0, double scale,
                                   starpu_data_handle_t gz, starpu_data_handle_t loss)
{
    struct loss v = {.head = *head,
                     .z = sl_matrix_of(z),
                     .targets = sl_matrix_of(entries->part_targets),
                     .gz = sl_matrix_of(gz),
                     .loss = sl_matrix_of(loss),
                     .weights = sl_matrix_of(entries->weights),
                     .scale = scale,
                     .first = entries->first,
                     .kind = entries->kind};
    v.frontier = sl_matrix_rows(entries->frontier, row0, v.z.n_rows);
    v.head.work = 2 * sl_matrix_entries(&v.z) * sizeof(sl_real);
    return sl_view_submit(&entryloss_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_loss_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                  bool watched, starpu_data_handle_t total)
{
    struct loss_sum v = {
        .head = *head, .total = sl_matrix_of(total), .losses = {.n = n, .handles = losses}, .watched = watched};
    return sl_view_submit(&loss_sum_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_loss_parts_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                    double *parts, starpu_data_handle_t total)
{
    struct loss_sum v = {
        .head = *head, .total = sl_matrix_of(total), .losses = {.n = n, .handles = losses}, .parts = parts};
    return sl_view_submit(&loss_sum_op, &v, SL_PRIORITY_COMPUTE);
}
