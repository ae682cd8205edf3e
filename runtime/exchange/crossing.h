/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --transport nccl: what crosses from one GPU to another in a step, as tasks of its own (codelets/transport.h). A run without
 * (struct sl_run, transport) has none of this: StarPU copies what a task reads to where it runs.
 *
 *   rows       between PEs of a group whose homes are different GPUs: what one has packed is copied into a buffer of the
 *              other's, which aggregate or accumulate then reads in its stead. One task for each group, layer and direction
 *   gradients  with --sync allreduce: the partials of each GPU's PEs are added up there, and these sums over the GPUs. With
 *              gossip sums are StarPU's, since a replica's PEs may be on any GPUs
 */
#ifndef SL_RUNTIME_CROSSING_H
#define SL_RUNTIME_CROSSING_H

#include "codelets/transport.h"
#include "runtime/model/model.h"

struct sl_steps;

struct sl_crossing {
    uint32_t n_sums;                 /* sums that a gradient is first made of: one for each GPU; without, 1 */
    starpu_data_handle_t *share;     /* [layer][parameter][GPU]: these sums; NULL: gradients do not cross */
    struct sl_transport_move *moves; /* of one group: at most G^2 */
};

/* Prepare, for steps whose settings, run, sizes and replicas are there. SL_ENOMEM. What there is then is for close. */
enum sl_status sl_crossing_open(struct sl_steps *steps);

/* Wait for the tasks, release. */
void sl_crossing_close(struct sl_steps *steps);

/* Which of the n_sums sums PE p adds to. */
uint32_t sl_crossing_sum_of(const struct sl_steps *steps, uint32_t p);

/* Submit: rows that PEs have packed for each other at this hop, or (back) row gradients, cross; pe->packed or pe->sent then are
 * what has arrived. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_crossing_rows(struct sl_steps *steps, uint64_t step, uint32_t hop, bool back);

/* What PE p got from owner q at this hop where that came from another GPU; else NULL. */
starpu_data_handle_t sl_crossing_arrived(const struct sl_steps *steps, uint64_t step, uint32_t hop, uint32_t p,
                                         uint32_t q);

/* Their readers have been submitted: keep what arrived for the slot's next use (sl_matrix_keep). */
void sl_crossing_keep(struct sl_steps *steps, uint64_t step, uint32_t hop, bool back);

/* Submit: the gradient of a layer's parameter, as the sum over GPUs; partials: n_sums lists. The same statuses. */
enum sl_status sl_crossing_gradient(struct sl_steps *steps, uint64_t step, uint32_t layer, int parameter);

#endif
