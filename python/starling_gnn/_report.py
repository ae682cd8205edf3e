# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling report`: a traced folder, read back, and where its time went.

The folder has StarPU's tasks.rec and trace.rec, and with several ranks comms.rec. They are recutils files: lines
"Key: value", and an empty line after each record. A folder may come from another StarPU program or a damaged disk. The
category of a foreign task is its name up to the first number. A task with a mark (sl_codelet.JOB.NANOSECONDS) has the
times of its codelet; StarPU's time before and after counts as StarPU.

Each worker's makespan is cut into busy, StarPU, transfers and idle. The time between two tasks counts for the category
of the later task, because the worker waited for it. The time after a worker's last task is the tail. So the sums over
all categories and the tail are workers times makespan.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import graphlib
import html
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

from ._tools import Array, expect, need, np, whole_file

STAGES = ("sample", "exchange", "gather", "aggregate", "dense", "loss", "backward", "sync", "optimise", "evaluate")
KINDS = BUSY, STARPU, TRANSFERS, IDLE = "busy", "StarPU", "transfers", "idle"  # of states
_OURS = re.compile(rf"({'|'.join(STAGES)})\.(?:fwd|bwd|upd)\.[^.]*\.hop[0-9]+\.pe([0-9]+)\.step([0-9]+)")
_MOST_WORKERS, _MOST_NESTED, _MOST_STAGES = 4096, 16, 64
# As in paje.trace: neighbours differ, also for colour-blind readers (after Okabe and Ito). Foreign categories go round.
_HUES = "56b4e9 d55e00 f0e442 009e73 0072b2 000000 cc79a7 8c564b e69f00 7f6fb0"
_MOST_ARROWS = 500
_N_COLUMNS = 400
TINY = 20e-6  # seconds: below, StarPU's own work per task is no longer small compared with the task
_WORDS = """makespan: from the first submission to the end of the last task
critical path: the longest chain of dependent tasks, without any wait; more workers cannot go below it
overlap: fraction of sampling and gathering during the compute of an earlier step
hidden: fraction of the same time during which another worker runs a compute task
StarPU, transfers, idle: what a worker did just before the tasks of a category: scheduling, fetching data, nothing"""

Pair = Tuple[int, int]  # the rank, and the number of a job or of a worker there


@dataclass
class Task:
    """A task of tasks.rec. Times are seconds from the first submission or task."""

    job: Pair
    name: str
    deps: list[Pair]
    worker: Optional[Pair] = None  # None: a task of StarPU's own, which takes no time
    stage: str = ""
    pe: int = -1
    step: Optional[int] = None  # None: a foreign task
    start: float = 0.0
    end: float = 0.0


@dataclass
class Trace:
    """Tasks in the order of their jobs, and two tables of pandas.

    states: a row for each interval of a worker, by worker and time: rank, worker, start, end, kind (of KINDS), stage
    (if busy), step (nan: of a foreign task), resumed (it continues a state that a pushed state interrupted). The states
    of a worker fill the makespan. messages: source, target, bytes, sent, received.
    """

    tasks: dict[Pair, Task] = field(default_factory=dict)
    states: Any = field(default_factory=list)
    messages: Any = field(default_factory=list)
    stages: list[str] = field(default_factory=lambda: list(STAGES))
    begin: float = math.inf  # on StarPU's clock
    makespan: float = 0.0
    n_ranks: int = 1

    def name(self, worker: Pair) -> str:
        return f"rank {worker[0]}: {worker[1]}" if self.n_ranks > 1 else f"worker {worker[1]}"

    def parse(self, name: str) -> tuple[str, int, Optional[int]]:
        """Category, PE and step of a task's name."""
        if ours := _OURS.fullmatch(name):
            return ours[1], int(ours[2]), int(ours[3])
        stage = re.sub(r"[^\x21-\x7e]", "_", re.split(r"[0-9(]", name)[0][:40]) or "unnamed"
        if stage not in self.stages:
            stage = stage if len(self.stages) < _MOST_STAGES - 1 else "others"
            self.stages += [stage] * (stage not in self.stages)
        return stage, -1, None


