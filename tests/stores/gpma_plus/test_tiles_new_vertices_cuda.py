"""Large batches that bring new vertices and do not fit: the graph is as it was, wherever its row starts are.

Where there is no room for more rows, those of the update lie in other memory than the graph's.
"""

from __future__ import annotations

import numpy as np
import pytest

from dynstore.errors import OutOfMemoryError
from dynstore.testing.invariants import check_graph
from tests.stores.gpma_plus.test_tiles_cuda import HALF_FULL, LEAF
from tests.stores.gpma_plus.test_update_cuda import on_device, pairs_of


def make_small_rows(device, tiles, has_room=True, **options):
    """Rows of two edges, 1 and 5; ``has_room`` for more rows, as after the first new vertex."""
    src = np.repeat(np.arange(3 * tiles.TILE_SLOTS // 4), 2)
    graph, _ = on_device((src, np.tile([1, 5], len(src) // 2)), device, **{**HALF_FULL, **options})
    if has_room:
        graph.insert_vertices(np.array([graph.number_of_vertices()]))
    return graph


def insert(graph, keys):
    graph.core.out._num_untried = 0  # whatever had to be sorted before
    return graph.insert_edges(tuple(map(graph.core.backend.asarray, np.asarray(keys).astype(np.int32))))


def three_each(rows):
    """Keys of which the last moves edges of other rows."""
    return np.array([np.repeat(rows, 3), np.tile([2, 3, 7], len(rows))])


def fail(*_):
    raise MemoryError


@pytest.mark.parametrize("has_room", [False, True])
def test_memory_runs_out_after_new_vertices_crowd_a_leaf(device, tiles, launches, monkeypatch, has_room):
    graph = make_small_rows(device, tiles, has_room)
    before, num_vertices = pairs_of(graph), graph.number_of_vertices()
    crowd = [num_vertices + 3 + np.arange(LEAF + 1), np.full(LEAF + 1, 2)]
    batch = np.c_[three_each(np.arange(4, num_vertices - 40, 8)), crowd]
    with monkeypatch.context() as patch:
        patch.setattr("dynstore.stores.gpma_plus.cuda.speculative.start_plan", fail)
        with pytest.raises(OutOfMemoryError):
            insert(graph, batch)
    if device == "cuda-sim":  # scratch for a GPU's blocks has more room
        assert ("k_take_back" in launches) == has_room
    assert pairs_of(graph) == before
    check_graph(graph)
    insert(graph, batch)
    assert pairs_of(graph) == before | set(zip(*batch.tolist(), strict=True))
    check_graph(graph)


@pytest.mark.parametrize("has_room", [False, True])
def test_so_many_leaves_are_listed_that_the_batch_is_planned(device, tiles, launches, has_room):
    """From the slots that the graph had before; some edges are there, and some have moved and were taken back."""
    graph = make_small_rows(device, tiles, has_room, merge_cost=8.0)
    num_vertices = graph.number_of_vertices()
    rows = np.arange(0, num_vertices - 2, 8)
    insert(graph, [np.repeat(rows, 2), np.tile([3, 7], len(rows))])
    before, few, others = pairs_of(graph), rows[: len(rows) // 2], rows[len(rows) // 2 :]
    listed, there = [few, np.full(len(few), 9)], [others + 2, np.ones(len(others), int)]
    new = [[num_vertices, num_vertices + 3, num_vertices + 3, num_vertices + 6], [3, 2, 9, 2]]
    batch = np.c_[listed, three_each(others + 1), there, new]
    launches.clear()
    insert(graph, batch)
    if device == "cuda-sim":  # scratch for a GPU's blocks has more room
        assert ("k_take_back" in launches) == has_room
    assert pairs_of(graph) == before | set(zip(*batch.tolist(), strict=True))
    check_graph(graph)


def test_what_takes_back_is_loaded_before_anything_is_written(device, tiles, launches, monkeypatch):
    """Though there is scratch already: that of a batch which could not be written before all was known of it."""
    from dynstore.stores.gpma_plus.cuda import insert_buckets

    graph = make_small_rows(device, tiles)
    prepared, prepare = [], insert_buckets.prepare

    def record(write):
        start = prepare(write)
        prepared.extend(run.__self__.name for run, *_ in start.args[0])
        return start

    most_new = graph.core.out.slots.room_at(graph.core.out._upper_limits[-1])
    there = np.array(sorted(pairs_of(graph))).T
    insert(graph, np.resize(there.T, (most_new + 1, 2)).T)  # all there already, but they might not be
    row = graph.number_of_vertices() - 20
    crowd = [[row] * (LEAF + 1), [3] * (LEAF + 1)]
    launches.clear()
    monkeypatch.setattr(insert_buckets, "prepare", record)
    insert(graph, np.c_[np.resize(there.T, (most_new - LEAF - 1, 2)).T, crowd])
    assert "k_take_back" in launches
    assert "k_take_back" in prepared
