"""A stream of NATS JetStream as a source."""

from __future__ import annotations

import json
import logging
from time import monotonic
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import SourceGapError, without_secrets
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource
from dynstore.streams.sources.nats_client import CALL_S, Connection
from dynstore.streams.sources.outages import PATIENCE_S, Outage

__all__ = ["NatsSource"]

MOST = 256  # messages a call
BUCKET = "dynstore"
LOOK_S = 2.0  # without a message, so often the source asks whether the server still knows it
FORGOTTEN_S = 300.0  # without a call, the server forgets the consumer
SOON_S = 1e-3  # what the client takes for no time
_log = logging.getLogger("dynstore")


class NatsSource(MessageSource):
    """A subject of NATS JetStream. Each message has many rows: the bytes of :func:`dynstore.streams.encode`.

    A position is the subject, its stream, when that was made, and a sequence number. So the source notices messages
    that were removed before they were read (``max_msgs``, ``max_age``, a purge), and a stream that was made anew: it
    raises :class:`dynstore.errors.SourceGapError`. If the stream has other subjects, too, those may be what was
    removed: the error says "at most".

    The last committed position is kept in the key-value bucket "dynstore" under ``name``. Messages are not acknowledged
    one by one, so after a crash the source can be read at once.

    If the connection breaks, or the server forgets the consumer, the source goes on behind the last message that it
    has read: none is lost, and none comes twice.

    Parameters
    ----------
    subject : str
        A stream of JetStream must store this subject.
    name : str
        The key under which the position is kept.
    url : str
        The address of the server.
    patience : float
        For how many seconds the source tries again when the server does not answer. Then it raises
        :class:`dynstore.errors.StreamError`.

    Raises
    ------
    InputError
        For a negative patience.
    MissingDependencyError
        Without the package nats-py.
    StreamError
        If the server does not answer.
    """

    def __init__(
        self,
        subject: str,
        name: str = "dynstore",
        url: str = "nats://localhost:4222",
        patience: float = PATIENCE_S,
    ) -> None:
        self._outage = Outage(f"NatsSource: the server of {subject!r}", patience)
        self._connection = Connection(url)
        self._subject, self._name = subject, name
        self._api = require("NatsSource", "nats.js.api")
        self._errors = require("NatsSource", "nats.js.errors")
        self._away = (require("NatsSource", "nats.errors").Error, TimeoutError, OSError)
        self._pulled: Any = None
        self._is_whole = False  # nothing that was pulled is missing
        self._reconnects = self._expected = 0
        self._called = self._heard = 0.0
        self._last: int | None = None  # the last message that was read; None: what the stream has comes first
        self._seen = 0  # up to here there is no other message of the subject
        self._made: tuple[str | None, str | None] = None, None  # the stream of that message: its name, and when
        self._kept: Any = None  # what the bucket has
        self._uncommitted: Any = None
        self._jetstream = self._connection.jetstream
        try:
            self._stream: str = self._connection.call(self._open())
        except BaseException:
            self._connection.close()
            raise
        if self._kept is not None:
            self.seek(self._kept)
            self.left_behind = (
                f"the key {name!r} of the bucket {BUCKET!r} is behind message {self._last} of {subject!r} already: an "
                "earlier program has read up to there; another group begins with the first message"
            )

    async def _open(self) -> str:
        stream: str = await self._jetstream.find_stream_name_by_subject(self._subject)  # raises if there is none
        self._bucket = await self._jetstream.create_key_value(bucket=BUCKET)
        try:
            kept = json.loads((await self._bucket.get(self._name)).value)
        except self._errors.KeyNotFoundError:
            return stream
        if isinstance(kept, int):  # of an older version
            kept = self._position(kept, None, None)
        if kept["subject"] == self._subject:
            self._kept = kept
        return stream

    # ------------------------------------------------------------------ reading

    def start(self) -> dict[str, Any]:
        """Return the position before the first message."""
        self._connection.call(self._info())
        return self._position(self._last, *self._made)

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the rows of the next messages."""
        count = max(1, min(MOST, max_rows // 1000))
        try:
            self._connection.check()
            messages = self._connection.call(self._next(count, max(SOON_S, timeout)), CALL_S + timeout)
        except SourceGapError:
            self._outage.end()
            raise
        except self._away as error:
            self._is_whole = False
            self._outage.note(error, timeout)
            return None
        self._outage.end()
        if not messages:
            return None
        self._last = self._seen = messages[-1].position["sequence"]
        return Messages(messages, self._columns), messages[-1].position

    async def _next(self, count: int, timeout: float) -> list[Message]:
        """Return the next messages of those that are whole and in order."""
        if self._uncommitted is not None:
            await self._put(self._uncommitted)
        # A connection that was broken may have lost messages. A consumer that was not called may be forgotten.
        is_late = monotonic() - self._called > FORGOTTEN_S / 2
        if not self._is_whole or is_late or self._reconnects != self._connection.reconnects:
            await self._begin()
        try:
            found: list[Any] = await self._pulled.fetch(count, timeout=timeout)
        except TimeoutError:
            found = []
        self._called = monotonic()
        if found:
            self._heard = self._called
            return await self._in_order(found)
        if self._called - self._heard > LOOK_S:
            await self._look()
            self._heard = monotonic()
        return []

    async def _in_order(self, found: list[Any]) -> list[Message]:
        """Return messages up to the first one before which another is missing; the others come again."""
        messages, last = [], self._seen
        for message in found:
            sequence = message.metadata.sequence
            if sequence.consumer != self._expected:
                self._is_whole = False
                break
            self._expected += 1
            if sequence.stream <= last:
                continue
            if sequence.stream > last + 1 and (await self._info()).state.first_seq > last + 1:
                self._is_whole = False  # the next poll finds what is gone
                break
            last = sequence.stream
            position = self._position(last, *self._made)
            messages.append(Message(message.data, f"message {last} of {self._subject!r}", position))
        return messages

    async def _begin(self) -> None:
        """Make a consumer that begins behind what was read."""
        old, self._pulled = self._pulled, None
        if old is not None:
            await old.unsubscribe()
        await self._info()
        config = self._api.ConsumerConfig(
            deliver_policy=self._api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._seen + 1,
            ack_policy=self._api.AckPolicy.NONE,
            inactive_threshold=FORGOTTEN_S,
        )
        self._reconnects, self._expected = self._connection.reconnects, 1
        pulled = await self._jetstream.pull_subscribe(self._subject, stream=self._stream, config=config)
        self._pulled, self._is_whole, self._heard = pulled, True, monotonic()

    async def _look(self) -> None:
        """After some time without messages, ask whether the stream and the consumer are what they were."""
        state = (await self._info()).state
        try:
            known = await self._pulled.consumer_info()
        except self._errors.NotFoundError:
            self._is_whole = False
            return
        if known.num_pending or known.delivered.consumer_seq != self._expected - 1:
            self._is_whole = False  # some were sent, and did not come
        elif state.last_seq > self._seen:
            # All others up to there are of other subjects, and may be removed.
            self._seen = state.last_seq
            if self._kept is not None and self._kept["sequence"] == self._last:
                await self._put(self._position(self._last, *self._made) | {"seen": self._seen})

    # ------------------------------------------------------------------ the stream behind the subject

    async def _info(self) -> Any:
        """Return what the server says of the stream, which is the one that was read, without a gap.

        Raises
        ------
        SourceGapError
            Else.
        """
        info = await self._jetstream.stream_info(self._stream)
        created, first, last = str(info.created), info.state.first_seq, info.state.last_seq
        if self._last is None:
            self._last = self._seen = max(first - 1, 0)
        name, made = self._made
        if name not in (None, self._stream) or made not in (None, created) or last < self._seen:
            raise SourceGapError(
                f"NatsSource: the stream {self._stream!r} of {self._subject!r} was made anew at {created}, or its "
                f"server has lost messages: it has {info.state.messages} messages up to number {last}; the last "
                f"message that was read is number {self._last} of the stream {name or self._stream!r} of {made}",
                self._last,
                first,
                None,
                self._position(0, self._stream, created),
            )
        self._made = self._stream, created
        gone = first - 1 - self._seen
        if gone > 0:
            is_shared = info.config.subjects != [self._subject]
            raise SourceGapError(
                f"NatsSource: {'at most ' if is_shared else ''}{gone} messages of {self._subject!r} between number "
                f"{self._seen} and number {first} of the stream {self._stream!r} are gone: they were removed before "
                "they were read",
                self._seen,
                first,
                gone,
                self._position(first - 1, self._stream, created),
            )
        return info

    def _position(self, sequence: int | None, stream: str | None, created: str | None) -> dict[str, Any]:
        return {"subject": self._subject, "stream": stream, "created": created, "sequence": sequence}

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        if isinstance(position, int):  # of an older version
            position = self._position(position, None, None)
        if position["subject"] != self._subject:
            raise SourceGapError(
                f"NatsSource: the position is message {position['sequence']} of {position['subject']!r}; wanted one of "
                f"{self._subject!r}",
                position["sequence"],
                None,
                None,
                self._position(None, None, None),
            )
        self._last, self._made = position["sequence"], (position["stream"], position["created"])
        self._is_whole = False
        if self._kept is not None and all(self._kept[name] == position[name] for name in position if name != "seen"):
            position = self._kept
        self._seen = position.get("seen") or self._last or 0

    # ------------------------------------------------------------------ the position that the server keeps

    def commit(self, position: Any) -> None:
        """Keep the position in the bucket."""
        self._uncommitted = position
        try:
            self._connection.check()
            self._connection.call(self._put(position))
        except self._away as error:  # the next poll tries again
            self._outage.note(error)

    async def _put(self, position: Any) -> None:
        value = json.dumps(position).encode()
        try:
            await self._bucket.put(self._name, value)
        except self._errors.NoStreamResponseError:  # the server has lost the bucket
            self._bucket = await self._jetstream.create_key_value(bucket=BUCKET)
            await self._bucket.put(self._name, value)
        self._kept, self._uncommitted = position, None

    def close(self) -> None:
        """Close the connection."""
        try:
            if self._connection.is_connected:
                if self._uncommitted is not None:
                    self._connection.call(self._put(self._uncommitted))
                if self._pulled is not None:
                    self._connection.call(self._pulled.unsubscribe())
        except self._away as error:
            self._outage.end()
            _log.warning("NatsSource: %r could not be closed properly: %s", self._subject, without_secrets(error))
        finally:
            if self._uncommitted is not None:
                _log.warning(
                    "NatsSource: message %s of %r could not be committed, so what is behind the one before comes again",
                    self._uncommitted["sequence"],
                    self._subject,
                )
            self._connection.close()
