/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing rows of numbers as .npy (format version 1.0, little-endian float32, row major), which numpy.load reads.
 */
#ifndef SL_RUNTIME_FILES_NPYOUT_H
#define SL_RUNTIME_FILES_NPYOUT_H

#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

/* Write an array of n_rows x n_columns to `path`, atomically. fetch(context, i) gives row i, n_columns numbers on the host,
 * which must stay as they are until the next call; rows are asked for in ascending order, each once. NULL: it has failed, and said why
 * (SL_EIO). SL_EIO, SL_ENOMEM; the target is then as before. */
enum sl_status sl_npy_write(const char *path, uint64_t n_rows, uint32_t n_columns,
                            const sl_real *(*fetch)(void *context, uint64_t row), void *context);

#endif
