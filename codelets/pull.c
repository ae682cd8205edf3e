/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A row at a time, the rows of the next vertices on their way from memory. */
#include "codelets/pull.h"

#include <string.h>

#include "codelets/rows.h"

#define AHEAD 8 /* rows that are fetched before they are added */

/* ---- kernels, CPU ---- */

/* The row of a vertex; NULL where its part has none. */
SL_INLINE const sl_real *row_of(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                                uint32_t n_columns, sl_vertex id)
{
    uint32_t part = lists->part_of[id];
    return parts->factor[part] == 0 ? NULL : parts->rows[part] + (size_t)(id - lists->first[part]) * n_columns;
}

/* What x[u] is multiplied by in the sum of vertex id, whose share is `share`. */
SL_INLINE sl_real weight_of(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            enum sl_pull_weights weights, sl_vertex id, sl_real share, sl_vertex u)
{
    sl_real factor = parts->factor[lists->part_of[u]];
    switch (weights) {
    case SL_PULL_MEAN: return factor * share;
    case SL_PULL_MEAN_BACK: return factor / lists->factors[2 * (size_t)u + 1];
    case SL_PULL_SYMMETRIC: break;
    }
    return u == id ? 0 : factor * (share * lists->factors[2 * (size_t)u]);
}

SL_INLINE void add_row(uint32_t n_columns, sl_real weight, const sl_real *restrict row, sl_real *restrict out)
{
    for (uint32_t c = 0; c < n_columns; c++) {
        out[c] += weight * row[c];
    }
}

SL_INLINE void fetch(const sl_real *row, uint32_t n_columns)
{
    for (uint32_t c = 0; row != NULL && c < n_columns; c += 64 / sizeof *row) {
        __builtin_prefetch(row + c);
    }
}

/* The sum of row d of the part. */
SL_INLINE void pull_row(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                        enum sl_pull_weights weights, uint32_t d, uint32_t n_columns, sl_real *out)
{
    const sl_vertex *list = lists->vertices + (lists->offsets[d] - lists->offsets[0]);
    uint64_t n = lists->offsets[d + 1] - lists->offsets[d];
    uint64_t n_known = lists->offsets[lists->n_rows] - lists->offsets[d]; /* of the list's and those that follow */
    sl_vertex id = lists->first_id + d;
    sl_real share = weights == SL_PULL_SYMMETRIC ? lists->scale * lists->factors[2 * (size_t)id] : 0;
    if (weights == SL_PULL_MEAN && n > 0) {
        share = 1 / (sl_real)n;
    }
    const sl_real *own = weights == SL_PULL_SYMMETRIC ? row_of(lists, parts, n_columns, id) : NULL;
    if (own != NULL) {
        add_row(n_columns, parts->factor[lists->part_of[id]] * (share * lists->factors[2 * (size_t)id]), own, out);
    }
    for (uint64_t e = 0; e < n; e++) {
        const sl_real *row = row_of(lists, parts, n_columns, list[e]);
        if (e + AHEAD < n_known) {
            fetch(row_of(lists, parts, n_columns, list[e + AHEAD]), n_columns);
        }
        if (row != NULL) {
            add_row(n_columns, weight_of(lists, parts, weights, id, share, list[e]), row, out);
        }
    }
}

SL_INLINE void pull_rows(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                         enum sl_pull_weights weights, uint32_t n_columns, int beta, sl_real *out)
{
    if (!beta) {
        memset(out, 0, (size_t)lists->n_rows * n_columns * sizeof *out);
    }
    for (uint32_t d = 0; d < lists->n_rows; d++) {
        pull_row(lists, parts, weights, d, n_columns, out + (size_t)d * n_columns);
    }
}

SL_CLONES void sl_pull_cpu(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts, uint32_t n_columns,
                           int beta, sl_real *out)
{
    switch (lists->weights) {
    case SL_PULL_MEAN: pull_rows(lists, parts, SL_PULL_MEAN, n_columns, beta, out); return;
    case SL_PULL_MEAN_BACK: pull_rows(lists, parts, SL_PULL_MEAN_BACK, n_columns, beta, out); return;
    case SL_PULL_SYMMETRIC: pull_rows(lists, parts, SL_PULL_SYMMETRIC, n_columns, beta, out); return;
    }
}

/* ---- arguments ---- */

enum { OFFSETS, VERTICES, PART_OF, FIRST, OUT, N_FIXED }; /* buffers, then the factors of vertices, then rows by part */

struct pull_args {
    struct sl_task_args head;
    enum sl_pull_weights weights;
    int beta;
    double scale;
    sl_vertex first_id;
    uint32_t n_parts;
    bool has_factors;
    sl_real factor[SL_MAX_PES];
};

/* ---- task wrappers ---- */

static struct sl_pull_lists lists_of(void *buffers[], const struct pull_args *args)
{
    return (struct sl_pull_lists){.n_rows = sl_buffer_rows(buffers[OUT]),
                                  .first_id = args->first_id,
                                  .offsets = sl_buffer_data(buffers[OFFSETS]),
                                  .vertices = sl_buffer_data(buffers[VERTICES]),
                                  .part_of = sl_buffer_data(buffers[PART_OF]),
                                  .first = sl_buffer_data(buffers[FIRST]),
                                  .factors = args->has_factors ? sl_buffer_data(buffers[N_FIXED]) : NULL,
                                  .weights = args->weights,
                                  .scale = (sl_real)args->scale};
}

