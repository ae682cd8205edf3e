# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""`starling convert` (tests/cli/test_python.sh): each form trains to the bits of the same graph in .npy files."""

import contextlib
import gzip
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

import numpy as np
import starling_gnn as sl
from starling_gnn._sources import PLAIN

from support import Folder, has, needs, of_dgl, run

N, F = 61, 5
rng = np.random.default_rng(7)
EDGES = np.unique(rng.integers(0, N, (300, 2)), axis=0)
EDGES = EDGES[(EDGES[:, 0] < EDGES[:, 1])]
EDGES = np.concatenate([EDGES, [[v, v + 1] for v in range(N - 1)]])  # all ids come
EDGES = np.unique(EDGES, axis=0)
WEIGHT = rng.integers(1, 9, len(EDGES)).astype(np.float32)
Y = rng.integers(0, 3, N)
X = rng.normal(size=(N, F)).astype(np.float32)
SETS = dict(zip(("train", "valid", "test"), np.split(rng.permutation(N), [30, 45])))
MASKS = {name: np.isin(np.arange(N), ids) for name, ids in SETS.items()}
NAMES = np.array(["ash, white", "birch", "oak"])
# Before 2.5 PyTorch cannot be told which functions a file may name.
SAFE_TORCH = has("torch") and hasattr(importlib.import_module("torch").serialization, "safe_globals")
reads_torch = unittest.skipUnless(SAFE_TORCH, "torch 2.5 or newer: not installed")


def weights_of(path, load={}, **options):
    """The trained weights, as bytes. load: options of load()."""
    graph = sl.load(path, cache="none", **load)
    trained = sl.train(graph, epochs=2, layers=2, hidden=8, batch_size=10, fanout=[3, 3], progress=False, **options)
    return {name: array.tobytes() for name, array in trained.state_dict().items()}


class Forms(Folder):
    def plain(self, name="plain", weight=None, features=True, sets=True):
        """The graph in OGB's layout."""
        self.npy(f"{name}/raw/edge.npy", EDGES)
        self.lines(f"{name}/raw/num-node-list.csv", [N])
        if weight is not None:
            self.npy(f"{name}/raw/edge-weight.npy", weight)
        if features:
            self.npy(f"{name}/raw/node-feat.npy", X)
            self.npy(f"{name}/raw/node-label.npy", Y)
        for key, ids in SETS.items() if sets else ():
            self.npy(f"{name}/split/s/{key}.npy", ids)
        return os.path.join(self.here, name)

    def convert(self, source, out="out", *words):
        out = os.path.join(self.here, out)
        status, told, err = run("convert", source, "--out", out, *words)
        self.assertEqual((status, err.count("Traceback")), (0, 0), err)
        self.assertRegex(told, f" vertices; train on it: coop_sage --dataset {re.escape(out)}( --directed)?\n$")
        return out

    def graphbolt(self, edge_index=EDGES.T, x=X, y=Y, **sets):
        """GraphBolt's folder."""
        self.npy("g/edges/e.npy", edge_index)
        self.npy("g/data/x.npy", x)
        text = [
            f"graph: {{nodes: [{{num: {N}}}], edges: [{{format: numpy, path: edges/e.npy}}]}}",
            "feature_data: [{domain: node, name: feat, format: numpy, path: data/x.npy}]",
            "tasks:",
            "- name: node",
        ]
        for key, name in zip(SETS, ("train_set", "validation_set", "test_set")):
            seeds = np.asarray(sets.get(key, SETS[key]))
            self.npy(f"g/set/{key}.npy", seeds)
            self.npy(f"g/set/{key}-y.npy", y[np.clip(seeds.astype(int), 0, len(y) - 1)])
            data = ", ".join(
                f"{{name: {of}, path: set/{key}{end}.npy}}" for of, end in (("seeds", ""), ("labels", "-y"))
            )
            text.append(f"  {name}: [{{data: [{data}]}}]")
        self.lines("g/metadata.yaml", text)
        return os.path.join(self.here, "g")

    def igb(self, edge_index=EDGES, x=X, y=Y):
        """IGB's folder."""
        self.npy("i/processed/paper__cites__paper/edge_index.npy", edge_index)
        self.npy("i/processed/paper/node_feat.npy", x)
        self.npy("i/processed/paper/node_label_19.npy", y)
        return os.path.join(self.here, "i")

    def ogb(self, edge_index=np.asfortranarray(EDGES.T), x=X, y=Y, **sets):
        """OGB's folder with .npz files."""
        arrays = dict(edge_index=edge_index, node_feat=x, num_nodes_list=[N], num_edges_list=[len(EDGES)])
        os.makedirs(self.path("o/raw"), exist_ok=True)
        np.savez_compressed(self.path("o/raw/data.npz"), **arrays)
        np.savez_compressed(self.path("o/raw/node-label.npz"), node_label=y)
        for key, ids in {**SETS, **sets}.items():
            self.npy(f"o/split/time/{key}.npy", ids)
        return os.path.join(self.here, "o")

    def npz(self, **arrays):
        np.savez(self.path("a.npz"), **{"edge_index": EDGES.T, "x": X, "y": Y, **SETS, **arrays})
        return self.path("a.npz")

    def pt(self, **arrays):
        import torch

        made = {"edge_index": EDGES.T, "x": X, "y": Y, **SETS, **arrays}
        torch.save(
            {
                name: array if array.dtype.kind in "US" else torch.as_tensor(array)
                for name, array in ((name, np.asarray(array)) for name, array in made.items())
            },
            self.path("a.pt"),
        )
        return self.path("a.pt")

    def dgl(self, edge_index=EDGES.T, x=X, y=Y, edge_weight=None, **sets):
        """A file of DGL, which `dgl.load_graphs` reads: sys.modules has it."""
        masks = {key.replace("valid", "val") + "_mask": mask for key, mask in {**MASKS, **sets}.items()}
        triple, edata = ("_N", "_E", "_N"), {} if edge_weight is None else {"w": edge_weight}
        tables = {"_N": {"feat": x, "label": y, **masks}}
        graph = of_dgl(tables, {"_N": N}, {triple: edge_index}, {triple: edata})
        self.load_graphs(graph)
        return self.lines("g.bin", [])

    def load_graphs(self, graph):
        """Let dgl.load_graphs return a graph."""
        known = {"dgl": sys.modules["dgl"]} if "dgl" in sys.modules else {}
        self.addCleanup(lambda: (sys.modules.pop("dgl", None), sys.modules.update(known)))
        sys.modules["dgl"] = types.SimpleNamespace(load_graphs=lambda path: ([graph], {}))

    def tables(self, edge_index=EDGES.T, x=X, y=Y, **sets):
        """DGL's CSVDataset."""
        masks = [np.isin(np.arange(N), np.asarray(ids)) for ids in {**SETS, **sets}.values()]
        self.lines("d/meta.yaml", ["edge_data: [{file_name: e.csv}]", "node_data: [{file_name: n.csv}]"])
        self.lines("d/e.csv", ["src_id,dst_id", *(f"{a},{b}" for a, b in zip(*edge_index))])
        rows = [
            ",".join(map(str, [v, *cells[:-1]])) + ',"' + ", ".join(map(str, cells[-1])) + '"'
            for v, cells in enumerate(zip(y, *(mask.astype(int) for mask in masks), x))
        ]
        self.lines("d/n.csv", ["node_id,label,train_mask,val_mask,test_mask,feat", *rows])
        return os.path.join(self.here, "d")

    def assert_same(self, source, plain, *words, **options):
        """Both forms that convert writes train to the bits of `plain`."""
        expected = weights_of(plain, **options)
        for out in ("made", "made.safetensors"):
            found = self.convert(source, out, *words)
            self.assertEqual(weights_of(found, **options), expected, out)
            shutil.rmtree(found) if os.path.isdir(found) else os.unlink(found)


