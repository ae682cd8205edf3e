/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of METIS's graphs. A graph has edges, and perhaps their weights. */
#include <string.h>

#include "partition/metis_file.h"
#include "partition/reader.h"

static bool probe(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".graph") == 0;
}

const struct sl_reader sl_reader_metis = {.name = "a METIS graph", .probe = probe, .read = sl_metis_read};
