# shellcheck shell=bash disable=SC2034,SC2154 # $top_srcdir comes from `make check`; the tests use the variables
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The common part of the shell tests. A test begins with
#
#   source "$top_srcdir/tests/lib.sh"
#
# Then $folder is an empty temporary folder and the current folder. It is removed at the end. STARLING_DATA is not set;
# $data has its value. $failed is 0 until complain is called. A test ends with `exit $failed`.

set -u

top_srcdir=$(realpath "$top_srcdir") && top_builddir=$(realpath "$top_builddir") || exit 99

# The programs. `make check-gpu-sim` names other builds of them.
coop_sage=$(realpath "${COOP_SAGE_PROGRAM:-$top_builddir/apps/coop_sage}") &&
    pipe_gnn=$(realpath "${PIPE_GNN_PROGRAM:-$top_builddir/apps/pipe_gnn}") &&
    starling_data=$(realpath "${STARLING_DATA_PROGRAM:-$top_builddir/apps/starling_data}") || exit 99

# "${launch[@]}" -np N COMMAND: N processes.
launch=(mpirun -q --oversubscribe --bind-to none)

data=${STARLING_DATA:-}
unset STARLING_DATA
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0

# at_exit: called at the end of the test, before the folder is removed. A test may define it anew.
at_exit()
{
    :
}
folder=$(mktemp -d) || exit 99
# Two mpirun at a time would remove the folder of their sessions for each other.
OMPI_MCA_orte_tmpdir_base=$(mktemp -d) || exit 99
export OMPI_MCA_orte_tmpdir_base
readonly to_remove=("$folder" "$OMPI_MCA_orte_tmpdir_base") # a test may have a variable `folder` of its own
trap 'at_exit; rm -rf "${to_remove[@]}"' EXIT
cd "$folder" || exit 99

# complain TEXT: report a failure and go on.
complain()
{
    printf '%s\n\n' "$*"
    failed=1
}

# expect STATUS PATTERN ARGUMENT...: the exit code of $program, and an extended regular expression that standard output, or standard
# error if the code is not 0, must match. Errors are one line, and nothing else goes there.
expect()
{
    local status pattern=$2 output wanted=$1
    shift 2
    "$program" "$@" >stdout 2>stderr
    status=$?
    output=$(cat stdout)
    [[ $wanted -ne 0 ]] && output=$(cat stderr)
    [[ $status -eq $wanted ]] || complain "$*: expected exit code $wanted, found $status: $output $(cat stderr)"
    grep -Eq -- "$pattern" <<<"$output" || complain "$*: expected '$pattern', found: $output"
    [[ $wanted -eq 0 && -s stderr ]] && complain "$*: expected nothing on standard error, found: $(cat stderr)"
    [[ $wanted -ne 0 && $(wc -l <stderr) -ne 1 ]] && complain "$*: expected one line of error, found: $(cat stderr)"
    return 0
}

# refuse PATTERN COMMAND ...: the command prints one line on standard error, which matches, and ends with exit code $code [1 or 2]
# within 50 s: before a watchdog would end it.
refuse()
{
    local pattern=$1 status
    shift
    timeout 50 "$@" >"$folder/stdout" 2>"$folder/stderr" </dev/null
    status=$?
    [[ " ${code:-1 2} " == *" $status "* && $(wc -l <"$folder/stderr") -eq 1 ]] ||
        complain "$*: expected exit code ${code:-1 or 2} and a line, found $status: $(cat "$folder/stderr")"
    grep -Eq -- "$pattern" "$folder/stderr" || complain "$*: expected '$pattern', found: $(cat "$folder/stderr")"
}

# skip REASON: end the test without a result; with 1 if a check has failed before.
skip()
{
    echo "$*"
    ((failed == 0)) || exit 1
    exit 77
}

# Whether programs of this build may run as several processes.
has_mpi()
{
    grep -q starpumpi "$top_builddir/starling.pc"
}

