#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write bf16.json beside this file: the rounding errors of PyTorch's own bf16 in each case, by which the tests judge
ours. Needs torch; the tests do not.

An error is the largest difference from the figures in double, divided by the largest entry of the tensor. The error of
a loss is divided by the loss.

PyTorch runs under torch.autocast: rows and the factors of products are bf16, products are summed in float, parameters
and Adam are float. The graph is a dense matrix, so neighbour sums are products, too.

PyTorch's error in a case is the largest of DRAWS runs. In all but the first, each weight is shifted by up to a quarter
of bf16's spacing. So an entry that rounding may carry over a kink of ReLU crosses it in some of the runs.
"""
import json
import math
import os
import random
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
DRAWS = 1 if os.environ.get("SL_SMOKE") else 20
MULTIPLE = 2
KINDS = ("sage", "gcn", "gcnii", "resgcn", "gat", "gatv2", "gin")


# ---- the models; `case` is a file's content ----

class Scaled(torch.autograd.Function):
    """Rows whose gradient is multiplied."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


class Model:
    def __init__(self, case, dtype, rows_dtype):
        self.case, self.dtype, self.rows_dtype = case, dtype, rows_dtype
        n = case["vertices"]
        options = case["options"]
        self.options = options
        self.kind = case["model"]
        self.p = {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in case["parameters"].items()}
        self.x = torch.tensor(case["features"], dtype=torch.float64).to(rows_dtype)
        self.labels = torch.tensor(case["labels"])
        self.train = torch.tensor(case["train"])
        a = torch.zeros(n, n, dtype=torch.float64)
        listed = torch.zeros(n, n, dtype=torch.float64)
        for e, (u, v) in enumerate(case["edges_src_dst"]):
            a[v, u] = case["edge_weights"][e] if "edge_weights" in case else 1
            listed[v, u] = 1
        self.degree = listed.sum(1, keepdim=True).clamp(min=1)
        loops = a.clone()
        loops.fill_diagonal_(1)
        self.loops = loops > 0
        if self.kind == "sage":
            self.a = a
        elif self.kind == "gin":
            self.a = loops
        else:
            d = loops.sum(1).rsqrt()
            self.a = d[:, None] * loops * d[None, :]
        self.e = None  # the sums of the features of in-edges
        if "edge_features" in case:
            to = torch.tensor(case["edges_src_dst"])[:, 1]
            features = torch.tensor(case["edge_features"], dtype=torch.float64)
            self.e = torch.zeros(n, features.shape[1], dtype=torch.float64).index_add(0, to, features)
            self.by_pair = torch.zeros(n, n, features.shape[1], dtype=torch.float64)  # of attention: its own term has none
            for e, (u, v) in enumerate(case["edges_src_dst"]):
                self.by_pair[v, u] = features[e] if u != v else 0
        self.slot = None
        self.history = {}
        self.travelling = {}

    def part(self, mask):
        return (self.a * mask).to(self.rows_dtype)

    def sum(self, layer, h):
        """Neighbour sums: with slots, of fresh rows and of history."""
        self.travelling[layer] = h.detach()
        if self.slot is None:
            out = self.part(1) @ h
        else:
            to, of = self.slot[:, None], self.slot[None, :]
            factor = self.options["gradient_factor"]
            out = self.part(to == of) @ h + Scaled.apply(self.part(of < to) @ h, factor)
            if self.history.get(layer) is not None:
                out = out + self.part(of > to) @ self.history[layer]
        if self.kind == "sage":
            out = out / self.degree.to(out.dtype)
        return out

    def layer_norm(self, h, name):
        return torch.nn.functional.layer_norm(h.to(self.dtype), h.shape[1:], self.p[name + ".norm_weight"],
                                              self.p[name + ".norm_bias"], 1e-5).to(self.rows_dtype)

    def batch_norm(self, h, name):
        return torch.nn.functional.batch_norm(h.to(self.dtype), None, None, self.p[name + ".norm_weight"],
                                              self.p[name + ".norm_bias"], True, 0.1, 1e-5).to(self.rows_dtype)

    def norm(self, h, name):
        norms = {"layer": self.layer_norm, "batch": self.batch_norm}
        kind = self.options.get("norm")
        return norms[kind](h, name) if kind else h

    def linear(self, h, name, bias=True):
        b = self.p[name + ".bias"] if bias else None
        return torch.nn.functional.linear(h, self.p[name + ".w"], b)

    def projects(self, i, w):
        """Whether the product comes before the sum. It decides what GNNPipe keeps as history."""
        return i == 0 if "epochs" in self.case else w.shape[0] < w.shape[1]

    def n_layers(self):
        o = self.options
        return o["layers"] if "layers" in o else o["depth"] if "depth" in o else len(o["widths"]) - 1

    def is_last(self, i):
        return i == self.n_layers() - 1 and not self.options.get("output_layers")

    def logits(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.rows_dtype == torch.bfloat16):
            h = getattr(self, self.kind)()
            n = self.options.get("output_layers", 0)
            for k in range(n):
                h = self.linear(h, f"out.{k}")
                h = h if k == n - 1 else self.activation(self.norm(h, f"out.{k}"))
            return h

    def sage(self):
        h = self.x
        for i in range(self.n_layers()):
            last = self.is_last(i)
            w, name = self.p[f"{i}.w_neigh"], str(i)
            if self.projects(i, w):
                m = self.sum(i, h @ w.T)
            else:
                m = self.sum(i, h) @ w.T
            z = torch.nn.functional.linear(h, self.p[f"{i}.w_self"], self.p[f"{i}.bias"]) + m
            if self.e is not None:
                z = z + (self.e / self.degree).to(self.dtype) @ self.p[f"{i}.w_edge"].T
            if not last:
                z = torch.relu(self.norm(z, name))
                if self.options.get("residual") and z.shape == h.shape:
                    z = z + h
            h = z
        return h

    def gcn(self):
        h = self.x
        for i in range(self.n_layers()):
            w = self.p[f"{i}.w"]
            if self.projects(i, w):
                z = self.sum(i, h @ w.T) + self.p[f"{i}.bias"].to(self.rows_dtype)
            else:
                z = self.linear(self.sum(i, h), str(i))
            h = z if self.is_last(i) else torch.relu(z)
        return h

    def gin(self):
        """The sum has the vertex itself once; a self loop adds nothing."""
        h = self.x
        for i in range(self.n_layers()):
            last = self.is_last(i)
            w, b = self.p[f"{i}.w1"], self.p[f"{i}.b1"]
            epsilon = self.p[f"{i}.eps"].to(self.rows_dtype)
            if self.projects(i, w):
                y = h @ w.T
                t = self.sum(i, y) + epsilon * y + b.to(self.rows_dtype)
            else:
                t = torch.nn.functional.linear(self.sum(i, h) + epsilon * h, w, b)
            z = torch.nn.functional.linear(torch.relu(t), self.p[f"{i}.w2"], self.p[f"{i}.b2"])
            if not last:
                z = torch.relu(self.norm(z, str(i)))
                if self.options.get("residual") and z.shape == h.shape:
                    z = z + h
            h = z
        return h

    def gcnii(self):
        alpha, lam = self.options["alpha"], self.options["lam"]
        h0 = h = torch.relu(self.linear(self.x, "in"))
        for i in range(self.n_layers()):
            beta = math.log(lam / (i + 1) + 1)
            s = (1 - alpha) * self.sum(i, h) + alpha * h0
            h = torch.relu((1 - beta) * s + beta * self.linear(s, str(i), False))
        return self.linear(h, "out")

    def resgcn(self):
        h = self.linear(self.x, "in")
        for i in range(self.n_layers()):
            h = h + self.linear(self.sum(i, torch.relu(self.layer_norm(h, str(i)))), str(i))
        return self.linear(torch.relu(self.layer_norm(h, "out")), "out")

    def gat(self):
        h = self.x
        for i in range(self.n_layers()):
            last = self.is_last(i)
            heads = 1 if last else self.options["heads"]
            u = (h @ self.p[f"{i}.w"].T).view(len(h), heads, -1)
            dst = (u * self.p[f"{i}.attn_dst"].view(1, heads, -1).to(u.dtype)).sum(2)
            src = (u * self.p[f"{i}.attn_src"].view(1, heads, -1).to(u.dtype)).sum(2)
            x = dst[:, None, :] + src[None, :, :]
            if self.e is not None:
                y = self.p[f"{i}.w_edge"].T.unflatten(1, (heads, -1))
                x = x + self.by_pair.to(self.dtype) @ (y * self.p[f"{i}.attn_edge"].view(1, heads, -1)).sum(2)
            e = torch.nn.functional.leaky_relu(x, 0.2)
            e = e.to(self.dtype).masked_fill(~self.loops[:, :, None], -math.inf)
            a = torch.softmax(e, 1).to(u.dtype)
            z = torch.einsum("vuh,uhc->vhc", a, u).reshape(len(h), -1) + self.p[f"{i}.bias"].to(u.dtype)
            z = z + self.skip(h, i)
            h = z if last else self.activation(self.norm(z, str(i)))
        return h

    def activation(self, z):
        return getattr(torch.nn.functional, self.options.get("activation", "relu"))(z)

    def skip(self, h, i):
        return h @ self.p[f"{i}.w_skip"].T if self.options.get("skip") else 0

    def gatv2(self):
        h = self.x
        for i in range(self.n_layers()):
            last = self.is_last(i)
            heads = 1 if last else self.options["heads"]
            linear = torch.nn.functional.linear
            u = linear(h, self.p[f"{i}.w_l"], self.p[f"{i}.b_l"]).view(len(h), heads, -1)
            r = linear(h, self.p[f"{i}.w_r"], self.p[f"{i}.b_r"]).view(len(h), heads, -1)
            y = torch.nn.functional.leaky_relu(r[:, None] + u[None, :], 0.2)
            e = (y * self.p[f"{i}.attn"].view(1, 1, heads, -1).to(u.dtype)).sum(3)
            e = e.to(self.dtype).masked_fill(~self.loops[:, :, None], -math.inf)
            a = torch.softmax(e, 1).to(u.dtype)
            z = torch.einsum("vuh,uhc->vhc", a, u).reshape(len(h), -1) + self.skip(h, i)
            h = z if last else self.activation(self.norm(z, str(i)))
        return h

    def loss(self, logits):
        kept = logits[self.train].to(self.dtype)
        return torch.nn.functional.cross_entropy(kept, self.labels[self.train])


