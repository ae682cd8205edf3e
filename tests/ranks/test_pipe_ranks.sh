#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# pipe_gnn over several processes: the losses, scores and files of one process, to the bit; what goes between them; what is refused; what
# happens where one of them is killed, hangs or is asked to stop; a run that goes on in other processes.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$pipe_gnn
need_mpi

generate dense --vertices 1200 --edges 8000 --features 20 --classes 5
generate small --vertices 600 --edges 4000 --features 20 --classes 5
generate sparse --vertices 600 --edges 4000 --features 150 --classes 5 --sparse
generate few --vertices 40 --edges 25 --features 8 --classes 3
cp -R dense weighed && gzip -dc dense/raw/edge.csv.gz | awk '{ print (NR % 5 == 0) ? 0 : (NR % 7 + 1) / 4 }' >weighed/raw/edge-weight.csv
common=(--cache none --epochs 3 --hidden 12 --layers 3 --cpus 1 --stages 1 --quiet)

# ---- the same bits ----

# Exactly, in as many chunks as ways; in several slots, with a history; in stages of a rank each or of several; and both.
# (Where GCNII is cut says how many bytes go between stages: not by time then.)
while read -r name n ways chunks options; do
    as_ranks "$name" "$n" "${common[@]}" --eval-every 1 --ways "$ways" --chunks "$chunks" $options
    [[ $name != guard ]] || grep -q '"guard": *"fired"' many || complain "$name: it has not fired: $(tail -n 1 many)"
done <<'RUNS'
gcn 2 4 4 --dataset dense --model gcn --dropout 0.3
sage 3 7 7 --dataset dense --model sage --norm layer --residual
gcnii 4 4 4 --dataset sparse --model gcnii --layers 4 --dropout 0.2
resgcn 2 5 5 --dataset dense --model resgcn --recompute
gin 2 4 4 --dataset dense --model gin --learn-epsilon --norm layer --recompute --output-layers 2
weighed 3 4 4 --dataset ./weighed --model gcn --edge-weights factor
weighed-gin 2 2 8 --dataset ./weighed --model gin --learn-epsilon --edge-weights factor --precision bf16 --history-every 1
wide 3 3 3 --dataset sparse --model gcn --hidden 40 --recompute --partition random --placement home
directed 3 5 5 --dataset dense --model gcn --directed
directed-sage 2 4 4 --dataset dense --model sage --directed --hidden 24
empty-chunks 3 60 60 --dataset few --model sage
slots 2 2 8 --dataset dense --model gcn --history-every 1 --dropout 0.3
slots-recompute 3 4 16 --dataset sparse --model sage --directed --history-every 2 --recompute
slots-empty 4 4 60 --dataset few --model gcnii --history-every 1
stages 2 1 8 --dataset dense --model gcn --stages 2 --history-every 1 --dropout 0.3 --output-layers 3
stages-recompute 2 1 16 --dataset dense --model gcnii --layers 6 --stages 4 --stages-cut 2,3,5 --history-every 1 --chunk-order fixed --recompute
stages-directed 3 2 24 --dataset dense --model sage --directed --stages 3 --history-every 1
hybrid 4 2 16 --dataset sparse --model gcnii --layers 5 --stages 2 --stages-cut 2 --history-every 1 --dropout 0.2
hybrid-recompute 3 2 8 --dataset dense --model resgcn --layers 4 --stages 2 --history-every 3 --recompute --placement home
bf16 3 3 6 --dataset dense --model sage --precision bf16 --directed --dropout 0.3 --history-every 1 --output-layers 2
bf16-exact 2 4 4 --dataset sparse --model gcn --precision bf16 --norm layer --recompute
bf16-stages 3 1 8 --dataset dense --model gcnii --layers 4 --stages 3 --stages-cut 1,2 --precision bf16 --history-every 2
bf16-hybrid 4 2 16 --dataset dense --model resgcn --layers 4 --stages 2 --stages-cut 2 --precision bf16 --history-every 1 --recompute
guard 2 1 24 --dataset small --model gcnii --layers 6 --stages 2 --stages-cut 3 --partition random --history-every 10 --lr 0.3 --epochs 12 --eval-every 6
RUNS

# The figures can differ: those of another seed do.
ranks 2 "${common[@]}" --dataset dense --ways 4 --chunks 4 --metrics other --seed 7 >stdout 2>&1 || complain "another seed: $(tail -n 1 stdout)"
"$program" "${common[@]}" --dataset dense --ways 4 --chunks 4 --metrics one 2>stderr
[[ $(figures other | wc -l) -eq $(figures one | wc -l) ]] && ! cmp -s <(figures one) <(figures other) || complain "another seed gives the same figures"

# ---- bytes between ranks ----

# Where each rank has one way, what goes between ways does between ranks: rows, their gradients, weights up a tree and down again; and
# losses so. What evaluation sends is not counted.
for n in 2 3; do
    for edges in '' --directed '--precision bf16'; do
        ranks $n "${common[@]}" --dataset dense $edges --ways $n --chunks $n --eval-every 1 --metrics many >stdout 2>&1 ||
            complain "one way a rank: $(tail -n 1 stdout)"
        expected=$(($(sum_of rows) + $(sum_of row_gradients) + $(sum_of weights) + $(grep -c '"epoch"' many) * 2 * (n - 1) * 8))
        found=$(sum_of between_ranks)
        ((found == expected && $(sum_of rows) > 0)) || complain "one way a rank $edges: between $n ranks went $found bytes, expected $expected"
    done
done

