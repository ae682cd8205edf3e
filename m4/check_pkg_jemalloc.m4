# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_JEMALLOC
# -----------------
# jemalloc, in place of the C library's malloc in the programs. StarPU allocates a task in the submitting thread and
# frees it on the worker that ran it; jemalloc does this faster. Without jemalloc, programs use the C library's
# malloc. With a sanitizer they use the sanitizer's. libstarling does not link jemalloc: each program chooses its
# allocator.
#
# Substitutes SL_MALLOC_LIBS.
AC_DEFUN([SL_CHECK_JEMALLOC], [
SL_CHECK_PKG([jemalloc], [jemalloc], [jemalloc], [stddef.h jemalloc/jemalloc.h], [jemalloc],
             [return mallctl("version", NULL, NULL, NULL, 0)], [libjemalloc-dev])
SL_MALLOC_LIBS=
AS_IF([test $sl_found_jemalloc = no], [],
      [test "$enable_sanitizer" != no], [SL_JEMALLOC_FOUND="$SL_JEMALLOC_FOUND, not used with a sanitizer"],
      [SL_MALLOC_LIBS="-Wl,--no-as-needed $SL_JEMALLOC_LIBS"])
AC_SUBST([SL_MALLOC_LIBS])
])
