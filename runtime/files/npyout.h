/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing rows of numbers as .npy (format version 1.0, little-endian float32, row major), which numpy.load reads.
 */
#ifndef SL_RUNTIME_FILES_NPYOUT_H
#define SL_RUNTIME_FILES_NPYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

/* Write an array of n_rows x n_columns to `path`, atomically. fetch(context, i) gives row i, n_columns numbers on the host,
 * which must stay as they are until the next call; rows are asked for in ascending order, each once. NULL: it has failed, and said why
 * (SL_EIO). SL_EIO, SL_ENOMEM; the target is then as before. */
enum sl_status sl_npy_write(const char *path, uint64_t n_rows, uint32_t n_columns,
                            const sl_real *(*fetch)(void *context, uint64_t row), void *context);

/* The same from one block, n_rows x n_columns with leading dimension ld: row i of the file is row order[i] of the block (order
 * NULL: row i). For a table in renumbered ids, `order` is the partition's new_ids. */
enum sl_status sl_npy_write_block(const char *path, uint64_t n_rows, uint32_t n_columns, const sl_real *block,
                                  size_t ld, const sl_vertex *order);

#endif
