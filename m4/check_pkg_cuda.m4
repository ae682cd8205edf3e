# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_CUDA
# -------------
# The CUDA Toolkit: nvcc, cuBLAS, cuSPARSE. Comes after SL_CHECK_STARPU: StarPU runs our kernels, so it must be built
# with CUDA.
#
#   --with-cuda            fail without CUDA
#   --with-cuda=DIR        the toolkit is in DIR (DIR/bin/nvcc)
#   --without-cuda         do not search
#   NVCC_GENCODE           the architectures, as nvcc's -gencode options [all from sm_75 on that the toolkit supports]
#
# Substitutes NVCC, NVCC_GENCODE, SL_CUDA_CPPFLAGS, SL_CUDA_LIBS and SL_CUDA_FOUND. Sets the conditional HAVE_CUDA.
# SL_CUDA_CPPFLAGS defines SL_CUDA.
AC_DEFUN([SL_CHECK_CUDA], [
AC_REQUIRE([SL_CHECK_STARPU])
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [the CUDA Toolkit is in DIR @<:@where nvcc is@:>@])],
            [], [with_cuda=auto])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCC_GENCODE], [architectures, as -gencode options @<:@sm_75 to the newest@:>@])
sl_cuda_version= sl_found_cuda=no
SL_CUDA_CPPFLAGS= SL_CUDA_LIBS=
AS_CASE([$with_cuda],
    [no|yes|auto], [sl_cuda_path=$PATH:/usr/local/cuda/bin],
    [/*], [sl_cuda_path=$with_cuda/bin],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: expected an absolute path])])
AS_VAR_IF([with_cuda], [no], [NVCC= SL_CUDA_FOUND="switched off"], [
    AS_CASE([$with_cuda],
        [/*], [AS_IF([test -n "$NVCC" && test "$NVCC" != "$with_cuda/bin/nvcc"],
                     [AC_MSG_ERROR([NVCC=$NVCC is not in --with-cuda=$with_cuda; leave one of them out])])
               AS_IF([test -x "$with_cuda/bin/nvcc"], [NVCC=$with_cuda/bin/nvcc])],
        [AC_PATH_PROG([NVCC], [nvcc], [], [$sl_cuda_path])])
    AS_IF([test -z "$NVCC"], [SL_CUDA_FOUND="no toolkit: nvcc is not in $sl_cuda_path; try --with-cuda=DIR"], [SL_TRY_CUDA])
    AS_VAR_IF([sl_found_cuda], [no], [
        AS_VAR_IF([with_cuda], [auto], [], [AC_MSG_NOTICE([CUDA: $SL_CUDA_FOUND])
                                            SL_ASKED_FOR([cuda])])
    ])
])
AS_CASE([$with_cuda], [/*|no], [AS_VAR_APPEND([SL_DISTCHECK_FLAGS], [" --with-cuda='$with_cuda'"])])
AC_SUBST([SL_CUDA_CPPFLAGS])
AC_SUBST([SL_CUDA_LIBS])
AC_SUBST([SL_CUDA_FOUND])
AM_CONDITIONAL([HAVE_CUDA], [test $sl_found_cuda = yes])
])

# SL_TRY_CUDA
# -----------
# nvcc was found. Check the libraries and StarPU, and set SL_CUDA_FOUND.
AC_DEFUN([SL_TRY_CUDA], [
sl_cuda_prefix=`readlink -f "$NVCC"`
sl_cuda_prefix=`dirname "$sl_cuda_prefix"`
sl_cuda_prefix=`dirname "$sl_cuda_prefix"`
sl_cuda_version=`"$NVCC" --version | sed -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p'`
sl_cuda_cppflags= sl_cuda_libs="-lcusparse -lcublas -lcudart"
for sl_dir in "$sl_cuda_prefix/lib64" "$sl_cuda_prefix/lib" "$sl_cuda_prefix"/targets/*/lib; do
    AS_IF([test -e "$sl_dir/libcudart.so"], [sl_cuda_libs="-L$sl_dir $sl_cuda_libs"; break])
done
AS_VAR_IF([sl_cuda_prefix], [/usr], [], [sl_cuda_cppflags="-isystem $sl_cuda_prefix/include"])
AC_MSG_CHECKING([whether programs link with the CUDA Toolkit $sl_cuda_version])
sl_save_CPPFLAGS=$CPPFLAGS sl_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $sl_cuda_cppflags" LIBS="$sl_cuda_libs $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([@%:@include <cuda_runtime_api.h>
@%:@include <cublas_v2.h>
@%:@include <cusparse.h>
], [[int n = 0; cublasHandle_t b; cusparseHandle_t s;
     return (int)cudaGetDeviceCount(&n) + (int)cublasCreate(&b) + (int)cusparseCreate(&s)]])], [sl_cuda_links=yes], [sl_cuda_links=no])
AC_MSG_RESULT([$sl_cuda_links])
CPPFLAGS=$sl_save_CPPFLAGS LIBS=$sl_save_LIBS
AS_IF([test $sl_cuda_links = no],
      [SL_CUDA_FOUND="toolkit $sl_cuda_version in $sl_cuda_prefix, but a program with it does not link (see config.log)"],
      [test "$SL_STARPU_CUDA" != yes],
      [SL_CUDA_FOUND="toolkit $sl_cuda_version is here, but this StarPU is without CUDA: no GPU will be used (./bootstrap --with-cuda builds one with)"],
      [sl_found_cuda=yes
       SL_CUDA_FOUND="$sl_cuda_version in $sl_cuda_prefix"
       SL_CUDA_CPPFLAGS="$sl_cuda_cppflags -DSL_CUDA"
       SL_CUDA_LIBS="$sl_cuda_libs -lstdc++"
       SL_ADD_RUN_PATH([$SL_CUDA_LIBS])
       AS_VAR_IF([NVCC_GENCODE], [], [SL_NVCC_ARCHITECTURES])])
])

# SL_NVCC_ARCHITECTURES
# ---------------------
# Generate machine code for each generation from sm_75 on that the toolkit supports, and PTX of the newest for future
# GPUs.
AC_DEFUN([SL_NVCC_ARCHITECTURES], [
AC_MSG_CHECKING([for nvcc's architectures])
sl_known=" `"$NVCC" --list-gpu-arch | tr '\n' ' '` "
for sl_arch in 75 80 86 89 90 100 120; do
    AS_CASE([$sl_known], [*" compute_$sl_arch "*],
            [NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$sl_arch,code=sm_$sl_arch" sl_newest=$sl_arch])
done
NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$sl_newest,code=compute_$sl_newest"
AC_MSG_RESULT([$NVCC_GENCODE])
])
