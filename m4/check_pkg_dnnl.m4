# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_DNNL
# -------------
# oneDNN, whose weight gradients are faster than OpenBLAS's. Without oneDNN, OpenBLAS computes all of them. Used on
# x86-64 only: oneDNN generates code for it alone. Builds with OpenMP or for a single thread are accepted: other thread
# libraries cannot be limited to the one thread of a product. oneDNN's pkg-config file, if it exists, does not name
# the OpenMP library.
#
# Adds -DSL_DNNL to SL_DNNL_CPPFLAGS.
AC_DEFUN([SL_CHECK_DNNL], [
SL_CHECK_PKG([dnnl], [oneDNN], [], [dnnl.h], [dnnl -lgomp], [
@%:@if !defined __x86_64__
@%:@error no fast products on this processor
@%:@endif
@%:@if DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP && DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
@%:@error neither OpenMP nor one thread
@%:@endif
    void omp_set_num_threads(int);
    float c = 0;
    omp_set_num_threads(1);
    return (int)dnnl_sgemm('N', 'N', 1, 1, 1, 1, &c, 1, &c, 1, 0, &c, 1)], [libdnnl-dev])
AS_IF([test $sl_found_dnnl = yes], [
    sl_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SL_DNNL_CPPFLAGS"
    AC_COMPUTE_INT([sl_major], [DNNL_VERSION_MAJOR], [[#include <dnnl_version.h>]], [sl_major=0])
    AC_COMPUTE_INT([sl_minor], [DNNL_VERSION_MINOR], [[#include <dnnl_version.h>]], [sl_minor=0])
    AC_COMPUTE_INT([sl_patch], [DNNL_VERSION_PATCH], [[#include <dnnl_version.h>]], [sl_patch=0])
    CPPFLAGS=$sl_save_CPPFLAGS
    SL_DNNL_VERSION=$sl_major.$sl_minor.$sl_patch
    SL_DNNL_FOUND=$SL_DNNL_VERSION
    SL_DNNL_CPPFLAGS="$SL_DNNL_CPPFLAGS -DSL_DNNL"
], [SL_DNNL_CPPFLAGS= SL_DNNL_LIBS=])
])
