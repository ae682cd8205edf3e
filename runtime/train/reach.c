/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Trial steps are sampled to measure their sizes. */
#include "runtime/train/memory_need.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "codelets/sampling/runs.h"
#include "support/memory.h"
#include "support/random.h"

#define N_TRIES 3
#define DEVIATIONS 2      /* standard deviations: the margin over the largest trial */
#define BUDGET_MARGIN 1.2 /* a step's vertices relative to the --vertex-budget */
#define N_BUDGETS 8       /* trials of the batch that a --vertex-budget will come to */
#define READ_AT_ONCE 4096 /* vertices, whose lists of in-neighbours are in memory in a rank of several */
#define GROWTH 2.4        /* edges of LABOR-* relative to LABOR-0: 1.6 to 2.3 on graphs with skewed degrees */

/* A frontier, its members, and the seed of its random numbers. */
struct trial {
    const struct sl_settings *settings;
    const struct sl_dataset *dataset;
    uint32_t *fanouts; /* by relation (runtime/plan/fanouts.h), or NULL */
    sl_vertex *ids;
    uint8_t *present;
    double *importance; /* [N], of sources (codelets/sampling/ladies.h); NULL: another sampler */
    uint32_t n;
    uint64_t key;
};

static void close_trial(struct trial *t)
{
    sl_free(t->fanouts);
    sl_free(t->importance);
    sl_free(t->ids);
    sl_free(t->present);
}

/* A uniform number of a vertex, in [0, 1). */
static double uniform(const struct trial *t, sl_vertex v, uint32_t hop)
{
    const struct sl_draw where = {.seed = t->key, .purpose = SL_FOR_SAMPLING, .hop = hop};
    return (double)(sl_random_u64(&where, v, 0) >> 11) * 0x1p-53;
}

static void reach(struct trial *t, sl_vertex v)
{
    if (!t->present[v]) {
        t->present[v] = 1;
        t->ids[t->n++] = v;
    }
}

/* Position k of n_drawn evenly spaced positions in a list of n. Stays below n in spite of rounding. */
static uint64_t place(double k, double first, double n, double n_drawn)
{
    return (uint64_t)fmin((k + first) * n / n_drawn, n - 1);
}

/* Sample from `degree` in-neighbours of one vertex: `fanout` of them, evenly spaced from a random start. With LABOR
 * each in-neighbour has its own uniform number, the same for all sampling vertices. Returns the number of edges. */
static double draw_from(struct trial *t, sl_vertex v, uint32_t hop, const sl_vertex *sources, double degree,
                        double fanout)
{
    const struct sl_settings *s = t->settings;
    double n_drawn = 0;
    if (s->sampler == SL_SAMPLER_LABOR) {
        for (uint64_t e = 0; (double)e < degree; e++) {
            if (uniform(t, sources[e], hop) * degree < fanout) {
                reach(t, sources[e]);
                n_drawn++;
            }
        }
        return fmin(degree, (s->labor_iterations > 0 ? GROWTH : 1) * n_drawn);
    }
    n_drawn = fmin(degree, fanout);
    double first = uniform(t, v, hop);
    for (double k = 0; k < n_drawn; k++) {
        reach(t, sources[place(k, first, degree, n_drawn)]);
    }
    return s->replace && degree > 0 && fanout < SL_FANOUT_ALL ? fanout : n_drawn;
}

/* c of codelets/sampling/ladies.h, for `size` sources on average. */
static double level_of(const struct trial *t, double size)
{
    double level = 0;
    double n_before = -1;
    for (double n_whole = 0; n_whole > n_before && n_whole < size;) {
        double sum = 0;
        n_before = n_whole;
        n_whole = 0;
        for (uint32_t v = 0; v < t->dataset->graph.n_vertices; v++) {
            const bool whole = t->importance[v] * level >= 1;
            n_whole += whole;
            sum += whole ? 0 : t->importance[v];
        }
        level = (size - n_whole) / fmax(sum, DBL_MIN); /* few sources: all are whole */
    }
    return level;
}

/* Sample a layer of sources for the first n vertices, with pladies. Returns the number of edges. */
static double draw_layer(struct trial *t, uint32_t n, uint32_t hop)
{
    const struct sl_settings *s = t->settings;
    const struct sl_graph *graph = &t->dataset->graph;
    double n_edges = 0;
    memset(t->importance, 0, graph->n_vertices * sizeof *t->importance);
    for (uint32_t i = 0; i < n; i++) {
        const double degree = (double)(graph->offsets[t->ids[i] + 1] - graph->offsets[t->ids[i]]);
        for (uint64_t e = graph->offsets[t->ids[i]]; e < graph->offsets[t->ids[i] + 1]; e++) {
            t->importance[graph->sources[e]] += 1 / (degree * degree);
        }
    }
    const double level = level_of(t, s->layer_size[sl_settings_hops(s) - 1 - hop]);
    for (uint32_t i = 0; i < n; i++) {
        for (uint64_t e = graph->offsets[t->ids[i]]; e < graph->offsets[t->ids[i] + 1]; e++) {
            if (uniform(t, graph->sources[e], hop) < level * t->importance[graph->sources[e]]) {
                reach(t, graph->sources[e]);
                n_edges++;
            }
        }
    }
    return n_edges;
}

