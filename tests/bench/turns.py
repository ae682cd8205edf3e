# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""What the measurements of this folder share: runs of the programs with their metrics, turns, medians and tables."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

ARXIV = ["--dataset", "ogbn-arxiv", "--features", "derived/node-feat-prone96.csv.gz"]
SMOKE = bool(os.environ.get("SL_SMOKE"))


def skip(why):
    """End with the status of what cannot be measured here."""
    print(f"{os.path.basename(sys.argv[0])}: skipped: {why}")
    sys.exit(77)


def dataset(name):
    """The folder of a dataset on $STARLING_DATA, or None."""
    places = [os.path.join(place, name) for place in os.environ.get("STARLING_DATA", "").split(":") if place]
    return next((place for place in places if os.path.isdir(place)), None)


def arxiv():
    """(folder, features) of ogbn-arxiv: features of its own or, if there are none, the ones made of the graph."""
    folder = dataset("ogbn-arxiv") or skip("no ogbn-arxiv on $STARLING_DATA")
    for features in ("raw/node-feat.csv.gz", ARXIV[3]):
        if os.path.exists(os.path.join(folder, features)):
            return folder, features
    return skip(f"no features in {folder}")


class Run:
    """A process that has ended: the lines of its metrics by event, its processor seconds and peak memory in bytes."""

    def __init__(self, command, metrics, missing=None):
        """missing: words of an error that are no failure; the run then has no config."""
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True)
        error = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.cpu, self.peak, self.error = usage.ru_utime, usage.ru_maxrss * 1024, error
        self.config, self.epochs, self.summary = None, [], None
        if child.returncode != 0:
            if missing and missing in error:
                return
            sys.exit(f"{' '.join(command)}: exit status {child.returncode}\n{error}")
        sys.stderr.write(error)
        if os.path.exists(metrics):
            with open(metrics, encoding="utf-8") as lines:
                events = [json.loads(line) for line in lines]
            self.epochs = [event for event in events if event["event"] == "epoch"]
            self.config = next(event for event in events if event["event"] == "config")
            self.summary = next((event for event in events if event["event"] == "summary"), None)

    def seconds(self, warm=1):
        """Seconds of the epochs after the first ones, whose memory is new."""
        return [epoch["seconds"] for epoch in self.epochs[warm:] or self.epochs]


def run(program, options, missing=None):
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics")
        return Run([program, "--quiet", *options, "--metrics", metrics], metrics, missing)


def spread(values, digits=3):
    """"median (least .. most)"."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*names):
    row(*names)
    row(*["---"] * len(names))


def generated(starling_data, name, place):
    """A dataset of a recipe's name in the folder place, with tables as text."""
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    subprocess.run([starling_data, "generate", name, "--out", place], stdout=subprocess.DEVNULL, check=True)
    subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "../as_text"), place], check=True)
    return place


# ---- other programs, by turns


def in_peers_env(modules):
    """Go on under the Python of $PEERS_ENV [peers-env], which make bench-peers makes; it must have the modules."""
    folder = os.environ.get("PEERS_ENV", "peers-env")
    python = os.path.join(folder, "bin/python")
    if os.path.abspath(sys.prefix) == os.path.abspath(folder) or os.environ.get("SL_IN_PEERS_ENV"):
        return
    if not os.access(python, os.X_OK):
        skip(f"no Python environment {folder}; make bench-peers makes one")
    if subprocess.run([python, "-c", f"import {modules}"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        skip(f"no {modules} in {folder}; make bench-peers makes one")
    os.environ.update(SL_IN_PEERS_ENV="1", DGLBACKEND="pytorch", STARPU_SILENT="1")
    os.execv(python, [python, *sys.argv])


def answers():
    """Where a peer answers. Whatever else its libraries print is no answer."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


class Peer:
    """This script once more, with --peer: a process group that runs only when it is its turn. It says its names in a
    line of JSON, then answers each line, a name, with what it measured."""

    def __init__(self, *options):
        self.process = subprocess.Popen([sys.executable, *sys.argv, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        text=True, start_new_session=True)
        line = self.process.stdout.readline()
        self.names = json.loads(line) if line else []
        if self.names:
            self.signal(signal.SIGSTOP)
        else:
            self.process.wait()

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def turn(self, name):
        self.signal(signal.SIGCONT)
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{name}: the process has ended")
        self.signal(signal.SIGSTOP)
        return json.loads(line)

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        return self.process.wait()


def by_turns(rounds, ways):
    """Call each function of ways, a dictionary by name, once a round. Returns their results by name."""
    found = {name: [] for name in ways}
    for i in range(rounds):
        for name, measure in ways.items():
            found[name].append(measure())
            print(f"round {i + 1}: {name}: {json.dumps(found[name][-1])}", file=sys.stderr, flush=True)
    return found
