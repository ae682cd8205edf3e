/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distances between names. */
#include "support/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein 1966. A name that does not fit the row is far away. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[80];
    size_t n = strlen(b);
    if (n + 1 > sizeof row / sizeof *row) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t replaced = corner + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            corner = row[j];
            row[j] = smallest(row[j] + 1, row[j - 1] + 1, replaced);
        }
    }
    return row[n];
}

size_t sl_name_distance(const char *typed, const char *known)
{
    size_t n = strlen(typed);
    size_t most = n < 6 ? 2 : 3;
    size_t distance = edit_distance(typed, known);
    if (n >= 3 && strncasecmp(known, typed, n) == 0 && distance > 1) {
        distance = 1;
    }
    return distance <= most && distance < strlen(known) ? distance : SIZE_MAX;
}
