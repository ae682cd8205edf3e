/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One file out of a zip archive in memory, stored or deflated, with the 64-bit extension: what .npz files need.
 */
#ifndef SL_PARTITION_ZIP_H
#define SL_PARTITION_ZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "support/status.h"

/* Does it begin as a zip archive does? */
bool sl_zip_is(const unsigned char *data, size_t bytes);

/* Has the archive a member `name`? False also if its directory is damaged. */
bool sl_zip_has(const unsigned char *data, size_t bytes, const char *name);

/* Find the member `name`. *data_out and *bytes_out get its contents: a place within `data` (then *inflated_out is
 * NULL), or a fresh block (sl_free), which is then *inflated_out too. Contents are checked against their CRC. `path` is
 * for messages. SL_EFILE: no or a damaged archive, no such member, a method other than stored and deflate.
 * SL_ENOMEM. */
enum sl_status sl_zip_find(const char *path, const unsigned char *data, size_t bytes, const char *name,
                           const unsigned char **data_out, size_t *bytes_out, unsigned char **inflated_out);

#endif
