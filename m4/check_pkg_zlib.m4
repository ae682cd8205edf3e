# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_ZLIB
# -------------
# zlib: datasets are gzip files.
AC_DEFUN([SL_CHECK_ZLIB], [
SL_REQUIRE_PKG([zlib], [zlib], [zlib], [zlib.h], [z], [return gzopen("", "r") == Z_NULL], [zlib1g-dev])
])
