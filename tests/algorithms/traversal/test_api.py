"""bfs and sssp as a user calls them: cuGraph's columns, dtypes, conventions and errors."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.errors import DynstoreError, InputError, InputTypeError, UnweightedGraphError
from tests.algorithms.kites import both_dtypes, check_frame, host, kite, reference
from tests.libraries import frame


@both_dtypes
@pytest.mark.parametrize("directed", [True, False])
def test_bfs(device: str, directed: bool, options: dict) -> None:
    graph = kite(device, directed=directed, **options)
    vertex = options["vertex_dtype"]
    table = check_frame(dynstore.bfs(graph, 1), vertex=vertex, distance=vertex, predecessor=vertex)
    hops = nx.single_source_shortest_path_length(reference(directed), 1)
    far = np.iinfo(vertex).max
    assert table["distance"].tolist() == [hops.get(v, far) for v in range(7)]
    assert table["predecessor"].tolist() == [-1 if directed else 1, -1, 1, 1, 3, 4, -1]


@pytest.mark.parametrize(
    "start",
    [
        [4, 0],
        (0, 4),
        np.array([0, 4, 4]),
        pd.Series([4, 0]),
        pd.DataFrame({"any": [0, 4]}),
        "polars",
        "pyarrow",
    ],
    ids=["list", "tuple", "array", "series", "pandas", "polars", "pyarrow"],
)
def test_bfs_from_several_vertices(device: str, start: Any) -> None:
    if isinstance(start, str):
        start = frame(start, {"any": [0, 4]})
    table = host(dynstore.bfs(kite(device), start))
    assert table["distance"].tolist() == [0, 1, 1, 1, 0, 1, np.iinfo(np.int32).max]
    assert table["predecessor"].tolist() == [-1, 0, 0, 4, -1, 4, -1]


def test_bfs_options(device: str) -> None:
    graph = kite(device)
    far = np.iinfo(np.int32).max
    assert host(dynstore.bfs(graph, np.int64(0), depth_limit=1))["distance"].tolist() == [0, 1, 1, far, far, far, far]
    for everything in (dynstore.bfs(graph, 0, depth_limit=-1), dynstore.bfs(graph, i_start=0)):
        pd.testing.assert_frame_equal(host(everything), host(dynstore.bfs(graph, 0)))
    blind = host(dynstore.bfs(graph, 0, return_predecessors=False))
    assert blind["predecessor"].tolist() == [-1] * 7
    assert blind["predecessor"].dtype == np.int32
    assert blind["distance"].tolist() == host(dynstore.bfs(graph, 0))["distance"].tolist()


def test_bfs_does_not_make_a_second_orientation(device: str) -> None:
    graph = kite(device, directed=True)
    before = graph.memory_usage()
    dynstore.bfs(graph, 0)
    assert graph.memory_usage() == before


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (7, InputError, "Found invalid vertex in the input sources: got 7; the graph has 7 vertices"),
        ([0, -1], InputError, "Found invalid vertex in the input sources: .* has -1 at row 1"),
        ([], InputError, "no vertex"),
        (0.5, InputTypeError, "bfs: the input sources: .* must be integers"),
        (["a"], InputTypeError, "bfs: the input sources"),
        (pd.DataFrame({"a": [0], "b": [1]}), InputError, "frame of 2 columns; wanted one"),
        (None, InputTypeError, "'start' is missing"),
    ],
)
def test_bfs_refuses_starts(device: str, start: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        dynstore.bfs(kite(device), start)


@both_dtypes
@pytest.mark.parametrize("directed", [True, False])
def test_sssp(device: str, directed: bool, options: dict) -> None:
    graph = kite(device, directed=directed, weighted=True, **options)
    vertex, weight = options["vertex_dtype"], options["weight_dtype"]
    table = check_frame(dynstore.sssp(graph, 0), distance=weight, vertex=vertex, predecessor=vertex)
    lengths = nx.single_source_dijkstra_path_length(reference(directed), 0)
    assert table["distance"].tolist() == [lengths.get(v, np.finfo(weight).max) for v in range(7)]
    assert table["predecessor"].tolist() == [-1, 0, 1, 2, 3, 4, -1]
    near = host(dynstore.sssp(graph, source=0, cutoff=4.0))
    assert (near["distance"] < 5).tolist() == [True, True, True, False, False, False, False]


@pytest.mark.parametrize("store", ["gpma+", "paged"])
def test_a_path_as_long_as_the_largest_number_reaches_nothing(backend_name: str, store: str) -> None:
    """What is as far as ``finfo.max`` counts as unreached, and has no predecessor."""
    most = float(np.finfo(np.float32).max)
    options = {"delta_edges": 0} if store == "paged" else {}
    for edges in (
        [(0, 1, most), (1, 2, 0.0)],
        [(0, 1, most / 2), (1, 2, most / 2), (2, 3, 0.0)],
        [(0, 1, np.inf), (1, 2, 1.0)],
    ):
        graph = dynstore.DynamicGraph(device=backend_name, weighted=True, store=store, **options)
        graph.insert_edges(edges)
        found = host(dynstore.sssp(graph, 0))
        far = found["distance"].to_numpy() == np.float32(most)
        assert far.sum() == 2
        assert found["predecessor"].tolist() == np.where(far, -1, np.arange(len(far)) - 1).tolist()


def test_sssp_arguments(device: str) -> None:
    graph = kite(device, weighted=True)
    expected = host(dynstore.sssp(graph, 3))
    for same in (dynstore.sssp(graph, indices=3), dynstore.sssp(graph, 3, method="auto"), dynstore.sssp(graph, [3])):
        pd.testing.assert_frame_equal(host(same), expected)
    for name in ("directed", "return_predecessors", "unweighted", "overwrite"):
        with pytest.raises(TypeError, match=f"'{name}' cannot be specified"):
            dynstore.sssp(graph, 3, **{name: True})
    for arguments, message in [
        ({"source": 3, "indices": 3}, "both 'source' and 'indices'"),
        ({"source": 7}, "Found invalid vertex in source: got 7"),
        ({"source": [1, 2]}, "2 vertices; wanted one"),
        ({"source": 1, "method": "D"}, "only 'auto'"),
        ({"source": 1, "cutoff": np.nan}, "cutoff is NaN"),
    ]:
        with pytest.raises(InputError, match=message):
            dynstore.sssp(graph, **arguments)


def test_sssp_needs_weights_of_at_least_zero(device: str) -> None:
    with pytest.raises(UnweightedGraphError, match="requires the input graph to be weighted") as caught:
        dynstore.sssp(kite(device), 0)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, DynstoreError)
    graph = kite(device, weighted=True)
    graph.insert_edges(([5], [6], [-1.0]))
    with pytest.raises(InputError, match="negative weights"):
        dynstore.sssp(graph, 0)
    with pytest.raises(InputError, match="negative weights"):
        dynstore.pagerank(graph)
    graph.delete_edges(([5], [6]))  # the weight may still lie in a gap
    assert host(dynstore.sssp(graph, 0))["distance"][5] == 8
