/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Selection of the transport's kind, and the plainest kind. */
#include "runtime/exchange/transport.h"

#include "codelets/ends/loss.h"
#include "codelets/ends/reduce.h"

static const struct sl_transport_kind *const kinds[] = {
    [SL_TRANSPORT_STARPU] = &sl_transport_starpu, [SL_TRANSPORT_NCCL] = &sl_transport_nccl};

enum sl_status sl_transport_check(const struct sl_settings *settings)
{
    const struct sl_transport_kind *kind = kinds[settings->transport];
    if (kind->check == NULL) {
        return SL_OK;
    }
    return kind->check(settings);
}

enum sl_status sl_transport_open(const struct sl_settings *settings, const struct sl_plan *plan, uint32_t n_parameters,
                                 struct sl_transport *out)
{
    enum sl_status st = SL_OK;
    *out = (struct sl_transport){.kind = kinds[settings->transport],
                                 .plan = plan,
                                 .n_sums = 1,
                                 .n_parameters = n_parameters,
                                 .n_leaves = 1,
                                 .depth = settings->depth};
    if (sl_n_ranks() > 1) {
        out->within = out->kind;
        out->kind = &sl_transport_mpi;
    }
    if (out->kind->open != NULL) {
        SL_TRY(st, out->kind->open(out), failed);
    }
    return SL_OK;
failed:
    sl_transport_close(out);
    return st;
}

void sl_transport_close(struct sl_transport *transport)
{
    if (transport->own != NULL) {
        transport->kind->close(transport);
    }
    *transport = (struct sl_transport){0};
}

/* ---- --transport starpu: StarPU copies data to the device of the task that reads them ---- */

enum sl_status sl_transport_loss_here(struct sl_transport *transport, const struct sl_task_args *head,
                                      const struct sl_transport_losses *losses)
{
    (void)transport;
    return sl_loss_sum_submit(head, losses->partials->n, losses->partials->handle, losses->partials->leaf,
                              losses->watched, NULL, losses->total);
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
        const struct sl_touched_sum touched = {list->n,      list->handle,      list->touched, list->leaf,
                                               request->sum, list->sum_touched, request->fresh};
        return sl_reduce_touched_submit(head, &touched);
    }
    return sl_reduce_submit(head, list->n, list->handle, list->leaf, request->sum);
}

const struct sl_transport_kind sl_transport_starpu = {
    .name = "starpu", .sums_here = true, .rows = rows_stay, .sum = sum, .loss = sl_transport_loss_here};
