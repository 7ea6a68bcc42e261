"""Redis and NATS: servers restarted, links cut, streams trimmed and made anew. Each row is read once, or counted."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import InputError, SourceGapError, StreamError
from dynstore.streams import encode
from dynstore.streams.sources import nats as nats_source
from tests.streams.scripted import graph, wait_until
from tests.streams.sources.brokers import Broker, Nats, Redis, SharedNats
from tests.streams.sources.proxy import Proxy

ROOT = Path(__file__).resolve().parents[3]
SOON_S = 0.05  # until the source of NATS looks whether the server still knows it
ROWS = 200
BROKERS = pytest.mark.parametrize("kind", [Redis, Nats])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the source of NATS look soon whether the server still knows it."""
    monkeypatch.setattr(nats_source, "LOOK_S", SOON_S)


class Reading:
    """A stream into a graph, by its rows."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.graph = graph()
        self.stream = Stream(self.graph, source, max_delay=0.0, batch_edges=20_000, **options).start()

    def wait(self, rows: int) -> None:
        """Wait until so many rows have come, or the stream has ended."""
        wait_until(lambda: self.stream.progress().applied >= rows or self.stream.progress().state != "running", 60)

    def end(self, truth: set[int]) -> tuple[int, int]:
        """End the stream, and return how many rows were lost, and how many came twice."""
        self.stream.stop()
        found = set(self.graph.to_pandas()["source"].tolist())
        assert found <= truth
        return len(truth - found), self.stream.progress().applied - len(found)


def through_cuts(rng: np.random.Generator, broker: Broker, delay: float = 0.0) -> tuple[int, int]:
    """The link is cut at random bytes, inside of messages as well."""
    broker.send(range(ROWS))
    with Proxy(broker.port, int(rng.integers(2**31))) as proxy:
        proxy.delay = delay
        source = broker.source(proxy.port)
        proxy.cut_after(8000)  # fewer than the messages have; and before the first is read
        reading = Reading(source)
        reading.wait(ROWS)
        cuts = proxy.cuts
        assert cuts > 0
        proxy.cut_after(8000)
        broker.send(range(ROWS, 2 * ROWS))
        reading.wait(2 * ROWS)
        assert proxy.cuts > cuts
        return reading.end(set(range(2 * ROWS)))


def through_delay(rng: np.random.Generator, broker: Broker) -> tuple[int, int]:
    return through_cuts(rng, broker, float(rng.uniform(0.001, 0.02)))


def through_restart(rng: np.random.Generator, broker: Broker) -> tuple[int, int]:
    """The server is killed while messages are on their way, and comes back with its data."""
    broker.send(range(ROWS))
    reading = Reading(broker.source())
    reading.wait(int(rng.integers(0, ROWS + 1)))
    broker.kill()
    time.sleep(rng.uniform(0, 0.2))
    broker.start()
    broker.send(range(ROWS, 2 * ROWS))
    reading.wait(2 * ROWS)
    return reading.end(set(range(2 * ROWS)))


def through_poison(rng: np.random.Generator, broker: Broker) -> tuple[int, int]:
    """Messages that cannot be read are left out, and no other."""
    messages = [encode([(row, row + 1)], "json") for row in range(ROWS)]
    bad = set(rng.integers(0, ROWS, 9).tolist())
    broker.send_all([b"{oops" if row in bad else message for row, message in enumerate(messages)])
    reading = Reading(broker.source(), on_error="skip")
    reading.wait(ROWS - len(bad))
    assert reading.stream.progress().left_out == len(bad)
    return reading.end(set(range(ROWS)) - bad)


def through_trim(rng: np.random.Generator, broker: Any) -> tuple[int, int]:
    """What is gone is what the progress says, whether the stream ran meanwhile or not."""
    read, gone, behind = rng.integers(1, 50, 3).tolist()
    broker.send(range(read))
    reading = Reading(broker.source(), on_gap="continue")
    reading.wait(read)
    assert reading.end(set(range(read))) == (0, 0)
    broker.send(range(read, read + gone + behind))
    broker.trim(behind)
    again = Reading(broker.source(), on_gap="continue")
    again.wait(behind)
    progress = again.stream.progress()
    lost, doubled = again.end(set(range(read, read + gone + behind)))
    assert (progress.gaps, progress.lost) == (1, gone)
    return lost - gone, doubled


def through_new_key(rng: np.random.Generator, broker: Any) -> tuple[int, int]:
    """All of the new stream is read, fewer or more messages than there were."""
    old, new = rng.integers(1, 50, 2).tolist()
    broker.send(range(old))
    reading = Reading(broker.source(), on_gap="continue")
    reading.wait(old)
    if rng.random() < 0.5:  # while nobody reads
        assert reading.end(set(range(old))) == (0, 0)
        broker.make_anew()
        broker.send(range(old, old + new))
        again = Reading(broker.source(), on_gap="continue")
        again.wait(new)
        assert again.stream.progress().gaps == isinstance(broker, Nats)  # Redis has lost the group with the key
        return again.end(set(range(old, old + new)))
    broker.make_anew()
    broker.send(range(old, old + new))
    reading.wait(old + new)
    assert reading.stream.progress().gaps in (1, 2)  # the key was missing for a moment
    return reading.end(set(range(old + new)))


PROGRAM = """
import os, sys, threading, time
import dynstore
from dynstore import Stream

