"""Small graphs with corners, and what NetworkX and SciPy say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from dynstore.testing.arrays import gapped_csr, random_edges

__all__ = ["DENSITIES", "DTYPES", "GRAPHS", "Edges", "assert_valid_predecessors", "by_vertex", "drawn", "listed"]

DENSITIES = (1.0, 0.65, 0.2)
DTYPES = ((np.int32, np.float32), (np.int64, np.float64))


@dataclass(frozen=True)
class Edges:
    """A list of edges, some twice, some loops; weights are multiples of 1/8, so sums are exact."""

    name: str
    src: np.ndarray
    dst: np.ndarray
    num_vertices: int

    def __str__(self) -> str:
        return self.name

    @property
    def weights(self) -> np.ndarray:
        """Return a weight for each pair of ends, the same for both directions and for duplicates."""
        low, high = np.minimum(self.src, self.dst), np.maximum(self.src, self.dst)
        return ((low * 7 + high * 13) % 40 + 1) / 8

    def csr(self, density: float = 1.0, *, directed: bool, weighted: bool = False, dtypes: Any = DTYPES[0]) -> Any:
        """Return the out-edges as a gap-aware CSR."""
        return self._csr(self.src, self.dst, density, directed, weighted, dtypes)

    def transposed_csr(
        self, density: float = 1.0, *, directed: bool, weighted: bool = False, dtypes: Any = DTYPES[0]
    ) -> Any:
        """Return the in-edges as a gap-aware CSR."""
        return self._csr(self.dst, self.src, density, directed, weighted, dtypes)

    def _csr(
        self, src: np.ndarray, dst: np.ndarray, density: float, directed: bool, weighted: bool, dtypes: Any
    ) -> Any:
        return gapped_csr(
            src,
            dst,
            self.weights if weighted else None,
            num_vertices=self.num_vertices,
            directed=directed,
            density=density,
            dtype=dtypes[0],
            weight_dtype=dtypes[1],
        )

    def networkx(self, *, directed: bool) -> Any:
        """Return the graph with its weights."""
        graph = nx.DiGraph() if directed else nx.Graph()
        graph.add_nodes_from(range(self.num_vertices))
        graph.add_weighted_edges_from(zip(self.src.tolist(), self.dst.tolist(), self.weights.tolist(), strict=True))
        return graph

    def scipy(self, *, directed: bool) -> sp.csr_array:
        """Return the adjacency matrix of the weights."""
        return nx.to_scipy_sparse_array(self.networkx(directed=directed), nodelist=range(self.num_vertices))


def listed(name: str, pairs: list[tuple[int, int]], num_vertices: int) -> Edges:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Edges(name, table[:, 0], table[:, 1], num_vertices)


def drawn(name: str, num_vertices: int, num_edges: int, isolated: int, seed: int) -> Edges:
    src, dst = random_edges(np.random.default_rng(seed), num_vertices, num_edges, np.int64)
    return Edges(name, src, dst, num_vertices + isolated)


GRAPHS = (
    drawn("skewed", 150, 900, 10, 1),
    drawn("sparse", 200, 150, 0, 2),
    listed("path", [(v, v + 1) for v in range(60)], 61),
    listed("star", [(5, v) for v in range(40)], 45),
    listed("clique", [(u, v) for u in range(12) for v in range(12)], 12),
    listed("two-cycles", [(v, (v + 1) % 9) for v in range(9)] + [(9 + v, 9 + (v + 1) % 4) for v in range(4)], 13),
    listed("loops", [(v, v) for v in range(5)] + [(0, 1)], 6),
)


def by_vertex(values: dict[int, float], num_vertices: int) -> np.ndarray:
    """Return NetworkX's dict as an array."""
    return np.array([values[v] for v in range(num_vertices)], dtype=np.float64)


def assert_valid_predecessors(matrix: sp.csr_array, distances: Any, predecessors: Any, unreached: Any) -> None:
    """Check that each predecessor has an edge that makes up the distance, and that following them ends at a source.

    ``matrix`` holds the lengths of the edges.
    """
    distances, predecessors = np.asarray(distances), np.asarray(predecessors)
    has_parent = predecessors >= 0
    assert not has_parent[distances == unreached].any()
    assert not has_parent[distances == 0].any()
    assert has_parent[(distances != unreached) & (distances != 0)].all()
    children = np.flatnonzero(has_parent)
    parents = predecessors[children]
    lengths = np.asarray(matrix[[parents], [children]].todense()).ravel() if children.size else np.empty(0)
    assert (lengths > 0).all()
    np.testing.assert_allclose(distances[parents] + lengths, distances[children], rtol=1e-6)
