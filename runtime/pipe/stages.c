/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Messages at the two ends of a crew's layers, and the gathering of weights. */
#include "runtime/pipe/stages.h"

#include <string.h>

#include "support/memory.h"
#include "tasks/ranks.h"

/* ---- the crew of a layer ---- */

bool sl_pipe_reads_first(const struct sl_model *model, uint32_t i)
{
    bool reads = false;
    if (i > 1) {
        for (uint32_t k = i; k < model->n_layers; k++) {
            reads = reads || model->layer[k].kind->reads_first;
        }
    }
    return reads;
}

static uint32_t crew_of_layer(const struct sl_pipe *p, uint32_t i)
{
    return sl_plan_crew_of_stage(p->work.plan, p->stage[i], p->work.settings->stages);
}

void sl_pipe_stages_find(struct sl_pipe *p)
{
    uint32_t n = p->work.model->n_layers;
    uint32_t crew = sl_plan_crew(p->work.plan);
    p->first_layer = 0;
    while (p->first_layer < n && crew_of_layer(p, p->first_layer) < crew) {
        p->first_layer++;
    }
    p->end_layer = p->first_layer;
    while (p->end_layer < n && crew_of_layer(p, p->end_layer) == crew) {
        p->end_layer++;
    }
}

struct sl_rank_range sl_pipe_loss_ranks(const struct sl_pipe *p)
{
    return sl_plan_crew_ranks(p->work.plan, p->work.plan->n_crews - 1);
}

/* ---- rows between crews ---- */

static struct sl_pipe *pipe_of(const struct sl_layer_pass *lp)
{
    return lp->pass->owner;
}

/* Rows that cross between layer - 1 and layer, forward or backward. */
struct crossing {
    uint32_t layer; /* the rows are in a role of this layer */
    enum sl_role role;
};

static uint32_t list_crossings(const struct sl_model *model, uint32_t layer, bool back, struct crossing out[2])
{
    out[0] = (struct crossing){layer - 1, back ? SL_ROWS_GH : SL_ROWS_H};
    out[1] = (struct crossing){0, back ? SL_ROWS_GINITIAL : SL_ROWS_H};
    return sl_pipe_reads_first(model, layer) ? 2 : 1;
}

/* The tag of a message, unique among the handles that receive in an epoch. */
static int64_t tag_of(const struct sl_pipe *p, bool back, uint32_t crossing, uint32_t q)
{
    return SL_RANKS_TAGS_OF_STAGES + ((int64_t)p->aside << 34 | (int64_t)back << 33 | (int64_t)crossing << 32 | q);
}

/* Send one chunk's rows to `peer`, or receive the rows from this rank. */
static enum sl_status cross(const struct sl_layer_pass *lp, const struct crossing *crossing, uint32_t peer, int64_t tag,
                            uint32_t q, bool gives)
{
    struct sl_layer_pass layer = sl_pass_layer(lp->pass, crossing->layer);
    struct sl_rows *rows = sl_layer_pass_rows(&layer, q, crossing->role);
    if (!gives) {
        SL_CHECK(sl_layer_pass_shape(&layer, q, crossing->role));
    }
    if (rows->split.n_chunks > 0) { /* a chunk without vertices has no rows */
        if (gives) {
            return sl_ranks_send(rows->chunk[0], peer, tag);
        } else {
            return sl_ranks_receive(rows->chunk[0], peer, tag);
        }
    }
    return SL_OK;
}

/* Exchange all rows that cross before `layer` with the crew on the other side. */
static enum sl_status cross_all(const struct sl_layer_pass *lp, uint32_t layer, bool back, bool gives)
{
    const struct sl_pipe *p = pipe_of(lp);
    uint32_t crew = sl_plan_crew(p->work.plan) + (gives == back ? -1u : 1u);
    struct crossing crossings[2];
    if (layer == 0 || layer == p->work.model->n_layers) {
        return SL_OK;
    }
    uint32_t n = list_crossings(p->work.model, layer, back, crossings);
    for (uint32_t k = 0, q = 0; sl_layer_pass_pe(lp, k, &q); k++) {
        uint32_t peer = sl_plan_rank(p->whole, crew * p->graph.n_chunks + q);
        for (uint32_t i = 0; i < n; i++) {
            SL_CHECK(cross(lp, &crossings[i], peer, tag_of(p, back, i, q), q, gives));
        }
    }
    return SL_OK;
}

enum sl_status sl_pipe_stages_receive(const struct sl_layer_pass *lp, bool back)
{
    const struct sl_pipe *p = pipe_of(lp);
    uint32_t edge = back ? p->end_layer : p->first_layer;
    if (lp->i + back == edge) {
        return cross_all(lp, edge, back, false);
    }
    return SL_OK;
}

