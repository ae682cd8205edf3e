/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * METIS's files (METIS manual, section 4.1): graphs and parts, as text.
 *
 * A .graph file is a line "vertices edges [format [constraints]]" and one line per vertex with its neighbours, numbered
 * from 1; lines that begin with % are comments. Weights and sizes are not used; a notice says so (sl_on_notice). A part file is one part number a line.
 */
#ifndef SL_PARTITION_METIS_FILE_H
#define SL_PARTITION_METIS_FILE_H

#include <stdint.h>

#include "partition/graph.h"

/* Read a graph: for METIS it is undirected, so every edge is there both ways. SL_EIO. SL_EFILE: the file does not hold
 * that (message: FILE:LINE, what was expected). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_metis_read_graph(const char *path, struct sl_graph *out);

/* Write a graph, without self loops, which METIS does not know. The file is replaced atomically.
 * SL_EINVAL: an edge's reverse is missing. SL_EIO, SL_ENOMEM. */
enum sl_status sl_metis_write_graph(const char *path, const struct sl_graph *graph);

/* Read the parts of n_vertices vertices, each below 65535, into parts[n_vertices]; *n_parts_out gets the largest + 1.
 * SL_EIO, SL_EFILE, SL_ENOMEM. */
enum sl_status sl_metis_read_parts(const char *path, uint32_t n_vertices, uint32_t *parts, uint32_t *n_parts_out);

/* Write them. The file is replaced atomically. SL_EIO, SL_ENOMEM. */
enum sl_status sl_metis_write_parts(const char *path, uint32_t n_vertices, const uint32_t *parts);

#endif
