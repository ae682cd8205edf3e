/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which rows stay; tokens, two to a stage, that tasks without work pass on. */
#include "runtime/pipe/recompute.h"

#include "codelets/handle.h"
#include "runtime/model/run.h"

struct sl_at sl_pipe_at(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_at at = sl_pass_at(&p->pass, i);
    at.n_pes = p->order.n_ways;
    at.pes = p->order.chunk + (size_t)slot * p->order.n_ways;
    return at;
}

bool sl_pipe_aggregates(const struct sl_at *at)
{
    return at->layer->from != at->layer->level;
}

enum sl_role sl_pipe_travelling(const struct sl_at *at)
{
    enum sl_role input = at->layer->activates_input ? SL_ROWS_BEFORE : SL_ROWS_INPUT;
    return at->layer->project_first ? SL_ROWS_PROJECTED : input;
}

/* ---- what stays ---- */

static bool begins_stage(const struct sl_pipe *p, uint32_t i)
{
    return i == 0 || p->stage[i - 1] != p->stage[i];
}

static bool ends_stage(const struct sl_pipe *p, uint32_t i)
{
    return i + 1 == p->work.model->n_layers || begins_stage(p, i + 1);
}

/* Whether later layers, or the way back, read layer i's output as it was: the input of a stage or of an aggregation, or of all layers. */
static bool output_stays(struct sl_pipe *p, uint32_t i)
{
    if (i + 1 == p->work.model->n_layers) {
        return true;
    }
    struct sl_at next = sl_pass_at(&p->pass, i + 1);
    bool travels = sl_pipe_aggregates(&next) && sl_pipe_travelling(&next) == SL_ROWS_INPUT;
    bool read_again = i == 0 && next.layer->kind->reads_first;
    return travels || read_again || ends_stage(p, i);
}

void sl_pipe_forget(struct sl_pipe *p, const struct sl_at *at)
{
    for (uint32_t way = 0; p->work.settings->recompute && way < at->n_pes; way++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            bool travels = sl_pipe_aggregates(at) && (enum sl_role)role == sl_pipe_travelling(at);
            bool stays = travels || role == SL_ROWS_GZ || (role == SL_ROWS_H && output_stays(p, at->i));
            if (!stays) {
                sl_at_done(at, at->pes[way], (enum sl_role)role);
            }
        }
    }
}

/* ---- tokens ---- */

/* A task that does nothing but wait for its data: the rows it names are fetched nowhere. */
static struct starpu_codelet pass_cl = {
    .name = "sl_pass", .where = STARPU_NOWHERE, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};

static enum sl_status pass(starpu_data_handle_t from, starpu_data_handle_t to)
{
    int rc = starpu_task_insert(&pass_cl, STARPU_R, from, STARPU_RW, to, 0);
    return rc == 0 ? SL_OK : sl_fail(SL_ESTARPU, "StarPU refused a task that waits: error %d", -rc);
}

static starpu_data_handle_t *token_of(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    return &p->token[p->stage[i]][slot % 2];
}

void sl_pipe_recompute_open(struct sl_pipe *p)
{
    for (uint32_t k = 0; p->work.settings->recompute && k < 2 * SL_MAX_MODEL_LAYERS; k++) {
        starpu_void_data_register(&p->token[k / 2][k % 2]);
    }
}

void sl_pipe_recompute_close(struct sl_pipe *p)
{
    for (uint32_t k = 0; k < 2 * SL_MAX_MODEL_LAYERS; k++) {
        sl_handle_close(p->token[k / 2][k % 2]);
    }
}

/* ---- again ---- */

/* Whether a stage waits before layer i, and is free once that one's adjoint has given the gradient of its input: the stage's first, but the
 * features are nobody's to wait for. */
static bool is_gate(const struct sl_pipe *p, uint32_t i)
{
    return i > 0 && (begins_stage(p, i) || (i == 1 && p->stage[0] == p->stage[1]));
}

/* Layer i of the slot goes on once the stage is free. */
static enum sl_status wait_for_stage(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_at at = sl_pipe_at(p, i, slot);
    enum sl_status st = SL_OK;
    for (uint32_t way = 0; st == SL_OK && way < at.n_pes; way++) {
        const struct sl_rows *input = sl_at_rows(&at, at.pes[way], SL_ROWS_INPUT);
        if (input->split.n_chunks > 0) {
            st = pass(*token_of(p, i, slot), input->chunk[0]);
        }
    }
    return st;
}

enum sl_status sl_pipe_recompute(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    uint32_t first = i;
    enum sl_status st = SL_OK;
    if (!p->work.settings->recompute || !ends_stage(p, i)) {
        return SL_OK;
    }
    while (!begins_stage(p, first)) {
        first--;
    }
    for (uint32_t k = first; k <= i; k++) {
        struct sl_at at = sl_pipe_at(p, k, slot);
        SL_TRY(st, is_gate(p, k) ? wait_for_stage(p, k, slot) : SL_OK, done);
        SL_TRY(st, sl_layer_run(&at), done);
    }
done:
    return st;
}

enum sl_status sl_pipe_recomputed(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_at at = sl_pipe_at(p, i, slot);
    enum sl_status st = SL_OK;
    for (uint32_t way = 0; p->work.settings->recompute && is_gate(p, i) && st == SL_OK && way < at.n_pes; way++) {
        const struct sl_rows *gradient = sl_at_input_gradient(&at, at.pes[way]);
        if (gradient->split.n_chunks > 0) {
            st = pass(gradient->chunk[0], *token_of(p, i, slot));
        }
    }
    return st;
}
