/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The programs' main: options in, exit code out. runtime/starling.h does the work.
 */
#ifndef SL_APPS_PROGRAM_H
#define SL_APPS_PROGRAM_H

#include "runtime/starling.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What every program does first. Missing standard streams are opened (sl_streams_open). A write beyond `ulimit -f`
 * fails, as on a full disk; it does not end the process. Returns 0; 1, with a line, if `ulimit -s` is below 2 MiB. */
int start_program(const char *program);

/* Show the library's notices on standard error, behind the program's name. */
void show_notices(const char *program, bool only_warnings);

/* Flush standard output. Returns `code`, or EXIT_FAILED, with a line, if the output cannot be written. */
int flush_output(const char *program, int code);

/* The main of the training program named `program`. Returns 0; 1 if the run failed; 2 if the command line is wrong; 130
 * if SIGINT ended training early. Messages begin with the program's name. */
int run_program(const char *program, enum sl_status (*defaults)(struct sl_settings **), int argc, char **argv);

#endif
