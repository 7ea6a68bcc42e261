"""Databases: what is written comes back, on every device, with every kind of ids; what cannot be is refused."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore import Database, DynamicGraph
from dynstore.durable import log, replaying
from dynstore.durable.folder import read_manifest
from dynstore.durable.graph import DurableGraph
from dynstore.durable.reading import LogReader
from dynstore.durable.records import KINDS as LOGGED
from dynstore.errors import DynstoreError, InputError, InputTypeError, LogError
from dynstore.files import Files
from tests.conftest import DEVICES
from tests.durable.scenes import FAST, KINDS, Fast, content, make_update, named, opened, random_update

NEW_YEAR = 1_704_067_200_000_000_000  # of 2024, in nanoseconds
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_random_updates_with_crashes(
    kind: str, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is what the same updates make of a graph without a log, at every opening and at every version."""
    monkeypatch.setattr(log, "SEGMENT_BYTES", 3000)
    twin, contents, folder = DynamicGraph(device="cpu", **KINDS[kind]), {}, tmp_path / "db"
    contents[0] = content(twin)
    num_pins = 0
    for turn in range(9):
        device, pins = DEVICES[-1] if turn == 5 else "cpu", {}
        database = Database(folder, "commit", 1 << 40, 2, {"device": device, **KINDS[kind]}, FAST)
        assert content(database.graph) == contents[twin.version]
        assert database.recovery.version == twin.version
        for _ in range(2 if turn == 5 else 12):
            update = random_update(rng, kind, 6 if turn == 5 else 40)
            assert make_update(twin, update) == make_update(database.graph, update)
            contents[twin.version] = content(twin)
            if not rng.integers(0, 4):
                pins[database.graph.pin()] = edges_of(twin)
            if not rng.integers(0, 25):
                database.checkpoint()
        assert content(database.graph) == contents[twin.version]
        if turn % 3 == 2:
            for version in range(database._manifest.checkpoints[0].version, twin.version + 1, 5):
                assert content(database.at(version)) == contents[version]
        num_pins += len(pins)
        for pin, edges in pins.items():
            with pin:
                assert edges_of(pin) == edges
        database._log.kill("test")  # no farewell
        database.close()
        if turn % 4 == 1:  # a torn record
            with max(folder.glob("*.wal")).open("ab") as file:
                file.write(b"dynsREC1" + bytes(rng.integers(0, 255, int(rng.integers(1, 90)), np.uint8)))
    assert num_pins > 10


def edges_of(G: Any) -> dict[str, list[Any]]:
    frame = G.to_pandas()
    return {name: frame[name].tolist() for name in frame.columns if name != "x.text"}


@pytest.mark.parametrize("kind", KINDS)
def test_from_one_device_to_another(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    twin = DynamicGraph(device="cpu", **KINDS[kind])
    for device in (DEVICES[-1], DEVICES[0], DEVICES[-1]):
        with opened(tmp_path / "db", FAST, device=device, **KINDS[kind]) as db:
            assert db.graph.device == device
            for _ in range(3):
                update = random_update(rng, kind, 5)
                make_update(twin, update)
                make_update(db.graph, update)
            assert content(db.graph) == content(twin)


def test_every_update_is_logged() -> None:
    updates = [name for name in LOGGED if hasattr(DynamicGraph, name)]
    assert {"insert_edges", "delete_edges", "update", "clear", "reorder"} <= set(updates)
    for name in set(updates) - {"apply"}:  # which passes numbers, see below
        assert name in vars(DurableGraph), f"{name} is not logged"


def test_an_update_that_is_not_logged_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "db", FAST) as db:
        DynamicGraph.insert_edges(db.graph, [(0, 1)])
        with pytest.raises(LogError, match="version 1 by an update that was not logged"):
            db.graph.clear()


