"""Pins share what they keep, and give it back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.errors import StaleSnapshotError
from dynstore.graph.versions.pinned import PinnedStore
from dynstore.ids.pinned import PinnedIds
from dynstore.testing.faults import for_every_allocation, for_every_new_array
from dynstore.testing.pair import Pair
from tests.graph.readings import make_random, on_host, points, read, whole


def test_pins_of_one_version_share_their_copy() -> None:
    G = DynamicGraph.from_edges((np.arange(1000), np.arange(1000)[::-1].copy()), device="cpu")
    first, second = G.pin(), G.pin()
    assert first.snapshot().indices is second.snapshot().indices
    first.release()
    assert second.number_of_edges() == 1000


@pytest.mark.parametrize("how", ["release", "with", "del"])
def test_memory_comes_back(how: str) -> None:
    """What a pin keeps is freed with it, and updates note nothing any more."""
    G = DynamicGraph.from_edges((np.arange(5000), np.arange(5000)[::-1].copy()), device="cpu")
    pin = G.pin()
    assert pin.memory_usage() == {"undo": 0, "total": 0}
    G.delete_edges((np.arange(100), np.arange(100)))
    G.insert_edges((np.arange(1000), np.arange(1000)))
    assert pin.memory_usage()["undo"] == 1100 * 9  # src, dst, and whether it was there
    assert pin.memory_usage() == {"undo": pin.memory_usage()["undo"], "total": pin.memory_usage()["total"]}
    log, store = G.core.undo, ref(pin.core.out)
    assert log() is not None
    assert G.core.logs
    if how == "with":
        with pin:
            pass
    elif how == "release":
        pin.release()
    else:
        del pin
    gc.collect()
    assert log() is None
    assert store() is None
    assert not G.core.logs


def test_what_is_older_than_the_oldest_pin_is_freed() -> None:
    G = DynamicGraph.from_edges((np.arange(50_000), np.arange(50_000)[::-1].copy()), device="cpu")
    old = G.pin()
    G.insert_edges((np.arange(1000), np.arange(1000)))
    noted = ref(old.core.out._link.change.before)
    new = G.pin()
    G.insert_edges((np.arange(10), np.arange(10)))
    old.release()
    assert noted() is None
    assert new.memory_usage()["undo"] < 1000
    assert new.number_of_edges() == G.number_of_edges()


def test_a_long_chain_is_freed() -> None:
    G = DynamicGraph.from_edges((np.arange(10**6), np.arange(10**6)), device="cpu")
    pin = G.pin()
    for step in range(5000):
        G.insert_edges(([step], [step + 1]))
    assert len(pin.core.out._link.changes()) == 5000
    pin.release()
    assert G.core.undo() is None


def test_a_copy_needs_no_notes() -> None:
    """A version that changed a lot is copied, once; the graph forgets it then."""
    G = DynamicGraph.from_edges((np.arange(40_000), np.arange(40_000)), device="cpu")
    pin, expected = G.pin(), G.edge_columns()
    G.insert_edges((np.arange(9_000), np.arange(9_000) + 1))
    assert set(pin.memory_usage()) == {"undo", "total"}
    G.insert_edges((np.arange(9_000), np.arange(9_000) + 2))
    assert set(pin.memory_usage()) == {"copy", "total"}
    assert 8 * 40_000 < pin.memory_usage()["total"] < 13 * 40_000
    assert not G.core.logs
    assert all((pin.edge_columns()[name] == column).all() for name, column in expected.items())


def test_a_copied_pin_does_not_keep_its_graph_alive() -> None:
    G = DynamicGraph.from_edges([(0, 1)], device="cpu")
    pin, graph = G.pin(), ref(G)
    pin.materialize()
    del G
    gc.collect()
    assert graph() is None
    assert pin.neighbors(0).tolist() == [1]


def test_records_of_edges_that_only_a_pin_has_are_not_used_again(rng: np.random.Generator) -> None:
    G = DynamicGraph(edge_columns={"id": "int64"}, weighted=True, device="cpu")
    src = np.arange(150)
    G.insert_edges((src, src, src.astype("float32"), src))
    pins = [(G.pin(), G.edge_table())]
    for step in range(100):
        chosen = rng.integers(0, 150, 40)
        G.insert_edges((chosen, chosen, np.full(40, step, "float32"), chosen + step))
        if step in (25, 50):
            pins.append((G.pin(), G.edge_table()))
    G.delete_edges((src, src))
    G.insert_edges(([1], [1], [1.0], [1]))
    for pin, expected in pins:
        assert pin.edge_table().equals(expected)
    size = G.core.records.size
    del pin
    pins.clear()
    for _ in range(2 * size):
        G.insert_edges(([1], [1], [1.0], [1]))
    assert G.core.records.size < size


def test_a_pin_that_is_read_after_each_update_is_copied_once() -> None:
    """Sorting the notes again and again would take more work in the end."""
    G = DynamicGraph.from_edges((np.arange(60_000), np.arange(60_000)), device="cpu")
    pin, steps = G.pin(), 0
    while "undo" in pin.memory_usage():
        G.insert_edges((np.arange(500), np.arange(500) + steps + 1))
        assert not pin.has_edges(([0], [steps + 1])).any()
        steps += 1
    assert 10 < steps < 25
    assert pin.number_of_edges() == len(pin.edge_table()) == 60_000


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("insert_edges", (([0, 4], [1, 5], [9.0, 9.0]),)),
        ("delete_edges", (([1, 7], [2, 7]),)),
        ("update", (([0, 4], [1, 5], [9.0, 9.0]), ([1, 3], [2, 0]))),
    ],
)
def test_notes_of_edges_with_columns_are_made_before_the_update(
    method: str, args: tuple[Any, ...], directed: bool, monkeypatch: pytest.MonkeyPatch, backend_name: str
) -> None:
    """Memory that runs out for what pins and tracked answers note changes nothing: nothing is written then."""
    for failing in (for_every_allocation, for_every_new_array):
        pair = Pair(directed=directed, weighted=True, device=backend_name, edge_columns={"id": "int64"})
        pair.insert([0, 1, 2, 3], [1, 2, 3, 0], [1.0, 2.0, 3.0, 4.0])
        pinned, monitor = pair.pinned(), pair.graph.track("weakly_connected_components")
        assert failing(monkeypatch, pair, method, *args) > 0
        pinned.check()
        wanted = dynstore.weakly_connected_components(pair.graph)
        assert monitor.result().to_dict("list") == wanted.to_dict("list")


# ---------------------------------------------------------------------- released pins


KINDS: dict[str, dict[str, Any]] = {
    "strings": {"renumber": True, "weighted": True},
    "reused": {"renumber": True, "reuse_ids": True, "directed": False},
    "times": {"timestamps": "int64", "weighted": True},
    "columns": {"edge_columns": {"id": "int64"}, "weighted": True, "directed": False, "renumber": True},
}
PARTS = {"row": PinnedStore, "look_up": PinnedStore, "_read_slots": PinnedStore, "find": PinnedIds}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_read_is_right_or_refused_if_its_pin_is_released_meanwhile(
    kind: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another thread: just after the read has called a part of the pin, and then the graph changes, too."""
    random = make_random("cpu", np.random.default_rng(1), 9, **KINDS[kind])
    G = random.G
    G.insert_edges(random.rows(30))
    expected = {**read(G, points), **read(G, whole)}
    called: Callable[..., Any] = getattr(PARTS[part], part)
    refused = 0
    for parts in (points, whole):
        for name, _ in parts(G):
            random.G = G.copy()
            pin = random.G.pin()
            get = dict(parts(pin))[name]

            def call_and_release(self: Any, *args: Any, pin: Any = pin) -> Any:
                found = called(self, *args)
                if pin.core.into is not None or pin.core.views or isinstance(pin.core.out, PinnedStore):
                    pin.release()
                    for _ in range(3):
                        random.update(rare=False)
                return found

            with monkeypatch.context() as patch:
                patch.setattr(PARTS[part], part, call_and_release)
                try:
                    assert on_host(G, get()) == expected[name], name
                except StaleSnapshotError as error:
                    refused += "was released, so it cannot be read" in str(error)
    assert refused or part not in ("row", "_read_slots")


