/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moves and sums as tasks of a CPU worker; their buffers are in GPU memory. */
#include "tasks/nccl_lane.h"

#include <assert.h>
#include <string.h>

#include "support/memory.h"
#include "tasks/rows.h"

/* ---- arguments ---- */

struct nccl_lane_args {
    struct sl_task_args head;
    struct sl_nccl *nccl;
    uint32_t n; /* moves, or GPUs */
};

struct move_args {
    struct nccl_lane_args lane;
    struct {
        uint32_t from, to;
    } move[];
};

/* ---- implementations ---- */

enum { LANE, MOVE_SOURCE, MOVE_TARGET };
enum { SUM = 1, SUM_SHARE };

/* buffers: the lane, then source and target of each move */
static enum sl_status move_task(void *buffers[], const void *cl_arg)
{
    const struct move_args *args = cl_arg;
    uint32_t n = args->lane.n;
    SL_FREED struct sl_nccl_message *messages = NULL;
    SL_CHECK(sl_alloc(n, sizeof *messages, "messages", &messages));
    for (uint32_t k = 0; k < n; k++) {
        void *source = buffers[MOVE_SOURCE + 2 * k];
        size_t row_bytes = sl_buffer_columns(source) * sl_buffer_element(source);
        messages[k] = (struct sl_nccl_message){.from = args->move[k].from,
                                               .to = args->move[k].to,
                                               .bytes = sl_buffer_rows(source) * row_bytes,
                                               .source = sl_buffer_data(source),
                                               .target = sl_buffer_data(buffers[MOVE_TARGET + 2 * k])};
    }
    return sl_nccl_move(args->lane.nccl, n, messages);
}

/* buffers: the lane, the sum, then the share of each GPU */
static enum sl_status sum_task(void *buffers[], const void *cl_arg)
{
    const struct nccl_lane_args *args = cl_arg;
    size_t n_entries = (size_t)sl_buffer_rows(buffers[SUM]) * sl_buffer_columns(buffers[SUM]);
    const sl_real *source[SL_NCCL_MAX_GPUS];
    for (uint32_t i = 0; i < args->n; i++) {
        source[i] = sl_buffer_data(buffers[SUM_SHARE + i]);
    }
    return sl_nccl_sum(args->nccl, n_entries, source, sl_buffer_data(buffers[SUM]));
}

/* ---- operations ---- */

static struct sl_operation move_op = {
    SL_OPERATION(move_op, "sl_move", SL_N_STAGES),
    .cpu = move_task,
    .codelet.specific_nodes = 1,
    .role = {{"lane", STARPU_RW}, {"source", STARPU_R | SL_REPEATED}, {"target", STARPU_W | SL_REPEATED}},
};

static struct sl_operation sum_op = {
    SL_OPERATION(sum_op, "sl_sum", SL_STAGE_SYNC),
    .cpu = sum_task,
    .codelet.specific_nodes = 1,
    .role = {{"lane", STARPU_RW}, {"sum", STARPU_W}, {"share", STARPU_R | SL_REPEATED}},
};

/* An operation, with the memory nodes of its n buffers. */
struct sl_nccl_lane_codelet {
    struct sl_nccl_lane_codelet *next;
    struct sl_operation operation;
    uint32_t n;
    int nodes[];
};

/* Find the operation like `kind` with these memory nodes for its n buffers, or create it. NULL: no memory. */
static struct sl_operation *operation_for(struct sl_nccl_lane *lane, const struct sl_operation *kind, uint32_t n,
                                          const int *nodes)
{
    struct sl_nccl_lane_codelet *c;
    for (c = lane->codelets; c != NULL; c = c->next) {
        if (c->operation.codelet.name == kind->codelet.name && c->n == n &&
            memcmp(c->nodes, nodes, n * sizeof *nodes) == 0) {
            return &c->operation;
        }
    }
    if (sl_alloc_zero(1, sizeof *c + n * sizeof *nodes, "a codelet", &c) != SL_OK) {
        return NULL;
    }
    c->operation = *kind;
    c->operation.codelet.dyn_nodes = c->nodes;
    c->n = n;
    memcpy(c->nodes, nodes, n * sizeof *nodes);
    c->next = lane->codelets;
    lane->codelets = c;
    return &c->operation;
}

/* ---- open, close ---- */

