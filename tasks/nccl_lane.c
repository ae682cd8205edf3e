/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moves and sums as tasks of a CPU worker; their buffers are in GPU memory. */
#include "tasks/nccl_lane.h"

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

/* ---- task wrappers ---- */

static void leave(const struct sl_task_args *head, double start_s, enum sl_status st)
{
    if (st != SL_OK) {
        sl_task_fail(head, st);
        return;
    }
    sl_task_leave(head, start_s);
}

/* buffers: the lane, then source and target of each move */
static void move_task(void *buffers[], void *cl_arg)
{
    const struct move_args *args = cl_arg;
    uint32_t n = args->lane.n;
    struct sl_nccl_message *messages;
    double start_s;
    if (sl_task_enter(&args->lane.head, &start_s)) {
        return;
    }
    enum sl_status st = sl_alloc(n, sizeof *messages, "messages", &messages);
    if (st == SL_OK) {
        for (uint32_t k = 0; k < n; k++) {
            void *source = buffers[1 + 2 * k];
            size_t n_entries = (size_t)sl_buffer_rows(source) * sl_buffer_columns(source);
            messages[k] = (struct sl_nccl_message){.from = args->move[k].from,
                                                   .to = args->move[k].to,
                                                   .bytes = sl_dtype_bytes(sl_buffer_dtype(source), n_entries),
                                                   .source = sl_buffer_data(source),
                                                   .target = sl_buffer_data(buffers[2 + 2 * k])};
        }
        st = sl_nccl_move(args->lane.nccl, n, messages);
        sl_free(messages);
    }
    leave(&args->lane.head, start_s, st);
}

/* buffers: the lane, the sum, then the share of each GPU */
static void sum_task(void *buffers[], void *cl_arg)
{
    const struct nccl_lane_args *args = cl_arg;
    size_t n_entries = (size_t)sl_buffer_rows(buffers[1]) * sl_buffer_columns(buffers[1]);
    const sl_real *source[SL_NCCL_MAX_GPUS];
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    for (uint32_t i = 0; i < args->n; i++) {
        source[i] = sl_buffer_data(buffers[2 + i]);
    }
    leave(&args->head, start_s, sl_nccl_sum(args->nccl, n_entries, source, sl_buffer_data(buffers[1])));
}

/* ---- codelets ---- */

static struct starpu_perfmodel move_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_move", .size_base = sl_task_size_base};

static const struct starpu_codelet move_cl = {
    .name = "sl_move",
    .cpu_funcs = {move_task},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .specific_nodes = 1,
    .model = &move_model,
};

static struct starpu_perfmodel sum_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_sum", .size_base = sl_task_size_base};

static const struct starpu_codelet sum_cl = {
    .name = "sl_sum",
    .cpu_funcs = {sum_task},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .specific_nodes = 1,
    .model = &sum_model,
};

/* A codelet, with the memory nodes of its n buffers. */
struct sl_nccl_lane_codelet {
    struct sl_nccl_lane_codelet *next;
    struct starpu_codelet codelet;
    uint32_t n;
    int nodes[];
};

