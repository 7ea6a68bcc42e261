"""Algorithms over pages give the answers of those over the graph, whichever way the pages come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import LinkTraffic, PageReader, bfs, pagerank, passes, weakly_connected_components
from dynstore.backend import Backend, get_backend
from dynstore.bits import pack_bits
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.layout import PagedRows
from dynstore.stores.paged.links import Links
from dynstore.stores.paged.memory import BufferRing
from dynstore.stores.paged.resident import ResidentPages
from dynstore.typing import Device
from tests.algorithms.paged.mixtures import keep
from tests.conftest import DEVICES
from tests.crossed import crossed

# Reading in place costs nothing, or much.
FAST, SLOW = Links(1.0, 1e9), Links(1e9, 1.0)
MAX_ITER = 3


def make_graph(device: Device, directed: bool, num_vertices: int = 60, num_edges: int | None = None) -> Any:
    """Make a graph with a hub, a path that leaves it, and vertices without edges."""
    num_edges = num_edges or (600 if device == "cuda-sim" else 1500)
    rng = np.random.default_rng(4)
    src = (rng.random(num_edges) ** 3 * num_vertices).astype(np.int64)
    dst = rng.integers(0, num_vertices, num_edges)
    path = np.arange(num_vertices, num_vertices + 4)
    G = dynstore.DynamicGraph(device=device, directed=directed)
    G.insert_edges((np.concatenate([src, [3], path[:-1]]), np.concatenate([dst, [num_vertices], path[1:]])))
    G.insert_vertices([num_vertices + 8])
    return G


def pack(G: Any, transposed: bool = False, encode: bool = True) -> PagedRows:
    rows = G.snapshot(transposed=transposed).compact()
    return pack_rows(G.core.backend, rows.offsets, rows.indices, encode=encode, page_bits=5)


@pytest.mark.parametrize(
    ("encode", "way", "share", "links"),
    [
        (True, "stream", 1, None),
        (False, "zero-copy", 0, None),
        (True, "auto", 0, FAST),
    ],
)
@pytest.mark.parametrize("directed", [True, False])
def test_answers_are_those_of_the_graph(
    backend_name: Device, directed: bool, encode: bool, way: str, share: float, links: Links | None
) -> None:
    G = make_graph(backend_name, directed)
    to_host = G.core.backend.to_host
    rows = pack(G, encode=encode)
    out = PageReader(rows, way, keep(rows, share), links)
    wanted = dynstore.bfs(G, [3, 7])
    distances, predecessors = bfs(out, [3, 7], symmetric=not directed, predecessors=True)
    assert to_host(distances).tolist() == wanted["distance"].to_numpy().tolist()
    assert to_host(predecessors).tolist() == wanted["predecessor"].to_numpy().tolist()
    labels = weakly_connected_components(out)
    assert to_host(labels).tolist() == dynstore.weakly_connected_components(G)["labels"].to_numpy().tolist()
    rows = pack(G, True, encode)
    into = PageReader(rows, way, keep(rows, share), links)
    degrees = np.diff(to_host(G.snapshot().compact().offsets))
    ranks, iterations, _ = pagerank(into, degrees, max_iter=MAX_ITER, tol=0.0)
    frame, _ = dynstore.pagerank(G, max_iter=MAX_ITER, tol=0.0, fail_on_nonconvergence=False)
    assert iterations == MAX_ITER
    np.testing.assert_allclose(to_host(ranks), frame["pagerank"].to_numpy(), rtol=2e-5)
    sizes = rows.page_bytes()
    held = int(share * sizes.size)
    assert into.traffic.passes == MAX_ITER
    if way == "zero-copy":
        assert into.traffic.direct_bytes == MAX_ITER * sizes.sum()
        assert into.traffic.copied_bytes == into.traffic.resident_pages == 0
    else:  # nothing is left out, so copying is never the dearer way
        assert into.traffic.direct_bytes == 0
        assert into.traffic.copied_bytes == into.traffic.link_bytes
        assert into.traffic.copied_bytes == MAX_ITER * sizes.sum() - (MAX_ITER - 1) * sizes[:held].sum()
        assert into.traffic.resident_pages == (MAX_ITER - 1) * held


def test_ranks_converge_without_passes_in_vain(backend_name: Device) -> None:
    G = make_graph(backend_name, True, 12, 60)
    into = PageReader(pack(G, True))
    degrees = np.diff(G.core.backend.to_host(G.snapshot().compact().offsets))
    ranks, iterations, error = pagerank(into, degrees, tol=0.03)
    assert error < 0.03
    assert 1 < iterations == into.traffic.passes
    assert float(ranks.sum()) == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match=r"pagerank: got 3 out_degrees; wanted 21"):
        pagerank(into, degrees[:3])


@pytest.mark.parametrize("links", [FAST, SLOW])
def test_the_cheaper_way_is_taken(links: Links) -> None:
    G = make_graph("cpu", True)
    reader = PageReader(pack(G), "auto", links=links)
    bfs(reader, 3)
    traffic = reader.traffic
    assert (traffic.direct_requests > 0) == (links is FAST)
    assert (traffic.copied_pages == 0) == (links is FAST)
    assert traffic.direct_bytes >= 32 * traffic.direct_requests / 4


def test_a_search_reads_only_what_it_needs() -> None:
    G = dynstore.DynamicGraph(device="cpu")
    far = np.arange(10, 4010)
    G.insert_edges((np.concatenate([[0, 1], np.repeat([4, 5], 4000)]), np.concatenate([[1, 2], far, far])))
    reader = PageReader(pack(G), "zero-copy")
    distances, predecessors = bfs(reader, 0)
    assert predecessors is None
    assert distances[:5].tolist() == [0, 1, 2, 2**31 - 1, 2**31 - 1]
    assert reader.packed.num_leaves > 200
    assert reader.traffic.direct_requests == 2  # one leaf, by two levels
    near, _ = bfs(reader, 0, depth_limit=1)
    assert near[:3].tolist() == [0, 1, 2**31 - 1]


def test_most_rows_of_a_symmetric_graph_need_one_leaf() -> None:
    """All vertices are neighbours of a hub with the smallest id, so a search from it pulls only first leaves."""
    num_vertices = 1500
    rng = np.random.default_rng(2)
    G = dynstore.DynamicGraph(device="cpu", directed=False)
    hub = np.arange(1, num_vertices)
    G.insert_edges((np.concatenate([hub, rng.integers(1, num_vertices, 60_000)]),
                    np.concatenate([hub * 0, rng.integers(1, num_vertices, 60_000)])))  # fmt: skip
    reader = PageReader(pack(G, encode=False), "zero-copy")
    distances, _ = bfs(reader, 7, symmetric=True)
    assert distances.tolist() == dynstore.bfs(G, 7)["distance"].tolist()
    pulled = reader.traffic.direct_requests
    reader.traffic = LinkTraffic()
    bfs(reader, 7)
    assert pulled < 0.6 * reader.traffic.direct_requests


def test_a_search_pulls_over_in_edges_beside_their_pages(backend_name: Device) -> None:
    """The two orientations write pages at times of their own."""
    count = 200 if backend_name == "cpu" else 40
    G = dynstore.DynamicGraph(
        store="paged", delta_edges=8, delta_share=0.0, page_bits=5, device=backend_name, frames="pandas"
    )
    leaves = np.arange(1, count)
    G.insert_edges((np.append(leaves * 0, leaves), np.append(leaves, leaves * 0)))
    G.insert_edges((np.arange(count + 10, count + 15), np.zeros(5, int)))
    G.predecessors(0)  # all in-edges lie in pages now, five out-edges beside them
    G.insert_edges(([5, 6, 7, count], [count, count + 1, count + 1, count + 2]))
    assert G.core.into is not None
    assert [store.statistics()["delta_edges"] for store in (G.core.out, G.core.into)] == [0, 4]
    found = dynstore.bfs(G, 0)
    assert found["distance"].tolist()[count : count + 3] == [2, 2, 3]
    assert found["predecessor"].tolist()[count : count + 3] == [5, 6, count]


def test_a_search_of_a_directed_graph_pulls_over_in_edges(backend_name: Device) -> None:
    """A hub reaches most in one step; the others' first in-edges are fewer than the out-edges of all those."""
    num_vertices, num_edges = (1500, 60_000) if backend_name == "cpu" else (150, 3000)
    rng = np.random.default_rng(2)
    G = dynstore.DynamicGraph(device=backend_name)
    hub = np.arange(1, num_vertices * 9 // 10)
    G.insert_edges((np.concatenate([hub * 0, rng.integers(1, num_vertices, num_edges)]),
                    np.concatenate([hub, rng.integers(1, num_vertices, num_edges)])))  # fmt: skip
    out, into = (PageReader(pack(G, transposed, encode=False), "zero-copy") for transposed in (False, True))
    wanted = dynstore.bfs(G, 0)
    distances, predecessors = bfs(out, 0, into=into, predecessors=True)
    assert G.core.backend.to_host(distances).tolist() == wanted["distance"].to_numpy().tolist()
    assert G.core.backend.to_host(predecessors).tolist() == wanted["predecessor"].to_numpy().tolist()
    out.traffic, into.traffic = LinkTraffic(), LinkTraffic()
    bfs(out, 0, into=into)
    pulled = out.traffic.direct_requests + into.traffic.direct_requests
    assert into.traffic.direct_requests > 0
    out.traffic = LinkTraffic()
    bfs(out, 0)
    assert pulled < 0.6 * out.traffic.direct_requests


@crossed(backend_name=DEVICES, seed=range(2), directed=[True, False])
def test_parents_are_the_smallest_wherever_they_lie(backend_name: Device, seed: int, directed: bool) -> None:
    """Rows of four leaves: only non-reachable vertices in the first, parents in the others, some in the delta."""
    backend, rng, num_vertices = get_backend(backend_name), np.random.default_rng(seed), 260
    edges = np.zeros((num_vertices, num_vertices), bool)
    edges[259, 95:200] = True
    edges[:200, 200:259] = rng.random((200, 59)) < 0.5
    edges[200:259, rng.choice(95, 3)] = True
    edges = edges if directed else edges | edges.T
    in_pages, is_live = rng.random(edges.shape) < 0.9, rng.random(edges.shape) < 0.9
    if not directed:
        in_pages, is_live = in_pages | in_pages.T, is_live | is_live.T
    delta = dynstore.DynamicGraph(device=backend_name)
    delta.insert_vertices([num_vertices - 1])
    delta.insert_edges(np.nonzero(edges & ~in_pages))

    def read(turned: bool) -> PageReader:
        there, live = (matrix.T if turned else matrix for matrix in (edges & in_pages, is_live))
        packed = pack_rows(
            backend, np.cumsum([0, *there.sum(axis=1)]), np.nonzero(there)[1].astype(np.int32), page_bits=5
        )
        bits = backend.asarray(pack_bits(backend, backend.asarray(live[there])))
        return PageReader(packed, "auto", links=FAST, valid=bits, extra=delta.snapshot(transposed=turned))

    edges_left = edges & (is_live | ~in_pages)
    starts = np.array([259])
    levels = np.full(num_vertices, 2**31 - 1)
    levels[starts] = 0
    parents, depth, frontier = np.full(num_vertices, -1), 0, np.isin(np.arange(num_vertices), starts)
    while frontier.any():
        found = edges_left[frontier].any(axis=0) & (levels == 2**31 - 1)
        parents[found] = (edges_left & frontier[:, None]).argmax(axis=0)[found]
        levels[found] = depth = depth + 1
        frontier = found
    out, back = read(False), read(True)
    for into in (None, back):
        got = bfs(out, starts, symmetric=not directed, predecessors=True, into=into)
        assert [backend.to_host(array).tolist() for array in got] == [levels.tolist(), parents.tolist()]
    assert (back.traffic.direct_requests > 0) == directed


def test_neighbouring_pages_share_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    G = make_graph("cpu", True, 400, 9000)
    packed = pack(G, encode=False)
    page = 32 * 128
    monkeypatch.setattr(passes, "BUFFER_BYTES", 3 * page)
    reader = PageReader(packed, "stream")
    found: list[list[int]] = []
    reader.visit(lambda piece: found.append(piece.pages.tolist()))
    assert found == [list(range(first, min(first + 3, packed.num_pages))) for first in range(0, packed.num_pages, 3)]
    wanted = np.array([1, 0, 1, 1, 1, 1, 0, 1] + [0] * (packed.num_pages - 8))
    found.clear()
    reader.visit(lambda piece: found.append(piece.pages.tolist()), wanted)
    assert found == [[0], [2, 3, 4], [5], [7]]


def test_copied_pages_stay_for_all_readers_until_there_is_no_room(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "BUFFER_BYTES", 3 * 32 * 128)
    rng = np.random.default_rng(7)
    rows = [np.sort(rng.choice(500, 120, replace=False)) for _ in range(60)]
    offsets = np.concatenate([np.cumsum([0, *map(len, rows)]), np.full(440, 7200)])
    weights = rng.random(7200).astype(np.float32)
    packed = pack_rows(backend, offsets, np.concatenate(rows).astype(np.int32), page_bits=5, weights=weights)
    sizes = packed.page_bytes()
    both = sizes + packed.weight_bytes()
    limits = [int(sizes[[0, 2, 3, 5]].sum() + sizes[6] // 2), int(both[:3].sum() + 400)]
    resident = ResidentPages(lambda: limits.pop(0))

    def launch(piece: passes.Piece) -> None:
        pages = backend.to_host(piece.pages).tolist()
        for page in pages:
            first, there = int(piece.places[page]) - piece.shift, int(packed.places_on_host[page])
            words = backend.to_host(piece.words)[first : first + int(sizes[page]) // 4]
            assert words.tolist() == packed.words_on_host[there : there + int(sizes[page]) // 4].tolist()

    def traffic_of(wanted: Any, weighted: bool = False) -> tuple[int, int]:
        reader = PageReader(packed, "stream", resident)
        reader.visit(launch, wanted, weighted)
        return reader.traffic.resident_pages, reader.traffic.copied_pages

    assert packed.num_pages == 8
    assert resident.nbytes == 0
    assert traffic_of(np.array([1, 0, 1, 1, 0, 0, 0, 0])) == (0, 3)
    assert traffic_of(np.array([1, 0, 1, 0, 0, 0, 0, 0])) == (2, 0)
    assert traffic_of(np.array([0, 0, 0, 1, 0, 1, 1, 1])) == (1, 3)
    assert traffic_of(None) == (4, 4)  # there was no room for 6 and 7
    assert traffic_of(None) == (4, 4)
    held = resident.nbytes
    assert 0 <= int(sizes[[0, 2, 3, 5]].sum() + sizes[6] // 2) - held < 4
    assert traffic_of(None, weighted=True) == (0, 8)  # pages with weights are others
    found = traffic_of(None, weighted=True)[0]
    assert found in (2, 3)  # words and weights have room of their own
    assert resident.nbytes - held <= both[:3].sum() + 400
    assert not limits


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_pages_that_searches_read_in_place_again_and_again_stay_while_there_is_room(share: float) -> None:
    G = make_graph("cpu", True, 150, 9000)
    packed = pack(G)
    assert packed.num_pages > 4
    resident = ResidentPages(lambda: int(share * packed.words.nbytes))
    size, distances, read = int(packed.page_bytes().sum()), dynstore.bfs(G, 3)["distance"].to_numpy(), []
    for _ in range(60):
        # Reading all lines of a page in place takes a twentieth of the time of a copy.
        reader = PageReader(packed, "auto", resident, Links(1e9, 20e9 / 128))
        assert bfs(reader, 3)[0].tolist() == distances.tolist()
        read.append((reader.traffic.direct_requests, reader.traffic.copied_pages))
    copied = sum(pages for _, pages in read)
    assert read[0][0] > 0
    assert read[0][1] <= 1  # hardly any was read for long
    assert read[-1] == read[-2]
    if share == 0:
        assert copied == 0
        assert resident.nbytes == 0
    elif share == 1:
        assert read[-1] == (0, 0)  # all that searches read is there
        assert 0 < copied <= packed.num_pages
    else:
        assert 0 < resident.nbytes <= 0.4 * size + 4
        assert 0 < read[-1][0] < read[0][0]
        assert read[-1][1] == 0


def test_without_room_on_the_device_no_page_stays(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    G = make_graph("cpu", True)
    rows = G.snapshot().compact()
    packed = pack_rows(backend, rows.offsets, rows.indices, page_bits=5)
    reader = PageReader(packed, "stream", ResidentPages(lambda: 1 << 40))
    labels = backend.to_host(weakly_connected_components(reader)).tolist()
    empty = backend.empty

    def refuse(shape: Any, dtype: Any) -> Any:
        if shape == int(packed.words.shape[0]):
            raise OutOfMemoryError("no room")
        return empty(shape, dtype)

    resident = ResidentPages(lambda: 1 << 40)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "empty", refuse)
        for _ in range(2):
            reader = PageReader(packed, "stream", resident)
            assert backend.to_host(weakly_connected_components(reader)).tolist() == labels
            assert reader.traffic.resident_pages == resident.nbytes == 0


def test_threads_may_add_pages_at_the_same_time() -> None:
    G = make_graph("cpu", True, 400, 20_000)
    packed = pack(G)
    resident = keep(packed, 0.7)
    wanted = weakly_connected_components(PageReader(packed)).tolist()

    def label(_: int) -> list[int]:
        found: list[int] = weakly_connected_components(PageReader(packed, "stream", resident)).tolist()
        return found

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(label, range(12))) == [wanted] * 12
    assert resident.nbytes <= packed.page_bytes().sum()


def test_buffers_are_filled_in_turn(backend: Backend) -> None:
    words = np.arange(40, dtype=np.uint32)
    ring = BufferRing(backend, 8, 3)
    for _ in range(2):
        spans = [(5 * part, 5 * part + 5) for part in range(8)]
        parts = [(words[first:end],) for first, end in spans]
        seen = [backend.to_host(copy).tolist() for (copy,) in ring.bring(parts)]
        assert seen == [words[first:end].tolist() for first, end in spans]


def test_arrays_of_several_dtypes_share_a_buffer(backend: Backend) -> None:
    words, weights = np.arange(40, dtype=np.uint32), np.arange(40) / 3
    parts = [(words[first : first + 5], weights[first : first + 7]) for first in range(0, 30, 5)]
    for part, copies in zip(parts, BufferRing(backend, 2 * passes.PADDING, 3).bring(parts), strict=True):
        assert [backend.to_host(copy).tolist() for copy in copies] == [array.tolist() for array in part]


def test_lines_are_read_in_runs(backend: Backend) -> None:
    read_lines = backend.kernels("dynstore.stores.paged").read_lines
    words, total = backend.zeros(64 * 32 + 5, np.uint32), backend.zeros(1, np.uint32)
    found = []
    for line in range(64):
        words[32 * line + 7] = 4
        total.fill(0)
        read_lines(words, 3, 5, 3, total)
        words[32 * line + 7] = 0
        if int(total[0]):
            found.append(line)
    assert found == [begin + step for begin in (0, 21, 42) for step in (0, 3, 6, 9, 12)]


def test_a_graph_without_edges() -> None:
    backend = get_backend("cpu")
    reader = PageReader(pack_rows(backend, np.zeros(4, np.int64), np.empty(0, np.int32)))
    assert bfs(reader, 1, predecessors=True)[0].tolist() == [2**31 - 1, 0, 2**31 - 1]
    assert weakly_connected_components(reader).tolist() == [0, 1, 2]
    assert pagerank(reader, np.zeros(3))[0].tolist() == pytest.approx([1 / 3] * 3)
    none = PageReader(pack_rows(backend, np.zeros(1, np.int64), np.empty(0, np.int32)))
    assert pagerank(none, np.zeros(0))[0].shape == (0,)


def test_wrong_calls_are_refused() -> None:
    packed = pack_rows(get_backend("cpu"), np.array([0, 1, 1]), np.array([1], np.int32))
    with pytest.raises(InputError, match="PageReader: unknown way 'copy'; known: 'auto', 'stream', 'zero-copy'"):
        PageReader(packed, "copy")
    other = pack_rows(get_backend("cpu"), np.array([0, 1]), np.array([0], np.int32))
    with pytest.raises(InputError, match="bfs: in-edges of 1 vertices; wanted 2, as of `out`"):
        bfs(PageReader(packed), 0, into=PageReader(other))
    for start in (2, -1, []):
        with pytest.raises(InputError, match=r"bfs: start is .*; wanted row numbers below 2"):
            bfs(PageReader(packed), start)
