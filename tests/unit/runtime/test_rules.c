/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The rules of options (support/option.h): the guide has the same rules, and a checkpoint is held to them.
 */
#include "tests/support/data_fixture.h"

#include "data/arrays.h"
#include "runtime/files/checkpoint.h"
#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "runtime/train/session.h"

POINTER_OWNER(sl_dataset_delete, struct sl_dataset)
POINTER_OWNER(sl_session_close, struct sl_session)
POINTER_OWNER(sl_settings_delete, struct sl_settings)

static const char *const change_names[] = {"fixed", "same data", "longer", "free"};
static const char *const spread_names[] = {"equal", "all or none", "own"};

/* The settings of coop_sage (0) or pipe_gnn (1). */
static struct sl_settings *settings_for(int program)
{
    struct sl_settings *settings;
    assert_ok(program == 0 ? sl_settings_new(&settings) : sl_settings_new_pipe(&settings));
    return settings;
}

/* The text of a file in the source tree. */
static char *source_file(const char *name)
{
    char path[4096];
    char *text;
    size_t n;
    const char *root = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", name);
    assert_ok(sl_file_read(path, SIZE_MAX - 1, &text, &n));
    return text;
}

/* Properties that hold together. */
TEST(the_rules_agree_with_each_other)
{
    for (int program = 0; program < 2; program++) {
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_for(program);
        const struct sl_option_table *table = sl_settings_table_of(settings);
        assert_true(table->n_options > 30);
        for (size_t i = 0; i < table->n_options; i++) {
            const struct sl_option *o = &table->options[i];
            bool same;
            assert_ptr_equal(sl_option_find(table, o->name), o); /* no name twice */
            assert_ok(sl_option_is_default(o, settings, &same));
            assert_true(same);
            assert_true(!o->written || (o->kind == SL_OPTION_STRING && o->change == SL_CHANGE_FREELY));
            assert_true(o->spread != SL_SPREAD_PATH || o->kind == SL_OPTION_STRING);
            assert_true(!o->of_model || o->of_data || (o->change == SL_CHANGE_NEVER && o->spread == SL_SPREAD_EQUAL));
            assert_true(!o->leads || o->change == SL_CHANGE_NEVER);
        }
        assert_ptr_equal(sl_option_in_order(table, table->n_options), NULL);
    }
}

/* Each option is in the order of comparison once, and an option that leads is not behind others. */
TEST(leaders_come_first)
{
    const struct sl_option_table *table = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    bool seen[256] = {false};
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = sl_option_in_order(table, i);
        assert_false(seen[option - table->options]);
        seen[option - table->options] = true;
        assert_true(i == 0 || !option->leads || sl_option_in_order(table, i - 1)->leads);
    }
    assert_true(sl_option_in_order(table, 0)->leads);
}

TEST(the_guide_has_the_same_rules)
{
    OWNED(sl_free_it) char *text = source_file("doc/guide/resume.md");
    for (int program = 0; program < 2; program++) {
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_for(program);
        const struct sl_option_table *table = sl_settings_table_of(settings);
        for (size_t i = 0; i < table->n_options; i++) {
            const struct sl_option *rule = &table->options[i];
            char row[128];
            snprintf(row, sizeof row, "\n| `--%s` | %s | %s | ", rule->name, change_names[rule->change],
                     spread_names[rule->spread]);
            if (strstr(text, row) == NULL) {
                fail_msg("doc/guide/resume.md: expected the row '%s'", row + 1);
            }
        }
    }
}

/* ---- a checkpoint ---- */

#define N 40
#define DEGREE 3
#define F 4

static uint32_t sources[N * DEGREE], destinations[N * DEGREE], ids[N];
static int32_t labels[N];
static float features[N * F];

