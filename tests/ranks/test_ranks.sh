#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# coop_sage over several processes: the losses, scores and files of one process, to the bit; what each holds in memory; what is refused;
# what happens where one of them fails, is killed or is asked to stop. SL_LONG=1: killed at twenty moments instead of two.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage

generate dense --vertices 600 --edges 4000 --features 20 --classes 5
generate sparse --vertices 600 --edges 4000 --features 150 --classes 5 --sparse
common=(--cache none --epochs 2 --batch-size 40 --hidden 12 --layers 2 --cpus 1 --chunks 2 --quiet)

# ---- a launcher that MPI knows nothing of ----

code=2 refuse 'no MPI|MPI found 1' env PMI_SIZE=2 PMI_RANK=0 "$program" --dataset dense "${common[@]}"
code=2 refuse 'no MPI|without PMIx' env -u PMIX_RANK SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$program" --dataset dense "${common[@]}"
code=2 refuse 'no MPI|MPI found 1' env PMI_SIZE=2 PMI_RANK=0 "$starling_data" info
env SLURM_NTASKS=4 SLURM_PROCID=0 "$program" --dataset dense "${common[@]}" 2>stderr || complain "in a batch script of Slurm's: $(cat stderr)"
env OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 "$program" --dataset dense "${common[@]}" 2>stderr ||
    complain "the only rank of its launcher: $(cat stderr)"
need_mpi

# ---- who is there ----

timeout 60 "${launch[@]}" -np 3 "$starling_data" info </dev/null >stdout 2>stderr || complain "info: $(cat stderr)"
[[ $(grep -c '^starling  ' stdout) -eq 1 ]] || complain "info: expected rank 0 alone to print, found: $(cat stdout)"
[[ $(grep -Fc " on $(uname -n): Starling " stdout) -eq 3 ]] || complain "info: expected a line of each rank, found: $(cat stdout)"

# ---- the same bits ----

generate two --vertices 600 --edges 4000 --features 20 --classes 2 # whose scores have an area
cp -R dense weighed && gzip -dc dense/raw/edge.csv.gz | awk '{ print (NR % 5 == 0) ? 0 : (NR % 7 + 1) / 4 }' >weighed/raw/edge-weight.csv
generate broad --vertices 70000 --edges 140000 --features 4 --classes 3 # rows for several messages

while read -r name n options; do
    as_ranks "$name" "$n" "${common[@]}" --metrics-steps $options
