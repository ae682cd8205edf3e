/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 5, before gather, where the feature table stays in main memory: a cache of hot feature rows on the PE's device.
 *   before: codelets/exchange.h (merge) gives the frontier      after: codelets/gather.h reads cached rows here, others from the table
 *
 * A PE's cache has S slots of one row each. slot_of[local id] says which slot holds a vertex (SL_NONE: none), and slot[s] which
 * vertex it holds and when it was last wanted. Two policies:
 *
 *   lru     a frontier's rows that are not there take the slots that were wanted longest ago (never one this frontier wants), as
 *           many as there are; order of wanting: by step, then by row of the frontier
 *   degree  the S vertices that are most often a source of an edge, put there once (the static cache of PaGraph, Lin et al.,
 *           SoCC 2020)
 *
 * The cache changes what is moved and never a number. kappa's slowly changing samples are made for it (Balin et al. 2023).
 */
#ifndef SL_CODELETS_HOTROWS_H
#define SL_CODELETS_HOTROWS_H

#include "codelets/task.h"
#include "support/real.h"

enum sl_hotrows_policy { SL_HOTROWS_LRU, SL_HOTROWS_DEGREE };

/* A slot: `wanted` is (step + 1) << 32 | row of the frontier, or, where the slot was never used, its own number. */
struct sl_hot_slot {
    uint64_t wanted;
    uint32_t vertex; /* local id; SL_NONE: empty */
    uint32_t unused;
};

/* One PE's cache inside a kernel. */
struct sl_hotrows {
    uint32_t n_slots; /* S, at least 1 */
    uint32_t n_columns;
    uint32_t *slot_of; /* by local id */
    struct sl_hot_slot *slot;
    sl_real *rows; /* S x F */
    /* 1: the rows, and the table's. No padding: kernels' arguments are looked at word by word. */
    uint32_t is_bf16;
    uint32_t unused;
};

/* What has been asked of a cache. */
struct sl_hot_tally {
    uint64_t rows; /* wanted */
    uint64_t hits; /* of them found in the cache */
};

/* ---- kernels, CPU ---- */

/* Empty the cache of a part of n_part vertices, then put vertices[i] into slot i, i < n_fixed <= S. table: the part's rows. */
void sl_hotrows_fill_cpu(const struct sl_hotrows *hot, uint32_t n_part, uint32_t n_fixed, const uint32_t *vertices,
                         const sl_real *table);

/* The frontier's n rows (renumbered ids of the part that begins with `first`, distinct) are wanted: count, and with SL_HOTROWS_LRU
 * take those in that are not there. */
void sl_hotrows_want_cpu(const struct sl_hotrows *hot, enum sl_hotrows_policy policy, uint64_t step, uint32_t n,
                         const sl_vertex *ids, uint32_t first, const sl_real *table, struct sl_hot_tally *tally);

#ifdef SL_CUDA
/* The same on a device; the table is pinned main memory. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_hotrows_fill_cuda(cudaStream_t stream, const struct sl_hotrows *hot, uint32_t n_part,
                                                uint32_t n_fixed, const uint32_t *vertices, const sl_real *table);
SL_EXTERN_C enum sl_status sl_hotrows_want_cuda(cudaStream_t stream, const struct sl_hotrows *hot,
                                                enum sl_hotrows_policy policy, uint64_t step, uint32_t n,
                                                const sl_vertex *ids, uint32_t first, const sl_real *table,
                                                struct sl_hot_tally *tally);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. ---- */

/* One PE's cache in StarPU's hands. */
struct sl_hotrows_handles {
    starpu_data_handle_t slot_of; /* uint32, n_part */
    starpu_data_handle_t slots;   /* struct sl_hot_slot, S */
    starpu_data_handle_t rows;    /* matrix [S x F], of the table's precision */
    starpu_data_handle_t tally;   /* one struct sl_hot_tally */
};

/* vertices: uint32 vector of n_fixed local ids; NULL where n_fixed is 0. */
enum sl_status sl_hotrows_fill_submit(const struct sl_task_args *head, const struct sl_hotrows_handles *hot,
                                      uint32_t n_fixed, starpu_data_handle_t vertices, starpu_data_handle_t table);

/* frontier: at least n_rows ids; table: matrix of the part, read where it is, in main memory. */
enum sl_status sl_hotrows_want_submit(const struct sl_task_args *head, const struct sl_hotrows_handles *hot,
                                      enum sl_hotrows_policy policy, uint32_t n_rows, starpu_data_handle_t frontier,
                                      uint32_t first, starpu_data_handle_t table);

#endif
