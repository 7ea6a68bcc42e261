"""Records that a thread writes while their update is planned: the graph never has a version that the log lacks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import Database, DynamicGraph
from dynstore.durable import log, records
from dynstore.durable.database import PLANNED
from dynstore.durable.log import Log
from dynstore.errors import InputError, LogError, OutOfMemoryError
from dynstore.files import Buffer
from dynstore.graph.transaction import Transaction
from tests.conftest import DEVICES
from tests.crossed import in_turn
from tests.durable.scenes import FAST, KINDS, Fast, content, make_update, named, opened, random_update

SOON = 10.0


class Gated(Fast):
    """Files whose writes wait at a gate, and then fail if told to."""

    def __init__(self) -> None:
        self.gate, self.has_come = Event(), Event()
        self.gate.set()
        self.errno, self.fails_to = 0, "write"

    def write(self, file: int, offset: int, buffers: Sequence[Buffer]) -> int:
        self.has_come.set()
        assert self.gate.wait(60)
        if self.errno and self.fails_to == "write":
            super().write(file, offset, buffers[: len(buffers) // 2])
            raise OSError(self.errno, os.strerror(self.errno))
        return super().write(file, offset, buffers)

    def sync(self, file: int) -> None:
        if self.errno and self.fails_to == "sync":
            raise OSError(self.errno, os.strerror(self.errno))

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Have writes wait until the end of the block."""
        self.gate.clear()
        self.has_come.clear()
        try:
            yield
        finally:
            self.gate.set()


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads append every record, and share its checksum."""
    monkeypatch.setattr(log, "LARGE_BYTES", 0)
    monkeypatch.setattr(log, "CHECKSUM_THREADS", 3)
    monkeypatch.setattr(records, "PIECE", 64)


def updates(rng: np.random.Generator, kind: str, G: DynamicGraph) -> dict[str, Any]:
    """Return one update of each sort that changes a graph, as a function of the graph, by name."""
    options = KINDS[kind]
    fresh = [named(kind, rng.integers(20, 60, 12)) for _ in range(2)]
    weights = (rng.integers(1, 9, 12) / 4,) if options.get("weighted") else ()
    extra = tuple(rng.integers(0, 99, 12) for _ in options.get("edge_columns", ()))
    times = (rng.integers(0, 50, 12),) if options.get("timestamps") else ()
    rows = (*fresh, *weights, *extra, *times)
    there = G.to_pandas()
    gone = [there[name].to_numpy()[:5] for name in ("source", "destination")]
    ops: dict[str, Any] = {"op": ["insert"] * 12, "source": fresh[0], "destination": fresh[1], "time": np.arange(12)}
    ops |= dict(zip(options.get("edge_columns", ()), extra, strict=True))
    if weights:
        ops["weight"] = weights[0]
    found = {
        "insert_edges": lambda G: G.insert_edges(rows),
        "insert_edges, in-edges": lambda G: (G.predecessors(gone[0][0]), G.insert_edges(rows)),
        "insert_edges, known": lambda G: G.insert_edges((*gone, *(part[:5] for part in rows[2:]))),
        "add": lambda G: G.insert_edges(rows, on_duplicate="add") if weights else G.insert_edges(rows),
        "delete_edges": lambda G: G.delete_edges(tuple(gone)),
        "update": lambda G: G.update(insert=rows, delete=tuple(gone)),
        "update, deletes": lambda G: G.update(delete=tuple(gone)),
        "apply": lambda G: G.apply(ops),
        "insert_vertices": lambda G: G.insert_vertices(named(kind, [77])),
        "delete_vertices": lambda G: G.delete_vertices(gone[0][:1]),
        "clear": lambda G: G.clear(),
    }
    if options.get("multigraph"):
        del found["add"], found["apply"]  # it has neither
        ids = there["edge_id"].to_numpy()[:5]
        found["delete_edges, ids"] = lambda G: G.delete_edges(edge_ids=ids)
        found["update, ids"] = lambda G: G.update(rows, edge_ids=ids, edge_id=np.arange(100, 112))
    if times:
        found["expire"] = lambda G: G.expire(40)
        found["update, expires"] = lambda G: G.update(insert=rows[:-1], expire_before=30, time=times[0])
        found["update, expires and deletes"] = lambda G: G.update(delete=tuple(gone), expire_before=30)
    if options.get("renumber"):
        found["reorder"] = lambda G: G.reorder()
    return found


def filled(graph: DynamicGraph, kind: str) -> None:
    """Put edges into an empty graph, the same each time."""
    rng, options = np.random.default_rng(3), KINDS[kind]
    ends = [named(kind, rng.integers(0, 30, 40)) for _ in range(2)]
    weights = (rng.integers(1, 9, 40) / 4,) if options.get("weighted") else ()
    extra = tuple(rng.integers(0, 99, 40) for _ in options.get("edge_columns", ()))
    times = (rng.integers(0, 50, 40),) if options.get("timestamps") else ()
    graph.insert_edges((*ends, *weights, *extra, *times))


FAULTS = [("write", errno.ENOSPC), ("sync", errno.EIO)]


@in_turn(kind=list(KINDS), device=DEVICES)
def test_a_record_that_cannot_be_written_leaves_the_graph_as_it_was(
    kind: str, device: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    files = Gated()
    with opened(tmp_path / "db", files, device=device, **KINDS[kind]) as db:
        filled(db.graph, kind)
        names = updates(rng, kind, db.graph)
        for name in names:
            before, end = content(db.graph), db._log._end
            files.errno = errno.ENOSPC
            with pytest.raises(LogError, match="the update is not made"):
                names[name](db.graph)
            files.errno = 0
            assert content(db.graph) == before, name
            assert db._log._end == os.fstat(db._log._file).st_size == end
        twin = DynamicGraph(device=device, **KINDS[kind])
        filled(twin, kind)
        made = ("insert_edges", "update", "delete_edges", "insert_edges, in-edges", "apply")
        for name in (name for name in made if name in names):
            for graph in (db.graph, twin):
                names[name](graph)
            assert content(db.graph) == content(twin), name
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == content(twin)


@pytest.mark.parametrize("device", DEVICES)
def test_an_expiry_of_a_few_edges_waits_for_its_record(device: str, tmp_path: Path) -> None:
    """On CUDA these are deleted without being listed."""
    files, rows = Gated(), (np.arange(60), np.arange(1, 61))
    with opened(tmp_path / "db", files, device=device, timestamps="int64") as db:
        db.graph.insert_edges((*rows, np.arange(60)))
        before = content(db.graph)
        for update in (
            lambda: db.graph.expire(3),
            lambda: db.graph.update(insert=([70], [71]), expire_before=3, time=[99]),
            lambda: db.graph.update(delete=([50], [51]), expire_before=3),
        ):
            files.errno = errno.ENOSPC
            with pytest.raises(LogError, match="the update is not made"):
                update()
            assert content(db.graph) == before
            files.errno = 0
        assert db.graph.expire(3).expired == 3


@in_turn(kind=list(KINDS), device=DEVICES)
def test_a_record_that_cannot_be_synced(kind: str, device: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """The update raises and is not in the graph; the next opener may find it, as its record is written."""
    files = Gated()
    files.fails_to = "sync"
    with opened(tmp_path / "twin", FAST, device="cpu", **KINDS[kind]) as db:
        filled(db.graph, kind)
        names = [*updates(rng, kind, db.graph)]
    for number, name in enumerate(names):
        path, files.errno = tmp_path / str(number), 0
        with opened(path, files, device=device, **KINDS[kind]) as db:
            filled(db.graph, kind)
            before, update = content(db.graph), updates(rng, kind, db.graph)[name]
            files.errno = errno.EIO
            with pytest.raises(LogError, match="could not be synced"):
                update(db.graph)
            assert content(db.graph) == before, name
            with pytest.raises(LogError, match="open the folder again"):
                db.graph.clear()
        with opened(path, FAST) as db:
            assert db.graph.version == before["version"] + 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["int32", "timed", "strings"])
def test_the_graph_waits_for_its_record(
    kind: str, device: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update is planned while its record is written, and changes the graph only when it is."""
    files, waits = Gated(), Event()
    wait = Log.wait

    def noting(self: Log) -> None:
        waits.set()
        wait(self)

    monkeypatch.setattr(Log, "wait", noting)
    with ThreadPoolExecutor(1) as thread, opened(tmp_path / "db", files, device=device, **KINDS[kind]) as db:
        for number in range(40):
            if not db.graph.number_of_edges():
                filled(db.graph, kind)
            names = updates(rng, kind, db.graph)
            if number >= len(names):
                break
            before = content(db.graph)
            with files.closed():
                waits.clear()
                made = thread.submit([*names.values()][number], db.graph)
                assert files.has_come.wait(SOON), made.exception(0)
                assert waits.wait(SOON)
                assert not made.done()
                assert content(db.graph) == before, [*names][number]
                assert (db._log.version, db.durable_version) == (before["version"], before["version"])
            made.result(60)
            assert db.graph.version == db._log.version == before["version"] + 1
        wanted = content(db.graph)
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == wanted


