#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# A model's file needs a dataset and nothing else: scores of the same graph, of its vertices, types and relations in
# another order, of a part of it, and of vertices without labels. What contradicts the file is refused.
# --predict FILE.csv; starling_data info FILE.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# close ONE.csv TWO.csv [BOUND]: all lines of TWO are in ONE, with the same texts. Numbers differ by less than BOUND (1e-6)
# times the largest of ONE: sums of float in another order.
close()
{
    awk -F, -v bound="${3:-1e-6}" '
        function size(x) { return x < 0 ? -x : x + 0 }
        NR == FNR {
            for (i = 2; i <= NF; i++) {
                one[$1, i] = $i
                if (FNR > 1 && size($i + 0) > most) most = size($i + 0)
            }
            n[$1] = NF
            next
        }
        n[$1] != NF { print "line " $1; exit 1 }
        {
            for (i = 2; i <= NF; i++) {
                if ($i == one[$1, i]) continue
                if ($i ~ /^[-0-9.e+]+$/ && size($i - one[$1, i]) <= bound * (most > 1 ? most : 1)) continue
                print $0 "; " one[$1, i]
                exit 1
            }
        }' "$1" "$2"
}

# ---- vertices with names: two components of a graph, in two orders, and one of them alone ----

# make FOLDER ORDER [TARGETS]: vertices 0 .. 79, of which 0 .. 39 and 40 .. 79 have no edge in common. TARGETS: class, sets or
# number; without: no targets and no split.
make()
{
    mkdir -p "$1"
    awk -v folder="$1" -v order="$2" -v targets="${3-}" 'BEGIN {
        srand(4); n = 80; split("ant,bee,cow", name, ",")
        for (v = 0; v < n; v++) { x[v] = v % 3 + rand() - 0.8; y[v] = 40 * rand() - 9 }
        header = targets == "sets" ? ",label_wet,label_big" : ",label"
        print "id,f,g" (targets != "" ? header ",split" : "") >folder "/nodes.csv"
        for (i = 0; i < (order == "part" ? 40 : n); i++) {
            v = order == "back" ? n - 1 - i : i
            line = "v" v "," x[v] "," y[v]
            set = v % 40 < 20 ? "train" : v % 40 < 30 ? "valid" : "test"
            if (targets == "class") line = line "," name[v % 3 + 1] "," set
            if (targets == "sets") line = line "," (v % 3 == 0) "," (y[v] > 5) "," set
            if (targets == "number") line = line "," x[v] + y[v] / 10 "," set
            print line >folder "/nodes.csv"
        }
        print "src,dst,weight" >folder "/edges.csv"
        for (e = 0; e < 400; e++) {
            a = int(40 * rand()); b = int(40 * rand()); w = 1 + int(5 * rand()); c = 40 * (e % 2)
            if (order != "part" || c == 0) print "v" a + c ",v" b + c "," w >folder "/edges.csv"
        }
    }'
}

make known same class
make sets same sets
make numbers same number
make back back
make part part
make labelled back class
small="--cache none --hidden 8 --cpus 2 --quiet"
score="--cache none --quiet --epochs 0"

# try DATASET PROGRAM OPTION...: train on it, and score all.
try()
{
    local known=$1 program=$2 data header
    shift 2
    "$program" --dataset ./$known $small --epochs 2 --lr 0.02 --save m.safetensors --predict known.csv "$@" 2>stderr ||
        { complain "$*: $(cat stderr)"; return; }
    for data in back part labelled $known; do
        [[ $known == known || $data != labelled ]] || continue
        "$program" --dataset ./$data $score --load m.safetensors --predict $data-2.csv 2>stderr ||
            { complain "$known, $*, $data: $(cat stderr)"; continue; }
        close known.csv $data-2.csv >line || complain "$known, $*, $data: other scores: $(cat line)"
        [[ ! -s stderr ]] || complain "$known, $*, $data: advice that a loaded model would refuse: $(cat stderr)"
    done
    cmp known.csv $known-2.csv >line 2>&1 || complain "$known, $*: the same graph has other bits: $(cat line)"
    case $known in
    known) header=id,class,ant,bee,cow ;;
    sets) header=id,wet,big ;;
    numbers) header=id,number0 ;;
    esac
    [[ $(head -n 1 back-2.csv) == "$header" && $(wc -l <part-2.csv) -eq 41 ]] ||
        complain "$known, $*: $(head -n 2 back-2.csv)"
}

