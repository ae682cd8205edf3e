#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# --edge-weights of both programs: weights of 1 change no bit, partitions change no loss, a resumed run continues to the bit, several
# ranks have the bits of one, and what cannot be is refused. tests/whole/test_reference.c and tests/whole/test_pipe.c check the numbers.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

generate plain --vertices 600 --edges 4000 --features 12 --classes 4
n_edges=$(zcat plain/raw/edge.csv.gz | wc -l)

# weigh NAME FORMULA: the dataset NAME with a weight for edge NR.
weigh()
{
    cp -r plain "$1" && zcat plain/raw/edge.csv.gz | awk "{ print $2 }" >"$1/raw/edge-weight.csv" || exit 99
}
weigh ones 1
weigh some '(NR % 5 == 0) ? 0 : (NR % 7 + 1) / 4'
weigh bad '(NR == 9) ? -1 : 1'
weigh zeros 0

# losses PROGRAM DATASET OPTION...: the losses and scores of a run, each with all its digits.
losses()
{
    local run=$1 dataset=$2
    shift 2
    "$run" --dataset "./$dataset" --cache none --cpus 2 --hidden 16 --seed 5 --quiet --metrics losses.json "$@" >stdout 2>stderr ||
        complain "$run $dataset $*: $(cat stderr)" >&2
    grep '"event":"epoch"' losses.json | grep -oE '"(train_loss|valid_loss|test_acc)":[^,]*'
}

# same WHAT: the files `a` and `b` are equal, and not empty.
same()
{
    [[ -s a ]] && cmp -s a b || complain "$1: expected $(tr '\n' ' ' <a), found $(tr '\n' ' ' <b)"
}
# differ WHAT: they are not equal.
differ()
{
    [[ -s a && -s b ]] && ! cmp -s a b || complain "$1: expected other numbers than $(tr '\n' ' ' <a)"
}
# close_to WHAT: corresponding numbers of `a` and `b` differ by at most 1e-5 of their size.
close_to()
{
    [[ -s a ]] && paste -d: a b | awk -F: '{ d = $2 - $4; d = d < 0 ? -d : d; if (d > 1e-5 * ($2 < 0 ? -$2 : $2)) exit 1 }' ||
        complain "$1: expected $(tr '\n' ' ' <a), found $(tr '\n' ' ' <b)"
}

while read -r options; do
    {
        losses "$coop_sage" plain --batch-size 60 --epochs 2 $options >a
        losses "$coop_sage" ones --batch-size 60 --epochs 2 $options --edge-weights factor >b
        same "weights of 1, coop_sage $options"
        losses "$coop_sage" some --batch-size 60 --epochs 2 $options --edge-weights factor >b
        differ "weights, coop_sage $options"
    }
done <<'END'
--model sage --layers 2 --pes 2
--model gcn --layers 2 --pes 3 --sampler labor --fanout 4,4
--model gin --layers 2 --pes 2 --learn-epsilon
--model gcnii --layers 3 --pes 2 --sampler full
--model resgcn --layers 2 --pes 2
--model gcn --layers 2 --pes 2 --precision bf16
END

while read -r options; do
    {
        losses "$pipe_gnn" plain --epochs 3 $options >a
        losses "$pipe_gnn" ones --epochs 3 $options --edge-weights factor >b
        same "weights of 1, pipe_gnn $options"
        losses "$pipe_gnn" some --epochs 3 $options --edge-weights factor >b
        differ "weights, pipe_gnn $options"
    }
done <<'END'
--model gcn --layers 2 --chunks 4 --ways 2
--model sage --layers 2 --chunks 4 --ways 2 --recompute
--model gin --layers 2 --chunks 4 --ways 1 --stages 1 --recompute
--model gcnii --layers 4 --chunks 4 --ways 2 --precision bf16
END

# sampler_of USE: a sampler that goes with it.
sampler_of()
{
    [[ $1 == both ]] && echo labor || echo neighbor
}

