/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Adam, by entry or by row. By entry both devices are bound by seven streams of memory: four are read, three written.
 * By row a CPU fetches the next touched rows ahead, because they are far apart. */
#include "codelets/ends/optimize.h"

/* ---- kernels ---- */

SL_KERNEL update(struct sl_adam_step step, size_t n_entries, const sl_real *restrict gradient, sl_real *restrict w,
                 sl_real *restrict m, sl_real *restrict v)
{
    for (size_t i = sl_thread(); i < n_entries; i += sl_n_threads()) {
        sl_adam_entry(&step, gradient[i], &w[i], &m[i], &v[i]);
    }
}

SL_LAUNCHER(sl_optimize, const struct sl_adam *adam, size_t n_entries, const sl_real *gradient, sl_real *w, sl_real *m,
            sl_real *v)
{
    return SL_LAUNCH("sl_optimize", sl_blocks(n_entries), update, sl_adam_step(adam), n_entries, gradient, w, m, v);
}

/* Update a row, unless its gradient is zero. */
SL_DEVICE void update_row(const struct sl_adam_step *step, uint32_t n, const sl_real *restrict gradient,
                          sl_real *restrict w, sl_real *restrict m, sl_real *restrict v)
{
    int found = 0; /* a bool would keep the loop from being vectorised */
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        found |= gradient[c] != 0;
    }
    if (sl_warp_max(found) != 0) {
        for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
            sl_adam_entry(step, gradient[c], &w[c], &m[c], &v[c]);
        }
    }
}

#ifdef SL_KERNELS_ONLY

static __global__ void update_rows(struct sl_adam_step step, uint32_t n_rows, uint32_t n_columns,
                                   const sl_real *restrict gradient, const int8_t *restrict touched,
                                   sl_real *restrict w, sl_real *restrict m, sl_real *restrict v)
{
    for (uint64_t r = sl_warp(); r < n_rows; r += sl_n_warps()) {
        const size_t first = r * n_columns;
        if (touched == NULL || touched[r] != 0) {
            update_row(&step, n_columns, gradient + first, w + first, m + first, v + first);
        }
    }
}

#else

#include <assert.h>

#include "tasks/rows.h"

#define AHEAD 8 /* touched rows that are fetched ahead */

SL_INLINE uint32_t next_row(const int8_t *touched, uint32_t r, uint32_t n_rows)
{
    return touched == NULL ? r : sl_next_touched(touched, r, n_rows);
}

SL_CLONES static void update_rows(struct sl_adam_step step, uint32_t n_rows, uint32_t n_columns,
                                  const sl_real *gradient, const int8_t *touched, sl_real *w, sl_real *m, sl_real *v)
{
    const size_t bytes = n_columns * sizeof *w;
    uint32_t ahead = next_row(touched, 0, n_rows), n_ahead = 0;
    for (uint32_t r = ahead; r < n_rows; r = next_row(touched, r + 1, n_rows)) {
        for (; n_ahead < AHEAD && ahead < n_rows; n_ahead++) {
            const size_t first = (size_t)ahead * n_columns;
            sl_row_fetch(gradient + first, bytes);
            sl_row_fetch(w + first, bytes);
            sl_row_fetch(m + first, bytes);
            sl_row_fetch(v + first, bytes);
            ahead = next_row(touched, ahead + 1, n_rows);
        }
        n_ahead--;
        const size_t first = (size_t)r * n_columns;
        update_row(&step, n_columns, gradient + first, w + first, m + first, v + first);
    }
}

#endif

SL_LAUNCHER(sl_optimize_rows, const struct sl_adam *adam, uint32_t n_rows, uint32_t n_columns, const sl_real *gradient,
            const int8_t *touched, sl_real *w, sl_real *m, sl_real *v)
{
    return SL_LAUNCH("sl_optimize: rows", sl_warp_blocks(n_rows), update_rows, sl_adam_step(adam), n_rows, n_columns,
                     gradient, touched, w, m, v);
}

#ifndef SL_KERNELS_ONLY
/* ---- operations ---- */

struct optimize {
    struct sl_task_args head;
    struct sl_matrix gradient, w, m, v;
    struct sl_matrix touched; /* optional, and only by rows */
    struct sl_adam adam;
    bool by_rows;
};

static enum sl_status optimize(const void *view, const void *stream)
{
    const struct optimize *o = view;
    if (o->by_rows) {
        return SL_RUN(stream, sl_optimize_rows, &o->adam, o->w.n_rows, o->w.n_columns, o->gradient.data,
                      o->touched.data, o->w.data, o->m.data, o->v.data);
    }
    return SL_RUN(stream, sl_optimize, &o->adam, sl_matrix_entries(&o->w), o->gradient.data, o->w.data, o->m.data,
                  o->v.data);
}

static struct sl_operation optimize_op = {
    SL_OPERATION(optimize_op, "sl_optimize", SL_STAGE_OPTIMISE),
    SL_BODY(optimize, struct optimize),
    .role = {{"gradient", STARPU_R, offsetof(struct optimize, gradient), "D x F"},
             {"w", STARPU_RW, offsetof(struct optimize, w), "D x F"},
             {"m", STARPU_RW, offsetof(struct optimize, m), "D x F"},
             {"v", STARPU_RW, offsetof(struct optimize, v), "D x F"},
             {"touched rows", STARPU_R | SL_OPTIONAL, offsetof(struct optimize, touched), "1 x D", SL_INTS_8}},
};

/* ---- submissions ---- */

enum sl_status sl_optimize_submit(const struct sl_task_args *head, const struct sl_adam *adam,
                                  const struct sl_optimize_handles *handles)
{
    struct optimize view = {.head = *head,
                            .gradient = sl_matrix_of(handles->gradient),
                            .w = sl_matrix_of(handles->w),
                            .m = sl_matrix_of(handles->m),
                            .v = sl_matrix_of(handles->v),
                            .touched = sl_matrix_of(handles->touched),
                            .adam = *adam,
                            .by_rows = handles->by_rows};
    assert(adam->t != 0 && (handles->by_rows || handles->touched == NULL));
    return sl_view_submit(&optimize_op, &view, SL_PRIORITY_COMPUTE);
}

#endif
