/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/file.h: whole files, atomic writing, folders, paths, checksums. */
#include "tests/support/data_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static void assert_contents(const char *path, const char *expected)
{
    OWNED(sl_free_it) char *text;
    size_t bytes;
    assert_ok(sl_file_read(path, 1 << 20, &text, &bytes));
    assert_int_equal(bytes, strlen(expected));
    assert_string_equal(text, expected);
}

static int count_files(void)
{
    char command[128];
    int n = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

static void write_text(const char *path, const char *text)
{
    struct sl_writer writer;
    assert_ok(sl_writer_open(path, &writer));
    assert_ok(sl_writer_put(&writer, text, strlen(text)));
    assert_ok(sl_writer_close(&writer));
}

TEST_IN_FOLDER(reads_and_bounds)
{
    OWNED(sl_free_it) char *text;
    size_t bytes;
    const char *path = put_text("a", "hello");
    assert_contents(path, "hello");
    assert_contents(put_text("empty", ""), "");
    assert_ok(sl_file_read(path, 5, &text, &bytes));
    sl_free(text);
    assert_refused(sl_file_read(path, 4, &text, &bytes), SL_EFILE, "longer than the 4 bytes");
    assert_refused(sl_file_read(in_folder("none"), 9, &text, &bytes), SL_EIO, "none: cannot open");
    assert_int_equal(sl_file_read(folder, 9, &text, &bytes), SL_EIO); /* a folder */
    assert_survives_no_memory(sl_file_read(path, 9, &text, &bytes));
}

/* Longer than the first block, and not a multiple of it. */
TEST_IN_FOLDER(reads_long_files)
{
    size_t n = 300001;
    FREED char *text = malloc(n);
    OWNED(sl_free_it) char *read;
    size_t bytes;
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + i % 23);
    }
    const char *path = put_bytes("long", text, n);
    assert_ok(sl_file_read(path, n, &read, &bytes));
    assert_int_equal(bytes, n);
    assert_memory_equal(read, text, n);
}

TEST_IN_FOLDER(maps_regular_files_only)
{
    struct sl_map map;
    assert_ok(sl_file_map(put_text("a", "hello"), &map));
    assert_int_equal(map.bytes, 5);
    assert_memory_equal(map.data, "hello", 5);
    sl_file_unmap(&map);
    sl_file_unmap(&map);
    assert_ok(sl_file_map(put_text("empty", ""), &map));
    assert_int_equal(map.bytes, 0);
    sl_file_unmap(&map);
    assert_refused(sl_file_map(folder, &map), SL_EIO, "regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_refused(sl_file_map(in_folder("pipe"), &map), SL_EIO, "regular file"); /* and does not wait for a writer */
    assert_refused(sl_file_map(in_folder("none"), &map), SL_EIO, "cannot open");
}

TEST_IN_FOLDER(replaces_atomically)
{
    struct sl_writer writer;
    const char *path = put_text("target", "old");
    assert_int_equal(chmod(path, 0640), 0);
    assert_ok(sl_writer_open(path, &writer));
    assert_ok(sl_writer_put(&writer, "new", 3));
    assert_ok(sl_writer_sync(&writer));
    assert_contents(path, "old");
    assert_int_equal(count_files(), 2); /* the temporary is in the same folder */
    assert_ok(sl_writer_close(&writer));
    assert_contents(path, "new");
    assert_int_equal(count_files(), 1);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
}

TEST_IN_FOLDER(gives_up_without_trace)
{
    struct sl_writer writer;
    const char *path = put_text("target", "old");
    assert_ok(sl_writer_open(path, &writer));
    assert_ok(sl_writer_put(&writer, "new", 3));
    sl_writer_abort(&writer);
    sl_writer_abort(&writer);
    assert_contents(path, "old");
    assert_int_equal(count_files(), 1);
    assert_refused(sl_writer_open(in_folder("no/such"), &writer), SL_EIO, "such: cannot make a file");
    assert_survives_no_memory(sl_writer_open(path, &writer));
    sl_writer_abort(&writer);
    assert_int_equal(count_files(), 1);
}

TEST_IN_FOLDER(follows_links)
{
    put_text("target", "old");
    assert_int_equal(symlink("target", in_folder("link")), 0);
    write_text(in_folder("link"), "new");
    assert_contents(in_folder("target"), "new");
    struct stat info;
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

static void *read_pipe(void *argument)
{
    char *text = NULL;
    size_t bytes = 0;
    return sl_file_read(argument, 100, &text, &bytes) == SL_OK ? text : NULL;
}

/* A target that is no regular file is written in place: the pipe stays a pipe, and its reader gets the text. */
TEST_IN_FOLDER(writes_pipes_in_place)
{
    pthread_t reader;
    OWNED(sl_free_it) void *text;
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, path), 0);
    write_text(path, "through");
    assert_int_equal(pthread_join(reader, &text), 0);
    assert_non_null(text);
    assert_string_equal(text, "through");
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(count_files(), 1);
}