done <<'RUNS'
sage 2 --dataset dense --pes 4 --dropout 0.3
sage-by-3 3 --dataset dense --pes 7 --norm layer --residual --layers 3 --depth 4
sage-by-4 4 --dataset sparse --pes 4 --input-dropout 0.2 --depth 1
last-few-seeds 3 --dataset dense --pes 7 --batch-size 10 --epochs 4
gcn 2 --dataset dense --pes 4 --group-size 2 --model gcn --norm batch
gat 3 --dataset dense --pes 4 --model gat --heads 3 --dropout 0.2
gatv2 3 --dataset sparse --pes 4 --model gatv2 --heads 3 --skip --dropout 0.2 --output-layers 2
gcnii 2 --dataset sparse --pes 4 --model gcnii --layers 4 --norm layer
resgcn 2 --dataset dense --pes 4 --model resgcn --layers 3
groups 4 --dataset dense --pes 4 --group-size 1
classes 3 --dataset two --pes 5
classes-few-parts 3 --dataset two --pes 6 --group-size 2
few-parts 3 --dataset sparse --pes 6 --group-size 2 --model gcn --partition random
across 3 --dataset dense --pes 4 --group-size 2 --norm batch
bf16 3 --dataset dense --pes 5 --precision bf16 --norm layer --residual --layers 3
bf16-gcn 2 --dataset sparse --pes 4 --precision bf16 --model gcn --output-layers 1
bf16-gat 3 --dataset dense --pes 4 --precision bf16 --model gat --heads 3
bf16-gatv2 3 --dataset dense --pes 7 --precision bf16 --model gatv2 --heads 3 --norm layer
bf16-gcnii 2 --dataset dense --pes 4 --precision bf16 --model gcnii --layers 4
labor 2 --dataset dense --pes 4 --sampler labor --kappa 3 --partition random
replaced 2 --dataset dense --pes 4 --replace --partition random
important 3 --dataset dense --pes 5 --sampler labor --labor-iterations 2
important-groups 3 --dataset sparse --pes 6 --group-size 2 --sampler labor --labor-iterations converge --model gcn
layers 3 --dataset dense --pes 5 --sampler ladies --layer-size 60,40
layers-groups 3 --dataset ./weighed --pes 6 --group-size 2 --sampler pladies --layer-size 60,40 --model gcn --edge-weights both
full 2 --dataset dense --pes 2 --sampler full --partition none
cached 2 --dataset dense --pes 5 --feature-cache 40
cached-by-degree 3 --dataset dense --pes 4 --feature-cache 40 --feature-cache-policy degree
cached-groups 3 --dataset dense --pes 6 --group-size 2 --feature-cache 70 --feature-cache-policy degree --precision bf16
slices 3 --dataset dense --pes 4 --hidden 130 --layers 3 --norm layer --residual
slices-gcn 2 --dataset dense --pes 4 --hidden 260 --model gcn
slices-gcnii 2 --dataset sparse --pes 4 --hidden 70 --model gcnii --layers 3
slices-resgcn 4 --dataset dense --pes 5 --hidden 600 --model resgcn
slices-bf16 3 --dataset dense --pes 4 --hidden 130 --layers 3 --precision bf16
gin 3 --dataset dense --pes 4 --model gin --learn-epsilon --norm batch --output-layers 3
slices-gin 2 --dataset sparse --pes 4 --hidden 130 --model gin --learn-epsilon --norm layer
weighed 3 --dataset ./weighed --pes 4 --edge-weights factor --norm layer
weighed-gcn 2 --dataset ./weighed --pes 4 --group-size 2 --model gcn --edge-weights factor
weighed-gin 3 --dataset ./weighed --pes 4 --model gin --learn-epsilon --edge-weights factor --precision bf16
weighed-draws 3 --dataset ./weighed --pes 5 --edge-weights probability
weighed-both 2 --dataset ./weighed --pes 4 --model gcn --edge-weights both --sampler labor
bf16-gin 2 --dataset dense --pes 4 --model gin --precision bf16
slices-gat 2 --dataset dense --pes 4 --hidden 132 --model gat --heads 3
slices-projected 3 --dataset sparse --pes 4 --hidden 130
slices-projected-bf16 2 --dataset sparse --pes 4 --hidden 130 --model gcn --precision bf16
slices-bf16-gatv2 3 --dataset dense --pes 7 --precision bf16 --model gatv2 --heads 3 --norm layer
bf16-gcnii 2 --dataset dense --pes 4 --hidden 130 --model gcnii --layers 3 --precision bf16
slices-pieces 2 --dataset broad --pes 2 --hidden 70 --layers 3 --partition none --batch-size 4000 --fanout 2,2,2
gossip 4 --dataset dense --pes 4 --sync dissemination --norm batch
gossip-across 3 --dataset dense --pes 8 --group-size 2 --sync dissemination --gossip-what weight
gossip-across-batch 3 --dataset dense --pes 8 --group-size 2 --sync dissemination --norm batch
gossip-spread 6 --dataset dense --pes 6 --group-size 3 --sync dissemination
gossip-average 2 --dataset dense --pes 6 --sync cube --gossip-average-every 2 --gossip-ring
gossip-nodes 2 --dataset dense --pes 8 --sync cube --gossip-local-size 2
RUNS

# The figures can differ: those of another seed do.
ranks 2 "${common[@]}" --dataset dense --pes 4 --dropout 0.3 --metrics-steps --metrics other --seed 7 >stdout 2>&1
"$program" "${common[@]}" --dataset dense --pes 4 --dropout 0.3 --metrics-steps --metrics one 2>stderr
cmp -s <(figures one) <(figures other) && complain "another seed gives the same figures"

