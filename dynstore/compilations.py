"""Kernels that are compiled, or loaded from disk: counted and named; a long compilation is announced once."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Compilations", "Made", "compilations"]

LONG_S = 2.0
ANNOUNCEMENT = (
    "dynstore: compiling kernels for their first use. This may take a minute; it happens once, because they are kept "
    "on disk. `python -m dynstore warmup` compiles the usual ones"
)
KEPT = 4096  # of the last kernels, which are named
_log = logging.getLogger("dynstore")


class Made(NamedTuple):
    """A kernel, or a function that kernels call, that was made ready for some types of arguments.

    Attributes
    ----------
    name : str
        Of the function, with its module.
    types : str
        Of its arguments, as Numba writes them.
    how : {"compiled", "loaded"}
        "loaded": from disk.
    """

    name: str
    types: str
    how: Literal["compiled", "loaded"]


class _Begun(threading.local):
    """The compilations that a thread is in: a kernel's may begin those of what it calls."""

    depth = 0
    since = 0.0


class Compilations:
    """What this process has compiled, and what it has loaded from disk, on the host and for CUDA.

    Attributes
    ----------
    count : int
        Kernels compiled, with the functions that they call.
    loaded : int
        Kernels that were on disk.
    seconds : float
        How long compiling took.
    kernels : collections.deque of Made
        The last 4,096 of both, the oldest one first.
    on_kernel : callable or None
        If set, it gets each :class:`Made`, on the thread that needed the kernel.
    announced : bool
        Whether the log record on long compilations was written. Set it to write none.
    """

    def __init__(self) -> None:
        self.count, self.loaded, self.seconds, self.announced = 0, 0, 0.0, False
        self.kernels: deque[Made] = deque(maxlen=KEPT)
        self.on_kernel: Callable[[Made], None] | None = None
        self._begun = _Begun()

    def begin(self) -> None:
        """Note that this thread begins to compile; one compilation may begin another one."""
        begun = self._begun
        if begun.depth == 0:
            begun.since = time.perf_counter()
        begun.depth += 1
        self._announce()

    def end(self, function: Callable[..., Any], types: object) -> None:
        """Note that the compilation which this thread began last has ended, well or not."""
        begun = self._begun
        self._announce()
        begun.depth -= 1
        self.count += 1
        if begun.depth == 0:
            self.seconds += time.perf_counter() - begun.since
        self._note(function, types, "compiled")

    def load(self, function: Callable[..., Any], types: object) -> None:
        """Note that a kernel came from disk."""
        self.loaded += 1
        self._note(function, types, "loaded")

    def _note(self, function: Callable[..., Any], types: object, how: Literal["compiled", "loaded"]) -> None:
        made = Made(f"{function.__module__}.{function.__qualname__}", str(types), how)
        self.kernels.append(made)
        if self.on_kernel is not None:
            self.on_kernel(made)

    def _announce(self) -> None:
        """Write the record if all compilations so far have taken longer than two seconds."""
        if not self.announced and self.seconds + time.perf_counter() - self._begun.since > LONG_S:
            self.announced = True
            _log.warning(ANNOUNCEMENT)


compilations = Compilations()
