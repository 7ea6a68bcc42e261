"""Kernels that are being compiled: counted, and announced once if that takes long."""

from __future__ import annotations

import logging
import threading
import time

__all__ = ["Compilations", "compilations"]

LONG_S = 2.0
ANNOUNCEMENT = (
    "dynstore: compiling kernels for their first use. This may take a minute; it happens once, because they are kept "
    "on disk. `python -m dynstore warmup` compiles the usual ones"
)
_log = logging.getLogger("dynstore")


class _Begun(threading.local):
    """The compilations that a thread is in: a kernel's may begin those of what it calls."""

    depth = 0
    since = 0.0


class Compilations:
    """What this process has compiled, on the host and for CUDA. A context manager: the body compiles one kernel.

    Attributes
    ----------
    count : int
        Kernels compiled; those that were on disk do not count.
    seconds : float
        How long that took.
    announced : bool
        Whether the log record on long compilations was written. Set it to write none.
    """

    def __init__(self) -> None:
        self.count, self.seconds, self.announced = 0, 0.0, False
        self._begun = _Begun()

    def __enter__(self) -> None:
        begun = self._begun
        if begun.depth == 0:
            begun.since = time.perf_counter()
        begun.depth += 1
        self._announce()

    def __exit__(self, *error: object) -> None:
        begun = self._begun
        self._announce()
        begun.depth -= 1
        self.count += 1
        if begun.depth == 0:
            self.seconds += time.perf_counter() - begun.since

    def _announce(self) -> None:
        """Write the record if all compilations so far have taken longer than two seconds."""
        if not self.announced and self.seconds + time.perf_counter() - self._begun.since > LONG_S:
            self.announced = True
            _log.warning(ANNOUNCEMENT)


compilations = Compilations()
