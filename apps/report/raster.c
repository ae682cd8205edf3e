/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * librsvg draws, cairo writes. They are loaded when a picture is wanted. They take 100 MB of address space, and the
 * program is to start under a small `ulimit -v`, too. */
#include "apps/report/raster.h"

#ifdef SL_LIBRSVG

#include <dlfcn.h>
#include <librsvg/rsvg.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LIBRARY "librsvg-2.so.2"

/* The functions used: of librsvg, of cairo, of glib. */
#define FOR_EACH_FUNCTION(one)                                                                                         \
    one(rsvg_handle_new_from_data);                                                                                    \
    one(rsvg_handle_get_intrinsic_size_in_pixels);                                                                     \
    one(rsvg_handle_render_document);                                                                                  \
    one(cairo_image_surface_create);                                                                                   \
    one(cairo_surface_write_to_png_stream);                                                                            \
    one(cairo_surface_destroy);                                                                                        \
    one(cairo_create);                                                                                                 \
    one(cairo_scale);                                                                                                  \
    one(cairo_status);                                                                                                 \
    one(cairo_status_to_string);                                                                                       \
    one(cairo_destroy);                                                                                                \
    one(g_error_free);                                                                                                 \
    one(g_object_unref)

static struct {
#define DECLARE(name) __typeof__(name) *name
    FOR_EACH_FUNCTION(DECLARE);
#undef DECLARE
} api;

static bool find(void *library, const char *name, size_t bytes, void *function_out)
{
    void *address = dlsym(library, name);
    memcpy(function_out, &address, bytes);
    return address != NULL;
}

/* The library stays loaded until the program ends. */
enum sl_status sl_raster_check(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW);
    bool found = library != NULL;
#define FIND(name) found = found && find(library, #name, sizeof api.name, &api.name)
    FOR_EACH_FUNCTION(FIND);
#undef FIND
    if (!found) {
        return sl_fail(SL_EIO, "PNG files need " LIBRARY ": %.300s; write .svg or .html, or install librsvg",
                       dlerror());
    }
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
    api.rsvg_handle_get_intrinsic_size_in_pixels(handle, &width, &height);
    RsvgRectangle page = {0, 0, width, height};
    cairo_surface_t *surface = api.cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * SL_RASTER_SCALE),
                                                              (int)ceil(height * SL_RASTER_SCALE));
    cairo_t *cairo = api.cairo_create(surface);
    api.cairo_scale(cairo, SL_RASTER_SCALE, SL_RASTER_SCALE);
    if (!api.rsvg_handle_render_document(handle, cairo, &page, NULL) ||
        api.cairo_status(cairo) != CAIRO_STATUS_SUCCESS) {
        st = sl_fail(SL_ENOMEM, "librsvg cannot draw the picture: %s",
                     api.cairo_status_to_string(api.cairo_status(cairo)));
    } else if (api.cairo_surface_write_to_png_stream(surface, put, stream) != CAIRO_STATUS_SUCCESS) {
        st = sl_fail(SL_EIO, "the PNG cannot be written; is the disk full?");
    }
    api.cairo_destroy(cairo);
    api.cairo_surface_destroy(surface);
    return st;
}

enum sl_status sl_raster_png(const char *svg, size_t bytes, FILE *stream)
{
    GError *error = NULL;
    enum sl_status st = sl_raster_check();
    if (st != SL_OK) {
        return st;
    }
    RsvgHandle *handle = api.rsvg_handle_new_from_data((const guint8 *)svg, bytes, &error);
    if (handle == NULL) {
        st = sl_fail(SL_EFILE, "librsvg cannot read the picture: %.150s", error->message);
        api.g_error_free(error);
        return st;
    }
    st = draw(handle, stream);
    api.g_object_unref(handle);
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
