#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""An epoch of sampled GraphSAGE by coop_sage, DGL and PyTorch Geometric, by turns on one machine; a table in Markdown.

usage: peers.py COOP_SAGE --data DIR [--features FILE] [--rounds N] [--threads N] [--settings NAME,..] [--peers NAME,..]
       [--ours OPTION,..]

DIR is a dataset in OGB's raw layout, as for peer_pyg.py, and its name is one that coop_sage finds. Settings: tutorial (two layers
of 128, fanout 4,4) and deep (three of 256, fanout 10,10,10) with neighbour sampling, labor (the tutorial's, with LABOR); a step has
2048 seeds. Ours: two PEs of 1024, which cooperate. DGL: its NeighborSampler under its DataLoader, with the number of workers out of
0, 1, 2 that is fastest here, and GraphBolt with NeighborSampler, and LayerNeighborSampler for labor. PyG: NeighborLoader where the
installation has what it needs, else nothing; it is the slowest by far, and --peers dgl,graphbolt leaves it out. All train float32
rows with mean aggregation, ReLU, dropout 0.5 and Adam.

Each peer is a process that loads, trains an epoch to warm up, and then waits for its turn: a round is an epoch of each, one after
the other, ours first; the seconds of each go to standard error at once. The table has medians over the rounds, least and most. Needs
torch, and of dgl and torch_geometric what is to be measured; what is not there is said and left out. Exit status 77 where there is no
peer at all.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SETTINGS = {
    "tutorial": {"hidden": 128, "fanout": [4, 4], "sampler": "neighbor"},
    "deep": {"hidden": 256, "fanout": [10, 10, 10], "sampler": "neighbor"},
    "labor": {"hidden": 128, "fanout": [4, 4], "sampler": "labor"},
}
PEERS = {"tutorial": ["dgl", "graphbolt", "pyg"], "deep": ["dgl", "graphbolt", "pyg"], "labor": ["graphbolt"]}
SEEDS = 2048
PES = 2


# ---- a peer: a process of its own


def dgl_model(n_in, hidden, n_out, n_layers):
    import dgl
    import torch

    class Sage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [n_in] + [hidden] * (n_layers - 1) + [n_out]
            self.layers = torch.nn.ModuleList(dgl.nn.SAGEConv(a, b, "mean") for a, b in zip(widths, widths[1:]))

        def forward(self, blocks, x):
            for i, (layer, block) in enumerate(zip(self.layers, blocks)):
                x = layer(block, x)
                if i + 1 < len(self.layers):
                    x = torch.nn.functional.dropout(torch.relu(x), 0.5, self.training)
            return x

    return Sage()


def train(model, optimiser, batches):
    import torch

    for blocks, x, y in batches:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(blocks, x), y).backward()
        optimiser.step()