# ---- bytes between ranks ----

# All edges go from one of two parts to the other: what PEs ask for is what they need.
# What evaluation sends is not counted.
cp -R dense crossed && gzip -dc dense/raw/edge.csv.gz | awk -F, -v OFS=, '{ print $1 % 300, 300 + $2 % 300 }' | gzip >crossed/raw/edge.csv.gz
n_ranks=2 n_hops=2
ranks $n_ranks --dataset ./crossed "${common[@]/--quiet/--no-quiet}" --pes $n_ranks --partition none --eval-every 1 --metrics-steps --metrics many \
    >many.said 2>&1 || complain "edges that all cross: $(tail -n 1 many.said)"
n_steps=$(grep -c '"step"' many)
weights=$((4 * (2 * 20 * 12 + 12 + 2 * 12 * 5 + 5)))
list_head=$((4 * (n_ranks + 1))) # positions, before the ids
counts=$((4 * 14)) # codelets/sampling/sample.h: rows, edges, whether to stop, positions of two hops, nonzeros
asked=$(($(sum_of ids) + n_steps * n_ranks * n_hops * list_head))
told=$((n_steps * n_ranks * counts))
summed=$((n_steps * 2 * (n_ranks - 1) * (weights + 8))) # and losses: up a tree and down again
expected=$((asked + told + summed + $(sum_of rows) + $(sum_of row_gradients)))
found=$(sum_of between_ranks)
((found == expected)) || complain "between ranks went $found bytes, expected $expected"

# ---- what messages take ----

# list_of NAME FILE: of the last epoch, in words.
list_of()
{
    grep '"epoch"' "$2" | tail -n 1 | sed -n "s/.*\"$1\": *\[\([^]]*\)\].*/\1/p" | tr , ' '
}

# Of each rank, all positive, what is hidden no more than what there was; and what they come to in all.
{
    list_of seconds_of many
    list_of hidden_seconds_of many
    list_of waited_seconds_of many
    grep '"epoch"' many | tail -n 1 | sed -n 's/.*"messages": *{"seconds": *\([^,]*\),"hidden": *\([^,]*\),"waited_seconds": *\([^,]*\),.*/\1 \2 \3/p'
} >messages
awk 'function near(a, b) { return a > b - 1e-6 && a < b + 1e-6 }
     NR < 4 { bad += NF != 2; a[NR] = $1; b[NR] = $2 }
     NR == 4 { bad += NF != 3 || !near($1, a[1] + b[1]) || !near($2 * $1, a[2] + b[2]) || !near($3, a[3] + b[3]) }
     END { exit NR != 4 || bad > 0 || a[1] <= 0 || b[1] <= 0 || a[2] > a[1] || b[2] > b[1] || a[3] <= 0 || b[3] <= 0 }' messages ||
    complain "what messages took: $(cat messages)"
grep -Eq '^messages  [0-9.]+ s, +[0-9.]+ % of it hidden; workers waited [0-9.]+ s for them$' many.said || complain "no line of messages: $(cat many.said)"

# ---- gossip: a step's mixing is one message each way ----

# With a replica a rank nothing goes between ranks in an epoch but, in each step, each rank's weights to one other.
for n_ranks in 2 4; do
    ranks $n_ranks --dataset dense "${common[@]}" --pes $n_ranks --group-size 1 --sync dissemination --eval-every 1 --metrics-steps --metrics many \
        >stdout 2>&1 || complain "gossip of $n_ranks: $(tail -n 1 stdout)"
    expected=$(($(grep -c '"step"' many) * n_ranks * weights))
    found=$(sum_of between_ranks)
    ((found == expected && expected > 0)) || complain "gossip: between $n_ranks ranks went $found bytes, expected $expected"
done

