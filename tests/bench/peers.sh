#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# coop_sage beside DGL and PyTorch Geometric, on ogbn-arxiv with substitute features (peers.py): the table for doc/results.md.
#
# usage: peers.sh COOP_SAGE PEERS [OPTION OF PEERS ...]
#
# $PEERS_ENV [peers-env]: a Python environment; where there is no such folder it is made there from PyPI, which takes some 6 GB and ten
# minutes or more, as torch-sparse, without which PyTorch Geometric does not sample, is compiled. DGL 2.1.0 is the last one that PyPI has with
# GraphBolt, and torch 2.2.1 the last that it fits. $PYTHON [python3] makes it; DGL has files for Python 3.8 to 3.11.
# The dataset is looked for on $STARLING_DATA; its features are its own or, where it has none, derived/node-feat-prone96.csv.gz, made of
# the graph. Says in a line what is missing, and exits with 77.

set -eu

program=$1
peers=$2
shift 2
folder=${PEERS_ENV:-peers-env}

skip()
{
    rm -rf "$folder.part"
    echo "peers: skipped: $*"
    exit 77
}

environment()
{
    [[ ! -d $folder ]] || return 0
    local python=${PYTHON:-python3} pip=("$folder.part/bin/python" -m pip install -q)
    "$python" -m venv "$folder.part" || skip "$python -m venv does not work (Debian: python3-venv)"
    "${pip[@]}" wheel 'setuptools<70' || skip 'PyPI is not reached'
    echo "peers: making $folder from PyPI: torch 2.2.1, DGL 2.1.0, PyTorch Geometric, torch-sparse; some 6 GB" >&2
    "${pip[@]}" torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 'numpy<2' scipy pandas pydantic pyyaml torch_geometric
    "${pip[@]}" --no-build-isolation torch-scatter torch-sparse ||
        echo "peers: torch-sparse could not be built; PyTorch Geometric's sampling is left out" >&2
    mv "$folder.part" "$folder"
}

places=${STARLING_DATA:-}
for place in ${places//:/ }; do
    [[ ! -d $place/ogbn-arxiv ]] || data=$place/ogbn-arxiv
done
[[ -n ${data:-} ]] || skip 'no ogbn-arxiv on $STARLING_DATA'
for features in raw/node-feat.csv.gz derived/node-feat-prone96.csv.gz; do
    [[ ! -f $data/$features ]] || break
done
[[ -f $data/$features ]] || skip "no features in $data"
environment
echo "peers: $(du -sh "$folder" | cut -f 1) in $folder" >&2
DGLBACKEND=pytorch "$folder/bin/python" "$peers" "$program" --data "$data" --features "$features" "$@"
