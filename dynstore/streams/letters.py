"""What happens to messages and lines that cannot be read: the stream ends, they are left out, or kept elsewhere."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from dynstore.adapters.libraries import require
from dynstore.errors import (
    DynstoreError,
    InputError,
    InputTypeError,
    StreamError,
    cause_of,
    type_name,
    without_secrets,
)
from dynstore.streams.sources.logins import check_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynstore.streams.units import BadUnit

__all__ = ["Letters", "OnError", "open_letters"]

OnError: TypeAlias = "str | os.PathLike[str] | Callable[[BadUnit], object]"
WANTED = "'raise', 'skip', a function, the path of a file, or the address of a stream of Redis, NATS or Kafka"
CALL_S = 10.0


class Letters(Protocol):
    """Takes what cannot be read."""

    def take(self, unit: BadUnit) -> None:
        """Keep a unit, or raise its error."""

    def close(self) -> None:
        """Let go of what is open."""


class _Raise:
    def take(self, unit: BadUnit) -> None:
        raise unit.error

    def close(self) -> None:
        pass


class _Skip(_Raise):
    def take(self, unit: BadUnit) -> None:
        pass


class _Hand(_Raise):
    """Hands units to a function, and says which one it could not take."""

    def __init__(self, function: Callable[[BadUnit], object], close: Callable[[], object] = lambda: None) -> None:
        self._function, self._close = function, close

    def take(self, unit: BadUnit) -> None:
        try:
            self._function(unit)
        except Exception as error:
            why = without_secrets(str(error) or type_name(error))
            raise StreamError(f"Stream: on_error could not take {unit.place}: {why}") from cause_of(error)

    def close(self) -> None:
        self._close()


def _to_file(path: Path) -> Letters:
    """A line of JSON for each unit; it is in the file before the position behind the unit is committed."""
    file = path.open("a", encoding="utf-8")

    def write(unit: BadUnit) -> None:
        file.write(json.dumps(_as_letter(unit)) + "\n")
        file.flush()

    return _Hand(write, file.close)


def _to_redis(server: str, name: str) -> Letters:
    client: Any = require("Stream", "redis").Redis.from_url(f"redis://{server}")
    client.ping()
    return _Hand(lambda unit: client.xadd(name, _as_letter(unit)), client.close)


def _to_nats(server: str, name: str) -> Letters:
    from dynstore.streams.sources.nats_client import Connection

    connection = Connection(f"nats://{server}")
    return _Hand(lambda unit: connection.publish(name, json.dumps(_as_letter(unit)).encode()), connection.close)


def _to_kafka(server: str, name: str) -> Letters:
    producer = require("Stream", "confluent_kafka").Producer({"bootstrap.servers": server})

    def send(unit: BadUnit) -> None:
        producer.produce(name, json.dumps(_as_letter(unit)).encode())
        if producer.flush(CALL_S):
            raise StreamError(f"no answer in {CALL_S:g} s")

    return _Hand(send, lambda: producer.flush(CALL_S))


SERVERS = {"redis": _to_redis, "nats": _to_nats, "kafka": _to_kafka}


def open_letters(on_error: OnError) -> Letters:
    """Return what takes units that cannot be read.

    Parameters
    ----------
    on_error : {"raise", "skip"}, callable, path or str
        See :class:`dynstore.Stream`.

    Raises
    ------
    InputError
        For anything else, and for a file or server that cannot be opened.
    """
    if callable(on_error):
        return _Hand(on_error)
    if not isinstance(on_error, str | os.PathLike):
        raise InputTypeError(f"Stream: on_error is a {type_name(on_error)}; wanted {WANTED}")
    given = os.fspath(on_error)
    if given in ("raise", "skip"):
        return _Raise() if given == "raise" else _Skip()
    if "://" not in given:
        if isinstance(on_error, str) and not any(sign in given for sign in "./\\"):
            raise InputError(f"Stream: on_error is {given!r}; wanted {WANTED}")
        return _opened(given, _to_file, Path(given).expanduser())
    scheme, _, rest = given.partition("://")
    server, _, name = rest.rpartition("/")
    if scheme not in SERVERS or not server or not name:
        raise InputError(f"Stream: on_error is an address of kind {scheme!r}; wanted {WANTED}")
    check_server(scheme, urlsplit(given).netloc)
    return _opened(name, SERVERS[scheme], server, name)


def _opened(what: str, opener: Callable[..., Letters], *given: Any) -> Letters:
    try:
        return opener(*given)
    except DynstoreError:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error) or type_name(error)
        raise InputError(f"Stream: on_error: cannot open {what!r}: {without_secrets(why)}") from cause_of(error)


def _as_letter(unit: BadUnit) -> dict[str, str]:
    """Return a unit as texts: its place, what is wrong, and its contents, in Base64 where they are no text."""
    value, error = unit.value, without_secrets(unit.error)
    if isinstance(value, bytes):
        try:
            return {"place": unit.place, "error": error, "value": value.decode()}
        except UnicodeDecodeError:
            return {"place": unit.place, "error": error, "base64": base64.b64encode(value).decode()}
    return {"place": unit.place, "error": error, "value": value if isinstance(value, str) else repr(value)}
