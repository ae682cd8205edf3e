/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the tests of readers and writers share: a folder of their own, files with given contents, a small dataset in the
 * raw layout, and the out-of-memory loop. To be included first. */
#ifndef SL_TESTS_DATA_FIXTURE_H
#define SL_TESTS_DATA_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "support/file.h"
#include "support/memory.h"
#include "support/status.h"
#include "tests/support/test.h"

/* Succeed, or show the message. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        enum sl_status status_of_call = (call);                                                                        \
        if (status_of_call != SL_OK) {                                                                                 \
            fail_msg("%s: %s: %s", #call, sl_status_name(status_of_call), sl_message());                               \
        }                                                                                                              \
    } while (0)

/* Fail with this status, and a message that has `words` in it. */
#define assert_refused(call, status, words)                                                                            \
    do {                                                                                                               \
        assert_int_equal((call), (status));                                                                            \
        if (strstr(sl_message(), (words)) == NULL) {                                                                   \
            fail_msg("expected '%s' in the message '%s'", (words), sl_message());                                      \
        }                                                                                                              \
    } while (0)

/* Run the call with ever more allocations allowed until it succeeds. Each failure must be SL_ENOMEM and leave no block
 * behind. */
#define assert_survives_no_memory(call)                                                                                \
    do {                                                                                                               \
        enum sl_status status_of_call = SL_ENOMEM;                                                                     \
        long live_before = sl_memory_live();                                                                           \
        long allowed = 0;                                                                                              \
        for (; status_of_call != SL_OK; allowed++) {                                                                   \
            sl_memory_ration(allowed);                                                                                 \
            status_of_call = (call);                                                                                   \
            sl_memory_ration(-1);                                                                                      \
            assert_true(status_of_call == SL_OK || status_of_call == SL_ENOMEM);                                       \
            assert_true(status_of_call == SL_OK || sl_memory_live() == live_before);                                   \
            assert_true(allowed < 10000);                                                                              \
        }                                                                                                              \
        assert_true(allowed > 1);                                                                                      \
    } while (0)

static char folder[64]; /* of the running test */

__attribute__((unused)) static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/starling-test-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

__attribute__((unused)) static int remove_folder(void **state)
{
    (void)state;
    int failed = nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
    return failed;
}

__attribute__((unused)) static int nothing_left(void **state)
{
    (void)state;
    return sl_memory_live() != 0;
}

#define TEST_IN_FOLDER(name) TEST_WITH(name, make_folder, remove_folder)

/* "FOLDER/name"; good for the next few calls. Fails in a test without a folder: the name would be in "/". */
__attribute__((unused)) static const char *in_folder(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    assert_true(folder[0] != '\0'); /* else it is not a TEST_IN_FOLDER */
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Write `bytes` bytes to a file, its folders too. Returns its path. */
__attribute__((unused)) static const char *put_bytes(const char *name, const void *data, size_t bytes)
{
    const char *path = in_folder(name);
    assert_ok(sl_folder_make_parents(path));
    remove(path); /* some file systems wait for the disk where a file is cut to nothing and written again */
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
    assert_int_equal(fclose(stream), 0);
    return path;
}

__attribute__((unused)) static const char *put_text(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

__attribute__((unused)) static const char *put_gzip(const char *name, const char *text)
{
    const char *path = in_folder(name);
    assert_ok(sl_folder_make_parents(path));
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

/* Two files of the test's folder hold the same bytes. */
__attribute__((unused)) static void expect_same_file(const char *a, const char *b)
{
    char *bytes[2];
    size_t n[2];
    assert_ok(sl_file_read(in_folder(a), SIZE_MAX - 1, &bytes[0], &n[0]));
    assert_ok(sl_file_read(in_folder(b), SIZE_MAX - 1, &bytes[1], &n[1]));
    assert_true(n[0] > 100);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    sl_free(bytes[0]);
    sl_free(bytes[1]);
}

/* A dataset of 6 vertices: a path 0-1-2-3, vertex 4 with a self loop, vertex 5 alone; 3 classes; 2 features. */
__attribute__((unused)) static void put_small_dataset(const char *name)
{
    char path[300];
    const char *files[][2] = {{"raw/num-node-list.csv.gz", "6\n"},
                              {"raw/num-edge-list.csv.gz", "4\n"},
                              {"raw/edge.csv.gz", "0,1\n1,2\n3,2\n4,4\n"},
                              {"raw/node-feat.csv.gz", "1,2\n0.5,-1\n3,4.25\n1e-3,7\n0,0\n-2,2\n"},
                              {"raw/node-label.csv.gz", "0\n1\n2.0\n0\nnan\n1\n"},
                              {"split/one/train.csv.gz", "3\n0\n"},
                              {"split/one/valid.csv.gz", "1\n"},
                              {"split/one/test.csv.gz", "2\n5\n"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", name, files[i][0]);
        put_gzip(path, files[i][1]);
    }
}

/* A number for the next mutation of a file: the same at every run. */
__attribute__((unused)) static uint32_t next_random(void)
{
    static uint64_t x = 0x9e3779b97f4a7c15u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 32);
}

/* Change a file's contents here and there: bytes replaced, a stretch doubled or dropped, the end cut off. Returns its
 * length, at most `room`. */
__attribute__((unused)) static size_t mutate(unsigned char *data, size_t bytes, size_t room)
{
    static const char telling[] = "0123456789,.-+eE\n\r \0nan\xff\x7f";
    for (uint32_t i = next_random() % 4 + 1; i > 0 && bytes > 0; i--) {
        size_t at = next_random() % bytes;
        size_t length = next_random() % 16 + 1;
        length = length < bytes - at ? length : bytes - at;
        switch (next_random() % 6) {
        case 0: data[at] = (unsigned char)next_random(); break;
        case 1: data[at] ^= (unsigned char)(1u << next_random() % 8); break;
        case 2:
            if (bytes + length <= room) {
                memmove(data + at + length, data + at, bytes - at);
                bytes += length;
            }
            break;
        case 3:
            memmove(data + at, data + at + length, bytes - at - length);
            bytes -= length;
            break;
        case 4: bytes = next_random() % 4 == 0 ? at : bytes; break;
        default: data[at] = (unsigned char)telling[next_random() % (sizeof telling - 1)]; break;
        }
    }
    return bytes;
}

#endif
