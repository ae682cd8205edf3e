# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Tables of edges and vertices with ids of any kind, in CSV, TSV, text and Parquet files, read in blocks by pandas."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ._arrays import named
from ._draft import Draft, Refused, about, note, numbers, show
from ._numpy import Array, np
from ._sources import PLAIN
from ._tools import need

ROWS = 1 << 19  # of a block
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")
SOURCES = ("src", "src_id", "source", "from", "FromNodeId", "START_ID")
TARGETS = ("dst", "dst_id", "target", "to", "ToNodeId", "END_ID")
IDS = ("id", "node_id", "ID")
MASKS = {"train_mask": "train", "val_mask": "valid", "valid_mask": "valid", "test_mask": "test"}
WORDS = {"": "", "none": "", "train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


def pandas() -> Any:
    return need("pandas", "pandas", "python3-pandas")


def open_text(path: str) -> Any:
    return (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="")


def read_blocks(path: str, **options: Any) -> Iterator[Any]:
    """Blocks of a text file as DataFrames of pandas. A row that is too long is refused."""
    warnings.filterwarnings("error", category=pandas().errors.ParserWarning)
    usual: dict[str, Any] = {"chunksize": ROWS, "encoding": "utf-8-sig", "index_col": False}
    if "dtype" not in options:
        usual["float_precision"] = "round_trip"
    done = 0
    for frame in pandas().read_csv(path, **usual, **options):
        done += len(frame)
        show(f"{os.path.basename(path)}: {done} rows")
        yield frame


def is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(text) == 0 or True
    return False


def _cells(line: str) -> tuple[str, list[str]]:
    """The separator of a line, the first of tab, comma, semicolon and blank that it has, and the cells."""
    separator = next((c for c in "\t,; " if c in line), ",")
    cells = line.split() if separator == " " else line.split(separator)
    return separator, [cell.strip().strip('"') for cell in cells]


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
            if not name or name.startswith(("Unnamed: ", "__index_level_")) or name in self.names[: i - 1]:
                advice = "leave out the row number of pandas: to_csv(.., index=False)"
                raise Refused(f"column {i}: found '{name}', expected a name of its own; {advice}")

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
            raise Refused(f"found the columns {', '.join(self.names[:20])}; name one of them by {option}")
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
        if codes.min(initial=0) < 0 or "" in texts:
            raise Refused("found an empty cell, expected an id in each row")
        wrong = next((text for text in texts if "\n" in text or (self.closed and text not in self.known)), None)
        if wrong is not None:
            expected = "an id of the vertices" if self.closed else "one line"
            raise Refused(f"found id {wrong[:40]!r}, expected {expected}")
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


def read_edges(
    path: str, arguments: Any, draft: Draft, ids: tuple[Ids, Ids], triple: tuple[str, str, str] = PLAIN
) -> None:
    """The edges of a table. ids: those of the sources and of the destinations, perhaps the same."""
    table = Table(path)
    source = table.find(arguments.source, SOURCES, "--source", True)
    target = table.find(arguments.target, TARGETS, "--target", True)
    if source == target:
        raise Refused(f"column '{source}': found it as the source and the target, expected two columns")
    weight = table.find(arguments.weight, ("weight", "edge_weight"), "--weight")
    columns = [name for name in (source, target, weight) if name is not None]
    if len(columns) < len(table.names):
        note(f"{path}: not used: column {', '.join(name for name in table.names if name not in columns)}")
    name = draft.edge_name(triple)
    pairs, weights = draft.table(name, "<u4"), None if weight is None else draft.table(name + "-weight", "<f4")
    for frame in table.read(columns, columns[:2]):
        ends = [_plain(frame[key]) for key in columns[:2]]
        if ids[0] is ids[1]:
            both = np.empty((len(frame), 2), np.result_type(*ends))
            both[:, 0], both[:, 1] = ends
            made = ids[0].number(both.ravel()).reshape(-1, 2)
        else:
            made = np.stack([known.number(end) for known, end in zip(ids, ends)], 1)
        pairs.add(draft.pairs(triple, made))
        if weights is not None:
            weights.add(numbers(f"column '{weight}'", frame[weight].to_numpy(), "<f4", 0))


def _features(column: Any) -> Array | None:
    """Numbers (n, F) of a column of numbers, of lists, or of texts of several numbers (DGL). None: it has others."""
    first = column.iloc[0] if len(column) else 0
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(), np.float64)[:, None]
    if isinstance(first, str) and "," in first and all(map(is_number, first.split(","))):
        return np.array([cell.split(",") for cell in column], np.float64)
    return np.stack(list(column)) if hasattr(first, "dtype") or isinstance(first, list) else None


