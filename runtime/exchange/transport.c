/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Selection of the transport's kind. */
#include "runtime/exchange/transport.h"

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
