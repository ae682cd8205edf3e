# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Trained models: from files and runs, and their answers."""

from __future__ import annotations

import ctypes as C
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _arrays, _session
from ._graph import Graph, as_graph, lines_of
from ._library import OPTIONS, ModelFacts, Scores, check, lib, made, texts_of
from ._tools import Array, Floats, Record, expect, np

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from typing_extensions import Unpack

    from ._graph import GraphLike, Path
    from ._options import TrainOptions

T = TypeVar("T")

# Columns of a table without names, as in the programs' --predict FILE.csv.
_WORDS = {"class": "class", "labels": "label", "regression": "number", "link": "output"}


class Model:
    """A trained model, which answers for any graph. Made by load_model() and Run.model.

    A graph needs no labels and no split; its relations are matched by name. Later calls with the same Graph open
    nothing again, until another graph, model or training takes the process's session.

    All calls raise StarlingError: the graph does not fit, for example in its number of features. TypeError: graph is
    nothing that train() takes.

    Attributes: kind, the option model ("sage", ..); objective ("class", "labels", "regression" or "link"); dataset, the
    name of the training data; n_features, n_outputs, n_embeddings; relations, triples (source, name, destination).
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        facts = made(ModelFacts, lib.sl_model_describe, handle)
        self.kind: str = (facts.model or b"").decode()
        self.objective: str = (facts.objective or b"").decode()
        self.dataset: str = (facts.dataset or b"").decode()
        self._says_all = facts.version > 0
        self.n_features: int = facts.n_features
        self.n_outputs: int = facts.n_outputs
        self.n_embeddings: int = facts.n_embeddings
        self._names: list[str] = lines_of(facts.class_names) if self.objective in ("class", "labels") else []
        self.relations: tuple[tuple[str, ...], ...] = tuple(
            tuple(line.split(",")) for line in lines_of(facts.relation_names)
        )

    @property
    def classes(self) -> Array | None:
        """The classes or labels in the order of the scores, array (K,): names or numbers. None: there are none."""
        if self.objective not in ("class", "labels"):
            return None
        return np.array(self._names) if self._names else np.arange(self.n_outputs)

    def __repr__(self) -> str:
        sizes = f"{self.n_features} features, {self.n_outputs} outputs"
        return f"Model({self.kind!r}, objective {self.objective!r}, trained on {self.dataset!r}: {sizes})"

    def __del__(self, delete: Any = lib.sl_model_delete) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            _session.dispose(delete, handle)

    def __reduce__(self) -> Any:
        return _of_bytes, (self._bytes(),)

    def _bytes(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            self.save(path)
            with open(path, "rb") as file:
                return file.read()

    def save(self, path: Path) -> None:
        """Write the model as .safetensors, as the program's --save does. InputOutputError: writing failed."""
        check(lib.sl_model_save(self._handle, os.fsencode(path)))

    def arrays(self) -> dict[str, Floats]:
        """The weights by name, float32, as in the file of save()."""
        data = self._bytes()
        length = int.from_bytes(data[:8], "little")
        found = {}
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                first, end = (8 + length + offset for offset in entry["data_offsets"])
                found[name] = np.frombuffer(data[first:end], "<f4").reshape(entry["shape"]).astype(np.float32)
        return found

    def _graph(self, value: GraphLike) -> Graph:
        """A Graph of what a call takes. Edges of PyG and DGL get reverse ones if the edges of training got them."""
        text = C.create_string_buffer(8)
        check(lib.sl_model_get(self._handle, b"directed", text, len(text)))
        return as_graph(value, directed=text.value == b"yes" or not self._says_all)

    def _ask(self, graph: GraphLike, question: Callable[[Graph, Any], T]) -> T:
        """question(graph, dataset) in a thread of the library, after other sessions are closed."""
        used = self._graph(graph)

        def call(job: _session.Job) -> T:
            _session.close_current()
            return question(used, used._dataset(self))

        return _session.run(call)

    def _rows(self, function: Any, width: int, graph: GraphLike, vertices: Any) -> Floats:
        def question(used: Graph, dataset: Any) -> Floats:
            ids = None if vertices is None else used._members(vertices)
            rows = np.empty((used.n_vertices if ids is None else len(ids), width), np.float32)
            if len(rows):
                address = None if ids is None else ids.ctypes.data
                check(function(self._handle, dataset, len(rows), address, rows.ctypes.data))
            return rows

        return self._ask(graph, question)

    def predict(self, graph: GraphLike, vertices: Any = None) -> Floats:
        """Scores of the vertices of a graph, float32 (N, K): the outputs before softmax or sigmoid, or numbers.

        vertices: numbers (n,), ids of graph.ids as texts, or a mask (N,); the result has their rows alone.
        InvalidArgumentError: the model is of links.
        """
        return self._rows(lib.sl_model_predict, self.n_outputs, graph, vertices)

    def embeddings(self, graph: GraphLike, vertices: Any = None) -> Floats:
        """The last hidden layer for the vertices of a graph, float32 (N, n_embeddings).

        A model of links gives its outputs. vertices: as for predict. InvalidArgumentError: the model has one layer.
        """
        return self._rows(lib.sl_model_embed, self.n_embeddings, graph, vertices)

    def evaluate(self, graph: GraphLike) -> Record:
        """Loss and scores of a graph's validation and test vertices or links: valid_NAME, test_NAME; nan without."""

        scores = self._ask(graph, lambda used, dataset: made(Scores, lib.sl_model_evaluate, self._handle, dataset))
        return _session.read_scores(scores)

    def predict_links(self, graph: GraphLike, pairs: Any) -> Floats:
        """Scores of pairs of vertices, float32 (L,), by a model of links. A larger score is a likelier link.

        pairs: array (2, L) of sources and destinations, numbers or ids of graph.ids as texts; in a typed graph
        (3, L) of numbers: heads, relations and tails. InvalidArgumentError: the model is not of links.
        """
        expect(pairs is not None, "pairs", "None", "an array (2, L)", TypeError)

        def question(used: Graph, dataset: Any) -> Floats:
            numbers = used._numbers(pairs, "pairs") if used.n_relations == 0 else pairs
            links = _arrays.Links(numbers, "pairs", used.n_vertices, used.n_relations)
            scores = np.empty(links.members.n, np.float32)
            if len(scores):
                check(lib.sl_model_score_links(self._handle, dataset, C.byref(links.members), scores.ctypes.data))
            return scores

        return self._ask(graph, question)

    def predict_table(self, graph: GraphLike, vertices: Any = None) -> DataFrame:
        """Predictions with names: a pandas.DataFrame, or a dictionary of columns without pandas.

        Columns: id, the vertex in the graph's own naming; class, the class with the largest score, if the model is of
        classes; and the scores of predict(), by the name of the class or label, or class0, class1, .., label0, number0.
        """
        used = self._graph(graph)
        return table(used, self, self.predict(used, vertices), vertices)


