"""The source that a stream is given: an object, edges in memory, or an address."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from dynstore.errors import (
    DynstoreError,
    InputError,
    InputTypeError,
    StreamError,
    cause_of,
    shown,
    type_name,
    without_secrets,
)
from dynstore.input.forms import is_frame
from dynstore.io import EventTable
from dynstore.streams.sources.base import IterableSource, Source, TableSource
from dynstore.streams.sources.logins import check_server

__all__ = ["SCHEMES", "as_source", "open_source"]

METHODS = ("poll", "seek", "commit", "pause")

SCHEMES = (
    "redis://HOST:PORT/KEY, nats://HOST:PORT/SUBJECT, kafka://HOST:PORT/TOPIC, grpc://HOST:PORT/TICKET, "
    "or the path of a text file"
)


def as_source(given: Any) -> Source:
    """Return a source of what a stream was given."""
    if all(hasattr(given, name) for name in METHODS):
        source: Source = given
        return source
    if isinstance(given, str | os.PathLike):
        return open_source(os.fspath(given))
    is_view = isinstance(given, Set) and not isinstance(given, set | frozenset)
    if is_view or type(given).__module__.startswith("networkx."):  # its EdgeView is a mapping, too
        raise InputTypeError(
            f"Stream: source is a {type_name(given)}, which changes with its graph; wanted its edges as they are now: "
            "list(G.edges)"
        )
    others = [name for name in given if not isinstance(name, str)] if isinstance(given, Mapping) else []
    if others:
        raise InputTypeError(
            f"Stream: source is a {type_name(given)} with the key {shown(others[0])}; wanted columns by name, "
            "such as {'source': [0], 'destination': [1]}"
        )
    if isinstance(given, tuple | Mapping | EventTable) or is_frame(given) or hasattr(given, "__arrow_c_stream__"):
        return TableSource(given)
    first = given[0] if isinstance(given, list) and given else None
    if isinstance(first, tuple) and first and isinstance(first[0], int | np.integer | str):
        return TableSource(given)
    if isinstance(given, Iterable):
        return IterableSource(given)
    missing = [name for name in METHODS if not hasattr(given, name)]
    if len(missing) < len(METHODS):
        raise InputError(f"Stream: the source {type_name(given)} has no {', '.join(missing)}; wanted a Source")
    raise InputTypeError(
        f"Stream: source is a {type_name(given)}; wanted a Source, an iterable of batches, edges in any form, "
        "the path of a text file, or an address such as 'redis://localhost:6379/edges'"
    )


def open_source(address: str, follow: bool = True) -> Source:
    """Return the source at an address.

    Parameters
    ----------
    address : str
        ``redis://HOST:PORT/KEY``, ``nats://HOST:PORT/SUBJECT``, ``kafka://HOST:PORT/TOPIC``,
        ``grpc://HOST:PORT/TICKET`` (Arrow Flight), or the path of a text file. ``?group=NAME`` at the end of the first
        three names the reader; ``?patience=SECONDS`` says how long a server may be away; an ``&`` joins the two. Redis
        and NATS take a user and a password: ``redis://USER:PASSWORD@HOST:PORT/KEY``. No message shows them.
    follow : bool
        Wait for more at the end of a file.

    Returns
    -------
    Source
        It is open.

    Raises
    ------
    InputError
        If it is no address, or has options behind the ``?`` that its source does not have.
    MissingDependencyError
        If the client's library is not installed.
    StreamError
        If the server does not answer.
    """
    if "://" not in address:
        from dynstore.streams.sources.growing_file import FileSource

        return FileSource(address, follow)
    parts = urlsplit(address)
    server, name = parts.netloc, parts.path.lstrip("/")
    if not server or not name:
        raise InputError(f"Stream: the source {without_secrets(address)!r} lacks a part; wanted {SCHEMES}")
    options = _read_options(parts.scheme, parts.query)
    try:
        check_server(parts.scheme, server)
        source = _connect(parts.scheme, server, name, options)
    except DynstoreError:
        raise
    except Exception as error:
        raise StreamError(
            without_secrets(f"Stream: {address!r} cannot be opened: {str(error) or type_name(error)}")
        ) from cause_of(error)
    if source is None:
        raise InputError(f"Stream: unknown kind of source {parts.scheme!r}; wanted {SCHEMES}")
    return source


def _read_options(scheme: str, query: str) -> dict[str, Any]:
    """Return what stands behind the ``?`` of an address, as keywords of its source."""
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    names = (
        {"patience": "patience=SECONDS"}
        if scheme == "grpc"
        else {"group": "group=NAME", "patience": "patience=SECONDS"}
    )
    for name, value in options.items():
        if name not in names or not value:
            raise InputError(
                f"Stream: {shown(name)} behind the ? of an address of {scheme}{'' if value else ', without a value'}; "
                f"wanted {' or '.join(names.values())}"
            )
    if "patience" in options:
        try:
            options["patience"] = float(options["patience"])
        except ValueError:
            raise InputError(f"Stream: patience is {options['patience']!r}; wanted seconds, at least 0") from None
    return options


def _connect(scheme: str, server: str, name: str, options: dict[str, Any]) -> Source | None:
    if scheme == "redis":
        from dynstore.streams.sources.redis import RedisSource

        return RedisSource(name, url=f"redis://{server}", **options)
    if scheme == "nats":
        from dynstore.streams.sources.nats import NatsSource

        group = {"name": options.pop("group")} if "group" in options else {}
        return NatsSource(name, url=f"nats://{server}", **group, **options)
    if scheme == "kafka":
        from dynstore.streams.sources.kafka import KafkaSource

        return KafkaSource(name, servers=server, **options)
    if scheme == "grpc":
        from dynstore.streams.sources.flight import FlightSource

        return FlightSource(name, f"grpc://{server}", **options)
    return None
