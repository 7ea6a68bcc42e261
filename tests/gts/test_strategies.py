"""Several devices have the results of one, by both strategies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dynstore import DynamicGraph, distributed, gts
from dynstore.distributed import Communicator
from dynstore.errors import FailedToConvergeError, InputError, InputTypeError, OutOfMemoryError, RankError


@pytest.fixture(scope="module")
def topology() -> gts.PagedTopology:
    rng = np.random.default_rng(11)
    src, dst = rng.integers(0, 30, (2, 70))
    src[:26], dst[:26] = 4, np.arange(26)
    graph = DynamicGraph(device="cpu")
    graph.insert_edges((src, dst))
    made = gts.build(graph, page_bytes=96)
    assert made.num_large > 1
    return made


def alone(topology: gts.PagedTopology) -> gts.GTS:
    return gts.GTS(topology, device="cpu", frames="pandas")


@pytest.mark.parametrize("strategy", ["P", "S"])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_search(topology: gts.PagedTopology, backend_name: str, strategy: str, num_devices: int) -> None:
    engine = gts.MultiGTS(topology, num_devices, strategy, device=backend_name, copy_bytes=0, frames="pandas")
    pd.testing.assert_frame_equal(engine.bfs(0), alone(topology).bfs(0))
    passes = engine.last_runs[0].passes
    assert passes > 2
    pd.testing.assert_frame_equal(engine.bfs([1, 4], depth_limit=1), alone(topology).bfs([1, 4], depth_limit=1))
    pd.testing.assert_frame_equal(
        engine.bfs(2, return_predecessors=False), alone(topology).bfs(2, return_predecessors=False)
    )


@pytest.mark.parametrize("strategy", ["P", "S"])
@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_ranks(topology: gts.PagedTopology, backend_name: str, strategy: str, num_devices: int) -> None:
    engine = gts.MultiGTS(topology, num_devices, strategy, device=backend_name, copy_bytes=0, frames="pandas")
    pd.testing.assert_frame_equal(engine.pagerank(tol=1e-2), alone(topology).pagerank(tol=1e-2), atol=1e-6)


def test_what_each_device_streams(topology: gts.PagedTopology) -> None:
    """Strategy-P: page mod N each. Strategy-S: all pages each, and the levels of their vertices."""
    num_pages, num_vertices = topology.num_pages, topology.num_vertices
    shared = gts.MultiGTS(topology, 2, "P", device="cpu", copy_bytes=0)
    shared.pagerank(max_iter=1, tol=0)
    assert [run.pages for run in shared.last_runs] == [-(-num_pages // 2), num_pages // 2]
    chunks = gts.MultiGTS(topology, 2, "S", device="cpu", copy_bytes=0)
    chunks.pagerank(max_iter=1, tol=0)
    assert [run.pages for run in chunks.last_runs] == [num_pages] * 2
    single = alone(topology)
    single.bfs(0)
    chunks.bfs(0)
    first, second = chunks.last_runs
    assert first.pages == second.pages == single.last_run.pages
    assert first.sent_bytes == second.sent_bytes > 0
    # Each device's host gets the levels of all.
    assert first.fetched_bytes == second.fetched_bytes == 4 * num_vertices * first.passes
    shared.bfs(0)
    assert sum(run.pages for run in shared.last_runs) == single.last_run.pages
    assert all(run.seconds > 0 for run in shared.last_runs)


@pytest.mark.parametrize("strategy", ["P", "S"])
def test_ranks_of_a_communicator(topology: gts.PagedTopology, backend_name: str, strategy: str) -> None:
    """Each rank makes an engine, and has the results of one device."""

    def program(comm: Communicator) -> list[pd.DataFrame]:
        engine = gts.ShardedGTS(comm, topology, strategy, copy_bytes=0, frames="pandas")
        searched, ranked = engine.bfs([1, 4]), engine.pagerank(tol=1e-2)
        assert engine.last_run.seconds > 0
        return [searched, ranked]

    wanted = alone(topology).bfs([1, 4]), alone(topology).pagerank(tol=1e-2)
    for found in distributed.run(program, 3, backend_name):  # type: ignore[arg-type]
        pd.testing.assert_frame_equal(found[0], wanted[0])
        pd.testing.assert_frame_equal(found[1], wanted[1], atol=1e-6)


@pytest.mark.parametrize("strategy", ["P", "S"])
def test_more_ranks_than_vertices(strategy: str) -> None:
    tiny = gts.build(([0, 1], [1, 2]), page_bytes=64)
    engine = gts.MultiGTS(tiny, 5, strategy, device="cpu", frames="pandas")
    assert engine.bfs(0)["distance"].tolist() == [0, 1, 2]
    pd.testing.assert_frame_equal(engine.pagerank(), gts.GTS(tiny, device="cpu", frames="pandas").pagerank())


@pytest.mark.parametrize("strategy", ["P", "S"])
@pytest.mark.parametrize("call", ["bfs", "pagerank"])
def test_what_one_rank_raises_is_raised_on_all(topology: gts.PagedTopology, strategy: str, call: str) -> None:
    def program(comm: Communicator) -> tuple[type, str, int]:
        engine = gts.ShardedGTS(comm, topology, strategy, copy_bytes=0, frames="pandas")
        if comm.rank == 1:
            engine._streamer.stream = fail  # type: ignore[method-assign]
        with pytest.raises((OutOfMemoryError, MemoryError)) as caught:
            engine.bfs(0) if call == "bfs" else engine.pagerank()
        engine._streamer.__dict__.pop("stream", None)
        assert engine.bfs(0).equals(wanted)  # the ranks are together
        return caught.type, str(caught.value), comm.rank

    def fail(*args: object) -> None:
        raise MemoryError("no room")

    wanted = alone(topology).bfs(0)
    text = f"{call}: rank 1 raised MemoryError: no room"
    first, second, third = distributed.run(program, 3, "cpu")
    assert first[:2] == third[:2] == (OutOfMemoryError, text)
    assert second[:2] == (MemoryError, "no room")


def test_ranks_that_differ_are_refused(topology: gts.PagedTopology) -> None:
    other = gts.build(([0, 1], [1, 2]), page_bytes=96)

    def program(comm: Communicator, strategies: str, topologies: list[gts.PagedTopology]) -> None:
        gts.ShardedGTS(comm, topologies[comm.rank], strategies[comm.rank])

    with pytest.raises(RankError, match="the strategy is 'P' on rank 0 and 'S' on rank 1; wanted the same on all"):
        distributed.run(lambda comm: program(comm, "PS", [topology] * 2), 2, "cpu")
    with pytest.raises(RankError, match="the number of vertices is 30 on rank 0 and 3 on rank 1; wanted the same"):
        distributed.run(lambda comm: program(comm, "PP", [topology, other]), 2, "cpu")
    with pytest.raises(RankError, match="ShardedGTS: unknown strategy 'Q'; known: 'P', 'S'"):
        distributed.run(lambda comm: program(comm, "Q", [topology]), 1, "cpu")
    with pytest.raises(InputTypeError, match="ShardedGTS: comm is a int; wanted a Communicator"):
        gts.ShardedGTS(2, topology)  # type: ignore[arg-type]


def test_an_error_of_a_thread_is_the_callers(topology: gts.PagedTopology) -> None:
    engine = gts.MultiGTS(topology, 2, device="cpu")

    def fail(*args: object) -> None:
        raise MemoryError("no room")

    engine._streamers[1].stream = fail  # type: ignore[method-assign]
    with pytest.raises(MemoryError, match="no room"):
        engine.bfs(0)


def test_wrong_calls(topology: gts.PagedTopology) -> None:
    with pytest.raises(InputError, match="MultiGTS: unknown strategy 'Q'; known: 'P', 'S'"):
        gts.MultiGTS(topology, 2, "Q")
    with pytest.raises(InputError, match="MultiGTS: num_devices is 0; wanted 1 or more"):
        gts.MultiGTS(topology, 0)
    with pytest.raises(InputTypeError, match="MultiGTS: streams is None"):
        gts.MultiGTS(topology, 2, streams=None)
    with pytest.raises(FailedToConvergeError, match="after 1 iterations"):
        gts.MultiGTS(topology, 2, device="cpu").pagerank(max_iter=1)


@pytest.mark.parametrize("strategy", ["P", "S"])
def test_arguments_that_are_wrong_or_differ_on_a_rank_are_refused_on_all(strategy: str) -> None:
    topology = gts.build(([0, 1, 2, 3], [1, 2, 3, 0]), page_bytes=64)

    def program(comm: Communicator) -> list[str]:
        engine, texts = gts.ShardedGTS(comm, topology, strategy, frames="pandas"), []
        for call in (
            lambda: engine.bfs(77 if comm.rank else 0),
            lambda: engine.bfs(comm.rank),
            lambda: engine.pagerank(alpha=0.5 + comm.rank),
            lambda: engine.pagerank(tol=0.1 + comm.rank),
        ):
            with pytest.raises(InputError) as caught:
                call()
            texts.append(str(caught.value))
        assert engine.bfs(0)["distance"].tolist() == [0, 1, 2, 3]
        return texts

    first, second = distributed.run(program, 2, "cpu", timeout=10.0)
    for texts in (first, second):
        assert "77" in texts[0]
        assert "start is [0] on rank 0 and [1] on rank 1" in texts[1]
        assert "alpha is 1.5" in texts[2]
        assert "tol is 0.1 on rank 0 and 1.1 on rank 1" in texts[3]
