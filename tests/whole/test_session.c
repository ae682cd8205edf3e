/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole runs from options to files: metrics, checkpoints, what is saved, and what goes wrong.
 */
#include "tests/support/session_fixture.h"

#include "data/load.h"

#include <jansson.h>
#include <signal.h>

#include "data/npy.h"
#include "data/raw.h"
#include "runtime/files/checkpoint.h"
#include "runtime/machine/machine.h"
#include "runtime/machine/pool.h"
#include "runtime/minibatch/minibatch.h"
#include "runtime/train/session.h"
#include "support/safetensors.h"
#include "tests/support/run_fixture.h"
#include "tests/support/written_fixture.h"

POINTER_OWNER(json_decref, json_t)

/* ---- what the runs train on: two datasets in the raw layout, written once ---- */

static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 301, .n_columns = 12, .n_classes = 4, .seed = 31};
static struct sl_dataset dataset;
static char data[64]; /* the folder they are in */

static void put_dataset(const struct sl_dataset *set, const char *name)
{
    OWNED(sl_free_it) char *path;
    assert_ok(sl_path_join(data, name, &path));
    assert_ok(write_dataset(set, false, path));
}

static int write_data(void **state)
{
    (void)state;
    struct graph_shape two_classes = shape;
    struct sl_dataset other;
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE"); /* a run must not need it to be off */
    make_folder(NULL);
    memcpy(data, folder, sizeof data);
    make_dataset(&shape, &dataset);
    assert_true(dataset.train.n > 120 && dataset.train.n <= 180); /* three steps an epoch */
    put_dataset(&dataset, "small");
    two_classes.n_classes = 2;
    make_dataset(&two_classes, &other);
    other.valid.n = 0;
    put_dataset(&other, "blind"); /* no validation set */
    sl_dataset_free(&other);
    return 0;
}

static int remove_data(void **state)
{
    sl_dataset_free(&dataset);
    memcpy(folder, data, sizeof folder);
    return remove_folder(state);
}

/* ---- a run and the metrics it writes ---- */

/* The lines a run has written. */
struct capture {
    json_t *lines;
    char line[16384];
    size_t n;
    long interrupt_at;        /* raise SIGUSR1 when this step is reported; -1: never */
    int signal;               /* what stopped the last training; 0: nothing */
    uint64_t pool_blocks[16]; /* when an epoch, counted from 1, is reported */
};

static struct capture seen;

static void take_line(struct capture *c)
{
    json_error_t error;
    c->line[c->n] = '\0';
    json_t *object = json_loads(c->line, 0, &error);
    if (object == NULL) {
        fail_msg("'%s' is no JSON: %s", c->line, error.text);
    }
    json_array_append_new(c->lines, object);
    json_t *step = json_object_get(object, "step");
    if (step != NULL && json_integer_value(step) == c->interrupt_at) {
        raise(SIGUSR1);
    }
    json_t *epoch = json_object_get(object, "eval_seconds") == NULL ? NULL : json_object_get(object, "epoch");
    if (epoch != NULL && json_integer_value(epoch) < 16) {
        c->pool_blocks[json_integer_value(epoch)] = sl_pool_blocks();
    }
    c->n = 0;
}

static ssize_t capture_write(void *cookie, const char *text, size_t n)
{
    struct capture *c = cookie;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            take_line(c);
        } else if (c->n + 1 < sizeof c->line) {
            c->line[c->n++] = text[i];
        }
    }
    return (ssize_t)n;
}

static void forget(void)
{
    json_decref(seen.lines);
    seen = (struct capture){.lines = json_array(), .interrupt_at = -1};
}

static bool on_gpu(void)
{
    const char *device = getenv("SL_TEST_DEVICE");
    return device != NULL && strcmp(device, "cuda") == 0 && sl_gpus_count() > 0;
}

/* Options of all runs, then those given, one a word; "%" in front of a file stands for the test's folder. */
static void settings_of(const char *options, struct sl_settings *out)
{
    char common[1024];
    snprintf(common, sizeof common,
             "dataset=small data-path=%s cache=none layers=2 hidden=8 fanout=4,4 batch-size=30 pes=2 epochs=3 lr=0.02 "
             "chunks=2 cpus=2 %s %s",
             data, options, on_gpu() ? "cpus=0" : ""); /* CPUs that help GPUs round otherwise */
    assert_ok(sl_settings_init(out));
    set_options(out, common);
}

/* Run with these options; what is reported is added to `seen`. Nothing may be left in memory. */
static enum sl_status train(const char *options)
{
    static const cookie_io_functions_t functions = {.write = capture_write};
    struct sl_settings settings;
    struct sl_session *session;
    long live = sl_memory_live();
    if (seen.lines == NULL) {
        forget();
    }
    settings_of(options, &settings);
    enum sl_status st = sl_settings_check(&settings);
    if (st == SL_OK) {
        st = sl_session_open(&settings, NULL, &session);
    }
    if (st == SL_OK) {
        FILE *stream = fopencookie(&seen, "w", functions);
        setvbuf(stream, NULL, _IOLBF, 0);
        assert_ok(sl_signals_install());
        settings.json = true;
        st = sl_session_train(session, &(struct sl_report){.size = sizeof(struct sl_report), .stream = stream});
        seen.signal = sl_signals_seen();
        sl_signals_restore();
        sl_session_close(session);
        fclose(stream);
    }
    sl_settings_free(&settings);
    assert_int_equal(sl_memory_live(), live);
    return st;
}

