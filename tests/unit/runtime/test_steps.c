/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/minibatch/steps.c: small handles are registered once, and steps take as many of them as they need; each
 * slot keeps its rows; the host reads a step's sizes and nothing else of its sample. */
#include "tests/support/run_fixture.h"

#include "data/load.h"

/* ---- in front of StarPU: tasks are counted, and when the host takes one of some handles ---- */

static uint32_t n_submitted, n_taken;
static struct {
    uint32_t n;
    starpu_data_handle_t handle[8];
} watched;

static void see_handle(starpu_data_handle_t handle)
{
    for (uint32_t i = 0; i < watched.n; i++) {
        n_taken += handle == watched.handle[i];
    }
}

/* Visible: the linker refuses hidden ones where another library, such as StarPU-MPI's, calls what is wrapped. */
#pragma GCC visibility push(default)

int __real_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task)
{
    n_submitted++;
    return __real_starpu_task_submit(task);
}

int __real_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode)
{
    see_handle(handle);
    return __real_starpu_data_acquire(handle, mode);
}

int __real_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode)
{
    see_handle(handle);
    return __real_starpu_data_acquire_on_node(handle, node, mode);
}

int __real_starpu_data_acquire_on_node_try(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node_try(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node_try(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode)
{
    see_handle(handle);
    return __real_starpu_data_acquire_on_node_try(handle, node, mode);
}

#pragma GCC visibility pop

/* ---- a small world ---- */

static void open_world(bool sparse, struct sl_settings *settings, uint64_t n_steps, struct sl_dataset *d,
                       struct world *w)
{
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 500, .n_columns = sparse ? 80 : 10, .sparse = sparse, .seed = 7};
    make_dataset(&shape, d);
    settings_with("hidden=16 pes=4 group-size=2 chunks=3 batch-size=20 norm=batch", settings);
    world_open(d, settings, n_steps, w);
}

static void close_world(struct sl_settings *settings, struct sl_dataset *d, struct world *w)
{
    world_close(w);
    sl_settings_free(settings);
    forget_partitions();
    sl_dataset_free(d);
}

TEST(test_partials)
{
    struct sl_settings settings;
    struct sl_dataset d;
    struct world w;
    starpu_data_handle_t first[3];
    starpu_data_handle_t again;
    open_world(false, &settings, 1, &d, &w);
    struct sl_partials *list = &w.steps->losses[1];
    assert_int_equal(list->room, settings.pes * settings.chunks);
    assert_int_equal(sl_partials_next(list, 0, 0, 1, SL_DTYPE_F64, &first[0]), SL_EINVAL);
    assert_int_equal(list->n, 0);
    for (int i = 0; i < 3; i++) {
        expect_ok(sl_partials_next(list, 0, 2, 5, SL_DTYPE_F64, &first[i]));
        assert_int_equal(sl_handle_rows(first[i]), 2);
        assert_int_equal(sl_handle_columns(first[i]), 5);
        assert_int_equal(sl_handle_element(first[i]), sizeof(double));
    }
    sl_step_drop(w.steps);
    for (int i = 0; i < 3; i++) {
        expect_ok(sl_partials_next(list, 0, 2, 5, SL_DTYPE_F64, &again));
        assert_ptr_equal(again, first[i]);
    }
    while (list->n < list->room) {
        expect_ok(sl_partials_next(list, 0, 2, 5, SL_DTYPE_F64, &again));
    }
    assert_int_equal(sl_partials_next(list, 0, 2, 5, SL_DTYPE_F64, &again), SL_EINTERNAL);
    expect_message(sl_message(), "12", "partials");
    close_world(&settings, &d, &w);
}

/* The chunks that one PE keeps in one slot, behind the n that are in the list. */
static uint32_t list_rows(const struct sl_pass_pe *pe, uint32_t n, uint32_t room, starpu_data_handle_t *out)
{
    const struct sl_rows *rows = &pe->layer[0][0];
    for (int k = -1; k < SL_MAX_LAYERS * SL_N_ROLES; k++) {
        const struct sl_rows *these = k < 0 ? &pe->features : &rows[k];
        assert_int_equal(these->split.n_chunks, 0); /* no step is in hand */
        for (uint32_t c = 0; c < these->room; c++) {
            assert_true(n < room);
            out[n++] = these->chunk[c];
        }
    }
    return n;
}

/* All handles that steps keep, in a list of at most `room`. */
static uint32_t list_kept(const struct sl_steps *s, uint32_t room, starpu_data_handle_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->settings->depth; i++) {
        for (uint32_t p = 0; p < s->plan->n_pes; p++) {
            const struct sl_slot_pe *pe = &s->slot[i].pe[p];
            for (uint32_t k = 0; k < s->plan->n_layers * s->shards->n_parts; k++) {
                assert_true(n + 2 <= room);
                out[n++] = pe->packed[k];
                out[n++] = pe->sent[k];
            }
        }
    }
    for (uint32_t k = 0; k < s->plan->n_layers * SL_MAX_PARAMETERS; k++) {
        for (uint32_t i = 0; i < s->gradients[k].room; i++) {
            assert_true(n < room);
            out[n++] = s->gradients[k].handle[i];
        }
    }
    for (uint32_t i = 0; i < s->pass.batch.moments.room; i++) {
        assert_true(n + 3 <= room);
        out[n++] = s->pass.batch.moments.handle[i];
        out[n++] = s->pass.batch.sums.handle[i];
        out[n++] = s->losses[0].handle[i];
    }
    for (uint32_t i = 0; i < s->settings->depth * s->plan->n_pes; i++) {
        n = list_rows(&s->slot_rows[i], n, room, out);
    }
    return n;
}

