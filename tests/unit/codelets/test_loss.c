/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/ends/loss.h: losses and their gradients against the formulas in long double, sums in
 * order, and what is unknown, extreme, empty or not a number. */
#include "codelets/ends/loss.h"

#include "tests/support/starpu_fixture.h"

#define FIRST 70
#define PART 40
#define MOST_ROWS 700
#define MOST_COLUMNS 349
#define SCALE (1.0 / 37)

#define N_KINDS (SL_ROW_ABSOLUTE + 1)

struct problem {
    int kind;
    uint32_t n_rows, n_columns;
    bool weighs;
    double smoothing; /* cross entropy's */
};

static int32_t labels[PART];
static float targets[PART * MOST_COLUMNS];
static float weights[MOST_COLUMNS];
static sl_vertex ids[MOST_ROWS];

/* Every eleventh vertex has no label, and every fifth entry is unknown; of the others every third is 1. Errors have
 * other numbers, too. Weights are 0, 1/2, 1, 3/2. */
static void make_targets(const struct problem *p)
{
    for (uint32_t v = 0; v < PART; v++) {
        labels[v] = v % 11 == 10 ? -1 : (int32_t)(v * 7 % p->n_columns);
    }
    for (uint32_t i = 0; i < PART * p->n_columns; i++) {
        float y = (float)(i % 3 == 0);
        targets[i] = i % 5 == 4 ? NAN : p->kind == SL_ROW_SIGMOID ? y : y + 0.37F * (float)(i % 7);
    }
    for (uint32_t c = 0; c < MOST_COLUMNS; c++) {
        weights[c] = 0.5F * (float)(c % 4);
    }
    for (uint32_t i = 0; i < MOST_ROWS; i++) {
        ids[i] = FIRST + (i * 3 + 1) % PART;
    }
}

/* ---- the formulas ---- */

static long double exact_entry(int kind, long double z, long double y, long double w, long double *slope)
{
    switch (kind) {
    case SL_ROW_SIGMOID:
        *slope = (1 - y) / (1 + expl(-z)) - w * y / (1 + expl(z));
        return w * y * log1pl(expl(-z)) + (1 - y) * log1pl(expl(z));
    case SL_ROW_SQUARED: *slope = 2 * (z - y); return (z - y) * (z - y);
    }
    *slope = z > y ? 1 : z < y ? -1 : 0;
    return fabsl(z - y);
}

/* The sum of the cross entropies of all classes, log-sum-exp without a shift. */
static long double exact_classes(const struct problem *p, const sl_real *z, int32_t label, long double *slopes)
{
    long double exponentials = 0;
    long double total = 0;
    long double loss = 0;
    for (uint32_t c = 0; c < p->n_columns; c++) {
        exponentials += expl((long double)z[c]);
    }
    for (uint32_t c = 0; label >= 0 && c < p->n_columns; c++) {
        slopes[c] = (long double)p->smoothing / p->n_columns + (c == (uint32_t)label ? 1 - p->smoothing : 0);
        slopes[c] *= p->weighs ? (long double)weights[c] : 1;
        total += slopes[c];
        loss += slopes[c] * (logl(exponentials) - (long double)z[c]);
    }
    for (uint32_t c = 0; c < p->n_columns; c++) {
        slopes[c] = total * expl((long double)z[c]) / exponentials - slopes[c];
    }
    return loss;
}

/* The loss of a row, and its slopes. */
static long double exact_row(const struct problem *p, const sl_real *z, uint32_t row, long double *slopes)
{
    const uint32_t v = ids[row] - FIRST;
    long double loss = 0;
    memset(slopes, 0, p->n_columns * sizeof *slopes);
    if (p->kind == SL_ROW_SOFTMAX) {
        return exact_classes(p, z, labels[v], slopes);
    }
    for (uint32_t c = 0; c < p->n_columns; c++) {
        const float y = targets[(size_t)v * p->n_columns + c];
        if (!isnan(y)) {
            loss += exact_entry(p->kind, (long double)z[c], (long double)y, p->weighs ? (long double)weights[c] : 1,
                                &slopes[c]);
        }
    }
    return loss;
}

