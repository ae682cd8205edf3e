# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# SL_CHECK_PYTHON: the Python that the package starling_gnn is installed for; optional. The package is plain Python: it
# needs numpy when it is imported, and nothing to be installed.

AC_DEFUN([SL_CHECK_PYTHON], [
    AC_ARG_WITH([python], [AS_HELP_STRING([--without-python], [do not install the Python package starling_gnn])], [],
        [with_python=check])
    AS_VAR_IF([with_python], [no], [PYTHON=:], [
        AS_CASE([$with_python], [check | yes], [
            # One that has numpy: the first of PATH may lack it, as that of pyenv beside Debian's.
            AS_VAR_SET_IF([PYTHON], [], [for sl_python in python3 python /usr/bin/python3; do
                AS_IF(["$sl_python" -c 'import sys, numpy; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1],
                      [PYTHON=`command -v "$sl_python"`; break])
            done])
        ], [
            PYTHON=`command -v "$with_python"`
            AS_IF([test -n "$PYTHON"], [],
                  [AC_MSG_ERROR([--with-python=$with_python: there is no such program; expected a Python of version 3.9 or later])])
        ])
        AM_PATH_PYTHON([3.9], [], [:])
    ])
    AS_IF([test "$PYTHON" != :], [SL_PYTHON_FOUND="$PYTHON_VERSION, starling_gnn goes into $pythondir"], [
        SL_PYTHON_FOUND="none, starling_gnn is not installed"
        AS_VAR_IF([with_python], [yes], [AC_MSG_ERROR([--with-python: found no Python of version 3.9 or later])])
    ])
    AM_CONDITIONAL([HAVE_PYTHON], [test "$PYTHON" != :])
])
