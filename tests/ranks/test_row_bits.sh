#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# A row's bits depend on the row and its lists alone. With equal weights (--lr 0), the losses of steps with dropout, all scores, --predict
# and --embed are equal to the bit for every number of PEs, chunks, groups, batch of the evaluation, and ranks: all models, objectives and
# decoders, float and bf16, dense and sparse features. Isolated vertices with equal features are ranked as equal.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# make_numbers NAME COLUMNS KIND: 700 vertices with rows of numbers, or of labels, 0 or 1.
make_numbers()
{
    mkdir -p "$1/raw" "$1/split/only" || exit 99
    awk -v to="$1/" -v columns="$2" -v kind="$3" 'BEGIN {
        srand(3)
        for (v = 0; v < 700; v++) {
            features = labels = ""
            for (c = 0; c < 19; c++) features = features (c ? "," : "") sprintf("%.4f", 2 * rand() - 1)
            for (c = 0; c < columns; c++) labels = labels (c ? "," : "") (kind == "labels" ? (rand() < 0.3) : sprintf("%.3f", 3 * rand()))
            print features >(to "raw/node-feat.csv")
            print labels >(to "raw/node-label.csv")
            for (e = 0; e < 5; e++) print v "," int(700 * rand() * rand()) >(to "raw/edge.csv")
            print v >(to "split/only/" (v % 2 ? "train" : v % 4 ? "valid" : "test") ".csv")
        }
    }'
}

# make_typed: papers with features and classes, authors and venues without.
make_typed()
{
    local raw=typed/raw split=typed/split/any/paper
    mkdir -p $raw/node-feat/paper $raw/node-label/paper $split $raw/relations/{author___writes___paper,paper___cites___paper,paper___in___venue} || exit 99
    printf 'author,paper,venue\n150,500,20\n' | gzip >$raw/num-node-dict.csv.gz
    printf 'author,writes,paper\npaper,cites,paper\npaper,in,venue\n' | gzip >$raw/triplet-type-list.csv.gz
    awk -v to=$raw/ 'BEGIN {
        srand(4)
        for (p = 0; p < 500; p++) {
            row = ""
            for (c = 0; c < 13; c++) row = row (c ? "," : "") sprintf("%.4f", 2 * rand() - 1)
            print row >(to "node-feat/paper/node-feat.csv")
            print p % 5 >(to "node-label/paper/node-label.csv")
            for (e = 0; e < 3; e++) print int(150 * rand()) "," p >(to "relations/author___writes___paper/edge.csv")
            for (e = 0; e < 4; e++) print p "," int(500 * rand() * rand()) >(to "relations/paper___cites___paper/edge.csv")
            print p "," p % 20 >(to "relations/paper___in___venue/edge.csv")
        }
    }'
    seq 0 299 >$split/train.csv && seq 300 399 >$split/valid.csv && seq 400 499 >$split/test.csv || exit 99
}

# make_ties: links, and 300 isolated vertices with equal features.
make_ties()
{
    mkdir -p ties/raw ties/split/only || exit 99
    echo 500 >ties/raw/num-node-list.csv
    awk -v to=ties/ 'BEGIN {
        srand(6)
        for (v = 0; v < 500; v++) {
            if (v <= 200) for (c = 0; c < 7; c++) row[c] = 2 * rand() - 1
            print row[0] "," row[1] "," row[2] "," row[3] "," row[4] "," row[5] "," row[6] >(to "raw/node-feat.csv")
        }
        for (i = 0; i < 500; i++) { u = int(199 * rand()); v = u + 1 + int((199 - u) * rand()); if (!seen[u, v]++) print u "," v >(to "split/only/train.csv") }
        for (i = 0; i < 140; i++) print 200 + 2 * i "," 201 + 2 * i >(to "split/only/valid.csv")
        for (i = 0; i < 100; i++) print 200 + i "," 350 + i >(to "split/only/test.csv")
        for (i = 0; i < 120; i += 2) { print 200 + i "," 300 + i >(to "split/only/valid_neg.csv"); print 201 + i "," 301 + i >(to "split/only/test_neg.csv") }
    }'
}

generate dense --vertices 701 --edges 5000 --features 48 --classes 7
generate sparse --vertices 701 --edges 5000 --features 300 --classes 7 --sparse
make_numbers numbers 3 numbers
make_numbers labels 6 labels
make_typed
make_links links 400 1200 150 150 200 200
seq 1 7 700 >some.csv
awk 'BEGIN { for (i = 0; i < 301; i++) print (i * 7) % 400 "," (i * i) % 400 }' >links.pairs
make_links triples 400 1200 150 150 0 0 3
awk 'BEGIN { for (i = 0; i < 301; i++) print (i * 7) % 400 "," i % 3 "," (i * i) % 400 }' >triples.pairs
make_ties

