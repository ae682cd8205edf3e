# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A dataset that is written table by table: a folder of .npy files in OGB's layout, or one safetensors file.

Arrays may be of numpy, memory maps, tensors of PyTorch or matrices of scipy.sparse. They are read, checked and written
in blocks, so they may be larger than memory.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._arrays import any_array, ids32, members
from ._numpy import Array, np
from ._sources import PLAIN
from ._tools import whole_file

ROWS = 1 << 18  # of a block
_HEADER_BYTES = 128  # of a .npy file
_DTYPES = {"b1": "BOOL", "i1": "I8", "u1": "U8", "i8": "I64", "f2": "F16", "f4": "F32"}


class Refused(ValueError):
    """A file is not as expected. The message is one line."""


def about(path: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """Call a reader. The messages of its errors begin with `path`."""
    try:
        return read(*arguments)
    except (ImportError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.strerror is None:  # of gzip
            raise Refused(f"{path}: {error}") from None
        raise
    except Exception as error:  # of a library that reads the file
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise Refused(text if text.startswith(path) else f"{path}: {text}") from None


def note(text: str) -> None:
    print(f"starling convert: {text}", file=sys.stderr)


def show(text: str) -> None:
    """Progress, on a terminal."""
    if sys.stderr.isatty():
        print("\r" + text[:76].ljust(76), end="\r" if not text else "", file=sys.stderr, flush=True)


class Npy:
    """A .npy file that grows by rows: shape (rows, ..)."""

    def __init__(self, path: str, dtype: Any) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.dtype, self.n = np.dtype(dtype), 0
        self.rest: tuple[int, ...] | None = None
        self.file = open(path, "wb")
        self.file.seek(_HEADER_BYTES)

    def add(self, block: Array) -> None:
        self.rest = block.shape[1:] if self.rest is None else self.rest
        if block.shape[1:] != self.rest:
            raise Refused(f"found {block.shape[1:]} columns in some rows, expected {self.rest} as before")
        self.n += len(block)
        self.file.write(np.ascontiguousarray(block, self.dtype).tobytes())

    def close(self) -> None:
        if self.file.closed:
            return
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.n, *(self.rest or ()))})
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\1\0v\0" + text.encode().ljust(_HEADER_BYTES - 11) + b"\n")
        self.file.truncate(max(_HEADER_BYTES, self.file.seek(0, 2)))
        self.file.close()


def blocks(array: Any, name: str = "") -> Iterator[Array]:
    for first in range(0, array.shape[0], ROWS):
        show(f"{name}: {first} of {array.shape[0]}")
        yield any_array(array[first : first + ROWS])


