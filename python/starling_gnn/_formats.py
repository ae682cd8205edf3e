# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling convert`: make a dataset that Starling reads of the files and folders of other programs.

Each reader returns stores: tables by type and by triple. Text and Parquet are read in blocks by pandas; their ids may
be of any kind.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import importlib
import os
import re
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._arrays import any_array, column, ids32
from ._draft import OF_EDGES, ROWS, SETS, Draft, X, about, is_number, note, numbers, show, take
from ._sources import PLAIN, Stores, is_pyg, of_dgl, of_pyg
from ._tools import Array, expect, need, np

ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")
SOURCES = ("src", "src_id", "source", "from", "FromNodeId", "START_ID")
TARGETS = ("dst", "dst_id", "target", "to", "ToNodeId", "END_ID")
IDS = ("id", "node_id", "ID")
MASKS = ("train_mask", "val_mask", "valid_mask", "test_mask")
WORDS = {"": "", "none": "", "train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


# ---- tables of edges and vertices ----


def pandas() -> Any:
    return need("pandas", "pandas", "python3-pandas")


def open_text(path: str) -> Any:
    return (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="")


def read_blocks(path: str, **options: Any) -> Iterator[Any]:
    """Blocks of a text file as DataFrames of pandas. A row that is too long is refused."""
    warnings.filterwarnings("error", category=pandas().errors.ParserWarning)
    usual = {"chunksize": ROWS, "encoding": "utf-8-sig", "index_col": False, "float_precision": "round_trip"}
    done = 0
    for frame in pandas().read_csv(path, **usual, **options):
        done += len(frame)
        show(f"{os.path.basename(path)}: {done} rows")
        yield frame


def _cells(line: str) -> tuple[str, list[str]]:
    """The separator of a line, the first of tab, comma, semicolon and blank that it has, and the cells."""
    separator = next((c for c in "\t,; " if c in line), ",")
    cells = line.split() if separator == " " else line.split(separator)
    return separator, [cell.strip().strip('"') for cell in cells]


def find(stem: str, endings: tuple[str, ...]) -> str | None:
    """The file of a name with one of the endings; None: there is none."""
    found = [stem + ending for ending in endings if os.path.exists(stem + ending)]
    expect(len(found) < 2, stem, f"the table twice, as {' and '.join(found)}", "one of them")
    return found[0] if found else None


class Table:
    """A table: `names` of the columns, and its rows in blocks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: Any = None
        if path.endswith(".parquet"):
            self.file = need("pyarrow.parquet", "pyarrow").ParquetFile(path)
            self.names = list(map(str, self.file.schema_arrow.names))
        else:
            self._look()
        for i, name in enumerate(self.names, 1):
            right = name and not name.startswith(("Unnamed: ", "__index_level_")) and name not in self.names[: i - 1]
            advice = "leave out the row number of pandas: to_csv(.., index=False)"
            expect(right, f"column {i}", f"'{name}'", f"a name of its own; {advice}")

    def _look(self) -> None:
        """Find the header: the first line, or the last of the lines before it that begin with '#'."""
        self.skip, comment, line = 0, "", ""
        with open_text(self.path) as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    break
                self.skip += 1
                comment = line[1:].strip() or comment
        self.separator, self.names = _cells(line.strip())
        if len(self.names) > 1 and all(map(is_number, self.names)):
            names = _cells(comment)[1]
            if len(names) != len(self.names) or not set(names) & {*SOURCES, *IDS}:
                names = ["source", "target", "weight", *map(str, range(4, len(self.names) + 1))][: len(self.names)]
            self.names = names
        else:
            self.skip += 1

    def find(self, wanted: str | None, known: Sequence[str], option: str, needed: bool = False) -> str | None:
        """The column `wanted`, or the first of the known names; types of Neo4j, as in "weight:float", are left away."""
        bare = {re.sub(r"^\w*:(?=ID|START|END)|\(.*\)$|:[a-z]+$", "", name): name for name in self.names}
        found = wanted or next((bare[name] for name in known if name in bare), None)
        if (found is None and needed) or (found is not None and found not in self.names):
            raise ValueError(f"found the columns {', '.join(self.names[:20])}; name one of them by {option}")
        return found

    def read(self, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
        """DataFrames of some columns, in blocks. In text files, cells of the columns `texts` stay text."""
        if self.file is not None:
            for batch in self.file.iter_batches(ROWS, columns=list(columns)):
                yield batch.to_pandas()[list(columns)]
            return
        gaps = {name: ["", "nan", "NaN"] for name in columns if name not in texts}
        options: dict[str, Any] = {"header": None, "names": self.names, "skiprows": self.skip, "skipinitialspace": True}
        options |= {"dtype": dict.fromkeys(texts, object), "keep_default_na": False, "na_values": gaps}
        for frame in read_blocks(self.path, sep=r"\s+" if self.separator == " " else self.separator, **options):
            yield frame[list(columns)]


class Ids:
    """The numbers of ids: 0, 1, .. as they first come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.closed = False  # a table of vertices has all ids

    def number(self, column: Array) -> Array:
        """The numbers of texts or integers (n,), uint32."""
        codes, found = pandas().factorize(column)
        texts = [str(one).strip() for one in found.tolist()]
        expect(codes.min(initial=0) >= 0 and "" not in texts, "ids", "an empty cell", "an id in each row")
        wrong = next((text for text in texts if "\n" in text or (self.closed and text not in self.known)), None)
        expected = "an id of the vertices" if self.closed else "one line"
        expect(wrong is None, "ids", repr(wrong)[:40], expected)
        known = self.known
        new = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.uint32, len(texts))
        return np.asarray(new[codes])

    def names(self) -> list[str] | None:
        """The ids by number. None: the ids are the numbers."""
        return None if all(name == str(i) for i, name in enumerate(self.known)) else list(self.known)


