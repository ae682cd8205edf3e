/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Decides which rows stay. Tokens order the segments of layers: an empty task hands a token on. A segment has at most
 * two tokens. */
#include "runtime/pipe/recompute.h"

#include <math.h>

#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "tasks/handle.h"

struct sl_layer_pass sl_pipe_layer(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    const struct sl_plan *plan = p->work.plan;
    const uint32_t *pes = p->order.chunk + (size_t)slot * p->order.n_ways;
    struct sl_layer_pass lp = sl_pass_layer(&p->pass, i);
    uint32_t first = 0;
    while (first < p->order.n_ways && !sl_plan_here(plan, pes[first])) { /* a rank has consecutive ways */
        first++;
    }
    lp.n_pes = 0;
    lp.pes = pes + first;
    while (first + lp.n_pes < p->order.n_ways && sl_plan_here(plan, lp.pes[lp.n_pes])) {
        lp.n_pes++;
    }
    return lp;
}

bool sl_pipe_aggregates(const struct sl_layer_pass *lp)
{
    return sl_layer_aggregates(lp->layer);
}

enum sl_role sl_pipe_travelling(const struct sl_layer_pass *lp)
{
    return lp->layer->training.travelling;
}

bool sl_pipe_rounds(const struct sl_layer_pass *lp)
{
    return lp->pass->shards->row_dtype != SL_DTYPE_REAL;
}

enum sl_role sl_pipe_returning(const struct sl_layer_pass *lp)
{
    return sl_pipe_rounds(lp) ? SL_ROWS_GBACK : lp->layer->training.returning;
}

/* ---- segments ---- */

/* A segment begins at the first layer of a stage, and then every ceil(sqrt(layers)) layers. */
static bool begins_segment(const struct sl_pipe *p, uint32_t i)
{
    uint32_t length = (uint32_t)ceil(sqrt(p->work.model->n_layers));
    uint32_t first = i;
    while (first > 0 && p->stage[first - 1] == p->stage[i]) {
        first--;
    }
    return (i - first) % length == 0;
}

static bool ends_segment(const struct sl_pipe *p, uint32_t i)
{
    return i + 1 == p->work.model->n_layers || begins_segment(p, i + 1);
}

static uint32_t first_of_segment(const struct sl_pipe *p, uint32_t i)
{
    while (!begins_segment(p, i)) {
        i--;
    }
    return i;
}

/* ---- rows that stay ---- */

/* Whether later slots read travelling rows in place. */
static bool read_later(const struct sl_pipe *p)
{
    return p->order.n_slots > 1 && !sl_pipe_packs(p);
}

/* Whether layer i's output stays after the next layer has run: as logits, as travelling rows that later slots read,
 * because later layers read the first layer's output again, or as the input of the next segment. */
static bool output_stays(struct sl_pipe *p, uint32_t i)
{
    if (i + 1 == p->work.model->n_layers) {
        return true;
    }
    struct sl_layer_pass next = sl_pass_layer(&p->pass, i + 1);
    bool travels = sl_pipe_aggregates(&next) && sl_pipe_travelling(&next) == SL_ROWS_INPUT && read_later(p);
    bool read_again = i == 0 && next.layer->kind->reads_first;
    return travels || read_again || ends_segment(p, i);
}

/* Whether the layer's backward pass reads its projected rows. */
static bool reads_projected(const struct sl_layer_pass *lp)
{
    return lp->layer->training.row[SL_ROWS_PROJECTED].end == SL_UNTIL_BACKWARD;
}

/* Whether rows of a role stay. Travelling rows stay for later slots. Projected rows may stay for the backward pass. */
static bool stays(struct sl_pipe *p, const struct sl_layer_pass *lp, enum sl_role role)
{
    if (sl_pipe_aggregates(lp) && role == sl_pipe_travelling(lp)) {
        return read_later(p) || (role == SL_ROWS_PROJECTED && reads_projected(lp) && !p->work.settings->recompute);
    }
    return !p->work.settings->recompute || role == SL_ROWS_GZ || (role == SL_ROWS_H && output_stays(p, lp->i));
}

/* Drop chunk q's history in a snapshot's epoch. Only earlier slots read the history, and earlier slots have run the
 * layer. The backward pass needs history only to run layers again without kept sums. */
static void drop_history(struct sl_pipe *p, const struct sl_layer_pass *lp, uint32_t q)
{
    bool read_again = p->work.settings->recompute && !sl_pipe_keeps_sums(p);
    if (sl_pipe_is_snapshot(p) && !read_again) {
        sl_rows_drop(&p->history[(size_t)lp->i * p->graph.n_chunks + q]);
    }
}

void sl_pipe_drop_layer(struct sl_pipe *p, const struct sl_layer_pass *lp)
{
    for (uint32_t way = 0; way < lp->n_pes; way++) {
        drop_history(p, lp, lp->pes[way]);
        for (int role = 0; role < SL_N_ROLES; role++) {
            if (!stays(p, lp, (enum sl_role)role)) {
                sl_rows_drop(sl_layer_pass_rows(lp, lp->pes[way], (enum sl_role)role));
            }
        }
    }
}

