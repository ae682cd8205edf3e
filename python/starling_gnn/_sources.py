# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Graphs of PyG and DGL as stores: named tables of each type of vertices, and of the edges of each triple.

Graph takes its keywords from stores, and `starling convert` its files. A graph of one type has the stores "" and PLAIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Dict

from . import _arrays
from ._library import warn
from ._tools import Array, expect, need, np

Stores = Dict[Any, Dict[str, Any]]
PLAIN = ("", "", "")  # the only relation of a graph that is not typed
# Names in PyG and DGL: the sets of the split, and weights. PyG's weights are edge_weight alone.
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
WEIGHTS = ("edge_weight", "weight", "w")
_SET_NAMES = {s + e for s in ("train", "val", "valid", "validation", "test") for e in ("_mask", "_idx")}
_SET_NAMES -= set(MASKS.values())
_LINKS = ("edge_label_index", "pos_edge_label_index", "neg_edge_label_index")
_OF_VERTICES = ("x", "y", *MASKS.values())
_OF_EDGES = ("edge_index", "adj_t", "edge_type", "edge_weight", "edge_attr", "edge_label", *_LINKS)


def leave_out(converter: str, names: list[str], advice: str = "") -> None:
    if names:
        found = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        warn(f"{converter}: {found}: {'is' if len(names) == 1 else 'are'} not used{advice}")


def is_hetero(value: Any) -> bool:
    return hasattr(value, "edge_types") and hasattr(value, "node_types")


def is_pyg(value: Any) -> bool:
    """Whether a value is Data or HeteroData of PyG."""
    return is_hetero(value) or any(hasattr(value, name) for name in ("edge_index", "adj_t", "edge_label_index"))


def _tables(store: Any) -> dict[str, Any]:
    """The tables of PyG's Data, or of a part of HeteroData; None is not there."""
    keys = getattr(store, "keys", None)
    names = keys() if callable(keys) else keys if keys is not None else getattr(store, "__dict__", ())
    known = dict.fromkeys([*names, *_OF_VERTICES, *_OF_EDGES])
    found = {name: getattr(store, name, None) for name in known if not name.startswith("_")}
    return {name: table for name, table in found.items() if table is not None}


def of_pyg(data: Any) -> Stores:
    """The stores of PyG's Data or HeteroData."""
    if is_hetero(data):
        stores: Stores = {}
        for key in data.node_types:
            tables = _tables(data[key])
            right = np.shape(tables.get("x", ((),))) != ()  # PyG would count its rows
            expect(right, f"x of {key!r}", "the shape ()", "(N, F)")
            stores[key] = {"num_nodes": data[key].num_nodes, **tables}
        return {**stores, **{triple: _with_index(_tables(data[triple])) for triple in data.edge_types}}
    tables = _tables(data)
    edges = _with_index({name: table for name, table in tables.items() if name in _OF_EDGES})
    tells = getattr(data, "is_edge_attr", lambda name: "edge" in name and len(getattr(tables[name], "shape", ())) > 0)
    index = edges.get("edge_index", ())
    n_edges = np.shape(index[0] if isinstance(index, (tuple, list)) and index else index)[-1:]
    for name in [name for name in tables if name not in (*_OF_VERTICES, *_OF_EDGES)]:
        # PyG takes weights for the vertices' if there are as many vertices as edges
        if np.shape(tables[name])[:1] == n_edges if name in WEIGHTS else tells(name):
            edges[name] = tables[name]
    return {"": {name: table for name, table in tables.items() if name not in edges and name != "adj_t"}, PLAIN: edges}