# However many slots there are, a rank sends the sum of its chunks once.
slots=4
ranks 2 "${common[@]}" --dataset dense --ways 2 --chunks $((2 * slots)) --history-every 1 --metrics many >stdout 2>&1 || complain "slots: $(tail -n 1 stdout)"
expected=$(($(sum_of rows) + $(sum_of row_gradients) + $(sum_of weights) + $(grep -c '"epoch"' many) * 2 * 8))
found=$(sum_of between_ranks)
((found == expected && $(sum_of rows) > 0)) || complain "between ranks with $slots slots went $found bytes, expected $expected"

# Where each rank is a stage, what goes between stages does, and the last one's loss.
for model in gcn gcnii 'gcnii --precision bf16' 'resgcn --precision bf16'; do
    ranks 3 "${common[@]}" --dataset dense --model $model --stages 3 --ways 1 --chunks 6 --metrics many >stdout 2>&1 || complain "stages: $(tail -n 1 stdout)"
    expected=$(($(sum_of stages) + $(grep -c '"epoch"' many) * 2 * 8))
    found=$(sum_of between_ranks)
    ((found == expected && $(sum_of stages) > 0)) || complain "between 3 stages of $model went $found bytes, expected $expected"
done

# ---- refused ----

run=("$program" --dataset dense "${common[@]}")
code=2 refuse '--ways: found 4, .* 5 processes' "${launch[@]}" -np 5 "${run[@]}" --ways 4 --chunks 4
code=2 refuse '--ways: found 1, expected at least 2 for 3 processes .* --stages 2' "${launch[@]}" -np 3 "${run[@]}" --ways 1 --chunks 4 --stages 2

# ---- one trace of all ----

if ranks 2 --dataset dense "${common[@]/--quiet/--no-quiet}" --ways 4 --chunks 4 --epochs 2 --trace traced >stdout 2>stderr; then
    # Ways 0 and 1 are the first rank's.
    awk '/^Name: / { pe = $2; sub(/.*[.]pe/, "", pe); sub(/[.].*/, "", pe); ours = $2 ~ /[.]pull[.]/ }
         /^MPIRank: / { n[$2] += ours; bad += ours && int(pe / 2) != $2; ours = 0 }
         END { exit bad > 0 || n[0] < 8 || n[1] < 8 }' traced/tasks.rec || complain "tasks of a way are not its rank's"
    if python=$(python_with 'matplotlib, numpy') && [[ -f $top_builddir/.libs/libstarling.so ]]; then
        (preload_sanitizer "$top_builddir/.libs/libstarling.so"
         export STARLING_LIBRARY=$top_builddir/.libs/libstarling.so PYTHONPATH=$top_srcdir/python
         "$python" -m starling_gnn report traced) >reported 2>stderr || complain "the report of two ranks: $(cat stderr)"
        (($(sed -n '/^By rank/,/^$/p' reported | grep -c '^rank [0-9]') == 2)) || complain "the report has no table by rank: $(cat reported)"
    fi
else
    grep -q FxT stderr || complain "a trace of two ranks: $(cat stderr)"
fi

# ---- a failure, a rank that hangs, a signal ----

# long_run ARGUMENT ...: two ranks that have far to go.
long_run()
{
    rm -f long
    ranks_in_background long '"train_loss"' "${common[@]}" --dataset dense --ways 2 --chunks 2 --epochs 100000 --eval-every 0 "$@"
}

ranks 2 "${common[@]}" --dataset dense --ways 2 --chunks 2 --epochs 20 --lr 1e30 >stdout 2>stderr && complain "a loss that is no number ended well"
grep -Eq '^pipe_gnn: rank [01]: .*loss' stderr || complain "a loss that is no number: $(cat stderr)"

long_run --stages 2 --ways 1 --chunks 8
kill -KILL "$last"
ended_badly "a run of which a rank was killed"

long_run --watchdog 2
kill -STOP "$last"
ended_badly "a run of which a rank has hung" '^pipe_gnn: rank [01]: no task has ended'

long_run --checkpoint kept --stages 2 --ways 1 --chunks 8
asked_to_stop

# ---- resumed ----

# resume ARGUMENT ...: four epochs in one process; and in two ranks, three, and one process.
resume()
{
    local run=(--dataset dense --eval-every 1 --epochs 4 "$@")
    rm -rf parts pieces
    "$program" "${common[@]}" "${run[@]}" --metrics whole --predict whole.npy 2>stderr || complain "$*: $(cat stderr)"
    ranks 2 "${common[@]}" "${run[@]}" --epochs 2 --checkpoint parts --metrics pieces >stdout 2>&1 || complain "$*, two epochs: $(cat stdout)"
    ranks 3 "${common[@]}" "${run[@]}" --epochs 3 --checkpoint parts --resume=yes --metrics pieces >stdout 2>&1 ||
        complain "$*, on three ranks: $(cat stdout)"
    "$program" "${common[@]}" "${run[@]}" --checkpoint parts --resume=yes --metrics pieces --predict pieces.npy 2>stderr ||
        complain "$*, in one process: $(cat stderr)"
    cmp -s <(figures whole | grep -v '"summary"') <(figures pieces | grep -v '"summary"') ||
        complain "$*: a run that went on in other processes has other figures"
    cmp -s whole.npy pieces.npy || complain "$*: a run that went on in other processes predicts otherwise"
}

resume --model gcnii --ways 6 --chunks 6
resume --model gcnii --stages 2 --stages-cut 1 --ways 2 --chunks 8 --history-every 2 --dropout 0.3
resume --model sage --precision bf16 --ways 3 --chunks 6 --history-every 1 --dropout 0.3

exit $failed
