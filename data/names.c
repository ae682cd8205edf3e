/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbering texts. */
#include "data/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph.h"
#include "data/line_reader.h"
#include "data/targets.h"
#include "data/text_lines.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"

#define LEAST_SLOTS 1024
#define MOST_SHOWN 40 /* bytes of a text in a message */

/* The slot of a text, or the free slot for it. */
static uint64_t slot_of(const struct sl_names *names, struct sl_text_cell text)
{
    uint64_t slot = sl_checksum(0, text.p, text.n) % names->n_slots;
    for (;; slot = (slot + 1) % names->n_slots) {
        uint32_t i = names->slots[slot];
        if (i == SL_NONE || (names->texts[i].n == text.n && memcmp(names->texts[i].p, text.p, text.n) == 0)) {
            return slot;
        }
    }
}

/* Double the table. */
static enum sl_status grow(struct sl_names *names)
{
    struct sl_names larger = *names;
    larger.n_slots = names->n_slots > 0 ? 2 * names->n_slots : LEAST_SLOTS;
    SL_CHECK(sl_realloc(&names->texts, larger.n_slots / 2, sizeof *names->texts, "names"));
    larger.texts = names->texts;
    SL_CHECK(sl_alloc(larger.n_slots, sizeof *larger.slots, "names", &larger.slots));
    memset(larger.slots, 0xff, larger.n_slots * sizeof *larger.slots);
    for (uint32_t i = 0; i < larger.n; i++) {
        larger.slots[slot_of(&larger, larger.texts[i])] = i;
    }
    sl_free(names->slots);
    *names = larger;
    return SL_OK;
}

uint32_t sl_names_find(const struct sl_names *names, struct sl_text_cell text)
{
    return names->n > 0 ? names->slots[slot_of(names, text)] : SL_NONE;
}

enum sl_status sl_names_add(struct sl_names *names, struct sl_text_cell text, uint32_t *out)
{
    SL_FAIL_IF(names->n == SL_NONE - 1, SL_EFILE, "expected at most %u vertices, found more", SL_NONE - 1);
    if (names->n == names->n_slots / 2) {
        SL_CHECK(grow(names));
    }
    *out = names->n;
    names->slots[slot_of(names, text)] = names->n;
    names->texts[names->n++] = text;
    return SL_OK;
}

/* ---- Classes ----------------------------------------------------------------------------------------------------- */

static bool is_unknown(struct sl_text_cell text)
{
    double value = 0;
    return text.n == 0 || (sl_number_real(text.p, text.p + text.n, &value) == text.p + text.n && isnan(value));
}

/* The class of a label: of a name that is there, or of the text, added. -1: the text is empty or nan. */
static enum sl_status class_of(const char *where, struct sl_names *names, struct sl_text_cell text, int32_t *out)
{
    uint32_t class = sl_names_find(names, text);
    if (class != SL_NONE || is_unknown(text)) {
        *out = class != SL_NONE ? (int32_t) class : -1;
        return SL_OK;
    }
    SL_FAIL_IF(names->n == SL_MAX_CLASSES, SL_EFILE, "%s: expected at most %d names of classes, found more: '%.*s'",
               where, SL_MAX_CLASSES, (int)sl_min_u64(text.n, MOST_SHOWN), text.p);
    SL_FAIL_IF(memchr(text.p, '\n', text.n) != NULL || memchr(text.p, '\0', text.n) != NULL, SL_EFILE,
               "%s: expected a name of a class without ends of lines, found '%.*s'", where,
               (int)sl_min_u64(text.n, MOST_SHOWN), text.p);
    SL_FAIL_IF(!sl_text_is_utf8(text.p, text.n), SL_EFILE,
               "%s: expected names of classes in UTF-8, found '%.*s'; save the file as UTF-8", where,
               (int)sl_min_u64(text.n, MOST_SHOWN), text.p);
    SL_CHECK(sl_names_add(names, text, &class));
    *out = (int32_t) class;
    return SL_OK;
}

/* A text and its number. */
struct numbered {
    struct sl_text_cell text;
    uint32_t number;
};

