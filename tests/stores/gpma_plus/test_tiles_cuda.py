"""Large batches on CUDA are searched piece by piece: slots, reports and refusals are those of any other search."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dynstore import DynamicGraph
from dynstore.backend import get_backend
from dynstore.errors import InputError, LimitError, OutOfMemoryError
from dynstore.stores.gpma_plus.cuda import insert_buckets
from dynstore.testing.invariants import check_graph, host_arrays
from dynstore.testing.pair import same_arrays
from tests.crossed import thorough
from tests.stores.gpma_plus.test_update_cuda import on_device, pairs_of
from tests.stores.planned import are_planned, plan_updates
from tests.stores.tuned import BY_ROWS, BY_TILES, PARTITIONED, retune

LEAF = 32
# Every other slot is an edge's, so that a test knows what each slot has; all is written in place.
HALF_FULL = {"build_density": 0.5, "root_lower": 0.1, "merge_cost": 0.0, "tuning": BY_TILES}


@pytest.fixture
def delay_first_block(device, monkeypatch):
    """Let the first block of a kernel start once all others wait for it, or are done; in the simulator."""
    if device != "cuda-sim":
        pytest.skip("blocks of a GPU start in any order")
    from dynstore.cuda import simulator

    run_blocks = simulator.run_blocks

    def delay(delayed):
        def run(name, blocks):
            if name == delayed:
                for block in blocks[1:] * 200:
                    if block.threads:
                        block.advance()
            run_blocks(name, blocks)

        monkeypatch.setattr(simulator, "run_blocks", run)

    return delay


@pytest.fixture
def widen_ranges(partition, monkeypatch):
    """Let a range of rows be of more than one piece, as in graphs of more pieces than ranges."""

    def widen(bits):
        monkeypatch.setattr(partition, "_choose_shift", lambda slots: partition.TILE_BITS + bits)

    return widen


def make_hub(device, tiles, dtype=np.int32, **options):
    """Vertex 5 has edges in three pieces of four, the last of which has three leaves; the first row is empty.

    The edges of each row are 1, 5, 9, ...
    """
    each = tiles.TILE_SLOTS // 2
    rest = each // 2 - 5 + 3 * LEAF // 2
    return make_rows(device, tiles, [(2, 5), (5, 5 * each // 2), *_small_rows(8, rest)], dtype, **options)


def _small_rows(first, num_edges):
    rows = [(first + i, 7) for i in range(num_edges // 7)]
    return [*rows, (first + len(rows), num_edges % 7)]


def make_bounded(device, tiles, dtype=np.int32):
    """Rows end where pieces do, and empty ones follow; a row has but the first slot of a piece."""
    each = tiles.TILE_SLOTS // 2
    return make_rows(device, tiles, [(3, each), (6, each), (7, 1), (9, each - 1), (12, 3 * LEAF // 2)], dtype)


def make_rows(device, tiles, rows, dtype, **options):
    src = np.repeat(*np.transpose(rows))
    dst = np.concatenate([4 * np.arange(size) + 1 for _, size in rows])
    options = {**HALF_FULL, **options}
    graph, _ = on_device((src.astype(dtype), dst.astype(dtype)), device, vertex_dtype=dtype, **options)
    graph.insert_vertices(np.array([6 * tiles.TILE_SLOTS - 1], dtype))
    slots = host_arrays(graph.snapshot())
    assert (slots["mask"] == (np.arange(2 * len(src)) % 2 == 0)).all()
    assert tiles.count_tiles(graph.core.out.slots) == 4
    return graph


def edges_of_slots(graph, slots):
    """The edges that stand in some slots, dead or not."""
    arrays = host_arrays(graph.snapshot())
    return np.array([arrays["sources"][slots], arrays["indices"][slots]])


def absent_keys(graph, first, num_slots):
    """Keys next to the edges in every other slot of one row's leaves, three each, which belong to these leaves."""
    row, column = edges_of_slots(graph, np.arange(first, first + num_slots, 2))
    return np.array([np.repeat(row, 3), (column[:, None] + [1, 2, 3]).ravel()])


def keys_at_borders(graph, tiles):
    """Edges in the slots around each piece's first, and what is next to them: keys of all states, none twice."""
    size, most = graph.core.out.slots.num_slots, graph.number_of_vertices() - 1
    borders = np.r_[np.arange(0, size, tiles.TILE_SLOTS), size]
    slots = np.unique(np.clip(borders[:, None] + np.arange(-2, 3), 0, size - 1))
    row, column = edges_of_slots(graph, slots)
    near = [(row, column), (row, column - 1), (row, column + 1), (row - 1, np.full_like(row, most)), (row + 1, 0 * row)]
    return np.unique(np.clip(np.concatenate(near, axis=1), 0, most), axis=1)


