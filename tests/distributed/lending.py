"""Lending on real GPUs: ``python tests/distributed/lending.py RANKS [--scale 18]`` ends with 0 if all is right.

Each rank is a process with a GPU of its own. It needs RAPIDS with pylibcugraph and raft-dask, CuPy and NCCL. It prints
a line that begins with PASS for each thing that is right, and times of a rank: what lending costs after an update,
beside a new ``pylibcugraph.MGGraph`` of the same edges.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ranks.engines import run_by_nccl
from dynstore import distributed
from dynstore.adapters.cugraph import mg
from dynstore.adapters.cugraph.mg import lend
from dynstore.bench.timing import LapTimer
from dynstore.datasets import rmat
from dynstore.distributed import Communicator, ShardedGraph

__all__ = ["check"]

REPEATS = 5


def show(comm: Communicator, text: str) -> None:
    if comm.rank == 0:
        print(text, flush=True)


def passed(comm: Communicator, what: str, right: bool) -> None:
    """Print that something is right on all ranks, or raise."""
    ranks = comm.all_gather(bool(right))
    assert all(ranks), f"{what}: wrong on rank {ranks.index(False)}"
    show(comm, f"PASS {comm.size} ranks: {what}")


def check(comm: Communicator, scale: int) -> None:
    """Compare cuGraph's answers on lent rows with dynstore's, and measure."""
    for directed, weighted, ids in ((True, False, "int32"), (False, True, "int64")):
        check_answers(comm, directed, weighted, ids)
    check_ids(comm)
    check_refusals(comm)
    measure(comm, scale)
    check_centralities(comm)


def same(comm: Communicator, G: ShardedGraph, found: Any, vertices: Any, wanted: np.ndarray, slack: float = 0) -> bool:
    """Return whether values for the vertices of this rank are those of all vertices; each vertex has to be its own."""
    import cupy

    vertices, found = cupy.asnumpy(vertices), cupy.asnumpy(found)
    mine = G.shard.core.backend.to_host(G._owners(cupy.arange(G.number_of_vertices(), dtype=G.shard.vertex_dtype)))
    each_once = sorted(vertices.tolist()) == np.flatnonzero(mine == comm.rank).tolist()
    if not each_once:
        print(f"rank {comm.rank}: {len(vertices)} vertices, {len(set(vertices.tolist()))} different ones")
        return False
    wrong = np.flatnonzero(~(np.abs(found.astype(np.float64) - wanted[vertices]) <= slack))
    if len(wrong):
        some = wrong[:5]
        print(f"rank {comm.rank}: {len(wrong)} of {len(found)} differ; {vertices[some]}: {found[some]}", end="")
        print(f", wanted {wanted[vertices[some]]}", flush=True)
    return not len(wrong)


def check_answers(comm: Communicator, directed: bool, weighted: bool, ids: str) -> None:
    """Compare answers after each of three updates of one graph, with rows for a block, for a warp, and short ones."""
    import cupy
    import pylibcugraph as plc

    random = np.random.default_rng(11)
    G = ShardedGraph(comm, directed=directed, weighted=weighted, vertex_dtype=ids, frames="pandas")
    kind = f"{'directed' if directed else 'undirected'}, {'weighted' if weighted else 'no weights'}, {ids}"
    for step in range(3):
        src = np.concatenate((random.integers(0, 3000, 12000), np.full(1500, 7 + step), np.full(60, 90)))
        dst = np.concatenate((random.integers(0, 3000, 12000), random.permutation(3000)[:1560]))
        dst = np.where(src == dst, (dst + 1) % 3000, dst)  # cuGraph's core_number wants no self-loops
        columns = [src, dst, random.random(len(src)) + 0.1] if weighted else [src, dst]
        G.insert_edges(tuple(column[comm.rank :: comm.size] for column in columns))
        G.delete_edges((src[: 4000 : comm.size], dst[: 4000 : comm.size]))
        title = f"{kind}, version {G.version}"
        hops = distributed.bfs(G, 7)["distance"].to_numpy()
        start = cupy.asarray(np.array([7] if comm.rank == 0 else [], dtype=ids))
        handle, graph = lend(G, sort_neighbors=False)
        found, _, vertices = plc.bfs(handle, graph, start, False, -1, True, False)
        passed(comm, f"bfs, {title}", same(comm, G, found, vertices, hops))
        ranked: Any = distributed.pagerank(G, tol=1e-6)
        handle, graph = lend(G, transposed=True)
        vertices, found = plc.pagerank(handle, graph, None, None, None, None, 0.85, 1e-6, 100, False, False)[:2]
        passed(comm, f"pagerank, {title}", same(comm, G, found, vertices, ranked["pagerank"].to_numpy(), 2e-5))
        vertices, found = plc.pagerank(*lend(G), None, None, None, None, 0.85, 1e-6, 100, False, False)[:2]
        what = f"pagerank on out-edges, {title}"
        passed(comm, what, same(comm, G, found, vertices, ranked["pagerank"].to_numpy(), 2e-5))
        degrees = G.out_degree()["degree"].to_numpy()
        vertices, found = plc.out_degrees(*lend(G), None, False)[:2]
        passed(comm, f"out_degrees, {title}", same(comm, G, found, vertices, degrees))
        if weighted:
            distances = distributed.sssp(G, 7)["distance"].to_numpy()
            vertices, found, _ = plc.sssp(*lend(G), 7, float("inf"), True, False)
            reached = distances < np.finfo(distances.dtype).max
            found, wanted = cupy.asnumpy(found), distances[cupy.asnumpy(vertices)]
            right = np.where(reached[cupy.asnumpy(vertices)], np.abs(found - wanted) < 1e-4, found > 1e30)
            passed(comm, f"sssp, {title}", bool(right.all()))
        if not directed:
            check_undirected(comm, G, title)


def check_undirected(comm: Communicator, G: ShardedGraph, title: str) -> None:
    import cupy
    import pylibcugraph as plc

    vertices, found = (
        cupy.asnumpy(column)
        for column in plc.weakly_connected_components(*lend(G, sort_neighbors=False), *[None] * 4, False)
    )
    wanted = distributed.weakly_connected_components(G)["labels"].to_numpy()
    pairs = {
        pair
        for part in comm.all_gather(list(zip(found.tolist(), wanted[vertices].tolist(), strict=True)))
        for pair in part
    }
    one_to_one = len({label for label, _ in pairs}) == len({label for _, label in pairs}) == len(pairs)
    passed(comm, f"weakly_connected_components, {title}", one_to_one)
    counts = distributed.triangle_count(G)["counts"].to_numpy()
    vertices, found = plc.triangle_count(*lend(G), None, False)
    passed(comm, f"triangle_count, {title}", same(comm, G, found, vertices, counts))
    handle, _ = lend(G)
    _, modularity = mg.louvain(G)
    other = plc.louvain(handle, built(handle, G), 100, 1e-7, 1.0, False)[2]
    passed(comm, f"louvain, {title}: {modularity:.4f}, on an MGGraph {other:.4f}", abs(modularity - other) < 0.03)
    _, modularity = mg.leiden(G, random_state=5)
    passed(comm, f"leiden, {title}: {modularity:.4f}", other - 0.05 < modularity < 1)  # it may well find better ones
    found, others = (
        mg.core_number(G),
        gathered(comm, *plc.core_number(handle, built(handle, G), "bidirectional", False)),
    )
    cores = gathered(comm, found["vertex"], found["core_number"])
    passed(comm, f"core_number as on an MGGraph, {title}", all(cores[vertex] == others[vertex] for vertex in others))


def check_centralities(comm: Communicator) -> None:
    """Compare what wants in-edges with what cuGraph finds on a graph of its own."""
    import pylibcugraph as plc

    G = ShardedGraph(comm, directed=False, frames="pandas")
    G.insert_edges(tuple(np.random.default_rng(comm.rank).integers(0, 2000, (2, 20_000))))
    handle, _ = lend(G)
    alpha = 1e-4
    for name, found, others in (
        (
            "katz_centrality",
            mg.katz_centrality(G, alpha=alpha),
            plc.katz_centrality(handle, built(handle, G, True), None, alpha, 1.0, 1e-6, 100, False),
        ),
        (
            "eigenvector_centrality",
            mg.eigenvector_centrality(G, max_iter=500, tol=1e-5),
            plc.eigenvector_centrality(handle, built(handle, G, True), 1e-5, 500, False),
        ),
        ("hits", mg.hits(G), plc.hits(handle, built(handle, G, True), 1e-5, 100, None, None, True, False)),
    ):
        own = gathered(comm, found["vertex"], found[found.columns[1]])
        wanted = gathered(comm, *others[:2])
        most = max(wanted.values())
        right = all(abs(own[vertex] - wanted[vertex]) <= 1e-3 * most for vertex in wanted)
        passed(comm, f"{name} as on an MGGraph", right)


def gathered(comm: Communicator, vertices: Any, values: Any) -> dict[int, Any]:
    """Return the values of the vertices of all ranks."""
    return dict(
        pair for part in comm.all_gather(list(zip(vertices.tolist(), values.tolist(), strict=True))) for pair in part
    )


def built(handle: Any, G: ShardedGraph, transposed: bool = False) -> Any:
    """Return a graph that pylibcugraph has built of the same edges."""
    import pylibcugraph as plc

    rows = G.shard.snapshot().compact()
    weights = None if rows.weights is None else [rows.weights]
    properties = plc.GraphProperties(is_symmetric=not G.is_directed(), is_multigraph=False)
    options = {"weight_array": weights, "store_transposed": transposed, "num_arrays": 1}
    return plc.MGGraph(handle, properties, [rows.sources], [rows.indices], **options)


def check_ids(comm: Communicator) -> None:
    """Ids of any kind: cuGraph sees rows, which have them."""
    import cupy
    import pylibcugraph as plc

    G = ShardedGraph(comm, directed=False, renumber=True, frames="pandas")
    ids = np.arange(500) * 10**12 + 5
    G.insert_edges((ids[comm.rank : 499 : comm.size], ids[comm.rank + 1 :: comm.size]))
    numbers = {vertex: row for row, vertex in enumerate(G.shard.core.backend.to_host(G.vertex_ids()).tolist())}
    start = cupy.asarray(np.array([numbers[5]] if comm.rank == 0 else [], np.int32))
    found, _, vertices = plc.bfs(*lend(G), start, False, -1, True, False)
    wanted = np.array([(vertex - 5) // 10**12 for vertex in numbers])
    passed(comm, "ids of 64 bits, a path of 500", same(comm, G, found, vertices, wanted))


def check_refusals(comm: Communicator) -> None:
    from dynstore.errors import InputError

    try:
        lend(ShardedGraph(comm, partition="range", max_vertices=10))
    except InputError as error:
        text = str(error)
    passed(comm, "a graph in ranges is refused", "wanted 'hash'" in text)


def measure(comm: Communicator, scale: int) -> None:
    """Time lending after updates of an undirected R-MAT graph, and the algorithms beside those on an MGGraph."""
    import cupy
    import pylibcugraph as plc

    events = rmat(scale, 16, comm.rank)
    G = ShardedGraph(comm, directed=False)
    G.insert_edges(tuple(G.shard.core.backend.asarray(column.astype(np.int32)) for column in (events.src, events.dst)))
    watch = LapTimer(G.shard.core.backend)

    def timed(call: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
        times = []
        for _ in range(REPEATS):
            before()
            comm.barrier()
            watch.start()
            call()
            times.append(max(comm.all_gather(watch.lap())))
        return float(np.median(times[1:]))

    random = np.random.default_rng(comm.rank)

    def update() -> None:
        G.insert_edges(tuple(random.integers(0, 1 << scale, (2, 10_000)).astype(np.int32)))

    source = int(cupy.argmax(G.shard.row_lengths())) if comm.rank == 0 else 0
    start = cupy.asarray(np.array([source] if comm.rank == 0 else [], np.int32))
    rest = (None, None, None, None, 0.85, 0.0, 10, False, False)
    show(comm, f"R-MAT {scale}, {comm.size} ranks, {G.number_of_edges()} edges; median ms of the slowest rank")
    show(comm, f"lend after an update          {timed(lambda: lend(G, sort_neighbors=False), update):9.2f}")
    show(comm, f"the same, sorted              {timed(lambda: lend(G), update):9.2f}")
    show(comm, f"lend, same version            {timed(lambda: lend(G)):9.2f}")
    handle, _ = lend(G)
    show(comm, f"MGGraph of the same edges     {timed(lambda: built(handle, G)):9.2f}")
    for name, call in (
        ("bfs", lambda handle, graph: plc.bfs(handle, graph, start, False, -1, True, False)),
        ("components", lambda handle, graph: plc.weakly_connected_components(handle, graph, *[None] * 4, False)),
        ("pagerank, 10 iterations", lambda handle, graph: plc.pagerank(handle, graph, *rest)),
    ):
        turned = name.startswith("pagerank")
        lent, made = lend(G, transposed=turned)[1], built(handle, G, turned)
        times = [timed(lambda call=call, graph=graph: call(handle, graph)) for graph in (lent, made)]
        show(comm, f"{name:24} lent {times[0]:9.2f}   on an MGGraph {times[1]:9.2f}")


def work(comm: Communicator, scale: int) -> None:
    from dynstore.adapters.memory import share_pool

    share_pool()
    check(comm, scale)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--scale", type=int, default=18, help="the R-MAT graph of a rank has 2^SCALE vertices")
    options = parser.parse_args()
    from dynstore.adapters.cugraph.borrowed.loading import load_bridge

    print("the library:", load_bridge().reason, flush=True)  # built and tested before the ranks wait for each other
    run_by_nccl(work, options.ranks, options.scale)
    print("PASS all", flush=True)
