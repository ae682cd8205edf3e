/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The lists of a halo, and the messages of a layer. */
#include "runtime/full/halo_lists.h"

#include <string.h>

#include "codelets/sampling/exchange.h"
#include "codelets/sums/aggregate.h"
#include "support/memory.h"
#include "tasks/ranks.h"

/* ---- needed rows and their numbers ---- */

static bool is_own(const struct sl_halo_ids *ids, sl_vertex id)
{
    return id >= ids->own && id < ids->own_end;
}

static bool is_needed(const struct sl_halo_ids *ids, sl_vertex id)
{
    return (ids->words[id / 64] >> id % 64 & 1) != 0;
}

static void mark_needed(const struct sl_graph *graph, struct sl_halo_ids *ids)
{
    for (uint64_t e = graph->offsets[ids->own]; e < graph->offsets[ids->own_end]; e++) {
        sl_vertex id = graph->sources[e];
        ids->words[id / 64] |= (uint64_t)!is_own(ids, id) << id % 64;
    }
}

static enum sl_status find_needed(const struct sl_shards *shards, const struct sl_graph *graph, uint32_t begin,
                                  uint32_t end, struct sl_halo_ids *out)
{
    const uint32_t *first = shards->partition->first;
    size_t n_words = (size_t)shards->n_vertices / 64 + 1;
    uint32_t n = 0;
    out->own = first[begin];
    out->own_end = first[end];
    SL_CHECK(sl_alloc_zero(n_words, sizeof *out->words, "vertices of other ranks", &out->words));
    SL_CHECK(sl_alloc(n_words, sizeof *out->before, "vertices of other ranks", &out->before));
    mark_needed(graph, out);
    for (size_t w = 0; w < n_words; w++) {
        out->before[w] = out->n;
        out->n += (uint32_t)__builtin_popcountll(out->words[w]);
    }
    SL_CHECK(sl_alloc((size_t)out->n + 1, sizeof *out->list, "vertices of other ranks", &out->list));
    for (size_t w = 0; w < n_words; w++) {
        for (uint64_t bits = out->words[w]; bits != 0; bits &= bits - 1) {
            out->list[n++] = (sl_vertex)(64 * w) + (sl_vertex)__builtin_ctzll(bits);
        }
    }
    return SL_OK;
}

/* Number of needed vertices with smaller ids. */
static uint32_t n_below(const struct sl_halo_ids *ids, sl_vertex id)
{
    uint64_t below = ids->words[id / 64] & ((UINT64_C(1) << id % 64) - 1);
    return ids->before[id / 64] + (uint32_t)__builtin_popcountll(below);
}

/* A vertex's number during a pass. Own rows stand between the needed rows of earlier and of later ranks. */
static uint32_t number_of(const struct sl_halo_ids *ids, sl_vertex id)
{
    uint32_t n = n_below(ids, id);
    if (is_own(ids, id)) {
        return n + id - ids->own;
    }
    return id < ids->own ? n : n + ids->own_end - ids->own;
}

/* The inverse. n_before: needed rows of earlier ranks. */
static sl_vertex id_of(const struct sl_halo_ids *ids, uint32_t n_before, uint32_t number)
{
    uint32_t n_own = ids->own_end - ids->own;
    if (number < n_before) {
        return ids->list[number];
    }
    return number - n_before < n_own ? ids->own + number - n_before : ids->list[number - n_own];
}

void sl_halo_enter(const struct sl_halo *halo, const struct sl_graph *graph)
{
    const struct sl_halo_ids *ids = &halo->ids;
    if (!halo->entered) {
        for (uint64_t e = graph->offsets[ids->own]; e < graph->offsets[ids->own_end]; e++) {
            graph->sources[e] = number_of(ids, graph->sources[e]);
        }
    }
}

void sl_halo_leave(const struct sl_halo *halo, const struct sl_graph *graph)
{
    const struct sl_halo_ids *ids = &halo->ids;
    uint32_t n_before = n_below(ids, ids->own);
    if (!halo->entered) {
        for (uint64_t e = graph->offsets[ids->own]; e < graph->offsets[ids->own_end]; e++) {
            graph->sources[e] = id_of(ids, n_before, graph->sources[e]);
        }
    }
}

sl_vertex sl_halo_id(const struct sl_halo *halo, uint32_t q, uint32_t r)
{
    return id_of(&halo->ids, n_below(&halo->ids, halo->ids.own), halo->first[q] + r);
}

void sl_halo_stay(struct sl_halo *halo, const struct sl_graph *graph)
{
    sl_halo_enter(halo, graph);
    halo->entered = true;
}

/* ---- open ---- */

static enum sl_status find_parts(const struct sl_plan *plan, struct sl_halo *out)
{
    SL_CHECK(sl_alloc_zero((size_t)plan->n_ranks + 1, sizeof *out->first_part, "parts of ranks", &out->first_part));
    for (uint32_t q = 0; q < plan->n_parts; q++) {
        out->first_part[sl_plan_scorer(plan, q) + 1] = q + 1;
    }
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        if (out->first_part[r + 1] < out->first_part[r]) { /* rank r has no parts */
            out->first_part[r + 1] = out->first_part[r];
        }
    }
    return SL_OK;
}

