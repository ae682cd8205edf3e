/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A slot of the ring: all buffers of one step's sampling phase, as persistent handles over memory of ours, and those by
 * which PEs exchange rows.
 *
 * A slot has room for the worst case (a frontier is never larger than the part, edges never more than fanout times the
 * frontier or all in-edges of the part), so that no sample can prove too large for it. Pages that no step touches are never
 * given memory by the system.
 */
#ifndef SL_RUNTIME_STORE_SLOT_H
#define SL_RUNTIME_STORE_SLOT_H

#include "codelets/sample.h"
#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* One PE's share of a slot. */
struct sl_slot_pe {
    starpu_data_handle_t frontier; /* uint32: ids of S_p^0, then those that hop 0 adds, .. */
    starpu_data_handle_t index;    /* bytes: codelets/exchange.h */
    starpu_data_handle_t marks;    /* bytes: codelets/sample.h */
    starpu_data_handle_t counts;   /* uint32: codelets/sample.h */
    struct sl_block *block;        /* one per hop */
    /* [hop][G]: rows from each owner, row gradients for each owner; and where either arrives on another GPU (runtime/exchange/transport.h). They are
     * given new shapes (sl_matrix_reshape) while no task uses them: the last to read what is exchanged are aggregate and accumulate,
     * which also read a block of the hop and come after all that wrote or moved it, so that none is in use once the slot's blocks
     * are sampled anew. */
    starpu_data_handle_t *packed, *sent;
    starpu_data_handle_t *arrived, *returned;
};

/* Which buffers are locked in memory, so that StarPU's copies between them and GPUs hold up no worker. Locked pages are there even
 * where no step touches them. */
enum sl_slot_lock {
    SL_SLOT_LOCK_NONE, /* each locks what those before it do */
    SL_SLOT_LOCK_READ, /* what the host reads in each step: counts */
    SL_SLOT_LOCK_ALL   /* all: CPU workers share the work of GPUs */
};

/* The memory behind a handle. */
struct sl_slot_memory {
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
    struct sl_slot_memory *memory;
    uint32_t n_memory;
    uint64_t n_bytes;   /* of all of them: what they take together where they are used */
    uint32_t n_refused; /* of them that were to be locked, and the system would not: their copies are slower */
};

/* What bounds a slot's buffers. */
struct sl_slot_shape {
    const struct sl_plan *plan;
    const struct sl_shards *shards;
    uint32_t n_seeds;               /* most seeds of a group in one step */
    bool full;                      /* all in-edges */
    uint32_t fanout[SL_MAX_LAYERS]; /* by hop, 0 at the seeds */
    uint32_t max_fanout;
    enum sl_slot_lock lock;
};

/* SL_EINVAL: a block could have 2^32 edges. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_slot_open(const struct sl_slot_shape *shape, struct sl_slot *out);

/* Wait for the tasks that use it, unregister, unlock, release. An empty slot is allowed. */
void sl_slot_close(struct sl_slot *slot);

#endif
