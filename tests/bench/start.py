# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""When a run begins its first step: from its files, the same without METIS, and from the cache. And an epoch and the
peak memory of these runs.

usage: start.py COOP_SAGE OPTION ..
"""

import os
import subprocess
import sys
import tempfile
import time

from turns import head, row, run


def begin(command):
    """Seconds until the line of the options, which is written before the first step."""
    start = time.perf_counter()
    child = subprocess.Popen([*command, "--json", "--quiet", "--epochs", "0"], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    seconds = time.perf_counter() - start
    child.stdout.read()
    if child.wait() != 0:
        sys.exit(f"{' '.join(command)}: exit status {child.returncode}")
    return seconds


def main(program, *options):
    head("", "to the first step, s", "epoch, s", "peak memory, GB")
    with tempfile.TemporaryDirectory() as folder:
        for name, cache, more in (("from the files", "first", []), ("without METIS", "second", ["--partition", "random"]),
                                  ("from the cache", "first", [])):
            words = [*options, "--cache", os.path.join(folder, cache), *more]
            first = begin([program, *words])
            done = run(program, [*words, "--epochs", "1", "--eval-every", "0"])
            row(name, f"{first:.3f}", f"{done.epochs[-1]['seconds']:.3f}", f"{done.peak / 1e9:.2f}")


main(*sys.argv[1:])