def _plain(column: Any) -> Array:
    return np.asarray(column.to_numpy() if column.dtype.kind in "iu" else column.to_numpy(object))


def read_edges(path: str, arguments: Any, draft: Draft, ids: tuple[Ids, Ids]) -> dict[str, Any]:
    """The edges of a table, and their weights. ids: those of the sources and of the destinations, perhaps the same."""
    table = Table(path)
    source = table.find(arguments.source, SOURCES, "--source", True)
    target = table.find(arguments.target, TARGETS, "--target", True)
    expect(source != target, f"column '{source}'", "it as the source and the target", "two columns")
    weight = table.find(arguments.weight, ("weight", "edge_weight"), "--weight")
    columns = [name for name in (source, target, weight) if name is not None]
    if len(columns) < len(table.names):
        note(f"{path}: not used: column {', '.join(name for name in table.names if name not in columns)}")

    def rows() -> Iterator[Array]:
        for frame in table.read(columns, columns[:2]):
            ends = [_plain(frame[key]) for key in columns[:2]]
            if ids[0] is ids[1]:
                both = np.empty((len(frame), 2), np.result_type(*ends))
                both[:, 0], both[:, 1] = ends
                made = ids[0].number(both.ravel()).reshape(-1, 2)
            else:
                made = np.stack([known.number(end) for known, end in zip(ids, ends)], 1)
            weights = [numbers(f"column '{name}'", frame[name].to_numpy(), "<f8", 0) for name in columns[2:]]
            yield np.column_stack([made, *weights])

    found = draft.grow("<u4" if weight is None else "<f8", rows(), (len(columns),))
    return {"edge_index": found[:, :2], "edge_weight": None if weight is None else found[:, 2]}


def _features(column: Any) -> Array | None:
    """Numbers (n, F) of a column of numbers, of lists, or of texts of several numbers (DGL). None: it has others."""
    first = column.iloc[0] if len(column) else 0
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(), np.float64)[:, None]
    if isinstance(first, str) and "," in first and all(map(is_number, first.split(","))):
        return np.array([cell.split(",") for cell in column], np.float64)
    return np.stack(list(column)) if hasattr(first, "dtype") or isinstance(first, list) else None


