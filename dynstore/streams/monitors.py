"""Answers after every few batches or hours, handed to callbacks that cannot disturb the stream."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from threading import Condition, Thread, current_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dynstore.algorithms.registry import find_algorithm
from dynstore.algorithms.tracking import TRACKED
from dynstore.arguments import check_count, check_flag, check_name, check_number
from dynstore.errors import InputError, InputTypeError, shown, type_name
from dynstore.input.times import read_span

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.algorithms.tracking import Monitor
    from dynstore.graph import DynamicGraph
    from dynstore.streams.boundaries import Length
    from dynstore.streams.progress import Meter
    from dynstore.streams.questions import VersionTime
    from dynstore.typing import Array

__all__ = ["Delivery", "StreamMonitor", "Tick", "read_every"]

_log = logging.getLogger("dynstore")


@dataclass(frozen=True, slots=True)
class Tick:
    """An answer after a batch.

    Attributes
    ----------
    name : str
        The name of the answer, such as "pagerank".
    version : int
        The version of the graph for which it was computed.
    event_time : int, float or numpy.datetime64, or None
        The newest time of the rows up to this version; None before the first row with a time.
    result : frame
        The whole answer, as the function returns it.
    changed : frame
        The rows of ``result`` that differ from those of the last tick that the callback got.
    ms : float
        The time of bringing the answer up to date, in milliseconds.
    boundary : int, float or numpy.datetime64, or None
        The full hour that the answer is for, or any other multiple of ``every``; None for an answer after a batch.
    rebuilding : bool
        Whether the rows of a window are being read again after a restart: the graph has only a part of the window.
    """

    name: str
    version: int
    event_time: Any
    result: Any
    changed: Any
    ms: float
    boundary: Any = None
    rebuilding: bool = False


class Delivery:
    """Calls a callback on a thread of its own, with each tick that :meth:`take_back` has not taken back in time."""

    def __init__(self, name: str, callback: Callable[[Tick], None], meter: Meter) -> None:
        self._name, self._callback, self._meter = name, callback, meter
        self._changed = Condition()
        self._next: deque[tuple[Tick, Any]] = deque()
        self._busy = self._closed = False
        self.shown: Any = None  # the state that the last fetched tick shows; it changes only while one waits
        self._thread = Thread(target=self._run, name=f"dynstore-callback-{name}", daemon=True)
        self._thread.start()

    def take_back(self) -> None:
        """Take back a tick that the callback has not got; from here on ``shown`` stays."""
        with self._changed:
            if self._next:
                self._next.clear()
                self._meter.skip_tick()

    def hand_over(self, tick: Tick, state: Any) -> None:
        """Leave a tick for the callback."""
        with self._changed:
            self._next.append((tick, state))
            self._changed.notify_all()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the callback has returned from all ticks; return whether it has. It does not wait for itself."""
        if current_thread() is self._thread:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._next and not self._busy, timeout)

    def close(self) -> None:
        """Let the thread end after the ticks that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._next or self._closed)
                if not self._next:
                    return
                tick, self.shown = self._next.popleft()
                self._busy = True
            try:
                self._callback(tick)
            except BaseException as error:  # also SystemExit, which would end the thread
                self._meter.error(f"the callback of {self._name} raised {type_name(error)}: {error}")
                _log.warning("Stream: the callback of %s raised", self._name, exc_info=True)


class StreamMonitor:
    """One monitored answer; see :meth:`Stream.monitor`.

    Attributes
    ----------
    name : str
        The name of the answer, such as "pagerank".
    latest : Tick or None
        The last tick. The callback may not have got it yet.
    length : int or float, or None
        Of the event time between two answers; None where batches are counted.
    """

    def __init__(
        self,
        G: DynamicGraph,
        name: str,
        on_result: Callable[[Tick], None] | None,
        every: int,
        length: Length | None,
        changed_only: bool | None,
        min_change: float,
        params: dict[str, Any],
        meter: Meter,
    ) -> None:
        check_name("monitor", "answer", name, TRACKED)
        if on_result is not None and not callable(on_result):
            raise InputTypeError(f"monitor: on_result is {on_result!r}; wanted a function of a Tick")
        record = find_algorithm(name)
        record.check(G)
        record.check_parameters(params, f"monitor: {name}")
        if record.start is not None and not {record.start, f"i_{record.start}"} & params.keys():
            raise InputError(f"monitor: {name}: {record.start!r} is missing; wanted where to start")
        self.name, self._graph, self._params, self._meter = name, G, params, meter
        self._every, self.length = every, length
        changed_only = length is None if changed_only is None else changed_only
        self._changed_only = check_flag("monitor", "changed_only", changed_only)
        self._min_change = check_number("monitor", "min_change", min_change, least=0)
        self.latest: Tick | None = None
        self._monitor: Monitor | None = None
        self._delivery = None if on_result is None else Delivery(name, on_result, meter)
        self._batches = 0
        self._shown: Any = None

    def after_batch(self, version_time: VersionTime, last: bool = False) -> None:
        """Answer if it is due; ``last``: if batches have come since the last answer."""
        self._batches += not last
        is_due = self.length is None and self._batches >= self._every
        if is_due or (last and self._batches):
            self.answer(version_time)

    def answer(self, version_time: VersionTime, boundary: Any = None) -> None:
        """Answer for the present version; ``boundary``: the full hour that the answer is for."""
        self._batches = 0
        try:
            self._bring_up(version_time, boundary)
        except Exception as error:
            self._meter.error(f"{self.name} could not be brought up to date: {error}")
            _log.warning("Stream: %s could not be brought up to date: %s", self.name, error)

    def _bring_up(self, version_time: VersionTime, boundary: Any) -> None:
        begun = perf_counter()
        if self._monitor is None:
            self._monitor = self._graph.track(self.name, **self._params)
        self._monitor.refresh()
        self._graph.core.backend.synchronize()
        ms = 1e3 * (perf_counter() - begun)
        state = self._graph.core.ids.epoch, [array for array in self._monitor.arrays() if array is not None]
        result = self._monitor.result()
        if self._delivery is not None and self.length is None:
            self._delivery.take_back()
            self._shown = self._delivery.shown
        rows = _changed_rows(self._graph.core.backend.xp, self._shown, state, self._min_change)
        version, changed = self._graph.version, _chosen(self._graph, result, rows)
        tick = Tick(self.name, version, version_time.event_time, result, changed, ms, boundary, version_time.rebuilding)
        self.latest = tick
        if self._delivery is None:
            self._shown = state
        elif rows is None or len(rows) or not self._changed_only:
            self._delivery.hand_over(tick, state)
            self._shown = state  # where the function gets each tick

    def wait(self, timeout: float | None) -> bool:
        """Wait until the callback is through; return whether it is."""
        return self._delivery is None or self._delivery.wait(timeout)

    def close(self) -> None:
        """Stop following the graph."""
        if self._monitor is not None:
            self._monitor.close()
        if self._delivery is not None:
            self._delivery.close()


def read_every(every: Any, by: str | None) -> tuple[int, tuple[Length, bool] | None]:
    """Read how often a monitor answers: return a number of batches, and a length of event time if it goes by time."""
    check_name("monitor", "by", "batches" if by is None else by, ("batches", "time"))
    is_number = isinstance(every, int | float | np.integer | np.floating)
    if by == "time" or (by is None and not is_number):
        return 1, read_span("monitor", "every", every)
    if not is_number:
        raise InputError(f"monitor: every is {shown(every)} and by is 'batches'; wanted a number of batches")
    return check_count("monitor", "every", every, least=1) or 1, None


def _changed_rows(xp: Any, before: Any, after: Any, least: float) -> Array | None:
    """Return the numbers of rows that differ by more than ``least``; None for all."""
    if before is None or before[0] != after[0]:
        return None
    changed = None
    for old, new in zip(before[1], after[1], strict=True):
        count = min(len(old), len(new))
        differs = xp.ones(len(new), np.bool_)
        if least and new.dtype.kind == "f":
            differs[:count] = abs(new[:count] - old[:count]) > least
        else:
            differs[:count] = new[:count] != old[:count]
        changed = differs if changed is None else changed | differs
    return None if changed is None else xp.nonzero(changed)[0]


def _chosen(G: DynamicGraph, result: Any, rows: Array | None) -> Any:
    """Return some rows of a result; all if their numbers are not those of the vertices."""
    if rows is None or len(result) != G.number_of_vertices():
        return result
    if not type(result).__module__.startswith("cudf"):
        rows = G.core.backend.to_host(rows)
    if hasattr(result, "iloc"):
        return result.iloc[rows]
    return result.take(rows) if hasattr(result, "column_names") else result[rows]
