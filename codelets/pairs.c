/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses of links. exp(-|s|) never overflows. */
#include "codelets/pairs.h"

#include <math.h>
#include <string.h>

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

double sl_pairs_score(uint32_t n_columns, const sl_real *a, const sl_real *b)
{
    double sum = 0;
    for (uint32_t c = 0; c < n_columns; c++) {
        sum += (double)a[c] * (double)b[c];
    }
    return sum;
}

double sl_pairs_loss_of(double score, bool is_link)
{
    double wrong = is_link ? -score : score;
    return fmax(wrong, 0) + log1p(exp(-fabs(score)));
}

/* The binary loss of n scores, the first of a link. Scores become slopes. */
static double lose_binary(uint32_t n, double *scores)
{
    double loss = 0;
    for (uint32_t j = 0; j < n; j++) {
        double s = scores[j];
        double t = exp(-fabs(s));
        double large = 1 / (1 + t); /* the larger of sigmoid(s) and sigmoid(-s) */
        double p = s >= 0 ? large : t * large;
        double q = s >= 0 ? t * large : large;
        loss += sl_pairs_loss_of(s, j == 0);
        scores[j] = j == 0 ? -q : p;
    }
    return loss;
}

static double lose_softmax(uint32_t n, double *scores)
{
    const double link = scores[0];
    double top = scores[0];
    double sum = 0;
    for (uint32_t j = 1; j < n; j++) {
        top = scores[j] > top ? scores[j] : top;
    }
    for (uint32_t j = 0; j < n; j++) {
        scores[j] = exp(scores[j] - top);
        sum += scores[j];
    }
    for (uint32_t j = 0; j < n; j++) {
        scores[j] = scores[j] / sum - (j == 0);
    }
    return log(sum) + top - link;
}

/* The gradients of a link's rows. slopes: already scaled. */
static void spread(uint32_t n, uint32_t n_columns, const double *slopes, const sl_real *z, sl_real *gz)
{
    for (uint32_t c = 0; c < n_columns; c++) {
        double sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            size_t at = (size_t)(j + 1) * n_columns + c;
            sum += slopes[j] * (double)z[at];
            gz[at] = (sl_real)(slopes[j] * (double)z[c]);
        }
        gz[c] = (sl_real)sum;
    }
}

void sl_pairs_cpu(const struct sl_pairs *pairs, const sl_real *z, double scale, sl_real *gz_out, double *loss_out)
{
    const uint32_t n = pairs->n_negatives + 1;
    const size_t step = (size_t)(n + 1) * pairs->n_columns;
    double scores[SL_MAX_NEGATIVES + 1];
    double loss = 0;
    for (uint32_t i = 0; i < pairs->n_links; i++, z += step, gz_out += step) {
        for (uint32_t j = 0; j < n; j++) {
            scores[j] = sl_pairs_score(pairs->n_columns, z, z + (size_t)(j + 1) * pairs->n_columns);
        }
        loss += pairs->loss == SL_PAIRS_BINARY ? lose_binary(n, scores) : lose_softmax(n, scores);
        for (uint32_t j = 0; j < n; j++) {
            scores[j] *= scale;
        }
        spread(n, pairs->n_columns, scores, z, gz_out);
    }
    *loss_out = scale * loss;
}

/* ---- arguments ---- */

struct pairs_args {
    struct sl_task_args head;
    double scale;
    uint32_t n_negatives;
    enum sl_pairs_loss loss;
};

/* ---- implementations ---- */

enum { Z, GZ, LOSS };

static struct sl_pairs task_pairs(const struct pairs_args *args, void *buffers[])
{
    return (struct sl_pairs){.n_links = sl_buffer_rows(buffers[Z]) / (args->n_negatives + 2),
                             .n_negatives = args->n_negatives,
                             .n_columns = sl_buffer_columns(buffers[Z]),
                             .loss = args->loss};
}

static enum sl_status pairs_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct pairs_args *args = cl_arg;
    struct sl_pairs pairs = task_pairs(args, buffers);
    sl_pairs_cpu(&pairs, sl_buffer_data(buffers[Z]), args->scale, sl_buffer_data(buffers[GZ]),
                 sl_buffer_data(buffers[LOSS]));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status pairs_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct pairs_args *args = cl_arg;
    struct sl_pairs pairs = task_pairs(args, buffers);
    return sl_pairs_cuda(stream, &pairs, sl_buffer_data(buffers[Z]), args->scale, sl_buffer_data(buffers[GZ]),
                         sl_buffer_data(buffers[LOSS]));
}
#endif

/* ---- operations ---- */

static struct sl_operation pairs_op = {
    SL_OPERATION(pairs_op, "sl_pairs", SL_STAGE_LOSS),
    .cpu = pairs_cpu_task,
    SL_CUDA_FUNC(pairs_cuda_task),
    .role = {{"z", STARPU_R}, {"gz", STARPU_W}, {"loss", STARPU_W}},
};

/* ---- submissions ---- */

enum sl_status sl_pairs_submit(const struct sl_task_args *head, starpu_data_handle_t z, uint32_t n_negatives,
                               enum sl_pairs_loss kind, double scale, starpu_data_handle_t gz,
                               starpu_data_handle_t loss)
{
    struct pairs_args args = {.head = *head, .scale = scale, .n_negatives = n_negatives, .loss = kind};
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_columns = sl_handle_columns(z);
    if (n_negatives < 1 || n_negatives > SL_MAX_NEGATIVES || n_rows % (n_negatives + 2) != 0 || head->runs != NULL) {
        return sl_fail(SL_EINVAL, "sl_pairs: found %u rows and %u negatives, expected k + 2 rows for each link", n_rows,
                       n_negatives);
    }
    if (sl_handle_rows(gz) != n_rows || sl_handle_columns(gz) != n_columns ||
        sl_handle_element(loss) != sizeof(double)) {
        return sl_fail(SL_EINVAL, "sl_pairs: Z [%u x %u], GZ [%u x %u], a loss of %zu bytes", n_rows, n_columns,
                       sl_handle_rows(gz), sl_handle_columns(gz), sl_handle_element(loss));
    }
    args.head.work = 3 * (uint64_t)n_rows * n_columns * sizeof(sl_real);
    sl_task_begin(&task, &pairs_op);
    sl_task_add(&task, Z, z, STARPU_R);
    sl_task_add(&task, GZ, gz, STARPU_W);
    sl_task_add(&task, LOSS, loss, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
