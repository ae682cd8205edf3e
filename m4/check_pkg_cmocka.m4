# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_CMOCKA
# ---------------
# CMocka, for the unit tests. Without CMocka they are not built, and `make check` reports this. Sets the conditional
# HAVE_CMOCKA.
AC_DEFUN([SL_CHECK_CMOCKA], [
SL_CHECK_PKG([cmocka], [CMocka], [cmocka], [stdarg.h stddef.h setjmp.h stdint.h cmocka.h],
             [cmocka], [(void)cmocka_set_message_output], [libcmocka-dev])
AM_CONDITIONAL([HAVE_CMOCKA], [test $sl_found_cmocka = yes])
AS_VAR_IF([sl_found_cmocka], [yes],
          [SL_TESTS_SUMMARY="make check runs them"],
          [SL_TESTS_SUMMARY="not built: no CMocka; make check runs the shell tests only"])
])
