# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Where the time of a trace went: `starling report`.

Each worker's makespan is cut into busy, StarPU, transfers and idle. The time between two tasks counts for the category
of the later task, because the worker waited for it. The time after a worker's last task is the tail. So the sums over
all categories and the tail are workers times makespan.
"""

from __future__ import annotations

import argparse
import bisect
import html
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from ._numpy import Array, np
from ._timeline import picture
from ._tools import whole_file
from ._trace import BUSY, IDLE, STAGES, STARPU, TRANSFERS, Pair, State, Task, Trace, read

KINDS = ("busy", "StarPU", "transfers", "idle")
TINY = 20e-6  # seconds: below, StarPU's own work per task is no longer small compared with the task
_WORDS = """makespan: from the first submission to the end of the last task
critical path: the longest chain of dependent tasks, without any wait; more workers cannot go below it
overlap: fraction of sampling and gathering during the compute of an earlier step
hidden: fraction of the same time during which another worker runs a compute task
StarPU, transfers, idle: what a worker did just before the tasks of a category: scheduling, fetching data, nothing"""


def percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else 0.0


class Stage:
    """The tasks of a category, over all workers, in seconds."""

    def __init__(self) -> None:
        self.n = self.n_tiny = 0
        self.time: Array = np.zeros(4)  # by kind; busy: in its tasks, the others: before them
        self.tiny_starpu = self.path = self.beside = 0.0  # beside: busy while some worker computes


def _inside(state: State, spans: Sequence[tuple[float, float]]) -> float:
    """The part of a state within spans that are sorted and apart."""
    found = 0.0
    for start, end in spans[max(0, bisect.bisect(spans, (state.start, math.inf)) - 1) :]:
        if start >= state.end:
            break
        found += max(0.0, min(end, state.end) - max(start, state.start))
    return found


class Analysis:
    """Sums over states, the overlap with compute, and the critical path of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.stages = {name: Stage() for name in trace.stages}
        self.workers: dict[Pair, Array] = {state.worker: np.zeros(4) for state in trace.states}  # seconds by kind
        self.busy = {(worker, name): 0.0 for worker in self.workers for name in trace.stages}
        self.tail: Array = np.zeros(4)  # by kind, after each worker's last task
        self._count()
        self._hide()
        self.path: list[Task] = []
        self.path_s = self._follow()
        self.total: Array = np.sum(list(self.workers.values()), axis=0)
        self.n = sum(stage.n for stage in self.stages.values())
        self.n_tiny = sum(stage.n_tiny for stage in self.stages.values())
        self.whole = len(self.workers) * trace.makespan

    def _count(self) -> None:
        before = {worker: np.zeros(4) for worker in self.workers}
        for state in self.trace.states:
            seconds = state.end - state.start
            self.workers[state.worker][state.kind] += seconds
            before[state.worker][state.kind] += seconds
            if state.kind == BUSY:
                stage, tiny = self.stages[state.stage], seconds < TINY and not state.resumed
                stage.n += not state.resumed
                stage.n_tiny += tiny
                stage.tiny_starpu += tiny * before[state.worker][STARPU]
                stage.time += before[state.worker]
                self.busy[state.worker, state.stage] += seconds
                before[state.worker][:] = 0
        self.tail = np.sum(list(before.values()), axis=0)

    def _hide(self) -> None:
        """overlap: with the whole span of earlier steps, as in the metrics. hidden: with tasks, without the holes."""
        busy = [state for state in self.trace.states if state.kind == BUSY]
        compute = [state for state in busy if state.stage not in STAGES or state.stage in STAGES[3:9]]
        spans: list[tuple[float, float]] = []
        for state in sorted(compute, key=lambda state: state.start):
            joins = bool(spans) and state.start <= spans[-1][1]
            start, end = spans.pop() if joins else (state.start, state.end)
            spans.append((start, max(end, state.end)))
        steps: dict[int, tuple[float, float]] = {}  # each step, and those before it
        start, end = math.inf, -math.inf
        for step, first, last in sorted((s.step, s.start, s.end) for s in compute if s.step is not None):
            start, end = min(start, first), max(end, last)
            steps[step] = start, end
        order, known, covered = list(steps), 0.0, 0.0
        for state in busy:
            self.stages[state.stage].beside += _inside(state, spans)
            if state.stage in ("sample", "gather") and state.step is not None:
                earlier = bisect.bisect_left(order, state.step)
                known += state.end - state.start
                covered += _inside(state, [steps[order[earlier - 1]]]) if earlier else 0
        self.overlap = covered / known if known else math.nan

    def alone(self, *names: str) -> tuple[float, float]:
        """Busy seconds of categories, and those of them without compute beside."""
        busy = float(sum(self.stages[name].time[BUSY] for name in names))
        return busy, busy - sum(self.stages[name].beside for name in names)

    def _follow(self) -> float:
        """Find the longest chain of dependent tasks: visit each after its dependencies. Returns its seconds."""
        tasks = self.trace.tasks
        left = {job: len(task.deps) for job, task in tasks.items()}
        after: dict[Pair, list[Pair]] = {job: [] for job in tasks}
        for job, task in tasks.items():
            for dep in task.deps:
                after[dep].append(job)
        order = [job for job, n in left.items() if n == 0]
        ends: dict[Pair, float] = {}
        last: dict[Pair, Optional[Pair]] = dict.fromkeys(order)
        for job in order:
            ends[job] = ends.get(job, 0.0) + tasks[job].end - tasks[job].start
            for dependent in after[job]:
                if dependent not in last or ends[job] > ends[dependent]:
                    ends[dependent], last[dependent] = ends[job], job
                left[dependent] -= 1
                order += [dependent] * (left[dependent] == 0)
        if len(order) < len(tasks):
            raise ValueError("the trace's dependencies go round in a circle; expected one process's tasks.rec")
        end: Optional[Pair] = max(order, key=lambda job: ends[job])
        seconds = ends[end] if end else 0.0
        while end is not None:
            self.path += [tasks[end]] if tasks[end].worker else []
            end = last[end]
        self.path.reverse()
        for task in self.path:
            self.stages[task.stage].path += task.end - task.start
        return seconds


