/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Filtered ranks of triples. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <stdlib.h>

#include "support/compare.h"
#include "support/memory.h"

#define TILE 32 /* triples that are ranked at a time */

/* A triple, seen from the end that a candidate replaces. */
struct sl_known_triple {
    uint64_t key; /* relation and the other end */
    sl_vertex end;
};

static uint64_t key_of(uint32_t relation, sl_vertex other)
{
    return (uint64_t)relation << 32 | other;
}

static int compare(const void *a, const void *b)
{
    const struct sl_known_triple *x = a;
    const struct sl_known_triple *y = b;
    return sl_order(x->key, y->key, x->end, y->end);
}

static size_t drop_repeated(struct sl_known_triple *known, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || compare(&known[kept - 1], &known[i]) != 0) {
            known[kept++] = known[i];
        }
    }
    return kept;
}

static enum sl_status list_known(uint32_t n_lists, const struct sl_links *const *lists, const sl_vertex *dataset_ids,
                                 int end, struct sl_triples *out)
{
    size_t n = 0;
    for (uint32_t k = 0; k < n_lists; k++) {
        n += lists[k]->n;
    }
    SL_CHECK(sl_alloc(n, sizeof *out->known[end], "known triples", &out->known[end]));
    n = 0;
    for (uint32_t k = 0; k < n_lists; k++) {
        for (uint32_t i = 0; i < lists[k]->n; i++) {
            const sl_vertex head = dataset_ids[lists[k]->from[i]];
            const sl_vertex tail = dataset_ids[lists[k]->to[i]];
            const uint32_t relation = lists[k]->relation[i];
            out->known[end][n++] =
                (struct sl_known_triple){key_of(relation, end == 0 ? tail : head), end == 0 ? head : tail};
        }
    }
    qsort(out->known[end], n, sizeof *out->known[end], compare);
    out->n[end] = drop_repeated(out->known[end], n);
    return SL_OK;
}

enum sl_status sl_triples_open(uint32_t n_lists, const struct sl_links *const *lists, const sl_vertex *dataset_ids,
                               struct sl_triples *out)
{
    SL_OWNED(sl_triples_close) struct sl_triples made = {0};
    *out = made;
    SL_CHECK(list_known(n_lists, lists, dataset_ids, 0, &made));
    SL_CHECK(list_known(n_lists, lists, dataset_ids, 1, &made));
    *out = SL_TAKE(made);
    return SL_OK;
}

void sl_triples_close(struct sl_triples *triples)
{
    sl_free(triples->known[0]);
    sl_free(triples->known[1]);
    *triples = (struct sl_triples){0};
}

/* The first known triple of a key. */
static const struct sl_known_triple *find(const struct sl_triples *triples, int end, uint64_t key)
{
    const struct sl_known_triple *known = triples->known[end];
    return known + sl_first_from(known, triples->n[end], sizeof *known, key);
}

/* Queries with the same candidates: the vertices first .. first + n - 1. */
struct batch {
    int end; /* that candidates replace */
    sl_vertex first;
    uint32_t n;
    uint32_t n_queries;
    const sl_real *row[TILE]; /* of the other end */
    uint32_t relation[TILE];
    sl_vertex other[TILE], target[TILE];
    sl_real *scores; /* [TILE x n] */
};

/* The rank of query q's target. NaN: its score is no number. */
static double rank_of(const struct sl_triples *triples, const struct batch *b, uint32_t q)
{
    const sl_real *scores = b->scores + (size_t)q * b->n;
    const sl_real score = scores[b->target[q] - b->first];
    const uint64_t key = key_of(b->relation[q], b->other[q]);
    const struct sl_known_triple *end = triples->known[b->end] + triples->n[b->end];
    uint32_t n_better = 0;
    uint32_t n_equal = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        n_better += scores[i] > score;
        n_equal += scores[i] == score;
    }
    for (const struct sl_known_triple *t = find(triples, b->end, key); t < end && t->key == key; t++) {
        n_better -= scores[t->end - b->first] > score;
        n_equal -= scores[t->end - b->first] == score;
    }
    return isnan((double)score) ? (double)NAN : 1 + n_better + 0.5 * n_equal;
}

static enum sl_status rank_batch(const struct sl_triples *triples, const struct sl_triple_scorer *scorer,
                                 struct batch *b, struct sl_pair_ranks *sum)
{
    const struct sl_queries queries = {b->n_queries, b->row, b->relation};
    const sl_real *candidates = scorer->rows + (size_t)b->first * scorer->decoder->n_columns;
    enum sl_status st = sl_decoder_compare(scorer->decoder, &queries, b->n, candidates, b->scores);
    for (uint32_t q = 0; st == SL_OK && q < b->n_queries; q++) {
        sl_pair_ranks_add(sum, rank_of(triples, b, q), 1);
    }
    b->n_queries = 0;
    return st;
}

/* Add a query for link i to the batch. False: the batch is full, or has other candidates. */
static bool add_query(const struct sl_triple_scorer *scorer, const struct sl_links *links, uint32_t i, struct batch *b)
{
    const struct sl_link_ends *ends = &scorer->ends[links->relation[i]];
    const sl_vertex head = scorer->dataset_ids[links->from[i]];
    const sl_vertex tail = scorer->dataset_ids[links->to[i]];
    const bool same = b->first == ends->first[b->end] && b->n == ends->n[b->end];
    const uint32_t q = b->n_queries;
    if (q > 0 && (q == TILE || !same)) {
        return false;
    }
    b->first = ends->first[b->end];
    b->n = ends->n[b->end];
    b->relation[q] = links->relation[i];
    b->other[q] = b->end == 0 ? tail : head;
    b->target[q] = b->end == 0 ? head : tail;
    b->row[q] = scorer->rows + (size_t)b->other[q] * scorer->decoder->n_columns;
    b->n_queries++;
    return true;
}

static enum sl_status rank_end(const struct sl_triples *triples, const struct sl_triple_scorer *scorer,
                               const struct sl_links *links, struct batch *b, struct sl_pair_ranks *sum)
{
    for (uint32_t i = 0; i < links->n; i++) {
        if (!add_query(scorer, links, i, b)) {
            SL_CHECK(rank_batch(triples, scorer, b, sum));
            add_query(scorer, links, i, b);
        }
    }
    return rank_batch(triples, scorer, b, sum);
}

/* Most candidates of any relation of the links. */
static uint32_t most_candidates(const struct sl_triple_scorer *scorer, const struct sl_links *links)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < links->n; i++) {
        const struct sl_link_ends *ends = &scorer->ends[links->relation[i]];
        for (int end = 0; end < 2; end++) {
            most = ends->n[end] > most ? ends->n[end] : most;
        }
    }
    return most;
}

enum sl_status sl_triples_rank(const struct sl_triples *triples, const struct sl_triple_scorer *scorer,
                               const struct sl_links *links, struct sl_pair_ranks *out)
{
    struct sl_pair_ranks sum = {{0}};
    struct batch b = {.end = 0};
    enum sl_status st;
    SL_TRY(st,
           sl_alloc((size_t)TILE * most_candidates(scorer, links), sizeof *b.scores, "scores of candidates", &b.scores),
           done);
    for (b.end = 0; b.end < 2; b.end++) {
        SL_TRY(st, rank_end(triples, scorer, links, &b, &sum), done);
    }
    sl_pair_ranks_mean(&sum, 2.0 * links->n);
    *out = sum;
done:
    sl_free(b.scores);
    return st;
}
