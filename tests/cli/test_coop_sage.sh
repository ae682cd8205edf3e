#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# apps/coop_sage as a user meets it: help, exit codes, what it prints, environment variables, interrupts.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage
child=
# shellcheck disable=SC2317 # lib.sh calls it
at_exit()
{
    [[ -z $child ]] || kill -KILL "$child" 2>/dev/null
}

# Standard output of the last command has that many lines that match.
count()
{
    local n
    n=$(grep -Ec -- "$2" stdout)
    [[ $n -eq $1 ]] || complain "expected $1 lines with '$2', found $n in: $(cat stdout)"
}

# ---- help -----------------------------------------------------------------------------------------------------------------------

options='dataset data-path split features directed normalize-features cache layers hidden output-layers dropout input-dropout activation norm residual precision load
    pes group-size batch-size fanout relation-fanout sampler layer-size replace layer-dependency kappa labor-iterations depth chunks partition sync gossip-what gossip-average-every
    gossip-local-size gossip-ring drop-last epochs lr lr-schedule lr-warmup optimizer weight-decay
     patience seed eval-every score-fanout metrics metrics-steps save save-names predict embed checkpoint resume trace trace-steps quiet json cpus memory gpus sched placement
     means transport watchdog feature-cache feature-cache-policy'

expect 0 '^Usage: coop_sage' --help
(($(grep -c '^  --[a-z]' stdout) <= 26)) || complain "--help: expected some 20 options, found $(grep -c '^  --[a-z]' stdout)"
expect 0 '^Usage: coop_sage' --help-all
for option in $options; do
    grep -Eq -- "^ +--$option([ =[]|\$)" stdout || complain "--help-all does not list --$option"
done
sed -n '/^ *--save FILE/,/^ *--save-names/p; /^ *--predict/,/^ *--checkpoint/p' stdout | tr -s ' \n' ' ' |
    grep -Eq 'Save the weights of the best epoch.*of the best epoch.*of the best epoch' || complain '--help: of which epoch are --save, --predict and --embed?'
expect 0 '^Usage: coop_sage' -h
expect 0 '^coop_sage [0-9]+\.[0-9]+' --version
[[ $(wc -l <stdout) -eq 1 ]] || complain '--version: expected one line'
expect 0 '^\.TH COOP_SAGE 1|^\.TH coop_sage 1|^\.TH "?COOP_SAGE"? "?1' --print-man
for option in $options; do
    sed 's/\\//g' stdout | grep -q -- "--$option" || complain "the man page does not name --$option"
done
tr '\n' ' ' <stdout | grep -q 'an empty value counts as not given' || complain 'the man page does not tell of empty values'
expect 0 'batch-size' --print-completion

# ---- usage errors: exit code 2 --------------------------------------------------------------------------------------------------

expect 2 '--batch-siz: .*--batch-size' --batch-siz=5
expect 2 '--epochs' --epochs=many
expect 2 '--dropout' --dropout=1
expect 2 "--dropout: found '0.99995', expected a number from 0 to 0.9999" --dropout=0.99995
expect 2 '--input-dropout: found .* 0.9999' --input-dropout 0.99999
expect 2 '--output-layers 1 cannot be used with --model gcnii: the model already ends in such a layer' --model gcnii --output-layers=1
expect 2 '--embed: found --layers 1, which has no hidden rows' --layers 1 --embed e.npy
expect 2 '--group-size.*divisor' --pes=4 --group-size=3
expect 2 '--fanout.*one per layer' --layers=3 --fanout=5,5
expect 2 '--kappa: expected --sampler neighbor or labor with 8' --sampler=full --kappa=8
expect 2 '--resume.*--checkpoint' --resume
expect 2 '--trace-steps: expected --trace DIR with it' --trace-steps 1:2
for steps in 5 5: :5 5:4 5:6x a:b -1:2 5,6; do
    expect 2 '--trace-steps: found .*FIRST:LAST' --trace out --trace-steps=$steps
done
expect 2 "--gpus: found 'some', expected all or a whole number" --gpus some
expect 2 'nonsense' nonsense
expect 2 "--fanout: found '-2', .* or -1" --fanout -2
expect 2 '--score-fanout: found 2 numbers, expected one per layer, and --layers is 3' --score-fanout 5,5
expect 2 "--score-fanout: found '2000', .* from 1 to 1024 or -1" --score-fanout 2000
expect 2 '--fanout: found 2 numbers, expected one per layer, and --layers is 3' --layers 3 --fanout -1,-1
for option in save predict embed checkpoint trace; do
    expect 2 "--$option: found '-', expected" --$option -
