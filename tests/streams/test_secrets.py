"""Passwords and tokens of addresses stand in no message, log or file, nor in the traceback behind an error."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore import DynamicGraph, Stream, cli
from dynstore.errors import DynstoreError, InputError, StreamError, cause_of, without_secrets
from dynstore.io import read_events
from dynstore.streams.letters import open_letters
from dynstore.streams.sources.base import BaseSource

WORD = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:hunter2@127.0.0.1:1/k", "redis://***@127.0.0.1:1/k"),
        ("at 'redis://u:hunt@er/hunter2@h'.", "at 'redis://***@h'."),
        ("nats://hunter2@h:1, nats://a:hunter2@i:2", "nats://***@h:1, nats://***@i:2"),
        ("redis://h/k?password=hunter2&group=a", "redis://h/k?password=***&group=a"),
        ("redis://h/k?auth_token=hunter2: refused", "redis://h/k?auth_token=***: refused"),
        ("sasl.password=hunter2, acks=1", "sasl.password=***, acks=1"),
        ("{'sasl_password': 'hunter2', 'acks': 1}", "{'sasl_password': ***, 'acks': 1}"),
        ('{"api_key": "hunter2"}', '{"api_key": ***}'),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "wanted redis://HOST:PORT/KEY, or ann@example.com",
        "unknown token: 'x'",
        "password authentication failed",
        "insert_edges: `dst` has 3 items, `src` has 4; they must be equal",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert without_secrets(text) == text


ADDRESSES = (
    "redis://:hunter2@127.0.0.1:1/k",
    "nats://u:hunter2@127.0.0.1:1/k",
    "rediss://:hunter2@h/k",
    "redis://u:hunter2@h",
    "redis://:hunter2/x@h/k",
    "redis://:hunter2#x@h/k",
    "redis://:hunter2?x@h/k",
    "kafka://u:hunter2@127.0.0.1:1/k",
    "grpc://u:hunter2@127.0.0.1:1/k",
)


def all_texts(error: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    return "".join(traceback.format_exception(error, limit=0)) + caplog.text


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_of_a_source_has_a_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DynstoreError) as caught:
        Stream(DynamicGraph(device="cpu"), address)
    assert WORD not in all_texts(caught.value, caplog)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_of_dead_letters_has_a_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DynstoreError) as caught:
        open_letters(address)
    assert WORD not in all_texts(caught.value, caplog)


def test_logins_that_would_not_be_used_are_refused() -> None:
    with pytest.raises(InputError, match=r"kafka has no user and no password.*sasl_username"):
        dynstore.streams.open_source("kafka://u:hunter2@h:1/k")
    with pytest.raises(InputError, match="grpc has no user and no password"):
        dynstore.streams.open_source("grpc://u:hunter2@h:1/k")


class Broken(BaseSource):
    """Raises what a client library does, at one of its methods."""

    def __init__(self, where: str) -> None:
        self.where, self.rows = where, [([0], [1])]

    def fail(self, where: str) -> None:
        if where == self.where:
            try:
                raise OSError("no route to u:p")
            except OSError as error:
                raise ConnectionError("lost redis://u:hunter2@h:1/0") from error

    def poll(self, max_rows: int, timeout: float) -> tuple[Any, Any] | None:
        self.fail("poll")
        if not self.rows:
            raise EOFError
        return self.rows.pop(), 1

    def seek(self, position: Any) -> None:
        pass

    def commit(self, position: Any) -> None:
        self.fail("commit")

    def close(self) -> None:
        self.fail("close")


@pytest.mark.parametrize("where", ["poll", "commit", "close"])
def test_no_error_of_a_client_goes_on_with_a_password(where: str, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(DynamicGraph(device="cpu"), Broken(where))
    if where == "close":
        stream.run()
    else:
        with pytest.raises(StreamError) as caught:
            stream.run()
        assert WORD not in all_texts(caught.value, caplog)
    progress = stream.progress()
    assert "lost redis://***@h:1/0" in progress.errors[-1]
    assert WORD not in f"{progress}{progress.errors}{stream!r}{caplog.text}"


def test_causes_without_secrets_stay() -> None:
    error = OSError("refused")
    assert cause_of(error) is error
    error.__context__ = OSError("redis://:hunter2@h")
    assert cause_of(error) is None


def test_dead_letters_have_no_password_of_an_address(tmp_path: Path) -> None:
    def send(unit: Any) -> None:
        raise ConnectionError("redis://:hunter2@h is away")

    for on_error, error in ((send, StreamError), (tmp_path / "letters", None)):
        graph = DynamicGraph(device="cpu")
        stream = Stream(graph, [([0], [1]), ([0], [None])], on_error=on_error)
        if error is None:
            stream.run()
        else:
            with pytest.raises(error, match=r"redis://\*\*\*@h is away"):
                stream.run()


@pytest.mark.parametrize("command", ["stream", "bench"])
def test_commands_show_no_password(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ADDRESSES:
        monkeypatch.setattr(sys, "argv", ["dynstore", command, address, "--device", "cpu"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code in (1, 2)
        assert err.startswith("dynstore: error: ")
        assert WORD not in out + err


def test_addresses_are_no_files() -> None:
    with pytest.raises(InputError, match=r"read_events: 'redis://\*\*\*@h/k' is an address; wanted the path of a file"):
        read_events("redis://:hunter2@h/k")
