# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Files and folders of other programs. Each reader fills a Draft."""

from __future__ import annotations

import glob
import importlib
import itertools
import os
import zipfile
from collections.abc import Mapping
from typing import Any

from ._arrays import any_array, ids32, is_sparse
from ._columns import Ids, open_text, pandas, read_blocks, read_edges, read_vertices, targets_of
from ._draft import Draft, Refused, about, blocks, note, numbers, show
from ._numpy import Array, np
from ._sources import PLAIN, WEIGHTS, Stores, is_pyg, of_dgl, of_pyg, split
from ._tools import need

# The names of the tables among arrays: PyG's, DGL's, OGB's.
X = ("x", "node_feat", "feat", "feature", "features")
Y = ("y", "node_label", "label", "labels")
SETS = {
    "train": ("train_mask", "train", "train_idx"),
    "valid": ("val_mask", "valid_mask", "valid", "val", "valid_idx", "val_idx"),
    "test": ("test_mask", "test", "test_idx"),
}


def _take(arrays: Mapping[str, Any], names: tuple[str, ...], wanted: str | None = None) -> Any:
    """The array `wanted`, or the one of a table's names. None: there is none."""
    known = (wanted,) if wanted is not None and wanted in arrays else names
    found = [name for name in known if arrays.get(name) is not None]
    if len(found) > 1:
        raise Refused(f"the table is there twice, as arrays {found[0]} and {found[1]}; expected one of them")
    return arrays[found[0]] if found else None


OF_VERTICES = {*X, *Y, *(name for names in SETS.values() for name in names), *(f"{name}_scale" for name in X)}
OF_VERTICES |= {"class_names", "num_nodes", "num_nodes_list"}
OF_EDGES = {"edge", "edge_index", "num_edges_list", *WEIGHTS}


def _tell_unused(arrays: Mapping[str, Any], used: set[str], key: Any = "") -> None:
    """Say which arrays are not used, such as features of edges."""
    unused = [name for name, array in arrays.items() if name not in used and name[0] != "_" and array is not None]
    if unused:
        note(f"not used: {', '.join(unused)}" + (f" of {key}" if key else ""))


def _put_vertices(draft: Draft, arrays: Mapping[str, Any], arguments: Any, key: str = "") -> None:
    count = _take(arrays, ("num_nodes", "num_nodes_list"))
    scale = next((arrays[f"{name}_scale"] for name in X if name in arrays and f"{name}_scale" in arrays), None)
    x, y, names = _take(arrays, X), _take(arrays, Y, arguments.label), arrays.get("class_names")
    if x is not None and not isinstance(x, np.ndarray):
        x = x.tocsr() if is_sparse(x) else x.to_dense() if getattr(x, "layout", 0) != getattr(x, "strided", 1) else x
    if isinstance(y, np.ndarray) and y.dtype.kind in "OUS":
        y, names = targets_of(np.char.decode(y) if y.dtype.kind == "S" else y)
    elif names is not None:
        text = any_array(names)
        names = bytes(text).decode().splitlines() if text.dtype.kind == "u" else list(map(str, text))
    if names is not None:
        draft.names[key] = names
    n = 0 if count is None else int(any_array(count).ravel()[0])
    draft.vertices(key, n, x, y, 1 if scale is None else float(any_array(scale).ravel()[0]))


def put_stores(draft: Draft, stores: Stores, arguments: Any) -> None:
    """A graph of named arrays by type and by triple: PyG's or DGL's, or of OGB's data.npz."""
    vertices, edges = split(stores)
    for key, arrays in vertices.items():
        of_edges = OF_EDGES | {arguments.weight} if arrays is edges.get(PLAIN) else set[str]()
        _tell_unused(arrays, OF_VERTICES | {arguments.label} | of_edges, key)
        _put_vertices(draft, arrays, arguments, key)
    for triple, arrays in edges.items():
        index = _take(arrays, ("edge_index", "edge"))
        if index is None:
            found = ", ".join(str(name) for name in arrays if arrays[name] is not None) or "nothing"
            of = "" if triple == PLAIN else f" of {triple}"
            raise Refused(f"found {found}{of}; expected arrays edge_index, x, y, ..")
        if arrays is not vertices.get(""):
            _tell_unused(arrays, OF_EDGES | {arguments.weight}, "" if triple == PLAIN else triple)
        index = np.stack([any_array(end) for end in index]) if isinstance(index, tuple) else index
        draft.edges(index, _take(arrays, WEIGHTS, arguments.weight), triple)
    for key, arrays in vertices.items():
        draft.n[key] = draft.n[key] or draft.most.get(key, 0)
        draft.sets({name: _take(arrays, known) for name, known in SETS.items()}, key=key)


