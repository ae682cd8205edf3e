# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A dataset that is written table by table: a folder of .npy files in OGB's layout, or one safetensors file.

Arrays may be of numpy, memory maps or tensors of PyTorch. They are read, checked and written in blocks, so they may be
larger than memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._arrays import any_array, column, ids32, is_missing, members, named
from ._sources import PLAIN, WEIGHTS, Stores, split
from ._tools import Array, expect, np

ROWS = 1 << 18  # of a block
_HEADER_BYTES = 128  # of a .npy file
_DTYPES = {"b1": "BOOL", "i1": "I8", "u1": "U8", "i8": "I64", "f2": "F16", "f4": "F32"}
# The names of the tables in stores: PyG's, DGL's, OGB's.
X = ("x", "node_feat", "feat", "feature", "features")
Y = ("y", "node_label", "label", "labels")
SETS = {
    "train": ("train_mask", "train", "train_idx"),
    "valid": ("val_mask", "valid_mask", "valid", "val", "valid_idx", "val_idx"),
    "test": ("test_mask", "test", "test_idx"),
}
COUNTS = ("num_nodes", "num_nodes_list")
EDGE_X = ("edge_attr", "edge_feat", "feat")
OF_EDGES = {"edge", "edge_index", "num_edges_list", *WEIGHTS, *EDGE_X[:2]}
_OF_VERTICES = {*X, *Y, *COUNTS, *(f"{name}_scale" for name in X), "class_names", "splits"}
_OF_VERTICES |= {name for names in SETS.values() for name in names}


