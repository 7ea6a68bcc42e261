"""Redis, NATS and Kafka as sources: real servers, killed and started again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dynstore
from dynstore import DynamicGraph, Stream
from dynstore.errors import InputError
from dynstore.streams import encode
from tests.crossed import thorough
from tests.streams.scripted import pairs_of
from tests.streams.sources.servers import nats_server, redis_server

ROOT = Path(__file__).resolve().parents[3]


class Redis:
    """A stream of a Redis server."""

    def __init__(self, folder: Path) -> None:
        self.redis = pytest.importorskip("redis")
        self._running = redis_server(folder)
        self.server = self._running.__enter__()
        self.address = f"redis://{self.server}/edges"

    def send(self, message: bytes) -> None:
        with self.redis.Redis.from_url(f"redis://{self.server}") as client:
            client.xadd("edges", {"edges": message})

    def close(self) -> None:
        self._running.__exit__(None, None, None)


class Nats:
    """A stream of a NATS server."""

    def __init__(self, folder: Path) -> None:
        self.nats = pytest.importorskip("nats")
        self._running = nats_server(folder)
        self.server = self._running.__enter__()
        self.address = f"nats://{self.server}/edges"
        asyncio.run(self._with_jetstream(lambda stream: stream.add_stream(name="all", subjects=["edges", "dead"])))

    async def _with_jetstream(self, work: Callable[[Any], Any]) -> None:
        client = await self.nats.connect(f"nats://{self.server}")
        await work(client.jetstream())
        await client.close()

    def send(self, message: bytes) -> None:
        asyncio.run(self._with_jetstream(lambda stream: stream.publish("edges", message)))

    def close(self) -> None:
        self._running.__exit__(None, None, None)


class Kafka:
    """A topic of librdkafka's mock cluster."""

    def __init__(self, folder: Path) -> None:
        kafka = pytest.importorskip("confluent_kafka")
        self._producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
        metadata = self._producer.list_topics("edges", timeout=20)
        self._producer.list_topics("dead", timeout=20)
        broker = next(iter(metadata.brokers.values()))
        self.address = f"kafka://{broker.host}:{broker.port}/edges"

    def send(self, message: bytes) -> None:
        self._producer.produce("edges", message, partition=0)
        assert self._producer.flush(20) == 0

    def close(self) -> None:
        del self._producer


@pytest.fixture(params=[Redis, Nats, Kafka])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = request.param(tmp_path)
    yield made
    made.close()


def test_what_was_not_committed_comes_again(broker: Any) -> None:
    """Rows are read, some of them committed; whoever reads next gets the others, none of the former."""
    for number in range(6):
        broker.send(
            encode([(2 * number, 2 * number + 1), (2 * number + 1, 2 * number + 2)], ("arrow", "json")[number % 2])
        )
    address = broker.address + "?group=first"
    G = DynamicGraph(device="cpu")
    stream = Stream(G, address, max_delay=0.0)
    stream.run(until=lambda progress: progress.applied == 12)
    assert pairs_of(G) == {(row, row + 1) for row in range(12)}
    broker.send(encode([(12, 13)]))
    again = DynamicGraph(device="cpu")
    Stream(again, address, max_delay=0.0).run(until=lambda progress: progress.applied >= 1)
    assert pairs_of(again) == {(12, 13)}
    other = DynamicGraph(device="cpu")
    Stream(other, broker.address + "?group=second", max_delay=0.0).run(until=lambda progress: progress.applied == 13)
    assert pairs_of(other) == {(row, row + 1) for row in range(13)}


def test_dead_letters_go_to_a_server_and_are_read_like_any_stream(broker: Any) -> None:
    broker.send(b"{oops")
    broker.send(encode([(0, 1)]))
    dead, letters = broker.address.replace("/edges", "/dead"), []
    stream = Stream(DynamicGraph(device="cpu"), broker.address, on_error=dead)
    progress = stream.run(until=lambda progress: progress.applied == 1)
    assert progress.left_out == 1

    def keep(rows: Any) -> Any:
        letters.extend(rows.to_dict("records"))
        return [0], [1]

    Stream(DynamicGraph(device="cpu"), dead, transform=keep).run(until=lambda progress: progress.applied == 1)
    assert [letter["value"] for letter in letters] == ["{oops"]
    assert "is no JSON" in letters[0]["error"]
    assert letters[0]["place"] in letters[0]["error"]


