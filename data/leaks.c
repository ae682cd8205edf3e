/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Finding the edges that are links to find. */
#include "data/leaks.h"

#include "support/compare.h"
#include "support/memory.h"
#include "support/minmax.h"

/* ---- known links ---- */

static uint64_t pair_of(sl_vertex from, sl_vertex to)
{
    return (uint64_t)from << 32 | to;
}

/* All links of lists first .. SL_LINKS_TEST, as they are listed. */
static enum sl_status sort_links(const struct sl_link_split *split, uint32_t first, struct sl_link_entry **out,
                                 size_t *n_out)
{
    struct sl_link_split as_listed = *split;
    as_listed.directed = true;
    return sl_links_sort(&as_listed, first, SL_LINKS_TEST + 1, out, n_out);
}

/* ---- graphs whose directions mean nothing ---- */

/* *out: every edge has its reverse, or the reverse is to be found. */
static enum sl_status is_mutual(const struct sl_dataset *dataset, bool *out)
{
    const struct sl_graph *graph = &dataset->graph;
    SL_FREED struct sl_link_entry *known = NULL;
    size_t n;
    SL_CHECK(sort_links(&dataset->links, SL_LINKS_VALID, &known, &n));
    *out = true;
    for (uint32_t v = 0; v < graph->n_vertices && *out; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1] && *out; e++) {
            const sl_vertex u = graph->sources[e];
            *out = sl_graph_find_edge(graph, v, u, 0) != SL_NO_EDGE || sl_links_have(known, n, pair_of(v, u), 0);
        }
    }
    return SL_OK;
}

/* ---- relations of reverses ---- */

#define MOST_CANDIDATES 8

/* The relations whose links may be the reverses of all edges of a relation without lists. */
struct candidates {
    bool listed; /* the relation has links of its own */
    bool begun;
    uint32_t n;
    uint32_t relation[MOST_CANDIDATES];
};

/* An edge u -> v keeps the relations that have a link v -> u. The first edge of all finds them. */
static void narrow(const struct sl_link_entry *known, size_t n_known, sl_vertex u, sl_vertex v, struct candidates *c)
{
    const uint64_t pair = pair_of(v, u);
    uint32_t n = 0;
    size_t i = sl_first_from(known, n_known, sizeof *known, pair);
    for (; !c->begun && i < n_known && known[i].pair == pair && n < MOST_CANDIDATES; i++) {
        if (n == 0 || c->relation[n - 1] != known[i].relation) {
            c->relation[n++] = known[i].relation;
        }
    }
    for (uint32_t k = 0; c->begun && k < c->n; k++) {
        if (sl_links_have(known, n_known, pair, c->relation[k])) {
            c->relation[n++] = c->relation[k];
        }
    }
    c->n = n;
    c->begun = true;
}

static void mark_listed(const struct sl_link_split *split, struct candidates *out)
{
    for (int list = SL_LINKS_TRAIN; list <= SL_LINKS_TEST; list++) {
        const struct sl_links *links = &split->list[list];
        for (uint32_t i = 0; i < links->n; i++) {
            out[links->relation[i]].listed = true;
        }
    }
}

/* out: by relation. */
static enum sl_status find_candidates(const struct sl_dataset *dataset, struct candidates *out)
{
    const struct sl_link_split *split = &dataset->links;
    const struct sl_graph *graph = &dataset->graph;
    SL_FREED struct sl_link_entry *known = NULL;
    size_t n;
    SL_CHECK(sort_links(split, SL_LINKS_TRAIN, &known, &n));
    mark_listed(split, out);
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const uint32_t r = graph->relations[e];
            if (r < split->n_relations && !out[r].listed && (!out[r].begun || out[r].n > 0)) {
                narrow(known, n, graph->sources[e], v, &out[r]);
            }
        }
    }
    return SL_OK;
}

/* ---- leaks ---- */

struct search {
    const struct sl_graph *graph;
    uint32_t n_relations; /* without added reverses; 0: pairs */
    bool both_ways;
    struct candidates *candidates;  /* by relation; NULL: pairs */
    uint32_t *reversed, n_reversed; /* the relations with candidates */
    unsigned char *leaks;           /* by edge */
    uint32_t n;                     /* links that are edges */
    enum sl_link_list list;         /* the first of them */
    uint32_t place;
};

static void free_search(struct search *s)
{
    sl_free(s->leaks);
    sl_free(s->candidates);
    sl_free(s->reversed);
}

static bool mark_edge(struct search *s, sl_vertex from, sl_vertex to, uint32_t relation)
{
    const uint32_t n_all = sl_max_u32(s->graph->n_relations, 1);
    bool found = false;
    if (relation < n_all) {
        const uint64_t e = sl_graph_find_edge(s->graph, from, to, relation);
        found = e != SL_NO_EDGE;
        if (found) {
            s->leaks[e] = 1;
        }
    }
    return found;
}

