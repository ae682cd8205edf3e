/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/activate.h: forward and backward against explicit Jacobians and, in double, central differences;
 * tasks against the kernels. */
#include "codelets/rows/activate.h"

#include "codelets/rows/batchnorm.h"
#include "codelets/rows/blend.h"
#include "codelets/rows/dropout.h"
#include "tests/support/starpu_fixture.h"

#define SEED 31
#define N_VERTICES 400

/* A norm and an activation. */
struct how {
    enum sl_activate_norm norm;
    enum sl_activate_kind kind;
};

/* One chunk with everything any norm may need. */
struct case_ {
    struct sl_activate a;
    sl_real *weight, *bias, *statistics;
    sl_vertex *ids, *dataset_ids;
    sl_real *z, *residual, *gh, *h, *gz, *gw, *gb;
    double *sums;
    void *gate; /* bytes or sl_reals */
    double dropout;
};

/* Mean and 1 / deviation of each column, all rows being the group. */
static void take_statistics(struct case_ *c)
{
    uint32_t n = c->a.n_columns;
    FREED double *moments = need(2 * n, sizeof *moments);
    FREED double *unbiased = need(2 * n, sizeof *unbiased);
    const double *all[] = {moments};
    if (c->a.n_rows > 0) {
        sl_batchnorm_moments_cpu(c->a.n_rows, n, c->z, moments);
        sl_batchnorm_merge_cpu(1, n, all, &c->a.n_rows, c->statistics, unbiased);
    }
}

static struct case_ *make_case(uint32_t rows, uint32_t columns, struct how how, double dropout)
{
    const enum sl_activate_norm norm = how.norm;
    struct case_ *c = need(1, sizeof *c);
    size_t n = (size_t)rows * columns;
    c->dropout = dropout;
    c->weight = noisy(columns, 1);
    c->bias = noisy(columns, 2);
    c->statistics = noisy(2 * (size_t)columns, 3);
    c->ids = need(rows, sizeof *c->ids);
    c->dataset_ids = need(N_VERTICES, sizeof *c->dataset_ids);
    c->z = noisy(n, 4);
    c->residual = noisy(n, 5);
    c->gh = noisy(n, 6);
    c->h = poisoned(n);
    c->gz = poisoned(n);
    c->gw = poisoned(columns);
    c->gb = poisoned(columns);
    c->sums = need(2 * (size_t)columns, sizeof *c->sums);
    for (uint32_t k = 0; k < 2 * columns; k++) {
        c->sums[k] = -12345.5;
    }
    c->gate = need(n, sizeof(sl_real));
    memset(c->gate, 7, n * sizeof(sl_real));
    for (uint32_t i = 0; i < rows; i++) {
        c->ids[i] = (i * 3 + 1) % N_VERTICES;
    }
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        c->dataset_ids[v] = 3 * v + 2;
    }
    c->a = (struct sl_activate){
        .n_rows = rows,
        .n_columns = columns,
        .norm = norm,
        .kind = how.kind,
        .threshold = sl_dropout_threshold(dropout),
        .draw = {.seed = SEED, .step = 7, .purpose = SL_FOR_DROPOUT, .hop = 1},
    };
    if (norm != SL_ACTIVATE_PLAIN) {
        c->a.weight = c->weight;
        c->a.bias = c->bias;
    }
    if (norm == SL_ACTIVATE_BATCH) {
        take_statistics(c);
        c->a.mean = c->statistics;
        c->a.rstd = c->statistics + columns;
    }
    if (dropout > 0) {
        c->a.ids = c->ids;
        c->a.dataset_ids = c->dataset_ids;
    }
    return c;
}

static void free_case(struct case_ *c)
{
    void *blocks[] = {c->weight, c->bias, c->statistics, c->ids, c->dataset_ids, c->z,    c->residual,
                      c->gh,     c->h,    c->gz,         c->gw,  c->gb,          c->sums, c->gate};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        free(blocks[i]);
    }
    free(c);
}

/* ---- reference, in double ---- */

