#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write gatv2_*.json, gat3_elu.json and edges_gat.json beside this file: PyTorch Geometric's GATv2Conv and GATConv on the
graph of gat2.json, some with dense layers behind, one with features of edges, and PyTorch's figures in double. Needs torch
and torch-geometric; the tests do not. edges_gat.json has a further case, `added`: messages are u + f W_edge, as in DGL's EdgeGATConv.

GATv2Conv has an output bias beside those of its two products. It is one too many: z and the scores have two biases in
all. It stays at zero, as Starling writes it."""
import json
import os

import torch
from torch.nn import functional
from torch.nn.functional import cross_entropy, layer_norm
from torch_geometric.nn import GATConv, GATv2Conv

LR, DECAY = 0.05, 0.01
NAMES = {
    "gat": {"w": "lin.weight", "attn_src": "att_src", "attn_dst": "att_dst", "bias": "bias", "w_skip": "res.weight",
            "w_edge": "lin_edge.weight", "attn_edge": "att_edge"},
    "gatv2": {"w_l": "lin_l.weight", "b_l": "lin_l.bias", "w_r": "lin_r.weight", "b_r": "lin_r.bias", "attn": "att",
              "w_skip": "res.weight"},
}


def with_messages(conv, h, edges, features):
    """GATConv with features of edges in its messages, too. The own term has none."""
    source, target = edges[:, edges[0] != edges[1]]
    y = conv.lin_edge(features[edges[0] != edges[1]]).unflatten(1, (conv.heads, -1))
    y = torch.cat([y, torch.zeros(len(h), *y.shape[1:])])
    source, target = (torch.cat([ids, torch.arange(len(h))]) for ids in (source, target))
    u = conv.lin(h).unflatten(1, y.shape[1:])
    x = (u * conv.att_src).sum(-1)[source] + (u * conv.att_dst).sum(-1)[target] + (y * conv.att_edge).sum(-1)
    e = functional.leaky_relu(x, 0.2).exp()
    a = e / torch.zeros(len(h), conv.heads).index_add(0, target, e)[target]
    z = torch.zeros_like(u).index_add(0, target, a[..., None] * (u[source] + y)).flatten(1)
    return z + conv.res(h) + conv.bias


def run(model, widths, heads, skip, norm, activation, n_dense, features, x, edges, labels, train, added=False):
    torch.manual_seed(4)
    convs, p = [], {}
    last, names = len(widths) - 2, []
    for i, (n_in, n_out) in enumerate(zip(widths, widths[1:])):
        names.append(str(i) if i <= last - n_dense else f"out.{i - len(convs)}")
        if i <= last - n_dense:
            n_heads = heads if i < last else 1
            Conv = GATConv if model == "gat" else GATv2Conv
            convs.append(Conv(n_in, n_out // n_heads, heads=n_heads, residual=skip, fill_value=0.0,
                              edge_dim=None if features is None else features.shape[1]))
            state = dict(convs[-1].named_parameters())
            for ours, theirs in NAMES[model].items():
                if theirs in state:
                    p[f"{i}.{ours}"] = state[theirs]
                    torch.nn.init.normal_(state[theirs], std=0.6)
        else:
            p[f"{names[i]}.w"] = torch.nn.Parameter(0.6 * torch.randn(n_out, n_in))
            p[f"{names[i]}.bias"] = torch.nn.Parameter(0.6 * torch.randn(n_out))
        if norm and i < last:
            p[f"{names[i]}.norm_weight"] = torch.nn.Parameter(1 + 0.3 * torch.randn(n_out))
            p[f"{names[i]}.norm_bias"] = torch.nn.Parameter(0.3 * torch.randn(n_out))

    def listed(values):
        return {k: (v.detach()[0] if "attn" in k else v.detach()).tolist() for k, v in values.items()}

    def logits():
        h = x
        for i, name in enumerate(names):
            if added:
                h = with_messages(convs[i], h, edges, features)
            else:
                h = convs[i](h, edges, features) if i < len(convs) else h @ p[f"{name}.w"].T + p[f"{name}.bias"]
            if norm and i < last:
                h = layer_norm(h, h.shape[1:], p[f"{name}.norm_weight"], p[f"{name}.norm_bias"])
            h = getattr(functional, activation)(h) if i < last else h
        return h

    case = {"parameters": listed(p), "losses": []}
    adam = torch.optim.Adam(p.values(), lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=DECAY)
    for step in range(3):
        z = logits()
        loss = cross_entropy(z[train], labels[train])
        adam.zero_grad()
        loss.backward()
        if step == 0:
            assert all(v.grad.abs().max() > 1e-6 for v in p.values()), "a gradient vanishes: take another seed"
            case.update(logits=z.tolist(), gradients=listed({k: v.grad for k, v in p.items()}))
        case["losses"].append(loss.item())
        adam.step()
        if step == 0:
            after = listed(p)
    case["adam"] = {"lr": LR, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay_l2": DECAY,
                    "after_1_step": after, "after_3_steps": listed(p)}
    return case


torch.set_default_dtype(torch.float64)
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "gat2.json"), encoding="utf-8") as f:
    graph = json.load(f)
shared = {k: graph[k] for k in ("vertices", "edges_src_dst", "features", "labels", "train")}
data = (torch.tensor(graph["features"]), torch.tensor(graph["edges_src_dst"]).T, torch.tensor(graph["labels"]),
        torch.tensor(graph["train"]))
edge_features = torch.randn(len(graph["edges_src_dst"]), 3, generator=torch.Generator().manual_seed(9)).float().double()
for name, model, widths, heads, skip, norm, activation, n_dense in [
        ("gatv2_2", "gatv2", [5, 8, 8, 8, 3], 2, False, False, "relu", 2),
        ("gatv2_3_skip", "gatv2", [5, 12, 12, 3], 3, True, True, "relu", 0),
        ("gat3_elu", "gat", [5, 8, 8, 8, 3], 2, True, True, "elu", 1),
        ("gatv2_3_gelu", "gatv2", [5, 8, 8, 3], 2, False, False, "gelu", 0),
        ("edges_gat", "gat", [5, 8, 3], 2, True, False, "leaky_relu", 0)]:
    features = edge_features if name == "edges_gat" else None
    options = {"widths": widths[:len(widths) - n_dense], "heads": heads, **({"output_layers": n_dense} if n_dense else {}), **({"skip": True} if skip else {}),
               **({"norm": "layer"} if norm else {}), **({"activation": activation} if activation != "relu" else {})}
    content = {"model": model, **shared, "options": options, **run(model, widths, heads, skip, norm, activation, n_dense, features,
                                                                      *data)}
    if features is not None:
        content["edge_features"] = features.tolist()
        content["added"] = {"options": {**options, "edge_features": "add"},
                            **run(model, widths, heads, skip, norm, activation, n_dense, features, *data, True)}
    with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as f:
        json.dump(content, f, indent=0)
        f.write("\n")
