/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing .npy: a header of two 64-byte lines, then rows as float. */
#include "runtime/files/npyout.h"

#include <string.h>

#include "support/file.h"
#include "support/memory.h"

#define HEADER_BYTES 128
#define PREFIX_BYTES 10 /* magic, version, length of the header */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie in memory");

static void make_header(uint64_t n_rows, uint32_t n_columns, char out[HEADER_BYTES])
{
    char text[HEADER_BYTES - PREFIX_BYTES + 1];
    int n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, %u), }",
                     (unsigned long long)n_rows, n_columns);
    memset(out, ' ', HEADER_BYTES);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(HEADER_BYTES - PREFIX_BYTES);
    out[9] = 0;
    memcpy(out + PREFIX_BYTES, text, (size_t)n);
    out[HEADER_BYTES - 1] = '\n';
}

enum sl_status sl_npy_write(const char *path, uint64_t n_rows, uint32_t n_columns,
                            const sl_real *(*fetch)(void *context, uint64_t row), void *context)
{
    struct sl_writer writer = {0};
    float *line = NULL;
    char header[HEADER_BYTES];
    enum sl_status st;
    make_header(n_rows, n_columns, header);
    SL_TRY(st, sl_alloc(n_columns, sizeof *line, "a row of the .npy file", &line), done);
    SL_TRY(st, sl_writer_open(path, &writer), free_line);
    SL_TRY(st, sl_writer_put(&writer, header, sizeof header), abort_writer);
    for (uint64_t i = 0; i < n_rows; i++) {
        const sl_real *row = fetch(context, i);
        if (row == NULL) {
            st = SL_EIO;
            goto abort_writer;
        }
        for (uint32_t j = 0; j < n_columns; j++) {
            line[j] = (float)row[j];
        }
        SL_TRY(st, sl_writer_put(&writer, line, n_columns * sizeof *line), abort_writer);
    }
    st = sl_writer_close(&writer);
    goto free_line;

abort_writer:
    sl_writer_abort(&writer);
free_line:
    sl_free(line);
done:
    return st;
}
