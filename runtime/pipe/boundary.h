/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Boundary vertices: vertices with an in-neighbour or out-neighbour in another chunk. Chunks read only boundary rows
 * of each other.
 *
 * With several pipeline slots and --recompute, a layer's boundary rows are packed (codelets/sampling/exchange.h) as
 * soon as they exist. Only packed rows are kept. Later slots and later epochs (history) read packed rows, and earlier
 * slots read packed gradients. A chunk computes its remaining rows again. In an epoch that makes a new history, the
 * sums of boundary vertices are kept, too. Then only the sums of inner vertices are computed again. All neighbours of
 * an inner vertex are in its own chunk. In ogbn-arxiv, cut into 32 chunks by METIS, 56 % of the vertices are on a
 * boundary.
 *
 * In the lists of this file a chunk's neighbours are numbered by the rows it reads. A vertex of the chunk itself has
 * its id. A vertex of another chunk has N + i, where i is its index among all boundary vertices. Lists keep their
 * order, so sums keep their bits.
 */
#ifndef SL_RUNTIME_PIPE_BOUNDARY_H
#define SL_RUNTIME_PIPE_BOUNDARY_H

#include "runtime/pipe/chunk_graph.h"

struct sl_pipe_boundary_chunk {
    /* In-neighbours and out-neighbours by number. The offsets are the graph's. */
    struct sl_pipe_lists in, out;
    /* In-neighbours of the inner vertices only. All of these belong to the chunk. */
    struct sl_pipe_lists inner;
    /* uint32 [K]: for each chunk, the number of its first row that this chunk may read. */
    starpu_data_handle_t first;
    /* Rows of the chunk's boundary vertices, as a list with a single requester (codelets/sampling/sample.h). */
    starpu_data_handle_t rows;
};

struct sl_pipe_boundary {
    uint32_t n_chunks;
    /* K + 1: index of each chunk's first boundary vertex among all boundary vertices. */
    uint32_t *first;
    /* Ids of the boundary vertices, ascending. */
    sl_vertex *vertices;
    /* uint16: the chunk of each vertex, indexed by number. */
    starpu_data_handle_t parts;
    /* sl_real: copies of the shards' factors, indexed by number. */
    starpu_data_handle_t factors;
    struct sl_pipe_boundary_chunk *chunk;
    /* Memory behind the handles. `destinations` is NULL if the graph is symmetric. */
    uint16_t *part_of;
    sl_real *factor_of;
    sl_vertex *sources, *destinations;
    sl_vertex *inner_sources;
    /* NULL: sums do not use weights. */
    float *inner_weights;
    /* N + 1. */
    uint64_t *inner_offsets;
    /* K x K. */
    uint32_t *first_of;
    uint32_t *lists;
};

/* Build all lists. The shards (after sl_shards_weigh) and the graph are borrowed. SL_EINVAL: more vertices than
 * 32-bit numbers. SL_ENOMEM. On failure, too, call sl_pipe_boundary_close. */
enum sl_status sl_pipe_boundary_open(const struct sl_shards *shards, const struct sl_pipe_graph *graph,
                                     struct sl_pipe_boundary *out);

/* Wait for the readers, free everything. An empty struct is allowed. */
void sl_pipe_boundary_close(struct sl_pipe_boundary *boundary);

/* Number of a chunk's boundary rows. */
static inline uint32_t sl_pipe_boundary_rows(const struct sl_pipe_boundary *boundary, uint32_t q)
{
    return boundary->first[q + 1] - boundary->first[q];
}

#endif
