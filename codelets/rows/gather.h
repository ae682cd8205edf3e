/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gather: the feature rows of a PE's last frontier. Only the owner of a part reads its table. The means of the first
 * layer may read their sources in the table (runtime/minibatch/steps.h). Gather then copies only the rows of the
 * destinations, the first rows of the frontier.
 *   before: codelets/sampling/exchange.h (merge) gives the frontier
 *   after:  pack, aggregate, dense of the first layer
 *
 *   X[i] = number(table[frontier[row0 + i] - first]) * mask.
 *
 * With input dropout, mask depends on (step, hop = L, vertex, column). The table may be narrower than X: float16,
 * bfloat16, or int8 with a scale. number(entry) is then the entry in X's dtype. X has the bits that a table of the same
 * numbers in X's dtype gives.
 *
 * With a row cache (codelets/rows/row_cache.h) the table stays in main memory. Rows in the cache are read from the
 * cache.
 *
 * Sparse features are not gathered: codelets/rows/dense.h reads them in place.
 */
#ifndef SL_CODELETS_GATHER_H
#define SL_CODELETS_GATHER_H

#include "codelets/rows/row_cache.h"
#include "support/bf16.h"
#include "support/random.h"
#include "support/real.h"
#include "tasks/rows.h"
#include "tasks/task.h"

/* Feature rows of a part, by vertex. */
struct sl_feature_rows {
    uint32_t n_columns;
    enum sl_dtype dtype;              /* of the table and the cache: support/convert.h, or SL_DTYPE_REAL */
    const void *table;                /* rows of the part; row 0 is id `first` */
    uint32_t first;                   /* the part's first id */
    float scale;                      /* of int8 */
    const sl_vertex *ids;             /* renumbered ids of the requested rows */
    const struct sl_row_cache *cache; /* NULL, or the part's cache */
    uint32_t threshold;               /* of input dropout (codelets/rows/dropout.h); 0: none */
    struct sl_draw draw;              /* SL_FOR_DROPOUT, step, hop = L; read if threshold > 0 */
    const sl_vertex *dataset_ids;     /* all vertices; read if threshold > 0 */
};

/* x_out [n_rows x n_columns], of x_dtype: SL_DTYPE_REAL or SL_DTYPE_BF16. A narrow entry is widened on the way. For
 * bf16 an entry is rounded; with dropout it is then scaled in float, and rounded again. On a GPU with a cache, the
 * table is in pinned main memory. */
SL_DECLARE_LAUNCHER(void, sl_gather, const struct sl_feature_rows *rows, uint32_t n_rows, enum sl_dtype x_dtype,
                    void *x_out);

/* Features of a frontier as handles. */
struct sl_feature_handles {
    starpu_data_handle_t table;               /* rows of the part */
    float scale;                              /* of int8 */
    uint32_t first;                           /* the part's first id */
    starpu_data_handle_t frontier;            /* ids, at least row0 + rows of x */
    const struct sl_row_cache_handles *cache; /* NULL, or the part's cache */
    double dropout;                           /* probability that an entry is dropped */
    uint64_t seed;
    starpu_data_handle_t dataset_ids; /* all vertices; read only if dropout > 0 */
};

/* Gather frontier rows row0 .. into chunk x of sl_real or bf16. head->hop is L. Local, one thread submits. SL_ESTARPU,
 * SL_ENOMEM. */
enum sl_status sl_gather_submit(const struct sl_task_args *head, const struct sl_feature_handles *features,
                                uint32_t row0, starpu_data_handle_t x);

#endif
