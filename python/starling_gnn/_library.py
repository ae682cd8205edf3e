# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The C library: where it is, its structs and functions, its errors as exceptions."""

from __future__ import annotations

import contextlib
import ctypes as C
import functools
import glob
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

SONAME = "libstarling.so.1"


class StarlingError(Exception):
    """An error of the library. `status` is the name of its status in the C interface, for example "SL_EINVAL"."""

    status = "SL_EINTERNAL"


class InvalidArgumentError(StarlingError, ValueError):
    """An argument or option is wrong, or two contradict each other."""


class BadFileError(StarlingError, ValueError):
    """The contents of a file are wrong."""


class OutOfMemoryError(StarlingError, MemoryError):
    """Memory ran out, or the estimated need exceeds the memory of this process or of a GPU."""


class InputOutputError(StarlingError, OSError):
    """The operating system failed to open, read, write or rename a file."""


class NotSupportedError(StarlingError, NotImplementedError):
    """This build, or its StarPU, cannot do this."""


class DeviceError(StarlingError, RuntimeError):
    """There is no worker or device for the work, or StarPU, METIS, CUDA or NCCL failed."""


class NumericError(StarlingError, ArithmeticError):
    """A loss or a gradient is not finite."""


class NotFoundError(StarlingError, FileNotFoundError):
    """There is no such dataset or checkpoint."""


class StarlingWarning(UserWarning):
    """A run is not what the user may expect."""


def warn(text: str) -> None:
    """A StarlingWarning of the line that called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, StarlingWarning, level)


OK, EINTERRUPT = 0, -9
# The statuses -1, -2, ..
_ERRORS = (
    ("SL_EINVAL", InvalidArgumentError),
    ("SL_EFILE", BadFileError),
    ("SL_ENOMEM", OutOfMemoryError),
    ("SL_EIO", InputOutputError),
    ("SL_ENOTSUP", NotSupportedError),
    ("SL_ENODEV", DeviceError),
    ("SL_ESTARPU", DeviceError),
    ("SL_EMETIS", DeviceError),
    ("SL_EINTERRUPT", StarlingError),
    ("SL_ENUMERIC", NumericError),
    ("SL_EINTERNAL", StarlingError),
    ("SL_ENOTFOUND", NotFoundError),
    ("SL_ECUDA", DeviceError),
    ("SL_ENCCL", DeviceError),
)
for _status, _error in reversed(_ERRORS):  # a class has the first of its statuses
    if _error is not StarlingError:
        _error.status = _status


def _candidates() -> Iterator[str]:
    """Where the library may be, the nearest first: inside the package (a wheel), in the build, below the prefix.

    PREFIX/lib/python3.11/site-packages has the package, or PREFIX/local/lib/.. of Debian's Python.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(folder, "lib", SONAME)
    yield os.path.join(os.path.dirname(os.path.dirname(folder)), ".libs", SONAME)
    found = re.fullmatch(r"(.+?)(/local)?/lib(64)?/[^/]+/(site|dist)-packages", os.path.dirname(folder))
    for prefix in dict.fromkeys((found[1] + (found[2] or ""), found[1])) if found else ():
        yield from (os.path.join(prefix, below, SONAME) for below in ("lib", "lib64"))
        yield from sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "*-linux-gnu", SONAME)))


def _open() -> C.CDLL:
    path = os.environ.get("STARLING_LIBRARY") or next(filter(os.path.exists, _candidates()), SONAME)
    try:
        return C.CDLL(path)
    except OSError as error:
        if path != SONAME:
            raise ImportError(f"{path}: cannot load Starling's library: {error}") from None
        advice = f"install Starling (make install), or set STARLING_LIBRARY to its path ({error})"
        raise ImportError(f"found no {SONAME}: expected it near {os.path.dirname(__file__)}; {advice}") from None


lib = _open()


