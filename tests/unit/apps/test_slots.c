/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The pipeline as StarPU sees it: which slot of time each stage and chunk of GNNPipe's schedule gets from the
 * dependencies in a trace, if a stage works on one chunk at a time. By hand: chunk k is at stage s in slot s + k,
 * and on the way back from the end likewise.
 */
#include "tests/support/trace_fixture.h"

#include "apps/report/report.h"
#include "data/load.h"
#include "data/raw.h"
#include "runtime/starling.h"
#include "tests/support/run_fixture.h"

/* FxT loses ten kilobytes each time StarPU is started after the first. The leak checker asks for this by name. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfxt\n";
}

#define S 3
#define K 5
#define NO_UNIT UINT32_MAX

static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 600, .n_columns = 12, .n_classes = 4, .seed = 8};

/* One epoch of a layer a stage, its chunks in their order. */
static void trace_epoch(void)
{
    static const char *const options[][2] = {
        {"dataset", "made"}, {"cache", "none"},        {"model", "gcn"},     {"layers", "3"}, {"hidden", "16"},
        {"stages", "3"},     {"chunks", "5"},          {"cpus", "2"},        {"epochs", "1"}, {"guard", "off"},
        {"eval-every", "0"}, {"chunk-order", "fixed"}, {"stages-cut", "1,2"}};
    struct sl_settings *s;
    struct sl_session *session;
    assert_ok(sl_settings_new_pipe(&s));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        assert_ok(sl_settings_set(s, options[i][0], options[i][1]));
    }
    assert_ok(sl_settings_set(s, "data-path", in_folder("data")));
    assert_ok(sl_settings_set(s, "trace", in_folder("out")));
    enum sl_status st = sl_session_open(s, NULL, &session);
    if (st == SL_ENOTSUP) {
        assert_non_null(strstr(sl_message(), "FxT"));
        sl_settings_delete(s);
        skip();
    }
    assert_ok(st);
    assert_ok(sl_session_train(session, NULL));
    sl_session_close(session);
    assert_ok(sl_report_finish(in_folder("out")));
    sl_settings_delete(s);
}

/* ---- units: what a stage does for a chunk ---- */

/* The how manieth task of its name this is: its chunk, on the way back counted from the last. */
static uint32_t occurrence(const struct sl_trace_data *data, size_t t)
{
    uint32_t n = 0;
    for (size_t i = 0; i < t; i++) {
        const struct sl_trace_task *a = &data->task[i];
        const struct sl_trace_task *b = &data->task[t];
        n += a->n_name == b->n_name && memcmp(a->name, b->name, a->n_name) == 0;
    }
    return n;
}

/* Stage and chunk of a task of the way there (back = false) or back, or NO_UNIT. */
static uint32_t unit_of(const struct sl_trace_data *data, size_t t, bool back)
{
    const struct sl_trace_task *task = &data->task[t];
    bool there = task->stage == SL_STAGE_AGGREGATE || task->stage == SL_STAGE_DENSE;
    if (!task->ran || !task->ours || !(back ? task->stage == SL_STAGE_BACKWARD : there)) {
        return NO_UNIT;
    }
    uint32_t stage = S - 1 - task->hop;
    uint32_t chunk = occurrence(data, t);
    assert_int_equal(task->pe, stage); /* one way: PEs are the stages */
    assert_true(chunk < K);
    return stage * K + (back ? K - 1 - chunk : chunk);
}

static void at_least(uint32_t *slot, uint32_t least, bool *changed)
{
    if (*slot < least) {
        *slot = least;
        *changed = true;
    }
}

/* The earliest slot of each unit: after all that its tasks depend on, and after the chunk before it at the same
 * stage. */
static void find_slots(const struct sl_trace_data *data, bool back, uint32_t slot[S * K])
{
    uint32_t *unit = need(data->n_tasks, sizeof *unit);
    uint32_t *ready = need(data->n_tasks, sizeof *ready); /* slots that are over before a task */
    bool changed = true;
    for (size_t t = 0; t < data->n_tasks; t++) {
        unit[t] = unit_of(data, t, back);
        ready[t] = 0;
    }
    memset(slot, 0, S * K * sizeof *slot);
    while (changed) {
        changed = false;
        for (size_t t = 0; t < data->n_tasks; t++) {
            const struct sl_trace_task *task = &data->task[t];
            for (size_t d = task->first_dep; d < task->first_dep + task->n_deps; d++) {
                uint32_t other = unit[data->dep[d]];
                bool outside = other != NO_UNIT && other != unit[t];
                at_least(&ready[t], outside ? slot[other] + 1 : ready[data->dep[d]], &changed);
            }
            if (unit[t] != NO_UNIT) {
                at_least(&slot[unit[t]], ready[t], &changed);
            }
        }
        for (uint32_t u = 0; u < S * K; u++) {
            if (back ? u % K + 1 < K : u % K > 0) {
                at_least(&slot[u], slot[back ? u + 1 : u - 1] + 1, &changed);
            }
        }
    }
    free(unit);
    free(ready);
}

static void expect_slots(const struct sl_trace_data *data, bool back, const uint32_t wanted[S][K])
{
    uint32_t slot[S * K];
    find_slots(data, back, slot);
    for (uint32_t s = 0; s < S; s++) {
        for (uint32_t k = 0; k < K; k++) {
            if (slot[s * K + k] != wanted[s][k]) {
                fail_msg("%s: stage %u has chunk %u in slot %u, expected %u", back ? "back" : "there", s, k,
                         slot[s * K + k], wanted[s][k]);
            }
        }
    }
}

static void test_slots(void **state)
{
    static const uint32_t there[S][K] = {{0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}};
    static const uint32_t back[S][K] = {{6, 5, 4, 3, 2}, {5, 4, 3, 2, 1}, {4, 3, 2, 1, 0}};
    struct sl_dataset dataset;
    struct sl_trace_data data;
    char *path;
    (void)state;
    fixture_environment();
    make_dataset(&shape, &dataset);
    assert_ok(sl_path_join(folder, "data/made", &path));
    assert_ok(sl_raw_write_dataset(&dataset, false, path));
    sl_free(path);
    sl_dataset_free(&dataset);
    trace_epoch();
    assert_ok(sl_trace_read(in_folder("out"), &data));
    expect_slots(&data, false, there);
    expect_slots(&data, true, back);
    sl_trace_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