@pytest.fixture
def compare(launches, sorts):
    """Return what updates a graph, a twin that is searched in the slots' own memory, and a set of edges."""

    twins = {}

    def update(name, graph, edges):
        """Return the report, and whether the batch was sorted."""
        if graph not in twins:
            twins[graph] = retune(plan_updates(graph.copy(), False), **BY_ROWS)
        twin = twins[graph]
        batch, before = tuple(map(graph.core.backend.asarray, edges)), pairs_of(graph)
        graph.core.out._num_untried = twin.core.out._num_untried = 0  # whatever had to be sorted before
        launches.clear()
        sorts.clear()
        store, num_rows = graph.core.out, len(batch[0]) * (1 if graph.is_directed() else 2)
        is_planned = are_planned(graph) or bool(store.slots.pins)
        may_not_fit = num_rows > store.slots.room_at(store._upper_limits[-1])
        by_rows = name == "insert_edges" and (is_planned or may_not_fit)
        report = getattr(graph, name)(batch)
        by_tiles = {"insert_edges": "k_list_pieces", "delete_edges": "k_find_pieces"}[name]
        assert ("k_list_rows" if by_rows else by_tiles) in launches
        was_sorted, was_taken_back = len(sorts) > 0, "k_take_back" in launches
        launches.clear()
        assert getattr(twin, name)(batch) == report
        assert not {"k_list_pieces", "k_find_pieces"} & set(launches)
        if was_taken_back:  # what had moved has stayed there
            del twins[graph]
        assert was_taken_back or same_arrays(host_arrays(graph.snapshot()), host_arrays(twin.snapshot()))
        check_graph(graph)
        check_edges(graph, name, report, edges, before)
        return report, was_sorted

    return update


def check_edges(graph, name, report, edges, before):
    """Compare report and edges with what Python's sets come to."""
    batch, inserting = list(zip(*np.asarray(edges).tolist(), strict=True)), name == "insert_edges"
    after = set(batch) if graph.is_directed() else {edge for u, v in batch for edge in ((u, v), (v, u))}
    new, old = ({(u, v) for u, v in some if graph.is_directed() or u <= v} for some in (after - before, after & before))
    counts = (report.inserted, report.replaced) if inserting else (report.absent, report.deleted)
    assert (*counts, report.duplicates) == (len(new), len(old), len(batch) - len(new) - len(old))
    assert pairs_of(graph) == (before | after if inserting else before - after)


@pytest.mark.parametrize(
    ("make", "bits", "dtype"),
    [(make_hub, 0, np.int32), (make_hub, 1, np.int64), (make_bounded, 0, np.int64), (make_bounded, 2, np.int32)],
)
def test_keys_at_borders_of_pieces(device, tiles, widen_ranges, compare, make, bits, dtype):
    """Before the first slot, in the last of a piece and the first of the next: present, dead and absent, repeated."""
    widen_ranges(bits)
    graph = make(device, tiles, dtype)
    first = keys_at_borders(graph, tiles)
    report, _ = compare("delete_edges", graph, first)
    assert report.deleted >= 10
    assert report.absent >= 10
    report, was_sorted = compare("insert_edges", graph, np.c_[first, first[:, ::5], first[:, ::10]][:, ::-1])
    assert (report.inserted, report.replaced, was_sorted) == (first.shape[1], 0, False)
    keys = keys_at_borders(graph, tiles)
    compare("insert_edges", graph, keys)
    report, was_sorted = compare("delete_edges", graph, np.c_[keys, keys[:, ::3]])
    assert (report.deleted, was_sorted) == (keys.shape[1], False)


