/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/report/trace.h and apps/report/report.h: traces of real runs, where StarPU has FxT, and what is
 * written for made-up ones.
 */
#include "tests/support/trace_fixture.h"

#include "data/load.h"

#include <dirent.h>
#include <jansson.h>

#include "apps/report/report.h"
#include "apps/report/timeline.h"
#include "data/raw.h"
#include "runtime/report/trace.h"
#include "runtime/train/session.h"
#include "tests/support/run_fixture.h"

/* FxT loses ten kilobytes each time StarPU is started after the first. The leak checker asks for this by name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfxt\n";
}

#define N_PES 2
#define N_HOPS 2

/* ---- runs ---- */

/* Four steps an epoch, large enough for tasks beside which StarPU's own few microseconds are small. */
static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 6000, .n_columns = 48, .n_classes = 4, .seed = 31};
static uint32_t n_steps; /* an epoch */

static int write_data(void **state)
{
    struct sl_dataset dataset;
    char *path;
    fixture_environment();
    if (make_folder(state) != 0) {
        return -1;
    }
    make_dataset(&shape, &dataset);
    n_steps = (dataset.train.n + 2 * 400 - 1) / (2 * 400);
    assert_ok(sl_path_join(folder, "data/made", &path));
    assert_ok(sl_raw_write_dataset(&dataset, false, path));
    sl_free(path);
    sl_dataset_free(&dataset);
    return 0;
}

static void set(struct sl_settings *settings, const char *name, const char *value)
{
    assert_ok(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), name, value, settings));
}

/* Train two epochs; trace into folder/out where `steps` is not NULL ("": the default). The metrics go to
 * folder/m.json. */
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
    set(&s, "metrics", in_folder("m.json"));
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
        st = st == SL_OK && steps != NULL ? sl_report_finish(s.trace) : st;
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
    char *text = read_out(name);
    if (strstr(text, words) == NULL) {
        fail_msg("%s lacks '%s'", name, words);
    }
    sl_free(text);
}

static void expect_not_in(const char *name, const char *words)
{
    char *text = read_out(name);
    if (strstr(text, words) != NULL) {
        fail_msg("%s has '%s'", name, words);
    }
    sl_free(text);
}

/* ---- what is in a trace ---- */

static void all_files_are_there(void **state)
{
    (void)state;
    static const char *const files[] = {"paje.trace",   "tasks.rec",  "trace.rec",   "data.rec", "trace.fxt",
                                        "timeline.svg", "report.txt", "report.html", "dag.dot"};
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
        bool known = entry->d_name[0] == '.' || strcmp(entry->d_name, "vite.svg") == 0;
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
    expect_in("timeline.svg", "#0072b2"); /* the same colour in all pictures */
    expect_in("dag.dot", "#0072b2");
    expect_in("report.html", "#0072b2");
    expect_in("report.html", "</svg>");
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

/* Every stage of every PE and step that the window is for. */
static void expect_steps(const struct sl_trace_data *data, uint64_t first, uint64_t last)
{
    bool seen[SL_N_STAGES][N_PES] = {{false}};
    for (uint64_t step = first; step <= last; step++) {
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < data->n_tasks; i++) {
            const struct sl_trace_task *t = &data->task[i];
            if (t->ran && t->ours && t->step == step) {
                assert_true(t->pe < N_PES && t->hop <= N_HOPS);
                seen[t->stage][t->pe] = true;
            }
        }
        for (int s = SL_STAGE_SAMPLE; s <= SL_STAGE_OPTIMISE; s++) {
            for (int p = 0; p < (s >= SL_STAGE_SYNC ? 1 : N_PES); p++) { /* updates are the first PE's */
                if (!seen[s][p]) {
                    fail_msg("step %d: no task of '%s' of PE %d", (int)step, sl_stage_name((enum sl_stage)s), p);
                }
            }
        }
    }
}

