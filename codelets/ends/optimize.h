/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Optimise: one step of parameters by Adam (Kingma, Ba 2015) or AdamW (Loshchilov, Hutter 2019). Adam's weight decay
 * is an L2 term of the gradient. AdamW's is decoupled from it.
 *   before: backward, or codelets/ends/reduce.h        after: the next step's dense
 *
 *   grad = sum of the partials, in the order of codelets/ends/reduce.h
 *   g = grad + decay * w;  AdamW: g = grad, and first w *= 1 - lr * decay
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   w -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps),  t = 1, 2, ..
 *
 * By rows: a row whose gradient is zero keeps its weights and moments, and is not decayed. t counts all steps.
 * torch.optim.SparseAdam does the same.
 */
#ifndef SL_CODELETS_OPTIMIZE_H
#define SL_CODELETS_OPTIMIZE_H

#include <math.h>
#include <stddef.h>

#include "codelets/grid.h"
#include "tasks/task.h"

struct sl_adam {
    double lr;      /* learning rate of this step */
    double beta1;   /* usually 0.9 */
    double beta2;   /* usually 0.999 */
    double eps;     /* usually 1e-8 */
    double decay;   /* weight decay; 0: none */
    bool decoupled; /* AdamW: w *= 1 - lr * decay */
    uint64_t t;     /* number of this step, from 1 */
};

/* The scalars of one step, with the bias corrections folded in: w -= step * m / (root * sqrt(v) + eps), step = lr /
 * (1 - b1^t), root = 1 / sqrt(1 - b2^t). */
struct sl_adam_step {
    sl_real beta1, rest1; /* b1, 1 - b1 */
    sl_real beta2, rest2;
    sl_real step;
    sl_real root;
    sl_real eps;
    sl_real decay; /* in the gradient */
    sl_real kept;  /* share of w that decoupled decay leaves; 1: all */
};

/* Computed on the host, in double, then rounded. */
static inline struct sl_adam_step sl_adam_step(const struct sl_adam *adam)
{
    struct sl_adam_step s;
    s.beta1 = (sl_real)adam->beta1;
    s.rest1 = (sl_real)(1 - adam->beta1);
    s.beta2 = (sl_real)adam->beta2;
    s.rest2 = (sl_real)(1 - adam->beta2);
    s.step = (sl_real)(adam->lr / (1 - pow(adam->beta1, (double)adam->t)));
    s.root = (sl_real)(1 / sqrt(1 - pow(adam->beta2, (double)adam->t)));
    s.eps = (sl_real)adam->eps;
    s.decay = (sl_real)(adam->decoupled ? 0 : adam->decay);
    s.kept = (sl_real)(adam->decoupled ? 1 - adam->lr * adam->decay : 1);
    return s;
}

/* Update one entry. The same code runs on host and device. */
static inline SL_HOST_DEVICE void sl_adam_entry(const struct sl_adam_step *s, sl_real gradient, sl_real *w, sl_real *m,
                                                sl_real *v)
{
    const sl_real kept = s->kept * *w;
    sl_real g = gradient + s->decay * *w;
    *m = s->beta1 * *m + s->rest1 * g;
    *v = s->beta2 * *v + s->rest2 * (g * g);
#ifdef SL_REAL_DOUBLE
    *w = kept - s->step * *m / (s->root * sqrt(*v) + s->eps);
#else
    *w = kept - s->step * *m / (s->root * sqrtf(*v) + s->eps);
#endif
}

/* An array of n_entries. n, partials, leaf: as of sl_reduce. sum: NULL, or becomes the sum of the partials. */
struct sl_optimize_array {
    size_t n_entries;
    uint32_t n;
    const sl_real *const *partials;
    const uint32_t *leaf;
    sl_real *sum, *w, *m, *v;
};

#define SL_OPTIMIZE_MOST 16 /* arrays of a task */

/* Update n arrays, at most SL_OPTIMIZE_MOST. adam and arrays are in host memory. The same bits on both devices. */
SL_DECLARE_LAUNCHER(void, sl_optimize, const struct sl_adam *adam, uint32_t n, const struct sl_optimize_array *arrays);

/* By rows, with the gradient's sum: all matrices are [n_rows x n_columns]. touched: for each row, whether the gradient
 * may be other than zero; NULL: not known. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_optimize_rows, const struct sl_adam *adam, uint32_t n_rows, uint32_t n_columns,
                    const sl_real *gradient, const int8_t *touched, sl_real *w, sl_real *m, sl_real *v);

/* One array: w, m and v, matrices of sl_real of one shape, are updated. The gradient is the sum of the partials in n
 * handles. A handle has one or more matrices of this shape; leaf has a leaf of each handle, in any order. If n is 0,
 * the gradient is 0. sum: NULL, or becomes the gradient. By rows, n is 1. touched: int8 [1 x rows] as above, or
 * NULL. */
struct sl_optimize_handles {
    starpu_data_handle_t sum, w, m, v;
    uint32_t n;
    const starpu_data_handle_t *partials;
    const uint32_t *leaf;
    bool by_rows;
    starpu_data_handle_t touched;
};

/* Submit one Adam step of n arrays, at most SL_OPTIMIZE_MOST, or of one by rows. Local; one thread submits. The errors
 * of sl_view_submit. */
enum sl_status sl_optimize_submit(const struct sl_task_args *head, const struct sl_adam *adam, uint32_t n,
                                  const struct sl_optimize_handles *arrays);

#endif
