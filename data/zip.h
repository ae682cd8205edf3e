/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading one file of a zip archive in memory, stored or deflated, with the 64-bit extension; enough for .npz files.
 */
#ifndef SL_DATA_ZIP_H
#define SL_DATA_ZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "support/status.h"

/* True if the data begin like a zip archive. */
bool sl_zip_is(const unsigned char *data, size_t bytes);

/* True if the archive has a member `name`. False also if its directory is damaged. */
bool sl_zip_has(const unsigned char *data, size_t bytes, const char *name);

/* The names of the members, a line each (sl_free). SL_EFILE: a damaged archive. SL_ENOMEM. */
enum sl_status sl_zip_list(const char *path, const unsigned char *data, size_t bytes, char **out);

/* Find the member `name`. *data_out and *bytes_out get its contents. A stored member lies inside `data`, and
 * *inflated_out is NULL. A deflated member is a new block: *inflated_out equals *data_out, and the caller frees it
 * (sl_free). Contents are checked against their CRC. `path` is for messages. SL_EFILE: not an archive, a damaged
 * archive, no such member, or a method other than stored and deflate. SL_ENOMEM. */
enum sl_status sl_zip_find(const char *path, const unsigned char *data, size_t bytes, const char *name,
                           const unsigned char **data_out, size_t *bytes_out, unsigned char **inflated_out);

#endif
