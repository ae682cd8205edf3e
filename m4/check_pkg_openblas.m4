# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_OPENBLAS
# -----------------
# OpenBLAS, for GEMM. Other BLAS libraries do not work: we set the number of threads with OpenBLAS's own function.
AC_DEFUN([SL_CHECK_OPENBLAS], [
SL_REQUIRE_PKG([openblas], [OpenBLAS], [openblas], [cblas.h], [openblas],
               [openblas_set_num_threads(1); return (int)cblas_sasum(0, 0, 1)], [libopenblas-dev])
])