@pytest.mark.parametrize("how", ["release", "del"])
def test_what_a_pin_has_shown_keeps_its_records(how: str, backend_name: str) -> None:
    """Also weights, which a snapshot looks up when they are first read."""
    G = DynamicGraph(timestamps="int64", weighted=True, device=backend_name)
    rows = list(range(30))
    G.insert_edges((rows, rows, rows, rows))
    pin = G.pin()
    view, snapshot = pin.window(0, 20), pin.snapshot()
    if how == "release":
        pin.release()
    del pin
    for step in range(100, 106):
        G.insert_edges((rows, rows, [step] * 30, [step] * 30))
    assert G.core.backend.to_host(snapshot.compact().weights).tolist() == rows
    assert on_host(G, view.edge_columns())["weight"] == on_host(G, view.edge_columns())["time"] == rows[:20]
    holders = G.core.records.holders
    assert len(holders) == 1
    del view, snapshot
    gc.collect()
    assert not holders


@pytest.mark.parametrize("options", [{}, {"renumber": True}, {"renumber": True, "reuse_ids": True}])
def test_a_copied_pin_does_not_wait_for_updates(options: dict[str, Any]) -> None:
    G = DynamicGraph.from_edges([(0, 1), (1, 2)], device="cpu", **options)
    pin, found = G.pin(), []
    pin.materialize()

    def look() -> None:
        found.append((list(pin), *(on_host(G, part) for part in (pin.neighbors(0), pin.predecessors(1)))))
        found.append(on_host(G, pin.has_edges([(0, 1), (1, 0)])))

    reader = threading.Thread(target=look)
    with G.core.lock:  # as an update holds it
        reader.start()
        reader.join(60)
        assert found == [(list(G), [1], [0]), [True, False]]
