/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing rows of numbers as .npy (format version 1.0, little-endian float32, row-major), for numpy.load.
 */
#ifndef SL_RUNTIME_FILES_NPYOUT_H
#define SL_RUNTIME_FILES_NPYOUT_H

#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

/* Write an array of n_rows x n_columns to `path`, atomically. fetch(context, i) returns row i: n_columns numbers on
 * the host, valid until the next call. Rows are fetched once each, in ascending order. If fetch fails, it sets the
 * message (sl_fail) and returns NULL, and the status is SL_EIO. SL_EIO, SL_ENOMEM; `path` is then unchanged. */
enum sl_status sl_npy_write(const char *path, uint64_t n_rows, uint32_t n_columns,
                            const sl_real *(*fetch)(void *context, uint64_t row), void *context);

#endif
