/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The moves of each group, and the sums of each parameter. */
#include "runtime/exchange/transport.h"

#include "codelets/ends/reduce.h"
#include "runtime/machine/gpus.h"
#include "support/memory.h"
#include "tasks/nccl_lane.h"
#include "tasks/rows.h"

#define TIMEOUT_S 60 /* limit of each exchange, and of NCCL's start */

/* Data of this kind. */
struct nccl {
    struct sl_nccl_lane lane;
    struct sl_nccl_lane_move *moves; /* of one group: at most G^2 */
    /* [parameter][GPU]: the sum of each GPU; NULL: StarPU does the sums. */
    starpu_data_handle_t *share;
};

/* ---- open, close ---- */

static enum sl_status check(const struct sl_settings *settings)
{
    SL_FAIL_IF(settings->gpus == 0, SL_EINVAL,
               "--transport nccl cannot be used with --gpus 0: NCCL moves rows between GPUs");
    SL_FAIL_IF(!sl_nccl_built(), SL_ENOTSUP,
               "--transport: found nccl, but this build has none; configure says where it looked "
               "(--with-nccl=DIR), and leave it out to let StarPU copy");
    return SL_OK;
}

enum sl_status sl_transport_nccl_connect(struct sl_transport *transport, uint32_t n_gpus, const int *devices,
                                         const int *nodes)
{
    struct nccl *n;
    size_t n_pairs = (size_t)transport->plan->n_parts * transport->plan->n_parts;
    SL_CHECK(sl_alloc_zero(1, sizeof *n, "NCCL's transport", &n));
    transport->own = n;
    SL_CHECK(sl_nccl_lane_open(n_gpus, devices, nodes, TIMEOUT_S, &n->lane));
    SL_CHECK(sl_alloc(n_pairs, sizeof *n->moves, "moves between GPUs", &n->moves));
    if (transport->plan->n_replicas == 1) {
        transport->n_sums = n_gpus;
        return sl_alloc_zero((size_t)transport->n_parameters * n_gpus, sizeof *n->share, "sums of each GPU", &n->share);
    }
    return SL_OK;
}

static enum sl_status open_transport(struct sl_transport *transport)
{
    int devices[SL_NCCL_MAX_GPUS];
    int nodes[SL_NCCL_MAX_GPUS];
    const struct sl_homes *homes = &transport->plan->homes;
    SL_FAIL_IF(!homes->gpus || homes->n > SL_NCCL_MAX_GPUS, SL_EINVAL,
               "--transport: found nccl with %u GPUs, expected 1 to %d; without GPUs leave it out",
               homes->gpus ? homes->n : 0, SL_NCCL_MAX_GPUS);
    return sl_transport_nccl_connect(transport, sl_gpus_list(devices, nodes), devices, nodes);
}

static void close_transport(struct sl_transport *transport)
{
    struct nccl *n = transport->own;
    if (n->share != NULL) {
        for (uint32_t k = 0; k < transport->n_parameters * transport->n_sums; k++) {
            sl_handle_close(n->share[k]);
        }
    }
    sl_free(n->share);
    sl_free(n->moves);
    sl_nccl_lane_close(&n->lane);
    sl_free(n);
}

/* ---- rows ---- */

/* If the parcel leaves its GPU, add a move. The receiver reads the moved copy. */
static enum sl_status add_move(struct sl_transport *transport, struct sl_parcel *parcel, uint32_t *n_moves)
{
    struct nccl *n = transport->own;
    starpu_data_handle_t packed = *parcel->handle;
    uint32_t from = sl_home_of(&transport->plan->homes, parcel->from);
    uint32_t to = sl_home_of(&transport->plan->homes, parcel->to);
    if (from == to) {
        return SL_OK;
    }
    SL_CHECK(
        sl_matrix_reshape(sl_handle_rows(packed), sl_handle_columns(packed), sl_handle_dtype(packed), parcel->room));
    n->moves[(*n_moves)++] = (struct sl_nccl_lane_move){from, to, packed, *parcel->room};
    *parcel->handle = *parcel->room;
    return SL_OK;
}

static enum sl_status rows(struct sl_transport *transport, const struct sl_task_args *head, enum sl_stage stage,
                           uint32_t n, struct sl_parcel *parcels)
{
    struct nccl *own = transport->own;
    uint32_t n_moves = 0;
    for (uint32_t i = 0; i < n; i++) {
        SL_CHECK(add_move(transport, &parcels[i], &n_moves));
    }
    if (n_moves > 0) {
        return sl_nccl_lane_move_submit(head, &own->lane, stage, n_moves, own->moves);
    }
    return SL_OK;
}

/* ---- sums ---- */

/* Add the partial sums of each GPU's PEs on that GPU, then add over the GPUs. */
static enum sl_status sum_over_gpus(struct sl_transport *transport, const struct sl_task_args *head,
                                    const struct sl_transport_sum *request)
{
    struct nccl *n = transport->own;
    starpu_data_handle_t *share = n->share + (size_t)request->parameter * transport->n_sums;
    for (uint32_t gpu = 0; gpu < transport->n_sums; gpu++) {
        struct sl_task_args at_home = *head;
        at_home.pe = sl_home_first_pe(&transport->plan->homes, gpu);
        if (share[gpu] == NULL) {
            SL_CHECK(sl_matrix_register(sl_handle_rows(request->sum), sl_handle_columns(request->sum), SL_DTYPE_REAL,
                                        &share[gpu]));
        }
        const struct sl_partials *list = &request->lists[gpu];
        SL_CHECK(sl_reduce_submit(&at_home, list->n, list->handle, list->leaf, share[gpu]));
    }
    return sl_nccl_lane_sum_submit(head, &n->lane, share, request->sum);
}

static enum sl_status sum(struct sl_transport *transport, const struct sl_task_args *head,
                          const struct sl_transport_sum *request)
{
    const struct nccl *n = transport->own;
    if (n->share != NULL) {
        return sum_over_gpus(transport, head, request);
    }
    return sl_transport_starpu.sum(transport, head, request);
}

const struct sl_transport_kind sl_transport_nccl = {.name = "nccl",
                                                    .check = check,
                                                    .open = open_transport,
                                                    .close = close_transport,
                                                    .rows = rows,
                                                    .sum = sum,
                                                    .loss = sl_transport_loss_here};
