/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Random splits: sizes, then vertices or links by their random numbers. */
#include "data/random_split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"
#include "support/random.h"

#define PREFIX "random:"
#define WHOLE 100000000ULL /* all of it, in the units of `part` */
#define UNITS 1e6          /* of a percent */

enum { TRAIN, VALID, TEST };

static const char *const list_names[SL_N_LISTS] = {"training", "validation", "test"};

/* ---- parsing ---- */

enum sl_status sl_random_split_parse(const char *text, uint64_t seed, struct sl_random_split *out)
{
    struct sl_random_split rule = {.wanted = true, .seed = seed};
    uint64_t sum = 0;
    bool good = true;
    if (text == NULL || strncmp(text, PREFIX, strlen(PREFIX)) != 0) {
        *out = (struct sl_random_split){.wanted = false};
        return SL_OK;
    }
    const char *end = text + strlen(text);
    const char *p = text + strlen(PREFIX);
    for (int i = 0; i < SL_N_LISTS && good; i++) {
        double percent = 0;
        p = sl_number_real(p, end, &percent);
        good = p != NULL && *p == (i < TEST ? ',' : '\0') && percent >= 1 / UNITS && percent < 100;
        if (good) {
            rule.part[i] = (uint64_t)llround(percent * UNITS);
            sum += rule.part[i];
            p++;
        }
    }
    SL_FAIL_IF(!good || sum != WHOLE || strlen(text) >= sizeof rule.name, SL_EINVAL,
               "--split: found '%.100s', expected random:TRAIN,VALID,TEST, percentages above 0 that sum to "
               "100: random:60,20,20",
               text);
    snprintf(rule.name, sizeof rule.name, "%s", text);
    *out = rule;
    return SL_OK;
}

/* ---- sizes ---- */

/* A group: a class, or a relation. */
struct group {
    uint32_t id;
    uint64_t n;
    uint64_t size[SL_N_LISTS];
    uint64_t rest[SL_N_LISTS]; /* what rounding down has left, in units of a WHOLEth */
    uint32_t n_open;           /* lists that get one more */
};

static void round_down(const struct sl_random_split *rule, struct group *group)
{
    uint64_t n = group->n;
    for (int i = 0; i < SL_N_LISTS; i++) {
        const uint64_t product = group->n * rule->part[i];
        group->size[i] = product / WHOLE;
        group->rest[i] = product % WHOLE;
        n -= group->size[i];
    }
    group->n_open = (uint32_t)n;
}

/* Give the open places to the lists of the largest rest, the first of equals. open: how many groups can still enlarge a
 * list, this one included; wanted: how many must. */
static void round_up(struct group *group, uint64_t open, uint64_t wanted[SL_N_LISTS])
{
    bool taken[SL_N_LISTS] = {false};
    for (uint32_t k = 0; k < group->n_open; k++) {
        int best = -1;
        for (int i = 0; i < SL_N_LISTS; i++) {
            if (taken[i] || wanted[i] == 0) {
                continue;
            }
            const bool must = wanted[i] == open;
            const bool best_must = best >= 0 && wanted[best] == open;
            if (best < 0 || must > best_must || (must == best_must && group->rest[i] > group->rest[best])) {
                best = i;
            }
        }
        taken[best] = true;
    }
    for (int i = 0; i < SL_N_LISTS; i++) {
        group->size[i] += taken[i];
        wanted[i] -= taken[i];
    }
}

static int by_size(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;
    return sl_order(x->n, y->n, x->id, y->id);
}

static int by_id(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;
    return sl_order(x->id, y->id, 0, 0);
}

/* The sizes of the lists by group. All together they are those of one group of all, and each group's are its share
 * rounded down or up. Small groups choose first. A group has at most two open places, and a list is enlarged at most
 * once by each group that is left: this is all that a solution needs. */
