# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A traced folder, read back: StarPU's tasks.rec and trace.rec, and with several ranks comms.rec.

They are recutils files: lines "Key: value", and an empty line after each record. A folder may come from another StarPU
program or a damaged disk. The category of a foreign task is its name up to the first number. A task with a mark
(sl_codelet.JOB.NANOSECONDS) has the times of its codelet; StarPU's time before and after counts as StarPU.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

from ._tools import expect, need

STAGES = ("sample", "exchange", "gather", "aggregate", "dense", "loss", "backward", "sync", "optimise", "evaluate")
KINDS = BUSY, STARPU, TRANSFERS, IDLE = "busy", "StarPU", "transfers", "idle"  # of states
_OURS = re.compile(rf"({'|'.join(STAGES)})\.(?:fwd|bwd|upd)\.[^.]*\.hop[0-9]+\.pe([0-9]+)\.step([0-9]+)")
_MOST_WORKERS, _MOST_NESTED, _MOST_STAGES = 4096, 16, 64

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
