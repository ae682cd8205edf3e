# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Progress of a run: a bar in a terminal or notebook, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

_REDRAW_S = 0.1


class Progress:
    """wanted: None: a bar in a terminal or notebook, else nothing. True: lines elsewhere. False: nothing."""

    def __init__(self, wanted: bool | None, epochs: int) -> None:
        self.epochs, self.started, self.drawn = epochs, time.monotonic(), 0.0
        self.shown = self.score = ""
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self.notebook = hasattr(shell, "kernel")
        self.stream = sys.stdout if self.notebook else sys.stderr
        tty = getattr(self.stream, "isatty", bool)()
        self.bar = wanted is not False and (tty or self.notebook)
        self.lines = wanted is True and not self.bar and self.stream is not None

    def _draw(self, done: float, loss: float) -> None:
        columns = 79 if self.notebook else shutil.get_terminal_size().columns - 1
        share = min(1.0, done / max(1, self.epochs))
        left = (time.monotonic() - self.started) * (1 - share) / share if share > 0 else 0
        epoch = min(int(done) + 1, self.epochs)
        minutes, seconds = divmod(int(left + 0.5), 60)
        clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
        end = f"] epoch {epoch}/{self.epochs}  loss {loss:.4f}{self.score}  {clock} left"
        width = columns - len(end) - 1
        self._write("[" + ("#" * int(width * share)).ljust(width, ".") + end if width >= 5 else end[2:])

    def _write(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(len(self.shown)))
        self.stream.flush()
        self.shown = text

    def step(self, epoch: int, step_of_epoch: float, loss: float) -> None:
        """step_of_epoch: 0 .. 1, the share of the epoch that is done."""
        if self.bar and time.monotonic() - self.drawn >= _REDRAW_S:
            self.drawn = time.monotonic()
            self._draw(epoch - 1 + step_of_epoch, loss)

    def epoch(self, line: Mapping[str, Any]) -> None:
        scores = [(key, value) for key, value in line.items() if key.startswith("valid_") and key != "valid_loss"]
        if scores and scores[0][1] == scores[0][1]:
            self.score = f"  {scores[0][0].replace('_', ' ')} {scores[0][1]:.4f}"
        if self.lines:
            epoch = f"epoch {line['epoch']}/{self.epochs}"
            self.stream.write(f"{epoch}  loss {line['loss']:.4f}{self.score}  {line['seconds']:.3f} s\n")
        elif self.bar:
            self.step(line["epoch"], 1.0, line["loss"])

    def close(self) -> None:
        if self.bar and self.shown:
            self._write("")
            self._write("")