batch="--batch-size 20 --layers 2"
for options in "" "--normalize-features row" "--normalize-features column" "--directed" "--edge-weights factor" \
    "--features degree" "--features random:8 --seed 5" "--model gcn --normalize-features column" \
    "--model gat --heads 2 --norm batch" "--model gatv2 --heads 2 --skip --output-layers 2 --norm batch" "--model gcnii --alpha 0.3" "--model resgcn" "--model gin --directed" \
    "--input-layer --residual --norm layer --layers 3"; do
    try known "$coop_sage" $batch $options
done
for options in "--layers 2" "--model gcnii --layers 3 --normalize-features column" \
    "--model gin --layers 2 --directed --output-layers 1"; do
    try known "$pipe_gnn" $options
done

norms=(none row column none row column row column none row column none) # each model and each objective sees all
n=0
for known in sets numbers; do
    for model in sage gcn "gat --heads 2" gcnii resgcn gin; do
        try $known "$coop_sage" $batch --model $model --normalize-features "${norms[n++]}"
    done
    try $known "$pipe_gnn" --layers 2 --normalize-features column
done

# A graph without one of the classes.
"$coop_sage" --dataset ./known $small $batch --epochs 4 --save m.safetensors 2>stderr || complain "$(cat stderr)"
mkdir -p fewer && cp known/edges.csv fewer
awk -F, -v OFS=, 'NR > 1 && $4 == "ant" { $4 = ""; $5 = "" } 1' known/nodes.csv >fewer/nodes.csv
"$coop_sage" --dataset ./fewer $score --load m.safetensors --predict fewer.csv 2>stderr ||
    complain "fewer classes: $(cat stderr)"
[[ $(head -n 1 fewer.csv) == id,class,ant,bee,cow ]] || complain "fewer classes: $(head -n 1 fewer.csv)"

# ---- classes and label sets by name ----

# relabel FOLDER FROM RULE: FROM with other labels, by a rule of awk: the label is $4, the split $5.
relabel()
{
    mkdir -p "$1" && cp known/edges.csv "$1" && awk -F, -v OFS=, "NR == 1 { print; next } $3 { print }" "$2/nodes.csv" >"$1/nodes.csv"
}

# scores FOLDER MODEL: of the vertices to validate and to test.
scores()
{
    "$coop_sage" --dataset "./$1" --cache none --epochs 0 --load "$2" 2>stderr | grep -E '^(acc|f1|f1_micro|auc|ap) '
}

# alike FOLDER MODEL OTHER OF: the same scores, which are numbers.
alike()
{
    scores "$1" "$2" >one
    scores "$3" "$4" >two
    [[ -s one && $(cat one) != *" -"* ]] && cmp -s one two || complain "$1, $2: $(cat one); $3, $4: $(cat two) $(cat stderr)"
}

relabel gap known '$1 == "v79" { $4 = $5 = "" }'
relabel more known '$1 == "v79" { $4 = "aardvark" }' # moves the numbers of all
relabel counted known '{ sub("ant", 0, $4); sub("bee", 1, $4); sub("cow", 2, $4) }'
relabel one-two known '{ sub("ant", 1, $4); sub("bee", 2, $4); sub("cow", "x", $4) }'
for data in known counted one-two sets; do
    "$coop_sage" --dataset ./$data $small $batch --epochs 4 --save $data.safetensors 2>stderr || complain "$(cat stderr)"
