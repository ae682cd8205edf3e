/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * make bench-products: the three products of a dense layer alone, on one thread, with rows that are in no cache, by
 * OpenBLAS and by codelets/rows/gemm.h, beside what the core can do; as Markdown. The weights are read by every call
 * and stay.
 *
 *   forward   Z = X W        X [D x F], W [F x H]
 *   input     GX = GZ W^T
 *   weight    GW = X^T GZ */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codelets/rows/gemm.h"
#include "support/memory.h"
#include "tests/bench/clock.h"
#include "tests/bench/fused.h"

/* Rows are taken from so many numbers (256 MB), one set after the other; a mean is of so many calls, and the best
 * of so many. */
enum { POOL = 1 << 26, N_CALLS = 40, N_MEANS = 7 };

static int n_calls = N_CALLS, n_means = N_MEANS; /* one with $SL_SMOKE */

struct shape {
    uint32_t d, h, f; /* as m, n, k of the forward product */
};

/* Of a layer of 96 features, of hidden ones, of the deep setting's, of 40 classes; then what chunks of the
 * tutorial's setting have. */
static const struct shape shapes[] = {{1024, 128, 96}, {2048, 128, 128}, {4096, 128, 96}, {8192, 256, 256},
                                      {4096, 40, 256}, {1963, 128, 96},  {1963, 40, 128}, {505, 40, 128}};

enum kind { FORWARD, INPUT, WEIGHT, N_KINDS };
enum library { OPENBLAS, CHOSEN, BF16, N_LIBRARIES };

struct memory {
    float *pool, *weights;
};

static enum sl_status by_openblas(const struct shape *s, enum kind kind, float *x, float *z, float *w)
{
    int d = (int)s->d;
    int h = (int)s->h;
    int f = (int)s->f;
    switch (kind) {
    case FORWARD: cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, d, h, f, 1, x, f, w, h, 0, z, h); break;
    case INPUT: cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, d, f, h, 1, z, h, w, h, 0, x, f); break;
    default: cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, f, h, d, 1, x, f, z, h, 0, w, h); break;
    }
    return SL_OK;
}

static enum sl_status by_choice(const struct shape *s, enum kind kind, float *x, float *z, float *w)
{
    struct sl_factor rows = {x, s->f, kind == WEIGHT, false};
    struct sl_factor results = {z, s->h, 0, false};
    struct sl_factor weights = {w, s->h, kind == INPUT, false};
    switch (kind) {
    case FORWARD: return sl_gemm(s->d, s->h, s->f, rows, weights, 0, z);
    case INPUT: return sl_gemm(s->d, s->f, s->h, results, weights, 0, x);
    default: return sl_gemm(s->f, s->h, s->d, rows, results, 0, w);
    }
}

/* Factors that are in bf16 already, in the memory of floats; what comes of them is float. */
static enum sl_status in_bf16(const struct shape *s, enum kind kind, float *x, float *z, float *w)
{
    struct sl_factor rows = {x, s->f, kind == WEIGHT, true};
    struct sl_factor results = {z, s->h, 0, true};
    struct sl_factor weights = {w, s->h, kind == INPUT, true};
    switch (kind) {
    case FORWARD: return sl_gemm_bf16(s->d, s->h, s->f, rows, weights, 0, z);
    case INPUT: return sl_gemm_bf16(s->d, s->f, s->h, results, weights, 0, x);
    default: return sl_gemm_bf16(s->f, s->h, s->d, rows, results, 0, w);
    }
}

static enum sl_status multiply(const struct shape *s, enum kind kind, enum library library, float *x, float *z,
                               float *w)
{
    return (library == OPENBLAS ? by_openblas : library == CHOSEN ? by_choice : in_bf16)(s, kind, x, z, w);
}

/* Numbers that neither overflow nor become subnormal. */
static void fill(struct memory *memory)
{
    for (size_t i = 0; i < POOL; i++) {
        memory->pool[i] = (float)(i % 17) / 8 - 1;
        memory->weights[i % (1 << 20)] = (float)(i % 13) / 6 - 1;
    }
}

/* The mean of some calls, in seconds, from place *set on. */
static enum sl_status mean_of(const struct shape *s, enum kind kind, enum library library, const struct memory *memory,
                              size_t *set, double *seconds_out)
{
    size_t n_x = (size_t)s->d * s->f;
    size_t stride = n_x + (size_t)s->d * s->h;
    enum sl_status st = SL_OK;
    double start_s = bench_thread_s();
    for (int i = 0; st == SL_OK && i < n_calls; i++) {
        float *x = memory->pool + (*set)++ % (POOL / stride) * stride;
        st = multiply(s, kind, library, x, x + n_x, memory->weights);
    }
    *seconds_out = (bench_thread_s() - start_s) / n_calls;
    return st;
}

/* By turns, so that a slower minute is everybody's. */
static enum sl_status print_kind(const struct shape *s, enum kind kind, const struct memory *memory, double fused)
{
    double best_s[N_LIBRARIES] = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
    double flops = 2.0 * s->d * s->h * s->f;
    enum sl_status st = SL_OK;
    size_t set = 0;
    for (int i = 0; i < n_means * N_LIBRARIES; i++) {
        double s_mean;
        enum library library = i % N_LIBRARIES;
        SL_TRY(st, mean_of(s, kind, library, memory, &set, &s_mean), failed);
        best_s[library] = fmin(best_s[library], s_mean);
    }
    printf(" %.0f | %.0f | %.0f %% | %.0f |", 1e-9 * flops / best_s[OPENBLAS], 1e-9 * flops / best_s[CHOSEN],
           100 * flops / best_s[CHOSEN] / fused, 1e-9 * flops / best_s[BF16]);
    fflush(stdout);
failed:
    return st;
}

int main(void)
{
    struct memory memory = {0};
    char library[256];
    enum sl_status st;
    if (getenv("SL_SMOKE") != NULL) {
        n_calls = n_means = 1;
    }
    sl_gemm_setup();
    sl_gemm_describe(library, sizeof library);
    double fused = bench_fused_rate();
    SL_TRY(st, sl_alloc(POOL, sizeof(float), "rows to multiply", &memory.pool), done);
    SL_TRY(st, sl_alloc(1 << 20, sizeof(float), "weights", &memory.weights), done);
    fill(&memory);
    printf("A core: %.1f GFLOP/s. Chosen here: %s.\n\n", 1e-9 * fused, library);
    printf("| rows, out, in | forward: OpenBLAS | chosen | of the core | bf16 | input: OpenBLAS | chosen | of the core "
           "| bf16 | "
           "weight: OpenBLAS | chosen | of the core | bf16 |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        printf("| %u, %u, %u |", shapes[i].d, shapes[i].h, shapes[i].f);
        for (enum kind kind = 0; st == SL_OK && kind < N_KINDS; kind++) {
            st = print_kind(&shapes[i], kind, &memory, fused);
        }
        SL_TRY(st, st, done);
        printf("\n");
    }
done:
    sl_free(memory.pool);
    sl_free(memory.weights);
    if (st != SL_OK) {
        fprintf(stderr, "products: %s\n", sl_message());
    }
    return st == SL_OK ? 0 : 1;
}
