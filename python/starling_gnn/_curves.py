# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Pictures of runs: loss and scores by epoch and by training time, and stage times. `starling plot`, Run.plot()."""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ._library import OPTIONS
from ._report import STAGES
from ._tools import Array, expect, need, np, whole_file

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c564b")
# Scores: the title, and the factor of the axis; 100: percent.
TITLES = {
    "acc": ("Accuracy", 100),
    "f1": ("Macro F1", 100),
    "f1_micro": ("Micro F1", 100),
    "auc": ("Area under the ROC curve", 100),
    "ap": ("Average precision", 100),
    "mrr": ("Mean reciprocal rank", 100),
    **{f"hits{n}": (f"Links among the first {n}", 100) for n in (1, 3, 10, 20, 50, 100)},
    "mse": ("Mean squared error", 1),
    "mae": ("Mean absolute error", 1),
    "r2": ("Coefficient of determination", 1),
}
_MOST_DOTS = 25  # a curve of at most so many points shows each point
_LARGEST = 1e30  # numbers beyond count as not finite: an axis could not show them
_HATCHES = ("", "...", "///", "", "\\\\\\", "xxx", "", "ooo", "---", "+++")  # of stages, for print
_STYLES = {"training": "-", "validation": "--", "test": ":"}


def _number(value: Any) -> float:
    """A number of JSON; nan: something else, or too large."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST
    return float(value) if good else math.nan


def _plain(text: str) -> str:
    """A text that matplotlib draws as it is: without formulas, and in a legend."""
    text = os.fsencode(text).decode(errors="replace")
    text = "".join(letter if letter.isprintable() else "?" for letter in text).replace("$", r"\$")
    text = text if len(text) <= 100 else text[:99] + "…"
    return " " + text if text.startswith("_") else text


class Curve:
    """A run: its name, or path; its config, and a record of each epoch, as in the metrics."""

    def __init__(self, name: str, config: Mapping[str, Any], records: Sequence[Mapping[str, Any]], ended: bool) -> None:
        expect(records, name, "no whole epoch", "one or more; has the run just begun?")
        self.name = os.path.basename(os.path.normpath(name)).removesuffix(".jsonl")
        self.config, self.records, self.ended = config, records, ended
        options = config.get("options")
        self.options: Mapping[str, Any] = options if isinstance(options, dict) else {}
        self.epochs = self.values("epoch")  # (epochs,)
        self.seconds = np.cumsum(np.nan_to_num(self.values("seconds")))  # at the end of each epoch
        self.scores = [key[6:] for key in records[0] if key.startswith("valid_") and key != "valid_loss"]
        best_by = self.options.get("best_by")
        self.best_by = best_by if best_by in self.scores else next(iter(self.scores), None)
        valid = self.values(f"valid_{self.best_by}") * (-1 if self.best_by in ("mse", "mae") else 1)
        self.best: int | None = None if np.isnan(valid).all() else int(np.nanargmax(valid))

    def values(self, key: str) -> Array:
        """The numbers of a key, float64 (epochs,). nan: an epoch without a number."""
        return np.array([_number(record.get(key)) for record in self.records])

    def stages(self) -> Array:
        """Seconds in the tasks of each stage, the mean over the epochs, float64 (stages,)."""
        found = [record.get("stage_seconds") for record in self.records]
        rows = [[_number(row.get(s)) if isinstance(row, dict) else 0 for s in STAGES] for row in found]
        return np.asarray(np.maximum(np.nan_to_num(np.array(rows)), 0).mean(axis=0))

    def result(self) -> str:
        """The best epoch, the number of epochs and their median time, as one line."""
        times = self.values("seconds")
        each = f"{np.nanmedian(times):.3g} s each" if np.isfinite(times).any() else "times unknown"
        line = f"{len(times)} epoch{'s' * (len(times) > 1)}, {each}{', not ended' * (not self.ended)}"
        if self.best is None:
            return "no evaluation; " + line
        factor = TITLES.get(str(self.best_by), ("", 1))[1]
        of = [factor * self.values(f"{part}_{self.best_by}")[self.best] for part in ("valid", "test")]
        shown = ["-" if math.isnan(v) else f"{v:.4g}" if factor == 1 else f"{v:.2f} %" for v in of]
        return f"best epoch {self.epochs[self.best]:.0f}: {self.best_by} {shown[0]} valid, {shown[1]} test; {line}"


def _file_of(path: str) -> str:
    """The file of metrics, which a folder may hold."""
    if not os.path.isdir(path):
        return path
    files = glob.glob(os.path.join(glob.escape(path), "*.jsonl"))
    files = [file for file in files if os.path.basename(file) == "metrics.jsonl"] or files
    expect(len(files) == 1, path, f"{len(files)} files", "one of --metrics (metrics.jsonl, or one *.jsonl); name it")
    return files[0]


def read(path: str) -> Curve:
    """The last run of a file of metrics, or of a folder that holds one. A resumed run continues the lines before it."""
    file = _file_of(path)
    config: dict[str, Any] | None = None
    records: list[dict[str, Any]] = []
    ended = False
    with open(file, encoding="utf-8", errors="replace") as texts:
        for text in texts:
            line: Any = None
            with contextlib.suppress(ValueError, RecursionError):  # a killed program may leave an unfinished line
                line = json.loads(text)
            if not isinstance(line, dict):
                continue
            epoch = _number(line.get("epoch"))
            if line.get("event") == "config":
                config, ended = line, False
            elif config is not None and line.get("event") == "summary":
                ended = True
            elif config is not None and line.get("event") == "epoch" and epoch >= (1 if records else 0):
                if records and epoch <= records[-1]["epoch"]:
                    records = []  # another run begins
                records.append({**line, "loss": line.get("train_loss")})
    expect(config, file, "no run", "a file of coop_sage --metrics or pipe_gnn --metrics")
    return Curve(path, config or {}, records, ended)


def read_all(paths: Sequence[str]) -> list[Curve]:
    """Runs of files. If two files have the same name, the names are the paths."""
    most = len(COLOURS)
    expect(len(paths) <= most, "RUN", f"{len(paths)} runs", f"{most} at most: one colour each")
    curves = [read(path) for path in paths]
    if len({curve.name for curve in curves}) < len(curves):
        for curve, path in zip(curves, paths):
            curve.name = path.removesuffix(".jsonl")
    return curves


def _differences(curves: Sequence[Curve]) -> list[str]:
    """The options that differ between the runs, with the values of each. Files and printing do not count."""
    tables = {**OPTIONS[True], **OPTIONS[False]}
    about = {key for key, option in tables.items() if option.group == "output"} | {"cache", "data_path"}
    rows = [{"version": curve.config.get("version"), **curve.options} for curve in curves]
    keys = [key for key in rows[0] if key not in about and all(key in row for row in rows)]
    keys = [key for key in keys if any(row[key] != rows[0][key] for row in rows)]
    return [", ".join(f"{key.replace('_', '-')} {row[key]}" for key in keys) for row in rows]


def _draw_row(rooms: Sequence[Any], curves: Sequence[Curve], keys: Mapping[str, str], name: str) -> None:
    """The loss, or the score `name`, by epoch and by training time. keys: the key of each split."""
    longest = max(curve.seconds[-1] for curve in curves)
    unit, unit_name = (3600, "hours") if longest > 3 * 3600 else (60, "minutes") if longest > 600 else (1, "s")
    for room, axis in zip(rooms, ("epoch", f"training time, {unit_name}")):
        room.set_xlabel(axis)
        room.grid(color="#dddddd", linewidth=0.6)
        for colour, curve in zip(COLOURS, curves):
            x = curve.epochs if axis == "epoch" else curve.seconds / unit
            for split, key in keys.items():
                y = curve.values(key) * TITLES.get(name, ("", 1))[1]
                if not np.isfinite(y).any():
                    continue
                shown = np.isfinite(y) | (key == "loss")  # a loss that is not finite breaks its curve
                marker = "o" if shown.sum() <= _MOST_DOTS else None
                style = {"color": colour, "linestyle": _STYLES[split], "label": split}
                room.plot(x[shown], y[shown], marker=marker, markersize=3, **style)
                if split == "validation" and name == curve.best_by and curve.best is not None:
                    ring = {"color": colour, "marker": "o", "markerfacecolor": "white", "linestyle": ""}
                    room.plot(x[curve.best], y[curve.best], markersize=8, label="best epoch", **ring)
    rooms[1].set_xlim(left=0)
    rooms[0].xaxis.get_major_locator().set_params(integer=True)
    drawn = {line.get_label(): line for line in rooms[0].lines}
    if not drawn:
        rooms[0].text(0.5, 0.5, "no finite value", ha="center", transform=rooms[0].transAxes)
        return
    for line in rooms[0].legend(drawn.values(), drawn.keys(), fontsize="small").get_lines():
        line.set_color("#444444")


def _draw_stages(room: Any, curves: Sequence[Curve]) -> None:
    """A bar for each run: the task time of its mean epoch, by stage."""
    below, names = np.zeros(len(curves)), [_plain(curve.name)[:30] for curve in curves]
    for n, (stage, hatch) in enumerate(zip(STAGES, _HATCHES)):
        part = np.array([curve.stages()[n] for curve in curves])
        if part.any():
            style = {"hatch": hatch, "edgecolor": "white", "height": 0.7, "tick_label": names}
            room.barh(range(len(curves)), part, left=below, label=stage, color=f"C{n}", **style)
        below += part
    room.invert_yaxis()
    room.set_xlabel("task time of an epoch, all workers together, mean over the epochs, s")
    room.legend(fontsize="small", ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)


def draw(curves: Sequence[Curve], figure: Any) -> None:
    """Draw runs over each other into a figure of matplotlib: a row for the loss, for each score, for stage times."""
    nats = all({"acc", "f1_micro"} & set(curve.scores) for curve in curves)
    rows = [("", "Loss, nats" if nats else "Loss", {"training": "loss", "validation": "valid_loss"})]
    for name in dict.fromkeys(name for c in curves if c.best is not None for name in c.scores):
        title, factor = TITLES.get(name, (name, 1))
        title = f"{title} ({name})" + (", %" if factor == 100 else "")
        rows.append((name, title, {"validation": f"valid_{name}", "test": f"test_{name}"}))
    with_stages = any(curve.stages().any() for curve in curves)
    heights = [0.45 * len(curves), *[2.4] * len(rows), *[0.4 + 0.3 * len(curves)] * with_stages]
    if hasattr(figure, "set_size_inches"):
        figure.set_size_inches(9, sum(heights) + 0.7 * len(heights))
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    shared = [{str(c.config.get(key, c.options.get(key))) for c in curves} for key in ("dataset", "model")]
    title = ", ".join(name for names in shared if len(names) == 1 for name in names - {"None", "none", "arrays"})
    figure.suptitle(_plain(title or "Runs"), fontweight="bold")
    head = figure.add_subplot(grid[0, :])
    head.axis("off")
    lines = [head.plot([], [], color=colour, linewidth=3)[0] for colour, _ in zip(COLOURS, curves)]
    names = [_plain(f"{c.name}: {d}" if d else c.name) for c, d in zip(curves, _differences(curves))]
    labels = [f"{name}\n{curve.result()}" for name, curve in zip(names, curves)]
    head.legend(lines, labels, loc="center left", bbox_to_anchor=(0, 0.5), frameon=False)
    for n, (name, title, keys) in enumerate(rows, 1):
        rooms = [figure.add_subplot(grid[n, column]) for column in (0, 1)]
        rooms[0].set_ylabel(_plain(title))
        _draw_row(rooms, curves, keys, name)
    if with_stages:
        _draw_stages(figure.add_subplot(grid[-1, :]), curves)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="file of --metrics, or a folder that holds one")
    where = "picture to write: .png, .svg, .pdf, ..; default: RUN.png beside the file, plot.png for several"
    parser.add_argument("--out", metavar="FILE", help=where)


def run(arguments: argparse.Namespace) -> int:
    figure = need("matplotlib.figure", "matplotlib", "python3-matplotlib").Figure(layout="constrained")
    curves = read_all(arguments.runs)
    first = _file_of(arguments.runs[0])
    beside = os.path.join(os.path.dirname(first), "plot") if len(curves) > 1 else os.path.splitext(first)[0]
    out = arguments.out or beside + ".png"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font lacks
        draw(curves, figure)
        with whole_file(out) as draft:
            figure.savefig(draft, format=os.path.splitext(out)[1][1:], dpi=150)
    print(out)
    return 0