done
alike gap known.safetensors more known.safetensors
grep -q "1 vertices have classes that the model does not know ('aardvark'; the model has 'ant', ..)" stderr ||
    complain "an unknown class: $(cat stderr)"
# Numbers are the names of classes without names, and nothing else.
scores counted known.safetensors >one
grep -q '^acc  *-  *-' one && grep -q "80 vertices have classes that the model does not know ('0'" stderr ||
    complain "numbers for names: $(cat one stderr)"
relabel counted-gap counted '$1 == "v79" { $4 = $5 = "" }'
relabel counted-floats counted '{ $4 = $4 ".0" }'
alike counted-floats counted.safetensors counted counted.safetensors
scores counted-floats counted.safetensors >one
[[ ! -s stderr ]] || complain "classes as floats: $(cat stderr)"
relabel counted-more counted '$1 == "v79" { $4 = "x" }'
alike counted-more counted.safetensors counted-gap counted.safetensors
relabel no-cow known '$4 == "cow" { $4 = $5 = "" }'
relabel numbered one-two '$4 == "x" { $4 = $5 = "" }'
alike numbered one-two.safetensors no-cow known.safetensors
mkdir -p turned-sets && cp sets/edges.csv turned-sets
awk -F, -v OFS=, '{ print $1, $2, $3, $5, NR == 1 ? "label_hot" : 1, $4, $6 }' sets/nodes.csv >turned-sets/nodes.csv
alike turned-sets sets.safetensors sets sets.safetensors

# What contradicts the file is refused by name.
for options in "--directed" "--hidden 256" "--normalize-features row" "--features degree" "--model gcn"; do
    "$coop_sage" --dataset ./back $score --load m.safetensors $options --predict p.csv >/dev/null 2>stderr
    [[ $? -eq 2 ]] || complain "$options: expected exit code 2: $(cat stderr)"
    grep -q -- "^coop_sage: ${options%% *}: found .*, expected .* m.safetensors was trained" stderr && ! grep -q "''" stderr ||
        complain "$options: $(cat stderr)"
done
for ending in txt csv.gz json; do
    "$coop_sage" --dataset ./back $score --load m.safetensors --predict p.$ending >/dev/null 2>stderr
    [[ $? -eq 2 ]] && grep -q 'expected a name that ends in .npy or .csv' stderr ||
        complain "--predict p.$ending: $(cat stderr)"
done

"$starling_data" info m.safetensors >stdout 2>stderr || complain "info: $(cat stderr)"
head -c -20 m.safetensors >cut.safetensors
"$starling_data" info cut.safetensors >stdout 2>stderr && complain 'info: a model that is cut short'
grep -q 'is it cut short' stderr || complain "info: a model that is cut short: $(cat stderr)"
"$starling_data" info m.safetensors >stdout
grep -q '^classes *ant, bee, cow' stdout && grep -q '^model *sage' stdout || complain "info: $(cat stdout)"

# ---- types and relations in another order ----

# typed FOLDER TYPES RELATIONS: types a (features of 2 columns), b (of 3) and c (none).
typed()
{
    mkdir -p "$1"/raw/node-feat/{a,b} "$1/raw/node-label/a" "$1/split/s/a"
    awk -v folder="$1" -v types="$2" -v relations="$3" 'BEGIN {
        srand(9); n["a"] = 40; n["b"] = 30; n["c"] = 20
        k = split(types, type, ",")
        for (i = 1; i <= k; i++) counts = counts (i > 1 ? "," : "") n[type[i]]
        print types "\n" counts >folder "/raw/num-node-dict.csv"
        for (v = 0; v < 40; v++) {
            print v % 2 >folder "/raw/node-label/a/node-label.csv"
            print v % 2 + rand() "," rand() >folder "/raw/node-feat/a/node-feat.csv"
            print v >folder "/split/s/a/" (v < 20 ? "train" : v < 30 ? "valid" : "test") ".csv"
        }
        for (v = 0; v < 30; v++) print rand() "," rand() "," rand() >folder "/raw/node-feat/b/node-feat.csv"
        k = split("a,likes,b;b,sees,a;c,has,a;a,near,a", all, ";")
        for (i = 1; i <= k; i++) {
            split(all[i], f, ",")
            where = folder "/raw/relations/" f[1] "___" f[2] "___" f[3]
            system("mkdir -p " where)
            for (e = 0; e < 60; e++) print int(n[f[1]] * rand()) "," int(n[f[3]] * rand()) >where "/edge.csv"
        }
        for (i = 1; i <= length(relations); i++) print all[substr(relations, i, 1)] >folder "/raw/triplet-type-list.csv"
    }'
}

