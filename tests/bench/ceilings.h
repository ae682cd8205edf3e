/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What one core of this machine can do, measured with the simplest loops: multiplications and additions in
 * registers, random rows, random lines, copy, and what sampling needs; all but the first at the shape that the
 * codelets have.
 */
#ifndef SL_TESTS_BENCH_CEILINGS_H
#define SL_TESTS_BENCH_CEILINGS_H

#include "support/status.h"
#include "tests/bench/floor.h"

/* The best rate of several tries at each kind of work, in its own units a second, on the calling thread and in its
 * processor time; works of one shape are measured once. Takes about a tenth of a second for each shape.
 *   rates_out     floor->n of them; of products what the core can do, whatever their shape (tests/bench/fused.h)
 *   library_out   the same, but of products what gemm.h does at the shape, on factors that stay where they are
 * SL_ENOMEM. */
enum sl_status bench_ceilings_measure(const struct bench_floor *floor, double *rates_out, double *library_out);

#endif
