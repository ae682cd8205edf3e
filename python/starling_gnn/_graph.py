# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Graphs with features, labels and a split, and minibatches of sampled neighbourhoods for PyTorch."""

from __future__ import annotations

import ctypes as C
import os
import threading
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, Union

from . import _arrays, _sources
from ._library import LOAD, Arrays, DatasetSizes, Neighborhood, check, lib, made, make_settings, shown, warn
from ._tools import Array, expect, need, np

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._model import Model
    from ._options import LoadOptions

    Path = Union[str, os.PathLike[str]]

    class _Data(Protocol):
        @property
        def num_nodes(self) -> Any: ...

    GraphLike = Union["Graph", Path, _Data]

# Keywords that the sampler reads beside fanout.
_OF_SAMPLER = ("sampler", "replace", "kappa", "layer_dependency", "edge_weights")
_OF_TORCH = ("num_workers", "persistent_workers", "pin_memory", "prefetch_factor")  # change no minibatch
_AHEAD = 2  # minibatches that are made while the caller trains


class Graph:
    """A graph with features, labels and a split, from arrays of numpy, scipy.sparse, PyTorch, pandas or DLPack.

    N vertices, E edges, F features, K outputs. ValueError, TypeError or StarlingError: an array is wrong.

    Parameters
    ----------
    edge_index : array (2, E), pair of arrays (E,), or scipy.sparse matrix (N, N)
        Edges from edge_index[0] to edge_index[1]; entry [i, j] of a matrix is the edge from i to j. None: train_links.
    x : array (N, F)
        Features. The graph refers to them: do not change them while it is in use. Other types than float32, float16,
        bfloat16, int8 and CSR matrices of float32 are copied as float32.
    y : integers (N,) or (N, 1); texts (N,); or numbers (N,) or (N, K)
        Classes from 0, negative if unknown; texts name classes (`classes`). Floating point: numbers to predict, NaN if
        unknown; a single column without fractions has classes, with a warning. Several columns of 0 and 1: label sets.
    train, valid, test : mask (N,) of booleans or of numbers 0 and 1, or vertex ids
        The split. A vertex is in one set at the most.
    edge_type, relations : integers (E,); names, or triples (source type, name, destination type)
        A typed graph: the relation of each edge, from 0. Unless directed, the reverse of an edge of relation r has
        relation R + r, of 2 R relations.
    train_links, valid_links, test_links, valid_negatives, test_negatives : array (2, L)
        Links to train on (None: all edges) and to find, and pairs without a link (None: drawn). In a typed graph:
        array (3, L) of heads, relations and tails. Negatives of each link: a dictionary of "head" and "tail", or one
        of them, with other ends (L, K) for each link, as `target_node_neg`, `head_neg` and `tail_neg` of OGB.
    types : dictionary of a slice of the vertices for each type
        Negatives of a relation are drawn from its types.
    edge_weight : array (E,), or True, or a dictionary
        0 or more; None: all are 1. A dictionary has the weights of some relations, by name or number; True: the
        entries of the matrix. Weights of duplicate edges add up.
    edge_attr : array (E, D) or (E,), or a dictionary
        Features of the edges, for train(edge_features="concat" or "add"). A dictionary has those of every relation, by
        name or number. Rows of duplicate edges add up. A reverse edge that is added has the row of its edge.
    directed : bool
        False: the reverse of every edge is added.
    n_classes : int
        0: 1 + the largest label.
    objective : str
        "regression": whole numbers in y are numbers to predict, not classes.
    split : str
        "random:60,20,20" draws the split by `seed`: of vertices with y, else of the edges, as links.
    drop_leaks : bool
        Drop edges and training links that are to be found, with a warning, instead of refusing them.

    Attributes: name, n_vertices, n_edges (directed, with reverse edges, without duplicates), n_features, n_outputs,
    has_classes, has_edge_weights, synthetic; x, y, train, valid, test: the arrays, None for a graph of files; types,
    relations.

    >>> import numpy as np, starling_gnn as sl
    >>> edge_index = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> graph = sl.Graph(edge_index, np.eye(4), [0, 1, 0, 1], train=[0, 1], test=[2, 3], name="square")
    >>> graph
    Graph('square': 4 vertices, 8 edges, 4 features, 2 outputs; train 2, valid 0, test 2)
    """

    x: Any = None
    y: Array | None = None
    train: Array | None = None
    valid: Array | None = None
    test: Array | None = None
    relations: tuple[Any, ...] = ()
    types: dict[str, slice] | None = None
    _handle: Any = None
    _source: dict[str, Any] | None = None  # the options of a graph of files, whose trainings open the files themselves
    _opened: Any = None  # its dataset
    _asked: Any = None  # the model that _opened is for

    def __init__(
        self,
        edge_index: Any,
        x: Any,
        y: Any = None,
        train: Any = None,
        valid: Any = None,
        test: Any = None,
        edge_weight: Any = None,
        *,
        edge_attr: Any = None,
        edge_type: Any = None,
        relations: Any = None,
        types: dict[str, slice] | None = None,
        train_links: Any = None,
        valid_links: Any = None,
        test_links: Any = None,
        valid_negatives: Any = None,
        test_negatives: Any = None,
        directed: bool = False,
        n_classes: int = 0,
        objective: str | None = None,
        split: str | None = None,
        seed: int = 1,
        drop_leaks: bool = False,
        name: str = "arrays",
    ) -> None:
        right = objective is None or (isinstance(objective, str) and objective == "regression")
        expect(right, "objective", shown(objective), "'regression' or None; others go to train()")
        for key, flag in (("directed", directed), ("drop_leaks", drop_leaks)):
            right = isinstance(flag, (bool, np.bool_)) or (isinstance(flag, int) and flag in (0, 1))
            expect(right, key, shown(flag), "True or False", TypeError)
        expect(isinstance(name, str), "name", shown(name), "a text", TypeError)
        for key, value in (("seed", seed), ("n_classes", n_classes)):
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            wrong = ValueError if whole else TypeError
            expect(whole and value >= 0, key, shown(value), "a whole number of 0 or more", wrong)
        self.x = x
        self._features = _arrays.Features(x)  # the library reads its arrays as long as the dataset lives
        n, n_features = self._features.shape
        names, labels, targets = None, None, None
        if y is not None:
            named = _arrays.named(y, "y")
            if named is None:
                labels, targets = _arrays.targets(y, numbers=objective == "regression")
            else:
                names, labels = named
                expect(objective is None, "y", "names of classes", "numbers for objective='regression'")
                expect(n_classes in (0, len(names)), "n_classes", str(n_classes), f"{len(names)}, the names in y")
                n_classes = len(names)
        columns = [str(name) for name in getattr(y, "columns", ())]  # of pandas
        if targets is not None and targets.shape[1] == len(columns) > 1 and not any("\n" in name for name in columns):
            names = [name[6:] if name.startswith("label_") else name for name in columns]  # as files name them
        self.y = targets if labels is None else labels
        n_rows = n if self.y is None else len(self.y)
        expect(n_rows == n, "y", f"{n_rows} rows", f"{n}, as many as x has")
        asked = dict(train=train, valid=valid, test=test)
        sets = {name: _arrays.members(value, name, n) for name, value in asked.items()}
        self.train, self.valid, self.test = sets.values()
        if edge_index is None and train_links is not None:
            edge_index, edge_type = _arrays.edges_of_links(train_links)
        for key, value in (("edge_type", edge_type), ("edge_attr", edge_attr)):
            right = value is None or not _arrays.is_sparse(edge_index)
            expect(right, key, "edges as a sparse matrix", "edge_index (2, E)")
        by_relation = edge_weight if isinstance(edge_weight, Mapping) else None
        sources, destinations, weights = _edges(edge_index, edge_weight if by_relation is None else None, n)
        typed = _arrays.Relations(edge_type, relations, len(sources))
        if by_relation is not None:
            weights = typed.spread(by_relation, "edge_weight")
        if isinstance(edge_attr, Mapping):
            edge_attr = typed.spread(edge_attr, "edge_attr", True)
        elif edge_attr is not None:
            edge_attr = _arrays.of_edges(edge_attr, "edge_attr", len(sources), True)
        self.relations = typed.names
        self.types = types
        ends = typed.ends(types)
        given = dict(train_links=train_links, valid_links=valid_links, test_links=test_links)
        own = _arrays.own_negatives
        given["valid_negatives"], valid_each = own(valid_negatives, "valid_negatives", valid_links, n)
        given["test_negatives"], test_each = own(test_negatives, "test_negatives", test_links, n)
        links = {name: _arrays.Links(value, name, n, typed.n) for name, value in given.items()}
        pointers = dict(sources=sources, destinations=destinations, edge_weights=weights, relation_ends=ends)
        pointers.update(labels=labels, targets=targets, edge_relations=typed.of_edges, edge_features=edge_attr, **sets)
        arrays = Arrays(
            name=name.encode(),
            n_vertices=n,
            n_edges=len(sources),
            n_edge_features=0 if edge_attr is None else edge_attr.shape[1],
            directed=bool(directed),
            n_features=n_features,
            **self._features.members,
            n_classes=n_classes,
            **{"n_" + name: len(ids) for name, ids in sets.items()},
            n_targets=0 if targets is None else targets.shape[1],
            **{name: _arrays.address(array) for name, array in pointers.items()},
            n_relations=typed.n,
            relation_names=typed.text,
            **(types.members if isinstance(types, _sources.Types) and x is types.x else {}),
            split=None if split is None else str(split).encode(),
            split_seed=seed,
            drop_leaks=bool(drop_leaks),
            class_names=None if names is None else "".join(name + "\n" for name in names).encode(),
            **{name: of.members for name, of in links.items()},
            valid_each=valid_each,
            test_each=test_each,
        )
        self._handle = made(C.c_void_p, lib.sl_dataset_new, C.byref(arrays))
        self._describe(self._handle)

    def _describe(self, handle: Any) -> None:
        sizes = made(DatasetSizes, lib.sl_dataset_describe, handle)
        self.name: str = sizes.name.decode()
        self.n_vertices: int = sizes.n_vertices
        self.n_edges: int = sizes.n_edges
        self.n_features: int = sizes.n_features
        self.n_outputs: int = sizes.n_outputs
        self.has_classes: bool = sizes.has_classes
        self.has_edge_weights: bool = sizes.has_edge_weights
        self.synthetic: bool = sizes.synthetic
        self.n_relations: int = sizes.n_relations
        self._n_split = (sizes.n_train, sizes.n_valid, sizes.n_test)
        self._class_names: bytes | None = sizes.class_names
        self._vertex_names: bytes | None = sizes.vertex_names

    @property
    def classes(self) -> Array | None:
        """The classes in the order of the outputs, array (K,): names, or numbers. None: the targets are no classes."""
        if not self.has_classes:
            return None
        return np.array(lines_of(self._class_names)) if self._class_names else np.arange(self.n_outputs)

    @property
    def ids(self) -> Array:
        """The vertices' names in their files, array (N,) of texts; without such names the numbers 0 .. N-1."""
        return np.array(lines_of(self._vertex_names)) if self._vertex_names else np.arange(self.n_vertices)

    def _numbers(self, value: Any, name: str) -> Any:
        """Numbers of vertices that are given by their ids, as texts. Anything else stays."""
        array = value if value is None else _arrays.any_array(value)
        if array is None or array.dtype.kind not in "OUST" or not array.size:
            return value
        place = {text: v for v, text in enumerate(lines_of(self._vertex_names))}
        expected = "ids of the graph, as graph.ids has them" if place else "numbers: the vertices have no ids"
        wrong = [str(entry) for entry in array.flat if not isinstance(entry, str) or entry not in place]
        expect(not wrong, name, shown("".join(wrong[:1])), expected)
        return np.array([place[entry] for entry in array.flat], np.uint32).reshape(array.shape)

    def _members(self, vertices: Any) -> Array:
        """The numbers of the vertices that a call is for: numbers, ids or a mask."""
        return _arrays.members(self._numbers(vertices, "vertices"), "vertices", self.n_vertices)

    def _added(self, x: Any, edge_index: Any, edge_weight: Any, edge_type: Any, edge_attr: Any, directed: bool) -> Any:
        """New vertices beside the graph's, as the library reads them, and the arrays that it borrows."""
        features = _arrays.Features(x)
        n = self.n_vertices + features.shape[0]
        right = not _arrays.is_sparse(edge_index)
        expect(right, "edge_index", "a sparse matrix", f"(2, E), where new vertices are {self.n_vertices} .. {n - 1}")
        sources, destinations = _arrays.ends(edge_index, "edge_index", n, n)
        weights = None if edge_weight is None else _arrays.of_edges(edge_weight, "edge_weight", len(sources))
        typed = _arrays.Relations(edge_type, None, len(sources))
        if edge_attr is not None:
            edge_attr = _arrays.of_edges(edge_attr, "edge_attr", len(sources), True)
        pointers = dict(sources=sources, destinations=destinations, edge_weights=weights, edge_features=edge_attr)
        arrays = Arrays(
            name=b"new vertices",
            n_vertices=features.shape[0],
            n_edges=len(sources),
            directed=directed,
            n_features=features.shape[1],
            **features.members,
            n_edge_features=0 if edge_attr is None else edge_attr.shape[1],
            **{name: _arrays.address(array) for name, array in pointers.items()},
            edge_relations=_arrays.address(typed.of_edges),
            n_relations=0 if edge_type is None else self.n_relations // (1 if directed else 2),
        )
        return arrays, (features, pointers, typed)

    def _dataset(self, model: Model | None = None) -> Any:
        """The library's dataset. A graph of files opens it when it is first asked for, as the model reads files."""
        if self._source is None:
            return self._handle
        asked = None if model is None else weakref.ref(model)
        if self._opened is None or self._asked != asked:
            lib.sl_dataset_delete(self._opened)
            self._opened = None
            self._opened, self._asked = _open_dataset(self._source, model), asked
        return self._opened

    def __repr__(self) -> str:
        train, valid, test = self._n_split
        return (
            f"Graph({self.name!r}: {self.n_vertices} vertices, {self.n_edges} edges, {self.n_features} features, "
            f"{self.n_outputs} outputs; train {train}, valid {valid}, test {test})"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a Graph cannot be pickled: make it in the process that trains, from its arrays or by load()")

    def __del__(self, delete: Any = lib.sl_dataset_delete) -> None:
        for handle in (getattr(self, "_handle", None), getattr(self, "_opened", None)):
            if handle:
                delete(handle)

    @classmethod
    def from_pyg(
        cls, data: Any, *, target: str | None = None, valid: Any = None, test: Any = None, **keywords: Any
    ) -> Graph:
        """A graph of a torch_geometric.data.Data: edge_index or adj_t, x, y, train_mask, val_mask and test_mask.

        The edges are taken as they are (directed=True), with edge_weight as weights and edge_attr, if each relation has
        it, as features. edge_type makes the graph typed. Keywords are those of Graph and replace what the data have.

        HeteroData give a typed graph: graph.types[type] is the slice of a type's vertices. If all types have x of one
        width, they share its columns. Otherwise each type has columns of its own, and each vertex of a type without x
        has a column. target: the type whose y and masks are taken; None: the one that has y.

        from_pyg(train, valid=valid, test=test) reads the three data of RandomLinkSplit: links are edge_label_index with
        an edge_label above 0, the others negatives of `valid` and `test`. Messages go along the edges of `train`.
        """
        right = _sources.is_pyg(data)
        expect(right, "from_pyg", f"a {type(data).__name__}", "a Data or HeteroData", TypeError)
        links = _sources.links_of_pyg(data, valid, test)
        for name, value in (("valid", valid), ("test", test)):
            if value is not None and not _sources.is_pyg(value):  # a mask, or ids
                keywords[name] = value
        return cls(**_sources.keywords("from_pyg", _sources.of_pyg(data), target, {**links, **keywords}))

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        x: str = "feat",
        y: str = "label",
        *,
        edge_attr: Any = "feat",
        target: str | None = None,
        **keywords: Any,
    ) -> Graph:
        """A graph of a dgl.DGLGraph. x and y: names in graph.ndata, as are train_mask, val_mask and test_mask.

        The edges are taken as they are (directed=True). edge_attr: the edata that are features of the edges, or an
        array. Weights are the edata edge_weight, weight or w, if they are one number for each edge. A graph may have no
        labels. Several types give a typed graph, as in from_pyg, as do the keywords.
        """
        right = hasattr(graph, "edges" if hasattr(graph, "ntypes") else "ndata")
        expect(right, "from_dgl", f"a {type(graph).__name__}", "a DGLGraph", TypeError)
        stores = _sources.of_dgl(graph)
        vertices, edges = _sources.split(stores)
        _check_names(vertices, {"x": x, "y": y}, keywords)
        if not isinstance(edge_attr, str):
            keywords["edge_attr"] = edge_attr
        else:
            found = sorted({name for tables in edges.values() for name in tables} - {"edge_index"})
            right = edge_attr in ("feat", *found)
            expect(right, "edge_attr", f"edata {', '.join(map(repr, found)) or 'none'}", repr(edge_attr))
        return cls(**_sources.keywords("from_dgl", stores, target, keywords, (x, y, edge_attr)))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        x: Any = "x",
        y: Any = "y",
        *,
        weight: str | None = None,
        edge_attr: Any = None,
        **keywords: Any,
    ) -> Graph:
        """A graph of a networkx.Graph or DiGraph. Vertex i is the i-th node of graph.nodes.

        x, y: names of the nodes' attributes, or arrays in the order of graph.nodes. weight, edge_attr: the name of an
        attribute of the edges; edge_attr also an array in the order of graph.edges. Keywords are those of Graph; train,
        valid, test and links may also be lists of nodes.
        """
        right, found = hasattr(graph, "is_directed"), f"a {type(graph).__name__}"
        expect(right, "from_networkx", found, "a Graph or DiGraph of networkx", TypeError)
        expect(isinstance(weight, (str, type(None))), "weight", shown(weight), "the name of an attribute", TypeError)
        number = {node: i for i, node in enumerate(graph.nodes)}
        pairs = np.array([(number[edge[0]], number[edge[1]]) for edge in graph.edges], np.uint32).reshape(-1, 2)
        made = {"edge_index": (pairs[:, 0], pairs[:, 1]), "directed": graph.is_directed()}
        made.update((key, _attributes(key, "node", graph.nodes, value)) for key, value in (("x", x), ("y", y)))
        for name, value in keywords.items():
            if name in _sources.MASKS and isinstance(value, (list, tuple, set)) and not _is_mask(value, len(number)):
                if value and all(isinstance(node, Hashable) and node in number for node in value):
                    keywords[name] = _numbers_of_nodes(name, value, number)
            elif name.endswith(("_links", "_negatives")) and isinstance(value, (list, tuple)):
                if all(isinstance(row, (list, tuple)) for row in value):
                    keywords[name] = [_numbers_of_nodes(name, row, number) for row in value]
        masks = [mask for mask in _sources.MASKS.values() if any(mask in graph.nodes[node] for node in number)]
        _sources.leave_out("from_networkx", masks, "; give train, valid and test as lists of nodes, or as masks")
        used = (weight, edge_attr if isinstance(edge_attr, str) else None)
        names = {name: None for edge in graph.edges for name in graph.edges[edge] if name not in used}
        advice = "; say weight='weight'" if weight is None and "weight" in names else ""
        _sources.leave_out("from_networkx", [f"edge attribute {name!r}" for name in names], advice)
        made["edge_weight"] = _attributes("weight", "edge", graph.edges, weight)
        made["edge_attr"] = _attributes("edge_attr", "edge", graph.edges, edge_attr)
        return cls(**{**made, **keywords})


