# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The C library: where it is, its structs and functions, its errors as exceptions."""

from __future__ import annotations

import ctypes as C
import functools
import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

SONAME = "libstarling.so.1"


class StarlingError(Exception):
    """An error of the library. `status` is the name of its status in the C interface, for example "SL_EINVAL"."""

    status = "SL_EINTERNAL"


class InvalidArgumentError(StarlingError, ValueError):
    """An argument or option is wrong, or two contradict each other."""

    status = "SL_EINVAL"


class BadFileError(StarlingError, ValueError):
    """The contents of a file are wrong."""

    status = "SL_EFILE"


class OutOfMemoryError(StarlingError, MemoryError):
    """Memory ran out, or the estimated need exceeds the memory of this process or of a GPU."""

    status = "SL_ENOMEM"


class InputOutputError(StarlingError, OSError):
    """The operating system failed to open, read, write or rename a file."""

    status = "SL_EIO"


class NotSupportedError(StarlingError, NotImplementedError):
    """This build, or its StarPU, cannot do this."""

    status = "SL_ENOTSUP"


class DeviceError(StarlingError, RuntimeError):
    """There is no worker or device for the work, or StarPU, METIS, CUDA or NCCL failed."""

    status = "SL_ENODEV"


class NumericError(StarlingError, ArithmeticError):
    """A loss or a gradient is not finite."""

    status = "SL_ENUMERIC"


class NotFoundError(StarlingError, FileNotFoundError):
    """There is no such dataset or checkpoint."""

    status = "SL_ENOTFOUND"


class StarlingWarning(UserWarning):
    """A run is not what the user may expect."""


OK, EINTERRUPT = 0, -9
_ERRORS = {
    -1: ("SL_EINVAL", InvalidArgumentError),
    -2: ("SL_EFILE", BadFileError),
    -3: ("SL_ENOMEM", OutOfMemoryError),
    -4: ("SL_EIO", InputOutputError),
    -5: ("SL_ENOTSUP", NotSupportedError),
    -6: ("SL_ENODEV", DeviceError),
    -7: ("SL_ESTARPU", DeviceError),
    -8: ("SL_EMETIS", DeviceError),
    -9: ("SL_EINTERRUPT", StarlingError),
    -10: ("SL_ENUMERIC", NumericError),
    -11: ("SL_EINTERNAL", StarlingError),
    -12: ("SL_ENOTFOUND", NotFoundError),
    -13: ("SL_ECUDA", DeviceError),
    -14: ("SL_ENCCL", DeviceError),
}


def _prefixes(folder: str) -> list[str]:
    """The folders around the installed package whose lib folders may have the library, the nearest first.

    They end at sys.prefix. Python may also find the package elsewhere, by PYTHONPATH or as a user's package: then
    the prefix is three folders above site-packages, as in PREFIX/lib/python3.11/site-packages.
    """
    around = []
    parent = os.path.dirname(folder)
    while parent != os.path.dirname(parent):
        around.append(parent)
        parent = os.path.dirname(parent)
    prefix = os.path.realpath(sys.prefix)
    for n, parent in enumerate(around):
        if os.path.realpath(parent) == prefix:
            return around[: n + 1]
    if os.path.basename(around[0]) not in ("site-packages", "dist-packages"):
        return []
    if os.path.basename(around[3]) == "local":  # PREFIX/local/lib/python3.11/dist-packages, of Debian's Python
        return around[:5]
    return around[:4]


def _candidates() -> Iterator[str]:
    """Paths of the library, the nearest first: inside the package (a wheel), in the build, below the prefix."""
    named = os.environ.get("STARLING_LIBRARY")
    if named:
        yield named
        return
    folder = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(folder, "lib", SONAME)
    yield os.path.join(os.path.dirname(os.path.dirname(folder)), ".libs", SONAME)
    for prefix in _prefixes(folder):
        for below in ("lib", "lib64"):
            yield os.path.join(prefix, below, SONAME)
        yield from sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "*-linux-gnu", SONAME)))