# A rank that is late by seconds in one step: it and the one that mixes its weights with its own end that step late, the other two as ever.
late_us=4000000
timeout 120 "${launch[@]}" -np 4 "$top_builddir/tests/ranks/late_rank" 1 5 $((late_us / 1000000)) --dataset dense "${common[@]}" \
    --pes 4 --group-size 1 --batch-size 10 --sync dissemination --depth 1 --epochs 1 --eval-every 0 --metrics late </dev/null >stdout 2>stderr ||
    complain "a rank that is late: $(cat stderr)"
woken=$(awk '$1 == "late" && $2 == 1 { print $5 }' stdout)
(($(grep -c '^late ' stdout) == 4 && ${woken:-0} > 0)) || complain "a rank that is late: no times: $(cat stdout)"
while read -r _ rank partner ended _; do
    if ((rank == 1 || partner == 1)); then
        ((ended > woken)) || complain "rank $rank has ended the step $((woken - ended)) us before the rank that it mixes with was awake"
    else
        ((ended < woken)) || complain "rank $rank, which does not mix with the late one, ended the step $((ended - woken)) us after that was awake"
    fi
done < <(grep '^late ' stdout)
partner=$(awk '$1 == "late" && $3 == 1 { print $2 + 1 }' stdout)
list_of waited_seconds_of late | awk -v partner="$partner" -v late_us=$late_us '{ exit $partner < 0.7 * late_us / 1000000 }' ||
    complain "who mixes with a late rank (number $partner from 1) has waited seconds: $(list_of waited_seconds_of late)"

# ---- memory ----

# peak FILE: what the process, or the rank that had most, has held, KiB.
peak()
{
    echo $(($(sed -n 's/.*"peak_rss_bytes": *\([0-9]*\).*/\1/p' "$1") / 1024))
}

# bound FILE: what it was said to need, KiB.
bound()
{
    sed -n 's/.*needs about \([0-9.]*\) GB.*/\1/p' "$1" | awk '{ print int($1 * 1000000000 / 1024) }'
}

# Of what the program holds of a dataset whose edges and features are most of it, in the cache: rank 0 has made that.
held=(--dataset arxiv-synthetic --data-path none --cache cache --pes 4 --batch-size 1024 --fanout 3,3 --hidden 16 --layers 2 --epochs 1 --cpus 1)
ranks 4 "${held[@]}" --epochs 0 >stdout 2>&1 || complain "four ranks without a cache: $(tail -n 1 stdout)"
"$program" "${held[@]}" --metrics one >one.said 2>stderr || complain "one process: $(cat stderr)"
ranks 4 "${held[@]}" --metrics many >many.said 2>&1 || complain "four ranks with a cache: $(tail -n 1 many.said)"
"$program" --dataset dense "${common[@]}" --pes 4 --metrics one.least 2>stderr
ranks 4 --dataset dense "${common[@]}" --pes 4 --metrics many.least >stdout 2>&1
cmp -s <(figures one) <(figures many) || complain "four ranks that find a cache give other figures than one process"
one=$(($(peak one) - $(peak one.least)))
many=$(($(peak many) - $(peak many.least)))
((one > 100000 && 100 * many <= 35 * one)) ||
    complain "a rank of four holds $many KiB of data and work, expected at most 0.35 of one process's $one KiB"
((10 * $(bound many.said) >= 8 * $(peak many) && 10 * $(bound many.said) < 9 * $(bound one.said))) ||
    complain "a rank of four holds $(peak many) KiB; the estimate is $(bound many.said), and for one process $(bound one.said)"

# Under `ulimit -v` it is address space that counts, of which a rank takes that of all tables, however little it touches.
spaced=
for limit in 500000 700000 900000 1100000; do
    (ulimit -v $limit && exec "$program" --version) >/dev/null 2>&1 || continue # a sanitizer reserves terabytes
    (ulimit -v $limit && exec timeout 60 "${launch[@]}" -np 4 "$program" "${held[@]}" --epochs 0) >stdout 2>stderr </dev/null
    spaced=$(sed -n 's/.*may need \([0-9.]*\) GB, and .* of address space.*/\1/p' stderr | awk '{ print int($1 * 1000000000 / 1024) }')
    [[ -z $spaced ]] || break
