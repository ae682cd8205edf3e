# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_RANDOM123
# ------------------
# Random123: counter-based random numbers. Headers only.
AC_DEFUN([SL_CHECK_RANDOM123], [
SL_REQUIRE_PKG([random123], [Random123], [random123], [Random123/philox.h], [],
               [philox4x32_ctr_t c = {{0}}; philox4x32_key_t k = {{0}}; return (int)philox4x32(c, k).v@<:@0@:>@],
               [librandom123-dev])
])
