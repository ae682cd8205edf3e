/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 7, aggregate: the mean of each destination's sampled in-neighbours, and its adjoint.
 *   before: codelets/exchange.h packs what other PEs own      after: codelets/dense.h, or activate where a layer projects first
 *
 *   forward     M[d] (+)= 1/deg(d) * sum over edges e of d of X[source(e)]      (a destination without edges: zero)
 *   backward    GX[t]   = sum over edges e with source(e) = t of GM[dest(e)] / deg(dest(e))
 *
 * Sources are addressed by position among the block's T distinct sources, owner by owner (codelets/sample.h): the PE's own are
 * rows of its next frontier, found through the inverse that merge wrote; another owner's are the rows of the buffer it packed.
 * Backward has two submissions: `backward` fills the buffer that goes back to an owner, `accumulate` adds at the owner what all
 * PEs of the group send, in PE order, each row's terms in a fixed order, without atomics.
 * Sums run along the edges in order, in sl_real.
 */
#ifndef SL_CODELETS_AGGREGATE_H
#define SL_CODELETS_AGGREGATE_H

#include "codelets/rows.h"
#include "codelets/task.h"
#ifdef SL_CUDA
#include <cusparse.h>
#endif

/* Most chunks that all parts together may have in evaluation. */
#define SL_MAX_FULL_CHUNKS 1024

/* ---- kernels, CPU ---- */

/* The sources of a block by position: positions first[q] .. first[q + 1] - 1 are the items of view[q], in order. */
struct sl_sources {
    uint32_t n_owners;
    const uint32_t *first; /* n_owners + 1 */
    const struct sl_view *view;
};

/* Destinations 0 .. n_rows - 1, whose edges are sources[offsets[d]] .. sources[offsets[d + 1] - 1]. beta 0: overwrite;
 * beta 1: add. m_out [n_rows x n_columns]. */
void sl_aggregate_forward_cpu(uint32_t n_rows, uint32_t n_columns, const uint32_t *offsets,
                              const uint32_t *edge_sources, const struct sl_sources *x, int beta, sl_real *m_out);

/* Items t0 .. t0 + n - 1 of the transposed block, into out [n x n_columns], overwritten. gm: rows of GM, all chunks. */
void sl_aggregate_backward_cpu(uint32_t n, uint32_t n_columns, uint32_t t0, const uint32_t *back_offsets,
                               const uint32_t *back_rows, const uint32_t *edge_offsets, const struct sl_view *gm,
                               sl_real *out);

/* Add into rows row0 .. row0 + n_rows - 1 (of the owner's frontier; g is row row0): for each of n items i with
 * row0 <= inverse[i] < row0 + n_rows, g[inverse[i] - row0] += sent[i]. */
void sl_accumulate_sent_cpu(uint32_t n, uint32_t n_columns, const uint32_t *inverse, const sl_real *sent, uint32_t row0,
                            uint32_t n_rows, sl_real *g);

/* The same for the PE's own sources t0 .. t0 + n - 1, straight from the transposed block. */
void sl_accumulate_own_cpu(uint32_t n, uint32_t n_columns, uint32_t t0, const uint32_t *inverse,
                           const uint32_t *back_offsets, const uint32_t *back_rows, const uint32_t *edge_offsets,
                           const struct sl_view *gm, uint32_t row0, uint32_t n_rows, sl_real *g);

#ifdef SL_CUDA
/* ---- launchers: pointers are to the stream's device, structs and arrays of them are the host's and read before the call
 * returns. SL_ECUDA. Sums run along the list, as on the CPU, up to 256 terms; a longer list is added in slices, whose number
 * depends on the width alone, and then slice by slice. ---- */

/* Rows in chunks, for a kernel's parameters. */
struct sl_device_rows {
    uint32_t n_chunks;
    uint32_t shift; /* row r is row (r & mask) of chunk r >> shift */
    const sl_real *chunk[SL_MAX_CHUNKS];
};

/* The sources of a block by position: first[q] .. first[q + 1] - 1 are the rows of packed[q], in order, but for q = own, where
 * position first[own] + i is the row of `rows` that entry i of requester own in the own inverse says. */
struct sl_device_sources {
    uint32_t n_owners, own;
    const uint32_t *inverse; /* a list by PE (codelets/sample.h) */
    struct sl_device_rows rows;
    const sl_real *packed[SL_MAX_PES]; /* NULL where own or empty */
    uint32_t first[SL_MAX_PES + 1];
};

SL_EXTERN_C enum sl_status sl_aggregate_forward_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                     const uint32_t *offsets, const uint32_t *edge_sources,
                                                     const struct sl_device_sources *x, int beta, sl_real *m_out);

