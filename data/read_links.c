/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading lists of links, and of vertices by name. */
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
    SL_OWNED(sl_links_free) struct sl_links read = {0};
    *out = (struct sl_links){0};
    if (sl_text_ends_in(path, ".npy")) {
        SL_CHECK(sl_npy_read_edges(path, "links", sl_min_u32(n_vertices, SL_NONE - 1), &n, &read.from, &read.to));
    } else {
        SL_CHECK(sl_csv_count_lines(path, &n));
        SL_CHECK(sl_csv_read_links(path, n_vertices, n, &read.from, &read.relation, &read.to));
    }
    SL_FAIL_IF(n >= SL_NONE, SL_EFILE, "%s: expected fewer than 2^32 links, found %llu", path, (unsigned long long)n);
    read.n = (uint32_t)n;
    *out = SL_TAKE(read);
    return SL_OK;
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
    SL_OWNED(sl_names_free) struct sl_names known = {0};
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    SL_OWNED(sl_links_free) struct sl_links read = {0};
    const char *p;
    const char *stop;
    bool named = false;
    *out = (struct sl_links){0};
    if (names == NULL || sl_text_ends_in(path, ".npy")) {
        return sl_links_read(path, n_vertices, out);
    }
    SL_CHECK(sl_names_read(names, &known));
    SL_CHECK(sl_names_begin(path, &known, &named));
    if (!named) {
        return sl_links_read(path, n_vertices, out);
    }
    SL_CHECK(sl_lines_read_text(path, false, &text));
    struct sl_text ahead = text;
    while (sl_text_next(&ahead, &p, &stop)) {
    }
    const uint64_t n = ahead.line;
    SL_FAIL_IF(n >= SL_NONE, SL_EFILE, "%s: expected fewer than 2^32 links, found %llu", path, (unsigned long long)n);
    SL_CHECK(sl_links_alloc(n, false, &read));
    while (sl_text_next(&text, &p, &stop)) {
        if (sl_text_skip_blanks(p, stop) < stop) {
            SL_CHECK(take_named(&text, p, stop, &known, &read));
        }
    }
    *out = SL_TAKE(read);
    return SL_OK;
}

/* *out: whether a text is a mask. Of one or two vertices it could be a list (sl_ids_take). */
static enum sl_status is_mask(const char *path, uint32_t n_vertices, bool *out)
{
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    const char *p;
    const char *stop;
    uint64_t n = 0;
    SL_CHECK(sl_lines_read_text(path, false, &text));
    *out = n_vertices > 2;
    while (*out && sl_text_next(&text, &p, &stop)) {
        while (stop > p && sl_text_is_blank(stop[-1])) {
            stop--;
        }
        n += stop > p;
        *out = stop == p || (stop - p == 1 && (*p == '0' || *p == '1'));
    }
    *out = *out && n == n_vertices;
    return SL_OK;
}

/* A text with another line than a name's is refused. */
static enum sl_status read_named(const char *path, const struct sl_names *names, uint32_t n_vertices,
                                 struct sl_ids *out)
{
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    SL_FREED sl_vertex *ids = NULL;
    SL_FREED bool *taken = NULL;
    uint32_t n = 0;
    const char *p;
    const char *stop;
    SL_CHECK(sl_lines_read_text(path, false, &text));
    SL_CHECK(sl_alloc(n_vertices, sizeof *ids, "a list of vertices", &ids));
    SL_CHECK(sl_alloc_zero(n_vertices, sizeof *taken, "a list of vertices", &taken));
    while (sl_text_next(&text, &p, &stop)) {
        if (sl_text_skip_blanks(p, stop) == stop) {
            continue;
        }
        const struct sl_text_cell cell = sl_names_take(&p, stop, ',');
        const uint32_t id = sl_names_find(names, cell);
        SL_FAIL_IF(id == SL_NONE || p != NULL || taken[id], SL_EFILE,
                   "%.300s:%llu: expected the id of a vertex, each at most once, found '%.*s'", path,
                   (unsigned long long)text.line, (int)sl_min_u64(cell.n, 100), cell.p);
        taken[id] = true;
        ids[n++] = id;
    }
    return sl_ids_take(path, n_vertices, false, n, SL_TAKE(ids), out);
}

enum sl_status sl_ids_read_named(const char *path, const char *names, uint32_t n_vertices, struct sl_ids *out)
{
    SL_OWNED(sl_names_free) struct sl_names known = {0};
    bool named = false;
    bool mask = false;
    *out = (struct sl_ids){0};
    if (sl_text_ends_in(path, ".npy")) {
        return sl_npy_read_ids(path, "vertices", n_vertices, out);
    }
    if (names != NULL) {
        SL_CHECK(sl_names_read(names, &known));
        SL_CHECK(sl_names_begin(path, &known, &named));
        SL_CHECK(named ? is_mask(path, n_vertices, &mask) : SL_OK);
    }
    return named && !mask ? read_named(path, &known, n_vertices, out) : sl_csv_read_ids(path, n_vertices, out);
}

/* ---- negatives of each link ---- */