class _Record(Dict[str, str]):
    """A record, and the line where it ends."""

    path, line = "", 0

    def wrong(self, expected: str, key: str = "") -> ValueError:
        found = f", found '{self[key][:60]}'" if key in self else ""
        return ValueError(f"{self.path}, record up to line {self.line}: expected {expected}{found}")

    def whole(self, key: str, limit: int) -> int:
        text = self.get(key, "")
        if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= limit:
            raise self.wrong(f"{key}, a whole number below {limit}", key)
        return int(text)

    def time(self, key: str) -> float:
        with contextlib.suppress(ValueError):
            if abs(time := float(self.get(key, ""))) <= 1e12:
                return time / 1e3
        raise self.wrong(f"{key}, a time in milliseconds", key)

    def jobs(self, key: str) -> list[Pair]:
        """Numbers of tasks: "7", or with several ranks "1_7"."""
        found = [re.fullmatch("(?:([0-9]{1,4})_)?([0-9]{1,18})", text) for text in self.get(key, "").split()]
        if not all(found):
            raise self.wrong(f"{key}, numbers of tasks", key)
        return [(int(job[1] or 0), int(job[2])) for job in found if job]


def _records(path: str) -> Iterator[_Record]:
    record = _Record()
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line != "\n":
                key, _, value = line.rstrip("\n").partition(": ")
                record[key] = value
                continue
            record.path, record.line = path, number
            yield record
            record = _Record()
    expect(not record, path, "a last record without an empty line", "one: it was cut short: was a disk full?")


def _read_tasks(path: str, trace: Trace) -> None:
    begin, end = math.inf, -math.inf
    for record in _records(path):
        if not {"JobId", "Name", "DependsOn"} & set(record):
            continue
        jobs = record.jobs("JobId")
        if len(jobs) != 1 or jobs[0] in trace.tasks:
            raise record.wrong("a JobId, of one task", "JobId")
        task = trace.tasks[jobs[0]] = Task(jobs[0], record.get("Name", ""), record.jobs("DependsOn"))
        if {"WorkerId", "StartTime", "EndTime"} <= set(record):
            rank = 0 if record.get("MPIRank", "-1") == "-1" else record.whole("MPIRank", _MOST_WORKERS)
            trace.n_ranks = max(trace.n_ranks, rank + 1)
            task.worker = rank, record.whole("WorkerId", _MOST_WORKERS)
            task.stage, task.pe, task.step = trace.parse(task.name)
            task.start, task.end = record.time("StartTime"), record.time("EndTime")
            if task.end < task.start:
                raise record.wrong("an EndTime after the StartTime", "EndTime")
            begin = min(begin, task.start, record.time("SubmitTime") if "SubmitTime" in record else math.inf)
            end = max(end, task.end)
    expect(begin < math.inf, path, "no task that ran", "the trace of some steps")
    trace.begin, trace.makespan = begin, end - begin
    trace.tasks = dict(sorted(trace.tasks.items()))
    for task in trace.tasks.values():
        task.start, task.end = (task.start - begin, task.end - begin) if task.worker else (0.0, 0.0)
        task.deps = [job for job in task.deps if job in trace.tasks]


class _Worker:
    """A worker while trace.rec is read. The last of `nested` is its state: kind, category, step."""

    def __init__(self, worker: Pair, trace: Trace) -> None:
        self.worker, self.trace, self.resumed, self.since = worker, trace, False, -math.inf
        self.nested: list[tuple[str, str, Optional[int]]] = [(IDLE, "", None)]

    def close(self, now: float) -> None:
        """End the current state. Before its first event a worker outside a task has no work yet: it is idle."""
        kind, stage, step = self.nested[-1]
        start, end = max(self.since, 0.0), min(now, self.trace.makespan)
        kind = IDLE if self.since <= 0 and kind != BUSY else kind
        self.since = max(now, self.since)
        if end > start:
            self.trace.states.append((*self.worker, start, end, kind, stage, step, self.resumed))

    def change(self, event: _Record, now: float) -> None:
        self.close(now)
        name, stage, step, kind = event.get("N", ""), "", None, IDLE
        self.resumed = event["E"] == "PopState"
        if self.resumed:
            self.nested = self.nested[:-1] or self.nested  # a push before the trace began left no state below
            return
        if event.get("C") == "Task":
            kind = BUSY
            stage, _, step = self.trace.parse(name)
        elif event.get("C") == "Runtime":
            kind = TRANSFERS if name in ("FetchingInput", "PushingOutput") else STARPU
        self.nested = (self.nested if event["E"] == "PushState" else []) + [(kind, stage, step)]
        if len(self.nested) > _MOST_NESTED:
            raise event.wrong(f"at most {_MOST_NESTED} states pushed on one another")

    def cut(self, start: float, end: float) -> None:
        """Cut the busy state to the time of its codelet."""
        busy, starpu = self.nested[-1], (STARPU, "", None)
        for state, until in ((starpu, start), (busy, end)):
            self.nested[-1] = state
            self.close(until)
        self.nested[-1] = starpu