@pytest.mark.parametrize(("distinct", "rows"), [(32, 32), (7, 32), (1, 32), (7, 33), (33, 33)])
def test_a_leaf_gets_keys_that_are_repeated(device, tiles, compare, distinct, rows):
    """The last of a piece, beside the first of the next: its absent keys have 32 rows at most, others have any number.

    One that has more has the batch sorted.
    """
    graph, first = make_hub(device, tiles), tiles.TILE_SLOTS - LEAF
    there = edges_of_slots(graph, np.arange(first, first + 2 * LEAF, 2))
    compare("delete_edges", graph, there[:, 3:20])
    absent = np.resize(absent_keys(graph, first, LEAF)[:, :distinct].T, (rows, 2)).T
    others = np.repeat(there, 2 + np.arange(LEAF) % 4, axis=1)
    batch = np.random.default_rng(rows + distinct).permutation(np.c_[absent, others], axis=1)
    report, was_sorted = compare("insert_edges", graph, batch)
    assert (report.inserted, was_sorted) == (distinct + 17, rows > LEAF)


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_piece_gets_as_many_absent_rows_as_a_block_holds(device, tiles, compare, beyond):
    """One more, and the batch is sorted; what it has left in scratch does not reach the next ones."""
    graph, most = make_hub(device, tiles), tiles.MAX_ABSENT
    absent = absent_keys(graph, tiles.TILE_SLOTS, tiles.TILE_SLOTS)
    batch = absent[:, :: absent.shape[1] // most][:, :most]
    report, was_sorted = compare("insert_edges", graph, np.c_[batch, absent[:, 1 : 1 + beyond]])
    assert (report.inserted, report.path, was_sorted) == (most + beyond, "in-place", beyond > 0)
    for _ in range(2):
        keys = keys_at_borders(graph, tiles)
        assert compare("insert_edges", graph, keys)[1] is False
        assert compare("delete_edges", graph, keys[:, ::2])[1] is False


@pytest.mark.parametrize("make", [make_hub, make_bounded])
def test_what_does_not_fit_is_taken_back(device, tiles, launches, monkeypatch, rng, make):
    """Edges of other leaves have been written then; where what comes next fails, too, the graph has those it had.

    Some of the batch were there, or dead, once or several times; some move rows.
    """
    graph = make(device, tiles)
    keys, first = keys_at_borders(graph, tiles), tiles.TILE_SLOTS - LEAF
    graph.delete_edges(tuple(map(graph.core.backend.asarray, keys[:, ::3])))
    before = pairs_of(graph)
    crowd = np.resize(absent_keys(graph, first, LEAF).T, (LEAF + 1, 2)).T
    rows = np.array([np.arange(graph.number_of_vertices() - 9, graph.number_of_vertices()), np.arange(9)])
    batch = rng.permutation(np.c_[keys, keys[:, ::2], crowd, rows, rows], axis=1).astype(np.int32)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("dynstore.stores.gpma_plus.cuda.speculative.start_plan", fail)
        launches.clear()
        with pytest.raises(OutOfMemoryError):
            graph.insert_edges(tuple(map(graph.core.backend.asarray, batch)))
    assert launches.count("k_take_back") == 2
    assert pairs_of(graph) == before
    check_graph(graph)
    graph.insert_edges(tuple(map(graph.core.backend.asarray, batch)))
    assert pairs_of(graph) == before | set(zip(*batch.tolist(), strict=True))


def test_a_deletion_that_nobody_could_take_back_is_not_begun(device, tiles, launches, monkeypatch):
    """An edge is missing; the kernel that would say so of all others cannot be loaded. Then it can."""
    from dynstore.cuda.compiler import Kernel

    graph = make_hub(device, tiles)
    before, find = host_arrays(graph.snapshot()), Kernel._find
    there = edges_of_slots(graph, np.arange(0, graph.core.out.slots.num_slots, 4))
    batch = tuple(map(graph.core.backend.asarray, np.c_[there, there[:, 9] + [0, 1]].astype(np.int32)))

    def fail(kernel, args):
        if kernel.name == "k_mark_found":
            raise RuntimeError("no such image")
        return find(kernel, args)

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "_find", fail)
        with pytest.raises(RuntimeError, match="no such image"):
            graph.delete_edges(batch)
    assert same_arrays(host_arrays(graph.snapshot()), before)
    launches.clear()
    report = graph.delete_edges(batch)
    assert (report.deleted, report.absent) == (there.shape[1], 1)
    assert launches[:3] == ["k_order_rows", "k_find_pieces", "k_mark_found"]
    check_graph(graph)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_that_are_no_vertices_change_nothing(device, tiles, launches, dtype):
    """Wherever they are in a row; one that is too high may be no vertex's."""
    num_vertices = 6 * tiles.TILE_SLOTS
    graph = make_hub(device, tiles, dtype, max_vertices=num_vertices)
    before, absent = host_arrays(graph.snapshot()), keys_at_borders(graph, tiles)
    there = edges_of_slots(graph, np.arange(0, graph.core.out.slots.num_slots, 8))
    strangers = [(-1, InputError), (num_vertices, LimitError), (np.iinfo(dtype).max, LimitError)]
    for stranger, error in strangers + [(2**32 + 5, LimitError)] * (dtype == np.int64):
        updates = [(graph.insert_edges, absent, "k_list_pieces"), (graph.delete_edges, there, "k_find_pieces")]
        for update, edges, kernel in updates if error is InputError else updates[:1]:
            for column in (0, 1):
                batch = edges.astype(dtype)
                batch[column, 7] = stranger
                launches.clear()
                with pytest.raises(error):
                    update(tuple(map(graph.core.backend.asarray, batch)))
                assert kernel in launches
                assert same_arrays(host_arrays(graph.snapshot()), before)


