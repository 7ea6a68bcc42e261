"""dynstore's own kernels behind cuGraph's names, against cuGraph's own functions: needs a GPU with RAPIDS."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import dynstore
from tests.adapters.cugraph.pairs import KINDS, SHAPES, Pair, real

__all__ = ["real"]  # a fixture

# The GPU's libraries warn of their own ways; pytest.ini of this project would make that an error.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def drop_in() -> Any:
    from dynstore.adapters import cugraph

    return cugraph


def calls(pair: Pair) -> list[tuple[str, dict[str, Any]]]:
    """Return calls that own kernels take, and cuGraph, too."""
    import cudf

    ids = KINDS[pair.kind](np.arange(4))
    texts = pair.kind == "strings"
    some = ids.tolist()
    dtype = "int64" if pair.kind == "wide" else pair.graph.vertex_dtype.name
    column = cudf.Series(ids) if texts else cudf.Series(ids, dtype=dtype)
    found: list[tuple[str, dict[str, Any]]] = [
        ("bfs", {"start": some[0]}),
        ("bfs", {"start": some[:2], "depth_limit": 2}),
        ("bfs", {"i_start": column[:1], "depth_limit": 0}),
        ("pagerank", {"tol": 1e-6, "max_iter": 500}),
        ("pagerank", {"alpha": 0.5, "max_iter": 3, "fail_on_nonconvergence": False}),
    ]
    if not texts:
        weights = np.float32 if not pair.weighted else pair.graph.weight_dtype
        favoured = cudf.DataFrame({"vertex": column, "values": cudf.Series([1, 2, 3, 4], dtype=weights)})
        found.append(("pagerank", {"personalization": favoured, "tol": 1e-6, "max_iter": 500}))
        found += [
            ("betweenness_centrality", {"k": some, **options})
            for options in ({}, {"normalized": False}, {"endpoints": True}, {"result_dtype": np.float32})
        ]
        found.append(("betweenness_centrality", {"k": some[:1]}))
    if pair.weighted:
        found += [("sssp", {"source": some[0]}), ("sssp", {"source": some[1], "cutoff": 2.5})]
    if not pair.graph.is_directed():
        found += [("weakly_connected_components", {}), ("connected_components", {}), ("triangle_count", {})]
        if not texts:
            found.append(("triangle_count", {"start_list": column}))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("directed", "weighted"), SHAPES)
def test_own_kernels_return_what_cugraph_returns(
    real: Any, drop_in: Any, kind: str, directed: bool, weighted: bool
) -> None:
    pair = Pair(kind, directed, weighted)
    pair.update()
    for name, given in calls(pair):
        live = drop_in.as_cugraph(pair.graph)
        wanted = getattr(real, name)(live, **given)
        got = getattr(drop_in, name)(live, **given)
        assert dynstore.explain(live).path == "own kernel", f"{name}{given}: {dynstore.explain(live)}"
        compare(name, given, got, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [True, False])
def test_degrees_are_cugraphs(real: Any, drop_in: Any, kind: str, directed: bool) -> None:
    pair = Pair(kind, directed, False)
    pair.update()
    live = drop_in.as_cugraph(pair.graph)
    chosen = [None] if kind == "strings" else [None, KINDS[kind](np.arange(3, 0, -1)).tolist()]
    for name in ("in_degree", "out_degree", "degree", "degrees"):
        for vertices in chosen:
            got = getattr(live, name)(vertices)
            assert dynstore.explain(live).path == "own kernel"
            before = drop_in.set_engine("cugraph")
            try:
                wanted = getattr(live, name)(vertices)
                assert dynstore.explain(live).path == "borrowed"
            finally:
                drop_in.set_engine(before)
            compare(name, {"vertices": vertices}, got, wanted)


def compare(name: str, given: dict[str, Any], got: Any, wanted: Any) -> None:
    """Compare type, columns, dtypes and values; of several shortest paths and of labels any will do."""
    what = f"{name}{given}"
    assert type(got) is type(wanted), what
    if isinstance(wanted, tuple):
        assert got[1] == wanted[1], what
        got, wanted = got[0], wanted[0]
    assert list(got.columns) == list(wanted.columns), what
    assert got.dtypes.tolist() == wanted.dtypes.tolist(), what
    one, other = (frame.to_pandas().sort_values("vertex", ignore_index=True) for frame in (got, wanted))
    for column in wanted.columns:
        mine, theirs = one[column], other[column]
        if column == "predecessor":
            none = "-1" if theirs.dtype.kind not in "iu" else -1
            assert ((mine == none) == (theirs == none)).all(), what
        elif column == "labels":
            pairs = set(zip(mine.tolist(), theirs.tolist(), strict=True))
            assert len(pairs) == mine.nunique() == theirs.nunique(), what
        elif theirs.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6, err_msg=what)
        else:
            assert mine.tolist() == theirs.tolist(), what


def test_cugraph_and_the_drop_in_warn_alike(real: Any, drop_in: Any) -> None:
    """But for ``store_transposed``, of which cuGraph warns by default; a live graph has both orientations."""
    pair = Pair("sparse", False, False)
    live = drop_in.as_cugraph(pair.graph)
    for name, given in calls(pair):
        said = []
        for module in (real, drop_in):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                getattr(module, name)(live, **given)
            said.append({item.category for item in caught if "store_transposed" not in str(item.message)})
        assert said[0] == said[1], f"{name}{given}"
