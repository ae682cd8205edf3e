# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_ENABLE_BUNDLED_STARPU
# ------------------------
# --enable-bundled-starpu: `make install` copies the StarPU of --with-starpu=PREFIX into the prefix, and the run paths
# of all that is installed become relative. Programs then run for every user, wherever StarPU was built. With =private
# only StarPU's libraries are copied, into LIBDIR/starling. Needs patchelf.
#
# Substitutes SL_BUNDLED_STARPU (no, yes, private), SL_STARPU_PREFIX and PATCHELF.
AC_DEFUN([SL_ENABLE_BUNDLED_STARPU], [
AC_REQUIRE([SL_CHECK_STARPU])
AC_ARG_ENABLE([bundled-starpu],
    [AS_HELP_STRING([--enable-bundled-starpu@<:@=private@:>@],
                    [install the StarPU of --with-starpu=PREFIX, too; private: its libraries alone, into LIBDIR/starling @<:@no@:>@])],
    [], [enable_bundled_starpu=no])
AC_ARG_VAR([PATCHELF], [program that changes run paths])
SL_STARPU_PREFIX=
AS_CASE([$enable_bundled_starpu],
    [no], [],
    [yes|private], [
        AS_CASE([$with_starpu],
            [/*], [SL_STARPU_PREFIX=`readlink -f "$with_starpu"`],
            [AC_MSG_ERROR([--enable-bundled-starpu: name the StarPU to install by --with-starpu=PREFIX])])
        AC_CHECK_PROGS([PATCHELF], [patchelf], [no])
        AS_VAR_IF([PATCHELF], [no], [AC_MSG_ERROR([--enable-bundled-starpu needs patchelf: install the package patchelf])])
        AS_VAR_IF([prefix], [$with_starpu], [AC_MSG_ERROR([--enable-bundled-starpu: StarPU is in $prefix already; leave the option out])])
        AS_VAR_APPEND([SL_DISTCHECK_FLAGS], [" --enable-bundled-starpu=$enable_bundled_starpu"])
    ],
    [AC_MSG_ERROR([--enable-bundled-starpu=$enable_bundled_starpu: expected yes, no or private])])
AC_SUBST([SL_STARPU_PREFIX])
AC_SUBST([SL_BUNDLED_STARPU], [$enable_bundled_starpu])
])