GRAPH = dict(load={"features": "degree"}, objective="link", split="random:80,10,10")  # training of a graph alone


class Files(Forms):
    def test_npz(self):
        plain = self.plain(weight=WEIGHT)
        pyg = {"edge_index": EDGES.T, "edge_weight": WEIGHT, "x": X, "y": Y, "num_nodes": N}
        masks = {"train_mask": MASKS["train"], "val_mask": MASKS["valid"], "test_mask": MASKS["test"]}
        np.savez(self.path("a.npz"), **pyg, **masks)
        self.assert_same(self.path("a.npz"), plain, edge_weights="factor", model="gcn")
        ogb = {
            "edge_index": np.asfortranarray(EDGES.T),
            "node_feat": X.astype(">f8"),
            "node_label": Y.astype(np.float64),
            "num_nodes_list": [N],
            **SETS,
        }
        np.savez_compressed(self.path("b.npz"), **ogb)
        told = run("convert", self.npz(time=WEIGHT), "--out", self.path("told"))[2]
        self.assertEqual(told, "starling convert: not used: time\n")
        self.assert_same(self.path("b.npz"), self.plain("ogb"))

    def test_features_of_edges(self):
        """From arrays and DGL's names, to folders and files; what is wrong."""
        rows = np.stack([WEIGHT, -WEIGHT], 1)
        options = dict(epochs=1, layers=1, hidden=8, batch_size=20, edge_features="concat", progress=False)
        expected = sl.Graph(EDGES.T, X, Y, **SETS, edge_attr=rows)
        expected = sl.train(expected, **options).records[0].loss
        for name in ("edge_attr", "edge_feat"):
            for out in ("f", "f.safetensors"):
                found = self.convert(self.npz(**{name: rows.astype(">f8")}), name + out)
                got = sl.train(found, **options, cache="none").records[0].loss
                self.assertAlmostEqual(got, expected, places=5)
        single = np.load(self.convert(self.npz(edge_attr=WEIGHT), "one") + "/raw/edge-feat.npy")
        np.testing.assert_array_equal(single[:, 0], WEIGHT)
        weighted = self.convert(self.npz(edge_attr=WEIGHT), "weighted", "--weight", "edge_attr")
        self.assertEqual(sorted(os.listdir(weighted + "/raw"))[:2], ["edge-weight.npy", "edge.npy"])
        for words, array in (
            ("edge features: found 3, expected", rows[:3]),
            ("edge features: found nan, expected finite numbers", np.where(rows == rows[5], np.nan, rows)),
            ("edge features: found entries of type <U3, expected numbers", np.full(len(rows), "abc")),
        ):
            status, _, err = run("convert", self.npz(edge_attr=array), "--out", self.path("bad"))
            self.assertEqual((status, err.count("\n")), (1, 1))
            self.assertIn(words, err)

    def test_npz_narrow_features_and_names(self):
        coarse = np.clip(X * 20, -100, 100).astype(np.int8)
        np.savez(self.path("a.npz"), edge_index=EDGES, x=coarse, x_scale=np.float32(0.25), y=NAMES[Y], **SETS)
        plain = self.plain()
        self.npy("plain/raw/node-feat.npy", coarse.astype(np.float32) * np.float32(0.25))
        self.assert_same(self.path("a.npz"), plain)
        for out in ("f", "f.safetensors"):
            self.assertEqual(sl.load(self.convert(self.path("a.npz"), out)).classes.tolist(), NAMES.tolist())
        np.savez(self.path("b.npz"), edge_index=EDGES, x=X.astype(np.float16), y=Y, class_names=NAMES[::-1], **SETS)
        self.npy("plain/raw/node-feat.npy", X.astype(np.float16))
        self.assert_same(self.path("b.npz"), plain)
        self.assertEqual(
            sl.load(self.convert(self.path("b.npz"), "r.safetensors")).classes.tolist(), NAMES[::-1].tolist()
        )

    @needs("scipy", "pandas")
    def test_matrices(self):
        import scipy.io
        import scipy.sparse

        plain = self.plain(weight=WEIGHT, features=False, sets=False)
        matrix = scipy.sparse.coo_matrix((WEIGHT, EDGES.T), (N, N))
        scipy.sparse.save_npz(self.path("m.npz"), matrix.tocsr())
        scipy.io.mmwrite(self.path("m.mtx"), matrix)
        both = (matrix + matrix.T).tocoo()
        scipy.io.mmwrite(self.path("s.mtx"), both, symmetry="symmetric")
        scipy.io.mmwrite(self.path("p.mtx"), matrix, field="pattern")
        for name in ("m.npz", "m.mtx", "s.mtx", "p.mtx"):
            with mock.patch("starling_gnn._formats.ROWS", 17):
                self.assert_same(self.path(name), plain, **GRAPH)
        self.assertEqual(np.load(self.convert(self.path("m.mtx")) + "/raw/edge-weight.npy").sum(), WEIGHT.sum())
        self.assertFalse(sl.load(self.convert(self.path("p.mtx"), "p"), features="degree").has_edge_weights)

    def metis(self, name, form="", opened=open):
        near = {v: [] for v in range(N)}
        for (a, b), weight in zip(EDGES, WEIGHT.astype(int)):
            for one, other in ((a, b), (b, a)):
                near[one].append(f"{other + 1} {weight}" if form.endswith("1") else f"{other + 1}")
        own = ["3"] if form == "011" else []
        lines = [" ".join(own + near[v]) for v in range(N)]
        return self.lines(name, ["% comment", f"{N} {len(EDGES)} {form}".strip(), *lines], opened)

    def test_metis(self):
        plain = self.plain(weight=WEIGHT, features=False, sets=False)
        for path in (self.metis("a.graph"), self.metis("b.graph", "001"), self.metis("c.graph.gz", "011", gzip.open)):
            self.assert_same(path, plain, **GRAPH)
        self.assertEqual(np.load(self.convert(self.path("b.graph")) + "/raw/edge-weight.npy").sum(), 2 * WEIGHT.sum())
        _, _, err = run("convert", self.path("c.graph.gz"), "--out", self.path("c"))
        self.assertIn("weights and sizes of vertices are not used", err)


