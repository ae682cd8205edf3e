# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The notebooks in examples/ (tests/cli/test_python.sh): each cell of code runs. Skipped without libraries or data."""

import contextlib
import glob
import importlib.util
import io
import json
import os
import tempfile
import unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
NEEDS = {"cora": ["pandas"], "types": ["scipy", "torch_geometric"], "links": ["pandas"]}
DATA = os.environ.get("DATASETS", "")


def run(name):
    """Run a notebook's cells as Jupyter does: a last expression is shown. Returns the cells' variables."""
    with open(os.path.join(EXAMPLES, f"{name}.ipynb"), encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    scope = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "a notebook is stored without outputs"
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("".join(cell["source"]), f"{name}, {cell['id']}", "exec"), scope)
    return scope


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        tempfile.tempdir = self.folder.name
        self.addCleanup(setattr, tempfile, "tempdir", None)
        os.environ["MPLBACKEND"] = "Agg"

    def needs(self, name):
        for module in NEEDS[name]:
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"{module} is missing")

    def test_each_notebook_is_here(self):
        found = {os.path.splitext(os.path.basename(path))[0] for path in glob.glob(os.path.join(EXAMPLES, "*.ipynb"))}
        self.assertEqual(found, set(NEEDS))

    def test_cora(self):
        self.needs("cora")
        if not os.path.isdir(os.path.join(DATA, "cora")):
            self.skipTest("there is no dataset cora")
        os.environ["STARLING_DATA"] = DATA
        self.addCleanup(os.environ.pop, "STARLING_DATA")
        scope = run("cora")
        self.assertGreater(scope["run"].test_acc, 0.75)
        self.assertAlmostEqual(scope["model"].evaluate(scope["graph"]).test_acc, scope["run"].test_acc, places=6)

    def test_types(self):
        self.needs("types")
        scope = run("types")
        self.assertGreater(scope["run"].test_acc, 0.6)

    def test_links(self):
        self.needs("links")
        scope = run("links")
        self.assertGreater(scope["run"].test_auc, 0.75)


if __name__ == "__main__":
    unittest.main()