static struct sl_dataset *make_arrays(void)
{
    struct sl_arrays arrays = {.size = sizeof arrays,
                               .n_vertices = N,
                               .n_edges = N * DEGREE,
                               .sources = sources,
                               .destinations = destinations,
                               .n_features = F,
                               .features = features,
                               .labels = labels,
                               .n_train = N / 2,
                               .n_valid = N / 4,
                               .n_test = N / 4,
                               .train = ids,
                               .valid = ids + N / 2,
                               .test = ids + N / 2 + N / 4};
    struct sl_dataset *dataset;
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v;
        labels[v] = (int32_t)(v % 2);
        for (uint32_t c = 0; c < F; c++) {
            features[v * F + c] = (float)((v * F + c) % 7) + 1;
        }
        for (uint32_t k = 0; k < DEGREE; k++) {
            sources[v * DEGREE + k] = (v + 1 + k * k) % N;
            destinations[v * DEGREE + k] = v;
        }
    }
    assert_ok(sl_dataset_new(&arrays, &dataset));
    return dataset;
}

static void set(struct sl_settings *settings, const char *name, const char *value)
{
    assert_ok(sl_settings_set(settings, name, strcmp(value, "yes") == 0 ? NULL : value));
}

/* The settings of the run whose checkpoint is in `kept`. */
static struct sl_settings *first_settings(int program)
{
    static const char *const common[][2] = {{"layers", "2"},  {"hidden", "8"}, {"epochs", "1"},
                                            {"quiet", "yes"}, {"cpus", "2"},   {"chunks", "2"}};
    struct sl_settings *settings = settings_for(program);
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        set(settings, common[i][0], common[i][1]);
    }
    if (program == 0) {
        set(settings, "pes", "2");
        set(settings, "batch-size", "5");
        set(settings, "fanout", "3,3");
    }
    set(settings, "checkpoint", in_folder("kept"));
    return settings;
}

static void keep_checkpoint(int program)
{
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = make_arrays();
    OWNED(sl_settings_delete_it) struct sl_settings *settings = first_settings(program);
    OWNED(sl_session_close_it) struct sl_session *session;
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
}

/* Try another value of an option, as a line of tests/rules.list gives it. */
static void try_option(int program, const struct sl_tensors *checkpoint, const char *name, const char *value,
                       const char *with)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings = first_settings(program);
    enum sl_option_change change = sl_option_find(sl_settings_table_of(settings), name)->change;
    char expected[80];
    snprintf(expected, sizeof expected, "--%s: found ", name);
    set(settings, name, value);
    enum sl_status st = sl_state_match(settings, checkpoint);
    bool named = strncmp(sl_message(), expected, strlen(expected)) == 0;
    if (change == SL_CHANGE_NEVER && (st != SL_EINVAL || !named)) {
        fail_msg("--%s %s: expected a refusal of it, found %s: %s", name, value, sl_status_name(st), sl_message());
    }
    /* Free values may contradict others (--trace-steps without --trace); that is another message. */
    if (change != SL_CHANGE_NEVER && strcmp(with, "-") == 0 && st != SL_OK) {
        fail_msg("--%s %s: expected to resume, found: %s", name, value, sl_message());
    }
    assert_false(change != SL_CHANGE_NEVER && st != SL_OK && strstr(sl_message(), "began with") != NULL);
}

TEST_IN_FOLDER(checkpoints_are_held_to_the_rules)
{
    for (int program = 0; program < 2; program++) {
        OWNED(sl_settings_delete_it) struct sl_settings *settings = settings_for(program);
        const struct sl_option_table *table = sl_settings_table_of(settings);
        OWNED(sl_tensors_free) struct sl_tensors checkpoint;
        OWNED(sl_free_it) char *text = source_file("tests/rules.list");
        char *rest = text;
        char *line;
        size_t n = 0;
        keep_checkpoint(program);
        assert_ok(sl_checkpoint_load(in_folder("kept"), &checkpoint));
        while ((line = strsep(&rest, "\n")) != NULL) {
            char name[64];
            char value[64];
            char with[64];
            if (sscanf(line, "%63s %63s %63s", name, value, with) == 3 && sl_option_find(table, name) != NULL) {
                try_option(program, &checkpoint, name, value, with);
                n++;
            }
        }
        assert_int_equal(n, table->n_options); /* tests/rules.list has them all */
    }
}

TEST_MAIN(NULL, NULL)