/* zhat and rstd of entry (i, k). */
static void normalised(const struct case_ *c, uint32_t i, uint32_t k, double *zhat, double *rstd)
{
    uint32_t n = c->a.n_columns;
    const sl_real *z = c->z + (size_t)i * n;
    double mean = 0;
    double variance = 0;
    if (c->a.norm == SL_ACTIVATE_BATCH) {
        mean = (double)c->a.mean[k];
        *rstd = (double)c->a.rstd[k];
    } else {
        for (uint32_t j = 0; j < n; j++) {
            mean += (double)z[j] / n;
        }
        for (uint32_t j = 0; j < n; j++) {
            variance += ((double)z[j] - mean) * ((double)z[j] - mean) / n;
        }
        *rstd = 1 / sqrt(variance + 1e-5);
    }
    *zhat = ((double)z[k] - mean) * *rstd;
}

static double y_of(const struct case_ *c, uint32_t i, uint32_t k)
{
    double zhat, rstd;
    if (c->a.norm == SL_ACTIVATE_PLAIN) {
        return (double)c->z[(size_t)i * c->a.n_columns + k];
    }
    normalised(c, i, k, &zhat, &rstd);
    return (double)c->weight[k] * zhat + (double)c->bias[k];
}

/* 0, or the scale of dropout. */
static double kept(const struct case_ *c, uint32_t i, uint32_t k)
{
    uint16_t bits[8];
    if (c->a.threshold == 0) {
        return 1;
    }
    sl_dropout_bits(&c->a.draw, c->dataset_ids[c->ids[i]], k / 8, bits);
    return bits[k % 8] >= c->a.threshold ? sl_dropout_scale(c->a.threshold) : 0;
}

/* f(y) and f'(y) as PyTorch defines them. */
static double f_of(enum sl_activate_kind kind, double y)
{
    switch (kind) {
    case SL_ACTIVATE_ELU: return y > 0 ? y : expm1(y);
    case SL_ACTIVATE_GELU: return 0.5 * y * (1 + erf(y / sqrt(2)));
    case SL_ACTIVATE_LEAKY_RELU: return y > 0 ? y : 0.01 * y;
    case SL_ACTIVATE_IDENTITY: return y;
    default: return fmax(0, y);
    }
}

static double slope_of(enum sl_activate_kind kind, double y)
{
    switch (kind) {
    case SL_ACTIVATE_ELU: return y > 0 ? 1 : exp(y);
    case SL_ACTIVATE_GELU: return 0.5 * (1 + erf(y / sqrt(2))) + y * exp(-0.5 * y * y) / sqrt(2 * acos(-1));
    case SL_ACTIVATE_LEAKY_RELU: return y > 0 ? 1 : 0.01;
    case SL_ACTIVATE_IDENTITY: return 1;
    default: return y > 0;
    }
}

static double gy_of(const struct case_ *c, uint32_t i, uint32_t k)
{
    return slope_of(c->a.kind, y_of(c, i, k)) * (double)c->gh[(size_t)i * c->a.n_columns + k] * kept(c, i, k);
}

/* Whether y is too near to a kink to tell the sides apart, after rounding. */
static int at_kink(const struct case_ *c, double y, double tolerance)
{
    return (c->a.kind == SL_ACTIVATE_RELU || c->a.kind == SL_ACTIVATE_LEAKY_RELU) && fabs(y) <= tolerance;
}

static double gate_at(const struct case_ *c, size_t i)
{
    if (sl_activate_gate_dtype(c->a.kind) == SL_DTYPE_U8) {
        return ((const uint8_t *)c->gate)[i];
    }
    return (double)((const sl_real *)c->gate)[i];
}

/* How far a float may be off: the sums of a norm are as long as a row or a column, and rstd, at most 1 / sqrt(eps),
 * scales the rounding of z - mean. */
static double tolerance_of(const struct case_ *c, size_t length)
{
    double largest = 1;
    for (uint32_t i = 0; c->a.norm != SL_ACTIVATE_PLAIN && i < c->a.n_rows; i++) {
        for (uint32_t k = 0; k < c->a.n_columns; k++) {
            double zhat, rstd;
            normalised(c, i, k, &zhat, &rstd);
            largest = fmax(largest, rstd);
        }
    }
    return rounding(length, 4 * largest * fmax(1, sl_dropout_scale(c->a.threshold)));
}