# Types of members and arguments beside those of ctypes, "uint32" for c_uint32.
_KINDS: dict[str, Any] = {f"char{n}": C.c_char * n for n in (16, 64, 128)} | {"shape": C.c_uint64 * 3}


def _kind(name: str) -> Any:
    return _KINDS[name] if name in _KINDS else getattr(C, "c_" + name)


def _struct(text: str) -> Any:
    """A struct. A line of the text is a type and the names of members, in order. A member `size` is set."""
    rows = [line.split() for line in text.strip().splitlines()]
    members = [(name, _kind(kind)) for kind, *names in rows for name in names]

    class Struct(C.Structure):
        _fields_ = members

        def __init__(self, **values: Any) -> None:
            super().__init__(**({"size": C.sizeof(type(self))} if members[0][0] == "size" else {}), **values)

    return Struct


_KINDS["links"] = ArrayLinks = _struct("uint32 n\nvoid_p from to relations")
Arrays = _struct("""
    size_t size
    char_p name
    uint32 n_vertices
    uint64 n_edges
    void_p sources destinations offsets
    bool directed
    uint32 n_features
    void_p features
    char_p feature_dtype
    float feature_scale
    void_p feature_offsets feature_columns feature_values
    uint32 n_classes
    void_p labels
    uint32 n_train n_valid n_test
    void_p train valid test
    uint32 n_targets
    void_p targets edge_weights edge_relations
    uint32 n_relations
    char_p relation_names
    links train_links valid_links test_links valid_negatives test_negatives
    void_p relation_ends
    char_p class_names split
    uint64 split_seed
    bool drop_leaks
    uint32 n_types
    char_p type_names
    void_p type_vertices type_columns
    char_p feature_names
    uint32 n_edge_features
    void_p edge_features
    uint32 valid_each test_each
""")
DatasetSizes = _struct("""
    size_t size
    char64 name split
    uint32 n_vertices
    uint64 n_edges
    uint32 n_features n_outputs
    bool has_classes has_edge_weights synthetic
    uint32 n_train n_valid n_test
    char_p class_names vertex_names
    uint32 n_relations
    bool directed
""")
ModelFacts = _struct("""
    size_t size
    char_p model objective dataset
    uint32 version n_features n_outputs n_embeddings
    char_p class_names relation_names
""")
OptionNews = _struct("""
    size_t size
    char_p name group kind choices initial shown word help
    double min max
    bool common of_model of_data
""")
SessionSizes = _struct("""
    size_t size
    uint32 n_vertices n_features n_outputs
    uint64 n_edges
    uint32 n_pes n_parts n_per_epoch n_hidden n_weights
    uint64 memory_bytes
""")
_KINDS["scores"] = _struct("char16 name\ndouble valid test\nbool larger_is_better is_fraction") * 16
Scores = _struct("double valid_loss\nuint32 n best_by\nscores score")
StepNews = _struct("size_t size\nuint32 epoch\nuint64 step\ndouble loss")
StepFunction = _KINDS["step"] = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(StepNews))
LineFunction = _KINDS["line"] = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)
NoticeFunction = C.CFUNCTYPE(None, C.c_int, C.c_char_p)
Report = _struct("size_t size\nvoid_p stream context\nstep step\nvoid_p epoch\nline line")
Neighborhood = _struct("""
    size_t size
    uint32 n_vertices n_hops
    uint64 n_edges
    void_p vertices sources destinations weights hop_vertices hop_edges relations
""")
Weight = _struct("char128 name\nuint32 n_dims\nshape shape")

