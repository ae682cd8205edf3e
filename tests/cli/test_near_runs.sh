#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The scheduler near on a busy machine: short runs with 2 to 64 workers. No run may take more than 20 times the median,
# or have other losses. SL_LONG=1: 2,000 runs with two workers, and 200 with each other number of workers.

set -u
runs=$(realpath "$top_srcdir/tests/bench/near_runs.sh") || exit 99
failed=0

# check RUNS WORKERS OPTION ...
check()
{
    bash "$runs" "$top_builddir/apps/coop_sage" "$top_builddir/apps/starling_data" "$@" --sched near || failed=1
}

if [[ -n ${SL_LONG:-} ]]; then
    check 2000 2
    for workers in 4 8 16 64; do
        check 200 "$workers"
    done
    check 200 64 --placement home
else
    check 6 2
    check 3 16
    check 3 64 --placement home
fi
exit $failed