def read_vertices(path: str, arguments: Any, draft: Draft, ids: Ids, key: str = "") -> None:
    """The vertices of a table: ids, labels, a split, and features."""
    table = Table(path)
    own = str(table.find(arguments.id, IDS, "--id", True))
    label = table.find(arguments.label, ("label", "y"), "--label")
    labels = [name for name in table.names if name == label or name.startswith("label_")]
    masks = [name for name in table.names if name in MASKS]
    split = table.find(None, ("split",), "")
    texts = [name for name in (own, *labels, split) if name is not None]
    rest = [name for name in table.names if name not in (*texts, *masks)]
    x = draft.table(draft.place("node-feat", key), "<f4")
    targets: list[Array] = []
    sets: list[dict[str, Array]] = []
    left: list[str] | None = None
    for frame in table.read(table.names, texts):
        before = len(ids.known)
        ids.number(_plain(frame[own]))
        if len(ids.known) != before + len(frame):
            raise Refused(f"column '{own}': found an id twice, expected each id once")
        parts = {name: _features(frame[name]) for name in rest}
        unused = [name for name, part in parts.items() if part is None]
        if left not in (None, unused):
            mixed = (set(left or []) ^ set(unused)).pop()
            raise Refused(f"column '{mixed}': found text beside numbers, expected numbers")
        left = unused
        found = [numbers(f"column '{name}'", part, "<f4") for name, part in parts.items() if part is not None]
        if found:
            x.add(np.concatenate(found, 1))
        targets.append(frame[labels].to_numpy(object))
        if split is not None:
            words = frame[split].fillna("").astype(str).str.strip()
            wrong = sorted(set(words) - set(WORDS))
            if wrong:
                raise Refused(f"column '{split}': found '{wrong[0]}', expected train, valid, test or nothing")
            known = words.map(WORDS).to_numpy(object)
            sets.append({name: known == name for name in ("train", "valid", "test")})
        else:
            sets.append({MASKS[mask]: frame[mask].to_numpy(np.float64) != 0 for mask in masks})
    if left:
        note(f"{path}: not used, as it has other things than numbers: column {', '.join(left)}")
    x.close()
    y, names = targets_of(np.concatenate(targets)) if labels and targets else (None, None)
    if not x.n:
        os.unlink(x.file.name)
    draft.vertices(key, len(ids.known), y=y)
    names = [re.sub("^label_", "", name) for name in labels] if len(labels) > 1 else names
    if names is not None:
        draft.names[key] = names
    draft.sets({name: np.concatenate([part[name] for part in sets]) for name in (sets or [{}])[0]}, key=key)
    ids.closed = True


def targets_of(cells: Array) -> tuple[Array, list[str] | None]:
    """Targets of cells (n,) or (n, K), texts or numbers: classes -1 .. and their names, or numbers and None."""
    columns = cells.reshape(len(cells), -1)
    texts = ["" if cell is None or cell != cell else str(cell).strip() for cell in columns.flat]
    texts = ["" if text.lower() == "nan" else text for text in texts]
    known = [text for text in texts if text]
    if all(map(is_number, known)):
        values = np.array([float(text or "nan") for text in texts]).reshape(columns.shape)
        whole = columns.shape[1] == 1 and not any(float(text) % 1 for text in known)
        if whole and not (known and all("." in text for text in known)):
            values = np.where(np.isnan(values), -1, values).astype(np.int64)
        return (values[:, 0] if columns.shape[1] == 1 else values), None
    if columns.shape[1] > 1 or any(is_number(text) and float(text) % 1 for text in known):
        raise Refused("labels: found text beside other labels, expected numbers, or names of classes")
    found = named(np.array(texts, object), "labels")
    assert found is not None  # some are texts
    return found[1], found[0]


def read_tables(edges: str, nodes: str | None, arguments: Any, draft: Draft) -> None:
    ids = Ids()
    if nodes is not None:
        about(nodes, read_vertices, nodes, arguments, draft, ids)
    about(edges, read_edges, edges, arguments, draft, (ids, ids))
    draft.n[""] = len(ids.known)
    draft.ids = ids.names()
