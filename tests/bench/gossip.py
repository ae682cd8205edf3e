# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Gossip against all-reduce, for 8 PEs with 8 and 4 replicas: bytes of weights, validation accuracy at an early epoch,
test accuracy after the last epoch. Writes the gossip section of doc/results.md, between the two marks, a table for each
dataset. A dataset that is not on $STARLING_DATA, or not among the arguments, keeps its old table. Seeds: $SEEDS (1 2
3).

usage: gossip.py COOP_SAGE RESULTS [DATASET ..]
"""

import os
import re
import statistics
import sys

from turns import run

COMMON = "--pes 8 --chunks 1 --layers 2 --norm layer --lr-schedule cosine"
DATASETS = {  # the early epoch, options
    "amazon-computers": (
        2, "--split luo2024-60-20-20 --batch-size 32 --hidden 64 --fanout 5,5 --epochs 12 --dropout 0.3 --lr 0.01"),
    "ogbn-arxiv": (4, """--features derived/node-feat-prone96.csv.gz --batch-size 512 --hidden 64 --fanout 4,4 --epochs
    28 --eval-every 4 --dropout 0.2 --lr 0.01"""),
}
WAYS = [("all-reduce", "")]
WAYS += [(f"{sync}, {what}", f"--sync {sync} --gossip-what {what}") for sync in ("dissemination", "cube")
         for what in ("weight", "grad")]
WAYS += [("dissemination, weight, ring", "--sync dissemination --gossip-ring"),
         ("dissemination, grad, average every 10", "--sync dissemination --gossip-what grad --gossip-average-every 10")]
SEEDS = os.environ.get("SEEDS", "1 2 3").split()
BEGIN, END = "<!-- bench-gossip -->\n", "<!-- end of bench-gossip -->\n"


def cells(program, options, early, base):
    """Train with each seed. Returns four cells of a row, and the mean test accuracy in percent."""
    runs = [run(program, [*options, "--seed", seed]) for seed in SEEDS]
    scored = [[epoch for epoch in done.epochs if epoch["valid_acc"] is not None] for done in runs]
    tests = [100 * epochs[-1]["test_acc"] for epochs in scored]
    valid = statistics.mean(100 * epoch["valid_acc"] for epochs in scored for epoch in epochs
                            if epoch["epoch"] == early)
    sent = statistics.mean(epoch["bytes"]["weights"] for done in runs for epoch in done.epochs) / 8e6
    mean = statistics.mean(tests)
    deviation = f" ± {statistics.stdev(tests):.2f}" if len(tests) > 1 else ""
    return [f"{sent:.2f}", f"{valid:.2f}", f"{mean:.2f}{deviation}", "" if base is None
            else f"{mean - base:+.2f}"], mean


def compare(program, dataset, early, words):
    """The lines of a dataset's table; empty if the dataset is not there."""
    options = ["--dataset", dataset, *COMMON.split(), *words]
    absent = run(program, [*options, "--epochs", "0"], missing="is not in")
    if absent.config is None:
        sys.stderr.write(absent.error)
        return ""
    lines = [f"### {dataset}", "", f"`coop_sage {' '.join(options)}`, seeds {' '.join(SEEDS)}, early: epoch {early}",
             "",
             "| | 8 replicas: MB | early | test | to all-reduce | 4 replicas: MB | early | test | to all-reduce |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    base = {}
    for name, more in WAYS:
        found = [name]
        for replicas in (8, 4):
            four, mean = cells(program, [*options, f"--group-size={8 // replicas}", *more.split()], early,
                               base.get(replicas))
            base.setdefault(replicas, mean)
            found += four
        lines.append("| " + " | ".join(found).replace("|  |", "| |") + " |")
    return "\n".join(lines) + "\n\n"


def main(program, results, *wanted):
    with open(results, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"gossip.py: {results}: expected the lines {BEGIN.strip()} and {END.strip()} around its section")
    before, rest = text.split(BEGIN)
    section, after = rest.split(END)
    for dataset, (early, words) in DATASETS.items():
        table = compare(program, dataset, early, words.split()) if not wanted or dataset in wanted else ""
        print(table, end="", flush=True)
        old = re.search(rf"^### {dataset}\n.*?(?=^### |\Z)", section, re.S | re.M)
        if table and old:
            section = section[:old.start()] + table + section[old.end():]
        else:
            section += table
    with open(results, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + section + END + after)


main(*sys.argv[1:])
