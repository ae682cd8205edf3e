#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Which file may include what, and that each folder's local.am names all its files.
#
#   apps -> runtime -> codelets -> partition -> support, never upwards; METIS, hwloc and NCCL in one file each; StarPU in
#   runtime and codelets only; no StarPU in CUDA sources.

set -u
layers=(support partition codelets runtime apps tests)

# rank FOLDER: its place among the layers, from 0; nothing for a folder that is none.
rank()
{
    local i
    for i in "${!layers[@]}"; do
        [[ ${layers[i]} != "$1" ]] || echo "$i"
    done
}

# includes ROOT FOLDER: print FILE HEADER for each include of the folder's sources, "header" in quotes as written.
includes()
{
    (cd "$1" && find "$2" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh') 2>/dev/null | while read -r file; do
        sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*[>"]\).*/\1/p' "$1/$file" | sed "s|^|$file |"
    done
}

# upward ROOT: complain about includes of a higher layer, and of headers without a folder.
upward()
{
    local layer file header
    for layer in "${layers[@]}"; do
        while read -r file header; do
            header=${header//\"/}
            [[ $header != config.h ]] || continue
            if [[ $header != */* || -z $(rank "${header%%/*}") ]]; then
                echo "$file includes \"$header\": expected a folder of ours in front, as in \"support/status.h\""
            elif (($(rank "${header%%/*}") > $(rank "$layer"))); then
                echo "$file includes \"$header\": $layer may not know of ${header%%/*}"
            fi
        done < <(includes "$1" "$layer" | grep '"')
    done
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
    for library in metis hwloc nccl; do
        found=$(users "$1" "$library(/.*)?\.h" support partition codelets runtime apps)
        (($(wc -w <<<"$found") <= 1)) || echo "$library.h is included in several files, expected one:" $found
    done
    for file in $(users "$1" 'starpu.*' support partition apps); do
        echo "$file includes StarPU: only runtime and codelets may"
    done
    for file in $(users "$1" 'starpu.*' codelets runtime | grep '\.cu$'); do
        echo "$file includes StarPU: a CUDA source must compile without"
    done
}

# unlisted ROOT: complain about sources that no local.am names: the tarball would lack them.
unlisted()
{
    local file folder
    for folder in "${layers[@]}"; do
        for file in "$1/$folder"/*.[ch] "$1/$folder"/*.cu "$1/$folder"/*.cuh "$1/$folder"/*.sh; do
            file=${file##*/}
            [[ $file == \** ]] || grep -qE "%D%/${file//./\\.}( |\$)" "$1/$folder/local.am" ||
                { [[ $folder == tests && $file == *.c ]] && grep -qE "%D%/${file%.c}( |\$)" "$1/$folder/local.am"; } ||
                echo "$folder/$file is not named in $folder/local.am"
        done
    done
}

# must_complain CHECK FILE TEXT WORDS: see that the check finds a fault planted into a tree of its own.
must_complain()
{
    local tree
    tree=$(mktemp -d) || exit 99
    mkdir -p "${layers[@]/#/$tree/}"
    for folder in "${layers[@]}"; do
        : >"$tree/$folder/local.am"
    done
    printf '%b' "$3" >"$tree/$2"
    [[ $2 != */a.c ]] || cp "$tree/$2" "${tree}/${2%/a.c}/b.c"
    "$1" "$tree" | grep -q "$4" || echo "the check $1 overlooks $2: $3"
    rm -rf "$tree"
}

faults=$(
    must_complain upward support/x.h '#include "partition/graph.h"\n' 'may not know of partition'
    must_complain upward partition/x.c '#  include "runtime/minibatch/step.h" /* why not */\n' 'may not know of runtime'
    must_complain upward codelets/x.cu '#include "apps/x.h"\n' 'may not know of apps'
    must_complain upward runtime/x.c '#include "tests/x.h"\n' 'may not know of tests'
    must_complain upward runtime/x.c '#include "step.h"\n' 'expected a folder'
    must_complain foreign partition/a.c '#include <metis.h>\n' 'several files'
    must_complain foreign runtime/a.c '#include <hwloc.h>\n' 'several files'
    must_complain foreign partition/x.c '#include <starpu.h>\n' 'only runtime and codelets'
    must_complain foreign apps/x.c '#include <starpu_data.h>\n' 'only runtime and codelets'
    must_complain foreign codelets/x_cuda.cu '#include <starpu.h>\n' 'must compile without'
    must_complain unlisted support/x.c 'int x;\n' 'not named'
    upward "$top_srcdir"
    foreign "$top_srcdir"
    unlisted "$top_srcdir"
)
[[ -z $faults ]] || { echo "$faults"; exit 1; }
(($(includes "$top_srcdir" support | wc -l) > 10)) || { echo "no sources found below $top_srcdir"; exit 1; }
