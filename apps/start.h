/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What every program does first: small limits (`ulimit`) are met before anything else is.
 */
#ifndef SL_APPS_START_H
#define SL_APPS_START_H

/* Call body(argc, argv) and return its code. Standard streams that are closed are opened (sl_streams_open). A write
 * beyond `ulimit -f` fails, as on a full disk, instead of ending the process. If the stack may not grow to 2 MiB
 * (`ulimit -s`), body runs in a thread that has a stack of that size. If `ulimit -v` or `-d` leave too little to do
 * anything, the program has ended before main, with code 1 and a line that says so. */
int start_program(const char *program, int (*body)(int argc, char **argv), int argc, char **argv);

#endif
