# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""LADIES and PLADIES beside the samplers of DGL's example, as a table for doc/results.md.

usage: layers.py COOP_SAGE [N [DRAWS]]

Layers of N sources for 512 vertices of a made graph. The sums estimate the mean of the in-neighbours' numbers, or the
sum of gcn. Means over the draws; the bias is the mean over vertices and draws, with its standard error. PYTHONPATH has
the folder of ladies_sampler.py, from examples/pytorch/labor of DGL.
"""

import json
import os
import sys
import tempfile

from turns import SMOKE, head, row, run, skip

try:
    import dgl
    import ladies_sampler as theirs
    import numpy as np
    import torch
except ImportError as error:
    skip(f"{error}; this takes dgl and the ladies_sampler.py of its examples/pytorch/labor")


def made_graph(folder):
    """Edges (2, E) of 3000 vertices, both directions, degrees and numbers that grow with the degree; 512 seeds."""
    rng = np.random.default_rng(1)
    ends = (3000 * rng.random((2, 15000)) ** [[1], [2]]).astype(np.int64)
    ends = ends[:, ends[0] != ends[1]]
    edges = np.unique(np.concatenate([ends, ends[::-1]], 1), axis=1)
    degree = np.bincount(edges[1], minlength=3000)
    x = (np.log1p(degree) + rng.random(3000)).astype(np.float32)
    seeds = np.sort(rng.permutation(np.flatnonzero(degree))[:514])
    for place in ("raw", "split/own"):
        os.makedirs(os.path.join(folder, place))
    np.save(f"{folder}/raw/edge.npy", np.ascontiguousarray(edges))
    np.save(f"{folder}/raw/node-feat.npy", x[:, None])
    for name, ids in (("train", seeds[2:]), ("valid", seeds[:1]), ("test", seeds[1:2])):
        np.save(f"{folder}/split/own/{name}.npy", ids)
    return edges, degree, x, seeds[2:]


def draws_of_ours(program, folder, exact, draws, model, *options):
    """Of each draw: the vertices, the edges, the mean error of the seeds' sums, and the mean square. The losses of a
    layer of weight 1 have them: E (z - y)^2, and E (z - y - 1)^2."""
    common = ["--dataset", folder, "--cache=none", f"--model={model}", "--layers=1", "--objective=regression", "--pes=2"]
    weights, losses = os.path.join(folder, "weights"), []
    for shift in (0, 1):
        np.save(f"{folder}/raw/node-label.npy", (exact + shift)[:, None].astype(np.float32))
        run(program, [*common, "--epochs=0", "--save", weights])
        with open(weights, "r+b") as file:
            size = int.from_bytes(file.read(8), "little")
            for name, array in json.loads(file.read(size)).items():
                if name != "__metadata__":
                    file.seek(8 + size + array["data_offsets"][0])
                    file.write(np.float32("self" not in name and "bias" not in name).tobytes())
        done = run(program, [*common, "--load", weights, "--lr=1e-30", "--batch-size=512", "--eval-every=0", "--epochs",
                             str(draws), *options])
        losses.append(np.array([epoch["train_loss"] for epoch in done.epochs]))
    counts = [(epoch["vertices"][-1], epoch["edges"][0]) for epoch in done.epochs]
    return [*np.transpose(counts), (losses[0] + 1 - losses[1]) / 2, losses[0]]


def draws_of_dgl(sampler, graph, x, seeds, exact, draws):
    found = []
    for _ in range(draws):
        _, _, (block,) = sampler.sample_blocks(graph, torch.from_numpy(seeds))
        sums = np.zeros(len(seeds))
        source, to = (ends.numpy() for ends in block.edges())
        ids = block.srcdata["_ID"].numpy()
        np.add.at(sums, to, block.edata["edge_weights"].numpy() * x[ids[source]])
        error = sums / np.maximum(np.bincount(to, minlength=len(seeds)), 1) - exact[block.dstdata["_ID"].numpy()]
        found.append((block.num_src_nodes(), block.num_edges(), error.mean(), (error ** 2).mean()))
    return np.transpose(found)


def compare(program, size=256, draws=400):
    head("sampler", "estimates", "vertices", "edges", "bias", "root mean square error")
    with tempfile.TemporaryDirectory() as folder:
        (source, to), degree, x, seeds = made_graph(folder)
        mean = np.bincount(to, x[source], 3000) / np.maximum(degree, 1)
        scale = 1 / np.sqrt(degree + 1)
        total = (np.bincount(to, scale[source] * x[source], 3000) + scale * x) * scale
        graph = dgl.graph((torch.from_numpy(source), torch.from_numpy(to)), num_nodes=3000)
        graph.edata["w"] = torch.from_numpy(1 / degree[to])
        torch.manual_seed(1)
        for name, other in (("ladies", theirs.LadiesSampler), ("pladies", theirs.PoissonLadiesSampler)):
            ours = [f"--sampler={name}", f"--layer-size={size}"]
            for label, what, found in (
                (f"`--sampler {name}`", "mean", draws_of_ours(program, folder, mean, draws, "sage", *ours)),
                (f"DGL's {other.__name__}", "mean", draws_of_dgl(other([size]), graph, x, seeds, mean, draws)),
                (f"`--sampler {name}`", "sum of gcn", draws_of_ours(program, folder, total, draws, "gcn", *ours)),
            ):
                vertices, edges, bias, square = found
                row(label, what, f"{vertices.mean():.1f}", f"{edges.mean():.1f}",
                    f"{bias.mean():.4f} ± {bias.std() / draws ** 0.5:.4f}", f"{square.mean() ** 0.5:.4f}")


if __name__ == "__main__":
    compare(sys.argv[1], *(map(int, sys.argv[2:]) if not SMOKE else (256, 3)))