/* ---- reading the lines ---- */

static bool is_event(json_t *line, const char *event)
{
    return strcmp(json_string_value(json_object_get(line, "event")), event) == 0;
}

static size_t count_events(const char *event)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(seen.lines); i++) {
        n += is_event(json_array_get(seen.lines, i), event);
    }
    return n;
}

/* The n-th line of that event, from 0. */
static json_t *nth(const char *event, size_t n)
{
    for (size_t i = 0; i < json_array_size(seen.lines); i++) {
        json_t *line = json_array_get(seen.lines, i);
        if (is_event(line, event) && n-- == 0) {
            return line;
        }
    }
    fail_msg("there is no such '%s' line", event);
    return NULL;
}

static json_t *field(json_t *line, const char *key)
{
    json_t *value = json_object_get(line, key);
    if (value == NULL) {
        fail_msg("'%s' is missing in %s", key, json_dumps(line, 0));
    }
    return value;
}

static double real(json_t *line, const char *key)
{
    json_t *value = field(line, key);
    if (!json_is_number(value)) {
        fail_msg("'%s' is no number in %s", key, json_dumps(line, 0));
    }
    return json_number_value(value);
}

static double sum_of(json_t *array)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        sum += json_number_value(json_array_get(array, i));
    }
    return sum;
}

/* ---- end to end ---- */

static void check_config(json_t *line)
{
    assert_string_equal(json_string_value(field(line, "dataset")), "small");
    assert_true(json_is_false(field(line, "synthetic")));
    assert_int_equal(real(line, "vertices"), dataset.graph.n_vertices);
    assert_int_equal(real(line, "edges"), dataset.graph.n_edges);
    assert_int_equal(real(line, "pes"), 2);
    assert_int_equal(real(line, "group_size"), 2);
    assert_int_equal(json_array_size(field(line, "devices")), on_gpu() ? 1 + sl_gpus_count() : 2);
    assert_int_equal(real(field(line, "options"), "batch_size"), 30);
    assert_true(real(line, "edge_cut") > 0);
    assert_true(real(line, "parameters") > 0 && real(line, "parameter_bytes") > 0);
    assert_true(json_is_string(field(line, "version")));
}

static void check_epoch(json_t *line, size_t epoch)
{
    static const char *const scores[] = {"valid_acc", "test_acc", "valid_f1", "test_f1", "overlap"};
    static const char *const bytes[] = {"ids", "rows", "row_gradients", "weights", "features"};
    /* Nothing is mixed or sent, so there is no "sync". A GPU's bundles count as one of the first three. */
    static const char *const stages[] = {"sample", "loss",      "optimise", "exchange",
                                         "gather", "aggregate", "dense",    "backward"};
    assert_int_equal(real(line, "epoch"), epoch);
    for (size_t i = 0; i < 5; i++) {
        double score = real(line, scores[i]);
        assert_true(score >= 0 && score <= 1);
    }
    assert_true(real(line, "seconds") > 0 && real(line, "eval_seconds") > 0);
    assert_int_equal(json_array_size(field(line, "vertices")), 3);
    assert_int_equal(json_array_size(field(line, "edges")), 2);
    assert_int_equal(json_number_value(json_array_get(field(line, "vertices"), 0)), dataset.train.n);
    assert_true(sum_of(field(line, "edges")) > dataset.train.n);
    for (size_t i = 0; i < 5; i++) {
        assert_true(real(field(line, "bytes"), bytes[i]) > 0);
    }
    for (size_t i = 0; i < (on_gpu() ? 3 : 8); i++) {
        assert_true(real(field(line, "stage_seconds"), stages[i]) > 0);
    }
    assert_null(json_object_get(line, "valid_auc"));
}

TEST_IN_FOLDER(test_metrics_lines)
{
    size_t n_steps = (dataset.train.n + 59) / 60;
    forget();
    assert_ok(train("metrics-steps metrics=%m.json"));
    check_config(nth("config", 0));
    assert_int_equal(count_events("config"), 1);
    assert_int_equal(count_events("step"), 3 * n_steps);
    assert_int_equal(count_events("epoch"), 3);
    double best = -1;
    for (size_t e = 0; e < 3; e++) {
        double sum = 0;
        json_t *line = nth("epoch", e);
        check_epoch(line, e + 1);
        for (size_t i = 0; i < n_steps; i++) {
            json_t *step = nth("step", e * n_steps + i);
            double seeds = i + 1 < n_steps ? 60 : dataset.train.n - 60 * (double)(n_steps - 1);
            assert_int_equal(real(step, "step"), e * n_steps + i);
            assert_int_equal(real(step, "epoch"), e + 1);
            sum += real(step, "loss") * seeds;
        }
        expect_near("train_loss", real(line, "train_loss"), sum / dataset.train.n, 1e-12);
        best = fmax(best, real(line, "valid_acc"));
    }
    assert_true(real(nth("epoch", 2), "train_loss") < real(nth("epoch", 0), "train_loss"));
    json_t *summary = nth("summary", 0);
    size_t best_epoch = (size_t)real(summary, "best_epoch");
    assert_true(real(summary, "best_valid_acc") == best);
    assert_true(real(nth("epoch", best_epoch - 1), "valid_acc") == best);
    assert_true(real(nth("epoch", best_epoch - 1), "test_acc") == real(summary, "test_acc_at_best"));
    for (size_t e = 0; e + 1 < best_epoch; e++) {
        assert_true(real(nth("epoch", e), "valid_acc") < best); /* ties take the earliest */
    }
    assert_true(real(summary, "seconds") > 0 && real(summary, "peak_rss_bytes") > 1e6);
}

