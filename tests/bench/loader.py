# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""sl.NeighborLoader beside PyTorch Geometric's NeighborLoader on ogbn-arxiv, by turns: the same model, seeds, fanout and
batch. Prints a table: sampling alone, a whole epoch, and the accuracy after all rounds.

usage: loader.py LIBRARY PACKAGES [OPTION ...]

PACKAGES: the folder of the package starling_gnn. Every round is an epoch of each loader, in turning order. A loader
keeps its model from round to round. PyTorch Geometric samples by pyg-lib or torch-sparse; without both, its row is left
out. Rows with `trimmed` call trim_to_layer before each layer: for that the loader has to tell the sizes of the hops.
Says in a line what is missing, and exits with 77.
"""

import argparse
import os
import statistics
import sys
import time
import warnings

from turns import arxiv, head, row, skip

os.environ["STARLING_LIBRARY"] = os.path.realpath(sys.argv[1])
sys.path.insert(0, sys.argv[2])
try:
    import numpy as np
    import starling_gnn as sl
    import torch
    import torch.nn.functional as functional
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import to_torch_csr_tensor, to_undirected, trim_to_layer
except ImportError as error:
    skip(f"missing: {error}")


class Sage(torch.nn.Module):
    """GraphSAGE, as in PyTorch Geometric's examples."""

    def __init__(self, widths):
        super().__init__()
        self.convs = torch.nn.ModuleList(SAGEConv(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x, edge_index, hops=None):
        for layer, conv in enumerate(self.convs):
            if hops is not None:
                x, edge_index, _ = trim_to_layer(layer, *hops, x, edge_index)
            x = conv(x, edge_index)
            if layer + 1 < len(self.convs):
                x = functional.dropout(x.relu(), 0.5, self.training)
        return x


class Way:
    """A loader and its model, with what was measured."""

    def __init__(self, name, loader, trimmed, widths):
        torch.manual_seed(1)
        self.name, self.loader, self.trimmed = name, loader, trimmed
        self.model = Sage(widths)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.sampling, self.epoch = [], []

    def sample(self):
        start = time.perf_counter()
        sizes = [(batch.num_nodes, batch.num_edges) for batch in self.loader]
        self.sampling.append(time.perf_counter() - start)
        self.sizes = np.mean(sizes, axis=0)

    def train(self):
        self.model.train()
        start = time.perf_counter()
        for batch in self.loader:
            hops = (batch.num_sampled_nodes, batch.num_sampled_edges) if self.trimmed else None
            self.optimizer.zero_grad()
            out = self.model(batch.x, batch.edge_index, hops)[: batch.batch_size]
            functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            self.optimizer.step()
        self.epoch.append(time.perf_counter() - start)

    @torch.no_grad()
    def accuracy(self, data, adjacency, ids):
        self.model.eval()
        return float((self.model(data.x, adjacency).argmax(1) == data.y)[ids].float().mean())


def table(folder, name, dtype):
    return np.loadtxt(os.path.join(folder, name), dtype, delimiter=",", ndmin=2)


def read(folder, features):
    """(edges (2, E), features, classes, [ids of train, valid, test]) of ogbn-arxiv."""
    lists = [table(folder, f"split/time/{name}.csv.gz", np.int64)[:, 0] for name in ("train", "valid", "test")]
    edges, y = table(folder, "raw/edge.csv.gz", np.int64).T, table(folder, "raw/node-label.csv.gz", np.int64)[:, 0]
    return np.ascontiguousarray(edges), table(folder, features, np.float32), y, lists


def main():
    parser = argparse.ArgumentParser(prog="loader")
    parser.add_argument("--fanout", default="10,10", help="seeds first")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    given = parser.parse_args(sys.argv[3:])
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    edges, x, y, lists = read(*arxiv())
    fanout = [int(number) for number in given.fanout.split(",")]
    graph = sl.Graph(edges, x, y, train=lists[0], valid=lists[1], test=lists[2])
    data = Data(x=torch.from_numpy(x), y=torch.from_numpy(y), edge_index=to_undirected(torch.from_numpy(edges)))
    adjacency = to_torch_csr_tensor(data.edge_index, size=(len(x), len(x)))
    common = dict(num_neighbors=fanout, batch_size=given.batch_size, shuffle=True)
    widths = [x.shape[1]] + [given.hidden] * (len(fanout) - 1) + [int(y.max()) + 1]
    ways, tells_hops = [], False
    by = [name for name in ("pyg_lib", "torch_sparse") if getattr(torch_geometric.typing, f"WITH_{name.upper()}")]
    if by:
        theirs = torch_geometric.loader.NeighborLoader(data, input_nodes=torch.from_numpy(lists[0]), **common)
        ways.append(Way(f"PyG {torch_geometric.__version__}, {by[0]}", theirs, False, widths))
        tells_hops = "num_sampled_nodes" in next(iter(theirs))
    else:
        print("loader: left out: PyTorch Geometric, which samples by pyg-lib or torch-sparse", file=sys.stderr)
    if tells_hops:
        ways.append(Way(ways[0].name + ", trimmed", theirs, True, widths))
    for trimmed in (False, True):
        for sampler in ("neighbor", "labor"):
            ours = sl.NeighborLoader(graph, sampler=sampler, **common)
            ways.append(Way(f"Starling, {sampler}{', trimmed' if trimmed else ''}", ours, trimmed, widths))
    for i in range(given.rounds):
        for way in ways[:: 1 - 2 * (i % 2)]:
            way.sample()
            way.train()
        print(f"round {i + 1}: " + "; ".join(f"{way.name} {way.epoch[-1]:.2f} s" for way in ways), file=sys.stderr)
    print(
        f"ogbn-arxiv, GraphSAGE of {len(fanout)} layers of {given.hidden}, fanout {given.fanout}, {given.batch_size} "
        f"seeds, torch {torch.__version__} with {given.threads} threads, medians of {given.rounds} epochs"
    )
    head("loader", "vertices, edges of a batch", "sampling alone, s an epoch", "epoch, s", "first row's epoch / this one",
         "valid, test accuracy")
    for way in ways:
        sampling, epoch = statistics.median(way.sampling), statistics.median(way.epoch)
        scores = ", ".join(f"{way.accuracy(data, adjacency, ids):.4f}" for ids in lists[1:])
        row(way.name, f"{way.sizes[0]:.0f}, {way.sizes[1]:.0f}", f"{sampling:.3f}", f"{epoch:.3f}",
            f"{statistics.median(ways[0].epoch) / epoch:.2f}", scores)


if __name__ == "__main__":
    main()