static void every_stage_pe_and_step_is_there(void **state)
{
    (void)state;
    struct sl_trace_data data;
    trace("");
    assert_ok(sl_trace_read(in_folder("out"), &data));
    expect_steps(&data, 0, n_steps - 1);
    for (size_t i = 0; i < data.n_tasks; i++) {
        const struct sl_trace_task *t = &data.task[i];
        assert_true(!t->ran || t->ours); /* no task without our names */
        assert_true(!t->ran || t->step < n_steps + 2);
        assert_true(!t->ran || t->stage == SL_STAGE_SAMPLE || t->step < n_steps);
    }
    sl_trace_data_free(&data);
}

static void a_window_holds_its_steps_only(void **state)
{
    (void)state;
    struct sl_trace_data data;
    trace("3:4");
    assert_ok(sl_trace_read(in_folder("out"), &data));
    expect_steps(&data, 3, 4);
    for (size_t i = 0; i < data.n_tasks; i++) {
        const struct sl_trace_task *t = &data.task[i];
        bool sampled = t->stage == SL_STAGE_SAMPLE;
        if (t->ran && t->stage != SL_STAGE_EVALUATE &&
            !(t->step >= (sampled ? 3 : 1) && t->step <= (sampled ? 6 : 4))) {
            fail_msg("'%.*s' is outside the window", (int)t->n_name, t->name);
        }
    }
    sl_trace_data_free(&data);
}