static char *described(const struct sl_session *session)
{
    char *text;
    size_t n;
    FILE *stream = open_memstream(&text, &n);
    assert_ok(sl_session_describe(session, stream));
    fclose(stream);
    return text;
}

/* What does not fit a GPU is said in a line each; without GPUs nothing is, and no features are cached unasked. */
TEST_IN_FOLDER(test_describe_room)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    settings_of("pes=2", &settings);
    assert_int_equal(settings.feature_cache, SL_FEATURE_CACHE_AUTO);
    assert_ok(sl_settings_check(&settings));
    assert_ok(sl_session_open(&settings, NULL, &session));
    assert_int_equal(settings.feature_cache, 0); /* as the metrics will tell */
    FREED char *text = described(session);
    assert_null(strstr(text, "features  "));
    assert_null(strstr(text, "evaluation"));
    free(text);
    steps_of(&session->schedule)->cache.chosen = true; /* as on GPUs */
    steps_of(&session->schedule)->cache.n_rows = 1234;
    steps_of(&session->schedule)->cache.room = (struct sl_feature_room){.device_bytes = 20000000000,
                                                                        .other_bytes = 3000000000,
                                                                        .n_pes = 1,
                                                                        .n_parts = 2,
                                                                        .part_rows = 50000000,
                                                                        .row_bytes = 128 * sizeof(sl_real)};
    session->run.evaluate_on_cpus = true;
    text = described(session);
    assert_non_null(strstr(text, "features  25.6 GB of them do not fit a GPU of 20.0 GB"));
    assert_non_null(strstr(text, "3.0 GB"));
    assert_non_null(strstr(text, "a cache of 1234 rows a PE (lru)\n"));
    assert_non_null(strstr(text, "\nevaluation by CPUs"));
}

/* What --placement comes to, and how many PEs then have a home. */
static void expect_placement(uint32_t pes, uint32_t gpus, uint32_t cpus, enum sl_placement asked,
                             enum sl_placement wanted)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    settings_of("", &settings);
    settings.pes = pes;
    settings.gpus = gpus;
    settings.cpus = cpus;
    settings.placement = asked;
    assert_ok(sl_settings_check(&settings));
    assert_ok(sl_session_open(&settings, NULL, &session));
    assert_int_equal(settings.placement, wanted);
    assert_ptr_equal(session->run.homes, wanted == SL_PLACEMENT_HOME ? &session->plan.homes : NULL);
    assert_ptr_equal(session->run.near, session->run.has_cuda ? NULL : &session->plan.homes);
}

/* By itself, PEs have homes where there are several GPUs, no more than PEs, whose work no CPU shares. */
TEST_IN_FOLDER(test_placement)
{
    expect_placement(2, 0, 2, SL_PLACEMENT_AUTO, SL_PLACEMENT_FREE);
    expect_placement(2, 0, 2, SL_PLACEMENT_HOME, SL_PLACEMENT_HOME);
    expect_placement(2, SL_GPUS_ALL, 2, SL_PLACEMENT_AUTO, SL_PLACEMENT_FREE);
    if (!wants_gpu()) {
        return;
    }
    expect_placement(2, 1, 0, SL_PLACEMENT_AUTO, SL_PLACEMENT_FREE);
    uint32_t n = sl_gpus_count();
    expect_placement(n, SL_GPUS_ALL, 0, SL_PLACEMENT_AUTO, n > 1 ? SL_PLACEMENT_HOME : SL_PLACEMENT_FREE);
    expect_placement(1, SL_GPUS_ALL, 0, SL_PLACEMENT_AUTO, SL_PLACEMENT_FREE);
    expect_placement(2, SL_GPUS_ALL, 0, SL_PLACEMENT_FREE, SL_PLACEMENT_FREE);
}

/* Without a GPU nobody multiplies in TF32. */
TEST_IN_FOLDER(test_no_tf32)
{
    assert_refused(train("epochs=1 precision=tf32 gpus=0 cpus=2"), SL_EINVAL, "--precision");
}

/* GPUs multiply in TF32, and of bf16, if so asked. */
TEST_IN_FOLDER(test_precisions)
{
    static const char *const asked[] = {"", " precision=tf32", " precision=bf16"};
    struct sl_gpu gpu;
    double loss[3];
    if (!wants_gpu()) {
        skip();
    }
    assert_ok(sl_gpus_read(0, &gpu));
    for (int i = 0; i < 3; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "epochs=1 gpus=1 cpus=0%s", asked[i]);
        forget();
        if (i > 0 && !gpu.has_tensors) {
            assert_refused(train(settings), SL_ENOTSUP, "--precision");
            continue;
        }
        assert_ok(train(settings));
        loss[i] = real(nth("epoch", 0), "train_loss");
        assert_true(i == 0 || (loss[i] != loss[0] && fabs(loss[i] / loss[0] - 1) < 1e-2));
    }
    forget();
}