enum sl_status sl_nccl_lane_open(uint32_t n_gpus, const int *devices, const int *nodes, double timeout_s,
                                 struct sl_nccl_lane *out)
{
    *out = (struct sl_nccl_lane){.n_gpus = n_gpus};
    enum sl_status st = sl_nccl_open(n_gpus, devices, timeout_s, &out->nccl);
    if (st != SL_OK) {
        *out = (struct sl_nccl_lane){0};
        return st;
    }
    memcpy(out->node, nodes, n_gpus * sizeof *nodes);
    starpu_void_data_register(&out->lane);
    return SL_OK;
}

void sl_nccl_lane_close(struct sl_nccl_lane *lane)
{
    sl_handle_close(lane->lane);
    sl_nccl_close(lane->nccl);
    while (lane->codelets != NULL) {
        struct sl_nccl_lane_codelet *next = lane->codelets->next;
        sl_free(lane->codelets);
        lane->codelets = next;
    }
    *lane = (struct sl_nccl_lane){0};
}

/* ---- submissions ---- */

static uint64_t bytes_of(starpu_data_handle_t handle)
{
    return (uint64_t)sl_handle_rows(handle) * sl_handle_columns(handle) * sl_handle_element(handle);
}

static bool same_shape(starpu_data_handle_t a, starpu_data_handle_t b)
{
    return sl_handle_rows(a) == sl_handle_rows(b) && sl_handle_columns(a) == sl_handle_columns(b) &&
           sl_handle_element(a) == sl_handle_element(b);
}

enum sl_status sl_nccl_lane_move_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane, enum sl_stage stage,
                                        uint32_t n, const struct sl_nccl_lane_move *moves)
{
    SL_FREED struct move_args *args = NULL;
    struct sl_task task;
    SL_FREED int *nodes = NULL;
    size_t bytes = sizeof *args + n * sizeof args->move[0];
    SL_CHECK(sl_alloc(1 + 2 * (size_t)n, sizeof *nodes, "memory nodes", &nodes));
    SL_CHECK(sl_alloc_zero(1, bytes, "a move", &args));
    args->lane = (struct nccl_lane_args){.head = *head, .nccl = lane->nccl, .n = n};
    args->lane.head.stage = sl_task_stage(head, stage);
    nodes[0] = STARPU_SPECIFIC_NODE_LOCAL;
    for (uint32_t k = 0; k < n; k++) {
        assert(moves[k].from < lane->n_gpus && moves[k].to < lane->n_gpus);
        assert(same_shape(moves[k].source, moves[k].target));
        args->move[k].from = moves[k].from;
        args->move[k].to = moves[k].to;
        args->lane.head.work += bytes_of(moves[k].source);
        nodes[1 + 2 * k] = lane->node[moves[k].from];
        nodes[2 + 2 * k] = lane->node[moves[k].to];
    }
    struct sl_operation *operation = operation_for(lane, &move_op, 1 + 2 * n, nodes);
    if (operation == NULL) {
        return SL_ENOMEM;
    }
    sl_task_begin(&task, operation);
    sl_task_add(&task, LANE, lane->lane, STARPU_RW);
    for (uint32_t k = 0; k < n; k++) {
        sl_task_add(&task, MOVE_SOURCE, moves[k].source, STARPU_R);
        sl_task_add(&task, MOVE_TARGET, moves[k].target, STARPU_W);
    }
    return sl_task_submit(&task, args, bytes, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_nccl_lane_sum_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane,
                                       const starpu_data_handle_t *share, starpu_data_handle_t out)
{
    struct nccl_lane_args args = {.head = *head, .nccl = lane->nccl, .n = lane->n_gpus};
    int nodes[2 + SL_NCCL_MAX_GPUS] = {STARPU_SPECIFIC_NODE_LOCAL, lane->node[0]};
    struct sl_task task;
    for (uint32_t i = 0; i < lane->n_gpus; i++) {
        assert(same_shape(share[i], out));
        nodes[2 + i] = lane->node[i];
    }
    args.head.work = (lane->n_gpus + UINT64_C(1)) * bytes_of(out);
    struct sl_operation *operation = operation_for(lane, &sum_op, 2 + lane->n_gpus, nodes);
    if (operation == NULL) {
        return SL_ENOMEM;
    }
    sl_task_begin(&task, operation);
    sl_task_add(&task, LANE, lane->lane, STARPU_RW);
    sl_task_add(&task, SUM, out, STARPU_W);
    sl_task_add_each(&task, SUM_SHARE, lane->n_gpus, share, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
