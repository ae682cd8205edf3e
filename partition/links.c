/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checking lists of links. */
#include "partition/links.h"

#include <stdlib.h>

#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/random.h"

const char *sl_links_name(enum sl_link_list list)
{
    static const char *const names[SL_N_LINK_LISTS] = {"train", "valid", "test", "valid_neg", "test_neg"};
    return names[list];
}

enum sl_status sl_links_copy(const struct sl_links *links, struct sl_links *out)
{
    enum sl_status st;
    *out = (struct sl_links){.n = links->n};
    SL_TRY(st, sl_alloc((size_t)links->n + 1, sizeof *out->from, "links", &out->from), fail);
    SL_TRY(st, sl_alloc((size_t)links->n + 1, sizeof *out->to, "links", &out->to), fail);
    for (uint32_t i = 0; i < links->n; i++) {
        out->from[i] = links->from[i];
        out->to[i] = links->to[i];
    }
    return SL_OK;
fail:
    sl_links_free(out);
    return st;
}

/* ---- checks ---- */

/* A pair as a number, and its list. */
struct entry {
    uint64_t pair;
    uint32_t list, place;
};

static struct entry entry_of(const struct sl_link_split *split, uint32_t list, uint32_t i, bool directed)
{
    uint64_t from = split->list[list].from[i];
    uint64_t to = split->list[list].to[i];
    bool swap = !directed && from > to;
    return (struct entry){swap ? to << 32 | from : from << 32 | to, list, i};
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->pair != y->pair) {
        return x->pair < y->pair ? -1 : 1;
    }
    return (x->list > y->list) - (x->list < y->list);
}

/* Two entries of the same pair, the first of the earlier list. */
static enum sl_status refuse(const struct sl_link_split *split, const struct entry *a, const struct entry *b,
                             const char *where)
{
    const char *first = sl_links_name((enum sl_link_list)a->list);
    const char *second = sl_links_name((enum sl_link_list)b->list);
    sl_vertex from = split->list[b->list].from[b->place];
    sl_vertex to = split->list[b->list].to[b->place];
    if (b->list >= SL_LINKS_VALID_NEGATIVE) {
        return sl_fail(SL_EFILE,
                       "%s: %s has the pair %u,%u (line %u), which is a link of %s; expected pairs without "
                       "a link",
                       where, second, from, to, b->place + 1, first);
    }
    return sl_fail(SL_EFILE,
                   "%s: %s has the link %u,%u (line %u), which is in %s, too; expected each link to find once", where,
                   second, from, to, b->place + 1, first);
}

static bool is_wrong(const struct entry *a, const struct entry *b)
{
    bool both_train = b->list == SL_LINKS_TRAIN;
    bool both_negative = a->list >= SL_LINKS_VALID_NEGATIVE;
    return a->pair == b->pair && !both_train && !both_negative;
}

/* All pairs of the first n_lists lists, sorted. */
static enum sl_status sort_pairs(const struct sl_link_split *split, uint32_t n_lists, bool directed, struct entry **out,
                                 size_t *n_out)
{
    struct entry *entries;
    size_t n = 0;
    for (uint32_t list = 0; list < n_lists; list++) {
        n += split->list[list].n;
    }
    enum sl_status st = sl_alloc(n, sizeof *entries, "links to compare", &entries);
    if (st != SL_OK) {
        return st;
    }
    n = 0;
    for (uint32_t list = 0; list < n_lists; list++) {
        for (uint32_t i = 0; i < split->list[list].n; i++) {
            entries[n++] = entry_of(split, list, i, directed);
        }
    }
    qsort(entries, n, sizeof *entries, compare_entries);
    *out = entries;
    *n_out = n;
    return SL_OK;
}

enum sl_status sl_links_check(const struct sl_link_split *split, bool directed, const char *where)
{
    struct entry *entries;
    size_t n;
    enum sl_status st;
    SL_TRY(st, sort_pairs(split, SL_N_LINK_LISTS, directed, &entries, &n), done);
    for (size_t i = 1; i < n && st == SL_OK; i++) {
        if (is_wrong(&entries[i - 1], &entries[i])) {
            st = refuse(split, &entries[i - 1], &entries[i], where);
        }
    }
    sl_free(entries);
done:
    return st;
}

static int compare_pairs(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->pair;
    uint64_t y = ((const struct entry *)b)->pair;
    return (x > y) - (x < y);
}

#define MAX_TRIES 1000

/* Draw a pair without a link. links: all n of them, sorted. */
static enum sl_status draw_pair(const struct sl_draw *draw, uint32_t i, uint32_t n_vertices, bool directed,
                                const struct entry *links, size_t n, struct sl_links *out)
{
    for (uint32_t t = 0; t < MAX_TRIES; t++) {
        uint32_t bits[4];
        sl_random4(draw, i, t, bits);
        out->from[i] = sl_random_below(bits[0], n_vertices);
        out->to[i] = sl_random_below(bits[1], n_vertices);
        uint64_t low = directed ? out->from[i] : sl_min_u32(out->from[i], out->to[i]);
        uint64_t high = directed ? out->to[i] : sl_max_u32(out->from[i], out->to[i]);
        const struct entry pair = {.pair = low << 32 | high};
        if (out->from[i] != out->to[i] && bsearch(&pair, links, n, sizeof *links, compare_pairs) == NULL) {
            return SL_OK;
        }
    }
    return sl_fail(SL_EINVAL,
                   "negatives: found no pair without a link in %d draws, expected a split with negatives "
                   "(valid_neg, test_neg)",
                   MAX_TRIES);
}

enum sl_status sl_links_draw_negatives(const struct sl_link_split *split, enum sl_link_list list, uint32_t n_vertices,
                                       bool directed, struct sl_links *out)
{
    const struct sl_draw draw = {.step = (uint64_t)list, .purpose = SL_FOR_SCORES};
    struct entry *links = NULL;
    size_t n = 0;
    enum sl_status st;
    *out = (struct sl_links){0};
    SL_TRY(st, sort_pairs(split, SL_LINKS_VALID_NEGATIVE, directed, &links, &n), done);
    SL_TRY(st, sl_links_copy(&split->list[list], out), done);
    for (uint32_t i = 0; i < out->n && st == SL_OK; i++) {
        st = draw_pair(&draw, i, n_vertices, directed, links, n, out);
    }
    if (st != SL_OK) {
        sl_links_free(out);
    }
done:
    sl_free(links);
    return st;
}

uint64_t sl_links_hash(const struct sl_link_split *split)
{
    uint64_t sum = 0;
    for (uint32_t list = 0; list < SL_N_LINK_LISTS; list++) {
        const struct sl_links *links = &split->list[list];
        sum = sl_checksum(sum, &links->n, sizeof links->n);
        if (links->n > 0) {
            sum = sl_checksum(sum, links->from, links->n * sizeof *links->from);
            sum = sl_checksum(sum, links->to, links->n * sizeof *links->to);
        }
    }
    return sum;
}

void sl_links_free(struct sl_links *links)
{
    sl_free(links->from);
    sl_free(links->to);
    *links = (struct sl_links){0};
}

void sl_link_split_free(struct sl_link_split *split)
{
    for (uint32_t list = 0; list < SL_N_LINK_LISTS; list++) {
        sl_links_free(&split->list[list]);
    }
}
