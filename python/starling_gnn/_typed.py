# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Relations of edges, types of vertices, and lists of links."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from . import _arrays
from ._library import ArrayLinks, StarlingWarning
from ._numpy import Array, np

MOST_RELATIONS = 65535

# Names in PyG and DGL of the sets of the split.
MASKS = (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))


def relations16(value: Any, name: str, n: int, shape: tuple[int, ...]) -> Array:
    """uint16 relations below n, of a shape."""
    array = _arrays.ids32(value, name, n, "relation")
    if array.shape != shape:
        raise ValueError(f"{name}: found the shape {array.shape}, expected {shape}, a relation for each pair")
    return np.ascontiguousarray(array, np.uint16)


class Relations:
    """The relations of edges: `of_edges` (E,), `n`, `names` as triples or texts, and `text` for the library."""

    def __init__(self, edge_type: Any, names: Any, n_edges: int) -> None:
        if isinstance(names, str):
            raise ValueError(f"relations: found {names!r}, expected a list of names")
        self.names = tuple(names or ())
        self.n = len(self.names)
        self.of_edges: Array | None = None
        self.text: bytes | None = None
        if edge_type is None:
            if self.names:
                raise ValueError(f"relations: found {self.n} names without edge_type, expected both")
            return
        if not self.n:
            array = _arrays.ids32(edge_type, "edge_type", kind="relation")
            self.n = int(array.max()) + 1 if array.size else 1
        if self.n > MOST_RELATIONS:
            raise ValueError(f"edge_type: found {self.n} relations, expected {MOST_RELATIONS} at most")
        self.of_edges = relations16(edge_type, "edge_type", self.n, (n_edges,))
        if self.names:
            self.text = "".join(",".join(self._triple(name)) + "\n" for name in self.names).encode()

    @staticmethod
    def _triple(name: Any) -> Iterable[str]:
        triple = name if isinstance(name, tuple) else ("", name, "")
        if len(triple) != 3 or any("," in str(part) or "\n" in str(part) for part in triple):
            raise ValueError(
                f"relations: found {name!r}, expected a name, or (source, name, destination), without commas"
            )
        return map(str, triple)

    def weights(self, given: Mapping[Any, Any]) -> Array:
        """The weights of all edges, from those of each relation: a name or number. Other relations have 1."""
        if self.of_edges is None:
            raise ValueError("edge_weight: found weights by relation without edge_type, expected both")
        made = np.ones(len(self.of_edges), np.float32)
        for key, value in given.items():
            number = self.names.index(key) if key in self.names else key
            if number not in range(self.n):
                names = ", ".join(map(repr, self.names[:5])) or f"0 .. {self.n - 1}"
                raise ValueError(f"edge_weight: found the relation {key!r}, expected relations of {names}")
            where = self.of_edges == number
            made[where] = _arrays.edge_weights(value, f"edge_weight of {key}", int(where.sum()))
        return made

    def ends(self, types: Mapping[Any, slice] | None) -> Array | None:
        """The ends of each relation by the types of vertices: uint32 (n, 4); None: any vertex."""
        if types is not None and not isinstance(types, Mapping):
            raise TypeError(f"types: found a {type(types).__name__}, expected a dictionary of slices")
        if not types or not all(isinstance(name, tuple) for name in self.names):
            return None
        made = []
        for name in self.names:
            for end in (name[0], name[2]):
                found = types.get(end)
                if (
                    not isinstance(found, slice)
                    or None in (found.start, found.stop)
                    or not 0 <= found.start <= found.stop
                ):
                    raise ValueError(f"types: found {found!r} of {end!r}, expected slice(first, end) of its vertices")
            head, tail = types[name[0]], types[name[2]]
            made.append((head.start, tail.start, head.stop - head.start, tail.stop - tail.start))
        return np.array(made, np.uint32).reshape(-1, 4)


def rows_of(value: Any, name: str) -> Any:
    """The rows of a list of links: those of an array, or arrays."""
    return value if isinstance(value, (tuple, list)) else _arrays.to_numpy(value, name)


