"""Pins read one version while their graph moves on."""

from __future__ import annotations

import copy
import pickle
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph, PinnedGraph
from dynstore.errors import InputTypeError, OutOfMemoryError, StaleSnapshotError
from dynstore.graph import core, records
from dynstore.stores import STORES
from dynstore.testing.faults import FailingEmpty
from dynstore.testing.invariants import check_graph
from tests.conftest import DEVICES, PROFILE
from tests.crossed import crossed, in_turn
from tests.graph.cases import every_store_and_device
from tests.graph.readings import make_random, points, read, whole

KINDS: dict[str, dict[str, Any]] = {
    "directed": {},
    "undirected-weighted": {"directed": False, "weighted": True},
    "int64": {"weighted": True, "vertex_dtype": "int64", "weight_dtype": "float64"},
    "strings": {"renumber": True, "weighted": True},
    "reused": {"renumber": True, "reuse_ids": True, "directed": False},
    "columns": {"edge_columns": {"id": "int64"}},
    "times": {"timestamps": "int64", "weighted": True},
    "columns-weighted": {"edge_columns": {"id": "int64"}, "weighted": True, "directed": False, "renumber": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def few_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pins of small graphs copy their version some time, and tables of records run out often."""
    monkeypatch.setattr(core, "MIN_KEPT", 60)
    monkeypatch.setattr(core, "MAX_UNDONE", 2)
    monkeypatch.setattr(records, "MIN_RECORDS", 2)


@crossed(kind=list(KINDS), in_edges=[False, True], backend_name=DEVICES)
def test_pins_do_not_change(
    kind: str, in_edges: bool, backend_name: str, rng: np.random.Generator, few_undone: None
) -> None:
    """Each version that is pinned is read at any time later as it was read then."""
    on_host = 300 if PROFILE == "thorough" else 45
    steps, most = {"cpu": (on_host, 12), "cuda": (60, 12), "cuda-sim": (10, 5)}[backend_name]
    random = make_random(backend_name, rng, most, **KINDS[kind])
    G = random.G
    G.insert_edges(random.rows(3 * most))
    if in_edges:
        G.predecessors(next(iter(G)))
    pins: deque[tuple[PinnedGraph, dict[str, Any]]] = deque()
    for step in range(steps):
        if step % 3 == 0 and G.number_of_vertices() > 1:
            pin = G.pin()
            pins.append((pin, read(G, points)))
            assert read(pin, points) == pins[-1][1]
        random.update()
        if pins:
            pin, expected = pins[int(rng.integers(len(pins)))]
            assert read(pin, points) == expected
        while len(pins) > 6:
            pins.popleft()
    check_graph(G)
    for pin, expected in pins:
        pin.materialize()
        assert read(pin, points) == expected


@crossed(kind=list(KINDS), when=["before", "after"], backend_name=DEVICES)
def test_all_reads_of_a_pin_are_those_of_its_version(
    kind: str, when: str, backend_name: str, rng: np.random.Generator
) -> None:
    random = make_random(backend_name, rng, 9 if backend_name != "cuda-sim" else 5, **KINDS[kind])
    G = random.G
    G.insert_edges(random.rows(30))
    pin, expected = G.pin(), {**read(G, points), **read(G, whole)}
    if when == "after":
        for _ in range(20 if backend_name != "cuda-sim" else 4):
            random.update(rare=False)
    assert {**read(pin, points), **read(pin, whole)} == expected
    assert {**read(pin, points)} == {name: expected[name] for name, _ in points(pin)}


@in_turn(case=every_store_and_device(DEVICES), weighted=[False, True])
def test_every_store_has_pins(case: tuple[str, str], weighted: bool, rng: np.random.Generator) -> None:
    store, device = case
    steps = 60 if device != "cuda-sim" else 3
    random = make_random(
        device, rng, 8 if device != "cuda-sim" else 5, store=store, weighted=weighted, directed=weighted
    )
    G = random.G
    G.insert_edges(random.rows(20))
    pins = []
    for step in range(steps):
        if step % 8 == 0 and G.number_of_vertices() > 1:
            pins.append((G.pin(), read(G, points), G.edge_columns()))
        random.update(rare=device != "cuda-sim")
    assert pins
    for pin, expected, columns in pins:
        assert read(pin, points) == expected
        found = pin.edge_columns()
        assert all((found[name] == column).all() for name, column in columns.items())
        assert sum(pin.row_lengths().tolist()) == pin.snapshot().num_edges


def test_a_thousand_updates() -> None:
    """A pin of each tenth version, with each edge in a dict, all read at the end."""
    rng, model, pins = np.random.default_rng(1), {}, []
    G = DynamicGraph(weighted=True, device="cpu")
    for step in range(1000):
        src, dst = rng.integers(0, 60, (2, 20)).tolist()
        if step % 3 == 2:
            G.delete_edges((src, dst))
            for edge in zip(src, dst, strict=True):
                model.pop(edge, None)
        else:
            weights = rng.integers(0, 99, 20).tolist()
            G.insert_edges((src, dst, weights))
            model |= dict(zip(zip(src, dst, strict=True), weights, strict=True))
        if step % 10 == 0:
            pins.append((G.pin(), dict(model)))
    for pin, edges in pins:
        columns = [column.tolist() for column in pin.edge_columns().values()]
        assert dict(zip(zip(*columns[:2], strict=True), columns[2], strict=True)) == edges


def test_append_copies_the_pins(backend_name: str) -> None:
    G = DynamicGraph(weighted=True, store="lpma", device=backend_name)
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    pin = G.pin()
    G.insert_edges(([0, 1], [1, 2], [-1.0, 1.0]), on_duplicate="append")
    assert G.number_of_edges() == 1
    assert pin.edge_weights(([0, 1], [1, 2])).tolist() == [1.0, 2.0]


def test_a_window_slides_under_a_pin(backend_name: str) -> None:
    G = DynamicGraph(device=backend_name)
    window = dynstore.Window(G, 3)
    window.slide(([0, 1, 2], [1, 2, 3]))
    with G.pin() as pin:
        window.slide(([3, 4], [4, 5]))
        assert pin.has_edges(([0, 2, 4], [1, 3, 5])).tolist() == [True, True, False]
        assert G.has_edges(([0, 2, 4], [1, 3, 5])).tolist() == [False, True, True]
        assert pin.number_of_vertices() == 4


def test_new_ids_are_unknown_to_a_pin(backend_name: str) -> None:
    G = DynamicGraph(renumber=True, device=backend_name)
    G.insert_edges((["ann"], ["bob"]))
    pin = G.pin()
    G.insert_edges((["ann", "cid"], ["cid", "bob"]))
    assert sorted(pin) == ["ann", "bob"]
    assert "cid" in G
    assert "cid" not in pin
    assert pin.vertex_numbers(["cid", "nobody", "ann"]).tolist()[:2] == [-1, -1]
    assert not pin.has_edges((["ann", "cid", "nobody"], ["cid", "bob", "cid"])).any()
    with pytest.raises(dynstore.errors.InputError, match="vertex 'cid' is not in the graph"):
        pin.neighbors("cid")
    with pytest.raises(dynstore.errors.InputError, match="Found invalid vertex in the input sources: got 'cid'"):
        dynstore.bfs(pin, "cid")


def test_an_id_that_takes_a_number_does_not_take_it_at_a_pin() -> None:
    G = DynamicGraph(renumber=True, reuse_ids=True, device="cpu")
    G.insert_edges((["ann"], ["bob"]))
    pin, expected = G.pin(), G.edge_table()
    G.delete_vertices(["ann"])
    G.insert_edges((["cid"], ["bob"]))
    assert sorted(G) == ["bob", "cid"]
    assert pin.edge_table().equals(expected)
    assert pin.neighbors("ann").tolist() == ["bob"]


# ---------------------------------------------------------------------- errors


@pytest.mark.usefixtures("take_changes")
def test_a_monitor_and_a_pin_follow_the_same_updates() -> None:
    G = DynamicGraph.from_edges((np.arange(5000), np.arange(5000) + 1), directed=False, device="cpu")
    monitor, pin = G.track("triangle_count"), G.pin()
    monitor.result()
    G.insert_edges(([0, 3], [2, 5]))
    G.delete_edges(([7], [8]))
    assert monitor.result()["counts"].sum() == 6
    assert monitor.path == "incremental"
    assert dynstore.triangle_count(pin)["counts"].sum() == 0
    assert pin.has_edges(([0, 7], [2, 8])).tolist() == [False, True]
    assert dynstore.explain(pin).name == "triangle_count"


def test_edges_of_a_view_go_into_another_graph() -> None:
    G = DynamicGraph(weighted=True, renumber=True, device="cpu")
    G.insert_edges((["a", "b"], ["b", "c"], [1.0, 2.0]))
    pin = G.pin()
    G.clear()
    H = DynamicGraph.from_edges(pin, renumber=True, device="cpu")
    assert H.edge_table().equals(pin.edge_table())


def test_a_released_pin_refuses_reads() -> None:
    G = DynamicGraph.from_edges([(0, 1)], renumber=True, device="cpu")
    pin = G.pin()
    kept = pin.snapshot()
    pin.release()
    pin.release()
    for read_it in (
        pin.edge_table,
        pin.number_of_edges,
        pin.number_of_vertices,
        lambda: pin.neighbors(0),
        lambda: list(pin),
        lambda: pin.has_edges([(0, 1)]),
        pin.snapshot,
        pin.copy,
        lambda: dynstore.bfs(pin, 0),
        pin.materialize,
    ):
        with pytest.raises(StaleSnapshotError, match="pin: this pin of version 1 was released, so it cannot be read"):
            read_it()
    assert repr(pin) == "PinnedGraph(not readable any more, version=1)"
    assert kept.indices.tolist() == [1]


def test_a_pin_is_not_pickled() -> None:
    pin = DynamicGraph.from_edges([(0, 1)], device="cpu").pin()
    for copied in (pickle.dumps, copy.copy):
        with pytest.raises(InputTypeError, match=r"PinnedGraph: a view cannot be pickled or copied; use its copy\(\)"):
            copied(pin)
    assert pickle.loads(pickle.dumps(pin.copy())).neighbors(0).tolist() == [1]


def test_without_memory_a_pin_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph.from_edges((np.arange(50), np.arange(50)), weighted=True, default_weight=1.0, device="cpu")
    pin, empty = G.pin(), G.core.backend.empty
    G.update(insert=([0, 1], [0, 2], [3.0, 4.0]), delete=([5], [5]))
    failures = 0
    while "copy" not in pin.memory_usage():
        with monkeypatch.context() as patch:
            patch.setattr(G.core.backend, "empty", FailingEmpty(empty, failures))
            try:
                pin.materialize()
            except OutOfMemoryError:
                failures += 1
        assert pin.has_edges(([1, 5], [2, 5])).tolist() == [False, True]
        assert pin.number_of_edges() == 50
        assert G.version == 2
    assert failures > 3
    assert len(pin.edge_table()) == 50


@crossed(store=["gpma+", "merge", "slab_hash", "lpma"], in_edges=[False, True], device=DEVICES)
def test_failing_updates_leave_pins_as_they_are(
    store: str, in_edges: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also updates that take back what they have deleted."""
    G = DynamicGraph(weighted=True, store=store, device=device)
    G.insert_edges(([0, 1, 2, 3], [1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0]))
    if in_edges:
        G.snapshot(transposed=True)
    pin, expected, empty, failures = G.pin(), read(G, points), G.core.backend.empty, 0
    batches = {"insert": ([0, 4, 1], [1, 5, 1], [7.0, 8.0, 9.0]), "delete": ([0, 1, 9], [1, 2, 9])}
    while G.version == 1:
        with monkeypatch.context() as patch:
            patch.setattr(G.core.backend, "empty", FailingEmpty(empty, failures))
            try:
                G.update(**batches)
            except OutOfMemoryError:
                failures += 1
        assert read(pin, points) == expected
    assert failures > 5
    assert pin.predecessors(1).tolist() == [0]
    assert sorted(pin.edge_columns()["weight"].tolist()) == [1.0, 2.0, 3.0, 4.0]


def test_an_update_that_cannot_copy_a_pin_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    G = DynamicGraph.from_edges([("a", "b"), ("b", "c")], renumber=True, device="cpu")
    pin, before = G.pin(), G.edge_table()

    def fail(self: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("dynstore.graph.versions.pinned.PinnedStore._copy", fail)
        for update in (G.clear, G.reorder):
            with pytest.raises(OutOfMemoryError, match="memory ran out"):
                update()
    assert (G.version, pin.version) == (1, 1)
    assert G.edge_table().equals(before)
    G.clear()
    assert pin.edge_table().equals(before)


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("options", [{}, {"renumber": True, "weighted": True}, {"store": "slab_hash"}])
def test_pins_are_read_beside_updates(options: dict[str, Any]) -> None:
    """Threads make pins and read them in all ways while one thread updates the graph."""
    rng = np.random.default_rng(5)
    random = make_random("cpu", rng, 10, **options)
    G, stop, problems, rounds = random.G, threading.Event(), [], [0] * 3
    G.insert_edges(random.rows(40))

    def reader(number: int) -> None:
        try:
            while not stop.is_set():
                with G.pin() as pin:
                    first = read(pin, points)
                    if number == 0:
                        pin.materialize()
                    if number == 1:
                        pin.degree()
                    assert read(pin, points) == first
                    table = pin.edge_table()
                    assert len(table) == pin.number_of_edges()
                    assert bool(pin.has_edges(table).all())
                rounds[number] += 1
        except BaseException as error:
            problems.append(error)
            stop.set()

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    updates = 0
    while not stop.is_set() and (min(rounds) < 5 or updates < 200):
        random.update(rare=False)
        updates += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    check_graph(G)


UPDATES: dict[str, Callable[[DynamicGraph], Any]] = {
    "insert_edges": lambda G: G.insert_edges(([0], [3], [9])),
    "delete_edges": lambda G: G.delete_edges(([0], [1])),
    "update": lambda G: G.update(insert=([0], [3], [9]), delete=([0], [1])),
    "update, expiry alone": lambda G: G.update(expire_before=2),
    "expire": lambda G: G.expire(2),
    "insert_vertices": lambda G: G.insert_vertices([9]),
    "delete_vertices": lambda G: G.delete_vertices([1]),
    "reorder": lambda G: G.reorder(),
    "clear": lambda G: G.clear(),
    "apply": lambda G: G.apply({"op": ["insert"], "time": [9], "source": [0], "destination": [3]}),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_keeps_pins_out_until_its_end(name: str, backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    G, pins = DynamicGraph(timestamps="int64", renumber=True, device=backend_name), []
    G.insert_edges((list(range(100)), [*range(1, 100), 0], list(range(1, 101))))
    thread = threading.Thread(target=lambda: pins.append(G.pin()))
    end = G.core.end_version

    def slowly_end(change: Any) -> None:
        thread.start()
        thread.join(0.05)
        assert pins == []
        end(change)

    monkeypatch.setattr(G.core, "end_version", slowly_end)
    UPDATES[name](G)
    thread.join()
    assert [pin.version for pin in pins] == [2]
    assert pins[0].number_of_edges() == len(pins[0].edge_table()) == G.number_of_edges()


def test_all_stores_are_named() -> None:
    assert {store for store, _ in every_store_and_device(["cpu"])} == set(STORES)