done
expect 1 'a\?b' --dataset $'./a\nb'

# ---- a dataset ------------------------------------------------------------------------------------------------------------------

generate made --vertices 3000 --edges 15000 --classes 5 --features 16 --seed 3

# Failures: exit code 1, one line.
expect 1 'nowhere' --dataset nowhere
mkdir -p broken && cp -r made/* broken && rm -f broken/raw/node-feat.*
expect 1 '--features' --dataset ./broken --cache none
cp made/raw/node-feat.csv.gz broken/raw && printf 'a,b\n' >broken/raw/edge.csv && rm -f broken/raw/edge.csv.gz
expect 1 'edge.csv' --dataset ./broken --cache none
expect 1 'lws' --dataset ./made --cache none --sched fastest
expect 1 '--gpus: found 4096, .*(--with-cuda|nvidia-smi)' --dataset ./made --cache none --gpus 4096
expect 1 '--transport nccl cannot be used with --gpus 0' --dataset ./made --cache none --gpus 0 --transport nccl
expect 1 '3000 vertices: need [0-9.]+ GB of memory beside .* this process may use' --dataset ./made --cache none --hidden 65536 --pes 64
expect 1 'learning rate' --dataset ./made --cache none --lr 1e30 --epochs 3 --layers 2 --batch-size 256

# Under a limit of address space: done, or refused at the start, and never a wait without end.
for limit in 300000 450000 600000 800000 1000000 1400000; do
    (ulimit -v $limit && exec "$program" --version) >/dev/null 2>&1 || continue # a sanitizer reserves terabytes
    (ulimit -v $limit && exec timeout 60 "$program" --dataset ./made --cache none --layers 2 --hidden 16 --epochs 1 --cpus 2) >stdout 2>stderr
    status=$?
    [[ $status -le 1 ]] || complain "ulimit -v $limit: expected exit code 0 or 1, found $status: $(cat stdout stderr)"
    [[ $status -eq 0 || $(wc -l <stderr) -eq 1 ]] || complain "ulimit -v $limit: expected one line of error, found: $(cat stderr)"
    [[ $limit -ne 300000 ]] || grep -Eq 'OpenBLAS.*ulimit -v' stderr || complain "ulimit -v $limit: found: $(cat stderr)"
done

run="--dataset ./made --cache cache --layers 2 --hidden 16 --batch-size 128 --cpus 2 --lr 0.01"

# ---- lines ----------------------------------------------------------------------------------------------------------------------

number='[0-9]+\.[0-9]+'
expect 0 '^dataset +made: 3000 vertices' $run --epochs 3
count 3 "^epoch +[123]/3 +loss +$number +valid +$number % +test +$number % +time +$number s +eval +$number s( \\*)?\$"
count 1 "^epoch 1/3 .* s \\*\$"
count 1 "^best epoch [123] +valid $number % +test $number % +time $number s\$"
count 1 "^acc +$number % +$number %\$"
count 1 "^f1 +$number % +$number %\$"
count 1 "^time +3 epochs, $number s each\$"
count 1 "^memory +$number GB at most\$"
count 1 '^minibatch 2 PEs in groups of 2'
count 1 '^machine +[12] workers'
[[ $(grep -c $'\r\|\033' stdout) -eq 0 ]] || complain 'a progress bar where there is no terminal'

cores=$("$starling_data" info | sed -n 's/^workers *\([0-9]*\) .*/\1/p')
expect 0 '^warning +[0-9]+ workers share the [0-9]+ processors' $run --epochs 1 --cpus $((cores + 1))
expect 0 '^machine' $run --epochs 1 --cpus 1
[[ $(grep -c 'workers share' stdout) -eq 0 ]] || complain 'a warning of too many workers where there is one'

expect 0 '' $run --epochs 2 --quiet --save q.safetensors
[[ -s stdout ]] && complain "--quiet: expected no output, found: $(cat stdout)"
[[ -s q.safetensors ]] || complain '--save wrote nothing'

