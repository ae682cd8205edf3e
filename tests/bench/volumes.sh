#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# W(PB) <= P W(B): input rows of one epoch with four cooperating PEs against four independent ones, with the same seeds in each
# step, which are vertices or links. Exit status 1 where cooperation needs more rows.
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
    for sampler in "neighbor" "labor" "labor --layer-dependency" "labor --labor-iterations 1" \
                   "labor --labor-iterations converge"; do
        cooperative=$(rows 4 "$@" --sampler $sampler)
        independent=$(rows 1 "$@" --sampler $sampler)
        awk -v name="$name" -v s="$sampler" -v c="$cooperative" -v i="$independent" 'BEGIN {
            printf "| %s | %s | %d | %d | %.3f |\n", name, s, c, i, c / i
            exit c > i
        }' || failed=1
    done
}

# links NAME: ./NAME in the temporary folder, whose split lists the edges of a dataset in $STARLING_DATA, each once.
links()
{
    local data=${STARLING_DATA%%:*}/$1
    mkdir -p "$folder/$1/split/edges" && ln -s "$data/raw" "$data/derived" "$folder/$1/"
    zcat "$data/raw/edge.csv.gz" | awk -F, '$1 != $2 { print ($1 < $2 ? $1 "," $2 : $2 "," $1) }' | LC_ALL=C sort -u |
        awk -v to="$folder/$1/split/edges/" '
            BEGIN { split("valid test", held_out) }
            { n = NR % 20; print >(to (n in held_out ? held_out[n] : "train") ".csv") }'
}

echo '| graph, fanout, seeds or links a PE | sampler | rows, 4 cooperative | rows, 4 independent | ratio |'
echo '| --- | --- | --- | --- | --- |'
compare 'cora, 10,10, 35' --dataset cora --layers 2 --fanout 10,10 --batch-size 35
compare 'ogbn-arxiv, 4,4, 1024' --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --layers 2 --fanout 4,4
compare 'ogbn-arxiv, 10,10,10, 1024' --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --fanout 10,10,10
links ogbn-arxiv
arxiv_links=(--dataset "$folder/ogbn-arxiv" --features derived/node-feat-prone96.csv.gz --objective link --negatives 1)
compare 'ogbn-arxiv, links, 4,4, 1024' "${arxiv_links[@]}" --layers 2 --fanout 4,4
compare 'ogbn-arxiv, links, 10,10,10, 1024' "${arxiv_links[@]}" --fanout 10,10,10
exit $failed
