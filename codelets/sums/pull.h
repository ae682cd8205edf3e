/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over lists of vertices of the whole graph, with one factor for each part: the aggregation of a layer over
 * graph chunks, and its adjoint. Rows of a chunk are of this epoch, of an earlier epoch, or missing. The factors tell.
 *   before: the rows that chunks exchange (runtime/model/pass.h)     after: dense, or an activation
 *
 * Row d of the output is vertex `id` of a part. Its list has its in-neighbours u, or its out-neighbours in the
 * adjoint. k(u) is the factor of u's part.
 *
 *   SL_PULL_MEAN       out[d] = sum over u of k(u) x[u] / length of d's list.
 *   SL_PULL_MEAN_BACK  out[d] = sum over u of k(u) x[u] / list(u).
 *   SL_PULL_SYMMETRIC  out[d] = s f(d) (k(d) f(d) x[d] + sum over u other than d of k(u) f(u) x[u]), its own adjoint.
 *
 * With edge weights each term of an edge is multiplied by its weight. The term of d itself has weight 1.
 *
 * f, list and s are as in codelets/sums/aggregate.h. A sum runs along its list in order, in sl_real, so lists and
 * factors alone determine its bits. If x is bf16, the sum is still in sl_real. If out is bf16, the sum is rounded once,
 * at its end.
 */
#ifndef SL_CODELETS_PULL_H
#define SL_CODELETS_PULL_H

#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"
#include "tasks/handle.h"
#include "tasks/rows.h"
#include "tasks/task.h"

enum sl_pull_weights { SL_PULL_MEAN, SL_PULL_MEAN_BACK, SL_PULL_SYMMETRIC };

/* ---- kernels, CPU and CUDA ---- */

/* The lists of the vertices first_id .. first_id + n_rows - 1 of a part. The arrays are in the memory of the
 * processor that runs the kernel. */
struct sl_pull_lists {
    uint32_t n_rows;
    sl_vertex first_id;
    const uint64_t *offsets;   /* [n_rows + 1]; offsets[0] belongs to vertices[0] */
    const sl_vertex *vertices; /* renumbered ids */
    const uint16_t *part_of;   /* [N], part of each vertex */
    const sl_vertex *first;    /* first id of each part */
    const sl_real *factors;    /* [N x 2] by id: f, list; unused with SL_PULL_MEAN */
    const float *edge_weights; /* as `vertices`; NULL: 1 */
    enum sl_pull_weights weights;
    sl_real scale; /* s */
};

/* The rows of each part, sl_real or, if the kernel says so, bf16. A part with factor 0 has no rows. */
struct sl_pull_parts {
    const sl_real *rows[SL_MAX_PARTS];
    sl_real factor[SL_MAX_PARTS];
};

/* Compute out [n_rows x n_columns], with the same bits on both devices. beta 0 overwrites out, beta 1 adds to it. The
 * rows have this dtype. If they are bf16, out may be bf16 too; otherwise out is sl_real. n_parts parts are in use.
 * SL_ENOMEM on a CPU. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_pull, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                    uint32_t n_parts, enum sl_dtype dtype, uint32_t n_columns, int beta, enum sl_dtype out_dtype,
                    void *out);

#ifndef SL_KERNELS_ONLY
/* ---- submission ---- */

/* A task. The arrays are those of struct sl_pull_lists. */
struct sl_pull {
    struct sl_task_args head;
    struct sl_matrix offsets, vertices; /* of the part: [n_part + 1], [E_part] */
    struct sl_matrix part_of, first;    /* of the graph */
    struct sl_matrix factors;           /* [N x 2]; empty with SL_PULL_MEAN */
    struct sl_matrix edge_weights;      /* of the part: float [E_part]; empty: all are 1 */
    enum sl_pull_weights weights;
    sl_real scale;
    sl_vertex first_id;
    uint32_t n_parts; /* at most SL_MAX_PARTS */
    /* sl_pull_submit sets the rest. */
    struct sl_matrix out;
    struct sl_matrices rows; /* of the parts in `numbers`, whose factor is not 0 */
    enum sl_dtype dtype;     /* of the rows */
    int beta;
    sl_real factor[SL_MAX_PARTS];
};

/* Submit the sums of all rows of the part into `out`. rows [n_parts]: matrices, NULL if the factor is 0; a factor too
 * small for sl_real counts as 0. Rows and out are all sl_real, or the rows are all bf16 and out is either dtype.
 * n_edges: estimated number of added rows, for the performance model. Local; one thread submits. SL_ESTARPU,
 * SL_ENOMEM. */
enum sl_status sl_pull_submit(struct sl_pull *pull, uint64_t n_edges, const starpu_data_handle_t *rows,
                              const double *factor, int beta, starpu_data_handle_t out);
#endif

#endif
