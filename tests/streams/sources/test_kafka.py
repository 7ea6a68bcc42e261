"""Kafka as a source, on librdkafka's mock cluster: what is gone, made anew, added, or out of reach."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import InputError, SourceGapError, StreamError
from dynstore.streams import KafkaSource, encode
from dynstore.streams.sources import kafka
from tests.streams.scripted import graph, pairs_of, wait_until
from tests.streams.sources.kafka_mock import MockCluster
from tests.streams.sources.proxy import Proxy

ROOT = Path(__file__).resolve().parents[3]
QUICK = {
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "fetch_wait_max_ms": 10,
    "fetch_error_backoff_ms": 10,
    "retry_backoff_ms": 10,
    "topic_metadata_refresh_fast_interval_ms": 10,
}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as made:
        yield made


def row(number: int) -> bytes:
    """Row k is the edge (k, k + 1), so an edge says which row it is."""
    return encode([(number, number + 1)])


def source_of(cluster: MockCluster, port: int | None = None, **options: Any) -> KafkaSource:
    return KafkaSource("edges", servers=f"127.0.0.1:{port or cluster.port}", **QUICK, **options)


def positions_of(source: KafkaSource, count: int) -> list[Any]:
    """Read some messages, and return the positions behind them."""
    found: list[Any] = []

    def read() -> bool:
        got = source.poll(1, 0.05)
        if got is not None:
            units, _ = got
            found.extend(units.position(n) for n in range(len(units)) if units.value(n) is not None)
        return len(found) >= count

    wait_until(read)
    return found


def read_to_end(source: KafkaSource) -> SourceGapError:
    """Poll until the source raises."""
    with pytest.raises(SourceGapError) as caught:
        wait_until(lambda: source.poll(1, 0.05) is KafkaSource)
    source.close()
    return caught.value


# ---------------------------------------------------------------------- what is gone


def test_a_position_has_the_topic_and_all_offsets(cluster: MockCluster) -> None:
    cluster.send(row(0), row(1))
    source = source_of(cluster)
    first, second = positions_of(source, 2)
    assert first["topic"] == second["topic"] is not None
    assert [first["offsets"], second["offsets"]] == [{"0": 1}, {"0": 2}]
    assert json.loads(json.dumps(second)) == second
    source.close()


@pytest.mark.parametrize("position", [{"0": 1}, {"topic": None, "offsets": {"0": 1}}])
def test_a_trimmed_topic_when_reading_begins(cluster: MockCluster, position: Any) -> None:
    cluster.send(*map(row, range(5)))
    cluster.trim(3)
    source = source_of(cluster)
    source.seek(position)
    gap = read_to_end(source)
    assert "offsets 1 to 2 of partition 0 of 'edges' are gone (2 offsets)" in str(gap)
    assert (gap.first, gap.last, gap.count) == ({0: 1}, {0: 2}, 2)
    assert gap.resume["offsets"] == {"0": 3}  # type: ignore[index]


def test_a_trimmed_topic_while_it_is_read(cluster: MockCluster) -> None:
    cluster.send(*map(row, range(3)))
    G = graph()
    with Stream(G, source_of(cluster, fetch_min_bytes=1), max_delay=0.0, on_gap="continue").start() as stream:
        wait_until(lambda: stream.progress().applied == 3)
        cluster.set_up(False)
        cluster.trim(3)
        cluster.set_up(True)
        cluster.send(row(3))
        wait_until(lambda: stream.progress().applied == 4)
        assert stream.progress().gaps == 0


@pytest.mark.parametrize("begun", [True, False])
def test_a_topic_that_is_made_anew(cluster: MockCluster, begun: bool) -> None:
    """The new one is longer than the position, so that offsets alone would not tell."""
    cluster.send(row(0), row(1))
    source = source_of(cluster, look_every=0.1)
    position = positions_of(source, 2)[-1]
    cluster.make_anew()
    cluster.send(*map(row, range(10, 14)))
    if not begun:
        source.close()
        source = source_of(cluster)
        source.seek(position)
    with pytest.raises(SourceGapError, match="the topic 'edges' was made anew") as caught:
        wait_until(lambda: source.poll(1, 0.05) is KafkaSource)
    gap = caught.value
    assert gap.resume["offsets"] == {"0": 0}  # type: ignore[index]
    source.seek(gap.resume)
    assert positions_of(source, 4)[-1]["offsets"] == {"0": 4}
    source.close()


def test_no_message_of_another_topic_is_taken_for_one_of_this(cluster: MockCluster) -> None:
    """librdkafka goes on at the old offset; the next look is far away."""
    cluster.send(row(0), row(1))
    source = source_of(cluster, look_every=60.0)
    positions_of(source, 2)
    cluster.make_anew()
    cluster.send(*map(row, range(10, 14)))
    got = []
    with pytest.raises(SourceGapError, match="the topic 'edges' was made anew"):
        wait_until(lambda: got.append(source.poll(1, 0.05)))
    assert set(got) == {None}
    source.close()


def test_offsets_that_are_gone_while_the_stream_has_no_room(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster)
    positions_of(source, 1)
    source.pause(True)
    cluster.send(*map(row, range(1, 7)))
    cluster.trim(4)
    source.pause(False)
    gap = read_to_end(source)
    assert (gap.first, gap.last, gap.count) == ({0: 1}, {0: 3}, 3)


def test_a_group_that_is_read_again_stays_whole() -> None:
    """Rows of it are skipped, so its messages come in the same order, though reading begins anew on the way."""
    with MockCluster(2) as cluster:
        for number in range(4):
            cluster.send(row(number), partition=number % 2)
        source = source_of(cluster)
        source.seek({"topic": None, "offsets": {"0": 0, "1": 0}, "until": {"0": 2, "1": 2}})
        got = None

        def one_partition_is_there() -> bool:
            nonlocal got
            got = got or source.poll(1, 0.05)
            return got is not None or len(source._left) == 1

        wait_until(one_partition_is_there)
        assert got is None
        source._assigned, source._look_at = False, 0.0
        wait_until(lambda: source.poll(1, 0.05))
        units, position = source.poll(1, 0.05) or (None, None)
        assert [units.value(n) for n in range(len(units))] == [row(0), row(2), row(1), row(3)]
        assert position["offsets"] == {"0": 2, "1": 2}
        source.close()


def test_offsets_alone_tell_of_a_shorter_topic(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster)
    source.seek({"0": 9})
    gap = read_to_end(source)
    assert "was made anew or cut back: its partition 0 has offsets 0 to 0, the position is 9" in str(gap)
    assert (gap.count, gap.resume["offsets"]) == (None, {"0": 0})  # type: ignore[index]
    other = source_of(cluster)
    other.seek({"0": 1, "7": 3})
    assert "was made anew: it has no partition 7" in str(read_to_end(other))


def test_the_group_knows_the_topic(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster)
    source.commit(positions_of(source, 1)[-1] | {"topic": "of-another-topic"})
    source.close()
    assert "the topic 'edges' was made anew" in str(read_to_end(source_of(cluster)))


def test_a_client_that_is_left_is_silent(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread goes on as long as the program, and tries to reach the broker."""
    monkeypatch.setattr(kafka, "CALL_S", 0.3)
    source, ended = source_of(cluster), Event()
    client = source._consumer

    def close() -> None:
        while not ended.is_set():
            client.poll(0.01)
        client.close()

    source._consumer = SimpleNamespace(close=close)
    cluster.set_up(False)
    source.close()
    said = [record.getMessage() for record in caplog.records]
    assert any(message.startswith("FAIL ") for message in said)
    assert "it is left" in said[-1]
    time.sleep(0.3)
    assert len(caplog.records) == len(said)
    cluster.set_up(True)
    ended.set()


