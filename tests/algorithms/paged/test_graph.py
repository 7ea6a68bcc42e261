"""A graph in pages with changes on the device holds the edges of a model, before and after a flush."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import PagedGraph
from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.stores.paged import building, merging
from dynstore.stores.paged.building import decode_rows, pack_rows
from dynstore.stores.paged.layout import LEAF, PagedRows
from dynstore.testing.faults import FailingEmpty, FailingFind, FailingModule

NUM_VERTICES = 70
Edges = set[tuple[int, int]]


def pack(backend: Backend, edges: Edges, encode: bool = True) -> PagedRows:
    pairs = np.array(sorted(edges), np.int64).reshape(-1, 2)
    offsets = np.searchsorted(pairs[:, 0], np.arange(NUM_VERTICES + 1))
    return pack_rows(backend, offsets, pairs[:, 1].astype(np.int32), encode=encode, page_bits=5)


def swapped(edges: Edges) -> Edges:
    return {(dst, src) for src, dst in edges}


def draw(rng: np.random.Generator, count: int) -> Edges:
    pairs = (rng.random((count, 2)) ** 2 * NUM_VERTICES).astype(int)
    return set(map(tuple, pairs.tolist()))


def columns(edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(list(edges), np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def check(graph: PagedGraph, model: Edges) -> None:
    """Compare with the answers of a graph of the model's edges."""
    to_host = graph.backend.to_host
    assert graph.number_of_edges() == len(model)
    every = columns({(src, dst) for src in range(0, NUM_VERTICES, 3) for dst in range(0, NUM_VERTICES, 5)})
    wanted = [pair in model for pair in zip(*(column.tolist() for column in every), strict=True)]
    assert to_host(graph.has_edges(*every)).tolist() == wanted
    G = dynstore.DynamicGraph(device="cpu")
    G.insert_edges(columns(model))
    G.insert_vertices([NUM_VERTICES - 1])
    frame = dynstore.bfs(G, 2)
    distances, predecessors = graph.bfs(2, predecessors=True)
    assert to_host(distances).tolist() == frame["distance"].tolist()
    assert predecessors is not None
    assert to_host(predecessors).tolist() == frame["predecessor"].tolist()
    labels = dynstore.weakly_connected_components(G)["labels"]
    assert to_host(graph.weakly_connected_components()).tolist() == labels.tolist()
    ranks, _ = dynstore.pagerank(G, max_iter=2, tol=0.0, fail_on_nonconvergence=False)
    got = to_host(graph.pagerank(max_iter=2, tol=0.0)[0])
    np.testing.assert_allclose(got, ranks["pagerank"], rtol=2e-5)


