"""Arrow Flight as a source: servers that end, links that are cut, and other data than before."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dynstore
from dynstore import Stream
from dynstore.errors import SourceGapError, StreamError
from dynstore.streams import FlightSource
from dynstore.streams.sources import flight as module
from tests.streams.scripted import graph, pairs_of, wait_until
from tests.streams.sources.flight_server import BATCHES, ROWS, Server
from tests.streams.sources.proxy import Proxy
from tests.streams.sources.servers import free_port

flight = pytest.importorskip("pyarrow.flight")

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def served(port: int = 0, **options: Any) -> Iterator[Server]:
    with Server(port, **options) as server:
        yield server
        server.shutdown()


def source_of(port: int, ticket: str = "edges", **options: Any) -> FlightSource:
    return FlightSource(ticket, f"grpc://127.0.0.1:{port}", **options)


def read(source: FlightSource) -> list[Any]:
    """Return the positions behind all batches."""
    found: list[Any] = []

    def has_ended() -> bool:
        try:
            got = source.poll(1, 0.05)
        except EOFError:
            return True
        found.extend([] if got is None else [got[1]])
        return False

    wait_until(has_ended)
    return found


def test_a_position_skips_what_was_read() -> None:
    with served(batches=4) as server:
        source = source_of(server.port)
        positions = read(source)
        assert [position["batches"] for position in positions] == [1, 2, 3, 4]
        for position in (positions[1], 2):  # older positions are numbers
            source.seek(position)
            assert read(source) == positions[2:]
        source.seek(positions[3])
        assert read(source) == []
        source.close()


def test_a_server_with_other_data() -> None:
    with served(batches=4) as server:
        source = source_of(server.port)
        position = read(source)[2]
        server.first = 7
        source.seek(position)
        with pytest.raises(SourceGapError, match="sends other batches than before: their checksum behind batch 3"):
            read(source)
        G = graph()
        source.seek(position)
        progress = Stream(G, source, on_gap="continue").run()
        assert (progress.gaps, progress.applied) == (1, 4 * ROWS)
        assert (7, 8) in pairs_of(G)


def test_a_server_with_fewer_batches() -> None:
    with served(batches=4) as server:
        source = source_of(server.port)
        position = read(source)[3]
        server.batches = 2
        source.seek(position)
        with pytest.raises(SourceGapError, match="sends 2 batches; 4 were read before") as caught:
            read(source)
        assert (caught.value.first, caught.value.last, caught.value.count) == (3, 4, None)
        source.seek(caught.value.resume)
        assert read(source) == []
        server.batches = 3
        source.seek(caught.value.resume)
        assert len(read(source)) == 1
        source.close()


def test_a_server_that_dies_again_and_again_is_one_clear_error() -> None:
    with served() as server:
        G = graph()
        with pytest.raises(StreamError, match=r"has sent no new batch for 0\.3 s: .*no more today"):
            Stream(G, source_of(server.port, "dies", patience=0.3)).run()
        assert len(pairs_of(G)) == 3 * ROWS
    with pytest.raises(StreamError, match="cannot be reached"):
        Stream(graph(), source_of(server.port)).run()


def test_a_quiet_server_is_called_again_though_no_batch_came_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patience counts from the loss of a call that lasted, not from the last batch."""
    passed = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + passed)
    with served(batches=2) as server, Proxy(server.port) as proxy:
        source = source_of(proxy.port, "waits")
        with Stream(graph(), source, max_delay=0.0).start() as stream:
            wait_until(lambda: stream.progress().applied == 2 * ROWS)
            for _ in range(2):
                before, passed = source._reader, passed + 100.0
                proxy.cut()
                wait_until(lambda before=before: source._reader is not before)  # type: ignore[misc]
            server.go_on.set()
            wait_until(lambda: stream.progress().state == "ended")
        assert stream.progress().applied == 3 * ROWS


