# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The Python package (tests/cli/test_python.sh): data, training, results, errors, signals, processes and threads."""

import concurrent.futures
import doctest
import functools
import gc
import importlib.util
import inspect
import io
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings
from unittest import mock

import numpy as np
import starling_gnn as sl
from starling_gnn import _library, _model, _session
from starling_gnn._sources import MASKS

from support import Bag, Folder, has, needs, of_dgl

N, F, K = 240, 6, 4
SMALL = dict(layers=2, hidden=8, fanout=[4, 4], batch_size=20, pes=2, epochs=4, lr=0.02, chunks=2, cpus=2)
DATA = os.environ.get("DATASETS", "")


def arrays(seed=1):
    """Edges, features, classes and sets; most edges stay in a class."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % K
    sources = np.repeat(np.arange(N), 3)
    destinations = np.where(
        np.tile([True, True, False], N), rng.integers(0, N // K, 3 * N) * K + sources % K, rng.integers(0, N, 3 * N)
    )
    x = (rng.random((N, F)) + 0.3 * (np.arange(F) == y[:, None])).astype(np.float32)
    ids = rng.permutation(N)
    return np.stack([sources, destinations]), x, y, dict(train=ids[:120], valid=ids[120:180], test=ids[180:])


def graph(**changes):
    edges, x, y, sets = arrays()
    return sl.Graph(**{**dict(edge_index=edges, x=x, y=y, name="crowds"), **sets, **changes})


def soon(seconds=0.5):
    """Ctrl-C after some time."""
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def losses(run):
    return [record.loss for record in run.records]


def trained(made, *model, **options):
    """The losses of a small training."""
    return losses(sl.train(made, *model, **{**SMALL, **options}))


HERE = os.path.dirname(os.path.abspath(__file__))
PROLOGUE = f"import sys\nsys.path.insert(0, {HERE!r})\nfrom test_module import *\n"


def in_python(code, *, timeout=60, expect=0, env=None):
    """Run code in an interpreter of its own, after the definitions of this file. Returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    if done.returncode != expect:
        raise AssertionError(f"status {done.returncode}, expected {expect}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Data(Folder):
    def same(self, **changes):
        self.assertEqual(trained(graph(**changes)), self.expected)

    @classmethod
    def setUpClass(cls):
        cls.expected = trained(graph())

    def test_types_of_edges(self):
        edges = arrays()[0]
        for kind in (np.int32, np.uint32, np.int64, np.uint16, np.float64):
            self.same(edge_index=edges.astype(kind))
        self.same(edge_index=(edges[0], edges[1]))
        self.same(edge_index=edges.tolist())
        self.same(edge_index=np.asfortranarray(edges))
        self.same(edge_index=np.repeat(edges, 2, axis=1)[:, ::2])

    def test_masks_and_ids(self):
        sets = arrays()[3]
        masks = {name: np.isin(np.arange(N), ids) for name, ids in sets.items()}
        self.same(**masks)
        for kind in (np.uint8, np.int64, np.float32):
            self.same(**{name: mask.astype(kind) for name, mask in masks.items()})
        self.same(**{name: ids.astype(np.uint32) for name, ids in sets.items()})
        self.same(**{name: ids.tolist() for name, ids in sets.items()})
        two = sl.Graph([[0], [1]], np.eye(2), [0, 1], train=[0, 1])  # with two vertices, 0 and 1 are their ids
        self.assertEqual(two.train.tolist(), [0, 1])

    def test_types_of_features(self):
        x = arrays()[1]
        read_only = x.copy()
        read_only.flags.writeable = False
        self.same(x=read_only)
        self.assertIs(graph(x=read_only)._features.array, read_only)  # not copied
        self.same(x=x.astype(np.float64))
        self.same(x=np.asfortranarray(x))
        wide = np.zeros((2 * N, 2 * F), np.float32)
        wide[::2, ::2] = x
        self.same(x=wide[::2, ::2])
        self.same(x=x.tolist())
        self.same(x=memoryview(x))
        self.same(x=x.astype(np.float64).tolist())
        narrow = x.astype(np.float16)
        self.assertEqual(trained(graph(x=narrow)), trained(graph(x=narrow.astype(np.float32))))
        whole = (x * 50).astype(np.int8)
        self.assertEqual(trained(graph(x=whole)), trained(graph(x=whole.astype(np.float32))))
        before = x.copy()
        sl.train(graph(x=x), **SMALL)
        np.testing.assert_array_equal(x, before)

    def test_types_of_labels(self):
        y = arrays()[2]
        for kind in (np.int8, np.uint8, np.int32, np.int64):
            self.same(y=y.astype(kind))
        self.same(y=y[:, None])
        ids = arrays()[3]["train"]
        unknown = y.copy()
        unknown[ids[100:]] = -100
        self.assertEqual(graph(y=unknown, train=ids[:100]).n_outputs, K)
        numbers = graph(y=np.random.default_rng(1).random(N))
        self.assertEqual((numbers.n_outputs, numbers.has_classes), (1, False))
        sets = graph(y=np.eye(K, dtype=bool)[y])
        self.assertEqual((sets.n_outputs, sets.has_classes), (K, False))
        self.assertIn("test_ap", sl.train(sets, **SMALL).scores)
        self.assertIn("test_mse", sl.train(numbers, **SMALL).scores)

    def test_names_of_classes(self):
        """Texts are classes by sorted name; a categorical of pandas keeps its order. Unknown: None, nan, empty."""
        y, ids = arrays()[2], arrays()[3]["train"]
        self.assertEqual(graph().classes.tolist(), [0, 1, 2, 3])
        self.assertIsNone(graph(y=np.random.default_rng(1).random(N)).classes)
        names = np.array(["ash", "beech", "birch", "oak"])[y]
        forms = [names, names.tolist(), names.astype(object), names.astype("S"), names[:, None]]
        orders = [["ash", "beech", "birch", "oak"]] * len(forms)
        if has("pandas"):
            import pandas

            forms += [pandas.Series(names), pandas.Series(names).astype("category"), pandas.array(names)]
            orders += [orders[0]] * 3
        for form, order in zip(forms, orders):
            self.same(y=form)
            self.assertEqual(graph(y=form).classes.tolist(), order)
        hidden = ids[100:]
        for unknown in (None, np.nan, ""):
            partly = names.astype(object)
            partly[hidden] = unknown
            made = graph(y=partly, train=ids[:100])
            self.assertEqual((made.classes.tolist(), (made.y == -1).sum()), (orders[0], 20))
            made = graph(y=partly.tolist(), train=ids[:100])
            self.assertEqual((made.classes.tolist(), (made.y == -1).sum()), (orders[0], 20))
        made = graph(y=np.ma.masked_array(names, np.isin(np.arange(N), hidden)), train=ids[:100])
        self.assertEqual((made.classes.tolist(), (made.y == -1).sum()), (orders[0], 20))
        if has("pandas"):
            order = ["oak", "elm", "birch", "ash", "beech"]
            column = pandas.Series(pandas.Categorical(names, categories=order))
            made = graph(y=column)
            self.assertEqual((made.classes.tolist(), made.y[:4].tolist()), (order, [3, 4, 2, 0]))
            gaps = pandas.Series(y).astype("Int64")
            gaps[hidden] = None
            made = graph(y=gaps, train=ids[:100])
            self.assertEqual((made.n_outputs, (made.y == -1).sum()), (K, 20))
        self.refuses(ValueError, "n_classes: found 7, expected 4", graph, y=names, n_classes=7)
        self.refuses(ValueError, r"y: found the class 'a\\nb'", graph, y=["a\nb"] * N)

    @needs("pandas")
    def test_tables_of_pandas(self):
        import pandas

        x = arrays()[1]
        self.same(x=pandas.DataFrame(x), y=pandas.Series(arrays()[2]))
        self.same(edge_index=pandas.DataFrame(arrays()[0].T, columns=["from", "to"]).T)
        mixed = pandas.DataFrame({"a": x[:, 0] > 0.5, "b": x[:, 1], "c": pandas.array(np.arange(N), dtype="Int64")})
        self.assertEqual(graph(x=mixed).n_features, 3)
        with self.refuses(TypeError, "x: found the column town of other things than numbers"):
            graph(x=mixed.assign(town="Bonn"))
        # A model knows the columns by name; arrays have none.
        model = sl.train(graph(x=mixed), **SMALL).model
        scores = model.predict(graph(x=mixed))
        np.testing.assert_array_equal(model.predict(graph(x=mixed.to_numpy(np.float32))), scores)
        with self.refuses(ValueError, "features: found the column 'c' in 'crowds' where .* has 'a'"):
            model.predict(graph(x=mixed[["c", "b", "a"]]))
        with self.warns(sl.StarlingWarning, "crowds: the column 'd' is taken for 'c' of the model"):
            np.testing.assert_array_equal(model.predict(graph(x=mixed.rename(columns={"c": "d"}))), scores)
        for wrong, text in (
            (["a\nb", "c"], "y: found the class .*, expected names of one line"),
            ([1, "1"], "'1' twice"),
        ):
            self.refuses(ValueError, text, graph, y=pandas.Series(pandas.Categorical([wrong[i % 2] for i in range(N)])))
        # So it does the labels of a table.
        labels = pandas.DataFrame({"label_red": arrays()[2] == 1, "blue": arrays()[2] == 2}).astype(int)
        run = sl.train(graph(y=labels), **SMALL)
        self.assertEqual((run.classes.tolist(), list(run.predict_table())), (["red", "blue"], ["id", "red", "blue"]))
        expected = run.evaluate()
        for y in (labels, labels[["blue", "label_red"]], labels.to_numpy()):
            self.assertAlmostEqual(run.evaluate(graph(y=y)).valid_loss, expected.valid_loss, places=6)

    @needs("scipy")
    def test_scipy(self):
        import scipy.sparse as sparse

        edges, x = arrays()[:2]
        matrix = sparse.coo_matrix((np.ones(edges.shape[1]), tuple(edges)), shape=(N, N))
        for form in (matrix, matrix.tocsr(), matrix.tocsc(), sparse.csr_array(matrix)):
            self.same(edge_index=form)
        self.same(x=sparse.csr_matrix(x))
        rare = np.where(np.random.default_rng(1).random((N, 50)) < 0.05, 1, 0).astype(np.float32)
        dense = trained(graph(x=rare))
        unsorted = sparse.csr_matrix(rare)[:, ::-1][:, ::-1]
        for form in (sparse.csr_matrix(rare), sparse.coo_matrix(rare), sparse.csc_array(rare), unsorted):
            self.assertEqual(trained(graph(x=form)), dense)

    @needs("torch")
    def test_torch(self):
        import torch

        edges, x, y, sets = arrays()
        mask = torch.from_numpy(masks_of(sets)["train_mask"])
        self.same(
            edge_index=torch.from_numpy(edges),
            x=torch.from_numpy(x).requires_grad_(),
            y=torch.from_numpy(y),
            train=mask,
        )

        for kind in (torch.bfloat16, torch.float16):
            narrow = torch.from_numpy(x).to(kind)
            self.assertEqual(trained(graph(x=narrow)), trained(graph(x=narrow.float())))

        both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
        for edge_index, more in ((both, {}), (torch.from_numpy(edges), dict(directed=False))):
            data = Bag(edge_index=edge_index, x=torch.from_numpy(x), y=torch.from_numpy(y), train_mask=mask)
            made = sl.Graph.from_pyg(data, valid=sets["valid"], test=sets["test"], name="crowds", **more)
            self.assertEqual(trained(made), self.expected)

    def test_dlpack(self):
        class Tensor:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **keywords):
                return self.array.__dlpack__(**keywords)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        edges, x, y, sets = arrays()
        self.same(edge_index=Tensor(edges), x=Tensor(x), y=Tensor(y))

    def test_dgl(self):
        edges, x, y, sets = arrays()
        one_way = dgl_graph(edges, {"feat": x, "label": y})
        self.assertEqual(sl.Graph.from_dgl(one_way, **sets).n_edges, graph(directed=True).n_edges)
        made = sl.Graph.from_dgl(one_way, **sets, directed=False)
        self.assertEqual(trained(made), self.expected)
        both = dgl_graph(np.concatenate([edges, edges[::-1]], axis=1), {"feat": x, "label": y})
        self.assertEqual(trained(sl.Graph.from_dgl(both, **sets)), self.expected)

    def test_graphs_of_others(self):
        """Calls take the graphs of PyG and DGL as from_pyg and from_dgl do."""
        edges, x, y, sets = arrays()
        edges = np.concatenate([edges, edges[::-1]], axis=1)
        masks = masks_of(sets)
        data = Bag(edge_index=edges, x=x, y=y, **masks)
        for form in (data, dgl_graph(edges, {"feat": x, "label": y, **masks})):
            run = sl.train(form, **SMALL)
            self.assertEqual(losses(run), self.expected)
            np.testing.assert_allclose(run.predict(form), run.predict(), rtol=1e-5, atol=1e-6)
            self.assertEqual(sl.evaluate(form, run), run.evaluate(form))
        data = Bag(edge_index=None, adj_t=Bag(coo=lambda: (edges[1], edges[0], None)), x=x, y=y, **masks)
        self.assertEqual(trained(data), self.expected)
        if has("torch"):
            import torch

            ones = torch.ones(edges.shape[1])
            data.adj_t = torch.sparse_coo_tensor(torch.from_numpy(edges[::-1].copy()), ones, (N, N)).to_sparse_csr()
            self.assertEqual(trained(data), self.expected)

    def test_edges_of_pyg(self):
        """The data list both directions of an undirected graph: adding reverse edges would double their weights."""
        edges, x, y, sets = arrays()
        edges = np.unique(np.sort(edges, axis=0), axis=1)
        edges = edges[:, edges[0] != edges[1]]
        weights = np.random.default_rng(3).random(edges.shape[1]).astype(np.float32) + 0.1
        twice = np.concatenate([weights, weights])[:, None]
        data = Bag(edge_index=np.concatenate([edges, edges[::-1]], axis=1), edge_attr=twice, x=x, y=y)
        options = {**SMALL, "model": "gcn"}
        made = sl.Graph.from_pyg(data, **sets)
        with self.warns(sl.StarlingWarning, "the features of edges are not used; edge_features concat uses them"):
            self.assertEqual(losses(sl.train(made, **options)), losses(sl.train(graph(edge_index=edges), **options)))
        options["edge_weights"] = "factor"
        expected = losses(sl.train(graph(edge_index=edges, edge_weight=weights), **options))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = sl.Graph.from_pyg(data, **sets, edge_weight=twice)
            self.assertEqual(losses(sl.train(made, **options)), expected)
            data.edge_weight = twice[:, 0]
            self.assertEqual(losses(sl.train(sl.Graph.from_pyg(data, **sets), **options)), expected)

    def test_edge_features(self):
        """A class that features of the edges alone decide: arrays, PyG, DGL, networkx; one relation, and two."""
        rng = np.random.default_rng(5)
        y = np.arange(N) % 2
        edges = np.stack([rng.integers(0, N, 3 * N), np.repeat(np.arange(N), 3)])
        attr = (rng.random((3 * N, 2)) + y[edges[1], None] * [0.0, 1.0]).astype(np.float32)
        x, kinds = np.ones((N, 1), np.float32), np.arange(3 * N) % 2
        sets = {name: ids for name, ids in zip(("train", "valid", "test"), np.split(rng.permutation(N), [120, 180]))}
        of = [attr[kinds == r] for r in (0, 1)]
        names = [("u", "r", "u"), ("u", "s", "u")]
        by_name = {name: edges[:, kinds == r] for r, name in enumerate(names)}
        options = {**SMALL, "epochs": 30, "lr": 0.05, "layers": 1, "fanout": [-1], "progress": False}
        one = dict(edge_index=edges, x=x, y=y, directed=True, **sets)
        masks = masks_of(sets)
        form = functools.partial(dgl_graph, edges, {"feat": x, "label": y, **masks})
        sides = {"u": {"feat": x, "label": y, **masks}}
        two = {name: {"feat": of[r]} for r, name in enumerate(names)}
        plain = {
            "arrays": sl.Graph(**one, edge_attr=attr),
            "pyg": sl.Graph.from_pyg(Bag(edge_index=edges, edge_attr=attr, x=x, y=y, **masks)),
            "dgl": sl.Graph.from_dgl(form({"feat": attr})),
            "edata": sl.Graph.from_dgl(form({"e": attr}), edge_attr="e"),
            "array": sl.Graph.from_dgl(form({}), edge_attr=attr),
        }
        if has("networkx"):
            import networkx

            net = networkx.DiGraph()
            net.add_nodes_from(range(N))
            net.add_edges_from((*pair, {"e": row}) for pair, row in zip(edges.T.tolist(), attr))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                plain["networkx"] = sl.Graph.from_networkx(net, x, y, **sets, edge_attr="e")
        if has("torch", "dgl"):
            import dgl
            import torch

            real = dgl.graph(tuple(torch.tensor(edges)), num_nodes=N)
            real.ndata.update({name: torch.tensor(of) for name, of in {"feat": x, "label": y, **masks}.items()})
            real.edata["feat"] = torch.tensor(attr)
            plain["real dgl"] = sl.Graph.from_dgl(real)
        typed = {
            "arrays": sl.Graph(**one, edge_type=kinds, edge_attr=attr),
            "numbers": sl.Graph(**one, edge_type=kinds, edge_attr=dict(enumerate(of))),
            "dgl": sl.Graph.from_dgl(of_dgl(sides, {"u": N}, by_name, two)),
        }
        if has("torch_geometric"):
            import torch
            from torch_geometric.data import HeteroData

            data = HeteroData()
            data["u"].x, data["u"].y = torch.tensor(x), torch.tensor(y)
            for name, mask in masks.items():
                data["u"][name] = torch.tensor(mask)
            for r, name in enumerate(names):
                data[name].edge_index, data[name].edge_attr = torch.tensor(by_name[name]), torch.tensor(of[r])
            typed["pyg"] = sl.Graph.from_pyg(data)
            del data[names[1]].edge_attr
            with self.warns(
                sl.StarlingWarning, r"features of the edges of \('u', 'r', 'u'\): is not used: those of .*'s'"
            ):
                lost = sl.Graph.from_pyg(data)
            with self.refuses(sl.StarlingError, "expected a dataset with features of its edges"):
                sl.train(lost, "rgcn", **options, edge_features="concat")
        for model, graphs in (("sage", plain), ("rgcn", typed)):
            runs = {name: sl.train(made, model, **options, edge_features="concat") for name, made in graphs.items()}
            for name, run in runs.items():
                with self.subTest(model, form=name):
                    self.assertGreater(run.test_acc, 0.95)
                    if name not in ("networkx", "arrays", "numbers"):  # has an edge once; relations have no names
                        self.assertEqual(losses(run), losses(runs["arrays" if model == "sage" else "dgl"]))
                    np.testing.assert_allclose(run.model.predict(graphs[name]), run.predict(), rtol=1e-5, atol=1e-6)
            added = sl.train(graphs["arrays"], model, **options, edge_features="add")
            self.assertGreater(added.test_acc, 0.95)
            self.assertTrue(any("edge_encoder" in name for name in added.state_dict()))
            with self.warns(sl.StarlingWarning, "the features of edges are not used; edge_features concat uses them"):
                self.assertLess(sl.train(graphs["arrays"], model, **options).test_acc, 0.75)
            with self.refuses(sl.StarlingError, "expected a dataset with features of its edges"):
                run.predict(sl.Graph(**one, edge_type=kinds if model == "rgcn" else None))
        for words, changes in (
            (r"edge_attr: found the shape .719, 2., expected .720, D., the edges", dict(edge_attr=attr[1:])),
            (r"edge_attr: found the shape .720, 2, 1., expected", dict(edge_attr=attr[:, :, None])),
            ("feature 1 of edge 0 is nan; expected a finite number", dict(edge_attr=attr * [1, np.nan])),
            ("feature 1 of edge 0 is inf; expected a finite number", dict(edge_attr=attr * [1, np.inf])),
            (r"edge_attr: found the shape .720, 0., expected", dict(edge_attr=attr[:, :0])),
            ("edge_attr: found edges as a sparse matrix", dict(edge_index=Matrix(), edge_attr=attr)),
            (
                "edge_attr: found none of the relation 'b', expected",
                dict(edge_type=kinds, relations=["a", "b"], edge_attr={"a": of[0]}),
            ),
            ("edge_attr: found rows by relation without edge_type", dict(edge_attr={0: of[0]})),
            ("edge_attr: found none of the relation 1, expected", dict(edge_type=kinds, edge_attr={0: of[0]})),
            (
                "edge_attr of 1: found the shape .361, 2.|edge_attr of 1: found the shape .359, 2., expected .360, D.",
                dict(edge_type=kinds, edge_attr={0: of[0], 1: of[1][1:]}),
            ),
            (
                "edge_attr of 1: found .1,. columns, expected .2,. as before",
                dict(edge_type=kinds, edge_attr={0: of[0], 1: of[1][:, :1]}),
            ),
            ("edge_attr: found the relation 2, expected relations", dict(edge_type=kinds, edge_attr={2: of[0]})),
        ):
            with self.subTest(words), self.refuses((ValueError, sl.StarlingError), words):
                sl.Graph(**{**one, **changes})
        with self.refuses(ValueError, "edge_attr: found edata 'e', 'feat', expected 'none'"):
            sl.Graph.from_dgl(form({"feat": attr, "e": attr}), edge_attr="none")

        def joined(n_third, *rows, **given):  # with n_third edges of one more relation
            pairs = {**by_name, ("u", "t", "u"): edges[:, :n_third]}
            frames = {triple: {"feat": part} for triple, part in zip(pairs, rows)}
            return sl.Graph.from_dgl(of_dgl(sides, {"u": N}, pairs, frames), **given)

        with self.warns(sl.StarlingWarning, "those of .*'t'.* have none"):
            joined(1, *of)
        with self.warns(sl.StarlingWarning, "they have several widths"):
            joined(1, *of, attr[:1, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            joined(0, *of)
            joined(1, of[0][:, 0], of[1][:, :1], attr[:1, 0])

    def test_whole_floats(self):
        """Floats without fractions are classes, as in files, and that is said; objective="regression" keeps numbers."""
        edges, x, y, sets = arrays()
        floats = y.astype(float)
        floats[0], floats[1] = np.nan, -100
        sets = {name: [v for v in ids if v > 1] for name, ids in sets.items()}
        for given in (floats, floats[:, None]):
            with self.warns(sl.StarlingWarning, f"taken as {K} classes; for numbers say objective="):
                made = sl.Graph(edges, x, given, **sets)
            np.testing.assert_array_equal(made.y, [-1, -1, *y[2:]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for given in (floats, y):
                made = sl.Graph(edges, x, given, **sets, objective="regression")
                self.assertFalse(made.has_classes)
            self.assertFalse(sl.Graph(edges, x, y + 0.5, **sets).has_classes)
        with self.refuses(ValueError, "objective: found 'link', expected 'regression'"):
            sl.Graph(edges, x, y, **sets, objective="link")

    def test_warnings_name_the_caller(self):
        data = Bag(edge_index=arrays()[0], x=arrays()[1], edge_time=np.ones(3 * N))
        for call in (
            lambda: graph(y=arrays()[2].astype(float)),
            lambda: sl.Graph.from_pyg(data),
            lambda: sl.train(graph(valid=None, test=None), **SMALL),
            lambda: sl.train(graph(), **SMALL),  # of a variable that is not read
        ):
            _library._check_environment.cache_clear()
            with mock.patch.dict(os.environ, STARLING_EPOCHS="9"), self.assertWarns(sl.StarlingWarning) as caught:
                call()
            self.assertEqual(caught.filename, __file__)

    def test_masked_arrays(self):
        """Masked entries are unknown labels; of features and weights they are refused."""
        edges, x, y, sets = arrays()
        sets = {name: [v for v in ids if v > 0] for name, ids in sets.items()}
        masked = np.ma.masked_array(y, np.arange(N) == 0)
        np.testing.assert_array_equal(sl.Graph(edges, x, masked, **sets).y, [-1, *y[1:]])
        with self.refuses(ValueError, "feature 0 of vertex 0 is nan"):
            sl.Graph(edges, np.ma.masked_array(x, np.arange(x.size).reshape(x.shape) == 0), y, **sets)
        weights = np.ma.masked_array(np.ones(edges.shape[1]), np.arange(edges.shape[1]) == 0)
        self.refuses(ValueError, "has weight nan", sl.Graph, edges, x, y, **sets, edge_weight=weights)
        with self.refuses(TypeError, "with fractions or nan, expected whole ids"):
            sl.Graph(edges, x, y, train=np.array([1, np.nan]))

    @needs("scipy")
    def test_entries_of_a_matrix(self):
        """Entries of a sparse matrix that are not used are named."""
        from scipy import sparse

        edges, x, y, sets = arrays()
        ones = sparse.csr_matrix(([1.0, 1.0], ([0, 1], [1, 2])), (N, N))
        with self.warns(sl.StarlingWarning, "entries of the matrix are not used.*edge_weight=True"):
            sl.Graph(2 * ones, x, y, **sets)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sl.Graph(ones, x, y, **sets)
            sl.Graph(2 * ones, x, y, **sets, edge_weight=True)

    def test_what_is_left_out(self):
        """Converters say what they do not use."""
        edges, x, y, sets = arrays()
        masks, Dgl = masks_of(sets), functools.partial(dgl_graph, edges)
        weights = np.random.default_rng(3).random(edges.shape[1]).astype(np.float32)
        features = {"feat": x, "label": y, **masks}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertTrue(sl.Graph.from_dgl(Dgl(features, {"w": weights, "_ID": y})).has_edge_weights)
            self.assertFalse(sl.Graph.from_dgl(Dgl(features, {})).has_edge_weights)
            sl.Graph.from_dgl(Dgl({"feat": x}, {}), valid_links=[[0], [N - 1]], test_links=[[1], [N - 1]])
        for edata in ({"weight": -weights}, {"time": weights}, {"weight": np.stack([weights, weights], 1)}):
            with self.warns(sl.StarlingWarning, f"edata '{next(iter(edata))}': is not used"):
                self.assertFalse(sl.Graph.from_dgl(Dgl(features, edata)).has_edge_weights)
        with self.refuses(ValueError, "x: found ndata 'x', 'label', expected 'feat'; name another: x='..'"):
            sl.Graph.from_dgl(Dgl({"x": x, "label": y}, {}))
        with self.refuses(ValueError, "y: found ndata 'feat', expected 'class'; name another"):
            sl.Graph.from_dgl(Dgl({"feat": x}, {}), y="class")
        with self.refuses(TypeError, "x: found a ndarray, expected a name in graph.ndata"):
            sl.Graph.from_dgl(Dgl(features, {}), x=x)
        with self.warns(sl.StarlingWarning, "train_mask, val_mask, test_mask: are not used; there are no"):
            sl.Graph.from_dgl(Dgl({"feat": x, "labels": y, **masks}, {}))
        with self.warns(sl.StarlingWarning, "valid_mask: is not used"):
            sl.Graph.from_dgl(Dgl({**features, "valid_mask": masks["val_mask"]}, {}))

        def store(**members):
            return type("Store", (), {"x": None, "y": None, "num_nodes": N, **members})

        class Hetero:
            node_types, edge_types = ["u"], [("u", "r", "u")]

            def __init__(self, edge_store, labels=y):
                self.stores = {"u": store(x=x, y=labels, **masks), ("u", "r", "u"): edge_store}

            def __getitem__(self, key):
                return self.stores[key]

        expected = sl.Graph.from_pyg(Hetero(Bag(edge_index=edges))).n_edges
        for name in ("time", "edge_label"):
            with self.warns(sl.StarlingWarning, name + r" of \('u', 'r', 'u'\): is not used"):
                sl.Graph.from_pyg(Hetero(Bag(edge_index=edges, **{name: weights})))
        for values in (None, weights):
            adjacency = type("Adjacency", (), {"coo": lambda self, of=values: (edges[1], edges[0], of)})()
            for data in (Hetero(Bag(adj_t=adjacency)), Bag(adj_t=adjacency, x=x, y=y)):
                made = sl.Graph.from_pyg(data)
                self.assertEqual((made.n_edges, made.has_edge_weights), (expected, values is not None))
        self.refuses(
            ValueError, "edge_index: found none of .*, expected edge_index or adj_t", sl.Graph.from_pyg, Hetero(Bag())
        )
        words = np.array(["c", "a", "d", "b"])[y]
        turned = Hetero(Bag(edge_index=edges.T))
        self.refuses(ValueError, r"edge_index of .*: found the shape .720, 2., expected", sl.Graph.from_pyg, turned)
        self.refuses(ValueError, "transpose it", sl.Graph.from_pyg, Bag(edge_index=edges.T, x=x, y=y))
        made = sl.Graph.from_pyg(Hetero(Bag(edge_index=edges), words))
        self.assertEqual(made.classes.tolist(), ["a", "b", "c", "d"])
        np.testing.assert_array_equal(made.classes[made.y], words)
        # PyG's edge_index always has two rows. Elsewhere a 2 x 2 array is ambiguous.
        pair = np.array([[0, 1], [2, 3]])
        data = type("Data", (), {"edge_index": pair, "x": x, "y": y, **masks})
        with self.warns(sl.StarlingWarning, "edge_time: is not used"):
            sl.Graph.from_pyg(type("Data", (), {**vars(data), "edge_time": np.ones(2), "n_edges": 2}))
        two = Hetero(Bag(edge_index=edges))
        two.node_types, two.stores["v"] = ["u", "v"], store(x=x, **masks)
        self.warns(sl.StarlingWarning, "train_mask of 'v', .*: not used, the split is of 'u'", sl.Graph.from_pyg, two)
        two.stores["v"] = store(num_nodes=None)
        self.refuses(ValueError, "num_nodes: found none of type 'v', expected x or num_nodes", sl.Graph.from_pyg, two)
        data.n_edges = 2  # no table
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(sl.Graph.from_pyg(data).n_edges, 2)
            self.assertEqual(repr(sl.Graph.from_pyg(data())), repr(sl.Graph.from_pyg(data)))  # attributes of the class
            sl.Graph((pair[0], pair[1]), x, y, **sets)
            with_attributes = Hetero(Bag(edge_index=edges, edge_attr=weights))
            given = sl.Graph.from_pyg(with_attributes, edge_weight={("u", "r", "u"): weights})
            self.assertTrue(given.has_edge_weights)
        for form in (pair, pair.tolist()):
            with self.warns(sl.StarlingWarning, r"found the shape \(2, 2\), taken as a row of sources"):
                self.assertEqual(sl.Graph(form, x, y, **sets, directed=True).n_edges, 2)

    def test_wrong_data_of_pyg(self):
        """Each is refused in one line that names the table."""
        edges, x, y, _ = arrays()
        types = {"a": dict(n=N, x=x, y=y), "b": dict(n=N, x=x, y=None)}
        matrix = type("csr_matrix", (), {"tocsr": None, "nnz": 0, "shape": (N, N)})()
        wrong = {
            "edge_index: found a csr_matrix, expected .2, E.": dict(edge_index=matrix),
            r"edge_index.*: found the shape \(\), expected .2, E.": dict(edge_index=3),
            "edge_index.*: found arrays of the shapes .2,. and .1,.": dict(edge_index=[[0, 1], [2]]),
            "adj_t: found a csr_matrix, expected a SparseTensor": dict(adj_t=matrix, edge_index=None),
            r"x.*: found the shape \(\), expected": dict(x=1.0),
            r"y: found the shape \(\), expected": dict(y=1),
            r"edge_weight.*: found the shape \(\), expected": dict(edge_weight=0.5),
        }
        for message, table in wrong.items():
            plain = Bag(**{**dict(edge_index=edges, x=x, y=y), **table})
            self.refuses((TypeError, ValueError), f"^{message}", sl.Graph.from_pyg, plain)
            store = hetero(types, {("a", "to", "b"): edges})
            for name, value in table.items():
                setattr(store["a" if name in ("x", "y") else ("a", "to", "b")], name, value)
            self.refuses((TypeError, ValueError), f"^{message}", sl.Graph.from_pyg, store)
        store = hetero({"a": types["a"]}, {("a", "to", "c"): edges})
        self.refuses(ValueError, "edge_index of .*: found the type 'c', expected a", sl.Graph.from_pyg, store)
        self.refuses(ValueError, r"edge_weight: found the shape \(\)", sl.Graph, [[0], [1]], x, edge_weight=0.5)

    @needs("networkx")
    def test_lists_of_networkx(self):
        """Lists are nodes, which is said if they could be vertex ids. Edge attributes that are left out are named."""
        import networkx

        made = networkx.Graph()
        made.add_nodes_from([3, 2, 1, 0], x=[1.0, 2.0], y=1)
        made.add_edge(0, 3, weight=2.0, time=5)
        with self.warns(sl.StarlingWarning, "train is a list, taken as nodes of the graph; give vertex ids"):
            graph = sl.Graph.from_networkx(made, weight="weight", train=[3, 2])
        self.assertEqual(graph.train.tolist(), [0, 1])
        with self.warns(sl.StarlingWarning, "'weight', edge attribute 'time': are not used; say weight='weight'"):
            graph = sl.Graph.from_networkx(made, train=np.array([3, 2]), test=[1, 1, 0, 0])
        self.assertEqual((graph.train.tolist(), graph.test.tolist()), ([3, 2], [0, 1]))
        for words, wrong in (("weight: found \\[\\]", dict(weight=[])), ("train: found", dict(train=[[]]))):
            with self.refuses((TypeError, ValueError), words):
                sl.Graph.from_networkx(made, **wrong)
        with self.refuses(ValueError, "valid_links: found 9, expected nodes of the graph"):
            sl.Graph.from_networkx(made, weight="weight", valid_links=[[3], [9]])
        with self.warns(sl.StarlingWarning, "test_links is a list, taken as nodes of the graph"):
            sl.Graph.from_networkx(made, test_links=[[3], [1]])
        made.add_edge(1, 2)
        made.nodes[3]["train_mask"] = True
        with self.warns(sl.StarlingWarning, "train_mask: is not used; give train, valid and test as lists"):
            with self.refuses(ValueError, r"weight: edge \(2, 1\) has no attribute 'weight'"):
                sl.Graph.from_networkx(made, weight="weight")

    @needs("scipy")
    def test_relations(self):
        """Arrays with relations, and graphs of PyG and DGL, train as the same folder does."""
        types, edges = typed(self.here)
        files = sl.load(self.here, cache="none", split="all")
        options = {
            **SMALL,
            "relation_fanout": {"likes": [3, 2], ("item", "near", "item"): [2, 2], "rev_likes": [1, 1]},
        }
        expected = losses(sl.train(files, "rgcn", **options))
        made = {"PyG": sl.Graph.from_pyg(hetero(types, edges), directed=False)}
        joined = made["PyG"]
        self.assertEqual(joined.types, {"item": slice(0, 60), "user": slice(60, 100)})
        self.assertEqual(joined.relations, (("user", "likes", "item"), ("item", "near", "item")))
        pairs = np.concatenate([edges["user", "likes", "item"] + [[60], [0]], edges["item", "near", "item"]], axis=1)
        made["arrays"] = sl.Graph(
            pairs,
            joined.x.toarray(),
            joined.y,
            **{name: getattr(joined, name) for name in ("train", "valid", "test")},
            edge_type=np.repeat([0, 1], [150, 120]),
            relations=[("user", "likes", "item"), ("item", "near", "item")],
        )
        for form, graph in made.items():
            with self.subTest(form):
                run = sl.train(graph, "rgcn", **options)
                self.assertEqual(losses(run), expected)
                self.assertEqual(run.predict()[joined.types["item"]].shape, (60, 3))
        of_dgl = sl.Graph.from_dgl(heterograph(types, edges), directed=False)  # DGL sorts the relations
        sorted_edges = {triple: edges[triple] for triple in of_dgl.relations}
        of_pyg = sl.Graph.from_pyg(hetero(types, sorted_edges), directed=False)
        self.assertEqual(losses(sl.train(of_dgl, "rgcn", **options)), losses(sl.train(of_pyg, "rgcn", **options)))

    @needs("scipy")
    def test_weights_of_relations(self):
        """Weights of one relation: the same in a folder, arrays, a dictionary, and graphs of PyG and DGL."""
        likes, near = ("user", "likes", "item"), ("item", "near", "item")
        weights = {likes: np.random.default_rng(6).choice([0, 0.5, 1, 3.25], 150).astype(np.float32)}
        options = {**SMALL, "edge_weights": "factor"}
        types, edges = typed(self.here)
        np.save(self.path("raw", "relations", "___".join(likes), "edge-weight.npy"), weights[likes])
        files = sl.load(self.here, cache="none", split="all")
        self.assertTrue(files.has_edge_weights)
        expected = {model: losses(sl.train(files, model, **options)) for model in ("rgcn", "rgat")}
        with self.warns(sl.StarlingWarning, "the weights of edges are not used"):
            self.assertNotEqual(trained(files, "rgcn"), expected["rgcn"])
        joined = sl.Graph.from_pyg(hetero(types, edges, weights), directed=False)
        pairs = np.concatenate([edges[likes] + [[60], [0]], edges[near]], axis=1)
        of_all = np.concatenate([weights[likes], np.ones(120, np.float32)])
        made = {"PyG": joined}
        for form, given in (("array", of_all), ("dictionary", weights), ("numbers", {0: weights[likes][:, None]})):
            made[form] = sl.Graph(
                pairs,
                joined.x,
                joined.y,
                **{name: getattr(joined, name) for name in ("train", "valid", "test")},
                edge_weight=given,
                edge_type=np.repeat([0, 1], [150, 120]),
                relations=[likes, near],
            )
        for form, graph in made.items():
            for model in expected:
                with self.subTest(form, model=model):
                    self.assertEqual(losses(sl.train(graph, model, **options)), expected[model])
        of_dgl = sl.Graph.from_dgl(heterograph(types, edges, weights), directed=False)  # DGL sorts the relations
        sorted_edges = {triple: edges[triple] for triple in of_dgl.relations}
        of_pyg = sl.Graph.from_pyg(hetero(types, sorted_edges, weights), directed=False)
        self.assertEqual(losses(sl.train(of_dgl, "rgat", **options)), losses(sl.train(of_pyg, "rgat", **options)))
        drawn = {**SMALL, "edge_weights": "probability"}
        self.assertEqual(losses(sl.train(of_dgl, "rgcn", **drawn)), losses(sl.train(of_pyg, "rgcn", **drawn)))

    def test_types_with_one_width(self):
        """Types whose features have one width share the columns; targets may be numbers, and in one type alone."""
        x = {"a": np.arange(8, dtype=np.float32).reshape(4, 2), "b": np.ones((3, 2), np.float32)}
        types = {name: dict(n=len(x[name]), x=x[name], y=None) for name in x}
        types["b"].update(y=np.array([0.5, 1, 2]), train=[0, 1], test=np.array([False, False, True]))
        made = sl.Graph.from_pyg(hetero(types, {("a", "to", "b"): np.array([[0, 3], [2, 1]])}))
        np.testing.assert_array_equal(made.x, np.concatenate([x["a"], x["b"]]))
        np.testing.assert_array_equal(made.y[:, 0], [np.nan] * 4 + [0.5, 1, 2])
        self.assertEqual((made.train.tolist(), made.test.tolist(), made.n_edges), ([4, 5], [6], 2))
        types["a"]["y"] = np.array([1, 0, 1, 0])
        with self.refuses(ValueError, "y: found targets of the types a, b, expected one; name it: target="):
            sl.Graph.from_pyg(hetero(types, {("a", "to", "b"): np.array([[0], [2]])}))
        made = sl.Graph.from_pyg(hetero(types, {("a", "to", "b"): np.array([[0], [2]])}), target="a", train=[0, 1])
        np.testing.assert_array_equal(made.y, [1, 0, 1, 0, -1, -1, -1])
        with self.refuses(ValueError, "target: found 'c', expected a type of a, b"):
            sl.Graph.from_pyg(hetero(types, {}), target="c")
        with self.refuses(ValueError, "edge_index of .'a', 'to', 'b'..1.: found id 3, expected ids of 0 .. 2"):
            sl.Graph.from_pyg(hetero(types, {("a", "to", "b"): np.array([[0], [3]])}), target="a")

    @needs("scipy")
    def test_types_without_edges(self):
        types = {"a": dict(n=3, x=None, y=np.array([0, 1, 0]), train=[0, 1])}
        for edges, n in (({}, 0), ({("a", "to", "a"): np.empty((2, 0), int)}, 1)):
            made = sl.Graph.from_pyg(hetero(types, edges))
            self.assertEqual((made.n_edges, len(made.relations), made.n_features), (0, n, 3))
            self.assertEqual(len(sl.train(made, "rgcn", **SMALL).records), 4)
        types["b"] = dict(n=0, x=np.empty((0, 2), np.float32), y=None)
        made = sl.Graph.from_pyg(hetero(types, {("a", "to", "b"): np.empty((2, 0), int)}))
        self.assertEqual((made.types["b"], made.n_features), (slice(3, 3), 5))
        self.assertEqual(len(sl.train(made, "rgcn", **SMALL).records), 4)

    def test_links(self):
        """Links of arrays train as the same lists in a folder do."""
        links = lists_of_links()
        files_of = dict(train_links="train", valid_links="valid", test_links="test", test_negatives="test_neg")
        x = arrays()[1]
        for relations in (0, 3):
            rows = {name: with_relations(pairs, relations) for name, pairs in links.items()}
            with tempfile.TemporaryDirectory() as folder:
                for name, pairs in rows.items():
                    path = os.path.join(folder, "split", "all", files_of[name] + ".csv")
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    np.savetxt(path, pairs.T, fmt="%d", delimiter=",")
                os.mkdir(os.path.join(folder, "raw"))
                np.savetxt(os.path.join(folder, "raw", "node-feat.csv"), x, fmt="%.9g", delimiter=",")
                files = sl.load(folder, cache="none", objective="link")
                options = dict(SMALL, decoder="distmult" if relations else "dot")
                expected = sl.train(files, objective="link", **options)
                np.testing.assert_array_equal(expected.embeddings(), expected.predict())  # as --embed
                scores = expected.evaluate()
            train = rows.pop("train_links")
            made = {"links": sl.Graph(None, x, train_links=train, **rows)}
            if relations:
                typed_edges = dict(edge_type=train[1])
                made["edges"] = sl.Graph(train[::2], x, **typed_edges, **rows)
                made["both"] = sl.Graph(train[::2], x, **typed_edges, train_links=train, **rows)
            else:
                made["edges"] = sl.Graph(tuple(train), x, **rows)
                made["both"] = sl.Graph(train, x, train_links=list(train), **rows)
            for form, graph in made.items():
                with self.subTest(form, relations=relations):
                    run = sl.train(graph, **options)
                    self.assertEqual(losses(run), losses(expected))
                    self.assertEqual(run.evaluate(), scores)
            alone = sl.train(sl.Graph(None, x, train_links=train), **options)
            self.assertEqual(losses(alone), losses(expected))
            again = sl.train(made["edges"], **options, weights=run)
            self.assertEqual(run.evaluate(), scores)  # in another session
            self.assertEqual(again.predict().shape, (N, 8))

    def test_wrong_relations_and_links(self):
        edges, x, y, sets = arrays()
        links = lists_of_links()
        train = links.pop("train_links")
        kinds = np.zeros(edges.shape[1], int)
        for words, changes in (
            ("edge_type: found the shape", dict(edge_type=kinds[1:])),
            (
                "edge_type: found relation 2, expected relations of 0 .. 1",
                dict(edge_type=kinds + 2, relations=["a", "b"]),
            ),
            ("edge_type: found relation -1, expected relations of 0", dict(edge_type=kinds - 1)),
            ("relations: found 'ab', expected a list of names", dict(edge_type=kinds, relations="ab")),
            ("relations: found 1 names without edge_type", dict(relations=["a"])),
            ("relation_names is ',a,b,'; expected SOURCE,NAME", dict(edge_type=kinds, relations=["a,b"])),
            ("relation_names is 'a,b'; expected SOURCE,NAME", dict(edge_type=kinds, relations=[("a", "b")])),
            ("edge_type: found 65536 relations", dict(edge_type=kinds + 65535)),
            ("found weights by relation without edge_type", dict(edge_weight={0: np.ones(len(kinds))})),
            (
                "edge_weight: found the relation 'c', expected relations of 'a', 'b'",
                dict(edge_type=kinds, relations=["a", "b"], edge_weight={"c": [1]}),
            ),
            ("edge_weight: found the relation 2, expected", dict(edge_type=kinds, edge_weight={2: [1]})),
            ("edge_weight of 0: found the shape .1,., expected", dict(edge_type=kinds, edge_weight={0: [1]})),
            ("has weight -1; expected a finite", dict(edge_type=kinds, edge_weight=-np.ones(len(kinds)))),
            ("has weight nan; expected a finite", dict(edge_type=kinds, edge_weight=np.nan * kinds)),
            ("found 120 training vertices and links", dict(valid_links=links["valid_links"])),
        ):
            with self.subTest(words), self.refuses(ValueError, words):
                graph(**changes)
        for words, changes in (
            (
                r"valid_links: found rows of the shapes .*, expected .2, L.: two ends",
                dict(valid_links=with_relations(links["valid_links"], 3)),
            ),
            (r"test_links: found id 240, expected ids of 0 .. 239", dict(test_links=[[0], [N]])),
            (
                "train_links: found 1 rows, expected .2, L. or .3, L.",
                dict(edge_index=None, train_links=np.ones((1, 5))),
            ),
            ("valid_links: found rows of the shapes", dict(valid_links=[[1, 2], [3]])),
            ("test has the link .*, which is in valid, too", dict(test_links=links["valid_links"])),
            ("edge_type: found edges as a sparse matrix", dict(edge_index=Matrix(), edge_type=kinds)),
        ):
            with self.subTest(words), self.refuses(ValueError, words):
                sl.Graph(**{**dict(edge_index=train, x=x), **links, **changes})
        self.refuses(ValueError, "train.0. is vertex .*, which has no label", graph, y=None)
        with self.refuses(ValueError, "found no label, expected labels"):
            sl.train(graph(y=None, train=None, valid=None, test=None), **SMALL)
        with self.refuses(ValueError, "objective: .* lists links; use objective link or auto"):
            sl.train(sl.Graph(train, x, **links), **SMALL, objective="class")
        with self.refuses(ValueError, "objective: found link, expected a split that lists links"):
            sl.train(graph(), **SMALL, objective="link")
        run = sl.train(sl.Graph(train, x, **links), **SMALL)
        self.assertEqual(run.predict(graph()).shape, (N, 8))  # a graph without lists of links
        for wrong in (None, slice(None), 3, slice(-2, 4), slice(5, 4)):
            types = {"a": slice(0, N), "b": wrong}
            with self.refuses(ValueError, "types: found .* of 'b', expected slice"):
                graph(edge_type=kinds, relations=[("a", "to", "b")], types=types)
        with self.refuses(ValueError, "relation_names is 'a,b'; expected SOURCE,NAME"):
            graph(edge_type=kinds, relations=[("a", "b")], types={"a": slice(0, N)})
        with self.refuses(ValueError, "relation 'c'"):
            sl.train(graph(edge_type=kinds, relations=["a"]), "rgcn", **{**SMALL, "relation_fanout": {"c": [1, 1]}})

    def test_drawn_splits(self):
        """split="random:..": of Graph, of train and of files; and the links to find of arrays that are edges."""
        plain = {name: None for name in ("train", "valid", "test")}
        made = graph(**plain, split="random:50,25,25")
        self.assertEqual(made._n_split, (N // 2, N // 4, N // 4))
        first = sl.train(made, **SMALL)
        self.assertEqual(trained(graph(), split="random:50,25,25", seed=1), losses(first))
        self.assertEqual(first.config.options["split"], None)
        again = graph(**plain, split="random:50,25,25", seed=2)
        self.assertNotEqual(trained(again), losses(first))
        run = sl.train(graph(), **SMALL, split="random:80,10,10", objective="link")
        self.assertEqual(run.config.options["split"], "random:80,10,10")
        scores = run.evaluate()
        run._session = None
        self.assertEqual(run.evaluate(), scores)
        links = graph(**plain, y=None, split="random:80,10,10")
        self.assertGreater(links._n_split[0], 7 * links._n_split[2])
        self.assertEqual(trained(links), losses(run))
        for words, changes in (
            ("split: found 'random:1,2,3', expected random:TRAIN,VALID,TEST", dict(split="random:1,2,3")),
            ("split is 'half'; expected random:TRAIN,VALID,TEST", dict(split="half")),
        ):
            with self.subTest(words), self.refuses(ValueError, words):
                graph(**plain, **changes)
        with self.refuses(ValueError, "found a split 'random:60,20,20', and vertices or links"):
            graph(split="random:60,20,20")
        pairs = np.stack([np.arange(N), (np.arange(N) + 1) % N])
        x = np.ones((N, 2), np.float32)
        lists = dict(train_links=pairs[:, :-9], valid_links=pairs[:, -9:-4], test_links=pairs[::-1, -4:])
        with self.refuses(ValueError, "9 links to find are edges of the graph.*drop_leaks drops"):
            sl.Graph(pairs, x, **lists)
        with self.warns(sl.StarlingWarning, "drop_leaks: 9 links to find were edges"):
            made = sl.Graph(pairs, x, **lists, drop_leaks=True)
        self.assertEqual(made.n_edges, 2 * (N - 9))

    def test_links_of_pyg(self):
        """The data of RandomLinkSplit: links and negatives, of one kind and by relation."""

        class Data:
            def __init__(self, edge_index, **values):
                self.edge_index, self.x = edge_index, np.ones((12, 2), np.float32)
                self.__dict__.update(values)

        pairs = np.stack([np.arange(10), np.arange(10) + 1])
        both = np.concatenate([pairs[:, :6], pairs[::-1, :6]], 1)
        label = np.array([1, 1, 0])
        mask = np.ones(12, bool)
        train = Data(both, edge_label_index=pairs[:, :8], edge_label=np.arange(8) < 6, train_mask=mask, y=mask)
        valid = Data(both, edge_label_index=pairs[:, [6, 7, 3]] + [[0, 0, 0], [0, 0, 5]], edge_label=label)
        test = Data(both, pos_edge_label_index=pairs[:, 8:], neg_edge_label_index=pairs[:, :1] + [[0], [7]])
        made = sl.Graph.from_pyg(train, valid=valid, test=test)
        self.assertEqual((made.n_edges, made._n_split), (12, (6, 2, 2)))
        expected = sl.Graph(
            both,
            made.x,
            directed=True,
            train_links=pairs[:, :6],
            valid_links=pairs[:, 6:8],
            test_links=pairs[:, 8:],
            valid_negatives=[[3], [9]],
            test_negatives=[[0], [8]],
        )
        options = {**SMALL, "epochs": 2}
        self.assertEqual(losses(sl.train(made, **options)), losses(sl.train(expected, **options)))
        nothing = Data(both, edge_label_index=np.empty((2, 0), int))
        for name, value in (("valid", valid), ("test", test)):  # num_test=0, or num_val=0
            sets = {"valid": nothing, "test": nothing, name: value}
            self.assertEqual(repr(sl.Graph.from_pyg(train, **sets)), repr(sl.Graph.from_pyg(train, **{name: value})))
        with self.refuses(ValueError, "test: found no edge_label_index with links"):
            sl.Graph.from_pyg(train, valid=nothing, test=nothing)
        with self.warns(sl.StarlingWarning, "found edge_label_index, .*from_pyg.train, valid=valid"):
            sl.Graph.from_pyg(train)
        with self.refuses(ValueError, "test: found no edge_label_index with links"):
            sl.Graph.from_pyg(train, valid=valid, test=Data(both))
        whole = Data(np.concatenate([pairs, pairs[::-1]], 1), edge_label_index=pairs[:, :6])
        with self.refuses(ValueError, "links to find are edges of the graph"):
            sl.Graph.from_pyg(whole, valid=valid, test=test)
        types = {name: dict(n=n, x=np.ones((n, 2), np.float32), y=None) for name, n in (("a", 5), ("b", 4))}
        to = np.array([[0, 1, 2, 3], [0, 1, 2, 3]])
        parts = []
        for labelled, edges in ((to[:, :2], to[:, :2]), (to[:, 2:3], to[:, :2]), (to[:, 3:], to[:, :2])):
            part = hetero(types, {("a", "to", "b"): edges, ("b", "of", "a"): edges[::-1].copy()})
            part["a", "to", "b"].edge_label_index = labelled
            parts.append(part)
        made = sl.Graph.from_pyg(parts[0], valid=parts[1], test=parts[2])
        self.assertEqual((made.n_edges, made._n_split), (4, (2, 1, 1)))
        for part in parts:  # the reverses were not split
            part["b", "of", "a"].edge_index = to[::-1].copy()
        with self.refuses(ValueError, "2 links to find are edges of the graph"):
            sl.Graph.from_pyg(parts[0], valid=parts[1], test=parts[2])
        with self.refuses(TypeError, "test: found Data, expected HeteroData"):
            sl.Graph.from_pyg(parts[0], valid=parts[1], test=test)
        for part in parts:
            part["a", "to", "b"].edge_index = to
        made = sl.Graph.from_pyg(parts[0], split="random:50,25,25")
        self.assertEqual((made.n_edges, made._n_split), (4, (2, 1, 1)))

    @needs("networkx")
    def test_networkx(self):
        import networkx

        edges, x, y, sets = arrays()
        made = networkx.Graph()
        made.add_nodes_from((f"v{v}", dict(x=x[v], y=y[v])) for v in range(N))
        made.add_edges_from((f"v{a}", f"v{b}") for a, b in edges.T)
        named = {name: [f"v{v}" for v in ids] for name, ids in sets.items()}
        self.assertEqual(trained(sl.Graph.from_networkx(made, **named)), self.expected)
        self.refuses(ValueError, "no attribute 'z'", sl.Graph.from_networkx, made, x="z", **named)

    def test_edge_weights(self):
        edges = arrays()[0]
        weights = np.random.default_rng(3).random(edges.shape[1]).astype(np.float32) + 0.1
        options = {**SMALL, "model": "gcn", "edge_weights": "factor"}
        made = graph(edge_weight=weights)
        self.assertTrue(made.has_edge_weights and not graph().has_edge_weights)
        expected = losses(sl.train(made, **options))
        self.assertNotEqual(expected, trained(graph(), model="gcn"))
        self.assertEqual(losses(sl.train(graph(edge_weight=weights.astype(float).tolist()), **options)), expected)
        self.assertEqual(losses(sl.train(graph(edge_weight=weights[:, None]), **options)), expected)
        self.warns(sl.StarlingWarning, "edge_weights factor", sl.train, made, **SMALL)
        self.refuses(sl.InvalidArgumentError, "weights of its edges", sl.train, graph(), **options)
        if has("scipy"):
            import scipy.sparse as sparse

            matrix = sparse.coo_matrix((weights, tuple(edges)), shape=(N, N))
            self.assertEqual(losses(sl.train(graph(edge_index=matrix, edge_weight=True), **options)), expected)
            for form in (matrix.tocsr(), matrix.tocsc()):
                np.testing.assert_allclose(
                    losses(sl.train(graph(edge_index=form, edge_weight=True), **options)), expected, rtol=1e-4
                )

    def test_wrong_arrays(self):
        edges, x, y, sets = arrays()
        for changes, error, text in [
            (dict(edge_weight=[1.0]), ValueError, "edge_weight: found the shape"),
            (dict(edge_weight=-np.ones(3 * N)), sl.InvalidArgumentError, "weight"),
            (dict(edge_weight=True), ValueError, "True goes with a sparse matrix"),
            (dict(x=None), TypeError, "x: found None"),
            (dict(x="features"), TypeError, "x: found"),
            (dict(x=object()), TypeError, "x: found"),
            (dict(x=x[:, 0]), ValueError, r"x: found the shape \(240,\)"),
            (dict(x=x * 1j), TypeError, "x: found entries of type complex"),
            (dict(x=np.where(x > 1, np.nan, x)), ValueError, "feature .* nan"),
            (dict(x=x.astype(float) * 1e300), ValueError, "float32"),
            (dict(x=x[:5]), ValueError, "y: found 240 rows, expected 5"),
            (dict(y=[object()] * N), TypeError, "y: found"),
            (dict(y=np.array(["a", 1] * (N // 2), object)), TypeError, "y: found"),
            (dict(y=y[:-1]), ValueError, "y: found 239 rows"),
            (dict(y=np.zeros((N, 2, 2))), ValueError, "y: found the shape"),
            (dict(edge_index=edges.T), ValueError, "transpose it"),
            (dict(edge_index=edges + N), ValueError, r"edge_index\[0\]: found id 479, expected ids of 0 .. 239"),
            (dict(edge_index=-edges), ValueError, "found id -239"),
            (dict(edge_index=edges + 0.5), TypeError, "with fractions"),
            (dict(edge_index=(edges[0], edges[1][1:])), ValueError, "two of one length"),
            (dict(edge_index="graph"), TypeError, "edge_index: found"),
            (dict(edge_index=[[0, 1], [1]]), ValueError, "two of one length"),
            (dict(y=np.where(y == 1, 10**9, y)), ValueError, "is 1000000000; .* a class of 0 to 65535"),
            (dict(edge_type=np.arange(3 * N) % 2, relations=["r", "r"]), ValueError, "relation_names has ',r,' twice"),
            (
                dict(edge_type=np.zeros(3 * N, int), relations=[("a", "r", "a")], types=["a"]),
                TypeError,
                "types: found a l",
            ),
            (dict(name=3), TypeError, "name: found 3, expected a text"),
            (dict(seed=1.5), TypeError, "seed: found 1.5, expected a whole number of 0 or more"),
            (dict(n_classes=-1), ValueError, "n_classes: found -1, expected a whole number of 0 or more"),
            (dict(seed=np.int64(-1)), ValueError, "seed: found .*-1.*, expected a whole number of 0 or more"),
            (dict(seed=True), TypeError, "seed: found True, expected a whole number of 0 or more"),
            (dict(y=["a"] * N, objective="regression"), ValueError, "y: found names of classes, expected numbers"),
            (dict(edge_index=None), TypeError, "edge_index: found None, expected .2, E."),
            (dict(train=[N]), ValueError, "train: found id 240"),
            (dict(train=np.ones(3, bool)), ValueError, "train: found a mask of 3 entries, expected 240"),
            (dict(train=sets["valid"]), sl.InvalidArgumentError, "the split has already"),
            (dict(train=np.ones((N, 2), bool)), ValueError, "expected one dimension"),
            *((dict([(key, [[1], [2, 3]])]), (TypeError, ValueError), f"^{key}: found") for key in ("x", "y", "train")),
            (dict(edge_type=np.zeros(3 * N, int), relations=3), ValueError, "relations: found 3, expected a list of"),
            (
                dict(edge_type=np.zeros(3 * N, int), relations=np.zeros((2, 2))),
                ValueError,
                "relation_names has .* twice",
            ),
            (dict(y=None, valid_links=3), ValueError, r"valid_links: found the shape \(\)"),
            (dict(objective=np.zeros(2)), ValueError, "objective: found array"),
            (dict(directed="no"), TypeError, "directed: found 'no', expected True or False"),
            (dict(name="x" * 99), sl.InvalidArgumentError, "at most 63"),
            (dict(n_classes=2), sl.InvalidArgumentError, "labels"),
        ]:
            with self.subTest(**{key: str(value)[:20] for key, value in changes.items()}):
                self.refuses(error, text, graph, **changes)

    def test_arrays_of_another(self):
        """The features of a graph live as long as the graph, and no longer."""
        made = graph(x=arrays()[1].copy())
        gc.collect()
        self.assertEqual(trained(made), self.expected)

    def test_no_edges(self):
        self.assertEqual(graph(edge_index=np.empty((2, 0), int)).n_edges, 0)

    def test_files_without_labels(self):
        """A folder without labels and split opens, and a model predicts its vertices."""
        edge_index, x = arrays()[:2]
        self.npy("raw/edge.npy", edge_index)
        self.npy("raw/node-feat.npy", x)
        files = sl.load(self.here, cache="none")
        self.assertEqual((files.n_vertices, files.n_outputs, files._n_split), (len(x), 0, (0, 0, 0)))
        run = sl.train(graph(), **SMALL)
        found = run.predict(files)
        np.testing.assert_allclose(found, run.predict(), rtol=1e-5, atol=1e-6)
        self.refuses(sl.BadFileError, "node-label", sl.train, files, **SMALL)

    def test_ids_that_are_not_utf8(self):
        for name, text in (("edges.csv", b"src,dst\ncaf\xe9,b\n"), ("nodes.csv", b"id,f\ncaf\xe9,1\nb,2\n")):
            with open(self.path(name), "wb") as file:
                file.write(text)
        self.assertEqual(sl.load(self.here, cache="none").ids.tolist(), ["caf\\xe9", "b"])

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "cora")), "there is no cora in $STARLING_DATA")
    def test_arrays_are_as_files(self):
        folder = os.path.join(DATA, "cora")
        path = os.path.join(folder, "split", os.listdir(os.path.join(folder, "split"))[0])
        read = lambda *parts, kind=np.int64: np.loadtxt(  # noqa: E731
            os.path.join(*parts) + (".csv.gz" if os.path.exists(os.path.join(*parts) + ".csv.gz") else ".csv"),
            delimiter=",",
            dtype=kind,
        )
        edges, x = read(folder, "raw", "edge").T, read(folder, "raw", "node-feat", kind=np.float32)
        y = read(folder, "raw", "node-label")
        sets = {name: read(path, name) for name in ("train", "valid", "test")}
        files = sl.load("cora", data_path=DATA, cache="none")
        sizes = lambda graph: (graph.n_vertices, graph.n_edges, graph.n_features, graph.n_outputs)  # noqa: E731
        options = dict(layers=2, hidden=16, epochs=3, batch_size=35, cpus=2)
        expected = sl.train(files, **options)
        weights, logits = expected.state_dict(), expected.predict()
        for form, made in forms(edges, x, y, sets, self.here):
            with self.subTest(form):
                run = sl.train(made, **options)
                self.assertEqual(sizes(made), sizes(files))
                self.assertEqual(losses(run), losses(expected))
                for name, array in run.state_dict().items():
                    np.testing.assert_array_equal(array, weights[name])
                np.testing.assert_array_equal(run.predict(), logits)


def forms(edges, x, y, sets, folder):
    """Pairs of a name and the same graph, made of what libraries that are there have."""
    yield "numpy", sl.Graph(edges, x, y, **sets)
    n = len(y)
    if has("scipy"):
        import scipy.sparse as sparse

        matrix = sparse.coo_matrix((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n)).tocsr()
        yield "scipy", sl.Graph(matrix, sparse.csr_matrix(x), y, **sets)
    if not has("torch"):
        return
    import torch

    edge_index = torch.from_numpy(np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1))
    masks = {name: torch.from_numpy(mask) for name, mask in masks_of(sets, n).items()}
    if has("torch_geometric"):
        from torch_geometric.data import Data

        data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=torch.from_numpy(y), **masks)
        yield "PyG", sl.Graph.from_pyg(data)
        if has("safetensors"):
            from safetensors.torch import save_file

            path = os.path.join(folder, "mine.safetensors")
            save_file({name: array.contiguous() for name, array in data.to_dict().items()}, path)
            yield "safetensors", sl.load(path, cache="none")
    if has("dgl"):
        import dgl

        graph = dgl.graph(tuple(edge_index), num_nodes=n)
        graph.ndata.update(feat=torch.from_numpy(x), label=torch.from_numpy(y), **masks)
        yield "DGL", sl.Graph.from_dgl(graph)


class Matrix:
    """What a matrix of scipy.sparse has."""

    nnz, shape = 0, (N, N)

    def tocsr(self):
        return self


def typed(folder):
    """Vertices of two types and edges of two relations, as (types, edges), and in a folder in OGB's layout."""
    rng = np.random.default_rng(3)
    x = rng.random((60, 5)).astype(np.float32)
    ids = rng.permutation(60)
    sets = dict(train=ids[:30], valid=ids[30:45], test=ids[45:])
    types = {
        "item": dict(n=60, x=x, y=np.arange(60) % 3, **sets),
        "user": dict(n=40, x=None, y=None),
    }
    edges = {
        ("user", "likes", "item"): np.stack([rng.integers(0, 40, 150), rng.integers(0, 60, 150)]),
        ("item", "near", "item"): rng.integers(0, 60, (2, 120)),
    }

    def write(path, rows, **how):
        path = os.path.join(folder, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        np.savetxt(path, rows, delimiter=",", **{"fmt": "%d", **how})

    write(["raw", "num-node-dict.csv"], [[60, 40]], header="item,user", comments="")
    write(["raw", "triplet-type-list.csv"], np.array(list(edges)), fmt="%s")
    write(["raw", "node-feat", "item", "node-feat.csv"], x, fmt="%.9g")
    write(["raw", "node-label", "item", "node-label.csv"], types["item"]["y"])
    for name, rows in sets.items():
        write(["split", "all", "item", f"{name}.csv"], rows)
    for triple, pairs in edges.items():
        write(["raw", "relations", "___".join(triple), "edge.csv"], pairs.T)
    return types, edges


def metadata(path):
    """What a model's file says of itself."""
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]


def dgl_graph(edges, ndata, edata={}):
    """What from_dgl reads of a graph of one type."""
    triple, n = ("_N", "_E", "_N"), len(next(iter(ndata.values())))
    return of_dgl({"_N": ndata}, {"_N": n}, {triple: edges}, {triple: edata})


def masks_of(sets, n=N):
    return {MASKS[name]: np.isin(np.arange(n), ids) for name, ids in sets.items()}


def hetero(types, edges, weights={}):
    """The same as HeteroData of PyG, or what from_pyg reads of it."""
    names = {"n": "num_nodes", "x": "x", "y": "y", **MASKS}
    stores = {key: {names[name]: of for name, of in type_.items() if of is not None} for key, type_ in types.items()}
    stores.update((triple, {"edge_index": pairs}) for triple, pairs in edges.items())
    for triple, of in weights.items():
        stores[triple]["edge_weight"] = of
    if not has("torch_geometric"):

        class HeteroData(dict):
            node_types, edge_types = list(types), list(edges)

        return HeteroData({key: Bag(**store) for key, store in stores.items()})
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    for key, store in stores.items():
        for name, value in store.items():
            data[key][name] = value if name == "num_nodes" else torch.as_tensor(np.asarray(value))
    return data


def heterograph(types, edges, weights={}):
    """The same as a graph of DGL, or what from_dgl reads of it."""
    counts, tables = {name: of["n"] for name, of in types.items()}, {}
    for name, of in types.items():
        table = {"feat": of["x"], "label": of["y"], **masks_of({key: of[key] for key in MASKS if key in of}, of["n"])}
        tables[name] = {key: array for key, array in table.items() if array is not None}
    if not has("dgl"):
        return of_dgl(tables, counts, edges, {triple: {"w": of} for triple, of in weights.items()})
    import dgl
    import torch

    graph = dgl.heterograph({triple: tuple(torch.as_tensor(pairs)) for triple, pairs in edges.items()}, counts)
    for name, table in tables.items():
        graph.nodes[name].data.update({key: torch.as_tensor(value) for key, value in table.items()})
    for triple, of in weights.items():
        graph.edges[triple].data["w"] = torch.as_tensor(of)
    return graph


def lists_of_links():
    """Lists of links and of pairs without a link, (2, L) each."""
    rng = np.random.default_rng(5)
    pairs = np.unique(np.sort(rng.integers(0, N, (2, 900)), axis=0), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    pairs = pairs[:, rng.permutation(pairs.shape[1])]
    return dict(
        train_links=pairs[:, 90:], valid_links=pairs[:, :30], test_links=pairs[:, 30:60], test_negatives=pairs[:, 60:90]
    )


def with_relations(pairs, n_relations):
    """Heads, relations, tails; the pairs themselves if there are no relations."""
    return np.stack([pairs[0], pairs.sum(axis=0) % n_relations, pairs[1]]) if n_relations else pairs


# What scikit-learn expects of its estimators, and a classifier of vertices does otherwise.
EXPECTED = {
    "check_classifiers_classes": "a negative class is unknown, as in train()",
    "check_supervised_y_2d": "y of shape (N, 1), as OGB and PyG have it, gives no warning",
}


# Forms of one graph.
FORMS = ("arrays", "PyG", "DGL")


def crowd_pairs():
    """Pairs of the first half of crowd_graph() that are no edges."""
    edges = arrays()[0]
    taken = {tuple(sorted(pair)) for pair in edges.T.tolist()}
    return np.array([(a, b) for a in range(0, N, 9) for b in range(a + 1, N, 23) if (a, b) not in taken][:80]).T


def crowd_graph(form, order=None, targets=None):
    """Two copies of arrays() with other features, without an edge between them, as what sl.train() takes of a library.

    order: the vertices in their new order; the first copy alone: np.arange(N). targets: None: no targets, no split.
    """
    edges, x, y, _ = arrays()
    edges, x, y = np.concatenate([edges, edges + N], axis=1), np.concatenate([x, 1.5 - x]), np.concatenate([y, y])
    order = np.arange(2 * N) if order is None else order
    place = np.full(2 * N, -1)
    place[order] = np.arange(len(order))
    edges = place[edges[:, (place[edges] >= 0).all(axis=0)]]
    edges = edges[:, np.random.default_rng(len(edges.T)).permutation(edges.shape[1])]
    found = {"x": x[order]}
    sets = {}
    if targets is not None and targets != "link":
        found["y"] = {"class": y, "labels": np.stack([y % 2, y > 1], axis=1), "regression": y + 0.5}[targets]
        found["y"] = found["y"].astype(np.float32 if targets != "class" else np.int64)
        ids = np.random.default_rng(4).permutation(2 * N)
        sets = {"train": np.isin(order, ids[:240]), "valid": np.isin(order, ids[240:360])}
        sets["test"] = ~(sets["train"] | sets["valid"])
    elif targets == "link":
        pairs = crowd_pairs()
        sets = dict(valid_links=pairs[:, :40], test_links=pairs[:, 40:])
    if form == "arrays":
        return sl.Graph(edges, **found, **sets)
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    if form == "PyG":
        if has("torch_geometric"):
            import torch
            from torch_geometric.data import Data

            data = Data(edge_index=torch.as_tensor(edges), **{key: torch.as_tensor(of) for key, of in found.items()})
        else:
            data = Bag(edge_index=edges, edge_weight=None, edge_attr=None, y=None)
            data.__dict__.update(found)
        return sl.Graph.from_pyg(data, **sets) if targets else data
    if has("dgl"):
        import dgl
        import torch

        graph = dgl.graph(tuple(torch.as_tensor(edges)), num_nodes=len(order))
        names = dict(x="feat", y="label")
        graph.ndata.update({names[key]: torch.as_tensor(of) for key, of in found.items()})
    else:
        graph = dgl_graph(edges, {"feat": found["x"], **({"label": found["y"]} if "y" in found else {})})
    return sl.Graph.from_dgl(graph, **sets) if targets else graph


def ask_again(path, kind, targets, form):
    """Ask a model for crowd_graph(), its vertices in another order, and its first half."""
    model, expected = sl.load_model(path, cpus=2), np.load(path + ".npz")
    turned = np.random.default_rng(2).permutation(2 * N)
    for other in FORMS:
        for order in (None, turned, np.arange(N)):
            asked = crowd_graph(other, order)
            order = np.arange(2 * N) if order is None else order
            if targets == "link":
                found, rows = model.predict_links(asked, np.argsort(order)[crowd_pairs()]), expected["rows"]
            else:
                found, rows = model.predict(asked), expected["rows"][order]
            most = np.abs(found - rows).max() / max(1, np.abs(rows).max())
            hidden = expected["hidden"][order]
            most = max(most, np.abs(model.embeddings(asked) - hidden).max() / max(1, np.abs(hidden).max()))
            same = other == form and len(order) == 2 * N and order[0] == 0
            assert most <= (0 if same else 1e-6), (path, kind, targets, form, other, len(order), same, most)


class Training(Folder):
    def test_doctests(self):
        for name in ("_graph", "_model", *["_classifier"] * has("sklearn")):
            failed, tried = doctest.testmod(importlib.import_module("starling_gnn." + name))
            self.assertEqual(failed, 0)
            self.assertGreater(tried, 2)

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "cora")), "there is no cora in $STARLING_DATA")
    def test_first_example(self):
        """The first example of the guide: cora, mean of three seeds."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../doc/guide/python.md")) as file:
            code = file.read().split("```python show\n")[1].split("```")[0]
        mean = float(in_python(code, timeout=300, env=dict(STARLING_DATA=DATA, XDG_CACHE_HOME=self.here)).split()[-1])
        self.assertAlmostEqual(mean, 0.81, delta=0.007)

    def test_results(self):
        run = sl.train(graph(), **SMALL)
        self.assertEqual([record.epoch for record in run.records], [1, 2, 3, 4])
        best = run.records[run.best_epoch - 1]
        self.assertEqual(run.test_acc, best.test_acc)
        self.assertEqual(run.valid_acc, max(record.valid_acc for record in run.records))
        for key in ("loss", "valid_loss", "test_f1", "seconds", "stage_seconds", "vertices", "bytes"):
            self.assertIn(key, run.records[0])
        logits = run.predict()
        self.assertEqual((logits.shape, logits.dtype), ((N, K), np.float32))
        test = arrays()[3]["test"]
        self.assertAlmostEqual((logits[test].argmax(1) == arrays()[2][test]).mean(), run.test_acc)
        self.assertEqual(run.embeddings().shape, (N, 8))
        self.assertAlmostEqual(run.evaluate().test_acc, run.test_acc)
        self.assertFalse(run.interrupted)
        self.assertEqual(run.config["options"]["hidden"], 8)
        self.assertEqual(len(run.history), 4)
        if has("pandas"):
            self.assertEqual(list(run.history.columns[:3]), ["epoch", "loss", "valid_loss"])
        self.assertIn("best", repr(run))
        with self.refuses(AttributeError, "no test_auc"):
            run.test_auc

    def test_numpy_has_our_logits(self):
        """The equations of GraphSAGE with means, in numpy, on the weights of state_dict."""
        run = sl.train(graph(), **SMALL)
        weights = run.state_dict("dgl")
        edges, x = arrays()[:2]
        matrix = np.zeros((N, N), bool)
        matrix[edges[1], edges[0]] = matrix[edges[0], edges[1]] = True
        np.fill_diagonal(matrix, matrix.diagonal())
        mean = matrix / np.maximum(1, matrix.sum(1, keepdims=True))
        rows = x.astype(np.float64)
        for layer in range(2):
            own = weights[f"layers.{layer}.fc_self.weight"]
            neighbours = weights[f"layers.{layer}.fc_neigh.weight"]
            bias = next(
                value
                for name, value in weights.items()
                if name.startswith(f"layers.{layer}.") and name.endswith("bias")
            )
            rows = rows @ own.T + mean @ rows @ neighbours.T + bias
            if layer == 0:
                rows = np.maximum(rows, 0)
        np.testing.assert_allclose(run.predict(), rows, atol=1e-4)

    @needs("torch_geometric")
    def test_modules_of_pyg_have_our_logits(self):
        import torch

        edges, x = arrays()[:2]
        for model, more in [("sage", {}), ("gcn", {}), ("gat", dict(heads=2)), ("gatv2", dict(heads=2, skip=True))]:
            run = sl.train(graph(), model, **SMALL, **more)
            net = _pyg_net(model)
            net.load_state_dict(run.state_dict("pyg", tensors="torch"))
            net.eval()
            both = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
            with torch.no_grad():
                logits = net(torch.from_numpy(x), torch.from_numpy(both)).numpy()
            np.testing.assert_allclose(run.predict(), logits, atol=1e-4, err_msg=model)

    def test_saved_model(self):
        ours, theirs = self.path("ours"), self.path("theirs")
        run = sl.train(graph(), "gat", **SMALL, heads=2, save=theirs)
        run.save(ours)
        expected = run.evaluate()
        for weights in (run, ours, theirs):
            self.assertEqual(sl.evaluate(graph(), weights), sl.evaluate(graph(), run))
            self.assertAlmostEqual(sl.evaluate(graph(), weights).valid_loss, expected.valid_loss, places=5)
        scores = sl.evaluate(graph(), run.state_dict("pyg"), model="gat", heads=2, hidden=8, layers=2)
        self.assertAlmostEqual(scores.valid_loss, expected.valid_loss, places=5)
        read = [metadata(path) for path in (ours, theirs)]
        self.assertEqual(read[0], read[1])
        self.assertEqual(read[0]["objective"], "class")
        again = sl.train(graph(), "gat", **SMALL, heads=2, load=ours)
        both = sl.train(graph(), "gat", **SMALL, heads=2, weights=run.state_dict())
        self.assertEqual(losses(again), losses(both))
        with self.refuses(ValueError, "hidden: found '16', expected '8', as the model was trained"):
            sl.evaluate(graph(), ours, hidden=16)
        with self.refuses(TypeError, "evaluate: found hidden beside a Run, expected none: it has its own options"):
            sl.evaluate(graph(), run, hidden=16)
        with self.assertRaises(sl.BadFileError):
            sl.evaluate(graph(), run.state_dict(), model="gat", heads=2, hidden=16, layers=2)
        self.assertRaises(OSError, run.save, os.path.join(self.here, "none", "x"))
        self.assertRaises(TypeError, sl.evaluate, graph(), 3)

    def test_saved_model_of_open_options(self):
        """The file has the options that the session filled in, and the objective."""
        y = arrays()[2]
        options = {key: value for key, value in SMALL.items() if key not in ("layers", "fanout")}
        ours, theirs = self.path("ours"), self.path("theirs")
        for made, objective in [
            (graph(), "class"),
            (graph(y=np.eye(K, dtype=bool)[y]), "labels"),
            (graph(y=y + 0.5), "regression"),
        ]:
            run = sl.train(made, **options, save=theirs)
            run.save(ours)
            read = [metadata(path) for path in (ours, theirs)]
            self.assertEqual(read[0], read[1])
            self.assertEqual(read[0]["objective"], objective)
            self.assertNotEqual(read[0]["option.layers"], "0")
            self.assertAlmostEqual(sl.evaluate(made, ours).valid_loss, run.evaluate().valid_loss, places=4)
            sl.train(made, **options, load=ours)

    def test_weights(self):
        """train takes the weights that evaluate takes."""
        options = {**SMALL, "epochs": 2}
        path = self.path("model")
        run = sl.train(graph(), **options)
        run.save(path)
        expected = losses(sl.train(graph(), **options, weights=run.state_dict()))
        values = [run, path, {name: array.astype(np.float64) for name, array in run.state_dict().items()}]
        if has("torch"):
            values.append({name: tensor.requires_grad_() for name, tensor in run.state_dict(tensors="torch").items()})
            half = {name: tensor.bfloat16() for name, tensor in run.state_dict(tensors="torch").items()}
            self.assertEqual(
                sl.evaluate(graph(), half, layers=2, hidden=8),
                sl.evaluate(graph(), {name: t.float() for name, t in half.items()}, layers=2, hidden=8),
            )
        for weights in values:
            self.assertEqual(losses(sl.train(graph(), **options, weights=weights)), expected)
        for call in (sl.train, sl.evaluate):
            self.refuses(TypeError, "weights: found a int", call, graph(), weights=3)
            self.refuses(TypeError, "weights.'a'.: found", call, graph(), weights={"a": "text"})

    def test_names_of_statuses(self):
        with open(os.path.join(HERE, "../../support/status.h")) as file:
            statuses = re.findall(r"^    (SL_[A-Z]+) = (-\d+)", file.read(), re.MULTILINE)
        self.assertGreater(len(statuses), 10)
        for name, number in statuses:
            with self.assertRaises(sl.StarlingError) as caught:
                _library.check(int(number))
            self.assertEqual(caught.exception.status, name)

    def test_name_that_is_no_text(self):
        path = os.fsdecode(os.path.join(os.fsencode(self.here), b"m\xff"))
        run = sl.train(graph(), **SMALL, save=path)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(sl.evaluate(graph(), path), sl.evaluate(graph(), run))

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "cora")), "there is no cora in $STARLING_DATA")
    def test_cache(self):
        options = dict(layers=2, hidden=8, fanout=[4, 4], epochs=1, cpus=2)
        files = sl.load("cora", data_path=DATA, cache=self.here)
        self.assertTrue(os.listdir(self.here))
        edges = np.zeros((2, 0), int)
        other = sl.Graph(edges, np.ones((20, files.n_features)), np.arange(20) % 7, train=np.arange(20), n_classes=7)
        run = sl.train(files, **options)
        self.assertEqual(run.predict(other).shape, (20, 7))
        given = sl.train(sl.load("cora", data_path=DATA), **options, cache=self.here)
        self.assertEqual(given.predict(other).shape, (20, 7))
        np.testing.assert_equal(sl.evaluate(other, given), given.evaluate(other))  # all nan

    def test_places_of_the_library(self):
        def places(folder, prefix):
            with mock.patch.object(_library, "__file__", folder + "/starling_gnn/_library.py"):
                with mock.patch.object(sys, "prefix", prefix), mock.patch.dict(os.environ):
                    os.environ.pop("STARLING_LIBRARY", None)
                    return [os.path.dirname(path) for path in _library._candidates()]

        own = lambda folder: [folder + "/starling_gnn/lib", os.path.dirname(folder) + "/.libs"]  # noqa: E731
        source = "/x/home/me/starling/python"
        self.assertEqual(places(source, "/x/usr"), own(source))
        for folder, prefix, last in [
            ("/x/home/me/venv/lib/python3.11/site-packages", "/x/home/me/venv", "/x/home/me/venv"),
            ("/x/usr/local/lib/python3.11/dist-packages", "/x/usr", "/x/usr"),
            ("/x/opt/starling/lib/python3.11/site-packages", "/x/usr", "/x/opt/starling"),
            ("/x/opt/starling/local/lib/python3.11/dist-packages", "/x/usr", "/x/opt/starling"),
        ]:
            found = places(folder, prefix)
            self.assertIn(last + "/lib", found)
            self.assertIn(last + "/lib64", found)
            self.assertTrue(all(path.startswith(last + "/") for path in found), found)

    def test_two_trainings_two_graphs(self):
        edges, x, y, sets = arrays(2)
        other = sl.Graph(edges, x, y, **sets)
        first = sl.train(graph(), **SMALL)
        at_once = first.predict()
        second = sl.train(other, **SMALL, seed=5)
        third = sl.train(graph(), **SMALL)
        self.assertEqual(losses(first), losses(third))
        self.assertNotEqual(losses(first), losses(second))
        np.testing.assert_allclose(first.predict(), at_once, atol=1e-5)  # its session is gone
        self.assertEqual(first.predict(other).shape, (N, K))
        self.assertEqual(second.predict().shape, (N, K))

    def test_pipe(self):
        run = sl.train(graph(), "resgcn", pipe=True, layers=4, hidden=8, epochs=3, cpus=2)
        self.assertEqual(len(run.records), 3)
        self.assertEqual(run.predict().shape, (N, K))
        self.assertAlmostEqual(sl.evaluate(graph(), run).valid_loss, run.evaluate().valid_loss, places=5)
        self.refuses(TypeError, "with pipe=True", sl.train, graph(), stages=2)

    def test_fanouts_by_relation(self):
        option = next(option for option in sl.options() if option.keyword == "relation_fanout")
        names = {"cites": [10, 5], ("author", "writes", "paper"): np.array([5, 5]), 3: "7,-1"}
        self.assertEqual(option.text(names), "cites:10,5/author___writes___paper:5,5/3:7,-1")
        self.assertEqual(option.text({"cites": 15}), "cites:15")
        self.assertEqual(option.text("each"), "each")

    def test_options(self):
        signature = inspect.signature(sl.train)
        self.assertEqual(signature.parameters["batch_size"].default, 1024)
        self.assertEqual(signature.parameters["lambda_"].default, 0.5)
        self.assertIn("batch_size : int, default 1024", sl.train.__doc__)
        self.assertGreater(len(sl.options()), 50)
        for keywords, error, text in [
            (dict(hiden=3), TypeError, "unexpected keyword argument 'hiden'; did you mean hidden"),
            (dict(num_epochs=3), TypeError, "did you mean epochs"),
            (dict(zzzzzzzz=3), TypeError, "unexpected keyword"),
            (dict(dataset="cora"), TypeError, "give it to load"),
            (dict(epochs="ten"), sl.InvalidArgumentError, "epochs: found 'ten'"),
            (dict(epochs=2.5), ValueError, "epochs: found '2.5', expected a whole number"),
            (dict(epochs=True), ValueError, "epochs: found 'True', expected a whole number from 0"),
            (dict(epochs=-1), sl.InvalidArgumentError, "epochs: found '-1'"),
            (dict(lr="fast"), ValueError, "lr: found 'fast'"),
            (dict(lr=[1]), ValueError, "lr: found '.1.', expected a number"),
            (dict(fanout=[1.5, 2]), ValueError, "fanout: found '1.5,2', expected 1 to 256 whole numbers"),
            (dict(model="sag"), sl.InvalidArgumentError, "model: found 'sag'"),
            (dict(fanout=[3, 4, 5], layers=2), sl.InvalidArgumentError, "fanout"),
            (dict(class_weights=[1, 2]), sl.InvalidArgumentError, "class_weights: found 2 numbers, expected 4"),
            (dict(class_weights=[1, 2, "x", 3]), TypeError, "class_weights: found .1, 2, 'x', 3., expected 'balanced'"),
            (dict(class_weights={"a": 2}), ValueError, "class_weights: found the class 'a', expected classes of .0, 1"),
            (dict(class_weights=[]), TypeError, "class_weights: found ..,"),
            (dict(fanout=[]), ValueError, "fanout: found '', expected 1 to 256 whole numbers"),
            (dict(fanout={3: 4}), ValueError, "fanout: found '.3: 4.'"),
            (dict(save=True), TypeError, "save: found 'True', expected a text"),
            (dict(learn_epsilon=2), ValueError, "learn_epsilon: found '2', expected yes or no"),
            (dict(hidden=np.ones(2)), ValueError, "hidden: found 'array"),
            (dict(device="cuda"), TypeError, "'device'; did you mean gpus"),
            (dict(momentum=0.9), TypeError, "'momentum'; the optimisers are adam and adamw"),
            (dict(optimizer="sgd"), sl.InvalidArgumentError, "optimizer: found 'sgd'"),
            (dict(lr_schedule="step:2"), sl.InvalidArgumentError, "lr_schedule: found 'step:2'"),
            (dict(amp=True), TypeError, "'amp'; did you mean precision"),
            (dict(resume=True), sl.InvalidArgumentError, "checkpoint"),
            (dict(class_weights=np.ones((4, 1))), TypeError, "class_weights: found array.*, expected 'balanced'"),
            (dict(lr=object), ValueError, "lr: found '<class 'object'>', expected a number"),
            (dict(metrics=dict(zip(range(99), range(99)))), TypeError, "metrics: found a dict, expected a text"),
            (dict(save="a\0b"), ValueError, "save: found 'a.x00b', expected a text without zero bytes"),
            (dict(on_epoch=3), TypeError, "on_epoch: found 3, expected a function"),
            (dict(on_step="x"), TypeError, "on_step: found 'x', expected a function"),
            ({"batch-size": 3}, TypeError, "'batch-size'; did you mean batch_size.$"),
            (dict(load="/nowhere/model"), OSError, "/nowhere/model"),
        ]:
            with self.subTest(**keywords), self.refuses(error, text):
                sl.train(graph(), **{**SMALL, **keywords})
        self.assertEqual(
            sl.train(graph(), **{**SMALL, "epochs": np.int64(2), "lr": np.float32(0.5)}).config["options"]["epochs"], 2
        )
        for value, text in (
            (3, "found a int, expected a Graph, the name or path of a dataset, a Data"),
            ([1, 2, 3], r"found a list, .*run.predict\(\)\[ids\]"),
            (arrays()[1], r"found a ndarray, .*make one by Graph\(edge_index, x\)"),
        ):
            self.refuses(TypeError, text, sl.train, value)
            self.refuses(TypeError, text, sl.evaluate, value, {})
            self.refuses(TypeError, text, sl.train(graph(), **SMALL).predict, value)
        self.refuses(TypeError, "figure: found a int, expected a Figure", sl.train(graph(), **SMALL).plot, 3)
        for call, text in (
            (sl.Graph.from_pyg, "from_pyg: found a {}, expected a Data or HeteroData"),
            (sl.Graph.from_dgl, "from_dgl: found a {}, expected a DGLGraph"),
            (sl.Graph.from_networkx, "from_networkx: found a {}, expected a Graph or DiGraph of networkx"),
            (sl.load, "dataset: found"),
        ):
            for value in (None, 3, [1], arrays()[1], {}):
                with self.subTest(text, value=value):
                    with self.refuses(TypeError, text.format(type(value).__name__)) as caught:
                        call(value)
                    self.assertNotIn("\n", str(caught.exception))
        self.refuses(sl.NotFoundError, "nosuch", sl.load, "nosuch")
        self.assertRaises(FileNotFoundError, sl.train, "nosuch")
        self.refuses(TypeError, "expected some of", sl.load, "cora", epochs=3)

    def test_one_fanout(self):
        """A number is for each layer, also of the layers that the library chooses."""
        expected = trained(graph())
        self.assertEqual(trained(graph(), fanout=4), expected)
        usual = sl.train(graph(), **{**SMALL, "layers": None, "fanout": None}).config["options"]["layers"]
        self.assertEqual(
            sl.train(graph(), **{**SMALL, "layers": None, "fanout": np.int32(4)}).config["options"]["fanout"],
            [4] * usual,
        )

    def test_class_weights(self):
        weights = [0.5, 1, 3, 1 / 3]
        path = self.path("weights")
        np.savetxt(path, weights, fmt="%.17g")
        expected = trained(graph(), class_weights=path)
        for form in (weights, np.array(weights), {0: 0.5, 2: 3, 3: 1 / 3}):
            run = sl.train(graph(), **SMALL, class_weights=form)
            self.assertEqual(losses(run), expected)
        self.assertEqual(run.predict(graph(name="other")).shape, (N, K))
        names = np.array(["red", "green", "blue", "white"])[arrays()[2]]
        by_name = dict(class_weights={"red": 0.5, "blue": 3, "white": 1 / 3})
        found = trained(graph(y=names), **by_name)
        if has("sklearn"):
            edges, x, y, sets = arrays()
            classifier = sl.NodeClassifier(**SMALL, **by_name).fit(x, names, edge_index=edges, **sets, name="crowds")
            self.assertEqual(losses(classifier.run_), found)
        order = np.unique(names, return_inverse=True)[1]  # blue, green, red, white
        self.assertEqual(trained(graph(y=order), class_weights=[3, 1, 0.5, 1 / 3]), found)

    def test_errors_of_the_run(self):
        self.refuses(ArithmeticError, "learning rate", sl.train, graph(), **{**SMALL, "lr": 1e30})
        with self.assertRaises(MemoryError):
            sl.train(graph(), **{**SMALL, "hidden": 65536, "batch_size": 1 << 20, "layers": 40, "fanout": [100] * 40})
        sl.train(graph(), **SMALL)

    def test_files(self):
        path = self.path("lines")
        run = sl.train(graph(), **SMALL, metrics=path, predict=self.path("p.npy"))
        with open(path) as file:
            self.assertEqual([json.loads(line)["event"] for line in file], ["config"] + 4 * ["epoch"] + ["summary"])
        np.testing.assert_array_equal(np.load(self.path("p.npy")), run.predict())

    @needs("sklearn")
    def test_classifier(self):
        import sklearn.base

        edges, x, y, sets = arrays()
        names = np.array(["red", "green", "blue", "white"])[y]
        classifier = sl.NodeClassifier("gcn", **SMALL)
        self.assertIs(classifier.fit(x, names, edge_index=edges, **sets), classifier)
        self.assertEqual(sorted(set(names)), list(classifier.classes_))
        self.assertLessEqual(set(classifier.predict()), set(names))
        np.testing.assert_allclose(classifier.predict_proba().sum(1), 1)
        self.assertAlmostEqual(classifier.score(), (classifier.predict() == names)[sets["test"]].mean())
        self.assertEqual(classifier.get_params()["hidden"], 8)
        self.assertEqual(classifier.set_params(hidden=16).hidden, 16)
        self.assertEqual(sl.NodeClassifier(**SMALL).fit(graph()).predict().shape, (N,))
        for given in (dict(train=sets["train"]), dict(y=y), dict(name="x"), dict(directed=True)):
            self.refuses(TypeError, f"a Graph and {list(given)[0]}", sl.NodeClassifier(**SMALL).fit, graph(), **given)
        self.assertRaises(TypeError, sl.NodeClassifier, hiden=3)
        self.assertEqual(sklearn.base.clone(classifier).get_params(), classifier.get_params())

    @needs("sklearn")
    def test_classifier_of_ids(self):
        """With the parameter graph, X is vertex ids, so tools split the vertices of one graph."""
        edges, x, y, sets = arrays()
        names = np.array(["red", "green", "blue", "white"])[y]
        ids = np.concatenate([sets["train"], sets["valid"]])
        classifier = sl.NodeClassifier("gcn", **SMALL, graph=dict(edge_index=edges, x=x, name="crowds"))
        expected = sl.train(graph(y=names, train=ids, valid=None, test=None), "gcn", **SMALL)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a missing validation set
            for X in (ids, ids[:, None], ids.tolist()):
                self.assertEqual(losses(classifier.fit(X, names[ids]).run_), losses(expected))
        found = classifier.predict(sets["test"][:, None])
        np.testing.assert_array_equal(found, classifier.classes_[expected.predict().argmax(1)][sets["test"]])
        asked = names[sets["test"]]
        self.assertAlmostEqual(classifier.score(sets["test"], asked), (found == asked).mean())
        self.assertEqual(classifier.predict_proba([3, 5]).shape, (2, K))
        for call, error, words in (
            (lambda: classifier.fit(x, y), ValueError, r"X: found the shape .240, 6., expected vertex ids"),
            (lambda: classifier.fit([N], y[:1]), ValueError, "found 1 class, expected 2 or more"),
            (lambda: classifier.fit(np.arange(N) + 1, y), ValueError, "X: found id 240, expected ids of 0 .. 239"),
            (lambda: classifier.fit(ids, y), ValueError, "y: found 240 classes, expected 180"),
            (lambda: classifier.fit(ids, y[ids], train=ids), TypeError, "fit: found train, expected X and y alone"),
            (lambda: classifier.score(), ValueError, "score: found no y"),
            (lambda: sl.NodeClassifier().predict(x), AttributeError, "not fitted"),
            (lambda: sl.NodeClassifier(graph=dict(x=x)).fit([0, 1], [0, 1]), TypeError, "graph: found the keys x"),
        ):
            self.refuses(error, words, call)

    @needs("sklearn")
    def test_classifier_of_rows(self):
        """Features without edges make a graph without edges, with a warning; new rows then need none."""
        edges, x, y, sets = arrays()
        with self.warns(sl.StarlingWarning, "found no edge_index, so no vertex has an edge"):
            classifier = sl.NodeClassifier(**SMALL).fit(x, y)
        self.assertEqual(classifier.predict(x[:7]).shape, (7,))
        np.testing.assert_allclose(classifier.predict_proba(x[:7]), classifier.predict_proba(x)[:7], atol=1e-6)
        classifier = sl.NodeClassifier(**SMALL).fit(x, y, edge_index=edges)
        self.refuses(TypeError, "X: found features without edge_index", classifier.predict, x)
        np.testing.assert_array_equal(classifier.predict(x, edge_index=edges), classifier.predict())
        with self.refuses(ValueError, "X has 3 features, but NodeClassifier is expecting 6 features as"):
            classifier.predict(x[:, :3], edge_index=edges)

    @needs("sklearn")
    def test_pickled_classifier(self):
        edges, x, y, sets = arrays()
        for more, given in (
            (dict(graph=dict(edge_index=edges, x=x)), (np.arange(N), y)),
            ({}, (graph(),)),
        ):
            classifier = sl.NodeClassifier(**SMALL, **more).fit(*given)
            again = pickle.loads(pickle.dumps(classifier))
            asked = [0, 5, 7] if more else sl.Graph(edges, x)
            np.testing.assert_array_equal(again.predict(asked), classifier.predict(asked))
        self.refuses(ValueError, "a pickle of a classifier has no graph", again.predict)

    @needs("sklearn")
    def test_scikit_learn(self):
        from sklearn.model_selection import GridSearchCV, cross_val_score
        from sklearn.utils.estimator_checks import check_estimator

        edges, x, y, sets = arrays()
        classifier = sl.NodeClassifier("gcn", **SMALL, graph=dict(edge_index=edges, x=x))
        scores = cross_val_score(classifier, np.arange(N), y, cv=3)
        self.assertEqual(scores.shape, (3,))
        search = GridSearchCV(classifier, {"hidden": [4, 8], "model": ["gcn", "sage"]}, cv=2).fit(np.arange(N), y)
        self.assertIn(search.best_params_["hidden"], (4, 8))
        self.assertEqual(search.predict(sets["test"]).shape, (60,))
        if "on_fail" not in inspect.signature(check_estimator).parameters:
            self.skipTest("scikit-learn is older than 1.6")
        tested = sl.NodeClassifier(layers=1, epochs=60, lr=0.1, dropout=0, pes=1, cpus=1, partition="none")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(tested, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
        failed = {f"{r['check_name']}: {r['exception']!r:.300}" for r in results if r["status"] == "failed"}
        self.assertEqual(failed, set())
        self.assertEqual({r["check_name"] for r in results if r["status"] == "xfail"}, set(EXPECTED))

    @needs("sklearn")
    def test_unknown_classes(self):
        edges, x, y, sets = arrays()
        names = np.array(["red", "green", "blue", "white"])[y]
        hidden = np.isin(np.arange(N), np.concatenate([sets["train"][:40], sets["test"][:10], sets["valid"][:5]]))
        masks = {name: np.isin(np.arange(N), ids) & ~hidden for name, ids in sets.items()}
        expected = trained(graph(y=np.where(hidden, -1, y), **masks))
        forms = [
            (np.where(hidden, -1, y), np.arange(K)),
            (np.where(hidden, np.nan, y), np.arange(K)),
            (np.where(hidden, -100, y)[:, None], np.arange(K)),
            (np.where(hidden, -1, 10 * y), 10 * np.arange(K)),
            (np.where(hidden, None, np.array(["a", "b", "c", "d"])[y]), list("abcd")),
            (np.where(hidden, np.nan, np.array(["a", "b", "c", "d"], object)[y]), list("abcd")),
        ]
        if has("torch"):
            import torch

            forms.append((torch.from_numpy(np.where(hidden, -1.0, y)).requires_grad_(), np.arange(K)))
        if has("pandas"):
            import pandas

            forms.append((pandas.Series(y).where(~hidden).astype("Int64"), np.arange(K)))
        for form, classes in forms:
            for given in (sets, {name: ids for name, ids in sets.items() if name != "train"}):
                classifier = sl.NodeClassifier(**SMALL).fit(x, form, edge_index=edges, **given, name="crowds")
                self.assertEqual(list(classifier.classes_), list(classes))
                self.assertEqual(losses(classifier.run_), expected)
        classifier = sl.NodeClassifier(**SMALL).fit(x, names, edge_index=edges, **sets)
        self.assertEqual(
            losses(classifier.run_),
            losses(sl.NodeClassifier(**SMALL).fit(graph(y=np.unique(names, return_inverse=True)[1])).run_),
        )
        for wrong in (-np.ones(N), np.where(y == 1, 1, -1)):
            with self.refuses(ValueError, "found . class(es)?, expected 2 or more"):
                sl.NodeClassifier(**SMALL).fit(x, wrong, edge_index=edges)
        with self.refuses(ValueError, "y should be a 1d array, got an array of shape .240, 4."):
            sl.NodeClassifier(**SMALL).fit(x, np.eye(K)[y], edge_index=edges)

    def test_progress(self):
        bar = _model.Progress(False, 2)
        for seconds, clock in ((5, "0:05"), (65, "1:05"), (90000, "25:00:00")):
            bar.stream, bar.started = io.StringIO(), time.monotonic() - seconds
            bar._draw(1, 0.5)
            self.assertIn(f"  {clock} left", bar.stream.getvalue())
        code = "sl.train(graph(), **SMALL{})"
        self.assertEqual(in_python(code.format("")), "")
        self.assertEqual(in_python(code.format(", progress=True")).count("epoch "), 4)
        if has("pty"):
            import pty

            leader, follower = pty.openpty()
            subprocess.run([sys.executable, "-c", PROLOGUE + code.format("")], stderr=follower, check=True)
            os.close(follower)
            text = b""
            try:
                while chunk := os.read(leader, 1 << 16):
                    text += chunk
            except OSError:
                pass
            os.close(leader)
            self.assertIn(b"left", text)
            self.assertNotIn(b"\n", text)

    @needs("matplotlib")
    def test_plot(self):
        import matplotlib.figure
        import matplotlib.pyplot

        matplotlib.use("Agg")
        figure = matplotlib.figure.Figure()
        self.assertIs(sl.train(graph(), **SMALL, eval_every=3).plot(figure), figure)

        def drawn(axes):
            return {line.get_label(): (list(map(int, line.get_xdata())), line.get_marker()) for line in axes.lines}

        evaluated = ([3, 4], "o")
        self.assertEqual(drawn(figure.axes[1]), {"training": ([1, 2, 3, 4], "o"), "validation": evaluated})
        scores = drawn(figure.axes[3])
        self.assertEqual((scores["validation"], scores["test"]), (evaluated, evaluated))
        self.assertEqual(figure.axes[3].get_ylabel(), "Accuracy (acc), %")
        run = sl.train(graph(), **{**SMALL, "epochs": 60}, eval_every=2)
        loss = drawn(run.plot().axes[1])
        self.assertEqual(loss["validation"], (list(range(2, 61, 2)), "None"))
        with self.warns(sl.StarlingWarning, "valid acc is not defined"):
            run = sl.train(graph(valid=None, test=None), **SMALL)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            axes = run.plot().axes
            self.assertEqual([len(one.lines) for one in axes[1:3]], [1, 1])
        matplotlib.pyplot.close("all")

    def test_modules_that_are_missing(self):
        in_python("""
            for name in ("pandas", "matplotlib", "scipy", "torch", "sklearn"):
                sys.modules[name] = None
            run = sl.train(graph(), **SMALL)
            assert isinstance(run.history, list)
            for call, words in ((run.plot, "matplotlib"), (lambda: sl.NodeClassifier, "scikit-learn")):
                try:
                    call()
                    raise SystemExit(1)
                except ImportError as error:
                    assert f"pip install {words}, or Debian's python3-" in str(error), error
            from starling_gnn import *
        """)

    def test_numpy_comes_with_the_results(self):
        """Training on files needs no numpy before its end, and without numpy the import says so."""
        edges, x, y, sets = arrays()
        for name, array in {"edge": edges, "node-feat": x, "node-label": y}.items():
            self.npy(f"made/raw/{name}.npy", array)
        for name, ids in sets.items():
            self.npy(f"made/split/s/{name}.npy", ids)
        code = """
                import sys
                import starling_gnn as sl
                def tell(record):
                    print(sorted({"numpy", "pandas"} & set(sys.modules)), end=" ")
                options = dict(layers=2, hidden=8, fanout=[4, 4], batch_size=20, pes=2, epochs=1, progress=False)
                run = sl.train(sl.load(sys.argv[1], cache="none"), **options, on_epoch=tell)
                print(run.predict().shape)
                """
        command = [sys.executable, "-c", textwrap.dedent(code), self.path("made")]
        self.assertEqual(subprocess.check_output(command, text=True), f"[] ({N}, {K})\n")
        without = "import sys; sys.modules['numpy'] = None; import starling_gnn"
        done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("numpy", done.stderr.splitlines()[-1])


def _pyg_net(model):
    import torch
    from torch_geometric import nn

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            kinds = {
                "sage": lambda i, o, last: nn.SAGEConv(i, o),
                "gcn": lambda i, o, last: nn.GCNConv(i, o),
                "gat": lambda i, o, last: nn.GATConv(i, o if last else o // 2, heads=1 if last else 2),
                "gatv2": lambda i, o, last: nn.GATv2Conv(i, o if last else o // 2, 1 if last else 2, residual=True),
            }
            self.convs = torch.nn.ModuleList([kinds[model](F, 8, False), kinds[model](8, K, True)])

        def forward(self, x, edge_index):
            return self.convs[1](torch.relu(self.convs[0](x, edge_index)), edge_index)

    return Net()


def workers():
    """The threads of this process with a name of their own: StarPU's workers. A session that opens starts new ones."""
    names = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm", encoding="ascii") as file:
                names[thread] = file.read()
        except OSError:
            pass  # it has ended
    return {thread for thread in names if names[thread] != names[str(os.getpid())]}


class Models(Folder):
    """Models of files and runs, and their answers for other graphs."""

    def same(self, scores, expected):
        """The same scores, and the same loss up to the order of its sum."""
        self.assertEqual(list(scores), list(expected))
        for name, value in expected.items():
            self.assertAlmostEqual(scores[name], value, places=6, msg=name)

    def saved(self, run):
        """The model in a file, loaded, and its file deleted."""
        run.save(self.path("saved.safetensors"))
        model = sl.load_model(self.path("saved.safetensors"))
        os.unlink(self.path("saved.safetensors"))
        return model

    def test_same_scores(self):
        """The same bits for the same graph, of a file with the option save, of Run.save and of a pickle."""
        edges, x, y, sets = arrays()
        bare = sl.Graph(edges, x)
        for kind, more in (
            ("sage", {}),
            ("gat", dict(heads=2, output_layers=2)),
            ("gcn", dict(normalize_features="column")),
        ):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model")
                run = sl.train(graph(), kind, **SMALL, **more, save=path)
                models = [run.model, self.saved(run), sl.load_model(path), pickle.loads(pickle.dumps(run.model))]
                run.save(path, names="pyg")
                models.append(sl.load_model(path, cpus=1))
            scores, rows, expected = run.predict(), run.embeddings(), run.evaluate()
            sl.close()
            for model in models:
                with self.subTest(kind, model=model):
                    np.testing.assert_array_equal(model.predict(graph()), scores)
                    np.testing.assert_array_equal(model.predict(bare), scores)
                    np.testing.assert_array_equal(model.predict(bare, [7, 3, 7]), scores[[7, 3, 7]])
                    np.testing.assert_array_equal(model.predict(bare, y == 2), scores[y == 2])
                    np.testing.assert_array_equal(model.embeddings(bare, np.arange(5)), rows[:5])
                    self.same(model.evaluate(graph()), expected)
                    self.assertTrue(np.isnan(model.evaluate(bare).test_acc))
                    self.assertEqual((model.kind, model.objective, model.dataset), (kind, "class", "crowds"))
                    self.assertEqual((model.n_features, model.n_outputs, model.n_embeddings), (F, K, 8))
            np.testing.assert_array_equal(run.predict(bare), scores)
            np.testing.assert_array_equal(run.predict(), scores)
            self.same(sl.evaluate(graph(), models[1]), expected)

    def test_other_graphs(self):
        """Vertices in another order, a part that is closed under neighbours, fewer classes, graphs of PyG and DGL."""
        edges, x, y, sets = arrays()
        run = sl.train(graph(), **SMALL)
        scores, model = run.predict(), self.saved(run)
        order = np.random.default_rng(2).permutation(N)
        place = np.argsort(order)
        np.testing.assert_allclose(model.predict(sl.Graph(place[edges], x[order])), scores[order], rtol=1e-6, atol=1e-6)
        twice = sl.Graph(np.concatenate([edges, edges + N], axis=1), np.concatenate([x, x]))
        np.testing.assert_allclose(model.predict(twice)[N:], scores, rtol=1e-6, atol=1e-6)
        fewer = graph(y=np.where(y == K - 1, -1, y), train=None, valid=[0], test=[1])
        self.assertEqual(fewer.n_outputs, K - 1)
        np.testing.assert_allclose(run.predict(fewer), scores, rtol=1e-6, atol=1e-6)
        self.same(model.evaluate(fewer), run.evaluate(fewer))

        both = np.concatenate([edges, edges[::-1]], axis=1)
        mask = np.isin(np.arange(N), sets["train"])
        masked = dgl_graph(both, dict(feat=x, train_mask=mask))  # without labels, as of vertices that are asked for
        for call in (model.predict, run.predict):
            for form in (Bag(edge_index=both, x=x, train_mask=mask), masked):
                np.testing.assert_allclose(call(form), scores, rtol=1e-6, atol=1e-6)

    def test_every_model(self):
        """Models of arrays, PyG and DGL answer in another process, by the file's name, for all three."""
        pairs = crowd_pairs()
        made = []
        for i, kind in enumerate(("sage", "gcn", "gat", "gcnii", "resgcn", "gin")):
            for j, targets in enumerate(("class", "labels", "regression", "link")):
                form = FORMS[(i + j) % 3]
                more = dict(normalize_features=("none", "row", "column")[(i + j + j // 3) % 3])
                if targets == "regression":
                    more["objective"] = targets
                run = sl.train(crowd_graph(form, targets=targets), kind, **SMALL, **more)
                path = self.path(f"{len(made)}.safetensors")
                run.save(path)
                rows = run.predict_links(pairs) if targets == "link" else run.predict()
                np.savez(path + ".npz", rows=rows, hidden=run.embeddings())
                made.append((path, kind, targets, form))
        in_python(f"[ask_again(*told) for told in {made!r}]", timeout=400)

    def test_names(self):
        y = arrays()[2]
        names = np.array(["ash", "beech", "birch", "oak"])
        run = sl.train(graph(y=names[y]), **SMALL)
        model = self.saved(run)
        for found in (run.classes, model.classes, pickle.loads(pickle.dumps(model)).classes):
            self.assertEqual(found.tolist(), names.tolist())
        best = names[run.predict().argmax(axis=1)]
        for made in (run.predict_table(), model.predict_table(graph(y=None, train=None, valid=None, test=None))):
            self.assertEqual(list(made), ["id", "class", "ash", "beech", "birch", "oak"])
            self.assertEqual(list(made["id"]), list(range(N)))
            self.assertEqual(list(made["class"]), best.tolist())
            np.testing.assert_allclose(made["oak"], run.predict()[:, 3], rtol=1e-6, atol=1e-6)
        self.assertEqual(list(model.predict_table(graph(), [5, 2])["id"]), [5, 2])
        some = np.where(np.isin(y, (1, 3)), names[y], "")  # a graph of other classes, which have other numbers
        part = {name: ids[y[ids] % 2 == 1] for name, ids in arrays()[3].items()}
        fewer = model.evaluate(graph(y=some, **part))
        self.same(model.evaluate(graph(y=names[y], **part)), fewer)
        if has("pandas"):  # another order of the same names
            import pandas

            turned = pandas.Categorical(names[y], categories=["oak", "elm", "birch", "ash", "beech"])
            self.same(model.evaluate(graph(y=turned)), model.evaluate(graph(y=names[y])))
        with self.warns(sl.StarlingWarning, "240 vertices have classes that the model does not know"):
            self.assertTrue(np.isnan(model.evaluate(graph(y=y)).test_acc))  # numbers are no names
        code = """
        import builtins
        load = builtins.__import__
        def without_pandas(name, *more):
            if name == "pandas":
                raise ImportError
            return load(name, *more)
        builtins.__import__ = without_pandas
        table = sl.train(graph(), **SMALL).predict_table(vertices=[4])
        print(type(table).__name__, sorted(table), table["id"].tolist())
        """
        self.assertIn("dict ['class', 'class0', 'class1', 'class2', 'class3', 'id'] [4]", in_python(code))
        odd = sl.train(graph(y=np.array(["id", "class", "a,b", "é"])[y]), **SMALL).predict_table()
        self.assertEqual(list(odd), ["id", "class", "a,b", "class_score", "id_score", "é"])
        numbers = sl.train(graph(y=y + 0.5), **SMALL)
        self.assertIsNone(numbers.classes)
        self.assertEqual(list(numbers.predict_table()), ["id", "number0"])

    def test_new_vertices(self):
        """Scores of new vertices are those of a graph of all vertices."""
        edges, x, _, _ = arrays()
        old = N - 7
        given = (edges < old).all(axis=0)
        weights = np.linspace(0.5, 2, len(edges.T))
        kinds = np.arange(len(edges.T)) % 3
        rows = np.stack([np.sin(kinds), weights], axis=1)
        for options in (
            {},
            {"edge_weights": "factor"},
            {"model": "rgcn", "edge_features": "add"},
            {"directed": True, "normalize_features": "column"},
        ):
            directed = options.pop("directed", False)
            parts = {"edge_weight": weights} if "edge_weights" in options else {}
            if "model" in options:
                parts = {"edge_type": kinds, "edge_attr": rows}
            of_old = {name: part[given] for name, part in parts.items()}
            of_new = {name: part[~given] for name, part in parts.items()}
            known = {"train": np.arange(40), "valid": None, "test": None, "y": arrays()[2][:old]}
            loaded = graph(edge_index=edges[:, given], x=x[:old], directed=directed, **known, **of_old)
            known = {"train": None, "valid": None, "test": None, "y": None}
            whole = graph(directed=directed, **known, **parts)
            run = sl.train(loaded, **{**SMALL, "sync": "allreduce", **options})
            expected, hidden = run.predict(whole)[old:], run.embeddings(whole)[old:]
            found = run.predict_new(x[old:], edges[:, ~given], **of_new)
            np.testing.assert_array_equal(found, expected)
            found = run.model.predict_new(loaded, x[old:], edges[:, ~given], embeddings=True, **of_new)
            np.testing.assert_array_equal(found, hidden)
            lone = run.predict_new(x[:1], np.empty((2, 0), int))
            self.assertEqual(lone.shape, (1, K))
        self.assertEqual(run.predict_new(np.empty((0, F)), np.empty((2, 0), int)).shape, (0, K))
        with self.assertRaisesRegex(sl.InvalidArgumentError, "edge 0 is 1 -> 2, both of the graph"):
            run.predict_new(x[:1], [[1], [2]])
        with self.assertRaisesRegex(ValueError, f"edge_index.*{old + 1}"):
            run.predict_new(x[:1], [[1], [old + 1]])
        with self.assertRaisesRegex(sl.InvalidArgumentError, "features: found 3 columns"):
            run.predict_new(x[:1, :3], [[1], [old]])
        with self.assertRaisesRegex(ValueError, "edge_index: found a sparse matrix"):
            import scipy.sparse

            run.predict_new(x[:1], scipy.sparse.identity(N))
        degrees = sl.load("arxiv-synthetic", features="degree")
        model = sl.train(degrees, layers=1, epochs=1, cpus=2).model
        with self.assertRaisesRegex(sl.InvalidArgumentError, "features degree, which new edges change"):
            model.predict_new(degrees, [[1.0]], [[0], [degrees.n_vertices]])

    def test_files(self):
        """Ids of the vertices and names of the classes of files, and what a model of them answers."""
        edges, x, y, sets = arrays()
        names = np.array(["ash", "beech", "birch", "oak"])
        split = np.full(N, "", object)
        for name, ids in sets.items():
            split[ids] = name
        numbers = [",".join(f"{number:.9g}" for number in row) for row in x]
        header, rows = "id,a,b,c,d,e,f,label,split", [f"v{v},{numbers[v]},{names[y[v]]},{split[v]}" for v in range(N)]
        self.lines("nodes.csv", [header, *rows])
        self.lines("edges.csv", ["src,dst", *(f"v{a},v{b}" for a, b in edges.T)])
        files = sl.load(self.here, cache="none")
        self.assertEqual(files.classes.tolist(), names.tolist())
        self.assertEqual(files.ids[:3].tolist(), ["v0", "v1", "v2"])
        run = sl.train(files, **SMALL)
        scores = run.predict()
        made = run.predict_table()
        self.assertEqual(list(made["id"]), [f"v{v}" for v in range(N)])
        self.assertEqual(list(made["class"]), names[scores.argmax(axis=1)].tolist())
        model = self.saved(run)
        np.testing.assert_array_equal(model.predict(files), scores)
        np.testing.assert_array_equal(model.predict(self.here), scores)
        for options in (dict(directed=True), dict(features="degree"), dict(features="random:5")):
            run = sl.train(sl.load(self.here, cache="none", **options), **SMALL)
            other = self.saved(run)
            for asked in (self.here, sl.load(self.here, cache="none"), sl.load(self.here, cache="none", **options)):
                np.testing.assert_array_equal(other.predict(asked), run.predict())
                np.testing.assert_array_equal(model.predict(files), scores)
        # Vertices and pairs by id.
        np.testing.assert_array_equal(model.predict(files, ["v7", "v3"]), scores[[7, 3]])
        np.testing.assert_array_equal(model.embeddings(self.here, np.array(["v5"])), model.embeddings(files, [5]))
        self.assertEqual(list(model.predict_table(files, ["v9", "v2"])["id"]), ["v9", "v2"])
        self.refuses(ValueError, "vertices: found 'w1', expected ids of the graph", model.predict, files, ["v1", "w1"])
        linked = sl.train(sl.load(self.here, cache="none"), split="random:80,10,10", objective="link", **SMALL).model
        np.testing.assert_array_equal(
            linked.predict_links(files, [["v1", "v2"], ["v8", "v9"]]), linked.predict_links(files, [[1, 2], [8, 9]])
        )
        with self.refuses(ValueError, "features: found 'random:4', expected 'random:5', with which the"):
            other.predict(sl.load(self.here, cache="none", features="random:4"))
        onehot = sl.train(sl.load(self.here, cache="none", features="onehot"), **SMALL).model
        self.assertEqual(len(onehot.predict(self.here)), N)
        self.lines("nodes.csv", [header, *reversed(rows)])
        with self.refuses(ValueError, "features onehot: found other vertices in '.*', or in another ord"):
            onehot.predict(self.here)
        np.testing.assert_array_equal(model.predict(graph()), scores)

    def test_files_of_others(self):
        """A file of arrays alone, as older versions wrote it, with the options as keywords."""
        run = sl.train(graph(), **SMALL)
        arrays_of = run.state_dict("dgl")
        header, data = {}, b""
        for name, array in arrays_of.items():
            offsets = [len(data), len(data) + array.nbytes]
            header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
            data += array.tobytes()
        text = json.dumps(header).encode()
        path = self.path("bare.safetensors")
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data)
        with self.warns(sl.StarlingWarning, "an older file, or one of another program"):
            model = sl.load_model(path, layers=2, hidden=8)
        self.assertEqual(model.n_outputs, run.model.n_outputs)
        np.testing.assert_array_equal(model.predict(graph()), run.predict())
        self.assertEqual(len(model.predict_table(graph())["id"]), N)
        self.refuses(ValueError, "pairs: found a model of vertices", model.predict_links, graph(), [[0], [1]])

    def test_direction(self):
        """Edges of PyG get reverse ones if those of training did."""
        edges, x, _, _ = arrays()
        for directed in (False, True):
            run = sl.train(graph(directed=directed), **SMALL)
            data = Bag(edge_index=edges, x=x)
            for model in (run, run.model, self.saved(run)):
                np.testing.assert_array_equal(model.predict(data), run.predict())
                self.assertEqual(len(model.predict_table(data)["id"]), N)
                with self.warns(sl.StarlingWarning, "the edges have .* unlike those that the model was tr"):
                    model.predict(graph(directed=not directed))

    @needs("scipy")
    def test_relations(self):
        types, edges = typed(self.here)
        for directed, kind in ((True, "rgcn"), (False, "rgat"), (False, "rgcn")):
            run = sl.train(sl.Graph.from_pyg(hetero(types, edges), directed=directed), kind, **SMALL)
            model = self.saved(run)
            turned = hetero(types, dict(reversed(edges.items())))
            found = model.predict(turned if directed else sl.Graph.from_pyg(turned, directed=False))
            np.testing.assert_allclose(found, run.predict(), rtol=1e-6, atol=1e-6)
            of_dgl = sl.Graph.from_dgl(heterograph(types, edges), directed=directed)
            items = model.predict(of_dgl)[of_dgl.types["item"]]
            np.testing.assert_allclose(items, run.predict()[run.graph.types["item"]], rtol=1e-5, atol=1e-5)
            self.check_order_of_types(run, model, types, edges, directed)
        with self.refuses(ValueError, "column cannot be used with the typed graph"):
            sl.train(hetero(types, edges), "rgcn", **SMALL, normalize_features="column")
        # Relations alone leave the columns as they are.
        kinds = arrays()[0].sum(axis=0) % 3
        run = sl.train(graph(edge_type=kinds), "rgcn", **SMALL, normalize_features="column")
        np.testing.assert_array_equal(self.saved(run).predict(graph(edge_type=kinds)), run.predict())
        run = sl.train(hetero(types, edges), "rgcn", **SMALL)
        model = self.saved(run)
        self.assertEqual(model.relations, (("user", "likes", "item"), ("item", "near", "item")))

    def check_order_of_types(self, run, model, types, edges, directed):
        """The columns of types are found by the names of the types, also if a type has no vertices."""
        turned = sl.Graph.from_pyg(hetero(dict(reversed(types.items())), edges), directed=directed)
        expected, found = run.predict(), model.predict(turned)
        for name, where in run.graph.types.items():
            np.testing.assert_allclose(found[turned.types[name]], expected[where], rtol=1e-5, atol=1e-5)
        alone = {"item": types["item"]}
        near = {("item", "near", "item"): edges["item", "near", "item"]}
        made = sl.Graph.from_pyg(hetero(alone, near), directed=directed)
        self.assertEqual(model.predict(made).shape, (types["item"]["n"], model.n_outputs))

    def test_links(self):
        links = lists_of_links()
        x = arrays()[1]
        pairs = np.concatenate([links["test_links"], links["test_negatives"]], axis=1)
        for relations, more in ((0, {}), (0, dict(decoder="mlp")), (3, dict(decoder="distmult"))):
            rows = {name: with_relations(found, relations) for name, found in links.items()}
            made = sl.Graph(None, x, **rows)
            run = sl.train(made, **SMALL, **more)
            asked = with_relations(pairs, relations)
            scores = run.predict_links(asked)
            self.assertEqual(scores.shape, (60,))
            outputs = run.predict()
            if not more:
                np.testing.assert_allclose(scores, (outputs[pairs[0]] * outputs[pairs[1]]).sum(axis=1), rtol=1e-4)
            above, beside = scores[:30, None] > scores[None, 30:], scores[:30, None] == scores[None, 30:]
            self.assertAlmostEqual(above.mean() + beside.mean() / 2, run.evaluate().test_auc, places=5)
            model = self.saved(run)
            unasked = sl.Graph(None, x, train_links=rows["train_links"])
            for form, given in ((made, asked), (unasked, asked.tolist())):
                np.testing.assert_allclose(model.predict_links(form, given), scores, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(model.embeddings(unasked), outputs, rtol=1e-6, atol=1e-6)
            self.assertEqual(model.predict_links(made, asked[:, :0]).shape, (0,))
            self.refuses(ValueError, "found a model of links, expected one of vertices", model.predict, made)
            with self.refuses(ValueError, "pairs: found id .*, expected ids of 0 .. 239"):
                run.predict_links(asked + N * (np.arange(len(asked)) != 1)[:, None])
        with self.refuses(ValueError, "pairs: found a model of vertices, expected one of links"):
            sl.train(graph(), **SMALL).predict_links([[0], [1]])

    def test_nothing_opens_again(self):
        """The first answer for a graph prepares it. Later ones of any kind keep its session."""
        run = sl.train(graph(), **SMALL)
        model, bare = self.saved(run), sl.Graph(*arrays()[:2])
        sl.close()
        model.predict(bare)
        before = workers()
        self.assertGreater(len(before), 0)
        for call in (model.predict, model.evaluate, model.embeddings, lambda graph: model.predict(graph, [3])):
            call(bare)
            self.assertEqual(workers(), before)
        model.predict(graph())
        self.assertNotEqual(workers(), before)
        sl.close()
        self.assertEqual(model.predict(bare).shape, (N, K))

    def test_training_between(self):
        """A model answers before and after other trainings, models and forks; deleted models leave others alone."""
        first = sl.train(graph(), **SMALL)
        expected = first.predict()
        model, bare = self.saved(first), sl.Graph(*arrays()[:2])
        for _ in range(3):
            np.testing.assert_array_equal(model.predict(bare), expected)
            second = sl.train(graph(), "gcn", **SMALL)
            np.testing.assert_array_equal(first.predict(), expected)
            other = self.saved(second)
            self.assertEqual(other.predict(bare).shape, (N, K))
            del other, second
            gc.collect()
        process = os.fork()
        if process == 0:
            os._exit(not np.array_equal(model.predict(bare), expected))
        self.assertEqual(os.waitpid(process, 0)[1], 0)
        np.testing.assert_array_equal(model.predict(bare), expected)

    def test_model_deleted_in_training(self):
        """A model that is freed while the library trains waits for its end."""
        first = sl.train(graph(), **SMALL)
        models = [self.saved(first), self.saved(first)]
        models[0].predict(graph())

        def drop(record):
            models.clear()
            gc.collect()

        self.assertEqual(len(sl.train(graph(), **SMALL, on_epoch=drop).records), 4)

    def test_errors(self):
        edges, x, y, sets = arrays()
        run = sl.train(graph(), **SMALL)
        model = self.saved(run)
        path = self.path("model")
        run.save(path)
        for call, kind, words in (
            (lambda: model.predict([1, 2, 3]), TypeError, "graph: found a list, expected a Graph"),
            (lambda: model.predict(sl.Graph(edges, x[:, :3])), ValueError, "features: found 3 columns.*expected 6"),
            (lambda: model.predict(graph(), [N]), ValueError, "vertices: found id 240, expected ids of 0 .. 239"),
            (lambda: model.predict(graph(), [[1]]), ValueError, "vertices: found the shape .1, 1."),
            (lambda: model.predict(graph(), ["a"]), ValueError, "vertices: found 'a', expected numbers: the ver"),
            (lambda: model.predict(graph(), [None]), ValueError, "vertices: found 'None', expected numbers: the ver"),
            (lambda: model.predict(graph(), {1: 2}), ValueError, "vertices: found '{1: 2}', expected numbers"),
            (lambda: run.state_dict(tensors=np.zeros(2)), ValueError, "tensors: found array"),
            (lambda: run.state_dict(["dgl"]), ValueError, "names: found .'dgl'., expected 'pyg' or 'dgl'"),
            (lambda: model.predict("nosuch"), FileNotFoundError, "nosuch"),
            (lambda: sl.load_model(os.path.join(self.here, "none")), OSError, "none"),
            (lambda: sl.load_model(__file__), ValueError, "test_module.py"),
            (lambda: sl.load_model(path, hidden=16), ValueError, "hidden: found '16', expected '8'"),
            (
                lambda: sl.load_model(path, metrics="m"),
                ValueError,
                "metrics: found 'm', expected options of the an",
            ),
            (lambda: sl.load_model(path, hiden=1), TypeError, "load_model.* 'hiden'; did you mean hidden"),
            (lambda: model.save(os.path.join(self.here, "none", "x")), OSError, "none"),
            (lambda: sl.train(graph(), layers=1, epochs=1).embeddings(), ValueError, "one layer"),
            (lambda: sl.train(graph(), layers=1, epochs=1).model.embeddings(graph()), ValueError, "one layer"),
        ):
            with self.subTest(words), self.refuses(kind, words):
                call()
        np.testing.assert_array_equal(model.predict(graph()), run.predict())
        self.assertEqual(model.predict(graph(), []).shape, (0, K))


WRONG = """
import numpy as np, starling_gnn as sl
graph = sl.Graph([[0], [1]], np.eye(2), [0, 1], train=[0, 1])
sl.train(graph, hiden=3)
sl.train(graph, layers="two")
sl.train(graph, model="sagee")
sl.train(graph, norm="layr")
sl.train(graph, fanout="ten")
sl.train(3)
sl.train(graph, weights=3)
sl.evaluate(graph, {}, hiden=3)
sl.load("cora", normalise_features="row")
sl.NodeClassifier("gcn", hiden=3)
sl.NodeClassifier("cgn")
sl.train(graph).test_ac
sl.train(graph).predict().shapes
"""

RIGHT = """
import os, pathlib
from typing import Any
import numpy as np, starling_gnn as sl
graph = sl.Graph([[0], [1]], np.eye(2), [0, 1], train=[0, 1])
options: dict[str, Any] = dict(hidden=3)
run = sl.train(graph, "gcn", layers=2, hidden=np.int64(3), lr=1, dropout=np.float32(0.5), fanout=[3, 4], cpus=None,
               class_weights=np.ones(2), resume=False, on_epoch=lambda record: record.loss < 1, seed=3)
sl.train("cora", fanout=10, weights=run, class_weights="balanced", norm="layer", relation_fanout={"a": [1, 2]})
sl.train(sl.load(pathlib.Path("cora"), normalize_features="row", cache="none"), gpus="all", **options)
accuracy: float = run.test_acc + run.evaluate(graph).test_acc + run.scores["test_acc"]
epoch: int | None = run.best_epoch
names: list[str] = list(run.records[0]) + [option.keyword for option in sl.options()]
rows: np.ndarray[Any, np.dtype[np.float32]] = run.predict(graph)
sl.evaluate(graph, run.state_dict(), hidden=3).valid_loss
classifier = sl.NodeClassifier("sage", hidden=3, graph=dict(edge_index=[[0], [1]]))
shape: tuple[int, ...] = classifier.fit(graph).predict().shape
"""


class Types(Folder):
    @needs("mypy")
    def test_types(self):
        """The package is clean, and mypy finds wrong keywords, values and attributes."""
        package = os.path.dirname(sl.__file__)
        stub = os.environ.get("STUB", os.path.join(package, "_options.pyi"))
        if not os.path.exists(stub):
            self.skipTest("there is no _options.pyi: make writes it")
        copy = self.path("starling_gnn")
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "lib", "*.pyi"))
        shutil.copy(stub, copy)
        for name, text in (("wrong.py", WRONG), ("right.py", RIGHT)):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.path("cache")]
        done = subprocess.run(
            [*command, "starling_gnn", "wrong.py", "right.py"],
            cwd=self.here,
            text=True,
            stdout=subprocess.PIPE,
            env={key: value for key, value in os.environ.items() if key not in ("MYPYPATH", "LD_PRELOAD")},
        )
        found = re.findall(r"^(.*?):(\d+): error: (.*)", done.stdout, re.MULTILINE)
        lines = list(range(4, len(WRONG.splitlines()) + 1))
        self.assertEqual([(file, int(line)) for file, line, _ in found], [("wrong.py", line) for line in lines], found)
        self.assertIn('Unexpected keyword argument "hiden" for "train"; did you mean "hidden"?', found[0][2])
        self.assertIn('"Run" has no attribute "test_ac"', found[-2][2])

    def test_stub(self):
        """The stub has every keyword of train and of load."""
        path = os.environ.get("STUB", os.path.join(os.path.dirname(sl.__file__), "_options.pyi"))
        if not os.path.exists(path):
            self.skipTest("there is no _options.pyi: make writes it")
        with open(path, encoding="utf-8") as file:
            found = [
                set(re.findall(r"^    (\w+): Union", text, re.MULTILINE)) for text in file.read().split("\nclass ")
            ]
        self.assertEqual(found[1] | found[2], set(_model.all_options()))
        self.assertEqual(found[1] | found[3], _library.LOAD)
        parameters = set(inspect.signature(sl.train).parameters)
        self.assertLessEqual(set(_model.all_options()), parameters)


class Interrupts(Folder):
    """Each in an interpreter of its own; Ctrl-C is SIGINT."""

    def test_in_a_step(self):
        in_python("""
        def first(record):
            if record.epoch == 1:
                started.append(time.monotonic())
                soon()
        started = []
        run = sl.train(graph(), **{**SMALL, "epochs": 10**6}, on_epoch=first)
        assert run.interrupted and time.monotonic() - started[0] < 300
        assert len(run.records) > 0 and run.predict().shape == (N, K)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        run = sl.train(graph(), **SMALL)
        assert not run.interrupted and len(run.records) == 4
        """)

    def test_in_a_callback(self):
        in_python("""
        def wait(record):
            if record.epoch == 2:
                soon()
                time.sleep(50)
        started = time.monotonic()
        run = sl.train(graph(), **SMALL, on_epoch=wait)
        assert run.interrupted and time.monotonic() - started < 45 and len(run.records) == 2
        assert len(sl.train(graph(), **SMALL).records) == 4
        """)

    def test_in_open(self):
        in_python(
            """
        rng = np.random.default_rng(1)
        n = 300000
        edges, x = rng.integers(0, n, (2, 2000000)), np.ones((n, 2), np.float32)
        big = sl.Graph(edges, x, np.arange(n) % 3, train=np.arange(n // 2))
        def when_it_opens():
            while not (sl._session._threads and sl._session._lock.locked()):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        killer = None
        for _ in range(9):  # on a busy machine the signal may come behind the open
            if killer is None or not killer.is_alive():
                killer = threading.Thread(target=when_it_opens)
                killer.start()
            try:
                sl.train(big, layers=1, fanout=[2], hidden=4, epochs=1, progress=False, cache="none")
            except KeyboardInterrupt:
                assert sl._session._lock.locked()  # the open goes on
                break
        else:
            raise SystemExit(3)
        assert len(sl.train(graph(), **SMALL).records) == 4  # waits for the open that was given up
        """,
            timeout=200,
        )

    def test_twice(self):
        in_python("""
        def swallow(record):
            if record.epoch == 1:
                soon()
                try:
                    time.sleep(50)
                except KeyboardInterrupt:
                    soon()
        try:
            sl.train(graph(), **{**SMALL, "epochs": 10**6}, on_epoch=swallow)
            raise SystemExit(3)
        except KeyboardInterrupt:
            pass
        assert len(sl.train(graph(), **SMALL).records) == 4
        """)

    def test_handler_of_the_user(self):
        in_python("""
        seen = []
        def handler(number, frame):
            seen.append(number)
        signal.signal(signal.SIGINT, handler)
        soon(0.2)
        def wait(record):
            for _ in range(600):
                if not seen:
                    time.sleep(0.1)
        run = sl.train(graph(), **SMALL, on_epoch=wait)
        assert seen and not run.interrupted and signal.getsignal(signal.SIGINT) is handler
        """)

    def test_exception_in_a_callback(self):
        seen = []

        def fail(record):
            seen.append(record.epoch)
            if record.epoch == 2:
                raise KeyError("no more")

        self.refuses(KeyError, "no more", sl.train, graph(), **SMALL, on_epoch=fail)
        self.assertEqual(seen, [1, 2])
        self.assertRaises(ZeroDivisionError, sl.train, graph(), **SMALL, on_step=lambda record: 1 / 0)
        run = sl.train(graph(), **SMALL, on_epoch=lambda record: record.epoch == 3)
        self.assertTrue(run.interrupted)
        self.assertEqual(len(run.records), 3)

    def test_a_callback_trains(self):
        """One session at a time: a training in a callback would wait for itself."""
        with self.refuses(RuntimeError, "callback"):
            sl.train(graph(), **SMALL, on_epoch=lambda record: sl.train(graph(), **SMALL))

    def test_a_callback_closes(self):
        in_python("""
        try:
            sl.train(graph(), **SMALL, on_epoch=lambda record: sl.close())
            raise SystemExit(3)
        except RuntimeError as error:
            assert "callback" in str(error), error
        sl.close()
        """)

    def test_exception_before_a_failure(self):
        """The training fails after the exception: its last file has no folder."""
        path = self.path("models")
        os.mkdir(path)

        def fail(record):
            os.rmdir(path)
            raise KeyError("no more")

        with self.refuses(KeyError, "no more") as caught:
            sl.train(graph(), **SMALL, on_epoch=fail, save=os.path.join(path, "m"))
        self.assertIsInstance(caught.exception.__cause__, sl.InputOutputError)

    def test_at_the_end_of_a_callback(self):
        """Ctrl-C after the last line of a callback, before the module notes that it has ended."""
        in_python("""
        def interrupt(record):
            def trace(frame, event, argument):
                if event == "line":
                    sys.settrace(None)
                    frame.f_trace = None
                    raise KeyboardInterrupt
                return trace
            sys._getframe(1).f_trace = trace
            sys.settrace(trace)
        run = sl.train(graph(), **SMALL, on_epoch=interrupt)
        assert run.interrupted and len(run.records) == 1
        assert len(sl.train(graph(), **SMALL).records) == 4
        """)

    def test_no_thread(self):
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.refuses(RuntimeError, "new thread", sl.train, graph(), **SMALL)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertEqual(_session._threads, set())
        sl.train(graph(), **SMALL)


class Processes(Folder):
    def test_thread(self):
        expected = trained(graph())
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            runs = list(pool.map(lambda _: sl.train(graph(), **SMALL), range(3)))
        for run in runs:
            self.assertEqual(losses(run), expected)

    def test_fork_after_import(self):
        in_python("""
        sl.train(graph(), **SMALL)
        warnings.simplefilter("ignore")
        pid = os.fork()
        if pid == 0:
            os._exit(0 if len(sl.train(graph(), **SMALL).records) == 4 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(sl.train(graph(), **SMALL).records) == 4
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(len, [sl.train(graph(), **SMALL).records] * 2) == [4, 4]
        """)

    def test_fork_before_a_session(self):
        in_python("""
        made = graph()
        pid = os.fork()
        if pid == 0:
            sys.exit(0 if len(sl.train(made, **SMALL).records) == 4 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        """)

    def test_fork_in_training(self):
        in_python("""
        def child(record):
            if record.epoch == 1:
                pid = os.fork()
                if pid == 0:
                    try:
                        sl.train(graph(), **SMALL)
                        os._exit(1)
                    except sl.StarlingError as error:
                        os._exit(0 if "forked" in str(error) else 2)
                assert os.waitpid(pid, 0)[1] == 0
                subprocess.run(["true"], check=True)
        warnings.simplefilter("ignore")
        assert len(sl.train(graph(), **SMALL, on_epoch=child).records) == 4
        """)

    def test_spawn(self):
        sl.train(graph(), **SMALL)
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.map(_spawned, [1, 1])
        self.assertEqual(found[0], found[1])

    def test_exit_with_an_open_session(self):
        self.assertEqual(in_python("run = sl.train(graph(), **SMALL)"), "")
        self.assertEqual(
            in_python("""
        thread = threading.Thread(target=lambda: sl.train(graph(), **{**SMALL, "epochs": 10**6}), daemon=True)
        thread.start()
        time.sleep(0.7)
        """),
            "",
        )
        in_python("sl.train(graph(), **SMALL, on_epoch=lambda record: sys.exit(5))", expect=5)

    def test_idle_session_takes_no_processor(self):
        run = sl.train(graph(), **SMALL)
        for _ in range(10):  # on a loaded machine, workers are late to sleep
            before = time.process_time()
            time.sleep(0.5)
            taken = time.process_time() - before
            if taken < 0.2:
                break
        self.assertLess(taken, 0.2)
        del run

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "a sanitizer keeps freed memory")
    def test_idle_session_returns_buffers(self):
        """Memory after the first epoch, and after training: its buffers, far more than the graph, are free."""
        rng = np.random.default_rng(2)
        n = 20000
        edges, x = rng.integers(n, size=(2, 4 * n)), rng.random((n, 32), np.float32)
        wide = sl.Graph(edges, x, np.arange(n) % 4, train=np.arange(n))
        options = dict(layers=2, hidden=1024, fanout=[5, 5], batch_size=4000, pes=2, gpus=0, epochs=2)
        options.update(cache="none", progress=False)
        sl.train(graph(), **SMALL, gpus=0)
        before, held = resident(), []
        run = sl.train(wide, **options, on_epoch=lambda record: held.append(resident()))
        self.assertGreater(held[0] - before, 128 << 20)
        self.assertLess(resident() - before, (held[0] - before) / 2)
        self.assertEqual(run.predict().shape, (n, 4))
        self.assertLess(resident() - before, (held[0] - before) / 2)

    def test_no_pickles(self):
        import pickle

        self.refuses(TypeError, "cannot be pickled", pickle.dumps, graph())

    def test_close(self):
        run = sl.train(graph(), **SMALL)
        first = run.predict()
        sl.close()
        sl.close()
        np.testing.assert_allclose(run.predict(), first, atol=1e-5)

    def test_several_processes(self):
        code = """
        made = graph()
        try:
            sl.train(made, **SMALL)
            raise SystemExit(3)
        except sl.NotSupportedError as error:
            assert "start Python without mpirun or srun" in str(error) and error.status == "SL_ENOTSUP", error
        """
        for n, number in [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")]:
            in_python(code, env={n: "2", number: "1"})
        in_python("sl.train(graph(), **SMALL)", env=dict(OMPI_COMM_WORLD_SIZE="1", OMPI_COMM_WORLD_RANK="0"))

    def test_variables_that_are_not_read(self):
        code = """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                assert len(sl.train(graph(), **SMALL).records) == SMALL["epochs"]
        print(*sorted(str(warning.message) for warning in caught), sep="\\n")
        """
        said = in_python(code, env=dict(STARLING_EPOCHS="9", STARLING_BATCHSIZE="7", STARLING_DATE="x")).splitlines()
        words = "is set, but only programs take options from the environment; set"
        self.assertEqual(said[:1], [f"STARLING_BATCHSIZE {words} batch_size here"])
        self.assertRegex(said[1], "^STARLING_DATE is set, but no program .* did you mean STARLING_DATA")
        self.assertEqual(said[2:], [f"STARLING_EPOCHS {words} epochs here"])

    def test_missing_library(self):
        done = subprocess.run(
            [sys.executable, "-c", "import starling_gnn"],
            capture_output=True,
            text=True,
            env={**os.environ, "STARLING_LIBRARY": "/nowhere/libstarling.so"},
        )
        self.assertIn("ImportError: /nowhere/libstarling.so", done.stderr)

    @needs("nbconvert", "ipykernel")
    def test_notebook(self):
        cells = [
            "run = sl.train(graph(), **SMALL)",
            "run.predict().shape",
            "sl.train(graph(), **SMALL).records[-1].epoch",
        ]
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        kernel = {"name": "python3", "display_name": "x", "language": "python"}
        book = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
        book["cells"] = [{**cell, "source": source} for source in (PROLOGUE, *cells)]
        path = self.path("book.ipynb")
        with open(path, "w") as file:
            json.dump(book, file)
        done = subprocess.run(
            [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", path],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(240, 4)", done.stdout)
        self.assertIn("left", done.stdout)  # the bar


def _spawned(seed):
    return trained(graph(), seed=seed)


if __name__ == "__main__":
    unittest.main()
