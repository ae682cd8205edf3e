/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counts over the graph's edges and the layers. */
#include "runtime/pipe/traffic.h"

#include "support/memory.h"

uint32_t sl_pipe_way(const struct sl_pipe *pipe, uint32_t q)
{
    return sl_spread(q, pipe->graph.n_chunks, pipe->work.settings->ways);
}

static enum sl_status count_mirrors(const struct sl_pipe *p, uint64_t *out)
{
    const struct sl_graph *graph = &p->work.shards->partition->graph;
    uint32_t n_ways = p->work.settings->ways;
    uint64_t n = 0;
    bool *wanted; /* [vertex][way] */
    enum sl_status st =
        sl_alloc_zero((size_t)graph->n_vertices * n_ways + 1, sizeof *wanted, "boundaries of ways", &wanted);
    for (uint32_t v = 0; st == SL_OK && v < graph->n_vertices; v++) {
        uint32_t way = sl_pipe_way(p, p->graph.part_of[v]);
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            uint32_t u = graph->sources[e];
            bool *here = &wanted[(size_t)u * n_ways + way];
            n += !*here && sl_pipe_way(p, p->graph.part_of[u]) != way;
            *here = true;
        }
    }
    if (st == SL_OK) {
        sl_free(wanted);
        *out = n;
    }
    return st;
}

/* Columns that cross into the stage that layer i begins, if it does. */
static uint64_t crossing_columns(const struct sl_pipe *p, uint32_t i)
{
    const struct sl_model *model = p->work.model;
    bool begins = i > 0 && p->stage[i] != p->stage[i - 1];
    bool again = false; /* whether that stage, or one behind it, reads the first layer's output */
    for (uint32_t k = i; k < model->n_layers; k++) {
        again = again || (model->layer[k].kind->reads_first && i > 1);
    }
    return begins ? model->layer[i].n_in + (again ? model->layer[0].n_out : 0) : 0;
}

enum sl_status sl_pipe_count(const struct sl_pipe *p, struct sl_pipe_traffic *out)
{
    const struct sl_model *model = p->work.model;
    uint64_t stage_columns = 0;
    uint64_t way_columns = 0;
    enum sl_status st;
    *out = (struct sl_pipe_traffic){0};
    SL_TRY(st, count_mirrors(p, &out->mirrors), done);
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        stage_columns += crossing_columns(p, i);
        way_columns += layer->from != layer->level ? layer->training.travels : 0;
    }
    out->stages = 2 * sizeof(sl_real) * stage_columns * p->work.shards->n_vertices;
    out->rows = out->row_gradients = sizeof(sl_real) * way_columns * out->mirrors;
    out->weights = 2 * (uint64_t)(p->work.settings->ways - 1) * sl_model_trained_bytes(model);
done:
    return st;
}