def test_what_an_earlier_program_has_read_is_said(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.send(row(0), row(1))
    source = source_of(cluster)
    assert source.left_behind is None
    source.commit(positions_of(source, 2)[-1])
    source.close()
    cluster.send(row(2))
    G = graph()
    with caplog.at_level(logging.WARNING, "dynstore"):
        Stream(G, source_of(cluster), max_delay=0.0).run(until=lambda progress: progress.applied == 1)
    assert "the group 'dynstore' of 'edges' is at offset 2 of partition 0: an earlier program has read" in caplog.text
    assert pairs_of(G) == {(2, 3)}


def test_where_a_new_group_begins(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster, begin="latest", group="late")
    assert source.poll(1, 0.0) is None
    cluster.send(row(1))
    assert positions_of(source, 1)[-1]["offsets"] == {"0": 2}
    source.close()
    with pytest.raises(InputError, match="unknown begin 'end'; known: 'earliest', 'latest'"):
        source_of(cluster, begin="end")
    for option in ("auto_offset_reset", "group_id", "enable_auto_commit", "on_commit"):
        with pytest.raises(InputError, match=f"the option {option} is set by the source"):
            source_of(cluster, **{option: "latest"})


# ---------------------------------------------------------------------- the cluster


def change_partitions(source: KafkaSource, change: Callable[[dict[int, Any]], None]) -> None:
    """Change what a source sees of its topic's partitions, where the mock cluster cannot change them."""

    class Changed:
        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, name: str) -> Any:
            return getattr(self._client, name)

        def list_topics(self, topic: str, timeout: float) -> Any:
            metadata = self._client.list_topics(topic, timeout=timeout)
            change(metadata.topics[topic].partitions)
            return metadata

    source._consumer, source._admin = Changed(source._consumer), Changed(source._admin)


