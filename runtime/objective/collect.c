/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gathering, and scores of rankings. */
#include "runtime/objective/collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/ends/score.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- rows of a set ---- */

/* Rows of this rank's vertices in one set, in ascending order of ids. */
struct set_rows {
    uint32_t n;
    sl_vertex *id;
    sl_real *z; /* [n x n_outputs] */
};

static void close_rows(struct set_rows *rows)
{
    sl_free(rows->id);
    sl_free(rows->z);
}

static uint32_t count_rows(const struct sl_outputs *outputs, uint8_t set)
{
    const struct sl_shards *shards = outputs->shards;
    uint32_t n = 0;
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        const struct sl_output_chunk *chunk = &outputs->chunk[k];
        const uint8_t *sets = shards->set_of + shards->part[chunk->part].first + chunk->row;
        for (uint32_t i = 0; i < chunk->n; i++) {
            n += sets[i] == set;
        }
    }
    return n;
}

static void take_chunk(const struct sl_outputs *outputs, const struct sl_output_chunk *chunk, uint8_t set,
                       struct set_rows *out)
{
    const struct sl_shards *shards = outputs->shards;
    const sl_real *z = starpu_data_get_local_ptr(chunk->z);
    uint32_t width = shards->n_outputs;
    for (uint32_t i = 0; i < chunk->n; i++) {
        sl_vertex id = shards->part[chunk->part].first + chunk->row + i;
        if (shards->set_of[id] == set) {
            memcpy(out->z + (size_t)out->n * width, z + (size_t)i * width, width * sizeof *z);
            out->id[out->n++] = id;
        }
    }
}

static enum sl_status take_rows(const struct sl_outputs *outputs, uint8_t set, struct set_rows *out)
{
    size_t n = count_rows(outputs, set);
    SL_CHECK(sl_alloc(n, sizeof *out->id, "vertices of a set", &out->id));
    SL_CHECK(sl_alloc(n * outputs->shards->n_outputs, sizeof *out->z, "outputs of a set", &out->z));
    for (uint32_t k = 0; k < outputs->n_chunks; k++) {
        SL_CHECK(sl_chunk_acquire(&outputs->run->failure, outputs->chunk[k].z, STARPU_R));
        take_chunk(outputs, &outputs->chunk[k], set, out);
        starpu_data_release(outputs->chunk[k].z);
    }
    return SL_OK;
}

enum sl_status sl_pairs_gather(const struct sl_pair *mine, size_t n, struct sl_pair **out, size_t *n_out)
{
    double n_all = (double)n;
    SL_CHECK(sl_ranks_sum(1, &n_all));
    *n_out = sl_rank() == 0 ? (size_t)n_all : 0;
    SL_CHECK(sl_alloc(*n_out, sizeof **out, "outputs of all ranks", out));
    return sl_ranks_gather(mine, n * sizeof *mine, *out);
}

/* The known entries of column c. Returns their number. */
static size_t take_column(const struct sl_targets *targets, const struct set_rows *rows, uint32_t c,
                          struct sl_pair *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        float y = targets->numbers[(size_t)rows->id[i] * targets->width + c];
        if (!isnan(y)) {
            out[n++] = (struct sl_pair){rows->z[(size_t)i * targets->width + c], y};
        }
    }
    return n;
}

static int compare(double x, double y)
{
    if (isnan(x) || isnan(y)) {
        return (isnan(x) != 0) - (isnan(y) != 0); /* nan is the largest */
    }
    return (x > y) - (x < y);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct sl_pair *x = a;
    const struct sl_pair *y = b;
    const int by_z = compare((double)x->z, (double)y->z);
    return by_z != 0 ? by_z : compare((double)x->y, (double)y->y);
}

enum sl_status sl_outputs_columns(const struct sl_outputs *outputs, uint8_t set,
                                  void (*add)(void *context, struct sl_pair *pairs, size_t n), void *context)
{
    SL_OWNED(close_rows) struct set_rows rows = {0};
    SL_FREED struct sl_pair *mine = NULL;
    SL_CHECK(take_rows(outputs, set, &rows));
    SL_CHECK(sl_alloc(rows.n, sizeof *mine, "a column of outputs", &mine));
    if (outputs->shards->halo != NULL) {
        sl_ranks_drain();
    }
    for (uint32_t c = 0; c < outputs->shards->n_outputs; c++) {
        SL_FREED struct sl_pair *all = NULL;
        size_t n = 0;
        SL_CHECK(sl_pairs_gather(mine, take_column(&outputs->shards->targets, &rows, c, mine), &all, &n));
        if (n > 1) {
            qsort(all, n, sizeof *all, compare_pairs);
        }
        add(context, all, n);
    }
    return SL_OK;
}

