/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/report/trace.h: names of tasks, and the files of traced runs, where StarPU has FxT.
 * tests/python/test_trace.py reads them.
 */
#include "tests/support/data_fixture.h"

#include "data/load.h"

#include <dirent.h>

#include "data/raw.h"
#include "runtime/report/trace.h"
#include "runtime/train/session.h"
#include "tests/support/run_fixture.h"
#include "tests/support/written_fixture.h"

/* FxT loses ten kilobytes each time StarPU is started after the first. The leak checker asks for this by name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfxt\n";
}

/* ---- runs ---- */

/* Four steps an epoch, large enough for tasks beside which StarPU's own few microseconds are small. */
static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 6000, .n_columns = 48, .n_classes = 4, .seed = 31};

static int write_data(void **state)
{
    struct sl_dataset dataset;
    char *path;
    fixture_environment();
    if (make_folder(state) != 0) {
        return -1;
    }
    make_dataset(&shape, &dataset);
    assert_ok(sl_path_join(folder, "data/made", &path));
    assert_ok(write_dataset(&dataset, false, path));
    sl_free(path);
    sl_dataset_free(&dataset);
    return 0;
}

static void set(struct sl_settings *settings, const char *name, const char *value)
{
    assert_ok(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), name, value, settings));
}

/* Train two epochs; trace into folder/out where `steps` is not NULL ("": the default). */
static enum sl_status train(const char *steps)
{
    struct sl_settings s;
    struct sl_session *session;
    static const char *const options[][2] = {{"dataset", "made"}, {"cache", "none"}, {"layers", "2"},
                                             {"hidden", "128"},   {"fanout", "8,8"}, {"batch-size", "400"},
                                             {"pes", "2"},        {"epochs", "2"},   {"chunks", "2"},
                                             {"cpus", "2"},       {"norm", "batch"}};
    long live = sl_memory_live();
    assert_ok(sl_settings_init(&s));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        set(&s, options[i][0], options[i][1]);
    }
    set(&s, "data-path", in_folder("data"));
    if (steps != NULL) {
        set(&s, "trace", in_folder("out"));
    }
    if (steps != NULL && steps[0] != '\0') {
        set(&s, "trace-steps", steps);
    }
    enum sl_status st = sl_settings_check(&s);
    st = st == SL_OK ? sl_session_open(&s, NULL, &session) : st;
    if (st == SL_OK) {
        st = sl_session_train(session, NULL);
        sl_session_close(session);
        st = st == SL_OK && steps != NULL ? sl_trace_finish(s.trace) : st;
    }
    sl_settings_free(&s);
    assert_int_equal(sl_memory_live(), live);
    return st;
}

/* The steps traced, or the test is skipped: a StarPU without FxT must refuse, and say how to get one. */
static void trace(const char *steps)
{
    enum sl_status st = train(steps);
    if (st == SL_ENOTSUP) {
        assert_non_null(strstr(sl_message(), "FxT"));
        assert_non_null(strstr(sl_message(), "bootstrap"));
        skip();
    }
    if (st != SL_OK) {
        fail_msg("%s: %s", sl_status_name(st), sl_message());
    }
}

static char *read_out(const char *name)
{
    char path[64];
    char *text;
    size_t bytes;
    snprintf(path, sizeof path, "out/%s", name);
    assert_ok(sl_file_read(in_folder(path), SIZE_MAX - 1, &text, &bytes));
    return text;
}

static void expect_in(const char *name, const char *words)
{
    OWNED(sl_free_it) char *text = read_out(name);
    if (strstr(text, words) == NULL) {
        fail_msg("%s lacks '%s'", name, words);
    }
}

static void expect_not_in(const char *name, const char *words)
{
    OWNED(sl_free_it) char *text = read_out(name);
    if (strstr(text, words) != NULL) {
        fail_msg("%s has '%s'", name, words);
    }
}

/* ---- what is in a trace ---- */

static int clear_out(void **state)
{
    char *path;
    (void)state;
    assert_ok(sl_path_join(folder, "out", &path));
    if (sl_folder_exists(path)) {
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    sl_free(path);
    return sl_memory_live() == 0 ? 0 : -1;
}

TEST_WITH(all_files_are_there, NULL, clear_out)
{
    static const char *const files[] = {"paje.trace", "tasks.rec", "trace.rec", "data.rec", "trace.fxt", "dag.dot"};
    trace("");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        struct stat about;
        snprintf(path, sizeof path, "out/%s", files[i]);
        assert_int_equal(stat(in_folder(path), &about), 0);
        assert_true(about.st_size > 100);
    }
    DIR *dir = opendir(in_folder("out"));
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        bool known = entry->d_name[0] == '.';
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            known |= strcmp(entry->d_name, files[i]) == 0;
        }
        if (!known) {
            fail_msg("%s was left behind", entry->d_name);
        }
    }
    closedir(dir);
    expect_in("paje.trace", "\tprog_event\tp\t\"step0\"");
    expect_in("paje.trace", "\tprog_event\tp\t\"step1\"");
    expect_not_in("paje.trace", SL_TASK_MARK); /* only the report's */
    expect_in("paje.trace",
              "6\tdense.fwd.dense.hop0.pe0.step0\tWS\tdense.fwd.dense.hop0.pe0.step0\t\"0.000 0.447 0.698\"");
    expect_in("dag.dot", "->");
}

