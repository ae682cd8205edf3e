# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Models, their training and its results."""

from __future__ import annotations

import contextlib
import ctypes as C
import inspect
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
import textwrap
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, TypeVar, Union

from . import _arrays, _library, _session
from ._curves import Curve, draw
from ._graph import Graph, as_graph, lines_of
from ._library import OPTIONS, ModelFacts, Option, Scores, check, lib, made, make_settings, shown, texts_of
from ._tools import Array, Floats, Record, expect, need, np

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from typing_extensions import Unpack

    from ._graph import GraphLike, Path
    from ._options import ModelName, TrainOptions

    Weights = Union["Run", "Model", Path, Mapping[str, Any]]

T = TypeVar("T")

# Columns of a table without names, as in the programs' --predict FILE.csv.
_WORDS = {"class": "class", "labels": "label", "regression": "number", "link": "output"}
_REDRAW_S = 0.1  # at least, between two drawings of a bar
# Options that scores of a graph depend on, beside those of the model.
_OF_SCORES = ("split", "seed", "loss", "link_loss", "negatives", "class_weights", "best_by", "cache")


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
            path = pathlib.Path(folder, "model.safetensors")
            self.save(path)
            return path.read_bytes()

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

        vertices: numbers (n,), ids of graph.ids as texts, or a mask (N,); the result has their rows alone. Without a
        GPU only their neighbourhoods are computed. InvalidArgumentError: the model is of links.
        """
        return self._rows(lib.sl_model_predict, self.n_outputs, graph, vertices)

    def embeddings(self, graph: GraphLike, vertices: Any = None) -> Floats:
        """The last hidden layer for the vertices of a graph, float32 (N, n_embeddings).

        A model of links gives its outputs. vertices: as for predict. InvalidArgumentError: the model has one layer.
        """
        return self._rows(lib.sl_model_embed, self.n_embeddings, graph, vertices)

    def predict_new(
        self,
        graph: GraphLike,
        x: Any,
        edge_index: Any,
        *,
        edge_weight: Any = None,
        edge_type: Any = None,
        edge_attr: Any = None,
        embeddings: bool = False,
    ) -> Floats:
        """Scores of new vertices beside a graph, float32 (n, K): those that predict() gives in a graph of all of them.

        The graph does not change, and is not loaded again. Only the neighbourhoods of the new vertices are computed.

        x: features (n, F), as the graph has them. edge_index: array (2, E) of edges with at least one new end; the
        graph's vertices are 0 .. N-1, the new ones N .. N+n-1. Reverse edges are added if the graph's were.
        edge_weight (E,), edge_type (E,) of numbers, edge_attr (E, D): as the graph has them. embeddings: the rows of
        embeddings() instead. InvalidArgumentError: an array does not fit the graph or the model.
        """

        def question(used: Graph, dataset: Any) -> Floats:
            directed = made(_library.DatasetSizes, lib.sl_dataset_describe, dataset).directed
            added, _borrowed = used._added(x, edge_index, edge_weight, edge_type, edge_attr, directed)
            rows = np.empty((added.n_vertices, self.n_embeddings if embeddings else self.n_outputs), np.float32)
            if len(rows):
                wanted = (None, rows.ctypes.data) if embeddings else (rows.ctypes.data, None)
                check(lib.sl_model_predict_new(self._handle, dataset, C.byref(added), *wanted))
            return rows

        return self._ask(graph, question)

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


def _of_bytes(data: bytes) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.safetensors")
        path.write_bytes(data)
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


class Run:
    """A finished training: its history, its scores and its model. Made by train().

    Attributes: graph; options, the keywords of train(); config, the machine, the dataset and all options, as in the
    metrics; scores of the best epoch, the model's: valid_NAME of the score that selects, and test_NAME of all scores;
    best_epoch, or None; interrupted: training was stopped before its last epoch.
    """

    def __init__(self, graph: Graph, pipe: bool, options: dict[str, Any]) -> None:
        self.graph, self.pipe, self.options = graph, pipe, options
        self.config, self.scores = Record(), Record()
        self.records: list[Record] = []
        self.best_epoch: int | None = None
        self.interrupted = False
        self._models: dict[str, Model] = {}
        self._session: _session.Session | None = None

    if TYPE_CHECKING:  # Scores at the best epoch: test_NAME of the objective, and valid_NAME of the score that selects.
        test_acc = test_f1 = test_f1_micro = test_auc = test_ap = test_mse = test_mae = test_r2 = 0.0
        test_mrr = test_hits1 = test_hits3 = test_hits10 = test_hits20 = test_hits50 = test_hits100 = 0.0
        valid_acc = valid_f1 = valid_f1_micro = valid_auc = valid_ap = valid_mse = valid_mae = valid_r2 = 0.0
        valid_mrr = valid_hits1 = valid_hits3 = valid_hits10 = valid_hits20 = valid_hits50 = valid_hits100 = 0.0
    else:

        def __getattr__(self, name):
            return getattr(self.__dict__.get("scores", Record()), name)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.items())
        stopped = ", interrupted" if self.interrupted else ""
        return f"Run({self.graph.name!r}, {len(self.records)} epochs, best {self.best_epoch}: {scores}{stopped})"

    def __reduce__(self) -> Any:
        raise TypeError("a Run cannot be pickled: save its model (save) or its weights (state_dict)")

    @property
    def history(self) -> DataFrame:
        """One row for each epoch, as a pandas.DataFrame. Without pandas: a list of dictionaries."""
        try:
            import pandas
        except ImportError:
            return self.records
        return pandas.DataFrame(self.records)

    @property
    def model(self) -> Model:
        """The trained model. It outlives the run, and can be pickled."""
        return self._models["dgl"]

    @property
    def classes(self) -> Array | None:
        """The classes or labels in the order of the scores, as Model.classes."""
        return self.model.classes

    def _ask(self, question: Callable[[_session.Session], T]) -> T:
        """An answer of the training's session for its graph. If it is closed, another one is opened."""

        def call(job: _session.Job) -> T:
            if self._session is None or self._session is not _session._current:
                table = OPTIONS[self.pipe]
                kept = {key: value for key, value in self.options.items() if table[key].of_model or key in _OF_SCORES}
                kept = _own_data(self.graph, {**kept, "objective": self.model.objective, "epochs": 0}, "evaluate")
                settings = make_settings(self.pipe, kept, "evaluate")
                self._session = job.open(settings, self.graph, self.model.arrays())
            job.session = self._session
            return question(self._session)

        return _session.run(call)

    # The answers of the model. Without a graph they are for the one of training.

    def predict(self, graph: GraphLike | None = None, vertices: Any = None) -> Floats:
        """Scores of the vertices of a graph, float32 (N, K), as Model.predict; after training on links: embeddings."""
        if self.model.objective == "link":
            return self.embeddings(graph, vertices)
        if graph is not None or vertices is not None:
            return self.model.predict(self.graph if graph is None else graph, vertices)
        return self._ask(lambda session: session.rows(False))

    def embeddings(self, graph: GraphLike | None = None, vertices: Any = None) -> Floats:
        """The last hidden layer for the vertices of a graph, float32 (N, hidden), as Model.embeddings."""
        if graph is not None or vertices is not None:
            return self.model.embeddings(self.graph if graph is None else graph, vertices)
        return self._ask(lambda session: session.rows(True))

    def evaluate(self, graph: GraphLike | None = None) -> Record:
        """Loss and scores of the validation and test vertices of a graph, as Model.evaluate."""
        if graph is not None and graph is not self.graph:  # whose split train() may have drawn
            return self.model.evaluate(graph)
        return self._ask(lambda session: session.evaluate())

    def predict_new(self, x: Any, edge_index: Any, graph: GraphLike | None = None, **keywords: Any) -> Floats:
        """Scores of new vertices beside a graph, as Model.predict_new; after training on links: embeddings."""
        if self.model.objective == "link":
            keywords["embeddings"] = True
        return self.model.predict_new(self.graph if graph is None else graph, x, edge_index, **keywords)

    def predict_links(self, pairs: Any, graph: GraphLike | None = None) -> Floats:
        """Scores of pairs of vertices, float32 (L,), as Model.predict_links."""
        return self.model.predict_links(self.graph if graph is None else graph, pairs)

    def predict_table(self, graph: GraphLike | None = None, vertices: Any = None) -> DataFrame:
        """Predictions with ids and names of classes, as Model.predict_table."""
        used = self.graph if graph is None else self.model._graph(graph)
        return table(used, self.model, self.predict(None if used is self.graph else used, vertices), vertices)

    def state_dict(self, names: str = "pyg", tensors: str = "numpy") -> dict[str, Any]:
        """The model's arrays by name.

        names: "pyg" or "dgl", names and shapes of the layers of PyTorch Geometric or of DGL. tensors: "numpy" or
        "torch"; the latter fits model.load_state_dict.
        """
        known = isinstance(tensors, str) and tensors in ("numpy", "torch")
        expect(known, "tensors", shown(tensors), "'numpy' or 'torch'")
        arrays = self._named(names).arrays()
        if tensors == "numpy":
            return arrays
        torch = need("torch", "torch")
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def save(self, path: Path, names: str = "dgl") -> None:
        """Write the model as .safetensors, as --save does: for load_model(), evaluate(), load=, torch and --load."""
        self._named(names).save(path)

    def _named(self, names: str) -> Model:
        expect(isinstance(names, str) and names in self._models, "names", shown(names), "'pyg' or 'dgl'")
        return self._models[names]

    def plot(self, figure: Any = None) -> Any:
        """Draw loss, scores and stage times with matplotlib, as `starling plot` does.

        figure: a matplotlib Figure or SubFigure; None: a new one of pyplot. Returns the figure; figure.axes has its
        panels. ImportError: matplotlib is missing.
        """
        if figure is None:
            figure = need("matplotlib.pyplot", "matplotlib", "python3-matplotlib").figure(layout="constrained")
        known, kind = hasattr(figure, "add_gridspec"), type(figure).__name__
        expect(known, "figure", f"a {kind}", "a Figure or SubFigure of matplotlib", TypeError)
        draw([Curve(self.graph.name, self.config, self.records, not self.interrupted)], figure)
        return figure