@needs("pandas")
class Tables(Forms):
    def numbered(self, pairs):
        """The pairs with the numbers that a table's ids get: 0, 1, .. as they come."""
        _, first = np.unique(pairs.ravel(), return_index=True)
        number = np.empty(N, np.int64)
        number[pairs.ravel()[np.sort(first)]] = np.arange(N)
        return number[pairs]

    def test_edge_lists(self):
        plain = self.plain(features=False, sets=False)
        self.npy("plain/raw/edge.npy", self.numbered(EDGES))
        rows = [f"v{a:02d},v{b:02d},{w:g}" for (a, b), w in zip(EDGES, WEIGHT)]
        csv = self.lines("a.csv", ["src,dst,weight", *rows])
        named = self.lines(
            "b.tsv", ["# of people", "kind\tbuyer\tseller", *("k\t" + row[:7].replace(",", "\t") for row in rows)]
        )
        quoted = self.lines(
            "c.csv.gz", ['"source";"target"', *(f'"v{a:02d}";" v{b:02d} "' for a, b in EDGES)], gzip.open
        )
        snap = self.lines("d.txt", ["# FromNodeId\tToNodeId", *(f"{a}\t{b}" for a, b in EDGES)])
        neo4j = self.lines("e.csv", [":START_ID(P),:END_ID(P),weight:float", *rows])
        for path, words in (
            (csv, ()),
            (named, ("--source", "buyer", "--target", "seller")),
            (quoted, ()),
            (snap, ()),
            (neo4j, ()),
        ):
            with self.subTest(path=path):
                self.assert_same(path, plain, *words, **GRAPH)
        with open(self.convert(csv) + "/raw/node-id.csv", encoding="utf-8") as file:
            ids = file.read().split()
        self.assertEqual([ids.index(f"v{v:02d}") for v in EDGES.ravel()], self.numbered(EDGES).ravel().tolist())
        with mock.patch("starling_gnn._formats.ROWS", 17):
            self.assert_same(csv, plain, **GRAPH)

    def tables(self):
        import pandas

        edges = pandas.DataFrame({"src": EDGES[:, 0], "dst": EDGES[:, 1], "weight": WEIGHT})
        nodes = pandas.DataFrame(
            {"id": np.arange(N), **{f"f{c}": X[:, c] for c in range(F)}, "label": NAMES[Y], "split": ""}
        )
        for key, ids in SETS.items():
            nodes.loc[ids, "split"] = key
        return edges, nodes

    def test_folders_of_tables(self):
        plain = self.plain(weight=WEIGHT)
        edges, nodes = self.tables()
        edges.to_csv(self.path("t/edges.csv"), index=False)
        nodes.assign(city="Lyon").to_csv(self.path("t/nodes.csv"), index=False)
        self.assert_same(self.path("t"), plain, edge_weights="factor", model="gcn")
        self.assertEqual(sl.load(self.convert(self.path("t"))).classes.tolist(), NAMES.tolist())
        nodes.rename(columns={"id": "who", "label": "tree"}).to_csv(self.path("n.csv"), index=False)
        edges.to_csv(self.path("e.csv"), index=False)
        words = ("--nodes", self.path("n.csv"), "--id", "who", "--label", "tree")
        self.assert_same(self.path("e.csv"), plain, *words, edge_weights="factor", model="gcn")

    @needs("pyarrow")
    def test_parquet(self):
        plain = self.plain(weight=WEIGHT)
        edges, nodes = self.tables()
        edges.to_parquet(self.path("t/edges.parquet"), index=False)
        x = nodes[[f"f{c}" for c in range(F)]].to_numpy()
        nodes[["id", "label", "split"]].assign(x=list(x)).to_parquet(self.path("t/nodes.parquet"), index=False)
        self.assert_same(self.path("t"), plain, edge_weights="factor", model="gcn")
        edges.assign(src=edges.src.map("v{}".format), dst=edges.dst.map("v{}".format)).to_parquet(
            self.path("e.parquet"), index=False
        )
        graph = self.plain("graph", features=False, sets=False)
        self.npy("graph/raw/edge.npy", self.numbered(EDGES))
        self.assert_same(self.path("e.parquet"), graph, **GRAPH)