def _mark(event: _Record, end: float, rank: int, trace: Trace, workers: dict[Pair, _Worker]) -> None:
    """The mark at the end of a task's codelet."""
    found = re.fullmatch(r"sl_codelet\.([0-9]{1,18})\.([0-9]{1,18})", event["N"])
    task = trace.tasks.get((rank, int(found[1]))) if found else None
    start = end - 1e-9 * int(found[2]) if found else end
    if task and trace.n_ranks > 1:  # StarPU has moved the times to rank 0's clock, but not the duration
        start = max(start, task.start)
    worker = workers.get(task.worker) if task and task.worker else None
    if not task or not worker or not task.start <= start <= end <= task.end or worker.nested[-1][0] != BUSY:
        raise event.wrong("the mark sl_codelet.JOB.NANOSECONDS of a task that ran for that time", "N")
    task.start, task.end = start, end
    worker.cut(start, end)


def _read_states(path: str, trace: Trace) -> None:
    """The events come rank by rank; with several ranks, each window is between the marks "rankR" and "end"."""
    workers: dict[Pair, _Worker] = {}
    rank, n_ended, last, has_step, outside = 0, 0, trace.begin, False, trace.n_ranks > 1
    for event in _records(path):
        kind, name = event.get("E"), event.get("N", "")
        now = event.time("S") if "S" in event else math.nan
        last = max(last, now)
        if kind == "ProgEvent":
            has_step = has_step or re.fullmatch("step[0-9]+", name) is not None
            n_ended += name == "end"
            opened = re.fullmatch("rank([0-9]{1,4})", name)
            if opened and int(opened[1]) < trace.n_ranks:
                rank = int(opened[1])
            outside = trace.n_ranks > 1 and (name == "end" or (outside and not opened))
            if name.startswith("sl_codelet."):
                _mark(event, event.time("S") - trace.begin, rank, trace, workers)
        elif kind in ("SetState", "PushState", "PopState") and not event.get("W", "-").startswith("-"):
            worker = rank, event.whole("W", _MOST_WORKERS)
            if kind != "PopState" and "N" not in event:
                raise event.wrong("N, a name")
            if not outside:
                workers.setdefault(worker, _Worker(worker, trace)).change(event, event.time("S") - trace.begin)
    for one in workers.values():
        one.close(math.inf)
    expect(trace.states, path, "no worker in any state", "the trace of some steps")
    whole = not has_step or n_ended >= trace.n_ranks
    expect(whole, path, "no mark 'end' after its steps", "one: it was cut short: was a disk full?")
    missing = trace.makespan + trace.begin - last
    expect(missing <= 1e-6, path, f"its end {1e3 * missing:.3f} ms before the last task", "all: was a disk full?")


def _read_messages(path: str, trace: Trace) -> None:
    """The ranks' clocks differ by microseconds: a receipt before the sending is moved to the sending."""
    for record in _records(path):
        if {"Src", "Dst", "SendTime", "RecvTime", "Size"} & set(record):
            source, target = (record.whole(key, trace.n_ranks) for key in ("Src", "Dst"))
            sent, received = (record.time(key) - trace.begin for key in ("SendTime", "RecvTime"))
            trace.messages.append((source, target, record.whole("Size", 1 << 63), sent, max(sent, received)))


def read(folder: str) -> Trace:
    """Read a traced folder. OSError: a file is missing. ValueError: a file is not of this form, or was cut short."""
    trace, tasks = Trace(), os.path.join(folder, "tasks.rec")
    if not os.path.exists(tasks):
        raise FileNotFoundError(errno.ENOENT, "No such file; expected a folder that --trace has filled", tasks)
    _read_tasks(tasks, trace)
    _read_states(os.path.join(folder, "trace.rec"), trace)
    if trace.n_ranks > 1:
        _read_messages(os.path.join(folder, "comms.rec"), trace)
    frame = need("pandas", "pandas", "python3-pandas").DataFrame
    columns = ["rank", "worker", "start", "end", "kind", "stage", "step", "resumed"]
    trace.states = frame(trace.states, columns=columns).astype({"step": float}).sort_values(columns[:3])
    trace.messages = frame(trace.messages, columns=["source", "target", "bytes", "sent", "received"])
    return trace


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole > 0 else 0:.1f} %"


def amount(seconds: float, whole: float) -> str:
    return f"{seconds:.3f} s ({percent(seconds, whole)})"