def test_ids_that_are_no_vertices_yet(device, tiles, compare):
    """A deletion finds none of their edges, but all others; an insertion makes them vertices."""
    graph = make_hub(device, tiles)
    keys = edges_of_slots(graph, np.arange(0, graph.core.out.slots.num_slots, 8))
    keys[:, 7] += 6 * tiles.TILE_SLOTS
    assert compare("delete_edges", graph, keys)[0].absent == 1
    compare("insert_edges", graph, keys)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("keys", [13, 14, 15])
def test_a_leaf_is_full_with_an_edge_that_the_piece_before_revives(device, tiles, compare, keys, restored):
    """That in its first slot. A leaf takes 29 edges; one that is taken to be full without that edge is not."""
    graph, first = make_hub(device, tiles, leaf_upper=0.92), tiles.TILE_SLOTS
    dead, after = edges_of_slots(graph, [first]), slice(first + LEAF, first + 2 * LEAF)
    compare("delete_edges", graph, dead)
    neighbour = host_arrays(graph.snapshot())["indices"][after]
    batch = absent_keys(graph, first, LEAF)[:, :keys]
    report, was_sorted = compare("insert_edges", graph, np.c_[batch, dead] if restored else batch)
    assert (report.inserted, report.path, was_sorted) == (keys + restored, "in-place", False)
    climbs = (host_arrays(graph.snapshot())["indices"][after] != neighbour).any()
    assert climbs == (15 + keys + restored > 29)


