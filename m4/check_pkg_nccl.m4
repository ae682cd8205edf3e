# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_NCCL
# -------------
# NCCL, which moves rows between GPUs (--transport nccl). Optional; only with CUDA.
#
#   --with-nccl            fail without NCCL
#   --with-nccl=DIR        NCCL is in DIR (DIR/include/nccl.h)
#   --without-nccl         do not search
#
# Extends SL_CUDA_CPPFLAGS, also with SL_NCCL, and SL_CUDA_LIBS. Sets SL_NCCL_FOUND.
AC_DEFUN([SL_CHECK_NCCL], [
AC_REQUIRE([SL_CHECK_CUDA])
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl=DIR], [NCCL is in DIR @<:@where the compiler or CUDA has it@:>@])],
            [], [with_nccl=auto])
sl_found_nccl=no sl_nccl_cppflags= sl_nccl_libs="-lnccl"
AS_CASE([$with_nccl],
    [/*], [SL_FIND_FILES([$with_nccl], [nccl.h], [nccl])
           sl_nccl_cppflags="-isystem $with_nccl/include" sl_nccl_libs="-L$sl_pkg_libdir -lnccl"],
    [no|yes|auto], [],
    [AC_MSG_ERROR([--with-nccl=$with_nccl: expected an absolute path])])
AS_CASE([$with_nccl], [/*], [], [sl_pkg_there=yes])
AS_IF([test "$with_nccl" = no], [SL_NCCL_FOUND="switched off"],
      [test $sl_pkg_there = no], [SL_NCCL_FOUND="missing in $with_nccl: expected include/nccl.h and lib/libnccl.so"],
      [test $sl_found_cuda = no], [SL_NCCL_FOUND="not looked for: no CUDA"],
      [SL_TRY_NCCL])
AS_CASE([$with_nccl], [no|auto], [],
    [AS_IF([test $sl_found_nccl = no], [
        AC_MSG_NOTICE([NCCL: $SL_NCCL_FOUND])
        SL_ASKED_FOR([nccl])
    ])])
AS_CASE([$with_nccl], [/*|no], [AS_VAR_APPEND([SL_DISTCHECK_FLAGS], [" --with-nccl='$with_nccl'"])])
])

# SL_TRY_NCCL
# -----------
# Check whether programs link with NCCL 2.14 or later, which has non-blocking communicators.
AC_DEFUN([SL_TRY_NCCL], [
AC_MSG_CHECKING([for NCCL 2.14 or later])
sl_save_CPPFLAGS=$CPPFLAGS sl_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $sl_nccl_cppflags $SL_CUDA_CPPFLAGS" LIBS="$sl_nccl_libs $SL_CUDA_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([@%:@include <nccl.h>
@%:@if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
@%:@error too old
@%:@endif
], [[ncclComm_t comm = 0; ncclUniqueId id; ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
     return (int)ncclGetUniqueId(&id) + (int)ncclCommInitRankConfig(&comm, 1, id, 0, &config)]])], [sl_found_nccl=yes])
AC_COMPUTE_INT([sl_nccl_version], [NCCL_VERSION_CODE], [@%:@include <nccl.h>], [sl_nccl_version=0])
CPPFLAGS=$sl_save_CPPFLAGS LIBS=$sl_save_LIBS
AC_MSG_RESULT([$sl_found_nccl])
AS_IF([test $sl_found_nccl = yes],
      [SL_NCCL_FOUND="2.`expr $sl_nccl_version / 100 % 100`.`expr $sl_nccl_version % 100`"
       SL_CUDA_CPPFLAGS="$sl_nccl_cppflags $SL_CUDA_CPPFLAGS -DSL_NCCL"
       SL_CUDA_LIBS="$sl_nccl_libs $SL_CUDA_LIBS"
       SL_ADD_RUN_PATH([$sl_nccl_libs])],
      [test $sl_nccl_version != 0 && test $sl_nccl_version -lt 21400], [SL_NCCL_FOUND="too old, 2.14 is the first that will do: --transport nccl is not there"],
      [SL_NCCL_FOUND="not found: --transport nccl is not there (--with-nccl=DIR, see config.log)"])
])