def hide(source: KafkaSource, seen: list[int]) -> None:
    """Let a source see only some partitions."""

    def change(partitions: dict[int, Any]) -> None:
        for number in partitions.keys() - set(seen):
            del partitions[number]

    change_partitions(source, change)


@pytest.mark.parametrize("begin", ["earliest", "latest"])
def test_partitions_that_are_added_are_read_from_their_beginning(begin: Any) -> None:
    with MockCluster(2) as cluster:
        cluster.send(row(0))
        source, seen, G = source_of(cluster, begin=begin, look_every=0.05), [0], graph()
        hide(source, seen)
        with Stream(G, source, max_delay=0.0).start() as stream:
            wait_until(lambda: source._assigned)
            cluster.send(row(1))
            wait_until(lambda: (1, 2) in stream.ask(pairs_of).result(60).result)
            cluster.send(row(2), partition=1)
            seen.append(1)
            wait_until(lambda: (2, 3) in stream.ask(pairs_of).result(60).result)
        assert pairs_of(G) == {(n, n + 1) for n in range(begin == "latest", 3)}


def test_a_topic_that_is_deleted_is_one_clear_error(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster, look_every=0.1)
    positions_of(source, 1)
    cluster.call("topic_delete", b"edges")
    with pytest.raises(StreamError, match="the topic 'edges' was deleted while it was read"):
        wait_until(lambda: source.poll(1, 0.05) is KafkaSource)
    source.close()


def test_a_cluster_out_of_reach_is_one_clear_error(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynstore.streams.sources.kafka, "CALL_S", 0.3)
    cluster.send(row(0))
    quick = {"heartbeat_interval_ms": 100, "session_timeout_ms": 500}
    source = source_of(cluster, look_every=0.1, patience=0.5, **quick)
    position = positions_of(source, 1)[-1]
    cluster.set_up(False)
    source.commit(position)
    with pytest.raises(StreamError, match=r"no server of 127\.0\.0\.1:\d+ has answered for 0\.5 s"):
        wait_until(lambda: source.poll(1, 0.05) is KafkaSource)
    begun = time.monotonic()
    source.close()
    assert time.monotonic() - begun < 5


def test_a_partition_without_a_leader_is_one_clear_error() -> None:
    """The other partitions go on, and none of their calls fails."""
    with MockCluster(2) as cluster:
        cluster.send(row(0))
        cluster.send(row(1), partition=1)
        source = source_of(cluster, look_every=0.1, patience=0.3)
        positions_of(source, 2)
        change_partitions(source, lambda partitions: setattr(partitions[1], "leader", -1))
        with pytest.raises(StreamError, match=r"partition 1 of 'edges' has had no leader for 0\.3 s"):
            wait_until(lambda: source.poll(1, 0.05) is KafkaSource)
        source.close()


