/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/files/rowsout.h: the bytes of the format, and what numpy makes of them. */
#include "runtime/files/rowsout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"
#include "support/memory.h"
#include "tests/support/test.h"

struct rows {
    const sl_real *rows;
    size_t ld;
    const sl_vertex *order;
};

static const sl_real *row_of(void *context, uint64_t row)
{
    const struct rows *from = context;
    return from->rows + from->ld * (from->order != NULL ? from->order[row] : row);
}

/* Row i of the file is row order[i] of the block, whose rows are ld apart; order NULL: row i. */
static enum sl_status write_block(const char *path, uint64_t n_rows, uint32_t n_columns, const sl_real *block,
                                  size_t ld, const sl_vertex *order)
{
    struct rows context = {.rows = block, .ld = ld, .order = order};
    return sl_rows_write(path, NULL, n_rows, n_columns, row_of, &context);
}

static char path[64];
static char *file;
static size_t file_bytes;

static int set_up(void **state)
{
    (void)state;
    strcpy(path, "/tmp/starling-npy-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    sl_free(file);
    file = NULL;
    remove(path);
    return sl_memory_live() == 0 ? 0 : -1;
}

static const sl_real block[3][4] = {{1, 2, 3, 99}, {4, 5, (sl_real)0.1, 99}, {7, -8, 9, 99}};
static const sl_vertex order[4] = {2, 0, 1, 0};

static void read_back(void)
{
    sl_free(file);
    assert_int_equal(sl_file_read(path, 100000, &file, &file_bytes), SL_OK);
}

TEST_WITH(the_header_is_version_1, set_up, tear_down)
{
    static const char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
    assert_int_equal(write_block(path, 3, 4, &block[0][0], 4, NULL), SL_OK);
    read_back();
    assert_memory_equal(file, "\x93NUMPY\x01\x00", 8);
    size_t length = (unsigned char)file[8] + 256 * (size_t)(unsigned char)file[9];
    assert_int_equal((10 + length) % 64, 0);
    assert_memory_equal(file + 10, dictionary, sizeof dictionary - 1);
    for (size_t i = 10 + sizeof dictionary - 1; i < 9 + length; i++) {
        assert_int_equal(file[i], ' ');
    }
    assert_int_equal(file[9 + length], '\n');
    assert_int_equal(file_bytes, 10 + length + 3 * 4 * 4);
}

/* Rows in another order, of which the last column is not written. */
TEST_WITH(rows_are_picked_by_order, set_up, tear_down)
{
    static const float expected[4][3] = {{7, -8, 9}, {1, 2, 3}, {4, 5, 0.1f}, {1, 2, 3}};
    assert_int_equal(write_block(path, 4, 3, &block[0][0], 4, order), SL_OK);
    read_back();
    assert_int_equal(file_bytes % 64, sizeof expected % 64);
    assert_memory_equal(file + file_bytes - sizeof expected, expected, sizeof expected);
}

static const sl_real *fetch(void *context, uint64_t row)
{
    static sl_real line[2]; /* the same memory for each row */
    uint64_t *next = context;
    assert_int_equal(row, (*next)++);
    line[0] = (sl_real)row;
    line[1] = -(sl_real)row;
    return line;
}

TEST_WITH(rows_are_fetched_in_order, set_up, tear_down)
{
    static const float expected[3][2] = {{0, -0.0f}, {1, -1}, {2, -2}};
    uint64_t next = 0;
    assert_int_equal(sl_rows_write(path, NULL, 3, 2, fetch, &next), SL_OK);
    assert_int_equal(next, 3);
    read_back();
    assert_memory_equal(file + file_bytes - sizeof expected, expected, sizeof expected);
}

TEST_WITH(empty_arrays_are_arrays, set_up, tear_down)
{
    assert_int_equal(write_block(path, 0, 4, NULL, 4, NULL), SL_OK);
    read_back();
    assert_non_null(strstr(file + 10, "(0, 4)"));
    assert_int_equal(file_bytes % 64, 0);
}

TEST_WITH(numpy_reads_it, set_up, tear_down)
{
    char command[512];
    assert_int_equal(write_block(path, 4, 3, &block[0][0], 4, order), SL_OK);
    snprintf(command, sizeof command,
             "python3 -c 'import numpy' 2>/dev/null || exit 77; python3 -c \"import numpy; a = numpy.load('%s'); "
             "assert a.dtype == numpy.float32 and a.shape == (4, 3) and a[2, 1] == 5 and a[0, 1] == -8 and "
             "a.flags.c_contiguous\"",
             path);
    int rc = system(command);
    if (rc == 77 << 8) {
        skip();
    }
    assert_int_equal(rc, 0);
}

TEST_WITH(trouble_leaves_the_old_file, set_up, tear_down)
{
    assert_int_equal(write_block(path, 3, 4, &block[0][0], 4, NULL), SL_OK);
    read_back();
    size_t before = file_bytes;
    assert_int_equal(write_block("/nowhere/x.npy", 3, 4, &block[0][0], 4, NULL), SL_EIO);
    enum sl_status st = SL_ENOMEM;
    sl_free(file);
    file = NULL;
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = write_block(path, 1, 4, &block[0][0], 4, NULL);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_int_equal(sl_memory_live(), 0);
        read_back();
        assert_int_equal(file_bytes, st == SL_OK ? before - 32 : before);
        sl_free(file);
        file = NULL;
        assert_true(allow < 20);
    }
}

TEST_MAIN(NULL, NULL)