/* A second step of the same sample registers no handle. */
TEST(test_handles_are_kept)
{
    enum { ROOM = 2000 };
    starpu_data_handle_t kept[2][ROOM];
    struct sl_settings settings;
    struct sl_step_sizes sizes;
    struct sl_dataset d;
    struct world w;
    open_world(false, &settings, 1, &d, &w);
    expect_ok(sl_step_sample(w.steps, 0));
    uint32_t n_kept = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct sl_adam adam = adam_of(&settings, i);
        starpu_data_handle_t loss;
        expect_ok(sl_matrix_register(1, 1, SL_DTYPE_F64, &loss));
        expect_ok(sl_step_compute(w.steps, 0, &adam, loss, &sizes));
        starpu_data_unregister_no_coherency(loss);
        starpu_task_wait_for_all();
        n = list_kept(w.steps, ROOM, kept[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_ptr_equal(kept[0][i], kept[1][i]);
        n_kept += kept[0][i] != NULL;
    }
    /* from and to both PEs of both groups in three hops, but no gradients of the features; some partials of each
     * kind; of four PEs features, logits and their gradient, and z, gate, h, gz and gh of two hidden layers, three
     * of whose hops have a mean or y */
    assert_true(n_kept > 4 * 5 + 8 * 3 * 2 + 3 * 4 + 4 * (3 + 2 * 5 + 3));
    world_healthy(&w);
    close_world(&settings, &d, &w);
}

/* Rows of features that PE p has a copy of in the first step: of all the input level, or of its destinations. */
static void check_gathered(double input_dropout, uint32_t hidden, uint32_t feature_cache, bool all)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 500, .n_columns = 10, .seed = 7};
    struct sl_settings settings;
    struct sl_step_sizes sizes;
    struct sl_dataset d;
    struct world w;
    starpu_data_handle_t loss;
    make_dataset(&shape, &d);
    settings_with("pes=2 chunks=3 batch-size=8", &settings);
    settings.hidden = hidden;
    settings.input_dropout = input_dropout;
    settings.feature_cache = feature_cache;
    world_open(&d, &settings, 1, &w);
    struct sl_adam adam = adam_of(&settings, 0);
    expect_ok(sl_matrix_register(1, 1, SL_DTYPE_F64, &loss));
    expect_ok(sl_step_submit(w.steps, 0, &adam, loss, &sizes));
    starpu_data_unregister_no_coherency(loss);
    starpu_task_wait_for_all();
    for (uint32_t p = 0; p < 2; p++) {
        const struct sl_pass_pe *pe = &w.steps->slot_rows[p];
        const struct sl_split *split = &pe->split[w.plan.n_layers];
        uint32_t n_rows = 0;
        for (uint32_t c = 0; c < pe->features.room; c++) { /* small ones are kept */
            n_rows += pe->features.chunk[c] == NULL ? 0 : sl_handle_rows(pe->features.chunk[c]);
        }
        assert_true(split[-1].n_rows < split[0].n_rows);
        assert_int_equal(n_rows, all ? split[0].n_rows : split[-1].n_rows);
    }
    world_healthy(&w);
    close_world(&settings, &d, &w);
}

TEST(test_gathered)
{
    check_gathered(0, 16, 0, false);
    check_gathered(0.2, 16, 0, true);
    check_gathered(0, 8, 0, true); /* narrows: all rows are multiplied first */
    check_gathered(0, 16, 20, true);
}

/* ---- the sizes of a step ---- */

/* Row by row, what the PEs read of the features in a step whose frontiers may now be looked at. */
static uint64_t feature_bytes(struct world *w, const struct sl_features *f, uint64_t step)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < w->plan.n_pes; p++) {
        uint32_t n;
        FREED sl_vertex *ids = frontier_of(w, step, p, w->plan.n_layers, &n);
        for (uint32_t i = 0; i < n; i++) {
            bytes +=
                f->dense.data != NULL ? 4 * (uint64_t)f->n_columns : 8 * (f->offsets[ids[i] + 1] - f->offsets[ids[i]]);
        }
    }
    assert_true(bytes > 0);
    return bytes;
}