/* ---- rankings ---- */

/* Sort the pairs. Returns false if a z is nan: it has no rank. */
static bool order(struct sl_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(pairs[i].z)) {
            return false;
        }
    }
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    return true;
}

/* Pairs with the same z. */
struct tie {
    double positive, negative;
    size_t end;
};

static struct tie tie_at(const struct sl_pair *pairs, size_t n, size_t i)
{
    struct tie tie = {0, 0, i};
    for (; tie.end < n && pairs[tie.end].z == pairs[i].z; tie.end++) {
        bool positive = pairs[tie.end].y > 0;
        tie.positive += positive;
        tie.negative += !positive;
    }
    return tie;
}

double sl_pairs_area(struct sl_pair *pairs, size_t n)
{
    double n_positive = 0;
    double n_negative = 0;
    double below = 0; /* pairs in the right order; ties count half */
    if (!order(pairs, n)) {
        return NAN;
    }
    for (size_t i = 0; i < n;) {
        struct tie tie = tie_at(pairs, n, i);
        below += tie.positive * (n_negative + tie.negative / 2);
        n_positive += tie.positive;
        n_negative += tie.negative;
        i = tie.end;
    }
    return n_positive > 0 && n_negative > 0 ? below / (n_positive * n_negative) : NAN;
}

double sl_pairs_precision(struct sl_pair *pairs, size_t n)
{
    double n_positive = 0;
    double found = 0;
    double seen = 0;
    double sum = 0;
    if (!order(pairs, n)) {
        return NAN;
    }
    for (size_t i = 0; i < n; i++) {
        n_positive += pairs[i].y > 0;
    }
    if (n_positive == 0 || n_positive == (double)n) {
        return NAN;
    }
    for (size_t end = n; end > 0;) {
        double before = found;
        sl_real z = pairs[end - 1].z;
        for (; end > 0 && pairs[end - 1].z == z; end--) {
            found += pairs[end - 1].y > 0;
            seen++;
        }
        sum += (found - before) / n_positive * (found / seen);
    }
    return sum;
}

const char *const sl_pair_rank_names[SL_N_PAIR_RANKS] = {"mrr",    "hits1",  "hits3",  "hits10",
                                                         "hits20", "hits50", "hits100"};

void sl_pair_ranks_add(struct sl_pair_ranks *ranks, double rank, double n)
{
    static const double most[SL_N_PAIR_RANKS] = {0, 1, 3, 10, 20, 50, 100};
    ranks->score[0] += n / rank;
    for (int i = 1; i < SL_N_PAIR_RANKS; i++) {
        ranks->score[i] += n * (isnan(rank) ? rank : rank <= most[i]);
    }
}

void sl_pair_ranks_mean(struct sl_pair_ranks *ranks, double n)
{
    for (int i = 0; i < SL_N_PAIR_RANKS; i++) {
        ranks->score[i] = n > 0 ? ranks->score[i] / n : (double)NAN;
    }
}

struct sl_pair_ranks sl_pairs_ranks(struct sl_pair *pairs, size_t n)
{
    struct sl_pair_ranks ranks = {{0}};
    size_t n_negative = 0;
    if (!order(pairs, n)) {
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        n_negative += !(pairs[i].y > 0);
    }
    double n_above = (double)n_negative;
    for (size_t i = 0; i < n && n_negative > 0;) {
        struct tie tie = tie_at(pairs, n, i);
        n_above -= tie.negative;
        sl_pair_ranks_add(&ranks, 1 + n_above + tie.negative / 2, tie.positive);
        i = tie.end;
    }
    sl_pair_ranks_mean(&ranks, n_negative > 0 ? (double)(n - n_negative) : 0);
    return ranks;
}

/* ---- rows of chosen vertices: numbered, filled, gathered ---- */

#define WINDOW_BYTES ((size_t)4 << 20) /* of rows that travel at a time */

