/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists of links in files.
 */
#ifndef SL_PARTITION_READ_LINKS_H
#define SL_PARTITION_READ_LINKS_H

#include "partition/links.h"

/* Read a list of pairs of ids below n_vertices. SL_EFILE, SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_links_read(const char *path, uint32_t n_vertices, struct sl_links *out);

#endif
