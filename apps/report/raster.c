/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * librsvg draws, cairo writes. */
#include "apps/report/raster.h"

#ifdef SL_LIBRSVG

#include <librsvg/rsvg.h>
#include <math.h>

enum sl_status sl_raster_check(void)
{
    return SL_OK;
}

static cairo_status_t put(void *stream, const unsigned char *data, unsigned bytes)
{
    if (fwrite(data, 1, bytes, stream) != bytes) {
        return CAIRO_STATUS_WRITE_ERROR;
    }
    return CAIRO_STATUS_SUCCESS;
}

static enum sl_status draw(RsvgHandle *handle, FILE *stream)
{
    double width = 0;
    double height = 0;
    enum sl_status st = SL_OK;
    rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height);
    RsvgRectangle page = {0, 0, width, height};
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * SL_RASTER_SCALE),
                                                          (int)ceil(height * SL_RASTER_SCALE));
    cairo_t *cairo = cairo_create(surface);
    cairo_scale(cairo, SL_RASTER_SCALE, SL_RASTER_SCALE);
    if (!rsvg_handle_render_document(handle, cairo, &page, NULL) || cairo_status(cairo) != CAIRO_STATUS_SUCCESS) {
        st = sl_fail(SL_ENOMEM, "librsvg cannot draw the picture: %s", cairo_status_to_string(cairo_status(cairo)));
    } else if (cairo_surface_write_to_png_stream(surface, put, stream) != CAIRO_STATUS_SUCCESS) {
        st = sl_fail(SL_EIO, "the PNG cannot be written; is the disk full?");
    }
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
    return st;
}

enum sl_status sl_raster_png(const char *svg, size_t bytes, FILE *stream)
{
    GError *error = NULL;
    RsvgHandle *handle = rsvg_handle_new_from_data((const guint8 *)svg, bytes, &error);
    if (handle == NULL) {
        enum sl_status st = sl_fail(SL_EFILE, "librsvg cannot read the picture: %.150s", error->message);
        g_error_free(error);
        return st;
    }
    enum sl_status st = draw(handle, stream);
    g_object_unref(handle);
    return st;
}

#else

enum sl_status sl_raster_check(void)
{
    return sl_fail(SL_EINVAL,
                   "this build cannot write PNG: it was built without librsvg. Write .svg or .html, or install "
                   "librsvg2-dev and build again");
}

enum sl_status sl_raster_png(const char *svg, size_t bytes, FILE *stream)
{
    (void)svg;
    (void)bytes;
    (void)stream;
    return sl_raster_check();
}

#endif
