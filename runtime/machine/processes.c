/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The public functions about ranks. */
#include "runtime/starling.h"
#include "tasks/ranks.h"

uint32_t sl_process_number(void)
{
    return sl_ranks_number();
}

uint32_t sl_process_count(void)
{
    return sl_ranks_started();
}

void sl_process_on_failure(void (*hook)(void))
{
    sl_ranks_on_failure(hook);
}

void sl_process_abort(int code)
{
    sl_ranks_abort(code);
}