def put_arrays(draft: Draft, arrays: dict[str, Any], arguments: Any) -> None:
    """A graph of one type, of named arrays."""
    put_stores(draft, {"": arrays, PLAIN: arrays}, arguments)


# ---- files ----


def load_npy(path: str, name: str = "") -> Array:
    made: Array = about(name or path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    return made


def npz_arrays(path: str, draft: Draft) -> dict[str, Array]:
    """The arrays of a .npz file, unpacked and mapped."""
    folder = os.path.join(draft.scratch, str(len(os.listdir(draft.scratch))))
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".npy")])
    names = [os.path.relpath(name, folder)[:-4] for name in sorted(glob.glob(folder + "/**/*.npy", recursive=True))]
    return {name: load_npy(os.path.join(folder, name + ".npy"), f"array {name}") for name in names}


def read_npz(path: str, arguments: Any, draft: Draft) -> None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if {"format.npy", "shape.npy"} <= set(names):
        return _put_matrix(draft, need("scipy.sparse", "scipy", "python3-scipy").load_npz(path))
    return put_arrays(draft, npz_arrays(path, draft), arguments)


def _put_matrix(draft: Draft, matrix: Any) -> None:
    """Entry (i, j) is an edge from i to j, and its value the weight."""
    if matrix.shape[0] != matrix.shape[1]:
        raise Refused(f"found the shape {matrix.shape}, expected a square matrix")
    entries = matrix.tocoo()
    draft.vertices(n=matrix.shape[0])
    draft.edges(np.stack([entries.row, entries.col], 1), entries.data)


def read_mtx(path: str, arguments: Any, draft: Draft) -> None:
    """Entry (i, j) is an edge from i to j, in a symmetric matrix also from j to i, and its value the weight."""
    n, n_columns, n_entries, *kind = need("scipy.io", "scipy", "python3-scipy").mminfo(path)
    if kind[0] != "coordinate" or kind[1] == "complex" or kind[2] not in ("general", "symmetric"):
        expected = "coordinate; pattern, real or integer; general or symmetric"
        raise Refused(f"found a matrix {' '.join(kind)}, expected {expected}")
    if n != n_columns:
        raise Refused(f"found the shape {(n, n_columns)}, expected a square matrix")
    draft.vertices(n=n)
    pairs = draft.table(draft.edge_name(PLAIN), "<u4")
    weights = None if kind[1] == "pattern" else draft.table("raw/edge-weight", "<f4")
    found = 0
    for frame in read_blocks(path, sep=r"\s+", comment="%", header=0, names=["row", "column", "value"]):
        found += len(frame)
        if kind[2] == "symmetric":
            mirrored = frame[frame.row != frame.column].rename(columns={"row": "column", "column": "row"})
            frame = pandas().concat([frame, mirrored])
        ends = numbers("entries", frame[["row", "column"]].to_numpy(), np.float64)
        pairs.add(draft.pairs(PLAIN, ends - 1))
        if weights is not None:
            weights.add(numbers("edge weights", frame.value.to_numpy(), "<f4", 0))
    if found != n_entries:
        raise Refused(f"found {found} entries, expected {n_entries}, as the header says")