static enum sl_status find_sizes(const struct sl_random_split *rule, const char *what, uint32_t n_groups,
                                 struct group *groups)
{
    struct group all = {.n = 0};
    uint64_t wanted[SL_N_LISTS] = {0};
    uint64_t one[SL_N_LISTS] = {1, 1, 1};
    uint64_t n_open = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        all.n += groups[g].n;
        round_down(rule, &groups[g]);
        n_open += groups[g].n_open > 0;
    }
    round_down(rule, &all);
    round_up(&all, 2, one);
    for (int i = 0; i < SL_N_LISTS; i++) {
        wanted[i] = all.size[i];
        for (uint32_t g = 0; g < n_groups; g++) {
            wanted[i] -= groups[g].size[i];
        }
        SL_FAIL_IF(all.size[i] == 0, SL_EINVAL,
                   "--split: found '%s' of %llu %s, which leaves no %s %s; expected more of them", rule->name,
                   (unsigned long long)all.n, what, list_names[i], what);
    }
    qsort(groups, n_groups, sizeof *groups, by_size);
    for (uint32_t g = 0; g < n_groups; g++) {
        if (groups[g].n_open > 0) {
            round_up(&groups[g], n_open--, wanted);
        }
    }
    qsort(groups, n_groups, sizeof *groups, by_id);
    return SL_OK;
}

/* ---- vertices ---- */

/* A ticket for each vertex with a target, sorted by class and number. Counts the vertices of each group. */
static uint32_t make_tickets(const struct sl_random_split *rule, const struct sl_targets *targets,
                             struct sl_ticket *tickets, struct group *groups)
{
    const struct sl_draw draw = {.seed = rule->seed, .purpose = SL_FOR_SPLIT};
    uint32_t n = 0;
    for (uint32_t v = 0; v < targets->n_rows; v++) {
        if (sl_targets_known(targets, v)) {
            const uint32_t group = targets->type == SL_TARGET_CLASS ? (uint32_t)targets->classes[v] : 0;
            tickets[n++] = (struct sl_ticket){sl_random_u64(&draw, v, 0), group, v};
            groups[group].n++;
        }
    }
    qsort(tickets, n, sizeof *tickets, sl_order_tickets);
    return n;
}

/* set_of: by vertex, 1 + the list. */
static void deal_vertices(const struct sl_ticket *tickets, uint32_t n_groups, const struct group *groups,
                          unsigned char *set_of)
{
    for (uint32_t g = 0; g < n_groups; g++) {
        for (int list = 0; list < SL_N_LISTS; list++) {
            for (uint64_t k = 0; k < groups[g].size[list]; k++) {
                set_of[(tickets++)->item] = (unsigned char)(list + 1);
            }
        }
    }
}

static enum sl_status make_groups(uint32_t n, struct group **out)
{
    SL_CHECK(sl_alloc_zero((size_t)n + 1, sizeof **out, "groups of a split", out));
    for (uint32_t g = 0; g < n; g++) {
        (*out)[g].id = g;
    }
    return SL_OK;
}

enum sl_status sl_random_split_vertices(const struct sl_random_split *rule, struct sl_dataset *dataset)
{
    const struct sl_targets *targets = &dataset->targets;
    const uint32_t n_groups = targets->type == SL_TARGET_CLASS ? targets->n_classes : 1;
    SL_OWNED(sl_dataset_free) struct sl_dataset drawn = {0};
    SL_FREED struct group *groups = NULL;
    SL_FREED struct sl_ticket *tickets = NULL;
    SL_FREED unsigned char *set_of = NULL;
    SL_CHECK(make_groups(n_groups, &groups));
    SL_CHECK(sl_alloc((size_t)targets->n_rows + 1, sizeof *tickets, "a split", &tickets));
    SL_CHECK(sl_alloc_zero((size_t)targets->n_rows + 1, 1, "a split", &set_of));
    make_tickets(rule, targets, tickets, groups);
    SL_CHECK(find_sizes(rule, "vertices with a label", n_groups, groups));
    deal_vertices(tickets, n_groups, groups, set_of);
    for (int i = 0; i < SL_N_LISTS; i++) {
        SL_CHECK(sl_ids_list(set_of, targets->n_rows, (unsigned char)(i + 1), &drawn.lists[i]));
    }
    sl_dataset_set_split(dataset, rule->name, &drawn);
    return SL_OK;
}

