"""The self-test of the library that lends graphs: it finds what it is there to find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore.adapters.cugraph.borrowed import self_test
from dynstore.adapters.cugraph.borrowed.self_test import problem_of

FAR = 2**31 - 1


class Graph:
    """Rows that are searched one edge after the other; ``layout`` is what is wrong with cuGraph's struct."""

    layout: str | None = None
    longest = 10**9  # the degree that a row in the last segment may have

    def __init__(self, offsets: Any, indices: Any, weights: Any, number_map: Any, **options: Any) -> None:
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.sources, self.targets = number_map[rows], number_map[indices]
        self.weights = np.ones(len(indices)) if weights is None else weights
        self.vertices, self.options = number_map, options
        if options["transposed"]:
            self.sources, self.targets = self.targets, self.sources
        degrees = np.diff(offsets)[max(options.get("end_of_medium", -1), 0) :]
        if options.get("end_of_medium", -1) >= 0 and degrees.max() > self.longest:
            self.targets = np.roll(self.targets, 1)

    def number_of_vertices(self) -> int:
        return len(self.vertices)

    def number_of_edges(self, handle: Any) -> int:
        return len(self.sources)

    @classmethod
    def problem_of_layout(cls, made: Any, *kinds: Any) -> str | None:
        assert made.kinds[2:] == kinds[2:]
        return cls.layout

    def distances(self, start: int) -> dict[int, float]:
        found = dict.fromkeys(self.vertices.tolist(), float(FAR))
        found[start] = 0.0
        for _ in range(4):
            for u, v, weight in zip(self.sources.tolist(), self.targets.tolist(), self.weights.tolist(), strict=True):
                found[v] = min(found[v], found[u] + weight)
        return found


def degrees(graph: Graph, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return graph.vertices, np.array([(ends == vertex).sum() for vertex in graph.vertices])


@pytest.fixture
def plc(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    def bfs(handle: Any, graph: Graph, sources: Any, *rest: Any) -> Any:
        found = graph.distances(int(sources[0]))
        return np.array(list(found.values())), None, np.array(list(found))

    def sssp(handle: Any, graph: Graph, source: int, *rest: Any) -> Any:
        found = graph.distances(source)
        return np.array(list(found)), np.array(list(found.values())), None

    def sggraph(handle: Any, properties: Any, src: Any, dst: Any, weight_array: Any = None, **options: Any) -> Any:
        return SimpleNamespace(kinds=(src.dtype, None, weight_array is not None, options["store_transposed"]))

    plc = SimpleNamespace(
        ResourceHandle=lambda: "handle",
        GraphProperties=lambda **options: options,
        SGGraph=sggraph,
        bfs=bfs,
        sssp=sssp,
        in_degrees=lambda handle, graph, *rest: degrees(graph, graph.targets),
        out_degrees=lambda handle, graph, *rest: degrees(graph, graph.sources),
    )
    cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None))
    cupy = SimpleNamespace(arange=np.arange, asarray=np.asarray, cuda=cuda)
    monkeypatch.setattr(self_test, "require", lambda caller, module: {"cupy": cupy, "pylibcugraph": plc}[module])
    return plc


def test_a_library_that_works_passes(plc: SimpleNamespace) -> None:
    assert problem_of(Graph) is None


def test_another_layout_is_found(plc: SimpleNamespace) -> None:
    broken = type("Broken", (Graph,), {"layout": "weights are in another place"})
    assert problem_of(broken) == "cuGraph's graphs have changed: weights are in another place"


def test_a_graph_that_is_wrong_after_a_transposition_is_found(plc: SimpleNamespace) -> None:
    right = plc.bfs

    def bfs(handle: Any, graph: Graph, *rest: Any) -> Any:
        if graph.options["transposed"]:
            graph.sources, graph.targets = graph.targets, graph.sources
        return right(handle, graph, *rest)

    plc.bfs = bfs
    assert "after a transposition" in str(problem_of(Graph))


def test_wrong_segments_are_found(plc: SimpleNamespace) -> None:
    broken = type("Broken", (Graph,), {"longest": 0})
    assert str(problem_of(broken)).startswith("segments (1, 4): ")