def elapsed(intervals: Any, times: Any) -> Array:
    """Seconds of the intervals before each time, (times,). intervals: a table with start and end."""
    times = np.asarray(times)
    made = np.zeros(len(times))
    for sign, edges in ((1, np.sort(intervals.start)), (-1, np.sort(intervals.end))):
        n = np.searchsorted(edges, times)
        made += sign * (n * times - np.concatenate([[0], np.cumsum(edges)])[n])
    return made


def _sum(states: Any, rows: Any, name: str, columns: Sequence[str]) -> Any:
    """The seconds of states by rows, and by their column `name`, whose values become `columns`."""
    made = states.pivot_table("seconds", rows, name, "sum", fill_value=0)
    return made.reindex(columns=list(columns), fill_value=0)


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
        found = _sum(states, "next", "kind", KINDS).assign(
            n=tasks.groupby(states.next).sum(),
            n_tiny=tiny.groupby(states.next).sum(),
            tiny_starpu=starpu.where(tiny, 0).groupby(states.next).sum(),
        )
        self.tail = found.loc[""] if "" in found.index else 0 * found.iloc[0]
        self.stages = found.reindex(trace.stages, fill_value=0)
        self.workers = _sum(states, ["rank", "worker"], "kind", KINDS)
        self.busy = _sum(states[busy], ["rank", "worker"], "stage", trace.stages)
        self._hide(states[busy])
        self.path: list[Task] = []
        self.path_s = self._follow()
        self.total = self.workers.sum()
        self.n, self.n_tiny = int(self.stages.n.sum()), int(self.stages.n_tiny.sum())
        self.whole = len(self.workers) * trace.makespan

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


# How to make more tasks of a category ready at a time.
_REMEDIES = dict.fromkeys(STAGES, "raise --chunks, for more and smaller tasks, or --depth, for other work meanwhile")
_REMEDIES |= dict.fromkeys(("sample", "gather"), "raise --depth, so that more minibatches are sampled ahead")
_REMEDIES |= dict.fromkeys(("sync", "optimise"), "they wait for all gradients; --depth gives other work meanwhile")
_REMEDY = "split the work before them into more tasks"  # of foreign tasks
_CAUSES = """waiting: workers were idle for {} until a task of '{}' was ready; {}
tail: workers were idle for {} after their last task: the edge of a window of steps; in whole epochs raise --chunks
sampling: sampling and gathering had no compute beside them for {}; raise --depth
exchange: the row exchange had no compute beside it for {}; raise --chunks, or send fewer rows (--partition metis)
tiny: {} of {} tasks took under 20 microseconds, and StarPU {:.3f} s to hand them out; lower --chunks
starpu: workers were in StarPU for {}; make fewer and larger tasks (--chunks, --batch-size), or try another --sched
transfers: workers waited for data for {}, most of it before '{}'; try --sched dmdas or --placement home
path: the critical path takes {:.3f} s, more than a worker's {:.3f} s; most of it is '{}', split it (--chunks)
kernel: '{}' is the largest time category, {} of all busy time; each tenth off its kernels saves {:.3f} s"""


def advise(a: Analysis) -> list[tuple[float, str]]:
    """The three causes that cost the most: seconds of the makespan at most, and a sentence with an option to try."""
    n, whole, least = len(a.workers), a.whole, 0.05 * a.whole
    most, seconds = a.stages[list(KINDS)].idxmax(), a.stages[list(KINDS)].max()
    sampled, alone = a.alone("sample", "gather")
    sent, apart = a.alone("exchange")
    tiny, moved, work = a.stages.tiny_starpu.sum(), a.total[TRANSFERS], a.total[BUSY] / n
    rest, saved = a.total[STARPU] - tiny, seconds[BUSY] / 10
    rules: list[tuple[Any, ...]] = [  # in the order of _CAUSES: at most so many seconds of all workers, and the words
        (seconds[IDLE], amount(seconds[IDLE], whole), most[IDLE], _REMEDIES.get(most[IDLE], _REMEDY)),
        (a.tail[IDLE], amount(a.tail[IDLE], whole)),
        (alone, amount(alone, sampled)),
        (apart, amount(apart, sent)),
        (tiny, a.n_tiny, a.n, tiny),
        (rest if rest > least else 0, amount(rest, whole)),
        (moved if moved > least else 0, amount(moved, whole), most[TRANSFERS]),
        (n * (a.path_s - work), a.path_s, work, a.stages.path.idxmax()),
        (saved, most[BUSY], amount(seconds[BUSY], a.total[BUSY]), saved / n),
    ]
    gains = [(rule[0] / n, text.format(*rule[1:])) for rule, text in zip(rules, _CAUSES.splitlines())]
    return sorted((gain for gain in gains if gain[0] >= 1e-3 * a.trace.makespan), key=lambda gain: -gain[0])[:3]


