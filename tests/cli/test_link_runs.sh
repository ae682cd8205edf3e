#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# --objective link: random links cannot be predicted, scores on Cora and CiteSeer, the edges of raw/ count nothing, workers and
# partitions change no loss, also with negatives of each link, a resumed run continues to the bit, and bad input is refused in one
# line. tests/whole/test_links.c checks the numbers.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# link DATASET OPTION...: a run whose losses and scores go to `numbers`, with all their digits.
link()
{
    local dataset=$1
    shift
    "$coop_sage" --dataset "./$dataset" --objective link --cache none --cpus 2 --hidden 16 --layers 2 --seed 5 --quiet \
        --metrics run.json "$@" >stdout 2>stderr || complain "$dataset $*: $(cat stderr)"
    grep '"event":"epoch"' run.json | grep -oE '"(train_loss|valid_loss|test_auc|test_ap)":[^,]*' >numbers
}

# last NAME: the last value of a number in `numbers`.
last()
{
    grep "\"$1\"" numbers | tail -n 1 | cut -d: -f2
}

# holds FORMULA: complain unless the formula is true.
holds()
{
    awk "BEGIN { exit !($1) }" || complain "expected $1"
}

# ---- random links ----

make_links random 1500 5000 400 3000 200
link random --features random:16 --fanout 10,10 --pes 2 --batch-size 250 --epochs 6 --lr 0.01 --dropout 0
holds "$(last test_auc) > 0.48 && $(last test_auc) < 0.52"
holds "$(last test_ap) > 0.47 && $(last test_ap) < 0.53"
honest=$(last train_loss)
# A model that sees the links it is asked for does better in training, on links that nobody can predict.
link random --features random:16 --fanout 10,10 --pes 2 --batch-size 250 --epochs 6 --lr 0.01 --dropout 0 --link-exclude none
holds "$(last train_loss) < $honest - 0.02"

# ---- what changes nothing, and what does ----

# same WHAT, near WHAT: `numbers` equals `wanted`; or each number does up to 1e-5 of its size.
same()
{
    [[ -s wanted ]] && cmp -s wanted numbers || complain "$1: expected $(tr '\n' ' ' <wanted), found $(tr '\n' ' ' <numbers)"
}
near()
{
    [[ -s wanted ]] && paste -d: wanted numbers |
        awk -F: '{ d = $2 - $4; d = d < 0 ? -d : d; if (d > 1e-4 * ($2 < 0 ? -$2 : $2)) exit 1 }' ||
        complain "$1: expected $(tr '\n' ' ' <wanted), found $(tr '\n' ' ' <numbers)"
}

make_links small 200 600 50 50 25
few=(--features random:8 --output-layers 2 --fanout 4,4 --epochs 3 --negatives 2 --chunks 2)
# A folder may have a split alone, with the features elsewhere.
mkdir apart && cp -R small/split apart/split
awk 'BEGIN { for (v = 0; v < 200; v++) print v % 7 "," v % 3 - 1 "," v / 200 }' >rows.csv
link small --fanout 4,4 --epochs 2 --features "$PWD/rows.csv" && mv numbers wanted
link apart --fanout 4,4 --epochs 2 --features "$PWD/rows.csv" && same 'a split alone'
link small "${few[@]}" --pes 2 --batch-size 60
cp numbers wanted
link small "${few[@]}" --pes 2 --batch-size 60 --cpus 1 --depth 3
same "one worker, three slots"
printf '0,1\n1,2\n' >small/raw/edge.csv
link small "${few[@]}" --pes 2 --batch-size 60
same "edges in raw/"
rm small/raw/edge.csv
link small "${few[@]}" --pes 1 --batch-size 120 --chunks 1
near "one PE"
link small "${few[@]}" --pes 4 --group-size 2 --batch-size 30 --partition random
near "two groups of two PEs"
link small "${few[@]}" --pes 2 --batch-size 60 --seed 6
! cmp -s wanted numbers || complain "another seed: expected other numbers"
link small "${few[@]}" --pes 2 --batch-size 60 --precision bf16
link small "${few[@]}" --pes 2 --batch-size 60 --sync dissemination --gossip-ring
link small "${few[@]}" --pes 2 --batch-size 60 --epochs 2 --checkpoint state
link small "${few[@]}" --pes 2 --batch-size 60 --checkpoint state --resume --embed vectors.npy --save model.safetensors
same "a resumed run"
[[ $(head -c 128 vectors.npy | tr -d '\0') == *"(200, 16)"* ]] || complain "vectors.npy: expected 200 rows of 16 numbers"
grep '"event":"summary"' run.json | grep -oE '"test_auc_at_best":[^,]*' | cut -d: -f2 >best
printf '0,199\n7,7\n199,0\n' >pairs.csv
link small --features random:8 --epochs 0 --load model.safetensors --pes 3 --pairs pairs.csv --predict scores.npy
vector() { tail -c +$((129 + 64 * $1)) vectors.npy | head -c 64 | od -An -v -w64 -tf4; }
{ vector 0; vector 199; vector 7; tail -c 12 scores.npy | od -An -v -w12 -tf4; } | awk '
    { for (i = 1; i <= NF; i++) x[NR, i] = $i }
    function near(a, b) { d = x[4, a] - b; return d < 1e-4 && d > -1e-4 }
    END { for (i = 1; i <= 16; i++) { s += x[1, i] * x[2, i]; q += x[3, i] * x[3, i] }; exit !(near(1, s) && near(2, q) && near(3, s)) }' ||
    complain "scores.npy: expected the dot products of vectors.npy"
