#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# starling_data plot: what the pictures show, runs of every kind, and broken input.

set -u
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
command -v python3 >/dev/null || skip 'python3 is missing'

# Fontconfig keeps its configuration until the program ends. The leak sanitizer does not see all pointers to it.
echo 'leak:libfontconfig' >suppressions
export LSAN_OPTIONS=suppressions=$folder/suppressions:print_suppressions=0

# plot ARGUMENT ...: must succeed and print the path of a picture.
plot()
{
    timeout 60 "$starling_data" plot "$@" >stdout 2>stderr </dev/null || complain "plot $*: $(cat stderr)"
    [[ -s $(cat stdout) && $(wc -l <stdout) -eq 1 && ! -s stderr ]] || complain "plot $*: expected a path, found $(cat stdout stderr)"
}

# refuse CODE PATTERN ARGUMENT ...: must fail with one line, and leave no file.
refuse()
{
    local wanted=$1 pattern=$2 before status
    shift 2
    before=$(find . | sort)
    : >>stdout
    timeout 60 "$starling_data" plot "$@" >stdout 2>stderr </dev/null
    status=$?
    [[ $status -eq $wanted ]] || complain "plot $*: expected exit code $wanted, found $status: $(cat stderr)"
    [[ $(wc -l <stderr) -eq 1 && ! -s stdout ]] || complain "plot $*: expected one line, found: $(cat stdout stderr)"
    grep -Eq -- "$pattern" stderr || complain "plot $*: expected '$pattern', found: $(cat stderr)"
    [[ $(find . | sort) == "$before" ]] || complain "plot $*: a file was left: $(find . | sort | comm -13 <(echo "$before") -)"
}

# shows FILE TEXT ...: the file is well-formed XML, and its texts and titles have these strings.
shows()
{
    python3 - "$@" 2>stderr <<'PYTHON' || complain "$1: $(cat stderr)"
import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
assert svg.tag == "{http://www.w3.org/2000/svg}svg", svg.tag
width, height = float(svg.get("width")), float(svg.get("height"))
texts = ["".join(e.itertext()) for e in svg.iter() if e.tag.endswith(("text", "title"))]
for wanted in sys.argv[2:]:
    assert any(wanted in text for text in texts), f"no text has '{wanted}': {texts[:40]}"
for e in svg.iter():
    for name in ("x", "y", "cx", "cy", "width", "height"):
        value = e.get(name)
        if value is not None:
            assert -1 <= float(value) <= max(width, height) + 1, f"{name} {value} is outside of the picture"
    for bad in ("nan", "inf"):
        assert bad not in (e.get("d") or ""), e.get("d")
PYTHON
}

# count FILE PATTERN N
count()
{
    local n
    n=$(grep -Ec -- "$2" "$1")
    [[ $n -eq $3 ]] || complain "$1: expected $3 lines with '$2', found $n"
}

# ---- runs of the programs ----

generate made --vertices 400 --edges 2500 --features 12 --classes 3
run=(--dataset ./made --cache none --hidden 8 --batch-size 50 --cpus 1 --quiet)
for lr in 0.01 0.003; do
    "$coop_sage" "${run[@]}" --epochs 4 --lr $lr --metrics run$lr.jsonl || exit 99
done
plot run0.01.jsonl
[[ $(cat stdout) == run0.01.svg ]] || complain "expected run0.01.svg, found $(cat stdout)"
shows run0.01.svg 'made, sage' 'Loss' 'Accuracy (acc), %' 'Macro F1 (f1), %' 'best epoch' 'training time, s' \
    'epoch 4, ' 'backward' 'Task time of an epoch'
count run0.01.svg 'class="best"' 2
plot run0.01.jsonl run0.003.jsonl
[[ $(cat stdout) == plot.svg ]] || complain "expected plot.svg, found $(cat stdout)"
shows plot.svg 'run0.01: lr 0.01' 'run0.003: lr 0.003' 'mean over the epochs'
count plot.svg 'batch-size|metrics|hidden' 0
count plot.svg '<text.*(0072b2|d55e00)' 0

