#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Objectives other than classes over several processes: losses, scores and files of links, label sets and numbers are those of one
# process, to the bit. A run whose rank is killed goes on to the bit. Lists of links that differ on one rank are refused in one line.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage
need_mpi

# Negatives in valid_neg alone: those of test are drawn.
make_links pairs 400 1500 120 120 60
awk 'BEGIN { for (i = 0; i < 500; i++) print (i * 7) % 400 "," (i * i) % 400 }' >asked.csv

# Label sets and numbers: three columns a vertex, some of them unknown.
generate plain --vertices 400 --edges 2500 --features 12 --classes 3
# targets NAME FORMULA: `plain` with other targets of the vertex NR, in the column c.
targets()
{
    cp -r plain "$1" && rm "$1"/raw/node-label.csv.gz || exit 99
    awk "BEGIN { for (NR = 0; NR < 400; NR++) for (c = 1; c <= 3; c++) printf \"%s%s\", (NR * c % 11 == 5) ? \"nan\" : $2, c < 3 ? \",\" : \"\\n\" }" \
        >"$1/raw/node-label.csv" || exit 99
}
targets sets 'NR * 7 % (c + 2) == 0 ? 1 : 0'
targets numbers 'NR % 17 / (c + 1)'

common=(--cache none --epochs 2 --hidden 12 --layers 2 --batch-size 60 --cpus 1 --chunks 2 --metrics-steps --quiet)
links=(--dataset ./pairs --objective link --features random:8)

while read -r name n options; do
    as_ranks "$name" "$n" "${common[@]}" "${links[@]}" --pairs asked.csv $options
done <<'RUNS'
sage 2 --pes 4 --dropout 0.3 --negatives 3
softmax 3 --pes 4 --link-loss softmax --negatives 9 --link-exclude self
groups 3 --pes 6 --group-size 2 --model gcn --negatives 2 --partition random
groups-of-one 2 --pes 2 --group-size 1 --link-exclude none
labor 3 --pes 5 --sampler labor --labor-iterations 1 --fanout 4,4 --depth 4
gat 2 --pes 3 --model gat --heads 3 --norm batch
directed 2 --pes 4 --directed --precision bf16
gossip 3 --pes 6 --group-size 2 --sync dissemination --negatives 2
one-part-each 3 --pes 3 --model gin --layers 3 --norm layer
distmult 3 --pes 4 --decoder distmult --negatives 2
mlp-groups 2 --pes 4 --group-size 2 --decoder mlp --link-loss softmax --negatives 3
RUNS

# Triples, whose ranks are filtered and need the outputs of all vertices.
make_links triples 400 1500 60 60 0 0 3
awk 'BEGIN { for (i = 0; i < 500; i++) print (i * 7) % 400 "," i % 3 "," (i * i) % 400 }' >asked-triples.csv
while read -r name n options; do
    as_ranks "$name" "$n" "${common[@]}" --dataset ./triples --objective link --features random:8 --pairs asked-triples.csv $options
done <<'RUNS'
triples 2 --pes 4 --decoder distmult --negatives 4
triples-rgcn 3 --pes 5 --model rgcn --decoder mlp --partition random --negatives 2
triples-groups 3 --pes 6 --group-size 2 --model rgcn --bases 2 --decoder distmult --best-by mrr
RUNS
# Negatives of each link, of tails, and of heads and tails.
cp -r pairs own && rm own/split/only/valid_neg.csv && cp -r triples own-triples
for list in valid test; do
    own_negatives own/split/only/${list}_tail_neg.npy 120 9
    own_negatives own-triples/split/only/${list}_head_neg.npy 60 5
    own_negatives own-triples/split/only/${list}_tail_neg.npy 60 5
done
as_ranks own 3 "${common[@]}" --dataset ./own "${links[@]:2}" --pairs asked.csv --pes 4 --best-by mrr
as_ranks own-triples 2 "${common[@]}" --dataset ./own-triples "${links[@]:2}" --pairs asked-triples.csv --pes 5 --model rgcn --decoder distmult
as_ranks "the scores of pairs" 2 "${common[@]}" "${links[@]}" --pairs asked.csv --pes 4
for name in auc ap mrr hits1 hits3 hits10 hits20 hits50 hits100; do
    grep -q "\"test_$name\": *0\.[0-9]" many || complain "links: expected a score $name, found $(tail -n 2 many | cut -c 1-600)"
done
[[ $(head -c 128 many.scores.npy | tr -d '\0') == *"(500, 1)"* ]] || complain "scores: expected 500 rows of a score"

while read -r name n options; do
    as_ranks "$name" "$n" "${common[@]}" --batch-size 20 $options
done <<'RUNS'
labels 2 --dataset ./sets --pes 4
labels-weighed 3 --dataset ./sets --pes 5 --class-weights balanced --best-by f1
labels-groups 3 --dataset ./sets --pes 6 --group-size 2 --model gcn
regression 3 --dataset ./numbers --pes 4 --objective regression
absolute 2 --dataset ./numbers --pes 4 --group-size 1 --objective regression --loss absolute
drawn 2 --dataset ./plain --split random:60,20,20 --pes 4
drawn-labels 3 --dataset ./sets --split random:50,25,25 --pes 5
drawn-links 2 --dataset ./plain --objective link --split random:80,10,10 --pes 4 --pairs asked.csv
drawn-links-groups 3 --dataset ./plain --objective link --split random:60,20,20 --pes 6 --group-size 2 --features degree --pairs asked.csv
RUNS

