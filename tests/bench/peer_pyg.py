#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""PyTorch Geometric at the settings of tests/bench/bench.c, so that both are timed on one machine in one run.

usage: peer_pyg.py --data DIR [--features FILE] [--setting tutorial|deep] [--model sage|gat] [--repeats N]
                   [--device cuda|cpu]

DIR is a dataset in OGB's raw layout (raw/edge.csv.gz, raw/node-label.csv.gz, split/time/train.csv.gz). Two ways of sampling:
NeighborLoader where PyG has it (it needs pyg-lib or torch-sparse), else uniform sampling written in PyTorch on the device, with
replacement where a vertex has more in-neighbours than the fanout, which is less work than without. What was used is printed.
The model is GraphSAGE with mean aggregation and ReLU, or GAT with 8 heads (one in the last layer), an edge of each vertex to
itself, and ELU; dropout 0.5 and Adam; float32, TF32 off. Features, graph and labels are on the device. One epoch to warm up,
then the median of N. Needs torch, torch_geometric and numpy; exit status 77 without them.
"""
import argparse
import os
import statistics
import sys
import time

try:
    import numpy as np
    import torch
    import torch_geometric
    from torch_geometric.nn import GATConv, SAGEConv
except ImportError as missing:
    print(f"peer_pyg: skipped: {missing}", file=sys.stderr)
    sys.exit(77)

SETTINGS = {"tutorial": (128, [4, 4], 2048), "deep": (256, [10, 10, 10], 2048)}  # hidden, fanout, seeds of a step


def read_csv(path, dtype):
    import gzip

    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=",", dtype=dtype, ndmin=2)


def load(folder, features, device):
    """Vertices' features and labels, training ids, and the in-edges as CSC, reverse edges added, duplicates removed."""
    edges = read_csv(os.path.join(folder, "raw/edge.csv.gz"), np.int64)
    labels = read_csv(os.path.join(folder, "raw/node-label.csv.gz"), np.int64)[:, 0]
    train = read_csv(os.path.join(folder, "split/time/train.csv.gz"), np.int64)[:, 0]
    n = len(labels)
    both = np.concatenate([edges, edges[:, ::-1]])
    keys = np.unique(both[:, 1] * n + both[:, 0])  # by destination, then source
    offsets = np.searchsorted(keys, np.arange(n + 1) * n)
    x = read_csv(os.path.join(folder, features), np.float32)
    return {
        "x": torch.from_numpy(x).to(device),
        "y": torch.from_numpy(labels).to(device),
        "train": torch.from_numpy(train).to(device),
        "offsets": torch.from_numpy(offsets).to(device),
        "sources": torch.from_numpy(keys % n).to(device),
        "n_classes": int(labels.max()) + 1,
    }