static int compare(const void *a, const void *b)
{
    const struct numbered *x = a;
    const struct numbered *y = b;
    int order = memcmp(x->text.p, y->text.p, sl_min_u64(x->text.n, y->text.n));
    return order != 0 ? order : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

/* Number the names of classes anew, in the order of their bytes, and change the classes of n_rows rows. */
static enum sl_status sort_classes(struct sl_names *names, int32_t *classes, uint32_t n_rows)
{
    SL_FREED struct numbered *sorted = NULL;
    SL_FREED int32_t *rank = NULL;
    SL_CHECK(sl_alloc((size_t)names->n + 1, sizeof *sorted, "names of classes", &sorted));
    SL_CHECK(sl_alloc((size_t)names->n + 1, sizeof *rank, "names of classes", &rank));
    for (uint32_t i = 0; i < names->n; i++) {
        sorted[i] = (struct numbered){names->texts[i], i};
    }
    qsort(sorted, names->n, sizeof *sorted, compare);
    for (uint32_t i = 0; i < names->n; i++) {
        rank[sorted[i].number] = (int32_t)i;
        names->texts[i] = sorted[i].text;
    }
    for (uint32_t v = 0; v < n_rows; v++) {
        classes[v] = classes[v] < 0 ? -1 : rank[classes[v]];
    }
    sl_free(names->slots); /* they have the old numbers */
    names->slots = NULL;
    names->n_slots = 0;
    return SL_OK;
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

enum sl_status sl_names_read(const char *lines, struct sl_names *names)
{
    for (uint32_t i; *lines != '\0';) {
        const size_t n = strcspn(lines, "\n");
        SL_CHECK(sl_names_add(names, (struct sl_text_cell){lines, n}, &i));
        lines += n + (lines[n] != '\0');
    }
    return SL_OK;
}

enum sl_status sl_names_begin(const char *path, const struct sl_names *names, bool *out)
{
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    const char *p;
    const char *stop;
    SL_CHECK(sl_lines_read_text(path, true, &text));
    *out = sl_text_next(&text, &p, &stop) && sl_names_find(names, sl_names_take(&p, stop, ',')) != SL_NONE;
    return SL_OK;
}

enum sl_status sl_names_list(const struct sl_names *names, char **out)
{
    size_t room = 1;
    for (uint32_t i = 0; i < names->n; i++) {
        room += names->texts[i].n + 1;
    }
    SL_CHECK(sl_alloc(room, 1, "names", out));
    char *p = *out;
    for (uint32_t i = 0; i < names->n; i++) {
        p = (char *)memcpy(p, names->texts[i].p, names->texts[i].n) + names->texts[i].n;
        *p++ = '\n';
    }
    *p = '\0';
    return SL_OK;
}

static bool is_gap(char c, char separator)
{
    return c != separator && sl_text_is_blank(c);
}

/* The closing quote of a quoted cell. NULL: the cell is not quoted as a whole. A quote inside is written twice. */
static const char *closing_quote(const char *p, const char *stop, char separator)
{
    for (p++; p < stop; p++) {
        const char *next = p + 1;
        while (next < stop && is_gap(*next, separator)) {
            next++;
        }
        if (*p == '"' && (next == stop || *next == separator)) {
            return p;
        }
        p += *p == '"' && p[1] == '"';
    }
    return NULL;
}

/* Make one quote of two. Returns the new length. */
static size_t undouble_quotes(char *text, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        text[kept++] = text[i];
        i += text[i] == '"' && i + 1 < n && text[i + 1] == '"';
    }
    return kept;
}

struct sl_text_cell sl_names_take(const char **p, const char *stop, char separator)
{
    const char *start = *p;
    while (start < stop && is_gap(*start, separator)) {
        start++;
    }
    const char *quote = start < stop && *start == '"' ? closing_quote(start, stop, separator) : NULL;
    const char *end = quote != NULL ? quote + 1 : start;
    while (end < stop && *end != separator) {
        end++;
    }
    *p = end < stop ? end + 1 : NULL;
    if (quote != NULL) {
        const size_t n = undouble_quotes((char *)(uintptr_t)start + 1, (size_t)(quote - start - 1));
        return (struct sl_text_cell){start + 1, n};
    }
    while (end > start && sl_text_is_blank(end[-1])) {
        end--;
    }
    return (struct sl_text_cell){start, (size_t)(end - start)};
}

/* Whether one of the characters is in a text. */
static bool has_any(struct sl_text_cell text, const char *characters)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr(characters, text.p[i]) != NULL) {
            return true;
        }
    }
    return false;
}

enum sl_status sl_names_put(struct sl_writer *writer, struct sl_text_cell text)
{
    const char *p = text.p;
    const bool quotes = text.n == 0 || p[0] == ' ' || p[0] == '#' || p[text.n - 1] == ' ' || has_any(text, ",\"\t\r");
    if (!quotes) {
        return sl_writer_put(writer, p, text.n);
    }
    SL_CHECK(sl_writer_put(writer, "\"", 1));
    for (size_t i = 0; i < text.n; i++) {
        SL_CHECK(sl_writer_put(writer, &p[i], 1));
        if (p[i] == '"') {
            SL_CHECK(sl_writer_put(writer, "\"", 1));
        }
    }
    return sl_writer_put(writer, "\"", 1);
}

void sl_names_free(struct sl_names *names)
{
    sl_free(names->texts);
    sl_free(names->slots);
    *names = (struct sl_names){0};
}

/* ---- Kinds of labels --------------------------------------------------------------------------------------------- */

void sl_label_kinds_count(struct sl_label_kinds *kinds, struct sl_text_cell label, uint64_t row)
{
    double value = NAN;
    const char *end = label.p + label.n;
    if (label.n > 0 && sl_number_real(label.p, end, &value) != end) {
        kinds->text = kinds->n_texts == 0 ? row : sl_min_u64(kinds->text, row);
        kinds->n_texts++;
    } else if (!isnan(value)) {
        kinds->number = kinds->n_numbers == 0 ? row : sl_min_u64(kinds->number, row);
        kinds->n_numbers++;
        kinds->fractions |= value != floor(value);
    }
}

static void tell_kinds(const char *where, const struct sl_label_kinds *kinds)
{
    if (kinds->n_numbers > 0) {
        sl_notify(SL_NOTICE_WARNING,
                  "%s: labels are text (first in row %llu) and numbers (first in row %llu): all are names of classes",
                  where, (unsigned long long)kinds->text + 1, (unsigned long long)kinds->number + 1);
    }
}

enum sl_status sl_label_classes(const char *where, const struct sl_label_kinds *kinds,
                                const struct sl_text_cell *labels, uint32_t n, struct sl_targets *out, char **names)
{
    SL_OWNED(sl_names_free) struct sl_names known = {0};
    SL_FREED int32_t *classes = NULL;
    SL_CHECK(sl_alloc(n, sizeof *classes, "targets", &classes));
    for (uint32_t v = 0; v < n; v++) {
        SL_CHECK(class_of(where, &known, labels[v], &classes[v]));
    }
    SL_CHECK(sort_classes(&known, classes, n));
    SL_CHECK(sl_names_list(&known, names));
    tell_kinds(where, kinds);
    *out = sl_targets_take_classes(SL_TAKE(classes), n);
    return SL_OK;
}
