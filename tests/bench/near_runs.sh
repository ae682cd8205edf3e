#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Many short runs of coop_sage on a busy machine: median, 99 % and longest of their times. A failure is a run that takes
# more than 20 times the median, or has other losses than the first run. Load: stress-ng with two processes for each
# core, or shell loops if stress-ng is not installed. NEAR_LOAD=N: N such processes; with 0, several of these scripts at
# once are each other's load.
#
# usage: near_runs.sh COOP_SAGE STARLING_DATA [RUNS [WORKERS [OPTION ...]]]
# Exit status: 0, 1 a failure, 2 wrong usage.

set -u
program=$(realpath "${1:?usage: near_runs.sh COOP_SAGE STARLING_DATA [RUNS [WORKERS [OPTION ...]]]}") || exit 2
maker=$(realpath "${2:?the program starling_data is missing}") || exit 2
n_runs=${3:-2000}
n_workers=${4:-2}
shift $(($# < 4 ? $# : 4))
bound=20
folder=$(mktemp -d) || exit 1
load=()
# shellcheck disable=SC2317 # called at exit
clean_up()
{
    kill "${load[@]}" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
export STARPU_HOME=$folder STARPU_SILENT=1 STARLING_CACHE=none

"$maker" generate --vertices 2000 --features 32 --classes 5 --out "$folder/made" >"$folder/stdout" 2>&1 ||
    { cat "$folder/stdout"; exit 1; }

n_load=${NEAR_LOAD:-$((2 * $(nproc)))}
if ((n_load == 0)); then
    kind='processes of its own'
elif command -v stress-ng >"$folder/stdout"; then
    stress-ng --quiet --cpu "$n_load" &
    load=($!)
    kind=stress-ng
else
    for ((i = 0; i < n_load; i++)); do
        while :; do :; done &
        load+=($!)
    done
    kind='loops, as stress-ng is not installed'
fi

wanted=
for ((i = 1; i <= n_runs; i++)); do
    begin=${EPOCHREALTIME/[^0-9]/}
    "$program" --dataset "$folder/made" --epochs 2 --batch-size 256 --pes 4 --cpus "$n_workers" --json "$@" \
        >"$folder/stdout" 2>"$folder/stderr" || {
        echo "run $i: exit status $?: $(cat "$folder/stderr")"
        exit 1
    }
    end=${EPOCHREALTIME/[^0-9]/}
    echo $((end - begin)) >>"$folder/times"
    losses=$(sed -n 's/.*"event": *"epoch".*"train_loss": *\([^,}]*\).*/\1/p' "$folder/stdout" | tr '\n' ' ')
    wanted=${wanted:-$losses}
    [[ -n $losses && $losses == "$wanted" ]] || {
        echo "run $i: expected losses '$wanted', found '$losses'"
        exit 1
    }
done

sort -n "$folder/times" | awk -v bound=$bound -v workers="$n_workers" -v load="$n_load $kind" '
    { t[NR] = $1 / 1e6 }
    END {
        median = t[int((NR + 1) / 2)]
        printf "%d runs, %d workers, load %s: median %.3f s, 99 %% %.3f s, longest %.3f s, %.1f times the median\n",
            NR, workers, load, median, t[int((99 * NR + 99) / 100)], t[NR], t[NR] / median
        exit t[NR] > bound * median
    }' || [[ -n ${SL_SMOKE:-} ]]
