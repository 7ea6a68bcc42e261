"""Graphs whose edges lie in pinned host memory that kernels use in place, and the move there."""

from __future__ import annotations

import logging
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


def on_host(G: DynamicGraph, array: Any) -> np.ndarray:
    """A copy, which does not keep exported memory alive."""
    return np.array(G.backend.to_host(array))


def some_edges(count: int, seed: int = 1, most: int = 30) -> tuple[np.ndarray, np.ndarray]:
    src, dst = np.random.default_rng(seed).integers(0, most, (2, count))
    return src, dst


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
        assert G._out.memory == "device"
        assert "host" not in G.memory_usage()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_every_pinned_allocation_can_fail(
    store: str, transposed: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(store=store, device=device, memory="host", weighted=True, transposed=transposed)
    assert for_every_pinned_array(monkeypatch, pair, "insert_edges", some_edges(40)) >= 3
    columns = 3 * (2 if transposed else 1)
    assert for_every_pinned_array(monkeypatch, pair, "insert_edges", some_edges(200, 2)) >= columns  # it grows
    assert for_every_allocation(monkeypatch, pair, "insert_edges", some_edges(300, 3, 40)) >= columns
    for_every_pinned_array(monkeypatch, pair, "delete_edges", some_edges(200, 2))
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
    out, num_vertices = pair.graph._out, pair.graph.number_of_vertices()
    kinds = out.vertex_dtype, out.weight_dtype
    batch = transpose_pieces(pair.graph.backend, out.edge_pieces, num_vertices, *kinds)
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
        assert twin.edge_table().equals(G.edge_table())
        assert (twin._memory, twin._spills) == ("host", True)
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


# ---------------------------------------------------------------------- auto


@pytest.mark.parametrize("free", [1 << 11, 1 << 24])
def test_auto_chooses_by_the_first_batch(free: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: free)
    G = DynamicGraph(device=device, memory="auto")
    assert G.memory == "device"
    G.insert_edges(some_edges(100))
    assert G.memory == ("host" if free == 1 << 11 else "device")
    assert G.snapshot().memory == G.memory
    small = DynamicGraph(device=device, memory="auto")
    small.insert_edges([(0, 1)])
    assert small.memory == "device"


@pytest.mark.parametrize("free", [1 << 11, 1 << 24])
def test_auto_chooses_by_the_capacity(free: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: free)
    G = DynamicGraph(device=device, memory="auto", capacity=100)
    assert G.memory == ("host" if free == 1 << 11 else "device")


def test_auto_where_nothing_is_known_of_the_memory(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: None)
    assert DynamicGraph(device=device, memory="auto", capacity=100).memory == "device"


# ---------------------------------------------------------------------- spill


def fill_device(G: DynamicGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let larger arrays than the graph's own fail as long as these are on the device."""
    backend, limit = G.backend, G.snapshot().indices.nbytes + 64
    empty, pinned = backend.empty, backend.pinned

    def limited(shape: Any, dtype: Any) -> Any:
        if G._out.memory == "device" and int(np.prod(shape)) * np.dtype(dtype).itemsize > limit:
            raise OutOfMemoryError(f"the device has no room for {shape} of {dtype}")
        return empty(shape, dtype)

    def without_limit(shape: Any, dtype: Any) -> Any:
        if backend.on_gpu:
            return pinned(shape, dtype)
        return (empty(shape, dtype),) * 2

    monkeypatch.setattr(backend, "empty", limited)
    monkeypatch.setattr(backend, "pinned", without_limit)


def refuse_on_device(kind: type, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory run out in a method of a store whose edges are on the device."""
    work = getattr(kind, method)

    def refusing(store: Any, *args: Any) -> Any:
        if store.memory == "device":
            raise OutOfMemoryError("the device has no room")
        return work(store, *args)

    monkeypatch.setattr(kind, method, refusing)


def filled(device: str, **options: Any) -> Pair:
    pair = Pair(device=device, weighted=True, **options)
    pair.insert(*some_edges(150), np.arange(150) / 4)
    return pair


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_an_insertion_that_does_not_fit_moves_the_graph(
    store: str, transposed: bool, device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = filled(device, spill=True, transposed=transposed, store=store)
    fill_device(pair.graph, monkeypatch)
    with caplog.at_level(logging.WARNING, logger="dynstore"):
        pair.insert(*some_edges(300, 2, 60), np.arange(300) / 4)
        assert pair.graph.memory == "host"
        assert pair.graph.snapshot().memory == "host"
        assert pair.graph.snapshot(transposed=True).memory == "host"
        pair.insert(*some_edges(300, 3, 60), np.arange(300) / 4)
    (said,) = [record.getMessage() for record in caplog.records if "host memory" in record.getMessage()]
    assert said.startswith("insert_edges: ")
    assert "no room" in said
    pair.delete(*some_edges(300, 2, 60))
    pair.check_queries()


def test_update_spills_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled(device, spill=True)
    G, (src, dst) = pair.graph, some_edges(200, 2, 60)
    columns = G.edge_columns()
    gone = int(columns["source"][0]), int(columns["destination"][0])
    wanted = set(zip(columns["source"].tolist(), columns["destination"].tolist(), strict=True)) - {gone}
    fill_device(G, monkeypatch)
    G.update(insert=(src, dst, np.ones(200)), delete=[gone])
    assert G.memory == "host"
    wanted |= set(zip(src.tolist(), dst.tolist(), strict=True))
    assert G.has_edges(([a for a, _ in wanted], [b for _, b in wanted])).all()
    assert G.number_of_edges() == len(wanted)


def test_a_window_spills(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the graph is planned twice, and done once."""
    graphs = {}
    for name in ("small", "large"):
        G = graphs[name] = DynamicGraph(device=device, spill=name == "small", renumber=True)
        window = dynstore.Window(G, 250)
        window.slide(some_edges(150))
        with monkeypatch.context() as patch:
            if name == "small":
                for method in ("try_insert", "plan_insert"):
                    refuse_on_device(type(G._out), method, patch)
            for seed in range(2, 5):
                window.slide(some_edges(200, seed, 60))
    assert (graphs["small"].memory, graphs["large"].memory) == ("host", "device")
    assert graphs["small"].edge_table().equals(graphs["large"].edge_table())


def test_without_spill_the_error_names_the_ways_out(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled(device)
    with monkeypatch.context() as patch:
        fill_device(pair.graph, patch)
        with pytest.raises(OutOfMemoryError, match=r'memory="host" .* spill=True .*; the graph is as it was'):
            pair.graph.insert_edges((*some_edges(300, 2, 60), np.ones(300)))
    assert pair.graph.memory == "device"
    pair.check()
    pair.insert(*some_edges(300, 2, 60), np.ones(300))


@pytest.mark.parametrize("fail_at", range(7))
def test_a_move_that_fails_leaves_the_graph_on_the_device(
    fail_at: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six columns move; after the last one, the insertion's own pinned memory fails: then the graph has moved."""
    pair = filled(device, spill=True, transposed=True)
    names = ("indices", "sources", "valid", "weights")
    arrays = {name: on_host(pair.graph, getattr(pair.graph.snapshot(), name)) for name in names}
    with monkeypatch.context() as patch:
        fill_device(pair.graph, patch)
        pinned, calls = pair.graph.backend.pinned, []

        def failing(shape: Any, dtype: Any) -> Any:
            calls.append(shape)
            if len(calls) > fail_at:
                raise OutOfMemoryError("no memory can be pinned")
            return pinned(shape, dtype)

        patch.setattr(pair.graph.backend, "pinned", failing)
        with pytest.raises(OutOfMemoryError, match="no memory can be pinned"):
            pair.graph.insert_edges((*some_edges(300, 2, 60), np.ones(300)))
    assert pair.graph.memory == ("host" if fail_at == 6 else "device")
    for name, array in arrays.items():
        assert np.array_equal(on_host(pair.graph, getattr(pair.graph.snapshot(), name)), array)
    pair.check()
    pair.insert(*some_edges(300, 2, 60), np.ones(300))


def test_columns_that_do_not_fit_beside_the_graph_spill_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled(device, spill=True)
    opened = DynamicGraph._opened

    def refusing(G: DynamicGraph, request: Any) -> Any:
        if G.memory == "device":
            raise MemoryError("the device has no room for columns")
        return opened(G, request)

    monkeypatch.setattr(DynamicGraph, "_opened", refusing)
    pair.insert(*some_edges(30, 2), np.ones(30))
    assert pair.graph.memory == "host"


def test_a_stream_that_can_be_read_once_is_not_lost(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    G = DynamicGraph(device=device, spill=True)
    G.insert_edges(some_edges(150))
    src, dst = some_edges(300, 2, 60)
    table = pyarrow.table({"source": src, "destination": dst})
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())
    fill_device(G, monkeypatch)
    G.insert_edges(reader)
    assert G.memory == "host"
    assert G.has_edges((src, dst)).all()


def test_leases_and_exports_live_through_a_move(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled(device, spill=True)
    exported, pin = pair.graph.snapshot().export(), pair.graph.pin()
    copies = {name: on_host(pair.graph, array) for name, array in exported.items()}
    before = pair.graph.edge_table()
    fill_device(pair.graph, monkeypatch)
    pair.insert(*some_edges(300, 2, 60), np.arange(300) / 4)
    assert pair.graph.memory == "host"
    for name, array in exported.items():
        assert np.array_equal(on_host(pair.graph, array), copies[name])
    assert pin.edge_table().equals(before)


def test_the_algorithms_are_the_same_in_both_memories(device: str) -> None:
    weights, graphs = np.arange(200) % 9 + 1.0, {}
    for memory in ("device", "host"):
        graphs[memory] = DynamicGraph(device=device, memory=memory, weighted=True, directed=False)
        graphs[memory].insert_edges((*some_edges(200, 3), weights))
        graphs[memory].track("triangle_count")
        graphs[memory].insert_edges((*some_edges(20, 4), weights[:20]))
    for name, options in (
        ("bfs", {"start": 3}),
        ("sssp", {"source": 3}),
        ("pagerank", {}),
        ("triangle_count", {}),
        ("weakly_connected_components", {}),
        ("betweenness_centrality", {}),
    ):
        found = [getattr(dynstore, name)(G, **options) for G in graphs.values()]
        assert list(found[0].columns) == list(found[1].columns)
        for column in found[0].columns:
            values = [np.asarray(frame[column].to_numpy()) for frame in found]
            assert np.allclose(*values), name


# ---------------------------------------------------------------------- on a GPU


@pytest.fixture
def cupy(device: str) -> Any:
    if device != "cuda":
        pytest.skip("needs a GPU")
    return pytest.importorskip("cupy")


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


@pytest.mark.parametrize("transposed", [False, True])
def test_an_insertion_spills_when_cupys_pool_is_full(transposed: bool, cupy: Any) -> None:
    """At a real out-of-memory, with graphs whose size is known by NumPy."""
    pool, rng = cupy.get_default_memory_pool(), np.random.default_rng(1)
    pool.free_all_blocks()
    G = DynamicGraph(device="cuda", spill=True)
    without = DynamicGraph(device="cuda")
    keys = rng.integers(0, 1 << 40, 24_000_000)
    columns = (keys >> 20).astype(np.int32), (keys & 0xFFFFF).astype(np.int32)
    piece = 2_000_000
    G.insert_edges(tuple(column[:piece] for column in columns))
    without.insert_edges(([0], [1]))
    if transposed:
        G.snapshot(transposed=True)
    try:
        pool.set_limit(size=pool.used_bytes() + (192 << 20))
        for first in range(piece, len(keys), piece):
            G.insert_edges(tuple(column[first : first + piece] for column in columns))
        assert G.memory == "host"
        with pytest.raises(OutOfMemoryError, match="spill=True"):
            without.insert_edges(columns)
        assert without.number_of_edges() == 1
    finally:
        pool.set_limit(size=0)
    assert G.number_of_edges() == len(np.unique(keys))
    assert bool(G.has_edges(columns).all())
    assert G.memory_usage()["host"] > 24_000_000 * 8


def test_auto_looks_at_what_is_free(cupy: Any) -> None:
    free = get_backend("cuda").free_bytes()
    assert free is not None
    assert DynamicGraph(device="cuda", memory="auto", capacity=1000).memory == "device"
    pool = cupy.get_default_memory_pool()
    try:
        pool.set_limit(size=pool.used_bytes() + (16 << 20))
        G = DynamicGraph(device="cuda", memory="auto", capacity=10_000_000)
        assert G.memory == "host"
    finally:
        pool.set_limit(size=0)
