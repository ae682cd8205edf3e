/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Schedules by name. */
#include "runtime/minibatch/minibatch.h"
#include "runtime/plan/schedule.h"

const struct sl_schedule_kind *sl_schedule_of(const struct sl_settings *settings)
{
    static const struct sl_schedule_kind *const schedules[] = {
        [SL_SCHEDULE_MINIBATCH] = &sl_minibatch, [SL_SCHEDULE_PIPE] = &sl_pipeline};
    return schedules[settings->schedule];
}
