#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Whether two builds compute the same bits: tests/bits.sh COOP_SAGE [OTHER]
#
# Prints the losses of 12 short runs over samplers, norms, gossip, sparse features, kappa, feature cache, residual, P and G, every
# digit that is needed to read the same double back, on two generated graphs. With OTHER, another build's program, it runs both and
# shows where they differ (exit status 1). Losses depend on the processor, and on the libraries that multiply, so that no file of them is kept.

set -u
program=${1:?usage: tests/bits.sh COOP_SAGE [OTHER]}
generate=$(dirname "$program")/starling_data
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export STARPU_SILENT=1 STARPU_HOME=$work STARLING_CACHE=none

"$generate" generate --vertices 3000 --edges 20000 --features 48 --classes 7 --out "$work/dense" >/dev/null &&
    "$generate" generate --vertices 3000 --edges 20000 --features 400 --classes 7 --sparse --out "$work/sparse" >/dev/null || exit 1

# losses PROGRAM: one line a run.
losses()
{
    local name dataset options
    while read -r name dataset options; do
        # shellcheck disable=SC2086 # the options are words
        "$1" --dataset "$work/$dataset" --epochs 2 --batch-size 60 --hidden 32 --layers 2 --cpus 2 --json --metrics-steps \
            $options >"$work/lines" 2>"$work/error" || { echo "$name: $(cat "$work/error")"; continue; }
        echo "$name $(sed -n 's/^{"event": *"step".*"loss": *\([^,}]*\).*/\1/p' "$work/lines" | tr '\n' ' ')"
    done <<'RUNS'
plain dense --pes 4
labor dense --pes 4 --sampler labor --fanout 5,5
kappa dense --pes 3 --sampler labor --kappa 8 --layer-dependency --layers 3
full dense --pes 2 --sampler full --batch-size 200
layer dense --pes 4 --norm layer --layers 3 --residual
batch dense --pes 4 --group-size 2 --norm batch
wide dense --pes 4 --hidden 64 --input-dropout 0.2 --chunks 3
gossip dense --pes 4 --sync dissemination --norm batch
gossip-grad dense --pes 4 --group-size 2 --sync cube --gossip-what grad --gossip-average-every 3 --gossip-ring
sparse sparse --pes 4 --weight-decay 5e-4 --input-dropout 0.5
sparse-residual sparse --pes 3 --hidden 400 --layers 3 --residual --partition random
cached dense --pes 2 --feature-cache 300 --lr-schedule cosine --depth 3
RUNS
}

losses "$program" | tee "$work/here"
if (($# > 1)); then
    losses "$2" >"$work/there"
    diff "$work/there" "$work/here" >/dev/null && echo "the same bits" || { echo "the bits differ:"; diff "$work/there" "$work/here" | cut -c 1-150; exit 1; }
fi