/* The first number of each part. */
static enum sl_status number_parts(const struct sl_partition *partition, struct sl_halo *out)
{
    SL_CHECK(sl_alloc((size_t)out->n_parts + 1, sizeof *out->first, "rows of other ranks", &out->first));
    for (uint32_t q = 0; q < out->n_parts; q++) {
        out->first[q] = number_of(&out->ids, partition->first[q]);
    }
    out->first[out->n_parts] = out->ids.n + out->ids.own_end - out->ids.own;
    out->first_handle = sl_vector_readable(out->first, (uint64_t)out->n_parts + 1, 4);
    return SL_OK;
}

/* Copy the factors of own and needed vertices, by number. */
static enum sl_status copy_factors(const struct sl_shards *shards, struct sl_halo *out)
{
    uint32_t n = out->first[out->n_parts];
    SL_CHECK(sl_alloc((size_t)n + 1, 2 * sizeof *out->factor_of, "vertex weights", &out->factor_of));
    for (sl_vertex id = 0; id < shards->n_vertices; id++) {
        if (is_own(&out->ids, id) || is_needed(&out->ids, id)) {
            memcpy(out->factor_of + 2 * (size_t)number_of(&out->ids, id), shards->factor_of + 2 * (size_t)id,
                   2 * sizeof *out->factor_of);
        }
    }
    out->factors = sl_matrix_over(out->factor_of, n == 0 ? 1 : n, 2, SL_DTYPE_REAL);
    starpu_data_set_sequential_consistency_flag(out->factors, 0);
    return SL_OK;
}

/* Number of ids needed from each rank. The list of needed ids is ordered by rank. */
static void count_needed(const struct sl_shards *shards, const struct sl_halo *halo, uint32_t *n_of)
{
    const uint32_t *first = shards->partition->first;
    for (uint32_t r = 0; r < halo->n_ranks; r++) {
        n_of[r] = n_below(&halo->ids, first[halo->first_part[r + 1]]) - n_below(&halo->ids, first[halo->first_part[r]]);
    }
}

/* Cut the ids that rank r requests, which ascend, into a list per part. Ids become row indices in place. */
static void cut_list(const struct sl_shards *shards, uint32_t r, uint32_t n, uint32_t *ids, struct sl_halo *out)
{
    const uint32_t *first = shards->partition->first;
    for (uint32_t q = sl_halo_begin(out), i = 0; q < sl_halo_end(out); q++) {
        uint32_t begin = i;
        for (; i < n && ids[i] < first[q + 1]; i++) {
            ids[i] -= first[q];
        }
        if (i > begin) {
            const starpu_data_handle_t rows = sl_vector_readable(ids + begin, i - begin, sizeof *ids);
            out->list[out->n_lists++] = (struct sl_halo_list){.part = q, .rank = r, .n = i - begin, .rows = rows};
        }
    }
}

/* Send each rank the ids needed from it, and receive the ids that it needs. */
static enum sl_status swap_lists(const struct sl_shards *shards, struct sl_halo *out)
{
    size_t n_ranks = out->n_ranks;
    size_t n_asked = 0;
    SL_FREED uint32_t *counts = NULL; /* needed from each rank, then requested by each rank */
    SL_CHECK(sl_alloc(2 * n_ranks, sizeof *counts, "rows of other ranks", &counts));
    count_needed(shards, out, counts);
    SL_CHECK(sl_ranks_swap(counts, out->ids.list, counts + n_ranks, &out->asked));
    SL_CHECK(sl_alloc(n_ranks * out->n_parts, sizeof *out->list, "rows for other ranks", &out->list));
    for (uint32_t r = 0; r < n_ranks; r++) {
        cut_list(shards, r, counts[n_ranks + r], out->asked + n_asked, out);
        n_asked += counts[n_ranks + r];
    }
    return SL_OK;
}

enum sl_status sl_halo_open(const struct sl_plan *plan, const struct sl_shards *shards, const struct sl_graph *graph,
                            struct sl_halo *out)
{
    enum sl_status st;
    *out = (struct sl_halo){.n_parts = plan->n_parts, .n_ranks = plan->n_ranks, .rank = plan->rank};
    SL_TRY(st, find_parts(plan, out), undo);
    SL_TRY(st, find_needed(shards, graph, sl_halo_begin(out), sl_halo_end(out), &out->ids), undo);
    SL_TRY(st, number_parts(shards->partition, out), undo);
    if (shards->factor_of != NULL) {
        SL_TRY(st, copy_factors(shards, out), undo);
    }
    SL_TRY(st, swap_lists(shards, out), undo);
    return SL_OK;
undo:
    sl_halo_close(out);
    return st;
}

