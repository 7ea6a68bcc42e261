"""The list of algorithms, and what importing it loads."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dynstore
from dynstore import algorithms
from dynstore.adapters import networkx
from dynstore.adapters.cugraph import own
from dynstore.adapters.networkx.offers import OFFERS
from dynstore.algorithms import ALGORITHMS, find_algorithm
from dynstore.algorithms.paged import native
from dynstore.algorithms.tracking import TRACKED
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


def test_records_say_where_the_kernels_are() -> None:
    """For each device and form; those for CUDA are compiled by ``make ptx``."""
    digests = json.loads((ROOT / "tests" / "ptx" / "digests.json").read_text(encoding="utf-8"))["kernels"]
    slabs = {side: importlib.import_module(f"dynstore.algorithms.slabs.{side}").__all__ for side in ("cpu", "cuda")}
    for name, record in ALGORITHMS.items():
        family = f"dynstore.algorithms.{record.family}"
        kernels = [".".join(filter(None, (family, side, record.kernels))) for side in ("cpu", "cuda")]
        on_host, on_gpu = (set(importlib.import_module(module).__all__) for module in kernels)
        assert on_host & on_gpu, kernels
        by_row = (ROOT / "algorithms" / record.family / "by_row.py").read_text(encoding="utf-8")
        asked = f'kernels("{family}", "{record.kernels}")' if record.kernels else f'kernels("{family}")'
        assert asked in by_row, "the record names other kernels than those that run"
        files = [*(ROOT / "algorithms" / record.family).glob("cuda*")]
        texts = [
            path.read_text(encoding="utf-8")
            for file in files
            for path in ([file] if file.is_file() else file.glob("*.py"))
        ]
        assert set(re.findall(r"^def (k_\w+)", "\n".join(texts), flags=re.MULTILINE)) <= set(digests)
        assert {side: name in names for side, names in slabs.items()} == dict.fromkeys(slabs, "slabs" in record.forms)
        assert (name in native.__all__) == ("paged" in record.forms)


def test_records_say_what_is_tracked_and_served() -> None:
    assert set(TRACKED) == {name for name, record in ALGORITHMS.items() if record.tracked}
    served = {name for record in ALGORITHMS.values() for name in record.cugraph}
    assert served >= NAMES
    assert all(own.has_own_kernels(name) for name in served)
    assert not own.has_own_kernels("louvain")
    on_algorithms = {name for record in ALGORITHMS.values() for name in record.networkx}
    assert set(OFFERS) - on_algorithms == {"degree_centrality", "in_degree_centrality", "out_degree_centrality"}
    assert on_algorithms <= set(OFFERS)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_records_say_which_columns_there_are(name: str) -> None:
    record = ALGORITHMS[name]
    for weights, ids in ((None, "int32"), ("float32", "int64"), ("float64", "int32")):
        if record.needs_weights and weights is None:
            continue
        options = {} if weights is None else {"weighted": True, "weight_dtype": weights}
        G = dynstore.DynamicGraph(not record.needs_undirected, device="cpu", vertex_dtype=ids, **options)
        G.insert_edges(([0, 1], [1, 2]), **({} if weights is None else {"default_weight": 1.0}))
        frame = record.function(G, **record.example)
        dtypes = {"vertex": ids, "weight": weights or "float32"}
        wanted = {column: dtypes.get(kind, kind) for column, kind in record.columns.items()}
        assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == wanted
        assert list(frame.columns) == list(wanted)


def test_adapters_call_algorithms_through_one_door() -> None:
    """No adapter names kernels of an algorithm, or what a family has beside its public functions."""
    found = []
    for path in sorted((ROOT / "adapters").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        inner = re.findall(r"dynstore\.algorithms\.(?!rows)\w+\.(?:api|by_row|tracked|cpu|cuda)\b", source)
        kernels = re.findall(r"kernels\(\s*\"dynstore\.algorithms", source)
        found += [f"{path.relative_to(ROOT)}: {each}" for each in (*inner, *kernels)]
    assert found == []


def test_a_call_of_networkx_returns_the_tracked_answer() -> None:
    nx = pytest.importorskip("networkx")
    graph = networkx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])
    store = networkx.store_of(graph)
    triangles, components = store.track("triangle_count"), store.track("weakly_connected_components")
    graph.remove_edge(0, 1)
    assert nx.triangles(graph) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert dynstore.explain(store).name == "triangle_count"
    assert "tracked" in dynstore.explain(store).reason
    assert nx.number_connected_components(graph) == 1
    assert dynstore.explain(store).name == "weakly_connected_components"
    assert "tracked" in dynstore.explain(store).reason
    assert triangles.version == components.version == store.version


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