def _open() -> C.CDLL:
    named = "STARLING_LIBRARY" in os.environ
    for path in _candidates():
        if named or os.path.exists(path):
            try:
                return C.CDLL(path)
            except OSError as error:
                raise ImportError(f"{path}: cannot load Starling's library: {error}") from None
    try:
        return C.CDLL(SONAME)
    except OSError as error:
        raise ImportError(
            f"found no {SONAME}: expected it near {os.path.dirname(__file__)}; install Starling (make install), or set "
            f"STARLING_LIBRARY to its path ({error})"
        ) from None


lib = _open()


class _Sized(C.Structure):
    """A struct whose first member is its size."""

    def __init__(self, **values: Any) -> None:
        super().__init__(size=C.sizeof(type(self)), **values)


class ArrayLinks(C.Structure):
    _fields_ = [
        ("n", C.c_uint32),
        ("from", C.c_void_p),
        ("to", C.c_void_p),
        ("relations", C.c_void_p),
    ]


class Arrays(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("n_vertices", C.c_uint32),
        ("n_edges", C.c_uint64),
        ("sources", C.c_void_p),
        ("destinations", C.c_void_p),
        ("offsets", C.c_void_p),
        ("directed", C.c_bool),
        ("n_features", C.c_uint32),
        ("features", C.c_void_p),
        ("feature_dtype", C.c_char_p),
        ("feature_scale", C.c_float),
        ("feature_offsets", C.c_void_p),
        ("feature_columns", C.c_void_p),
        ("feature_values", C.c_void_p),
        ("n_classes", C.c_uint32),
        ("labels", C.c_void_p),
        ("n_train", C.c_uint32),
        ("n_valid", C.c_uint32),
        ("n_test", C.c_uint32),
        ("train", C.c_void_p),
        ("valid", C.c_void_p),
        ("test", C.c_void_p),
        ("n_targets", C.c_uint32),
        ("targets", C.c_void_p),
        ("edge_weights", C.c_void_p),
        ("edge_relations", C.c_void_p),
        ("n_relations", C.c_uint32),
        ("relation_names", C.c_char_p),
        ("train_links", ArrayLinks),
        ("valid_links", ArrayLinks),
        ("test_links", ArrayLinks),
        ("valid_negatives", ArrayLinks),
        ("test_negatives", ArrayLinks),
        ("relation_ends", C.c_void_p),
        ("class_names", C.c_char_p),
        ("split", C.c_char_p),
        ("split_seed", C.c_uint64),
        ("drop_leaks", C.c_bool),
        ("n_types", C.c_uint32),
        ("type_names", C.c_char_p),
        ("type_vertices", C.c_void_p),
        ("type_columns", C.c_void_p),
        ("feature_names", C.c_char_p),
    ]


class DatasetSizes(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char * 64),
        ("split", C.c_char * 64),
        ("n_vertices", C.c_uint32),
        ("n_edges", C.c_uint64),
        ("n_features", C.c_uint32),
        ("n_outputs", C.c_uint32),
        ("has_classes", C.c_bool),
        ("has_edge_weights", C.c_bool),
        ("synthetic", C.c_bool),
        ("n_train", C.c_uint32),
        ("n_valid", C.c_uint32),
        ("n_test", C.c_uint32),
        ("class_names", C.c_char_p),
        ("vertex_names", C.c_char_p),
        ("n_relations", C.c_uint32),
    ]


class ModelFacts(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("model", C.c_char_p),
        ("objective", C.c_char_p),
        ("dataset", C.c_char_p),
        ("version", C.c_uint32),
        ("n_features", C.c_uint32),
        ("n_outputs", C.c_uint32),
        ("n_embeddings", C.c_uint32),
        ("class_names", C.c_char_p),
        ("relation_names", C.c_char_p),
    ]


class OptionNews(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("name", C.c_char_p),
        ("group", C.c_char_p),
        ("kind", C.c_char_p),
        ("choices", C.c_char_p),
        ("initial", C.c_char_p),
        ("shown", C.c_char_p),
        ("word", C.c_char_p),
        ("help", C.c_char_p),
        ("min", C.c_double),
        ("max", C.c_double),
        ("common", C.c_bool),
        ("of_model", C.c_bool),
        ("of_data", C.c_bool),
    ]


