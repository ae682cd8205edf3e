/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Trial steps are sampled to measure their sizes. */
#include "runtime/train/reach.h"

#include <math.h>
#include <string.h>

#include "codelets/runs.h"
#include "support/memory.h"
#include "support/random.h"

#define N_TRIES 3
#define DEVIATIONS 2      /* standard deviations: the margin over the largest trial */
#define BUDGET_MARGIN 1.2 /* a step's vertices relative to the --vertex-budget */
#define N_BUDGETS 8       /* trials of the batch that a --vertex-budget will come to */
#define GROWTH 2.4        /* edges of LABOR-* relative to LABOR-0: 1.6 to 2.3 on graphs with skewed degrees */

/* More edges with --labor-iterations. They lead to fewer vertices, which are not estimated. */
static double growth_of(const struct sl_settings *s)
{
    return s->labor_iterations > 0 ? GROWTH : 1;
}

static double fanout_of(const struct sl_settings *s, uint32_t hop)
{
    return s->sampler == SL_SAMPLER_FULL ? INFINITY : s->fanout[sl_settings_hops(s) - 1 - hop];
}

/* Most edges of a vertex in a hop: a fanout for each relation, or one. */
static double most_edges_of(const struct sl_settings *s, const struct sl_graph *graph, uint32_t hop)
{
    if (s->relation_fanout == NULL) {
        return fanout_of(s, hop);
    }
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    const uint32_t largest = sl_fanouts_largest(&fanouts, sl_settings_hops(s) - 1 - hop);
    return largest == SL_FANOUT_ALL ? INFINITY : (double)graph->n_relations * largest;
}

static double seeds_of(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    return fmin((double)s->batch_size * s->group_size, sl_dataset_n_train(dataset));
}

/* The bound of a step with n_seeds, whose levels have at most `most` vertices. */
static struct sl_reach bound_of(const struct sl_settings *s, const struct sl_dataset *dataset, double n_seeds,
                                double most)
{
    struct sl_reach b;
    double n = fmin(most, dataset->graph.n_vertices);
    double n_edges = (double)dataset->graph.n_edges;
    b.vertices[0] = n_seeds;
    uint32_t hop = 0;
    if (sl_settings_trains_links(s)) {
        b.vertices[0] *= sl_settings_link_ends(s);
        b.edges[0] = b.vertices[0];
        b.vertices[1] = fmin(n, b.vertices[0]);
        hop = 1;
    }
    for (; hop < sl_settings_hops(s); hop++) {
        const double most_edges = most_edges_of(s, &dataset->graph, hop);
        const bool all = most_edges >= SL_FANOUT_ALL;
        b.edges[hop] = fmin(s->replace && !all ? INFINITY : n_edges, growth_of(s) * b.vertices[hop] * most_edges);
        b.vertices[hop + 1] = fmin(n, b.vertices[hop] + b.edges[hop]);
    }
    return b;
}

static struct sl_reach larger(const struct sl_settings *s, struct sl_reach a, const struct sl_reach *b)
{
    for (uint32_t level = 0; level <= sl_settings_hops(s); level++) {
        a.vertices[level] = fmax(a.vertices[level], b->vertices[level]);
    }
    for (uint32_t hop = 0; hop < sl_settings_hops(s); hop++) {
        a.edges[hop] = fmax(a.edges[hop], b->edges[hop]);
    }
    return a;
}

struct sl_reach sl_reach_bound(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct sl_reach bound = bound_of(s, dataset, seeds_of(s, dataset), INFINITY);
    if (s->vertex_budget > 0) { /* a seed is an input vertex, but a link is not */
        double most = BUDGET_MARGIN * s->vertex_budget;
        double n_train = sl_dataset_n_train(dataset);
        struct sl_reach later = bound_of(s, dataset, sl_settings_trains_links(s) ? n_train : fmin(most, n_train), most);
        bound = larger(s, bound, &later);
    }
    return bound;
}

/* ---- trial steps ---- */

/* A frontier, its members, and the seed of its random numbers. */
struct trial {
    const struct sl_settings *settings;
    const struct sl_graph *graph;
    uint32_t *fanouts; /* by relation (runtime/plan/fanouts.h), or NULL */
    double n_seeds;
    sl_vertex *ids;
    uint8_t *present;
    uint32_t n;
    uint64_t key;
};

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

/* Sample from `degree` in-neighbours of one vertex: `most` of them, evenly spaced from a random start. With LABOR each
 * in-neighbour has its own uniform number, the same for all sampling vertices. Returns the number of edges. */
static double draw_from(struct trial *t, sl_vertex v, uint32_t hop, const sl_vertex *sources, double degree,
                        double most)
{
    double fanout = fmin(degree, most);
    double n_drawn = 0;
    if (t->settings->sampler == SL_SAMPLER_LABOR) {
        for (uint64_t e = 0; (double)e < degree; e++) {
            bool drawn = uniform(t, sources[e], hop) * degree < fanout;
            if (drawn) {
                reach(t, sources[e]);
                n_drawn++;
            }
        }
        return fmin(degree, growth_of(t->settings) * n_drawn);
    }
    double first = uniform(t, v, hop);
    for (double k = 0; k < fanout; k++) {
        reach(t, sources[place(k, first, degree, fanout)]);
    }
    if (t->settings->replace && degree > 0 && most < SL_FANOUT_ALL) {
        return most; /* to at most as many vertices */
    }
    return fanout;
}