def _attributes(name: str, kind: str, view: Any, key: Any) -> Any:
    """An attribute of all nodes or edges of networkx. A key that is no name is the value."""
    if not isinstance(key, str):
        return key
    for one in view:
        if key not in view[one]:
            raise ValueError(f"{name}: {kind} {one!r} has no attribute {key!r}; name another, or give an array")
    return [view[one][key] for one in view]


def _numbers_of_nodes(name: str, nodes: Any, number: dict[Any, int]) -> list[int]:
    """Vertex ids of nodes of networkx. If the nodes could be vertex ids themselves, that is said."""
    for node in nodes:
        known = isinstance(node, Hashable) and node in number
        expect(known, name, shown(node), "nodes of the graph, or vertex ids as an array")
    made = [number[node] for node in nodes]
    if made != list(nodes) and all(node in range(len(number)) for node in nodes):
        advice = "give vertex ids, places in graph.nodes, as an array"
        warn(f"from_networkx: {name} is a list, taken as nodes of the graph; {advice}")
    return made


def _check_names(stores: _sources.Stores, names: dict[str, str], keywords: dict[str, Any]) -> None:
    """Refuse names of features or labels that no type of a DGLGraph has. Labels may be missing, and types' features."""
    for key, name in names.items():
        expect(isinstance(name, str), key, f"a {type(name).__name__}", "a name in graph.ndata", TypeError)
    found = dict.fromkeys(name for tables in stores.values() for name in tables if name != "num_nodes")
    others = set(found) - {*_sources.MASKS.values(), *names.values()}
    for key, name in names.items():
        usual = name == ("feat" if key == "x" else "label") and (key == "y" or ("" not in stores and not others))
        listed = ", ".join(map(repr, found)) or "none"
        right = name in found or usual or key in keywords
        expect(right, key, f"ndata {listed}", f"{name!r}; name another: {key}='..'")