def kill(graph, row, rows):
    while row < rows and graph.version < row:  # at any place of what comes behind this row
        time.sleep(0.0001)
    if row < rows:
        os.kill(os.getpid(), 9)

address, folder, rows, row = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with dynstore.open(folder, device="cpu", sync="group") as db:
    threading.Thread(target=kill, args=(db.graph, row, rows), daemon=True).start()
    stream = Stream(db.graph, address, batch_edges=1, max_delay=0.0)
    stream.run(until=lambda progress: db.graph.number_of_edges() == rows)
"""


def through_kill(rng: np.random.Generator, broker: Broker) -> tuple[int, int]:
    """The program that reads is killed with -9. A version is a row, so the versions say how many were applied."""
    folder = broker.folder.parent / f"db-{rng.integers(2**31)}"
    broker.send(range(ROWS))
    command = [sys.executable, "-c", PROGRAM, broker.address() + f"?group={folder.name}", str(folder), str(ROWS)]
    for row, ends in ((int(rng.integers(0, ROWS)), -9), (ROWS, 0)):
        done = subprocess.run([*command, str(row)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == ends, done.stderr
    with dynstore.open(folder, device="cpu") as db:
        rows = set(db.graph.to_pandas()["source"].tolist())
        return len(set(range(ROWS)) - rows), db.graph.version - len(rows)


Fault = Callable[[np.random.Generator, Any], tuple[int, int]]
KINDS: dict[str, Fault] = {
    "link cut": through_cuts,
    "link cut and slow": through_delay,
    "server restarted": through_restart,
    "poison": through_poison,
    "trimmed": through_trim,
    "made anew": through_new_key,
    "program killed": through_kill,
}


def _fault(kind: type[Broker], through: Fault) -> Callable[[np.random.Generator, Path], tuple[int, int]]:
    def once(rng: np.random.Generator, folder: Path) -> tuple[int, int]:
        with pytest.MonkeyPatch.context() as patch, kind(folder) as broker:
            patch.setattr(nats_source, "LOOK_S", SOON_S)
            return through(rng, broker)

    return once


FAULTS = {kind: {name: _fault(kind, through) for name, through in KINDS.items()} for kind in (Redis, Nats)}


# ---------------------------------------------------------------------- single faults


def rows_of(source: Any, most: int = 10**6, polls: int = 3) -> list[int]:
    """Return what a source has now."""
    rows: list[int] = []
    for _ in range(polls):
        got = source.poll(most, 0.05)
        if got is not None:
            rows += got[0].read(0, len(got[0]))["source"]
    return rows


def gap_of(source: Any) -> SourceGapError:
    """Return the gap that a source raises; what it has before may come first."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        try:
            source.poll(3000, 0.05)
        except SourceGapError as gap:
            return gap
    pytest.fail("no gap was seen")


