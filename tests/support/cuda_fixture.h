/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Device memory for tests of launchers: a GPU's, or the process's own in an emulated test (tests/simgpu).
 * Without a device such a test is skipped.
 */
#ifndef SL_TESTS_CUDA_FIXTURE_H
#define SL_TESTS_CUDA_FIXTURE_H

#include <cuda_runtime_api.h>

#include "support/status.h"
#include "tests/support/kernel.h"

/* Begin a test with this: skips it where there is no device. */
static MAYBE_UNUSED void need_device(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        skip();
    }
}

/* Room on the chosen device, poisoned, so that what a kernel does not write is seen. */
static MAYBE_UNUSED void *device_room(size_t bytes)
{
    void *data;
    assert_int_equal(cudaMalloc(&data, bytes > 0 ? bytes : 1), cudaSuccess);
    assert_int_equal(cudaMemset(data, 0xa5, bytes), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(NULL),
                     cudaSuccess); /* for the streams that do not wait for the default one */
    return data;
}

/* A copy on the device. */
static MAYBE_UNUSED void *on_device(const void *host, size_t bytes)
{
    void *data = device_room(bytes);
    assert_int_equal(cudaMemcpy(data, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return data;
}

/* Wait for the launcher that gave this status, and see that all went well. */
static MAYBE_UNUSED void expect_launched(enum sl_status st)
{
    if (st != SL_OK) {
        fail_msg("%s", sl_message());
    }
    assert_int_equal(cudaStreamSynchronize(NULL), cudaSuccess);
}

/* Copy back and release. */
static MAYBE_UNUSED void from_device(void *host, void *data, size_t bytes)
{
    assert_int_equal(cudaMemcpy(host, data, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(cudaFree(data), cudaSuccess);
}

/* The device's n elements of `size` bytes are those wanted, to the bit; releases them. */
static MAYBE_UNUSED void expect_on_device(const char *label, void *data, size_t n, size_t size, const void *wanted)
{
    void *host = need(n, size);
    from_device(host, data, n * size);
    expect_same(label, n, size, host, wanted);
    free(host);
}

#endif