def read_metis(path: str, arguments: Any, draft: Draft) -> None:
    """A line of neighbours for each vertex, numbered from 1. Sizes and weights of vertices are not used."""
    with open_text(path) as file:
        lines = (line for line in file if not line.startswith("%"))
        head: list[str] = next((line.split() for line in lines if line.strip()), [])
        if not 2 <= len(head) <= 4 or not all(map(str.isdigit, head)):
            raise Refused(f"found '{' '.join(head)[:40]}', expected 'vertices edges [format [constraints]]'")
        n, form = int(head[0]), (head[2] if len(head) > 2 else "0").zfill(3)
        skip = int(form[0]) + (int(head[3]) if len(head) > 3 else 1) * int(form[1])
        step = 1 + int(form[2])
        if skip:
            note(f"{path}: weights and sizes of vertices are not used: every vertex counts as one")
        pairs, weights = draft.table(draft.edge_name(PLAIN), "<u4"), draft.table("raw/edge-weight", "<f4")
        v = 0
        for line in lines:
            words = np.array(line.split(), np.int64)[skip:]
            near = words[::step]
            if v >= n and line.strip() or len(words) % step or near.min(initial=1) < 1 or near.max(initial=0) > n:
                expected = f"neighbours of 1 to {n}{', each with a weight' * (step - 1)}, for {n} vertices"
                raise Refused(f"vertex {v + 1}: found '{line.strip()[:40]}', expected {expected}")
            pairs.add(draft.pairs(PLAIN, np.stack([near - 1, np.full(len(near), v)], 1)))
            weights.add(numbers("edge weights", words[1::2] if step == 2 else words[:0], "<f4", 0))
            v += 1
            if v % 65536 == 0:
                show(f"{v} of {n} vertices")
    if pairs.n != 2 * int(head[1]) or v < n - 1:
        expected = f"{n}, and {2 * int(head[1])}: each edge from both ends"
        raise Refused(f"found {v} vertices and {pairs.n} neighbours, expected {expected}")
    draft.vertices(n=n)
    if step == 1:
        os.unlink(weights.file.name)


def load_torch(path: str) -> Any:
    """What torch.save wrote: tensors, arrays, dictionaries and PyG's data. No code of the file runs."""
    torch = need("torch", "torch")
    core = getattr(np, "_core", None) or np.core
    allowed: list[Any] = [core.multiarray._reconstruct, core.multiarray.scalar, np.ndarray, np.dtype]
    allowed += [type(np.dtype(code)) for code in "?bBhHiIlLqQefd"]
    for name in ("data", "hetero_data", "storage") if importlib.util.find_spec("torch_geometric") else ():
        classes = vars(importlib.import_module(f"torch_geometric.data.{name}")).values()
        allowed += [one for one in classes if getattr(one, "__module__", "").startswith("torch_geometric.data.")]
    with torch.serialization.safe_globals(allowed):
        return torch.load(path, map_location="cpu", mmap=zipfile.is_zipfile(path), weights_only=True)


def read_torch(path: str, arguments: Any, draft: Draft) -> None:
    try:
        found = load_torch(path)
    except (EOFError, RuntimeError, ValueError, importlib.import_module("pickle").UnpicklingError) as error:
        lacks = "; pip install torch_geometric" if "torch_geometric" in str(error) else ""
        raise Refused(f"found no tensors, arrays or data of PyG that can be read without running code{lacks}") from None
    if isinstance(found, (tuple, list)) and found:  # of PyG's InMemoryDataset: data, slices, class
        slices = found[1] if len(found) > 1 and isinstance(found[1], dict) else {}
        several = isinstance(found, list) and len(found) > 1
        if several or any(len(value) > 2 for value in slices.values() if not isinstance(value, dict)):
            raise Refused("found several graphs, expected one")
        found = found[0]
    draft.directed = True
    if is_pyg(found):
        put_stores(draft, of_pyg(found), arguments)
    elif not isinstance(found, dict):
        raise Refused(f"found a {type(found).__name__}, expected PyG's data, or a dictionary of tensors")
    elif any(isinstance(key, tuple) for key in found):
        put_stores(draft, {key: arrays for key, arrays in found.items() if key != "_global_store"}, arguments)
    else:
        put_arrays(draft, found, arguments)


def read_dgl(path: str, arguments: Any, draft: Draft) -> None:
    graphs, _ = need("dgl", "dgl").load_graphs(path)
    if len(graphs) != 1:
        raise Refused(f"found {len(graphs)} graphs, expected one")
    draft.directed = True
    stores = of_dgl(graphs[0])
    if "" in stores:
        stores[""]["num_nodes"] = graphs[0].num_nodes()
    put_stores(draft, stores, arguments)


# ---- folders ----