[[ $(last test_auc) == $(cat best) ]] || complain "a saved model: expected the AUC $(cat best), found $(last test_auc)"

# ---- negatives of each link ----

# A link that is to be found twice is dropped with its own negatives: the first three of valid, which are those of test.
make_links clean 200 600 48 50 0 0 3
for list in valid test; do
    for end in head tail; do
        own_negatives clean/split/only/${list}_${end}_neg.npy "$(wc -l <clean/split/only/$list.csv)" 6
    done
done
cp -r clean leaky
{ head -n 3 clean/split/only/test.csv; cat clean/split/only/valid.csv; } >leaky/split/only/valid.csv
for end in head tail; do
    file=split/only/valid_${end}_neg.npy
    own_negatives leaky/$file 51 6
    { head -c 146 leaky/$file; tail -c $((48 * 6)) clean/$file; } >made.npy && mv made.npy leaky/$file
done
own=(--features random:8 --fanout 4,4 --epochs 2 --negatives 2 --model rgcn --decoder distmult)
scores() { grep '"event":"epoch"' run.json | grep -oE '"(train_loss|(valid|test)_(loss|auc|mrr|hits[13]))":[^,]*' >numbers; }
refuse 'valid has the link|test has the link' "$coop_sage" --dataset ./leaky --objective link --cache none --quiet "${own[@]}"
link leaky "${own[@]}" --pes 2 --batch-size 42 --drop-leaks; scores; cp numbers wanted
grep -q '"test_mrr":0\.' wanted || complain "own negatives: expected a score test_mrr"
link clean "${own[@]}" --pes 2 --batch-size 42; scores; same "leaks that are dropped with their own negatives"
for pes in 1 3 4 7; do
    link leaky "${own[@]}" --pes $pes --batch-size $((84 / pes)) --drop-leaks; scores; near "own negatives, $pes PEs"
done
own_negatives leaky/split/only/test_tail_neg.npy 50 7
refuse 'expected 6 negatives of each link, as of heads, found 7' "$coop_sage" --dataset ./leaky --objective link --cache none --quiet "${own[@]}"

# ---- drawn splits ----

# make_edges NAME N PAIRS: random edges below a header, some of them listed again, in the other direction or not.
make_edges()
{
    mkdir -p "$1" || exit 99
    awk -v n="$2" -v pairs="$3" 'BEGIN {
        srand(13)
        print "src,dst"
        for (v = 0; v < n; v++) print v "," v  # all ids, in order
        for (i = 0; i < pairs;) {
            u = int(n * rand()); v = int(n * rand())
            if (u < v && !((u, v) in seen)) {
                seen[u, v] = 1; i++; print u "," v
                if (i % 5 == 0) print v "," u
                if (i % 7 == 0) print u "," v
            }
        }
    }' >"$1/edges.csv"
}

make_edges drawn 1500 8400
for features in random:16 degree; do
    link drawn --split random:60,4,36 --features $features --fanout 10,10 --pes 2 --batch-size 250 --epochs 6 --lr 0.01 --dropout 0
    holds "$(last test_auc) > 0.48 && $(last test_auc) < 0.52"
done
grep -q '"split":"random:60,4,36"' run.json || complain "a drawn split: expected its name in the metrics"
make_edges few-drawn 200 700
drawn=(--split random:80,10,10 --features random:8 --fanout 4,4 --epochs 3 --negatives 2)
link few-drawn "${drawn[@]}" --pes 2 --batch-size 60
cp numbers wanted
link few-drawn "${drawn[@]}" --pes 1 --batch-size 120 --chunks 1
near "a drawn split, one PE"
link few-drawn "${drawn[@]}" --pes 2 --batch-size 60 --epochs 2 --checkpoint drawn-state
link few-drawn "${drawn[@]:2}" --pes 2 --batch-size 60 --checkpoint drawn-state --resume
same "a drawn split, which a resumed run need not name"

# ---- what is refused ----

