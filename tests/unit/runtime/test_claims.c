/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The outputs of a run, before the run: what is free and what is not, and that a check leaves no trace.
 * tests/cli/test_outputs.sh has whole runs. */
#include "tests/support/data_fixture.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/starling.h"
#include "runtime/train/claims.h"

static enum sl_status take(const char *option, const char *name, const char *second, const char *name2,
                           struct sl_claims *out)
{
    struct sl_settings *settings;
    assert_ok(sl_settings_new(&settings));
    assert_ok(sl_settings_set(settings, option, in_folder(name)));
    if (second != NULL) {
        assert_ok(sl_settings_set(settings, second, in_folder(name2)));
    }
    enum sl_status st = sl_claims_take(settings, out);
    sl_settings_delete(settings);
    return st;
}

static void expect_empty_folder(void)
{
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
}

static const char *const options[] = {"metrics", "save", "predict", "embed"};
#define N_OPTIONS (sizeof options / sizeof *options)

TEST_IN_FOLDER(test_checks_leave_nothing)
{
    struct sl_claims claims;
    char name[300];
    memset(name, 'x', sizeof name);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        name[255] = '\0';
        assert_ok(take(options[i], name, NULL, NULL, &claims));
        sl_claims_release(&claims);
        name[255] = 'x';
        name[256] = '\0';
        assert_int_equal(take(options[i], name, NULL, NULL, &claims), SL_EIO);
        assert_non_null(strstr(sl_message(), "too long"));
        assert_int_equal(take(options[i], "nowhere/file", NULL, NULL, &claims), SL_EIO);
        assert_int_equal(take(options[i], ".", NULL, NULL, &claims), SL_EIO);
    }
    expect_empty_folder();
    put_text("old", "as it was\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        OWNED(sl_free_it) char *text;
        size_t n;
        assert_ok(take(options[i], "old", NULL, NULL, &claims));
        sl_claims_release(&claims);
        assert_ok(sl_file_read(in_folder("old"), 100, &text, &n));
        assert_string_equal(text, "as it was\n");
    }
}

TEST_IN_FOLDER(test_one_file_twice)
{
    OWNED(sl_claims_release) struct sl_claims claims;
    assert_int_equal(take("save", "a", "predict", "./a", &claims), SL_EINVAL);
    assert_non_null(strstr(sl_message(), "which --"));
    assert_int_equal(symlink(in_folder("a"), in_folder("link")), 0);
    put_text("a", "");
    assert_int_equal(take("metrics", "a", "embed", "link", &claims), SL_EINVAL);
    put_text("kept/some", "");
    assert_int_equal(take("checkpoint", "kept", "save", "kept/checkpoint.safetensors", &claims), SL_EINVAL);
    assert_ok(take("checkpoint", "kept", "save", "kept/model.safetensors", &claims));
}

/* No output may replace the model that the run loads, under any name. --save, and the file of --checkpoint, may. */
TEST_IN_FOLDER(test_the_loaded_model_stays)
{
    struct sl_claims claims;
    put_text("m", "a model");
    assert_int_equal(symlink(in_folder("m"), in_folder("link")), 0);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        enum sl_status expected = strcmp(options[i], "save") == 0 ? SL_OK : SL_EINVAL;
        assert_int_equal(take(options[i], "m", "load", "./m", &claims), expected);
        sl_claims_release(&claims);
        assert_int_equal(take(options[i], "link", "load", "m", &claims), expected);
        sl_claims_release(&claims);
    }
    put_text("kept/checkpoint.safetensors", "a model");
    assert_ok(take("checkpoint", "kept", "load", "kept/checkpoint.safetensors", &claims));
    sl_claims_release(&claims);
}

/* Another process claims the file, says so through the pipe, and lives until it is killed. */
static pid_t claim_elsewhere(const char *option, const char *name)
{
    int ready[2];
    char done = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sl_claims claims;
        done = take(option, name, NULL, NULL, &claims) == SL_OK && claims.open;
        if (write(ready[1], &done, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(ready[0], &done, 1), 1);
    close(ready[0]);
    close(ready[1]);
    if (!done) { /* the system has no place for claims */
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        skip();
    }
    return child;
}

TEST_IN_FOLDER(test_another_process)
{
    struct sl_claims claims;
    char number[40];
    pid_t child = claim_elsewhere("metrics", "m.jsonl");
    snprintf(number, sizeof number, "found process %ld ", (long)child);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        assert_int_equal(take(options[i], "./m.jsonl", NULL, NULL, &claims), SL_EINVAL);
        assert_non_null(strstr(sl_message(), number));
        assert_false(claims.open);
        assert_ok(take(options[i], "another", NULL, NULL, &claims));
        sl_claims_release(&claims);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(take("save", "m.jsonl", NULL, NULL, &claims));
    sl_claims_release(&claims);
    expect_empty_folder();
}

TEST_IN_FOLDER(test_room)
{
    struct statvfs disk;
    assert_int_equal(statvfs(folder, &disk), 0);
    uint64_t most = (uint64_t)disk.f_bfree * disk.f_frsize / 10 * 6;
    char a[600];
    char b[600];
    snprintf(a, sizeof a, "%s", in_folder("a"));
    snprintf(b, sizeof b, "%s", in_folder("b"));
    const struct sl_claims_file files[] = {{"save", a, most}, {"embed", NULL, UINT64_MAX}, {"predict", b, most}};
    const struct sl_claims_file device[] = {{"save", "/dev/null", UINT64_MAX}};
    assert_ok(sl_claims_check_room(files, 2));
    assert_int_equal(sl_claims_check_room(files, 3), SL_EIO);
    assert_non_null(strstr(sl_message(), "--predict"));
    assert_ok(sl_claims_check_room(device, 1));
    expect_empty_folder();
}

TEST_MAIN(NULL, NULL)