def _with_index(tables: dict[str, Any]) -> dict[str, Any]:
    """PyG's tables of edges, with those of adj_t as edge_index and edge_weight.

    Entry [i, j] of the SparseTensor, or sparse tensor of torch, is the edge from j to i. No weights if all are 1.
    """
    adjacency, index = tables.get("adj_t"), tables.get("edge_index")
    expect(not _arrays.is_sparse(index), "edge_index", f"a {type(index).__name__}", "(2, E)", TypeError)
    if adjacency is None or index is not None:
        return tables
    right = hasattr(adjacency, "coo") or hasattr(adjacency, "to_sparse_coo")
    expect(right, "adj_t", f"a {type(adjacency).__name__}", "a SparseTensor or a tensor of PyTorch", TypeError)
    if hasattr(adjacency, "coo"):
        rows, columns, values = adjacency.coo()
    else:
        coo = adjacency.to_sparse_coo().coalesce()
        (rows, columns), values = coo.indices(), coo.values()
    weights = None if values is None else _arrays.to_numpy(values, "adj_t")
    shape = None if weights is None else weights.shape
    expect(shape is None or len(shape) == 1, "adj_t", f"values of the shape {shape}", "a number for each entry")
    found = {} if weights is None or (weights == 1).all() else {"edge_weight": weights}
    return {**found, **{name: of for name, of in tables.items() if name != "adj_t"}, "edge_index": (columns, rows)}


def of_dgl(graph: Any) -> Stores:
    """The stores of a DGLGraph. Names with _ are DGL's own."""

    def tables(data: Any) -> dict[str, Any]:
        return {name: data[name] for name in data if not name.startswith("_")}

    if len(getattr(graph, "ntypes", ())) <= 1 and len(getattr(graph, "canonical_etypes", ())) <= 1:
        edges = {**tables(getattr(graph, "edata", {})), "edge_index": tuple(graph.edges())}
        return {"": tables(graph.ndata), PLAIN: edges}
    stores: Stores = {key: {"num_nodes": graph.num_nodes(key), **tables(graph.nodes[key].data)} for key in graph.ntypes}
    for triple in graph.canonical_etypes:
        edges = tables(getattr(graph.edges[triple], "data", {}))
        stores[triple] = {**edges, "edge_index": tuple(graph.edges(etype=triple))}
    return stores


def split(stores: Stores) -> tuple[Stores, Stores]:
    edges = {key: tables for key, tables in stores.items() if isinstance(key, tuple)}
    return {key: tables for key, tables in stores.items() if key not in edges}, edges


def _tables_of_edges(
    tables: dict[str, Any], pyg: bool, features: Any, given: Mapping[str, Any]
) -> tuple[Any, Any, list[str]]:
    """Weights and features among the tables of edges, each perhaps None; and the names of tables that are not used.

    features: the name of the features, which are not those if they are the weights. given: the user's own keywords.
    """
    name = next((name for name in tables if name in (WEIGHTS[:1] if pyg else WEIGHTS)), "")
    flat = _arrays.column(_arrays.any_array(tables.get(name, ())))
    # DGL's may be of any kind: weights are one number of 0 or more for each edge
    right = flat.ndim == 1 and flat.dtype.kind in "iuf" and (np.isfinite(flat) & (flat >= 0)).all()
    weights = tables[name] if name and (pyg or right) else None
    rows = tables.get(features) if isinstance(features, str) else None
    used = {"edge_index", name if weights is not None else "", "edge_type" if pyg else ""}
    used |= {features} if rows is not None else set()
    used |= {*WEIGHTS} if "edge_weight" in given else set()
    others = given.get("edge_weight", weights)
    if rows is not None and others is not None and not isinstance(others, Mapping):
        attributes = np.ravel(_arrays.any_array(rows))
        rows = None if np.array_equal(np.ravel(_arrays.any_array(others)), attributes) else rows
    links = ("edge_label_index", "edge_label") if "edge_label_index" in tables else "edge_label_index"
    return weights, rows, [name for name in tables if name not in used and not name.endswith(links)]


