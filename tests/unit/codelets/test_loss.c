/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/loss.h: cross entropy and its gradient, sums in order, and what is not a number. */
#include "codelets/loss.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define FIRST 70
#define PART 40

static int32_t labels[PART];
static sl_vertex ids[PART];

static void make_labels(uint32_t n_classes)
{
    for (uint32_t v = 0; v < PART; v++) {
        labels[v] = (int32_t)(v * 7 % n_classes);
        ids[v] = FIRST + (v * 3 + 1) % PART;
    }
}

static struct sl_labels labels_of(const sl_vertex *rows)
{
    return (struct sl_labels){.part_labels = labels, .first = FIRST, .ids = rows};
}

/* log-sum-exp without a shift, in long double. */
static void check_kernel(uint32_t n_rows, uint32_t n_classes)
{
    sl_real *z = noisy((size_t)n_rows * n_classes, 1);
    sl_real *gz = poisoned((size_t)n_rows * n_classes);
    double scale = 1.0 / 37;
    const struct sl_labels all = labels_of(ids);
    double loss = -1;
    long double wanted = 0;
    make_labels(n_classes);
    for (size_t i = 0; i < (size_t)n_rows * n_classes; i++) {
        z[i] *= 5;
    }
    sl_loss_cpu(n_rows, n_classes, z, &all, scale, gz, &loss);
    for (uint32_t i = 0; i < n_rows; i++) {
        const sl_real *row = z + (size_t)i * n_classes;
        uint32_t label = (uint32_t)labels[ids[i] - FIRST];
        long double sum = 0;
        for (uint32_t c = 0; c < n_classes; c++) {
            sum += expl((long double)row[c]);
        }
        wanted += logl(sum) - (long double)row[label];
        for (uint32_t c = 0; c < n_classes; c++) {
            double p = (double)(expl((long double)row[c]) / sum);
            expect_near_at("GZ", (size_t)i * n_classes + c, (double)gz[(size_t)i * n_classes + c],
                           scale * (p - (c == label)), 4 * EPSILON * scale);
        }
    }
    expect_near("loss", loss, scale * (double)wanted, (1e-13 + 2 * EPSILON) * (1 + n_rows));
    free(z);
    free(gz);
}

static void test_kernel(void **state)
{
    (void)state;
    check_kernel(0, 3);
    check_kernel(1, 1);
    check_kernel(1, 2);
    check_kernel(PART, 7);
    check_kernel(20, 41);
}

/* 0, 1/2, 1, 3/2, ..; free(). */
static float *weights_of(uint32_t n_classes)
{
    float *weights = need(n_classes, sizeof *weights);
    for (uint32_t c = 0; c < n_classes; c++) {
        weights[c] = 0.5F * (float)(c % 4);
    }
    return weights;
}

/* With class weights and smoothing: the sum of the cross entropies of all classes, in long double. */
static void check_weighed(uint32_t n_rows, uint32_t n_classes, bool weighs, double smoothing)
{
    sl_real *z = noisy((size_t)n_rows * n_classes, 1);
    sl_real *gz = poisoned((size_t)n_rows * n_classes);
    float *weights = weights_of(n_classes);
    struct sl_labels all = labels_of(ids);
    double loss = -1;
    long double wanted = 0;
    make_labels(n_classes);
    all.weights = weighs ? weights : NULL;
    all.smoothing = smoothing;
    sl_loss_cpu(n_rows, n_classes, z, &all, 0.1, gz, &loss);
    for (uint32_t i = 0; i < n_rows; i++) {
        const sl_real *row = z + (size_t)i * n_classes;
        uint32_t label = (uint32_t)labels[ids[i] - FIRST];
        long double sum = 0;
        long double total = 0;
        for (uint32_t c = 0; c < n_classes; c++) {
            sum += expl((long double)row[c]);
        }
        for (uint32_t c = 0; c < n_classes; c++) {
            long double share = smoothing / n_classes + (c == label ? 1 - smoothing : 0);
            long double weight = share * (weighs ? (long double)weights[c] : 1);
            wanted += weight * (logl(sum) - (long double)row[c]);
            total += weight;
        }
        for (uint32_t c = 0; c < n_classes; c++) {
            long double share = smoothing / n_classes + (c == label ? 1 - smoothing : 0);
            long double weight = share * (weighs ? (long double)weights[c] : 1);
            double slope = (double)(total * expl((long double)row[c]) / sum - weight);
            expect_near_at("GZ", (size_t)i * n_classes + c, (double)gz[(size_t)i * n_classes + c], 0.1 * slope,
                           EPSILON);
        }
    }
    expect_near("loss", loss, 0.1 * (double)wanted, (1e-13 + 2 * EPSILON) * (1 + n_rows));
    free(weights);
    free(z);
    free(gz);
}

