/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the tests of whole models share: small datasets made in memory, StarPU started for them, and runs of some steps whose
 * losses, sizes and final parameters can be compared.
 */
#ifndef SL_TESTS_RUN_FIXTURE_H
#define SL_TESTS_RUN_FIXTURE_H

#include "partition/features.h"
#include "runtime/evaluate.h"
#include "runtime/layer.h"
#include "runtime/machine.h"
#include "runtime/step.h"
#include "tests/starpu_fixture.h"

/* ---- StarPU ---- */

static struct sl_machine machine;

/* Start StarPU as a run would, with n workers, as far as it was built for so many, of a scheduler (NULL: the default). */
static MAYBE_UNUSED void machine_up(const char *sched, uint32_t n_workers)
{
    n_workers = n_workers < STARPU_MAXCPUS ? n_workers : STARPU_MAXCPUS;
    struct sl_settings settings = {.cpus = n_workers, .sched = (char *)(uintptr_t)sched};
    fixture_environment();
    unsetenv("STARPU_SCHED"); /* the run before has set it */
    expect_ok(sl_machine_start(&settings, &machine));
    assert_int_equal(machine.n_workers, n_workers);
}

static MAYBE_UNUSED void machine_down(void)
{
    sl_machine_stop(&machine);
}

/* ---- datasets ---- */

struct dataset_shape {
    uint32_t n_vertices, n_edges; /* undirected edges written, before duplicates are removed */
    uint32_t n_features, n_classes;
    uint32_t n_train, n_valid; /* the rest of the first 9/10 tests */
    bool sparse;
    uint64_t seed;
};

static MAYBE_UNUSED void *block(size_t n, size_t size)
{
    void *memory;
    expect_ok(sl_alloc_zero(n, size, "a test's block", &memory));
    return memory;
}

/* A vertex with a heavy-tailed popularity: few vertices get many edges. The last vertex gets none. */
static uint32_t popular(const struct dataset_shape *shape, size_t i)
{
    double u = (noise(shape->seed + 1, i) + 1) / 2;
    return (uint32_t)(u * u * u * (shape->n_vertices - 1));
}

static void make_graph(const struct dataset_shape *shape, struct sl_graph *out)
{
    uint32_t n = shape->n_edges + 1;
    sl_vertex *from = need(n, sizeof *from);
    sl_vertex *to = need(n, sizeof *to);
    for (uint32_t i = 0; i < shape->n_edges; i++) {
        double u = (noise(shape->seed, i) + 1) / 2;
        from[i] = popular(shape, i);
        to[i] = (uint32_t)(u * (shape->n_vertices - 1));
    }
    from[n - 1] = to[n - 1] = 3; /* a self loop */
    expect_ok(sl_graph_build(shape->n_vertices, n, from, to, true, out));
    free(from);
    free(to);
}

/* Class c's vertices have larger features in the columns c, c + C, ..; sparse ones have two words and few others. */
static void make_features(const struct dataset_shape *shape, const int32_t *labels, struct sl_features *out)
{
    *out = (struct sl_features){.n_rows = shape->n_vertices, .n_columns = shape->n_features};
    out->dense = block((size_t)out->n_rows * out->n_columns, sizeof *out->dense);
    for (uint32_t v = 0; v < out->n_rows; v++) {
        for (uint32_t c = 0; c < out->n_columns; c++) {
            size_t i = (size_t)v * out->n_columns + c;
            double x = noise(shape->seed + 2, i);
            double centre = c % shape->n_classes == (uint32_t)labels[v] ? 0.5 : 0;
            out->dense[i] = (float)(shape->sparse ? (x + centre / 10 > 0.95 ? x : 0) : x + centre);
        }
    }
    if (shape->sparse) {
        expect_ok(sl_features_settle(out));
        assert_null(out->dense);
    }
}

/* The vertices v with v * 7 mod N in [begin, end), ascending. */
static void make_ids(const struct dataset_shape *shape, uint32_t begin, uint32_t end, struct sl_ids *out)
{
    out->ids = block(end - begin, sizeof *out->ids);
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        uint32_t place = (uint32_t)((uint64_t)v * 7 % shape->n_vertices);
        if (place >= begin && place < end) {
            out->ids[out->n++] = v;
        }
    }
    assert_int_equal(out->n, end - begin);
}

