/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of METIS's graphs. A graph has edges, and perhaps their weights. */
#include <string.h>

#include "data/metis_file.h"
#include "data/reader.h"

static bool recognise(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".graph") == 0;
}

static enum sl_status find(const struct sl_request *request, struct sl_raw_files *out)
{
    return sl_reader_find_graph(sl_reader_metis.name, request, out);
}

static enum sl_status read_graph(const struct sl_raw_files *files, struct sl_raw *out)
{
    return sl_metis_read(files->paths[SL_RAW_EDGES], out);
}

const struct sl_reader sl_reader_metis = {
    .name = "a METIS graph", .recognise = recognise, .find = find, .read = read_graph};