# need_mpi: skip the test if several processes cannot run here.
need_mpi()
{
    has_mpi || skip "this build has no MPI"
    command -v mpirun >/dev/null || skip "there is no mpirun"
    "${launch[@]}" -np 2 true </dev/null >stdout 2>&1 || skip "mpirun does not start: $(head -n 1 stdout)"
}

# ranks N ARGUMENT ...: $program in N processes.
ranks()
{
    timeout 300 "${launch[@]}" -np "$1" "$program" "${@:2}" </dev/null
}

# Options by which a run of many ranks leaves all of its results. Of one process they have the name "one".
results=(--metrics many --predict many.scores.npy --embed many.rows.npy --save many.model)

# all_losses FILE: metrics have a line of each of --epochs and, with --metrics-steps, before it its steps, as many in each epoch.
all_losses()
{
    awk '/"event": ?"config"/ { epochs = $0; sub(/.*"epochs": ?/, "", epochs); with_steps = /"metrics_steps": ?true/ }
         /"event": ?"step"/ { step = $0; sub(/.*"step": ?/, "", step); bad += step + 0 != n_steps++ }
         /"event": ?"epoch"/ { if (++n_epochs == 1) each = n_steps; bad += n_steps != n_epochs * each || !/"train_loss": ?[0-9]/ }
         END { exit bad > 0 || n_epochs == 0 || n_epochs != epochs + 0 || (with_steps && n_steps == 0) }' "$1"
}

# same_results NAME: one process and many have left the same figures, with all losses, scores, rows and model; and something went
# between ranks.
same_results()
{
    local file
    figures one >one.figures
    figures many >many.figures
    all_losses one || complain "$1: losses are missing: $(cat one)"
    cmp -s one.figures many.figures || complain "$1: ranks give other figures: $(diff one.figures many.figures | head -n 4 | cut -c 1-300)"
    for file in scores.npy rows.npy model; do
        cmp -s "one.$file" "many.$file" || complain "$1: ranks give other $file"
    done
    grep '"epoch"' many | grep -q '"between_ranks": *[1-9]' || complain "$1: nothing went between ranks: $(tail -n 1 many)"
}

# as_ranks NAME N ARGUMENT ...: $program leaves the same results in one process and in N.
as_ranks()
{
    local name=$1 n=$2
    shift 2
    rm -f one* many*
    "$program" "${results[@]//many/one}" "$@" >stdout 2>stderr || complain "$name: $(cat stderr)"
    ranks "$n" "${results[@]}" "$@" >stdout 2>&1 || complain "$name on $n ranks: $(tail -n 1 stdout)"
    same_results "$name on $n ranks"
}

# sum_of NAME: of all epochs of `many`.
sum_of()
{
    grep '"epoch"' many | sed -n "s/.*\"$1\": *\([0-9][0-9]*\).*/\1/p" | awk '{ n += $1 } END { print n }'
}

# ranks_in_background METRICS LINE ARGUMENT ...: $program in two ranks; waits until the file METRICS has the LINE. Sets `launcher`, and
# `last`, a rank. If the run does not come to this, the test ends.
ranks_in_background()
{
    local metrics=$1 line=$2 i
    shift 2
    "${launch[@]}" -np 2 "$program" --metrics "$metrics" "$@" </dev/null >stdout 2>stderr &
    launcher=$!
    for ((i = 0; i < 6000; i++)); do
        grep -qs "$line" "$metrics" && last=$(pgrep -P "$launcher" | sed -n 2p) && [[ -n $last ]] && return
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.02
    done
    kill "$launcher" 2>/dev/null && wait "$launcher"
    complain "a run of two ranks has ended, or not written $line in two minutes: $(cat stderr)"
    exit 1
}

# ended_badly WHAT [PATTERN]: the run in the background ends within 90 s, and not well; a line on standard error matches.
ended_badly()
{
    local start=$SECONDS
    wait "$launcher" && complain "$1: it ended well"
    ((SECONDS - start <= 90)) || complain "$1: it ended after $((SECONDS - start)) s"
    grep -Eq -- "${2:-}" stderr || [[ -z ${2:-} ]] || complain "$1: expected '$2', found: $(cat stderr)"
}

