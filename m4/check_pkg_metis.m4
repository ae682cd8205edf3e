# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_METIS
# --------------
# METIS 5: graph partitioning. Most installations have no pkg-config file, so the version is read from the header.
AC_DEFUN([SL_CHECK_METIS], [
SL_REQUIRE_PKG([metis], [METIS], [metis], [metis.h], [metis],
               [idx_t options@<:@METIS_NOPTIONS@:>@; return METIS_SetDefaultOptions(options)], [libmetis-dev])
AS_IF([test $sl_found_metis = yes && test -z "$SL_METIS_VERSION"], [
    sl_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SL_METIS_CPPFLAGS"
    AC_COMPUTE_INT([sl_major], [METIS_VER_MAJOR], [[#include <metis.h>]], [sl_major=0])
    AC_COMPUTE_INT([sl_minor], [METIS_VER_MINOR], [[#include <metis.h>]], [sl_minor=0])
    AC_COMPUTE_INT([sl_bits], [IDXTYPEWIDTH], [[#include <metis.h>]], [sl_bits=0])
    CPPFLAGS=$sl_save_CPPFLAGS
    SL_METIS_VERSION=$sl_major.$sl_minor
    SL_METIS_FOUND="$SL_METIS_VERSION ($sl_bits-bit ids)"
])
])
