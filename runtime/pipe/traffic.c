/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Counts over the graph's edges and the layers. */

#include "runtime/pipe/stages.h"
#include "support/memory.h"
#include "tasks/ranks.h"

uint32_t sl_pipe_way(const struct sl_pipe *pipe, uint32_t q)
{
    return sl_spread(q, pipe->graph.n_chunks, pipe->work.settings->ways);
}

/* Count the vertices of other ways in the lists of chunk q, each once per way. wanted [vertex][way]: counted before. */
static uint64_t count_chunk(const struct sl_pipe *p, const struct sl_graph *graph, const uint16_t *part_of, uint32_t q,
                            bool *wanted)
{
    const struct sl_shard *part = &p->work.shards->part[q];
    uint32_t way = sl_pipe_way(p, q);
    uint64_t n = 0;
    for (uint64_t e = graph->offsets[part->first]; e < graph->offsets[part->end]; e++) {
        uint32_t u = graph->sources[e];
        bool *here = &wanted[(size_t)u * p->work.settings->ways + way];
        n += !*here && sl_pipe_way(p, part_of[u]) != way;
        *here = true;
    }
    return n;
}

/* Count over the lists of all ranks. Only the first crew counts, since each crew has all ways. */
static enum sl_status count_mirrors(const struct sl_pipe *p, const struct sl_graph *graph,
                                    const struct sl_pipe_side *side, uint64_t *out)
{
    const struct sl_plan *plan = p->work.plan;
    const uint16_t *part_of = side->part_of != NULL ? side->part_of : p->graph.in.part_of;
    size_t n_vertices = side->first_of[p->graph.n_chunks]; /* numbers in lists are below this */
    double n = 0;
    bool *wanted;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_alloc_zero(n_vertices * p->work.settings->ways + 1, sizeof *wanted, "boundaries of ways", &wanted));
    if (plan->first_crew == 0) {
        for (uint32_t q = plan->first_pe; q < plan->end_pe; q++) {
            n += (double)count_chunk(p, graph, part_of, q, wanted);
        }
    }
    sl_free(wanted);
    SL_CHECK(sl_ranks_sum(1, &n));
    st = sl_ranks_broadcast(&n, sizeof n);
    *out = (uint64_t)n;
    return st;
}

/* Bytes of a row of a layer's output, forward, and of its gradient, backward. */
static uint64_t crossing_bytes_of(const struct sl_layer *layer)
{
    return layer->n_out * (sl_dtype_size(layer->training.row[SL_ROWS_H].dtype) + sizeof(sl_real));
}

/* Bytes per vertex into the stage that begins with layer i, and back. 0 if no stage begins there. */
static uint64_t crossing_bytes(const struct sl_pipe *p, uint32_t i)
{
    const struct sl_model *model = p->work.model;
    uint64_t bytes = 0;
    if (i > 0 && p->stage[i] != p->stage[i - 1]) {
        bytes += crossing_bytes_of(&model->layer[i - 1]);
        if (sl_pipe_reads_first(model, i)) {
            bytes += crossing_bytes_of(&model->layer[0]);
        }
    }
    return bytes;
}

enum sl_status sl_pipe_count(const struct sl_pipe *p, struct sl_pipe_traffic *out)
{
    const struct sl_model *model = p->work.model;
    uint64_t stage_bytes = 0;
    uint64_t way_columns = 0;
    *out = (struct sl_pipe_traffic){0};
    SL_CHECK(count_mirrors(p, &p->graph.numbered, &p->graph.in, &out->mirrors));
    out->mirrors_back = out->mirrors;
    if (p->graph.transposed.offsets != NULL) {
        SL_CHECK(count_mirrors(p, &p->graph.transposed, &p->graph.out, &out->mirrors_back));
    }
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        stage_bytes += crossing_bytes(p, i);
        if (layer->from != layer->level) {
            way_columns += layer->training.travels;
        }
    }
    out->stages = stage_bytes * p->work.shards->n_vertices;
    out->rows = sl_dtype_bytes(p->work.shards->row_dtype, way_columns * out->mirrors);
    out->row_gradients = sl_dtype_bytes(p->work.shards->row_dtype, way_columns * out->mirrors_back);
    out->weights = 2 * (uint64_t)(p->work.settings->ways - 1) * sl_model_trained_bytes(model);
    return SL_OK;
}
