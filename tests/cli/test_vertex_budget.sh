#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# --vertex-budget: minibatches come to have the wanted number of input vertices, with every sampler. Any number of PEs has the same batch
# in each epoch. Depth and workers change no bit, and a run that was stopped, or has several ranks, has the bits of one that was not.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

generate g --vertices 20000 --edges 60000 --features 8 --classes 4
n_train=$(zcat g/split/*/train.csv.gz | wc -l)
common=(--dataset ./g --cache none --hidden 8 --layers 2 --fanout 5,5 --chunks 2 --cpus 2 --metrics-steps --quiet --eval-every 0)

# run NAME ARGUMENT ...: metrics in the file NAME; `epochs` has, for each epoch, its batch and the mean number of input vertices of a step.
run()
{
    local name=$1
    shift
    "$coop_sage" "${common[@]}" --metrics "$name" "$@" >stdout 2>stderr || complain "$name: $(cat stderr)"
    list "$name"
}
list()
{
    sed -n 's/.*"batch": *\([0-9]*\),"vertices": *\[\([0-9]*\),[0-9]*,\([0-9]*\)\].*/\1 \2 \3/p' "$1" | awk '{ print $1, $3 * $1 / $2 }' >epochs
}

# ---- the number that is wanted, and the same for all PEs ----

for sampler in neighbor labor; do
    for pes in 1 3 4; do
        run m --sampler $sampler --pes $pes --batch-size $((120 / pes)) --epochs 8 --vertex-budget 3000
        (($(wc -l <epochs) == 8)) || complain "$sampler: expected eight epochs, found $(cat epochs)"
        awk 'NR == 1 { bad = $1 != 120 || $2 > 2500 } NR > 6 && ($2 < 2910 || $2 > 3090) { bad = 1 } END { exit bad }' epochs ||
            complain "$sampler, $pes PEs: expected 3000 vertices a step after some epochs, found $(cat epochs)"
        cut -d' ' -f1 epochs >batches
        ((pes > 1)) || { cp batches one && grep '"step"' m >one.steps; }
        cmp -s one batches || complain "$sampler, $pes PEs: expected the batches $(xargs <one), found $(xargs <batches)"
        paste -d: <(sed 's/.*"loss": *\([^}]*\).*/\1/' one.steps) <(grep '"step"' m | sed 's/.*"loss": *\([^}]*\).*/\1/') | head -n 250 |
            awk -F: '{ d = $1 - $2; if (NF != 2 || d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad || NR < 200 }' || complain "$sampler, $pes PEs: other losses"
    done
    cp one "$sampler"
done
(($(tail -n 1 labor) > $(tail -n 1 neighbor))) || complain "expected more seeds with labor, found $(xargs <labor) and $(xargs <neighbor)"

# Too many seeds at first, a budget of all vertices, and one of a single seed.
run m --pes 2 --batch-size 1500 --epochs 8 --vertex-budget 2000
awk 'NR == 1 { bad = $2 < 8000 } NR > 6 && ($2 < 1940 || $2 > 2060) { bad = 1 } END { exit bad }' epochs || complain "fewer seeds: found $(cat epochs)"
run m --pes 2 --batch-size 1500 --epochs 6 --vertex-budget 1000000
[[ $(tail -n 1 epochs) == "$n_train "* ]] || complain "a budget beyond the graph: expected $n_train seeds, found $(cat epochs)"
run m --pes 3 --batch-size 1500 --epochs 4 --vertex-budget 20
[[ $(tail -n 1 epochs) == [1-9]" "* ]] || complain "a small budget: expected a few seeds, found $(cat epochs)"
# The first batch has all seeds there are.
run m --pes 2 --batch-size 100000 --epochs 8 --vertex-budget 2000
[[ $(head -n 1 epochs) == "$n_train "* ]] || complain "all seeds at first: found $(cat epochs)"
awk 'NR > 6 && ($2 < 1940 || $2 > 2060) { bad = 1 } END { exit bad }' epochs || complain "all seeds at first: found $(cat epochs)"
# A minibatch is a group's.
run m --pes 4 --group-size 2 --batch-size 40 --epochs 8 --vertex-budget 3000
awk 'NR > 6 && ($2 < 5820 || $2 > 6180) { bad = 1 } END { exit bad }' epochs || complain "two groups: found $(cat epochs)"

# ---- the same bits ----

run=(--pes 4 --batch-size 30 --epochs 6 --vertex-budget 2500 --sampler labor --kappa 3 --lr-schedule none)
run whole "${run[@]}" --save whole.model
figures whole >whole.figures
(($(sort -u <(cut -d' ' -f1 epochs) | wc -l) > 2)) || complain "expected several batches, found $(cat epochs)"
# unscored: figures without scores, since each part of a run evaluates its last epoch.
unscored()
{
    grep -v '"summary"' | sed -E 's/"(valid|test)_[a-z0-9]*": ?[^,}]*,//g'
}
# same NAME FILE: the same losses, steps and sizes.
same()
{
    cmp -s <(unscored <whole.figures) <(figures "$2" | unscored) ||
        complain "$1: $(diff <(unscored <whole.figures) <(figures "$2" | unscored) | head -n 4 | cut -c 1-300)"
}
run m "${run[@]}" --cpus 1 --depth 5
same "one worker, five slots" m
run m "${run[@]}" --depth 1
same "one slot" m
run pieces "${run[@]}" --epochs 1 --checkpoint kept
run pieces "${run[@]}" --epochs 3 --checkpoint kept --resume
run pieces "${run[@]}" --checkpoint kept --resume --save pieces.model
same "a resumed run" pieces
cmp -s whole.model pieces.model || complain "a resumed run: another model"