def _own_data(graph: Graph, options: Mapping[str, Any], caller: str) -> dict[str, Any]:
    """The options with those of the graph's data. A graph's data are chosen by Graph() or load()."""
    for option in OPTIONS[False].values():
        if option.of_data and option.keyword in options and option.keyword not in _library.KEPT:
            raise TypeError(f"{caller}() got an unexpected keyword argument '{option.keyword}'; give it to load()")
    source = graph._source or {}
    for keyword, value in source.items():
        given = options.get(keyword, value)
        expect(given in (value, None), keyword, repr(given), f"{value!r}, as load() read the graph")
    return {**options, **source}


class Progress:
    """Progress of a run: a bar in a terminal or notebook, lines elsewhere.

    wanted: None: a bar in a terminal or notebook, else nothing. True: lines elsewhere. False: nothing.
    """

    def __init__(self, wanted: bool | None, epochs: int) -> None:
        self.epochs, self.started, self.drawn = epochs, time.monotonic(), 0.0
        self.shown = self.score = ""
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self.notebook = hasattr(shell, "kernel")
        self.stream = sys.stdout if self.notebook else sys.stderr
        tty = getattr(self.stream, "isatty", bool)()
        self.bar = wanted is not False and (tty or self.notebook)
        self.lines = wanted is True and not self.bar and self.stream is not None

    def _draw(self, done: float, loss: float) -> None:
        columns = 79 if self.notebook else shutil.get_terminal_size().columns - 1
        share = min(1.0, done / max(1, self.epochs))
        left = (time.monotonic() - self.started) * (1 - share) / share if share > 0 else 0
        epoch = min(int(done) + 1, self.epochs)
        minutes, seconds = divmod(int(left + 0.5), 60)
        clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
        end = f"] epoch {epoch}/{self.epochs}  loss {loss:.4f}{self.score}  {clock} left"
        width = columns - len(end) - 1
        self._write("[" + ("#" * int(width * share)).ljust(width, ".") + end if width >= 5 else end[2:])

    def _write(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(len(self.shown)))
        self.stream.flush()
        self.shown = text

    def step(self, epoch: int, step_of_epoch: float, loss: float) -> None:
        """step_of_epoch: 0 .. 1, the share of the epoch that is done."""
        if self.bar and time.monotonic() - self.drawn >= _REDRAW_S:
            self.drawn = time.monotonic()
            self._draw(epoch - 1 + step_of_epoch, loss)

    def epoch(self, line: Mapping[str, Any]) -> None:
        scores = [(key, value) for key, value in line.items() if key.startswith("valid_") and key != "valid_loss"]
        if scores and scores[0][1] == scores[0][1]:
            self.score = f"  {scores[0][0].replace('_', ' ')} {scores[0][1]:.4f}"
        if self.lines:
            epoch = f"epoch {line['epoch']}/{self.epochs}"
            self.stream.write(f"{epoch}  loss {line['loss']:.4f}{self.score}  {line['seconds']:.3f} s\n")
        elif self.bar:
            self.step(line["epoch"], 1.0, line["loss"])

    def close(self) -> None:
        if self.bar and self.shown:
            self._write("")
            self._write("")