@pytest.mark.parametrize("sync", ["commit", "group", "os"])
def test_each_sync(sync: Any, tmp_path: Path) -> None:
    class Counting(Files):
        syncs = 0

        def sync(self, file: int) -> None:
            Counting.syncs += 1
            super().sync(file)

    with opened(tmp_path / "db", Counting(), sync) as db:
        begun = Counting.syncs
        for number in range(5):
            db.graph.insert_edges([(number, number + 1)])
            if sync == "commit":
                assert (Counting.syncs - begun, db.durable_version) == (number + 1, number + 1)
        if sync == "os":
            assert (Counting.syncs - begun, db.durable_version) == (0, 0)
        db.flush()
        assert db.durable_version == 5
        wanted = content(db.graph)
    with opened(tmp_path / "db") as db:
        assert content(db.graph) == wanted
        assert db.durable_version == 5


def test_a_group_is_synced_soon(tmp_path: Path) -> None:
    with opened(tmp_path / "db", sync="group") as db:
        db.graph.insert_edges([(0, 1)])
        while not db.durable_version:  # without flush()
            with db._log._waiting:
                db._log._waiting.wait(0.01)


def test_a_group_waits_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "GROUP_BYTES", 1000)
    monkeypatch.setattr(log, "GROUP_SECONDS", 100.0)
    with opened(tmp_path / "db", sync="group") as db:
        for _ in range(20):
            db.graph.insert_edges((np.arange(30), np.arange(30)))
            assert db._log._unsynced <= 1000
        assert db.durable_version > 0