# The functions by the types of their arguments. They return a status, or nothing.
_FUNCTIONS = {
    "": "model_rest message process_count version",
    "bool": "settings_check_environment",
    "void_p": "dataset_delete model_delete on_notice sampler_close session_close session_stop settings_delete"
    " settings_new settings_new_pipe",
    "void_p void_p": "dataset_describe dataset_new dataset_open model_describe model_load model_save session_model"
    " session_sizes session_train",
    "void_p void_p void_p": "model_evaluate model_open_dataset model_set sampler_open session_open settings_set",
    "void_p void_p void_p void_p": "model_score_links session_evaluate",
    "void_p void_p uint32 void_p void_p": "model_embed model_predict",
    "void_p void_p void_p void_p void_p": "model_predict_new",
    "void_p char_p char_p size_t": "model_get settings_get",
    "void_p uint32 void_p": "settings_list",
    "void_p uint32 void_p void_p": "dataset_features dataset_split dataset_targets session_set_weights",
    "void_p uint64 uint32 void_p void_p": "sampler_draw",
}
for _kinds, _names in _FUNCTIONS.items():
    for _name in _names.split():
        getattr(lib, "sl_" + _name).argtypes = list(map(_kind, _kinds.split()))
lib.sl_version.restype = lib.sl_message.restype = C.c_char_p
lib.sl_process_count.restype = C.c_uint32

version: str = lib.sl_version().decode()


class Option:
    """An option of training: the keyword `keyword` of train()."""

    def __init__(self, news: Any) -> None:
        self.name: str = news.name.decode()
        self.group: str = news.group.decode()
        self.kind: str = news.kind.decode()
        self.choices: list[str] = news.choices.decode().split(",") if news.choices else []
        self.default, self.shown, self.word = (
            None if text is None else str(text.decode()) for text in (news.initial, news.shown, news.word)
        )
        self.help: str = news.help.decode()
        self.of_model: bool = news.of_model
        self.of_data: bool = news.of_data
        self.keyword = "lambda_" if self.name == "lambda" else self.name.replace("-", "_")

    def __repr__(self) -> str:
        return f"Option({self.keyword!r}, kind={self.kind!r}, default={self.default!r})"

    def text(self, value: Any) -> str:
        """The value in the form of the command line. The library refuses a text that is no value of the option."""
        if isinstance(value, (str, os.PathLike)):
            return os.fsdecode(value)
        if isinstance(value, (bool, getattr(sys.modules.get("numpy"), "bool_", bool))):  # without importing numpy
            word = "yes" if value else "no"
            value = word if self.kind == "flag" or word in self.choices else str(bool(value))
        elif self.name == "relation-fanout" and isinstance(value, Mapping):
            return "/".join(_fanouts(name, numbers) for name, numbers in value.items())
        elif hasattr(value, "__iter__") and not isinstance(value, Mapping) and getattr(value, "ndim", 1) == 1:
            if self.kind == "list":
                return ",".join(_number(entry, True) for entry in value)
            with contextlib.suppress(TypeError, ValueError):  # without any, the library would take the text for None
                if self.name == "class-weights" and (text := ",".join(repr(float(entry)) for entry in value)):
                    return text
        if self.kind == "text":
            expected = "a text" if self.name != "class-weights" else "'balanced', numbers, or the path of a file"
            raise TypeError(f"{self.keyword}: found {shown(value)}, expected {expected}")
        return _number(value, self.kind != "real")


def _number(value: Any, whole: bool) -> str:
    """A number as text. What is no number is shown, so that the library refuses it."""
    if isinstance(value, str):
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if not whole:
            return repr(float(value))
        if int(value) == value:
            return str(int(value))
    return shown(value)


def _fanouts(relation: Any, numbers: Any) -> str:
    """A relation's fanouts. It is a name, a number, or PyG's (source, name, destination)."""
    name = "___".join(map(str, relation)) if isinstance(relation, tuple) else str(relation)
    entries = numbers if hasattr(numbers, "__iter__") and not isinstance(numbers, str) else [numbers]
    return name + ":" + ",".join(_number(entry, True) for entry in entries)


def shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"a {type(value).__name__}"


def _list_options(pipe: bool) -> dict[str, Option]:
    settings = Settings(pipe)
    found: list[Option] = []
    news = OptionNews()
    while lib.sl_settings_list(settings.handle, len(found), C.byref(news)) == OK:
        found.append(Option(news))
    return {option.keyword: option for option in found}


