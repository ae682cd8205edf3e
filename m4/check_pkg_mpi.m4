# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_MPI
# ------------
# StarPU-MPI and its MPI, for runs of several processes. Optional.
#
#   --with-mpi             fail without MPI
#   --with-mpi=PREFIX      MPI is in PREFIX
#   --without-mpi          do not search
#
# StarPU-MPI is searched in StarPU's folder. Substitutes SL_MPI_CPPFLAGS, which defines SL_MPI, and SL_MPI_LIBS. Both
# are empty without MPI.
AC_DEFUN([SL_CHECK_MPI], [
AC_REQUIRE([SL_CHECK_STARPU])
AS_IF([test "$SL_STARPU_MPI" = yes || test "${with_mpi-auto}" != auto],
      [SL_CHECK_PKG([mpi], [MPI], [mpi-c ompi-c mpich], [mpi.h], [mpi], [int n; return MPI_Initialized(&n)],
                    [libopenmpi-dev])
       AS_VAR_IF([sl_found_mpi], [yes], [SL_TRY_STARPU_MPI])],
      [sl_found_mpi=no SL_MPI_FOUND="not looked for: this StarPU is without MPI (./bootstrap --with-mpi builds one with)"])
AS_IF([test $sl_found_mpi = yes],
      [SL_MPI_CPPFLAGS="$SL_MPI_CPPFLAGS -DSL_MPI"],
      [SL_MPI_CPPFLAGS= SL_MPI_LIBS=])
AC_SUBST([SL_MPI_CPPFLAGS])
AC_SUBST([SL_MPI_LIBS])
AM_CONDITIONAL([HAVE_MPI], [test $sl_found_mpi = yes])
])

# SL_TRY_STARPU_MPI
# -----------------
# Check whether programs link with StarPU-MPI and MPI.
AC_DEFUN([SL_TRY_STARPU_MPI], [
sl_module=starpumpi-1.4
AS_CASE([$with_starpu],
    [/*], [sl_pkg_path=$with_starpu/lib/pkgconfig:$with_starpu/lib64/pkgconfig:$PKG_CONFIG_PATH],
    [sl_pkg_path=$PKG_CONFIG_PATH])
AC_MSG_CHECKING([whether programs link with $sl_module])
sl_starpu_mpi_libs=`PKG_CONFIG_PATH=$sl_pkg_path $PKG_CONFIG --libs $sl_module 2>/dev/null`
sl_save_CPPFLAGS=$CPPFLAGS sl_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $SL_STARPU_CPPFLAGS $SL_MPI_CPPFLAGS" LIBS="$sl_starpu_mpi_libs $SL_MPI_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([@%:@include <starpu_mpi.h>
], [[return starpu_mpi_init_conf(0, 0, 0, MPI_COMM_WORLD, 0)]])],
               [SL_MPI_LIBS="$sl_starpu_mpi_libs $SL_MPI_LIBS"], [sl_found_mpi=no])
CPPFLAGS=$sl_save_CPPFLAGS LIBS=$sl_save_LIBS
AC_MSG_RESULT([$sl_found_mpi])
AS_IF([test $sl_found_mpi = no],
      [SL_MPI_FOUND="$SL_MPI_FOUND is here, but a program with StarPU's part for it does not link: this StarPU is without (./bootstrap --with-mpi builds one with; see config.log)"
       AC_MSG_NOTICE([$SL_MPI_FOUND])
       AS_CASE([$with_mpi], [auto|no], [], [SL_ASKED_FOR([mpi])])])
])
