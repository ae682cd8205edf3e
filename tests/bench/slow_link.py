# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Ways to train over a slow network: network namespaces of this machine are machines with one process each, and wire.c
carries their packets with a delay (ms) and a limit (Mbit/s in each direction). Prints a table of seconds an epoch,
median and range, and of bytes sent. The runs of a network take turns. Needs a build with MPI, and root.

usage: slow_link.py sync|sum|groups|pipe PROGRAM WIRE [ROUNDS [3]]

sync: all-reduce and gossip on four machines. sum: all-reduce on two, four and eight. groups: cooperative and
independent minibatches on four. They are of coop_sage. pipe, of pipe_gnn: graph parallelism, two stages of two ways,
and a pipeline on four.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from turns import ARXIV, Run, head, row, skip, spread

NETWORKS = [(0, 10000), (1, 1000), (1, 100)]
COMPUTERS = "--dataset amazon-computers --split luo2024-60-20-20 --hidden 64"
SAMPLED = f"{COMPUTERS} --group-size 1 --layers 2 --norm layer --batch-size 32 --fanout 5,5 --epochs 4"
EVERY = "--eval-every 0 --lr 0.01 --cpus 1 --quiet"
# the options of all ways, and the ways; the others are compared with the first
TABLES = {
    "sync": (f"{SAMPLED} --pes 4", ["--sync allreduce", "--sync dissemination", "--sync cube"]),
    "sum": (SAMPLED, ["--pes 2", "--pes 4", "--pes 8"]),
    "groups": (f"{' '.join(ARXIV)} --pes 4 --layers 2 --hidden 64 --fanout 10,10 --batch-size 1024 --epochs 3",
               ["--group-size 4", "--group-size 2", "--group-size 1"]),
    "pipe": (f"{COMPUTERS} --model resgcn --layers 16 --epochs 4",
             ["--stages 1 --ways 4 --chunks 4", "--stages 2 --ways 2 --chunks 16", "--stages 4 --ways 1 --chunks 16"]),
}
MPI = """-q --allow-run-as-root --mca oob_tcp_if_include wire --mca btl_tcp_if_include wire --mca btl self,tcp
    --mca pml ob1 --mca mpi_yield_when_idle 1 --bind-to none""".split()
SHELL = """#!/bin/sh
machine=$1
shift
exec ip netns exec "$machine" unshare --uts sh -c "hostname $machine; $*"
"""
MACHINES = [f"link{os.getpid()}{letter}" for letter in "abcdefgh"]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def connect(wire, delay, mbit):
    """Put a network between the machines. Returns its process."""
    carrier = subprocess.Popen([wire, str(delay), str(mbit), *MACHINES], stdout=subprocess.PIPE)
    if not carrier.stdout.readline():
        sys.exit("slow_link.py: the network has ended")
    for i, machine in enumerate(MACHINES):
        ip("-n", machine, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "wire")
        ip("-n", machine, "link", "set", "wire", "mtu", "9000", "up")
    return carrier


def train(program, folder, options):
    """A run of a process for each PE, or of four."""
    machines = MACHINES[:int((re.findall(r"--pes (\d+)", options) or [4])[0])]
    metrics = os.path.join(folder, "metrics")
    first = ["timeout", "600", "ip", "netns", "exec", MACHINES[0], "unshare", "--uts", "sh", "-c",
             'hostname "$0"; exec "$@"']
    return Run([*first, MACHINES[0], "mpirun", "--mca", "plm_rsh_agent", os.path.join(folder, "shell"), "--host",
                ",".join(machine + ":1"
                         for machine in machines), "-np", str(len(machines)), *MPI, program, *options.split(), "--metrics", metrics],
               metrics)


def measure(table, program, wire, rounds, folder):
    options, ways = TABLES[table]
    options += " " + EVERY
    print(f"`mpirun {os.path.basename(program)} {options} ...`, {rounds} rounds\n")
    head("network", "way", "epoch, s", "MB of all machines in an epoch", "first / this")
    for delay, mbit in NETWORKS:
        carrier = connect(wire, delay, mbit)
        try:
            found = {way: [] for way in ways}
            for _ in range(rounds):
                for way in ways:
                    found[way] += train(program, folder, f"{options} {way}").epochs[1:]
        finally:
            carrier.kill()
            carrier.wait()
        base = statistics.median(epoch["seconds"] for epoch in found[ways[0]])
        for way, epochs in found.items():
            seconds = [epoch["seconds"] for epoch in epochs]
            row(f"{delay} ms, {mbit} Mbit/s", way, spread(seconds), f"{epochs[-1]['bytes']['between_ranks'] / 1e6:.2f}",
                f"{base / statistics.median(seconds):.2f}")


def main(table, program, wire, rounds=3):
    if not shutil.which("mpirun"):
        skip("there is no mpirun; ./bootstrap --with-mpi installs it")
    if not shutil.which("ip") or subprocess.run(["unshare", "--net", "--uts", "true"],
                                                stderr=subprocess.DEVNULL).returncode != 0:
        skip("expected root, unshare and ip (Debian: iproute2)")
    with tempfile.TemporaryDirectory() as folder:
        shell = os.path.join(folder, "shell")
        with open(shell, "w", encoding="ascii") as file:
            file.write(SHELL)
        os.chmod(shell, 0o755)
        try:
            for machine in MACHINES:
                ip("netns", "add", machine)
                ip("-n", machine, "link", "set", "lo", "up")
            measure(table, os.path.realpath(program), os.path.realpath(wire), int(rounds), folder)
        finally:
            for machine in MACHINES:
                subprocess.run(["ip", "netns", "del", machine], stderr=subprocess.DEVNULL, check=False)


main(*sys.argv[1:])
