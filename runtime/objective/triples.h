/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Filtered ranks of triples (Bordes et al. 2013): each triple is ranked among the triples that replace its tail by
 * every vertex of the tails' type, and among those that replace its head. Known triples, of any list, are left out.
 */
#ifndef SL_RUNTIME_OBJECTIVE_TRIPLES_H
#define SL_RUNTIME_OBJECTIVE_TRIPLES_H

#include "codelets/pairs.h"
#include "data/links.h"
#include "runtime/objective/collect.h"

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
