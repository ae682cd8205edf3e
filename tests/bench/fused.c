/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums in registers, each waiting for itself alone: s = s a + b. Twelve of them are enough for two units that take
 * four or five cycles, and leave registers for a and b. */
#include "tests/bench/fused.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "tests/bench/clock.h"

enum { N_SUMS = 12, N_ROUNDS = 100000, N_TRIES = 60, PLAIN_WIDTH = 4 };

/* s approaches 0.5: neither overflows nor becomes subnormal. */
static const float factor = 0.998f;
static const float summand = 0.001f;

#ifdef __x86_64__

__attribute__((target("avx512f"))) static float spin_512(void)
{
    const __m512 a = _mm512_set1_ps(factor);
    const __m512 b = _mm512_set1_ps(summand);
    __m512 s[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) {
        s[i] = _mm512_set1_ps((float)i);
    }
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < N_SUMS; i++) {
            s[i] = _mm512_fmadd_ps(s[i], a, b);
        }
    }
    for (int i = 1; i < N_SUMS; i++) {
        s[0] = _mm512_add_ps(s[0], s[i]);
    }
    return _mm512_reduce_add_ps(s[0]);
}

__attribute__((target("avx2,fma"))) static float spin_256(void)
{
    const __m256 a = _mm256_set1_ps(factor);
    const __m256 b = _mm256_set1_ps(summand);
    __m256 s[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) {
        s[i] = _mm256_set1_ps((float)i);
    }
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < N_SUMS; i++) {
            s[i] = _mm256_fmadd_ps(s[i], a, b);
        }
    }
    for (int i = 1; i < N_SUMS; i++) {
        s[0] = _mm256_add_ps(s[0], s[i]);
    }
    float sum[8];
    _mm256_storeu_ps(sum, s[0]);
    return sum[0] + sum[7];
}

#endif

/* One step of a sum. */
static inline float step(float s)
{
#ifdef FP_FAST_FMAF
    return fmaf(s, factor, summand);
#else
    return s * factor + summand;
#endif
}

static float spin_plain(void)
{
    float s[N_SUMS][PLAIN_WIDTH];
    float sum = 0;
    for (int i = 0; i < N_SUMS * PLAIN_WIDTH; i++) {
        s[i / PLAIN_WIDTH][i % PLAIN_WIDTH] = (float)i;
    }
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < N_SUMS; i++) {
#pragma GCC unroll 4
            for (int j = 0; j < PLAIN_WIDTH; j++) {
                s[i][j] = step(s[i][j]);
            }
        }
    }
    for (int i = 0; i < N_SUMS * PLAIN_WIDTH; i++) {
        sum += s[i / PLAIN_WIDTH][i % PLAIN_WIDTH];
    }
    return sum;
}

/* Flops a second of a loop whose sums are `width` numbers wide. */
static double rate_of(float (*spin)(void), int width)
{
    double best_s = 1e30;
    for (int i = 0; i < N_TRIES; i++) {
        double start_s = bench_thread_s();
        volatile float sum = spin(); /* else a compiler could leave the loop away */
        double s = bench_thread_s() - start_s;
        (void)sum;
        best_s = fmin(best_s, s);
    }
    return 2.0 * width * N_SUMS * N_ROUNDS / best_s;
}

double bench_fused_rate(void)
{
    double rate = rate_of(spin_plain, PLAIN_WIDTH);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rate = fmax(rate, rate_of(spin_256, 8));
    }
    if (__builtin_cpu_supports("avx512f")) {
        rate = fmax(rate, rate_of(spin_512, 16));
    }
#endif
    return rate;
}