# The best epoch of the picture is the run's.
best=$(sed -n 's/.*"best_epoch":\([0-9]*\).*/\1/p' run0.01.jsonl)
shows run0.01.svg "best epoch $best: "

# A folder, and a name with special characters.
mkdir -p 'odd <&">'
cp run0.01.jsonl 'odd <&">/metrics.jsonl'
cp run0.01.jsonl $'a\xff<b>&"c\x01\'.jsonl'
plot 'odd <&">' $'a\xff<b>&"c\x01\'.jsonl' run0.003.jsonl --out odd.svg
shows odd.svg 'odd <&">: lr 0.01' "a?<b>&\"c?'"
plot 'odd <&">' run0.003.jsonl --out odd.html
grep -q 'odd &lt;&amp;&quot;&gt;' odd.html || complain 'odd.html: the name is not escaped'

# A page needs nothing from elsewhere.
plot run0.01.jsonl run0.003.jsonl --out runs.html
sed 's/xmlns="[^"]*"//' runs.html | grep -Ei '(src|href|url|import|https?:|<script|<link|<iframe)' &&
    complain 'runs.html refers to something else'
count runs.html '<tr><td>' 2
grep -q '<title>run0.01, epoch 1, ' runs.html || complain 'runs.html: no values under the pointer'

# PNG: signature and size, if this build can write it.
if grep -q 'SL_LIBRSVG_CPPFLAGS = .*SL_LIBRSVG' "$top_builddir/Makefile"; then
    plot run0.01.jsonl --out run.png
    python3 - run.png run0.01.svg 2>stderr <<'PYTHON' || complain "run.png: $(cat stderr)"
import struct, sys, xml.etree.ElementTree as tree
data = open(sys.argv[1], "rb").read()
svg = tree.parse(sys.argv[2]).getroot()
assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and data[-8:-4] == b"IEND", data[:20]
assert struct.unpack(">II", data[16:24]) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))
PYTHON
else
    refuse 2 'built without librsvg' run0.01.jsonl --out run.png
fi

# The full graph in stages; no evaluation; one epoch; --epochs 0; several scores of several objectives.
"$pipe_gnn" --dataset ./made --cache none --layers 2 --hidden 8 --epochs 3 --cpus 1 --quiet --metrics pipe.jsonl || exit 99
plot pipe.jsonl run0.01.jsonl --out both.svg
shows both.svg 'pipe: ' 'epochs 3' 'epochs 4'
"$coop_sage" "${run[@]}" --epochs 3 --eval-every 0 --metrics blind.jsonl || exit 99
plot blind.jsonl
"$coop_sage" "${run[@]}" --epochs 1 --metrics one.jsonl || exit 99
plot one.jsonl
shows one.svg 'best epoch 1: acc' '1 epoch, '
"$coop_sage" "${run[@]}" --epochs 0 --metrics none.jsonl || exit 99
plot none.jsonl
shows none.svg 'best epoch 0' 'epoch 0, 0.000 s: validation '

# ---- resumed, unfinished and several runs in a file ----

"$coop_sage" "${run[@]}" --epochs 2 --checkpoint saved --metrics more.jsonl || exit 99
"$coop_sage" "${run[@]}" --epochs 5 --checkpoint saved --resume --metrics more.jsonl || exit 99
plot more.jsonl
shows more.svg '5 epochs' 'epoch 1, ' 'epoch 5, '
{ head -n 3 run0.01.jsonl; printf '{"event":"epoch","epo'; } >killed.jsonl
plot killed.jsonl
shows killed.svg '2 epochs' 'not ended'
cat run0.01.jsonl one.jsonl >two.jsonl
plot two.jsonl
shows two.svg '1 epoch, '

# ---- odd numbers ----

