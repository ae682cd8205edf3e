/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The training loop's settings of one step.
 */
#ifndef SL_RUNTIME_TRAIN_LOOP_H
#define SL_RUNTIME_TRAIN_LOOP_H

#include "codelets/optimize.h"
#include "runtime/plan/settings.h"

/* Adam's numbers for a step of an epoch, counted from 0. Both `step` and Adam's t count over the whole run, so bias
 * correction does not restart with an epoch. */
struct sl_adam sl_session_adam(const struct sl_settings *settings, uint64_t epoch, uint64_t step);

#endif