def _is_mask(value: Any, n: int) -> bool:
    """Whether a list is a mask of n vertices. Nodes 0 and 1 are not: a node comes once."""
    return any(isinstance(entry, bool) for entry in value) or (len(value) == n > 2 and set(value) <= {0, 1})


def _edges(edge_index: Any, edge_weight: Any, n: int) -> tuple[Array, Array, Array | None]:
    """(sources, destinations, weights) of edges (2, E) or of a matrix; weights may be None."""
    advice = "(2, E), or train_links; no edges: numpy.empty((2, 0), int)"
    expect(edge_index is not None, "edge_index", "None", advice, TypeError)
    weights = edge_weight
    if _arrays.is_sparse(edge_index):
        expect(edge_index.shape == (n, n), "edge_index", f"a matrix {edge_index.shape}", f"{(n, n)}, as x has {n} rows")
        right = edge_weight is None or edge_weight is True
        expect(right, "edge_weight", "weights beside a sparse matrix", "True (its entries) or None")
        if edge_weight is None and edge_index.nnz and (edge_index.tocsr().data != 1).any():
            warn("edge_index: the entries of the matrix are not used as weights; edge_weight=True uses them")
        matrix = edge_index.tocoo()
        edge_index, weights = (matrix.row, matrix.col), matrix.data if edge_weight else None
    expect(not isinstance(weights, bool), "edge_weight", "a boolean", "an array (E,); True goes with a sparse matrix")
    sources, destinations = _arrays.ends(edge_index, "edge_index", n, n)
    if not isinstance(edge_index, tuple) and sources.shape == (2,):
        taken = "taken as a row of sources and a row of destinations"
        warn(f"edge_index: found the shape (2, 2), {taken}; transpose it if its rows are edges")
    if weights is not None:
        weights = _arrays.of_edges(weights, "edge_weight", len(sources))
    return sources, destinations, weights


