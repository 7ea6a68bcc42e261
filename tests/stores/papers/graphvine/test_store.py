"""What is GraphVine's own: trees, the queue, holes, memory, launches."""

from __future__ import annotations

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.errors import InputError, OutOfMemoryError
from dynstore.testing.pair import Pair


def make(device, **options):
    return Pair(store="graphvine", device=device, **options)


def check_blocks(graph):
    """Each row's blocks form a complete tree in level order; every block is in one row or in the queue, and once."""
    host, store = graph.core.backend.to_host, graph.core.out
    blocks, num_rows = store._blocks, store.num_vertices
    degrees, written, roots, lasts, pool, queue = (
        host(getattr(blocks, name)) for name in ("degrees", "written", "roots", "lasts", "pool", "queue")
    )
    children = host(blocks.children).reshape(-1, 2)
    size = blocks.size
    assert roots.shape[0] & (roots.shape[0] - 1) == 0
    assert not written[num_rows:].any()
    used = []
    for row in range(roots.shape[0]):
        count = -(-int(written[row]) // size)
        level_order = [int(roots[row])] if roots[row] >= 0 else []
        for block in level_order:
            left, right = children[block].tolist()
            assert right < 0 or left >= 0
            level_order += [child for child in (left, right) if child >= 0]
        assert len(level_order) == count
        for number in range(2, count + 1):  # the digits behind the first lead to the block
            block = level_order[0]
            for digit in bin(number)[3:]:
                block = children[block, int(digit)]
            assert block == level_order[number - 1]
        assert lasts[row] == (level_order[-1] if count else -1)
        entries = [pool[block * size + k] for block in level_order for k in range(size)][: written[row]]
        live = [entry for entry in entries if entry >= 0]
        assert len(live) == len(set(live)) == degrees[row]
        assert not store.options.compaction or len(live) == len(entries)
        used += level_order
    free = [int(queue[(blocks.front + k) % len(queue)]) for k in range(blocks.num_free)]
    assert sorted(used + free) == list(range(len(queue)))
    assert (children[free] == -1).all()
    assert blocks.num_entries == written.sum()
    assert store._num_edges == degrees.sum()


@pytest.mark.parametrize("compaction", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_trees_stay_complete_whatever_comes(backend_name, compaction, weighted):
    pair = make(backend_name, weighted=weighted, compaction=compaction, block_size=2)
    rng = np.random.default_rng(3)
    size, steps = (12, 5) if backend_name == "cuda-sim" else (80, 30)
    for step in range(steps):
        weights = (rng.integers(0, 9, size) / 2,) if weighted else ()
        pair.insert(*rng.integers(0, 6, (1, size)), rng.integers(0, 40, size), *weights)
        check_blocks(pair.graph)
        pair.delete(*rng.integers(0, 6, (1, size)), rng.integers(0, 40, size))
        check_blocks(pair.graph)
        if step % 10 == 9:
            pair.update("delete_vertices", [0, 1, 2])
            check_blocks(pair.graph)
    pair.check_queries()


def test_devices_take_the_same_blocks(backend_name):
    graphs = [DynamicGraph(store="graphvine", device=device, block_size=2) for device in ("cpu", backend_name)]
    rng = np.random.default_rng(4)
    for _ in range(4):
        batch, gone = (rng.integers(0, 5, (2, 30)) * 3 for _ in range(2))
        for graph in graphs:
            graph.insert_edges(tuple(batch))
            graph.delete_edges(tuple(gone))
        first, second = (graph.core.out._blocks for graph in graphs)
        assert (first.front, first.num_free, first.num_entries) == (second.front, second.num_free, second.num_entries)
        for name in ("degrees", "written", "roots", "lasts", "children", "queue"):
            np.testing.assert_array_equal(getattr(first, name), graphs[1].core.backend.to_host(getattr(second, name)))


def test_an_edge_is_looked_for_before_it_is_appended():
    pair = make("cpu")
    pair.insert([0] * 10, range(10))
    blocks = pair.graph.core.out._blocks
    assert pair.insert([0] * 12, range(12)).replaced == 10
    assert pair.graph.core.out._blocks.num_entries == 12
    assert blocks.degrees[0] == 12


def test_the_block_size_is_the_first_batch_s_average_degree():
    pair = make("cpu")
    pair.insert(np.repeat([2, 5, 900], 20), np.tile(np.arange(20), 3))
    assert pair.graph.core.out._blocks.size == 20
    pair.insert(np.full(5, 1), np.arange(5))
    assert pair.graph.core.out._blocks.size == 20
    assert make("cpu", block_size=7).graph.core.out._blocks.size == 7
    other = make("cpu")
    other.insert([0], [1])
    assert other.graph.core.out._blocks.size == 4


@pytest.mark.parametrize("refill_at", [0.5, 0.8, 1.0])
def test_the_queue_is_refilled_before_it_runs_dry(refill_at):
    pair = make("cpu", block_size=4, refill_at=refill_at, refill=0.25)
    for start in range(0, 2000, 50):
        pair.insert(np.arange(start, start + 50) % 13, np.arange(start, start + 50))
        blocks = pair.graph.core.out._blocks
        assert blocks.num_used <= refill_at * blocks.num_blocks
        assert blocks.num_blocks <= 1.3 / refill_at * blocks.num_used + 20
    check_blocks(pair.graph)


def test_nothing_is_reserved_unless_asked_for():
    graph = DynamicGraph(store="graphvine", device="cpu")
    assert graph.memory_usage()["free_blocks"] == 0
    graph = DynamicGraph(store="graphvine", device="cpu", reserve_bytes=1 << 20, weighted=True)
    pool = graph.core.out._blocks.pool
    assert graph.memory_usage()["free_blocks"] == 1 << 20
    src, dst = np.divmod(np.arange(10_000), 100)
    assert not graph.insert_edges((src, dst), default_weight=1.0).grown
    usage = graph.memory_usage()
    assert usage["blocks"] + usage["free_blocks"] == 1 << 20
    assert graph.core.out._blocks.pool is pool
    assert graph.core.out._blocks.size == 100
    graph.clear()
    assert graph.core.out._blocks.pool is pool


def test_blocks_are_given_back():
    pair = make("cpu")
    src, dst = np.divmod(np.arange(20_000), 100)
    pair.insert(src, dst)
    full = pair.graph.memory_usage()
    pair.delete(src[500:], dst[500:])
    assert pair.graph.memory_usage()["blocks"] < full["blocks"] / 30
    pair.delete([0], [0])
    usage = pair.graph.memory_usage()
    assert usage["blocks"] + usage["free_blocks"] < full["blocks"] / 20
    check_blocks(pair.graph)


def test_marked_holes_are_bounded():
    pair = make("cpu", compaction=False)
    for start in range(0, 20_000, 500):
        keys = np.arange(start, start + 500)
        pair.insert(keys % 7, keys)
        if start >= 1000:
            pair.delete((keys - 1000) % 7, keys - 1000)
        blocks = pair.graph.core.out._blocks
        assert blocks.num_entries <= 4000
    check_blocks(pair.graph)


def test_a_hub_is_read_by_many_warps(backend_name):
    """More than 32 blocks, so more than one stretch, and more stretches than warps in the simulator."""
    count = 300 if backend_name == "cuda-sim" else 5000
    pair = make(backend_name, block_size=2)
    pair.insert(np.zeros(count, int), np.arange(count))
    report = pair.insert(np.r_[np.zeros(20, int), 1], np.r_[np.arange(count - 10, count + 10), 3])
    assert (report.inserted, report.replaced) == (11, 10)
    assert pair.delete(np.zeros(count // 2, int), np.arange(0, count, 2)).deleted == count // 2
    check_blocks(pair.graph)


def test_only_rows_that_were_touched_are_read_again(backend_name, monkeypatch):
    pair = make(backend_name, weighted=True)
    src, dst = np.divmod(np.arange(60), 6)
    pair.insert(src, dst, src / 2)
    store, seen = type(pair.graph.core.out), []
    read = store._read_rows
    monkeypatch.setattr(
        store, "_read_rows", lambda self, rows: (seen.append(self.backend.to_host(rows).tolist()), read(self, rows))[1]
    )
    pair.insert([4, 9, 4], [50, 1, 51], [1.0, 2.0, 3.0])
    pair.delete([2], [3])
    assert seen == [[4, 9], [2]]


def test_a_table_that_does_not_fit_changes_nothing(backend_name, monkeypatch):
    pair = make(backend_name, weighted=True)
    pair.insert([0, 1, 1], [3, 2, 0], [1.0, 2.0, 3.0])
    pair.graph.insert_edges(([1, 4], [5, 0], [4.0, 5.0]))
    pair.model.insert_edges(([1, 4], [5, 0], [4.0, 5.0]))
    empty = pair.graph.core.backend.empty
    message = r"store 'graphvine': memory ran out for a table of 5 edges \(no more\); the graph is as it was"
    for good in range(5):
        left = iter(range(good))

        def failing(shape, dtype, left=left):
            if next(left, None) is None:
                raise MemoryError("no more")
            return empty(shape, dtype)

        with monkeypatch.context() as patch:
            patch.setattr(pair.graph.core.backend, "empty", failing)
            with pytest.raises(OutOfMemoryError, match=message):
                pair.graph.snapshot()
    pair.check_queries()
    pair.check()


def test_queries_read_the_blocks(backend_name):
    graph = DynamicGraph(store="graphvine", device=backend_name, weighted=True)
    graph.insert_edges(([0, 0, 3], [4, 2, 1], [1.0, 2.0, 3.0]))
    host = graph.core.backend.to_host
    asked = ([7, 0, 3, 0, 0], [7, 4, 0, 4, 2])
    assert host(graph.has_edges(asked)).tolist() == [False, True, False, True, True]
    np.testing.assert_array_equal(host(graph.edge_weights(asked)), [np.nan, 1, np.nan, 1, 2])
    assert host(graph.successors(0)).tolist() == [2, 4]
    assert graph.core.out._is_stale
    assert graph.memory_usage()["dst"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size is 0; wanted an int from 1 to 1048576"),
        ({"block_size": 2.5}, "block_size is 2.5; wanted an int"),
        ({"reserve_bytes": -1}, "reserve_bytes is -1; wanted an int from 0 to"),
        ({"refill_at": 0.0}, "refill_at is 0.0; wanted a number between 0.1 and 1.0"),
        ({"refill": "x"}, "refill is 'x'; wanted a number"),
        ({"compaction": 1}, "compaction is 1; wanted True or False"),
        ({"blocks": 1}, "unknown parameter 'blocks'; known: 'directed', "),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        DynamicGraph(store="graphvine", device="cpu", **options)
    assert message in str(caught.value)


def test_launches_do_not_depend_on_the_batch(device, launches):
    """At most 13 kernels insert, at most 16 delete, whatever the batch, with its sort; prefix sums between them."""
    rng = np.random.default_rng(9)
    graph = DynamicGraph.from_edges(tuple(rng.integers(0, 60, (2, 250))), store="graphvine", device=device)
    for size in (2, 40):
        for update, most in ((graph.insert_edges, 13), (graph.delete_edges, 16)):
            launches.clear()
            assert update(tuple(rng.integers(0, 60, (2, size)))).path == "in-place"
            assert len(launches) == len(set(launches)) <= most, launches