class _Training(_session.Job):
    """One call of train(), which fills a Run."""

    def __init__(self, run: Run, on_epoch: Any, on_step: Any, wanted: bool | None, weights: Any) -> None:
        super().__init__(self.call)
        self.result, self.on_epoch, self.on_step, self.weights = run, on_epoch, on_step, weights
        self.settings = make_settings(run.pipe, _own_data(run.graph, run.options, "train"), "train")
        self.progress = Progress(wanted, int(self.settings.get("epochs")))
        self.n_per_epoch = 1
        self.error: BaseException | None = None  # of a callback
        self.training = False

    # ---- in the job's thread ----

    def call(self, job: _session.Job) -> None:
        run = self.result
        session = run._session = self.open(self.settings, run.graph, self.weights)
        self.n_per_epoch = session.sizes.n_per_epoch
        self.training = True
        report = _library.Report(line=_library.LineFunction(self._line))
        if self.on_step is not None or self.progress.bar:
            report.step = _library.StepFunction(self._step)
        status = lib.sl_session_train(session.handle, C.byref(report))
        run.interrupted = status == _library.EINTERRUPT
        if not run.interrupted:
            check(status)
        for names in ("pyg", "dgl"):
            session.settings.set("save-names", names)
            run._models[names] = Model(made(C.c_void_p, lib.sl_session_model, session.handle))

    def _line(self, context: Any, line: bytes) -> bool:
        """A line of the metrics. True: stop."""
        run = self.result
        try:
            record = Record((key, math.nan if value is None else value) for key, value in json.loads(line).items())
            event = record.get("event")
            if event == "config":
                run.config = record
            elif event == "summary":
                best = record.get("best_epoch", math.nan)
                run.best_epoch = None if best != best else best
                run.scores.update((key[5:], value) for key, value in record.items() if key.startswith("best_valid_"))
                run.scores.update((key[:-8], value) for key, value in record.items() if key.endswith("_at_best"))
            elif event == "epoch":
                del record["event"]
                record = Record(epoch=record.pop("epoch"), loss=record.pop("train_loss"), **record)
                run.records.append(record)
                return self.tell("epoch", record, self.on_epoch is not None)
        except BaseException as error:
            self.error = self.error or error
            return True
        return False

    def _step(self, context: Any, news: Any) -> bool:
        step = news.contents
        return self.tell("step", Record(epoch=step.epoch, step=step.step, loss=step.loss), self.on_step is not None)

    # ---- in the caller's thread ----

    def answer(self, kind: str, value: Any) -> bool:
        if kind == "interrupt":
            self.stop()
            return value > 1 or not self.training
        if kind == "step":
            self.progress.step(value.epoch, (value.step % self.n_per_epoch + 1) / self.n_per_epoch, value.loss)
        else:
            self.progress.epoch(value)
        function = self.on_epoch if kind == "epoch" else self.on_step
        if function is None or self.error is not None:
            return self.error is not None
        try:
            return self.callback(function, value) is True
        except BaseException as error:
            self.raises = False
            if isinstance(error, KeyboardInterrupt) and self.n_interrupts > 1:
                raise
            self.error = error
            return True

    def run(self) -> Run:
        try:
            self.wait(self.answer)
        except Exception as error:
            if self.error is None or isinstance(self.error, KeyboardInterrupt):
                raise
            raise self.error from error
        finally:
            self.progress.close()
        if self.error is not None and not isinstance(self.error, KeyboardInterrupt):  # which stops training
            raise self.error
        return self.result


