#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Which file may include what, and that each folder's local.am names all its files.
#
#   apps -> runtime -> codelets -> tasks -> partition -> data -> support, never upwards; in runtime the folders below, each those before it; no file
#   in a circle; no two files of one name; METIS, hwloc, NCCL, OpenBLAS, oneDNN and xxHash in one file each; MPI in tasks/mpi_*.c; StarPU in runtime, codelets and tasks only; no StarPU in CUDA sources.

set -u
layers=(support data partition tasks codelets runtime apps tests)
floors=(plan machine files report store objective model exchange sync minibatch full pipe train) # of runtime; starling.h is below them

# place_of: the place of a folder among the layers, or of a folder of runtime among the floors, from 1.
declare -A place_of
for i in "${!layers[@]}"; do
    place_of[${layers[i]}]=$((i + 1))
done
for i in "${!floors[@]}"; do
    place_of[runtime/${floors[i]}]=$((i + 1))
done

# floor FILE: set `floor` to the place of its folder in runtime; 0 for a file in none; empty for an unknown folder.
floor()
{
    local inside=${1#runtime/}
    floor=0
    [[ $inside != */* ]] || floor=${place_of[runtime/${inside%%/*}]:-}
}

# includes ROOT FOLDER: print FILE HEADER for each include of the folder's sources, "header" in quotes as written.
includes()
{
    (cd "$1" && find "$2" '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' ')' -exec awk '
        /^[ \t]*#[ \t]*include[ \t]*[<"]/ && match($0, /[<"][^>"]*[>"]/) { print FILENAME, substr($0, RSTART, RLENGTH) }' {} +) 2>/dev/null
}

# upward ROOT: complain about includes of a higher layer, and of headers without a folder.
upward()
{
    local layer file header
    for layer in "${layers[@]}"; do
        while read -r file header; do
            header=${header//\"/}
            [[ $header != config.h ]] || continue
            if [[ $header != */* || -z ${place_of[${header%%/*}]:-} ]]; then
                echo "$file includes \"$header\": expected a folder of ours in front, as in \"support/status.h\""
            elif ((place_of[${header%%/*}] > place_of[$layer])); then
                echo "$file includes \"$header\": $layer may not know of ${header%%/*}"
            fi
        done < <(includes "$1" "$layer" | grep '"')
    done
}

# upstairs ROOT: complain about includes of a higher folder in runtime, and of folders that have no place there.
upstairs()
{
    local file header here there floor
    while read -r file header; do
        header=${header//\"/}
        floor "$file"
        here=$floor
        floor "$header"
        there=$floor
        if [[ -z $here || -z $there ]]; then
            echo "$file includes \"$header\": expected folders of runtime that this test knows: ${floors[*]}"
        elif ((there > here)); then
            echo "$file includes \"$header\": ${file%/*} may not know of ${header%/*}"
        fi
    done < <(includes "$1" runtime | grep '"runtime/')
}

# calls ROOT: print FILE OTHER for each function of ours that a file calls and one other file defines. Definitions begin a line.
calls()
{
    (cd "$1" && find "${layers[@]}" '(' -name '*.c' -o -name '*.cu' ')' ! -path 'tests/*' -exec awk '
        /^[a-z]/ && /[^a-zA-Z_0-9]sl_[a-z0-9_]+\(/ {
            match($0, /sl_[a-z0-9_]+\(/)
            name = substr($0, RSTART, RLENGTH - 1)
        }
        /;$/ && !/^ / { name = "" }
        /^\{/ && name != "" { n_defined[name]++; defined[name] = FILENAME; name = "" }
        /^ / {
            line = $0
            while (match(line, /sl_[a-z0-9_]+\(/)) {
                called[FILENAME, substr(line, RSTART, RLENGTH - 1)]
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END {
            for (pair in called) {
                split(pair, part, SUBSEP)
                if (n_defined[part[2]] == 1) { print part[1], defined[part[2]] }
            }
        }' {} +)
}

# circular ROOT: complain about files that come to include themselves, or that call each other; a .c, its .h and its .cu are one file.
circular()
{
    local layer
    {
        for layer in "${layers[@]}"; do
            includes "$1" "$layer" | grep '"'
        done
        calls "$1"
    } | tr -d '"' | sed -E 's/(_cuda)?\.(c|h|cu|cuh|cc)( |$)/\3/g' | awk '$1 != $2' | tsort 2>&1 >/dev/null |
        sed -n 's/^tsort: \([a-z].*\/.*\)/\1 is in a circle of files/p'
}

# namesakes ROOT: complain about sources of the same name in two folders. Tests apart.
namesakes()
{
    (cd "$1" && find "${layers[@]}" '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ')' ! -path 'tests/*' | sort |
        awk -F/ '$NF in place { print place[$NF] " and " $0 " have the same name" } { place[$NF] = $0 }')
}

# users ROOT PATTERN FOLDER ...: the files of the folders that include a system header of the pattern.
users()
{
    local root=$1 pattern=$2 layer
    shift 2
    for layer in "$@"; do
        includes "$root" "$layer" | grep -E "<$pattern>" | cut -d ' ' -f 1
    done | sort -u
}

# foreign ROOT: complain about libraries that are included where they should not be.
foreign()
{
    local library file found
    for library in metis hwloc nccl cblas dnnl xxhash; do
        found=$(users "$1" "$library(/.*)?\.h" support data partition tasks codelets runtime apps)
        (($(wc -w <<<"$found") <= 1)) || echo "$library.h is included in several files, expected one:" $found
    done
    for file in $(users "$1" '(starpu_)?mpi\.h' support data partition tasks codelets runtime apps | grep -v '^tasks/mpi_'); do
        echo "$file includes MPI: only tasks/mpi_*.c may"
    done
    for file in $(users "$1" 'starpu.*' support data partition apps); do
        echo "$file includes StarPU: only runtime, codelets and tasks may"
    done
    for file in $(users "$1" 'starpu.*' tasks codelets runtime | grep '\.cu$'); do
        echo "$file includes StarPU: a CUDA source must compile without"
    done
}

# lists ROOT FOLDER FILE: whether the folder's local.am, or that of a folder in it, names the file; or tests/lists.am does.
lists()
{
    local list=$1/$2/local.am name=${3#"$2"/}
    if [[ $name == */* && -f $1/$2/${name%%/*}/local.am ]]; then
        list=$1/$2/${name%%/*}/local.am
        name=${name#*/}
    fi
    grep -qsE "%D%/${name//./\\.}( |\$)" "$list" || { [[ $2 == tests ]] && grep -qsE "^\s${3//./\\.}( |\$)" "$1/tests/lists.am"; }
}

# unlisted ROOT: complain about sources that no local.am names: the tarball would lack them.
unlisted()
{
    local file layer
    for layer in "${layers[@]}"; do
        while read -r file; do
            lists "$1" "$layer" "$file" || echo "$file is not named in $layer/local.am"
        done < <(cd "$1" && find "$layer" -type f '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' -o -name '*.sh' ')')
    done
}

# must_complain CHECK FILE TEXT WORDS: see that the check finds a fault planted into a tree of its own.
must_complain()
{
    local tree layer
    tree=$(mktemp -d) || exit 99
    mkdir -p "${layers[@]/#/$tree/}" "${floors[@]/#/$tree/runtime/}"
    for layer in "${layers[@]}"; do
        : >"$tree/$layer/local.am"
    done
    mkdir -p "$tree/${2%/*}"
    printf '%b' "$3" >"$tree/$2"
    [[ $2 != */twin.h ]] || printf '%b' "$3" >"$tree/support/twin.h"
    [[ $2 != */a.c ]] || cp "$tree/$2" "${tree}/${2%/a.c}/b.c"
    [[ $2 != */ring.h ]] || printf '#include "%s"\n' "$2" >"$tree/${2%/ring.h}/back.c"
    [[ $2 != */ring.c ]] || printf 'int sl_back(void)\n{\n    return sl_ring();\n}\n' >"$tree/${2%/ring.c}/back.c"
    "$1" "$tree" | grep -q "$4" || echo "the check $1 overlooks $2: $3"
    rm -rf "$tree"
}

faults=$(
    must_complain upward support/x.h '#include "data/graph.h"\n' 'may not know of data'
    must_complain upward data/x.h '#include "partition/partition.h"\n' 'may not know of partition'
    must_complain upward data/x.c '#  include "runtime/step.h" /* why not */\n' 'may not know of runtime'
    must_complain upward codelets/x.cu '#include "apps/x.h"\n' 'may not know of apps'
    must_complain upward tasks/x.h '#include "codelets/x.h"\n' 'tasks may not know of codelets'
    must_complain upward runtime/x.c '#include "tests/x.h"\n' 'may not know of tests'
    must_complain upward runtime/plan/x.c '#include "tests/x.h"\n' 'may not know of tests'
    must_complain upward runtime/x.c '#include "step.h"\n' 'expected a folder'
    must_complain upstairs runtime/plan/x.c '#include "runtime/model/x.h"\n' 'runtime/plan may not know of runtime/model'
    must_complain upstairs runtime/x.h '#include "runtime/plan/x.h"\n' 'may not know of runtime/plan'
    must_complain upstairs runtime/attic/x.c '#include "runtime/plan/x.h"\n' 'expected folders'
    must_complain circular runtime/plan/ring.h '#include "runtime/plan/back.h"\n' 'runtime/plan/.* in a circle'
    must_complain circular codelets/ring.h '#include "codelets/back_cuda.cu"\n' 'codelets/.* in a circle'
    must_complain circular data/ring.c 'int sl_ring(void)\n{\n    return sl_back();\n}\n' 'data/.* in a circle'
    must_complain namesakes runtime/plan/twin.h 'int x;\n' 'runtime/plan/twin.h and support/twin.h have the same name'
    must_complain foreign data/a.c '#include <metis.h>\n' 'several files'
    must_complain foreign runtime/plan/a.c '#include <hwloc.h>\n' 'several files'
    must_complain foreign codelets/a.c '#include <cblas.h>\n' 'several files'
    must_complain foreign data/x.c '#include <starpu.h>\n' 'only runtime, codelets and tasks'
    must_complain foreign apps/x.c '#include <starpu_data.h>\n' 'only runtime, codelets and tasks'
    must_complain foreign codelets/x_cuda.cu '#include <starpu.h>\n' 'must compile without'
    must_complain unlisted support/x.c 'int x;\n' 'not named'
    must_complain unlisted runtime/plan/x.c 'int x;\n' 'runtime/plan/x.c is not named'
    must_complain unlisted tests/bench/x.h 'int x;\n' 'not named'
    upward "$top_srcdir"
    upstairs "$top_srcdir"
    circular "$top_srcdir"
    namesakes "$top_srcdir"
    foreign "$top_srcdir"
    unlisted "$top_srcdir"
)
[[ -z $faults ]] || { echo "$faults"; exit 1; }
(($(includes "$top_srcdir" support | wc -l) > 10)) || { echo "no sources found below $top_srcdir"; exit 1; }