# ---- figures of a case ----

def plain(t):
    return t.detach().double().tolist()


def rounded(case, double):
    return Model(case, torch.float64, torch.float64) if double else Model(case, torch.float32, torch.bfloat16)


def optimizer(model, case):
    adam = case["adam"]
    kind = torch.optim.AdamW if case["options"].get("optimizer") == "adamw" else torch.optim.Adam
    return kind(model.p.values(), lr=adam["lr"], weight_decay=adam.get("weight_decay_l2", 0), eps=1e-8)


def rates(optim, options):
    """The schedulers of the learning rate. A step is an epoch."""
    warmup, (kind, *of) = int(options.get("lr-warmup", 0)), options.get("lr-schedule", "none").split(":")
    if warmup > 1:
        yield torch.optim.lr_scheduler.LinearLR(optim, 1 / warmup, 1, warmup - 1)
    if kind == "step":
        yield torch.optim.lr_scheduler.StepLR(optim, int(of[0]), float(of[1]))


def step(model, optim):
    optim.zero_grad()
    logits = model.logits()
    loss = model.loss(logits)
    loss.backward()
    gradients = {k: plain(p.grad) for k, p in model.p.items()}
    optim.step()
    return {"logits": plain(logits), "loss": loss.item(), "gradients": gradients}


