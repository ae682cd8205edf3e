#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# R-GCN on a generated typed graph of ogbn-mag's size, by coop_sage and DGL, by turns: rows for doc/results.md.
#
# usage: typed.sh COOP_SAGE STARLING_DATA TYPED [OPTION OF TYPED ...]
#
# $PEERS_ENV [peers-env]: the Python environment of peers.sh. $TYPED_DATA [typed-data]: the folder of the graph, which is generated if it
# is not there (a minute, 0.4 GB). Says in a line what is missing, and exits with 77.

set -eu

program=$1
generate=$2
typed=$3
shift 3
folder=${PEERS_ENV:-peers-env}
data=${TYPED_DATA:-typed-data}/mag-synthetic

[[ -x $folder/bin/python ]] || { echo "typed: skipped: no Python environment $folder; make bench-peers makes it"; exit 77; }
"$folder/bin/python" -c 'import dgl, pandas' 2>/dev/null || { echo "typed: skipped: no DGL and pandas in $folder"; exit 77; }
if [[ ! -d $data ]]; then
    "$generate" generate mag-synthetic --out "$data.part"
    "$(dirname "$0")/../as_text" "$data.part"
    mv "$data.part" "$data"
fi
DGLBACKEND=pytorch STARPU_SILENT=1 "$folder/bin/python" "$typed" "$program" --data "$data" "$@"
