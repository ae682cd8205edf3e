# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The skeleton of every dependency check.

# SL_CHECK_PKG(NAME, TITLE, MODULES, HEADERS, LIBRARY, STATEMENT, DEBIAN-PACKAGE, [IF-MISSING])
# ------------------------------------------------------------------------------------------
# Search for a dependency. First try pkg-config with each name in MODULES, then plain HEADERS and -lLIBRARY. LIBRARY
# may be empty, or bring another library along: [a -lb]. In both cases a program must link that includes HEADERS, in
# order, and runs STATEMENT. IF-MISSING may change SL_NAME_FOUND.
#
#   --with-NAME            fail without it
#   --without-NAME         do not search
#   --with-NAME=PREFIX     search in PREFIX only, and fail without it
#
# Failures are reported together by SL_CHECK_PKG_REPORT.
#
# Sets sl_found_NAME (yes, no). Substitutes SL_NAME_CPPFLAGS, SL_NAME_LIBS, SL_NAME_VERSION and SL_NAME_FOUND, the
# line of the summary. Headers are included with -isystem, because we cannot fix their warnings. Libraries outside the
# system's folders get a run path in SL_RUN_PATHS. CPPFLAGS and LIBS do not change.
AC_DEFUN([SL_CHECK_PKG], [
AC_REQUIRE([PKG_PROG_PKG_CONFIG])
m4_pushdef([SL_P], [SL_]m4_toupper([$1]))
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=PREFIX], [$2 is installed in PREFIX @<:@asks pkg-config@:>@])],
            [], [with_$1=auto])
sl_found_$1=no
SL_P[_CPPFLAGS]= SL_P[_LIBS]= SL_P[_VERSION]= SL_P[_MODULE]=
AC_MSG_CHECKING([for $2])
AS_CASE([$with_$1],
    [yes|auto], [sl_pkg_prefix= sl_pkg_path=$PKG_CONFIG_PATH],
    [no], [],
    [AS_CASE([$with_$1], [/*], [], [AC_MSG_ERROR([--with-$1=$with_$1: expected an absolute path])])
     sl_pkg_prefix=$with_$1
     sl_pkg_path=$with_$1/lib/pkgconfig:$with_$1/lib64/pkgconfig:$with_$1/share/pkgconfig:$PKG_CONFIG_PATH
     AS_VAR_APPEND([SL_DISTCHECK_FLAGS], [" --with-$1='$with_$1'"])])
AS_VAR_IF([with_$1], [no], [SL_P[_FOUND]="switched off"], [
    for sl_module in $3; do
        AS_IF([SL_MODULE_EXISTS([$sl_module])], [
            SL_P[_MODULE]=$sl_module
            SL_P[_CPPFLAGS]=`PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --cflags $sl_module | sed 's|-I */|-isystem /|g'`
            SL_P[_LIBS]=`PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --libs $sl_module`
            SL_P[_VERSION]=`PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --modversion $sl_module`
            break
        ])
    done
    AS_VAR_IF([SL_P[_MODULE]], [], [
        SL_P[_LIBS]="m4_ifval([$5], [-l$5])"
        AS_VAR_IF([sl_pkg_prefix], [], [sl_pkg_there=yes], [
            SL_FIND_FILES([$sl_pkg_prefix], [$4], [$5])
            SL_P[_CPPFLAGS]="-isystem $sl_pkg_prefix/include"
            SL_P[_LIBS]="m4_ifval([$5], [-L$sl_pkg_libdir -l$5])"
        ])
    ], [sl_pkg_there=yes])
    AS_VAR_IF([sl_pkg_there], [yes], [
        SL_ADD_RUN_PATH([$SL_P[_LIBS]])
        sl_save_CPPFLAGS=$CPPFLAGS sl_save_LIBS=$LIBS
        CPPFLAGS="$CPPFLAGS $SL_P[_CPPFLAGS]" LIBS="$SL_P[_LIBS] $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([m4_foreach_w([sl_h], [$4], [@%:@include <sl_h>
])], [[$6]])], [sl_found_$1=yes], [])
        CPPFLAGS=$sl_save_CPPFLAGS LIBS=$sl_save_LIBS
    ])
    AS_IF([test $sl_found_$1 = yes],
          [SL_P[_FOUND]=${SL_P[_VERSION]:-found}],
          [test -n "$SL_P[_MODULE]"],
          [SL_P[_FOUND]="pkg-config knows $SL_P[_MODULE], but a program with it does not link (see config.log)"],
          [test -n "$sl_pkg_prefix"],
          [SL_P[_FOUND]="missing in $sl_pkg_prefix: expected m4_ifval([$3], [lib/pkgconfig/SL_FIRST_WORD([$3]).pc, or ])include/SL_LAST_WORD([$4])[]m4_ifval([$5], [ and lib/lib[]SL_FIRST_WORD([$5]).so])"],
          [SL_P[_FOUND]="missing: neither pkg-config nor the compiler finds it; try the Debian package $7 or --with-$1=PREFIX"
           $8])
    AS_IF([test $sl_found_$1 = no && test "$with_$1" != auto], [SL_ASKED_FOR([$1])])
])
AC_MSG_RESULT([$SL_P[_FOUND]])
AC_SUBST(SL_P[_CPPFLAGS])
AC_SUBST(SL_P[_LIBS])
AC_SUBST(SL_P[_VERSION])
m4_popdef([SL_P])
])

