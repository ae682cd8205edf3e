#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""PyTorch Geometric's full-batch training of the model that pipe_gnn calls resgcn, to be timed beside it on one machine in one run.

usage: peer_full.py --data DIR [--features FILE] [--layers N] [--hidden N] [--repeats N] [--threads N]

DIR is a dataset in OGB's raw layout, as for peer_pyg.py. DeepGCNLayer ('res+': layer norm, ReLU, dropout 0.5, GCNConv, added to the
input) over the normalised adjacency as a sparse CSR tensor, which is the fastest way that PyG has on a CPU without its compiled
extensions; cross entropy over the training vertices, Adam, float32. One epoch to warm up, then the median of N. Needs torch,
torch_geometric and numpy; exit status 77 without them.
"""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer_pyg import load  # noqa: E402, I001: first, as it exits with 77 where something is missing
import torch  # noqa: E402
from torch_geometric.nn import DeepGCNLayer, GCNConv  # noqa: E402
from torch_geometric.nn.conv.gcn_conv import gcn_norm  # noqa: E402


class ResGCN(torch.nn.Module):
    def __init__(self, n_in, hidden, n_out, n_layers):
        super().__init__()
        self.first = torch.nn.Linear(n_in, hidden)
        self.layers = torch.nn.ModuleList()
        for _ in range(n_layers):
            conv = GCNConv(hidden, hidden, normalize=False)
            norm = torch.nn.LayerNorm(hidden)
            self.layers.append(DeepGCNLayer(conv, norm, torch.nn.ReLU(), block="res+", dropout=0.5))
        self.norm = torch.nn.LayerNorm(hidden)
        self.last = torch.nn.Linear(hidden, n_out)

    def forward(self, x, adjacency):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, adjacency)
        return self.last(torch.nn.functional.dropout(torch.relu(self.norm(x)), 0.5, self.training))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--features", default="raw/node-feat.csv.gz")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    data = load(args.data, args.features, "cpu")
    n = len(data["y"])
    targets = torch.repeat_interleave(torch.arange(n), data["offsets"].diff())
    edges, weights = gcn_norm(torch.stack([data["sources"], targets]), num_nodes=n, add_self_loops=True)
    adjacency = torch.sparse_coo_tensor(torch.stack([edges[1], edges[0]]), weights, (n, n)).coalesce().to_sparse_csr()
    model = ResGCN(data["x"].shape[1], args.hidden, data["n_classes"], args.layers)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    seconds = []
    for epoch in range(args.repeats + 1):
        start = time.perf_counter()
        optimiser.zero_grad()
        z = model(data["x"], adjacency)
        loss = torch.nn.functional.cross_entropy(z[data["train"]], data["y"][data["train"]])
        loss.backward()
        optimiser.step()
        seconds.append(time.perf_counter() - start)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, {seconds[-1]:.2f} s", file=sys.stderr, flush=True)
    print(f"PyG {args.layers} layers, hidden {args.hidden}: median of {args.repeats} epochs {statistics.median(seconds[1:]):.3f} s")


if __name__ == "__main__":
    main()