expect 0 '' $run --epochs 2 --json
count 1 '^\{"event": ?"config",.*\}$'
count 2 '^\{"event": ?"epoch",.*\}$'
count 1 '^\{"event": ?"summary",.*\}$'
[[ $(wc -l <stdout) -eq 4 ]] || complain "--json: expected 4 lines, found: $(cat stdout)"

expect 0 'valid' --load q.safetensors $run --epochs 0 --predict p.npy --metrics m.json
[[ $(head -c 6 p.npy) == $'\x93NUMPY' ]] || complain '--predict wrote no .npy file'
[[ $(grep -c '"epoch"' m.json) -ge 1 ]] || complain '--metrics wrote no epoch'
grep -q '"sampled"' m.json && complain 'exact scores are said to be sampled'
expect 0 '^sampled +valid' --load q.safetensors $run --epochs 0 --score-fanout 2 --predict p2.npy --metrics m.json
[[ $(grep -c '"sampled":true' m.json) -eq 2 ]] || complain "--score-fanout: expected an epoch and a summary with sampled: $(cat m.json)"
cmp p.npy p2.npy || complain '--score-fanout changed the file of --predict'

# A saved model says what it was trained with; one that does not is taken by its tensors (tests/unit/runtime/test_model.c).
expect 0 '' $run --epochs 1 --norm batch --residual --layers 3 --save normed.safetensors
expect 0 'valid' $run --epochs 0 --norm batch --residual --layers 3 --load normed.safetensors
expect 2 "--activation: found 'gelu', expected 'relu', .*normed.safetensors" $run --epochs 0 --activation gelu --layers 3 --load normed.safetensors
expect 2 "--norm: found 'none', expected 'batch', .*normed.safetensors" $run --epochs 0 --norm none --layers 3 --load normed.safetensors
expect 2 "--residual: found 'no', expected 'yes', .*normed.safetensors" $run --epochs 0 --no-residual --layers 3 --load normed.safetensors
expect 2 "--residual: found 'yes', expected 'no'" $run --epochs 0 --residual --load q.safetensors

# ---- notices --------------------------------------------------------------------------------------------------------------------

# said PATTERN ARGUMENT...: the run is done, and one line on standard error matches, with --quiet too.
said()
{
    local pattern=$1
    shift
    "$program" "$@" --quiet >stdout 2>stderr || complain "$*: exit code $?: $(cat stderr)"
    [[ ! -s stdout && $(wc -l <stderr) -eq 1 ]] && grep -Eq -- "$pattern" stderr || complain "$*: expected one line '$pattern', found: $(cat stdout stderr)"
}
mkdir tables && cp -r made tables/made && printf '1\n' >tables/made/raw/edge_weight.csv
said '^coop_sage: warning: tables/made/raw/edge_weight.csv: is not used$' ${run/.\/made/made} --data-path tables --epochs 1
STARLING_BATCHSIZE=7 said '^coop_sage: warning: STARLING_BATCHSIZE is set, .*STARLING_BATCH_SIZE\?$' $run --epochs 1
STARLING_STAGES=7 STARLING_PARTS=2 expect 0 '^epoch' $run --epochs 1
expect 1 "dataset 'ogbn-arxiv' is not in none" ${run/.\/made/ogbn-arxiv} --data-path none --quiet --predict none.npy
[[ -e none.npy ]] && complain '--predict of a dataset that is not there left a file'
synthetic=(--data-path none --cache cache --layers 1 --hidden 4 --fanout 1 --batch-size 50000 --epochs 1 --eval-every 0 --cpus 2
    --save s.safetensors --metrics s.json --checkpoint s.kept)
said '^coop_sage: warning: --dataset arxiv: .*SYNTHETIC \(arxiv-synthetic' "${synthetic[@]}" --dataset arxiv
"$program" "${synthetic[@]}" --dataset arxiv-synthetic --quiet >stdout 2>stderr || complain "arxiv-synthetic: $(cat stderr)"
[[ -s stderr ]] && complain "arxiv-synthetic, from the cache: expected nothing on standard error, found: $(cat stderr)"
for file in s.safetensors s.kept/checkpoint.safetensors; do
    head -c 4000 $file | grep -aq '"synthetic": *"yes"' || complain "$file does not say that its data are synthetic"
done
head -n 1 s.json | grep -q '"synthetic": *true' || complain 's.json does not say that its data are synthetic'
printf 'PK\3\4..archive/data.pkl' >model.pt
expect 1 'model.pt: training does not read this form; make a dataset of it: starling convert .*model.pt --out NAME' --dataset model.pt
expect 1 'model.pt: found a PyTorch file, .*safetensors.torch.save_file' $run --load model.pt

