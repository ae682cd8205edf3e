#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write objectives.json beside this file: losses and gradients of PyTorch, scores of scikit-learn. Needs both; the
tests do not. Outputs are rounded to a tenth, so that rankings have ties. `null` is an unknown target."""
import json
import os

import numpy as np
import sklearn
import torch
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

N, C = 40, 5
rng = np.random.default_rng(7)
z = np.round(rng.normal(size=(N, C)) * 2, 1)
classes = rng.integers(0, C, size=N)
weights = np.array([0.5, 1.0, 2.0, 0.0, 1.25])
labels = (rng.random((N, C)) < 0.4).astype(float)
labels[:, 3] = 0    # a label that no row has
labels[0] = 1       # a row with all labels ..
labels[0, 3] = 0    # .. but the one that no row has
labels[rng.random((N, C)) < 0.15] = np.nan
numbers = np.round(rng.normal(size=(N, C)) * 2, 2)
numbers[:, 4] = 1.5  # a column of equal targets
holes = numbers.copy()
holes[rng.random((N, C)) < 0.15] = np.nan


def case(loss):
    """Loss and gradient of a function of the outputs, in double."""
    outputs = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    value = loss(outputs)
    value.backward()
    return {"loss": value.item(), "gradient": outputs.grad.tolist()}


def known(table, loss):
    mask = ~torch.isnan(torch.tensor(table))
    return lambda outputs: loss(outputs[mask], torch.tensor(table)[mask])


def positive_weights(outputs):
    target = torch.tensor(labels)
    mask = ~torch.isnan(target)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        outputs, torch.nan_to_num(target), pos_weight=torch.tensor(weights), reduction="none")
    return loss[mask].mean()


def label_scores():
    """Of the columns without unknown entries made of `labels`: nan counts as 0."""
    y = np.nan_to_num(labels)
    both = [c for c in range(C) if 0 < y[:, c].sum() < N]
    return {
        "ap": np.mean([average_precision_score(y[:, c], z[:, c]) for c in both]),
        "auc": np.mean([roc_auc_score(y[:, c], z[:, c]) for c in both]),
        "f1_micro": f1_score(y, z > 0, average="micro", zero_division=0),
        "f1": f1_score(y, z > 0, average="macro", zero_division=0),
    }


def hole_scores():
    """Column by column, over the known entries."""
    parts = [(labels[:, c][~np.isnan(labels[:, c])], z[:, c][~np.isnan(labels[:, c])]) for c in range(C)]
    both = [(y, s) for y, s in parts if 0 < y.sum() < len(y)]
    y_all, s_all = np.concatenate([y for y, _ in parts]), np.concatenate([s for _, s in parts])
    return {
        "ap": np.mean([average_precision_score(y, s) for y, s in both]),
        "auc": np.mean([roc_auc_score(y, s) for y, s in both]),
        "f1_micro": f1_score(y_all, s_all > 0, zero_division=0),
        "f1": np.mean([f1_score(y, s > 0, zero_division=0) for y, s in parts]),
    }


cross = torch.nn.functional.cross_entropy
target = torch.tensor(classes)
content = {
    "versions": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
    "outputs": z.tolist(), "classes": classes.tolist(), "weights": weights.tolist(),
    "labels": [[None if np.isnan(y) else y for y in row] for row in labels],
    "numbers": numbers.tolist(),
    "holes": [[None if np.isnan(y) else y for y in row] for row in holes],
    "losses": {
        "class": case(lambda o: cross(o, target)),
        "class weights": case(lambda o: cross(o, target, weight=torch.tensor(weights))),
        "class smooth": case(lambda o: cross(o, target, label_smoothing=0.2)),
        "class weights smooth": case(lambda o: cross(o, target, weight=torch.tensor(weights), label_smoothing=0.2)),
        "labels": case(known(labels, torch.nn.functional.binary_cross_entropy_with_logits)),
        "labels weights": case(positive_weights),
        "squared": case(known(holes, torch.nn.functional.mse_loss)),
        "absolute": case(known(holes, torch.nn.functional.l1_loss)),
    },
    "scores": {
        "labels": label_scores(),
        "labels with holes": hole_scores(),
        "numbers": {"mse": mean_squared_error(numbers, z), "mae": mean_absolute_error(numbers, z),
                    "r2": r2_score(numbers, z)},
    },
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "objectives.json"), "w", encoding="utf-8") as f:
    json.dump(content, f, indent=0)
    f.write("\n")
