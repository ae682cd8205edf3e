#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Link prediction by coop_sage and by DGL's GraphBolt, by turns: rows for doc/results.md.
#
# usage: links.sh COOP_SAGE STARLING_DATA LINKS [OPTION OF LINKS ...]
#
# $PEERS_ENV [peers-env]: the Python environment of peers.sh. $LINKS_DATA [links-data]: the folder of the links, which
# are made if they are not there. They are the edges of ogbn-arxiv on $STARLING_DATA, or else of the generated
# arxiv-synthetic (a minute). Says in a line what is missing, and exits with 77.

set -eu

program=$1
generate=$2
links=$3
shift 3
folder=${PEERS_ENV:-peers-env}
data=${LINKS_DATA:-links-data}

skip()
{
    echo "links: skipped: $*; make bench-peers makes one"
    exit 77
}

[[ -x $folder/bin/python ]] || skip "no Python environment $folder"
"$folder/bin/python" -c 'import dgl.graphbolt, pandas' 2>/dev/null || skip "no DGL with GraphBolt and pandas in $folder"

name=arxiv-synthetic
places=${STARLING_DATA:-}
for place in ${places//:/ }; do
    [[ ! -d $place/ogbn-arxiv ]] || { name=ogbn-arxiv; source=$place/ogbn-arxiv; }
done
if [[ ! -d $data/$name ]]; then
    mkdir -p "$data"
    if [[ -z ${source:-} ]]; then
        source=$data/$name.raw
        "$generate" generate "$name" --out "$source"
        "$(dirname "$0")/../as_text" "$source"
    fi
    "$folder/bin/python" "$links" "$program" --data "$data/$name.part" --make "$source"
    mv "$data/$name.part" "$data/$name"
    rm -rf "$data/$name.raw"
fi
DGLBACKEND=pytorch STARPU_SILENT=1 "$folder/bin/python" "$links" "$program" --data "$data/$name" "$@"
