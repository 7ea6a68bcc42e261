"""Ranks as processes: a program for each, which ends with 0 if a sharded graph there is like one graph.

``mpirun -n 2 python -m mpi4py tests/distributed/processes.py mpi`` or ``python tests/distributed/processes.py nccl 2``;
with ``collectives`` behind it, only these.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import dynstore
from benchmarks.ranks.engines import run_by_nccl
from dynstore import distributed, gts
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError

__all__ = ["check"]


def check(comm: Communicator) -> None:
    """Assert that all collectives do what they say, and compare what is built on them with one graph."""
    for part in (check_collectives, check_graphs, check_pages, check_stream):
        part(comm)
        if comm.rank == 0:
            print("PASS", part.__name__, flush=True)


def check_graphs(comm: Communicator) -> None:
    """Compare sharded graphs on these ranks with one graph."""
    random = np.random.default_rng(5)
    for directed, renumber in ((True, False), (False, False), (False, True)):
        options: dict[str, Any] = {"directed": directed, "weighted": True, "renumber": renumber, "frames": "pandas"}
        G = ShardedGraph(comm, **options)
        one = dynstore.DynamicGraph(device=comm.device, **options)
        for step in range(4):
            rows = [random.integers(0, 400, (2, 3000)) for _ in range(comm.size)]
            batches = [(*pair * (10**12 if renumber else 1), random.random(3000)) for pair in rows]
            whole = tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))
            if step % 2:
                report, wanted = G.delete_edges(batches[comm.rank][:2]), one.delete_edges(whole[:2])
            else:
                report, wanted = G.insert_edges(batches[comm.rank]), one.insert_edges(whole)
            assert report[:5] == wanted[:5], (report, wanted)
            asked = whole[:2]
            assert G.has_edges(asked).tolist() == one.has_edges(asked).tolist()
            weights = [
                graph.core.backend.to_host(each.edge_weights(asked)) for each, graph in ((G, G.shard), (one, one))
            ]
            np.testing.assert_array_equal(*weights)
        gathered = G.gather(comm.size - 1)
        if comm.rank == comm.size - 1 and not renumber:
            assert gathered is not None
            for one_column, other in zip(gathered.edge_columns().values(), one.edge_columns().values(), strict=True):
                assert one_column.tolist() == other.tolist()
        if not renumber:
            for found, expected in (
                (distributed.bfs(G, 3), dynstore.bfs(one, 3)),
                (distributed.weakly_connected_components(G), dynstore.weakly_connected_components(one)),
            ):
                assert found.equals(expected)
            distances = [frame["distance"].tolist() for frame in (distributed.sssp(G, 3), dynstore.sssp(one, 3))]
            assert distances[0] == distances[1]
            ranks = [frame["pagerank"] for frame in (distributed.pagerank(G), dynstore.pagerank(one))]
            np.testing.assert_allclose(*ranks, atol=1e-4)
        if not (directed or renumber):
            assert distributed.triangle_count(G).equals(dynstore.triangle_count(one))
        refuse(comm, G)


def refuse(comm: Communicator, G: ShardedGraph) -> None:
    """Assert that what the last rank refuses is refused on all."""
    before = G.version, G.number_of_edges(), len(G.edge_table())
    last = comm.size - 1
    try:
        G.insert_edges([(-1, 2, 1.0)] if comm.rank == last else [(1, 2, 1.0)])
    except InputError as error:
        text = str(error)
    assert (f"rank {last} refused it" in text) == (comm.rank != last), text
    assert (G.version, G.number_of_edges(), len(G.edge_table())) == before


def check_pages(comm: Communicator) -> None:
    """Compare searches and ranks over streamed pages with those of one device, by both strategies."""
    random = np.random.default_rng(6)
    topology = gts.build(tuple(random.integers(0, 500, (2, 4000))), page_bytes=4096)
    alone = gts.GTS(topology, device=comm.device, frames="pandas")  # type: ignore[arg-type]
    for strategy in ("P", "S"):
        engine = gts.ShardedGTS(comm, topology, strategy, copy_bytes=0, frames="pandas")
        assert engine.bfs([3, 5]).equals(alone.bfs([3, 5]))
        assert engine.last_run.pages > 0
        ranks = [one.pagerank(tol=1e-3)["pagerank"] for one in (engine, alone)]
        np.testing.assert_allclose(*ranks, atol=1e-6)


def check_stream(comm: Communicator) -> None:
    """Assert that streams of all ranks fill one graph, though the last rank's is longer than the others'."""
    G = ShardedGraph(comm, renumber=True)
    batches = [[(f"v{step}", f"v{step + comm.rank + 1}")] for step in range(5 + 5 * (comm.rank == comm.size - 1))]
    with dynstore.Stream(G, batches, batch_edges=1, max_delay=0.02) as stream:
        progress = stream.run()
    assert (progress.state, progress.applied, progress.applied_by_all) == ("ended", len(batches), 5 * comm.size + 5)
    assert G.number_of_edges() == 5 * comm.size + 5


def check_collectives(comm: Communicator) -> None:
    from dynstore.backend import get_backend

    backend = get_backend(comm.device)
    rank, size, host = comm.rank, comm.size, backend.to_host
    comm.barrier()
    long = "x" * 100_000
    assert comm.all_gather((rank, long[:rank])) == [(each, long[:each]) for each in range(size)]
    assert comm.all_gather(long) == [long] * size
    flags = backend.asarray(np.array([rank == 0, False, True], np.uint8))
    assert host(comm.all_reduce(flags, "max")).tolist() == [1, 0, 1]
    for dtype in ("int32", "int64", "float32", "float64"):
        numbers = backend.asarray(np.array([rank, -rank, 1], dtype=dtype))
        assert host(comm.all_reduce(numbers)).tolist() == [sum(range(size)), -sum(range(size)), size]
        assert host(comm.all_reduce(numbers, "max")).tolist() == [size - 1, 0, 1]
        assert host(comm.all_reduce(numbers, "min")).tolist() == [0, 1 - size, 1]
        assert host(comm.broadcast(numbers, size - 1)).tolist() == [size - 1, 1 - size, 1]
    send = [(rank + each) % 3 for each in range(size)]
    goal = backend.asarray(np.repeat(np.arange(size), send))
    columns = comm.all_to_all([goal, goal == rank], send, send)
    assert host(columns[0]).tolist() == [rank] * sum(send)
    assert host(columns[1]).tolist() == [each == rank for each in range(size) for _ in range(send[each])]


if __name__ == "__main__":
    if sys.argv[1] == "mpi":
        from dynstore.distributed.mpi import MpiCommunicator

        check(MpiCommunicator())
    else:
        run_by_nccl(check_collectives if "collectives" in sys.argv else check, int(sys.argv[2]))
        print("PASS", *sys.argv[1:], flush=True)
