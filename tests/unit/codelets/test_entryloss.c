/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/entryloss.h: losses of known entries and their gradients, and what is unknown, extreme or empty. */
#include "codelets/entryloss.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define FIRST 70
#define PART 40
#define MOST 33 /* columns */

static const enum sl_entry_loss kinds[] = {SL_ENTRY_SIGMOID, SL_ENTRY_SQUARED, SL_ENTRY_ABSOLUTE};

static float targets[PART * MOST];
static float weights[MOST];
static sl_vertex ids[PART];

/* Every fifth entry is unknown; of the others every third is 1. Errors have other numbers, too. */
static void make_targets(enum sl_entry_loss kind, uint32_t n_columns)
{
    for (uint32_t i = 0; i < PART * n_columns; i++) {
        float y = (float)(i % 3 == 0);
        targets[i] = i % 5 == 4 ? NAN : kind == SL_ENTRY_SIGMOID ? y : y + 0.37F * (float)(i % 7);
    }
    for (uint32_t c = 0; c < MOST; c++) {
        weights[c] = 0.5F * (float)(c % 4);
    }
    for (uint32_t v = 0; v < PART; v++) {
        ids[v] = FIRST + (v * 3 + 1) % PART;
    }
}

static struct sl_entries entries_of(enum sl_entry_loss kind, const sl_vertex *rows, bool weighs)
{
    return (struct sl_entries){
        .kind = kind, .part_targets = targets, .first = FIRST, .ids = rows, .weights = weighs ? weights : NULL};
}

/* By the formula, in long double. */
static long double loss_by_hand(enum sl_entry_loss kind, long double z, long double y, long double w,
                                long double *slope_out)
{
    switch (kind) {
    case SL_ENTRY_SIGMOID:
        *slope_out = (1 - y) / (1 + expl(-z)) - w * y / (1 + expl(z));
        return w * y * log1pl(expl(-z)) + (1 - y) * log1pl(expl(z));
    case SL_ENTRY_SQUARED: *slope_out = 2 * (z - y); return (z - y) * (z - y);
    case SL_ENTRY_ABSOLUTE: break;
    }
    *slope_out = z > y ? 1 : z < y ? -1 : 0;
    return fabsl(z - y);
}

static void check_kernel(enum sl_entry_loss kind, uint32_t n_rows, uint32_t n_columns, bool weighs)
{
    sl_real *z = noisy((size_t)n_rows * n_columns, 1);
    sl_real *gz = poisoned((size_t)n_rows * n_columns);
    const double scale = 1.0 / 37;
    double loss = -1;
    long double wanted = 0;
    make_targets(kind, n_columns);
    const struct sl_entries all = entries_of(kind, ids, weighs);
    for (size_t i = 0; i < (size_t)n_rows * n_columns; i++) {
        z[i] *= 5;
    }
    sl_entryloss_cpu(n_rows, n_columns, z, &all, scale, gz, &loss);
    for (size_t i = 0; i < (size_t)n_rows * n_columns; i++) {
        float y = targets[(size_t)(ids[i / n_columns] - FIRST) * n_columns + i % n_columns];
        long double slope = 0;
        if (!isnan(y)) {
            float w = weighs ? weights[i % n_columns] : 1;
            wanted += loss_by_hand(kind, (long double)z[i], (long double)y, (long double)w, &slope);
        }
        expect_near_at("GZ", i, (double)gz[i], scale * (double)slope, 16 * EPSILON * scale);
    }
    expect_near("loss", loss, scale * (double)wanted, 1e-13 * (1 + fabs((double)wanted)));
    free(z);
    free(gz);
}

static void test_kernel(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        check_kernel(kinds[k], 0, 3, false);
        check_kernel(kinds[k], 1, 1, false);
        check_kernel(kinds[k], PART, 7, false);
        check_kernel(kinds[k], 20, MOST, false);
    }
    check_kernel(SL_ENTRY_SIGMOID, PART, 7, true);
}

