#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Whether two builds compute the same bits: tests/bits.sh COOP_SAGE [OTHER]
#
# Prints the training losses of short runs on two generated graphs, with every digit that is needed to read the same double back:
# all models, samplers, norms and dtypes, gossip, sparse features, kappa, feature cache, P and G of coop_sage, and pipe_gnn beside it.
# With OTHER, another build's coop_sage (its pipe_gnn beside it), it runs both and shows where they differ (exit status 1).
# Losses depend on the processor and on the libraries that multiply, so no file of them is kept.

set -u
program=${1:?usage: tests/bits.sh COOP_SAGE [OTHER]}
generate=$(dirname "$program")/starling_data
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export STARPU_SILENT=1 STARPU_HOME=$work STARLING_CACHE=none

"$generate" generate --vertices 3000 --edges 20000 --features 48 --classes 7 --out "$work/dense" >/dev/null &&
    "$generate" generate --vertices 3000 --edges 20000 --features 400 --classes 7 --sparse --out "$work/sparse" >/dev/null || exit 1

# losses PROGRAM: one line a run, of coop_sage and then of pipe_gnn.
losses()
{
    runs "$1" step loss --batch-size 60 --layers 2 --metrics-steps <<'RUNS'
plain dense --pes 4
labor dense --pes 4 --sampler labor --fanout 5,5
kappa dense --pes 3 --sampler labor --kappa 8 --layer-dependency --layers 3
slow dense --pes 4 --kappa 8 --fanout 5,5
replaced dense --pes 4 --replace --fanout 5,5
important dense --pes 4 --sampler labor --labor-iterations 2 --fanout 5,5
full dense --pes 2 --sampler full --batch-size 200
layer dense --pes 4 --norm layer --layers 3 --residual
batch dense --pes 4 --group-size 2 --norm batch
wide dense --pes 4 --hidden 64 --input-dropout 0.2 --chunks 3
gossip dense --pes 4 --sync dissemination --norm batch
gossip-grad dense --pes 4 --group-size 2 --sync cube --gossip-what grad --gossip-average-every 3 --gossip-ring
sparse sparse --pes 4 --weight-decay 5e-4 --input-dropout 0.5
sparse-residual sparse --pes 3 --hidden 400 --layers 3 --residual --partition random
cached dense --pes 2 --feature-cache 300 --lr-schedule cosine --depth 3
gcn dense --model gcn --pes 4 --norm batch
gcn-sparse sparse --model gcn --pes 3 --residual
gat dense --model gat --heads 4 --pes 4 --chunks 3 --dropout 0.3
gat-layer sparse --model gat --heads 2 --pes 2 --norm layer --sampler labor
gcnii dense --model gcnii --pes 4 --layers 4
resgcn dense --model resgcn --pes 2 --layers 4
bf16 dense --precision bf16 --pes 4 --norm layer --residual
bf16-gat dense --precision bf16 --pes 3 --model gat --heads 4
bf16-sparse sparse --precision bf16 --pes 4 --model gcn --sampler full
bf16-gcnii dense --precision bf16 --pes 2 --model gcnii --layers 4
RUNS
    runs "$(dirname "$1")/pipe_gnn" epoch train_loss --layers 2 <<'RUNS'
pipe dense --model gcn --stages 2 --chunks 4
pipe-sage dense --model sage --layers 3 --ways 2 --chunks 6 --recompute
pipe-gcnii sparse --model gcnii --layers 8 --stages 3 --chunks 8
pipe-resgcn dense --model resgcn --layers 6 --ways 4 --chunks 4
pipe-bf16 dense --model gcn --layers 4 --precision bf16 --stages 2 --chunks 8 --recompute
pipe-guard dense --model gcn --layers 3 --guard on --history-every 2 --chunks 5
RUNS
}

# runs PROGRAM EVENT FIELD OPTION ...: for each line of input, NAME DATASET OPTION ..., the losses in the run's metrics of that event.
runs()
{
    local name dataset options program=$1 event=$2 field=$3
    shift 3
    while read -r name dataset options; do
        "$program" --dataset "$work/$dataset" --epochs 2 --hidden 32 --cpus 2 --json "$@" $options >"$work/lines" 2>"$work/error" ||
            { echo "$name: $(cat "$work/error")"; continue; }
        echo "$name $(sed -n 's/^{"event": *"'"$event"'".*"'"$field"'": *\([^,}]*\).*/\1/p' "$work/lines" | tr '\n' ' ')"
    done
}

losses "$program" | tee "$work/here"
if (($# > 1)); then
    losses "$2" >"$work/there"
    diff "$work/there" "$work/here" >/dev/null && echo "the same bits" || { echo "the bits differ:"; diff "$work/there" "$work/here" | cut -c 1-150; exit 1; }
fi