done
if (ulimit -v 1100000 && exec "$program" --version) >/dev/null 2>&1; then
    ((10 * ${spaced:-0} > 13 * $(bound many.said))) ||
        complain "a rank that needs $(bound many.said) KiB is to find ${spaced:-no} KiB of address space, expected more by the tables of others: $(cat stderr)"
fi

code=1 refuse 'rank [01]: .STARPU_LIMIT_CPU_MEM: found 1 MiB' "${launch[@]}" -np 2 -x STARPU_LIMIT_CPU_MEM=1 "$program" "${common[@]}" --dataset dense --pes 2 --epochs 0

# ---- refused ----

for option in '--pes 1' '--no-such-option' '--score-fanout 3'; do
    code=2 refuse "${option%% *}:" "${launch[@]}" -np 2 "$program" --dataset dense $option
done
code=1 refuse '--transport( nccl|: found nccl)' "${launch[@]}" -np 2 "$program" --dataset dense --transport nccl
code=1 refuse 'rank 1: --trace: found|FxT' "${launch[@]}" -np 1 "$program" --dataset dense "${common[@]}" : \
    -np 1 "$program" --dataset dense "${common[@]}" --trace alone
code=1 refuse 'rank 1: --lr: found .* as rank 0 has' "${launch[@]}" -np 1 "$program" --dataset dense "${common[@]}" --lr 0.01 : \
    -np 1 "$program" --dataset dense "${common[@]}" --lr 0.02
generate here/made --vertices 600 --edges 4000 --features 20 --classes 5
generate there/made --vertices 600 --edges 4001 --features 20 --classes 5
code=1 refuse 'rank 1: dataset made, graph: .*rank 0' "${launch[@]}" -np 1 "$program" --dataset made --data-path here "${common[@]}" : \
    -np 1 "$program" --dataset made --data-path there "${common[@]}"
cp -R here elsewhere # but for what is validated on, which METIS looks at, too
mv elsewhere/made/split/random/valid.csv.gz kept.csv.gz && mv elsewhere/made/split/random/test.csv.gz elsewhere/made/split/random/valid.csv.gz &&
    mv kept.csv.gz elsewhere/made/split/random/test.csv.gz || complain "the generated dataset has no split: $(find elsewhere)"
code=1 refuse 'rank 1: dataset made, split: .*rank 0' "${launch[@]}" -np 1 "$program" --dataset made --data-path here "${common[@]}" --partition none : \
    -np 1 "$program" --dataset made --data-path elsewhere "${common[@]}" --partition none

# ---- one trace of all ----

# Three ranks with two PEs each: tasks of PEs are their ranks', messages leave from all and come to all, and are arrows.
if ranks 3 --dataset dense "${common[@]/--quiet/--no-quiet}" --pes 6 --epochs 1 --trace traced >stdout 2>stderr; then
    grep -q '^trace  *starling report traced' stdout && (($(grep -c '^trace' stdout) == 1)) || complain "a trace of three ranks: $(cat stdout)"
    for file in paje.trace tasks.rec trace.rec comms.rec trace.fxt_0 trace.fxt_1 trace.fxt_2 dag.dot; do
        [[ -s traced/$file ]] || complain "a trace of three ranks has no $file"
    done
    awk '/^Name: / { pe = $2; sub(/.*[.]pe/, "", pe); sub(/[.].*/, "", pe); ours = $2 ~ /^(sample|gather|aggregate)[.]/ && $2 !~ /permute/ }
         /^MPIRank: / { n[$2] += ours; bad += ours && int(pe / 2) != $2; ours = 0 }
         END { exit bad > 0 || n[0] < 8 || n[1] < 8 || n[2] < 8 }' traced/tasks.rec || complain "tasks of a PE are not its rank's"
    if python=$(python_with 'matplotlib, numpy') && [[ -f $top_builddir/.libs/libstarling.so ]]; then
        (preload_sanitizer "$top_builddir/.libs/libstarling.so"
         export STARLING_LIBRARY=$top_builddir/.libs/libstarling.so PYTHONPATH=$top_srcdir/python
         "$python" -m starling_gnn report traced) >reported 2>stderr || complain "the report of three ranks: $(cat stderr)"
        # rank N, four kinds of time and their sum, messages sent and their MB, received and theirs
        awk '/^By rank/ { on = 1 } on && /^$/ { on = 0 }
             on && /^rank [0-9]/ { rows++; bad += $2 != rows - 1 || $3 <= 0 || $8 <= 0 || $9 <= 0 || $10 <= 0 || $11 <= 0
                                   sent += $8; received += $10; mb += $9 - $11 }
             END { exit rows != 3 || bad > 0 || sent != received || mb > 1e-5 || mb < -1e-5 }' reported ||
            complain "the table by rank: $(sed -n '/^By rank/,/^$/p' reported)"
    fi
    for r in 0 1 2; do
        grep -q "^7[^\"]*[^0-9]${r}_p" traced/paje.trace || complain "the trace for ViTE has no rank $r"
    done
    # A link begins and ends in another rank: types 18 and 19, or with details 23 and 19.
    (($(grep -c 'mpicom_' traced/paje.trace) > 100)) || complain "the trace for ViTE has no links of messages"