/* Outputs whose exponential overflows; a right number, at the kink of its absolute error; a row without any target. */
static void test_extremes(void **state)
{
    const sl_vertex row[] = {FIRST};
    const sl_real z[] = {30000, -30000, -30000, 30000, 0};
    sl_real gz[5];
    double loss;
    (void)state;
    const float sets[] = {1, 0, 1, 0, 1};
    struct sl_entries entries = {.kind = SL_ENTRY_SIGMOID, .part_targets = sets, .first = FIRST, .ids = row};
    sl_entryloss_cpu(1, 5, z, &entries, 1, gz, &loss);
    expect_near("sigmoid", loss, 60000 + log(2), 1e-9);
    assert_true(gz[0] == 0 && gz[1] == 0 && gz[2] == -1 && gz[3] == 1 && gz[4] == (sl_real)-0.5);
    entries.kind = SL_ENTRY_ABSOLUTE;
    const float same[] = {30000, -30000, -30000, 30000, 0};
    entries.part_targets = same;
    sl_entryloss_cpu(1, 5, z, &entries, 1, gz, &loss);
    assert_true(loss == 0 && gz[0] == 0 && gz[4] == 0);
    const float none[] = {NAN, NAN, NAN, NAN, NAN};
    entries.part_targets = none;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        entries.kind = kinds[k];
        sl_entryloss_cpu(1, 5, z, &entries, 1, gz, &loss);
        assert_true(loss == 0 && gz[0] == 0 && gz[2] == 0 && gz[4] == 0);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) { /* an output that is not a number is noticed */
        const sl_real bad[] = {NAN, 0, 0, 0, 0};
        entries.kind = kinds[k];
        entries.part_targets = sets;
        sl_entryloss_cpu(1, 5, bad, &entries, 1, gz, &loss);
        assert_true(isnan(loss) && isnan(gz[0]));
    }
}

static void test_one_entry(void **state)
{
    (void)state;
    expect_near("sigmoid", sl_entryloss_of_entry(SL_ENTRY_SIGMOID, 2, 0), log1p(exp(2)), 1e-15);
    expect_near("squared", sl_entryloss_of_entry(SL_ENTRY_SQUARED, 2, 5), 9, 0);
    expect_near("absolute", sl_entryloss_of_entry(SL_ENTRY_ABSOLUTE, 2, 5), 3, 0);
}

#ifdef SL_REAL_DOUBLE
static void test_central_differences(void **state)
{
    enum { D = 6, C = 5 };
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        sl_real *z = noisy(D * C, 9);
        sl_real *gz = poisoned(D * C);
        sl_real *ignored = poisoned(D * C);
        double loss, above, below;
        make_targets(kinds[k], C);
        const struct sl_entries all = entries_of(kinds[k], ids, kinds[k] == SL_ENTRY_SIGMOID);
        sl_entryloss_cpu(D, C, z, &all, 0.3, gz, &loss);
        for (size_t i = 0; i < D * C; i++) {
            sl_real middle = z[i];
            z[i] = middle + 1e-5;
            sl_entryloss_cpu(D, C, z, &all, 0.3, ignored, &above);
            z[i] = middle - 1e-5;
            sl_entryloss_cpu(D, C, z, &all, 0.3, ignored, &below);
            z[i] = middle;
            expect_near_at("dL/dz", i, gz[i], (above - below) / 2e-5, 1e-9);
        }
        free(z);
        free(gz);
        free(ignored);
    }
}
#endif

