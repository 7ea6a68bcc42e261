"""Betweenness over pages is that of the graph, for any number of searches at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore.algorithms.paged import PageReader, betweenness_centrality
from dynstore.backend import get_backend
from dynstore.errors import InputError
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.links import Links
from dynstore.typing import Device
from tests.algorithms.paged.mixtures import READINGS, mix


@pytest.mark.parametrize(("encode", "way", "resident", "links"), READINGS)
@pytest.mark.parametrize("directed", [True, False])
def test_it_is_that_of_the_graph(
    backend_name: Device, directed: bool, encode: bool, way: str, resident: float, links: Links | None
) -> None:
    size = (60, 400) if backend_name == "cpu" else (30, 150)
    mixed = mix(backend_name, directed, encode=encode, num_vertices=size[0], num_edges=size[1])
    reader = mixed.reader(way, resident, links)
    cases: list[tuple[dict[str, Any], int | None]] = [
        ({"k": [3, 0, 7, 9, 20, 3], "normalized": False, "endpoints": True}, 4),
        ({"k": 5, "random_state": 4}, None),
    ]
    if backend_name == "cpu":
        cases += [({}, None), ({"endpoints": True}, 1)]
    for options, batch in cases:
        wanted = dynstore.betweenness_centrality(mixed.graph, **options)["betweenness_centrality"].to_numpy()
        found = betweenness_centrality(reader, symmetric=not directed, batch=batch, **options)
        np.testing.assert_allclose(reader.packed.backend.to_host(found), wanted, rtol=1e-12, atol=1e-15)
        assert wanted.max() > 0.01
    assert (reader.traffic.copied_bytes > 0) == (way == "stream")
    assert (reader.traffic.direct_requests > 0) == (way != "stream")


def test_searches_share_passes() -> None:
    mixed = mix("cpu", True, num_vertices=300, num_edges=4000)
    traffic = []
    for batch in (1, 32):
        reader = mixed.reader("stream", 0, None)
        betweenness_centrality(reader, k=32, random_state=1, batch=batch)
        traffic.append(reader.traffic.link_bytes)
    assert traffic[1] < traffic[0] / 10


def test_a_level_reads_only_its_rows() -> None:
    """A path 0 - 1 - 2 in one leaf: two passes forwards and one back."""
    backend, far = get_backend("cpu"), np.arange(10, 4010)
    src = np.concatenate([[0, 1], np.repeat([4, 5], 4000)])
    dst = np.concatenate([[1, 2], far, far]).astype(np.int32)
    reader = PageReader(pack_rows(backend, np.searchsorted(src, np.arange(4011)), dst, page_bits=5), "zero-copy")
    found = betweenness_centrality(reader, k=[0], normalized=False)
    assert np.flatnonzero(found).tolist() == [0, 1]  # the source's is not a number
    assert reader.traffic.direct_requests == 3


def test_wrong_calls_are_refused() -> None:
    reader = PageReader(pack_rows(get_backend("cpu"), np.array([0, 1, 1]), np.array([1], np.int32)))
    with pytest.raises(InputError, match="betweenness_centrality: k is 3; wanted 1 to 2, the number of vertices"):
        betweenness_centrality(reader, k=3)
    for k in ([2], [-1], []):
        with pytest.raises(InputError, match=r"betweenness_centrality: k is \[.*\]; wanted row numbers below 2"):
            betweenness_centrality(reader, k=k)
    for batch in (0, 33):
        with pytest.raises(InputError, match=rf"betweenness_centrality: batch is {batch}; wanted 1 to 32"):
            betweenness_centrality(reader, batch=batch)


def test_a_graph_without_edges() -> None:
    packed = pack_rows(get_backend("cpu"), np.zeros(5, np.int64), np.empty(0, np.int32))
    assert betweenness_centrality(PageReader(packed)).tolist() == [0.0] * 4
