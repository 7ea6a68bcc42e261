"""A connection to a server of NATS, whose client knows coroutines only: they run in a thread of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from threading import Thread
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import StreamError, without_secrets

__all__ = ["CALL_S", "Connection"]

CALL_S = 10.0
CONNECT_S = 3.0
ANSWER_S = 3.0  # the longest wait for an answer of JetStream
RECONNECT_S = 0.2  # between two tries to connect again
PING_S = 10  # a connection whose pings are not answered two times is broken
BROKEN = "the connection is broken"
_log = logging.getLogger("dynstore")


class Connection:
    """A client that is connected; later it connects again by itself, as often as it takes.

    Parameters
    ----------
    url : str

    Attributes
    ----------
    jetstream : nats.js.JetStreamContext
    is_connected : bool
        Whether it is connected now.
    reconnects : int
        How often it has connected again.

    Raises
    ------
    MissingDependencyError
        Without the package nats-py.
    StreamError
        If the server does not answer.
    """

    def __init__(self, url: str) -> None:
        nats = require("NatsSource", "nats")
        self._loop = asyncio.new_event_loop()
        self._is_closing = False
        self._running: Future[Any] | None = None  # the call that waits
        self._thread = Thread(target=self._loop.run_forever, name="dynstore-nats", daemon=True)
        self._thread.start()
        try:
            self._client: Any = self.call(self._connect(nats, url))
            self.jetstream: Any = self._client.jetstream(timeout=ANSWER_S)
        except BaseException:
            self._end_loop()
            raise

    def call(self, work: Coroutine[Any, Any, Any], timeout: float = CALL_S) -> Any:
        """Run a coroutine to its end, and return what it returns.

        Raises
        ------
        TimeoutError
            If it takes longer than ``timeout`` seconds. It is ended.
        ConnectionError
            If the connection breaks meanwhile: the answer would not come.
        """
        future = self._running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise
        except CancelledError:
            raise ConnectionError(BROKEN) from None
        finally:
            self._running = None

    def check(self) -> None:
        """Raise ConnectionError if it is not connected: a call would wait for an answer that cannot come."""
        if not self.is_connected:
            raise ConnectionError(BROKEN)

    @property
    def is_connected(self) -> bool:
        return bool(self._client.is_connected)

    @property
    def reconnects(self) -> int:
        return int(self._client.stats["reconnects"])

    async def _connect(self, nats: Any, url: str) -> Any:
        errors: list[Exception] = []
        shown = without_secrets(url)

        async def note(error: Exception) -> None:
            errors[:] = [error]
            _log.info("NatsSource: %s: %s", shown, without_secrets(error))

        async def end_call() -> None:
            if self._running is not None and not self._is_closing:
                self._running.cancel()

        try:
            connecting = nats.connect(
                url,
                max_reconnect_attempts=-1,
                connect_timeout=CONNECT_S,
                reconnect_time_wait=RECONNECT_S,
                ping_interval=PING_S,
                error_cb=note,
                disconnected_cb=end_call,
            )
            return await asyncio.wait_for(connecting, CONNECT_S)
        except TimeoutError:
            why = without_secrets(errors[0]) if errors else f"no answer in {CONNECT_S:g} s"
            raise StreamError(f"NatsSource: {shown} cannot be reached: {why}") from None

    def publish(self, subject: str, data: bytes) -> None:
        """Send a message to a subject of a stream of JetStream, which stores it before this returns."""
        self.call(self.jetstream.publish(subject, data))

    def close(self) -> None:
        """Close the connection."""
        self._is_closing = True
        try:
            self.call(self._client.close())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        try:
            self.call(_end_tasks())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_S)
            self._loop.close()


async def _end_tasks() -> None:
    """End what the client has left running."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
