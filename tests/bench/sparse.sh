#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# What wide sparse features gain from being held as CSR: the same training with the table as it is and laid out dense, on
# coauthor-cs ($STARLING_DATA) and on a generated bag of words of 8,000 columns. Exit status 1 where sparse is not at least 5 times
# as fast.
#
# usage: sparse.sh PHASES STARLING_DATA

set -eu

phases=$1
starling_data=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# figure COLUMN NAME: of the phase in the table that phases printed last.
figure()
{
    awk -F ' *[|] *' -v column="$1" -v name="$2" 'index($2, name) { print $column; exit }' "$folder/table"
}

# row NAME FORM OPTION ...: train, print a row, and leave the seconds in $seconds.
row()
{
    local name=$1 form=$2
    shift 2
    if ! "$phases" --epochs 5 --eval-every 0 --cache "$folder/cache" "$@" >"$folder/table" 2>"$folder/error"; then
        cat "$folder/error" >&2
        exit 1
    fi
    seconds=$(figure 3 'train an epoch')
    printf '| %s | %s | %s | %s | %s | %s |\n' "$name" "$form" "$seconds" "$(figure 4 'train an epoch')" \
        "$(figure 5 'train an epoch')" "$(sed -n 's/.*Loss of the last epoch: \(.*\)\./\1/p' "$folder/table")"
}

# compare NAME OPTION ...
compare()
{
    local name=$1 sparse
    shift
    row "$name" sparse "$@"
    sparse=$seconds
    row "$name" dense --dense-features "$@"
    awk -v s="$sparse" -v d="$seconds" 'BEGIN { printf "| | dense / sparse | %.1f | | | |\n", d / s; exit d < 5 * s }' ||
        [[ -n ${SL_SMOKE:-} ]] || failed=1
}

"$starling_data" generate --vertices 50000 --edges 250000 --features 8000 --classes 20 --sparse --out "$folder/words"
echo '| features | held | epoch, s (median of 5) | processor s | peak MB | loss after 5 epochs |'
echo '| --- | --- | --- | --- | --- | --- |'
if [[ -d ${STARLING_DATA:-}/coauthor-cs ]]; then
    compare 'coauthor-cs, 6,805 columns' --dataset coauthor-cs --split luo2024-60-20-20 --layers 2 --hidden 256 \
        --fanout 10,10 --batch-size 512 --pes 2
else
    echo '| coauthor-cs | skipped: not on STARLING_DATA | | | | |'
fi
compare 'generated words, 8,000 columns' --dataset "$folder/words" --layers 2 --hidden 256 --fanout 10,10 --pes 2
exit $failed
