"""How far the current call of a graph is."""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple

__all__ = ["Progress", "Watch"]


class Progress(NamedTuple):
    """How far the current call of a graph is.

    Attributes
    ----------
    call : str or None
        The call, such as "insert_edges"; None between calls.
    step : {"idle", "partitions", "ranks"}
        "partitions": Dask computes the frame that was passed. "ranks": all ranks work.
    ready, partitions : int
        How many partitions of the frame there are already, and how many there will be.
    seconds : float
        Since the call began.
    calls : int
        Calls that have ended, errors included.
    """

    call: str | None
    step: str
    ready: int
    partitions: int
    seconds: float
    calls: int


class Watch:
    """A ``with`` block around each call, which other threads may look at.

    Attributes
    ----------
    partitions : list of distributed.Future
        What the call waits for.
    """

    def __init__(self) -> None:
        self.partitions: list[Any] = []
        self._call: str | None = None
        self._step, self._began, self._calls = "idle", 0.0, 0

    def __call__(self, call: str) -> Watch:
        """Begin a call with this name."""
        self._call, self._step, self._began = call, "partitions", monotonic()
        return self

    def ranks(self) -> None:
        """Note that the ranks begin to work."""
        self._step = "ranks"

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._call, self._step, self.partitions = None, "idle", []
        self._calls += 1

    def show(self) -> Progress:
        """Return the state of now."""
        call, partitions = self._call, self.partitions
        ready = sum(future.done() for future in partitions)
        seconds = 0.0 if call is None else monotonic() - self._began
        return Progress(call, self._step, ready, len(partitions), seconds, self._calls)