/* With several GPUs nothing that one PE alone works on is ever on another GPU than its own. */
TEST_IN_FOLDER(test_homes_on_gpus)
{
    int devices[STARPU_NMAXWORKERS];
    int nodes[STARPU_NMAXWORKERS];
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    if (!wants_gpu() || sl_gpus_count() < 2) {
        skip();
    }
    settings_of("gpus=2 cpus=0 epochs=1", &settings);
    assert_ok(sl_settings_check(&settings));
    assert_ok(sl_session_open(&settings, NULL, &session));
    assert_ok(sl_session_train(session, NULL));
    starpu_task_wait_for_all();
    assert_int_equal(sl_gpus_list(devices, nodes), 2);
    for (uint32_t p = 0; p < 2; p++) {
        const struct sl_slot_pe *pe = &steps_of(&session->schedule)->slot[0].pe[p];
        const starpu_data_handle_t own[] = {pe->frontier, pe->marks, pe->counts};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
            for (uint32_t gpu = 0; gpu < 2; gpu++) {
                int allocated = 0;
                int valid = 0;
                int requested = 0;
                starpu_data_query_status(own[i], nodes[gpu], &allocated, &valid, &requested);
                assert_int_equal(allocated != 0, gpu == p);
            }
        }
    }
}

TEST_IN_FOLDER(test_describe)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_session_sizes sizes = {.size = sizeof sizes};
    OWNED(sl_session_close_it) struct sl_session *session;
    settings_of("pes=4 group-size=2", &settings);
    assert_ok(sl_settings_check(&settings));
    assert_ok(sl_session_open(&settings, NULL, &session));
    FREED char *text = described(session);
    assert_non_null(strstr(text, "small: 301 vertices"));
    assert_non_null(strstr(text, "4 PEs in groups of 2"));
    assert_non_null(strstr(text, "warning")); /* 120 seeds of some 150 */
    assert_ok(sl_session_sizes(session, &sizes));
    assert_int_equal(sizes.n_per_epoch, (dataset.train.n + 119) / 120);
    assert_true(sizes.memory_bytes > 1 << 20);
}

/* ---- the loop ---- */

/* The trainer's steps are runtime/minibatch/step.c's, with t = 1, 2, .. over the whole run and the rate of the
 * epoch's schedule. */
static void check_loop(const char *schedule, const double *rates)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct world w;
    char options[128];
    snprintf(options, sizeof options, "json metrics-steps epochs=3 weight-decay=0.01 lr-schedule=%s", schedule);
    forget();
    assert_ok(train(options));
    settings_of(options, &settings);
    machine_up(NULL, 2);
    world_open(&dataset, &settings, 9, &w);
    for (uint32_t step = 0; step < 9; step++) {
        struct sl_adam adam = adam_of(&settings, step);
        adam.lr = settings.lr * rates[step / 3];
        struct sl_step_sizes sizes;
        starpu_data_handle_t handle;
        double loss = NAN;
        starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
        expect_ok(sl_step_submit(w.steps, step, &adam, handle, &sizes));
        starpu_data_unregister(handle);
        expect_near_at(schedule, step, real(nth("step", step), "loss"), loss, 1e-12);
    }
    world_close(&w);
    machine_down();
    forget_partitions();
}

TEST_IN_FOLDER(test_loop)
{
    check_loop("none", (const double[]){1, 1, 1});
    check_loop("cosine", (const double[]){1, 0.75, 0.25});
    check_loop("step", (const double[]){1, 0.1, 0.01});
}

/* ---- checkpoints ---- */

/* What `lines` and `seen` say of steps and epochs is the same, times apart. */
static void expect_same_events(json_t *lines, const char *event, const char *const *keys, size_t n_keys)
{
    json_t *now = seen.lines;
    size_t n = count_events(event);
    for (size_t i = 0; i < n; i++) {
        json_t *got = nth(event, i);
        seen.lines = lines;
        assert_int_equal(count_events(event), n);
        json_t *should = nth(event, i);
        seen.lines = now;
        for (size_t k = 0; k < n_keys; k++) {
            if (!json_equal(field(got, keys[k]), field(should, keys[k]))) {
                fail_msg("%s %zu: %s differs: %s, in one run %s", event, i, keys[k], json_dumps(got, 0),
                         json_dumps(should, 0));
            }
        }
    }
}

static void expect_same_report(json_t *lines)
{
    static const char *const step_keys[] = {"epoch", "step", "loss"};
    static const char *const epoch_keys[] = {"epoch",    "train_loss", "valid_loss", "valid_acc", "test_acc",
                                             "valid_f1", "test_f1",    "vertices",   "edges",     "bytes"};
    static const char *const summary_keys[] = {"best_valid_acc", "test_acc_at_best", "best_epoch"};
    expect_same_events(lines, "step", step_keys, 3);
    expect_same_events(lines, "epoch", epoch_keys, 10);
    while (count_events("summary") > 1) { /* of the runs that were interrupted */
        for (size_t i = 0; i < json_array_size(seen.lines); i++) {
            if (is_event(json_array_get(seen.lines, i), "summary")) {
                json_array_remove(seen.lines, i);
                break;
            }
        }
    }
    expect_same_events(lines, "summary", summary_keys, 3);
}

