# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What modules share: records, libraries that may be missing, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any, Dict


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
