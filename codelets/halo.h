/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Evaluation over several ranks (codelets/ranks.h): rows of a part that another rank's parts have edges from.
 *   before: dense or activate has a layer's rows     after: codelets/aggregate.h and attend.h, at the other rank, over whole parts
 *
 * packed[i] = rows[list[i0 + i]], or some columns of it. The list is of the run; a layer's messages have what it lists, a piece each.
 */
#ifndef SL_CODELETS_HALO_H
#define SL_CODELETS_HALO_H

#include "codelets/rows.h"
#include "codelets/task.h"

#ifdef SL_CUDA
/* ---- launcher: the same on the stream's device; SL_ECUDA ---- */

/* A part's rows, in device memory; row i is row i modulo 2^shift of chunk i >> shift. The struct is the host's. */
struct sl_halo_rows {
    uint32_t n_chunks, shift;
    uint32_t n_columns;
    enum sl_dtype dtype;
    const void *const *chunk;
};

/* Columns `column` and on, as many as there are, into packed_out [n x width], of such numbers, whose further columns become zeros. list: n numbers of rows;
 * both in device memory. */
SL_EXTERN_C enum sl_status sl_halo_pack_cuda(cudaStream_t stream, const struct sl_halo_rows *rows, uint32_t column,
                                             uint32_t n, uint32_t width, const uint32_t *list, void *packed_out);
#endif

/* Submit: list, a vector of uint32, has numbers of rows; of those from entry i0 on are packed the columns from `column` on. Where packed is
 * wider than what there is of these, it ends in zeros. One thread submits.
 * SL_EINVAL: no such column, or the list ends before. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_halo_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                   starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed);

#endif