@pytest.mark.parametrize("symmetric", [False, True])
def test_changes_are_those_of_a_model(backend: Backend, symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator makes one round of few updates, the host several."""
    rng, size = np.random.default_rng(9), 300 if backend.family == "cpu" else 60
    model = draw(rng, 5 * size)
    if symmetric:
        model |= swapped(model)
    into = None if symmetric else pack(backend, swapped(model))
    graph = PagedGraph(pack(backend, model), into, "zero-copy")
    for round_ in range(5 if backend.family == "cpu" else 1):
        gone, come = draw(rng, size), draw(rng, size)
        back = set(sorted(gone & model)[:20])  # from the pages and to them again
        for update, edges in (
            ("delete_edges", gone),
            ("insert_edges", come | back),
            ("delete_edges", draw(rng, size // 5)),
        ):
            entries = edges | swapped(edges) if symmetric else edges
            count = getattr(graph, update)(*columns(edges))
            after = model - entries if update == "delete_edges" else model | entries
            assert count == len(model ^ after)
            model = after
        if backend.family == "cpu":
            check(graph, model)
        if round_ % 2 == 0:
            assert graph.number_of_changes() > 0
            monkeypatch.setattr(building, "PIECE_LEAVES", 32)
            monkeypatch.setattr(merging, "PIECE_LEAVES", 32)
            graph.flush()
            assert graph.number_of_changes() == 0
            out = graph.reader().packed
            assert graph.backend.to_host(decode_rows(out)).tolist() == [dst for _, dst in sorted(model)]
            assert graph.backend.to_host(out.offsets)[-1] == len(model)
            if not symmetric:
                into = graph.reader("into").packed
                assert graph.backend.to_host(decode_rows(into)).tolist() == [src for _, src in sorted(swapped(model))]
    if backend.family == "cuda":
        more = draw(rng, 12)
        graph.insert_edges(*columns(more))
        check(graph, model | more | (swapped(more) if symmetric else set()))


def test_all_edges_may_go_and_come() -> None:
    model = draw(np.random.default_rng(1), 400)
    graph = PagedGraph(pack(get_backend("cpu"), model, False), pack(get_backend("cpu"), swapped(model), False))
    assert graph.delete_edges(*columns(model)) == len(model)
    check(graph, set())
    graph.flush()
    assert graph.reader().packed.num_pages == 0
    check(graph, set())
    assert graph.insert_edges(*columns(model)) == len(model) == graph.number_of_changes()
    assert graph.insert_edges([], []) == 0
    graph.flush()
    check(graph, model)
    assert not graph.reader().packed.is_encoded


def state_of(graph: PagedGraph) -> list[object]:
    sides = [graph._sides[kind] for kind in ("out", "into")]
    arrays = [array for side in sides for array in (side.valid, side.degrees, side.packed.words)]
    snapshot = graph._delta.snapshot()
    return [
        graph.number_of_edges(),
        *(graph.backend.to_host(array).tolist() for array in (*arrays, snapshot.indices, snapshot.valid)),
    ]


@pytest.mark.parametrize("method", ["insert_edges", "delete_edges", "flush"])
@pytest.mark.parametrize("kind", ["empty", "xp"])
def test_nothing_changes_when_memory_runs_out(monkeypatch: pytest.MonkeyPatch, method: str, kind: str) -> None:
    model = draw(np.random.default_rng(1), 400)
    graph = PagedGraph(pack(get_backend("cpu"), model), pack(get_backend("cpu"), swapped(model)))
    graph.insert_edges([1, 2, 3, 60], [69, 69, 69, 69])
    src, dst = columns(set(sorted(model)[::7]) | {(2, 69), (61, 68)})
    graph.delete_edges(src[:20], dst[:20])
    before, backend = state_of(graph), graph.backend
    whole, failing = getattr(backend, kind), FailingEmpty if kind == "empty" else FailingModule
    for number in range(300):
        faulty = failing(whole, number)
        monkeypatch.setattr(backend, kind, faulty)
        try:
            graph.flush() if method == "flush" else getattr(graph, method)(src, dst)
        except MemoryError:
            monkeypatch.undo()
            assert state_of(graph) == before
        else:
            break
    monkeypatch.undo()
    assert 1 < faulty.calls <= number
    assert state_of(graph) != before


def test_nothing_changes_when_a_kernel_is_missing(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend.family == "cpu":
        pytest.skip("kernels of the host are not loaded one by one")
    from dynstore.cuda.compiler import Kernel

    model = {(0, 1), (0, 2), (5, 1)}
    graph = PagedGraph(pack(backend, model), pack(backend, swapped(model)))
    before = state_of(graph)
    for number in range(100):
        faulty = FailingFind(Kernel._find, number)
        monkeypatch.setattr(Kernel, "_find", faulty)
        try:
            graph.delete_edges([0, 7], [1, 7])
        except OutOfMemoryError:
            monkeypatch.undo()
            assert state_of(graph) == before
        else:
            break
    monkeypatch.undo()
    assert faulty.calls > 3
    assert graph.number_of_edges() == 2


def test_it_says_what_it_holds_and_where() -> None:
    model = draw(np.random.default_rng(1), 3000)
    graph = PagedGraph(
        pack(get_backend("cpu"), model, False), pack(get_backend("cpu"), swapped(model), False), "auto", 0.5
    )
    shown = f"PagedGraph(directed, 70 vertices, {len(model)} edges, 0 of them not in pages, device='cpu')"
    assert repr(graph) == shown
    usage, leaves = graph.memory_usage(), -(-len(model) // LEAF)
    assert usage["host"] == 2 * 128 * leaves
    assert usage["resident"] == 2 * 128 * 32 * (graph.reader().packed.num_pages // 2) > 0
    assert usage["directory"] > 2 * 16 * leaves
    assert usage["bits"] >= 2 * 4 * leaves
    assert usage["degrees"] == 2 * 8 * 70
    assert usage["delta"] == graph._delta.memory_usage()["total"] > 0


def test_a_refused_update_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = draw(np.random.default_rng(1), 400)
    graph = PagedGraph(pack(get_backend("cpu"), model), pack(get_backend("cpu"), swapped(model)))
    src, dst = columns(model)
    for got, message in (
        (([1], [NUM_VERTICES]), "insert_edges: dst has ids from 70 to 70; wanted 0 to 69"),
        (([-1], [0]), "insert_edges: src has ids from -1 to -1; wanted 0 to 69"),
        (([1, 2], [0]), r"insert_edges: src has shape \(2,\), dst \(1,\); wanted columns of equal length"),
    ):
        with pytest.raises(InputError, match=message):
            graph.insert_edges(*got)

    def run_out(*_: Any) -> None:
        raise OutOfMemoryError("no more")

    monkeypatch.setattr(graph._delta, "delete_edges", run_out)
    with pytest.raises(OutOfMemoryError):
        graph.delete_edges(src[:50], dst[:50])
    monkeypatch.undo()
    check(graph, model)
    with pytest.raises(InputError, match=r"PagedGraph: `into` has 0 edges of 70 vertices; wanted \d+ of 70"):
        PagedGraph(graph.reader().packed, pack(get_backend("cpu"), set()))