def test_what_is_committed_while_the_cluster_is_away_arrives_later(cluster: MockCluster) -> None:
    cluster.send(row(0))
    source = source_of(cluster, look_every=0.1)
    position = positions_of(source, 1)[-1]
    cluster.set_up(False)
    source.commit(position)
    cluster.set_up(True)
    wait_until(lambda: source.poll(1, 0.05) is None and source._owed is None)
    source.close()
    again = source_of(cluster)
    assert again._next == {"0": 1}
    again.close()


# ---------------------------------------------------------------------- faults

PROGRAM = """
import sys
import dynstore
from dynstore import Stream
from dynstore.streams import KafkaSource

port, path, rows = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
source = KafkaSource("edges", servers=f"127.0.0.1:{port}", reconnect_backoff_ms=20, fetch_wait_max_ms=10)
with dynstore.open(path, device="cpu", sync="os") as db:
    print("open", flush=True)
    Stream(db.graph, source, batch_edges=5, max_delay=0.0).run(until=lambda p: db.graph.number_of_edges() >= rows)
"""
MESSAGES, ROWS = 40, 7  # rows of a message; a batch has fewer, so that the log cuts messages


def fill(cluster: MockCluster, rng: np.random.Generator, partitions: int, first: int = 0, count: int = MESSAGES) -> int:
    """Send messages of rows that are all different; return how many rows."""
    for number in range(first, first + count):
        rows = np.arange(number * ROWS, (number + 1) * ROWS)
        cluster.send(encode((rows, rows + 1)), partition=int(rng.integers(partitions)))
    return count * ROWS


def judged(applied: list[int], wanted: set[int]) -> tuple[int, int]:
    """Return how many rows are missing, and how many came again."""
    seen = Counter(applied)
    return len(wanted - seen.keys()), sum(seen.values()) - len(seen)


