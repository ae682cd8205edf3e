/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Datasets in memory, written as files. */
#ifndef SL_TESTS_WRITTEN_FIXTURE_H
#define SL_TESTS_WRITTEN_FIXTURE_H

#include "tests/support/data_fixture.h" /* first: it chooses features of the C library */

#include "data/dataset.h"
#include "data/raw.h"

/* Write a dataset in OGB's layout. Without `directed`, one edge of each pair of opposite edges is written; both are, if
 * their weights differ. */
__attribute__((unused)) static enum sl_status write_dataset(const struct sl_dataset *dataset, bool directed,
                                                            const char *path)
{
    const struct sl_graph *graph = &dataset->graph;
    const float *weights = graph->weights;
    struct sl_raw raw = {.n_vertices = graph->n_vertices,
                         .data = {.features = dataset->features,
                                  .targets = dataset->targets,
                                  .train = dataset->train,
                                  .valid = dataset->valid,
                                  .test = dataset->test}};
    bool once = !directed;
    float *listed = NULL;
    enum sl_status st = SL_OK;
    memcpy(raw.data.split, dataset->split, sizeof raw.data.split);
    if (once && weights != NULL) {
        SL_TRY(st, sl_graph_is_symmetric(graph, &once), done);
    }
    SL_TRY(st, sl_graph_list_edges(graph, once, &raw.n_edges, &raw.from, &raw.to), done);
    if (weights != NULL) {
        SL_TRY(st, sl_alloc(graph->n_edges, sizeof *listed, "edge weights", &listed), free_edges);
        raw.weights = listed;
    }
    for (uint32_t v = 0; weights != NULL && v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (!once || v <= graph->sources[e]) {
                *listed++ = weights[e];
            }
        }
    }
    st = sl_raw_write(&raw, path);
    sl_free(raw.weights);
free_edges:
    sl_free(raw.from);
    sl_free(raw.to);
done:
    return st;
}

#endif
