/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The text of --relation-fanout, and the table of its numbers. */
#include "runtime/plan/fanouts.h"

#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"

#define EACH "each"
#define MAX_KEY 700 /* three names and what joins them */

/* RELATION:N,N,.. */
struct entry {
    char key[MAX_KEY];
    uint32_t fanout[SL_MAX_LAYERS];
};

static enum sl_status refuse(const char *begin, const char *end)
{
    return sl_fail(
        SL_EINVAL,
        "--relation-fanout: found '%.*s', expected each, or RELATION:N,N,.. with a number for each layer, -1 "
        "for all; several are separated by /",
        (int)sl_min_u64((uint64_t)(end - begin), 100), begin);
}

/* Read a number of the list from p on. Returns the place behind it; NULL: there is no number. */
static const char *read_number(const char *p, const char *end, uint32_t *out)
{
    uint64_t n;
    if (end - p >= 2 && p[0] == '-' && p[1] == '1') {
        *out = SL_FANOUT_ALL;
        return p + 2;
    }
    p = sl_number_u64(p, end, &n);
    if (p == NULL || n == 0 || n >= SL_FANOUT_ALL) {
        return NULL;
    }
    *out = (uint32_t)n;
    return p;
}

/* Read the entry at *text, and move *text to the next. -1 alone holds for all layers. */
static enum sl_status read_entry(const char **text, uint32_t n_layers, struct entry *out)
{
    const char *begin = *text;
    const char *end = begin + strcspn(begin, "/");
    const char *p = end; /* the last colon: a name may have some */
    uint32_t n = 0;
    while (p > begin && *p != ':') {
        p--;
    }
    if (p == begin || p - begin >= MAX_KEY) {
        return refuse(begin, end);
    }
    snprintf(out->key, sizeof out->key, "%.*s", (int)(p - begin), begin);
    while (p != NULL && p < end && n < n_layers && (*p == ':' || *p == ',')) {
        p = read_number(p + 1, end, &out->fanout[n++]);
    }
    if (p == end && n == 1 && out->fanout[0] == SL_FANOUT_ALL) {
        for (; n < n_layers; n++) {
            out->fanout[n] = SL_FANOUT_ALL;
        }
    }
    if (p != end || n != n_layers) {
        return refuse(begin, end);
    }
    if (*end == '/' && end[1] == '\0') {
        return refuse(begin, end + 1);
    }
    *text = *end == '/' ? end + 1 : end;
    return SL_OK;
}

/* The entries, unless the text is `each`. */
static const char *entries_of(const struct sl_fanouts *f)
{
    return strcmp(f->text, EACH) == 0 ? "" : f->text;
}

enum sl_status sl_fanouts_check(const struct sl_fanouts *f)
{
    struct entry entry;
    if (f->text == NULL) {
        return SL_OK;
    }
    for (const char *text = entries_of(f); *text != '\0';) {
        SL_CHECK(read_entry(&text, f->n_layers, &entry));
        for (uint32_t l = 0; l < f->n_layers; l++) {
            SL_FAIL_IF(f->replace && (entry.fanout[l] == SL_FANOUT_ALL || f->fanout[l] == SL_FANOUT_ALL), SL_EINVAL,
                       "--relation-fanout: found -1 with --replace, expected numbers for '%.100s' and "
                       "the other relations",
                       entry.key);
        }
    }
    return SL_OK;
}

/* The rest of a key that begins with n characters of a text; NULL: it does not. */
static const char *past(const char *key, const char *text, size_t n)
{
    return key != NULL && strncmp(key, text, n) == 0 ? key + n : NULL;
}

/* The same for the name of a relation or of its reverse. */
static const char *past_name(const char *key, const char *name, size_t n, bool reverse)
{
    const char *prefix = reverse ? "rev_" : "";
    return past(past(key, prefix, strlen(prefix)), name, n);
}

static bool is_end(const char *p)
{
    return p != NULL && *p == '\0';
}

/* Whether a key stands for a relation: by its name, or with the types. line: "SOURCE,NAME,DESTINATION". */
static bool is_relation(const char *key, const char *line, bool reverse)
{
    const size_t n_source = strcspn(line, ",");
    const char *name = line + n_source + 1;
    const size_t n_name = strcspn(name, ",");
    const char *destination = name + n_name + 1;
    const size_t n_destination = strcspn(destination, "\n");
    const char *first = reverse ? destination : line;
    const char *last = reverse ? line : destination;
    const char *p = past(past(key, first, reverse ? n_destination : n_source), "___", 3);
    p = past(past_name(p, name, n_name, reverse), "___", 3);
    p = past(p, last, reverse ? n_source : n_destination);
    return is_end(p) || is_end(past_name(key, name, n_name, reverse));
}

/* Mark the relations that a key stands for. Returns whether there are any. names: lines, or NULL. */
static bool find_relations(const char *key, const char *names, uint32_t n_relations, uint8_t *marks_out)
{
    const char *key_end = key + strlen(key);
    uint64_t number;
    uint32_t r = 0;
    uint32_t n_listed = 0;
    bool found = false;
    memset(marks_out, 0, n_relations);
    if (sl_number_u64(key, key_end, &number) == key_end) {
        if (number < n_relations) {
            marks_out[number] = 1;
        }
        return number < n_relations;
    }
    for (const char *line = names; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        n_listed++;
    }
    for (const char *line = names; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1, r++) {
        marks_out[r] = is_relation(key, line, false);
        found = found || marks_out[r];
        if (n_listed + r < n_relations) {
            marks_out[n_listed + r] = is_relation(key, line, true);
            found = found || marks_out[n_listed + r];
        }
    }
    return found;
}

/* Put the numbers of an entry into the table. marks: [n_relations], working memory. */
static enum sl_status take_entry(const struct entry *entry, const struct sl_dataset *dataset, uint32_t n_layers,
                                 uint8_t *marks, uint32_t *table)
{
    const uint32_t n = dataset->graph.n_relations;
    SL_FAIL_IF(!find_relations(entry->key, dataset->relations, n, marks), SL_EINVAL,
               "--relation-fanout: found relation '%.100s', expected %sa number below %u of '%s'", entry->key,
               dataset->relations == NULL ? "" : "a name in raw/triplet-type-list, rev_NAME for its reverse, or ", n,
               dataset->name);
    for (uint32_t l = 0; l < n_layers; l++) {
        for (uint32_t r = 0; r < n; r++) {
            if (marks[r]) {
                table[(size_t)l * n + r] = entry->fanout[l];
            }
        }
    }
    return SL_OK;
}

enum sl_status sl_fanouts_read(const struct sl_fanouts *f, const struct sl_dataset *dataset, uint32_t **out)
{
    const uint32_t n = dataset->graph.n_relations;
    SL_FREED uint32_t *table = NULL;
    SL_FREED uint8_t *marks = NULL;
    struct entry entry;
    *out = NULL;
    if (f->text == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc((size_t)f->n_layers * n, sizeof *table, "fanouts", &table));
    SL_CHECK(sl_alloc(n, sizeof *marks, "relations", &marks));
    for (size_t i = 0; i < (size_t)f->n_layers * n; i++) {
        table[i] = f->fanout[i / n];
    }
    for (const char *text = entries_of(f); *text != '\0';) {
        SL_CHECK(read_entry(&text, f->n_layers, &entry));
        SL_CHECK(take_entry(&entry, dataset, f->n_layers, marks, table));
    }
    *out = table;
    table = NULL;
    return SL_OK;
}
