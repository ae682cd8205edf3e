/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The hardware's own ceiling for products: multiplications and additions of a core that waits for no memory and no
 * library.
 */
#ifndef SL_TESTS_BENCH_FUSED_H
#define SL_TESTS_BENCH_FUSED_H

/* Flops a second of the calling thread in float, a multiplication and an addition each being one: the best of
 * several tries, in its processor time, with whichever of the vector instructions that this processor has is the
 * fastest (AVX-512, AVX2 with FMA, or what the compiler makes of a plain loop, the only kind on other processors).
 * Takes some 50 ms; measured anew with each call. */
double bench_fused_rate(void);

#endif
