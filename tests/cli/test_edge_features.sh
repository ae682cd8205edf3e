#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# --edge-features: features that decide the class, the forms of the table, reverses, a resumed run, a saved model, several ranks, and
# what is refused. tests/whole/test_reference.c checks the numbers, tests/whole/test_weighted.c partitions.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# The features of an edge show the class of its destination, and nothing else does.
mkdir -p plain/raw typed/split/s/paper typed/raw/node-{feat,label}/paper typed/raw/relations/paper___{a,b}___paper
awk -v n=600 'BEGIN { srand(3); for (v = 0; v < n; v++) {
    y = int(rand() * 4); print y >"plain/raw/node-label.csv"; print rand() "," rand() "," rand() >"plain/raw/node-feat.csv"
    for (k = 0; k < 6; k++) { print int(rand() * n) "," v >"plain/raw/edge.csv"
        for (c = 0; c < 5; c++) printf "%s%.4f", (c > 0 ? "," : ""), rand() + 2 * (c == y) >"plain/raw/edge-feat.csv"
        print "" >"plain/raw/edge-feat.csv" } } }'
for t in feat label; do cp plain/raw/node-$t.csv typed/raw/node-$t/paper/node-$t.csv; done
printf 'paper\n600\n' >typed/raw/num-node-dict.csv
printf 'paper,a,paper\npaper,b,paper\n' >typed/raw/triplet-type-list.csv
for t in edge edge-feat; do
    sed -n 1,1800p plain/raw/$t.csv >typed/raw/relations/paper___a___paper/$t.csv
    sed -n '1801,$p' plain/raw/$t.csv >typed/raw/relations/paper___b___paper/$t.csv
done

# For attention: of a vertex' in-neighbours, the one whose edge has a mark has the features that show the class.
mkdir -p marked/raw
awk -v n=600 'BEGIN { srand(4); for (v = 0; v < n; v++) kind[v] = int(rand() * 4); for (v = 0; v < n; v++) {
    for (c = 0; c < 4; c++) printf "%s%d", (c > 0 ? "," : ""), c == kind[v] >"marked/raw/node-feat.csv"
    print "" >"marked/raw/node-feat.csv"
    for (k = 0; k < 4; k++) { u = (v + 1 + k * 150 + int(rand() * 140)) % n; print u "," v >"marked/raw/edge.csv"
        print (k == 0) "," rand() >"marked/raw/edge-feat.csv"; if (k == 0) print kind[u] >"marked/raw/node-label.csv" } } }'
cp -r typed pointed # the same edges by relation a; relation b has one
for t in feat label; do cp marked/raw/node-$t.csv pointed/raw/node-$t/paper/node-$t.csv; done
for t in edge edge-feat; do
    cp marked/raw/$t.csv pointed/raw/relations/paper___a___paper/$t.csv
    head -n 1 marked/raw/$t.csv >pointed/raw/relations/paper___b___paper/$t.csv
done

common=(--split random:60,20,20 --layers 2 --fanout 4,4 --hidden 16 --lr 0.01 --seed 5 --quiet --cpus 2)
# losses DATASET OPTION...: the losses and scores of a run, each with all its digits.
losses()
{
    local dataset=$1
    shift
    "$coop_sage" --dataset "./$dataset" "${common[@]}" --metrics losses.json "$@" >stdout 2>stderr || complain "$dataset $*: $(cat stderr)" >&2
    grep '"event":"epoch"' losses.json | grep -oE '"(train_loss|valid_loss|test_acc)":[^,]*'
}
# same WHAT: the files `a` and `b` are equal, and not empty.
same()
{
    [[ -s a ]] && cmp -s a b || complain "$1: expected $(tr '\n' ' ' <a), found $(tr '\n' ' ' <b)"
}

for run in "concat plain --model sage" "concat typed --model rgcn" "concat marked --model gat --heads 4 --lr 0.03" \
    "concat pointed --model rgat --heads 4 --lr 0.03" "add plain --model sage" "add typed --model rgcn" \
    "add plain --model gat --heads 4 --lr 0.03" "add typed --model rgat --heads 4 --lr 0.03"; do
    # shellcheck disable=SC2086 # words
    set -- $run --directed --batch-size 60 --pes 2 --dropout 0
    way=$1
    shift
    losses "$@" --epochs 30 --edge-features "$way" --save ./model --checkpoint ./kept >all
    tail -n 3 all >a
    awk -F: '/acc/ && $2 <= 0.95 { exit 1 }' a || complain "$run: with the features: $(cat a)"
    losses "$@" --epochs 30 | tail -n 1 | awk -F: '$2 > 0.5 { exit 1 }' || complain "$1: chance without them"
    # From the cache; resumed, with another number of workers; and from the model, which knows the option.
    rm -rf kept
    losses "$@" --epochs 29 --edge-features "$way" --checkpoint ./kept >/dev/null
    losses "$@" --epochs 30 --edge-features "$way" --checkpoint ./kept --resume --cpus 1 | tail -n 3 >b
    same "$1: resumed"
    losses "$1" --directed --epochs 0 --load ./model | grep valid_loss >b
    [[ -s b ]] && grep -qxFf b all || complain "$1: loaded: $(cat b) is the loss of no epoch"
    rm -rf kept
