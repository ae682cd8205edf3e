# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The command `starling` (tests/cli/test_python.sh): its table of commands, its errors, files written whole."""

import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import starling_gnn as sl
from starling_gnn import __main__ as command
from starling_gnn import _tools

from support import run


class Table(unittest.TestCase):
    def fail_with(self, error):
        module = types.ModuleType("starling_gnn._made_up")
        module.add_arguments = lambda parser: parser.add_argument("--depth", type=int)
        module.run = mock.Mock(side_effect=error)
        with mock.patch.dict(sys.modules, {module.__name__: module}):
            with mock.patch.dict(command.COMMANDS, {"made": ("_made_up", "Make up.")}):
                return run("made"), run("made", "--depth", "x")

    def test_help_and_version(self):
        status, out, _ = run("--help")
        self.assertEqual(status, 0)
        for name in command.COMMANDS:
            self.assertIn(f"  {name}", out)
            self.assertEqual(run(name, "--help")[0], 0)
        self.assertEqual(run("--version"), (0, f"starling {sl.__version__}\n", ""))

    def test_unknown_commands(self):
        for words in ([], ["made-up"], ["--made-up"]):
            status, out, err = run(*words)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
            self.assertIn("expected a command", err)

    def test_errors_are_one_line(self):
        for error, words in (
            (ValueError("two\nlines"), "two lines"),
            (FileNotFoundError(2, "No such file", "/nowhere"), "/nowhere: No such file"),
            (MemoryError(), "out of memory"),
            (ImportError("needs time"), "needs time"),
        ):
            failed, usage = self.fail_with(error)
            self.assertEqual(failed, (1, "", f"starling made: {words}\n"))
            self.assertEqual(usage[0], 2)
            self.assertEqual(usage[2].count("\n"), 1, usage[2])

    def test_missing_libraries_are_named(self):
        with self.assertRaisesRegex(ImportError, "pip install made-up, or Debian's python3-made-up"):
            _tools.need("no_such_module", "made-up", "python3-made-up")


class WholeFile(unittest.TestCase):
    def test_half_a_file_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.txt")
            with _tools.whole_file(path) as draft, open(draft, "w") as file:
                file.write("old")
            with self.assertRaises(ValueError), _tools.whole_file(path) as draft:
                with open(draft, "w") as file:
                    file.write("new")
                raise ValueError("stop")
            with open(path) as file:
                self.assertEqual(file.read(), "old")
            self.assertEqual(os.listdir(folder), ["a.txt"])
            with self.assertRaises(FileNotFoundError) as caught:
                with _tools.whole_file(os.path.join(folder, "none", "a.txt")):
                    pass
            self.assertEqual(caught.exception.filename, os.path.join(folder, "none", "a.txt"))


if __name__ == "__main__":
    unittest.main()
