"""All algorithms over pages of odd graphs: tiny pages, all or none of them resident, NetworkX and SciPy beside."""

from __future__ import annotations

from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse.csgraph as csgraph

from dynstore.backend import get_backend
from dynstore.gts.answers import label_components, measure_centrality, rank, search, search_lengths
from dynstore.gts.building import build_from_rows
from dynstore.gts.formats import PageFormat
from dynstore.gts.streaming import Settings, Streamer
from dynstore.typing import MAX_INT32
from tests.algorithms.odd_graphs import ODD_GRAPHS, component_labels, levels, ranks, rows
from tests.algorithms.oracles import Edges, assert_valid_predecessors, by_vertex
from tests.conftest import DEVICES
from tests.crossed import crossed


class Way(NamedTuple):
    """A format of pages, and how they are streamed; ``resident``: pages on the device, -1 for all."""

    p: int
    q: int
    page_bytes: int
    streams: int
    resident: int
    cache: str
    copy_bytes: int
    technique: str
    attributes: str


WAYS = (
    Way(1, 1, 64, 1, 0, "fixed", 0, "edge", "streamed"),  # 1-byte units, a page a copy
    Way(2, 2, 24, 3, 1, "lru", 0, "vertex", "resident"),  # a neighbour or two a page: almost all pages are large
    Way(3, 3, 40, 2, -1, "fixed", 200, "hybrid", "streamed"),
    Way(4, 4, 4096, 4, -1, "lru", 1 << 20, "edge", "resident"),  # one page, all resident
)


@crossed(device=DEVICES, directed=(True, False), way=WAYS, edges=ODD_GRAPHS)
def test_answers_are_right(device: Any, directed: bool, way: Way, edges: Edges) -> None:
    offsets, indices, weights = rows(edges, directed)
    form = PageFormat(way.page_bytes, way.p, way.q, weighted=True)
    topology = build_from_rows(offsets, indices, weights, form, directed)
    for found, wanted in zip(topology.rows(), (offsets, indices, weights), strict=True):
        assert found is not None
        np.testing.assert_array_equal(found, wanted)
    resident = topology.num_pages if way.resident < 0 else way.resident
    settings = Settings(way.streams, resident, way.cache, way.copy_bytes, None, way.technique, way.attributes)
    backend = get_backend(device)
    streamer, host = Streamer(topology, backend, settings), backend.to_host
    start, last = edges.num_vertices - 1, np.finfo(np.float32).max
    for _ in range(2):  # with what the first run has left in the cache
        found_levels, parents = map(host, search(streamer, np.array([start]), MAX_INT32, True))
        assert found_levels.tolist() == levels(edges, directed, start, MAX_INT32)
        matrix = edges.scipy(directed=directed)
        assert_valid_predecessors(matrix != 0, found_levels, parents, MAX_INT32)
        lengths, parents = map(host, search_lengths(streamer, start, np.inf))
        wanted_lengths = csgraph.dijkstra(matrix, directed=True, indices=start)
        np.testing.assert_array_equal(np.where(lengths == last, np.inf, lengths), wanted_lengths)
        assert_valid_predecessors(matrix, lengths, parents, last)
        assert host(label_components(streamer)).tolist() == component_labels(edges)
        np.testing.assert_allclose(host(rank(streamer, 0.85, 3, 0.0)[0]), ranks(edges, directed, 3), rtol=1e-4)
        totals = host(measure_centrality(streamer, np.array([start]), False))
        graph = edges.networkx(directed=directed)
        wanted_totals = nx.betweenness_centrality_subset(graph, [start], list(graph), normalized=False)
        np.testing.assert_allclose(totals, by_vertex(wanted_totals, edges.num_vertices) * (1 if directed else 2))