def _csv(path: str, draft: Draft, texts: bool) -> Array:
    """A table without a header, (rows,) or (rows, columns). texts: cells stay as they are."""
    options: dict[str, Any] = {"dtype": object, "keep_default_na": False, "skip_blank_lines": False} if texts else {}
    frames = read_blocks(path, header=None, **options)
    if texts:
        cells: Array = np.concatenate([frame.to_numpy(object) for frame in frames])
        while len(cells) and not "".join(map(str, cells[-1])).strip():
            cells = cells[:-1]
        return cells[:, 0] if cells.shape[1] == 1 else cells
    name = os.path.join(draft.scratch, str(len(os.listdir(draft.scratch))))
    parts = (frame.to_numpy() for frame in frames)
    first = next(parts)
    draft.put(
        name, first.dtype, (part[:, 0] if part.shape[1] == 1 else part for part in itertools.chain([first], parts))
    )
    return load_npy(name + ".npy")


def find(stem: str, endings: tuple[str, ...]) -> str | None:
    """The file of a name with one of the endings; None: there is none."""
    found = [stem + ending for ending in endings if os.path.exists(stem + ending)]
    if len(found) > 1:
        raise Refused(f"{found[0]}: the table is there twice, also as {found[1]}; expected one of them")
    return found[0] if found else None


def table(folder: str, name: str, draft: Draft, texts: bool = False) -> Any:
    """The table NAME of a folder: .csv.gz, .csv, .npy, .npz or .pt. None: there is none."""
    path = find(os.path.join(folder, name), (".csv.gz", ".csv", ".npy", ".npz", ".pt"))
    if path is None:
        return None
    if path.endswith(".npz"):
        arrays = list(about(path, npz_arrays, path, draft).values())
        if len(arrays) != 1:
            raise Refused(f"{path}: found {len(arrays)} arrays, expected one")
        return arrays[0]
    if path.endswith((".csv.gz", ".csv")):
        return about(path, _csv, path, draft, texts) if os.path.getsize(path) else np.empty((0, 2), np.int64)
    return load_npy(path) if path.endswith(".npy") else about(path, load_torch, path)