static void test_weights_and_smoothing(void **state)
{
    (void)state;
    check_weighed(PART, 7, false, 0.2);
    check_weighed(PART, 7, true, 0);
    check_weighed(20, 41, true, 0.2);
    check_weighed(0, 3, true, 0.2);
    check_weighed(5, 1, true, 0.2);
}

/* Logits that would overflow an exponential, and a sure answer. */
static void test_large_logits(void **state)
{
    (void)state;
    const sl_real z[] = {30000, -30000, 29999, -30000, -30001, -29999};
    const sl_vertex two[] = {FIRST, FIRST + 1};
    const int32_t zero[] = {0, 1};
    const struct sl_labels both = {.part_labels = zero, .first = FIRST, .ids = two};
    sl_real gz[6];
    double loss;
    sl_loss_cpu(2, 3, z, &both, 1, gz, &loss);
    expect_near("loss", loss, log1p(exp(-1)) + 2 + log(1 + exp(-1) + exp(-2)), 1e-12 + 4 * EPSILON);
    expect_near("gradient", (double)gz[0], 1 / (1 + exp(-1)) - 1, 4 * EPSILON);
    expect_near("gradient of no chance", (double)gz[1], 0, 0);
}

#ifdef SL_REAL_DOUBLE
static void test_central_differences(void **state)
{
    (void)state;
    enum { D = 6, C = 5 };
    sl_real *z = noisy(D * C, 9);
    sl_real *gz = poisoned(D * C);
    sl_real *ignored = poisoned(D * C);
    const struct sl_labels all = labels_of(ids);
    double loss, above, below;
    make_labels(C);
    sl_loss_cpu(D, C, z, &all, 0.3, gz, &loss);
    for (size_t i = 0; i < D * C; i++) {
        sl_real middle = z[i];
        z[i] = middle + 1e-5;
        sl_loss_cpu(D, C, z, &all, 0.3, ignored, &above);
        z[i] = middle - 1e-5;
        sl_loss_cpu(D, C, z, &all, 0.3, ignored, &below);
        z[i] = middle;
        expect_near_at("dL/dz", i, gz[i], (above - below) / 2e-5, 1e-9);
    }
    free(z);
    free(gz);
    free(ignored);
}
#endif

#ifdef SL_CUDA
/* Sums in double that differ in their order: a last bit of the gradient may follow. */
static void check_launcher(uint32_t n_rows, uint32_t n_classes, bool weighs, double smoothing)
{
    size_t n = (size_t)n_rows * n_classes;
    double scale = 1.0 / 37;
    sl_real *z = noisy(n, 2);
    sl_vertex *rows = need(n_rows, sizeof *rows);
    sl_real *got = need(n, sizeof *got);
    sl_real *wanted = need(n, sizeof *wanted);
    double loss, loss_wanted;
    make_labels(n_classes);
    for (size_t i = 0; i < n; i++) {
        z[i] *= 20;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        rows[i] = ids[i % PART];
    }
    sl_real *z_device = on_device(z, n * sizeof *z);
    sl_vertex *rows_device = on_device(rows, n_rows * sizeof *rows);
    int32_t *labels_device = on_device(labels, sizeof labels);
    float *weights = weights_of(n_classes);
    float *weights_device = on_device(weights, n_classes * sizeof *weights);
    sl_real *gz_device = device_room(n * sizeof *got);
    double *loss_device = device_room(sizeof loss);
    struct sl_labels here = labels_of(rows);
    struct sl_labels there = {.part_labels = labels_device, .first = FIRST, .ids = rows_device};
    here.smoothing = there.smoothing = smoothing;
    here.weights = weighs ? weights : NULL;
    there.weights = weighs ? weights_device : NULL;
    sl_loss_cpu(n_rows, n_classes, z, &here, scale, wanted, &loss_wanted);
    expect_launched(sl_loss_cuda(NULL, n_rows, n_classes, z_device, &there, scale, gz_device, loss_device));
    from_device(got, gz_device, n * sizeof *got);
    from_device(&loss, loss_device, sizeof loss);
    /* A share at the edge of two multiples of 2^-42 may be rounded to either. */
    expect_near("loss", loss, loss_wanted, 1e-14 * (1 + fabs(loss_wanted)) + n_rows * 0x1p-42);
    expect_agreement("GZ", n, got, wanted, EPSILON * scale);
    cudaFree(z_device);
    cudaFree(rows_device);
    cudaFree(labels_device);
    cudaFree(weights_device);
    free(weights);
    free(z);
    free(rows);
    free(got);
    free(wanted);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    check_launcher(0, 3, false, 0);
    check_launcher(1, 1, false, 0);
    check_launcher(1, 2, false, 0);
    check_launcher(PART, 31, false, 0);
    check_launcher(700, 33, false, 0);
    check_launcher(70, 349, false, 0);
    check_launcher(700, 33, true, 0);
    check_launcher(PART, 31, false, 0.1);
    check_launcher(70, 349, true, 0.25);
}
#endif

/* ---- submissions ---- */

