/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A parallel loop for the work before a run: reading, generating, converting.
 *
 * Training itself is StarPU's tasks; this is for the minute before StarPU starts. What a body computes must depend on
 * its range alone, so that results do not depend on the number of threads.
 */
#ifndef SL_SUPPORT_PARALLEL_H
#define SL_SUPPORT_PARALLEL_H

#include <stdint.h>

/* Threads worth starting: the cores this process may use, at most 64; sl_parallel_limit lowers it. At least 1. */
unsigned sl_parallel_threads(void);

/* For tests: use at most `threads` threads; 0: as many as there are cores. */
void sl_parallel_limit(unsigned threads);

/* Call body(context, begin, end) over ranges that cover 0 .. n-1 once, each of `grain` items at most, from several
 * threads and the caller; return when all are done. Ranges start at multiples of `grain` (>= 1). Where no thread can be
 * started the caller does all the work: this cannot fail. */
void sl_parallel_for(uint64_t n, uint64_t grain, void (*body)(void *context, uint64_t begin, uint64_t end),
                     void *context);

#endif