else
    grep -q FxT stderr || complain "a trace of three ranks: $(cat stderr)"
fi

# ---- a failure ----

code=1 refuse 'rank [01]: .*loss' "${launch[@]}" -np 2 "$program" --dataset dense "${common[@]}" --lr 1e30
code=1 refuse 'rank 0: /proc/none: cannot make' "${launch[@]}" -np 2 "$program" --dataset dense "${common[@]}" --checkpoint /proc/none/folder

# long_run ARGUMENT ...: two ranks that have far to go.
long_run()
{
    rm -f long
    ranks_in_background long '"step"' "${common[@]}" --dataset dense --pes 4 --epochs 100000 --eval-every 0 --metrics-steps "$@"
}

long_run
# Where ranks have no processor to spare the thread of messages is the first worker, and has its name.
names=$(for task in /proc/"$last"/task/*; do cat "$task/comm"; done 2>/dev/null | sort | xargs -d '\n')
(($(nproc) >= 4)) || [[ $names == *"CPU 0"* && $names != *MPI* ]] || complain "threads of a rank without a processor to spare: $names"
# Threads that nap do so for as long as they ask for: with the 50 us that the system may add each message would take the longer. Of
# another process only who may set its priority gets to read that.
if [[ -r /proc/$last/timerslack_ns ]] && (($(nproc) < 4)); then
    slacks=$(for task in /proc/"$last"/task/*; do cat "/proc/${task##*/}/timerslack_ns"; done 2>/dev/null | sort -u | xargs)
    [[ -z $slacks || " $slacks " == *" 1000 "* ]] || complain "threads of a rank sleep longer than they ask for by: $slacks ns"
fi
kill -KILL "$last"
ended_badly "a run of which a rank was killed"

# One that hangs: the other ends the run.
long_run --watchdog 2
kill -STOP "$last"
ended_badly "a run of which a rank has hung" '^coop_sage: rank [01]: no task has ended'

# One that hangs, or has died where no launcher ends the others, when these are asked to stop.
long_run --watchdog 100
kill -STOP "$last"
kill -TERM "$(pgrep -P "$launcher" | head -n 1)"
ended_badly "a run that was asked to stop when a rank had hung" \
    '^coop_sage: rank 0: no task has ended and no message has come for 8 s after SIGTERM: no worker'

# And one that hangs while all evaluate, which here is all that they do: seconds after the first line of the metrics.
rm -f long
ranks_in_background long '"config"' --dataset arxiv-synthetic --data-path none --cache cache --pes 4 --cpus 1 --quiet \
    --batch-size 10 --fanout 1,1,1,1,1,1,1,1,1,1,1,1 --layers 12 --hidden 128 --epochs 0 --watchdog 2
