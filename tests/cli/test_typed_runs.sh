#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Typed datasets, --model rgcn and rgat: partitions change no loss, binary copies, saved models and resumed runs keep every bit, several
# ranks have the bits of one, IMDB trains to its score, and what cannot be is refused in one line.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# typed NAME: papers (60, with 6 features and one of 3 classes), authors (30) and venues (5), neither with features. A paper's class is
# its venue's, and shows in its features half of the time.
typed()
{
    local raw=$1/raw split=$1/split/any/paper
    mkdir -p "$raw/node-feat/paper" "$raw/node-label/paper" "$split" || exit 99
    mkdir -p "$raw"/relations/{author___writes___paper,paper___cites___paper,paper___in___venue} || exit 99
    printf 'author,paper,venue\n30,60,5\n' | gzip >"$raw/num-node-dict.csv.gz"
    printf 'author,writes,paper\npaper,cites,paper\npaper,in,venue\n' | gzip >"$raw/triplet-type-list.csv.gz"
    awk 'BEGIN { for (p = 0; p < 60; p++) for (k = 0; k < 3; k++) print (p * 7 + k * 11) % 30 "," p }' \
        >"$raw/relations/author___writes___paper/edge.csv"
    awk 'BEGIN { for (p = 0; p < 60; p++) for (k = 1; k < 5; k++) print p "," (p * k + 3 * k) % 60 }' |
        sort -u -t, -k1n -k2n >"$raw/relations/paper___cites___paper/edge.csv"
    awk 'BEGIN { for (p = 0; p < 60; p++) print p "," p % 5 }' >"$raw/relations/paper___in___venue/edge.csv"
    awk 'BEGIN { for (p = 0; p < 60; p++) print p % 5 % 3 }' >"$raw/node-label/paper/node-label.csv"
    awk 'BEGIN { for (p = 0; p < 60; p++) { c = p % 2 ? p % 5 % 3 : p % 7; for (f = 0; f < 6; f++) printf "%s%s", (f == c) + f / 8, f < 5 ? "," : "\n" } }' \
        >"$raw/node-feat/paper/node-feat.csv"
    seq 0 39 >"$split/train.csv" && seq 40 49 >"$split/valid.csv" && seq 50 59 >"$split/test.csv" || exit 99
}
typed small

shape=(--layers 2 --hidden 16 --fanout 4,4 --seed 5)
rgcn=(--model rgcn "${shape[@]}")
rgat=(--model rgat --heads 4 "${shape[@]}")

# losses DATASET OPTION...: the losses and scores of a run, each with all its digits.
losses()
{
    local dataset=$1
    shift
    "$coop_sage" --dataset "$dataset" --cpus 2 --quiet --metrics losses.json "$@" >stdout 2>stderr ||
        complain "coop_sage $dataset $*: $(cat stderr)" >&2
    grep '"event":"epoch"' losses.json | grep -oE '"(train_loss|valid_loss|test_acc)":[^,]*'
}

# same WHAT: the files `a` and `b` are equal, and not empty.
same()
{
    [[ -s a ]] && cmp -s a b || complain "$1: expected $(tr '\n' ' ' <a), found $(tr '\n' ' ' <b)"
}
# close_to WHAT: corresponding numbers of `a` and `b` differ by at most 1e-5 of their size.
close_to()
{
    [[ -s a ]] && paste -d: a b | awk -F: '{ d = $2 - $4; d = d < 0 ? -d : d; if (d > 1e-5 * ($2 < 0 ? -$2 : $2)) exit 1 }' ||
        complain "$1: expected $(tr '\n' ' ' <a), found $(tr '\n' ' ' <b)"
}

# The partition is invisible.
for model in rgcn rgat; do
    declare -n options=$model
    for pes in 1 2 3 4 8; do
        losses ./small "${options[@]}" --cache none --dropout 0 --epochs 3 --pes $pes --batch-size $((24 / pes)) >b
        ((pes > 1)) || cp b a
        close_to "$model, $pes PEs"
    done
done

