#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# An epoch of residual graph convolutions, 32 layers of 100 on all of ogbn-arxiv (with substitute features): pipe_gnn exactly, as a pipeline, and
# with recomputation, the floor of this machine's cores (full_floor.c), and PyTorch Geometric where $PYTHON [python3] has it (peer_full.py).
#
# usage: full.sh PIPE_GNN FULL_FLOOR PEER
#
# The dataset is looked for on $STARLING_DATA. $LAYERS, $HIDDEN, $EPOCHS [6] of which the first three do not count: memory is new.

set -eu

program=$1
floor=$2
peer=$3
layers=${LAYERS:-32}
hidden=${HIDDEN:-100}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
features=derived/node-feat-prone96.csv.gz

# measure NAME OPTION ...
measure()
{
    local name=$1
    shift
    "$program" --quiet --dataset ogbn-arxiv --features $features --model resgcn --layers "$layers" --hidden "$hidden" --epochs "${EPOCHS:-6}" \
        --eval-every 0 --guard off --lr 0.005 --metrics "$folder/metrics" "$@"
    sed -n 's/.*"event":"epoch".*[^_]"seconds":\([-0-9.e+]*\).*/\1/p' "$folder/metrics" | tail -n +4 | sort -g |
        awk -v name="$name" -v kb="$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\).*/\1/p' "$folder/metrics")" -v options="$*" \
            '{ s[NR] = $1 } END { printf "| %s | %.2f | %.1f | `%s` |\n", name, s[int((NR + 1) / 2)], kb / 1e9, options }'
}

echo '| | epoch, s, median | peak memory, GB | options |'
echo '| --- | --- | --- | --- |'
measure exact --stages 1 --ways 8 --chunks 8
measure 'exact, recomputed' --stages 1 --ways 8 --chunks 8 --recompute
measure pipeline --stages 8 --ways 1 --chunks 32
measure 'pipeline, recomputed' --stages 8 --ways 1 --chunks 32 --recompute
"$floor" 169343 2315598 96 "$hidden" 40 "$layers" "$(nproc)"
for place in ${STARLING_DATA//:/ }; do
    if [[ -d $place/ogbn-arxiv ]]; then
        "${PYTHON:-python3}" "$peer" --data "$place/ogbn-arxiv" --features $features --layers "$layers" --hidden "$hidden" || (($? == 77))
    fi
done
