/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All edges over several ranks: each computes the rows of its own parts, layer by layer, and gets of the others' those that its edges
 * come from, its halo. Which these are does not change: the lists are made once for a run. Evaluation has the halo of in-edges, and so has
 * full-graph training, whose way back has one of out-edges besides (runtime/pipe/graph.h).
 *
 * A message is a piece of the rows, and where a layer asks for that of a slice of their columns: a rank then has few columns of its halo at a
 * time. Few pieces wait to be sent at a time: the next ones are packed into their memory.
 *
 * In a pass the rows of another rank's part q are those of the halo alone, in ascending order, and vertices are numbered by what is
 * there: part q's begin at first[q]. Edges are not held twice: for the time of a pass their sources are these numbers, in place, as
 * nobody samples meanwhile; where nobody samples at all, for good. Lists keep their order, so that sums are one process's.
 */
#ifndef SL_RUNTIME_FULL_HALO_H
#define SL_RUNTIME_FULL_HALO_H

#include "codelets/rows.h"
#include "codelets/task.h"
#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* Rows of an own part that go to a rank. */
struct sl_halo_list {
    uint32_t part, rank;
    uint32_t n;
    starpu_data_handle_t rows; /* their numbers in the part */
};

/* Vertices of this rank's own, and those of others that it needs. */
struct sl_halo_ids {
    sl_vertex own, own_end; /* ids own .. own_end - 1 */
    uint32_t n;             /* needed */
    sl_vertex *list;        /* ascending */
    uint64_t *words;        /* a bit for each vertex of the graph that is needed, */
    uint32_t *before;       /* and how many are before each word */
};

struct sl_halo {
    uint32_t n_parts, n_ranks;
    uint32_t rank;
    bool entered;         /* for good */
    uint32_t *first_part; /* R + 1: rank r evaluates parts first_part[r] .. first_part[r + 1] - 1 */
    struct sl_halo_ids ids;
    uint32_t *first;                   /* G + 1 */
    starpu_data_handle_t first_handle; /* over it */
    starpu_data_handle_t factors;      /* sl_real [own and halo rows x 2]; NULL where the shards have none */
    uint32_t n_lists;
    struct sl_halo_list *list;
    /* memory behind the handles */
    sl_real *factor_of;
    uint32_t *asked;
};

/* The shards are held as the plan says, and weighed if they are to be. graph: the lists of own vertices, by id. Collective, as
 * sl_ranks_broadcast. SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_halo_open(const struct sl_plan *plan, const struct sl_shards *shards, const struct sl_graph *graph,
                            struct sl_halo *out);

/* Wait for the readers, unregister, release. An empty struct is allowed. */
void sl_halo_close(struct sl_halo *halo);

/* Before a pass and after it, when no task runs: the sources of own edges become its numbers, and ids again. After sl_halo_stay, which
 * makes them numbers for good, the first two do nothing. */
void sl_halo_enter(const struct sl_halo *halo, const struct sl_graph *graph);
void sl_halo_leave(const struct sl_halo *halo, const struct sl_graph *graph);
void sl_halo_stay(struct sl_halo *halo, const struct sl_graph *graph);

/* The parts of this rank: begin .. end - 1. */
static inline uint32_t sl_halo_begin(const struct sl_halo *halo)
{
    return halo->first_part[halo->rank];
}
static inline uint32_t sl_halo_end(const struct sl_halo *halo)
{
    return halo->first_part[halo->rank + 1];
}

/* How many rows there are of part q; the vertex whose row is row r of it. */
static inline uint32_t sl_halo_rows(const struct sl_halo *halo, uint32_t q)
{
    return halo->first[q + 1] - halo->first[q];
}
sl_vertex sl_halo_id(const struct sl_halo *halo, uint32_t q, uint32_t r);

#define SL_HALO_SLICES 8 /* messages' tags have three bits for them */

/* What the messages of a layer have in common. */
struct sl_halo_layer {
    uint32_t number;
    uint32_t width;    /* columns of a message */
    uint32_t n_slices; /* at most SL_HALO_SLICES, each of width columns but for the last, whose rows may end in zeros */
    size_t element;    /* bytes of a number */
    bool back;         /* of the way back */
    bool aside;        /* of a second pass, while the first one's messages are on their way */
    bool whole;        /* what is needed of a part is one matrix, and one message */
};

/* Submit a layer's messages. One thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM.
 * send: what others need of the rows of own part q, all slices one after the other.
 * receive: one slice of what is needed of part q, another rank's, into *rows: at first empty ones, or as sl_rows_keep left them; a further
 * slice is received when those who read the one before, which have been submitted, are done. */
enum sl_status sl_halo_send(const struct sl_halo *halo, const struct sl_task_args *head,
                            const struct sl_halo_layer *layer, uint32_t q, const struct sl_rows *rows);
enum sl_status sl_halo_receive(const struct sl_halo *halo, const struct sl_halo_layer *layer, uint32_t q,
                               uint32_t slice, struct sl_rows *rows);

#endif
