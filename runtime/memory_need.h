/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How much memory a run needs, before any of it is taken.
 */
#ifndef SL_RUNTIME_MEMORY_NEED_H
#define SL_RUNTIME_MEMORY_NEED_H

#include "partition/dataset.h"
#include "runtime/settings.h"

/* An estimate in bytes of the most the process will hold: dataset in part order, model and optimiser, what PEs exchange rows by, and the larger of the
 * dataset as it is loaded, training (depth sampled blocks, one step's rows) and evaluation (rows of all vertices), with what the
 * pool keeps of the one during the other. Frontiers are bounded by fanout
 * and by the graph, so that the figure errs upwards. */
uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset);

#endif