class Links:
    """A list of links as the library reads it: `members`. Keeps the arrays alive."""

    def __init__(self, value: Any, name: str, n_vertices: int, n_relations: int) -> None:
        self.members = ArrayLinks()
        if value is None:
            return
        rows = rows_of(value, name)
        expected = "(3, L): heads, relations, tails" if n_relations else "(2, L): two ends"
        shapes = [np.shape(row) for row in rows]
        if len(rows) != (3 if n_relations else 2) or any(len(shape) != 1 or shape != shapes[0] for shape in shapes):
            raise ValueError(f"{name}: found rows of the shapes {shapes[:4]}, expected {expected}")
        ends = [_arrays.ids32(row, name, n_vertices) for row in (rows[0], rows[-1])]
        relations = relations16(rows[1], name, n_relations, ends[0].shape) if n_relations else None
        self.arrays = (*ends, relations)
        self.members = ArrayLinks(
            n=len(ends[0]),
            **{"from": _arrays.pointer(ends[0])},
            to=_arrays.pointer(ends[1]),
            relations=_arrays.pointer(relations),
        )


def edges_of_links(train_links: Any) -> tuple[tuple[Any, Any], Any]:
    """(edge_index, edge_type) of training links; edge_type may be None."""
    rows = rows_of(train_links, "train_links")
    if len(rows) not in (2, 3):
        raise ValueError(f"train_links: found {len(rows)} rows, expected (2, L) or (3, L)")
    return (rows[0], rows[-1]), rows[1] if len(rows) == 3 else None


def edges_of_adj_t(adjacency: Any) -> tuple[tuple[Any, Any], Array | None]:
    """(edge_index, weights) of PyG's adj_t; weights are None if all are 1.

    Entry [i, j] of the SparseTensor, or sparse tensor of torch, is the edge from j to i.
    """
    if hasattr(adjacency, "coo"):
        rows, columns, values = adjacency.coo()
    else:
        coo = adjacency.to_sparse_coo().coalesce()
        (rows, columns), values = coo.indices(), coo.values()
    weights = None if values is None else _arrays.to_numpy(values, "adj_t")
    if weights is not None and weights.ndim != 1:
        raise ValueError(f"adj_t: found values of the shape {weights.shape}, expected a number for each entry")
    if weights is not None and (weights == 1).all():
        weights = None
    return (columns, rows), weights


def are_weights(value: Any) -> bool:
    """Whether an array has one number of 0 or more for each edge."""
    array = _arrays.any_array(value)
    flat = array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)
    return flat and array.dtype.kind in "iuf" and bool((np.isfinite(array) & (array >= 0)).all())


# What from_pyg reads, or names itself, of the edges.
EDGE_NAMES = ("edge_index", "adj_t", "edge_type", "edge_weight", "edge_attr", "edge_label_index")


def names_in(data: Any) -> list[str]:
    """The names of what PyG's data, or a part of HeteroData, have; None is not there."""
    keys = getattr(data, "keys", None)
    names = keys() if callable(keys) else keys if keys is not None else getattr(data, "__dict__", ())
    return [name for name in names if not name.startswith("_") and getattr(data, name, None) is not None]


def other_edge_names(store: Any, edge_index: Any, typed: bool) -> list[str]:
    """The names of other attributes of the edges; typed: all of the store are of edges."""
    n = np.shape(edge_index[0])
    tells = getattr(store, "is_edge_attr", None)  # PyG's
    found = []
    for name in names_in(store):
        linked = name.endswith("edge_label") and getattr(store, "edge_label_index", None) is not None
        if name in EDGE_NAMES or name.endswith("_edge_label_index") or linked:
            continue
        shape = getattr(getattr(store, name), "shape", ())
        if tells(name) if callable(tells) else (typed or "edge" in name) and tuple(shape[:1]) == n:
            found.append(name)
    return found


def other_sets(names: Iterable[str]) -> list[str]:
    """The names that look like sets of the split, but are not MASKS."""
    known = [mask for _, mask in MASKS]
    starts = ("train", "val", "valid", "validation", "test")
    return [name for name in names if name not in known and name in {s + e for s in starts for e in ("_mask", "_idx")}]