def keywords(
    converter: str,
    stores: Stores,
    target: str | None,
    given: Mapping[str, Any],
    names: tuple[Any, ...] = ("x", "y", "edge_attr"),
) -> dict[str, Any]:
    """The keywords of Graph for stores; those given replace them. names: of features, targets and edges' features."""
    x, y, of_edges = names
    vertices, edges = split(stores)
    typed, pyg = PLAIN not in edges, converter == "from_pyg"
    weights, rows, lost = {}, {}, []
    for triple, tables in edges.items():
        right = not typed or tables.get("edge_index") is not None
        expect(right, "edge_index", f"none of {triple}", "edge_index or adj_t")
        weights[triple], rows[triple], unused = _tables_of_edges(tables, pyg, of_edges, given)
        lost += [(name if pyg else f"edata {name!r}") + f" of {triple}" * typed for name in unused]
    own_split = [name for name in given if name in (*MASKS, "split") or name.endswith("_links")]
    if typed:
        found = _join(vertices, edges, target, given, x, y)
        found["edge_weight"] = {triple: of for triple, of in weights.items() if of is not None} or None
        found["edge_attr"] = _of_all(converter, edges, rows) if "edge_attr" not in given else None
    else:
        tables, index = vertices[""], edges[PLAIN].get("edge_index")
        if isinstance(index, list) or (index is not None and getattr(index, "shape", ())[:1] == (2,)):
            index = tuple(index)  # rows, also if the shape is (2, 2)
        found = dict(x=tables.get(x), y=tables.get(y), directed=True, edge_index=index, edge_weight=weights[PLAIN])
        found["edge_attr"] = rows[PLAIN]
        found["edge_type"] = edges[PLAIN].get("edge_type") if pyg else None
        masks = {name: tables[mask] for name, mask in MASKS.items() if tables.get(mask) is not None}
        if {**found, **given}.get("y") is not None:
            found.update(masks)
        elif not own_split and "y" not in given:
            leave_out(converter, [MASKS[name] for name in masks], f"; there are no labels {y!r}")
        lost = [name for name in tables if name in _SET_NAMES and not own_split] + lost
    leave_out(converter, lost)
    if any(given[name] is not None for name in own_split if name not in MASKS):
        found = {name: value for name, value in found.items() if name not in MASKS}
    return {**found, **given}


# ---- typed graphs ----


def _of_all(converter: str, edges: Stores, rows: dict[Any, Any]) -> dict[Any, Any] | None:
    """Features of the edges by relation, if all relations with edges have them, of one width. None, and a warning."""
    widths = {np.shape(_arrays.column(_arrays.any_array(of)))[1:] for of in rows.values() if of is not None}
    has_edges = {triple: np.size(_arrays.any_array(edges[triple]["edge_index"][0])) > 0 for triple in edges}
    lacking = [triple for triple, of in rows.items() if of is None and has_edges[triple]]
    if widths and (lacking or len(widths) > 1):
        lost = [f"features of the edges of {triple}" for triple, of in rows.items() if of is not None]
        reason = f"those of {lacking[0]} have none" if lacking else "they have several widths"
        leave_out(converter, lost, f": {reason}")
        return None
    return {triple: of for triple, of in rows.items() if of is not None} or None


def _join_features(counts: list[int], tables: list[Any]) -> Any:
    """The features of all types. If all types have tables of one width, types share the columns; else each has its own.

    counts: vertices of each type. tables: (n, F) of each type; None: a column for each vertex.
    """
    for n, x in zip(counts, tables):
        right = x is None or (len(np.shape(x)) == 2 and x.shape[0] == n)
        expect(right, "x", f"the shape {np.shape(x)}", f"({n}, F), a row for each vertex of a type")
    widths = {None if x is None else x.shape[1] for x in tables}
    shared = len(widths) == 1 and None not in widths
    if shared and not any(_arrays.is_sparse(x) for x in tables):
        return np.concatenate([_arrays.to_numpy(x, "x") for x in tables])
    sparse = need("scipy.sparse", "scipy", "python3-scipy")
    given = [np.eye(0) if x is None else x if _arrays.is_sparse(x) else _arrays.floats(x, "x") for x in tables]
    parts = [sparse.csr_matrix(sparse.identity(n) if x is None else of) for n, x, of in zip(counts, tables, given)]
    return (sparse.vstack if shared else sparse.block_diag)(parts, "csr", np.float32)


