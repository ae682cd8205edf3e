# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What the commands share: libraries that may be missing, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any


def need(module: str, pip: str, debian: str = "") -> Any:
    """Import a library that the package itself does not need. ImportError: it is missing, with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = f", or Debian's {debian}" if debian else ""
        raise ImportError(f"needs {pip}; install it: pip install {pip}{package}") from None


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """The path of a file beside `path`. It gets this name when the block ends, and goes if the block fails."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        file, draft = tempfile.mkstemp(prefix="." + name + ".", suffix=os.path.splitext(name)[1], dir=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    os.close(file)
    try:
        yield draft
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise
