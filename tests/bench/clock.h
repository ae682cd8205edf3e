/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The clock of the bench's loops.
 */
#ifndef SL_TESTS_BENCH_CLOCK_H
#define SL_TESTS_BENCH_CLOCK_H

#include <time.h>

/* Processor time of the calling thread, in seconds: what other programs take of the machine is not in it. */
static inline double bench_thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
