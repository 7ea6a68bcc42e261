"""Batches that an Arrow Flight server sends, as a source."""

from __future__ import annotations

from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import FileFormatError
from dynstore.streams.sources.base import BaseSource
from dynstore.streams.units import One

__all__ = ["FlightSource"]

LOOK_S = 0.1


class FlightSource(BaseSource):
    """The record batches that an Arrow Flight server sends for a ticket.

    A position is a number of batches. Flight has no positions, so nothing is committed to the server. After a restart
    it sends all batches again. With the graph of a database, whose log keeps the position, the first batches are
    skipped.

    Parameters
    ----------
    ticket : str or bytes
        The ticket for the server's ``do_get``.
    location : str
        The address of the server. It is connected to when the stream starts.

    Raises
    ------
    MissingDependencyError
        Without pyarrow.
    """

    def __init__(self, ticket: str | bytes, location: str = "grpc://localhost:8815") -> None:
        self._flight = require("FlightSource", "pyarrow.flight")
        self._client: Any = self._flight.connect(location)
        self._ticket = self._flight.Ticket(ticket)
        self._reader: Any = None
        self._thread: Thread | None = None
        self._batches: Queue[Any] = Queue(maxsize=2)
        self._closed = Event()
        self._skip = self._count = 0

    def _begin(self) -> Thread:
        self._reader = self._client.do_get(self._ticket)
        thread = Thread(target=self._receive, name="dynstore-flight", daemon=True)
        thread.start()
        return thread

    def _receive(self) -> None:
        """Put batches, and in the end an error, where :meth:`poll` finds them: reading knows no time limit."""
        try:
            while True:
                self._put(self._reader.read_chunk().data)
        except StopIteration:
            self._put(EOFError())
        except Exception as error:
            self._put(error)

    def _put(self, item: Any) -> None:
        while not self._closed.is_set():
            try:
                return self._batches.put(item, timeout=LOOK_S)
            except Full:
                continue

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next batch, whatever its size."""
        if self._thread is None:
            self._thread = self._begin()
        while True:
            try:
                batch = self._batches.get(timeout=timeout)
            except Empty:
                return None
            if isinstance(batch, Exception):
                raise batch
            self._count += 1
            if self._count > self._skip:
                return One(self._validated(batch), self._count, f"batch {self._count}"), self._count

    def _validated(self, batch: Any) -> Any:
        """Return a batch; what a server has sent may point anywhere."""
        try:
            batch.validate(full=True)
        except ValueError as error:  # pyarrow's are
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise FileFormatError(f"FlightSource: batch {self._count} is damaged: {why}") from error
        return batch

    def seek(self, position: Any) -> None:
        """Skip so many batches."""
        self._skip = position

    def close(self) -> None:
        """End the call, and close the connection."""
        self._closed.set()
        if self._thread is not None:
            self._reader.cancel()
            self._thread.join()
        self._client.close()
