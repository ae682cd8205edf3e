#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# apps/pipe_gnn as a user meets it: help, what is refused, and what must not change a figure.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$pipe_gnn
code=2

# losses ARGUMENT...: the train losses of a run on the dataset made here, one a line, as they are printed; with $figure another figure.
losses()
{
    "$program" --dataset made --data-path . --cache none --model gcn --layers 4 --hidden 24 --epochs 5 --eval-every 0 --lr 0.01 \
        --history-every 2 --json "$@" 2>stderr | sed -n 's/.*"event": *"epoch".*"'"${figure:-train_loss}"'": *\([^,}]*\).*/\1/p'
}

# `make check` compares one of nine, two of the four models, and no product of a minute; SL_LONG=1 (`make check-long`, and .ci/run) all.
models=(gcn gcnii)
stride=9
[[ -z ${SL_LONG:-} ]] || models=(gcn sage gcnii resgcn) stride=1
n_compared=0

# same WHAT ARGUMENT...: the losses of these arguments are those in `wanted`.
same()
{
    local what=$1 found
    shift
    ((n_compared++ % stride == 0)) || return 0
    found=$(losses "$@")
    [[ -n $found && $found == "$wanted" ]] || complain "$what changes the losses: $wanted against: $found $(cat stderr)"
}

# ---- options -----------------------------------------------------------------------------------------------------------------------

"$program" --help-all >stdout 2>stderr || complain "--help: $(cat stderr)"
for option in stages stages-cut ways chunks chunk-order gradient-factor history-every guard recompute partition model precision epochs save checkpoint trace placement; do
    grep -Eq -- "^ +--$option([ =[]|\$)" stdout || complain "--help-all does not list --$option"
done
for option in fanout batch-size sampler kappa sync group-size pes depth transport feature-cache input-dropout; do
    grep -Eq -- "^ +--$option([ =[]|\$)" stdout && complain "--help lists --$option, which is a minibatch's"
    refuse "--$option" "$program" "--$option" 1
done
refuse '--chunks: found 5 .*multiple' "$program" --chunks 5 --ways 2
refuse '--output-layers 2 cannot be used with --model resgcn' "$program" --model resgcn --output-layers 2
refuse "--chunks: found '513', expected .* from 1 to 512" "$program" --chunks 513
refuse '--chunks: found 640 .*at most 512' "$program" --stages 20 --ways 8 --layers 20
refuse '--stages: found 5, .*--layers is 4' "$program" --stages 5 --layers 4
refuse '--stages-cut: found 2 numbers, expected 3' "$program" --stages 4 --stages-cut 1,2 --layers 4
refuse '--stages-cut: found 2, .*ascending' "$program" --stages-cut 2,2 --layers 4
refuse '--stages-cut: found 4, .*from 1 to 3' "$program" --stages-cut 4 --layers 4
refuse '--gradient-factor: found 1.5' "$program" --gradient-factor 1.5
refuse '--model gat cannot be used with pipe_gnn' "$program" --model gat
refuse '--norm batch cannot be used with pipe_gnn' "$program" --norm batch
refuse '--history-every' "$program" --history-every 0
refuse '--precision tf32 cannot be used with --gpus 0' "$program" --precision tf32 --gpus 0

# ---- figures -----------------------------------------------------------------------------------------------------------------------

generate made --vertices 2000 --edges 9000 --classes 5 --features 16 --seed 3

# A product of 600 billion operations by one worker does not end in a second: it is named. Shorter tasks are not, however many there are.
if [[ -n ${SL_LONG:-} ]]; then
    generate tall --vertices 6000 --edges 9000 --classes 5 --features 16 --seed 3
    "$program" --dataset tall --data-path . --cache none --partition none --model gcn --layers 3 --hidden 7000 --epochs 1 --eval-every 0 --chunks 1 --cpus 2 --quiet \
        --watchdog 1 >stdout 2>stderr
    status=$?
    [[ $status -eq 1 && $(wc -l <stderr) -eq 1 ]] && grep -Eq '^pipe_gnn: (no task has ended for 1 s: sl_[a-z_]+, PE [0-7], step 0, on CPU [01];|the run may need |.*: need [0-9.]+ GB of memory )' stderr ||
        complain "a task of seconds, --watchdog 1: expected exit code 1 and the task's name, found $status: $(cat stderr)"
