"""A stream of Redis as a source."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

from dynstore.adapters.libraries import require
from dynstore.errors import InputError, SourceGapError, without_secrets
from dynstore.streams.messages import Message, Messages
from dynstore.streams.sources.base import MessageSource
from dynstore.streams.sources.outages import PATIENCE_S, Outage

__all__ = ["RedisSource"]

FIELD = "edges"
MOST = 256  # messages a call
BLOCK_S = 1.0  # the longest wait in one call, which is to end before the client's own timeout
CALL_S = 5.0
NOTHING = "0-0"  # before the first message
_log = logging.getLogger("dynstore")


class RedisSource(MessageSource):
    """A stream of Redis. A message has many rows in the field ``edges``, or one row: each field is a column.

    The field ``edges`` holds the bytes of :func:`dynstore.streams.encode`. Other fields are texts, as those of a text
    file: ``XADD payments * source ann destination bob``.

    A position is the key, the id of a message, how many messages had been added up to it, and the newest one that had
    been deleted by its id. So the source notices messages that were trimmed before they were read, and a key that was
    made anew: it raises :class:`dynstore.errors.SourceGapError`. Messages that were deleted by their ids (``XDEL``)
    are no gap. Servers before Redis 7 do not count messages: of these, only a key whose last id is below the position
    is noticed.

    A consumer group keeps the last committed position, as its last delivered id (``XGROUP SETID``), so no message is
    pending or claimed. Only one reader may use a group at a time.

    If the server goes away, the source connects again, and goes on behind the last message that it has read.

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
    patience : float
        For how many seconds the source tries again when the server does not answer. Then it raises
        :class:`dynstore.errors.StreamError`.

    Raises
    ------
    InputError
        For a negative patience.
    MissingDependencyError
        Without the package redis.
    redis.RedisError
        If the server does not answer at the beginning, or the key is no stream.
    """

    def __init__(
        self,
        key: str,
        group: str = "dynstore",
        url: str = "redis://localhost:6379",
        client: Any = None,
        patience: float = PATIENCE_S,
    ) -> None:
        redis = require("RedisSource", "redis")
        self._outage = Outage(f"RedisSource: the server of {key!r}", patience)
        if client is None:
            client = redis.Redis.from_url(url, socket_timeout=CALL_S, retry=_no_retry())
        self._client: Any = client
        self._key, self._group = key, group
        self._refused = redis.ResponseError
        self._denied = (redis.AuthenticationError, redis.exceptions.AuthorizationError)
        self._away = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ReadOnlyError)
        self._uncommitted: Any = None
        self._last, self._added = self._find_group()
        self._deleted: str | None = None  # the newest message that was deleted by its id, and is counted as such
        if self._last != NOTHING:
            self.left_behind = (
                f"the group {group!r} of {key!r} is behind message {self._last} already: an earlier program has read "
                "up to there; another group begins with the first message"
            )

    def _find_group(self) -> tuple[str, int | None]:
        """Return the position of the group, which is made if it is not there."""
        try:
            self._client.xgroup_create(self._key, self._group, id="0", mkstream=True)
        except self._refused as error:
            if "BUSYGROUP" not in str(error):
                raise
        groups = {_text(entry["name"]): entry for entry in self._client.xinfo_groups(self._key)}
        found = groups[self._group]
        last, added = _text(found["last-delivered-id"]), found.get("entries-read")
        if "entries-read" not in found:
            _log.warning(
                "RedisSource: the server of %r is older than Redis 7: messages that are trimmed before they are read "
                "cannot be noticed",
                self._key,
            )
        return last, None if last == NOTHING else added

    def start(self) -> dict[str, Any]:
        """Return the position before the first message."""
        return self._position(self._last, self._added)

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        """Return the next messages."""
        count, ends = max(1, min(MOST, max_rows // 1000)), monotonic() + timeout
        try:
            self._commit_again()
            while not (messages := self._read(count)):
                left = ends - monotonic()
                if left <= 0:
                    return None
                # Only to wait: what is read has to come together with the state of the stream.
                block = max(1, round(1000 * min(left, BLOCK_S)))
                self._client.xread({self._key: self._last}, count=1, block=block)
        except UnicodeDecodeError as error:
            raise InputError(
                f"RedisSource: a message of {self._key!r} is not UTF-8, and the client decodes responses; wanted a "
                "client with decode_responses=False for messages in Arrow's format"
            ) from error
        except self._away as error:
            if isinstance(error, self._denied):
                raise
            self._outage.note(error, timeout)
            return None
        last = messages[-1].position
        self._last, self._added, self._deleted = last["id"], last["added"], last["deleted"]
        return Messages(messages, self._columns), last

    def _read(self, count: int) -> list[Message]:
        """Return the messages behind the position, read in one step with the state of the stream."""
        together = self._client.pipeline(transaction=True)
        together.xinfo_stream(self._key)
        together.xread({self._key: self._last}, count=count)
        state, found = together.execute(raise_on_error=False)
        if isinstance(state, self._refused) and "no such key" in str(state):
            state = {"length": 0, "last-generated-id": NOTHING, "entries-added": None if self._added is None else 0}
        for answer in (state, found):
            if isinstance(answer, Exception):
                raise answer
        self._outage.end()
        entries: list[Any] = []
        if found:
            entries = (found[0] if isinstance(found, list) else next(iter(found.items())))[1]
            entries = entries[0] if entries and isinstance(entries[0], list) else entries
        before, deleted = self._count_before(state, len(entries), count)
        messages = []
        for place, (name, fields) in enumerate(entries, 1):
            position = self._position(_text(name), None if before is None else before + place, deleted)
            messages.append(self._message(position, fields))
        return messages

    def _count_before(self, state: Mapping[str, Any], read: int, most: int) -> tuple[int | None, str | None]:
        """Return how many messages were added before the next one, and the newest one of them that was deleted.

        Of all that were ever added, that is what is no longer ahead. So messages that others have deleted by their ids
        (XDEL) count as if they came before, wherever they are. It is exact where it is known how many are ahead: if
        the first message of the stream is one of them, or if all have been read. Else the count goes on. It is None if
        the server does not count.

        Raises
        ------
        SourceGapError
            If messages that were not read are gone, or the key was made anew.
        """
        last, added = _number(self._last), state.get("entries-added")
        first = state.get("first-entry")
        first = None if first is None or first[0] is None else _text(first[0])
        is_cut = first is None or _number(first) > last  # nothing is left of what was read
        ahead = state["length"] if is_cut else read if read < most else None
        before = self._added if added is None or ahead is None else added - ahead
        gone = 0 if before is None or self._added is None else before - self._added
        newest, deleted = _text(state["last-generated-id"]), _text(state.get("max-deleted-entry-id", NOTHING))
        if _number(newest) < last or gone < 0 or (added is not None and added < (self._added or 0)):
            place = "" if self._added is None else f", the {self._added}. of its stream"
            raise SourceGapError(
                f"RedisSource: {self._key!r} was made anew, or its server has lost messages: it has "
                f"{state['length']} messages up to {newest}; the last message that was read is {self._last}{place}",
                self._last,
                first,
                None,
                self._position(NOTHING, None if added is None else 0),
            )
        if is_cut and gone > 0:
            # One that was deleted by its id. Of the others it is not known: a trim does not say what it removed.
            has_deleted = _number(deleted) > last and deleted != self._deleted
            if count := gone - has_deleted:
                end = "its end" if first is None else f"message {first}"
                raise SourceGapError(
                    f"RedisSource: {'at most ' if has_deleted else ''}{count} messages of {self._key!r} between "
                    f"message {self._last} and {end} are gone: the stream was trimmed before they were read",
                    self._last,
                    first,
                    count,
                    self._position(self._last, before, deleted),
                )
        return before, self._deleted if ahead is None else deleted

    def _position(self, name: str, added: int | None, deleted: str | None = None) -> dict[str, Any]:
        return {"key": self._key, "id": name, "added": added, "deleted": deleted}

    def _known(self, position: Any) -> dict[str, Any]:
        """Return a position of this version; older ones were the id alone."""
        known: dict[str, Any] = self._position(position, None) if isinstance(position, str) else position
        return known

    def _message(self, position: dict[str, Any], fields: Mapping[Any, Any]) -> Message:
        place = f"message {position['id']} of {self._key!r}"
        packed = fields.get(FIELD.encode(), fields.get(FIELD)) if fields else None
        if packed is not None:
            return Message(packed.encode() if isinstance(packed, str) else packed, place, position)
        texts = {_text(name): _text(value) for name, value in fields.items()} if fields else None
        return Message(texts, place, position)

    def seek(self, position: Any) -> None:
        """Go on behind a message."""
        position = self._known(position)
        if position["key"] != self._key:
            raise SourceGapError(
                f"RedisSource: the position is message {position['id']} of {position['key']!r}; wanted one of "
                f"{self._key!r}",
                position["id"],
                None,
                None,
                self._position(NOTHING, None),
            )
        self._last, self._added, self._deleted = position["id"], position["added"], position["deleted"]

    def commit(self, position: Any) -> None:
        """Keep the position in the group."""
        self._uncommitted = self._known(position)
        try:
            self._commit_again()
        except self._away as error:
            if isinstance(error, self._denied):
                raise
            self._outage.note(error)

    def _commit_again(self) -> None:
        """Commit what could not be committed, if there is anything."""
        if self._uncommitted is None:
            return
        name, added = self._uncommitted["id"], self._uncommitted["added"]
        try:
            self._client.xgroup_setid(self._key, self._group, id=name, entries_read=added)
        except self._refused as error:
            if "NOGROUP" not in str(error) and "requires the key to exist" not in str(error):
                raise
            # The server has lost it. What else it has lost, the next poll finds.
            self._client.xgroup_create(self._key, self._group, id=name, mkstream=True, entries_read=added)
        self._uncommitted = None

    def close(self) -> None:
        """Close the connection."""
        try:
            self._commit_again()
        except self._away as error:
            _log.warning(
                "RedisSource: message %s of %r could not be committed, so what is behind the one before comes again: "
                "%s",
                self._uncommitted["id"],
                self._key,
                without_secrets(error),
            )
        finally:
            self._client.close()


def _no_retry() -> Any:
    """Have a client raise at once: the source tries again, so that a stream can end meanwhile."""
    retry, backoff = require("RedisSource", "redis.retry"), require("RedisSource", "redis.backoff")
    return retry.Retry(backoff.NoBackoff(), 0)


def _text(value: Any) -> str:
    """Return what a client gave as bytes or as a text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(name: str) -> tuple[int, ...]:
    """Return the id of a message as numbers, which have its order."""
    return tuple(map(int, name.split("-")))
