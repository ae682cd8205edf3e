/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checking lists of links. */
#include "data/links.h"

#include <stdlib.h>
#include <string.h>

#include "data/graph.h"
#include "support/compare.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/random.h"

const char *sl_links_name(uint32_t file)
{
    static const char *const names[SL_N_LINK_FILES] = {"train",          "valid",         "test",
                                                       "valid_neg",      "test_neg",      "valid_head_neg",
                                                       "valid_tail_neg", "test_head_neg", "test_tail_neg"};
    return names[file];
}

enum sl_status sl_links_alloc(uint64_t n, bool typed, struct sl_links *out)
{
    SL_CHECK(sl_alloc(n + 1, sizeof *out->from, "links", &out->from));
    SL_CHECK(sl_alloc(n + 1, sizeof *out->to, "links", &out->to));
    if (typed) {
        SL_CHECK(sl_alloc(n + 1, sizeof *out->relation, "relations of links", &out->relation));
    }
    return SL_OK;
}

enum sl_status sl_links_copy(const struct sl_links *links, struct sl_links *out)
{
    SL_OWNED(sl_links_free) struct sl_links copy = {.n = links->n};
    *out = (struct sl_links){0};
    SL_CHECK(sl_links_alloc(links->n, links->relation != NULL, &copy));
    for (uint32_t i = 0; i < links->n; i++) {
        copy.from[i] = links->from[i];
        copy.to[i] = links->to[i];
    }
    if (links->relation != NULL) {
        memcpy(copy.relation, links->relation, links->n * sizeof *copy.relation);
    }
    *out = SL_TAKE(copy);
    return SL_OK;
}

/* ---- triples ---- */

enum sl_status sl_links_copy_ends(const struct sl_link_ends *ends, uint32_t n, uint32_t n_vertices,
                                  struct sl_link_ends **out)
{
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof **out, "ends of relations", out));
    for (uint32_t r = 0; r < n; r++) {
        (*out)[r] = (struct sl_link_ends){{0, 0}, {n_vertices, n_vertices}};
        if (ends != NULL) {
            (*out)[r] = ends[r];
        }
    }
    return SL_OK;
}

enum sl_status sl_links_set_ends(struct sl_link_split *split, uint32_t n_vertices, const char *where)
{
    uint32_t most = 0;
    for (uint32_t list = 0; list < SL_N_LINK_LISTS; list++) {
        const struct sl_links *links = &split->list[list];
        for (uint32_t i = 0; i < links->n && links->relation != NULL; i++) {
            most = sl_max_u32(most, links->relation[i]);
        }
    }
    SL_FAIL_IF(most >= SL_MAX_RELATIONS, SL_EFILE,
               "%s: found relation %u, expected at most %d relations, numbered from 0", where, most, SL_MAX_RELATIONS);
    split->n_relations = most + 1;
    return sl_links_copy_ends(NULL, most + 1, n_vertices, &split->ends);
}

/* Check one end of link i, 0 the head, and add the first id of its type. */
static enum sl_status place_end(const struct sl_link_split *split, const char *path, const struct sl_links *links,
                                uint32_t i, int end)
{
    const struct sl_link_ends *ends = &split->ends[links->relation[i]];
    sl_vertex *id = end == 0 ? &links->from[i] : &links->to[i];
    SL_FAIL_IF(*id >= ends->n[end], SL_EFILE, "%s:%u: expected a %s of relation %u, an id below %u, found %u", path,
               i + 1, end == 0 ? "head" : "tail", links->relation[i], ends->n[end], *id);
    *id += ends->first[end];
    return SL_OK;
}

enum sl_status sl_links_place(const struct sl_link_split *split, const char *path, struct sl_links *links)
{
    const bool typed = split->n_relations > 0;
    if (links->n == 0) {
        return SL_OK;
    }
    SL_FAIL_IF((links->relation != NULL) != typed, SL_EFILE,
               "%s:1: expected lines of %s, as in the training links, found %s", path,
               typed ? "head,relation,tail" : "source,destination", typed ? "2 numbers" : "3");
    for (uint32_t i = 0; typed && i < links->n; i++) {
        SL_FAIL_IF(links->relation[i] >= split->n_relations, SL_EFILE, "%s:%u: expected a relation below %u, found %u",
                   path, i + 1, split->n_relations, links->relation[i]);
        SL_CHECK(place_end(split, path, links, i, 0));
        SL_CHECK(place_end(split, path, links, i, 1));
    }
    return SL_OK;
}