enum { CHUNKS = 11, D = 3, C = 6 }; /* CHUNKS chunks of D rows of one frontier */

struct result {
    sl_real gz[CHUNKS][D * C];
    double losses[CHUNKS];
    double total;
};

static void with_kernels(const sl_real *z, struct result *out)
{
    out->total = 0;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const struct sl_labels rows = labels_of(ids + i * D);
        sl_loss_cpu(D, C, z + i * D * C, &rows, 0.1, out->gz[i], &out->losses[i]);
        out->total += out->losses[i];
    }
}

/* The losses as variables, vectors and matrices in turn: any of them will do. */
static starpu_data_handle_t register_loss(double *loss, uint32_t i)
{
    starpu_data_handle_t handle;
    if (i % 3 == 1) {
        return vector_of(loss, 1, sizeof *loss);
    }
    if (i % 3 == 2) {
        return matrix_of(loss, 1, 1, sizeof *loss);
    }
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)loss, sizeof *loss);
    return handle;
}

static void with_starpu(sl_real *z, struct result *out)
{
    starpu_data_handle_t chunks[CHUNKS], gradients[CHUNKS], losses[CHUNKS];
    starpu_data_handle_t shared[] = {vector_of(ids, PART, sizeof *ids), vector_of(labels, PART, sizeof *labels),
                                     register_loss(&out->total, 0)};
    const struct sl_labels_handles all = {.part_labels = shared[1], .first = FIRST, .frontier = shared[0]};
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunks[i] = rows_of(z + i * D * C, D, C);
        gradients[i] = rows_of(out->gz[i], D, C);
        losses[i] = register_loss(&out->losses[i], i);
        expect_ok(sl_loss_submit(&head, chunks[i], &all, i * D, 0.1, gradients[i], losses[i]));
    }
    expect_ok(sl_loss_sum_submit(&head, CHUNKS, losses, false, shared[2]));
    UNREGISTER(chunks);
    UNREGISTER(gradients);
    UNREGISTER(losses);
    UNREGISTER(shared);
}

static void test_submissions(void **state)
{
    (void)state;
    sl_real *z = noisy(CHUNKS * D * C, 3);
    make_labels(C);
    struct result *wanted = need(1, sizeof *wanted);
    with_kernels(z, wanted);
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct result *got = need(1, sizeof *got);
        fixture_start(worker_counts[w]);
        with_starpu(z, got);
        expect_no_failure();
        fixture_stop();
        expect_agreement("GZ", CHUNKS * D * C, got->gz[0], wanted->gz[0], 0.1 * EPSILON);
#ifdef SL_CUDA
        for (uint32_t i = 0; i < CHUNKS; i++) {
            expect_near_at("losses", i, got->losses[i], wanted->losses[i], 1e-14 + D * 0x1p-42);
        }
        expect_near("total", got->total, wanted->total, 1e-13 + CHUNKS * D * 0x1p-42);
#else
        expect_same("losses", CHUNKS, sizeof(double), got->losses, wanted->losses);
        expect_same("total", 1, sizeof(double), &got->total, &wanted->total);
#endif
        free(got);
    }
    free(z);
    free(wanted);
}

static void check_not_finite(sl_real bad)
{
    sl_real *z = noisy(CHUNKS * D * C, 3);
    struct result *got = need(1, sizeof *got);
    z[5 * D * C + 4] = bad;
    make_labels(C);
    fixture_start(1);
    head.step = 123;
    with_starpu(z, got);
    assert_int_equal(sl_failure_status(&run.failure), SL_ENUMERIC);
    expect_message(sl_message(), "step 123", "nan");
    fixture_stop();
    free(z);
    free(got);
}

static void test_not_finite(void **state)
{
    (void)state;
    check_not_finite((sl_real)NAN);
    check_not_finite((sl_real)INFINITY);
}

static void test_failure(void **state)
{
    (void)state;
    sl_real *z = noisy(CHUNKS * D * C, 3);
    struct result *got = need(1, sizeof *got);
    make_labels(C);
    fixture_start(1);
    fixture_fail();
    with_starpu(z, got);
    fixture_stop();
    expect_unwritten("loss of a failed run", 1, sizeof(double), &got->losses[0], &(double){0});
    expect_still(got->gz[0][0], 0);
    expect_near("sum of a failed run", got->total, 0, 0);
    free(z);
    free(got);
}

/* No seeds anywhere: the sum of nothing. */
static void test_sum_of_none(void **state)
{
    (void)state;
    double total = 5;
    fixture_start(1);
    starpu_data_handle_t handle = register_loss(&total, 0);
    expect_ok(sl_loss_sum_submit(&head, 0, NULL, false, handle));
    unregister(1, &handle);
    expect_no_failure();
    fixture_stop();
    expect_near("total", total, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_weights_and_smoothing),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
#ifdef SL_REAL_DOUBLE
        cmocka_unit_test(test_central_differences),
#endif
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_sum_of_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
