/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A ring slot: all buffers of one step's sampling phase as persistent handles over the slot's own memory, and the
 * handles of the rows that PEs exchange.
 *
 * A slot has room for the worst case, so no sample can be too large. A frontier has at most all vertices of the part,
 * and at most what the seeds reach by their fanouts. A block has at most fanout edges per row of the frontier, and at
 * most all in-edges of the part. The system gives no memory to pages that no step touches.
 */
#ifndef SL_RUNTIME_STORE_SLOT_H
#define SL_RUNTIME_STORE_SLOT_H

#include "codelets/sampling/ladies.h"
#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* The buffers of one PE. If another rank has the PE, here are only the buffers that it sends to this rank: `counts`,
 * the lists of importance and, if the PE's group has a PE of this rank, the requests of the blocks. The other handles
 * are NULL, except importance.costs, room and level in such a group. */
struct sl_slot_pe {
    /* uint32: ids of S_p^0, then the ids that hop 0 adds, then hop 1, .. */
    starpu_data_handle_t frontier;
    /* Bytes: codelets/sampling/exchange.h. */
    starpu_data_handle_t index;
    /* Bytes: codelets/sampling/sample.h. */
    starpu_data_handle_t marks;
    /* uint32: codelets/sampling/sample.h. */
    starpu_data_handle_t counts;
    /* uint32: the relation of each triple of hop 0's block. NULL: seeds are no triples. */
    starpu_data_handle_t link_relations;
    /* By codelets/sampling/importance.h or ladies.h. All handles are NULL if the shape has no importance. */
    struct sl_importance_handles importance;
    /* One per hop. */
    struct sl_block *block;
    /* [hop][G], one after the other in memory. packed: rows from each owner. sent: row gradients for each owner.
     * arrived and returned: their copies on another GPU (runtime/exchange/transport.h). Each step gives the matrices
     * new shapes (sl_matrix_reshape), while no task uses them. The last readers of a matrix are aggregate and
     * accumulate. They also read a block of the hop, and the next sampling phase of the slot waits for all readers of
     * blocks. */
    starpu_data_handle_t *packed, *sent;
    starpu_data_handle_t *arrived, *returned;
};

/* The buffers to lock in memory. StarPU's copies between locked buffers and GPUs stop no worker, but locked pages
 * take memory even if no step touches them. Each value includes the values before it. */
enum sl_slot_lock {
    SL_SLOT_LOCK_NONE,
    /* The buffers that the host reads in each step: counts. */
    SL_SLOT_LOCK_READ,
    /* All buffers, as CPU workers and GPUs share the tasks. */
    SL_SLOT_LOCK_ALL
};

/* A handle and its memory. */
struct sl_slot_memory {
    starpu_data_handle_t handle;
    void *data;
    size_t bytes;
    bool locked;
};

struct sl_slot {
    uint32_t n_pes;
    uint32_t n_hops;
    uint32_t n_parts;
    enum sl_slot_lock lock;
    struct sl_slot_pe *pe;
    /* [n_pes] of importance.list, then of importance.most. NULL if the shape has no importance. */
    starpu_data_handle_t *lists;
    /* uint64: the table of the edges that the step does not sample (codelets/sampling/sample.h). NULL: none. */
    starpu_data_handle_t excluded;
    struct sl_slot_memory *memory;
    uint32_t n_memory;
    /* Bytes of all buffers. */
    uint64_t n_bytes;
    /* Number of buffers that the system refused to lock; their copies are slower. */
    uint32_t n_refused;
};

/* The bounds of a slot's buffers. */
struct sl_slot_shape {
    const struct sl_plan *plan;
    const struct sl_shards *shards;
    /* Most seeds of a group in one step. */
    uint32_t n_seeds;
    /* Rows of a seed at level 0, each with one edge in hop 0, if seeds are links (codelets/sampling/link_seeds.h),
     * else 0. */
    uint32_t link_rows;
    /* Entries of the table of excluded edges; 0: no table. */
    uint32_t n_excluded;
    /* Steps take all in-edges. */
    bool full;
    /* By hop; hop 0 is at the seeds. */
    uint32_t fanout[SL_MAX_LAYERS];
    /* As in struct sl_steps. */
    uint32_t max_fanout;
    /* By hop: gradients return to its sources, so a block has its transpose. */
    bool returns[SL_MAX_LAYERS];
    /* A vertex may have more edges than in-edges. */
    bool replaced;
    /* Hops may sample by importance: blocks have weights, and any number of a vertex's in-edges. */
    bool importance;
    /* They draw layers of sources (codelets/sampling/ladies.h). */
    bool layers;
    /* They attend: transposed blocks have the rows of edges' features. */
    bool attends;
    enum sl_slot_lock lock;
};

/* Allocate and register all buffers. SL_EINVAL: a block could have 2^32 edges. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_slot_open(const struct sl_slot_shape *shape, struct sl_slot *out);

/* Wait for the tasks that use the slot, unregister, unlock, free. An empty slot is allowed. */
void sl_slot_close(struct sl_slot *slot);

#endif
