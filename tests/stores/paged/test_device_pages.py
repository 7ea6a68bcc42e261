"""Pages that algorithms have copied stay on the device, and make room for updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend
from dynstore.errors import OutOfMemoryError
from dynstore.graph import DynamicGraph
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.resident import ResidentPages
from dynstore.stores.paged.store import PagedStore
from dynstore.testing.faults import FailingEmpty
from tests.stores.paged.test_store import SMALL, counts, some_edges


def test_copied_pages_stay_until_new_ones_are_written(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of the delta and of bits leave them, copies of the graph share them; the share bounds them."""
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1 << 20)
    G = DynamicGraph(store="paged", device=backend_name, directed=False, **{**SMALL, "delta_edges": 300})
    size = 4000 if backend_name == "cpu" else 1000
    G.insert_edges(some_edges(size, most=60))
    copied: list[int] = []
    take = ResidentPages.take

    def note(self: ResidentPages, packed: PagedRows, pages: np.ndarray, columns: Any) -> Any:
        copied.append(int(pages.size))
        return take(self, packed, pages, columns)

    monkeypatch.setattr(ResidentPages, "take", note)

    def copies(graph: DynamicGraph) -> bool:
        """Whether a call copies pages; the answer has to be right."""
        copied.clear()
        labels = dynstore.weakly_connected_components(graph)["labels"].to_numpy().tolist()
        wanted = DynamicGraph(device=backend_name, directed=False)
        wanted.insert_vertices([graph.number_of_vertices() - 1])
        wanted.insert_edges(tuple(graph.edge_columns().values())[:2])
        assert labels == dynstore.weakly_connected_components(wanted)["labels"].to_numpy().tolist()
        return bool(copied)

    def held() -> int:
        return G.memory_usage()["resident_pages"]

    assert held() == 0
    assert copies(G)
    assert held() == G.memory_usage()["pages"]
    assert not copies(G)
    G.delete_edges(some_edges(20, most=60))
    G.insert_edges(([0, 3, 70], [71, 60, 72]))
    twin = G.copy()
    assert not copies(G)
    assert not copies(twin)
    merges = counts(G)[0]
    G.insert_edges(([1] * 400, range(100, 500)))
    assert counts(G)[0] == merges + 1
    assert held() == 0
    assert not copies(twin)
    assert copies(G)
    assert not copies(G)
    G.clear()
    assert held() == 0
    none = DynamicGraph(store="paged", device=backend_name, resident_share=0, **SMALL)
    none.insert_edges(some_edges(size, most=60))
    assert copies(none)
    assert copies(none)
    assert none.memory_usage()["resident_pages"] == 0


def resident(G: DynamicGraph) -> list[int]:
    """Return the bytes of pages on the device, by orientation."""
    return [int(store._resident.nbytes) for store in (G.core.out, G.core.into) if isinstance(store, PagedStore)]


def refuse_beside_pages(G: DynamicGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory run out in each plan of a store as long as pages of the graph are on the device."""

    def refusing(plan: Any) -> Any:
        def refuse(store: PagedStore, *args: Any) -> Any:
            planned = plan(store, *args)
            if any(resident(G)):
                raise OutOfMemoryError("the device has no room")
            return planned

        return refuse

    for name in ("plan_insert", "plan_delete"):
        monkeypatch.setattr(PagedStore, name, refusing(getattr(PagedStore, name)))


@pytest.mark.parametrize("method", ["insert_edges", "delete_edges", "update"])
@pytest.mark.parametrize("is_large", [False, True])
def test_pages_on_the_device_make_room_for_updates(
    method: str, is_large: bool, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of both orientations go, and the update is made; if memory still runs out, the graph is as it was."""
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1 << 20)
    size, most, delta = (4000, 133, 300) if backend_name == "cpu" else (300, 20, 60)
    count = (size // 2 if backend_name == "cpu" else size) if is_large else 20
    G = DynamicGraph(store="paged", device=backend_name, **{**SMALL, "delta_edges": delta})
    G.insert_edges(some_edges(size, most=most))
    edges = some_edges(count, seed=2, most=most + 10)
    arguments = {"insert": edges, "delete": some_edges(count, seed=1, most=most)} if method == "update" else {}

    def change(graph: DynamicGraph) -> Any:
        return graph.update(**arguments) if method == "update" else getattr(graph, method)(edges)

    def fill() -> None:
        dynstore.pagerank(G, max_iter=1, fail_on_nonconvergence=False)  # reads in-edges
        dynstore.weakly_connected_components(G)
        assert len(resident(G)) == 2
        assert all(resident(G))

    fill()
    before, version = G.edge_columns(), G.version
    with monkeypatch.context() as patch:
        patch.setattr(G.core.backend, "empty", FailingEmpty(G.core.backend.empty, 0, lasting=True))
        with pytest.raises(OutOfMemoryError):
            change(G)
    assert G.version == version
    assert all((before[name] == column).all() for name, column in G.edge_columns().items())
    fill()
    wanted = DynamicGraph(device=backend_name)
    wanted.insert_edges(tuple(before.values())[:2])
    with monkeypatch.context() as patch:
        refuse_beside_pages(G, patch)
        report = change(G)
    assert report[:4] == change(wanted)[:4]
    assert report.path == ("merge" if is_large else "in-place")
    assert not any(resident(G))
    for name, column in wanted.edge_columns().items():
        assert (G.edge_columns()[name] == column).all()


def test_pages_on_the_device_make_room_for_in_edges(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1 << 20)
    G = DynamicGraph(store="paged", device=backend_name, **SMALL)
    G.insert_edges(some_edges(2000))
    dynstore.weakly_connected_components(G)
    src, dst = (column.tolist() for column in tuple(G.edge_columns().values())[:2])
    refuse_beside_pages(G, monkeypatch)
    assert sorted(G.predecessors(3).tolist()) == sorted(one for one, other in zip(src, dst, strict=True) if other == 3)
