#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The scheduler near on a busy machine: many short runs with 2 to 64 workers, under stress-ng with two processes for
# each core, or under shell loops if stress-ng is not installed. NEAR_LOAD=N: N such processes; with 0, several of these
# scripts at once are each other's load. No run may hang, or have other losses than the first run. SL_LONG=1: 2,000 runs
# with two workers, and 200 with each other number of workers. Then no run may take more than 20 times the median.

source "$top_srcdir/tests/lib.sh"
load=()
export STARPU_HOME=$folder STARPU_SILENT=1 STARLING_CACHE=none

at_exit()
{
    kill "${load[@]}" 2>/dev/null
    wait 2>/dev/null
}

# check RUNS WORKERS OPTION ...
check()
{
    local n=$1 workers=$2 wanted='' i begin end losses
    shift 2
    : >times
    for ((i = 1; i <= n; i++)); do
        begin=${EPOCHREALTIME/[^0-9]/}
        timeout 300 "$coop_sage" --dataset "$folder/made" --epochs 2 --batch-size 256 --pes 4 --cpus "$workers" --json \
            --sched near "$@" >stdout 2>stderr || { complain "run $i: exit status $?: $(cat stderr)" && return; }
        end=${EPOCHREALTIME/[^0-9]/}
        echo $((end - begin)) >>times
        losses=$(sed -n 's/.*"event": *"epoch".*"train_loss": *\([^,}]*\).*/\1/p' stdout | tr '\n' ' ')
        wanted=${wanted:-$losses}
        [[ -n $losses && $losses == "$wanted" ]] || { complain "run $i: expected losses '$wanted', found '$losses'" && return; }
    done
    sort -n times | awk -v bound="${SL_LONG:+20}" -v workers="$workers" -v load="$n_load $kind" '
        { t[NR] = $1 / 1e6 }
        END {
            median = t[int((NR + 1) / 2)]
            printf "%d runs, %d workers, load %s: median %.3f s, 99 %% %.3f s, longest %.3f s, %.1f times the median\n",
                NR, workers, load, median, t[int((99 * NR + 99) / 100)], t[NR], t[NR] / median
            exit bound && t[NR] > bound * median
        }' || complain "$workers workers: expected at most 20 times the median"
}

"$starling_data" generate --vertices 2000 --features 32 --classes 5 --out made >stdout 2>&1 || { cat stdout && exit 99; }
n_load=${NEAR_LOAD:-$((2 * $(nproc)))}
if ((n_load == 0)); then
    kind='processes of its own'
elif command -v stress-ng >stdout; then
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
if [[ -n ${SL_LONG:-} ]]; then
    check 2000 2
    for workers in 4 8 16 64; do
        check 200 "$workers"
    done
    check 200 64 --placement home
else
    check 6 2
    check 3 16
    check 3 64 --placement home
fi
exit $failed
