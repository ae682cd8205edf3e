# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Arrays of numpy, scipy, PyTorch, pandas and DLPack as the library reads them, without a copy if types allow."""

from __future__ import annotations

import ctypes as C
from collections.abc import Mapping
from typing import Any

from ._library import ArrayLinks, shown, warn
from ._tools import Array, expect, need, np


def is_sparse(value: Any) -> bool:
    """Whether a value is a matrix or array of scipy.sparse."""
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def to_numpy(value: Any, name: str) -> Array:
    """An array of numbers. Shares memory if it can."""
    array = any_array(value)
    if array.dtype.kind == "O" and hasattr(value, "dtypes"):  # of pandas: several types, or missing entries
        columns = [(value.name, value.dtypes)] if value.ndim == 1 else list(value.dtypes.items())
        wrong = [str(column) for column, dtype in columns if getattr(dtype, "kind", "O") not in "biuf"]
        found = f"the column {', '.join(wrong[:5])} of other things than numbers"
        expect(not wrong, name, found, "numbers; pandas.get_dummies makes columns of them", TypeError)
        array = value.to_numpy(dtype=np.float64, na_value=np.nan)
    of_python = isinstance(value, (np.ndarray, list, tuple))
    found = f"entries of type {array.dtype}" if of_python else f"a {type(value).__name__}"
    expect(array.dtype.kind in "biuf", name, found, "an array of numbers", TypeError)
    return array


def any_array(value: Any) -> Array:
    """An array of numpy, of any type. Shares memory if it can. Masked numbers become nan, other masked entries None."""
    if isinstance(value, np.ma.MaskedArray):
        unknown: Any = np.nan if value.dtype.kind in "biuf" else None
        value = np.where(value.mask, unknown, value.data) if np.any(value.mask) else value.data
    elif hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of PyTorch
        tensor = value.detach().cpu()
        value = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
    elif is_sparse(value):
        value = value.toarray()
    elif hasattr(value, "to_numpy"):
        value = value.to_numpy()
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = np.from_dlpack(value)
    if isinstance(value, np.ndarray):
        return value
    try:
        array: Array = np.asarray(value)
    except ValueError:  # rows of several lengths
        return np.array(value, object)
    return np.array(value, object) if array.dtype.kind in "US" else array  # the nan of a list of texts stays nan


def ids32(value: Any, name: str, bound: int = 2**32, kind: str = "id") -> Array:
    """uint32 ids, contiguous. int32 and uint32 are not copied. ValueError: an id is negative or too large."""
    array = to_numpy(value, name)
    expect(array.dtype.kind != "b", name, "booleans", f"{kind}s", TypeError)
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        expect(np.array_equal(whole, array), name, f"{array.dtype} with fractions or nan", f"whole {kind}s", TypeError)
        array = whole
    if array.size:
        extreme = array.min() if array.min() < 0 else array.max()
        expect(0 <= extreme < bound, name, f"{kind} {extreme}", f"{kind}s of 0 .. {bound - 1}")
    return np.asarray(array.view(np.uint32) if array.dtype == np.int32 else array, np.uint32, order="C")


def ends(edge_index: Any, name: str, n_sources: int, n_destinations: int) -> tuple[Array, Array]:
    """uint32 sources and destinations (E,) of edges (2, E), or of two arrays (E,)."""
    pair = edge_index
    if not isinstance(edge_index, (tuple, list)) or len(edge_index) != 2:
        pair = to_numpy(edge_index, name)
        turned = "; transpose it" if pair.shape[1:] == (2,) else ""
        expect(pair.ndim == 2 and pair.shape[0] == 2, name, f"the shape {pair.shape}", f"(2, E){turned}")
    sources, destinations = ids32(pair[0], f"{name}[0]", n_sources), ids32(pair[1], f"{name}[1]", n_destinations)
    found = f"arrays of the shapes {sources.shape} and {destinations.shape}"
    expect(sources.shape == destinations.shape and sources.ndim == 1, name, found, "two of one length")
    return sources, destinations