@BROKERS
def test_a_trim_between_two_polls_is_seen(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path) as broker:
        source = broker.source()
        broker.send(range(10))
        assert rows_of(source, 3000, polls=2) == [0, 1, 2, 3, 4, 5]
        broker.trim(2)
        gap = gap_of(source)
        assert "2 messages of 'edges' between" in str(gap)
        assert gap.count == gap_of(source).count == 2  # nothing has changed
        source.seek(gap.resume)
        assert rows_of(source) == [8, 9]
        broker.trim(1)  # what was read is no gap
        broker.send([10])
        assert rows_of(source) == [10]
        broker.trim(0)
        assert rows_of(source) == []
        broker.send([11])
        assert rows_of(source) == [11]
        source.close()


@BROKERS
def test_a_trim_of_all_messages_is_seen(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path) as broker:
        source = broker.source()
        broker.send(range(3))
        assert rows_of(source) == [0, 1, 2]
        broker.send(range(3, 8))
        broker.trim(0)
        again = broker.source(**{"group" if kind is Redis else "name": "new"})
        assert rows_of(again) == []  # a new reader begins with what there is
        broker.send([8])
        assert rows_of(again) == [8]
        gap = gap_of(source)
        source.seek(gap.resume)
        assert gap.count == 5
        assert rows_of(source) == [8]
        source.close()
        again.close()


def test_messages_that_are_deleted_by_their_ids_are_no_gap(tmp_path: Path, rng: np.random.Generator) -> None:
    with Redis(tmp_path) as broker, broker.connect() as client:
        source, sent = broker.source(), []

        def send(count: int) -> None:
            sent.extend(client.xadd("edges", {"edges": encode([(row, row + 1)], "json")}) for row in range(count))

        for _ in range(20):
            send(10)
            rows_of(source, 3000, polls=1)  # some are read, and some are not
            for place in rng.integers(len(sent) - 10, len(sent), 4).tolist():
                client.xdel("edges", sent[place])
            rows_of(source, 2000, polls=2)
        rows_of(source, polls=9)
        send(9)
        client.xtrim("edges", maxlen=4, approximate=False)
        with pytest.raises(SourceGapError) as caught:
            source.poll(10**6, 0.05)
        assert caught.value.count == 5
        source.seek(caught.value.resume)
        client.xdel("edges", sent[-4])  # one that the reader cannot read, for example
        assert rows_of(source) == [6, 7, 8]
        source.close()


@BROKERS
def test_a_server_that_has_lost_its_data_is_noticed(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path) as broker:
        broker.send(range(5))
        reading = Reading(broker.source())
        reading.wait(5)
        broker.kill(loses=True)
        broker.start()
        if kind is Nats:
            broker.make()
        broker.send([7])
        with pytest.raises(SourceGapError, match="was made anew"):
            wait_until(lambda: reading.stream.progress().state != "running") or reading.stream.stop()