def named(store: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
    """What PyG's data, or a part of HeteroData, have of these names; without names: x, y and the sets of the split."""
    if names is not None:
        return {name: getattr(store, name) for name in names}
    return {key: getattr(store, name, None) for key, name in (("x", "x"), ("y", "y"), *MASKS)}


def edges_of_store(store: Any, relation: str = "") -> tuple[Any, Any, list[str]]:
    """(edge_index, weights, names of what is left out) of PyG's Data, or of a relation of HeteroData."""
    edge_index, weights, left_out = getattr(store, "edge_index", None), getattr(store, "edge_weight", None), []
    adjacency, attributes = getattr(store, "adj_t", None), getattr(store, "edge_attr", None)
    if edge_index is None and adjacency is not None:
        edge_index, values = edges_of_adj_t(adjacency)
        weights = values if weights is None else weights
    elif adjacency is not None:
        left_out.append("adj_t")
    if edge_index is None and relation:
        raise ValueError(f"edge_index: {relation} has none, expected edge_index or adj_t")
    if attributes is not None:
        flat = np.ravel(_arrays.any_array(attributes))
        if weights is None or not np.array_equal(flat, np.ravel(_arrays.any_array(weights))):
            left_out.append("edge_attr")
    if edge_index is not None:
        left_out += other_edge_names(store, edge_index, bool(relation))
    return edge_index, weights, left_out


class Csr:
    """A CSR matrix with the members of scipy.sparse that Features reads."""

    has_canonical_format = True

    def __init__(self, indptr: Array, indices: Array, data: Array, shape: tuple[int, int]) -> None:
        self.indptr, self.indices, self.data, self.shape = indptr, indices, data, shape
        self.nnz = len(data)

    def tocsr(self) -> Csr:
        return self


def _entries(x: Any, n: int) -> tuple[int, Array, Array, Array]:
    """(number of columns, rows, columns, values) of the non-zeros of a type's features; None: a column a vertex."""
    if x is None:
        own = np.arange(n)
        return n, own, own, np.ones(n, np.float32)
    if _arrays.is_sparse(x):
        matrix = x.tocsr().tocoo()
        return x.shape[1], matrix.row, matrix.col, matrix.data
    dense = _arrays.floats(x, "x")
    rows, columns = np.nonzero(dense)
    return dense.shape[1], rows, columns, dense[rows, columns]


def join_features(counts: list[int], tables: list[Any]) -> Any:
    """The features of all types. If all types have tables of one width, types share the columns; else each has its own.

    counts: vertices of each type. tables: (n, F) of each type; None: the type has no features.
    """
    for n, x in zip(counts, tables):
        if x is not None and (len(x.shape) != 2 or x.shape[0] != n):
            raise ValueError(f"x: found the shape {tuple(x.shape)}, expected ({n}, F), a row for each vertex of a type")
    widths = {None if x is None else x.shape[1] for x in tables}
    shared = len(widths) == 1 and None not in widths
    if shared and not any(_arrays.is_sparse(x) for x in tables):
        return np.concatenate([_arrays.to_numpy(x, "x") for x in tables])
    first_row = first_column = 0
    parts = []
    for n, x in zip(counts, tables):
        width, rows, columns, values = _entries(x, n)
        parts.append((rows + first_row, columns + first_column, values))
        first_row += n
        first_column += 0 if shared else width
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(*parts))
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=first_row))])
    return Csr(indptr, columns[order], values[order].astype(np.float32), (first_row, first_column or width))


class Types(dict[str, slice]):
    """The slices of the types of join(), and what the library must know of them: `members`."""

    def __init__(self, slices: Mapping[str, slice], tables: Iterable[Any], x: Any) -> None:
        super().__init__(slices)
        self.x = x  # their features, joined
        if any("," in str(name) or "\n" in str(name) for name in slices):
            raise ValueError(f"types: found {', '.join(map(repr, slices))}, expected names without commas")
        self.arrays = (
            np.array([where.stop - where.start for where in slices.values()], np.uint32),
            np.array([0 if x is None else x.shape[1] for x in tables], np.uint32),
        )
        self.members = {
            "n_types": len(slices),
            "type_names": "".join(f"{name}\n" for name in slices).encode(),
            "type_vertices": _arrays.pointer(self.arrays[0]),
            "type_columns": _arrays.pointer(self.arrays[1]),
        }


