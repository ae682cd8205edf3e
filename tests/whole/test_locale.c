/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A program whose locale writes 0,5 for a half: options, files and what is read back of them are as in any other.
 * StarPU's performance models too, which StarPU reads and writes. */
#include "tests/support/whole_fixture.h"

#include <locale.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tasks/perfmodel.h"

#define OPTIONS "cache=none layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 cpus=1 lr=0.0125 dropout=0.25 "

extern char **environ;

/* The C library does not free its copy of $LOCPATH. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:argz_add_sep\n";
}

/* Make the locale in the test's folder, and use it; false where the system has no sources of locales. */
static bool use_commas(void)
{
    char *const words[] = {(char *)(uintptr_t) "localedef",
                           (char *)(uintptr_t) "-i",
                           (char *)(uintptr_t) "de_DE",
                           (char *)(uintptr_t) "-f",
                           (char *)(uintptr_t) "UTF-8",
                           (char *)(uintptr_t)in_folder("de_DE.UTF-8"),
                           NULL};
    pid_t child;
    int status;
    char text[16];
    if (posix_spawnp(&child, words[0], NULL, NULL, words, environ) != 0 || waitpid(child, &status, 0) != child) {
        return false;
    }
    setenv("LOCPATH", folder, 1);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
        return false;
    }
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

TEST_IN_FOLDER(test_commas)
{
    struct whole points = {.options = OPTIONS "epochs=3 save=%points predict=%points.npy"};
    struct whole first = {.options = OPTIONS "epochs=1 checkpoint=%kept"};
    struct whole then = {.options = OPTIONS
                         "epochs=3 checkpoint=%kept resume=yes save=%commas predict=%commas.npy metrics=%x.jsonl"};
    put_whole_dataset();
    assert_ok(run_whole(&points));
    if (!use_commas()) {
        skip();
    }
    assert_ok(run_whole(&first));
    put_whole_dataset();
    assert_ok(run_whole(&then));
    setlocale(LC_ALL, "C");
    expect_same_file("points", "commas");
    expect_same_file("points.npy", "commas.npy");
    assert_true(points.scores.valid_loss == then.scores.valid_loss);
}

/* ---- StarPU's models ---- */

#define MODEL_RUN OPTIONS "epochs=1 sched="

static struct starpu_perfmodel loss_model = {.symbol = "sl_loss", .type = STARPU_HISTORY_BASED};

/* Where StarPU keeps the model: it says so when up. */
static void find_model(char *out, size_t bytes)
{
    struct starpu_conf conf;
    assert_int_equal(starpu_conf_init(&conf), 0);
    conf.ncpus = 1;
    assert_int_equal(starpu_init(&conf), 0);
    starpu_perfmodel_get_model_path(loss_model.symbol, out, bytes);
    starpu_shutdown();
    assert_int_not_equal(out[0], '\0');
}

/* Comments have commas, numbers do not. */
static void expect_points(const char *path)
{
    OWNED(sl_free_it) char *text;
    char *rest;
    size_t n;
    bool found = false;
    assert_ok(sl_file_read(path, (size_t)1 << 20, &text, &n));
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        found = found || (line[0] != '#' && strchr(line, '.') != NULL);
        assert_true(line[0] == '#' || strchr(line, ',') == NULL);
    }
    assert_true(found);
}

TEST_IN_FOLDER(test_models)
{
    struct whole weighs = {.options = MODEL_RUN "dmda"};
    struct whole near = {.options = MODEL_RUN "near"};
    char path[4096];
    put_whole_dataset();
    if (!use_commas()) {
        skip();
    }
    assert_ok(run_whole(&weighs));
    assert_ok(run_whole(&weighs)); /* reads them */
    find_model(path, sizeof path);
    expect_points(path);
    setlocale(LC_ALL, "C");
    assert_ok(run_whole(&weighs));
    assert_non_null(setlocale(LC_ALL, "de_DE.UTF-8"));
    assert_ok(run_whole(&near));
    setlocale(LC_ALL, "C");
    expect_points(path);
}

static unsigned n_notices;
static char notice[SL_MESSAGE_BYTES];

static void take_notice(enum sl_notice kind, const char *line)
{
    assert_int_equal(kind, SL_NOTICE_WARNING);
    snprintf(notice, sizeof notice, "%s", line);
    n_notices++;
}

/* Put `change` into the model's file: StarPU aborts at it. The run removes it, says so once, and writes another. */
static void expect_mended(const char *path, void (*change)(char *text))
{
    struct whole weighs = {.options = MODEL_RUN "dmda"};
    char *text;
    size_t n;
    FILE *file;
    assert_ok(sl_file_read(path, (size_t)1 << 20, &text, &n));
    change(text);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    sl_free(text);
    assert_ok(run_whole(&weighs));
    expect_points(path);
}

static void put_commas(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '.' ? ',' : *c;
    }
}

static void cut_in_half(char *text)
{
    text[strlen(text) / 2] = '\0';
}

static void cut_all(char *text)
{
    text[0] = '\0';
}

TEST_IN_FOLDER(test_broken_models)
{
    struct whole weighs = {.options = MODEL_RUN "dmda"};
    char path[4096];
    put_whole_dataset();
    assert_ok(run_whole(&weighs));
    find_model(path, sizeof path);
    sl_on_notice(take_notice);
    expect_mended(path, put_commas);
    assert_int_equal(n_notices, 1);
    assert_non_null(strstr(notice, path));
    expect_mended(path, cut_in_half);
    expect_mended(path, cut_all);
    assert_int_equal(n_notices, 1);
    assert_ok(run_whole(&weighs)); /* a good one stays */
    sl_on_notice(NULL);
}

/* ---- the program's own locale ---- */

static int see_commas(void *context, const struct sl_epoch_news *news)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    *(bool *)context = strcmp(text, "0,5") == 0;
    return news->epoch == 0;
}

/* The program's callbacks, and what follows a call, have the program's locale, of the process or of the thread. */
static void expect_own_locale(void)
{
    struct sl_settings *settings;
    struct sl_session *session;
    bool commas = false;
    char text[16];
    struct sl_report report = {.size = sizeof report, .epoch = see_commas, .context = &commas};
    assert_ok(sl_settings_new(&settings));
    assert_ok(set_words(settings, OPTIONS "epochs=1"));
    assert_ok(sl_session_open(settings, NULL, &session));
    assert_ok(sl_session_train(session, &report));
    assert_true(commas);
    sl_session_close(session);
    sl_settings_delete(settings);
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
}

TEST_IN_FOLDER(test_own_locale)
{
    put_whole_dataset();
    if (!use_commas()) {
        skip();
    }
    expect_own_locale();
    locale_t commas = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    setlocale(LC_ALL, "C");
    locale_t before = uselocale(commas);
    expect_own_locale();
    assert_true(uselocale(before) == commas);
    freelocale(commas);
}

int main(void)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return run_listed_tests(NULL, NULL);
}