config='{"event":"config","version":"9","dataset":"d","options":{"model":"m","best_by":"mse"}}'
epoch()
{
    printf '{"event":"epoch","epoch":%s,"train_loss":%s,"valid_loss":null,"valid_mse":%s,"test_mse":%s,"seconds":%s}\n' "$@"
}
{ echo "$config"; epoch 1 2.5 4 4 1; epoch 2 null 3 null 1; epoch 3 1e400 5 1 1; epoch 4 1.5 null null 1; } >nan.jsonl
plot nan.jsonl
shows nan.svg 'Mean squared error (mse)' 'best epoch 2: mse 3 valid, - test'
{ echo "$config"; epoch 1 null null null null; epoch 2 null null null null; } >empty-values.jsonl
plot empty-values.jsonl
shows empty-values.svg 'no finite value' 'no evaluation'
for value in 0 -5 1e-300 1e29 123456789 0.30000000000000004; do
    { echo "$config"; epoch 1 $value $value $value $value; epoch 2 $value $value $value $value; } >flat.jsonl
    plot flat.jsonl
    shows flat.svg 'best epoch 1'
done
{ echo "$config"; epoch 1 1 -1e29 1e29 4000; epoch 1000000 2 1 1 20000; } >far.jsonl
plot far.jsonl
shows far.svg 'training time, hours'
{ echo "$config"; for ((i = 1; i <= 5000; i++)); do epoch $i 1.$i $i $i 0.1; done; } >long.jsonl
plot long.jsonl
shows long.svg 'best epoch 1: '
[[ $(wc -c <long.svg) -lt 1000000 ]] || complain "a long run's picture has $(wc -c <long.svg) bytes"
# Of 4000 epochs every second is evaluated: the curves of the scores have as many points as the curve of the loss.
{
    echo "$config"
    for ((i = 1; i <= 4000; i += 2)); do
        epoch $i 1.$i null null 0.1
        epoch $((i + 1)) 1.$i $i $i 0.1
    done
} >half.jsonl
plot half.jsonl
for curve in training validation test; do
    n=$(grep -c "<title>half, epoch .*: $curve " half.svg)
    [[ $n -ge 280 && $n -le 320 ]] || complain "half.svg: expected 280 to 320 points of $curve, found $n"
done
python3 - half.svg 2>stderr <<'PYTHON' || complain "half.svg: $(cat stderr)"
import re, sys
curves = re.findall(r'<path d="(M[^"]*)" fill="none" stroke="#[0-9a-f]*" stroke-width="1.8" stroke-linejoin', open(sys.argv[1]).read())
points = sorted(curve.count("L") for curve in curves)
assert len(points) == 6 and points[0] >= 1990, points
PYTHON
printf '[]\n3\n"x"\n{"event":3}\n%s\n{"event":"epoch","epoch":"x"}\n{"event":"epoch","epoch":1,"stage_seconds":[],"valid_acc":{}}\n' \
    "$config" >types.jsonl
plot types.jsonl
many=()
for ((i = 0; i < 8; i++)); do
    { sed 1q run0.01.jsonl | sed "s/\"seed\":1/\"seed\":$i/"; sed 1d run0.01.jsonl; } >seed$i.jsonl
    many+=("seed$i.jsonl")
done
plot "${many[@]}" --out many.svg
shows many.svg 'seed0: seed 0' 'seed7: seed 7'

# ---- broken input ----

touch stdout stderr
: >nothing.jsonl
head -n 1 run0.01.jsonl >begun.jsonl
mkdir hollow two-files
touch two-files/a.jsonl two-files/b.jsonl
refuse 1 'nothing.jsonl: expected a file that .*--metrics .*found no line of a run' nothing.jsonl
refuse 1 'begun.jsonl: found no whole epoch' begun.jsonl
refuse 1 'expected a file that' "$top_srcdir/README.md" --out x.svg
refuse 1 'nowhere' nowhere.jsonl
refuse 1 'nowhere' run0.01.jsonl nowhere.jsonl --out x.html
refuse 1 'hollow: expected one file of --metrics .*found 0' hollow
refuse 1 'two-files: expected one file of --metrics .*found 2' two-files
refuse 1 'no-folder' run0.01.jsonl --out no-folder/x.svg
refuse 2 "found 'x.jpg', expected a name that ends in .svg, .png or .html" run0.01.jsonl --out x.jpg
refuse 2 'RUN'
refuse 2 'found 9 runs, expected 8 at most' "${many[@]}" one.jsonl

exit $failed