static void windows_outside_the_run_are_refused(void **state)
{
    (void)state;
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

/* ---- against the metrics ---- */

static double number_in(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

#define MOST_RUNS 6

/* The trace has the metrics' own figures, in whole nanoseconds a task, of some microseconds each at least. */
static void expect_stages_agree(const struct sl_analysis *analysis, json_t *epoch)
{
    json_t *stages = json_object_get(epoch, "stage_seconds");
    for (int s = SL_STAGE_SAMPLE; s <= SL_STAGE_OPTIMISE; s++) {
        const char *name = analysis->data->stage[s].name;
        double traced_s = analysis->stage[s].time.s[SL_TRACE_BUSY];
        double measured_s = number_in(stages, name);
        if (!(measured_s > 0) || !(fabs(traced_s - measured_s) <= 1e-3 * measured_s)) {
            fail_msg("%s: the trace says %g s, the metrics %g", name, traced_s, measured_s);
        }
    }
}

static void expect_sums(const struct sl_analysis *analysis)
{
    const struct sl_trace_data *data = analysis->data;
    for (uint32_t w = 0; w < data->n_workers; w++) {
        double sum_s = 0;
        for (int k = 0; k < SL_TRACE_N_KINDS; k++) {
            sum_s += analysis->worker[w].s[k];
        }
        assert_near(sum_s, data->makespan_s);
    }
    assert_true(analysis->path_s > 0 && analysis->path_s <= data->makespan_s);
}

/* One run: its report agrees with its metrics. Returns by how much their overlaps differ. */
static double run_agrees(void)
{
    struct sl_trace_data data;
    struct sl_analysis analysis;
    char *text;
    size_t bytes;
    trace("");
    assert_ok(sl_file_read(in_folder("m.json"), SIZE_MAX - 1, &text, &bytes));
    char *line = strchr(text, '\n'); /* the first is the config's */
    assert_non_null(line);
    json_t *epoch = json_loads(line + 1, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(epoch);
    assert_ok(sl_trace_read(in_folder("out"), &data));
    assert_ok(sl_analysis_make(&data, &analysis));
    expect_sums(&analysis);
    assert_true(data.makespan_s <= number_in(epoch, "seconds"));
    expect_stages_agree(&analysis, epoch);
    double apart = fabs(analysis.overlap - number_in(epoch, "overlap"));
    json_decref(epoch);
    sl_free(text);
    sl_analysis_free(&analysis);
    sl_trace_data_free(&data);
    return apart;
}

/* A busy machine may take the processor away between a codelet's end and its mark, for milliseconds, and so shift
 * it against the other worker's: the overlap of one run of some must agree. */
static void report_agrees_with_the_metrics(void **state)
{
    (void)state;
    double apart = INFINITY;
    for (int i = 0; i < MOST_RUNS && !(apart <= 0.01); i++) {
        apart = run_agrees();
    }
    if (!(apart <= 0.01)) {
        fail_msg("the report's overlap is %g from the metrics'", apart);
    }
}

/* ---- what a run without --trace leaves ---- */

static void nothing_is_traced_unasked(void **state)
{
    (void)state;
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
static void tracing_ends_with_its_run(void **state)
{
    (void)state;
    trace("0:1");
    assert_int_equal(unlink(in_folder("out/trace.fxt")), 0);
    assert_ok(train(NULL));
    assert_int_equal(count_traces(in_folder("out")), 0);
}

/* ---- reports of made-up traces ---- */

static void a_report_is_made_of_files_alone(void **state)
{
    (void)state;
    assert_ok(sl_folder_make(in_folder("out")));
    char kept[sizeof folder];
    memcpy(kept, folder, sizeof folder);
    snprintf(folder, sizeof folder, "%.40s/out", kept);
    make_small_trace();
    assert_ok(sl_report_write(folder));
    memcpy(folder, kept, sizeof folder);
    expect_in("report.txt", "makespan 0.0100 s: 7 tasks on 2 workers, 62.6 % busy");
    expect_in("report.txt", "critical path 0.0080 s, 80.0 % of the makespan, 4 tasks");
    expect_in("report.txt", "tasks under 20 us: 1 of 7");
    expect_in("report.txt", "overlap of sampling and gathering with earlier steps       0.2308");
    expect_in("report.txt", "hidden: row exchange with compute beside it                0.0000");
    expect_in("dag.dot", "t0 -> t2");
    expect_in("dag.dot", "t2 -> t3 [color=red"); /* through StarPU's own task */
    expect_in("timeline.svg", "<title>loss.fwd.loss.hop0.pe0.step0 1.000 ms</title>");
}

/* Names with characters that mean something in XML, HTML and Graphviz. */
static void foreign_names_are_escaped(void **state)
{
    (void)state;
    assert_ok(sl_folder_make(in_folder("out")));
    char kept[sizeof folder];
    memcpy(kept, folder, sizeof folder);
    snprintf(folder, sizeof folder, "%.40s/out", kept);
    trace_begin();
    task(1, "<b>&\"x\\", NULL, 0, 0, 0, 4);
    task(2, "<b>&\"x\\", "1", 0, 0, 4, 10);
    trace_end();
    assert_ok(sl_report_write(folder));
    memcpy(folder, kept, sizeof folder);
    expect_in("report.html", "&lt;b&gt;&amp;&quot;x");
    static const char *const pages[] = {"report.html", "timeline.svg"};
    for (int i = 0; i < 2; i++) {
        char *text = read_out(pages[i]);
        assert_null(strstr(text, "<b>&"));
        sl_free(text);
    }
    char *dag = read_out("dag.dot");
    assert_null(strstr(dag, "&\"x"));
    sl_free(dag);
}

static void a_failed_report_leaves_the_old_one(void **state)
{
    (void)state;
    assert_ok(sl_folder_make(in_folder("out")));
    put_text("out/report.txt", "old");
    put_text("out/tasks.rec", "JobId: x\n");
    assert_refused(sl_report_write(in_folder("out")), SL_EFILE, "line 1");
    expect_in("report.txt", "old");
    assert_refused(sl_report_write(in_folder("nowhere")), SL_EIO, "nowhere/tasks.rec");
}

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

int main(void)
{
#define CLEARED(test) cmocka_unit_test_teardown(test, clear_out)
    const struct CMUnitTest tests[] = {
        CLEARED(all_files_are_there),
        CLEARED(every_stage_pe_and_step_is_there),
        CLEARED(a_window_holds_its_steps_only),
        CLEARED(windows_outside_the_run_are_refused),
        CLEARED(report_agrees_with_the_metrics),
        CLEARED(nothing_is_traced_unasked),
        CLEARED(tracing_ends_with_its_run),
        CLEARED(a_report_is_made_of_files_alone),
        CLEARED(foreign_names_are_escaped),
        CLEARED(a_failed_report_leaves_the_old_one),
    };
    return cmocka_run_group_tests(tests, write_data, remove_folder);
}
