# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Train ogbn-arxiv by coop_sage and by the package starling_gnn, by turns, each time in a process of its own: python.sh.

Prints for each round, and as medians of all rounds, an epoch's time (the median of a process, without the first epoch),
the processor time of the whole process without the system's, and the peak of its memory. Both read the dataset and
METIS's parts from a cache."""
import argparse
import json
import os
import statistics
import sys
import tempfile

EPOCH, PEAK = 1.03, 1.05  # wanted, at most: Python's share of the program's

FROM_PYTHON = """
import json, sys
import starling_gnn as sl
features, epochs, metrics, cache = sys.argv[1:]
graph = sl.load("ogbn-arxiv", features=features, cache=cache)
run = sl.train(graph, epochs=int(epochs), metrics=metrics, cache=cache)
run.history, run.test_acc
"""


def measure(command, metrics):
    """(seconds of an epoch, processor seconds, peak in MiB) of a process."""
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"from_python: {' '.join(command[:2])} ended with status {os.waitstatus_to_exitcode(status)}")
    with open(metrics, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    seconds = [line["seconds"] for line in lines if line["event"] == "epoch"]
    return statistics.median(seconds[1:] or seconds), usage.ru_utime, usage.ru_maxrss / 1024


def text(name, measured):
    return f"{name} {measured[0]:.3f} s, {measured[1]:.1f} s of processors, {measured[2]:.0f} MiB"


def main():
    parser = argparse.ArgumentParser(prog="from_python")
    parser.add_argument("program")
    parser.add_argument("--features", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    found = {"program": [], "Python": []}
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        options = ["--dataset", "ogbn-arxiv", "--features", given.features, "--quiet", "--metrics", metrics, "--cache", folder]
        commands = {
            "program": [given.program, *options, "--epochs", str(given.epochs)],
            "Python": [sys.executable, "-c", FROM_PYTHON, given.features, str(given.epochs), metrics, folder],
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


if __name__ == "__main__":
    main()