def _yaml(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        found = about(path, need("yaml", "pyyaml", "python3-yaml").safe_load, file)
    if not isinstance(found, dict):
        raise Refused(f"{path}: found no dictionary, expected one of graph or edge_data")
    return found


def _triple(name: Any) -> tuple[str, str, str]:
    """GraphBolt's "a:r:b" or DGL's [a, r, b]. None: the only relation."""
    parts = PLAIN if name is None else tuple(name.split(":") if isinstance(name, str) else name)
    if len(parts) != 3:
        raise Refused(f"found the relation {name}, expected a source type, a name and a destination type")
    return parts[0], parts[1], parts[2]


def read_dgl_csv(folder: str, arguments: Any, draft: Draft) -> None:
    """DGL's CSVDataset: meta.yaml names tables of vertices and of edges."""
    draft.directed = True
    meta, tables = _yaml(os.path.join(folder, "meta.yaml")), dict[str, Ids]()
    for part in meta.get("node_data", []):
        path, key = os.path.join(folder, part["file_name"]), part.get("ntype") or ""
        tables[key] = Ids()
        about(path, read_vertices, path, arguments, draft, tables[key], key)
    for part in meta.get("edge_data", []):
        path, triple = os.path.join(folder, part["file_name"]), _triple(part.get("etype"))
        ends = (tables.setdefault(triple[0], Ids()), tables.setdefault(triple[2], Ids()))
        about(path, read_edges, path, arguments, draft, ends, triple)
    for key, known in tables.items():
        draft.n[key] = len(known.known)


def read_graphbolt(folder: str, arguments: Any, draft: Draft) -> None:
    """GraphBolt's OnDiskDataset: metadata.yaml names arrays of edges, features and sets."""
    draft.directed = True
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
            seeds = store[name] = _take(arrays, ("seeds", "seed_nodes", "node_pairs"))
            if seeds is None or seeds.ndim > 1:
                raise Refused(f"{list_}: found no seeds that are vertices, expected seeds and labels")
            if "labels" in arrays:
                n, labels = int(store["num_nodes"]), arrays["labels"].ravel()
                unknown = np.full(n, np.nan) if labels.dtype.kind == "f" else np.full(n, -1)
                store.setdefault("y", unknown)[ids32(seeds, list_, n)] = labels
    for part in meta["graph"]["edges"]:
        stores[_triple(part.get("type"))] = {"edge_index": load(part)}
    put_stores(draft, stores, arguments)


def read_igb(folder: str, arguments: Any, draft: Draft) -> None:
    """IGB: processed/TYPE/node_feat.npy, processed/A__r__B/edge_index.npy. The split is that of its loader."""
    draft.directed = True
    root = os.path.join(folder, "processed")
    places = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    plain = [name for name in places if "__" in name] == ["paper__cites__paper"]
    for name in places:
        place, parts = os.path.join(root, name), name.split("__")
        if len(parts) == 3:
            draft.edges(table(place, "edge_index", draft), None, PLAIN if plain else (parts[0], parts[1], parts[2]))
        elif not plain or name == "paper":
            key = "" if plain else name
            usual = (arguments.label or "node_label_19", "node_label_2K", "node_label")
            y = next((y for y in (table(place, label, draft) for label in usual) if y is not None), None)
            draft.vertices(key, x=table(place, "node_feat", draft), y=y)
            ends = [0, int(draft.n[key] * 0.6), int(draft.n[key] * 0.6) + int(draft.n[key] * 0.2), draft.n[key]]
            sets = {set_: np.arange(*ends[i : i + 2]) for i, set_ in enumerate(SETS)}
            draft.sets(sets if y is not None else {}, "igb", key)


def read_ogb(folder: str, arguments: Any, draft: Draft) -> None:
    """OGB's raw layout, plain or typed, with data.npz and split_dict.pt."""
    typed = table(folder, "raw/triplet-type-list", draft, True)
    stores: Stores = {}
    if typed is not None:
        for key, n in np.atleast_2d(table(folder, "raw/num-node-dict", draft, True)).reshape(2, -1).T:
            stores[key] = {"num_nodes": np.array(int(n))}
        for triple in typed:
            stem = f"raw/relations/{'___'.join(triple)}/edge"
            stores[tuple(triple)] = {
                "edge": table(folder, stem, draft),
                "weight": table(folder, stem + "-weight", draft),
            }
    else:
        path = os.path.join(folder, "raw", "data.npz")
        arrays = npz_arrays(path, draft) if os.path.exists(path) else {}
        for name, stem in (("num_nodes", "num-node-list"), ("edge", "edge"), ("weight", "edge-weight")):
            found = table(folder, f"raw/{stem}", draft)
            if found is not None:
                arrays[name] = found
        if not {"edge", "edge_index"} & set(arrays):
            raise Refused("no dataset: expected a file raw/edge.csv.gz, raw/edge.npy or raw/data.npz")
        stores = {"": arrays, PLAIN: arrays}
    for key, arrays in split(stores)[0].items():
        for name, stem in (("x", "node-feat"), ("y", "node-label")):
            found = table(folder, f"raw/{stem}/{key}/{stem}" if key else f"raw/{stem}", draft, name == "y")
            if found is not None:
                arrays[name] = found
    put_stores(draft, stores, arguments)
    _put_ogb_splits(folder, arguments, draft)


def _put_ogb_splits(folder: str, arguments: Any, draft: Draft) -> None:
    """The lists of split/NAME or split/NAME/TYPE, or of OGB's split_dict.pt: vertices or links."""
    for place, _, files in os.walk(os.path.join(folder, "split")):
        split, _, key = os.path.relpath(place, os.path.join(folder, "split")).partition(os.sep)
        if not files or arguments.split not in (None, split):
            continue
        lists = {name: table(place, name, draft) for name in sorted({file.split(".")[0] for file in files})}
        lists = {**lists.pop("split_dict", {}), **lists}
        if all(not isinstance(lists.get(name), dict) and any_array(lists.get(name)).ndim < 2 for name in SETS):
            draft.sets({name: any_array(lists[name]) for name in SETS if name in lists}, split, key)
            continue
        for name, links in lists.items():
            parts = links if isinstance(links, dict) else {"edge": links}
            if "head" in parts:
                parts = {"edge": np.stack([any_array(parts[end]) for end in ("head", "relation", "tail")], 1)}
            for part, ending in (("edge", ""), ("edge_neg", "_neg")):
                if part in parts:
                    draft.put(f"split/{split}/{name}{ending}", "<i8", blocks(any_array(parts[part])))
