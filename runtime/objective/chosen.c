/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of chosen vertices: numbered, filled, gathered. */
#include "runtime/objective/chosen.h"

#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/ranks.h"
#include "tasks/task.h"

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

void sl_chosen_take(struct sl_chosen *c, sl_vertex first, uint32_t n, const sl_real *rows)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = c->row_of[first + i];
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
