/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Softmax cross entropy. Each row is shifted by its largest logit, so that no exponential overflows. */
#include "codelets/loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "support/exp.h"
#include "tasks/rows.h"

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

/* ---- arguments ---- */

struct loss_args {
    struct sl_task_args head;
    double scale;
    double smoothing;
    uint32_t row0;
    uint32_t first;
    bool weighs;
};

struct loss_sum_args {
    struct sl_task_args head;
    uint32_t n;
    bool watched;
    double *parts; /* NULL: not wanted */
};

/* ---- implementations ---- */

enum { Z, FRONTIER, LABELS, GZ, LOSS, WEIGHTS };
enum { TOTAL, LOSSES };

struct sl_loss_run sl_loss_run(const struct sl_task_args *head, void *buffers[], uint32_t row0, uint32_t k)
{
    const sl_vertex *frontier = sl_buffer_data(buffers[FRONTIER]);
    const uint32_t row = sl_task_run(head, sl_buffer_rows(buffers[Z]), k);
    const size_t offset = (size_t)row * sl_buffer_columns(buffers[Z]);
    return (struct sl_loss_run){.n_rows = sl_task_run(head, sl_buffer_rows(buffers[Z]), k + 1) - row,
                                .z = (const sl_real *)sl_buffer_data(buffers[Z]) + offset,
                                .ids = frontier + row0 + row,
                                .gz = (sl_real *)sl_buffer_data(buffers[GZ]) + offset,
                                .loss = (double *)sl_buffer_data(buffers[LOSS]) + k};
}

static struct sl_labels labels_of(const struct loss_args *args, void *buffers[], const sl_vertex *ids)
{
    return (struct sl_labels){.part_labels = sl_buffer_data(buffers[LABELS]),
                              .first = args->first,
                              .ids = ids,
                              .weights = args->weighs ? sl_buffer_data(buffers[WEIGHTS]) : NULL,
                              .smoothing = args->smoothing};
}

static enum sl_status loss_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct loss_args *args = cl_arg;
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        struct sl_loss_run run = sl_loss_run(&args->head, buffers, args->row0, k);
        struct sl_labels labels = labels_of(args, buffers, run.ids);
        sl_loss_cpu(run.n_rows, sl_buffer_columns(buffers[Z]), run.z, &labels, args->scale, run.gz, run.loss);
    }
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status loss_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct loss_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        struct sl_loss_run run = sl_loss_run(&args->head, buffers, args->row0, k);
        struct sl_labels labels = labels_of(args, buffers, run.ids);
        st = sl_loss_cuda(stream, run.n_rows, sl_buffer_columns(buffers[Z]), run.z, &labels, args->scale, run.gz,
                          run.loss);
    }
    return st;
}
#endif

static enum sl_status loss_sum_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct loss_sum_args *args = cl_arg;
    double *total = sl_buffer_data(buffers[TOTAL]);
    *total = 0;
    for (uint32_t i = 0; i < args->n; i++) {
        const double *runs = sl_buffer_data(buffers[LOSSES + i]);
        double part = 0;
        for (uint32_t k = 0; k < sl_buffer_rows(buffers[LOSSES + i]); k++) {
            part += runs[k];
            *total += runs[k];
        }
        if (args->parts != NULL) {
            args->parts[i] = part;
        }
    }
    SL_FAIL_IF(!args->watched && !isfinite(*total), SL_ENUMERIC, "the loss is %g; try a smaller learning rate", *total);
    return SL_OK;
}

/* ---- operations ---- */

static struct sl_operation loss_op = {
    SL_OPERATION(loss_op, "sl_loss", SL_STAGE_LOSS),
    .cpu = loss_cpu_task,
    SL_CUDA_FUNC(loss_cuda_task),
    .role = {{"z", STARPU_R},
             {"frontier", STARPU_R},
             {"labels", STARPU_R},
             {"gz", STARPU_W},
             {"loss", STARPU_W},
             {"weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation loss_sum_op = {
    SL_OPERATION(loss_sum_op, "sl_loss_sum", SL_STAGE_LOSS),
    .cpu = loss_sum_cpu_task,
    .role = {{"total", STARPU_W}, {"losses", STARPU_R | SL_REPEATED}},
};

/* ---- submissions ---- */

void sl_loss_check(starpu_data_handle_t z, uint32_t row0, starpu_data_handle_t frontier, starpu_data_handle_t gz)
{
    assert(sl_handle_rows(gz) == sl_handle_rows(z));
    assert(sl_handle_columns(gz) == sl_handle_columns(z));
    assert((uint64_t)row0 + sl_handle_rows(z) <= sl_handle_columns(frontier));
}

enum sl_status sl_loss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                              const struct sl_labels_handles *labels, uint32_t row0, double scale,
                              starpu_data_handle_t gz, starpu_data_handle_t loss)
{
    struct loss_args args = {.head = *head,
                             .scale = scale,
                             .smoothing = labels->smoothing,
                             .row0 = row0,
                             .first = labels->first,
                             .weighs = labels->weights != NULL};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_classes = sl_handle_columns(z);
    sl_loss_check(z, row0, labels->frontier, gz);
    assert(sl_handle_element(loss) == sizeof(double));
    assert(!args.weighs || sl_handle_columns(labels->weights) == n_classes);
    sl_task_check_runs(head, n_rows, loss, 1, 1);
    args.head.work = 2 * (uint64_t)n_rows * n_classes * sizeof(sl_real);
    sl_task_begin(&task, &loss_op);
    sl_task_add(&task, Z, z, STARPU_R);
    sl_task_add(&task, FRONTIER, labels->frontier, STARPU_R);
    sl_task_add(&task, LABELS, labels->part_labels, STARPU_R);
    sl_task_add(&task, GZ, gz, STARPU_W);
    sl_task_add(&task, LOSS, loss, STARPU_W);
    sl_task_add_optional(&task, WEIGHTS, labels->weights, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

static enum sl_status submit_sum(struct loss_sum_args *args, const starpu_data_handle_t *losses,
                                 starpu_data_handle_t total)
{
    struct sl_task task;
    args->head.work = ((uint64_t)args->n + 1) * sizeof(double);
    sl_task_begin(&task, &loss_sum_op);
    sl_task_add(&task, TOTAL, total, STARPU_W);
    sl_task_add_each(&task, LOSSES, args->n, losses, STARPU_R);
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_loss_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                  bool watched, starpu_data_handle_t total)
{
    struct loss_sum_args args = {.head = *head, .n = n, .watched = watched};
    return submit_sum(&args, losses, total);
}

enum sl_status sl_loss_parts_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                    double *parts, starpu_data_handle_t total)
{
    struct loss_sum_args args = {.head = *head, .n = n, .parts = parts};
    return submit_sum(&args, losses, total);
}