/* The formulas of slopes are those of the losses' differences. */
TEST(test_formulas)
{
    enum { C = 5 };
    long double slopes[C], ignored[C];
    for (int kind = 0; kind < N_KINDS; kind++) {
        const struct problem p = {kind, 6, C, kind != SL_ROW_SQUARED && kind != SL_ROW_ABSOLUTE, 0.2};
        make_targets(&p);
        for (uint32_t row = 0; row < p.n_rows; row++) {
            FREED sl_real *z = noisy(C, row);
            exact_row(&p, z, row, slopes);
            for (uint32_t c = 0; c < C; c++) {
                const sl_real middle = z[c];
                const sl_real step = (sl_real)0x1p-10;
                z[c] = middle + step;
                const long double above = exact_row(&p, z, row, ignored);
                const sl_real top = z[c];
                z[c] = middle - step;
                const long double below = exact_row(&p, z, row, ignored);
                const long double slope = (above - below) / ((long double)top - (long double)z[c]);
                z[c] = middle;
                expect_near_at("dL/dz", c, (double)slopes[c], (double)slope, 1e-5);
            }
        }
    }
}

/* ---- tasks ---- */

/* The losses as variables, vectors and matrices in turn: any of them will do. */
static starpu_data_handle_t register_loss(double *loss, uint32_t i)
{
    starpu_data_handle_t handle;
    if (i % 3 == 1) {
        return vector_of(loss, 1, sizeof *loss);
    }
    if (i % 3 == 2) {
        return sl_matrix_over(loss, 1, 1, SL_DTYPE_F64);
    }
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)loss, sizeof *loss);
    return handle;
}

enum { MOST_CHUNKS = 20 };

/* Gradients, the loss of each chunk, and their sum. */
struct result {
    sl_real *gz;
    uint32_t n_chunks;
    double losses[MOST_CHUNKS];
    double total;
};

static void submit(const struct problem *p, sl_real *z, uint32_t chunk, struct result *out)
{
    starpu_data_handle_t losses[MOST_CHUNKS], h[2 * MOST_CHUNKS + 5];
    unsigned n = 0;
    starpu_data_handle_t frontier = h[n++] = vector_of(ids, MOST_ROWS, sizeof *ids);
    starpu_data_handle_t by_class = h[n++] = vector_of(weights, p->n_columns, sizeof *weights);
    starpu_data_handle_t part_labels = h[n++] = vector_of(labels, PART, sizeof *labels);
    starpu_data_handle_t part_targets = h[n++] = vector_of(targets, PART * p->n_columns, sizeof *targets);
    starpu_data_handle_t total = h[n++] = register_loss(&out->total, 0);
    const struct sl_loss_handles rows = {.kind = (enum sl_row_loss)p->kind,
                                         .targets = p->kind == SL_ROW_SOFTMAX ? part_labels : part_targets,
                                         .first = FIRST,
                                         .frontier = frontier,
                                         .weights = p->weighs ? by_class : NULL,
                                         .smoothing = p->smoothing};
    out->n_chunks = 0;
    for (uint32_t row = 0; row < p->n_rows; row += chunk) {
        const uint32_t n_rows = p->n_rows - row < chunk ? p->n_rows - row : chunk;
        const uint32_t i = out->n_chunks++;
        assert_true(i < MOST_CHUNKS);
        losses[i] = register_loss(&out->losses[i], i);
        h[n++] = rows_of(z + (size_t)row * p->n_columns, n_rows, p->n_columns);
        h[n++] = rows_of(out->gz + (size_t)row * p->n_columns, n_rows, p->n_columns);
        expect_ok(sl_loss_submit(&head, h[n - 2], &rows, row, SCALE, h[n - 1], losses[i]));
    }
    static const uint32_t leaf[MOST_CHUNKS];
    expect_ok(sl_loss_sum_submit(&head, out->n_chunks, losses, leaf, false, NULL, total));
    unregister(out->n_chunks, losses);
    unregister(n, h);
}

