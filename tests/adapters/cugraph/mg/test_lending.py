"""Lending a sharded graph, on stand-ins for RAPIDS: what each rank hands on, its self-test, and what is refused.

Whether cuGraph computes the right thing with it is for ``tests/distributed/lending.py``, which needs GPUs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynstore import distributed
from dynstore.adapters.cugraph.borrowed.loading import Bridge
from dynstore.adapters.cugraph.mg import lend, lending, links
from dynstore.distributed import Communicator, ShardedGraph
from dynstore.errors import InputError, InputTypeError, MissingDependencyError, RankError
from tests.adapters.cugraph.mg.stand_ins import LentShard, here, rapids, run

__all__ = ["rapids"]  # a fixture

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (9, 2)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("directed", [True, False])
def test_each_rank_lends_its_rows(rapids: SimpleNamespace, ranks: int, directed: bool) -> None:
    wanted = {*EDGES, *(() if directed else [(v, u) for u, v in EDGES])}

    def program(comm: Communicator) -> Any:
        G = ShardedGraph(comm, directed=directed)
        G.insert_edges(EDGES[comm.rank :: comm.size])
        lent = [lend(G), lend(G, transposed=True)]
        assert here.rows == [comm.size], "all ranks in one row of the grid, once"
        return G._owners(np.arange(10, dtype=np.int32)), lent

    for rank, (owners, lent) in enumerate(run(program, ranks)):
        for transposed, (handle, graph) in enumerate(lent):
            assert handle == ("handle", 4711)
            assert graph.address == 4711
            assert set(zip(*(column.tolist() for column in graph.edges), strict=True)) == wanted
            assert (owners[graph.numbers] == rank).all()
            assert graph.starts[-1] == 10
            assert graph.num_edges == len(wanted)
            assert (graph.symmetric, graph.transposed) == (not directed, bool(transposed))
            assert (graph.end_of_wide, graph.end_of_medium) == (0, 0)


def test_a_version_is_packed_once(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, bool]] = []
    real = lending.make_rows

    def make_rows(call: Any, G: ShardedGraph, inward: bool, *rest: Any) -> Any:
        if G.comm.rank == 0 and G.number_of_vertices() == 10:
            made.append((G.version, inward))
        return real(call, G, inward, *rest)

    monkeypatch.setattr(lending, "make_rows", make_rows)

    def program(comm: Communicator) -> list[Any]:
        G = ShardedGraph(comm)
        G.insert_edges(EDGES if comm.rank else [])
        lend(G), lend(G), lend(G, True), lend(G, True)
        G.delete_edges([(0, 1)])
        edges = lend(G)[1].edges
        undirected = ShardedGraph(comm, directed=False)
        undirected.insert_edges(EDGES)
        lend(undirected), lend(undirected, True)
        return list(zip(*(column.tolist() for column in edges), strict=True))

    for edges in run(program, 2):
        assert sorted(edges) == sorted(EDGES[1:])
    assert made == [(1, False), (1, True), (2, False), (1, False)]


def test_what_cugraph_does_to_the_numbers_of_a_graph_stays_there(rapids: SimpleNamespace) -> None:
    """When cuGraph transposes a graph, it sorts the graph's vertices in place, by the degrees of its new rows."""

    def program(comm: Communicator) -> list[Any]:
        G = ShardedGraph(comm)
        G.insert_edges(EDGES if comm.rank else [])
        lend(G)[1].numbers[:] = 0
        return list(zip(*(column.tolist() for column in lend(G)[1].edges), strict=True))

    for edges in run(program, 2):
        assert sorted(edges) == sorted(EDGES)


