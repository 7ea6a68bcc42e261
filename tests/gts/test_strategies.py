"""Several devices have the results of one, by both strategies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, gts
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError


@pytest.fixture(scope="module")
def topology() -> gts.PagedTopology:
    rng = np.random.default_rng(11)
    src, dst = rng.integers(0, 30, (2, 70))
    src[:26], dst[:26] = 4, np.arange(26)
    graph = DynamicGraph(device="cpu")
    graph.insert_edges((src, dst))
    made = gts.build(graph, page_bytes=96)
    assert made.num_large > 1
    return made


def alone(topology: gts.PagedTopology) -> gts.GTS:
    return gts.GTS(topology, device="cpu", frames="pandas")


@pytest.mark.parametrize("strategy", ["P", "S"])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_search(topology: gts.PagedTopology, backend_name: str, strategy: str, num_devices: int) -> None:
    engine = gts.MultiGTS(topology, num_devices, strategy, device=backend_name, copy_bytes=0, frames="pandas")
    pd.testing.assert_frame_equal(engine.bfs(0), alone(topology).bfs(0))
    passes = engine.last_runs[0].passes
    assert passes > 2
    pd.testing.assert_frame_equal(engine.bfs([1, 4], depth_limit=1), alone(topology).bfs([1, 4], depth_limit=1))
    pd.testing.assert_frame_equal(
        engine.bfs(2, return_predecessors=False), alone(topology).bfs(2, return_predecessors=False)
    )


@pytest.mark.parametrize("strategy", ["P", "S"])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_ranks(topology: gts.PagedTopology, backend_name: str, strategy: str, num_devices: int) -> None:
    engine = gts.MultiGTS(topology, num_devices, strategy, device=backend_name, copy_bytes=0, frames="pandas")
    pd.testing.assert_frame_equal(engine.pagerank(tol=1e-2), alone(topology).pagerank(tol=1e-2), atol=1e-6)


def test_what_each_device_streams(topology: gts.PagedTopology) -> None:
    """Strategy-P: page mod N each. Strategy-S: all pages each, and the levels of their vertices."""
    num_pages, num_vertices = topology.num_pages, topology.num_vertices
    shared = gts.MultiGTS(topology, 2, "P", device="cpu", copy_bytes=0)
    shared.pagerank(max_iter=1, tol=0)
    assert [run.pages for run in shared.last_runs] == [-(-num_pages // 2), num_pages // 2]
    chunks = gts.MultiGTS(topology, 2, "S", device="cpu", copy_bytes=0)
    chunks.pagerank(max_iter=1, tol=0)
    assert [run.pages for run in chunks.last_runs] == [num_pages] * 2
    single = alone(topology)
    single.bfs(0)
    chunks.bfs(0)
    first, second = chunks.last_runs
    assert first.pages == second.pages == single.last_run.pages
    assert first.sent_bytes == second.sent_bytes > 0
    assert first.fetched_bytes + second.fetched_bytes == 4 * num_vertices * first.passes
    shared.bfs(0)
    assert sum(run.pages for run in shared.last_runs) == single.last_run.pages
    assert all(run.seconds > 0 for run in shared.last_runs)


def test_wrong_calls(topology: gts.PagedTopology) -> None:
    with pytest.raises(InputError, match="MultiGTS: unknown strategy 'Q'; known: 'P', 'S'"):
        gts.MultiGTS(topology, 2, "Q")
    with pytest.raises(InputError, match="MultiGTS: num_devices is 0; wanted 1 or more"):
        gts.MultiGTS(topology, 0)
    with pytest.raises(InputTypeError, match="MultiGTS: streams is None"):
        gts.MultiGTS(topology, 2, streams=None)
    with pytest.raises(FailedToConvergeError, match="after 1 iterations"):
        gts.MultiGTS(topology, 2, device="cpu").pagerank(max_iter=1)
