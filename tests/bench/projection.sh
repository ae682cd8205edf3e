#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# make bench-projection: `starling_data project` against runs on 2 and 4 ranks of this machine, as Markdown: seconds of an epoch of each
# way to train, projected from a run of one process and measured, medians of rounds by turns. What ranks that share the machine lose to
# each other is measured, too: of as many runs of one process side by side (--device-seconds). Options of coop_sage in BENCH_FLAGS; $RANKS
# (2 4) and $ROUNDS (5) in the environment.
#
# usage: projection.sh COOP_SAGE STARLING_DATA [OPTION ...]

set -eu

program=$1
data=$2
shift 2
rounds=${ROUNDS:-5}
ranks=${RANKS:-2 4}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options=(--dataset arxiv --layers 2 --hidden 128 --fanout 4,4 --batch-size 1024 --epochs 3 --eval-every 0 --quiet --cpus 1 "$@")

export STARPU_WORKERS_NOBIND=1 # as ranks that share processors do; else runs side by side would all take the first one

command -v mpirun >/dev/null || { echo "bench-projection: there is no mpirun; ./bootstrap --with-mpi installs it" >&2; exit 77; }
mpi()
{
    mpirun -q --oversubscribe --bind-to none -np "$@" </dev/null
}

# median: of the numbers of standard input, a line each.
median()
{
    sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

# seconds FILE ...: the median of all epochs but each run's first.
seconds()
{
    sed -n 's/^{"event": *"epoch", *"epoch": *\([2-9]\|[1-9][0-9]\),.*[^_]"seconds": *\([0-9.e+-]*\),"eval.*/\2/p' "$@" | median
}

# side_by_side N ROUND: N runs of one process at once.
side_by_side()
{
    local i runs=()
    for ((i = 0; i < $1; i++)); do
        "$program" "${options[@]}" --pes 1 --metrics "$folder/beside-$1-$2-$i" &
        runs+=($!)
    done
    wait "${runs[@]}"
}

# one_round ROUND
one_round()
{
    local n mode
    "$program" "${options[@]}" --pes 1 --metrics "$folder/one-$1"
    "$program" "${options[@]}" --pes 4 --metrics "$folder/four-$1"
    for n in $ranks; do
        side_by_side "$n" "$1"
        mpi "$n" "$data" project "$folder/one-$1" --devices 1 | sed -n 's/^messages *latency \([0-9.]*\) us, \([0-9.]*\) us .*, \([0-9.]*\) GB.*/\1 \2 \3/p' >>"$folder/link-$n"
        mpi "$n" "$program" "${options[@]}" --pes "$n" --group-size 1 --metrics "$folder/independent-$n-$1"
        mpi "$n" "$program" "${options[@]}" --pes "$n" --group-size 1 --sync dissemination --metrics "$folder/gossip-$n-$1"
        mpi "$n" "$program" "${options[@]}" --pes "$n" --metrics "$folder/cooperative-$n-$1"
    done
}

# link N COLUMN: the median of what messages took.
link()
{
    cut -d ' ' -f "$2" "$folder/link-$1" | median
}

# compare N: the rows of N ranks. All projections are of the run of one process whose time is the median of the rounds'.
compare()
{
    local n=$1 run slowness mode column=4
    run=$(for ((i = 1; i <= rounds; i++)); do echo "$(seconds "$folder/one-$i") $i"; done | sort -g | sed -n "$(((rounds + 1) / 2))s/.* //p")
    slowness=$(awk -v a="$(seconds "$folder/beside-$n-"*)" -v b="$(seconds "$folder/one-$run")" 'BEGIN { print a / b }')
    "$data" project "$folder/one-$run" "$folder/four-$run" --devices "$n" --device-seconds "$slowness" --latency "$(link "$n" 1)" \
        --message-time "$(link "$n" 2)" --bandwidth "$(link "$n" 3)" >"$folder/table"
    for mode in independent gossip cooperative; do
        awk -v n="$n" -v mode=$mode -v slowness="$slowness" -v column=$column -v link="$(link "$n" 1)" -v measured="$(seconds "$folder/$mode-$n-"*)" \
            '$1 == n { gsub(/>/, ""); printf "| %d | %s | %.2f | %.0f | %.3f | %.3f | %.2f |\n", n, mode, slowness, link, $column, measured, $column / measured }' \
            "$folder/table"
        column=$((column + 2))
    done
}

for ((round = 1; round <= rounds; round++)); do
    one_round $round
done
echo "One process: $(seconds "$folder/one-"*) s an epoch."
echo
echo '| ranks | | a device takes, of one alone | latency, us | projected, s | measured, s | ratio |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
for n in $ranks; do
    compare "$n"
done
