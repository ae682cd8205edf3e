/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * METIS's files (METIS manual, section 4.1): graphs and parts, as text.
 *
 * A .graph file has a line "vertices edges [format [constraints]]", then one line per vertex with its neighbours,
 * numbered from 1. Lines that begin with % are comments. The reader keeps the weights of edges. It skips the weights
 * and sizes of vertices, and gives notice of them (sl_on_notice). A part file has one part number per line.
 */
#ifndef SL_DATA_METIS_FILE_H
#define SL_DATA_METIS_FILE_H

#include <stdint.h>

#include "data/graph.h"
#include "data/raw.h"

/* Read a graph as a list of edges, with all labels unknown. METIS's graphs are undirected, so the file lists every edge
 * from both ends, and *out has both directions. SL_EIO. SL_EFILE: the file is not of this form (message: FILE:LINE and
 * the expected content). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_metis_read(const char *path, struct sl_raw *out);

/* Write a graph, without self loops: METIS does not allow self loops. The file is replaced atomically. SL_EINVAL:
 * the reverse of an edge is missing. SL_EIO, SL_ENOMEM. */
enum sl_status sl_metis_write_graph(const char *path, const struct sl_graph *graph);

/* Write the part of each of n_vertices vertices, one per line. The file is replaced atomically. SL_EIO, SL_ENOMEM. */
enum sl_status sl_metis_write_parts(const char *path, uint32_t n_vertices, const uint32_t *parts);

#endif
