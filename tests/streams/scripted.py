"""A source that tests control, and what tests of streams share."""

from __future__ import annotations

import time
from queue import Empty, Queue
from threading import Event
from typing import Any

import numpy as np

from dynstore import DynamicGraph
from dynstore.streams.sources.base import BaseSource

SOON = 20.0


class Scripted(BaseSource):
    """Hands out what tests put in; notes the calls that it gets."""

    def __init__(self, *batches: Any, ends: bool = False) -> None:
        self.queue: Queue[Any] = Queue()
        for batch in batches:
            self.queue.put(batch)
        if ends:
            self.queue.put(EOFError())
        self.count = 0
        self.committed: list[int] = []
        self.pauses: list[bool] = []
        self.sought: list[int] = []
        self.closed = Event()

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        try:
            batch = self.queue.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(batch, BaseException):
            raise batch
        self.count += 1
        return batch, self.count

    def seek(self, position: int) -> None:
        self.sought.append(position)
        self.count = position

    def commit(self, position: int) -> None:
        self.committed.append(position)

    def pause(self, on: bool) -> None:
        self.pauses.append(on)

    def close(self) -> None:
        self.closed.set()


def graph(**options: Any) -> DynamicGraph:
    return DynamicGraph(**{"device": "cpu", **options})


def pairs_of(G: DynamicGraph) -> set[tuple[Any, Any]]:
    table = G.to_pandas()
    return set(zip(table["source"], table["destination"], strict=True))


def path(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """The edges of a path; each row is another edge."""
    rows = np.arange(first, last)
    return rows, rows + 1


def wait_until(condition: Any, timeout: float = SOON) -> None:
    ends = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.002)
