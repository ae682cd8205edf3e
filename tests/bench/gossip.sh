#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Gossip against all-reduce, for 8 PEs with 8 and 4 replicas: bytes of weights, validation accuracy at an early epoch, test
# accuracy after the last epoch. Writes the gossip section of doc/results.md, between the two marks, a table for each
# dataset. A dataset that is not on $STARLING_DATA, or not among the arguments, keeps its old table. Seeds: $SEEDS (1 2 3).
#
# usage: gossip.sh PROGRAM RESULTS [DATASET ...]

set -eu

program=$1
results=$2
shift 2
wanted=" $* "
seeds=${SEEDS:-1 2 3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
common='--pes 8 --chunks 1 --layers 2 --norm layer --lr-schedule cosine'

grep -q '^<!-- bench-gossip -->$' "$results" && grep -q '^<!-- end of bench-gossip -->$' "$results" || {
    echo "gossip.sh: $results: expected the lines <!-- bench-gossip --> and <!-- end of bench-gossip --> around its section" >&2
    exit 1
}

# cells REPLICAS OPTION ...: train with each seed and print the four cells of a row. Uses dataset, options, early. The first
# cells of a table with REPLICAS replicas are the all-reduce; later cells show the difference to its test accuracy.
cells()
{
    local replicas=$1
    shift
    : >"$folder/runs"
    for seed in $seeds; do
        # shellcheck disable=SC2086
        "$program" --quiet --dataset "$dataset" $common $options --group-size $((8 / replicas)) --seed "$seed" \
            --metrics "$folder/metrics" "$@"
        cat "$folder/metrics" >>"$folder/runs"
    done
    awk -v early="$early" -v base="${base[replicas]-}" -v result="$folder/test" '
        function number(key) { return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
        /"event":"config"/ { seeds++ }
        /"event":"epoch"/ {
            if (number("epoch") == early) { valid += number("valid_acc") }
            if (number("valid_acc") != "") { test = number("test_acc") }
            match($0, "\"weights\":[0-9]+"); bytes += substr($0, RSTART + 10, RLENGTH - 10)
            epochs++
        }
        /"event":"summary"/ { sum += test; squares += test * test }
        END {
            mean = 100 * sum / seeds
            sd = seeds > 1 ? 100 * sqrt((squares > sum * sum / seeds ? squares - sum * sum / seeds : 0) / (seeds - 1)) : 0
            printf " %.2f | %.2f | %.2f", bytes / epochs / 8 / 1e6, 100 * valid / seeds, mean
            if (seeds > 1) { printf " ± %.2f", sd }
            if (base != "") { printf " | %+.2f |", mean - base } else { printf " | |" }
            print mean >result
        }' "$folder/runs"
    [[ -n ${base[replicas]-} ]] || base[replicas]=$(cat "$folder/test")
}

# row LABEL OPTION ...: a row of the table.
row()
{
    printf '| %s |' "$1"
    shift
    cells 8 "$@"
    cells 4 "$@"
    echo
}

# compare DATASET EPOCH OPTION ...: the table of a dataset, into a file of its name. EPOCH is the early epoch.
compare()
{
    dataset=$1 early=$2
    shift 2
    options=$*
    [[ $wanted == "  " || $wanted == *" $dataset "* ]] || return 0
    # shellcheck disable=SC2086
    if ! "$program" --quiet --dataset "$dataset" $common $options --epochs 0 2>"$folder/error"; then
        cat "$folder/error" >&2
        grep -q 'is not in' "$folder/error" || exit 1
        return 0
    fi
    base=()
    {
        echo "### $dataset"
        echo
        echo "\`coop_sage --dataset $dataset $common $options\`, seeds $seeds, early: epoch $early"
        echo
        echo '| | 8 replicas: MB | early | test | to all-reduce | 4 replicas: MB | early | test | to all-reduce |'
        echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
        row 'all-reduce'
        for sync in dissemination cube; do
            for what in weight grad; do
                row "$sync, $what" --sync $sync --gossip-what $what
            done
        done
        row 'dissemination, weight, ring' --sync dissemination --gossip-ring
        row 'dissemination, grad, average every 10' --sync dissemination --gossip-what grad --gossip-average-every 10
        echo
    } >"$folder/$dataset.md"
    cat "$folder/$dataset.md"
}

compare amazon-computers 2 --split luo2024-60-20-20 --batch-size 32 --hidden 64 --fanout 5,5 --epochs 12 \
    --dropout 0.3 --lr 0.01
compare ogbn-arxiv 4 --features derived/node-feat-prone96.csv.gz --batch-size 512 --hidden 64 --fanout 4,4 \
    --epochs 28 --eval-every 4 --dropout 0.2 --lr 0.01

# A new table replaces the dataset's old table, or goes to the end of the section.
awk -v folder="$folder" '
    function put(name, file, line, n) {
        file = folder "/" name ".md"
        while ((getline line <file) > 0) { print line; n++ }
        close(file)
        return n
    }
    /^<!-- bench-gossip -->$/ { inside = 1 }
    /^<!-- end of bench-gossip -->$/ {
        if (!done["amazon-computers"]) put("amazon-computers")
        if (!done["ogbn-arxiv"]) put("ogbn-arxiv")
        inside = skip = 0
    }
    inside && /^### / { done[$2] = 1; skip = put($2) > 0 }
    !skip { print }' "$results" >"$folder/new"
cat "$folder/new" >"$results"
