/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A list of partial sums: small matrices of one shape, added up leaf by leaf (codelets/ends/tree.h). Every step writes
 * the list anew. A matrix is registered on first use and kept for the run. A step's writers wait for the readers of the
 * previous step, but these are long done.
 */
#ifndef SL_RUNTIME_STORE_PARTIALS_H
#define SL_RUNTIME_STORE_PARTIALS_H

#include <stdbool.h>

#include "support/dtype.h"
#include "tasks/handle.h"

struct sl_partials {
    /* Number in use. Changes from step to step with the rows of a PE. */
    uint32_t n;
    uint32_t room;
    /* `room` entries; NULL until registered. */
    starpu_data_handle_t *handle;
    uint32_t *leaf; /* of each matrix: the PE, or in full-graph training the first piece of the chunk */
    /* int8 [1 x n_rows] beside each matrix, and beside their sum: the rows that may be other than zero. NULL until
     * registered. Lists of small matrices have none. */
    starpu_data_handle_t *touched;
    starpu_data_handle_t sum_touched;
    bool summed; /* the sum's rows that are not touched are zero */
};

/* Make an empty list for up to `room` matrices. SL_ENOMEM. */
enum sl_status sl_partials_open(uint32_t room, struct sl_partials *out);

/* Take the next matrix of the list, of a leaf, registering it if it is new. All matrices of a list are
 * [n_rows x n_columns] of `dtype`. SL_EINTERNAL: the list is full. SL_EINVAL. */
enum sl_status sl_partials_next(struct sl_partials *partials, uint32_t leaf, uint32_t n_rows, uint32_t n_columns,
                                enum sl_dtype dtype, starpu_data_handle_t *out);

/* The same for large matrices of few rows that are not zero. *touched_out: the matrix's touched rows; *fresh:
 * neither it nor the matrix has been written. */
enum sl_status sl_partials_next_touched(struct sl_partials *partials, uint32_t leaf, uint32_t n_rows,
                                        uint32_t n_columns, starpu_data_handle_t *out,
                                        starpu_data_handle_t *touched_out, bool *fresh);

/* Wait for the tasks, free everything. An empty list is allowed. */
void sl_partials_close(struct sl_partials *partials);

#endif
