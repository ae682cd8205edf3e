/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The moves of each group, and the sums of each parameter. */
#include "runtime/exchange/crossing.h"

#include "codelets/reduce.h"
#include "runtime/plan/plan.h"
#include "support/memory.h"

static uint32_t gpu_of(const struct sl_steps *s, uint32_t p)
{
    return sl_transport_gpu(s->run->transport, p, s->n_pes);
}

/* ---- open, close ---- */

enum sl_status sl_crossing_open(struct sl_steps *s)
{
    struct sl_crossing *c = &s->crossing;
    const struct sl_transport *transport = s->run->transport;
    uint32_t n_parts = s->shards->n_parts;
    enum sl_status st = SL_OK;
    c->n_sums = 1;
    if (transport == NULL) {
        return SL_OK;
    }
    SL_TRY(st, sl_alloc((size_t)n_parts * n_parts, sizeof *c->moves, "moves between GPUs", &c->moves), done);
    if (s->n_replicas == 1) {
        c->n_sums = transport->n_gpus;
        st = sl_alloc_zero((size_t)s->model->n_layers * SL_N_PARAMETERS * c->n_sums, sizeof *c->share,
                           "sums of each GPU", &c->share);
    }
done:
    return st;
}

void sl_crossing_close(struct sl_steps *s)
{
    struct sl_crossing *c = &s->crossing;
    for (uint32_t k = 0; c->share != NULL && k < s->model->n_layers * SL_N_PARAMETERS * c->n_sums; k++) {
        sl_handle_close(c->share[k]);
    }
    sl_free(c->share);
    sl_free(c->moves);
    *c = (struct sl_crossing){0};
}

/* ---- rows ---- */

/* The slot's handle for what PE p gets from owner q of its group, or (back) what owner q gets back from p. */
static starpu_data_handle_t *kept_arrived(const struct sl_steps *s, uint64_t step, uint32_t hop, bool back, uint32_t p,
                                          uint32_t q)
{
    struct sl_slot_pe *pe = sl_step_slot(s, step, p);
    return &(back ? pe->returned : pe->arrived)[hop * s->shards->n_parts + q];
}

/* What PE p exchanges with owner q, to be replaced by what has arrived, if it is there and leaves its GPU: one more move. */
static enum sl_status add_move(struct sl_steps *s, uint64_t step, uint32_t hop, bool back, uint32_t p, uint32_t q,
                               uint32_t *n)
{
    starpu_data_handle_t *packed = back ? &s->pe[p].sent[q] : &s->pe[p].packed[q];
    starpu_data_handle_t *arrived = kept_arrived(s, step, hop, back, p, q);
    uint32_t here = gpu_of(s, p);
    uint32_t there = gpu_of(s, sl_step_peer(s, p, q));
    enum sl_status st = SL_OK;
    if (*packed == NULL || here == there) {
        return SL_OK;
    }
    SL_TRY(st, sl_matrix_reshape(sl_handle_rows(*packed), sl_handle_columns(*packed), sizeof(sl_real), arrived), done);
    s->crossing.moves[(*n)++] = (struct sl_transport_move){back ? here : there, back ? there : here, *packed, *arrived};
    *packed = *arrived;
done:
    return st;
}

static enum sl_status group_rows(struct sl_steps *s, uint64_t step, uint32_t hop, bool back, uint32_t first_pe)
{
    uint32_t n_parts = s->shards->n_parts;
    uint32_t n = 0;
    struct sl_task_args head = sl_step_head(s, step, first_pe, hop);
    enum sl_status st = SL_OK;
    for (uint32_t p = first_pe; p < first_pe + n_parts; p++) {
        for (uint32_t q = 0; q < n_parts; q++) {
            SL_TRY(st, add_move(s, step, hop, back, p, q, &n), done);
        }
    }
    if (n > 0) {
        st = sl_transport_move_submit(&head, s->run->transport, back ? SL_STAGE_BACKWARD : SL_STAGE_EXCHANGE, n,
                                      s->crossing.moves);
    }
done:
    return st;
}

enum sl_status sl_crossing_rows(struct sl_steps *s, uint64_t step, uint32_t hop, bool back)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && s->run->transport != NULL && p < s->n_pes; p += s->shards->n_parts) {
        st = group_rows(s, step, hop, back, p);
    }
    return st;
}

starpu_data_handle_t sl_crossing_arrived(const struct sl_steps *s, uint64_t step, uint32_t hop, uint32_t p, uint32_t q)
{
    bool moved = s->run->transport != NULL && gpu_of(s, p) != gpu_of(s, sl_step_peer(s, p, q));
    return moved ? *kept_arrived(s, step, hop, false, p, q) : NULL;
}

void sl_crossing_keep(struct sl_steps *s, uint64_t step, uint32_t hop, bool back)
{
    for (uint32_t p = 0; s->run->transport != NULL && p < s->n_pes; p++) {
        for (uint32_t q = 0; q < s->shards->n_parts; q++) {
            sl_matrix_keep(kept_arrived(s, step, hop, back, p, q));
        }
    }
}

/* ---- gradients ---- */

uint32_t sl_crossing_sum_of(const struct sl_steps *s, uint32_t p)
{
    return s->crossing.n_sums == 1 ? 0 : gpu_of(s, p);
}

enum sl_status sl_crossing_gradient(struct sl_steps *s, uint64_t step, uint32_t i, int k)
{
    const struct sl_crossing *c = &s->crossing;
    const struct sl_parameter *parameter = &s->model->layer[i].parameter[k];
    starpu_data_handle_t *share = c->share + ((size_t)i * SL_N_PARAMETERS + (uint32_t)k) * c->n_sums;
    struct sl_task_args head = sl_step_head(s, step, 0, 0);
    enum sl_status st = SL_OK;
    for (uint32_t gpu = 0; gpu < c->n_sums; gpu++) {
        const struct sl_partials *partials = sl_step_partials(s, i, 0, gpu, k);
        struct sl_task_args at_home = sl_step_head(s, step, sl_transport_pe(s->run->transport, gpu, s->n_pes), 0);
        if (share[gpu] == NULL) {
            SL_TRY(st, sl_matrix_register(parameter->n_rows, parameter->n_columns, sizeof(sl_real), &share[gpu]), done);
        }
        SL_TRY(st, sl_reduce_submit(&at_home, partials->n, partials->handle, share[gpu]), done);
    }
    st = sl_transport_sum_submit(&head, s->run->transport, share, parameter->gradient_handle);
done:
    return st;
}