static void find_parts(void *buffers[], const struct pull_args *args, struct sl_pull_parts *out)
{
    uint32_t next = N_FIXED + args->has_factors;
    memset(out, 0, sizeof *out);
    for (uint32_t q = 0; q < args->n_parts; q++) {
        out->factor[q] = args->factor[q];
        out->rows[q] = args->factor[q] != 0 ? sl_buffer_data(buffers[next++]) : NULL;
    }
}

static void pull_cpu_task(void *buffers[], void *cl_arg)
{
    const struct pull_args *args = cl_arg;
    struct sl_pull_parts parts;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    struct sl_pull_lists lists = lists_of(buffers, args);
    find_parts(buffers, args, &parts);
    sl_pull_cpu(&lists, &parts, sl_buffer_columns(buffers[OUT]), args->beta, sl_buffer_data(buffers[OUT]));
    sl_task_leave(&args->head, start_s);
}

#ifdef SL_CUDA
static void pull_cuda_task(void *buffers[], void *cl_arg)
{
    struct pull_args *args = cl_arg;
    struct sl_pull_parts parts;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    struct sl_pull_lists lists = lists_of(buffers, args);
    find_parts(buffers, args, &parts);
    enum sl_status st = sl_pull_cuda(starpu_cuda_get_local_stream(), &lists, &parts, sl_buffer_columns(buffers[OUT]),
                                     args->beta, sl_buffer_data(buffers[OUT]));
    sl_task_leave_cuda(&args->head, st);
}
#endif

/* ---- codelet ---- */

static struct starpu_perfmodel pull_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_pull", .size_base = sl_task_size_base};

static struct starpu_codelet pull_cl = {
    .name = "sl_pull",
    .cpu_funcs = {pull_cpu_task},
    SL_CUDA_FUNC(pull_cuda_task),
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &pull_model,
};

/* ---- submission ---- */

/* As the task will see it: a factor that is too small for sl_real is 0. */
static bool reads_part(const struct sl_pull *what, uint32_t q)
{
    return (sl_real)what->factor[q] != 0;
}

static enum sl_status check(const struct sl_pull *what, starpu_data_handle_t out)
{
    for (uint32_t q = 0; q < what->n_parts && what->n_parts <= SL_MAX_PES; q++) {
        if (reads_part(what, q) && what->rows[q] == NULL) {
            return sl_fail(SL_EINVAL, "sl_pull: part %u has factor %g and no rows", q, what->factor[q]);
        }
        if (reads_part(what, q) && sl_handle_columns(what->rows[q]) != sl_handle_columns(out)) {
            return sl_fail(SL_EINVAL, "sl_pull: width %u from rows of width %u", sl_handle_columns(out),
                           sl_handle_columns(what->rows[q]));
        }
    }
    if (what->n_parts > SL_MAX_PES || sl_handle_columns(what->offsets) < sl_handle_rows(out) + 1 ||
        (what->weights != SL_PULL_MEAN && what->factors == NULL)) {
        return sl_fail(SL_EINVAL, "sl_pull: %u parts (at most %d), %u rows of %u lists, %s", what->n_parts, SL_MAX_PES,
                       sl_handle_rows(out), sl_handle_columns(what->offsets) - 1,
                       what->factors == NULL ? "no factors" : "factors");
    }
    return SL_OK;
}

enum sl_status sl_pull_submit(const struct sl_task_args *head, const struct sl_pull *what, int beta,
                              starpu_data_handle_t out)
{
    struct pull_args args = {.head = *head,
                             .weights = what->weights,
                             .beta = beta,
                             .scale = what->scale,
                             .first_id = what->first_id,
                             .n_parts = what->n_parts,
                             .has_factors = what->factors != NULL};
    struct sl_task task;
    enum sl_status st = check(what, out);
    if (st != SL_OK) {
        return st;
    }
    sl_task_begin(&task, &pull_cl);
    sl_task_add(&task, what->offsets, STARPU_R);
    sl_task_add(&task, what->vertices, STARPU_R);
    sl_task_add(&task, what->part_of, STARPU_R);
    sl_task_add(&task, what->first, STARPU_R);
    sl_task_add(&task, out, beta ? STARPU_RW : STARPU_W);
    if (what->factors != NULL) {
        sl_task_add(&task, what->factors, STARPU_R);
    }
    for (uint32_t q = 0; q < what->n_parts; q++) {
        args.factor[q] = (sl_real)what->factor[q];
        if (reads_part(what, q)) {
            sl_task_add(&task, what->rows[q], STARPU_R);
        }
    }
    args.head.stage = sl_task_stage(head, head->stage == SL_STAGE_BACKWARD ? SL_STAGE_BACKWARD : SL_STAGE_AGGREGATE);
    args.head.work = (what->n_edges + sl_handle_rows(out)) * sl_handle_columns(out) * sizeof(sl_real);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}
