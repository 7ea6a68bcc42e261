"""Graphs that choose their memory, and insertions that do not fit the device: the move to host memory."""

from __future__ import annotations

import gc
import logging
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.backend import Backend, get_backend
from dynstore.errors import OutOfMemoryError
from dynstore.graph import DynamicGraph
from dynstore.graph.core import GraphCore
from dynstore.graph.insertions import Request
from dynstore.testing.pair import Pair
from tests.stores.host_memory.scenes import on_host, some_edges

STORES = ("gpma+", "merge")


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
    backend, limit = G.core.backend, G.snapshot().indices.nbytes + 64
    empty, pinned = backend.empty, backend.pinned

    def limited(shape: Any, dtype: Any) -> Any:
        if G.core.out.memory == "device" and int(np.prod(shape)) * np.dtype(dtype).itemsize > limit:
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
                    refuse_on_device(type(G.core.out), method, patch)
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
        pinned, calls = pair.graph.core.backend.pinned, []

        def failing(shape: Any, dtype: Any) -> Any:
            calls.append(shape)
            if len(calls) > fail_at:
                raise OutOfMemoryError("no memory can be pinned")
            return pinned(shape, dtype)

        patch.setattr(pair.graph.core.backend, "pinned", failing)
        with pytest.raises(OutOfMemoryError, match="no memory can be pinned"):
            pair.graph.insert_edges((*some_edges(300, 2, 60), np.ones(300)))
    assert pair.graph.memory == ("host" if fail_at == 6 else "device")
    for name, array in arrays.items():
        assert np.array_equal(on_host(pair.graph, getattr(pair.graph.snapshot(), name)), array)
    pair.check()
    pair.insert(*some_edges(300, 2, 60), np.ones(300))


def test_columns_that_do_not_fit_beside_the_graph_spill_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = filled(device, spill=True)
    opened = Request.opened

    def refusing(request: Request, core: GraphCore) -> Request:
        if core.memory == "device":
            raise MemoryError("the device has no room for columns")
        return opened(request, core)

    monkeypatch.setattr(Request, "opened", refusing)
    pair.insert(*some_edges(30, 2), np.ones(30))
    assert pair.graph.memory == "host"


def test_a_stream_that_can_be_read_once_is_not_lost(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow

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


# ---------------------------------------------------------------------- on a GPU


@pytest.mark.parametrize("transposed", [False, True])
def test_an_insertion_spills_when_cupys_pool_is_full(transposed: bool, cupy: Any) -> None:
    """At a real out-of-memory, with graphs whose size is known by NumPy."""
    with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):  # cuDF makes CuPy take memory from RMM
        fill_pool(transposed, cupy)


def fill_pool(transposed: bool, cupy: Any) -> None:
    pool, rng = cupy.get_default_memory_pool(), np.random.default_rng(1)
    gc.collect()  # graphs of other tests would make room later
    pool.free_all_blocks()
    G = DynamicGraph(device="cuda", spill=True)
    without = DynamicGraph(device="cuda")
    keys = rng.integers(0, 1 << 40, 24_000_000)
    columns = (keys >> 20).astype(np.int32), (keys & 0xFFFFF).astype(np.int32)
    piece = 500_000  # what an insertion needs beside the edges fits at any time
    G.insert_edges(tuple(column[:piece] for column in columns))
    without.insert_edges(([0], [1]))
    if transposed:
        G.snapshot(transposed=True)
    try:
        pool.set_limit(size=pool.used_bytes() + (128 << 20))
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
