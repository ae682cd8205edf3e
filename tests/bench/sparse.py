# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What wide sparse features gain from being held as CSR: the same training with the table as it is and laid out dense,
on coauthor-cs ($STARLING_DATA) and on a generated bag of words of 8,000 columns. Exit status 1 if sparse is not at
least 5 times as fast.

usage: sparse.py COOP_SAGE DENSE_SAGE STARLING_DATA
"""

import os
import statistics
import subprocess
import sys
import tempfile

from turns import SMOKE, dataset, head, row, run


def measure(program, name, form, options):
    """Train, print a row, and return the seconds of an epoch."""
    done = run(program, ["--epochs", "5", "--eval-every", "0", *options])
    seconds = statistics.median(done.seconds(0))
    row(name, form, f"{seconds:.3f}", f"{done.peak / 1e6:.0f}", f"{done.epochs[-1]['train_loss']:.4f}")
    return seconds


def compare(programs, name, options):
    sparse, dense = (measure(program, name, form, options) for program, form in zip(programs, ("sparse", "dense")))
    row("", "dense / sparse", f"{dense / sparse:.1f}", "", "")
    return dense < 5 * sparse and not SMOKE


def main(program, dense, starling_data):
    with tempfile.TemporaryDirectory() as folder:
        words = os.path.join(folder, "words")
        common = ["--cache", os.path.join(folder, "cache"), "--layers", "2", "--hidden", "256", "--fanout", "10,10",
                  "--pes", "2"]
        subprocess.run([starling_data, "generate", "--vertices", "50000", "--edges", "250000", "--features", "8000",
                        "--classes",
                        "20", "--sparse", "--out", words], stdout=subprocess.DEVNULL, check=True)
        head("features", "held", "epoch, s (median of 5)", "peak MB", "loss after 5 epochs")
        failed = False
        if dataset("coauthor-cs"):
            papers = ["--dataset", "coauthor-cs", "--split", "luo2024-60-20-20", "--batch-size", "512"]
            failed = compare((program, dense), "coauthor-cs, 6,805 columns", common + papers)
        else:
            row("coauthor-cs", "skipped: not on STARLING_DATA", "", "", "")
        return compare((program, dense), "generated words, 8,000 columns", [*common, "--dataset", words]) or failed


sys.exit(main(*sys.argv[1:]))
