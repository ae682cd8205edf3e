/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * SVG to PNG, by librsvg. A build without librsvg cannot do it.
 */
#ifndef SL_APPS_REPORT_RASTER_H
#define SL_APPS_REPORT_RASTER_H

#include <stddef.h>
#include <stdio.h>

#include "support/status.h"

/* Pixels of the PNG for each pixel of the drawing. */
#define SL_RASTER_SCALE 2

/* Load librsvg. SL_EINVAL: this build has no librsvg. SL_EIO: the library cannot be loaded. */
enum sl_status sl_raster_check(void);

/* Draw an SVG of `bytes` bytes, and write it as PNG. SL_EINVAL: no librsvg. SL_EFILE: no SVG. SL_EIO, SL_ENOMEM. */
enum sl_status sl_raster_png(const char *svg, size_t bytes, FILE *stream);

#endif
