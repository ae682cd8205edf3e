#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Seconds of cooperative against independent minibatches: an epoch of ogbn-arxiv, 3 layers of 256, fanout 10,10,10, four PEs in one
# group against four groups of one PE, with the same seeds in each step. The settings run by turns. The first epoch of a run does not
# count, as its memory is new.
#
# usage: cooperative.sh PROGRAM [ROUNDS [2] [EPOCHS [2]]]

set -eu

program=$1
rounds=${2:-2}
epochs=${3:-2}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# measure SAMPLER GROUP-SIZE: append the seconds and input rows of each epoch but the first.
measure()
{
    "$program" --quiet --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --layers 3 --hidden 256 --fanout 10,10,10 \
        --pes 4 --group-size "$2" --sampler "$1" --batch-size 1024 --epochs "$epochs" --eval-every 0 --metrics "$folder/metrics"
    sed -n 's/.*"event":"epoch".*"vertices":\[[0-9,]*,\([0-9]*\)\].*/\1/p' "$folder/metrics" | tail -n +2 >"$folder/rows"
    sed -n 's/.*"event":"epoch".*[^_]"seconds":\([-0-9.e+]*\).*/\1/p' "$folder/metrics" | tail -n +2 | paste -d' ' - "$folder/rows" \
        >>"$folder/$1-$2"
}

for ((round = 0; round < rounds; round++)); do
    for sampler in neighbor labor; do
        measure $sampler 4
        measure $sampler 1
    done
done
echo '| sampler | cooperative, s | independent, s | independent / cooperative | rows, cooperative | rows, independent |'
echo '| --- | --- | --- | --- | --- | --- |'
for sampler in neighbor labor; do
    for group in 4 1; do
        sort -g "$folder/$sampler-$group" | awk '{ s[NR] = $1; rows += $2 }
            END { print NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2, s[1], s[NR], rows / NR }'
    done | paste -d' ' - - | awk -v name=$sampler '{
        printf "| %s | %.2f (%.2f .. %.2f) | %.2f (%.2f .. %.2f) | %.2f | %d | %d |\n", name, $1, $2, $3, $5, $6, $7, $5 / $1, $4, $8 }'
done
