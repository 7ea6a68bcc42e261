"""All timing goes through here: the device is idle before and after, the garbage collector is off."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = ["LapTimer", "percentiles", "quiet", "time_call"]


class LapTimer:
    """Wall time between laps; on CUDA each lap waits for the device, so that it includes the device's work."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._last = 0

    def start(self) -> None:
        """Begin the first lap."""
        self._backend.synchronize()
        self._last = time.perf_counter_ns()

    def lap(self) -> float:
        """End the lap and begin the next one; return the lap in ms."""
        self._backend.synchronize()
        now = time.perf_counter_ns()
        passed_ms = (now - self._last) / 1e6
        self._last = now
        return passed_ms


def time_call(backend: Backend, call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Call; return the result and the ms between two CUDA events around it, host work included; or the wall time."""
    if not backend.on_gpu:
        watch = LapTimer(backend)
        watch.start()
        return call(*arguments), watch.lap()
    cuda = backend.xp.cuda
    begin, end = cuda.Event(), cuda.Event()
    cuda.Device().synchronize()
    begin.record()
    result = call(*arguments)
    end.record()
    end.synchronize()
    return result, float(cuda.get_elapsed_time(begin, end))


@contextmanager
def quiet() -> Iterator[None]:
    """Collect garbage now, and then not until the ``with`` block ends."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def percentiles(times_ms: list[float]) -> dict[str, float]:
    """Return median_ms, p90_ms, p99_ms and max_ms (linear between the two nearest values)."""
    values = np.asarray(times_ms, dtype=np.float64)
    median, p90, p99 = np.percentile(values, [50, 90, 99])
    return {"median_ms": float(median), "p90_ms": float(p90), "p99_ms": float(p99), "max_ms": float(values.max())}