/* ---- relations that are each other's reverses ---- */

/* Sums over the edges of a relation of a number for each edge, and of a number for its reverse. */
struct prints {
    uint64_t forward, backward, n;
};

static uint64_t print_of(sl_vertex from, sl_vertex to)
{
    const sl_vertex ends[2] = {from, to};
    return sl_checksum(0, ends, sizeof ends);
}

static void sum_prints(const struct sl_graph *graph, uint32_t n_relations, struct prints *prints)
{
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const uint32_t r = graph->relations[e];
            if (r < n_relations) {
                prints[r].forward += print_of(graph->sources[e], v);
                prints[r].backward += print_of(v, graph->sources[e]);
                prints[r].n++;
            }
        }
    }
}

/* first: by relation, the first of the relations that have the same edges or their reverses, if some have the reverses;
 * else its own number. */
static enum sl_status find_reverses(const struct sl_graph *graph, uint32_t n_relations, uint32_t *first)
{
    SL_FREED struct prints *prints = NULL;
    SL_CHECK(sl_alloc_zero((size_t)n_relations + 1, sizeof *prints, "relations", &prints));
    sum_prints(graph, n_relations, prints);
    for (uint32_t r = 0; r < n_relations; r++) {
        const struct prints *own = &prints[r];
        uint32_t lowest = r;
        bool has_reverse = false;
        for (uint32_t q = 0; q < n_relations && own->n > 0; q++) {
            const struct prints *other = &prints[q];
            const bool same = other->forward == own->forward && other->backward == own->backward;
            const bool reverse = other->forward == own->backward && other->backward == own->forward;
            if (other->n == own->n && (same || reverse)) {
                lowest = sl_min_u32(lowest, q);
                has_reverse |= reverse;
            }
        }
        first[r] = r;
        if (has_reverse) {
            first[r] = lowest;
        }
    }
    return SL_OK;
}

/* ---- links ---- */

/* An edge, or an edge and its reverse. */
struct unit {
    uint64_t key;
    sl_vertex from, to;
    uint32_t relation;
    uint32_t n_links; /* 2: the reverse is a link, too */
};

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a;
    const struct unit *y = b;
    const int order = sl_order(x->relation, y->relation, x->key, y->key);
    return order != 0 ? order : sl_order(x->from, y->from, x->to, y->to);
}

struct drawing {
    const struct sl_random_split *rule;
    const struct sl_graph *graph;
    uint32_t n_relations; /* without added reverses; 0: the graph is not typed */
    bool symmetric;       /* not typed: both directions of an edge are one link */
    uint32_t *first;      /* by relation (find_reverses) */
    uint32_t *next;       /* by relation: the next one with the same `first`. SL_NONE: the last */
    struct unit *units;
    uint64_t n_units;
    struct group *groups;   /* relations */
    unsigned char *dropped; /* by edge: it becomes a link to find */
};

/* Add the unit of an edge, unless its reverse has done so. */
static void add_unit(struct drawing *d, sl_vertex from, sl_vertex to, uint32_t relation)
{
    const struct sl_draw draw = {.seed = d->rule->seed, .step = 1 + (uint64_t)relation, .purpose = SL_FOR_SPLIT};
    const bool typed = d->n_relations > 0;
    if (from == to || relation >= sl_max_u32(d->n_relations, 1) || (typed && d->first[relation] != relation)) {
        return;
    }
    const bool both = d->symmetric || sl_graph_find_edge(d->graph, to, from, relation) != SL_NO_EDGE;
    if (both && from > to) {
        return;
    }
    const uint64_t key = sl_random_u64(&draw, sl_min_u32(from, to), sl_max_u32(from, to));
    const uint32_t n = both && !d->symmetric ? 2 : 1;
    d->units[d->n_units++] = (struct unit){key, from, to, relation, n};
    d->groups[relation].n += n;
}

