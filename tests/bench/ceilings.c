/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Each ceiling is a loop over buffers of its own, run until the clock can tell, and the best of several tries. */
#include "tests/bench/ceilings.h"

#include <stdbool.h>
#include <string.h>

#include "codelets/rows/gemm.h"
#include "support/memory.h"
#include "support/philox.h"
#include "tests/bench/clock.h"
#include "tests/bench/fused.h"

/* Tries: short ones, and between so many. */
enum { MIN_TRIES = 9, MAX_TRIES = 80, LINE_WORDS = 16, AHEAD = 16, N_LINES = 1 << 12, N_PLACES = 1 << 19 };
static const double try_s = 0.001;
static const double enough_s = 0.1;

/* Buffers of one trial: a and b are read, c is written. */
struct trial {
    uint32_t m, n, k;
    float *a, *b, *c;
    uint32_t *index; /* m places below k: a window of `places` */
    uint32_t *places;
    enum sl_status *status; /* of the products so far */
    size_t n_places;        /* many times m, so that no call finds in the cache what the one before it read */
};

/* ---- the loops: each does one task's work once ---- */

/* C = op(A) op(B), as the codelets call it; the columns are those of A and B as stored. */
static void multiply(const struct trial *t, uint32_t a_columns, int a_is_transposed, uint32_t b_columns,
                     int b_is_transposed)
{
    struct sl_factor a = {t->a, a_columns, a_is_transposed, false};
    struct sl_factor b = {t->b, b_columns, b_is_transposed, false};
    enum sl_status st = sl_gemm(t->m, t->n, t->k, a, b, 0, t->c);
    *t->status = st != SL_OK ? st : *t->status;
}

static void product(const struct trial *t)
{
    multiply(t, t->k, 0, t->n, 0);
}

static void product_input(const struct trial *t)
{
    multiply(t, t->k, 0, t->k, 1);
}

static void product_weight(const struct trial *t)
{
    multiply(t, t->m, 1, t->n, 0);
}

static void rows(const struct trial *t)
{
    for (uint32_t i = 0; i < t->m; i++) {
        const float *next = t->a + (size_t)t->index[i + AHEAD < t->m ? i + AHEAD : i] * t->n;
        for (uint32_t c = 0; c < t->n; c += LINE_WORDS) {
            __builtin_prefetch(next + c, 0, 2);
        }
        memcpy(t->c + (size_t)i * t->n, t->a + (size_t)t->index[i] * t->n, t->n * sizeof *t->c);
    }
}

static void lines(const struct trial *t)
{
    uint32_t mixed = 0;
    for (uint32_t i = 0; i < t->m; i++) {
        uint32_t bits;
        memcpy(&bits, t->a + (size_t)t->index[i] * LINE_WORDS, sizeof bits);
        mixed ^= bits;
    }
    memcpy(t->c, &mixed, sizeof mixed); /* else a compiler could leave the loads away */
}

static void copy(const struct trial *t)
{
    memcpy(t->c, t->a, t->k);
}

/* Many draws at once, as fast as the library can: its own loop. */
static void draws(const struct trial *t)
{
    const struct sl_draw where = {.seed = 1, .purpose = SL_FOR_SAMPLING};
    uint32_t mixed = 0;
    for (uint32_t i = 0; i + SL_PHILOX_LANES <= t->m; i += SL_PHILOX_LANES) {
        uint32_t words[4][SL_PHILOX_LANES];
        sl_random4_lanes(&where, t->index + i, 0, words);
        mixed ^= words[3][i % SL_PHILOX_LANES];
    }
    memcpy(t->c, &mixed, sizeof mixed);
}

/* The marks stay from call to call: that they are there already costs no less. */
static void marks(const struct trial *t)
{
    uint64_t *words = (uint64_t *)(void *)t->c;
    uint64_t mixed = 0;
    for (uint32_t i = 0; i < t->m; i++) {
        words[t->index[i] / 64] |= UINT64_C(1) << t->index[i] % 64;
    }
    for (uint32_t i = 0; i < t->m; i++) {
        mixed ^= words[t->index[i] / 64];
    }
    memcpy(t->a, &mixed, sizeof mixed);
}

/* A counting sort: where each key's items begin, then every item in its turn. */
static void order(const struct trial *t)
{
    uint32_t *begin = (uint32_t *)(void *)t->c;
    uint32_t *out = begin + t->k;
    uint32_t n = 0;
    memset(begin, 0, t->k * sizeof *begin);
    for (uint32_t i = 0; i < t->m; i++) {
        begin[t->index[i]]++;
    }
    for (uint32_t key = 0; key < t->k; key++) {
        uint32_t count = begin[key];
        begin[key] = n;
        n += count;
    }
    for (uint32_t i = 0; i < t->m; i++) {
        out[begin[t->index[i]]++] = i;
    }
}

/* ---- shapes ---- */

/* How a limit is measured: its loop, the elements of its buffers, and the units of one call. */
struct plan {
    void (*loop)(const struct trial *trial);
    size_t n_a, n_b, n_c;
    double units;
};

