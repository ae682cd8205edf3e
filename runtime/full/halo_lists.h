/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The halo: remote rows that a rank needs to work on all edges. A rank computes the rows of its own parts, layer by
 * layer. If an edge of the rank begins in another rank, the row of its source arrives in a message. The lists of halo
 * rows are built once per run. Evaluation and full-graph training have the halo of in-edges. Full-graph training also
 * has a halo of out-edges, for the backward pass (runtime/pipe/chunk_graph.h).
 *
 * A message is a piece: consecutive rows of a list, in one slice of columns if the layer asks for slices. Slices
 * bound the memory of the receiver, who stores few columns of its halo at a time. The sender has few pieces in flight
 * and packs the next ones into the same memory.
 *
 * During a pass, vertices have numbers that count only own vertices and the halo, in ascending order of ids. Part q's
 * numbers begin at first[q]; in a remote part, only rows of the halo count. Edges are not stored twice: during a
 * pass, these numbers overwrite the sources of the edges, because nothing samples then. In a run without sampling the
 * numbers stay. The lists keep their order, so sums have the bits of a run in one process.
 */
#ifndef SL_RUNTIME_FULL_HALO_LISTS_H
#define SL_RUNTIME_FULL_HALO_LISTS_H

#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"
#include "tasks/rows.h"
#include "tasks/task.h"

/* Rows of an own part that another rank needs. */
struct sl_halo_list {
    uint32_t part, rank;
    uint32_t n;
    /* The rows' indices in the part. */
    starpu_data_handle_t rows;
};

/* The vertices of this rank, and the remote vertices that it needs. */
struct sl_halo_ids {
    /* Own ids: own .. own_end - 1. */
    sl_vertex own, own_end;
    /* Number of needed vertices, and their ids in ascending order. */
    uint32_t n;
    sl_vertex *list;
    /* One bit per vertex of the graph, set if this rank needs the vertex. before[w]: number of bits set in words 0 ..
     * w - 1. */
    uint64_t *words;
    uint32_t *before;
};

struct sl_halo {
    uint32_t n_parts, n_ranks;
    uint32_t rank;
    /* sl_halo_stay was called: the sources of the edges are numbers, not ids, for the rest of the run. */
    bool entered;
    /* R + 1: rank r evaluates parts first_part[r] .. first_part[r + 1] - 1. */
    uint32_t *first_part;
    struct sl_halo_ids ids;
    /* G + 1: the first number of each part. */
    uint32_t *first;
    starpu_data_handle_t first_handle;
    /* sl_real [own and halo rows x 2]. NULL if the shards have no factors. */
    starpu_data_handle_t factors;
    uint32_t n_lists;
    struct sl_halo_list *list;
    /* Memory behind the handles. */
    sl_real *factor_of;
    uint32_t *asked;
};

/* Build the halo. The shards have the parts that the plan gives this rank; call sl_shards_weigh before if layers need
 * factors. graph: the neighbour lists of own vertices, by id. Collective, as sl_ranks_broadcast. SL_EIO, SL_ENOMEM.
 * On failure *out is empty. */
enum sl_status sl_halo_open(const struct sl_plan *plan, const struct sl_shards *shards, const struct sl_graph *graph,
                            struct sl_halo *out);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_halo_close(struct sl_halo *halo);

/* Turn the sources of own edges from ids into numbers (enter, before a pass) and back (leave, after it). sl_halo_stay
 * turns them into numbers for the rest of the run; enter and leave then do nothing. No task may be running. */
void sl_halo_enter(const struct sl_halo *halo, const struct sl_graph *graph);
void sl_halo_leave(const struct sl_halo *halo, const struct sl_graph *graph);
void sl_halo_stay(struct sl_halo *halo, const struct sl_graph *graph);

/* This rank's parts: begin .. end - 1. */
static inline uint32_t sl_halo_begin(const struct sl_halo *halo)
{
    return halo->first_part[halo->rank];
}
static inline uint32_t sl_halo_end(const struct sl_halo *halo)
{
    return halo->first_part[halo->rank + 1];
}

/* Number of rows of part q that this rank has during a pass; the vertex of row r of these. */
static inline uint32_t sl_halo_rows(const struct sl_halo *halo, uint32_t q)
{
    return halo->first[q + 1] - halo->first[q];
}
sl_vertex sl_halo_id(const struct sl_halo *halo, uint32_t q, uint32_t r);

#define SL_HALO_SLICES 8 /* the message tag has three bits for the slice */

/* The common properties of a layer's messages. */
struct sl_halo_layer {
    uint32_t number;
    /* Columns of a message. */
    uint32_t width;
    /* At most SL_HALO_SLICES. The last slice has `width` columns too; its rows may end in zeros. */
    uint32_t n_slices;
    enum sl_dtype dtype;
    /* Messages of the backward pass. */
    bool back;
    /* Messages of a second pass that runs while messages of the first pass are in flight. */
    bool aside;
    /* Send all needed rows of a part as one matrix in one message. */
    bool whole;
};

/* Submit a layer's messages. A single thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM.
 * send: the rows of own part q that remote ranks need, slice after slice.
 * receive: one slice of the needed rows of remote part q, into *rows. Before slice 0 *rows is empty or as
 * sl_rows_keep left it. A later slice overwrites the previous one once its submitted readers are done. */
enum sl_status sl_halo_send(const struct sl_halo *halo, const struct sl_task_args *head,
                            const struct sl_halo_layer *layer, uint32_t q, const struct sl_rows *rows);
enum sl_status sl_halo_receive(const struct sl_halo *halo, const struct sl_halo_layer *layer, uint32_t q,
                               uint32_t slice, struct sl_rows *rows);

#endif
