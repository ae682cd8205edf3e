# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
"""The process's session of the library.

A process has at most one open session. The module keeps the last run's session, so that its predictions come at once,
and closes it before the next one is opened, before a fork and at exit.

The calls that take long run in a thread of their own. The caller waits for the thread's events, and runs callbacks: so
an exception in a callback is an exception of the caller, and Ctrl-C reaches the caller at any time.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes as C
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _library
from ._library import Settings, check, lib, made, warn
from ._tools import Floats, Record, np

if TYPE_CHECKING:
    from ._graph import Graph

T = TypeVar("T")

_AT_EXIT_S = 10  # at most, for a thread of the library at the end of the interpreter

_lock = threading.Lock()  # held while the library works on a session, or opens one
_current: Session | None = None  # the open session that rests
_threads: set[Job] = set()  # jobs that run
_local = threading.local()  # in_callback: this thread runs a callback of a training
_lost = False  # this process is the copy of one with an open session


class Session:
    """An open session. Opened, used and closed under the lock."""

    def __init__(self, settings: Settings, graph: Graph) -> None:
        self.settings = settings
        self.guard = threading.Lock()  # between stop, of any thread, and close
        self.handle: Any = made(C.c_void_p, lib.sl_session_open, settings.handle, graph._handle)
        self.sizes = made(_library.SessionSizes, lib.sl_session_sizes, self.handle)

    def close(self) -> None:
        global _current
        if _current is self:
            _current = None
        with self.guard:
            handle, self.handle = self.handle, None
        if handle is not None and not _lost:
            lib.sl_session_close(handle)

    def stop(self) -> None:
        with self.guard:
            if self.handle is not None:
                lib.sl_session_stop(self.handle)

    def set_weights(self, weights: Mapping[str, Floats]) -> None:
        """weights: float32 arrays in C order, by name."""
        n = len(weights)
        described = (_library.Weight * max(1, n))()
        values = (C.c_void_p * max(1, n))()
        for i, (name, array) in enumerate(weights.items()):
            if array.ndim > 3:
                raise ValueError(f"weights: {name} has {array.ndim} dimensions, expected 1 to 3")
            described[i] = _library.Weight(name=name.encode()[:127], n_dims=array.ndim, shape=array.shape)
            values[i] = array.ctypes.data
        check(lib.sl_session_set_weights(self.handle, n, described, values))

    def evaluate(self) -> Record:
        scores = _library.Scores()
        check(lib.sl_session_evaluate(self.handle, C.byref(scores), None, None))
        return read_scores(scores)

    def rows(self, hidden: bool) -> Floats:
        """The outputs of all vertices, float32 (N, K); hidden: their last hidden layer, float32 (N, hidden)."""
        width = self.sizes.n_hidden if hidden else self.sizes.n_outputs
        if width == 0:
            raise ValueError("a model of one layer has no embeddings")
        rows = np.empty((self.sizes.n_vertices, width), np.float32)
        addresses = (None, rows.ctypes.data) if hidden else (rows.ctypes.data, None)
        check(lib.sl_session_evaluate(self.handle, None, *addresses))
        return rows


def read_scores(scores: _library.Scores) -> Record:
    """The loss, and the scores as valid_NAME and test_NAME."""
    found = Record(valid_loss=scores.valid_loss)
    for score in scores.score[: scores.n]:
        found["valid_" + score.name.decode()] = score.valid
        found["test_" + score.name.decode()] = score.test
    return found


class Job:
    """A call in a thread. `call(job)` runs under the lock, and may open a session with job.open().

    The session of a call that returns stays open. After an exception or an abandoned call it is closed.
    """

    def __init__(self, call: Callable[[Job], T]) -> None:
        self._call = call
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()  # its put may be called by a signal handler
        self.session: Session | None = None
        self.raises = False
        self.abandoned = False
        self.n_interrupts = 0
        self.thread = threading.Thread(target=self._run, name="starling", daemon=True)

    # ---- in the thread ----

    def open(self, settings: Settings, graph: Graph, weights: Mapping[str, Floats] | None = None) -> Session:
        close_current()
        self.session = Session(settings, graph)
        if weights is not None:
            self.session.set_weights(weights)
        if self.abandoned:
            raise KeyboardInterrupt
        return self.session

    def tell(self, kind: str, value: Any, ask: bool = False) -> bool:
        """Hand an event to the caller. ask: wait for the answer; True: stop."""
        answer: queue.SimpleQueue[bool] | None = queue.SimpleQueue() if ask else None
        self.events.put((kind, value, answer))
        while answer is not None and not self.abandoned:
            with contextlib.suppress(queue.Empty):
                return answer.get(timeout=1)
        return ask

    def _run(self) -> None:
        global _current
        _threads.add(self)
        with _lock:
            try:
                _sweep()
                event: Any = ("done", self._call(self), None)
            except BaseException as error:  # handed to the caller
                event = ("failed", error, None)
            if self.session is not None:
                _current = self.session
                if self.abandoned or event[0] == "failed":
                    self.session.close()
            _threads.discard(self)
        self.events.put(event)

    # ---- in the caller ----

    def stop(self) -> None:
        if self.session is not None:
            self.session.stop()

    def wait(self, answer: Callable[[str, Any], Any]) -> Any:
        """Run the call, and answer its events by answer(kind, value), in the caller's thread.

        The n-th Ctrl-C is answer("interrupt", n). True: give up the call, and raise KeyboardInterrupt. The call then
        ends by itself."""
        _check()
        mine = threading.current_thread() is threading.main_thread()  # another thread, or handler, keeps Ctrl-C
        mine = mine and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            if mine:
                signal.signal(signal.SIGINT, self._interrupt)
            self.thread.start()
            while True:
                kind, value, reply = self.events.get()
                if kind == "done":
                    return value
                if kind == "failed":
                    raise value
                if kind == "notice":
                    warn(value)
                    continue
                stop = answer(kind, value)
                if kind == "interrupt" and stop:
                    raise KeyboardInterrupt
                if reply is not None:
                    reply.put(bool(stop))
        except BaseException:
            self.abandoned = True
            self.stop()
            raise
        finally:
            _local.in_callback = False  # Ctrl-C may have ended callback() before it could
            if mine:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: Any) -> None:
        """Ctrl-C, at which Python's own handler raises at any place. `raises`: a callback of the user runs."""
        self.n_interrupts += 1
        if self.raises:
            raise KeyboardInterrupt
        self.events.put(("interrupt", self.n_interrupts, None))

    def callback(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the user, which Ctrl-C may end."""
        _local.in_callback = True
        self.raises = True
        try:
            return function(*arguments)
        finally:
            self.raises = False
            _local.in_callback = False


def run(call: Callable[[Job], T], answer: Callable[[str, Any], Any] = lambda kind, value: value >= 1) -> T:
    """The result of call(job) in a thread. Ctrl-C gives the call up."""
    result: T = Job(call).wait(answer)
    return result


def close_current() -> None:
    """Close the session of a training, under the lock."""
    if _current is not None:
        _current.close()


def _close_all() -> None:
    """Close the sessions of a training and of a model, under the lock."""
    close_current()
    lib.sl_model_rest()


_disposed: queue.SimpleQueue[Any] = queue.SimpleQueue()  # deletions that wait for the lock


def dispose(delete: Callable[[Any], None], handle: Any) -> None:
    """Delete an object that may have an open session. The garbage collector calls it at any place, in any thread."""
    _disposed.put((delete, handle))
    if not _lost:
        _if_free(_sweep)


def _if_free(work: Callable[[], None]) -> None:
    """Call a function under the lock, unless the lock is held."""
    if _lock.acquire(blocking=False):
        try:
            work()
        finally:
            _lock.release()


def _sweep() -> None:
    """Delete what dispose() has left, under the lock."""
    while not _disposed.empty():
        delete, handle = _disposed.get_nowait()
        delete(handle)


def close() -> None:
    """Close the open session. Runs and models open another one if they need it.

    A session closes by itself before the next one. Close it to give its memory back earlier.
    """
    _check()
    with _lock:
        _close_all()


def _check() -> None:
    """Refuse a use of the library in a process or at a place where there is none."""
    if _lost:
        raise _library.StarlingError(
            "this process was forked while a session trained, and cannot use it: expected a fork before "
            "or after training; or start the process by spawn (multiprocessing.get_context('spawn'))"
        )
    n = lib.sl_process_count()
    if n > 1:
        raise _library.NotSupportedError(
            f"found {n} processes of mpirun or srun, expected one process in Python; start Python without mpirun or "
            "srun, or train with coop_sage"
        )
    if getattr(_local, "in_callback", False):
        raise RuntimeError(
            "found a call of Starling in a callback of a training, expected it after the training: a process has one "
            "session at a time"
        )


# ---- fork and exit ----


def _in_child() -> None:
    global _lock, _lost, _current
    if _lock.locked():
        _lost = True
    _lock = threading.Lock()
    _current = None
    _threads.clear()


os.register_at_fork(before=lambda: _if_free(_close_all), after_in_child=_in_child)


def _notice(kind: int, line: bytes) -> None:
    if kind != 0:
        return
    text = _library.in_keywords(line)
    for job in list(_threads):
        job.tell("notice", text)
        return
    warn(text)


_notice_function = _library.NoticeFunction(_notice)
lib.sl_on_notice(_notice_function)


def _at_exit() -> None:
    if _lost:
        return
    for job in list(_threads):
        job.abandoned = True
        job.stop()
        job.thread.join(_AT_EXIT_S)
    if _lock.acquire(timeout=1):
        _close_all()
        lib.sl_on_notice(None)
        _lock.release()


atexit.register(_at_exit)
