# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What the tests of the package share: libraries that may be missing, folders, and the command `starling`."""

import contextlib
import functools
import importlib.util
import io
import os
import tempfile
import unittest

import numpy as np
from starling_gnn import __main__ as command


@functools.lru_cache(maxsize=None)
def has(*modules):
    """Whether libraries are there. DGL and pyarrow may be there, and fail beside another PyTorch or NumPy."""
    if any(importlib.util.find_spec(module) is None for module in modules):
        return False
    try:
        return all(importlib.import_module(module) for module in modules if module in ("dgl", "pyarrow"))
    except (ImportError, OSError):
        return False


def needs(*modules):
    return unittest.skipUnless(has(*modules), f"{', '.join(modules)}: not installed")


def run(*words):
    """The exit status, standard output and standard error of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = command.main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


class Bag:
    """An object with these attributes."""

    def __init__(self, **values):
        self.__dict__.update(values)


def of_dgl(tables, counts, edges, edata={}):
    """What a graph of DGL has: tables and the number of vertices by type, edges (2, E) and tables of them by triple."""

    class Edges(dict):
        def __call__(self, etype=None):
            return tuple(edges[etype or next(iter(edges))])

    return Bag(
        ntypes=list(tables),
        canonical_etypes=list(edges),
        num_nodes=lambda key=None: counts[key or next(iter(counts))],
        nodes={name: Bag(data=table) for name, table in tables.items()},
        edges=Edges({triple: Bag(data=edata.get(triple, {})) for triple in edges}),
        ndata=next(iter(tables.values())),
        edata=next(iter(edata.values()), {}),
    )


class Folder(unittest.TestCase):
    """A test with a folder of its own, `here`. refuses(error, pattern, function, ..) and warns(..) call a function."""

    refuses = unittest.TestCase.assertRaisesRegex
    warns = unittest.TestCase.assertWarnsRegex

    def setUp(self):
        here = tempfile.TemporaryDirectory()
        self.addCleanup(here.cleanup)
        self.here = here.name

    def path(self, *names):
        path = os.path.join(self.here, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def lines(self, name, lines, opened=open):
        with opened(self.path(name), "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        return self.path(name)

    def npy(self, name, array):
        np.save(self.path(name), array)
