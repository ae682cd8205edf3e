/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The clock of all measurements: monotonic seconds from an arbitrary start. Thread safe.
 */
#ifndef SL_SUPPORT_CLOCK_H
#define SL_SUPPORT_CLOCK_H

#include <time.h>

static inline double sl_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
