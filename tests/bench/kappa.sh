#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# kappa: the share of input rows that a row cache misses, for each sampler that has dependent minibatches. One PE of 128 seeds,
# ogbn-arxiv, fanout 10,10,10, a cache of a fifth of the vertices. Counts only: they are the same on every machine.
#
# usage: kappa.sh PROGRAM [KAPPA ...]

set -eu

program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(($# > 0)) || set -- 1 32 256
kappas=("$@")

# missed OPTION ...: the share of the epoch's rows that are not in the cache, and the rows.
missed()
{
    "$program" --quiet --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --pes 1 --batch-size 128 --hidden 8 \
        --fanout 10,10,10 --feature-cache 34000 --epochs 1 --eval-every 0 --metrics "$folder/metrics" "$@"
    sed -n 's/.*"feature_cache":{\([^}]*\)}.*/\1/p' "$folder/metrics" |
        sed -n 's/.*"rows":\([0-9]*\).*"hits":\([0-9]*\).*/\1 \2/p' | awk '{ printf " %.3f (%.1f M) |", 1 - $2 / $1, $1 / 1e6 }'
}

printf '| sampler |'
printf ' kappa %s |' "${kappas[@]}"
printf '\n| --- |'
printf ' --- |%.0s' "${kappas[@]}"
for sampler in "neighbor" "labor" "labor --layer-dependency" "labor --labor-iterations 1" "labor --labor-iterations converge"; do
    printf '\n| %s |' "$sampler"
    for kappa in "${kappas[@]}"; do
        # shellcheck disable=SC2086
        missed --sampler $sampler --kappa "$kappa"
    done
done
echo
