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
        SL_TRY(st, sl_csv_read_links(path, n_vertices, n, &out->from, &out->relation, &out->to), done);
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

enum sl_status sl_links_read_split(char *const paths[SL_N_LINK_LISTS], uint32_t n_vertices, struct sl_link_split *out)
{
    enum sl_status st = SL_OK;
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        if (paths[i] != NULL) {
            SL_TRY(st, sl_links_read(paths[i], n_vertices, &out->list[i]), done);
        }
    }
    if (out->list[SL_LINKS_TRAIN].relation != NULL && out->ends == NULL) {
        SL_TRY(st, sl_links_set_ends(out, n_vertices, paths[SL_LINKS_TRAIN]), done);
    }
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        SL_TRY(st, sl_links_place(out, paths[i], &out->list[i]), done);
    }
done:
    return st;
}