done

# Two replicas that mix their gradients step as one that adds them up, but for rounding.
for way in "--sync allreduce" "--sync cube --gossip-what grad"; do
    # shellcheck disable=SC2086 # words
    losses plain --edge-features add --pes 2 --group-size 1 --batch-size 30 --epochs 3 --cache none $way | grep -oE '^"(train|valid)_loss":[0-9.]{6}' >b
    [[ -s a && $way == *cube* ]] && same "replicas"
    mv b a
done

# The forms of the table.
losses plain --edge-features concat --epochs 2 --cache none >a
cp -r plain packed && gzip packed/raw/edge-feat.csv
losses packed --edge-features concat --epochs 2 --cache none >b
same "csv.gz"
# A reverse that the reader adds has its edge's features, as if it were listed; a listed edge has its own.
cp -r plain both
awk -F, '{ print } { print $2 "," $1 }' plain/raw/edge.csv >both/raw/edge.csv
awk '{ print } { print }' plain/raw/edge-feat.csv >both/raw/edge-feat.csv
awk -F, '{ s = $1 < $2 ? $0 : $2 "," $1; if ($1 != $2 && !(s in seen)) print NR; seen[s] }' plain/raw/edge.csv >kept
for d in plain both; do
    mkdir -p once-$d/raw && cp plain/raw/node-* once-$d/raw/
    for t in edge edge-feat; do
        awk -v n=$([[ $d == both ]] && echo 2 || echo 1) 'NR == FNR { keep[$1]; next } int((FNR - 1) / n) + 1 in keep' kept $d/raw/$t.csv >once-$d/raw/$t.csv
    done
done
losses once-plain --edge-features concat --epochs 2 --cache none --partition random >a
losses once-both --edge-features concat --epochs 2 --cache none --partition random --directed >b
same "reverses"

# refused PATTERN DATASET OPTION...: one line on standard error.
refused()
{
    refuse "$1" "$coop_sage" --dataset "./$2" "${common[@]}" --cache none --epochs 1 --edge-features concat "${@:3}"
}
for d in short long nan missing without wide; do cp -r "$([[ $d == missing || $d == wide ]] && echo typed || echo plain)" $d; done
sed -i '$d' short/raw/edge-feat.csv
echo 1,2,3,4,5 >>long/raw/edge-feat.csv
sed -i '7s/,/,nan,/' nan/raw/edge-feat.csv
sed -i '7s/^[^,]*/inf/' nan/raw/edge-feat.csv
rm missing/raw/relations/paper___b___paper/edge-feat.csv without/raw/edge-feat.csv
sed -i 's/$/,1/' wide/raw/relations/paper___b___paper/edge-feat.csv
refused 'short/raw/edge-feat.csv:3600: expected 3600 lines, found 3599' short
refused 'long/raw/edge-feat.csv:3601: expected 3600 lines, found' long
refused 'nan/raw/edge-feat.csv:7: expected' nan
refused 'paper___b___paper/edge.csv: expected a table edge-feat beside it, as other relations have, found none' missing --model rgcn
refused 'paper___b___paper/edge-feat.csv: expected 5 columns, as the edges of the first relation have, found 6' wide --model rgcn
refused '^coop_sage: --edge-features: expected a dataset with features of its edges .raw/edge-feat.csv.gz., found none' without
refused '^coop_sage: --edge-features: expected --model sage or gat or rgcn or rgat' plain --model gcn
refused '^coop_sage: --edge-features concat cannot be used with --bases 2' typed --model rgcn --bases 2
refused '^coop_sage: --edge-features concat cannot be used with --objective link' plain --objective link
refuse 'edge-features' "$pipe_gnn" --dataset ./plain --edge-features concat
((failed == 0)) || exit 1

need_mpi
for run in "plain concat sage" "typed concat rgcn" "plain concat gat" "typed concat rgat" "plain add sage" "typed add rgcn" "plain add gat" "typed add rgat"; do
    # shellcheck disable=SC2086 # words
    set -- $run
    options=(--dataset "./$1" --edge-features "$2" --model "$3" "${common[@]}" --cpus 1 --cache none --pes 4 --batch-size 30 --epochs 2)
    "$coop_sage" "${options[@]}" --metrics one.json >stdout 2>stderr || complain "one rank: $(cat stderr)"
    for n in 2 3; do
        "${launch[@]}" -np $n "$coop_sage" "${options[@]}" --metrics many.json </dev/null >stdout 2>stderr || complain "$n ranks: $(cat stderr)"
        diff <(figures one.json) <(figures many.json) >stdout || complain "$n ranks, $run: $(head -n 4 stdout)"
    done
done
exit $failed
