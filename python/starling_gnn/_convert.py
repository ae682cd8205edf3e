# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling convert`: make a dataset that Starling reads of the files of other programs."""

from __future__ import annotations

import argparse
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

from . import _formats
from ._columns import ENDINGS, read_tables
from ._draft import Draft, Refused, about

Reader = Callable[[str, Any, Draft], None]
# The forms of files by their endings.
FILES: dict[tuple[str, ...], Reader] = {
    (".npz",): _formats.read_npz,
    (".mtx", ".mtx.gz"): _formats.read_mtx,
    (".graph", ".graph.gz", ".metis"): _formats.read_metis,
    (".pt", ".pth"): _formats.read_torch,
    (".bin",): _formats.read_dgl,
}
# The forms of folders by a name in them.
FOLDERS: dict[str, Reader] = {
    "metadata.yaml": _formats.read_graphbolt,
    "meta.yaml": _formats.read_dgl_csv,
    "processed": _formats.read_igb,
    "raw": _formats.read_ogb,
}
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


def _read(path: str, arguments: Any, draft: Draft) -> None:
    lower = path.lower().rstrip("/")
    if os.path.isdir(path):
        edges = _formats.find(os.path.join(path, "edges"), ENDINGS)
        if edges is not None:
            return read_tables(
                edges, arguments.nodes or _formats.find(os.path.join(path, "nodes"), ENDINGS), arguments, draft
            )
        for name, read in FOLDERS.items():
            if os.path.exists(os.path.join(path, name)):
                return read(path, arguments, draft)
        raise Refused(
            f"found {', '.join(sorted(os.listdir(path))[:10]) or 'nothing'}; expected a folder of "
            f"{', '.join(FOLDERS)}, or a table edges.csv or .parquet"
        )
    for endings, read in FILES.items():
        if lower.endswith(endings):
            wrong = [name for name in ("source", "target", "id", "nodes") if getattr(arguments, name) is not None]
            if wrong:
                raise Refused(f"--{wrong[0]}: found '{getattr(arguments, wrong[0])}', expected it with a table alone")
            return read(path, arguments, draft)
    for endings, what in OTHERS.items():
        if lower.endswith(endings):
            raise Refused(f"found {what}")
    if lower.endswith(ENDINGS):
        return read_tables(path, arguments.nodes, arguments, draft)
    *names, last = *(name for known in FILES for name in known), *ENDINGS
    found = os.path.splitext(path)[1]
    found = f"the ending '{found}'" if found else "no ending"
    raise Refused(f"found {found}, expected a folder, or a file that ends in {', '.join(names)} or {last}")


def run(arguments: argparse.Namespace) -> int:
    path, out = arguments.file, arguments.out.rstrip("/")
    os.stat(path)
    if not out or not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise Refused(f"--out: found '{out}', expected a new name in a folder that is there")
    if os.path.lexists(out):
        raise Refused(f"{out}: is there already; remove it, or choose another --out")
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        if draft is not None:  # which is sure to be discarded
            raise KeyboardInterrupt

    draft: Draft | None = None
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    draft = Draft(out)
    try:
        if stopped:
            raise KeyboardInterrupt
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries about what is refused below
            about(path, _read, path, arguments, draft)
            about(path, draft.finish)
    except Exception:
        if stopped:  # pandas tells of an interrupted read as of a broken file
            raise KeyboardInterrupt from None
        raise
    finally:
        draft.discard()
    n, directed = draft.n.get("", sum(draft.n.values())), " --directed" if draft.directed else ""
    print(f"{out}: {n} vertices; train on it: coop_sage --dataset {out}{directed}")
    return 0
