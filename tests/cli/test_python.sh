#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The Python package in python/, with the library of the build tree: tests/python/*.py. Parts that need scipy,
# torch, torch_geometric, networkx, pandas, scikit-learn, mypy, matplotlib or nbconvert are skipped without them.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

python=$(python_with numpy) || skip "there is no python3 of version 3.9 with numpy (Debian: python3-numpy)"
library=$top_builddir/.libs/libstarling.so
[[ -f $library ]] || skip "there is no shared library"

preload_sanitizer "$library"
export STUB=$top_builddir/python/starling_gnn/_options.pyi
export STARLING_LIBRARY=$library PYTHONPATH=$top_srcdir/python PYTHONDONTWRITEBYTECODE=1 DATASETS=$data PROGRAMS=$top_builddir/apps
for test in "$top_srcdir"/tests/python/test_*.py; do
    "$python" "$test" -v 2>&1 || complain "$test: a test of the Python package fails"
done
exit $failed
