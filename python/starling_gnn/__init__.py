# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Starling trains graph neural networks on one large graph, on CPUs and GPUs.

import starling_gnn as sl

graph = sl.Graph(edge_index, x, y, train=train_mask, valid=valid_mask, test=test_mask)
run = sl.train(graph, model="sage", layers=2, hidden=64, epochs=50, lr=0.01)
print(run.test_acc)
logits = run.predict()
torch_model.load_state_dict(run.state_dict("pyg", tensors="torch"))
run.save("model.safetensors")
sl.load_model("model.safetensors").predict(sl.Graph(other_edge_index, other_x))
"""

import importlib
from typing import TYPE_CHECKING

from ._graph import Graph, NeighborLoader, load
from ._library import (
    BadFileError,
    DeviceError,
    InputOutputError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    NumericError,
    OutOfMemoryError,
    StarlingError,
    StarlingWarning,
)
from ._library import version as __version__
from ._model import Model, Run, evaluate, load_model, options, train
from ._session import close
from ._tools import Record, need

if TYPE_CHECKING:
    from ._classifier import NodeClassifier as NodeClassifier
else:

    def __getattr__(name):
        """NodeClassifier, which needs scikit-learn and is no part of `import *`."""
        if name != "NodeClassifier":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        need("sklearn", "scikit-learn", "python3-sklearn")
        return importlib.import_module("._classifier", __name__).NodeClassifier


__all__ = ["Graph", "Model", "NeighborLoader", "Record", "Run"]
__all__ += ["close", "evaluate", "load", "load_model", "options", "train"]
__all__ += ["BadFileError", "DeviceError", "InputOutputError", "InvalidArgumentError", "NotFoundError"]
__all__ += ["NotSupportedError", "NumericError", "OutOfMemoryError", "StarlingError", "StarlingWarning"]
