"""Algorithms on a sharded graph: beside one graph, beside cuGraph's own graph of several GPUs, and lent to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import dynstore
from benchmarks.ranks.bench import OneRank, RankBench, insert_all
from benchmarks.rmat_pieces import make_rows
from dynstore import distributed
from dynstore.distributed import ShardedGraph
from dynstore.graph import DynamicGraph

__all__ = ["measure_cugraph", "measure_own"]

Call: TypeAlias = Callable[[Any, Any, int], Any]

TRIANGLE_SCALE = 16  # the most: pairs of neighbours are sent round, and R-MAT 22 has billions
TEN = {"max_iter": 10, "tol": 0.0, "fail_on_nonconvergence": False}


def _make_part(bench: RankBench, scale: int, rank: int, weighted: bool) -> tuple[Any, ...]:
    """Return the rows that a rank brings; with ``weighted`` an edge has the same weight in all rows, 1 to 100."""
    src, dst = make_rows(bench.backend, scale, (bench.sizes.edge_factor << scale) // bench.comm.size, rank)
    return (src, dst, ((src ^ dst) % 100 + 1).astype(np.float32)) if weighted else (src, dst)


def _build(bench: RankBench, scale: int, weighted: bool = False) -> tuple[ShardedGraph, int]:
    """Return an undirected graph of which each rank has brought a part, and the vertex of the highest degree."""
    G = ShardedGraph(bench.comm, directed=False, weighted=weighted)
    insert_all(G, _make_part(bench, scale, bench.comm.rank, weighted))
    degrees = bench.comm.all_reduce(G.shard.row_lengths())
    bench.say(f"{G}")
    return G, int(bench.backend.xp.argmax(degrees))


def measure_own(bench: RankBench) -> None:
    """Search and rank a sharded graph, then one graph of the same edges on rank 0; answers are compared."""
    scale = bench.sizes.scale
    calls: dict[str, Call] = {
        "bfs": lambda module, graph, start: module.bfs(graph, start),
        "pagerank": lambda module, graph, _: module.pagerank(graph, **TEN)[0],
        "weakly_connected_components": lambda module, graph, _: module.weakly_connected_components(graph),
    }
    _compare(bench, scale, False, calls)
    # Of several shortest paths any may be found.
    _compare(
        bench, scale, True, {"sssp": lambda module, graph, start: module.sssp(graph, start)[["vertex", "distance"]]}
    )
    _compare(
        bench,
        min(scale, TRIANGLE_SCALE),
        False,
        {"triangle_count": lambda module, graph, _: module.triangle_count(graph)},
    )


def _compare(bench: RankBench, scale: int, weighted: bool, calls: dict[str, Call]) -> None:
    """Time algorithms on a sharded graph and on one graph."""
    comm, backend = bench.comm, bench.backend
    G, start = _build(bench, scale, weighted)
    num_vertices, stored = G.number_of_vertices(), sum(comm.all_gather(G.shard.number_of_edges()))
    found = {}
    for name, call in calls.items():
        times = bench.time(partial(call, distributed, G, start))
        bench.note(f"ShardedGraph, {comm.size} ranks", name, times, stored)
        found[name] = [backend.to_host(column) for column in _columns(call(distributed, G, start))]
    one: Any = None
    del G
    bench.free()
    if comm.rank == 0:
        one = DynamicGraph(directed=False, weighted=weighted, device=comm.device)  # type: ignore[arg-type]
        for rank in range(comm.size):
            insert_all(one, _make_part(bench, scale, rank, weighted))
        bench.say(f"{one}")
    for name, call in calls.items():
        right = True
        if comm.rank == 0:
            assert one.number_of_vertices() == num_vertices
            times = [bench.time_once(partial(call, dynstore, one, start), OneRank()) for _ in range(4)]
            bench.note("DynamicGraph", name, times[1:], stored)
            expected = [backend.to_host(column) for column in _columns(call(dynstore, one, start))]
            slack = 1e-6 if name == "pagerank" else 0
            right = all(
                float(np.abs(each.astype(np.float64) - other).max()) <= slack
                for each, other in zip(found[name], expected, strict=True)
            )
        bench.check(f"{name} as on one graph", right)
    del one
    bench.free()
    comm.barrier()


def _columns(frame: Any) -> list[Any]:
    """Return the values of a frame's columns, without the vertices."""
    return [frame[name].values for name in frame.columns[1:]]


def measure_cugraph(bench: RankBench) -> None:
    """Build cuGraph's graph of the same edges on the same GPUs, run its algorithms on it, and on rows that are lent."""
    import cupy
    import pylibcugraph as plc

    from dynstore.adapters.cugraph.mg import lend
    from dynstore.adapters.cugraph.mg.links import connect

    comm = bench.comm
    G, source = _build(bench, bench.sizes.scale)
    stored = sum(comm.all_gather(G.shard.number_of_edges()))
    start = cupy.asarray(np.array([source] if comm.rank == 0 else [], np.int32))
    ten = (None, None, None, None, 0.85, 0.0, 10, False, False)
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "bfs": lambda handle, graph: plc.bfs(handle, graph, start, True, -1, True, False),
        "pagerank": lambda handle, graph: plc.pagerank(handle, graph, *ten),
        "weakly_connected_components": lambda handle, graph: plc.weakly_connected_components(
            handle, graph, *[None] * 4, False
        ),
    }
    handle, _, kept = connect(comm)
    store = f"MGGraph, {comm.size} ranks"
    rows = G.shard.snapshot().compact()
    bench.note(store, "build", bench.time(partial(_mg_graph, handle, rows, False)), stored)
    for name, call in calls.items():
        made = _mg_graph(handle, rows, name == "pagerank")
        bench.note(store, name, bench.time(partial(call, handle, made)), stored)
        del made
    del rows
    hops = _sums(distributed.bfs(G, source)["distance"].values)
    random = np.random.default_rng(comm.rank)

    def update() -> None:
        G.insert_edges(tuple(cupy.asarray(random.integers(0, G.number_of_vertices(), (2, 10_000)).astype(np.int32))))

    answer = calls["bfs"](*lend(G, sort_neighbors=False))
    lent = comm.all_gather(_sums(answer[0]))
    bench.check("bfs on lent rows", tuple(np.sum(lent, axis=0).tolist()) == hops)
    store = f"lent, {comm.size} ranks"
    bench.note(store, "convert", bench.time(lambda: lend(G, sort_neighbors=False), before=update), stored, 10_000)
    bench.note(f"{store}, sorted", "convert", bench.time(lambda: lend(G), before=update), stored, 10_000)
    for name, call in calls.items():
        own_handle, graph = lend(G, transposed=name == "pagerank", sort_neighbors=False)
        bench.note(store, name, bench.time(partial(call, own_handle, graph)), stored)
    del kept


def _mg_graph(handle: Any, rows: Any, transposed: bool) -> Any:
    import pylibcugraph as plc

    properties = plc.GraphProperties(is_symmetric=True, is_multigraph=False)
    options = {"store_transposed": transposed, "num_arrays": 1}
    return plc.MGGraph(handle, properties, [rows.sources], [rows.indices], **options)


def _sums(distances: Any) -> tuple[int, int]:
    """Return how many vertices are reached, and the sum of their distances."""
    reached = distances != np.iinfo(np.int32).max
    return int(reached.sum()), int(distances[reached].sum(dtype=np.int64))
