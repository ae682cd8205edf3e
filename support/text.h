/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Text that may be missing.
 */
#ifndef SL_SUPPORT_TEXT_H
#define SL_SUPPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

#define SL_QUOTED_BYTES 160

/* `text`, or `otherwise` if text is NULL. */
static inline const char *sl_text_or(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
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
