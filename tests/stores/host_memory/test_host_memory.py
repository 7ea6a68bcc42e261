"""Graphs whose edges lie in pinned host memory that kernels use in place, and the move there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend, get_backend
from dynstore.batches.turning import transpose_pieces
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.graph import DynamicGraph
from dynstore.stores.table import selection
from dynstore.testing.faults import for_every_allocation, for_every_pinned_array
from dynstore.testing.pair import Pair
from tests.stores.host_memory.scenes import on_host, some_edges

STORES = ("gpma+", "merge")


class Watched:
    """Replaces ``Backend.pinned``, and remembers the memory that came from it."""

    def __init__(self, backend: Backend) -> None:
        self.pinned, self.spans = backend.pinned, []

    def __call__(self, shape: Any, dtype: Any) -> Any:
        array, on_host = self.pinned(shape, dtype)
        self.spans.append((address(array), array.nbytes, array))  # kept, so that the addresses stay theirs
        return array, on_host

    def owns(self, array: Any) -> bool:
        return any(begin <= address(array) and address(array) + array.nbytes <= begin + size
                   for begin, size, _ in self.spans)  # fmt: skip


def address(array: Any) -> int:
    return int(array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data)


@pytest.fixture
def watched(device: str, monkeypatch: pytest.MonkeyPatch) -> Watched:
    backend = get_backend(device)
    watched = Watched(backend)
    monkeypatch.setattr(backend, "pinned", watched)
    return watched


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_pinned_after_each_kind_of_update(
    store: str, weighted: bool, device: str, watched: Watched
) -> None:
    pair = Pair(store=store, device=device, memory="host", weighted=weighted, transposed=True)
    updates = [("insert_edges", 60), ("insert_edges", 3), ("insert_edges", 150), ("delete_edges", 40)]
    for seed, (method, count) in enumerate(updates):
        pair.update(method, some_edges(count, seed))
        for transposed in (False, True):
            csr = pair.graph.snapshot(transposed)
            columns = [csr.indices, csr.sources] + ([csr.weights] if weighted else [])
            assert csr.memory == "host"
            assert all(watched.owns(column) for column in columns)
            assert not watched.owns(csr.offsets)
            assert not watched.owns(csr.valid)
    assert pair.graph.memory == "host"
    assert watched.owns(pair.graph.edge_columns()["source"])
    assert watched.owns(csr.compact().indices)
    assert watched.owns(pair.graph.copy().snapshot().indices)
    assert watched.owns(pair.graph.subgraph([0, 1, 2, 3]).snapshot().indices)


def test_memory_figures_say_what_lies_where(device: str) -> None:
    G = DynamicGraph(device=device, memory="host", weighted=True)
    G.insert_edges((*some_edges(100), np.ones(100)))
    usage = G.memory_usage()
    assert usage["host"] == usage["src"] + usage["dst"] + usage["weights"] > 0
    assert usage["device"] == usage["total"] - usage["host"] > 0
    G.snapshot(transposed=True)
    both = G.memory_usage()
    assert both["host"] == sum(both[f"{way}{part}"] for way in ("", "in_") for part in ("src", "dst", "weights"))
    plain = DynamicGraph(device=device).memory_usage()
    assert "host" not in plain
    assert "device" not in plain


def test_on_the_host_it_is_the_graph_as_it_is() -> None:
    for memory in ("host", "auto", "device"):
        G = DynamicGraph(device="cpu", memory=memory, spill=True)
        G.insert_edges(some_edges(50))
        assert G.memory == "host"
        assert G.core.out.memory == "device"
        assert "host" not in G.memory_usage()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_every_pinned_allocation_can_fail(
    store: str, transposed: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, more, most = (40, 120, 200) if device == "cuda" else (20, 60, 100)
    pair = Pair(store=store, device=device, memory="host", weighted=True, transposed=transposed)
    assert for_every_pinned_array(monkeypatch, pair, "insert_edges", some_edges(few)) >= 3
    columns = 3 * (2 if transposed else 1)
    assert for_every_pinned_array(monkeypatch, pair, "insert_edges", some_edges(more, 2)) >= columns  # it grows
    assert for_every_allocation(monkeypatch, pair, "insert_edges", some_edges(most, 3, 40)) >= columns
    for_every_pinned_array(monkeypatch, pair, "delete_edges", some_edges(more, 2))
    for_every_pinned_array(monkeypatch, pair, "insert_edges", some_edges(3, 4))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("memory", ["device", "host"])
def test_in_edges_are_made_in_pieces(memory: str, weighted: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one vertex has more in-edges than a piece has room for."""
    monkeypatch.setattr(selection, "PIECE", 32)
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 0)
    pair = Pair(device=device, memory=memory, weighted=weighted)
    src, dst = some_edges(300)
    dst[:100] = 7
    pair.insert(src, dst, *([np.arange(300) / 4] if weighted else []))
    pair.delete(src[::3], dst[::3])
    out, num_vertices = pair.graph.core.out, pair.graph.number_of_vertices()
    kinds = out.vertex_dtype, out.weight_dtype
    batch = transpose_pieces(pair.graph.core.backend, out.edge_pieces, num_vertices, *kinds)
    columns = {name: on_host(pair.graph, column) for name, column in pair.graph.edge_columns().items()}
    order = np.lexsort((columns["source"], columns["destination"]))
    assert np.array_equal(on_host(pair.graph, batch.src), columns["destination"][order])
    assert np.array_equal(on_host(pair.graph, batch.dst), columns["source"][order])
    if weighted:
        assert np.array_equal(on_host(pair.graph, batch.weights), columns["weight"][order])
    pair.transposed = True
    pair.check()
    packed = pair.graph.snapshot().compact()
    assert np.array_equal(on_host(pair.graph, packed.indices), columns["destination"])
    assert np.array_equal(
        np.diff(on_host(pair.graph, packed.offsets)), np.bincount(columns["source"], minlength=num_vertices)
    )


