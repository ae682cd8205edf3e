/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Starling: training graph neural networks as a StarPU task graph.
 *
 * The contract of the whole library: a function that can fail returns an enum sl_status; SL_OK is 0, errors are negative,
 * nothing is positive. sl_message() then holds one line for people: what was expected, what was found, what to try. Nothing is
 * printed to standard streams that were not handed in, and nothing exits. Outputs are set on success only; a _free or _close
 * accepts what was never opened. One failure is no status: after a fault inside a kernel (an illegal address, an error of the GPU's
 * memory) CUDA refuses all further calls of the process, and StarPU ends it with abort(). Where StarPU does not know the machine's
 * buses yet, sl_trainer_open has it measure them, which resets the GPUs: what the program itself has there before is lost.
 *
 *   struct sl_settings settings;
 *   struct sl_trainer *trainer;
 *   sl_settings_init(&settings);
 *   sl_option_set(&sl_settings_table, "dataset", "arxiv", &settings);
 *   sl_settings_check(&settings);
 *   sl_trainer_open(&settings, &trainer);
 *   sl_trainer_train(trainer, &(struct sl_report){0});
 *   sl_trainer_close(trainer);
 *   sl_settings_free(&settings);
 */
#ifndef STARLING_H
#define STARLING_H

#ifdef __cplusplus
extern "C" {
#endif

#include "partition/dataset.h"
#include "partition/partition.h"
#include "runtime/machine/signals.h"
#include "runtime/plan/gossip.h"
#include "runtime/plan/settings.h"
#include "runtime/report/metrics.h"
#include "runtime/report/progress.h"
#include "runtime/report/trace.h"
#include "runtime/train/trainer.h"
#include "support/option.h"
#include "support/status.h"

#ifdef __cplusplus
}
#endif

#endif
