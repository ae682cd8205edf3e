/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Boundary vertices: those with a neighbour, one way or the other, in another chunk. Chunks read of each other these rows alone. Where
 * there are several slots and --recompute is on, they are packed (codelets/exchange.h) as soon as a layer has them, and only they are kept
 * for later slots, as history, and of the gradients for earlier slots; a chunk's other rows are computed again when it needs them.
 * So are in some epochs the sums of its other vertices alone, whose neighbours are its own: those of boundary vertices are kept. Of
 * ogbn-arxiv in 32 chunks that METIS made 56 % of the vertices are on a boundary.
 *
 * In the lists here a chunk's neighbours have the numbers of what it reads: its own vertices their ids, those of others N + i where i is
 * the vertex' place among all on a boundary. So lists keep their order, and sums their bits.
 */
#ifndef SL_RUNTIME_PIPE_BOUNDARY_H
#define SL_RUNTIME_PIPE_BOUNDARY_H

#include "runtime/pipe/graph.h"

struct sl_pipe_boundary_chunk {
    struct sl_pipe_lists in, out; /* by number; the offsets are the graph's */
    struct sl_pipe_lists inner;   /* in-neighbours, of the other vertices alone: these are all of the chunk */
    starpu_data_handle_t first;   /* uint32, K: of each chunk the number of the first row that this one reads there */
    starpu_data_handle_t rows;    /* those of its boundary vertices, a list for one who asks (codelets/sample.h) */
};

struct sl_pipe_boundary {
    uint32_t n_chunks;
    uint32_t *first;              /* K + 1: where a chunk's are, among all, */
    sl_vertex *vertices;          /* their ids, ascending */
    starpu_data_handle_t parts;   /* uint16, by number: the chunk */
    starpu_data_handle_t factors; /* sl_real, by number: the shards' */
    struct sl_pipe_boundary_chunk *chunk;
    /* memory behind the handles */
    uint16_t *part_of;
    sl_real *factor_of;
    sl_vertex *sources, *destinations; /* the latter NULL where the graph is symmetric */
    sl_vertex *inner_sources;
    uint64_t *inner_offsets; /* N + 1 */
    uint32_t *first_of;      /* K x K */
    uint32_t *lists;
};

/* How many vertices are on a boundary of the partition's parts. SL_ENOMEM. */
enum sl_status sl_pipe_boundary_count(const struct sl_partition *partition, uint32_t *n_out);

/* The shards, which are weighed, and the graph are borrowed. SL_EINVAL: the graph has more vertices than there are numbers. SL_ENOMEM.
 * What there is then is for close. */
enum sl_status sl_pipe_boundary_open(const struct sl_shards *shards, const struct sl_pipe_graph *graph,
                                     struct sl_pipe_boundary *out);

/* Wait for the readers, release. An empty struct is allowed. */
void sl_pipe_boundary_close(struct sl_pipe_boundary *boundary);

/* Boundary rows of a chunk. */
static inline uint32_t sl_pipe_boundary_rows(const struct sl_pipe_boundary *boundary, uint32_t q)
{
    return boundary->first[q + 1] - boundary->first[q];
}

#endif