def test_a_server_that_does_not_answer_takes_no_letters() -> None:
    pytest.importorskip("redis")
    with pytest.raises(InputError, match="Stream: on_error: cannot open 'dead': Error 111"):
        Stream(DynamicGraph(device="cpu"), [(0, 1)], on_error="redis://127.0.0.1:1/dead")


CRASH = """
import os, sys
import dynstore
from dynstore import DynamicGraph, Stream
from dynstore.streams import open_source

source = open_source(sys.argv[1])
G = DynamicGraph(device="cpu")
def commit(position):  # the first message is committed, behind the second one the process is killed
    if G.number_of_edges() > 1:
        os.kill(os.getpid(), 9)
    original(position)
original, source.commit = source.commit, commit
Stream(G, source, max_delay=0.0, batch_edges=1).run()
"""


@pytest.mark.parametrize("broker", [Redis, *map(thorough, (Nats, Kafka))], indirect=True)
def test_killed_between_apply_and_commit_the_rows_come_again(broker: Any) -> None:
    address = broker.address + "?group=killed"
    process = subprocess.Popen([sys.executable, "-c", CRASH, address], cwd=ROOT)
    broker.send(encode([(100, 101)]))
    time.sleep(0.2)
    broker.send(encode([(101, 102)]))
    assert process.wait(60) == -9
    G = DynamicGraph(device="cpu")
    Stream(G, address, max_delay=0.0).run(until=lambda progress: progress.applied >= 1)
    assert (101, 102) in pairs_of(G)
    assert pairs_of(G) <= {(100, 101), (101, 102)}


EXACTLY_ONCE = """
import os, sys
import dynstore
from dynstore import Stream
from dynstore.streams import open_source

address, path, wanted = sys.argv[1:4]
source = open_source(address)
with dynstore.open(path, device="cpu", weighted=True) as db:
    held = db.graph.number_of_edges()
    def commit(position):  # rows are in the log; the source does not hear of it
        if int(wanted) == 0 and db.graph.number_of_edges() > held:
            os.kill(os.getpid(), 9)
        original(position)
    original, source.commit = source.commit, commit
    stream = Stream(db.graph, source, max_delay=0.0, batch_edges=1)
    progress = stream.run(until=lambda progress: db.graph.number_of_edges() == int(wanted) > 0)
    print(held, progress.applied)
"""


@pytest.mark.parametrize("broker", [Redis, *map(thorough, (Nats, Kafka))], indirect=True)
def test_killed_between_log_and_commit_no_row_is_lost_or_doubled(broker: Any, tmp_path: Path) -> None:
    """What the server sends again is in the log already, and is not applied again: a version is one row."""
    rows, command = 0, [sys.executable, "-c", EXACTLY_ONCE, broker.address + "?group=once", str(tmp_path / "db")]
    for is_last in (False, False, True):
        for _ in range(2):
            broker.send(encode([(rows, rows + 1, 1.0)]))
            rows += 1
        wanted = str(rows) if is_last else "0"
        done = subprocess.run([*command, wanted], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == (0 if is_last else -9), done.stderr
    held, applied = map(int, done.stdout.split())
    assert held >= 2
    assert held + applied == rows
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        assert pairs_of(db.graph) == {(row, row + 1) for row in range(rows)}
        assert db.graph.version == rows


def test_a_position_can_be_sought(broker: Any) -> None:
    """As a database does, whose log knows better than the server."""
    from dynstore.streams import open_source

    for row in range(3):
        broker.send(encode([(row, row + 1)]))
    source = open_source(broker.address + "?group=sought")
    found, ends = [], time.monotonic() + 20
    while len(found) < 2:
        assert time.monotonic() < ends
        got = source.poll(1, 0.1)
        found += [got] if got is not None and any(map(got[0].value, range(len(got[0])))) else []
    position = json.loads(json.dumps(found[0][1]))
    source.commit(found[1][1])
    source.close()
    second = open_source(broker.address + "?group=sought")
    second.seek(position)
    got = None
    while got is None or not got[0].value(0):  # Kafka's first says where the next messages end, and has no rows
        assert time.monotonic() < ends
        got = second.poll(1, 0.1)
    ids = [[int(source) for source in units.read(0, 1)["source"].to_pylist()] for units, _ in (got, found[1])]
    assert ids[0] == ids[1]
    second.pause(True)
    second.pause(False)
    second.close()
