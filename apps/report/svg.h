/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * SVG by hand: the elements, axis ticks and colours that all pictures share. Also the frame of HTML pages.
 */
#ifndef SL_APPS_REPORT_SVG_H
#define SL_APPS_REPORT_SVG_H

#include <stddef.h>
#include <stdio.h>

#include "support/status.h"

/* Write `n` bytes of text with XML's special characters escaped. Bytes that XML does not allow, or that are not UTF-8,
 * become '?'. */
void sl_xml_put(FILE *stream, const char *text, size_t n);

/* Write the first line of a drawing, and a white background. The last line is "</svg>". The drawing can stand inside a
 * page, as no XML header is written. */
void sl_svg_begin(FILE *stream, double width, double height);

/* Write a text at (x, y). `anchor`: "start", "middle" or "end". */
void sl_svg_text(FILE *stream, double x, double y, const char *anchor, const char *text);

/* Start a filled rectangle. The caller closes the element. */
void sl_svg_box(FILE *stream, double x, double y, double width, double height, unsigned colour);

/* The largest of 1, 2, 5 x 10^k that gives at least `n` ticks in `span` > 0. */
double sl_svg_tick(double span, int n);

/* The decimals that tell apart multiples of `tick`. */
int sl_svg_decimals(double tick);

/* Colours of curves on white, for colour-blind readers too (after Okabe and Ito). */
#define SL_SVG_COLOURS 8
unsigned sl_svg_colour(size_t i);

/* Begin and end an HTML page that needs no other file. `width`: of its text and drawings, at most, in pixels. */
void sl_page_begin(FILE *stream, const char *title, int width);
void sl_page_end(FILE *stream);

/* A drawing whose height is known only at its end: write to `stream`, then call sl_svg_close. */
struct sl_svg_body {
    FILE *stream;
    char *text;
    size_t bytes;
};

/* SL_ENOMEM. */
enum sl_status sl_svg_open(struct sl_svg_body *body);

/* Write the whole drawing to `stream` if `st` is SL_OK. Release the body in any case. Returns `st`, or SL_ENOMEM. */
enum sl_status sl_svg_close(struct sl_svg_body *body, enum sl_status st, double width, double height, FILE *stream);

#endif