void sl_halo_close(struct sl_halo *halo)
{
    for (uint32_t i = 0; i < halo->n_lists; i++) {
        sl_handle_close(halo->list[i].rows);
    }
    sl_handle_close(halo->first_handle);
    sl_handle_close(halo->factors);
    sl_free(halo->first_part);
    sl_free(halo->ids.list);
    sl_free(halo->ids.words);
    sl_free(halo->ids.before);
    sl_free(halo->first);
    sl_free(halo->list);
    sl_free(halo->factor_of);
    sl_free(halo->asked);
    *halo = (struct sl_halo){0};
}

/* ---- messages ---- */

#define PIECE_SHIFT 14 /* a piece has at least 2^14 rows */
#define N_WAITING 3    /* pieces of a list in flight */

/* Cut the rows from one part to one rank into pieces. Sender and receiver get the same pieces. */
static struct sl_split pieces_of(const struct sl_halo *halo, const struct sl_halo_layer *layer, uint32_t n_rows)
{
    if (layer->whole) {
        return sl_split_rows(n_rows, 1, 0);
    }
    return sl_split_rows(n_rows, SL_MAX_FULL_CHUNKS / halo->n_parts, PIECE_SHIFT);
}

/* The tag of a message, unique in a pass. */
static int64_t tag_of(const struct sl_halo_layer *layer, uint32_t slice, uint32_t q, uint32_t to, uint32_t piece)
{
    return SL_RANKS_TAGS_OF_HALOS + ((int64_t)slice << 58 | (int64_t)layer->aside << 57 | (int64_t)layer->back << 56 |
                                     (int64_t)layer->number << 48 | (int64_t)piece << 32 | (int64_t)q << 16 |
                                     (int64_t)to);
}

static void drop_packed(starpu_data_handle_t (*packed)[N_WAITING])
{
    for (uint32_t i = 0; i < N_WAITING; i++) {
        sl_handle_drop(&(*packed)[i]);
    }
}

/* Send a list's rows in pieces. N_WAITING buffers take turns: packing into a buffer waits until its previous piece
 * has been sent. */
static enum sl_status send_list(const struct sl_halo *halo, const struct sl_task_args *head,
                                const struct sl_halo_layer *layer, const struct sl_halo_list *list,
                                const struct sl_rows *rows)
{
    struct sl_split pieces = pieces_of(halo, layer, list->n);
    SL_OWNED(drop_packed) starpu_data_handle_t packed[N_WAITING] = {NULL};
    for (uint32_t i = 0; i < layer->n_slices * pieces.n_chunks; i++) {
        uint32_t slice = i / pieces.n_chunks;
        uint32_t c = i % pieces.n_chunks;
        uint32_t n = sl_split_size(&pieces, c);
        starpu_data_handle_t *piece = &packed[i % N_WAITING];
        if (*piece != NULL && sl_handle_rows(*piece) != n) { /* the last piece of a slice is shorter */
            sl_handle_drop(piece);
        }
        if (*piece == NULL) {
            SL_CHECK(sl_matrix_register(n, layer->width, layer->dtype, piece));
        }
        SL_CHECK(sl_pack_listed_submit(head, rows, slice * layer->width, list->rows, c << pieces.shift, *piece));
        int64_t tag = tag_of(layer, slice, list->part, list->rank, c);
        if (layer->whole) {
            SL_CHECK(sl_ranks_send(*piece, list->rank, tag));
        } else {
            SL_CHECK(sl_ranks_offer(*piece, list->rank, tag));
        }
    }
    return SL_OK;
}

enum sl_status sl_halo_send(const struct sl_halo *halo, const struct sl_task_args *head,
                            const struct sl_halo_layer *layer, uint32_t q, const struct sl_rows *rows)
{
    for (uint32_t i = 0; i < halo->n_lists; i++) {
        if (halo->list[i].part == q) {
            SL_CHECK(send_list(halo, head, layer, &halo->list[i], rows));
        }
    }
    return SL_OK;
}

/* The rank that evaluates part q. */
static uint32_t rank_of(const struct sl_halo *halo, uint32_t q)
{
    uint32_t r = 0;
    while (halo->first_part[r + 1] <= q) {
        r++;
    }
    return r;
}

enum sl_status sl_halo_receive(const struct sl_halo *halo, const struct sl_halo_layer *layer, uint32_t q,
                               uint32_t slice, struct sl_rows *rows)
{
    struct sl_split pieces = pieces_of(halo, layer, sl_halo_rows(halo, q));
    uint32_t from = rank_of(halo, q);
    if (slice == 0) {
        SL_CHECK(sl_rows_reshape(&pieces, layer->width, layer->dtype, rows));
    }
    for (uint32_t c = 0; c < pieces.n_chunks; c++) {
        SL_CHECK(sl_ranks_receive(rows->chunk[c], from, tag_of(layer, slice, q, halo->rank, c)));
    }
    return SL_OK;
}
