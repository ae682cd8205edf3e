#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Two ranks that are not alike: every option (tests/rules.list) and every input differs on one rank in turn. Each difference ends the run
# with one line and exit code 1, within 50 s. Options of one rank alone (doc/guide/resume.md: own) train.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
coop=$coop_sage
pipe=$pipe_gnn
rules=$top_srcdir/doc/guide/resume.md
list=$top_srcdir/tests/rules.list
need_mpi
code=1 # of what is refused, but for wrong usage

# two PROGRAM-OF-RANK-0 OPTIONS-OF-RANK-0 PROGRAM-OF-RANK-1 OPTIONS-OF-RANK-1: the command, in $command.
two()
{
    # shellcheck disable=SC2206 # the options are words
    command=("${launch[@]}" -np 1 "$1" $2 : -np 1 "$3" $4)
}

generate d --vertices 400 --edges 2500 --features 12 --classes 3
basics="--dataset ./d --cache none --layers 2 --hidden 8 --epochs 2 --chunks 4 --quiet --cpus 1"
sampled="$basics --pes 2 --batch-size 50"
pipelined="$basics --model gcn"
"$coop" $sampled --save weights 2>stderr && "$coop" $sampled --save others --seed 5 2>stderr || complain "no weights: $(cat stderr)"

# ---- options ----

# spread_of OPTION: "equal", "all or none", "own".
spread_of()
{
    sed -n "s/^| \`--$1\` | [^|]* | \([^|]*\) |.*/\1/p" "$rules"
}

# differ PROGRAM OPTIONS: each option of the program, on rank 1 alone.
differ()
{
    local program=$1 options=$2 name value with both pattern code
    "$program" --help-all >help
    while read -r name value with; do
        [[ $name != '#' ]] && grep -q -- "--$name\b" help || continue
        [[ $(spread_of "$name") != own ]] || continue
        both=$options
        [[ $with == - ]] || both+=" --${with/=/ }"
        both=${both/--resume /--resume=}
        pattern="rank 1: --$name: found ('.+'|none), expected ('.+'|none) as rank 0 has"
        code=1
        case $name in
        transport | trace | trace-steps) pattern+="|transport|FxT|trace" ;; # a build that has none of it
        negatives | drop-leaks | link-loss | link-exclude | decoder) pattern+="|train.csv.gz:1: expected 'source,destination'" ;; # d has no links
        bases | relation-fanout) pattern+="|--model rgcn: expected a typed dataset" ;; # d has no types
        pairs) pattern='^coop_sage: rank 1: --pairs: expected --predict, too' code=2 ;;
        score-fanout) pattern='^coop_sage: rank 1: --score-fanout: found 2 processes of one run' code=2 ;;
        layer-size) pattern='^coop_sage: --layer-size: expected numbers of vertices' code=2 ;; # rank 0 has a sampler of layers without it
        esac
        case $value in
        yes) two "$program" "$both" "$program" "$both --$name" ;;
        auto) two "$program" "$both" "$program" "$both --$name=$value" ;;
        *) two "$program" "$both" "$program" "$both --$name $value" ;;
        esac
        refuse "$pattern" "${command[@]}"
        n=$((n + 1))
    done <"$list"
}

n=0
differ "$coop" "$sampled"
((n > 45)) || complain "$n options of coop_sage differed, expected more than 45"
# pipe_gnn's own options
grep -E '^(stages|stages-cut|ways|chunks|chunk-order|gradient-factor|recompute|guard|history-every|checkpoint) ' "$list" >pipe.list
list=pipe.list
n=0
differ "$pipe" "$pipelined --ways 4"
((n == 10)) || complain "$n options of pipe_gnn differed, expected 10"

# On rank 0 alone, as if mpirun had not passed the variable on.
for name in checkpoint save predict embed metrics load; do
    two "$coop" "$sampled --$name weights" "$coop" "$sampled"
    [[ $name != checkpoint ]] || two "$coop" "$sampled --$name state" "$coop" "$sampled"
    refuse "rank 1: --$name: found 'not given', expected 'given' as rank 0 has" "${command[@]}"
done
refuse "rank 1: --seed: found '1', expected '7'" "${launch[@]}" -np 1 env STARLING_SEED=7 "$coop" $sampled : -np 1 "$coop" $sampled
refuse "rank 1: --metrics: found 'given'" "${launch[@]}" -np 1 "$coop" $sampled : -np 1 env STARLING_METRICS=lines "$coop" $sampled

# A wrong option of one rank.
two "$coop" "$sampled" "$coop" "$sampled --no-such-option"
code=2 refuse 'rank 1: --no-such-option' "${command[@]}"
two "$coop" "$sampled --no-such-option" "$coop" "$sampled"
code=2 refuse '^coop_sage: --no-such-option' "${command[@]}"

# ---- own options: as one process ----

# train OPTIONS-OF-RANK-0 OPTIONS-OF-RANK-1
train()
{
    two "$coop" "$1" "$coop" "$2"
    timeout 60 "${command[@]}" >stdout 2>stderr </dev/null || complain "$1, and $2: expected to train, found: $(cat stderr)"
}

cp -R d copy && mv copy/split/random copy/split/another && mkdir path && cp -R d path/d
here=${sampled/--dataset .\/d/}
train "$sampled" "$here --dataset ./copy/ --split another"
train "$here --dataset d --data-path ." "$here --dataset d --data-path path"
train "$sampled --sched eager" "${sampled/--cache none/--cache cached} --gpus 0"
train "${sampled/--quiet/--json}" "${sampled/--cpus 1/--cpus 2}"
train "$sampled --load weights" "$sampled --load ./weights"

# ---- programs ----