/* Check that relations of links to find have training links. With own_ids other relations may have edges in raw/. */
static enum sl_status check_relations(const struct sl_link_split *split, const char *where)
{
    static const enum sl_link_list lists[] = {SL_LINKS_VALID, SL_LINKS_TEST};
    const struct sl_links *train = &split->list[SL_LINKS_TRAIN];
    SL_FREED bool *trained = NULL;
    SL_CHECK(sl_alloc_zero((size_t)split->n_relations + 1, sizeof *trained, "relations", &trained));
    for (uint32_t i = 0; i < train->n; i++) {
        trained[train->relation[i]] = true;
    }
    for (uint32_t r = 0; r < split->n_relations; r++) {
        SL_FAIL_IF(!trained[r] && !split->own_ids, SL_EFILE,
                   "%s: relation %u has no training link; expected one or more of each relation", where, r);
    }
    for (int k = 0; k < 2; k++) {
        const struct sl_links *links = &split->list[lists[k]];
        for (uint32_t i = 0; i < links->n; i++) {
            SL_FAIL_IF(!trained[links->relation[i]], SL_EFILE,
                       "%s: relation %u of %s (line %u) has no training link; expected one or more", where,
                       links->relation[i], sl_links_name(lists[k]), i + 1);
        }
    }
    return SL_OK;
}

/* ---- comparisons ---- */

static struct sl_link_entry entry_of(const struct sl_link_split *split, uint32_t list, uint32_t i)
{
    uint64_t from = split->list[list].from[i];
    uint64_t to = split->list[list].to[i];
    const uint32_t *relation = split->list[list].relation;
    bool swap = !split->directed && relation == NULL && from > to;
    return (struct sl_link_entry){swap ? to << 32 | from : from << 32 | to, relation == NULL ? 0 : relation[i], list,
                                  i};
}

static int compare_pairs(const void *a, const void *b)
{
    const struct sl_link_entry *x = a;
    const struct sl_link_entry *y = b;
    return sl_order(x->pair, y->pair, x->relation, y->relation);
}

static int compare_entries(const void *a, const void *b)
{
    const struct sl_link_entry *x = a;
    const struct sl_link_entry *y = b;
    const int order = compare_pairs(a, b);
    return order != 0 ? order : sl_order(x->list, y->list, x->place, y->place);
}

/* Two entries of the same pair, the first of the earlier list. */
static enum sl_status refuse(const struct sl_link_split *split, const struct sl_link_entry *a,
                             const struct sl_link_entry *b, const char *where)
{
    const char *first = sl_links_name(a->list);
    const char *second = sl_links_name(b->list);
    sl_vertex from = split->list[b->list].from[b->place];
    sl_vertex to = split->list[b->list].to[b->place];
    SL_FAIL_IF(b->list >= SL_LINKS_VALID_NEGATIVE, SL_EFILE,
               "%s: %s has the pair %u,%u (line %u), which is a link of %s; expected pairs without "
               "a link (--drop-leaks drops them)",
               where, second, from, to, b->place + 1, first);
    return sl_fail(
        SL_EFILE,
        "%s: %s has the link %u,%u (line %u), which is in %s, too; expected each link to find once (--drop-leaks "
        "drops leaks)",
        where, second, from, to, b->place + 1, first);
}

static bool is_wrong(const struct sl_link_entry *a, const struct sl_link_entry *b)
{
    bool both_train = b->list == SL_LINKS_TRAIN;
    bool both_negative = a->list >= SL_LINKS_VALID_NEGATIVE;
    return a->pair == b->pair && a->relation == b->relation && !both_train && !both_negative;
}

enum sl_status sl_links_sort(const struct sl_link_split *split, uint32_t first, uint32_t end,
                             struct sl_link_entry **out, size_t *n_out)
{
    size_t n = 1;
    for (uint32_t list = first; list < end; list++) {
        n += split->n_each[list] == 0 ? split->list[list].n : 0;
    }
    SL_CHECK(sl_alloc(n, sizeof **out, "links to compare", out));
    n = 0;
    for (uint32_t list = first; list < end; list++) {
        for (uint32_t i = 0; i < split->list[list].n && split->n_each[list] == 0; i++) {
            (*out)[n++] = entry_of(split, list, i);
        }
    }
    qsort(*out, n, sizeof **out, compare_entries);
    *n_out = n;
    return SL_OK;
}

bool sl_links_have(const struct sl_link_entry *entries, size_t n, uint64_t pair, uint32_t relation)
{
    const struct sl_link_entry wanted = {.pair = pair, .relation = relation};
    return bsearch(&wanted, entries, n, sizeof wanted, compare_pairs) != NULL;
}

