#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Gossip against all-reduce: validation loss and accuracy by epoch, test accuracy, time to an accuracy, for 8 PEs with 8 and 4
# replicas. Writes its section of doc/results.md, between the two marks, dataset by dataset: one that is not on
# $STARLING_DATA, or was not asked for, keeps the tables it has. Seeds: $SEEDS (1 2 3).
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

# row LABEL OPTION ...: train with each seed; print the row. Uses dataset, options, shown (epochs), goal. The first row of a
# table is what the others' test accuracy is compared with.
row()
{
    local label=$1
    shift
    : >"$folder/runs"
    for seed in $seeds; do
        # shellcheck disable=SC2086
        "$program" --quiet --dataset "$dataset" $common $options --seed "$seed" --metrics "$folder/metrics" "$@"
        cat "$folder/metrics" >>"$folder/runs"
    done
    awk -v label="$label" -v shown="$shown" -v goal="$goal" -v base="$base" -v result="$folder/test" '
        function number(key) { return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
        /"event":"config"/ { seeds++; time = 0; there = 0 }
        /"event":"epoch"/ {
            e = number("epoch") + 0
            time += number("seconds")
            if (number("valid_acc") != "") {
                loss[e] += number("valid_loss"); valid[e] += number("valid_acc"); test = number("test_acc")
                if (!there && number("valid_acc") >= goal) { there = 1; reached++; to += time }
            }
            match($0, "\"weights\":[0-9]+"); bytes += substr($0, RSTART + 10, RLENGTH - 10)
            epochs++
        }
        /"event":"summary"/ { sum += test; squares += test * test }
        END {
            mean = 100 * sum / seeds
            sd = seeds > 1 ? 100 * sqrt((squares > sum * sum / seeds ? squares - sum * sum / seeds : 0) / (seeds - 1)) : 0
            printf "| %s | %.2f", label, bytes / epochs / 8 / 1e6
            n = split(shown, epoch, " ")
            for (i = 1; i <= n; i++) { printf " | %.3f, %.2f", loss[epoch[i]] / seeds, 100 * valid[epoch[i]] / seeds }
            printf " | %.2f", mean
            if (seeds > 1) { printf " +- %.2f", sd }
            if (base != "") { printf " | %+.2f", mean - base } else { printf " | " }
            if (reached == seeds) { printf " | %.1f s |\n", to / seeds } else { printf " | %d of %d seeds |\n", reached, seeds }
            print mean >result
        }' "$folder/runs"
}

# compare DATASET GOAL "EPOCH ..." OPTION ...: the two tables of a dataset, into a file of its name.
compare()
{
    dataset=$1 goal=$2 shown=$3
    shift 3
    options=$*
    [[ $wanted == "  " || $wanted == *" $dataset "* ]] || return 0
    # shellcheck disable=SC2086
    if ! "$program" --quiet --dataset "$dataset" $common $options --epochs 0 2>"$folder/error"; then
        cat "$folder/error" >&2
        grep -q 'is not in' "$folder/error" || exit 1
        return 0
    fi
    {
        echo "### $dataset"
        echo
        echo "Seeds $seeds; \`coop_sage --dataset $dataset $common $options\` and what the row says."
        for size in 1 2; do
            echo
            echo "| $((8 / size)) replicas: P = 8, G = $size | MB of weights a PE and epoch |$(printf ' epoch %s: valid loss, %% |' $shown) test %, last epoch | against all-reduce | time to $(awk "BEGIN { print 100 * $goal }") % valid |"
            echo "| --- | --- |$(printf ' --- |%.0s' $shown) --- | --- | --- |"
            base=
            row 'all-reduce' --group-size $size
            base=$(cat "$folder/test")
            for sync in dissemination cube; do
                for what in weight grad; do
                    row "$sync, $what" --group-size $size --sync $sync --gossip-what $what
                done
            done
            row 'dissemination, weight, ring' --group-size $size --sync dissemination --gossip-ring
            row 'dissemination, grad, average every 10' --group-size $size --sync dissemination --gossip-what grad \
                --gossip-average-every 10
        done
        echo
    } >"$folder/$dataset.md"
    cat "$folder/$dataset.md"
}

compare amazon-computers 0.88 '1 2 4 8 12' --split luo2024-60-20-20 --batch-size 32 --hidden 64 --fanout 5,5 --epochs 12 \
    --dropout 0.3 --lr 0.01
compare ogbn-arxiv 0.65 '4 8 16 28' --features derived/node-feat-prone96.csv.gz --batch-size 512 --hidden 64 --fanout 4,4 \
    --epochs 28 --eval-every 4 --dropout 0.2 --lr 0.01

# What was measured takes the place of the dataset's old tables, or goes to the section's end.
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
