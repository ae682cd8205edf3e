#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# What a step costs a GPU: tasks, calls and copies, counted on simulated GPUs (tests/simgpu/counts.h). No cost may grow.
# If a change lowers one, it lowers the limit here, too. The settings of doc/results.md on a small graph. For `make
# check-gpu-sim`.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
[[ $coop_sage == *.simgpu ]] || skip "make check-gpu-sim runs this"

generate small --vertices 2000 --edges 14000 --features 128 --classes 40

# counts FILE OPTION ...: of a run.
counts()
{
    SL_SIMGPU_COUNTS=$1 "$coop_sage" "${run[@]}" "${@:2}" >stdout 2>&1 || complain "$name: $(tail -n 1 stdout)"
}

# figure FILE COUNT[+COUNT ...]
figure()
{
    awk -v wanted="$2" -F '[{}:, "]+' '{ n = split(wanted, names, "+")
        for (i = 2; i < NF; i += 2) for (k = 1; k <= n; k++) if ($i == names[k]) { sum += $(i + 1); found++ } }
        END { if (found == n) printf "%.0f\n", sum; else print "missing" }' "$1"
}

# The difference of two runs, of 6 and 12 steps, has neither the start nor the evaluation. The first run of all measures
# the buses. Of four GPUs, a few copies depend on the time.
columns=(tasks kernels+cub+cublas+cusparse+nccl pool_calls clears copies_to_gpu copies_to_host copies_between_gpus pageable_copies
    waits events)
while read -r name gpus layers hidden fanout limits; do
    run=(--dataset small --gpus "$gpus" --pes "$gpus" --layers "$layers" --hidden "$hidden" --fanout "$fanout" --eval-every 0
        --cache none)
    export SL_EMULATED_GPUS=$gpus
    counts first --epochs 0
    counts six --epochs 1 --batch-size $((200 / gpus))
    counts twelve --epochs 1 --batch-size $((100 / gpus))
    read -ra limits <<<"$limits"
    for i in "${!columns[@]}"; do
        found=$(awk -v a="$(figure six "${columns[i]}")" -v b="$(figure twelve "${columns[i]}")" 'BEGIN { print (b - a) / 6 }')
        awk -v x="$found" -v limit="${limits[i]}" -v few=$((gpus > 1 ? 8 : 4)) \
            'BEGIN { exit !(x <= limit && x > 0.9 * limit - few) }' ||
            complain "$name: a step has $found ${columns[i]}, expected at most ${limits[i]} and not much less"
    done
done <<'LIMITS'
tutorial 1 2 128 4,4       3  42   0  3 0  2  0  0 0   5
deep     1 3 256 10,10,10  3  64   0  5 0  2  0  0 0   5
four     4 2 128 4,4     103 186   0 12 4  8 98  4 0 217
LIMITS

# Lists of ids travel between GPUs, and hardly anything else where rows have one column. Four times the vertices, with the same
# degree and seeds, are lists of nearly the same length: fewer ids come twice. Lists at full capacity would be four times as long.
# From one epoch to two there are only steps.
run=(--gpus 2 --pes 2 --layers 2 --hidden 1 --fanout 2,2 --batch-size 50 --eval-every 0 --cache none --partition random)
export SL_EMULATED_GPUS=2
for n in 2000 8000; do
    generate "$n" --vertices $n --edges $((7 * n)) --features 1 --classes 2
    counts first --dataset "$n" --epochs 0
    counts one --dataset "$n" --epochs 1
    counts two --dataset "$n" --epochs 2
    bytes[n]=$((($(figure two bytes_between_gpus) - $(figure one bytes_between_gpus)) * 2000 / n))
done
((bytes[2000] > 0 && 2 * bytes[8000] <= 3 * bytes[2000])) ||
    complain "between GPUs: ${bytes[8000]} bytes of 8000 vertices in as many steps as ${bytes[2000]} of 2000"

# Two workers of one GPU, each with a stream, compute what one does.
unset SL_EMULATED_GPUS
for model in sage gat 'sage --feature-cache 300'; do
    for n in 1 2; do
        STARPU_NWORKER_PER_CUDA=$n "$coop_sage" --dataset small --gpus 1 --pes 1 --model $model --layers 2 --hidden 16 --fanout 4,4 \
            --batch-size 300 --epochs 1 --metrics-steps --eval-every 0 --metrics metrics >stdout 2>stderr || complain "$model, $n workers of a GPU: $(tail -n 1 stderr)"
        sed -n '/"event": *"step"/s/.*"loss": *\([^,}]*\).*/\1/p' metrics >losses.$n
    done
    [[ $(wc -l <losses.1) -eq 4 ]] && cmp losses.1 losses.2 || complain "$model: two workers of a GPU have other losses than one"
done
refuse 'STARPU_NWORKER_PER_CUDA: found .3' env STARPU_NWORKER_PER_CUDA=3 "$coop_sage" --dataset small --gpus 1 --epochs 1

exit $failed