static struct plan plan_of(enum bench_limit limit, const struct trial *t)
{
    size_t m = t->m;
    size_t n = t->n;
    size_t k = t->k;
    double flops = 2.0 * t->m * t->n * t->k;
    switch (limit) {
    case BENCH_PRODUCT: return (struct plan){product, m * k, k * n, m * n, flops};
    case BENCH_PRODUCT_INPUT: return (struct plan){product_input, m * k, n * k, m * n, flops};
    case BENCH_PRODUCT_WEIGHT: return (struct plan){product_weight, k * m, k * n, m * n, flops};
    case BENCH_ROWS: return (struct plan){rows, k * n, 0, m * n, 2.0 * sizeof(float) * t->m * t->n};
    case BENCH_LINES: return (struct plan){lines, k * LINE_WORDS, 0, 1, t->m};
    case BENCH_DRAWS: return (struct plan){draws, 0, 0, 1, t->m};
    case BENCH_MARKS: return (struct plan){marks, 2, 0, (k + 63) / 64 * 2, t->m};
    case BENCH_ORDER: return (struct plan){order, 0, 0, k + m, t->m};
    case BENCH_COPY: break;
    }
    size_t words = (k + sizeof(float) - 1) / sizeof(float);
    return (struct plan){copy, words, 0, words, 2.0 * t->k};
}

/* ---- trials ---- */

/* Numbers that neither overflow nor become subnormal, and places by a linear congruence: enough to be no pattern. */
static void fill(struct trial *t, const struct plan *plan)
{
    uint64_t state = 1;
    for (size_t i = 0; i < plan->n_a; i++) {
        t->a[i] = (float)(i % 17) - 8;
    }
    for (size_t i = 0; i < plan->n_b; i++) {
        t->b[i] = (float)(i % 13) - 6;
    }
    memset(t->c, 0, plan->n_c * sizeof *t->c);
    for (size_t i = 0; i < t->n_places; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        t->places[i] = (uint32_t)((state >> 32) * t->k >> 32);
    }
    t->index = t->places;
}

/* Move the window on, and from the end to the start. */
static void turn_over(struct trial *t)
{
    t->index += t->m;
    if ((size_t)(t->index - t->places) + t->m > t->n_places) {
        t->index = t->places;
    }
}

static double seconds_of(struct trial *t, const struct plan *plan, uint32_t n_calls)
{
    double start_s = bench_thread_s();
    for (uint32_t i = 0; i < n_calls; i++) {
        plan->loop(t);
        turn_over(t);
    }
    return bench_thread_s() - start_s;
}

static double best_rate(struct trial *t, const struct plan *plan)
{
    double best_s = 1e30;
    double spent_s = seconds_of(t, plan, 1); /* meets cold caches */
    double once_s = seconds_of(t, plan, 1);
    uint32_t n_calls = once_s * 1e6 < try_s ? 1000000 : 1 + (uint32_t)(try_s / once_s);
    for (int i = 0; i < MIN_TRIES || (i < MAX_TRIES && spent_s < enough_s); i++) {
        double s = seconds_of(t, plan, n_calls);
        best_s = s / n_calls < best_s ? s / n_calls : best_s;
        spent_s += s;
    }
    return plan->units / best_s;
}

static enum sl_status measure(const struct bench_work *work, double *rate_out)
{
    enum sl_status st = SL_OK;
    struct trial t = {.m = work->m, .n = work->n, .k = work->k, .status = &st};
    if (work->limit == BENCH_LINES || work->limit == BENCH_DRAWS) {
        t.m = N_LINES;
    }
    t.n_places = t.m < N_PLACES ? N_PLACES : t.m;
    struct plan plan = plan_of(work->limit, &t);
    SL_TRY(st, sl_alloc(plan.n_a, sizeof *t.a, "a ceiling's operand", &t.a), done);
    SL_TRY(st, sl_alloc(plan.n_b, sizeof *t.b, "a ceiling's operand", &t.b), done);
    SL_TRY(st, sl_alloc(plan.n_c, sizeof *t.c, "a ceiling's result", &t.c), done);
    SL_TRY(st, sl_alloc(t.n_places, sizeof *t.places, "a ceiling's places", &t.places), done);
    fill(&t, &plan);
    *rate_out = best_rate(&t, &plan);
done:
    sl_free(t.a);
    sl_free(t.b);
    sl_free(t.c);
    sl_free(t.places);
    return st;
}

/* ---- all works ---- */

static bool alike(const struct bench_work *a, const struct bench_work *b)
{
    return a->limit == b->limit && a->m == b->m && a->n == b->n && a->k == b->k;
}

static bool is_product(const struct bench_work *work)
{
    return work->limit == BENCH_PRODUCT || work->limit == BENCH_PRODUCT_INPUT || work->limit == BENCH_PRODUCT_WEIGHT;
}

enum sl_status bench_ceilings_measure(const struct bench_floor *floor, double *rates_out, double *library_out)
{
    double fused = bench_fused_rate();
    enum sl_status st = SL_OK;
    for (uint32_t i = 0; st == SL_OK && i < floor->n; i++) {
        uint32_t known = 0;
        while (!alike(&floor->work[known], &floor->work[i])) {
            known++;
        }
        if (known < i) {
            library_out[i] = library_out[known];
        } else {
            st = measure(&floor->work[i], &library_out[i]);
        }
        rates_out[i] = is_product(&floor->work[i]) ? fused : library_out[i];
    }
    return st;
}