enum sl_status sl_chosen_open(uint32_t n_vertices, uint32_t n_columns, struct sl_chosen *out)
{
    *out = (struct sl_chosen){.n_columns = n_columns};
    enum sl_status st =
        sl_alloc((size_t)n_vertices + 1, sizeof *out->row_of, "numbers of chosen vertices", &out->row_of);
    if (st == SL_OK) {
        memset(out->row_of, 0xff, n_vertices * sizeof *out->row_of);
    }
    return st;
}

void sl_chosen_add(struct sl_chosen *c, sl_vertex id)
{
    c->row_of[id] = 0;
}

enum sl_status sl_chosen_number(struct sl_chosen *c, uint32_t n_vertices, sl_vertex begin, sl_vertex end)
{
    c->n = c->first = c->end = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        if (c->row_of[v] != SL_NONE) {
            c->row_of[v] = c->n++;
            c->first += v < begin;
            c->end += v < end;
        }
    }
    const size_t n = sl_rank() == 0 ? c->n : c->end - c->first;
    return sl_alloc(n * c->n_columns, sizeof *c->rows, "outputs of chosen vertices", &c->rows);
}

/* The place of a row of this rank. Rank 0 has the first rows. */
static sl_real *own_row(const struct sl_chosen *c, uint32_t row)
{
    return c->rows + (size_t)(row - c->first) * c->n_columns;
}

void sl_chosen_take(struct sl_chosen *c, uint32_t n, const sl_vertex *ids, const sl_real *rows)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = c->row_of[ids[i]];
        if (row != SL_NONE) {
            memcpy(own_row(c, row), rows + (size_t)i * c->n_columns, c->n_columns * sizeof *rows);
        }
    }
}

/* Rows of a rank: first .. end - 1. */
struct span {
    uint32_t first, end;
};

static uint32_t in_window(struct span span, struct span window)
{
    const uint32_t first = sl_max_u32(span.first, window.first);
    const uint32_t end = sl_min_u32(span.end, window.end);
    return first < end ? end - first : 0;
}

/* Bring the rows of a window to rank 0. Rank 0 sends itself nothing: its rows are there. */
static enum sl_status gather_window(struct sl_chosen *c, struct span window)
{
    const struct span own = {c->first, c->end};
    const uint32_t n = in_window(own, window);
    if (sl_rank() == 0) {
        return sl_ranks_gather(NULL, 0, own_row(c, sl_max_u32(own.end, window.first)));
    }
    const sl_real *mine = n > 0 ? own_row(c, sl_max_u32(own.first, window.first)) : c->rows;
    return sl_ranks_gather(mine, n * c->n_columns * sizeof *mine, NULL);
}

enum sl_status sl_chosen_gather(struct sl_chosen *c)
{
    if (sl_n_ranks() == 1) {
        return SL_OK;
    }
    const uint32_t n_rows = (uint32_t)sl_min_u64(c->n, WINDOW_BYTES / (c->n_columns * sizeof *c->rows) + 1);
    struct span window = {0, 0};
    while (window.end < c->n) {
        window.first = window.end;
        window.end += sl_min_u32(n_rows, c->n - window.end);
        SL_CHECK(gather_window(c, window));
    }
    return SL_OK;
}

enum sl_status sl_chosen_score(const struct sl_chosen *c, const struct sl_decoder *decoder,
                               const struct sl_links *links, const sl_vertex *new_ids, uint32_t first, uint32_t *n_out,
                               double scores[SL_CHOSEN_TILE])
{
    const sl_real *from[SL_CHOSEN_TILE];
    const sl_real *to[SL_CHOSEN_TILE];
    *n_out = sl_min_u32(SL_CHOSEN_TILE, links->n - first);
    for (uint32_t k = 0; k < *n_out; k++) {
        const sl_vertex a = links->from[first + k];
        const sl_vertex b = links->to[first + k];
        from[k] = sl_chosen_row(c, new_ids != NULL ? new_ids[a] : a);
        to[k] = sl_chosen_row(c, new_ids != NULL ? new_ids[b] : b);
    }
    return sl_decoder_scores(decoder, *n_out, links->relation == NULL ? NULL : links->relation + first, from, to,
                             scores);
}

void sl_chosen_close(struct sl_chosen *c)
{
    sl_free(c->row_of);
    sl_free(c->rows);
    *c = (struct sl_chosen){0};
}