kill -STOP "$last"
for ((i = 0; i < 150; i++)); do
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$launcher" 2>/dev/null && { kill -KILL "$last"; complain "a rank that hangs in evaluation is not missed"; }
ended_badly "an evaluation in which a rank has hung" '^coop_sage: rank [01]: no task has ended'

# ---- stopped and resumed ----

long_run --checkpoint kept
asked_to_stop

run=(--dataset dense --pes 4 --sync dissemination --norm batch --eval-every 1 --metrics-steps)
"$program" "${common[@]}" "${run[@]}" --epochs 4 --metrics whole --predict whole.npy 2>stderr || complain "$(cat stderr)"
ranks 2 "${common[@]}" "${run[@]}" --checkpoint parts --metrics pieces >stdout 2>&1 || complain "two epochs: $(cat stdout)"
ranks 3 "${common[@]}" "${run[@]}" --epochs 3 --checkpoint parts --resume=yes --metrics pieces >stdout 2>&1 || complain "on three ranks: $(cat stdout)"
"$program" "${common[@]}" "${run[@]}" --epochs 4 --checkpoint parts --resume=yes --metrics pieces --predict pieces.npy 2>stderr ||
    complain "in one process: $(cat stderr)"
cmp -s <(figures whole | grep '"step"') <(figures pieces | grep '"step"') || complain "a run that went on on other ranks has other losses"
cmp -s whole.npy pieces.npy || complain "a run that went on on other ranks predicts otherwise"

# ---- killed at any moment, and resumed ----

run=(--dataset dense --pes 4 --norm batch --eval-every 1 --metrics-steps --epochs 20)
"$program" "${common[@]}" "${run[@]}" --metrics whole --predict whole.npy --save whole.model 2>stderr || complain "$(cat stderr)"

# milliseconds: since some time ago.
milliseconds()
{
    echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

start=$(milliseconds)
ranks 2 "${common[@]}" "${run[@]}" --checkpoint timed --metrics timed.metrics >stdout 2>&1 || complain "two ranks: $(tail -n 1 stdout)"
length=$(($(milliseconds) - start))

# kill_one: start the run, or go on with it, and kill one of its two ranks at some moment of the time that a whole run takes. One that
# came to its end before is thrown away.
kill_one()
{
    local launcher victim wait_ms=$((RANDOM * length / 32768))
    "${launch[@]}" -np 2 "$program" "${common[@]}" "${run[@]}" --checkpoint killed --resume=auto \
        --metrics killed.metrics </dev/null >stdout 2>stderr &
    launcher=$!
    sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
    victim=$(pgrep -P "$launcher" | sed -n "$((RANDOM % 2 + 1))p")
    if [[ -n $victim ]] && kill -KILL "$victim" 2>/dev/null; then
        n_killed=$((n_killed + 1))
        wait "$launcher"
        return
    fi
    wait "$launcher" # the run is complete: the next starts afresh
    rm -rf killed killed.metrics
}

RANDOM=20
n_killed=0
n_rounds=$([[ -n ${SL_LONG:-} ]] && echo 10 || echo 1)
for ((round = 0; round < n_rounds; round++)); do
    rm -rf killed killed.metrics
    for ((tries = 0; n_killed < 2 * round + 2 && tries < 20; tries++)); do
        kill_one
    done
    ranks 2 "${common[@]}" "${run[@]}" --checkpoint killed --resume=auto --metrics killed.metrics --predict killed.npy \
        --save killed.model >stdout 2>&1 || complain "killed, and resumed: $(tail -n 1 stdout)"
    cmp -s <(figures whole | grep '"step"') <(figures killed.metrics | grep '"step"') ||
        complain "a run that was killed has other losses: $(diff <(figures whole) <(figures killed.metrics) | head -n 4 | cut -c 1-200)"
    cmp -s whole.npy killed.npy || complain "a run that was killed predicts otherwise"
    cmp -s whole.model killed.model || complain "a run that was killed has another model"
done
((n_killed == 2 * round)) || complain "$n_killed runs were killed, expected $((2 * round))"

exit $failed
