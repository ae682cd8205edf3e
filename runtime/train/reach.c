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

/* The largest fanout of a hop: of a relation, or the only one. */
static double largest_fanout(const struct sl_settings *s, uint32_t hop)
{
    if (s->relation_fanout == NULL) {
        return fanout_of(s, hop);
    }
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    const uint32_t largest = sl_fanouts_largest(&fanouts, sl_settings_hops(s) - 1 - hop);
    return largest == SL_FANOUT_ALL ? INFINITY : largest;
}

static double seeds_of(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    return fmin((double)s->batch_size * s->group_size, sl_dataset_n_train(dataset));
}

/* The largest sizes of two steps. */
static struct sl_reach larger(struct sl_reach a, const struct sl_reach *b)
{
    for (uint32_t level = 0; level <= SL_MAX_LAYERS; level++) {
        a.vertices[level] = fmax(a.vertices[level], b->vertices[level]);
    }
    for (uint32_t hop = 0; hop < SL_MAX_LAYERS; hop++) {
        a.edges[hop] = fmax(a.edges[hop], b->edges[hop]);
    }
    return a;
}

/* Seeds that are links have an edge to each of their ends, in hop 0. Returns the first hop that samples. */
static uint32_t begin(const struct sl_settings *s, double n_seeds, double n, struct sl_reach *out)
{
    *out = (struct sl_reach){.vertices = {n_seeds}};
    if (!sl_settings_trains_links(s)) {
        return 0;
    }
    out->vertices[0] = out->edges[0] = n_seeds * sl_settings_link_ends(s);
    out->vertices[1] = fmin(n, out->vertices[0]);
    return 1;
}

/* The bound of a step with n_seeds, whose levels have at most `most` vertices. */
static struct sl_reach bound_of(const struct sl_settings *s, const struct sl_dataset *dataset, double n_seeds,
                                double most)
{
    struct sl_reach b;
    double n = fmin(most, dataset->graph.n_vertices);
    for (uint32_t hop = begin(s, n_seeds, n, &b); hop < sl_settings_hops(s); hop++) {
        const double fanout = largest_fanout(s, hop);
        const double n_lists = s->relation_fanout == NULL ? 1 : dataset->graph.n_relations; /* of a vertex */
        const double n_draws = s->replace && fanout < SL_FANOUT_ALL ? fanout : 1;           /* of an edge, at most */
        b.edges[hop] =
            fmin(n_draws * (double)dataset->graph.n_edges, growth_of(s) * b.vertices[hop] * n_lists * fanout);
        b.vertices[hop + 1] = fmin(n, b.vertices[hop] + b.edges[hop]);
    }
    return b;
}

/* The vertices that a negative may be, of the relation with the fewest. */
static double n_candidates(const struct sl_dataset *dataset)
{
    const struct sl_link_split *links = &dataset->links;
    double n = dataset->graph.n_vertices;
    for (uint32_t r = 0; r < links->n_relations; r++) {
        for (int end = 0; links->ends != NULL && end < 2; end++) {
            n = fmin(n, links->ends[r].n[end]);
        }
    }
    return n;
}

/* The most links of a step that has `most` vertices on average: n negatives are N (1 - (1 - 1 / N)^n) distinct vertices
 * of N, on average. */
static double links_within(const struct sl_settings *s, const struct sl_dataset *dataset, double most)
{
    const double n_train = sl_dataset_n_train(dataset);
    const double n = n_candidates(dataset);
    const bool known = dataset->links.n_relations == 0 || dataset->links.ends != NULL;
    if (!known || most >= n) {
        return n_train;
    }
    return fmin(n_train, ceil(log1p(-most / n) / log1p(-1 / n) / s->negatives));
}

struct sl_reach sl_reach_bound(const struct sl_settings *s, const struct sl_dataset *dataset)
{
    struct sl_reach bound = bound_of(s, dataset, seeds_of(s, dataset), INFINITY);
    if (s->vertex_budget > 0) {
        double most = BUDGET_MARGIN * s->vertex_budget;
        double n_seeds = fmin(most, sl_dataset_n_train(dataset)); /* a seed is an input vertex, but a link is not */
        if (sl_settings_trains_links(s)) {
            n_seeds = links_within(s, dataset, most);
        }
        struct sl_reach later = bound_of(s, dataset, n_seeds, most);
        bound = larger(bound, &later);
    }
    return bound;
}

/* ---- trial steps ---- */