fi

wanted=$(losses --stages 1 --chunks 8)
[[ $(wc -l <<<"$wanted") -eq 5 ]] || complain "expected five losses, found: $wanted $(cat stderr)"
[[ $(head -1 <<<"$wanted") != $(tail -1 <<<"$wanted") ]] || complain "the loss stays where it is: $wanted"
same 'more stages' --stages 4 --chunks 8 --watchdog 60
same 'a cut of my own' --stages-cut 1,3 --chunks 8 --recompute
for last in '0 1' '2 3'; do # output layers, layers of the last stage
    grep -q "^stages    of 1, 2, ${last#* } layers$" <("$program" --dataset made --data-path . --cache none --model gcn --layers 4 --hidden 24 --epochs 1 \
        --stages-cut 1,3 --chunks 8 --output-layers "${last% *}") || complain "--stages-cut cuts elsewhere with --output-layers ${last% *}"
done
same 'another scheduler' --stages 2 --chunks 8 --sched eager
same 'recomputation' --stages 2 --chunks 8 --recompute
same 'recomputation in one stage' --stages 1 --chunks 8 --recompute
same 'one worker' --chunks 8 --cpus 1
same 'a home for each stage' --stages 3 --chunks 8 --placement home --cpus 2
[[ $(losses --chunks 8 --chunk-order fixed) != "$wanted" ]] || complain 'the order of chunks changes nothing'
[[ $(losses --chunks 8 --gradient-factor 1) != "$wanted" ]] || complain 'the gradient factor changes nothing'
[[ $(losses --chunks 8 --history-every 1) != "$wanted" ]] || complain 'history changes nothing'

# With one slot there is no history and no order.
wanted=$(losses --ways 4 --chunks 4)
whole=$wanted
for model in "${models[@]}"; do # one slot is the whole graph, in however many chunks METIS' pieces are dealt
    wanted=$(losses --model $model --ways 1 --chunks 1)
    [[ $(wc -l <<<"$wanted") -eq 5 ]] || complain "$model, the whole graph: $(cat stderr)"
    for ways in 2 8 32; do
        same "$model: the whole graph in $ways chunks" --model $model --ways $ways --chunks $ways
    done
    same "$model: the whole graph in 4 chunks, two stages, again" --model $model --ways 4 --chunks 4 --stages 2 --recompute
done
generate sparse --vertices 2000 --edges 9000 --classes 5 --features 150 --sparse --seed 3
for options in '--model sage --norm layer --residual' '--model gcn --directed' '--dataset sparse --model sage' '--dataset sparse --model gcnii'; do
    wanted=$(losses $options --ways 1 --chunks 1)
    [[ $(wc -l <<<"$wanted") -eq 5 ]] || complain "$options: $(cat stderr)"
    same "$options: the whole graph in 16 chunks" $options --ways 16 --chunks 16
done
wanted=$whole
same 'history without slots' --ways 4 --chunks 4 --history-every 1 --gradient-factor 1 --chunk-order fixed
same 'recomputation in exact mode' --ways 4 --chunks 4 --recompute
same 'recomputation in one stage of exact mode' --ways 4 --chunks 4 --stages 1 --recompute

# As many chunks as METIS cannot fill, and directed edges.
[[ $(losses --chunks 250 --ways 1 | wc -l) -eq 5 ]] || complain "250 chunks: $(cat stderr)"
[[ $(losses --chunks 250 --ways 1 --recompute | wc -l) -eq 5 && ! -s stderr ]] || complain "250 chunks again: $(cat stderr)"
wanted=$(losses --chunks 8 --directed)
[[ $(wc -l <<<"$wanted") -eq 5 ]] || complain "--directed: $(cat stderr)"
same 'recomputation of directed edges' --chunks 8 --directed --recompute
for model in "${models[@]:1}"; do
    wanted=$(losses --model $model --chunks 12 --ways 2 --directed)
    same "recomputation of $model in two ways" --model $model --chunks 12 --ways 2 --directed --recompute