def read_vertices(path: str, arguments: Any, draft: Draft, ids: Ids) -> dict[str, Any]:
    """The tables of a type of vertices: features, labels and a split. Their ids get numbers."""
    table = Table(path)
    own = str(table.find(arguments.id, IDS, "--id", True))
    label = table.find(arguments.label, ("label", "y"), "--label")
    labels = [name for name in table.names if name == label or name.startswith("label_")]
    masks = [name for name in table.names if name in MASKS]
    split = table.find(None, ("split",), "")
    texts = [name for name in (own, *labels, split) if name is not None]
    rest = [name for name in table.names if name not in (*texts, *masks)]
    targets: list[Array] = []
    sets: list[Array] = []

    def features() -> Iterator[Array]:
        for frame in table.read(table.names, texts):
            before = len(ids.known)
            ids.number(_plain(frame[own]))
            expect(len(ids.known) == before + len(frame), f"column '{own}'", "an id twice", "each id once")
            targets.append(frame[labels].to_numpy(object))
            if split is not None:
                words = frame[split].fillna("").astype(str).str.strip()
                wrong = sorted(set(words) - set(WORDS))
                expect(not wrong, f"column '{split}'", f"'{', '.join(wrong[:1])}'", "train, valid, test or nothing")
                sets.append(words.map(WORDS).to_numpy(object)[:, None] == np.array(list(SETS), object))
            else:
                sets.append(frame[masks].to_numpy(np.float64) != 0)
            parts = {name: _features(frame[name]) for name in rest}
            unused = [name for name, part in parts.items() if part is None]
            expect(not (unused and before), f"column '{', '.join(unused)}'", "text beside numbers", "numbers")
            if unused:
                note(f"{path}: not used, as it has other things than numbers: column {', '.join(unused)}")
                rest[:] = [name for name in rest if name not in unused]
            found = [numbers(f"column '{name}'", part, "<f4") for name, part in parts.items() if part is not None]
            yield np.concatenate([np.empty((len(frame), 0), np.float32), *found], 1)

    x = draft.grow("<f4", features())
    made: dict[str, Any] = {"x": x if x.size else None, "num_nodes": np.array(len(ids.known))}
    if labels and targets:
        cells = np.concatenate(targets)
        made["y"] = cells if len(labels) > 1 else cells[:, 0]
        made["class_names"] = [re.sub("^label_", "", name) for name in labels] if len(labels) > 1 else None
    if sets:
        made.update(zip(masks if split is None else SETS, np.concatenate(sets).T))
    ids.closed = True
    return made


def read_tables(path: str, arguments: Any, draft: Draft) -> Stores:
    """A table of edges, and perhaps one of vertices; or a folder of both."""
    edges, nodes, ids = path, arguments.nodes, Ids()
    if os.path.isdir(path):
        edges = str(find(os.path.join(path, "edges"), ENDINGS))
        nodes = nodes or find(os.path.join(path, "nodes"), ENDINGS)
    vertices = {} if nodes is None else about(nodes, read_vertices, nodes, arguments, draft, ids)
    pairs = about(edges, read_edges, edges, arguments, draft, (ids, ids))
    draft.ids = ids.names()
    return {"": {**vertices, "num_nodes": np.array(len(ids.known))}, PLAIN: pairs}


# ---- arrays and files ----


def of_arrays(arrays: Mapping[str, Any], weight: str | None) -> Stores:
    """The stores of a graph of one type, of named arrays. weight: another name of the edges' weights."""
    edges = {name: array for name, array in arrays.items() if name in OF_EDGES or name == weight}
    return {"": {name: array for name, array in arrays.items() if name not in edges}, PLAIN: edges}


def npz_arrays(path: str, draft: Draft) -> dict[str, Array]:
    """The arrays of a .npz file, unpacked and mapped."""
    folder = draft.spare()
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".npy")])
    names = [os.path.relpath(name, folder)[:-4] for name in sorted(glob.glob(folder + "/**/*.npy", recursive=True))]
    return {name: about(f"array {name}", np.load, os.path.join(folder, name + ".npy"), "r") for name in names}


