#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Outputs are checked before the first step: names, two outputs in one file, two runs with one output. A run that is refused leaves no file
# and changes none. Pipes, /dev/null and standard output take outputs.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

generate d --vertices 300 --edges 2000 --features 8 --classes 3
mkdir work && cd work || exit 99
run=("$coop_sage" --dataset ../d --cache none --layers 2 --hidden 8 --batch-size 50 --fanout 3,3 --cpus 1 --quiet)
long=$(printf 'x%.0s' {1..256})
names=(metrics save predict embed)

expect_nothing()
{
    [[ -z $(ls -A) ]] || complain "$1: expected no file, found: $(ls -A | cut -c 1-60)"
    find . -mindepth 1 -delete
}

# ---- names ----

for name in "${names[@]}"; do
    refuse "$name.*too long" "${run[@]}" --epochs 100000 "--$name" "$long"
    expect_nothing "--$name with a long name"
    "${run[@]}" --epochs 1 "--$name" "${long:1}" 2>../stderr && [[ -s ${long:1} && $(ls -A | wc -l) -eq 1 ]] ||
        complain "--$name with the longest name: $(cat ../stderr)"
    rm -f "${long:1}"
    echo kept >m
    refuse 'too long' "${run[@]}" --epochs 100000 --metrics m "--$name" "$long"
    [[ $name == metrics || $(cat m) == kept ]] || complain "a run that was refused changed its metrics"
    rm -f m
done
refuse 'too long' "$starling_data" partition ../d --parts 2 --out "$long"
refuse 'too long' "$starling_data" generate --out "$long"
expect_nothing 'starling_data'
refuse 'nowhere' "${run[@]}" --epochs 1 --dataset ../nowhere --checkpoint kept --metrics m --save s
expect_nothing 'a run without a dataset'

# ---- one file for two outputs ----

refuse 'which --(save|predict) writes too' "${run[@]}" --save a --predict ./a
refuse 'which --.* writes too' "${run[@]}" --metrics "$PWD/a" --embed a
expect_nothing 'two outputs in one file'

# ---- outputs on inputs ----

data=(--cache none --layers 2 --hidden 8 --batch-size 5 --fanout 3,3 --epochs 1 --quiet)
mkdir tables && printf '%s\n' src,dst 0,1 1,2 2,3 3,4 >tables/edges.csv
printf '%s\n' id,a,label,split 0,1,0,train 1,2,1,train 2,1,0,valid 3,2,1,test 4,1,0,test >tables/nodes.csv
"$starling_data" generate --vertices 50 --edges 100 --features 2 --classes 2 --out raw >../stdout 2>../stderr || complain 'no dataset'
cp -r . ../copy
for name in metrics save; do
    refuse 'a file of the dataset' "$coop_sage" --dataset ./tables "${data[@]}" "--$name" tables/../tables/edges.csv