done

# near WHAT [SHARE]: the losses in `found` are those in `wanted`, but for rounding: within that share of them [1e-5].
near()
{
    paste <(echo "$wanted") <(echo "$found") |
        awk -v share="${2:-1e-5}" '{ if (NF != 2 || ($1 - $2) ^ 2 > (share * $1) ^ 2) bad = 1 } END { exit bad || NR != 5 }' ||
        complain "$1: $wanted against: $found $(cat stderr)"
}

# As many chunks as a run may have. In one slot they train and evaluate as the whole graph does.
[[ $(losses --chunks 512 --epochs 2 | wc -l) -eq 2 && ! -s stderr ]] || complain "512 chunks: $(cat stderr)"
wanted=$(figure=valid_loss losses --chunks 1 --eval-every 5)
found=$(figure=valid_loss losses --chunks 512 --ways 512 --eval-every 5)
near 'the validation loss in 512 chunks'

# Rows in bf16: near float's figures and not the same; what changes no figure there changes none here.
for model in "${models[@]}"; do
    wanted=$(losses --model $model --chunks 8)
    found=$(losses --model $model --chunks 8 --precision bf16)
    near "$model in bf16" 2e-2
    [[ $found != "$wanted" ]] || complain "$model: bf16 changes nothing"
    wanted=$found
    same "$model in bf16: again, with more stages and one worker" --model $model --chunks 8 --precision bf16 --stages 4 --cpus 1 --sched eager
    same "$model in bf16: recomputation, at home" --model $model --chunks 8 --precision bf16 --stages 2 --recompute --placement home --cpus 2
    wanted=$(losses --model $model --precision bf16 --ways 1 --chunks 1)
    same "$model in bf16: the whole graph in 32 chunks" --model $model --precision bf16 --ways 32 --chunks 32
    same "$model in bf16: the whole graph in 4 chunks, again" --model $model --precision bf16 --ways 4 --chunks 4 --stages 2 --recompute
done
for options in '--model sage --norm layer --residual' '--model gcn --directed' '--dataset sparse --model sage' '--dataset sparse --model gcnii'; do
    wanted=$(losses $options --precision bf16 --ways 2 --chunks 12)
    same "$options in bf16: recomputation in two ways" $options --precision bf16 --ways 2 --chunks 12 --recompute
done

# Vertices without an edge, chunks of one vertex each; chunks in one slot are the whole graph.
generate sparse --vertices 60 --edges 25 --classes 3 --features 8 --seed 5
wanted=$(losses --dataset sparse --chunks 1 --stages 1)
for model in "${models[@]}"; do
    wanted=$(losses --dataset sparse --model $model --chunks 1 --stages 1)
    found=$(losses --dataset sparse --model $model --chunks 60 --ways 60 --stages 2)
    near "$model in chunks of one vertex"
    wanted=$(losses --dataset sparse --model $model --chunks 60 --ways 1)
    [[ $(grep -c '^[0-9.]*$' <<<"$wanted") -eq 5 ]] || complain "60 slots: $(cat stderr)"
    same "recomputation of $model in 60 slots" --dataset sparse --model $model --chunks 60 --ways 1 --recompute
done

# Deep ones.
for model in gcnii resgcn; do
    found=$(losses --model $model --layers 128 --hidden 16 --ways 4 --chunks 4 --stages 4 --epochs 10 --lr 0.01)
    [[ $(grep -c '^[0-9][0-9.]*$' <<<"$found") -eq 10 ]] && awk 'NR == 1 { first = $1 } END { exit !($1 < 0.9 * first) }' <<<"$found" ||
        complain "$model with 128 layers: the losses are $found $(cat stderr)"
done

# ---- memory ------------------------------------------------------------------------------------------------------------------------

# peak ARGUMENT...: bytes of memory at most, of a deep model on a graph whose rows rule them.
peak()
{
    "$program" --dataset wide --data-path . --cache none --model resgcn --layers 24 --hidden 64 --eval-every 0 --lr 0.01 --cpus 2 \
        --stages 3 --json "$@" 2>stderr | sed -n 's/.*"event": *"summary".*"peak_rss_bytes": *\([0-9]*\).*/\1/p'
}

