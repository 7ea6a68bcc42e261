"""A stream of Redis as a source."""

from __future__ import annotations

from typing import Any

from dynstore.adapters.libraries import require
from dynstore.streams.messages import decode_all
from dynstore.streams.source import BaseSource

__all__ = ["RedisSource"]

FIELD = b"edges"
MOST = 256  # messages a call


class RedisSource(BaseSource):
    """A stream of Redis. Its messages have many rows each, in the field ``edges``.

    The field holds the bytes of :func:`dynstore.streams.encode`.

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
        Use this client instead of ``url``.

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
        groups = {entry["name"]: entry["last-delivered-id"] for entry in self._client.xinfo_groups(key)}
        self._last: bytes = groups[group.encode()]

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the rows of the next messages."""
        block = max(1, round(1000 * timeout))
        found = self._client.xread({self._key: self._last}, count=max(1, min(MOST, max_rows // 1000)), block=block)
        if not found:
            return None
        entries = (found[0] if isinstance(found, list) else next(iter(found.items())))[1]
        entries = entries[0] if entries and isinstance(entries[0], list) else entries
        self._last = entries[-1][0]
        return decode_all([fields[FIELD] for _, fields in entries if fields]), self._last.decode()

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        self._last = position.encode()

    def commit(self, position: Any) -> None:
        """Keep the position in the group."""
        self._client.xgroup_setid(self._key, self._group, id=position)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
