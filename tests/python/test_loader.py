# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""sl.NeighborLoader (tests/cli/test_python.sh): its minibatches beside the graph. Skipped without torch_geometric."""

import unittest

import numpy as np
import starling_gnn as sl

from support import needs

N, F = 300, 5


def graph(**changes):
    rng = np.random.default_rng(3)
    edges = np.stack([rng.integers(0, N, 6 * N), rng.integers(0, N - 1, 6 * N)])  # vertex N - 1 has no in-neighbours
    x = rng.random((N, F)).astype(np.float32)
    given = dict(edge_index=edges, x=x, y=np.arange(N) % 4, train=np.arange(0, N, 2), directed=True, name="loader")
    return sl.Graph(**{**given, **changes})


def edges_of(graph):
    """The distinct edges of arrays, as pairs."""
    return {tuple(pair) for pair in np.asarray(graph).T.tolist()}


@needs("torch_geometric")
class Loader(unittest.TestCase):
    def test_a_minibatch_is_a_part_of_the_graph(self):
        rng = np.random.default_rng(3)
        listed = edges_of(np.stack([rng.integers(0, N, 6 * N), rng.integers(0, N - 1, 6 * N)]))
        g = graph()
        for sampler in ("neighbor", "labor", "full"):
            loader = sl.NeighborLoader(g, fanout=[3, 2], batch_size=40, sampler=sampler)
            self.assertEqual(len(loader), 4)
            seeds = []
            for batch in loader:
                ids = batch.n_id.numpy()
                self.assertTrue(batch.validate())
                self.assertEqual(len(set(ids)), len(ids))
                np.testing.assert_array_equal(batch.x.numpy(), g.x[ids])
                np.testing.assert_array_equal(batch.y.numpy(), ids % 4)
                self.assertLessEqual(edges_of(ids[batch.edge_index.numpy()]), listed)
                self.assertTrue((np.diff(batch.edge_index[1].numpy()) >= 0).all())
                self.assertEqual(sum(batch.num_sampled_nodes), len(ids))
                self.assertEqual(sum(batch.num_sampled_edges), batch.edge_index.shape[1])
                np.testing.assert_array_equal(loader.input_nodes[batch.input_id.numpy()], ids[: batch.batch_size])
                seeds += ids[: batch.batch_size].tolist()
            self.assertEqual(seeds, list(range(0, N, 2)))

    def test_all_neighbours_of_the_seeds_are_the_graph(self):
        rng = np.random.default_rng(3)
        listed = edges_of(np.stack([rng.integers(0, N, 6 * N), rng.integers(0, N - 1, 6 * N)]))
        (batch,) = sl.NeighborLoader(graph(), fanout=[-1], input_nodes=np.arange(N), batch_size=N)
        self.assertEqual(edges_of(batch.n_id.numpy()[batch.edge_index.numpy()]), listed)

    def test_the_same_minibatches_again(self):
        import torch

        def epochs(**changes):
            loader = sl.NeighborLoader(graph(), **{**dict(fanout=[3, 2], batch_size=32, shuffle=True), **changes})
            return [[batch.n_id for batch in loader] for _ in range(2)]

        first, second = epochs()
        again, _ = epochs()
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, again)))
        self.assertFalse(torch.equal(first[0], second[0]))
        turned, _ = epochs(fanout=None, num_neighbors=[2, 3])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, turned)))
        other, _ = epochs(seed=1)
        self.assertFalse(torch.equal(first[0], other[0]))
        self.assertEqual(len(epochs(drop_last=True)[0]), 150 // 32)

    def test_an_epoch_that_is_left(self):
        loader = sl.NeighborLoader(graph(), fanout=[2], batch_size=10)
        for batch in loader:
            break
        self.assertEqual(batch.batch_size, 10)
        self.assertEqual(len(list(loader)), 15)

    def test_weights_types_and_numbers(self):
        weights = np.arange(6 * N, dtype=np.float32) + 1
        batch = next(iter(sl.NeighborLoader(graph(edge_weight=weights), fanout=[2], batch_size=8)))
        self.assertEqual(batch.edge_weight.shape[0], batch.edge_index.shape[1])
        self.assertGreaterEqual(float(batch.edge_weight.min()), 1)
        typed = graph(edge_type=np.arange(6 * N) % 2)
        batch = next(iter(sl.NeighborLoader(typed, fanout=[2], batch_size=8)))
        self.assertEqual(set(batch.edge_type.tolist()), {0, 1})
        y = np.arange(2.0 * N).reshape(N, 2) / 3
        batch = next(iter(sl.NeighborLoader(graph(y=y), fanout=[2], batch_size=8)))
        np.testing.assert_array_equal(batch.y.numpy(), y.astype(np.float32)[batch.n_id.numpy()])

    def test_takes_data_and_trims(self):
        import torch
        from torch_geometric.data import Data
        from torch_geometric.utils import trim_to_layer

        g = graph()
        data = Data(x=torch.from_numpy(g.x), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.arange(N) % 4)
        data.train_mask = torch.arange(N) < 4
        batch = next(iter(sl.NeighborLoader(data, num_neighbors=[5, 5], batch_size=4, num_workers=2, pin_memory=True)))
        self.assertEqual(batch.n_id.tolist(), [0, 1, 2, 3])
        nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
        x, edge_index, _ = trim_to_layer(0, nodes, edges, batch.x, batch.edge_index)
        x, edge_index, _ = trim_to_layer(1, nodes, edges, x, edge_index)
        self.assertEqual(edge_index.shape[1], edges[0])

    def test_a_training_loop(self):
        import torch
        import torch.nn.functional as functional
        from torch_geometric.nn import SAGEConv

        torch.manual_seed(0)
        y = np.arange(N) % 4
        x = np.eye(4, dtype=np.float32)[y] + 0.1
        loader = sl.NeighborLoader(graph(x=x), fanout=[4], batch_size=50, shuffle=True)
        model = SAGEConv(4, 4)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(8):
            for batch in loader:
                optimizer.zero_grad()
                n = batch.batch_size
                loss = functional.cross_entropy(model(batch.x, batch.edge_index)[:n], batch.y[:n])
                loss.backward()
                optimizer.step()
        self.assertLess(float(loss), 0.2)

    def test_refusals(self):
        for words, arguments in (
            ("expected fanout", {}),
            ("expected fanout", dict(fanout=[2], num_neighbors=[2])),
            ("unexpected keyword argument 'workers'", dict(fanout=[2], workers=2)),
            ("batch_size: found '0'", dict(fanout=[2], batch_size=0)),
            ("batch_size: found '[]'", dict(fanout=[2], batch_size=[])),
            ("seed: found 'a'", dict(fanout=[2], seed="a")),
            ("fanout: found 3, expected a list", dict(fanout=3)),
            ("expected 1 to 256 whole numbers", dict(fanout=[2.5])),
            ("input_nodes: found id 300", dict(fanout=[2], input_nodes=[300])),
            ("seeds[1] is 4, as seeds[0]", dict(fanout=[2], input_nodes=[4, 4], batch_size=2)),
            ("sampler", dict(fanout=[2], sampler="random")),
        ):
            with self.assertRaises((TypeError, ValueError), msg=words) as caught:
                list(sl.NeighborLoader(graph(), **arguments))
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
