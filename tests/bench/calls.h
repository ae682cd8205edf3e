/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * bench_gpu --calls: what a call of CUDA, and a task of StarPU, costs.
 */
#ifndef SL_TESTS_BENCH_CALLS_H
#define SL_TESTS_BENCH_CALLS_H

/* Print a table as Markdown, in microseconds, medians of n_repeats (at most 1000), on the first GPU. Starts StarPU and
 * ends it. Returns an exit status: 1 if a call failed, with a message on standard error. */
int bench_calls(int n_repeats);

#endif
