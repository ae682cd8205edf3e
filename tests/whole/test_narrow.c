/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sessions over narrow features (float16, bfloat16, int8 with a scale): every loss and score has the bits of the same
 * numbers in float32, whatever the model, precision, number of PEs and cache.
 */
#include "tests/support/session_fixture.h"

#include <math.h>

#include "data/arrays.h"
#include "data/dataset.h"
#include "runtime/train/session.h"
#include "support/convert.h"

enum { N = 180, E = 720, F = 20, C = 3, EPOCHS = 3 };

static uint32_t from[E], to[E], ids[N];
static int32_t labels[N];
static uint16_t narrow[N * F];
static float wide[N * F];
static const float scale = 0.017f;

/* Narrow numbers around 1, and the same in float32. */
static void fill(enum sl_dtype dtype)
{
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v;
        labels[v] = (int32_t)(v % C);
        for (uint32_t k = 0; k < E / N; k++) {
            from[v * (E / N) + k] = v;
            to[v * (E / N) + k] = (v * 7 + k * 13 + 1) % N;
        }
    }
    for (uint32_t i = 0; i < N * F; i++) {
        uint32_t noise = i * 7919 % 997;
        if (dtype == SL_DTYPE_I8) {
            ((int8_t *)narrow)[i] = (int8_t)(noise % 256);
        } else if (dtype == SL_DTYPE_F16) {
            narrow[i] = (uint16_t)((noise % 2) << 15 | (13u + noise % 3) << 10 | noise);
        } else {
            narrow[i] = (uint16_t)((noise % 2) << 15 | (125u + noise % 3) << 7 | noise % 128);
        }
    }
    sl_convert_to_floats(dtype, scale, (size_t)N * F, narrow, wide);
}

static struct sl_dataset *dataset_of(enum sl_dtype dtype)
{
    struct sl_dataset *dataset;
    const struct sl_arrays arrays = {.size = sizeof arrays,
                                     .n_vertices = N,
                                     .n_edges = E,
                                     .sources = from,
                                     .destinations = to,
                                     .n_features = F,
                                     .features = dtype == SL_DTYPE_F32 ? (const void *)wide : narrow,
                                     .feature_dtype = sl_dtype_name(dtype),
                                     .feature_scale = scale,
                                     .labels = labels,
                                     .n_train = N / 2,
                                     .n_valid = N / 4,
                                     .n_test = N / 4,
                                     .train = ids,
                                     .valid = ids + N / 2,
                                     .test = ids + N / 2 + N / 4};
    assert_ok(sl_dataset_new(&arrays, &dataset));
    assert_int_equal(dataset->features.dense.dtype, dtype);
    return dataset;
}

static void run(bool pipe, const char *options, enum sl_dtype dtype, struct reports *seen)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    struct sl_dataset *dataset = dataset_of(dtype);
    char text[256];
    snprintf(text, sizeof text, "layers=2 hidden=8 cpus=2 lr=0.01 epochs=3 cache=none%s %s",
             pipe ? "" : " batch-size=15 fanout=4,4", options);
    assert_ok(pipe ? sl_settings_new_pipe(&settings) : sl_settings_new(&settings));
    set_options(settings, text);
    memset(seen, 0, sizeof *seen);
    assert_ok(sl_session_open(settings, dataset, &session));
    sl_dataset_delete(dataset);
    bool stays = !pipe && sl_dtype_size(dtype) < sl_dtype_size(session->shards.features.row_dtype);
    assert_int_equal(session->shards.features.dtype, stays ? dtype : session->shards.features.row_dtype);
    bool copied = dtype == SL_DTYPE_I8 || strstr(options, "gin") != NULL || strstr(options, "residual") != NULL;
    assert_int_equal(session->shards.features.reads_narrow, stays && !copied);
    assert_ok(sl_session_train(
        session, &(struct sl_report){.size = sizeof(struct sl_report), .context = seen, .epoch = take_report}));
    assert_true(isfinite(seen->loss[EPOCHS]) && seen->loss[EPOCHS] > 0);
}

static void check(bool pipe, const char *options, enum sl_dtype dtype)
{
    struct reports as_given, as_float;
    fill(dtype);
    run(pipe, options, dtype, &as_given);
    run(pipe, options, SL_DTYPE_F32, &as_float);
    if (memcmp(as_given.loss, as_float.loss, sizeof as_given.loss) != 0 ||
        memcmp(as_given.valid, as_float.valid, sizeof as_given.valid) != 0) {
        fail_msg("%s of %s: losses %.17g and %.17g, expected %.17g and %.17g", options, sl_dtype_name(dtype),
                 as_given.loss[1], as_given.loss[EPOCHS], as_float.loss[1], as_float.loss[EPOCHS]);
    }
}

static const enum sl_dtype dtypes[] = {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};

TEST(minibatches)
{
    static const char *const options[] = {"pes=1",
                                          "pes=3",
                                          "pes=4 chunks=2",
                                          "pes=3 precision=bf16",
                                          "pes=2 input-dropout=0.3",
                                          "pes=2 input-dropout=0.3 precision=bf16",
                                          "pes=2 feature-cache=20",
                                          "pes=2 feature-cache=20 precision=bf16 feature-cache-policy=degree",
                                          "pes=3 model=gcn",
                                          "pes=2 model=gat heads=2",
                                          "pes=2 model=gin",
                                          "pes=2 hidden=20 residual=yes layers=3 fanout=3,3,3",
                                          "pes=2 hidden=32"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            check(false, options[i], dtypes[d]);
        }
    }
}

TEST(pipelines)
{
    static const char *const options[] = {"chunks=1 ways=1", "chunks=4 ways=2", "chunks=3 ways=3 precision=bf16"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            check(true, options[i], dtypes[d]);
        }
    }
}

TEST_MAIN(NULL, NULL)
