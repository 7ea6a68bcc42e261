"""The list of algorithms, and what importing it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dynstore
from dynstore import algorithms
from dynstore.algorithms import ALGORITHMS, find_algorithm
from dynstore.errors import InputError, InputTypeError

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"betweenness_centrality", "bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"}


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_public_function_is_registered() -> None:
    assert set(ALGORITHMS) == NAMES
    assert set(algorithms.__all__) == NAMES | {"ALGORITHMS", "Monitor", "find_algorithm", "track"}
    for name, record in ALGORITHMS.items():
        assert record.name == name
        assert record.function is getattr(algorithms, name) is getattr(dynstore, name)
        assert record.paper
        assert find_algorithm(name) is record


def test_records_say_what_a_graph_must_have() -> None:
    assert {name for name, record in ALGORITHMS.items() if record.needs_undirected} == {"triangle_count"}
    assert {name for name, record in ALGORITHMS.items() if record.needs_weights} == {"sssp"}
    assert {name for name, record in ALGORITHMS.items() if record.uses_in_edges} == {"pagerank"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_second_orientation_is_made_by_those_that_say_so(name: str) -> None:
    record = ALGORITHMS[name]
    graph = dynstore.DynamicGraph(directed=not record.needs_undirected, weighted=record.needs_weights, device="cpu")
    graph.insert_edges(([0, 1], [1, 2]), default_weight=1.0)
    record.function(graph, *([0] if name in ("bfs", "sssp") else []))
    assert any(part.startswith("in_") for part in graph.memory_usage()) == record.uses_in_edges


def test_unknown_names_get_a_guess() -> None:
    with pytest.raises(InputError, match=r"unknown algorithm 'pagrank'.*Did you mean 'pagerank'"):
        find_algorithm("pagrank")
    with pytest.raises(AttributeError, match="no attribute 'louvain'"):
        _ = algorithms.louvain


@pytest.mark.parametrize("name", sorted(NAMES))
def test_only_dynamic_graphs_are_accepted(name: str) -> None:
    with pytest.raises(InputTypeError, match=f"{name}: G is a dict; wanted a dynstore.DynamicGraph"):
        getattr(dynstore, name)({})


def test_importing_loads_no_kernel_and_no_frame_library() -> None:
    code = (
        "import sys, dynstore.algorithms as a; assert 'dynstore.algorithms.traversal.api' not in sys.modules; "
        "assert len(a.ALGORITHMS) == 6; "
        "print([m for m in ('numba', 'pandas', 'cupy', 'cudf', 'networkx', 'scipy') if m in sys.modules])"
    )
    done = _python(code)
    assert done.stdout.strip() == "[]", done.stderr


def test_folder_cannot_be_imported_by_its_own_name() -> None:
    done = _python("import algorithms")
    assert done.returncode != 0
    assert "ImportError: algorithms: this folder is a part of dynstore" in done.stderr
