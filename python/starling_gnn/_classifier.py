# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A classifier of vertices in the style of scikit-learn."""

from __future__ import annotations

from typing import Any

from . import _arrays
from ._graph import Graph
from ._library import OPTIONS
from ._numpy import np
from ._train import train as train_model


class NodeClassifier:
    """Classify the vertices of a graph: fit, predict, predict_proba, score, get_params, set_params.

    model : str
        "sage", "gcn", "gat", "gcnii", "resgcn" or "gin".
    options :
        The keywords of train().

    After fit: classes_ (K,) sorted, n_features_in_, run_ (the Run).

    >>> import numpy as np, starling_gnn as sl
    >>> y = np.where(np.arange(200) % 2 == 0, "even", "odd")
    >>> edge_index = np.stack([np.arange(200), (np.arange(200) + 2) % 200])
    >>> x = np.random.default_rng(1).random((200, 8)) + 0.5 * (y == "odd")[:, None]
    >>> classifier = sl.NodeClassifier("sage", layers=2, hidden=16, epochs=20, lr=0.02)
    >>> classifier.fit(x, y, edge_index=edge_index, train=np.arange(150), test=np.arange(150, 200)).score() > 0.9
    True
    >>> classifier.predict().shape, classifier.predict_proba().shape
    ((200,), (200, 2))
    """

    _estimator_type = "classifier"

    def __init__(self, model="sage", **options):
        unknown = [
            keyword
            for keyword in options
            if keyword not in OPTIONS[False]
            and keyword not in OPTIONS[True]
            and keyword not in ("pipe", "on_epoch", "on_step", "progress", "weights")
        ]
        if unknown:
            raise TypeError(
                f"NodeClassifier() got an unexpected keyword argument '{unknown[0]}'; expected keywords of train()"
            )
        self.model = model
        self._options = options

    def __getattr__(self, name):
        options = self.__dict__.get("_options", {})
        if name in options:
            return options[name]
        raise AttributeError(f"a NodeClassifier has no {name}{'; call fit first' if name.endswith('_') else ''}")

    def __repr__(self):
        options = "".join(f", {key}={value!r}" for key, value in self._options.items())
        return f"NodeClassifier({self.model!r}{options})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The keywords given so far, and model. deep has no effect: no keyword is an estimator."""
        return {"model": self.model, **self._options}

    def set_params(self, **params: Any) -> NodeClassifier:
        """Change model or keywords of train() for the next fit. TypeError: train() has no such keyword."""
        made = type(self)(**{**self.get_params(), **params})
        self.model, self._options = made.model, made._options
        return self

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
        """X: a Graph with classes, alone; or features (N, F), with y (N,) of any classes and edge_index as for Graph.

        The class of a vertex is unknown if y is negative, NaN or None. Such vertices leave train, valid and test.
        Without train, all other vertices train that are neither in valid nor in test. keywords are those of Graph.
        """
        if isinstance(X, Graph):
            given = dict(y=y, edge_index=edge_index, train=train, valid=valid, test=test, **keywords)
            given = [name for name, value in given.items() if value is not None]
            if given:
                raise TypeError(f"fit: found a Graph and {', '.join(given)}, expected a Graph alone, or its arrays")
            if not X.has_classes:
                raise ValueError("X: found a graph with numbers to predict, expected classes")
            self.classes_ = np.arange(X.n_outputs)
            graph = X
        else:
            if y is None or edge_index is None:
                raise ValueError("fit: found features without y or edge_index, expected both, or a Graph")
            self.classes_, labels = _classes(y)
            known = labels >= 0
            valid, test = (_mask(part, name, known) for part, name in ((valid, "valid"), (test, "test")))
            if train is None:
                train = known & ~valid & ~test
            else:
                train = _mask(train, "train", known)
            graph = Graph(edge_index, X, labels, train, valid, test, n_classes=len(self.classes_), **keywords)
        self.n_features_in_ = graph.n_features
        self.run_ = train_model(graph, self.model, **self._options)
        return self

    def _logits(self, graph):
        return self.run_.predict(graph)

    def predict(self, graph: Graph | None = None) -> np.ndarray:
        """The class of each vertex (N,) of a Graph; None: the graph of fit."""
        return self.classes_[self._logits(graph).argmax(axis=1)]

    def predict_proba(self, graph: Graph | None = None) -> np.ndarray:
        """The probability of each class (N, K), for the vertices of a Graph; None: the graph of fit."""
        logits = self._logits(graph).astype(np.float64)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def score(self, graph: Graph | None = None) -> float:
        """The accuracy on the test vertices of a Graph; None: the graph of fit. Without test vertices: nan."""
        return self.run_.evaluate(graph)["test_acc"]


def _classes(y):
    """(classes, labels): the sorted classes, and each vertex's index in them, -1 if its class is unknown."""
    array = _arrays.any_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y: found the shape {array.shape}, expected (N,), a class for each vertex")
    if array.dtype.kind in "iuf":
        known = array >= 0  # NaN is not
    else:
        known = np.array([type(entry).__name__ not in ("NoneType", "NAType") and entry == entry for entry in array])
    labels = np.full(len(array), -1, np.int32)
    classes, labels[known] = np.unique(array[known], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y: found {len(classes)} known classes, expected 2 or more; a negative number is unknown")
    return classes, labels


def _mask(part, name, known):
    """The mask of the vertices of a set whose class is known."""
    mask = np.zeros(len(known), bool)
    mask[_arrays.members(part, name, len(known))] = True
    return mask & known
