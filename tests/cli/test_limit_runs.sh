#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The programs under the system's limits: ulimit, control groups, few processors, other runs on the machine. Whatever the limit, a
# program does its work, or ends with code 1 and one line. It never crashes and never hangs. SL_LONG=1: every step of the sweeps.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
apps=$top_builddir/apps
LD_LIBRARY_PATH=$top_builddir/.libs:${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH

# program NAME: its path; not libtool's script, which needs files, processes and memory of its own.
program()
{
    [[ -x $apps/.libs/$1 ]] && echo "$apps/.libs/$1" || echo "$apps/$1"
}
groups=()
# shellcheck disable=SC2317
at_exit()
{
    local child
    for child in $(jobs -p); do
        kill -KILL "$child" 2>/dev/null
    done
    wait 2>/dev/null
    ((${#groups[@]})) && rmdir "${groups[@]}"
}
long=${SL_LONG:-}
unset OPENBLAS_NUM_THREADS # as users run programs: OpenBLAS would start a thread for each core

# 400 vertices of 4 classes that features tell, 1600 edges.
mkdir -p d/raw d/split/s
awk 'BEGIN { srand(7); n = 400
    print n >"d/raw/num-node-list.csv"; print 1600 >"d/raw/num-edge-list.csv"
    for (v = 0; v < n; v++) {
        print v % 4 >"d/raw/node-label.csv"
        for (j = 0; j < 8; j++) printf "%s%.4f", j ? "," : "", (j == v % 4) * 2 + rand() - 0.75 >"d/raw/node-feat.csv"
        print "" >"d/raw/node-feat.csv"
        print v >("d/split/s/" (v < 200 ? "train" : v < 300 ? "valid" : "test") ".csv") }
    for (e = 0; e < 1600; e++) print int(rand() * n) "," int(rand() * n) >"d/raw/edge.csv" }'
# shellcheck disable=SC2054
options=(--dataset ./d --cache none --layers 2 --hidden 16 --lr 0.01 --epochs 1)
# shellcheck disable=SC2054
sage=("$(program coop_sage)" "${options[@]}" --batch-size 50 --fanout 5,5)
pipe=("$(program pipe_gnn)" "${options[@]}")
info=("$(program starling_data)" info ./d)

"${sage[@]}" >/dev/null || exit 1
# A sanitizer maps terabytes, and needs larger stacks.
if ! (ulimit -v 4000000 && exec "${info[@]}") >/dev/null 2>&1; then
    echo "a program with 4 GB of address space does not start: found a sanitizer?"
    exit 77
fi

# judge NAME: the last run, whose code is in $status, has worked, or has ended with one line.
judge()
{
    local lines
    lines=$(wc -l <stderr)
    case $status in
    0) ((lines == 0)) || complain "$1: worked, and complained: $(cat stderr)" ;;
    1) ((lines == 1)) || complain "$1: expected one line of error, found $lines: $(cat stderr)" ;;
    *) complain "$1: expected exit code 0 or 1, found $status: $(cat stderr)" ;;
    esac
}

# limited FLAG VALUE COMMAND..: run with `ulimit FLAG VALUE`. What is written to stderr comes through a pipe: files may be limited.
limited()
{
    local flag=$1 value=$2
    shift 2
    # shellcheck disable=SC2016
    timeout -s KILL 120 bash -c 'exec >/dev/null 2>&3 3>&-; ulimit "$0" "$1" && shift && exec "$@"' "$flag" "$value" "$@" 3>&1 | cat >stderr
    status=${PIPESTATUS[0]}
    judge "ulimit $flag $value: ${1##*/}"
}

# sweep FLAG VALUES: all programs.
sweep()
{
    local value
    for value in $2; do
        limited "$1" "$value" "${sage[@]}"
        limited "$1" "$value" "${pipe[@]}"
        limited "$1" "$value" "${info[@]}"
    done
}

# ---- address space, stacks, files, processes -----------------------------------------------------------------------------------

step=$([[ -n $long ]] && echo 10 || echo 50)
sweep -v "$(seq -f '%.0f000' 300 "$step" 2000)"
sweep -d "$(seq -f '%.0f000' 300 $((2 * step)) 1000)"
limited -v 2000000 "${sage[@]}"
((status == 0)) || complain "2 GB of address space are too little: $(cat stderr)"