def as_graph(value: GraphLike, name: str = "graph", directed: bool = True) -> Graph:
    """A Graph, or the Graph of a dataset's name or path, of PyG's Data and HeteroData, or of a DGLGraph.

    directed: False: add reverse edges to the last three.
    """
    if isinstance(value, Graph):
        return value
    if isinstance(value, (str, os.PathLike)):
        return load(value)
    if _sources.is_pyg(value):
        return Graph.from_pyg(value, directed=directed)
    if hasattr(value, "canonical_etypes"):
        return Graph.from_dgl(value, directed=directed)
    advice = ""
    if hasattr(value, "get") and hasattr(value, "indices") and hasattr(value, "num_classes"):  # a Dataset of PyG
        advice = "; give one of its graphs, for example dataset[0]"
    elif hasattr(value, "nodes") and hasattr(value, "is_directed"):
        advice = "; make one by Graph.from_networkx"
    elif _arrays.is_sparse(value) or hasattr(value, "shape") or isinstance(value, (list, tuple)):
        advice = "; make one by Graph(edge_index, x). Rows of some vertices are run.predict()[ids]"
    expected = "a Graph, the name or path of a dataset, a Data or HeteroData of PyG, or a DGLGraph"
    raise TypeError(f"{name}: found a {type(value).__name__}, expected {expected}{advice}")


