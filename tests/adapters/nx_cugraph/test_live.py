"""What nx-cugraph reads from a live graph; nx-cugraph and cuGraph are stand-ins. ``test_gpu.py`` has the real ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynstore
import dynstore.adapters.nx_cugraph as adapter
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.nx_cugraph import as_nx_cugraph
from dynstore.errors import InputError, InputTypeError, MissingDependencyError
from tests.adapters.cugraph.stand_ins import LentGraph, rapids

__all__ = ["rapids"]  # a fixture


class CudaGraph:
    """Builds a graph from its columns, as nx-cugraph's does."""

    def _get_plc_graph(self, *args: Any, **options: Any) -> Any:
        return "built", args, options, list(zip(self.src_indices.tolist(), self.dst_indices.tolist(), strict=True))  # type: ignore[attr-defined]


class CudaDiGraph(CudaGraph):
    pass


@pytest.fixture
def library(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    rapids.modules["nx_cugraph"] = SimpleNamespace(CudaGraph=CudaGraph, CudaDiGraph=CudaDiGraph)
    monkeypatch.setattr(adapter, "load_bridge", lambda: rapids.bridge)
    adapter._live_types.cache_clear()
    yield rapids
    adapter._live_types.cache_clear()


def ends(graph: LentGraph) -> list[tuple[Any, ...]]:
    return [edge[:2] for edge in graph.edges()]


def test_it_shows_the_current_version(library: SimpleNamespace) -> None:
    G = dynstore.DynamicGraph(device="cpu", weighted=True)
    G.insert_edges(([1, 2, 2], [2, 3, 1], [1.0, 2.0, 3.0]))
    live = as_nx_cugraph(G)
    assert isinstance(live, CudaDiGraph)
    assert (live._N, live._node_ids.tolist(), live.key_to_id, live._id_to_key) == (4, [0, 1, 2, 3], None, None)
    assert (live.src_indices.tolist(), live.dst_indices.tolist()) == ([1, 2, 2], [2, 1, 3])
    assert live.src_indices.dtype == live.dst_indices.dtype == np.int32
    assert live.src_indices is live.src_indices
    assert live.edge_values["weight"].tolist() == [1.0, 3.0, 2.0]
    assert live.edge_masks == live.node_values == live.node_masks == live.graph == {}
    G.update(insert=([5], [1], [4.0]), delete=([2], [3]))
    assert (live._N, live.src_indices.tolist(), live.dst_indices.tolist()) == (6, [1, 2, 5], [2, 1, 1])
    assert live.edge_values["weight"].tolist() == [1.0, 3.0, 4.0]
    assert live.dynamic_graph is G


@pytest.mark.parametrize("names", [[30, 10, 2**20], ["c", "a", "b"]])
def test_ids_are_its_nodes(library: SimpleNamespace, names: list[Any]) -> None:
    G = dynstore.DynamicGraph(device="cpu", renumber=True, directed=False)
    G.insert_edges((names[:2], names[1:]))
    live = as_nx_cugraph(G)
    assert not isinstance(live, CudaDiGraph)
    assert live.key_to_id == {name: row for row, name in enumerate(live._id_to_key)}
    assert live._id_to_key == list(G)
    assert live.edge_values == {}
    a, b, c = (live.key_to_id[name] for name in names)
    pairs = sorted([(a, b), (b, a), (b, c), (c, b)])
    assert sorted(zip(live.src_indices.tolist(), live.dst_indices.tolist(), strict=True)) == pairs
    assert ends(live._get_plc_graph()) == pairs  # rows, not ids
    G.insert_edges((names[:1], ["new"] if isinstance(names[0], str) else [7]))
    assert len(live.key_to_id) == 4


def test_the_rows_are_borrowed_in_every_orientation(library: SimpleNamespace) -> None:
    G = dynstore.DynamicGraph(device="cpu", weighted=True)
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    live = as_nx_cugraph(G)
    for store_transposed in (False, True):
        for switched in (False, True):
            graph = live._get_plc_graph(store_transposed=store_transposed, switch_indices=switched)
            assert graph.transposed is store_transposed
            assert graph.edges() == ([(1, 0), (2, 1)] if switched else [(0, 1), (1, 2)])
            assert graph.weights is None
    assert live._get_plc_graph("weight", 1, np.float32).edges() == [(0, 1, 1.0), (1, 2, 2.0)]
    assert live._get_plc_graph("weight").edges() == [(0, 1, 1.0), (1, 2, 2.0)]
    assert live._get_plc_graph("cost", 1, np.float32).weights is None  # all edges have the default
    assert dynstore.explain(G).path == "borrowed"
    G.delete_edges(([0], [1]))
    assert live._get_plc_graph().edges() == [(1, 2)]


def test_nx_cugraph_builds_what_is_not_there(library: SimpleNamespace) -> None:
    G = dynstore.DynamicGraph(device="cpu", weighted=True)
    G.insert_edges(([0, 1], [1, 2], [1.0, 2.0]))
    live = as_nx_cugraph(G)

    def built(*args: Any, **options: Any) -> str:
        found = live._get_plc_graph(*args, **options)
        assert found[0] == "built"
        assert found[3] == [(0, 1), (1, 2)]
        assert {**found[2], **options} == found[2]
        call = dynstore.explain(G)
        assert call.path == "rebuilt"
        return call.reason

    assert built(symmetrize="union") == "other edges or weights than the graph's were asked for"
    assert built(edge_array=np.ones(2)) == "other edges or weights than the graph's were asked for"
    assert built("weight", 1, np.float64) == "float64 weights were asked for"
    assert built("cost") == "edges have no 'cost'"
    library.bridge = Bridge(None, "no compiler")
    assert built() == "no compiler"
    library.bridge = Bridge(LentGraph, "a stand-in")
    wide = dynstore.DynamicGraph(device="cpu", renumber=True)
    wide.insert_edges(([2**40], [3]))
    assert as_nx_cugraph(wide)._get_plc_graph()[0] == "built"
    assert dynstore.explain(wide).reason == "its ids are wider than nx-cugraph's"


def test_it_cannot_be_changed(library: SimpleNamespace) -> None:
    live = as_nx_cugraph(dynstore.DynamicGraph(device="cpu"))
    live._sort_edge_indices()  # they are
    changes = [live.clear, live.clear_edges, lambda: live.add_nodes_from([1]), lambda: live._become(live)]
    for change in [*changes, lambda: live._sort_edge_indices("dst")]:
        with pytest.raises(InputError, match="LiveCudaDiGraph: it shows a DynamicGraph; update its dynamic_graph"):
            change()


def test_what_is_no_graph_is_refused(library: SimpleNamespace) -> None:
    with pytest.raises(InputTypeError, match=r"as_nx_cugraph: G is a list; wanted a dynstore\.DynamicGraph"):
        as_nx_cugraph([])  # type: ignore[arg-type]


def test_without_nx_cugraph_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nx_cugraph", None)
    adapter._live_types.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"as_nx_cugraph: nx_cugraph cannot be imported.*pip install nx-"):
        as_nx_cugraph(dynstore.DynamicGraph(device="cpu"))
