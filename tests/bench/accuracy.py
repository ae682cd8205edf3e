# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The guide's accuracy table: mean test score at the best validation epoch over the seeds of $SEEDS (1 2 3), four
cooperating PEs, sampled training. Needs the real datasets on $STARLING_DATA; a dataset that is not there is skipped.
Exit status 1 if a mean is below its goal.

usage: accuracy.py COOP_SAGE [NAME ..]
"""

import os
import statistics
import sys

from turns import SMOKE, head, row, run

CORA = "--dataset cora --batch-size 35"
CITESEER = "--dataset citeseer --batch-size 30 --layers 2 --hidden 64 --fanout 25,25 --epochs 200 --lr 0.01"
COMPUTERS = """--dataset amazon-computers --split luo2024-60-20-20 --batch-size 128 --layers 2 --hidden 128
    --fanout 25,25 --epochs 40 --lr 0.002 --weight-decay 5e-5 --dropout 0.5 --input-dropout 0.2 --norm layer"""
ARXIV = """--dataset ogbn-arxiv --features derived/node-feat-prone96.csv.gz --batch-size 1024 --layers 2 --hidden 256
    --fanout 10,10 --epochs 30 --lr 0.005 --lr-schedule cosine --dropout 0.5 --norm batch --eval-every 5"""
IMDB = """--dataset imdb --input-layer --batch-size 64 --layers 2 --hidden 64 --fanout 10,10 --epochs 60 --lr 0.005
    --best-by f1_micro --dropout 0.5 --normalize-features row"""
HALF = "--dropout 0.5 --input-dropout 0.5 --normalize-features row"
MORE = "--dropout 0.6 --input-dropout 0.6 --normalize-features row"
TWO = "--layers 2 --hidden 64 --fanout 10,10 --epochs 200 --lr 0.01 --weight-decay 5e-4"
LINKS = """--objective link --model gcn --layers 2 --hidden 64 --sampler full --batch-size 128 --negatives 8
    --link-loss softmax --epochs 10 --lr 0.003 --dropout 0"""

# name, score, goal in percent, options beside --pes 4
ROWS = [
    ("cora", "acc", 79.0, f"{CORA} {TWO} {HALF}"),
    ("citeseer", "acc", 69.0, f"{CITESEER} --weight-decay 5e-3 {HALF}"),
    ("amazon-computers", "acc", 91.5, COMPUTERS),
    ("coauthor-cs", "acc", 95.2, """--dataset coauthor-cs --split luo2024-60-20-20 --batch-size 512 --layers 2
        --hidden 256 --fanout 10,10 --epochs 20 --lr 0.003 --weight-decay 5e-4 --dropout 0.5 --norm layer
        --normalize-features row"""),
    ("ogbn-arxiv", "acc", 67.2, ARXIV),
    ("cora-gcn", "acc", 80.0, f"--model gcn {CORA} {TWO} {HALF}"),
    ("cora-gat", "acc", 80.5, f"""--model gat --heads 8 {CORA} --layers 2 --hidden 64 --fanout 25,25 --epochs 300
        --lr 0.01 --weight-decay 5e-4 {MORE}"""),
    ("cora-gcnii", "acc", 81.0, f"""--model gcnii --alpha 0.2 {CORA} --layers 8 --hidden 64 --sampler full --epochs 300
        --lr 0.01 --weight-decay 5e-4 {MORE}"""),
    ("citeseer-gcn", "acc", 68.5, f"--model gcn {CITESEER} --weight-decay 5e-4 {HALF}"),
    ("amazon-computers-gcn", "acc", 90.5, f"--model gcn {COMPUTERS}"),
    ("amazon-computers-gat", "acc", 91.0, f"--model gat {COMPUTERS}"),
    ("ogbn-arxiv-gcn", "acc", 66.0, f"--model gcn {ARXIV}"),
    ("ogbn-arxiv-gat", "acc", 66.0, f"--model gat --heads 4 {ARXIV}"),
    ("humloc", "ap", 25.5, """--dataset humloc --batch-size 128 --layers 2 --hidden 256 --fanout 10,10 --epochs 150
        --lr 0.005 --best-by ap --weight-decay 1e-4 --dropout 0.5 --input-dropout 0.5 --eval-every 5
        --normalize-features column"""),
    ("imdb", "f1_micro", 61.3, f"--model rgcn {IMDB}"),
    ("imdb-rgat", "f1_micro", 61.3, f"--model rgat {IMDB}"),
    ("fb15k-237-rgcn", "mrr", 24.0, """--model rgcn --bases 2 --dataset fb15k-237 --objective link --decoder distmult
        --features onehot --input-layer --layers 1 --sampler full --hidden 100 --batch-size 1250 --negatives 50
        --link-loss softmax --epochs 12 --lr 0.01 --lr-schedule cosine --dropout 0.5 --eval-every 4 --best-by mrr"""),
    ("cora-links", "auc", 91.5, f"--dataset cora-links --features ../cora/raw/node-feat.csv.gz {LINKS}"),
    ("citeseer-links", "auc", 90.0, f"--dataset citeseer-links --features ../citeseer/raw/node-feat.csv.gz {LINKS}"),
]


def measure(program, name, score, goal, options):
    """Train with each seed and print a row. Returns whether the goal was missed."""
    seeds = os.environ.get("SEEDS", "1 2 3").split()
    found = []
    for seed in seeds:
        done = run(program, ["--pes", "4", "--seed", seed, *options], missing="is not in")
        if done.config is None:
            row(name, "skipped: not on STARLING_DATA", "", "", "", "")
            return False
        found.append([done.summary[key] for key in (f"test_{score}_at_best", f"best_valid_{score}", "seconds")])
    tests, valids, seconds = zip(*found)
    mean = 100 * statistics.mean(tests)
    deviation = 100 * statistics.stdev(tests) if len(tests) > 1 else 0
    row(name, f"{mean:.2f} +- {deviation:.2f}", f"{100 * statistics.mean(valids):.2f}", goal,
        f"{statistics.mean(seconds):.0f} s", f"`{' '.join(options)}`")
    return mean < goal and not SMOKE


def main(program, *wanted):
    head("dataset", "test %", "valid %", "goal", "training, a seed", "options beside --pes 4")
    rows = [of for of in ROWS if not wanted or of[0] in wanted]
    return sum([measure(program, name, score, goal, options.split()) for name, score, goal, options in rows]) > 0


sys.exit(main(*sys.argv[1:]))
