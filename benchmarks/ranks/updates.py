"""Updates of a sharded graph: as much for each rank (weak scaling), and rows that slide (GPMA+'s Fig. 12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.ranks.bench import (
    OneRank,
    RankBench,
    distinct_keys,
    edge_sums,
    insert_all,
    key_sums,
)
from benchmarks.ranks.engines import connect_alone
from benchmarks.rmat_pieces import make_rows
from dynstore import distributed
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.graph import DynamicGraph
from dynstore.typing import MAX_INT32

if TYPE_CHECKING:
    from dynstore.backend import Backend

__all__ = ["measure_slides", "measure_weak"]

WARM_SCALE = 16
# Of the slots after they are made anew; bytes an edge: old and new slots, and a tenth of the edges as a batch.
BUILD_DENSITY, EDGE_BYTES = 0.65, 40
BATCH_SEED = 1000  # of the rows of batches; those of graphs are the number of their rank


def measure_weak(bench: RankBench) -> None:
    """Insert new rows and delete them again: on one rank, and on all with as many rows each."""
    comm = bench.comm
    alone = connect_alone(comm)
    _compile(bench, alone)
    if comm.rank == 0:
        _plain(bench)
    bench.free()
    comm.barrier()
    for size in (1, comm.size) if comm.size > 1 else (1,):
        if size > 1 or comm.rank == 0:
            _weak(bench, alone if size == 1 else comm)
        bench.free()
        comm.barrier()


def _compile(bench: RankBench, alone: Communicator) -> None:
    """Do everything once, on all ranks at the same time: kernels that they lack are compiled."""
    rows = make_rows(bench.backend, WARM_SCALE, 1 << WARM_SCALE, bench.comm.rank)
    for G in (ShardedGraph(alone), DynamicGraph(device=alone.device)):  # type: ignore[arg-type]
        for part in (tuple(column[:1000] for column in rows), rows):
            G.insert_edges(part)
            G.delete_edges(part)
            G.insert_edges(part)
    distinct_keys(bench.backend, [rows], False)
    bench.comm.barrier()
    bench.say("compiled")


def _batch(bench: RankBench, rank: int, number: int, step: int) -> tuple[Any, Any]:
    rows = bench.sizes.batches[number]
    seed = BATCH_SEED * (1 + number) + rank
    return make_rows(bench.backend, bench.sizes.scale, rows, seed, step * rows)


def _weak(bench: RankBench, comm: Communicator) -> None:
    sizes, backend, size = bench.sizes, bench.backend, comm.size
    G: Any = ShardedGraph(comm)
    num_rows = sizes.edge_factor << sizes.scale
    insert_all(G, make_rows(backend, sizes.scale, num_rows, comm.rank))
    bench.say(f"{G}")
    expected = None
    if comm.rank == 0:
        rows_of_all = [make_rows(backend, sizes.scale, num_rows, rank) for rank in range(size)]
        expected = distinct_keys(backend, rows_of_all, False)
        del rows_of_all
    _check_sums(bench, comm, G, expected, f"the edges of {size} ranks")
    for number, rows in enumerate(sizes.batches):
        _time_both(bench, comm, G, number, f"{size} ranks" if size > 1 else "1 rank", rows)
    if comm.rank == 0:
        for number in range(len(sizes.batches)):
            steps = range(sizes.steps + 1)
            batches = [_batch(bench, rank, number, step) for step in steps for rank in range(size)]
            gone = distinct_keys(backend, batches, False)
            places = backend.xp.minimum(backend.xp.searchsorted(gone, expected), len(gone) - 1)
            expected = expected[gone[places] != expected]  # type: ignore[index]
    _check_sums(bench, comm, G, expected, f"the edges of {size} ranks after all batches")


def _check_sums(bench: RankBench, comm: Communicator, G: Any, expected: Any, what: str) -> None:
    found = edge_sums(comm, G)
    right = expected is None or found == key_sums(expected)
    if not all(comm.all_gather(right)):
        raise AssertionError(f"{what} are wrong")
    bench.say(f"right: {what}: {found[0]}")


def _time_both(bench: RankBench, comm: Communicator | OneRank, G: Any, number: int, store: str, rows: int) -> None:
    """Time insertions and deletions that take turns."""
    batches = [_batch(bench, comm.rank, number, step) for step in range(bench.sizes.steps + 1)]
    steps: dict[str, Any] = {"insert": iter(batches), "delete": iter(batches)}
    times: dict[str, list[float]] = {"insert": [], "delete": []}
    for step in range(bench.sizes.steps + 1):
        for name, call in (("insert", G.insert_edges), ("delete", G.delete_edges)):
            batch = next(steps[name])
            taken = bench.time_once(partial(call, batch), comm)
            if step:
                times[name].append(taken)
    for name, taken_all in times.items():
        bench.note(store, name, taken_all, G.number_of_edges(), rows)


def _plain(bench: RankBench) -> None:
    """Do what one rank does with a graph that knows no ranks."""
    sizes = bench.sizes
    G = DynamicGraph(device=bench.comm.device)  # type: ignore[arg-type]
    insert_all(G, make_rows(bench.backend, sizes.scale, sizes.edge_factor << sizes.scale, 0))
    bench.say(f"{G}")
    alone = OneRank()
    for number, rows in enumerate(sizes.batches):
        _time_both(bench, alone, G, number, "DynamicGraph", rows)


def measure_slides(bench: RankBench) -> None:
    """Slide the rows of an undirected graph by 1 %, and search it: Fig. 12 of Sha et al., PVLDB 11(1), 2017."""
    comm, sizes = bench.comm, bench.sizes
    alone = connect_alone(comm)
    for edges in sizes.edges:
        found: dict[str, Any] = {}
        for size in (1, comm.size) if comm.size > 1 else (1,):
            if not bench.has_time():
                return
            reason = _does_not_fit(bench.backend, edges // size)
            if any(comm.all_gather(bool(reason))):
                bench.say(f"left out: {edges} edges on {size} ranks: {reason}")
                continue
            if size > 1 or comm.rank == 0:
                found[str(size)] = _slide(bench, alone if size == 1 else comm, edges)
            bench.free()
            comm.barrier()
        if comm.rank == 0 and len(found) > 1:
            one, several = found["1"], found[str(comm.size)]
            for name in one:
                right = one[name] == several[name]
                if not right:
                    raise AssertionError(f"{name}: {one[name]} on one rank, {several[name]} on {comm.size}")
                bench.say(f"right: {name} on 1 and {comm.size} ranks: {several[name]}")


def _does_not_fit(backend: Backend, edges: int) -> str:
    """Return why a rank cannot hold so many edges, or ""."""
    slots = int(edges / BUILD_DENSITY)
    if slots > MAX_INT32:
        return f"{slots} slots a rank are needed, int32 offsets go to {MAX_INT32}"
    if backend.on_gpu:
        there = int(backend.xp.cuda.runtime.memGetInfo()[1])
        if edges * EDGE_BYTES > there:
            wanted = edges * EDGE_BYTES / 1e9
            return f"a rank takes up to {wanted:.0f} GB while slots are made anew, a GPU has {there / 1e9:.0f}"
    return ""


def _slide(bench: RankBench, comm: Communicator, edges: int) -> dict[str, Any]:
    """Return what does not depend on the number of ranks."""
    sizes, backend, store = bench.sizes, bench.backend, f"{comm.size} ranks" if comm.size > 1 else "1 rank"
    # All rows in their order; each rank brings a part of each slide.
    slide = max(1, edges // 2 // 100)
    low, high = slide * comm.rank // comm.size, slide * (comm.rank + 1) // comm.size

    def rows_of(number: int) -> tuple[Any, Any]:
        return make_rows(backend, sizes.slide_scale, high - low, 7, number * slide + low)

    G: Any = ShardedGraph(comm, directed=False)
    step = 10  # slides of a piece
    for number in range(0, 100, step):
        parts = [rows_of(each) for each in range(number, number + step)]
        G.insert_edges(tuple(backend.xp.concatenate(columns) for columns in zip(*parts, strict=True)))
    bench.say(f"{G}")
    times = []
    for number in range(sizes.steps + 1):
        leaving, arriving = rows_of(number), rows_of(100 + number)
        times.append(bench.time_once(partial(G.update, arriving, leaving), comm))
    stored = edge_sums(comm, G)
    bench.note(store, "update", times[1:], stored[0], 2 * slide)
    found: dict[str, Any] = {"edges": stored}
    calls: dict[str, Callable[[], Any]] = {
        "bfs": lambda: distributed.bfs(G, 0),
        "weakly_connected_components": lambda: distributed.weakly_connected_components(G),
        "pagerank": lambda: distributed.pagerank(G, max_iter=10, tol=0, fail_on_nonconvergence=False)[0],
    }
    for name, call in calls.items():
        taken = bench.time(call, comm=comm, steps=min(3, sizes.steps))
        bench.note(store, name, taken, stored[0])
        frame: Any = call()
        if name != "pagerank":
            column = frame[frame.columns[1]]
            found[name] = int(column.astype("int64").sum())
    return found
