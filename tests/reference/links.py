#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write links.json beside this file: losses and gradients of steps on links, by numpy in double. Needs numpy; the
tests do not. All random numbers are drawn here once more, by Philox 4x32-10 as support/random.h has it.

The model is sage with two layers and all in-neighbours. A step leaves out its links and their reverses. The decoders
are dot, distmult with one relation, and mlp. The gradients are written out by hand, and compared with central
differences below."""
import json
import os

import numpy as np

N, F, H = 40, 5, 6
BATCH, NEGATIVES, SEED, N_STEPS = 24, 3, 77, 3
PERMUTATION, FOR_NEGATIVES = 2, 10
MASK = 0xFFFFFFFF


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


def rows_of(links, epoch, link):
    """First end, second end, negatives."""
    u, v = links[link]
    if random4(FOR_NEGATIVES, epoch, link, 0)[0] & 1:
        u, v = v, u
    drawn = [random4(FOR_NEGATIVES, epoch, link, 1 + j // 4)[j % 4] * N >> 32 for j in range(NEGATIVES)]
    return [u, v] + drawn


def mean_matrix(links, excluded):
    a = np.zeros((N, N))
    for u, v in links:
        for source, destination in ((u, v), (v, u)):
            if (source, destination) not in excluded:
                a[destination, source] = 1
    return a / np.maximum(a.sum(1, keepdims=True), 1)


def decode(decoder, p, product):
    """Scores of products [.., H], and a function from slopes to the gradients of products and parameters."""
    if decoder == "dot":
        return product.sum(-1), lambda slope: (slope[..., None] * np.ones(H), {})
    if decoder == "distmult":
        r = p["decoder.0"][0]
        return product @ r, lambda slope: (slope[..., None] * r, {
            "decoder.0": np.einsum("lj,ljc->c", slope, product)[None]})
    w, b, v, c = (p[f"decoder.{i}"] for i in range(4))
    t = np.maximum(product @ w + b, 0)

    def back(slope):
        gt = slope[..., None] * v * (t > 0)
        return gt @ w.T, {"decoder.0": np.einsum("lja,ljb->ab", product, gt), "decoder.1": gt.sum((0, 1)),
                          "decoder.2": np.einsum("lj,ljc->c", slope, t), "decoder.3": slope.sum()[None]}
    return t @ v + c[0], back


def run(parameters, x, links, epoch, some, kind, decoder):
    """Loss and gradients of a step on some links."""
    ends = np.array([rows_of(links, epoch, link) for link in some])
    excluded = {e for link in some for e in (tuple(links[link]), tuple(links[link][::-1]))}
    a = mean_matrix(links, excluded)
    p = parameters
    z1 = x @ p["0.self"] + a @ x @ p["0.neigh"] + p["0.bias"]
    h = np.maximum(z1, 0)
    z = h @ p["1.self"] + a @ h @ p["1.neigh"] + p["1.bias"]
    first, others = z[ends[:, 0]], z[ends[:, 1:]]
    s, back = decode(decoder, p, first[:, None, :] * others)
    y = np.zeros_like(s)
    y[:, 0] = 1
    if kind == "binary":
        scale = 1 / s.size
        loss = scale * (np.logaddexp(0, s) - y * s).sum()
        slope = scale * (1 / (1 + np.exp(-s)) - y)
    else:
        scale = 1 / len(s)
        top = s.max(1, keepdims=True)
        e = np.exp(s - top)
        loss = scale * (np.log(e.sum(1)) + top[:, 0] - s[:, 0]).sum()
        slope = scale * (e / e.sum(1, keepdims=True) - y)
    gz = np.zeros_like(z)
    slopes, own = back(slope)
    np.add.at(gz, ends[:, 0], np.einsum("ljc,ljc->lc", slopes, others))
    np.add.at(gz, ends[:, 1:], slopes * first[:, None, :])
    gh = gz @ p["1.self"].T + a.T @ gz @ p["1.neigh"].T
    gz1 = gh * (z1 > 0)
    gradients = {"1.self": h.T @ gz, "1.neigh": (a @ h).T @ gz, "1.bias": gz.sum(0), "0.self": x.T @ gz1,
                 "0.neigh": (a @ x).T @ gz1, "0.bias": gz1.sum(0), **own}
    return loss, gradients


def check(parameters, *others):
    gradients = run(parameters, *others)[1]
    for name, value in ((name, parameters[name]) for name in gradients):
        flat = value.reshape(-1)
        for i in range(0, flat.size, 7):
            middle = flat[i]
            flat[i] = middle + 1e-6
            above = run(parameters, *others)[0]
            flat[i] = middle - 1e-6
            below = run(parameters, *others)[0]
            flat[i] = middle
            assert abs((above - below) / 2e-6 - gradients[name].reshape(-1)[i]) < 1e-8, name


rng = np.random.default_rng(5)
pairs = sorted({tuple(sorted(map(int, rng.integers(0, N - 2, 2)))) for _ in range(90)})
links = [list(pair) for pair in pairs if pair[0] != pair[1]][:60]
x = np.round(rng.normal(size=(N, F)) * 16) / 16  # floats hold it exactly
parameters = {name: rng.normal(size=shape) * 0.5 for name, shape in
              (("0.self", (F, H)), ("0.neigh", (F, H)), ("0.bias", H), ("1.self", (H, H)), ("1.neigh", (H, H)),
               ("1.bias", H))}
decoders = {"dot": {}, "distmult": {"decoder.0": rng.normal(size=(1, H)) * 0.5},
            "mlp": {f"decoder.{i}": rng.normal(size=shape) * 0.5 for i, shape in enumerate(((H, H), H, H, 1))}}
content = {"vertices": N, "links": links, "features": x.tolist(), "hidden": H, "batch": BATCH, "negatives": NEGATIVES,
           "seed": SEED, "parameters": {k: v.tolist() for k, v in parameters.items()}, "cases": {}}
assert philox((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answer
per_epoch = -(-len(links) // BATCH)
for case, kind, decoder in (("binary", "binary", "dot"), ("softmax", "softmax", "dot"),
                            ("distmult", "softmax", "distmult"), ("mlp", "binary", "mlp")):
    all_parameters = {**parameters, **decoders[decoder]}
    losses = []
    for step in range(per_epoch + 1):  # the last one is of the next epoch
        epoch, i = divmod(step, per_epoch)
        some = order(epoch, len(links))[i * BATCH:(i + 1) * BATCH]
        loss, gradients = run(all_parameters, x, links, epoch, some, kind, decoder)
        check(all_parameters, x, links, epoch, some, kind, decoder)
        losses.append(float(loss))
        if step == 0:
            first = gradients
    content["cases"][case] = {"loss": kind, "decoder": decoder, "losses": losses,
                              "parameters": {k: v.tolist() for k, v in decoders[decoder].items()},
                              "gradients": {k: v.tolist() for k, v in first.items()}}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "links.json"), "w", encoding="utf-8") as f:
    json.dump(content, f, indent=0)
    f.write("\n")
