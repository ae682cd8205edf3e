#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Training from Python beside coop_sage, by turns, on ogbn-arxiv: an epoch's time and the process's peak memory (from_python.py). Rows
# for doc/results.md.
#
# usage: python.sh COOP_SAGE LIBRARY PACKAGES FROM_PYTHON [OPTION OF FROM_PYTHON ...]
#
# PACKAGES: the folder of the package starling_gnn. $PYTHON [python3]: a Python with numpy. Says in a line what is missing, and exits
# with 77.

set -eu

program=$1
library=$2
packages=$3
from_python=$4
shift 4

skip()
{
    echo "python: skipped: $*"
    exit 77
}

[[ -f $library ]] || skip "there is no shared library $library"
for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 none; do
    "$python" -c 'import sys, numpy; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && break
done
[[ $python != none ]] || skip 'there is no python3 of version 3.9 with numpy'
places=${STARLING_DATA:-}
for place in ${places//:/ }; do
    [[ ! -d $place/ogbn-arxiv ]] || data=$place/ogbn-arxiv
done
[[ -n ${data:-} ]] || skip 'no ogbn-arxiv on $STARLING_DATA'
for features in raw/node-feat.csv.gz derived/node-feat-prone96.csv.gz; do
    [[ ! -f $data/$features ]] || break
done
[[ -f $data/$features ]] || skip "no features in $data"
unset STARLING_CACHE
export STARPU_SILENT=1 PYTHONPATH=$packages
STARLING_LIBRARY=$(realpath "$library") "$python" "$from_python" "$program" --features "$features" "$@"
