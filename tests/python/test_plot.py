# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling plot` and Run.plot() (tests/cli/test_python.sh): what the pictures show, runs of every
kind, broken input."""

import html
import json
import math
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree as tree
from unittest import mock

from starling_gnn import _curves

from support import Folder, needs, run

CONFIG = {
    "event": "config",
    "version": "9",
    "dataset": "d",
    "options": {"model": "m", "best_by": "acc", "lr": 0.01, "seed": 1, "metrics": "a", "cache": "b", "save_names": "c"},
}


def epoch(n, loss=1.0, valid=0.5, test=0.4, seconds=1.0, score="acc", **more):
    line = {"event": "epoch", "epoch": n, "train_loss": loss, "valid_loss": 2, f"valid_{score}": valid}
    return {**line, f"test_{score}": test, "seconds": seconds, **more}


def config(**options):
    return {**CONFIG, "options": {**CONFIG["options"], **options}}


class Files(Folder):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.here)

    def write(self, path, *lines):
        with open(path, "w") as file:
            file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        return path

    def refuse(self, status, pattern, *words):
        before = sorted(os.listdir())
        found, out, err = run("plot", *words)
        self.assertEqual((found, out, err.count("\n")), (status, "", 1), err)
        self.assertRegex(err, "^starling plot: .*" + pattern)
        self.assertEqual(sorted(os.listdir()), before)


class Read(Files):
    """The lines of --metrics."""

    def curve(self, *lines):
        return _curves.read(self.write("run.jsonl", *lines))

    def test_best_epoch_is_the_earliest_of_equals(self):
        curve = self.curve(CONFIG, epoch(1, valid=0.5), epoch(2, valid=0.7), epoch(3, valid=0.7), {"event": "summary"})
        self.assertEqual((curve.best, curve.best_by, curve.scores), (1, "acc", ["acc"]))
        self.assertEqual(curve.result(), "best epoch 2: acc 70.00 % valid, 40.00 % test; 3 epochs, 1 s each")
        errors = [epoch(n, valid=valid, test=None, score="mse") for n, valid in ((1, 4), (2, 3), (3, 5))]
        curve = self.curve(config(best_by="mse"), *errors)
        self.assertEqual(curve.result(), "best epoch 2: mse 3 valid, - test; 3 epochs, 1 s each, not ended")
        curve = self.curve(CONFIG, epoch(1, valid=None, test=None), epoch(2, valid=None, test=None))
        self.assertRegex(curve.result(), "^no evaluation; 2 epochs")

    def test_resumed_and_repeated_runs(self):
        resumed = self.curve(CONFIG, epoch(1), epoch(2), {"event": "summary"}, CONFIG, epoch(3), {"event": "summary"})
        self.assertEqual((list(resumed.epochs), list(resumed.seconds)), ([1, 2, 3], [1, 2, 3]))
        self.assertTrue(resumed.ended)
        last = self.curve(CONFIG, epoch(1), epoch(2), config(lr=0.1), epoch(1), epoch(0), '{"event":"epoch","epo')
        self.assertEqual((list(last.epochs), last.options["lr"], last.ended), ([1], 0.1, False))
        self.assertEqual(list(self.curve(CONFIG, epoch(0)).epochs), [0])

    def test_odd_numbers(self):
        values = (math.nan, None, "x", True, [], 1e400, -1e400, 10**400, 1e31)
        curve = self.curve(CONFIG, *(epoch(n, loss=value) for n, value in enumerate(values, 1)))
        self.assertTrue(all(map(math.isnan, curve.values("loss"))))
        odd = ["[]\n", "3\n", '"x"\n', '{"event":3}\n', "[" * 100000 + "\n", epoch("x"), epoch(True)]
        curve = self.curve(*odd, CONFIG, *odd, epoch(1, stage_seconds=[]), {"event": "epoch", "epoch": 2})
        self.assertEqual((len(curve.epochs), curve.stages().any()), (2, False))
        stages = ({"sample": 2, "dense": None}, {"sample": 4, "other": 1})
        curve = self.curve(CONFIG, *(epoch(n, stage_seconds=s) for n, s in enumerate(stages)))
        self.assertEqual(list(curve.stages())[:2], [3, 0])

    def test_names_and_differences(self):
        os.mkdir("a")
        self.write("a/metrics.jsonl", CONFIG, epoch(1))
        self.write("a/other.jsonl", "")
        self.write("b.jsonl", config(lr=0.003, metrics="x", cache="y", save_names="z", only_here=1), epoch(1))
        curves = _curves.read_all(["a", "b.jsonl"])
        self.assertEqual([curve.name for curve in curves], ["a", "b"])
        self.assertEqual(_curves._differences(curves), ["lr 0.01", "lr 0.003"])
        self.write("a/b.jsonl", CONFIG, epoch(1))
        self.assertEqual([curve.name for curve in _curves.read_all(["a/b.jsonl", "b.jsonl"])], ["a/b", "b"])


@needs("matplotlib")
class Pictures(Files):
    def texts(self, path):
        """The texts of an SVG file, of which matplotlib writes a comment each."""
        parser = tree.XMLParser(target=tree.TreeBuilder(insert_comments=True))
        return [html.unescape(e.text).strip() for e in tree.parse(path, parser).iter() if e.tag is tree.Comment]

    def plot(self, *words):
        status, out, err = run("plot", *words)
        self.assertEqual((status, err, out.count("\n")), (0, "", 1))
        return out.strip()

    def shows(self, path, *wanted):
        texts = self.texts(path)
        for text in wanted:
            self.assertTrue(any(text in found for found in texts), (text, texts))
        return texts

    def test_one_run(self):
        stages = {"sample": 1, "backward": 2}
        lines = [epoch(n, loss=1 / n, valid=n / 40, valid_f1=0.3, stage_seconds=stages) for n in range(1, 31)]
        self.write("one.jsonl", CONFIG, *lines, {"event": "summary"})
        self.assertEqual(self.plot("one.jsonl"), "one.png")
        out = self.plot("one.jsonl", "--out", "one.svg")
        words = ("d, m", "one", "best epoch 30: acc 75.00 %", "epoch", "training time, s", "Loss, nats", "best epoch")
        self.shows(out, *words, "Accuracy (acc), %", "Macro F1 (f1), %", "training", "validation", "test", "backward")
        for name, start in (("one.png", b"\x89PNG\r\n\x1a\n"), ("one.pdf", b"%PDF-")):
            with open(self.plot("one.jsonl", "--out", name), "rb") as file:
                self.assertTrue(file.read().startswith(start))

    def test_several_runs(self):
        paths = [self.write(f"seed{n}.jsonl", config(seed=n), epoch(1), epoch(2)) for n in range(8)]
        self.assertEqual(self.plot(*paths), "plot.png")
        texts = self.shows(self.plot(*paths, "--out", "all.svg"), "seed0: seed 0", "seed7: seed 7", "not ended")
        self.assertFalse([text for text in texts if "metrics" in text])
        self.refuse(1, "found 9 runs, expected 8 at most", *paths, "seed0.jsonl")

    def test_odd_names(self):
        names = ("_a <&\">'", "a$b$_{c}", "字", os.fsdecode(b"a\xff\x01b"), "x" * 200)
        paths = [self.write(name + ".jsonl", CONFIG, epoch(1)) for name in names]
        self.shows(self.plot(*paths, "--out", "odd.svg"), "_a <&\">'", "a$b$_{c}", "字", "a�?b", "x" * 99 + "…")

    def test_odd_numbers(self):
        values = (0, -5, 1e-300, 1e29, 123456789, 0.30000000000000004)
        lines = [[epoch(n, value, value, value, value) for n in (1, 2)] for value in values]
        flat = [self.write(f"flat{n}.jsonl", CONFIG, *pair) for n, pair in enumerate(lines)]
        self.shows(self.plot(*flat, "--out", "flat.svg"), "best epoch 1")
        self.shows(self.plot(flat[-1], "--out", "flat.svg"), "best epoch 1")
        self.write("none.jsonl", CONFIG, epoch(1, None, None, None, None, valid_loss=None))
        self.shows(self.plot("none.jsonl", "--out", "none.svg"), "no finite value", "no evaluation")
        self.write("far.jsonl", CONFIG, epoch(1, 1, -1e29, 1e29, 4000), epoch(1000000, 2, 1, 1, 20000))
        self.shows(self.plot("far.jsonl", "--out", "far.svg"), "training time, hours")
        self.write("long.jsonl", CONFIG, *(epoch(n, 1 / n, n % 97 / 97) for n in range(1, 5001)))
        self.shows(self.plot("long.jsonl", "--out", "long.svg"), "best epoch 96")
        self.assertLess(os.path.getsize("long.svg"), 3000000)

    def curves(self, *lines):
        from matplotlib.figure import Figure

        figure = Figure()
        _curves.draw([_curves.read(self.write("run.jsonl", *lines))], figure)
        return {line.get_label(): line for axes in figure.axes for line in axes.lines}

    def test_a_diverged_loss_breaks_its_curve(self):
        lines = self.curves(CONFIG, epoch(1), epoch(2, None, None), epoch(3), epoch(4, valid=0.9))
        self.assertEqual(str(lines["training"].get_ydata()), "[ 1. nan  1.  1.]")
        self.assertEqual(list(lines["test"].get_ydata()), [40, 40, 40, 40])
        self.assertEqual(list(lines["best epoch"].get_ydata()), [90])
        self.assertEqual(lines["test"].get_marker(), "o")

    def test_broken_input(self):
        good = self.write("good.jsonl", CONFIG, epoch(1))
        self.write("nothing.jsonl")
        self.write("begun.jsonl", CONFIG)
        self.write("text.txt", "words\n")
        os.mkdir("hollow")
        os.mkdir("two")
        self.write("two/a.jsonl")
        self.write("two/b.jsonl")
        os.mkdir("folder.png")
        self.refuse(1, "nothing.jsonl: found no run, expected a file of coop_sage --metrics", "nothing.jsonl")
        self.refuse(1, "begun.jsonl: found no whole epoch", "begun.jsonl")
        self.refuse(1, "expected a file of", "text.txt", "--out", "x.svg")
        self.refuse(1, "nowhere.jsonl: No such file", good, "nowhere.jsonl", "--out", "x.svg")
        self.refuse(1, "hollow: found 0 files, expected one of --metrics", "hollow")
        self.refuse(1, "two: found 2 files, expected one of --metrics", "two")
        self.refuse(1, "no-folder/x.svg: No such file", good, "--out", "no-folder/x.svg")
        self.refuse(1, "folder.png: Is a directory", good, "--out", "folder.png")
        self.refuse(1, "Format 'txt' is not supported .supported formats: .*png", good, "--out", "x.txt")
        self.refuse(2, "RUN")


class Missing(Files):
    def test_matplotlib_is_named(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.figure": None}):
            self.refuse(1, "needs matplotlib; install it: pip install matplotlib, or Debian's python3-matplotlib", "x")

    def test_training_does_not_import_it(self):
        code = "import sys, starling_gnn; sys.exit('matplotlib' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
