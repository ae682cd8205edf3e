/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What goes on for long takes no more of the process than what is short: sessions opened and closed one after the
 * other, and epochs. SL_LONG=1: a thousand and two thousand of them. */
#include "tests/support/whole_fixture.h"

#include <dirent.h>
#include <malloc.h>

#define OPTIONS "cache=none layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 cpus=1 "

static long pages_held(void)
{
    long all = 0;
    long held = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &held), 2);
    fclose(file);
    return held;
}

/* Bytes that malloc has given and not got back, of the one arena that main leaves to it. */
static size_t bytes_allocated(void)
{
    struct mallinfo2 of = mallinfo2();
    return of.uordblks + of.hblkhd;
}

static int files_open(void)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all) != NULL) {
        n++;
    }
    closedir(all);
    return n;
}

struct memory {
    size_t bytes; /* allocated */
    long pages;   /* of the process */
};

/* After the tenth epoch, the hundredth, and the last. */
struct held {
    struct memory tenth, hundredth, last;
};

static int look_at_memory(void *context, const struct sl_epoch_news *news)
{
    struct held *held = context;
    held->last = (struct memory){.bytes = bytes_allocated(), .pages = pages_held()};
    held->tenth = news->epoch <= 10 ? held->last : held->tenth;
    held->hundredth = news->epoch <= 100 ? held->last : held->hundredth;
    return 0;
}

TEST_IN_FOLDER(test_sessions)
{
    struct whole sage = {.options = OPTIONS "epochs=1"};
    struct whole pipe = {.pipe = true, .options = "cache=none layers=2 hidden=4 chunks=4 ways=2 epochs=1 cpus=2"};
    long rounds = getenv("SL_LONG") != NULL ? 500 : 25;
    long live = sl_memory_live();
    long pages = 0;
    int n_files = 0;
    put_whole_dataset();
    for (long i = 0; i < rounds; i++) {
        if (i == 10) {
            pages = pages_held();
            n_files = files_open();
        }
        assert_ok(run_whole(&sage));
        assert_ok(run_whole(&pipe));
        assert_int_equal(sl_memory_live(), live);
    }
    print_message("%ld sessions: %ld pages after 20, %ld at the end\n", 2 * rounds, pages, pages_held());
    assert_int_equal(files_open(), n_files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(pages_held() < pages + pages / (getenv("SL_LONG") != NULL ? 20 : 5));
#endif
}

/* What is allocated after the last epoch is what was after the tenth, but for one in a hundred. Of the pages that
 * it lies in one or two in a hundred are new, most of them before the hundredth: now and then a batch's frontiers
 * are the largest so far, ever more seldom, and touch a page more of their buffers. */
static void train_for_long(const char *options, const char *epochs)
{
    struct sl_settings *settings;
    struct sl_session *session;
    struct held held = {0};
    long live = sl_memory_live();
    assert_ok(sl_settings_new(&settings));
    assert_ok(set_words(settings, options));
    assert_ok(sl_settings_set(settings, "epochs", epochs));
    assert_ok(sl_session_open(settings, NULL, &session));
    assert_ok(sl_session_train(
        session, &(struct sl_report){.size = sizeof(struct sl_report), .context = &held, .epoch = look_at_memory}));
    assert_int_equal(starpu_task_nsubmitted(), 0);
    sl_session_close(session);
    sl_settings_delete(settings);
    assert_int_equal(sl_memory_live(), live);
    print_message("%s epochs: %zu bytes in %ld pages after 10, %zu in %ld after 100, %zu in %ld after the last\n",
                  epochs, held.tenth.bytes, held.tenth.pages, held.hundredth.bytes, held.hundredth.pages,
                  held.last.bytes, held.last.pages);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    bool is_long = getenv("SL_LONG") != NULL;
    assert_true(held.last.bytes <= held.tenth.bytes + held.tenth.bytes / 100);
    assert_true(held.last.pages <=
                held.tenth.pages + held.tenth.pages / (is_long ? 50 : 20)); /* huge pages, in a short run */
    assert_true(!is_long || held.last.pages <= held.hundredth.pages + held.hundredth.pages / 100);
#endif
}

TEST_IN_FOLDER(test_epochs)
{
    put_whole_dataset();
    train_for_long(OPTIONS "eval-every=1", getenv("SL_LONG") != NULL ? "2000" : "60");
}

static bool has_cora(void)
{
    const struct sl_dataset_options options = {
        .dataset = "cora", .data_path = getenv("STARLING_DATA"), .cache = "none"};
    struct sl_dataset dataset = {0};
    enum sl_status st = sl_dataset_load(&options, &dataset);
    sl_dataset_free(&dataset);
    return st == SL_OK;
}

/* The same of a real graph; it takes half a minute. */
TEST_IN_FOLDER(test_cora)
{
    if (getenv("SL_LONG") == NULL || !has_cora()) {
        skip();
    }
    train_for_long("dataset=cora cache=none layers=2 hidden=16 fanout=10,10 batch-size=64 cpus=2", "2000");
}

int main(void)
{
    mallopt(M_ARENA_MAX, 1);
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return run_listed_tests(NULL, NULL);
}
