"""All algorithms over packed pages of odd graphs: all or none of them resident, NetworkX and SciPy beside."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse.csgraph as csgraph

from dynstore.algorithms.paged import (
    PageReader,
    betweenness_centrality,
    bfs,
    pagerank,
    sssp,
    triangle_count,
    weakly_connected_components,
)
from dynstore.backend import get_backend
from dynstore.stores.paged.building import pack_rows
from dynstore.stores.paged.links import Links
from dynstore.typing import MAX_INT32
from tests.algorithms.odd_graphs import ODD_GRAPHS, component_labels, levels, ranks, rows
from tests.algorithms.oracles import Edges, assert_valid_predecessors, by_vertex
from tests.algorithms.paged.mixtures import keep
from tests.conftest import DEVICES
from tests.crossed import crossed

# Encoded or not, way, share of the pages that stay, links.
READINGS = (
    (True, "stream", 0.0, None),
    (False, "zero-copy", 1.0, None),
    (False, "stream", 1.0, None),
    (True, "auto", 0.5, Links(1.0, 1e9)),
)


@crossed(device=DEVICES, directed=(True, False), reading=READINGS, edges=ODD_GRAPHS)
def test_answers_are_right(device: Any, directed: bool, reading: Any, edges: Edges) -> None:
    encode, way, share, links = reading
    backend = get_backend(device)
    matrix = edges.scipy(directed=directed)
    offsets, indices, weights = rows(edges, directed)
    out = pack_rows(backend, offsets, indices, encode=encode, page_bits=5, weights=weights)
    turned = matrix.T.tocsr()
    turned.sort_indices()
    into = pack_rows(backend, turned.indptr, turned.indices.astype(np.int32), encode=encode, page_bits=5)
    resident, kept = keep(out, share), keep(into, share)
    if way == "zero-copy":  # what another way has copied stays
        PageReader(out, "stream", resident).visit(lambda piece: None)
    reader = PageReader(out, way, resident, links)
    start, last, host = edges.num_vertices - 1, np.finfo(np.float32).max, backend.to_host
    back = PageReader(into, way, kept, links)
    # Again with the pages that stay, and with in-edges; what is undirected has none, and the simulator reads it once.
    for in_edges in (None, back) if directed else (None, None)[: 1 + (device == "cpu")]:
        distances, parents = bfs(reader, start, symmetric=not directed, predecessors=True, into=in_edges)
        assert host(distances).tolist() == levels(edges, directed, start, MAX_INT32)
        assert_valid_predecessors(matrix != 0, host(distances), host(parents), MAX_INT32)
        lengths, parents = sssp(reader, start, predecessors=True)
        wanted = csgraph.dijkstra(matrix, directed=True, indices=start)
        np.testing.assert_array_equal(np.where(host(lengths) == last, np.inf, host(lengths)), wanted)
        assert_valid_predecessors(matrix, host(lengths), host(parents), last)
        assert host(weakly_connected_components(reader)).tolist() == component_labels(edges)
        found = pagerank(PageReader(into, way, kept, links), np.diff(offsets), max_iter=3, tol=0.0)[0]
        np.testing.assert_allclose(host(found), ranks(edges, directed, 3), rtol=1e-4)
        central = host(betweenness_centrality(reader, normalized=False, symmetric=not directed))
        wanted_central = nx.betweenness_centrality(edges.networkx(directed=directed), normalized=False)
        np.testing.assert_allclose(central, by_vertex(wanted_central, edges.num_vertices), atol=1e-12)
        if not directed:
            simple = (matrix != 0).toarray().astype(np.int64)
            np.fill_diagonal(simple, 0)
            wanted_triangles = np.diag(simple @ simple @ simple) // 2
            room = 100 if device == "cpu" else 250  # fewer blocks
            for device_bytes in (None, 48 * edges.num_vertices + room):  # at once, and in blocks
                assert host(triangle_count(reader, device_bytes)).tolist() == wanted_triangles.tolist()