@BROKERS
def test_a_server_that_stays_away_ends_the_stream_in_the_stated_time(
    kind: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kind(tmp_path) as broker:
        broker.send(range(5))
        reading = Reading(broker.source(patience=0.5))
        reading.wait(5)
        with caplog.at_level(logging.WARNING, "dynstore"):
            broker.kill()
            begun = time.monotonic()
            with pytest.raises(StreamError, match=r"the server of 'edges' has not answered for 0\.5 s"):
                wait_until(lambda: reading.stream.progress().state != "running") or reading.stream.stop()
        assert 0.4 < time.monotonic() - begun < 15
        assert len([text for text in caplog.messages if "trying again for 0.5 s" in text]) == 1
        with pytest.raises(InputError, match="patience is -1; wanted seconds, at least 0"):
            broker.source(patience=-1)


@BROKERS
def test_an_outage_is_logged_when_it_begins_and_ends(
    kind: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kind(tmp_path) as broker, caplog.at_level(logging.WARNING, "dynstore"):
        reading = Reading(broker.source())
        broker.kill()
        wait_until(lambda: "does not answer" in caplog.text)
        broker.start()
        wait_until(lambda: "answers again" in caplog.text)
        broker.send(range(3))
        reading.wait(3)
        assert reading.end(set(range(3))) == (0, 0)
    assert len([text for text in caplog.messages if "answer" in text]) == 2


@BROKERS
def test_what_an_earlier_program_has_read_is_said(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path) as broker:
        first = broker.source()
        assert first.left_behind is None
        broker.send(range(3))
        Stream(graph(), first).run(until=lambda progress: progress.applied == 3)
        second = broker.source()
        assert "'dynstore'" in second.left_behind
        assert "an earlier program has read up to there; another group begins with the first" in second.left_behind
        second.close()


@BROKERS
def test_positions_of_older_versions_and_of_other_streams(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path) as broker:
        broker.send(range(5))
        source = broker.source()
        messages, _ = next(iter(filter(None, (source.poll(10**6, 0.1) for _ in range(50)))))
        position = messages.position(1)
        source.seek(position["id" if kind is Redis else "sequence"])
        assert rows_of(source) == [2, 3, 4]
        source.seek(position)
        assert rows_of(source) == [2, 3, 4]
        other = position | {"key" if kind is Redis else "subject": "others"}
        with pytest.raises(
            SourceGapError, match=r"the position is message .* of 'others'; wanted .* 'edges'"
        ) as caught:
            source.seek(other)
        source.seek(caught.value.resume)
        assert rows_of(source) == [0, 1, 2, 3, 4]
        source.close()


def test_messages_of_other_subjects_that_are_gone_are_not_missed(tmp_path: Path) -> None:
    with SharedNats(tmp_path) as broker:
        broker.send(range(3))
        source = broker.source()
        assert rows_of(source) == [0, 1, 2]
        position = source._position(source._last, *source._made)
        source.commit(position)
        broker.send_all([b"{}"] * 9, "others")
        wait_until(lambda: source.poll(10**6, 0.05) is None and source._seen == 12)
        source.close()
        broker.trim(0)
        broker.send([3])
        again = broker.source()
        again.seek(position)
        assert rows_of(again, polls=9) == [3]
        broker.send_all([b"{}"] * 9, "others")
        broker.trim(1)
        again._is_whole = False  # before it has looked
        with pytest.raises(SourceGapError, match="at most 8 messages"):
            again.poll(10**6, 0.05)
        again.close()


def test_a_consumer_that_the_server_forgets_is_made_anew(tmp_path: Path) -> None:
    async def forget(stream: Any) -> None:
        for consumer in await stream.consumers_info("all"):
            await stream.delete_consumer("all", consumer.name)

    with Nats(tmp_path) as broker:
        broker.send(range(3))
        reading = Reading(broker.source())
        reading.wait(3)
        broker.work(forget)
        broker.send(range(3, 6))
        reading.wait(6)
        assert reading.end(set(range(6))) == (0, 0)


def test_what_could_not_be_committed_is_committed_later(tmp_path: Path) -> None:
    with Redis(tmp_path) as broker, Proxy(broker.port) as proxy:
        broker.send(range(3))
        source = broker.source(proxy.port)
        _, position = source.poll(10**6, 0.05)
        away = threading.Thread(target=proxy.shut, args=(0.3,))
        away.start()
        wait_until(lambda: proxy.cuts)
        source.commit(position)
        assert source._uncommitted == position
        away.join()
        wait_until(lambda: source.poll(10**6, 0.05) is None and source._uncommitted is None)
        source.close()
        assert broker.source().left_behind is not None