/* Sample in-neighbours of one vertex. */
static double draw(struct trial *t, sl_vertex v, uint32_t hop)
{
    const uint64_t begin = t->graph->offsets[v];
    const uint64_t end = t->graph->offsets[v + 1];
    const float *relations = sl_graph_weights(t->graph);
    double n = 0;
    if (t->fanouts == NULL) {
        return draw_from(t, v, hop, t->graph->sources + begin, (double)(end - begin), fanout_of(t->settings, hop));
    }
    const uint32_t *fanouts = t->fanouts + (size_t)(sl_settings_hops(t->settings) - 1 - hop) * t->graph->n_relations;
    for (uint64_t e = begin, next = 0; e < end; e = next) {
        next = sl_relation_from(relations, e, end, relations[e] + 1);
        n += draw_from(t, v, hop, t->graph->sources + e, (double)(next - e), fanouts[(uint32_t)relations[e]]);
    }
    return n;
}

/* Take evenly spaced training links: their ends, and as many vertices as they have negatives. */
static void draw_links(struct trial *t, const struct sl_links *links, double n_seeds)
{
    double first = uniform(t, 0, t->settings->layers);
    double n_drawn = n_seeds * t->settings->negatives;
    for (double k = 0; k < n_seeds; k++) {
        uint64_t link = place(k, first, links->n, n_seeds);
        reach(t, links->from[link]);
        reach(t, links->to[link]);
    }
    for (double k = 0; k < n_drawn; k++) {
        double u = uniform(t, (sl_vertex)fmin(k, UINT32_MAX), t->settings->layers + 1);
        reach(t, (sl_vertex)(u * t->graph->n_vertices));
    }
}

/* Take evenly spaced training vertices as seeds. */
static void draw_seeds(struct trial *t, const struct sl_ids *train, double n_seeds)
{
    double first = uniform(t, 0, t->settings->layers);
    for (double k = 0; k < n_seeds; k++) {
        reach(t, train->ids[place(k, first, train->n, n_seeds)]);
    }
}

static void take_most(double *most, double here, double bound)
{
    *most = fmax(*most, fmin(bound, here + DEVIATIONS * sqrt(here)));
}

static void draw_step(struct trial *t, const struct sl_dataset *dataset, const struct sl_reach *bound,
                      struct sl_reach *out)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    uint32_t hop = 0;
    t->n = 0;
    memset(t->present, 0, t->graph->n_vertices);
    if (links->n > 0) {
        draw_links(t, links, t->n_seeds);
        out->edges[0] = bound->edges[0];
        take_most(&out->vertices[1], t->n, bound->vertices[1]);
        hop = 1;
    } else {
        draw_seeds(t, &dataset->train, t->n_seeds);
    }
    for (; hop < sl_settings_hops(t->settings); hop++) {
        double n_edges = 0;
        for (uint32_t i = 0, n = t->n; i < n; i++) {
            n_edges += draw(t, t->ids[i], hop);
        }
        take_most(&out->edges[hop], n_edges, bound->edges[hop]);
        take_most(&out->vertices[hop + 1], t->n, bound->vertices[hop + 1]);
    }
}

/* The expected size of a step with n_seeds. */
static struct sl_reach draw_steps(struct trial *t, const struct sl_dataset *dataset, double n_seeds)
{
    struct sl_reach bound = bound_of(t->settings, dataset, n_seeds, INFINITY);
    struct sl_reach out = {.vertices = {bound.vertices[0]}};
    t->n_seeds = n_seeds;
    for (t->key = 0; t->key < N_TRIES; t->key++) {
        draw_step(t, dataset, &bound, &out);
    }
    return out;
}

/* The largest of the steps on the way to a --vertex-budget. */
static struct sl_reach draw_budget(struct trial *t, const struct sl_dataset *dataset, struct sl_reach first)
{
    const uint32_t last = sl_settings_hops(t->settings);
    const double n_train = sl_dataset_n_train(dataset);
    double most = BUDGET_MARGIN * t->settings->vertex_budget;
    double n_seeds = seeds_of(t->settings, dataset);
    struct sl_reach all = first;
    struct sl_reach now = first;
    for (int i = 0; i < N_BUDGETS && now.vertices[last] < most && n_seeds < n_train; i++) {
        n_seeds = floor(fmin(n_train, n_seeds * most / fmax(1, now.vertices[last])));
        now = draw_steps(t, dataset, n_seeds);
        all = larger(t->settings, all, &now);
    }
    return all;
}

enum sl_status sl_reach_expect(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_reach *out)
{
    struct trial t = {.settings = s, .graph = &dataset->graph};
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    enum sl_status st;
    SL_TRY(st, sl_fanouts_read(&fanouts, dataset, &t.fanouts), done);
    SL_TRY(st, sl_alloc(dataset->graph.n_vertices, sizeof *t.ids, "a step's vertices", &t.ids), done);
    SL_TRY(st, sl_alloc(dataset->graph.n_vertices, sizeof *t.present, "marks of a step's vertices", &t.present), done);
    *out = draw_steps(&t, dataset, seeds_of(s, dataset));
    if (s->vertex_budget > 0) {
        *out = draw_budget(&t, dataset, *out);
    }
done:
    sl_free(t.fanouts);
    sl_free(t.ids);
    sl_free(t.present);
    return st;
}
