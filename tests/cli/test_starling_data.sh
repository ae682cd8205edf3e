#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# apps/starling_data: its commands one after the other, what they print, and their exit codes.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$starling_data

# Help, and usage errors: exit code 2, one line.
for command in info generate partition split; do
    expect 0 "Usage: starling_data $command" $command --help
    expect 2 'has no such option' $command --nonsense=x
done
expect 0 'partition +Cut a graph' --help
expect 0 '^starling_data [0-9]' --version
expect 0 '^products +.*OpenBLAS' info
expect 2 'expected a command: info, generate'
expect 2 'partion: expected a command' partion
expect 2 '--cach: .*did you mean --cache\?' info --cach=none
expect 2 '--parts' partition x --parts 0
expect 2 '--out: generate needs' generate
expect 2 'convert: this is a command of the Python package now: starling convert$' convert x --to metis
expect 2 'plot: this is a command of the Python package now: starling plot' plot run
expect 2 'report: .*starling report' report DIR

# Generate; the same twice is the same.
expect 0 '' generate --vertices 3000 --edges 20000 --classes 5 --features 12 --homophily 0.7 --seed 3 --out made
expect 0 '' generate --vertices 3000 --edges 20000 --classes 5 --features 12 --homophily 0.7 --seed 3 --out again
expect 0 '' generate --vertices 3000 --edges 20000 --classes 5 --features 12 --homophily 0.7 --seed 4 --out other
diff -r made again >/dev/null || complain 'generate: equal seeds gave different files'
diff -r made other >/dev/null && complain 'generate: different seeds gave equal files'
cp -r made arrays && "$top_srcdir/tests/as_text" made
diff <("$program" info ./made --cache none | tail -n +2) <("$program" info ./arrays --cache none | tail -n +2) || complain 'text and arrays differ'
[[ $(gzip -dc made/raw/edge.csv.gz | wc -l) -eq 20000 ]] || complain 'generate: expected 20000 edges'
[[ $(gzip -dc made/raw/node-feat.csv.gz | head -n 1 | tr ',' '\n' | wc -l) -eq 12 ]] || complain 'generate: expected 12 features'
expect 1 "does not know 'cora'; it knows arxiv-synthetic" generate cora --out x
expect 1 'classes of 2 or more vertices' generate --vertices 3 --out x
expect 0 '' generate arxiv --vertices 400 --sparse --features 300 --out words
expect 0 'features +300, CSR float32, [3-6]\.[0-9]+ % non-zero' info ./words --cache none
touch file
expect 1 'file' generate --vertices 100 --out file/x

# Describe.
expect 0 '^starling +[0-9]' info
expect 0 '^gpus +(none: |.* GiB$)' info
expect 0 '^limits +.* processors, .* memory, by control groups and ulimit$' info
if command -v taskset >/dev/null; then # one hardware thread of those allowed
    first=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
    plain=$program
    program=bound
    bound()
    {
        taskset -c "$first" "$plain" "$@"
    }
    expect 0 '^machine +1 cores, 1 hardware threads, 1 NUMA nodes' info
    expect 0 '^workers +1 CPU workers, one BLAS thread each' info
    program=$plain
fi
expect 0 '^vertices +3000, ' info ./made --cache none
expect 0 '^split +random: train 1800, valid 600, test 600$' info ./made --cache none
expect 0 '^homophily +0\.[67]' info made --data-path "$folder" --cache none
expect 1 "dataset 'nothing' is not in" info nothing
expect 1 "no split 'x'; --split can be one of: random" info ./made --split x --cache none
[[ -e made/starling-cache ]] && complain 'info --cache none wrote a cache'
expect 0 '^dataset +made$' info ./made
[[ -e made/starling-cache ]] || complain 'info wrote no cache beside the data'
rm -r made/starling-cache

# A form that training does not read: one line, with the command that makes a dataset.
for name in a.graph a.mtx a.npz a.pt a.parquet a.csv; do
    : >$name
    expect 1 "^starling_data: \\./$name: training does not read this form; make a dataset of it: starling convert \\./$name --out NAME\$" info ./$name
done
mkdir -p bolt && : >bolt/metadata.yaml
expect 1 'found metadata.yaml; of another form make one: starling convert \./bolt --out NAME$' info ./bolt
mkdir -p packed/raw && : >packed/raw/data.npz
expect 1 'packed/raw/data.npz: training does not read .npz; .*: starling convert \./packed --out NAME$' info ./packed