# Features of a wide range, and classes without a vertex.
cp -r made wide && gzip -dc made/raw/node-feat.csv.gz | awk -F, -v OFS=, '{ $3 = 1600000000 + NR; print }' | gzip >wide/raw/node-feat.csv.gz
expect 0 '^warning +feature column 2 reaches 1.6e\+09' ${run/.\/made/.\/wide} --epochs 1
expect 0 '^epoch' $run --epochs 1
count 0 '^warning +feature'
cp -r made gaps && gzip -dc made/raw/node-label.csv.gz | sed 's/^4/9/' | gzip >gaps/raw/node-label.csv.gz
expect 0 '^warning +5 of 10 classes have no vertex, [0-9] for one' ${run/.\/made/.\/gaps} --epochs 1

# Self loops that GINConv would count.
cp -r made loops && gzip -dc made/raw/edge.csv.gz | awk '{ print } END { print "3,3"; print "4,4" }' | gzip >loops/raw/edge.csv.gz
rm -f loops/raw/num-edge-list*
expect 0 "^warning +the graph's 2 self loops are left out:" ${run/.\/made/.\/loops} --epochs 1 --model gin
expect 0 '^epoch' ${run/.\/made/.\/loops} --epochs 1 --model gcn
count 0 '^warning +the graph'

# A split of PyTorch alone.
cp -r made torch && rm torch/split/random/* && : >torch/split/random/split_dict.pt
expect 1 'torch/split/random/split_dict.pt: training does not read this form; .*: starling convert ./torch --out NAME, or draw a split' ${run/.\/made/.\/torch}
expect 0 '^epoch' ${run/.\/made/.\/torch} --epochs 1 --split random:60,20,20

# ---- inference ------------------------------------------------------------------------------------------------------------------

# A trained model scores a graph without labels, split or counts as it scores the same graph with them, and one of fewer classes.
score="${run/--cache cache/--cache none} --epochs 0 --load q.safetensors"
expect 0 '' $score --predict all.npy
cp -r made unknown && gzip -dc made/raw/node-label.csv.gz | sed 's/.*/nan/' | gzip >unknown/raw/node-label.csv.gz
for list in train valid test; do gzip </dev/null >unknown/split/random/$list.csv.gz; done
cp -r made bare && rm -r bare/split bare/raw/node-label.csv.gz bare/raw/num-*
cp -r made fewer && gzip -dc made/raw/node-label.csv.gz | sed 's/[234]/1/' | gzip >fewer/raw/node-label.csv.gz
cp -r made partly && rm partly/split/random/train.csv.gz partly/split/random/valid.csv.gz
for data in unknown bare fewer partly; do
    expect 0 "^dataset +$data: 3000 vertices, .* 5 classes" ${score/.\/made/.\/$data} --predict $data.npy
    cmp -s all.npy $data.npy || complain "$data: other scores than of the whole dataset"
done
# The model brings its options.
for options in '' '--objective class' '--objective auto' '--best-by mse'; do
    expect 0 '' --dataset ./bare --cache none --epochs 0 --load q.safetensors $options --predict bare.npy
    cmp -s all.npy bare.npy || complain "$options: other scores than of the whole dataset"
done
for options in '--objective regression' '--objective labels' '--hidden 256' '--directed' '--normalize-features row' '--features degree'; do
    expect 2 "${options%% *}: found .*, expected .*q.safetensors was trained" --dataset ./bare --cache none --epochs 0 --load q.safetensors $options
done
for data in unknown bare; do
    expect 1 'no training vertices|no label|raw/node-label' ${run/.\/made/.\/$data} --epochs 1
    expect 1 'found no label, expected labels, or with --epochs 0 a trained model in --load' ${run/.\/made/.\/$data} --epochs 0
done

# ---- traces ---------------------------------------------------------------------------------------------------------------------

