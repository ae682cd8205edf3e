/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The elements of drawings. */
#include "apps/report/svg.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The length of the UTF-8 character at `text`, 2 to 4 bytes. 0: no character that XML allows. */
static size_t long_character(const unsigned char *text, size_t n)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = 2;
    if (text[0] >= 0xf0) {
        length = 4;
    } else if (text[0] >= 0xe0) {
        length = 3;
    }
    if (text[0] < 0xc2 || text[0] > 0xf4 || n < length) {
        return 0;
    }
    unsigned code = text[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool reserved = code == 0xfffe || code == 0xffff;
    if (code < least[length] || code > 0x10ffff || surrogate || reserved) {
        return 0;
    }
    return length;
}

void sl_xml_put(FILE *stream, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char letter = (unsigned char)text[i];
        if (letter >= 0x80) {
            size_t length = long_character((const unsigned char *)text + i, n - i);
            if (length == 0) {
                fputc('?', stream);
            } else {
                fwrite(text + i, 1, length, stream);
                i += length - 1;
            }
            continue;
        }
        switch (letter) {
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '&': fputs("&amp;", stream); break;
        case '"': fputs("&quot;", stream); break;
        default: fputc(letter < ' ' ? '?' : letter, stream);
        }
    }
}

void sl_svg_text(FILE *stream, double x, double y, const char *anchor, const char *text)
{
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    sl_xml_put(stream, text, strlen(text));
    fputs("</text>\n", stream);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

void sl_svg_begin(FILE *stream, double width, double height)
{
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"14\" fill=\"#222\">\n"
            "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n",
            width, height, width, height, width, height);
}

void sl_svg_box(FILE *stream, double x, double y, double width, double height, unsigned colour)
{
    fprintf(stream, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"#%06x\"", x, y, width, height,
            colour);
}

unsigned sl_svg_colour(size_t i)
{
    static const unsigned colours[SL_SVG_COLOURS] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7,
                                                     0x000000, 0xe69f00, 0x56b4e9, 0x7f6a00};
    return colours[i % SL_SVG_COLOURS];
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

void sl_page_begin(FILE *stream, const char *title, int width)
{
    fprintf(stream,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n<style>"
            "body{font-family:sans-serif;margin:1.5em;max-width:%dpx;color:#222}svg{width:100%%;height:auto}"
            "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}"
            "td:first-child,.words td,th{text-align:left}p{margin:.3em 0}.p:hover{fill-opacity:.35}</style></head>"
            "<body>\n",
            title, width);
}

void sl_page_end(FILE *stream)
{
    fputs("</body></html>\n", stream);
}

/* ---- ticks ------------------------------------------------------------------------------------------------------- */

double sl_svg_tick(double span, int n)
{
    double power = pow(10, floor(log10(span / n)));
    double rest = span / n / power;
    if (rest >= 5) {
        return 5 * power;
    }
    return rest >= 2 ? 2 * power : power;
}

int sl_svg_decimals(double tick)
{
    return (int)fmax(0, ceil(-log10(tick) - 1e-9));
}

/* ---- whole drawings ---------------------------------------------------------------------------------------------- */

enum sl_status sl_svg_open(struct sl_svg_body *body)
{
    *body = (struct sl_svg_body){0};
    body->stream = open_memstream(&body->text, &body->bytes);
    if (body->stream == NULL) {
        return sl_fail(SL_ENOMEM, "no memory for a drawing");
    }
    return SL_OK;
}

enum sl_status sl_svg_close(struct sl_svg_body *body, enum sl_status st, double width, double height, FILE *stream)
{
    bool lost = ferror(body->stream) != 0;
    if ((fclose(body->stream) != 0 || lost) && st == SL_OK) {
        st = sl_fail(SL_ENOMEM, "no memory for a drawing");
    }
    if (st == SL_OK) {
        sl_svg_begin(stream, width, height);
        fwrite(body->text, 1, body->bytes, stream);
        fputs("</svg>\n", stream);
    }
    free(body->text);
    return st;
}