typed first a,b,c 1234
typed second c,a,b 4213
for model in "rgcn --bases 2" "rgat --heads 2" "rgcn" "sage"; do
    "$coop_sage" --dataset ./first $small $batch --model $model --input-layer --epochs 3 --save t.safetensors \
        --predict first.csv 2>stderr || complain "$model: $(cat stderr)"
    "$coop_sage" --dataset ./second $score --load t.safetensors --predict second.csv 2>stderr ||
        { complain "$model: $(cat stderr)"; continue; }
    # Of type a: the first 40 vertices, then those after the 20 of type c.
    head -n 41 first.csv >one.csv
    awk -F, -v OFS=, 'NR == 1 { print; next } $1 >= 20 && $1 < 60 { $1 -= 20; print }' second.csv >two.csv
    [[ $(wc -l <two.csv) -eq 41 ]] || complain "$model: $(wc -l <two.csv) lines"
    close one.csv two.csv >line || complain "$model: types and relations in another order: $(cat line)"
done
typed unknown a,b,c 1234
sed -i 's/likes/hates/' unknown/raw/triplet-type-list.csv
mv unknown/raw/relations/a___likes___b unknown/raw/relations/a___hates___b
"$coop_sage" --dataset ./unknown $score --load t.safetensors --predict u.csv >/dev/null 2>stderr &&
    complain 'an unknown relation was taken'
grep -q "relation: found 'a,hates,b', which the model in t.safetensors does not know" stderr ||
    complain "unknown relation: $(cat stderr)"
typed missing a,b,c 234
"$coop_sage" --dataset ./missing $score --load t.safetensors --predict u.csv 2>stderr ||
    complain "missing relation: $(cat stderr)"
grep -q "warning: relation 'a,likes,b' of the model is not in the dataset" stderr ||
    complain "missing relation: $(cat stderr)"

# A type without vertices scores as one without edges; so does an unknown type.
typed lonely a,b,c 1234
for relation in a___likes___b b___sees___a; do : >lonely/raw/relations/$relation/edge.csv; done
cp -r lonely none && sed -i '1s/$/,d/; 2s/,30,/,0,/; 2s/$/,0/' none/raw/num-node-dict.csv && rm -r none/raw/node-feat/b
for data in lonely none; do
    "$coop_sage" --dataset ./$data $score --load t.safetensors --predict $data.csv 2>stderr ||
        complain "$data: $(cat stderr)"
    head -n 41 $data.csv >$data.a.csv
done
[[ $(wc -l <lonely.csv) -eq 91 && $(wc -l <none.csv) -eq 61 ]] && cmp lonely.a.csv none.a.csv || complain 'a type without vertices: other scores'
"$coop_sage" --dataset ./none $small $batch --model rgat --heads 2 --epochs 1 2>stderr || complain "a type without vertices: $(cat stderr)"

# ---- columns ----

