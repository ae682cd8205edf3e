/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses entry by entry. exp(-|z|) never overflows. */
#include "codelets/entryloss.h"

#include <assert.h>
#include <math.h>

#include "codelets/loss.h"
#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

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

/* ---- arguments ---- */

struct entryloss_args {
    struct sl_task_args head;
    double scale;
    uint32_t row0;
    uint32_t first;
    enum sl_entry_loss kind;
    bool weighs;
};

/* ---- implementations ---- */

enum { Z, FRONTIER, TARGETS, GZ, LOSS, WEIGHTS }; /* the first five: as in sl_loss_run */

static struct sl_entries entries_of(const struct entryloss_args *args, void *buffers[], const sl_vertex *ids)
{
    return (struct sl_entries){.kind = args->kind,
                               .part_targets = sl_buffer_data(buffers[TARGETS]),
                               .first = args->first,
                               .ids = ids,
                               .weights = args->weighs ? sl_buffer_data(buffers[WEIGHTS]) : NULL};
}

static enum sl_status entryloss_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct entryloss_args *args = cl_arg;
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        struct sl_loss_run run = sl_loss_run(&args->head, buffers, args->row0, k);
        struct sl_entries entries = entries_of(args, buffers, run.ids);
        sl_entryloss_cpu(run.n_rows, sl_buffer_columns(buffers[Z]), run.z, &entries, args->scale, run.gz, run.loss);
    }
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status entryloss_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct entryloss_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        struct sl_loss_run run = sl_loss_run(&args->head, buffers, args->row0, k);
        struct sl_entries entries = entries_of(args, buffers, run.ids);
        st = sl_entryloss_cuda(stream, run.n_rows, sl_buffer_columns(buffers[Z]), run.z, &entries, args->scale, run.gz,
                               run.loss);
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation entryloss_op = {
    SL_OPERATION(entryloss_op, "sl_entryloss", SL_STAGE_LOSS),
    .cpu = entryloss_cpu_task,
    SL_CUDA_FUNC(entryloss_cuda_task),
    .role = {{"z", STARPU_R},
             {"frontier", STARPU_R},
             {"targets", STARPU_R},
             {"gz", STARPU_W},
             {"loss", STARPU_W},
             {"weights", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

enum sl_status sl_entryloss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                   const struct sl_entries_handles *entries, uint32_t row0, double scale,
                                   starpu_data_handle_t gz, starpu_data_handle_t loss)
{
    struct entryloss_args args = {.head = *head,
                                  .scale = scale,
                                  .row0 = row0,
                                  .first = entries->first,
                                  .kind = entries->kind,
                                  .weighs = entries->weights != NULL};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_columns = sl_handle_columns(z);
    sl_loss_check(z, row0, entries->frontier, gz);
    assert(sl_handle_element(loss) == sizeof(double));
    assert(!args.weighs || sl_handle_columns(entries->weights) == n_columns);
    sl_task_check_runs(head, n_rows, loss, 1, 1);
    args.head.work = 2 * (uint64_t)n_rows * n_columns * sizeof(sl_real);
    sl_task_begin(&task, &entryloss_op);
    sl_task_add(&task, Z, z, STARPU_R);
    sl_task_add(&task, FRONTIER, entries->frontier, STARPU_R);
    sl_task_add(&task, TARGETS, entries->part_targets, STARPU_R);
    sl_task_add(&task, GZ, gz, STARPU_W);
    sl_task_add(&task, LOSS, loss, STARPU_W);
    sl_task_add_optional(&task, WEIGHTS, entries->weights, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
