/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What every program does first: small limits (`ulimit`) are met before anything else is.
 */
#ifndef SL_APPS_START_H
#define SL_APPS_START_H

/* Call body(argc, argv) and return its code. Missing standard streams are opened (sl_streams_open). A write beyond
 * `ulimit -f` fails, as on a full disk; it does not end the process. If `ulimit -s` is below 2 MiB, the program ends
 * with code 1 and one line. */
int start_program(const char *program, int (*body)(int argc, char **argv), int argc, char **argv);

#endif
