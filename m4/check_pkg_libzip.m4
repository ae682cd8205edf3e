# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_LIBZIP
# ---------------
# libzip: NumPy's .npz archives.
AC_DEFUN([SL_CHECK_LIBZIP], [
SL_REQUIRE_PKG([libzip], [libzip], [libzip], [zip.h], [zip], [return zip_open_from_source(0, ZIP_RDONLY, 0) != 0],
               [libzip-dev])
])