# Where StarPU cannot trace, the run ends before it trains.
traces=
if "$program" $run --epochs 2 --trace out --trace-steps 2:4 >stdout 2>stderr; then
    traces=yes
    count 1 '^trace +starling report out'
    [[ -s stderr ]] && complain "--trace: expected nothing on standard error, found: $(cat stderr)"
    for file in paje.trace tasks.rec trace.rec trace.fxt dag.dot; do
        [[ -s out/$file ]] || complain "--trace wrote no $file"
    done
    expect 1 '--trace-steps: found 500:501' $run --epochs 2 --trace late --trace-steps 500:501
    [[ ! -e late ]] || complain "--trace: left after a refused run: $(ls late)"
    # Patience ends the run before the steps to trace: no failure, no trace.
    expect 0 '^trace +none' $run --lr 1e-30 --epochs 400 --patience 1 --trace late --trace-steps 398:399
    [[ ! -e late ]] || complain "--trace: left after a run without a traced step: $(ls late)"
    expect 1 '--trace' $run --epochs 0 --load q.safetensors --trace late
    expect 1 'stdout' $run --epochs 1 --trace stdout
else
    expect 1 'built without FxT.*bootstrap' $run --epochs 2 --trace out
    count 0 '^epoch'
fi

# A disk without room for a trace is named before the run. (Only root may mount one.)
mkdir tiny
if mount -t tmpfs -o size=1m tmpfs tiny 2>/dev/null; then
    "$program" $run --epochs 2 --trace tiny/out >stdout 2>stderr
    status=$?
    umount tiny
    [[ $status -eq 1 && $(wc -l <stderr) -eq 1 ]] || complain "--trace, full disk: found exit code $status: $(cat stderr)"
    grep -Eq '^coop_sage: (tiny/out: found .* free on the disk|--trace: .*FxT)' stderr || complain "--trace, full disk: $(cat stderr)"
fi

# StarPU's folder on a full disk: one line; with some room, a run as ever. StarPU aborts at files cut short.
if mount -t tmpfs -o size=64k tmpfs tiny 2>/dev/null; then
    head -c 100000 /dev/zero >tiny/fill 2>/dev/null
    XDG_CACHE_HOME=$folder/tiny expect 1 '\$XDG_CACHE_HOME: found .*/tiny.*: No space left' $run --epochs 1
    rm tiny/fill
    XDG_CACHE_HOME=$folder/tiny expect 0 '^epoch' $run --epochs 1
    umount tiny
fi

# ---- standard output that cannot be written -------------------------------------------------------------------------------------

# unwritable STATUS COMMAND...: with a full disk and without any standard output.
unwritable()
{
    local status wanted=$1
    shift
    "$@" >/dev/full 2>stderr
    status=$?
    [[ $status -eq $wanted ]] || complain "$* >/dev/full: expected exit code $wanted, found $status: $(cat stderr)"
    [[ $(wc -l <stderr) -eq $wanted ]] || complain "$* >/dev/full: expected $wanted lines of error, found: $(cat stderr)"
    "$@" >&- 2>stderr
    status=$?
    [[ $status -eq $wanted ]] || complain "$* >&-: expected exit code $wanted, found $status: $(cat stderr)"
    [[ $(wc -l <stderr) -eq $wanted ]] || complain "$* >&-: expected $wanted lines of error, found: $(cat stderr)"
}
unwritable 1 "$program" $run --epochs 1
unwritable 1 "$program" $run --epochs 1 --json
unwritable 1 "$program" --help
unwritable 1 "$program" --version
unwritable 1 "$starling_data" info
unwritable 1 "$starling_data" info ./made
unwritable 1 "$starling_data" --help
unwritable 1 "$starling_data" partition ./made --parts 2
# What says nothing needs no standard output, and what it writes goes where it should.
unwritable 0 "$program" $run --epochs 1 --quiet --metrics closed.json
grep -qv '^{' closed.json && complain "--metrics, no standard output: $(cat closed.json)"

# ---- what a run finds missing ---------------------------------------------------------------------------------------------------

# No standard input, few descriptors for all its files (StarPU's converter of traces has more), no folder for temporary files: it runs.
expect 0 '^epoch +1/1 ' $run --epochs 1 <&-
outputs='--metrics few.json --save few.safetensors --predict few.npy --checkpoint few'
few=16
[[ $traces ]] && outputs+=' --trace few' few=32
(ulimit -n 16 && "$program" $run --epochs 1 ${outputs% --trace few}) >stdout 2>stderr && rm -rf few &&
    (ulimit -n $few && "$program" $run --epochs 1 $outputs) >stdout 2>stderr
