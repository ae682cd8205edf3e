/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Epochs as steps, and history in checkpoints. */
#include "runtime/pipe/schedule.h"

#include <stdio.h>
#include <string.h>

#include "runtime/pipe/epoch.h"
#include "support/memory.h"

/* What the schedule owns. */
struct pipeline {
    struct sl_pipe pipe;
    sl_real *saved[SL_MAX_MODEL_LAYERS]; /* of a checkpoint: a layer's history, by renumbered id */
};

/* ---- steps ---- */

static enum sl_status advance(void *own, uint64_t step, const struct sl_adam *adam, starpu_data_handle_t loss)
{
    struct sl_pipe *p = &((struct pipeline *)own)->pipe;
    const struct sl_settings *s = p->work.settings;
    enum sl_status st;
    sl_pipe_order_draw(&p->order, s->chunk_order == SL_CHUNK_ORDER_SHUFFLE, s->seed, step);
    SL_TRY(st, sl_pipe_epoch(p, step, adam, loss), done);
    st = sl_failure_status(&p->work.run->failure);
done:
    return st;
}

static uint32_t in_flight(const void *own)
{
    (void)own;
    return 1;
}

/* Every vertex and every edge in each layer. */
static enum sl_status tally(void *own, struct sl_metrics_epoch *out)
{
    const struct sl_pipe *p = &((const struct pipeline *)own)->pipe;
    for (uint32_t l = 0; l <= p->work.settings->layers; l++) {
        out->vertices[l] = p->work.shards->n_vertices;
    }
    for (uint32_t l = 0; l < p->work.settings->layers; l++) {
        out->edges[l] = p->work.shards->partition->graph.n_edges;
    }
    return SL_OK;
}

static void turn(void *own)
{
    (void)own; /* counts are of the graph */
}

/* ---- checkpoints ---- */

static struct sl_rows *history_of(struct sl_pipe *p, uint32_t i, uint32_t q)
{
    return &p->history[(size_t)i * p->graph.n_chunks + q];
}

/* Columns of layer i's history. */
static uint32_t width_of(const struct sl_pipe *p, uint32_t i)
{
    return p->work.model->layer[i].travels;
}

static void name_history(uint32_t i, char *out, size_t bytes)
{
    snprintf(out, bytes, "history.%u", i);
}

static enum sl_status copy_out(struct sl_pipe *p, uint32_t i, sl_real *out)
{
    for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
        const struct sl_rows *rows = history_of(p, i, q);
        if (rows->split.n_chunks == 0) {
            continue;
        }
        if (starpu_data_acquire(rows->chunk[0], STARPU_R) != 0) {
            return sl_fail(SL_ESTARPU, "StarPU refused to hand out the history of layer %u", i);
        }
        memcpy(out + (size_t)p->work.shards->part[q].first * rows->n_columns, starpu_data_get_local_ptr(rows->chunk[0]),
               (size_t)rows->split.n_rows * rows->n_columns * sizeof *out);
        starpu_data_release(rows->chunk[0]);
    }
    return SL_OK;
}

static enum sl_status copy_in(struct sl_pipe *p, uint32_t i, const sl_real *from)
{
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
        struct sl_rows *rows = history_of(p, i, q);
        SL_TRY(st, sl_rows_reshape(&p->pass.pe[q].split[0], width_of(p, i), sizeof *from, rows), done);
        if (rows->split.n_chunks == 0) {
            continue;
        }
        if (starpu_data_acquire(rows->chunk[0], STARPU_W) != 0) {
            return sl_fail(SL_ESTARPU, "StarPU refused to take the history of layer %u", i);
        }
        memcpy(starpu_data_get_local_ptr(rows->chunk[0]),
               from + (size_t)p->work.shards->part[q].first * rows->n_columns,
               (size_t)rows->split.n_rows * rows->n_columns * sizeof *from);
        starpu_data_release(rows->chunk[0]);
    }
done:
    return st;
}