class Noted:
    """A graph's rows, in the order in which a stream applies them."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, frame: Any) -> Any:
        self.rows += [int(each) for each in frame["source"]]
        return frame


def killed(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """The reader is killed at any moment; three partitions, so that the order of messages may change."""
    folder = tmp_path / f"db{rng.integers(1 << 60)}"
    with MockCluster(3) as cluster:
        total = fill(cluster, rng, 3)
        command = [sys.executable, "-c", PROGRAM, str(cluster.port), str(folder), str(total)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
        with dynstore.open(folder, device="cpu") as db:
            held, _noted = set(db.graph.to_pandas()["source"].tolist()), Noted()
            stream = Stream(db.graph, source_of(cluster), batch_edges=5, max_delay=0.0)
            progress = stream.run(until=lambda _: db.graph.number_of_edges() >= total)
            seen = set(db.graph.to_pandas()["source"].tolist())
            return total - len(seen), len(held) + progress.applied - len(seen)


def run_noted(
    cluster: MockCluster, source: KafkaSource, harm: Callable[[Stream], None], wanted: set[int], **options: Any
) -> tuple[int, int]:
    noted = Noted()
    with Stream(graph(), source, batch_edges=5, max_delay=0.0, transform=noted, **options).start() as stream:
        harm(stream)
        wait_until(lambda: wanted <= set(noted.rows) or stream.progress().state != "running", 60)
        stream.drain()
    return judged(noted.rows, wanted)


def cut(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """The connections are cut at any byte, again and again."""
    with MockCluster(2) as cluster, Proxy(cluster.port, int(rng.integers(1 << 30))) as proxy:
        total = fill(cluster, rng, 2)
        cluster.advertise(proxy.port)

        def harm(stream: Stream) -> None:
            for part in range(1, 5):
                proxy.cut_after(6000)
                wait_until(lambda part=part: stream.progress().applied >= part * total // 5, 60)

        found = run_noted(cluster, source_of(cluster, proxy.port, look_every=0.2), harm, set(range(total)))
        assert proxy.cuts
        return found


def delayed(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    with MockCluster(2) as cluster:
        total = fill(cluster, rng, 2, count=10)
        cluster.call("broker_set_rtt", 1, int(rng.integers(5, 100)))
        return run_noted(cluster, source_of(cluster), lambda stream: None, set(range(total)))


def down(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """The broker goes away and comes back."""
    with MockCluster(2) as cluster:
        total = fill(cluster, rng, 2, count=20)

        def harm(stream: Stream) -> None:
            least = int(rng.integers(total))
            wait_until(lambda: stream.progress().applied >= least)
            cluster.set_up(False)
            time.sleep(rng.uniform(0.0, 0.3))
            cluster.set_up(True)
            fill(cluster, rng, 2, 20, 20)

        return run_noted(cluster, source_of(cluster, look_every=0.1), harm, set(range(2 * total)))


def trimmed(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """What is not there any more is counted; all else comes once."""
    with MockCluster() as cluster:
        fill(cluster, rng, 1, count=30)
        at, low = sorted(map(int, rng.choice(30, 2, replace=False)))
        cluster.trim(low)
        source = source_of(cluster)
        source.seek({"0": at})
        noted = Noted()
        stream = Stream(graph(), source, transform=noted, on_gap="continue")
        progress = stream.run(until=lambda progress: progress.applied >= (30 - low) * ROWS)
        assert (progress.gaps, progress.lost) == (1, low - at)
        return judged(noted.rows, set(range(low * ROWS, 30 * ROWS)))


def made_anew(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    with MockCluster() as cluster:
        total = fill(cluster, rng, 1, count=10)

        def harm(stream: Stream) -> None:
            wait_until(lambda: stream.progress().applied == total)
            cluster.make_anew()
            fill(cluster, rng, 1, 10, int(rng.integers(1, 10)))  # offsets that were read are used again
            wait_until(lambda: stream.progress().gaps == 1)
            fill(cluster, rng, 1, 20, 10)

        options: dict[str, Any] = {"on_gap": "continue"}
        wanted = set(range(total)) | set(range(20 * ROWS, 30 * ROWS))
        return run_noted(cluster, source_of(cluster, look_every=0.05), harm, wanted, **options)


def added(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    with MockCluster(2) as cluster:
        seen, source = [0], source_of(cluster, look_every=0.05)
        hide(source, seen)
        total = fill(cluster, rng, 2, count=20)

        def harm(stream: Stream) -> None:
            time.sleep(rng.uniform(0.0, 0.2))
            seen.append(1)
            fill(cluster, rng, 2, 20, 20)

        return run_noted(cluster, source, harm, set(range(2 * total)))


def poison(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """Messages that cannot be read, or have nothing, among others."""
    with MockCluster() as cluster:
        bad = [b"{oops", b"\xff\xff\xff\xff12", None, b""]
        for number in range(20):
            fill(cluster, rng, 1, number, 1)
            cluster.send(bad[rng.integers(len(bad))])
        return run_noted(cluster, source_of(cluster), lambda stream: None, set(range(20 * ROWS)), on_error="skip")


def duplicate(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """A producer sends a message twice: two offsets, of which both are read, as Kafka has them."""
    with MockCluster() as cluster:
        fill(cluster, rng, 1, count=10)
        again = int(rng.integers(10))
        fill(cluster, rng, 1, again, 1)
        fill(cluster, rng, 1, 10, 1)
        lost, doubled = run_noted(cluster, source_of(cluster), lambda stream: None, set(range(11 * ROWS)))
        return lost, doubled - ROWS


FAULTS: dict[str, Callable[[np.random.Generator, Path], tuple[int, int]]] = {
    "reader killed": killed,
    "link cut": cut,
    "delay": delayed,
    "broker down": down,
    "trimmed": trimmed,
    "made anew": made_anew,
    "partitions added": added,
    "poison": poison,
    "duplicate": duplicate,
}
