# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A classifier of vertices in the style of scikit-learn, which it needs."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any, Mapping

from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped,import-not-found,unused-ignore]
from sklearn.utils import extmath, validation  # type: ignore[import-untyped,import-not-found,unused-ignore]

from . import _arrays, _sources
from ._graph import Graph, as_graph
from ._library import StarlingWarning, warn
from ._model import Run, all_options, set_keywords, weights_by_class
from ._model import train as train_model
from ._tools import Array, expect, np

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ModelName, TrainOptions

# Keywords of train() beside the options. An option `predict` writes a file, and is a method here.
_OF_TRAIN = ("pipe", "on_epoch", "on_step", "progress", "weights")
_KEYWORDS = [keyword for keyword in (*all_options(), *_OF_TRAIN) if keyword != "predict"]


class NodeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Classify the vertices of a graph, as an estimator of scikit-learn. GridSearchCV and cross_val_score work.

    model : str
        "sage", "gcn", "gat", "gatv2", "gcnii", "resgcn" or "gin".
    graph : dictionary of the keywords edge_index, x, directed, .. of Graph, or None
        With a graph, X is vertex ids of it, and y their classes: each training sees the whole graph, and the classes of
        its own vertices alone. Without, X is a Graph or features; features without edge_index have no edges.
    options :
        The keywords of train(), but predict. None leaves an option open. seed takes the place of random_state,
        class_weights that of sample_weight.

    After fit: classes_ (K,) sorted, n_features_in_, model_ (the Model), run_ (the Run; a pickle has none).

    >>> import numpy as np, starling_gnn as sl
    >>> y = np.where(np.arange(200) % 2 == 0, "even", "odd")
    >>> edge_index = np.stack([np.arange(200), (np.arange(200) + 2) % 200])
    >>> x = np.random.default_rng(1).random((200, 8)) + 0.5 * (y == "odd")[:, None]
    >>> classifier = sl.NodeClassifier("sage", layers=2, hidden=16, epochs=20, lr=0.02)
    >>> classifier.fit(x, y, edge_index=edge_index, train=np.arange(150), test=np.arange(150, 200)).score() > 0.9
    True
    >>> classifier.predict().shape, classifier.predict_proba().shape
    ((200,), (200, 2))
    >>> _ = classifier.set_params(graph=dict(edge_index=edge_index, x=x)).fit(np.arange(150), y[:150])
    >>> classifier.predict([198, 199])
    array(['even', 'odd'], dtype='<U4')
    """

    classes_: Array
    n_features_in_: int
    model_: Any
    run_: Run

    def __init__(
        self, model: ModelName = "sage", *, graph: Mapping[str, Any] | None = None, **options: Unpack[TrainOptions]
    ) -> None:
        inspect.signature(NodeClassifier).bind(**options)  # TypeError: a keyword that train() does not have
        self.model = model
        self.graph = graph
        for keyword in _KEYWORDS:
            setattr(self, keyword, options.get(keyword))

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        edge_index: Any = None,
        train: Any = None,
        valid: Any = None,
        test: Any = None,
        **keywords: Any,
    ) -> NodeClassifier:
        """Train on a Graph with classes, on features (N, F) and classes y (N,), or on ids (n,) and their classes.

        X: a Graph, or what train() takes for one, alone. Or features, with y of any classes and edge_index as for
        Graph. Or with the parameter `graph`: vertex ids (n,) or (n, 1). All keywords are those of Graph.

        The class of a vertex is unknown if y is negative, NaN or None. Such vertices leave train, valid and test.
        Without train, all other vertices train that are neither in valid nor in test.

        Returns the classifier. ValueError or TypeError: X, y or a keyword is wrong.
        """
        keywords.update(edge_index=edge_index, train=train, valid=valid, test=test)
        others = [key for key, value in keywords.items() if value is not None]
        if self.graph is not None:
            used, classes = self._graph_of_ids(X, y, others)
        elif _is_graph(X):
            others += ["y"] * (y is not None)
            expect(not others, "fit", f"a Graph and {', '.join(others)}", "a Graph alone, or its arrays", TypeError)
            used = as_graph(X)
            expect(used.has_classes, "X", "a graph with numbers to predict", "classes")
            classes = np.arange(used.n_outputs) if used.classes is None else used.classes
        else:
            used, classes = _graph_of_rows(X, y, keywords)
        options = {keyword: getattr(self, keyword) for keyword in _KEYWORDS if getattr(self, keyword) is not None}
        if isinstance(options.get("class_weights"), Mapping):
            options["class_weights"] = weights_by_class(options["class_weights"], classes)
        with warnings.catch_warnings():
            if used._n_split[1] == 0:  # rows of scikit-learn have no validation set
                warnings.filterwarnings("ignore", "valid .* is not defined", StarlingWarning)
            self.run_ = train_model(used, self.model, **options)
        self.model_, self.classes_ = self.run_.model, classes
        self.n_features_in_ = 1 if self.graph is not None else used.n_features
        self._has_edges = used.n_edges > 0
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "run_"}

    def _outputs(self, graph: Graph | None) -> Array:
        """The outputs (N, K) for a graph; None: the graph of fit."""
        if "run_" in self.__dict__:
            return self.run_.predict(graph)
        asked = Graph(**self.graph) if graph is None and self.graph is not None else graph
        expect(asked, "X", "None", "a Graph or features: a pickle of a classifier has no graph")
        return np.asarray(self.model_.predict(asked))

    def _graph_of_ids(self, X: Any, y: Any, others: list[str]) -> tuple[Graph, Array]:
        expect(not others, "fit", ", ".join(others), "X and y alone: the parameter graph has the rest", TypeError)
        ids, (classes, labels) = _ids(X), _classes(y)
        expect(len(labels) == len(ids), "y", f"{len(labels)} classes", f"{len(ids)}, as many as X has ids")
        made = dict(self.graph or {})
        has = {"x", "edge_index"} <= set(made)
        expect(has, "graph", f"the keys {', '.join(made)}", "edge_index and x among them", TypeError)
        n = made["x"].shape[0] if hasattr(made["x"], "shape") else len(made["x"])
        full = np.full(n, -1, np.int32)
        full[_arrays.ids32(ids, "X", n)] = labels
        made.update(y=full, train=np.flatnonzero(full >= 0), n_classes=len(classes))
        return Graph(**made), classes

    def _logits(self, X: Any, edge_index: Any, keywords: dict[str, Any]) -> Array:
        """The outputs (n, K) of the vertices that X names."""
        validation.check_is_fitted(self)
        if self.graph is not None:
            outputs = self._outputs(None)
            return outputs if X is None else outputs[_arrays.ids32(_ids(X), "X", len(outputs))]
        if X is None or _is_graph(X):
            return self._outputs(None if X is None else as_graph(X))
        features = _features(X)
        if features.shape[1] != self.n_features_in_:
            expected = f"NodeClassifier is expecting {self.n_features_in_} features as input"
            raise ValueError(f"X has {features.shape[1]} features, but {expected}")
        if edge_index is None:
            expected = "both, a Graph, or None: that of fit"
            expect(not self._has_edges, "X", "features without edge_index", expected, TypeError)
            edge_index = np.empty((2, 0), np.uint32)
        return self._outputs(Graph(edge_index, features, **keywords))

    def predict(self, X: Any = None, *, edge_index: Any = None, **keywords: Any) -> Array:
        """The class of each vertex, array (n,) of entries of classes_.

        X: a Graph, or what train() takes for one; None: the graph of fit. Features (n, F), with edge_index as for
        Graph; a classifier that was fitted without edges needs none. With the parameter `graph`: vertex ids (n,).
        """
        best: Array = self._logits(X, edge_index, keywords).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any = None, *, edge_index: Any = None, **keywords: Any) -> Array:
        """The probability of each class, float64 (n, K), in the order of classes_. X as in predict."""
        return np.asarray(extmath.softmax(self._logits(X, edge_index, keywords).astype(np.float64)))

    def score(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy: of the classes y (n,) of X, or without y on the test vertices of a Graph.

        X: as in predict. Without y and without test vertices: nan. sample_weight: weights (n,) of the rows of X.
        """
        if y is not None:
            return float(super().score(X, y, sample_weight))
        known = self.graph is None and (X is None or _is_graph(X))
        expect(known, "score", "no y", "the classes of X, or a Graph with test vertices")
        validation.check_is_fitted(self)
        return float((self.run_.evaluate() if X is None else self.model_.evaluate(X))["test_acc"])


