/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LABOR's keys, computed in vector lanes, and the smallest keys of each list. */
#include "codelets/sampling/labor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/minmax.h"
#include "support/philox.h"

#define LANES SL_PHILOX_LANES
#define FEW SL_LABOR_FEW
#define CANDIDATES 128    /* candidates kept at a time */
#define KEYS (32 * LANES) /* keys computed at a time */

_Static_assert(CANDIDATES % LANES == 0 && CANDIDATES >= FEW + LANES, "the best of a list and what comes next");

/* ---- keys ---- */

/* A number in (0, 1) from two words, as sl_unit_open computes it. For an integer i < 2^52, the double
 * 2^52 + i has the bits of the double 2^52, plus i. */
SL_INLINE double unit_of(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 12 | UINT64_C(0x4330000000000000);
    double shifted;
    memcpy(&shifted, &bits, sizeof shifted);
    return ((shifted - 0x1p52) + 0.5) * 0x1p-52;
}

SL_INLINE void draw_units(const struct sl_draw *draw, const uint32_t *vertices, uint32_t number,
                          double *restrict units_out)
{
    uint32_t words[4][LANES];
    sl_random4_lanes(draw, vertices, number, words);
    for (uint32_t l = 0; l < LANES; l++) {
        units_out[l] = unit_of(words[0][l], words[1][l]);
    }
}

/* Compute the middle of the distribution in vectors. The tails, one lane in twenty, are computed one by one. */
SL_INLINE void find_quantiles(const double *restrict units, double *restrict normal_out)
{
    for (uint32_t l = 0; l < LANES; l++) {
        normal_out[l] = sl_normal_quantile_middle(units[l]);
    }
    for (uint32_t l = 0; l < LANES; l++) {
        if (sl_normal_in_tail(units[l])) {
            normal_out[l] = sl_normal_quantile_tail(units[l]);
        }
    }
}

/* sl_labor_key of LANES vertices. */
SL_INLINE void make_keys(const struct sl_labor_turn *turn, const uint32_t *vertices, double *restrict keys_out)
{
    double u[LANES], v[LANES], x[LANES], y[LANES];
    if (turn->sine == 0) {
        draw_units(&turn->first, vertices, turn->draw, keys_out);
        return;
    }
    draw_units(&turn->first, vertices, turn->draw, u);
    draw_units(&turn->second, vertices, turn->draw, v);
    find_quantiles(u, x);
    find_quantiles(v, y);
    for (uint32_t l = 0; l < LANES; l++) {
        keys_out[l] = turn->cosine * x[l] + turn->sine * y[l];
    }
}

/* In-neighbours whose keys are computed together. */
struct keyed {
    uint32_t n;
    uint32_t vertices[KEYS]; /* dataset ids */
    double keys[KEYS];
};

SL_INLINE void append(const sl_vertex *dataset_ids, uint32_t n, const sl_vertex *ids, struct keyed *keyed)
{
    for (uint32_t i = 0; i < n; i++) {
        keyed->vertices[keyed->n + i] = dataset_ids[ids[i]];
    }
    keyed->n += n;
}

/* Fills the last vector with vertex 0; its extra keys are not used. */
SL_INLINE void make_all_keys(const struct sl_labor_turn *turn, struct keyed *keyed)
{
    for (uint32_t i = keyed->n; i % LANES != 0; i++) {
        keyed->vertices[i] = 0;
    }
    for (uint32_t i = 0; i < keyed->n; i += LANES) {
        make_keys(turn, keyed->vertices + i, keyed->keys + i);
    }
}

/* ---- few picks: by counting ---- */

/* In-neighbours of a list that may be picked: all so far with keys below the bound, or the k best of them. */
struct candidates {
    uint32_t k, n;
    double bound;
    double keys[CANDIDATES];
    uint32_t positions[CANDIDATES];
};

/* For each key, count the smaller keys and the equal keys before it. */
SL_INLINE void rank(uint32_t n, double *restrict keys, uint64_t *restrict ranks_out)
{
    const uint64_t n_whole = (n + 7) / 8 * 8;
    for (uint64_t i = n; i < n_whole; i++) {
        keys[i] = INFINITY;
    }
    memset(ranks_out, 0, n_whole * sizeof *ranks_out);
    for (uint64_t j = 0; j < n; j++) {
        const double key = keys[j];
        for (uint64_t i = 0; i < n_whole; i++) {
            ranks_out[i] += (key < keys[i]) | ((key == keys[i]) & (j < i));
        }
    }
}