def lines_of(text: bytes | None) -> list[str]:
    """The lines of a text of the library; None: there are none."""
    return [] if text is None else text.decode(errors="backslashreplace").split("\n")[:-1]


def _open_dataset(source: dict[str, Any], model: Model | None = None) -> Any:
    """A dataset of files. Labels and split may be missing. model: its options are those of the dataset, too."""
    settings = make_settings(False, {**source, "epochs": 0}, "load")
    if model is None:
        return made(C.c_void_p, lib.sl_dataset_open, settings.handle)
    return made(C.c_void_p, lib.sl_model_open_dataset, model._handle, settings.handle)


def load(dataset: Path, **options: Unpack[LoadOptions]) -> Graph:
    """A graph from files: a name on the data path ($STARLING_DATA), or the path of a folder or file.

    options: data_path, split, features, directed, normalize_features, cache, objective. load reads the files once,
    writes the cache and keeps the sizes. Each training reads the cache, or the files with cache="none". Labels and
    split may be missing. Errors as of the library: NotFoundError, BadFileError, ..
    """
    for keyword in options:
        if keyword not in LOAD:
            expected = f"some of {', '.join(sorted(LOAD))}"
            raise TypeError(f"load() got an unexpected keyword argument '{keyword}'; expected {expected}")
    expect(dataset is not None, "dataset", "None", "a name or a path", TypeError)
    source = {"dataset": dataset, **options}
    handle = _open_dataset(source)
    graph = Graph.__new__(Graph)
    graph._source = source
    try:
        graph._describe(handle)
    finally:
        lib.sl_dataset_delete(handle)
    return graph


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

    for batch in sl.NeighborLoader(graph, fanout=[10, 10], batch_size=1024, shuffle=True, sampler="labor"):
        loss = F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
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
        unknown = sorted(set(options) - set(_OF_SAMPLER))
        if unknown:
            text = f"NeighborLoader() got an unexpected keyword argument '{unknown[0]}'"
            raise TypeError(f"{text}; expected some of {', '.join(_OF_SAMPLER)}")
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
