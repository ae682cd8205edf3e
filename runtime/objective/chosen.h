/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Outputs of chosen vertices, such as the ends of links, gathered at rank 0. The rows are numbered in ascending order
 * of renumbered ids. Rank r evaluates vertices before rank r + 1, so a rank's rows are consecutive.
 */
#ifndef SL_RUNTIME_OBJECTIVE_CHOSEN_H
#define SL_RUNTIME_OBJECTIVE_CHOSEN_H

#include <stddef.h>

#include "codelets/pairs.h"
#include "data/links.h"
#include "support/real.h"
#include "support/status.h"

struct sl_chosen {
    uint32_t n_columns;
    uint32_t n;          /* vertices, of all ranks */
    uint32_t *row_of;    /* [N]: row of a vertex; SL_NONE: not chosen */
    sl_real *rows;       /* [n x n_columns] at rank 0; other ranks have the rows of their own vertices only */
    uint32_t first, end; /* this rank's rows: first .. end - 1 */
};

/* Begin without a vertex, of n_vertices. SL_ENOMEM. On failure sl_chosen_close frees what was made. */
enum sl_status sl_chosen_open(uint32_t n_vertices, uint32_t n_columns, struct sl_chosen *out);

/* Choose a vertex. A vertex may be chosen several times. Before sl_chosen_number. */
void sl_chosen_add(struct sl_chosen *chosen, sl_vertex id);

/* Number the rows, and make room for them. n_vertices: as for sl_chosen_open. begin .. end - 1: the vertices of this
 * rank. All ranks have chosen the same vertices. SL_ENOMEM. */
enum sl_status sl_chosen_number(struct sl_chosen *chosen, uint32_t n_vertices, sl_vertex begin, sl_vertex end);

/* Take the chosen ones of n consecutive rows, [n x n_columns], the first of vertex `first`. They are this rank's. */
void sl_chosen_take(struct sl_chosen *chosen, sl_vertex first, uint32_t n, const sl_real *rows);

/* Gather the rows at rank 0, a few MB at a time. Collective; no message is in flight. SL_EIO, SL_ENOMEM. */
enum sl_status sl_chosen_gather(struct sl_chosen *chosen);

/* At rank 0: the row of a chosen vertex. */
static inline const sl_real *sl_chosen_row(const struct sl_chosen *chosen, sl_vertex id)
{
    return chosen->rows + (size_t)chosen->row_of[id] * chosen->n_columns;
}

#define SL_CHOSEN_TILE 1024 /* links that are scored at a time */

/* At rank 0: score links first, first + 1, .. between chosen vertices: SL_CHOSEN_TILE of them, or the rest. Returns
 * their number in *n_out. new_ids: the id of each end; NULL: the ends are ids. The decoder's arrays are in main memory.
 * SL_ENOMEM. */
enum sl_status sl_chosen_score(const struct sl_chosen *chosen, const struct sl_decoder *decoder,
                               const struct sl_links *links, const sl_vertex *new_ids, uint32_t first, uint32_t *n_out,
                               double scores[SL_CHOSEN_TILE]);

void sl_chosen_close(struct sl_chosen *chosen);

#endif
