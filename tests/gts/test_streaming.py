"""Which pages are sent, how often, and from where; kernels of the users' own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore import DynamicGraph, gts
from dynstore.backend import get_backend
from dynstore.errors import InputError, InputTypeError, OutOfMemoryError
from dynstore.gts.groups import list_groups
from dynstore.gts.page_cache import PageCache
from dynstore.gts.streaming import Settings, Streamer
from tests.gts.kernels import kernels_of


@pytest.fixture(scope="module")
def topology() -> gts.PagedTopology:
    """Ten pages of both kinds: a path through 40 vertices, of which vertex 12 has edges to all others."""
    src, dst = np.arange(39), np.arange(1, 40)
    graph = DynamicGraph(directed=False, device="cpu")
    graph.insert_edges((np.append(src, np.full(40, 12)), np.append(dst, np.arange(40))))
    made = gts.build(graph, page_bytes=120)
    assert (made.num_small, made.num_large) == (9, 2)
    return made


def listed(pids: list[int], ranges: list[int], most: int, borders: tuple[int, ...] = ()) -> list[tuple[int, int, bool]]:
    return [tuple(group) for group in list_groups(np.array(pids, dtype=np.int64), np.array(ranges), most, borders)]


def test_groups_are_neighbours_of_one_kind() -> None:
    ranges = [-1, -1, 1, 0, -1, -1, -1, -1]
    everything = list(range(8))
    assert listed(everything, ranges, 9) == [(0, 2, False), (4, 4, False), (2, 2, True)]
    assert listed(everything, ranges, 3) == [(0, 2, False), (4, 3, False), (7, 1, False), (2, 2, True)]
    assert listed(everything, ranges, 9, (1, 6)) == [
        (0, 1, False), (1, 1, False), (4, 2, False), (6, 2, False), (2, 2, True),
    ]  # fmt: skip
    assert listed([0, 3, 5, 6], ranges, 9) == [(0, 1, False), (5, 2, False), (3, 1, True)]
    assert listed([], ranges, 9) == []


def test_the_page_that_was_not_used_for_the_longest_time_goes() -> None:
    cache = PageCache(2)
    assert (cache.find(7), cache.place(7), cache.place(8)) == (None, 0, 1)
    assert cache.find(7) == 0
    assert cache.place(9) == 1
    assert (cache.find(8), cache.find(7), cache.find(9)) == (None, 0, 1)


def ranks_of(engine: gts.GTS, iterations: int = 2) -> tuple[np.ndarray, gts.RunReport]:
    frame, _ = engine.pagerank(max_iter=iterations, tol=0, fail_on_nonconvergence=False)
    return np.array(frame["pagerank"].to_numpy()), engine.last_run


@pytest.mark.parametrize(
    ("options", "hits", "sent", "launches", "shares"),
    [
        ({}, 0, 22, 6, 40),  # the small pages before those of vertex 12, the others, the large ones
        ({"copy_bytes": 0}, 0, 22, 22, 41),  # each large page has its vertex's share
        ({"copy_bytes": 250}, 0, 22, 12, 40),
        ({"cache_pages": 4}, 8, 14, 8, 41),  # one of the large pages is resident
        ({"cache_pages": 99}, 22, 0, 6, 40),
        ({"cache_pages": 4, "cache": "lru"}, 0, 22, 22, 41),  # all pages in turn: what is needed has just gone
        ({"cache_pages": 11, "cache": "lru"}, 11, 11, 22, 41),
    ],
)
def test_what_pagerank_sends(
    topology: gts.PagedTopology, options: dict[str, Any], hits: int, sent: int, launches: int, shares: int
) -> None:
    expected, _ = ranks_of(gts.GTS(topology, device="cpu", streams=1))
    found, report = ranks_of(gts.GTS(topology, device="cpu", **options))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (report.passes, report.pages, report.hits, report.launches) == (2, 22, hits, launches)
    assert report.page_bytes == sent * 120
    assert (report.fetched_bytes, report.sent_bytes) == (2 * 4 * 40, 2 * 4 * shares)
    assert report.seconds > 0


def test_attributes_can_stay_on_the_device(topology: gts.PagedTopology, backend_name: str) -> None:
    expected, _ = ranks_of(gts.GTS(topology, device="cpu"))
    engine = gts.GTS(topology, device=backend_name, attributes="resident", copy_bytes=250)
    found, report = ranks_of(engine)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (report.sent_bytes, report.fetched_bytes, report.page_bytes) == (0, 0, 22 * 120)
    shown = np.arange(40, dtype=np.int32)
    (degrees,) = engine.run(
        *kernels_of(engine.backend.family)[0], "pagerank", written=[np.zeros(40, np.int32)], read=[shown]
    )
    np.testing.assert_array_equal(degrees - shown, topology.degrees + (np.arange(40) == 12) * 12)


def test_a_search_sends_the_pages_of_its_frontier_alone(topology: gts.PagedTopology) -> None:
    path = gts.build(([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]), page_bytes=32)
    engine = gts.GTS(path, device="cpu")
    assert engine.bfs(0)["distance"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (engine.last_run.passes, engine.last_run.pages) == (7, 7)
    cached = gts.GTS(path, device="cpu", cache="lru", cache_pages=2)
    cached.bfs(0)
    assert (cached.last_run.pages, cached.last_run.hits) == (7, 3)  # two vertices a page
    star = gts.GTS(topology, device="cpu")
    star.bfs(12, depth_limit=1)
    assert (star.last_run.passes, star.last_run.pages) == (1, 2)  # both large pages of the start vertex
    star.bfs(11, depth_limit=2)
    assert star.last_run.pages > 3  # of level 1: both large pages of vertex 12, and those of 10


@pytest.mark.parametrize("host_bytes", [None, 0, 360])
def test_pages_on_disk(topology: gts.PagedTopology, tmp_path: Path, backend_name: str, host_bytes: int | None) -> None:
    topology.save(tmp_path / "pages")
    engine = gts.GTS(
        gts.open_topology(tmp_path / "pages"), device=backend_name, cache_pages=2, copy_bytes=480, host_bytes=host_bytes
    )
    found, report = ranks_of(engine)
    np.testing.assert_allclose(found, ranks_of(gts.GTS(topology, device="cpu"))[0], rtol=1e-5)
    assert (report.pages, report.hits) == (22, 4)


def test_the_zones_of_pages(topology: gts.PagedTopology, tmp_path: Path) -> None:
    topology.save(tmp_path / "pages")
    settings = Settings(2, 3, "fixed", 8 << 20, 4 * 120, "edge", "streamed")
    streamer = Streamer(gts.open_topology(tmp_path / "pages"), get_backend("cpu"), settings)
    assert (streamer._num_resident, streamer._num_held) == (3, 7)
    np.testing.assert_array_equal(streamer._resident, topology.units[:3])
    np.testing.assert_array_equal(streamer._held, topology.units[3:7])


def test_memory_on_the_device(topology: gts.PagedTopology) -> None:
    """Buffers, cached pages and the RVT: not the topology."""
    rvt = 8 * (12 + 11 + 4)
    assert gts.GTS(topology, device="cpu", streams=2, copy_bytes=0).device_bytes == 2 * 120 + rvt
    assert gts.GTS(topology, device="cpu", streams=1, copy_bytes=240, cache_pages=3).device_bytes == 5 * 120 + rvt
    cached = gts.GTS(topology, device="cpu", streams=1, copy_bytes=240, cache_pages=3, cache="lru")
    assert cached.device_bytes == 4 * 120 + rvt


@pytest.mark.parametrize(("technique", "lanes"), [("edge", {32}), ("vertex", {1}), ("hybrid", {2})])
def test_lanes(topology: gts.PagedTopology, technique: str, lanes: set[int]) -> None:
    """Vertices of small pages have two or three neighbours."""
    seen = []

    def note(words, first, count, lanes, *_):
        seen.append((lanes, topology.ranges[first] >= 0))

    engine = gts.GTS(topology, device="cpu", technique=technique, copy_bytes=0)
    engine.run(note, note, "pagerank", written=[])
    assert {each for each, is_large in seen if not is_large} == lanes
    assert {each for each, is_large in seen if is_large} == {32}


@pytest.mark.parametrize("copy_bytes", [0, 1000])
def test_kernels_of_ones_own(topology: gts.PagedTopology, backend_name: str, copy_bytes: int) -> None:
    engine = gts.GTS(topology, device=backend_name, copy_bytes=copy_bytes)
    (counting, peeling) = kernels_of(engine.backend.family)
    shown = np.arange(40, dtype=np.int32) * 100
    (degrees,) = engine.run(*counting, "pagerank", written=[np.zeros(40, np.int32)], read=[shown])
    # Vertex 12 has two pages, and what is shown is added once a page.
    np.testing.assert_array_equal(degrees - shown, topology.degrees + (np.arange(40) == 12) * 1200)
    assert engine.last_run.fetched_bytes == 4 * 40
    assert engine.last_run.sent_bytes == 4 * 40 + 4 * (41 if copy_bytes == 0 else 40)

    degrees, k = topology.degrees.copy(), 3
    turns = np.where(degrees < k, 0, -1).astype(np.int32)
    start = np.flatnonzero(turns == 0)
    left, turns = engine.run(*peeling, "bfs", written=[degrees, turns], arguments=[k], start=start)
    offsets, indices, _ = topology.rows()
    edges = zip(np.repeat(np.arange(40), np.diff(offsets)).tolist(), indices.tolist(), strict=True)
    graph = nx.Graph([(a, b) for a, b in edges if a != b])
    assert set(np.flatnonzero(turns < 0).tolist()) - {12} == set(nx.k_core(graph, k)) - {12}
    assert degrees.tolist() == topology.degrees.tolist()  # what was passed in is as it was
    assert left.tolist() != degrees.tolist()


def test_levels_can_be_limited(topology: gts.PagedTopology) -> None:
    engine = gts.GTS(topology, device="cpu")
    _, (small, large) = kernels_of("cpu")
    written = [topology.degrees, np.where(topology.degrees < 3, 0, -1).astype(np.int32)]
    engine.run(small, large, "bfs", written=written, arguments=[3], start=0, max_levels=1)
    assert engine.last_run.passes == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "dfs"}, InputError, "run: unknown kind 'dfs'; known: 'bfs', 'pagerank'"),
        ({"kind": "bfs"}, InputTypeError, "run: got no start with kind='bfs'"),
        ({"kind": "pagerank", "start": 0}, InputTypeError, "run: got a start with kind='pagerank'"),
        ({"kind": "bfs", "start": 40}, InputError, "run: start has 40; the topology has 40 vertices"),
        ({"kind": "pagerank", "small": None}, InputTypeError, "run: small is a NoneType; wanted a function"),
        ({"kind": "pagerank", "large": 3}, InputTypeError, "run: large is a int; wanted a function"),
        ({"kind": "pagerank", "written": None}, InputTypeError, "run: written is a NoneType; wanted a list or a tuple"),
        ({"kind": "pagerank", "written": np.zeros(40)}, InputTypeError, "written is a numpy.ndarray; wanted a list"),
        ({"kind": "pagerank", "read": 3}, InputTypeError, "run: read is a int; wanted a list or a tuple"),
        ({"kind": "pagerank", "arguments": 3}, InputTypeError, "run: arguments is a int; wanted a list or a tuple"),
        ({"kind": "pagerank", "read": [np.zeros(3)]}, InputError, r"run: read\[0\] has the shape \(3,\); wanted \(40,"),
    ],
)
def test_wrong_runs(topology: gts.PagedTopology, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gts.GTS(topology, device="cpu").run(**{"small": print, "large": print, "written": [], **options})


def test_a_page_that_did_not_arrive_is_not_in_the_cache(
    topology: gts.PagedTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = gts.GTS(topology, device="cpu", cache="lru", cache_pages=11)
    expected = engine.bfs(3)
    cold = gts.GTS(topology, device="cpu", cache="lru", cache_pages=11)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cold._streamer.link, "send", fail)
    with pytest.raises(KeyboardInterrupt):
        cold.bfs(3)
    monkeypatch.undo()
    assert cold.bfs(3).equals(expected)
    assert engine.bfs(3).equals(expected)
    assert engine.last_run.hits == engine.last_run.pages


def test_memory_is_refused_in_turn(topology: gts.PagedTopology, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each allocation of an engine and of a run fails once; then the same engine gives the same result."""
    backend = get_backend("cpu")
    allocate, calls, refused = backend.empty, 0, -1

    def refuse(shape: Any, dtype: Any) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == refused:
            raise OutOfMemoryError("refused")
        return allocate(shape, dtype)

    monkeypatch.setattr(backend, "empty", refuse)

    def count(call: Callable[[], Any]) -> int:
        nonlocal calls, refused
        calls, refused = 0, -1
        call()
        return calls

    def make() -> gts.GTS:
        return gts.GTS(topology, device="cpu", cache="lru", cache_pages=3, streams=2)

    for number in range(1, count(make) + 1):
        calls, refused = 0, number
        with pytest.raises(OutOfMemoryError):
            make()
    refused = -1
    engine = make()
    run = partial(ranks_of, engine)
    total, (expected, _) = count(run), run()
    assert total > 1
    for number in range(1, total + 1):
        calls, refused = 0, number
        with pytest.raises(OutOfMemoryError):
            run()
        refused = -1
        np.testing.assert_array_equal(run()[0], expected)
