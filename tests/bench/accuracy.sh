#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The guide's accuracy table: mean test score at the best validation epoch over three seeds, four cooperating PEs, sampled
# training. Needs the real datasets on $STARLING_DATA; a dataset that is not there is skipped. Exit status 1 where a mean is
# below its goal.
#
# usage: accuracy.sh PROGRAM [DATASET ...]

set -eu

program=$1
shift
wanted=" $* "
seeds=${SEEDS:-1 2 3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# number KEY: the value of a key in the last line of the metrics.
number()
{
    tail -n 1 "$folder/metrics" | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"
}

# measure NAME GOAL OPTION ...: train with each seed and print a row. The goal is an accuracy, or SCORE=PERCENT.
measure()
{
    local name=$1 goal=${2##*=} score=${2%%=*}
    [[ $2 == *=* ]] || score=acc
    shift 2
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
    : >"$folder/tests"
    for seed in $seeds; do
        if ! "$program" --quiet --pes 4 --seed "$seed" --metrics "$folder/metrics" "$@" 2>"$folder/error"; then
            if grep -q 'is not in' "$folder/error"; then
                printf '| %s | skipped: not on STARLING_DATA | | | | |\n' "$name"
                return 0
            fi
            cat "$folder/error" >&2
            exit 1
        fi
        echo "$(number "test_${score}_at_best") $(number "best_valid_$score") $(number seconds)" >>"$folder/tests"
    done
    awk -v name="$name" -v goal="$goal" -v options="$*" '
        { n++; t += $1; tt += $1 * $1; v += $2; s += $3 }
        END {
            m = 100 * t / n; sd = n > 1 ? 100 * sqrt((tt - t * t / n) / (n - 1)) : 0
            printf "| %s | %.2f +- %.2f | %.2f | %s | %.0f s | `%s` |\n", name, m, sd, 100 * v / n, goal, s / n, options
            exit m < goal
        }' "$folder/tests" || [[ -n ${SL_SMOKE:-} ]] || failed=1
}

echo '| dataset | test % | valid % | goal | training, a seed | options beside --pes 4 |'
echo '| --- | --- | --- | --- | --- | --- |'
measure cora 79.0 --dataset cora --batch-size 35 --layers 2 --hidden 64 --fanout 10,10 --epochs 200 --lr 0.01 \
    --weight-decay 5e-4 --dropout 0.5 --input-dropout 0.5 --normalize-features row
measure citeseer 69.0 --dataset citeseer --batch-size 30 --layers 2 --hidden 64 --fanout 25,25 --epochs 200 --lr 0.01 \
    --weight-decay 5e-3 --dropout 0.5 --input-dropout 0.5 --normalize-features row
measure amazon-computers 91.5 --dataset amazon-computers --split luo2024-60-20-20 --batch-size 128 --layers 2 \
    --hidden 128 --fanout 25,25 --epochs 40 --lr 0.002 --weight-decay 5e-5 --dropout 0.5 --input-dropout 0.2 --norm layer
measure coauthor-cs 95.2 --dataset coauthor-cs --split luo2024-60-20-20 --batch-size 512 --layers 2 --hidden 256 \
    --fanout 10,10 --epochs 20 --lr 0.003 --weight-decay 5e-4 --dropout 0.5 --norm layer --normalize-features row
measure ogbn-arxiv 67.2 --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --batch-size 1024 --layers 2 \
    --hidden 256 --fanout 10,10 --epochs 30 --lr 0.005 --lr-schedule cosine --dropout 0.5 --norm batch --eval-every 5
measure cora-gcn 80.0 --model gcn --dataset cora --batch-size 35 --layers 2 --hidden 64 --fanout 10,10 --epochs 200 --lr 0.01 \
    --weight-decay 5e-4 --dropout 0.5 --input-dropout 0.5 --normalize-features row
measure cora-gat 80.5 --model gat --heads 8 --dataset cora --batch-size 35 --layers 2 --hidden 64 --fanout 25,25 --epochs 300 --lr 0.01 \
    --weight-decay 5e-4 --dropout 0.6 --input-dropout 0.6 --normalize-features row
measure cora-gcnii 81.0 --model gcnii --alpha 0.2 --dataset cora --batch-size 35 --layers 8 --hidden 64 --sampler full --epochs 300 \
    --lr 0.01 --weight-decay 5e-4 --dropout 0.6 --input-dropout 0.6 --normalize-features row
measure citeseer-gcn 68.5 --model gcn --dataset citeseer --batch-size 30 --layers 2 --hidden 64 --fanout 25,25 --epochs 200 --lr 0.01 \
    --weight-decay 5e-4 --dropout 0.5 --input-dropout 0.5 --normalize-features row
measure amazon-computers-gcn 90.5 --model gcn --dataset amazon-computers --split luo2024-60-20-20 --batch-size 128 --layers 2 \
    --hidden 128 --fanout 25,25 --epochs 40 --lr 0.002 --weight-decay 5e-5 --dropout 0.5 --input-dropout 0.2 --norm layer
measure amazon-computers-gat 91.0 --model gat --dataset amazon-computers --split luo2024-60-20-20 --batch-size 128 --layers 2 \
    --hidden 128 --fanout 25,25 --epochs 40 --lr 0.002 --weight-decay 5e-5 --dropout 0.5 --input-dropout 0.2 --norm layer
measure ogbn-arxiv-gcn 66.0 --model gcn --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --batch-size 1024 --layers 2 \
    --hidden 256 --fanout 10,10 --epochs 30 --lr 0.005 --lr-schedule cosine --dropout 0.5 --norm batch --eval-every 5
measure ogbn-arxiv-gat 66.0 --model gat --heads 4 --dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --batch-size 1024 --layers 2 \
    --hidden 256 --fanout 10,10 --epochs 30 --lr 0.005 --lr-schedule cosine --dropout 0.5 --norm batch --eval-every 5
measure humloc ap=25.5 --dataset humloc --batch-size 128 --layers 2 --hidden 256 --fanout 10,10 --epochs 150 --lr 0.005 --best-by ap \
    --weight-decay 1e-4 --dropout 0.5 --input-dropout 0.5 --eval-every 5 --normalize-features column
measure imdb f1_micro=61.3 --model rgcn --dataset imdb --input-layer --batch-size 64 --layers 2 --hidden 64 --fanout 10,10 --epochs 60 \
    --lr 0.005 --best-by f1_micro --dropout 0.5 --normalize-features row
measure imdb-rgat f1_micro=61.3 --model rgat --dataset imdb --input-layer --batch-size 64 --layers 2 --hidden 64 --fanout 10,10 --epochs 60 \
    --lr 0.005 --best-by f1_micro --dropout 0.5 --normalize-features row
measure fb15k-237-rgcn mrr=24.0 --model rgcn --bases 2 --dataset fb15k-237 --objective link --decoder distmult --features onehot \
    --input-layer --layers 1 --sampler full --hidden 100 --batch-size 1250 --negatives 50 --link-loss softmax --epochs 12 --lr 0.01 \
    --lr-schedule cosine --dropout 0.5 --eval-every 4 --best-by mrr
exit $failed