/* A run with another seed: what a later one finds in memory that it does not write is then not its own from before. */
static void train_another(void)
{
    json_t *lines = seen.lines;
    seen.lines = json_array();
    assert_ok(train("seed=9 epochs=2"));
    json_decref(seen.lines);
    seen.lines = lines;
}

#define RESUME_STEPS 8 /* of an epoch */

/* One run of four epochs against one that is interrupted when step `at` is reported, `inside` an epoch or at its
 * end, and resumed with `changed` options, which may be any that change no bit. */
static void check_resume(const char *options, long at, bool inside, const char *changed)
{
    char text[512];
    snprintf(text, sizeof text, "batch-size=10 epochs=4 metrics-steps json save=%%one.safetensors %s", options);
    forget();
    assert_ok(train(text));
    OWNED(json_decref_it) json_t *lines = seen.lines;
    seen.lines = NULL;
    forget();
    seen.interrupt_at = at;
    snprintf(text, sizeof text, "batch-size=10 epochs=4 metrics-steps json checkpoint=%%kept save=%%two.safetensors %s",
             options);
    assert_int_equal(train(text), SL_EINTERRUPT);
    assert_int_equal(seen.signal, SIGUSR1);
    assert_true(count_events("step") > (size_t)at);
    assert_true(count_events("step") < (size_t)at + 6); /* it did stop */
    assert_int_equal(count_events("step") % RESUME_STEPS > 0, inside);
    seen.interrupt_at = -1;
    train_another();
    snprintf(text, sizeof text,
             "batch-size=10 epochs=4 metrics-steps json checkpoint=%%kept resume=yes save=%%two.safetensors %s %s",
             options, changed);
    assert_ok(train(text));
    expect_same_report(lines);
    expect_same_file("one.safetensors", "two.safetensors");
}

/* The interrupt is seen a step or two after the step that it is raised in; in the last of an epoch, when that is
 * over. */
TEST_IN_FOLDER(test_resume)
{
    assert_int_equal((dataset.train.n + 19) / 20, RESUME_STEPS);
    check_resume("dropout=0.5", 0, true, "depth=1 cpus=1 sched=eager");
    check_resume("pes=4 batch-size=5 sync=dissemination gossip-what=grad gossip-ring norm=batch", 4, true,
                 "depth=3 cpus=1");
    if (slow_kernels()) {
        return; /* what is kept is the same wherever it was computed */
    }
    check_resume("norm=batch sampler=labor kappa=8 partition=random", 11, true, "depth=3 sched=prio");
    check_resume("norm=layer residual hidden=12 group-size=1 weight-decay=0.01", 2 * RESUME_STEPS, true, "");
    check_resume("depth=1 lr-schedule=cosine input-dropout=0.2", RESUME_STEPS - 1, false, "depth=2");
    check_resume("pes=4 batch-size=5 sync=cube gossip-average-every=4 gossip-local-size=2", 11, true, "depth=1");
}

TEST_IN_FOLDER(test_resume_longer)
{
    forget();
    assert_ok(train("epochs=3 metrics-steps json save=%one.safetensors"));
    OWNED(json_decref_it) json_t *lines = seen.lines;
    seen.lines = NULL;
    forget();
    assert_ok(train("epochs=1 metrics-steps json checkpoint=%kept"));
    assert_ok(train("epochs=3 metrics-steps json checkpoint=%kept resume=yes save=%two.safetensors"));
    expect_same_report(lines);
    expect_same_file("one.safetensors", "two.safetensors");
    assert_ok(train("epochs=3 checkpoint=%kept resume=yes save=%three.safetensors")); /* nothing is left to do */
    expect_same_file("one.safetensors", "three.safetensors");
}

/* What the metrics file holds becomes what is seen. */
static void see_file(const char *name)
{
    char *rest;
    OWNED(sl_free_it) char *bytes;
    size_t n;
    forget();
    assert_ok(sl_file_read(in_folder(name), SIZE_MAX - 1, &bytes, &n));
    for (char *text = strtok_r(bytes, "\n", &rest); text != NULL; text = strtok_r(NULL, "\n", &rest)) {
        json_array_append_new(seen.lines, json_loads(text, 0, NULL));
    }
}

/* The checkpoint of a moment earlier: a run that was killed before it could replace it leaves that one. */
static void copy_file(const char *from, const char *to)
{
    OWNED(sl_free_it) char *bytes;
    size_t n;
    assert_ok(sl_file_read(in_folder(from), SIZE_MAX - 1, &bytes, &n));
    put_bytes(to, bytes, n);
}

/* Interrupted in the first epoch, killed in the second and gone on with: the file is that of one run. */
TEST_IN_FOLDER(test_resume_metrics)
{
    forget();
    assert_ok(train("epochs=3 batch-size=10 metrics-steps json"));
    OWNED(json_decref_it) json_t *lines = seen.lines;
    seen.lines = NULL;
    forget();
    seen.interrupt_at = 2;
    assert_int_equal(train("epochs=3 batch-size=10 metrics-steps metrics=%m.json checkpoint=%kept"), SL_EINTERRUPT);
    assert_int_equal(count_events("epoch"), 0);
    seen.interrupt_at = -1;
    assert_ok(train("epochs=1 batch-size=10 metrics-steps metrics=%m.json checkpoint=%kept resume=yes"));
    copy_file("kept/checkpoint.safetensors", "earlier");
    assert_ok(train("epochs=2 batch-size=10 metrics-steps metrics=%m.json checkpoint=%kept resume=yes"));
    copy_file("earlier", "kept/checkpoint.safetensors");
    assert_ok(train("epochs=3 batch-size=10 metrics-steps metrics=%m.json checkpoint=%kept resume=yes"));
    see_file("m.json");
    assert_int_equal(count_events("step"), 3 * RESUME_STEPS);
    assert_int_equal(count_events("epoch"), 3);
    assert_int_equal(count_events("summary"), 1);
    expect_same_report(lines);
}