def read_npz(path: str, arguments: Any, draft: Draft) -> Stores:
    arrays = npz_arrays(path, draft)
    if {"format", "shape"} <= set(arrays):
        return _of_matrix(need("scipy.sparse", "scipy", "python3-scipy").load_npz(path))
    return of_arrays(arrays, arguments.weight)


def _of_matrix(matrix: Any, weighted: bool = True) -> Stores:
    """Entry (i, j) is an edge from i to j, and its value the weight."""
    expect(matrix.shape[0] == matrix.shape[1], "matrix", f"the shape {matrix.shape}", "a square one")
    entries = matrix.tocoo()
    tables = {"edge_index": (entries.row, entries.col), "edge_weight": entries.data if weighted else None}
    return {"": {"num_nodes": np.array(matrix.shape[0])}, PLAIN: tables}


def read_mtx(path: str, arguments: Any, draft: Draft) -> Stores:
    """Entry (i, j) is an edge from i to j, in a symmetric matrix also from j to i, and its value the weight."""
    scipy = need("scipy.io", "scipy", "python3-scipy")
    form, field, symmetry = scipy.mminfo(path)[3:]
    right = form == "coordinate" and field != "complex" and symmetry in ("general", "symmetric")
    expected = "coordinate; pattern, real or integer; general or symmetric"
    expect(right, "matrix", f"{form} {field} {symmetry}", expected)
    return _of_matrix(scipy.mmread(path), field != "pattern")


def read_metis(path: str, arguments: Any, draft: Draft) -> Stores:
    """A line of neighbours for each vertex, numbered from 1. Sizes and weights of vertices are not used."""
    with open_text(path) as file:
        lines = (line for line in file if not line.startswith("%"))
        head: list[str] = next((line.split() for line in lines if line.strip()), [])
        right = 2 <= len(head) <= 4 and all(map(str.isdigit, head))
        expect(right, "header", f"'{' '.join(head)[:40]}'", "'vertices edges [format [constraints]]'")
        n, form = int(head[0]), (head[2] if len(head) > 2 else "0").zfill(3)
        skip = int(form[0]) + (int(head[3]) if len(head) > 3 else 1) * int(form[1])
        step = 1 + int(form[2])
        if skip:
            note(f"{path}: weights and sizes of vertices are not used: every vertex counts as one")
        v = 0

        def rows() -> Iterator[Array]:
            nonlocal v
            for v, line in enumerate(lines, 1):
                words = np.array(line.split(), np.int64)[skip:]
                near = words[::step]
                if v > n and line.strip() or len(words) % step or near.min(initial=1) < 1 or near.max(initial=0) > n:
                    expected = f"neighbours of 1 to {n}{', each with a weight' * (step - 1)}, for {n} vertices"
                    raise ValueError(f"vertex {v}: found '{line.strip()[:40]}', expected {expected}")
                if v % 65536 == 0:
                    show(f"{v} of {n} vertices")
                yield np.column_stack([near - 1, np.full(len(near), v - 1), words[1::2] if step == 2 else near])

        found = draft.grow("<i8", rows(), (3,))
    expected = f"{n}, and {2 * int(head[1])}: each edge from both ends"
    right = len(found) == 2 * int(head[1]) and v >= n - 1
    expect(right, "lines", f"{v} vertices and {len(found)} neighbours", expected)
    weights = found[:, 2] if step == 2 else None
    return {"": {"num_nodes": np.array(n)}, PLAIN: {"edge_index": found[:, :2], "edge_weight": weights}}