class Folders(Forms):
    def test_ogb(self):
        """data.npz and node-label.npz, or arrays of other dtypes and orders."""
        plain = self.plain()
        self.assert_same(self.ogb(y=Y[:, None]), plain)
        self.npy("p/raw/edge.npy", np.asfortranarray(EDGES.astype(">i4")))
        self.npy("p/raw/node-feat.npy", np.asfortranarray(X.astype(np.float64)))
        self.npy("p/raw/node-label.npy", NAMES[Y])
        for key, mask in MASKS.items():
            self.npy(f"p/split/mask/{key}.npy", mask.astype(">i8"))
        self.assert_same(self.path("p"), plain)

    @needs("pandas")
    def test_ogb_text(self):
        plain = self.plain()
        self.lines("o/raw/edge.csv.gz", (f"{a},{b}" for a, b in EDGES), gzip.open)
        mixed = np.where(np.arange(N)[:, None] < 20, np.round(X), X)  # the first block has whole numbers alone
        self.npy("plain/raw/node-feat.npy", mixed)
        self.lines("o/raw/node-feat.csv.gz", (",".join(f"{x:.9g}" for x in row) for row in mixed), gzip.open)
        self.lines("o/raw/node-label.csv", (NAMES[y] if y != 0 else '"' + NAMES[y] + '"' for y in Y))
        for key, ids in SETS.items():
            self.lines(f"o/split/time/{key}.csv", ids)
        with mock.patch("starling_gnn._formats.ROWS", 17):
            self.assert_same(self.path("o"), plain)

    @reads_torch
    def test_ogb_split_dict(self):
        import torch

        plain = self.plain()
        source = self.plain("o", sets=False)
        torch.save(SETS, self.path("o/split/time/split_dict.pt"))
        self.assert_same(source, plain)
        links = self.plain("links", sets=False)
        pairs = np.split(EDGES, [len(EDGES) - 20, len(EDGES) - 10])
        torch.save(
            {key: {"edge": torch.tensor(pair)} for key, pair in zip(SETS, pairs)},
            self.path("links/split/time/split_dict.pt"),
        )
        for key, pair in zip(SETS, pairs):
            self.npy(f"listed/split/s/{key}.npy", pair)
        self.plain("listed", sets=False)
        options = dict(load={"objective": "link"}, objective="link")
        self.assertEqual(weights_of(self.convert(links), **options), weights_of(self.path("listed"), **options))

    def test_ogb_own_negatives(self):
        """The scores of ogbl-citation2 and ogbl-wikikg2: ranks among a link's own negatives, as OGB's evaluator has.
        Without a torch that reads OGB's lists, they are written as `convert` does."""
        for relations, asked in ((0, ["tail"]), (2, ["head", "tail"])):
            source = found = self.plain(f"own{relations}", sets=False)
            os.makedirs(os.path.join(source, "split/time"))
            names = dict(head="head", tail="tail") if relations else dict(head="source_node", tail="target_node")
            lists, rows = {}, {}
            for key, (head, tail) in zip(SETS, np.split(EDGES.T, [len(EDGES) - 30, len(EDGES) - 12], 1)):
                own = {end: rng.integers(0, N, (len(head), 7)) for end in (asked if key != "train" else ())}
                for end, ids in own.items():
                    ids[::2, 0] = {"head": head, "tail": tail}[end][::2]  # a tie
                    SAFE_TORCH or self.npy(f"own{relations}/split/time/{key}_{end}_neg.npy", ids)
                relation = {"relation": np.arange(len(head)) % 2} if relations else {}
                made = {names["head"]: head, **relation, names["tail"]: tail}
                SAFE_TORCH or np.savetxt(f"{source}/split/time/{key}.csv", np.stack([*made.values()], 1), "%d", ",")
                lists[key] = {**made, **{names[end] + "_neg": ids for end, ids in own.items()}}
                rows[key] = head, np.arange(len(head)) % 2, tail, own
            if SAFE_TORCH:
                torch = importlib.import_module("torch")
                tensors = {key: {name: torch.tensor(ids) for name, ids in made.items()} for key, made in lists.items()}
                torch.save(tensors, os.path.join(source, "split/time/split_dict.pt"))
                found = self.convert(source, f"made{relations}")
            graph = sl.load(found, cache="none", objective="link")
            more = dict(decoder="distmult") if relations else {}
            trained = sl.train(
                graph, epochs=1, layers=1, hidden=8, batch_size=20, objective="link", progress=False, **more
            )
            scores = trained.evaluate()
            taken = [0, 1, 2] if relations else [0, 2]
            links = {key + "_links": [row[:3][k] for k in taken] for key, row in rows.items()}
            each = {key + "_negatives": rows[key][3] for key in ("valid", "test")}
            arrays = sl.Graph(None, X, **links, **each)
            again = sl.train(arrays, epochs=1, layers=1, hidden=8, batch_size=20, progress=False, **more)
            self.assertEqual(again.evaluate(), scores)  # to the bit
            for value, words in (
                ({"tails": each["valid_negatives"]["tail"]}, "found \\['tails'\\], expected 'head' or 'tail'"),
                ({"tail": each["test_negatives"]["tail"][1:]}, "found the shape \\(11, 7\\), expected \\(18, K\\)"),
                ({"tail": each["valid_negatives"]["tail"] + N}, "expected ids of 0 .. 60"),
            ):
                with self.assertRaisesRegex(ValueError, f"valid_negatives: .*{words}"):
                    sl.Graph(None, X, **links, valid_negatives=value)
            for key in ("valid", "test"):
                head, relation, tail, own = rows[key]
                ranks = []
                for end, ids in own.items():
                    ends = dict(head=head[:, None], tail=tail[:, None])
                    ends[end] = np.concatenate([ends[end], ids], 1)
                    links = np.stack(np.broadcast_arrays(ends["head"], relation[:, None], ends["tail"]))
                    links = links.reshape(3, -1)[taken]
                    z = trained.predict_links(links).reshape(len(head), 8)
                    better, equal = (z[:, 1:] > z[:, :1]).sum(1), (z[:, 1:] == z[:, :1]).sum(1)
                    ranks.append(0.5 * (better + (better + equal)) + 1)
                ranks = np.concatenate(ranks)
                self.assertAlmostEqual(getattr(scores, key + "_mrr"), (1 / ranks).mean(), places=5)
                for k in (1, 3, 10):
                    self.assertAlmostEqual(getattr(scores, f"{key}_hits{k}"), (ranks <= k).mean(), places=5)
            bad = os.path.join(found, "split/time/test_tail_neg.npy")
            ids = np.load(bad)
            wrong = {"row 2: expected ids below 61, found 61": np.where(np.arange(len(ids))[:, None] == 1, N, ids)}
            wrong["of shape .12, K., found 2 dimensions and 11 rows"] = ids[1:]
            wrong["of shape .12, K., found 1 dimensions and 12 rows"] = ids[:, 0]
            if relations:
                wrong["expected 7 negatives of each link, as of heads, found 6"] = ids[:, 1:]
            for message, array in wrong.items():
                np.save(bad, array)
                with self.assertRaisesRegex(Exception, message):
                    sl.load(found, cache="none", objective="link")
            np.save(bad, ids)
            self.lines(os.path.join(found, "split/time/test_neg.csv"), ["0,0,0" if relations else "0,1"])
            with self.assertRaisesRegex(Exception, "expected negatives of each link or of all links, found .*test_neg"):
                sl.load(found, cache="none", objective="link")

    @needs("yaml")
    def test_graphbolt(self):
        self.assert_same(self.graphbolt(), self.plain())
        found = np.load(self.convert(self.graphbolt(y=Y + 0.5)) + "/raw/node-label.npy")
        np.testing.assert_array_equal(found, np.where(sum(MASKS.values()) > 0, Y + 0.5, np.nan))

    @needs("yaml", "pandas")
    def test_dgl_csv(self):
        self.assert_same(self.tables(), self.plain())

    def test_igb(self):
        plain = self.plain()
        for key, ids in zip(SETS, np.split(np.arange(N), [36, 48])):
            self.npy(f"plain/split/s/{key}.npy", ids)
        self.assert_same(self.igb(y=Y.astype(np.float32)), plain)