class Model(torch.nn.Module):
    def __init__(self, kind, n_in, hidden, n_out, n_layers):
        super().__init__()
        widths = [n_in] + [hidden] * (n_layers - 1) + [n_out]
        heads = [8] * (n_layers - 1) + [1]
        if kind == "gat":
            layers = (GATConv(a, b // k, k) for a, b, k in zip(widths, widths[1:], heads))
            self.activation = torch.nn.functional.elu
        else:
            layers = (SAGEConv(a, b) for a, b in zip(widths, widths[1:]))
            self.activation = torch.relu
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x, blocks):
        """blocks: from the input side, (edge_index with local ids, number of destinations)."""
        for i, (layer, (edge_index, n_rows)) in enumerate(zip(self.layers, blocks)):
            x = layer((x, x[:n_rows]), edge_index)
            if i + 1 < len(self.layers):
                x = torch.nn.functional.dropout(self.activation(x), 0.5, self.training)
        return x


def sample_in_torch(graph, seeds, fanout):
    """The blocks of one minibatch, hop by hop from the seeds, and the input vertices, destinations first."""
    frontier, blocks = seeds, []
    rank = torch.empty(len(graph["y"]), dtype=torch.int64, device=seeds.device)
    for k in reversed(fanout):
        first = graph["offsets"][frontier]
        degree = graph["offsets"][frontier + 1] - first
        draw = (torch.rand(len(frontier), k, device=seeds.device) * degree[:, None]).long()
        order = torch.arange(k, device=seeds.device).expand(len(frontier), k)
        position = torch.where(degree[:, None] <= k, order, draw)
        valid = order < degree[:, None]
        rows = torch.arange(len(frontier), device=seeds.device)[:, None].expand(-1, k)[valid]
        sources = graph["sources"][(first[:, None] + position)[valid]]
        rank.fill_(-1)
        rank[frontier] = torch.arange(len(frontier), device=seeds.device)
        new = torch.unique(sources[rank[sources] < 0])
        rank[new] = torch.arange(len(frontier), len(frontier) + len(new), device=seeds.device)
        blocks.insert(0, (torch.stack([rank[sources], rows]), len(frontier)))
        frontier = torch.cat([frontier, new])
    return frontier, blocks


def batches_in_torch(graph, fanout, n_seeds):
    order = graph["train"][torch.randperm(len(graph["train"]), device=graph["train"].device)]
    for seeds in order.split(n_seeds):
        inputs, blocks = sample_in_torch(graph, seeds, fanout)
        yield graph["x"][inputs], blocks, graph["y"][seeds]


def loader_of(graph, fanout, n_seeds, workers=4):
    """PyG's own loader, or None. It samples on the host."""
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    n = len(graph["y"])
    rows = torch.repeat_interleave(torch.arange(n), graph["offsets"].cpu().diff())
    data = Data(edge_index=torch.stack([graph["sources"].cpu(), rows]), num_nodes=n)
    try:
        loader = NeighborLoader(data, num_neighbors=fanout[::-1], input_nodes=graph["train"].cpu(), batch_size=n_seeds,
                                shuffle=True, num_workers=workers, persistent_workers=True)
        next(iter(loader))
    except ImportError as missing:
        print(f"peer_pyg: no NeighborLoader ({str(missing).splitlines()[0]})")
        return None
    return loader


def batches_of_loader(loader, graph, n_layers):
    for batch in loader:
        ids = batch.n_id.to(graph["x"].device, non_blocking=True)
        edge_index = batch.edge_index.to(graph["x"].device, non_blocking=True)
        # All layers see the whole sampled subgraph, as in PyG's examples.
        blocks = [(edge_index, len(ids))] * n_layers
        yield graph["x"][ids], blocks, graph["y"][ids[: batch.batch_size]]


def epoch(model, optimiser, batches):
    for x, blocks, y in batches:
        optimiser.zero_grad()
        scores = model(x, blocks)[: len(y)]
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimiser.step()


def synchronise(device):
    if device == "cuda":
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--features", default="raw/node-feat.csv.gz")
    parser.add_argument("--setting", choices=sorted(SETTINGS), default="tutorial")
    parser.add_argument("--model", choices=["sage", "gat"], default="sage")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    hidden, fanout, n_seeds = SETTINGS[options.setting]
    graph = load(options.data, options.features, options.device)
    model = Model(options.model, graph["x"].shape[1], hidden, graph["n_classes"], len(fanout)).to(options.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    loader = loader_of(graph, fanout, n_seeds)
    ways = {"sampling in PyTorch": lambda: batches_in_torch(graph, fanout, n_seeds)}
    if loader is not None:
        ways["NeighborLoader"] = lambda: batches_of_loader(loader, graph, len(fanout))
    for name, batches in ways.items():
        seconds = []
        for _ in range(options.repeats + 1):
            synchronise(options.device)
            start = time.perf_counter()
            epoch(model, optimiser, batches())
            synchronise(options.device)
            seconds.append(time.perf_counter() - start)
        print(f"PyG {torch_geometric.__version__}, torch {torch.__version__}, {options.device}, {options.setting}, "
              f"{options.model}, {name}: "
              f"{statistics.median(seconds[1:]):.4f} s an epoch ({min(seconds[1:]):.4f} .. {max(seconds[1:]):.4f})")


if __name__ == "__main__":
    main()
