"""The example's algorithms over streamed pages have the results of those on matrices."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dynstore import gts

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "streamed_kernels.py"
NUM_VERTICES = 24


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The example; its host kernels are not compiled, which takes longer than they run here."""
    names = runpy.run_path(str(EXAMPLE))
    for name in ("select_on_host", "spread_on_host"):
        names["main"].__globals__[name] = names[name].py_func
    return names


@pytest.fixture(scope="module")
def edges() -> np.ndarray:
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, NUM_VERTICES, (2, 60))
    src[:22], dst[:22] = 7, np.arange(22)
    return np.unique(np.stack([src, dst], 1), axis=0)


@pytest.fixture
def engine(edges: np.ndarray, backend_name: str) -> gts.GTS:
    topology = gts.build((edges[:, 0], edges[:, 1]), page_bytes=96)
    assert topology.num_large > 1
    return gts.GTS(topology, device=backend_name, copy_bytes=200, frames="pandas")


def test_edges_between_sets(example: dict[str, Any], engine: gts.GTS, edges: np.ndarray) -> None:
    begins, ends = np.array([1, 7, 9, 20]), np.array([0, 2, 7, 11, 21])
    expected = edges[np.isin(edges[:, 0], begins) & np.isin(edges[:, 1], ends)]
    np.testing.assert_array_equal(example["cross_edges"](engine, begins, ends), expected)
    assert engine.last_run.passes == 1
    assert engine.last_run.pages == len(engine.topology.pages_of(begins)) < engine.topology.num_pages
    expected = edges[np.isin(edges, begins).all(axis=1)]
    np.testing.assert_array_equal(example["induced_subgraph"](engine, begins), expected)


def test_egonet(example: dict[str, Any], engine: gts.GTS, edges: np.ndarray) -> None:
    graph = nx.DiGraph(edges.tolist())
    assert example["egonet"](engine, 9).tolist() == sorted(map(list, nx.ego_graph(graph, 9).edges))
    near = nx.single_source_shortest_path_length(graph, 9, cutoff=2)
    assert example["neighbourhood"](engine, 9, 2).tolist() == sorted(near)


def test_walk_with_restart(example: dict[str, Any], engine: gts.GTS, edges: np.ndarray) -> None:
    found = example["walk_with_restart"](engine, 7, iterations=2)
    matrix = np.zeros((NUM_VERTICES, NUM_VERTICES))
    matrix[edges[:, 0], edges[:, 1]] = 1
    matrix /= np.maximum(matrix.sum(1, keepdims=True), 1)
    ranks = np.eye(NUM_VERTICES)[7]
    for _ in range(2):
        ranks = 0.85 * ranks @ matrix
        ranks[7] += 1 - ranks.sum()
    np.testing.assert_allclose(found, ranks)


def test_radii(example: dict[str, Any], engine: gts.GTS, edges: np.ndarray) -> None:
    """A sketch of a vertex is the union of those that lead to it: followed here along the edges one by one."""
    estimate = example["estimate_radii"]
    # Three sketches are enough for the simulator; the function reads this global when it is called.
    estimate.__globals__["SKETCHES"] = 3
    sketches = example["draw_sketches"](NUM_VERTICES, 5)
    sizes = []
    for _ in range(NUM_VERTICES):
        sizes.append(example["_count"](sketches))
        unions = sketches.copy()
        for src, dst in edges:
            unions[:, dst] |= sketches[:, src]
        sketches = unions
    expected = np.argmax(np.stack(sizes) >= 0.9 * sizes[-1], axis=0)
    np.testing.assert_array_equal(estimate(engine, seed=5), expected)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_the_example_is_a_program(example: dict[str, Any], capsys: pytest.CaptureFixture[str], compiled: bool) -> None:
    program = runpy.run_path(str(EXAMPLE)) if compiled else example
    program["main"].__globals__["SKETCHES"] = 3
    program["main"]("cpu")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PagedTopology(num_vertices=2")
    assert len(lines) == 5


def test_an_engine_works_after_a_kernel_that_fails(engine: gts.GTS) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("in a kernel")

    if engine.backend.on_gpu:
        pytest.skip("kernels on a GPU do not raise")
    before = engine.bfs(0)
    with pytest.raises(ZeroDivisionError):
        engine.run(fail, fail, "pagerank", written=[])
    assert engine.bfs(0).equals(before)