static void check_forward(uint32_t rows, uint32_t columns, struct how how, double dropout, int with_residual)
{
    struct case_ *c = make_case(rows, columns, how, dropout);
    double tolerance = tolerance_of(c, columns);
    sl_activate_forward_cpu(&c->a, c->z, with_residual ? c->residual : NULL, c->gate, c->h);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < columns; k++) {
            size_t at = (size_t)i * columns + k;
            double y = y_of(c, i, k);
            double h = f_of(how.kind, y) * kept(c, i, k) + (with_residual ? (double)c->residual[at] : 0);
            expect_near_at("H", at, (double)c->h[at], h, tolerance);
            if (!at_kink(c, y, tolerance)) {
                expect_near_at("gate", at, gate_at(c, at), kept(c, i, k) > 0 ? slope_of(how.kind, y) : 0, tolerance);
            }
        }
    }
    free_case(c);
}

static const uint32_t shapes[][2] = {{0, 5}, {1, 1}, {5, 1}, {1, 7}, {6, 8}, {9, 40}, {4, 256}, {3, 259}, {2, 530}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Every norm with every activation: N_HOWS. */
#define N_HOWS 15
static struct how how_of(int n)
{
    static const enum sl_activate_norm norms[] = {SL_ACTIVATE_PLAIN, SL_ACTIVATE_LAYER, SL_ACTIVATE_BATCH};
    return (struct how){norms[n % 3], (enum sl_activate_kind)(n / 3)};
}

static const struct how plain_relu = {SL_ACTIVATE_PLAIN, SL_ACTIVATE_RELU};

TEST(outputs)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (int n = 0; n < N_HOWS; n++) {
            for (int with_residual = 0; with_residual < 2; with_residual++) {
                check_forward(shapes[s][0], shapes[s][1], how_of(n), 0, with_residual);
                check_forward(shapes[s][0], shapes[s][1], how_of(n), 0.45, with_residual);
            }
        }
    }
}

/* A logit that is not a number must reach the loss; nothing must turn into a negative zero. */
TEST(not_a_number)
{
    struct case_ *c = make_case(1, 3, plain_relu, 0);
    c->z[0] = (sl_real)NAN;
    c->z[1] = -1;
    c->z[2] = 2;
    sl_activate_forward_cpu(&c->a, c->z, NULL, c->gate, c->h);
    assert_true(isnan(c->h[0]));
    assert_true(c->h[1] == 0 && !signbit(c->h[1]));
    assert_true(c->h[2] == 2);
    free_case(c);
}

/* ---- backward ---- */

/* GZ by the whole Jacobian of zhat: rstd * (delta - 1 / n - zhat_a zhat_b / n) over the row (layer) or the column
 * (batch). */
static double gz_of(const struct case_ *c, uint32_t i, uint32_t k)
{
    int layer = c->a.norm == SL_ACTIVATE_LAYER;
    uint32_t n = layer ? c->a.n_columns : c->a.n_rows;
    double zhat, rstd;
    double gz = 0;
    if (c->a.norm == SL_ACTIVATE_PLAIN) {
        return gy_of(c, i, k);
    }
    normalised(c, i, k, &zhat, &rstd);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t row = layer ? i : j;
        uint32_t column = layer ? j : k;
        double other, ignored;
        normalised(c, row, column, &other, &ignored);
        double jacobian = rstd * ((row == i && column == k) - 1.0 / n - zhat * other / n);
        gz += gy_of(c, row, column) * (double)c->weight[column] * jacobian;
    }
    return gz;
}

/* As a chunk of a group of n_group rows, whose sums are the case's. */
static void backward(struct case_ *c, uint64_t n_group)
{
    struct sl_activate_sums sums = {.gw = c->gw, .gb = c->gb, .group = c->sums, .n_group = n_group};
    sl_activate_backward_cpu(&c->a, c->z, c->gate, c->gh, &sums, c->gz);
}

static void run_backward(struct case_ *c)
{
    sl_activate_forward_cpu(&c->a, c->z, NULL, c->gate, c->h);
    if (c->a.norm == SL_ACTIVATE_BATCH) {
        sl_activate_batch_sums_cpu(&c->a, c->z, c->gate, c->gh, c->sums);
    }
    backward(c, c->a.n_rows);
}

