# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Lines of the metrics, and scores."""

from __future__ import annotations

from typing import Any, Dict


class Record(Dict[str, Any]):
    """A line of the metrics, or scores. Keys are attributes as well: record.valid_acc."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name}; expected one of {', '.join(self)}") from None
