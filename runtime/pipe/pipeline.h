/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Full-graph training as a schedule (runtime/plan/schedule.h): a step is an epoch (runtime/pipe/epoch.h).
 */
#ifndef SL_RUNTIME_PIPE_PIPELINE_H
#define SL_RUNTIME_PIPE_PIPELINE_H

#include "runtime/plan/schedule.h"

extern const struct sl_schedule_kind sl_pipeline;

#endif
