/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading lists of links. */
#include "data/links.h"

#include <string.h>

#include "data/csv.h"
#include "data/line_reader.h"
#include "data/names.h"
#include "data/npy.h"
#include "data/text_lines.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

enum sl_status sl_links_read(const char *path, uint32_t n_vertices, struct sl_links *out)
{
    uint64_t n = 0;
    enum sl_status st = SL_OK;
    *out = (struct sl_links){0};
    if (sl_text_ends_in(path, ".npy")) {
        SL_CHECK(sl_npy_read_edges(path, "links", sl_min_u32(n_vertices, SL_NONE - 1), &n, &out->from, &out->to));
    } else {
        SL_CHECK(sl_csv_count_lines(path, &n));
        SL_CHECK(sl_csv_read_links(path, n_vertices, n, &out->from, &out->relation, &out->to));
    }
    if (n >= SL_NONE) {
        st = sl_fail(SL_EFILE, "%s: expected fewer than 2^32 links, found %llu", path, (unsigned long long)n);
        sl_links_free(out);
        return st;
    }
    out->n = (uint32_t)n;
    return st;
}

/* ---- by name ---- */

/* Read the next line, of two names, into row out->n. */
static enum sl_status take_named(const struct sl_text *text, const char *p, const char *stop,
                                 const struct sl_names *names, struct sl_links *out)
{
    sl_vertex *ends[] = {&out->from[out->n], &out->to[out->n]};
    for (int k = 0; k < 2; k++) {
        const struct sl_text_cell cell = p != NULL ? sl_names_take(&p, stop, ',') : (struct sl_text_cell){"", 0};
        *ends[k] = sl_names_find(names, cell);
        SL_FAIL_IF(*ends[k] == SL_NONE || (k == 1 && p != NULL), SL_EFILE,
                   "%.300s:%llu: expected 'source,destination', two ids of the vertices, found '%.*s'", text->path,
                   (unsigned long long)text->line, (int)sl_min_u64(cell.n, 100), cell.p);
    }
    out->n++;
    return SL_OK;
}

enum sl_status sl_links_read_named(const char *path, const char *names, uint32_t n_vertices, struct sl_links *out)
{
    struct sl_names known = {0};
    struct sl_text text = {0};
    const char *p;
    const char *stop;
    enum sl_status st;
    *out = (struct sl_links){0};
    if (names == NULL || sl_text_ends_in(path, ".npy")) {
        return sl_links_read(path, n_vertices, out);
    }
    SL_TRY(st, sl_names_read(names, &known), done);
    SL_TRY(st, sl_lines_read_text(path, true, &text), done);
    const bool named = sl_text_next(&text, &p, &stop) && sl_names_find(&known, sl_names_take(&p, stop, ',')) != SL_NONE;
    sl_free(text.data);
    text.data = NULL;
    if (!named) {
        st = sl_links_read(path, n_vertices, out);
        goto done;
    }
    SL_TRY(st, sl_lines_read_text(path, false, &text), done);
    struct sl_text ahead = text;
    while (sl_text_next(&ahead, &p, &stop)) {
    }
    const uint64_t n = ahead.line;
    if (n >= SL_NONE) {
        st = sl_fail(SL_EFILE, "%s: expected fewer than 2^32 links, found %llu", path, (unsigned long long)n);
        goto done;
    }
    SL_TRY(st, sl_alloc(n, sizeof *out->from, "links", &out->from), done);
    SL_TRY(st, sl_alloc(n, sizeof *out->to, "links", &out->to), done);
    while (st == SL_OK && sl_text_next(&text, &p, &stop)) {
        if (sl_text_skip_blanks(p, stop) < stop) {
            st = take_named(&text, p, stop, &known, out);
        }
    }
done:
    if (st != SL_OK) {
        sl_links_free(out);
    }
    sl_free(text.data);
    sl_names_free(&known);
    return st;
}

enum sl_status sl_links_read_split(char *const paths[SL_N_LINK_LISTS], uint32_t n_vertices, struct sl_link_split *out)
{
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        if (paths[i] != NULL) {
            SL_CHECK(sl_links_read(paths[i], n_vertices, &out->list[i]));
        }
    }
    if (out->list[SL_LINKS_TRAIN].relation != NULL && out->ends == NULL) {
        SL_CHECK(sl_links_set_ends(out, n_vertices, paths[SL_LINKS_TRAIN]));
    }
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        SL_CHECK(sl_links_place(out, paths[i], &out->list[i]));
    }
    return SL_OK;
}
