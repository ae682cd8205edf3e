/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the training programs share: options in, exit code out; the work is runtime/starling.h.
 */
#ifndef SL_APPS_RUN_H
#define SL_APPS_RUN_H

#include "runtime/starling.h"

/* A program's main: 0, 1 where it failed, 2 where it was called wrong; messages begin with its name. */
int run_program(const char *program, enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv);

#endif