/* A device that is always full. Not /dev/full itself where we are root: a mistake in the writer would replace it. */
static const char *full_device(void)
{
    if (geteuid() != 0) {
        return access("/dev/full", W_OK) == 0 ? "/dev/full" : NULL;
    }
    return mknod(in_folder("full"), S_IFCHR | 0600, makedev(1, 7)) == 0 ? in_folder("full") : NULL;
}

/* A full disk shows at the latest when the file is closed, also where the failing write was an earlier one. */
TEST_IN_FOLDER(reports_a_full_disk)
{
    struct sl_writer writer;
    static const char zeros[1 << 20];
    const char *path = full_device();
    FILE *stream = path == NULL ? NULL : fopen(path, "w"); /* devices may be forbidden on this file system */
    if (stream == NULL) {
        skip();
    }
    fclose(stream);
    assert_ok(sl_writer_open(path, &writer));
    assert_ok(sl_writer_put(&writer, "x", 1));
    assert_refused(sl_writer_close(&writer), SL_EIO, "cannot write");
    assert_ok(sl_writer_open(path, &writer));
    assert_refused(sl_writer_put(&writer, zeros, sizeof zeros), SL_EIO, "cannot write");
    assert_refused(sl_writer_close(&writer), SL_EIO, "cannot write");
}

TEST_IN_FOLDER(makes_folders)
{
    assert_ok(sl_folder_make(in_folder("a/b//c/")));
    assert_true(sl_folder_exists(in_folder("a/b/c")));
    assert_ok(sl_folder_make(in_folder("a/b/c")));
    assert_ok(sl_folder_make_parents(in_folder("d/e/file")));
    assert_true(sl_folder_exists(in_folder("d/e")));
    assert_false(sl_file_exists(in_folder("d/e/file")));
    assert_ok(sl_folder_make_parents("file"));
    put_text("plain", "");
    assert_true(sl_file_exists(in_folder("plain")));
    assert_false(sl_file_exists(in_folder("a")));
    assert_refused(sl_folder_make(in_folder("plain")), SL_EIO, "cannot make");
    assert_refused(sl_folder_make(in_folder("plain/x")), SL_EIO, "cannot make");
    assert_refused(sl_folder_make(in_folder("plain/x/y")), SL_EIO, "cannot make");
    uint32_t n;
    assert_ok(sl_folder_make_new(in_folder("d/e/f//g/h/"), &n));
    assert_int_equal(n, 3);
    sl_folder_remove_empty(in_folder("d/e/f//g/h/"), 2);
    assert_true(sl_folder_exists(in_folder("d/e/f")) && !sl_folder_exists(in_folder("d/e/f/g")));
    put_text("d/e/f/file", "");
    sl_folder_remove_empty(in_folder("d/e/f"), 2);
    assert_true(sl_file_exists(in_folder("d/e/f/file")));
    /* A folder that cannot be made leaves none of those above it. */
    assert_int_equal(unlink(in_folder("d/e/f/file")), 0);
    char path[200], name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s", in_folder("d/new/newer"));
    OWNED(sl_free_it) char *whole;
    assert_ok(sl_format(&whole, "%s/%s", path, name));
    assert_refused(sl_folder_make_new(whole, &n), SL_EIO, "cannot make");
    assert_true(n == 0 && sl_folder_exists(in_folder("d")) && !sl_folder_exists(in_folder("d/new")));
}

/* Also for root, who could write anywhere. */
TEST_IN_FOLDER(respects_modes)
{
    assert_true(sl_folder_writable(folder));
    assert_int_equal(chmod(folder, 0555), 0);
    assert_false(sl_folder_writable(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_false(sl_folder_writable(put_text("file", "")));
    assert_false(sl_folder_writable(in_folder("none")));
}

TEST(joins_paths)
{
    const char *cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(sl_free_it) char *path;
        assert_ok(sl_path_join(cases[i][0], cases[i][1], &path));
        assert_string_equal(path, cases[i][2]);
    }
}

/* Any single changed bit, any shift and any change of length changes the sum. */
TEST(checksum_notices)
{
    unsigned char data[131];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 7);
    }
    for (size_t n = 0; n < sizeof data; n++) {
        uint64_t sum = sl_checksum(0, data, n);
        assert_true(sum == sl_checksum(0, data, n));
        assert_true(sum != sl_checksum(1, data, n));
        assert_true(sum != sl_checksum(0, data, n + 1));
        assert_true(n == 0 || sum != sl_checksum(0, data + 1, n));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_true(sum != sl_checksum(0, data, n));
            data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    /* A zero at the end counts, though the last word is filled up with zeros. */
    assert_true(sl_checksum(0, "a\0", 1) != sl_checksum(0, "a\0", 2));
}

TEST_MAIN(NULL, NULL)
