/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Leaks: links to find that the model reads from the edges.
 */
#ifndef SL_DATA_LEAKS_H
#define SL_DATA_LEAKS_H

#include "data/dataset.h"

/* Check the lists of links (sl_links_check), and that no link to find is an edge of the graph. A reverse edge counts
 * if direction means nothing: the graph is undirected, or every edge has its reverse, but for links to find. In a typed
 * graph edges of the link's relation count, their added reverses, and the edges of a relation without lists that has
 * nothing but reverses of the link's relation.
 *
 * drop: instead of refusing, drop such edges, and what sl_links_drop_repeats drops, with a notice of the numbers.
 * `where` starts the messages. A dataset without links is left alone. SL_EFILE, SL_ENOMEM. */
enum sl_status sl_leaks_settle(struct sl_dataset *dataset, bool drop, const char *where);

#endif
