/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distributes layers over stages by dynamic programming, from measured seconds of the layers. */

#include <math.h>
#include <string.h>

#include "runtime/machine/pool.h"
#include "runtime/model/kinds.h"
#include "runtime/pipe/epoch.h"
#include "runtime/pipe/stages.h"
#include "support/memory.h"
#include "tasks/ranks.h"

/* ---- the best distribution ---- */

/* A distribution of the first layers over the first stages: seconds of the slowest stage, sum of squares over the
 * stages. */
struct way {
    double slowest, squares;
    uint32_t first; /* first layer of the last stage */
};

static bool is_better(const struct way *a, const struct way *b)
{
    return a->slowest < b->slowest || (a->slowest == b->slowest && a->squares < b->squares);
}

enum sl_status sl_pipe_deal(uint32_t n, const double *seconds, uint32_t n_stages, uint32_t *stage_out)
{
    static const struct way none = {INFINITY, INFINITY, 0};
    const size_t n_ways = n + 1; /* of s stages: best[s * n_ways + layers] */
    struct way *best;
    SL_CHECK(sl_alloc((n_stages + 1) * n_ways, sizeof *best, "distributions of layers over stages", &best));
    for (size_t i = 0; i < (n_stages + 1) * n_ways; i++) {
        best[i] = none;
    }
    best[0] = (struct way){0, 0, 0};
    for (uint32_t s = 1; s <= n_stages; s++) {
        for (uint32_t end = s; end <= n; end++) {
            double sum = 0;
            for (uint32_t first = end; first-- > 0;) {
                const struct way *before = &best[(s - 1) * n_ways + first];
                sum += seconds[first];
                struct way here = {fmax(before->slowest, sum), before->squares + sum * sum, first};
                if (is_better(&here, &best[s * n_ways + end])) {
                    best[s * n_ways + end] = here;
                }
            }
        }
    }
    for (uint32_t s = n_stages, end = n; s > 0; s--) {
        uint32_t first = best[s * n_ways + end].first;
        for (uint32_t i = first; i < end; i++) {
            stage_out[i] = s - 1;
        }
        end = first;
    }
    sl_free(best);
    return SL_OK;
}

/* ---- seconds ---- */

static bool are_alike(const struct sl_layer *a, const struct sl_layer *b)
{
    return a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out &&
           a->training.project_first == b->training.project_first && a->activates_input == b->activates_input &&
           a->hidden == b->hidden;
}

/* Give alike layers their mean. */
static void average(const struct sl_model *model, double *seconds)
{
    double mean[SL_MAX_MODEL_LAYERS];
    for (uint32_t i = 0; i < model->n_layers; i++) {
        double sum = 0;
        double n = 0;
        for (uint32_t k = 0; k < model->n_layers; k++) {
            if (are_alike(&model->layer[i], &model->layer[k])) {
                sum += seconds[k];
                n++;
            }
        }
        mean[i] = sum / n;
    }
    memcpy(seconds, mean, model->n_layers * sizeof *mean);
}

/* ---- stages ---- */

/* Stages as --stages-cut says. */
static void cut(const struct sl_settings *s, const struct sl_model *model, uint32_t *stage_out)
{
    uint32_t before = sl_model_first(s) != NULL; /* --stages-cut does not count this layer */
    for (uint32_t i = 0; i < model->n_layers; i++) {
        stage_out[i] = 0;
        for (uint32_t k = 0; k < s->n_stages_cut; k++) {
            stage_out[i] += i >= before + s->stages_cut[k];
        }
    }
}

/* Rank 0 measures for all ranks. */
static enum sl_status measure(struct sl_pipe *p)
{
    double seconds[SL_MAX_MODEL_LAYERS] = {0};
    if (p->plan.rank == 0) {
        SL_CHECK(sl_pipe_time(p, seconds));
        SL_CHECK(sl_pipe_time(p, seconds)); /* the first run also allocates memory, so measure again */
        sl_pool_release();                  /* training needs other blocks than these runs */
        average(p->work.model, seconds);
        SL_CHECK(sl_pipe_deal(p->work.model->n_layers, seconds, p->work.settings->stages, p->stage));
    }
    return sl_ranks_broadcast(p->stage, sizeof p->stage);
}

enum sl_status sl_pipe_deal_layers(struct sl_pipe *p)
{
    const struct sl_settings *s = p->work.settings;
    enum sl_status st = SL_OK;
    if (s->n_stages_cut > 0 || s->stages == 1) {
        cut(s, p->work.model, p->stage);
    } else {
        st = measure(p);
    }
    sl_pipe_stages_find(p);
    return st;
}
