#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# README.md and doc/guide: the commands run as they stand and print the output shown, every link leads to a file or a
# heading, and the README's chart is drawn from the README's table.
#
# The first line of a fenced block says what happens here:
#
#   ```sh run            the block is run by bash, which stops at the first command that fails
#   ```sh run WORD ..    the block is run if this machine has what each word names, else skipped and counted:
#                        slow (SL_LONG=1), mpi, gpu, slurm, or a dataset of $STARLING_DATA, such as cora
#   ```sh show           the block is only shown
#   ```python run        as sh, by a Python that has NumPy; `package`: and the package starling_gnn
#   ```text              right below a block that was run: its output. A line `...` stands for any number of lines.
#                        Times, memory and worker counts may differ. So may fractions, by 2 %: rounding depends on the
#                        processor
#
# The blocks of a page run one after the other in one folder, where ./apps is the folder of the programs, and
# ./python/starling the command of the Python package.

asked=()
for page in "$@"; do
    asked+=("$(realpath "$page")")
done
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
apps=$top_builddir/apps
export STARLING_LIBRARY=$top_builddir/.libs/libstarling.so PYTHONPATH=$top_srcdir/python PYTHONDONTWRITEBYTECODE=1
pages=("$top_srcdir"/README.md "$top_srcdir"/doc/guide/*.md)
[[ $# -eq 0 ]] || pages=("${asked[@]}")
n_run=0 n_shown=0
declare -A n_skipped=()

# ---- what a block needs ----

has_dataset()
{
    local place places
    IFS=: read -ra places <<<"$data"
    for place in ${places[@]+"${places[@]}"}; do
        [[ ! -d $place/$1/raw ]] || return 0
    done
    return 1
}

has()
{
    case $1 in
    slow) [[ ${SL_LONG:-} == 1 ]] ;;
    mpi) command -v mpirun >/dev/null && grep -q starpumpi "$top_builddir/starling.pc" ;;
    gpu) [[ ${SL_TEST_DEVICE:-} == cuda ]] && ! "$apps/starling_data" info | grep -q '^gpus *none' ;;
    slurm) [[ -n ${SLURM_JOB_ID:-} ]] ;;
    numpy) python3 -c 'import numpy' 2>/dev/null ;;
    matplotlib) python3 -c 'import matplotlib, starling_gnn' 2>/dev/null ;;
    package) python3 -c 'import starling_gnn' 2>/dev/null ;;
    *) has_dataset "$1" ;;
    esac
}

# ---- a block ----

# The command that failed and its line, counted from the block's first, go to descriptor 3.
prelude='set -eE; trap '\''printf "%s %s\n" "$LINENO" "$BASH_COMMAND" >&3'\'' ERR; exec </dev/null'

# run_block PAGE LINE LANGUAGE: run $folder/block in $work; its output is in $folder/output.
run_block()
{
    local status line command
    if [[ $3 == python ]]; then
        (cd "$work" && timeout 300 python3 "$folder/block") >"$folder/output" 2>&1 3>"$folder/where"
    else
        (cd "$work" && timeout 300 bash -c "$prelude; source \"\$0\"" "$folder/block") >"$folder/output" 2>&1 3>"$folder/where"
    fi
    status=$?
    ((n_run++))
    ((status == 0)) && return
    read -r line command < <(head -n 1 "$folder/where") || { line=1 command=$(head -n 1 "$folder/block"); }
    complain "$1:$(($2 + line)): '$command' ended with $status: $(tail -n 5 "$folder/output")"
}

# mask FILE: without times, sizes and what else depends on the machine. A line that goes on below its text (support/lines.h)
# is one line.
mask()
{
    awk 'NR > 1 && /^          [^ ]/ { # mawk has no {10}
         sub(/^ +/, " "); printf "%s", $0; next }
         NR > 1 { print "" }
         { printf "%s", $0 }
         END { if (NR > 0) print "" }' "$1" |
        sed -E '/^warning +other runs have bound/d
            s/[0-9.]+ (s|GB|MB|ms)\b/# \1/g
            s/[0-9]+ workers?, scheduler [a-z]+, [0-9]+ chunks? a PE/# workers/
            s/best epoch [0-9]+/best epoch #/
            s/[0-9.]+ % of it hidden/# hidden/
            s/[ \t]+/ /g
            s/^ | $//g'
}

# Other runs of this machine change nothing, on several lines either.
printf 'dataset   d\nwarning   other runs have bound 1 of the 2 cores of this process:\n          its workers are not bound\n' >"$folder/lines"
[[ $(mask "$folder/lines") == 'dataset d' ]] || complain "mask leaves: $(mask "$folder/lines")"

# Compare masked files, the page's first: words and whole numbers are equal, fractions within 2 %. Prints the first
# difference, after the number of the page's line.
compare='
function alike(a, b,    n, m, x, y, i, d) {
    n = split(a, x, " ")
    m = split(b, y, " ")
    if (n != m) return 0
    for (i = 1; i <= n; i++) {
        if (x[i] == y[i]) continue
        if (x[i] !~ /^-?[0-9]*\.[0-9]+$/ || y[i] !~ /^-?[0-9]*\.[0-9]+$/) return 0
        d = x[i] - y[i]
        if (d * d > 0.02 * x[i] * 0.02 * x[i]) return 0
    }
    return 1
}
NR == FNR { shown[++n_shown] = $0; next }
{ found[++n_found] = $0 }
END {
    i = 1
    for (k = 1; k <= n_shown; k++) {
        if (shown[k] == "...") { any = 1; continue }
        while (any && i <= n_found && !alike(shown[k], found[i])) i++
        if (i > n_found || !alike(shown[k], found[i])) {
            print k "\nthe page shows\n  " shown[k]
            print "found\n  " (i > n_found ? "(nothing more)" : found[i])
            exit
        }
        i++
        any = 0
    }
    if (i <= n_found && !any) print n_shown "\nthe page does not show\n  " found[i]
}'

# check_output PAGE LINE: $folder/block is what the page shows.
check_output()
{
    local line difference
    mask "$folder/block" >"$folder/shown"
    mask "$folder/output" >"$folder/found"
    awk "$compare" "$folder/shown" "$folder/found" >"$folder/difference"
    { read -r line; difference=$(cat); } <"$folder/difference"
    [[ -z $difference ]] || complain "$1:$(($2 + line)): $difference"
}

# block PAGE LINE INFO BEFORE: a fenced block whose lines are in $folder/block. BEFORE is "run" if a block that was run is
# right above. Sets `before` for the next block.
block()
{
    local page=$1 line=$2 info before_this=$4 word
    read -ra info <<<"$3"
    before=
    case ${info[0]:-} in
    text)
        [[ $before_this != run ]] || check_output "$page" "$line"
        return
        ;;
    sh | python) ;;
    *) return ;;
    esac
    case ${info[1]:-} in
    run) ;;
    show)
        ((n_shown++))
        return
        ;;
    *)
        complain "$page:$line: expected '\`\`\`${info[0]} run' or '\`\`\`${info[0]} show', found '$3'"
        return
        ;;
    esac
    [[ ${info[0]} == sh ]] || info+=(numpy)
    for word in "${info[@]:2}"; do
        if ! has "$word"; then
            n_skipped[$word]=$((${n_skipped[$word]:-0} + 1))
            return
        fi
        has_dataset "$word" && export STARLING_DATA=$data
    done
    run_block "$page" "$line" "${info[0]}"
    unset STARLING_DATA
    before=run
}

# ---- links ----

# The name that a heading has in a link.
anchors()
{
    sed -n 's/^#\+ //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# check_links PAGE: no link leads nowhere or out of the tree.
check_links()
{
    local target file anchor page=$1
    while read -r target; do
        file=${target%%#*}
        anchor=${target#"$file"}
        case $target in
        https://* | mailto:*) continue ;;
        /* | http:*)
            complain "$page: expected a relative link, found $target"
            continue
            ;;
        esac
        file=${file:+$(dirname "$page")/$file}
        file=${file:-$page}
        if [[ ! -e $file ]]; then
            complain "$page: the link $target leads nowhere"
        elif [[ -n $anchor ]] && ! anchors "$file" | grep -Fxq -e "${anchor#\#}"; then
            complain "$page: the link $target names no heading of $file"
        fi
    done < <(grep -v '^    ' "$page" | sed 's/`[^`]*`//g' | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//')
}

# ---- the pages ----

for page in "${pages[@]}"; do
    name=${page#"$top_srcdir"/}
    work=$folder/${name//\//-}
    mkdir -p "$work/python" && ln -s "$apps" "$work/apps" || exit 99
    printf '#!/bin/sh\nexec python3 -m starling_gnn "$@"\n' >"$work/python/starling" && chmod +x "$work/python/starling" || exit 99
    check_links "$page"
    number=0 inside=0 before=
    while IFS= read -r text; do
        ((number++))
        if [[ $inside == 0 && $text == '```'* ]]; then
            inside=1 start=$number info=${text#'```'}
            : >"$folder/block"
        elif [[ $inside == 1 && $text == '```' ]]; then
            inside=0
            block "$name" "$start" "$info" "$before"
        elif [[ $inside == 1 ]]; then
            printf '%s\n' "$text" >>"$folder/block"
        elif [[ -n $text ]]; then
            before=
        fi
    done <"$page"
    [[ $inside == 0 ]] || complain "$name:$start: the block has no end"
done

if [[ $# -eq 0 ]]; then
    bash "$top_srcdir/tests/bench/chart.sh" "$top_srcdir/README.md" | cmp -s - "$top_srcdir/doc/epoch-times.svg" ||
        complain "doc/epoch-times.svg does not show the README's table: run make chart"
fi

printf '%d blocks were run, %d are only shown; skipped:' "$n_run" "$n_shown"
for word in "${!n_skipped[@]}"; do
    printf ' %d for want of %s,' "${n_skipped[$word]}" "$word"
done
printf '\n'
exit $failed