# less A B PERCENT WHAT: A is less than so many hundredths of B.
less()
{
    ((${1:-0} > 0 && ${2:-0} > 0 && $1 * 100 < $2 * $3)) || complain "$4: $1 bytes against $2 $(cat stderr)"
}

# A sanitizer's own memory would stand in for the program's.
if (ulimit -v 8000000 && "$program" --version >/dev/null 2>&1); then
    generate wide --vertices 20000 --edges 90000 --classes 5 --features 16 --seed 3
    exact=$(peak --epochs 2 --ways 4 --chunks 4)
    less "$(peak --epochs 2 --ways 4 --chunks 4 --recompute)" "$exact" 80 'recomputation saves no memory in exact mode'
fi
if [[ -n ${SL_LONG:-} ]] && (ulimit -v 8000000 && "$program" --version >/dev/null 2>&1); then
    early=$(peak --epochs 2 --chunks 8 --recompute)
    less "$early" "$exact" 80 'recomputation saves no memory in a pipeline'
    less "$(peak --epochs 6 --chunks 8 --recompute)" "$early" 125 'memory grows with the epochs'
    # In a graph that has parts, rows for other chunks and history, and gradients, are those of boundaries: less than of all vertices.
    generate parted --vertices 20000 --edges 60000 --classes 16 --homophily 0.98 --features 16 --seed 3
    less "$(peak --dataset parted --epochs 3 --chunks 8 --history-every 1 --recompute)" $((20000 * 24 * 64 * 4)) 280 'chunks keep all rows'
    # Chunks of two size classes, whose rows are large against all else; with a live history its old rows go as the new ones come.
    classes=(--layers 6 --hidden 256 --chunks 16 --history-every 1)
    less "$(peak "${classes[@]}" --epochs 3)" "$(peak "${classes[@]}" --epochs 1)" 120 'history takes memory that lies free'
    # In bf16 outputs, sums, what travels and history are half, and lie in blocks of half the bytes.
    halved=(--model gcn --layers 12 --hidden 128 --chunks 8 --history-every 1 --epochs 3)
    less "$(peak "${halved[@]}" --precision bf16)" "$(peak "${halved[@]}")" 85 'bf16 saves no memory'
    less "$(peak "${halved[@]}" --recompute --precision bf16)" "$(peak "${halved[@]}" --recompute)" 85 'bf16 saves no memory with --recompute'
    # Rows of all layers twice, that travel and sums, and neither old history nor the tasks of all slots at once.
    less "$(peak --layers 48 --stages 6 --chunks 16 --epochs 2 --history-every 1 --recompute)" $((20000 * 48 * 64 * 4)) 305 \
        'old history is kept on the way back, or all tasks are submitted at once'
fi

# ---- checkpoints -------------------------------------------------------------------------------------------------------------------

wanted=$(losses --chunks 8)
# Rows of boundaries alone, or all: what one run keeps another one may go on from.
for here in '' --recompute; do
    for there in '' --recompute; do
        losses --chunks 8 $here --checkpoint "kept$here-$there" --epochs 3 >/dev/null
        [[ $(losses --chunks 8 $there --checkpoint "kept$here-$there" --resume) == "$(tail -2 <<<"$wanted")" ]] ||
            complain "a run $here that goes on $there ends otherwise: $wanted $(cat stderr)"
    done
done
wanted=$(losses --chunks 8 --output-layers 2 --precision bf16)
for here in '' --recompute; do
    losses --chunks 8 --output-layers 2 --precision bf16 $here --checkpoint "halves$here" --epochs 3 >/dev/null
    [[ $(losses --chunks 8 --output-layers 2 --checkpoint "halves$here" --resume) == '' ]] && grep -q -- "--precision: found 'float', expected 'bf16'" stderr ||
        complain "a run in bf16 goes on in float: $(cat stderr)"
    [[ $(losses --chunks 8 --output-layers 2 --precision bf16 --checkpoint "halves$here" --resume) == "$(tail -2 <<<"$wanted")" ]] ||
        complain "a run $here in bf16 that goes on ends otherwise: $wanted $(cat stderr)"