enum sl_status sl_links_check(const struct sl_link_split *split, const char *where)
{
    SL_FREED struct sl_link_entry *entries = NULL;
    size_t n;
    if (split->n_relations > 0) {
        SL_CHECK(check_relations(split, where));
    }
    SL_CHECK(sl_links_sort(split, 0, SL_N_LINK_LISTS, &entries, &n));
    for (size_t i = 1; i < n; i++) {
        if (is_wrong(&entries[i - 1], &entries[i])) {
            return refuse(split, &entries[i - 1], &entries[i], where);
        }
    }
    return SL_OK;
}

/* Entries of equal pairs: the lists that have some, and the directions that a list has had so far. */
struct repeats {
    bool has[SL_N_LINK_LISTS];
    bool seen[SL_N_LINK_LISTS][2];
};

/* Whether an entry goes. */
static bool is_repeat(const struct sl_link_split *split, const struct sl_link_entry *e, struct repeats *r)
{
    const struct sl_links *links = &split->list[e->list];
    const bool to_find = r->has[SL_LINKS_VALID] || r->has[SL_LINKS_TEST];
    const int direction = split->directed && links->from[e->place] > links->to[e->place];
    const bool again = r->seen[e->list][direction];
    r->seen[e->list][direction] = true;
    switch ((enum sl_link_list)e->list) {
    case SL_LINKS_TRAIN: return to_find;
    case SL_LINKS_VALID: return again || r->has[SL_LINKS_TEST];
    case SL_LINKS_TEST: return again;
    default: return to_find || r->has[SL_LINKS_TRAIN];
    }
}

/* Mark what goes of entries first .. end - 1, whose pairs are equal. */
static void mark_repeats(const struct sl_link_split *split, const struct sl_link_entry *first,
                         const struct sl_link_entry *end, bool *const dropped[SL_N_LINK_LISTS],
                         struct sl_links_dropped *out)
{
    struct repeats repeats = {.has = {false}};
    for (const struct sl_link_entry *e = first; e < end; e++) {
        repeats.has[e->list] = true;
    }
    for (const struct sl_link_entry *e = first; e < end; e++) {
        if (is_repeat(split, e, &repeats)) {
            dropped[e->list][e->place] = true;
            out->n_trained += e->list == SL_LINKS_TRAIN;
            out->n_repeated += e->list == SL_LINKS_VALID || e->list == SL_LINKS_TEST;
            out->n_negatives += e->list >= SL_LINKS_VALID_NEGATIVE;
        }
    }
}

/* Negatives of each link go with the link. */
static void mark_own(const struct sl_link_split *split, bool *const dropped[SL_N_LINK_LISTS])
{
    for (int list = SL_LINKS_VALID; list <= SL_LINKS_TEST; list++) {
        const int negatives = list + SL_LINKS_VALID_NEGATIVE - SL_LINKS_VALID;
        const struct sl_links *links = &split->list[negatives];
        for (uint32_t i = 0; i < links->n && split->n_each[negatives] > 0; i++) {
            dropped[negatives][i] = dropped[list][i / (links->n / split->list[list].n)];
        }
    }
}

static void keep_rest(const bool *dropped, struct sl_links *links)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < links->n; i++) {
        links->from[n] = links->from[i];
        links->to[n] = links->to[i];
        if (links->relation != NULL) {
            links->relation[n] = links->relation[i];
        }
        n += !dropped[i];
    }
    links->n = n;
}

static void free_marks(bool *(*marks)[SL_N_LINK_LISTS])
{
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        sl_free((*marks)[list]);
    }
}

enum sl_status sl_links_drop_repeats(struct sl_link_split *split, bool both_ways, struct sl_links_dropped *out)
{
    struct sl_link_split compared = *split; /* pairs without a direction */
    SL_OWNED(free_marks) bool *dropped[SL_N_LINK_LISTS] = {NULL};
    SL_FREED struct sl_link_entry *entries = NULL;
    size_t n;
    compared.directed = split->directed && !both_ways;
    *out = (struct sl_links_dropped){0};
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        SL_CHECK(sl_alloc_zero((size_t)split->list[list].n + 1, sizeof(bool), "links", &dropped[list]));
    }
    SL_CHECK(sl_links_sort(&compared, 0, SL_N_LINK_LISTS, &entries, &n));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_pairs(&entries[i], &entries[end]) == 0; end++) {
        }
        mark_repeats(split, &entries[i], &entries[end], dropped, out);
    }
    mark_own(split, dropped);
    for (int list = 0; list < SL_N_LINK_LISTS; list++) {
        keep_rest(dropped[list], &split->list[list]);
    }
    return SL_OK;
}

