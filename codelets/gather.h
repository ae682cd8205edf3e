/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 5, gather: the feature rows of a PE's last frontier, read from the part's table by their owner and nobody else; of its
 * destinations alone, which are the first of them, where the first layer's means read the others in the table
 * (runtime/minibatch/steps.h).
 *   before: codelets/exchange.h (merge) gives the frontier      after: pack, aggregate, dense of the first layer
 *
 *   X[i] = table[frontier[row0 + i] - first] * mask, input dropout's mask of (step, hop = L, vertex, column), if any
 *
 * With a cache of hot rows (codelets/hotrows.h) the table stays in main memory, and rows are taken from the cache where it holds
 * them.
 *
 * Sparse features are not gathered: codelets/dense.h reads them where they are.
 */
#ifndef SL_CODELETS_GATHER_H
#define SL_CODELETS_GATHER_H

#include "codelets/hotrows.h"
#include "codelets/rows.h"
#include "codelets/task.h"
#include "support/bf16.h"
#include "support/random.h"
#include "support/real.h"

/* The feature rows wanted of a part. */
struct sl_feature_rows {
    uint32_t n_columns;
    const sl_real *table;         /* the part's rows, row 0 is id `first` */
    uint32_t first;               /* the part's first id */
    const sl_vertex *ids;         /* renumbered ids of the rows wanted */
    const struct sl_hotrows *hot; /* NULL, or the part's cache */
    uint32_t threshold;           /* input dropout (codelets/dropout.h), 0: none */
    struct sl_draw draw;          /* SL_FOR_DROPOUT, step, hop = L; only where threshold > 0 */
    const sl_vertex *dataset_ids; /* of all vertices; only where threshold > 0 */
};

/* x_out [n_rows x n_columns]. */
void sl_gather_cpu(const struct sl_feature_rows *rows, uint32_t n_rows, sl_real *x_out);

/* The same where the table, the cache and X are of bf16; with dropout an entry is scaled as a float and rounded. */
void sl_gather_bf16_cpu(const struct sl_feature_rows *rows, uint32_t n_rows, sl_bf16 *x_out);

#ifdef SL_CUDA
/* The same on the stream's device, pointers to its memory but for the structs themselves, and but for the table where there is a
 * cache: that is then pinned main memory. of: the numbers of the table, the cache and X. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_gather_cuda(cudaStream_t stream, const struct sl_feature_rows *rows, uint32_t n_rows,
                                          enum sl_dtype dtype, void *x_out);
#endif

/* The features of a frontier in StarPU's hands. */
struct sl_feature_handles {
    starpu_data_handle_t table;           /* matrix of the part */
    uint32_t first;                       /* the part's first id */
    starpu_data_handle_t frontier;        /* ids, at least row0 + rows of x */
    const struct sl_hotrows_handles *hot; /* NULL, or the part's cache */
    double dropout;                       /* probability that an entry is dropped */
    uint64_t seed;
    starpu_data_handle_t dataset_ids; /* of all vertices; read only where dropout > 0 */
};

/* Rows row0 .. of the frontier into chunk x, of the table's precision. head->hop is L. Local, one thread submits; SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_gather_submit(const struct sl_task_args *head, const struct sl_feature_handles *features,
                                uint32_t row0, starpu_data_handle_t x);

#endif