/* Mark the edges of a triple: in its relation, and in relations of its reverses. */
static bool mark_triple(struct search *s, sl_vertex head, sl_vertex tail, uint32_t relation)
{
    const uint32_t n = s->n_relations;
    bool found = mark_edge(s, head, tail, relation);
    found |= mark_edge(s, tail, head, n + relation);
    for (uint32_t i = 0; i < s->n_reversed; i++) {
        const uint32_t q = s->reversed[i];
        for (uint32_t k = 0; k < s->candidates[q].n; k++) {
            if (s->candidates[q].relation[k] == relation) {
                found |= mark_edge(s, tail, head, q);
                found |= mark_edge(s, head, tail, n + q);
            }
        }
    }
    return found;
}

static void search_list(struct search *s, const struct sl_links *links, enum sl_link_list list)
{
    for (uint32_t i = 0; i < links->n; i++) {
        bool found;
        if (s->n_relations > 0) {
            found = mark_triple(s, links->from[i], links->to[i], links->relation[i]);
        } else {
            found = mark_edge(s, links->from[i], links->to[i], 0);
            found |= s->both_ways && mark_edge(s, links->to[i], links->from[i], 0);
        }
        if (found && s->n++ == 0) {
            s->list = list;
            s->place = i;
        }
    }
}

static enum sl_status search_relations(const struct sl_dataset *dataset, struct search *s)
{
    SL_CHECK(sl_alloc_zero(s->n_relations, sizeof *s->candidates, "relations", &s->candidates));
    SL_CHECK(sl_alloc(s->n_relations, sizeof *s->reversed, "relations", &s->reversed));
    SL_CHECK(find_candidates(dataset, s->candidates));
    for (uint32_t q = 0; q < s->n_relations; q++) {
        if (s->candidates[q].n > 0) {
            s->reversed[s->n_reversed++] = q;
        }
    }
    return SL_OK;
}

/* Find all leaks. The caller frees *s, also on failure. */
static enum sl_status search_graph(const struct sl_dataset *dataset, bool both_ways, struct search *s)
{
    const struct sl_link_split *split = &dataset->links;
    *s = (struct search){.graph = &dataset->graph, .n_relations = split->n_relations, .both_ways = both_ways};
    SL_CHECK(sl_alloc_zero((size_t)dataset->graph.n_edges + 1, 1, "links", &s->leaks));
    if (split->n_relations > 0) {
        SL_CHECK(search_relations(dataset, s));
    }
    search_list(s, &split->list[SL_LINKS_VALID], SL_LINKS_VALID);
    search_list(s, &split->list[SL_LINKS_TEST], SL_LINKS_TEST);
    return SL_OK;
}

static enum sl_status refuse(const struct sl_dataset *dataset, const struct search *s, const char *where)
{
    const struct sl_links *links = &dataset->links.list[s->list];
    return sl_fail(
        SL_EFILE,
        "%s: %u links to find are edges of the graph, in one direction or the other; the first is %u,%u of %s; "
        "expected a graph without them (--drop-leaks drops these edges)",
        where, s->n, links->from[s->place], links->to[s->place], sl_links_name(s->list));
}

static enum sl_status drop_edges(struct sl_dataset *dataset, const struct search *s)
{
    struct sl_graph rest;
    SL_CHECK(sl_graph_copy_rest(&dataset->graph, s->leaks, &rest));
    sl_graph_free(&dataset->graph);
    dataset->graph = rest;
    return SL_OK;
}

static void tell(const char *where, const struct sl_links_dropped *dropped, uint32_t n_edges)
{
    if (n_edges + dropped->n_trained + dropped->n_repeated + dropped->n_negatives > 0) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: --drop-leaks: %u links to find were edges, and %u training links links to find: dropped there; "
                  "dropped, too: %u links of valid that test has, or listed twice, and %u negatives that are links",
                  where, n_edges, dropped->n_trained, dropped->n_repeated, dropped->n_negatives);
    }
}

/* Check the lists. If directions mean nothing and no list has both, a pair becomes the same in both. */
static enum sl_status check_lists(struct sl_link_split *split, bool both_ways, const char *where)
{
    if (split->directed && both_ways) {
        split->directed = false;
        enum sl_status st = sl_links_check(split, where);
        if (st != SL_EFILE) {
            return st;
        }
        split->directed = true;
    }
    return sl_links_check(split, where);
}

enum sl_status sl_leaks_settle(struct sl_dataset *dataset, bool drop, const char *where)
{
    struct sl_link_split *split = &dataset->links;
    struct sl_links_dropped dropped = {0};
    SL_OWNED(free_search) struct search search = {0};
    bool both_ways = split->n_relations == 0;
    if (!sl_dataset_has_links(dataset)) {
        return SL_OK;
    }
    if (both_ways && split->directed) {
        SL_CHECK(is_mutual(dataset, &both_ways));
    }
    if (drop) {
        SL_CHECK(sl_links_drop_repeats(split, both_ways, &dropped));
    }
    SL_CHECK(check_lists(split, both_ways, where));
    SL_CHECK(search_graph(dataset, both_ways, &search));
    if (search.n > 0 && !drop) {
        return refuse(dataset, &search, where);
    }
    if (search.n > 0) {
        SL_CHECK(drop_edges(dataset, &search));
    }
    if (drop) {
        tell(where, &dropped, search.n);
    }
    return SL_OK;
}