def dgl_ways(data, setting):
    """DGL's DataLoader, once for each number of workers: name, a function that trains an epoch."""
    import dgl
    import torch

    graph = dgl.graph(("csc", (data["offsets"], data["sources"], [])))
    graph.ndata["x"], graph.ndata["y"] = data["x"], data["y"]
    graph.create_formats_()
    sampler = dgl.dataloading.NeighborSampler(setting["fanout"], prefetch_node_feats=["x"], prefetch_labels=["y"])
    model = dgl_model(data["x"].shape[1], setting["hidden"], data["n_classes"], len(setting["fanout"]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)

    def way(workers):
        loader = dgl.dataloading.DataLoader(graph, data["train"], sampler, batch_size=SEEDS, shuffle=True, num_workers=workers,
                                            persistent_workers=workers > 0)

        def batches():
            for _, _, blocks in loader:
                yield blocks, blocks[0].srcdata["x"], blocks[-1].dstdata["y"]

        return lambda: train(model, optimiser, batches())

    return [(f"DGL {dgl.__version__}, NeighborSampler, {n} workers", way(n)) for n in (0, 1, 2)]


def graphbolt_ways(data, setting):
    import dgl
    import dgl.graphbolt as gb
    import torch

    graph = gb.fused_csc_sampling_graph(data["offsets"], data["sources"])
    items = gb.ItemSet((data["train"], data["y"][data["train"]]), names=("seed_nodes", "labels"))
    features = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(data["x"])})
    model = dgl_model(data["x"].shape[1], setting["hidden"], data["n_classes"], len(setting["fanout"]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    sampler = gb.LayerNeighborSampler if setting["sampler"] == "labor" else gb.NeighborSampler
    fanouts = [torch.tensor([k]) for k in setting["fanout"]]

    def way(workers):
        pipe = gb.ItemSampler(items, batch_size=SEEDS, shuffle=True)
        pipe = gb.FeatureFetcher(sampler(pipe, graph, fanouts), features, node_feature_keys=["x"])
        loader = gb.DataLoader(pipe, num_workers=workers)
        return lambda: train(model, optimiser, ((b.blocks, b.node_features["x"], b.labels) for b in loader))

    return [(f"DGL {dgl.__version__}, GraphBolt, {n} workers", way(n)) for n in (0, 1, 2)]


def pyg_ways(data, setting):
    import peer_pyg
    import torch
    import torch_geometric

    loader = peer_pyg.loader_of(data, setting["fanout"], SEEDS, workers=2)
    if loader is None:
        return []
    model = peer_pyg.Sage(data["x"].shape[1], setting["hidden"], data["n_classes"], len(setting["fanout"]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    n_layers = len(setting["fanout"])
    return [(f"PyG {torch_geometric.__version__}, NeighborLoader, 2 workers",
             lambda: peer_pyg.epoch(model, optimiser, peer_pyg.batches_of_loader(loader, data, n_layers)))]


WAYS = {"dgl": dgl_ways, "graphbolt": graphbolt_ways, "pyg": pyg_ways}


def seconds_of(epoch):
    start = time.perf_counter()
    epoch()
    return time.perf_counter() - start


def serve(options):
    """Load, warm up, choose the fastest way; then an epoch for each line on standard input."""
    import peer_pyg
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the libraries print is no answer
    data = peer_pyg.load(options.data, options.features, "cpu")
    try:
        ways = WAYS[options.serve](data, SETTINGS[options.settings])
    except ImportError as missing:
        print(f"peers: {options.serve}: {missing}", file=sys.stderr)
        ways = []
    if not ways:
        return 77
    for _, epoch in ways:
        epoch()
    name, epoch = min(ways, key=lambda way: seconds_of(way[1]))
    print(f"{name}, torch {torch.__version__}", file=answers)
    for _ in sys.stdin:
        print(seconds_of(epoch), file=answers)
    return 0


# ---- the driver


class Peer:
    def __init__(self, kind, setting, options):
        command = [sys.executable, os.path.abspath(__file__), options.program, "--serve", kind, "--settings", setting, "--data",
                   options.data, "--features", options.features, "--threads", str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.process.stdout.readline().strip()
        self.seconds = []

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.seconds.append(float(self.process.stdout.readline()))

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


class Ours:
    """coop_sage: each turn is a run of a warm-up epoch and one more, which is the one that counts."""

    def __init__(self, setting, options, more):
        s = SETTINGS[setting]
        self.name = " ".join(["coop_sage"] + more)
        place, dataset = os.path.split(os.path.abspath(options.data))
        self.command = [options.program, "--quiet", "--data-path", place, "--dataset", dataset, "--features", options.features, "--layers", str(len(s["fanout"])), "--hidden", str(s["hidden"]), "--fanout",
                        ",".join(map(str, s["fanout"])), "--sampler", s["sampler"], "--batch-size", str(SEEDS // PES), "--pes",
                        str(PES), "--cpus", str(options.threads), "--epochs", "2", "--eval-every", "0"] + more
        self.seconds = []

    def turn(self):
        with tempfile.TemporaryDirectory() as folder:
            metrics = os.path.join(folder, "metrics")
            subprocess.run(self.command + ["--metrics", metrics], check=True, stdout=subprocess.DEVNULL)
            with open(metrics, encoding="utf-8") as lines:
                epochs = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
        self.seconds.append(epochs[-1]["seconds"])

    def end(self):
        return 0


def measure(setting, options):
    """Print the setting's rows; returns how many peers there were."""
    contenders = [Ours(setting, options, [])] + [Ours(setting, options, more.split()) for more in options.ours]
    peers = [Peer(kind, setting, options) for kind in PEERS[setting] if kind in options.peers.split(",")]
    for peer in peers:
        if not peer.name:
            print(f"peers: {setting}: a peer is left out, exit status {peer.end()}", file=sys.stderr)
    peers = [peer for peer in peers if peer.name]
    contenders += peers
    for _ in range(options.rounds):
        for contender in contenders:
            contender.turn()
            print(f"peers: {setting}: {contender.name}: {contender.seconds[-1]:.3f} s", file=sys.stderr, flush=True)
    ours = statistics.median(contenders[0].seconds)
    for contender in contenders:
        median = statistics.median(contender.seconds)
        print(f"| {setting} | {contender.name} | {median:.3f} | {min(contender.seconds):.3f} .. {max(contender.seconds):.3f} "
              f"| {median / ours:.2f} |", flush=True)
    for peer in peers:
        peer.end()
    return len(peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--features", default="raw/node-feat.csv.gz")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--peers", default=",".join(WAYS), help="those that are measured")
    parser.add_argument("--ours", action="append", default=[], help="ours once more, with these options")
    parser.add_argument("--serve", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if options.serve:
        return serve(options)
    print(f"| setting | | epoch, s, median of {options.rounds} | least .. most | against coop_sage |\n| --- | --- | --- | --- | --- |")
    n_peers = sum(measure(setting, options) for setting in options.settings.split(","))
    return 0 if n_peers else 77


if __name__ == "__main__":
    sys.exit(main())
