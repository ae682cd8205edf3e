/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists of links in files.
 */
#ifndef SL_DATA_READ_LINKS_H
#define SL_DATA_READ_LINKS_H

#include "data/links.h"

/* Read a list of pairs of ids below n_vertices, or of triples (.csv). SL_EFILE, SL_EIO, SL_ENOMEM. On failure *out
 * is empty. */
enum sl_status sl_links_read(const char *path, uint32_t n_vertices, struct sl_links *out);

/* The same of a dataset whose vertices have names, a line each; NULL: none. If the first line of text begins with a
 * name, all lines are "name,name", quoted as in nodes.csv. Otherwise the ends are numbers. SL_EFILE also: no such
 * name. */
enum sl_status sl_links_read_named(const char *path, const char *names, uint32_t n_vertices, struct sl_links *out);

/* Read the lists of a split by list; a path may be NULL. n_vertices: of the dataset. Unless the split has its ends
 * already, triples get them. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_links_read_split(char *const paths[SL_N_LINK_LISTS], uint32_t n_vertices, struct sl_link_split *out);

#endif
