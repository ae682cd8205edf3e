/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A program whose locale writes 0,5 for a half: options, files and what is read back of them are as in any other. */
#include "tests/whole_fixture.h"

#include <locale.h>
#include <spawn.h>
#include <sys/wait.h>

#define OPTIONS "cache=none layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 cpus=1 lr=0.0125 dropout=0.25 "

extern char **environ;

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

static void expect_same_files(const char *a, const char *b)
{
    char *text[2];
    size_t n[2];
    assert_ok(sl_file_read(in_folder(a), (size_t)1 << 20, &text[0], &n[0]));
    assert_ok(sl_file_read(in_folder(b), (size_t)1 << 20, &text[1], &n[1]));
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    sl_free(text[0]);
    sl_free(text[1]);
}

static void test_commas(void **state)
{
    (void)state;
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
    expect_same_files("points", "commas");
    expect_same_files("points.npy", "commas.npy");
    assert_true(points.scores.valid_loss == then.scores.valid_loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_folder(test_commas)};
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
