/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Settings from a model's file: --load brings all options that change an output.
 */
#ifndef SL_RUNTIME_PLAN_ADOPT_H
#define SL_RUNTIME_PLAN_ADOPT_H

#include "runtime/plan/model_file.h"
#include "runtime/plan/settings.h"

/* Read the file of `load`, unless it was read already, and take its options. Call it before sl_settings_check. Without
 * `load`: nothing. An option that the user has given, or the program has set, must equal the file's. Other options take
 * the file's value. Files that do not say all of it give a warning. SL_EINVAL: an option contradicts the file (the
 * message names both values). SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_settings_adopt(struct sl_settings *settings);

/* The same, from a file that was read before. The settings take the file over, also on failure. */
enum sl_status sl_settings_adopt_file(struct sl_settings *settings, struct sl_model_file *file);

#endif