# SL_MODULE_EXISTS(MODULE)
# ------------------------
# A shell command: whether pkg-config knows MODULE, by a file in $sl_pkg_prefix if that is set.
m4_define([SL_MODULE_EXISTS], [dnl
PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --exists $1 2>/dev/null &&
         case `PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --variable=pcfiledir $1`/ in @%:@(
           "${sl_pkg_prefix%/}"/*) :;; @%:@(
           *) false;; esac])

# SL_FIRST_WORD(WORDS), SL_LAST_WORD(WORDS)
# -----------------------------------------
m4_define([SL_FIRST_WORD], [m4_bpatsubst([$1], [ .*$])])
m4_define([SL_LAST_WORD], [m4_bpatsubst([$1], [^.* ])])

# SL_FIND_FILES(PREFIX, HEADERS, LIBRARY)
# ---------------------------------------
# Set sl_pkg_there to yes if PREFIX has the last of HEADERS and LIBRARY, and sl_pkg_libdir to the folder of LIBRARY.
# The compiler also searches the system's folders, so a program that links does not show that PREFIX has them.
AC_DEFUN([SL_FIND_FILES], [
sl_pkg_there=no sl_pkg_libdir=
AS_IF([test -e "$1/include/SL_LAST_WORD([$2])"], [m4_ifval([$3], [
    for sl_dir in "$1/lib" "$1/lib64" "$1"/lib/*; do
        AS_IF([test -e "$sl_dir/lib[]SL_FIRST_WORD([$3]).so" || test -e "$sl_dir/lib[]SL_FIRST_WORD([$3]).a"],
              [sl_pkg_there=yes sl_pkg_libdir=$sl_dir; break])
    done], [sl_pkg_there=yes])])
])

# SL_ASKED_FOR(NAME)
# ------------------
# The caller of configure asked for NAME, and it is missing.
AC_DEFUN([SL_ASKED_FOR], [
AS_CASE([$with_$1],
    [yes], [AS_VAR_APPEND([sl_asked_for], [" --with-$1"])],
    [AS_VAR_APPEND([sl_asked_for], [" --with-$1=$with_$1"])])
])

# SL_REQUIRE_PKG(NAME, ...)
# -------------------------
# SL_CHECK_PKG for a required dependency.
AC_DEFUN([SL_REQUIRE_PKG], [
SL_CHECK_PKG($@)
AS_VAR_IF([sl_found_$1], [yes], [], [AS_VAR_APPEND([sl_missing], [" $2"])])
])

# SL_CHECK_PKG_REPORT
# -------------------
# Stop if dependencies are missing that are required, or that the caller asked for. The message names all of them.
AC_DEFUN([SL_CHECK_PKG_REPORT], [
AS_VAR_IF([sl_asked_for], [], [], [
    AC_MSG_ERROR([these were asked for and are not there:$sl_asked_for. The lines above say what was expected where])
])
AS_VAR_IF([sl_missing], [], [], [
    AC_MSG_ERROR([these are missing:$sl_missing. The lines above say where they were looked for; ./bootstrap installs them all])
])
])

# SL_ADD_RUN_PATH(LIBRARIES)
# --------------------------
# Add a run path to SL_RUN_PATHS for each -L folder in a list of libraries, unless the dynamic linker searches the
# folder by default. Programs then start without LD_LIBRARY_PATH.
AC_DEFUN([SL_ADD_RUN_PATH], [
AC_SUBST([SL_RUN_PATHS])
for sl_flag in $1; do
    AS_CASE([$sl_flag],
        [-L/usr/lib*|-L/usr/local/lib*|-L/lib*], [],
        [-L/*], [
            sl_flag=-Wl,-rpath,${sl_flag@%:@-L}
            AS_CASE([" $SL_RUN_PATHS "], [*" $sl_flag "*], [], [AS_VAR_APPEND([SL_RUN_PATHS], [" $sl_flag"])])
        ])
done
])
