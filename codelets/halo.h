/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Evaluation over several ranks (codelets/ranks.h): rows of a part that another rank's parts have edges from.
 *   before: dense or activate has a layer's rows     after: codelets/aggregate.h and attend.h, at the other rank, over whole parts
 *
 * packed[i] = rows[list[i0 + i]]. The list is of the run; a layer's messages have what it lists, a piece each.
 */
#ifndef SL_CODELETS_HALO_H
#define SL_CODELETS_HALO_H

#include "codelets/rows.h"
#include "codelets/task.h"

/* Submit: list, a vector of uint32, has numbers of rows; those from entry i0 on are packed. CPU workers only. One thread submits.
 * SL_EINVAL: widths differ, or the list ends before. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_halo_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows,
                                   starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed);

#endif