sweep -s "128 256 1024"
((status == 1)) && grep -q 'found a stack of 1024 kB' stderr || complain "a stack of 1024 kB: found exit code $status: $(cat stderr)"
for kb in 2048 unlimited; do
    limited -s $kb "${sage[@]}" --save model --norm layer
    ((status == 0)) || complain "a stack of $kb kB: $(cat stderr)"
    limited -s $kb "${pipe[@]}" --save model --checkpoint kept
    ((status == 0)) || complain "a stack of $kb kB: $(cat stderr)"
    rm -rf kept model
done
sweep -n "$([[ -n $long ]] && seq 5 40 || echo 5 6 8 12 24)"
sweep -l "0 64"
((EUID == 0)) || sweep -u "1 2" # root has no such limit

# ---- the option's limit -----------------------------------------------------------------------------------------------------------

# GB, from less than a program takes to more than it needs. It ends with one line, or its own growth stays within.
for gb in 0.01 $(seq -f 0.%03.0f 40 "$([[ -n $long ]] && echo 2 || echo 20)" 160); do
    for name in sage pipe; do
        declare -n words=$name
        timeout -s KILL 120 "${words[@]}" --cpus 2 --memory "$gb" >/dev/null 2>stderr
        status=$?
        judge "--memory $gb: $name"
        ((status == 0)) || grep -q 'this process may use' stderr || complain "--memory $gb: $name: $(cat stderr)"
    done
done
unset -n words
"${sage[@]}" --cpus 2 --memory 0.5 >/dev/null 2>stderr || complain "--memory 0.5: coop_sage does not run: $(cat stderr)"

# ---- files of limited size: as on a full disk -----------------------------------------------------------------------------------

for kb in 0 1 2 4 8 16 64; do
    rm -rf kept model scores.npy "$STARPU_HOME/.starpu"
    limited -f $kb "${sage[@]}" --checkpoint kept --save model --predict scores.npy --metrics lines --hidden 64
    ((kb > 8 || status == 1)) || complain "files of $kb kB: expected exit code 1, found $status"
    if [[ -e model ]]; then
        "${sage[@]}" --hidden 64 --load model --epochs 0 --quiet 2>stderr || complain "files of $kb kB: left half a model: $(cat stderr)"
    fi
    ((status == 0)) || [[ ! -e scores.npy ]] || complain "files of $kb kB: left half a file of scores"
    [[ $(find . -maxdepth 2 -newer d -not -path './d*' -type f | grep -cvE '/(stderr|lines|model|scores.npy|lock|checkpoint.safetensors)$') -eq 0 ]] ||
        complain "files of $kb kB: left $(find . -maxdepth 2 -newer d -type f | xargs)"
    "${sage[@]}" >/dev/null 2>stderr || complain "after files of $kb kB: $(cat stderr)"
done

# Lines that nobody reads.
(
    "${sage[@]}" --epochs 1500 --eval-every 1500 --save model 2>stderr
    echo $? >code
) | head -n 1 >/dev/null
[[ $(cat code) -eq 1 && $(wc -l <stderr) -eq 1 && -s model ]] ||
    complain "a reader that goes: expected exit code 1, a line and the model, found $(cat code): $(cat stderr)"

# ---- features larger than the memory: the header tells, before they are read -----------------------------------------------------

# Sparse files: no disk is taken. too_large NAME COMMAND..: one line with both figures, at once.
too_large()
{
    local name=$1
    shift
    # shellcheck disable=SC2016
    timeout -s KILL 60 bash -c 'echo 1000 >/proc/self/oom_score_adj; exec "$@"' bash "$@" >/dev/null 2>stderr
    status=$?
    judge "$name: ${1##*/}"
    grep -Eq 'need [0-9.]+ GB of memory beside .* this process may use [0-9.]+ GB' stderr || complain "$name: ${1##*/}: $(cat stderr)"
}
rows=$(awk '/^MemTotal:/ { printf "%d", $2 * 1.2 / 64 }' /proc/meminfo) # of 64 kB in memory
mkdir -p large/raw large/split/s
echo "$rows" >large/raw/num-node-list.csv
echo 1 >large/raw/num-edge-list.csv
echo 0,1 >large/raw/edge.csv
n=0
for list in train valid test; do
    echo $((n++)) >large/split/s/$list.csv