/* The same by cuSPARSE's SpMM, of a copy of all source rows. Waits for the stream once, to read the number of edges. Fewer than
 * 2^31 edges and sources. The same input gives the same bits, but not the kernel's above. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, cusparseHandle_t handle, uint32_t n_rows,
                                                         uint32_t n_columns, const uint32_t *offsets,
                                                         const uint32_t *edge_sources,
                                                         const struct sl_device_sources *x, int beta, sl_real *m_out);

/* For all of n_owners at once: items t0[k] .. t0[k] + n[k] - 1 into packed_out[k]. */
SL_EXTERN_C enum sl_status sl_aggregate_backward_cuda(cudaStream_t stream, uint32_t n_owners, const uint32_t *n,
                                                      uint32_t n_columns, const uint32_t *t0,
                                                      const uint32_t *back_offsets, const uint32_t *back_rows,
                                                      const uint32_t *edge_offsets, const struct sl_device_rows *gm,
                                                      sl_real *const *packed_out);

/* Accumulate: clear g, then each PE's share in turn. inverse: the owner's, of a group of n_parts PEs; of the PE `requester` entry i
 * says where item i goes. beta 0: a row that gets something is overwritten, which saves reading it
 * where it is known to be zero. */
SL_EXTERN_C enum sl_status sl_accumulate_clear_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                    sl_real *g_out);
SL_EXTERN_C enum sl_status sl_accumulate_sent_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns,
                                                   uint32_t n_parts, uint32_t requester, const uint32_t *inverse,
                                                   const sl_real *sent, uint32_t row0, uint32_t n_rows, int beta,
                                                   sl_real *g);
SL_EXTERN_C enum sl_status sl_accumulate_own_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns, uint32_t t0,
                                                  uint32_t n_parts, uint32_t requester, const uint32_t *inverse,
                                                  const uint32_t *back_offsets, const uint32_t *back_rows,
                                                  const uint32_t *edge_offsets, const struct sl_device_rows *gm,
                                                  uint32_t row0, uint32_t n_rows, int beta, sl_real *g);

/* The rows of one part of the graph. */
struct sl_device_part {
    uint32_t n_chunks, shift;
    const sl_real *const *chunk; /* on the host: the chunks' addresses on the device */
};

/* Evaluation: destinations row0 .. row0 + n_rows - 1 of a part; offsets are all of the part's, offsets[0] is where `sources`
 * begins; first: n_parts + 1 ids. At most SL_MAX_FULL_CHUNKS chunks. */
SL_EXTERN_C enum sl_status sl_aggregate_full_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                  const uint64_t *offsets, uint32_t row0, const sl_vertex *sources,
                                                  uint32_t n_parts, const uint32_t *first,
                                                  const struct sl_device_part *parts, int beta, sl_real *m_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

/* The sources of one PE's block as handles. */
struct sl_source_handles {
    uint32_t n_owners;                  /* G */
    uint32_t own;                       /* which owner this PE is */
    const uint32_t *first;              /* G + 1 positions */
    const struct sl_rows *rows;         /* own rows of the next level, all chunks */
    starpu_data_handle_t inverse;       /* own; entry position - first[own] of requester own is the row */
    const starpu_data_handle_t *packed; /* G; NULL where own or empty */
};

/* Destinations row0 .. row0 + D - 1 into chunk m [D x F]; n_edges: roughly how many, for the model. */
enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                           starpu_data_handle_t edge_sources, uint32_t row0, uint64_t n_edges,
                                           const struct sl_source_handles *sources, int beta, starpu_data_handle_t m);

/* What goes back to other owners, one task for all of them: for each, items t0 .. of the transposed block into packed [n x F].
 * gm: all chunks of GM; n_edges: roughly how many there are to all of them, for the model. */
enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                            starpu_data_handle_t back_offsets, starpu_data_handle_t back_rows,
                                            const struct sl_rows *gm, uint64_t n_edges, uint32_t n_owners,
                                            const uint32_t *t0, const starpu_data_handle_t *packed);

/* What an owner adds up: its own block's share and what the other PEs of the group sent. */
struct sl_accumulate {
    starpu_data_handle_t edge_offsets, back_offsets, back_rows; /* own block */
    uint32_t t0, n_own;                                         /* own sources: positions t0 .. t0 + n_own - 1 */
    const struct sl_rows *gm;                                   /* own GM, all chunks; may have no rows */
    uint32_t n_peers;                                           /* G */
    uint32_t own;                                               /* index of this PE among them */
    starpu_data_handle_t inverse;                               /* own: the rows that each PE asked for */
    const starpu_data_handle_t *sent;                           /* G: their gradients; NULL where own or empty */
};

/* Clear chunk g (rows row0 .. of the frontier) and add all shares: PE 0's first, then PE 1's, .. */
enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g);

/* Evaluation over whole parts: destinations row0 .. of a part with 64-bit offsets and sources by id; part q of the graph is
 * rows[q], all chunks. */
enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, starpu_data_handle_t offsets,
                                        starpu_data_handle_t sources, starpu_data_handle_t first, uint32_t n_parts,
                                        uint32_t row0, uint64_t n_edges, const struct sl_rows *rows, int beta,
                                        starpu_data_handle_t m);

#endif
