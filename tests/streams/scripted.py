"""A source that tests control."""

from __future__ import annotations

from queue import Empty, Queue
from threading import Event
from typing import Any

from dynstore.streams.source import BaseSource


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