def train(
    graph: GraphLike,
    model: ModelName = "sage",
    *,
    pipe: bool = False,
    on_epoch: Callable[[Record], Any] | None = None,
    on_step: Callable[[Record], Any] | None = None,
    progress: bool | None = None,
    weights: Weights | None = None,
    **options: Unpack[TrainOptions],
) -> Run:
    for name, function in (("on_epoch", on_epoch), ("on_step", on_step)):
        expect(function is None or callable(function), name, shown(function), "a function", TypeError)
    used = as_graph(graph)
    given: dict[str, Any] = {"model": model, **options}
    if isinstance(given.get("class_weights"), Mapping):
        given["class_weights"] = weights_by_class(given["class_weights"], used.classes)
    arrays = None if weights is None else _initial_weights(weights, given)
    return _Training(Run(used, pipe, given), on_epoch, on_step, progress, arrays).run()


def weights_by_class(weights: Mapping[Any, Any], classes: Array | None) -> list[Any]:
    """Weights in the order of the classes; 1 for a class without any."""
    names = [] if classes is None else classes.tolist()
    for name in weights:
        expect(name in names, "class_weights", f"the class {name!r}", f"classes of {names[:10]}")
    return [weights.get(name, 1) for name in names]


_TRAIN = """Train a model on a graph, and return a Run.

Every option of the programs is a keyword, with _ for -, and lambda_ for lambda. None leaves an option open.

Ctrl-C stops after the current step: run.interrupted. A second Ctrl-C gives up at once. An exception in a callback stops
the run and is raised. Errors of the library are StarlingError.

Parameters
----------
graph : Graph, PyG's Data or HeteroData, DGLGraph; or name or path of a dataset
pipe : bool
    Train on the full graph, in chunks and stages (the program pipe_gnn), for deep models.
on_epoch, on_step : function of a dictionary with attributes
    Called after each epoch with its row of Run.history (e.epoch, e.loss, e.valid_acc, e.seconds), and after each step
    (epoch, step, loss). Training stops if it returns True.
progress : bool or None
    None: a bar in a terminal or notebook. True: also lines elsewhere. False: nothing.
weights : Run, Model, path or dict of arrays
    Initial weights, by the names of Run.state_dict. The options of the model must be the same.

>>> import numpy as np, starling_gnn as sl
>>> rng = np.random.default_rng(1)
>>> y = np.arange(200) % 2
>>> edge_index = np.stack([np.arange(200), (np.arange(200) + 2) % 200])
>>> x = rng.random((200, 8), dtype=np.float32) + 0.5 * y[:, None].astype(np.float32)
>>> graph = sl.Graph(edge_index, x, y, train=np.arange(100), valid=np.arange(100, 150), test=np.arange(150, 200))
>>> run = sl.train(graph, layers=2, hidden=16, epochs=40, lr=0.02, dropout=0)
>>> run.predict().shape, run.embeddings().shape, run.evaluate().test_acc > 0.8
((200, 2), (200, 16), True)

Options
-------
"""


