/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Homes, in the order of StarPU's workers. */
#include "tasks/home.h"

#include <starpu.h>

void sl_homes_find(uint32_t n_pes, struct sl_homes *out)
{
    int first = 0;
    unsigned n_gpus = (unsigned)starpu_worker_get_count_by_type(STARPU_CUDA_WORKER);
    starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &first, 1);
    *out = (struct sl_homes){.n_pes = n_pes, .n = n_gpus > 0 ? n_gpus : starpu_worker_get_count(), .gpus = n_gpus > 0};
    out->first_worker = out->gpus ? (uint32_t)first : 0;
}
