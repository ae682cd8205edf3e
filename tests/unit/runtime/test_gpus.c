/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/gpus: what StarPU is told of GPUs and which are refused, by GPUs made up here; and, where there
 * is one, what CUDA says.
 */
#include "runtime/machine/gpus.h"

#ifdef SL_CUDA
#include <cuda_runtime_api.h>
#endif

#include "tests/support/kernel.h"

#define GIB ((uint64_t)1 << 30)

/* A device without pools: one line, with its number, its name and what to try. */
TEST(test_pools)
{
    struct sl_gpu gpu = {.name = "Old Card", .bytes = 8 * GIB, .free_bytes = 7 * GIB};
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_FLOAT), SL_ENOTSUP);
    expect_message(sl_message(), "GPU 3, Old Card", "found none");
    expect_message(sl_message(), "--gpus 0", "driver");
    assert_null(strchr(sl_message(), '\n'));
    gpu.has_pools = true;
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_FLOAT), SL_OK);
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_TF32), SL_ENOTSUP);
    expect_message(sl_message(), "tf32 with GPU 3, Old Card", "expected float");
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_BF16), SL_ENOTSUP);
    expect_message(sl_message(), "bf16 with GPU 3, Old Card", "expected float");
    gpu.has_tensors = true;
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_TF32), SL_OK);
    assert_int_equal(sl_gpus_check(3, &gpu, SL_PRECISION_BF16), SL_OK);
}

static void set(const char *name, const char *value)
{
    if (value == NULL) {
        unsetenv(name);
    } else {
        setenv(name, value, 1);
    }
}

static void expect_workers(bool alone, bool room, uint32_t wanted)
{
    uint32_t n = 0;
    assert_int_equal(sl_gpus_workers(alone, room, &n), SL_OK);
    assert_int_equal(n, wanted);
}

static void expect_no_workers(bool alone, const char *found)
{
    uint32_t n = 0;
    assert_int_equal(sl_gpus_workers(alone, true, &n), SL_EINVAL);
    expect_message(sl_message(), found, "unset it");
    assert_null(strchr(sl_message(), '\n'));
}

TEST(test_workers_of_a_gpu)
{
    const char *const refused[] = {"3", "0", "-1", "one", "11", "1 ", " 1", "22"};
    const char *const unset[] = {NULL, ""};
    unsetenv("STARPU_CUDA_THREAD_PER_DEV");
    for (int i = 0; i < 2; i++) {
        set("STARPU_NWORKER_PER_CUDA", unset[i]);
        expect_workers(true, true, 2);
        expect_workers(true, false, 1);
        expect_workers(false, true, 1);
    }
    set("STARPU_NWORKER_PER_CUDA", "1");
    expect_workers(true, true, 1);
    expect_workers(false, true, 1);
    set("STARPU_NWORKER_PER_CUDA", "2");
    expect_workers(true, false, 2);
    expect_no_workers(false, "found '2'");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        set("STARPU_NWORKER_PER_CUDA", refused[i]);
        expect_no_workers(true, refused[i]);
    }
    set("STARPU_CUDA_THREAD_PER_DEV", "1");
    set("STARPU_NWORKER_PER_CUDA", "2");
    expect_no_workers(true, "THREAD_PER_DEV");
    set("STARPU_NWORKER_PER_CUDA", NULL);
    expect_workers(true, true, 1);
    set("STARPU_CUDA_THREAD_PER_DEV", NULL);
}

/* Variables that the user has set stay, the others are gone afterwards. */
TEST(test_variables_of_two_workers)
{
    struct sl_gpus_variables variables;
    set("STARPU_NWORKER_PER_CUDA", NULL);
    set("STARPU_CUDA_THREAD_PER_WORKER", "1");
    assert_int_equal(sl_gpus_set_workers(1, &variables), SL_OK);
    assert_null(getenv("STARPU_NWORKER_PER_CUDA"));
    assert_int_equal(sl_gpus_set_workers(2, &variables), SL_OK);
    assert_string_equal(getenv("STARPU_NWORKER_PER_CUDA"), "2");
    assert_string_equal(getenv("STARPU_CUDA_THREAD_PER_WORKER"), "1");
    sl_gpus_unset_workers(&variables);
    assert_null(getenv("STARPU_NWORKER_PER_CUDA"));
    assert_string_equal(getenv("STARPU_CUDA_THREAD_PER_WORKER"), "1");
    set("STARPU_CUDA_THREAD_PER_WORKER", NULL);
    assert_int_equal(sl_gpus_set_workers(2, &variables), SL_OK);
    assert_string_equal(getenv("STARPU_CUDA_THREAD_PER_WORKER"), "1");
    sl_gpus_unset_workers(&variables);
    assert_null(getenv("STARPU_CUDA_THREAD_PER_WORKER"));
}