def evaluate(graph: GraphLike, weights: Weights, *, pipe: bool = False, **options: Unpack[TrainOptions]) -> Record:
    """Loss and scores of a model on a graph, by exact inference.

    weights: a Run, a Model, the path of a file of Run.save or --save; or arrays by name (Run.state_dict), with the
    model's options as keywords. Returns a dictionary with attributes: valid_loss, valid_NAME and test_NAME.
    """
    if isinstance(weights, (str, os.PathLike)):
        return load_model(weights, **options).evaluate(graph)
    given: dict[str, Any] = {**options}
    if isinstance(weights, (Run, Model)):
        found = f"{', '.join(given)} beside a {type(weights).__name__}"
        expect(not given, "evaluate", found, "none: it has its own options", TypeError)
        return weights.evaluate(graph)
    used = as_graph(graph)
    arrays = _initial_weights(weights, given)
    given = {**{key: value for key, value in given.items() if key not in (used._source or {})}, "epochs": 0}
    settings = make_settings(pipe, _own_data(used, given, "evaluate"), "evaluate")
    return _session.run(lambda job: job.open(settings, used, arrays).evaluate())


def _initial_weights(weights: Weights, options: dict[str, Any]) -> Mapping[str, Floats] | None:
    """Arrays by name. None: the weights are in a file, which becomes the option `load`."""
    if isinstance(weights, (Run, Model)):
        return (weights.model if isinstance(weights, Run) else weights).arrays()
    if isinstance(weights, (str, os.PathLike)):
        options["load"] = weights
        return None
    expected = "a Run, a Model, a path, or arrays by name"
    expect(hasattr(weights, "items"), "weights", f"a {type(weights).__name__}", expected, TypeError)
    made = {str(name): _arrays.floats(value, f"weights[{name!r}]") for name, value in weights.items()}
    return {name: array.reshape(array.shape or 1) for name, array in made.items()}


