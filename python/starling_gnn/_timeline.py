# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The picture of a trace: all workers' time by category, two steps task by task, and when each step ran."""

from __future__ import annotations

import io
from typing import Any

from ._numpy import Array, np
from ._tools import need
from ._trace import BUSY, IDLE, STAGES, STARPU, State, Trace

# As in paje.trace: neighbours differ, also for colour-blind readers (after Okabe and Ito). Then foreign categories.
_HUES = (
    "56b4e9 d55e00 f0e442 009e73 0072b2 000000 cc79a7 8c564b e69f00 7f6fb0 0072b2 d55e00 009e73 cc79a7 000000 e69f00"
)
_MOST_ARROWS = 500
_N_COLUMNS = 400


def _colours(trace: Trace) -> dict[str, str]:
    hues = ["#" + hue for hue in _HUES.split()]
    found = {name: hues[n] if n < len(hues) else hues[10 + n % 6] for n, name in enumerate(trace.stages)}
    return {**found, "in StarPU": "#9a9a9a", "transfers": "#ff00c8"}


def _layer(state: State) -> str:
    return state.stage if state.kind == BUSY else "in StarPU" if state.kind == STARPU else "transfers"


def _overview(room: Any, trace: Trace, layers: dict[str, list[State]], colours: dict[str, str]) -> None:
    """How all workers divided their time, over the whole trace. White is idle."""
    edges = np.linspace(0, trace.makespan, _N_COLUMNS + 1)
    whole = trace.makespan / _N_COLUMNS * len({state.worker for state in trace.states})
    shares: list[Array] = []
    for states in layers.values():
        start, end = np.array([state.start for state in states]), np.array([state.end for state in states])
        shares.append(np.diff([np.clip(edge - start, 0, end - start).sum() for edge in edges]) / whole * 100)
    labels = [f"{name} {share.mean():.1f} %" for name, share in zip(layers, shares)]
    room.stackplot(edges[1:] - edges[1] / 2, shares, colors=[colours[name] for name in layers], labels=labels)
    room.set(xlim=(0, trace.makespan), ylim=(0, 100), ylabel="all workers' time, %", xlabel="time, s")
    room.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize="small")


def _steps(trace: Trace) -> dict[int, dict[str, tuple[float, float]]]:
    """When each step was sampled and when it computed: first start and last end."""
    steps: dict[int, dict[str, tuple[float, float]]] = {}
    for task in trace.tasks.values():
        if task.worker and task.step is not None and task.stage != "evaluate":
            spans = steps.setdefault(task.step, {})
            for part in ["sample" if task.stage == "sample" else "compute"] + ["loss"] * (task.stage == "loss"):
                start, end = spans.get(part, (task.start, task.end))
                spans[part] = min(start, task.start), max(end, task.end)
    return dict(sorted(steps.items()))


def _window(trace: Trace, steps: dict[int, dict[str, tuple[float, float]]]) -> tuple[float, float]:
    """The time of two steps in the middle; without steps a tenth of the trace."""
    whole = [spans["compute"] for spans in steps.values() if "loss" in spans]
    if whole:
        shown = whole[len(whole) // 2 :][:2]
        start, end = shown[0][0], shown[-1][1]
        return max(0.0, start - 0.02 * (end - start)), end
    return (0.0, trace.makespan) if steps else (0.45 * trace.makespan, 0.55 * trace.makespan)


def picture(trace: Trace) -> str:
    """An SVG element. ImportError: matplotlib is missing."""
    figure = need("matplotlib.figure", "matplotlib", "python3-matplotlib").Figure(layout="constrained")
    workers = sorted({state.worker for state in trace.states})
    lane = {worker: n for n, worker in enumerate(workers)}
    colours, steps = _colours(trace), _steps(trace)
    names = [*trace.stages, "in StarPU", "transfers"]
    layers: dict[str, list[State]] = {name: [] for name in names}
    for state in trace.states:
        if state.kind != IDLE:
            layers[_layer(state)].append(state)
    layers = {name: states for name, states in layers.items() if states}
    start, end = _window(trace, steps)
    shown = {n: s for n, s in steps.items() if any(b > start and a < end for a, b in s.values())}
    heights = [2.0, min(6.0, 0.6 + 0.45 * len(workers)), 0.6 + 0.16 * len(shown)]
    figure.set_size_inches(16, sum(heights) + 2)
    above, middle, below = figure.subplots(3, 1, height_ratios=heights)
    _overview(above, trace, layers, colours)
    for name, states in layers.items():
        for worker in workers:
            bars = [
                (s.start, s.end - s.start) for s in states if s.worker == worker and s.end > start and s.start < end
            ]
            edges = {"edgecolor": "white", "linewidth": 0.3} if name in STAGES else {}
            middle.broken_barh(bars, (lane[worker] - 0.45, 0.9), facecolor=colours[name], **edges)
    inside = [m for m in trace.messages if m[3] >= start and m[4] <= end]
    for source, target, _, sent, received in sorted(inside, key=lambda m: -m[2])[:_MOST_ARROWS]:
        places = [[lane[w] for w in workers if w[0] == rank] for rank in (source, target)]
        if all(places):
            tail, head = ((sum(rows) / len(rows)) for rows in places)
            middle.annotate("", (received, head), (sent, tail), arrowprops={"arrowstyle": "->", "linewidth": 0.7})
    middle.set_yticks(range(len(workers)), [trace.name(worker) for worker in workers])
    middle.set_title("Its middle, task by task" + ("; dashed: a step begins to compute" if shown else ""), fontsize=10)
    for row, spans in enumerate(shown.values()):
        for part, colour, place in (("sample", colours["sample"], 0.0), ("compute", "#444444", 0.4)):
            if part in spans:
                below.broken_barh(
                    [(spans[part][0], spans[part][1] - spans[part][0])], (row - 0.4 + place, 0.4), color=colour
                )
        if "compute" in spans and spans["compute"][0] >= start:
            middle.axvline(spans["compute"][0], color="#cc0000", linestyle="--", linewidth=1)
    below.set_yticks(range(len(shown)), [f"step {n}" for n in shown])
    below.set_title("Each step: when it was sampled (blue), when it gathered and computed (dark)", fontsize=10)
    for room in (middle, below):
        room.set(xlim=(start, end), xlabel="time, s")
        room.invert_yaxis()
    file = io.StringIO()
    figure.savefig(file, format="svg")
    return file.getvalue()[file.getvalue().index("<svg") :]