/* Something is left to launchers, more of a larger device, and never more than half. */
TEST(test_data_bytes)
{
    uint64_t last = 0;
    for (uint64_t free_bytes = 0; free_bytes < 200 * GIB; free_bytes += GIB / 4) {
        struct sl_gpu gpu = {.bytes = 2 * free_bytes, .free_bytes = free_bytes};
        uint64_t data = sl_gpus_data_bytes(&gpu, false);
        assert_true(data >= free_bytes / 2 && data >= last && data <= free_bytes - free_bytes / 16);
        last = data;
    }
    struct sl_gpu large = {.bytes = 80 * GIB, .free_bytes = 79 * GIB};
    assert_true(sl_gpus_data_bytes(&large, false) > 70 * GIB);
    assert_true(sl_gpus_data_bytes(&large, false) - sl_gpus_data_bytes(&large, true) == GIB);
}

static void expect_limit(const char *name, const char *wanted)
{
    const char *found = getenv(name);
    if (wanted == NULL) {
        assert_null(found);
    } else {
        assert_non_null(found);
        assert_string_equal(found, wanted);
    }
}

/* StarPU's limits for the time of its start; what the user has set stays. */
TEST(test_limits)
{
    struct sl_gpu gpus[] = {
        {.free_bytes = 16 * GIB}, {.device = 1, .free_bytes = 8 * GIB}, {.device = 5, .free_bytes = 32 * GIB}};
    unsetenv("STARPU_LIMIT_CUDA_MEM");
    setenv("STARPU_LIMIT_CUDA_1_MEM", "1000", 1);
    assert_int_equal(sl_gpus_limit(3, gpus, false), SL_OK);
    expect_limit("STARPU_LIMIT_CUDA_0_MEM", "14848"); /* MiB: 16 GiB less 1 GiB less 512 MiB */
    expect_limit("STARPU_LIMIT_CUDA_1_MEM", "1000");
    expect_limit("STARPU_LIMIT_CUDA_2_MEM", NULL);
    expect_limit("STARPU_LIMIT_CUDA_5_MEM", "30208");
    sl_gpus_unlimit(3, gpus);
    expect_limit("STARPU_LIMIT_CUDA_0_MEM", NULL);
    expect_limit("STARPU_LIMIT_CUDA_1_MEM", "1000");
    expect_limit("STARPU_LIMIT_CUDA_5_MEM", NULL);
    unsetenv("STARPU_LIMIT_CUDA_1_MEM");
    struct sl_gpu again[] = {{.free_bytes = 16 * GIB}};
    setenv("STARPU_LIMIT_CUDA_MEM", "500", 1);
    assert_int_equal(sl_gpus_limit(1, again, false), SL_OK);
    expect_limit("STARPU_LIMIT_CUDA_0_MEM", NULL);
    sl_gpus_unlimit(1, again);
    expect_limit("STARPU_LIMIT_CUDA_MEM", "500");
    unsetenv("STARPU_LIMIT_CUDA_MEM");
}

/* What CUDA says of each GPU there is; of one too many, an error. */
TEST(test_read)
{
    struct sl_gpu gpu;
    uint32_t n = sl_gpus_count();
#ifdef SL_CUDA
    int device = -1;
    if (n > 0) {
        cudaSetDevice(0);
    }
#endif
    assert_int_equal(sl_gpus_read(n, &gpu), sl_gpus_built() ? SL_ECUDA : SL_ENOTSUP);
    assert_null(strchr(sl_message(), '\n'));
    if (n == 0) {
        skip();
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(sl_gpus_read(i, &gpu), SL_OK);
        assert_true(gpu.name[0] != '\0' && gpu.free_bytes > 0 && gpu.free_bytes <= gpu.bytes);
        assert_true(gpu.device == i && !gpu.limited);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(sl_gpus_name(i) != sl_gpus_name(k));
        }
#ifdef SL_CUDA
        assert_int_equal(cudaGetDevice(&device), cudaSuccess);
        assert_int_equal(device, 0); /* the caller's */
#endif
    }
}

TEST_MAIN(NULL, NULL)