def test_values_behind_nulls_may_be_any() -> None:
    one, other = (
        pa.record_batch([pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\1"), pa.py_buffer(values)])], ["a"])
        for values in (b"\0" * 16, b"\0" * 8 + b"\1" * 8)
    )
    assert module._add(one, 0) == module._add(other, 0) != module._add(one.slice(1), 0)


# ---------------------------------------------------------------------- faults

PROGRAM = """
import sys
import dynstore
from dynstore import Stream

with dynstore.open(sys.argv[2], device="cpu", sync="os") as db:
    print("open", flush=True)
    Stream(db.graph, f"grpc://127.0.0.1:{sys.argv[1]}/edges", batch_edges=7, max_delay=0.0).run()
"""
TOTAL = ROWS * BATCHES


def run(port: int, harm: Callable[[Stream], None], total: int = TOTAL) -> tuple[int, int]:
    """Return how many rows are missing, and how many came again."""
    rows: list[int] = []

    def note(frame: Any) -> Any:
        rows.extend(frame["source"].tolist())
        return frame

    with Stream(graph(), source_of(port), batch_edges=7, max_delay=0.0, transform=note).start() as stream:
        harm(stream)
        wait_until(lambda: stream.progress().state != "running", 60)
    return len(set(range(total)) - set(rows)), len(rows) - len(set(rows))


def reached(stream: Stream, rng: np.random.Generator) -> None:
    """Wait until some rows are there."""
    least = int(rng.integers(TOTAL))
    wait_until(lambda: stream.progress().arrived >= least, 60)


def killed(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    folder = tmp_path / f"db{rng.integers(1 << 60)}"
    with served(pause=0.002) as server:
        command = [sys.executable, "-c", PROGRAM, str(server.port), str(folder)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
        with dynstore.open(folder, device="cpu") as db:
            held = db.graph.number_of_edges()
            applied = Stream(db.graph, f"grpc://127.0.0.1:{server.port}/edges", batch_edges=7).run().applied
            seen = db.graph.number_of_edges()
    return TOTAL - seen, held + applied - seen


def restarted(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """The server is killed, and another one comes at the same port."""
    port = free_port()
    program = f"from tests.streams.sources.flight_server import Server; Server({port}, pause=0.005).serve()"
    command = [sys.executable, "-c", program]

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, cwd=ROOT)
        wait_until(lambda: answers(port), 60)
        return process

    process = start()
    try:

        def harm(stream: Stream) -> None:
            nonlocal process
            reached(stream, rng)
            process.kill()
            process.wait()
            process = start()

        return run(port, harm)
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    with flight.connect(f"grpc://127.0.0.1:{port}") as client:
        try:
            client.wait_for_available(1)
        except flight.FlightError:
            return False
        return True


def cut(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    """The link is cut at any byte, again and again."""
    with served(pause=0.002) as server, Proxy(server.port, int(rng.integers(1 << 30))) as proxy:

        def harm(stream: Stream) -> None:
            for part in (0, 1, 2, 3):  # the first call has to be answered
                wait_until(lambda part=part: stream.progress().arrived > part * TOTAL // 5, 60)  # type: ignore[misc]
                proxy.cut_after(4000)  # fewer than are still to come

        found = run(proxy.port, harm)
        assert proxy.cuts
        return found


def delayed(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    with served() as server, Proxy(server.port) as proxy:
        proxy.delay = rng.uniform(0.0, 0.02)
        return run(proxy.port, lambda stream: None)


def changed(rng: np.random.Generator, **change: int) -> tuple[int, int]:
    """The server is another one after a cut: an error, and no row of it is applied."""
    with served(pause=0.002) as server, Proxy(server.port) as proxy:
        seen = 0

        def harm(stream: Stream) -> None:
            nonlocal seen
            wait_until(lambda: stream.progress().arrived >= 10 * ROWS, 60)
            for name, value in change.items():
                setattr(server, name, value)
            time.sleep(rng.uniform(0.0, 0.01))
            proxy.cut()

        rows: list[int] = []

        def note(frame: Any) -> Any:
            rows.extend(frame["source"].tolist())
            return frame

        stream = Stream(graph(), source_of(proxy.port), transform=note, max_delay=0.0).start()
        harm(stream)
        wait_until(lambda: stream.progress().state == "failed", 60)
        with pytest.raises(SourceGapError):
            stream.stop()
    return len(set(range(len(rows))) - set(rows)), len(rows) - len(set(rows))


def made_anew(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    return changed(rng, first=int(rng.integers(1 << 20, 1 << 21)))


def shorter(rng: np.random.Generator, tmp_path: Path) -> tuple[int, int]:
    return changed(rng, batches=int(rng.integers(1, 10)))


FAULTS: dict[str, Callable[[np.random.Generator, Path], tuple[int, int]]] = {
    "reader killed": killed,
    "server restarted": restarted,
    "link cut": cut,
    "delay": delayed,
    "made anew": made_anew,
    "shorter": shorter,
}
