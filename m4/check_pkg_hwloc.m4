# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_HWLOC
# --------------
# hwloc: cores and memory of the machine, and the part that this process may use.
AC_DEFUN([SL_CHECK_HWLOC], [
SL_REQUIRE_PKG([hwloc], [hwloc], [hwloc], [hwloc.h], [hwloc],
               [hwloc_topology_t t; return hwloc_topology_init(&t)], [libhwloc-dev])
])
