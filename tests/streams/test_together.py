"""Streams into a graph on several ranks: all rows of all sources, one batch at a time, one end for all."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, Stream, Window, distributed
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError, OutOfMemoryError, RankError, StreamError
from tests.conftest import SEED
from tests.streams.scripted import SOON, Scripted, pairs_of, wait_until


def run(function: Any, ranks: int = 3, device: str = "cpu") -> list[Any]:
    return distributed.run(function, ranks, device, timeout=30.0)  # type: ignore[arg-type]


def edges_of(G: Any) -> dict[tuple[Any, ...], Any]:
    table = G.edge_table()
    rows = zip(*(table[name].tolist() for name in table.columns), strict=True)
    return {(row[:2] if G.is_directed() else tuple(sorted(row[:2]))): row[2:] for row in rows}


def random_rows(count: int, named: bool) -> pd.DataFrame:
    """Return insertions and deletions of few edges, so that they repeat."""
    random = np.random.default_rng(SEED)
    ends = random.integers(0, 12, (2, count))
    names = [[f"v{end}" for end in column] for column in ends] if named else list(ends)
    ops = np.where(random.random(count) < 0.3, "-", "+")
    return pd.DataFrame({"source": names[0], "destination": names[1], "weight": random.random(count), "op": ops})


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_all_rows_of_all_sources_are_in_the_graph(ranks: int, directed: bool, named: bool) -> None:
    rows, options = random_rows(400, named), {"directed": directed, "weighted": True, "renumber": named}
    rows["weight"] = rows["weight"].astype(np.float32)
    one = DynamicGraph(device="cpu", **options)
    Stream(one, rows, batch_edges=30).run()
    # All rows of a pair are on one rank; the last of four has none.
    pairs = [crc32(repr(sorted(pair)).encode()) for pair in zip(rows["source"], rows["destination"], strict=True)]
    ranks_of = np.array(pairs) % min(ranks, 3)

    def program(comm: Communicator) -> tuple[Any, ...]:
        G = ShardedGraph(comm, **options)
        with Stream(G, rows[ranks_of == comm.rank], batch_edges=15 + comm.rank, max_delay=0.002) as stream:
            progress = stream.run()
        found = G.gather()
        return progress, G.version, None if found is None else edges_of(found)

    results = run(program, ranks)
    assert results[0][2] == edges_of(one)
    assert {version for _, version, _ in results} == {results[0][0].batches}
    for rank, (progress, version, _) in enumerate(results):
        assert (progress.state, progress.applied, progress.pending) == ("ended", (ranks_of == rank).sum(), 0)
        assert (progress.applied_by_all, progress.batches) == (len(rows), version)


def test_one_graph_counts_its_own_rows() -> None:
    progress = Stream(DynamicGraph(device="cpu"), [(0, 1), (1, 2)]).run()
    assert progress.applied == progress.applied_by_all == 2


def test_on_kernels_of_the_device(backend_name: str) -> None:
    def program(comm: Communicator) -> set[Any] | None:
        G = ShardedGraph(comm)
        Stream(G, [[(comm.rank, 5)], [(comm.rank, 6)]], batch_edges=1, max_delay=0.5).run()
        found = G.gather()
        return None if found is None else pairs_of(found)

    assert run(program, 2, backend_name)[0] == {(0, 5), (0, 6), (1, 5), (1, 6)}


def test_ranks_whose_source_is_idle_take_part() -> None:
    done = Scripted()

    def program(comm: Communicator) -> tuple[Any, ...]:
        G = ShardedGraph(comm)
        source = Scripted([(0, 1)], [(1, 2)], [(2, 3)], ends=True) if comm.rank == 1 else done if comm.rank else []
        with Stream(G, source, batch_edges=1, max_delay=0.005) as stream:
            stream.start()
            wait_until(lambda: stream.progress().applied_by_all >= 3)
            if comm.rank == 2:
                assert stream.progress().state == "running"  # all others wait for this rank's source to end
                done.queue.put([(7, 8)])
                wait_until(lambda: stream.progress().arrived == 1)
                stream.drain(SOON)
                assert (stream.progress().applied, G.number_of_edges()) == (1, 4)
                done.queue.put(EOFError())
            progress = stream.run()
        return progress.batches, progress.arrived, G.version, G.number_of_edges()

    assert run(program) == [(4, 0, 4, 4), (4, 3, 4, 4), (4, 1, 4, 4)]
    assert done.committed == [1]  # once, though there were more turns


def test_a_rank_that_stops_ends_all() -> None:
    def program(comm: Communicator) -> tuple[str, int, int]:
        G = ShardedGraph(comm)
        source = Scripted([(comm.rank, 9)])
        with Stream(G, source, max_delay=0.005) as stream:
            progress = stream.run(None if comm.rank else lambda progress: progress.applied_by_all == 3)
        assert source.closed.wait(SOON)
        return progress.state, progress.applied, G.number_of_edges()

    assert run(program) == [("ended", 1, 3)] * 3


def caught_on_each_rank(error: type[Exception], sources: Any, **options: Any) -> list[tuple[str, Any]]:
    """Run streams that have to fail; return the error, the state, and the number of edges on each rank."""

    def program(comm: Communicator) -> tuple[str, Any]:
        G = ShardedGraph(comm, **options)
        stream = Stream(G, sources(comm.rank), batch_edges=1, max_delay=0.005)
        with pytest.raises(error) as caught:
            stream.run()
        stream.stop()  # the error came once
        assert G.insert_edges([]).inserted == 0  # the ranks are together
        return str(caught.value), (stream.progress().state, len(stream.progress().errors), G.number_of_edges())

    return run(program)


def test_a_source_that_fails_ends_all_with_one_error() -> None:
    found = caught_on_each_rank(
        StreamError,
        lambda rank: Scripted([(1, 2)], ConnectionError("no route")) if rank == 1 else Scripted([(0, rank)]),
    )
    assert [state for _, state in found] == [("failed", 1, 3)] * 3
    assert found[1][0] == "Stream: the source could not go on: no route"
    assert found[0][0] == found[2][0] == "Stream: rank 1 refused it: the source could not go on: no route"


def test_ids_that_no_graph_has_end_all_with_one_error() -> None:
    found = caught_on_each_rank(InputError, lambda rank: [[(0, 1)], [(-1 if rank == 2 else 3, 5)]])
    assert [state for _, state in found] == [("failed", 1, 1)] * 3
    assert found[2][0].startswith("Stream: `source` has -1 at row 0")
    assert found[0][0].startswith("Stream: rank 2 refused it: `source` has -1 at row 0")


def test_rows_that_cannot_be_read_end_all_with_one_error() -> None:
    found = caught_on_each_rank(
        InputError, lambda rank: [{"source": [0]} if rank == 0 else {"source": [0], "destination": [1]}]
    )
    assert [state[0] for _, state in found] == ["failed"] * 3
    assert "columns not found: destination" in found[0][0]
    assert found[1][0].startswith("Stream: rank 0 refused it: columns not found: destination")


def test_memory_that_runs_out_before_a_turn_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynstore.streams.staging import HostStaging

    bring = HostStaging.bring

    def fail(self: HostStaging, columns: Any) -> Any:
        if any(7 in part for column in columns for part in column):
            raise MemoryError("test")
        return bring(self, columns)

    monkeypatch.setattr(HostStaging, "bring", fail)
    with pytest.raises(RankError, match="rank 1 raised MemoryError: test") as caught:
        run(lambda comm: Stream(ShardedGraph(comm), [(7 * comm.rank, 1)]).run(), 2)
    assert isinstance(caught.value.__cause__, MemoryError | OutOfMemoryError)


def test_a_rank_that_dies_ends_all() -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        if comm.rank == 1:
            raise ValueError("no such disk")
        Stream(G, Scripted([(0, 1)]), max_delay=0.005).run()

    with pytest.raises(RankError, match="rank 1 raised ValueError: no such disk"):
        run(program, 2)


def test_questions_are_of_one_rank() -> None:
    def program(comm: Communicator) -> int:
        G = ShardedGraph(comm)
        with Stream(G, Scripted([(comm.rank, 4)]), max_delay=0.005) as stream:
            stream.start()
            wait_until(lambda: stream.progress().applied_by_all == 2)
            return int(stream.ask(lambda graph: len(graph.edge_table())).result(SOON).result)

    assert sum(run(program, 2)) == 2


def test_what_a_graph_on_several_ranks_has_not() -> None:
    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        for window in (Window(DynamicGraph(device="cpu"), 3), "1h"):
            with pytest.raises(InputError, match=r"a graph on several ranks does not support it yet\. Leave"):
                Stream(G, [(0, 1)], window)
        with pytest.raises(InputError, match="monitor: got 'pagerank'; a graph on several ranks"):
            Stream(G, [(0, 1)]).monitor("pagerank")

    run(program, 1)
