"""Updates of both orientations on CUDA: in-edges are written at once, then the out-edges, or neither."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import OutOfMemoryError, StaleSnapshotError
from dynstore.testing.faults import for_every_allocation, for_every_kernel
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import Pair, same_arrays
from tests.crossed import thorough
from tests.stores.planned import plan_updates

SRC, DST = np.divmod(40 * np.arange(600, dtype=np.int32), 400)
BATCH = SRC[100::100], DST[100::100] + np.int32(1)
HUB = np.full(130, 7, np.int32), np.arange(130, dtype=np.int32)


def export(graph, transposed):
    """Return arrays that have updates of one orientation planned, for as long as they live."""
    return graph.snapshot(transposed).export()


@pytest.mark.parametrize(
    ("exported", "options"),
    [
        *((exported, {}) for exported in (None, False, True)),
        (None, {"renumber": True}),
        (True, {"renumber": True}),
        (False, {"weighted": True}),
        (True, {"vertex_dtype": np.int64}),
        thorough(False, {"renumber": True}),
        *(thorough(exported, {"weighted": True}) for exported in (None, True)),
        *(thorough(exported, {"vertex_dtype": np.int64}) for exported in (None, False)),
    ],
    ids=str,
)
def test_slots_are_those_that_planned_updates_write(device, exported, options):
    """Whichever orientation has to be planned; also of a hub, of new vertices, and of edges that are not there."""
    graph = DynamicGraph.from_edges(
        (SRC, DST), device=device, merge_cost=0.0, default_weight=1.0, **{"weighted": False, **options}
    )
    graph.snapshot(transposed=True)
    twin = graph.copy()
    log = plan_updates(twin).core.follow()
    for method, batch in (
        ("insert_edges", BATCH),
        ("delete_edges", BATCH),
        ("insert_edges", HUB),
        ("insert_edges", (np.r_[SRC[:5], 401], np.r_[DST[:5] + 2, 3])),
        ("delete_edges", (np.r_[SRC[:5], 0], np.r_[DST[:5] + 2, 17])),
        ("delete_edges", HUB),
    ):  # fmt: skip
        held = None if exported is None else export(graph, exported)
        given = {"default_weight": 1.0} if method == "insert_edges" else {}
        assert getattr(graph, method)(batch, **given) == getattr(twin, method)(batch, **given)
        del held
        check_graph(graph, transposed=True)
        for transposed in (False, True):
            slots = [host_arrays(each.snapshot(transposed)) for each in (graph, twin)]
            assert same_arrays(*slots)
    assert len(log.changes) == 6


def test_out_edges_that_have_to_be_planned_are_so_once_the_in_edges_are_written(device, launches):
    """In-edges that have to be planned have both planned."""
    graph = DynamicGraph.from_edges((SRC, DST), device=device, merge_cost=0.0)
    graph.snapshot(transposed=True)
    held = export(graph, transposed=False)
    launches.clear()
    graph.insert_edges(BATCH)
    planned = ["k_list_rows", "k_plan_lists", "k_write_leaves", "k_merge_wide", "k_write_windows"]
    assert launches == ["k_insert_lists", *planned]
    del held
    held = export(graph, transposed=True)
    launches.clear()
    graph.delete_edges(BATCH)
    assert launches.count("k_find_present") == launches.count("k_clear_located") == 2
    del held
    check_graph(graph, transposed=True)


@pytest.mark.parametrize("fail", [for_every_allocation, for_every_kernel])
@pytest.mark.parametrize("exported", [False, True])
def test_what_fails_leaves_the_graph_as_it_was(device, monkeypatch, fail, exported):
    """Also where the in-edges are written already: they are forgotten, and made again."""
    pair = Pair(device=device, transposed=True, merge_cost=0.0)
    pair.insert(SRC[:300], DST[:300])
    few, hub = (tuple(column[:some] for column in columns) for columns, some in ((BATCH, 3), (HUB, 70)))
    for method, batch in (("insert_edges", few), ("insert_edges", hub), ("delete_edges", hub)):
        held = export(pair.graph, exported)
        assert fail(monkeypatch, pair, method, batch) > 0
        del held


@pytest.mark.parametrize("fail", [for_every_allocation, for_every_kernel])
def test_a_long_chain_of_the_out_edges_alone_leaves_the_graph_as_it_was(device, monkeypatch, fail):
    """The in-edges of ``slab_hash`` are one to a row."""
    pair = Pair(device=device, store="slab_hash", transposed=True)
    pair.insert(SRC, DST)
    assert fail(monkeypatch, pair, "insert_edges", HUB) > 0


def test_in_edges_of_an_update_that_failed_cannot_be_read(device, monkeypatch):
    """They show what is not in the graph; all else can, and who asks again gets the graph's."""
    graph = DynamicGraph.from_edges((SRC, DST), device=device, merge_cost=0.0)
    held, before, into = export(graph, transposed=False), graph.snapshot(), graph.snapshot(transposed=True)
    arrays, turned = host_arrays(before), host_arrays(into.compact())

    def fail(*args):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(graph.core.out), "plan_insert", fail)
        with pytest.raises(OutOfMemoryError, match="the graph is as it was"):
            graph.insert_edges(BATCH)
    assert same_arrays(arrays, host_arrays(before))
    with pytest.raises(StaleSnapshotError, match="until an update failed"):
        into.indices  # noqa: B018
    assert same_arrays(turned, host_arrays(graph.snapshot(transposed=True).compact()))
    check_graph(graph, transposed=True)
    del held