def table(graph: Graph, model: Model, scores: Floats, vertices: Any) -> Any:
    ids = graph.ids
    columns: dict[str, Any] = {"id": ids if vertices is None else ids[graph._members(vertices)]}
    classes = model.classes
    if model.objective == "class" and classes is not None:
        columns["class"] = classes[scores.argmax(axis=1)]
    names = model._names or [f"{_WORDS.get(model.objective, 'output')}{i}" for i in range(scores.shape[1])]
    for i, name in enumerate(names):
        columns[f"{name}_score" if name in columns else name] = scores[:, i]
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def model_of(session: _session.Session, names: str) -> Model:
    """The model of a session, with the names of "dgl" or "pyg"."""
    session.settings.set("save-names", names)
    return Model(made(C.c_void_p, lib.sl_session_model, session.handle))


def _of_bytes(data: bytes) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(data)
        return load_model(path)


def load_model(path: Path, **options: Unpack[TrainOptions]) -> Model:
    """A model from a file of Run.save, train(save=...) or the programs' --save, or from a checkpoint.

    options: keywords of train() that change no score, for example cpus, gpus or pes. All others come from the file.
    BadFileError: not such a file. InputOutputError: it cannot be read. InvalidArgumentError: an option contradicts the
    file. StarlingWarning: what a file of an older version, or of another program, lacks.
    """
    handle = made(C.c_void_p, lib.sl_model_load, os.fsencode(path))
    try:
        for name, text in texts_of(False, {**OPTIONS[True], **OPTIONS[False]}, options, "load_model"):
            check(lib.sl_model_set(handle, name.encode(), os.fsencode(text)))
        return Model(handle)
    except BaseException:
        lib.sl_model_delete(handle)
        raise