done
refuse 'a file of the dataset' "$pipe_gnn" --dataset ./tables --layers 2 --cache none --predict tables/nodes.csv
refuse 'a file of the dataset' "$coop_sage" --dataset ./raw "${data[@]}" --embed raw/raw/node-feat.npy
refuse 'a file of the dataset' "$starling_data" split ./tables random:60,20,20 --cache none --out tables/nodes.csv
refuse 'a file of the dataset' "$starling_data" partition ./tables --parts 2 --cache none --out tables/nodes.csv
refuse 'a dataset of tables' "$starling_data" generate --vertices 50 --edges 100 --classes 2 --out tables
printf '%s\n' 1 2 >../copy/w && cp ../copy/w w && refuse 'which this run reads' "$coop_sage" --dataset ./tables "${data[@]}" --class-weights w --save ./w
diff -r . ../copy || complain 'an output replaced an input'
rm -rf ./* ../copy

# ---- one output for two runs ----

"${run[@]}" --epochs 1000000 --metrics m --metrics-steps --save s --predict p --embed e 2>../first &
first=$!
for ((i = 0; i < 1200 && $(cat m 2>../ignored | wc -l) < 50; i++)); do sleep 0.05; done
files=(m s p e)
for i in 0 1 2 3; do
    for j in 0 1 2 3; do
        refuse "--${names[j]} .*found process $first " "${run[@]}" --epochs 1 "--${names[j]}" "${files[i]}"
    done
done
kill -s TERM $first
wait $first || complain "the first of two runs: exit code $?, $(cat ../first)"
[[ $(head -c 18 m) == '{"event":"config",' && $(grep -vc '^{"event":.*}$' m) -eq 0 && $(wc -l <m) -ge 50 ]] || complain "the metrics of the first run: $(grep -v '^{"event":.*}$' m | head -n 3)"
[[ -s s && -s p && -s e ]] || complain "the first run did not write its files: $(ls)"
"${run[@]}" --epochs 1 --metrics m --save s --predict p --embed e 2>../stderr || complain "after another run: $(cat ../stderr)"
rm -f ./*

"${run[@]}" --epochs 1000000 --metrics m --metrics-steps --save s 2>../first &
first=$!
for ((i = 0; i < 1200 && $(cat m 2>../ignored | wc -l) < 50; i++)); do sleep 0.05; done
{ kill -s KILL $first && wait $first; } 2>../ignored
[[ $(ls -A) == m ]] || complain "a killed run left: $(ls -A)"
"${run[@]}" --epochs 1 --metrics m --save s 2>../stderr || complain "after a killed run: $(cat ../stderr)"
rm -f ./*

# Traces go into a folder, which the first run makes.
if "${run[@]}" --epochs 1 --trace probe 2>../stderr; then
    "${run[@]}" --epochs 1000000 --metrics m --metrics-steps --trace t 2>../first &
    first=$!
    for ((i = 0; i < 1200 && $(cat m 2>../ignored | wc -l) < 50; i++)); do sleep 0.05; done
    refuse "--trace .*found process $first " "${run[@]}" --epochs 1 --trace t
    kill -s TERM $first
    wait $first || complain "the first of two traced runs: exit code $?, $(cat ../first)"
    refuse 'nowhere' "${run[@]}" --epochs 1 --trace made --save nowhere/s
    [[ ! -e made ]] || complain 'a run that was refused left a folder of traces'
fi
rm -rf ./*
refuse "--embed: found 'e.csv', expected a name that ends in .npy" "${run[@]}" --epochs 1 --embed e.csv
expect_nothing 'embeddings of another ending'

# ---- some vertices ----

"${run[@]}" --epochs 1 --pes 2 --batch-size 25 --predict all.csv && grep -E '^(id|3|17|250),' all.csv >wanted || complain 'no predictions'
printf '%s\n' 250 3 17 >some.csv
awk 'BEGIN { for (v = 0; v < 300; v++) print (v == 3 || v == 17 || v == 250) }' | gzip >mask.csv.gz
for list in some.csv mask.csv.gz; do
    "${run[@]}" --epochs 1 --pes 2 --batch-size 25 --predict few.csv --predict-vertices $list 2>../stderr && cmp -s few.csv wanted ||
        complain "--predict-vertices $list: $(cat few.csv ../stderr)"
done
"${run[@]}" --epochs 1 --predict all.npy && "${run[@]}" --epochs 1 --predict few.npy --embed all-e.npy --predict-vertices some.csv || complain 'no rows'
for row in 0:3 1:17 2:250; do # of three floats, behind a header of 128 bytes
    cmp -s -n 12 -i $((128 + 12 * ${row%:*})):$((128 + 12 * ${row#*:})) few.npy all.npy || complain "--predict-vertices: row $row"
done
[[ $(stat -c %s few.npy) -eq $((128 + 36)) ]] || complain "--predict-vertices: $(stat -c %s few.npy) bytes"
"$pipe_gnn" --dataset ../d --cache none --layers 2 --hidden 8 --epochs 1 --cpus 1 --quiet --model gcn --predict few.csv --predict-vertices some.csv &&
    [[ $(cut -d, -f1 few.csv | xargs) == 'id 3 17 250' ]] || complain "pipe_gnn: $(cat few.csv)"
mkdir named
printf '%s\n' source,target a,b b,c c,d d,e >named/edges.csv
printf '%s\n' id,x,label,split d,0,0,train b,2,1,train '"e, f"',0,0,valid a,1,1,test c,1,0,test >named/nodes.csv
sed -i 's/d,e/d,"e, f"/' named/edges.csv
named=("$coop_sage" --dataset ./named --cache none --layers 1 --hidden 4 --epochs 1 --cpus 1 --quiet --predict few.csv --predict-vertices)
printf '%s\n' c '"e, f"' '' d >names.csv
"${named[@]}" names.csv 2>../stderr && [[ $(cut -d, -f1,2 few.csv | xargs -d '\n') == 'id,class d,'*' "e,'*' c,'* ]] ||
    complain "names in --predict-vertices: $(cat few.csv ../stderr)"
printf '%s\r\n' 0 0 1 1 0 >names.csv # a mask, though the names are such, too
mkdir ones && sed 's/\<a\>/1/g; s/\<b\>/0/g' named/edges.csv >ones/edges.csv && sed 's/^a,/1,/; s/^b,/0,/' named/nodes.csv >ones/nodes.csv
"${named[@]/named/ones}" names.csv 2>../stderr && [[ $(cut -d, -f1 few.csv | xargs -d '\n') == 'id "e 1' ]] ||
    complain "a mask beside numbers as names: $(cat few.csv ../stderr)"
for bad in 'c x:names.csv:2: expected the id of a vertex, each at most once, found .x' 'c c:names.csv:2: expected .* found .c' 'c d,1:found .d'; do
    printf '%s\n' ${bad%%:*} >names.csv
    refuse "${bad#*:}" "${named[@]}" names.csv
done
rm -rf few.csv named ones names.csv
for bad in '300:expected .*below 300' '3 17 3:3 .*twice|comes' ':found none' 'a:expected'; do
    printf '%s\n' ${bad%%:*} | grep . >list.csv
    refuse "${bad#*:}" "${run[@]}" --epochs 1 --predict few.csv --predict-vertices list.csv
done
refuse '--predict-vertices: expected --predict, too' "${run[@]}" --epochs 1 --predict-vertices some.csv
refuse 'which this run reads' "${run[@]}" --epochs 1 --predict some.csv --predict-vertices some.csv
refuse 'link' "${run[@]}" --epochs 1 --predict few.csv --predict-vertices some.csv --objective link
[[ ! -e few.csv ]] || complain 'a run that was refused left predictions'
rm -f ./*

# ---- other targets ----

"${run[@]}" --epochs 1 --metrics /dev/null --save /dev/null --predict /dev/null --embed /dev/null 2>../stderr || complain "/dev/null: $(cat ../stderr)"
for name in "${names[@]}"; do
    "${run[@]}" --epochs 1 "--$name" file 2>../stderr
    "${run[@]}" --epochs 1 "--$name" /dev/stdout 2>../stderr | cat >piped
    "${run[@]}" --epochs 1 "--$name" /dev/stdout 2>../stderr >stdout
    mkfifo pipe && { cat pipe >from_pipe & } && "${run[@]}" --epochs 1 "--$name" pipe 2>../stderr
    wait
    for other in piped stdout from_pipe; do
        if [[ $name == metrics ]]; then
            cmp -s <(figures file) <(figures $other) || complain "--metrics: $other differs: $(head -c 200 $other)"
        else
            cmp -s file $other || complain "--$name: $other differs"
        fi
    done
    rm -f ./*
done
# Lines of the run and metrics in one file: none is lost.
"${run[@]:0:${#run[@]}-1}" --epochs 2 --metrics /dev/stdout >both 2>../stderr
[[ $(grep -c '^{"event":.*}$' both) -eq 4 && $(grep -c '^epoch .*/2' both) -eq 2 && $(grep -c '^dataset' both) -eq 1 ]] || complain "lines and metrics in one file: $(cat both)"

exit $failed