static void check_backward(uint32_t rows, uint32_t columns, struct how how, double dropout)
{
    const enum sl_activate_norm norm = how.norm;
    struct case_ *c = make_case(rows, columns, how, dropout);
    double tolerance = 4 * tolerance_of(c, columns + rows);
    run_backward(c);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < columns; k++) {
            size_t at = (size_t)i * columns + k;
            expect_near_at("GZ", at, (double)c->gz[at], gz_of(c, i, k), tolerance);
        }
    }
    for (uint32_t k = 0; norm != SL_ACTIVATE_PLAIN && k < columns; k++) {
        double gw = 0;
        double gb = 0;
        for (uint32_t i = 0; i < rows; i++) {
            double zhat, rstd;
            normalised(c, i, k, &zhat, &rstd);
            gw += gy_of(c, i, k) * zhat;
            gb += gy_of(c, i, k);
        }
        int layer = norm == SL_ACTIVATE_LAYER;
        expect_near_at("GW", k, layer ? (double)c->gw[k] : c->sums[k], gw, tolerance);
        expect_near_at("GB", k, layer ? (double)c->gb[k] : c->sums[columns + k], gb, tolerance);
    }
    free_case(c);
}

TEST(gradients)
{
    const uint32_t backward_shapes[][2] = {{0, 5}, {1, 1}, {1, 7}, {6, 8}, {9, 40}, {2, 260}, {33, 3}};
    for (size_t s = 0; s < 7; s++) {
        for (int n = 0; n < N_HOWS; n++) {
            check_backward(backward_shapes[s][0], backward_shapes[s][1], how_of(n), 0);
            check_backward(backward_shapes[s][0], backward_shapes[s][1], how_of(n), 0.45);
        }
    }
}

/* Batch norm's gradient knows the group, not the chunk: two chunks with the sums of both give what one chunk gives. */
TEST(batch_in_chunks)
{
    enum { ROWS = 17, FIRST = 6, F = 12 };
    const struct how how = {SL_ACTIVATE_BATCH, SL_ACTIVATE_RELU};
    struct case_ *c = make_case(ROWS, F, how, 0.3);
    struct sl_activate part[] = {c->a, c->a};
    double parts[2][2 * F];
    FREED sl_real *whole = poisoned(ROWS * F);
    run_backward(c);
    memcpy(whole, c->gz, ROWS * F * sizeof *whole);
    part[0].n_rows = FIRST;
    part[1].n_rows = ROWS - FIRST;
    part[1].ids = c->ids + FIRST;
    for (int p = 0; p < 2; p++) {
        size_t at = (size_t)p * FIRST * F;
        sl_activate_batch_sums_cpu(&part[p], c->z + at, (uint8_t *)c->gate + at, c->gh + at, parts[p]);
    }
    for (int k = 0; k < 2 * F; k++) {
        parts[0][k] += parts[1][k];
    }
    for (int p = 0; p < 2; p++) {
        size_t at = (size_t)p * FIRST * F;
        struct sl_activate_sums sums = {.group = parts[0], .n_group = ROWS};
        sl_activate_backward_cpu(&part[p], c->z + at, (uint8_t *)c->gate + at, c->gh + at, &sums, c->gz + at);
    }
    for (size_t i = 0; i < ROWS * F; i++) {
        expect_near_at("GZ in chunks", i, (double)c->gz[i], (double)whole[i], 4 * tolerance_of(c, ROWS));
    }
    free_case(c);
}

/* Batch norm's sums have a double's digits: those of long double to 1e-12 of what was added up, where sl_real would
 * leave 1e-6. */
TEST(sums_in_double)
{
    enum { ROWS = 500, F = 9 };
    const struct how how = {SL_ACTIVATE_BATCH, SL_ACTIVATE_RELU};
    struct case_ *c = make_case(ROWS, F, how, 0.3);
    run_backward(c);
    for (uint32_t k = 0; k < F; k++) {
        long double slope = 0;
        long double offset = 0;
        long double size = 0;
        for (uint32_t i = 0; i < ROWS; i++) {
            size_t at = (size_t)i * F + k;
            sl_real gy =
                sl_activate_pass((sl_real)gate_at(c, at), (sl_real)sl_dropout_scale(c->a.threshold), c->gh[at]);
            sl_real zhat = sl_activate_zhat(c->z[at], c->a.mean[k], c->a.rstd[k]);
            slope += (long double)gy * (long double)zhat;
            offset += (long double)gy;
            size += fabsl((long double)gy) * (1 + fabsl((long double)zhat));
        }
        expect_near_at("sum of GY zhat", k, c->sums[k], (double)slope, 1e-12 * (double)size);
        expect_near_at("sum of GY", k, c->sums[F + k], (double)offset, 1e-12 * (double)size);
    }
    free_case(c);
}