def column(array: Array) -> Array:
    """(n,), from (n, 1). Other arrays stay."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def of_edges(value: Any, name: str, n: int, wide: bool = False) -> Array:
    """float32 (n,), from (n,) or (n, 1); or if wide (n, D), from (n, D) or (n,)."""
    array = column(floats(value, name))
    array = array[:, None] if wide and array.ndim == 1 else array
    right = array.ndim == 1 + wide and len(array) == n and array.shape[1:] != (0,)
    expect(right, name, f"the shape {array.shape}", f"({n}, D), the edges" if wide else f"{(n,)}, the edges")
    return array


def floats(value: Any, name: str) -> Array:
    """float32, C order. Such arrays are not copied, even if read-only."""
    array = to_numpy(value, name)
    with np.errstate(over="ignore"):
        made: Array = np.asarray(array, np.float32, order="C")
    if array.dtype == np.float64 and array.size and np.isfinite(array).all() and not np.isfinite(made).all():
        raise ValueError(f"{name}: found a number of {np.abs(array).max():.3g}, expected numbers of float32")
    return made


class Features:
    """Features as the library borrows them: `shape`, and the members of struct sl_arrays. Keeps the arrays alive."""

    def __init__(self, x: Any) -> None:
        advice = "features (N, F); without any, scipy.sparse.identity(N) may do"
        expect(x is not None, "x", "None", advice, TypeError)
        self.array: Any  # kept alive
        self.shape: tuple[int, ...]
        if is_sparse(x):
            matrix = x.tocsr()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
            self.shape = matrix.shape
            self.array = matrix.indptr.astype(np.uint64), ids32(matrix.indices, "x"), floats(matrix.data, "x")
            parts = ("feature_offsets", "feature_columns", "feature_values")
            self.members: dict[str, Any] = {name: address(array) for name, array in zip(parts, self.array)}
        else:
            if str(getattr(x, "dtype", "")) == "torch.bfloat16":
                torch = need("torch", "torch")
                self.array, dtype = x.detach().cpu().contiguous().view(torch.int16).numpy(), "bfloat16"
            else:
                array = to_numpy(x, "x")
                as_is = array.dtype in (np.float16, np.int8)
                self.array = np.asarray(array, order="C") if as_is else floats(array, "x")
                dtype = self.array.dtype.name
            self.shape = self.array.shape
            self.members = dict(features=address(self.array), feature_dtype=dtype.encode())
        expect(len(self.shape) == 2, "x", f"the shape {tuple(self.shape)}", "(N, F)")
        names = list(getattr(x, "columns", []))  # of pandas
        if names and all(isinstance(name, str) and not {"\n", "\0"} & set(name) for name in names):
            self.members["feature_names"] = "".join(name + "\n" for name in names).encode()


def members(value: Any, name: str, n_vertices: int) -> Array:
    """Vertex ids of a set of the split, given as ids, or as a mask of n_vertices booleans, or numbers 0 and 1."""
    array = np.empty(0, np.uint32) if value is None else to_numpy(value, name)
    one = f"; give the mask of one split, mask[:, 0] .. mask[:, {array.shape[1] - 1}]" if array.ndim == 2 else ""
    expect(array.ndim == 1, name, f"the shape {array.shape}", f"one dimension: a mask, or vertex ids{one}")
    if len(array) == n_vertices > 2 and ((array == 0) | (array == 1)).all():  # 0 and 1 are the ids of two vertices
        array = array.astype(bool)
    if array.dtype.kind != "b":
        return ids32(array, name, n_vertices)
    expect(len(array) == n_vertices, name, f"a mask of {len(array)} entries", f"{n_vertices}, one for each vertex")
    return np.flatnonzero(array).astype(np.uint32)


def is_missing(entry: Any) -> bool:
    """Whether an entry of an array of objects is unknown: None, nan, or pandas' NA or NaT."""
    if isinstance(entry, (float, np.floating)):
        return bool(entry != entry)
    return type(entry).__name__ in ("NoneType", "NAType", "NaTType")


def named(value: Any, name: str) -> tuple[list[str], Array] | None:
    """(names, labels) of an array (N,) of texts: the sorted names, and int32 classes, -1 if unknown: None, nan or "".

    A categorical of pandas keeps the order of its categories, also of those that no row has. None: numbers.
    """
    categories = getattr(getattr(value, "dtype", None), "categories", None)
    if categories is not None:
        names = [str(category) for category in categories]
        labels = np.asarray(value.cat.codes if hasattr(value, "cat") else value.codes, np.int32, order="C")
    else:
        array = any_array(value)
        if array.dtype.kind not in "OUST" or array.ndim == 0:
            return None
        array = column(array)
        known = np.array([not is_missing(entry) and entry not in ("", b"") for entry in array.flat], bool)
        if not known.any() or not all(isinstance(entry, (str, bytes)) for entry in array.flat[known]):
            return None
        expect(array.ndim == 1, name, f"texts of the shape {array.shape}", "(N,), a class for each vertex")
        texts = [entry.decode() if isinstance(entry, bytes) else str(entry) for entry in array[known]]
        labels = np.full(len(array), -1, np.int32)
        found, labels[known] = np.unique(texts, return_inverse=True)
        names = found.tolist()
    for text in names:
        expect(not {"\n", "\0"} & set(text), name, f"the class {text!r}", "names of one line")
    return names, labels


