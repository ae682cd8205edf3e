# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling convert`: make a dataset that Starling reads of the files of other programs."""

from __future__ import annotations

import argparse
import os
import signal
import warnings
from typing import Any

from ._draft import Draft, about
from ._formats import FILES, FOLDERS, TWICE, Reader, read_tables
from ._tools import expect

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