# Scores of weighted LABOR are those of weighted sums: the same as with factor, whatever the sampler.
losses "$coop_sage" some --model gcn --edge-weights both --sampler labor --layers 2 --fanout 4,4 --pes 3 --batch-size 40 --epochs 3 \
    --save both.model >/dev/null
grep '"event":"summary"' losses.json | grep -oE '"test_acc_at_best":[^,]*' | cut -d: -f2 >a
losses "$coop_sage" some --model gcn --edge-weights both --layers 2 --pes 3 --epochs 0 --load both.model | grep test_acc | cut -d: -f2 >b
same "a saved model of weighted LABOR"
losses "$coop_sage" some --model gcn --edge-weights both --sampler labor --layers 2 --fanout 4,4 --pes 3 --batch-size 40 --epochs 3 >a
losses "$coop_sage" some --model gcn --edge-weights factor --sampler labor --layers 2 --fanout 4,4 --pes 3 --batch-size 40 --epochs 3 >b
differ "weighted LABOR and LABOR with weights as factors"
# Fewer in-neighbours than the fanout: all are taken, and the sums are exact.
losses "$coop_sage" some --model sage --edge-weights both --sampler labor --layers 2 --fanout 4000,4000 --pes 2 --dropout 0 --epochs 2 >a
losses "$coop_sage" some --model sage --edge-weights factor --sampler full --layers 2 --pes 2 --dropout 0 --epochs 2 >b
close_to "weighted LABOR of all in-neighbours"

# The partition is invisible. A run without dropout has the same losses with 1, 3, 4 and 7 PEs; a group shares 84 seeds.
for model in sage gcn gin; do
    for use in factor probability both; do
        for pes in 1 3 4 7; do
            losses "$coop_sage" some --model $model --edge-weights $use --sampler "$(sampler_of $use)" --layers 2 --fanout 3,3 --pes $pes --batch-size $((84 / pes)) \
                --dropout 0 --epochs 1 >b
            ((pes > 1)) || cp b a
            close_to "$model $use, $pes PEs"
        done
    done
done

# The same with rounds, and groups.
rounds=(--edge-weights both --sampler labor --labor-iterations 2 --layers 2 --fanout 3,3)
for pes in 1 3 4 7 6; do
    losses "$coop_sage" some --model gcn "${rounds[@]}" --pes $pes --group-size $((pes == 6 ? 2 : pes)) --batch-size $((84 / pes)) --dropout 0 \
        --epochs 1 >b
    ((pes > 1)) || cp b a
    close_to "weighted LABOR-2, $pes PEs"
done
losses "$coop_sage" some --model gcn "${rounds[@]}" --pes 3 --batch-size 28 --dropout 0 --epochs 1 --labor-iterations 0 >b
differ "weighted LABOR-2 and weighted LABOR-0"
losses "$coop_sage" some --model gcn "${rounds[@]}" --pes 2 --batch-size 60 --epochs 4 | tail -n 3 >a
losses "$coop_sage" some --model gcn "${rounds[@]}" --pes 2 --batch-size 60 --epochs 2 --checkpoint kept-rounds >/dev/null
losses "$coop_sage" some --model gcn "${rounds[@]}" --pes 2 --batch-size 60 --epochs 4 --checkpoint kept-rounds --resume --cpus 1 | tail -n 3 >b
same "weighted LABOR-2, resumed"

# Links. A training link has the weight of its edge: of either direction, wherever raw/edge lists it; 1 if raw/edge does not.
links=(--objective link --layers 2 --fanout 4,4 --lr 0.001 --dropout 0 --epochs 2 --cpus 2)
links_of() # DATASET OPTION..
{
    "$coop_sage" --dataset "./$1" --cache none --hidden 16 --seed 5 --quiet --metrics losses.json "${links[@]}" "${@:2}" >stdout 2>stderr ||
        complain "links of $*: $(cat stderr)" >&2
    grep '"event":"epoch"' losses.json | grep -oE '"(train_loss|valid_loss|valid_auc)":[^,]*'
}
cp -r some linked && rm -rf linked/split linked/raw/num-edge-list* linked/raw/edge.csv.gz && mkdir -p linked/split/drawn && zcat plain/raw/edge.csv.gz | paste -d, - some/raw/edge-weight.csv |
    awk -F, '$1 != $2 && !seen[$1 < $2 ? $1 "," $2 : $2 "," $1]++' >listed.csv
