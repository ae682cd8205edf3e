# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The picture of a trace: all workers' time by category, two steps task by task, and when each step ran."""

from __future__ import annotations

import io
from typing import Any

from ._numpy import Array, np
from ._tools import need
from ._trace import BUSY, IDLE, STAGES, STARPU, Trace

# As in paje.trace: neighbours differ, also for colour-blind readers (after Okabe and Ito). Then foreign categories.
_HUES = (
    "56b4e9 d55e00 f0e442 009e73 0072b2 000000 cc79a7 8c564b e69f00 7f6fb0 0072b2 d55e00 009e73 cc79a7 000000 e69f00"
)
_MOST_ARROWS = 500
_N_COLUMNS = 400


def elapsed(intervals: Any, times: Any) -> Array:
    """Seconds of the intervals before each time, (times,). intervals: a table with start and end."""
    times = np.asarray(times)
    made = np.zeros(len(times))
    for sign, edges in ((1, np.sort(intervals.start)), (-1, np.sort(intervals.end))):
        n = np.searchsorted(edges, times)
        made += sign * (n * times - np.concatenate([[0], np.cumsum(edges)])[n])
    return made


def _overview(room: Any, trace: Trace, layers: dict[str, Any], colours: dict[str, str], n_workers: int) -> None:
    """How all workers divided their time, over the whole trace. White is idle."""
    edges = np.linspace(0, trace.makespan, _N_COLUMNS + 1)
    whole = trace.makespan / _N_COLUMNS * n_workers
    shares = [np.diff(elapsed(states, edges)) / whole * 100 for states in layers.values()]
    labels = [f"{name} {share.mean():.1f} %" for name, share in zip(layers, shares)]
    room.stackplot(edges[1:] - edges[1] / 2, shares, colors=[colours[name] for name in layers], labels=labels)
    room.set(xlim=(0, trace.makespan), ylim=(0, 100), ylabel="all workers' time, %", xlabel="time, s")
    room.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize="small")


def _steps(states: Any) -> Any:
    """When each step was sampled and when it computed: first start and last end, by step and part."""
    of_steps = states[(states.kind == BUSY) & states.step.notna() & (states.stage != "evaluate")]
    part = np.where(of_steps.stage == "sample", "sample", "compute")
    return of_steps.groupby(["step", part]).agg(
        start=("start", "min"), end=("end", "max"), has_loss=("stage", lambda stages: "loss" in set(stages))
    )


def _window(trace: Trace, steps: Any) -> tuple[float, float]:
    """The time of two steps in the middle; without steps a tenth of the trace."""
    whole = steps[steps.has_loss]
    if len(whole):
        shown = whole.iloc[len(whole) // 2 :][:2]
        start, end = shown.start.iloc[0], shown.end.iloc[-1]
        return max(0.0, start - 0.02 * (end - start)), end
    return (0.0, trace.makespan) if len(steps) else (0.45 * trace.makespan, 0.55 * trace.makespan)


def picture(trace: Trace) -> str:
    """An SVG element. ImportError: matplotlib is missing."""
    figure = need("matplotlib.figure", "matplotlib", "python3-matplotlib").Figure(layout="constrained")
    states = trace.states[trace.states.kind != IDLE]
    workers = sorted(set(zip(trace.states["rank"], trace.states.worker)))
    hues, steps = ["#" + hue for hue in _HUES.split()], _steps(states)
    colours = {name: hues[n] if n < len(hues) else hues[10 + n % 6] for n, name in enumerate(trace.stages)}
    colours |= {"in StarPU": "#9a9a9a", "transfers": "#ff00c8"}
    layer = states.stage.where(states.kind == BUSY, states.kind.replace(STARPU, "in StarPU"))
    found = dict(list(states.groupby(layer)))
    layers = {name: found[name] for name in colours if name in found}
    start, end = _window(trace, steps)
    shown = steps[(steps.end > start) & (steps.start < end)]
    numbers = sorted(set(shown.index.get_level_values(0)))
    heights = [2.0, min(6.0, 0.6 + 0.45 * len(workers)), 0.6 + 0.16 * len(numbers)]
    figure.set_size_inches(16, sum(heights) + 2)
    above, middle, below = figure.subplots(3, 1, height_ratios=heights)
    _overview(above, trace, layers, colours, len(workers))
    for name, of_layer in layers.items():
        inside = of_layer[(of_layer.end > start) & (of_layer.start < end)]
        edges = {"edgecolor": "white", "linewidth": 0.3} if name in STAGES else {}
        for worker, bars in inside.groupby(["rank", "worker"]):
            spans = list(zip(bars.start, bars.end - bars.start))
            middle.broken_barh(spans, (workers.index(worker) - 0.45, 0.9), facecolor=colours[name], **edges)
    lanes = {rank: np.mean([n for n, worker in enumerate(workers) if worker[0] == rank]) for rank, _ in workers}
    messages = trace.messages[(trace.messages.sent >= start) & (trace.messages.received <= end)]
    messages = messages[messages.source.isin(lanes) & messages.target.isin(lanes)]
    for message in messages.sort_values("bytes", ascending=False)[:_MOST_ARROWS].itertuples():
        head, tail = (message.received, lanes[message.target]), (message.sent, lanes[message.source])
        middle.annotate("", head, tail, arrowprops={"arrowstyle": "->", "linewidth": 0.7})
    middle.set_yticks(range(len(workers)), [trace.name(worker) for worker in workers])
    middle.set_title(
        "Its middle, task by task" + ("; dashed: a step begins to compute" if numbers else ""), fontsize=10
    )
    for (step, part), span in shown.iterrows():
        colour, place = (colours["sample"], 0.0) if part == "sample" else ("#444444", 0.4)
        row = numbers.index(step) - 0.4 + place
        below.broken_barh([(span.start, span.end - span.start)], (row, 0.4), color=colour)
        if part == "compute" and span.start >= start:
            middle.axvline(span.start, color="#cc0000", linestyle="--", linewidth=1)
    below.set_yticks(range(len(numbers)), [f"step {step:.0f}" for step in numbers])
    below.set_title("Each step: when it was sampled (blue), when it gathered and computed (dark)", fontsize=10)
    for room in (middle, below):
        room.set(xlim=(start, end), xlabel="time, s")
        room.invert_yaxis()
    file = io.StringIO()
    figure.savefig(file, format="svg")
    return file.getvalue()[file.getvalue().index("<svg") :]