/* A layer has run again, so its travelling rows have been read. Its input belongs to the layer below. */
static void drop_sent(struct sl_pipe *p, const struct sl_layer_pass *lp)
{
    enum sl_role role = sl_pipe_travelling(lp);
    if (sl_pipe_aggregates(lp) && !read_later(p)) {
        for (uint32_t way = 0; way < lp->n_pes; way++) {
            if (role != SL_ROWS_INPUT && !(role == SL_ROWS_PROJECTED && reads_projected(lp))) {
                sl_rows_drop(sl_layer_pass_rows(lp, lp->pes[way], role));
            }
        }
    }
}

/* ---- tokens ---- */

/* A task without work: it waits for its data without a transfer. */
static struct starpu_codelet pass_cl = {
    .name = "sl_pass", .where = STARPU_NOWHERE, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};

/* Make later readers and writers of `to` wait until `from` has been written. */
static enum sl_status pass(starpu_data_handle_t from, starpu_data_handle_t to)
{
    int rc = starpu_task_insert(&pass_cl, STARPU_R, from, STARPU_RW, to, 0);
    if (rc == 0) {
        return SL_OK;
    }
    return sl_fail(SL_ESTARPU, "StarPU refused a task that waits: error %d", -rc);
}

/* Number of slots that may hold recomputed rows of a segment at a time. With two slots, workers find tasks of the
 * next slot while the last tasks of this one run. If further segments have enough tasks for all workers, a second
 * slot would only take memory. */
static uint32_t n_slots_at_a_time(const struct sl_pipe *p)
{
    uint32_t n_segments = 0;
    for (uint32_t i = 0; i < p->work.model->n_layers; i++) {
        n_segments += begins_segment(p, i);
    }
    return n_segments * p->order.n_ways >= 2 * p->work.run->n_workers ? 1 : 2;
}

/* The token of the segment that begins with layer i. */
static starpu_data_handle_t token_of(const struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    return p->token[i][slot % n_slots_at_a_time(p)];
}

void sl_pipe_recompute_open(struct sl_pipe *p)
{
    if (p->work.settings->recompute) {
        for (uint32_t k = 0; k < 2 * SL_MAX_MODEL_LAYERS; k++) {
            starpu_void_data_register(&p->token[k / 2][k % 2]);
        }
    }
}

void sl_pipe_recompute_close(struct sl_pipe *p)
{
    for (uint32_t k = 0; k < 2 * SL_MAX_MODEL_LAYERS; k++) {
        sl_handle_close(p->token[k / 2][k % 2]);
    }
}

/* ---- again ---- */

/* The layer of a segment that waits for the token: its first layer. The model's first layer reads the features, which
 * cannot carry a dependency, so the second layer waits instead. */
static uint32_t gate_of(const struct sl_pipe *p, uint32_t first)
{
    return first == 0 && !ends_segment(p, 0) ? 1 : first;
}

/* Let layer i of the slot wait until its segment is free. */
static enum sl_status wait_for_segment(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_layer_pass lp = sl_pipe_layer(p, i, slot);
    starpu_data_handle_t token = token_of(p, first_of_segment(p, i), slot);
    for (uint32_t way = 0; way < lp.n_pes; way++) {
        const struct sl_rows *input = sl_layer_pass_rows(&lp, lp.pes[way], SL_ROWS_INPUT);
        if (input->split.n_chunks > 0) {
            SL_CHECK(pass(token, input->chunk[0]));
        }
    }
    return SL_OK;
}

enum sl_status sl_pipe_recompute(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    enum sl_status st = SL_OK;
    if (!p->work.settings->recompute || !ends_segment(p, i)) {
        return SL_OK;
    }
    uint32_t first = first_of_segment(p, i);
    for (uint32_t k = first; k <= i; k++) {
        struct sl_layer_pass lp = sl_pipe_layer(p, k, slot);
        if (k > 0 && k == gate_of(p, first)) {
            SL_TRY(st, wait_for_segment(p, k, slot), done);
        }
        p->recomputing = true;
        SL_TRY(st, sl_layer_run(&lp), done);
        drop_sent(p, &lp);
    }
done:
    p->recomputing = false;
    return st;
}

/* Once the gradient of layer i's input exists, the segment is free for a later slot, and the segment before it is
 * free for this slot. */
enum sl_status sl_pipe_recomputed(struct sl_pipe *p, uint32_t i, uint32_t slot)
{
    struct sl_layer_pass lp = sl_pipe_layer(p, i, slot);
    uint32_t first = first_of_segment(p, i);
    if (!p->work.settings->recompute || i == 0 || i != gate_of(p, first)) {
        return SL_OK;
    }
    for (uint32_t way = 0; way < lp.n_pes; way++) {
        const struct sl_rows *gradient = sl_layer_pass_rows(&lp, lp.pes[way], SL_ROWS_GINPUT);
        if (gradient->split.n_chunks > 0) {
            SL_CHECK(pass(gradient->chunk[0], token_of(p, first, slot)));
            if (first != 0) {
                SL_CHECK(pass(gradient->chunk[0], token_of(p, first_of_segment(p, first - 1), slot)));
            }
        }
    }
    return SL_OK;
}