/* A frontier, its members, and the seed of its random numbers. */
struct trial {
    const struct sl_settings *settings;
    const struct sl_dataset *dataset;
    uint32_t *fanouts; /* by relation (runtime/plan/fanouts.h), or NULL */
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
    const struct sl_graph *graph = &t->dataset->graph;
    const uint64_t begin = graph->offsets[v];
    const uint64_t end = graph->offsets[v + 1];
    const float *relations = sl_graph_weights(graph);
    double n = 0;
    if (t->fanouts == NULL) {
        return draw_from(t, v, hop, graph->sources + begin, (double)(end - begin), fanout_of(t->settings, hop));
    }
    const uint32_t *fanouts = t->fanouts + (size_t)(sl_settings_hops(t->settings) - 1 - hop) * graph->n_relations;
    for (uint64_t e = begin, next = 0; e < end; e = next) {
        next = sl_relation_from(relations, e, end, relations[e] + 1);
        n += draw_from(t, v, hop, graph->sources + e, (double)(next - e), fanouts[(uint32_t)relations[e]]);
    }
    return n;
}

/* Take evenly spaced training vertices as seeds; or the ends of evenly spaced training links, and as many vertices as
 * the links have negatives. */
static void draw_seeds(struct trial *t, double n_seeds)
{
    const struct sl_links *links = &t->dataset->links.list[SL_LINKS_TRAIN];
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
        double u = uniform(t, (sl_vertex)fmin(k, UINT32_MAX), t->settings->layers + 1);
        reach(t, (sl_vertex)(u * t->dataset->graph.n_vertices));
    }
}

static double with_margin(double n, double most)
{
    return fmin(most, n + DEVIATIONS * sqrt(n));
}

static struct sl_reach draw_step(struct trial *t, double n_seeds, const struct sl_reach *bound)
{
    struct sl_reach out;
    uint32_t hop = begin(t->settings, n_seeds, t->dataset->graph.n_vertices, &out);
    t->n = 0;
    memset(t->present, 0, t->dataset->graph.n_vertices);
    draw_seeds(t, n_seeds);
    if (hop > 0) {
        out.vertices[1] = with_margin(t->n, bound->vertices[1]);
    }
    for (; hop < sl_settings_hops(t->settings); hop++) {
        double n_edges = 0;
        for (uint32_t i = 0, n = t->n; i < n; i++) {
            n_edges += draw(t, t->ids[i], hop);
        }
        out.edges[hop] = with_margin(n_edges, bound->edges[hop]);
        out.vertices[hop + 1] = with_margin(t->n, bound->vertices[hop + 1]);
    }
    return out;
}

/* The expected size of a step with n_seeds. */
static struct sl_reach draw_steps(struct trial *t, double n_seeds)
{
    const struct sl_reach bound = bound_of(t->settings, t->dataset, n_seeds, INFINITY);
    struct sl_reach all = {{0}, {0}};
    for (t->key = 0; t->key < N_TRIES; t->key++) {
        const struct sl_reach one = draw_step(t, n_seeds, &bound);
        all = larger(all, &one);
    }
    return all;
}

enum sl_status sl_reach_expect(const struct sl_settings *s, const struct sl_dataset *dataset, struct sl_reach *out)
{
    const double *last = &out->vertices[sl_settings_hops(s)];
    const double n_train = sl_dataset_n_train(dataset);
    const double most = BUDGET_MARGIN * s->vertex_budget;
    struct trial t = {.settings = s, .dataset = dataset};
    const struct sl_fanouts fanouts = sl_settings_fanouts(s);
    double n_seeds = seeds_of(s, dataset);
    enum sl_status st;
    SL_TRY(st, sl_fanouts_read(&fanouts, dataset, &t.fanouts), done);
    SL_TRY(st, sl_alloc(dataset->graph.n_vertices, sizeof *t.ids, "a step's vertices", &t.ids), done);
    SL_TRY(st, sl_alloc(dataset->graph.n_vertices, sizeof *t.present, "marks of a step's vertices", &t.present), done);
    *out = draw_steps(&t, n_seeds);
    /* the largest step on the way to a --vertex-budget */
    for (int i = 0; i < N_BUDGETS && *last < most && n_seeds < n_train; i++) {
        n_seeds = floor(fmin(n_train, n_seeds * most / fmax(1, *last)));
        const struct sl_reach later = draw_steps(&t, n_seeds);
        *out = larger(*out, &later);
    }
done:
    sl_free(t.fanouts);
    sl_free(t.ids);
    sl_free(t.present);
    return st;
}