class Types(Dict[str, slice]):
    """The slices of the types in joined features x, and what the library must know of them: `members`."""

    def __init__(self, slices: Mapping[str, slice], tables: Iterable[Any], x: Any) -> None:
        super().__init__(slices)
        self.x = x
        n_vertices = [where.stop - where.start for where in slices.values()]
        n_columns = [0 if x is None else x.shape[1] for x in tables]
        self.arrays = np.array(n_vertices, np.uint32), np.array(n_columns, np.uint32)
        names = ("type_vertices", "type_columns")
        self.members: dict[str, Any] = {name: _arrays.address(array) for name, array in zip(names, self.arrays)}
        self.members.update(n_types=len(slices), type_names="".join(f"{name}\n" for name in slices).encode())


def _spread(y: Any, where: slice, n: int, numbers: bool) -> Array:
    """Targets of n vertices: y of the vertices `where`, unknown ones elsewhere. numbers: whole ones are no classes."""
    array = _arrays.any_array(y)
    array = array if array.dtype.kind in "OUST" else _arrays.to_numpy(y, "y")
    n_rows = where.stop - where.start
    expect(array.shape[:1] == (n_rows,), "y", f"the shape {array.shape}", f"{n_rows} rows, the vertices of a type")
    whole = array.dtype.kind in "biu" and not numbers and array.size == len(array)
    unknown: Any = None if array.dtype.kind in "OUST" else -1 if whole else np.nan
    made: Array = np.full((n, *array.shape[1:]), unknown)
    made[where] = array
    return made


def _join(
    vertices: Stores, edges: Stores, target: str | None, given: Mapping[str, Any], x: str, y: str
) -> dict[str, Any]:
    """Keywords of Graph for a typed graph but the weights. target: the type with targets; None: the one that has y."""
    expect(vertices, "x", "no types of vertices", "HeteroData with features of one type or more")
    for name, tables in vertices.items():
        expect(tables.get("num_nodes") is not None, "num_nodes", f"none of type {name!r}", "x or num_nodes")
    sizes = {name: tables["num_nodes"] for name, tables in vertices.items()}
    counts = {name: int(_arrays.ids32(n, f"num_nodes of {name!r}", kind="number")) for name, n in sizes.items()}
    stops = dict(zip(counts, np.cumsum(list(counts.values())).tolist()))
    types = {name: slice(stops[name] - n, stops[name]) for name, n in counts.items()}
    labelled = [name for name, tables in vertices.items() if tables.get(y) is not None]
    first_labelled, found = next(iter(labelled), None), f"targets of the types {', '.join(labelled)}"
    right = target is not None or len(labelled) < 2
    expect(right, "y", found, f"one; name it: target={first_labelled!r}")
    expect(target in {None, *vertices}, "target", repr(target), f"a type of {', '.join(vertices)}")
    target = target or first_labelled
    sets = [(name, key) for name in vertices for key in MASKS if vertices[name].get(MASKS[key]) is not None]
    lost = [f"{MASKS[key]} of {name!r}" for name, key in sets if target not in (None, name)]
    if lost:
        warn(f"{', '.join(lost)}: not used, the split is of {target!r}")
    features = [tables.get(x) for tables in vertices.values()]
    joined = _join_features(list(counts.values()), features)
    made = {"directed": True, "x": joined, "types": Types(types, features, joined)}
    if target in labelled:
        first, n = types[target].start, counts[target]
        numbers = given.get("objective") == "regression"
        made["y"] = _spread(vertices[target][y], types[target], sum(counts.values()), numbers)
        for key in [key for name, key in sets if name == target]:
            made[key] = _arrays.members(vertices[target][MASKS[key]], key, n) + np.uint32(first)
    pairs = [np.empty((2, 0), np.uint32)]
    for triple, tables in edges.items():
        head, tail = triple[::2]
        for key in (head, tail):
            expect(key in counts, f"edge_index of {triple}", f"the type {key!r}", ", ".join(counts))
        ends = _arrays.ends(tables["edge_index"], f"edge_index of {triple}", counts[head], counts[tail])
        pairs.append(np.stack([ids + np.uint32(types[key].start) for ids, key in zip(ends, (head, tail))]))
    made["edge_index"] = tuple(np.concatenate(pairs, 1))
    made["edge_type"] = np.repeat(np.arange(len(edges), dtype=np.uint16), [pair.shape[1] for pair in pairs[1:]])
    made["relations"] = list(edges)
    return made


