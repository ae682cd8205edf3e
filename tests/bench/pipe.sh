#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# GNNPipe's table: graph parallel, pipeline and hybrids over eight logical PEs, for each graph, model and number of layers: accuracy,
# epoch time on this machine, bytes an epoch, what a trace says of eight devices (lanes.py) beside K / (K + S - 1), memory; and from how
# many layers on the pipeline sends less than graph parallelism, and would be faster on eight devices.
#
# usage: pipe.sh PIPE_GNN lanes.py
#
# Datasets are looked for on $STARLING_DATA. $DATASETS, $MODELS, $LAYERS choose; $EPOCHS are trained for accuracy (of ogbn-arxiv
# $EPOCHS_ARXIV). Efficiency needs a StarPU with FxT. Without all three it takes hours: ogbn-arxiv's 32 layers alone half a minute an epoch.

set -eu

program=$1
lanes=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# metric EVENT KEY: the value in the last line of that event.
metric()
{
    sed -n "s/.*\"event\":\"$1\".*\"$2\":\([-0-9.e+]*\).*/\1/p" "$folder/metrics" | tail -n 1
}

# seconds: the median of the epochs but for the first.
seconds()
{
    sed -n 's/.*"event":"epoch".*[^_]"seconds":\([-0-9.e+]*\).*/\1/p' "$folder/metrics" | tail -n +2 | sort -g |
        awk '{ s[NR] = $1 } END { print NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2 }'
}

bytes()
{
    local sum=0 kind
    for kind in rows row_gradients weights stages; do
        sum=$((sum + $(metric epoch $kind)))
    done
    echo "$sum"
}

# efficiency OPTION ...: what lanes.py says of the second epoch; nothing where StarPU has no FxT.
efficiency()
{
    rm -rf "$folder/trace"
    if "$program" --quiet "$@" --epochs 2 --eval-every 0 --guard off --trace "$folder/trace" --trace-steps 1:1 2>"$folder/error"; then
        "${PYTHON:-python3}" "$lanes" "$folder/trace" 8
    elif grep -q FxT "$folder/error"; then
        echo '- - -'
    else
        cat "$folder/error" >&2
        exit 1
    fi
}

# measure DATASET MODEL LAYERS MODE STAGES WAYS CHUNKS EPOCHS OPTION ...
measure()
{
    local dataset=$1 model=$2 layers=$3 mode=$4 stages=$5 ways=$6 chunks=$7 epochs=$8
    shift 8
    set -- --dataset "$dataset" --model "$model" --layers "$layers" --stages "$stages" --ways "$ways" --chunks "$chunks" --lr 0.005 "$@"
    "$program" --quiet "$@" --epochs "$epochs" --eval-every 5 --metrics "$folder/metrics"
    read -r _ makespan share < <(efficiency "$@")
    awk -v name="$dataset | $model | $layers | $mode" -v test="$(metric summary test_acc_at_best)" -v s="$(seconds)" -v b="$(bytes)" \
        -v share="$share" -v makespan="$makespan" -v slots=$((chunks / ways)) -v stages="$stages" -v rss="$(metric summary peak_rss_bytes)" \
        'BEGIN { printf "| %s | %.2f | %.3f | %.1f | %s | %s | %.2f | %.0f |\n", name, 100 * test, s, b / 1e6, makespan, share,
            slots / (slots + stages - 1), rss / 8e6 }'
    echo "$dataset $model $layers $mode $(bytes) $makespan" >>"$folder/all"
}

# breakeven: of each graph and model the least number of layers with which the pipeline is ahead.
breakeven()
{
    awk '{ bytes[$1, $2, $3, $4] = $5; span[$1, $2, $3, $4] = $6; layers[$3]; pairs[$1 " " $2] }
        function least(what, d, m,    l, best) {
            best = ""
            for (l in layers)
                if ((d, m, l, "graph") in what && (d, m, l, "pipeline") in what &&
                    what[d, m, l, "pipeline"] + 0 < what[d, m, l, "graph"] + 0 && (best == "" || l + 0 < best + 0)) best = l
            return best == "" ? "none of these" : best
        }
        END {
            for (p in pairs) {
                split(p, a, " ")
                printf "| %s | %s | %s | %s |\n", a[1], a[2], least(bytes, a[1], a[2]), least(span, a[1], a[2])
            }
        }' "$folder/all" | sort
}

echo '| graph | model | layers | mode | test % | epoch, s | MB an epoch | eight devices, s | efficiency | K / (K + S - 1) | MB a PE |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |'
for dataset in ${DATASETS:-amazon-computers coauthor-cs ogbn-arxiv}; do
    case $dataset in
    squirrel) options=(--split geom-gcn-0 --hidden 64 --history-every 10) epochs=${EPOCHS:-100} ;;
    ogbn-arxiv) options=(--features derived/node-feat-prone96.csv.gz --hidden 100) epochs=${EPOCHS_ARXIV:-50} ;;
    *) options=(--split luo2024-60-20-20 --hidden 64 --history-every 10) epochs=${EPOCHS:-100} ;;
    esac
    for model in ${MODELS:-gcn gcnii resgcn}; do
        for layers in ${LAYERS:-8 16 32}; do
            measure "$dataset" "$model" "$layers" graph 1 8 8 "$epochs" "${options[@]}"
            measure "$dataset" "$model" "$layers" pipeline 8 1 32 "$epochs" "${options[@]}"
            measure "$dataset" "$model" "$layers" 'hybrid-2' 4 2 32 "$epochs" "${options[@]}"
            measure "$dataset" "$model" "$layers" 'hybrid-4' 2 4 32 "$epochs" "${options[@]}"
        done
    done
done
echo
echo '| graph | model | layers from which the pipeline sends less | from which it is faster on eight devices |'
echo '| --- | --- | --- | --- |'
breakeven