# asked_to_stop: a rank of the run in the background gets SIGUSR1: all end well, with a checkpoint in `kept`.
asked_to_stop()
{
    local status
    kill -USR1 "$last"
    wait "$launcher"
    status=$?
    [[ $status -eq 0 ]] || complain "a run of which a rank was asked to stop: expected exit code 0, found $status: $(cat stderr)"
    ls kept/*.safetensors >/dev/null 2>&1 || complain "it has left no checkpoint"
}

# python_with MODULES: print the name of the first Python that has these modules, as in "numpy, matplotlib".
python_with()
{
    local candidate
    for candidate in ${SL_PYTHON:+"${SL_PYTHON/#:/python3}"} ${PYTHON:+"${PYTHON/#:/python3}"} python3 /usr/bin/python3; do
        "$candidate" -c "import sys, $1; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && echo "$candidate" && return
    done
    return 1
}

# need_layers: $python has torch and safetensors, and $libraries are the libraries of layers that it has; without any, skip.
need_layers()
{
    python=${PYTHON:-python3} libraries=
    local library
    for library in torch_geometric dgl; do
        "$python" -c "import numpy, safetensors.torch, $library" 2>/dev/null && libraries+=" $library"
    done
    [[ -n $libraries ]] || skip "$python has no torch, safetensors and torch_geometric or dgl"
}

# preload_sanitizer LIBRARY: programs such as python3 can load a LIBRARY that was built with the address sanitizer only
# if they load the sanitizer first. Their own leaks are not looked at.
preload_sanitizer()
{
    local sanitizer
    sanitizer=$(ldd "$1" | sed -n 's/.*=> \(.*libasan[^ ]*\) .*/\1/p')
    [[ -z $sanitizer ]] || export LD_PRELOAD=$sanitizer ASAN_OPTIONS=detect_leaks=0
}

# generate NAME OPTION ...: make the dataset ./NAME anew, with tables as text.
generate()
{
    rm -rf "$1"
    "$starling_data" generate --out "$@" >/dev/null && "$top_srcdir/tests/as_text" "$1" || exit 99
}

# make_links NAME N TRAIN VALID TEST VALID_NEG [TEST_NEG [RELATIONS]]: a dataset of distinct random pairs of N vertices, in lists of so
# many, or triples of RELATIONS relations.
make_links()
{
    mkdir -p "$1/raw" "$1/split/only" || exit 99
    echo "$2" >"$1/raw/num-node-list.csv"
    awk -v n="$2" -v sizes="${*:3:5}" -v relations="${8:-0}" -v to="$1/split/only/" 'BEGIN {
        srand(11)
        split(sizes, n_of, " ")
        n_lists = split("train valid test valid_neg test_neg", lists, " ")
        for (l = 1; l <= n_lists; l++) {
            for (i = 0; i < n_of[l];) {
                u = int(n * rand()); v = int(n * rand())
                if (u >= v || (u, v) in seen) continue
                seen[u, v] = 1; i++
                print u "," (relations ? int(relations * rand()) "," : "") v >(to lists[l] ".csv")
            }
        }
    }'
}

# own_negatives FILE LINKS K: a table of K negatives of each link, ids below 200.
own_negatives()
{
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': ($2, $3), }" >"$1"
    printf '%b' "$(awk -v n=$(($2 * $3)) 'BEGIN { for (i = 0; i < n; i++) printf "\\0%03o", (i * i * 7 + i * 31) % 199 }')" >>"$1"
}

# figures FILE: the lines of a metrics file, without times and other figures that depend on the machine.
figures()
{
    grep -E '"event": ?"(step|epoch|summary)"' "$1" |
        sed -E 's/,"(seconds|eval_seconds|overlap|peak_rss_bytes|between_ranks)": ?[^,}]*//g
                s/,"(stage_seconds|messages)": ?\{[^}]*\}//g'
}
