/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Text that may be missing.
 */
#ifndef SL_SUPPORT_TEXT_H
#define SL_SUPPORT_TEXT_H

#include <stddef.h>

/* `text`, or `otherwise` if text is NULL. */
static inline const char *sl_text_or(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

#endif