def _numbers(value: Any, name: str) -> Array:
    """An array of numbers. Unknown ones among objects become -1 beside whole numbers, else nan."""
    array = any_array(value)
    whole = getattr(getattr(value, "dtype", None), "kind", "f") in "biu"  # of a column of pandas, also with gaps
    if array.dtype.kind == "O" and array.size:
        missing = np.array([is_missing(entry) for entry in array.flat], bool).reshape(array.shape)
        kinds = set(map(type, array[~missing]))
        if all(issubclass(kind, (int, float, np.number)) for kind in kinds):
            array = np.where(missing, np.nan, array).astype(np.float64)
            whole = bool(kinds) and all(issubclass(kind, (int, np.integer)) for kind in kinds)
    if whole and array.dtype.kind == "f":
        return np.where(np.isnan(array), -1, array).astype(np.int64)
    return to_numpy(value if array.dtype.kind == "O" else array, name)


MOST_CLASSES = 65536  # of whole floats, as in files


def targets(value: Any, name: str = "y", numbers: bool = False) -> tuple[Array | None, Array | None]:
    """(labels, targets): int32 classes of shape (N,), or float32 numbers of shape (N, K); the other is None.

    Whole floats (N,) or (N, 1) are classes, with a warning. numbers: whole numbers stay numbers.
    """
    array = column(_numbers(value, name))
    if array.ndim == 1 and array.dtype.kind == "f" and not numbers:
        unknown = np.isnan(array) | (array == -1) | (array == -100)
        known = array[~unknown]
        if known.size and known.min() >= 0 and known.max() < MOST_CLASSES and (known == np.floor(known)).all():
            advice = 'for numbers say objective="regression"'
            warn(f"{name}: found floats without fractions, taken as {int(known.max()) + 1} classes; {advice}")
            array = np.where(unknown, -1, array).astype(np.int64)
    if array.ndim == 1 and array.dtype.kind in ("b" if numbers else "biu"):
        largest = int(array.max(initial=0))
        expect(largest < 2**31 - 1, name, f"class {largest}", f"classes below {2**31 - 1}")
        if array.dtype.kind == "i":
            array = np.maximum(array, -1)  # PyTorch's loss ignores -100
        return np.ascontiguousarray(array, np.int32), None
    array = array[:, None] if array.ndim == 1 else array
    expect(array.ndim == 2, name, f"the shape {array.shape}", "(N,) classes or (N, K) numbers")
    return None, floats(array, name)


_nothing = C.c_uint64()


def address(array: Array | None) -> int | None:
    """The address of an array's first entry, also of an array without entries."""
    return None if array is None else array.ctypes.data if array.size else C.addressof(_nothing)


# ---- relations and links ----

MOST_RELATIONS = 65535


def relations16(value: Any, name: str, n: int, shape: tuple[int, ...]) -> Array:
    """uint16 relations below n, of a shape."""
    array = ids32(value, name, n, "relation")
    expect(array.shape == shape, name, f"the shape {array.shape}", f"{shape}, a relation for each pair")
    return np.asarray(array, np.uint16, order="C")


class Relations:
    """The relations of edges: `of_edges` (E,), `n`, `names` as triples or texts, and `text` for the library."""

    def __init__(self, edge_type: Any, names: Any, n_edges: int) -> None:
        listed = names is None or (hasattr(names, "__iter__") and not isinstance(names, str))
        expect(listed, "relations", shown(names), "a list of names")
        self.names = () if names is None else tuple(names)
        self.n = len(self.names)
        self.of_edges: Array | None = None
        self.text: bytes | None = None
        if edge_type is None:
            expect(not self.n, "relations", f"{self.n} names without edge_type", "both")
            return
        self.n = self.n or int(ids32(edge_type, "edge_type", kind="relation").max(initial=0)) + 1
        expect(self.n <= MOST_RELATIONS, "edge_type", f"{self.n} relations", f"{MOST_RELATIONS} at most")
        self.of_edges = relations16(edge_type, "edge_type", self.n, (n_edges,))
        triples = [name if isinstance(name, tuple) else ("", name, "") for name in self.names]
        if triples:  # the library counts the commas and lines
            self.text = "".join(",".join(map(str, triple)) + "\n" for triple in triples).encode()

    def spread(self, given: Mapping[Any, Any], name: str, wide: bool = False) -> Array:
        """A table of all edges, from those of relations: a name or number. wide: rows, which every relation has. If
        not, numbers, of other relations 1."""
        if self.of_edges is None:
            found = "rows" if wide else "weights"
            raise ValueError(f"{name}: found {found} by relation without edge_type, expected both")
        parts, lacking = [], np.ones(len(self.of_edges), bool)
        for key, value in given.items():
            number = self.names.index(key) if key in self.names else key
            names = ", ".join(map(repr, self.names[:5])) or f"0 .. {self.n - 1}"
            expect(number in range(self.n), name, f"the relation {key!r}", f"relations of {names}")
            where = self.of_edges == number
            parts.append((where, of_edges(value, f"{name} of {key}", int(where.sum()), wide)))
            lacking &= ~where
            width, before = (part[1].shape[1:] for part in (parts[-1], parts[0]))
            expect(width == before, f"{name} of {key}", f"{width} columns", f"{before} as before")
        if wide and lacking.any():
            first: Any = int(self.of_edges[lacking][0])
            first = self.names[first] if self.names else first
            raise ValueError(f"{name}: found none of the relation {first!r}, expected rows of each relation")
        made = np.ones((len(lacking), *(parts[0][1].shape[1:] if parts else (1,) * wide)), np.float32)
        for where, part in parts:
            made[where] = part
        return made

    def ends(self, types: Mapping[Any, slice] | None) -> Array | None:
        """The ends of each relation by the types of vertices: uint32 (n, 4); None: any vertex."""
        right = types is None or isinstance(types, Mapping)
        expect(right, "types", f"a {type(types).__name__}", "a dictionary of slices", TypeError)
        if not types or not self.names or not all(isinstance(name, tuple) and len(name) == 3 for name in self.names):
            return None
        starts, counts = [], []
        for end in (end for name in self.names for end in name[::2]):
            part: Any = types.get(end)
            right = isinstance(part, slice) and None not in (part.start, part.stop) and 0 <= part.start <= part.stop
            expect(right, "types", f"{part!r} of {end!r}", "slice(first, end) of its vertices")
            starts.append(part.start)
            counts.append(part.stop - part.start)
        return np.hstack([np.array(numbers, np.uint32).reshape(-1, 2) for numbers in (starts, counts)])


