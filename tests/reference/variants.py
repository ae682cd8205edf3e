#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write weighted_*.json beside this file: the cases of the same name with weights of the edges, some with dense layers
behind (DENSE), and schedule_*.json, with schedules of the learning rate, and PyTorch's figures in double. Needs torch;
the tests do not. The models are those of bf16.py: sage divides the weighted sum by the number of in-neighbours (DGL's
SAGEConv with edge_weight), gcn, gcnii and resgcn have PyG's gcn_norm with edge_weight and self loops of weight 1, gin
has the weighted sum.

A fifth of the weights is 0. All in-edges of the vertex with the most of them have weight 0.
"""
import collections
import json
import os
import random

import bf16
import torch

NAMES = ("sage2", "sage3_layernorm_residual", "gcn3", "gcnii6", "resgcn6", "gin2", "gin3_layernorm_residual",
         "pipe_sage_w1", "pipe_gcn_w1", "pipe_gcn_w2", "pipe_gcnii_w2", "pipe_resgcn_w2", "pipe_gin_w2")


def weigh(case):
    r = random.Random(case["model"])
    edges = case["edges_src_dst"]
    (busy, _), = collections.Counter(v for _, v in edges).most_common(1)
    weights = [r.choice((0, 0.25, 0.5, 1, r.random() * 4)) for _ in edges]
    weights = torch.tensor([0 if v == busy else w for w, (_, v) in zip(weights, edges)], dtype=torch.float32)
    return {**case, "edge_weights": weights.double().tolist()}


# By case, the number of dense layers behind.
DENSE = {"sage3_layernorm_residual": 2, "gcn3": 1, "gin2": 3, "pipe_sage_w1": 2, "pipe_gcn_w1": 3, "pipe_gin_w2": 1}


def shaped(tensor):
    return (len(tensor), *shaped(tensor[0])) if isinstance(tensor, list) else ()


def drawn(g, *shape):
    return (torch.randn(shape, generator=g) * 0.6).double().tolist()


def deepen(case, n):
    """The last layer is as wide as the others, and n dense layers follow."""
    g = torch.Generator().manual_seed(n)
    options, p = case["options"], dict(case["parameters"])
    hidden, classes = len(p["0.bias" if "0.bias" in p else "0.b1"]), 1 + max(case["labels"])
    graph = max(int(k.split(".")[0]) for k in p)
    for k in [k for k in p if k.startswith(f"{graph}.")]:
        p[k] = drawn(g, *(hidden if d == classes else d for d in shaped(p[k])))
    for i in range(n):
        p[f"out.{i}.w"] = drawn(g, hidden if i < n - 1 else classes, hidden)
        p[f"out.{i}.bias"] = drawn(g, len(p[f"out.{i}.w"]))
    for i in [graph, *(f"out.{k}" for k in range(n - 1))] if options.get("norm") else []:
        p[f"{i}.norm_weight"], p[f"{i}.norm_bias"] = drawn(g, hidden), drawn(g, hidden)
    return {**case, "options": {**options, "output_layers": n}, "parameters": p}


SCHEDULES = {
    "sage2": {"optimizer": "adamw", "lr-warmup": "3", "lr-schedule": "step:2:0.5", "epochs": "3"},
}


def schedule(case, name):
    return {**case, "options": {**case["options"], **SCHEDULES[name]}, "adam": {**case["adam"], "weight_decay_l2": 0.1}}


made = {f"weighted_{name}": name for name in NAMES} | {f"schedule_{name}": name for name in SCHEDULES}
for wanted, name in made.items():
    with open(os.path.join(bf16.HERE, name + ".json"), encoding="utf-8") as f:
        old = json.load(f)
    new = schedule(old, name) if wanted.startswith("schedule") else weigh(old)
    if name in DENSE and wanted.startswith("weighted"):
        new = deepen(new, DENSE[name])
    figures = bf16.run(new, True)
    if "epochs" in old:
        made_last = len(old["epochs"]) % old["options"]["history_every"] == 0
        new.update(epochs=figures["epochs"], parameters_after=figures["parameters_after"],
                   history=figures["live" if made_last else "history"])
    else:
        new.update({k: figures[k] for k in ("logits", "losses", "gradients")})
        new["adam"] = {**new["adam"], "after_1_step": figures["after_1_step"], "after_3_steps": figures["after_3_steps"]}
    with open(os.path.join(bf16.HERE, wanted + ".json"), "w", encoding="utf-8") as f:
        json.dump(new, f, indent=0)
        f.write("\n")
