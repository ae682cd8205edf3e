/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Small matrices of one shape, which every step writes anew: the shares of a sum, in its fixed order. Registered when first asked
 * for and kept for the run: StarPU lets a step's writers wait for the readers of the step before, which are done long since.
 */
#ifndef SL_RUNTIME_STORE_PARTIALS_H
#define SL_RUNTIME_STORE_PARTIALS_H

#include "codelets/handle.h"

struct sl_partials {
    uint32_t n; /* in use; there may be fewer in the next step, where a PE has fewer rows */
    uint32_t room;
    starpu_data_handle_t *handle; /* room of them, NULL where not yet registered */
};

/* SL_ENOMEM. */
enum sl_status sl_partials_open(uint32_t room, struct sl_partials *out);

/* The next of the list, whose matrices all are [n_rows x n_columns]: SL_EINVAL, SL_EINTERNAL where the list is full. */
enum sl_status sl_partials_next(struct sl_partials *partials, uint32_t n_rows, uint32_t n_columns, size_t element,
                                starpu_data_handle_t *out);

/* Wait for the tasks, release. An empty list is allowed. */
void sl_partials_close(struct sl_partials *partials);

#endif
