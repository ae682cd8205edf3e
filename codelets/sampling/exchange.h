/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Exchange: ids travel to their owners, and the owners' rows travel to the requesters.
 *
 *   merge  before: sample.h of the same hop on all PEs of the group         after: sample of the next hop, or gather.
 *   pack   before: gather or activate fills the owner's rows, or the table  after: aggregate at the requester.
 *
 * Requests and inverses are lists by PE (codelets/sampling/sample.h), one per PE and hop.
 *
 * merge at owner q: the PEs of the group request ids of q. Ids that are not yet in q's frontier are appended in
 * ascending order, so the frontier of the next level begins with the old one. inverse[p][i] is the frontier row of the
 * i-th id that requester p wants. If the requested rows are read from the part's own table, it is the row of the table:
 * the id minus the part's first id. The frontiers of the PEs are disjoint, and their union is the frontier of a single
 * PE.
 *
 * pack at owner q for requester p: P[i] = H[inverse[p][i]]. H is the rows of q's frontier, or the part's table. The
 * adjoint is accumulate (codelets/sums/aggregate.h), which also adds the gradients of the block's own sources. There is
 * one packed buffer for each pair of PEs, or of sets of PEs that share a home. StarPU moves it to the node where
 * aggregate runs.
 *
 * unpack puts packed rows back: H[rows[i]] = P[i]. Other rows keep their contents.
 *
 * Evaluation over several ranks packs rows for other ranks. A list names the rows that edges of the other rank's parts
 * start from. A slice of columns is packed at a time: P[i][j] = H[list[i0 + i]][column + j].
 */
#ifndef SL_CODELETS_EXCHANGE_H
#define SL_CODELETS_EXCHANGE_H

#include "codelets/sampling/sample.h"
#include "tasks/rows.h"
#include "tasks/task.h"

/* ---- kernels, CPU ---- */

/* Requests that the PEs of a group send to one PE, the owner. */
struct sl_requests {
    uint32_t n_parts; /* G */
    uint32_t owner;   /* the PE that receives the requests and merges */
    bool of_part;     /* inverse entries are rows of the part, not of the frontier */
    const uint32_t *list[SL_MAX_GROUP];
};

/* Merge the requested ids, all of the frontier's part, into the frontier. The frontier has *n_rows rows so far and
 * *n_rows_out then. inverse_out has room for n_parts + 1 positions and one row per requested id. */
SL_DECLARE_LAUNCHER(void, sl_merge, const struct sl_requests *requests, const uint32_t *n_rows,
                    const struct sl_frontier *frontier, uint32_t *inverse_out, uint32_t *n_rows_out);

/* The rows of an owner, and the lists of its rows that requesters want. Sizes are in bytes. */
struct sl_packing {
    uint32_t n_chunks, shift; /* row i of the owner is row (i & mask) of chunk i >> shift */
    const void *const *chunk; /* [n_chunks], addresses: host memory */
    uint32_t row;             /* width of a row */
    uint32_t first, taken;    /* bytes first .. first + taken - 1 of a row are packed */
    uint32_t packed;          /* width of a packed row; bytes after the taken ones become zero */
    uint32_t n_parts;
    const uint32_t *inverse; /* list of n_parts; n_parts 0: the rows of one requester */
    uint32_t n_requesters;
};

/* Pack for all requesters. requester, n_rows, packed_out: host arrays of n_requesters; packed_out[r] has n_rows[r]
 * rows. */
SL_DECLARE_LAUNCHER(void, sl_pack, const struct sl_packing *from, const uint32_t *requester, const uint32_t *n_rows,
                    void *const *packed_out);

/* The rows that requester q wants. */
static inline SL_HOST_DEVICE const uint32_t *sl_packed_rows(const uint32_t *inverse, uint32_t n_parts, uint32_t q)
{
    return n_parts > 0 ? sl_list_of(inverse, n_parts, q) : inverse;
}

/* n rows of row_bytes. No two go to the same row. */
SL_DECLARE_LAUNCHER(void, sl_unpack, size_t row_bytes, uint32_t n, const uint32_t *rows, const void *packed, void *out);

/* Bytes of a frontier's index for a part of n_part vertices: uint32 row_of[n_part rounded up to even], then uint64
 * words. */
static inline size_t sl_index_bytes(uint32_t n_part)
{
    return 4 * ((size_t)n_part + (n_part & 1)) + 8 * (((size_t)n_part + 63) / 64);
}

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* A PE of the group that merges, and its outputs. */
struct sl_merging {
    uint32_t owner;
    struct sl_frontier_handles frontier;
    starpu_data_handle_t inverse;
    bool of_part; /* inverse entries are rows of the part */
};

/* Sampling phase. One task merges for n_owners PEs of a group of n_parts. head->pe is one of the owners. request: one
 * handle per PE of the group, in order. head->hop: the hop whose sources are merged. */
enum sl_status sl_merge_submit(const struct sl_task_args *head, uint32_t n_parts, const starpu_data_handle_t *request,
                               uint32_t n_owners, const struct sl_merging *owners);

/* Compute phase. One task packs for n_requesters PEs of a group of n_parts. rows: all chunks of the owner's rows.
 * inverse: the owner's. requester: numbers in the group, ascending. packed: one slice (tasks/task.h) per requester,
 * n_columns wide. A slice has as many rows as the PE requested. Rows and slices are all sl_real or all bf16. */
enum sl_status sl_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t n_parts,
                              starpu_data_handle_t inverse, uint32_t n_requesters, const uint32_t *requester,
                              const struct sl_slice *packed);

/* The same for columns `column` .. of the rows list[i0 ..], as many rows as `packed` has. If packed has more columns
 * than are left, the extra columns become zero. list: vector of uint32. */
enum sl_status sl_pack_listed_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                     starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed);

/* Compute phase: unpack all rows of `packed`, in order, into the rows of `out` that `rows` lists. `rows` is an inverse
 * with a single requester. packed and out are both sl_real or both bf16. */
enum sl_status sl_unpack_submit(const struct sl_task_args *head, starpu_data_handle_t packed, starpu_data_handle_t rows,
                                starpu_data_handle_t out);

#endif