enum sl_status sl_pipe_stages_send(const struct sl_layer_pass *lp, bool back)
{
    const struct sl_pipe *p = pipe_of(lp);
    uint32_t edge = back ? p->first_layer : p->end_layer;
    if (lp->i + !back == edge) {
        return cross_all(lp, edge, back, true);
    }
    return SL_OK;
}

void sl_pipe_stages_done(const struct sl_layer_pass *lp)
{
    const struct sl_pipe *p = pipe_of(lp);
    uint32_t n = p->work.model->n_layers;
    struct sl_layer_pass initial = sl_pass_layer(lp->pass, 0);
    struct sl_layer_pass before = sl_pass_layer(lp->pass, p->first_layer > 0 ? p->first_layer - 1 : 0);
    struct sl_layer_pass last = sl_pass_layer(lp->pass, p->end_layer - 1);
    for (uint32_t k = 0, q = 0; sl_layer_pass_pe(lp, k, &q); k++) {
        if (p->first_layer > 0) {
            sl_layer_pass_done(&before, q, SL_ROWS_GH);
        }
        if (p->first_layer > 0 && sl_pipe_reads_first(p->work.model, p->first_layer)) {
            sl_layer_pass_done(&initial, q, SL_ROWS_H);
        }
        if (p->first_layer > 0) {
            sl_layer_pass_done(&initial, q, SL_ROWS_GINITIAL);
        }
        if (p->end_layer < n) {
            sl_layer_pass_done(&last, q, SL_ROWS_H);
        }
    }
}

/* ---- weights ---- */

/* The shared arrays of a parameter: its values, and for a checkpoint its moments. */
static uint32_t arrays_of(const struct sl_parameter *parameter, bool checkpoint, sl_real *out[3])
{
    out[0] = parameter->value;
    out[1] = parameter->moment1;
    out[2] = parameter->moment2;
    return checkpoint ? 3 : 1;
}

/* Copy the trained parameters of layers first .. end - 1 from (`in`) or to `values`. NULL: only count. Returns the
 * number of values. */
static size_t copy(const struct sl_model *model, uint32_t first, uint32_t end, bool checkpoint, bool in,
                   sl_real *values)
{
    size_t n = 0;
    for (uint32_t k = first * SL_MAX_PARAMETERS; k < end * SL_MAX_PARAMETERS; k++) {
        const struct sl_parameter *parameter = &model->layer[k / SL_MAX_PARAMETERS].parameter[k % SL_MAX_PARAMETERS];
        size_t size = (size_t)parameter->n_rows * parameter->n_columns;
        sl_real *array[3];
        uint32_t n_arrays = sl_parameter_trained(parameter) ? arrays_of(parameter, checkpoint, array) : 0;
        for (uint32_t a = 0; a < n_arrays; a++, n += size) {
            if (values != NULL) {
                sl_real *to = in ? array[a] : values + n;
                const sl_real *from = in ? values + n : array[a];
                memcpy(to, from, size * sizeof *values);
            }
        }
    }
    return n;
}

enum sl_status sl_pipe_stages_share(struct sl_pipe *p, bool checkpoint)
{
    struct sl_model *model = p->work.model;
    uint32_t rank = p->work.plan->rank;
    size_t n = copy(model, 0, model->n_layers, checkpoint, false, NULL);
    size_t n_mine = 0;
    SL_FREED sl_real *mine = NULL;
    SL_FREED sl_real *all = NULL;
    if (p->work.plan->n_crews == 1) {
        return SL_OK;
    }
    /* the first rank of a crew contributes the crew's layers */
    if (rank == sl_plan_crew_ranks(p->work.plan, sl_plan_crew(p->work.plan)).begin) {
        n_mine = copy(model, p->first_layer, p->end_layer, checkpoint, false, NULL);
    }
    SL_CHECK(sl_alloc(n_mine + 1, sizeof *mine, "weights of the stages", &mine));
    SL_CHECK(sl_alloc(n + 1, sizeof *all, "weights of all stages", &all));
    SL_CHECK(sl_model_acquire(model, STARPU_RW));
    if (n_mine > 0) {
        copy(model, p->first_layer, p->end_layer, checkpoint, false, mine);
    }
    enum sl_status st = sl_ranks_gather(mine, n_mine * sizeof *mine, all);
    if (st == SL_OK && !checkpoint) {
        st = sl_ranks_broadcast(all, n * sizeof *all);
    }
    if (st == SL_OK && (rank == 0 || !checkpoint)) {
        copy(model, 0, model->n_layers, checkpoint, true, all);
    }
    sl_model_release(model);
    return st;
}