def summary(a: Analysis) -> list[str]:
    names = ("busy", "in StarPU", "in transfers", "idle")
    shares = ", ".join(f"{percent(seconds, a.whole)} {name}" for seconds, name in zip(a.total, names))
    path = f"critical path {a.path_s:.4f} s, {percent(a.path_s, a.trace.makespan)} of the makespan, {len(a.path)} tasks"
    lines = [
        f"makespan {a.trace.makespan:.4f} s: {a.n} tasks on {len(a.workers)} workers, {shares}",
        path,
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
    names = [trace.name(worker) for worker in a.workers.index]
    yield "By worker, seconds (each sum is the makespan)", sums.set_axis(names)
    yield "By worker and time category, seconds busy", a.busy[list(used.index)].set_axis(names)


def text(a: Analysis) -> str:
    lines = [*summary(a), "", "Most worth changing (at most this much of the makespan)"]
    lines += [f"  {amount(gain, a.trace.makespan)}  {cause}" for gain, cause in advise(a)]
    for title, table in tables(a):
        lines += ["", title, table.rename_axis(columns=None).to_string(float_format="{:.6f}".format, index_names=False)]
    return "\n".join(lines) + "\n"


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
    colours = {name: hues[n % len(hues)] for n, name in enumerate(trace.stages)}
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
    edges = np.linspace(0, trace.makespan, _N_COLUMNS + 1)  # above: how all workers divided their time; white is idle
    whole = trace.makespan / _N_COLUMNS * len(workers)
    shares = [np.diff(elapsed(of_layer, edges)) / whole * 100 for of_layer in layers.values()]
    labels = [f"{name} {share.mean():.1f} %" for name, share in zip(layers, shares)]
    above.stackplot(edges[1:] - edges[1] / 2, shares, colors=[colours[name] for name in layers], labels=labels)
    above.set(xlim=(0, trace.makespan), ylim=(0, 100), ylabel="all workers' time, %", xlabel="time, s")
    above.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize="small")
    for name, of_layer in layers.items():
        inside = of_layer[(of_layer.end > start) & (of_layer.start < end)]
        style = {"edgecolor": "white", "linewidth": 0.3} if name in STAGES else {}
        for worker, bars in inside.groupby(["rank", "worker"]):
            spans = list(zip(bars.start, bars.end - bars.start))
            middle.broken_barh(spans, (workers.index(worker) - 0.45, 0.9), facecolor=colours[name], **style)
    lanes = {rank: np.mean([n for n, worker in enumerate(workers) if worker[0] == rank]) for rank, _ in workers}
    messages = trace.messages[(trace.messages.sent >= start) & (trace.messages.received <= end)]
    messages = messages[messages.source.isin(lanes) & messages.target.isin(lanes)]
    for message in messages.sort_values("bytes", ascending=False)[:_MOST_ARROWS].itertuples():
        head, tail = (message.received, lanes[message.target]), (message.sent, lanes[message.source])
        middle.annotate("", head, tail, arrowprops={"arrowstyle": "->", "linewidth": 0.7})
    middle.set_yticks(range(len(workers)), [trace.name(worker) for worker in workers])
    dashed = "; dashed: a step begins to compute" * bool(numbers)
    middle.set_title("Its middle, task by task" + dashed, fontsize=10)
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


# The report as one page that needs no other file.
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Starling trace</title><style>
body{{font-family:sans-serif;margin:1.5em;max-width:1640px}}svg{{width:100%;height:auto}}</style></head><body>
<h1>Where the time went</h1>
{}<pre>{}</pre><h2>Words</h2><pre>{}</pre></body></html>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder of coop_sage --trace, or of starpu_fxt_tool -d")


def run(arguments: argparse.Namespace) -> int:
    analysis = Analysis(read(arguments.folder))
    path = os.path.join(arguments.folder, "report.html")
    with whole_file(path) as draft, open(draft, "w", encoding="utf-8", errors="replace") as file:
        file.write(_PAGE.format(picture(analysis.trace), html.escape(text(analysis)), html.escape(_WORDS)))
    print(text(analysis), end="")
    print(f"\nwith a picture: {path}")
    return 0
