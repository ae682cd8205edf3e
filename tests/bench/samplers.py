# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What samplers cost on ogbn-arxiv, as tables for doc/results.md.

usage: samplers.py volumes|batches|budget|seconds|kappa|policies COOP_SAGE [NUMBER ..]

volumes: W(PB) <= P W(B). Input rows of an epoch with four cooperating PEs and with four independent PEs, with the same
seeds in each step, which are vertices or links. Exit status 1 if cooperation needs more rows.
batches [B ..]: W(B) / B. Input rows of an epoch for each seed, with B seeds a step and one PE.
budget [N [EPOCHS]]: steps of N input rows (--vertex-budget): their seeds, and scores by the rows that were read.
seconds [ROUNDS [EPOCHS]]: seconds of an epoch of the same, 3 layers of 256, by turns.
kappa [KAPPA ..]: the share of input rows that a row cache misses in the first epoch. One PE of 128 seeds; the cache
has a fifth of the vertices. policies: the same for each --feature-cache-policy.

Counts of rows are the same on every machine.
"""

import gzip
import os
import statistics
import sys
import tempfile

from turns import ARXIV, arxiv, head, row, run, spread

SAMPLERS = ["neighbor", "labor", "labor --layer-dependency", "labor --labor-iterations 1",
            "labor --labor-iterations converge"]
POLICIES = ["lru", "degree", "s3-fifo", "sieve", "clock"]


def options_of(sampler):
    return ["--sampler", *sampler.split()]


def links(folder):
    """A dataset below folder, whose split lists the edges of ogbn-arxiv, each once: nine tenths train."""
    source = arxiv()[0]
    place = os.path.join(folder, "ogbn-arxiv")
    os.makedirs(os.path.join(place, "split/edges"))
    for name in ("raw", "derived"):
        os.symlink(os.path.join(source, name), os.path.join(place, name))
    with gzip.open(os.path.join(source, "raw/edge.csv.gz"), "rt") as lines:
        pairs = [tuple(map(int, line.split(","))) for line in lines]
    pairs = sorted({f"{min(a, b)},{max(a, b)}\n" for a, b in pairs if a != b})
    sets = {"valid": pairs[::20], "test": pairs[1::20], "train": [pair for i, pair in enumerate(pairs) if i % 20 > 1]}
    for name, ids in sets.items():
        with open(os.path.join(place, f"split/edges/{name}.csv"), "w", encoding="ascii") as file:
            file.writelines(ids)
    return place


def volumes(program):
    failed = False
    head("graph, fanout, seeds or links a PE", "sampler", "rows, 4 cooperative", "rows, 4 independent", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        two, three = ["--layers=2", "--fanout=4,4"], ["--fanout=10,10,10"]
        of_links = ["--dataset", links(folder), *ARXIV[2:], "--objective=link", "--negatives=1"]
        for name, options in [
            ("cora, 10,10, 35", ["--dataset=cora", "--layers=2", "--fanout=10,10", "--batch-size=35"]),
            ("ogbn-arxiv, 4,4, 1024", [*ARXIV, *two]),
            ("ogbn-arxiv, 10,10,10, 1024", [*ARXIV, *three]),
            ("ogbn-arxiv, links, 4,4, 1024", [*of_links, *two]),
            ("ogbn-arxiv, links, 10,10,10, 1024", [*of_links, *three]),
        ]:
            for sampler in SAMPLERS:
                common = ["--pes=4", "--epochs", "1", "--eval-every=0", "--hidden", "8", *options, *options_of(sampler)]
                together, alone = (
                    run(program, [*common, f"--group-size={size}"]).epochs[0]["vertices"][-1] for size in (4, 1)
                )
                row(name, sampler, together, alone, f"{together / alone:.3f}")
                failed |= together > alone
    return failed


def batches(program, *sizes):
    sizes = sizes or (16, 64, 256, 1024, 4096, 16384)
    head("sampler", *(f"B = {size}" for size in sizes))
    for sampler in SAMPLERS:
        done = [run(program, [*ARXIV, "--pes=1", "--hidden", "8", "--fanout=10,10,10", f"--batch-size={size}", "--epochs",
                              "1", "--eval-every=0", *options_of(sampler)]).epochs[0]["vertices"] for size in sizes]
        row(sampler, *(f"{rows[-1] / rows[0]:.1f}" for rows in done))


def budget(program, rows=25000, epochs=15):
    marks = [40e6, 80e6, 160e6]
    head("sampler", "seeds a step", "rows a step", "rows an epoch", "test % at best",
         *(f"valid % after {mark / 1e6:.0f} M rows" for mark in marks))
    for sampler in SAMPLERS:
        done = run(program, [*ARXIV, "--pes=1", "--batch-size=128", "--vertex-budget", str(rows), "--hidden", "128",
                             "--fanout=10,10,10", "--epochs", str(epochs), "--lr=0.003", "--norm=batch",
                             *options_of(sampler)])
        last = done.epochs[-1]
        seeds, found = last["vertices"][0], last["vertices"][-1]
        row(sampler, last["batch"], f"{found * last['batch'] / seeds:.0f}", f"{found / 1e6:.2f} M",
            f"{100 * done.summary['test_acc_at_best']:.2f}", *(score_after(done.epochs, mark) for mark in marks))


def score_after(epochs, rows):
    """The validation accuracy when so many rows were read, between those of the epochs before and after."""
    read, score = 0, 0
    for epoch in epochs:
        more = epoch["vertices"][-1]
        if read + more >= rows:
            return f"{100 * (score + (epoch['valid_acc'] - score) * (rows - read) / more):.2f}"
        read, score = read + more, epoch["valid_acc"]
    return "-"


def seconds(program, rounds=2, epochs=2):
    common = [*ARXIV, "--layers=3", "--hidden", "256", "--fanout=10,10,10", "--pes=4", "--batch-size=1024", "--epochs",
              str(epochs), "--eval-every=0"]
    ways = [(sampler, size) for sampler in SAMPLERS[:2] for size in (4, 1)]
    found = {way: ([], []) for way in ways}
    for _ in range(rounds):
        for sampler, size in ways:
            done = run(program, [*common, f"--group-size={size}", *options_of(sampler)])
            found[sampler, size][0].extend(done.seconds())
            found[sampler, size][1].extend(epoch["vertices"][-1] for epoch in done.epochs[1:])
    head("sampler", "cooperative, s", "independent, s", "independent / cooperative", "rows, cooperative",
         "rows, independent")
    for sampler in SAMPLERS[:2]:
        (together, rows), (alone, more) = found[sampler, 4], found[sampler, 1]
        ratio = statistics.median(alone) / statistics.median(together)
        row(sampler, spread(together, 2), spread(alone, 2), f"{ratio:.2f}", sum(rows) // len(rows),
            sum(more) // len(more))


def misses(program, sampler, *options):
    """The share of input rows that a cache of a fifth of the vertices misses in the first epoch, and the rows."""
    done = run(program, [*ARXIV, "--pes=1", "--batch-size=128", "--hidden", "8", "--fanout=10,10,10", "--feature-cache",
                         "34000", "--epochs", "1", "--eval-every=0", *options_of(sampler), *options])
    cache = done.epochs[0]["feature_cache"]
    return f"{1 - cache['hits'] / cache['rows']:.3f}", f"{cache['rows'] / 1e6:.1f} M"


def kappa(program, *kappas):
    kappas = kappas or (1, 32, 256)
    head("sampler", *(f"kappa {k}" for k in kappas))
    for sampler in SAMPLERS:
        row(sampler, *("{} ({})".format(*misses(program, sampler, f"--kappa={k}")) for k in kappas))


def policies(program):
    head("sampler", "rows", *POLICIES)
    for sampler in SAMPLERS + ["neighbor --replace", "neighbor --kappa 32", "labor --kappa 32"]:
        found = [misses(program, sampler, f"--feature-cache-policy={policy}") for policy in POLICIES]
        row(sampler, found[0][1], *(share for share, _ in found))


if __name__ == "__main__":
    measure = {"volumes": volumes, "batches": batches, "budget": budget, "seconds": seconds, "kappa": kappa, "policies": policies}[sys.argv[1]]
    sys.exit(measure(sys.argv[2], *map(int, sys.argv[3:])))