#ifdef SL_REAL_DOUBLE
/* The scalar whose gradients backward gives: <GH, H>, statistics and all. */
static double objective(struct case_ *c)
{
    if (c->a.norm == SL_ACTIVATE_BATCH) {
        take_statistics(c);
    }
    sl_activate_forward_cpu(&c->a, c->z, NULL, c->gate, c->h);
    return inner((size_t)c->a.n_rows * c->a.n_columns, c->gh, c->h);
}

static double difference(struct case_ *c, sl_real *entry)
{
    const double step = 1e-6;
    sl_real middle = *entry;
    *entry = middle + step;
    double above = objective(c);
    *entry = middle - step;
    double below = objective(c);
    *entry = middle;
    objective(c);
    return (above - below) / (2 * step);
}

static void check_differences(struct how how)
{
    enum { ROWS = 11, F = 10 };
    const enum sl_activate_norm norm = how.norm;
    struct case_ *c = make_case(ROWS, F, how, 0.4);
    run_backward(c);
    const sl_real *gw = norm == SL_ACTIVATE_LAYER ? c->gw : c->sums;
    const sl_real *gb = norm == SL_ACTIVATE_LAYER ? c->gb : c->sums + F;
    for (int i = 0; i < ROWS * F; i++) {
        expect_near_at("dL/dz", (size_t)i, c->gz[i], difference(c, &c->z[i]), 1e-8);
    }
    for (int k = 0; norm != SL_ACTIVATE_PLAIN && k < F; k++) {
        expect_near_at("dL/dw", (size_t)k, gw[k], difference(c, &c->weight[k]), 1e-8);
        expect_near_at("dL/db", (size_t)k, gb[k], difference(c, &c->bias[k]), 1e-8);
    }
    free_case(c);
}

/* In float there are no digits for it. */
TEST(central_differences)
{
    for (int n = 0; n < N_HOWS; n++) {
        check_differences(how_of(n));
    }
}
#endif

/* What an implementation wrote into a case against what the CPU's kernels write. Layer norm and column sums may be
 * added up in another order where there is CUDA, and a gate may differ where y is next to nothing; else the bits
 * are the same. */
static void expect_same_answer(const struct case_ *got, const struct case_ *wanted)
{
    size_t n = (size_t)wanted->a.n_rows * wanted->a.n_columns;
#ifdef SL_CUDA
    double tolerance = tolerance_of(wanted, wanted->a.n_columns + wanted->a.n_rows);
#else
    double tolerance = 0;
#endif
    double tolerance_of_sums = tolerance > 0 ? 1e-12 * wanted->a.n_rows : 0;
    double of_rows = wanted->a.norm == SL_ACTIVATE_LAYER ? tolerance : 0;
    for (size_t i = 0; i < n; i++) {
        expect_near_at("H", i, (double)got->h[i], (double)wanted->h[i], of_rows);
        expect_near_at("GZ", i, (double)got->gz[i], (double)wanted->gz[i], of_rows);
        double y = y_of(wanted, (uint32_t)(i / wanted->a.n_columns), (uint32_t)(i % wanted->a.n_columns));
        if (of_rows == 0 || !at_kink(wanted, y, tolerance)) {
            expect_near_at("gate", i, gate_at(got, i), gate_at(wanted, i), of_rows);
        }
    }
    for (size_t k = 0; k < wanted->a.n_columns; k++) {
        expect_near_at("GW", k, (double)got->gw[k], (double)wanted->gw[k], tolerance);
        expect_near_at("GB", k, (double)got->gb[k], (double)wanted->gb[k], tolerance);
    }
    for (size_t k = 0; k < 2 * wanted->a.n_columns; k++) {
        expect_near_at("sums", k, got->sums[k], wanted->sums[k], tolerance_of_sums);
    }
}

/* ---- tasks ---- */

enum { ROW0 = 5, MORE = 12 }; /* rows of the frontier before the chunk, and behind it */

