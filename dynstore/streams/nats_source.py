"""A stream of NATS JetStream as a source."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from threading import Thread
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import StreamError
from dynstore.streams.messages import decode_all
from dynstore.streams.source import BaseSource

__all__ = ["NatsSource"]

MOST = 256  # messages a call
BUCKET = "dynstore"
CALL_S = 10.0
CONNECT_S = 3.0
_log = logging.getLogger("dynstore")


class NatsSource(BaseSource):
    """A subject of NATS JetStream. Each message has many rows: the bytes of :func:`dynstore.streams.encode`.

    A position is a sequence number of the stream. The last committed one is kept in the key-value bucket "dynstore"
    under ``name``. Messages are not acknowledged one by one, so after a crash the source can be read at once.

    Parameters
    ----------
    subject : str
        A stream of JetStream must store this subject.
    name : str
        The key under which the position is kept.
    url : str
        The address of the server.

    Raises
    ------
    MissingDependencyError
        Without the package nats-py.
    StreamError
        If the server does not answer.
    """

    def __init__(self, subject: str, name: str = "dynstore", url: str = "nats://localhost:4222") -> None:
        nats = require("NatsSource", "nats")
        self._subject, self._name = subject, name
        self._api = require("NatsSource", "nats.js.api")
        self._errors = require("NatsSource", "nats.js.errors")
        self._timeouts = (require("NatsSource", "nats.errors").TimeoutError, asyncio.TimeoutError)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="dynstore-nats", daemon=True)
        self._thread.start()
        self._pulled: Any = None
        try:
            self._client: Any = self._call(self._connect(nats, url))
            self._jetstream: Any = self._client.jetstream()
            self._last = self._call(self._open())
        except BaseException:
            self._end_loop()
            raise

    def _call(self, work: Coroutine[Any, Any, Any], timeout: float = CALL_S) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    async def _connect(self, nats: Any, url: str) -> Any:
        """Connect; later the client connects again by itself, as often as it takes."""
        errors: list[Exception] = []

        async def note(error: Exception) -> None:
            errors[:] = [error]
            _log.info("NatsSource: %s: %s", url, error)

        try:
            connecting = nats.connect(url, max_reconnect_attempts=-1, connect_timeout=CONNECT_S, error_cb=note)
            return await asyncio.wait_for(connecting, CONNECT_S)
        except TimeoutError:
            why = errors[0] if errors else f"no answer in {CONNECT_S:g} s"
            raise StreamError(f"NatsSource: {url} cannot be reached: {why}") from None

    async def _open(self) -> int:
        await self._jetstream.find_stream_name_by_subject(self._subject)  # raises if there is none
        self._bucket = await self._jetstream.create_key_value(bucket=BUCKET)
        try:
            return int((await self._bucket.get(self._name)).value)
        except self._errors.KeyNotFoundError:
            return 0

    async def _fetch(self, count: int, timeout: float) -> list[Any]:
        if self._pulled is None:
            config = self._api.ConsumerConfig(
                deliver_policy=self._api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self._last + 1,
                ack_policy=self._api.AckPolicy.NONE,
                inactive_threshold=300.0,
            )
            self._pulled = await self._jetstream.pull_subscribe(self._subject, config=config)
        try:
            messages: list[Any] = await self._pulled.fetch(count, timeout=timeout)
        except self._timeouts:
            return []
        return messages

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the rows of the next messages."""
        messages = self._call(self._fetch(max(1, min(MOST, max_rows // 1000)), timeout), CALL_S + timeout)
        if not messages:
            return None
        self._last = messages[-1].metadata.sequence.stream
        return decode_all([message.data for message in messages]), self._last

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        self._last = position

    def commit(self, position: Any) -> None:
        """Keep the position in the bucket."""
        self._call(self._bucket.put(self._name, str(position).encode()))

    def close(self) -> None:
        """Close the connection."""
        try:
            if self._pulled is not None:
                self._call(self._pulled.unsubscribe())
            self._call(self._client.close())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()