def load_torch(path: str) -> Any:
    """What torch.save wrote: tensors, arrays, dictionaries and PyG's data. No code of the file runs."""
    torch = need("torch", "torch")
    if not hasattr(torch.serialization, "safe_globals"):
        raise ImportError(f"needs torch 2.5 or newer, found {torch.__version__}; install it: pip install -U torch")
    allowed: list[Any] = [np.ndarray, np.dtype, *(one.__reduce__()[0] for one in (np.zeros(1), np.float64(1)))]
    allowed += [type(np.dtype(code)) for code in "?bBhHiIlLqQefd"]
    for name in ("data", "hetero_data", "storage") if importlib.util.find_spec("torch_geometric") else ():
        classes = vars(importlib.import_module(f"torch_geometric.data.{name}")).values()
        allowed += [one for one in classes if getattr(one, "__module__", "").startswith("torch_geometric.data.")]
    with torch.serialization.safe_globals(allowed):
        return torch.load(path, map_location="cpu", mmap=zipfile.is_zipfile(path), weights_only=True)


def read_torch(path: str, arguments: Any, draft: Draft) -> Stores:
    try:
        found = load_torch(path)
    except (EOFError, RuntimeError, ValueError, importlib.import_module("pickle").UnpicklingError) as error:
        lacks = "; pip install torch_geometric" if "torch_geometric" in str(error) else ""
        kinds = "tensors, arrays or data of PyG"
        raise ValueError(f"found no {kinds} that can be read without running code{lacks}") from None
    if isinstance(found, (tuple, list)) and found:  # of PyG's InMemoryDataset: data, slices, class
        slices = found[1] if len(found) > 1 and isinstance(found[1], dict) else {}
        several = isinstance(found, list) and len(found) > 1
        several |= any(len(value) > 2 for value in slices.values() if not isinstance(value, dict))
        expect(not several, "data", "several graphs", "one")
        found = found[0]
    if is_pyg(found):
        return of_pyg(found)
    expected = "PyG's data, or a dictionary of tensors"
    expect(isinstance(found, dict), "data", f"a {type(found).__name__}", expected)
    if any(isinstance(key, tuple) for key in found):
        return {key: arrays for key, arrays in found.items() if key != "_global_store"}
    return of_arrays(found, arguments.weight)


def read_dgl(path: str, arguments: Any, draft: Draft) -> Stores:
    graphs, _ = need("dgl", "dgl").load_graphs(path)
    expect(len(graphs) == 1, "data", f"{len(graphs)} graphs", "one")
    stores = of_dgl(graphs[0])
    if "" in stores:
        stores[""]["num_nodes"] = graphs[0].num_nodes()
    return stores


# ---- folders ----


def _csv(path: str, draft: Draft, texts: bool) -> Array:
    """A table without a header, (rows,) or (rows, columns). texts: cells stay as they are."""
    if not texts:
        rows = read_blocks(path, header=None, dtype=np.float64)
        return column(draft.grow("<f8", (frame.to_numpy() for frame in rows)))
    frames = read_blocks(path, header=None, dtype=object, keep_default_na=False, skip_blank_lines=False)
    cells: Array = np.concatenate([frame.to_numpy(object) for frame in frames])
    while len(cells) and not "".join(map(str, cells[-1])).strip():
        cells = cells[:-1]
    return column(cells)


def table(folder: str, name: str, draft: Draft, texts: bool = False) -> Any:
    """The table NAME of a folder: .csv.gz, .csv, .npy, .npz or .pt. None: there is none."""
    path = find(os.path.join(folder, name), (".csv.gz", ".csv", ".npy", ".npz", ".pt"))
    if path is None:
        return None
    if path.endswith(".npz"):
        arrays = list(about(path, npz_arrays, path, draft).values())
        expect(len(arrays) == 1, path, f"{len(arrays)} arrays", "one")
        return arrays[0]
    if path.endswith((".csv.gz", ".csv")):
        return about(path, _csv, path, draft, texts) if os.path.getsize(path) else np.empty((0, 2), np.int64)
    return about(path, np.load, path, "r") if path.endswith(".npy") else about(path, load_torch, path)


