/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Homes, in the order of StarPU's workers. */
#include "tasks/home.h"

#include <starpu.h>

uint32_t sl_homes_count_gpus(void)
{
    uint32_t n = 0;
    int last = -1;
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        if (starpu_worker_get_type((int)w) == STARPU_CUDA_WORKER) {
            const int device = starpu_worker_get_devid((int)w);
            n += device != last;
            last = device;
        }
    }
    return n;
}

void sl_homes_find(uint32_t n_pes, struct sl_homes *out)
{
    int first = 0;
    uint32_t n_gpus = sl_homes_count_gpus();
    starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &first, 1);
    *out = (struct sl_homes){.n_pes = n_pes, .n = n_gpus > 0 ? n_gpus : starpu_worker_get_count(), .gpus = n_gpus > 0};
    out->first_worker = out->gpus ? (uint32_t)first : 0;
}
