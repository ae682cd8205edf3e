/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Halo exchange of evaluation over several ranks (tasks/ranks.h): pack the rows that edges of another rank's
 * parts start from.
 *   before: dense or activate has computed a layer's rows
 *   after:  codelets/sums/aggregate.h and attend.h, on the other rank, over whole parts
 *
 *   packed[i][j] = rows[list[i0 + i]][column + j]
 *
 * The list lives as long as the run. Each message of a layer packs one piece of the list.
 */
#ifndef SL_CODELETS_HALO_H
#define SL_CODELETS_HALO_H

#include "tasks/rows.h"
#include "tasks/task.h"

/* A part's rows: row i is row i modulo 2^shift of chunk i >> shift. The struct itself is in host memory. */
struct sl_halo_rows {
    uint32_t n_chunks, shift;
    uint32_t n_columns;
    enum sl_dtype dtype;
    const void *const *chunk;
};

/* Copy columns `column` .. of the n listed rows into packed_out [n x width], which has the dtype of the rows. If fewer
 * than `width` columns are left, the last columns of packed_out become zero. */
SL_DECLARE_LAUNCHER(void, sl_halo_pack, const struct sl_halo_rows *rows, uint32_t column, uint32_t n, uint32_t width,
                    const uint32_t *list, void *packed_out);

/* Submit the packing of columns `column` .. of the rows that list[i0 ..] names. list: vector of uint32; packed: matrix
 * of as many rows as are to be packed. If packed has more columns than are left, the extra columns become zero. Local;
 * one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_halo_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                   starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed);

#endif