def _yaml(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        found = about(path, need("yaml", "pyyaml", "python3-yaml").safe_load, file)
    expect(isinstance(found, dict), path, "no dictionary", "one of graph or edge_data")
    return found


def _triple(name: Any) -> tuple[str, str, str]:
    """GraphBolt's "a:r:b" or DGL's [a, r, b]. None: the only relation."""
    parts = PLAIN if name is None else tuple(name.split(":") if isinstance(name, str) else name)
    expect(len(parts) == 3, "relation", str(name), "a source type, a name and a destination type")
    return parts[0], parts[1], parts[2]


def read_dgl_csv(folder: str, arguments: Any, draft: Draft) -> Stores:
    """DGL's CSVDataset: meta.yaml names tables of vertices and of edges."""
    meta, ids = _yaml(os.path.join(folder, "meta.yaml")), dict[str, Ids]()
    stores: Stores = {}
    for part in meta.get("node_data", []):
        path, key = os.path.join(folder, part["file_name"]), part.get("ntype") or ""
        ids[key] = Ids()
        stores[key] = about(path, read_vertices, path, arguments, draft, ids[key])
    for part in meta.get("edge_data", []):
        path, triple = os.path.join(folder, part["file_name"]), _triple(part.get("etype"))
        ends = (ids.setdefault(triple[0], Ids()), ids.setdefault(triple[2], Ids()))
        stores[triple] = about(path, read_edges, path, arguments, draft, ends)
    for key, known in ids.items():
        stores.setdefault(key, {})["num_nodes"] = np.array(len(known.known))
    return stores


def read_graphbolt(folder: str, arguments: Any, draft: Draft) -> Stores:
    """GraphBolt's OnDiskDataset: metadata.yaml names arrays of edges, features and sets."""
    meta = _yaml(os.path.join(folder, "metadata.yaml"))
    stores: Stores = {}

    def load(part: Mapping[str, Any]) -> Any:
        return table(folder, part["path"].rsplit(".", 1)[0], draft)

    for node in meta["graph"]["nodes"]:
        stores[node.get("type") or ""] = {"num_nodes": np.array(node["num"])}
    for part in meta.get("feature_data") or []:
        if part["domain"] == "node" and part["name"] in X:
            stores[part.get("type") or ""]["x"] = load(part)
        else:
            note(f"{folder}: not used: {part['domain']} {part.get('type') or ''} {part['name']}")
    for name, list_ in (("train", "train_set"), ("valid", "validation_set"), ("test", "test_set")):
        for part in (meta.get("tasks") or [{}])[0].get(list_) or []:
            store, arrays = stores[part.get("type") or ""], {data["name"]: load(data) for data in part["data"]}
            seeds = store[name] = take(arrays, ("seeds", "seed_nodes", "node_pairs"))
            if seeds is None or seeds.ndim > 1:
                raise ValueError(f"{list_}: found no seeds that are vertices, expected seeds and labels")
            if "labels" in arrays:
                n, labels = int(store["num_nodes"]), arrays["labels"].ravel()
                unknown = np.full(n, np.nan) if labels.dtype.kind == "f" else np.full(n, -1)
                store.setdefault("y", unknown)[ids32(seeds, list_, n)] = labels
    for part in meta["graph"]["edges"]:
        stores[_triple(part.get("type"))] = {"edge_index": load(part)}
    return stores


def read_igb(folder: str, arguments: Any, draft: Draft) -> Stores:
    """IGB: processed/TYPE/node_feat.npy, processed/A__r__B/edge_index.npy. The split is that of its loader."""
    root = os.path.join(folder, "processed")
    stores: Stores = {}
    places = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    plain = [name for name in places if "__" in name] == ["paper__cites__paper"]
    for name in places:
        place, parts = os.path.join(root, name), name.split("__")
        if len(parts) == 3:
            stores[PLAIN if plain else tuple(parts)] = {"edge_index": table(place, "edge_index", draft)}
        elif not plain or name == "paper":
            usual = (arguments.label or "node_label_19", "node_label_2K", "node_label")
            y = next((y for y in (table(place, label, draft) for label in usual) if y is not None), None)
            store = stores["" if plain else name] = {"x": table(place, "node_feat", draft), "y": y}
            if y is not None:
                ends = [0, int(len(y) * 0.6), int(len(y) * 0.6) + int(len(y) * 0.2), len(y)]
                store["splits"] = {"igb": {set_: np.arange(*ends[i : i + 2]) for i, set_ in enumerate(SETS)}}
    return stores


def read_ogb(folder: str, arguments: Any, draft: Draft) -> Stores:
    """OGB's raw layout, plain or typed, with data.npz and split_dict.pt."""
    typed = table(folder, "raw/triplet-type-list", draft, True)
    if typed is not None:
        counts = np.atleast_2d(table(folder, "raw/num-node-dict", draft, True)).reshape(2, -1).T
        stores: Stores = {key: {"num_nodes": np.array(int(n))} for key, n in counts}
        stems = {tuple(triple): f"raw/relations/{'___'.join(triple)}/edge" for triple in typed}
    else:
        path = os.path.join(folder, "raw", "data.npz")
        stores = of_arrays(npz_arrays(path, draft) if os.path.exists(path) else {}, arguments.weight)
        stems = {PLAIN: "raw/edge"}
        stores[""].setdefault("num_nodes", table(folder, "raw/num-node-list", draft))
    for triple, stem in stems.items():
        store = stores.setdefault(triple, {})
        store.setdefault("edge", table(folder, stem, draft))
        store.setdefault("weight", table(folder, stem + "-weight", draft))
    for key in [key for key in stores if isinstance(key, str)]:
        for name, stem in (("x", "node-feat"), ("y", "node-label")):
            place = f"raw/{stem}/{key}/{stem}" if key else f"raw/{stem}"
            stores[key].setdefault(name, table(folder, place, draft, name == "y"))
    _find_splits(folder, stores, arguments, draft)
    return stores


# The parts of a set of links, and what follows the set in the names of their files.
_LINK_PARTS = {"edge": "", "edge_neg": "_neg"}
_LINK_PARTS.update(head_neg="_head_neg", tail_neg="_tail_neg", target_node_neg="_tail_neg")


def _find_splits(folder: str, stores: Stores, arguments: Any, draft: Draft) -> None:
    """The lists of split/NAME or split/NAME/TYPE, or of OGB's split_dict.pt: of vertices, or of links (saved)."""
    for place, _, files in os.walk(os.path.join(folder, "split")):
        split, _, key = os.path.relpath(place, os.path.join(folder, "split")).partition(os.sep)
        if not files or arguments.split not in (None, split):
            continue
        lists = {name: table(place, name, draft) for name in sorted({file.split(".")[0] for file in files})}
        lists = {**lists.pop("split_dict", {}), **lists}
        if all(not isinstance(lists.get(name), dict) and any_array(lists.get(name)).ndim < 2 for name in SETS):
            sets = {name: any_array(lists[name]) for name in SETS if name in lists}
            stores[key].setdefault("splits", {})[split] = sets
            continue
        for name, links in lists.items():
            parts = links if isinstance(links, dict) else {"edge": links}
            for ends in (("head", "relation", "tail"), ("source_node", "target_node")):
                if ends[0] in parts:
                    parts = {**parts, "edge": np.stack([any_array(parts[end]) for end in ends], 1)}
            for part, ending in _LINK_PARTS.items():
                if part in parts:
                    draft.links(f"split/{split}/{name}{ending}", any_array(parts[part]))


Reader = Callable[[str, Any, Draft], Stores]
# The forms of files by their endings.
FILES: dict[tuple[str, ...], Reader] = {
    (".npz",): read_npz,
    (".mtx", ".mtx.gz"): read_mtx,
    (".graph", ".graph.gz", ".metis"): read_metis,
    (".pt", ".pth"): read_torch,
    (".bin",): read_dgl,
    ENDINGS: read_tables,
}
# The forms of folders by a name in them.
FOLDERS: dict[str, Reader] = {
    **{"edges" + ending: read_tables for ending in ENDINGS},
    "metadata.yaml": read_graphbolt,
    "meta.yaml": read_dgl_csv,
    "processed": read_igb,
    "raw": read_ogb,
}
# The forms that list both directions of an undirected graph, as is said.
TWICE = (read_torch, read_dgl, read_graphbolt, read_dgl_csv, read_igb)
# What other files are.
OTHERS = {
    (".zip", ".tar", ".tar.gz", ".tgz"): "an archive; unpack it and convert what is in it",
    (".h5", ".hdf5"): "an HDF5 file; h5py.File it, then numpy.savez('FILE.npz', edge_index=.., x=.., y=..)",
    (".pkl", ".pickle"): "a pickle, which runs code; load it, then numpy.savez('FILE.npz', edge_index=.., x=.., y=..)",
    (".feather",): "a Feather file; pandas.read_feather it, then to_parquet it",
    (".npy",): "a single array; move it into a folder as DIR/raw/edge.npy or DIR/raw/node-feat.npy",
    (".safetensors", ".slc"): "a file that training reads as it is",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        help="a file or folder: CSV, TSV, Parquet, SNAP, Matrix Market, METIS, .npz, .pt of PyG, "
        ".bin or meta.yaml of DGL, metadata.yaml of GraphBolt, IGB, OGB with .npz or split_dict.pt",
    )
    parser.add_argument("--out", required=True, help="a new folder, or FILE.safetensors")
    parser.add_argument("--nodes", help="table of the vertices; default: FOLDER/nodes.csv or .parquet beside edges")
    for name, help_ in (
        ("source", "column of the edges' sources"),
        ("target", "column of the edges' destinations"),
        ("weight", "column or array of the edges' weights"),
        ("id", "column of the vertices' ids"),
        ("label", "column or array of the vertices' labels"),
        ("split", "the split to take, of several"),
    ):
        parser.add_argument(f"--{name}", metavar="NAME", help=help_)


def _reader(path: str, arguments: Any) -> Reader:
    """The reader of a file by its ending, of a folder by a name in it."""
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        for name, read in FOLDERS.items():
            if name in names:
                return read
        expected = ", ".join(name for name in FOLDERS if not name.startswith("edges"))
        found = ", ".join(names[:10]) or "nothing"
        raise ValueError(f"found {found}; expected a folder of {expected}, or a table edges.csv or .parquet")
    lower = path.lower()
    for endings, read in FILES.items():
        if lower.endswith(endings):
            for name in ("source", "target", "id", "nodes"):
                value = getattr(arguments, name)
                expect(value is None or read is read_tables, f"--{name}", f"'{value}'", "it with a table alone")
            return read
    ending = os.path.splitext(path)[1]
    *names, last = (name for known in FILES for name in known)
    what = (f"the ending '{ending}'" if ending else "no ending") + ", expected a folder, or a file that ends in "
    what += f"{', '.join(names)} or {last}"
    raise ValueError(f"found {next((of for others, of in OTHERS.items() if lower.endswith(others)), what)}")


def run(arguments: argparse.Namespace) -> int:
    path, out = arguments.file, arguments.out.rstrip("/")
    os.stat(path)
    right = out and os.path.isdir(os.path.dirname(os.path.abspath(out)))
    expect(right, "--out", f"'{out}'", "a new name in a folder that is there")
    if os.path.lexists(out):
        raise ValueError(f"{out}: is there already; remove it, or choose another --out")
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    draft = Draft(out)
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, stop)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries about what is refused below
            read = about(path, _reader, path, arguments)
            about(path, draft.put, about(path, read, path, arguments, draft), arguments)
            if stopped:  # which a library has caught
                raise KeyboardInterrupt
            about(path, draft.finish)
    except Exception:
        if stopped:  # pandas tells of an interrupted read as of a broken file
            raise KeyboardInterrupt from None
        raise
    finally:
        draft.discard()
    n, directed = draft.n.get("", sum(draft.n.values())), " --directed" if read in TWICE else ""
    print(f"{out}: {n} vertices; train on it: coop_sage --dataset {out}{directed}")
    return 0