/* Traces in a folder, by name. */
static size_t count_traces(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += strstr(entry->d_name, "prof_file") != NULL || strstr(entry->d_name, "fxt") != NULL;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

TEST_WITH(windows_outside_the_run_are_refused, NULL, clear_out)
{
    enum sl_status st = train("100:101");
    if (st == SL_ENOTSUP) {
        skip();
    }
    assert_int_equal(st, SL_EINVAL);
    assert_non_null(strstr(sl_message(), "--trace-steps: found 100:101, expected steps from 0 to"));
    sl_trace_discard(in_folder("out"));
    assert_int_equal(count_traces(in_folder("out")), 0);
    assert_int_equal(train("4:2"), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "FIRST:LAST"));
}

/* ---- what a run without --trace leaves ---- */

TEST_WITH(nothing_is_traced_unasked, NULL, clear_out)
{
    size_t before = count_traces("/tmp");
    setenv("STARPU_FXT_TRACE", "1", 1); /* the user's, or StarPU 1.3's default */
    setenv("STARPU_FXT_PREFIX", in_folder("stray"), 1);
    assert_ok(train(NULL));
    unsetenv("STARPU_FXT_PREFIX");
    assert_int_equal(count_traces("/tmp"), before);
    assert_int_equal(count_traces(folder), 0);
    assert_int_equal(count_traces("."), 0);
    assert_false(sl_folder_exists(in_folder("out")));
}

/* A run after a traced one is not traced into the other's folder. */
TEST_WITH(tracing_ends_with_its_run, NULL, clear_out)
{
    trace("0:1");
    assert_int_equal(unlink(in_folder("out/trace.fxt")), 0);
    assert_ok(train(NULL));
    assert_int_equal(count_traces(in_folder("out")), 0);
}

/* ---- names ---- */

TEST(names_come_back)
{
    static const char *const operations[SL_N_STAGES] = {
        "sl_merge",    "sl_pack",           "sl_gather", "sl_aggregate_forward", "sl_activate_forward",
        "sl_loss_sum", "sl_dense_backward", "sl_reduce", "sl_optimize",          "sl_dense_forward"};
    for (int s = 0; s < SL_N_STAGES; s++) {
        char text[SL_TASK_NAME_BYTES];
        struct sl_trace_name name;
        struct sl_task_args args = {.step = UINT64_MAX - (uint64_t)s, .pe = 255, .hop = 15, .stage = (enum sl_stage)s};
        sl_task_name(&args, operations[s], text);
        assert_true(sl_trace_name_parse(text, strlen(text), &name));
        assert_true(name.stage == args.stage && name.pe == 255 && name.hop == 15 && name.step == args.step);
        assert_null(strpbrk(text, " \t\""));
        assert_null(strstr(text, "sl_"));
        assert_null(strstr(text, "_forward"));
    }
}

TEST(names_say_the_direction)
{
    char text[SL_TASK_NAME_BYTES];
    struct sl_task_args args = {.step = 12, .pe = 1, .hop = 2, .stage = SL_STAGE_BACKWARD};
    sl_task_name(&args, "sl_dense_backward_weight", text);
    assert_string_equal(text, "backward.bwd.dense_weight.hop2.pe1.step12");
    args.stage = SL_STAGE_AGGREGATE;
    sl_task_name(&args, "sl_aggregate_forward", text);
    assert_string_equal(text, "aggregate.fwd.aggregate.hop2.pe1.step12");
    args.stage = SL_STAGE_SYNC;
    sl_task_name(&args, "sl_reduce", text);
    assert_string_equal(text, "sync.upd.reduce.hop2.pe1.step12");
}

TEST(other_names_are_not_ours)
{
    static const char *const others[] = {"",
                                         "sl_sample",
                                         "sample.fwd.sample.hop0.pe0.step",
                                         "sample.fwd.sample.hop0.pe0.step1x",
                                         "sample.fwd.sample.hop0.pe0.step1.",
                                         "sample.fwd.sample.hop0.pe0",
                                         "sample.up.sample.hop0.pe0.step0",
                                         "samples.fwd.sample.hop0.pe0.step0",
                                         "sample.fwd.sample.hop-1.pe0.step0",
                                         "sample.fwd.sample.hop0.pe99999999999.step0",
                                         "sample.fwd.sample"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct sl_trace_name name;
        if (sl_trace_name_parse(others[i], strlen(others[i]), &name)) {
            fail_msg("'%s' was taken for one of ours", others[i]);
        }
    }
}

TEST_MAIN(write_data, remove_folder)