class Typed(Forms):
    """A graph of people and places: visits go from people to places."""

    def typed(self, name):
        self.lines(f"{name}/raw/num-node-dict.csv", ["place,person", f"20,{N}"])
        self.lines(f"{name}/raw/triplet-type-list.csv", ["person,visits,place"])
        self.npy(f"{name}/raw/relations/person___visits___place/edge.npy", EDGES % [N, 20])
        self.npy(f"{name}/raw/relations/person___visits___place/edge-weight.npy", WEIGHT)
        self.npy(f"{name}/raw/node-feat/person/node-feat.npy", X)
        self.npy(f"{name}/raw/node-label/person/node-label.npy", Y)
        for key, ids in SETS.items():
            self.npy(f"{name}/split/s/person/{key}.npy", ids)
        return os.path.join(self.here, name)

    def assert_same_typed(self, source):
        found = self.convert(source, "made")
        options = dict(model="rgcn", edge_weights="factor")
        self.assertEqual(weights_of(found, **options), weights_of(self.typed("plain"), **options))
        status, _, err = run("convert", source, "--out", self.path("a.safetensors"))
        self.assertEqual((status, err.count("\n")), (1, 1), err)
        self.assertIn("typed", err)
        shutil.rmtree(found)

    @needs("pandas")
    def test_ogb(self):
        self.assert_same_typed(self.typed("o"))

    @reads_torch
    @needs("torch_geometric")
    def test_pyg(self):
        import torch
        from torch_geometric.data import Data, HeteroData

        data = HeteroData()
        data["place"].num_nodes = 20
        data["person"].x, data["person"].y = torch.tensor(X), torch.tensor(Y)
        for key, mask in MASKS.items():
            data["person"][key.replace("valid", "val") + "_mask"] = torch.tensor(mask)
        data["person", "visits", "place"].edge_index = torch.tensor((EDGES % [N, 20]).T)
        data["person", "visits", "place"].edge_weight = torch.tensor(WEIGHT)
        torch.save(data, self.path("h.pt"))
        self.assert_same_typed(self.path("h.pt"))
        data["place", "near", "person"].edge_index = torch.empty((2, 0), dtype=torch.long)
        data["place", "near", "person"].edge_attr = torch.empty((0, 3))
        torch.save(data, self.path("i.pt"))
        status, _, err = run("convert", self.path("i.pt"), "--out", self.path("empty"))
        self.assertEqual((status, sl.load(self.path("empty"), cache="none").n_relations), (0, 4))
        self.assertEqual(np.load(self.path("empty/raw/relations/place___near___person/edge-feat.npy")).shape, (0, 3))
        plain = self.plain("graph")
        one = Data(edge_index=torch.tensor(EDGES.T), x=torch.tensor(X), y=torch.tensor(Y))
        for key, mask in MASKS.items():
            one[key.replace("valid", "val") + "_mask"] = torch.tensor(mask)
        torch.save(one, self.path("a.pt"))
        torch.save((one.to_dict(), None, Data), self.path("b.pt"))
        for name in ("a.pt", "b.pt"):
            self.assert_same(self.path(name), plain)
        one.edge_attr = torch.tensor(WEIGHT)
        torch.save(one, self.path("c.pt"))
        self.assertEqual(np.load(self.convert(self.path("c.pt"), "told") + "/raw/edge-feat.npy").shape, (len(EDGES), 1))
        # Weights, also if there are as many vertices as edges; features of edges with a name that vertices have.
        ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.eye(3), weight=torch.tensor([1.0, 2, 3]))
        torch.save({"": {"x": ring.x}, PLAIN: {"edge": ring.edge_index, "feat": ring.x}}, self.path("e.pt"))
        self.assertEqual(
            np.load(self.convert(self.path("e.pt"), "f") + "/raw/edge-feat.npy").tolist(), np.eye(3).tolist()
        )
        torch.save(ring, self.path("r.pt"))
        found = np.load(self.convert(self.path("r.pt"), "r") + "/raw/edge-weight.npy")
        self.assertEqual(found.tolist(), [1, 2, 3])

    def test_dgl(self):
        frame = {"feat": X, "label": Y, **{key.replace("valid", "val") + "_mask": mask for key, mask in MASKS.items()}}
        triple = ("person", "visits", "place")
        pairs = {triple: (EDGES % [N, 20]).T}
        graph = of_dgl({"place": {}, "person": frame}, {"place": 20, "person": N}, pairs, {triple: {"w": WEIGHT}})
        self.lines("g.bin", [])
        self.load_graphs(graph)
        self.assert_same_typed(self.path("g.bin"))
        plain = self.plain("one", weight=WEIGHT)
        self.assert_same(self.dgl(edge_weight=WEIGHT), plain, edge_weights="factor", model="gcn")


