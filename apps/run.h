/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the training programs share: options in, exit code out; the work is runtime/starling.h.
 */
#ifndef SL_APPS_RUN_H
#define SL_APPS_RUN_H

#include "runtime/starling.h"

/* A program's main. Returns 0; 1 if it failed; 2 if it was called wrong; 130 if SIGINT ended the training early. Messages begin with its
 * name. */
int run_program(const char *program, enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv);

#endif