# ---- links ----


def _labelled(tables: dict[str, Any], name: str) -> tuple[Array, Array] | None:
    """The links and the other pairs, (2, L), that RandomLinkSplit has put into a store."""
    lists = []
    for key in _LINKS:
        array = _arrays.to_numpy(tables[key], f"{key} of {name}") if key in tables else np.empty((2, 0), np.int64)
        expect(array.ndim == 2 and len(array) == 2, f"{key} of {name}", f"the shape {array.shape}", "(2, L)")
        lists.append(array)
    if not {*_LINKS[:2]} & set(tables):
        return None
    pairs, links, others = lists
    label = tables.get("edge_label")
    is_link = np.ones(pairs.shape[1], bool) if label is None else _arrays.to_numpy(label, f"edge_label of {name}") > 0
    expected = pairs.shape[1:]
    expect(is_link.shape == expected, f"edge_label of {name}", f"the shape {is_link.shape}", str(expected))
    return np.concatenate([pairs[:, is_link], links], 1), np.concatenate([pairs[:, ~is_link], others], 1)


def _lists(train: Stores, stores: Stores, name: str, relations: Iterable[Any] = ()) -> tuple[Array, Array] | None:
    """The links and the other pairs of stores: (2, L); of HeteroData (3, L), with the numbers that _join gives to
    vertices and relations of `train`. A relation without lists has its edges as links if `relations` has it."""
    vertices, edges = split(train)
    if PLAIN in edges:
        return _labelled(stores[PLAIN], name)
    starts = dict(zip(vertices, np.cumsum([0, *(tables["num_nodes"] for tables in vertices.values())])))
    made = ([np.empty((3, 0), np.int64)], [np.empty((3, 0), np.int64)])
    for number, triple in enumerate(edges):
        lists = _labelled(stores.get(triple, {}), f"{name}[{triple}]")
        if lists is None and triple in relations:
            index = _arrays.to_numpy(stores[triple]["edge_index"], f"edge_index of {triple}")
            lists = index, np.empty((2, 0), np.int64)
        for part, pairs in zip(made, lists or ()):
            heads, tails = pairs[0] + starts[triple[0]], pairs[1] + starts[triple[2]]
            part.append(np.stack([heads, np.full(len(heads), number, heads.dtype), tails]))
    return np.concatenate(made[0], 1), np.concatenate(made[1], 1)


def links_of_pyg(train: Any, valid: Any, test: Any) -> dict[str, Any]:
    """Keywords of Graph for the links of PyG's RandomLinkSplit; none without links."""
    parts = {name: data for name, data in (("valid", valid), ("test", test)) if data is not None and is_pyg(data)}
    own = of_pyg(train)
    edges = split(own)[1]
    if not parts:
        if any(_labelled(tables, "train") is not None for tables in edges.values()):
            advice = "give the other data of RandomLinkSplit: from_pyg(train, valid=valid, test=test)"
            warn(f"from_pyg: found edge_label_index, which is not used without links to find; {advice}")
        return {}
    right = "edge_type" not in edges.get(PLAIN, {})
    expect(right, "edge_label_index", "links without relations beside edge_type", "HeteroData")
    made: dict[str, Any] = {}
    relations = set()
    for name, data in parts.items():
        right, expected = is_hetero(data) == is_hetero(train), f"{type(train).__name__}, as the first data"
        expect(right, name, type(data).__name__, expected, TypeError)
        lists = _lists(own, of_pyg(data), name)
        if lists is None or not lists[0].shape[1]:
            if lists is not None and (name == "valid" and "test" in parts or "valid_links" in made):
                continue  # num_val=0, or num_test=0
            raise ValueError(f"{name}: found no edge_label_index with links, expected data of RandomLinkSplit")
        made[f"{name}_links"], others = lists
        made[f"{name}_negatives"] = others if others.shape[1] else None
        relations |= {list(edges)[number] for number in np.unique(lists[0][1])} if len(lists[0]) == 3 else set()
    trained = _lists(own, own, "train", relations)
    made["train_links"] = None if trained is None else trained[0]
    return made