status=$?
[[ $status -eq 0 && ! -s stderr ]] || complain "few descriptors: found exit code $status: $(cat stderr)"
for file in few.json few.safetensors few.npy few/checkpoint.safetensors ${traces:+few/trace.rec}; do
    [[ -s $file ]] || complain "few descriptors: wrote no $file"
done

# Nobody reads its lines: it says so. The signal for that does not end it.
mkfifo lines
for end in default:1:1 ignore:1:1; do # what a writer gets, exit code, lines of error
    rm -f gone
    { : <lines; : >gone; } & # a reader that goes at once, and says that it has
    (until [[ -e gone ]]; do sleep 0.01; done; exec env --${end%%:*}-signal=PIPE "$program" $run --epochs 1) 2>stderr >lines
    found=${end%%:*}:$?:$(wc -l <stderr)
    wait $!
    [[ $found == "$end" ]] || complain "a closed pipe: expected $end, found $found: $(cat stderr)"
done

# ---- environment variables ------------------------------------------------------------------------------------------------------

export STARLING_EPOCHS=2 STARLING_HIDDEN=8
expect 0 '^epoch +2/2 ' $run
expect 0 '^epoch +1/1 ' $run --epochs 1
export STARLING_EPOCHS=few
expect 2 'STARLING_EPOCHS' $run
unset STARLING_EPOCHS STARLING_HIDDEN

# Where METIS has too little memory, stream has enough, and a line says so. The limit is found: it lies between their needs.
large=(--dataset arxiv-synthetic --data-path none --cache none --pes 4 --epochs 1 --layers 1 --hidden 4 --fanout 2 --eval-every 0 --cpus 2)
STARPU_LIMIT_CPU_MEM=40 "$program" "${large[@]}" >large.out 2>&1
stream_mib=$(sed -n 's/.*at least the \([0-9]*\) MiB.*/\1/p' large.out)
STARPU_LIMIT_CPU_MEM=$stream_mib "$program" "${large[@]}" >large.out 2>&1 || complain "expected a run in $stream_mib MiB, found: $(cat large.out)"
grep -q 'warning: .*too large for METIS: --partition stream is taken' large.out || complain "expected a word of --partition stream, found: $(cat large.out)"
STARPU_LIMIT_CPU_MEM=40 "$program" "${large[@]}" --partition stream >large.out 2>&1
grep -q "at least the $stream_mib MiB" large.out || complain "expected $stream_mib MiB for --partition stream, too, found: $(cat large.out)"
"$program" "${large[@]}" 2>&1 | grep 'stream' && complain 'found a word of --partition stream where METIS has room'

# What StarPU cannot use of its own environment: one line that names the variable, or a way round it.
for setting in STARPU_NCPU=abc STARPU_NCPU=-5 STARPU_LIMIT_CPU_MEM=1 STARPU_LIMIT_CPU_MEM=x STARPU_RESERVE_NCPU=4096 \
    STARPU_CALIBRATE=yes STARPU_WORKERS_CPUID=abc STARPU_HOSTNAME=a/b STARPU_TRACE_BUFFER_SIZE=-5; do
    export "${setting?}"
    expect 1 "^coop_sage: .${setting%=*}: found " $run --epochs 1
    unset "${setting%=*}"
done

# Where hwloc counts less memory than there is, as on a machine whose memory was added after its start, StarPU does not wait for it.
HWLOC_SYNTHETIC='NUMANode:1(memory=1048576) core:2 pu:1' HWLOC_THISSYSTEM=1 STARPU_WORKERS_NOBIND=1 timeout -s KILL 60 "$program" $run --epochs 1 >stdout 2>stderr ||
    complain "a machine of which hwloc counts 1 MiB: exit code $?, $(cat stderr)"

export STARPU_NCPU=1
expect 0 '^machine +1 worker,' ${run/--cpus 2/} --epochs 1
unset STARPU_NCPU
for home in /dev/null /dev/full /proc/none; do
    XDG_CACHE_HOME=$home expect 1 "XDG_CACHE_HOME: found '$home', expected a folder in which StarPU can write" $run --epochs 1
done

# ---- interrupts -----------------------------------------------------------------------------------------------------------------