def about(path: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """Call a reader. Its errors are of one line that begins with `path`."""
    try:
        return read(*arguments)
    except (ImportError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.strerror is None:  # of gzip
            raise ValueError(f"{path}: {error}") from None
        raise
    except Exception as error:  # also of a library that reads the file
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(text if text.startswith(path) else f"{path}: {text}") from None


def note(text: str) -> None:
    print(f"starling convert: {text}", file=sys.stderr)


def show(text: str) -> None:
    """Progress, on a terminal."""
    if sys.stderr.isatty():
        print("\r" + text[:76].ljust(76), end="\r" if not text else "", file=sys.stderr, flush=True)


def write_npy(path: str, dtype: Any, parts: Iterable[Array], rest: tuple[int, ...] | None = None) -> Array:
    """Write blocks of rows (rows, ..) as a .npy file. Returns it, mapped. rest: the shape of a row, if known."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    n, dtype = 0, np.dtype(dtype)
    with open(path, "wb") as file:
        file.seek(_HEADER_BYTES)
        for part in parts:
            rest = part.shape[1:] if rest is None else rest
            expect(part.shape[1:] == rest, "rows", f"{part.shape[1:]} columns in some", f"{rest} as before")
            n += len(part)
            file.write(np.ascontiguousarray(part, dtype).tobytes())
        text = repr({"descr": dtype.str, "fortran_order": False, "shape": (n, *(rest or ()))})
        file.seek(0)
        file.write(b"\x93NUMPY\1\0v\0" + text.encode().ljust(_HEADER_BYTES - 11) + b"\n")
    made: Array = np.load(path, mmap_mode="r")
    return made


def blocks(array: Any, name: str = "") -> Iterator[Array]:
    for first in range(0, array.shape[0], ROWS):
        show(f"{name}: {first} of {array.shape[0]}")
        yield any_array(array[first : first + ROWS])


def numbers(name: str, block: Array, dtype: Any, least: float = -np.inf, nan: bool = False) -> Array:
    """A block as finite numbers of a dtype, of `least` or more."""
    expect(block.dtype.kind in "biuf", name, f"entries of type {block.dtype}", "numbers")
    with np.errstate(over="ignore"):
        made: Array = block.astype(dtype)
    bad = ~(np.isfinite(made) & (made >= least)) & ~(np.isnan(made) & nan)
    if bad.any():
        expected = "finite numbers" + (" of 0 or more" if least == 0 else "") + (", or nan" if nan else "")
        raise ValueError(f"{name}: found {block[bad].flat[0]}, expected {expected}")
    return made


def is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(text) == 0 or True
    return False


def _targets(cells: Array) -> tuple[Array, list[str] | None]:
    """Targets of cells (n,) or (n, K), texts or numbers: classes -1 .. and their names, or numbers and None."""
    columns = cells.reshape(len(cells), -1)
    texts = [re.sub("^nan$", "", "" if is_missing(cell) else str(cell).strip(), flags=re.I) for cell in columns.flat]
    known = [text for text in texts if text]
    if all(map(is_number, known)):
        values = np.array([float(text or "nan") for text in texts]).reshape(columns.shape)
        whole = columns.shape[1] == 1 and not any(float(text) % 1 for text in known)
        if whole and not (known and all("." in text for text in known)):
            values = np.where(np.isnan(values), -1, values).astype(np.int64)
        return column(values), None
    right = columns.shape[1] == 1 and not any(is_number(text) and float(text) % 1 for text in known)
    expect(right, "labels", "text beside other labels", "numbers, or names of classes")
    found = named(np.array(texts, object), "labels")
    assert found is not None  # some are texts
    return found[1], found[0]


def take(tables: Mapping[str, Any], names: Iterable[str], wanted: str | None = None) -> Any:
    """The table `wanted`, or the one of the names. None: there is none."""
    known = (wanted,) if wanted is not None and wanted in tables else names
    found = [name for name in known if name in tables]
    expect(len(found) < 2, "arrays", f"the table twice, as {' and '.join(found)}", "one of them")
    return tables[found[0]] if found else None


class Draft:
    """The dataset, in a hidden folder beside `out` until `finish`."""

    def __init__(self, out: str) -> None:
        self.out = os.path.abspath(out)
        place, name = os.path.split(self.out)
        self.root = os.path.join(place, f".{name[:200]}.{os.getpid()}")
        self.folder = os.path.join(self.root, "draft")
        self.n: dict[str, int] = {}  # vertices of each type
        self.ids: list[str] | None = None
        self._relations: list[tuple[str, str, str]] = []
        self._names: dict[str, list[str]] = {}  # of the classes, by type
        self._scale: float = 1  # of int8 features
        self._tables: dict[str, Array] = {}
        self._spares = itertools.count()

    def spare(self) -> str:
        """The path of a new file or folder that goes with the draft."""
        return os.path.join(self.root, str(next(self._spares)))

    def grow(self, dtype: Any, parts: Iterable[Array], rest: tuple[int, ...] | None = None) -> Array:
        """Blocks of rows as one array, in a file that goes with the draft."""
        return write_npy(self.spare(), dtype, parts, rest)

    def save(self, name: str, dtype: Any, parts: Iterable[Array], rest: tuple[int, ...] | None = None) -> Array:
        """A table of the dataset."""
        made = self._tables[name] = write_npy(os.path.join(self.folder, name + ".npy"), dtype, parts, rest)
        return made

    def links(self, name: str, rows: Array) -> None:
        """Pairs, or ids of negatives; triples, which arrays cannot hold, as text."""
        if rows.ndim == 2 and rows.shape[1] == 3 and not name.endswith(("_head_neg", "_tail_neg")):
            self._tables[name] = rows
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            self._lines(name + ".csv", (",".join(map(str, row)) for part in blocks(rows) for row in part.tolist()))
        else:
            self.save(name, "<i8", blocks(rows), rows.shape[1:])

    def put(self, stores: Stores, arguments: Any) -> None:
        """Write a graph of named tables by type and by triple: a reader's, which may have tables that are None."""
        for key, tables in stores.items():
            tables = stores[key] = {name: of for name, of in tables.items() if of is not None and name[:1] != "_"}
            known = (
                {*OF_EDGES, *EDGE_X, arguments.weight} if isinstance(key, tuple) else _OF_VERTICES | {arguments.label}
            )
            unused = ", ".join(name for name in tables if name not in known)
            if unused:
                note(f"not used: {unused}" + ("" if key in ("", PLAIN) else f" of {key}"))
        vertices, edges = split(stores)
        most = dict.fromkeys([*vertices, *(key for triple in edges for key in triple[::2])], 0)
        for triple, tables in edges.items():
            index = take(tables, ("edge_index", "edge"))
            if index is None:
                found = ", ".join([*tables, *vertices.get("", ())]) + ("" if triple == PLAIN else f" of {triple}")
                raise ValueError(f"found {found or 'nothing'}; expected arrays edge_index, x, y, ..")
            weight = take(tables, WEIGHTS, arguments.weight)
            x = take({name: of for name, of in tables.items() if name != arguments.weight}, EDGE_X)
            for key, ids in zip(triple[::2], self._edges(triple, index, weight, x).T):
                most[key] = max(most[key], int(ids.max()) + 1 if len(ids) else 0)
        for key, least in most.items():
            self._vertices(key, vertices.get(key, {}), least, arguments)

    def _edges(self, triple: tuple[str, str, str], index: Any, weight: Any, x: Any) -> Array:
        """Edges (2, E) or (E, 2), or two arrays (E,), weights (E,), features (E, D). Returns the edges (E, 2)."""
        index = np.stack([any_array(end) for end in index]) if isinstance(index, (tuple, list)) else index
        shape = tuple(index.shape)
        expect(len(shape) == 2 and 2 in shape, "edges", f"the shape {shape}", "(2, edges) or (edges, 2)")
        self._relations.append(triple)
        name = "raw/edge" if triple == PLAIN else f"raw/relations/{'___'.join(triple)}/edge"
        rows = index.T if shape[0] == 2 else index
        weight = None if weight is None else weight.reshape(-1)
        x = x if x is None or len(x.shape) == 2 else x.reshape(-1, 1)
        for what, end, table, least in (("weights", "weight", weight, 0), ("features", "feat", x, -np.inf)):
            if table is not None:
                expected = f"{rows.shape[0]}, one for each edge"
                expect(table.shape[0] == rows.shape[0], f"edge {what}", str(table.shape[0]), expected)
                parts = map(functools.partial(numbers, f"edge {what}", dtype="<f4", least=least), blocks(table))
                self.save(f"{name}-{end}", "<f4", parts, tuple(table.shape[1:]))
        return self.save(name, "<u4", (ids32(block, "edges", 2**32 - 1) for block in blocks(rows, name)), (2,))

    def _vertices(self, key: str, tables: Mapping[str, Any], least: int, arguments: Any) -> None:
        """The tables of a type that has `least` vertices or more: features (n, F), targets (n,) or (n, K), sets."""
        count, x, y = take(tables, COUNTS), take(tables, X), take(tables, Y, arguments.label)
        names, place = tables.get("class_names"), f"raw/{{0}}/{key}/{{0}}" if key else "raw/{0}"
        n = 0 if count is None else int(any_array(count).ravel()[0])
        n = self.n[key] = n or next((int(table.shape[0]) for table in (x, y) if table is not None), least)
        expect(least <= n, "edges", f"id {least - 1}", f"ids of 0 .. {n - 1}{key and ' of ' + key}")
        for name, table, dims in (("node-feat", x, (2,)), ("node-label", y, (1, 2))):
            shape = (n, 1) if table is None else tuple(table.shape)
            right = len(shape) in dims and shape[0] == n
            expect(right, f"{key} {name}".strip(), f"the shape {shape}", f"({n}, columns)")
        if x is not None:
            x = x.to_dense() if hasattr(x, "to_dense") else x
            dtype = {"float16": "<f2", "int8": "|i1"}.get(str(x.dtype).replace("torch.", ""), "<f4")
            scale = take(tables, [f"{name}_scale" for name in X])
            factor = 1 if scale is None else float(any_array(scale).ravel()[0])
            if self.out.endswith(".safetensors"):
                self._scale, factor = factor, 1
            dtype = dtype if factor == 1 else "<f4"  # a folder has no place for a factor
            parts = (numbers("features", block, dtype) * factor for block in blocks(x, "features"))
            self.save(place.format("node-feat"), dtype, parts)
        if y is not None:
            if isinstance(y, np.ndarray) and y.dtype.kind in "OUS":
                y, found = _targets(np.char.decode(y) if y.dtype.kind == "S" else y)
                names = found if names is None else names
            dtype = "<f4" if any_array(y[:1]).dtype.kind == "f" else "<i8"
            rows = (numbers("targets", block, dtype, nan=True) for block in blocks(y, "targets"))
            self.save(place.format("node-label"), dtype, rows)
            if names is not None:
                text = any_array(names)
                self._names[key] = bytes(text).decode().splitlines() if text.dtype.kind == "u" else list(map(str, text))
        own = {"file": {name: take(tables, known) for name, known in SETS.items()}}
        for name, sets in {**own, **tables.get("splits", {})}.items():
            self._sets(name, key, {set_: value for set_, value in sets.items() if value is not None})

    def _sets(self, split: str, key: str, sets: Mapping[str, Any]) -> None:
        """The lists train, valid and test: ids or masks (n,). Masks (n, K) are the splits 0 .. K-1."""
        width = max((value.shape[1] for value in sets.values() if len(value.shape) == 2), default=0)
        for i in range(max(width, 1)):
            seen = np.zeros(self.n[key], bool)
            for name, value in sets.items():
                found = members(value[:, i] if len(value.shape) == 2 else value, name, self.n[key])
                right = not seen[found].any() and len(np.unique(found)) == len(found)
                expect(right, name, "a vertex that is in the split already", "each vertex once")
                seen[found] = True
                self.save(os.path.join("split", str(i) if width > 1 else split, key, name), "<u4", [found])

    def _lines(self, name: str, lines: Iterable[Any]) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    def finish(self) -> None:
        """Put the folder or file in its place."""
        typed = self._relations != [PLAIN]
        if self.out.endswith(".safetensors"):
            expect(not typed, "types", "a typed dataset", "one type for a .safetensors file; write a folder")
            path = self.spare()
            self._write_file(path)
            os.rename(path, self.out)
            return
        for key, names in self._names.items():
            self._write_names(f"raw/node-label/{key}/node-label" if key else "raw/node-label", names)
        if typed:
            self._lines("raw/num-node-dict.csv", [",".join(self.n), ",".join(map(str, self.n.values()))])
            self._lines("raw/triplet-type-list.csv", map(",".join, self._relations))
        else:
            self._lines("raw/num-node-list.csv", [self.n[""]])
        if self.ids is not None:
            self._lines("raw/node-id.csv", self.ids)
        os.rename(self.folder, self.out)

    def _write_names(self, name: str, names: list[str]) -> None:
        """Labels as names: the numbers of a folder's names are those of the sorted names."""
        labels = self._tables[name]
        if names != sorted(names) or labels.ndim > 1:
            note("a folder has no place for the names of classes in another order than sorted; a .safetensors file has")
            return
        cells = ["nan", *('"' + name.replace('"', '""') + '"' for name in names)]
        self._lines(name + ".csv", (cells[max(int(c), -1) + 1] for part in blocks(labels) for c in part))
        os.unlink(os.path.join(self.folder, name + ".npy"))

    def _tensors(self) -> Iterator[tuple[str, Any, tuple[int, ...], Iterable[Array]]]:
        """Name, dtype, shape and blocks of each tensor, with the names of PyG's Data."""
        edge, n = self._tables["raw/edge"], self.n[""]
        ends = (part for end in (0, 1) for part in blocks(edge[:, end]))
        yield "edge_index", "<i8", (2, len(edge)), ends
        yield "num_nodes", "<i8", (), [np.array(n)]
        if self._scale != 1:
            yield "x_scale", "<f4", (), [np.array(self._scale)]
        names = {"edge_weight": "edge-weight", "edge_attr": "edge-feat", "x": "node-feat", "y": "node-label"}
        for name, table in names.items():
            if f"raw/{table}" in self._tables:
                array = self._tables[f"raw/{table}"]
                yield name, array.dtype.str, array.shape, blocks(array, name)
        for name, lines in (("class_names", self._names.get("")), ("node_ids", self.ids)):
            if lines is not None:
                text = np.frombuffer("".join(line + "\n" for line in lines).encode(), np.uint8)
                yield name, "|u1", text.shape, [text]
        lists = [path for path in self._tables if path.startswith("split/")]
        several = len({os.path.dirname(path) for path in lists}) > 1
        expect(not several, "split", "several", "one for a .safetensors file; choose it by --split")
        for path in lists:
            found, name = self._tables[path], os.path.basename(path)
            right = found.ndim == 1 and name in SETS
            expect(right, "split", "lists of links", "lists of vertices for a .safetensors file; write a folder")
            mask = np.zeros(n, bool)
            mask[found] = True
            yield name.replace("valid", "val") + "_mask", "|b1", (n,), [mask]

    def _write_file(self, path: str) -> None:
        tensors = sorted(self._tensors(), key=lambda tensor: -np.dtype(tensor[1]).itemsize)  # aligned
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, dtype, shape, _ in tensors:
            begin, end = end, end + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            header[name] = {"dtype": _DTYPES[dtype[1:]], "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write((len(text) + -len(text) % 8).to_bytes(8, "little") + text + b" " * (-len(text) % 8))
            for _, dtype, _, parts in tensors:
                for part in parts:
                    file.write(np.ascontiguousarray(part, dtype).tobytes())

    def discard(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        show("")