/* All of a case by tasks. level: rows of the frontier and more, of which the residual begins at row 2, and its
 * gradient at row 3. gate: what backward reads. */
static void run_tasks(struct case_ *c, int with_residual, const sl_vertex *frontier, void *gate, sl_real *level)
{
    const enum sl_dtype dtype = sl_activate_gate_dtype(c->a.kind);
    const uint32_t rows = c->a.n_rows, f = c->a.n_columns, n_level = ROW0 + rows + MORE;
    enum { Z, RESIDUAL, GATE, H, GH, GZ, GW, GB, SUMS, WEIGHT, BIAS, STATISTICS, FRONTIER, DATASET_IDS, READ, N };
    starpu_data_handle_t h[N] = {rows_of(c->z, rows, f),
                                 rows_of(level, n_level, f),
                                 sl_matrix_over(c->gate, rows, f, dtype),
                                 rows_of(c->h, rows, f),
                                 rows_of(c->gh, rows, f),
                                 rows_of(c->gz, rows, f),
                                 rows_of(c->gw, 1, f),
                                 rows_of(c->gb, 1, f),
                                 sl_matrix_over(c->sums, 2, f, SL_DTYPE_F64),
                                 rows_of(c->weight, 1, f),
                                 rows_of(c->bias, 1, f),
                                 rows_of(c->statistics, 2, f),
                                 vector_of(frontier, n_level, sizeof *frontier),
                                 vector_of(c->dataset_ids, N_VERTICES, sizeof *c->dataset_ids),
                                 sl_matrix_over(gate, rows, f, dtype)};
    const struct sl_activate_layer layer = {.norm = c->a.norm,
                                            .kind = c->a.kind,
                                            .dropout = c->dropout,
                                            .seed = SEED,
                                            .weight = h[WEIGHT],
                                            .bias = h[BIAS],
                                            .statistics = h[STATISTICS],
                                            .frontier = h[FRONTIER],
                                            .dataset_ids = h[DATASET_IDS]};
    const struct sl_activate_sums_handles sums = {.gw = h[GW], .gb = h[GB], .group = h[SUMS], .n_group = rows + 3};
    expect_ok(
        sl_activate_forward_submit(&head, &layer, ROW0, h[Z], with_residual ? h[RESIDUAL] : NULL, 2, h[GATE], h[H]));
    if (c->a.norm == SL_ACTIVATE_BATCH) {
        expect_ok(sl_activate_batch_sums_submit(&head, &layer, h[Z], h[READ], h[GH], h[SUMS]));
    }
    expect_ok(sl_activate_backward_submit(&head, &layer, c->a.norm == SL_ACTIVATE_PLAIN ? NULL : h[Z], h[READ], h[GH],
                                          &sums, h[GZ]));
    expect_ok(sl_blend_submit(&head, SL_STAGE_BACKWARD, rows, 1, (struct sl_blend_rows){h[GH], 0}, 1,
                              (struct sl_blend_rows){h[RESIDUAL], 3}));
    UNREGISTER(h);
    expect_no_failure();
}

/* By tasks, twice, and by the kernels. */
static void check_tasks(uint32_t rows, uint32_t f, struct how how, double dropout, int with_residual)
{
    const enum sl_activate_norm norm = how.norm;
    const size_t n_level = (size_t)(ROW0 + rows + MORE) * f;
    struct case_ *c = make_case(rows, f, how, dropout);
    struct case_ *again = make_case(rows, f, how, dropout);
    struct case_ *k = make_case(rows, f, how, dropout);
    sl_real *level = noisy(n_level, 50), *level_again = noisy(n_level, 50), *level_wanted = noisy(n_level, 50);
    FREED sl_vertex *frontier = need(ROW0 + rows + MORE, sizeof *frontier);
    for (uint32_t i = 0; i < ROW0 + rows + MORE; i++) {
        frontier[i] = (7 * i + 2) % N_VERTICES;
    }
    k->a.ids = frontier + ROW0;
    sl_activate_forward_cpu(&k->a, k->z, with_residual ? level_wanted + 2 * f : NULL, k->gate, k->h);
    run_tasks(c, with_residual, frontier, k->gate, level);
    run_tasks(again, with_residual, frontier, k->gate, level_again);
    if (norm == SL_ACTIVATE_BATCH) { /* backward from the same sums: GZ is the same to the bit */
        memcpy(k->sums, c->sums, 2 * f * sizeof *k->sums);
    }
    backward(k, rows + 3);
    if (norm == SL_ACTIVATE_BATCH) {
        sl_activate_batch_sums_cpu(&k->a, k->z, k->gate, k->gh, k->sums);
    }
    expect_same_answer(c, k);
    for (size_t i = 0; i < (size_t)rows * f; i++) {
        level_wanted[3 * f + i] += k->gh[i];
    }
    expect_same("GR", n_level, sizeof *level, level, level_wanted);
    expect_same("H again", (size_t)rows * f, sizeof *c->h, again->h, c->h);
    expect_same("GZ again", (size_t)rows * f, sizeof *c->gz, again->gz, c->gz);
    expect_same("GW again", f, sizeof *c->gw, again->gw, c->gw);
    expect_same("sums again", 2 * (size_t)f, sizeof *c->sums, again->sums, c->sums);
    free(level);
    free(level_again);
    free(level_wanted);
    free_case(c);
    free_case(again);
    free_case(k);
}

