# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Tables of edges and vertices with ids of any kind, in CSV, TSV, text and Parquet files, read in blocks by pandas."""

from __future__ import annotations

import gzip
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ._draft import SETS, Draft, about, is_number, note, numbers, show
from ._numpy import Array, np
from ._sources import PLAIN, Stores
from ._tools import expect, need

ROWS = 1 << 19  # of a block
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")
SOURCES = ("src", "src_id", "source", "from", "FromNodeId", "START_ID")
TARGETS = ("dst", "dst_id", "target", "to", "ToNodeId", "END_ID")
IDS = ("id", "node_id", "ID")
MASKS = ("train_mask", "val_mask", "valid_mask", "test_mask")
WORDS = {"": "", "none": "", "train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


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
        made: Array = new[codes]
        return made

    def names(self) -> list[str] | None:
        """The ids by number. None: the ids are the numbers."""
        return None if all(name == str(i) for i, name in enumerate(self.known)) else list(self.known)


def _plain(column: Any) -> Array:
    made: Array = column.to_numpy() if column.dtype.kind in "iu" else column.to_numpy(object)
    return made


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