/* n_vertices must not be a multiple of 7. To be given to sl_dataset_free. */
static MAYBE_UNUSED void make_dataset(const struct dataset_shape *shape, struct sl_dataset *out)
{
    uint32_t n = shape->n_vertices;
    *out = (struct sl_dataset){.name = "test", .split = "all", .n_classes = shape->n_classes};
    make_graph(shape, &out->graph);
    out->labels = block(n, sizeof *out->labels);
    for (uint32_t v = 0; v < n; v++) {
        out->labels[v] = (int32_t)((noise(shape->seed + 3, v) + 1) / 2 * shape->n_classes);
    }
    make_features(shape, out->labels, &out->features);
    make_ids(shape, 0, shape->n_train, &out->train);
    make_ids(shape, shape->n_train, shape->n_train + shape->n_valid, &out->valid);
    make_ids(shape, shape->n_train + shape->n_valid, n * 9 / 10, &out->test);
}

/* ---- runs ---- */

/* A model on a dataset, with all that its steps need. StarPU is up. */
struct world {
    struct sl_settings *settings;
    struct sl_partition partition;
    struct sl_shards shards;
    struct sl_model model;
    struct sl_run run;
    struct sl_steps steps;
};

static MAYBE_UNUSED void world_open(const struct sl_dataset *dataset, struct sl_settings *settings, uint64_t n_steps,
                                    struct world *out)
{
    bool dense = settings->residual && settings->hidden == dataset->features.n_columns;
    *out = (struct world){.settings = settings};
    expect_ok(sl_settings_check(settings));
    expect_ok(sl_partition_make(dataset, (enum sl_partition_method)settings->partition, settings->group_size,
                                settings->seed, NULL, &out->partition));
    expect_ok(sl_shards_open(dataset, &out->partition, dense, &out->shards));
    expect_ok(sl_model_init(settings, out->shards.n_features, out->shards.n_classes, out->shards.is_sparse,
                            &out->model));
    expect_ok(sl_run_init(&out->run));
    expect_ok(sl_steps_open(settings, &out->run, &out->shards, &out->model, 0, n_steps, &out->steps));
}

static MAYBE_UNUSED void world_close(struct world *w)
{
    starpu_task_wait_for_all();
    sl_steps_close(&w->steps);
    sl_model_free(&w->model);
    sl_shards_close(&w->shards);
    sl_partition_free(&w->partition);
    sl_run_free(&w->run);
}

static MAYBE_UNUSED void world_healthy(const struct world *w)
{
    enum sl_status st = sl_failure_status(&w->run.failure);
    if (st != SL_OK) {
        fail_msg("a task failed: %s", sl_message());
    }
}

static MAYBE_UNUSED struct sl_adam adam_of(const struct sl_settings *settings, uint64_t step)
{
    return (struct sl_adam){settings->lr, 0.9, 0.999, 1e-8, settings->weight_decay, step + 1};
}

#define MAX_STEPS 8

/* What a run of some steps came to. */
struct outcome {
    double loss[MAX_STEPS];
    struct sl_step_sizes sizes[MAX_STEPS];
    size_t n_entries;
    sl_real *parameters; /* after the last step; free() */
};

static MAYBE_UNUSED void outcome_free(struct outcome *outcome)
{
    free(outcome->parameters);
    *outcome = (struct outcome){0};
}

/* Submit the world's steps 0 .. n - 1, without waiting between them, and wait for them. */
static MAYBE_UNUSED void world_run(struct world *w, uint32_t n_steps, struct outcome *out)
{
    starpu_data_handle_t handle[MAX_STEPS];
    *out = (struct outcome){0};
    for (uint32_t i = 0; i < n_steps; i++) {
        out->loss[i] = NAN; /* unless the graph writes it */
        starpu_matrix_data_register(&handle[i], STARPU_MAIN_RAM, (uintptr_t)&out->loss[i], 1, 1, 1, sizeof(double));
    }
    for (uint32_t i = 0; i < n_steps; i++) {
        struct sl_adam adam = adam_of(w->settings, i);
        expect_ok(sl_step_submit(&w->steps, i, &adam, handle[i], &out->sizes[i]));
    }
    unregister(n_steps, handle);
    starpu_task_wait_for_all();
    world_healthy(w);
    for (uint32_t i = 0; i < n_steps; i++) {
        if (!isfinite(out->loss[i])) {
            fail_msg("the loss of step %u is %g", i, out->loss[i]);
        }
    }
    out->n_entries = sl_model_entries(&w->model);
    out->parameters = need(out->n_entries, sizeof *out->parameters);
    expect_ok(sl_model_acquire(&w->model, STARPU_R));
    sl_model_read(&w->model, out->parameters);
    sl_model_release(&w->model);
}

/* All of it: open, run n steps, close. */
static MAYBE_UNUSED void run_steps(const struct sl_dataset *dataset, struct sl_settings *settings, uint32_t n_steps,
                                   struct outcome *out)
{
    struct world w;
    world_open(dataset, settings, n_steps, &w);
    world_run(&w, n_steps, out);
    world_close(&w);
}

#endif