# The lists of a drawn split are the same for all PEs and ranks: a checkpoint has their hash.
for options in "--split random:60,20,20" "--objective link --split random:80,10,10"; do
    rm -rf lists
    for split in "1 1" "1 4" "2 4" "3 6"; do
        ranks ${split% *} "${common[@]}" --dataset ./plain $options --pes ${split#* } --epochs 1 --metrics drawn --checkpoint drawn-state \
            >stdout 2>&1 || complain "$options, $split: $(tail -n 1 stdout)"
        tr -d '\0' <drawn-state/checkpoint.safetensors | grep -ao '"data\.\(split\|graph\)":"[^"]*"' >>lists
        rm -rf drawn-state
    done
    [[ $(wc -l <lists) -eq 8 && $(sort -u lists | wc -l) -eq 2 ]] || complain "$options: other lists: $(sort lists | uniq -c)"
done

# The figures can differ.
ranks 2 "${common[@]}" "${links[@]}" --pes 4 --seed 9 --metrics other >stdout 2>&1 || complain "another seed: $(cat stdout)"
ranks 2 "${common[@]}" "${links[@]}" --pes 4 --seed 8 --metrics many >stdout 2>&1 || complain "a third seed: $(cat stdout)"
cmp -s <(figures many) <(figures other) && complain "another seed gives the same figures"

# Rows of many ends take several messages of some MB.
make_links broad 9000 9000 2500 2500 1250
ranks 3 "${common[@]}" --dataset ./broad --objective link --features random:4 --pes 3 --partition none --hidden 600 --batch-size 3000 \
    --fanout 1,1 --epochs 1 --metrics many >stdout 2>&1 || complain "many ends on three ranks: $(tail -n 1 stdout)"
"$coop_sage" "${common[@]}" --dataset ./broad --objective link --features random:4 --pes 3 --partition none --hidden 600 --batch-size 3000 \
    --fanout 1,1 --epochs 1 --metrics one >stdout 2>stderr || complain "many ends: $(cat stderr)"
cmp -s <(figures one) <(figures many) || complain "many ends: three ranks give other figures"

# ---- killed, and resumed ----

# The runs that are killed have far to go. The last one, and the one that is not killed, end two epochs later.
run=("${links[@]}" --pes 4 --negatives 2)
for victim in 1 2; do
    n_epochs=$(grep -cs '"epoch",' killed.metrics)
    ranks_in_background killed.metrics "\"event\": *\"epoch\",\"epoch\": *$((n_epochs + 3))," \
        "${common[@]}" "${run[@]}" --epochs 100000 --checkpoint killed --resume=auto
    kill -KILL "$(pgrep -P "$launcher" | sed -n ${victim}p)" || complain "there is no rank $victim to kill"
    wait "$launcher" && complain "a run of links of which a rank was killed ended well"
done
run+=(--epochs $(($(grep -c '"epoch",' killed.metrics) + 2)))
ranks 3 "${common[@]}" "${run[@]}" --checkpoint killed --resume=yes --metrics killed.metrics --save killed.model >stdout 2>&1 ||
    complain "killed, and resumed on three ranks: $(tail -n 1 stdout)"
"$coop_sage" "${common[@]}" "${run[@]}" --metrics whole --save whole.model >stdout 2>stderr || complain "$(cat stderr)"
cmp -s <(figures whole | grep '"step"') <(figures killed.metrics | grep '"step"') || complain "a run of links that was killed has other losses"
cmp -s whole.model killed.model || complain "a run of links that was killed has another model"

# ---- ranks that are not alike ----

# differ PATTERN OPTIONS-OF-RANK-0 OPTIONS-OF-RANK-1: exit code 1 and one line.
differ()
{
    local run=("$program" "${common[@]}" --objective link --features random:8 --pes 2 --metrics refused)
    code=1 refuse "$1" "${launch[@]}" -np 1 "${run[@]}" $2 : -np 1 "${run[@]}" $3
}
mkdir there && for list in train valid test valid_neg; do
    rm -rf there/pairs && cp -r pairs there/pairs
    sed -i '$d' "there/pairs/split/only/$list.csv"
    differ "rank 1: dataset pairs, (graph|split): found '.*', expected '.*' as rank 0 has" "--dataset ./pairs" "--dataset ./there/pairs"
done
tac pairs/split/only/valid_neg.csv >there/pairs/split/only/valid_neg.csv
differ "rank 1: dataset pairs, split: found '1500/120/120 links, hash .*', expected '1500/120/120 links, hash" "--dataset ./pairs" "--dataset ./there/pairs"
tac asked.csv >turned.csv
differ "rank 1: --pairs: found '500 pairs, hash .*', expected '500 pairs, hash .*' as rank 0 has; give all ranks the same pairs" \
    "--dataset ./pairs --predict scores --pairs asked.csv" "--dataset ./pairs --predict scores --pairs turned.csv"
for option in negatives link-loss link-exclude; do
    case $option in
    negatives) value=4 ;;
    link-loss) value=softmax ;;
    link-exclude) value=none ;;
    esac
    differ "rank 1: --$option: found '.*', expected '.*' as rank 0 has" "--dataset ./pairs" "--dataset ./pairs --$option $value"
done
exit $failed
