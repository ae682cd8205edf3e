/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A StarPU data interface for lists by PE. */
#ifndef SL_TASKS_LIST_H
#define SL_TASKS_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "tasks/handle.h"

/* Register a vector of `room` uint32 at `memory`, which is a list by PE of n_parts PEs (codelets/sampling/sample.h). A
 * message carries only the used part of the list. Tasks see a vector. The caller unregisters the handle; `memory`
 * must outlive it. */
void sl_list_register(void *memory, uint32_t room, uint32_t n_parts, starpu_data_handle_t *out);

/* Whether the handle was registered by sl_list_register. */
bool sl_list_is(starpu_data_handle_t handle);

#endif