class SessionSizes(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("n_vertices", C.c_uint32),
        ("n_features", C.c_uint32),
        ("n_outputs", C.c_uint32),
        ("n_edges", C.c_uint64),
        ("n_pes", C.c_uint32),
        ("n_parts", C.c_uint32),
        ("n_per_epoch", C.c_uint32),
        ("n_hidden", C.c_uint32),
        ("n_weights", C.c_uint32),
        ("memory_bytes", C.c_uint64),
    ]


class Score(C.Structure):
    _fields_ = [
        ("name", C.c_char * 16),
        ("valid", C.c_double),
        ("test", C.c_double),
        ("larger_is_better", C.c_bool),
        ("is_fraction", C.c_bool),
    ]


class Scores(C.Structure):
    _fields_ = [("valid_loss", C.c_double), ("n", C.c_uint32), ("best_by", C.c_uint32), ("score", Score * 8)]


class StepNews(C.Structure):
    _fields_ = [("size", C.c_size_t), ("epoch", C.c_uint32), ("step", C.c_uint64), ("loss", C.c_double)]


StepFunction = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(StepNews))
LineFunction = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)
NoticeFunction = C.CFUNCTYPE(None, C.c_int, C.c_char_p)


class Report(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("stream", C.c_void_p),
        ("context", C.c_void_p),
        ("step", StepFunction),
        ("epoch", C.c_void_p),
        ("line", LineFunction),
    ]


class Neighborhood(_Sized):
    _fields_ = [
        ("size", C.c_size_t),
        ("n_vertices", C.c_uint32),
        ("n_hops", C.c_uint32),
        ("n_edges", C.c_uint64),
        ("vertices", C.c_void_p),
        ("sources", C.c_void_p),
        ("destinations", C.c_void_p),
        ("weights", C.c_void_p),
        ("hop_vertices", C.c_void_p),
        ("hop_edges", C.c_void_p),
        ("relations", C.c_void_p),
    ]


class Weight(C.Structure):
    _fields_ = [("name", C.c_char * 128), ("n_dims", C.c_uint32), ("shape", C.c_uint64 * 3)]


_P, _S, _PP, _U32 = C.c_void_p, C.c_char_p, C.POINTER(C.c_void_p), C.c_uint32
for _name, _result, _arguments in [
    ("version", _S, []),
    ("message", _S, []),
    ("on_notice", None, [_P]),
    ("settings_new", C.c_int, [_PP]),
    ("settings_new_pipe", C.c_int, [_PP]),
    ("settings_delete", None, [_P]),
    ("settings_set", C.c_int, [_P, _S, _S]),
    ("settings_get", C.c_int, [_P, _S, _S, C.c_size_t]),
    ("settings_list", C.c_int, [_P, _U32, C.POINTER(OptionNews)]),
    ("settings_check_environment", None, [C.c_bool]),
    ("dataset_new", C.c_int, [C.POINTER(Arrays), _PP]),
    ("dataset_open", C.c_int, [_P, _PP]),
    ("dataset_describe", C.c_int, [_P, C.POINTER(DatasetSizes)]),
    ("dataset_delete", None, [_P]),
    ("dataset_features", C.c_int, [_P, _U32, _P, _P]),
    ("dataset_targets", C.c_int, [_P, _U32, _P, _P]),
    ("dataset_split", C.c_int, [_P, C.c_int, _PP, C.POINTER(_U32)]),
    ("sampler_open", C.c_int, [_P, _P, _PP]),
    ("sampler_close", None, [_P]),
    ("sampler_draw", C.c_int, [_P, C.c_uint64, _U32, _P, C.POINTER(Neighborhood)]),
    ("process_count", _U32, []),
    ("session_open", C.c_int, [_P, _P, _PP]),
    ("session_close", None, [_P]),
    ("session_sizes", C.c_int, [_P, C.POINTER(SessionSizes)]),
    ("session_train", C.c_int, [_P, C.POINTER(Report)]),
    ("session_stop", None, [_P]),
    ("session_evaluate", C.c_int, [_P, C.POINTER(Scores), _P, _P]),
    ("session_weight", C.c_int, [_P, _U32, C.POINTER(Weight), _P]),
    ("session_set_weights", C.c_int, [_P, _U32, C.POINTER(Weight), C.POINTER(_P)]),
    ("session_score_links", C.c_int, [_P, C.POINTER(ArrayLinks), _P]),
    ("session_model", C.c_int, [_P, _PP]),
    ("model_load", C.c_int, [_S, _PP]),
    ("model_save", C.c_int, [_P, _S]),
    ("model_delete", None, [_P]),
    ("model_rest", None, []),
    ("model_describe", C.c_int, [_P, C.POINTER(ModelFacts)]),
    ("model_set", C.c_int, [_P, _S, _S]),
    ("model_get", C.c_int, [_P, _S, _S, C.c_size_t]),
    ("model_predict", C.c_int, [_P, _P, _U32, _P, _P]),
    ("model_embed", C.c_int, [_P, _P, _U32, _P, _P]),
    ("model_evaluate", C.c_int, [_P, _P, C.POINTER(Scores)]),
    ("model_score_links", C.c_int, [_P, _P, C.POINTER(ArrayLinks), _P]),
]:
    _function = getattr(lib, "sl_" + _name)
    _function.restype = _result
    _function.argtypes = _arguments

