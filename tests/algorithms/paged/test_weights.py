"""Weights lie beside pages, and come with them in each way."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import PageReader, pagerank, passes, sum_out_weights
from dynstore.backend import Backend, get_backend
from dynstore.errors import InputError, UnweightedGraphError
from dynstore.stores.paged import building
from dynstore.stores.paged.building import pack_pieces, pack_rows
from dynstore.stores.paged.layout import LEAF, PagedRows
from dynstore.stores.paged.links import Links
from dynstore.typing import Device
from tests.algorithms.paged.mixtures import READINGS, keep, mix
from tests.stores.paged.searches import decode_rows

PAGE = 32 * LEAF  # slots


def pack(backend: Backend, dtype: type = np.float32, encode: bool = True) -> PagedRows:
    """Pack five pages, the last one not full."""
    rng = np.random.default_rng(3)
    rows = [np.sort(rng.choice(300, 150, replace=False)) for _ in range(30)]
    offsets = np.concatenate([np.cumsum([0, *map(len, rows)]), np.full(270, 4500)])
    weights = rng.random(4500).astype(dtype)
    indices = np.concatenate(rows).astype(np.int32)
    return pack_rows(backend, offsets, indices, weights=weights, encode=encode, page_bits=5)


packed_once = cache(pack)


def wanted_weights(dtype: type) -> np.ndarray:
    padded: np.ndarray = np.zeros(-(-4500 // LEAF) * LEAF, dtype)
    padded[:4500] = packed_once(get_backend("cpu"), dtype).read_weights()
    return padded


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_those_that_were_packed(backend: Backend, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = pack_rows(backend, np.array([0, 2, 2]), np.array([0, 1], np.int32))
    assert plain.weights is None
    assert plain.memory_usage()["weights"] == plain.weight_bytes().sum() == 0
    whole = pack(backend, dtype)
    assert whole.weights is not None
    assert whole.weights.dtype == dtype
    monkeypatch.setattr(building, "PIECE_LEAVES", 32)
    for packed in (whole, pack(backend, dtype)):
        rng = np.random.default_rng(3)
        for _ in range(30):
            rng.choice(300, 150, replace=False)
        drawn = rng.random(4500).astype(dtype)
        assert backend.to_host(packed.read_weights()).tolist() == drawn.tolist()
        assert backend.to_host(packed.read_weights(70, 90)).tolist() == drawn[70:90].tolist()
        assert backend.to_host(packed.weights)[4500:].tolist() == [0] * (-4500 % LEAF)
        assert decode_rows(packed).shape == (4500,)
        assert not packed.has_negative_weights
    assert whole.weight_bytes().tolist() == [PAGE * np.dtype(dtype).itemsize] * 4 + [
        13 * LEAF * np.dtype(dtype).itemsize
    ]
    assert whole.memory_usage()["weights"] == whole.weight_bytes().sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("way", "share"), [("stream", 0.5), ("stream", 0.0), ("zero-copy", 0.5)])
def test_they_come_with_their_pages(
    backend: Backend, dtype: type, way: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, wanted = packed_once(backend, dtype), wanted_weights(dtype)
    monkeypatch.setattr(passes, "BUFFER_BYTES", 20_000)
    resident = keep(packed, share)
    reader = PageReader(packed, way, resident)
    seen: list[int] = []

    def launch(piece: passes.Piece) -> None:
        assert piece.weights is not None
        assert piece.weight_places is not None
        for page in backend.to_host(piece.pages).tolist():
            seen.append(page)
            first = int(piece.weight_places[page]) - piece.weight_shift
            there = wanted[page * PAGE : (page + 1) * PAGE]
            assert backend.to_host(piece.weights)[first : first + there.shape[0]].tolist() == there.tolist()
            word = int(piece.places[page]) - piece.shift
            start = int(packed.places_on_host[page])
            assert int(piece.words[word]) == int(packed.words_on_host[start])

    reader.visit(launch, weighted=True)
    assert sorted(seen) == list(range(5))
    sizes = packed.page_bytes() + packed.weight_bytes()
    assert reader.traffic.resident_pages == 0
    if way == "stream":
        assert reader.traffic.link_bytes == reader.traffic.copied_bytes == sizes.sum()
    else:
        lines = packed.weight_bytes() // 128 - (-packed.page_bytes() // 128)
        assert reader.traffic.direct_requests == lines.sum()
        assert 0 <= reader.traffic.link_bytes - sizes.sum() < 32 * 5
    held = 2 if share and way == "stream" else 0
    before = reader.traffic.link_bytes
    reader.visit(launch, np.array([5, 0, 0, 5, 0]), weighted=True)
    if way == "stream":
        assert reader.traffic.link_bytes - before == sizes[3] + (0 if held else sizes[0])
    seen.clear()
    reader.visit(launch, weighted=True)
    assert sorted(seen) == list(range(5))
    assert reader.traffic.resident_pages == (3 if held else 0)
    assert held * sizes[0] <= resident.nbytes <= share * sizes.sum()


def test_negative_weights_are_noted() -> None:
    offsets, indices = np.array([0, 2, 2]), np.array([0, 1], np.int32)
    packed = pack_rows(get_backend("cpu"), offsets, indices, weights=np.array([1.0, -2.0]))
    assert packed.has_negative_weights


def test_wrong_weights_are_refused() -> None:
    backend, offsets, indices = get_backend("cpu"), np.array([0, 2, 2]), np.array([0, 1], np.int32)
    with pytest.raises(InputError, match=r"pack_rows: weights have shape \(3,\); wanted \(2,\), as indices have"):
        pack_rows(backend, offsets, indices, weights=np.zeros(3))
    with pytest.raises(InputError, match="pack_rows: weights are int64; wanted float32 or float64"):
        pack_rows(backend, offsets, indices, weights=np.zeros(2, np.int64))
    message = r"pack_pieces: a piece has columns of \[2\] entries beside its degrees; wanted destinations and as many"
    with pytest.raises(InputError, match=message):
        pack_pieces(backend, 2, lambda: iter([(np.array([2, 0]), indices)]), weight_dtype=np.float32)
    packed = pack_rows(backend, offsets, indices)
    with pytest.raises(InputError, match="paged rows: read_weights: they have no weights"):
        packed.read_weights()
    with pytest.raises(InputError, match="PageReader: a pass wants weights; wanted pages with weights"):
        PageReader(packed).visit(lambda piece: None, weighted=True)


@pytest.mark.parametrize(("encode", "way", "resident", "links"), READINGS)
def test_weighted_ranks_are_those_of_the_graph(
    backend_name: Device, encode: bool, way: str, resident: float, links: Links | None
) -> None:
    """Rows are taken as in-edges, so the graph is that of the edges turned round."""
    mixed = mix(backend_name, True, lambda rng, count: rng.random(count), encode=encode)
    src, dst, weights = mixed.graph.edge_columns().values()
    graph = dynstore.DynamicGraph(weighted=True, weight_dtype="float64", device=backend_name)
    graph.insert_vertices([mixed.packed.num_vertices - 1])
    graph.insert_edges((dst, src, weights))
    into = mixed.reader(way, resident, links)
    sums = sum_out_weights(into)
    ranks, iterations, _ = pagerank(into, sums, max_iter=3, tol=0.0, weighted=True)
    frame, _ = dynstore.pagerank(graph, max_iter=3, tol=0.0, fail_on_nonconvergence=False)
    assert iterations == 3
    assert ranks.dtype == np.float64
    np.testing.assert_allclose(into.packed.backend.to_host(ranks), frame["pagerank"].to_numpy(), rtol=1e-12)
    assert into.traffic.passes == 4


def test_wrong_weighted_ranks_are_refused() -> None:
    offsets, indices = np.array([0, 1, 2]), np.array([1, 0], np.int32)
    plain = PageReader(pack_rows(get_backend("cpu"), offsets, indices))
    with pytest.raises(UnweightedGraphError, match="pagerank: the pages have no weights; pack them with weights"):
        pagerank(plain, np.ones(2), weighted=True)
    for values, message in (
        ([1.0, -1.0], "pagerank: the graph has negative weights; wanted weights of at least 0"),
        ([1.0, 1e300], "pagerank: sums of out-weights are too large or too small for float64; wanted others, or 0"),
    ):
        into = PageReader(pack_rows(get_backend("cpu"), offsets, indices, weights=np.array(values)))
        with pytest.raises(InputError, match=message):
            pagerank(into, sum_out_weights(into), weighted=True)