/* Sums are in double. In float a row's share is a multiple of 2^-42, and exponentials have a float's digits. */
static void check(const struct problem *p, uint32_t chunk, double size)
{
    const size_t n = (size_t)p->n_rows * p->n_columns;
    struct result got[2] = {{.gz = poisoned(n)}, {.gz = poisoned(n)}};
    FREED sl_real *z = noisy(n, 1);
    double total = 0;
    make_targets(p);
    for (size_t i = 0; i < n; i++) {
        z[i] *= (sl_real)size;
    }
    submit(p, z, chunk, &got[0]);
    submit(p, z, chunk, &got[1]);
    expect_no_failure();
    for (uint32_t i = 0; i < got[0].n_chunks; i++) {
        long double loss = 0;
        for (uint32_t row = i * chunk; row < p->n_rows && row < (i + 1) * chunk; row++) {
            long double slopes[MOST_COLUMNS];
            loss += exact_row(p, z + (size_t)row * p->n_columns, row, slopes);
            for (uint32_t c = 0; c < p->n_columns; c++) {
                const size_t at = (size_t)row * p->n_columns + c;
                expect_near_at("GZ", at, (double)got[0].gz[at], SCALE * (double)slopes[c], 16 * EPSILON * SCALE);
            }
        }
        expect_near_at("loss", i, got[0].losses[i], SCALE * (double)loss,
                       (1e-13 + (p->kind == SL_ROW_SOFTMAX ? 2 * EPSILON : 0)) * (chunk + fabs((double)loss)));
        total += got[0].losses[i];
    }
    expect_near("total", got[0].total, total, 0);
    expect_same("GZ again", n, sizeof *z, got[1].gz, got[0].gz);
    expect_same("losses again", got[0].n_chunks, sizeof total, got[1].losses, got[0].losses);
    free(got[0].gz);
    free(got[1].gz);
}

TEST(test_cross_entropy)
{
    static const struct problem problems[] = {
        {SL_ROW_SOFTMAX, 1, 1, false, 0},     {SL_ROW_SOFTMAX, 1, 2, false, 0},
        {SL_ROW_SOFTMAX, PART, 7, false, 0},  {SL_ROW_SOFTMAX, PART, 31, false, 0.1},
        {SL_ROW_SOFTMAX, 20, 41, true, 0},    {SL_ROW_SOFTMAX, 5, 1, true, 0.2},
        {SL_ROW_SOFTMAX, 700, 33, true, 0.2}, {SL_ROW_SOFTMAX, 700, 33, false, 0},
        {SL_ROW_SOFTMAX, 70, 349, true, 0.25}};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            check(&problems[i], i % 2 ? 700 : 1 + problems[i].n_rows / 11, i == 7 ? 20 : 5);
        }
        fixture_stop();
    }
}

TEST(test_entries)
{
    static const uint32_t shapes[][2] = {{1, 1}, {PART, 7}, {PART, 31}, {700, 33}};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (int kind = SL_ROW_SIGMOID; kind < N_KINDS; kind++) {
            for (size_t i = 0; i < 4; i++) {
                const struct problem p = {kind, shapes[i][0], shapes[i][1], kind == SL_ROW_SIGMOID && i % 2 == 1, 0};
                check(&p, i == 1 ? 3 + p.n_rows / 11 : 700, 5);
            }
        }
        fixture_stop();
    }
}

/* What an exponential would overflow at. `wanted`: the slopes. */
static void check_row(int kind, const sl_real *values, const float *row_targets, int32_t label, double loss,
                      const sl_real *wanted)
{
    const struct problem p = {kind, 1, 5, false, 0};
    sl_real z[5], gz[5];
    struct result got = {.gz = gz};
    make_targets(&p);
    memcpy(z, values, sizeof z);
    memcpy(targets, row_targets, 5 * sizeof *targets);
    labels[0] = label;
    ids[0] = FIRST;
    submit(&p, z, 1, &got);
    expect_near("loss", got.losses[0], SCALE * loss, 1e-12 * (1 + fabs(loss)) + 4 * EPSILON);
    for (size_t c = 0; c < 5; c++) {
        expect_near_at("GZ", c, (double)gz[c], SCALE * (double)wanted[c], 4 * EPSILON * SCALE);
    }
}