def run_steps(case, double):
    """Three steps on the whole graph; the first one's figures, and all losses."""
    model = rounded(case, double)
    optim = optimizer(model, case)
    schedulers = list(rates(optim, case["options"]))
    out = {"losses": []}
    for i in range(3):
        now = step(model, optim)
        for scheduler in schedulers:
            scheduler.step()
        out["losses"].append(now["loss"])
        if i == 0:
            out.update(logits=now["logits"], gradients=now["gradients"])
        if i in (0, 2):
            out[f"after_{i + 1}_step" + "s" * (i > 0)] = {k: plain(p) for k, p in model.p.items()}
    return out


def run_epochs(case, double):
    """Epochs of GNNPipe in the given orders (runtime/pipe/epoch.h)."""
    model = rounded(case, double)
    optim = optimizer(model, case)
    every = case["options"]["history_every"]
    chunk_of = case["chunk_of"]
    live = {}
    out = {"epochs": []}
    for e, epoch in enumerate(case["epochs"]):
        slots = {chunk: t for way in epoch["order"] for t, chunk in enumerate(way)}
        with torch.no_grad():
            exact = model.loss(model.logits()).item()
        if e % every == 0:
            model.history = dict(live)
        model.slot = torch.tensor([slots[c] for c in chunk_of])
        now = step(model, optim)
        live = dict(model.travelling)
        model.slot = None
        out["epochs"].append({"order": epoch["order"], "exact_loss": exact, **now})
    out["history"] = {str(k): plain(v) for k, v in model.history.items()}
    out["live"] = {str(k): plain(v) for k, v in live.items()}
    out["parameters_after"] = {k: plain(p) for k, p in model.p.items()}
    return out


