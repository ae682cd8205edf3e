/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The training programs' main: options in, exit code out. runtime/starling.h does the work.
 */
#ifndef SL_APPS_PROGRAM_H
#define SL_APPS_PROGRAM_H

#include "runtime/starling.h"

/* The main of the program named `program`. Returns 0; 1 if the run failed; 2 if the command line is wrong; 130 if
 * SIGINT ended training early. Messages begin with the program's name. */
int run_program(const char *program, enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv);

#endif
