#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""An epoch of sampled GraphSAGE by coop_sage, DGL and PyTorch Geometric, by turns on one machine; a table in Markdown.

usage: peers.py COOP_SAGE [--rounds N] [--threads N] [--settings NAME,..] [--peers NAME,..] [--ours OPTION,..]

$PEERS_ENV [peers-env] is the Python environment of the peers. If there is no such folder, it is made from PyPI, which
takes some 6 GB and ten minutes or more, as torch-sparse, without which PyTorch Geometric does not sample, is compiled.
DGL has files for Python 3.8 to 3.11. The dataset is ogbn-arxiv on $STARLING_DATA, with its own features or the
substitutes. Settings: tutorial (two layers of 128, fanout 4,4) and deep (three of 256, fanout 10,10,10) with neighbour
sampling, labor (the tutorial's, with LABOR); a step has 2048 seeds. Ours: two PEs of 1024, which cooperate. DGL: its
NeighborSampler under its DataLoader, with the number of workers out of 0, 1, 2 that is fastest here, and GraphBolt with
NeighborSampler, and LayerNeighborSampler for labor. PyG: NeighborLoader where the installation has what it needs, else
nothing; it is the slowest by far, and --peers dgl,graphbolt leaves it out. All train float32 rows with mean
aggregation, ReLU, dropout 0.5 and Adam.

Each peer is a process that loads, trains an epoch to warm up, and then waits for its turn: a round is an epoch of each,
one after the other, ours first; the seconds of each go to standard error at once. The table has medians over the
rounds, least and most. Needs torch, and of dgl and torch_geometric what is to be measured; what is not there is said
and left out. Exit status 77 where there is no peer at all.
"""
import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from turns import Peer, answers, arxiv, by_turns, head, in_peers_env, row, run, skip, spread

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
        loader = dgl.dataloading.DataLoader(graph, data["train"], sampler, batch_size=SEEDS, shuffle=True,
                                            num_workers=workers,
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
    stream = answers()
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
    print(json.dumps([f"{name}, torch {torch.__version__}"]), file=stream)
    for _ in sys.stdin:
        print(json.dumps(seconds_of(epoch)), file=stream)
    return 0


# ---- the driver


def ours(setting, options, more):
    """A turn of coop_sage: a warm-up epoch and one more, which is the one that counts."""
    s = SETTINGS[setting]
    place, folder = os.path.split(os.path.abspath(options.data))
    done = run(options.program, [
        "--data-path", place, "--dataset", folder, "--features", options.features, "--layers", str(len(s["fanout"])),
        "--hidden", str(s["hidden"]), "--fanout", ",".join(map(str, s["fanout"])), "--sampler", s["sampler"],
        "--batch-size", str(SEEDS // PES), "--pes", str(PES), "--cpus", str(options.threads), "--epochs", "2",
        "--eval-every", "0", *more])
    return done.epochs[-1]["seconds"]


def measure(setting, options):
    """Print the setting's rows; returns how many peers there were."""
    ways = {" ".join(["coop_sage", more]).strip(): functools.partial(ours, setting, options, more.split())
            for more in ["", *options.ours]}
    first = next(iter(ways))
    peers = []
    for kind in PEERS[setting]:
        if kind in options.peers.split(","):
            peer = Peer("--serve", kind, "--settings", setting)
            if peer.names:
                peers.append(peer)
                ways[peer.names[0]] = functools.partial(peer.turn, "")
            else:
                print(f"peers: {setting}: {kind} is left out, exit status {peer.end()}", file=sys.stderr)
    found = by_turns(options.rounds, ways)
    for name, seconds in found.items():
        row(setting, name, spread(seconds), f"{statistics.median(seconds) / statistics.median(found[first]):.2f}")
    for peer in peers:
        peer.end()
    return len(peers)


# ---- the Python environment of the peers


def make_environment(folder):
    """From PyPI. DGL 2.1.0 is the last one that PyPI has with GraphBolt, and torch 2.2.1 the last that it fits."""
    part, pip = folder + ".part", [os.path.join(folder + ".part", "bin/python"), "-m", "pip", "install", "-q"]
    for command, otherwise in [
        ([sys.executable, "-m", "venv", part], f"{sys.executable} -m venv does not work (Debian: python3-venv)"),
        ([*pip, "wheel", "setuptools<70"], "PyPI is not reached"),
    ]:
        if subprocess.run(command, check=False).returncode != 0:
            shutil.rmtree(part, ignore_errors=True)
            skip(otherwise)
    print(f"peers: making {folder} from PyPI: torch 2.2.1, DGL 2.1.0, PyTorch Geometric, torch-sparse; some 6 GB",
          file=sys.stderr)
    subprocess.run([*pip, "torch==2.2.1", "dgl==2.1.0", "torchdata==0.7.1", "numpy<2", "scipy", "pandas", "pydantic",
                    "pyyaml",
                    "torch_geometric"], check=True)
    if subprocess.run([*pip, "--no-build-isolation", "torch-scatter", "torch-sparse"], check=False).returncode != 0:
        print("peers: torch-sparse could not be built; PyTorch Geometric's sampling is left out", file=sys.stderr)
    os.rename(part, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--peers", default=",".join(WAYS), help="those that are measured")
    parser.add_argument("--ours", action="append", default=[], help="ours once more, with these options")
    parser.add_argument("--serve", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.data, options.features = arxiv()
    folder = os.environ.get("PEERS_ENV", "peers-env")
    if not os.path.isdir(folder):
        make_environment(folder)
    in_peers_env("torch")
    if options.serve:
        return serve(options)
    head("setting", "", f"epoch, s, median of {options.rounds} (least .. most)", "against coop_sage")
    n_peers = sum(measure(setting, options) for setting in options.settings.split(","))
    return 0 if n_peers else 77


if __name__ == "__main__":
    sys.exit(main())
