"""Shortest paths over pages are those of the graph, whichever way the pages come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import LinkTraffic, PageReader, sssp
from dynstore.backend import Backend, get_backend
from dynstore.bits import pack_bits
from dynstore.errors import InputError, UnweightedGraphError
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.links import Links
from dynstore.typing import Device
from tests.algorithms.paged.mixtures import READINGS, mix


def whole(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw few lengths, so that paths tie."""
    return rng.integers(1, 9, count).astype(np.float32)


def fractions(rng: np.random.Generator, count: int) -> np.ndarray:
    return 0.01 + rng.random(count)


def halves(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw lengths, some of them 0."""
    return np.maximum(rng.integers(-3, 3, count), 0).astype(np.float32)


@pytest.mark.parametrize(("encode", "way", "resident", "links"), READINGS)
@pytest.mark.parametrize(("draw", "directed"), [(whole, True), (fractions, False)])
def test_paths_are_those_of_the_graph(
    backend_name: Device, draw: Any, directed: bool, encode: bool, way: str, resident: float, links: Links | None
) -> None:
    mixed = mix(backend_name, directed, draw, encode=encode)
    reader = mixed.reader(way, resident, links)
    to_host = reader.packed.backend.to_host
    for cutoff in (None, 5.0):
        wanted = dynstore.sssp(mixed.graph, 3, cutoff=cutoff)
        distances, parents = sssp(reader, 3, np.inf if cutoff is None else cutoff, predecessors=True)
        assert distances.dtype == wanted["distance"].dtype
        assert to_host(distances).tolist() == wanted["distance"].to_numpy().tolist()
        assert parents is not None
        assert to_host(parents).tolist() == wanted["predecessor"].to_numpy().tolist()
    again, none = sssp(reader, 3, 5.0)
    assert none is None
    assert to_host(again).tolist() == to_host(distances).tolist()
    traffic = reader.traffic
    assert (traffic.copied_bytes > 0) == (way != "zero-copy")
    assert (traffic.direct_requests > 0) == (way != "stream")


def test_lengths_of_0_leave_no_cycle_of_parents(backend_name: Device) -> None:
    mixed = mix(backend_name, True, halves, num_vertices=40, num_edges=160)
    reader = mixed.reader("stream", 0.0, None)
    distances, parents = (reader.packed.backend.to_host(column) for column in sssp(reader, 0, predecessors=True))
    wanted = dynstore.sssp(mixed.graph, 0)
    assert distances.tolist() == wanted["distance"].to_numpy().tolist()
    if backend_name != "cpu":  # the host's are those of Dijkstra's order
        assert parents.tolist() == wanted["predecessor"].to_numpy().tolist()
    columns = [reader.packed.backend.to_host(column).tolist() for column in mixed.graph.edge_columns().values()]
    lengths = {(u, v): w for u, v, w in zip(*columns, strict=True)}
    ties = 0
    for vertex in range(distances.shape[0]):
        if vertex == 0 or distances[vertex] == np.finfo(np.float32).max:
            assert parents[vertex] == -1
            continue
        parent = int(parents[vertex])
        assert distances[parent] + lengths[parent, vertex] == distances[vertex]
        ties += distances[parent] == distances[vertex]
        steps = 0
        while vertex != 0:
            vertex, steps = int(parents[vertex]), steps + 1
            assert steps < 60
    assert ties > 2


def test_a_round_reads_only_rows_that_have_changed() -> None:
    """A path of two edges reads one leaf twice; its weights are a second request."""
    backend, far = get_backend("cpu"), np.arange(10, 4010)
    src = np.concatenate([[0, 1], np.repeat([4, 5], 4000)])
    dst = np.concatenate([[1, 2], far, far]).astype(np.int32)
    offsets = np.searchsorted(src, np.arange(4011))
    packed = pack_rows(backend, offsets, dst, weights=np.full(8002, 2.0, np.float32), page_bits=5)
    reader = PageReader(packed, "zero-copy")
    distances, _ = sssp(reader, 0)
    assert distances[:4].tolist() == [0, 2, 4, np.finfo(np.float32).max]
    assert reader.traffic.direct_requests == 4
    reader.traffic = LinkTraffic()
    sssp(reader, 0, 3.0)
    assert reader.traffic.direct_requests == 4  # the second row is read, though its edge is too long


def test_wrong_calls_are_refused() -> None:
    backend, offsets, indices = get_backend("cpu"), np.array([0, 2, 2]), np.array([0, 1], np.int32)
    with pytest.raises(UnweightedGraphError, match="sssp: the pages have no weights; pack them with weights"):
        sssp(PageReader(pack_rows(backend, offsets, indices)), 0)
    packed = pack_rows(backend, offsets, indices, weights=np.array([-1.0, 2.0]))
    with pytest.raises(InputError, match="sssp: source is 2; wanted a row number below 2"):
        sssp(PageReader(packed), 2)
    with pytest.raises(InputError, match="sssp: the graph has negative weights; wanted weights of at least 0"):
        sssp(PageReader(packed), 0)
    gone = PageReader(packed, valid=np.array([2], np.uint32))
    assert sssp(gone, 0, predecessors=True)[0].tolist() == [0, 2]
    extra = dynstore.DynamicGraph(weighted=True, device="cpu")
    extra.insert_edges(([1], [0], [-3.0]))
    gone.extra = extra.snapshot()
    with pytest.raises(InputError, match="sssp: the graph has negative weights"):
        sssp(gone, 0)


@pytest.mark.parametrize("lengths", [[1e308] * 4, [np.inf, 1.0, -np.inf, 2.0]], ids=["sum", "infinities"])
def test_a_mean_that_is_no_number_gives_no_warning(lengths: list[float], backend: Backend) -> None:
    """Edge 2 is not there, its weight is."""
    offsets, indices = np.array([0, 4, 4, 4, 4, 4]), np.arange(1, 5, dtype=np.int32)
    packed = pack_rows(backend, offsets, indices, weights=np.array(lengths))
    there = PageReader(packed, valid=backend.asarray(np.array([0b1011], np.uint32)))
    distances = backend.to_host(sssp(there, 0)[0])
    wanted = [0, lengths[0], lengths[1], np.inf, lengths[3]]
    assert distances.tolist() == np.minimum(wanted, np.finfo(np.float64).max).tolist()


def test_a_graph_without_edges() -> None:
    packed = pack_rows(get_backend("cpu"), np.zeros(3, np.int64), np.empty(0, np.int32), weights=np.empty(0))
    distances, parents = sssp(PageReader(packed), 1, predecessors=True)
    assert distances.tolist() == [np.finfo(np.float64).max, 0]
    assert parents is not None
    assert parents.tolist() == [-1, -1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reads_of_weights_are_counted_by_sector(backend: Backend, dtype: type) -> None:
    """Of the one row that is read, only weights of edges that are there count, and one leaf has none."""
    row = np.arange(5, 205)
    there = np.random.default_rng(5).random(224) < 0.1
    there[96:128] = False
    there[200:] = False
    offsets = np.concatenate([[0], np.full(300, 200)])
    weights = np.ones(200, dtype)
    packed = pack_rows(backend, offsets, row.astype(np.int32), weights=weights, encode=False, page_bits=5)
    reader = PageReader(packed, "zero-copy", valid=backend.asarray(pack_bits(backend, backend.asarray(there))))
    sssp(reader, 0, 0.5)
    size = np.dtype(dtype).itemsize
    lines, sectors = (int(there.reshape(-1, span // size).any(axis=1).sum()) for span in (128, 32))
    assert lines < sectors < 7 * size
    assert reader.traffic.direct_requests == 7 + lines
    assert reader.traffic.direct_bytes == 32 * (7 * 4 + sectors)