@pytest.mark.parametrize("early", [True, False])
def test_an_update_that_fails_while_its_record_is_written(
    early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is waited for, then cut off: whether the update fails before it is written, or after that."""
    files, wait = Gated(), Log.wait

    def without_memory(self: Any) -> None:
        if not early:
            wait(db._log)
        files.gate.set()
        raise MemoryError("none is left")

    with opened(tmp_path / "db", files) as db:
        filled(db.graph, "int32")
        before, end = content(db.graph), db._log._end
        for rows in (1, 500):
            with monkeypatch.context() as patched:
                patched.setattr(Transaction, "await_record", without_memory)
                if early:
                    files.gate.clear()
                with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
                    db.graph.insert_edges((np.arange(rows), np.arange(rows)))
            assert content(db.graph) == before
            assert (db._log.version, db._log._end, os.fstat(db._log._file).st_size) == (1, end, end)
        assert [path.stat().st_size for path in (tmp_path / "db").glob("*.wal")] == [end]
        db.graph.insert_edges([(50, 51)])
        wanted = content(db.graph)
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == wanted


def test_an_update_and_its_record_both_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that was written before stays; so does the log."""
    files = Gated()

    def without_memory(self: Any) -> None:
        raise MemoryError("none is left")

    with opened(tmp_path / "db", files) as db:
        filled(db.graph, "int32")
        wanted = content(db.graph)
        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "await_record", without_memory)
            files.errno = errno.ENOSPC
            with pytest.raises(OutOfMemoryError):
                db.graph.insert_edges([(0, 1)])
        files.errno = 0
        assert (db._log.version, db._log.is_dead) == (1, False)
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == wanted


