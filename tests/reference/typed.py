#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write typed_*.json, weighted_typed_*.json and edges_*.json beside this file: rgcn, rgcn with bases and rgat on a small
graph with relations, some with dense layers behind (DENSE), sage, rgcn and rgat with features of edges, and PyTorch's
figures in double. A file may have a further case, with members in place of the file's (PARTS). Needs torch;
the tests do not.

The layers are checked against PyTorch Geometric's RGCNConv and GATConv, if they are installed. With weights of edges,
rgcn divides the weighted sum by the number of in-neighbours of the relation, and rgat multiplies after the softmax, as
DGL's GATConv with edge_weight. A fifth of the weights is 0, and so are all of one vertex."""
import json
import os
import random

import torch
from torch.nn.functional import cross_entropy, leaky_relu

N, WIDTHS, RELATIONS, BASES, HEADS, EDGE = 24, (5, 8, 3), 4, 2, 2, 3
LR, DECAY = 0.05, 0.01
DENSE = {"typed_bases": 2, "typed_rgat_single": 1}  # by case, their number
# By part its seed; with some others, a gradient is a difference of large numbers. added: a message is the row plus the
# features of the edge times the encoder's matrix or, in rgat, the projected row plus the projected features.
PARTS = {"weighted_typed_rgat": {"edges": 6, "added": 6}, "edges_rgcn": {"added": 3}, "edges_sage": {"added": 3}}


def make_edges(r):
    """Each vertex has up to 3 in-edges of a relation; a fifth of the vertices has none. Some edges are self loops."""
    edges = {(r.randrange(N), v, k) for v in range(N) if v % 5 for k in range(RELATIONS) for _ in range(r.randrange(4))}
    return sorted(edges | {(7, 7, 1), (8, 8, 0)})


def make_weights(r, edges):
    weights = [0 if v == 7 else r.choice((0, 0.25, 0.5, 1, r.random() * 4)) for _, v, _ in edges]
    return torch.tensor(weights, dtype=torch.float32).double()


def mean(y, source, target, weights):
    ones = torch.zeros(N).index_add(0, target, torch.ones(len(target)))
    terms = weights[:, None] * y[source]
    return torch.zeros(N, y.shape[1]).index_add(0, target, terms) / ones.clamp(min=1)[:, None]


def attention(u, a_source, a_target, scores, added, source, target, weights):
    """u: [N, heads, width]; a softmax over each target's edges. scores: of the edges' features; added: to messages."""
    x = leaky_relu((u * a_source).sum(-1)[source] + (u * a_target).sum(-1)[target] + scores, 0.2)
    e = (x - x.max()).exp()
    total = torch.zeros(N, u.shape[1]).index_add(0, target, e)
    a = weights[:, None] * e / total[target]
    return torch.zeros_like(u).index_add(0, target, a[..., None] * (u[source] + added)).flatten(1)


def layer(model, p, i, h, edges, weights, features=None, added=False):
    z = h @ p[f"{i}.w_self"] + p[f"{i}.bias"]
    if model == "bases":
        w = torch.einsum("rb,bio->rio", p[f"{i}.components"], p[f"{i}.bases"])
    else:
        w = p[f"{i}.w_relations" if model == "rgat" else f"{i}.w_neigh"]
    for k in range(RELATIONS):
        own = edges[:, 2] == k
        source, target = edges[own, :2].T
        if model == "rgat":
            a_source, a_target = p[f"{i}.attn_src"][k], p[f"{i}.attn_dst"][k]
            y = scores = torch.zeros(())
            if features is not None:
                y = (features[own] @ p[f"{i}.w_edge"][k]).unflatten(1, (a_source.shape[0], -1))
                scores = (y * p[f"{i}.attn_edge"][k]).sum(-1)
            z = z + attention((h @ w[k]).unflatten(1, (a_source.shape[0], -1)), a_source, a_target, scores,
                              y if added else 0, source, target, weights[own])
        elif f"{i}.encoder" in p:
            z = z + mean((h[source] + features[own] @ p[f"{i}.encoder"][k]) @ w[k], torch.arange(len(target)), target,
                         weights[own])
        elif features is not None:  # a message is [ row | features of the edge ]
            z = z + mean(torch.cat([h[source], features[own]], 1) @ torch.cat([w[k], p[f"{i}.w_edge"][k]]),
                         torch.arange(len(target)), target, weights[own])
        else:
            z = z + mean(h @ w[k], source, target, weights[own])
    return z


