/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distances between names. */
#include "support/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "support/minmax.h"

static size_t smallest(size_t a, size_t b, size_t c)
{
    return sl_min_u64(sl_min_u64(a, b), c);
}

#define MAX_NAME 80

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
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
            row[j] = smallest(old[j] + 1, row[j - 1] + 1, old[j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                row[j] = sl_min_u64(older[j - 2] + 1, row[j]);
            }
        }
    }
    return rows[(i - 1) % 3][n];
}

size_t sl_name_distance(const char *typed, const char *known)
{
    size_t n = strlen(typed);
    size_t most = n < 5 ? 1 : n < 6 ? 2 : 3;
    size_t distance = edit_distance(typed, known);
    bool begins = n >= 3 && strncasecmp(known, typed, n) == 0;
    if (begins && distance > 1) {
        return 3;
    }
    return distance <= most && distance < strlen(known) ? 2 * distance : SIZE_MAX;
}
