/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of schedules.
 */
#ifndef SL_RUNTIME_TRAIN_SCHEDULES_H
#define SL_RUNTIME_TRAIN_SCHEDULES_H

#include "runtime/plan/schedule.h"

/* The schedule that the settings name. */
const struct sl_schedule_kind *sl_schedule_of(const struct sl_settings *settings);

#endif
