"""``frames=``: all results come in the library that was asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dynstore
from dynstore import DynamicGraph
from dynstore.algorithms import ALGORITHMS
from dynstore.errors import InputError, MissingDependencyError
from dynstore.input.frames import make_frame
from dynstore.typing import Frames
from tests.conftest import DEVICES
from tests.crossed import crossed
from tests.graph.cases import make_graph
from tests.libraries import FRAMES, frame_type


def _results(G: DynamicGraph) -> dict[str, Any]:
    """Return the result of whatever gives a frame."""
    first = next(iter(G))
    arguments: dict[str, Any] = {"bfs": (first,), "sssp": (first,)}
    calls = {name: getattr(dynstore, name)(G, *arguments.get(name, ())) for name in ALGORITHMS}
    calls["triangle_count of some"] = dynstore.triangle_count(G, [first])
    followed = {"bfs": {"start": first}, "sssp": {"source": first}}
    for name in ("bfs", "pagerank", "sssp", "triangle_count", "weakly_connected_components"):
        calls[f"tracked {name}"] = G.track(name, **followed.get(name, {})).result()
    for name in ("degree", "in_degree", "out_degree"):
        calls[name], calls[f"{name} of some"] = getattr(G, name)(), getattr(G, name)([first])
    return calls | {"edge_table": G.edge_table(), "k_hop": G.k_hop(first, 1)}


@crossed(frames=list(FRAMES), ids=["dense", "strings"], backend_name=DEVICES)
def test_every_result_is_of_the_library(frames: str, ids: str, backend_name: str) -> None:
    frame_type(frames)  # skips where the library is not installed
    G = _positive(make_graph("merge", backend_name, directed=False, weighted=True, ids=ids, frames=frames))
    plain = G.copy()
    plain.core.frames = "pandas"
    wanted = _results(plain)
    for name, frame in _results(G).items():
        assert type(frame) is frame_type(frames), name
        found = frame if frames == "pandas" else frame.to_pandas()
        if ids == "strings":  # pandas 2 makes None of Arrow's nulls
            found = found.mask(found.isna())
        pd.testing.assert_frame_equal(found, wanted[name], check_dtype=ids != "strings", obj=name)


def _positive(G: DynamicGraph) -> DynamicGraph:
    columns = G.edge_columns()
    G.insert_edges((columns["source"], columns["destination"], abs(columns["weight"])))
    return G


@pytest.mark.parametrize("frames", FRAMES)
def test_no_rows_and_no_ids(frames: str) -> None:
    kind = frame_type(frames)
    G = DynamicGraph(renumber=True, weighted=True, frames=frames, device="cpu")
    assert type(G.degree()) is kind
    assert G.edge_table().shape == (0, 3)
    G.insert_edges((["a"], ["b"], [1.0]))
    G.delete_vertices(["a", "b"])
    assert G.edge_table().shape == (0, 3)
    predecessors = dynstore.bfs(G, "a")["predecessor"]  # there are none: nulls among strings
    nulls: Any = {"pandas": "isna", "polars": "is_null", "pyarrow": "is_null"}
    found = getattr(predecessors, nulls[frames])()
    assert (found.to_pylist() if frames == "pyarrow" else found.to_list()) == [True, True]


def test_strings_have_one_dtype_with_and_without_rows() -> None:
    G = DynamicGraph(renumber=True, frames="pandas", device="cpu")
    G.insert_edges([("a", "b")])
    wanted = pd.Series(["a"]).dtype
    for _ in range(2):
        assert G.edge_table().dtypes.tolist() == [wanted, wanted]
        assert dynstore.bfs(G, "b")["predecessor"].dtype == wanted  # it has nulls alone
        G.delete_edges([("a", "b")])
    assert len(G.edge_table()) == 0


def test_the_default_is_pandas_on_the_host() -> None:
    G = DynamicGraph(device="cpu")
    assert G.core.frames == "auto"
    assert type(G.degree()) is pd.DataFrame


@pytest.mark.parametrize("frames", FRAMES)
def test_to_pandas_and_its_like_are_what_they_say(frames: str) -> None:
    frame_type(frames)
    G = DynamicGraph(frames=frames, device="cpu")
    G.insert_edges(([0], [1]))
    assert type(G.to_pandas()) is pd.DataFrame
    assert type(G.to_arrow()) is pa.Table
    polars = pytest.importorskip("polars")
    assert type(G.to_polars()) is polars.DataFrame


@pytest.mark.parametrize("frames", FRAMES)
def test_frames_go_back_in(frames: str) -> None:
    frame_type(frames)
    if True:
        G = DynamicGraph(weighted=True, frames=frames, device="cpu")
        G.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
        H = DynamicGraph.from_edges(G.edge_table(), weight="weight", frames=frames, device="cpu")
        assert H.to_pandas().equals(G.to_pandas())
        assert G.k_hop(G.k_hop(0, 1)["vertex"], 1).shape == (3, 2)
        nstart = make_frame(G.core.backend, {"vertex": G.vertex_ids(), "values": G.vertex_ids() + 1}, G.core.frames)
        assert dynstore.pagerank(G, nstart=nstart, tol=1e-3).shape == (3, 2)


def test_wrong_names() -> None:
    with pytest.raises(InputError, match=r"DynamicGraph: unknown frames 'polar'; known: .* Did you mean 'polars'\?"):
        DynamicGraph(frames="polar", device="cpu")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="DynamicGraph: unknown frames None"):
        DynamicGraph(frames=None, device="cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frames", "line"), [("cudf", "'dynstore[rapids]'"), ("polars", "polars"), ("pyarrow", "pyarrow")]
)
def test_a_missing_library_is_named_at_once(frames: Frames, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynstore.input.frames._is_installed", lambda library: False)
    wanted = f"DynamicGraph: frames is {frames!r}, which is not installed; to install it: pip install {line}"
    with pytest.raises(MissingDependencyError, match=re.escape(wanted)):
        DynamicGraph(frames=frames, device="cpu")


def test_one_place_makes_frames() -> None:
    """Whoever makes a frame of results for a graph asks for the graph's library."""
    root = Path(dynstore.__file__).parent
    calls = [
        (path.name, line.strip())
        for folder in (root / "graph", root / "algorithms")
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "make_frame(" in line
    ]
    assert len(calls) > 8
    assert [call for call in calls if "frames)" not in call[1]] == []