# interrupt SIGNAL CODE: start a run that would take for ever, send the signal after its first epoch, and go on from there.
interrupt()
{
    local status=0
    rm -rf kept
    : >stdout # the last command's lines would have the signal sent before this one has begun
    # A background job of a script ignores SIGINT, and what is ignored stays so.
    env --default-signal="$1" "$program" $run --epochs 1000000 --eval-every 1000 --checkpoint kept >stdout 2>stderr &
    child=$!
    for ((i = 0; i < 6000; i++)); do
        grep -q '^epoch' stdout && break
        sleep 0.1
    done
    kill -"$1" "$child"
    wait "$child" || status=$?
    child=
    [[ $status -eq $2 ]] || complain "SIG$1: expected exit code $2, found $status: $(cat stderr)"
    [[ -s stderr ]] && complain "SIG$1: complained: $(cat stderr)"
    count 1 '^interrupted by signal [0-9]+: the step was finished and saved'
    [[ -s kept/checkpoint.safetensors ]] || complain "SIG$1: no checkpoint was saved"
    expect 0 '^resuming +after step [1-9]' $run --epochs 1 --checkpoint kept --resume
}

# A folder of checkpoints has one run at a time, and is free again however that ends.
"$program" $run --epochs 1000000 --eval-every 1000 --checkpoint shared >shared.log 2>&1 &
child=$!
for ((i = 0; i < 6000; i++)); do
    [[ -s shared/checkpoint.safetensors ]] && break
    sleep 0.1
done
expect 1 "shared: found process $child .*another --checkpoint folder" $run --epochs 1 --checkpoint shared
kill -KILL "$child"
wait "$child" 2>/dev/null
child=
expect 0 '^epoch +1/1 ' $run --epochs 1 --checkpoint shared
[[ -e shared/lock ]] && complain '--checkpoint: left its lock in the folder'

interrupt INT 130
for signal in TERM USR1 USR2 HUP XCPU; do
    interrupt "$signal" 0
done

# Data are known by their contents: the same under another path go on, others of the same sizes do not.
generate first --vertices 400 --edges 2500 --features 12 --classes 3
cp -R first again && cp -R first changed && cp -R first parted
again=(--cache none --batch-size 50 --fanout 3,3 --layers 2 --hidden 8 --cpus 1)
expect 0 '^epoch +1/1 ' --dataset ./first "${again[@]}" --epochs 1 --checkpoint known
expect 0 '^resuming ' --dataset "$PWD/again/" "${again[@]}" --epochs 2 --checkpoint known --resume
expect 0 '^resuming ' --dataset first --data-path . "${again[@]}" --epochs 3 --checkpoint known --resume
features=$(find changed/raw -name 'node-feat*')
case $features in
*.gz) gzip -dc "$features" | sed '1s/^[^,]*/7/' | gzip >features.gz && mv features.gz "$features" ;;
*) sed -i '1s/^[^,]*/7/' "$features" ;;
esac
expect 1 'features: found .*, expected .*, which the run in known began with' --dataset ./changed "${again[@]}" --epochs 4 --checkpoint known --resume
expect 1 "best-by: found 'f1', expected none, which the run in known began with; leave it out, or start afresh" --dataset ./first "${again[@]}" \
    --epochs 4 --checkpoint known --resume --best-by f1
# So are other features that are normalized by columns.
expect 0 '^epoch +1/1 ' --dataset ./first "${again[@]}" --normalize-features column --epochs 1 --checkpoint columns
expect 1 'features: found .*, expected .*, which the run in columns' --dataset ./changed "${again[@]}" --normalize-features column \
    --epochs 2 --checkpoint columns --resume