/* Keep the k best, ordered by position. The bound becomes the worst of their keys: a later equal key would not be
 * picked. */
SL_INLINE void keep_best(struct candidates *c)
{
    uint64_t ranks[CANDIDATES];
    uint32_t n = 0;
    rank(c->n, c->keys, ranks);
    for (uint32_t i = 0; i < c->n; i++) {
        c->bound = ranks[i] == c->k - 1 ? c->keys[i] : c->bound;
        c->keys[n] = c->keys[i];
        c->positions[n] = c->positions[i];
        n += ranks[i] < c->k;
    }
    c->n = n;
}

/* Offer n in-neighbours, beginning with `position`. Without a branch, since whether a key is below the bound is
 * random. */
SL_INLINE void offer(uint32_t n, const double *keys, uint32_t position, struct candidates *c)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t end = n - i < LANES ? n : i + LANES;
        if (c->n + LANES > CANDIDATES) {
            keep_best(c);
        }
        for (uint32_t j = i; j < end; j++) {
            c->keys[c->n] = keys[j];
            c->positions[c->n] = position + j;
            c->n += keys[j] < c->bound;
        }
    }
}

/* A bound below which at least k of `degree` keys nearly always lie: two standard deviations above the mean of the
 * k-th smallest key. */
SL_INLINE double guess_bound(const struct sl_labor_turn *turn, uint32_t k, uint32_t degree)
{
    const double share = (k + 2 * sqrt(k) + 2) / degree;
    if (share >= 1) {
        return INFINITY;
    }
    return turn->sine == 0 ? share : sl_normal_quantile(share);
}

SL_INLINE void write_picks(struct candidates *c, uint32_t *picked_out)
{
    if (c->n > c->k) {
        keep_best(c);
    }
    memcpy(picked_out, c->positions, c->k * sizeof *picked_out);
}

/* ---- many picks: by a heap ---- */

static int pick_less(const struct sl_labor_pick *a, const struct sl_labor_pick *b)
{
    return a->key < b->key || (a->key == b->key && a->position < b->position);
}

/* Restore the max-heap order below entry i. */
static void sift_down(struct sl_labor_pick *heap, uint32_t n, uint32_t i)
{
    for (uint32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && pick_less(&heap[child], &heap[child + 1])) {
            child++;
        }
        if (!pick_less(&heap[i], &heap[child])) {
            return;
        }
        struct sl_labor_pick swapped = heap[i];
        heap[i] = heap[child];
        heap[child] = swapped;
        i = child;
    }
}

/* Offer n in-neighbours, beginning with `position`. */
static void offer_heap(uint32_t n, const double *keys, uint32_t position, uint32_t k, struct sl_labor_pick *heap)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_labor_pick pick = {.key = keys[i], .position = position + i};
        if (pick.position < k) {
            heap[pick.position] = pick;
            for (uint32_t j = pick.position == k - 1 ? k / 2 : 0; j-- > 0;) {
                sift_down(heap, k, j);
            }
        } else if (pick_less(&pick, &heap[0])) {
            heap[0] = pick;
            sift_down(heap, k, 0);
        }
    }
}

static void write_heap(uint32_t k, const struct sl_labor_pick *heap, uint32_t *picked_out)
{
    for (uint32_t i = 0; i < k; i++) {
        picked_out[i] = heap[i].position;
    }
    qsort(picked_out, k, sizeof *picked_out, sl_order_u32);
}

/* ---- lists ---- */

/* Offer keys to the heap or to the candidates, whichever k picks use. */
SL_INLINE void offer_to(uint32_t n, const double *keys, uint32_t position, struct candidates *c,
                        struct sl_labor_pick *heap)
{
    if (c->k <= FEW) {
        offer(n, keys, position, c);
    } else {
        offer_heap(n, keys, position, c->k, heap);
    }
}