_TYPES = {"flag": bool, "whole": int, "long": int, "real": float, "list": list}


def all_options() -> dict[str, Option]:
    """The options of both programs that train() has as keywords."""
    both = {**OPTIONS[False], **OPTIONS[True], **OPTIONS[False]}
    return {key: o for key, o in both.items() if key != "model" and (not o.of_data or key in _library.KEPT)}


def set_keywords(function: Any, keywords: list[inspect.Parameter]) -> None:
    """Let a function's signature list the keywords that its ** takes."""
    signature = inspect.signature(function)
    fixed = [parameter for parameter in signature.parameters.values() if parameter.kind != parameter.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=fixed + keywords)


def _describe_train() -> None:
    lines: list[str] = []
    parameters, group = [], None
    for keyword, option in all_options().items():
        kind: Any = _TYPES.get(option.kind, str)
        initial: Any = False if kind is bool else None if option.kind == "text" and option.shown else option.default
        if kind in (int, float):
            with contextlib.suppress(ValueError, TypeError):
                initial = kind(initial)
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(keyword, keyword_only, default=initial, annotation=kind))
        if option.group != group:
            group = option.group
            lines += ["", f"{group}:", ""]
        only = "; not with pipe" * (keyword not in OPTIONS[True]) + "; with pipe=True" * (keyword not in OPTIONS[False])
        default = option.shown or option.default or {"flag": "False"}.get(option.kind, "none")
        choices = f"; one of {', '.join(option.choices)}" if option.choices else ""
        lines.append(f"{keyword} : {kind.__name__}, default {default}{choices}{only}")
        lines += textwrap.wrap(option.help + ".", 110, initial_indent="    ", subsequent_indent="    ")
    train.__doc__ = _TRAIN + "\n".join(lines).strip("\n") + "\n"
    set_keywords(train, parameters)


_describe_train()


def options(pipe: bool = False) -> list[Option]:
    """The options of train(), in the order of the programs' help. Members: keyword, kind, choices, default, help."""
    return list(OPTIONS[pipe].values())
