"""Every tracked answer through real streams, against a full run after every step: CAIDA's deletes, a sliding window."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dynstore
from dynstore.bench.stream import Edges, SlidingStream, cut_stream
from dynstore.datasets.shipped import load
from dynstore.io import read_events
from tests.algorithms.streams import EXACT, compare
from tests.conftest import PROFILE
from tests.shared_data import shared_data

STEPS = 12 if PROFILE == "thorough" else 4
PARAMS = {
    "bfs": {},
    "pagerank": {"tol": 1e-7},
    "sssp": {},
    "triangle_count": {},
    "weakly_connected_components": {},
}


@cache
def caida(batch: int, directed: bool) -> SlidingStream:
    events = read_events(shared_data("as-caida.events.tsv.xz"), time=0, op=1, source=2, destination=3, weight=4)
    return cut_stream(events, 0.4, batch, STEPS, directed=directed)


@cache
def mathoverflow(batch: int, directed: bool) -> SlidingStream:
    return cut_stream(load("mathoverflow"), 0.5, batch, STEPS, directed=directed)


def columns(edges: Edges) -> tuple[np.ndarray, ...]:
    """Return ends, and weights that follow from them, the same in both directions."""
    weights = (np.minimum(edges.src, edges.dst) * 7 + np.maximum(edges.src, edges.dst) * 13) % 97 + 1.0
    return edges.src, edges.dst, weights


@pytest.mark.usefixtures("take_changes")
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("batch", [200, pytest.param(5000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("source", [caida, mathoverflow])
def test_a_real_stream(source, batch: int, directed: bool, device: str) -> None:
    stream = source(batch, directed)
    graph = dynstore.DynamicGraph(directed=directed, device=device, **EXACT)
    graph.insert_edges(columns(stream.first.entering))
    start = int(np.bincount(stream.first.entering.src).argmax())
    params = {name: dict(given) for name, given in PARAMS.items() if not directed or name != "triangle_count"}
    params["bfs"]["start"] = params["sssp"]["source"] = start
    monitors = {name: graph.track(name, **given) for name, given in params.items()}
    paths: dict[str, list[str]] = {name: [] for name in params}
    for number, slide in enumerate(stream.slides):
        if len(slide.leaving):
            graph.delete_edges(columns(slide.leaving))
        graph.insert_edges(columns(slide.entering))
        for name, monitor in monitors.items():
            given = {**params[name], "tol": 1e-8, "max_iter": 500} if name == "pagerank" else params[name]
            expected = getattr(dynstore, name)(graph, **given)
            limits = {"pagerank": 1e-6} if name == "pagerank" else {}
            compare(monitor.result(), expected, f"{name}, step {number}", **limits)
            paths[name].append(monitor.path)
    for name, taken in paths.items() if batch == 200 else ():  # of the others, some change most of a graph
        assert taken.count("incremental") >= len(taken) - 1, name  # components make their forest when first needed
