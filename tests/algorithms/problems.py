"""Small graphs with corners as CSRs of the device, of the host, and in NetworkX: what CUDA kernels are tested on.

On a GPU or in our simulator, where each GPU thread is a greenlet: graphs are tiny.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynstore.backend import cuda_problem, get_backend
from dynstore.testing.arrays import gapped_csr
from tests.algorithms.oracles import Edges, drawn, listed

__all__ = [
    "BACKEND",
    "CASES",
    "HUB",
    "NO_EDGES",
    "PACKED_CASES",
    "RANDOM",
    "STAR",
    "Problem",
    "assert_same",
    "every_case",
    "every_graph",
    "host",
    "kernels",
]

BACKEND = get_backend("cuda" if cuda_problem() is None else "cuda-sim")
HOST = get_backend("cpu")
CASES = ((True, 0.5, np.int32, np.float32), (False, 0.5, np.int64, np.float64))
PACKED_CASES = ((True, 1.0, np.int64, np.float64), (False, 1.0, np.int32, np.float32))

RANDOM = drawn("random", 38, 110, 2, 3)
# Vertex 90 has 80 neighbours; a search from 0 reaches those above 60 first, so bottom-up 90 looks long for a parent.
TO_HUB = [(v, 90) for v in range(60, 90)]
HUB = listed("hub", [(90, v) for v in range(10, 90)] + TO_HUB + [(0, v) for v in range(60, 90)], 91)
STAR = listed("star", [(5, v) for v in range(70)], 72)
NO_EDGES = listed("no edges", [], 5)  # packed, it has no slots either
GRAPHS = (
    RANDOM,
    HUB,
    STAR,
    listed("path", [(v, v + 1) for v in range(8)], 9),
    listed("two components", [(v, (v + 1) % 5) for v in range(5)] + [(6, 7), (7, 8), (8, 6), (8, 9)], 11),
    listed("loops", [(v, v) for v in range(4)] + [(0, 1), (3, 1)], 5),
    listed("one vertex", [], 1),
    listed("one loop", [(0, 0)], 1),
    NO_EDGES,
)
every_graph = pytest.mark.parametrize("edges", GRAPHS, ids=str)
every_case = pytest.mark.parametrize("case", CASES, ids=["directed-int32", "undirected-int64"])


class Problem:
    """A graph as device and host CSRs, both ways around, and in NetworkX."""

    def __init__(self, edges: Edges, case: tuple[Any, ...], weights: np.ndarray | None = None, seed: int = 0) -> None:
        self.directed, density, self.dtype, self.weight_dtype = case
        self.num_vertices = edges.num_vertices
        self.graph = edges.networkx(directed=self.directed)

        def build(src: np.ndarray, dst: np.ndarray, backend: Any) -> Any:
            return gapped_csr(
                src,
                dst,
                weights,
                num_vertices=edges.num_vertices,
                directed=self.directed,
                backend=backend,
                density=density,
                dtype=self.dtype,
                weight_dtype=self.weight_dtype,
                seed=seed,
            )

        self.out, self.host_out = build(edges.src, edges.dst, BACKEND), build(edges.src, edges.dst, HOST)
        self.into, self.host_into = self.out, self.host_out
        if self.directed:
            self.into, self.host_into = build(edges.dst, edges.src, BACKEND), build(edges.dst, edges.src, HOST)


def kernels(family: str, module: str = "") -> tuple[Any, Any]:
    """Return the device's and the host's module of a family of algorithms."""
    return tuple(backend.kernels(f"dynstore.algorithms.{family}", module) for backend in (BACKEND, HOST))  # type: ignore[return-value]


def host(array: Any) -> np.ndarray:
    return BACKEND.to_host(array)


def assert_same(device_array: Any, expected: np.ndarray) -> None:
    got = host(device_array)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
