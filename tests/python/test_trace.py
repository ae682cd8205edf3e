# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling report` (tests/cli/test_python.sh): made-up traces worked out by hand, each rule of the advice, files that
are no traces, and traces of real runs. Times of made-up traces are milliseconds."""

import json
import math
import os
import random
import subprocess
import tempfile
import unittest
import warnings
from unittest import mock

from starling_gnn import _report
from starling_gnn._report import BUSY, IDLE, STARPU, TRANSFERS

from support import Folder, needs, run

PROGRAMS = os.environ.get("PROGRAMS", "")


@needs("pandas")
class Made(Folder):
    """A folder, and the two files of a made-up trace."""

    def setUp(self):
        super().setUp()
        self.rank = -1
        self.tasks, self.states = [], ["#\n# E: Event type\n#\n\n"]

    def write(self, name, text):
        with open(self.path(name), "w", newline="\n") as file:
            file.write(text)

    def event(self, kind, name, category, worker, time):
        self.states.append(f"E: {kind}\nN: {name}\nC: {category}\nW: {worker}\nT: -1\nS: {time:f}\n\n")

    def pop(self, worker, time):
        self.states.append(f"E: PopState\nW: {worker}\nT: 17\nS: {time:f}\n\n")

    def mark(self, text, time):
        self.states.append(f"E: ProgEvent\nN: {text}\nC: Program\nW: -1\nT: 0\nS: {time:f}\n\n")

    def begin(self, job, name, deps, worker, start, end, submit=0):
        job = f"{self.rank}_{job}" if self.rank >= 0 else job
        after = f"DependsOn: {deps}\n" if deps else ""
        times = f"SubmitTime: {submit:f}\nStartTime: {start:f}\nEndTime: {end:f}\nMPIRank: {self.rank}\n\n"
        self.tasks.append(f"Name: {name}\nModel: sl_some\nJobId: {job}\n{after}WorkerId: {worker}\n{times}")
        self.event("SetState", name, "Task", worker, start)

    def task(self, job, name, deps, worker, start, end, submit=0):
        """A task that ran; then its worker sleeps."""
        self.begin(job, name, deps, worker, start, end, submit)
        self.event("SetState", "Sleeping", "Other", worker, end)

    def read(self):
        self.write("tasks.rec", "".join(self.tasks))
        self.write("trace.rec", "".join(self.states))
        return _report.read(self.here)

    def analyse(self):
        return _report.Analysis(self.read())

    def small(self):
        """Two workers, ten milliseconds, two steps; a dependency through one of StarPU's own tasks (90), and one on a
        task outside the trace (77). The longest chain is 1, 3, 90, 4, 6: 2 + 3 + 2 + 1 = 8 ms."""
        self.event("SetState", "Initializing", "Runtime", 0, -100)
        self.event("SetState", "Initializing", "Runtime", 1, -100)
        self.task(1, "sample.fwd.sample.hop0.pe0.step0", "", 0, 0, 2)
        self.task(2, "gather.fwd.gather.hop2.pe0.step0", "", 1, 1, 3, submit=0.5)
        self.event("SetState", "Scheduling", "Runtime", 1, 3)
        self.event("SetState", "FetchingInput", "Runtime", 1, 3.5)
        self.event("SetState", "Sleeping", "Other", 1, 3.75)
        self.task(3, "exchange.fwd.pack.hop1.pe1.step0", "1 77", 0, 2, 5)
        self.task(4, "aggregate.fwd.aggregate.hop1.pe1.step0", "90 2", 0, 5, 7)
        self.task(5, "sample.fwd.merge.hop1.pe0.step1", "1", 1, 4, 6.5)
        self.tasks.append("Name: _starpu_sync_task\nJobId: 90\nDependsOn: 3 3\nSubmitTime: 0\n\n")
        self.task(6, "loss.fwd.loss.hop0.pe0.step0", "4", 0, 8, 9)
        self.event("PushState", "Callback", "Runtime", 0, 9.25)
        self.pop(0, 9.5)
        self.event("SetState", "Submitting task", "User", -1, 3)
        self.task(7, "optimise.upd.optimize.hop0.pe0.step0", "2", 1, 9.99, 10)
        self.event("SetState", "Deinitializing", "Runtime", 0, 200)

    def marked(self):
        """One worker. StarPU's times are 1 .. 4, 4 .. 8 and 9.5 .. 10; the codelets ran 1.5 .. 3.75, 4.25 .. 8 and ten
        microseconds."""
        self.mark("step0", 0.5)
        self.begin(1, "sample.fwd.sample.hop0.pe0.step0", "", 0, 1, 4)
        self.mark("sl_codelet.1.2250000", 3.75)
        self.begin(2, "dense.fwd.dense.hop0.pe0.step0", "1", 0, 4, 8)
        self.mark("sl_codelet.2.3750000", 8)
        self.event("SetState", "Sleeping", "Other", 0, 8)
        self.begin(3, "optimise.upd.optimize.hop0.pe0.step0", "2", 0, 9.5, 10)
        self.mark("sl_codelet.3.10000", 9.9)
        self.event("SetState", "Sleeping", "Other", 0, 10)
        self.mark("end", 11)

    def ranks(self):
        """Ranks of two workers and one. Rank 1's mark is longer than its task, whose times StarPU has moved; the second
        message was received before it was sent. What is outside the windows counts nowhere."""
        self.event("SetState", "Overhead", "Other", 0, -3)
        self.mark("rank0", -2)
        self.mark("step0", -1)
        self.rank = 0
        self.task(1, "sample.fwd.sample.hop0.pe0.step0", "", 0, 0, 2)
        self.task(3, "gather.fwd.gather.hop2.pe0.step0", "0_1", 1, 1, 3, submit=0.5)
        self.task(2, "dense.fwd.dense.hop0.pe0.step0", "0_1 0_3", 0, 5, 8)
        self.mark("end", 11)
        self.event("SetState", "Deinitializing", "Runtime", 0, 4)
        self.mark("rank1", 1)
        self.rank = 1
        self.begin(1, "sample.fwd.sample.hop0.pe1.step0", "", 0, 2, 4)
        self.mark("sl_codelet.1.2500000", 4)
        self.event("SetState", "Sleeping", "Other", 0, 4)
        self.task(2, "dense.fwd.dense.hop0.pe1.step0", "1_1", 0, 9, 10)
        self.mark("end", 11)
        message = "Src: {}\nDst: {}\nTag: 7\nSendTime: {}\nRecvTime: {}\nSize: {}\nType: PointToPoint\n\n"
        self.write("comms.rec", message.format(0, 1, 2, 2.5, 400) + message.format(1, 0, 4, 3.75, 40))


class Read(Made):
    def test_a_trace(self):
        self.small()
        trace = self.read()
        self.assertEqual([job for _, job in trace.tasks], [1, 2, 3, 4, 5, 6, 7, 90])
        self.assertAlmostEqual(trace.makespan, 0.010)
        four = trace.tasks[0, 4]
        self.assertEqual(
            (four.stage, four.pe, four.step, four.worker, four.deps), ("aggregate", 1, 0, (0, 0), [(0, 90), (0, 2)])
        )
        self.assertEqual(trace.tasks[0, 3].deps, [(0, 1)])
        self.assertIsNone(trace.tasks[0, 90].worker)
        for worker in ((0, 0), (0, 1)):
            states = trace.states[(trace.states["rank"] == worker[0]) & (trace.states.worker == worker[1])]
            self.assertEqual((states.start.iloc[0], states.end.iloc[-1]), (0, trace.makespan))
            self.assertEqual(states.end.tolist()[:-1], states.start.tolist()[1:])

    def test_marked_tasks_have_their_codelets_times(self):
        self.marked()
        tasks = self.read().tasks
        for job, start, end in ((1, 1.5, 3.75), (2, 4.25, 8), (3, 9.89, 9.9)):
            self.assertAlmostEqual(tasks[0, job].start, start / 1e3)
            self.assertAlmostEqual(tasks[0, job].end, end / 1e3)

    def test_ranks(self):
        self.ranks()
        trace = self.read()
        self.assertEqual(sorted(set(zip(trace.states["rank"], trace.states.worker))), [(0, 0), (0, 1), (1, 0)])
        self.assertEqual(trace.name((1, 0)), "rank 1: 0")
        self.assertEqual(trace.tasks[0, 2].deps, [(0, 1), (0, 3)])
        self.assertAlmostEqual(trace.tasks[1, 1].start, 0.002)
        self.assertEqual(trace.messages[["source", "target", "bytes"]].to_numpy().tolist(), [[0, 1, 400], [1, 0, 40]])
        self.assertAlmostEqual(trace.messages.sent[1], trace.messages.received[1])
        analysis = _report.Analysis(trace)
        self.assertTrue((abs(analysis.workers.sum(axis=1) - 0.010) < 1e-9).all())
        by_rank = dict(_report.tables(analysis))["By rank, seconds of its workers; messages to others"]
        self.assertEqual(by_rank.iloc[0, 5:].tolist(), [1, 0.0004, 1, 0.00004])

    def test_foreign_tasks_have_categories_by_name(self):
        for n, name in enumerate(["gemm(3,4)", "gemm 5", "12", "x\x01y", "sample.up.sample.hop0.pe0.step0"]):
            self.task(n, name, "", 0, n, n + 1)
        trace = self.read()
        self.assertEqual([task.stage for task in trace.tasks.values()][:4], ["gemm", "gemm_", "unnamed", "x_y"])
        self.assertTrue(all(task.step is None for task in trace.tasks.values()))
        for n in range(100):
            self.task(n + 10, "a" * (n % 40) + "b" * (n // 40) + "c", "", 0, n + 10, n + 11)
        self.assertEqual(len(self.read().stages), 64)

    def test_names(self):
        ours = "backward.bwd.dense_weight.hop1.pe2.step18446744073709551615"
        self.assertEqual(_report.Trace().parse(ours), ("backward", 2, 18446744073709551615))
        for end in ("", "1x", "1."):
            self.assertIsNone(_report.Trace().parse("sample.fwd.sample.hop0.pe0.step" + end)[2])

    def refused(self, name, text, words):
        kept = self.path(name)
        with open(kept) as file:
            whole = file.read()
        self.write(name, text)
        self.assertRaisesRegex(ValueError, words, _report.read, self.here)
        self.write(name, whole)

    def test_bad_files(self):
        self.assertRaises(FileNotFoundError, _report.read, self.here)
        self.small()
        self.read()
        ran = "\nWorkerId: 0\nStartTime: 1\nEndTime: 2\n\n"
        for text, words in (
            ("", "found no task that ran"),
            ("JobId: 1\n\n", "found no task that ran"),
            ("Name: x" + ran, "JobId"),
            ("JobId: one" + ran, "record up to line 5: expected JobId, numbers of tasks, found 'one'"),
            ("JobId: 9999999999999999999" + ran, "up to line 5"),
            ("JobId: 1" + ran + "JobId: 1" + ran, "a JobId, of one task"),
            ("JobId: 1\nDependsOn: 2,3" + ran, "expected DependsOn, numbers of tasks"),
            ("JobId: 1\nWorkerId: 0\nStartTime: 2\nEndTime: 1\n\n", "EndTime"),
            ("JobId: 1\nWorkerId: 0\nStartTime: nan\nEndTime: 1\n\n", "StartTime, a time"),
            ("JobId: 1\nWorkerId: 0\nStartTime: 0\nEndTime: 1e300\n\n", "EndTime, a time"),
            ("JobId: 1\nWorkerId: 5000\nStartTime: 0\nEndTime: 1\n\n", "WorkerId, a whole number below 4096"),
            ("JobId: 1\nWorkerId: 0\nStartTime: 1\nEndTime: 1\n\n", "no worker"),
        ):
            self.refused("tasks.rec", text, words)
        inside = "E: SetState\nN: gather\nC: Task\nW: 1\nS: 1\n\n"
        mark = "E: ProgEvent\nN: sl_codelet.{}\nC: Program\nW: -1\nS: {}\n\n"
        for text, words in (
            ("", "no worker"),
            ("E: SetState\nN: x\nC: Task\nW: 5000\nS: 1\n\n", "below 4096"),
            ("E: SetState\nC: Task\nW: 0\nS: 1\n\n", "a name"),
            ("E: SetState\nN: x\nC: Task\nW: 0\n\n", "a time"),
            (inside + mark.format("2", 2), "line 12: expected the mark"),
            (inside + mark.format("2.x", 2), "found 'sl_codelet.2.x'"),
            (inside + "E: ProgEvent\nN: sl_codelet.2.5\n\n", "a time"),
            *((inside + mark.format(f"{job}.5", 2), "ran for that time") for job in (78, 90, 1)),
            (inside + mark.format("2.5", 3.1), "ran for that time"),
            (inside + mark.format("2.1000001", 2), "ran for that time"),
            (inside + mark.format("2.5", 2) * 2, "line 18"),
            (mark.format("2.5", 2), "ran for that time"),
            ("E: PushState\nN: x\nC: Runtime\nW: 0\nS: 1\n\n" * 20, "pushed"),
        ):
            self.refused("trace.rec", text, words)

    def test_cut_files(self):
        self.small()
        self.read()
        tasks, states = "".join(self.tasks), "".join(self.states)
        self.refused("tasks.rec", tasks[:-1], "cut short")
        self.refused("trace.rec", states[:-1], "cut short")
        self.refused("trace.rec", states[: states.index("E: SetState\nN: optimise")], "0.500 ms before")
        self.states = []
        self.tasks = []
        self.marked()
        self.states.pop()
        self.assertRaisesRegex(ValueError, "found no mark 'end' after its steps", self.read)

    def test_damaged_files(self):
        """A status, or numbers that fit together."""
        self.ranks()
        self.read()
        draw = random.Random(3)
        for name in ("tasks.rec", "trace.rec", "comms.rec"):
            with open(self.path(name), "rb") as file:
                whole = file.read()
            for n in range(300):
                text = bytearray(whole)
                for _ in range(3):
                    text[draw.randrange(len(text))] = draw.randrange(256)
                with open(self.path(name), "wb") as file:
                    file.write(text[: draw.randrange(len(text))] if n % 2 else text)
                try:
                    analysis = _report.Analysis(_report.read(self.here))
                    _report.text(analysis)
                except (ValueError, OSError):
                    continue
            with open(self.path(name), "wb") as file:
                file.write(whole)


class Sums(Made):
    def near(self, found, milliseconds):
        self.assertAlmostEqual(float(found), milliseconds / 1e3, places=9)

    def test_times_worked_out_by_hand(self):
        self.small()
        a = self.analyse()
        times = {("sample", BUSY): 4.5, ("gather", IDLE): 1, ("sample", STARPU): 0.5, ("sample", TRANSFERS): 0.25}
        for place, time in {**times, ("sample", IDLE): 0.25, ("loss", IDLE): 1, ("optimise", IDLE): 3.49}.items():
            self.near(a.stages.loc[place], time)
        self.near(a.tail[IDLE], 0.75)
        self.near(a.tail[STARPU], 0.25)
        self.near(a.workers.loc[(0, 0), BUSY], 8)
        self.near(a.workers.loc[(0, 1), BUSY], 4.51)
        counts = a.n, a.n_tiny, a.stages.n["sample"], a.stages.n_tiny["optimise"]
        self.assertEqual(counts, (7, 1, 2, 1))
        self.near(a.stages[list(_report.KINDS)].sum().sum() + a.tail[list(_report.KINDS)].sum(), 20)
        self.near(a.total.sum(), 20)
        for name in a.stages.index:
            self.assertAlmostEqual(a.busy[name].sum(), a.stages.loc[name, BUSY])

    def test_marks_part_codelets_from_starpu(self):
        self.marked()
        a = self.analyse()
        self.near(a.workers.loc[(0, 0)].sum(), 10)
        times = {("sample", BUSY): 2.25, ("sample", IDLE): 1, ("sample", STARPU): 0.5, ("dense", BUSY): 3.75}
        times |= {("dense", STARPU): 0.5, ("optimise", BUSY): 0.01, ("optimise", STARPU): 0.39}
        for place, time in times.items():
            self.near(a.stages.loc[place], time)
        self.near(a.tail[STARPU], 0.1)
        self.near(a.path_s, 2.25 + 3.75 + 0.01)
        self.assertEqual((a.n, a.n_tiny), (3, 1))

    def test_an_interrupted_task_is_one(self):
        name = "loss.fwd.loss.hop0.pe0.step0"
        self.begin(1, name, "", 0, 0, 3)
        self.event("PushState", "Scheduling", "Runtime", 0, 1)
        self.pop(0, 2)
        self.event("SetState", "Sleeping", "Other", 0, 3)
        a = self.analyse()
        self.assertEqual(a.n, 1)
        self.near(a.total[BUSY], 2)
        self.near(a.total[STARPU], 1)

    def hidden(self, a, *names):
        busy, alone = a.alone(*names)
        return 1 - alone / busy

    def test_overlap_and_hidden(self):
        self.small()
        a = self.analyse()
        self.assertAlmostEqual(self.hidden(a, "sample", "gather"), 1.5 / 6.5)
        self.assertAlmostEqual(self.hidden(a, "exchange"), 0)
        self.assertAlmostEqual(a.overlap, 1.5 / 6.5)

    def test_overlap_spans_holes(self):
        self.task(1, "dense.fwd.dense.hop0.pe0.step0", "", 0, 0, 1)
        self.task(2, "dense.fwd.dense.hop0.pe0.step1", "", 0, 3, 4)
        self.task(3, "dense.fwd.dense.hop0.pe0.step0", "", 0, 5, 6)
        self.task(4, "sample.fwd.sample.hop0.pe0.step2", "", 1, 0, 4)
        self.task(5, "sample.fwd.sample.hop0.pe0.step1", "", 1, 5.5, 7.5)
        self.task(6, "exchange.fwd.pack.hop0.pe0.step2", "", 2, 0.5, 2.5)
        self.task(7, "gather.fwd.gather.hop0.pe0.step0", "", 3, 3, 4)
        a = self.analyse()
        self.assertAlmostEqual(a.overlap, 4.5 / 7)
        self.assertAlmostEqual(self.hidden(a, "sample", "gather"), 3.5 / 7)
        self.assertAlmostEqual(self.hidden(a, "exchange"), 0.5 / 2)

    def test_shares_of_nothing(self):
        self.task(1, "gemm", "", 0, 0, 1)
        a = self.analyse()
        self.assertTrue(math.isnan(a.overlap))
        self.assertEqual([line[-2:] for line in _report.summary(a)[-3:]], [" -"] * 3)

    def jobs(self, a):
        return [task.job[1] for task in a.path]

    def test_the_path(self):
        self.small()
        a = self.analyse()
        self.near(a.path_s, 8)
        self.assertEqual(self.jobs(a), [1, 3, 4, 6])
        self.near(a.stages.path["exchange"], 3)
        self.near(a.stages.path["gather"], 0)

    def test_the_path_is_longest_in_time(self):
        for job, deps, start, end in ((9, "", 0, 1), (8, "9", 1, 2), (7, "8", 2, 3), (6, "7 2", 11, 12)):
            self.task(job, "x", deps, 0, start, end)
        for job, deps, start, end in ((1, "", 0, 5), (2, "1", 5, 10)):
            self.task(job, "x", deps, 1, start, end)
        a = self.analyse()
        self.near(a.path_s, 11)
        self.assertEqual(self.jobs(a), [1, 2, 6])

    def test_a_circle(self):
        for job, dep in ((1, "3"), (2, "1"), (3, "2")):
            self.task(job, "x", dep, 0, job - 1, job)
        self.assertRaisesRegex(ValueError, "circle", self.analyse)


class Advice(Made):
    """One trace for each rule, in which the rule is the first."""

    def first(self, rule, milliseconds, words):
        a = self.analyse()
        advice = _report.advise(a)
        self.assertRegex(advice[0][1], f"^{rule}: .*{words}")
        self.assertAlmostEqual(advice[0][0], milliseconds / 1e3)
        gains = [gain for gain, _ in advice]
        self.assertEqual(gains, sorted(gains, reverse=True))
        self.assertTrue(all(gain >= 1e-3 * a.trace.makespan for gain in gains))
        self.assertIn(advice[0][1], _report.text(a))
        return advice

    def test_rules(self):
        ends = [(stage, "", n, 9.9, 10) for n, stage in enumerate(("loss", "sync", "optimise"), 1)]
        gather = [("sample", "", 0, 0, 1), ("dense", "", 0, 1, 2), ("gather", "", 0, 8, 10), ("dense", "", 1, 0, 10)]
        for rule, milliseconds, words, rows in (
            ("waiting", 3, "'gather' was ready; raise --depth", gather),
            ("tail", 3.5, "35.0 %", [("dense", "", 0, 0, 10), ("dense", "", 1, 0, 3)]),
            ("sampling", 6, "raise --depth", self.pair("sample", "dense", "sample")),
            ("exchange", 6, "raise --chunks", self.pair("exchange", "dense", "dense")),
            ("path", 7.425, "is 'backward'", [("dense", "", 0, 0, 4), ("backward", "1", 0, 4, 10), *ends]),
            ("kernel", 0.6, "'dense' is the largest time", [("dense", "", 0, 0, 6), ("aggregate", "", 0, 6, 10)]),
        ):
            with self.subTest(rule):
                self.tasks, self.states = [], self.states[:1]
                for job, (stage, deps, worker, start, end) in enumerate(rows, 1):
                    self.task(job, f"{stage}.fwd.x.hop0.pe0.step0", deps, worker, start, end)
                advice = self.first(rule, milliseconds, words)
        self.assertEqual(len(advice), 1)  # of a kernel alone

    @staticmethod
    def pair(first, *then):
        """Two workers in a category, and then in two others."""
        return [(first, "", 0, 0, 6), (first, "", 1, 0, 6), (then[0], "", 0, 6, 10), (then[1], "", 1, 6, 10)]

    def test_tiny(self):
        for n in range(1000):
            self.event("SetState", "Scheduling", "Runtime", 0, 0.04 * n)
            self.task(n + 1, "dense.fwd.dense.hop0.pe0.step0", "", 0, 0.04 * n + 0.03, 0.04 * n + 0.04)
        self.first("tiny", 30 - 0.03, "1000 of 1000 tasks")

    def test_starpu(self):
        for n in range(10):
            self.event("SetState", "Scheduling", "Runtime", 0, 10 * n + 1e-3)
            self.task(n + 1, "dense.fwd.dense.hop0.pe0.step0", "", 0, 10 * n + 2, 10 * n + 10)
        self.first("starpu", 10 * 1.999, "fewer and larger tasks")

    def test_transfers(self):
        self.task(1, "dense.fwd.dense.hop0.pe0.step0", "", 0, 0, 1)
        self.event("SetState", "FetchingInput", "Runtime", 0, 1)
        self.task(2, "aggregate.fwd.aggregate.hop0.pe0.step0", "1", 0, 6, 10)
        self.first("transfers", 5, "before 'aggregate'")


class Page(Made):
    @needs("pandas", "matplotlib")
    def test_report(self):
        for make in (self.small, self.ranks):
            self.tasks, self.states = [], []
            make()
            text = _report.text(self.analyse())
            status, out, err = run("report", self.here)
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(out, f"{text}\nwith a picture: {self.here}/report.html\n")
            with open(self.path("report.html")) as file:
                page = file.read()
            for words in ("Where the time went", "<svg", "#56b4e9", "Most worth changing", "By worker"):
                self.assertIn(words, page)
            for line in _report.advise(self.analyse()):
                self.assertIn(line[1].split(";")[0].replace("'", "&#x27;"), page)
        trace = self.read()
        trace.states = trace.states[trace.states["rank"] == 0]  # rank 1 has messages, and no states
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertIn("<svg", _report.picture(trace))
        self.assertNotRegex(page, r'(href|src)="[^#]|<script|<link|@import|url\([^#]')

    def test_words(self):
        self.small()
        lines = _report.summary(self.analyse())
        self.assertEqual(lines[0][:54], "makespan 0.0100 s: 7 tasks on 2 workers, 62.6 % busy, ")
        self.assertEqual(lines[1], "critical path 0.0080 s, 80.0 % of the makespan, 4 tasks")
        self.assertEqual(lines[2], "tasks under 20 us: 1 of 7")
        self.assertEqual(lines[3][-6:], "0.2308")

    @needs("pandas", "matplotlib")
    def test_foreign_names_are_escaped(self):
        self.task(1, '<b>&"x\\$', "", 0, 0, 4)
        self.task(2, '<b>&"x\\$', "1", 0, 4, 10)
        self.read()
        self.assertEqual(run("report", self.here)[0], 0)
        with open(self.path("report.html")) as file:
            page = file.read()
        self.assertIn("&lt;b&gt;&amp;&quot;x", page)
        self.assertNotIn("<b>&", page)

    def test_errors(self):
        self.write("tasks.rec", "JobId: x\n\n")
        self.write("report.html", "old")
        status, out, err = run("report", self.here)
        self.assertEqual((status, out, err.count("\n")), (1, "", 1))
        self.assertIn("tasks.rec, record up to line 2", err)
        with open(self.path("report.html")) as file:
            self.assertEqual(file.read(), "old")
        self.assertIn(
            "nowhere/tasks.rec: No such file; expected a folder that --trace has filled", run("report", "/nowhere")[2]
        )
        self.assertEqual(run("report")[0], 2)

    def test_matplotlib_is_named(self):
        self.small()
        self.read()
        with mock.patch.dict("sys.modules", {"matplotlib": None, "matplotlib.figure": None}):
            self.assertIn("needs matplotlib", run("report", self.here)[2])


@needs("pandas")
@unittest.skipUnless(os.path.exists(os.path.join(PROGRAMS, "coop_sage")), "there are no programs")
class Runs(unittest.TestCase):
    """Traces of the programs, where StarPU has FxT."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        sizes = "--vertices 6000 --edges 40000 --features 48 --classes 4"
        cls.call("starling_data", "generate", *sizes.split(), "--out", "made")

    @classmethod
    def call(cls, program, *options):
        command = [os.path.join(PROGRAMS, program), *options]
        return subprocess.run(command, cwd=cls.home.name, capture_output=True, text=True)

    def trace(self, program, *options):
        """The folder of a traced run."""
        folder = tempfile.mkdtemp(dir=self.home.name)
        common = ["--dataset", "./made", "--cache", "none", "--cpus", "2", "--trace", folder, "--metrics", "m.jsonl"]
        done = self.call(program, *common, *options)
        if "FxT" in done.stderr:
            self.skipTest("StarPU has no FxT")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"starling report {folder}", done.stdout)
        return folder

    def train(self, *options):
        sizes = "--layers 2 --hidden 128 --fanout 8,8 --batch-size 400 --pes 2 --epochs 2 --chunks 2 --norm batch"
        return self.trace("coop_sage", *sizes.split(), *options)

    def expect_steps(self, trace, first, last):
        for step in range(first, last + 1):
            seen = {(task.stage, task.pe) for task in trace.tasks.values() if task.worker and task.step == step}
            for stage in _report.STAGES[:9]:
                for pe in range(1 if stage in ("sync", "optimise") else 2):
                    self.assertIn((stage, pe), seen, step)

    def test_a_window_holds_its_steps(self):
        trace = _report.read(self.train("--trace-steps", "3:4"))
        self.expect_steps(trace, 3, 4)
        for task in trace.tasks.values():
            if task.worker and task.stage != "evaluate":
                steps = range(3, 7) if task.stage == "sample" else range(1, 5)
                self.assertIn(task.step, steps, task.name)

    def test_the_report_agrees_with_the_metrics(self):
        """A busy machine may take the processor away between a codelet's end and its mark: one run of some agrees."""
        apart = []
        for _ in range(10):
            analysis = _report.Analysis(_report.read(self.train()))
            with open(os.path.join(self.home.name, "m.jsonl")) as file:
                epoch = next(line for line in map(json.loads, file) if line["event"] == "epoch")
            # Minibatches are sampled ahead: the next epoch's are in the trace, too.
            last = max(task.step or 0 for task in analysis.path if task.stage != "sample")
            self.expect_steps(analysis.trace, 0, int(last))
            self.assertLessEqual(analysis.trace.makespan, epoch["seconds"])
            for stage in _report.STAGES[:9]:
                traced, measured = analysis.stages.loc[stage, BUSY], epoch["stage_seconds"][stage]
                self.assertAlmostEqual(traced, measured, delta=1e-3 * measured)
            for seconds in analysis.workers.sum(axis=1):
                self.assertAlmostEqual(seconds, analysis.trace.makespan)
            self.assertTrue(0 < analysis.path_s <= analysis.trace.makespan)
            apart.append(abs(analysis.overlap - epoch["overlap"]))
            if apart[-1] <= 0.02:
                break
        self.assertLessEqual(min(apart), 0.02)

    def test_slots_of_a_pipeline(self):
        """Chunk k is at stage s in slot s + k, and on the way back from the end likewise: as the dependencies say, if a
        stage works on one chunk at a time."""
        stages, chunks = 3, 5
        sizes = "--model gcn --layers 3 --hidden 16 --stages 3 --chunks 5 --epochs 1 --stages-cut 1,2"
        fixed = "--guard off --eval-every 0 --chunk-order fixed"
        trace = _report.read(self.trace("pipe_gnn", *sizes.split(), *fixed.split()))
        for back, kinds in ((False, ("aggregate", "dense")), (True, ("backward",))):
            seen, units = {}, {}
            for job, task in trace.tasks.items():
                if task.stage in kinds and task.worker:
                    n = seen[task.name] = seen.get(task.name, -1) + 1
                    units[job] = task.pe, chunks - 1 - n if back else n
            slot = {(s, k): 0 for s in range(stages) for k in range(chunks)}
            ready, changed = dict.fromkeys(trace.tasks, 0), True
            while changed:
                before = dict(slot), dict(ready)
                for job, task in trace.tasks.items():
                    for dep in task.deps:
                        outside = dep in units and units[dep] != units.get(job)
                        ready[job] = max(ready[job], slot[units[dep]] + 1 if outside else ready[dep])
                    if job in units:
                        slot[units[job]] = max(slot[units[job]], ready[job])
                for s, k in slot:
                    beside = (s, k + 1) if back else (s, k - 1)
                    slot[s, k] = max(slot[s, k], slot.get(beside, -1) + 1)
                changed = (slot, ready) != before
            for s, k in slot:
                place = (stages - 1 - s) + (chunks - 1 - k) if back else s + k
                self.assertEqual(slot[s, k], place, (back, s, k))


if __name__ == "__main__":
    unittest.main()
