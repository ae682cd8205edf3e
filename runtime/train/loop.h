/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What changes from step to step of a run.
 */
#ifndef SL_RUNTIME_TRAIN_LOOP_H
#define SL_RUNTIME_TRAIN_LOOP_H

#include "codelets/optimize.h"
#include "runtime/plan/settings.h"

/* Adam at a step, which counts over the whole run, as t does: the moments' bias is corrected once, not once an epoch. */
struct sl_adam sl_session_adam(const struct sl_settings *settings, uint64_t step, uint32_t n_per_epoch);

#endif
