#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Steps of link prediction by coop_sage and by DGL's GraphBolt, by turns on one machine.

usage: links.py COOP_SAGE STARLING_DATA [--rounds N] [--steps N] [--dgl-steps N] [--warm N] [--threads N]
                [--decoder mlp|dot] [--dgl-workers N,..] [--ours 'OPTION ..']

$LINKS_DATA [links-data] is the folder of the links, which are made if they are not there: the edges of ogbn-arxiv on
$STARLING_DATA, or else of the generated arxiv-synthetic (a minute). Each pair is there once, in random order and
direction, without self loops. A thousand pairs each are held out for validation and test. The others are the graph,
both ways.

Both train what DGL's examples/sampling/graphbolt/link_prediction.py trains, with its numbers: GraphSAGE, three layers
of 256 with means, ReLU between, fanout 15,10,5, 512 links a step, a uniform negative for each link, the step's links
and their reverses left out of all hops, binary cross entropy, Adam, float32. The example's predictor has three
products. Here both sides have two (--decoder mlp: OGB's LinkPredictor), or none (dot).

Ours: two PEs that cooperate. A turn is a run, which is stopped after its steps. They are timed by the moments at which
it prints their losses. Vertices and edges are counted once, in an epoch with rows of one number: samples do not depend
on the width. GraphBolt: a process that keeps its iterator, with the number of sampling workers that is fastest here.
It is stopped while ours runs, since it samples ahead. Its peak memory is without those workers. Each turn begins with
--warm steps without a clock.
"""
import argparse
import functools
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time

from turns import Peer, answers, by_turns, dataset, generated, head, in_peers_env, row, spread

HELD_OUT = 1000
LINKS, NEGATIVES = 512, 1
FANOUT, HIDDEN = [15, 10, 5], 256
RATE = 0.0005
PES = 2


def processor_seconds(pid):
    """Of a process and its children, so far."""
    total = 0
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{one}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        if pid in (int(one), int(fields[1])):
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def log(*words):
    print("links:", *words, file=sys.stderr, flush=True)


# ---- the data


def table(folder, stems, dtype):
    """The first of the tables that is there."""
    import numpy as np
    import pandas

    for stem in stems:
        path = os.path.join(folder, stem)
        if os.path.exists(path + ".npy"):
            return np.load(path + ".npy").astype(dtype)
        for end in (".csv.gz", ".csv"):
            if os.path.exists(path + end):
                return pandas.read_csv(path + end, header=None, dtype=dtype).to_numpy()
    sys.exit(f"links: {folder}: expected one of {', '.join(stems)}, as .npy, .csv or .csv.gz")


def make(source, out):
    import numpy as np

    random = np.random.default_rng(1)
    x = table(source, ("raw/node-feat", "derived/node-feat-prone96"), "float32")
    edges = table(source, ("raw/edge",), "int64")
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    edges = random.permuted(random.permutation(edges), axis=1)
    lists = np.split(edges, [HELD_OUT, 2 * HELD_OUT])
    for folder in ("raw", "split/bench"):
        os.makedirs(os.path.join(out, folder), exist_ok=True)
    np.save(os.path.join(out, "raw/node-feat.npy"), np.ascontiguousarray(x))
    for name, links in zip(("valid", "test", "train"), lists):
        np.save(os.path.join(out, "split/bench", name + ".npy"), links)


def data_of(starling_data):
    """The folder of the links, which is made if it is not there."""
    place, source = os.environ.get("LINKS_DATA", "links-data"), dataset("ogbn-arxiv")
    data = os.path.join(place, "ogbn-arxiv" if source else "arxiv-synthetic")
    if not os.path.isdir(data):
        source = source or generated(starling_data, "arxiv-synthetic", data + ".raw")
        make(source, data + ".part")
        os.rename(data + ".part", data)
        shutil.rmtree(data + ".raw", ignore_errors=True)
    return data


# ---- GraphBolt: a process of its own


def model_of(n_in, decoder):
    import dgl
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [n_in] + [HIDDEN] * len(FANOUT)
            self.layers = torch.nn.ModuleList(dgl.nn.SAGEConv(a, b, "mean") for a, b in zip(widths, widths[1:]))
            self.predictor = torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(),
                                                 torch.nn.Linear(HIDDEN, 1))

        def forward(self, blocks, x, ends):
            for i, (layer, block) in enumerate(zip(self.layers, blocks)):
                x = layer(block, x)
                if i + 1 < len(self.layers):
                    x = torch.relu(x)
            products = x[ends[0]] * x[ends[1]]
            return products.sum(1) if decoder == "dot" else self.predictor(products)[:, 0]

    return Model()


def graphbolt(args):
    import dgl
    import dgl.graphbolt as gb
    import numpy as np
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    stream = answers()
    x = torch.from_numpy(np.load(os.path.join(args.data, "raw/node-feat.npy")))
    links = torch.from_numpy(np.load(os.path.join(args.data, "split/bench/train.npy")))
    both = torch.cat((links, links.flip(1)))
    offsets, sources, _ = dgl.graph((both[:, 0], both[:, 1]), num_nodes=len(x)).adj_tensors("csc")
    graph = gb.fused_csc_sampling_graph(offsets, sources)
    features = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(x)})
    model = model_of(x.shape[1], args.decoder)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def batches(workers):
        pipe = gb.ItemSampler(gb.ItemSet(links, names="node_pairs"), batch_size=LINKS, shuffle=True)
        pipe = pipe.sample_uniform_negative(graph, NEGATIVES)
        pipe = pipe.sample_neighbor(graph, FANOUT)
        pipe = pipe.transform(functools.partial(gb.exclude_seed_edges, include_reverse_edges=True))
        pipe = pipe.fetch_feature(features, node_feature_keys=["feat"])
        loader = gb.DataLoader(pipe.copy_to(device=torch.device("cpu")), num_workers=workers)
        while True:
            yield from loader

    def turn(ready, warm, steps):
        n_rows = n_edges = 0
        losses = []
        for i in range(warm + steps):
            if i == warm:
                start, cpu = time.perf_counter(), processor_seconds(os.getpid())
            batch = next(ready)
            ends, labels = batch.node_pairs_with_labels
            blocks = batch.blocks
            scores = model(blocks, batch.node_features["feat"], ends)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if i >= warm:
                losses.append(loss.item())
                n_rows += len(batch.input_nodes)
                n_edges += sum(block.num_edges() for block in blocks)
        seconds = (time.perf_counter() - start) / steps
        return {"seconds": seconds, "cpu": (processor_seconds(os.getpid()) - cpu) / steps, "vertices": n_rows / steps,
                "edges": n_edges / steps, "loss": statistics.mean(losses)}

    best = None
    for workers in args.dgl_workers:
        ready = batches(workers)
        seconds = turn(ready, 5, 10)["seconds"]
        log(f"GraphBolt, {workers} workers: {seconds:.4f} s a step over 10 steps")
        if best is None or seconds < best[0]:
            ready, best = best and best[2], (seconds, workers, ready)
        if ready is not None:
            ready.close()
    _, workers, ready = best
    print(json.dumps([f"GraphBolt, DGL {dgl.__version__}, torch {torch.__version__}, {workers} workers"]), file=stream)
    for _ in sys.stdin:
        result = turn(ready, args.warm, args.dgl_steps)
        result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps(result), file=stream)


# ---- ours


def command_of(args, *options):
    return [args.program, "--dataset", args.data, "--split", "bench", "--objective", "link", "--json", *options,
            "--layers", str(len(FANOUT)), "--fanout", ",".join(map(str, FANOUT)), "--pes", str(PES),
            "--batch-size", str(LINKS // PES), "--negatives", str(NEGATIVES),
            "--lr", str(RATE), "--dropout", "0", "--cpus", str(args.threads), "--epochs", "1", "--eval-every", "0"
            ] + args.ours


def count(args):
    """Vertices and edges of a step, the mean of an epoch. The first entries are of the links themselves."""
    command = command_of(args, "--hidden", "1", "--features", "degree")
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    epoch = [event for event in map(json.loads, run.stdout.splitlines()) if event["event"] == "epoch"][-1]
    n_steps = epoch["edges"][0] / ((2 + NEGATIVES) * LINKS)
    log(f"sampling and rows of one number: {epoch['seconds'] / n_steps:.4f} s a step")
    return {"vertices": epoch["vertices"][-1] / n_steps, "edges": sum(epoch["edges"][1:]) / n_steps}


def ours(args, sizes):
    command = command_of(args, "--hidden", str(HIDDEN), "--decoder", args.decoder, "--metrics-steps")
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    times, losses = [], []
    for line in run.stdout:
        event = json.loads(line)
        if event["event"] == "step":
            times.append(time.perf_counter())
            losses.append(event["loss"])
            if len(times) == args.warm:
                cpu = processor_seconds(run.pid)
        if len(times) == args.warm + args.steps:
            break
    cpu = (processor_seconds(run.pid) - cpu) / args.steps
    os.kill(run.pid, signal.SIGTERM)  # Popen.terminate would reap a run that has ended, and lose its usage
    run.stdout.read()  # to its end: lines that nobody reads are an error
    _, status, usage = os.wait4(run.pid, 0)
    if status not in (0, signal.SIGTERM) or len(times) < args.warm + args.steps:
        sys.exit(f"links: {' '.join(command)}: {len(times)} steps, exit status {status}")
    return {"seconds": (times[-1] - times[args.warm - 1]) / args.steps, "cpu": cpu,
            "loss": statistics.mean(losses[args.warm:]), "peak": usage.ru_maxrss / 1e6, **sizes}


def report(results):
    head("", "seconds a step", "processor seconds", "vertices, edges a step", "peak memory, GB")
    for name, rounds in results.items():
        seconds = [r["seconds"] for r in rounds]
        row(name, spread(seconds, 4), f"{statistics.median(r['cpu'] for r in rounds):.4f}",
            f"{rounds[0]['vertices']:.0f}, {rounds[0]['edges']:.0f}", f"{max(r['peak'] for r in rounds):.2f}")
    medians = [statistics.median(r["seconds"] for r in rounds) for rounds in results.values()]
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(*results.values())]
    print(f"\nGraphBolt takes {medians[1] / medians[0]:.2f} times as long ({min(ratios):.2f} to {max(ratios):.2f}).")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("starling_data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--dgl-steps", type=int, default=40)
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--decoder", choices=["mlp", "dot"], default="mlp")
    parser.add_argument("--dgl-workers", type=lambda text: [int(n) for n in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--ours", type=lambda text: text.split(), default=[])
    parser.add_argument("--peer", action="store_true")
    args = parser.parse_args()
    in_peers_env("dgl.graphbolt, pandas")
    args.data = data_of(args.starling_data)
    if args.peer:
        return graphbolt(args)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # not without the peer's end
    peer = Peer("--peer")
    try:
        if not peer.names:
            sys.exit("links: GraphBolt's process has ended")
        sizes = count(args)
        report(by_turns(args.rounds, {"Starling": lambda: ours(args, sizes), peer.names[0]: lambda: peer.turn("")}))
    finally:
        peer.end()


if __name__ == "__main__":
    main()
