# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Where the time of a trace went: `starling report`.

Each worker's makespan is cut into busy, StarPU, transfers and idle. The time between two tasks counts for the category
of the later task, because the worker waited for it. The time after a worker's last task is the tail. So the sums over
all categories and the tail are workers times makespan.
"""

from __future__ import annotations

import argparse
import graphlib
import html
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from ._numpy import np
from ._timeline import elapsed, picture
from ._tools import whole_file
from ._trace import BUSY, IDLE, KINDS, STAGES, STARPU, TRANSFERS, Pair, Task, Trace, read

TINY = 20e-6  # seconds: below, StarPU's own work per task is no longer small compared with the task
_WORDS = """makespan: from the first submission to the end of the last task
critical path: the longest chain of dependent tasks, without any wait; more workers cannot go below it
overlap: fraction of sampling and gathering during the compute of an earlier step
hidden: fraction of the same time during which another worker runs a compute task
StarPU, transfers, idle: what a worker did just before the tasks of a category: scheduling, fetching data, nothing"""


def percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else 0.0


class Analysis:
    """Sums over states, the overlap with compute, and the critical path of a trace. Tables of pandas, in seconds.

    stages : a row for each category, over all workers
        n, n_tiny: tasks. By KINDS: busy is in its tasks, the others are just before them. tiny_starpu: the part of
        StarPU before its tiny tasks. beside: the part of busy while some worker computes. path: on the critical path.
    workers, busy : a row for each (rank, worker), by KINDS; and by category
    tail : by KINDS, after each worker's last task
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        states = trace.states
        states["seconds"] = states.end - states.start
        worker, busy = [states["rank"], states.worker], states.kind == BUSY
        states["next"] = states.stage.where(busy).groupby(worker).bfill().fillna("")  # the task that the time is before
        turn = busy.groupby(worker).cumsum() - busy
        starpu = states.seconds.where(states.kind == STARPU, 0).groupby([*worker, turn]).transform("sum")
        tasks = busy & ~states.resumed
        tiny = tasks & (states.seconds < TINY)
        found = self._sum("next").assign(
            n=tasks.groupby(states.next).sum(),
            n_tiny=tiny.groupby(states.next).sum(),
            tiny_starpu=starpu.where(tiny, 0).groupby(states.next).sum(),
        )
        self.tail = found.loc[""] if "" in found.index else 0 * found.iloc[0]
        self.stages = found.reindex(trace.stages, fill_value=0)
        self.workers = self._sum(["rank", "worker"])
        self.busy = self._sum(["rank", "worker"], "stage", states[busy]).reindex(columns=trace.stages, fill_value=0)
        self._hide(states[busy])
        self.path: list[Task] = []
        self.path_s = self._follow()
        self.total = self.workers.sum()
        self.n, self.n_tiny = int(self.stages.n.sum()), int(self.stages.n_tiny.sum())
        self.whole = len(self.workers) * trace.makespan

    def _sum(self, rows: Any, columns: str = "kind", states: Any = None) -> Any:
        """The seconds of states, by rows and columns."""
        states = self.trace.states if states is None else states
        made = states.pivot_table("seconds", rows, columns, "sum", fill_value=0)
        return made.reindex(columns=list(KINDS), fill_value=0) if columns == "kind" else made

    def _hide(self, busy: Any) -> None:
        """overlap: with the whole span of earlier steps, as in the metrics. hidden: with tasks, without the holes."""
        compute = busy[~busy.stage.isin(STAGES) | busy.stage.isin(STAGES[3:9])].sort_values("start")
        apart = (compute.start > compute.end.cummax().shift()).cumsum()
        spans = compute.groupby(apart).agg({"start": "min", "end": "max"})
        inside = elapsed(spans, busy.end) - elapsed(spans, busy.start)
        self.stages["beside"] = busy.assign(inside=inside).groupby("stage").inside.sum()
        self.stages = self.stages.fillna(0)
        steps = compute.groupby("step").agg({"start": "min", "end": "max"})  # each step, and those before it
        steps = steps.assign(start=steps.start.cummin(), end=steps.end.cummax())
        asked = busy[busy.stage.isin(["sample", "gather"]) & busy.step.notna()]
        earlier = np.searchsorted(steps.index, asked.step) - 1
        asked, known = asked[earlier >= 0], asked.seconds.sum()
        span = steps.iloc[earlier[earlier >= 0]]
        covered = np.minimum(asked.end, span.end.to_numpy()) - np.maximum(asked.start, span.start.to_numpy())
        self.overlap = float(covered.clip(lower=0).sum() / known) if known else math.nan

    def alone(self, *names: str) -> tuple[float, float]:
        """Busy seconds of categories, and those of them without compute beside."""
        busy, beside = self.stages.loc[list(names), [BUSY, "beside"]].sum()
        return float(busy), float(busy - beside)

    def _follow(self) -> float:
        """Find the longest chain of dependent tasks: visit each after its dependencies. Returns its seconds."""
        tasks = self.trace.tasks
        ends: dict[Pair, float] = {}
        last: dict[Pair, Optional[Pair]] = {}
        try:
            order = graphlib.TopologicalSorter({job: task.deps for job, task in tasks.items()}).static_order()
            for job in order:
                before = last[job] = max(tasks[job].deps, key=lambda dep: ends[dep], default=None)
                ends[job] = (0.0 if before is None else ends[before]) + tasks[job].end - tasks[job].start
        except graphlib.CycleError:
            message = "the trace's dependencies go round in a circle; expected one process's tasks.rec"
            raise ValueError(message) from None
        end: Optional[Pair] = max(ends, key=lambda job: ends[job])
        seconds = ends[end] if end else 0.0
        while end is not None:
            self.path += [tasks[end]] if tasks[end].worker else []
            end = last[end]
        self.path.reverse()
        self.stages["path"] = 0.0
        for task in self.path:
            self.stages.loc[task.stage, "path"] += task.end - task.start
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
    most, seconds = a.stages[list(KINDS)].idxmax(), a.stages[list(KINDS)].max()
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
    tiny = a.stages.tiny_starpu.sum()
    yield (
        tiny,
        f"tiny: {a.n_tiny} of {a.n} tasks took under 20 microseconds, and StarPU {tiny:.3f} s to hand them out; lower "
        "--chunks, or raise --batch-size",
    )
    rest = a.total[STARPU] - tiny
    if rest > 0.05 * whole:
        yield (
            rest,
            f"starpu: workers were in StarPU for {rest:.3f} s ({percent(rest, whole):.1f} %); make fewer and larger "
            "tasks (--chunks, --batch-size), or try another --sched",
        )
    moved = a.total[TRANSFERS]
    if moved > 0.05 * whole:
        yield (
            moved,
            f"transfers: workers waited {moved:.3f} s ({percent(moved, whole):.1f} %) for data, most of it before "
            f"'{most[TRANSFERS]}'; try --sched dmdas or --placement home",
        )
    work = a.total[BUSY] / n
    yield (
        n * (a.path_s - work),
        f"path: the critical path takes {a.path_s:.3f} s and the work, shared among {n} workers, {work:.3f} s: more "
        f"workers would not help; most of the path is '{a.stages.path.idxmax()}', split "
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
    names = ("busy", "in StarPU", "in transfers", "idle")
    shares = ", ".join(f"{percent(seconds, a.whole):.1f} % {name}" for seconds, name in zip(a.total, names))
    path = f"critical path {a.path_s:.4f} s, {percent(a.path_s, a.trace.makespan):.1f} % of the makespan"
    lines = [
        f"makespan {a.trace.makespan:.4f} s: {a.n} tasks on {len(a.workers)} workers, {shares}",
        f"{path}, {len(a.path)} tasks",
        f"tasks under 20 us: {a.n_tiny} of {a.n}",
    ]
    parts = a.alone("sample", "gather"), a.alone("exchange")
    hidden = [1 - alone / busy if busy else math.nan for busy, alone in parts]
    for label, share in (
        ("overlap of sampling and gathering with earlier steps", a.overlap),
        ("hidden: sampling and gathering with compute beside them", hidden[0]),
        ("hidden: row exchange with compute beside it", hidden[1]),
    ):
        lines.append(f"{label:<58} " + ("-" if math.isnan(share) else f"{share:.4f}"))
    return lines


def tables(a: Analysis) -> Iterator[tuple[str, Any]]:
    trace, kinds = a.trace, list(KINDS)
    used = a.stages[a.stages.n > 0]
    shown = used[["n", *kinds, "n_tiny", "path"]].copy()
    shown.loc["(after the last task)"] = {**a.tail, "n": 0, "n_tiny": 0, "path": 0}
    shown.loc["all"] = {**a.total, "n": a.n, "n_tiny": a.n_tiny, "path": a.path_s}
    columns = {"n": "tasks", "n_tiny": "under 20 us", "path": "on path"}
    shown = shown.astype({"n": int, "n_tiny": int}).rename(columns=columns)
    shown.insert(5, "sum", shown[kinds].sum(axis=1))
    yield "By time category, seconds of all workers (StarPU, transfers, idle: before its tasks)", shown
    sums = a.workers.assign(sum=a.workers.sum(axis=1))
    if trace.n_ranks > 1:
        by_rank = sums.groupby("rank").sum().reindex(range(trace.n_ranks), fill_value=0.0)
        for way, name in (("source", "sent"), ("target", "received")):
            messages = trace.messages.groupby(way).bytes.agg(["size", "sum"]).reindex(by_rank.index, fill_value=0)
            by_rank[name], by_rank["MB " + name] = messages["size"], messages["sum"] / 1e6
        yield "By rank, seconds of its workers; messages to others", by_rank.rename(index="rank {}".format)
    names = {worker: trace.name(worker) for worker in a.workers.index}
    for title, table in (
        ("By worker, seconds (each sum is the makespan)", sums),
        ("By worker and time category, seconds busy", a.busy[list(used.index)]),
    ):
        yield title, table.set_axis(list(names.values()))


_FORM: dict[str, Any] = {"float_format": "{:.6f}".format, "index_names": False}


def text(a: Analysis) -> str:
    lines = [*summary(a), "", "Most worth changing (at most this much of the makespan)"]
    lines += [f"  {gain:.3f} s ({percent(gain, a.trace.makespan):.1f} %)  {cause}" for gain, cause in advise(a)]
    for title, table in tables(a):
        lines += ["", title, table.rename_axis(columns=None).to_string(**_FORM)]
    return "\n".join(lines) + "\n"


def _tagged(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def page(a: Analysis) -> str:
    """The report as one HTML page that needs no other file."""
    gains = [f"{gain:.3f} s ({percent(gain, a.trace.makespan):.1f} %) {cause}" for gain, cause in advise(a)]
    parts = [_HEAD, *(_tagged("p", [line]) for line in summary(a)), picture(a.trace)]
    parts += ["<h2>Most worth changing (at most this much of the makespan)</h2><ol>", _tagged("li", gains), "</ol>"]
    for title, table in tables(a):
        parts += [_tagged("h2", [title]), table.rename_axis(columns=None).to_html(border=0, **_FORM)]
    return "\n".join([*parts, "<h2>Words</h2>", _tagged("p", _WORDS.splitlines()), "</body></html>\n"])


_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Starling trace</title><style>
body{font-family:sans-serif;margin:1.5em;max-width:1640px;color:#222}svg{width:100%;height:auto}p{margin:.3em 0}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}
tbody th{text-align:left;font-weight:normal}</style></head><body>
<h1>Where the time went</h1>"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder of coop_sage --trace, or of starpu_fxt_tool -d")


def run(arguments: argparse.Namespace) -> int:
    analysis = Analysis(read(arguments.folder))
    path = os.path.join(arguments.folder, "report.html")
    with whole_file(path) as draft, open(draft, "w", encoding="utf-8", errors="replace") as file:
        file.write(page(analysis))
    print(text(analysis), end="")
    print(f"\nwith a picture: {path}")
    return 0
