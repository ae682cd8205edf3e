# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_LIBRSVG
# ----------------
# librsvg: PNG files of `starling_data plot`. Without librsvg, the command writes SVG and HTML only. The program loads
# librsvg when it needs it (apps/report/raster.c), so it is compiled with its headers but not linked with it.
#
# Adds -DSL_LIBRSVG to SL_LIBRSVG_CPPFLAGS. SL_LIBRSVG_LIBS has what dlopen needs.
AC_DEFUN([SL_CHECK_LIBRSVG], [
SL_CHECK_PKG([librsvg], [librsvg], [librsvg-2.0], [librsvg/rsvg.h], [rsvg-2], [
@%:@if !LIBRSVG_CHECK_VERSION(2, 52, 0)
@%:@error no rsvg_handle_get_intrinsic_size_in_pixels
@%:@endif
    return rsvg_handle_render_document(NULL, NULL, NULL, NULL)], [librsvg2-dev])
AS_IF([test $sl_found_librsvg = yes], [SL_LIBRSVG_CPPFLAGS="$SL_LIBRSVG_CPPFLAGS -DSL_LIBRSVG" SL_LIBRSVG_LIBS=-ldl],
      [SL_LIBRSVG_CPPFLAGS= SL_LIBRSVG_LIBS=])
])