/* Open a table of ids that replace an end of each of the links. The caller frees *out, also on failure. */
static enum sl_status open_own(const char *path, const struct sl_links *links, const char *name, struct sl_npy *out)
{
    SL_CHECK(sl_npy_read(path, "negatives", out));
    SL_FAIL_IF(out->n_dimensions != 2 || out->shape[0] != links->n || out->shape[1] == 0 || out->shape[1] >= SL_NONE,
               SL_EFILE,
               "%s: expected negatives of each link of %s, of shape (%u, K), found %u dimensions and %llu rows", path,
               name, links->n, out->n_dimensions, (unsigned long long)out->shape[0]);
    return SL_OK;
}

/* Fill block `block` of `n_blocks` of each link with its negatives, whose head (end 0) or tail is of the table. */
static enum sl_status fill_own(const char *path, const struct sl_npy *table, uint32_t n_vertices,
                               const struct sl_links *links, int end, uint32_t block, uint32_t n_blocks,
                               struct sl_links *out)
{
    const uint64_t n_each = table->shape[1];
    for (uint64_t k = 0; k < table->n_items; k++) {
        const uint64_t i = k / n_each;
        const uint64_t at = (i * n_blocks + block) * n_each + k % n_each;
        const uint64_t id = sl_npy_whole(table, k, n_vertices);
        SL_FAIL_IF(id >= n_vertices, SL_EFILE, "%s: row %llu: expected ids below %u, found %.17g", path,
                   (unsigned long long)i + 1, n_vertices, sl_npy_real(table, k));
        out->from[at] = end == 0 ? (sl_vertex)id : links->from[i];
        out->to[at] = end == 1 ? (sl_vertex)id : links->to[i];
        if (out->relation != NULL) {
            out->relation[at] = links->relation[i];
        }
    }
    return SL_OK;
}

static void free_tables(struct sl_npy (*tables)[2])
{
    sl_npy_free(&(*tables)[0]);
    sl_npy_free(&(*tables)[1]);
}

/* Read the negatives of each link of a list to find. paths: of heads and of tails; one may be NULL. `shared`: the path
 * of negatives that all links share, which must be NULL then. */
static enum sl_status read_own(char *const paths[2], const char *shared, uint32_t list, uint32_t n_vertices,
                               struct sl_link_split *split)
{
    const struct sl_links *links = &split->list[list];
    const uint32_t negatives = list + SL_LINKS_VALID_NEGATIVE - SL_LINKS_VALID;
    struct sl_links *out = &split->list[negatives];
    SL_OWNED(free_tables) struct sl_npy tables[2] = {{.n_dimensions = 0}, {.n_dimensions = 0}};
    const char *path = paths[0] != NULL ? paths[0] : paths[1];
    const uint32_t n_blocks = (uint32_t)(paths[0] != NULL) + (paths[1] != NULL);
    uint32_t block = 0;
    if (n_blocks == 0) {
        return SL_OK;
    }
    SL_FAIL_IF(shared != NULL, SL_EFILE, "%s: expected negatives of each link or of all links, found %s, too", path,
               shared);
    for (int end = 0; end < 2; end++) {
        if (paths[end] != NULL) {
            SL_CHECK(open_own(paths[end], links, sl_links_name(list), &tables[end]));
        }
    }
    const uint64_t n_each = tables[paths[0] != NULL ? 0 : 1].shape[1];
    SL_FAIL_IF(n_blocks == 2 && tables[1].shape[1] != n_each, SL_EFILE,
               "%s: expected %llu negatives of each link, as of heads, found %llu", paths[1],
               (unsigned long long)n_each, (unsigned long long)tables[1].shape[1]);
    const uint64_t n = links->n * n_each * n_blocks;
    SL_FAIL_IF(n >= SL_NONE, SL_EFILE, "%s: expected fewer than 2^32 negatives of all links, found %llu", path,
               (unsigned long long)n);
    SL_CHECK(sl_links_alloc(n, links->relation != NULL, out));
    out->n = (uint32_t)n;
    split->n_each[negatives] = (uint32_t)n_each;
    for (int end = 0; end < 2; end++) {
        if (paths[end] != NULL) {
            SL_CHECK(fill_own(paths[end], &tables[end], n_vertices, links, end, block++, n_blocks, out));
        }
    }
    return SL_OK;
}

enum sl_status sl_links_read_split(char *const paths[SL_N_LINK_FILES], uint32_t n_vertices, struct sl_link_split *out)
{
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        if (paths[i] != NULL) {
            SL_CHECK(sl_links_read(paths[i], n_vertices, &out->list[i]));
        }
    }
    SL_CHECK(read_own(paths + SL_N_LINK_LISTS, paths[SL_LINKS_VALID_NEGATIVE], SL_LINKS_VALID, n_vertices, out));
    SL_CHECK(read_own(paths + SL_N_LINK_LISTS + 2, paths[SL_LINKS_TEST_NEGATIVE], SL_LINKS_TEST, n_vertices, out));
    if (out->list[SL_LINKS_TRAIN].relation != NULL && out->ends == NULL) {
        SL_CHECK(sl_links_set_ends(out, n_vertices, paths[SL_LINKS_TRAIN]));
    }
    for (int i = 0; i < SL_N_LINK_LISTS; i++) {
        const char *path = paths[i];
        if (path == NULL && i >= SL_LINKS_VALID_NEGATIVE) {
            const int own = SL_N_LINK_LISTS + 2 * (i - SL_LINKS_VALID_NEGATIVE);
            path = paths[own] != NULL ? paths[own] : paths[own + 1];
        }
        SL_CHECK(sl_links_place(out, path, &out->list[i]));
    }
    return SL_OK;
}