# outputs WHERE COMMAND ...: run; the folder WHERE gets the losses and scores with all their digits, and the rows.
outputs()
{
    local where=$1
    shift
    rm -rf "$where" && mkdir "$where" || exit 99
    timeout 120 "$@" --metrics run.json --predict "$where/scores.npy" --embed "$where/rows.npy" >stdout 2>stderr ||
        complain "$*: $(tail -n 1 stderr)"
    figures run.json | grep -v '"event": *"summary"' |
        grep -oE '"(loss|train_loss|valid_loss|(valid|test)_[a-z0-9]+)": ?[^,}]*' >"$where/numbers"
}

# same WHAT: the folders `first` and `other` are equal.
same()
{
    local file
    for file in numbers scores.npy rows.npy; do
        [[ -s first/$file ]] && cmp -s first/$file other/$file ||
            complain "$1: $file differs$([[ $file != numbers ]] || diff first/numbers other/numbers | head -n 4)"
    done
}

# The splits of 240 seeds: PEs, seeds of a PE, and more.
splits=('2 120 --chunks 1' '3 80 --chunks 4' '5 48 --chunks 1 --partition random' '8 30 --chunks 4 --group-size 2')

# alike DATASET OPTION...: every split has the bits of one PE with one chunk.
alike()
{
    local dataset=$1 pes batch more split
    shift
    local base=(--dataset "./$dataset" --cache none --layers 2 --hidden 40 --fanout 5,5 --lr 0 --dropout 0.4 --epochs 1 --quiet
        --metrics-steps --cpus 2 "$@")
    outputs first "$coop_sage" "${base[@]}" --pes 1 --batch-size 240 --chunks 1
    [[ $(wc -l <first/numbers) -ge 3 ]] || complain "$*: expected losses and scores, found: $(cat first/numbers)"
    for split in "${splits[@]}"; do
        read -r pes batch more <<<"$split"
        outputs other "$coop_sage" "${base[@]}" --pes "$pes" --batch-size "$batch" $more
        same "$dataset $*, $split"
    done
    in_ranks "$dataset" "$@"
}

# in_ranks DATASET OPTION...: two or four processes, by turns, have the bits of `first`. SL_LONG=1: two and four.
in_ranks()
{
    local n numbers=$((2 + 2 * (turn++ % 2)))
    [[ -n $with_ranks ]] || return
    [[ -z ${SL_LONG:-} ]] || numbers='2 4'
    for n in $numbers; do
        outputs other "${launch[@]}" -np $n "$coop_sage" "${base[@]}" --pes 4 --batch-size 60 --cpus 1
        same "$*, $n ranks"
    done
}

with_ranks=
! has_mpi || ! command -v mpirun >/dev/null || with_ranks=yes

turn=0
for precision in float bf16; do
    ((++turn)) # each model and decoder meets both numbers of ranks
    alike dense --precision $precision
    alike dense --precision $precision --norm layer --residual --input-dropout 0.2
    alike sparse --precision $precision --input-dropout 0.3
    alike dense --precision $precision --model gcn --sampler labor --predict-vertices some.csv
    alike sparse --precision $precision --model gin
    alike dense --precision $precision --model gat --heads 4
    alike dense --precision $precision --model gatv2 --heads 4 --skip
    alike dense --precision $precision --model gcnii --alpha 0.2
    alike sparse --precision $precision --model resgcn
    alike typed --precision $precision --model rgcn
    alike typed --precision $precision --model rgcn --bases 2
    alike typed --precision $precision --model rgat --heads 4
    alike numbers --precision $precision
    alike labels --precision $precision
    alike links --precision $precision --objective link --features random:16 --pairs links.pairs --negatives 3
    alike links --precision $precision --objective link --features random:16 --pairs links.pairs --decoder mlp --link-loss softmax
    alike triples --precision $precision --objective link --features random:16 --pairs triples.pairs --model rgcn --decoder distmult
done

# Equal rows: half of the pairs of a link and another are in order.
for pes in 1 2 3 5; do
    outputs other "$coop_sage" --dataset ./ties --cache none --objective link --layers 2 --hidden 32 --epochs 2 --dropout 0 --quiet \
        --pes $pes --batch-size $((180 / pes)) --pairs links.pairs
    [[ $(grep -cE '_auc": ?0.5$' other/numbers) -eq 4 ]] || complain "ties, $pes PEs: expected an AUC of 0.5, found: $(grep auc other/numbers)"
done

# The full graph, in chunks, stages and ways.
for options in '--model sage' '--model gcn' '--model gcnii' '--model resgcn' '--model gin' '--model gcn --precision bf16'; do
    # shellcheck disable=SC2206 # the options are words
    base=(--dataset ./dense --cache none --layers 3 --hidden 40 --lr 0 --epochs 1 --quiet --cpus 2 $options)
    outputs first "$pipe_gnn" "${base[@]}" --chunks 1
    for split in '--chunks 4' '--chunks 6 --stages 3' '--chunks 8 --ways 2 --partition random'; do
        outputs other "$pipe_gnn" "${base[@]}" $split
        grep -v train_loss first/numbers >exact && mv exact first/numbers # outside exact mode rows are of an earlier epoch
        grep -v train_loss other/numbers >exact && mv exact other/numbers
        same "pipe_gnn $options, $split"
    done
done
exit $failed
