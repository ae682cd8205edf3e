/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The GPUs that this process may use, as CUDA counts them; none where StarPU or Starling was built without CUDA.
 */
#ifndef SL_RUNTIME_GPUS_H
#define SL_RUNTIME_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This build can use GPUs. */
bool sl_gpus_built(void);

/* How many there are, no more than StarPU was built for; 0 where there is no driver. Starts CUDA, which takes a moment. */
uint32_t sl_gpus_count(void);

/* What GPU number `gpu` is, into `out`: "NVIDIA H100 80GB HBM3, 79.2 GiB". Empty where CUDA does not say. */
void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes);

/* StarPU's GPUs, each once: CUDA's number of it, and StarPU's memory node. StarPU is up. devices, nodes: room for as many as
 * sl_gpus_count() says. Returns how many. */
uint32_t sl_gpus_list(int *devices, int *nodes);

/* Make cuBLAS, cuSPARSE and the devices' pools of memory ready on StarPU's GPUs, and release the libraries. StarPU is up, and has GPUs. */
void sl_gpus_open_libraries(void);
void sl_gpus_close_libraries(void);

#endif
