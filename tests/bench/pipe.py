# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""GNNPipe's table: graph parallel, pipeline and hybrids over eight logical PEs, for each graph, model and number of
layers: accuracy, epoch time on this machine, bytes an epoch, what a trace says of eight devices beside K / (K + S - 1),
memory; and from how many layers on the pipeline sends less than graph parallelism, and would be faster on eight
devices.

usage: pipe.py PIPE_GNN [chunks]

chunks: accuracy, time and memory of a pipeline of eight stages by the number of chunks, $CHUNKS of them.

Datasets are looked for on $STARLING_DATA. $DATASETS, $MODELS, $LAYERS choose; $EPOCHS are trained for accuracy (of
ogbn-arxiv $EPOCHS_ARXIV). Efficiency needs a StarPU with FxT. Without all three it takes hours: ogbn-arxiv's 32 layers
alone half a minute an epoch.

Eight devices: the tasks of a trace take the time that they took. Each PE does its own one after the other, in the order
of their submission, as soon as the tasks that they depend on are done. Sending costs nothing. The efficiency is the
seconds of all tasks over eight times the seconds of this schedule.
"""

import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from starling_gnn import _report  # noqa: E402
from turns import head, row, run  # noqa: E402

N_PES = 8
MODES = [("graph", 1, 8, 8), ("pipeline", 8, 1, 32), ("hybrid-2", 4, 2, 32), ("hybrid-4", 2, 4,
                                                                              32)]  # stages, ways, chunks


def chosen(name, initial):
    return os.environ.get(name, initial).split()


def project(folder):
    """(seconds, efficiency) of the trace's tasks on as many devices as there are PEs."""
    ends, free, busy = {}, [0.0] * N_PES, 0.0
    for job, task in _report.read(folder).tasks.items():  # tasks come after those that they depend on
        ends[job] = max((ends.get(dep, 0.0) for dep in task.deps), default=0.0)
        if task.worker and task.step is not None and task.pe < N_PES:
            ends[job] = free[task.pe] = max(ends[job], free[task.pe]) + task.end - task.start
            busy += task.end - task.start
    makespan = max(ends.values())
    return makespan, busy / (N_PES * makespan)


def trace(program, options):
    """What project says of the second epoch; None if StarPU has no FxT."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "trace")
        options = [*options, "--epochs", "2", "--eval-every=0", "--guard=off", "--trace", place, "--trace-steps", "1:1"]
        return project(place) if run(program, options, missing="FxT").config else None


def measure(program, options, stages, ways, chunks, epochs):
    """Returns the cells, bytes, and seconds on eight devices (None: not known)."""
    options = [*options, f"--stages={stages}", f"--ways={ways}", f"--chunks={chunks}", "--lr=0.005"]
    done = run(program, [*options, "--epochs", epochs, "--eval-every=5"])
    sent = sum(done.epochs[-1]["bytes"].get(kind, 0) for kind in ("rows", "row_gradients", "weights", "stages"))
    devices = trace(program, options)
    slots = chunks // ways
    return [f"{100 * done.summary['test_acc_at_best']:.2f}", f"{statistics.median(done.seconds()):.3f}",
            f"{sent / 1e6:.1f}",
            *([f"{devices[0]:.4f}", f"{devices[1]:.3f}"] if devices else "--"), f"{slots / (slots + stages - 1):.2f}",
            f"{done.summary['peak_rss_bytes'] / 8e6:.0f}"], sent, devices and devices[0]


def options_of(dataset):
    """The options of a graph, and the epochs of its runs."""
    if dataset == "ogbn-arxiv":
        return "--features derived/node-feat-prone96.csv.gz --hidden 100".split(), os.environ.get("EPOCHS_ARXIV", "50")
    split = "geom-gcn-0" if dataset == "squirrel" else "luo2024-60-20-20"
    return f"--split {split} --hidden 64 --history-every 10".split(), os.environ.get("EPOCHS", "100")


def by_chunks(program):
    head("graph", "model", "chunks", "valid %", "test %", "epoch, s", "MB a PE")
    for dataset in chosen("DATASETS", "amazon-computers coauthor-cs"):
        of, epochs = options_of(dataset)
        for model in chosen("MODELS", "gcnii resgcn"):
            for chunks in chosen("CHUNKS", "1 2 4 8 16 32 64 128 256 512"):
                done = run(program, ["--dataset", dataset, "--model", model, "--layers", chosen("LAYERS", "8")[0], *of,
                                     "--stages=8", "--ways=1", f"--chunks={chunks}", "--lr=0.005", "--epochs", epochs,
                                     "--eval-every=5"])
                row(dataset, model, chunks, f"{100 * done.summary['best_valid_acc']:.2f}",
                    f"{100 * done.summary['test_acc_at_best']:.2f}", f"{statistics.median(done.seconds()):.3f}",
                    f"{done.summary['peak_rss_bytes'] / 8e6:.0f}")


def by_modes(program):
    found = {}
    head("graph", "model", "layers", "mode", "test %", "epoch, s", "MB an epoch", "eight devices, s", "efficiency",
         "K / (K + S - 1)",
         "MB a PE")
    for dataset in chosen("DATASETS", "amazon-computers coauthor-cs ogbn-arxiv"):
        of, epochs = options_of(dataset)
        for model in chosen("MODELS", "gcn gcnii resgcn"):
            for layers in map(int, chosen("LAYERS", "8 16 32")):
                options = ["--dataset", dataset, "--model", model, "--layers", str(layers), *of]
                for mode, *shape in MODES:
                    cells, *found[dataset, model, layers, mode] = measure(program, options, *shape, epochs)
                    row(dataset, model, layers, mode, *cells)
    print()
    head("graph", "model", "layers from which the pipeline sends less", "from which it is faster on eight devices")
    for dataset, model in sorted({key[:2] for key in found}):
        ahead = []
        for what in (0, 1):
            pairs = {layers: [found[dataset, model, layers, mode][what] for mode in ("pipeline", "graph")]
                     for d, m, layers, mode in found if (d, m, mode) == (dataset, model, "graph")}
            ahead.append(min((layers for layers, (a, b) in pairs.items() if a is not None and a < b),
                             default="none of these"))
        row(dataset, model, *ahead)


{"modes": by_modes, "chunks": by_chunks}[(sys.argv[2:] or ["modes"])[0]](sys.argv[1])
