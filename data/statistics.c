/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Figures that describe a dataset. */
#include "data/statistics.h"

#include "data/features.h"
#include "support/memory.h"
#include "support/minmax.h"

static void count_edges(const struct sl_dataset *dataset, struct sl_statistics *out)
{
    const struct sl_graph *graph = &dataset->graph;
    bool classes = dataset->targets.type == SL_TARGET_CLASS;
    const int32_t *class_of = dataset->targets.classes;
    uint64_t n_known = 0;
    uint64_t n_agree = 0;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        uint64_t degree = graph->offsets[v + 1] - graph->offsets[v];
        uint64_t loops = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            sl_vertex u = graph->sources[e];
            loops += u == v;
            if (classes && u != v && class_of[u] >= 0 && class_of[v] >= 0) {
                n_known++;
                n_agree += class_of[u] == class_of[v];
            }
        }
        out->max_in_degree = sl_max_u64(degree, out->max_in_degree);
        out->n_isolated += degree == loops;
        out->n_self_loops += loops;
    }
    out->homophily = n_known > 0 ? (double)n_agree / (double)n_known : 0;
}

static enum sl_status count_labels(const struct sl_dataset *dataset, struct sl_statistics *out)
{
    const struct sl_targets *targets = &dataset->targets;
    uint32_t *sizes;
    *out = (struct sl_statistics){0};
    SL_CHECK(sl_alloc_zero(targets->n_classes, sizeof *sizes, "class sizes", &sizes));
    for (uint32_t v = 0; v < dataset->graph.n_vertices; v++) {
        if (sl_targets_known(targets, v)) {
            out->n_labelled++;
            if (targets->type == SL_TARGET_CLASS) {
                sizes[targets->classes[v]]++;
            }
        }
    }
    for (uint32_t c = 0; c < targets->n_classes; c++) {
        out->n_classes += sizes[c] > 0;
        out->largest_class = sl_max_u32(sizes[c], out->largest_class);
        if (sizes[c] > 0 && (out->smallest_class == 0 || sizes[c] < out->smallest_class)) {
            out->smallest_class = sizes[c];
        }
    }
    sl_free(sizes);
    return SL_OK;
}

enum sl_status sl_statistics_count(const struct sl_dataset *dataset, struct sl_statistics *out)
{
    SL_CHECK(count_labels(dataset, out));
    count_edges(dataset, out);
    out->n_nonzeros = sl_features_nonzeros(&dataset->features);
    return SL_OK;
}