static void add_units(struct drawing *d)
{
    const struct sl_graph *graph = d->graph;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            add_unit(d, graph->sources[e], v, d->n_relations > 0 ? graph->relations[e] : 0);
        }
    }
    qsort(d->units, d->n_units, sizeof *d->units, compare_units);
}

static void drop_edge(struct drawing *d, sl_vertex from, sl_vertex to, uint32_t relation)
{
    const uint64_t e = sl_graph_find_edge(d->graph, from, to, relation);
    if (e != SL_NO_EDGE) {
        d->dropped[e] = 1;
    }
}

/* Drop the edges of links to find: both directions in their relation, in those with its reverses, and in the added
 * reverses. */
static void drop_unit(struct drawing *d, const struct unit *unit)
{
    const uint32_t n_all = sl_max_u32(d->graph->n_relations, 1);
    const uint32_t n_own = sl_max_u32(d->n_relations, 1);
    uint32_t r = unit->relation;
    while (r != SL_NONE) {
        for (uint32_t q = r; q < n_all; q += n_own) {
            drop_edge(d, unit->from, unit->to, q);
            drop_edge(d, unit->to, unit->from, q);
        }
        r = d->n_relations > 0 ? d->next[r] : SL_NONE;
    }
}

static void add_link(const struct unit *unit, bool reverse, struct sl_links *links)
{
    links->from[links->n] = reverse ? unit->to : unit->from;
    links->to[links->n] = reverse ? unit->from : unit->to;
    if (links->relation != NULL) {
        links->relation[links->n] = unit->relation;
    }
    links->n++;
}

/* The list of a unit: the first with room for it. Two links may find no room at the end; they are trained on. */
static int choose_list(const struct unit *unit, uint64_t room[SL_N_LISTS])
{
    for (int list = 0; list < SL_N_LISTS; list++) {
        if (room[list] >= unit->n_links) {
            room[list] -= unit->n_links;
            return list;
        }
    }
    return TRAIN;
}

/* Deal the units of all relations to the lists. */
static enum sl_status deal_links(struct drawing *d, struct sl_link_split *out)
{
    const struct unit *unit = d->units;
    const struct unit *end = unit + d->n_units;
    while (unit < end) {
        const struct group *group = &d->groups[unit->relation];
        uint64_t room[SL_N_LISTS];
        bool used[SL_N_LISTS] = {false};
        memcpy(room, group->size, sizeof room);
        for (; unit < end && unit->relation == group->id; unit++) {
            const int list = choose_list(unit, room);
            for (uint32_t i = 0; i < unit->n_links; i++) {
                add_link(unit, i == 1, &out->list[SL_LINKS_TRAIN + list]);
            }
            if (list != TRAIN) {
                drop_unit(d, unit);
            }
            used[list] = true;
        }
        SL_FAIL_IF(!used[TRAIN], SL_EINVAL,
                   "--split: found '%s' of the %llu links of relation %u, which leaves none to train on; "
                   "expected a larger part of training",
                   d->rule->name, (unsigned long long)group->n, group->id);
    }
    return SL_OK;
}

/* Room for all links in each list; links that are not used cost no memory. */
static enum sl_status alloc_lists(const struct drawing *d, struct sl_link_split *out)
{
    for (int list = 0; list < SL_N_LISTS; list++) {
        uint64_t n = 0;
        for (uint32_t r = 0; r < sl_max_u32(d->n_relations, 1); r++) {
            n += d->groups[r].size[list] + (list == TRAIN ? 2 : 0);
        }
        SL_FAIL_IF(n >= SL_NONE - 1, SL_EINVAL, "--split: found %llu %s links, expected fewer than 2^32 - 1",
                   (unsigned long long)n, list_names[list]);
        SL_CHECK(sl_links_alloc(n, d->n_relations > 0, &out->list[SL_LINKS_TRAIN + list]));
    }
    return SL_OK;
}

