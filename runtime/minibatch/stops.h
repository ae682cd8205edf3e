/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How several ranks come to stop after the same step: with each step's sample every rank tells all others whether it was asked to, and
 * the step whose word has come from all of them is the last if one of them was. Ranks that are apart (sl_plan_apart) have none of this:
 * they agree at the epoch's end.
 */
#ifndef SL_RUNTIME_MINIBATCH_STOPS_H
#define SL_RUNTIME_MINIBATCH_STOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "codelets/handle.h"
#include "support/status.h"

struct sl_stops {
    uint32_t n_ranks, rank; /* 0, 0: there is one rank, and nothing here */
    uint32_t depth;
    uint32_t *wanted; /* [slot][rank] */
    starpu_data_handle_t *handle;
};

/* SL_ENOMEM. */
enum sl_status sl_stops_open(uint32_t n_ranks, uint32_t rank, uint32_t depth, struct sl_stops *out);
void sl_stops_close(struct sl_stops *stops);

/* What rank r says with a step's sample. */
static inline starpu_data_handle_t sl_stops_of(const struct sl_stops *stops, uint64_t step, uint32_t r)
{
    return stops->handle[step % stops->depth * stops->n_ranks + r];
}

/* Say it, before it is shared; what all have said, waiting for it. SL_ESTARPU. */
enum sl_status sl_stops_write(const struct sl_stops *stops, uint64_t step, bool wanted);
enum sl_status sl_stops_read(const struct sl_stops *stops, uint64_t step, bool *wanted_out);

#endif