/* Find the codelet like `kind` with these memory nodes for its n buffers, or create it. NULL: no memory. */
static struct starpu_codelet *codelet_for(struct sl_nccl_lane *lane, const struct starpu_codelet *kind, uint32_t n,
                                          const int *nodes)
{
    struct sl_nccl_lane_codelet *c;
    for (c = lane->codelets; c != NULL; c = c->next) {
        if (c->codelet.name == kind->name && c->n == n && memcmp(c->nodes, nodes, n * sizeof *nodes) == 0) {
            return &c->codelet;
        }
    }
    if (sl_alloc_zero(1, sizeof *c + n * sizeof *nodes, "a codelet", &c) != SL_OK) {
        return NULL;
    }
    c->codelet = *kind;
    c->codelet.dyn_nodes = c->nodes;
    c->n = n;
    memcpy(c->nodes, nodes, n * sizeof *nodes);
    c->next = lane->codelets;
    lane->codelets = c;
    return &c->codelet;
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

static enum sl_status check_moves(const struct sl_nccl_lane *lane, uint32_t n, const struct sl_nccl_lane_move *moves)
{
    for (uint32_t k = 0; k < n; k++) {
        const struct sl_nccl_lane_move *m = &moves[k];
        if (m->from >= lane->n_gpus || m->to >= lane->n_gpus || !same_shape(m->source, m->target)) {
            return sl_fail(SL_EINVAL,
                           "sl_move: move %u is of [%u x %u] on GPU %u to [%u x %u] on GPU %u of %u, numbers of %zu "
                           "bytes to such of %zu",
                           k, sl_handle_rows(m->source), sl_handle_columns(m->source), m->from,
                           sl_handle_rows(m->target), sl_handle_columns(m->target), m->to, lane->n_gpus,
                           sl_handle_element(m->source), sl_handle_element(m->target));
        }
    }
    return SL_OK;
}

enum sl_status sl_nccl_lane_move_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane, enum sl_stage stage,
                                        uint32_t n, const struct sl_nccl_lane_move *moves)
{
    struct move_args *args = NULL;
    struct sl_task task;
    int *nodes = NULL;
    size_t bytes = sizeof *args + n * sizeof args->move[0];
    enum sl_status st;
    SL_TRY(st, check_moves(lane, n, moves), done);
    SL_TRY(st, sl_alloc(1 + 2 * (size_t)n, sizeof *nodes, "memory nodes", &nodes), done);
    SL_TRY(st, sl_alloc_zero(1, bytes, "a move", &args), done);
    args->lane = (struct nccl_lane_args){.head = *head, .nccl = lane->nccl, .n = n};
    args->lane.head.stage = sl_task_stage(head, stage);
    nodes[0] = STARPU_SPECIFIC_NODE_LOCAL;
    for (uint32_t k = 0; k < n; k++) {
        args->move[k].from = moves[k].from;
        args->move[k].to = moves[k].to;
        args->lane.head.work += bytes_of(moves[k].source);
        nodes[1 + 2 * k] = lane->node[moves[k].from];
        nodes[2 + 2 * k] = lane->node[moves[k].to];
    }
    struct starpu_codelet *codelet = codelet_for(lane, &move_cl, 1 + 2 * n, nodes);
    if (codelet == NULL) {
        st = SL_ENOMEM;
        goto done;
    }
    sl_task_begin(&task, codelet);
    sl_task_add(&task, lane->lane, STARPU_RW);
    for (uint32_t k = 0; k < n; k++) {
        sl_task_add(&task, moves[k].source, STARPU_R);
        sl_task_add(&task, moves[k].target, STARPU_W);
    }
    st = sl_task_submit(&task, args, bytes, SL_PRIORITY_COMPUTE);
done:
    sl_free(args);
    sl_free(nodes);
    return st;
}

enum sl_status sl_nccl_lane_sum_submit(const struct sl_task_args *head, struct sl_nccl_lane *lane,
                                       const starpu_data_handle_t *share, starpu_data_handle_t out)
{
    struct nccl_lane_args args = {.head = *head, .nccl = lane->nccl, .n = lane->n_gpus};
    int nodes[2 + SL_NCCL_MAX_GPUS] = {STARPU_SPECIFIC_NODE_LOCAL, lane->node[0]};
    struct sl_task task;
    for (uint32_t i = 0; i < lane->n_gpus; i++) {
        if (!same_shape(share[i], out)) {
            return sl_fail(SL_EINVAL, "sl_sum: the share of GPU %u is [%u x %u], the sum [%u x %u]", i,
                           sl_handle_rows(share[i]), sl_handle_columns(share[i]), sl_handle_rows(out),
                           sl_handle_columns(out));
        }
        nodes[2 + i] = lane->node[i];
    }
    args.head.stage = sl_task_stage(head, SL_STAGE_SYNC);
    args.head.work = (lane->n_gpus + UINT64_C(1)) * bytes_of(out);
    struct starpu_codelet *codelet = codelet_for(lane, &sum_cl, 2 + lane->n_gpus, nodes);
    if (codelet == NULL) {
        return SL_ENOMEM;
    }
    sl_task_begin(&task, codelet);
    sl_task_add(&task, lane->lane, STARPU_RW);
    sl_task_add(&task, out, STARPU_W);
    for (uint32_t i = 0; i < lane->n_gpus; i++) {
        sl_task_add(&task, share[i], STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