/* Whether the lists tell a link from its reverse. */
static bool is_directed(const struct drawing *d, const struct sl_dataset *dataset)
{
    bool paired = false;
    for (uint32_t r = 0; r < d->n_relations; r++) {
        paired |= d->first[r] != r;
    }
    return d->n_relations > 0 ? dataset->directed && !paired : !d->symmetric;
}

/* Find the relations that are split together. */
static enum sl_status open_relations(const struct sl_graph *graph, struct drawing *d)
{
    SL_CHECK(sl_alloc(d->n_relations, sizeof *d->first, "relations", &d->first));
    SL_CHECK(sl_alloc(d->n_relations, sizeof *d->next, "relations", &d->next));
    SL_CHECK(find_reverses(graph, d->n_relations, d->first));
    for (uint32_t r = 0; r < d->n_relations; r++) {
        const uint32_t first = d->first[r];
        d->next[r] = SL_NONE;
        if (first != r) {
            d->next[r] = d->next[first];
            d->next[first] = r;
        }
    }
    return SL_OK;
}

static enum sl_status open_drawing(const struct sl_dataset *dataset, struct sl_graph *graph, struct drawing *d)
{
    const bool typed = graph->n_relations > 0;
    uint64_t most = graph->n_edges; /* units */
    if (typed) {
        d->n_relations = dataset->directed ? graph->n_relations : graph->n_relations / 2;
        SL_CHECK(open_relations(graph, d));
    } else {
        struct sl_graph plain = *graph;
        plain.weights = NULL; /* the two directions of a link may differ in weight */
        graph->rows = plain.rows = NULL;
        SL_CHECK(sl_graph_is_symmetric(&plain, &d->symmetric));
    }
    SL_CHECK(make_groups(sl_max_u32(d->n_relations, 1), &d->groups));
    if (d->symmetric || (typed && !dataset->directed)) {
        most /= 2;
    }
    SL_CHECK(sl_alloc((size_t)most + 1, sizeof *d->units, "links", &d->units));
    return sl_alloc_zero((size_t)graph->n_edges + 1, 1, "links", &d->dropped);
}

static void close_drawing(struct drawing *d)
{
    sl_free(d->first);
    sl_free(d->next);
    sl_free(d->units);
    sl_free(d->groups);
    sl_free(d->dropped);
}

enum sl_status sl_random_split_links(const struct sl_random_split *rule, struct sl_dataset *dataset)
{
    struct sl_graph graph = dataset->graph; /* a plain graph loses features of edges */
    SL_OWNED(close_drawing) struct drawing d = {.rule = rule, .graph = &graph};
    SL_OWNED(sl_dataset_free) struct sl_dataset drawn = {0};
    SL_FAIL_IF(dataset->counts_edges, SL_EINVAL,
               "--features: found degree, which counts the links to find; expected the split beside it, when "
               "'%s' is loaded",
               dataset->name);
    SL_CHECK(open_drawing(dataset, &graph, &d));
    add_units(&d);
    SL_CHECK(find_sizes(rule, "links", sl_max_u32(d.n_relations, 1), d.groups));
    SL_CHECK(alloc_lists(&d, &drawn.links));
    SL_CHECK(deal_links(&d, &drawn.links));
    drawn.links.directed = is_directed(&d, dataset);
    if (d.n_relations > 0) {
        SL_CHECK(sl_links_copy_ends(dataset->ends, d.n_relations, graph.n_vertices, &drawn.links.ends));
        drawn.links.n_relations = d.n_relations;
        drawn.links.own_ids = true;
    }
    SL_CHECK(sl_graph_copy_rest(&graph, d.dropped, &drawn.graph));
    sl_dataset_set_split(dataset, rule->name, &drawn);
    return SL_OK;
}
