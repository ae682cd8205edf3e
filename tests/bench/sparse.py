# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What wide sparse features gain from being held as CSR: the same training with the table as it is and laid out dense,
on coauthor-cs ($STARLING_DATA) and on a generated bag of words of 8,000 columns. Exit status 1 if sparse is not at
least 5 times as fast.

usage: sparse.py PHASES STARLING_DATA
"""

import os
import re
import subprocess
import sys
import tempfile

from turns import SMOKE, dataset, head, row


def measure(phases, name, form, options):
    """Train, print a row, and return the seconds of an epoch."""
    command = [phases, "--epochs", "5", "--eval-every", "0", *options]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    cells = next(line for line in said.splitlines() if "train an epoch" in line).split(" | ")
    seconds, processor, peak = (cell.strip(" |") for cell in cells[1:4])
    row(name, form, seconds, processor, peak, re.search(r"Loss of the last epoch: (.*)\.", said).group(1))
    return float(seconds)


def compare(phases, name, options):
    sparse = measure(phases, name, "sparse", options)
    dense = measure(phases, name, "dense", ["--dense-features", *options])
    row("", "dense / sparse", f"{dense / sparse:.1f}", "", "", "")
    return dense < 5 * sparse and not SMOKE


def main(phases, starling_data):
    with tempfile.TemporaryDirectory() as folder:
        words = os.path.join(folder, "words")
        common = ["--cache", os.path.join(folder, "cache"), "--layers", "2", "--hidden", "256", "--fanout", "10,10",
                  "--pes", "2"]
        subprocess.run([starling_data, "generate", "--vertices", "50000", "--edges", "250000", "--features", "8000",
                        "--classes",
                        "20", "--sparse", "--out", words], stdout=subprocess.DEVNULL, check=True)
        head("features", "held", "epoch, s (median of 5)", "processor s", "peak MB", "loss after 5 epochs")
        failed = False
        if dataset("coauthor-cs"):
            papers = ["--dataset", "coauthor-cs", "--split", "luo2024-60-20-20", "--batch-size", "512"]
            failed = compare(phases, "coauthor-cs, 6,805 columns", common + papers)
        else:
            row("coauthor-cs", "skipped: not on STARLING_DATA", "", "", "", "")
        return compare(phases, "generated words, 8,000 columns", [*common, "--dataset", words]) or failed


sys.exit(main(*sys.argv[1:]))