version: str = lib.sl_version().decode()


def _is_boolean(value: Any) -> bool:
    """Whether a value is a boolean of Python or numpy. numpy is not imported for it."""
    return isinstance(value, (bool, getattr(sys.modules.get("numpy"), "bool_", bool)))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


class Option:
    """An option of training: the keyword `keyword` of train()."""

    def __init__(self, news: OptionNews) -> None:
        self.name: str = news.name.decode()
        self.group: str = news.group.decode()
        self.kind: str = news.kind.decode()
        self.choices: list[str] = news.choices.decode().split(",") if news.choices else []
        self.default: str | None = _text(news.initial)
        self.shown: str | None = _text(news.shown)
        self.word: str | None = _text(news.word)
        self.help: str = news.help.decode()
        self.min: float = news.min
        self.max: float = news.max
        self.common: bool = news.common
        self.of_model: bool = news.of_model
        self.of_data: bool = news.of_data
        self.keyword = self.name.replace("-", "_")
        if self.keyword == "lambda":
            self.keyword = "lambda_"

    def __repr__(self) -> str:
        return f"Option({self.keyword!r}, kind={self.kind!r}, default={self.default!r})"

    def text(self, value: Any) -> str:
        """The value in the form of the command line."""
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str):
            return value
        if _is_boolean(value):
            if self.kind == "flag" or "yes" in self.choices:
                return "yes" if value else "no"
            raise TypeError(f"{self.keyword}: found {value!r}, expected {self._expected()}")
        if self.name == "relation-fanout" and isinstance(value, Mapping):
            return "/".join(self._fanouts(relation, numbers) for relation, numbers in value.items())
        if self.name == "class-weights" and hasattr(value, "__iter__") and not isinstance(value, Mapping):
            return self._list([self._real(entry) for entry in value])
        if self.kind == "list" and hasattr(value, "__iter__"):
            return self._list([str(self._whole(entry)) for entry in value])
        if self.kind in ("whole", "long", "list"):
            return str(self._whole(value))
        if self.kind == "real":
            return self._real(value)
        raise TypeError(f"{self.keyword}: found {value!r}, expected {self._expected()}")

    def _list(self, entries: list[str]) -> str:
        if not entries:  # the library takes an empty text for an option that is not given
            raise ValueError(f"{self.keyword}: found an empty list, expected {self._expected()}; None is the default")
        return ",".join(entries)

    def _real(self, value: Any) -> str:
        try:
            return repr(float(value))
        except (TypeError, ValueError):
            raise TypeError(f"{self.keyword}: found {value!r}, expected {self._expected()}") from None

    def _fanouts(self, relation: Any, numbers: Any) -> str:
        """A relation's fanouts. It is a name, a number, or PyG's (source, name, destination)."""
        name = "___".join(map(str, relation)) if isinstance(relation, tuple) else str(relation)
        if isinstance(numbers, str) or not hasattr(numbers, "__iter__"):
            numbers = [numbers]
        return name + ":" + ",".join(str(self._whole(number)) for number in numbers)

    def _whole(self, value: Any) -> int | str:
        if isinstance(value, str):
            return value
        try:
            if int(value) == value:
                return int(value)
        except (TypeError, ValueError, OverflowError):
            pass
        raise TypeError(f"{self.keyword}: found {value!r}, expected {self._expected()}")

    def _expected(self) -> str:
        if self.name == "class-weights":
            return "'balanced', a number for each class, or the path of a file"
        if self.kind == "choice":
            return "one of " + ", ".join(map(repr, self.choices))
        kinds = {
            "flag": "True or False",
            "whole": "a whole number",
            "long": "a whole number",
            "real": "a number",
            "list": "a list of whole numbers",
        }
        return kinds.get(self.kind, "a text") + (f" or {self.word!r}" if self.word else "")


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
        handle = C.c_void_p()
        check(lib.sl_settings_new_pipe(C.byref(handle)) if pipe else lib.sl_settings_new(C.byref(handle)))
        self.handle = handle

    def set(self, name: str, text: str | None) -> None:
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
    return re.sub(r"--([a-z][a-z-]*)", _keyword_of, text.decode(errors="replace"))


