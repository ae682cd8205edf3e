# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Minibatches of sampled neighbourhoods for training loops in PyTorch."""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from . import _arrays
from ._graph import as_graph
from ._library import Neighborhood, check, lib, made, make_settings, shown
from ._tools import expect, need, np

# Keywords that the sampler reads beside fanout.
_OPTIONS = ("sampler", "replace", "kappa", "layer_dependency", "edge_weights")
_OF_TORCH = ("num_workers", "persistent_workers", "pin_memory", "prefetch_factor")  # change no minibatch
_AHEAD = 2  # minibatches that are made while the caller trains


class NeighborLoader:
    """Minibatches as torch_geometric.loader.NeighborLoader yields them, drawn by Starling's samplers.

    Parameters
    ----------
    graph : Graph, or torch_geometric.data.Data
    fanout, num_neighbors : list of int
        In-neighbours of a vertex for each hop, -1 for all: fanout begins with the input side as in train(),
        num_neighbors with the seeds as in PyTorch Geometric. Give one of the two.
    input_nodes : array of ids or mask (N,)
        The seeds. None: the training vertices, or all vertices if there are none.
    batch_size : int
        Seeds of a minibatch. drop_last leaves out a last one of fewer seeds, shuffle orders them anew in each epoch.
    seed : int
        Loaders of equal arguments yield equal minibatches. Each iteration is an epoch, counted from 0.
    options
        sampler, replace, kappa, layer_dependency, edge_weights: as in train(). num_workers, persistent_workers,
        pin_memory and prefetch_factor of PyTorch are not used: a thread makes two minibatches ahead.

    A minibatch is a Data of V vertices and E edges; its seeds come first, and a vertex once. It has x, float32 (V, F);
    y as the graph has it, int64 classes (V,) or float32 (V, K); edge_index, int64 (2, E), numbers below V, ordered by
    destination; edge_weight, float32 (E,), if the graph has weights; edge_type, int64 (E,), if it is typed; n_id, int64
    (V,), vertices of the graph; input_id, int64, the seeds' positions in input_nodes; batch_size, the number of seeds;
    num_sampled_nodes and num_sampled_edges, vertices and edges of each hop, for trim_to_layer.

    >>> for batch in sl.NeighborLoader(graph, fanout=[10, 10], batch_size=1024, shuffle=True, sampler="labor"):
    ...     loss = F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
    """

    def __init__(
        self,
        graph: Any,
        fanout: Sequence[int] | None = None,
        *,
        num_neighbors: Sequence[int] | None = None,
        input_nodes: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if (fanout is None) == (num_neighbors is None):
            raise TypeError("NeighborLoader: expected fanout (input side first) or num_neighbors (seeds first)")
        options = {name: value for name, value in options.items() if name not in _OF_TORCH}
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            text = f"NeighborLoader() got an unexpected keyword argument '{unknown[0]}'"
            raise TypeError(f"{text}; expected some of {', '.join(_OPTIONS)}")
        self.graph = as_graph(graph)
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.epoch = 0
        listed: Any = num_neighbors if fanout is None else fanout
        one = not hasattr(listed, "__iter__")
        expect(not one, "fanout", shown(listed), "a list of numbers, one for each hop", TypeError)
        hops = list(listed)[::-1] if fanout is None else list(listed)
        given = {"layers": len(hops), "fanout": hops, "seed": seed, "batch_size": batch_size, **options}
        settings = make_settings(False, given, "NeighborLoader")
        self.batch_size, self.seed = int(settings.get("batch-size")), int(settings.get("seed"))
        self._dataset = self.graph._dataset()
        self._lock = threading.Lock()
        self._handle = made(C.c_void_p, lib.sl_sampler_open, settings.handle, self._dataset)
        if input_nodes is None:
            ids, n = C.c_void_p(), C.c_uint32()
            check(lib.sl_dataset_split(self._dataset, 0, C.byref(ids), C.byref(n)))
            input_nodes = _copy(ids.value, np.uint32, n.value) if n.value else np.arange(self.graph.n_vertices)
        self.input_nodes = _arrays.members(input_nodes, "input_nodes", self.graph.n_vertices)

    def __del__(self, close: Any = lib.sl_sampler_close) -> None:
        if getattr(self, "_handle", None):
            close(self._handle)

    def __len__(self) -> int:
        n = len(self.input_nodes)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __repr__(self) -> str:
        return f"NeighborLoader({self.graph.name!r}, {len(self)} minibatches of {self.batch_size} seeds)"

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = np.arange(len(self.input_nodes))
        if self.shuffle:
            np.random.Generator(np.random.Philox(key=[self.seed % 2**64, epoch])).shuffle(order)
        waiting: list[Future[Any]] = []
        with ThreadPoolExecutor(1, "starling-loader") as thread:
            try:
                for i in range(len(self) + _AHEAD):
                    if i < len(self):
                        chosen = order[i * self.batch_size : (i + 1) * self.batch_size]
                        waiting.append(thread.submit(self._batch, chosen, epoch * len(self) + i))
                    if waiting and i >= min(_AHEAD, len(self)):
                        yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    def _batch(self, chosen: Any, step: int) -> Any:
        torch, data_of = need("torch", "torch"), need("torch_geometric.data", "torch_geometric").Data
        arrays, hops = self._draw(step, self.input_nodes[chosen])
        tensors = {name: torch.from_numpy(array) for name, array in {**arrays, "input_id": chosen}.items()}
        return data_of(**tensors, batch_size=len(chosen), **hops)

    def _draw(self, step: int, seeds: Any) -> tuple[dict[str, Any], dict[str, list[int]]]:
        """The arrays of a minibatch, and its sizes by hop. seeds: uint32, contiguous."""
        with self._lock:
            drawn = made(Neighborhood, lib.sl_sampler_draw, self._handle, step, len(seeds), seeds.ctypes.data)
            vertices, n = _copy(drawn.vertices, np.uint32, drawn.n_vertices), drawn.n_edges
            ends = [_copy(address, np.uint32, n) for address in (drawn.sources, drawn.destinations)]
            of_edges = {}
            if drawn.weights:
                of_edges["edge_weight"] = _copy(drawn.weights, np.float32, n)
            if drawn.relations:
                of_edges["edge_type"] = _copy(drawn.relations, np.uint16, n).astype(np.int64)
            hops = {
                "num_sampled_nodes": _copy(drawn.hop_vertices, np.uint32, drawn.n_hops + 1).tolist(),
                "num_sampled_edges": _copy(drawn.hop_edges, np.uint64, drawn.n_hops).tolist(),
            }
        x = np.empty((len(vertices), self.graph.n_features), np.float32)
        check(lib.sl_dataset_features(self._dataset, len(vertices), vertices.ctypes.data, x.ctypes.data))
        arrays = {"x": x, "edge_index": np.array(ends, np.int64), "n_id": vertices.astype(np.int64), **of_edges}
        if self.graph.n_outputs > 0:
            kind: Any = np.int32 if self.graph.has_classes else np.float32
            y = np.empty((len(vertices), 1 if self.graph.has_classes else self.graph.n_outputs), kind)
            check(lib.sl_dataset_targets(self._dataset, len(vertices), vertices.ctypes.data, y.ctypes.data))
            arrays["y"] = y[:, 0].astype(np.int64) if self.graph.has_classes else y
        return arrays, hops


def _copy(address: int | None, dtype: Any, n: int) -> Any:
    array = np.empty(n, dtype)
    if n > 0:
        C.memmove(array.ctypes.data, address or 0, array.nbytes)
    return array