#ifdef SL_CUDA
static void check_launcher(enum sl_entry_loss kind, uint32_t n_rows, uint32_t n_columns, bool weighs)
{
    size_t n = (size_t)n_rows * n_columns;
    double scale = 1.0 / 37;
    sl_real *z = noisy(n, 2);
    sl_vertex *rows = need(n_rows, sizeof *rows);
    sl_real *got = need(n, sizeof *got);
    sl_real *wanted = need(n, sizeof *wanted);
    double loss, loss_wanted;
    make_targets(kind, n_columns);
    for (uint32_t i = 0; i < n_rows; i++) {
        rows[i] = ids[i % PART];
    }
    sl_real *z_device = on_device(z, n * sizeof *z);
    sl_vertex *rows_device = on_device(rows, n_rows * sizeof *rows);
    float *targets_device = on_device(targets, sizeof targets);
    float *weights_device = on_device(weights, sizeof weights);
    sl_real *gz_device = device_room(n * sizeof *got);
    double *loss_device = device_room(sizeof loss);
    const struct sl_entries here = entries_of(kind, rows, weighs);
    const struct sl_entries there = {.kind = kind,
                                     .part_targets = targets_device,
                                     .first = FIRST,
                                     .ids = rows_device,
                                     .weights = weighs ? weights_device : NULL};
    sl_entryloss_cpu(n_rows, n_columns, z, &here, scale, wanted, &loss_wanted);
    expect_launched(sl_entryloss_cuda(NULL, n_rows, n_columns, z_device, &there, scale, gz_device, loss_device));
    from_device(got, gz_device, n * sizeof *got);
    from_device(&loss, loss_device, sizeof loss);
    /* A share at the edge of two multiples of 2^-42 may be rounded to either. */
    expect_near("loss", loss, loss_wanted, 1e-14 * (1 + fabs(loss_wanted)) + n_rows * 0x1p-42);
    expect_agreement("GZ", n, got, wanted, 4 * EPSILON * scale);
    cudaFree(z_device);
    cudaFree(rows_device);
    cudaFree(targets_device);
    cudaFree(weights_device);
    free(z);
    free(rows);
    free(got);
    free(wanted);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        check_launcher(kinds[k], 0, 3, false);
        check_launcher(kinds[k], 1, 1, false);
        check_launcher(kinds[k], PART, 31, false);
        check_launcher(kinds[k], 700, MOST, false);
    }
    check_launcher(SL_ENTRY_SIGMOID, 700, MOST, true);
}
#endif

/* ---- submissions ---- */

enum { CHUNKS = 11, D = 3, C = 6 }; /* CHUNKS chunks of D rows of one frontier */

struct result {
    sl_real gz[CHUNKS][D * C];
    double losses[CHUNKS];
};

static void with_kernels(const sl_real *z, enum sl_entry_loss kind, struct result *out)
{
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const struct sl_entries rows = entries_of(kind, ids + i * D, true);
        sl_entryloss_cpu(D, C, z + i * D * C, &rows, 0.1, out->gz[i], &out->losses[i]);
    }
}

static void with_starpu(sl_real *z, enum sl_entry_loss kind, struct result *out)
{
    starpu_data_handle_t chunks[CHUNKS], gradients[CHUNKS], losses[CHUNKS];
    starpu_data_handle_t shared[] = {vector_of(ids, PART, sizeof *ids),
                                     vector_of(targets, (size_t)PART * C, sizeof *targets),
                                     vector_of(weights, C, sizeof *weights)};
    const struct sl_entries_handles all = {
        .kind = kind, .part_targets = shared[1], .first = FIRST, .frontier = shared[0], .weights = shared[2]};
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunks[i] = rows_of(z + i * D * C, D, C);
        gradients[i] = rows_of(out->gz[i], D, C);
        losses[i] = matrix_of(&out->losses[i], 1, 1, sizeof(double));
        expect_ok(sl_entryloss_submit(&head, chunks[i], &all, i * D, 0.1, gradients[i], losses[i]));
    }
    UNREGISTER(chunks);
    UNREGISTER(gradients);
    UNREGISTER(losses);
    UNREGISTER(shared);
}

static void test_submissions(void **state)
{
    (void)state;
    sl_real *z = noisy(CHUNKS * D * C, 3);
    struct result *wanted = need(1, sizeof *wanted);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        make_targets(kinds[k], C);
        with_kernels(z, kinds[k], wanted);
        for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
            struct result *got = need(1, sizeof *got);
            fixture_start(worker_counts[w]);
            with_starpu(z, kinds[k], got);
            expect_no_failure();
            fixture_stop();
            expect_agreement("GZ", CHUNKS * D * C, got->gz[0], wanted->gz[0], 0.4 * EPSILON);
            for (uint32_t i = 0; i < CHUNKS; i++) {
                expect_near_at("losses", i, got->losses[i], wanted->losses[i], 1e-13);
            }
            free(got);
        }
    }
    free(z);
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_one_entry),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
#ifdef SL_REAL_DOUBLE
        cmocka_unit_test(test_central_differences),
#endif
        cmocka_unit_test(test_submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
