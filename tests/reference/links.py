#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write links.json beside this file: losses and gradients of steps on links, by PyTorch's automatic differentiation in
double. Needs torch and numpy; the tests do not. The random numbers of a step are drawn here once more, by Philox
4x32-10 as support/random.h has it.

Models have two layers and all in-neighbours. A step leaves out its links and their reverses: a mean is over the edges
that are left; in sums of gin and gcn these edges keep their weights, which are of the whole graph. Links are pairs
with the decoders dot, distmult (with one relation) and mlp, or triples with distmult and mlp, and sage. The in-edges of
triples are of all relations; a step leaves out all edges between its ends."""
import json
import os

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

N, F, H, RELATIONS = 40, 5, 6, 3
BATCH, NEGATIVES, SEED = 24, 3, 77
PERMUTATION, FOR_NEGATIVES = 2, 10
MASK = 0xFFFFFFFF
GIN, GCN = ("eps", "w1", "b1", "w2", "b2"), ("w", "bias")


def philox(key, counter):
    key, counter = list(key), list(counter)
    for i in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & MASK, (a >> 32) ^ counter[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter


def random4(purpose, step, vertex, draw):
    return philox((SEED & MASK, SEED >> 32), (vertex, draw, step & MASK, step >> 32 | purpose << 24))


def order(epoch, n):
    def key(link):
        r = random4(PERMUTATION, epoch, link, 0)
        return r[0] << 32 | r[1], link
    return sorted(range(n), key=key)


def pairs_of(links, epoch, link):
    """The pairs whose scores are compared: the link, then its negatives. The last half of a triple's negatives (rounded
    down) replaces the head. A link without a relation first may turn, and then all replace the second end."""
    head, tail = links[link][0], links[link][-1]
    typed = len(links[link]) == 3
    if not typed and random4(FOR_NEGATIVES, epoch, link, 0)[0] & 1:
        head, tail = tail, head
    pairs = [(head, tail)]
    for j in range(NEGATIVES):
        other = random4(FOR_NEGATIVES, epoch, link, 1 + j // 4)[j % 4] * N >> 32
        pairs.append((other, tail) if typed and j >= NEGATIVES - NEGATIVES // 2 else (head, other))
    return pairs


def in_edges(links, some):
    """Sources and destinations of the edges that the step may sample."""
    excluded = {frozenset((links[i][0], links[i][-1])) for i in some}
    kept = [(link[0], link[-1]) for link in links if frozenset((link[0], link[-1])) not in excluded]
    return torch.tensor(kept + [(v, u) for u, v in kept]).T


def outputs_of_sums(p, x, edges, degree):
    """gin, or gcn if it has two arrays a layer. degree: in-edges of the whole graph."""
    is_gin = "0.eps" in p
    f = torch.ones(N) if is_gin else (degree + 1) ** -0.5

    def layer(i, h):
        q = [p[f"{i}.{k}"] for k in (GIN if is_gin else GCN)]
        s = f[:, None] ** 2 * h + torch.zeros_like(h).index_add(0, edges[1], (f[edges[0]] * f[edges[1]])[:, None]
                                                               * h[edges[0]])
        if not is_gin:
            return s @ q[0] + q[1]
        return ((s + q[0] * h) @ q[1] + q[2]).relu() @ q[3] + q[4]

    return layer(1, layer(0, x).relu())


def outputs(p, x, edges, degree):
    if "0.w" in p or "0.eps" in p:
        return outputs_of_sums(p, x, edges, degree)

    def mean(h):
        n = torch.zeros(N).index_add(0, edges[1], torch.ones(edges.shape[1]))
        return torch.zeros(N, h.shape[1]).index_add(0, edges[1], h[edges[0]]) / n.clamp(min=1)[:, None]

    h = (x @ p["0.w_self"] + mean(x) @ p["0.w_neigh"] + p["0.bias"]).relu()
    return h @ p["1.w_self"] + mean(h) @ p["1.w_neigh"] + p["1.bias"]


def decode(decoder, p, product, relations):
    """Scores of products [links][pairs][H]."""
    if decoder == "dot":
        return product.sum(-1)
    if decoder == "distmult":
        return (product * p["decoder.0"][relations][:, None]).sum(-1)
    w, b, v, c = (p[f"decoder.{i}"] for i in range(4))
    return (product @ w + b).relu() @ v + c


def loss_of(p, x, links, epoch, some, kind, decoder):
    degree = torch.bincount(in_edges(links, [])[1], minlength=N)
    z = outputs(p, x, in_edges(links, some), degree)
    pairs = torch.tensor([pairs_of(links, epoch, i) for i in some])
    relations = torch.tensor([links[i][1] if len(links[i]) == 3 else 0 for i in some])
    s = decode(decoder, p, z[pairs[..., 0]] * z[pairs[..., 1]], relations)
    if kind == "softmax":
        return cross_entropy(s, torch.zeros(len(some), dtype=torch.long))
    y = torch.zeros_like(s)
    y[:, 0] = 1
    return binary_cross_entropy_with_logits(s, y)


def run(x, links, kind, decoder, shared, own):
    """The losses of an epoch's steps and of one more, and the gradients of the first."""
    p = {k: torch.tensor(v, requires_grad=True) for k, v in {**shared, **own}.items()}
    per_epoch = -(-len(links) // BATCH)
    case = {"model": "gin" if "0.eps" in own else "gcn" if "0.w" in own else "sage", "loss": kind, "decoder": decoder,
            "triples": len(links[0]) == 3, "losses": [], "parameters": {k: v.T.tolist() for k, v in own.items()}}
    for step in range(per_epoch + 1):
        epoch, i = divmod(step, per_epoch)
        loss = loss_of(p, x, links, epoch, order(epoch, len(links))[i * BATCH:(i + 1) * BATCH], kind, decoder)
        case["losses"].append(loss.item())
        if step == 0:
            used = p if case["model"] == "sage" else own
            gradients = torch.autograd.grad(loss, [p[k] for k in used])
            case["gradients"] = {k: g.numpy().T.tolist() for k, g in zip(used, gradients)}
    return case


torch.set_default_dtype(torch.float64)
assert philox((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answer
rng = np.random.default_rng(5)
pairs = sorted({tuple(sorted(map(int, rng.integers(0, N - 2, 2)))) for _ in range(90)})
links = [list(pair) for pair in pairs if pair[0] != pair[1]][:60]
x = np.round(rng.normal(size=(N, F)) * 16) / 16  # floats hold it exactly
shared = {name: rng.normal(size=shape) * 0.5 for name, shape in
          (("0.w_self", (F, H)), ("0.w_neigh", (F, H)), ("0.bias", H), ("1.w_self", (H, H)), ("1.w_neigh", (H, H)),
           ("1.bias", H))}
one = {"decoder.0": rng.normal(size=(1, H)) * 0.5}
mlp = {f"decoder.{i}": rng.normal(size=shape) * 0.5 for i, shape in enumerate(((H, H), H, H, 1))}
each = {"decoder.0": rng.normal(size=(RELATIONS, H)) * 0.5}
triples = [[u, int(rng.integers(RELATIONS)), v] for u, v in links[:40]]
triples += [[v, int(rng.integers(RELATIONS)), u] for u, v in links[:6]]  # other relations between the same ends
triples += [[u, (r + 1) % RELATIONS, v] for u, r, v in triples[:6]]
gin = {f"{i}.{k}": rng.normal(size=shape) * 0.3 for i in range(2)
       for k, shape in zip(GIN, (1, (H if i else F, H), H, (H, H), H))}
gcn = {f"{i}.{k}": rng.normal(size=shape) * 0.5 for i in range(2) for k, shape in zip(GCN, ((H if i else F, H), H))}
content = {"vertices": N, "links": links, "triples": triples, "relations": RELATIONS, "features": x.tolist(),
           "hidden": H, "batch": BATCH, "negatives": NEGATIVES, "seed": SEED,
           "parameters": {k: v.T.tolist() for k, v in shared.items()}, "torch": torch.__version__, "cases": {}}
for name, some, kind, decoder, own in (
        ("binary", links, "binary", "dot", {}), ("gin", links, "binary", "dot", gin),
        ("gcn", links, "binary", "dot", gcn), ("softmax", links, "softmax", "dot", {}),
        ("distmult", links, "softmax", "distmult", one), ("mlp", links, "binary", "mlp", mlp),
        ("mlp softmax", links, "softmax", "mlp", mlp), ("triples", triples, "binary", "distmult", each),
        ("triples softmax", triples, "softmax", "distmult", each), ("triples mlp", triples, "softmax", "mlp", mlp)):
    content["cases"][name] = run(torch.tensor(x), some, kind, decoder, shared, own)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "links.json"), "w", encoding="utf-8") as f:
    json.dump(content, f, indent=0)
    f.write("\n")
