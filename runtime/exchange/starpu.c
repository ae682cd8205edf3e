/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --transport starpu: StarPU copies data to the device of the task that reads them. */
#include "codelets/loss.h"
#include "codelets/reduce.h"
#include "runtime/exchange/transport.h"

enum sl_status sl_transport_loss_here(struct sl_transport *transport, const struct sl_task_args *head,
                                      const struct sl_transport_losses *losses)
{
    (void)transport;
    return sl_loss_sum_submit(head, losses->partials->n, losses->partials->handle, losses->watched, losses->total);
}

static enum sl_status rows_stay(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                                uint32_t n, struct sl_parcel *parcels)
{
    (void)transport, (void)head, (void)stage, (void)n, (void)parcels;
    return SL_OK;
}

static enum sl_status sum(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *request)
{
    const struct sl_partials *list = request->lists;
    (void)transport;
    if (request->notes) {
        const struct sl_touched_sum touched = {list->n,      list->handle,      list->touched,
                                               request->sum, list->sum_touched, request->fresh};
        return sl_reduce_touched_submit(head, &touched);
    }
    return sl_reduce_submit(head, request->lists->n, request->lists->handle, request->sum);
}

const struct sl_transport_kind sl_transport_starpu = {
    .name = "starpu", .sums_touched = true, .rows = rows_stay, .sum = sum, .loss = sl_transport_loss_here};
