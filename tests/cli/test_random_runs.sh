#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Runs of random options on random graphs. Each works, or ends with one line and code 1 or 2. None ends by a signal, and none hangs.
# SL_LONG=1: 300 runs. SL_SEED: other runs. Which runs they are depends on bash and awk, too.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
unset OPENBLAS_NUM_THREADS
n_runs=$([[ -n ${SL_LONG:-} ]] && echo 300 || echo 24)

# pick WORD..: one of them, in $picked.
pick()
{
    local all=("$@")
    picked=${all[RANDOM % $#]}
}

# option ODDS NAME [VALUE..]: once in ODDS times, the option with one of the values, in $words.
option()
{
    local odds=$1 name=$2
    shift 2
    ((RANDOM % odds == 0)) || return
    words+=("--$name")
    (($# == 0)) || { pick "$@" && words+=("$picked"); }
}

# make_graph FOLDER: random vertices and edges, in which there are hubs, lone vertices, self loops and edges that are listed again;
# classes, labels or numbers; weights and features of edges. Or a typed graph.
make_graph()
{
    if ((RANDOM % 4 == 0)); then
        "$starling_data" generate mag-synthetic --vertices $((1500 + RANDOM % 1500)) --features $((1 + RANDOM % 9)) --classes $((2 + RANDOM % 5)) --seed $RANDOM --out "$1" >/dev/null 2>stderr ||
            complain "starling_data generate: $(cat stderr)"
        return
    fi
    mkdir -p "$1/raw" "$1/split/s"
    awk -v folder="$1" -v seed=$RANDOM 'BEGIN {
        srand(seed)
        n = int(exp(2 + rand() * 5)); m = int(n * rand() * 8); width = 1 + int(exp(rand() * 4)); zeros = rand() < 0.3 ? 0.9 : 0
        kind = int(rand() * 4); columns = 1 + int(rand() * 4); hub = rand() < 0.3
        print n >(folder "/raw/num-node-list.csv"); print m >(folder "/raw/num-edge-list.csv")
        printf "" >(folder "/raw/edge.csv")
        for (e = 0; e < m; e++) {
            print int(rand() * n) "," (hub && e % 2 ? 0 : int(rand() * rand() * n)) >(folder "/raw/edge.csv")
            print rand() < 0.1 ? 0 : rand() * 3 >(folder "/raw/edge-weight.csv")
            print rand() - 0.5 "," rand() >(folder "/raw/edge-feat.csv")
        }
        for (v = 0; v < n; v++) {
            row = ""
            for (j = 0; j < width; j++) row = row (j ? "," : "") (rand() < zeros ? 0 : rand() * 2 - 1)
            print row >(folder "/raw/node-feat.csv")
            row = kind == 2 ? rand() < 0.5 : kind == 3 ? rand() : int(rand() * 5)
            for (j = 1; j < columns && kind > 1; j++) row = row "," (kind == 2 ? rand() < 0.5 : rand())
            print row >(folder "/raw/node-label.csv")
        }
        for (i = 0; i < 3; i++) printf "" >(folder "/split/s/" substr("train valid test ", 6 * i + 1, i == 2 ? 4 : 5) ".csv")
        for (v = 0; v < n; v++) if (rand() < 0.7) print v >(folder "/split/s/" (v % 3 == 0 ? "valid" : v % 5 == 1 ? "test" : "train") ".csv")
    }'
}

# draw_options: $words, for coop_sage or pipe_gnn.
draw_options()
{
    option 1 epochs 0 1 2
    option 2 hidden 1 3 8 16 64
    option 2 layers 1 2 3
    option 2 dropout 0 0.3 0.9
    option 4 norm layer batch
    option 4 residual
    option 5 precision bf16 tf32 float
    option 5 activation elu gelu leaky_relu
    option 5 input-layer
    option 5 output-layers 1 2
    option 5 input-dropout 0.2
    option 5 edge-weights factor probability both
    option 6 edge-features concat add
    option 5 normalize-features row column
    option 6 features degree:8 random:16 onehot none
    option 6 directed
    option 3 partition none random metis stream
    option 4 seed 0 7 12345678901
    option 5 lr-schedule cosine step step:1:0.5
    option 6 optimizer adamw
    option 6 class-weights balanced 1,2,3
    option 6 label-smoothing 0.1
    option 6 patience 1
    option 6 eval-every 0 2
    option 6 split random:60,20,20 random:50,0,50
    option 6 predict scores.npy scores.csv
    option 6 embed rows.npy
    option 6 save model
    [[ ! -e model ]] || option 6 load model
    option 6 checkpoint kept
    option 9 resume=auto
    option 6 memory 0.03 0.05 0.06 0.08 0.1 1
    option 6 cpus 1 2 3
    if [[ ${program##*/} == pipe_gnn ]]; then
        option 1 model gcn sage gcnii resgcn gat
        option 2 stages 1 2 3
        option 2 chunks 1 2 5
        option 4 recompute
        option 4 history-every 1 2
        return
    fi
    option 1 model sage gcn gat gatv2 gcnii resgcn gin rgcn rgat
    option 2 batch-size "${batches[@]}"
    option 2 fanout 1 3,3 -1 5,-1 2,2,2
    option 3 sampler neighbor labor full ladies pladies
    option 5 layer-size 5 20,20
    option 2 pes 1 2 3 4 7
    option 4 group-size 1 2 4
    option 5 sync dissemination cube
    option 6 gossip-what grad
    option 5 heads 1 2 8
    option 6 skip
    option 6 replace
    option 6 kappa 0 4
    option 6 layer-dependency
    option 6 labor-iterations 2 converge
    option 5 depth 1 3
    option 5 chunks 1 3
    option 5 feature-cache 0 1 20
    option 6 feature-cache-policy degree s3-fifo sieve clock
    option 6 vertex-budget 50
    option 6 drop-last
    option 6 score-fanout 2 3,3
    option 6 objective class labels regression link
    option 8 bases 2
    option 8 negatives 1 3
    option 8 decoder distmult mlp
    option 8 relation-fanout each
}

# without NAME: $words without an option.
without()
{
    local kept=() i
    for ((i = 0; i < ${#words[@]}; i++)); do
        if [[ ${words[i]} != "--$1" ]]; then
            kept+=("${words[i]}")
        elif [[ $((i + 1)) -lt ${#words[@]} && ${words[i + 1]} != --* ]]; then
            ((i++))
        fi
    done
    words=("${kept[@]}")
}

# run: the program with $words; its code in $status.
run()
{
    timeout -s KILL 120 "$program" --dataset ./graph --cache none "${words[@]}" >stdout 2>stderr
    status=$?
    ((status == 0 || ((status == 1 || status == 2) && $(grep -vc ': warning: ' stderr) == 1))) ||
        complain "run $n: $program ${words[*]}: exit code $status: $(head -n 20 stderr)"
}

# Where the line names an option that does not go with the others, the run is tried again without it.
RANDOM=${SL_SEED:-1}
n_worked=0
for ((n = 0; n < n_runs; n++)); do
    ((n % 6 != 0)) || { rm -rf graph kept model && make_graph graph; }
    pick "$coop_sage" "$coop_sage" "$coop_sage" "$pipe_gnn"
    program=$picked words=() batches=(7 50 1000)
    [[ ! -e graph/raw/num-node-list.csv ]] || batches+=(1) # in a typed graph, which is larger, it takes minutes
    draw_options
    for ((tries = 0; tries < 12; tries++)); do
        run
        name=$(sed -n 's/^[a-z_]*: [^-]*--\([a-z-]*\).*/\1/p' stderr | tail -n 1)
        [[ $status -ne 0 && -n $name && " ${words[*]} " == *" --$name "* ]] || break
        without "$name"
    done
    ((status != 0)) || ((n_worked++))
done
echo "$n_worked of $n_runs runs work"
((n_worked * 3 > n_runs)) || complain "expected a third of the runs to work"
exit $failed
