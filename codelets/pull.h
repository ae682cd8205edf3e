/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over lists of vertices of the whole graph, where each part of the graph has a factor of its own: a layer's aggregation over
 * chunks of the full graph, of which some rows are of this epoch, some of an earlier one and some are not there; and its adjoint.
 *   before: what travels of the chunks (runtime/model/pass.h)     after: dense, or an activation
 *
 * Row d is vertex id of a part, its list its in-neighbours u (of the adjoint its out-neighbours), k(u) the factor of u's part:
 *   SL_PULL_MEAN       out[d] = sum over u of k(u) x[u] / length of d's list
 *   SL_PULL_MEAN_BACK  out[d] = sum over u of k(u) x[u] / list(u)
 *   SL_PULL_SYMMETRIC  out[d] = s f(d) (k(d) f(d) x[d] + sum over u other than d of k(u) f(u) x[u]), its own adjoint
 * with f, list and s of codelets/aggregate.h. Sums run along the list in order, in sl_real, so that nothing but the lists and the
 * factors decides about their bits; so they do where x, or x and out, are of bf16: out is then rounded once.
 */
#ifndef SL_CODELETS_PULL_H
#define SL_CODELETS_PULL_H

#include "codelets/handle.h"
#include "codelets/rows.h"
#include "codelets/task.h"
#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"

enum sl_pull_weights { SL_PULL_MEAN, SL_PULL_MEAN_BACK, SL_PULL_SYMMETRIC };

/* ---- kernels, CPU and CUDA: whose memory the arrays are in is whose processor runs ---- */

/* The lists of a part's vertices first_id .. first_id + n_rows - 1. */
struct sl_pull_lists {
    uint32_t n_rows;
    sl_vertex first_id;
    const uint64_t *offsets;   /* n_rows + 1; offsets[0] is where `vertices` begins */
    const sl_vertex *vertices; /* renumbered ids */
    const uint16_t *part_of;   /* N */
    const sl_vertex *first;    /* of each part, its first id */
    const sl_real *factors;    /* [N x 2] by id: f, list; with SL_PULL_MEAN not read */
    enum sl_pull_weights weights;
    sl_real scale; /* s */
};

/* Where the rows are, of sl_real, or of bf16 where a kernel says so. A part of factor 0 has none. */
struct sl_pull_parts {
    const sl_real *rows[SL_MAX_PES];
    sl_real factor[SL_MAX_PES];
};

/* beta 0: overwrite; beta 1: add. out [n_rows x n_columns]. */
void sl_pull_cpu(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts, uint32_t n_columns, int beta,
                 sl_real *out);

/* The same of rows of bf16, into sl_real or rounded. */
void sl_pull_bf16_cpu(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts, uint32_t n_columns,
                      int beta, sl_real *out);
void sl_pull_rounded_cpu(const struct sl_pull_lists *lists, const struct sl_pull_parts *parts, uint32_t n_columns,
                         int beta, sl_bf16 *out);

#ifdef SL_CUDA
/* The same bits, of rows and into such numbers as they say; sums are of bf16 only where the rows are. n_parts: those that there are.
 * The structs are the host's, read before this returns; what they point to is the device's. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_pull_cuda(cudaStream_t stream, const struct sl_pull_lists *lists,
                                        const struct sl_pull_parts *parts, uint32_t n_parts, enum sl_dtype dtype,
                                        uint32_t n_columns, int beta, enum sl_dtype out_dtype, void *out);
#endif

/* ---- submission: local, one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

struct sl_pull {
    starpu_data_handle_t offsets, vertices; /* of the part */
    starpu_data_handle_t part_of, first;    /* of the graph */
    starpu_data_handle_t factors;           /* NULL with SL_PULL_MEAN */
    enum sl_pull_weights weights;
    double scale;
    sl_vertex first_id;
    uint64_t n_edges;                 /* roughly how many are summed, for the model */
    uint32_t n_parts;                 /* at most SL_MAX_PES */
    const starpu_data_handle_t *rows; /* n_parts matrices, NULL where the factor is 0 */
    const double *factor;             /* n_parts; one that is too small for sl_real is 0 */
};

/* All rows of the part into `out`. Rows are all of sl_real, and so is `out`, or all of bf16, and `out` of either. */
enum sl_status sl_pull_submit(const struct sl_task_args *head, const struct sl_pull *pull, int beta,
                              starpu_data_handle_t out);

#endif
