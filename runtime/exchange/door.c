/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which kind of door. */
#include "runtime/exchange/door.h"

static const struct sl_door_kind *const kinds[] = {
    [SL_TRANSPORT_STARPU] = &sl_door_starpu, [SL_TRANSPORT_NCCL] = &sl_door_nccl};

enum sl_status sl_door_check(const struct sl_settings *settings)
{
    const struct sl_door_kind *kind = kinds[settings->transport];
    return kind->check == NULL ? SL_OK : kind->check(settings);
}

enum sl_status sl_door_open(const struct sl_settings *settings, const struct sl_plan *plan, uint32_t n_parameters,
                            struct sl_door *out)
{
    enum sl_status st = SL_OK;
    *out = (struct sl_door){.kind = kinds[settings->transport],
                            .plan = plan,
                            .n_sums = 1,
                            .n_parameters = n_parameters,
                            .depth = settings->depth};
    if (sl_n_ranks() > 1) {
        out->within = out->kind;
        out->kind = &sl_door_mpi;
    }
    SL_TRY(st, out->kind->open == NULL ? SL_OK : out->kind->open(out), failed);
    return SL_OK;
failed:
    sl_door_close(out);
    return st;
}

void sl_door_close(struct sl_door *door)
{
    if (door->own != NULL) {
        door->kind->close(door);
    }
    *door = (struct sl_door){0};
}
