# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_STARPU
# ---------------
# StarPU 1.4 or 1.3, and its features: FxT (traces), CUDA, MPI. All three are optional. The summary shows FxT; code
# checks STARPU_USE_FXT in starpu.h. CUDA and MPI decide whether SL_CHECK_CUDA and SL_CHECK_MPI succeed.
AC_DEFUN([SL_CHECK_STARPU], [
SL_REQUIRE_PKG([starpu], [StarPU], [starpu-1.4 starpu-1.3], [starpu.h], [starpu-1.4], [starpu_init(0)], [libstarpu-dev])
SL_STARPU_FXT= SL_STARPU_CUDA= SL_STARPU_MPI=
AS_VAR_IF([sl_found_starpu], [yes], [
    SL_STARPU_MACRO([STARPU_USE_FXT], [SL_STARPU_FXT])
    SL_STARPU_MACRO([STARPU_USE_CUDA], [SL_STARPU_CUDA])
    SL_STARPU_MPI=no
    AS_IF([PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --exists starpumpi-${SL_STARPU_MODULE@%:@starpu-} 2>/dev/null],
          [SL_STARPU_MPI=yes])
    SL_STARPU_FOUND="$SL_STARPU_VERSION (FxT $SL_STARPU_FXT, CUDA $SL_STARPU_CUDA, MPI $SL_STARPU_MPI)"
])
])

# SL_STARPU_MACRO(MACRO, VARIABLE)
# --------------------------------
# Set VARIABLE to yes if StarPU's headers define MACRO, otherwise to no.
AC_DEFUN([SL_STARPU_MACRO], [
sl_save_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $SL_STARPU_CPPFLAGS"
AC_MSG_CHECKING([whether StarPU defines $1])
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include <starpu_config.h>
#ifndef $1
#error "not defined"
#endif
]])], [$2=yes], [$2=no])
AC_MSG_RESULT([$$2])
CPPFLAGS=$sl_save_CPPFLAGS
])