def cases(text):
    """Texts of files, a line each; a backslash ends a line of a file."""
    return [line.strip().replace("\\", "\n") for line in text.split("\n")]


class Refusals(Forms):
    """A broken file: one line, exit status 1, and nothing is left behind."""

    def refused(self, source, *words):
        before = sorted(os.listdir(self.here))
        text = ""
        if os.path.isfile(source):
            with open(source, "rb") as file:
                text = file.read(80)
        for out in ("made", "made.safetensors"):
            status, told, err = run("convert", source, "--out", os.path.join(self.here, out), *words)
            lines = [line for line in err.splitlines() if "not used" not in line]
            self.assertEqual((status, told, len(lines)), (1, "", 1), (source, text, told, err))
            self.assertTrue(lines[0].startswith("starling convert: "), err)
            self.assertEqual(sorted(os.listdir(self.here)), before)
        return lines[0]

    def mangle(self, path, n=20, source=None):
        """Cut a good file, or change bytes of it: it is refused, or what is made of it can be read, or refused, too."""
        with open(path, "rb") as file:
            whole = file.read()
        draw = np.random.default_rng(len(whole))
        n_refused = 0
        for i in range(n):
            data = bytearray(whole[: len(whole) * i // (n // 2)] if i < n // 2 else whole)
            for at in draw.integers(0, len(whole), 8) if i >= n // 2 else ():
                data[at] ^= 1 << int(draw.integers(8))
            with open(path, "wb") as file:
                file.write(data)
            status, told, err = run("convert", source or path, "--out", os.path.join(self.here, "made"))
            lines = [line for line in err.splitlines() if "not used" not in line]
            self.assertEqual((status, len(lines)), (0, 0) if status == 0 else (1, 1), (path, i, err))
            self.assertEqual([name for name in os.listdir(self.here) if name.startswith(".")], [])
            n_refused += status
            if status == 0:
                with contextlib.suppress(sl.StarlingError):
                    sl.load(os.path.join(self.here, "made"), cache="none", features="degree")
                shutil.rmtree(os.path.join(self.here, "made"))
        return n_refused

    def test_mangled_arrays(self):
        for save in (np.savez, np.savez_compressed):
            save(self.path("a.npz"), edge_index=EDGES, x=X, y=NAMES[Y], **SETS)
            self.assertGreater(self.mangle(self.path("a.npz")), 10)
        self.plain("o", sets=False)
        for name in ("edge", "node-feat", "node-label"):
            self.plain("o", sets=False)
            with open(self.path(f"o/raw/{name}.npy"), "r+b") as file:
                file.truncate(200)
            self.assertIn(f"{name}.npy", self.refused(self.path("o")))

    @needs("scipy", "pandas")
    def test_mangled_matrices(self):
        import scipy.io
        import scipy.sparse

        matrix = scipy.sparse.coo_matrix((WEIGHT, EDGES.T), (N, N))
        scipy.io.mmwrite(self.path("m.mtx"), matrix)
        self.assertGreater(self.mangle(self.path("m.mtx")), 8)
        scipy.sparse.save_npz(self.path("m.npz"), matrix.tocsr())
        self.assertGreater(self.mangle(self.path("m.npz")), 8)
        for text in cases(
            """%%MatrixMarket matrix coordinate real general\\2 3 1\\1 1 1
            %%MatrixMarket matrix coordinate real general\\2 2 1\\3 1 1
            %%MatrixMarket matrix coordinate real general\\2 2 2\\1 1 1
            %%MatrixMarket matrix coordinate real general\\2 2 1\\1 1 -1
            %%MatrixMarket matrix coordinate real general\\2 2 1\\1 1 nan
            %%MatrixMarket matrix coordinate complex general\\1 1 1\\1 1 1 1
            %%MatrixMarket matrix coordinate real hermitian\\1 1 1\\1 1 1
            %%MatrixMarket matrix array real general\\1 1\\1

            1 1 1"""
        ):
            self.refused(self.lines("b.mtx", [text]))

    def test_mangled_metis(self):
        self.metis = lambda *words: Files.metis(self, *words)
        self.assertGreater(self.mangle(self.metis("a.graph")), 15)
        for text in cases(
            """x
            2
            2 1 2 3 4 5
            2 1\\2
            2 1\\2\\3
            2 1\\2\\0
            2 1\\2\\1 x
            2 1\\2\\1\\1
            2 5\\2\\1
            2 1 001\\2\\1 1
            2 1 001\\2 -1\\1 -1
            2 1 9\\2\\1
            -2 1\\2\\1"""
        ):
            self.refused(self.lines("b.graph", [text]))

    @needs("pandas")
    def test_broken_tables(self):
        for text in cases(
            """src\\a
            a|b\\1|2
            src,dst\\,a
            src,dst\\a,
            src,dst\\a
            src,dst\\a,b,c,d
            src,dst\\a,b\\a,b,c
            src,dst,weight\\a,b,-1
            src,dst,weight\\a,b,x
            src,dst,weight\\a,b,inf
            src,dst,weight\\a,b,
            src,dst,src\\a,b,c
            ,src,dst\\0,a,b
            Unnamed: 0,src,dst\\0,a,b
            src,dst\\"a,b
            src,dst\\1,2\\\0\0
            what,ever\\1,2
            # only

            1\\2
            src;dst,x\\1;2,3"""
        ):
            self.refused(self.lines("b.csv", [text]))
        with open(self.lines("c.csv", ["src,dst", *(f"{a},{b}" for a, b in EDGES)]), "rb") as file:
            packed = gzip.compress(file.read())
        with open(self.path("d.csv.gz"), "wb") as file:
            file.write(packed[:100])
        self.refused(self.path("d.csv.gz"))
        edges, ends = "src,dst\na,b\n", "id,x\na,1\nb,2\n"
        for nodes in cases(
            """x\\1
            id,x\\a,1
            id,x\\a,1\\a,2
            id,x\\a,1\\b,
            id,x\\a,1\\b,inf
            id,x\\a,1\\,2
            id,split\\a,training\\b,
            id,label,x\\a,0.5,1\\b,oak,2
            id,label,label_b\\a,0,oak\\b,1,ash
            id,x,x\\a,1,2\\b,1,2
            ,id,x\\0,a,1\\1,b,2

            id,x\\a,1,2\\b,1,2"""
        ):
            path = self.lines("n.csv", [nodes])
            self.refused(self.lines("e.csv", [edges]), "--nodes", path)
        self.lines("n.csv", [ends])
        self.assertIn("--source", self.refused(self.path("e.csv"), "--source", "none"))
        self.assertIn("--id", self.refused(self.path("e.csv"), "--nodes", self.path("n.csv"), "--id", "none"))

    @needs("pyarrow", "pandas")
    def test_mangled_parquet(self):
        import pandas

        pandas.DataFrame({"src": EDGES[:, 0], "dst": EDGES[:, 1]}).to_parquet(self.path("e.parquet"))
        self.assertGreater(self.mangle(self.path("e.parquet")), 8)

    @reads_torch
    def test_mangled_torch(self):
        import torch

        torch.save({"edge_index": torch.tensor(EDGES.T), "x": torch.tensor(X)}, self.path("a.pt"))
        self.assertGreater(self.mangle(self.path("a.pt")), 9)
        torch.save({"x": torch.tensor(X)}, self.path("b.pt"))
        self.assertIn("edge_index", self.refused(self.path("b.pt")))
        torch.save(os.system, self.path("c.pt"))
        self.assertIn("without running code", self.refused(self.path("c.pt")))
        torch.save([1, 2], self.path("d.pt"))
        self.refused(self.path("d.pt"))
        torch.save([{"edge_index": torch.tensor(EDGES.T)}] * 2, self.path("e.pt"))
        self.assertIn("found several graphs", self.refused(self.path("e.pt")))

    @needs("yaml", "pandas")
    def test_broken_folders(self):
        self.npy("g/e.npy", EDGES.T)
        for text in (
            "",
            "[]",
            "a: [",
            "graph: 3",
            "graph: {}",
            "graph: {nodes: [{num: 61}], edges: [{path: none.npy}]}",
            "graph: {nodes: [{num: 9}], edges: [{path: e.npy}]}",
            "graph: {nodes: [{num: x}], edges: [{path: e.npy}]}",
            "graph: {nodes: [{num: 61}], edges: [{path: e.npy, type: 'a:b'}]}",
        ):
            self.lines("g/metadata.yaml", [text])
            self.refused(self.path("g"))
        for text in ("", "edge_data: 3", "edge_data: [{file_name: none.csv}]", "edge_data: [{}]"):
            self.lines("d/meta.yaml", [text])
            self.refused(self.path("d"))
        os.makedirs(self.path("empty"))
        self.refused(os.path.join(self.here, "empty"))
        os.makedirs(self.path("o/raw/x"))
        self.refused(self.path("o"))

    # Arrays that are no part of a graph.
    WRONG = {
        "edge_index": (EDGES.T + N, -EDGES.T, EDGES.T + 0.5, EDGES.T[:1], NAMES[EDGES.T % 3]),
        "edge_weight": (WEIGHT[1:], -WEIGHT, np.where(WEIGHT > 3, np.nan, WEIGHT)),
        "x": (X[1:], X[:, 0], np.where(X > 2, np.nan, X), X.astype(np.float64) * 1e300, NAMES[Y][:, None]),
        "y": (Y[1:], np.where(Y > 1, np.inf, Y), np.stack([Y, Y])),
        "train": ([N], [-1], [0, 0], SETS["test"], MASKS["train"][1:], [0.5]),
    }

    def broken(self, make, listed_twice, wrong):
        """A form as it is, with each array of the table wrong, then with each of its files damaged.

        listed_twice: such files list both directions of an undirected graph, which is said.
        """
        n_refused = 0
        told = run("convert", make(), "--out", self.path("whole"))[1]
        self.assertEqual(told.endswith("whole --directed\n"), listed_twice, told)
        shutil.rmtree(self.path("whole"))
        for name, array in ((name, array) for name, arrays in wrong.items() for array in arrays):
            self.refused(make(**{name: array}))
            n_refused += 1
        source = make()
        files = [os.path.join(place, name) for place, _, names in os.walk(source) for name in names] or [source]
        for path in files if n_refused < 20 else ():
            make()
            n_refused += self.mangle(path, source=source)
        self.assertGreaterEqual(n_refused, 20)

    def test_broken_forms(self):
        every, plain = self.WRONG, {name: self.WRONG[name] for name in ("edge_index", "x")}
        lists = {name: every[name] for name in ("edge_index", "x", "y")}
        for make, listed_twice, wrong, modules in (
            (self.npz, False, {**every, "node_feat": (X,), "edge": (EDGES,)}, ()),
            (self.pt, True, every, ("torch",)),
            (self.dgl, True, every, ()),
            (self.ogb, False, {**lists, "train": every["train"]}, ()),
            (self.igb, True, lists, ()),
            (self.graphbolt, True, plain, ("yaml",)),
            (self.tables, True, {}, ("yaml", "pandas")),
        ):
            if has(*modules) and (SAFE_TORCH or make != self.pt):
                with self.subTest(make.__name__):
                    self.broken(make, listed_twice, wrong)

    def test_other_files(self):
        for name in ("a.zip", "a.tar.gz", "a.h5", "a.pkl", "a.feather", "a.npy", "a.slc", "odd"):
            found = self.refused(self.lines(name, ["x"]))
        self.assertIn("found no ending, expected a folder, or a file that ends in .npz, ", found)
        self.assertIn("found the ending '.docx', expected", self.refused(self.lines("a.docx", ["x"])))
        self.assertIn("No such file", self.refused(self.path("none.csv")))
        np.savez(self.path("a.npz"), edge_index=EDGES)
        self.assertIn("is there already", self.refused(self.path("a.npz"), "--out", self.here))
        self.assertEqual(run("convert", self.path("a.npz"))[0], 2)
        for out in ("", self.path("a.npz") + "/x", os.path.join(self.here, "none", "x")):
            self.assertIn("expected a new name in a folder", self.refused(self.path("a.npz"), "--out", out))
        self.assertIn("--id: found 'x'", self.refused(self.path("a.npz"), "--id", "x"))
        np.savez(self.path("b.npz"), edge_index=EDGES, x=X.astype(object))
        self.assertNotIn("scratch", self.refused(self.path("b.npz")))
        np.savez(self.path("c.npz"), edge_index=EDGES, x=self.WRONG["x"][2])
        self.assertIn("features: found nan, expected finite numbers", self.refused(self.path("c.npz")))

    def test_missing_libraries(self):
        for name, module, package in (
            ("a.csv", "pandas", "pandas"),
            ("a.parquet", "pyarrow", "pyarrow"),
            ("a.mtx", "scipy", "scipy"),
            ("a.pt", "torch", "torch"),
            ("a.bin", "dgl", "dgl"),
            ("d", "yaml", "pyyaml"),
        ):
            if name == "d":
                self.lines("d/meta.yaml", [""])
            else:
                self.lines(name, ["src,dst", "1,2"])
            missing = {key: None for key in sys.modules if key.split(".")[0] == module} | {module: None}
            with mock.patch.dict(sys.modules, missing):
                self.assertIn(f"needs {package}; install it: pip install {package}", self.refused(self.path(name)))
        old = types.SimpleNamespace(serialization=None, __version__="2.4.1")
        with mock.patch.dict(sys.modules, torch=old):
            self.assertIn("needs torch 2.5 or newer, found 2.4.1; install it", self.refused(self.path("a.pt")))

    @needs("pandas")
    def test_signals_leave_nothing(self):
        with open(self.path("a.csv"), "w") as file:
            file.write("src,dst\n")
            for i in range(300):
                file.writelines(f"v{i}-{j},v{j}\n" for j in range(5000))
        for stop in (signal.SIGTERM, signal.SIGINT):
            words = [sys.executable, "-m", "starling_gnn", "convert", self.path("a.csv"), "--out", self.path("made")]
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                for _ in range(2000):
                    if len(os.listdir(self.here)) > 1 or child.poll() is not None:
                        break
                    time.sleep(0.01)
                child.send_signal(stop)
                err = child.communicate()[1]
            # By -stop if Python was about to end. By SIGINT, a shell's 130, if the signal came within an exec of a
            # library's import: CPython remembers that interrupt, though it is caught.
            self.assertIn(child.returncode, (130, -stop, -signal.SIGINT))
            self.assertEqual(err, b"")
            self.assertEqual(os.listdir(self.here), ["a.csv"])


if __name__ == "__main__":
    unittest.main()