def _join_targets(where: slice, n_vertices: int, y: Any, numbers: bool) -> Array:
    """Targets of all vertices: y of the vertices `where`, unknown ones elsewhere."""
    named = _arrays.named(y, "y")
    if named is not None:
        y = np.array([*named[0], None], object)[named[1]]  # texts again; None is the last
    labels, targets = (y, None) if named is not None else _arrays.targets(y, numbers=numbers)
    given = targets if labels is None else labels
    assert given is not None
    if len(given) != where.stop - where.start:
        raise ValueError(f"y: found {len(given)} rows, expected {where.stop - where.start}, the vertices of a type")
    unknown: Any = None if named is not None else np.nan if labels is None else -1
    made = np.full((n_vertices, *given.shape[1:]), unknown, given.dtype)
    made[where] = given
    return made


def join(
    vertices: Mapping[str, Any], edges: Mapping[Any, Any], target: str | None, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Keywords of Graph for a typed graph. keywords: those that the user gives.

    vertices: a dictionary for each type, with n, x, y, train, valid and test; x, y and the sets may be None.
    edges: ((sources, destinations), weights or None, ..) by (source type, name, destination type); ids of the types.
    target: the type with targets and split; None: the one that has targets.
    """
    for name, type_ in vertices.items():
        if type_["n"] is None:
            raise ValueError(f"num_nodes: type {name!r} has no x and no num_nodes, expected one of them")
    if not vertices:
        raise ValueError("x: found no types of vertices, expected HeteroData with features of one type or more")
    counts = [int(type_["n"]) for type_ in vertices.values()]
    starts = [0, *np.cumsum(counts).tolist()]
    types = {name: slice(starts[i], starts[i + 1]) for i, name in enumerate(vertices)}
    if target is None:
        labelled = [name for name, type_ in vertices.items() if type_["y"] is not None]
        if len(labelled) > 1:
            raise ValueError(f"y: found targets of the types {', '.join(labelled)}; name one: target={labelled[0]!r}")
        target = labelled[0] if labelled else None
    elif target not in vertices:
        raise ValueError(f"target: found {target!r}, expected a type of {', '.join(vertices)}")
    lost = [
        f"{mask} of {name!r}"
        for name, type_ in vertices.items()
        for key, mask in MASKS
        if target not in (None, name) and type_[key] is not None
    ]
    if lost:
        warnings.warn(f"{', '.join(lost)}: not used, the split is of {target!r}", StarlingWarning, stacklevel=3)
    tables = [type_["x"] for type_ in vertices.values()]
    x = join_features(counts, tables)
    made = {"directed": True, "x": x, "types": Types(types, tables, x)}
    if target is not None and vertices[target]["y"] is not None:
        made["y"] = _join_targets(
            types[target], starts[-1], vertices[target]["y"], keywords.get("objective") == "regression"
        )
        for name, _ in MASKS:
            if vertices[target][name] is not None:
                ids = _arrays.members(vertices[target][name], name, vertices[target]["n"])
                made[name] = ids + np.uint32(types[target].start)
    pairs, numbers = [], []
    for number, ((source, name, destination), ((sources, destinations), *_)) in enumerate(edges.items()):
        of = f"edge_index of {source, name, destination}"
        sources = _arrays.ids32(sources, of, vertices[source]["n"])
        destinations = _arrays.ids32(destinations, of, vertices[destination]["n"])
        pairs.append((sources + np.uint32(types[source].start), destinations + np.uint32(types[destination].start)))
        numbers.append(np.full(len(sources), number, np.uint16))
    made["edge_index"] = [np.concatenate([np.empty(0, np.uint32), *(pair[end] for pair in pairs)]) for end in (0, 1)]
    made["edge_type"] = np.concatenate([np.empty(0, np.uint16), *numbers])
    made["relations"] = list(edges)
    made["edge_weight"] = {triple: parts[1] for triple, parts in edges.items() if parts[1] is not None} or None
    return one_split(made, keywords)


def one_split(found: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of Graph: those found, replaced by those given. A split given, or links, replace a split found."""
    given = [name for name, value in keywords.items() if value is not None]
    if any(name == "split" or name.endswith("_links") for name in given):
        found = {name: value for name, value in found.items() if name not in ("train", "valid", "test")}
    return {**found, **keywords}


def is_pyg(value: Any) -> bool:
    """Whether a value is Data or HeteroData of PyG."""
    return hasattr(value, "edge_types") or hasattr(value, "edge_index") or hasattr(value, "edge_label_index")


def _labelled(store: Any, name: str) -> tuple[Array, Array] | None:
    """The links and the other pairs, (2, L), that RandomLinkSplit has put into Data, or a relation of HeteroData."""
    lists = []
    for key in ("edge_label_index", "pos_edge_label_index", "neg_edge_label_index"):
        index = getattr(store, key, None)
        array = np.empty((2, 0), np.int64) if index is None else _arrays.to_numpy(index, f"{key} of {name}")
        if array.ndim != 2 or array.shape[0] != 2:
            raise ValueError(f"{key} of {name}: found the shape {array.shape}, expected (2, L)")
        lists.append(array)
    if all(getattr(store, key, None) is None for key in ("edge_label_index", "pos_edge_label_index")):
        return None
    pairs, links, others = lists
    label = getattr(store, "edge_label", None)
    is_link = np.ones(pairs.shape[1], bool) if label is None else _arrays.to_numpy(label, f"edge_label of {name}") > 0
    if is_link.shape != (pairs.shape[1],):
        raise ValueError(f"edge_label of {name}: found the shape {is_link.shape}, expected ({pairs.shape[1]},)")
    return np.concatenate([pairs[:, is_link], links], 1), np.concatenate([pairs[:, ~is_link], others], 1)


def _lists_of_hetero(train: Any, data: Any, name: str, relations: Iterable[Any]) -> tuple[Array, Array]:
    """The same of HeteroData, (3, L), with the numbers that join gives to vertices and relations. None of a relation:
    its edges, if it is of `relations`."""
    first, starts = 0, {}
    for type_ in train.node_types:
        starts[type_] = first
        first += train[type_].num_nodes
    made = ([np.empty((3, 0), np.int64)], [np.empty((3, 0), np.int64)])
    for number, triple in enumerate(train.edge_types):
        store = data[triple] if triple in data.edge_types else None
        lists = _labelled(store, f"{name}[{triple}]")
        if lists is None and triple in relations:
            edges = _arrays.to_numpy(data[triple].edge_index, f"edge_index of {triple}")
            lists = edges, np.empty((2, 0), np.int64)
        for part, pairs in zip(made, lists or ()):
            heads, tails = pairs[0] + starts[triple[0]], pairs[1] + starts[triple[2]]
            part.append(np.stack([heads, np.full(len(heads), number, heads.dtype), tails]))
    return np.concatenate(made[0], 1), np.concatenate(made[1], 1)


def links_of_pyg(train: Any, valid: Any, test: Any) -> dict[str, Any]:
    """Keywords of Graph for the links of PyG's RandomLinkSplit; none without links."""
    parts = {name: data for name, data in (("valid", valid), ("test", test)) if data is not None and is_pyg(data)}
    hetero = hasattr(train, "edge_types") and hasattr(train, "node_types")
    stores = [train[triple] for triple in train.edge_types] if hetero else [train]
    if not parts:
        if any(_labelled(store, "train") is not None for store in stores):
            warnings.warn(
                "from_pyg: found edge_label_index, which is not used without links to find; "
                "give the other data of RandomLinkSplit: from_pyg(train, valid=valid, test=test)",
                StarlingWarning,
                stacklevel=3,
            )
        return {}
    if not hetero and getattr(train, "edge_type", None) is not None:
        raise ValueError("edge_label_index: found links without relations beside edge_type, expected HeteroData")
    made: dict[str, Any] = {}
    relations = set()
    for name, data in parts.items():
        if hasattr(data, "edge_types") != hetero:
            raise TypeError(f"{name}: found {type(data).__name__}, expected {type(train).__name__}, as the first data")
        lists = _lists_of_hetero(train, data, name, ()) if hetero else _labelled(data, name)
        if lists is not None and not lists[0].shape[1] and name == "valid" and "test" in parts:
            continue  # num_val=0
        if lists is not None and not lists[0].shape[1] and name == "test" and "valid_links" in made:
            continue  # num_test=0
        if lists is None or not lists[0].shape[1]:
            raise ValueError(f"{name}: found no edge_label_index with links, expected data of RandomLinkSplit")
        made[f"{name}_links"] = lists[0]
        made[f"{name}_negatives"] = lists[1] if lists[1].shape[1] else None
        if hetero:
            relations |= {train.edge_types[number] for number in np.unique(lists[0][1])}
    trained = _lists_of_hetero(train, train, "train", relations) if hetero else _labelled(train, "train")
    made["train_links"] = None if trained is None else trained[0]
    return made
