"""A stream of Redis as a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import InputError
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource

__all__ = ["RedisSource"]

FIELD = "edges"
MOST = 256  # messages a call


class RedisSource(MessageSource):
    """A stream of Redis. A message has many rows in the field ``edges``, or one row: each field is a column.

    The field ``edges`` holds the bytes of :func:`dynstore.streams.encode`. Other fields are texts, as those of a text
    file: ``XADD payments * source ann destination bob``.

    A position is the id of a message. A consumer group keeps the last committed one, as its last delivered id
    (``XGROUP SETID``), so no message is pending or claimed. Only one reader may use a group at a time.

    Parameters
    ----------
    key : str
        The key of the stream. It may be empty or missing.
    group : str
        The name under which the position is kept; a new group begins with the first message.
    url : str
        The address of the server.
    client : redis.Redis, optional
        Use this client instead of ``url``. With ``decode_responses=True`` it reads fields and JSON; for messages in
        Arrow's format a client must not decode.

    Raises
    ------
    MissingDependencyError
        Without the package redis.
    redis.RedisError
        If the server does not answer, or the key is no stream.
    """

    def __init__(
        self, key: str, group: str = "dynstore", url: str = "redis://localhost:6379", client: Any = None
    ) -> None:
        redis = require("RedisSource", "redis")
        self._client: Any = redis.Redis.from_url(url) if client is None else client
        self._key, self._group = key, group
        try:
            self._client.xgroup_create(key, group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        groups = {_text(entry["name"]): _text(entry["last-delivered-id"]) for entry in self._client.xinfo_groups(key)}
        self._last = groups[group]

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next messages."""
        block = max(1, round(1000 * timeout))
        count = max(1, min(MOST, max_rows // 1000))
        try:
            found = self._client.xread({self._key: self._last}, count=count, block=block)
        except UnicodeDecodeError as error:
            raise InputError(
                f"RedisSource: a message of {self._key!r} is not UTF-8, and the client decodes responses; wanted a "
                "client with decode_responses=False for messages in Arrow's format"
            ) from error
        if not found:
            return None
        entries = (found[0] if isinstance(found, list) else next(iter(found.items())))[1]
        entries = entries[0] if entries and isinstance(entries[0], list) else entries
        messages = [self._message(_text(number), fields) for number, fields in entries]
        self._last = messages[-1].position
        return Messages(messages, self._columns), self._last

    def _message(self, number: str, fields: Mapping[Any, Any]) -> Message:
        place = f"message {number} of {self._key!r}"
        packed = fields.get(FIELD.encode(), fields.get(FIELD)) if fields else None
        if packed is not None:
            return Message(packed.encode() if isinstance(packed, str) else packed, place, number)
        texts = {_text(name): _text(value) for name, value in fields.items()} if fields else None
        return Message(texts, place, number)

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        self._last = position

    def commit(self, position: Any) -> None:
        """Keep the position in the group."""
        self._client.xgroup_setid(self._key, self._group, id=position)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _text(value: Any) -> str:
    """Return what a client gave as bytes or as a text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