# refused WORDS OPTION...: the run fails with one line that has the words.
refused()
{
    refuse "$1" "$coop_sage" --objective link --cache none --quiet --features random:4 --epochs 1 "${@:2}"
}

# change LIST LINE: the dataset `bad` is `small` with another line in a list.
change()
{
    rm -rf bad && cp -r small bad && printf '%s\n' "$2" >>"bad/split/only/$1.csv"
}
link=$(head -n 1 small/split/only/train.csv)
change test 3,200
refused "below 200" --dataset ./bad
change test 7
refused "test.csv" --dataset ./bad
change test "$link"
refused "is in train, too" --dataset ./bad
change valid_neg "${link#*,},${link%,*}"
refused "is a link of train" --dataset ./bad
rm bad/raw/num-node-list.csv
refused "num-node-list" --dataset ./bad
generate vertices --vertices 100 --edges 300 --features 4 --classes 2
refused "train" --dataset ./vertices
refused "expected a split that lists links" --dataset arxiv-synthetic
refused "--pairs" --dataset ./small --predict p.npy
refused "--predict" --dataset ./small --pairs small/split/only/test.csv
echo 3,200 >pairs.csv
refused "below 200" --dataset ./small --predict p.npy --pairs pairs.csv
: >pairs.csv
refused "found none" --dataset ./small --predict p.npy --pairs pairs.csv
[[ ! -e p.npy ]] || complain "p.npy: expected no file of a refused run"
refused "--edge-weights" --dataset ./small --edge-weights factor
refused "--class-weights" --dataset ./small --class-weights balanced
refused "--best-by" --dataset ./small --best-by acc
refused "--loss" --dataset ./small --loss absolute
! "$coop_sage" --dataset ./vertices --negatives 3 --quiet --epochs 1 >stdout 2>stderr && grep -q "objective" stderr ||
    complain "--negatives without links: expected a failure, found $(cat stderr)"
! "$pipe_gnn" --dataset ./small --objective link --quiet >stdout 2>stderr && grep -q "coop_sage" stderr ||
    complain "pipe_gnn: expected a failure, found $(cat stderr)"

# ---- typed links ----

# make_triples NAME N RELATIONS TRAIN VALID TEST: a dataset of distinct random triples of N vertices.
make_triples()
{
    mkdir -p "$1/raw" "$1/split/only" || exit 99
    echo "$2" >"$1/raw/num-node-list.csv"
    awk -v n="$2" -v relations="$3" -v train="$4" -v valid="$5" -v test="$6" -v to="$1/split/only/" 'BEGIN {
        srand(12)
        n_of["train"] = train; n_of["valid"] = valid; n_of["test"] = test
        split("train valid test", lists, " ")
        for (l = 1; l <= 3; l++) {
            for (i = 0; i < n_of[lists[l]];) {
                u = int(n * rand()); v = int(n * rand()); r = int(relations * rand())
                if (!((u, r, v) in seen)) { seen[u, r, v] = 1; i++; print u "," r "," v >(to lists[l] ".csv") }
            }
        }
    }'
}

make_triples triples 800 4 3000 200 2000
link triples --features random:16 --model rgcn --decoder distmult --fanout 10,10 --pes 2 --batch-size 250 --epochs 4 --lr 0.01 --dropout 0
holds "$(last test_auc) > 0.47 && $(last test_auc) < 0.53"
make_triples few 120 3 500 40 40
few=(--features random:8 --model rgcn --decoder distmult --fanout 4,4 --epochs 3 --negatives 3 --best-by mrr)
link few "${few[@]}" --pes 1 --batch-size 120
cp numbers wanted
link few "${few[@]}" --pes 4 --batch-size 30 --partition random --chunks 2
near "typed links of four PEs"
link few "${few[@]}" --pes 2 --batch-size 60 --save model.safetensors
cp numbers wanted
link few "${few[@]}" --pes 2 --batch-size 60 --epochs 2 --checkpoint typed-state
link few "${few[@]}" --pes 2 --batch-size 60 --checkpoint typed-state --resume
same "a resumed run on typed links"
printf '3,2,5\n5,2,3\n3,1,5\n' >pairs.csv
scores=(--features random:8 --model rgcn --decoder distmult --epochs 0 --load model.safetensors --pes 3 --predict scores.npy)
link few "${scores[@]}" --pairs pairs.csv
tail -c 12 scores.npy | od -An -v -w12 -tf4 | awk '{ d = $1 - $2; e = $1 - $3; exit !(d * d < 1e-10 && e * e > 1e-10) }' ||
    complain "scores.npy: expected DistMult's equal scores of a triple and its reverse, and another of another relation"