#define MAX_TRIES 1000

/* What pairs are drawn from. */
struct drawing {
    struct sl_draw draw;
    const struct sl_graph *graph;
    bool directed;
    const struct sl_link_ends *ends;   /* of triples; else NULL */
    const struct sl_link_entry *links; /* all links, sorted */
    size_t n;
};

/* Draw both ends of pair i, or one end of a triple. */
static void draw_ends(const struct drawing *d, uint32_t i, const uint32_t bits[4], struct sl_links *out)
{
    if (d->ends == NULL) {
        out->from[i] = sl_random_below(bits[0], d->graph->n_vertices);
        out->to[i] = sl_random_below(bits[1], d->graph->n_vertices);
        return;
    }
    const struct sl_link_ends *ends = &d->ends[out->relation[i]];
    const int end = bits[2] & 1;
    sl_vertex *id = end == 0 ? &out->from[i] : &out->to[i];
    *id = ends->first[end] + sl_random_below(bits[end], ends->n[end]);
}

/* Draw a pair without a link, in place of link i. */
static enum sl_status draw_pair(const struct drawing *d, const struct sl_links *from, uint32_t i, struct sl_links *out)
{
    for (uint32_t t = 0; t < MAX_TRIES; t++) {
        uint32_t bits[4];
        sl_random4(&d->draw, i, t, bits);
        out->from[i] = from->from[i];
        out->to[i] = from->to[i];
        draw_ends(d, i, bits, out);
        bool ordered = d->directed || d->ends != NULL;
        uint64_t low = ordered ? out->from[i] : sl_min_u32(out->from[i], out->to[i]);
        uint64_t high = ordered ? out->to[i] : sl_max_u32(out->from[i], out->to[i]);
        const uint32_t relation = d->ends == NULL ? 0 : out->relation[i];
        if (out->from[i] != out->to[i] && !sl_links_have(d->links, d->n, low << 32 | high, relation) &&
            sl_graph_find_edge(d->graph, out->from[i], out->to[i], relation) == SL_NO_EDGE) {
            return SL_OK;
        }
    }
    return sl_fail(SL_EINVAL,
                   "negatives: found no pair without a link in %d draws, expected a split with negatives "
                   "(valid_neg, test_neg)",
                   MAX_TRIES);
}

enum sl_status sl_links_draw_negatives(const struct sl_link_split *split, enum sl_link_list list,
                                       const struct sl_graph *graph, struct sl_links *out)
{
    struct drawing d = {.draw = {.step = (uint64_t)list, .purpose = SL_FOR_SCORES},
                        .graph = graph,
                        .directed = split->directed,
                        .ends = split->ends};
    SL_OWNED(sl_links_free) struct sl_links drawn = {0};
    SL_FREED struct sl_link_entry *links = NULL;
    *out = (struct sl_links){0};
    SL_CHECK(sl_links_sort(split, 0, SL_LINKS_VALID_NEGATIVE, &links, &d.n));
    d.links = links;
    SL_CHECK(sl_links_copy(&split->list[list], &drawn));
    for (uint32_t i = 0; i < drawn.n; i++) {
        SL_CHECK(draw_pair(&d, &split->list[list], i, &drawn));
    }
    *out = SL_TAKE(drawn);
    return SL_OK;
}

uint64_t sl_links_hash(const struct sl_link_split *split)
{
    uint64_t sum = 0;
    for (uint32_t list = 0; list < SL_N_LINK_LISTS; list++) {
        const struct sl_links *links = &split->list[list];
        sum = sl_checksum(sum, &links->n, sizeof links->n);
        if (split->n_each[list] > 0) {
            sum = sl_checksum(sum, &split->n_each[list], sizeof split->n_each[list]);
        }
        if (links->n > 0) {
            sum = sl_checksum(sum, links->from, links->n * sizeof *links->from);
            sum = sl_checksum(sum, links->to, links->n * sizeof *links->to);
        }
        if (links->n > 0 && links->relation != NULL) {
            sum = sl_checksum(sum, links->relation, links->n * sizeof *links->relation);
        }
    }
    return sum;
}

void sl_links_free(struct sl_links *links)
{
    sl_free(links->from);
    sl_free(links->to);
    sl_free(links->relation);
    *links = (struct sl_links){0};
}

void sl_link_split_free(struct sl_link_split *split)
{
    for (uint32_t list = 0; list < SL_N_LINK_LISTS; list++) {
        sl_links_free(&split->list[list]);
    }
    sl_free(split->ends);
    *split = (struct sl_link_split){0};
}