def numbers(name: str, block: Array, dtype: Any, least: float = -np.inf, nan: bool = False) -> Array:
    """A block as finite numbers of a dtype, of `least` or more."""
    if block.dtype.kind not in "biuf":
        raise Refused(f"{name}: found entries of type {block.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        made: Array = block.astype(dtype)
    bad = ~(np.isfinite(made) & (made >= least)) & ~(np.isnan(made) & nan)
    if bad.any():
        expected = "finite numbers" + (" of 0 or more" if least == 0 else "") + (", or nan" if nan else "")
        raise Refused(f"{name}: found {block[bad].flat[0]}, expected {expected}")
    return made


class Draft:
    """The dataset, in a hidden folder beside `out` until `finish`."""

    def __init__(self, out: str) -> None:
        self.out = os.path.abspath(out)
        self.root = tempfile.mkdtemp(prefix=f".{os.path.basename(out)}.", dir=os.path.dirname(self.out))
        self.scratch, self.folder = os.path.join(self.root, "scratch"), os.path.join(self.root, "draft")
        os.mkdir(self.scratch)
        self.n: dict[str, int] = {}  # vertices of each type; 0: not known
        self.most: dict[str, int] = {}  # 1 + the largest id of each type in the edges
        self.relations: list[tuple[str, str, str]] = []
        self.names: dict[str, list[str]] = {}  # of the classes, by type
        self.ids: list[str] | None = None
        self.directed = False  # the edges are to be taken as they are: an undirected graph lists both directions
        self.scale: float | None = None  # of int8 features
        self.tables: list[Npy] = []

    def table(self, name: str, dtype: Any) -> Npy:
        self.tables.append(Npy(os.path.join(self.folder, name + ".npy"), dtype))
        if os.path.basename(name) == "edge":
            self.tables[-1].rest = (2,)  # also without edges
        return self.tables[-1]

    def put(self, name: str, dtype: Any, parts: Iterable[Array]) -> None:
        table = self.table(name, dtype)
        for part in parts:
            table.add(part)
        table.close()

    def lines(self, name: str, lines: Iterable[Any]) -> None:
        os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
        with open(os.path.join(self.folder, name), "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    def edge_name(self, triple: tuple[str, str, str]) -> str:
        """Begin a relation. Returns the name of its table."""
        self.relations.append(triple)
        for key in triple[::2]:
            self.most.setdefault(key, 0)
        return "raw/edge" if triple == PLAIN else f"raw/relations/{'___'.join(triple)}/edge"

    def pairs(self, triple: tuple[str, str, str], block: Array) -> Array:
        """A block (rows, 2) of edges as ids."""
        made = ids32(block, "edges", 2**32 - 1)
        for end, key in enumerate(triple[::2]):
            self.most[key] = max(self.most[key], int(made[:, end].max(initial=0)) + (len(made) > 0))
        return made

    def edges(self, index: Any, weight: Any = None, triple: tuple[str, str, str] = PLAIN) -> None:
        """Edges (2, E) or (E, 2), and their weights (E,)."""
        shape = tuple(index.shape)
        if len(shape) != 2 or 2 not in shape:
            raise Refused(f"edges: found the shape {shape}, expected (2, edges) or (edges, 2)")
        name = self.edge_name(triple)
        rows = index.T if shape[0] == 2 else index
        self.put(name, "<u4", (self.pairs(triple, block) for block in blocks(rows, name)))
        if weight is not None:
            if weight.shape[0] != rows.shape[0]:
                raise Refused(f"edge weights: found {weight.shape[0]}, expected {rows.shape[0]}, one for each edge")
            self.put(name + "-weight", "<f4", (numbers("edge weights", w.ravel(), "<f4", 0) for w in blocks(weight)))

    def vertices(self, key: str = "", n: int = 0, x: Any = None, y: Any = None, scale: float = 1) -> None:
        """n vertices of a type: features x (n, F), times `scale`; targets y (n,) or (n, K)."""
        n = self.n[key] = n or next((int(t.shape[0]) for t in (x, y) if t is not None), 0)
        for name, table in (("node-feat", x), ("node-label", y)):
            shape = () if table is None else tuple(table.shape)
            if table is not None and (shape[0] != n or (len(shape) != 2 and (x is table or len(shape) > 2))):
                raise Refused(f"{key} {name}: found the shape {shape}, expected ({n}, columns)".strip())
        if x is not None:
            dtype = {"float16": "<f2", "int8": "|i1"}.get(str(x.dtype).replace("torch.", ""), "<f4")
            factor: Any = 1
            if scale != 1 and self.out.endswith(".safetensors"):
                self.scale = scale
            elif scale != 1:  # a folder has no place for it
                dtype, factor = "<f4", np.float32(scale)
            parts = (numbers("features", block, dtype) * factor for block in blocks(x, "features"))
            self.put(self.place("node-feat", key), dtype, parts)
        if y is not None:
            dtype = "<f4" if any_array(y[:1]).dtype.kind == "f" else "<i8"
            rows = (numbers("targets", block, dtype, nan=True) for block in blocks(y, "targets"))
            self.put(self.place("node-label", key), dtype, rows)

    @staticmethod
    def place(table: str, key: str) -> str:
        return f"raw/{table}/{key}/{table}" if key else f"raw/{table}"

    def sets(self, sets: Mapping[str, Any], split: str = "file", key: str = "") -> None:
        """The lists train, valid and test: ids or masks (n,). Masks (n, K) are the splits 0 .. K-1."""
        given = {name: value for name, value in sets.items() if value is not None}
        width = max((value.shape[1] for value in given.values() if len(value.shape) == 2), default=0)
        for column in range(max(width, 1)):
            seen = np.zeros(self.n[key], bool)
            for name, value in given.items():
                found = members(value[:, column] if len(value.shape) == 2 else value, name, self.n[key])
                if seen[found].any() or len(np.unique(found)) < len(found):
                    raise Refused(f"{name}: found a vertex that is in the split already, expected each vertex once")
                seen[found] = True
                self.put(os.path.join("split", str(column) if width > 1 else split, key, name), "<u4", [found])

    def finish(self) -> None:
        """Check what needs all tables, and put the folder or file in its place."""
        for table in self.tables:
            table.close()
        typed = self.relations != [PLAIN]
        for key, most in self.most.items():
            self.n[key] = self.n.get(key) or most
            if most > self.n[key]:
                expected = f"ids of 0 .. {self.n[key] - 1}{key and ' of ' + key}"
                raise Refused(f"edges: found id {most - 1}, expected {expected}")
        if self.out.endswith(".safetensors"):
            if typed:
                raise Refused("found a typed dataset, expected one type for a .safetensors file; write a folder")
            with whole_file(self.out) as path:
                self._write_file(path)
            return
        for key, names in self.names.items():
            self._write_names(self.place("node-label", key), names)
        if typed:
            self.lines("raw/num-node-dict.csv", [",".join(self.n), ",".join(map(str, self.n.values()))])
            self.lines("raw/triplet-type-list.csv", map(",".join, self.relations))
        else:
            self.lines("raw/num-node-list.csv", [self.n[""]])
        if self.ids is not None:
            self.lines("raw/node-id.csv", self.ids)
        os.rename(self.folder, self.out)

    def _load(self, name: str) -> Array:
        made: Array = np.load(os.path.join(self.folder, name + ".npy"), mmap_mode="r")
        return made

    def _write_names(self, name: str, names: list[str]) -> None:
        """Labels as names: the numbers of a folder's names are those of the sorted names."""
        if names != sorted(names) or self._load(name).ndim > 1:
            note("a folder has no place for the names of classes in another order than sorted; a .safetensors file has")
            return
        cells = ["nan", *('"' + name.replace('"', '""') + '"' for name in names)]
        self.lines(name + ".csv", (cells[max(int(c), -1) + 1] for part in blocks(self._load(name)) for c in part))
        os.unlink(os.path.join(self.folder, name + ".npy"))

    def _tensors(self) -> Iterator[tuple[str, Any, tuple[int, ...], Iterable[Array]]]:
        """Name, dtype, shape and blocks of each tensor, with the names of PyG's Data."""
        edge, n = self._load("raw/edge"), self.n[""]
        ends = (part for end in (0, 1) for part in blocks(edge[:, end]))
        yield "edge_index", "<i8", (2, len(edge)), ends
        yield "num_nodes", "<i8", (), [np.array(n)]
        if self.scale is not None:
            yield "x_scale", "<f4", (), [np.array(self.scale)]
        for name, table in (("edge_weight", "edge-weight"), ("x", "node-feat"), ("y", "node-label")):
            if os.path.exists(os.path.join(self.folder, f"raw/{table}.npy")):
                array = self._load(f"raw/{table}")
                yield name, array.dtype.str, array.shape, blocks(array, name)
        for name, lines in (("class_names", self.names.get("")), ("node_ids", self.ids)):
            if lines is not None:
                text = np.frombuffer("".join(line + "\n" for line in lines).encode(), np.uint8)
                yield name, "|u1", text.shape, [text]
        lists = sorted(glob.glob(glob.escape(self.folder) + "/split/*/*.npy"))
        if len({os.path.dirname(path) for path in lists}) > 1:
            raise Refused("found several splits, expected one for a .safetensors file; choose it by --split")
        for path in lists:
            found, name = np.load(path), os.path.basename(path)[:-4]
            if found.ndim != 1 or name not in ("train", "valid", "test"):
                raise Refused(
                    "found lists of links, expected lists of vertices for a .safetensors file; write a folder"
                )
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
        for table in self.tables:
            table.file.close()
        shutil.rmtree(self.root, ignore_errors=True)
        show("")