# weigh NAME EXPRESSION: `small` with a weight for each edge, in awk.
weigh()
{
    local relation
    cp -r small "$1" || exit 99
    for relation in "$1"/raw/relations/*; do
        awk "{ print $2 }" "$relation/edge.csv" >"$relation/edge-weight.csv" || exit 99
    done
}
weigh ones 1
weigh some '(NR % 5 == 0) ? 0 : (NR % 7 + 1) / 4'
links=(--objective link --split random:80,10,10)

# Weights of 1 change no bit, other weights do. The partition stays invisible. One relation may have no table: its weights are 1.
for model in rgcn rgat; do
    declare -n options=$model
    kinds=("" "--sampler labor" "--sampler full" "--precision bf16" "--relation-fanout writes:2,3" "${links[*]}" --directed)
    [[ $model == rgat ]] || kinds+=("--bases 2" "--bases 2 --precision bf16")
    for kind in "${kinds[@]}"; do
        run=("${options[@]}" --cache none --epochs 2 --pes 2 --batch-size 12 $kind)
        losses ./small "${run[@]}" >a
        losses ./ones "${run[@]}" --edge-weights factor >b
        same "$model $kind, weights of 1"
        losses ./some "${run[@]}" --edge-weights factor >b
        cmp -s a b && complain "$model $kind: expected other losses with weights"
    done
    drawn=("--sampler labor --labor-iterations 2" "--sampler ladies --layer-size 60,40")
    [[ $model == rgat ]] || drawn+=("--sampler labor --labor-iterations converge --relation-fanout writes:2,3/rev_cites:1,-1 --edge-weights factor" \
        "--sampler labor --edge-weights both" "--sampler labor --edge-weights both --labor-iterations 2 --relation-fanout each" \
        "--sampler labor --edge-weights both --labor-iterations 1 --lr 0.0001 ${links[*]}")
    for kind in "${drawn[@]}" "--edge-weights factor" "--edge-weights probability" "--edge-weights factor --sampler labor" \
        "--edge-weights probability --relation-fanout writes:2,3/rev_cites:1,-1" \
        "--edge-weights factor --lr 0.0001 ${links[*]}" "--edge-weights probability --lr 0.0001 ${links[*]}"; do
        for pes in 1 3 4; do
            sampled=("${options[@]}")
            [[ $kind != *ladies* ]] || sampled=("${options[@]/4,4/-1,-1}")
            losses ./some "${sampled[@]}" --cache none --dropout 0 --epochs 3 --pes $pes --batch-size $((24 / pes)) $kind >b
            ((pes > 1)) || cp b a
            close_to "$model $kind, $pes PEs"
        done
    done
done
cp -r some part && awk '{ print 1 }' some/raw/relations/paper___in___venue/edge.csv >part/raw/relations/paper___in___venue/edge-weight.csv
losses ./part "${rgcn[@]}" --cache none --epochs 2 --edge-weights factor >a
rm part/raw/relations/paper___in___venue/edge-weight.csv
losses ./part "${rgcn[@]}" --cache none --epochs 2 --edge-weights factor >b
same "a relation without weights"

# A saved model brings the option. A binary copy keeps the weights. A resumed run.
run=("${rgat[@]}" --pes 2 --batch-size 12 --edge-weights factor)
losses ./some "${run[@]}" --cache none --epochs 4 --save weighed.safetensors --predict a.npy >a
"$coop_sage" --dataset ./some --cache none --epochs 0 --load weighed.safetensors --predict b.npy --quiet >stdout 2>stderr ||
    complain "load: $(cat stderr)"
paste <(od -An -v -tf4 -j128 -w4 a.npy) <(od -An -v -tf4 -j128 -w4 b.npy) |
    awk '{ d = $1 - $2; if (NF != 2 || d > 1e-5 || d < -1e-5) exit 1 }' || complain "weights of relations: other predictions of a saved model"
for turn in 1 2; do
    losses ./some "${run[@]}" --cache copies --epochs 4 >b
    same "weights of relations, binary copy $turn"
done
tail -n 3 a >c && mv c a
losses ./some "${run[@]}" --cache none --epochs 2 --checkpoint kept-weights >/dev/null
losses ./some "${run[@]}" --cache none --epochs 4 --checkpoint kept-weights --resume --cpus 1 | tail -n 3 >b
same "weights of relations, resumed"

# A binary copy has the same graph. A table that changes makes it anew.
losses ./small "${rgcn[@]}" --cache copies --epochs 2 --pes 2 --batch-size 12 >a
[[ -n $(ls copies) ]] || complain "no binary copy was made"
losses ./small "${rgcn[@]}" --cache copies --epochs 2 --pes 2 --batch-size 12 >b
same "a binary copy"
cp -r small changed && losses ./changed "${rgcn[@]}" --cache copies --epochs 2 --pes 2 --batch-size 12 >a
echo 0,1 >>changed/raw/relations/author___writes___paper/edge.csv
losses ./changed "${rgcn[@]}" --cache copies --epochs 2 --pes 2 --batch-size 12 >b
cmp -s a b && complain "a changed relation: expected other losses than from the binary copy"

# A resumed run; a saved model.
for model in rgcn rgat; do
    declare -n options=$model
    run=("${options[@]}" --cache none --input-layer --output-layers 1 --pes 2 --batch-size 12)
    losses ./small "${run[@]}" --epochs 4 | tail -n 3 >a
    losses ./small "${run[@]}" --epochs 2 --checkpoint kept-$model >/dev/null
    losses ./small "${run[@]}" --epochs 4 --checkpoint kept-$model --resume --cpus 1 | tail -n 3 >b
    same "$model, resumed"
done
for model in rgat rgcn; do
    declare -n options=$model
    run=("${options[@]}" --cache none --pes 2 --batch-size 12)
    for names in dgl pyg; do
        losses ./small "${run[@]}" --epochs 2 --save $names.safetensors --save-names $names --predict a.npy >/dev/null
        "$coop_sage" --dataset ./small "${run[@]}" --epochs 0 --quiet --load $names.safetensors --predict b.npy >stdout 2>stderr ||
            complain "load: $(cat stderr)"
        paste <(od -An -v -tf4 -j128 -w4 a.npy) <(od -An -v -tf4 -j128 -w4 b.npy) |
            awk '{ d = $1 - $2; if (NF != 2 || d > 1e-5 || d < -1e-5) exit 1 }' || complain "$model saved with the names of $names: other predictions"
    done
    [[ $model != rgat ]] || cp pyg.safetensors rgat.safetensors
done
grep -aq '"convs.0.weight":{"dtype":"F32","shape":\[6,41,16\]' rgat.safetensors || complain "rgat: expected weight [6, 41, 16]"
grep -aq '"convs.0.att_src":{"dtype":"F32","shape":\[6,4,4\]' rgat.safetensors || complain "rgat: expected att_src [6, 4, 4]"
grep -aq '"convs.1.att_dst":{"dtype":"F32","shape":\[6,1,3\]' rgat.safetensors || complain "rgat: expected att_dst [6, 1, 3]"
grep -aq '"convs.1.weight":{"dtype":"F32","shape":\[6,16,3\]' pyg.safetensors || complain "pyg: expected weight [6, 16, 3]"
grep -aq '"convs.0.weight":{"dtype":"F32","shape":\[6,41,16\]' pyg.safetensors || complain "pyg: expected weight [6, 41, 16]"
grep -aq '"convs.0.root":{"dtype":"F32","shape":\[41,16\]' pyg.safetensors || complain "pyg: expected root [41, 16]"
grep -aq '"layers.0.linear_r.W":{"dtype":"F32","shape":\[6,41,16\]' dgl.safetensors || complain "dgl: expected linear_r.W"

losses ./small "${run[@]}" --bases 2 --epochs 2 --save bases.safetensors --save-names pyg --predict a.npy >/dev/null
grep -aq '"convs.0.weight":{"dtype":"F32","shape":\[2,41,16\]' bases.safetensors || complain "bases: expected weight [2, 41, 16]"
grep -aq '"convs.0.comp":{"dtype":"F32","shape":\[6,2\]' bases.safetensors || complain "bases: expected comp [6, 2]"
"$coop_sage" --dataset ./small "${run[@]}" --bases 2 --epochs 0 --quiet --load bases.safetensors --predict b.npy >stdout 2>stderr ||
    complain "load bases: $(cat stderr)"
paste <(od -An -v -tf4 -j128 -w4 a.npy) <(od -An -v -tf4 -j128 -w4 b.npy) |
    awk '{ d = $1 - $2; if (NF != 2 || d > 1e-5 || d < -1e-5) exit 1 }' || complain "saved with bases: other predictions"

# Fanouts by relation: the same numbers for all and by name, also from a binary copy; other numbers; a resumed run.
run=("${rgcn[@]}" --pes 2 --batch-size 12 --epochs 2)
losses ./small "${run[@]}" --cache none --relation-fanout each >a
losses ./small "${run[@]}" --cache none >b
cmp -s a b && complain "fanouts by relation: expected other losses than over all relations"
losses ./small "${run[@]}" --cache none --relation-fanout writes:4,4/rev_writes:4,4 >b
same "fanouts by name"
losses ./small "${run[@]}" --cache none --relation-fanout writes:2,1/rev_cites:3,-1 >a
losses ./small "${run[@]}" --cache copies --relation-fanout author___writes___paper:2,1/4:3,-1 >b
same "fanouts by whole name and number"
losses ./small "${run[@]}" --cache copies --relation-fanout 0:2,1/paper___rev_cites___paper:3,-1 >b
same "fanouts by whole name, from a binary copy"
run=("${rgcn[@]}" --cache none --pes 2 --batch-size 12 --relation-fanout cites:2,1)
losses ./small "${run[@]}" --epochs 4 | tail -n 3 >a
losses ./small "${run[@]}" --epochs 2 --checkpoint kept-fanouts >/dev/null
losses ./small "${run[@]}" --epochs 4 --checkpoint kept-fanouts --resume --cpus 1 | tail -n 3 >b
same "fanouts by relation, resumed"
"$coop_sage" --dataset ./small "${rgcn[@]}" --cache none --pes 2 --batch-size 12 --relation-fanout cites:2,2 --epochs 4 --quiet \
    --checkpoint kept-fanouts --resume >stdout 2>stderr && complain "other fanouts by relation than the checkpoint's: expected a refusal"
grep -q -- '--relation-fanout' stderr || complain "other fanouts by relation than the checkpoint's: $(cat stderr)"
run=("${rgcn[@]}" --cache none --pes 2 --batch-size 12)

# Other models forget the relations, without a word. --directed leaves the reverses out.
"$coop_sage" --dataset ./small --cache none --layers 2 --epochs 1 --quiet --batch-size 12 >stdout 2>stderr && [[ ! -s stderr ]] ||
    complain "sage on a typed dataset: $(cat stderr)"
losses ./small "${run[@]}" --epochs 2 --directed --save directed.safetensors --save-names pyg >/dev/null
grep -aq '"convs.1.weight":{"dtype":"F32","shape":\[3,16,3\]' directed.safetensors || complain "--directed: expected 3 relations"
"$starling_data" info ./small --cache none | grep -q '^relations  *6' || complain "info: $("$starling_data" info ./small --cache none)"

# refused PATTERN OPTION...: one line on standard error.
refused()
{
    refuse "$1" "$coop_sage" --cache none --epochs 1 --quiet --model rgcn --batch-size 12 "${@:2}"
    [[ ! -s stdout ]] || complain "$*: expected nothing on standard output, found: $(cat stdout)"
}
# spoil NAME FILE TEXT: a dataset with another text of one table.
spoil()
{
    cp -r small "$1" && rm -f "$1/raw/$2.csv" "$1/raw/$2.csv.gz" && printf "$3" >"$1/raw/$2.csv" || exit 99
}
fanouts=(--dataset ./small --layers 2 --fanout 4,4)
refused "^coop_sage: --relation-fanout: expected --model rgcn or rgat" "${fanouts[@]}" --model sage --relation-fanout each
refused "^coop_sage: --relation-fanout: found 'all', expected each, or RELATION:N,N" "${fanouts[@]}" --relation-fanout all
refused "^coop_sage: --relation-fanout: found 'cites:4', expected each, or RELATION:N,N" "${fanouts[@]}" --relation-fanout writes:1,1/cites:4
refused "^coop_sage: --relation-fanout: found 'cites:4,0', expected each" "${fanouts[@]}" --relation-fanout cites:4,0
refused "^coop_sage: --relation-fanout: found 'cites:4,4,4', expected each" "${fanouts[@]}" --relation-fanout cites:4,4,4
refused "^coop_sage: --relation-fanout: found 'cites:4,4/', expected each" "${fanouts[@]}" --relation-fanout cites:4,4/
refused "^coop_sage: --relation-fanout: found relation 'reads', expected a name in raw/triplet-type-list, rev_NAME for its reverse, or a number below 6 of 'small'" \
    "${fanouts[@]}" --relation-fanout reads:4,4
refused "^coop_sage: --relation-fanout: found relation '6'" "${fanouts[@]}" --relation-fanout 6:4,4
refused "^coop_sage: --relation-fanout: found relation 'rev_cites'" "${fanouts[@]}" --directed --relation-fanout rev_cites:4,4
refused "^coop_sage: --relation-fanout each cannot be used with --sampler full" "${fanouts[@]}" --sampler full --relation-fanout each
refused "^coop_sage: --relation-fanout: found -1 with --replace" "${fanouts[@]}" --replace --relation-fanout cites:4,-1
spoil no-edges relations/paper___in___venue/edge ''
"$coop_sage" --dataset ./no-edges --cache none --epochs 1 --quiet --model rgcn --batch-size 12 >stdout 2>stderr ||
    complain "a relation without edges: $(cat stderr)"
spoil fraction num-node-dict 'author,paper,venue\n30,60.7,5\n'
refused "num-node-dict.csv:2: type 'paper': expected a number of vertices below 4294967295, found '60.7'" --dataset ./fraction
spoil hexadecimal num-node-dict 'author,paper,venue\n30,0x3c,5\n'
refused "type 'paper': expected a number of vertices below 4294967295, found '0x3c'" --dataset ./hexadecimal
spoil wrong-type relations/author___writes___paper/edge '3,4\n30,4\n'
refused "author___writes___paper/edge.csv:2: expected an id of type 'author', below 30, found 30" --dataset ./wrong-type
spoil no-venues num-node-dict 'author,paper,venue\n30,60,0\n'
refused "paper___in___venue/edge.csv:1: expected an id of type 'venue', below 0, found" --dataset ./no-venues
spoil no-vertices num-node-dict 'author,paper,venue\n0,0,0\n'
refused 'num-node-dict.csv:2: found no vertices, expected a type that has some' --dataset ./no-vertices
spoil fewer num-node-dict 'author,paper,venue\n30,60\n'
refused 'num-node-dict.csv: expected as many numbers as types, found fewer' --dataset ./fewer
spoil unknown triplet-type-list 'author,writes,paper\npaper,cites,book\n'
refused "triplet-type-list.csv:2: found type 'book', expected a type of raw/num-node-dict" --dataset ./unknown
spoil two triplet-type-list 'author,writes\n'
refused 'triplet-type-list.csv:1: expected a source type, a name and a destination type' --dataset ./two
spoil missing triplet-type-list 'author,reads,paper\n'
refused 'expected a file raw/relations/author___reads___paper/edge.csv.gz \(or .csv, .npy\), found none' --dataset ./missing
cp -r small many && seq 65536 | sed 's/.*/author,r&,paper/' >many/raw/triplet-type-list.csv && rm many/raw/triplet-type-list.csv.gz || exit 99
refused 'triplet-type-list.csv:65536: .*65535' --dataset ./many
generate plain --vertices 100 --edges 400 --features 4 --classes 3
refused "^coop_sage: --model rgcn: expected a typed dataset" --dataset ./plain
refused '^coop_sage: --edge-weights: expected a dataset with weights of its edges .raw/relations/.*found none in .small' --dataset ./small \
    --edge-weights factor
refused '^coop_sage: --edge-weights both cannot be used with --model rgat: rgat does not take both; use factor' --dataset ./some --model rgat --edge-weights both --sampler labor
refused '^coop_sage: --edge-weights probability: expected --model rgcn or rgat with the typed dataset' --dataset ./some --model sage \
    --edge-weights probability
weigh bad 'NR == 3 ? -1 : 1'
refused 'edge-weight.csv:3: expected the weight of an edge, a finite number of 0 or more, found .-1' --dataset ./bad
echo 1 >bad/raw/relations/paper___in___venue/edge-weight.csv && rm bad/raw/relations/{author,paper___cites}*/edge-weight.csv
refused 'paper___in___venue/edge-weight.csv.*' --dataset ./bad
refused '^coop_sage: --relation-fanout each cannot be used with --sampler ladies: use --layer-size' --dataset ./small --relation-fanout each \
    --sampler ladies --layer-size 9
refused '^coop_sage: --edge-weights factor cannot be used with --model rgat: weights of the sample' --dataset ./some --model rgat \
    --sampler labor --labor-iterations 1 --edge-weights factor
refused '^coop_sage: --heads: found 3, expected a divisor of --hidden' --dataset ./small --model rgat --heads 3 --hidden 16
refused '^coop_sage: --bases: expected --model rgcn' --dataset ./small --model rgat --bases 2
refused '^coop_sage: --input-layer cannot be used with --model gcnii' --dataset ./small --model gcnii --input-layer
refused 'expected a file split/.*/train.csv.gz \(or .csv, .npy\), found none' --dataset ./small --objective link
"$pipe_gnn" --dataset ./small --cache none --epochs 1 --quiet >stdout 2>stderr && complain "pipe_gnn: expected a refusal"
grep -q "'small': found a typed dataset, which pipe_gnn does not take; use coop_sage" stderr || complain "pipe_gnn: $(cat stderr)"
for model in rgcn rgat; do
    "$pipe_gnn" --dataset ./small --cache none --model $model >stdout 2>stderr && complain "pipe_gnn $model: expected a refusal"
    grep -q "pipe_gnn: --model $model cannot be used with pipe_gnn" stderr || complain "pipe_gnn $model: $(cat stderr)"
done

# IMDB, if it is there: a score that a wrong sum would not reach.
if [[ -d $data/imdb/raw ]]; then
    for layer in "" --input-layer; do
        "$coop_sage" --dataset "$data/imdb" --cache none --objective labels --model rgcn --layers 2 --hidden 64 --fanout 20,20 \
            --batch-size 64 --pes 4 --epochs 5 --lr 0.01 --seed 1 --quiet --metrics imdb.json $layer >stdout 2>stderr ||
            complain "imdb: $(cat stderr)"
        grep '"event":"epoch"' imdb.json | tail -n 1 | grep -qE '"test_ap":0\.(6[4-9]|7)' ||
            complain "imdb $layer: expected a test AP of 0.64: $(grep '"event":"epoch"' imdb.json | tail -n 1)"
    done
fi
((failed == 0)) || exit 1

need_mpi
for model in rgcn rgat; do
    declare -n options=$model
    run=(--dataset ./some "${options[@]}" --cache none --pes 4 --batch-size 6 --epochs 2 --quiet --cpus 1)
    [[ $model != rgat ]] || run+=(--relation-fanout writes:2,3)
    run+=(--edge-weights factor --output-layers 2)
    "$coop_sage" "${run[@]}" --metrics one.json >stdout 2>stderr || complain "$model, one rank: $(cat stderr)"
    "${launch[@]}" -np 2 "$coop_sage" "${run[@]}" --metrics two.json </dev/null >stdout 2>stderr ||
        complain "$model, two ranks: $(cat stderr)"
    diff <(figures one.json) <(figures two.json) >stdout || complain "$model, two ranks: $(head -n 4 stdout)"
done
exit $failed
