"""How a live graph is lent: what is copied, what is rebuilt, which function calls, and what is missing."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dynstore
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.cugraph.callers import Caller
from dynstore.adapters.cugraph.graph import as_cugraph
from dynstore.errors import InputError, InputTypeError, MissingDependencyError
from tests.adapters.cugraph.stand_ins import rapids
from tests.adapters.cugraph.test_live import Pair

__all__ = ["rapids"]  # a fixture


def test_explain_tells_what_was_copied(rapids: SimpleNamespace) -> None:
    graph = dynstore.DynamicGraph(device="cpu")
    live = as_cugraph(graph)
    with pytest.raises(InputError, match="nothing was called"):
        dynstore.explain(graph)
    graph.insert_edges(([0, 1], [1, 2]))
    rapids.cugraph.bfs(live)
    call = dynstore.explain(graph)
    assert (call.name, call.path, call.version) == ("bfs", "borrowed", 1)
    assert call.copied_bytes == (4 + 2) * 4
    assert "no order of degree" in call.reason
    rapids.cugraph.bfs(live)
    assert dynstore.explain(live).copied == "nothing: an earlier call packed this version"
    rapids.cugraph.k_core(live)
    assert dynstore.explain(live).name == "k_core"
    live.degree()
    assert dynstore.explain(live).name == "degree"
    live._plc_graph  # noqa: B018
    assert dynstore.explain(live).name == "a call"
    dynstore.bfs(graph, 0)
    assert (
        str(dynstore.explain(graph)) == "bfs on version 1: own kernel; copied: nothing: kernels read the store's slots"
    )
    for odd in (3, None, pd.DataFrame()):
        with pytest.raises(InputTypeError, match=r"wanted a dynstore\.DynamicGraph"):
            dynstore.explain(odd)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_cugraph_does_to_the_numbers_of_a_graph_stays_there(rapids: SimpleNamespace, kind: str) -> None:
    """When cuGraph transposes a graph, it sorts the graph's vertices in place, by the degrees of its new rows."""
    pair = Pair(kind, True, True)
    pair.update()
    live = as_cugraph(pair.graph)
    lent, ids = rapids.cugraph.bfs(live), live.nodes().tolist()
    edges = lent.edges()
    lent.number_map[:] = lent.number_map[::-1].copy()
    assert lent.edges() != edges
    assert rapids.cugraph.bfs(live).edges() == edges
    assert live.nodes().tolist() == ids


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_without_a_library_sggraph_gets_the_rows(rapids: SimpleNamespace, kind: str) -> None:
    rapids.bridge = Bridge(None, "no compiler")
    pair = Pair(kind, True, True)
    pair.update()
    live = as_cugraph(pair.graph)
    built, pulled = rapids.cugraph.bfs(live), rapids.cugraph.pagerank(live)
    assert rapids.cugraph.bfs(live) is built
    call = dynstore.explain(live)
    assert (call.path, call.reason, call.copied_bytes) == ("rebuilt", "no compiler", 0)
    assert (built.store_transposed, pulled.store_transposed) == (False, True)
    assert built.do_expensive_check is False
    ends = built.args[2:]
    if built.input_array_format == "CSR":
        assert kind == "dense"
        ends = np.repeat(np.arange(ends[0].shape[0] - 1), np.diff(ends[0])), ends[1]
    else:
        assert built.vertices_array.tolist() == pair.graph.vertex_ids().tolist()
    columns = (*ends, built.weight_array)
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == pair.both_ways()
    pair.update()
    assert rapids.cugraph.bfs(live) is not built


def test_an_error_while_lending_is_no_missing_attribute(rapids: SimpleNamespace) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise AttributeError("something inside")

    rapids.bridge = Bridge(fail, "failing")
    graph = dynstore.DynamicGraph(device="cpu")
    graph.insert_edges(([0], [1]))
    with pytest.raises(RuntimeError, match="something inside"):
        rapids.cugraph.bfs(as_cugraph(graph))


def test_a_caller_outside_cugraph_wants_out_edges() -> None:
    assert Caller.find() == Caller("a call", False, None)


def test_only_dynamic_graphs_are_taken(rapids: SimpleNamespace) -> None:
    with pytest.raises(InputTypeError, match=r"G is a dict; wanted a dynstore\.DynamicGraph"):
        as_cugraph({})


@pytest.mark.skipif(importlib.util.find_spec("cugraph") is not None, reason="cuGraph is installed here")
def test_without_cugraph_the_line_to_type_is_given() -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'dynstore\[rapids\]'"):
        as_cugraph(dynstore.DynamicGraph(device="cpu"))