# Stopped in the middle of an epoch, after the batch has changed. Its steps count from the first of that epoch. The runs that are
# stopped have far to go. The last one, and the one that is not stopped, end two epochs later.
for _ in 1 2; do
    wanted=$(($(grep -cs '"train_loss"' stopped.json) + 3))
    "$coop_sage" "${common[@]}" "${run[@]}" --epochs 100000 --checkpoint stopped --resume=auto --metrics stopped.json >stdout 2>stderr &
    program=$!
    for ((i = 0; i < 6000; i++)); do
        [[ -e stopped.json ]] && (($(grep -c '"train_loss"' stopped.json) >= wanted)) && break
        sleep 0.02
    done
    kill -TERM $program
    wait $program || complain "interrupted: expected exit code 0, found $?: $(cat stderr)"
done
interrupted=("${run[@]}" --epochs $(($(grep -c '"train_loss"' stopped.json) + 2)))
run long "${interrupted[@]}" --save whole.model
figures long >whole.figures
run stopped.json "${interrupted[@]}" --checkpoint stopped --resume --save pieces.model
same "a run that was interrupted" stopped.json
cmp -s whole.model pieces.model || complain "a run that was interrupted: another model"

# Links.
mkdir -p links/raw links/split/only
echo 3000 >links/raw/num-node-list.csv
awk 'BEGIN { srand(3); for (i = 0; i < 9000; i++) print int(3000 * rand()) "," int(3000 * rand()) }' | awk -F, '$1 != $2' | sort -u >links/split/only/all
awk 'NR % 10' links/split/only/all >links/split/only/train.csv
awk '!(NR % 10)' links/split/only/all | awk -F, 'NR == FNR { seen[$1, $2] = seen[$2, $1] = 1; next } !(($1, $2) in seen)' links/split/only/train.csv - \
    >links/split/only/valid.csv
: >links/split/only/test.csv && rm links/split/only/all
links=(--dataset ./links --objective link --features random:8 --pes 3 --batch-size 20 --epochs 8 --vertex-budget 1500 --fanout 3,3)
run whole "${links[@]}"
sed -n 's/.*"batch": *\([0-9]*\),"vertices": *\[\([0-9]*\),.*,\([0-9]*\)\],"edges".*/\1 \2 \3/p' whole | awk '{ print $1, $3 * $1 / ($2 / 3) }' >epochs
awk 'NR > 6 && ($2 < 1440 || $2 > 1560) { bad = 1 } END { exit bad || NR != 8 }' epochs || complain "links: found $(cat epochs)"
figures whole >whole.figures

# ---- what is refused ----

refuse "--vertex-budget" "$pipe_gnn" --quiet --cache none --epochs 1 --dataset ./g --vertex-budget 100
refuse "--sync allreduce" "$coop_sage" --quiet --cache none --epochs 1 --dataset ./g --vertex-budget 100 --sync dissemination
refuse "--vertex-budget: found '0', expected '2500'" "$coop_sage" --quiet --cache none --epochs 1 --dataset ./g --layers 2 --hidden 8 --fanout 5,5 --chunks 2 --pes 4 --batch-size 30 \
    --sampler labor --kappa 3 --checkpoint kept --resume
((failed == 0)) || exit 1

# ---- ranks ----

need_mpi
for n in 2 3; do
    "${launch[@]}" -np $n "$coop_sage" "${common[@]}" "${links[@]}" --metrics many --cpus 1 </dev/null >stdout 2>&1 ||
        complain "links on $n ranks: $(tail -n 1 stdout)"
    cmp -s whole.figures <(figures many) || complain "links on $n ranks: $(diff whole.figures <(figures many) | head -n 4 | cut -c 1-300)"
done
run whole "${run[@]}" --group-size 2
figures whole >whole.figures
"${launch[@]}" -np 2 "$coop_sage" "${common[@]}" "${run[@]}" --group-size 2 --epochs 3 --checkpoint shared --metrics many \
    --cpus 1 </dev/null >stdout 2>&1 || complain "two ranks: $(tail -n 1 stdout)"
"${launch[@]}" -np 3 "$coop_sage" "${common[@]}" "${run[@]}" --group-size 2 --checkpoint shared --resume --metrics many \
    --cpus 1 </dev/null >stdout 2>&1 || complain "three ranks: $(tail -n 1 stdout)"
same "two ranks, then three" many
exit $failed
