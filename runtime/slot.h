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
#ifndef SL_RUNTIME_SLOT_H
#define SL_RUNTIME_SLOT_H

#include "codelets/sample.h"
#include "runtime/shards.h"

/* One PE's share of a slot. */
struct sl_slot_pe {
    starpu_data_handle_t frontier; /* uint32: ids of S_p^0, then those that hop 0 adds, .. */
    starpu_data_handle_t index;    /* bytes: codelets/exchange.h */
    starpu_data_handle_t marks;    /* bytes: codelets/sample.h */
    starpu_data_handle_t counts;   /* uint32: codelets/sample.h */
    struct sl_block *block;        /* one per hop */
    starpu_data_handle_t
        *packed;                /* [hop][G]: rows from each owner (sl_matrix_reshape). Whoever writes or reads them also
                                      reads a block of the hop: none is in use once the slot's blocks are sampled anew */
    starpu_data_handle_t *sent; /* [hop][G]: row gradients for each owner, likewise */
    starpu_data_handle_t *arrived,
        *returned; /* [hop][G]: copies of packed and of sent on another GPU (runtime/crossing.h) */
};

struct sl_slot {
    uint32_t n_pes;
    uint32_t n_hops;
    uint32_t n_parts;
    struct sl_slot_pe *pe;
    void **memory; /* every block behind the handles */
    uint32_t n_memory;
};

/* What bounds a slot's buffers. */
struct sl_slot_shape {
    const struct sl_shards *shards;
    uint32_t n_pes;      /* P; PE p samples part p mod G */
    uint32_t n_hops;     /* L */
    uint32_t n_seeds;    /* most seeds of a group in one step */
    bool full;           /* all in-edges */
    uint32_t fanout[16]; /* by hop, 0 at the seeds */
    uint32_t max_fanout;
};

/* SL_EINVAL: a block could have 2^32 edges. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_slot_open(const struct sl_slot_shape *shape, struct sl_slot *out);

/* Wait for the tasks that use it, unregister, release. An empty slot is allowed. */
void sl_slot_close(struct sl_slot *slot);

#endif