def test_inputs_of_every_form(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": pd.Categorical(["y", "z"]), "weight": [1, 2]})
    forms: list[tuple[Any, dict[str, Any]]] = [
        (frame, {"source": "a", "destination": "b"}),
        (pa.Table.from_pandas(frame).to_reader(), {"source": "a", "destination": "b", "weight": "weight"}),
        ([("q", "r", 0.5)], {}),
        (([], []), {"default_weight": 2.0}),
        ((["x"], ["z"]), {"default_weight": np.float32(2.0), "on_duplicate": "add"}),
    ]
    with opened(tmp_path / "db", renumber=True, weighted=True) as db:
        twin = DynamicGraph(renumber=True, weighted=True, device="cpu")
        for edges, names in forms:
            again = pa.Table.from_pandas(frame) if hasattr(edges, "read_all") else edges
            assert db.graph.insert_edges(edges, **names) == twin.insert_edges(again, **names)
        db.graph.insert_vertices("w")
        twin.insert_vertices("w")
        with pytest.raises(InputError, match=r"insert_vertices: a vertex is .*; wanted strings that UTF-8 can encode"):
            db.graph.insert_vertices(["\ud800"])
    with opened(tmp_path / "db") as db:
        assert content(db.graph) == content(twin)


def test_ids_that_do_not_fit_are_written_as_they_are(tmp_path: Path) -> None:
    with opened(tmp_path / "db", max_vertices=100) as db:
        sizes = []
        for dtype in (np.int32, np.int64, np.uint64):
            before = db._log.appended
            db.graph.insert_edges((np.arange(90, dtype=dtype), np.arange(90, dtype=dtype)))
            sizes.append(db._log.appended - before)
        assert sizes[0] == sizes[1]
        with pytest.raises(DynstoreError, match="4294967296"):
            db.graph.insert_edges((np.array([2**32]), np.array([0])))
        assert db.graph.version == 3


def test_times_of_every_form(tmp_path: Path) -> None:
    days = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    frame = pd.DataFrame({"source": [0, 1, 2], "destination": [1, 2, 3], "when": days})
    twin = DynamicGraph(timestamps="int64", device="cpu")
    with opened(tmp_path / "db", timestamps="int64") as db:
        for graph in (db.graph, twin):
            graph.insert_edges(frame, time="when")
            graph.update(frame[["source", "destination"]], expire_before=days[1], time=days)
            graph.insert_edges(([7, 8], [8, 9]), time=np.array([5, 6]) + NEW_YEAR)
            graph.insert_edges([(8, 9, 7 + NEW_YEAR)])
            graph.expire(np.datetime64(6 + NEW_YEAR, "ns"))
            for wrong in ("2024", None, 1.5):
                with pytest.raises(InputError, match="expire: before is"):
                    graph.expire(wrong)
        assert db._log.version == db.graph.version
        assert content(db.graph) == content(twin)
    with opened(tmp_path / "db", timestamps="int64") as db:
        assert content(db.graph) == content(twin)


@pytest.mark.parametrize("multigraph", [False, True])
def test_a_cleared_graph_knows_date_times_again(multigraph: bool, tmp_path: Path) -> None:
    """The times of a log are numbers; what they are is guessed from those behind the last clear."""
    options: dict[str, Any] = {"timestamps": "int64", "multigraph": multigraph}
    with opened(tmp_path / "db", **options) as db:
        for _ in range(2):
            db.graph.clear()
            db.graph.insert_edges(([0], [1]), time=np.array(["2024-01-01"], "datetime64[ns]"))
    with opened(tmp_path / "db", **options) as db:
        with pytest.raises(InputTypeError, match="wanted date-times"):
            db.graph.insert_edges(([0], [1]), time=[5])
        db.graph.clear()
        db.graph.insert_edges(([0], [1]), time=[5])
    with opened(tmp_path / "db", **options) as db, pytest.raises(InputTypeError, match="wanted numbers"):
        db.graph.insert_edges(([0], [1]), time=np.array(["2024-01-01"], "datetime64[ns]"))


@pytest.mark.parametrize("kind", [kind for kind, options in KINDS.items() if not options.get("multigraph")])
def test_operations_come_back(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    options, count = KINDS[kind], 30
    twin = DynamicGraph(device="cpu", **options)
    with opened(tmp_path / "db", FAST, **options) as db:
        for step in range(6):
            ops: dict[str, Any] = {"op": rng.choice(["insert", "insert", "delete", "has_edge", "successors"], count)}
            ops |= {name: named(kind, rng.integers(0, 12 + step, count)) for name in ("source", "destination")}
            ops |= {name: rng.integers(0, 99, count) for name in options.get("edge_columns", ())}
            if options.get("weighted"):
                ops["weight"] = rng.integers(0, 9, count) / 2
            ops["time"] = rng.permutation(count)
            reports = [graph.apply(ops).report for graph in (db.graph, twin)]
            assert reports[0] == reports[1]
        db.graph.apply({"op": ["has_edge"], "source": ops["source"][:1], "destination": ops["source"][:1], "time": [1]})
        assert (db.graph.version, db._log.version) == (6, 6)
    with opened(tmp_path / "db", FAST, **options) as db:
        assert content(db.graph) == content(twin)
        assert list(db.graph) == list(twin)


# ---------------------------------------------------------------------- windows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("ids", "keep", "extra"),
    [("int", "latest", True), ("text", "sum", False), ("text", "latest", False), ("int", "sum", True)],
)
def test_slides_come_back(
    device: str, ids: str, keep: Any, extra: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    options: dict[str, Any] = {
        "weighted": True,
        "directed": keep == "sum",
        "edge_columns": {"n": "int16"} if extra else None,
        "timestamps": "int32" if extra else None,
    }
    options["renumber"] = ids == "text"
    with opened(tmp_path / "db", FAST, device=device, **options) as db:
        window = dynstore.Window(db.graph, 20, keep=keep)
        for step in range(6):
            src, dst = rng.integers(0, 9 + step, (2, 8))
            ends = ([f"v{n}" for n in src], [f"v{n}" for n in dst]) if ids == "text" else (src, dst)
            edges = (*ends, rng.integers(0, 9, 8) / 2, *(rng.integers(0, 99, (2, 8)) if extra else []))
            with db.positioned(b"%d" % step):
                window.slide(edges)
            if step == 3:
                db.graph.delete_edges((ends[0][:2], ends[1][:2]))
        assert db.graph.version == 7
        wanted, ordered = content(db.graph), list(db.graph)
    with opened(tmp_path / "db", FAST, device="cpu") as db:
        assert content(db.graph) == wanted
        assert (list(db.graph), db.position) == (ordered, b"5")


@pytest.mark.parametrize("renumber", [False, True])
def test_a_slide_without_new_ids_is_logged_without_the_rows_ids(renumber: bool, tmp_path: Path) -> None:
    with opened(tmp_path / "db", FAST, renumber=renumber) as db:
        window = dynstore.Window(db.graph, 2)
        for edges in ([(0, 1), (1, 9)], [(9, 0)], [(0, 2), (2, 9)]):
            window.slide(edges)
        wanted, ordered = content(db.graph), list(db.graph)
    reader = LogReader("test", tmp_path / "db", read_manifest("test", tmp_path / "db").token, 0)
    named = ["entering.source" in entry.change.columns for entry in reader]
    assert named == ([True, False, True] if renumber else [False] * 3)
    with opened(tmp_path / "db", FAST) as db:
        assert (content(db.graph), list(db.graph)) == (wanted, ordered)


def test_a_slide_that_cannot_be_logged_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "db", FAST) as db:
        window = dynstore.Window(db.graph, 3)
        window.slide([(0, 1), (1, 2)])
        before = content(db.graph)

        def fail(*_: Any) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(Fast, "write", fail)
            with pytest.raises(LogError, match="slide: the log cannot be written"):
                window.slide([(2, 3), (3, 4), (4, 5)])
        assert (content(db.graph), len(window)) == (before, 2)
        window.slide([(2, 3)])
        assert len(window) == 3


# ---------------------------------------------------------------------- what is there


def test_positions(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        assert db.position is None
        with db.positioned(b"17"):
            db.graph.insert_edges([(0, 1)])
        assert db.position == b"17"
        with db.positioned(b"18"), pytest.raises(InputError):
            db.graph.insert_edges([(0, -1)])
        db.graph.insert_edges([(1, 2)])
        for wrong in (b"", "18", 18):
            with pytest.raises(InputError, match="positioned: position is"), db.positioned(wrong):
                pass
        with db.positioned(b"19"):  # it holds behind an inner block, too
            with db.positioned(b"20"):
                pass
            db.graph.insert_edges([(2, 3)])
    for _ in range(2):
        with opened(tmp_path / "db") as db:
            assert db.position == b"19"
            db.checkpoint()


def test_checkpoints_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 4000)
    with dynstore.open(tmp_path / "db", checkpoint_bytes=6000, keep=3, device="cpu") as db:
        for number in range(40):
            db.graph.insert_edges((np.arange(100), np.full(100, number)))
            db._join()
        wanted = content(db.graph)
        versions = [each.version for each in db._manifest.checkpoints]
    assert len(versions) == 3
    assert versions[0] > 0
    folder = tmp_path / "db"
    assert {path.name for path in folder.glob("ckpt-*")} == {f"ckpt-{version:016d}" for version in versions}
    assert sum(path.stat().st_size for path in folder.glob("*.wal")) < 6000 * 4 + 8000
    with dynstore.open(folder, device="cpu") as db:
        assert content(db.graph) == wanted
        assert db.recovery.checkpoint == versions[-1]
        assert db.recovery.records == 40 - versions[-1]
        with pytest.raises(InputError, match=f"at: version is 0; the log reaches back to version {versions[0]}"):
            db.at(0)
        with pytest.raises(InputError, match="at: version is 41; the last version is 40"):
            db.at(41)
        assert db.at(versions[0]).number_of_edges() == 100 * versions[0]


def test_a_checkpoint_beside_updates(tmp_path: Path) -> None:
    with dynstore.open(tmp_path / "db", checkpoint_bytes=2000, device="cpu") as db:
        for number in range(60):
            db.graph.insert_edges((np.arange(50), np.full(50, number)))
        wanted = content(db.graph)
    with dynstore.open(tmp_path / "db", device="cpu") as db:
        assert content(db.graph) == wanted
        assert db.recovery.checkpoint > 0


def test_a_checkpoint_that_fails_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with dynstore.open(tmp_path / "db", checkpoint_bytes=1000, device="cpu") as db:

        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(Files, "make_folder", fail)
            db.graph.insert_edges((np.arange(200), np.arange(200)))
            db._join()
            assert "a checkpoint could not be written: [Errno 28]" in caplog.text
        db.graph.insert_edges((np.arange(200), np.arange(1, 201)))
        db._join()
        assert db._manifest.checkpoints[-1].version == 2


def test_copies_are_not_logged(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.graph.insert_edges([(0, 1), (1, 2)])
        twins = [
            db.graph.copy(),
            copy.deepcopy(db.graph),
            pickle.loads(pickle.dumps(db.graph)),
            db.graph.subgraph([0, 1]),
        ]
        for twin in [*twins, db.at(1), DynamicGraph.from_edges(db.graph)]:
            twin.insert_edges([(5, 6)])
            assert (5, 6) in list(zip(*(column.tolist() for column in twin.edge_columns().values()), strict=True))
        assert (db.graph.version, db._log.version) == (1, 1)


def test_reading_goes_on_after_closing(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.graph.insert_edges([(0, 1)])
    db.close()
    assert db.graph.number_of_edges() == 1
    with pytest.raises(LogError, match="insert_edges: the database is closed; open the folder again"):
        db.graph.insert_edges([(1, 2)])
    assert db.graph.version == 1


def test_a_forked_process_does_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "db") as db:
        assert db.graph.database is db
        assert db.graph.copy().database is None
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            with pytest.raises(LogError, match=r"insert_edges: '.*' was opened by process \d+, and this is"):
                db.graph.insert_edges([(0, 1)])
        db.graph.insert_edges([(0, 1)])


def test_tracked_answers_follow(tmp_path: Path) -> None:
    with opened(tmp_path / "db", directed=False) as db:
        monitor = db.graph.track("triangle_count")
        db.graph.insert_edges([(0, 1), (1, 2), (0, 2)])
        assert monitor.result()["counts"].sum() == 3


def test_neighbouring_records_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(replaying, "make_change", _noting(made))
    twin = DynamicGraph(device="cpu", weighted=True, max_vertices=50)
    with opened(tmp_path / "db", FAST, weighted=True, max_vertices=50) as db:
        for graph in (db.graph, twin):
            for step in range(12):
                graph.insert_edges(([step % 5] * 2, [step, 3], [step, -step]))
            for step in range(3):
                graph.delete_edges(([step], [3]))
            graph.insert_edges([(0, 1, 1.0)], on_duplicate="add")
            graph.insert_edges([(0, 1, 1.0)], on_duplicate="add")
    with opened(tmp_path / "db", FAST) as db:
        assert content(db.graph) == content(twin)
        assert db.recovery.records == 17
    assert made == ["insert_edges", "delete_edges", "insert_edges", "insert_edges"]


def test_batches_that_only_fit_one_by_one(tmp_path: Path) -> None:
    with opened(tmp_path / "db", FAST) as db:
        db.graph.insert_edges([(0, 2**24 - 1)])
        db.graph.insert_edges([(0, 2**26)])  # more than a new graph takes
        wanted = db.graph.number_of_vertices(), db.graph.version
    with opened(tmp_path / "db", FAST) as db:
        assert (db.graph.number_of_vertices(), db.graph.version) == wanted


def _noting(made: list[str]) -> Any:
    make = replaying.make_change

    def note(graph: DynamicGraph, change: Any) -> None:
        made.append(change.kind)
        make(graph, change)

    return note
