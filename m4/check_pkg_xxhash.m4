# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_XXHASH
# ---------------
# xxHash: checksums of files and data.
AC_DEFUN([SL_CHECK_XXHASH], [
SL_REQUIRE_PKG([xxhash], [xxHash], [libxxhash], [xxhash.h], [xxhash],
               [return (int)XXH3_64bits_withSeed("", 0, 1)], [libxxhash-dev])
])