/* The kernels' shapes, and more rows than a block adds up. */
TEST(tasks)
{
    static const uint32_t more[][2] = {{70, 128}, {31, 24}, {600, 12}, {2100, 3}, {33, 512}};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        for (size_t s = 1; s < N_SHAPES + sizeof more / sizeof more[0]; s++) {
            const uint32_t *shape = s < N_SHAPES ? shapes[s] : more[s - N_SHAPES];
            for (int n = 0; n < 3; n++) { /* every norm; the activation changes with the shape */
                check_tasks(shape[0], shape[1], how_of(n + 3 * (int)(s % 5)), 0, 1);
                check_tasks(shape[0], shape[1], how_of(n + 3 * (int)((s + 2) % 5)), 0.45, (int)s % 2);
            }
        }
        fixture_stop();
    }
}

/* ---- Z and H in bf16: what the kernel makes of the same rows in float, H rounded ---- */

enum { MANY = 150, F = 27 }; /* rows, more than are widened at a time */

static void check_bf16(enum sl_activate_kind kind, double dropout)
{
    const enum sl_dtype dtype = sl_activate_gate_dtype(kind);
    struct case_ *c = make_case(MANY, F, (struct how){SL_ACTIVATE_PLAIN, kind}, dropout);
    struct case_ *k = make_case(MANY, F, (struct how){SL_ACTIVATE_PLAIN, kind}, dropout);
    sl_bf16 z[MANY * F];
    sl_bf16 h[MANY * F];
    sl_bf16 wanted[MANY * F];
    starpu_data_handle_t handles[] = {sl_matrix_over(z, MANY, F, SL_DTYPE_BF16),
                                      sl_matrix_over(h, MANY, F, SL_DTYPE_BF16),
                                      sl_matrix_over(c->gate, MANY, F, dtype), vector_of(c->ids, MANY, sizeof *c->ids),
                                      vector_of(c->dataset_ids, N_VERTICES, sizeof *c->dataset_ids)};
    struct sl_activate_layer layer = {
        .kind = kind, .dropout = dropout, .seed = SEED, .frontier = handles[3], .dataset_ids = handles[4]};
    sl_bf16_round(MANY * F, k->z, z);
    sl_bf16_widen(MANY * F, z, k->z);
    expect_ok(sl_activate_forward_submit(&head, &layer, 0, handles[0], NULL, 0, handles[2], handles[1]));
    UNREGISTER(handles);
    sl_activate_forward_cpu(&k->a, k->z, NULL, k->gate, k->h);
    sl_bf16_round(MANY * F, k->h, wanted);
    expect_same("gate", MANY * F, sl_dtype_size(dtype), c->gate, k->gate);
    expect_same("H", MANY * F, sizeof *h, h, wanted);
    free_case(c);
    free_case(k);
}

TEST(bf16)
{
    fixture_start(2);
    for (int kind = SL_ACTIVATE_RELU; kind <= SL_ACTIVATE_IDENTITY; kind++) {
        check_bf16((enum sl_activate_kind)kind, 0);
        check_bf16((enum sl_activate_kind)kind, 0.5);
    }
    expect_no_failure();
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