done
refuse_resume=$("$program" --dataset made --data-path . --cache none --model gcn --layers 4 --hidden 24 --epochs 5 --lr 0.01 \
    --history-every 3 --chunks 8 --checkpoint kept- --resume 2>&1 >/dev/null)
grep -q -- "--history-every: found '3'" <<<"$refuse_resume" || complain "another history goes on: $refuse_resume"

# ---- the guard ---------------------------------------------------------------------------------------------------------------------

# Random chunks, many layers and an old history: training on cora collapses.
collapse()
{
    "$program" --data-path "$data" --dataset cora --cache none --model gcn --layers 8 --hidden 64 --lr 0.005 --stages 8 --chunks 32 \
        --partition random --eval-every 0 --json "$@" 2>stderr
}

if [[ -n $data ]]; then
    collapse --epochs 30 >stdout
    [[ $(grep -c '"guard": *"fired"' stdout) -eq 1 ]] || complain "the guard did not fire once: $(cat stdout stderr)"
    grep '"guard"' stdout | grep -Eq '"epoch": *23,' || complain "it fired elsewhere than after 23 epochs: $(grep '"guard"' stdout)"
    grep '"guard"' stdout | grep -q '"exact_loss"' || complain 'the metrics have no exact loss'
    losses_of() { sed -n 's/.*"event": *"epoch".*"train_loss": *\([^,}]*\).*/\1/p'; }
    wanted=$(losses_of <stdout | tail -4)
    collapse --epochs 26 --checkpoint fell >/dev/null
    [[ $(collapse --epochs 30 --checkpoint fell --resume | losses_of) == "$wanted" ]] ||
        complain "a run that goes on after the guard ends otherwise: $wanted $(cat stderr)"
    collapse --epochs 30 --guard off >stdout
    grep -q '"guard": *"fired"\|"exact_loss"' stdout && complain '--guard off watches'

    # A loss that is no number is the guard's to see; in exact mode it ends the run.
    collapse --epochs 40 --lr 1e20 >stdout && complain 'a loss that is no number passes'
    [[ $(wc -l <stderr) -eq 1 ]] && grep -q 'step 2[3-9]: the loss is' stderr || complain "no line of the loss: $(cat stderr)"
    grep '"guard": *"fired"' stdout | grep -q '"epoch": *23,' || complain "the guard did not see it: $(tail -3 stdout)"
else
    echo 'without STARLING_DATA the guard is tested by its thresholds alone (test_guard)'
fi
# ---- inference ---------------------------------------------------------------------------------------------------------------------

whole=(--data-path . --cache none --model gcn --layers 2 --hidden 16 --chunks 4 --quiet)
"$program" --dataset made "${whole[@]}" --epochs 1 --save model.safetensors 2>stderr || complain "--save: $(cat stderr)"
"$program" --dataset made "${whole[@]}" --epochs 0 --load model.safetensors --predict all.npy 2>stderr || complain "--predict: $(cat stderr)"
cp -r made bare && rm -r bare/split bare/raw/node-label.csv.gz bare/raw/num-*
cp -r made fewer && gzip -dc made/raw/node-label.csv.gz | sed 's/[234]/1/' | gzip >fewer/raw/node-label.csv.gz
for data in bare fewer; do
    "$program" --dataset $data "${whole[@]}" --epochs 0 --load model.safetensors --predict $data.npy 2>stderr || complain "$data: $(cat stderr)"
    cmp -s all.npy $data.npy || complain "$data: other scores than of the whole dataset"
done
"$program" --dataset bare "${whole[@]}" --epochs 1 2>stderr
[[ $? -eq 1 && $(wc -l <stderr) -eq 1 ]] || complain "training without labels: expected one line, found: $(cat stderr)"
STARLING_STAGE=3 "$program" --dataset made "${whole[@]}" --epochs 1 2>stderr || complain "STARLING_STAGE: exit code $?"
grep -q '^pipe_gnn: warning: STARLING_STAGE is set, .*did you mean STARLING_STAGES?$' stderr || complain "STARLING_STAGE: found: $(cat stderr)"

exit $failed
