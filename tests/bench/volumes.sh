#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# W(PB) <= P W(B): input rows of one epoch with four cooperating PEs against four independent ones, with the same seeds in each
# step. Exit status 1 where cooperation needs more rows.
#
# usage: volumes.sh PROGRAM

set -eu

program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# rows GROUP-SIZE OPTION ...: the input rows of the epoch.
rows()
{
    local group=$1
    shift
    "$program" --quiet --pes 4 --group-size "$group" --epochs 1 --eval-every 0 --hidden 8 --metrics "$folder/metrics" "$@"
    sed -n 's/.*"event":"epoch".*"vertices":\[[0-9,]*,\([0-9]*\)\].*/\1/p' "$folder/metrics"
}

# compare NAME OPTION ...
compare()
{
    local name=$1 sampler cooperative independent
    shift
    for sampler in "neighbor" "labor" "labor --layer-dependency"; do
        cooperative=$(rows 4 "$@" --sampler $sampler)
        independent=$(rows 1 "$@" --sampler $sampler)
        awk -v name="$name" -v s="$sampler" -v c="$cooperative" -v i="$independent" 'BEGIN {
            printf "| %s | %s | %d | %d | %.3f |\n", name, s, c, i, c / i
            exit c > i
        }' || failed=1
    done
}

echo '| graph, fanout, seeds a PE | sampler | rows, 4 cooperative | rows, 4 independent | ratio |'
echo '| --- | --- | --- | --- | --- |'
compare 'cora, 10,10, 35' --dataset cora --layers 2 --fanout 10,10 --batch-size 35
compare 'ogbn-arxiv, 4,4, 1024' --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --layers 2 --fanout 4,4
compare 'ogbn-arxiv, 10,10,10, 1024' --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --fanout 10,10,10
exit $failed