/* Where GPUs sample, frontiers have stayed there. */
static void expect_frontiers_away(void)
{
    for (uint32_t i = 0; i < watched.n; i++) {
        int allocated;
        int valid;
        int requested;
        starpu_data_query_status(watched.handle[i], STARPU_MAIN_RAM, &allocated, &valid, &requested);
        assert_int_equal(valid, machine.n_gpus == 0);
    }
}

/* The host never takes a frontier, and still knows how long its rows are: by one task more for each PE where
 * features are sparse. */
static void check_sizes(bool sparse)
{
    struct sl_settings settings;
    struct sl_step_sizes sizes;
    struct sl_dataset d;
    struct world w;
    starpu_data_handle_t loss;
    open_world(sparse, &settings, 2, &d, &w);
    assert_int_equal(w.shards.is_sparse, sparse);
    watched.n = w.plan.n_pes;
    for (uint32_t p = 0; p < watched.n; p++) {
        watched.handle[p] = sl_step_slot(w.steps, 0, p)->frontier;
    }
    n_submitted = 0;
    n_taken = 0;
    expect_ok(sl_step_sample(w.steps, 0)); /* permute; seed; sample and merge, hop by hop */
    if (w.run.holder != NULL) {
        assert_int_equal(n_submitted, 1); /* a bundle */
    } else {
        assert_int_equal(n_submitted, 1 + watched.n * (1 + 2 * w.plan.n_layers + sparse));
    }
    struct sl_adam adam = adam_of(&settings, 0);
    expect_ok(sl_matrix_register(1, 1, SL_DTYPE_F64, &loss));
    expect_ok(sl_step_submit(w.steps, 0, &adam, loss, &sizes));
    starpu_data_unregister_no_coherency(loss);
    starpu_task_wait_for_all();
    world_healthy(&w);
    expect_frontiers_away();
    assert_int_equal(n_taken, 0);
    assert_int_equal(sizes.bytes.features, feature_bytes(&w, &d.features, 0));
    assert_int_equal(n_taken, watched.n); /* by this test: that would have been seen */
    watched.n = 0;
    close_world(&settings, &d, &w);
}

TEST(test_sizes)
{
    check_sizes(false);
    check_sizes(true);
}

/* ---- bundles on a GPU ---- */

/* Every model and both samplers, one PE and several, rows that are kept and rows that are too large for it without a
 * bundle. A step is a bundle for sampling, one for the rest, and the sum of the losses on the CPU. */
TEST(test_bundles_on_gpu)
{
    static const char *const text[] = {
        "pes=1 chunks=1 hidden=16 batch-size=20 depth=2",
        "pes=4 hidden=16 batch-size=10 chunks=3",
        "pes=1 chunks=1 hidden=340 batch-size=400 fanout=10,10",
        "pes=3 chunks=2 group-size=1 hidden=16 batch-size=10 sync=dissemination",
    };
    if (!wants_gpu()) {
        skip();
    }
    for (int i = 0; i < n_models(); i++) {
        struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 500, .n_columns = 12, .seed = 11};
        struct sl_settings settings;
        struct sl_dataset d;
        settings_with(text[i % 4], &settings);
        settings.model = i % n_models();
        shape.n_relations = is_typed(settings.model) ? 3 : 0;
        make_dataset(&shape, &d);
        settings.heads = attends(settings.model) ? 4 : settings.heads;
        settings.sampler = i % 3 == 2 ? SL_SAMPLER_LABOR : SL_SAMPLER_NEIGHBOR;
        expect_same_bundled(&d, &settings, 4);
        sl_settings_free(&settings);
        forget_partitions();
        sl_dataset_free(&d);
    }
}

/* ---- what the GPU has no room for ---- */

TEST(test_gpu_too_small_for_bundles)
{
    struct sl_settings settings;
    struct sl_dataset d;
    struct world w;
    if (!wants_gpu()) {
        skip();
    }
    made_up_gpus.n = 1;
    made_up_gpus.bytes = (uint64_t)100 << 20; /* the pieces alone take 64 MiB */
    open_world(false, &settings, 1, &d, &w);
    assert_null(w.run.holder);
    assert_ptr_equal(w.run.homes, &w.plan.homes); /* of two workers, one gets all tasks */
    close_world(&settings, &d, &w);
    made_up_gpus.n = 0;
}

/* A GPU has two workers here, as where there are processors for them. */
static int two_workers_up(void **state)
{
    setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
    return group_up(state);
}

TEST_MAIN(two_workers_up, group_down)