/* Save what a checkpoint holds again, but for one tensor; false: there is none of that name. */
static bool leave_out(const char *name)
{
    struct sl_tensors found;
    uint32_t n = 0;
    uint32_t n_metadata = 0;
    assert_ok(sl_checkpoint_load(in_folder("kept"), &found));
    struct sl_tensor *tensors = calloc(found.n, sizeof *tensors);
    struct sl_metadata *metadata = calloc(found.n_metadata, sizeof *metadata);
    for (uint32_t i = 0; i < found.n; i++) {
        if (strcmp(found.tensors[i].name, name) != 0) {
            tensors[n++] = found.tensors[i];
        }
    }
    for (uint32_t i = 0; i < found.n_metadata; i++) {
        if (strncmp(found.metadata[i].key, "starling_", 9) != 0) {
            metadata[n_metadata++] = found.metadata[i];
        }
    }
    assert_ok(sl_checkpoint_save(in_folder("kept"), tensors, n, metadata, n_metadata));
    bool was_there = n < found.n;
    sl_tensors_free(&found);
    free(tensors);
    free(metadata);
    return was_there;
}

/* Each number is looked for by its name. */
TEST_IN_FOLDER(test_resume_incomplete)
{
    static const char *const names[] = {"epoch.vertices",     "epoch.edges",        "epoch.id_bytes",
                                        "epoch.row_bytes",    "epoch.losses",       "epoch.row_gradient_bytes",
                                        "epoch.weight_bytes", "epoch.feature_bytes"};
    assert_ok(train("checkpoint=%kept epochs=1"));
    copy_file("kept/checkpoint.safetensors", "whole");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        copy_file("whole", "kept/checkpoint.safetensors");
        assert_true(leave_out(names[i]));
        assert_refused(train("checkpoint=%kept resume=yes"), SL_EFILE, names[i]);
    }
    copy_file("whole", "kept/checkpoint.safetensors");
    assert_false(leave_out("nothing"));
    assert_ok(train("checkpoint=%kept resume=yes"));
}

TEST_IN_FOLDER(test_resume_refused)
{
    assert_refused(train("checkpoint=%kept resume=yes"), SL_ENOTFOUND, "kept");
    assert_ok(train("checkpoint=%kept resume=auto epochs=1"));
    assert_refused(train("checkpoint=%kept resume=yes lr=0.01"), SL_EINVAL, "--lr");
    assert_refused(train("checkpoint=%kept resume=yes pes=4"), SL_EINVAL, "--pes");
    assert_refused(train("checkpoint=%kept resume=auto seed=2"), SL_EINVAL, "--seed");
    assert_refused(train("checkpoint=%kept resume=yes sync=cube"), SL_EINVAL, "--sync");
    assert_refused(train("checkpoint=%kept resume=yes precision=bf16 gpus=0"), SL_EINVAL, "--precision");
    assert_refused(train("checkpoint=%kept resume=yes dataset=blind"), SL_EINVAL, "dataset blind, features: found");
    OWNED(sl_free_it) char *bytes;
    size_t n;
    assert_ok(sl_file_read(in_folder("kept/checkpoint.safetensors"), SIZE_MAX - 1, &bytes, &n));
    bytes[n - 20] ^= 1;
    put_bytes("kept/checkpoint.safetensors", bytes, n);
    assert_refused(train("checkpoint=%kept resume=auto"), SL_EFILE, "checkpoint.safetensors");
}

/* A schedule is stretched over the epochs: more of them would be another one. */
TEST_IN_FOLDER(test_resume_refused_by_schedule)
{
    assert_ok(train("checkpoint=%kept lr-schedule=cosine epochs=1"));
    assert_refused(train("checkpoint=%kept resume=yes lr-schedule=cosine epochs=2"), SL_EINVAL,
                   "--epochs: found '2', expected '1'");
    assert_refused(train("checkpoint=%kept resume=yes epochs=2"), SL_EINVAL, "--lr-schedule");
    assert_ok(train("checkpoint=%kept resume=yes lr-schedule=cosine epochs=1"));
}

