# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_OPENBLAS
# -----------------
# OpenBLAS, for its GEMM. Another BLAS will not do: the number of its threads is set by OpenBLAS's own call.
AC_DEFUN([SL_CHECK_OPENBLAS], [
SL_REQUIRE_PKG([openblas], [OpenBLAS], [openblas], [cblas.h], [openblas],
               [openblas_set_num_threads(1); return (int)cblas_sasum(0, 0, 1)], [libopenblas-dev])
])
