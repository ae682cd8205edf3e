/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stages 4 and 6, exchange: ids to their owners, and owners' rows to those who asked.
 *   merge  before: codelets/sample.h of the same hop on all PEs of the group   after: sample of the next hop, or gather
 *   pack   before: gather or activate has the owner's rows, or they lie in     after: codelets/aggregate.h at the requester
 *          the part's table
 *
 * Requests and inverses are lists by PE (codelets/sample.h), one per PE and hop.
 *
 * merge at owner q: the ids that the PEs of the group request of q, and that q's frontier does not hold yet, are appended to it
 * in ascending order; inverse[p][i], entry i of requester p in q's inverse, is the frontier row of the i-th id that p requests
 * of q. The frontier of the next level thus starts with the old one; across PEs frontiers are disjoint and their union is that
 * of a single PE. Where the rows asked for are read out of the part's own table, the entry is the row there: the id less the part's
 * first.
 *
 * pack at owner q for requester p: P[i] = H[inverse[p][i]], H the rows of q's frontier, or the part's table. Its adjoint, and that of the
 * block's own sources, is accumulate (codelets/aggregate.h). The packed buffer, one for each pair of PEs or of sets of PEs that live
 * together, is what travels: StarPU moves it to where aggregate runs.
 *
 * unpack puts rows back where they were packed: H[rows[i]] = P[i], and the other rows stay.
 */
#ifndef SL_CODELETS_EXCHANGE_H
#define SL_CODELETS_EXCHANGE_H

#include "codelets/rows.h"
#include "codelets/sample.h"
#include "codelets/task.h"

/* ---- kernels, CPU ---- */

/* What the PEs of a group ask of one of them. */
struct sl_requests {
    uint32_t n_parts; /* G */
    uint32_t owner;   /* the PE asked, which merges */
    bool of_part;     /* the inverse is of rows of the part, not of the frontier */
    const uint32_t *list[SL_MAX_PES];
};

/* What is asked of the owner are ids of the frontier's part. n_rows: of the frontier so far. inverse_out: n_parts + 1 positions and
 * as many rows as ids are asked of the owner. Returns the rows of the new frontier. */
uint32_t sl_merge_cpu(const struct sl_requests *requests, uint32_t n_rows, const struct sl_frontier *frontier,
                      uint32_t *inverse_out);

/* n items of n_columns. */
void sl_pack_cpu(uint32_t n, uint32_t n_columns, const struct sl_view *rows, sl_real *packed_out);
void sl_pack_bf16_cpu(uint32_t n, uint32_t n_columns, const struct sl_view *rows, sl_bf16 *packed_out);

/* n rows of n_columns, each to a row of its own. */
void sl_unpack_cpu(uint32_t n, uint32_t n_columns, const uint32_t *rows, const sl_real *packed, sl_real *out);
void sl_unpack_bf16_cpu(uint32_t n, uint32_t n_columns, const uint32_t *rows, const sl_bf16 *packed, sl_bf16 *out);

/* Bytes of a frontier's index for a part of n_part vertices: uint32 row_of[n_part rounded up to even], then uint64 words. */
static inline size_t sl_index_bytes(uint32_t n_part)
{
    return 4 * ((size_t)n_part + (n_part & 1)) + 8 * (((size_t)n_part + 63) / 64);
}

#ifdef SL_CUDA
/* ---- launchers: the same on the stream's device; SL_ECUDA ---- */

/* The structs are the host's, all else is device memory. counts: its rows of `level` are read, those of level + 1 written. */
SL_EXTERN_C enum sl_status sl_merge_cuda(cudaStream_t stream, const struct sl_requests *requests, uint32_t level,
                                         uint32_t *counts, const struct sl_frontier *frontier, uint32_t *inverse_out);

/* For all requesters at once, rows of row_bytes, whatever they hold. n_chunks, shift, chunk: the host's array of the bases, in device
 * memory, of the owner's rows. inverse: a list of n_parts in device memory; requester, n_rows, packed_out: the host's arrays of
 * n_requesters, whose matrices of n_rows[r] rows are in device memory. */
SL_EXTERN_C enum sl_status sl_pack_cuda(cudaStream_t stream, size_t row_bytes, uint32_t n_chunks, uint32_t shift,
                                        const void *const *chunk, uint32_t n_parts, const uint32_t *inverse,
                                        uint32_t n_requesters, const uint32_t *requester, const uint32_t *n_rows,
                                        void *const *packed_out);

/* Rows of row_bytes, whatever they hold; all are device memory. */
SL_EXTERN_C enum sl_status sl_unpack_cuda(cudaStream_t stream, size_t row_bytes, uint32_t n, const uint32_t *rows,
                                          const void *packed, void *out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

/* Which PE of the group merges, and what it writes. */
struct sl_merging {
    uint32_t owner;
    struct sl_frontier_handles frontier;
    starpu_data_handle_t inverse;
    bool of_part; /* the inverse is of rows of the part */
};

/* Sampling phase: one task for n_owners PEs of a group of n_parts, of which head->pe is one. request: one handle per PE of the group,
 * in order. head->hop is the hop whose sources are merged. */
enum sl_status sl_merge_submit(const struct sl_task_args *head, uint32_t n_parts, const starpu_data_handle_t *request,
                               uint32_t n_owners, const struct sl_merging *owners);

/* Compute phase: one task packs for all requesters. rows: all chunks of the owner's rows; inverse: the owner's, of a group of
 * n_parts PEs; for each of n_requesters its number in the group, ascending, and n rows of a matrix of n_columns, n of what it asks for:
 * slices (codelets/task.h) by matrix. Rows and matrices may be of bf16, all of them. */
enum sl_status sl_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t n_parts,
                              starpu_data_handle_t inverse, uint32_t n_requesters, const uint32_t *requester,
                              const struct sl_slice *packed);

/* Compute phase: all rows of `packed`, in order, to the rows of `out` that `rows` lists, an inverse for the only one who asks.
 * Both may be of bf16. */
enum sl_status sl_unpack_submit(const struct sl_task_args *head, starpu_data_handle_t packed, starpu_data_handle_t rows,
                                starpu_data_handle_t out);

#endif