# spoil_triples LIST LINE: the dataset `bad` is `few` with another line in a list.
spoil_triples()
{
    rm -rf bad && cp -r few bad && printf '%s\n' "$2" >>"bad/split/only/$1.csv"
}
triple=$(head -n 1 few/split/only/train.csv)
spoil_triples test 3,1,120
refused "'head,relation,tail', head and tail two ids below 120" --dataset ./bad
spoil_triples test 3,1
refused "test.csv:41: expected 'head,relation,tail'" --dataset ./bad
spoil_triples test 3,3,5
refused "relation 3 has no training link; expected one or more of each relation" --dataset ./bad
spoil_triples train 3,4,5
refused "relation 3 has no training link; expected one or more of each relation" --dataset ./bad
spoil_triples train 3,65535,5
refused "found relation 65535, expected at most 65535 relations" --dataset ./bad
spoil_triples test "$triple"
refused "is in train, too" --dataset ./bad
spoil_triples valid_neg "$triple"
refused "is a link of train" --dataset ./bad
spoil_triples valid_neg 3,5
refused "expected lines of head,relation,tail, as in the training links, found 2 numbers" --dataset ./bad
echo 3,5 >pairs.csv
refused "pairs.csv:1: expected lines of head,relation,tail" --dataset ./few --predict p.npy --pairs pairs.csv
echo 3,3,5 >pairs.csv
refused "pairs.csv:1: expected a relation below 3, found 3" --dataset ./few --predict p.npy --pairs pairs.csv
refused "pairs.csv:1: expected lines of source,destination" --dataset ./small --predict p.npy --pairs pairs.csv

# A typed dataset: 40 users and 20 items; users buy items, items resemble items.
mkdir -p shop/raw/relations/{user___buys___item,item___like___item} shop/split/only || exit 99
printf 'user,item\n40,20\n' >shop/raw/num-node-dict.csv
printf 'user,buys,item\nitem,like,item\n' >shop/raw/triplet-type-list.csv
awk 'BEGIN { for (u = 0; u < 40; u++) for (k = 0; k < 6; k++) print u "," (u * 7 + k * 3) % 20 }' >shop/raw/relations/user___buys___item/edge.csv
awk 'BEGIN { for (i = 0; i < 20; i++) print i "," (i + 1) % 20 }' >shop/raw/relations/item___like___item/edge.csv
awk -F, '{ list = NR % 6 == 0 ? "test" : NR % 6 == 1 ? "valid" : "train"; print $1 ",0," $2 > ("shop/split/only/" list ".csv") }' \
    shop/raw/relations/user___buys___item/edge.csv
shop=(--features random:8 --model rgcn --decoder distmult --fanout 4,4 --epochs 2 --negatives 2)
link shop "${shop[@]}" --pes 1 --batch-size 40
cp numbers wanted
link shop "${shop[@]}" --pes 4 --batch-size 10 --partition random
near "links of a typed dataset"
"$coop_sage" --dataset ./shop --objective link --cache none --features random:8 --model rgcn --epochs 0 >stdout 2>stderr &&
    grep -q '60 vertices, 360 edges' stdout || complain "shop: expected 160 links, 20 other edges and their reverses: $(cat stdout stderr)"
echo 3,0,20 >>shop/split/only/test.csv
refused "test.csv:41: expected a tail of relation 0, an id below 20, found 20" --dataset ./shop --model rgcn
sed -i '$ s/.*/3,1,2/' shop/split/only/test.csv
refused "relation 1 of test \(line 41\) has no training link" --dataset ./shop --model rgcn

# ---- scores ----

# scored NAME AUC AP: a run on the dataset's links reaches the scores.
scored()
{
    local place places
    IFS=: read -ra places <<<"$data"
    for place in ${places[@]+"${places[@]}"}; do
        if [[ -d $place/$1/raw && -d $place/$1-links/split ]]; then
            mkdir -p "$1" && ln -sfn "$place/$1/raw" "$1/raw" && ln -sfn "$place/$1-links/split" "$1/split"
            "$coop_sage" --dataset "./$1" --objective link --cache none --cpus 2 --model gcn --layers 2 --hidden 64 --sampler full \
                --pes 2 --batch-size 256 --negatives 8 --link-loss softmax --epochs 10 --lr 0.003 --dropout 0 --quiet --metrics run.json \
                >stdout 2>stderr || complain "$1: $(cat stderr)"
            grep '"event":"summary"' run.json | grep -oE '"test_(auc|ap)_at_best":[^,}]*' | sed 's/_at_best//' >numbers
            holds "$(last test_auc) > $2 && $(last test_ap) > $3"
            echo "$1: AUC $(last test_auc), AP $(last test_ap)"
            return
        fi
    done
    skip "no $1 and $1-links in \$STARLING_DATA"
}
scored cora 0.905 0.91
scored citeseer 0.885 0.89
exit $failed
