/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading lists of links. */
#include "partition/read_links.h"

#include <string.h>
#include <strings.h>

#include "partition/csv.h"
#include "partition/npy.h"

static bool is_array(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && (strcasecmp(path + n - 4, ".npy") == 0 || strcasecmp(path + n - 4, ".npz") == 0);
}

enum sl_status sl_links_read(const char *path, uint32_t n_vertices, struct sl_links *out)
{
    uint64_t n = 0;
    enum sl_status st;
    *out = (struct sl_links){0};
    if (is_array(path)) {
        SL_TRY(st, sl_npy_read_edges(path, "links", &n_vertices, &n, &out->from, &out->to), done);
    } else {
        SL_TRY(st, sl_csv_count_lines(path, &n), done);
        SL_TRY(st, sl_csv_read_edges(path, n_vertices, n, &out->from, &out->to), done);
    }
    if (n >= SL_NONE) {
        st = sl_fail(SL_EFILE, "%s: expected fewer than 2^32 links, found %llu", path, (unsigned long long)n);
        sl_links_free(out);
        goto done;
    }
    out->n = (uint32_t)n;
done:
    return st;
}