/* Whether layer i has a history by now. */
static bool has_history(struct sl_pipe *p, uint32_t i)
{
    for (uint32_t q = 0; q < p->graph.n_chunks; q++) {
        if (history_of(p, i, q)->split.n_chunks > 0) {
            return true;
        }
    }
    return false;
}

static void forget_saved(struct pipeline *l)
{
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        sl_free(l->saved[i]);
        l->saved[i] = NULL;
    }
}

static enum sl_status save(void *own, struct sl_tensor *tensors, uint32_t *n)
{
    struct pipeline *l = own;
    struct sl_pipe *p = &l->pipe;
    uint32_t n_rows = p->work.shards->n_vertices;
    enum sl_status st = SL_OK;
    forget_saved(l);
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        char name[32];
        if (!has_history(p, i)) {
            continue;
        }
        SL_TRY(st, sl_alloc_zero((size_t)n_rows * width_of(p, i), sizeof *l->saved[i], "history", &l->saved[i]), done);
        SL_TRY(st, copy_out(p, i, l->saved[i]), done);
        name_history(i, name, sizeof name);
        tensors[(*n)++] = sl_tensor_make(name, SL_TENSOR_REAL, n_rows, width_of(p, i), l->saved[i]);
    }
done:
    return st;
}

static enum sl_status load(void *own, const struct sl_tensors *checkpoint)
{
    struct sl_pipe *p = &((struct pipeline *)own)->pipe;
    uint32_t n_rows = p->work.shards->n_vertices;
    sl_real *values = NULL;
    enum sl_status st = SL_OK;
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        char name[32];
        name_history(i, name, sizeof name);
        if (sl_tensors_find(checkpoint, name) == NULL) {
            continue;
        }
        struct sl_tensor wanted = sl_tensor_make(name, SL_TENSOR_REAL, n_rows, width_of(p, i), NULL);
        SL_TRY(st, sl_alloc((size_t)n_rows * width_of(p, i), sizeof *values, "history", &values), done);
        SL_TRY(st, sl_tensors_get(checkpoint, &wanted, values), done);
        SL_TRY(st, copy_in(p, i, values), done);
        sl_free(values);
        values = NULL;
    }
done:
    sl_free(values);
    return st;
}

/* ---- open, close ---- */

static enum sl_status open_pipeline(const struct sl_work *work, uint64_t first_step, struct sl_schedule *out)
{
    struct pipeline *l;
    enum sl_status st;
    (void)first_step; /* its history comes from the checkpoint */
    SL_TRY(st, sl_alloc_zero(1, sizeof *l, "the pipeline", &l), done);
    *out = (struct sl_schedule){.kind = &sl_pipeline, .own = l};
    st = sl_pipe_open(work, &l->pipe);
done:
    return st;
}

static void close_pipeline(void *own)
{
    struct pipeline *l = own;
    forget_saved(l);
    sl_pipe_close(&l->pipe);
    sl_free(l);
}

static void describe(const void *own, FILE *stream)
{
    const struct sl_pipe *p = &((const struct pipeline *)own)->pipe;
    const struct sl_settings *s = p->work.settings;
    const struct sl_partition *partition = p->work.shards->partition;
    uint64_t n_edges = partition->graph.n_edges;
    fprintf(stream, "pipeline  %u stages, %u ways, %u chunks in %u slots, %s order, cross-edge ratio %.3f\n", s->stages,
            s->ways, p->order.n_chunks, p->order.n_slots,
            s->chunk_order == SL_CHUNK_ORDER_SHUFFLE ? "shuffled" : "fixed",
            n_edges > 0 ? (double)partition->n_cut / (double)n_edges : 0);
    if (p->order.n_slots == 1) {
        fprintf(stream, "exact     one slot: all rows are of the epoch itself\n");
    }
}

const struct sl_schedule_kind sl_pipeline = {.name = "pipeline",
                                             .open = open_pipeline,
                                             .close = close_pipeline,
                                             .advance = advance,
                                             .in_flight = in_flight,
                                             .tally = tally,
                                             .turn = turn,
                                             .save = save,
                                             .load = load,
                                             .describe = describe};
