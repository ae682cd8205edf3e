# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Train ogbn-arxiv by coop_sage and by the package starling_gnn, by turns, each time in a process of its own.

usage: from_python.py COOP_SAGE LIBRARY PACKAGES [--rounds N] [--epochs N]

PACKAGES: the folder of the package. Prints for each round, and as medians of all rounds, an epoch's time (the median of
a process, without the first epoch), the processor time of the whole process without the system's, and the peak of its
memory. Both read the dataset and METIS's parts from a cache.
"""

import argparse
import os
import statistics
import sys
import tempfile

from turns import Run, arxiv, skip

EPOCH, PEAK = 1.03, 1.05  # wanted, at most: Python's share of the program's

FROM_PYTHON = """
import sys
import starling_gnn as sl
features, epochs, metrics, cache = sys.argv[1:]
graph = sl.load("ogbn-arxiv", features=features, cache=cache)
run = sl.train(graph, epochs=int(epochs), metrics=metrics, cache=cache)
run.history, run.test_acc
"""


def measure(command, metrics):
    """(seconds of an epoch, processor seconds, peak in MiB) of a process."""
    done = Run(command, metrics)
    return statistics.median(done.seconds()), done.cpu, done.peak / 2**20


def text(name, measured):
    return f"{name} {measured[0]:.3f} s, {measured[1]:.1f} s of processors, {measured[2]:.0f} MiB"


def main():
    parser = argparse.ArgumentParser(prog="from_python")
    parser.add_argument("program")
    parser.add_argument("library", type=os.path.realpath)
    parser.add_argument("packages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        skip(missing)
    if not os.path.exists(given.library):
        skip(f"there is no shared library {given.library}")
    features = arxiv()[1]
    os.environ.pop("STARLING_CACHE", None)
    os.environ.update(STARPU_SILENT="1", PYTHONPATH=given.packages, STARLING_LIBRARY=given.library)
    found = {"program": [], "Python": []}
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        options = ["--dataset", "ogbn-arxiv", "--features", features, "--quiet", "--metrics", metrics, "--cache",
                   folder]
        commands = {
            "program": [given.program, *options, "--epochs", str(given.epochs)],
            "Python": [sys.executable, "-c", FROM_PYTHON, features, str(given.epochs), metrics, folder],
        }
        measure([given.program, *options, "--epochs", "0"], metrics)  # fills the cache
        for i in range(given.rounds):
            for name in list(commands)[:: 1 - 2 * (i % 2)]:
                found[name].append(measure(commands[name], metrics))
            print(f"round {i + 1}: " + "; ".join(text(name, of[-1]) for name, of in found.items()), flush=True)
    medians = {name: [statistics.median(column) for column in zip(*of)] for name, of in found.items()}
    print(f"medians of {given.rounds}: " + "; ".join(text(name, of) for name, of in medians.items()))
    shares = [python / program for python, program in zip(medians["Python"], medians["program"])]
    print(f"Python's share of the program's: epoch {shares[0]:.3f} (wanted: at most {EPOCH}), processors "
          f"{shares[1]:.3f}, peak {shares[2]:.3f} (wanted: at most {PEAK})")


main()