cut -d, -f1,2 listed.csv >linked/raw/edge.csv
cut -d, -f3 listed.csv >linked/raw/edge-weight.csv
awk -F, 'NR % 10 == 3 { print $1 "," $2 }' listed.csv >linked/split/drawn/valid.csv
awk -F, 'NR % 10 == 7 { print $1 "," $2 }' listed.csv >linked/split/drawn/test.csv
awk -F, 'NR % 10 != 3 && NR % 10 != 7 { print (NR % 2 ? $1 "," $2 : $2 "," $1) "," $3 }' listed.csv | sort -t, -k2n -k1n >aligned.csv
cut -d, -f1,2 aligned.csv >linked/split/drawn/train.csv
for dataset in order unweighted; do
    cp -r linked $dataset && cp linked/split/drawn/train.csv $dataset/raw/edge.csv || exit 99
done
cut -d, -f3 aligned.csv >order/raw/edge-weight.csv
sed 's/.*/1/' order/raw/edge-weight.csv >unweighted/raw/edge-weight.csv
for kind in "--model sage --edge-weights factor" "--model gcn --sampler labor --edge-weights both --labor-iterations 1" \
    "--model gin --edge-weights probability" "--model gcn --sampler labor --edge-weights both" \
    "--model sage --sampler pladies --layer-size 200,150 --fanout -1,-1 --edge-weights both"; do
    for pes in 1 3 4 7; do
        links_of linked $kind --pes $pes --batch-size $((84 / pes)) >b
        ((pes > 1)) || cp b a
        close_to "links, $kind, $pes PEs"
    done
    links_of linked $kind --pes 2 --batch-size 60 >a
    links_of order $kind --pes 2 --batch-size 60 >b
    same "links, $kind, weights in the links' order"
    links_of unweighted $kind --pes 2 --batch-size 60 >b
    differ "links, $kind, weights"
    links_of linked $kind --split random:80,10,10 --pes 2 --batch-size 60 >b
    differ "drawn links, $kind"
done
cp -r unweighted twice && awk -F, '{ print; print $2 "," $1 }' unweighted/split/drawn/train.csv >twice/split/drawn/train.csv
for listed in unweighted twice; do
    links_of $listed --model sage --pes 2 --batch-size 60 >a
    links_of $listed --model sage --edge-weights factor --pes 2 --batch-size 60 >b
    same "links, weights of 1, $listed"
done
links_of ones --model sage --split random:80,10,10 --pes 2 --batch-size 60 >a
links_of ones --model sage --edge-weights factor --split random:80,10,10 --pes 2 --batch-size 60 >b
same "drawn links, weights of 1"

# A resumed run, with another number of workers.
for use in factor probability both; do
    run=(--model gcn --edge-weights $use --sampler "$(sampler_of $use)" --layers 2 --output-layers 2 --fanout 3,3 --pes 2 --batch-size 60)
    losses "$coop_sage" some "${run[@]}" --epochs 4 | tail -n 3 >a
    losses "$coop_sage" some "${run[@]}" --epochs 2 --checkpoint kept-$use >/dev/null
    losses "$coop_sage" some "${run[@]}" --epochs 4 --checkpoint kept-$use --resume --cpus 1 | tail -n 3 >b
    same "resumed with $use"
done