def _remedy(stage: str) -> str:
    """How to make more tasks of a category ready at a time."""
    if stage in ("sample", "gather"):
        return "raise --depth, so that more minibatches are sampled ahead"
    if stage in ("sync", "optimise"):
        return "they wait for all gradients; raise --depth to have other work meanwhile"
    if stage in STAGES:
        return "raise --chunks, for more and smaller tasks, or --depth, for other work meanwhile"
    return "split the work before them into more tasks"


def _rules(a: Analysis) -> Iterator[tuple[float, str]]:
    """The causes of lost time: an upper bound in seconds of all workers, and a sentence with an option to try."""
    n, whole = len(a.workers), a.whole
    most = [max(a.stages, key=lambda name: float(a.stages[name].time[kind])) for kind in range(4)]  # noqa: B023
    seconds = [float(a.stages[name].time[kind]) for kind, name in enumerate(most)]
    yield (
        seconds[IDLE],
        f"waiting: workers were idle for {seconds[IDLE]:.3f} s ({percent(seconds[IDLE], whole):.1f} % of their time) "
        f"until a task of '{most[IDLE]}' was ready; {_remedy(most[IDLE])}",
    )
    yield (
        a.tail[IDLE],
        f"tail: workers were idle for {a.tail[IDLE]:.3f} s ({percent(a.tail[IDLE], whole):.1f} %) after their last "
        "task; in a window of few steps that is its edge, in a whole epoch raise --chunks",
    )
    busy, alone = a.alone("sample", "gather")
    yield (
        alone,
        f"sampling: {alone:.3f} s of sampling and gathering ({percent(alone, busy):.1f} % of them) had no compute "
        "beside them; raise --depth",
    )
    busy, alone = a.alone("exchange")
    yield (
        alone,
        f"exchange: {alone:.3f} s of the row exchange ({percent(alone, busy):.1f} % of it) had no compute beside it; "
        "raise --chunks, or lower the cross-edge ratio (--partition metis)",
    )
    tiny = sum(stage.tiny_starpu for stage in a.stages.values())
    yield (
        tiny,
        f"tiny: {a.n_tiny} of {a.n} tasks took under 20 microseconds, and StarPU {tiny:.3f} s to hand them out; lower "
        "--chunks, or raise --batch-size",
    )
    rest = float(a.total[STARPU] - tiny)
    if rest > 0.05 * whole:
        yield (
            rest,
            f"starpu: workers were in StarPU for {rest:.3f} s ({percent(rest, whole):.1f} %); make fewer and larger "
            "tasks (--chunks, --batch-size), or try another --sched",
        )
    moved = float(a.total[TRANSFERS])
    if moved > 0.05 * whole:
        yield (
            moved,
            f"transfers: workers waited {moved:.3f} s ({percent(moved, whole):.1f} %) for data, most of it before "
            f"'{most[TRANSFERS]}'; try --sched dmdas or --placement home",
        )
    work = float(a.total[BUSY]) / n
    yield (
        n * (a.path_s - work),
        f"path: the critical path takes {a.path_s:.3f} s and the work, shared among {n} workers, {work:.3f} s: more "
        f"workers would not help; most of the path is '{max(a.stages, key=lambda name: a.stages[name].path)}', split "
        "it (--chunks)",
    )
    saved = seconds[BUSY] / 10
    yield (
        saved,
        f"kernel: '{most[BUSY]}' is the largest time category, {seconds[BUSY]:.3f} s of {a.total[BUSY]:.3f} s busy "
        f"({percent(seconds[BUSY], a.total[BUSY]):.1f} %); each tenth off its kernels saves {saved / n:.3f} s",
    )