def flat(x):
    return [z for y in x for z in flat(y)] if isinstance(x, list) else [x]


def error(got, wanted, size=None):
    size = max(abs(w) for w in flat(wanted)) if size is None else size
    return max(abs(g - w) for g, w in zip(flat(got), flat(wanted))) / size


def gradient_error(got, wanted):
    most = 0
    for name, tensor in wanted.items():
        size = max(abs(w) for w in flat(tensor))
        if size <= 1e-12:  # the bias under batch norm
            layer = name.split(".")[0]
            size = max(abs(w) for w in flat(wanted.get(layer + ".w_neigh", wanted.get(layer + ".w", wanted.get(layer + ".w2")))))
        most = max(most, error(got[name], tensor, size))
    return most


def errors(case, got):
    if "epochs" in case:
        pairs = list(zip(got["epochs"], case["epochs"]))
        loss = max(abs(g[k] / w[k] - 1) for g, w in pairs for k in ("loss", "exact_loss"))
        kept = got["live"] if len(pairs) % case["options"]["history_every"] == 0 else got["history"]
        return {"logits": max(error(g["logits"], w["logits"]) for g, w in pairs), "loss": loss,
                "history": max(error(kept[k], case["history"][k]) for k in kept),
                "values": gradient_error(got["parameters_after"], case["parameters_after"]),
                "gradients": max(gradient_error(g["gradients"], w["gradients"]) for g, w in pairs)}
    return {"logits": error(got["logits"], case["logits"]),
            "loss": max(abs(g / w - 1) for g, w in zip(got["losses"], case["losses"])),
            "gradients": gradient_error(got["gradients"], case["gradients"])}


def shifted(case, draw):
    """The case with other weights, if draw > 0."""
    r = random.Random(draw)

    def shift(x):
        return [shift(y) for y in x] if isinstance(x, list) else x * (1 + r.uniform(-1, 1) * 2**-10)

    return case if draw == 0 else {**case, "parameters": {k: shift(v) for k, v in case["parameters"].items()}}


def torch_errors(case, draws):
    """The largest of several runs in bf16, by figure."""
    most = {}
    for draw in range(draws):
        for k, v in errors(case, run(shifted(case, draw), False)).items():
            most[k] = max(most.get(k, 0), v)
    return most


def run(case, double):
    return (run_epochs if "epochs" in case else run_steps)(case, double)


# ---- the kept cases ----

def beside():
    """The kept cases, by name."""
    for file in sorted(os.listdir(HERE)):
        if file.endswith(".json") and not file.startswith(("weighted_", "schedule_")):  # those of variants.py
            with open(os.path.join(HERE, file)) as f:
                case = json.load(f)
            if case.get("model") in KINDS:  # the others have scripts of their own
                yield file[:-5], case


def check_double(name, case):
    """The models above are those of the kept cases."""
    got = errors(case, run(case, True))
    if max(got.values()) > 1e-9:
        sys.exit(f"{name}: in double {got}")


def bounds():
    cases = {}
    for name, case in beside():
        check_double(name, case)
        cases[name] = {k: float(f"{v:.3g}") for k, v in torch_errors(case, DRAWS).items()}
    with open(os.path.join(HERE, "bf16.json"), "w") as f:
        json.dump({"multiple": MULTIPLE, "cases": cases}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    bounds()
