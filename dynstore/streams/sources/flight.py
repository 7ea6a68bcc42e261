"""Batches that an Arrow Flight server sends, as a source."""

from __future__ import annotations

import logging
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import monotonic
from typing import Any
from zlib import crc32

from dynstore.adapters.libraries import require
from dynstore.errors import FileFormatError, SourceGapError, StreamError, without_secrets
from dynstore.streams.sources.base import BaseSource
from dynstore.streams.sources.outages import PATIENCE_S, check_patience
from dynstore.streams.units import One

__all__ = ["FlightSource"]

LOOK_S = 0.1
AGAIN_S = 0.2  # between two calls to a server that does not answer
CLOSE_S = 4.0
ROWS = 2  # of each end of a batch, for the checksum
LINK = ("FlightUnavailableError", "FlightInternalError", "FlightTimedOutError", "FlightCancelledError")
# A link that is dead is noticed by pings; servers of gRPC refuse more than one in 5 minutes.
PINGS = [("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", 20_000)]
PINGS += [("grpc.http2.max_pings_without_data", 0)]
BACKOFF = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100)]
BACKOFF += [("grpc.max_reconnect_backoff_ms", 1000)]
_log = logging.getLogger("dynstore")


class FlightSource(BaseSource):
    """The record batches that an Arrow Flight server sends for a ticket.

    A position is a number of batches, with a checksum of the schema and of the first and last two rows of each batch.
    Flight has no positions, so nothing is committed to the server. After a restart, or when the link is cut, it sends
    all batches again, and those that were read are skipped. If they are others than before, or fewer, the source raises
    :class:`dynstore.errors.SourceGapError`. After a restart of the program, the position is that of a database's log.

    Parameters
    ----------
    ticket : str or bytes
        The ticket for the server's ``do_get``.
    location : str
        The address of the server. It is connected to when the stream starts.
    patience : float
        For how many seconds the source calls again, after the link was cut or the server has ended. When by then there
        was no new batch, and no call that lasted as long, the stream ends with an error. Its first call must be
        answered.

    Raises
    ------
    InputError
        For a negative patience.
    MissingDependencyError
        Without pyarrow.
    """

    def __init__(
        self, ticket: str | bytes, location: str = "grpc://localhost:8815", patience: float = PATIENCE_S
    ) -> None:
        check_patience("FlightSource", patience)
        self._flight = require("FlightSource", "pyarrow.flight")
        self._client: Any = self._flight.connect(location, generic_options=PINGS + BACKOFF)
        self._location, self._patience = without_secrets(location), patience
        self._ticket = self._flight.Ticket(ticket)
        self._links = tuple(getattr(self._flight, name) for name in LINK)
        self._reader: Any = None
        self._thread: Thread | None = None
        self._batches: Queue[Any] = Queue(maxsize=2)
        self._ended = Event()
        self._done = 0  # batches that were read
        self._sum: int | None = None  # their checksum

    def _receive(self) -> None:
        """Put batches, and in the end an error, where :meth:`poll` finds them: reading knows no time limit."""
        try:
            self._receive_all()
            self._put(EOFError())
        except Exception as error:
            self._put(error)

    def _receive_all(self) -> None:
        """Call the server until it has sent all, and again when the link is cut."""
        since, before, has_answered = 0.0, -1, False
        while not self._ended.is_set():
            answered = None
            try:
                reader = self._client.do_get(self._ticket)
                answered, has_answered, self._reader = monotonic(), True, reader
                return self._read(reader)
            except self._links as error:
                if self._ended.is_set():
                    return None
                why = without_secrets((str(error).splitlines() or [type(error).__name__])[0])
                if not has_answered:
                    raise StreamError(f"FlightSource: {self._location} cannot be reached: {why}") from error
                was_well = answered is not None and monotonic() - answered >= self._patience
                if before < self._done or was_well:  # a server may have nothing to send for long
                    since, before = monotonic(), self._done
                    _log.warning(
                        "FlightSource: %s was lost behind batch %d: %s; calling again", self._location, before, why
                    )
                if monotonic() - since >= self._patience:
                    raise StreamError(
                        f"FlightSource: {self._location} was lost again and again, and has sent no new batch for "
                        f"{self._patience:g} s: {why}"
                    ) from error
                self._ended.wait(AGAIN_S)
        return None

    def _read(self, reader: Any) -> None:
        """Put the batches of a call that were not read before."""
        if self._ended.is_set():  # since the call began
            reader.cancel()
        count, checksum = 0, crc32(str(reader.schema.remove_metadata()).encode())
        while not self._ended.is_set():
            try:
                batch = reader.read_chunk().data
            except StopIteration:
                break
            count += 1
            checksum = _add(_validated(batch, count), checksum)
            if count > self._done:
                self._done, self._sum = count, checksum
                position = {"batches": count, "checksum": checksum}
                self._put((One(batch, position, f"batch {count}"), position))
            elif count == self._done and self._sum not in (None, checksum):
                raise SourceGapError(
                    f"FlightSource: {self._location} sends other batches than before: their checksum behind batch "
                    f"{count} is {checksum}, it was {self._sum}",
                    None,
                    None,
                    None,
                    0,
                )
        else:
            return
        if count < self._done:
            raise SourceGapError(
                f"FlightSource: {self._location} sends {count} batches; {self._done} were read before",
                count + 1,
                self._done,
                None,
                {"batches": count, "checksum": checksum},
            )

    def _put(self, item: Any) -> None:
        while not self._ended.is_set():
            try:
                return self._batches.put(item, timeout=LOOK_S)
            except Full:
                continue

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next batch, whatever its size."""
        if self._thread is None:
            self._thread = Thread(target=self._receive, name="dynstore-flight", daemon=True)
            self._thread.start()
        try:
            found: tuple[Any, Any] | Exception = self._batches.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def seek(self, position: Any) -> None:
        """Skip the batches of a position; its checksum is compared when they come."""
        self._end_thread()
        self._ended, self._batches = Event(), Queue(maxsize=2)
        is_older = not isinstance(position, dict)  # a number of batches
        self._done, self._sum = (position, None) if is_older else (position["batches"], position["checksum"])

    def _end_thread(self) -> None:
        self._ended.set()
        if self._thread is not None:
            if self._reader is not None:
                self._reader.cancel()
            self._thread.join(CLOSE_S)
        self._thread = self._reader = None

    def close(self) -> None:
        """End the call, and close the connection."""
        self._end_thread()
        self._client.close()


def _validated(batch: Any, number: int) -> Any:
    """Return a batch; what a server has sent may point anywhere."""
    try:
        batch.validate(full=True)
    except ValueError as error:  # pyarrow's are
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"FlightSource: batch {number} is damaged: {why}") from error
    return batch


def _add(batch: Any, checksum: int) -> int:
    """Return the checksum with that of a batch: of values, as bytes behind nulls may be any."""
    count = batch.num_rows
    rows = batch.slice(0, ROWS).to_pylist() + batch.slice(max(ROWS, count - ROWS)).to_pylist()
    return crc32(repr((count, rows)).encode(), checksum)