done
# zeros DTYPE SHAPE BYTES >FILE: a .npy file of zeros.
zeros()
{
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
    truncate -s $((128 + $3)) /dev/stdout
}
zeros '|i1' "($rows,)" "$rows" >large/raw/node-label.npy
for form in "<f4 16384" "<f2 32768" "<f8 16384" "|i1 65536"; do # float64 takes half as much in memory
    zeros "${form% *}" "($rows, ${form#* })" $((rows * ${form:2:1} * ${form#* })) >large/raw/node-feat.npy
    for command in coop_sage pipe_gnn; do
        too_large "features $form" "$(program $command)" --dataset ./large --cache none --layers 2 --hidden 4 --epochs 1
    done
    too_large "features $form" "$(program starling_data)" info ./large --cache none
done
rm -r large

# ---- control groups, if they can be made ----------------------------------------------------------------------------------------

# make_group CONTROLLER: a group of version 1, in $group.
make_group()
{
    group=/sys/fs/cgroup/$1/starling-test-$$
    [[ -e /sys/fs/cgroup/$1/tasks ]] && mkdir "$group" 2>/dev/null && groups+=("$group")
}

# grouped NAME COMMAND..: run in $group.
grouped()
{
    local name=$1
    shift
    # shellcheck disable=SC2016
    timeout -s KILL 120 bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" >/dev/null 2>stderr
    status=$?
    judge "$name: ${1##*/}"
}

if make_group pids; then
    for n in 1 2 3 6; do
        echo $n >"$group/pids.max"
        grouped "$n processes" "${sage[@]}"
        grouped "$n processes" "${pipe[@]}"
        grouped "$n processes" "${info[@]}"
    done
fi
if make_group memory; then
    for mb in 16 32 64 200; do
        echo $((mb << 20)) >"$group/memory.limit_in_bytes"
        grouped "$mb MB of memory" "${sage[@]}"
        grouped "$mb MB of memory" "${pipe[@]}"
    done
fi
if make_group cpu && echo 30000 >"$group/cpu.cfs_quota_us"; then
    grouped "0.3 processors" "${sage[@]}"
    ((status == 0)) || complain "0.3 processors: $(cat stderr)"
    grouped "0.3 processors" "${pipe[@]}"
    ((status == 0)) || complain "0.3 processors: $(cat stderr)"
fi

# ---- one processor, and other runs ----------------------------------------------------------------------------------------------

last=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\([0-9]*\)$/\1/p' /proc/self/status)
timeout -s KILL 60 taskset -c "$last" "${sage[@]}" >stdout 2>stderr
status=$?
judge "one processor"
grep -q '^machine *1 worker,' stdout || complain "one processor: $(cat stdout stderr)"

# bound PID: the cores of its workers, once it is at work.
bound()
{
    local i task cores=
    for ((i = 0; i < 2400; i++)); do
        grep -qs '"step"' "lines.$1" && break
        sleep 0.05
    done
    for task in /proc/"$1"/task/*; do
        [[ $(cat "$task/comm" 2>/dev/null) == "CPU "* ]] && cores+=" $(sed -n 's/^Cpus_allowed_list:\t//p' "$task/status")"
    done
    echo "$cores"
}

# Of three runs of one worker at once no two are bound to one core; a run that is not bound says so.
if (($(nproc) > 1)); then
    unset STARPU_WORKERS_NOBIND
    children=()
    for n in 1 2 3; do
        # shellcheck disable=SC2016
        bash -c 'exec "$@" --metrics lines.$$ --metrics-steps --epochs 1000000 --eval-every 1000000 --cpus 1' bash "${sage[@]}" >"out.$n" 2>&1 &
        children+=($!)
    done
    seen=
    for n in 1 2 3; do
        cores=$(bound "${children[n - 1]}")
        if [[ $cores =~ ^\ [0-9]+$ ]]; then
            [[ " $seen " != *" ${cores# } "* ]] || complain "two runs are bound to core$cores"
            seen+=$cores
        else
            grep -q '^warning *other runs have bound' "out.$n" || complain "a run bound to '$cores' says nothing: $(cat "out.$n")"
        fi
    done
    kill -TERM "${children[@]}"
    wait
fi

exit $failed