# refused PATTERN PROGRAM OPTION...: one line on standard error.
refused()
{
    refuse "$@" --cache none --epochs 1 --quiet
    [[ ! -s stdout ]] || complain "$*: expected nothing on standard output, found: $(cat stdout)"
}
refused 'edge-weight.csv:9: expected the weight of an edge, a finite number of 0 or more, found .-1' "$coop_sage" --dataset ./bad
refused '^coop_sage: --edge-weights: expected a dataset with weights' "$coop_sage" --dataset ./plain --edge-weights factor
refused '^pipe_gnn: --edge-weights probability cannot be used with pipe_gnn' "$pipe_gnn" --dataset ./some --edge-weights probability
refused '^coop_sage: --edge-weights factor cannot be used with --model gat' "$coop_sage" --dataset ./some --edge-weights factor --model gat
refused '^coop_sage: --edge-weights probability cannot be used with --sampler labor.* --edge-weights both' "$coop_sage" --dataset ./some \
    --edge-weights probability --sampler labor
refused '^coop_sage: --edge-weights both cannot be used with --sampler neighbor: use --sampler labor' "$coop_sage" --dataset ./some \
    --edge-weights both
refused '^coop_sage: --edge-weights both cannot be used with --model gat' "$coop_sage" --dataset ./some --edge-weights both --sampler labor --model gat
refused '^pipe_gnn: --edge-weights both cannot be used with pipe_gnn' "$pipe_gnn" --dataset ./some --edge-weights both
refused 'edge-weights' "$coop_sage" --dataset ./some --model gcn --edge-weights none --layers 2 --output-layers 2 --fanout 3,3 --pes 2 --batch-size 60 \
    --hidden 16 --seed 5 --checkpoint kept-factor --resume

# Without the option one notice says that the weights are not used.
"$coop_sage" --dataset ./some --cache none --epochs 1 --quiet >stdout 2>stderr || complain "a run without --edge-weights: $(cat stderr)"
[[ $(cat stderr) == *"some: the weights of edges are not used; --edge-weights factor, probability or both uses them" && $(wc -l <stderr) -eq 1 ]] ||
    complain "a run without --edge-weights: $(cat stderr)"

# All weights zero: sums are zero, and nothing is drawn.
for use in factor probability both; do
    losses "$coop_sage" zeros --model sage --edge-weights $use --sampler "$(sampler_of $use)" --layers 2 --epochs 1 --pes 2 >a
    grep -qE 'nan|inf' a && complain "all weights 0, $use: $(cat a)"
    edges=$(grep -m 1 '"event":"epoch"' losses.json | grep -oE '"edges":\[[^]]*')
    [[ $use == factor || $edges =~ ^\"edges\":\[0(,0)*$ ]] || complain "all weights 0: $edges edges were drawn"
done

# info.
"$starling_data" info ./some --cache none | grep -q '^weights  *of edges: 0 to 1.75' || complain "info: $("$starling_data" info ./some --cache none)"
((n_edges > 0)) || exit 99
((failed == 0)) || exit 1

need_mpi
for use in factor probability both; do
    run=(--dataset ./some --cache none --model gcn --edge-weights $use --sampler "$(sampler_of $use)" --layers 2 --fanout 3,3 --pes 4 --batch-size 30 --hidden 16 --epochs 2
        --quiet --cpus 1)
    "$coop_sage" "${run[@]}" --metrics one.json >stdout 2>stderr || complain "one rank: $(cat stderr)"
    for n in 2 3; do
        "${launch[@]}" -np $n "$coop_sage" "${run[@]}" --metrics many.json </dev/null >stdout 2>stderr || complain "$n ranks: $(cat stderr)"
        diff <(figures one.json) <(figures many.json) >stdout || complain "$n ranks, $use: $(head -n 4 stdout)"
    done
done
run=(--dataset ./some --cache none --model gcn --edge-weights factor --layers 2 --chunks 4 --ways 2 --hidden 16 --epochs 3 --quiet --cpus 1)
"$pipe_gnn" "${run[@]}" --metrics one.json >stdout 2>stderr || complain "pipe_gnn, one rank: $(cat stderr)"
"${launch[@]}" -np 2 "$pipe_gnn" "${run[@]}" --metrics two.json </dev/null >stdout 2>stderr || complain "pipe_gnn, two ranks: $(cat stderr)"
diff <(figures one.json) <(figures two.json) >stdout || complain "pipe_gnn, two ranks: $(head -n 4 stdout)"
exit $failed