# Split: lists in a folder, which are those of --split; and a table.
cp -r made copy
expect 0 '^split +random:60,20,20 of vertices: train 1800, valid 600, test 600$' split ./made random:60,20,20 --out copy/split/drawn --cache none
expect 0 '^split +drawn: train 1800, valid 600, test 600$' info ./copy --split drawn --cache none
for list in train valid test; do
    [[ -s copy/split/drawn/$list.csv ]] || complain "split: no $list.csv"
done
expect 0 '' split ./made random:60,20,20 --out other.csv --seed 2 --cache none
[[ $(cut -d, -f2 other.csv | sort | uniq -c | tr -s ' \n' ' ') == ' 1 split 600 test 1800 train 600 valid ' ]] || complain 'split: the table'
diff <(awk -F, '$2 == "test" { print $1 }' other.csv) copy/split/drawn/test.csv >/dev/null && complain 'split: expected another with another seed'
expect 0 '^split +random:80,10,10 of links: ' split ./made random:80,10,10 --links --cache none --out lists
[[ $(sort lists/*.csv | uniq -d | wc -l) -eq 0 && $(cat lists/*.csv | wc -l) -gt 18000 ]] || complain 'split: links'
mkdir quoted && printf 'src,dst\n"a ""b""",c\n' >quoted/edges.csv && printf 'id,label\n"a ""b""",0\nc,0\nd,0\n' >quoted/nodes.csv
expect 0 '' split ./quoted random:40,30,30 --out quoted.csv --cache none
[[ $(cut -d, -f1 quoted.csv) == $'id\n"a ""b"""\nc\nd' ]] || complain "split: the ids of a table: $(cat quoted.csv)"
expect 1 'expected percentages to draw' split ./made time --out x
expect 1 "found 's.csv.gz', expected a folder, or a table FILE.csv" split ./made random:60,20,20 --out s.csv.gz --cache none
: >copy/split/drawn/train.npy && rm copy/split/drawn/train.csv
expect 1 ' --out: copy/split/drawn/train.npy: the table is there already' split ./made random:60,20,20 --out copy/split/drawn --cache none
mv copy/split/drawn/train.npy copy/split/drawn/train.npz
expect 1 'train.npz: the table is there already' split ./made random:60,20,20 --out copy/split/drawn --cache none
[[ ! -e copy/split/drawn/train.csv && ! -e s.csv.gz ]] || complain 'split: a split that was refused was written'
expect 1 'sum to 100' split ./made random:60,20,10 --out x
cp -r made bare && rm -r bare/raw/node-label* bare/split
expect 1 'of 0 vertices with a label' split ./bare random:60,20,20 --out x --cache none
rm -r bare
expect 1 'expected a folder for lists of links' split ./made random:60,20,20 --links --out x.csv
expect 2 '--out: split needs' split ./made random:60,20,20
rm -r copy/split/drawn

# said PATTERN STATUS ARGUMENT...: one line on standard error that matches, beside what is printed.
said()
{
    local pattern=$1 wanted=$2 status
    shift 2
    "$program" "$@" >stdout 2>stderr
    status=$?
    [[ $status -eq $wanted ]] || complain "$*: expected exit code $wanted, found $status: $(cat stderr)"
    [[ $(wc -l <stderr) -eq 1 ]] && grep -Eq -- "$pattern" stderr || complain "$*: expected one line '$pattern', found: $(cat stderr)"
}

# What is not used, or not there, is said; classes are those of vertices.
cp -r made edged
printf '0.5,1\n' | gzip >edged/raw/edge-feat.csv.gz
said '^starling_data: warning: ./edged/raw/edge-feat.csv.gz: is not used without --edge-features$' 0 info ./edged --cache none
rm -r edged
mkdir few && printf 'src,dst,weight\n0,1,7\n1,2,7\n' >few/edges.csv
said '^starling_data: warning: few: found 3 vertices for 5 parts: 2 parts are empty$' 0 partition ./few --parts 5 --method none --cache none
expect 0 '^weights +of edges: 7 to 7, mean 7$' info ./few --cache none
expect 0 '^features +1, dense' info ./few --features degree --cache none
expect 1 'a folder of edges.csv, which has no split; leave out --split, or draw one: --split random:60,20,20$' info ./few --split x
expect 1 'a file has no folder for --features x.csv; it can be degree, onehot or random:64$' info ./few --features x.csv
cp -r made bare && rm -r bare/split bare/raw/num-* bare/raw/node-label.csv.gz
expect 0 '^split +none: train 0, valid 0, test 0$' info ./bare --cache none
rm bare/raw/node-feat.csv.gz
expect 0 '^features +none$' info ./bare --cache none
expect 0 '^cross-edge' partition ./bare --parts 3 --cache none
mkdir -p gaps/raw && printf '0,1\n' >gaps/raw/edge.csv && printf '0\n7\n' >gaps/raw/node-label.csv && printf '1\n2\n' >gaps/raw/node-feat.csv
expect 0 '^classes +2, of 1 to 1 vertices' info ./gaps --cache none
expect 0 '^labels +0 to 7; a model counts the classes that no vertex has, too: 1, 2, 3, 4, 5, 6$' info ./gaps --cache none
for file in split/s/split_dict.pt split_dict.pt raw/split_dict.pt; do
    mkdir -p gaps/split/s && : >gaps/$file
    "$program" info ./gaps --cache none >/dev/null 2>stderr
    grep -q "warning: ./gaps/$file: is not used\$" stderr || complain "$file is not named: $(cat stderr)"
    rm gaps/$file
done
mkdir -p gaps/split/s && touch gaps/split/s/val.csv gaps/split/s/train.pt gaps/raw/node_feat.npy
"$program" info ./gaps --cache none >/dev/null 2>stderr
for file in split/s/val.csv split/s/train.pt raw/node_feat.npy; do
    grep -q "warning: ./gaps/$file: is not used\$" stderr || complain "$file is not named: $(cat stderr)"
done
rm -r gaps/split gaps/raw/node_feat.npy
printf 'src,dst\n0,1\n' >gaps/edges.csv
said '^starling_data: ./gaps: found both raw and a table edges, .*; expected one of them$' 1 info ./gaps --cache none
rm gaps/edges.csv
printf 'f\n1\n2\n' >gaps/raw/node-feat.csv
said '^starling_data: ./gaps/raw/node-feat.csv:1: expected 2 lines, as .*node-label.csv has, found 3; is line 1 a header' 1 info ./gaps --cache none
printf 'nan\n2\n' >gaps/raw/node-feat.csv
said "^starling_data: ./gaps/raw/node-feat.csv:1: expected 1 finite numbers.*, found 'nan'\$" 1 info ./gaps --cache none
STARLING_PART=7 said 'STARLING_PART is set, but no program of Starling reads it; did you mean STARLING_PARTS\?$' 0 partition ./made --method none --cache none
STARLING_STAGES=2 STARLING_OUT=parts.of expect 0 '' partition ./made --method none --cache none
for name in ogbn-arxiv ogbn-products cora; do
    expect 1 "dataset '$name' is not in .*; on the data path: .*made" info $name --data-path "$folder"
done
expect 1 "did you mean made\?" info mode --data-path "$folder"
said '^starling_data: generating arxiv-synthetic: 169343 vertices' 0 info arxiv-synthetic --data-path none --cache generated
expect 0 '^dataset +arxiv-synthetic \(generated\)' info arxiv-synthetic --data-path none --cache generated
said '^starling_data: warning: --dataset arxiv: .*SYNTHETIC' 0 info arxiv --data-path none --cache generated
for name in ogbn_arxiv/split products; do
    mkdir -p half/$name
    expect 1 "half/${name%/split}: no dataset: expected a file raw/edge.csv.gz .*, found " info "$(sed 's/^ogbn_//; s,/.*,,' <<<$name)" --data-path half
done

# Partition: the figures, and the file of parts.
expect 0 '^cross-edge +0\.[1-6]' partition ./made --parts 3 --cache none
expect 0 '^balance +vertices +1\.0[0-5]' partition ./made --parts 3 --cache none
expect 0 '^balance +train +1\.0[0-5]' partition ./made --parts 3 --cache none --out parts
[[ $(wc -l <parts) -eq 3000 && $(sort -u parts | tr '\n' ' ') == '0 1 2 ' ]] || complain 'partition: wrong file of parts'
expect 0 '^partition +random, 5 parts' partition ./made --parts 5 --method random --cache none
expect 0 '^partition +stream, 3 parts' partition ./made --parts 3 --method stream --cache none --out clustered
expect 0 '' partition ./made --parts 3 --method stream --cache none --out repeated
[[ $(sort -u clustered | tr '\n' ' ') == '0 1 2 ' ]] && cmp clustered repeated || complain 'partition: not the same clusters'
expect 0 '^cross-edge +0.0000' partition ./made --parts 1 --cache none
mkfifo pipe
timeout 20 cat pipe >parts.through &
expect 0 '' partition ./made --parts 3 --cache none --out pipe
wait # for the reader
[[ -p pipe ]] && cmp parts parts.through || complain 'partition: a pipe was not written in place'
STARLING_PARTS=7 expect 0 '7 parts' partition ./made --method none --cache none

# A full disk is an error.
if [[ -c /dev/full ]]; then
    "$program" info ./made --cache none >/dev/full 2>stderr
    [[ $? -eq 1 ]] || complain 'info to a full disk: expected exit code 1'
fi

exit $failed
