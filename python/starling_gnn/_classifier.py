# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""A classifier of vertices in the style of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays
from ._graph import Graph
from ._library import OPTIONS
from ._train import train


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
                f"NodeClassifier() got an unexpected keyword argument '{unknown[0]}'; expected keywords of " "train()"
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
        return {"model": self.model, **self._options}

    def set_params(self, **params: Any) -> NodeClassifier:
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
        """X: a Graph with classes; or features (N, F), with y (N,) of any classes and edge_index as for Graph.

        Without train, all vertices train that are neither in valid nor in test. keywords are those of Graph.
        """
        return self._fit(X, y, edge_index, train, valid, test, keywords)

    def _fit(self, X, y, edge_index, train_set, valid, test, keywords):
        if isinstance(X, Graph):
            if not X.has_classes:
                raise ValueError("X: found a graph with numbers to predict, expected classes")
            self.classes_ = np.arange(X.n_outputs)
            graph = X
        else:
            if y is None or edge_index is None:
                raise ValueError("fit: found features without y or edge_index, expected both, or a Graph")
            self.classes_, labels = np.unique(np.asarray(y), return_inverse=True)
            if train_set is None:
                free = np.ones(len(labels), bool)
                for part, name in ((valid, "valid"), (test, "test")):
                    free[_arrays.members(part, name, len(labels))] = False
                train_set = free
            graph = Graph(edge_index, X, labels, train_set, valid, test, n_classes=len(self.classes_), **keywords)
        self.n_features_in_ = graph.n_features
        self.run_ = train(graph, self.model, **self._options)
        return self

    def _logits(self, graph):
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"found a {type(graph).__name__}, expected a Graph, or None: the graph of fit")
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
