/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Files of StarPU's performance models.
 */
#ifndef SL_TASKS_PERFMODEL_H
#define SL_TASKS_PERFMODEL_H

#include <starpu.h>

#include "support/status.h"

/* Before StarPU loads a model: remove its file if StarPU cannot read it or write to it. StarPU aborts at such a file:
 * one with decimal commas, the half file of a killed run, or another user's. StarPU then measures the tasks again. The
 * first removal of a process gives a notice. model: may be NULL. SL_EIO: such a file cannot be removed. */
enum sl_status sl_perfmodel_check(const struct starpu_perfmodel *model);

#endif