two "$coop" "$basics" "$pipe" "$basics"
refuse "rank 1: program: found 'pipe_gnn .*', expected 'coop_sage .*' as rank 0 has" "${command[@]}"

two "$coop" "$basics" "$starling_data" info
refuse "rank 1: program: found 'starling_data info', expected 'coop_sage .*' as rank 0 has" "${command[@]}"
two "$starling_data" info "$coop" "$basics"
refuse "rank 1: program: found 'coop_sage .*', expected 'starling_data info' as rank 0 has" "${command[@]}"

# ---- inputs ----

# other FILE COMMAND ...: the dataset `o/d`, whose FILE has gone through the command.
other()
{
    local file=o/d/$1
    shift
    rm -rf o && mkdir o && cp -R d o/d && gzip -dc "$file" | "$@" | gzip >changed && mv changed "$file"
}

for with in '--cache none' '--cache kept'; do # the hashes of a cache file, too
    sides="${sampled/--cache none/$with}"
    sides=${sides/--dataset .\/d/--dataset d}
    while read -r part file change; do
        other "$file" $change
        for turned in no yes; do # rank 0, or rank 1
            two "$coop" "$sides --data-path ." "$coop" "$sides --data-path o"
            [[ $turned == no ]] || two "$coop" "$sides --data-path o" "$coop" "$sides --data-path ."
            refuse "rank 1: dataset d, $part: found '.* hash .*', expected '.* hash .*' as rank 0 has" "${command[@]}"
        done
    done <<'CHANGES'
features raw/node-feat.csv.gz tac
features raw/node-feat.csv.gz sed s/[^,]*/0/g
features raw/node-feat.csv.gz sed 400s/[^,]*$/7/
labels raw/node-label.csv.gz tac
graph raw/edge.csv.gz sed 1s/.*/1,2/
split split/random/valid.csv.gz sed $d
CHANGES
done
# Of equal values, but in dtypes that ranks would send each other as they are.
rm -rf f16 f32 && cp -R d f32 && rm f32/raw/node-feat.csv.gz && cp -R f32 f16
# table NAME DESCRIPTION ONES: 400 rows of 12 ones.
table()
{
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': (400, 12), }" >"$1/raw/node-feat.npy"
    yes "$3" | head -n 4800 | tr -d '\n' | xargs -0 printf '%b' >>"$1/raw/node-feat.npy"
}
table f32 '<f4' '\0000\0000\0200\0077'
table f16 '<f2' '\0000\0074'
for program in "$coop" "$pipe"; do
    sides=$sampled
    [[ $program == "$coop" ]] || sides=$pipelined
    for each in f32:f16 f16:f32; do
        two "$program" "${sides/.\/d/.\/${each%:*}}" "$program" "${sides/.\/d/.\/${each#*:}}"
        refuse "rank 1: dataset f.., dtype of features: found 'float..', expected 'float..' as rank 0 has" "${command[@]}"
    done
    "${launch[@]}" -np 2 "$program" ${sides/.\/d/.\/f16} 2>stderr || complain "float16 on both ranks: $(cat stderr)"
done
two "$coop" "${sampled/--dataset .\/d/--dataset ./nowhere}" "$coop" "$sampled"
refuse 'rank 0: dataset .*nowhere' "${command[@]}"
two "$coop" "$sampled" "$coop" "${sampled/--dataset .\/d/--dataset ./nowhere}"
refuse 'rank 1: dataset .*nowhere' "${command[@]}"

two "$coop" "$sampled --load weights" "$coop" "$sampled --load others"
refuse "rank 1: --load: found 'hash .*', expected 'hash .*' as rank 0 has" "${command[@]}"
printf '1\n2\n3\n' >classes && cp classes same && printf '1\n2\n4\n' >unequal
train "$sampled --class-weights classes" "$sampled --class-weights same"
two "$coop" "$sampled --class-weights classes" "$coop" "$sampled --class-weights unequal"
refuse "rank 1: --class-weights: found 'hash .*', expected 'hash .*' as rank 0 has" "${command[@]}"
two "$coop" "$sampled --load weights" "$coop" "$sampled --load nothing"
refuse 'rank 1: nothing' "${command[@]}"

# A folder of checkpoints that ranks do not share: none, of another step, of other weights.
"$coop" $sampled --epochs 1 --checkpoint one && "$coop" $sampled --checkpoint two
two "$coop" "$sampled --resume=auto --checkpoint one" "$coop" "$sampled --resume=auto --checkpoint none"
refuse "rank 1: --resume: found 'no checkpoint', expected 'step .*' as rank 0 has" "${command[@]}"
two "$coop" "$sampled --resume --checkpoint one" "$coop" "$sampled --resume --checkpoint none"
refuse 'rank 1: .*no checkpoint' "${command[@]}"
two "$coop" "$sampled --resume --checkpoint one" "$coop" "$sampled --resume --checkpoint two"
refuse "rank 1: --resume: found 'step 6, .*', expected 'step 3, .*' as rank 0 has" "${command[@]}"
"$coop" $sampled --epochs 1 --seed 4 --checkpoint four
two "$coop" "$sampled --resume --checkpoint one" "$coop" "$sampled --resume --checkpoint four"
refuse "rank 1: --resume: found 'step 3, .*', expected 'step 3, .*' as rank 0 has" "${command[@]}"

# All alike train, and go on from another path.
"${launch[@]}" -np 2 "$coop" $sampled --checkpoint alike 2>stderr || complain "alike: $(cat stderr)"
"${launch[@]}" -np 2 "$coop" ${sampled/.\/d/copy} --epochs 3 --checkpoint alike --resume 2>stderr || complain "alike, resumed: $(cat stderr)"

exit $failed
