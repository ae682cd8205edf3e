#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""make bench-gpu: one GPU's figures, as Markdown, all in one run.

usage: gpu.py BENCH_GPU COOP_SAGE PEER [options of coop_sage that say where the data is]

1. launchers: tests/bench/bench_gpu.c, each rate beside the copy bandwidth or a large product's
2. epochs of ogbn-arxiv at two settings, median of 5 after one to warm up, beside a floor: what must be moved over the copy
   bandwidth plus what must be multiplied over the large product's rate, counted from the metrics' vertices and edges; and whether
   4 PEs on the GPU, and the CPU alone, give the same losses. Epochs of gat, without a floor
3. PyTorch Geometric at the same settings, where it is installed (tests/bench/peer_pyg.py)

Exit status 77 where there is no device.
"""
import json
import os
import re
import statistics
import subprocess
import sys

SETTINGS = {
    "tutorial": {"layers": 2, "hidden": 128, "fanout": "4,4"},
    "deep": {"layers": 3, "hidden": 256, "fanout": "10,10,10"},
}
SEEDS = 2048  # of a step, as in tests/bench/bench.c


def lines_of(command):
    """A program's standard output; ends this one where that fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode if done.returncode == 77 else f"gpu.py: {command[0]} ended with {done.returncode}")
    return done.stdout


def epochs(coop_sage, setting, pes, devices, data, n):
    options = [f"--{name}={value}" for name, value in SETTINGS[setting].items()]
    options += [f"--pes={pes}", f"--batch-size={SEEDS // pes}", f"--epochs={n}", "--eval-every=0", "--json"]
    events = [json.loads(line) for line in lines_of([coop_sage, *options, *devices, *data]).splitlines()]
    return events[0], [e for e in events if e["event"] == "epoch"]


def floor_s(setting, n_features, n_classes, epoch, bandwidth, rate):
    """Seconds that one epoch cannot go below: the floor of tests/bench/floor.h, on one device."""
    n_layers, hidden = SETTINGS[setting]["layers"], SETTINGS[setting]["hidden"]
    rows, edges = epoch["vertices"], epoch["edges"]
    n_bytes, flops = 8 * rows[n_layers] * n_features, 0  # gather
    for i in range(n_layers):
        level = n_layers - 1 - i  # of the destinations
        n_in = n_features if i == 0 else hidden
        n_out = n_classes if i + 1 == n_layers else hidden
        projected = rows[level + 1] if n_in > n_out else rows[level]
        ways = 2 if i == 0 else 3  # forward, weights, and inputs but for the first layer's
        flops += 2 * n_in * n_out * (rows[level] + projected) * ways
        directions = 2 if i > 0 or n_in > n_out else 1
        n_bytes += 4 * min(n_in, n_out) * (edges[level] + rows[level]) * directions
        n_bytes += 64 * (2 * rows[level] + edges[level]) + 16 * edges[level]  # sample, merge
    return n_bytes / bandwidth + flops / rate


def main():
    bench_gpu, coop_sage, peer, *data = sys.argv[1:]
    launchers = lines_of([bench_gpu] + (["--quick", "1"] if os.environ.get("SL_SMOKE") else []))
    print(launchers)
    bandwidth = float(re.search(r"copy moves ([\d.]+) GB/s", launchers).group(1)) * 1e9
    rate = float(re.search(r"product of \d+ ([\d.]+) TFLOP/s", launchers).group(1)) * 1e12
    print("| setting | PEs | epoch, s | range | floor, s | epoch / floor | first losses off 1 PE's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for setting in SETTINGS:
        wanted = None
        for name, pes, devices in [("1", 1, ["--gpus=1"]), ("4", 4, ["--gpus=1"]), ("1, CPU alone", 1, ["--gpus=0"])]:
            config, all_epochs = epochs(coop_sage, setting, pes, devices, data, 6 if "CPU" not in name else 2)
            losses = [e["train_loss"] for e in all_epochs[:2]]
            wanted = wanted or losses
            off = max(abs(a / b - 1) for a, b in zip(losses, wanted))
            seconds = [e["seconds"] for e in all_epochs[1:]]
            least = floor_s(setting, config["features"], config["classes"], all_epochs[-1], bandwidth, rate)
            print(f"| {setting} | {name} | {statistics.median(seconds):.4f} | {min(seconds):.4f} .. {max(seconds):.4f} | "
                  f"{least:.4f} | {statistics.median(seconds) / least:.1f} | {off:.1e} |", flush=True)
    _, all_epochs = epochs(coop_sage, "deep", 1, ["--gpus=1", "--model=gat"], data, 6)
    seconds = [e["seconds"] for e in all_epochs[1:]]
    print(f"\ngat, deep: {statistics.median(seconds):.4f} s an epoch ({min(seconds):.4f} .. {max(seconds):.4f})\n", flush=True)
    folder = os.path.join(os.environ.get("STARLING_DATA", "").split(":")[0], "ogbn-arxiv")
    for setting, model in [("tutorial", "sage"), ("deep", "sage"), ("deep", "gat")]:
        features = [value for name, value in zip(data, data[1:]) if name == "--features"]
        subprocess.run([sys.executable, peer, "--data", folder, "--setting", setting, "--model", model]
                       + (["--features", features[0]] if features else []), check=False)


if __name__ == "__main__":
    main()
