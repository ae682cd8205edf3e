# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The command `starling`, also `python3 -m starling_gnn`: it prepares data and reports on runs.

A command is a module with `add_arguments(parser)` and `run(arguments) -> int`, the exit status. Only the module of the
command that runs is imported. An error of a command is one line on standard error; the exit status is 1, or 2 if the
command line is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# Each command, its module, and what it does.
COMMANDS: dict[str, tuple[str, str]] = {
    "convert": ("_formats", "Make a dataset of the files of other programs."),
    "plot": ("_curves", "Draw loss, scores and stage times of one run, or of several over each other."),
    "report": ("_report", "Show how a traced run spent its time."),
}


class _Parser(argparse.ArgumentParser):
    """Errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError) and not str(error):
        return "out of memory"
    return " ".join(str(error).split())


def _run(name: str, arguments: Sequence[str]) -> int:
    module_name, does = COMMANDS[name]
    try:
        module = importlib.import_module("." + module_name, __package__)
        parser = _Parser(prog=f"starling {name}", description=does, allow_abbrev=False)
        module.add_arguments(parser)
        status: int = module.run(parser.parse_args(arguments))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except (ImportError, MemoryError, OSError, ValueError) as error:
        if not isinstance(error, BrokenPipeError):  # the reader of a pipe, as `head`, has had enough
            print(f"starling {name}: {_line(error)}", file=sys.stderr)
        if isinstance(error, OSError) and error.filename is None:  # of standard output, which Python would flush again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of the command line, or of `arguments`. Returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of files need not be UTF-8
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    if words and words[0] in ("-h", "--help", "help"):
        rows = "".join(f"  {name:{max(map(len, COMMANDS))}}  {does}\n" for name, (_, does) in COMMANDS.items())
        print(f"usage: starling COMMAND [ARGUMENT]..\n\ncommands:\n{rows}\n`starling COMMAND --help` tells more.")
        return 0
    if words and words[0] == "--version":
        from ._library import version

        print(f"starling {version}")
        return 0
    found = f"{words[0]}: expected a command" if words else "expected a command"
    print(f"starling: {found}: {', '.join(COMMANDS)}; see starling --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