def parameters_of(model, g, featured, added, n_dense):
    p = {}
    last = WIDTHS[1] if n_dense else WIDTHS[2]
    for i, (n_in, n_out) in enumerate(((WIDTHS[0], WIDTHS[1]), (WIDTHS[1], last))):
        heads = HEADS if i == 0 or n_dense else 1
        shapes = {"w_self": (n_in, n_out), "bias": (n_out,)}
        if model == "rgcn":
            shapes["w_neigh"] = (RELATIONS, n_in, n_out)
            if featured:
                shapes["encoder" if added else "w_edge"] = (RELATIONS, EDGE, n_in if added else n_out)
        elif model == "bases":
            shapes.update(bases=(BASES, n_in, n_out), components=(RELATIONS, BASES))
        else:
            shapes["w_relations"] = (RELATIONS, n_in, n_out)
            shapes["attn_src"] = shapes["attn_dst"] = (RELATIONS, heads, n_out // heads)
            if featured:
                shapes.update(w_edge=(RELATIONS, EDGE, n_out), attn_edge=shapes["attn_src"])
        p.update({f"{i}.{k}": (torch.randn(s, generator=g) * 0.6).requires_grad_() for k, s in shapes.items()})
    for k in range(n_dense):
        n_out = WIDTHS[1] if k < n_dense - 1 else WIDTHS[2]
        for name, shape in (("w", (WIDTHS[1], n_out)), ("bias", (n_out,))):
            p[f"out.{k}.{name}"] = (torch.randn(shape, generator=g) * 0.6).requires_grad_()
    return p


def listed(tensors):
    """In the files a matrix is [out][in]; stacks of matrices and of vectors are as here. sage has no stacks."""
    if RELATIONS == 1:
        tensors = {k: v[0] if k[2:] in ("w_neigh", "w_edge", "encoder") else v for k, v in tensors.items()}
    return {k: (v.detach().T if v.dim() == 2 else v.detach()).tolist() for k, v in tensors.items()}


def check_layer(model, p, h, edges, features):
    try:
        from torch_geometric.nn import GATConv, RGCNConv
    except ImportError:
        return
    where, kinds = edges[:, :2].T, edges[:, 2]
    if model != "rgat":
        conv = RGCNConv(WIDTHS[0], WIDTHS[1], RELATIONS, num_bases=BASES if model == "bases" else None)
        state = {"root": p["0.w_self"], "bias": p["0.bias"], "weight": p["0.bases" if model == "bases" else "0.w_neigh"]}
        if model == "bases":
            state["comp"] = p["0.components"]
        conv.load_state_dict(state)
        z = conv(h, where, kinds)
    else:
        z = h @ p["0.w_self"] + p["0.bias"]
        for k in range(RELATIONS):
            own = kinds == k
            conv = GATConv(WIDTHS[0], WIDTHS[1] // HEADS, heads=HEADS, add_self_loops=False, bias=False,
                           edge_dim=None if features is None else EDGE, fill_value=0.0)
            state = {"lin.weight": p["0.w_relations"][k].T, "att_src": p["0.attn_src"][k:k + 1],
                     "att_dst": p["0.attn_dst"][k:k + 1]}
            if features is not None:
                state.update({"lin_edge.weight": p["0.w_edge"][k].T, "att_edge": p["0.attn_edge"][k:k + 1]})
            conv.load_state_dict(state)
            z = z + conv(h, where[:, own], None if features is None else features[own])
    assert torch.allclose(z, layer(model, p, 0, h, edges, torch.ones(len(edges)), features), atol=1e-12)


def run(model, x, labels, train, edges, weights, features, n_dense, seed=3, added=False):
    p = parameters_of(model, torch.Generator().manual_seed(seed), features is not None, added, n_dense)
    case = {"parameters": listed(p), "losses": []}
    adam = torch.optim.Adam(p.values(), lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=DECAY)
    after = {}
    if features is None or model == "rgat":
        check_layer(model, p, x, edges, features)
    for step in range(3):
        z = layer(model, p, 0, x, edges, weights, features, added).relu()
        z = layer(model, p, 1, z, edges, weights, features, added)
        for k in range(n_dense):
            z = z.relu() @ p[f"out.{k}.w"] + p[f"out.{k}.bias"]
        loss = cross_entropy(z[train], labels[train])
        adam.zero_grad()
        loss.backward()
        if step == 0:
            case.update(logits=z.tolist(), gradients=listed({k: v.grad for k, v in p.items()}))
        case["losses"].append(loss.item())
        adam.step()
        after[step + 1] = listed(p)
    case["adam"] = {"lr": LR, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay_l2": DECAY,
                    "after_1_step": after[1], "after_3_steps": after[3]}
    return case


torch.set_default_dtype(torch.float64)
r = random.Random(11)
edges = make_edges(r)
x = torch.randn(N, WIDTHS[0], generator=torch.Generator().manual_seed(2))
labels = [r.randrange(WIDTHS[-1]) for _ in range(N)]
train = sorted(r.sample(range(N), 14))
ones, some = torch.ones(len(edges)), make_weights(random.Random(5), edges)
features = all_features = torch.randn(len(edges), EDGE, generator=torch.Generator().manual_seed(4)).float().double()
# Graphs with one relation, last: the layers read RELATIONS.
cases = [("typed_" + model, model, edges, ones, None) for model in ("rgcn", "bases", "rgat")]
cases += [("weighted_typed_" + model, model, edges, some, None) for model in ("rgcn", "bases", "rgat")]
cases += [("edges_rgcn", "rgcn", edges, some, features), ("typed_rgat_single", "rgat", None, ones, None),
          ("edges_sage", "rgcn", None, ones, features)]
for name, model, kept, weights, features in cases:
    if kept is None:
        RELATIONS, kept = 1, [(u, v, 0) for u, v, k in edges if k == 0]
        weights, features = weights[:len(kept)], None if features is None else features[:len(kept)]
    options = {"widths": WIDTHS, "heads": HEADS} if model == "rgat" else {"widths": WIDTHS}
    if model == "bases":
        options["bases"] = BASES
    if name in DENSE:
        options["output_layers"] = DENSE[name]
    content = {"model": "rgat" if model == "rgat" else "rgcn", "vertices": N, "relations": RELATIONS,
               "edges_src_dst": [e[:2] for e in kept], "edge_relations": [e[2] for e in kept], "features": x.tolist(),
               "labels": labels, "train": train, "options": options,
               **run(model, x, torch.tensor(labels), torch.tensor(train), torch.tensor(kept), weights, features,
                     DENSE.get(name, 0))}
    for part_name, seed in PARTS.get(name, {}).items():
        added = part_name == "added"
        of = all_features if features is None else features
        part = run(model, x, torch.tensor(labels), torch.tensor(train), torch.tensor(kept), weights, of, 0, seed, added)
        if added:
            part["options"] = {**options, "edge_features": "add"}
        content[part_name] = {"edge_features": of.tolist(), **part}
    if weights is some:
        content["edge_weights"] = weights.tolist()
    if features is not None:
        content["edge_features"] = features.tolist()
    if name == "edges_sage":
        content["model"] = "sage"
        del content["edge_relations"]
    name = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".json")
    with open(name, "w", encoding="utf-8") as f:
        json.dump(content, f, indent=0)
        f.write("\n")
