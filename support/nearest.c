/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distances between names. */
#include "support/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/minmax.h"

#define MAX_NAME 80

static int fold(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

static bool same(char a, char b)
{
    return fold(a) == fold(b);
}

/* Insertions, removals, replacements, and swaps of neighbours (Damerau 1964, Levenshtein 1966). A name that does
 * not fit a row is far away. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][MAX_NAME]; /* of letter i - 2, i - 1 and i of a, in turn */
    size_t n = strlen(b);
    size_t i = 0;
    if (n + 1 > MAX_NAME) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = j;
    }
    for (i = 1; a[i - 1] != '\0'; i++) {
        const size_t *older = rows[(i + 1) % 3];
        const size_t *old = rows[(i - 1) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = sl_min_u64(sl_min_u64(old[j], row[j - 1]) + 1, old[j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                row[j] = sl_min_u64(older[j - 2] + 1, row[j]);
            }
        }
    }
    return rows[(i - 1) % 3][n];
}

/* Whether the text begins with the n letters. */
static bool begins(const char *text, const char *letters, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] != '\0' && same(text[i], letters[i])) {
        i++;
    }
    return i == n;
}

/* Where the name has the n letters of some of its words; SIZE_MAX: nowhere. */
static size_t find_words(const char *name, const char *words, size_t n)
{
    for (size_t at = 0; n > 1 && name[at] != '\0'; at++) {
        bool starts = at == 0 || same(name[at - 1], '-');
        if (starts && begins(name + at, words, n) && (name[at + n] == '\0' || same(name[at + n], '-'))) {
            return at;
        }
    }
    return SIZE_MAX;
}

/* SIZE_MAX: not near. */
static size_t distance_of(const char *typed, const char *known)
{
    size_t n = strlen(typed);
    size_t n_known = strlen(known);
    size_t most = n < 5 ? 1 : n < 6 ? 2 : 3;
    size_t slips = edit_distance(typed, known);
    size_t at = find_words(typed, known, n_known);
    bool first = at == 0 || (n >= 3 && begins(known, typed, n)) || (n_known > 3 && begins(typed, known, n_known));
    if (slips > 1 && first) {
        return 3;
    }
    if (slips > 2 && at < n) {
        return 5;
    }
    return slips <= most && slips < n_known ? 2 * slips : SIZE_MAX;
}

void sl_nearest_offer(struct sl_nearest *nearest, const char *names, const char *answer)
{
    for (size_t n = 0; *names != '\0'; names += n + (names[n] == ',')) {
        char known[MAX_NAME];
        n = strcspn(names, ",");
        snprintf(known, sizeof known, "%.*s", (int)n, names);
        size_t distance = distance_of(nearest->typed, known);
        if (distance < nearest->distance) {
            nearest->distance = distance;
            nearest->answer = answer;
        }
    }
}
