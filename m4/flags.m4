# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# The project's own flags, in SL_CFLAGS and SL_LDFLAGS. The Makefile puts them before the user's flags.

# SL_APPEND_CFLAG(FLAG, [VARIABLE=SL_CFLAGS])
# -------------------------------------------
# Add FLAG to VARIABLE if the compiler accepts it. -Werror makes compilers fail that only warn about unknown flags.
AC_DEFUN([SL_APPEND_CFLAG], [
AC_MSG_CHECKING([whether $CC accepts $1])
sl_save_CFLAGS=$CFLAGS
CFLAGS="-Werror $1"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes])
     AS_VAR_APPEND(m4_default([$2], [SL_CFLAGS]), [" $1"])],
    [AC_MSG_RESULT([no])])
CFLAGS=$sl_save_CFLAGS
])

# SL_ENABLE_DEBUG
# ---------------
# --enable-debug: code for debuggers instead of fast code.
AC_DEFUN([SL_ENABLE_DEBUG], [
AC_ARG_ENABLE([debug], [AS_HELP_STRING([--enable-debug], [no optimisation, all symbols @<:@no@:>@])],
              [], [enable_debug=no])
AC_SUBST([SL_CFLAGS])
AC_SUBST([SL_LDFLAGS])
AC_SUBST([SL_TEST_CFLAGS])
AS_VAR_IF([enable_debug], [no],
    [SL_CFLAGS="-O3" SL_TEST_CFLAGS="-O1" SL_BUILD_KIND="optimised"],
    [SL_CFLAGS="-O0 -g3" SL_BUILD_KIND="for debugging"])
])

# SL_ENABLE_SANITIZER
# -------------------
# --enable-sanitizer=LIST: a build with sanitizers. The compiler must accept the flag, and its run-time library must
# exist.
AC_DEFUN([SL_ENABLE_SANITIZER], [
AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=LIST], [build with sanitizers: address,undefined or thread @<:@no@:>@])],
    [], [enable_sanitizer=no])
AS_CASE([$enable_sanitizer],
    [yes], [enable_sanitizer=address,undefined],
    [no|address|undefined|thread|address,undefined|undefined,address|thread,undefined|undefined,thread], [],
    [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: expected address, undefined, thread or a list of them])])
AC_SUBST([SL_SANITIZER_FLAGS])
AC_SUBST([SL_EMULATE_FLAGS])
# Simulated CUDA sources (tests/local.am): a misaligned access ends the program, as on a GPU, without a run-time
# library.
SL_EMULATE_FLAGS="-fsanitize=alignment -fsanitize-undefined-trap-on-error"
AS_VAR_IF([enable_sanitizer], [no], [], [
    SL_SANITIZER_FLAGS="-fsanitize=$enable_sanitizer -fno-sanitize-recover=all -fno-omit-frame-pointer"
    AC_MSG_CHECKING([whether $CC links with $SL_SANITIZER_FLAGS])
    sl_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SL_SANITIZER_FLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])], [
        AC_MSG_RESULT([no])
        AC_MSG_ERROR([the sanitizer library of $CC is missing; install it, or leave out --enable-sanitizer])
    ])
    CFLAGS=$sl_save_CFLAGS
    SL_CFLAGS="-O1 -g $SL_SANITIZER_FLAGS" SL_TEST_CFLAGS= SL_LDFLAGS="$SL_LDFLAGS $SL_SANITIZER_FLAGS"
    SL_EMULATE_FLAGS=$SL_SANITIZER_FLAGS
    SL_BUILD_KIND="with sanitizers"
])
])

# SL_ENABLE_COVERAGE
# ------------------
# --enable-coverage: count executed lines (gcov).
AC_DEFUN([SL_ENABLE_COVERAGE], [
AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage], [count executed lines @<:@no@:>@])],
              [], [enable_coverage=no])
AS_VAR_IF([enable_coverage], [no], [], [
    SL_CFLAGS="-O0 -g --coverage" SL_TEST_CFLAGS= SL_LDFLAGS="$SL_LDFLAGS --coverage" SL_BUILD_KIND="for coverage"
])
])

# SL_ENABLE_WERROR
# ----------------
# The project's warnings, and --enable-werror, which turns them into errors. The default is yes in a git checkout,
# where a developer can fix warnings, and no in a tarball: new warnings of a newer compiler must not stop a user's
# build. SL_CONVERSION_CFLAGS is for support, data and partition: their numbers are sizes, offsets and file contents,
# which must not change silently.
# -ffp-contract=off: sampling decisions compare rounded values and must not depend on the target's instructions.
AC_DEFUN([SL_ENABLE_WERROR], [
m4_foreach_w([sl_f], [-std=gnu11 -fno-math-errno -ffp-contract=off -pthread
                      -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla],
             [SL_APPEND_CFLAG(sl_f)])
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [warnings are errors @<:@yes in a git checkout@:>@])],
              [], [AS_IF([test -e "$srcdir/.git"], [enable_werror=yes], [enable_werror=no])])
AS_VAR_IF([enable_werror], [no], [], [SL_APPEND_CFLAG([-Werror])
    m4_foreach_w([sl_f], [-Wconversion -Wsign-conversion], [SL_APPEND_CFLAG(sl_f, [SL_CONVERSION_CFLAGS])
    ])
    SL_NVCC_WERROR="-Werror all-warnings"])
AC_SUBST([SL_NVCC_WERROR])
AC_SUBST([SL_CONVERSION_CFLAGS])
])
