#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The Python package in python/, with the library of the build tree: tests/python/test_module.py. Parts that need scipy,
# torch, torch_geometric, networkx, pandas, scikit-learn, matplotlib or nbconvert are skipped without them.

set -u
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

python=${PYTHON:-python3}
library=$top_builddir/.libs/libstarling.so
command -v "$python" >/dev/null || skip "there is no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$python is older than 3.9"
"$python" -c 'import numpy' 2>/dev/null || skip "there is no numpy for $python"
[[ -f $library ]] || skip "there is no shared library"

export STARLING_LIBRARY=$library PYTHONPATH=$top_srcdir/python PYTHONDONTWRITEBYTECODE=1 DATASETS=$data
"$python" "$top_srcdir/tests/python/test_module.py" -v 2>&1 || complain "a test of the Python package fails"
exit $failed