def test_ids_of_any_kind_are_rows(rapids: SimpleNamespace) -> None:
    def program(comm: Communicator) -> Any:
        G = ShardedGraph(comm, renumber=True)
        G.insert_edges([("a", "b"), ("b", "c")])
        return G.vertex_ids(), lend(G)[1].edges

    for ids, edges in run(program, 2):
        named = [[ids[number] for number in column] for column in edges]
        assert sorted(zip(*named, strict=True)) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layout": "weights are in another place"}, "rank 1: cuGraph's graphs have changed: weights are in another"),
        ({"turned": 1}, r"rank 0: int32: \d+ of \d+ hops are wrong"),
        ({"weight": 2.0}, r"rank 0: int64: \d+ of \d+ ranks are wrong"),
    ],
)
def test_the_self_test_finds_what_is_wrong(rapids: SimpleNamespace, wrong: dict[str, Any], message: str) -> None:
    broken = type("Broken", (LentShard,), wrong)
    rapids.bridge = Bridge(broken, "a stand-in", broken)

    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        G.insert_edges(EDGES)
        for _ in range(2):  # a link that has failed is not kept
            with pytest.raises(MissingDependencyError, match=message):
                lend(G)
            assert G.number_of_edges() == len(EDGES)

    run(program, 2)


def test_what_cannot_be_lent(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "check_link", lambda *args: None)

    def program(comm: Communicator) -> None:
        G = ShardedGraph(comm)
        with pytest.raises(InputError, match=r"lend: transposed is (True|False) on rank \d and (True|False) on rank"):
            lend(G, transposed=comm.rank == 1)
        with pytest.raises(InputTypeError, match=r"lend: .*transposed.*wanted True or False"):
            lend(G, transposed=2 if comm.rank else False)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="lend: partition is 'range'; wanted 'hash'"):
            lend(ShardedGraph(comm, partition="range", max_vertices=10))
        with pytest.raises(InputTypeError, match=r"lend: G is a .*DynamicGraph; wanted a ShardedGraph"):
            lend(G.shard)  # type: ignore[arg-type]

    run(program, 2)


def refusal(ranks: int = 2) -> BaseException:
    """Return the error of rank 1, which all others have to repeat."""

    def program(comm: Communicator) -> BaseException:
        try:
            lend(ShardedGraph(comm))
        except (InputError, MissingDependencyError) as error:
            return error
        raise AssertionError("it was lent")

    return run(program, ranks)[-1]


def test_without_the_library(rapids: SimpleNamespace) -> None:
    rapids.bridge = Bridge(None, "DYNSTORE_BORROWED=off")
    assert "lend: rows cannot be lent: DYNSTORE_BORROWED=off" in str(refusal())


def test_a_release_that_was_not_tested(rapids: SimpleNamespace) -> None:
    (rapids.site / "pylibcugraph" / "VERSION").write_text("27.02.00\n")
    assert "lend: RAPIDS 27.02.00 has not been tested on several GPUs; wanted 26.10" in str(refusal())


def test_without_raft_dask(rapids: SimpleNamespace) -> None:
    del rapids.modules["raft_dask.common.nccl"]
    error = refusal()
    assert isinstance(error, MissingDependencyError)
    assert "lend: raft_dask cannot be imported" in str(error)
    assert "pip install raft-dask-cu13" in str(error)


def test_threads_are_refused(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "ThreadCommunicator", distributed.threads.ThreadCommunicator)
    assert "lend: the 2 ranks are threads of one process; cuGraph wants a process for each" in str(refusal())
    assert len(run(lambda comm: lend(ShardedGraph(comm)), 1)) == 1


def test_graphs_on_the_host_are_refused(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "DEVICE", "cuda")
    assert "lend: the graph is on 'cpu'; wanted ranks with a GPU each, as with NcclCommunicator" in str(refusal())


def test_an_error_on_one_rank_reaches_all(rapids: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "check_link", lambda *args: None)
    real = lending.make_rows

    def make_rows(*args: Any) -> Any:
        rows = real(*args)
        if args[1].comm.rank == 1:
            raise MemoryError("no room")
        return rows

    monkeypatch.setattr(lending, "make_rows", make_rows)

    def program(comm: Communicator) -> str:
        with pytest.raises((MemoryError, RankError)) as caught:
            lend(ShardedGraph(comm))
        return str(caught.value)

    messages = run(program, 2)
    assert all("lend" in message for message in messages)
    assert "rank 1" in messages[0]
