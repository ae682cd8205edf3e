# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors

# SL_CHECK_JANSSON
# ----------------
# jansson: JSON in metrics and model files.
AC_DEFUN([SL_CHECK_JANSSON], [
SL_REQUIRE_PKG([jansson], [jansson], [jansson], [jansson.h], [jansson], [json_decref(json_object())], [libjansson-dev])
])
