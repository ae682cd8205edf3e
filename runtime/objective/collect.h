/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Outputs and targets of a set of the split, gathered from all ranks for scores.
 */
#ifndef SL_RUNTIME_OBJECTIVE_COLLECT_H
#define SL_RUNTIME_OBJECTIVE_COLLECT_H

#include "codelets/ends/pairs.h"
#include "data/links.h"
#include "runtime/objective/objective.h"

/* An output and its known target. */
struct sl_pair {
    sl_real z;
    float y;
};

/* Gather the known entries of a set (SL_SET_VALID, ..), column by column, at rank 0, and call `add` for each column
 * with its pairs, sorted by z, then by y: sums do not depend on how vertices are split. Other ranks call it with no or
 * with their own pairs. The shards' targets are numbers. Collective. SL_ENOMEM, SL_EIO, SL_ESTARPU, the failure of a
 * task. */
enum sl_status sl_outputs_columns(const struct sl_outputs *outputs, uint8_t set,
                                  void (*add)(void *context, struct sl_pair *pairs, size_t n), void *context);

/* Gather n pairs of each rank at rank 0, rank by rank: *n_out pairs (sl_free). Collective. SL_ENOMEM, SL_EIO. */
enum sl_status sl_pairs_gather(const struct sl_pair *mine, size_t n, struct sl_pair **out, size_t *n_out);

/* Area under the ROC curve: the probability that an entry with y = 1 has a larger z than an entry with y = 0. Ties
 * count half. NaN without both kinds, and if a z is nan. Sorts the pairs. */
double sl_pairs_area(struct sl_pair *pairs, size_t n);

/* Average precision as in scikit-learn: sum over the distinct z, from the largest down, of precision times the rise of
 * recall. NaN without both kinds, and if a z is nan. Sorts the pairs. */
double sl_pairs_precision(struct sl_pair *pairs, size_t n);

/* Scores of ranks: mrr, the mean of 1 / rank, and hits at K, the fractions of ranks up to K. */
#define SL_N_PAIR_RANKS 7
extern const char *const sl_pair_rank_names[SL_N_PAIR_RANKS];

struct sl_pair_ranks {
    double score[SL_N_PAIR_RANKS]; /* sums, until sl_pair_ranks_mean divides them */
};

/* Add n equal ranks. A rank that is nan makes all scores nan. */
void sl_pair_ranks_add(struct sl_pair_ranks *ranks, double rank, double n);

/* Divide the sums by the number of ranks. If it is 0, all scores become nan. */
void sl_pair_ranks_mean(struct sl_pair_ranks *ranks, double n);

/* Ranks of all entries with y = 1: 1 more than the number of entries with y = 0 and a larger z. Ties count half. All
 * scores are NaN without both kinds, and if a z is nan. Sorts the pairs. */
struct sl_pair_ranks sl_pairs_ranks(struct sl_pair *pairs, size_t n);

/* ---- rows of chosen vertices ---- */

/* Outputs of chosen vertices, such as the ends of links, gathered at rank 0. The rows are numbered in ascending order
 * of renumbered ids. Rank r evaluates vertices before rank r + 1, so a rank's rows are consecutive. */
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

/* Take the chosen ones of n rows, [n x n_columns], of the vertices `ids`. They are this rank's. */
void sl_chosen_take(struct sl_chosen *chosen, uint32_t n, const sl_vertex *ids, const sl_real *rows);

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

/* ---- triples.c ---- */

/* Filtered ranks of triples (Bordes et al. 2013): each triple is ranked among the triples that replace its tail by
 * every vertex of the tails' type, and among those that replace its head. Known triples, of any list, are left out. */

struct sl_known_triple;

/* The triples of all lists, ordered for each end. */
struct sl_triples {
    size_t n[2];
    struct sl_known_triple *known[2]; /* by relation and the other end of a head [0], of a tail [1] */
};

/* The triples of n_lists lists. Ends are mapped: the dataset id of end v is dataset_ids[v]. SL_ENOMEM. On failure *out
 * is empty. */
enum sl_status sl_triples_open(uint32_t n_lists, const struct sl_links *const *lists, const sl_vertex *dataset_ids,
                               struct sl_triples *out);
void sl_triples_close(struct sl_triples *triples);

/* What ranks are computed from. */
struct sl_triple_scorer {
    const struct sl_decoder *decoder;
    const sl_real *rows; /* the output of each vertex, by dataset id */
    const struct sl_link_ends *ends;
    const sl_vertex *dataset_ids;
};

/* The mean reciprocal rank, and the fractions of ranks up to 1, 3 and 10, over both ends of each link. The rank is
 * 1, plus the number of better candidates, plus half the number of equal ones. NaN: no link, or a score that is no
 * number. SL_ENOMEM. */
enum sl_status sl_triples_rank(const struct sl_triples *triples, const struct sl_triple_scorer *scorer,
                               const struct sl_links *links, struct sl_pair_ranks *out);

#endif
