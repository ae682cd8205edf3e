# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_STARPU
# ---------------
# StarPU 1.4, and its features: FxT (traces), CUDA, MPI. All three are optional. The summary shows FxT; code
# checks STARPU_USE_FXT in starpu.h. CUDA and MPI decide whether SL_CHECK_CUDA and SL_CHECK_MPI succeed.
AC_DEFUN([SL_CHECK_STARPU], [
SL_REQUIRE_PKG([starpu], [StarPU], [starpu-1.4], [starpu.h], [starpu-1.4], [starpu_init(0)], [libstarpu-dev],
               [SL_OLD_STARPU])
SL_STARPU_FXT= SL_STARPU_CUDA= SL_STARPU_MPI=
AS_VAR_IF([sl_found_starpu], [yes], [
    SL_STARPU_MACRO([STARPU_USE_FXT], [SL_STARPU_FXT])
    SL_STARPU_MACRO([STARPU_USE_CUDA], [SL_STARPU_CUDA])
    SL_STARPU_MPI=no
    AS_IF([SL_MODULE_EXISTS([starpumpi-1.4])], [SL_STARPU_MPI=yes])
    SL_STARPU_FOUND="$SL_STARPU_VERSION (FxT $SL_STARPU_FXT, CUDA $SL_STARPU_CUDA, MPI $SL_STARPU_MPI)"
])
])

# SL_OLD_STARPU
# -------------
# StarPU 1.4 is missing. Say so if an older version is there, such as Debian 12's.
AC_DEFUN([SL_OLD_STARPU], [
SL_STARPU_FOUND="missing: neither pkg-config nor the compiler finds it; ./bootstrap builds 1.4, or try --with-starpu=PREFIX"
for sl_module in starpu-1.3 starpu-1.2 starpu-1.1; do
    AS_IF([SL_MODULE_EXISTS([$sl_module])], [
        SL_STARPU_FOUND="too old: `PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --modversion $sl_module`; ./bootstrap builds 1.4"
        break
    ])
done
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