class Settings:
    """A struct sl_settings."""

    def __init__(self, pipe: bool) -> None:
        self.handle = made(C.c_void_p, lib.sl_settings_new_pipe if pipe else lib.sl_settings_new)

    def set(self, name: str, text: str | None) -> None:
        if text is not None and "\0" in text:
            raise ValueError(f"{name}: found {text!r}, expected a text without zero bytes")
        check(lib.sl_settings_set(self.handle, name.encode(), None if text is None else os.fsencode(text)))

    def get(self, name: str) -> str:
        text = C.create_string_buffer(4096)
        check(lib.sl_settings_get(self.handle, name.encode(), text, len(text)))
        return os.fsdecode(text.value)

    def __del__(self, delete: Any = lib.sl_settings_delete) -> None:
        if getattr(self, "handle", None):
            delete(self.handle)


def in_keywords(text: bytes) -> str:
    """A line of the library, with options written as keywords."""
    words = text.decode(errors="replace")
    return re.sub(r"--([a-z][a-z-]*)", lambda match: _all_keywords.get(match[1], match[0]), words)


def check(status: int) -> None:
    """Raise the exception of a status."""
    if status != OK:
        name, kind = _ERRORS[-status - 1] if 0 < -status <= len(_ERRORS) else ("SL_EINTERNAL", StarlingError)
        error = kind(in_keywords(lib.sl_message()))
        error.status = name
        raise error


def made(kind: Any, function: Any, *arguments: Any) -> Any:
    """What a function of the library puts into its last argument, of a type of ctypes. Raises as check()."""
    found = kind()
    check(function(*arguments, C.byref(found)))
    return found


OPTIONS = {False: _list_options(False), True: _list_options(True)}
KEPT = ("cache", "split")  # options of data that train() takes as well
LOAD = {key for key, option in OPTIONS[False].items() if option.of_data and key != "dataset"}
LOAD |= {"normalize_features", "objective"}  # of a model as well
_all_keywords = {option.name: option.keyword for table in OPTIONS.values() for option in table.values()}


LAYERS = 3  # of the library, without layers and a list of fanouts
_check_environment = functools.lru_cache(None)(lib.sl_settings_check_environment)  # STARLING_NAME are not read


def make_settings(pipe: bool, options: Mapping[str, Any], caller: str) -> Settings:
    """Settings of keywords. TypeError as of texts_of()."""
    _check_environment(False)
    settings = Settings(pipe)
    if options.get("layers") is None and options.get("fanout") is not None and not pipe and not options.get("load"):
        if not isinstance(options["fanout"], str) and not hasattr(options["fanout"], "__iter__"):
            options = {**options, "layers": LAYERS}  # a number is for each layer
    for name, text in texts_of(pipe, OPTIONS[pipe], options, caller):
        settings.set(name, text)
    return settings


def texts_of(
    pipe: bool, table: Mapping[str, Option], options: Mapping[str, Any], caller: str
) -> Iterator[tuple[str, str]]:
    """Names and texts of the options that keywords give. TypeError: an unknown keyword, or a value of a wrong type."""
    for keyword, value in options.items():
        if keyword not in table:
            raise TypeError(f"{caller}() got an unexpected keyword argument '{keyword}'; {_nearest(pipe, keyword)}")
        if value is not None:
            yield table[keyword].name, table[keyword].text(value)


def _nearest(pipe: bool, keyword: str) -> str:
    """The library's advice about an unknown keyword."""
    if keyword in OPTIONS[not pipe]:
        return f"it is an option with pipe={not pipe}"
    if keyword in _all_keywords:
        return f"did you mean {_all_keywords[keyword]}?"
    settings = Settings(pipe)  # which lives until the end
    lib.sl_settings_set(settings.handle, keyword.encode(), b"")
    advice = in_keywords(lib.sl_message()).partition("has no such option; ")[2]
    return "help(starling_gnn.train) lists the keywords" if "--help-all" in advice else advice