/* Large outputs and a sure answer; a right number, at the kink of its absolute error; a row without any target. */
TEST(test_extremes)
{
    const float sets[] = {1, 0, 1, 0, 1}, same[] = {30000, -30000, -30000, 30000, 0},
                none[] = {NAN, NAN, NAN, NAN, NAN};
    const sl_real z[] = {30000, -30000, -30000, 30000, 0}, zeros[5] = {0};
    fixture_start(1);
    check_row(SL_ROW_SIGMOID, z, sets, 0, 60000 + log(2), (sl_real[]){0, 0, -1, 1, (sl_real)-0.5});
    check_row(SL_ROW_ABSOLUTE, z, same, 0, 0, zeros);
    check_row(SL_ROW_SOFTMAX, (sl_real[]){30000, -30000, 29999, -30000, -30000}, sets, 0, log1p(exp(-1)),
              (sl_real[]){(sl_real)(1 / (1 + exp(-1)) - 1), 0, (sl_real)(1 / (1 + exp(1))), 0, 0});
    check_row(SL_ROW_SOFTMAX, (sl_real[]){-30000, -30001, -29999, -40000, -40000}, sets, 1,
              2 + log(1 + exp(-1) + exp(-2)),
              (sl_real[]){(sl_real)(1 / (1 + exp(-1) + exp(1))), (sl_real)(1 / (1 + exp(1) + exp(2)) - 1),
                          (sl_real)(1 / (1 + exp(-1) + exp(-2))), 0, 0});
    for (int kind = 0; kind < N_KINDS; kind++) {
        check_row(kind, z, none, -1, 0, zeros);
    }
    expect_no_failure();
    fixture_stop();
    expect_near("sigmoid", sl_loss_of_entry(SL_ROW_SIGMOID, 2, 0), log1p(exp(2)), 1e-15);
    expect_near("squared", sl_loss_of_entry(SL_ROW_SQUARED, 2, 5), 9, 0);
    expect_near("absolute", sl_loss_of_entry(SL_ROW_ABSOLUTE, 2, 5), 3, 0);
}

/* An output that is not a number, or infinite, fails the run, and the message names the step. */
TEST(test_not_finite)
{
    for (int kind = 0; kind < 2 * N_KINDS; kind++) {
        const struct problem p = {kind / 2, 33, 6, false, 0};
        FREED sl_real *z = noisy(33 * 6, 3);
        struct result got = {.gz = poisoned(33 * 6)};
        make_targets(&p);
        labels[5] = 0;
        ids[15] = FIRST + 5;
        z[15 * 6] = (sl_real)(kind % 2 ? INFINITY : NAN);
        targets[5 * 6] = 0;
        fixture_start(1);
        head.step = 123;
        submit(&p, z, 3, &got);
        assert_int_equal(sl_failure_status(&run.failure), SL_ENUMERIC);
        expect_message(sl_message(), "step 123", kind % 2 && p.kind != SL_ROW_SOFTMAX ? "inf" : "nan");
        fixture_stop();
        free(got.gz);
    }
}

/* No seeds anywhere: the sum of nothing. */
TEST(test_sum_of_none)
{
    double total = 5;
    fixture_start(1);
    starpu_data_handle_t handle = register_loss(&total, 0);
    expect_ok(sl_loss_sum_submit(&head, 0, NULL, NULL, false, NULL, handle));
    unregister(1, &handle);
    expect_no_failure();
    fixture_stop();
    expect_near("total", total, 0, 0);
}

TEST_MAIN(NULL, NULL)
