/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A parallel loop for work before StarPU starts: reading, generating, converting. Training itself uses StarPU tasks.
 *
 * The result of a body must depend on its range alone, so that results do not depend on the number of threads.
 */
#ifndef SL_SUPPORT_PARALLEL_H
#define SL_SUPPORT_PARALLEL_H

#include <stdatomic.h>
#include <stdint.h>

/* The number of threads worth starting: the cores that this process may use, 1 .. 64. sl_parallel_limit lowers it. */
unsigned sl_parallel_threads(void);

/* For tests: use at most `threads` threads; 0: one per core. */
void sl_parallel_limit(unsigned threads);

/* Call body(context, begin, end) for ranges that cover 0 .. n - 1 once, from several threads and the calling thread.
 * Return when all ranges are done. Ranges start at multiples of `grain` (>= 1) and have at most `grain` items. This
 * cannot fail: if no thread can be started, the calling thread does all the work. */
void sl_parallel_for(uint64_t n, uint64_t grain, void (*body)(void *context, uint64_t begin, uint64_t end),
                     void *context);

/* Lower *least to i. For the first wrong item of a loop. */
static inline void sl_parallel_lower(_Atomic uint64_t *least, uint64_t i)
{
    uint64_t old = atomic_load(least);
    while (i < old && !atomic_compare_exchange_weak(least, &old, i)) {
    }
}

#endif