def advise(a: Analysis) -> list[tuple[float, str]]:
    """The three causes that cost the most: seconds of the makespan at most, and a sentence."""
    gains = [(float(seconds) / len(a.workers), text) for seconds, text in _rules(a)]
    worth = [one for one in gains if one[0] >= 1e-3 * a.trace.makespan]
    return sorted(worth, key=lambda one: -one[0])[:3]


def summary(a: Analysis) -> list[str]:
    """The lines at the top of the report."""
    names = ("busy", "in StarPU", "in transfers", "idle")
    shares = ", ".join(f"{percent(seconds, a.whole):.1f} % {name}" for seconds, name in zip(a.total, names))
    path = f"critical path {a.path_s:.4f} s, {percent(a.path_s, a.trace.makespan):.1f} % of the makespan"
    lines = [
        f"makespan {a.trace.makespan:.4f} s: {a.n} tasks on {len(a.workers)} workers, {shares}",
        f"{path}, {len(a.path)} tasks",
        f"tasks under 20 us: {a.n_tiny} of {a.n}",
    ]
    hidden = [
        1 - alone / busy if busy else math.nan for busy, alone in (a.alone("sample", "gather"), a.alone("exchange"))
    ]
    for label, share in (
        ("overlap of sampling and gathering with earlier steps", a.overlap),
        ("hidden: sampling and gathering with compute beside them", hidden[0]),
        ("hidden: row exchange with compute beside it", hidden[1]),
    ):
        lines.append(f"{label:<58} " + ("-" if math.isnan(share) else f"{share:.4f}"))
    return lines


def _shares(time: Array) -> list[str]:
    return [f"{seconds:.6f}" for seconds in (*time, time.sum())]