/* Sums in another order, which a machine without GPUs has no other use for. */
TEST_IN_FOLDER(test_resume_refused_by_order)
{
    static const char *const others[] = {"transport=nccl", "means=fastest"};
    assert_ok(train("checkpoint=%kept epochs=1"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(sl_tensors_free) struct sl_tensors checkpoint;
        settings_of("checkpoint=%kept epochs=1", &settings);
        assert_ok(sl_checkpoint_load(in_folder("kept"), &checkpoint));
        assert_ok(sl_state_match(&settings, &checkpoint));
        set_options(&settings, others[i]);
        assert_refused(sl_state_match(&settings, &checkpoint), SL_EINVAL, i == 0 ? "--transport" : "--means");
    }
}

static uint32_t n_told;

static void count_undefined(enum sl_notice kind, const char *line)
{
    n_told += kind == SL_NOTICE_WARNING && strstr(line, "valid acc is not defined, as the validation set is empty: no "
                                                        "epoch is the best") != NULL;
}

/* Without a validation set no epoch is the best. This is said once; patience ends; the last weights are kept, and
 * scores that are not numbers survive a checkpoint. */
TEST_IN_FOLDER(test_blind)
{
    sl_on_notice(count_undefined);
    n_told = 0;
    forget();
    assert_ok(train("dataset=blind epochs=2 checkpoint=%kept"));
    assert_true(json_is_null(field(nth("epoch", 1), "valid_acc")));
    assert_true(json_is_null(field(nth("epoch", 1), "valid_auc")));
    assert_true(real(nth("epoch", 1), "test_auc") >= 0);
    assert_int_equal(n_told, 1);
    assert_true(json_is_null(field(nth("summary", 0), "best_epoch")));
    assert_true(json_is_null(field(nth("summary", 0), "best_valid_acc")));
    assert_true(real(nth("summary", 0), "test_acc_at_best") == real(nth("epoch", 1), "test_acc"));
    assert_ok(train("dataset=blind epochs=2 checkpoint=%kept resume=yes"));
    assert_true(json_is_null(field(nth("summary", 1), "best_epoch")));
    assert_true(real(nth("summary", 1), "test_acc_at_best") == real(nth("epoch", 1), "test_acc"));
    assert_ok(train("dataset=blind epochs=9 patience=4 checkpoint=%kept resume=yes save=%a.safetensors"));
    assert_int_equal(count_events("epoch"), 4); /* the first two counted, too */
    assert_true(json_is_null(field(nth("summary", 2), "best_epoch")));
    double test = real(nth("summary", 2), "test_acc_at_best");
    assert_true(test == real(nth("epoch", 3), "test_acc"));
    assert_ok(train("dataset=blind epochs=0 load=%a.safetensors"));
    assert_true(real(nth("epoch", 4), "test_acc") == test);
    assert_true(json_is_null(field(nth("summary", 3), "best_epoch")));
    sl_on_notice(NULL);
}

/* ---- what is saved ---- */

TEST_IN_FOLDER(test_save_and_load)
{
    OWNED(sl_tensors_free) struct sl_tensors tensors;
    forget();
    assert_ok(train("norm=batch epochs=5 save=%a.safetensors"));
    double best = real(nth("summary", 0), "best_valid_acc");
    double test = real(nth("summary", 0), "test_acc_at_best");
    assert_ok(train("norm=batch epochs=0 load=%a.safetensors save=%b.safetensors pes=4"));
    expect_same_file("a.safetensors", "b.safetensors");
    assert_int_equal(real(nth("epoch", 5), "epoch"), 0);
    assert_true(json_is_null(field(nth("epoch", 5), "train_loss")));
    assert_true(real(nth("epoch", 5), "valid_acc") == best);
    assert_true(real(nth("epoch", 5), "test_acc") == test);
    assert_ok(sl_safetensors_read(in_folder("a.safetensors"), &tensors));
    const struct sl_tensor *weight = sl_tensors_find(&tensors, "layers.0.fc_neigh.weight");
    assert_non_null(weight);
    assert_int_equal(weight->shape[0], 8);
    assert_int_equal(weight->shape[1], 12);
    assert_non_null(sl_tensors_find(&tensors, "norms.0.running_var"));
    assert_non_null(sl_tensors_find(&tensors, "layers.1.fc_self.bias"));
    assert_refused(train("norm=batch epochs=0 load=%a.safetensors hidden=9"), SL_EINVAL, "9");
    assert_refused(train("norm=layer epochs=0 load=%b.safetensors layers=3 fanout=2,2,2"), SL_EINVAL, "--layers");
    assert_refused(train("epochs=0 load=%none.safetensors"), SL_EIO, "none.safetensors");
}

/* Read an array and check its shape. */
static struct sl_npy array_of(const char *name, uint64_t n_rows, uint64_t n_columns)
{
    struct sl_npy array;
    assert_ok(sl_npy_read(in_folder(name), NULL, &array));
    assert_int_equal(array.dtype, SL_DTYPE_F32);
    assert_int_equal(array.n_dimensions, 2);
    assert_int_equal(array.shape[0], n_rows);
    assert_int_equal(array.shape[1], n_columns);
    return array;
}

static void expect_same_arrays(const char *a, const char *b, uint64_t n_columns)
{
    OWNED(sl_npy_free) struct sl_npy one = array_of(a, dataset.graph.n_vertices, n_columns);
    OWNED(sl_npy_free) struct sl_npy other = array_of(b, dataset.graph.n_vertices, n_columns);
    for (uint64_t i = 0; i < one.n_items; i++) {
        expect_near_at(b, i, sl_npy_real(&other, i), sl_npy_real(&one, i), 1e-4);
    }
}

/* Share of the validation set whose largest score is its label's: rows are in the dataset's order. */
static double accuracy_of(const char *name)
{
    struct sl_npy scores = array_of(name, dataset.graph.n_vertices, 4);
    double right = 0;
    for (uint32_t i = 0; i < dataset.valid.n; i++) {
        uint64_t row = (uint64_t)dataset.valid.ids[i] * 4;
        uint32_t answer = 0;
        for (uint32_t c = 1; c < 4; c++) {
            answer = sl_npy_real(&scores, row + c) > sl_npy_real(&scores, row + answer) ? c : answer;
        }
        right += (int32_t)answer == dataset.targets.classes[dataset.valid.ids[i]];
    }
    sl_npy_free(&scores);
    return right / dataset.valid.n;
}

TEST_IN_FOLDER(test_predict_and_embed)
{
    forget();
    assert_ok(train("epochs=4 save=%m.safetensors predict=%p0.npy embed=%e0.npy"));
    expect_near("accuracy", accuracy_of("p0.npy"), real(nth("summary", 0), "best_valid_acc"), 1e-12);
    assert_ok(train("epochs=0 load=%m.safetensors predict=%p1.npy embed=%e1.npy pes=1 partition=none"));
    assert_ok(train("epochs=0 load=%m.safetensors predict=%p2.npy embed=%e2.npy pes=4 partition=random"));
    assert_ok(train("epochs=0 load=%m.safetensors predict=%p3.npy pes=3 partition=metis"));
    expect_same_arrays("p0.npy", "p1.npy", 4);
    expect_same_arrays("p0.npy", "p2.npy", 4);
    expect_same_arrays("p0.npy", "p3.npy", 4);
    expect_same_arrays("e0.npy", "e1.npy", 8);
    expect_same_arrays("e0.npy", "e2.npy", 8);
}

/* ---- ends ---- */

TEST_IN_FOLDER(test_patience)
{
    forget();
    assert_ok(train("lr=0 epochs=9 patience=2"));
    assert_int_equal(count_events("epoch"), 3); /* the first is the best, two are no better */
    assert_int_equal(real(nth("summary", 0), "best_epoch"), 1);
    forget();
    assert_ok(train("epochs=5 eval-every=2"));
    assert_int_equal(count_events("epoch"), 5);
    for (size_t e = 0; e < 5; e++) {
        assert_int_equal(json_is_null(field(nth("epoch", e), "valid_acc")), e == 0 || e == 2);
    }
    forget();
    assert_ok(train("epochs=3 eval-every=0"));
    assert_true(json_is_null(field(nth("epoch", 1), "test_acc")));
    assert_int_equal(real(nth("summary", 0), "best_epoch"), 3);
}

TEST_IN_FOLDER(test_no_number)
{
    forget();
    assert_refused(train("lr=1e30 epochs=5 checkpoint=%kept save=%m.safetensors"), SL_ENUMERIC, "learning rate");
    assert_int_equal(count_events("summary"), 0);
    assert_int_not_equal(access(in_folder("m.safetensors"), F_OK), 0);
    assert_ok(train("epochs=1")); /* StarPU comes up again */
}

TEST_IN_FOLDER(test_refused)
{
    assert_refused(train("dataset=nowhere"), SL_ENOTFOUND, "nowhere");
    assert_refused(train("sched=fastest"), SL_EINVAL, "eager");
    assert_refused(train("split=other"), SL_EINVAL, "only");
    assert_refused(train("save=%no/such/folder/m"), SL_EIO, "no/such/folder");
    assert_refused(train("pes=4 group-size=3"), SL_EINVAL, "--group-size");
    assert_ok(train("epochs=1"));
    assert_refused(train("epochs=1 watchdog=5"), SL_EINVAL, "sl_process_on_failure");
}

TEST_IN_FOLDER(test_too_large)
{
    struct sl_topology topology;
    assert_ok(sl_topology_read(&topology));
    if (topology.memory_bytes > (uint64_t)1 << 40) {
        skip();
    }
    assert_refused(train("hidden=65535 layers=16 fanout=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), SL_ENOMEM, "--hidden");
}

/* StarPU would wait for room that a GPU does not have. */
TEST_IN_FOLDER(test_gpu_too_small)
{
    if (!on_gpu()) {
        skip();
    }
    enum sl_status st;
    setenv("STARPU_LIMIT_CUDA_MEM", "63", 1);
    st = train("");
    unsetenv("STARPU_LIMIT_CUDA_MEM");
    assert_refused(st, SL_ENOMEM, "found 63 MiB");
    setenv("STARPU_LIMIT_CUDA_MEM", "64", 1);
    st = train("");
    unsetenv("STARPU_LIMIT_CUDA_MEM");
    assert_ok(st);
}

/* Steps differ in size and tasks in their order, yet after the first epoch steps take no buffers from the system. If
 * tasks run in an unusual order, more of the buffers are in use at a time, which calls for a few more once. Buffers
 * that each step took would be hundreds. */
TEST_IN_FOLDER(test_no_new_buffers)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    forget();
    assert_ok(train("epochs=8 hidden=64 batch-size=10"));
    assert_true(on_gpu() || seen.pool_blocks[1] > 20); /* a GPU's buffers are in its own memory */
    assert_true(seen.pool_blocks[8] - seen.pool_blocks[1] <= seen.pool_blocks[1] / 4);
}

int main(void)
{
    int failed = run_listed_tests(write_data, remove_data);
    json_decref(seen.lines);
    return failed;
}