@pytest.mark.parametrize("left", [3, 4])
@pytest.mark.parametrize("others", ["none", "of the piece", "of the leaf"])
def test_a_leaf_is_left_too_empty_by_a_deletion_of_its_first_slot(device, tiles, compare, others, left):
    """Which the piece before finds. A leaf has to have three edges."""
    graph, first = make_hub(device, tiles, leaf_lower=0.08), tiles.TILE_SLOTS
    there = edges_of_slots(graph, np.arange(first, first + 4 * LEAF, 2))
    compare("delete_edges", graph, there[:, left : LEAF // 2])
    also = {"none": there[:, :0], "of the piece": there[:, 50:51], "of the leaf": there[:, 1:2]}[others]
    report, _ = compare("delete_edges", graph, np.c_[there[:, :1], also])
    assert (report.deleted, report.path) == (1 + also.shape[1], "in-place")
    assert host_arrays(graph.snapshot())["mask"].reshape(-1, LEAF).sum(axis=1).min() >= 0.08 * LEAF
    compare("delete_edges", graph, edges_of_slots(graph, [first + LEAF - 1]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_updates_of_undirected_graphs(device, tiles, compare, rng, dtype):
    """Edges are mirrored, self-loops are not, and each is counted once."""
    most = int((14 * tiles.TILE_SLOTS) ** 0.5)
    hub, rest = np.array([np.full(most, 9), np.arange(most)]), rng.integers(0, most, (2, tiles.TILE_SLOTS))
    edges = np.c_[hub, rest].astype(dtype)
    options = {"merge_cost": 0.0, "root_lower": 0.1, "tuning": BY_TILES}
    graph, _ = on_device(tuple(edges), device, directed=False, vertex_dtype=dtype, **options)
    assert tiles.count_tiles(graph.core.out.slots) >= 3
    loops = np.array([np.arange(0, 60, 4)] * 2) % most
    for _ in range(2):
        batch = np.c_[rng.integers(0, most, (2, 40)), loops, loops[:, ::3]].astype(dtype)
        for name in ("insert_edges", "delete_edges"):
            compare(name, graph, np.c_[batch, batch[::-1, ::5]])
        compare("insert_edges", graph, batch[:, ::3])


def test_updates_as_they_come(device, tiles, widen_ranges, compare, rng):
    """Thirty rounds of keys near borders and anywhere, in any state, some repeated; some are planned."""
    graph = make_hub(device, tiles)
    for step in range(30):
        widen_ranges(step % 3)
        plan_updates(graph, step % 5 > 2)
        there = np.array(sorted(pairs_of(graph))).T
        some = there[:, rng.integers(0, there.shape[1], 40)]
        keys = np.c_[keys_at_borders(graph, tiles), some, some[:, :20] + [[0], [1]]]
        batch = keys[:, rng.integers(0, keys.shape[1], rng.integers(1, 80))].astype(np.int32)
        name = ("insert_edges", "delete_edges")[step % 2 if step < 10 else rng.integers(0, 2)]
        compare(name, graph, batch)


@pytest.mark.parametrize("spread", [1, thorough(40), 200])
def test_leaves_of_many_rows(device, tiles, widen_ranges, compare, rng, spread):
    """Keys move edges past the ends of rows, at most of one vertex in ``spread``, in leaves with and without room."""
    widen_ranges(spread % 3)
    num_rows = tiles.TILE_SLOTS
    rows = [(spread * row, 1 + row % 5) for row in range(num_rows)]
    src = np.repeat(*np.transpose(rows))
    graph, _ = on_device((src, rng.permutation(len(src))), device, **{**HALF_FULL, "build_density": 0.7})
    graph.insert_vertices(np.array([spread * num_rows + 5]))
    assert tiles.count_tiles(graph.core.out.slots) >= 3
    was_sorted, most = [], tiles.MAX_ABSENT * tiles.count_tiles(graph.core.out.slots) // 2
    for step in range(8):
        size = min(graph.core.out.slots.num_slots // 16, most) // (1 + step % 3)
        keys = np.array([rng.integers(0, spread * num_rows, size), rng.integers(0, len(src), size)])
        was_sorted.append(compare("insert_edges", graph, keys)[1])
        there = np.array(sorted(pairs_of(graph))).T
        compare("delete_edges", graph, there[:, rng.permutation(there.shape[1])[: size - 10 * (step // 4)]])
    assert sum(was_sorted) <= 4


def test_which_batches_are_searched_by_pieces(device, partition, launches):
    """Those that are large beside the slots, if a block is likely to hold a piece's absent rows."""
    from dynstore.stores.pma.cuda import tiles

    for num_slots, num_tiles in ((LEAF, 1), (1, 1), (0, 0)):
        size = 3 * tiles.TILE_SLOTS + num_slots
        assert tiles.count_tiles(SimpleNamespace(num_slots=size)) == 3 + num_tiles
    graph = make_hub(device, tiles, tuning=PARTITIONED)
    slots = graph.core.out.slots
    most = 3 * tiles.MAX_ABSENT * slots.num_slots // (4 * tiles.TILE_SLOTS)
    fewest = {
        "insert": -(-slots.num_slots // slots.tuning.insert_tile_slots),
        "delete": -(-slots.num_slots // slots.tuning.delete_tile_slots),
    }
    for num_rows in sorted({at + i for at in fewest.values() for i in (-1, 0)} | {most, most + 1}):
        edges = tuple(map(graph.core.backend.asarray, edges_of_slots(graph, np.arange(num_rows))))
        for update, kernel in (("insert", "k_list_pieces"), ("delete", "k_find_pieces")):
            launches.clear()
            getattr(graph, f"{update}_edges")(edges)
            fits = fewest[update] <= num_rows <= most
            assert (kernel in launches) == fits == tiles.fits_tiles(slots, num_rows, update == "insert")
        graph.insert_edges(edges)


def test_leaves_of_windows_are_counted_whichever_block_is_late(device, tiles, delay_first_block, monkeypatch):
    from dynstore.stores.gpma_plus.cuda.bucket_layout import LEAVES, LISTED

    mark, posted = insert_buckets._keep_found, []
    monkeypatch.setattr(insert_buckets, "_keep_found", lambda *args: (posted.append(args[2]), mark(*args))[1])
    keys = np.sort(np.random.default_rng(1).choice(40_000, 1500, replace=False))
    new = (keys.reshape(-1, 150)[:, :4] + 1).ravel()
    rows = (np.array(np.divmod(some, 200), np.int32) for some in (keys, new))
    edges, batch = (tuple(map(get_backend(device).asarray, columns)) for columns in rows)
    options = {"build_density": 0.9, "root_upper": 0.99, "merge_cost": 0.0, "tuning": BY_TILES}
    graph = DynamicGraph.from_edges(edges, device=device, **options)
    late = graph.copy()
    assert graph.insert_edges(batch).path == "in-place"
    delay_first_block("k_choose_windows")
    late.insert_edges(batch)
    assert posted[0] == posted[1]
    assert posted[0][LISTED] < posted[0][LEAVES]
    check_graph(late)
