#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Steps of a sampled R-GCN on a typed graph by coop_sage and by DGL, by turns on one machine.

usage: typed.py COOP_SAGE STARLING_DATA [--rounds N] [--steps N] [--hidden N] [--dgl-fanout N,N]

$TYPED_DATA [typed-data] is the folder of the graph, which is generated if it is not there (mag-synthetic: a minute, 0.4
GB). Both train on the first N x 1024 training vertices of a shuffled list, which is a split of its own, split/bench,
beside the graph's own. A round is an epoch over them of each, one after the other.

Both: two layers of --hidden [64] with a mean for each relation, ReLU between, dropout 0.5, float32, reverse relations,
1024 seeds a step, a projection of the features, and a trained vector of that width for each vertex without features.
Ours: two PEs of 512 seeds, fanout 25,10 over all relations together. DGL: NeighborSampler, whose fanout counts for each
relation by itself; so DGL has two settings: 25,10 for each relation, and --dgl-fanout [9,4], meant to read about as
many edges a step as ours. The table has the edges and vertices of a step of each. DGL's heterogeneous R-GCN:
HeteroGraphConv of GraphConv with norm "right", a self loop, Adam, and SparseAdam for the vectors.
"""
import argparse
import functools
import gzip
import json
import os
import resource
import sys
import time

from turns import Peer, answers, by_turns, generated, head, in_peers_env, row, run, spread

SEEDS = 1024
N_LAYERS = 2


def log(*words):
    print("typed:", *words, file=sys.stderr, flush=True)


# ---- the data


def table(folder, stem, dtype):
    """STEM.csv.gz as an array; a binary copy is kept beside it."""
    import numpy as np
    import pandas

    copy = os.path.join(folder, "starling-cache", stem.replace("/", "-") + ".npy")
    if not os.path.exists(copy):
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        np.save(copy, pandas.read_csv(os.path.join(folder, stem + ".csv.gz"), header=None, dtype=dtype).to_numpy())
    return np.load(copy)


def lines(folder, name):
    with gzip.open(os.path.join(folder, name), "rt") as file:
        return [line.strip().split(",") for line in file]


def make_split(folder, steps):
    """A split of steps x SEEDS training vertices. Returns their ids within the type."""
    import numpy as np

    own = [name for name in os.listdir(os.path.join(folder, "split")) if not name.startswith("bench")][0]
    target = os.listdir(os.path.join(folder, "split", own))[0]
    ids = table(folder, f"split/{own}/{target}/train", "int64")[:, 0]
    ids = np.sort(np.random.default_rng(1).permutation(ids)[:steps * SEEDS])
    out = os.path.join(folder, "split", f"bench{steps}", target)
    os.makedirs(out, exist_ok=True)
    for name in ("train", "valid", "test"):
        rows = ids if name == "train" else table(folder, f"split/{own}/{target}/{name}", "int64")[:100, 0]
        with gzip.open(os.path.join(out, name + ".csv.gz"), "wt") as file:
            file.write("".join(f"{i}\n" for i in rows))
    return target, ids


# ---- DGL: a process of its own


def dgl_peer(args):
    import dgl
    import torch

    stream = answers()
    torch.manual_seed(1)
    torch.set_num_threads(2)
    names, counts = lines(args.data, "raw/num-node-dict.csv.gz")
    counts = {name: int(n) for name, n in zip(names, counts)}
    edges = {}
    for source, name, destination in lines(args.data, "raw/triplet-type-list.csv.gz"):
        ends = torch.from_numpy(table(args.data, f"raw/relations/{source}___{name}___{destination}/edge", "int64"))
        edges[source, name, destination] = (ends[:, 0], ends[:, 1])
        edges[destination, "rev_" + name, source] = (ends[:, 1], ends[:, 0])
    graph = dgl.heterograph(edges, counts)
    del edges
    target, ids = make_split(args.data, args.steps)
    x = torch.from_numpy(table(args.data, f"raw/node-feat/{target}/node-feat", "float32"))
    y = torch.from_numpy(table(args.data, f"raw/node-label/{target}/node-label", "int64"))[:, 0]
    graph = graph.formats("csc")
    n_classes = int(y.max()) + 1

    class Layer(torch.nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.conv = dgl.nn.HeteroGraphConv(
                {name: dgl.nn.GraphConv(n_in, n_out, norm="right", weight=True, bias=False) for name in graph.etypes},
                aggregate="sum")
            self.loop = torch.nn.Parameter(torch.empty(n_in, n_out))
            self.bias = torch.nn.Parameter(torch.zeros(n_out))
            torch.nn.init.xavier_uniform_(self.loop)

        def forward(self, block, h):
            own = {t: x[:block.num_dst_nodes(t)] for t, x in h.items()}
            z = self.conv(block, (h, own))
            return {t: z[t] + own[t] @ self.loop + self.bias for t in z}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.input = torch.nn.Linear(x.shape[1], args.hidden)
            self.layers = torch.nn.ModuleList([Layer(args.hidden, args.hidden), Layer(args.hidden, n_classes)])

        def forward(self, blocks, h):
            for i, (layer, block) in enumerate(zip(self.layers, blocks)):
                h = layer(block, h)
                if i + 1 < N_LAYERS:
                    h = {t: torch.nn.functional.dropout(torch.relu(z), 0.5) for t, z in h.items()}
            return h[target]

    vectors = torch.nn.ModuleDict(
        {t: torch.nn.Embedding(n, args.hidden, sparse=True) for t, n in counts.items() if t != target})
    model = Model()
    dense = torch.optim.Adam(model.parameters(), lr=0.01)
    sparse = torch.optim.SparseAdam(list(vectors.parameters()), lr=0.01)

    def way(fanout, workers):
        loader = dgl.dataloading.DataLoader(graph, {target: torch.from_numpy(ids)},
                                            dgl.dataloading.NeighborSampler(fanout), batch_size=SEEDS, shuffle=True,
                                            num_workers=workers, persistent_workers=workers > 0)

        def epoch(steps):
            n = n_rows = n_edges = 0
            start, cpu = time.perf_counter(), time.process_time()
            for sources, seeds, blocks in loader:
                h = {t: torch.relu(vectors[t](i)) for t, i in sources.items() if t != target}
                h[target] = torch.relu(model.input(x[sources[target]]))
                loss = torch.nn.functional.cross_entropy(model(blocks, h), y[seeds[target]])
                dense.zero_grad()
                sparse.zero_grad()
                loss.backward()
                dense.step()
                sparse.step()
                n += 1
                n_rows += sum(len(i) for i in sources.values())
                n_edges += sum(block.num_edges() for block in blocks)
                if n == steps:
                    break
            seconds = time.perf_counter() - start
            return {"seconds": seconds / n, "cpu": (time.process_time() - cpu) / n, "rows": n_rows / n,
                    "edges": n_edges / n, "loss": float(loss)}

        return epoch

    fanouts = {"25,10": [25, 10], args.dgl_fanout: [int(k) for k in args.dgl_fanout.split(",")]}
    ways = {}
    for name, fanout in fanouts.items():
        best = None
        for workers in (0, 1):
            epoch = way(fanout, workers)
            seconds = epoch(3)["seconds"]
            log(f"DGL fanout {name}, {workers} workers: {seconds:.2f} s a step over 3 steps")
            if best is None or seconds < best:
                best, ways[f"DGL {dgl.__version__}, fanout {name} for each relation"] = seconds, epoch
    print(json.dumps(list(ways)), file=stream)
    for line in sys.stdin:
        result = ways[line.strip()](args.dgl_steps)
        result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps(result), file=stream)


# ---- ours: a process that trains all rounds' epochs would not wait for its turn, so each turn is a process


def ours(args):
    done = run(args.program, [
        "--dataset", args.data, "--split", f"bench{args.steps}", "--model", "rgcn", "--input-layer", "--layers",
        str(N_LAYERS), "--hidden", str(args.hidden), "--fanout", "25,10", "--pes", "2", "--batch-size", str(SEEDS // 2),
        "--lr", "0.01", "--dropout", "0.5", "--epochs", "2", "--eval-every", "0", *args.ours])
    last = done.epochs[-1]
    return {"seconds": last["seconds"] / args.steps, "rows": last["vertices"][-1] / args.steps,
            "edges": sum(last["edges"]) / args.steps, "loss": last["train_loss"], "peak": done.peak / 1.024e9}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("starling_data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--dgl-steps", type=int, default=10)
    parser.add_argument("--dgl-fanout", default="9,4")
    parser.add_argument("--ours", type=lambda text: text.split(), default=[])
    parser.add_argument("--peer", action="store_true")
    args = parser.parse_args()
    in_peers_env("dgl, pandas")
    args.data = os.path.join(os.environ.get("TYPED_DATA", "typed-data"), "mag-synthetic")
    if args.peer:
        return dgl_peer(args)
    if not os.path.isdir(args.data):
        os.rename(generated(args.starling_data, "mag-synthetic", args.data + ".part"), args.data)
    make_split(args.data, args.steps)
    peer = Peer("--peer")
    try:
        if not peer.names:
            sys.exit("typed: DGL's process has ended")
        ways = {name: functools.partial(peer.turn, name) for name in peer.names}
        results = by_turns(args.rounds, {"Starling, fanout 25,10": lambda: ours(args), **ways})
    finally:
        peer.end()
    head("", "seconds a step", "vertices, edges a step", "peak memory, GB")
    for name, rounds in results.items():
        row(name, spread([r["seconds"] for r in rounds]), f"{rounds[0]['rows']:.0f}, {rounds[0]['edges']:.0f}",
            f"{max(r['peak'] for r in rounds):.1f}")


if __name__ == "__main__":
    main()
