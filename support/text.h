/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Text: a default, an ending, a quoted value.
 */
#ifndef SL_SUPPORT_TEXT_H
#define SL_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SL_QUOTED_BYTES 160

/* `text`, or `otherwise` if text is NULL. */
static inline const char *sl_text_or(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

/* Whether a text ends in `ending`, small or capital letters, and has more before it. */
static inline bool sl_text_ends_in(const char *text, const char *ending)
{
    const size_t n = strlen(text);
    const size_t m = strlen(ending);
    return n > m && strcasecmp(text + n - m, ending) == 0;
}

/* A value for messages: up to 150 bytes of it between quotes; none, if it is empty. `out` may hold it. */
static inline const char *sl_text_quoted(const char *value, char out[SL_QUOTED_BYTES])
{
    if (value[0] == '\0') {
        return "none";
    }
    snprintf(out, SL_QUOTED_BYTES, "'%.150s'", value);
    return out;
}

#endif
