# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What modules share: numpy, records, libraries that may be missing, and files that are written whole or not at all.

numpy is imported when it is first used. It takes 25 MB. Training on files needs numpy for the results alone, when the
buffers of training are free again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Dict

__all__ = ["Array", "Floats", "Record", "expect", "need", "np", "whole_file"]

if importlib.util.find_spec("numpy") is None:
    raise ImportError("starling_gnn needs numpy; install it (pip install numpy)")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Floats = NDArray[np.float32]
else:
    Array = Floats = Any  # of annotations alone

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("numpy"), name)

    np = _Numpy()


class Record(Dict[str, Any]):
    """A line of the metrics, or scores. Keys are attributes as well: record.valid_acc."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name}; expected one of {', '.join(self)}") from None


def expect(right: Any, name: str, found: str, expected: str, kind: type[Exception] = ValueError) -> None:
    """Raise an error of one line unless `right`: what was found as `name`, and what was expected."""
    if not right:
        raise kind(f"{name}: found {found}, expected {expected}")


def need(module: str, pip: str, debian: str = "") -> Any:
    """Import a library that the package itself does not need. ImportError: it is missing, with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = f", or Debian's {debian}" if debian else ""
        raise ImportError(f"needs {pip}; install it: pip install {pip}{package}") from None


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """The path of a file beside `path`. It gets this name when the block ends, and goes if the block fails.

    OSError names `path`. A pipe or a device is written in place.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name[:200]}.{os.getpid()}")
    try:
        with open(draft, "xb"):
            pass
        yield draft
        os.replace(draft, path)
    except OSError as error:
        if error.filename == draft:
            raise OSError(error.errno, error.strerror, path) from None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
