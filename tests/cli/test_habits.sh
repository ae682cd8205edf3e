#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Command lines that a user of DGL, PyTorch Geometric or GraphBolt types out of habit: each gets the wanted answer. A table below has
# the command, the exit code, and an extended regular expression that the last line of the output matches. After it: how wide lines
# are, and what the help shows.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage
mkdir bin && ln -s "$coop_sage" bin/coop_sage && ln -s "$pipe_gnn" bin/pipe_gnn && ln -s "$starling_data" bin/starling_data ||
    exit 99
n=0

generate made --vertices 400 --edges 2500 --features 12 --classes 3
run='--dataset ./made --cache none --hidden 8 --batch-size 50 --epochs 1 --cpus 1'

# ---- the table ----

# COMMAND | EXIT CODE | PATTERN. "RUN" stands for options that train an epoch in an instant.
while IFS='|' read -r command wanted pattern; do
    [[ -n $command && $command != \#* ]] || continue
    command=${command/RUN/$run}
    read -r wanted <<<"$wanted"
    pattern=${pattern# }
    read -ra words <<<"$command"
    PATH=$folder/bin:$PATH timeout 60 env "${words[@]}" >stdout 2>stderr </dev/null
    status=$?
    ((n++))
    [[ $status -eq $wanted ]] || complain "$command: expected exit code $wanted, found $status: $(cat stdout stderr)"
    [[ $wanted -eq 0 ]] || [[ $(wc -l <stderr) -eq 1 && ! -s stdout ]] || complain "$command: expected one line, found: $(cat stdout stderr)"
    cat stdout stderr | grep -Eq -- "$pattern" || complain "$command: expected '$pattern', found: $(cat stdout stderr)"
done <<'TABLE'
# Names of other programs.
coop_sage --num-epochs 5           | 2 | ^coop_sage: --num-epochs: coop_sage has no such option; did you mean --epochs\?$
coop_sage --hidden_dim=16          | 2 | did you mean --hidden\?$
coop_sage --num_neighbors 10,10    | 2 | did you mean --fanout\?$
coop_sage --momentum 0.9           | 2 | the optimisers are adam and adamw$
coop_sage --train-ratio 0.6         | 2 | no such option; --split random:60,20,20 draws a split$
pipe_gnn --pes 4                   | 2 | ^pipe_gnn: --pes: pipe_gnn has no such option; coop_sage has --pes$
coop_sage --stages 4               | 2 | ^coop_sage: --stages: coop_sage has no such option; pipe_gnn has --stages$
# Mistyped names and values.
coop_sage --epoch 3                | 2 | did you mean --epochs\?$
coop_sage --something-else 3       | 2 | coop_sage --help-all lists its options$
coop_sage cora                     | 2 | ^coop_sage: found argument 'cora', expected only options; did you mean --dataset cora\?$
coop_sage -e 3                     | 2 | options are written --name
coop_sage --precision fp16         | 2 | ^coop_sage: --precision: found 'fp16', expected one of float, bf16, tf32
coop_sage --model transformer      | 2 | expected one of sage, gcn
coop_sage --lr 0,01                | 2 | --lr: found '0,01', expected a number
coop_sage --fanout -2              | 2 | --fanout: found '-2', expected .* or -1
coop_sage --fanout 9,8,7 --layers 2 | 2 | --fanout: found 3 numbers, expected one per layer, and --layers is 2
coop_sage --kappa 4 --sampler full | 2 | --kappa: expected --sampler neighbor or labor with 4$
coop_sage --kappa 4 --replace      | 2 | --kappa 4 cannot be used with --replace
coop_sage --sampler ladies         | 2 | --layer-size: expected numbers of vertices, one per layer
coop_sage --layer-size 5           | 2 | --layer-size: expected --sampler ladies or pladies with it
coop_sage --sampler ladies --layers 3 --layer-size 5,5 | 2 | --layer-size: found 2 numbers, expected one per layer, and --layers is 3
coop_sage --sampler pladies --layer-size 5 --fanout 5 | 2 | --fanout 5.* cannot be used with --sampler pladies: use --layer-size
coop_sage --sampler pladies --layer-size 5 --model gat | 2 | --sampler pladies cannot be used with --model gat
coop_sage --replace --sampler labor | 2 | --replace: expected --sampler neighbor
coop_sage --labor-iterations 1     | 2 | --labor-iterations: expected --sampler labor with 1$
coop_sage --sampler labor --labor-iterations 21 | 2 | --labor-iterations: found '21', expected converge or a whole number from 0 to 20
coop_sage --sampler labor --labor-iterations 1 --model gat | 2 | --labor-iterations 1 cannot be used with --model gat
coop_sage --heads 4                | 2 | --heads: expected --model gat or gatv2 or rgat with 4$
coop_sage --resume                 | 2 | --resume: expected --checkpoint DIR with it$
# Habits that just work.
coop_sage RUN --fanout 10,10               | 0 | ^epoch 1/1 loss
coop_sage RUN --fanout 10 --layers 2       | 0 | ^epoch 1/1 loss
coop_sage RUN --fanout -1                  | 0 | ^epoch 1/1 loss
coop_sage RUN --fanout 5,-1                | 0 | ^epoch 1/1 loss
coop_sage RUN --model GraphSAGE            | 0 | ^epoch 1/1 loss
coop_sage RUN --model GCN                  | 0 | ^epoch 1/1 loss
coop_sage RUN --precision float32          | 0 | ^epoch 1/1 loss
coop_sage RUN --precision BFloat16         | 0 | ^epoch 1/1 loss
STARLING_EPOCH=3 coop_sage RUN             | 0 | warning: STARLING_EPOCH is set, but no program of Starling reads it; did you mean STARLING_EPOCHS\?
STARLING_NUM_EPOCHS=3 coop_sage RUN        | 0 | warning: STARLING_NUM_EPOCHS is set, but no program of Starling reads it; did you mean STARLING_EPOCHS\?
STARLING_FANOUT=3,4 coop_sage RUN          | 0 | ^epoch 1/1 loss
STARLING_EPOCHS=x coop_sage                | 2 | ^coop_sage: STARLING_EPOCHS: found 'x', expected a whole number
TABLE
((n >= 30)) || complain "expected thirty commands, found $n"

# ---- what they mean ----

# losses OPTION ...: the run's losses.
losses()
{
    "$program" $run "$@" --epochs 2 --json 2>stderr | sed -n 's/.*"train_loss":\([^,]*\).*/\1/p'
}

[[ -n $(losses --fanout 3) && $(losses --fanout 3,4,5) == "$(losses --layers 3 --fanout 3,4,5)" ]] || complain '--fanout 3,4,5 is not --layers 3'
[[ $(losses --fanout -1,-1) == "$(losses --layers 2 --sampler full)" ]] || complain '--fanout -1,-1 is not --sampler full'
[[ $(losses --fanout -1) == "$(losses --sampler full)" ]] || complain '--fanout -1 is not --sampler full'
[[ $(losses --layers 2 --fanout -1) == "$(losses --layers 2 --sampler full)" ]] || complain '--layers 2 --fanout -1 is not --sampler full'
[[ $(losses --fanout 2500,3) == "$(losses --fanout -1,3)" ]] || complain '--fanout -1,3 does not take all of the first layer'
[[ $(losses --fanout -1,3) != "$(losses --fanout 3,-1)" ]] || complain '--fanout -1,3 is --fanout 3,-1'
[[ $(losses --sampler labor --fanout 2500,3) == "$(losses --sampler labor --fanout -1,3)" ]] || complain '--sampler labor --fanout -1,3'
[[ $(losses --model GraphSAGE --precision fp32) == "$(losses)" ]] || complain 'GraphSAGE in fp32 is not sage in float'

# ---- 80 columns ----

# narrow WHAT: standard output has lines of at most 80 columns.
narrow()
{
    local wide
    wide=$(LC_ALL=C.UTF-8 awk 'length > 80' stdout)
    [[ -z $wide ]] || complain "$1: expected lines of 80 columns, found: $wide"
    [[ -s stdout ]] || complain "$1: expected some lines"
}

for one in "$program" "$pipe_gnn"; do
    for action in --help --help-all; do
        "$one" $action >stdout 2>stderr || complain "$one $action: $(cat stderr)"
        narrow "$one $action"
    done
    common=$("$one" --help | grep -c '^  --[a-z]')
    ((common >= 15 && common <= 26)) || complain "$one --help: expected some 20 options, found $common"
    (($("$one" --help-all | grep -c '^  --[a-z]') > 45)) || complain "$one --help-all: expected all options"
    "$one" --help | grep -q '^Examples:$' || complain "$one --help: expected examples"
done
for command in info generate partition split; do
    "$starling_data" $command --help >stdout 2>stderr || complain "$command --help: $(cat stderr)"
    narrow "starling_data $command --help"
done
"$program" $run --epochs 3 --pes 2 --sync dissemination --hidden 16 --checkpoint a-folder >stdout 2>stderr || complain "$(cat stderr)"
narrow 'coop_sage, gossip'
"$program" $run --epochs 3 --pes 1 --batch-size 400 --chunks 1 >stdout 2>stderr || complain "$(cat stderr)"
narrow 'coop_sage, one of each'
grep -q ' s \*$' stdout && grep -q '^acc ' stdout && grep -q '^memory ' stdout || complain "no mark of the best epoch, or no table: $(cat stdout)"
grep -q '^minibatch 1 PE in groups of 1, 400 seeds each, 1 step an epoch' stdout || complain "one PE: $(cat stdout)"
grep -q '^machine   1 worker, .*, 1 chunk a PE' stdout || complain "one worker: $(cat stdout)"
"$program" $run --quiet >stdout 2>stderr || complain "$(cat stderr)"
[[ ! -s stdout && ! -s stderr ]] || complain "--quiet: expected nothing, found: $(cat stdout stderr)"
"$pipe_gnn" --dataset ./made --cache none --model GCN --hidden 8 --epochs 2 --cpus 1 --layers 3 --stages 2 --stages-cut 1 >stdout 2>stderr || complain "$(cat stderr)"
narrow 'pipe_gnn'
grep -q '^pipeline  2 stages, 1 way, 8 chunks in 8 slots' stdout || complain "one way: $(cat stdout)"
grep -q '^stages    of 1, 2 layers$' stdout || complain "stages: $(cat stdout)"

exit $failed
