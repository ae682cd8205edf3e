/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines of a label and a text. */
#include "support/lines.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_BYTES 2048 /* a longer text is cut */

/* Length of the words up to a comma, a semicolon or a colon. */
static size_t clause(const char *text)
{
    size_t n = strcspn(text, " ");
    while (text[n] != '\0' && (n == 0 || strchr(",;:", text[n - 1]) == NULL)) {
        n += 1 + strcspn(text + n + 1, " ");
    }
    return n;
}

void sl_print_line(FILE *stream, const char *label, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t column = (size_t)fprintf(stream, "%-*s ", SL_LINE_INDENT - 1, label); /* of the last letter */
    const char *end = text; /* of a clause that is too long for a line: broken at any word */
    for (const char *word = text; *word != '\0';) {
        size_t n = clause(word);
        if (word < end || n > SL_LINE_COLUMNS - SL_LINE_INDENT) {
            end = word + n;
            n = strcspn(word, " ");
        }
        if (word > text && column + 1 + n > SL_LINE_COLUMNS) {
            fprintf(stream, "\n%*s", SL_LINE_INDENT, "");
            column = SL_LINE_INDENT;
        } else if (word > text) {
            fputc(' ', stream);
            column++;
        }
        column += n;
        fprintf(stream, "%.*s", (int)n, word);
        word += n + (word[n] == ' ');
    }
    fputc('\n', stream);
}
