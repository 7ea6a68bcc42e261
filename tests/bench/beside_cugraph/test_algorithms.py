"""The suite of algorithms alone: all ways are timed and agree, and what differs is found out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from benchmarks.beside_cugraph import algorithms
from benchmarks.beside_cugraph.algorithms import ALGORITHMS, Case, main, make_edges
from dynstore.algorithms.components.cpu import labels
from dynstore.backend import get_backend
from dynstore.bench.schema import check_document

SMALL = ["--device", "cpu", "--scale", "8", "--repeats", "2"]
WAYS = ("dynstore", "kernels, gapped", "kernels, packed")


@pytest.mark.parametrize("ids", ["degree", "arbitrary"])
def test_every_way_is_timed_and_agrees(ids: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert main([*SMALL, "--ids", ids, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    check_document(document)
    assert document["agree"]
    assert document["dataset"]["name"] == f"rmat:8:16, ids {ids}"
    found = {(row["store"], row["algorithm"]) for row in document["rows"]}
    directed = {(f"{way}, directed", name) for way in WAYS for name in ALGORITHMS if name != "triangle_count"}
    assert found == directed | {(f"{way}, symmetric", name) for way in WAYS for name in ALGORITHMS}
    assert {row["steps"] for row in document["rows"]} == {2}
    assert f"symmetric, ids {ids}: DynamicGraph(undirected weighted, 256 vertices" in capsys.readouterr().out


def test_other_results_are_found_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    label = labels.label_components

    def mislabel(out: Any, symmetric: bool) -> Any:
        labels = label(out, symmetric)
        labels[-1] = out.num_slots == out.num_edges  # only the packed copy has no gaps
        return labels

    monkeypatch.setattr(labels, "label_components", mislabel)
    assert main([*SMALL, "--algorithm", "weakly_connected_components"]) == 1
    assert "results of kernels, packed are not those of kernels, gapped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "directed"),
    [(name, directed) for name in ALGORITHMS for directed in (True, False) if not directed or name != "triangle_count"],
)
def test_another_library_is_called_on_the_same_graph(name: str, directed: bool) -> None:
    """A library with cuGraph's interface, which is dynstore once more, rows turned round; then one that is wrong."""
    backend = get_backend("cpu")
    algorithm = ALGORITHMS[name]
    edges = make_edges(backend, 7, 8, 1, True, algorithm.weighted)
    case = Case(backend, edges, 1 << 7, directed)

    class Graph:
        def __init__(self, directed: bool) -> None:
            self.directed = directed

        def from_cudf_edgelist(
            self, frame: pd.DataFrame, source: str, destination: str, edge_attr: str | None, **options: Any
        ) -> None:
            assert options["store_transposed"] == (name == "pagerank")
            columns = [source, destination] if edge_attr is None else [source, destination, edge_attr]
            weighted = edge_attr is not None
            self.graph = dynstore.DynamicGraph(self.directed, weighted, device="cpu")
            report = self.graph.insert_edges(tuple(frame[column].to_numpy() for column in columns))
            assert report.inserted == len(frame) == case.G.number_of_edges()
            self.graph.insert_vertices(options["vertices"].to_numpy())

    def call(G: Graph, **arguments: Any) -> Any:
        result = getattr(dynstore, name)(G.graph, **arguments)
        return (result[0][::-1], result[1]) if isinstance(result, tuple) else result[::-1]

    def call_wrongly(G: Graph, **arguments: Any) -> Any:
        result = call(G, **arguments)
        frame = (result[0] if isinstance(result, tuple) else result).copy()
        frame["vertex"] = np.roll(frame["vertex"].to_numpy(), 1)
        return frame

    has_theirs = not directed or "cugraph" in algorithm.directed
    times, problem = algorithms._measure(case, name, SimpleNamespace(Graph=Graph, **{name: call}), 1)
    assert problem is None
    assert set(times) == {*WAYS, *(["cuGraph"] if has_theirs else [])}
    _, problem = algorithms._measure(case, name, SimpleNamespace(Graph=Graph, **{name: call_wrongly}), 1)
    assert problem == ("results of cuGraph are not those of dynstore" if has_theirs else None)


def test_ids_by_falling_degree_and_whole_weights() -> None:
    backend = get_backend("cpu")
    src, dst, weights = make_edges(backend, 8, 16, 1, True, True)
    degrees = np.bincount(src, minlength=256) + np.bincount(dst, minlength=256)
    assert (np.diff(degrees) <= 0).all()
    assert set(weights.tolist()) == set(range(1, 101))
    by_pair = {}
    for u, v, weight in zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True):
        assert by_pair.setdefault((min(u, v), max(u, v)), weight) == weight
    arbitrary = make_edges(backend, 8, 16, 1, False, False)
    assert len(arbitrary) == 2
    assert not (np.diff(np.bincount(np.concatenate(arbitrary), minlength=256)) <= 0).all()
