"""Compiling host kernels; every ``cpu`` module takes its decorators from here.

Numba keeps compiled kernels beside their source or in the user's cache folder. Here ``DYNSTORE_CACHE_DIR`` comes
first, where it is set. Kernels are not read from a folder to which other users may write. If kernels cannot be kept
anywhere, or what was kept cannot be read, they are compiled again: that costs a compilation, never an error.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core import types as numba_types
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

from dynstore.caches import BY_OTHERS, cache_folder, is_trusted, make_private
from dynstore.compilations import compilations
from dynstore.interrupts import Uninterrupted

__all__ = ["inlined", "njit"]

_log = logging.getLogger("dynstore")
_folder_lock = threading.Lock()


def njit(
    function: Callable[..., Any] | None = None, *, cache: bool = False, borrows: bool = False, **options: Any
) -> Any:
    """Decorate a host kernel: Numba's ``njit``, with a cache that raises no errors.

    ``borrows``: a part of kernels that allocates nothing and returns no array, so no references have to be counted
    there. Else each call adds to and takes from the count of each array atomically, unless LLVM sees that both cancel;
    one ``if`` may be enough that it does not. Numba refuses allocations in such a function, and an array that is
    returned raises TypeError when it is compiled.
    """
    if function is None:
        return partial(njit, cache=cache, borrows=borrows, **options)
    if borrows:
        options["_nrt"] = False  # Numba's own way to say it; from 0.61 on, our lower bound, at least
    compiled = numba.njit(**options)(function)
    if cache and isinstance(compiled, CPUDispatcher):  # a plain function where NUMBA_DISABLE_JIT is set
        try:
            kept = _make_cache(function)
            if _is_trusted(Path(kept.cache_path), Path(function.__code__.co_filename).parent):
                compiled._cache = kept
        except (OSError, RuntimeError) as error:  # no folder that can be written
            _log.debug("%s is compiled in each process: %s", function.__name__, error)
    return compiled


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a part of host kernels that borrows, and is compiled into each."""
    return njit(function, borrows=True, forceinline=True)


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function; a damaged file or a full disk is as good as none.

    Signals wait while a kernel is loaded or kept: LLVM calls Python from C, where Python drops what a handler raises.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with Uninterrupted():
            try:
                found = super().load_overload(sig, target_context)
            except Exception as error:  # unpickling a damaged file raises anything
                _log.debug("%s: what was kept cannot be read: %s", self._name, error)
                return None
            if found is not None:
                compilations.load(self._py_func, sig)
            return found

    def save_overload(self, sig: Any, data: Any) -> None:
        with Uninterrupted():
            try:
                super().save_overload(sig, data)
            except Exception as error:  # a damaged index is read first, which raises anything
                _log.debug("%s is not kept: %s", self._name, error)


@cache
def _is_trusted(folder: Path, source: Path) -> bool:
    """Whether a folder of kernels may be used; one beside the source is as safe as the source, if not more open."""
    if folder.parent != source:
        return is_trusted(folder)
    own, beside = folder.stat(), source.stat()
    is_ours = own.st_uid in (0, os.getuid(), beside.st_uid)
    return (is_ours and not own.st_mode & ~beside.st_mode & BY_OTHERS) or is_trusted(folder)


def _make_cache(function: Callable[..., Any]) -> _Cache:
    """Make a function's cache. Numba reads its folder from its settings, which other threads may use, too."""
    if not os.environ.get("DYNSTORE_CACHE_DIR"):
        return _Cache(function)
    with _folder_lock:
        before, folder = numba.config.CACHE_DIR, (cache_folder() / "host").absolute()
        with suppress(OSError):  # then Numba looks for another folder
            make_private(folder)
        numba.config.CACHE_DIR = str(folder)
        try:
            return _Cache(function)
        finally:
            numba.config.CACHE_DIR = before


class _Listener(event.Listener):  # type: ignore[misc]
    """Counts compilations of our host kernels; Numba calls it for all that it compiles, and for nothing else.

    Meanwhile it holds signals back: Numba's compiler drops what a handler raises where C calls Python, so that every
    fifth Ctrl-C was lost.
    """

    def __init__(self) -> None:
        self._held = threading.local()  # the blocks of each thread; kernels compile the kernels that they call

    def on_start(self, event: Any) -> None:
        if _is_ours(event):
            compilations.begin()
            self._held.__dict__.setdefault("blocks", []).append(Uninterrupted())
            self._held.blocks[-1].__enter__()

    def on_end(self, event: Any) -> None:
        if _is_ours(event):
            with ExitStack() as held:
                held.push(self._held.blocks.pop())  # it was entered when the compilation began
                compiled, arguments = event.data["dispatcher"], event.data["args"]
                compilations.end(compiled.py_func, arguments)
                _check_borrowed(compiled, arguments)


_types: Any = numba_types  # whose names mypy does not see
_TUPLE, _NUMBERS = _types.BaseTuple, (_types.Number, _types.Boolean, _types.NoneType)


def _check_borrowed(compiled: Any, arguments: Any) -> None:
    """Refuse a function that borrows and returns an array: its caller would give back a reference that nobody took."""
    found = compiled.overloads.get(tuple(arguments))
    if compiled.targetoptions.get("_nrt", True) or found is None:
        return
    returned: Any = found.signature.return_type
    parts = returned.types if isinstance(returned, _TUPLE) else (returned,)
    if not all(isinstance(part, _NUMBERS) for part in parts):
        raise TypeError(f"{compiled.py_func.__name__}: it borrows, and returns {returned}; wanted numbers")


def _is_ours(event: Any) -> bool:
    compiled = event.data["dispatcher"]
    return isinstance(compiled, CPUDispatcher) and compiled.py_func.__module__.startswith("dynstore.")


event.register("numba:compile", _Listener())
