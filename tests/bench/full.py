# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""An epoch of residual graph convolutions, 32 layers of 100 on all of ogbn-arxiv (with substitute features): pipe_gnn
exactly, as a pipeline, and with recomputation; the floor of this machine's cores (full_floor.c); PyTorch Geometric, if
$PYTHON has it (peer_full.py).

usage: full.py PIPE_GNN FULL_FLOOR PEER

$LAYERS, $HIDDEN, $EPOCHS [6]: the first three do not count, because memory is new.
"""

import os
import statistics
import subprocess
import sys

from turns import ARXIV, dataset, head, row, run

layers, hidden, epochs = (os.environ.get(name, initial) for name, initial in [("LAYERS", "32"), ("HIDDEN", "100"),
                                                                              ("EPOCHS", "6")])
program, floor, peer = sys.argv[1:]
exact, pipeline = "--stages 1 --ways 8 --chunks 8", "--stages 8 --ways 1 --chunks 32"
head("", "epoch, s, median", "peak memory, GB", "options")
for name, words in [("exact", exact), ("exact, recomputed", exact + " --recompute"), ("pipeline", pipeline),
                    ("pipeline, recomputed", pipeline + " --recompute")]:
    options = [*ARXIV, "--model=resgcn", "--layers", layers, "--hidden", hidden, "--epochs", epochs, "--eval-every=0",
               "--guard=off", "--lr=0.005", *words.split()]
    done = run(program, options)
    seconds = statistics.median(done.seconds(3))
    row(name, f"{seconds:.2f}", f"{done.summary['peak_rss_bytes'] / 1e9:.1f}", f"`{words}`")
subprocess.run([floor, "169343", "2315598", "96", hidden, "40", layers, str(len(os.sched_getaffinity(0)))], check=True)
if dataset("ogbn-arxiv"):
    theirs = [sys.executable, peer, "--data", dataset("ogbn-arxiv"), *ARXIV[2:], "--layers", layers, "--hidden", hidden]
    status = subprocess.run(theirs, check=False).returncode
    sys.exit(0 if status == 77 else status)