/* Offer a whole list. If keys is NULL, compute the keys here, KEYS at a time. */
SL_INLINE void offer_list(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids,
                          const struct sl_labor_list *list, const double *keys, struct candidates *c,
                          struct sl_labor_pick *heap)
{
    struct keyed part;
    if (keys != NULL) {
        offer_to(list->degree, keys, 0, c, heap);
        return;
    }
    for (uint32_t first = 0; first < list->degree; first += part.n) {
        part.n = 0;
        append(dataset_ids, sl_min_u32(list->degree - first, KEYS), list->ids + first, &part);
        make_all_keys(turn, &part);
        offer_to(part.n, part.keys, first, c, heap);
    }
}

SL_INLINE void pick_list(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, uint32_t k,
                         const struct sl_labor_list *list, const double *keys, struct sl_labor_pick *heap)
{
    struct candidates c;
    double bound = guess_bound(turn, k, list->degree);
    do {
        c.k = k;
        c.n = 0;
        c.bound = bound;
        offer_list(turn, dataset_ids, list, keys, &c, heap);
        bound = INFINITY;
    } while (k <= FEW && c.n < k);
    if (k <= FEW) {
        write_picks(&c, list->picked_out);
    } else {
        write_heap(k, heap, list->picked_out);
    }
}

SL_CLONES void sl_labor_pick_cpu(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, uint32_t k, uint32_t n,
                                 const struct sl_labor_list *lists, struct sl_labor_pick *heap)
{
    struct keyed keyed;
    for (uint32_t l = 0; l < n;) {
        const uint32_t first = l;
        keyed.n = 0;
        while (l < n && lists[l].degree <= KEYS - keyed.n) {
            append(dataset_ids, lists[l].degree, lists[l].ids, &keyed);
            l++;
        }
        make_all_keys(turn, &keyed);
        uint32_t offset = 0;
        for (uint32_t i = first; i < l; i++) {
            pick_list(turn, dataset_ids, k, &lists[i], keyed.keys + offset, heap);
            offset += lists[i].degree;
        }
        if (l < n && lists[l].degree > KEYS) {
            pick_list(turn, dataset_ids, k, &lists[l++], NULL, heap);
        }
    }
}

/* ---- in proportion to weights ---- */

SL_INLINE uint32_t list_positive(uint32_t degree, const float *weights, uint32_t most, uint32_t *picked_out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < degree; i++) {
        if (weights[i] > 0 && n++ < most) {
            picked_out[n - 1] = i;
        }
    }
    return n;
}

/* sl_weighted_key of n <= KEYS in-neighbours; infinity for weight 0. */
SL_INLINE void make_weighted_keys(const struct sl_draw *draw, uint32_t vertex, const float *weights,
                                  const uint16_t *relations, struct keyed *keyed)
{
    for (uint32_t i = keyed->n; i % LANES != 0; i++) {
        keyed->vertices[i] = 0;
    }
    for (uint32_t i = 0; i < keyed->n && relations == NULL; i += LANES) {
        draw_units(draw, keyed->vertices + i, vertex, keyed->keys + i);
    }
    for (uint32_t i = 0; i < keyed->n && relations != NULL; i++) {
        const struct sl_draw own = sl_sample_draw_of(draw, relations[i]);
        keyed->keys[i] = sl_random_open(&own, keyed->vertices[i], vertex);
    }
    for (uint32_t i = 0; i < keyed->n; i++) {
        keyed->keys[i] = weights[i] > 0 ? -sl_ln(keyed->keys[i]) / (double)weights[i] : INFINITY;
    }
}

SL_CLONES uint32_t sl_weighted_pick_cpu(const struct sl_draw *draw, uint32_t vertex, const sl_vertex *dataset_ids,
                                        uint32_t k, const struct sl_labor_list *list, const float *weights,
                                        const uint16_t *relations, struct sl_labor_pick *heap)
{
    struct keyed part;
    const uint32_t n_positive = list_positive(list->degree, weights, k, list->picked_out);
    if (n_positive <= k) {
        return n_positive;
    }
    for (uint32_t first = 0; first < list->degree; first += part.n) {
        part.n = 0;
        append(dataset_ids, sl_min_u32(list->degree - first, KEYS), list->ids + first, &part);
        make_weighted_keys(draw, vertex, weights + first, relations != NULL ? relations + first : NULL, &part);
        offer_heap(part.n, part.keys, first, k, heap);
    }
    write_heap(k, heap, list->picked_out);
    return k;
}