# scikit-learn reads the keywords by name.
set_keywords(
    NodeClassifier.__init__,
    [inspect.Parameter(keyword, inspect.Parameter.KEYWORD_ONLY, default=None) for keyword in _KEYWORDS],
)


def _is_graph(value: Any) -> bool:
    """Whether as_graph takes a value."""
    graph = isinstance(value, (Graph, str, os.PathLike))
    return graph or _sources.is_pyg(value) or hasattr(value, "canonical_etypes")


def _graph_of_rows(X: Any, y: Any, keywords: dict[str, Any]) -> tuple[Graph, Array]:
    features, (classes, labels) = _features(X), _classes(y)
    if keywords["edge_index"] is None:
        keywords["edge_index"] = np.empty((2, 0), np.uint32)
        warn("fit: found no edge_index, so no vertex has an edge; give edge_index, a Graph, or the parameter graph")
    n = features.shape[0]
    expect(len(labels) == n, "y", f"{len(labels)} classes", f"{n}, a class for each row of X")
    known = np.flatnonzero(labels >= 0)
    sets = {name: _arrays.members(keywords[name], name, len(labels)) for name in ("train", "valid", "test")}
    if keywords["train"] is None:
        sets["train"] = np.setdiff1d(known, np.concatenate(list(sets.values())))
    keywords.update((name, np.intersect1d(ids, known)) for name, ids in sets.items())
    return Graph(x=features, y=labels, n_classes=len(classes), **keywords), classes


def _ids(X: Any) -> Array:
    """Vertex ids (n,) of an array (n,) or (n, 1)."""
    array = _arrays.column(_arrays.to_numpy(X, "X"))
    expect(array.ndim == 1, "X", f"the shape {array.shape}", "vertex ids (n,): graph has the features")
    return array


def _features(X: Any) -> Any:
    """Features (N, F) of rows, an array or a sparse matrix, with scikit-learn's checks."""
    return validation.check_array(X if _arrays.is_sparse(X) else _arrays.any_array(X), accept_sparse="csr")


def _classes(y: Any) -> tuple[Array, Array]:
    """(classes, labels): the sorted classes, and each vertex's index in them, -1 if its class is unknown."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None; expected a class for each row")
    array = validation.column_or_1d(_arrays.any_array(y))
    if array.dtype.kind in "iuf":
        known = array >= 0  # NaN is not
    else:
        known = np.array([not _arrays.is_missing(entry) for entry in array], bool)
    labels = np.full(len(array), -1, np.int32)
    classes, labels[known] = np.unique(array[known], return_inverse=True)
    found = f"{len(classes)} class{'es' * (len(classes) != 1)}"
    expect(len(classes) > 1, "y", found, "2 or more; a negative number is an unknown class")
    if classes.dtype.kind == "f" and not np.array_equal(classes, np.floor(classes)):
        raise ValueError("Unknown label type: y has numbers with fractions, expected classes")
    return classes, labels
