"""Users and passwords in the addresses of servers."""

from __future__ import annotations

from dynstore.errors import InputError

__all__ = ["check_server"]


def check_server(scheme: str, server: str) -> None:
    """Refuse a server with a login that would not be used, or would be taken apart wrongly.

    Raises
    ------
    InputError
        Without what is secret.
    """
    _login, has_login, place = server.rpartition("@")
    if scheme in ("kafka", "grpc") and has_login:
        how = ": KafkaSource(..., sasl_username=..., sasl_password=...)" if scheme == "kafka" else ""
        raise InputError(f"Stream: an address of {scheme} has no user and no password; pass them to the client{how}")
    host, colon, port = place.rpartition(":")
    is_named = not colon or place.endswith("]") or (host and port.isdecimal())
    if scheme in ("redis", "nats") and not has_login and not is_named:
        raise InputError(
            f"Stream: an address of {scheme} has no HOST:PORT behind the ://, or behind a user, a password and an @; "
            "in a password write / as %2F, ? as %3F, # as %23"
        )
