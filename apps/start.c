/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Limits, OpenBLAS's threads, hwloc's plugins, and the last output. */
#include "apps/program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define STACK_BYTES ((rlim_t)2 << 20)

/* OpenBLAS has a function of this name, and calls it at load time for its number of threads. The definition in the
 * program takes precedence. Starling needs no thread of OpenBLAS's own. Such a thread maps memory when it starts, and
 * retries for ever if there is none. */
__attribute__((visibility("default"))) int openblas_num_threads_env(void);
int openblas_num_threads_env(void)
{
    return 1;
}

static const char *notice_program;
static bool quiet;

/* Rank 0 speaks for all ranks. */
static void show_notice(enum sl_notice kind, const char *line)
{
    if (sl_process_number() == 0 && (kind == SL_NOTICE_WARNING || !quiet)) {
        fprintf(stderr, "%s: %s%s\n", notice_program, kind == SL_NOTICE_WARNING ? "warning: " : "", line);
    }
}

void show_notices(const char *program, bool only_warnings)
{
    notice_program = program;
    quiet = only_warnings;
    sl_on_notice(show_notice);
}

int flush_output(const char *program, int code)
{
    if (code != EXIT_FAILED && code != EXIT_USAGE && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "%s: cannot write to standard output; is the disk full, or its reader gone?\n", program);
        return EXIT_FAILED;
    }
    return code;
}

int start_program(const char *program)
{
    struct rlimit stack;
    sl_streams_open();
    signal(SIGXFSZ, SIG_IGN);
    /* These plugins look for X servers and read foreign XML. Their libraries, of no use here, take 2 MB of memory. */
    setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_gl.so,hwloc_xml_libxml.so", 0);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < STACK_BYTES) {
        fprintf(stderr, "%s: found a stack of %llu kB, expected at least %llu kB; raise 'ulimit -s'\n", program,
                (unsigned long long)stack.rlim_cur >> 10, (unsigned long long)STACK_BYTES >> 10);
        return EXIT_FAILED;
    }
    return EXIT_GOOD;
}