# A run that is refused leaves no folder.
expect 1 'no checkpoint there' --dataset ./first "${again[@]}" --epochs 1 --checkpoint deep/deeper/deepest --resume
expect 1 'no such folder|FxT' --dataset ./none "${again[@]}" --epochs 1 --checkpoint deep/deeper/deepest --trace deep/deeper/trace
[[ ! -e deep ]] || complain "a refused run left $(find deep)"
mkdir deep
expect 1 'no such folder' --dataset ./none "${again[@]}" --epochs 1 --checkpoint deep/deeper
[[ -d deep && ! -e deep/deeper ]] || complain "a refused run left or removed a folder: $(find deep)"
# A second split beside the first: the checkpoint names its split.
split=$(basename "$(find parted/split -mindepth 1 -maxdepth 1 -type d)")
cp -R "parted/split/$split" parted/split/second
expect 0 '^resuming ' --dataset ./parted "${again[@]}" --epochs 4 --checkpoint known --resume
expect 0 '^resuming ' --dataset ./parted "${again[@]}" --epochs 5 --checkpoint known --resume --split "$split"
gzip -dc "parted/split/second/valid.csv.gz" | sed '$d' | gzip >valid && mv valid parted/split/second/valid.csv.gz
expect 1 'split: found .*, expected .*--split '"$split" --dataset ./parted "${again[@]}" --epochs 6 --checkpoint known --resume --split second
mv "parted/split/$split" parted/split/third
expect 1 "no split '$split'; --split can be one of: second, third" --dataset ./parted "${again[@]}" --epochs 6 --checkpoint known --resume
expect 0 '^resuming ' --dataset ./parted "${again[@]}" --epochs 6 --checkpoint known --resume --split third
# From the cache, and from a binary copy.
expect 0 '^resuming ' --dataset ./first "${again[@]}" --cache kept-cache --epochs 7 --checkpoint known --resume
expect 0 '^resuming ' --dataset ./first "${again[@]}" --cache kept-cache --epochs 8 --checkpoint known --resume
expect 1 'features: found' --dataset ./changed "${again[@]}" --cache kept-cache --epochs 9 --checkpoint known --resume
expect 1 'features: found' --dataset ./changed "${again[@]}" --cache kept-cache --epochs 9 --checkpoint known --resume=auto

# In place, with a cache beside the data. Other numbers are refused. The same numbers as float16, or a second split, go on, and so do
# the first data after all that.
# as_halves: a table of 0, 1 and 2, with commas, as a float16 .npy file of 400 rows and 12 columns.
as_halves()
{
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': (400, 12), }"
    printf '%b' "$(tr ',\n' '  ' | sed 's/0 /\\0000\\0000/g; s/1 /\\0000\\0074/g; s/2 /\\0000\\0100/g')"
}
placed=(--dataset ./placed --batch-size 50 --fanout 3,3 --layers 2 --hidden 8 --cpus 1)
cp -R first placed && rm placed/raw/node-feat*
awk 'BEGIN { for (v = 0; v < 400; v++) for (j = 0; j < 12; j++) printf "%d%s", (v * 7 + j * j) % 3, j < 11 ? "," : "\n" }' >numbers.csv
sed '1s/^./2/' numbers.csv >others.csv
cp numbers.csv placed/raw/node-feat.csv
expect 0 '^epoch +4/4 ' "${placed[@]}" --epochs 4 --cache none
sed -n 's,^epoch.*4/4 *\(loss.*\) time .*,\1,p' stdout >straight
expect 0 '^epoch +1/1 ' "${placed[@]}" --epochs 1 --checkpoint placed.kept
[[ -e placed/starling-cache ]] || complain 'a run wrote no cache beside the data'
cp others.csv placed/raw/node-feat.csv
expect 1 'features: found' "${placed[@]}" --epochs 2 --checkpoint placed.kept --resume
rm placed/raw/node-feat.csv && as_halves <others.csv >placed/raw/node-feat.npy
expect 1 'features: found' "${placed[@]}" --epochs 2 --checkpoint placed.kept --resume
as_halves <numbers.csv >placed/raw/node-feat.npy
"$starling_data" info ./placed | grep -q '^features *12, dense float16' || complain "float16 features: $("$starling_data" info ./placed)"
for epochs in 2 3; do # from the file, and from the cache
    expect 0 '^resuming ' "${placed[@]}" --epochs $epochs --checkpoint placed.kept --resume
done
rm placed/raw/node-feat.npy && cp numbers.csv placed/raw/node-feat.csv
cp -R "placed/split/$split" placed/split/second
gzip -dc placed/split/second/valid.csv.gz | sed '$d' | gzip >valid && mv valid placed/split/second/valid.csv.gz
expect 1 'split: found' "${placed[@]}" --epochs 4 --checkpoint placed.kept --resume --split second
expect 0 '^resuming ' "${placed[@]}" --epochs 4 --checkpoint placed.kept --resume
[[ $(sed -n 's,^epoch.*4/4 *\(loss.*\) time .*,\1,p' stdout) == "$(cat straight)" ]] ||
    complain "resumed over float16: expected $(cat straight), found $(cat stdout)"

expect 1 'expected' $run --checkpoint kept --resume --lr 0.5
expect 1 'none' $run --checkpoint none --resume
expect 0 '^epoch +1/1 ' $run --checkpoint none --resume=auto --epochs 1

exit $failed
