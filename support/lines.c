/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines of a label and a text. */
#include "support/lines.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_BYTES 2048 /* a longer text is cut */

void sl_print_line(FILE *stream, const char *label, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t column = (size_t)fprintf(stream, "%-*s ", SL_LINE_INDENT - 1, label); /* of the last letter */
    for (const char *word = text; *word != '\0';) {
        size_t n = strcspn(word, " ");
        if (word > text && column + 1 + n > SL_LINE_COLUMNS) {
            fprintf(stream, "\n%*s", SL_LINE_INDENT, "");
            column = SL_LINE_INDENT;
        } else if (word > text) {
            fputc(' ', stream);
            column++;
        }
        column += n;
        fprintf(stream, "%.*s", (int)n, word);
        word += n + strspn(word + n, " ");
    }
    fputc('\n', stream);
}