def rows_of(value: Any, name: str) -> Any:
    """The rows of a list of links: those of an array, or arrays."""
    if isinstance(value, (tuple, list)):
        return [any_array(row) for row in value]
    rows = to_numpy(value, name)
    expect(rows.ndim > 0, name, "the shape ()", "rows (2, L) or (3, L)")
    return rows


class Links:
    """A list of links as the library reads it: `members`. Keeps the arrays alive."""

    def __init__(self, value: Any, name: str, n_vertices: int, n_relations: int) -> None:
        self.members = ArrayLinks()
        if value is None:
            return
        rows = rows_of(value, name)
        expected = "(3, L): heads, relations, tails" if n_relations else "(2, L): two ends"
        shapes = [np.shape(row) for row in rows]
        right = len(rows) == (3 if n_relations else 2) and all(len(s) == 1 and s == shapes[0] for s in shapes)
        expect(right, name, f"rows of the shapes {shapes[:4]}", expected)
        ends = [ids32(row, name, n_vertices) for row in (rows[0], rows[-1])]
        relations = relations16(rows[1], name, n_relations, ends[0].shape) if n_relations else None
        self.arrays = (*ends, relations)
        pointers = {"from": address(ends[0]), "to": address(ends[1]), "relations": address(relations)}
        self.members = ArrayLinks(n=len(ends[0]), **pointers)


def own_negatives(value: Any, name: str, links: Any, n_vertices: int) -> tuple[Any, int]:
    """Negatives as one list, and K. value: such a list, with K 0, or tables (L, K) of a dictionary, K for each link."""
    if not isinstance(value, Mapping):
        return value, 0
    right = links is not None and len(value) > 0 and set(value) <= {"head", "tail"}
    expect(right, name, shown(list(value)), "'head' or 'tail': other ends (L, K) of the links to find")
    rows = [ids32(row, name) for row in rows_of(links, name)]
    tables = {end: ids32(value[end], name, n_vertices) for end in ("head", "tail") if end in value}
    shapes = [table.shape for table in tables.values()]
    right = len(shapes[0]) == 2 and 0 not in shapes[0] and shapes[0][0] == len(rows[0]) and set(shapes) == {shapes[0]}
    expect(right, name, f"the shape {' and '.join(map(str, shapes))}", f"({len(rows[0])}, K), a row for each link")
    full = [np.repeat(row, len(tables) * shapes[0][1]).reshape(len(row), len(tables), -1) for row in rows]
    for block, (end, table) in enumerate(tables.items()):
        full[0 if end == "head" else -1][:, block] = table
    return [row.reshape(-1) for row in full], shapes[0][1]


def edges_of_links(train_links: Any) -> tuple[tuple[Any, Any], Any]:
    """(edge_index, edge_type) of training links; edge_type may be None."""
    rows = rows_of(train_links, "train_links")
    expect(len(rows) in (2, 3), "train_links", f"{len(rows)} rows", "(2, L) or (3, L)")
    return (rows[0], rows[-1]), rows[1] if len(rows) == 3 else None