def message() -> str:
    """The thread's last message, with options written as keywords."""
    return in_keywords(lib.sl_message())


_all_keywords: dict[str, str] = {}


def _keyword_of(match: re.Match[str]) -> str:
    return _all_keywords.get(str(match[1]), str(match[0]))


def check(status: int) -> None:
    """Raise the exception of a status."""
    if status != OK:
        name, kind = _ERRORS.get(status, ("SL_EINTERNAL", StarlingError))
        error = kind(message())
        error.status = name
        raise error


OPTIONS = {False: _list_options(False), True: _list_options(True)}
KEPT = ("cache", "split")  # options of data that train() takes as well
LOAD = {key for key, option in OPTIONS[False].items() if option.of_data and key != "dataset"}
LOAD |= {"normalize_features", "objective"}  # of a model as well
_all_keywords.update({option.name: option.keyword for table in OPTIONS.values() for option in table.values()})


LAYERS = 3  # of the library, without layers and a list of fanouts


@functools.lru_cache(None)
def _check_environment() -> None:
    """Warn, once, of variables STARLING_NAME that are not read."""
    lib.sl_settings_check_environment(False)


def make_settings(pipe: bool, options: Mapping[str, Any], caller: str) -> Settings:
    """Settings of keywords. TypeError: an unknown keyword, or a value of a wrong type."""
    _check_environment()
    settings = Settings(pipe)
    if options.get("layers") is None and options.get("fanout") is not None and not pipe and not options.get("load"):
        if not isinstance(options["fanout"], str) and not hasattr(options["fanout"], "__iter__"):
            options = {**options, "layers": LAYERS}  # a number is for each layer
    for keyword, value in options.items():
        option = OPTIONS[pipe].get(keyword)
        if option is None:
            raise TypeError(f"{caller}() got an unexpected keyword argument '{keyword}'{nearest(pipe, keyword)}")
        if value is not None:
            settings.set(option.name, option.text(value))
    return settings


def nearest(pipe: bool, keyword: str) -> str:
    """The library's advice about an unknown keyword."""
    if keyword in OPTIONS[not pipe]:
        return f"; it is an option with pipe={not pipe}"
    settings = Settings(pipe)
    if lib.sl_settings_set(settings.handle, keyword.encode(), b"") == OK:
        return ""
    advice = message().partition("has no such option; ")[2]
    if "--help-all" in advice:
        return "; help(starling_gnn.train) lists the keywords"
    return "; " + re.sub(r"did you mean (\w+)", r"did you mean '\1'", advice)
