# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Relations of edges, types of vertices, and lists of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _arrays
from ._library import ArrayLinks
from ._numpy import Array, np

MOST_RELATIONS = 65535


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
