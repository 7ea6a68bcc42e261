"""Rows under cuGraph's numbers: the same edges on the ranks that cuGraph looks for them on, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynstore
from dynstore import distributed
from dynstore.adapters.cugraph.mg.rows import Numbering, ShardRows, check_limits, key_edges, make_rows
from dynstore.backend import get_backend
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.distributed.calls import Collective
from dynstore.errors import LimitError
from tests.conftest import SEED
from tests.crossed import crossed

Columns = list[np.ndarray]


def rows_of(
    columns: list[Columns], device: str, inward: bool, old: Columns | None = None, **options: Any
) -> list[ShardRows]:
    """Insert the columns of each rank, delete edges, and return the rows of all ranks, on the host."""

    def program(comm: Communicator) -> ShardRows:
        G = ShardedGraph(comm, **options)
        G.insert_edges(tuple(columns[comm.rank]))
        if old is not None:
            G.delete_edges(tuple(old) if comm.rank == 0 else [])
        with Collective(comm, "lend") as call:
            rows = make_rows(call, G, inward)
        host = G.shard.core.backend.to_host
        numbering = Numbering(*map(host, rows.numbering[:2]), rows.numbering.starts)
        rows = rows._replace(numbering=numbering)
        return ShardRows(*(host(value) if hasattr(value, "dtype") else value for value in rows))

    return distributed.run(program, ranks=len(columns), device=device)  # type: ignore[arg-type]


def edges_of(ranks: list[ShardRows], inward: bool) -> list[tuple[Any, ...]]:
    """Return the edges that all rows show; assert that they are numbered as cuGraph wants it."""
    numbers = np.concatenate([rows.numbers for rows in ranks])
    found: list[tuple[Any, ...]] = []
    for rank, rows in enumerate(ranks):
        degrees = np.diff(rows.offsets)
        assert rows.offsets[0] == 0
        assert rows.offsets[-1] == len(rows.indices)
        starts = rows.numbering.starts
        assert len(degrees) == starts[rank + 1] - starts[rank]
        assert (np.diff(degrees) <= 0).all()
        assert rows.segments == ((degrees >= 1024).sum(), (degrees >= 32).sum())
        assert starts == ranks[0].numbering.starts
        assert rows.num_edges == sum(len(other.indices) for other in ranks)
        places = np.repeat(np.arange(len(degrees)), degrees)
        assert (np.diff(places * (len(numbers) + 1) + rows.indices) > 0).all(), "neighbours ascend"
        ends = [rows.numbers[places], numbers[rows.indices]]
        ends = ends[::-1] if inward else ends
        columns = ends if rows.weights is None else [*ends, rows.weights]
        found += zip(*(column.tolist() for column in columns), strict=True)
    assert sorted(numbers.tolist()) == list(range(len(numbers)))
    return sorted(found)


def edges_in(one: dynstore.DynamicGraph) -> list[tuple[Any, ...]]:
    """Return all edges, both directions of undirected ones."""
    packed = one.snapshot().compact()
    columns = [packed.sources, packed.indices, *([] if packed.weights is None else [packed.weights])]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@crossed(
    ranks=[1, 2, 3],
    directed=[True, False],
    weighted=[False, True],
    vertex_dtype=["int32", "int64"],
    inward=[False, True],
)
def test_rows_hold_the_edges_of_one_graph(
    ranks: int, directed: bool, weighted: bool, vertex_dtype: str, inward: bool
) -> None:
    random = np.random.default_rng(SEED + ranks)
    src, dst = np.minimum(random.integers(0, 90, 900), random.integers(0, 90, 900)), random.integers(0, 90, 900)
    columns = [src, dst, random.random(900)] if weighted else [src, dst]
    options: dict[str, Any] = {"directed": directed, "weighted": weighted, "vertex_dtype": vertex_dtype}
    parts = [[column[rank::ranks] for column in columns] for rank in range(ranks)]
    whole = tuple(np.concatenate([part[place] for part in parts]) for place in range(len(columns)))
    one = dynstore.DynamicGraph(device="cpu", **options)
    one.insert_edges(whole)
    one.delete_edges((src[:50], dst[:50]))
    found = rows_of(parts, "cpu", inward and directed, [src[:50], dst[:50]], **options)
    assert edges_of(found, inward and directed) == edges_in(one)
    assert {str(rows.indices.dtype) for rows in found} == {vertex_dtype}
    owners = distributed.run(lambda comm: ShardedGraph(comm)._owners(np.arange(90, dtype=vertex_dtype)), ranks, "cpu")
    for rank, rows in enumerate(found):
        assert (owners[0][rows.numbers] == rank).all()


def test_on_the_kernels_of_the_device(backend_name: str) -> None:
    random = np.random.default_rng(SEED)
    src, dst, weights = random.integers(0, 30, 80), random.integers(0, 30, 80), random.random(80)
    for columns, inward, dtype in (
        ([src, dst], False, "int32"),
        ([src, dst, weights], True, "int32"),
        ([src, dst, weights], False, "int64"),
    ):
        options = {"weighted": len(columns) == 3, "vertex_dtype": dtype}
        parts = [[column[rank::2] for column in columns] for rank in range(2)]
        found, wanted = (
            rows_of(parts, device, inward, [src[:9], dst[:9]], **options) for device in (backend_name, "cpu")
        )
        for rows, others in zip(found, wanted, strict=True):
            pairs = [(*each[:-1], *each.numbering) for each in (rows, others)]
            for value, other in zip(*pairs, strict=True):
                np.testing.assert_array_equal(value, other, strict=hasattr(value, "dtype"))


@pytest.mark.parametrize("inward", [False, True])
@pytest.mark.parametrize("store", ["gpma+", "slab_hash"])
def test_keys_of_gap_aware_rows(backend, store: str, inward: bool) -> None:
    graph = dynstore.DynamicGraph(device=backend.name, store=store)
    src, dst = np.random.default_rng(SEED).integers(0, 40, (2, 70))
    graph.insert_edges((src, dst))
    graph.delete_edges((src[::3], dst[::3]))
    places = np.random.default_rng(SEED).permutation(graph.number_of_vertices()).astype(np.int32)
    keys, weights = key_edges(graph.snapshot(), backend.asarray(places), inward)
    rows, columns = (backend.to_host(column) for column in graph.edge_columns().values())
    ends = (columns, rows) if inward else (rows, columns)
    wanted = [int(places[row]) << 32 | int(places[column]) for row, column in zip(*ends, strict=True)]
    assert weights is None
    assert backend.to_host(keys).tolist() == wanted


def test_long_rows_are_counted() -> None:
    degrees = {3: 1500, 9: 1024, 2: 40, 50: 32, 70: 31}
    src = np.repeat(list(degrees), list(degrees.values()))
    dst = np.concatenate([np.arange(degree) for degree in degrees.values()])
    (rows,) = rows_of([[src, dst]], "cpu", False)
    assert rows.segments == (2, 4)
    assert rows.numbers[:5].tolist() == [3, 9, 2, 50, 70]
    assert rows.numbers[5:].tolist() == [n for n in range(1500) if n not in degrees], "rows of one length ascend"


def test_an_empty_graph_and_empty_ranks() -> None:
    nothing = [np.empty(0, np.int64), np.empty(0, np.int64)]
    for rows in rows_of([nothing, nothing], "cpu", False):
        assert (rows.numbering.starts, rows.num_edges, rows.offsets.tolist()) == ((0, 0, 0), 0, [0])
    found = rows_of([[np.array([0]), np.array([1])], nothing, nothing], "cpu", True)  # one owner has both
    assert edges_of(found, True) == [(0, 1)]
    assert found[0].numbering.starts == (0, 0, 2, 2)


def test_more_edges_than_can_be_counted() -> None:
    message = "3 vertices and 3221225472 edges in its rows; cuGraph counts edges as int32"
    with pytest.raises(LimitError, match=message):
        check_limits(3, 3 * 2**30, np.dtype(np.int32))
    check_limits(3, 3 * 2**30, np.dtype(np.int64))
    with pytest.raises(LimitError, match="fewer than 2"):
        check_limits(2**31, 5, np.dtype(np.int64))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_moved_are_those_that_are_sorted(backend_name: str, weighted: bool) -> None:
    """In any order, under the numbers of an earlier version as long as these serve."""
    random = np.random.default_rng(SEED)
    options: dict[str, Any] = {"directed": False, "weighted": weighted, "device": backend_name}
    batches = [[random.integers(0, 60, (2, 40)) for _ in range(2)] for _ in range(2)]
    values = random.random(40)

    def program(comm: Communicator) -> None:
        G, host = ShardedGraph(comm, **options), get_backend(backend_name).to_host
        G.insert_vertices(range(60))
        last = None
        for step in range(2):
            pair = batches[step][comm.rank]
            G.insert_edges((*pair, values) if weighted else tuple(pair))
            G.delete_edges(tuple(pair[:, :5]))
            with Collective(comm, "lend") as call:
                moved = make_rows(call, G, False, False, last)
                rows = make_rows(call, G, False, True, moved.numbering)
            assert last is None or moved.numbering is last, "few edges change no segment"
            assert (moved.ascending, rows.ascending) == (False, True)
            assert host(moved.offsets).tolist() == host(rows.offsets).tolist()
            assert (moved.segments, moved.num_edges) == (rows.segments, rows.num_edges)
            found = []
            for each in (moved, rows):
                owners = np.repeat(np.arange(len(each.numbers)), np.diff(host(each.offsets)))
                columns = [owners, host(each.indices), *([host(each.weights)] if weighted else [])]
                found.append(list(zip(*(column.tolist() for column in columns), strict=True)))
            assert sorted(found[0]) == found[1]
            last = moved.numbering

    distributed.run(program, 2, backend_name)  # type: ignore[arg-type]


def test_rows_are_numbered_anew_when_long_ones_are_out_of_place() -> None:
    def program(comm: Communicator) -> list[tuple[bool, tuple[int, int]]]:
        G = ShardedGraph(comm)
        G.insert_edges((np.arange(3000) % 1500, np.arange(3000)))
        with Collective(comm, "lend") as call:
            numbering = make_rows(call, G, False).numbering
        found = []
        for hub, count in ((4, 40), (1400, 40), (900, 1200)):
            G.insert_edges((np.full(count, hub), np.arange(count)) if comm.rank == 0 else [])
            with Collective(comm, "lend") as call:
                rows = make_rows(call, G, False, False, numbering)
            degrees = np.diff(rows.offsets)
            assert (degrees[rows.segments[0] :] < 1024).all()
            assert (degrees[rows.segments[1] :] < 32).all()
            found.append((rows.numbering is numbering, rows.segments))
            numbering = rows.numbering
        return found

    for rank, found in enumerate(distributed.run(program, 2, "cpu")):
        kept = [serves for serves, _ in found]
        assert kept == [True, False, False], rank