def test_pins_and_exports_in_host_memory(device: str, watched: Watched) -> None:
    G = DynamicGraph(device=device, memory="host", weighted=True)
    src, dst = some_edges(80)
    G.insert_edges((src, dst, np.ones(80)))
    before = G.edge_table()
    arrays, pin = G.snapshot().export(), G.pin()
    copies = {name: on_host(G, array) for name, array in arrays.items()}
    G.delete_edges((src[:30], dst[:30]))
    G.insert_edges((*some_edges(80, 5), np.zeros(80)))
    assert pin.edge_table().equals(before)
    assert watched.owns(pin.snapshot().indices)
    assert watched.owns(pin.snapshot(transposed=True).indices)
    for name, array in arrays.items():
        assert np.array_equal(on_host(G, array), copies[name])


def test_saved_and_pickled_with_its_memory(device: str, tmp_path: Any, watched: Watched) -> None:
    import pickle

    G = DynamicGraph(device=device, memory="host", weighted=True, directed=False, spill=True)
    G.insert_edges((*some_edges(80), np.ones(80)))
    G.save(tmp_path / "graph")
    here, there = dynstore.load(tmp_path / "graph", device=device), dynstore.load(tmp_path / "graph", device="cpu")
    for twin in (here, there, pickle.loads(pickle.dumps(G)), DynamicGraph.from_edges(G)):
        assert twin.memory == "host"
        assert twin.to_pandas().equals(G.to_pandas())
        assert (twin.core.memory_option, twin.core.spills) == ("host", True)
    assert watched.owns(here.snapshot().indices)


def test_wrong_memories() -> None:
    with pytest.raises(InputError, match="unknown memory 'disk'; known: 'auto', 'device', 'host'"):
        DynamicGraph(device="cpu", memory="disk")
    with pytest.raises(InputError, match=r"got memory='host' with store='lpma'; wanted one of the stores 'gpma\+'"):
        DynamicGraph(device="cpu", memory="host", store="lpma")
    with pytest.raises(InputError, match="got spill=True with store='slab_hash'"):
        DynamicGraph(device="cpu", spill=True, store="slab_hash")
    with pytest.raises(InputError, match="spill"):
        DynamicGraph(device="cpu", spill="yes")


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_wide_windows_go_through_scratch_only_if_there_is_room(
    free: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else everything is merged, which takes no scratch for edges."""
    monkeypatch.setattr(Backend, "free_bytes", lambda _: free)
    for memory in ("host", "device"):
        pair = Pair(device=device, memory=memory, merge_cost=0.0)
        pair.insert(*some_edges(200, most=60))
        report = pair.insert(*some_edges(12, 2, 60))
        assert report.path == ("merge" if (free, memory) == (0, "host") else "in-place")
        pair.delete(*some_edges(100, most=60))
        pair.check_queries()


def test_the_algorithms_are_the_same_in_both_memories(device: str) -> None:
    weights, graphs = np.arange(120) % 9 + 1.0, {}
    for memory in ("device", "host"):
        graphs[memory] = DynamicGraph(device=device, memory=memory, weighted=True, directed=False)
        graphs[memory].insert_edges((*some_edges(120, 3), weights))
        graphs[memory].track("triangle_count")
        graphs[memory].insert_edges((*some_edges(20, 4), weights[:20]))
    for name, options in (
        ("bfs", {"start": 3}),
        ("sssp", {"source": 3}),
        ("pagerank", {}),
        ("triangle_count", {}),
        ("weakly_connected_components", {}),
        ("betweenness_centrality", {"k": [3, 5, 6]}),
    ):
        found = [getattr(dynstore, name)(G, **options) for G in graphs.values()]
        assert list(found[0].columns) == list(found[1].columns)
        for column in found[0].columns:
            values = [np.asarray(frame[column].to_numpy()) for frame in found]
            assert np.allclose(*values), name


# ---------------------------------------------------------------------- on a GPU


@pytest.mark.parametrize("store", ["gpma+", "merge", "paged"])
def test_kernels_use_memory_that_cuda_has_pinned(store: str, cupy: Any) -> None:
    G = DynamicGraph(store=store, memory="host", device="cuda", weighted=True, directed=False)
    twin = DynamicGraph(device="cuda", weighted=True, directed=False)
    for seed in range(4):
        src, dst = some_edges(500_000, seed, 100_000)
        for each in (G, twin):
            each.insert_edges((src, dst, np.full(500_000, seed + 1.0)))
            each.delete_edges((src[::5], dst[::5]))
    csr = G.snapshot()
    for column in (csr.indices, csr.sources, csr.weights):
        about = cupy.cuda.runtime.pointerGetAttributes(column.data.ptr)
        assert about.hostPointer
        assert about.devicePointer == column.data.ptr  # kernels and the host have one address for it
    assert G.edge_table().equals(twin.edge_table())
    for name, options in (("bfs", {"start": 1}), ("sssp", {"source": 1}), ("weakly_connected_components", {})):
        assert getattr(dynstore, name)(G, **options).equals(getattr(dynstore, name)(twin, **options)), name
    found, wanted = (dynstore.pagerank(each)["pagerank"].to_numpy() for each in (G, twin))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_pinned_memory_that_there_is_not(cupy: Any) -> None:
    with pytest.raises(OutOfMemoryError, match="could not pin"):
        get_backend("cuda").pinned(1 << 50, np.uint8)