"$coop_sage" --dataset ./known $small --epochs 1 --save m.safetensors 2>stderr || complain "$(cat stderr)"
mkdir -p turned named
cp back/edges.csv turned
cp back/edges.csv named
awk -F, -v OFS=, '{ print $1, $3, $2 }' back/nodes.csv >turned/nodes.csv
sed '1s/.*/id,f,h/' back/nodes.csv >named/nodes.csv
"$coop_sage" --dataset ./turned $score --load m.safetensors --predict c.csv 2>stderr && complain 'other columns were taken'
grep -q "found the column 'g' in 'turned' where the model in m.safetensors has 'f'" stderr ||
    complain "other columns: $(cat stderr)"
"$coop_sage" --dataset ./named $score --load m.safetensors --predict c.csv 2>stderr || complain "$(cat stderr)"
grep -q "warning: named: the column 'h' is taken for 'g' of the model" stderr || complain "another name: $(cat stderr)"
mkdir -p latin
cp known/edges.csv latin
sed '1s/g/gr\xfc/' known/nodes.csv >latin/nodes.csv
"$coop_sage" --dataset ./latin $small --epochs 1 --save l1.safetensors 2>stderr || complain "a column: $(cat stderr)"
sed '2s/ant/\xfcnt/' known/nodes.csv >latin/nodes.csv
"$coop_sage" --dataset ./latin $small --epochs 1 --save l2.safetensors 2>stderr && complain 'no UTF-8 was taken'
grep -aq "expected names of classes in UTF-8" stderr || complain "no UTF-8: $(cat stderr)"

# ---- links ----

links="--objective link --split random:80,10,10"
printf '0,3\n1,5\n7,2\n' >pairs.csv
printf 'v0,v3\n "v1" ,v5\r\nv7,v2\n' >named.csv
for options in "--decoder distmult" "--decoder mlp" "--model gcn --normalize-features column" "--model gat --heads 2" \
    "--model gcnii --alpha 0.3 --normalize-features row" "--model resgcn" "--model gin --normalize-features column" ""; do
    "$coop_sage" --dataset ./known $small $batch $links $options --epochs 2 --save l.safetensors --predict trained.csv \
        --pairs pairs.csv 2>stderr || { complain "links: $options: $(cat stderr)"; continue; }
    # With the split of training the graph lacks the same links.
    "$coop_sage" --dataset ./known $score $links --load l.safetensors --predict again.csv --pairs pairs.csv 2>stderr ||
        complain "links: $options: $(cat stderr)"
    cmp trained.csv again.csv || complain "links: $options: the same graph has other bits: $(cat again.csv)"
    for data in known back part; do
        "$coop_sage" --dataset ./$data $score --load l.safetensors --predict $data-n.csv --pairs named.csv 2>stderr ||
            complain "links: $options, $data: $(cat stderr)"
        # Lines differ by the pair. A decoder multiplies two rows, so their rounding errors grow.
        sed 's/,/-/' $data-n.csv >$data-p.csv
        close known-p.csv $data-p.csv 1e-5 >line || complain "links: $options, $data: other scores: $(cat line)"
    done
    [[ $(cut -d, -f 1-2 known-n.csv | tr '\n' ' ') == 'source,target v0,v3 v1,v5 v7,v2 ' ]] ||
        complain "links: $options: $(cat known-n.csv)"
done
"$coop_sage" --dataset ./known $score --load l.safetensors --predict known-l.csv --pairs pairs.csv 2>stderr ||
    complain "links by number: $(cat stderr)"
cmp known-l.csv known-n.csv || complain "links by number: $(cat known-l.csv)"
for wrong in v0 v0,v999 v0,v1,v2 v999,v0; do
    echo "$wrong" >wrong.csv
    "$coop_sage" --dataset ./known $score --load l.safetensors --predict w.csv --pairs wrong.csv 2>stderr &&
        complain "links by name: $wrong was taken"
    grep -q "wrong.csv:1: expected 'source,destination', two ids" stderr || complain "$wrong: $(cat stderr)"
done

exit $failed
