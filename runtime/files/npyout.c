/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing .npy: a header of two 64-byte lines, then rows as float. */
#include "runtime/files/npyout.h"

#include "data/npy.h"
#include "support/file.h"
#include "support/memory.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie in memory");

enum sl_status sl_npy_write(const char *path, uint64_t n_rows, uint32_t n_columns,
                            const sl_real *(*fetch)(void *context, uint64_t row), void *context)
{
    struct sl_writer writer = {0};
    float *line = NULL;
    char header[SL_NPY_HEADER_BYTES];
    enum sl_status st;
    sl_npy_header("<f4", n_rows, n_columns, header);
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