def tables(a: Analysis) -> Iterator[tuple[str, list[list[str]]]]:
    """Titles and rows of cells; the first row is the head."""
    trace, names = a.trace, [*KINDS, "sum"]
    used = {name: stage for name, stage in a.stages.items() if stage.n}
    rows = [["time category", "tasks", *names, "under 20 us", "on path"]]
    rows += [[s, str(t.n), *_shares(t.time), str(t.n_tiny), f"{t.path:.6f}"] for s, t in used.items()]
    rows.append(["(after the last task)", "0", *_shares(a.tail), "0", "0"])
    rows.append(["all", str(a.n), *_shares(a.total), str(a.n_tiny), f"{a.path_s:.6f}"])
    yield "By time category, seconds of all workers (StarPU, transfers, idle: before its tasks)", rows
    if trace.n_ranks > 1:
        rows = [["rank", *names, "sent", "MB sent", "received", "MB received"]]
        for rank in range(trace.n_ranks):
            of_rank = [seconds for worker, seconds in a.workers.items() if worker[0] == rank]
            time = np.sum([np.zeros(4), *of_rank], axis=0)
            sizes = [[message[2] for message in trace.messages if message[way] == rank] for way in (0, 1)]
            counts = [cell for some in sizes for cell in (str(len(some)), f"{sum(some) / 1e6:.6f}")]
            rows.append([f"rank {rank}", *_shares(time), *counts])
        yield "By rank, seconds of its workers; messages to others", rows
    rows = [["worker", *names], *([trace.name(worker), *_shares(time)] for worker, time in a.workers.items())]
    yield "By worker, seconds (each sum is the makespan)", rows
    rows = [["worker", *used]]
    rows += [[trace.name(worker), *(f"{a.busy[worker, name]:.6f}" for name in used)] for worker in a.workers]
    yield "By worker and time category, seconds busy", rows


def text(a: Analysis) -> str:
    """The report as text."""
    lines = [*summary(a), "", "Most worth changing (at most this much of the makespan)"]
    lines += [f"  {gain:.3f} s ({percent(gain, a.trace.makespan):.1f} %)  {cause}" for gain, cause in advise(a)]
    for title, rows in tables(a):
        lines += ["", title, *(f"{row[0]:<22}" + "".join(f" {cell:>12}" for cell in row[1:]) for row in rows)]
    return "\n".join(lines) + "\n"


def _tagged(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def page(a: Analysis) -> str:
    """The report as one HTML page that needs no other file."""
    gains = [f"{gain:.3f} s ({percent(gain, a.trace.makespan):.1f} %) {cause}" for gain, cause in advise(a)]
    parts = [_HEAD, *(_tagged("p", [line]) for line in summary(a)), picture(a.trace)]
    parts += ["<h2>Most worth changing (at most this much of the makespan)</h2><ol>", _tagged("li", gains), "</ol>"]
    for title, rows in tables(a):
        cells = "\n".join(f"<tr>{_tagged('td', row)}</tr>" for row in rows)
        parts += [_tagged("h2", [title]), f"<table>{cells}</table>"]
    return "\n".join([*parts, "<h2>Words</h2>", _tagged("p", _WORDS.splitlines()), "</body></html>\n"])


_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Starling trace</title><style>
body{font-family:sans-serif;margin:1.5em;max-width:1640px;color:#222}svg{width:100%;height:auto}p{margin:.3em 0}
table{border-collapse:collapse}td{border:1px solid #ccc;padding:.2em .6em;text-align:right}
td:first-child{text-align:left}tr:first-child{font-weight:bold}</style></head><body>
<h1>Where the time went</h1>"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `starling report`."""
    parser.add_argument("folder", metavar="DIR", help="folder of coop_sage --trace, or of starpu_fxt_tool -d")


def run(arguments: argparse.Namespace) -> int:
    """`starling report`: print the report and write DIR/report.html."""
    analysis = Analysis(read(arguments.folder))
    path = os.path.join(arguments.folder, "report.html")
    with whole_file(path) as draft, open(draft, "w", encoding="utf-8", errors="replace") as file:
        file.write(page(analysis))
    print(text(analysis), end="")
    print(f"\nwith a picture: {path}")
    return 0
