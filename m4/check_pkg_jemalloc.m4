# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_JEMALLOC
# -----------------
# jemalloc, with which the programs are linked in place of the C library's malloc: StarPU allocates a task where it is submitted and
# frees it on the worker that ran it, which jemalloc does in less time. Without it, or with a sanitizer, which has an allocator of
# its own, programs take the C library's. The library never brings it: that is for the program that uses it to say.
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
