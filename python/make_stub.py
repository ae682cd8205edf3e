# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""Write the types of the options from the library's tables: make_stub.py PACKAGE OUT.

$STARLING_LIBRARY is the path of the library, which this program loads.
OUT is _options.pyi of the package: type checkers and editors read it, Python does not.
"""

import importlib.util
import os
import sys

HEAD = '''# Written by python/make_stub.py from the option table of the library.
"""The types of the keywords of train(), evaluate(), NodeClassifier, load(). help(starling_gnn.train) tells more."""

from os import PathLike
from typing import Any, Iterable, Literal, Mapping, SupportsFloat, SupportsIndex, TypedDict, Union

from numpy.typing import ArrayLike

'''

TEXTS = {
    "class-weights": "Union[str, PathLike[str], ArrayLike, Mapping[Any, SupportsFloat], None]",
    "relation-fanout": "Union[str, Mapping[Any, Union[SupportsIndex, Iterable[SupportsIndex]]], None]",
}


def library(package):
    """The module _library, without the package, which needs numpy."""
    spec = importlib.util.spec_from_file_location("_library", os.path.join(package, "_library.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def literal(words):
    return f"Literal[{', '.join(map(repr, words))}]"


def annotation(option, choices):
    """The type of an option's keyword. None leaves the option open."""
    if option.kind == "choice":
        kinds = [literal(choices)] + ["bool"] * ("yes" in choices)
    elif option.kind == "flag":
        kinds = ["bool"]
    elif option.kind == "real":
        kinds = ["SupportsFloat"]
    elif option.kind == "list":
        kinds = ["SupportsIndex", "Iterable[SupportsIndex]"]
    elif option.kind in ("whole", "long"):
        kinds = ["SupportsIndex"]
    else:
        return TEXTS.get(option.name, "Union[str, PathLike[str], None]")
    if option.word:
        kinds.append(literal([option.word]))
    return f"Union[{', '.join(kinds)}, None]"


def keywords(head, options, module):
    """A TypedDict of options; the choices of an option are those of both programs."""
    yield f"class {head}, total=False):"
    for option in options:
        found = [table[option.keyword] for table in module.OPTIONS.values() if option.keyword in table]
        choices = list(dict.fromkeys(choice for other in found for choice in other.choices))
        yield f"    {option.keyword}: {annotation(option, choices)}"
    yield ""


def stub(module):
    both = {**module.OPTIONS[True], **module.OPTIONS[False]}
    models = dict.fromkeys(choice for table in module.OPTIONS.values() for choice in table["model"].choices)
    of_train = {key for key, o in both.items() if key != "model" and (not o.of_data or key in module.KEPT)}
    yield f"ModelName = {literal(models)}\n"
    for head, keys in (
        ("_SharedOptions(TypedDict", of_train & module.LOAD),
        ("TrainOptions(_SharedOptions", of_train - module.LOAD),
        ("LoadOptions(_SharedOptions", module.LOAD - of_train),
    ):
        yield from keywords(head, [option for key, option in both.items() if key in keys], module)


def main(package, out):
    text = HEAD + "\n".join(stub(library(package)))
    with open(out + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(out + ".new", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
