"""A stream of NATS JetStream as a source."""

from __future__ import annotations

import asyncio
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource
from dynstore.streams.sources.nats_client import CALL_S, Connection

__all__ = ["NatsSource"]

MOST = 256  # messages a call
BUCKET = "dynstore"


class NatsSource(MessageSource):
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
        self._connection = Connection(url)
        self._subject, self._name = subject, name
        self._api = require("NatsSource", "nats.js.api")
        self._errors = require("NatsSource", "nats.js.errors")
        self._timeouts = (require("NatsSource", "nats.errors").TimeoutError, asyncio.TimeoutError)
        self._pulled: Any = None
        self._jetstream = self._connection.jetstream
        try:
            self._last: int = self._connection.call(self._open())
        except BaseException:
            self._connection.close()
            raise

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
        messages = self._connection.call(self._fetch(max(1, min(MOST, max_rows // 1000)), timeout), CALL_S + timeout)
        if not messages:
            return None
        found = [self._message(message.data, message.metadata.sequence.stream) for message in messages]
        self._last = found[-1].position
        return Messages(found, self._columns), self._last

    def _message(self, data: bytes, number: int) -> Message:
        return Message(data, f"message {number} of {self._subject!r}", number)

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        self._last = position

    def commit(self, position: Any) -> None:
        """Keep the position in the bucket."""
        self._connection.call(self._bucket.put(self._name, str(position).encode()))

    def close(self) -> None:
        """Close the connection."""
        try:
            if self._pulled is not None:
                self._connection.call(self._pulled.unsubscribe())
        finally:
            self._connection.close()