/* Sample in-neighbours of one vertex: of all of them, or of those of each relation. */
static double draw(struct trial *t, sl_vertex v, uint32_t hop)
{
    const struct sl_settings *s = t->settings;
    const struct sl_graph *graph = &t->dataset->graph;
    const uint16_t *relations = graph->relations;
    const uint32_t of_hop = sl_settings_hops(s) - 1 - hop;
    const uint64_t end = graph->offsets[v + 1];
    double n = 0;
    for (uint64_t e = graph->offsets[v], next = end; e < end; e = next) {
        double fanout = s->sampler == SL_SAMPLER_FULL ? INFINITY : s->fanout[of_hop];
        if (t->fanouts != NULL) {
            next = sl_relation_from(relations, e, end, relations[e] + 1U);
            fanout = t->fanouts[(size_t)of_hop * graph->n_relations + relations[e]];
        }
        n += draw_from(t, v, hop, graph->sources + e, (double)(next - e), fanout);
    }
    return n;
}

/* Take evenly spaced training vertices as seeds; or the ends of evenly spaced training links, and as many vertices as
 * the links have negatives. */
static void draw_seeds(struct trial *t, double n_seeds)
{
    const struct sl_link_split *split = &t->dataset->links;
    const struct sl_links *links = &split->list[SL_LINKS_TRAIN];
    const struct sl_ids *train = &t->dataset->train;
    double first = uniform(t, 0, t->settings->layers);
    for (double k = 0; k < n_seeds; k++) {
        if (links->n > 0) {
            uint64_t link = place(k, first, links->n, n_seeds);
            reach(t, links->from[link]);
            reach(t, links->to[link]);
        } else {
            reach(t, train->ids[place(k, first, train->n, n_seeds)]);
        }
    }
    for (double k = 0; links->n > 0 && k < n_seeds * t->settings->negatives; k++) {
        const uint32_t i = (uint32_t)fmin(k, UINT32_MAX);
        const double u = uniform(t, i, t->settings->layers + 1);
        struct sl_link_ends ends = {{0, 0}, {t->dataset->graph.n_vertices, t->dataset->graph.n_vertices}};
        if (split->ends != NULL) { /* candidates of a relation */
            ends = split->ends[i / 2 % split->n_relations];
        }
        reach(t, ends.first[i % 2] + (sl_vertex)(u * ends.n[i % 2]));
    }
}

/* Raise *size to n with a margin. */
static void raise(double n, double most, double *size)
{
    *size = fmax(*size, fmin(most, n + DEVIATIONS * sqrt(n)));
}

/* Raise the sizes in *out to those of a trial step. Seeds that are links have an edge to each of their ends, in
 * hop 0. */
static void draw_step(struct trial *t, double n_seeds, struct sl_reach *out)
{
    const double n_vertices = t->dataset->graph.n_vertices;
    const bool links = sl_settings_trains_links(t->settings);
    t->n = 0;
    memset(t->present, 0, t->dataset->graph.n_vertices);
    draw_seeds(t, n_seeds);
    out->vertices[0] = fmax(out->vertices[0], n_seeds);
    if (links) {
        out->vertices[0] = out->edges[0] = fmax(out->edges[0], n_seeds * sl_settings_link_ends(t->settings));
        raise(t->n, n_vertices, &out->vertices[1]);
    }
    for (uint32_t hop = links; hop < sl_settings_hops(t->settings); hop++) {
        double n_edges = t->importance != NULL ? draw_layer(t, t->n, hop) : 0;
        for (uint32_t i = 0, n = t->n; i < n && t->importance == NULL; i++) {
            if (i % READ_AT_ONCE == 0) {
                sl_dataset_drop_pages(t->dataset);
            }
            n_edges += draw(t, t->ids[i], hop);
        }
        raise(n_edges, INFINITY, &out->edges[hop]);
        raise(t->n, n_vertices, &out->vertices[hop + 1]);
    }
}

enum sl_status sl_reach_expect(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_reach *out)
{
    const double *last = &out->vertices[sl_settings_hops(s)];
    const double n_train = sl_dataset_n_train(dataset);
    const double most = BUDGET_MARGIN * s->vertex_budget;
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    SL_OWNED(close_trial) struct trial t = {.settings = s, .dataset = dataset};
    double n_seeds = fmin((double)s->batch_size * s->group_size, n_train);
    *out = (struct sl_reach){{0}, {0}};
    SL_CHECK(sl_fanouts_read(&fanouts, dataset, &t.fanouts));
    SL_CHECK(sl_alloc(dataset->graph.n_vertices, sizeof *t.ids, "a step's vertices", &t.ids));
    SL_CHECK(sl_alloc(dataset->graph.n_vertices, sizeof *t.present, "marks of a step's vertices", &t.present));
    if (sl_settings_by_layers(s)) {
        SL_CHECK(sl_alloc(dataset->graph.n_vertices, sizeof *t.importance, "sources of a layer", &t.importance));
    }
    for (int i = 0; i <= N_BUDGETS; i++) {
        for (t.key = 0; t.key < N_TRIES; t.key++) {
            draw_step(&t, n_seeds, out);
        }
        if (*last >= most || n_seeds >= n_train) {
            break;
        }
        n_seeds = floor(fmin(n_train, n_seeds * most / fmax(1, *last))); /* on the way to a --vertex-budget */
    }
    return SL_OK;
}
