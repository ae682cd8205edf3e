/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What `make fuzz` runs for long, for a moment and without clang: each reader on its seeds, on seeds that were
 * changed here and there, and on what was found once (tests/fuzz/found/TARGET-*). */
#include "tests/support/data_fixture.h"

#include <glob.h>

#include "tests/fuzz/fuzz.h"

#define CHANGES 400        /* of each seed */
#define ROOM (1 << 16)     /* a seed's bytes, and those of what is made of it */
#define SECONDS_AT_MOST 60 /* for one input: no reader goes on for ever */

/* A copy that ends where the input ends. */
static void run_copy(const struct fuzz_target *target, const unsigned char *data, size_t n)
{
    unsigned char *copy = malloc(n > 0 ? n : 1);
    long live = sl_memory_live();
    assert_non_null(copy);
    memcpy(copy, data, n);
    alarm(SECONDS_AT_MOST);
    target->run(copy, n);
    alarm(0);
    free(copy);
    if (sl_memory_live() != live) {
        fail_msg("%s: %ld blocks have stayed", target->name, sl_memory_live() - live);
    }
}

/* All files that match, each as it is and changed. Returns how many. */
static size_t run_files(const struct fuzz_target *target, const char *pattern, int n_changes)
{
    static unsigned char changed[ROOM];
    glob_t found = {0};
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        OWNED(sl_free_it) char *data;
        size_t n;
        assert_ok(sl_file_read(found.gl_pathv[i], ROOM, &data, &n));
        run_copy(target, (const unsigned char *)data, n);
        for (int k = 0; k < n_changes; k++) {
            memcpy(changed, data, n);
            run_copy(target, changed, mutate(changed, n, ROOM));
        }
    }
    size_t n = found.gl_pathc;
    globfree(&found);
    return n;
}

TEST_IN_FOLDER(test_readers)
{
    char pattern[600];
    for (const struct fuzz_target *t = fuzz_targets; t->name != NULL; t++) {
        const char *seeds = in_folder(t->name);
        assert_ok(sl_folder_make(seeds));
        t->seed(seeds);
        snprintf(pattern, sizeof pattern, "%s/*", seeds);
        long accepted = fuzz_accepted;
        size_t n_seeds = run_files(t, pattern, 0);
        if (n_seeds == 0 || fuzz_accepted - accepted < (long)n_seeds / 2) {
            fail_msg("%s: of %zu seeds the reader took %ld", t->name, n_seeds, fuzz_accepted - accepted);
        }
        run_files(t, pattern, CHANGES);
        snprintf(pattern, sizeof pattern, "%s/tests/fuzz/found/%s-*", getenv("top_srcdir"), t->name);
        run_files(t, pattern, 20);
    }
}

TEST_MAIN(NULL, NULL)