def test_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread:
        def __init__(self, *args: Any, **options: Any) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with opened(tmp_path / "db", FAST) as db:
        filled(db.graph, "int32")
        before = content(db.graph)
        with monkeypatch.context() as patched:
            patched.setattr(log, "Thread", NoThread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                db.graph.insert_edges([(50, 51)])
        assert (content(db.graph), db._log.version) == (before, 1)
        db.graph.insert_edges([(50, 51)])
        wanted = content(db.graph)
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == wanted


def test_an_update_that_does_not_wait_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a change of the graph came before its record, and this cannot be written, no further update is made."""
    files = Gated()
    with opened(tmp_path / "db", files) as db:
        monkeypatch.setattr(Transaction, "await_record", lambda self: None)
        files.errno = errno.ENOSPC
        with pytest.raises(LogError, match="the log cannot be written"):
            db.graph.insert_edges([(0, 1)])
        files.errno = 0
        with pytest.raises(LogError, match="an update was made in part; open the folder again"):
            db.graph.insert_edges([(0, 1)])
    with opened(tmp_path / "db", FAST) as db:
        assert db.graph.version == 0


@in_turn(kind=list(KINDS), device=DEVICES)
def test_planning_leaves_the_records_arrays(
    kind: str, device: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record may hold arrays of the caller, of the window, or of the update itself."""
    held: list[tuple[list[Any], bytes]] = []
    start, wait = Log.start, Log.wait

    def noting(self: Log, record: Any) -> None:
        held[:] = [(record.payload, b"".join(map(bytes, record.payload)))]
        start(self, record)

    def comparing(self: Log) -> None:
        for payload, copied in held:
            assert b"".join(map(bytes, payload)) == copied
        held.clear()
        wait(self)

    monkeypatch.setattr(Log, "start", noting)
    monkeypatch.setattr(Log, "wait", comparing)
    steps = 40 if device == "cpu" else 6
    with opened(tmp_path / "db", FAST, device=device, **KINDS[kind]) as db:
        for _ in range(steps):
            make_update(db.graph, random_update(rng, kind, 30 if device == "cpu" else 8))
        if "timestamps" not in KINDS[kind] and "edge_columns" not in KINDS[kind]:
            db.graph.clear()
            window = dynstore.Window(db.graph, 20)
            weights = (np.ones(8),) if db.graph.is_weighted() else ()
            for _ in range(steps // 2):
                window.slide((*(named(kind, rng.integers(0, 12, 8)) for _ in range(2)), *weights))
        assert not held


def test_other_threads_sync_and_read_meanwhile(tmp_path: Path, rng: np.random.Generator) -> None:
    """Syncs, older versions and checkpoints go on beside updates."""
    contents, over = {0: content(DynamicGraph(device="cpu"))}, Event()
    with ThreadPoolExecutor(2) as threads:
        with Database(tmp_path / "db", "group", 1 << 40, 50, {"device": "cpu"}, FAST) as db:

            def sync() -> None:
                while not over.wait(0.001):  # a loop without a pause would keep the updates from running
                    db.flush()

            def read() -> int:
                count = 0
                while not over.is_set():
                    version = max(contents)
                    assert content(db.at(version)) == contents[version]
                    count += 1
                return count

            work = [threads.submit(sync), threads.submit(read)]
            try:
                for number in range(150):
                    make_update(db.graph, random_update(rng, "int32", 60))
                    contents[db.graph.version] = content(db.graph)
                    if number % 40 == 20:
                        db.checkpoint()
            finally:
                over.set()
            assert work[0].result(60) is None
            assert work[1].result(60) > 2
        with opened(tmp_path / "db", FAST) as db:
            assert content(db.graph) == contents[max(contents)]


def test_the_updates_that_are_planned_first_are_logged() -> None:
    assert set(PLANNED) < set(records.KINDS)


# ---------------------------------------------------------------------- checksums


def test_a_small_record_needs_no_other_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handing a checksum over takes as long as a small update."""
    monkeypatch.setattr(log, "LARGE_BYTES", 1 << 18)
    with opened(tmp_path / "db", FAST) as db:
        shared: list[int] = []
        monkeypatch.setattr(db._log._checksums, "map", lambda *given: shared.append(1) or map(*given))
        db.graph.insert_edges([(0, 1)])
        assert not shared
        db.graph.insert_edges((np.arange(1 << 15), np.arange(1 << 15)))
        assert shared


def test_what_the_graph_refuses_late(tmp_path: Path) -> None:
    with opened(tmp_path / "db", weighted=True) as db:
        db.graph.insert_edges([(0, 1, 1.0)])
        end = db._log._end
        with pytest.raises(InputError):
            db.graph.insert_edges((np.arange(2000), np.arange(2000), np.full(2000, np.nan)))
        assert (db._log._end, db._log.version, db.graph.version) == (end, 1, 1)


# ---------------------------------------------------------------------- windows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("keep", "options"),
    [
        ("latest", {}),
        ("latest", {"weighted": True}),
        ("sum", {"weighted": True, "renumber": True, "directed": False}),
        ("latest", {"renumber": True, "timestamps": "int64"}),
    ],
)
def test_slides_whose_record_cannot_be_written(
    keep: Any, options: dict[str, Any], device: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    files, batches = Gated(), []
    for step in range(8):
        ends = tuple(rng.integers(0, 9 + step, 8) for _ in range(2))
        weights = (rng.integers(1, 9, 8) / 2,) if options.get("weighted") else ()
        batches.append((*ends, *weights, *((np.arange(8) + step,) if "timestamps" in options else ())))
    twin = dynstore.Window(DynamicGraph(device=device, **options), 20, keep=keep)
    with opened(tmp_path / "db", files, device=device, **options) as db:
        window = dynstore.Window(db.graph, 20, keep=keep)
        for batch in batches:
            before = content(db.graph), len(window)
            files.errno = errno.ENOSPC
            with pytest.raises(LogError, match="slide: the log cannot be written"):
                window.slide(batch)
            files.errno = 0
            assert (content(db.graph), len(window)) == before
            assert window.slide(batch) == twin.slide(batch)
            assert content(db.graph) == content(twin.graph)
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == content(twin.graph)
